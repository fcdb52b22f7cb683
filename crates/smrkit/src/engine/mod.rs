//! The loop: requests arrive, wait, are served, and are counted.
//!
//! The engine knows drives and arrays, not layers. Time advances from event to event: an arrival, a completion, an array's own work. A
//! request that completes before anything else can happen is served at once, without events. This is so on a drive that serves requests in
//! order, and on an idle array in a closed loop of one if the request goes to one drive.

mod intake;
pub mod rebuild;
pub(crate) mod run;
pub mod saved;
pub mod system;
pub mod task;
#[cfg(test)]
mod tests;
mod verify;
mod warm_up;

use crate::device::{Command, Completion, Device, Slab};
use crate::disk::{Power, Recorder};
use crate::error::{DiskResult, Error};
use crate::request::{Progress, Request, Source};
use crate::settings::Settings;
use crate::stats::counts::{HostCounts, RequestRow, Times};
use crate::stats::outcome::PowerCut;
use crate::units::Nanos;
use intake::{Arrivals, Input, Intake};
use saved::SavedState;
use task::BackgroundTask;
use verify::{ArrayCheck, Sent};
use warm_up::WarmUp;

/// Watches a run.
pub trait Observer {
    /// Called every few thousand requests; `false` ends the run with the counts so far.
    fn go_on(&mut self, _progress: Progress, _requests: u64) -> bool {
        true
    }

    /// The run begins anew.
    fn restart(&mut self) {}

    /// The commit that the program was built from, where it is known.
    fn commit(&self) -> Option<&str> {
        None
    }

    /// True if [`Observer::request`] is to be called.
    fn wants_requests(&self) -> bool {
        false
    }

    /// Receives the row of a completed request (after the warm-up).
    fn request(&mut self, _row: &RequestRow) {}

    /// True if [`Observer::state`] is to be called.
    fn wants_state(&self) -> bool {
        false
    }

    /// Receives the state at the end of a run that was not ended early.
    fn state(&mut self, _state: SavedState) {}

    /// The recorder for a drive's accesses, by the number of the drive. Asked again for a drive that replaces it.
    fn recorder(&mut self, _drive: usize) -> Option<Box<dyn Recorder>> {
        None
    }
}

/// Watches nothing.
pub struct NoObserver;

impl Observer for NoObserver {}

/// Keeps the row of every request, in the order of completion.
#[derive(Clone, Debug, Default)]
pub struct RequestRows(pub Vec<RequestRow>);

impl Observer for RequestRows {
    fn wants_requests(&self) -> bool {
        true
    }

    fn request(&mut self, row: &RequestRow) {
        self.0.push(*row);
    }
}

/// Events between two calls of the observer while no requests arrive.
const LOOK_EVERY: u64 = 1 << 16;

/// Sends requests to a drive or an array, and counts them.
pub struct Engine<'a> {
    /// Device that serves the requests.
    pub device: Device,
    /// Counts of the host's requests.
    pub counts: HostCounts,
    settings: Settings,
    arrivals: Arrivals,
    intake: Intake,
    check: ArrayCheck,
    task: &'a mut dyn BackgroundTask,
    /// True if the task has work on the array next to the requests.
    has_work: bool,
    observer: &'a mut dyn Observer,
    /// [`Observer::wants_requests`], asked once because it is needed for every request.
    wants_requests: bool,
    warm_up: WarmUp,
    /// Requests that have not been completed, by tag.
    sent: Slab<Sent>,
    completions: Vec<Completion>,
    completed: u64,
    /// Requests that were served before the source's first.
    prefilled: u64,
    now: Nanos,
}

