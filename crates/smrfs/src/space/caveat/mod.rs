//! The allocator and the defragmenter of Caveat-Scriptor (Kadekodi et al. 2015, section 4.2).
//!
//! The ledger knows which granules may be written, a placement policy chooses among them, and the defragmenter regains room that gaps have
//! taken. None of it is stored: after a power cut, it is rebuilt from the maps. Figures: docs/design/performance.md.
//!
//! A block goes to the beginning of a writable run, because there it makes the least new gap. Next-fit is the policy of Kadekodi et al.
//! 2015; docs/papers/caveat.md compares it with the others. Room next to the last block of a file that is being written is reserved, so that
//! two writers do not interleave; other files use it only when there is no other room.

mod clean;
mod ledger;
#[cfg(any(test, feature = "testing"))]
#[path = "../../../tests/testing/caveat.rs"]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::str::FromStr;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use smrkit::error::Error;
use smrkit::names::known;

use super::{AllocationRequest, CleaningStep, Counts, Live, Space, Trigger, whole};
use crate::device::{BandReport, Shape};
use crate::map::Ranges;
use crate::units::{Granule, NodeId, Owner, Span};
use clean::CleaningProgress;
use ledger::{CaveatLedger, WritableRun};

/// The least number of units on a disk. A unit is the run that cleaning makes: a block, or less on a tiny disk (assumption).
const UNITS: u64 = 64;
/// The most stretches with a failed write that placing avoids; beyond that, the oldest is tried again (assumption).
const FAILED_MAX: usize = 64;

/// The allocator and cleaner of a Caveat-Scriptor disk.
#[derive(Clone, Debug)]
pub struct Caveat {
    /// The options it was made with.
    pub options: CaveatOptions,
    ledger: CaveatLedger,
    live: Live,
    retired: Ranges,
    reservations: Reservations,
    reserve: Reserve,
    /// End of the block that a host wrote last.
    cursor: u64,
    /// Places where writes failed, each from its first granule to its end, excluded.
    failed: Vec<(u64, u64)>,
    /// Part of `live` that can't be moved.
    unmovable: Ranges,
    /// True if the last placement was for a move.
    moving: bool,
    progress: CleaningProgress,
    random: Pcg64Mcg,
}

impl Caveat {
    /// The allocator of an empty disk.
    pub fn new(shape: &Shape, options: CaveatOptions) -> Result<Caveat, Error> {
        let block = options.block_granules;
        // On a tiny disk, where blocks may be split, runs shorter than a block count as room too.
        let unit = if options.split { block.min(shape.granules / UNITS).max(1) } else { block };
        let caveat = Caveat {
            ledger: CaveatLedger::new(shape, unit),
            live: Live::default(),
            retired: Ranges::default(),
            reservations: Reservations::default(),
            reserve: Reserve::new(shape.granules, shape.did, shape.dpid, unit),
            cursor: 0,
            failed: Vec::new(),
            unmovable: Ranges::default(),
            moving: false,
            progress: CleaningProgress::default(),
            random: Pcg64Mcg::seed_from_u64(1),
            options,
        };
        let has_room = caveat.reserve.loss <= shape.granules && caveat.usable() >= unit;
        let Shape { granules, did, dpid, .. } = *shape;
        if has_room {
            return Ok(caveat);
        }
        Err(Error::Impossible(format!(
            "a disk of {granules} granules with DID {did}, DPID {dpid} and blocks of {block} has no room for files: \
             take a larger disk, smaller blocks or smaller distances"
        )))
    }

    fn is_on_disk(&self, span: Span) -> bool {
        span.at.0.checked_add(span.count).is_some_and(|end| end <= self.ledger.granules)
    }
}

