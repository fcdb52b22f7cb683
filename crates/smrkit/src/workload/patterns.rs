//! Patterns of requests (time, length, operation and address drawn independently; runs in a hot part; a backup with its metadata), and
//! streams: a pattern with an end, several merged by time, several one after another.

use super::draws::{RequestTimes, Sizes, ZipfRanks};
use crate::dice::{Coin, Dice, Shuffle};
use crate::error::Error;
use crate::interleave::Interleaved;
use crate::request::{InMemory, Op, Progress, Request, Source};
use crate::units::{Lba, Nanos};

/// Requests in the order of their times.
pub(super) trait Stream: Source {
    /// The end: the time that one more request would have had.
    fn end(&self) -> Nanos;
    /// Requests so far, and in all; an estimate if only a time or an amount is set.
    fn counts(&self) -> (u64, u64);
}

/// An infinite or finite sequence of requests.
pub(super) trait Pattern: Send {
    /// The next request; `None` at a natural end.
    fn next(&mut self) -> Option<Request>;
    /// The time of the next one, as far as it is known.
    fn peek(&self) -> Nanos;
}

/// End of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// A number of requests.
    Count(u64),
    /// A moment.
    Until(Nanos),
    /// A number of sectors asked for.
    Sectors(u64),
}

impl Limit {
    /// About how many requests come before it, given their mean length and the mean time between two of them.
    pub fn expected(self, mean_sectors: f64, mean_ns: f64) -> u64 {
        match self {
            Limit::Count(count) => count,
            Limit::Sectors(sectors) => (sectors as f64 / mean_sectors) as u64,
            Limit::Until(end) => (end.0 as f64 / mean_ns) as u64,
        }
    }
}

/// A pattern with an end.
pub(super) struct Limited<P> {
    pattern: P,
    limit: Limit,
    expected: u64,
    done: u64,
    sectors: u64,
    is_over: bool,
}

impl<P: Pattern> Limited<P> {
    /// `expected`: about how many requests that makes.
    pub fn new(pattern: P, limit: Limit, expected: u64) -> Limited<P> {
        Limited { pattern, limit, expected, done: 0, sectors: 0, is_over: false }
    }

    /// The next request; `None` once a limit of time or of sectors is reached.
    fn next(&mut self) -> Option<Request> {
        if matches!(self.limit, Limit::Sectors(sectors) if self.sectors >= sectors) {
            return None;
        }
        let request = self.pattern.next()?;
        if matches!(self.limit, Limit::Until(end) if request.time >= end) {
            return None;
        }
        self.sectors = self.sectors.saturating_add(u64::from(request.sectors));
        Some(request)
    }
}

impl<P: Pattern> Source for Limited<P> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if self.is_over {
            return Ok(());
        }
        let full = InMemory::BATCH;
        // A known number of requests is the usual case, and is drawn without a check of each.
        if let Limit::Count(count) = self.limit {
            let wanted = full.min(usize::try_from(count - self.done).unwrap_or(full));
            batch.extend((0..wanted).map_while(|_| self.pattern.next()));
            self.is_over = batch.len() < wanted || self.done + wanted as u64 == count;
        } else {
            batch.extend((0..full).map_while(|_| self.next()));
            self.is_over = batch.len() < full;
        }
        self.done += batch.len() as u64;
        Ok(())
    }
}

impl<P: Pattern> Stream for Limited<P> {
    fn end(&self) -> Nanos {
        match self.limit {
            Limit::Until(end) => end,
            _ => self.pattern.peek(),
        }
    }

    fn counts(&self) -> (u64, u64) {
        (self.done, if self.is_over { self.done } else { self.expected.max(self.done) })
    }
}

impl Stream for Interleaved<Box<dyn Stream>> {
    fn end(&self) -> Nanos {
        (0..self.len()).map(|number| self.source(number).end()).max().unwrap_or(Nanos::ZERO)
    }

    fn counts(&self) -> (u64, u64) {
        let all = (0..self.len()).map(|number| (self.given(number), self.source(number).counts().1));
        all.fold((0, 0), |(done, total), (given, own)| (done + given, u64::saturating_add(total, own)))
    }
}

/// Streams one after another. The times of each continue from the end of the one before. Progress counts requests.
pub(super) struct Chained {
    streams: Vec<Box<dyn Stream>>,
    current: usize,
    offset: Nanos,
}

impl Chained {
    pub fn new(streams: Vec<Box<dyn Stream>>) -> Chained {
        Chained { streams, current: 0, offset: Nanos::ZERO }
    }
}

impl Source for Chained {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        while let Some(stream) = self.streams.get_mut(self.current) {
            stream.fill(batch)?;
            if !batch.is_empty() {
                if self.offset > Nanos::ZERO {
                    batch.iter_mut().for_each(|request| request.time += self.offset);
                }
                break;
            }
            self.offset += stream.end();
            self.current += 1;
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        let counts = self.streams.iter().map(|stream| stream.counts());
        let (done, total) = counts.fold((0, 0u64), |(done, total), own| (done + own.0, total.saturating_add(own.1)));
        Progress { done, total: Some(total) }
    }
}

