//! Writes in place, the copies that make them safe, and the four cases of figure 1.
//!
//! After a power cut, a drive has to find its map on the platters. Three rules make that possible:
//!
//! - The newest copy of the map is in a map slot, or follows the newest entry of the log.
//! - No copy that follows an entry newer than the map slot is destroyed.
//! - Tracks that the newest copy says are valid are not overwritten.
//!
//! Also decides when cleaning is due, which bands are cleaned, and how far (section 2.3).

use std::ops::Range;

use crate::layer::bands::{Episode, HomeLocation, PhaseResult};
use crate::layer::prelude::*;
use crate::layer::vguard::Vguard;
use crate::layer::vguard::log::CachedTrack;
use crate::medium::interference::Interference;

/// The part of a host write on one track. Its data begins at sector `at` of `data`.
#[derive(Clone, Copy)]
struct TrackWrite<'a> {
    spot: &'a HomeLocation,
    sectors: u64,
    data: &'a Buf,
    at: u64,
}

impl Vguard {
    /// Writes sectors of one track: at once in the usual case, that nothing has to be copied or moved first.
    #[inline]
    pub(super) fn write_piece(
        &mut self,
        disk: &mut Disk,
        spot: &HomeLocation,
        n: u64,
        data: &Buf,
        at: u64,
    ) -> DiskResult {
        let following = (self.home.reach as u32).min(spot.following);
        let guarded = (1..=following).all(|i| self.log.has(spot.track + i));
        if guarded && self.is_plain() && !self.log.has(spot.track) {
            return disk.write(spot.pba, n, Cause::Host, data, at);
        }
        self.write_with_care(disk, TrackWrite { spot, sectors: n, data, at }, following)
    }

    /// True if a write in place needs no further checks: the law spares its own track, no band is being cleaned, and no track was rewritten
    /// since the newest copy of the map.
    #[inline]
    fn is_plain(&self) -> bool {
        self.settings.in_place && !self.cleaner.is_working() && self.saved.rewritten.is_empty()
    }

    /// Writes a piece to the cache or to its home. Cleans as long as the cache has no room for that.
    fn write_with_care(&mut self, disk: &mut Disk, piece: TrackWrite, following: u32) -> DiskResult {
        let spot = piece.spot;
        loop {
            self.finish_stage_over(disk, spot.track..spot.track + 1 + following)?;
            let written = match self.log.find(spot.track) {
                Some(&entry) => self.write_cached(disk, piece, &entry)?,
                None => self.write_home(disk, piece, following)?,
            };
            if written {
                return Ok(());
            }
            self.make_room(disk)?;
        }
    }

    /// Writes sectors of an uncached track in place, after copying to the cache the tracks that the write destroys (figure 1 a and b). If the
    /// write would also destroy sectors of its own track, moves this track to the cache instead. Returns `false` if the cache has no room.
    fn write_home(&mut self, disk: &mut Disk, piece: TrackWrite, following: u32) -> DiskResult<bool> {
        let track = piece.spot.track;
        if !self.settings.in_place {
            return self.relocate(disk, piece);
        }
        let followers = track + 1..=track + following;
        let missing = followers.clone().filter(|&next| !self.log.has(next)).count() as u64;
        if missing > 0 && !self.has_room(missing) {
            return Ok(false);
        }
        // Copied first, because the write destroys these tracks.
        for next in followers {
            if !self.log.has(next) {
                self.copy(disk, next)?;
                self.counts.guard_copies += 1;
            }
        }
        if self.saved.rewritten.iter().any(|tracks| tracks.contains(&track)) {
            // The newest copy of the map still says that the track is cached, so after a power cut the drive would return old data.
            self.save(disk)?;
        }
        disk.write(piece.spot.pba, piece.sectors, Cause::Host, piece.data, piece.at)?;
        Ok(true)
    }

    /// Writes sectors of a cached track in its cache slots if that destroys nothing valid (figure 1 c); otherwise moves the track to the log's
    /// head (d). Returns `false` if the cache has no room.
    fn write_cached(&mut self, disk: &mut Disk, piece: TrackWrite, entry: &CachedTrack) -> DiskResult<bool> {
        let track = piece.spot.track;
        let pba = entry.pba + piece.spot.offset;
        if !self.settings.in_place {
            return self.relocate(disk, piece);
        }
        // Moves the written track, as in figure 1d; section 2.1 of the paper would move the tracks that follow it.
        let Some(newest) = self.destroys(disk, track, pba, piece.sectors) else { return self.relocate(disk, piece) };
        if newest > self.saved.number || !self.saved.rewritten.is_empty() {
            // The write destroys copies of the map that a drive would need to follow the log from the map slot.
            self.save(disk)?;
        }
        disk.write(pba, piece.sectors, Cause::Host, piece.data, piece.at)?;
        Ok(true)
    }

