//! The cleaner of strict-append: when it works, how much at a time, and when it stops.
//!
//! A cleaning event empties some bands: those of the largest age × (1 − u) / (1 + u), where u is the live share (Rosenblum and Ousterhout
//! 1992). Ages count granules written by hosts since, so they need no clock. An event has three parts:
//!
//! 1. It moves the live data of all its bands.
//! 2. It settles, which makes the maps of moved data durable.
//! 3. It resets the bands without readable data.

use super::table::{Band, BandTable, Streams};
use super::{BandSpace, CleaningQuota, IDLE_PERCENT, LOW_PERCENT, RESERVE_BANDS, Reset};
use crate::space::{CleaningStep, Live, Trigger};
use crate::units::{Granule, Owner, Span};

/// Foreground events without gain before a write fails for lack of space (assumption).
const WITHOUT_GAIN_MAX: u32 = 3;

/// State of the cleaner beyond the bands themselves.
#[derive(Debug, Default)]
pub(super) struct BandCleaner {
    pub(super) event: Option<CleaningEvent>,
    /// Granules that may still be moved for the host's writes.
    budget: u64,
    /// True if nothing was found to clean, and no band has changed since.
    pub(super) found_nothing: bool,
    /// Writable room when the last foreground event began; `None` if its gain need not be judged.
    pub(super) stuck_room: Option<u64>,
    /// Foreground events that gained nothing, such as one in which a write failed.
    stuck_without_gain: u32,
    /// True if the maps have been made durable since the last host write.
    stuck_has_settled: bool,
    /// True if refused resets have been tried again for the host write that waits.
    stuck_has_retried: bool,
    /// Bands that the disk did not reset, with the value of `BandSpace::clock` at the failure.
    pub(super) refused: Vec<(u64, u64)>,
}

impl BandSpace {
    /// Cleaning is due at once below this number of empty bands. It is at most half of the space that is not live, because to free more
    /// would be very expensive, and above the reserve, so that cleaning begins before writers have to wait.
    fn low_band_count(&self) -> u64 {
        let layout = &self.table.layout;
        let share = (layout.count * LOW_PERCENT).div_ceil(100);
        let without_live = layout.count.saturating_sub(self.table.sums.live.div_ceil(layout.granules));
        share.min(without_live / 2).max(RESERVE_BANDS + 1)
    }

    /// True if empty bands are short, or bands closed early use up the limit of open bands.
    fn is_urgent(&self) -> bool {
        (self.table.empty.len() as u64) < self.low_band_count() || self.is_at_open_limit()
    }

    fn is_at_open_limit(&self) -> bool {
        self.table.sums.closed_early_reclaimable > 0 && self.table.open_for_disk() + 2 >= self.shape.bands.max_open
    }

    fn dead_min_when_idle(&self) -> u64 {
        (self.table.layout.granules * self.options.idle_dead_percent / 100).max(1)
    }

    /// Raises the cleaning budget after a host has written `placed` granules. An event moves `live / dead` granules for each one that it
    /// frees, so the budget grows by `placed * live / dead`, and by up to twice that as empty bands run out.
    pub(super) fn raise_budget(&mut self, placed: u64) {
        self.cleaner.stuck_room = None;
        self.cleaner.stuck_without_gain = 0;
        self.cleaner.stuck_has_settled = false;
        self.cleaner.stuck_has_retried = false;
        // Bands whose reset the disk refused are offered again once hosts have written as much as a band holds (assumption).
        if let Some(latest) = self.clock.checked_sub(self.shape.bands.granules) {
            self.retry_resets_refused_until(latest);
        }
        if !self.is_urgent() {
            self.cleaner.budget = 0;
            return;
        }
        let Some(event) = &self.cleaner.event else { return };
        // The factor is 1 with `low_band_count` empty bands, and 2 when only the reserve is left.
        let low_above_reserve = self.low_band_count() - RESERVE_BANDS;
        let empty_above_reserve = (self.table.empty.len() as u64).saturating_sub(RESERVE_BANDS).min(low_above_reserve);
        let scaled = u128::from(placed * event.live) * u128::from(2 * low_above_reserve - empty_above_reserve);
        self.cleaner.budget += (scaled.div_ceil(u128::from(event.dead.max(1) * low_above_reserve))) as u64;
    }

