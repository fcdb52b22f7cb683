//! The log of a served drive, with every request and its times in the order of arrival, and its replay in the simulator.
//!
//! The first line describes the drive, in JSON. Each further line is an event, with decimal numbers and times in nanoseconds of the drive:
//!
//! ```text
//! state BYTES
//! open new|clean|recovered NOW
//! queue fcfs|sptf|drive
//! pace FACTOR
//! read|write|discard|flush LBA SECTORS ARRIVAL START END
//! fault slow SPAN | power-cut SEED | bad-sector LBA | timeout
//! zone open|close|finish NUMBER
//! failed OP LBA SECTORS ARRIVAL
//! idle TIME
//! interrupted TIME
//! recovered NOW
//! closing
//! closed
//! ```
//!
//! The flush after `closing` is the server's own. `state` lines have the drive's state in hexadecimal, if the drive is not new when the log begins. So a log can begin at any time.
//! `IMAGE.smr` has the same lines without `state`, because its state stands before them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use smrkit::device::Completion;
use smrkit::engine::system::SystemRun;
use smrkit::error::{DiskResult, Error};
use smrkit::layer::ZoneAction;
use smrkit::request::{Op, Request};
use smrkit::settings::Queue;
use smrkit::stats::outcome::RunRecord;
use smrkit::units::{Lba, Nanos};

use super::control::InjectedFault;
use super::image::system_of;
use super::model::{Model, is_power_cut};
use crate::log::log;

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LogHead {
    smrkit_log: u32,
    run: RunRecord,
    made_by: String,
}

const VERSION: u32 = 1;
/// Most bytes of the state in one line (assumption).
const STATE_BYTES: usize = 16 << 10;
/// How long a line may stay in the log's buffer (assumption).
const LOG_DELAY: Duration = Duration::from_secs(1);
/// Interval of checks whether the log file was moved away (assumption).
const MOVED_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The latest time in a log: 292 years, half of what a `u64` holds, so that durations can be added without overflow.
const LATEST_NS: u64 = u64::MAX / 2;

/// How a drive was found when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundState {
    /// Never used.
    New,
    /// Closed cleanly.
    Clean,
    /// Not closed cleanly: restored from the last checkpoint and the events after it.
    Recovered,
}

impl FoundState {
    const ALL: [FoundState; 3] = [FoundState::New, FoundState::Clean, FoundState::Recovered];

    fn name(self) -> &'static str {
        ["new", "clean", "recovered"][self as usize]
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub enum LogEvent {
    /// The next part of the state with which the drive is going to be opened.
    State(Vec<u8>),
    /// The drive begins to serve.
    Open(FoundState, Nanos),
    /// The order in which drives serve commands that wait.
    Queue(Queue),
    /// How many times faster than the host's clock the drive's time passes from here on; 1 if there is no such line. Pauses of the host
    /// were shorter than in the log by this factor.
    Pace(f64),
    /// A request was served.
    Served {
        /// The request.
        request: Request,
        /// When it arrived.
        arrival: Nanos,
        /// When its service began.
        start: Nanos,
        /// When it completed.
        end: Nanos,
    },
    /// A fault was injected. It takes effect at the next request, a power cut at the next physical write.
    Fault(InjectedFault),
    /// A host changed the state of a zone, at the time of the line before.
    Zone(ZoneAction, u64),
    /// A request failed because the power was cut.
    Failed {
        /// The request.
        request: Request,
        /// When it arrived.
        arrival: Nanos,
    },
    /// The drive has done all background work that begins before this time.
    Idle(Nanos),
    /// The power was cut during background work that began before this time.
    Interrupted(Nanos),
    /// The power came back.
    Recovered(Nanos),
    /// The drive was switched off cleanly.
    Closed,
    /// The server closes the drive: the flush that follows is its own, and no client's.
    Closing,
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogEvent::State(bytes) => {
                f.write_str("state ")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            LogEvent::Open(found, now) => write!(f, "open {} {}", found.name(), now.0),
            LogEvent::Served { request: Request { op, lba, sectors, .. }, arrival, start, end } => {
                write!(f, "{} {} {sectors} {} {} {}", op.name(), lba.0, arrival.0, start.0, end.0)
            }
            LogEvent::Queue(queue) => write!(f, "queue {}", queue.name()),
            LogEvent::Pace(factor) => write!(f, "pace {factor}"),
            LogEvent::Fault(fault) => write!(f, "fault {fault}"),
            LogEvent::Zone(action, zone) => {
                let name = ZONE_ACTIONS.iter().find(|(known, _)| known == action).map_or("", |(_, name)| name);
                write!(f, "zone {name} {zone}")
            }
            LogEvent::Failed { request: Request { op, lba, sectors, .. }, arrival } => {
                write!(f, "failed {} {} {sectors} {}", op.name(), lba.0, arrival.0)
            }
            LogEvent::Idle(time) => write!(f, "idle {}", time.0),
            LogEvent::Interrupted(time) => write!(f, "interrupted {}", time.0),
            LogEvent::Recovered(now) => write!(f, "recovered {}", now.0),
            LogEvent::Closing => f.write_str("closing"),
            LogEvent::Closed => f.write_str("closed"),
        }
    }
}

