//! The log of a served drive: every request in the order in which it came to the drive, with its times. It can be replayed. Where no
//! order of waiting commands is told, each request was served before the next.
//!
//! The first line says in JSON which drive it was. Then one line an event, numbers in decimal, times in nanoseconds of the drive:
//!
//! ```text
//! open new|clean|recovered NOW
//! queue fcfs|sptf|drive
//! read|write|discard|flush LBA SECTORS ARRIVAL START END
//! fault slow SPAN | power-cut SEED | bad-sector LBA | timeout
//! failed OP LBA SECTORS ARRIVAL NOW
//! idle TIME
//! interrupted TIME
//! recovered NOW
//! closed
//! ```

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use smrkit::device::Served;
use smrkit::error::Error;
use smrkit::request::{Op, Request};
use smrkit::settings::Queue;
use smrkit::stats::outcome::RunRecord;
use smrkit::units::{Lba, Nanos};

use super::fault::InjectedFault;

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LogHead {
    smrkit_log: u32,
    run: RunRecord,
    made_by: String,
}

const VERSION: u32 = 1;
/// The latest moment of a log: 292 years, half of what a number holds, so that durations can be added.
const LATEST_NS: u64 = u64::MAX / 2;

/// The state in which a drive was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundState {
    /// Never used.
    New,
    /// As it was left; the layer's maps came from the image.
    Clean,
    /// The layer rebuilt its maps from the platters.
    Recovered,
}

impl FoundState {
    const ALL: [FoundState; 3] = [FoundState::New, FoundState::Clean, FoundState::Recovered];

    fn name(self) -> &'static str {
        ["new", "clean", "recovered"][self as usize]
    }
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LogEvent {
    /// The drive begins to serve.
    Open(FoundState, Nanos),
    /// Requests may be under way together; the order in which drives serve commands that wait.
    Queue(Queue),
    /// A request was served.
    Served {
        /// The request.
        request: Request,
        /// When it came.
        arrival: Nanos,
        /// When its service began and ended.
        served: Served,
    },
    /// A fault was injected; it takes effect with the next request, a power cut with the next physical write.
    Fault(InjectedFault),
    /// A request met a cut of the power.
    Failed {
        /// The request.
        request: Request,
        /// When it came.
        arrival: Nanos,
    },
    /// The drive has done for itself all that begins before this time.
    Idle(Nanos),
    /// Work of the drive's own, begun before this time, met a cut of the power.
    Interrupted(Nanos),
    /// The power came back, and the layer has rebuilt its maps.
    Recovered(Nanos),
    /// The drive was switched off in good order.
    Closed,
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogEvent::Open(found, now) => write!(f, "open {} {}", found.name(), now.0),
            LogEvent::Served { request: Request { op, lba, sectors, .. }, arrival, served } => {
                let Served { start, end } = served;
                write!(f, "{} {} {sectors} {} {} {}", op.name(), lba.0, arrival.0, start.0, end.0)
            }
            LogEvent::Queue(queue) => write!(f, "queue {}", queue.name()),
            LogEvent::Fault(fault) => write!(f, "fault {fault}"),
            LogEvent::Failed { request: Request { op, lba, sectors, .. }, arrival } => {
                write!(f, "failed {} {} {sectors} {}", op.name(), lba.0, arrival.0)
            }
            LogEvent::Idle(time) => write!(f, "idle {}", time.0),
            LogEvent::Interrupted(time) => write!(f, "interrupted {}", time.0),
            LogEvent::Recovered(now) => write!(f, "recovered {}", now.0),
            LogEvent::Closed => f.write_str("closed"),
        }
    }
}

impl LogEvent {
    fn parse(line: &str) -> Option<LogEvent> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let time = |at: usize| number(at).filter(|&ns| ns <= LATEST_NS).map(Nanos);
        let request = |at: usize| {
            let op = [Op::Read, Op::Write, Op::Flush, Op::Discard].into_iter().find(|op| op.name() == words[at])?;
            Some(Request::new(op, Lba(number(at + 1)?), number(at + 2)?.try_into().ok()?))
        };
        match words[0] {
            "open" => {
                let found = FoundState::ALL.into_iter().find(|found| Some(&found.name()) == words.get(1))?;
                Some(LogEvent::Open(found, time(2)?))
            }
            "queue" => {
                let all = [Queue::Fcfs, Queue::Elevator, Queue::Sptf, Queue::Drive];
                all.into_iter().find(|queue| Some(&queue.name()) == words.get(1)).map(LogEvent::Queue)
            }
            "fault" => words[1..].join(" ").parse().ok().map(LogEvent::Fault),
            "failed" if words.len() == 5 => Some(LogEvent::Failed { request: request(1)?, arrival: time(4)? }),
            "closed" => Some(LogEvent::Closed),
            "idle" => Some(LogEvent::Idle(time(1)?)),
            "interrupted" => Some(LogEvent::Interrupted(time(1)?)),
            "recovered" => Some(LogEvent::Recovered(time(1)?)),
            _ if words.len() == 6 => {
                let served = Served { start: time(4)?, end: time(5)? };
                Some(LogEvent::Served { request: request(0)?, arrival: time(3)?, served })
            }
            _ => None,
        }
    }
}

