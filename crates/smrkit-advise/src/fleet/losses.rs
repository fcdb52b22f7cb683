//! How often a fleet loses data, by a Monte Carlo simulation of one placement group.
//!
//! A group has a chunk on each of as many drives as its code is wide. A cascade begins with the first failure that damages a group, and
//! ends when the group is whole again or has lost more chunks than it has parity. Losses are so rare that plain simulation would never see
//! one, so that a failure before the next chunk is rebuilt is given half the chances, and the cascade's weight makes up for it (failure biasing;
//! Nicola, Shahabuddin and Nakayama 2001). The last failure is not drawn at all: its probability is known.
//!
//! Left out: what the fleet repairs besides the cascade only lengthens its queue on average, and groups whose first failures differ are
//! taken to be lost in different events.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use smrkit::dice::Dice;

/// Hours of a year.
pub const YEAR_H: f64 = 8766.0;
/// Cascades of a block, which draws random numbers of its own: it gives the same sums wherever it is simulated.
const BLOCK: u64 = 20_000;
/// Cascades that are simulated at most for an interval of 2 % to either side; one of 1 % takes four times as many, as always.
const MOST_CASCADES: f64 = 1e6;
const USUAL_PRECISION: f64 = 0.02;
/// Standard errors to either side in which 95 % of estimates are.
const NORMAL_95: f64 = 1.96;

/// A fleet of drives, its code, what fails and how it is repaired.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Fleet {
    /// Drives.
    pub disks: u64,
    /// Chunks of a group that hold data; any as many of its chunks restore it.
    pub data: u32,
    /// Chunks that a group may lose.
    pub parity: u32,
    /// Groups that have a chunk on a drive.
    pub groups_per_disk: u64,
    /// What fails.
    pub failures: Failures,
    /// How it is repaired.
    pub repair: Repair,
}

/// What fails, and how often.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Failures {
    /// Failures of a drive a year, on average over `years`.
    pub per_year: f64,
    /// The shape of the Weibull distribution of ages at failure: 1 for a constant rate, more where drives wear out.
    pub shape: f64,
    /// Years that are looked at; all drives are new at their beginning.
    pub years: f64,
    /// Share of the failures that are the loss of one head, of which the drive keeps the other surfaces.
    pub head_share: f64,
    /// Racks, over which each group is spread as evenly as possible; 0 if they are not looked at.
    pub racks: u64,
    /// How often a year a rack loses drives at once.
    pub rack_losses_per_year: f64,
    /// The share of its drives that it loses then.
    pub rack_share: f64,
    /// How often a year a drive gets a sector that can't be read.
    pub latent_per_year: f64,
    /// Hours after which each sector was read, so that it was found.
    pub scrub_h: f64,
}

/// Repair of a chunk.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Repair {
    /// Hours from a failure until its repair begins.
    pub delay_h: f64,
    /// Hours in which a chunk is rebuilt.
    pub chunk_h: f64,
    /// Hours in which the part of a chunk is rebuilt that was lost with a head.
    pub head_chunk_h: f64,
    /// Share of a chunk that is lost with a head.
    pub head_part: f64,
    /// Groups that the fleet rebuilds at once.
    pub slots: f64,
    /// Draws the times of chunks from an exponential distribution with the mean above, as Markov models do.
    pub exponential: bool,
}

/// An estimate and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

impl Estimate {
    fn map(self, f: impl Fn(f64) -> f64) -> Estimate {
        Estimate { value: f(self.value), low: f(self.low), high: f(self.high) }
    }
}

/// What a fleet loses.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Losses {
    /// Probability that any data is lost in a year, on average over the years.
    pub in_a_year: Estimate,
    /// Probability that any data is lost in all years.
    pub in_all_years: Estimate,
    /// Hours a year in which some group has no redundancy left.
    pub hours_at_risk: f64,
    /// Hours a year in which some group is not whole.
    pub hours_degraded: f64,
    /// Hours until all groups of a drive that has failed are whole.
    pub disk_h: f64,
    /// Cascades that were simulated.
    pub cascades: u64,
}

impl Fleet {
    /// Chunks of a group.
    pub fn width(&self) -> u32 {
        self.data + self.parity
    }

