//! The loop for arrays: what happens next, happens, be it an arrival, a member's answer, or work of the array's own.
//!
//! One drive serves one request after another ([`super::Engine`]); members of an array work at the same time, so that here
//! time goes from event to event.

use super::arrivals::Arrivals;
use super::expected::Expected;
use super::intake::Intake;
use super::settings::{Prefill, Settings};
use super::{Observer, prefill};
use crate::array::{Answer, Array, Command, Done, Member, Station, Target, Words};
use crate::error::{DiskResult, Error};
use crate::request::{Op, Progress, Request, Source};
use crate::stats::counts::{HostCounts, Times};
use crate::stats::outcome::Rebuild;
use crate::stats::rows::RequestRow;
use crate::units::Nanos;

/// Events between two looks at the observer where no requests come.
const LOOK_EVERY: u64 = 1 << 16;

/// Work of an array's own beside the host's: rebuilding, scrubbing, a failure to come.
pub trait Chore {
    /// Counting begins (after prefill and warm-up).
    fn counting(&mut self, _now: Nanos) {}

    /// The host wants nothing more, and nothing is under way: what waited for the host need wait no longer.
    fn alone(&mut self, _now: Nanos) {}

    /// What there is to tell when the run is over; lets the members' own cleaning come to its end.
    fn report(&mut self, _array: &mut Array) -> DiskResult<Option<Rebuild>> {
        Ok(None)
    }

    /// When it is to act next; [`Nanos::MAX`] while it waits for its own commands, or for nothing.
    fn next(&self) -> Nanos {
        Nanos::MAX
    }

    /// Acts, at the moment that `next` told.
    fn act(&mut self, _array: &mut Array, _now: Nanos) -> DiskResult {
        Ok(())
    }

    /// A part of it is done.
    fn done(&mut self, _done: &Done, _array: &mut Array) -> DiskResult {
        Ok(())
    }

    /// The member that is to take another's place, and the number of its first drive.
    fn successor(&mut self) -> Option<(usize, &mut Member)> {
        None
    }

    /// A request of the host was answered.
    fn answered(&mut self, _request: &Request, _times: &Times) {}

    /// Whether nothing is left to do.
    fn is_over(&self) -> bool;

    /// How far it has come.
    fn progress(&self) -> Progress {
        Progress::default()
    }
}

/// No work of the array's own.
pub struct Idle;

impl Chore for Idle {
    fn is_over(&self) -> bool {
        true
    }
}

/// A request that has not been answered.
#[derive(Clone, Copy)]
struct Sent {
    request: Request,
    arrival: Nanos,
}

/// An array, the requests' way to it, and what is counted on the way.
pub struct Fleet<'a> {
    /// The array.
    pub array: Array,
    /// What was counted of the host's requests.
    pub counts: HostCounts,
    settings: Settings,
    arrivals: Arrivals,
    intake: Intake,
    expected: Option<Expected>,
    chore: &'a mut dyn Chore,
    has_chore: bool,
    observer: &'a mut dyn Observer,
    wants_requests: bool,
    sent: Vec<Sent>,
    unused: Vec<u32>,
    answers: Vec<Answer>,
    answered: u64,
    counting: bool,
    now: Nanos,
    events: u64,
}

