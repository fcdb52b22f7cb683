//! A drive with its queue: a system of its own, or a member of an array.
//!
//! A command is served when its turn comes: cleaning fills the idle time before it, due cleaning is done first, and then its own service
//! begins. Its completion is then computed at once, and reported when its time comes. In check mode every read is verified against the
//! drive's own stamps.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::check::DriveCheck;
use super::queue::{Dispatch, Dispatched, NCQ_COMMANDS, Queueing, Waiting};
use super::write_cache::{DestageFor, WriteCache};
use super::{Command, Completion, FirstStamps, LayeredDisk};
use crate::disk::Recorder;
use crate::error::{DiskResult, Fault};
use crate::layer::{Gauge, Gauges, Need, QueuedWrite};
use crate::medium::Buf;
use crate::pages::Pages;
use crate::request::{Op, Request};
use crate::state::{self, State};
use crate::stats::counts::{HostCounts, Times};
use crate::stats::outcome::{CommandTimes, PowerCut};
use crate::stats::rebuild::{BusyTimes, MemberRebuild};
use crate::stats::timeline::{Reading, TimelineBuilder};
use crate::tally::CauseTimes;
use crate::units::{Lba, Nanos};

/// Counts of a member of an array. Those of a drive of its own are the host's.
struct MemberCounts {
    all: HostCounts,
    /// The times of the drive at the last [`MemberDrive::watch`], and the commands that it has begun since.
    before: CauseTimes,
    commands: u64,
    times: CommandTimes,
}

/// A drive with its queue and its write cache.
pub struct MemberDrive {
    pub(super) device: LayeredDisk,
    /// Commands in order of arrival that have not been dispatched to the drive; all, if the drive does not order them.
    arrived: VecDeque<Command>,
    /// Dispatched commands that need the platters, if the drive orders commands or has a write cache.
    waiting: Option<Waiting>,
    dispatch: Dispatch,
    /// From dispatch to completion, since counting began.
    times: CommandTimes,
    /// Completions to come, in the order of their times.
    completions: VecDeque<Completion>,
    /// In check mode: the contents to verify against.
    check: Option<Box<DriveCheck>>,
    counts: Option<MemberCounts>,
    /// End of the last command.
    at: Lba,
    first_wait: Nanos,
    /// Only a drive with a write cache uses the fields below it.
    write_cache: Option<Box<WriteCache>>,
    /// Commands that the drive takes at once.
    depth: usize,
    /// Writes that wait for room in the cache.
    blocked: VecDeque<Dispatched>,
    /// The moment up to which commands have come and events have been processed. The platters may be busy beyond it.
    processed_until: Nanos,
    /// The end of the flush under way: no command is dispatched before it.
    flush_end: Nanos,
    /// True if a batch went before commands that need the platters: the next turn is a command's.
    owes_turn: bool,
}

/// A write that has waited for room this long goes before commands that need the platters (assumption).
const WAIT_MAX: Nanos = Nanos(1_500_000_000);

/// Saved while nothing is in flight. Of the commands served, only the last address and the elevator's heading affect later ones.
impl State for MemberDrive {
    fn save(&self, out: &mut Vec<u8>) {
        self.device.save(out);
        self.write_cache.iter().for_each(|cache| cache.save(out));
        state::write(&(self.at, self.waiting.as_ref().map(|waiting| waiting.heading)), out);
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        self.device.load(from)?;
        if let Some(cache) = &mut self.write_cache {
            cache.load(from)?;
            // The indices of the runs are not saved.
            cache.index_runs();
        }
        let heading: Option<(u64, bool)>;
        (self.at, heading) = state::read(from)?;
        if let (Some(waiting), Some(heading)) = (&mut self.waiting, heading) {
            waiting.heading = heading;
        }
        Ok(())
    }
}

