//! When to clean, how much at a time, and when to stop.
//!
//! A cleaning event examines some bands, and chooses by Rosenblum and Ousterhout (1992): the largest age × (1 − u) / (1 + u), where u is
//! the live share. Ages count granules written by hosts since, so they need no clock. An event first moves the live data of all its bands,
//! then settles once, then resets the bands without readable data.

use super::table::{Band, BandTable, Streams};
use super::{BandSpace, CleaningQuota, IDLE_PERCENT, LOW_PERCENT, RESERVE_BANDS, Reset};
use crate::space::{CleaningStep, Live, Trigger};
use crate::units::{Granule, Owner, Span};

/// Foreground events without gain before a write fails for lack of space (assumption).
const MOST_WITHOUT_GAIN: u32 = 3;

/// State of the cleaner beyond the bands themselves.
#[derive(Debug, Default)]
pub(super) struct BandCleaner {
    event: Option<CleaningEvent>,
    /// Budget: granules that may still be moved for the host's writes.
    allowed: u64,
    /// True if nothing was found to clean, and nothing has changed since.
    fruitless: bool,
    /// Writable room when the last foreground event began.
    stuck_room: Option<u64>,
    /// Foreground events that gained nothing, such as one in which a write failed.
    stuck_without_gain: u32,
    stuck_settled: bool,
    /// True if refused resets have been tried again since the last host write.
    stuck_retried: bool,
    /// Bands that the disk did not reset, with the times.
    pub(super) refused: Vec<(u64, u64)>,
}

impl BandCleaner {
    /// Notes that bands have changed, so that there may be something to clean now.
    pub fn changed(&mut self) {
        self.fruitless = false;
    }

    /// Ends an event whose data can't be moved. It counts as a gain, because that data won't be tried again.
    pub fn left_behind(&mut self) {
        self.stuck_room = None;
    }

    /// When the data that is being moved was written.
    pub fn source(&self) -> Option<u64> {
        self.event.as_ref().and_then(CleaningEvent::source)
    }
}

impl BandSpace {
    /// Cleaning is due at once below this many empty bands: the configured share, but at most half of the space that is not live (cleaning
    /// more would be very expensive), and enough above the reserve to clean ahead of need.
    fn low_bands(&self) -> u64 {
        let layout = &self.table.layout;
        let share = (layout.count * LOW_PERCENT).div_ceil(100);
        let slack = layout.count.saturating_sub(self.table.sums.live.div_ceil(layout.granules));
        share.min(slack / 2).max(RESERVE_BANDS + 1)
    }

    /// True if space is short, or partly written bands that were given up use up the limit of open bands.
    fn is_urgent(&self) -> bool {
        (self.table.empty.len() as u64) < self.low_bands() || self.is_held_up()
    }

    fn is_held_up(&self) -> bool {
        self.table.sums.held_to_win > 0 && self.table.open_for_disk() + 2 >= self.shape.bands.max_open
    }

    fn is_idle_low(&self) -> bool {
        self.table.empty.len() as u64 * 100 < self.table.layout.count * IDLE_PERCENT
    }

    fn least_dead_when_idle(&self) -> u64 {
        (self.table.layout.granules * self.options.idle_dead_percent / 100).max(1)
    }

