//! One cleaning event: which bands it examines, and what it does with them step by step.
//!
//! The choice is that of Rosenblum and Ousterhout (1992): the most age × (1 − u) / (1 + u), u being the live share. Ages
//! count what hosts have written since, so that they need no clock. The order within an event: move what is live in all
//! its bands, settle once, reset those that nothing readable is left in.

use super::streams::Streams;
use super::table::{Band, BandTable};
use crate::space::CleaningStep;
use crate::space::live::Live;
use crate::units::{Granule, Owner, Span};

/// Bands that an event may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// At most this many.
    pub bands: usize,
    /// At least this many granules dead in each, and at least one.
    pub least_dead: u64,
    /// True if the least live ones are taken, however young.
    pub greedy: bool,
    /// True if a dead band is taken from whoever writes to it.
    pub open: bool,
    /// True if a band begun that nobody writes to may be given up: what is moved has another one to go to.
    pub begun: bool,
    /// True if bands given up go first: they take up the last of the open ones.
    pub held_first: bool,
    /// Granules that there is room to move.
    pub room: u64,
    /// Granules that there are if the first band asks for them.
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

    fn allows(&self, number: u64, band: &Band, table: &BandTable, streams: &Streams) -> bool {
        if band.lost || !band.can_be_emptied() || band.pending > 0 || band.dead() < self.least_dead.max(1) {
            return false;
        }
        let rest = table.rest(number);
        let idle = rest == 0 || (self.open && band.live == 0) || (self.begun && !streams.taken(number));
        idle && (band.live == 0 || band.live + rest <= self.most_room)
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
    /// Its bands; those behind `moving` have not been looked at.
    bands: Vec<u64>,
    moving: usize,
    /// Place from which to look for the next live piece in the band that is being emptied.
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

    /// The next live piece to be moved, of at most `block` granules, if the next band is no more
    /// than `room`; stays where it is.
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
            if let Some((found, owner)) = live.overlapping(left).next()
                && let Some(piece) = found.overlap(left)
            {
                return Some((Span { count: piece.count.min(block), ..piece }, owner.further(piece.at - found.at)));
            }
            self.pass_band();
        }
    }

    fn pass_band(&mut self) {
        self.moving += 1;
        self.at = Granule(0);
    }

    /// The piece is on its way; whether or not it arrives, this event does not come back to it.
    pub fn passed(&mut self, piece: Span) {
        self.at = piece.end();
    }

    /// A host waits: the event ends with the band that is being emptied.
    pub fn hurry(&mut self) {
        self.bands.truncate(self.moving + 1);
    }

    /// Ends the event before the next band if that has not been begun and is more than there is room for.
    fn cut_short(&mut self, table: &BandTable, room: u64) {
        let next = self.source().filter(|_| self.moving > 0 && self.at == Granule(0));
        if next.is_some_and(|band| table.get(band).live > room) {
            self.bands.truncate(self.moving);
        }
    }

    /// The step that follows the last piece; none at the event's end.
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
