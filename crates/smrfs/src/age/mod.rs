//! Ageing a file system, after Kadekodi et al. 2015 (section 5): the ageing tool, and the course of figure 4.
//!
//! The tool creates and deletes files so that the fill stays near a target, with sizes and ages from distributions. It deletes the file
//! that is due first by its age. Ages are measured in bytes written, at the rate of the paper's disk, and not by the target's clock, so
//! that every disk gets the same sequence. There are no fsyncs and no reads (in the paper reads are cache hits).
//!
//! The course of figure 4 has three stages: ageing up to point A; twice Postmark and twice the file server in turns with the ager at half
//! speed, up to point B; and ageing until the disk is full (C) or enough has been written.

pub mod world;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use smrkit::dice::Dice;
use smrkit::units::Nanos;

use crate::bench::{Fileserver, FileserverOptions, Postmark, PostmarkOptions};
use crate::error::FsResult;
use crate::workload::driver::{Driver, End, Interleave, Record, Rests, Watch};
use crate::workload::{Cleaned, EventKind, Events, FileKey, Script, Target, TargetRoom, WorkloadEvent};
use world::{AGES_DAYS, Distribution, SIZES_MB};

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
    /// Bytes written that count as one second.
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
    /// The paper's parameters for a target fill, and assumptions where it gives none.
    pub fn new(target_bytes: u64, seed: u64) -> AgerOptions {
        AgerOptions {
            target_bytes,
            // Assumption: the paper's figure shows that the fill swings, but gives no number.
            swing_percent: 2.0,
            // Section 5.
            run_probability: 0.9,
            // Section 5: 1 s = 6.08 h.
            hours_per_s: 6.08,
            // Derived from the paper's runs, which write 800 GB and more in 5 hours and more, and from a disk's rate.
            bytes_per_s: 71e6,
            sizes_mb: SIZES_MB,
            size_factor: 1.0,
            // Assumption: no file has more than a sixteenth of the target.
            size_max_bytes: (target_bytes / 16).max(1),
            ages_days: AGES_DAYS,
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
    /// Bytes of the existing files.
    pub kept_bytes: u64,
}

/// An existing file: the number of bytes written after which it is deleted, its number, and its size.
type Due = Reverse<(u64, u64, u64)>;

/// The ageing tool, as an endless sequence of creates and deletes.
pub struct Ager {
    options: AgerOptions,
    folder: u32,
    dice: Dice,
    files: BinaryHeap<Due>,
    /// The account so far, with the current event.
    pub done: AgeingAccount,
    filled: bool,
    creating: bool,
}

impl Ager {
    /// An ager whose files are in that folder.
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

    /// Chooses between creating and deleting: creates until the target is first reached, then changes at random within the swing.
    fn decide(&mut self) {
        let (target, fill_bytes) = (self.options.target_bytes as f64, self.done.kept_bytes as f64);
        let swing = target * self.options.swing_percent / 100.0;
        if !self.filled {
            self.filled = fill_bytes >= target;
            self.creating = true;
        }
        if self.filled && self.dice.unit() >= self.options.run_probability {
            self.creating = !self.creating;
        }
        if self.filled && fill_bytes >= target + swing {
            self.creating = false;
        } else if self.filled && fill_bytes <= target - swing {
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

/// The paper's partition (section 5).
pub const PAPER_DISK_BYTES: u64 = 100_000_000_000;
/// Bytes that the ager moves for each byte of a benchmark beside it, so that it has half of the disk and runs at half speed (section 5).
const AGER_SHARE: f64 = 1.0;
/// The folder of the ager's files; the benchmarks' follow.
const AGER_FOLDER: u32 = 0;

/// Options of a course.
#[derive(Clone, Debug)]
pub struct CourseOptions {
    /// The ager.
    pub ager: AgerOptions,
    /// Bytes written by the ager before the benchmarks.
    pub before_bytes: u64,
    /// When the ager rests.
    pub duty: Duty,
    /// Bytes written before the ager's events are recorded.
    pub record_from_bytes: u64,
    /// The benchmarks, one after another.
    pub benchmarks: Vec<Benchmark>,
    /// How finely ager and benchmark interleave.
    pub interleave: Interleave,
    /// The end, by bytes written in all.
    pub until_bytes: u64,
    /// True if it ends with the benchmarks, at point B.
    pub ends_with_benchmarks: bool,
    /// A sample is taken each time this many bytes have been written.
    pub sample_bytes: u64,
}

/// How much the ager rests while it runs alone. Rests are counted at the rate of its demand, not at that of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Duty {
    /// Idle time in percent of all time, below 100.
    pub idle_percent: f64,
    /// How long it writes between two rests.
    pub spell: Nanos,
}

impl Duty {
    /// No rest: the paper's ager runs constantly.
    pub const NONE: Duty = Duty { idle_percent: 0.0, spell: Nanos(10_000_000_000) };

    /// The rests of a demand of `bytes_per_s`, if there are any.
    fn rests(&self, bytes_per_s: f64) -> Option<Rests> {
        let share = self.idle_percent / 100.0;
        let pause = Nanos((self.spell.0 as f64 * share / (1.0 - share)) as u64);
        let every_bytes = ((self.spell.as_secs() * bytes_per_s) as u64).max(1);
        (pause > Nanos::ZERO).then_some(Rests { every_bytes, pause })
    }
}

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Benchmark {
    /// Postmark.
    Postmark(PostmarkOptions),
    /// The Filebench file server.
    Fileserver(FileserverOptions),
}

impl Benchmark {
    /// Its name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Benchmark::Postmark(_) => "postmark",
            Benchmark::Fileserver(_) => "filebench",
        }
    }
}

/// The benchmarks of figure 4, twice each, with sizes scaled to the disk: the paper's has 100 GB.
pub fn paper_benchmarks(disk_bytes: u64, seed: u64) -> Vec<Benchmark> {
    let part = |count: u64| ((u128::from(count) * u128::from(disk_bytes)).div_ceil(PAPER_DISK_BYTES.into())) as u64;
    let postmark = PostmarkOptions::new(seed);
    let (files, transactions) = (part(postmark.files), part(postmark.transactions));
    let postmark = Benchmark::Postmark(PostmarkOptions { files, transactions, ..postmark });
    let server = FileserverOptions::new(seed);
    let (files, rounds) = (part(server.files), part(server.rounds));
    let server = Benchmark::Fileserver(FileserverOptions { files, rounds, ..server });
    vec![postmark, postmark, server, server]
}

impl CourseOptions {
    /// The paper's course on a disk of `disk_bytes`: 70 % full, aged by 8 times its size before the benchmarks. Assumptions: how finely
    /// ager and benchmarks interleave, and the end at 14 times its size.
    pub fn paper(disk_bytes: u64, seed: u64) -> CourseOptions {
        CourseOptions {
            ager: AgerOptions::new(disk_bytes / 10 * 7, seed),
            before_bytes: disk_bytes * 8,
            duty: Duty::NONE,
            record_from_bytes: 0,
            benchmarks: paper_benchmarks(disk_bytes, seed),
            interleave: Interleave::Blocks(8),
            until_bytes: disk_bytes * 14,
            ends_with_benchmarks: false,
            sample_bytes: (disk_bytes / 100).max(1),
        }
    }
}

/// The contents of the disk at a moment of the course, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Bytes written by programs so far.
    pub written_bytes: u64,
    /// The target's clock.
    pub time_ns: u64,
    /// User data.
    pub live_bytes: u64,
    /// Still free for files.
    pub free_bytes: u64,
    /// Readable (R), if the target knows it.
    pub readable_bytes: u64,
    /// Not writable (NW).
    pub not_writable_bytes: u64,
    /// Write once (WO).
    pub write_once_bytes: u64,
    /// Writable (W).
    pub writable_bytes: u64,
    /// The cleaner's work so far.
    pub cleaned: Cleaned,
}

