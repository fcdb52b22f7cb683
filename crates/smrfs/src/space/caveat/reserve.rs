//! How much room the defragmenter needs so that it never runs out of ways to make more, and so how much files may fill.
//!
//! Emptying a window of the disk wins its dead granules but DID + DPID, and counts if a unit is left: a loss of at most
//! `loss` = DID + DPID + unit. Cut the disk into windows that hold `room` readable granules each. If the dead granules
//! outside the room exceed `loss` a window, some window gains; and the room takes what it holds. So room is enough where
//! `dead - room > loss * (readable / room + 1)`; the smallest such room is the reserve. Right at that bound the
//! defragmenter would level the disk until no window gains. So a fifth more is reckoned as lost; and files may fill only so
//! much that there would still be a reserve if half as much again were lost (both are assumptions, tried in tests). Data that
//! moves fills the room to the last granule: pieces are cut.

/// The numbers that the reserve follows from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserve {
    pub granules: u64,
    pub loss: u64,
}

impl Reserve {
    /// For a disk of `granules` on which a window of which nothing is left loses `loss`.
    pub fn new(granules: u64, loss: u64) -> Reserve {
        Reserve { granules, loss }
    }

    /// The room that must be left beside so much readable data; `None` if there is too much of it.
    pub fn beside(self, readable: u64) -> Option<u64> {
        let loss = self.loss + self.loss / 5;
        let spare = self.granules.checked_sub(readable)?.checked_sub(loss)?;
        let square = u128::from(spare).pow(2).checked_sub(4 * u128::from(loss) * u128::from(readable))?;
        Some((spare - square.isqrt() as u64).div_ceil(2))
    }

    /// The most granules that files may fill: where both ends of the range of rooms that are enough meet.
    pub fn usable(self) -> u64 {
        let fits = |usable: u64| {
            let loss = self.loss + self.loss / 2;
            let needed = 2 * (u128::from(loss) * u128::from(usable)).isqrt() as u64 + 2 * loss;
            usable + needed <= self.granules
        };
        let (mut fitting, mut failing) = (0, self.granules);
        while fitting + 1 < failing {
            let middle = fitting.midpoint(failing);
            if fits(middle) { fitting = middle } else { failing = middle }
        }
        fitting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_fill_95_percent_of_8_gib_and_less_of_little_disks() {
        let share = |mib: u64, loss_mib: u64| {
            let reserve = Reserve::new(mib * 256, loss_mib * 256);
            reserve.usable() as f64 / reserve.granules as f64
        };
        assert!(share(8192, 3) >= 0.95, "{}", share(8192, 3));
        assert!(share(8192, 5) >= 0.93);
        assert!(share(2048, 3) >= 0.89, "{}", share(2048, 3));
        assert!(share(64, 3) > 0.4 && share(64, 3) < 0.6, "{}", share(64, 3));
    }

    #[test]
    fn the_reserve_grows_with_what_is_readable_and_is_defined_up_to_usable() {
        for (granules, loss) in [(2_000_000, 768), (500_000, 768), (16_384, 768), (700, 5)] {
            let reserve = Reserve::new(granules, loss);
            let usable = reserve.usable();
            let rooms: Vec<u64> = (0..=20).map(|part| reserve.beside(usable * part / 20).expect("fits")).collect();
            assert!(rooms.is_sorted(), "{rooms:?}");
            assert!(rooms[20] + loss < granules - usable, "{rooms:?}");
        }
    }
}
