//! The course of figure 4 of Kadekodi et al. 2015: ageing up to A, twice Postmark and twice the file server alongside the ager
//! at half speed, B, and ageing on until the disk is full (C) or enough has been written.

use serde::Serialize;
use smrkit::units::Nanos;

use super::ager::{AgeingAccount, Ager, AgerOptions};
use crate::bench::fileserver::{Fileserver, FileserverOptions};
use crate::bench::postmark::{Postmark, PostmarkOptions};
use crate::error::FsResult;
use crate::workload::driver::{Driver, End, Interleave, Record, Rests, Watch};
use crate::workload::{Cleaned, Events, Script, Target, TargetRoom};

/// The paper's partition (section 5).
pub const PAPER_DISK_BYTES: u64 = 100_000_000_000;
/// Bytes that the ager moves alongside each byte of a benchmark: it has half of the disk then, and half its speed (section 5).
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
    /// Grain at which ager and benchmark interleave.
    pub interleave: Interleave,
    /// The end, by bytes written in all.
    pub until_bytes: u64,
    /// The end, by the target's clock from the beginning.
    pub until_time: Option<Nanos>,
    /// True if it ends with the benchmarks.
    pub stop_at_b: bool,
    /// A sample is taken each time this many bytes have been written.
    pub sample_bytes: u64,
}

/// The share of the time in which the ager rests while it is alone, by the rate of its demand and not of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Duty {
    /// Idle time in percent of all time, below 100.
    pub idle_percent: f64,
    /// Time that it writes from one rest to the next.
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

/// The benchmarks of figure 4, twice each: on a disk of 100 GB what they are, on others as much of each as the disk has of it.
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
    /// The paper's course on a disk of this many bytes: 70 % full, aged by 8 times its size before the benchmarks.
    pub fn paper(disk_bytes: u64, seed: u64) -> CourseOptions {
        CourseOptions {
            ager: AgerOptions::new(disk_bytes / 10 * 7, seed),
            before_bytes: disk_bytes * 8,
            duty: Duty::NONE,
            record_from_bytes: 0,
            benchmarks: paper_benchmarks(disk_bytes, seed),
            interleave: Interleave::Blocks(8),
            until_bytes: disk_bytes * 14,
            until_time: None,
            stop_at_b: false,
            sample_bytes: (disk_bytes / 100).max(1),
        }
    }
}

/// A moment of the course: what was on the disk, in bytes.
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
    /// R, where the target knows.
    pub readable_bytes: u64,
    /// NW.
    pub not_writable_bytes: u64,
    /// WO.
    pub write_once_bytes: u64,
    /// W.
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
    /// Bytes of the files that it leaves.
    pub kept_bytes: u64,
}

impl BenchmarkResult {
    /// Bytes read and written a second.
    pub fn bytes_per_s(&self) -> (f64, f64) {
        let seconds = self.record.span.1.since(self.record.span.0).as_secs().max(1e-9);
        (self.record.read_bytes as f64 / seconds, self.record.written_bytes as f64 / seconds)
    }

    /// Bytes read a second of the time spent in events that read, and bytes written a second of the time spent in events that
    /// write: unlike [`BenchmarkResult::bytes_per_s`], which divides both by the time of the whole benchmark.
    pub fn event_bytes_per_s(&self) -> (f64, f64) {
        let rate = |bytes: u64, time: Nanos| bytes as f64 / time.as_secs().max(1e-9);
        let Record { read_bytes, reading, written_bytes, writing, .. } = self.record;
        (rate(read_bytes, reading), rate(written_bytes, writing))
    }
}

/// Result of a course.
#[derive(Clone, Debug)]
pub struct AgeingResult {
    /// The disk over time.
    pub samples: Vec<Sample>,
    /// The beginning of the benchmarks, if it came to that.
    pub a: Option<Sample>,
    /// Their end.
    pub b: Option<Sample>,
    /// When the cleaner first moved data or reset a band.
    pub first_cleaning: Option<Sample>,
    /// The ager's events while it was alone.
    pub alone: Record,
    /// The benchmarks that were run.
    pub benchmarks: Vec<BenchmarkResult>,
    /// The course's end: full is C.
    pub end: End,
    /// The last moment.
    pub last: Sample,
    /// The ager's account.
    pub aged: AgeingAccount,
}

