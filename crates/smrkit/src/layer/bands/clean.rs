//! Cleaning: one band at a time, in stages of a buffer's size, each in phases. Host commands pay for it in episodes of one band or two
//! (Vguard 2017, section 2.3).
//!
//! A stage reads home tracks into memory, merges cached data, writes them to the scratch pad and then in place. Rewriting the last of them
//! damages the tracks downstream, so the stage also holds these, without rewriting them. Until the next stage does, they are read from the
//! scratch pad. With 15 MB, a band of 20 outer tracks takes stages of 7, 7 and 6.
//!
//! The scratch pad has two halves, used in turn, so that the tracks that a stage still needs from the previous one stay intact. A half
//! begins with a sector that describes its stage (the note).

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Home, NOTE_SECTORS};
use crate::layer::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// After a power cut: reads back the tracks that the scratch pad has of the stage.
    Reload,
    Read,
    Overlay,
    Save,
    Rewrite,
}

/// The band that is being cleaned, and its stage. All numbers are of home tracks.
#[derive(Serialize, Deserialize)]
struct BandWork {
    /// End of the tracks to rewrite in this band.
    plan_end: u32,
    /// From this track on nothing was ever written, so tracks are not read.
    blank_from: u32,
    /// The stage rewrites the tracks `first..end`, and holds `first..memory_end` in memory. Before its first phase it holds only those that the
    /// previous stage left there, and `end` is `first`.
    first: u32,
    end: u32,
    memory_end: u32,
    /// The first track that the previous stage did not hold.
    unread: u32,
    phase: Phase,
    #[serde(skip)]
    buf: Buf,
    /// Scratch copy of the tracks `first..unread`, which the previous stage left damaged at home.
    before: Option<ScratchCopy>,
    /// Scratch copy of this stage's tracks, once they are saved.
    saved: Option<ScratchCopy>,
    /// True if the power was cut while this stage was rewriting: until it is done, only the scratch pad has its tracks intact.
    torn: bool,
}

/// Where the scratch pad has the tracks of a stage: `first..from` in one half, at `other`, and those from `from` on in the half `half`.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct ScratchCopy {
    half: usize,
    from: u32,
    first: u32,
    other: Pba,
}

impl ScratchCopy {
    /// Where a track of the stage is in the scratch pad.
    fn place(&self, home: &Home, track: u32) -> Pba {
        match track < self.from {
            true => self.other + home.sectors_of(self.first..track),
            false => home.pads[self.half] + NOTE_SECTORS + home.sectors_of(self.from..track),
        }
    }
}

/// Number of bands that an episode of the Vguard paper cleans.
pub(in crate::layer) const EPISODE_BANDS: usize = 2;

/// Cleans one band at a time, in episodes of one band or two. Each host command first does one phase of the episode in progress; if more
/// entries are overdue than the episode will free, the command waits for its end. Episodes do not overlap, so no command waits for more than
/// one.
#[derive(Default, Serialize, Deserialize)]
pub(in crate::layer) struct Cleaner {
    work: Option<BandWork>,
    next_half: usize,
    /// Bands of the episode whose cleaning has not begun.
    bands: VecDeque<u32>,
    /// Entries that the episode was expected to free when it began.
    frees: u64,
    /// True if the episode began in idle time: then it continues in idle time, or once cleaning is due.
    is_idle: bool,
}

impl Cleaner {
    /// True if a band is at work.
    pub fn is_working(&self) -> bool {
        self.work.is_some()
    }

    /// Begins an episode over `bands` that is expected to free this many entries.
    pub fn begin_episode(&mut self, bands: &[u32], frees: u64, need: Need) {
        debug_assert!(!self.is_cleaning());
        self.bands.extend(bands);
        (self.frees, self.is_idle) = (frees, need == Need::Spare);
    }

    /// True if an episode has begun and is not over.
    pub fn is_cleaning(&self) -> bool {
        self.is_working() || !self.bands.is_empty()
    }

    /// True if commands have to continue the episode. One that began in idle time waits for idle time.
    pub fn is_due(&self) -> bool {
        self.is_cleaning() && !self.is_idle
    }

    /// True if one command adds more entries than the episode frees.
    pub fn is_outpaced_by(&self, entries: u64) -> bool {
        entries > self.frees.max(1)
    }

    /// True if more entries are overdue than the episode frees: then the next command has to wait for its end.
    pub fn falls_short_of(&self, overdue: u64) -> bool {
        self.is_cleaning() && overdue > self.frees
    }

    /// Takes the next band of the episode, to be begun unless nothing of it is cached any more; `None` if the episode is over.
    pub fn next_band(&mut self) -> Option<u32> {
        self.bands.pop_front()
    }

    /// Begins to rewrite home `tracks` of one band, of which those from `blank_from` on were never written. Later tracks of the band that the
    /// rewrite damages must be in the cache. If rewriting also damages sectors upstream (DPID), the first of `tracks` must be the band's first.
    pub fn begin(&mut self, tracks: Range<u32>, blank_from: u32) {
        debug_assert!(self.work.is_none() && !tracks.is_empty());
        let first = tracks.start;
        self.work = Some(BandWork {
            plan_end: tracks.end,
            blank_from,
            first,
            end: first,
            memory_end: first,
            unread: first,
            phase: Phase::Read,
            buf: Buf::NoData,
            before: None,
            saved: None,
            torn: false,
        });
    }

