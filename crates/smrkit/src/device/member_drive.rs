//! A drive with its queue: a system of its own, or a member of an array.
//!
//! A command is served when its turn comes: what is due or helps fills the gap before it, what is due comes first, then its own
//! service. Its completion is known then, and waits for its moment. In check mode every read is verified against the drive's
//! own stamps.

use std::collections::VecDeque;

use super::LayeredDisk;
use super::command::{Command, Completion, FirstStamps, Served};
use super::dispatch::Dispatch;
use super::drive_contents::DriveContents;
use super::outage::outage;
use super::queue::{Queueing, Waiting};
use super::watch::CommandWatch;
use crate::disk::Recorder;
use crate::error::DiskResult;
use crate::layer::{Gauges, Need};
use crate::medium::Buf;
use crate::pages::Pages;
use crate::request::{Op, Request};
use crate::state::{self, State};
use crate::stats::counts::{HostCounts, Times};
use crate::stats::outcome::{CommandTimes, PowerCut};
use crate::stats::rebuild::MemberRebuild;
use crate::stats::timeline::TimelineBuilder;
use crate::units::{Lba, Nanos};

/// Counts of a member of an array. Those of a drive of its own are the host's.
struct MemberCounts {
    all: HostCounts,
    watch: CommandWatch,
}

/// A drive with its queue.
pub struct MemberDrive {
    pub(super) device: LayeredDisk,
    /// In order of arrival: those that the drive does not see yet, or all of them.
    arrived: VecDeque<Command>,
    /// Commands that the drive sees, where it orders them.
    waiting: Option<Waiting>,
    dispatch: Dispatch,
    /// From dispatch to completion, since counting began.
    times: CommandTimes,
    current: Option<Completion>,
    /// Completed with the current one.
    together: Vec<Completion>,
    pub(super) contents: DriveContents,
    counts: Option<MemberCounts>,
    /// End of the last command.
    at: Lba,
    first_wait: Nanos,
}

/// Moments of a command before its service.
#[derive(Clone, Copy)]
struct Moments {
    arrival: Nanos,
    /// When it was dispatched to the drive.
    sent: Nanos,
    /// When its turn came.
    turn: Nanos,
}

/// Nothing is under way. Completions before do not matter to commands after, save where the head went.
impl State for MemberDrive {
    fn save(&self, out: &mut Vec<u8>) {
        self.device.save(out);
        state::write(&(self.at, self.waiting.as_ref().map(Waiting::heading)), out);
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        self.device.load(from)?;
        let heading: Option<(u64, bool)>;
        (self.at, heading) = state::read(from)?;
        if let (Some(waiting), Some(heading)) = (&mut self.waiting, heading) {
            waiting.head(heading);
        }
        self.device.check()
    }
}

impl MemberDrive {
    /// A drive of its own, whose commands carry `contents`.
    pub fn new(device: LayeredDisk, queueing: Queueing, contents: DriveContents) -> MemberDrive {
        MemberDrive {
            device,
            arrived: VecDeque::new(),
            waiting: queueing.waiting(),
            dispatch: Dispatch::new(queueing.dispatched()),
            times: CommandTimes::default(),
            current: None,
            together: Vec::new(),
            contents,
            counts: None,
            at: Lba(0),
            first_wait: Nanos::MAX,
        }
    }

    /// A drive of an array: what is asked of it is counted.
    pub fn in_array(device: LayeredDisk, queueing: Queueing, contents: DriveContents) -> MemberDrive {
        let counts = MemberCounts { all: no_counts(), watch: CommandWatch::default() };
        MemberDrive { counts: Some(counts), ..MemberDrive::new(device, queueing, contents) }
    }

    /// The disk and its layer.
    pub fn device(&self) -> &LayeredDisk {
        &self.device
    }

    /// The disk and its layer, for the end of a run.
    pub fn device_mut(&mut self) -> &mut LayeredDisk {
        &mut self.device
    }

