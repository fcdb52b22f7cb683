//! Cleaning one band: stages of a buffer's size, phases of a stage (Vguard 2017, section 2.3).
//!
//! A stage reads home tracks, lays what is cached over them, writes them to the scratch pad and then in place. Rewriting a
//! stage's last track damages what follows it, so that the stage holds those tracks too; until they are rewritten in the
//! next stage, they are found in the scratch pad. Where stages end: 20 outer tracks and 15 MB make 7, 7 and 6.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::home::Home;
use super::pads::Note;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::Pba;

/// Result of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::layer) enum PhaseResult {
    /// No more than the phase.
    Phase,
    /// Home tracks were rewritten; `over` if they were the last of the band.
    Stage {
        /// Tracks that were rewritten.
        tracks: Range<u32>,
        /// No stage follows.
        over: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// After a power cut: what the scratch pad has of the stage is read back.
    Reload,
    Read,
    Overlay,
    Save,
    Rewrite,
}

/// One band at work.
#[derive(Serialize, Deserialize)]
struct BandWork {
    plan_end: u32,
    /// Nothing lies on the tracks from here on, so that they are not read.
    blank: u32,
    /// The stage rewrites the tracks from `first` up to `end` and holds them up to `held`; before its first phase only
    /// those that the stage before left to it are held, and `end` is `first`.
    first: u32,
    end: u32,
    held: u32,
    /// The tracks from here on were not held before this stage.
    fresh: u32,
    phase: Phase,
    #[serde(skip)]
    buf: Buf,
    /// The note of the stage before, whose half holds the tracks from `first` up to `fresh`.
    before: Option<Note>,
    /// The note of this stage.
    note: Option<Note>,
    /// True if the power was cut while this stage was rewritten: until that is done, its tracks are found in the scratch pad alone.
    torn: bool,
}

/// Cleans one band at a time.
#[derive(Default, Serialize, Deserialize)]
pub(in crate::layer) struct Cleaner {
    work: Option<BandWork>,
    next_half: usize,
}

impl Cleaner {
    /// True if a restored state names tracks of one band, and notes that go with them.
    pub fn is_possible(&self, home: &Home) -> bool {
        let Some(work) = &self.work else { return self.next_half < 2 };
        let ordered = [work.first, work.end, work.held, work.plan_end].is_sorted()
            && [work.first, work.fresh, work.held].is_sorted()
            && work.first < work.plan_end
            && work.plan_end <= home.tracks();
        let in_band = ordered && home.tracks_of(home.band_of(work.first)).contains(&(work.plan_end - 1));
        let note = |note: &Note| note.is_possible() && [note.first, note.held] == [work.first, work.held];
        let before = |note: &Note| note.is_possible() && note.from <= work.first && work.fresh <= note.held;
        in_band && self.next_half < 2 && work.note.iter().all(note) && work.before.iter().all(before)
    }

    /// True if a band is at work.
    #[inline]
    pub fn is_working(&self) -> bool {
        self.work.is_some()
    }

    /// Begins to rewrite home tracks, all of one band. What follows them in the band within the law's reach must be
    /// cached, or lie beyond the band. Where a second write wears what lies before it, they begin with their band.
    pub fn begin(&mut self, tracks: Range<u32>) {
        self.begin_written(tracks, u32::MAX);
    }

    /// Begins to clean where nothing has ever been written to the tracks from `blank` on.
    pub fn begin_written(&mut self, tracks: Range<u32>, blank: u32) {
        debug_assert!(self.work.is_none() && !tracks.is_empty());
        let first = tracks.start;
        self.work = Some(BandWork {
            plan_end: tracks.end,
            blank,
            first,
            end: first,
            held: first,
            fresh: first,
            phase: Phase::Read,
            buf: Buf::NoData,
            before: None,
            note: None,
            torn: false,
        });
    }

    /// The home tracks held in memory: a write to them or over them must wait until their stage is over.
    #[inline]
    pub fn held(&self) -> Range<u32> {
        self.work.as_ref().map_or(0..0, |work| work.first..work.held)
    }

