//! Work for a file system, as a sequence that is the same on a mount and on the model's clock.
//!
//! A generator yields [`WorkloadEvent`]s (create, append, read whole, delete, stat). A [`Script`] cuts them into acts of a bounded size, so
//! that two scripts can take turns. A [`Target`] executes the acts: a file system on the model's clock, or a directory of a mounted one.

pub mod driver;
#[cfg(test)]
pub(crate) mod tests;

use serde::Serialize;
use smrkit::units::Nanos;

use crate::error::FsResult;
use crate::space::Counts;

/// A file of a workload, by its number in a numbered folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    /// The folder.
    pub folder: u32,
    /// The file's number in it; numbers are not used twice.
    pub number: u64,
}

/// Operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// Made and written.
    Create,
    /// Opened, and written at its end.
    Append,
    /// Opened, and read from its start to its end.
    Read,
    /// Removed.
    Delete,
    /// Looked up, and its attributes read.
    Stat,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [EventKind; 5] =
        [EventKind::Create, EventKind::Append, EventKind::Read, EventKind::Delete, EventKind::Stat];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        ["create", "append", "read", "delete", "stat"][self as usize]
    }
}

/// One operation that a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadEvent {
    /// The operation.
    pub kind: EventKind,
    /// The file.
    pub file: FileKey,
    /// Bytes written or read.
    pub bytes: u64,
    /// True if it belongs to what is measured, and not to the preparation.
    pub counted: bool,
}

/// A seeded sequence of events.
pub trait Events {
    /// The next event; `None` at the end.
    fn next(&mut self) -> Option<WorkloadEvent>;

    /// Bytes of the files that exist after the last event.
    fn kept_bytes(&self) -> u64;
}

/// Events, cut into acts of a bounded size.
pub struct Script<E> {
    /// The events.
    pub events: E,
    /// The event that has begun, and the bytes of it that are done.
    current: Option<(WorkloadEvent, u64)>,
}

/// An act, and the event that it is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadStep {
    /// The act.
    pub act: Act,
    /// The event.
    pub event: WorkloadEvent,
    /// True if the event begins with it.
    pub begins: bool,
    /// True if the event ends with it.
    pub ends: bool,
}

impl<E: Events> Script<E> {
    /// A script of these events.
    pub fn new(events: E) -> Script<E> {
        Script { events, current: None }
    }

    /// True if an event has begun and not ended.
    pub fn is_within_event(&self) -> bool {
        self.current.is_some()
    }

    /// The next act, of at most `most_bytes` (at least 1); `None` at the end.
    pub fn next(&mut self, most_bytes: u64) -> Option<WorkloadStep> {
        let Some((event, done_bytes)) = self.current.take() else {
            // No event is under way, so the next one begins.
            let event = self.events.next()?;
            let (act, ends) = match event.kind {
                EventKind::Create => (Act::Create(event.file), false),
                EventKind::Append => (Act::Open { file: event.file, writing: true }, false),
                EventKind::Read => (Act::Open { file: event.file, writing: false }, false),
                EventKind::Delete => (Act::Delete(event.file), true),
                EventKind::Stat => (Act::Stat(event.file), true),
            };
            if !ends {
                self.current = Some((event, 0));
            }
            return Some(WorkloadStep { act, event, begins: true, ends });
        };
        let (file, writing) = (event.file, event.kind != EventKind::Read);
        let left = event.bytes - done_bytes;
        if left == 0 {
            return Some(WorkloadStep { act: Act::Close { file, writing }, event, begins: false, ends: true });
        }
        let bytes = left.min(most_bytes.max(1));
        let act = if writing { Act::Append { file, bytes } } else { Act::Read { file, offset: done_bytes, bytes } };
        self.current = Some((event, done_bytes + bytes));
        Some(WorkloadStep { act, event, begins: false, ends: false })
    }
}

/// A call to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Act {
    /// Makes a file and opens it for writing.
    Create(FileKey),
    /// Opens a file.
    Open { file: FileKey, writing: bool },
    /// Writes this many bytes at the end of an open file.
    Append { file: FileKey, bytes: u64 },
    /// Reads bytes of an open file.
    Read { file: FileKey, offset: u64, bytes: u64 },
    /// Closes a file.
    Close { file: FileKey, writing: bool },
    /// Removes a file.
    Delete(FileKey),
    /// Looks a file up and reads its attributes.
    Stat(FileKey),
}

impl Act {
    /// Bytes that it writes.
    pub fn written_bytes(self) -> u64 {
        if let Act::Append { bytes, .. } = self { bytes } else { 0 }
    }

    /// Bytes that it reads.
    pub fn read_bytes(self) -> u64 {
        if let Act::Read { bytes, .. } = self { bytes } else { 0 }
    }
}

/// Room on a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetRoom {
    /// Bytes of files.
    pub live_bytes: u64,
    /// Bytes still free for files.
    pub free_bytes: u64,
    /// Granules of the disk by state and the bytes of a granule, if the target knows them.
    pub counts: Option<(Counts, u64)>,
}

/// Work of a target's cleaner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// Bytes that it has moved.
    pub moved_bytes: u64,
    /// Bands that it has reset.
    pub resets: u64,
    /// Writes that had to wait for it.
    pub stalls: u64,
}

/// A place where files are made, written, read and removed.
pub trait Target {
    /// Carries out an act. Fails with ENOSPC if there is no room.
    fn perform(&mut self, act: Act) -> FsResult;

    /// The target's time.
    fn now(&self) -> Nanos;

    /// Lets the target do its background work that is due, before the next act.
    fn background(&mut self) -> FsResult {
        Ok(())
    }

    /// Stays idle up to `until`: the target may clean meanwhile, and a step that it has begun may end later.
    fn rest(&mut self, until: Nanos) -> FsResult;

    /// Time by which its cleaner has delayed acts so far, if the target knows it.
    fn waited(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Room of the target.
    fn room(&self) -> FsResult<TargetRoom>;

    /// Work of the cleaner, if the target knows it.
    fn cleaned(&self) -> Cleaned {
        Cleaned::default()
    }
}

/// The events of one kind, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencySummary {
    /// Number of events.
    pub count: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// The median, by nearest rank.
    pub p50_ns: u64,
    /// The 99th percentile, by nearest rank.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Every event's latency, by kind.
#[derive(Clone, Debug, Default)]
pub struct EventLatencies {
    by_kind: [Vec<u64>; EventKind::ALL.len()],
}

impl EventLatencies {
    /// Adds the latency of an event.
    pub fn record(&mut self, kind: EventKind, latency: Nanos) {
        self.by_kind[kind as usize].push(latency.0);
    }

    /// The events of one kind.
    pub fn for_kind(&self, kind: EventKind) -> LatencySummary {
        summary(self.by_kind[kind as usize].clone())
    }

    /// All events.
    pub fn all(&self) -> LatencySummary {
        summary(self.by_kind.concat())
    }
}

fn summary(mut ns: Vec<u64>) -> LatencySummary {
    ns.sort_unstable();
    let count = ns.len() as u64;
    let Some(&max_ns) = ns.last() else { return LatencySummary::default() };
    let sum: u128 = ns.iter().map(|&n| u128::from(n)).sum();
    let rank = |percent: usize| ns[(ns.len() * percent).div_ceil(100).max(1) - 1];
    LatencySummary { count, mean_ns: (sum / u128::from(count)) as u64, p50_ns: rank(50), p99_ns: rank(99), max_ns }
}