impl MemberDrive {
    /// A single drive. It is verified if its platters hold stamps.
    pub fn new(device: LayeredDisk, queueing: Queueing) -> MemberDrive {
        let room = device.disk.clock().write_cache_sectors();
        let write_cache = (room > 0).then(|| Box::new(WriteCache::new(room, device.layer.takes_together())));
        let check = device.disk.holds_data().then(Box::default);
        let mut drive = MemberDrive {
            device,
            arrived: VecDeque::new(),
            waiting: None,
            dispatch: Dispatch::new(NCQ_COMMANDS),
            times: CommandTimes::default(),
            completions: VecDeque::new(),
            check,
            counts: None,
            at: Lba(0),
            first_wait: Nanos::MAX,
            write_cache,
            depth: 0,
            blocked: VecDeque::new(),
            processed_until: Nanos::ZERO,
            flush_end: Nanos::ZERO,
            owes_turn: false,
        };
        drive.order_commands(queueing);
        drive
    }

    /// A member of an array: its commands are counted.
    pub fn in_array(device: LayeredDisk, queueing: Queueing) -> MemberDrive {
        let (before, times) = (CauseTimes::default(), CommandTimes::default());
        let counts = MemberCounts { all: no_counts(), before, commands: 0, times };
        MemberDrive { counts: Some(counts), ..MemberDrive::new(device, queueing) }
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
        // The device hands a recorder to the disk when counting begins, so ending it concerns both.
        if recorder.is_none() {
            self.device.disk.record(None);
        }
        self.device.record(recorder);
    }

    /// Takes the counts of a member's commands, and ends counting.
    pub fn take_counts(&mut self) -> HostCounts {
        self.counts.as_mut().map_or_else(no_counts, |counts| std::mem::replace(&mut counts.all, no_counts()))
    }

    /// Starts the counts of [`MemberDrive::watched`].
    pub fn watch(&mut self) {
        if let Some(counts) = &mut self.counts {
            counts.before = self.device.disk.tally().times();
            (counts.commands, counts.times) = (0, CommandTimes::default());
        }
    }

    /// Work since [`MemberDrive::watch`].
    pub fn watched(&self) -> MemberRebuild {
        let Some(MemberCounts { before, commands, times, .. }) = &self.counts else { return MemberRebuild::default() };
        MemberRebuild {
            // The rebuild sets it for members that it has replaced.
            new: false,
            commands: *commands,
            longest_command_ns: times.longest_command_ns,
            commands_over_7s: times.commands_over_7s,
            commands_over_30s: times.commands_over_30s,
            busy_ns: BusyTimes::between(*before, self.device.disk.tally().times()),
        }
    }

    /// Times of its commands since counting began, as a timeout sees them.
    pub fn command_times(&self) -> CommandTimes {
        self.times
    }

    /// The power cuts so far; each tells how many requests had been served since the drive was built.
    pub fn take_power_cuts(&mut self) -> Vec<PowerCut> {
        self.check.as_mut().map_or_else(Vec::new, |check| std::mem::take(&mut check.power_cuts))
    }

    /// Sets the order in which queued commands are served. The queue is empty.
    pub(super) fn order_commands(&mut self, queueing: Queueing) {
        let depth = queueing.dispatched().unwrap_or(NCQ_COMMANDS);
        self.dispatch = Dispatch::new(depth);
        self.depth = depth as usize;
        // With a write cache even a drive that keeps the order has a queue, because commands that need no platters pass those that do.
        self.waiting = match self.write_cache {
            None => queueing.waiting(),
            Some(_) => Some(queueing.waiting_of(depth)),
        };
    }

    /// True if it serves commands in the order of arrival.
    pub fn keeps_order(&self) -> bool {
        self.waiting.is_none()
    }

    /// True if requests complete one by one in the order of arrival, whatever arrives meanwhile.
    pub fn completes_in_order(&self) -> bool {
        self.keeps_order() && self.device.layer.takes_together() == 1
    }

    /// True if a power cut may lose completed writes that are in the cache above the layer. A cache that writes in the order of arrival is the
    /// clock's, and does not count ([`DriveClock::completes_early`](crate::drive::DriveClock::completes_early)).
    pub fn has_write_cache(&self) -> bool {
        self.write_cache.is_some()
    }