/// The names of zone commands in a log.
const ZONE_ACTIONS: [(ZoneAction, &str); 3] =
    [(ZoneAction::Open, "open"), (ZoneAction::Close, "close"), (ZoneAction::Finish, "finish")];

impl LogEvent {
    pub(super) fn parse(line: &str) -> Option<LogEvent> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let time = |at: usize| number(at).filter(|&ns| ns <= LATEST_NS).map(Nanos);
        let request = |at: usize| {
            let op = [Op::Read, Op::Write, Op::Flush, Op::Discard].into_iter().find(|op| op.name() == words[at])?;
            Some(Request::new(op, Lba(number(at + 1)?), number(at + 2)?.try_into().ok()?))
        };
        match words[0] {
            "state" => {
                let text = words.get(1)?;
                let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
                (0..text.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>().map(LogEvent::State)
            }
            "open" => {
                let found = FoundState::ALL.into_iter().find(|found| Some(&found.name()) == words.get(1))?;
                Some(LogEvent::Open(found, time(2)?))
            }
            "queue" => {
                let choice = Queue::ALL.into_iter().find(|choice| Some(&choice.name) == words.get(1))?;
                Some(LogEvent::Queue(choice.value))
            }
            "pace" => Some(LogEvent::Pace(words.get(1)?.parse().ok().filter(|factor| *factor > 0.0)?)),
            "fault" => words[1..].join(" ").parse().ok().map(LogEvent::Fault),
            "zone" => {
                let (action, _) = ZONE_ACTIONS.into_iter().find(|(_, name)| Some(name) == words.get(1))?;
                Some(LogEvent::Zone(action, number(2)?))
            }
            "failed" if words.len() == 5 => Some(LogEvent::Failed { request: request(1)?, arrival: time(4)? }),
            "closing" => Some(LogEvent::Closing),
            "closed" => Some(LogEvent::Closed),
            "idle" => Some(LogEvent::Idle(time(1)?)),
            "interrupted" => Some(LogEvent::Interrupted(time(1)?)),
            "recovered" => Some(LogEvent::Recovered(time(1)?)),
            // OP LBA SECTORS ARRIVAL START END, whose first word is the request's op.
            _ if words.len() == 6 => {
                Some(LogEvent::Served { request: request(0)?, arrival: time(3)?, start: time(4)?, end: time(5)? })
            }
            _ => None,
        }
    }
}

/// A log that is being written.
pub struct LogWriter {
    out: BufWriter<File>,
    path: PathBuf,
    /// Since when there have been lines in the buffer.
    unwritten_since: Option<Instant>,
    /// When it was last checked whether the file was moved away.
    move_checked_at: Instant,
}

