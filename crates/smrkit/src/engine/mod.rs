//! The loop: requests arrive, wait, are served, and are counted.
//!
//! The engine knows drives and arrays, not layers. Time goes from event to event: an arrival, a completion, work of an array's
//! own. What completes before anything else can happen takes a short way past the events: a request to a drive that serves them
//! in order, and in a closed loop of one a request to an idle array that concerns one drive.

mod arrivals;
mod intake;
mod observer;
mod physical;
mod prefill;
pub mod rebuild;
pub(crate) mod run;
mod steady;
pub mod system;
pub mod task;
#[cfg(test)]
mod tests;
mod verify;

use crate::device::{Array, Command, Completion, Member, MemberDrive, SectorWords, Served, Shadow, Stamped};
use crate::error::{DiskResult, Error};
use crate::power::Power;
use crate::request::{Request, Source};
use crate::settings::{Settings, Warmup};
use crate::stats::counts::{HostCounts, Times};
use crate::stats::outcome::{PowerCut, Rebuild, Steady};
use crate::stats::rows::RequestRow;
use crate::units::{Lba, Nanos};
use arrivals::Arrivals;
use intake::{Input, Intake};
pub use observer::{NoObserver, Observer, RequestRows};
use steady::SteadyWatch;
use task::BackgroundTask;

/// Events between two looks at the observer where no requests come.
const LOOK_EVERY: u64 = 1 << 16;

/// A request that has not been completed.
struct Sent {
    request: Request,
    /// Its row in its source, where rows are asked for.
    row: u64,
    arrival: Nanos,
    /// Stamps that a read must find, in check mode.
    expected: SectorWords,
}

/// A drive or an array, the requests' way to it, and what is counted on the way.
pub struct Engine<'a> {
    /// Device that serves the requests.
    pub member: Member,
    /// Counts of the host's requests.
    pub counts: HostCounts,
    settings: Settings,
    arrivals: Arrivals,
    intake: Intake,
    /// Contents that the host expects of an array, in check mode. A drive has a shadow of its own.
    shadow: Option<Shadow>,
    task: &'a mut dyn BackgroundTask,
    has_task: bool,
    observer: &'a mut dyn Observer,
    wants_requests: bool,
    /// True if requests may take the short way past the events.
    is_short: bool,
    /// Sectors offered to all sources; none where each source has a member of its own.
    host_sectors: Option<u64>,
    /// Requests by tag, and tags to use again. By hand: a completion reads its entry in place, and none is moved out.
    sent: Vec<Sent>,
    unused: Vec<u32>,
    /// In check mode of an array: stamps of the next request.
    stamps: Stamped,
    /// The row of the next request, where rows are asked for.
    row: u64,
    completions: Vec<Completion>,
    completed: u64,
    /// Requests that were served before the source's first.
    prefilled: u64,
    counting: bool,
    /// Waits for cleaning to settle, where that is what the warm-up is for.
    watch: Option<SteadyWatch>,
    /// When it had.
    pub steady: Option<Steady>,
    now: Nanos,
    events: u64,
}

