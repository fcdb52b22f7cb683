//! Commands that wait at a drive, and which of them is next.
//!
//! The drive sees at most `depth` commands. Where each would take the head is worked out when it enters the queue. No
//! command is favoured for its age: shortest positioning time first may starve one, as the literature warns.

use crate::device::{Device, Position};
use crate::units::{Lba, Nanos};

/// The order of waiting commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// First come, first served.
    Fcfs,
    /// In the direction of the head's movement, then back (LOOK).
    Elevator,
    /// Shortest positioning time first.
    Sptf,
}

struct Entry<T> {
    command: T,
    arrival: Nanos,
    position: Position,
}

/// The waiting commands.
pub struct Waiting<T> {
    policy: Queue,
    depth: usize,
    commands: Vec<Entry<T>>,
    /// Elevator: the cylinder of the last command served, and whether the head moves outward.
    cylinder: u64,
    descending: bool,
}

impl<T> Waiting<T> {
    /// An empty queue.
    pub fn new(policy: Queue, depth: u32) -> Waiting<T> {
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

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Adds a command for `lba`.
    pub fn push(&mut self, command: T, lba: Lba, arrival: Nanos, device: &impl Device) {
        let position = device.position(lba);
        self.commands.push(Entry { command, arrival, position });
    }

    /// Takes the next command out: the best of those that have arrived, else the one that arrives first.
    pub fn pick(&mut self, device: &impl Device) -> Option<(T, Nanos)> {
        let now = device.now();
        let arrived = |command: &Entry<T>| command.arrival <= now;
        let best = match self.policy {
            _ if !self.commands.iter().any(arrived) => self.best(|_| true, |command| command.arrival.0),
            Queue::Fcfs => self.best(arrived, |command| command.arrival.0),
            Queue::Sptf => self.best(arrived, |command| device.positioning(&command.position).0),
            Queue::Elevator => self.ahead(arrived),
        }?;
        let entry = self.commands.swap_remove(best);
        self.cylinder = u64::from(entry.position.cylinder);
        Some((entry.command, entry.arrival))
    }

    /// The index of the command with the smallest `cost`; ties go to the one that arrived first.
    fn best(&self, eligible: impl Fn(&Entry<T>) -> bool, cost: impl Fn(&Entry<T>) -> u64) -> Option<usize> {
        let candidates = self.commands.iter().enumerate().filter(|(_, command)| eligible(command));
        candidates.min_by_key(|(_, command)| (cost(command), command.arrival)).map(|(index, _)| index)
    }

    /// The nearest command in the direction of movement; at the end of the way the direction turns.
    fn ahead(&mut self, eligible: impl Fn(&Entry<T>) -> bool + Copy) -> Option<usize> {
        for _ in 0..2 {
            let (cylinder, descending) = (self.cylinder, self.descending);
            let way = |command: &Entry<T>| {
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
