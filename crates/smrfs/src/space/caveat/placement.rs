//! Placement of a block: the policies, and what is kept out of their way.
//!
//! A block goes to the begin of a writable run: there it costs the least new gap. Next-fit is that of Kadekodi et al. 2015;
//! the others are compared in docs/papers/caveat.md.

use super::Caveat;
use super::options::Placement;
use crate::space::AllocationRequest;
use crate::units::Span;

/// No more blocks than this are expected because that many came before. (Assumption: longer runs read no faster.)
const STREAK_BLOCKS_MAX: u64 = 64;

/// Places that a search keeps away from; the first search from most.
#[derive(Clone, Copy)]
struct Care {
    /// Room kept for other files.
    reserved: bool,
    /// The window that is being emptied.
    window: bool,
}

const CARE: [Care; 3] = [
    Care { reserved: true, window: true },
    Care { reserved: true, window: false },
    Care { reserved: false, window: false },
];

impl Caveat {
    /// Room for a host's data.
    pub(super) fn place_host(&mut self, want: &AllocationRequest) -> Option<Span> {
        let count = want.count.min(self.options.block_granules);
        let placed = self.search(want, count).or_else(|| {
            // Cleaning promises runs of a unit only; on small disks that is less than a block.
            (self.options.split && count > self.ledger.runs.unit()).then(|| self.search_longest(want, count)).flatten()
        })?;
        if placed.1 < placed.0 + count {
            return Some(Span::new(placed.0, placed.1 - placed.0));
        }
        self.keep_room(want, placed, count);
        Some(Span::new(placed.0, count))
    }

    /// Room for what is being moved, outside the window that it is moved from; less than wanted where no run holds it.
    pub(super) fn place_moved(&self, want: &AllocationRequest) -> Option<Span> {
        let count = want.count.min(self.options.block_granules);
        // At the begin of a run: anywhere else it costs new gaps, and emptying the window might win nothing.
        let begin = |run: (u64, u64), least, care| self.part(run, least, want, care).filter(|part| part.0 == run.0);
        let beside = want.after.and_then(|after| self.beside(after.0, count, want, CARE[0]));
        let smallest = |care| self.ledger.runs.at_least(count).find_map(|run| begin(run, count, care));
        let longest = || self.ledger.runs.longest().find_map(|run| begin(run, 1, CARE_OF_MOVING));
        let elsewhere = || self.ledger.runs.longest().find_map(|run| self.part(run, 1, want, CARE_OF_MOVING));
        let found = beside.or_else(|| smallest(CARE[0])).or_else(|| smallest(CARE_OF_MOVING)).or_else(longest);
        let (from, to) = found.or_else(elsewhere)?;
        Some(Span::new(from, count.min(to - from)))
    }

