//! Virtual Guard: Shafaei & Desnoyers, "Virtual Guard: A Track-Based Translation Layer for Shingled Disks", HotStorage 2017.
//!
//! Writes go in place; the track that they would damage is copied to a persistent cache first. Bands are cleaned when too much is cached.
//! Under laws that count in sectors, a write damages sectors of its own track. Then nothing can be written in place, and the written track
//! itself is moved to the cache. Left out: the timing of commands in the paper's own simulator.
//!
//! # After a power cut
//!
//! A drive has to find its map on the platters. Three rules make that possible:
//!
//! - The newest copy of the map is in a map slot, or follows the newest entry of the log.
//! - No copy that follows an entry newer than the map slot is destroyed.
//! - Tracks that the newest copy says are valid are not overwritten.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bands::{BandKeys, BufferKeys, Cleaner, EPISODE_BANDS, Home, HomeLocation};
use super::interface::{IdleKeys, record_sectors};
use super::runs::Joined;
use crate::geometry::{Divisor, Geometry};
use crate::layer::prelude::*;
use crate::medium::interference::Interference;
use crate::random::bits_under;
use crate::units::Track;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<VguardKeys>(
    "vguard",
    "Writes are made in place, after the track that they would damage has been copied to a persistent cache.",
    "Shafaei & Desnoyers 2017",
    &Form::ALL,
);

keys! {
    struct VguardKeys {
        /// Bands and the persistent cache.
        bands: BandKeys;
        /// Number of cached tracks above which cleaning is due; auto is 2/3 of `cache_tracks`.
        alpha: Option<u64> = THRESHOLD, "auto";
        /// Length of the log above which cleaning is due, in copied tracks, including invalid ones; auto is 2/3 of
        /// `cache_tracks`.
        beta: Option<u64> = THRESHOLD, "auto";
        /// Memory.
        buffer: BufferKeys;
        /// Whether cleaning a band stops before the next cached track; otherwise it continues to the band's end.
        partial: bool = Switch, "on";
        /// How much cleaning of an episode a command does before it is served: one phase of a band (phase), a whole
        /// band (band), or the whole episode (episode).
        spread: CommandShare = CommandShare::WORDS, "phase";
        /// Idle time. The paper leaves it unused: it would take away the guards of what is written often (section 2.3).
        idle: IdleKeys;
    }
}

words! {
    /// Part of an episode that a command does before it is served. The paper leaves it open.
    enum CommandShare {
        Phase = "phase",
        Band = "band",
        Episode = "episode",
    }
}

const THRESHOLD: Or<Count> = Or("auto", Count(1, 1 << 30));

impl LayerKeys for VguardKeys {
    fn settled(self, drive: &Drive) -> VguardKeys {
        let (alpha, beta) = self.thresholds(drive);
        let bands = BandKeys { cache_tracks: Some(self.bands.cache_tracks(drive)), ..self.bands };
        VguardKeys { bands, alpha: Some(alpha), beta: Some(beta), ..self }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(Vguard::new(drive, self)?))
    }
}

/// One in this many cache tracks is kept free by cleaning (assumption).
const KEPT_FREE_SHARE: u64 = 64;

/// The copies of the map on the platters from which a drive would read its map after a power cut.
#[derive(Default, Serialize, Deserialize)]
struct SavedMap {
    /// The log's tail in the newest copy. Slots before it may be overwritten.
    tail: u64,
    /// Number of the newest entry when the last map slot was written, and the log's head then. The log would be followed from there.
    number: u64,
    head: u64,
    next_slot: usize,
    /// Home tracks that the newest copy says are cached or being cleaned, and that were rewritten since.
    rewritten: Vec<Range<u32>>,
}

