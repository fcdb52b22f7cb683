//! When bands are cleaned, and which ones: those of the log's oldest valid entries.
//!
//! As sold, a command that finds no room waits while band after band is cleaned, until there is room. Often a band has data of several
//! writes in the cache, so the next commands find room at once: of random writes of 1 MiB, a few in a hundred are as fast as before the
//! cache was full.
//!
//! The paper's disk cleans in episodes of two bands. A command first does one phase of the episode in progress. Once map or log exceed their
//! thresholds by more than the episode frees, a command waits for its end. So cleaning keeps pace, and no command waits for more than one
//! episode.

use std::ops::Range;

use smallvec::SmallVec;

use super::DriveManaged;
use super::cache::{CachedDisk, PersistentCache};
use crate::layer::bands::{EPISODE_BANDS, Home};
use crate::layer::prelude::*;
use crate::layer::runs::Gather;

/// A cached piece that cleaning has merged into its band: (LBA, sectors, PBA).
pub(super) type MergedPiece = (Lba, u64, Pba);

impl DriveManaged {
    /// Does the cleaning that a command has to do first: all that is due if `at_once`, otherwise a phase, or episodes to their end if cleaning
    /// does not keep pace. Returns `false` if there was nothing to do.
    pub(super) fn clean_due(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if self.cache.excess() == 0 && !self.cleaner.is_due() {
            return Ok(false);
        }
        if !self.begin_due_episode(disk) {
            return Ok(false);
        }
        if self.at_once {
            while self.begin_due_episode(disk) {
                self.clean(disk)?;
            }
            return Ok(true);
        }
        loop {
            let is_unfinished = self.clean_phase(disk)?;
            let waits = if is_unfinished {
                self.cleaner.falls_short_of(self.cache.excess())
            } else {
                // If a command adds more than an episode frees, one episode for each command would not keep pace.
                self.cleaner.is_outpaced_by(self.cache.last_entries) && self.begin_due_episode(disk)
            };
            if !waits {
                return Ok(true);
            }
        }
    }

    /// Begins an episode if none runs and one is due; returns whether one runs.
    fn begin_due_episode(&mut self, disk: &Disk) -> bool {
        if !self.cleaner.is_cleaning() {
            // Entries without valid data are freed without cleaning.
            self.cache.trim();
            if self.cache.excess() == 0 {
                return false;
            }
            self.begin_episode(disk, Need::Must);
        }
        true
    }

    /// Does one phase of cleaning in idle time; returns `false` if nothing is cached.
    #[cold]
    pub(super) fn clean_idly(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if !self.cleaner.is_cleaning() {
            if !self.cache.trim() {
                return Ok(false);
            }
            self.begin_episode(disk, Need::Spare);
        }
        self.clean_phase(disk)?;
        Ok(true)
    }

    /// Chooses the bands of the oldest cached entries, and begins an episode of cleaning with them.
    pub(super) fn begin_episode(&mut self, disk: &Disk, need: Need) {
        if need == Need::Must {
            self.counts.first_cleaning_request.get_or_insert(disk.requests());
        }
        let (home, cache) = (&self.home, &self.cache);
        let mut bands: SmallVec<[u32; EPISODE_BANDS]> = SmallVec::new();
        let mut chosen: SmallVec<[Range<Lba>; EPISODE_BANDS]> = SmallVec::new();
        let mut frees = 0;
        let bands_max = if self.at_once { 1 } else { EPISODE_BANDS };
        for entry in &cache.log.entries {
            // Skips entries of a chosen band without a look at the map: there may be many.
            if chosen.iter().any(|own| own.contains(&entry.lba) && entry.lba + entry.sectors <= own.end) {
                continue;
            }
            for (lba, ..) in cache.valid(entry) {
                let band = home.band_of(home.locate(lba).track);
                if bands.len() < bands_max && !bands.contains(&band) {
                    let tracks = home.tracks_of(band);
                    bands.push(band);
                    chosen.push(home.lba(tracks.start)..home.lba(tracks.end));
                    // How many entries an episode frees matters only if commands pay for it phase by phase.
                    frees += if self.at_once { 0 } else { cached(home, cache, tracks).count() as u64 };
                }
            }
            if bands.len() == bands_max {
                break;
            }
        }
        self.cleaner.begin_episode(&bands, frees, need);
        self.counts.episodes += 1;
    }

    /// Does one phase of the episode; returns `false` once the episode is over.
    pub(super) fn clean_phase(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        while !self.cleaner.is_working() {
            let Some(band) = self.cleaner.next_band() else { return Ok(false) };
            if let Some((tracks, blank)) = self.plan(disk, band) {
                self.merged.clear();
                self.cleaner.begin(tracks, blank);
            }
        }
        let DriveManaged { home, cache, cleaner, merged, skip_cached, .. } = self;
        let is_cached = |tracks: Range<u32>| *skip_cached && is_wholly_cached(home, cache, tracks);
        let rewritten = cleaner.phase(disk, home, is_cached, |disk, tracks, buf, at| {
            let mut pieces: SmallVec<[MergedPiece; 8]> = cached(home, cache, tracks.clone()).collect();
            merged.extend_from_slice(&pieces);
            overlay(disk, &mut pieces, home.lba(tracks.start), buf, at)
        })?;
        // From now on a power cut would restore its tracks from the scratch pad.
        if self.cleaner.is_saved() {
            self.noted_band = self.band_at_work();
        }
        let Some(tracks) = rewritten else { return Ok(true) };
        self.drop_merged(tracks.clone());
        if !self.cleaner.is_working() {
            self.note_written(tracks.end - 1);
            self.counts.bands_cleaned += 1;
        }
        Ok(self.cleaner.is_cleaning())
    }

