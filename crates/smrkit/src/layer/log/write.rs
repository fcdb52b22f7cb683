//! Requests of the host, written at the log's end: whole or absent after a power cut.

use super::Log;
use super::label::{LabelKind, LogLabel};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

/// A stretch of a request that has been written in one piece.
#[derive(Clone, Copy)]
pub(super) struct WrittenStretch {
    pub(super) lba: Lba,
    pub(super) sectors: u64,
    pub(super) pba: Pba,
    pub(super) segment: u32,
}

impl Log {
    /// Writes a request of the host, or a part of one, that is whole or absent after a power cut.
    ///
    /// The map follows when all of it is written: what it replaces stays live until then, and is not cleaned away.
    #[inline]
    pub(super) fn write_whole(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf, at: u64) -> DiskResult {
        let stream = self.stream(lba);
        if n > self.segments.room(stream) {
            self.make_room(disk, stream, n)?;
        }
        self.age += n;
        let order = 2 * (self.serial + 1);
        self.parts.clear();
        let mut done = 0;
        while done < n {
            let label = |i| LogLabel {
                lba: lba + (done + i),
                left: n - 1 - (done + i),
                order,
                kind: LabelKind::Host,
                serial: 0,
            };
            let (segment, pba, sectors) = self.append(disk, stream, n - done, Cause::Host, data, at + done, label)?;
            self.parts.push(WrittenStretch { lba: lba + done, sectors, pba, segment });
            done += sectors;
        }
        for i in 0..self.parts.len() {
            let part = self.parts[i];
            self.note(part.lba, part.sectors, part.pba, part.segment);
            self.segments.settle(part.segment, self.age);
        }
        self.parts.clear();
        self.reset_emptied();
        if self.segments.free().has_labels() { self.segments.erase_free(disk) } else { Ok(()) }
    }
}
