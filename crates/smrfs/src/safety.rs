//! Rules for writes on a Caveat-Scriptor disk, and a checker that stands apart from the allocator.
//!
//! The rule is that of Kadekodi et al. 2015, section 4.2, granule by granule (the paper goes by whole regions, which is coarser). The
//! checker watches a disk of either model: every write, reset and discard is held against the rule before it reaches the disk.
//! It keeps its own account and asks neither the allocator nor the disk, save for the cursors at a mount. The rule that it
//! checks is that data written and not discarded may be read.
//!
//! On Caveat-Scriptor a change touches labels only so far as DID and DPID reach; those are counted before it and after it,
//! stretch by stretch. Where all of a stretch is older than what lies above it, or all is newer, nothing need be looked at
//! singly. On strict-append bands lie so far apart that DID and DPID never matter; within a band only what lies at the cursor
//! is written. R is what may be read, W what lies behind the cursors; all else is NW: dead data, gaps, and the rest of a band in
//! which a write has failed, whose cursor nobody knows.

use std::ops::Range;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use smrkit::tally::Cause;

use crate::data::{Data, ReadBuffer};
use crate::device::caveat::WriteOrder;
use crate::device::{BandReport, Bands, HostManaged, Model, stacked};
use crate::error::{DeviceError, DeviceResult, Violation};
use crate::map::Ranges;
use crate::units::{Granule, Span};

/// The granules of a disk by what may be done with them; their sum is the disk.
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
    /// Of `not_writable`: dead data that cleaning would win back.
    pub garbage: u64,
}

/// Live data, the order of writes, and the counts that follow.
struct SafetyLedger {
    did: u64,
    dpid: u64,
    granules: u64,
    live: Ranges,
    order: WriteOrder,
    totals: Totals,
}

/// Dead granules that are NW or WO.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Totals {
    not_writable: u64,
    write_once: u64,
}

impl SafetyLedger {
    /// An empty disk.
    fn new(granules: u64, did: u64, dpid: u64) -> SafetyLedger {
        let (live, order) = (Ranges::default(), WriteOrder::new(granules));
        SafetyLedger { did, dpid, granules, live, order, totals: Totals::default() }
    }

    fn counts(&self) -> Counts {
        let Totals { not_writable, write_once } = self.totals;
        let readable = self.live.count();
        let writable = self.granules - readable - not_writable - write_once;
        Counts { readable, not_writable, write_once, writable, ..Counts::default() }
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
        let reach = end.min(start.saturating_add(self.dpid));
        let newest = self.order.newest(start, reach);
        if newest == 0 || newest < self.oldest_above(start, start) {
            return Ok(());
        }
        self.second_write(start, reach)
    }

    /// The first of `start..reach` that was written after a live granule at most DPID upstream of it.
    fn second_write(&self, start: u64, reach: u64) -> Result<(), Violation> {
        for at in start..reach {
            let written = self.order.last_write(at);
            let older = |x: &u64| self.order.last_write(*x) <= written;
            if let Some(live) = self.live_above(at, start).find(|x| written > 0 && older(x)) {
                return Err(Violation::Upstream { at: Granule(at), live: Granule(live) });
            }
        }
        Ok(())
    }

    /// `span` is being written, and live from now on.
    fn write(&mut self, span: Span) {
        self.change(span, |books| {
            let number = books.order.next_number();
            books.order.put(span, number);
            books.live.cover(span.range(), ());
        });
    }

    /// `span` will not be read again.
    fn discard(&mut self, span: Span) {
        self.change(span, |books| drop(books.live.uncover(span.range())));
    }

    /// A mount: `live` may be read. The order of writes is kept, or nothing of it is known: then each granule may have been
    /// written after all above it.
    fn restart(&mut self, live: &[Span], keep_order: bool) {
        self.live = Ranges::default();
        for &span in live {
            self.live.cover(span.range(), ());
        }
        if !keep_order {
            let number = self.order.next_number();
            self.order.put(Span::new(0, self.granules), number);
        }
        self.totals = self.count(0, self.granules);
    }

    fn change(&mut self, span: Span, change: impl FnOnce(&mut SafetyLedger)) {
        let from = span.at.0.saturating_sub(self.did);
        let to = span.end().0.saturating_add(self.dpid).min(self.granules);
        let before = self.count(from, to);
        change(self);
        let after = self.count(from, to);
        self.totals.not_writable = self.totals.not_writable + after.not_writable - before.not_writable;
        self.totals.write_once = self.totals.write_once + after.write_once - before.write_once;
    }

    /// The dead granules of `from..to` that are NW or WO.
    fn count(&self, from: u64, to: u64) -> Totals {
        let mut totals = Totals::default();
        // Where the next dead stretch begins.
        let mut dead = self.live.before(from + 1).next().map_or(0, |(run, _)| run.end);
        for (run, _) in self.live.from(from + 1) {
            if dead >= to {
                return totals;
            }
            totals.add(self.count_stretch(dead, Some(run.start), from..to));
            dead = run.end;
        }
        totals.add(self.count_stretch(dead, None, from..to));
        totals
    }

    /// Counts what of a dead stretch, which the live run at `next` follows, is in `window`.
    fn count_stretch(&self, dead: u64, next: Option<u64>, window: Range<u64>) -> Totals {
        let end = next.unwrap_or(self.granules);
        let (first, last) = (dead.max(window.start), end.min(window.end));
        if first >= last {
            return Totals::default();
        }
        let within = |a: u64, b: u64| b.min(last).saturating_sub(a.max(first));
        // From here on DID forbids writes.
        let guard = next.map_or(end, |next| next.saturating_sub(self.did).max(dead));
        // Only above the disk's first stretch nothing is live.
        let reach = if dead > 0 { dead.saturating_add(self.dpid).min(guard) } else { 0 };
        let forbidden = self.count_scars(dead, first, reach.min(last));
        Totals { not_writable: within(guard, end) + forbidden, write_once: within(dead, reach) - forbidden }
    }