    /// Empties the drive's caches and cleans as long as that helps; returns when it was done.
    pub fn settle(&mut self) -> DiskResult<Nanos> {
        self.destage_all(DestageFor::Room)?;
        let LayeredDisk { disk, layer, .. } = &mut self.device;
        layer.flush(disk)?;
        // Only a layer with a delay cleans by itself while nothing waits.
        let idles = layer.idle_delay().is_some();
        while self.device.step(Need::Must)? || (idles && self.device.step(Need::Spare)?) {}
        self.device.disk.flush()?;
        Ok(self.device.now())
    }

    /// Does one piece of background work, a step of cleaning or a batch of the write cache, if it can begin before `time`. Returns `false`
    /// if there was none.
    #[inline]
    pub fn step_before(&mut self, time: Nanos) -> DiskResult<bool> {
        let Some(cache) = &self.write_cache else { return self.device.step_before(time) };
        if self.device.now() >= time {
            return Ok(false);
        }
        let due = cache.due(self.device.now()).filter(|&due| due < time);
        let Some(due) = due else { return self.device.step_before(time) };
        // Cleaning that can begin before the batch is due goes first.
        if !self.device.step_before(due)? {
            self.destage(due, DestageFor::Room)?;
        }
        Ok(true)
    }

    /// Lets time pass without a command. Background work that has begun is completed.
    #[inline]
    pub fn idle_until(&mut self, time: Nanos) -> DiskResult {
        while self.step_before(time)? {}
        self.device.disk.wait_until(time);
        Ok(())
    }

    /// Keeps the drive at work for `span` from `now` on, or longer if it is at work already.
    pub fn keep_busy(&mut self, now: Nanos, span: Nanos) -> DiskResult {
        // An idle drive has first done the background work of the time until now.
        if self.outstanding() == 0 {
            self.idle_until(now)?;
        }
        self.device.disk.wait_until(self.device.now().max(now) + span);
        Ok(())
    }

    /// Destages the next batch of the write cache, at `time` or once the platters are free.
    fn destage(&mut self, time: Nanos, purpose: DestageFor) -> DiskResult {
        let Some(cache) = &mut self.write_cache else { return Ok(()) };
        self.device.disk.wait_until(time);
        // Cleaning is due before a batch as before any other request.
        self.device.step(Need::Must)?;
        let start = self.device.now();
        let batch = cache.take_batch(&self.device, purpose);
        if batch.is_empty() {
            return Ok(());
        }
        let runs = batch.iter();
        let writes: SmallVec<[QueuedWrite; 8]> =
            runs.map(|run| QueuedWrite { lba: run.lba, sectors: run.sectors, data: &run.data }).collect();
        self.device.write_back(&writes, batch[0].source)?;
        if let Some(check) = &mut self.check {
            // A batch may damage a neighbour as a command may, but it ends no request, after which the check would look.
            check.shadow.look_for_damage(&mut self.device)?;
        }
        cache.note_batch(start, self.device.now(), &batch);
        Ok(())
    }

    /// Destages the whole write cache.
    fn destage_all(&mut self, purpose: DestageFor) -> DiskResult {
        while self.write_cache.as_ref().is_some_and(|cache| !cache.is_empty()) {
            self.destage(self.device.now(), purpose)?;
        }
        Ok(())
    }

    /// Repeats `work` until it succeeds. Each power cut on the way is noted, and loses what is volatile.
    #[inline]
    fn through_outages<T>(&mut self, mut work: impl FnMut(&mut MemberDrive) -> DiskResult<T>) -> DiskResult<T> {
        loop {
            match work(self) {
                Err(fault) => self.outage(fault)?,
                done => return done,
            }
        }
    }