impl Space for Caveat {
    fn adopt(&mut self, span: Span, owner: Owner) -> bool {
        let is_adopted = self.is_on_disk(span) && self.live.insert(span, owner);
        if is_adopted && !span.is_empty() {
            self.ledger.adopt(span);
        }
        is_adopted
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
        assert!(self.is_on_disk(span), "{span} is not on the disk");
        for &(span, owner) in pieces {
            assert!(self.live.insert(span, owner), "a write of {span}, of which some is live");
        }
        self.ledger.write(span);
        if !self.moving {
            self.progress.drop_window_at(span.at.0, span.end().0);
            self.raise_budget(span.count);
        }
    }

    fn failed(&mut self, span: Span) {
        assert!(self.is_on_disk(span), "{span} is not on the disk");
        self.ledger.fail(span);
        if self.failed.len() == FAILED_MAX {
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
        self.retired.insert(span.range(), ());
        if !self.unmovable.is_empty() {
            self.unmovable.uncover(span.range());
        }
    }

    fn release(&mut self, span: Span) {
        let retired: u64 = self.retired.uncover(span.range()).iter().map(|(part, ())| part.end - part.start).sum();
        assert!(retired == span.count, "{span} is released, of which {retired} granules are retired");
        self.ledger.release(span);
        self.progress.released(self.retired.count());
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

    fn mark_unmovable(&mut self, span: Span) {
        for (live, _) in self.live.within(span) {
            self.unmovable.cover(live.range(), ());
        }
        self.progress.drop_window_at(span.at.0, span.end().0);
        self.progress.released(self.retired.count());
    }

    fn usable(&self) -> u64 {
        if self.options.defragment { self.reserve.usable } else { self.ledger.granules }
    }

    fn counts(&self) -> Counts {
        let tally = self.ledger.tally;
        Counts {
            readable: self.ledger.readable.count(),
            not_writable: tally.before + tally.scar,
            write_once: tally.once,
            writable: tally.free,
            retired: self.retired.count(),
            garbage: tally.scar,
        }
    }

    fn live(&self) -> &Live {
        &self.live
    }

    #[cfg(any(test, feature = "testing"))]
    fn check(&self) -> Result<(), String> {
        self.recount()
    }
}

/// Policy by which data is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Right behind the file's last block, or else in the shortest run that holds the expected rest of the file. Keeps room next to open files.
    Adjacent,
    /// The paper's: the first run from the end of the last write on, of whatever file.
    NextFit,
    /// The first run of the disk.
    FirstFit,
    /// The shortest run.
    BestFit,
    /// Next-fit, with room kept next to each open file.
    Reservation,
}

impl Placement {
    /// All there are.
    pub const ALL: [Placement; 5] =
        [Placement::Adjacent, Placement::NextFit, Placement::FirstFit, Placement::BestFit, Placement::Reservation];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        ["adjacent", "next-fit", "first-fit", "best-fit", "reservation"][self as usize]
    }
}

impl FromStr for Placement {
    type Err = Error;
    fn from_str(name: &str) -> Result<Placement, Error> {
        let found = Placement::ALL.into_iter().find(|placement| placement.name() == name);
        found.ok_or_else(|| {
            let choices = known(name, Placement::ALL.into_iter().map(Placement::name));
            Error::Usage(format!("there is no placement policy \"{name}\": {choices}"))
        })
    }
}

// Chosen by measuring: docs/design/performance.md.
/// Blocks of room kept next to an open file.
const RESERVED_BLOCKS: u64 = 8;
/// Windows looked at before the best of them is emptied.
const SAMPLES: u32 = 200;
/// Blocks of room above the reserve below which each write of a host is followed by some cleaning.
const SLACK_BLOCKS: u64 = 32;
/// The most blocks moved for each block that a host writes, while there is room.
const MOVED_PER_BLOCK: u64 = 24;

/// Behaviour of the allocator; nothing of it is on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaveatOptions {
    /// The placement policy.
    pub placement: Placement,
    /// True if a block may be cut up where no run is long enough for it.
    pub split: bool,
    /// The largest block, in granules.
    pub block_granules: u64,
    /// True if the defragmenter runs, and keeps a reserve for that. Otherwise files may fill the disk until their gaps use the rest.
    pub defragment: bool,
}

