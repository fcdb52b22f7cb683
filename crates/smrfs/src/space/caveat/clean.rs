//! The defragmenter: empties windows of the disk, a little at a time, if that gains more space than it uses.
//!
//! Kadekodi et al. 2015 do not specify the defragmenter. This one samples some windows, and empties the one that gains the most space for each
//! granule moved. If a host writes in the window, the window is dropped.

use rand::RngExt;

use super::{Caveat, MOVED_PER_BLOCK, SAMPLES, SLACK_BLOCKS};
use crate::space::{AllocationRequest, CleaningStep, Trigger};
use crate::units::{Granule, Span};

/// Idle cleaning has to gain at least one granule for this many that it moves (assumption).
const IDLE_MOVES_FOR_ONE: u64 = 4;
/// A waiting write fails after moves of this many times the whole disk, which is far more than it takes to make room (assumption).
const ROUNDS_MAX: u64 = 4;

/// After visits to this many extents no more windows are sampled than [`SAMPLES_MIN`]. On a disk of small pieces a window holds thousands,
/// and hosts wait for the search. (Assumption.)
const VISITED_MAX: u64 = 16_384;
/// At least this many windows are sampled (assumption).
const SAMPLES_MIN: u32 = 16;

/// A stretch of the disk, with the cost and the gain of emptying it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Its first granule, and its end, excluded.
    span: (u64, u64),
    /// Granules that are still to be moved out of it.
    to_move: u64,
    /// Granules of room that it gains when it is empty.
    gain: u64,
}

impl Window {
    /// Returns the window that gains more for each granule moved.
    fn better(best: Option<Window>, other: Option<Window>) -> Option<Window> {
        let (Some(a), Some(b)) = (best, other) else { return best.or(other) };
        let is_better = u128::from(b.gain) * u128::from(a.to_move) > u128::from(a.gain) * u128::from(b.to_move);
        Some(if is_better { b } else { a })
    }
}

/// The state of the defragmenter between its steps.
#[derive(Clone, Debug, Default)]
pub(super) struct CleaningProgress {
    /// The window that is being emptied.
    window: Option<Window>,
    /// Granules that may still be moved for the hosts' writes.
    budget: u64,
    /// Granules moved since the last write of a host.
    moved_while_stuck: u64,
    /// Granules moved since the last settling, which will free their old places.
    moved_unsettled: u64,
    /// True if a settling was asked for since the last write of a host.
    has_settled: bool,
    /// True if idle cleaning has found no window since the last write of a host.
    idle_gains_nothing: bool,
}

impl CleaningProgress {
    /// The window, if it overlaps `at..end`.
    pub fn window_in(&self, at: u64, end: u64) -> Option<(u64, u64)> {
        self.window.map(|window| window.span).filter(|span| at < span.1 && span.0 < end)
    }

    /// Drops the window if it overlaps `at..end`.
    pub fn drop_window_at(&mut self, at: u64, end: u64) {
        self.window = self.window.filter(|_| self.window_in(at, end).is_none());
    }

    /// Room that emptying the window still needs after a write of `at..end`; none if the write drops the window.
    pub fn room_needed_beside(&self, at: u64, end: u64) -> u64 {
        self.window.filter(|_| self.window_in(at, end).is_none()).map_or(0, |window| window.to_move)
    }

    /// Notes that `count` granules are moved out of the window.
    pub fn moved(&mut self, count: u64) {
        self.budget = self.budget.saturating_sub(count);
        self.moved_while_stuck += count;
        self.moved_unsettled += count;
        if let Some(window) = &mut self.window {
            window.to_move = window.to_move.saturating_sub(count);
        }
    }

    /// Limits `moved_unsettled` to the retired granules, because others are free already, or were not moved after all.
    pub fn released(&mut self, retired: u64) {
        self.moved_unsettled = self.moved_unsettled.min(retired);
    }

    /// Adds `more` to the budget after a host's write. At most `kept_max` of the old budget is carried over.
    fn raise_budget(&mut self, kept_max: u64, more: u64) {
        self.budget = self.budget.min(kept_max) + more;
        (self.moved_while_stuck, self.has_settled, self.idle_gains_nothing) = (0, false, false);
    }
}