impl<'a> Fleet<'a> {
    /// A loop over `array`, which has been made for checking if the settings ask for that.
    pub fn new(
        mut array: Array,
        settings: Settings,
        counts: HostCounts,
        chore: &'a mut dyn Chore,
        observer: &'a mut dyn Observer,
    ) -> Fleet<'a> {
        record(array.stations(), 0, observer);
        if let Some((first, member)) = chore.successor() {
            record(member.stations(), first, observer);
        }
        Fleet {
            array,
            counts,
            settings,
            arrivals: Arrivals::new(&settings, Nanos::ZERO),
            intake: Intake::new(&settings),
            expected: settings.check.then(Expected::default),
            has_chore: !chore.is_over(),
            chore,
            wants_requests: observer.wants_requests(),
            observer,
            sent: Vec::new(),
            unused: Vec::new(),
            answers: Vec::new(),
            answered: 0,
            counting: false,
            now: Nanos::ZERO,
            events: 0,
        }
    }

    /// Serves all requests of `source`, and does what the array has to do of its own; what the host still wants when that is
    /// over is left out, if there was any. Returns `false` if the observer ended the run early.
    pub fn run(&mut self, source: &mut dyn Source) -> Result<bool, Error> {
        let mut go_on = prefill::fill(self)?;
        if self.settings.warmup == 0 {
            self.begin_counting()?;
        }
        self.arrivals = Arrivals::new(&self.settings, self.now);
        self.has_chore = !self.chore.is_over();
        let has_chore = self.has_chore;
        let mut batch: Vec<Request> = Vec::new();
        let mut at = 0;
        let mut ended = false;
        while go_on {
            if at == batch.len() && !ended {
                source.fill(&mut batch)?;
                (at, ended) = (0, batch.is_empty());
                go_on = self.observer.go_on(self.progress(source), self.answered);
            }
            ended |= has_chore && self.chore.is_over();
            let request = batch.get(at).filter(|_| !ended || !has_chore);
            let arrival = request.map_or(Nanos::MAX, |request| self.arrivals.peek(request.time));
            let mut chore = if has_chore { self.chore.next() } else { Nanos::MAX };
            let mut member = self.array.next();
            // All that comes at this moment is there.
            if self.array.rests() && self.now < member.min(arrival).min(chore) {
                self.array.resume()?;
                self.note_waiting();
                member = self.array.next();
            }
            if request.is_none() && member == Nanos::MAX && !self.array.rests() {
                self.alone()?;
                chore = self.chore.next();
                if chore == Nanos::MAX {
                    break;
                }
            }
            if member < Nanos::MAX && member <= arrival && member <= chore {
                self.advance()?;
            } else if chore < Nanos::MAX && chore <= arrival {
                self.intake.check_arrival(chore).map_err(|_| too_late())?;
                self.now = chore;
                self.chore.act(&mut self.array, chore)?;
            } else if let Some(&(mut request)) = request {
                at += 1;
                let capacity = self.array.sectors_of_source(request.source);
                self.intake.admit(&mut request, capacity, source)?;
                request.lba += self.array.source_start(request.source).0;
                let arrival = self.arrivals.next(request.time);
                self.intake.check_arrival(arrival)?;
                if self.settings.until.is_some_and(|until| arrival.since(self.counts.begin) >= until)
                    && self.answered >= self.settings.warmup
                {
                    (ended, at) = (true, 0);
                    batch.clear();
                    continue;
                }
                self.submit(&request, arrival)?;
            }
            self.events += 1;
            if self.events.is_multiple_of(LOOK_EVERY) && has_chore {
                go_on = self.observer.go_on(self.progress(source), self.answered);
            }
        }
        if !self.counting {
            self.begin_counting()?;
        }
        Ok(go_on)
    }

    fn progress(&self, source: &dyn Source) -> Progress {
        match self.chore.is_over() {
            true => source.progress(),
            false => self.chore.progress(),
        }
    }

    /// Nothing comes any more, and nothing is under way.
    fn alone(&mut self) -> DiskResult {
        if !self.counting {
            self.begin_counting()?;
        }
        self.chore.alone(self.now);
        Ok(())
    }

    /// What the array's own work has to tell.
    pub fn report(&mut self) -> DiskResult<Option<Rebuild>> {
        self.chore.report(&mut self.array)
    }

    fn begin_counting(&mut self) -> DiskResult {
        self.counting = true;
        self.array.reset_counts(self.now)?;
        self.counts.begin(self.now);
        self.chore.counting(self.now);
        Ok(())
    }

    #[inline]
    fn submit(&mut self, request: &Request, arrival: Nanos) -> Result<(), Error> {
        let command = self.command(request, arrival);
        // Nothing comes before its answer: no need to go from event to event.
        if !self.has_chore
            && self.arrivals.wait_for_answers()
            && let Some(answer) = self.array.serve_at_once(&command)?
        {
            self.note_waiting();
            self.now = answer.end;
            return self.receive(&answer);
        }
        self.array.submit(command)?;
        self.note_waiting();
        Ok(())
    }

    #[inline]
    fn command(&mut self, request: &Request, arrival: Nanos) -> Command {
        self.now = arrival;
        let sent = Sent { request: *request, arrival };
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
        let tag = u64::from(tag);
        let words = self.expected.as_mut().map_or(Words::new(), |expected| expected.sent(tag, request));
        let Request { op, lba, sectors, source, .. } = *request;
        Command { tag, op, lba, sectors, source, arrival, host: true, words }
    }

    /// Lets the members' next event happen.
    #[inline]
    fn advance(&mut self) -> Result<(), Error> {
        self.now = self.array.next();
        let answer = self.array.advance(&mut self.answers)?;
        self.note_waiting();
        if let Some(answer) = answer {
            self.receive(&answer)?;
        }
        if !self.answers.is_empty() {
            self.receive_more()?;
        }
        while let Some(done) = self.array.take_done() {
            self.chore.done(&done, &mut self.array)?;
        }
        Ok(())
    }

    fn receive_more(&mut self) -> Result<(), Error> {
        let mut answers = std::mem::take(&mut self.answers);
        let received = answers.drain(..).try_for_each(|answer| self.receive(&answer));
        self.answers = answers;
        received
    }

    /// Takes note of the first request that waits for cleaning, at the moment that it begins to.
    #[inline]
    fn note_waiting(&mut self) {
        let moment = self.array.first_wait();
        if self.counting && moment < Nanos::MAX {
            self.counts.waits_for_cleaning(moment);
        }
    }

    #[inline]
    fn receive(&mut self, answer: &Answer) -> Result<(), Error> {
        let Sent { request, arrival } = self.sent[answer.tag as usize];
        self.settle(answer)?;
        self.arrivals.answered(answer.end);
        self.answered += 1;
        let times = Times { arrival, start: answer.start.max(arrival), end: answer.end };
        if self.answered > self.settings.warmup {
            let array = &self.array;
            self.counts.count(&request, &times, || array.gauges());
            if self.has_chore {
                self.chore.answered(&request, &times);
            }
            if self.wants_requests {
                let row = RequestRow::new(&request, &times, self.counts.begin, self.counts.requests - 1);
                self.observer.request(&row);
            }
        } else if self.answered == self.settings.warmup {
            self.begin_counting()?;
        }
        Ok(())
    }

    /// An answer has come: it is verified in check mode, and its number is used again.
    #[inline]
    fn settle(&mut self, answer: &Answer) -> DiskResult {
        if let Some(expected) = &mut self.expected {
            expected.verify(answer.tag, &answer.words)?;
        }
        self.unused.push(answer.tag as u32);
        Ok(())
    }

    /// Lets what happens next happen; tells whether there was anything.
    fn step(&mut self, answers: &mut Vec<Answer>) -> DiskResult<bool> {
        self.array.resume()?;
        let next = self.array.next();
        if next < Nanos::MAX {
            self.now = next;
            let answer = self.array.advance(answers)?;
            answers.extend(answer);
        }
        Ok(next < Nanos::MAX)
    }

    /// Sends a request and waits for its answer; it is not counted.
    fn serve_alone(&mut self, request: &Request) -> DiskResult {
        let command = self.command(request, self.now);
        if let Some(answer) = self.array.serve_at_once(&command)? {
            self.now = answer.end;
            return self.settle(&answer);
        }
        self.array.submit(command)?;
        let mut answers = Vec::new();
        while answers.is_empty() && self.step(&mut answers)? {}
        answers.iter().try_for_each(|answer| self.settle(answer))
    }

    /// In check mode, at the end: everything that the host owns is read back, parity is compared with data, and the members'
    /// books are checked in full.
    pub fn finish(&mut self) -> Result<(), Error> {
        let mut answers = Vec::new();
        while self.step(&mut answers)? {}
        answers.iter().try_for_each(|answer| self.settle(answer))?;
        while self.array.take_done().is_some() {}
        if let Some(expected) = &self.expected {
            let owned: Vec<_> = expected.owned(self.array.host_sectors()).collect();
            for (lba, sectors) in owned {
                self.serve_alone(&Request::new(Op::Read, lba, sectors as u32))?;
            }
            self.scrub_all()?;
            self.array.finish()?;
        }
        Ok(())
    }
}