/// The plain pattern: time, length, operation and address are drawn independently.
pub(super) struct Independent<A> {
    pub dice: Dice,
    pub arrivals: RequestTimes,
    pub sizes: Sizes,
    pub writes: Coin,
    /// Operation of those that don't write.
    pub other: Op,
    pub first: u64,
    /// Draws the place of a request of some length, as a sector from the start of the span.
    pub address: A,
}

impl<A: FnMut(&mut Dice, u64) -> u64 + Send> Pattern for Independent<A> {
    #[inline]
    fn next(&mut self) -> Option<Request> {
        let time = self.arrivals.next(&mut self.dice);
        let sectors = self.sizes.draw(&mut self.dice);
        let op = if self.writes.toss(&mut self.dice) { Op::Write } else { self.other };
        let lba = Lba(self.first + (self.address)(&mut self.dice, u64::from(sectors)));
        Some(Request { time, ..Request::new(op, lba, sectors) })
    }

    fn peek(&self) -> Nanos {
        self.arrivals.peek()
    }
}

/// A span divided into places `align` apart, all sizes in sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub span: u64,
    pub align: u64,
}

impl Grid {
    /// Number of places with room for a request of this length; it must fit into the span.
    #[inline]
    pub fn places(self, sectors: u64) -> u64 {
        (self.span - sectors) / self.align + 1
    }
}

/// Any place, with equal probability.
pub(super) fn uniform(grid: Grid) -> impl FnMut(&mut Dice, u64) -> u64 + Send {
    // The last length and its number of places, because most workloads have only one length.
    let mut last = (0, 0);
    move |dice, sectors| {
        if last.0 != sectors {
            last = (sectors, grid.places(sectors));
        }
        dice.below(last.1) * grid.align
    }
}

/// One after another, wrapping at the end.
pub(super) fn sequential(span: u64) -> impl FnMut(&mut Dice, u64) -> u64 + Send {
    let mut next = 0;
    move |_, sectors| in_order(&mut next, span, sectors)
}

/// Takes the next place, which is the start of the span if the rest is too short.
fn in_order(next: &mut u64, span: u64, sectors: u64) -> u64 {
    let at = if sectors > span - *next { 0 } else { *next };
    *next = at + sectors;
    at
}

/// Places by Zipf's law, shuffled.
pub(super) fn zipfian(
    grid: Grid,
    largest: u64,
    theta: f64,
    dice: &mut Dice,
) -> impl FnMut(&mut Dice, u64) -> u64 + Send + use<> {
    let places = grid.places(largest);
    let (shuffle, zipf) = (Shuffle::new(places, dice), ZipfRanks::new(places, theta));
    move |dice, _| shuffle.at(zipf.sample(dice)) * grid.align
}

/// Places in a hot stretch, with probability `hot_access_share`, or in the rest.
pub(super) fn hot_cold(
    grid: Grid,
    largest: u64,
    hot_share: f64,
    hot_access_share: f64,
    dice: &mut Dice,
) -> impl FnMut(&mut Dice, u64) -> u64 + Send + use<> {
    let places = grid.places(largest);
    let hot = ((places as f64 * hot_share).round() as u64).clamp(1, places);
    // Where all places are hot, none is left to draw from the rest.
    let to_hot = if hot == places { Coin::Always } else { Coin::new(hot_access_share) };
    // The first draw, so that a seed places it alike whatever comes later.
    let hot_first = dice.below(places - hot + 1);
    move |dice, _| {
        let place = if to_hot.toss(dice) {
            hot_first + dice.below(hot)
        } else {
            let cold = dice.below(places - hot);
            // The hot stretch is skipped: places after it move by its length.
            if cold < hot_first { cold } else { cold + hot }
        };
        place * grid.align
    }
}

/// Alternating turns of `random` random places and of `run` sequential ones. A sequential turn begins at a random place.
pub(super) fn turns(grid: Grid, random: u64, run: u64) -> impl FnMut(&mut Dice, u64) -> u64 + Send {
    let (mut uniform, mut next, mut done) = (uniform(grid), 0, 0);
    move |dice, sectors| {
        if done == random + run {
            done = 0;
        }
        done += 1;
        if done <= random {
            return uniform(dice, sectors);
        }
        // The first of a sequential turn.
        if done == random + 1 {
            next = uniform(dice, sectors);
        }
        in_order(&mut next, grid.span, sectors)
    }
}

/// Every place once in each pass, in order, or shuffled anew for each pass.
pub(super) fn passes(span: u64, size: u64, shuffled: bool) -> impl FnMut(&mut Dice, u64) -> u64 + Send {
    let places = span / size;
    let (mut order, mut next) = (None, 0);
    move |dice, _| {
        if next == places {
            next = 0;
        }
        if shuffled && next == 0 {
            order = Some(Shuffle::new(places, dice));
        }
        let at = next;
        next += 1;
        order.as_ref().map_or(at, |order: &Shuffle| order.at(at)) * size
    }
}