    /// Groups of the fleet.
    pub fn groups(&self) -> f64 {
        (self.disks * self.groups_per_disk) as f64 / f64::from(self.width())
    }

    /// Share of the fleet's repair capacity that whole drives need.
    pub fn busy_share(&self) -> f64 {
        let failures_per_h = self.disks as f64 * self.failures.per_year / YEAR_H;
        failures_per_h * self.groups_per_disk as f64 * self.mean_chunk_h() / self.repair.slots
    }

    /// Hours until all groups of a drive are whole that has failed as a whole.
    pub fn disk_h(&self) -> f64 {
        let waves = (self.groups_per_disk as f64 / self.repair.slots).ceil();
        self.repair.delay_h + waves * self.repair.chunk_h
    }

    fn mean_chunk_h(&self) -> f64 {
        let head = self.failures.head_share;
        head * self.repair.head_chunk_h + (1.0 - head) * self.repair.chunk_h
    }

    /// Hours in which a chunk is missing, on average.
    fn mean_missing_h(&self) -> f64 {
        let waves = (self.groups_per_disk as f64 / self.repair.slots).max(1.0);
        self.repair.delay_h + (waves + 1.0) / 2.0 * self.mean_chunk_h()
    }

    /// Chunks of a group in each of the racks that it has any in.
    fn chunks_in_racks(&self) -> Vec<u32> {
        let racks = (self.failures.racks.min(u64::from(self.width())) as u32).max(1);
        (0..racks).map(|rack| (self.width() - rack).div_ceil(racks)).collect()
    }

    /// Simulates a block of cascades. The same seed gives the same sums.
    pub fn simulate(&self, seed: u64, block: u64) -> Sums {
        let mut dice = Dice::new(seed, block);
        let (alone_per_h, racks_per_h) = self.hits_per_h();
        let mut sums = Sums::default();
        for nth in 0..BLOCK {
            // Spread evenly over the years' failures.
            let share = (nth as f64 + dice.unit()) / BLOCK as f64;
            let alone = dice.unit() * (alone_per_h + racks_per_h) < alone_per_h;
            let age = if alone { libm::pow(share, 1.0 / self.failures.shape) } else { share };
            let mut cascade = Cascade::new(self, self.failures_per_h(age), &mut dice);
            cascade.begin(alone);
            let (loss, at_risk_h) = cascade.run();
            sums.add(Sums { loss, squares: loss * loss, at_risk_h, cascades: 1 });
        }
        sums
    }

    /// What it loses, by the sums of some blocks.
    pub fn losses(&self, sums: &Sums) -> Losses {
        let Failures { per_year, years, .. } = self.failures;
        let (alone_per_h, racks_per_h) = self.hits_per_h();
        // Only groups that were whole begin a cascade with it.
        let whole = (1.0 + per_year / YEAR_H * self.mean_missing_h()).powi(-(self.width() as i32));
        let cascades_per_h = self.groups() * (alone_per_h + racks_per_h) * whole;
        let (mean, half) = (sums.mean(), sums.half_width());
        let rate = Estimate { value: mean, low: (mean - half).max(0.0), high: mean + half };
        let a_year = rate.map(|loss| loss * cascades_per_h * YEAR_H);
        let repairs_per_h = self.disks as f64 * per_year / YEAR_H;
        Losses {
            in_a_year: a_year.map(|events| -libm::expm1(-events)),
            in_all_years: a_year.map(|events| -libm::expm1(-events * years)),
            hours_at_risk: (sums.at_risk_h / sums.cascades as f64 * cascades_per_h).min(1.0) * YEAR_H,
            hours_degraded: -libm::expm1(-repairs_per_h * self.disk_h()) * YEAR_H,
            disk_h: self.disk_h(),
            cascades: sums.cascades,
        }
    }

    /// How often an hour a whole group is hit by drives that fail alone, and by losses of its racks.
    fn hits_per_h(&self) -> (f64, f64) {
        let racks = self.chunks_in_racks().into_iter().map(|chunks| self.rack_hit_per_h(chunks));
        (f64::from(self.width()) * self.failures.per_year / YEAR_H, racks.sum())
    }

