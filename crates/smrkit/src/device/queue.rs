//! Commands that wait at a drive, and which of them is next.
//!
//! The drive sees at most `depth` commands: the host dispatches one when another completes, and a timeout runs from there. The head
//! position of each is computed when it enters the queue. Shortest positioning time first may starve a command, as the literature warns; a
//! drive's own order therefore has an age from which on a command goes first.

use super::{Command, LayeredDisk};
use crate::drive::{CommandOrder, Position};
use crate::request::Op;
use crate::settings::Queue;
use crate::units::{Nanos, Pba};

/// Rule for the next of the waiting commands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum QueueOrder {
    /// The one that arrived first.
    Arrival,
    /// The next one in the direction of the head's movement; at the end the direction turns.
    Elevator,
    /// The shortest positioning time.
    Positioning,
    /// As drives do ([`Waiting::pick_as_drive`]): the oldest once it has been at the drive for `age`, else the one that waits least.
    Own { age: Nanos },
}

/// A drive's order of commands, and how many it sees.
#[derive(Clone, Copy, Debug)]
pub struct Queueing {
    order: QueueOrder,
    /// Commands that the drive sees at most; the others wait in order of arrival. Unused where commands are served as they come.
    depth: u32,
}

impl Queueing {
    /// The order of `queue` for up to `depth` commands. `own` is the drive's own order and the number of commands that it takes, if known.
    pub fn new(queue: Queue, depth: u32, own: Option<CommandOrder>) -> Queueing {
        let (order, commands_max) = match (queue, own) {
            (Queue::Fcfs, _) | (Queue::Drive, None) => (QueueOrder::Arrival, depth),
            (Queue::Elevator, _) => (QueueOrder::Elevator, depth),
            (Queue::Sptf, _) => (QueueOrder::Positioning, depth),
            (Queue::Drive, Some(own)) => (QueueOrder::Own { age: own.age }, own.commands),
        };
        Queueing { order, depth: depth.min(commands_max) }
    }

    /// True if a drive orders its commands; otherwise it serves them as they come.
    pub fn orders(self) -> bool {
        self.order != QueueOrder::Arrival
    }

    /// The queue of a drive that orders its commands.
    pub(super) fn waiting(self) -> Option<Waiting> {
        self.orders().then(|| self.waiting_of(self.depth))
    }

    /// The queue of a drive that sees `depth` commands whatever their order.
    pub(super) fn waiting_of(self, depth: u32) -> Waiting {
        Waiting { order: self.order, depth: depth as usize, commands: Vec::new(), heading: (0, false) }
    }

    /// The number of commands dispatched to a drive that orders them.
    pub(super) fn dispatched(self) -> Option<u32> {
        self.orders().then_some(self.depth)
    }
}

/// A command that the host has dispatched to the drive, and when.
pub(super) struct Dispatched {
    pub command: Command,
    pub sent: Nanos,
}

struct QueueEntry {
    command: Command,
    sent: Nanos,
    /// Where its first sector was when it arrived.
    pba: Pba,
    position: Position,
}

pub(super) struct Waiting {
    order: QueueOrder,
    depth: usize,
    commands: Vec<QueueEntry>,
    /// Elevator: the cylinder of the last command served, and whether the head moves to lower ones. Saved with the drive's state.
    pub heading: (u64, bool),
}

impl Waiting {
    /// True if the drive sees as many commands as it may.
    pub fn is_full(&self) -> bool {
        self.commands.len() == self.depth
    }

    pub fn len(&self) -> usize {
        self.commands.len()
    }

    pub fn clear(&mut self) {
        self.commands.clear();
        self.heading = (0, false);
    }

    pub fn push(&mut self, Dispatched { command, sent }: Dispatched, device: &LayeredDisk) {
        let pba = device.layer.locate(command.request.lba);
        self.commands.push(QueueEntry { command, sent, pba, position: device.position(pba) });
    }