impl<'a> Engine<'a> {
    /// An engine for `device`, which was built with stamps if the settings ask for check mode. Only arrays have a `task`.
    pub fn new(
        mut device: Device,
        settings: Settings,
        counts: HostCounts,
        task: &'a mut dyn BackgroundTask,
        observer: &'a mut dyn Observer,
    ) -> Engine<'a> {
        for (number, drive) in device.drives_mut().iter_mut().enumerate().chain(task.successor()) {
            drive.record(observer.recorder(number));
        }
        let is_array = matches!(device, Device::Array(_));
        Engine {
            counts,
            settings,
            arrivals: Arrivals::new(&settings, Nanos::ZERO),
            intake: Intake::new(&settings, &device),
            check: ArrayCheck::new(settings.check && is_array),
            task,
            has_work: false,
            wants_requests: observer.wants_requests(),
            observer,
            warm_up: WarmUp::new(settings.warmup),
            device,
            sent: Slab::default(),
            completions: Vec::new(),
            completed: 0,
            prefilled: 0,
            now: Nanos::ZERO,
        }
    }

    /// Serves all requests of `source`. If the array has work of its own, does that too; then the run ends with this work, and any requests
    /// left are not served. Returns `false` if the observer ended the run early.
    pub fn run(&mut self, source: &mut dyn Source) -> Result<bool, Error> {
        let mut is_wanted = self.prefill()?;
        if self.warm_up.begin(&self.device, self.now) {
            self.begin_counting()?;
        }
        // Anew, because a prefill has taken time.
        self.arrivals = Arrivals::new(&self.settings, self.now);
        self.has_work = !self.task.is_over() && matches!(self.device, Device::Array(_));
        // If nothing can happen between a request and its completion, it needs no events.
        let skips_events = !self.has_work && (self.device.completes_in_order() || self.arrivals.is_one_by_one());
        let (mut input, mut events) = (Input::default(), 0u64);
        while is_wanted {
            if input.wants_more() {
                // Between batches of a few thousand requests; before the first there is nothing to show.
                if !input.is_new() && !self.show_progress(source) {
                    is_wanted = false;
                    break;
                }
                input.fill(source)?;
            }
            if self.has_work && self.task.is_over() {
                input.end();
            }
            if skips_events {
                self.serve_in_turn(&mut input, source)?;
            }
            // Once the batch is used up the next one is taken first: its first request may arrive before the next event.
            if !input.wants_more() && !self.process_next(&mut input, source)? {
                break;
            }
            events += 1;
            if self.has_work && events.is_multiple_of(LOOK_EVERY) {
                is_wanted = self.show_progress(source);
            }
        }
        // A run that ends within its warm-up counts nothing. Its outcome begins at its end, with the work of the warm-up left out.
        if !self.warm_up.is_over {
            self.begin_counting()?;
        }
        Ok(is_wanted)
    }

    /// Shows the observer the progress of the run; returns `false` if it ends the run.
    fn show_progress(&mut self, source: &dyn Source) -> bool {
        let is_at_work = self.has_work && !self.task.is_over();
        let progress = if is_at_work { self.task.progress() } else { source.progress() };
        self.observer.go_on(progress, self.completed)
    }

    fn begin_counting(&mut self) -> DiskResult {
        self.warm_up.is_over = true;
        self.device.reset_counts(self.now)?;
        self.counts.begin(self.now);
        self.task.counting(self.now);
        // Here, because the number of the write to be cut counts from the beginning of counting.
        if let (Some(write), Device::Drive(drive)) = (self.settings.power_cut, &mut self.device) {
            drive.device_mut().disk.cut_power(Power::new(vec![write], self.settings.seed));
        }
        Ok(())
    }

    /// Serves requests one after another at once, until one has to go through events.
    #[inline]
    fn serve_in_turn(&mut self, input: &mut Input, source: &dyn Source) -> Result<(), Error> {
        while self.arrivals.may_send(input.outstanding())
            && let Some((mut request, outstanding)) = input.next()
        {
            let Some(arrival) = self.admit(&mut request, outstanding, source)? else {
                input.end();
                return Ok(());
            };
            self.check.note(&request);
            match self.serve_at_once(&request, arrival)? {
                Some(times) => {
                    self.note_waiting();
                    self.complete(&request, self.intake.row, &times)?;
                }
                // It completes by an event, which the loop has to process before the next request.
                None => return self.send(request, arrival),
            }
        }
        Ok(())
    }

    /// Serves a request at once; `None` if it has to go through events. In check mode it is verified.
    #[inline(always)]
    fn serve_at_once(&mut self, request: &Request, arrival: Nanos) -> DiskResult<Option<Times>> {
        let served = self.device.serve_at_once(request, arrival, true, &mut self.check.data)?;
        if let Some(times) = &served {
            self.now = times.end;
            self.check.verify_served(request)?;
        }
        Ok(served)
    }

    /// When the task acts next.
    #[inline]
    fn next_work(&self) -> Nanos {
        if self.has_work { self.task.next() } else { Nanos::MAX }
    }

    /// Processes the next event: a completion, the array's own work, or an arrival. Returns `false` if there is none.
    fn process_next(&mut self, input: &mut Input, source: &dyn Source) -> Result<bool, Error> {
        let arrival = input.peek().map_or(Nanos::MAX, |request| self.arrivals.peek(request.time, input.outstanding()));
        let mut task = self.next_work();
        let mut device = self.device.next();
        // As in `Device::step`: all commands of this moment have arrived.
        if self.device.has_pending() && self.now < device.min(arrival).min(task) {
            self.device.resume()?;
            self.note_waiting();
            device = self.device.next();
        }
        if input.is_over && device == Nanos::MAX && !self.device.has_pending() {
            // If the warm-up is longer than the load, counting begins now, so that work of the array that waited for the host is counted.
            if !self.warm_up.is_over {
                self.begin_counting()?;
            }
            self.task.host_done(self.now);
            task = self.next_work();
            if task == Nanos::MAX {
                return Ok(false);
            }
        }
        // At equal times completions come first, then the array's own work, then arrivals: a command that arrives when another completes
        // finds a free place in the queue.
        if device < Nanos::MAX && device <= arrival && device <= task {
            self.advance()?;
        } else if task < Nanos::MAX && task <= arrival {
            self.intake.check_task(task)?;
            self.now = task;
            if let Some(array) = self.device.array_mut() {
                self.task.act(array, task)?;
            }
        } else if let Some((mut request, outstanding)) = input.next() {
            match self.admit(&mut request, outstanding, source)? {
                Some(arrival) => {
                    self.check.note(&request);
                    self.send(request, arrival)?;
                }
                None => input.end(),
            }
        }
        Ok(true)
    }

    /// Moves a request to its source's sectors, and returns when it arrives; `None` if that is after the end of the run.
    #[inline(always)]
    fn admit(
        &mut self,
        request: &mut Request,
        outstanding: Option<u16>,
        source: &dyn Source,
    ) -> Result<Option<Nanos>, Error> {
        self.intake.admit(request, &self.device, source)?;
        let arrival = self.arrivals.next(request.time, outstanding);
        if let Some(until) = self.settings.until
            && arrival.since(self.counts.begin) >= until
            && self.warm_up.is_over
        {
            return Ok(None);
        }
        // After the end of the run a request may be as late as it likes.
        self.intake.check_arrival(arrival)?;
        if self.wants_requests {
            self.intake.note_row(request.source);
        }
        Ok(Some(arrival))
    }

    /// Sends a request to the device, after `check` has noted its stamps. Its completion will be an event.
    fn send(&mut self, request: Request, arrival: Nanos) -> Result<(), Error> {
        self.now = arrival;
        let (expected, data) = (std::mem::take(&mut self.check.expected), std::mem::take(&mut self.check.data));
        let row = self.intake.row;
        let tag = self.sent.add(|_| Sent { request, row, arrival, expected }).into();
        self.device.submit(Command { tag, request, arrival, host: true, data })?;
        self.note_waiting();
        Ok(())
    }

    /// Processes the device's next event.
    fn advance(&mut self) -> Result<(), Error> {
        self.now = self.device.next();
        let completion = self.device.advance(&mut self.completions)?;
        self.note_waiting();
        if let Some(completion) = completion {
            self.receive(&completion)?;
        }
        if !self.completions.is_empty() {
            // Taken out, because receiving them needs the engine, and put back to be filled again.
            let mut completions = std::mem::take(&mut self.completions);
            completions.drain(..).try_for_each(|completion| self.receive(&completion))?;
            self.completions = completions;
        }
        while let Some(array) = self.device.array_mut()
            && let Some(done) = array.take_done()
        {
            self.task.done(&done, array)?;
        }
        Ok(())
    }

    /// Notes when a request first waited for cleaning.
    #[inline]
    fn note_waiting(&mut self) {
        let moment = self.device.first_wait();
        if self.warm_up.is_over && moment < Nanos::MAX {
            self.counts.waits_for_cleaning(moment);
        }
    }

    fn receive(&mut self, completion: &Completion) -> Result<(), Error> {
        let (request, row, arrival) = self.take_sent(completion)?;
        self.complete(&request, row, &Times { arrival, start: completion.start.max(arrival), end: completion.end })
    }

    /// Takes the completed request with its row and its arrival. In check mode it is verified.
    fn take_sent(&mut self, completion: &Completion) -> DiskResult<(Request, u64, Nanos)> {
        let id = completion.tag as u32;
        self.sent.remove(id);
        // Its number is not used again before the next request is sent.
        let Sent { request, row, arrival, expected } = self.sent.get(id);
        self.check.verify(request, expected, &completion.data)?;
        Ok((*request, *row, *arrival))
    }

    /// Counts a completed request.
    #[inline(always)]
    fn complete(&mut self, request: &Request, row: u64, times: &Times) -> Result<(), Error> {
        self.arrivals.completed(times.end);
        self.completed += 1;
        if !self.warm_up.is_over {
            return self.warm_up(request);
        }
        let device = &self.device;
        self.counts.count(request, times, || device.reading());
        if self.has_work {
            self.task.completed(request, times);
        }
        if self.wants_requests {
            self.show_request(request, row, times);
        }
        Ok(())
    }

    /// Shows the observer a completed request. Out of line, for the speed of runs that show none.
    #[inline(never)]
    fn show_request(&mut self, request: &Request, row: u64, times: &Times) {
        // This request has been counted already; rows are numbered from 0.
        let index = self.counts.totals.requests - 1;
        self.observer.request(&RequestRow::new(request, row, times, self.counts.begin, index));
    }

    /// Notes a completed request of the warm-up, after which counting may begin.
    #[cold]
    fn warm_up(&mut self, request: &Request) -> Result<(), Error> {
        if self.warm_up.completed(request, self.completed, &self.device, self.now) {
            self.begin_counting()?;
        }
        Ok(())
    }

    /// Processes the next event; returns `false` if there was none.
    fn step(&mut self, completions: &mut Vec<Completion>) -> DiskResult<bool> {
        self.device.resume()?;
        let next = self.device.next();
        if next < Nanos::MAX {
            self.now = next;
            let completion = self.device.advance(completions)?;
            completions.extend(completion);
        }
        Ok(next < Nanos::MAX)
    }

    /// Sends a request and waits for its completion; it is not counted.
    fn serve_uncounted(&mut self, request: &Request) -> Result<(), Error> {
        self.check.note(request);
        if self.serve_at_once(request, self.now)?.is_some() {
            return Ok(());
        }
        self.send(*request, self.now)?;
        let mut completions = Vec::new();
        while completions.is_empty() && self.step(&mut completions)? {}
        self.verify_uncounted(&completions)
    }

    /// Verifies completed requests without counting them.
    fn verify_uncounted(&mut self, completions: &[Completion]) -> Result<(), Error> {
        for completion in completions {
            self.take_sent(completion)?;
        }
        Ok(())
    }

    /// The power cuts so far.
    pub fn take_power_cuts(&mut self) -> Vec<PowerCut> {
        let Device::Drive(drive) = &mut self.device else { return Vec::new() };
        let mut cuts = drive.take_power_cuts();
        cuts.iter_mut().for_each(|cut| cut.completed -= self.prefilled);
        cuts
    }
}