impl Default for CaveatOptions {
    fn default() -> CaveatOptions {
        CaveatOptions { placement: Placement::Adjacent, split: true, block_granules: 256, defragment: true }
    }
}

/// The most blocks expected to follow in a file because as many were written before (assumption: longer runs read no faster).
const STREAK_BLOCKS_MAX: u64 = 64;

/// Places that a search avoids.
#[derive(Clone, Copy)]
struct Avoided {
    /// Room reserved for other files.
    reserved: bool,
    /// The window that is being emptied.
    window: bool,
}

/// The rounds of a search for room, each of which avoids less than the one before.
const ROUNDS: [Avoided; 3] = [
    Avoided { reserved: true, window: true },
    Avoided { reserved: true, window: false },
    Avoided { reserved: false, window: false },
];

impl Caveat {
    /// Finds room for a host's data.
    fn place_host(&mut self, want: &AllocationRequest) -> Option<Span> {
        let count = want.count.min(self.options.block_granules);
        let (from, to) = self.search(want, count).or_else(|| {
            // Cleaning makes runs of a unit; on small disks a unit is less than a block.
            (self.options.split && count > self.ledger.runs.unit).then(|| self.search_longest(want, count)).flatten()
        })?;
        // The rest of a run that is too short for the block is not reserved: either the block fills it, or the defragmenter needs it.
        if to < from + count {
            return Some(Span::new(from, to - from));
        }
        self.cursor = from + count;
        if matches!(self.options.placement, Placement::Adjacent | Placement::Reservation) {
            // Up to the end of the run, for the rest of the file.
            let reserved = self.expected(want).max(RESERVED_BLOCKS * self.options.block_granules);
            let streak = self.reservations.streak(want.owner.file, want.after) + count;
            self.reservations.renew(want.owner.file, self.cursor, to.min(self.cursor + reserved), streak);
        }
        Some(Span::new(from, count))
    }

    /// Finds room for data being moved, outside its window; less than wanted if no run holds it all.
    fn place_moved(&self, want: &AllocationRequest) -> Option<Span> {
        let (runs, count) = (&self.ledger.runs, want.count.min(self.options.block_granules));
        // The beginning of a run is preferred, because elsewhere the data makes new gaps, and emptying the window might gain nothing.
        let begin =
            |run: (u64, u64), least, avoided| self.part(run, least, want, avoided).filter(|part| part.0 == run.0);
        let behind_file = || self.beside(want.after?.0, count, want, ROUNDS[0]);
        let shortest = |avoided| runs.at_least(count).find_map(|run| begin(run, count, avoided));
        let longest = || runs.longest().find_map(|run| begin(run, 1, MOVE_AVOIDS));
        let within_longest = || runs.longest().find_map(|run| self.part(run, 1, want, MOVE_AVOIDS));
        let whole = behind_file().or_else(|| shortest(ROUNDS[0])).or_else(|| shortest(MOVE_AVOIDS));
        let (from, to) = whole.or_else(longest).or_else(within_longest)?;
        Some(Span::new(from, count.min(to - from)))
    }

    /// Finds room for `count` granules by the placement policy, avoiding fewer places in each round.
    fn search(&self, want: &AllocationRequest, count: u64) -> Option<(u64, u64)> {
        let affordable = |part: &(u64, u64)| self.affordable(part.0, count);
        ROUNDS.iter().find_map(|&avoided| {
            let fits = |run| self.part(run, count, want, avoided).filter(affordable);
            let beside = |at: Option<u64>| self.beside(at?, count, want, avoided).filter(affordable);
            match self.options.placement {
                Placement::Adjacent => {
                    beside(want.after.map(|after| after.0)).or_else(|| self.smallest(want, count, avoided))
                }
                Placement::NextFit => self.next_fit(count).find_map(fits),
                Placement::FirstFit => self.ledger.runs.following(0, count).find_map(fits),
                Placement::BestFit => self.ledger.runs.at_least(count).find_map(fits),
                Placement::Reservation => {
                    beside(self.reservations.start_for(want.owner.file)).or_else(|| self.next_fit(count).find_map(fits))
                }
            }
        })
    }

