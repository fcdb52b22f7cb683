//! Writing at the log's end: open, closed and free segments, and the map.

use super::label::LogLabel;
use super::segment::{Entries, SegmentEntry, SegmentState};
use super::{Log, inconsistent};
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
        let index = self.open_segment(disk, stream)?;
        let segment = &mut self.segments[index as usize];
        let (pba, sectors) = (segment.head(), n.min(segment.room()));
        self.serial += 1;
        if disk.holds_data() {
            let serial = self.serial;
            let labels: Vec<_> = (0..sectors).map(|i| LogLabel { serial, ..label(i) }.words()).collect();
            disk.write_parts(pba, cause, &[WritePart::Labelled { buf: data, at, sectors, labels: &labels }])?;
        } else {
            disk.write(pba, sectors, cause, data, at)?;
        }
        segment.filled += sectors as u32;
        self.log_sectors += sectors;
        self.last_written = Some(index);
        Ok((index, pba, sectors))
    }

    /// Points the map to what has been written.
    #[inline]
    pub(super) fn note(&mut self, lba: Lba, sectors: u64, pba: Pba, index: u32) {
        self.forget(lba, sectors);
        self.map.insert(lba, sectors, pba);
        self.live_sectors += sectors;
        let segment = &mut self.segments[index as usize];
        segment.live += sectors as u32;
        if !segment.entries.last_mut().is_some_and(|last| last.joins(lba, sectors)) {
            segment.entries.push(SegmentEntry::new(lba, sectors));
            self.entries += 1;
        }
    }

    /// Counts what the map points to there as dead.
    #[inline]
    pub(super) fn forget(&mut self, lba: Lba, n: u64) {
        for (_, mut sectors, mut pba) in self.map.mapped(lba, n) {
            // Where segments need no guard, an extent may go on into the next.
            while sectors > 0 {
                let at = self.layout.segment_at(pba);
                let segment = &mut self.segments[at];
                let end = segment.place.start + u64::from(segment.place.sectors);
                let count = sectors.min(end - pba);
                segment.live -= count as u32;
                self.live_sectors -= count;
                if segment.state == SegmentState::Closed {
                    self.closed_dead += count;
                    self.victims.shrunk(&mut self.segments, at as u32);
                    if self.rules.resets && self.segments[at].live == 0 {
                        self.emptied.push(at as u32);
                    }
                }
                (sectors, pba) = (sectors - count, pba + count);
            }
        }
    }

    /// Sectors that a stream can write before it needs another segment.
    #[inline]
    pub(super) fn room(&self, stream: u8) -> u64 {
        self.open[usize::from(stream)].map_or(0, |at| self.segments[at as usize].room())
    }

    /// The segment that a stream writes to, with room.
    #[inline]
    fn open_segment(&mut self, disk: &mut Disk, stream: u8) -> DiskResult<u32> {
        match self.open[usize::from(stream)] {
            Some(at) if self.segments[at as usize].room() > 0 => Ok(at),
            _ => self.open_another(disk, stream),
        }
    }

    fn open_another(&mut self, disk: &mut Disk, stream: u8) -> DiskResult<u32> {
        self.erase_free(disk)?;
        let Some(at) = self.free.pop_front() else {
            return Err(inconsistent("no segment is free".into()).unwrap_err());
        };
        let segment = &mut self.segments[at as usize];
        self.free_sectors -= u64::from(segment.place.sectors);
        self.labelled.retain(|&labelled| labelled != at);
        (segment.state, segment.stream, segment.youngest) = (SegmentState::Open, stream, 0);
        self.open[usize::from(stream)] = Some(at);
        Ok(at)
    }

    /// A full segment is closed, and may be cleaned from now on.
    #[inline]
    pub(super) fn close_if_full(&mut self, index: u32) {
        if self.segments[index as usize].room() == 0 {
            self.close(index);
        }
    }

    pub(super) fn close(&mut self, index: u32) {
        let segment = &mut self.segments[index as usize];
        segment.state = SegmentState::Closed;
        segment.entries.shrink_to_fit();
        self.closed_dead += segment.dead();
        let open = &mut self.open[usize::from(segment.stream)];
        if *open == Some(index) {
            *open = None;
        }
        self.victims.add(&mut self.segments, index);
        if self.rules.resets && self.segments[index as usize].live == 0 {
            self.emptied.push(index);
        }
    }

    pub(super) fn free_segment(&mut self, index: u32) {
        let segment = &mut self.segments[index as usize];
        self.log_sectors -= u64::from(segment.filled);
        self.entries -= segment.entries.len() as u64;
        segment.entries = Entries::new();
        (segment.state, segment.filled) = (SegmentState::Free, 0);
        self.free_sectors += u64::from(segment.place.sectors);
        self.free.push_back(index);
        self.labelled.push(index);
    }

    /// Frees the closed segments of which nothing is live any more.
    #[cold]
    pub(super) fn reset_emptied(&mut self) {
        while let Some(index) = self.emptied.pop() {
            self.closed_dead -= self.segments[index as usize].dead();
            self.victims.remove(&self.segments, index);
            self.free_segment(index);
            self.counts.resets += 1;
        }
    }

    /// Takes the labels off free segments: those of sectors that were trimmed since would come back as live after a power cut,
    /// and segments that were free would be no more. The last write's stay until there is another, or until its segment is the next
    /// one to be written: without them the request before it might pass for torn.
    #[cold]
    pub(super) fn erase_free(&mut self, disk: &mut Disk) -> DiskResult {
        for index in std::mem::take(&mut self.labelled) {
            if self.last_written == Some(index) {
                self.labelled.push(index);
                continue;
            }
            let place = self.segments[index as usize].place;
            disk.erase(place.start, u64::from(place.sectors))?;
        }
        Ok(())
    }
}