    /// Takes out the next command: the best of those that have arrived, or the first to arrive.
    pub fn pick(&mut self, device: &LayeredDisk) -> Option<Dispatched> {
        let now = device.now();
        let arrived = |entry: &QueueEntry| entry.command.arrival <= now;
        let best = match self.order {
            // Nothing has arrived: the drive idles until the first command comes.
            _ if !self.commands.iter().any(arrived) => self.best(|_| true, |entry| entry.command.arrival.0),
            QueueOrder::Arrival => self.best(arrived, |entry| entry.command.arrival.0),
            QueueOrder::Positioning => self.best(arrived, |entry| device.positioning(&entry.position).0),
            QueueOrder::Own { age } => self.pick_as_drive(device, age),
            QueueOrder::Elevator => self.nearest_ahead(arrived),
        }?;
        // The order of the list does not matter, because ties go to the earlier arrival.
        let entry = self.commands.swap_remove(best);
        self.heading.0 = u64::from(entry.position.cylinder);
        Some(Dispatched { command: entry.command, sent: entry.sent })
    }

    /// The command that a drive takes of those that have arrived: the one dispatched first, if it is `age` old; else the one that waits
    /// least for the platters (not at all, if the buffer holds its data). Of commands that continue one another it is the first.
    fn pick_as_drive(&self, device: &LayeredDisk, age: Nanos) -> Option<usize> {
        let now = device.now();
        let arrived = |entry: &QueueEntry| entry.command.arrival <= now;
        let aged = |entry: &QueueEntry| arrived(entry) && now.since(entry.sent) >= age;
        if let Some(oldest) = self.best(aged, |entry| entry.sent.0) {
            return Some(oldest);
        }
        let wait = |entry: &QueueEntry| device.wait_for_media(&entry.command.request, entry.pba, &entry.position).0;
        let mut chosen = self.best(arrived, wait)?;
        while let Some(before) = self.commands.iter().position(|entry| {
            let (request, next) = (&entry.command.request, &self.commands[chosen].command.request);
            arrived(entry) && request.op == next.op && request.lba < next.lba && request.end() == next.lba
        }) {
            chosen = before;
        }
        Some(chosen)
    }

    /// Takes out up to `limit` writes that have arrived by `now`, in the order of arrival.
    pub fn take_writes(&mut self, limit: usize, now: Nanos) -> Vec<Dispatched> {
        let is_due = |entry: &QueueEntry| entry.command.request.op == Op::Write && entry.command.arrival <= now;
        let mut writes = Vec::new();
        while writes.len() < limit
            && let Some(first) = self.best(is_due, |entry| entry.command.arrival.0)
        {
            let QueueEntry { command, sent, .. } = self.commands.swap_remove(first);
            writes.push(Dispatched { command, sent });
        }
        writes
    }

    /// The index of the command with the smallest `cost`; ties go to the one that arrived first.
    fn best(&self, eligible: impl Fn(&QueueEntry) -> bool, cost: impl Fn(&QueueEntry) -> u64) -> Option<usize> {
        let candidates = self.commands.iter().enumerate().filter(|(_, entry)| eligible(entry));
        candidates.min_by_key(|(_, entry)| (cost(entry), entry.command.arrival)).map(|(index, _)| index)
    }

    /// The nearest command in the direction of movement; where there is none, the direction turns.
    fn nearest_ahead(&mut self, eligible: impl Fn(&QueueEntry) -> bool + Copy) -> Option<usize> {
        for _ in 0..2 {
            let (cylinder, descends) = self.heading;
            // `None` if the head has passed it.
            let distance = |entry: &QueueEntry| {
                let own = u64::from(entry.position.cylinder);
                if descends { cylinder.checked_sub(own) } else { own.checked_sub(cylinder) }
            };
            let is_ahead = |entry: &QueueEntry| eligible(entry) && distance(entry).is_some();
            let found = self.best(is_ahead, |entry| distance(entry).unwrap_or(u64::MAX));
            if found.is_some() {
                return found;
            }
            self.heading.1 = !descends;
        }
        None
    }
}