    /// Once counting begins, `recorder` takes note of the drive's accesses; `None` ends that.
    pub fn record(&mut self, recorder: Option<Box<dyn Recorder>>) {
        if recorder.is_none() {
            self.device.disk.record(None);
        }
        self.device.record(recorder);
    }

    /// Counts of the commands of a member of an array; nothing is counted from now on.
    pub fn take_counts(&mut self) -> HostCounts {
        self.counts.as_mut().map_or_else(no_counts, |counts| std::mem::replace(&mut counts.all, no_counts()))
    }

    /// From now on [`MemberDrive::watched`] counts.
    pub fn watch(&mut self) {
        if let Some(counts) = &mut self.counts {
            counts.watch = CommandWatch::new(self.device.disk.tally());
        }
    }

    /// Work since [`MemberDrive::watch`].
    pub fn watched(&self) -> MemberRebuild {
        let watch = self.counts.as_ref().map(|counts| &counts.watch);
        watch.unwrap_or(&CommandWatch::default()).report(self.device.disk.tally())
    }

    /// Times of its commands since counting began, as a timeout sees them.
    pub fn command_times(&self) -> CommandTimes {
        self.times
    }

    /// The power cuts so far; each tells how many requests had been served since the drive was built.
    pub fn take_power_cuts(&mut self) -> Vec<PowerCut> {
        self.contents.check().map_or_else(Vec::new, |check| std::mem::take(&mut check.power_cuts))
    }

    /// The order in which it serves commands that wait, from now on. None does.
    pub(super) fn order_commands(&mut self, queueing: Queueing) {
        (self.waiting, self.dispatch) = (queueing.waiting(), Dispatch::new(queueing.dispatched()));
    }

    /// True if it serves commands in the order of their coming.
    pub fn keeps_order(&self) -> bool {
        self.waiting.is_none()
    }

    /// True if requests are completed one by one in the order of their coming, whatever comes meanwhile.
    pub fn completes_in_order(&self) -> bool {
        self.keeps_order() && self.device.layer.takes_together() == 1
    }

    /// Empties the drive's caches and cleans while that helps; returns when it was done.
    pub fn settle(&mut self) -> DiskResult<Nanos> {
        let LayeredDisk { disk, layer, .. } = &mut self.device;
        layer.flush(disk)?;
        let idles = self.device.uses_idle_time();
        while self.device.step(Need::Must)? || (idles && self.device.step(Need::Spare)?) {}
        self.device.disk.flush()?;
        Ok(self.device.now())
    }

    /// Serves a request while nothing else waits; its completion is told before its moment. In check mode `data` are stamps of
    /// the array that the drive belongs to.
    #[inline(always)]
    pub fn serve(&mut self, request: &Request, arrival: Nanos, host: bool, data: &mut Buf) -> DiskResult<Served> {
        let sent = self.dispatch.send(arrival);
        self.serve_sent(request, arrival, sent, host, data)
    }

    /// Serves a request that was dispatched at `sent`.
    #[inline(always)]
    fn serve_sent(
        &mut self,
        request: &Request,
        arrival: Nanos,
        sent: Nanos,
        host: bool,
        data: &mut Buf,
    ) -> DiskResult<Served> {
        let turn = self.turn(arrival)?;
        let start = loop {
            match self.serve_now(request, arrival, data) {
                Ok(start) => break start,
                Err(fault) => outage(&mut self.device, &mut self.contents, fault)?,
            }
        };
        let served = Served { start, end: self.device.now() };
        self.note_served(request, Moments { arrival, sent, turn }, host, &served);
        Ok(served)
    }

    /// Lets time pass until a command has arrived and its turn comes.
    #[inline(always)]
    fn turn(&mut self, arrival: Nanos) -> DiskResult<Nanos> {
        let turn = self.device.now().max(arrival);
        if arrival > self.device.now() {
            while let Err(fault) = self.device.idle_until(arrival) {
                outage(&mut self.device, &mut self.contents, fault)?;
            }
        }
        Ok(turn)
    }

