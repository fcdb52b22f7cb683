//! When bands are cleaned and which: the bands of the log's oldest valid entries, two an episode.
//!
//! A command first does one phase of the episode in progress. Once map or log have grown by more than the episode frees, a
//! command waits for its end, so that cleaning keeps pace and no command waits for more than one episode.

use std::ops::Range;

use super::DriveManaged;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::layer::bands::{Done, Episode};
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

/// A cached piece that cleaning has laid over its band: (LBA, sectors, PBA).
pub(super) type Merged = (Lba, u64, Pba);

impl DriveManaged {
    /// By how many entries map or log pass their thresholds.
    #[inline]
    fn owed(&self) -> u64 {
        let map = (self.map.len() as u64).saturating_sub(self.alpha);
        map.max((self.log.entries.len() as u64).saturating_sub(self.beta))
    }

    /// What a command has to do first.
    #[inline]
    pub(super) fn clean_due(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if self.owed() == 0 && !self.is_cleaning() { Ok(false) } else { self.clean_owed(disk) }
    }

    #[inline]
    pub(super) fn is_cleaning(&self) -> bool {
        self.cleaner.is_working() || self.episode.is_running()
    }

    /// The band that is being rewritten.
    pub(super) fn band_at_work(&self) -> Option<u32> {
        self.cleaner.is_working().then(|| self.home.band_of(self.cleaner.held().start))
    }

    #[cold]
    fn clean_owed(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if !self.is_cleaning() {
            // Entries that hold nothing valid any more cost nothing.
            self.log.trim(&self.map);
            if self.owed() == 0 {
                return Ok(false);
            }
            self.counts.first_cleaning_request.get_or_insert(self.counts.requests);
            self.begin_episode();
        }
        while self.clean_phase(disk)? && self.episode.falls_short_of(self.owed()) {}
        Ok(true)
    }

    /// One phase of cleaning that nobody needs yet.
    #[cold]
    pub(super) fn clean_idly(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if !self.is_cleaning() {
            if self.log.trim(&self.map).is_none() {
                return Ok(false);
            }
            self.begin_episode();
        }
        self.clean_phase(disk)?;
        Ok(true)
    }

    /// A whole episode, or what is left of one, while the host waits.
    pub(super) fn clean_episode(&mut self, disk: &mut Disk) -> DiskResult {
        if !self.is_cleaning() {
            self.counts.first_cleaning_request.get_or_insert(self.counts.requests);
            self.begin_episode();
        }
        while self.clean_phase(disk)? {}
        Ok(())
    }

    /// An episode after an append that leaves little of the log free. Were it cleaned only when it is full, each episode would
    /// need a map copy before the little that it freed could be written over.
    #[cold]
    pub(super) fn clean_ahead(&mut self, disk: &mut Disk) -> DiskResult {
        self.log.trim(&self.map);
        if self.log.is_nearly_full() { self.clean_episode(disk) } else { Ok(()) }
    }

    fn begin_episode(&mut self) {
        let mut bands: Vec<u32> = Vec::with_capacity(Episode::BANDS);
        let mut chosen: Vec<Range<Lba>> = Vec::with_capacity(Episode::BANDS);
        let mut frees = 0;
        for entry in &self.log.entries {
            if chosen.iter().any(|own| own.contains(&entry.lba) && entry.lba + entry.sectors <= own.end) {
                continue;
            }
            for (lba, ..) in self.log.valid(&self.map, entry) {
                let band = self.home.band_of(self.home.spot(lba).track);
                if bands.len() < Episode::BANDS && !bands.contains(&band) {
                    let tracks = self.home.tracks_of(band);
                    bands.push(band);
                    chosen.push(self.home.lba(tracks.start)..self.home.lba(tracks.end));
                    frees += self.cached(tracks).count() as u64;
                }
            }
            if bands.len() == Episode::BANDS {
                break;
            }
        }
        self.episode.begin(&bands, frees);
        self.counts.episodes += 1;
    }