    /// Returns why a step of cleaning is due, if it is. `idle`: the file system has nothing else to do.
    pub(super) fn due(&self, idle: bool) -> Option<Trigger> {
        let can_reset = self.options.reset == Reset::Eager && !self.table.dead.is_empty();
        let can_gain = self.table.sums.reclaimable > 0 && !self.cleaner.found_nothing;
        if can_reset || (self.is_urgent() && can_gain && self.is_within_budget()) {
            return Some(Trigger::Low);
        }
        if !idle || self.cleaner.event.is_some() {
            return idle.then_some(Trigger::Idle);
        }
        let is_low = self.table.empty.len() as u64 * 100 < self.table.layout.count * IDLE_PERCENT;
        let (dead_min, size) = (self.dead_min_when_idle(), self.table.layout.granules);
        let gains = |band: &Band| !band.lost && band.can_be_emptied() && band.cursor == size && band.dead() >= dead_min;
        // The sum is tested first, because it usually saves the search of all bands.
        let would_gain = is_low
            && !self.cleaner.found_nothing
            && self.table.sums.reclaimable >= dead_min
            && self.table.all().any(|(_, band)| gains(band));
        would_gain.then_some(Trigger::Idle)
    }

    /// True if the pace allows one more step while the host writes.
    fn is_within_budget(&self) -> bool {
        self.options.pace == CleaningQuota::Event || self.cleaner.event.is_none() || self.cleaner.budget > 0
    }

    pub(super) fn step(&mut self, why: Trigger) -> Option<CleaningStep> {
        if self.options.reset == Reset::Eager
            && let Some(&band) = self.table.dead.first()
        {
            return Some(self.reset(band));
        }
        if why == Trigger::Stuck {
            return self.step_stuck();
        }
        // In idle time or between writes, an event begins if none is under way and cleaning is due.
        let has_event = self.cleaner.event.is_some() || self.due(why == Trigger::Idle).is_some() && self.begin(why);
        let may_continue = why != Trigger::Low || self.is_within_budget();
        if has_event && may_continue { self.next_step() } else { None }
    }

    /// Returns the step that resets a band. Until the core has done it, nobody writes to the band.
    fn reset(&mut self, number: u64) -> CleaningStep {
        self.close(number);
        self.table.change(number, |band| band.reset_asked = true);
        CleaningStep::Reset(number)
    }

    /// Closes a band: nothing more is written to it until it has been reset.
    fn close(&mut self, number: u64) {
        let size = self.table.layout.granules;
        self.table.change(number, |band| {
            band.closed_early |= band.cursor < size;
            band.unused += size - band.cursor;
            band.cursor = size;
        });
        self.streams.forget(number);
    }