impl Caveat {
    /// Returns why cleaning is due, if it is.
    pub(super) fn due(&self, idle: bool) -> Option<Trigger> {
        if !self.options.defragment {
            return None;
        }
        // Each host's write grants a budget. Once that has been moved, cleaning pauses until the next write, so that hosts rarely wait for it.
        if self.progress.budget > 0 && self.shortage() > 0 {
            return Some(Trigger::Low);
        }
        // Fragmented, if more than half of the dead space is in gaps and runs that are too short to count as room.
        let dead = self.ledger.granules - self.ledger.readable.count();
        let fragmented = self.ledger.runs.roomy_granules < dead / 2;
        (idle && fragmented && !self.progress.idle_gains_nothing).then_some(Trigger::Idle)
    }

    /// Returns the next step of cleaning, if any helps.
    pub(super) fn next_step(&mut self, why: Trigger) -> Option<CleaningStep> {
        if !self.options.defragment {
            return (why == Trigger::Stuck).then(|| self.settle()).flatten();
        }
        match why {
            Trigger::Low if self.progress.budget == 0 || self.shortage() == 0 => None,
            Trigger::Low if self.retired.count() >= self.slack() => self.settle(),
            Trigger::Stuck if !self.progress.has_settled => self.settle().or_else(|| self.empty_window(why)),
            Trigger::Stuck if self.progress.moved_while_stuck > ROUNDS_MAX * self.ledger.granules => None,
            _ => self.empty_window(why),
        }
    }

    /// Raises the cleaning budget after a host has written `count` granules.
    pub(super) fn raise_budget(&mut self, count: u64) {
        let (short, slack) = (self.shortage().min(self.slack()), self.slack().max(1));
        // The budget grows with the square of the shortage, so that cleaning begins early and gently, and hosts rarely have to wait.
        let more = MOVED_PER_BLOCK * count * short / slack * short / slack;
        self.progress.raise_budget(if short == 0 { 0 } else { self.options.block_granules }, more);
    }

    /// Room that is missing until hosts can write without cleaning.
    fn shortage(&self) -> u64 {
        (self.needed() + self.slack()).saturating_sub(self.ledger.runs.roomy_granules + self.progress.moved_unsettled)
    }

    /// Room that the defragmenter needs beside the live data.
    fn needed(&self) -> u64 {
        self.reserve.beside(self.live.granules()).unwrap_or(self.ledger.granules)
    }

    fn slack(&self) -> u64 {
        SLACK_BLOCKS * self.ledger.runs.unit
    }

    fn settle(&mut self) -> Option<CleaningStep> {
        (self.progress.has_settled, self.progress.moved_unsettled) = (true, 0);
        (self.retired.count() > 0).then_some(CleaningStep::Settle)
    }

    /// Returns the next step of emptying a window. When the window is empty, settles to free its granules, and chooses the next one.
    fn empty_window(&mut self, why: Trigger) -> Option<CleaningStep> {
        // The window in progress may turn out to be empty with nothing to settle. Then another one is tried, once.
        for _ in 0..2 {
            let Some(window) = self.progress.window.or_else(|| self.find_window(why)) else { break };
            self.progress.window = Some(window);
            if let Some(step) = self.move_next_piece(window.span) {
                return Some(step);
            }
            self.progress.window = None;
            if let Some(step) = self.settle() {
                return Some(step);
            }
        }
        match why {
            Trigger::Low => self.progress.budget = 0,
            Trigger::Idle => self.progress.idle_gains_nothing = true,
            // A host waits, so places where writes failed are tried again.
            Trigger::Stuck => self.failed.clear(),
        }
        self.settle()
    }

    /// Places the next piece of a window elsewhere, and returns its move; `None` if the window is empty or there is no room outside.
    fn move_next_piece(&mut self, window: (u64, u64)) -> Option<CleaningStep> {
        let whole = Span::new(window.0, window.1 - window.0);
        let (piece, owner) = self.live.within(whole).next()?;
        // Only to learn how much of the piece can be moved: the core asks for the place again when it carries out the move.
        let want = AllocationRequest { owner, after: None, count: piece.count, more: 0, moving: true };
        let room = self.place_moved(&want)?;
        self.progress.moved(room.count);
        Some(CleaningStep::Move(Span { at: piece.at, count: room.count }, owner))
    }