    /// Number of granules of `first..last`, in the dead stretch from `dead` on, that were written after a live granule within DPID above.
    fn count_scars(&self, dead: u64, first: u64, last: u64) -> u64 {
        if first >= last {
            return 0;
        }
        let newest = self.order.newest(first, last);
        if newest == 0 || newest < self.oldest_above(dead, first) {
            return 0;
        }
        let mut scars = 0;
        let mut oldest = u32::MAX;
        let mut runs = self.live.before(dead).map(|(run, _)| run).peekable();
        let mut seen = dead;
        // From below upwards, more and more of what lies above is within DPID.
        for at in (first..last).rev() {
            let edge = at.saturating_sub(self.dpid);
            while let Some(&Range { start, end }) = runs.peek() {
                let (from, to) = (start.max(edge), end.min(seen));
                if from < to {
                    oldest = oldest.min(self.order.oldest(from, to));
                    seen = from;
                }
                if edge > start {
                    break;
                }
                runs.next();
            }
            let written = self.order.last_write(at);
            scars += u64::from(written > 0 && written >= oldest);
        }
        scars
    }

    /// The lowest number of the live granules at most DPID upstream of `at` that lie before `dead`.
    fn oldest_above(&self, dead: u64, at: u64) -> u32 {
        let edge = at.saturating_sub(self.dpid);
        let runs = self.live.before(dead).map(|(run, _)| run).take_while(|run| run.end > edge);
        runs.map(|run| self.order.oldest(run.start.max(edge), run.end)).min().unwrap_or(u32::MAX)
    }

    /// Live granules at most DPID upstream of `at` that lie before `dead`, the nearest first.
    fn live_above(&self, at: u64, dead: u64) -> impl Iterator<Item = u64> + '_ {
        let edge = at.saturating_sub(self.dpid);
        let runs = self.live.before(dead).map(|(run, _)| run).take_while(move |run| run.end > edge);
        runs.flat_map(move |run| (run.start.max(edge)..run.end).rev())
    }
}

impl Totals {
    fn add(&mut self, other: Totals) {
        self.not_writable += other.not_writable;
        self.write_once += other.write_once;
    }
}

/// Live data, and each band's cursor.
struct BandLedger {
    bands: Bands,
    granules: u64,
    live: Ranges,
    filled: Vec<u64>,
    written: u64,
}

impl BandLedger {
    /// An empty disk.
    fn new(granules: u64, bands: Bands) -> BandLedger {
        BandLedger { bands, granules, live: Ranges::default(), filled: vec![0; bands.count as usize], written: 0 }
    }

    /// R, NW and W; there is no WO.
    fn counts(&self) -> Counts {
        let readable = self.live.count();
        let writable = self.bands.count * self.bands.granules - self.written;
        let not_writable = self.granules - readable - writable;
        Counts { readable, not_writable, writable, ..Counts::default() }
    }

    fn band_of(&self, span: Span) -> Result<u64, Violation> {
        let band = self.bands.band_at(span.at).ok_or(Violation::NotInOneBand { span })?;
        if self.bands.span(band).contains(span) { Ok(band) } else { Err(Violation::NotInOneBand { span }) }
    }

    fn cursor(&self, band: u64) -> Granule {
        self.bands.span(band).at + self.filled[band as usize]
    }

    fn fill(&mut self, band: u64, filled: u64) {
        self.written = self.written + filled - self.filled[band as usize];
        self.filled[band as usize] = filled;
    }

    /// Checks that `span` may be written by one command.
    fn may_write(&self, span: Span) -> Result<(), Violation> {
        let cursor = self.cursor(self.band_of(span)?);
        match self.live.first_from(span.at.0) {
            Some(at) if at < span.end().0 => Err(Violation::OverLive { at: Granule(at) }),
            _ if span.at != cursor => Err(Violation::NotAtCursor { at: span.at, cursor }),
            _ => Ok(()),
        }
    }

    /// `span`, which may be written, is being written, and live from now on.
    fn write(&mut self, span: Span) {
        if let Ok(band) = self.band_of(span) {
            self.live.cover(span.range(), ());
            self.fill(band, span.end() - self.bands.span(band).at);
        }
    }

    /// Takes a failed write out of the live data. Its band counts as full, because nobody knows where its cursor is.
    fn failed(&mut self, span: Span) {
        self.live.uncover(span.range());
        if let Ok(band) = self.band_of(span) {
            self.fill(band, self.bands.granules);
        }
    }

    /// `span` will not be read again.
    fn discard(&mut self, span: Span) {
        self.live.uncover(span.range());
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

    /// `band` has been reset.
    fn reset(&mut self, band: u64) {
        self.fill(band, 0);
    }

    /// A mount: `live` may be read, and the cursors are where the disk says.
    fn restart(&mut self, live: &[Span], report: &[BandReport]) {
        self.live = Ranges::default();
        for &span in live {
            self.live.cover(span.range(), ());
        }
        for (band, report) in (0..self.bands.count).zip(report) {
            self.fill(band, report.cursor - report.start);
        }
    }
}

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
    /// The disk beneath.
    pub disk: D,
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

    /// R, NW, WO and W now, granule by granule.
    pub fn counts(&self) -> Counts {
        match &self.watch.lock().books {
            CheckedLedger::Anywhere(ledger) => ledger.counts(),
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