impl Sample {
    fn take(target: &dyn Target, written_bytes: u64) -> FsResult<Sample> {
        let TargetRoom { live_bytes, free_bytes, counts, .. } = target.room()?;
        let (counts, granule) = counts.unwrap_or_default();
        Ok(Sample {
            written_bytes,
            time_ns: target.now().0,
            live_bytes,
            free_bytes,
            readable_bytes: counts.readable * granule,
            not_writable_bytes: counts.not_writable * granule,
            write_once_bytes: counts.write_once * granule,
            writable_bytes: counts.writable * granule,
            cleaned: target.cleaned(),
        })
    }
}

/// Result of a benchmark.
#[derive(Clone, Debug)]
pub struct BenchmarkResult {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// Its events and bytes.
    pub record: Record,
    /// Bytes that the cleaner moved meanwhile.
    pub moved_bytes: u64,
    /// Bytes of the files that it leaves behind.
    pub kept_bytes: u64,
}

impl BenchmarkResult {
    /// Bytes read and written a second.
    pub fn bytes_per_s(&self) -> (f64, f64) {
        let seconds = self.record.end.since(self.record.begin).as_secs().max(1e-9);
        (self.record.read_bytes as f64 / seconds, self.record.written_bytes as f64 / seconds)
    }
}

/// Result of a course.
#[derive(Clone, Debug, Default)]
pub struct AgeingResult {
    /// The disk over time.
    pub samples: Vec<Sample>,
    /// Point A, the beginning of the benchmarks, if it was reached.
    pub a: Option<Sample>,
    /// Point B, their end.
    pub b: Option<Sample>,
    /// When the cleaner first moved data or reset a band.
    pub first_cleaning: Option<Sample>,
    /// The ager's events while it was alone.
    pub alone: Record,
    /// The benchmarks that were run.
    pub benchmarks: Vec<BenchmarkResult>,
    /// How the course ended: full is C.
    pub end: End,
    /// The last moment.
    pub last: Sample,
    /// The ager's account.
    pub aged: AgeingAccount,
}