    /// Place in the scratch pad of a track whose home copy may be damaged; `None` for all others.
    #[inline]
    pub fn scratch_copy(&self, home: &Home, track: u32) -> Option<Pba> {
        let work = self.work.as_ref()?;
        match (&work.note, &work.before) {
            (Some(note), _) if work.torn => {
                (work.first <= track && track < work.held).then(|| note.place_of(home, track))
            }
            (_, Some(before)) => (work.first <= track && track < work.fresh).then(|| before.place(home, track)),
            _ => None,
        }
    }

    /// The note of the stage at work, and whether that stage has been rewritten: what a record of the map must name, so
    /// that it is replayed if and only if it has to be. `None` while the platters hold nothing that is needed.
    pub fn noted(&self) -> Option<(u64, bool)> {
        let work = self.work.as_ref()?;
        match (&work.note, &work.before) {
            (Some(note), _) => Some((note.sequence, false)),
            (None, Some(note)) => Some((note.sequence, true)),
            (None, None) => None,
        }
    }

    /// Does one phase. `sequence` goes up by one with each note. `overlay` lays what is cached of home tracks over the
    /// buffer, in which the first of them begins at the sector given, and says whether there was anything.
    pub fn phase(
        &mut self,
        disk: &mut Disk,
        home: &Home,
        sequence: &mut u64,
        mut overlay: impl FnMut(&mut Disk, Range<u32>, &mut Buf, u64) -> DiskResult<bool>,
    ) -> DiskResult<PhaseResult> {
        let Some(work) = &mut self.work else { return Ok(PhaseResult::Phase) };
        loop {
            match work.phase {
                Phase::Reload => {
                    work.phase = if work.note.is_some() { Phase::Rewrite } else { Phase::Read };
                    if work.reload(disk, home)? {
                        return Ok(PhaseResult::Phase);
                    }
                }
                Phase::Read => {
                    work.next_stage(disk, home)?;
                    work.phase = Phase::Overlay;
                    let sectors = home.sectors_of(work.fresh..work.held.min(work.blank).max(work.fresh));
                    if sectors > 0 {
                        let at = home.sectors_of(work.first..work.fresh);
                        disk.read(home.start(work.fresh), sectors, Cause::Clean, &mut work.buf, at)?;
                        return Ok(PhaseResult::Phase);
                    }
                }
                Phase::Overlay => {
                    work.phase = Phase::Save;
                    let at = home.sectors_of(work.first..work.fresh);
                    if overlay(disk, work.fresh..work.held, &mut work.buf, at)? {
                        return Ok(PhaseResult::Phase);
                    }
                }
                Phase::Save => {
                    *sequence += 1;
                    work.save(disk, home, *sequence, self.next_half)?;
                    self.next_half = 1 - self.next_half;
                    work.phase = Phase::Rewrite;
                    return Ok(PhaseResult::Phase);
                }
                Phase::Rewrite => {
                    rewrite(disk, home, work.first..work.end, &work.buf)?;
                    let tracks = work.first..work.end;
                    let over = !work.advance(disk, home)?;
                    if over {
                        self.work = None;
                    }
                    return Ok(PhaseResult::Stage { tracks, over });
                }
            }
        }
    }

    /// The power was cut, and the memory is empty. A stage goes on from its note, or begins again without one. Returns the first track
    /// of which nothing is held any more.
    pub fn power_cut(&mut self) -> Option<u32> {
        let work = self.work.as_mut()?;
        work.torn = work.note.is_some();
        if !work.torn {
            work.held = work.fresh;
        }
        (work.phase, work.buf) = (Phase::Reload, Buf::NoData);
        Some(work.held)
    }

    /// The newest note in the scratch pad.
    pub fn newest_note(&self, disk: &mut Disk, home: &Home) -> DiskResult<Option<Note>> {
        Note::newest(disk, home)
    }

