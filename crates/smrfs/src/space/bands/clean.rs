//! When to clean, how much at a time, and when to stop.

use super::BandSpace;
use super::event::{Choice, CleaningEvent};
use super::options::{CleaningQuota, Reset};
use crate::space::{CleaningStep, Trigger};

/// Events in the foreground that may gain nothing before a write is told that there is no space (assumption).
const MOST_WITHOUT_GAIN: u32 = 3;

/// State of the cleaner beyond the bands themselves.
#[derive(Debug, Default)]
pub(super) struct BandCleaner {
    event: Option<CleaningEvent>,
    /// Granules that may still be moved for what the host has written.
    allowed: u64,
    /// Nothing was found to clean, and nothing has changed since.
    fruitless: bool,
    /// Room that could be written when the last event in the foreground began.
    stuck_room: Option<u64>,
    /// Events in the foreground that gained nothing, such as one in which a write failed.
    stuck_without_gain: u32,
    stuck_settled: bool,
    /// True if refused resets have been tried again since a host wrote last.
    stuck_retried: bool,
    /// Bands that the disk did not reset, and when.
    pub(super) refused: Vec<(u64, u64)>,
}

impl BandCleaner {
    /// Bands have changed: what could not be cleaned may be now.
    pub fn changed(&mut self) {
        self.fruitless = false;
    }

    /// Ends an event whose data can't be moved: it has not been in vain, for it won't be tried again.
    pub fn left_behind(&mut self) {
        self.stuck_room = None;
    }

    /// When what is being moved now was written.
    pub fn source(&self) -> Option<u64> {
        self.event.as_ref().and_then(CleaningEvent::source)
    }
}

impl BandSpace {
    /// Fewer empty bands than this, and cleaning is due at once: the share asked for, but no more than half of what is
    /// not live (the rest could not be cleaned but at great cost), and enough above the reserve to clean ahead of need.
    fn low_bands(&self) -> u64 {
        let layout = &self.table.layout;
        let share = (layout.count * self.options.low_percent).div_ceil(100);
        let slack = layout.count.saturating_sub(self.table.sums().live.div_ceil(layout.granules));
        share.min(slack / 2).max(self.options.reserve_bands + 1)
    }

    /// True if space is short, or bands given up in the midst take up the last of those that may be open.
    fn is_urgent(&self) -> bool {
        (self.table.empty.len() as u64) < self.low_bands() || self.is_held_up()
    }

    fn is_held_up(&self) -> bool {
        self.table.sums().held_to_win > 0 && self.table.open_for_disk() + 2 >= self.shape.bands.max_open
    }

    fn is_idle_low(&self) -> bool {
        self.table.empty.len() as u64 * 100 < self.table.layout.count * self.options.idle_percent
    }

    fn least_dead_when_idle(&self) -> u64 {
        (self.table.layout.granules * self.options.idle_dead_percent / 100).max(1)
    }

    /// Raises the cleaning budget in proportion to what hosts wrote. Where space is low, by as much as winning the same room
    /// takes in the bands at hand, and by up to twice that as the reserve comes near.
    pub(super) fn allow(&mut self, placed: u64) {
        self.cleaner.stuck_room = None;
        self.cleaner.stuck_without_gain = 0;
        self.cleaner.stuck_settled = false;
        self.cleaner.stuck_retried = false;
        self.offer_refused_later();
        if !self.is_urgent() {
            self.cleaner.allowed = 0;
            return;
        }
        let Some(event) = &self.cleaner.event else { return };
        let span = self.low_bands() - self.options.reserve_bands;
        let above = (self.table.empty.len() as u64).saturating_sub(self.options.reserve_bands).min(span);
        let share = u128::from(placed * event.live) * u128::from(2 * span - above);
        self.cleaner.allowed += (share.div_ceil(u128::from(event.dead.max(1) * span))) as u64;
    }

    pub(super) fn due(&self, idle: bool) -> Option<Trigger> {
        let sums = self.table.sums();
        let eager = self.options.reset == Reset::Eager && !self.table.dead.is_empty();
        if eager || (self.is_urgent() && sums.to_win > 0 && !self.cleaner.fruitless && self.may_go_on()) {
            return Some(Trigger::Low);
        }
        let begun = self.cleaner.event.is_some();
        (idle && (begun || (self.is_idle_low() && self.would_gain()))).then_some(Trigger::Idle)
    }

    fn would_gain(&self) -> bool {
        let least = self.least_dead_when_idle();
        let size = self.table.layout.granules;
        !self.cleaner.fruitless
            && self.table.sums().to_win >= least
            && self
                .table
                .all()
                .any(|(_, band)| !band.lost && band.can_be_emptied() && band.cursor == size && band.dead() >= least)
    }