    /// Chooses the window to empty next. In idle time, leaves out windows that need too many moves for their gain.
    fn find_window(&mut self, why: Trigger) -> Option<Window> {
        // A window as large as the reserve always gains something. For a larger one hosts would have to wait.
        let (best, _) = self.sample(self.needed() + self.slack() / 4);
        match (best, why) {
            (Some(best), Trigger::Idle) if best.gain * IDLE_MOVES_FOR_ONE < best.to_move => None,
            (Some(best), _) => Some(best),
            (None, Trigger::Stuck) => self.window_anywhere(),
            (None, _) => None,
        }
    }

    /// Returns the best of some sampled windows with at most `to_move_max` granules to move each, and how many extents were visited.
    pub(super) fn sample(&mut self, to_move_max: u64) -> (Option<Window>, u64) {
        let (mut best, mut visited) = (None, 0);
        for sample in 0..SAMPLES {
            if sample >= SAMPLES_MIN && visited >= VISITED_MAX {
                break;
            }
            let at = self.random.random_range(0..self.ledger.granules);
            best = Window::better(best, self.window_from(at, to_move_max, &mut visited));
        }
        (best, visited)
    }

    /// Chooses a window, of any size and anywhere on the disk, when sampling has found none.
    fn window_anywhere(&mut self) -> Option<Window> {
        let from = self.random.random_range(0..self.ledger.granules);
        let everywhere = self.live.from(Granule(from)).chain(self.live.from(Granule(0))).take(self.live.extents());
        let mut best = None;
        for (sample, (span, _)) in everywhere.enumerate() {
            if best.is_some() && sample >= SAMPLES as usize {
                break;
            }
            best = Window::better(best, self.window_from(span.at.0, u64::MAX, &mut 0));
        }
        best
    }

    /// Returns the best window that begins at the first run at or after `at`, and has at most `to_move_max` granules to move. `visited` counts the
    /// extents that were looked at.
    fn window_from(&self, at: u64, to_move_max: u64, visited: &mut u64) -> Option<Window> {
        let ledger = &self.ledger;
        let mut upstream_end = self.live.before(Granule(at)).map(|(span, _)| span.end().0);
        let mut extents = self.live.from(Granule(at)).map(|(span, _)| span).peekable();
        // If `at` is in the middle of a run, skips to its end.
        while let Some(span) = extents.next_if(|span| Some(span.at.0) == upstream_end) {
            upstream_end = Some(span.end().0);
        }
        let from = upstream_end.unwrap_or(0);
        // Of the emptied window, only `free_from..free_to` is sure: the rest is within DPID of data upstream, or within DID of data downstream.
        let free_from = from + upstream_end.map_or(0, |_| ledger.dpid);
        let mut room_before = ledger.runs.worth_within(from, extents.peek()?.at.0);
        let room = ledger.runs.roomy_granules;
        let (mut to_move, mut best) = (0, None);
        while let Some(span) = extents.next() {
            *visited += 1;
            to_move += span.count;
            // Data is moved out of the window, so free space inside does not count.
            if to_move > to_move_max || to_move + room_before > room || self.unmovable.count_within(span.range()) > 0 {
                break;
            }
            let next = extents.peek().map(|next| next.at.0);
            if next == Some(span.end().0) {
                continue;
            }
            let to = next.unwrap_or(ledger.granules);
            room_before += ledger.runs.worth_within(span.end().0, to);
            let free_to = next.map_or(to, |next| next.saturating_sub(ledger.did));
            let room_after = ledger.runs.worth(free_to.saturating_sub(free_from));
            // The moved data takes room elsewhere, where it may need a DPID of its own behind it.
            let gain = room_after.saturating_sub(room_before + to_move + ledger.dpid);
            if gain > 0 && to_move + room_before <= room {
                best = Window::better(best, Some(Window { span: (from, to), to_move, gain }));
            }
        }
        best
    }
}
