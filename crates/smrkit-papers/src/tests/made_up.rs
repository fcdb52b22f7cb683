//! Results that were never run: every number of a real one, moved by a few percent.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Number, Value, json};
use smrfs::age::course::{AgeingResult, BenchmarkResult, CourseOptions, PAPER_DISK_BYTES, Sample};
use smrfs::workload::EventKind;
use smrfs::workload::driver::{End, Record};
use smrfs::workload::target::Cleaned;
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::stats::outcome::{ByCause, Movement, Outcome, Rebuild};
use smrkit::stats::rebuild::{BusyTimes, MemberRebuild};
use smrkit::units::Nanos;

use crate::lab::{JobResult, Plan, Planned};

/// Type of the results that an item shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ResultKind {
    Layer,
    Rebuild,
    FileSystem,
    /// A mount and its simulation in turn.
    Mounts,
}

impl ResultKind {
    pub fn of(study: &str, heading: &str) -> ResultKind {
        match (study, heading) {
            ("caveat", "A small real mount next to the simulation") => ResultKind::Mounts,
            ("arrays" | "drives", heading) if heading.starts_with("Rebuil") => ResultKind::Rebuild,
            ("caveat", _) => ResultKind::FileSystem,
            _ => ResultKind::Layer,
        }
    }
}

/// Difference between the results of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    Alike,
    Varied,
    Gaps,
}

impl Likeness {
    pub const ALL: [Likeness; 3] = [Likeness::Alike, Likeness::Varied, Likeness::Gaps];

    pub fn words(self) -> &'static str {
        match self {
            Likeness::Alike => "that are all alike",
            Likeness::Varied => "that differ",
            Likeness::Gaps => "of which each third is bare, full or missing",
        }
    }
}

/// Numbers from a seed, by SplitMix64; or none that move anything.
pub struct Dice {
    state: u64,
    still: bool,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice { state: seed, still: false }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 750 to 1249 thousandths.
    fn thousandths(&mut self) -> u64 {
        if self.still { 1000 } else { 750 + self.next() % 500 }
    }

    fn moved(&mut self, value: u64) -> u64 {
        (u128::from(value) * u128::from(self.thousandths()) / 1000) as u64
    }
}

/// A run with cleaning, and the counters of all layers that studies look at.
static TEMPLATE: LazyLock<Value> = LazyLock::new(|| {
    let drive = Drive::load("tiny").unwrap();
    let plan = Plan::workload(&drive, "rmw", "zipf:size=4Ki,count=1000,write_share=0.8", 1).set("region_sectors", 1000);
    let mut run = plan.outcome(&mut NoObserver).unwrap();
    let by_cause = |host, clean| ByCause { total: host + clean, host, clean, ..ByCause::default() };
    run.movement = Some(Movement::new(by_cause(90_000, 70_000), by_cause(900, 600), 1000, 300));
    run.verdict.cache_full_at_s = Some(12.5);
    run.verdict.rate_after_bytes_per_s = Some(3.25e6);
    let mut template = serde_json::to_value(run).unwrap();
    template["layer_stats"] = json!({
        "bands_cleaned": 40, "cache_tracks_active_max": 1800, "collections": 21, "destages": 600,
        "first_cleaning_request": 23_000, "guard_copies": 900, "log_length_max": 3500, "sblocks_moved": 77,
        "track_updates": [100, 200, 300, 400], "war_mean": 1.5
    });
    template
});

/// An outcome whose numbers are the template's, moved by `dice`; without what need not be there, if it is `bare`.
fn outcome(dice: &mut Dice, bare: bool) -> Outcome {
    let mut value = TEMPLATE.clone();
    move_numbers(&mut value, dice);
    if bare {
        value["layer_stats"] = json!({});
        value["write_amplification"] = Value::Null;
        value["verdict"]["cache_full_at_s"] = Value::Null;
        value["verdict"]["rate_after_bytes_per_s"] = Value::Null;
    }
    serde_json::from_value(value).unwrap()
}

/// The outcome of a mirror, of which the second disk is new.
fn rebuilt(dice: &mut Dice) -> Outcome {
    let new = outcome(dice, false);
    let longest_ns = dice.moved(7_000_000_000) * (1 + dice.next() % 5);
    let busy_ns = BusyTimes {
        destage_read: dice.moved(60_000_000_000),
        clean_read: dice.moved(500_000_000_000),
        clean_write: dice.moved(400_000_000_000),
        ..BusyTimes::default()
    };
    let members = vec![MemberRebuild::default(), MemberRebuild { new: true, busy_ns, ..MemberRebuild::default() }];
    let rebuild = Rebuild {
        elapsed_ns: dice.moved(3_600_000_000_000),
        clean_ns: (longest_ns < 20_000_000_000).then(|| dice.moved(5_000_000_000_000)),
        bytes: dice.moved(125_000_000_000),
        pieces: dice.moved(300_000),
        dropped_7s: longest_ns > 7_000_000_000,
        dropped_30s: longest_ns > 30_000_000_000,
        longest_new_ns: Some(longest_ns),
        foreground_ns: new.latency_ns,
        members,
        ..Rebuild::default()
    };
    let pair = vec![Outcome { layer_stats: Default::default(), ..new.clone() }, new.clone()];
    Outcome { rebuild: Some(rebuild), members: pair, ..new }
}

