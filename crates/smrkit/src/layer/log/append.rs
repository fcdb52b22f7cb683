//! Writing at the log's end, and what the map points to.

use super::Log;
use super::label::LogLabel;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::medium::{Buf, WritePart};
use crate::tally::Cause;
use crate::units::{Lba, Pba};

impl Log {
    /// Writes the first of `n` sectors of `data`, from its sector `at` on, as far as the open segment has room:
    /// (segment, where, how many). `label` says what a sector carries, counted from the first; its serial is given here.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn append(
        &mut self,
        disk: &mut Disk,
        stream: u8,
        n: u64,
        cause: Cause,
        data: &Buf,
        at: u64,
        label: impl Fn(u64) -> LogLabel,
    ) -> DiskResult<(u32, Pba, u64)> {
        let index = self.segments.open_segment(disk, stream)?;
        let segment = self.segments.get(index);
        let (pba, sectors) = (segment.head(), n.min(segment.room()));
        self.serial += 1;
        if disk.holds_data() {
            let serial = self.serial;
            let labels: Vec<_> = (0..sectors).map(|i| LogLabel { serial, ..label(i) }.words()).collect();
            disk.write_parts(pba, cause, &[WritePart::Labelled { buf: data, at, sectors, labels: &labels }])?;
        } else {
            disk.write(pba, sectors, cause, data, at)?;
        }
        self.segments.wrote(index, sectors);
        Ok((index, pba, sectors))
    }

    /// Points the map to what has been written.
    #[inline]
    pub(super) fn note(&mut self, lba: Lba, sectors: u64, pba: Pba, index: u32) {
        self.forget(lba, sectors);
        self.map.insert(lba, sectors, pba);
        self.segments.add_live(index, lba, sectors);
    }

    /// Counts what the map points to there as dead.
    #[inline]
    pub(super) fn forget(&mut self, lba: Lba, n: u64) {
        for (_, sectors, pba) in self.map.mapped(lba, n) {
            self.segments.remove_live(pba, sectors);
        }
    }

    /// Frees the closed segments of which nothing is live any more.
    #[inline]
    pub(super) fn reset_emptied(&mut self) {
        if self.segments.has_emptied() {
            self.counts.resets += self.segments.free_emptied();
        }
    }
}