impl AgeingResult {
    /// Runs the course on an empty target. `go_on` gets the progress, from 0 to 1, and returns `false` to end the run.
    pub fn run(
        options: &CourseOptions,
        target: &mut dyn Target,
        go_on: &mut dyn FnMut(f64) -> bool,
    ) -> FsResult<AgeingResult> {
        let mut sampler = Sampler {
            samples: Vec::new(),
            every_bytes: options.sample_bytes.max(1),
            first_cleaning: None,
            until_bytes: options.until_bytes.max(1),
            go_on,
        };
        let mut ager = Script::new(Ager::new(options.ager.clone(), AGER_FOLDER));
        let mut result = AgeingResult::default();
        let rests = options.duty.rests(options.ager.bytes_per_s);
        let mut driver = Driver::new(target, &mut sampler, options.interleave).rest(rests);
        let end = result.run_stages(options, &mut driver, &mut ager)?;
        let written_bytes = driver.written_bytes;
        result.end = end;
        result.last = Sample::take(target, written_bytes)?;
        (result.samples, result.first_cleaning) = (sampler.samples, sampler.first_cleaning);
        result.aged = ager.events.done;
        Ok(result)
    }

    /// Runs the stages: unrecorded ageing, recorded ageing, the benchmarks beside the ager (from sample A to B), and more ageing.
    fn run_stages(&mut self, options: &CourseOptions, driver: &mut Driver, ager: &mut Script<Ager>) -> FsResult<End> {
        let before_bytes = options.before_bytes.min(options.until_bytes);
        let mut unrecorded = Record::default();
        let end = driver.alone(ager, options.record_from_bytes.min(before_bytes), &mut unrecorded)?;
        if end != End::Done {
            return Ok(end);
        }
        let end = driver.alone(ager, before_bytes, &mut self.alone)?;
        if end != End::Done {
            return Ok(end);
        }
        if options.benchmarks.is_empty() {
            return driver.alone(ager, options.until_bytes, &mut self.alone);
        }
        self.a = Some(Sample::take(driver.target, driver.written_bytes)?);
        for (benchmark, folder) in options.benchmarks.iter().zip(AGER_FOLDER + 1..) {
            let end = match *benchmark {
                Benchmark::Postmark(work) => self.measure(*benchmark, Postmark::new(work, folder), driver, ager)?,
                Benchmark::Fileserver(work) => self.measure(*benchmark, Fileserver::new(work, folder), driver, ager)?,
            };
            if end != End::Done {
                return Ok(end);
            }
        }
        self.b = Some(Sample::take(driver.target, driver.written_bytes)?);
        if options.ends_with_benchmarks {
            Ok(End::Done)
        } else {
            driver.alone(ager, options.until_bytes, &mut self.alone)
        }
    }

