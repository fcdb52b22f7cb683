//! The server's work on commands: each is begun when it need not wait for others, and completed when its drives are done.

use std::cmp::Reverse;

use smrkit::medium::Buf;
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};

use super::super::device::Ended;
use super::super::device::Unserved;
use super::super::nbd::{NbdError, NbdKind};
use super::super::pace::PacedClock;
use super::DriveServer;

/// Zeros are written in pieces of this many bytes (assumption).
const ZEROS_BYTES: u64 = 8 << 20;

/// A command on its way.
pub struct Job {
    pub client: u64,
    pub cookie: u64,
    pub kind: NbdKind,
    pub offset: u64,
    pub bytes: u64,
    pub fua: bool,
    pub arrival: Nanos,
    pub data: Vec<u8>,
}

impl Job {
    pub fn request(&self) -> Request {
        let op = match self.kind {
            NbdKind::Read => Op::Read,
            NbdKind::Write | NbdKind::WriteZeroes => Op::Write,
            NbdKind::Trim => Op::Discard,
            NbdKind::Flush | NbdKind::BlockStatus => Op::Flush,
        };
        Request::new(op, Lba(self.offset / SECTOR_BYTES), (self.bytes / SECTOR_BYTES) as u32)
    }

    /// Bytes that it holds until it completes.
    pub fn queued_bytes(&self) -> usize {
        if self.kind == NbdKind::Write { self.bytes as usize } else { 0 }
    }
}

/// A reply that is due.
pub struct DueReply {
    pub job: Job,
    pub is_served: bool,
}

impl DriveServer {
    /// Moment at which the clock has something to do.
    pub(super) fn next_moment(&self) -> Option<Nanos> {
        let now = self.now();
        let due = self.due.peek().map(|Reverse((due, _))| *due);
        // When a drive is free that is at work for itself.
        let free = self.device.drives().into_iter().flat_map(|drive| [drive.now(), drive.disk.free_at()]);
        let free = free.filter(|&free| free > now).min();
        let idle = free.or(self.has_idle_work.then_some(now)).filter(|_| self.device.is_idle());
        let begin = Some(self.device.now()).filter(|&begin| begin > now && !self.queue.is_empty());
        let more = self.has_more().then_some(now);
        [due, self.device.next(), idle, begin, more].into_iter().flatten().min()
    }

    /// The drive's time: the clock's, where it keeps pace.
    pub(super) fn now(&self) -> Nanos {
        self.clock.as_ref().map_or(self.device.now(), PacedClock::now)
    }

    /// Begins what may be begun, and completes what is done.
    pub(super) fn work(&mut self) {
        let now = self.now();
        self.complete_due(now);
        self.watch();
        self.go_on_and_begin(now);
        if self.clock.is_none() {
            self.work_off();
        }
        self.watchdog.end();
        if self.clock.is_some() && self.queue.is_empty() && self.device.is_idle() && self.device.now() <= now {
            self.has_idle_work = self.device.step_before(now);
            self.note_loss();
        }
    }

    /// Serves all commands, since nobody waits for the wall clock: on to the next completion, and to all that comes of it at its moment.
    fn work_off(&mut self) {
        while !(self.queue.is_empty() && self.device.is_idle()) {
            self.go_on(None);
            while self.begin_next(self.device.now()) {}
        }
    }

    /// Watches how long one of the commands takes that are under way.
    fn watch(&self) {
        match self.jobs.first() {
            Some((_, job)) => self.watchdog.begin(&job.request()),
            None => self.watchdog.end(),
        }
    }

    /// Lets time go on to `now`, and begins what may be begun then.
    fn go_on_and_begin(&mut self, now: Nanos) {
        loop {
            self.go_on(Some(now));
            if !self.begin_next(now) {
                break;
            }
            while self.begin_next(now) {}
        }
    }

    /// Lets time go on to `limit`, or with none until a command completes.
    fn go_on(&mut self, limit: Option<Nanos>) {
        self.device.go_on(limit);
        self.note_loss();
        while let Some(ended) = self.device.take_ended() {
            self.finish(ended);
        }
    }

    /// Begins the command that came first, if it need not wait.
    fn begin_next(&mut self, now: Nanos) -> bool {
        let Some(job) = self.queue.front() else { return false };
        let request = job.request();
        // With nobody to wait for, it need not be under way.
        let is_only = self.clock.is_none() && self.queue.len() == 1 && self.device.is_idle();
        let is_alone = is_only || job.kind == NbdKind::WriteZeroes || self.device.goes_alone(request.op, job.fua);
        let must_wait = if is_alone { !self.device.is_idle() } else { self.device.must_wait(&request) };
        if must_wait || self.device.now() > now {
            return false;
        }
        let Some(mut job) = self.queue.pop_front() else { return false };
        let tag = self.next_tag;
        self.next_tag += 1;
        self.has_idle_work = true;
        self.watchdog.begin(&request);
        if job.kind == NbdKind::Read {
            job.data = self.pool.pop().unwrap_or_default();
        }
        if is_alone {
            self.serve_alone(tag, job, &request);
        } else {
            let data = std::mem::take(&mut job.data);
            self.jobs.push((tag, job));
            self.device.send(tag, &request, now, data);
        }
        true
    }

