//! The defragmenter: empties windows of the disk, a little at a time, if that gains more space than it uses.
//!
//! Kadekodi et al. 2015 leave it open. Of some sampled windows, it empties the one that gains the most space for each granule moved. Hosts
//! may write in the window, which is then given up.

use rand::RngExt;

use super::{Caveat, MOVED_PER_BLOCK, SAMPLES, SLACK_BLOCKS};
use crate::space::{AllocationRequest, CleaningStep, Trigger};
use crate::units::{Granule, Span};

/// Idle cleaning has to gain at least one granule for this many that it moves (assumption).
const IDLE_MOVES_FOR_ONE: u64 = 4;
/// A waiting write fails after moves of this many times the whole disk: far more than it takes to make room (assumption).
const MOST_ROUNDS: u64 = 4;

/// After this many extents no more windows are sampled, unless they are fewer than [`FEWEST_SAMPLES`]: on a disk of small
/// pieces a window holds thousands, and hosts wait for the search. (Assumption.)
const MOST_LOOKED: u64 = 16_384;
/// At least this many windows are sampled (assumption).
const FEWEST_SAMPLES: u32 = 16;

/// A stretch of the disk, with the cost and the gain of emptying it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    span: (u64, u64),
    /// Granules to be moved out of it.
    moved: u64,
    won: u64,
}

impl Window {
    /// The better of two windows: the one that gains more for each granule moved.
    fn better(best: Option<Window>, other: Option<Window>) -> Option<Window> {
        let (Some(a), Some(b)) = (best, other) else { return best.or(other) };
        let wins = u128::from(b.won) * u128::from(a.moved) > u128::from(a.won) * u128::from(b.moved);
        Some(if wins { b } else { a })
    }
}

/// The window that is being emptied, the budget, and the granules moved since the last settling.
#[derive(Clone, Debug, Default)]
pub(super) struct CleaningProgress {
    window: Option<Window>,
    /// Budget: granules that may still be moved for the hosts' writes.
    budget: u64,
    moved_while_stuck: u64,
    /// Granules moved since the last settling, which will free their old places.
    moved_out: u64,
    settled: bool,
    idle_is_useless: bool,
}

impl CleaningProgress {
    /// The window, if it overlaps `at..end`.
    pub fn window_in(&self, at: u64, end: u64) -> Option<(u64, u64)> {
        self.window.map(|window| window.span).filter(|span| at < span.1 && span.0 < end)
    }

    /// Gives up the window if it overlaps `at..end`.
    pub fn give_up_in(&mut self, at: u64, end: u64) {
        self.window = self.window.filter(|_| self.window_in(at, end).is_none());
    }

    /// Room that the window still needs besides data in `at..end`; 0 if that is in the window, which is given up then.
    pub fn needed_beside(&self, at: u64, end: u64) -> u64 {
        self.window.filter(|_| self.window_in(at, end).is_none()).map_or(0, |window| window.moved)
    }

    /// Notes that `count` granules are moved out of the window.
    pub fn moved(&mut self, count: u64) {
        self.budget = self.budget.saturating_sub(count);
        self.moved_while_stuck += count;
        self.moved_out += count;
        if let Some(window) = &mut self.window {
            window.moved = window.moved.saturating_sub(count);
        }
    }

    /// Limits `moved_out` to the retired granules: others are free already, or were not moved after all.
    pub fn released(&mut self, retired: u64) {
        self.moved_out = self.moved_out.min(retired);
    }

    /// Notes a host's write: adds `more` to the budget, of which at most `kept` is carried over.
    fn pay(&mut self, kept: u64, more: u64) {
        self.budget = self.budget.min(kept) + more;
        (self.moved_while_stuck, self.settled, self.idle_is_useless) = (0, false, false);
    }
}

impl Caveat {
    /// True if cleaning is due.
    pub(super) fn due(&self, idle: bool) -> Option<Trigger> {
        if !self.options.defragment {
            return None;
        }
        if self.progress.budget > 0 && self.shortage() > 0 {
            return Some(Trigger::Low);
        }
        let dead = self.ledger.granules - self.ledger.readable.count();
        let fragmented = self.ledger.runs.roomy_granules < dead / 2;
        (idle && fragmented && !self.progress.idle_is_useless).then_some(Trigger::Idle)
    }

    /// The next step.
    pub(super) fn next_step(&mut self, why: Trigger) -> Option<CleaningStep> {
        if !self.options.defragment {
            return (why == Trigger::Stuck).then(|| self.settle()).flatten();
        }
        match why {
            Trigger::Low if self.progress.budget == 0 || self.shortage() == 0 => None,
            Trigger::Low if self.retired.count() >= self.slack() => self.settle(),
            Trigger::Stuck if !self.progress.settled => self.settle().or_else(|| self.move_on(why)),
            Trigger::Stuck if self.progress.moved_while_stuck > MOST_ROUNDS * self.ledger.granules => None,
            _ => self.move_on(why),
        }
    }

    /// Notes a host's write, which pays for some cleaning.
    pub(super) fn pay(&mut self, count: u64) {
        let (short, slack) = (self.shortage().min(self.slack()), self.slack().max(1));
        // Less if less is missing, so that hosts wait rarely and pay evenly.
        let more = MOVED_PER_BLOCK * count * short / slack * short / slack;
        self.progress.pay(if short == 0 { 0 } else { self.options.block_granules }, more);
    }

    /// The space that is missing until hosts can write without cleaning.
    fn shortage(&self) -> u64 {
        (self.needed() + self.slack()).saturating_sub(self.ledger.runs.roomy_granules + self.progress.moved_out)
    }

