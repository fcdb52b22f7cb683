//! Requests of the host's that are under way together.
//!
//! A host may rely on this: what was flushed or written durably is there, and of requests for the same sectors, one of which changes
//! them, none overtakes the other. So a barrier is served while nothing else is, and such a request waits for the other.

use smrkit::device::{Completion, HostSectors, Served};
use smrkit::error::Fault;
use smrkit::medium::Buf;
use smrkit::request::{Op, Request};
use smrkit::settings::Queue;
use smrkit::units::Nanos;

use super::BlockDevice;
use crate::block::log::LogEvent;
use crate::block::simulated::is_power_cut;

/// The end of a request that was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// The request never completes.
    Silence,
    /// The request fails.
    Failed,
}

/// A request that is under way.
pub(in crate::block) struct UnderWay {
    pub tag: u64,
    pub request: Request,
    pub arrival: Nanos,
    /// True if it never completes.
    pub is_silent: bool,
}

/// The end of a request that was sent.
pub struct Ended {
    /// Its tag.
    pub tag: u64,
    /// When it was served; or why it was not.
    pub served: Result<Served, Unserved>,
    /// Bytes that were read; of a write its own, if they are still there.
    pub bytes: Vec<u8>,
}

impl BlockDevice {
    /// The order in which drives serve commands that wait.
    pub fn order_commands(&mut self, queue: Queue) {
        self.device.order_commands(queue, self.image.system());
        self.notes.add(LogEvent::Queue(queue));
    }

    /// True if it is an array.
    pub fn is_array(&self) -> bool {
        self.device.array().is_some()
    }

    /// True if nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Moment at which something happens next to what is under way.
    pub fn next(&self) -> Option<Nanos> {
        self.device.next()
    }

    /// True if a request is a barrier, or changes what the write cache holds: it is served while nothing else is.
    pub fn goes_alone(&self, op: Op, is_durable: bool) -> bool {
        is_durable || op == Op::Flush || self.cache.room > 0 && op != Op::Read
    }

    /// True if a request must wait for another that is under way: they are for the same sectors, and one changes them.
    pub fn must_wait(&self, request: &Request) -> bool {
        let overlaps = |other: &Request| other.lba < request.end() && request.lba < other.end();
        let changes = |other: &Request| (other.op, request.op) != (Op::Read, Op::Read);
        self.under_way.iter().any(|other| changes(&other.request) && overlaps(&other.request))
    }

    /// Sends a read, which may bring room in `bytes`, a write of them, or a discard at `arrival`. It comes to its end as time goes on.
    pub fn send(&mut self, tag: u64, request: &Request, arrival: Nanos, bytes: Vec<u8>) {
        let arrival = self.arrival_from(arrival);
        let (slow, is_silent) = (std::mem::take(&mut self.is_slow), std::mem::take(&mut self.is_silent));
        self.under_way.push(UnderWay { tag, request: *request, arrival, is_silent });
        self.notes.begin(tag, LogEvent::Failed { request: *request, arrival });
        if self.failure.is_some() || request.op == Op::Discard && self.forget(request).is_err() {
            return;
        }
        if let Err(fault) = self.device.send(tag, request, (arrival, slow), Buf::Bytes(bytes)) {
            self.meet(fault);
        }
    }

    /// Lets time go on to `limit`; or with none until a request comes to its end, and to all that comes of it at its moment.
    pub fn go_on(&mut self, limit: Option<Nanos>) {
        let mut until = limit.unwrap_or(Nanos::MAX);
        while self.failure.is_none() {
            let stepped = self.device.step(until);
            self.take_completions();
            match stepped {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => self.meet(fault),
            }
            if until == Nanos::MAX && !self.ended.is_empty() {
                until = self.now() + Nanos(1);
            }
        }
        if until < Nanos::MAX {
            self.device.wait_until(until);
        }
        if self.failure.is_some() {
            // The service ends here; a log tells of power cuts alone.
            self.notes.drop_held();
            self.fail_all_under_way();
        }
    }

    /// The first of the requests that came to their end, and have not been asked for.
    pub fn take_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// A step met a fault.
    fn meet(&mut self, fault: Box<Fault>) {
        match is_power_cut(&fault) {
            true => self.lose_power(None),
            false => drop(self.checked::<()>(Err(fault))),
        }
    }

    fn take_completions(&mut self) {
        while let Some(Completion { tag, start, end, mut data }) = self.device.take_done() {
            let Some(at) = self.under_way.iter().position(|one| one.tag == tag) else { continue };
            let UnderWay { request, arrival, is_silent, .. } = self.under_way.swap_remove(at);
            let served = Served { start, end };
            self.notes.end(tag, Some(LogEvent::Served { request, arrival, served }));
            let kept = if request.op == Op::Discard { Ok(()) } else { self.written.note(&request, &mut data) };
            let range = request.lba.0..request.end().0;
            let mut bytes = if let Buf::Bytes(bytes) = data { bytes } else { Vec::new() };
            if request.op == Op::Read {
                self.cache.overlay(range.clone(), &mut bytes);
            }
            let served = match kept {
                Ok(()) if is_silent => Err(Unserved::Silence),
                Ok(()) => self.check_sectors(request.op, range).map(|()| served),
                Err(fault) => self.checked(Err(fault)).ok_or(Unserved::Failed),
            };
            self.ended.push_back(Ended { tag, served, bytes });
        }
    }

    /// None of what is under way is served.
    pub(super) fn fail_all_under_way(&mut self) {
        self.take_completions();
        for UnderWay { tag, .. } in std::mem::take(&mut self.under_way) {
            self.notes.end(tag, None);
            self.ended.push_back(Ended { tag, served: Err(Unserved::Failed), bytes: Vec::new() });
        }
    }
}
