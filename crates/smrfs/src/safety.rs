//! Safety rules for writes on a Caveat-Scriptor disk, and a checker that is independent of the allocator.
//!
//! The rules are those of Kadekodi et al. 2015, section 4.2, granule by granule (the paper uses whole regions, which is coarser). The
//! checker keeps its own account of a disk of either model, and asks neither the allocator nor the disk. It refuses writes and resets that
//! would make data unreadable that was written and not discarded:
//!
//! - On Caveat-Scriptor, a write damages live data up to DID downstream. A granule may be written once after live data up to DPID upstream
//!   of it was written; a second write damages that data.
//! - On strict-append, bands are so far apart that DID and DPID never matter; within a band, writes go to the cursor only.

#[cfg(any(test, feature = "testing"))]
#[path = "../tests/testing/counts.rs"]
pub mod counts;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use smrkit::tally::Cause;

use crate::data::Data;
use crate::device::{Bands, HostManaged, Model, Shape, stacked};
use crate::error::{DeviceResult, Violation};
use crate::map::Ranges;
use crate::units::{Granule, Span};

/// The granules of a disk by the accesses that they allow. Their sum is the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// R: may be read (live and retired).
    pub readable: u64,
    /// NW: must not be written.
    pub not_writable: u64,
    /// WO: may be written once.
    pub write_once: u64,
    /// W: may be written.
    pub writable: u64,
    /// Of `readable`: no longer in a map, and not yet released.
    pub retired: u64,
    /// Of `not_writable`: dead data that cleaning would free.
    pub garbage: u64,
}

/// Live data and the order of writes.
struct SafetyLedger {
    did: u64,
    dpid: u64,
    live: Ranges,
    order: WriteOrder,
}

impl SafetyLedger {
    /// Checks that no granule of `start..reach` was last written after a live granule at most DPID upstream of it.
    fn check_rewritten(&self, start: u64, reach: u64) -> Result<(), Violation> {
        for at in start..reach {
            let written = self.order.last_write(at);
            // Of granules with one number, the one downstream was written later, so this one counts as newer than `x`.
            let older = |x: &u64| self.order.last_write(*x) <= written;
            if let Some(live) = self.live_above(at, start).find(|x| written > 0 && older(x)) {
                return Err(Violation::Upstream { at: Granule(at), live: Granule(live) });
            }
        }
        Ok(())
    }

    /// The lowest write number of the live granules before `before` that are at most DPID upstream of `at`.
    fn oldest_live_upstream(&self, at: u64, before: u64) -> u32 {
        let edge = at.saturating_sub(self.dpid);
        let runs = self.live.before(before).map(|(run, _)| run).take_while(|run| run.end > edge);
        runs.map(|run| self.order.oldest(run.start.max(edge), run.end)).min().unwrap_or(u32::MAX)
    }

    /// Live granules before `dead` that are at most DPID upstream of `at`, the nearest first.
    fn live_above(&self, at: u64, dead: u64) -> impl Iterator<Item = u64> + '_ {
        let edge = at.saturating_sub(self.dpid);
        let runs = self.live.before(dead).map(|(run, _)| run).take_while(move |run| run.end > edge);
        runs.flat_map(move |run| (run.start.max(edge)..run.end).rev())
    }

    /// Checks that one command may write `span`.
    fn may_write(&self, span: Span) -> Result<(), Violation> {
        let (start, end) = (span.at.0, span.end().0);
        match self.live.first_from(start) {
            Some(live) if live < end => return Err(Violation::OverLive { at: Granule(live) }),
            Some(live) if live <= (end - 1).saturating_add(self.did) => {
                let at = Granule(start.max(live.saturating_sub(self.did)));
                return Err(Violation::Downstream { at, live: Granule(live) });
            }
            _ => {}
        }
        // Live data upstream ends before `start`, so only the first DPID granules of the span reach it.
        let reach = end.min(start.saturating_add(self.dpid));
        // Usually nothing here was written before, or all of it before the live data in reach. That saves a look at each granule.
        let newest = self.order.newest(start, reach);
        let was_never_written = newest == 0;
        if was_never_written || newest < self.oldest_live_upstream(start, start) {
            return Ok(());
        }
        self.check_rewritten(start, reach)
    }
}

/// The number of the last write command of each granule, or 0. If two granules have the same number, the one downstream was written later.
#[derive(Clone)]
pub struct WriteOrder {
    last: Vec<u32>,
    writes: u32,
}

impl WriteOrder {
    /// A disk of `granules`, never written.
    pub fn new(granules: u64) -> WriteOrder {
        WriteOrder { last: vec![0; granules as usize], writes: 0 }
    }

    /// The number of the last write of `at`; 0 if it was never written.
    #[inline]
    pub fn last_write(&self, at: u64) -> u32 {
        self.last[at as usize]
    }

    /// The numbers of the granules `from..to`.
    #[inline]
    pub fn within(&self, from: u64, to: u64) -> &[u32] {
        &self.last[from as usize..to as usize]
    }

    /// The highest number in `from..to`; 0 if there is none.
    #[inline]
    pub fn newest(&self, from: u64, to: u64) -> u32 {
        if from < to { self.within(from, to).iter().fold(0, |a, &b| a.max(b)) } else { 0 }
    }

    /// The lowest number in `from..to`; the highest possible if that is empty.
    #[inline]
    pub fn oldest(&self, from: u64, to: u64) -> u32 {
        if from < to { self.within(from, to).iter().fold(u32::MAX, |a, &b| a.min(b)) } else { u32::MAX }
    }

    /// The number of the next write command, higher than all before, which are renumbered when the numbers run out.
    pub fn next_number(&mut self) -> u32 {
        // `oldest` returns u32::MAX for nothing.
        if self.writes == u32::MAX - 1 {
            self.renumber();
        }
        self.writes += 1;
        self.writes
    }

