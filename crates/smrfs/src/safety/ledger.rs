//! The books of a Caveat-Scriptor disk, by the safety rule granule by granule and by regions, kept step by step.
//!
//! A change touches labels only so far as DID and DPID reach; those are counted before it and after it, stretch by stretch.
//! Where all of a stretch is older than what lies above it, or all is newer, nothing need be looked at singly.

use super::Counts;
use super::runs::DisjointRuns;
use crate::device::order::WriteOrder;
use crate::error::Violation;
use crate::units::{Granule, Span};

/// Live data, the order of writes, and the counts that follow.
pub(super) struct SafetyLedger {
    did: u64,
    dpid: u64,
    granules: u64,
    live: DisjointRuns,
    order: WriteOrder,
    totals: Totals,
}

/// Dead granules that are NW or WO, by each rule.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Totals {
    fine_not_writable: u64,
    fine_write_once: u64,
    coarse_not_writable: u64,
    coarse_write_once: u64,
}

impl SafetyLedger {
    /// An empty disk.
    pub(super) fn new(granules: u64, did: u64, dpid: u64) -> SafetyLedger {
        let (live, order) = (DisjointRuns::default(), WriteOrder::new(granules));
        SafetyLedger { did, dpid, granules, live, order, totals: Totals::default() }
    }

    /// The counts by the rule granule by granule.
    pub(super) fn counts(&self) -> Counts {
        self.with_rest(self.totals.fine_not_writable, self.totals.fine_write_once)
    }

    /// The counts by regions.
    pub(super) fn region_counts(&self) -> Counts {
        self.with_rest(self.totals.coarse_not_writable, self.totals.coarse_write_once)
    }

    fn with_rest(&self, not_writable: u64, write_once: u64) -> Counts {
        let readable = self.live.granules();
        let writable = self.granules - readable - not_writable - write_once;
        Counts { readable, not_writable, write_once, writable, ..Counts::default() }
    }

    /// Checks that `span` may be written by one command.
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
            books.live.insert(span);
        });
    }

    /// `span` will not be read again.
    pub(super) fn discard(&mut self, span: Span) {
        self.change(span, |books| books.live.remove(span));
    }

    /// A mount: `live` may be read. The order of writes is kept, or nothing of it is known: then each granule may have been
    /// written after all above it.
    pub(super) fn restart(&mut self, live: &[Span], keep_order: bool) {
        self.live.clear();
        for &span in live {
            self.live.remove(span);
            self.live.insert(span);
        }
        if !keep_order {
            let number = self.order.next();
            self.order.put(Span::new(0, self.granules), number);
        }
        self.totals = self.count(0, self.granules);
    }

    fn change(&mut self, span: Span, change: impl FnOnce(&mut SafetyLedger)) {
        // A region reaches DPID below a run, and what decides about it DPID into the run.
        let from = span.at.0.saturating_sub(self.did.max(self.dpid));
        let to = span.end().0.saturating_add(self.dpid.saturating_mul(2)).min(self.granules);
        let before = self.count(from, to);
        change(self);
        let after = self.count(from, to);
        self.totals.replace(&before, &after);
    }

    /// The dead granules of `from..to` that are NW or WO.
    fn count(&self, from: u64, to: u64) -> Totals {
        let mut totals = Totals::default();
        let mut dead = self.live.above(from + 1).next().map_or(0, |(_, end)| end);
        for (start, end) in self.live.from(from + 1) {
            if dead >= to {
                break;
            }
            self.count_stretch(dead, start, Some(start), from, to, &mut totals);
            dead = end;
        }
        if dead < to {
            let next = self.live.first_from(dead);
            self.count_stretch(dead, next.unwrap_or(self.granules), next, from, to, &mut totals);
        }
        totals
    }

    /// Counts the stretch `dead..end`, which the live run `next` follows.
    fn count_stretch(&self, dead: u64, end: u64, next: Option<u64>, from: u64, to: u64, totals: &mut Totals) {
        let (first, last) = (dead.max(from), end.min(to));
        if first >= last {
            return;
        }
        let within = |a: u64, b: u64| b.min(last).saturating_sub(a.max(first));
        // From here on DID forbids writes.
        let guard = next.map_or(end, |next| next.saturating_sub(self.did).max(dead));
        let (coarse_end, above) = self.region(dead, end);
        let reach = if above { dead.saturating_add(self.dpid).min(guard) } else { dead };
        let fine = if dead < reach { self.count_scars(dead, first, reach.min(last)) } else { 0 };
        totals.fine_not_writable += within(guard, end) + fine;
        totals.fine_write_once += within(dead, reach) - fine;
        let coarse_end = coarse_end.min(guard);
        totals.coarse_not_writable += within(guard, end) + within(dead, coarse_end);
        totals.coarse_write_once += within(dead, reach) - within(dead, coarse_end);
    }

    /// Up to where the stretch `dead..end` is NW by regions, and whether a run ends within DPID above it at all.
    fn region(&self, dead: u64, end: u64) -> (u64, bool) {
        let (mut not_writable, mut above) = (dead, false);
        for (start, run_end) in self.live.above(dead) {
            let region_end = run_end.saturating_add(self.dpid);
            if region_end <= dead {
                break;
            }
            above = true;
            let newest = self.newest_dead(run_end, region_end.min(self.granules));
            let oldest = self.order.oldest(start.max(run_end.saturating_sub(self.dpid)), run_end);
            if newest > 0 && newest >= oldest {
                not_writable = not_writable.max(region_end.min(end));
            }
        }
        (not_writable, above)
    }

    /// The highest number of the dead granules in `from..to`; what is at `from` is dead.
    fn newest_dead(&self, from: u64, to: u64) -> u32 {
        let (mut newest, mut dead) = (0, from);
        for (start, end) in self.live.from(from).take_while(|&(start, _)| start < to) {
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
        let mut runs = self.live.above(dead).peekable();
        let mut seen = dead;
        // From below upwards, more and more of what lies above is within DPID.
        for at in (first..last).rev() {
            let edge = at.saturating_sub(self.dpid);
            while let Some(&(start, end)) = runs.peek() {
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
        let runs = self.live.above(dead).take_while(|&(_, end)| end > edge);
        runs.map(|(start, end)| self.order.oldest(start.max(edge), end)).min().unwrap_or(u32::MAX)
    }

    /// The live granules within DPID above `at`, that lie above `dead`, the nearest first.
    fn live_above(&self, at: u64, dead: u64) -> impl Iterator<Item = u64> + '_ {
        let edge = at.saturating_sub(self.dpid);
        let runs = self.live.above(dead).take_while(move |&(_, end)| end > edge);
        runs.flat_map(move |(start, end)| (start.max(edge)..end).rev())
    }
}

impl Totals {
    fn replace(&mut self, before: &Totals, after: &Totals) {
        let put = |total: &mut u64, before: u64, after: u64| *total = *total + after - before;
        put(&mut self.fine_not_writable, before.fine_not_writable, after.fine_not_writable);
        put(&mut self.fine_write_once, before.fine_write_once, after.fine_write_once);
        put(&mut self.coarse_not_writable, before.coarse_not_writable, after.coarse_not_writable);
        put(&mut self.coarse_write_once, before.coarse_write_once, after.coarse_write_once);
    }
}