    /// Finds room in the longest run, for a block that has to be split.
    fn search_longest(&self, want: &AllocationRequest, count: u64) -> Option<(u64, u64)> {
        let unit = self.ledger.runs.unit;
        let mut runs = self.ledger.runs.longest().take_while(|(from, to)| to - from >= unit);
        runs.find_map(|run| {
            let (from, to) = self.part(run, unit, want, ROUNDS[2])?;
            let ends = [to.min(from + count), from + unit];
            ends.into_iter().find(|end| self.affordable(from, end - from)).map(|end| (from, end))
        })
    }

    /// Returns the part of a run that begins at `at`, if none of its first `count` granules must be avoided.
    fn beside(&self, at: u64, count: u64, want: &AllocationRequest, avoided: Avoided) -> Option<(u64, u64)> {
        let run = self.ledger.runs.around(at)?;
        self.part((at, run.to), count, want, avoided).filter(|&(from, _)| from == at)
    }

    /// Finds the shortest run that holds all that is expected of the file, or else the longest run.
    fn smallest(&self, want: &AllocationRequest, count: u64, avoided: Avoided) -> Option<(u64, u64)> {
        let (runs, all) = (&self.ledger.runs, count + self.expected(want));
        let part = |run, least| self.part(run, least, want, avoided);
        let affordable = |part: &(u64, u64)| self.affordable(part.0, count);
        let shortest = runs.at_least(all).find_map(|run| part(run, all));
        let longest = || runs.longest().take_while(|(from, to)| to - from >= count).find_map(|run| part(run, count));
        // The room above the reserve may be too little for either. Runs shorter than a unit take nothing from it.
        let below_unit = || {
            let mut runs_below = runs.at_least(count).take_while(|(from, to)| to - from < runs.unit);
            runs_below.find_map(|run| part(run, count).filter(affordable))
        };
        shortest.or_else(longest).filter(affordable).or_else(below_unit)
    }

    /// The runs from the cursor on, then those from the beginning of the disk.
    fn next_fit(&self, count: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let runs = &self.ledger.runs;
        let at_cursor = runs.around(self.cursor).map(|run| (self.cursor, run.to));
        let before = runs.following(0, count).take_while(|(from, _)| *from <= self.cursor);
        at_cursor.into_iter().chain(runs.following(self.cursor + 1, count)).chain(before)
    }

    /// Returns the first part of a run that has at least `count` granules and none that must be avoided.
    fn part(&self, run: (u64, u64), count: u64, want: &AllocationRequest, avoided: Avoided) -> Option<(u64, u64)> {
        let (mut at, end) = run;
        while at < end && end - at >= count {
            let Some((from, to)) = self.obstacle(at, end, want, avoided) else { return Some((at, end)) };
            if from > at && from - at >= count {
                return Some((at, from));
            }
            at = to;
        }
        None
    }

    /// The first stretch that overlaps `at..end` and must be avoided, by `avoided` or because a write failed there.
    fn obstacle(&self, at: u64, end: u64, want: &AllocationRequest, avoided: Avoided) -> Option<(u64, u64)> {
        let window = self.progress.window_in(at, end).filter(|_| avoided.window);
        let others = if avoided.reserved { self.reservations.others(want.owner.file, at, end) } else { None };
        // A block right behind reserved room would make the end of that room unwritable, so the damage distance is kept too.
        let others = others.map(|(from, to)| (from, to + self.ledger.did));
        let failed = self.failed.iter().copied().filter(|failed| failed.0 < end && at < failed.1).min();
        [window, others, failed].into_iter().flatten().min()
    }