/// Commands that a drive takes at once where its file names no number: those of NCQ.
pub const NCQ_COMMANDS: u32 = 32;

/// The completions that make room for the next commands at a drive.
pub(super) struct Dispatch {
    /// When the last commands were completed, as many as the drive takes at once.
    ends: Box<[Nanos]>,
    /// Index in `ends` of the completion that the next command waits for.
    next_sent: usize,
    /// Index in `ends` of the next completion.
    next_end: usize,
}

impl Dispatch {
    /// Dispatch to a drive that takes `depth` commands at once.
    pub fn new(depth: u32) -> Dispatch {
        Dispatch { ends: vec![Nanos::ZERO; depth.max(1) as usize].into(), next_sent: 0, next_end: 0 }
    }

    /// The time at which the next command, in the order of arrival, is dispatched. The completion that it waits for has been noted.
    #[inline]
    pub fn send(&mut self, arrival: Nanos) -> Nanos {
        let sent = arrival.max(self.ends[self.next_sent]);
        self.next_sent = self.after(self.next_sent);
        sent
    }

    #[inline]
    pub fn completed(&mut self, end: Nanos) {
        self.ends[self.next_end] = end;
        self.next_end = self.after(self.next_end);
    }

    /// Forgets commands in flight, which are gone: the next command waits for none of them.
    pub fn forget(&mut self) {
        self.ends.fill(Nanos::ZERO);
        // Commands that were sent and will never complete had moved `next_sent` ahead; left there, later ones would
        // wait for the wrong completions.
        self.next_sent = self.next_end;
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.ends.len() { 0 } else { at + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_sees_as_many_commands_as_its_order_takes() {
        let own = |commands| Some(CommandOrder { commands, age: Nanos(5) });
        let seen = |queue, own| {
            let queueing = Queueing::new(queue, 8, own);
            assert_eq!(queueing.waiting().map(|waiting| waiting.depth as u32), queueing.dispatched());
            queueing.dispatched()
        };
        for known in [None, own(4), own(32)] {
            assert_eq!(seen(Queue::Fcfs, known), None);
            assert_eq!((seen(Queue::Elevator, known), seen(Queue::Sptf, known)), (Some(8), Some(8)));
        }
        assert_eq!([None, own(4), own(32)].map(|own| seen(Queue::Drive, own)), [None, Some(4), Some(8)]);
        let order = |queue| Queueing::new(queue, 8, own(4)).order;
        assert_eq!([Queue::Elevator, Queue::Sptf].map(order), [QueueOrder::Elevator, QueueOrder::Positioning]);
        assert_eq!([Queue::Fcfs, Queue::Drive].map(order), [QueueOrder::Arrival, QueueOrder::Own { age: Nanos(5) }]);
    }

    #[test]
    fn a_command_is_dispatched_when_one_at_the_drive_completes() {
        let mut dispatch = Dispatch::new(2);
        let mut serve = |arrival, end| {
            let sent = dispatch.send(Nanos(arrival));
            dispatch.completed(Nanos(end));
            sent.0
        };
        // Five that arrive at once, 10 each: two are at the drive at a time.
        assert_eq!([serve(5, 10), serve(5, 20), serve(5, 30), serve(5, 40), serve(5, 50)], [5, 5, 10, 20, 30]);
        assert_eq!(serve(100, 110), 100, "an idle drive takes it at once");
    }

    #[test]
    fn commands_that_are_ordered_anew_wait_for_as_many_completions() {
        let mut dispatch = Dispatch::new(3);
        let sent = [0, 0, 0].map(|arrival| dispatch.send(Nanos(arrival)).0);
        dispatch.completed(Nanos(7));
        assert_eq!((sent, dispatch.send(Nanos(1)).0), ([0, 0, 0], 7));
    }
}