impl LogWriter {
    /// Opens the log at `path` to append to it, or creates it. An incomplete last line, left by a killed server, is removed.
    pub fn open(path: &Path, run: &RunRecord) -> Result<LogWriter, Error> {
        let failed = |error| Error::writing(path, error);
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o644).custom_flags(flags);
        let mut file = options.open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(Error::input(path, "no regular file: name a new one for the log"));
        }
        if found.len() > 0 {
            let begun = LogReader::open(path)?;
            if begun.run != *run {
                return Err(Error::input(path, "the log of another drive: name a new file"));
            }
            // A reader takes the version of `state` lines from the head.
            if begun.made_by != smrkit::VERSION {
                return Err(Error::input(path, format!("begun by smrkit {}: name a new file", begun.made_by)));
            }
            let end = end_of_lines(&file, found.len()).map_err(failed)?;
            file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        }
        let mut out = BufWriter::with_capacity(1 << 20, file);
        if found.len() == 0 {
            let head = LogHead { smrkit_log: VERSION, run: run.clone(), made_by: smrkit::VERSION.into() };
            let text = serde_json::to_string(&head).map_err(|error| failed(error.into()))?;
            writeln!(out, "{text}").map_err(failed)?;
        }
        // A server in the background leaves the directory to which the path may be relative.
        let path = std::path::absolute(path).map_err(failed)?;
        Ok(LogWriter { out, path, unwritten_since: None, move_checked_at: Instant::now() })
    }

    /// True if the file is found to be no longer at its path (log rotation).
    fn was_moved(&mut self) -> bool {
        if self.move_checked_at.elapsed() < MOVED_CHECK_INTERVAL {
            return false;
        }
        self.move_checked_at = Instant::now();
        let inode = |found: io::Result<Metadata>| found.map(|found| (found.dev(), found.ino())).ok();
        inode(std::fs::symlink_metadata(&self.path)) != inode(self.out.get_ref().metadata())
    }

    /// Adds a line.
    pub fn add(&mut self, event: &LogEvent) -> io::Result<()> {
        self.unwritten_since.get_or_insert_with(Instant::now);
        writeln!(self.out, "{event}")
    }

    /// Writes out the buffer.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.unwritten_since = None;
        self.out.flush().map_err(|error| Error::writing(&self.path, error))
    }
}

