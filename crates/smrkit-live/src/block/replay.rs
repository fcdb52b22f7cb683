//! A served drive's log, served once more by the simulator: same requests, same order, same arrivals, and no data.
//!
//! Times must come out to the nanosecond, for the served drive is the simulator's.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use smrkit::device::{Completion, Contents, DriveContents, Served};
use smrkit::engine::system::{DriveRun, MemberRun};
use smrkit::error::{DiskResult, Error};
use smrkit::medium::{Buf, Medium, Stamps};
use smrkit::request::{Op, Request};
use smrkit::units::Nanos;

use super::fault::InjectedFault;
use super::image::system_of;
use super::log::{FoundState, LogEvent, LogReader};
use super::simulated::{Simulated, is_power_cut};

/// The findings of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayFindings {
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
pub fn replay(path: &Path) -> Result<ReplayFindings, Error> {
    let mut recovers = false;
    for event in LogReader::open(path)? {
        recovers |= matches!(
            event?,
            LogEvent::Open(FoundState::Recovered, _) | LogEvent::Failed { .. } | LogEvent::Interrupted(_)
        );
    }
    let reader = LogReader::open(path)?;
    let system = system_of(&reader.run)?;
    let host_sectors = system.host_sectors()?;
    let mut replay = Replay {
        device: simulated(&system, recovers)?,
        system,
        replayed: ReplayFindings::default(),
        slow: Nanos::ZERO,
        is_on: false,
        is_queued: false,
        met_power_cut: false,
        under_way: BTreeMap::new(),
    };
    let mut reader = reader;
    while let Some(event) = reader.next() {
        let event = event?;
        if let LogEvent::Open(found, _) = event {
            replay.finish()?;
            match found {
                // Whatever came before: nothing of it is on the drive.
                FoundState::New => replay.begin(simulated(&replay.system, recovers)?),
                _ if reader.line() == 2 => {
                    let message = "the drive had been used before this log began: log it from its first use on";
                    return Err(Error::input(path, message));
                }
                _ if replay.is_on => {
                    replay.replayed.killed_before = Some(reader.line());
                    break;
                }
                _ => replay.device.restart(&replay.system),
            }
        }
        if let LogEvent::Served { request, .. } | LogEvent::Failed { request, .. } = event
            && request.lba.0.saturating_add(request.sectors.into()) > host_sectors
        {
            let message =
                format!("line {} asks for sectors past the drive's end: that is no drive's log", reader.line());
            return Err(Error::input(path, message));
        }
        replay.follow(event, reader.line())?;
    }
    replay.finish()?;
    Ok(replay.replayed)
}

/// The drive or the array, new. Layers that rebuild their maps need something to find.
fn simulated(system: &MemberRun, recovers: bool) -> Result<Simulated, Error> {
    let build = |run: &DriveRun| match recovers {
        true => Ok((run.device(Medium::Stamps(Stamps::new()))?, DriveContents::Stamps(0))),
        false => Ok((run.device(Medium::NoData)?, DriveContents::None)),
    };
    Simulated::new(system, Contents::None, build, None)
}

struct Replay {
    device: Simulated,
    system: MemberRun,
    replayed: ReplayFindings,
    slow: Nanos,
    /// True if the drive is switched on.
    is_on: bool,
    /// True if requests were under way together; else each was served before the next.
    is_queued: bool,
    /// True if the power was cut while requests came.
    met_power_cut: bool,
    /// Requests that are under way, by their lines.
    under_way: BTreeMap<u64, LogEvent>,
}

impl Replay {
    /// The drive is a new one.
    fn begin(&mut self, device: Simulated) {
        (self.device, self.slow) = (device, Nanos::ZERO);
    }