struct Vguard {
    home: Home,
    log: TrackLog,
    cleaner: Cleaner,
    /// Thresholds on cached tracks and on the log's length.
    alpha: u64,
    beta: u64,
    partial: bool,
    spread: CommandShare,
    idle_delay: Option<Nanos>,
    /// True if a write does not damage the rest of its own track.
    in_place: bool,
    /// Cleaning is due when the log takes more slots than this, so that commands rarely find no room.
    slots_limit: u64,
    /// The most valid entries that a copy of the map has room for, and bits of an entry.
    entries_max: u64,
    entry_bits: u64,
    saved: SavedMap,
    counts: VguardCounts,
}

state! {
    Vguard {
        parts: log;
        values: cleaner, saved, counts;
        built: home, alpha, beta, partial, spread, idle_delay, in_place, slots_limit, entries_max, entry_bits;
    }
}

counts! {
    VguardCounts {
        guard_copies,
        relocations,
        bands_cleaned,
        map_writes,
        cached_tracks_max,
        cache_tracks_active_max,
        log_length_max
    }
}

impl VguardKeys {
    /// The thresholds on cached tracks and on the log's length.
    fn thresholds(&self, drive: &Drive) -> (u64, u64) {
        let auto = self.bands.cache_tracks(drive) * 2 / 3;
        (self.alpha.unwrap_or(auto), self.beta.unwrap_or(auto))
    }
}

/// Words of a copy of the map before its entries: kind, number, place and track of the newest entry, the stage of cleaning under way.
const COPY_HEAD_WORDS: u64 = 9;

/// Sectors of a copy of the map. A copy follows each cached track, and now and then is written to a slot of its own. It records which slots
/// hold valid entries (a bit for each) and of which tracks: about 30 KB for the 5 TB drive, as in the paper. The next entry overwrites a torn
/// one, which may damage sectors upstream (DPID); a copy is at least as long, so that no track's data is within that distance.
fn copy_sectors(drive: &Drive, slots: u64, entries_max: u64) -> u64 {
    let words = (entries_max * track_bits(drive)).div_ceil(64) + slots.div_ceil(64);
    record_sectors(COPY_HEAD_WORDS + words).max(drive.interference.upstream())
}

fn track_bits(drive: &Drive) -> u64 {
    bits(drive.geometry.tracks.min(u64::from(u32::MAX)))
}

/// Bits needed to number `count` things.
fn bits(count: u64) -> u64 {
    u64::from(bits_under(count.max(2)))
}

impl Vguard {
    fn new(drive: &Drive, keys: &VguardKeys) -> Result<Vguard, Error> {
        let cache_tracks = keys.bands.cache_tracks(drive);
        let (alpha, beta) = keys.thresholds(drive);
        // Cleaning is paced, so at times a little more than alpha is cached.
        let entries_max = alpha.saturating_add((alpha / 16).max(64)).min(cache_tracks);
        let copy_sectors = copy_sectors(drive, cache_tracks, entries_max);
        let home = Home::new("vguard", drive, &keys.bands, &keys.buffer, copy_sectors)?;
        let log = TrackLog::new(&home, &drive.geometry, cache_tracks, copy_sectors);
        let Some(log) = log.filter(|log| log.slots_of_a_write(home.reach) <= cache_tracks) else {
            return Err(Error::Impossible(format!(
                "a cache of {cache_tracks} tracks is too small for the tracks that one write may move there: raise \
                 vguard.cache_tracks"
            )));
        };
        let kept_free = cache_tracks / KEPT_FREE_SHARE
            + log.slots_of_a_write(home.reach)
            + 2 * (1 + home.reach) * log.entry_slots_max;
        Ok(Vguard {
            log,
            home,
            cleaner: Cleaner::default(),
            alpha,
            beta,
            partial: keys.partial,
            spread: keys.spread,
            idle_delay: keys.idle.delay(),
            in_place: !matches!(drive.interference.form(), Some(Form::Blocks | Form::Distances)),
            slots_limit: cache_tracks.saturating_sub(kept_free),
            entries_max,
            entry_bits: track_bits(drive) + bits(cache_tracks),
            saved: SavedMap::default(),
            counts: VguardCounts::default(),
        })
    }