    fn search(&self, want: &AllocationRequest, count: u64) -> Option<(u64, u64)> {
        let affordable = |part: &(u64, u64)| self.affordable(part.0, count);
        CARE.iter().find_map(|&care| {
            let fits = |run| self.part(run, count, want, care).filter(affordable);
            let beside = |at: Option<u64>| self.beside(at?, count, want, care).filter(affordable);
            match self.options.placement {
                Placement::Adjacent => {
                    beside(want.after.map(|after| after.0)).or_else(|| self.smallest(want, count, care))
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

    /// The longest run, for a block that can't stay in one piece.
    fn search_longest(&self, want: &AllocationRequest, count: u64) -> Option<(u64, u64)> {
        let care = CARE[2];
        let long = self.ledger.runs.longest().take_while(|(from, to)| to - from >= self.ledger.runs.unit());
        long.into_iter().find_map(|run| {
            let (from, to) = self.part(run, self.ledger.runs.unit(), want, care)?;
            let least = (from, from + self.ledger.runs.unit());
            let most = (from, to.min(from + count));
            [most, least].into_iter().find(|part| self.affordable(part.0, part.1 - part.0))
        })
    }

    /// The run that goes on at `at`, from there on.
    fn beside(&self, at: u64, count: u64, want: &AllocationRequest, care: Care) -> Option<(u64, u64)> {
        let (_, end, _) = self.ledger.runs.around(at)?;
        self.part((at, end), count, want, care).filter(|&(from, _)| from == at)
    }

    /// The shortest run that holds all that is to come; if none does, the longest.
    fn smallest(&self, want: &AllocationRequest, count: u64, care: Care) -> Option<(u64, u64)> {
        let (runs, rest) = (&self.ledger.runs, count + self.to_come(want));
        let part = |run, least| self.part(run, least, want, care);
        let affordable = |part: &(u64, u64)| self.affordable(part.0, count);
        let longest = || runs.longest().take_while(|run| run.1 - run.0 >= count).find_map(|run| part(run, count));
        let found = runs.at_least(rest).find_map(|run| part(run, rest)).or_else(longest).filter(affordable);
        // What room there is next to the reserve may be too little; runs too short to be room cost none.
        let mut short = runs.at_least(count).take_while(|run| run.1 - run.0 < runs.unit());
        found.or_else(|| short.find_map(|run| part(run, count).filter(affordable)))
    }

    /// The runs from the cursor on, then those from the begin of the disk.
    fn next_fit(&self, count: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let runs = &self.ledger.runs;
        let here = runs.around(self.cursor).map(|(_, end, _)| (self.cursor, end));
        let before = runs.following(0, count).take_while(|(from, _)| *from <= self.cursor);
        here.into_iter().chain(runs.following(self.cursor + 1, count)).chain(before)
    }

    /// The first part of a run of at least `count` that nobody has to be kept away from.
    fn part(&self, run: (u64, u64), count: u64, want: &AllocationRequest, care: Care) -> Option<(u64, u64)> {
        let (mut at, end) = run;
        while at < end && end - at >= count {
            let Some((from, to)) = self.obstacle(at, end, want, care) else { return Some((at, end)) };
            if from > at && from - at >= count {
                return Some((at, from));
            }
            at = to;
        }
        None
    }

    /// The first stretch that begins in `at..end`, or lies over `at`, and must be left alone.
    fn obstacle(&self, at: u64, end: u64, want: &AllocationRequest, care: Care) -> Option<(u64, u64)> {
        let window = self.progress.window_in(at, end).filter(|_| care.window);
        let others = if care.reserved { self.reservations.others(want.owner.file, at, end) } else { None };
        // A block right behind what is reserved would make the end of it not writable.
        let others = others.map(|(from, to)| (from, to + self.ledger.did));
        let failed = self.failed.iter().copied().filter(|failed| failed.0 < end && at < failed.1).min();
        [window, others, failed].into_iter().flatten().min()
    }

    /// True if the defragmenter keeps the room that it needs. While it lacks any, hosts take nothing, not even what is too short
    /// to be room: what falls short where data moves is for the next moves, or cleaning would lose room from window to window.
    fn affordable(&self, at: u64, count: u64) -> bool {
        if !self.options.defragment {
            return true;
        }
        let runs = &self.ledger.runs;
        let Some((from, to, solid)) = runs.around(at) else { return false };
        let left = runs.worth(at.saturating_sub(solid + self.ledger.did))
            + runs.worth(to.saturating_sub(at + count + self.ledger.dpid));
        let lost = runs.worth(to - solid).saturating_sub(left) + self.lost_beside((from, to), at, at + count);
        // What is retired is free at the next settling. An overwritten block is live twice for a moment.
        let live = self.live.granules() + count;
        let to_move = self.progress.needed_beside(at, at + count);
        self.reserve.beside(live).is_some_and(|reserve| runs.roomy_granules() - lost >= reserve.max(to_move))
    }

    /// Cost of data in `at..end` of the run `own` to other runs that lie within DID above it or within DPID below it, with
    /// nothing but scars between.
    fn lost_beside(&self, own: (u64, u64), at: u64, end: u64) -> u64 {
        let (runs, did, dpid) = (&self.ledger.runs, self.ledger.did, self.ledger.dpid);
        let cut = |from: u64, to: u64, solid: u64| {
            let after = if from < own.0 {
                at.saturating_sub(did).min(to).saturating_sub(solid)
            } else {
                to.saturating_sub(solid.max(end + dpid))
            };
            runs.worth(to - solid).saturating_sub(runs.worth(after))
        };
        let (lo, hi) = (at.saturating_sub(did), end + dpid);
        let above = runs.around(lo).filter(|run| run.0 < own.0).into_iter();
        let above = above.chain(runs.within(lo + 1, own.0));
        above.chain(runs.within(own.1, hi.max(own.1))).map(|(from, to, solid)| cut(from, to, solid)).sum()
    }

    /// Keeps room behind what was placed for the rest of the file, where the policy does that.
    fn keep_room(&mut self, want: &AllocationRequest, placed: (u64, u64), count: u64) {
        self.cursor = placed.0 + count;
        if matches!(self.options.placement, Placement::Adjacent | Placement::Reservation) {
            let kept = self.to_come(want).max(self.options.reserved_blocks * self.options.block_granules);
            let until = placed.1.min(placed.0 + count + kept);
            let streak = self.reservations.streak(want.owner.file, want.after) + count;
            self.reservations.renew(want.owner.file, placed.0 + count, until, streak);
        }
    }

    /// Part of the file still to be expected: what is known to follow, or as much again as came one after another.
    fn to_come(&self, want: &AllocationRequest) -> u64 {
        let streak = self.reservations.streak(want.owner.file, want.after);
        want.more.max(streak.min(STREAK_BLOCKS_MAX * self.options.block_granules))
    }
}

/// Places that a move avoids where no other run holds it: its window alone.
const CARE_OF_MOVING: Care = Care { reserved: false, window: true };
