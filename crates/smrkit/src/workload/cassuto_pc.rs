//! A stand-in for the PC trace of Cassuto et al. 2010, Table I, which is not public.
//!
//! Counts and sectors are the table's, exactly. The rest is assumed and chosen so that a set-associative cache of 1 %
//! does what the table says: its 2,058 rewritten regions are 21 collections of 98 of a cache's 99 native regions, though
//! all writes fill the cache only half. So writes spread over the whole disk and still prefer some caches: a run begins in
//! one of 120 places, chosen by Zipf's law, in any of 99 periods. No PC does this; the table implies it.

use super::patterns::Pattern;
use crate::dice::{Dice, Shuffle};
use crate::request::{Op, Request};
use crate::units::{Lba, Nanos, SECTOR_BYTES};

/// Table I: commands and sectors, without shingling.
pub(super) const READS: u64 = 435_285;
const READ_SECTORS: u64 = 8_394_244;
/// See `READS`.
pub(super) const WRITES: u64 = 75_615;
const WRITE_SECTORS: u64 = 2_889_969;
/// Table I: adjusted reads less reads. Each is one read of 1,000 to 1,999 sectors; no write is longer than 999.
const LONG_READS: u64 = 435_565 - READS;
const LONG_SECTORS: u32 = 1024;

/// A cluster of 4 KiB.
const CLUSTER_SECTORS: u64 = 8;
/// Assumption: lengths as a file system of 4 KiB clusters makes them, (sectors, per mille of the commands). The
/// remaining commands are 8 or 128 sectors, in the proportion that makes the sum exact.
const READ_SIZES: &[(u32, u64)] = &[(2, 40), (16, 120), (32, 100), (64, 50)];
const WRITE_SIZES: &[(u32, u64)] = &[(2, 50), (16, 120), (32, 60), (64, 60), (256, 20)];
const SHORT: u32 = CLUSTER_SECTORS as u32;
const CLUSTERED: u32 = 128;

/// Assumption: runs of 1 to 5 commands, 3 on average. Runs of writes leave 1 or 2 of 99 native regions untouched
/// while a cache fills: 98 are rewritten.
const RUN: (u64, u64) = (1, 5);
/// Assumption: one run of reads in this many returns to a recent write, and now and then reads beyond it. It makes
/// about as many reads span cache and native region as Table I has (1,394).
const RETURN_EVERY: u64 = 34;
const RECENT: usize = 1024;
/// Assumption: requests come 100 together, 10 ms apart, with a pause that fills the day.
const TOGETHER: u64 = 100;
const APART_NS: u64 = 10_000_000;

/// Assumption: the places preferred repeat after this much, 99 times on the disk of the paper.
const PERIOD_SECTORS: u64 = 3_072_000_000 / SECTOR_BYTES;
/// Equal places in a period. On the smallest disk each is one cluster.
const SPOTS: u64 = 120;
/// The smallest disk.
pub(super) const LEAST_SECTORS: u64 = 2048;

pub(super) struct CassutoPc {
    dice: Dice,
    reads: Deck,
    writes: Deck,
    places: Places,
    /// Where the latest writes began, and the index of the oldest of them.
    recent: Vec<u64>,
    oldest: usize,
    /// The run in progress: its operation, where its next request begins, and how many are left.
    op: Op,
    at: u64,
    left: u64,
    /// Requests so far.
    done: u64,
    /// The time of `TOGETHER` requests and the pause after them.
    slot_ns: u64,
    slot_start_ns: u64,
}

impl CassutoPc {
    /// A day of `duration` with these numbers of reads and writes. `area` is its first sector and its number of sectors.
    pub fn new([reads, writes]: [u64; 2], area: (u64, u64), theta: f64, duration: Nanos, mut dice: Dice) -> CassutoPc {
        // The part of Table I's `sectors` that `count` of its `commands` have, rounded to nearest.
        let sectors_of = |count: u64, sectors: u64, commands: u64| {
            ((u128::from(sectors) * u128::from(count) + u128::from(commands / 2)) / u128::from(commands)) as u64
        };
        // Requests come in bursts, each somewhere in a slot of its own.
        let slots = (reads + writes).div_ceil(TOGETHER).max(1);
        let long = reads * LONG_READS / READS;
        CassutoPc {
            places: Places::new(area, theta, &mut dice),
            dice,
            reads: Deck::new(reads, sectors_of(reads, READ_SECTORS, READS), READ_SIZES, long),
            writes: Deck::new(writes, sectors_of(writes, WRITE_SECTORS, WRITES), WRITE_SIZES, 0),
            recent: Vec::new(),
            oldest: 0,
            op: Op::Read,
            at: 0,
            left: 0,
            done: 0,
            slot_ns: duration.0 / slots,
            slot_start_ns: 0,
        }
    }

    fn begin_run(&mut self) {
        // Drawn in proportion to what is left, so that reads and writes run out together.
        let left = self.reads.left + self.writes.left;
        self.op = if self.dice.below(left) < self.writes.left { Op::Write } else { Op::Read };
        self.left = self.dice.between(RUN.0, RUN.1);
        let returns = self.op == Op::Read && !self.recent.is_empty() && self.dice.below(RETURN_EVERY) == 0;
        self.at = if returns {
            self.recent[self.dice.below(self.recent.len() as u64) as usize]
        } else {
            self.places.draw(&mut self.dice)
        };
    }

