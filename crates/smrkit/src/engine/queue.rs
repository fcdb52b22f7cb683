//! Commands that wait at the drive, and which of them is next.
//!
//! The drive sees at most `depth` commands. Where each would take the head is worked out when it enters the queue. No
//! command is favoured for its age: shortest positioning time first may starve one, as the literature warns.

use super::settings::Queue;
use crate::device::{Device, Position};
use crate::request::Request;
use crate::units::Nanos;

struct Command {
    request: Request,
    arrival: Nanos,
    position: Position,
}

/// The waiting commands.
pub struct Waiting {
    policy: Queue,
    depth: usize,
    commands: Vec<Command>,
    /// Elevator: the cylinder of the last command served, and whether the head moves outward.
    cylinder: u64,
    descending: bool,
}

impl Waiting {
    /// An empty queue.
    pub fn new(policy: Queue, depth: u32) -> Waiting {
        Waiting { policy, depth: depth as usize, commands: Vec::new(), cylinder: 0, descending: false }
    }

    /// Whether the drive sees as many commands as it may.
    pub fn is_full(&self) -> bool {
        self.commands.len() == self.depth
    }

    /// Adds a command.
    pub fn push(&mut self, request: Request, arrival: Nanos, device: &impl Device) {
        let position = device.position(request.lba);
        self.commands.push(Command { request, arrival, position });
    }

    /// Takes the next command out: the best of those that have arrived, else the one that arrives first.
    pub fn pick(&mut self, device: &impl Device) -> Option<(Request, Nanos)> {
        let now = device.now();
        let arrived = |command: &Command| command.arrival <= now;
        let best = match self.policy {
            _ if !self.commands.iter().any(arrived) => self.best(|_| true, |command| command.arrival.0),
            Queue::Fcfs => self.best(arrived, |command| command.arrival.0),
            Queue::Sptf => self.best(arrived, |command| device.positioning(&command.position).0),
            Queue::Elevator => self.ahead(arrived),
        }?;
        let command = self.commands.swap_remove(best);
        self.cylinder = u64::from(command.position.cylinder);
        Some((command.request, command.arrival))
    }

    /// The index of the command with the smallest `cost`; ties go to the one that arrived first.
    fn best(&self, eligible: impl Fn(&Command) -> bool, cost: impl Fn(&Command) -> u64) -> Option<usize> {
        let candidates = self.commands.iter().enumerate().filter(|(_, command)| eligible(command));
        candidates.min_by_key(|(_, command)| (cost(command), command.arrival)).map(|(index, _)| index)
    }

    /// The nearest command in the direction of movement; at the end of the way the direction turns.
    fn ahead(&mut self, eligible: impl Fn(&Command) -> bool + Copy) -> Option<usize> {
        for _ in 0..2 {
            let (cylinder, descending) = (self.cylinder, self.descending);
            let way = |command: &Command| {
                let at = u64::from(command.position.cylinder);
                if descending { cylinder.checked_sub(at) } else { at.checked_sub(cylinder) }
            };
            let found = self.best(|c| eligible(c) && way(c).is_some(), |c| way(c).unwrap_or(u64::MAX));
            if found.is_some() {
                return found;
            }
            self.descending = !self.descending;
        }
        None
    }
}