    #[cold]
    fn outage(&mut self, fault: Box<Fault>) -> DiskResult {
        let Fault::PowerCut { write } = *fault else { return Err(fault) };
        self.device.power_cut();
        // Without what it kept in memory the layer must still be consistent.
        self.device.check()?;
        if let Some(check) = &mut self.check {
            check.power_cut(&mut self.device, write)?;
        }
        self.write_cache.iter_mut().for_each(|cache| cache.clear());
        Ok(())
    }

    /// Serves a request while the queue is empty; returns at once when it will complete. In check mode `data` holds the stamps of the array
    /// that the drive belongs to.
    #[inline(always)]
    pub fn serve(&mut self, request: &Request, arrival: Nanos, host: bool, data: &mut Buf) -> DiskResult<Times> {
        if self.write_cache.is_some() {
            return self.serve_behind_cache(request, arrival, host, data);
        }
        let sent = self.dispatch.send(arrival);
        self.serve_on_platters(request, arrival, sent, host, data)
    }

    /// [`MemberDrive::serve`] on a drive with a write cache.
    fn serve_behind_cache(
        &mut self,
        request: &Request,
        arrival: Nanos,
        host: bool,
        data: &mut Buf,
    ) -> DiskResult<Times> {
        self.through_outages(|drive| drive.idle_until(arrival))?;
        self.processed_until = self.processed_until.max(arrival);
        let mut from = arrival;
        loop {
            if let Some(from) = self.buffered_from(request, from) {
                return self.serve_from_cache(request, (arrival, arrival), from, host, data);
            }
            if !self.is_cached_write(request) {
                return self.serve_on_platters(request, arrival, arrival, host, data);
            }
            self.through_outages(|drive| drive.destage(arrival, DestageFor::Room))?;
            // A batch makes room only while it is written, so the write can't begin before the batch does.
            from = self.write_cache.as_ref().map_or(from, |cache| from.max(cache.batch_start()));
        }
    }

    /// True if the write cache takes a request, once it has room.
    #[inline]
    fn is_cached_write(&self, request: &Request) -> bool {
        let cache = self.write_cache.as_ref();
        request.op == Op::Write && cache.is_some_and(|cache| cache.takes(u64::from(request.sectors)))
    }

    /// The first time from `now` on at which the write cache can begin to serve a request: it has room for a write, or holds all of a read.
    /// `None` if only the platters can serve it or make room.
    #[inline]
    fn buffered_from(&self, request: &Request, now: Nanos) -> Option<Nanos> {
        let (cache, n) = (self.write_cache.as_ref()?, u64::from(request.sectors));
        match request.op {
            Op::Write => cache.room_at(now, request.lba, n),
            Op::Read => cache.holds(request.lba, n).then_some(now),
            Op::Flush | Op::Discard => None,
        }
    }

    /// Serves a request, with the moments of its arrival and dispatch, from the write cache, which can begin at `from`.
    #[inline]
    fn serve_from_cache(
        &mut self,
        request: &Request,
        (arrival, sent): (Nanos, Nanos),
        from: Nanos,
        host: bool,
        data: &mut Buf,
    ) -> DiskResult<Times> {
        let Some(cache) = &mut self.write_cache else { unreachable!("there is one") };
        let (write, sectors) = (request.op == Op::Write, u64::from(request.sectors));
        let start = from.max(cache.bus_free_at);
        let end = self.device.disk.transfer(start, sent, write, sectors);
        match &mut self.check {
            Some(check) => check.serve_from_cache(&mut self.device, cache, request, data, end)?,
            None if write => cache.put(&self.device, request, &Buf::NoData, end),
            None => {}
        }
        self.device.note_request(end);
        cache.bus_free_at = end;
        cache.note_command(end);
        let times = Times { arrival, start, end };
        // If the cache had no room when it arrived, it waited for the platters, as if its turn on them came when it was dispatched.
        let turn = (from > arrival).then_some(sent);
        self.note_served(request, sent, turn, host, &times);
        Ok(times)
    }