/// A log that is being written.
pub struct LogWriter {
    out: BufWriter<File>,
    path: PathBuf,
}

impl LogWriter {
    /// Goes on with the log at `path`, or begins it.
    pub fn open(path: &Path, run: &RunRecord) -> Result<LogWriter, Error> {
        let failed = |error| Error::writing(path, error);
        let file = File::options().create(true).append(true).open(path).map_err(failed)?;
        let is_new = file.metadata().map_err(failed)?.len() == 0;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        if is_new {
            let head = LogHead { smrkit_log: VERSION, run: run.clone(), made_by: smrkit::VERSION.into() };
            let text = serde_json::to_string(&head).map_err(|error| failed(error.into()))?;
            writeln!(out, "{text}").map_err(failed)?;
        } else if LogReader::open(path)?.run != *run {
            return Err(Error::input(path, "the log of another drive: name a new file"));
        }
        Ok(LogWriter { out, path: path.to_path_buf() })
    }

    /// Adds a line.
    pub fn add(&mut self, event: &LogEvent) -> io::Result<()> {
        writeln!(self.out, "{event}")
    }

    /// Writes out what has gathered.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.out.flush().map_err(|error| Error::writing(&self.path, error))
    }
}

/// A log that is read: which drive it was, then its events.
pub struct LogReader {
    /// The drive.
    pub run: RunRecord,
    lines: io::Lines<BufReader<File>>,
    path: PathBuf,
    line: u64,
}

impl LogReader {
    /// Opens the log at `path`.
    pub fn open(path: &Path) -> Result<LogReader, Error> {
        let file = File::open(path).map_err(|error| Error::reading(path, error))?;
        let mut lines = BufReader::new(file).lines();
        let first = lines.next().transpose().ok().flatten().unwrap_or_default();
        match serde_json::from_str::<LogHead>(&first) {
            Ok(head) if head.smrkit_log == VERSION => {
                Ok(LogReader { run: head.run, lines, path: path.to_path_buf(), line: 1 })
            }
            _ => Err(Error::input(path, "not a log of smrkit serve: give a file that serve {log} wrote")),
        }
    }

    /// The line that was read last.
    pub fn line(&self) -> u64 {
        self.line
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
            let message =
                format!("line {} is no event: the server was killed while it wrote, cut the line off", self.line);
            Error::input(&self.path, message)
        };
        Some(LogEvent::parse(&line).ok_or_else(wrong))
    }
}

#[cfg(test)]
mod tests {
    use smrkit::experiment::size::AskedCapacity;
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
            served: Served { start: Nanos(4), end: Nanos(5) },
        };
        vec![
            ("open new 0", LogEvent::Open(FoundState::New, Nanos(0))),
            ("open clean 7", LogEvent::Open(FoundState::Clean, Nanos(7))),
            ("open recovered 9223372036854775807", LogEvent::Open(FoundState::Recovered, Nanos(LATEST_NS))),
            ("queue fcfs", LogEvent::Queue(Queue::Fcfs)),
            ("queue sptf", LogEvent::Queue(Queue::Sptf)),
            ("queue drive", LogEvent::Queue(Queue::Drive)),
            ("read 1 2 3 4 5", served(Op::Read, 1, 2)),
            ("write 11 4294967295 3 4 5", served(Op::Write, 11, u32::MAX)),
            ("discard 1 2 3 4 5", served(Op::Discard, 1, 2)),
            ("flush 0 0 3 4 5", served(Op::Flush, 0, 0)),
            ("fault power-cut 8", LogEvent::Fault(InjectedFault::PowerCut(8))),
            ("failed write 1 2 6", LogEvent::Failed { request: request(Op::Write, 1, 2), arrival: Nanos(6) }),
            ("idle 9", LogEvent::Idle(Nanos(9))),
            ("interrupted 10", LogEvent::Interrupted(Nanos(10))),
            ("recovered 11", LogEvent::Recovered(Nanos(11))),
            ("closed", LogEvent::Closed),
        ]
    }

    #[test]
    fn a_line_tells_its_event_and_no_other() {
        for (line, event) in events() {
            assert_eq!((event.to_string().as_str(), LogEvent::parse(line)), (line, Some(event)));
        }
        let wrong = [
            "",
            "open",
            "open new",
            "open old 1",
            "open new 9223372036854775808",
            "queue",
            "queue last",
            "fault",
            "fault fire",
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
        assert_eq!((&log.run, log.line()), (&own, 1));
        for (at, (_, event)) in events().into_iter().enumerate() {
            assert_eq!((log.next().unwrap().unwrap(), log.line()), (event, at as u64 + 2));
        }
        assert!(log.next().is_none());
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, whole.replace("idle 9", "idle")).unwrap();
        let wrong = LogReader::open(&path).unwrap().find_map(Result::err).unwrap().to_string();
        assert!(wrong.contains("line 14 is no event"), "{wrong}");
        for (from, to) in [("\"smrkit_log\":1", "\"smrkit_log\":2"), ("{", "[")] {
            std::fs::write(&path, whole.replacen(from, to, 1)).unwrap();
            assert!(LogReader::open(&path).err().unwrap().to_string().contains("not a log of smrkit serve"));
        }
    }
}
