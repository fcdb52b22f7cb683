//! A server's commands, from their coming to their reply: those that wait, those under way, and replies that are due later.

use std::collections::{BTreeMap, VecDeque};

use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};

use super::super::nbd::NbdKind;

/// Commands, and bytes to be written, that wait at most before clients are kept waiting (assumption).
const COMMANDS_MAX: usize = 1024;
const BYTES_MAX: usize = 128 << 20;

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
    fn held_bytes(&self) -> usize {
        if self.kind == NbdKind::Write { self.bytes as usize } else { 0 }
    }
}

/// A reply that is due.
pub struct DueReply {
    pub job: Job,
    pub is_served: bool,
}

/// Commands that have come and not been replied to.
#[derive(Default)]
pub struct HostCommands {
    /// Commands that have not been begun, in order.
    queue: VecDeque<Job>,
    /// Commands that are under way together, each with its tag.
    under_way: Vec<(u64, Job)>,
    next_tag: u64,
    /// Bytes that commands hold which have not been completed.
    bytes: usize,
    /// Replies by when they are due, and the tag.
    due: BTreeMap<(Nanos, u64), DueReply>,
}

impl HostCommands {
    /// A command comes.
    pub fn push(&mut self, job: Job) {
        self.bytes += job.held_bytes();
        self.queue.push_back(job);
    }

    /// Number of commands that have not been completed.
    pub fn count(&self) -> usize {
        self.queue.len() + self.under_way.len()
    }

    /// True if no more is to come for now.
    pub fn is_full(&self) -> bool {
        self.count() >= COMMANDS_MAX || self.bytes >= BYTES_MAX
    }

    /// True if all have been replied to.
    pub fn is_empty(&self) -> bool {
        self.count() == 0 && self.due.is_empty()
    }

    /// True if none waits to be begun.
    pub fn is_begun(&self) -> bool {
        self.queue.is_empty()
    }

    /// The next one to be begun.
    pub fn next(&self) -> Option<&Job> {
        self.queue.front()
    }

    /// True if just one waits.
    pub fn is_last(&self) -> bool {
        self.queue.len() == 1
    }

    /// Takes the next one to be begun, with a tag for it.
    pub fn begin(&mut self) -> Option<(u64, Job)> {
        let job = self.queue.pop_front()?;
        self.next_tag += 1;
        Some((self.next_tag - 1, job))
    }

    /// Takes all that were not begun.
    pub fn take_waiting(&mut self) -> Vec<Job> {
        let waiting: Vec<Job> = self.queue.drain(..).collect();
        waiting.iter().for_each(|job| self.completed(job));
        waiting
    }

    /// Drops those that were not begun and that `is_dropped` names.
    pub fn drop_waiting(&mut self, is_dropped: impl Fn(&Job) -> bool) {
        let (dropped, kept) = self.take_waiting().into_iter().partition::<Vec<Job>, _>(is_dropped);
        drop(dropped);
        kept.into_iter().for_each(|job| self.push(job));
    }

    /// A command that was begun goes on with others.
    pub fn go_on(&mut self, tag: u64, job: Job) {
        self.under_way.push((tag, job));
    }

    /// One of those that are under way with others.
    pub fn under_way(&self) -> Option<&Job> {
        self.under_way.first().map(|(_, job)| job)
    }

    /// Bytes of those that are under way with others.
    pub fn under_way_bytes(&self) -> u64 {
        self.under_way.iter().map(|(_, job)| job.bytes).sum()
    }

    /// Takes the command of this tag that was under way with others, and has been completed.
    pub fn end(&mut self, tag: u64) -> Option<Job> {
        let at = self.under_way.iter().position(|(other, _)| *other == tag)?;
        let (_, job) = self.under_way.swap_remove(at);
        self.completed(&job);
        Some(job)
    }

    /// A command that was begun has been completed.
    pub fn completed(&mut self, job: &Job) {
        self.bytes -= job.held_bytes();
    }

    /// A reply waits until it is due.
    pub fn wait(&mut self, due: Nanos, tag: u64, reply: DueReply) {
        self.due.insert((due, tag), reply);
    }

    /// Moment at which a reply is due next.
    pub fn next_due(&self) -> Option<Nanos> {
        self.due.first_key_value().map(|(&(due, _), _)| due)
    }

    /// Takes the next reply that is due by `now`, with its moment.
    pub fn take_due(&mut self, now: Nanos) -> Option<(Nanos, DueReply)> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now)?;
        let ((due, _), reply) = first.remove_entry();
        Some((due, reply))
    }
}
