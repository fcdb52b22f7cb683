//! Runs scripts on a target, one alone or two in turns, measures their events, and reports to a watcher.
//!
//! Turns are counted in bytes, so that the order of the acts does not depend on the speed of the target.

use serde::Serialize;
use smrkit::units::Nanos;

use super::{EventKind, EventLatencies, Events, Script, Target, WorkloadEvent, WorkloadStep};
use crate::error::{Errno, FsResult};

/// Bytes of a block, by which turns are counted (Kadekodi et al. 2015, section 4: at most 1 MB).
pub const BLOCK_BYTES: u64 = 1 << 20;
/// The longest rest between two calls of the watcher. Longer rests are divided.
const REST_NS: u64 = 250_000_000;
/// The most bytes of an act where a turn is a whole file.
const ACT_BYTES: u64 = 64 << 20;

/// Grain at which concurrent streams interleave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interleave {
    /// A turn is this many blocks.
    Blocks(u64),
    /// A turn lasts until its file is whole.
    WholeFile,
}

impl Interleave {
    fn turn_bytes(self) -> u64 {
        match self {
            Interleave::Blocks(blocks) => blocks.max(1).saturating_mul(BLOCK_BYTES),
            Interleave::WholeFile => ACT_BYTES,
        }
    }
}

/// End of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// All events were carried out.
    #[default]
    Done,
    /// The target had no room for a block.
    Full,
    /// The watcher stopped the run.
    Stopped,
}

/// Watches a run.
pub trait Watch {
    /// Called after each act, with the bytes written in all. Returns `false` to stop the run.
    fn stepped(&mut self, target: &mut dyn Target, written_bytes: u64) -> FsResult<bool>;
}

/// When a script that runs alone rests. Pauses have a fixed length, so that a slow target does not get longer ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rests {
    /// Bytes written from one rest to the next, which comes when an event has ended.
    pub every_bytes: u64,
    /// Length of each rest.
    pub pause: Nanos,
}

/// Runs scripts on one target, and keeps the totals.
pub struct Driver<'a> {
    /// The target.
    pub target: &'a mut dyn Target,
    watch: &'a mut dyn Watch,
    interleave: Interleave,
    /// Bytes written by all streams so far.
    pub written_bytes: u64,
    rests: Option<Rests>,
    /// Bytes written at the last rest.
    rested_at: u64,
    /// Time by which cleaning has lasted beyond rests.
    overrun: Nanos,
    /// Time by which cleaning had delayed acts when the last act ended. Later delay belongs to the next act.
    waited: Nanos,
}

/// The results of one stream.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The counted events.
    pub latencies: EventLatencies,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time spent in events that write.
    pub writing: Nanos,
    /// Time spent in events that read.
    pub reading: Nanos,
    /// When it began, by the target's clock.
    pub begin: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// Time spent in events of any kind.
    pub busy: Nanos,
    /// The part of `busy` that cleaning took.
    pub delay: Nanos,
    /// Events that cleaning delayed.
    pub delayed: u64,
    /// The longest delay of an event.
    pub longest_delay: Nanos,
    began: Nanos,
    /// Time by which cleaning had delayed acts before the event.
    waited: Nanos,
}

impl Record {
    /// Records an event that ended at `now`, when cleaning had delayed acts by `waited` in all.
    fn ended(&mut self, event: &WorkloadEvent, now: Nanos, waited: Nanos) {
        let took = now.since(self.began);
        let delay = waited.since(self.waited);
        self.busy += took;
        self.delay += delay;
        self.delayed += u64::from(delay > Nanos::ZERO);
        self.longest_delay = self.longest_delay.max(delay);
        match event.kind {
            EventKind::Create | EventKind::Append => self.writing += took,
            EventKind::Read => self.reading += took,
            EventKind::Delete | EventKind::Stat => {}
        }
        if event.counted {
            self.latencies.record(event.kind, took);
        }
    }
}

