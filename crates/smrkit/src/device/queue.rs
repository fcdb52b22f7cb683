//! Commands that wait at a drive, and which of them is next.
//!
//! The drive sees at most `depth` commands. Where each would take the head is worked out when it enters the queue. No
//! command is favoured for its age: shortest positioning time first may starve one, as the literature warns.

use super::LayeredDisk;
use super::command::Command;
use crate::drive::Position;
use crate::settings::Queue;

struct Entry {
    command: Command,
    position: Position,
}

/// The waiting commands.
pub(super) struct Waiting {
    policy: Queue,
    depth: usize,
    commands: Vec<Entry>,
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

    /// How many wait.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Adds a command.
    pub fn push(&mut self, command: Command, device: &LayeredDisk) {
        let position = device.position(command.request.lba);
        self.commands.push(Entry { command, position });
    }

    /// Takes the next command out: the best of those that have arrived, else the one that arrives first.
    pub fn pick(&mut self, device: &LayeredDisk) -> Option<Command> {
        let now = device.now();
        let arrived = |entry: &Entry| entry.command.arrival <= now;
        let best = match self.policy {
            _ if !self.commands.iter().any(arrived) => self.best(|_| true, |entry| entry.command.arrival.0),
            Queue::Fcfs => self.best(arrived, |entry| entry.command.arrival.0),
            Queue::Sptf => self.best(arrived, |entry| device.positioning(&entry.position).0),
            Queue::Elevator => self.ahead(arrived),
        }?;
        let entry = self.commands.swap_remove(best);
        self.cylinder = u64::from(entry.position.cylinder);
        Some(entry.command)
    }

    /// The index of the command with the smallest `cost`; ties go to the one that arrived first.
    fn best(&self, eligible: impl Fn(&Entry) -> bool, cost: impl Fn(&Entry) -> u64) -> Option<usize> {
        let candidates = self.commands.iter().enumerate().filter(|(_, entry)| eligible(entry));
        candidates.min_by_key(|(_, entry)| (cost(entry), entry.command.arrival)).map(|(index, _)| index)
    }

    /// The nearest command in the direction of movement; at the end of the way the direction turns.
    fn ahead(&mut self, eligible: impl Fn(&Entry) -> bool + Copy) -> Option<usize> {
        for _ in 0..2 {
            let (cylinder, descending) = (self.cylinder, self.descending);
            let way = |entry: &Entry| {
                let at = u64::from(entry.position.cylinder);
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