    /// Serves a request that was dispatched at `sent` on the platters.
    #[inline(always)]
    fn serve_on_platters(
        &mut self,
        request: &Request,
        arrival: Nanos,
        sent: Nanos,
        host: bool,
        data: &mut Buf,
    ) -> DiskResult<Times> {
        let turn = self.wait_for_turn(sent)?;
        let start = self.through_outages(|drive| drive.begin_and_serve(request, arrival, data))?;
        let times = Times { arrival, start, end: self.device.now() };
        if let Some(cache) = &mut self.write_cache {
            cache.note_command(times.end);
        }
        self.note_served(request, sent, Some(turn), host, &times);
        Ok(times)
    }

    /// Lets time pass until a command that is sent at `sent` has its turn; returns that time.
    #[inline(always)]
    fn wait_for_turn(&mut self, sent: Nanos) -> DiskResult<Nanos> {
        // Background work may last beyond it: the command then waits for that from its turn on.
        let turn = self.device.now().max(sent);
        if sent > self.device.now() {
            self.through_outages(|drive| drive.idle_until(sent))?;
        }
        Ok(turn)
    }

    /// Updates the counts after a request was served that was dispatched at `sent`. Its turn on the platters came at `turn`; `None` if it
    /// neither used them nor had to wait for them.
    #[inline(always)]
    fn note_served(&mut self, request: &Request, sent: Nanos, turn: Option<Nanos>, host: bool, times: &Times) {
        self.at = request.end();
        self.dispatch.completed(times.end);
        self.times.count(times.end - sent);
        // Cleaning that ended after the command had arrived delayed it.
        if let Some(turn) = turn
            && self.device.cleaning_end() > times.arrival
        {
            self.note_waiting(turn, host);
        }
        if let Some(counts) = &mut self.counts {
            let (device, cache) = (&self.device, &self.write_cache);
            counts.commands += 1;
            counts.times.count(times.end - sent);
            counts.all.count(request, times, || reading(device, cache));
        }
    }

    /// Notes that a command had to wait for cleaning from its turn on.
    fn note_waiting(&mut self, turn: Nanos, host: bool) {
        if let Some(counts) = &mut self.counts {
            counts.all.waits_for_cleaning(turn);
        }
        if host {
            self.first_wait = self.first_wait.min(turn);
        }
    }

    /// Runs due cleaning, then serves a request that was sent at `arrival`; returns when its service began.
    #[inline(always)]
    fn begin_and_serve(&mut self, request: &Request, arrival: Nanos, data: &mut Buf) -> DiskResult<Nanos> {
        let start = self.device.begin_service(arrival)?;
        if self.write_cache.is_some() {
            self.prepare_cache(request)?;
        }
        match &mut self.check {
            None => self.device.serve(request, &mut Buf::NoData)?,
            Some(check) => check.serve(&mut self.device, self.write_cache.as_deref(), request, data)?,
        }
        Ok(start)
    }

    /// Prepares the write cache for a request that the platters serve. A read that the cache holds in part reads all of its sectors: that is
    /// one access, while each gap would cost a rotation.
    fn prepare_cache(&mut self, request: &Request) -> DiskResult {
        match request.op {
            Op::Read => Ok(()),
            Op::Flush => {
                self.device.layer.set_flushing(true);
                let flushed = self.destage_all(DestageFor::Flush);
                self.device.layer.set_flushing(false);
                flushed
            }
            // It replaces what the cache holds of the same sectors.
            Op::Write | Op::Discard => {
                let sectors = u64::from(request.sectors);
                self.write_cache.iter_mut().for_each(|cache| cache.remove(&self.device, request.lba, sectors));
                Ok(())
            }
        }
    }