    /// Returns the number of the newest entry whose copy of the map a write to a cached track would destroy, 0 if none; `None` if the write
    /// would destroy data of a cached track.
    fn destroys(&self, disk: &Disk, track: u32, pba: Pba, n: u64) -> Option<u64> {
        let lost = destroyed(disk, pba, n);
        let mut newest = 0;
        let own = self.log.number(track);
        for (number, other) in (own..).zip(self.log.entries.range((own - self.log.first) as usize..)) {
            // Entries from here on are out of reach, or on another lap.
            if other.pba >= lost.end || (number > own && other.pba < pba) {
                break;
            }
            let end = other.pba + self.home.sectors(other.track);
            if other.valid && lost.start < end {
                return None;
            }
            if lost.start < end + self.settings.copy_sectors && end < lost.end {
                newest = number;
            }
        }
        Some(newest)
    }

    /// Moves a track to the log's head, with the host's write in it.
    fn relocate(&mut self, disk: &mut Disk, piece: TrackWrite) -> DiskResult<bool> {
        if !self.has_room(1) {
            return Ok(false);
        }
        let (spot, n) = (piece.spot, piece.sectors);
        let sectors = spot.offset + spot.left;
        let mut buf = disk.buf(sectors);
        if n < sectors {
            disk.read_in_any_order(Pba(self.place(spot).0 - spot.offset), sectors, &mut buf)?;
        }
        buf.put(spot.offset, piece.data, piece.at, n);
        self.append(disk, spot.track, &buf)?;
        self.counts.relocations += 1;
        Ok(true)
    }

    /// Copies a track to the log's head.
    fn copy(&mut self, disk: &mut Disk, track: u32) -> DiskResult {
        let sectors = self.home.sectors(track);
        let start = self.log.find(track).map_or(self.home.start(track), |entry| entry.pba);
        let mut buf = disk.buf(sectors);
        if sectors > 0 {
            disk.read_in_any_order(start, sectors, &mut buf)?;
        }
        self.append(disk, track, &buf)
    }

    /// Appends a track and a copy of the map to the log.
    fn append(&mut self, disk: &mut Disk, track: u32, buf: &Buf) -> DiskResult {
        let sectors = self.home.sectors(track);
        let (position, slots) = self.log.place(self.log.head, sectors);
        if position + slots + self.home.reach > self.saved.head + self.log.slots() {
            // The append would overwrite the entry from which the log is followed.
            self.save(disk)?;
        }
        let written = sectors + self.settings.copy_sectors;
        let mut entry = disk.metadata(written);
        entry.put(0, buf, 0, sectors);
        disk.write(self.log.places.start(self.log.slot(position)), written, Cause::Host, &entry, 0)?;
        // After the write: a torn copy must not replace the old one.
        self.log.push(track, position, slots);
        (self.saved.tail, self.saved.rewritten) = (self.log.tail(), Vec::new());
        self.note_fill();
        Ok(())
    }

    /// Updates the largest number of cached tracks so far.
    pub(super) fn note_fill(&mut self) {
        let (log, counts) = (&self.log, &mut self.counts);
        counts.cached_tracks_max = counts.cached_tracks_max.max(log.valid_entries);
        counts.cache_tracks_active_max = counts.cache_tracks_active_max.max(log.active_slots);
        counts.log_length_max = counts.log_length_max.max(log.length());
    }

    /// True if this many tracks can be appended.
    fn has_room(&self, tracks: u64) -> bool {
        let places = &self.log.places;
        // The worst case: each entry takes the most slots, and the first one has to skip the end of the lap.
        let end = self.log.head + places.skipped + tracks * places.most + self.home.reach;
        end <= self.saved.tail + self.log.slots() && self.log.valid_entries + tracks <= self.settings.entries_max
    }

    /// Before tracks change, finishes a stage of cleaning that holds one of them in memory.
    fn finish_stage_over(&mut self, disk: &mut Disk, tracks: Range<u32>) -> DiskResult {
        while overlap(&self.cleaner.held(), &tracks) {
            self.clean_a_phase(disk)?;
        }
        Ok(())
    }
}

