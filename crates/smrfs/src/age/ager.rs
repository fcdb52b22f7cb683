//! The ageing tool of Kadekodi et al. 2015 (section 5): runs of creates and deletes about a target fill, sizes and ages
//! from distributions. Which file goes next is decided by ages alone: the one due first.
//!
//! Ages are told by bytes written, at a rate that stands for the paper's disk, and not by the target's clock: so every
//! disk gets one sequence. No fsync, and no reads (the paper's are cache hits).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use smrkit::workload::dice::Dice;

use super::distribution::Distribution;
use crate::workload::{EventKind, Events, FileKey, WorkloadEvent};

/// Options of an ager.
#[derive(Clone, Debug)]
pub struct AgerOptions {
    /// Bytes of files to keep.
    pub target_bytes: u64,
    /// Swing of the fill around the target, in percent of it.
    pub swing_percent: f64,
    /// The probability that a create follows a create, and a delete a delete.
    pub run_probability: f64,
    /// Hours of a file's age that pass in one second.
    pub hours_per_s: f64,
    /// Bytes written that make one second.
    pub bytes_per_s: f64,
    /// File sizes in MB.
    pub sizes_mb: Distribution,
    /// Factor that sizes are multiplied by.
    pub size_factor: f64,
    /// The largest file.
    pub size_max_bytes: u64,
    /// File ages in days.
    pub ages_days: Distribution,
    /// The seed.
    pub seed: u64,
}

impl AgerOptions {
    /// The paper's parameters for a target fill; where it gives none, those of the reconstruction.
    pub fn new(target_bytes: u64, seed: u64) -> AgerOptions {
        AgerOptions {
            target_bytes,
            // Assumption: the paper shows a band, and gives no width.
            swing_percent: 2.0,
            // Section 5.
            run_probability: 0.9,
            // Section 5: 1 s = 6.08 h.
            hours_per_s: 6.08,
            // Derived: 800 GB and more in a run of 5 hours and more; a disk's rate.
            bytes_per_s: 71e6,
            sizes_mb: Distribution::sizes_mb(),
            size_factor: 1.0,
            // Assumption: no file has more than a sixteenth of the target.
            size_max_bytes: (target_bytes / 16).max(1),
            ages_days: Distribution::ages_days(),
            seed,
        }
    }
}

/// Account of the ageing so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgeingAccount {
    /// Files made.
    pub created: u64,
    /// Files removed.
    pub deleted: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes of the files that are there.
    pub kept_bytes: u64,
}

/// A file that is there: when it is due, by bytes written; its number, and its size.
type Due = Reverse<(u64, u64, u64)>;

/// The ageing tool, as an endless sequence of creates and deletes.
pub struct Ager {
    options: AgerOptions,
    folder: u32,
    dice: Dice,
    files: BinaryHeap<Due>,
    done: AgeingAccount,
    filled: bool,
    creating: bool,
}

impl Ager {
    /// An ager whose files lie in that folder.
    pub fn new(options: AgerOptions, folder: u32) -> Ager {
        let dice = Dice::new(options.seed, u64::from(folder));
        Ager {
            options,
            folder,
            dice,
            files: BinaryHeap::new(),
            done: AgeingAccount::default(),
            filled: false,
            creating: true,
        }
    }

    /// The account so far; the event that is under way counts as done.
    pub fn done(&self) -> AgeingAccount {
        self.done
    }

    fn decide(&mut self) {
        let (target, kept) = (self.options.target_bytes as f64, self.done.kept_bytes as f64);
        let swing = target * self.options.swing_percent / 100.0;
        if !self.filled {
            self.filled = kept >= target;
            self.creating = true;
        }
        if self.filled && self.dice.unit() >= self.options.run_probability {
            self.creating = !self.creating;
        }
        if self.filled && kept >= target + swing {
            self.creating = false;
        } else if self.filled && kept <= target - swing {
            self.creating = true;
        }
    }

    fn create(&mut self) -> WorkloadEvent {
        let options = &self.options;
        let size = options.sizes_mb.draw(&mut self.dice) * options.size_factor * 1e6;
        let bytes = (size.round() as u64).clamp(1, options.size_max_bytes);
        let age_s = options.ages_days.draw(&mut self.dice) * 24.0 / options.hours_per_s;
        let due = self.done.written_bytes.saturating_add((age_s * options.bytes_per_s) as u64);
        let number = self.done.created;
        self.files.push(Reverse((due, number, bytes)));
        self.done.created += 1;
        self.done.written_bytes += bytes;
        self.done.kept_bytes += bytes;
        self.event(EventKind::Create, number, bytes)
    }