    /// Raises the cleaning budget in proportion to the hosts' writes. If space is low, by as much as it takes to gain the same space from
    /// the available bands, and by up to twice that as the reserve comes near.
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
        let span = self.low_bands() - RESERVE_BANDS;
        let above = (self.table.empty.len() as u64).saturating_sub(RESERVE_BANDS).min(span);
        let share = u128::from(placed * event.live) * u128::from(2 * span - above);
        self.cleaner.allowed += (share.div_ceil(u128::from(event.dead.max(1) * span))) as u64;
    }

    /// Why a step of cleaning is due, if it is. `idle`: the file system has nothing else to do.
    pub(super) fn due(&self, idle: bool) -> Option<Trigger> {
        let can_reset = self.options.reset == Reset::Eager && !self.table.dead.is_empty();
        let can_gain = self.table.sums.to_win > 0 && !self.cleaner.fruitless;
        if can_reset || (self.is_urgent() && can_gain && self.may_go_on()) {
            return Some(Trigger::Low);
        }
        let helps_when_idle = self.cleaner.event.is_some() || (self.is_idle_low() && self.would_gain());
        (idle && helps_when_idle).then_some(Trigger::Idle)
    }

    fn would_gain(&self) -> bool {
        let least = self.least_dead_when_idle();
        let size = self.table.layout.granules;
        !self.cleaner.fruitless
            && self.table.sums.to_win >= least
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

    /// Asks for a reset. Until it is done, nobody writes to the band.
    fn reset(&mut self, number: u64) -> CleaningStep {
        self.give_up(number);
        self.table.change(number, |band| band.asked = true);
        CleaningStep::Reset(number)
    }

    /// Gives a band up: nothing more is written to it until it has been reset.
    fn give_up(&mut self, number: u64) {
        let size = self.table.layout.granules;
        self.table.change(number, |band| {
            band.held |= band.cursor < size;
            band.unused += size - band.cursor;
            band.cursor = size;
        });
        self.streams.forget(number);
    }

    /// A step of cleaning in idle time or alongside writes. Begins an event if none is under way and cleaning is due.
    fn step_in_background(&mut self, why: Trigger) -> Option<CleaningStep> {
        let has_event = self.cleaner.event.is_some() || self.due(why == Trigger::Idle).is_some() && self.begin(why);
        let may_go_on = why != Trigger::Low || self.may_go_on();
        if has_event && may_go_on { self.go_on() } else { None }
    }

    /// The next step of the event; `None` ends it.
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

    /// A step of cleaning for a host that has no room: by events as long as they gain room, then settling, then the bands whose reset was
    /// refused. `None` if hosts can write, or if nothing helps.
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
            let room = self.table.sums.rest;
            let without_gain = self.cleaner.stuck_room.is_some_and(|before| room <= before);
            self.cleaner.stuck_without_gain += u32::from(without_gain);
            if self.cleaner.stuck_without_gain > MOST_WITHOUT_GAIN || !self.begin(Trigger::Stuck) {
                break;
            }
            self.cleaner.stuck_room = Some(room);
        }
        self.cleaner.stuck_room = None;
        if self.table.sums.retired > 0 && !self.cleaner.stuck_settled {
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

    /// Granules that the cleaner can write while one band stays empty.
    fn room(&self) -> u64 {
        let own = self.streams.moved.map_or(0, |band| self.table.rest(band));
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
            open: stuck || empty <= RESERVE_BANDS,
            begun: empty > 0 && self.table.open_for_disk() + 2 <= self.shape.bands.max_open,
            held_first: self.is_held_up(),
            room: self.room(),
            most_room: self.table.sums.open_rest + empty * size,
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

/// Which bands an event may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// At most this many.
    pub bands: usize,
    /// At least this many granules are dead in each, and at least one.
    pub least_dead: u64,
    /// True to take the least live ones, however young.
    pub greedy: bool,
    /// True if a dead band may be taken from the stream that writes to it.
    pub open: bool,
    /// True if a partly written band without a writer may be given up, because moved data has another band to go to.
    pub begun: bool,
    /// True if bands that were given up go first, because they use up the limit of open bands.
    pub held_first: bool,
    /// How many granules there is room to move.
    pub room: u64,
    /// The same for the first band, if it needs more.
    pub most_room: u64,
    /// Granules that hosts have written until now.
    pub clock: u64,
}

impl Choice {
    /// The bands of the event, best first.
    pub fn choose(&self, table: &BandTable, streams: &Streams) -> Vec<u64> {
        let size = table.layout.granules;
        let mut best: Vec<(f64, u64)> = Vec::with_capacity(self.bands + 1);
        for (number, band) in table.all().filter(|&(number, band)| self.allows(number, band, table, streams)) {
            let score = self.score(band, size);
            if best.len() < self.bands || score > best[best.len() - 1].0 {
                let place = best.partition_point(|&(other, _)| other >= score);
                best.insert(place, (score, number));
                best.truncate(self.bands);
            }
        }
        let mut chosen = Vec::with_capacity(best.len());
        let mut moved = 0;
        for (_, number) in best {
            let live = table.get(number).live;
            if chosen.is_empty() || moved + live <= self.room {
                moved += live;
                chosen.push(number);
            }
        }
        chosen
    }

    /// True if a band may be emptied: it would gain space, nobody writes to it, and there is room for its live data.
    fn allows(&self, number: u64, band: &Band, table: &BandTable, streams: &Streams) -> bool {
        let can_be_emptied = !band.lost && band.can_be_emptied() && band.pending == 0;
        let rest = table.rest(number);
        let is_unused = rest == 0 || (self.open && band.live == 0) || (self.begun && !streams.taken(number));
        let has_room = band.live == 0 || band.live + rest <= self.most_room;
        can_be_emptied && band.dead() >= self.least_dead.max(1) && is_unused && has_room
    }

    fn score(&self, band: &Band, size: u64) -> f64 {
        if band.held && self.held_first {
            return f64::INFINITY;
        }
        let live = band.live as f64 / size as f64;
        let age = if self.greedy { 1.0 } else { (self.clock - band.youngest + 1) as f64 };
        age * (1.0 - live) / (1.0 + live)
    }
}

/// An event under way.
#[derive(Clone, Debug)]
pub(super) struct CleaningEvent {
    /// Its bands; those after index `moving` have not been visited.
    bands: Vec<u64>,
    moving: usize,
    /// Where to look for the next live piece in the band that is being emptied.
    at: Granule,
    settled: bool,
    resetting: usize,
    /// Live and dead granules of its bands when it began.
    pub live: u64,
    pub dead: u64,
}

impl CleaningEvent {
    pub fn new(bands: Vec<u64>, table: &BandTable) -> CleaningEvent {
        let sum = |of: fn(&Band) -> u64| bands.iter().map(|&band| of(table.get(band))).sum();
        let (live, dead) = (sum(|band| band.live), sum(Band::dead));
        CleaningEvent { bands, moving: 0, at: Granule(0), settled: false, resetting: 0, live, dead }
    }

    /// The band that is being emptied.
    pub fn source(&self) -> Option<u64> {
        self.bands.get(self.moving).copied()
    }

    /// The next live piece to move, of at most `block` granules, without passing it. `None` if the next band needs more than `room`.
    pub fn next_piece(&mut self, table: &BandTable, live: &Live, block: u64, room: u64) -> Option<(Span, Owner)> {
        loop {
            self.cut_short(table, room);
            let band = self.source()?;
            if table.get(band).unmovable > 0 {
                self.pass_band();
                continue;
            }
            let span = table.layout.span(band);
            self.at = self.at.max(span.at);
            let left = Span { at: self.at, count: span.end() - self.at };
            if let Some((piece, owner)) = live.within(left).next() {
                return Some((Span { count: piece.count.min(block), ..piece }, owner));
            }
            self.pass_band();
        }
    }

    fn pass_band(&mut self) {
        self.moving += 1;
        self.at = Granule(0);
    }

    /// Passes a piece that is being moved. Even if that fails, this event does not come back to it.
    pub fn passed(&mut self, piece: Span) {
        self.at = piece.end();
    }

    /// Ends the event with the current band, because a host waits.
    pub fn hurry(&mut self) {
        self.bands.truncate(self.moving + 1);
    }

    /// Ends the event before the next band, if that has not been begun and needs more than `room`.
    fn cut_short(&mut self, table: &BandTable, room: u64) {
        let next = self.source().filter(|_| self.moving > 0 && self.at == Granule(0));
        if next.is_some_and(|band| table.get(band).live > room) {
            self.bands.truncate(self.moving);
        }
    }

    /// The step after the last piece; `None` at the end of the event.
    pub fn finish(&mut self, table: &BandTable) -> Option<CleaningStep> {
        let retired = |band: &u64| table.get(*band).retired > 0;
        if !self.settled && self.bands.iter().any(retired) {
            self.settled = true;
            return Some(CleaningStep::Settle);
        }
        while let Some(&band) = self.bands.get(self.resetting) {
            self.resetting += 1;
            let state = table.get(band);
            if state.readable() == 0 && state.cursor > 0 && !state.asked {
                return Some(CleaningStep::Reset(band));
            }
        }
        None
    }
}