fn move_numbers(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_u64().filter(|&whole| whole > 9) {
                *number = dice.moved(whole).into();
            } else if let Some(fraction) = number.as_f64().filter(|fraction| fraction.fract() != 0.0) {
                *number = Number::from_f64(fraction * dice.thousandths() as f64 / 1e3).unwrap();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| move_numbers(value, dice)),
        Value::Object(values) => {
            values
                .iter_mut()
                .filter(|(key, _)| *key != "engine" && *key != "parameters")
                .for_each(|(_, value)| move_numbers(value, dice));
        }
        _ => {}
    }
}

/// A course whose numbers are moved by `dice`.
pub fn course(dice: &mut Dice, end: End) -> AgeingResult {
    let mut of = |value: u64| dice.moved(value);
    // What only grows is moved by less than it grows between two moments.
    let mut sample = |written_gb: u64| {
        let mut so_far = |each: u64| written_gb * each + of(written_gb * each) / 10;
        Sample {
            written_bytes: so_far(1_000_000_000),
            time_ns: so_far(14_000_000_000),
            cleaned: Cleaned { moved_bytes: so_far(30_000_000), resets: so_far(9), stalls: so_far(3) },
            live_bytes: of(70_000_000_000),
            free_bytes: of(20_000_000_000),
            readable_bytes: of(72_000_000_000),
            not_writable_bytes: of(9_000_000_000),
            write_once_bytes: of(4_000_000_000),
            writable_bytes: of(12_000_000_000),
        }
    };
    let samples: Vec<Sample> = (0..12).map(|nth| sample(nth * 100)).collect();
    let (a, b, first_cleaning, last) = (sample(600), sample(900), sample(90), sample(1200));
    let mut record = |kinds: &[EventKind]| {
        let mut record = Record::default();
        record.written_bytes = of(5_000_000_000);
        record.read_bytes = of(4_000_000_000);
        (record.writing, record.reading) = (Nanos(of(50_000_000_000)), Nanos(of(40_000_000_000)));
        record.span = (Nanos(of(1_000_000_000)), Nanos(of(201_000_000_000)));
        (record.busy, record.delay) = (Nanos(of(90_000_000_000)), Nanos(of(900_000_000)));
        (record.delayed, record.longest_delay) = (of(30), Nanos(of(600_000_000)));
        for &kind in kinds {
            for nth in 1..=20 {
                record.latencies.record(kind, Nanos(of(nth * 10_000_000)));
            }
        }
        record
    };
    let alone = record(&[EventKind::Create, EventKind::Append, EventKind::Delete]);
    let benchmarks = CourseOptions::paper(PAPER_DISK_BYTES, 1).benchmarks;
    let benchmarks = benchmarks.into_iter().map(|benchmark| (benchmark, record(&EventKind::ALL)));
    let benchmarks: Vec<_> = benchmarks.collect();
    let benchmarks = benchmarks
        .into_iter()
        .map(|(benchmark, record)| BenchmarkResult {
            benchmark,
            record,
            moved_bytes: of(2_000_000_000),
            kept_bytes: of(4_500_000_000),
        })
        .collect();
    AgeingResult {
        samples,
        a: Some(a),
        b: (end != End::Full).then_some(b),
        first_cleaning: (end != End::Full).then_some(first_cleaning),
        alone,
        benchmarks,
        end,
        last,
        aged: Default::default(),
    }
}

/// The results of an item's runs; what need not be whole has gaps.
pub fn results(kind: ResultKind, runs: usize, likeness: Likeness, partial: bool) -> Vec<Option<JobResult>> {
    let result = |run: usize| {
        let third = likeness == Likeness::Gaps && run % 3 == 1;
        if third && partial {
            return None;
        }
        let mut dice = Dice::new(run as u64 + 1000 * u64::from(likeness == Likeness::Gaps));
        dice.still = likeness == Likeness::Alike;
        let dice = &mut dice;
        let end = if third { End::Full } else { End::Done };
        Some(match kind {
            ResultKind::Layer => JobResult::Layer(Box::new(outcome(dice, third))),
            ResultKind::Rebuild => JobResult::Layer(Box::new(rebuilt(dice))),
            ResultKind::Mounts if third => JobResult::Mount(Box::new(Err("no FUSE here".into()))),
            ResultKind::Mounts if run.is_multiple_of(2) => JobResult::Mount(Box::new(Ok(course(dice, end)))),
            ResultKind::Mounts | ResultKind::FileSystem => JobResult::FileSystem(Box::new(course(dice, end))),
        })
    };
    (0..runs).map(result).collect()
}

/// Small traces under the names of those that studies look for, in a folder; one reaches over every drive's end.
pub fn traces(folder: &Path) {
    const NAMES: [&str; 10] = [
        "msr_hm_0",
        "wdev_1",
        "msr_src2_0",
        "msr_web_3",
        "msr_hm_0_cut7016",
        "cloudphysics_sample",
        "hp_hplajw_1week_1992",
        "flashsim_jpeg_copy",
        "spc_financial1_first10k",
        "tencent_cbs_sample",
    ];
    for (nth, name) in (0..).zip(NAMES) {
        let mut dice = Dice::new(nth);
        let far = if name.starts_with("spc") { 9_000_000_000_000 } else { 0 };
        let row = |at: u64| {
            let op = if dice.next().is_multiple_of(3) { "Read" } else { "Write" };
            let offset = far + dice.next() % 2_000_000 * 4096;
            let bytes = (1 + dice.next() % 16) * 4096;
            format!("{},web,1,{op},{offset},{bytes},58000\n", 128_166_372_003_061_629 + at * 20_000)
        };
        let text: String = (0..60).map(row).collect();
        std::fs::write(folder.join(format!("{name}.csv")), text).unwrap();
    }
}