    /// Begins the command that the queue picks or, without a queue, the oldest one. A write takes along others that the layer can serve
    /// with it.
    #[inline]
    fn begin_next(&mut self) -> DiskResult {
        let next = match &mut self.waiting {
            None => None,
            Some(waiting) => {
                // A flush keeps its place: it overtakes no command, and none overtakes it.
                while !waiting.is_full()
                    && self.arrived.front().is_some_and(|command| command.request.op != Op::Flush)
                    && let Some(command) = self.arrived.pop_front()
                {
                    let sent = self.dispatch.send(command.arrival);
                    waiting.push(Dispatched { command, sent }, &self.device);
                }
                waiting.pick(&self.device)
            }
        };
        let Some(next) = next.or_else(|| self.next_in_order()) else { return Ok(()) };
        let writes_max = if next.command.request.op == Op::Write { self.device.layer.takes_together() } else { 1 };
        if writes_max > 1 {
            let more = self.waiting_writes(writes_max - 1);
            if !more.is_empty() {
                return self.begin_together(next, more);
            }
        }
        self.begin(next, None)
    }

    /// Takes out the command that arrived first, and dispatches it now.
    #[inline]
    fn next_in_order(&mut self) -> Option<Dispatched> {
        let command = self.arrived.pop_front()?;
        let sent = self.dispatch.send(command.arrival);
        Some(Dispatched { command, sent })
    }

    /// Takes out up to `limit` writes that have arrived and may be served next.
    fn waiting_writes(&mut self, limit: usize) -> Vec<Dispatched> {
        let now = self.device.now();
        if let Some(waiting) = &mut self.waiting {
            return waiting.take_writes(limit, now);
        }
        let mut writes = Vec::new();
        let is_next = |command: &Command| command.request.op == Op::Write && command.arrival <= now;
        while writes.len() < limit && self.arrived.front().is_some_and(is_next) {
            writes.extend(self.next_in_order());
        }
        writes
    }

    /// Serves queued writes together; they complete together.
    fn begin_together(&mut self, first: Dispatched, mut writes: Vec<Dispatched>) -> DiskResult {
        writes.insert(0, first);
        let last_arrival = writes.iter().map(|write| write.command.arrival).max().unwrap_or_default();
        let free = self.wait_for_turn(writes[0].sent)?;
        let start = self.through_outages(|drive| {
            let start = drive.device.begin_service(last_arrival)?;
            match &mut drive.check {
                Some(check) => check.serve_together(&mut drive.device, &writes)?,
                None => {
                    let requests: Vec<_> =
                        writes.iter().map(|write| (&write.command.request, &write.command.data)).collect();
                    drive.device.serve_together(&requests)?;
                }
            }
            Ok(start)
        })?;
        let end = self.device.now();
        for Dispatched { command: Command { tag, request, arrival, host, data }, sent } in writes {
            let times = Times { arrival, start, end };
            self.note_served(&request, sent, Some(arrival.max(free)), host, &times);
            self.completions.push_back(Completion { tag, start, end, data });
        }
        Ok(())
    }

    /// Serves a command, and queues its completion. The write cache serves it from `cached_from` on, if that
    /// is given; else the platters do.
    #[inline]
    fn begin(&mut self, Dispatched { command, sent }: Dispatched, cached_from: Option<Nanos>) -> DiskResult {
        let Command { tag, request, arrival, host, mut data } = command;
        let Times { start, end, .. } = match cached_from {
            None => self.serve_on_platters(&request, arrival, sent, host, &mut data)?,
            Some(from) => self.serve_from_cache(&request, (arrival, sent), from, host, &mut data)?,
        };
        // A command that the cache serves may end before others that began earlier. At equal times those stay first.
        let before = self.completions.iter().rposition(|other| other.end <= end);
        self.completions.insert(before.map_or(0, |at| at + 1), Completion { tag, start, end, data });
        Ok(())
    }

    /// Takes a command that arrives now or later, never before an event that has been processed.
    #[inline]
    pub(super) fn submit(&mut self, command: Command) -> DiskResult {
        if self.write_cache.is_some() {
            // While no command needs the platters, the drive writes back until this one arrives.
            if !self.needs_platters() {
                self.through_outages(|drive| drive.idle_until(command.arrival))?;
            }
            self.processed_until = self.processed_until.max(command.arrival);
        } else if self.completions.is_empty() && self.waiting.is_none() && self.arrived.is_empty() {
            // In order of arrival and with nothing under way, it is its turn.
            let sent = self.dispatch.send(command.arrival);
            return self.begin(Dispatched { command, sent }, None);
        }
        self.arrived.push_back(command);
        Ok(())
    }