impl<'a> Engine<'a> {
    /// A loop over `member`, which has been built for checking if the settings ask for that. Only arrays have a `task`.
    pub fn new(
        mut member: Member,
        settings: Settings,
        counts: HostCounts,
        task: &'a mut dyn BackgroundTask,
        observer: &'a mut dyn Observer,
    ) -> Engine<'a> {
        record(member.drives(), 0, observer);
        if let Some((first, new)) = task.successor() {
            record(new.drives(), first, observer);
        }
        let is_array = matches!(member, Member::Array(_));
        Engine {
            counts,
            settings,
            arrivals: Arrivals::new(&settings, Nanos::ZERO),
            intake: Intake::new(&settings),
            shadow: (settings.check && is_array).then(Shadow::default),
            has_task: false,
            task,
            wants_requests: observer.wants_requests(),
            observer,
            is_short: false,
            host_sectors: Some(member.host_sectors()).filter(|_| !member.is_per_source()),
            member,
            sent: Vec::new(),
            unused: Vec::new(),
            stamps: Stamped::default(),
            row: 0,
            completions: Vec::new(),
            completed: 0,
            prefilled: 0,
            counting: false,
            watch: None,
            steady: None,
            now: Nanos::ZERO,
            events: 0,
        }
    }

    /// Serves all requests of `source`, and does the array's own work; what the host still wants when that is over is left
    /// out, if there was any. Returns `false` if the observer ended the run early.
    pub fn run(&mut self, source: &mut dyn Source) -> Result<bool, Error> {
        let mut go_on = self.prefill()?;
        match self.settings.warmup {
            Warmup::Requests(0) => self.begin_counting()?,
            Warmup::Requests(_) => {}
            Warmup::UntilSteady => self.watch = Some(SteadyWatch::new(&mut self.member, self.now)),
        }
        self.arrivals = Arrivals::new(&self.settings, self.now);
        self.has_task = !self.task.is_over() && matches!(self.member, Member::Array(_));
        self.is_short = !self.has_task && (self.member.completes_in_order() || self.arrivals.is_one_by_one());
        let mut input = Input::default();
        while go_on {
            if input.wants_more() {
                if !input.is_new() && !self.look(source) {
                    go_on = false;
                    break;
                }
                input.fill(source)?;
            }
            if self.has_task && self.task.is_over() {
                input.end();
            }
            self.serve_in_turn(&mut input, source)?;
            if !input.wants_more() && !self.happen(&mut input, source)? {
                break;
            }
            self.events += 1;
            if self.has_task && self.events.is_multiple_of(LOOK_EVERY) {
                go_on = self.look(source);
            }
        }
        if !self.counting {
            self.begin_counting()?;
        }
        Ok(go_on)
    }

    /// Shows the observer how far the run has come; tells whether it goes on.
    fn look(&mut self, source: &dyn Source) -> bool {
        let progress = if self.has_task && !self.task.is_over() { self.task.progress() } else { source.progress() };
        self.observer.go_on(progress, self.completed)
    }

    fn begin_counting(&mut self) -> DiskResult {
        self.counting = true;
        self.member.reset_counts(self.now)?;
        self.counts.begin(self.now);
        self.task.counting(self.now);
        if let (Some(write), Member::Drive(drive)) = (self.settings.power_cut, &mut self.member) {
            drive.device_mut().disk.cut_power(Power::new(vec![write], self.settings.seed));
        }
        Ok(())
    }

    /// Serves requests one after another by the short way, as far as that goes.
    #[inline]
    fn serve_in_turn(&mut self, input: &mut Input, source: &dyn Source) -> Result<(), Error> {
        while self.is_short
            && self.arrivals.may_send()
            && let Some(&(mut request)) = input.next()
        {
            let Some(arrival) = self.admit(&mut request, source)? else {
                input.end();
                return Ok(());
            };
            self.note_stamps(&request);
            match self.serve_at_once(&request, arrival)? {
                Some(Served { start, end }) => {
                    self.note_waiting();
                    self.complete(&request, self.row, &Times { arrival, start, end })?;
                }
                None => return self.send(request, arrival),
            }
        }
        Ok(())
    }

    /// Serves a request by the short way, where there is one. In check mode it is verified.
    #[inline(always)]
    fn serve_at_once(&mut self, request: &Request, arrival: Nanos) -> DiskResult<Option<Served>> {
        let served = self.member.serve_at_once(request, arrival, true, &mut self.stamps)?;
        if let Some(served) = &served {
            self.now = served.end;
            if self.shadow.is_some() {
                Shadow::verify_sent(request, &self.stamps.expected, &self.stamps.found)?;
            }
        }
        Ok(served)
    }

    /// Processes the next event; tells whether there was one.
    fn happen(&mut self, input: &mut Input, source: &dyn Source) -> Result<bool, Error> {
        let arrival = input.peek().map_or(Nanos::MAX, |request| self.arrivals.peek(request.time));
        let mut task = if self.has_task { self.task.next() } else { Nanos::MAX };
        let mut member = self.member.next();
        // All that comes at this moment is there.
        if self.member.has_pending() && self.now < member.min(arrival).min(task) {
            self.member.resume()?;
            self.note_waiting();
            member = self.member.next();
        }
        if input.is_over() && member == Nanos::MAX && !self.member.has_pending() {
            self.host_done()?;
            task = if self.has_task { self.task.next() } else { Nanos::MAX };
            if task == Nanos::MAX {
                return Ok(false);
            }
        }
        if member < Nanos::MAX && member <= arrival && member <= task {
            self.advance()?;
        } else if task < Nanos::MAX && task <= arrival {
            self.intake.check_task(task)?;
            self.now = task;
            if let Some((array, own)) = self.array_and_task() {
                own.act(array, task)?;
            }
        } else if let Some(&(mut request)) = input.next() {
            match self.admit(&mut request, source)? {
                Some(arrival) => {
                    self.note_stamps(&request);
                    self.send(request, arrival)?;
                }
                None => input.end(),
            }
        }
        Ok(true)
    }

    /// Nothing comes any more, and nothing is under way.
    fn host_done(&mut self) -> DiskResult {
        if !self.counting {
            self.begin_counting()?;
        }
        self.task.host_done(self.now);
        Ok(())
    }

    fn array_and_task(&mut self) -> Option<(&mut Array, &mut dyn BackgroundTask)> {
        Some((self.member.array_mut()?, &mut *self.task))
    }

    /// Places a request where its source's sectors lie, and tells when it arrives; `None` if that is after the time that the
    /// run was given.
    #[inline(always)]
    fn admit(&mut self, request: &mut Request, source: &dyn Source) -> Result<Option<Nanos>, Error> {
        let (start, capacity) = match self.host_sectors {
            Some(all) => (Lba(0), all),
            None => self.member.place_of_source(request.source),
        };
        self.intake.admit(request, capacity, source)?;
        request.lba += start.0;
        let arrival = self.arrivals.next(request.time);
        if let Some(until) = self.settings.until
            && arrival.since(self.counts.begin) >= until
            && self.counting
        {
            return Ok(None);
        }
        self.intake.check_arrival(arrival)?;
        if self.wants_requests {
            self.row = self.intake.row(request.source);
        }
        Ok(Some(arrival))
    }

    /// In check mode of an array: takes note of what a request is to write, or must find.
    #[inline]
    fn note_stamps(&mut self, request: &Request) {
        if let Some(shadow) = &mut self.shadow {
            self.stamps.expected = shadow.send(request);
        }
    }

    /// Sends a request whose stamps have been noted; its completion is an event to come.
    fn send(&mut self, request: Request, arrival: Nanos) -> Result<(), Error> {
        self.now = arrival;
        let stamps = std::mem::take(&mut self.stamps.expected);
        let sent = Sent { request, row: self.row, arrival, expected: stamps.clone() };
        let tag = match self.unused.pop() {
            Some(tag) => {
                self.sent[tag as usize] = sent;
                tag
            }
            None => {
                self.sent.push(sent);
                (self.sent.len() - 1) as u32
            }
        };
        self.member.submit(Command { tag: u64::from(tag), request, arrival, host: true, stamps })?;
        self.note_waiting();
        Ok(())
    }

    /// Lets the member's next event happen.
    fn advance(&mut self) -> Result<(), Error> {
        self.now = self.member.next();
        let completion = self.member.advance(&mut self.completions)?;
        self.note_waiting();
        if let Some(completion) = completion {
            self.receive(&completion)?;
        }
        if !self.completions.is_empty() {
            self.receive_more()?;
        }
        while let Some((array, task)) = self.array_and_task()
            && let Some(done) = array.take_done()
        {
            task.done(&done, array)?;
        }
        Ok(())
    }

    fn receive_more(&mut self) -> Result<(), Error> {
        let mut completions = std::mem::take(&mut self.completions);
        let received = completions.drain(..).try_for_each(|completion| self.receive(&completion));
        self.completions = completions;
        received
    }

    /// Takes note of the first request that waits for cleaning, at the moment that it begins to.
    #[inline]
    fn note_waiting(&mut self) {
        let moment = self.member.first_wait();
        if self.counting && moment < Nanos::MAX {
            self.counts.waits_for_cleaning(moment);
        }
    }

    fn receive(&mut self, completion: &Completion) -> Result<(), Error> {
        let (request, row, arrival) = self.take_sent(completion)?;
        self.complete(&request, row, &Times { arrival, start: completion.start.max(arrival), end: completion.end })
    }

    /// The request that is completed, its row and its arrival; in check mode it is verified.
    fn take_sent(&mut self, completion: &Completion) -> DiskResult<(Request, u64, Nanos)> {
        let Sent { request, row, arrival, expected } = &self.sent[completion.tag as usize];
        self.unused.push(completion.tag as u32);
        if self.shadow.is_some() {
            Shadow::verify_sent(request, expected, &completion.stamps)?;
        }
        Ok((*request, *row, *arrival))
    }

    /// Counts a request that is completed.
    #[inline(always)]
    fn complete(&mut self, request: &Request, row: u64, times: &Times) -> Result<(), Error> {
        self.arrivals.completed(times.end);
        self.completed += 1;
        if self.counting {
            let member = &self.member;
            self.counts.count(request, times, || member.gauges());
            if self.has_task {
                self.task.completed(request, times);
            }
            if self.wants_requests {
                self.report_request(request, row, times);
            }
            return Ok(());
        }
        self.warm_up(request)
    }

    fn report_request(&mut self, request: &Request, row: u64, times: &Times) {
        let row = RequestRow::new(request, row, times, self.counts.begin, self.counts.totals.requests - 1);
        self.observer.request(&row);
    }

    /// Processes the next event; tells whether there was one.
    fn step(&mut self, completions: &mut Vec<Completion>) -> DiskResult<bool> {
        self.member.resume()?;
        let next = self.member.next();
        if next < Nanos::MAX {
            self.now = next;
            let completion = self.member.advance(completions)?;
            completions.extend(completion);
        }
        Ok(next < Nanos::MAX)
    }

    /// Sends a request and waits for its completion; it is not counted.
    fn serve_uncounted(&mut self, request: &Request) -> Result<(), Error> {
        self.note_stamps(request);
        if self.serve_at_once(request, self.now)?.is_some() {
            return Ok(());
        }
        self.send(*request, self.now)?;
        let mut completions = Vec::new();
        while completions.is_empty() && self.step(&mut completions)? {}
        self.settle(&completions)
    }

    /// Verifies requests that are completed, and counts nothing.
    fn settle(&mut self, completions: &[Completion]) -> Result<(), Error> {
        for completion in completions {
            self.take_sent(completion)?;
        }
        Ok(())
    }

    /// The result of the array's own work.
    pub fn report(&mut self) -> DiskResult<Option<Rebuild>> {
        self.array_and_task().map_or(Ok(None), |(array, task)| task.report(array))
    }

    /// The power cuts so far.
    pub fn take_power_cuts(&mut self) -> Vec<PowerCut> {
        let Member::Drive(drive) = &mut self.member else { return Vec::new() };
        let mut cuts = drive.take_power_cuts();
        cuts.iter_mut().for_each(|cut| cut.completed -= self.prefilled);
        cuts
    }
}

/// The observer's recorders take note of what drives do, the first of them number `first`.
fn record(drives: Vec<&mut MemberDrive>, first: usize, observer: &mut dyn Observer) {
    for (number, drive) in (first..).zip(drives) {
        drive.record(observer.recorder(number));
    }
}