    fn event(&self, kind: EventKind, number: u64, bytes: u64) -> WorkloadEvent {
        WorkloadEvent { kind, file: FileKey { folder: self.folder, number }, bytes, counted: true }
    }
}

impl Events for Ager {
    fn next(&mut self) -> Option<WorkloadEvent> {
        self.decide();
        let due = if self.creating { None } else { self.files.pop() };
        let Some(Reverse((_, number, bytes))) = due else { return Some(self.create()) };
        self.done.deleted += 1;
        self.done.kept_bytes -= bytes;
        Some(self.event(EventKind::Delete, number, 0))
    }

    fn kept_bytes(&self) -> u64 {
        self.done.kept_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: u64 = 70_000_000_000;

    fn events(seed: u64, count: usize) -> Vec<WorkloadEvent> {
        let mut ager = Ager::new(AgerOptions::new(TARGET, seed), 0);
        (0..count).filter_map(|_| ager.next()).collect()
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        assert_eq!(events(3, 5000), events(3, 5000));
        assert_ne!(events(3, 5000), events(4, 5000));
    }

    #[test]
    fn the_fill_stays_about_the_target_by_a_swing_and_a_file() {
        let options = AgerOptions::new(TARGET, 1);
        let (low, high) = (TARGET * 98 / 100, TARGET * 102 / 100);
        let largest = options.size_max_bytes;
        let mut ager = Ager::new(options, 0);
        while ager.done().kept_bytes < TARGET {
            assert_eq!(ager.next().unwrap().kind, EventKind::Create);
        }
        for _ in 0..50_000 {
            ager.next();
            let kept = ager.done().kept_bytes;
            assert!(kept > low - largest && kept < high + largest, "{kept}");
        }
        let sum: u64 = ager.files.iter().map(|file| file.0.2).sum();
        assert_eq!(sum, ager.kept_bytes());
    }

    #[test]
    fn files_that_live_equally_long_go_in_the_order_in_which_they_came() {
        let ages_days = Distribution::parse("ages.csv".as_ref(), "100,100").unwrap();
        let mut ager = Ager::new(AgerOptions { ages_days, ..AgerOptions::new(TARGET, 1) }, 0);
        let events = (0..20_000).filter_map(|_| ager.next()).filter(|event| event.kind == EventKind::Delete);
        let numbers: Vec<u64> = events.map(|event| event.file.number).collect();
        assert!(numbers.len() > 5000 && numbers.iter().copied().eq(0..numbers.len() as u64));
    }

    #[test]
    fn runs_of_ten_and_deletes_in_the_order_of_due_times() {
        let options = AgerOptions { swing_percent: 1e6, ..AgerOptions::new(TARGET, 1) };
        let mut ager = Ager::new(options, 0);
        while !ager.filled {
            ager.next();
        }
        let (mut switches, mut deletes, mut last) = (0, 0, ager.creating);
        for _ in 0..20_000 {
            let first = ager.files.peek().map(|file| file.0.1);
            let event = ager.next().unwrap();
            if event.kind == EventKind::Delete {
                assert_eq!(Some(event.file.number), first);
                deletes += 1;
            }
            switches += u64::from(ager.creating != last);
            last = ager.creating;
        }
        assert!((1800..2200).contains(&switches), "a switch every ten events: {switches} in 20,000");
        assert!(deletes > 8000, "{deletes}");
    }

    /// The exact sequence, by a sum over all of it.
    #[test]
    fn the_sequence_is_the_one_it_always_was() {
        let options =
            AgerOptions { run_probability: 0.7, size_factor: 2.0, swing_percent: 5.0, ..AgerOptions::new(TARGET, 3) };
        let mut ager = Ager::new(options, 4);
        let mut sum = 0_u64;
        for _ in 0..3000 {
            let event = ager.next().unwrap();
            assert!(event.file.folder == 4 && event.counted);
            for number in [event.kind as u64, event.file.number, event.bytes] {
                sum = (sum ^ number).wrapping_mul(0x0100_0000_01b3);
            }
        }
        let AgeingAccount { created, deleted, written_bytes, kept_bytes } = ager.done();
        assert_eq!(
            (created, deleted, written_bytes, kept_bytes, sum),
            (1606, 1394, 519_870_779_945, 68_784_537_196, 13_432_262_634_171_580_659)
        );
    }
}