#[inline]
fn overlap(a: &Range<u32>, b: &Range<u32>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The sectors that a write may destroy, also if a power cut tears it after its first sector.
#[inline]
fn destroyed(disk: &Disk, pba: Pba, n: u64) -> Range<Pba> {
    let (law, g): (&Interference, _) = (disk.interference(), disk.geometry());
    law.downstream_start(g, pba, 1)..law.downstream_end(g, pba, n)
}

words! {
    /// Part of an episode that a command does before it is served. The paper leaves it open.
    pub(super) enum CommandShare {
        Phase = "phase",
        Band = "band",
        Episode = "episode",
    }
}

impl Vguard {
    /// Cleans before a command: one phase, or as many as are needed to keep up. Returns `false` if nothing was due.
    #[inline]
    pub(super) fn clean_what_is_due(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if self.is_cleaning() && !self.episode.is_idle() || self.overdue() > 0 {
            return self.clean_phases(disk);
        }
        Ok(false)
    }

    /// Does one phase of cleaning in idle time; returns `false` if nothing is cached.
    #[cold]
    pub(super) fn clean_idly(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if !self.is_cleaning() {
            if self.log.valid_entries == 0 {
                return Ok(false);
            }
            self.begin_episode(disk, Episode::begin_idly);
        }
        self.clean_a_phase(disk)?;
        Ok(true)
    }

    #[inline]
    fn is_cleaning(&self) -> bool {
        self.cleaner.is_working() || self.episode.is_running()
    }

    /// By how many tracks cached tracks (α), the log (β) or used slots exceed their threshold, whichever is most.
    #[inline]
    fn overdue(&self) -> u64 {
        let cached = self.log.valid_entries.saturating_sub(self.settings.alpha);
        let length = self.log.length().saturating_sub(self.settings.beta);
        let slots = (self.log.head - self.log.tail()).saturating_sub(self.settings.slots_limit);
        cached.max(length).max(if self.log.valid_entries > 0 { slots } else { 0 })
    }

    fn clean_phases(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        self.begin_episode_if_none(disk);
        self.clean_a_phase(disk)?;
        while self.must_go_on() {
            self.clean_a_phase(disk)?;
        }
        Ok(true)
    }

    /// True if the command has to wait for another phase.
    fn must_go_on(&self) -> bool {
        let by_spread = match self.settings.spread {
            CommandShare::Phase => false,
            CommandShare::Band => self.cleaner.is_working(),
            CommandShare::Episode => self.is_cleaning(),
        };
        by_spread || self.episode.falls_short_of(self.overdue())
    }

    /// Makes room in a full cache while the host waits: saves the map if that frees slots, or else does a phase of cleaning.
    pub(super) fn make_room(&mut self, disk: &mut Disk) -> DiskResult {
        if self.saved.tail < self.log.tail() {
            return self.save(disk);
        }
        self.begin_episode_if_none(disk);
        self.clean_a_phase(disk)
    }

    fn begin_episode_if_none(&mut self, disk: &Disk) {
        if !self.is_cleaning() {
            self.counts.first_cleaning_request.get_or_insert(disk.requests());
            self.begin_episode(disk, Episode::begin);
        }
    }

    /// Begins an episode with the bands of the oldest cached tracks. It frees all cached tracks that these bands rewrite.
    fn begin_episode(&mut self, disk: &Disk, begin: fn(&mut Episode, &[u32], u64)) {
        let (mut bands, mut frees) = ([0; Episode::BANDS], 0);
        let mut count = 0;
        for entry in self.log.valid() {
            let band = self.home.band_of(entry.track);
            if !bands[..count].contains(&band) {
                bands[count] = band;
                count += 1;
                let plan = self.plan(disk.interference(), band);
                frees += plan.map_or(0, |tracks| tracks.filter(|&t| self.log.has(t)).count()) as u64;
            }
            if count == bands.len() {
                break;
            }
        }
        begin(&mut self.episode, &bands[..count], frees);
    }

    /// The tracks of a band to rewrite; `None` if none is cached. Tracks before the first cached one are skipped, unless the rewrite may
    /// damage sectors upstream (DPID). With `partial`, stops after the oldest cached track as soon as all tracks that this damages are cached.
    fn plan(&self, law: &Interference, band: u32) -> Option<Range<u32>> {
        let tracks = self.home.tracks_of(band);
        let cached = |t: &u32| self.log.has(*t);
        let first = tracks.clone().find(cached)?;
        let oldest = tracks.clone().filter(cached).min_by_key(|&t| self.log.number(t))?;
        let start = if law.upstream() > 0 { tracks.start } else { first };
        let stops = |end: &u32| cached(end) && (*end..self.home.damaged_end(law, *end - 1)).all(|t| cached(&t));
        let end = (oldest + 1..tracks.end).find(|end| self.settings.partial && stops(end)).unwrap_or(tracks.end);
        Some(start..end)
    }

    /// Does one phase of the current band, or of the next one of the episode.
    pub(super) fn clean_a_phase(&mut self, disk: &mut Disk) -> DiskResult {
        while !self.cleaner.is_working() {
            let Some(band) = self.episode.next_band() else { return Ok(()) };
            if let Some(tracks) = self.plan(disk.interference(), band) {
                // Does not know which tracks were never written.
                self.cleaner.begin(tracks, u32::MAX);
            }
        }
        let (home, log) = (&self.home, &self.log);
        let done = self.cleaner.phase(
            disk,
            home,
            |_| false,
            |disk, tracks, buf, at| {
                let mut any = false;
                for track in tracks.clone() {
                    let sectors = home.sectors(track);
                    if let Some(entry) = log.find(track).filter(|_| sectors > 0) {
                        let before = home.sectors_of(tracks.start..track);
                        disk.read(entry.pba, sectors, Cause::Destage, buf, at + before)?;
                        any = true;
                    }
                }
                Ok(any)
            },
        )?;
        if let PhaseResult::Stage { tracks, over } = done {
            self.free(tracks);
            self.counts.bands_cleaned += u64::from(over);
            if over && self.episode.is_last_band() {
                // Ends the episode now rather than with the next command's phase.
                self.episode.next_band();
            }
        }
        Ok(())
    }

    /// Drops the cached copies of home tracks that were rewritten.
    pub(super) fn free(&mut self, tracks: Range<u32>) {
        tracks.clone().for_each(|track| self.log.drop(track));
        self.saved.rewritten.push(tracks);
    }
}