    /// Current place of a sector.
    #[inline]
    fn place(&self, spot: &HomeLocation) -> Pba {
        if let Some(entry) = self.log.find(spot.track) {
            return entry.pba + spot.offset;
        }
        // While a band is rewritten, the only intact copy of a track may be in the scratch pad.
        if self.cleaner.is_working()
            && let Some(start) = self.cleaner.scratch_copy(&self.home, spot.track)
        {
            return start + spot.offset;
        }
        spot.pba
    }

    /// Reads several tracks; sectors that are contiguous on the platters in one access.
    fn read_long(&self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        let (mut run, mut done) = (Joined::default(), 0);
        let mut access = |pba, at, sectors| disk.read(pba, sectors, Cause::Host, out, at);
        while done < n {
            let spot = self.home.locate(lba + done);
            let sectors = spot.left.min(n - done);
            run.add((self.place(&spot), done, sectors), &mut access)?;
            done += sectors;
        }
        run.end(access)
    }

    /// Writes a copy of the map to the next map slot.
    fn save(&mut self, disk: &mut Disk) -> DiskResult {
        let slot = self.saved.next_slot;
        disk.write_metadata(self.home.maps[slot], self.log.copy_sectors)?;
        // After the write, because a torn copy frees nothing.
        self.saved = SavedMap {
            tail: self.log.tail(),
            number: self.log.next_number() - 1,
            head: self.log.head,
            next_slot: (slot + 1) % self.home.maps.len(),
            rewritten: Vec::new(),
        };
        self.counts.map_writes += 1;
        Ok(())
    }

    /// Memory of a map of `entries` entries (equation 1 of the paper).
    fn bytes_of_map(&self, entries: u64) -> u64 {
        (entries * self.entry_bits).div_ceil(8)
    }
}

/// A cached track in the log.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct CachedTrack {
    track: u32,
    /// False if the track was cached again or rewritten at home since.
    valid: bool,
    slots: u64,
    /// Position of the first slot.
    position: u64,
    /// First sector of the data.
    pba: Pba,
}

/// The log: whole tracks of the cache, its slots, and the exception map that finds cached tracks.
///
/// An entry is the data of a home track, followed by a copy of the map; it begins at the start of a slot, and takes as many slots as it needs.
/// Positions count slots and never wrap.
struct TrackLog {
    geometry: Geometry,
    slots: Divisor,
    copy_sectors: u64,
    /// The most slots of an entry, and slots that may be skipped at the end of a lap.
    entry_slots_max: u64,
    skipped_slots_max: u64,
    /// Entries, beginning with the oldest valid one.
    entries: VecDeque<CachedTrack>,
    /// The number of the oldest entry. Numbers count from 1 and are never reused.
    first: u64,
    /// Position of the next entry, unless it does not fit there and begins with the next lap.
    head: u64,
    /// The number of each home track's valid entry; 0 if the track is not cached.
    numbers: Vec<u64>,
    valid_entries: u64,
    /// Slots of valid entries.
    active_slots: u64,
}

state! {
    TrackLog {
        sized: numbers;
        values: entries, first, head, valid_entries, active_slots;
        built: geometry, slots, copy_sectors, entry_slots_max, skipped_slots_max;
    }
}

impl TrackLog {
    /// An empty log of the cache's first `slots` tracks; `None` if the longest home track with a copy of the map does not fit.
    fn new(home: &Home, geometry: &Geometry, slots: u64, copy_sectors: u64) -> Option<TrackLog> {
        let mut log = TrackLog {
            geometry: geometry.clone(),
            slots: Divisor::new(slots),
            copy_sectors,
            entry_slots_max: 0,
            skipped_slots_max: 0,
            entries: VecDeque::new(),
            first: 1,
            head: 0,
            numbers: vec![0; home.tracks as usize],
            valid_entries: 0,
            active_slots: 0,
        };
        let longest = home.longest_track();
        let taken: Vec<u64> = (0..slots).map_while(|slot| log.taken_at(slot, longest)).collect();
        log.entry_slots_max = *taken.iter().max()?;
        log.skipped_slots_max = slots - taken.len() as u64;
        Some(log)
    }