/// The offset behind the last complete line of a file.
fn end_of_lines(file: &File, length: u64) -> io::Result<u64> {
    let mut block = vec![0; 4096];
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let bytes = &mut block[..(end - start) as usize];
        file.read_exact_at(bytes, start)?;
        if let Some(at) = bytes.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Orders the events of a served drive for its log and for `IMAGE.smr` by the arrival of requests. A request in flight holds back all later
/// events, because its own line is known only at its end.
pub(super) struct Events {
    log: Option<LogWriter>,
    /// Lines for the state file that are not written yet.
    pub lines: Vec<u8>,
    /// Events in order, with the tag of a request in flight.
    pub held: VecDeque<(Option<u64>, LogEvent)>,
}

impl Events {
    pub fn new(log: Option<LogWriter>) -> Events {
        Events { log, lines: Vec::new(), held: VecDeque::new() }
    }

    /// True if the log was moved away, so that a new one must be started.
    pub fn log_was_moved(&mut self) -> bool {
        self.log.as_mut().is_some_and(LogWriter::was_moved)
    }

    /// Starts a new log with this state and these first events.
    pub fn begin_log(&mut self, run: &RunRecord, state: &[u8], first: [LogEvent; 3]) {
        self.flush();
        let Some(path) = self.log.as_ref().map(|log| log.path.clone()) else { return };
        match LogWriter::open(&path, run) {
            Ok(log) => self.log = Some(log),
            Err(error) => return self.end_log(&error),
        }
        self.add_state(state);
        first.iter().for_each(|event| self.write_to_log(event));
    }

    /// Adds an event, behind the requests in flight.
    pub fn add(&mut self, event: LogEvent) {
        if self.held.is_empty() { self.write(&event) } else { self.held.push_back((None, event)) }
    }

    /// Logs the state with which the drive is opened.
    pub fn add_state(&mut self, state: &[u8]) {
        state.chunks(STATE_BYTES).for_each(|part| self.write_to_log(&LogEvent::State(part.into())));
    }

    /// Adds a request in flight, with the event to log if it fails.
    pub fn hold_request(&mut self, tag: u64, failed: LogEvent) {
        self.held.push_back((Some(tag), failed));
    }

    /// Releases the line of a request that was served, or failed (`None`).
    pub fn release_request(&mut self, tag: u64, served: Option<LogEvent>) {
        if let Some(held) = self.held.iter_mut().find(|held| held.0 == Some(tag)) {
            held.0 = None;
            if let Some(served) = served {
                held.1 = served;
            }
        }
        while self.held.front().is_some_and(|held| held.0.is_none())
            && let Some((_, event)) = self.held.pop_front()
        {
            self.write(&event);
        }
    }

    fn write(&mut self, event: &LogEvent) {
        // Writing to memory can't fail.
        let _ = writeln!(self.lines, "{event}");
        self.write_to_log(event);
    }

    /// Writes an event to the log only.
    pub fn write_to_log(&mut self, event: &LogEvent) {
        if let Some(Err(error)) = self.log.as_mut().map(|log| log.add(event)) {
            self.end_log(&error);
        }
    }

    /// The time by which the log's buffer must be written out, so that a killed server leaves a log.
    pub fn log_due(&self) -> Option<Instant> {
        Some(self.log.as_ref()?.unwritten_since? + LOG_DELAY)
    }

    /// Writes out the log's buffer.
    pub fn flush(&mut self) {
        if let Some(Err(error)) = self.log.as_mut().map(LogWriter::flush) {
            self.end_log(&error);
        }
    }

    /// Stops logging after an error. The drive is served all the same.
    fn end_log(&mut self, error: &dyn fmt::Display) {
        log(&format!("the log ends here: {error}"));
        self.log = None;
    }
}

/// Reads a log: the drive's record, then the events.
pub struct LogReader {
    /// The drive.
    pub run: RunRecord,
    made_by: String,
    lines: io::Lines<BufReader<File>>,
    path: PathBuf,
    /// Number of the last line that was read.
    pub line: u64,
}

impl LogReader {
    /// Opens the log at `path`.
    pub fn open(path: &Path) -> Result<LogReader, Error> {
        let file = File::open(path).map_err(|error| Error::reading(path, error))?;
        let mut lines = BufReader::new(file).lines();
        let first = lines.next().transpose().ok().flatten().unwrap_or_default();
        match serde_json::from_str::<LogHead>(&first) {
            Ok(head) if head.smrkit_log == VERSION => {
                Ok(LogReader { run: head.run, made_by: head.made_by, lines, path: path.to_path_buf(), line: 1 })
            }
            _ => Err(Error::input(path, "not a log of smrkit serve: give a file that serve {log} wrote")),
        }
    }
}

impl Iterator for LogReader {
    type Item = Result<LogEvent, Error>;
    fn next(&mut self) -> Option<Result<LogEvent, Error>> {
        let line = match self.lines.next()? {
            Ok(line) => line,
            Err(error) => return Some(Err(Error::reading(&self.path, error))),
        };
        self.line += 1;
        let wrong = || {
            let message = format!(
                "line {} is no event: if it is the last one, the server was killed while it wrote, and it can be deleted",
                self.line
            );
            Error::input(&self.path, message)
        };
        Some(match LogEvent::parse(&line) {
            Some(LogEvent::State(_)) if self.made_by != smrkit::VERSION => {
                let (made_by, own) = (&self.made_by, smrkit::VERSION);
                let message = format!(
                    "the drive's state was saved by smrkit {made_by}, and this is {own}: replay it with that one"
                );
                Err(Error::input(&self.path, message))
            }
            event => event.ok_or_else(wrong),
        })
    }
}

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayFindings {
    /// Requests in the log.
    pub requests: u64,
    /// Requests, recoveries and openings whose times differ.
    pub differences: u64,
    /// The first of them.
    pub first: Option<Difference>,
}

/// A difference between log and replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line in the log.
    pub line: u64,
    /// Time or state in the log.
    pub logged: String,
    /// Time or state in the replay.
    pub replayed: String,
}