impl<'a> Driver<'a> {
    /// A driver on `target`.
    pub fn new(target: &'a mut dyn Target, watch: &'a mut dyn Watch, interleave: Interleave) -> Driver<'a> {
        let waited = target.waited();
        Driver { target, watch, interleave, written_bytes: 0, rests: None, rested_at: 0, overrun: Nanos::ZERO, waited }
    }

    /// Sets when scripts that run alone rest.
    pub fn rest(self, rests: Option<Rests>) -> Driver<'a> {
        Driver { rests, ..self }
    }

    /// Runs one script alone until it ends, or until this many bytes have been written by this driver in all.
    pub fn alone<E: Events>(&mut self, script: &mut Script<E>, until_bytes: u64, record: &mut Record) -> FsResult<End> {
        while self.written_bytes < until_bytes {
            let bytes_max = self.interleave.turn_bytes().min(until_bytes - self.written_bytes);
            let Some(step) = script.next(bytes_max) else { break };
            if let Some(end) = self.step(&step, record)? {
                return Ok(end);
            }
            let due = |rests: &Rests| step.ends && self.written_bytes - self.rested_at >= rests.every_bytes;
            if let Some(Rests { pause, .. }) = self.rests.filter(due) {
                self.rested_at = self.written_bytes;
                if !self.rest_for(pause)? {
                    return Ok(End::Stopped);
                }
            }
        }
        Ok(End::Done)
    }

    /// Rests for `pause` on the target's clock; returns `false` if the watcher stops the run.
    fn rest_for(&mut self, pause: Nanos) -> FsResult<bool> {
        let end = self.target.now() + pause;
        while self.target.now() < end {
            let until = self.target.now() + Nanos(REST_NS);
            self.target.rest(until.min(end))?;
            if !self.watch.stepped(self.target, self.written_bytes)? {
                return Ok(false);
            }
        }
        // Cleaning that began in the pause and lasts beyond it delays the next act.
        self.overrun += self.target.now().since(end);
        Ok(true)
    }

    /// Time by which cleaning has delayed acts so far.
    fn waited(&self) -> Nanos {
        self.target.waited() + self.overrun
    }

    /// Runs `main` to its end, in turns with `other`, which moves `share` bytes for each byte that `main` moves.
    pub fn beside<M: Events, O: Events>(
        &mut self,
        main: &mut Script<M>,
        other: &mut Script<O>,
        share: f64,
    ) -> FsResult<(Record, End)> {
        let turn = self.interleave.turn_bytes();
        let mut record = Record { begin: self.target.now(), ..Record::default() };
        let mut other_record = Record::default();
        let mut owed_bytes = 0.0;
        let end = loop {
            let Some(step) = main.next(turn) else { break End::Done };
            if let Some(end) = self.step(&step, &mut record)? {
                break end;
            }
            owed_bytes += share * moved_bytes(&step);
            if self.interleave == Interleave::WholeFile && !step.ends {
                continue;
            }
            if let Some(end) = self.catch_up(other, &mut other_record, &mut owed_bytes)? {
                break end;
            }
        };
        record.end = self.target.now();
        Ok((record, end))
    }

    /// Runs the other stream until it has moved its share of bytes and, with whole files, ended its file.
    fn catch_up<O: Events>(
        &mut self,
        other: &mut Script<O>,
        other_record: &mut Record,
        owed_bytes: &mut f64,
    ) -> FsResult<Option<End>> {
        let whole_files = self.interleave == Interleave::WholeFile;
        // The bytes of a whole file beyond the share stay counted, so that the next turn is shorter.
        while *owed_bytes > 0.0 || whole_files && other.is_within_event() {
            let Some(step) = other.next(self.interleave.turn_bytes()) else { break };
            if let Some(end) = self.step(&step, other_record)? {
                return Ok(Some(end));
            }
            *owed_bytes -= moved_bytes(&step);
        }
        Ok(None)
    }

    /// Executes an act, and records the event if it ends with this act. Returns `Some` if the run is over.
    fn step(&mut self, step: &WorkloadStep, record: &mut Record) -> FsResult<Option<End>> {
        if step.begins {
            // The program asked for this act when the last one ended, so cleaning since then is part of the event.
            record.began = Nanos(self.target.now().0 - self.waited().since(self.waited).0);
            record.waited = self.waited;
        }
        match self.target.perform(step.act) {
            Err(error) if error.errno() == Errno::ENOSPC => return Ok(Some(End::Full)),
            other => other?,
        }
        record.written_bytes += step.act.written_bytes();
        record.read_bytes += step.act.read_bytes();
        self.written_bytes += step.act.written_bytes();
        self.waited = self.waited();
        if step.ends {
            record.ended(&step.event, self.target.now(), self.waited);
        }
        self.target.background()?;
        let continues = self.watch.stepped(self.target, self.written_bytes)?;
        Ok((!continues).then_some(End::Stopped))
    }
}

fn moved_bytes(step: &WorkloadStep) -> f64 {
    (step.act.written_bytes() + step.act.read_bytes()) as f64
}