    /// True if a command waits until the platters are free.
    #[inline]
    fn needs_platters(&self) -> bool {
        !self.blocked.is_empty() || self.waiting.as_ref().is_some_and(|waiting| waiting.len() > 0)
    }

    /// True if a command of a drive with a write cache can go to the platters.
    #[inline]
    fn may_begin_on_platters(&self) -> bool {
        self.device.now() <= self.processed_until && self.needs_platters()
    }

    /// The time of the next event; [`Nanos::MAX`] if nothing is under way.
    #[inline]
    pub(super) fn next(&self) -> Nanos {
        let completion = self.completions.front().map_or(Nanos::MAX, |completion| completion.end);
        let free_at = self.device.now();
        // Which command goes to the platters next is decided once they are free.
        if self.write_cache.is_some() && free_at > self.processed_until && self.needs_platters() {
            completion.min(free_at)
        } else {
            completion
        }
    }

    /// Processes the next event; returns the completion, if it was one.
    #[inline]
    pub(super) fn advance(&mut self) -> Option<Completion> {
        let next = self.next();
        if self.write_cache.is_some() {
            self.processed_until = self.processed_until.max(next);
        }
        if self.completions.front()?.end <= next { self.completions.pop_front() } else { None }
    }

    /// True if [`MemberDrive::resume`] has anything to begin.
    #[inline]
    pub(super) fn has_pending(&self) -> bool {
        if self.write_cache.is_none() {
            return self.completions.is_empty() && self.outstanding() > 0;
        }
        self.may_dispatch() || self.may_begin_on_platters()
    }

    #[inline]
    pub(super) fn resume(&mut self) -> DiskResult {
        match self.write_cache {
            None if self.completions.is_empty() => self.begin_next(),
            None => Ok(()),
            Some(_) => self.resume_behind_cache(),
        }
    }

    /// True if a drive with a write cache may take the next command that has arrived.
    fn may_dispatch(&self) -> bool {
        let under_way = self.outstanding() - self.arrived.len();
        let Some(next) = self.arrived.front() else { return false };
        // A flush keeps its place: it overtakes no command, and none overtakes it.
        let depth = if next.request.op == Op::Flush { 1 } else { self.depth };
        self.processed_until >= self.flush_end && under_way < depth
    }

