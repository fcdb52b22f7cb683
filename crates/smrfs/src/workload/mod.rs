//! Work for a file system, as a sequence that does not depend on where it runs: on a mount, or on the model's clock.
//!
//! A generator yields [`WorkloadEvent`]s (create, append, read whole, delete, stat); a [`Script`] cuts them into acts of a bounded
//! size, so that two of them can take turns; a [`Target`] carries the acts out.

#[cfg(test)]
pub(crate) mod books;
pub mod driver;
pub mod latency;
pub mod target;

use serde::Serialize;

pub use target::{Act, Cleaned, Target, TargetRoom};

/// A file of a workload: its place in a numbered folder of the workload's own.
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
    /// All of them.
    pub const ALL: [EventKind; 5] =
        [EventKind::Create, EventKind::Append, EventKind::Read, EventKind::Delete, EventKind::Stat];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        ["create", "append", "read", "delete", "stat"][self as usize]
    }
}

/// One thing that a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadEvent {
    /// The operation.
    pub kind: EventKind,
    /// Of which file.
    pub file: FileKey,
    /// Bytes written or read.
    pub bytes: u64,
    /// True if it belongs to what is measured, and not to the preparation.
    pub counted: bool,
}

/// A seeded sequence of events.
pub trait Events {
    /// The next event; none at the end.
    fn next(&mut self) -> Option<WorkloadEvent>;

    /// Bytes of the files that are there after the last event.
    fn kept_bytes(&self) -> u64;

    /// Progress from 0 to 1; `None` for a sequence without an end.
    fn progress(&self) -> Option<f64> {
        None
    }
}

/// Cuts events into acts of at most this many bytes.
pub struct Script<E> {
    events: E,
    current: Option<Underway>,
}

/// An event that has begun.
#[derive(Clone, Copy, Debug)]
struct Underway {
    event: WorkloadEvent,
    done_bytes: u64,
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

    /// The events.
    pub fn events(&self) -> &E {
        &self.events
    }

    /// True if an event has begun and not ended.
    pub fn is_within_event(&self) -> bool {
        self.current.is_some()
    }

    /// The next act, of at most `most_bytes` (at least 1); none at the end.
    pub fn next(&mut self, most_bytes: u64) -> Option<WorkloadStep> {
        let Some(mut now) = self.current.take() else {
            let event = self.events.next()?;
            let (act, ends) = match event.kind {
                EventKind::Create => (Act::Create(event.file), false),
                EventKind::Append => (Act::Open { file: event.file, writing: true }, false),
                EventKind::Read => (Act::Open { file: event.file, writing: false }, false),
                EventKind::Delete => (Act::Delete(event.file), true),
                EventKind::Stat => (Act::Stat(event.file), true),
            };
            if !ends {
                self.current = Some(Underway { event, done_bytes: 0 });
            }
            return Some(WorkloadStep { act, event, begins: true, ends });
        };
        let event = now.event;
        let (file, writing) = (event.file, event.kind != EventKind::Read);
        let left = event.bytes - now.done_bytes;
        if left == 0 {
            return Some(WorkloadStep { act: Act::Close { file, writing }, event, begins: false, ends: true });
        }
        let bytes = left.min(most_bytes.max(1));
        let act = match writing {
            true => Act::Append { file, bytes },
            false => Act::Read { file, offset: now.done_bytes, bytes },
        };
        now.done_bytes += bytes;
        self.current = Some(now);
        Some(WorkloadStep { act, event, begins: false, ends: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Few(Vec<WorkloadEvent>);
    impl Events for Few {
        fn next(&mut self) -> Option<WorkloadEvent> {
            self.0.pop()
        }

        fn kept_bytes(&self) -> u64 {
            0
        }
    }

    #[test]
    fn an_event_is_cut_into_acts_that_add_up() {
        let file = FileKey { folder: 1, number: 7 };
        let event = |kind, bytes| WorkloadEvent { kind, file, bytes, counted: true };
        let mut script = Script::new(Few(vec![event(EventKind::Delete, 0), event(EventKind::Create, 25)]));
        let mut acts = Vec::new();
        while let Some(step) = script.next(10) {
            acts.push((step.act, step.ends));
        }
        let append = |bytes| (Act::Append { file, bytes }, false);
        let close = (Act::Close { file, writing: true }, true);
        let expected =
            [(Act::Create(file), false), append(10), append(10), append(5), close, (Act::Delete(file), true)];
        assert_eq!(acts, expected);
    }
}