    /// Runs a benchmark beside the ager, and adds its result.
    fn measure<E: Events>(
        &mut self,
        benchmark: Benchmark,
        events: E,
        driver: &mut Driver,
        ager: &mut Script<Ager>,
    ) -> FsResult<End> {
        let before = driver.target.cleaned().moved_bytes;
        let mut script = Script::new(events);
        let (record, end) = driver.beside(&mut script, ager, AGER_SHARE)?;
        let kept_bytes = script.events.kept_bytes();
        let moved_bytes = driver.target.cleaned().moved_bytes - before;
        self.benchmarks.push(BenchmarkResult { benchmark, record, moved_bytes, kept_bytes });
        Ok(end)
    }
}

/// Takes samples, and reports the progress.
struct Sampler<'a> {
    samples: Vec<Sample>,
    every_bytes: u64,
    first_cleaning: Option<Sample>,
    until_bytes: u64,
    go_on: &'a mut dyn FnMut(f64) -> bool,
}

impl Watch for Sampler<'_> {
    fn stepped(&mut self, target: &mut dyn Target, written_bytes: u64) -> FsResult<bool> {
        let cleaned = target.cleaned();
        if self.first_cleaning.is_none() && (cleaned.moved_bytes > 0 || cleaned.resets > 0) {
            self.first_cleaning = Some(Sample::take(target, written_bytes)?);
        }
        if written_bytes / self.every_bytes >= self.samples.len() as u64 {
            self.samples.push(Sample::take(target, written_bytes)?);
        }
        Ok((self.go_on)(written_bytes as f64 / self.until_bytes as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::Books;

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
        while ager.done.kept_bytes < TARGET {
            assert_eq!(ager.next().unwrap().kind, EventKind::Create);
        }
        for _ in 0..50_000 {
            ager.next();
            let kept = ager.done.kept_bytes;
            assert!(kept > low - largest && kept < high + largest, "{kept}");
        }
        let sum: u64 = ager.files.iter().map(|file| file.0.2).sum();
        assert_eq!(sum, ager.kept_bytes());
    }

    #[test]
    fn files_that_live_equally_long_go_in_the_order_in_which_they_came() {
        let ages_days = Distribution { points: &[(100.0, 1.0)] };
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
        let AgeingAccount { created, deleted, written_bytes, kept_bytes } = ager.done;
        assert_eq!(
            (created, deleted, written_bytes, kept_bytes, sum),
            (1606, 1394, 519_870_779_945, 68_784_537_196, 13_432_262_634_171_580_659)
        );
    }

    const DISK: u64 = 2_000_000_000;

    fn small() -> CourseOptions {
        CourseOptions::paper(DISK, 1)
    }

    #[test]
    fn two_targets_see_one_sequence_up_to_the_end() {
        let run = |room| {
            let mut books = Books::new(room);
            let course = AgeingResult::run(&small(), &mut books, &mut |_| true).unwrap();
            (course, books.acts)
        };
        let (roomy, all) = run(u64::MAX);
        let (a, b) = (roomy.a.unwrap(), roomy.b.unwrap());
        assert_eq!(a.written_bytes, 8 * DISK);
        assert_eq!(roomy.end, End::Done);
        assert!(b.written_bytes > a.written_bytes && roomy.last.written_bytes == 14 * DISK);
        assert!((1395..=1402).contains(&roomy.samples.len()), "{}", roomy.samples.len());
        let (tight, some) = run(DISK * 71 / 100);
        assert_eq!(tight.end, End::Full);
        assert_eq!(all[..some.len()], some[..]);
    }

    #[test]
    fn an_interrupt_keeps_what_there_is() {
        let mut books = Books::new(u64::MAX);
        let course = AgeingResult::run(&small(), &mut books, &mut |share| share < 0.2).unwrap();
        assert_eq!((course.end, course.a), (End::Stopped, None));
        assert!((275..=285).contains(&course.samples.len()), "{}", course.samples.len());
    }

    #[test]
    fn rests_and_benchmarks_are_shares_of_the_papers() {
        let rests = |idle_percent, seconds: u64| {
            Duty { idle_percent, spell: Nanos(seconds * 1_000_000_000) }
                .rests(50e6)
                .map(|rests| (rests.every_bytes, rests.pause.0))
        };
        assert_eq!([rests(0.0, 10), rests(50.0, 10)], [None, Some((500_000_000, 10_000_000_000))]);
        assert_eq!(rests(75.0, 2), Some((100_000_000, 6_000_000_000)));
        let names = |disk| paper_benchmarks(disk, 1).iter().map(Benchmark::name).collect::<Vec<_>>();
        assert_eq!(names(DISK), ["postmark", "postmark", "filebench", "filebench"]);
        let counts = |disk| {
            paper_benchmarks(disk, 1)
                .iter()
                .map(|benchmark| match benchmark {
                    Benchmark::Postmark(work) => (work.files, work.transactions),
                    Benchmark::Fileserver(work) => (work.files, work.rounds),
                })
                .collect::<Vec<_>>()
        };
        let whole = counts(PAPER_DISK_BYTES);
        let (postmark, server) = (PostmarkOptions::new(1), FileserverOptions::new(1));
        assert_eq!(whole[1], (postmark.files, postmark.transactions));
        assert_eq!(whole[2], (server.files, server.rounds));
        let tenth = counts(PAPER_DISK_BYTES / 10);
        assert!(tenth.iter().zip(&whole).all(|(part, all)| *part == (all.0.div_ceil(10), all.1.div_ceil(10))));
        let paper = CourseOptions::paper(1000, 1);
        let bytes = (paper.ager.target_bytes, paper.before_bytes, paper.until_bytes, paper.sample_bytes);
        assert_eq!(bytes, (700, 8000, 14_000, 10));
        assert_eq!(CourseOptions::paper(50, 1).sample_bytes, 1);
    }

    #[test]
    fn rates_are_bytes_by_the_time_of_all_or_of_the_events() {
        let span = (Nanos(1_000_000_000), Nanos(5_000_000_000));
        let (reading, writing) = (Nanos(2_000_000_000), Nanos(500_000_000));
        let mut record = Record::default();
        (record.begin, record.end) = span;
        (record.reading, record.writing) = (reading, writing);
        (record.read_bytes, record.written_bytes) = (80, 20);
        let benchmark = Benchmark::Postmark(PostmarkOptions::new(1));
        let measured = BenchmarkResult { benchmark, record, moved_bytes: 0, kept_bytes: 0 };
        assert_eq!(measured.bytes_per_s(), (20.0, 5.0));
    }

    /// Times and bytes of the whole course: no other test holds them.
    #[test]
    fn a_course_is_the_one_it_always_was() {
        let mut books = Books::new(u64::MAX);
        let options =
            CourseOptions { duty: Duty { idle_percent: 20.0, ..Duty::NONE }, ends_with_benchmarks: true, ..small() };
        let course = AgeingResult::run(&options, &mut books, &mut |_| true).unwrap();
        let told = |sample: Sample| (sample.written_bytes, sample.time_ns, sample.live_bytes);
        let (a, b) = (course.a.map(told), course.b.map(told));
        let expected =
            [(16_000_000_000, 68_500_000_000, 1_385_327_582), (21_714_490_498, 75_962_777_383, 1_500_518_515)];
        assert_eq!((course.end, a, b), (End::Done, Some(expected[0]), Some(expected[1])));
        let kept: Vec<_> =
            course.benchmarks.iter().map(|m| (m.record.read_bytes, m.record.written_bytes, m.kept_bytes)).collect();
        let expected = [
            (238_343_897, 372_361_166, 0),
            (231_350_816, 332_824_171, 0),
            (668_424_495, 607_809_578, 29_251_402),
            (610_167_677, 661_730_295, 80_191_867),
        ];
        assert_eq!(kept, expected);
        let samples = &course.samples;
        assert!(samples.windows(2).all(|two| two[0].written_bytes < two[1].written_bytes));
        assert!(samples.iter().zip(0..).all(|(sample, at)| sample.written_bytes / options.sample_bytes >= at));
        assert_eq!(course.first_cleaning, None);
    }
}