    fn follow(&mut self, event: LogEvent, line: u64) -> Result<(), Error> {
        match event {
            LogEvent::Open(found, now) => {
                (self.is_on, self.is_queued) = (true, false);
                if found == FoundState::Recovered {
                    self.device.recover()?;
                }
                self.compare(line, event, self.device.now() == now, LogEvent::Open(found, self.device.now()));
            }
            LogEvent::Queue(queue) => {
                self.is_queued = true;
                self.device.order_commands(queue, &self.system);
            }
            LogEvent::Served { request, arrival, .. } | LogEvent::Failed { request, arrival } => {
                self.replayed.requests += 1;
                self.send(event, (&request, arrival), line)?;
            }
            LogEvent::Fault(InjectedFault::PowerCut(seed)) => self.device.cut_power(seed),
            LogEvent::Fault(InjectedFault::Slow(span)) => self.slow = span,
            LogEvent::Fault(InjectedFault::BadSector(_) | InjectedFault::Timeout) => {}
            LogEvent::Idle(time) => {
                let idled = self.device.idle_until(time);
                self.meet_cut(idled.map(drop))?;
            }
            LogEvent::Interrupted(time) => {
                let idled = self.device.idle_until(time);
                self.meet_cut(idled.map(drop))?;
                self.recover(line, event)?;
            }
            LogEvent::Recovered(now) => {
                if self.device.will_lose_power() {
                    self.recover(line, event)?;
                }
                self.compare(line, event, self.device.now() == now, LogEvent::Recovered(self.device.now()));
            }
            LogEvent::Closed => self.is_on = false,
        }
        Ok(())
    }

    /// Sends a request; when it completes is compared then. A flush is served alone.
    fn send(&mut self, event: LogEvent, (request, arrival): (&Request, Nanos), line: u64) -> Result<(), Error> {
        let sent = (arrival, std::mem::take(&mut self.slow));
        self.under_way.insert(line, event);
        let went_on = self.device.go_on_until(arrival);
        self.meet_cut(went_on)?;
        if self.met_power_cut {
            return Ok(());
        }
        if self.is_queued && request.op != Op::Flush {
            let sent = self.device.send(line, request, sent, Buf::NoData);
            return self.meet_cut(sent);
        }
        match self.device.serve_at(request, sent, Buf::NoData) {
            Ok((served, _)) => self.complete(line, served),
            Err(fault) => self.meet_cut(Err(fault))?,
        }
        Ok(())
    }

    /// Compares what has been completed.
    fn compare_completions(&mut self) {
        while let Some(Completion { tag, start, end, .. }) = self.device.take_done() {
            self.complete(tag, Served { start, end });
        }
    }

    fn complete(&mut self, line: u64, served: Served) {
        if let Some(event) = self.under_way.remove(&line) {
            self.compare_served(line, event, served);
        }
    }

    /// Compares when a request was served.
    fn compare_served(&mut self, line: u64, event: LogEvent, served: Served) {
        if let LogEvent::Served { request, arrival, .. } | LogEvent::Failed { request, arrival } = event {
            let found = LogEvent::Served { request, arrival, served };
            self.compare(line, event, found == event, found);
        }
    }

    /// The log ends here, or the drive is switched on anew. Where it was not closed, more may have come to what is under way than
    /// the log says: that is left out.
    fn finish(&mut self) -> Result<(), Error> {
        if self.is_on {
            self.replayed.requests -= std::mem::take(&mut self.under_way).len() as u64;
        }
        self.end()
    }

    /// Lets what is under way come to its end.
    fn end(&mut self) -> Result<(), Error> {
        while !self.met_power_cut && !self.under_way.is_empty() {
            let stepped = self.device.step(Nanos::MAX);
            let went_on = *stepped.as_ref().unwrap_or(&false);
            self.meet_cut(stepped.map(drop))?;
            self.compare_completions();
            if !went_on {
                break;
            }
        }
        Ok(())
    }

    /// Takes note of a power cut, if that ended what was done.
    fn meet_cut(&mut self, result: DiskResult) -> Result<(), Error> {
        match result {
            Err(fault) if is_power_cut(&fault) => self.met_power_cut = true,
            result => result?,
        }
        self.compare_completions();
        Ok(())
    }

    /// Recovers from a power cut, which may still have to be met; that there was none is a difference. Of what was under way
    /// nothing was served.
    fn recover(&mut self, line: u64, logged: LogEvent) -> Result<(), Error> {
        self.end()?;
        for (line, event) in std::mem::take(&mut self.under_way) {
            if matches!(event, LogEvent::Served { .. }) {
                self.compare(line, event, false, "not served before the power cut");
            }
        }
        if !std::mem::take(&mut self.met_power_cut) {
            self.compare(line, logged, false, "no power cut");
        }
        Ok(self.device.recover()?)
    }

    fn compare(&mut self, line: u64, logged: LogEvent, agrees: bool, replayed: impl Display) {
        if !agrees {
            self.replayed.differences += 1;
            let (logged, replayed) = (logged.to_string(), replayed.to_string());
            self.replayed.first.get_or_insert(Difference { line, logged, replayed });
        }
    }
}
