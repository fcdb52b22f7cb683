//! Mounts of a watched disk, and the counts of the checker.
//!
//! On Caveat-Scriptor a change touches labels only so far as DID and DPID reach; those are counted before it and after it,
//! stretch by stretch. Where all of a stretch is older than what lies above it, or all is newer, nothing need be looked at
//! singly. On strict-append R is what may be read, W what lies behind the cursors; all else is NW: dead data, gaps, and the rest of
//! a band in which a write has failed, whose cursor nobody knows.

use std::ops::{Deref, Range};

use super::*;
use crate::data::ReadBuffer;
use crate::error::DeviceError;

/// Order of past writes, as it is known after a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All of it, as the platters have it: the truth.
    Kept,
    /// Nothing, as a host has it: any granule may have been written after all those upstream.
    Forgotten,
}

impl<D: HostManaged> Watched<D> {
    /// A mount: only `live` may be read. Cursors are taken from the disk's report. Where the order of writes is forgotten, each
    /// granule may have been written after all above it.
    pub fn restart(&self, live: &[Span], order: Order) -> DeviceResult {
        let report = self.disk.report(0, self.disk.shape().bands.count)?;
        let mut ledger = self.ledger.lock();
        let known = match &mut *ledger {
            CheckedLedger::Anywhere(ledger) => {
                if order == Order::Forgotten {
                    let number = ledger.order.next_number();
                    ledger.order.put(Span::new(0, ledger.granules()), number);
                }
                &mut ledger.live
            }
            CheckedLedger::Bands(ledger) => {
                ledger.filled = report.iter().map(|band| band.cursor - band.start).collect();
                &mut ledger.live
            }
        };
        *known = Ranges::default();
        live.iter().for_each(|span| known.cover(span.range(), ()));
        Ok(())
    }
}

/// A watched disk that remembers violations, and counts its granules by what may be done with them.
pub struct Counting<D> {
    watched: Watched<D>,
    totals: Mutex<Totals>,
    /// The first violation, and how many there were.
    violations: Mutex<(Option<Violation>, u64)>,
}

/// Dead granules that are NW or WO.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Totals {
    not_writable: u64,
    write_once: u64,
}

impl Totals {
    fn add(&mut self, other: Totals) {
        self.not_writable += other.not_writable;
        self.write_once += other.write_once;
    }
}

impl<D: HostManaged> Counting<D> {
    /// Watches `disk`, which is empty.
    pub fn new(disk: D) -> Counting<D> {
        Counting { watched: Watched::new(disk), totals: Mutex::default(), violations: Mutex::default() }
    }

    /// As [`Watched::restart`].
    pub fn restart(&self, live: &[Span], order: Order) -> DeviceResult {
        self.watched.restart(live, order)?;
        *self.totals.lock() = self.count(0, u64::MAX);
        Ok(())
    }

    /// The first violation, if there was any.
    pub fn violation(&self) -> Option<Violation> {
        self.violations.lock().0
    }

    /// Number of violations.
    pub fn violations(&self) -> u64 {
        self.violations.lock().1
    }

    fn noted(&self, result: DeviceResult) -> DeviceResult {
        if let Err(DeviceError::Violation(violation)) = &result {
            let mut violations = self.violations.lock();
            *violations = (violations.0.or(Some(*violation)), violations.1 + 1);
        }
        result
    }

    /// R, NW, WO and W now, granule by granule.
    pub fn counts(&self) -> Counts {
        let granules = self.watched.disk.shape().granules;
        match &*self.watched.ledger.lock() {
            CheckedLedger::Anywhere(ledger) => {
                let Totals { not_writable, write_once } = *self.totals.lock();
                let readable = ledger.live.count();
                let writable = granules - readable - not_writable - write_once;
                Counts { readable, not_writable, write_once, writable, ..Counts::default() }
            }
            CheckedLedger::Bands(BandLedger { bands, live, filled }) => {
                let readable = live.count();
                let writable = bands.count * bands.granules - filled.iter().sum::<u64>();
                let not_writable = granules - readable - writable;
                Counts { readable, not_writable, writable, ..Counts::default() }
            }
        }
    }

    fn count(&self, from: u64, to: u64) -> Totals {
        match &*self.watched.ledger.lock() {
            CheckedLedger::Anywhere(ledger) => ledger.count(from, to.min(ledger.granules())),
            CheckedLedger::Bands(_) => Totals::default(),
        }
    }

    fn change<T>(&self, span: Span, change: impl FnOnce() -> T) -> T {
        let Shape { did, dpid, .. } = *self.watched.disk.shape();
        let (from, to) = (span.at.0.saturating_sub(did), span.end().0.saturating_add(dpid));
        let mut totals = self.totals.lock();
        let before = self.count(from, to);
        let changed = change();
        let after = self.count(from, to);
        totals.not_writable = totals.not_writable + after.not_writable - before.not_writable;
        totals.write_once = totals.write_once + after.write_once - before.write_once;
        changed
    }
}

impl<D> Deref for Counting<D> {
    type Target = Watched<D>;

    fn deref(&self) -> &Watched<D> {
        &self.watched
    }
}

impl<D: HostManaged> stacked::Stacked for Counting<D> {
    type Below = Watched<D>;

    fn below(&self) -> &Watched<D> {
        &self.watched
    }

    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        self.noted(HostManaged::read(&self.watched, at, room, cause))
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let span = self.watched.disk.shape().span(at, data.bytes()).unwrap_or_default();
        self.noted(self.change(span, || HostManaged::write(&self.watched, at, data, cause)))
    }

    fn reset(&self, band: u64) -> DeviceResult {
        self.noted(HostManaged::reset(&self.watched, band))
    }

    fn discard(&self, span: Span) {
        self.change(span, || HostManaged::discard(&self.watched, span));
    }
}

impl SafetyLedger {
    fn granules(&self) -> u64 {
        self.order.last.len() as u64
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
        let end = next.unwrap_or(self.granules());
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
        if newest == 0 || newest < self.oldest_live_upstream(first, dead) {
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
}