    /// Slots that one write may need, which moves up to `reach` tracks.
    fn slots_of_a_write(&self, reach: u64) -> u64 {
        self.skipped_slots_max + reach.max(1) * self.entry_slots_max + reach
    }

    /// The first sector of the slot at a position.
    fn start(&self, position: u64) -> Pba {
        self.geometry.track_start(Track(self.slots.remainder(position)))
    }

    /// Number of slots of an entry with `sectors` of data from a slot on; `None` if it does not fit before the end of the lap.
    fn taken_at(&self, slot: u64, sectors: u64) -> Option<u64> {
        let start = |slot: u64| self.geometry.track_start(Track(slot));
        let end = (slot + 1..=self.slots.value).find(|&end| start(end) - start(slot) >= sectors + self.copy_sectors)?;
        Some(end - slot)
    }

    /// The first position from `head` on for an entry with `sectors` of data, and the number of slots that it would take.
    fn place(&self, head: u64, sectors: u64) -> (u64, u64) {
        let slot = self.slots.remainder(head);
        match self.taken_at(slot, sectors) {
            Some(slots) => (head, slots),
            None => {
                let next_lap = head + (self.slots.value - slot);
                (next_lap, self.taken_at(0, sectors).unwrap_or(self.entry_slots_max))
            }
        }
    }

    /// The valid entry of a home track.
    #[inline]
    fn find(&self, track: u32) -> Option<&CachedTrack> {
        let number = self.numbers[track as usize];
        (number != 0).then(|| &self.entries[(number - self.first) as usize])
    }

    /// True if a home track is cached.
    fn has(&self, track: u32) -> bool {
        self.numbers[track as usize] != 0
    }