    /// The reserve that is needed besides the readable data.
    fn needed(&self) -> u64 {
        self.reserve.beside(self.live.granules()).unwrap_or(self.ledger.granules)
    }

    fn slack(&self) -> u64 {
        SLACK_BLOCKS * self.ledger.runs.unit
    }

    fn settle(&mut self) -> Option<CleaningStep> {
        (self.progress.settled, self.progress.moved_out) = (true, 0);
        (self.retired.count() > 0).then_some(CleaningStep::Settle)
    }

    /// The next step of emptying a window. When it is empty, its granules are released, and the next window is chosen.
    fn move_on(&mut self, why: Trigger) -> Option<CleaningStep> {
        for _ in 0..2 {
            let Some(window) = self.progress.window.or_else(|| self.find_window(why)) else { break };
            self.progress.window = Some(window);
            if let Some(step) = self.move_out_of(window.span) {
                return Some(step);
            }
            self.progress.window = None;
            if let Some(step) = self.settle() {
                return Some(step);
            }
        }
        match why {
            Trigger::Low => self.progress.budget = 0,
            Trigger::Idle => self.progress.idle_is_useless = true,
            Trigger::Stuck => self.failed.clear(),
        }
        self.settle()
    }

    /// The next piece of the window; `None` if it is empty or there is no room outside.
    fn move_out_of(&mut self, window: (u64, u64)) -> Option<CleaningStep> {
        let whole = Span::new(window.0, window.1 - window.0);
        let (piece, owner) = self.live.within(whole).next()?;
        let want = AllocationRequest { owner, after: None, count: piece.count, more: 0, moving: true };
        let room = self.place_moved(&want)?;
        self.progress.moved(room.count);
        Some(CleaningStep::Move(Span { at: piece.at, count: room.count }, owner))
    }

    /// Marks the live data of `span` as unmovable: no window with it can be emptied.
    pub(super) fn leave(&mut self, span: Span) {
        for (live, _) in self.live.within(span) {
            self.unmovable.cover(live.range(), ());
        }
        self.progress.give_up_in(span.at.0, span.end().0);
        self.progress.released(self.retired.count());
    }

    fn can_be_moved(&self, span: Span) -> bool {
        self.unmovable.is_empty() || self.unmovable.count_within(span.range()) == 0
    }

    /// Chooses the window to empty next. In idle time, none that needs too many moves for its gain.
    fn find_window(&mut self, why: Trigger) -> Option<Window> {
        // Windows as large as the reserve always gain something; hosts would have to wait for larger ones.
        let (best, _) = self.sample(self.needed() + self.slack() / 4);
        match (best, why) {
            (Some(best), Trigger::Idle) if best.won * IDLE_MOVES_FOR_ONE < best.moved => None,
            (Some(best), _) => Some(best),
            (None, Trigger::Stuck) => self.any_window(),
            (None, _) => None,
        }
    }

    /// The best of some sampled windows of at most `most` granules each, and how many extents were visited.
    pub(super) fn sample(&mut self, most: u64) -> (Option<Window>, u64) {
        let (mut best, mut looked) = (None, 0);
        for sample in 0..SAMPLES {
            if sample >= FEWEST_SAMPLES && looked >= MOST_LOOKED {
                break;
            }
            let at = self.random.random_range(0..self.ledger.granules);
            best = Window::better(best, self.window_from(at, most, &mut looked));
        }
        (best, looked)
    }

    /// A window for when sampling finds none: as large as the free space, from anywhere on the disk.
    fn any_window(&mut self) -> Option<Window> {
        let from = self.random.random_range(0..self.ledger.granules);
        let everywhere = self.live.from(Granule(from)).chain(self.live.from(Granule(0))).take(self.live.extents());
        let mut best = None;
        for (looked, (span, _)) in everywhere.enumerate() {
            if best.is_some() && looked >= SAMPLES as usize {
                break;
            }
            best = Window::better(best, self.window_from(span.at.0, u64::MAX, &mut 0));
        }
        best
    }

    /// The best window that begins at the first run at or after `at`, and has at most `most` granules. `looked` counts the visited extents.
    fn window_from(&self, at: u64, most: u64, looked: &mut u64) -> Option<Window> {
        let ledger = &self.ledger;
        let mut above = self.live.before(Granule(at)).map(|(span, _)| span.end().0);
        let mut extents = self.live.from(Granule(at)).map(|(span, _)| span).peekable();
        // If `at` is in the middle of a run, skips to its end.
        while let Some(span) = extents.next_if(|span| Some(span.at.0) == above) {
            above = Some(span.end().0);
        }
        let from = above.unwrap_or(0);
        let upper = from + above.map_or(0, |_| ledger.dpid);
        let mut now = ledger.runs.worth_within(from, extents.peek()?.at.0);
        let room = ledger.runs.roomy_granules;
        let (mut moved, mut best) = (0, None);
        while let Some(span) = extents.next() {
            *looked += 1;
            moved += span.count;
            // Data is moved out of the window, so free space inside does not count.
            if moved > most || moved + now > room || !self.can_be_moved(span) {
                break;
            }
            let next = extents.peek().map(|next| next.at.0);
            if next == Some(span.end().0) {
                continue;
            }
            let to = next.unwrap_or(ledger.granules);
            now += ledger.runs.worth_within(span.end().0, to);
            let lower = next.map_or(to, |next| next.saturating_sub(ledger.did));
            // The moved data may become a new run elsewhere, with its own DPID after it.
            let won = ledger.runs.worth(lower.saturating_sub(upper)).saturating_sub(now + moved + ledger.dpid);
            if won > 0 && moved + now <= room {
                best = Window::better(best, Some(Window { span: (from, to), moved, won }));
            }
        }
        best
    }
}
