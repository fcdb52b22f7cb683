//! An array's side of the server: commands are under way together, each reply comes when its own drives are done.
//!
//! A command waits for those under way on the same sectors, unless all of them read. A flush, and a write that is to be durable
//! at once, is served alone.

use smrkit::device::Command as Queued;
use smrkit::request::Op;
use smrkit::units::Nanos;

use super::super::device::Ended;
use super::{DriveServer, DueReply, NbdKind, Unserved};

impl DriveServer {
    /// Moment at which the clock has something to do; a reply may be due at `due`.
    pub(super) fn next_together(&self, due: Option<Nanos>) -> Option<Nanos> {
        let now = self.now();
        // When a drive is free that is at work for itself.
        let free = self.device.drives().into_iter().flat_map(|drive| [drive.now(), drive.disk.free_at()]);
        let free = free.filter(|&free| free > now).min();
        let idle = free.or(self.has_idle_work.then_some(now)).filter(|_| self.device.is_idle());
        let begin = Some(self.device.now()).filter(|&begin| begin > now && !self.queue.is_empty());
        let more = self.has_more().then_some(now);
        [due, self.device.next(), idle, begin, more].into_iter().flatten().min()
    }

    /// Sends what may be sent, and completes what is done.
    pub(super) fn work_together(&mut self) {
        let now = self.now();
        self.complete_due(now);
        loop {
            self.go_on(now, false);
            if !self.begin_next(now) {
                break;
            }
        }
        if self.clock.is_none() {
            // Nobody waits for the wall clock: on to the next completion, and all that comes of it at its moment.
            self.go_on(Nanos::MAX, true);
            return self.go_on(self.device.now() + Nanos(1), false);
        }
        if self.queue.is_empty() && self.device.is_idle() && self.device.now() <= now {
            self.has_idle_work = self.device.step_before(now);
            self.note_loss();
        }
    }

    /// Lets the array's time go on to `limit`, or with `one` until a command completes.
    fn go_on(&mut self, limit: Nanos, one: bool) {
        let ended = self.device.go_on(limit, one);
        self.note_loss();
        ended.into_iter().for_each(|ended| self.finish(ended));
    }

    /// Begins the command that came first, if it need not wait.
    fn begin_next(&mut self, now: Nanos) -> bool {
        let Some((command, is_barrier)) = self.queue.first() else { return false };
        let Some(job) = self.jobs.get(&command.tag) else { return false };
        let is_alone = *is_barrier || job.kind == NbdKind::WriteZeroes;
        let must_wait = if is_alone { !self.device.is_idle() } else { self.device.must_wait(&command.request) };
        if must_wait || self.device.now() > now {
            return false;
        }
        self.has_idle_work = true;
        if is_alone {
            return self.serve_alone();
        }
        let Some(Queued { tag, request, .. }) = self.queue.take_first() else { return false };
        let written = if request.op == Op::Write { &job.data[..job.bytes as usize] } else { &[] };
        self.watchdog.begin(&request);
        self.device.send(tag, &request, now, written);
        self.watchdog.end();
        true
    }

    fn serve_alone(&mut self) -> bool {
        let Some(command) = self.queue.take_first() else { return false };
        if self.clock.is_some() {
            self.serve_for_later(&command);
        } else if let Some(reply) = self.serve(&command) {
            self.complete(reply);
        }
        true
    }

    /// A command came to its end.
    fn finish(&mut self, Ended { tag, served, bytes }: Ended) {
        let Some(mut job) = self.jobs.remove(&tag) else { return };
        self.queued_bytes -= job.data.len();
        if job.kind == NbdKind::Read {
            job.data = bytes;
        }
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
}