    /// The tracks of a band to rewrite: from the first with cached data to the last that may hold data; and the end of those that may. With
    /// `partial`, it stops earlier if the tracks that this damages are wholly cached. `None` if nothing is cached any more.
    fn plan(&self, disk: &Disk, band: u32) -> Option<(Range<u32>, u32)> {
        let (home, cache) = (&self.home, &self.cache);
        let all = home.tracks_of(band);
        let mut cached_span: Option<(Lba, Lba)> = None;
        // True if some track is cached from its first sector on. Otherwise none is wholly cached, and the search below is not needed.
        let mut has_cached_start = false;
        for (lba, sectors, _) in cached(home, cache, all.clone()) {
            cached_span = Some((cached_span.map_or(lba, |(first, _)| first), lba + (sectors - 1)));
            if self.partial && !has_cached_start {
                let spot = home.locate(lba);
                has_cached_start = spot.offset == 0 || sectors > spot.left;
            }
        }
        let (first, last) = cached_span.map(|(first, last)| (home.locate(first).track, home.locate(last).track))?;
        let blank = self.written_end(band, &all);
        let end = blank.max(last + 1);
        // If rewriting may damage sectors upstream (DPID), the rewrite begins with the band.
        if disk.interference().upstream() > 0 {
            return Some((all.start..end, blank));
        }
        let can_stop_before = |&track: &u32| {
            let damaged = track..home.damaged_end(disk.interference(), track - 1);
            // An empty range would count as wholly cached.
            !damaged.is_empty() && is_wholly_cached(home, cache, damaged)
        };
        let early_end = has_cached_start.then(|| (first + 1..end).find(can_stop_before)).flatten();
        Some((first..early_end.unwrap_or(end), blank))
    }

    /// After home tracks were rewritten, drops the pieces merged into them from the cache. The cache keeps what was written again meanwhile.
    fn drop_merged(&mut self, tracks: Range<u32>) {
        let (first, end) = (self.home.lba(tracks.start), self.home.lba(tracks.end));
        // Pieces of earlier tracks were dropped before.
        let count = self.merged.partition_point(|&(lba, ..)| lba < end);
        // The part of a piece beyond these tracks is still to be rewritten, so the log must keep it.
        let mut rest = None;
        if let Some((lba, sectors, pba)) = self.merged[..count].last_mut()
            && *lba + *sectors > end
        {
            let done = end - *lba;
            rest = Some((end, *sectors - done, *pba + done));
            *sectors = done;
        }
        self.cache.forget_merged(first, end - first, &self.merged[..count]);
        self.merged.splice(..count, rest);
    }

    /// The band that is being cleaned.
    pub(super) fn band_at_work(&self) -> Option<u32> {
        self.cleaner.is_working().then(|| self.home.band_of(self.cleaner.tracks_in_memory().start))
    }

    /// The end of the home tracks of a band that may hold data. `all` are the tracks of the band.
    pub(super) fn written_end(&self, band: u32, all: &Range<u32>) -> u32 {
        self.written_tracks.get(band as usize).map_or(all.end, |tracks| all.start + tracks)
    }

    /// Notes that the tracks of a band up to home track `last` may hold data.
    pub(super) fn note_written(&mut self, last: u32) {
        // Mostly all tracks of all bands do, and there is no list.
        if !self.written_tracks.is_empty() {
            let band = self.home.band_of(last);
            let known = &mut self.written_tracks[band as usize];
            *known = (*known).max(last + 1 - self.home.tracks_of(band).start);
        }
    }
}

/// The cached pieces of home tracks.
fn cached(home: &Home, cache: &PersistentCache, tracks: Range<u32>) -> impl Iterator<Item = MergedPiece> {
    let (first, end) = (home.lba(tracks.start), home.lba(tracks.end));
    cache.map.mapped(first, end - first)
}

fn is_wholly_cached(home: &Home, cache: &PersistentCache, tracks: Range<u32>) -> bool {
    let (first, end) = (home.lba(tracks.start), home.lba(tracks.end));
    cache.map.pieces(first, end - first).all(|piece| piece.pba.is_some())
}

/// Reads cached pieces into `buf`, in which `first` is sector `at`; returns whether there were any.
pub(super) fn overlay(
    disk: &mut Disk,
    pieces: &mut [MergedPiece],
    first: Lba,
    buf: &mut Buf,
    at: u64,
) -> DiskResult<bool> {
    // Read in the order of the log, in which they lie on the platters.
    pieces.sort_unstable_by_key(|(.., pba)| *pba);
    // A gap of up to half a track is read along, because the head would pass over it anyway (assumption).
    let mut gather = Gather::new(Cause::Destage, disk.geometry().longest_track() / 2);
    for &(lba, sectors, pba) in pieces.iter() {
        gather.read(disk, pba, sectors, buf, at + (lba - first))?;
    }
    gather.finish(disk, buf)?;
    Ok(!pieces.is_empty())
}