/// Replays the log at `path` in the simulator. Every time must be the same to the nanosecond, because the served drive is the same model.
pub fn replay(path: &Path) -> Result<ReplayFindings, Error> {
    let mut reader = LogReader::open(path)?;
    let system = system_of(&reader.run)?;
    let host_sectors = system.host_sectors()?;
    let mut replay = Replay::new(Model::new(&system)?, system);
    while let Some(event) = reader.next() {
        let event = event?;
        if let LogEvent::Served { request, .. } | LogEvent::Failed { request, .. } = &event
            && request.lba.0.saturating_add(request.sectors.into()) > host_sectors
        {
            let message = format!("line {} asks for sectors past the drive's end: that is no drive's log", reader.line);
            return Err(Error::input(path, message));
        }
        replay.follow(event, reader.line)?;
    }
    replay.end_session()?;
    Ok(replay.findings)
}

/// A model that follows the events of a log.
pub(super) struct Replay {
    pub model: Model,
    system: SystemRun,
    /// The parts so far of the state with which the drive is going to be opened.
    state: Vec<u8>,
    pub findings: ReplayFindings,
    slow_by: Nanos,
    /// True if the drive is open.
    is_open: bool,
    /// True if the model has met a planned power cut, and the log has not come to the recovery yet.
    met_power_cut: bool,
    /// Requests in flight, by their line numbers.
    in_flight: BTreeMap<u64, LogEvent>,
}

impl Replay {
    pub fn new(model: Model, system: SystemRun) -> Replay {
        Replay {
            model,
            system,
            state: Vec::new(),
            findings: ReplayFindings::default(),
            slow_by: Nanos::ZERO,
            is_open: false,
            met_power_cut: false,
            in_flight: BTreeMap::new(),
        }
    }

    pub fn follow(&mut self, event: LogEvent, line: u64) -> Result<(), Error> {
        match event {
            LogEvent::State(part) => self.state.extend(part),
            LogEvent::Open(found, now) => {
                let state = std::mem::take(&mut self.state);
                if found == FoundState::New || !state.is_empty() {
                    // A new drive, or a complete state: nothing before it matters.
                    self.end_session()?;
                    (self.model, self.slow_by) = (Model::new(&self.system)?, Nanos::ZERO);
                }
                if !state.is_empty() {
                    self.model.restore(&state)?;
                }
                self.is_open = true;
                let own = self.model.now;
                self.compare(line, LogEvent::Open(found, now), own == now, LogEvent::Open(found, own));
            }
            LogEvent::Queue(queue) => self.model.order_commands(queue, &self.system),
            LogEvent::Pace(_) | LogEvent::Closing => {}
            LogEvent::Served { request, arrival, .. } | LogEvent::Failed { request, arrival } => {
                self.findings.requests += 1;
                let slow_by = std::mem::take(&mut self.slow_by);
                self.in_flight.insert(line, event);
                let advanced = self.model.advance_to(arrival);
                self.compare_completed(advanced)?;
                if !self.met_power_cut {
                    let submitted = self.model.submit(line, &request, arrival, slow_by);
                    self.compare_completed(submitted)?;
                }
            }
            LogEvent::Fault(InjectedFault::PowerCut(_)) => self.model.plan_power_cut(true),
            LogEvent::Fault(InjectedFault::Slow(span)) => self.slow_by = span,
            LogEvent::Fault(InjectedFault::FailMember(disk)) => self.model.fail_member(disk).map_err(Error::Usage)?,
            LogEvent::Fault(InjectedFault::ReplaceMember(disk)) => {
                self.model.replace_member(disk, &self.system).map_err(Error::Usage)?;
            }
            LogEvent::Zone(action, zone) => self.model.act_on_zone(action, zone).map_err(Error::Usage)?,
            // Other faults do not change any time.
            LogEvent::Fault(_) => {}
            LogEvent::Idle(time) => {
                let idled = self.model.idle_until(time);
                self.compare_completed(idled.map(drop))?;
            }
            LogEvent::Interrupted(time) => {
                let idled = self.model.idle_until(time);
                self.compare_completed(idled.map(drop))?;
                self.recover(line, &event)?;
            }
            LogEvent::Recovered(now) => {
                if self.model.will_lose_power() {
                    self.recover(line, &event)?;
                }
                let own = self.model.now;
                self.compare(line, event, own == now, LogEvent::Recovered(own));
            }
            LogEvent::Closed => {
                self.complete_in_flight()?;
                self.is_open = false;
            }
        }
        Ok(())
    }