    /// Notes that the command `number` has written `span`.
    #[inline]
    pub fn put(&mut self, span: Span, number: u32) {
        self.last[span.at.0 as usize..span.end().0 as usize].fill(number);
    }

    /// Renumbers the commands that are still the last of a granule from 1 on, in the same order.
    fn renumber(&mut self) {
        let mut numbers: Vec<u32> = self.last.iter().copied().filter(|&number| number > 0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in self.last.iter_mut().filter(|number| **number > 0) {
            *number = numbers.partition_point(|other| other < number) as u32 + 1;
        }
        self.writes = numbers.len() as u32;
    }
}

/// Live data, and each band's cursor.
struct BandLedger {
    bands: Bands,
    live: Ranges,
    /// Granules of each band before its cursor.
    filled: Vec<u64>,
}

impl BandLedger {
    /// Checks that one command may write `span`.
    fn may_write(&self, span: Span) -> Result<(), Violation> {
        let band = self.bands.band_of(span)?;
        let cursor = self.bands.span(band).at + self.filled[band as usize];
        match self.live.first_from(span.at.0) {
            Some(at) if at < span.end().0 => Err(Violation::OverLive { at: Granule(at) }),
            _ if span.at != cursor => Err(Violation::NotAtCursor { at: span.at, cursor }),
            _ => Ok(()),
        }
    }

    /// Checks that `band` may be reset.
    fn may_reset(&self, band: u64) -> Result<(), Violation> {
        let bands = self.bands.count;
        if band >= bands {
            return Err(Violation::NoSuchBand { band, bands });
        }
        let span = self.bands.span(band);
        match self.live.first_from(span.at.0) {
            Some(at) if at < span.end().0 => Err(Violation::ResetOfLive { at: Granule(at) }),
            _ => Ok(()),
        }
    }
}

/// A disk with a checker in front of it.
pub struct Watched<D> {
    /// The disk beneath.
    pub disk: D,
    ledger: Mutex<CheckedLedger>,
}

/// The rule of one model, and the record of past writes that it needs.
enum CheckedLedger {
    Anywhere(SafetyLedger),
    Bands(BandLedger),
}

impl CheckedLedger {
    fn live(&mut self) -> &mut Ranges {
        match self {
            CheckedLedger::Anywhere(SafetyLedger { live, .. }) | CheckedLedger::Bands(BandLedger { live, .. }) => live,
        }
    }

    /// Notes a write of `span`, which is live from now on, if the rule allows it.
    fn write(&mut self, span: Span) -> Result<(), Violation> {
        match self {
            CheckedLedger::Anywhere(ledger) => {
                ledger.may_write(span)?;
                let number = ledger.order.next_number();
                ledger.order.put(span, number);
            }
            CheckedLedger::Bands(ledger) => {
                ledger.may_write(span)?;
                let band = ledger.bands.band_of(span)?;
                ledger.filled[band as usize] = span.end() - ledger.bands.span(band).at;
            }
        }
        self.live().cover(span.range(), ());
        Ok(())
    }

    /// Notes that the write of `span` has failed: any part of it may have been written, and none of it will be read.
    fn write_failed(&mut self, span: Span) {
        self.live().uncover(span.range());
        if let CheckedLedger::Bands(ledger) = self
            && let Ok(band) = ledger.bands.band_of(span)
        {
            // The position of its cursor is unknown, so the band counts as full.
            ledger.filled[band as usize] = ledger.bands.granules;
        }
    }
}

impl<D: HostManaged> Watched<D> {
    /// Watches `disk`, which is empty.
    pub fn new(disk: D) -> Watched<D> {
        let Shape { model, granules, did, dpid, bands, .. } = *disk.shape();
        let live = Ranges::default();
        let ledger = match model {
            Model::Caveat => {
                let order = WriteOrder::new(granules);
                CheckedLedger::Anywhere(SafetyLedger { did, dpid, live, order })
            }
            Model::StrictAppend => {
                CheckedLedger::Bands(BandLedger { bands, live, filled: vec![0; bands.count as usize] })
            }
        };
        Watched { disk, ledger: Mutex::new(ledger) }
    }
}

impl<D: HostManaged> stacked::Stacked for Watched<D> {
    type Below = D;

    fn below(&self) -> &D {
        &self.disk
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let span = self.disk.shape().span(at, data.bytes())?;
        // Noted before the write, so that another thread's write beside it is judged by it.
        self.ledger.lock().write(span)?;
        let result = self.disk.write(at, data, cause);
        if result.is_err() {
            self.ledger.lock().write_failed(span);
        }
        result
    }

    fn reset(&self, band: u64) -> DeviceResult {
        // A disk without bands refuses that itself.
        if let CheckedLedger::Bands(ledger) = &*self.ledger.lock() {
            ledger.may_reset(band)?;
        }
        self.disk.reset(band)?;
        if let CheckedLedger::Bands(ledger) = &mut *self.ledger.lock() {
            ledger.filled[band as usize] = 0;
        }
        Ok(())
    }

    fn discard(&self, span: Span) {
        self.ledger.lock().live().uncover(span.range());
        self.disk.discard(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_run_out_are_given_anew_in_the_same_order() {
        let mut order = WriteOrder::new(4);
        for (at, number) in [(0, 70_000), (2, 5), (3, 4_000_000_000)] {
            order.put(Span::new(at, 1), number);
        }
        order.writes = u32::MAX - 1;
        assert_eq!(order.next_number(), 4);
        assert_eq!(order.within(0, 4), [2, 0, 1, 3]);
        assert_eq!((order.newest(0, 3), order.oldest(2, 4), order.newest(1, 1)), (2, 1, 0));
    }
}
