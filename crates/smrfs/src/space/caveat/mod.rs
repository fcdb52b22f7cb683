//! The allocator and the defragmenter of Caveat-Scriptor (Kadekodi et al. 2015, section 4.2).
//!
//! The ledger knows what may be written; a placement policy chooses where; the defragmenter makes room where gaps have
//! eaten it up. After a power cut nothing of it is missed: all follows from the maps. Figures: docs/design/performance.md.

mod clean;
mod ledger;
pub mod options;
mod placement;
mod recount;
mod reservations;
mod runs;
#[cfg(test)]
mod tests;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::live::Live;
use super::{AllocationRequest, CleaningStep, Counts, Space, Trigger, whole};
use crate::device::{BandReport, Shape};
use crate::map::Ranges;
use crate::units::{Granule, NodeId, Owner, Span};
use clean::CleaningProgress;
use ledger::CaveatLedger;
pub use options::{CaveatError, CaveatOptions, Placement, Rule};
use reservations::Reservations;
use reservations::Reserve;
use runs::Ordered;

/// A disk has at least this many units: the runs that cleaning makes (assumption; a unit is a block on all but tiny disks).
const UNITS: u64 = 64;
/// Failed stretches that are kept out of; the oldest is tried again when there are more (assumption).
const MOST_FAILED: usize = 64;

/// The allocator and cleaner of a Caveat-Scriptor disk.
#[derive(Clone, Debug)]
pub struct Caveat {
    options: CaveatOptions,
    ledger: CaveatLedger,
    live: Live,
    retired: Ordered,
    reservations: Reservations,
    reserve: Reserve,
    /// End of a host's last block.
    cursor: u64,
    /// Places where writes failed.
    failed: Vec<(u64, u64)>,
    /// Part of `live` that can't be moved.
    unmovable: Ranges,
    /// True if what was placed last is being moved.
    moving: bool,
    progress: CleaningProgress,
    random: Pcg64Mcg,
}

impl Caveat {
    /// The allocator of an empty disk.
    pub fn new(shape: &Shape, options: CaveatOptions) -> Result<Caveat, CaveatError> {
        let block = options.block_granules;
        if block == 0 {
            return Err(CaveatError::NoBlock);
        }
        let unit = if options.split { block.min(shape.granules / UNITS).max(1) } else { block };
        let caveat = Caveat {
            ledger: CaveatLedger::new(shape, options.rule, unit),
            live: Live::new(),
            retired: Ordered::default(),
            reservations: Reservations::default(),
            reserve: Reserve::new(shape.granules, shape.did, shape.dpid, unit),
            cursor: 0,
            failed: Vec::new(),
            unmovable: Ranges::default(),
            moving: false,
            progress: CleaningProgress::default(),
            random: Pcg64Mcg::seed_from_u64(options.seed),
            options,
        };
        let has_room = caveat.reserve.loss <= shape.granules && caveat.usable() >= unit;
        let Shape { granules, did, dpid, .. } = *shape;
        if has_room { Ok(caveat) } else { Err(CaveatError::TooSmall { granules, did, dpid, block }) }
    }

    /// The options it was made with.
    pub fn options(&self) -> &CaveatOptions {
        &self.options
    }

    fn on_disk(&self, span: Span) -> bool {
        span.at.0.checked_add(span.count).is_some_and(|end| end <= self.ledger.granules)
    }
}

impl Space for Caveat {
    fn adopt(&mut self, span: Span, owner: Owner) -> bool {
        let good = self.on_disk(span) && self.live.insert(span, owner);
        if good && !span.is_empty() {
            self.ledger.adopt(span);
        }
        good
    }

    fn start(&mut self, _report: &[BandReport]) {
        self.ledger.start();
    }

    fn place(&mut self, want: &AllocationRequest) -> Option<Span> {
        self.moving = want.moving;
        if want.moving { self.place_moved(want) } else { self.place_host(want) }
    }

    fn written_in_pieces(&mut self, pieces: &[(Span, Owner)]) {
        let span = whole(pieces);
        assert!(self.on_disk(span), "{span} is not on the disk");
        for &(span, owner) in pieces {
            assert!(self.live.insert(span, owner), "a write of {span}, of which some is live");
        }
        self.ledger.write(span);
        if !self.moving {
            self.progress.give_up_in(span.at.0, span.end().0);
            self.pay(span.count);
        }
    }

    fn failed(&mut self, span: Span) {
        assert!(self.on_disk(span), "{span} is not on the disk");
        self.ledger.fail(span);
        if self.failed.len() == MOST_FAILED {
            self.failed.remove(0);
        }
        self.failed.push((span.at.0, span.end().0));
    }

    fn hand_over(&mut self, span: Span, owner: Owner) {
        self.live.hand_over(span, owner);
    }

    fn retire(&mut self, span: Span) {
        let owned = self.live.remove(span);
        assert!(owned == span.count, "{span} is retired, of which {owned} granules are live");
        self.retired.insert((span.at.0, span.end().0, 0));
        if !self.unmovable.is_empty() {
            self.unmovable.remove(span.at.0..span.end().0);
        }
    }

    fn release(&mut self, span: Span) {
        let retired: u64 = self.retired.cut(span.at.0, span.end().0).iter().map(|(from, to, _)| to - from).sum();
        assert!(retired == span.count, "{span} is released, of which {retired} granules are retired");
        self.ledger.release(span);
        self.progress.released(self.retired.granules());
    }

    fn closed(&mut self, file: NodeId) {
        self.reservations.end(file);
    }

    fn wants_cleaning(&self, idle: bool) -> Option<Trigger> {
        self.due(idle)
    }

    fn clean(&mut self, why: Trigger) -> Option<CleaningStep> {
        self.next_step(why)
    }

    fn was_reset(&mut self, _band: u64) {}

    fn reset_failed(&mut self, _band: u64) {}

    fn unmovable(&mut self, span: Span) {
        self.leave(span);
    }

    fn usable(&self) -> u64 {
        if self.options.defragment { self.reserve.usable } else { self.ledger.granules }
    }

    fn counts(&self) -> Counts {
        let tally = self.ledger.tally;
        Counts {
            readable: self.ledger.readable.granules(),
            not_writable: tally.before + tally.scar,
            write_once: tally.once,
            writable: tally.free,
            retired: self.retired.granules(),
            garbage: tally.scar,
        }
    }

    fn live(&self) -> &Live {
        &self.live
    }

    fn check(&self) -> Result<(), String> {
        let ledger = &self.ledger;
        let readable = ledger.readable.granules();
        if readable != self.live.granules() + self.retired.granules() {
            return Err(format!(
                "{readable} granules are readable, {} live, {} retired",
                self.live.granules(),
                self.retired.granules()
            ));
        }
        let held = |from, to| {
            ledger.readable.overlapping(from, to).map(|(at, end, _)| end.min(to) - at.max(from)).sum::<u64>()
        };
        let all = self.live.from(Granule(0)).map(|(span, _)| (span.at.0, span.end().0));
        for (from, to) in all.chain(self.retired.from(0).map(|(from, to, _)| (from, to))) {
            if held(from, to) != to - from {
                return Err(format!("{from}..{to} is live or retired, and not readable"));
            }
        }
        recount::recount(ledger)
    }
}