    #[inline(always)]
    fn note_served(&mut self, request: &Request, moments: Moments, host: bool, served: &Served) {
        let (Moments { arrival, sent, turn }, &Served { start, end }) = (moments, served);
        self.at = request.end();
        self.dispatch.completed(end);
        self.times.count(end - sent);
        if self.device.cleaning_end() > arrival {
            self.note_waiting(turn, host);
        }
        if let Some(counts) = &mut self.counts {
            let device = &self.device;
            counts.watch.count(end - sent);
            counts.all.count(request, &Times { arrival, start, end }, || device.layer.gauges());
        }
    }

    /// A command has waited for cleaning since its turn came.
    fn note_waiting(&mut self, turn: Nanos, host: bool) {
        if let Some(counts) = &mut self.counts {
            counts.all.waits_for_cleaning(turn);
        }
        self.first_wait = self.first_wait.min(if host { turn } else { Nanos::MAX });
    }

    /// Does what is due, then serves a request that was sent at `arrival`; when its service began.
    #[inline(always)]
    fn serve_now(&mut self, request: &Request, arrival: Nanos, data: &mut Buf) -> DiskResult<Nanos> {
        let start = self.device.begin_service(arrival)?;
        self.contents.serve(&mut self.device, request, data)?;
        Ok(start)
    }

    #[inline]
    fn begin_next(&mut self) -> DiskResult {
        let next = match &mut self.waiting {
            None => None,
            Some(waiting) => {
                // A flush is neither overtaken nor does it overtake.
                while !waiting.is_full()
                    && self.arrived.front().is_some_and(|command| command.request.op != Op::Flush)
                    && let Some(command) = self.arrived.pop_front()
                {
                    let sent = self.dispatch.send(command.arrival);
                    waiting.push(command, sent, &self.device);
                }
                waiting.pick(&self.device)
            }
        };
        let Some((command, sent)) = next.or_else(|| self.next_in_order()) else { return Ok(()) };
        let most = if command.request.op == Op::Write { self.device.layer.takes_together() } else { 1 };
        if most > 1 {
            let more = self.waiting_writes(most - 1);
            if !more.is_empty() {
                return self.begin_together((command, sent), more);
            }
        }
        self.begin(command, sent)
    }

    /// Takes out the command that arrived first, which is dispatched now.
    #[inline]
    fn next_in_order(&mut self) -> Option<(Command, Nanos)> {
        let command = self.arrived.pop_front()?;
        let sent = self.dispatch.send(command.arrival);
        Some((command, sent))
    }

    /// Takes out up to `most` writes that have arrived and may be served next, each with the moment of its dispatch.
    fn waiting_writes(&mut self, most: usize) -> Vec<(Command, Nanos)> {
        let now = self.device.now();
        let mut writes = self.waiting.as_mut().map_or_else(Vec::new, |waiting| waiting.take_writes(most, now));
        let is_next = |command: &Command| command.request.op == Op::Write && command.arrival <= now;
        while self.waiting.is_none() && writes.len() < most && self.arrived.front().is_some_and(is_next) {
            writes.extend(self.next_in_order());
        }
        writes
    }

    /// Serves writes that have waited together; they are completed together.
    fn begin_together(&mut self, first: (Command, Nanos), mut more: Vec<(Command, Nanos)>) -> DiskResult {
        more.insert(0, first);
        let (first, last) = (more[0].0.arrival, more.iter().map(|(one, _)| one.arrival).max().unwrap_or_default());
        self.turn(first)?;
        let start = loop {
            match self.serve_together_now(&mut more, last) {
                Ok(start) => break start,
                Err(fault) => outage(&mut self.device, &mut self.contents, fault)?,
            }
        };
        let served = Served { start, end: self.device.now() };
        for (Command { tag, request, arrival, host, data }, sent) in more.into_iter().rev() {
            let turn = arrival.max(first);
            self.note_served(&request, Moments { arrival, sent, turn }, host, &served);
            self.together.push(Completion { tag, start, end: served.end, data });
        }
        self.current = self.together.pop();
        Ok(())
    }

