//! The log of a served drive as it is written: requests in the order of their coming, each once its times are known.

use std::collections::VecDeque;

use super::log::{LogEvent, LogWriter};
use crate::log::log;

/// Lines that are written, and those that wait for what comes before them.
pub(super) struct Notes {
    out: Option<LogWriter>,
    /// In order; those with a tag are under way.
    held: VecDeque<(Option<u64>, LogEvent)>,
}

impl Notes {
    pub(super) fn new(out: Option<LogWriter>) -> Notes {
        Notes { out, held: VecDeque::new() }
    }

    /// Adds what has happened.
    pub(super) fn add(&mut self, event: LogEvent) {
        match self.held.is_empty() {
            true => self.write(&event),
            false => self.held.push_back((None, event)),
        }
    }

    /// Adds a request that is under way, as it stands in the log if it fails.
    pub(super) fn begin(&mut self, tag: u64, failed: LogEvent) {
        if self.out.is_some() {
            self.held.push_back((Some(tag), failed));
        }
    }

    /// A request came to its end: it was served, or failed.
    pub(super) fn end(&mut self, tag: u64, served: Option<LogEvent>) {
        if let Some(held) = self.held.iter_mut().find(|held| held.0 == Some(tag)) {
            *held = (None, served.unwrap_or(held.1));
        }
        while let Some((None, event)) = self.held.front().copied() {
            self.held.pop_front();
            self.write(&event);
        }
    }

    /// Drops notes of commands under way, and all that wait for them: the service ends here.
    pub(super) fn drop_held(&mut self) {
        self.held.clear();
    }

    fn write(&mut self, event: &LogEvent) {
        if let Some(Err(error)) = self.out.as_mut().map(|out| out.add(event)) {
            self.give_up(&error);
        }
    }

    /// Writes out what has gathered.
    pub(super) fn flush(&mut self) {
        if let Some(Err(error)) = self.out.as_mut().map(LogWriter::flush) {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &dyn std::fmt::Display) {
        log(&format!("the log ends here: {error}"));
        self.out = None;
    }
}

#[cfg(test)]
mod tests {
    use smrkit::experiment::size::AskedCapacity;
    use smrkit::experiment::system::{System, Systems};
    use smrkit::request::{Op, Request};
    use smrkit::settings::Settings;
    use smrkit::units::{Lba, Nanos};

    use super::*;

    fn failed(lba: u64) -> LogEvent {
        LogEvent::Failed { request: Request::new(Op::Read, Lba(lba), 1), arrival: Nanos(lba) }
    }

    #[test]
    fn lines_are_in_the_order_of_the_requests_coming() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("log");
        let system = System::drive("tiny").layer("log").capacity(AskedCapacity::Auto);
        let run = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
        let mut notes = Notes::new(Some(LogWriter::open(&path, &run.record()).unwrap()));
        let lines = |notes: &mut Notes| {
            notes.flush();
            let text = std::fs::read_to_string(&path).unwrap();
            text.lines().skip(1).map(str::to_string).collect::<Vec<_>>()
        };
        notes.begin(7, failed(1));
        notes.begin(8, failed(2));
        notes.add(LogEvent::Idle(Nanos(5)));
        notes.end(8, Some(LogEvent::Recovered(Nanos(2))));
        assert_eq!(lines(&mut notes), [""; 0], "the first is under way");
        notes.end(7, None);
        notes.add(LogEvent::Closed);
        assert_eq!(lines(&mut notes), ["failed read 1 1 1", "recovered 2", "idle 5", "closed"]);
        notes.begin(9, failed(3));
        notes.add(LogEvent::Idle(Nanos(6)));
        notes.drop_held();
        notes.add(LogEvent::Closed);
        assert_eq!(lines(&mut notes).len(), 5, "what ends with the service is left out");
    }
}
