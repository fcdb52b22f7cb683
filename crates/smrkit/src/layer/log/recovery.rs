//! After a power cut: the map from the labels on the platters, and nothing else.
//!
//! 1. Every segment is read. Of two versions of an LBA the one with the higher order counts, of two copies the later.
//! 2. Requests are written one after another, so that only the last write of the log can belong to a torn one: one whose
//!    last sector is nowhere. What it had written is left out.
//! 3. What lies behind a segment's last live sector can be written again (after the DPID, which a second write would
//!    wear), in a zone behind the last one with a label: the segments with the most of it are the open ones.
//! 4. The torn request's sectors get what they held before once more, as newer than it, before anything else is
//!    written. A cut in the middle of this finds the same request torn, and goes on.
//! 5. Free segments lose their labels.

use super::label::{LabelKind, LogLabel};
use super::table::FoundData;
use super::{Log, inconsistent};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::extent_map::ExtentMap;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

/// Sectors read at a time; a stretch of this many without a label ends a segment. 2 MiB: assumption.
const SCAN_SECTORS: u64 = 4096;

/// Sectors with labels that go on from one another.
#[derive(Clone, Copy)]
struct LabelledRun {
    /// The first one's.
    label: LogLabel,
    sectors: u64,
    pba: Pba,
}

impl LabelledRun {
    fn joins(&mut self, label: LogLabel, pba: Pba) -> bool {
        let expected = LogLabel {
            lba: self.label.lba + self.sectors,
            left: self.label.left.saturating_sub(self.sectors),
            ..self.label
        };
        let joins = label == expected && pba == self.pba + self.sectors;
        self.sectors += u64::from(joins);
        joins
    }

    /// True if a request ends with the last of these.
    fn ends_request(&self) -> bool {
        self.label.kind == LabelKind::Host && self.label.left + 1 == self.sectors
    }
}

impl Log {
    pub(super) fn rebuild(&mut self, disk: &mut Disk) -> DiskResult {
        let mut found = Vec::new();
        for index in 0..self.segments.len() {
            self.scan(disk, index as u32, &mut found)?;
        }
        let torn = torn_order(&found);
        let last = found.iter().max_by_key(|found| found.label.serial);
        self.serial = last.map_or(0, |last| last.label.serial);
        let last = last.map(|last| last.pba);
        self.age = self.serial;
        let (lost, mut kept): (Vec<LabelledRun>, Vec<LabelledRun>) =
            found.into_iter().partition(|found| Some(found.label.order) == torn);
        kept.sort_by_key(|found| (found.label.order, found.label.serial));
        for found in &kept {
            self.map.insert(found.label.lba, found.sectors, found.pba);
        }
        self.count_live(disk.interference().upstream(), &lost, &kept, last);
        self.put_back(disk, &lost, &kept)?;
        self.reset_emptied();
        self.segments.erase_free(disk)
    }

    /// Reads the labels of a segment.
    fn scan(&self, disk: &mut Disk, index: u32, all: &mut Vec<LabelledRun>) -> DiskResult {
        let place = self.segments.get(index).place;
        let step = SCAN_SECTORS.max(disk.interference().upstream() + 1);
        for at in (0..u64::from(place.sectors)).step_by(step as usize) {
            let (from, n) = (place.start + at, step.min(u64::from(place.sectors) - at));
            let labels = disk.read_labels(from, n, Cause::Map)?;
            if labels.is_empty() {
                break;
            }
            for (i, words) in labels {
                let Some(label) = LogLabel::parse(words) else { continue };
                if label.lba.0 >= self.capacity.host_sectors {
                    continue;
                }
                if !all.last_mut().is_some_and(|last| last.joins(label, from + i)) {
                    all.push(LabelledRun { label, sectors: 1, pba: from + i });
                }
            }
        }
        Ok(())
    }

    /// Gives each segment its live sectors and its use, as the map has it.
    fn count_live(&mut self, upstream: u64, lost: &[LabelledRun], kept: &[LabelledRun], last: Option<Pba>) {
        let mut all = vec![FoundData::default(); self.segments.len()];
        for (mut lba, mut n, mut pba) in self.map.mapped(Lba(0), self.capacity.host_sectors) {
            while n > 0 {
                let (at, count) = self.segments.part_at(pba, n);
                all[at as usize].live.push((pba, lba, count));
                (lba, n, pba) = (lba + count, n - count, pba + count);
            }
        }
        let index = |pba| self.segments.part_at(pba, 1).0 as usize;
        for found in lost.iter().chain(kept) {
            let data = &mut all[index(found.pba)];
            data.is_labelled = true;
            if self.rules.resets {
                data.end = (found.pba + found.sectors).max(data.end);
            }
        }
        for found in kept {
            let data = &mut all[index(found.pba)];
            data.last_write = found.label.serial.max(data.last_write);
            data.youngest = data.youngest.max(found.label.order / 2);
        }
        let last = last.map(|pba| index(pba) as u32);
        self.segments.restore(all, upstream, last);
    }

    /// Writes what the sectors of a torn request held before it, as newer than it; zeros where that was nothing.
    fn put_back(&mut self, disk: &mut Disk, lost: &[LabelledRun], kept: &[LabelledRun]) -> DiskResult {
        let Some(order) = lost.first().map(|found| found.label.order + 1) else { return Ok(()) };
        let mut done = ExtentMap::new();
        for found in kept.iter().filter(|found| found.label.order == order) {
            done.insert(found.label.lba, found.sectors, found.pba);
        }
        for found in lost {
            let missing = done.pieces(found.label.lba, found.sectors).filter(|piece| piece.pba.is_none());
            for piece in missing.collect::<Vec<_>>() {
                self.put_back_piece(disk, piece.lba, piece.sectors, order)?;
            }
        }
        Ok(())
    }

    pub(super) fn put_back_piece(&mut self, disk: &mut Disk, lba: Lba, n: u64, order: u64) -> DiskResult {
        if self.segments.free().sectors() + self.segments.room(0) < n {
            return inconsistent(format!("{n} sectors of a torn request find no room"));
        }
        let mut before = disk.buf(n);
        for (at, sectors, pba) in self.map.mapped(lba, n) {
            disk.read(pba, sectors, Cause::Clean, &mut before, at - lba)?;
        }
        let mut done = 0;
        while done < n {
            let label = |i| LogLabel { lba: lba + (done + i), left: 0, order, kind: LabelKind::Repair, serial: 0 };
            let (index, pba, sectors) = self.append(disk, 0, n - done, Cause::Clean, &before, done, label)?;
            self.note(lba + done, sectors, pba, index);
            self.segments.settle(index, self.age);
            done += sectors;
        }
        Ok(())
    }
}

/// The order of the request that a cut left torn, in this recovery or in an earlier one that was cut too.
fn torn_order(found: &[LabelledRun]) -> Option<u64> {
    let last = found.iter().max_by_key(|found| found.label.serial)?.label;
    let whole = || found.iter().any(|found| found.label.order == last.order && found.ends_request());
    match last.kind {
        LabelKind::Host => (!whole()).then_some(last.order),
        LabelKind::Copy => None,
        LabelKind::Repair => Some(last.order - 1),
    }
}