    /// Ends the replay at the end of the log, or at a new opening. If the drive was not closed before, requests in flight are not compared,
    /// because later requests that the log does not have may have delayed them.
    fn end_session(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.is_open) {
            self.findings.requests -= std::mem::take(&mut self.in_flight).len() as u64;
        }
        self.complete_in_flight()
    }

    /// Completes the requests in flight.
    fn complete_in_flight(&mut self) -> Result<(), Error> {
        while !self.met_power_cut && !self.in_flight.is_empty() {
            let stepped = self.model.step(Nanos::MAX);
            let has_stepped = *stepped.as_ref().unwrap_or(&false);
            self.compare_completed(stepped.map(drop))?;
            if !has_stepped {
                break;
            }
        }
        Ok(())
    }

    /// Compares completed requests with the log. Notes a power cut, if that is the error of `result`.
    fn compare_completed(&mut self, result: DiskResult) -> Result<(), Error> {
        match result {
            Err(fault) if is_power_cut(&fault) => self.met_power_cut = true,
            result => result?,
        }
        while let Some(Completion { tag, start, end, .. }) = self.model.take_completion() {
            // Not compared: a request in flight at the end of a session that was not closed (`end_session`).
            let Some(event) = self.in_flight.remove(&tag) else { continue };
            // A logged failure that is served here is a difference, too.
            if let LogEvent::Served { request, arrival, .. } | LogEvent::Failed { request, arrival } = event {
                let found = LogEvent::Served { request, arrival, start, end };
                self.compare(tag, &event, found == event, &found);
            }
        }
        Ok(())
    }

    /// Restores the power after a cut. Logged requests that were served but are still in flight here are differences, and so is a cut that
    /// the model never met.
    fn recover(&mut self, line: u64, logged: &LogEvent) -> Result<(), Error> {
        self.complete_in_flight()?;
        for (line, event) in std::mem::take(&mut self.in_flight) {
            if matches!(event, LogEvent::Served { .. }) {
                self.compare(line, event, false, "not served before the power cut");
            }
        }
        if !std::mem::take(&mut self.met_power_cut) {
            self.compare(line, logged, false, "no power cut");
        }
        self.model.power_cut();
        Ok(())
    }

    fn compare(&mut self, line: u64, logged: impl fmt::Display, agrees: bool, replayed: impl fmt::Display) {
        if !agrees {
            self.findings.differences += 1;
            let (logged, replayed) = (logged.to_string(), replayed.to_string());
            self.findings.first.get_or_insert(Difference { line, logged, replayed });
        }
    }
}

#[cfg(test)]
mod tests {
    use smrkit::experiment::system::AskedCapacity;
    use smrkit::experiment::system::{System, Systems};

    use super::*;

    fn record(drive: &str) -> RunRecord {
        let system = System::drive(drive).layer("log").capacity(AskedCapacity::Auto);
        Systems::new(&system).unwrap().runs(&[Default::default()], None).unwrap().pop().unwrap().record()
    }

