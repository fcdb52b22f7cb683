//! The layer's own books, checked in full: every LBA has one place, within what was written of a segment, and counts agree.

use super::segment::{Segment, SegmentState};
use super::{Log, inconsistent};
use crate::error::DiskResult;
use crate::units::{Lba, Pba};

impl Log {
    pub(super) fn check_books(&self) -> DiskResult {
        self.check_places()?;
        for (index, segment) in self.segments.iter().enumerate() {
            self.check_segment(index as u32, segment)?;
        }
        let sum = |of: fn(&Segment) -> u64| self.segments.iter().map(of).sum::<u64>();
        let sum_in = |state: SegmentState, of: fn(&Segment) -> u64| {
            self.segments.iter().filter(|segment| segment.state == state).map(of).sum::<u64>()
        };
        let sectors = |segment: &Segment| u64::from(segment.place.sectors);
        let agree = [
            ("live sectors", self.live_sectors, sum(|segment| segment.live.into())),
            ("log sectors", self.log_sectors, sum(|segment| segment.filled.into())),
            ("free sectors", self.free_sectors, sum_in(SegmentState::Free, sectors)),
            ("dead sectors of closed segments", self.closed_dead, sum_in(SegmentState::Closed, Segment::dead)),
            ("closed segments", self.victims.len() as u64, sum_in(SegmentState::Closed, |_| 1)),
            ("open segments", self.open.iter().flatten().count() as u64, sum_in(SegmentState::Open, |_| 1)),
            ("segments being cleaned", self.job.iter().count() as u64, sum_in(SegmentState::Cleaned, |_| 1)),
            ("entries", self.entries, sum(|segment| segment.entries.len() as u64)),
        ];
        match agree.into_iter().find(|(_, counted, found)| counted != found) {
            Some((what, counted, found)) => inconsistent(format!("{counted} {what} are counted, {found} are there")),
            None => Ok(()),
        }
    }

    /// No two LBAs share a sector, and each lies in what was written of a segment.
    fn check_places(&self) -> DiskResult {
        let mut live = vec![0; self.segments.len()];
        let mut places: Vec<(Pba, u64)> = Vec::new();
        for (lba, mut n, mut pba) in self.map.mapped(Lba(0), self.capacity.host_sectors) {
            places.push((pba, n));
            while n > 0 {
                let at = self.layout.segment_at(pba);
                let segment = &self.segments[at];
                if pba >= segment.head() {
                    return inconsistent(format!("LBA {lba} lies at PBA {pba}, where segment {at} was not written"));
                }
                let count = n.min(segment.place.start + u64::from(segment.place.sectors) - pba);
                live[at] += count;
                (n, pba) = (n - count, pba + count);
            }
        }
        places.sort_unstable();
        if let Some(pair) = places.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return inconsistent(format!("PBA {} belongs to two LBAs", pair[1].0));
        }
        match (0..live.len()).find(|&at| live[at] != u64::from(self.segments[at].live)) {
            Some(at) => inconsistent(format!(
                "segment {at} counts {} live sectors, but {} are mapped",
                self.segments[at].live, live[at]
            )),
            None => Ok(()),
        }
    }

    /// A segment's list covers what was written of it, and its state fits.
    fn check_segment(&self, index: u32, segment: &Segment) -> DiskResult {
        let listed: u64 = segment.entries.iter().map(|entry| entry.sectors()).sum();
        let open = self.open.contains(&Some(index));
        let fits = match segment.state {
            SegmentState::Free => segment.filled == 0 && !open,
            SegmentState::Open => open,
            SegmentState::Closed => segment.room() == 0 && !open,
            SegmentState::Cleaned => self.job.as_ref().is_some_and(|job| job.victim == index),
        };
        if listed != u64::from(segment.filled) || !fits {
            return inconsistent(format!(
                "segment {index} is {:?} with {} of {} sectors written and {listed} in its list",
                segment.state, segment.filled, segment.place.sectors
            ));
        }
        Ok(())
    }
}
