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

/// The numbers that the reserve follows from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserve {
    pub granules: u64,
    pub loss: u64,
    /// Room that may be lost beyond that before a disk that is as full as files can make it has no reserve any more.
    margin: u64,
    /// The most granules that files may fill with room left for the reserve.
    pub usable: u64,
}

impl Reserve {
    /// For a disk of `granules` with these distances on which runs of `unit` are room.
    pub fn new(granules: u64, did: u64, dpid: u64, unit: u64) -> Reserve {
        let loss = did.saturating_add(dpid.saturating_mul(2)).saturating_add(unit);
        let margin = loss.div_ceil(4).saturating_sub(dpid.saturating_sub(did)).max(loss.div_ceil(40));
        let mut reserve = Reserve { granules, loss, margin, usable: 0 };
        let mut failing = granules;
        while reserve.usable + 1 < failing {
            let middle = reserve.usable.midpoint(failing);
            let fits = reserve.room(middle, loss.saturating_add(margin)).is_some();
            *(if fits { &mut reserve.usable } else { &mut failing }) = middle;
        }
        reserve
    }

    /// The room that must be left next to so much readable data, of which what is more than usable does not count; `None`
    /// where nothing is usable.
    pub fn beside(self, readable: u64) -> Option<u64> {
        self.room(readable.min(self.usable), self.loss + self.loss.div_ceil(20).min(self.margin))
    }

    fn room(self, readable: u64, loss: u64) -> Option<u64> {
        let spare = self.granules.checked_sub(readable)?.checked_sub(loss)?;
        let square = u128::from(spare).pow(2).checked_sub(4 * u128::from(loss) * u128::from(readable))?;
        Some((spare - square.isqrt() as u64).div_ceil(2))
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

    #[test]
    fn files_fill_95_percent_of_8_gib_and_less_of_little_disks() {
        let share = |mib: u64, did_mib: u64, dpid_mib: u64| {
            let reserve = Reserve::new(mib * 256, did_mib * 256, dpid_mib * 256, 256);
            reserve.usable as f64 / reserve.granules as f64
        };
        for (did, dpid) in [(1, 1), (2, 0), (0, 2)] {
            assert!(share(8190, did, dpid) >= 0.95, "{did}/{dpid}: {}", share(8190, did, dpid));
        }
        assert!(share(8192, 3, 1) >= 0.93);
        assert!(share(2048, 1, 1) >= 0.88, "{}", share(2048, 1, 1));
        assert!(share(64, 1, 1) > 0.3 && share(64, 1, 1) < 0.6, "{}", share(64, 1, 1));
    }

    #[test]
    fn the_reserve_grows_with_readable_data_up_to_usable() {
        for (granules, gap) in [(2_000_000, 256), (500_000, 256), (16_384, 256), (700, 1)] {
            let reserve = Reserve::new(granules, gap, gap, gap);
            let usable = reserve.usable;
            let rooms: Vec<u64> = (0..=20).map(|part| reserve.beside(usable * part / 20).expect("fits")).collect();
            assert!(rooms.is_sorted(), "{rooms:?}");
            assert!(rooms[20] + reserve.loss < granules - usable, "{rooms:?}");
        }
    }
}