    /// Does what is due, then serves writes the last of which was sent at `last`; when their service began.
    fn serve_together_now(&mut self, commands: &mut [(Command, Nanos)], last: Nanos) -> DiskResult<Nanos> {
        let start = self.device.begin_service(last)?;
        self.contents.serve_together(&mut self.device, commands)?;
        Ok(start)
    }

    /// Dispatches a command to a drive that serves it at once.
    #[inline]
    fn send(&mut self, command: Command) -> DiskResult {
        let sent = self.dispatch.send(command.arrival);
        self.begin(command, sent)
    }

    /// Serves a command that was dispatched at `sent`; its completion waits for its moment.
    #[inline]
    fn begin(&mut self, command: Command, sent: Nanos) -> DiskResult {
        let Command { tag, request, arrival, host, mut data } = command;
        let Served { start, end } = self.serve_sent(&request, arrival, sent, host, &mut data)?;
        self.current = Some(Completion { tag, start, end, data });
        Ok(())
    }

    #[inline]
    pub(super) fn submit(&mut self, command: Command) -> DiskResult {
        if self.current.is_none() && self.waiting.is_none() && self.arrived.is_empty() {
            return self.send(command);
        }
        self.arrived.push_back(command);
        Ok(())
    }

    #[inline]
    pub(super) fn next(&self) -> Nanos {
        self.current.as_ref().map_or(Nanos::MAX, |completion| completion.end)
    }

    #[inline]
    pub(super) fn advance(&mut self) -> Option<Completion> {
        std::mem::replace(&mut self.current, self.together.pop())
    }

    #[inline]
    pub(super) fn has_pending(&self) -> bool {
        self.current.is_none() && self.outstanding() > 0
    }

    #[inline]
    pub(super) fn resume(&mut self) -> DiskResult {
        if self.current.is_none() { self.begin_next() } else { Ok(()) }
    }

    #[inline]
    pub(super) fn first_wait(&self) -> Nanos {
        self.first_wait
    }

    /// Commands that have not been completed.
    #[inline]
    pub fn outstanding(&self) -> usize {
        let completing = usize::from(self.current.is_some()) + self.together.len();
        self.arrived.len() + completing + self.waiting.as_ref().map_or(0, Waiting::len)
    }

    pub(super) fn distance(&self, lba: Lba) -> u64 {
        self.at.0.abs_diff(lba.0)
    }

    pub(super) fn gauges(&self) -> Gauges {
        self.device.layer.gauges()
    }

    pub(super) fn fill(&mut self, stamps: FirstStamps) {
        self.device.fill();
        if let Some(check) = self.contents.check() {
            check.shadow.fill();
            check.contents = Pages::beginning_with(Box::new(move |first, out| {
                (first..).zip(out).for_each(|(lba, stamp)| *stamp = stamps(Lba(lba)));
            }));
        }
    }

    pub(super) fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.device.idle_until(now)?;
        self.device.reset_counts();
        // It may have gone on longer, while the array's counting begins now.
        self.device.disk.record_since(now);
        self.first_wait = Nanos::MAX;
        self.times = CommandTimes::default();
        self.watch();
        if let Some(counts) = &mut self.counts {
            counts.all = no_counts();
            counts.all.begin(now);
        }
        Ok(())
    }

    /// The power was cut and is back: commands under way are gone, and what was in volatile memory only.
    pub(super) fn power_cut(&mut self) {
        self.arrived.clear();
        self.waiting.iter_mut().for_each(Waiting::clear);
        self.dispatch.forget();
        self.current = None;
        self.together.clear();
        self.device.power_cut();
    }

    pub(super) fn finish(&mut self) -> DiskResult {
        match self.contents.check() {
            Some(check) => check.shadow.finish(&mut self.device),
            None => self.device.check(),
        }
    }
}

fn no_counts() -> HostCounts {
    HostCounts::new(TimelineBuilder::default())
}
