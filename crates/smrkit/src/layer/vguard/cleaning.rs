//! When cleaning is due, which bands are cleaned, and how far (section 2.3).

use std::ops::Range;

use super::Vguard;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::layer::bands::{Episode, PhaseResult};
use crate::medium::interference::Interference;
use crate::tally::Cause;

/// Part of an episode that a command does before it is served. The paper leaves it open.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum CommandShare {
    Phase,
    Band,
    Episode,
}

impl Vguard {
    /// Before a command: one phase of cleaning, or as many as keep up with what became due.
    #[inline]
    pub(super) fn clean_what_is_due(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        if self.is_cleaning() && !self.episode.is_idle() || self.overdue() > 0 {
            return self.clean_phases(disk);
        }
        Ok(false)
    }

    /// One phase of cleaning that nothing is due for; returns whether anything was cached.
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

    /// Number of tracks too many in the cache (α), in the log (β), or for the room that is to be kept free.
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

    /// Makes room in a full cache: frees tracks on the platters that are free in memory, or cleans while the host waits.
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

    /// Takes the bands of the oldest cached tracks: two, which may mean more than the two oldest tracks.
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

    /// The tracks of a band to rewrite; `None` if none is cached. Those before the first cached one are skipped, unless
    /// rewriting would wear them. Partial cleaning stops at the next cached track after the one that waited longest.
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

    /// One phase of the band at work, or of the next one of the episode.
    pub(super) fn clean_a_phase(&mut self, disk: &mut Disk) -> DiskResult {
        while !self.cleaner.is_working() {
            let Some(band) = self.episode.next_band() else { return Ok(()) };
            if let Some(tracks) = self.plan(disk.interference(), band) {
                self.cleaner.begin(tracks, u32::MAX);
            }
        }
        let (home, log) = (&self.home, &self.log);
        let done = self.cleaner.phase(disk, home, |disk, tracks, buf, at| {
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
        })?;
        if let PhaseResult::Stage { tracks, over } = done {
            self.free(tracks);
            self.counts.bands_cleaned += u64::from(over);
            if over && self.episode.is_last_band() {
                self.episode.next_band();
            }
        }
        Ok(())
    }

    /// Frees the copies of home tracks that were rewritten.
    pub(super) fn free(&mut self, tracks: Range<u32>) {
        tracks.clone().for_each(|track| self.log.drop(track));
        self.saved.rewritten.push(tracks);
    }
}
