//! Requests of the host's that an array has under way together.

use smrkit::device::{Completion, HostSectors, Served, bytes_of, words_of};
use smrkit::error::DiskResult;
use smrkit::medium::Buf;
use smrkit::request::{Op, Request};
use smrkit::settings::Queue;
use smrkit::units::Nanos;

use super::BlockDevice;
use crate::block::log::LogEvent;
use crate::block::simulated::{Simulated, is_power_cut};

/// The end of a request that was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// The request never completes.
    Silence,
    /// The request fails.
    Failed,
}

/// A request that an array has under way.
pub(in crate::block) struct UnderWay {
    pub request: Request,
    pub arrival: Nanos,
    /// True if it never completes.
    pub is_silent: bool,
}

/// The end of a request that was sent to an array.
pub struct Ended {
    /// Its tag.
    pub tag: u64,
    /// When it was served; or why it was not.
    pub served: Result<Served, Unserved>,
    /// Bytes that were read.
    pub bytes: Vec<u8>,
}

impl BlockDevice {
    /// The order in which the drives of an array serve commands that wait.
    pub fn order_commands(&mut self, queue: Queue) {
        if let Simulated::Array(array) = &mut self.device {
            array.order_commands(queue, &self.image.system().drives());
            self.notes.add(LogEvent::Queue(queue));
        }
    }

    /// True if requests can be sent to it, to be under way together.
    pub fn is_array(&self) -> bool {
        matches!(self.device, Simulated::Array(_))
    }

    /// True if nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Moment at which something happens next to what is under way.
    pub fn next(&self) -> Option<Nanos> {
        match &self.device {
            Simulated::Drive(_) => None,
            Simulated::Array(array) => array.next(),
        }
    }

    /// True if a request must wait for another that is under way: they are for the same sectors, and one changes them.
    pub fn must_wait(&self, request: &Request) -> bool {
        let overlaps = |other: &Request| other.lba < request.end() && request.lba < other.end();
        let changes = |other: &Request| (other.op, request.op) != (Op::Read, Op::Read);
        self.under_way.values().any(|other| overlaps(&other.request) && changes(&other.request))
    }

    /// Sends a read, a write of `bytes` or a discard to an array at `arrival`. It comes to its end as time goes on.
    pub fn send(&mut self, tag: u64, request: &Request, arrival: Nanos, bytes: &[u8]) {
        let arrival = self.arrival_from(arrival);
        let (slow, is_silent) = (std::mem::take(&mut self.is_slow), std::mem::take(&mut self.is_silent));
        self.under_way.insert(tag, UnderWay { request: *request, arrival, is_silent });
        self.notes.begin(tag, LogEvent::Failed { request: *request, arrival });
        if self.failure.is_some() || request.op == Op::Discard && self.forget(request).is_err() {
            return;
        }
        let Simulated::Array(array) = &mut self.device else { return };
        let words = if request.op == Op::Write { words_of(bytes) } else { Vec::new() };
        let sent = array.send(tag, request, (arrival, slow), words);
        self.take_in(sent);
    }

    /// Lets time go on to `limit`, or with `one` until a request comes to its end. Returns those that did.
    pub fn go_on(&mut self, limit: Nanos, one: bool) -> Vec<Ended> {
        self.take_completions();
        while (!one || self.ended.is_empty())
            && self.failure.is_none()
            && let Simulated::Array(array) = &mut self.device
        {
            let stepped = array.step(limit);
            let went_on = *stepped.as_ref().unwrap_or(&true);
            if !went_on && limit < Nanos::MAX {
                array.wait_until(limit);
            }
            self.take_in(stepped.map(drop));
            self.take_completions();
            if !went_on {
                break;
            }
        }
        if self.failure.is_some() {
            // The service ends here; a log tells of power cuts alone.
            self.notes.drop_held();
            self.fail_all_under_way();
        }
        std::mem::take(&mut self.ended)
    }

    /// Takes in what came of a step of an array.
    fn take_in(&mut self, result: DiskResult) {
        match result {
            Err(fault) if is_power_cut(&fault) => self.lose_power(None),
            result => drop(self.checked(result)),
        }
    }

    fn take_completions(&mut self) {
        let Simulated::Array(array) = &mut self.device else { return };
        for Completion { tag, start, end, stamps } in array.take_done() {
            let Some(UnderWay { request, arrival, is_silent }) = self.under_way.remove(&tag) else { continue };
            let served = Served { start, end };
            self.notes.end(tag, Some(LogEvent::Served { request, arrival, served }));
            let mut buf = Buf::Bytes(bytes_of(&stamps));
            let kept = if request.op == Op::Discard { Ok(()) } else { self.written.note(&request, &mut buf) };
            let served = match self.checked(kept) {
                Some(()) if is_silent => Err(Unserved::Silence),
                Some(()) => self.check_sectors(request.op, request.lba.0..request.end().0).map(|()| served),
                None => Err(Unserved::Failed),
            };
            let bytes = if let Buf::Bytes(bytes) = buf { bytes } else { Vec::new() };
            self.ended.push(Ended { tag, served, bytes });
        }
    }

    /// None of what is under way is served.
    pub(super) fn fail_all_under_way(&mut self) {
        self.take_completions();
        for (tag, _) in std::mem::take(&mut self.under_way) {
            self.notes.end(tag, None);
            self.ended.push(Ended { tag, served: Err(Unserved::Failed), bytes: Vec::new() });
        }
    }
}