    fn events() -> Vec<(&'static str, LogEvent)> {
        let request = |op, lba, sectors| Request::new(op, Lba(lba), sectors);
        let served = |op, lba, sectors| LogEvent::Served {
            request: request(op, lba, sectors),
            arrival: Nanos(3),
            start: Nanos(4),
            end: Nanos(5),
        };
        vec![
            ("state 00ff7a", LogEvent::State(vec![0, 255, 0x7a])),
            ("open new 0", LogEvent::Open(FoundState::New, Nanos(0))),
            ("open clean 7", LogEvent::Open(FoundState::Clean, Nanos(7))),
            ("open recovered 9223372036854775807", LogEvent::Open(FoundState::Recovered, Nanos(LATEST_NS))),
            ("queue fcfs", LogEvent::Queue(Queue::Fcfs)),
            ("queue sptf", LogEvent::Queue(Queue::Sptf)),
            ("queue drive", LogEvent::Queue(Queue::Drive)),
            ("pace 0.25", LogEvent::Pace(0.25)),
            ("read 1 2 3 4 5", served(Op::Read, 1, 2)),
            ("write 11 4294967295 3 4 5", served(Op::Write, 11, u32::MAX)),
            ("discard 1 2 3 4 5", served(Op::Discard, 1, 2)),
            ("flush 0 0 3 4 5", served(Op::Flush, 0, 0)),
            ("fault power-cut 8", LogEvent::Fault(InjectedFault::PowerCut(8))),
            ("zone finish 7", LogEvent::Zone(ZoneAction::Finish, 7)),
            ("failed write 1 2 6", LogEvent::Failed { request: request(Op::Write, 1, 2), arrival: Nanos(6) }),
            ("idle 9", LogEvent::Idle(Nanos(9))),
            ("interrupted 10", LogEvent::Interrupted(Nanos(10))),
            ("recovered 11", LogEvent::Recovered(Nanos(11))),
            ("closing", LogEvent::Closing),
            ("closed", LogEvent::Closed),
        ]
    }

    #[test]
    fn a_line_tells_its_event_and_no_other() {
        for (line, event) in events() {
            assert_eq!((event.to_string().as_str(), LogEvent::parse(line)), (line, Some(event.clone())));
        }
        let wrong = [
            "",
            "state",
            "state 0",
            "state 0g",
            "open",
            "open new",
            "open old 1",
            "open new 9223372036854775808",
            "queue",
            "queue last",
            "pace",
            "pace 0",
            "pace NaN",
            "fault",
            "fault fire",
            "zone open",
            "zone eat 1",
            "failed read 1 2",
            "failed read 1 2 3 4",
            "failed eat 1 2 3",
            "idle",
            "interrupted x",
            "recovered -1",
            "read 1 2 3 4",
            "read 1 2 3 4 5 6",
            "read 1 4294967296 3 4 5",
            "read 1 2 9223372036854775808 4 5",
            "eat 1 2 3 4 5",
        ];
        for line in wrong {
            assert_eq!(LogEvent::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_log_goes_on_for_its_drive_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("log");
        let (own, other) = (record("tiny"), record("tiny-constant"));
        for half in events().chunks(8) {
            let mut log = LogWriter::open(&path, &own).unwrap();
            half.iter().for_each(|(_, event)| log.add(event).unwrap());
            log.flush().unwrap();
        }
        let refused = LogWriter::open(&path, &other).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("the log of another drive"), "{refused}");
        let mut log = LogReader::open(&path).unwrap();
        assert_eq!((&log.run, log.line), (&own, 1));
        for (at, (_, event)) in events().into_iter().enumerate() {
            assert_eq!((log.next().unwrap().unwrap(), log.line), (event, at as u64 + 2));
        }
        assert!(log.next().is_none());
        // A layer's state means nothing to another version, and everything else does.
        let text = std::fs::read_to_string(&path).unwrap();
        let made_by = |version: &str| format!("\"made_by\":\"{version}\"");
        std::fs::write(&path, text.replace(&made_by(smrkit::VERSION), &made_by("9.9.9"))).unwrap();
        let mut log = LogReader::open(&path).unwrap();
        let refused = log.next().unwrap().unwrap_err().to_string();
        assert!(refused.contains("saved by smrkit 9.9.9"), "{refused}");
        assert!(log.any(|event| event.is_ok()));
        let refused = LogWriter::open(&path, &own).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("begun by smrkit 9.9.9: name a new file"), "{refused}");
        let whole = text;
        std::fs::write(&path, whole.replace("idle 9", "idle")).unwrap();
        let wrong = LogReader::open(&path).unwrap().find_map(Result::err).unwrap().to_string();
        assert!(wrong.contains("line 17 is no event"), "{wrong}");
        for (from, to) in [("\"smrkit_log\":1", "\"smrkit_log\":2"), ("{", "[")] {
            std::fs::write(&path, whole.replacen(from, to, 1)).unwrap();
            assert!(LogReader::open(&path).err().unwrap().to_string().contains("not a log of smrkit serve"));
        }
    }
}