impl AgeingResult {
    /// Runs it on an empty target. `go_on` is told how far it is, from 0 to 1, and says whether to go on.
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
            until_time: options.until_time.map_or(Nanos::MAX, |time| target.now() + time),
            timed_out: false,
            go_on,
        };
        let mut ager = Script::new(Ager::new(options.ager.clone(), AGER_FOLDER));
        let mut stages = Stages { a: None, b: None, alone: Record::default(), benchmarks: Vec::new() };
        let rests = options.duty.rests(options.ager.bytes_per_s);
        let mut driver = Driver::new(target, &mut sampler, options.interleave).rest(rests);
        let end = stages.run(options, &mut driver, &mut ager)?;
        let written_bytes = driver.written_bytes();
        let end = if sampler.timed_out { End::Done } else { end };
        let last = Sample::take(target, written_bytes)?;
        let Stages { a, b, alone, benchmarks } = stages;
        let Sampler { samples, first_cleaning, .. } = sampler;
        Ok(AgeingResult { samples, a, b, first_cleaning, alone, benchmarks, end, last, aged: ager.events().done() })
    }
}

struct Stages {
    a: Option<Sample>,
    b: Option<Sample>,
    alone: Record,
    benchmarks: Vec<BenchmarkResult>,
}

impl Stages {
    fn run(&mut self, options: &CourseOptions, driver: &mut Driver, ager: &mut Script<Ager>) -> FsResult<End> {
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
        self.a = Some(Sample::take(driver.target(), driver.written_bytes())?);
        for (benchmark, folder) in options.benchmarks.iter().zip(AGER_FOLDER + 1..) {
            let end = match *benchmark {
                Benchmark::Postmark(work) => self.measure(*benchmark, Postmark::new(work, folder), driver, ager)?,
                Benchmark::Fileserver(work) => self.measure(*benchmark, Fileserver::new(work, folder), driver, ager)?,
            };
            if end != End::Done {
                return Ok(end);
            }
        }
        self.b = Some(Sample::take(driver.target(), driver.written_bytes())?);
        if options.stop_at_b { Ok(End::Done) } else { driver.alone(ager, options.until_bytes, &mut self.alone) }
    }

    fn measure<E: Events>(
        &mut self,
        benchmark: Benchmark,
        events: E,
        driver: &mut Driver,
        ager: &mut Script<Ager>,
    ) -> FsResult<End> {
        let before = driver.target().cleaned().moved_bytes;
        let mut script = Script::new(events);
        let (record, end) = driver.beside(&mut script, ager, AGER_SHARE)?;
        let kept_bytes = script.events().kept_bytes();
        let moved_bytes = driver.target().cleaned().moved_bytes - before;
        self.benchmarks.push(BenchmarkResult { benchmark, record, moved_bytes, kept_bytes });
        Ok(end)
    }
}

/// Takes samples, and passes on how far it is.
struct Sampler<'a> {
    samples: Vec<Sample>,
    every_bytes: u64,
    first_cleaning: Option<Sample>,
    until_bytes: u64,
    until_time: Nanos,
    timed_out: bool,
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
        self.timed_out = target.now() >= self.until_time;
        Ok((self.go_on)(written_bytes as f64 / self.until_bytes as f64) && !self.timed_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::books::Books;

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
        (record.span, record.reading, record.writing) = (span, reading, writing);
        (record.read_bytes, record.written_bytes) = (80, 20);
        let benchmark = Benchmark::Postmark(PostmarkOptions::new(1));
        let measured = BenchmarkResult { benchmark, record, moved_bytes: 0, kept_bytes: 0 };
        assert_eq!((measured.bytes_per_s(), measured.event_bytes_per_s()), ((20.0, 5.0), (40.0, 40.0)));
    }

    /// Times and bytes of the whole course: no other test holds them.
    #[test]
    fn a_course_is_the_one_it_always_was() {
        let mut books = Books::new(u64::MAX);
        let options = CourseOptions { duty: Duty { idle_percent: 20.0, ..Duty::NONE }, stop_at_b: true, ..small() };
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
