//! The loop: requests arrive, wait, are served, and are counted.
//!
//! The engine knows devices, not layers. What a device owes (`step(Must)`) is done before the next request; what merely
//! helps (`step(Spare)`) fills the gaps in which nothing waits. A step that has begun is finished, even if a request
//! arrives meanwhile.

pub mod array_run;
mod arrivals;
mod expected;
pub mod fleet;
mod intake;
mod outage;
mod prefill;
pub mod rebuild;
pub mod run;
pub mod settings;
#[cfg(test)]
mod tests;

use crate::device::Device;
use crate::disk::Recorder;
use crate::error::{DiskResult, Error};
use crate::layer::Need;
use crate::medium::Buf;
use crate::power::Power;
use crate::queue::Waiting;
use crate::request::{Op, Progress, Request, Source};
use crate::shadow::Shadow;
use crate::stats::counts::{HostCounts, Times};
use crate::stats::outcome::PowerCut;
use crate::stats::rows::RequestRow;
use crate::units::Nanos;
use arrivals::Arrivals;
use intake::Intake;
use settings::{Queue, Settings};

/// Watches a run.
pub trait Observer {
    /// Called every few thousand requests; `false` ends the run with what there is.
    fn go_on(&mut self, _progress: Progress, _requests: u64) -> bool {
        true
    }

    /// Whether [`Observer::request`] is to be called.
    fn wants_requests(&self) -> bool {
        false
    }

    /// One request was answered (warm-up left out).
    fn request(&mut self, _row: &RequestRow) {}

    /// What takes note of the accesses of an array's drive, by its number; asked again for one that takes its place.
    fn recorder(&mut self, _drive: usize) -> Option<Box<dyn Recorder>> {
        None
    }
}

/// Watches nothing.
pub struct NoObserver;

impl Observer for NoObserver {}

/// A device, the requests' way to it, and what is counted on the way.
pub struct Engine<'a, D> {
    /// The device.
    pub device: D,
    /// What was counted of the host's requests.
    pub counts: HostCounts,
    settings: Settings,
    arrivals: Arrivals,
    shadow: Option<Shadow>,
    /// The power cuts so far.
    pub power_cuts: Vec<PowerCut>,
    observer: &'a mut dyn Observer,
    wants_requests: bool,
    buf: Buf,
    intake: Intake,
    /// Requests answered.
    answered: u64,
}

impl<'a, D: Device> Engine<'a, D> {
    /// An engine over `device`; in check mode the device must hold stamps.
    pub fn new(device: D, settings: Settings, counts: HostCounts, observer: &'a mut dyn Observer) -> Engine<'a, D> {
        Engine {
            device,
            counts,
            settings,
            arrivals: Arrivals::new(&settings, Nanos::ZERO),
            shadow: settings.check.then(Shadow::default),
            power_cuts: Vec::new(),
            wants_requests: observer.wants_requests(),
            observer,
            buf: Buf::NoData,
            intake: Intake::new(&settings),
            answered: 0,
        }
    }

    /// Serves all requests of `source`. Returns `false` if the observer ended the run early.
    pub fn run(&mut self, source: &mut dyn Source) -> Result<bool, Error> {
        let mut go_on = prefill::fill(self)?;
        if self.settings.warmup == 0 {
            self.begin_counting();
        }
        self.arrivals = Arrivals::new(&self.settings, self.device.now());
        let mut waiting = Waiting::new(self.settings.queue, self.settings.depth);
        let mut batch = Vec::new();
        'requests: while go_on {
            source.fill(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            for request in &mut batch {
                self.intake.admit(request, self.device.host_sectors(), source)?;
                if !self.take(request, &mut waiting)? {
                    break 'requests;
                }
            }
            go_on = self.observer.go_on(source.progress(), self.answered);
        }
        self.serve_waiting(&mut waiting)?;
        if self.answered < self.settings.warmup {
            self.begin_counting();
        }
        Ok(go_on)
    }

    fn serve_waiting(&mut self, waiting: &mut Waiting<Request>) -> Result<(), Error> {
        while let Some((request, arrival)) = waiting.pick(&self.device) {
            self.serve(&request, arrival)?;
        }
        Ok(())
    }

    fn begin_counting(&mut self) {
        self.device.reset_counts();
        self.counts.begin(self.device.now());
        if let Some(write) = self.settings.power_cut {
            self.device.cut_power(Power::new(vec![write], self.settings.seed));
        }
    }

    /// Serves a request, or has it wait. Returns `false` if it came after the time that the run was given.
    #[inline]
    fn take(&mut self, request: &Request, waiting: &mut Waiting<Request>) -> Result<bool, Error> {
        let queued = self.settings.queue != Queue::Fcfs;
        if queued
            && waiting.is_full()
            && let Some((next, arrival)) = waiting.pick(&self.device)
        {
            self.serve(&next, arrival)?;
        }
        let arrival = self.arrivals.next(request.time);
        if let Some(until) = self.settings.until
            && arrival.since(self.counts.begin) >= until
            && self.answered >= self.settings.warmup
        {
            return Ok(false);
        }
        match queued {
            // What was sent before a flush is not overtaken by it.
            true if request.op == Op::Flush => {
                self.serve_waiting(waiting)?;
                self.serve(request, arrival)?;
            }
            true => waiting.push(*request, request.lba, arrival, &self.device),
            false => self.serve(request, arrival)?,
        }
        Ok(true)
    }

    #[inline]
    fn serve(&mut self, request: &Request, arrival: Nanos) -> Result<(), Error> {
        self.intake.check_arrival(arrival)?;
        let turn = self.device.now().max(arrival);
        if arrival > self.device.now() {
            self.through_outages(|engine| engine.device.idle_until(arrival))?;
        }
        let start = self.through_outages(|engine| {
            engine.device.step(Need::Must)?;
            let start = engine.device.now();
            engine.serve_checked(request)?;
            Ok(start)
        })?;
        let times = Times { arrival, start, end: self.device.now() };
        self.arrivals.answered(times.end);
        self.answered += 1;
        if self.answered > self.settings.warmup {
            if self.device.cleaning_end() > arrival {
                self.counts.waits_for_cleaning(turn);
            }
            self.counts.count(request, &times, || self.device.gauges());
            if self.wants_requests {
                self.report(request, &times);
            }
        } else if self.answered == self.settings.warmup {
            self.begin_counting();
        }
        Ok(())
    }

    #[inline]
    fn serve_checked(&mut self, request: &Request) -> DiskResult {
        match &mut self.shadow {
            None => self.device.serve(request, &mut self.buf),
            Some(shadow) => {
                shadow.serve(request, |buf| self.device.serve(request, buf))?;
                shadow.after(&mut self.device)
            }
        }
    }

    fn report(&mut self, request: &Request, times: &Times) {
        let row = RequestRow::new(request, times, self.counts.begin, self.counts.requests - 1);
        self.observer.request(&row);
    }

    /// The device, what was counted, and (in check mode) what the host expects to read back.
    pub fn into_parts(self) -> (D, HostCounts, Option<Shadow>) {
        (self.device, self.counts, self.shadow)
    }
}