    /// Returns the next step of the event. After the last one, ends the event and returns `None`.
    fn next_step(&mut self) -> Option<CleaningStep> {
        let room = self.room();
        let event = self.cleaner.event.as_mut()?;
        if let Some((piece, owner)) = event.next_piece(&self.table, &self.live, self.options.block_granules, room) {
            self.cleaner.budget = self.cleaner.budget.saturating_sub(piece.count);
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

    /// Returns a step of cleaning for a host that has no room; `None` if hosts can write, or if nothing helps. Tries in this order:
    ///
    /// 1. cleaning events, until too many of them have gained no room,
    /// 2. settling, which frees data that only stored maps still name,
    /// 3. resets that the disk refused before.
    fn step_stuck(&mut self) -> Option<CleaningStep> {
        if self.streams.can_place(&self.table) {
            return None;
        }
        // The host would wait for the whole event. `CleaningQuota::Event` wants just that, as in the paper.
        if let Some(event) = self.cleaner.event.as_mut().filter(|_| self.options.pace == CleaningQuota::Steady) {
            event.bands.truncate(event.moving + 1);
        }
        loop {
            if let Some(step) = self.next_step() {
                return Some(step);
            }
            let room = self.table.sums.writable;
            let has_gained = self.cleaner.stuck_room.is_none_or(|before| room > before);
            self.cleaner.stuck_without_gain += u32::from(!has_gained);
            if self.cleaner.stuck_without_gain > WITHOUT_GAIN_MAX || !self.begin(Trigger::Stuck) {
                break;
            }
            self.cleaner.stuck_room = Some(room);
        }
        self.cleaner.stuck_room = None;
        if self.table.sums.retired > 0 && !self.cleaner.stuck_has_settled {
            self.cleaner.stuck_has_settled = true;
            return Some(CleaningStep::Settle);
        }
        if !std::mem::replace(&mut self.cleaner.stuck_has_retried, true)
            && self.retry_resets_refused_until(self.clock)
            && let Some(&band) = self.table.dead.first()
        {
            return Some(self.reset(band));
        }
        // Nothing helped, so this write fails. The next one may try the refused resets again.
        self.cleaner.stuck_has_retried = false;
        None
    }

    /// Lets bands be reset again whose reset the disk refused when the clock was at `latest` or before; returns `false` if there are none.
    fn retry_resets_refused_until(&mut self, latest: u64) -> bool {
        let (retried, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.cleaner.refused).into_iter().partition(|&(_, refused_at)| refused_at <= latest);
        self.cleaner.refused = later;
        for &(band, _) in &retried {
            self.table.change(band, |band| band.reset_asked = false);
            self.cleaner.found_nothing = false;
        }
        !retried.is_empty()
    }

    /// Granules that the cleaner can write to its open band and to all empty ones but one.
    fn room(&self) -> u64 {
        let own = self.streams.cleaner_band.map_or(0, |band| self.table.writable(band));
        own + (self.table.empty.len() as u64).saturating_sub(1) * self.table.layout.granules
    }

    /// Begins an event; returns `false` if there is nothing to clean, or no room to move it.
    fn begin(&mut self, why: Trigger) -> bool {
        let steady = self.options.pace == CleaningQuota::Steady;
        let stuck = why == Trigger::Stuck;
        let size = self.table.layout.granules;
        let empty = self.table.empty.len() as u64;
        let choice = Choice {
            bands: if stuck && steady { 1 } else { self.options.event_bands(&self.shape) },
            dead_min: if why == Trigger::Idle { self.dead_min_when_idle() } else { 1 },
            ignores_age: stuck && steady,
            may_take_open: stuck || empty <= RESERVE_BANDS,
            may_take_unwritten: empty > 0 && self.table.open_for_disk() + 2 <= self.shape.bands.max_open,
            closed_early_first: self.is_at_open_limit(),
            room: self.room(),
            first_band_room: self.table.sums.writable_in_open + empty * size,
            clock: self.clock,
        };
        let bands = choice.choose(&self.table, &self.streams);
        if bands.is_empty() {
            self.cleaner.found_nothing = true;
            return false;
        }
        bands.iter().for_each(|&band| self.close(band));
        self.cleaner.event = Some(CleaningEvent::new(bands, &self.table));
        true
    }
}

/// Which bands an event may take.
#[derive(Clone, Copy, Debug)]
struct Choice {
    /// The most bands.
    bands: usize,
    /// The fewest dead granules of a band. A band without any is never taken.
    dead_min: u64,
    /// True if bands are chosen by their live share only, however young they are.
    ignores_age: bool,
    /// True if an open band without live data may be taken from the stream that writes to it.
    may_take_open: bool,
    /// True if a partly written band without a writer may be closed, because moved data has another band to go to.
    may_take_unwritten: bool,
    /// True if bands that were closed early go first, because they use up the limit of open bands.
    closed_early_first: bool,
    /// Room for moved data, in granules.
    room: u64,
    /// Room for the data of the first band, which is chosen even if `room` is too little: the last empty band and hosts' open bands count too.
    first_band_room: u64,
    /// Granules that hosts have written until now.
    clock: u64,
}

impl Choice {
    /// Returns the bands of the event, best first.
    fn choose(&self, table: &BandTable, streams: &Streams) -> Vec<u64> {
        let size = table.layout.granules;
        // The best so far, in descending order; of equal ones the lower number comes first.
        let mut best: Vec<(f64, u64)> = Vec::with_capacity(self.bands + 1);
        for (number, band) in table.all().filter(|&(number, band)| self.allows(number, band, table, streams)) {
            let score = self.score(band, size);
            if best.len() < self.bands || best.last().is_some_and(|&(worst, _)| score > worst) {
                let place = best.partition_point(|&(other, _)| other >= score);
                best.insert(place, (score, number));
                best.truncate(self.bands);
            }
        }
        let mut chosen = Vec::with_capacity(best.len());
        let mut moved = 0;
        for (_, number) in best {
            let live = table.get(number).live;
            // For the first there is `first_band_room`.
            if chosen.is_empty() || moved + live <= self.room {
                moved += live;
                chosen.push(number);
            }
        }
        chosen
    }

    /// True if a band may be emptied, because this frees space, takes the band from no stream, and there is room for its live data.
    fn allows(&self, number: u64, band: &Band, table: &BandTable, streams: &Streams) -> bool {
        let can_be_emptied = !band.lost && band.can_be_emptied() && band.pending == 0;
        let writable = table.writable(number);
        let may_be_closed = writable == 0
            || (self.may_take_open && band.live == 0)
            || (self.may_take_unwritten && !streams.is_written(number));
        // Closing the band takes its own writable granules out of the room.
        let has_room = band.live == 0 || band.live + writable <= self.first_band_room;
        can_be_emptied && band.dead() >= self.dead_min.max(1) && may_be_closed && has_room
    }

    fn score(&self, band: &Band, size: u64) -> f64 {
        if band.closed_early && self.closed_early_first {
            return f64::INFINITY;
        }
        let live = band.live as f64 / size as f64;
        let age = if self.ignores_age { 1.0 } else { (self.clock - band.youngest + 1) as f64 };
        age * (1.0 - live) / (1.0 + live)
    }
}

/// A cleaning event under way.
#[derive(Clone, Debug)]
pub(super) struct CleaningEvent {
    bands: Vec<u64>,
    /// Index of the band that is being emptied. Later ones have not been visited.
    moving: usize,
    /// Where to look for the next live piece in the band that is being emptied.
    at: Granule,
    has_settled: bool,
    /// Index of the next band to be reset.
    resetting: usize,
    /// Live and dead granules of its bands when it began.
    pub live: u64,
    pub dead: u64,
}

impl CleaningEvent {
    fn new(bands: Vec<u64>, table: &BandTable) -> CleaningEvent {
        let sum = |granules: fn(&Band) -> u64| bands.iter().map(|&band| granules(table.get(band))).sum();
        let (live, dead) = (sum(|band| band.live), sum(Band::dead));
        CleaningEvent { bands, moving: 0, at: Granule(0), has_settled: false, resetting: 0, live, dead }
    }

    /// The band that is being emptied.
    pub fn source(&self) -> Option<u64> {
        self.bands.get(self.moving).copied()
    }

    /// Returns the next live piece to move, of at most `block` granules; `None` after the last one, or if the next band needs more than `room`.
    /// Even if the move of a piece fails, this event does not come back to it.
    fn next_piece(&mut self, table: &BandTable, live: &Live, block: u64, room: u64) -> Option<(Span, Owner)> {
        loop {
            // The first band was chosen with enough room, and a band of which pieces have been moved already is worth finishing.
            let next = self.source().filter(|_| self.moving > 0 && self.at == Granule(0));
            if next.is_some_and(|band| table.get(band).live > room) {
                self.bands.truncate(self.moving);
            }
            let band = self.source()?;
            if table.get(band).unmovable > 0 {
                self.pass_band();
                continue;
            }
            let span = table.layout.span(band);
            self.at = self.at.max(span.at);
            let left = Span { at: self.at, count: span.end() - self.at };
            if let Some((piece, owner)) = live.within(left).next() {
                let piece = Span { count: piece.count.min(block), ..piece };
                self.at = piece.end();
                return Some((piece, owner));
            }
            self.pass_band();
        }
    }

    fn pass_band(&mut self) {
        self.moving += 1;
        self.at = Granule(0);
    }

    /// Returns the next step after the last piece has been moved: settling, then a reset of each band; `None` at the end of the event.
    fn finish(&mut self, table: &BandTable) -> Option<CleaningStep> {
        let retired = |band: &u64| table.get(*band).retired > 0;
        if !self.has_settled && self.bands.iter().any(retired) {
            self.has_settled = true;
            return Some(CleaningStep::Settle);
        }
        while let Some(&band) = self.bands.get(self.resetting) {
            self.resetting += 1;
            let state = table.get(band);
            if state.readable() == 0 && state.cursor > 0 && !state.reset_asked {
                return Some(CleaningStep::Reset(band));
            }
        }
        None
    }
}