    /// Takes up the stage of a note after a power cut. Unless it is known to have been rewritten, it is now, and the tracks
    /// are returned; then the rest of the band is at work. The cached copies of those tracks are out of date.
    pub fn recover_stage(
        &mut self,
        disk: &mut Disk,
        home: &Home,
        note: Note,
        rewritten: bool,
    ) -> DiskResult<Range<u32>> {
        let mut buf = disk.buf(home.sectors_of(note.first..note.held));
        // Where the other half holds something else by now, a later stage has begun, so this one was over.
        let whole = note.read(disk, home, &mut buf)?;
        let mut tracks = note.first..note.first;
        if whole && !rewritten {
            rewrite(disk, home, note.first..note.end, &buf)?;
            tracks = note.first..note.end;
        }
        let mut work = BandWork {
            plan_end: note.plan_end,
            blank: u32::MAX,
            first: note.first,
            end: note.end,
            held: note.held,
            fresh: note.first,
            phase: Phase::Rewrite,
            buf,
            before: None,
            note: Some(note),
            torn: false,
        };
        self.next_half = 1 - note.half;
        self.work = work.advance(disk, home)?.then_some(work);
        Ok(tracks)
    }
}

/// Writes home tracks from the beginning of `buf`; some may be of defects alone.
fn rewrite(disk: &mut Disk, home: &Home, tracks: Range<u32>, buf: &Buf) -> DiskResult {
    match home.sectors_of(tracks.clone()) {
        0 => Ok(()),
        sectors => disk.write(home.start(tracks.start), sectors, Cause::Clean, buf, 0),
    }
}

impl BandWork {
    /// Chooses how far this stage goes, and makes room for it.
    fn next_stage(&mut self, disk: &Disk, home: &Home) -> DiskResult {
        let law = disk.interference();
        let rest = |to: u32| home.sectors_of(self.first..to);
        let mut held = self.held.max(self.first + 1);
        while held < self.plan_end && rest(held + 1) <= home.stage_sectors() {
            held += 1;
        }
        held = held.max(home.damaged_end(law, self.first)).min(self.plan_end);
        // A track of defects alone damages nothing: the one before it may reach past it.
        let last = |end: u32| (self.first..end).rev().find(|&track| home.sectors(track) > 0);
        let reach = |end: u32| last(end).map_or(end, |track| home.damaged_end(law, track));
        self.end = match held == self.plan_end {
            true => held,
            false => (self.first + 1..=held).rev().find(|&end| reach(end) <= held).unwrap_or(held),
        };
        self.held = held;
        let mut buf = disk.buf(rest(held));
        if self.fresh > self.first {
            buf.put(0, &self.buf, 0, rest(self.fresh))?;
        }
        self.buf = buf;
        Ok(())
    }

    fn save(&mut self, disk: &mut Disk, home: &Home, sequence: u64, half: usize) -> DiskResult {
        let mut note = Note::new(sequence, half, (self.first, self.end, self.held, self.plan_end));
        // What the next stage needs is written here even if the other half holds it, since that is overwritten by then.
        if let Some(before) = &self.before {
            note.from = self.fresh.min(self.end);
            note.other = before.place(home, self.first);
            note.other_sequence = before.sequence;
        }
        note.write(disk, home, &self.buf)?;
        self.note = Some(note);
        Ok(())
    }

    /// Reads back what the scratch pad has of the tracks held; whether there was anything.
    fn reload(&mut self, disk: &mut Disk, home: &Home) -> DiskResult<bool> {
        if let Some(note) = &self.note {
            self.buf = disk.buf(home.sectors_of(self.first..self.held));
            note.read(disk, home, &mut self.buf)?;
            return Ok(true);
        }
        let sectors = home.sectors_of(self.first..self.fresh);
        match &self.before {
            Some(before) if sectors > 0 => {
                self.buf = disk.buf(sectors);
                disk.read(before.place(home, self.first), sectors, Cause::Clean, &mut self.buf, 0)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Leaves the tracks that are held but not rewritten to the next stage; whether there is one.
    fn advance(&mut self, disk: &Disk, home: &Home) -> DiskResult<bool> {
        if self.end == self.plan_end {
            return Ok(false);
        }
        let mut buf = disk.buf(home.sectors_of(self.end..self.held));
        buf.put(0, &self.buf, home.sectors_of(self.first..self.end), home.sectors_of(self.end..self.held))?;
        self.buf = buf;
        self.before = self.note.take();
        self.torn = false;
        (self.first, self.fresh, self.phase) = (self.end, self.held, Phase::Read);
        Ok(true)
    }
}