    /// The number that the next entry gets.
    fn next_number(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Tracks copied from the oldest valid entry to the head, invalid ones included.
    fn length(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The position of the oldest valid entry, or the head if there is none.
    fn tail(&self) -> u64 {
        self.entries.front().map_or(self.head, |entry| entry.position)
    }

    /// Appends an entry of a home track, which makes an older one invalid.
    fn push(&mut self, track: u32, position: u64, slots: u64) {
        self.drop(track);
        self.numbers[track as usize] = self.next_number();
        let pba = self.start(position);
        self.entries.push_back(CachedTrack { track, valid: true, slots, position, pba });
        self.head = position + slots;
        self.valid_entries += 1;
        self.active_slots += slots;
    }

    /// Makes the entry of a home track invalid.
    fn drop(&mut self, track: u32) {
        let number = std::mem::take(&mut self.numbers[track as usize]);
        if number == 0 {
            return;
        }
        let entry = &mut self.entries[(number - self.first) as usize];
        entry.valid = false;
        self.valid_entries -= 1;
        self.active_slots -= entry.slots;
        while self.entries.front().is_some_and(|entry| !entry.valid) {
            self.entries.pop_front();
            self.first += 1;
        }
    }
}

/// The part of a host write on one track. Its data begins at sector `at` of `data`.
#[derive(Clone, Copy)]
struct TrackWrite<'a> {
    spot: &'a HomeLocation,
    sectors: u64,
    data: &'a Buf,
    at: u64,
}

impl Vguard {
    /// Writes sectors of one track to the cache or to their home. Cleans as long as the cache has no room for that.
    fn write_piece(&mut self, disk: &mut Disk, piece: TrackWrite) -> DiskResult {
        let spot = piece.spot;
        let following = (self.home.reach as u32).min(spot.following);
        loop {
            // Tracks that a stage of cleaning holds in memory must not change before the stage is done.
            while self.cleaner.holds_any(spot.track..spot.track + 1 + following) {
                self.clean_a_phase(disk)?;
            }
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
        if !self.in_place {
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
                let sectors = self.home.sectors(next);
                let mut buf = disk.buf(sectors);
                // A track of defects alone has no sectors.
                if sectors > 0 {
                    disk.read_in_any_order(self.home.start(next), sectors, &mut buf)?;
                }
                self.append(disk, next, &buf)?;
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
        if !self.in_place {
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
        // The sectors that the write may destroy, also if a power cut tears it after its first sector.
        let (law, g) = (disk.interference(), disk.geometry());
        let lost = law.downstream_start(g, pba, 1)..law.downstream_end(g, pba, n);
        let mut newest = 0;
        let own = self.log.numbers[track as usize];
        for (number, other) in (own..).zip(self.log.entries.range((own - self.log.first) as usize..)) {
            // Entries from here on are out of reach, or on another lap.
            if other.pba >= lost.end || (number > own && other.pba < pba) {
                break;
            }
            let end = other.pba + self.home.sectors(other.track);
            if other.valid && lost.start < end {
                return None;
            }
            if lost.start < end + self.log.copy_sectors && end < lost.end {
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

    /// Appends a track and a copy of the map to the log.
    fn append(&mut self, disk: &mut Disk, track: u32, buf: &Buf) -> DiskResult {
        let sectors = self.home.sectors(track);
        let (position, slots) = self.log.place(self.log.head, sectors);
        if position + slots + self.home.reach > self.saved.head + self.log.slots.value {
            // The append would overwrite the entry from which the log is followed.
            self.save(disk)?;
        }
        let written = sectors + self.log.copy_sectors;
        let mut entry = disk.metadata(written);
        entry.put(0, buf, 0, sectors);
        disk.write(self.log.start(position), written, Cause::Host, &entry, 0)?;
        // After the write: a torn copy must not replace the old one.
        self.log.push(track, position, slots);
        (self.saved.tail, self.saved.rewritten) = (self.log.tail(), Vec::new());
        self.note_fill();
        Ok(())
    }

    /// Updates the largest number of cached tracks so far.
    fn note_fill(&mut self) {
        let (log, counts) = (&self.log, &mut self.counts);
        counts.cached_tracks_max = counts.cached_tracks_max.max(log.valid_entries);
        counts.cache_tracks_active_max = counts.cache_tracks_active_max.max(log.active_slots);
        counts.log_length_max = counts.log_length_max.max(log.length());
    }

    /// True if this many tracks can be appended.
    fn has_room(&self, tracks: u64) -> bool {
        let log = &self.log;
        // The worst case: each entry takes the most slots, and the first one has to skip the end of the lap.
        let end = log.head + log.skipped_slots_max + tracks * log.entry_slots_max + self.home.reach;
        end <= self.saved.tail + log.slots.value && self.log.valid_entries + tracks <= self.entries_max
    }
}

impl Vguard {
    /// Cleans before a command: one phase, or as many as are needed to keep up. Returns `false` if nothing was due.
    fn clean_due(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if !self.cleaner.is_due() && self.overdue() == 0 {
            return Ok(false);
        }
        self.begin_episode(disk, Need::Must);
        loop {
            self.clean_a_phase(disk)?;
            let waits = match self.spread {
                CommandShare::Phase => false,
                CommandShare::Band => self.cleaner.is_working(),
                CommandShare::Episode => self.cleaner.is_cleaning(),
            };
            if !waits && !self.cleaner.falls_short_of(self.overdue()) {
                return Ok(true);
            }
        }
    }

    /// Does one phase of cleaning in idle time; returns `false` if nothing is cached.
    #[cold]
    fn clean_idly(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if !self.cleaner.is_cleaning() && self.log.valid_entries == 0 {
            return Ok(false);
        }
        self.begin_episode(disk, Need::Spare);
        self.clean_a_phase(disk)?;
        Ok(true)
    }

    /// By how many tracks cached tracks (α), the log (β) or used slots exceed their threshold, whichever is most.
    fn overdue(&self) -> u64 {
        let cached = self.log.valid_entries.saturating_sub(self.alpha);
        let length = self.log.length().saturating_sub(self.beta);
        let slots = (self.log.head - self.log.tail()).saturating_sub(self.slots_limit);
        cached.max(length).max(if self.log.valid_entries > 0 { slots } else { 0 })
    }

    /// Makes room in a full cache while the host waits: saves the map if that frees slots, or else does a phase of cleaning.
    fn make_room(&mut self, disk: &mut Disk) -> DiskResult {
        if self.saved.tail < self.log.tail() {
            return self.save(disk);
        }
        self.begin_episode(disk, Need::Must);
        self.clean_a_phase(disk)
    }

    /// Begins an episode with the bands of the oldest cached tracks, unless one is in progress. It frees all cached tracks that these bands
    /// rewrite.
    fn begin_episode(&mut self, disk: &Disk, need: Need) {
        if self.cleaner.is_cleaning() {
            return;
        }
        if need == Need::Must {
            self.counts.first_cleaning_request.get_or_insert(disk.requests());
        }
        let (mut bands, mut frees) = (Vec::with_capacity(EPISODE_BANDS), 0);
        for entry in self.log.entries.iter().filter(|entry| entry.valid) {
            let band = self.home.band_of(entry.track);
            if !bands.contains(&band) {
                bands.push(band);
                let plan = self.plan(disk.interference(), band);
                frees += plan.map_or(0, |tracks| tracks.filter(|&t| self.log.has(t)).count()) as u64;
            }
            if bands.len() == EPISODE_BANDS {
                break;
            }
        }
        self.cleaner.begin_episode(&bands, frees, need);
    }

    /// The tracks of a band to rewrite; `None` if none is cached. Tracks before the first cached one are skipped, unless the rewrite may
    /// damage sectors upstream (DPID). With `partial`, stops after the oldest cached track as soon as all tracks that this damages are cached.
    fn plan(&self, law: &Interference, band: u32) -> Option<Range<u32>> {
        let tracks = self.home.tracks_of(band);
        let is_cached = |track: &u32| self.log.has(*track);
        let first = tracks.clone().find(is_cached)?;
        let oldest = tracks.clone().filter(is_cached).min_by_key(|&track| self.log.numbers[track as usize])?;
        let start = if law.upstream() > 0 { tracks.start } else { first };
        let can_stop_before = |track: &u32| {
            let mut damaged = *track..self.home.damaged_end(law, *track - 1);
            // The paper stops at a cached track, even if nothing there is damaged.
            is_cached(track) && damaged.all(|track| is_cached(&track))
        };
        let early_end = if self.partial { (oldest + 1..tracks.end).find(can_stop_before) } else { None };
        Some(start..early_end.unwrap_or(tracks.end))
    }

    /// Does one phase of the current band, or of the next one of the episode.
    fn clean_a_phase(&mut self, disk: &mut Disk) -> DiskResult {
        while !self.cleaner.is_working() {
            let Some(band) = self.cleaner.next_band() else { return Ok(()) };
            if let Some(tracks) = self.plan(disk.interference(), band) {
                // Does not know which tracks were never written.
                self.cleaner.begin(tracks, u32::MAX);
            }
        }
        let (home, log) = (&self.home, &self.log);
        let rewritten = self.cleaner.phase(
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
        if let Some(tracks) = rewritten {
            // Their cached copies are of no use any more.
            tracks.clone().for_each(|track| self.log.drop(track));
            self.saved.rewritten.push(tracks);
            self.counts.bands_cleaned += u64::from(!self.cleaner.is_working());
        }
        Ok(())
    }
}

impl Layer for Vguard {
    fn capacity(&self) -> Capacity {
        self.home.capacity
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        let spot = self.home.locate(lba);
        if n <= spot.left {
            return disk.read(self.place(&spot), n, Cause::Host, out, 0);
        }
        self.read_long(disk, lba, n, out)
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut done = 0;
        while done < n {
            let spot = self.home.locate(lba + done);
            let sectors = spot.left.min(n - done);
            self.write_piece(disk, TrackWrite { spot: &spot, sectors, data, at: done })?;
            done += sectors;
        }
        Ok(())
    }

    /// Does nothing: tracks are copied whole, so discarded sectors save no work.
    fn discard(&mut self, _disk: &mut Disk, _lba: Lba, _n: u64) -> DiskResult {
        Ok(())
    }

    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        match need {
            Need::Must => self.clean_due(disk),
            Need::Spare => self.clean_idly(disk),
        }
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.idle_delay
    }

    fn keeps_acknowledged(&self) -> bool {
        true
    }

    /// All data is at home, and every track counts as in use.
    fn fill(&mut self) -> Arc<dyn Placement> {
        self.home.placement()
    }

    /// The map survives (assumption: its copies hold all of it), and so do the tracks that cleaning saved in the scratch pad.
    fn power_cut(&mut self) {
        self.cleaner.power_cut();
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        self.place(&self.home.locate(lba))
    }

    fn check(&self) -> DiskResult {
        let (mut last, mut valid, mut slots) = (0, 0, 0);
        for entry in &self.log.entries {
            let track = entry.track;
            ensure!(entry.position >= last, "the cached track {track} begins inside the one before");
            last = entry.position + entry.slots;
            if entry.valid {
                (valid, slots) = (valid + 1, slots + entry.slots);
                let is_found = self.log.find(track).is_some_and(|found| found.position == entry.position);
                ensure!(is_found, "two copies of track {track} are valid");
            }
        }
        let TrackLog { head, valid_entries, active_slots, .. } = self.log;
        let is_recorded = valid_entries <= self.entries_max;
        ensure!(is_recorded, "{valid_entries} tracks are cached, more than a copy of the map holds");
        let is_counted = (valid, slots) == (valid_entries, active_slots);
        ensure!(is_counted, "{valid} cached tracks in {slots} slots, but the counts differ");
        ensure!(last <= head, "the log's head {head} lies before its end {last}");
        let tail = self.saved.tail;
        let keeps_guard = head + self.home.reach <= tail + self.log.slots.value;
        ensure!(keeps_guard, "no guard between the log's head {head} and its tail {tail}");
        Ok(())
    }

    /// Memory for as many entries as may be used before cleaning is due.
    fn map_bytes(&self) -> u64 {
        self.bytes_of_map(self.alpha.min(self.log.slots.value))
    }

    fn gauges(&self) -> Gauges {
        let (active, length) = (self.log.active_slots as f64, self.log.length() as f64);
        let invalid = if length > 0.0 { 1.0 - self.log.valid_entries as f64 / length } else { 0.0 };
        Gauges {
            cache_fill: Some(active / self.log.slots.value as f64),
            others: vec![
                Gauge::count("cached_tracks", self.log.valid_entries as f64),
                Gauge::count("cache_tracks_active", active),
                Gauge::count("log_length", length),
                Gauge::share("invalid_share", invalid),
                Gauge::bytes("map_bytes", self.bytes_of_map(self.log.valid_entries)),
            ],
        }
    }

    fn stats(&self) -> LayerStats {
        self.counts.stats()
    }

    fn bands_moved(&self) -> u64 {
        self.counts.bands_cleaned
    }

    fn reset_stats(&mut self) {
        self.counts = VguardCounts::default();
        self.note_fill();
    }
}
