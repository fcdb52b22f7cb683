//! A served drive's log, served once more by the simulator: same requests, same order, same arrivals, and no data.
//!
//! Times must come out to the nanosecond, for the served drive is the simulator's.

use std::fmt::Display;
use std::path::Path;

use smrkit::device::{LayeredDisk, Served};
use smrkit::error::Error;
use smrkit::medium::{Buf, Medium, Stamp, Stamps};
use smrkit::power::Power;
use smrkit::request::{Op, Request};
use smrkit::units::Nanos;

use super::device::{delayed, is_power_cut};
use super::fault::Fault;
use super::image::drive_of;
use super::log::{FoundState, LogEvent, LogReader};

/// The findings of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Requests in the log.
    pub requests: u64,
    /// Requests, recoveries and beginnings whose times differ.
    pub differences: u64,
    /// The first of them.
    pub first: Option<Difference>,
    /// The line at which the server began after it had been killed: what it had not written to the log is unknown.
    pub killed_before: Option<u64>,
}

/// A time that is not as it was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line in the log.
    pub line: u64,
    /// Time or state in the log.
    pub logged: String,
    /// Time or state in the replay.
    pub replayed: String,
}

/// Replays the log at `path`.
pub fn replay(path: &Path) -> Result<Replayed, Error> {
    let mut recovers = false;
    for event in LogReader::open(path)? {
        recovers |= matches!(
            event?,
            LogEvent::Open(FoundState::Recovered, _) | LogEvent::Failed { .. } | LogEvent::Interrupted(_)
        );
    }
    let reader = LogReader::open(path)?;
    let run = drive_of(&reader.run)?;
    // A layer that rebuilds its maps needs something to find.
    let medium = || if recovers { Medium::Stamps(Stamps::new()) } else { Medium::NoData };
    let mut replay = Replay {
        device: run.device(medium())?,
        replayed: Replayed::default(),
        slow: Nanos::ZERO,
        writes: 0,
        is_on: false,
    };
    let mut reader = reader;
    while let Some(event) = reader.next() {
        let event = event?;
        if let LogEvent::Open(found, _) = event {
            match found {
                // Whatever came before: nothing of it is on the drive.
                FoundState::New => replay.begin(run.device(medium())?),
                _ if reader.line() == 2 => {
                    let message = "the drive had been used before this log began: log it from its first use on";
                    return Err(Error::input(path, message));
                }
                _ if replay.is_on => {
                    replay.replayed.killed_before = Some(reader.line());
                    break;
                }
                _ => replay.device.disk.restart(&run.drive),
            }
        }
        if let LogEvent::Served { request, .. } | LogEvent::Failed { request, .. } = event
            && request.lba.0.saturating_add(request.sectors.into()) > replay.device.host_sectors()
        {
            let message =
                format!("line {} asks for sectors past the drive's end: that is no drive's log", reader.line());
            return Err(Error::input(path, message));
        }
        replay.follow(event, reader.line())?;
    }
    Ok(replay.replayed)
}

struct Replay {
    device: LayeredDisk,
    replayed: Replayed,
    slow: Nanos,
    writes: u64,
    /// True if the drive is switched on.
    is_on: bool,
}

impl Replay {
    /// The drive is a new one.
    fn begin(&mut self, device: LayeredDisk) {
        (self.device, self.slow, self.writes) = (device, Nanos::ZERO, 0);
    }

    fn follow(&mut self, event: LogEvent, line: u64) -> Result<(), Error> {
        match event {
            LogEvent::Open(found, now) => {
                self.is_on = true;
                if found == FoundState::Recovered {
                    self.device.recover()?;
                }
                self.compare(line, event, self.device.now() == now, LogEvent::Open(found, self.device.now()));
            }
            LogEvent::Served { request, arrival, served } => {
                self.replayed.requests += 1;
                let found = self.serve(&request, arrival)?;
                self.compare(line, event, found == served, LogEvent::Served { request, arrival, served: found });
            }
            LogEvent::Fault(Fault::PowerCut(seed)) => self.device.disk.cut_power(Power::new(vec![1], seed)),
            LogEvent::Fault(Fault::Slow(span)) => self.slow = span,
            LogEvent::Fault(Fault::BadSector(_) | Fault::Timeout) => {}
            LogEvent::Failed { request, arrival } => {
                self.replayed.requests += 1;
                let served = self.serve(&request, arrival);
                self.recover(line, event, served.map(|served| LogEvent::Served { request, arrival, served }))?;
            }
            LogEvent::Idle(time) => self.device.idle_until(time)?,
            LogEvent::Interrupted(time) => {
                let idled = self.device.idle_until(time);
                self.recover(line, event, idled.map(|()| "no power cut").map_err(Error::from))?;
            }
            LogEvent::Recovered(now) => {
                self.compare(line, event, self.device.now() == now, LogEvent::Recovered(self.device.now()));
            }
            LogEvent::Closed => self.is_on = false,
        }
        Ok(())
    }

    /// Recovers from the power cut that ended `result`; what came of it without one is a difference.
    fn recover(&mut self, line: u64, logged: LogEvent, result: Result<impl Display, Error>) -> Result<(), Error> {
        match result {
            Err(Error::Fault(fault)) if is_power_cut(&fault) => {}
            Err(error) => return Err(error),
            Ok(replayed) => self.compare(line, logged, false, replayed),
        }
        Ok(self.device.recover()?)
    }

    fn serve(&mut self, request: &Request, arrival: Nanos) -> Result<Served, Error> {
        let n = u64::from(request.sectors);
        let mut buf = match (self.device.disk.stamps().is_some(), request.op) {
            (false, _) => Buf::NoData,
            (true, Op::Read) => Buf::Stamps(vec![0; n as usize]),
            (true, Op::Write) => {
                self.writes += 1;
                Buf::Stamps((0..n).map(|i| Stamp::new(request.lba + i, self.writes).0).collect())
            }
            (true, Op::Flush | Op::Discard) => Buf::Stamps(Vec::new()),
        };
        delayed(&mut self.device, arrival, std::mem::take(&mut self.slow))?;
        Ok(self.device.serve_at(request, arrival, &mut buf)?)
    }

    fn compare(&mut self, line: u64, logged: LogEvent, agrees: bool, replayed: impl Display) {
        if !agrees {
            self.replayed.differences += 1;
            let (logged, replayed) = (logged.to_string(), replayed.to_string());
            self.replayed.first.get_or_insert(Difference { line, logged, replayed });
        }
    }
}