    /// Failures of a drive an hour at an age, which is a share of the years.
    ///
    /// A drive that is replaced is taken to be as old as the others, so that the number of failures until an age is the Weibull
    /// distribution's cumulative hazard, scaled to the average that was asked for.
    fn failures_per_h(&self, age: f64) -> f64 {
        let Failures { per_year, shape, .. } = self.failures;
        per_year / YEAR_H * if shape == 1.0 { 1.0 } else { shape * libm::pow(age, shape - 1.0) }
    }

    /// How often an hour a rack loses any of so many chunks of a group.
    fn rack_hit_per_h(&self, chunks: u32) -> f64 {
        let Failures { rack_losses_per_year, rack_share, .. } = self.failures;
        rack_losses_per_year / YEAR_H * (1.0 - libm::pow(1.0 - rack_share, f64::from(chunks)))
    }
}

/// Sums over cascades.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Sums {
    loss: f64,
    squares: f64,
    at_risk_h: f64,
    cascades: u64,
}

impl Sums {
    /// Adds those of other cascades. Rounding makes the order matter: that of the blocks gives the same bits everywhere.
    pub fn add(&mut self, other: Sums) {
        self.loss += other.loss;
        self.squares += other.squares;
        self.at_risk_h += other.at_risk_h;
        self.cascades += other.cascades;
    }

    /// Numbers of the blocks to simulate next, as many as there were, until half the interval is narrower than this share of the value.
    pub fn next_blocks(&self, precision: f64) -> Range<u64> {
        let most = MOST_CASCADES * libm::pow(USUAL_PRECISION / precision, 2.0);
        let is_enough = self.cascades as f64 >= most || self.half_width() <= precision * self.mean();
        let done = self.cascades / BLOCK;
        match done {
            0 => 0..1,
            _ if is_enough => done..done,
            _ => done..2 * done,
        }
    }

    fn mean(&self) -> f64 {
        self.loss / self.cascades as f64
    }

    fn half_width(&self) -> f64 {
        let variance = (self.squares / self.cascades as f64 - self.mean() * self.mean()).max(0.0);
        NORMAL_95 * libm::sqrt(variance / self.cascades as f64)
    }
}

/// A chunk that is missing.
struct Missing {
    rack: usize,
    /// The event in which its rack lost it; `None` if its drive failed alone.
    rack_event: Option<u32>,
    failed_h: f64,
    begin_h: f64,
    length_h: f64,
    /// The share of the chunk that is missing.
    part: f64,
}

impl Missing {
    fn end_h(&self) -> f64 {
        self.begin_h + self.length_h
    }

    /// Share of the group's stripes in which it is still missing.
    fn missing_part(&self, now_h: f64) -> f64 {
        self.part * ((self.end_h() - now_h) / self.length_h.max(1e-12)).clamp(0.0, 1.0)
    }
}

/// A group from its first failure on.
struct Cascade<'a> {
    fleet: &'a Fleet,
    dice: &'a mut Dice,
    failures_per_h: f64,
    /// Chunks that are there, by rack.
    present: Vec<u32>,
    missing: Vec<Missing>,
    rack_events: u32,
    now_h: f64,
}