    /// Serves a command before the next; the reply waits until it is due.
    fn serve_alone(&mut self, tag: u64, mut job: Job, request: &Request) {
        let flush = Request::new(Op::Flush, Lba(0), 0);
        let mut served = match job.kind {
            NbdKind::WriteZeroes => self.serve_zeros(request, job.arrival),
            _ => self.serve_with(request, job.arrival, &mut job.data),
        };
        if job.fua && served.is_ok() {
            served = self.serve_with(&flush, job.arrival, &mut Vec::new());
        }
        self.note_loss();
        if (job.fua || job.kind == NbdKind::Flush) && self.owed_errors.remove(&job.client) {
            served = served.and(Err(Unserved::Failed));
        }
        self.queued_bytes -= job.queued_bytes();
        if served == Err(Unserved::Silence) {
            return;
        }
        let reply = DueReply { job, is_served: served.is_ok() };
        if self.clock.is_none() {
            return self.complete(reply);
        }
        // What the write cache takes in completes as it comes.
        let due = self.device.now().max(reply.job.arrival);
        self.latencies += due.since(reply.job.arrival);
        self.due.push(Reverse((due, tag)));
        self.replies.insert(tag, reply);
    }

    fn serve_with(&mut self, request: &Request, arrival: Nanos, data: &mut Vec<u8>) -> Result<(), Unserved> {
        let mut buf = Buf::Bytes(std::mem::take(data));
        let served = self.device.serve(request, arrival, &mut buf);
        if let Buf::Bytes(bytes) = buf {
            *data = bytes;
        }
        served.map(drop)
    }

    /// Writes zeros, in pieces.
    fn serve_zeros(&mut self, &Request { lba, sectors, .. }: &Request, arrival: Nanos) -> Result<(), Unserved> {
        let most = (ZEROS_BYTES / SECTOR_BYTES) as u32;
        for first in (0..sectors).step_by(most as usize) {
            let request = Request::new(Op::Write, lba + u64::from(first), most.min(sectors - first));
            let mut zeros = vec![0; (u64::from(request.sectors) * SECTOR_BYTES) as usize];
            self.serve_with(&request, arrival, &mut zeros)?;
        }
        Ok(())
    }

    /// A command that was sent came to its end.
    fn finish(&mut self, Ended { tag, served, bytes }: Ended) {
        let Some(at) = self.jobs.iter().position(|(other, _)| *other == tag) else { return };
        let (_, mut job) = self.jobs.swap_remove(at);
        self.watch();
        self.queued_bytes -= job.queued_bytes();
        job.data = bytes;
        match served {
            // It never completes.
            Err(Unserved::Silence) => {}
            Err(Unserved::Failed) => self.complete(DueReply { job, is_served: false }),
            Ok(served) => {
                self.latencies += served.end.since(job.arrival);
                self.complete_at(served.end, DueReply { job, is_served: true });
            }
        }
    }

    /// After a loss every client that is there is owed an error.
    fn note_loss(&mut self) {
        if self.device.take_loss() {
            self.owed_errors.extend(self.clients.keys());
        }
    }

    /// Completes what is due.
    fn complete_due(&mut self, now: Nanos) {
        while let Some(&Reverse((due, tag))) = self.due.peek()
            && due <= now
        {
            self.due.pop();
            if let Some(reply) = self.replies.remove(&tag) {
                self.complete_at(due, reply);
            }
        }
    }

    /// Completes a command that was due at `due`.
    fn complete_at(&mut self, due: Nanos, reply: DueReply) {
        if let Some(clock) = &self.clock {
            let op = if reply.job.kind == NbdKind::Read { Op::Read } else { Op::Write };
            self.report.lateness.record(op, clock.late(due).as_nanos() as u64);
        }
        self.complete(reply);
    }

    /// Completes a command, and replies if its client is still there.
    fn complete(&mut self, reply: DueReply) {
        let DueReply { job: Job { client, cookie, kind, offset, bytes, data, .. }, is_served } = reply;
        self.report.completed += 1;
        let Some(connection) = self.clients.get_mut(&client) else { return };
        if kind == NbdKind::Read {
            connection.reading_bytes -= bytes as usize;
        }
        match kind {
            _ if !is_served => connection.failed(cookie, NbdError::Io),
            NbdKind::Read => return connection.data(cookie, offset, data, bytes as usize, &mut self.pool),
            _ => connection.done(cookie),
        }
        self.pool.push(data);
    }
}
