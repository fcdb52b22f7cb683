//! The order in which a served drive takes its commands: the simulator's own queue, and what a host may rely on.
//!
//! No command overtakes a barrier (a flush, or a write that is to be durable before its answer) or one on the same sectors.

use std::collections::VecDeque;

use smrkit::device::{Command, LayeredDisk, Queueing, Waiting};
use smrkit::drive::Drive;
use smrkit::settings::Queue;

/// Commands that have come and not been begun.
pub(super) struct CommandQueue {
    /// In order of arrival, each with whether it is a barrier.
    arrived: VecDeque<(Command, bool)>,
    /// Those that the drive chooses from; none first come, first served.
    waiting: Option<Waiting>,
}

/// The order of a drive's commands for [`Queue::Drive`]: its own where its file has one, else shortest positioning time first where
/// it has mechanics.
pub fn queue_of(queue: Queue, drive: &Drive) -> Queue {
    match queue {
        Queue::Drive if drive.command_order.is_some() => Queue::Drive,
        Queue::Drive if drive.clock.mechanical().is_some() => Queue::Sptf,
        Queue::Drive => Queue::Fcfs,
        other => other,
    }
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