    /// True if the defragmenter still has its reserve after a host's write of `count` granules at `at`. While it has less, hosts get
    /// nothing, not even runs shorter than a unit, because without these for moves cleaning would lose room from window to window.
    fn affordable(&self, at: u64, count: u64) -> bool {
        if !self.options.defragment {
            return true;
        }
        let runs = &self.ledger.runs;
        let Some(run) = runs.around(at) else { return false };
        // The write splits the run. Its part before the data ends DID earlier, and its part behind the data is solid only DPID later.
        let left = runs.worth(at.saturating_sub(run.solid + self.ledger.did))
            + runs.worth(run.to.saturating_sub(at + count + self.ledger.dpid));
        let lost = runs.worth(run.to - run.solid).saturating_sub(left) + self.lost_beside(run, at, at + count);
        // Retired granules do not count, because the next settling frees them.
        let live = self.live.granules() + count;
        let to_move = self.progress.room_needed_beside(at, at + count);
        self.reserve.beside(live).is_some_and(|reserve| runs.roomy_granules - lost >= reserve.max(to_move))
    }

    /// Room that other runs lose if `at..end` of the run `own` is written. A run upstream must stay DID away from the data, and a run
    /// downstream DPID. Only runs that scars alone separate from the data are near enough.
    fn lost_beside(&self, own: WritableRun, at: u64, end: u64) -> u64 {
        let (runs, did, dpid) = (&self.ledger.runs, self.ledger.did, self.ledger.dpid);
        let lost = |run: WritableRun| {
            let left = if run.from < own.from {
                at.saturating_sub(did).min(run.to).saturating_sub(run.solid)
            } else {
                run.to.saturating_sub(run.solid.max(end + dpid))
            };
            runs.worth(run.to - run.solid).saturating_sub(runs.worth(left))
        };
        let (lo, hi) = (at.saturating_sub(did), end + dpid);
        // A run that begins inside `own` is `own` itself.
        let upstream = runs.around(lo).filter(|run| run.from < own.from).into_iter();
        let upstream = upstream.chain(runs.within(lo + 1, own.from));
        upstream.chain(runs.within(own.to, hi.max(own.to))).map(lost).sum()
    }

    /// Granules expected to follow in the file: those known to follow, or as many as were written one after another so far.
    fn expected(&self, want: &AllocationRequest) -> u64 {
        let streak = self.reservations.streak(want.owner.file, want.after);
        want.more.max(streak.min(STREAK_BLOCKS_MAX * self.options.block_granules))
    }
}

/// What a move avoids in its later rounds: only the window that it leaves.
const MOVE_AVOIDS: Avoided = Avoided { reserved: false, window: true };

/// The most reservations, one for each open file (assumption: rarely more are written at once). The longest unused one is dropped.
const RESERVATIONS_MAX: usize = 64;

/// Room that is reserved for a file.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    from: u64,
    to: u64,
    /// Granules that were written to the file one after another.
    streak: u64,
    /// The number of the renewal that made it.
    renewed: u64,
}

#[derive(Clone, Debug, Default)]
struct Reservations {
    by_file: BTreeMap<NodeId, Reservation>,
    /// The end and the file of each reservation that is not empty.
    by_start: BTreeMap<u64, (u64, NodeId)>,
    /// Number of renewals until now.
    renewals: u64,
}

impl Reservations {
    /// Start of a file's reserved room.
    pub fn start_for(&self, file: NodeId) -> Option<u64> {
        self.by_file.get(&file).filter(|reserved| reserved.from < reserved.to).map(|reserved| reserved.from)
    }

    /// Granules written to the file one after another, if the last ends at `after`; else 0.
    pub fn streak(&self, file: NodeId, after: Option<Granule>) -> u64 {
        let reserved = self.by_file.get(&file).filter(|reserved| after == Some(Granule(reserved.from)));
        reserved.map_or(0, |reserved| reserved.streak)
    }

