//! Room kept beside the last block of a file that is being written, so that two writers do not interleave. It is soft: it
//! binds nobody once there is no other room.

use std::collections::BTreeMap;

use crate::units::NodeId;

/// More files than this are rarely written at once (assumption); the longest unused reservation gives way.
const MOST: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    /// From, to, and when it was last renewed.
    of: BTreeMap<NodeId, (u64, u64, u64)>,
    by_start: BTreeMap<u64, (u64, NodeId)>,
    renewed: u64,
}

impl Reservations {
    /// Where the room of a file is, if it has some.
    pub fn of(&self, file: NodeId) -> Option<(u64, u64)> {
        self.of.get(&file).map(|&(from, to, _)| (from, to))
    }

    /// Gives a file this room instead of what it had. What others have of it stays theirs.
    pub fn renew(&mut self, file: NodeId, from: u64, to: u64) {
        self.end(file);
        let to = to.min(self.others(file, from, to).map_or(to, |(begin, _)| begin));
        if from >= to {
            return;
        }
        if self.of.len() >= MOST
            && let Some(oldest) = self.of.iter().min_by_key(|(_, (.., renewed))| *renewed).map(|(&file, _)| file)
        {
            self.end(oldest);
        }
        self.renewed += 1;
        self.of.insert(file, (from, to, self.renewed));
        self.by_start.insert(from, (to, file));
    }

    /// Ends the reservation of a file.
    pub fn end(&mut self, file: NodeId) {
        if let Some((from, ..)) = self.of.remove(&file) {
            self.by_start.remove(&from);
        }
    }

    /// The first room of another file that has something in common with `from..to`.
    pub fn others(&self, file: NodeId, from: u64, to: u64) -> Option<(u64, u64)> {
        let first =
            self.by_start.range(..=from).next_back().filter(|(_, (end, _))| *end > from).map_or(from, |(&at, _)| at);
        let mut range = self.by_start.range(first..to.max(first));
        range.find(|(_, (_, whose))| *whose != file).map(|(&begin, &(end, _))| (begin, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_kept_from_others_until_the_file_is_closed() {
        let mut reservations = Reservations::default();
        let (a, b) = (NodeId(1), NodeId(2));
        reservations.renew(a, 10, 20);
        assert_eq!(reservations.others(b, 15, 30), Some((10, 20)));
        assert_eq!(reservations.others(a, 15, 30), None);
        reservations.renew(b, 5, 30);
        assert_eq!(reservations.of(b), Some((5, 10)), "up to where another's begins");
        reservations.end(a);
        assert_eq!(reservations.others(b, 0, 100), None);
        for file in 0..100 {
            reservations.renew(NodeId(file), 1000 + 10 * file, 1005 + 10 * file);
        }
        assert!(reservations.of.len() <= MOST && reservations.by_start.len() == reservations.of.len());
    }
}