impl Fleet<'_> {
    fn scrub_all(&mut self) -> DiskResult {
        if self.array.layout().copies() == 1 && self.array.layout().parities() == 0 {
            return Ok(());
        }
        let mut answers = Vec::new();
        for (at, sectors) in self.array.written_parts() {
            self.array.scrub(at, sectors, self.now)?;
            while self.array.take_done().is_none() && self.step(&mut answers)? {}
        }
        Ok(())
    }
}

#[cold]
fn too_late() -> Error {
    let message = "the array's own work would go on for more than 292 years: raise its rate, or begin earlier (at)";
    Error::Usage(message.into())
}

/// The observer's recorders take note of what drives do, the first of them number `first`.
fn record(drives: Vec<&mut Station>, first: usize, observer: &mut dyn Observer) {
    for (number, drive) in (first..).zip(drives) {
        drive.record(observer.recorder(number));
    }
}

impl prefill::Filled for Fleet<'_> {
    fn prefill(&self) -> (Prefill, u64) {
        (self.settings.prefill, self.settings.seed)
    }
    fn host_sectors(&self) -> u64 {
        self.array.host_sectors()
    }
    fn large_sectors(&self) -> u64 {
        prefill::LARGE_SECTORS * self.array.layout().data_disks() as u64 / u64::from(self.array.layout().copies())
    }
    fn cache_sectors(&self) -> u64 {
        self.array.cache_sectors()
    }
    fn cache_fill(&self) -> Option<f64> {
        self.array.gauges().cache_fill
    }
    fn write(&mut self, request: &Request) -> DiskResult {
        self.serve_alone(request)
    }
    fn look(&mut self, progress: Progress) -> bool {
        self.observer.go_on(progress, 0)
    }
}
