//! The books of a Caveat-Scriptor disk, by the safety rule granule by granule, kept step by step; by regions when asked for.
//!
//! A change touches labels only so far as DID and DPID reach; those are counted before it and after it, stretch by stretch.
//! Where all of a stretch is older than what lies above it, or all is newer, nothing need be looked at singly.

use std::ops::Range;

use super::Counts;
use crate::device::order::WriteOrder;
use crate::error::Violation;
use crate::map::Ranges;
use crate::units::{Granule, Span};

/// Live data, the order of writes, and the counts that follow.
pub(super) struct SafetyLedger {
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

/// The rule to count by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountedBy {
    Granules,
    Regions,
}

impl SafetyLedger {
    /// An empty disk.
    pub(super) fn new(granules: u64, did: u64, dpid: u64) -> SafetyLedger {
        let (live, order) = (Ranges::default(), WriteOrder::new(granules));
        SafetyLedger { did, dpid, granules, live, order, totals: Totals::default() }
    }

    /// The counts by the rule granule by granule.
    pub(super) fn counts(&self) -> Counts {
        self.with_rest(self.totals)
    }

    /// The counts by regions, counted anew.
    pub(super) fn region_counts(&self) -> Counts {
        self.with_rest(self.count(0, self.granules, CountedBy::Regions))
    }

    fn with_rest(&self, Totals { not_writable, write_once }: Totals) -> Counts {
        let readable = self.live.count();
        let writable = self.granules - readable - not_writable - write_once;
        Counts { readable, not_writable, write_once, writable, ..Counts::default() }
    }

    /// Checks that one command may write `span`.
    pub(super) fn may_write(&self, span: Span) -> Result<(), Violation> {
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

    /// The first of `start..reach` that was written after a live granule within DPID above `start`.
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
    pub(super) fn write(&mut self, span: Span) {
        self.change(span, |books| {
            let number = books.order.next();
            books.order.put(span, number);
            books.live.insert(span.range());
        });
    }

    /// `span` will not be read again.
    pub(super) fn discard(&mut self, span: Span) {
        self.change(span, |books| books.live.remove(span.range()));
    }

    /// A mount: `live` may be read. The order of writes is kept, or nothing of it is known: then each granule may have been
    /// written after all above it.
    pub(super) fn restart(&mut self, live: &[Span], keep_order: bool) {
        self.live = Ranges::default();
        for &span in live {
            self.live.insert(span.range());
        }
        if !keep_order {
            let number = self.order.next();
            self.order.put(Span::new(0, self.granules), number);
        }
        self.totals = self.count(0, self.granules, CountedBy::Granules);
    }

    fn change(&mut self, span: Span, change: impl FnOnce(&mut SafetyLedger)) {
        let from = span.at.0.saturating_sub(self.did);
        let to = span.end().0.saturating_add(self.dpid).min(self.granules);
        let before = self.count(from, to, CountedBy::Granules);
        change(self);
        let after = self.count(from, to, CountedBy::Granules);
        self.totals.not_writable = self.totals.not_writable + after.not_writable - before.not_writable;
        self.totals.write_once = self.totals.write_once + after.write_once - before.write_once;
    }

    /// The dead granules of `from..to` that are NW or WO; by regions, only of the whole disk.
    fn count(&self, from: u64, to: u64, by: CountedBy) -> Totals {
        // Where the next dead stretch begins, and up to where the runs above it make that NW by regions.
        let pass = |(_, region_end): (u64, u64), run: Range<u64>| match by {
            CountedBy::Granules => (run.end, 0),
            CountedBy::Regions => (run.end, self.region_end(&run).max(region_end)),
        };
        let mut totals = Totals::default();
        let mut dead = self.live.before(from + 1).next().map_or((0, 0), |run| pass((0, 0), run));
        for run in self.live.from(from + 1) {
            if dead.0 >= to {
                return totals;
            }
            totals.add(self.count_stretch(dead, Some(run.start), from..to, by));
            dead = pass(dead, run);
        }
        totals.add(self.count_stretch(dead, None, from..to, by));
        totals
    }

    /// Counts what of a dead stretch, which the live run at `next` follows, is in `window`.
    fn count_stretch(
        &self,
        (dead, region_end): (u64, u64),
        next: Option<u64>,
        window: Range<u64>,
        by: CountedBy,
    ) -> Totals {
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
        let forbidden = match by {
            _ if dead == reach => 0,
            CountedBy::Granules => self.count_scars(dead, first, reach.min(last)),
            CountedBy::Regions => within(dead, region_end.min(guard)),
        };
        Totals { not_writable: within(guard, end) + forbidden, write_once: within(dead, reach) - forbidden }
    }

    /// Up to where the dead granules after a live run are NW by regions; 0 if none is for its sake.
    fn region_end(&self, run: &Range<u64>) -> u64 {
        let region_end = run.end.saturating_add(self.dpid);
        let newest = self.newest_dead(run.end, region_end.min(self.granules));
        let oldest = self.order.oldest(run.start.max(run.end.saturating_sub(self.dpid)), run.end);
        if newest > 0 && newest >= oldest { region_end } else { 0 }
    }

    /// The highest number of the dead granules in `from..to`; what is at `from` is dead.
    fn newest_dead(&self, from: u64, to: u64) -> u32 {
        let (mut newest, mut dead) = (0, from);
        for Range { start, end } in self.live.from(from).take_while(|run| run.start < to) {
            newest = newest.max(self.order.newest(dead, start));
            dead = end;
        }
        newest.max(self.order.newest(dead, to))
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
        let mut runs = self.live.before(dead).peekable();
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

    /// The lowest number of the live granules within DPID above `at`, that lie above `dead`.
    fn oldest_above(&self, dead: u64, at: u64) -> u32 {
        let edge = at.saturating_sub(self.dpid);
        let runs = self.live.before(dead).take_while(|run| run.end > edge);
        runs.map(|run| self.order.oldest(run.start.max(edge), run.end)).min().unwrap_or(u32::MAX)
    }

    /// The live granules within DPID above `at`, that lie above `dead`, the nearest first.
    fn live_above(&self, at: u64, dead: u64) -> impl Iterator<Item = u64> + '_ {
        let edge = at.saturating_sub(self.dpid);
        let runs = self.live.before(dead).take_while(move |run| run.end > edge);
        runs.flat_map(move |run| (run.start.max(edge)..run.end).rev())
    }
}

impl Totals {
    fn add(&mut self, other: Totals) {
        self.not_writable += other.not_writable;
        self.write_once += other.write_once;
    }
}