    /// The home tracks held in memory. A write that touches or damages them must wait until their stage is done.
    pub fn tracks_in_memory(&self) -> Range<u32> {
        self.work.as_ref().map_or(0..0, |work| work.first..work.memory_end)
    }

    /// True if one of these home tracks is held in memory.
    pub fn holds_any(&self, tracks: Range<u32>) -> bool {
        let held = self.tracks_in_memory();
        held.start < tracks.end && tracks.start < held.end
    }

    /// The scratch copy of a track whose home copy may be damaged; `None` for other tracks.
    pub fn scratch_copy(&self, home: &Home, track: u32) -> Option<Pba> {
        let work = self.work.as_ref()?;
        let (copy, end) = match (&work.saved, &work.before) {
            // The rewrite of the held tracks was interrupted.
            (Some(saved), _) if work.torn => (saved, work.memory_end),
            // The previous stage damaged the tracks that this one was left with.
            (_, Some(before)) => (before, work.unread),
            _ => return None,
        };
        (work.first <= track && track < end).then(|| copy.place(home, track))
    }

    /// True if a drive would restore tracks from the scratch pad after a power cut now.
    pub fn is_saved(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.saved.is_some() || work.before.is_some())
    }

    /// Does one phase, after any in which there is nothing to do. If that was the last of a stage, returns the tracks that the stage rewrote.
    /// `is_cached` returns true for tracks that are wholly cached, and stay so until they are rewritten. `overlay` puts the cached data of
    /// home tracks into the buffer, where the first of these tracks begins at the given sector; it returns whether there was any such data.
    pub fn phase(
        &mut self,
        disk: &mut Disk,
        home: &Home,
        is_cached: impl Fn(Range<u32>) -> bool,
        mut overlay: impl FnMut(&mut Disk, Range<u32>, &mut Buf, u64) -> DiskResult<bool>,
    ) -> DiskResult<Option<Range<u32>>> {
        let Some(work) = &mut self.work else { return Ok(None) };
        loop {
            match work.phase {
                Phase::Reload => {
                    work.phase = if work.saved.is_some() { Phase::Rewrite } else { Phase::Read };
                    if work.reload(disk, home)? {
                        return Ok(None);
                    }
                }
                Phase::Read => {
                    work.next_stage(disk, home);
                    work.phase = Phase::Overlay;
                    // Never-written tracks are not read. If all of the stage's are such, the range is empty.
                    let read_end = work.memory_end.min(work.blank_from).max(work.unread);
                    let mut read = work.unread..read_end;
                    // Cached tracks at either end are left to the overlay. Those in between are read along, so that it is one access.
                    while !read.is_empty() && is_cached(read.start..read.start + 1) {
                        read.start += 1;
                    }
                    while !read.is_empty() && is_cached(read.end - 1..read.end) {
                        read.end -= 1;
                    }
                    let sectors = home.sectors_of(read.clone());
                    if sectors > 0 {
                        let at = home.sectors_of(work.first..read.start);
                        disk.read(home.start(read.start), sectors, Cause::Clean, &mut work.buf, at)?;
                        return Ok(None);
                    }
                }
                Phase::Overlay => {
                    work.phase = Phase::Save;
                    let at = home.sectors_of(work.first..work.unread);
                    if overlay(disk, work.unread..work.memory_end, &mut work.buf, at)? {
                        return Ok(None);
                    }
                }
                // No scratch copy is needed, because after a power cut the cache still has all of these tracks.
                Phase::Save if is_cached(work.first..work.memory_end) => work.phase = Phase::Rewrite,
                Phase::Save => {
                    work.save(disk, home, self.next_half)?;
                    self.next_half = 1 - self.next_half;
                    work.phase = Phase::Rewrite;
                    return Ok(None);
                }
                Phase::Rewrite => {
                    rewrite(disk, home, work.first..work.end, &work.buf)?;
                    let tracks = work.first..work.end;
                    if !work.advance(disk, home) {
                        self.work = None;
                    }
                    return Ok(Some(tracks));
                }
            }
        }
    }

    /// Empties the memory, after a power cut. A stage continues from its scratch copy or, without one, starts again. Returns the first track
    /// that is no longer held.
    pub fn power_cut(&mut self) -> Option<u32> {
        let work = self.work.as_mut()?;
        work.torn = work.saved.is_some();
        if !work.torn {
            if work.before.is_none() {
                // The previous stage saved nothing, because all its tracks were in the cache. So they still are.
                work.unread = work.first;
            }
            // This stage has saved nothing, so it is left with the tracks that the previous one saved.
            work.memory_end = work.unread;
        }
        (work.phase, work.buf) = (Phase::Reload, Buf::NoData);
        Some(work.memory_end)
    }
}