    /// True if the pace allows one more step alongside the host.
    fn may_go_on(&self) -> bool {
        self.options.pace == CleaningQuota::Event || self.cleaner.event.is_none() || self.cleaner.allowed > 0
    }

    pub(super) fn step(&mut self, why: Trigger) -> Option<CleaningStep> {
        if self.options.reset == Reset::Eager
            && let Some(&band) = self.table.dead.first()
        {
            return Some(self.reset(band));
        }
        match why {
            Trigger::Stuck => self.step_stuck(),
            Trigger::Idle | Trigger::Low => self.step_in_background(why),
        }
    }

    /// Until it has been reset, nobody writes to it.
    fn reset(&mut self, number: u64) -> CleaningStep {
        self.give_up(number);
        self.table.change(number, |band| band.asked = true);
        CleaningStep::Reset(number)
    }

    /// Nothing more is written to a band until it has been reset.
    fn give_up(&mut self, number: u64) {
        let size = self.table.layout.granules;
        self.table.change(number, |band| {
            band.held |= band.cursor < size;
            band.unused += size - band.cursor;
            band.cursor = size;
        });
        self.streams.forget(number);
    }

    fn step_in_background(&mut self, why: Trigger) -> Option<CleaningStep> {
        if self.cleaner.event.is_none() && (self.due(why == Trigger::Idle).is_none() || !self.begin(why)) {
            return None;
        }
        if why == Trigger::Low && !self.may_go_on() {
            return None;
        }
        self.go_on()
    }

    /// The next step of the event; it is over where there is none.
    fn go_on(&mut self) -> Option<CleaningStep> {
        let room = self.room();
        let event = self.cleaner.event.as_mut()?;
        if let Some((piece, owner)) = event.next_piece(&self.table, &self.live, self.options.block_granules, room) {
            event.passed(piece);
            self.cleaner.allowed = self.cleaner.allowed.saturating_sub(piece.count);
            return Some(CleaningStep::Move(piece, owner));
        }
        match event.finish(&self.table) {
            Some(CleaningStep::Reset(band)) => Some(self.reset(band)),
            Some(step) => Some(step),
            None => {
                self.cleaner.event = None;
                None
            }
        }
    }

    fn step_stuck(&mut self) -> Option<CleaningStep> {
        if self.streams.can_place(&self.table) {
            return None;
        }
        if let Some(event) = self.cleaner.event.as_mut().filter(|_| self.options.pace == CleaningQuota::Steady) {
            event.hurry();
        }
        loop {
            if let Some(step) = self.go_on() {
                return Some(step);
            }
            let room = self.table.sums().rest;
            let without_gain = self.cleaner.stuck_room.is_some_and(|before| room <= before);
            self.cleaner.stuck_without_gain += u32::from(without_gain);
            if self.cleaner.stuck_without_gain > MOST_WITHOUT_GAIN || !self.begin(Trigger::Stuck) {
                break;
            }
            self.cleaner.stuck_room = Some(room);
        }
        self.cleaner.stuck_room = None;
        if self.table.sums().retired > 0 && !self.cleaner.stuck_settled {
            self.cleaner.stuck_settled = true;
            return Some(CleaningStep::Settle);
        }
        if !std::mem::replace(&mut self.cleaner.stuck_retried, true)
            && self.offer_refused()
            && let Some(&band) = self.table.dead.first()
        {
            return Some(self.reset(band));
        }
        self.cleaner.stuck_retried = false;
        None
    }

    /// Granules that the cleaner can write and leave one band empty.
    fn room(&self) -> u64 {
        let own = self.streams.moved().map_or(0, |band| self.table.rest(band));
        own + (self.table.empty.len() as u64).saturating_sub(1) * self.table.layout.granules
    }

    /// Begins an event; `false` if there is nothing to clean, or no room to move it.
    fn begin(&mut self, why: Trigger) -> bool {
        let steady = self.options.pace == CleaningQuota::Steady;
        let stuck = why == Trigger::Stuck;
        let size = self.table.layout.granules;
        let empty = self.table.empty.len() as u64;
        let choice = Choice {
            bands: if stuck && steady { 1 } else { self.options.event_bands(&self.shape) },
            least_dead: if why == Trigger::Idle { self.least_dead_when_idle() } else { 1 },
            greedy: stuck && steady,
            open: stuck || empty <= self.options.reserve_bands,
            begun: empty > 0 && self.table.open_for_disk() + 2 <= self.shape.bands.max_open,
            held_first: self.is_held_up(),
            room: self.room(),
            most_room: self.table.sums().open_rest + empty * size,
            clock: self.clock,
        };
        let bands = choice.choose(&self.table, &self.streams);
        if bands.is_empty() {
            self.cleaner.fruitless = true;
            return false;
        }
        bands.iter().for_each(|&band| self.give_up(band));
        self.cleaner.event = Some(CleaningEvent::new(bands, &self.table));
        true
    }
}
