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

use super::DriveManaged;
use super::bypass::WrittenTracks;
use super::persistent::PersistentCache;
use crate::layer::bands::{Cleaner, Episode, Home, PhaseResult};
use crate::layer::prelude::*;

/// A cached piece that cleaning has merged into its band: (LBA, sectors, PBA).
pub(super) type MergedPiece = (Lba, u64, Pba);

/// The bands: their layout, and which tracks were ever written.
pub(super) struct HomeBands {
    pub home: Home,
    pub written: WrittenTracks,
}

/// Options of cleaning, and the band being cleaned.
#[derive(Default)]
pub(super) struct BandCleaning {
    /// Rewriting stops before tracks that are wholly cached.
    partial: bool,
    /// Tracks that are wholly cached are neither read nor saved.
    skip_cached: bool,
    /// A command that finds no room waits until there is some, and an episode is one band.
    at_once: bool,
    episode: Episode,
    pub cleaner: Cleaner,
    /// Band whose tracks a drive would restore from the scratch pad after a power cut, unless a map copy says that they are outdated.
    pub noted_band: Option<u32>,
    /// Cached pieces that were merged into the current band and are not yet written home, by LBA.
    merged: Vec<MergedPiece>,
    /// Scratch space for sorting a stage's pieces in the order of the log.
    ordered: Vec<MergedPiece>,
    /// Since counting began.
    pub bands_cleaned: u64,
    pub episodes: u64,
}

state! { HomeBands { parts: written; built: home; } }

state! {
    BandCleaning {
        values: episode, cleaner, noted_band, merged, bands_cleaned, episodes;
        built: partial, skip_cached, at_once, ordered;
    }
}

impl DriveManaged {
    /// Does the cleaning that a command has to do first.
    #[inline]
    pub(super) fn clean_due(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if self.cache.excess() == 0 && !self.cleaning.is_due() { Ok(false) } else { self.clean_excess(disk) }
    }

    /// Cleans while the cache holds more than it should, or an episode is due; returns `false` if there was nothing to do.
    #[cold]
    fn clean_excess(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if !self.begin_due_episode(disk) {
            return Ok(false);
        }
        if self.cleaning.at_once {
            while self.begin_due_episode(disk) {
                self.clean_episode(disk)?;
            }
            return Ok(true);
        }
        loop {
            let is_running = self.clean_phase(disk)?;
            let episode = &self.cleaning.episode;
            // If a command adds more than an episode frees, one episode for each command would not keep pace.
            let waits = match is_running {
                true => episode.falls_short_of(self.cache.excess()),
                false => episode.is_outpaced_by(self.cache.last_entries) && self.begin_due_episode(disk),
            };
            if !waits {
                return Ok(true);
            }
        }
    }

    /// Begins an episode if none runs and one is due; returns whether one runs.
    fn begin_due_episode(&mut self, disk: &Disk) -> bool {
        if !self.cleaning.is_running() {
            // Entries without valid data are freed without cleaning.
            self.cache.trim();
            if self.cache.excess() == 0 {
                return false;
            }
            self.begin_episode(disk);
        }
        true
    }

    /// Does one phase of cleaning in idle time.
    #[cold]
    pub(super) fn clean_idly(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if !self.cleaning.is_running() {
            if !self.cache.trim() {
                return Ok(false);
            }
            self.cleaning.begin_episode(&self.bands.home, &self.cache, Episode::begin_idly);
        }
        self.clean_phase(disk)?;
        Ok(true)
    }

    /// Completes an episode, or begins and completes one, while the host waits.
    pub(super) fn clean_episode(&mut self, disk: &mut Disk) -> DiskResult {
        if !self.cleaning.is_running() {
            self.begin_episode(disk);
        }
        while self.clean_phase(disk)? {}
        Ok(())
    }

    fn begin_episode(&mut self, disk: &Disk) {
        self.counts.first_cleaning_request.get_or_insert(disk.requests());
        self.cleaning.begin_episode(&self.bands.home, &self.cache, Episode::begin);
    }

    fn clean_phase(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        self.cleaning.phase(disk, &mut self.bands, &mut self.cache)
    }
}

impl BandCleaning {
    pub fn new(partial: bool, skip_cached: bool, at_once: bool) -> BandCleaning {
        BandCleaning { partial, skip_cached, at_once, ..BandCleaning::default() }
    }