impl<'a> Cascade<'a> {
    fn new(fleet: &'a Fleet, failures_per_h: f64, dice: &'a mut Dice) -> Cascade<'a> {
        let present = fleet.chunks_in_racks();
        Cascade { fleet, dice, failures_per_h, present, missing: Vec::new(), rack_events: 0, now_h: 0.0 }
    }

    fn begin(&mut self, alone: bool) {
        match alone {
            true => self.lose_one(),
            false => self.lose_in_rack(),
        }
        self.plan();
    }

    /// Losses of the cascade, and hours at risk, each divided by the groups that share it.
    fn run(mut self) -> (f64, f64) {
        let parity = self.fleet.parity as usize;
        let (mut weight, mut loss, mut at_risk_h) = (1.0, 0.0, 0.0);
        let (mut is_new_level, mut is_first) = (true, true);
        loop {
            let level = self.missing.len();
            if level > parity {
                return (loss + weight * self.part_of_event(), at_risk_h);
            }
            if level == parity && is_new_level {
                let groups = self.groups_alike();
                let unreadable = self.unreadable();
                loss += weight * (1.0 - libm::pow(1.0 - unreadable, groups)) / groups;
                weight *= 1.0 - unreadable;
            }
            let Some((first, end_h)) = self.first_end() else { return (loss, at_risk_h) };
            let (hit_per_h, left_h) = (self.hits_per_h(), (end_h - self.now_h).max(0.0));
            let hit = -libm::expm1(-hit_per_h * left_h);
            let is_hit = if level == parity {
                at_risk_h += weight * hit / hit_per_h * self.part_of_event();
                // The failure that loses the group is weighed, not drawn; which of its chunks it takes is.
                let (before_h, kept) = (self.now_h, self.missing.len());
                self.now_h += self.dice.unit() * left_h;
                self.hit();
                loss += weight * hit * self.part_of_event();
                self.restore(kept);
                self.now_h = before_h;
                weight *= 1.0 - hit;
                false
            } else if is_first {
                // Nothing comes of a group that is hit once.
                weight *= hit;
                true
            } else {
                let is_hit = self.dice.unit() < 0.5;
                weight *= 2.0 * if is_hit { hit } else { 1.0 - hit };
                is_hit
            };
            (is_new_level, is_first) = (is_hit, false);
            if is_hit {
                // The time of a failure that is known to come before the end.
                self.now_h += -libm::log1p(-self.dice.unit() * hit) / hit_per_h;
                self.hit();
                self.plan();
            } else {
                self.now_h = end_h;
                self.present[self.missing.swap_remove(first).rack] += 1;
            }
        }
    }

    /// The missing chunk that is rebuilt first, and when.
    fn first_end(&self) -> Option<(usize, f64)> {
        let ends = self.missing.iter().map(Missing::end_h).enumerate();
        ends.min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// How often an hour the group loses a chunk or several.
    fn hits_per_h(&self) -> f64 {
        let present = f64::from(self.present.iter().sum::<u32>());
        let racks = self.present.iter().map(|&chunks| self.fleet.rack_hit_per_h(chunks));
        present * self.failures_per_h + racks.sum::<f64>()
    }

    /// The group loses a chunk, or several of a rack.
    fn hit(&mut self) {
        let alone = self.failures_per_h * f64::from(self.present.iter().sum::<u32>());
        match self.dice.unit() * self.hits_per_h() < alone {
            true => self.lose_one(),
            false => self.lose_in_rack(),
        }
    }

    fn lose_one(&mut self) {
        let present = self.present.iter().sum::<u32>();
        let mut nth = self.dice.below(u64::from(present)) as u32;
        let rack = self.present.iter().position(|&chunks| {
            let is_here = nth < chunks;
            nth = nth.saturating_sub(chunks);
            is_here
        });
        let is_head = self.dice.unit() < self.fleet.failures.head_share;
        self.lose(rack.unwrap_or(0), None, is_head);
    }

    fn lose_in_rack(&mut self) {
        // A rack is drawn with a probability in proportion to its rate.
        let rates: Vec<f64> = self.present.iter().map(|&chunks| self.fleet.rack_hit_per_h(chunks)).collect();
        let mut left = self.dice.unit() * rates.iter().sum::<f64>();
        let rack = rates.iter().position(|rate| {
            left -= rate;
            left < 0.0
        });
        let rack = rack.unwrap_or(0);
        // Drawn again until a chunk is lost, because the rates count only events that hit this group.
        let lost = loop {
            let lost = (0..self.present[rack]).filter(|_| self.dice.unit() < self.fleet.failures.rack_share).count();
            if lost > 0 {
                break lost;
            }
        };
        self.rack_events += 1;
        (0..lost).for_each(|_| self.lose(rack, Some(self.rack_events), false));
    }

    fn lose(&mut self, rack: usize, rack_event: Option<u32>, is_head: bool) {
        let Repair { chunk_h, head_chunk_h, head_part, exponential, .. } = self.fleet.repair;
        let (mean_h, part) = if is_head { (head_chunk_h, head_part) } else { (chunk_h, 1.0) };
        let length_h = mean_h * if exponential { self.dice.exponential() } else { 1.0 };
        self.present[rack] -= 1;
        let failed_h = self.now_h;
        self.missing.push(Missing { rack, rack_event, failed_h, begin_h: f64::INFINITY, length_h, part });
    }

    /// Takes back what was lost after the first `kept` chunks.
    fn restore(&mut self, kept: usize) {
        for missing in self.missing.drain(kept..) {
            self.present[missing.rack] += 1;
        }
    }

    /// Plans the repair of chunks that wait. A group that has lost more goes before those that have lost less, so that it waits only for its like.
    fn plan(&mut self) {
        let Repair { delay_h, chunk_h, slots, .. } = self.fleet.repair;
        let place = self.dice.unit() * self.groups_alike();
        // With one chunk missing, a group also waits for groups that lost one in earlier failures: 1 / (1 − busy share) times as long, as in a
        // queue, but at most 100 times. Groups that have lost more go before these.
        let queue_factor = if self.missing.len() == 1 { 1.0 / (1.0 - self.fleet.busy_share()).max(0.01) } else { 1.0 };
        let wait_h = libm::floor(place / slots) * chunk_h * queue_factor;
        for missing in &mut self.missing {
            let soonest_h = (missing.failed_h + delay_h).max(self.now_h + wait_h);
            missing.begin_h = missing.begin_h.min(soonest_h);
        }
    }

    /// Probability that a sector of the chunks that are left can't be read, in stripes that have no redundancy left.
    fn unreadable(&self) -> f64 {
        let Failures { latent_per_year, scrub_h, .. } = self.fleet.failures;
        let part = self.missing.iter().map(|missing| missing.missing_part(self.now_h)).fold(1.0, f64::min);
        let of_chunk = latent_per_year / YEAR_H * scrub_h / 2.0 / self.fleet.groups_per_disk as f64;
        -libm::expm1(-f64::from(self.fleet.data) * of_chunk * part)
    }

    /// Groups of the fleet that have lost as much in the same failures and are still not whole, on average, this one among them.
    fn groups_alike(&self) -> f64 {
        let (others, probability) = self.others_alike();
        1.0 + others * probability
    }

    /// This group's part of an event that other groups share: the mean of 1 / (1 + n), where n of the others share it (binomial).
    fn part_of_event(&self) -> f64 {
        let (others, probability) = self.others_alike();
        if others * probability < 1e-6 {
            return 1.0;
        }
        (1.0 - libm::pow(1.0 - probability, others + 1.0)) / ((others + 1.0) * probability)
    }

    /// Other groups that may have lost as much in the same failures and are still not whole, and the probability that one has.
    fn others_alike(&self) -> (f64, f64) {
        let fleet = self.fleet;
        let (width, disks) = (f64::from(fleet.width()), fleet.disks as f64);
        let (mut others, mut probability) = ((fleet.groups() - 1.0).max(0.0), 1.0);
        let alone = self.missing.iter().filter(|missing| missing.rack_event.is_none());
        for (nth, missing) in alone.enumerate() {
            match nth {
                // The drive has so many groups, of which this is one.
                0 => others = (fleet.groups_per_disk - 1) as f64 * self.still_missing(missing),
                _ => probability *= (width - nth as f64) / (disks - nth as f64),
            }
        }
        for event in 1..=self.rack_events {
            let lost = self.missing.iter().filter(|missing| missing.rack_event == Some(event)).count();
            if lost > 0 {
                probability *= self.rack_alike(lost as u32);
            }
        }
        (others, probability)
    }

    /// The share of the groups of a drive that has failed which are still not whole: they are repaired in waves.
    fn still_missing(&self, missing: &Missing) -> f64 {
        let Repair { delay_h, chunk_h, slots, exponential, .. } = self.fleet.repair;
        let since_h = (self.now_h - missing.failed_h - delay_h).max(0.0);
        match exponential {
            true => libm::exp(-since_h / chunk_h),
            false => {
                let waves = libm::floor(since_h / chunk_h);
                (1.0 - waves * slots / self.fleet.groups_per_disk as f64).clamp(0.0, 1.0)
            }
        }
    }

    /// The probability that another group has at least as many chunks among the drives that a rack has lost.
    fn rack_alike(&self, lost: u32) -> f64 {
        let (racks, share) = (self.fleet.failures.racks.max(1), self.fleet.failures.rack_share);
        let chunks = self.fleet.width().div_ceil(racks as u32);
        let in_rack = (f64::from(self.fleet.width()) / racks as f64).min(1.0);
        let (mut below, mut term) = (0.0, libm::pow(1.0 - share, f64::from(chunks)));
        for nth in 0..lost {
            below += term;
            // From one term of the binomial distribution to the next.
            term *= f64::from(chunks - nth) / f64::from(nth + 1) * share / (1.0 - share).max(1e-12);
        }
        in_rack * (1.0 - below).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of drives of their own, whose chunks are rebuilt in exponential times, each by itself.
    fn arrays(arrays: u64, data: u32, parity: u32, per_year: f64, chunk_h: f64) -> Fleet {
        let failures = Failures {
            per_year,
            shape: 1.0,
            years: 10.0,
            head_share: 0.0,
            racks: 0,
            rack_losses_per_year: 0.0,
            rack_share: 0.0,
            latent_per_year: 0.0,
            scrub_h: 0.0,
        };
        let slots = f64::from(u32::MAX);
        let repair = Repair { delay_h: 0.0, chunk_h, head_chunk_h: chunk_h, head_part: 1.0, slots, exponential: true };
        Fleet { disks: arrays * u64::from(data + parity), data, parity, groups_per_disk: 1, failures, repair }
    }

    fn losses(fleet: &Fleet, seed: u64) -> Losses {
        let mut sums = Sums::default();
        loop {
            let blocks = sums.next_blocks(USUAL_PRECISION);
            if blocks.is_empty() {
                return fleet.losses(&sums);
            }
            blocks.for_each(|block| sums.add(fleet.simulate(seed, block)));
        }
    }

    /// Mean hours until a group of a Markov chain is lost: state i has lost i chunks, of which each is rebuilt in `chunk_h` on average.
    ///
    /// With `t` the mean time from a state to the next, `fail t = 1 + mend t'`, where `t'` is that of the state before: a triangular
    /// system, solved without differences of numbers that are nearly equal, in which elimination loses all digits of rare losses.
    fn markov_h(width: u32, parity: u32, per_h: f64, chunk_h: f64) -> f64 {
        let steps = (0..=parity).scan(0.0, |before, lost| {
            let (fail, mend) = (f64::from(width - lost) * per_h, f64::from(lost) / chunk_h);
            *before = (1.0 + mend * *before) / fail;
            Some(*before)
        });
        steps.sum()
    }

    #[test]
    fn the_chain_is_that_of_the_text_books() {
        let (fail, mend) = (1e-5, 0.05);
        let raid5 = markov_h(5, 1, fail, 1.0 / mend);
        let closed = (9.0 * fail + mend) / (20.0 * fail * fail);
        assert!((raid5 / closed - 1.0).abs() < 1e-9, "{raid5} {closed}");
    }

    #[test]
    fn exponential_repairs_lose_what_markov_chains_do() {
        let mut dice = Dice::new(49, 1);
        let codes = [(1, 1), (1, 2), (1, 3), (4, 1), (9, 1), (4, 2), (8, 2), (8, 3), (17, 3), (10, 4)];
        for (nth, &(data, parity)) in codes.iter().chain(&codes).enumerate() {
            let per_year = 0.005 + 0.1 * dice.unit();
            let chunk_h = 2.0 + 40.0 * dice.unit();
            let fleet = arrays(1 + dice.below(100), data, parity, per_year, chunk_h);
            let hours = markov_h(fleet.width(), parity, per_year / YEAR_H, chunk_h);
            let expected = -libm::expm1(-fleet.groups() * YEAR_H / hours);
            let found = losses(&fleet, nth as u64).in_a_year;
            let is_within = (found.low..=found.high).contains(&expected);
            assert!(
                is_within || (found.value / expected - 1.0).abs() < 0.02,
                "{data}+{parity}, {} groups, {per_year} a year, {chunk_h} h: {found:?}, by the chain {expected}",
                fleet.groups()
            );
            assert!((found.high - found.low) / found.value < 0.1, "{found:?}");
        }
    }

    /// Events a year in which a fleet loses data, by simulation of every drive: no weights, no group that stands for others, so that losses
    /// must be frequent. Each group is on drives of racks of its own.
    fn plain_losses_per_year(fleet: &Fleet, racks: u64, years: f64, seed: u64) -> f64 {
        let mut dice = Dice::new(seed, 7);
        let width = fleet.width() as usize;
        let in_rack = fleet.disks / racks;
        // The drive of each chunk, and when it is back; each drive has as many chunks as the others.
        let mut groups: Vec<Vec<(u64, f64)>> = Vec::new();
        while groups.len() < fleet.groups() as usize {
            let mut all: Vec<(u64, f64)> = (0..fleet.disks).map(|disk| (disk, 0.0)).collect();
            (1..all.len()).for_each(|nth| all.swap(nth, dice.below(nth as u64 + 1) as usize));
            let is_apart = |group: &[(u64, f64)]| {
                let mut racks: Vec<u64> = group.iter().map(|(disk, _)| disk / in_rack).collect();
                racks.sort_unstable();
                racks.windows(2).all(|pair| pair[0] != pair[1])
            };
            if all.chunks(width).all(is_apart) {
                groups.extend(all.chunks(width).map(<[_]>::to_vec));
            }
        }
        let (alone, rack) = (
            fleet.disks as f64 * fleet.failures.per_year / YEAR_H,
            racks as f64 * fleet.failures.rack_losses_per_year / YEAR_H,
        );
        let (mut now_h, mut losses) = (0.0, 0.0);
        while now_h < years * YEAR_H {
            now_h += dice.exponential() / (alone + rack);
            let failed: Vec<u64> = match dice.unit() * (alone + rack) < alone {
                true => vec![dice.below(fleet.disks)],
                false => {
                    let first = dice.below(racks) * in_rack;
                    (first..first + in_rack).filter(|_| dice.unit() < fleet.failures.rack_share).collect()
                }
            };
            let mut is_lost = false;
            for group in &mut groups {
                for (disk, back_h) in group.iter_mut() {
                    if *back_h <= now_h && failed.contains(disk) {
                        *back_h = now_h + fleet.repair.delay_h + fleet.repair.chunk_h;
                    }
                }
                is_lost |= group.iter().filter(|(_, back_h)| *back_h > now_h).count() > fleet.parity as usize;
            }
            if is_lost {
                losses += 1.0;
                groups.iter_mut().flatten().for_each(|chunk| chunk.1 = 0.0);
            }
        }
        losses / years
    }

    #[test]
    fn a_plain_simulation_of_every_drive_loses_as_often() {
        let of = |disks, data, parity, groups_per_disk, per_year, racks, rack_losses_per_year| {
            let mut fleet = arrays(1, data, parity, per_year, 40.0);
            (fleet.disks, fleet.groups_per_disk) = (disks, groups_per_disk);
            (fleet.repair.exponential, fleet.repair.delay_h) = (false, 10.0);
            fleet.failures = Failures { racks, rack_losses_per_year, rack_share: 0.5, ..fleet.failures };
            fleet
        };
        for (fleet, racks) in [
            // Wide and sparse, where groups are lost one by one; then dense, where a few drives carry them all together.
            (of(60, 2, 1, 6, 0.4, 0, 0.0), 60),
            (of(28, 2, 2, 12, 1.5, 0, 0.0), 28),
            (of(5, 3, 2, 50, 3.0, 0, 0.0), 5),
            (of(24, 2, 1, 4, 0.4, 8, 0.3), 8),
        ] {
            let plain = plain_losses_per_year(&fleet, racks, 8000.0, 5);
            let found = losses(&fleet, 3).in_a_year.map(|probability| -(1.0 - probability).ln());
            assert!((found.value / plain - 1.0).abs() < 0.08, "{plain} a year, found {found:?}: {fleet:?}");
        }
    }
}
