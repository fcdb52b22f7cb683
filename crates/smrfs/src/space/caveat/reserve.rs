//! Reserve of the defragmenter, so that it never runs out of ways to make more room, and so the limit of files.
//!
//! Emptying a window of the disk wins its dead granules but DID + DPID; where the data goes, up to DPID can no longer be
//! counted on; and what is won counts if a unit of it is left. So at most `loss` = DID + 2 DPID + unit is lost. Cut the disk
//! into windows that hold `room` readable granules each. If the dead granules outside the room exceed `loss` a window, some
//! window gains; and the room takes what it holds. So room is enough where `dead - room > loss * (readable / room + 1)`; the
//! smallest such room is the reserve. Right at that bound the defragmenter would level the disk until no window gains. So a
//! twentieth more is reckoned as lost; and files may fill only so much that there would still be a reserve if a quarter more
//! were lost (both are assumptions, tried in tests). Data that moves fills the room to the last granule: pieces are cut.
//! Hosts may not take runs shorter than a unit either: else windows on a small disk would lose more than they win.

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