    /// Replaces a file's reservation by `from..to`, cut at the first reservation of another file.
    pub fn renew(&mut self, file: NodeId, from: u64, to: u64, streak: u64) {
        self.end(file);
        let to = to.min(self.others(file, from, to).map_or(to, |(begin, _)| begin)).max(from);
        if self.by_file.len() >= RESERVATIONS_MAX
            && let Some((&oldest, _)) = self.by_file.iter().min_by_key(|(_, reserved)| reserved.renewed)
        {
            self.end(oldest);
        }
        self.renewals += 1;
        self.by_file.insert(file, Reservation { from, to, streak, renewed: self.renewals });
        if from < to {
            self.by_start.insert(from, (to, file));
        }
    }

    /// Ends the reservation of a file.
    pub fn end(&mut self, file: NodeId) {
        if let Some(reserved) = self.by_file.remove(&file).filter(|reserved| reserved.from < reserved.to) {
            self.by_start.remove(&reserved.from);
        }
    }

    /// The first reservation of another file that overlaps `from..to`.
    pub fn others(&self, file: NodeId, from: u64, to: u64) -> Option<(u64, u64)> {
        // A reservation that begins before `from` may reach into the range. None overlap, so only the last of those can.
        let first =
            self.by_start.range(..=from).next_back().filter(|(_, (end, _))| *end > from).map_or(from, |(&at, _)| at);
        let mut range = self.by_start.range(first..to.max(first));
        range.find(|(_, (_, holder))| *holder != file).map(|(&begin, &(end, _))| (begin, end))
    }
}

/// How much room the defragmenter needs on a disk: as much as it takes to empty a window that gains something.
#[derive(Clone, Copy, Debug)]
struct Reserve {
    pub granules: u64,
    /// Room that gaps and the unit take from a window that is emptied.
    pub loss: u64,
    /// Further room that may be lost on a full disk before the reserve is used up.
    margin: u64,
    /// The most granules that files may fill with room left for the reserve.
    pub usable: u64,
}

impl Reserve {
    /// The reserve of a disk of `granules` with these distances, where a run of `unit` granules counts as room.
    pub fn new(granules: u64, did: u64, dpid: u64, unit: u64) -> Reserve {
        let loss = did.saturating_add(dpid.saturating_mul(2)).saturating_add(unit);
        let margin = loss.div_ceil(4).saturating_sub(dpid.saturating_sub(did)).max(loss.div_ceil(40));
        let mut reserve = Reserve { granules, loss, margin, usable: 0 };
        // By bisection, because if some data leaves enough room, less data does too.
        let mut too_many = granules;
        while reserve.usable + 1 < too_many {
            let middle = reserve.usable.midpoint(too_many);
            let fits = reserve.room(middle, loss.saturating_add(margin)).is_some();
            *(if fits { &mut reserve.usable } else { &mut too_many }) = middle;
        }
        reserve
    }

    /// The room that must be left beside `readable` granules, of which at most the usable ones count; `None` if none are usable.
    pub fn beside(self, readable: u64) -> Option<u64> {
        self.room(readable.min(self.usable), self.loss + self.loss.div_ceil(20).min(self.margin))
    }

    /// The least `r` of `r * (spare - r) >= loss * readable`, if there is one. Beside `r` granules of room, `spare - r` granules are in gaps. So
    /// some window with `r` granules of data has at least `r * (spare - r) / readable` in gaps, which must make up for the loss.
    fn room(self, readable: u64, loss: u64) -> Option<u64> {
        let spare = self.granules.checked_sub(readable)?.checked_sub(loss)?;
        let square = u128::from(spare).pow(2).checked_sub(4 * u128::from(loss) * u128::from(readable))?;
        Some((spare - square.isqrt() as u64).div_ceil(2))
    }
}