/// Writes home tracks from the beginning of `buf`. They have no sectors if they consist of defects alone.
fn rewrite(disk: &mut Disk, home: &Home, tracks: Range<u32>, buf: &Buf) -> DiskResult {
    match home.sectors_of(tracks.clone()) {
        0 => Ok(()),
        sectors => disk.write(home.start(tracks.start), sectors, Cause::Clean, buf, 0),
    }
}

impl BandWork {
    /// Chooses which tracks this stage holds and rewrites, and enlarges the buffer for them.
    fn next_stage(&mut self, disk: &Disk, home: &Home) {
        let law = disk.interference();
        let sectors_to = |end: u32| home.sectors_of(self.first..end);
        let mut held = self.plan_end;
        if sectors_to(held) > home.stage_sectors {
            let fits = |&end: &u32| sectors_to(end) <= home.stage_sectors;
            // Even if the stage grows too long, what a rewrite of the first track damages is held.
            let least = self.memory_end.max(self.first + 1).max(home.damaged_end(law, self.first));
            held = (least..held).take_while(fits).last().unwrap_or(least).min(held);
        }
        // A track of defects alone is not written and damages nothing, but the one before it may damage tracks beyond.
        let last_with_sectors = |end: u32| (self.first..end).rev().find(|&track| home.sectors(track) > 0);
        let damaged_end = |end: u32| last_with_sectors(end).map_or(end, |track| home.damaged_end(law, track));
        // What the rewrite damages must be held, except after the plan's end, where it is cached. So at least the first track can be
        // rewritten.
        self.end = match held == self.plan_end {
            true => held,
            false => (self.first + 1..=held).rev().find(|&end| damaged_end(end) <= held).unwrap_or(held),
        };
        self.memory_end = held;
        let mut buf = disk.buf(sectors_to(held));
        if self.unread > self.first {
            buf.put(0, &self.buf, 0, sectors_to(self.unread));
        }
        self.buf = buf;
    }

    /// Writes the note and the tracks `from..memory_end` to a half of the scratch pad.
    ///
    /// The other half already has the tracks up to `unread`, from the previous stage. Of these, `first..from` stay there. Tracks from `end` on
    /// must be in this half, because the next stage needs them, and overwrites the other half; so `from` is the smaller of `unread` and `end`.
    ///
    /// ```text
    /// first ·· other half ·· from ───────── this half ───────── memory_end
    ///                          └ min(unread, end)
    /// ```
    fn save(&mut self, disk: &mut Disk, home: &Home, half: usize) -> DiskResult {
        let mut copy = ScratchCopy { half, from: self.first, first: self.first, other: Pba(0) };
        if let Some(before) = &self.before {
            (copy.from, copy.other) = (self.unread.min(self.end), before.place(home, self.first));
        }
        let (at, sectors) = (home.sectors_of(self.first..copy.from), home.sectors_of(copy.from..self.memory_end));
        let mut buf = disk.metadata(NOTE_SECTORS + sectors);
        buf.put(NOTE_SECTORS, &self.buf, at, sectors);
        disk.write(home.pads[half], NOTE_SECTORS + sectors, Cause::Clean, &buf, 0)?;
        self.saved = Some(copy);
        Ok(())
    }

    /// Reads back the held tracks from the scratch pad; returns `false` if it has none.
    fn reload(&mut self, disk: &mut Disk, home: &Home) -> DiskResult<bool> {
        let (copy, end) = match (&self.saved, &self.before) {
            (Some(saved), _) => (saved, self.memory_end),
            (None, Some(before)) => (before, self.unread),
            (None, None) => return Ok(false),
        };
        // Tracks before `from` are in the other half. If this stage has saved nothing yet, the previous stage's copy is used. Its `from` is at
        // most `first`, where that stage ended, so all that is still needed is in its own half.
        let from = copy.from.clamp(self.first, end);
        self.buf = disk.buf(home.sectors_of(self.first..end));
        let (in_other_half, in_this_half) = (home.sectors_of(self.first..from), home.sectors_of(from..end));
        if in_this_half > 0 {
            disk.read(copy.place(home, from), in_this_half, Cause::Clean, &mut self.buf, in_other_half)?;
        }
        if in_other_half > 0 {
            disk.read(copy.other, in_other_half, Cause::Clean, &mut self.buf, 0)?;
        }
        Ok(self.saved.is_some() || in_this_half > 0)
    }

    /// Advances to the next stage, which keeps the tracks held but not yet rewritten; returns `false` after the last stage.
    fn advance(&mut self, disk: &Disk, home: &Home) -> bool {
        if self.end == self.plan_end {
            return false;
        }
        let mut buf = disk.buf(home.sectors_of(self.end..self.memory_end));
        buf.put(0, &self.buf, home.sectors_of(self.first..self.end), home.sectors_of(self.end..self.memory_end));
        self.buf = buf;
        self.before = self.saved.take();
        self.torn = false;
        (self.first, self.unread, self.phase) = (self.end, self.memory_end, Phase::Read);
        true
    }
}
