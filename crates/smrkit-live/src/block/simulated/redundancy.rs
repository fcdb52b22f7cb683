//! The redundancy of a served array: copies and parity are brought in step after a crash, and compared.

use std::collections::BTreeSet;
use std::ops::Range;

use smrkit::device::{Array, Command};
use smrkit::error::{DiskResult, Fault};
use smrkit::medium::Buf;
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos};

use super::Simulated;
use crate::block::unsettled::{Begun, Unsettled};
use crate::block::written::Written;

/// Sectors of each drive that are compared, or brought in step, at a time (assumption).
const OWN_WORK_SECTORS: u64 = 1024;

impl Simulated {
    /// Other copies become the first, and parity that of the data, where writes may have been caught half done.
    pub(super) fn bring_in_step(&mut self) -> DiskResult {
        for (sectors, begun) in self.unsettled.as_ref().map_or_else(Vec::new, Unsettled::extents) {
            self.renew(sectors, begun)?;
        }
        let flush = Request::new(Op::Flush, Lba(0), 0);
        self.serve_at(&flush, (self.now, Nanos::ZERO), Buf::NoData).map(drop)
    }

    fn renew(&mut self, Range { start, end }: Range<u64>, begun: Begun) -> DiskResult {
        if begun == Begun::Discard {
            let request = Request::new(Op::Discard, Lba(start), (end - start) as u32);
            let (arrival, data) = (self.now, Buf::NoData);
            self.member.submit(Command { tag: 0, request, arrival, host: false, data })?;
            return self.end_own_work();
        }
        let Some(layout) = self.array().map(Array::layout) else { return Ok(()) };
        let rows = match layout.parities() {
            0 => start..end,
            // Whole stripes, by their place on the members.
            _ => {
                let (stripe, chunk) = (layout.stripe_sectors(), layout.chunk_sectors());
                start / stripe * chunk..end / stripe * chunk
            }
        };
        for first in rows.clone().step_by(OWN_WORK_SECTORS as usize) {
            self.work(|array, now| array.resync(Lba(first), OWN_WORK_SECTORS.min(rows.end - first), now))?;
        }
        Ok(())
    }

    /// Lets the array begin work of its own, and that come to its end.
    fn work(&mut self, begin: impl FnOnce(&mut Array, Nanos) -> DiskResult) -> DiskResult {
        let now = self.now;
        self.member.array_mut().map_or(Ok(()), |array| begin(array, now))?;
        self.end_own_work()
    }

    fn end_own_work(&mut self) -> DiskResult {
        while self.step(Nanos::MAX)? {}
        while self.member.array_mut().and_then(Array::take_done).is_some() {}
        self.done.clear();
        Ok(())
    }

    /// Compares an array's copies with each other and parity with data, where `host` has anything.
    pub(in crate::block) fn compare(&mut self, host: &mut Written) -> DiskResult {
        let Some(array) = self.array().filter(|array| array.is_redundant()) else { return Ok(()) };
        let layout = array.layout();
        // By the places on the members.
        let mut parts = BTreeSet::new();
        for run in host.runs(0..layout.host_sectors()).map_err(Fault::Io)? {
            for piece in layout.pieces(Lba(run.start), run.end - run.start) {
                for (_, at) in (0..layout.copies()).map(|copy| layout.copy(piece.lba, copy)) {
                    parts.extend(at.0 / OWN_WORK_SECTORS..(at.0 + piece.sectors).div_ceil(OWN_WORK_SECTORS));
                }
            }
        }
        for part in parts {
            self.work(|array, now| array.scrub(Lba(part * OWN_WORK_SECTORS), OWN_WORK_SECTORS, now))?;
        }
        Ok(())
    }
}
