//! Room kept next to the last block of a file that is being written, so that two writers do not interleave. It is soft: it
//! binds nobody once there is no other room.

use std::collections::BTreeMap;

use crate::units::{Granule, NodeId};

/// More files than this are rarely written at once (assumption); the longest unused reservation gives way.
const MOST: usize = 64;

/// Room that is kept for a file.
#[derive(Clone, Copy, Debug)]
struct Kept {
    from: u64,
    to: u64,
    /// Granules that were written to the file one after another.
    streak: u64,
    renewed: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    of: BTreeMap<NodeId, Kept>,
    by_start: BTreeMap<u64, (u64, NodeId)>,
    renewed: u64,
}

impl Reservations {
    /// Start of a file's room, if it has some.
    pub fn start_for(&self, file: NodeId) -> Option<u64> {
        self.of.get(&file).filter(|kept| kept.from < kept.to).map(|kept| kept.from)
    }

    /// Amount that was written to the file one after another, if that ends at `after`.
    pub fn streak(&self, file: NodeId, after: Option<Granule>) -> u64 {
        self.of.get(&file).filter(|kept| after == Some(Granule(kept.from))).map_or(0, |kept| kept.streak)
    }

    /// Gives a file this room instead of what it had. What others have of it stays theirs.
    pub fn renew(&mut self, file: NodeId, from: u64, to: u64, streak: u64) {
        self.end(file);
        let to = to.min(self.others(file, from, to).map_or(to, |(begin, _)| begin)).max(from);
        if self.of.len() >= MOST
            && let Some(oldest) = self.of.iter().min_by_key(|(_, kept)| kept.renewed).map(|(&file, _)| file)
        {
            self.end(oldest);
        }
        self.renewed += 1;
        self.of.insert(file, Kept { from, to, streak, renewed: self.renewed });
        if from < to {
            self.by_start.insert(from, (to, file));
        }
    }

    /// Ends the reservation of a file.
    pub fn end(&mut self, file: NodeId) {
        if let Some(kept) = self.of.remove(&file).filter(|kept| kept.from < kept.to) {
            self.by_start.remove(&kept.from);
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
        reservations.renew(a, 10, 20, 1);
        assert_eq!(reservations.others(b, 15, 30), Some((10, 20)));
        assert_eq!(reservations.others(a, 15, 30), None);
        reservations.renew(b, 5, 30, 1);
        assert_eq!(reservations.others(a, 0, 30), Some((5, 10)), "up to where another's begins");
        reservations.end(a);
        assert_eq!(reservations.others(b, 0, 100), None);
        for file in 0..100 {
            reservations.renew(NodeId(file), 1000 + 10 * file, 1005 + 10 * file, 1);
        }
        assert!(reservations.of.len() <= MOST && reservations.by_start.len() == reservations.of.len());
    }
}
