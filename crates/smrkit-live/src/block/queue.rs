//! The order in which a served drive takes its commands: the simulator's own queue, and what a host may rely on.
//!
//! No command overtakes a barrier (a flush, or a write that must be durable before it completes) or one on the same sectors.

use std::collections::VecDeque;

use smrkit::device::{Command, LayeredDisk, NCQ_COMMANDS, Queueing, Waiting};
use smrkit::drive::Drive;
use smrkit::settings::Queue;

/// Commands that have come and not been begun.
pub(super) struct CommandQueue {
    /// In order of arrival, each with whether it is a barrier.
    arrived: VecDeque<(Command, bool)>,
    /// Commands that the drive chooses from; none where it is first come, first served.
    waiting: Option<Waiting>,
}

/// The order of a drive's commands, and how many it sees. [`Queue::Drive`] is shortest positioning time first where the drive has
/// mechanics and its file no order.
pub(super) fn queueing(queue: Queue, drive: &Drive) -> Queueing {
    let order = match queue {
        Queue::Drive if drive.command_order.is_none() && drive.clock.mechanical().is_some() => Queue::Sptf,
        queue => queue,
    };
    Queueing::new(order, NCQ_COMMANDS, drive.command_order)
}

impl CommandQueue {
    pub(super) fn new(queueing: Queueing) -> CommandQueue {
        CommandQueue { arrived: VecDeque::new(), waiting: queueing.waiting() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.arrived.is_empty() && self.waiting.as_ref().is_none_or(Waiting::is_empty)
    }

    pub(super) fn push(&mut self, command: Command, is_barrier: bool) {
        self.arrived.push_back((command, is_barrier));
    }

    /// Takes out the command that came first.
    pub(super) fn take_first(&mut self) -> Option<Command> {
        self.arrived.pop_front().map(|(command, _)| command)
    }

    /// The command that came first and waits, and whether it is a barrier.
    pub(super) fn first(&self) -> Option<&(Command, bool)> {
        self.arrived.front()
    }

    /// The command to be served now; none if none waits.
    pub(super) fn next(&mut self, device: &LayeredDisk) -> Option<Command> {
        let Some(waiting) = &mut self.waiting else { return self.take_first() };
        while !waiting.is_full()
            && self.arrived.front().is_some_and(|(command, barrier)| !barrier && !waiting.overlaps(&command.request))
            && let Some((command, _)) = self.arrived.pop_front()
        {
            let arrival = command.arrival;
            waiting.push(command, arrival, device);
        }
        waiting.pick(device).map(|(command, _)| command).or_else(|| Some(self.arrived.pop_front()?.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drives_own_order_is_its_files_or_what_its_mechanics_allow() {
        let waits = |name: &str, queue| queueing(queue, &Drive::load(name).unwrap()).waiting().is_some();
        let own = ["st8000as0002", "st5000as0011", "tiny-constant"].map(|name| waits(name, Queue::Drive));
        assert_eq!(own, [true, true, false]);
        assert_eq!([Queue::Fcfs, Queue::Sptf].map(|queue| waits("st5000as0011", queue)), [false, true]);
    }
}