    /// The time of the next request. A burst begins somewhere in the first half of its slot.
    fn time(&mut self) -> Nanos {
        let (slot, within) = (self.done / TOGETHER, self.done % TOGETHER);
        if within == 0 {
            self.slot_start_ns = slot * self.slot_ns + self.dice.below(self.slot_ns / 2 + 1);
        }
        // In a short slot requests are closer together, so that the burst ends in it.
        let apart = APART_NS.min(self.slot_ns / (2 * TOGETHER));
        Nanos(self.slot_start_ns + within * apart)
    }
}

impl Pattern for CassutoPc {
    fn next(&mut self) -> Option<Request> {
        if self.reads.left + self.writes.left == 0 {
            return None;
        }
        let left_of_kind = if self.op == Op::Write { self.writes.left } else { self.reads.left };
        if self.left == 0 || left_of_kind == 0 {
            self.begin_run();
        }
        let deck = if self.op == Op::Write { &mut self.writes } else { &mut self.reads };
        let sectors = deck.deal(&mut self.dice);
        // A run that would cross the end of the span stays at the end.
        let at = self.at.min(self.places.end - u64::from(sectors));
        if self.op == Op::Write {
            if self.recent.len() < RECENT {
                self.recent.push(at);
            } else {
                self.recent[self.oldest] = at;
                self.oldest = (self.oldest + 1) % RECENT;
            }
        }
        self.left -= 1;
        self.at = at + u64::from(sectors);
        let time = self.time();
        self.done += 1;
        Some(Request { time, ..Request::new(self.op, Lba(at), sectors) })
    }

    fn peek(&self) -> Nanos {
        Nanos(self.slot_ns * self.done.div_ceil(TOGETHER))
    }
}

/// Lengths drawn at random without replacement, so that count and sum are exact.
struct Deck {
    cards: Vec<(u32, u64)>,
    left: u64,
}

impl Deck {
    /// `count` lengths that sum to `sectors`.
    fn new(count: u64, sectors: u64, per_mille: &[(u32, u64)], long: u64) -> Deck {
        let fixed = per_mille.iter().map(|&(size, share)| (size, count * share / 1000));
        let mut cards: Vec<(u32, u64)> = std::iter::once((LONG_SECTORS, long)).chain(fixed).collect();
        let rest = count - cards.iter().map(|card| card.1).sum::<u64>();
        let rest_sectors = sectors - cards.iter().map(|card| u64::from(card.0) * card.1).sum::<u64>();
        // The rest is short, and as many as needed are clustered instead, so that the sum is right.
        let extra = rest_sectors.saturating_sub(rest * u64::from(SHORT));
        let step = u64::from(CLUSTERED - SHORT);
        let clustered = (extra / step).min(rest);
        cards.push((CLUSTERED, clustered));
        if clustered < rest {
            // One command takes the remainder.
            cards.push((SHORT + (extra % step) as u32, 1));
            cards.push((SHORT, rest - clustered - 1));
        }
        Deck { cards, left: count }
    }

    /// Draws one of the lengths that are left.
    fn deal(&mut self, dice: &mut Dice) -> u32 {
        let mut drawn = dice.below(self.left);
        self.left -= 1;
        // From the last, because the last are the most frequent.
        for (size, left) in self.cards.iter_mut().rev() {
            if drawn < *left {
                *left -= 1;
                return *size;
            }
            drawn -= *left;
        }
        unreachable!("a deck deals what it holds")
    }
}

/// Beginnings of runs: a spot by Zipf's law, in a random period, at a random place in the spot.
struct Places {
    first: u64,
    end: u64,
    period: u64,
    periods: u64,
    spot_sectors: u64,
    summed_weights: Vec<f64>,
    order: Shuffle,
}

impl Places {
    fn new((first, sectors): (u64, u64), theta: f64, dice: &mut Dice) -> Places {
        let period = PERIOD_SECTORS.min(sectors);
        let mut sum = 0.0;
        let weights = (0..SPOTS).map(|k| {
            sum += libm::exp(-theta * libm::log((k + 1) as f64));
            sum
        });
        Places {
            first,
            end: first + sectors,
            period,
            periods: sectors / period,
            spot_sectors: period / SPOTS,
            summed_weights: weights.collect(),
            order: Shuffle::new(SPOTS, dice),
        }
    }

    fn draw(&self, dice: &mut Dice) -> u64 {
        let drawn = dice.unit() * self.summed_weights[self.summed_weights.len() - 1];
        let rank = self.summed_weights.partition_point(|&sum| sum <= drawn);
        let spot_start = self.order.at(rank as u64) * self.spot_sectors;
        let within = dice.below(self.spot_sectors / CLUSTER_SECTORS) * CLUSTER_SECTORS;
        self.first + dice.below(self.periods) * self.period + spot_start + within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decks_come_out_exactly_whatever_their_count() {
        let mut dice = Dice::new(1, 1);
        for (count, sizes, mean) in [(READS, READ_SIZES, 19.28), (WRITES, WRITE_SIZES, 38.22)] {
            for n in [1, 2, 3, 17, 100, 999, 1000, 12_345, count] {
                let sectors = (n as f64 * mean).round() as u64;
                let mut deck = Deck::new(n, sectors, sizes, 0);
                let dealt: Vec<u32> = (0..n).map(|_| deck.deal(&mut dice)).collect();
                assert_eq!(dealt.iter().map(|&s| u64::from(s)).sum::<u64>(), sectors, "{n}");
                assert!(dealt.iter().all(|&s| (1..=256).contains(&s)));
            }
        }
    }
}