    /// What is cached of home tracks.
    fn cached(&self, tracks: Range<u32>) -> impl Iterator<Item = Merged> + '_ {
        let (first, end) = (self.home.lba(tracks.start), self.home.lba(tracks.end));
        self.map.mapped(first, end - first)
    }

    /// One phase; `false` if it ended the episode.
    fn clean_phase(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        while !self.cleaner.is_working() {
            let Some(band) = self.episode.next_band() else { return Ok(false) };
            if let Some(tracks) = self.plan(disk, band) {
                self.merged.clear();
                let blank = self.written.end(band, &self.home.tracks_of(band));
                self.cleaner.begin_written(tracks, blank);
            }
        }
        let DriveManaged { cleaner, home, map, merged, ordered, sequence, .. } = self;
        let done = cleaner.phase(disk, home, sequence, |disk, tracks, buf, at| {
            let (first, end) = (home.lba(tracks.start), home.lba(tracks.end));
            ordered.clear();
            ordered.extend(map.mapped(first, end - first));
            merged.extend_from_slice(ordered);
            overlay(disk, ordered, first, buf, at)
        })?;
        if self.cleaner.noted().is_some_and(|(sequence, _)| sequence == self.sequence) {
            self.noted_band = self.band_at_work();
        }
        if let Done::Stage { tracks, over } = done {
            self.come_home(tracks.clone());
            if over {
                let band = self.home.band_of(tracks.start);
                self.written.raise(band, tracks.end - self.home.tracks_of(band).start);
                self.counts.bands_cleaned += 1;
                if self.episode.is_last_band() {
                    self.episode.next_band();
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Which tracks of a band are rewritten: from the first that has something cached to the last that may hold data, or up
    /// to one that can be left damaged since all of it is cached. `None` where nothing is cached any more.
    fn plan(&self, disk: &Disk, band: u32) -> Option<Range<u32>> {
        let all = self.home.tracks_of(band);
        let mut first = None;
        let mut last = 0;
        for (lba, sectors, _) in self.cached(all.clone()) {
            first.get_or_insert(self.home.spot(lba).track);
            last = self.home.spot(lba + (sectors - 1)).track;
        }
        let first = first?;
        let end = self.written.end(band, &all).max(last + 1);
        // Where a second write wears what lies before it, all of the band is rewritten.
        if disk.interference().upstream() > 0 {
            return Some(all.start..end);
        }
        let stop = |&stop: &u32| {
            let damaged = stop..self.home.damaged_end(disk.interference(), stop - 1);
            damaged.end > stop && self.is_wholly_cached(damaged)
        };
        let stops = (first + 1..end).find(stop).filter(|_| self.partial);
        Some(first..stops.unwrap_or(end))
    }

    fn is_wholly_cached(&self, tracks: Range<u32>) -> bool {
        let (first, end) = (self.home.lba(tracks.start), self.home.lba(tracks.end));
        self.map.pieces(first, end - first).all(|piece| piece.pba.is_some())
    }

    /// Home tracks are rewritten: what was laid over them is no longer needed in the log, unless written again meanwhile.
    fn come_home(&mut self, tracks: Range<u32>) {
        let (first, end) = (self.home.lba(tracks.start), self.home.lba(tracks.end));
        let rest = self.merged.partition_point(|&(lba, ..)| lba < end);
        let unchanged = self.map.mapped(first, end - first).eq(self.merged[..rest].iter().copied());
        if unchanged && !self.bypass.is_on() {
            self.forget(first, end - first);
        } else {
            for at in 0..rest {
                self.come_home_piece(self.merged[at]);
            }
        }
        self.merged.drain(..rest);
    }

    fn come_home_piece(&mut self, (lba, sectors, pba): Merged) {
        let mut done = 0;
        loop {
            let found = self.map.mapped(lba + done, sectors - done).next();
            let Some((at, n, now)) = found else { return };
            if now == pba + (at - lba) {
                self.forget(at, n);
            }
            done = at + n - lba;
        }
    }
}

/// Reads cached pieces, and lays them over `buf`, in which `first` is sector `at`; whether there were any.
fn overlay(disk: &mut Disk, pieces: &mut [Merged], first: Lba, buf: &mut Buf, at: u64) -> DiskResult<bool> {
    // In the order of the log, which is that of the platters.
    pieces.sort_unstable_by_key(|(.., pba)| *pba);
    // Skipping less than half a track is not worth a rotation (assumption).
    let gap = disk.geometry().longest_track() / 2;
    let mut read = Buf::NoData;
    let mut from = 0;
    while from < pieces.len() {
        let start = pieces[from].2;
        let (mut to, mut end) = (from, start);
        while to < pieces.len() && pieces[to].2 - end <= gap {
            end = pieces[to].2 + pieces[to].1;
            to += 1;
        }
        let span = end - start;
        if disk.holds_data() {
            read = disk.buf(span);
        }
        disk.read(start, span, Cause::Destage, &mut read, 0)?;
        for &(lba, sectors, pba) in &pieces[from..to] {
            buf.put(at + (lba - first), &read, pba - start, sectors);
        }
        from = to;
    }
    Ok(!pieces.is_empty())
}
