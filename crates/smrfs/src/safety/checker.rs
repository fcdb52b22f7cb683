//! A disk that is watched: every write, reset and discard is held against the safety rule, before it reaches the disk.
//!
//! Checker of the rule that data written and not discarded may be read. It keeps its own account and asks neither the allocator nor
//! the disk, save for the cursors at a mount.

use parking_lot::Mutex;
use smrkit::tally::Cause;

use super::Counts;
use super::bands::BandLedger;
use super::ledger::SafetyLedger;
use crate::data::{Data, ReadBuffer};
use crate::device::stacked;
use crate::device::{HostManaged, Model};
use crate::error::{DeviceError, DeviceResult, Violation};
use crate::units::{Granule, Span};

/// Order of past writes, as it is known after a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All of it, as the platters have it: the truth.
    Kept,
    /// Nothing, as a host has it: any granule may have been written after all those upstream.
    Forgotten,
}

/// A disk and a checker in front of it.
pub struct Watched<D> {
    disk: D,
    watch: Mutex<CheckerState>,
}

struct CheckerState {
    books: CheckedLedger,
    first: Option<Violation>,
    violations: u64,
}

enum CheckedLedger {
    Anywhere(SafetyLedger),
    Bands(BandLedger),
}

impl<D: HostManaged> Watched<D> {
    /// Watches `disk`, which is empty; one that is not needs a [`Watched::restart`].
    pub fn new(disk: D) -> Watched<D> {
        let shape = disk.shape();
        let books = match shape.model {
            Model::Caveat => CheckedLedger::Anywhere(SafetyLedger::new(shape.granules, shape.did, shape.dpid)),
            Model::StrictAppend => CheckedLedger::Bands(BandLedger::new(shape.granules, shape.bands)),
        };
        Watched { disk, watch: Mutex::new(CheckerState { books, first: None, violations: 0 }) }
    }

    /// A mount: only `live` may be read. Cursors are taken from the disk's report.
    pub fn restart(&self, live: &[Span], order: Order) -> DeviceResult {
        let report = self.disk.report(0, self.disk.shape().bands.count)?;
        match &mut self.watch.lock().books {
            CheckedLedger::Anywhere(ledger) => ledger.restart(live, order == Order::Kept),
            CheckedLedger::Bands(ledger) => ledger.restart(live, &report),
        }
        Ok(())
    }

    /// The disk beneath.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// R, NW, WO and W now, granule by granule.
    pub fn counts(&self) -> Counts {
        match &self.watch.lock().books {
            CheckedLedger::Anywhere(ledger) => ledger.counts(),
            CheckedLedger::Bands(ledger) => ledger.counts(),
        }
    }

    /// Counts by the paper's regions (no other on strict-append), counted anew.
    pub fn region_counts(&self) -> Counts {
        match &self.watch.lock().books {
            CheckedLedger::Anywhere(ledger) => ledger.region_counts(),
            CheckedLedger::Bands(ledger) => ledger.counts(),
        }
    }

    /// The first violation, if there was any.
    pub fn violation(&self) -> Option<Violation> {
        self.watch.lock().first
    }

    /// Number of violations.
    pub fn violations(&self) -> u64 {
        self.watch.lock().violations
    }

    /// Remembers a violation that the disk has refused by itself.
    fn noted<T>(&self, result: DeviceResult<T>) -> DeviceResult<T> {
        if let Err(DeviceError::Violation(violation)) = &result {
            self.watch.lock().note(*violation);
        }
        result
    }
}

impl CheckerState {
    fn note(&mut self, violation: Violation) {
        self.first.get_or_insert(violation);
        self.violations += 1;
    }

    /// Verdict by the rule, remembered if it is a violation.
    fn judge(&mut self, verdict: Result<(), Violation>) -> DeviceResult {
        if let Err(violation) = verdict {
            self.note(violation);
        }
        Ok(verdict?)
    }

    fn begin_write(&mut self, span: Span) -> DeviceResult {
        let verdict = match &self.books {
            CheckedLedger::Anywhere(ledger) => ledger.may_write(span),
            CheckedLedger::Bands(ledger) => ledger.may_write(span),
        };
        self.judge(verdict)?;
        match &mut self.books {
            CheckedLedger::Anywhere(ledger) => ledger.write(span),
            CheckedLedger::Bands(ledger) => ledger.write(span),
        }
        Ok(())
    }

    fn write_failed(&mut self, span: Span) {
        match &mut self.books {
            // What may have been written and is not read is a scar.
            CheckedLedger::Anywhere(ledger) => ledger.discard(span),
            CheckedLedger::Bands(ledger) => ledger.failed(span),
        }
    }
}

impl<D: HostManaged> stacked::Stacked for Watched<D> {
    type Below = D;

    fn below(&self) -> &D {
        &self.disk
    }

    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        self.noted(self.disk.read(at, room, cause))
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let span = self.noted(self.disk.shape().span(at, data.bytes()))?;
        self.watch.lock().begin_write(span)?;
        let result = self.noted(self.disk.write(at, data, cause));
        if result.is_err() {
            self.watch.lock().write_failed(span);
        }
        result
    }

    fn reset(&self, band: u64) -> DeviceResult {
        {
            let mut watch = self.watch.lock();
            if let CheckedLedger::Bands(ledger) = &watch.books {
                let verdict = ledger.may_reset(band);
                watch.judge(verdict)?;
            }
        }
        self.noted(self.disk.reset(band))?;
        if let CheckedLedger::Bands(ledger) = &mut self.watch.lock().books {
            ledger.reset(band);
        }
        Ok(())
    }

    fn discard(&self, span: Span) {
        match &mut self.watch.lock().books {
            CheckedLedger::Anywhere(ledger) => ledger.discard(span),
            CheckedLedger::Bands(ledger) => ledger.discard(span),
        }
        self.disk.discard(span);
    }
}
