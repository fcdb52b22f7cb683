//! The layer's own books, checked in full: every LBA has one place, within what was written of a segment, and counts agree.

use super::{Log, inconsistent};
use crate::error::DiskResult;
use crate::units::{Lba, Pba};

impl Log {
    pub(super) fn check_books(&self) -> DiskResult {
        self.check_places()?;
        self.segments.check(self.job.as_ref().map(|job| job.victim))
    }

    /// No two LBAs share a sector, and each lies in what was written of a segment.
    fn check_places(&self) -> DiskResult {
        let mut live = vec![0; self.segments.len()];
        let mut places: Vec<(Pba, u64)> = Vec::new();
        for (lba, mut n, mut pba) in self.map.mapped(Lba(0), self.capacity.host_sectors) {
            places.push((pba, n));
            while n > 0 {
                let (at, count) = self.segments.part_at(pba, n);
                if pba >= self.segments.get(at).head() {
                    return inconsistent(format!("LBA {lba} lies at PBA {pba}, where segment {at} was not written"));
                }
                live[at as usize] += count;
                (n, pba) = (n - count, pba + count);
            }
        }
        places.sort_unstable();
        if let Some(pair) = places.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return inconsistent(format!("PBA {} belongs to two LBAs", pair[1].0));
        }
        let counted = |at: u32| u64::from(self.segments.get(at).live);
        match (0..).zip(&live).find(|&(at, &live)| live != counted(at)) {
            Some((at, live)) => {
                inconsistent(format!("segment {at} counts {} live sectors, but {live} are mapped", counted(at)))
            }
            None => Ok(()),
        }
    }
}