/// Runs of single blocks in the hot part of a region; a run reads or writes throughout.
pub(super) struct RunsStream {
    pub dice: Dice,
    pub arrivals: RequestTimes,
    pub writes: Coin,
    /// First sector of the hot part, and how many blocks it has.
    pub hot_first: u64,
    pub hot_blocks: u64,
    pub block_sectors: u32,
    /// Shortest and longest run, in blocks; neither is longer than the hot part.
    pub run_min: u64,
    pub run_max: u64,
    /// The run in progress: its operation, its next block in the hot part, and how many are left.
    pub op: Op,
    pub at: u64,
    pub left: u64,
}

impl Pattern for RunsStream {
    fn next(&mut self) -> Option<Request> {
        if self.left == 0 {
            self.left = self.dice.between(self.run_min, self.run_max);
            self.at = self.dice.below(self.hot_blocks - self.left + 1);
            self.op = if self.writes.toss(&mut self.dice) { Op::Write } else { Op::Read };
        }
        let lba = Lba(self.hot_first + self.at * u64::from(self.block_sectors));
        self.left -= 1;
        self.at += 1;
        let time = self.arrivals.next(&mut self.dice);
        Some(Request { time, ..Request::new(self.op, lba, self.block_sectors) })
    }

    fn peek(&self) -> Nanos {
        self.arrivals.peek()
    }
}

/// A sequential write after an area of metadata that is updated at random.
pub(super) struct BackupStream {
    pub dice: Dice,
    pub arrivals: RequestTimes,
    pub data: Sizes,
    /// First sector of the metadata, and how many updates it has room for.
    pub metadata_first: u64,
    pub metadata_places: u64,
    pub data_first: u64,
    pub data_sectors: u64,
    /// Where the next data goes, counted from `data_first`.
    pub at: u64,
    /// Data requests since the last update.
    pub since_update: u64,
}

/// Assumption: data requests between two updates of metadata.
const METADATA_EVERY: u64 = 64;
/// Assumption: length of an update, 4 KiB.
pub(super) const METADATA_SECTORS: u64 = 8;

impl Pattern for BackupStream {
    fn next(&mut self) -> Option<Request> {
        let (lba, sectors) = if self.since_update == METADATA_EVERY {
            self.since_update = 0;
            let place = self.dice.below(self.metadata_places);
            (self.metadata_first + place * METADATA_SECTORS, METADATA_SECTORS as u32)
        } else {
            self.since_update += 1;
            let sectors = self.data.draw(&mut self.dice);
            (self.data_first + in_order(&mut self.at, self.data_sectors, sectors.into()), sectors)
        };
        let time = self.arrivals.next(&mut self.dice);
        Some(Request { time, ..Request::new(Op::Write, Lba(lba), sectors) })
    }

    fn peek(&self) -> Nanos {
        self.arrivals.peek()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_begins_again_where_a_request_has_no_room() {
        let (mut run, mut dice) = (sequential(10), Dice::new(1, 1));
        let places = [3, 3, 4, 10, 1, 9, 2, 8, 1].map(|sectors| run(&mut dice, sectors));
        assert_eq!(places, [0, 3, 6, 0, 0, 1, 0, 2, 0]);
    }

    #[test]
    fn places_have_room_for_their_request() {
        let places = |span, align, sectors| Grid { span, align }.places(sectors);
        assert_eq!([places(10, 1, 10), places(10, 1, 9), places(10, 4, 2), places(10, 4, 3)], [1, 2, 3, 2]);
        let mut uniform = uniform(Grid { span: 10, align: 4 });
        let mut dice = Dice::new(1, 1);
        for (sectors, all) in [(2, vec![0, 4, 8]), (3, vec![0, 4]), (10, vec![0]), (2, vec![0, 4, 8])] {
            let mut found: Vec<u64> = (0..100).map(|_| uniform(&mut dice, sectors)).collect();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found, all);
        }
    }

    #[test]
    fn passes_and_turns_come_around() {
        let mut dice = Dice::new(1, 1);
        let mut in_order = passes(11, 5, false);
        assert_eq!([(); 5].map(|()| in_order(&mut dice, 5)), [0, 5, 0, 5, 0]);
        let mut shuffled = passes(40, 5, true);
        for _ in 0..3 {
            let mut pass = [(); 8].map(|()| shuffled(&mut dice, 5));
            pass.sort_unstable();
            assert_eq!(pass, [0, 5, 10, 15, 20, 25, 30, 35]);
        }
        let mut turns = turns(Grid { span: 1000, align: 1 }, 2, 3);
        let all: Vec<u64> = (0..50).map(|_| turns(&mut dice, 5)).collect();
        for turn in all.chunks_exact(5) {
            let follows = |pair: &[u64]| pair[1] == pair[0] + 5 || pair[1] == 0;
            assert!(turn[2..].windows(2).all(follows) && !turn[..3].windows(2).all(follows), "{turn:?}");
        }
    }
}