    /// True if an episode is not over.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.cleaner.is_working() || self.episode.is_running()
    }

    /// True if commands have to continue the episode. An episode begun in idle time waits for idle time.
    #[inline]
    fn is_due(&self) -> bool {
        self.is_running() && !self.episode.is_idle()
    }

    /// The band that is being cleaned.
    pub fn band_at_work(&self, home: &Home) -> Option<u32> {
        self.cleaner.is_working().then(|| home.band_of(self.cleaner.held().start))
    }

    /// Notes that the map was copied. After a power cut, the drive then ignores the scratch pad, unless a stage in progress needs it.
    pub fn persisted(&mut self) {
        if !self.cleaner.is_saved() {
            self.noted_band = None;
        }
    }

    /// Empties the memory, after a power cut.
    pub fn power_cut(&mut self, home: &Home) {
        if let Some(end) = self.cleaner.power_cut() {
            let end = home.lba(end);
            self.merged.retain(|&(lba, ..)| lba < end);
        }
    }

    /// Chooses the bands of the oldest cached entries, and begins an episode of cleaning with them.
    fn begin_episode(&mut self, home: &Home, cache: &PersistentCache, begin: fn(&mut Episode, &[u32], u64)) {
        let mut bands: Vec<u32> = Vec::with_capacity(Episode::BANDS);
        let mut chosen: Vec<Range<Lba>> = Vec::with_capacity(Episode::BANDS);
        let mut frees = 0;
        let count = if self.at_once { 1 } else { Episode::BANDS };
        for entry in &cache.log.entries {
            // Skips entries of a chosen band without a look at the map: there may be many.
            if chosen.iter().any(|own| own.contains(&entry.lba) && entry.lba + entry.sectors <= own.end) {
                continue;
            }
            for (lba, ..) in cache.valid(entry) {
                let band = home.band_of(home.spot(lba).track);
                if bands.len() < count && !bands.contains(&band) {
                    let tracks = home.tracks_of(band);
                    bands.push(band);
                    chosen.push(home.lba(tracks.start)..home.lba(tracks.end));
                    // How many entries an episode frees matters only if commands pay for it phase by phase.
                    frees += if self.at_once { 0 } else { cached(home, cache, tracks).count() as u64 };
                }
            }
            if bands.len() == count {
                break;
            }
        }
        begin(&mut self.episode, &bands, frees);
        self.episodes += 1;
    }

    /// Does one phase; returns `false` if it ended the episode.
    fn phase(&mut self, disk: &mut Disk, bands: &mut HomeBands, cache: &mut PersistentCache) -> DiskResult<bool> {
        while !self.cleaner.is_working() {
            let Some(band) = self.episode.next_band() else { return Ok(false) };
            if let Some(tracks) = self.plan(disk, bands, cache, band) {
                self.merged.clear();
                let blank = bands.written.end(band, &bands.home.tracks_of(band));
                self.cleaner.begin(tracks, blank);
            }
        }
        let home = &bands.home;
        let BandCleaning { cleaner, merged, ordered, skip_cached, .. } = self;
        let is_kept = |tracks: Range<u32>| *skip_cached && is_wholly_cached(home, cache, tracks);
        let done = cleaner.phase(disk, home, is_kept, |disk, tracks, buf, at| {
            let first = home.lba(tracks.start);
            ordered.clear();
            ordered.extend(cached(home, cache, tracks));
            merged.extend_from_slice(ordered);
            overlay(disk, ordered, first, buf, at)
        })?;
        if self.cleaner.is_saved() {
            self.noted_band = self.band_at_work(home);
        }
        let PhaseResult::Stage { tracks, over } = done else { return Ok(true) };
        self.come_home(home, cache, tracks.clone());
        if !over {
            return Ok(true);
        }
        let band = home.band_of(tracks.start);
        bands.written.raise(band, tracks.end - home.tracks_of(band).start);
        self.bands_cleaned += 1;
        // Ends with its last band, so that no further call only finds that there is none.
        if self.episode.is_last_band() {
            self.episode.next_band();
            return Ok(false);
        }
        Ok(true)
    }

    /// The tracks of a band to rewrite: from the first with cached data to the last that may hold data. With `partial`, it stops earlier if
    /// the tracks that this damages are wholly cached. `None` if nothing is cached any more.
    fn plan(&self, disk: &Disk, bands: &HomeBands, cache: &PersistentCache, band: u32) -> Option<Range<u32>> {
        let home = &bands.home;
        let all = home.tracks_of(band);
        let mut ends: Option<(Lba, Lba)> = None;
        // True if some track is cached from its first sector on. Otherwise none is wholly cached, and the search below is not needed.
        let mut from_start = false;
        for (lba, sectors, _) in cached(home, cache, all.clone()) {
            ends = Some((ends.map_or(lba, |(first, _)| first), lba + (sectors - 1)));
            if self.partial && !from_start {
                let spot = home.spot(lba);
                from_start = spot.offset == 0 || sectors > spot.left;
            }
        }
        let (first, last) = ends.map(|(first, last)| (home.spot(first).track, home.spot(last).track))?;
        let end = bands.written.end(band, &all).max(last + 1);
        // If rewriting may damage sectors upstream (DPID), the rewrite begins with the band.
        if disk.interference().upstream() > 0 {
            return Some(all.start..end);
        }
        let stop = |&stop: &u32| {
            let damaged = stop..home.damaged_end(disk.interference(), stop - 1);
            damaged.end > stop && is_wholly_cached(home, cache, damaged)
        };
        let stops = from_start.then(|| (first + 1..end).find(stop)).flatten();
        Some(first..stops.unwrap_or(end))
    }

    /// After home tracks were rewritten, drops the pieces merged into them from the cache, unless they were written again meanwhile.
    fn come_home(&mut self, home: &Home, cache: &mut PersistentCache, tracks: Range<u32>) {
        let (first, end) = (home.lba(tracks.start), home.lba(tracks.end));
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
        cache.forget_merged(first, end - first, &self.merged[..count]);
        self.merged.splice(..count, rest);
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
    let gap = disk.geometry().longest_track() / 2;
    let mut from = 0;
    while from < pieces.len() {
        let start = pieces[from].2;
        let (mut to, mut end) = (from, start);
        while to < pieces.len() && pieces[to].2 - end <= gap {
            end = pieces[to].2 + pieces[to].1;
            to += 1;
        }
        let span = end - start;
        let mut read = disk.buf(span);
        disk.read(start, span, Cause::Destage, &mut read, 0)?;
        for &(lba, sectors, pba) in &pieces[from..to] {
            buf.put(at + (lba - first), &read, pba - start, sectors);
        }
        from = to;
    }
    Ok(!pieces.is_empty())
}