    /// Dispatches commands to a drive with a write cache, and begins the next work on the platters if they are free.
    fn resume_behind_cache(&mut self) -> DiskResult {
        let now = self.processed_until;
        loop {
            if self.may_dispatch()
                && let Some(command) = self.arrived.pop_front()
            {
                self.receive(Dispatched { command, sent: now })?;
            } else if self.may_begin_on_platters() {
                self.begin_on_platters(now)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Takes a command that is dispatched now to a drive with a write cache.
    fn receive(&mut self, dispatched: Dispatched) -> DiskResult {
        let (request, now) = (dispatched.command.request, dispatched.sent);
        // A write waits behind those that are blocked. If it passed them, an older one to the same sectors would overwrite it later. A read
        // changes nothing and may pass.
        let in_turn = request.op == Op::Read || self.blocked.is_empty();
        if in_turn && let Some(from) = self.buffered_from(&request, now) {
            return self.begin(dispatched, Some(from));
        }
        if self.is_cached_write(&request) {
            self.blocked.push_back(dispatched);
        } else if request.op == Op::Flush {
            self.begin(dispatched, None)?;
            // Nothing else was in flight, so the last completion is that of the flush.
            self.flush_end = self.completions.back().map_or(now, |completion| completion.end);
        } else {
            let waiting = self.waiting.as_mut().expect("a drive with a write cache has a queue");
            waiting.push(dispatched, &self.device);
        }
        Ok(())
    }

    /// Begins the next work on the platters, which are free now: commands go before the write cache, unless something in it is too old, or
    /// a write has waited too long for room.
    fn begin_on_platters(&mut self, now: Nanos) -> DiskResult {
        let (Some(cache), Some(waiting)) = (&self.write_cache, &mut self.waiting) else { return Ok(()) };
        let is_overdue =
            cache.is_overdue(now) || self.blocked.front().is_some_and(|write| write.sent + WAIT_MAX <= now);
        // If each batch makes the layer clean, everything in the cache stays overdue. Commands then take turns with batches, or none would
        // ever be served.
        let has_commands = waiting.len() > 0;
        let batch_is_first = is_overdue && !(has_commands && self.owes_turn);
        self.owes_turn = batch_is_first && has_commands;
        if !batch_is_first && let Some(next) = waiting.pick(&self.device) {
            return self.begin(next, None);
        }
        self.through_outages(|drive| drive.destage(now, DestageFor::Room))?;
        while let Some(write) = self.blocked.front()
            && let Some(from) = self.buffered_from(&write.command.request, now)
            && let Some(write) = self.blocked.pop_front()
        {
            self.begin(write, Some(from))?;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn first_wait(&self) -> Nanos {
        self.first_wait
    }

    /// Commands that have not been completed.
    #[inline]
    pub fn outstanding(&self) -> usize {
        let waiting = self.waiting.as_ref().map_or(0, Waiting::len);
        self.arrived.len() + self.completions.len() + waiting + self.blocked.len()
    }

    /// How far its head is from a sector, as far as addresses tell.
    pub(super) fn distance(&self, lba: Lba) -> u64 {
        self.at.0.abs_diff(lba.0)
    }

    /// Gauges of the layer and of the write cache.
    pub fn gauges(&self) -> Gauges {
        gauges(&self.device, &self.write_cache)
    }

    /// The gauges, and what was written to the platters.
    pub fn reading(&self) -> Reading {
        reading(&self.device, &self.write_cache)
    }

    /// Fills it as if each sector had been written once, in order; in check mode with these stamps.
    pub fn fill(&mut self, stamps: FirstStamps) {
        self.device.fill();
        if let Some(check) = &mut self.check {
            // The shadow expects stamps of this drive, `contents` holds those of the array.
            check.shadow.fill();
            check.contents = Pages::beginning_with(Box::new(move |first, out| {
                (first..).zip(out).for_each(|(lba, stamp)| *stamp = stamps(Lba(lba)));
            }));
        }
    }

    /// Starts counting anew at `now`, until when the drive idles.
    pub fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.idle_until(now)?;
        self.device.reset_counts();
        // Background work may have lasted beyond `now`, but the array counts from `now`.
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

    /// Cuts the power and restores it: commands in flight are gone, and so is volatile memory.
    pub(super) fn power_cut(&mut self) {
        self.arrived.clear();
        self.waiting.iter_mut().for_each(Waiting::clear);
        self.dispatch.forget();
        self.completions.clear();
        self.write_cache.iter_mut().for_each(|cache| cache.clear());
        self.blocked.clear();
        (self.processed_until, self.flush_end, self.owes_turn) = (Nanos::ZERO, Nanos::ZERO, false);
        self.device.power_cut();
    }

    pub(super) fn finish(&mut self) -> DiskResult {
        self.destage_all(DestageFor::Room)?;
        match &mut self.check {
            Some(check) => check.shadow.finish(&mut self.device),
            None => self.device.check(),
        }
    }
}

fn gauges(device: &LayeredDisk, cache: &Option<Box<WriteCache>>) -> Gauges {
    let mut gauges = device.layer.gauges();
    if let Some(cache) = cache {
        gauges.others.push(Gauge::count("write_cache_sectors", cache.sectors as f64));
    }
    gauges
}

fn reading(device: &LayeredDisk, cache: &Option<Box<WriteCache>>) -> Reading {
    Reading { gauges: gauges(device, cache), written_sectors: device.disk.tally().written_sectors() }
}

fn no_counts() -> HostCounts {
    HostCounts::new(TimelineBuilder::default())
}
