//! The server's work on commands: each is begun when it need not wait for others, and completed when its drives are done.

use smrkit::medium::Buf;
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};

use super::super::device::Ended;
use super::super::device::Unserved;
use super::super::nbd::NbdKind;
use super::super::pace::PacedClock;
use super::DriveServer;
use super::commands::{DueReply, Job};

/// Zeros are written in pieces of this many bytes (assumption).
const ZEROS_BYTES: u64 = 8 << 20;
/// Bytes of commands that are under way together at least before others wait (assumption).
const UNDER_WAY_BYTES: u64 = 8 << 20;

impl DriveServer {
    /// Moment at which the clock has something to do.
    pub(super) fn next_moment(&self) -> Option<Nanos> {
        let now = self.now();
        // When a drive is free that is at work for itself.
        let free = self.device.drives().into_iter().flat_map(|drive| [drive.now(), drive.disk.free_at()]);
        let free = free.filter(|&free| free > now).min();
        let idle = free.or(self.has_idle_work.then_some(now)).filter(|_| self.device.is_idle());
        let begin = Some(self.device.now()).filter(|&begin| begin > now && !self.commands.is_begun());
        [self.commands.next_due(), self.device.next(), idle, begin].into_iter().flatten().min()
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
        if self.clock.is_some() && self.commands.is_begun() && self.device.is_idle() && self.device.now() <= now {
            self.has_idle_work = self.device.step_before(now);
            self.note_loss();
        }
    }

    /// Serves all commands, since nobody waits for the wall clock: on to the next completion, and to all that comes of it at its moment.
    fn work_off(&mut self) {
        while !(self.commands.is_begun() && self.device.is_idle()) {
            if self.is_time_to_look() {
                self.has_more_work = true;
                return;
            }
            self.go_on(None);
            while self.begin_next(self.device.now()) {}
        }
    }

    /// Watches how long one of the commands takes that are under way.
    fn watch(&self) {
        match self.commands.under_way() {
            Some(job) => self.watchdog.begin(&job.request()),
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
            if self.is_time_to_look() {
                self.has_more_work = true;
                break;
            }
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
        let Some(job) = self.commands.next() else { return false };
        let request = job.request();
        // With nobody to wait for, it need not be under way.
        let is_only = self.clock.is_none() && self.commands.is_last() && self.device.is_idle();
        let is_alone = is_only || job.kind == NbdKind::WriteZeroes || self.device.goes_alone(request.op, job.fua);
        let must_wait = if is_alone { !self.device.is_idle() } else { self.device.must_wait(&request) };
        // Without a clock to keep to, only as much is begun as a look at the clients may wait for.
        let has_enough = self.clock.is_none() && self.commands.under_way_bytes() >= UNDER_WAY_BYTES;
        if must_wait || has_enough || self.device.now() > now {
            return false;
        }
        let Some((tag, mut job)) = self.commands.begin() else { return false };
        self.has_idle_work = true;
        self.watchdog.begin(&request);
        if job.kind == NbdKind::Read {
            job.data = self.clients.buffer();
        }
        if is_alone {
            self.serve_alone(tag, job, &request);
        } else {
            let data = std::mem::take(&mut job.data);
            self.commands.go_on(tag, job);
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
        // A durable write vouches for itself alone: what a cut took is for the client's next flush to say.
        if job.kind == NbdKind::Flush && self.clients.take_owed_error(job.client) {
            served = served.and(Err(Unserved::Failed));
        }
        self.commands.completed(&job);
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
        self.commands.wait(due, tag, reply);
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
        let Some(mut job) = self.commands.end(tag) else { return };
        self.watch();
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
            self.clients.owe_error();
        }
    }

    /// Completes what is due.
    fn complete_due(&mut self, now: Nanos) {
        while let Some((due, reply)) = self.commands.take_due(now) {
            self.complete_at(due, reply);
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
    pub(super) fn complete(&mut self, reply: DueReply) {
        self.report.completed += 1;
        self.clients.reply(reply);
    }
}
