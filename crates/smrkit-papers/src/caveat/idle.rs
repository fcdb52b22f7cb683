//! The paper's closing question: how much of the cleaning idle time hides, on either model.

use smrfs::age::ager::AgerOptions;
use smrfs::age::course::{AgeingResult, CourseOptions, Duty, PAPER_DISK_BYTES};
use smrfs::age::world::World;
use smrfs::device::Model;
use smrfs::space::caveat::CaveatOptions;
use smrfs::workload::driver::End;
use smrkit::drive::Drive;

use super::common::{GB, MODELS, world};
use super::plan::CoursePlan;
use crate::{Item, Row, Scale, Shown};
use smrkit_report::Grid;
use smrkit_report::figure::{Axis, Figure, Panel, Series, Style};
use smrkit_report::format::{NONE, seconds, short};

const HEADING: &str = "Idle time: how much cleaning delays, by the share of it";
const NAMES: [&str; 2] = ["strict-append", "Caveat-Scriptor"];
/// Idle shares, in percent.
const SHARES: [u64; 10] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90];
const QUICK_SHARES: [u64; 3] = [0, 50, 90];
/// A fifth of the paper's disk; what sizes are multiplied by, and DID: so Caveat-Scriptor has to defragment within four times
/// its size (assumptions).
const DISK_BYTES: u64 = PAPER_DISK_BYTES / 5;
const SIZES: f64 = 0.06;
const DID_BYTES: u64 = 3 << 20;
/// Events are recorded after the disk's size has been written this many times, and for this many more.
const BEFORE: u64 = 3;
const RECORDED: u64 = 3;
/// "Hide all cleaning": at most so much of the programs' time, in percent (assumption).
const HIDDEN_PERCENT: f64 = 1.0;
/// "Hide much cleaning": at most so much of what it costs without idle time (assumption).
const MUCH: f64 = 0.5;
/// "A very small duty cycle": at most so much, in percent (assumption).
const SMALL_DUTY_PERCENT: u64 = 25;

fn plan(scale: &Scale, drive: &Drive, model: Model, idle_percent: u64) -> CoursePlan {
    let world = world(drive, model);
    let caveat = CaveatOptions { defragment: true, ..world.caveat.clone() };
    let paper = CourseOptions::paper(DISK_BYTES, scale.seed);
    let bytes = |disks: u64| disks * DISK_BYTES;
    let course = CourseOptions {
        ager: AgerOptions { size_factor: SIZES, ..paper.ager.clone() },
        duty: Duty { idle_percent: idle_percent as f64, ..Duty::NONE },
        before_bytes: bytes(BEFORE + RECORDED),
        record_from_bytes: bytes(BEFORE),
        until_bytes: bytes(BEFORE + RECORDED),
        benchmarks: Vec::new(),
        ..paper
    };
    CoursePlan { world: World { disk_bytes: DISK_BYTES, did_bytes: DID_BYTES, caveat, ..world }, course }
}

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let shares: Vec<u64> = scale.pick(SHARES.to_vec(), QUICK_SHARES.to_vec());
    let plans = shares.iter().flat_map(|&share| MODELS.map(|model| plan(scale, drive, model, share))).collect();
    Item::of_courses(HEADING, plans, move |courses| {
        let pairs: Vec<IdlePair> =
            shares.iter().zip(courses.chunks_exact(2)).map(|(&share, pair)| IdlePair { share, of: pair }).collect();
        let text = texts![
            format!(
                "The ager alone on a disk of {:.0} GB, 70 % full, DID 3 MiB, sizes × {SIZES}, after {} GB written, for {} more. It \
                 writes for {} and rests for as long as makes the share, by the rate of its demand, so that a slow disk rests no \
                 longer. Caveat-Scriptor has its defragmenter, which the paper has not.",
                DISK_BYTES as f64 / GB,
                BEFORE * DISK_BYTES / 1_000_000_000,
                RECORDED * DISK_BYTES / 1_000_000_000,
                seconds(Duty::NONE.spell.as_secs())
            ),
            "What cleaning takes is charged to the event that it delays: within a write, between two acts, and after a rest that \
             a step of it made longer.",
        ];
        vec![(HEADING, Shown { text, table: Some(table(&pairs)), rows: rows(&pairs), figure: Some(figure(&pairs)) })]
    })
}

/// Both models with one idle share.
struct IdlePair<'a> {
    share: u64,
    of: &'a [AgeingResult],
}

impl IdlePair<'_> {
    /// The share of the programs' time that cleaning took, in percent; not a number where the disk ran out of room.
    fn delay_percent(&self, model: usize) -> f64 {
        let AgeingResult { alone, end, .. } = &self.of[model];
        if *end == End::Full { f64::NAN } else { 100.0 * alone.delay.as_secs() / alone.busy.as_secs() }
    }
}

fn table(pairs: &[IdlePair]) -> Grid {
    let mut grid = Grid::new(["idle"]);
    for name in NAMES {
        grid.header.extend(["delay", "longest", "events delayed", "moved"].map(|what| format!("{name}: {what}")));
    }
    for pair in pairs {
        let mut row = vec![format!("{} %", pair.share)];
        for (model, course) in pair.of.iter().enumerate() {
            if course.end == End::Full {
                row.extend(["no room", NONE, NONE, NONE].map(String::from));
                continue;
            }
            let alone = &course.alone;
            let events = alone.latencies.all().count.max(1);
            row.push(format!("{} %", short(pair.delay_percent(model))));
            row.push(seconds(alone.longest_delay.as_secs()));
            row.push(format!("{} %", short(100.0 * alone.delayed as f64 / events as f64)));
            row.push(format!("{} GB", short(course.last.cleaned.moved_bytes as f64 / GB)));
        }
        grid.rows.push(row);
    }
    grid
}

fn rows(pairs: &[IdlePair]) -> Vec<Row> {
    let least = |model: usize, enough: &dyn Fn(f64) -> bool| {
        // From this share on, at every larger one as well.
        let met = pairs.iter().rev().take_while(|pair| enough(pair.delay_percent(model)));
        met.last().map(|pair| pair.share)
    };
    let shown = |share: Option<u64>| share.map_or("at none".to_string(), |share| format!("from {share} % idle on"));
    let [strict, caveat] = [0, 1].map(|model| pairs.first().map_or(f64::NAN, |pair| pair.delay_percent(model)));
    let hidden = |delay: f64| delay <= HIDDEN_PERCENT;
    let [strict_all, caveat_all] = [0, 1].map(|model| least(model, &hidden));
    let much = least(0, &|delay| delay <= MUCH * strict);
    let first_idle = pairs.get(1).map_or(0, |pair| pair.share);
    let costs = |delay: f64| format!("{} % of the time without idle time", short(delay));
    vec![
        Row::holds(
            "Caveat-Scriptor hides all cleaning",
            "if the duty cycle is not 100 %",
            shown(caveat_all),
            "",
            caveat_all.is_some_and(|share| share <= first_idle),
        )
        .because(format!(
            "at most {HIDDEN_PERCENT} % of the programs' time (assumption), from {first_idle} % on; {}",
            costs(caveat)
        )),
        Row::holds(
            "strict-append hides much cleaning",
            "needs a very small duty cycle",
            shown(much),
            "",
            much.is_none_or(|share| share >= 100 - SMALL_DUTY_PERCENT),
        )
        .because(format!(
            "at most {MUCH} of what it costs without idle time, at duty cycles of {SMALL_DUTY_PERCENT} % or less \
                 (assumptions); {}",
            costs(strict)
        )),
        Row::holds(
            "which model hides all cleaning with less idle time",
            NAMES[1],
            match (strict_all, caveat_all) {
                (Some(strict), Some(caveat)) if strict == caveat => "both alike",
                (strict, caveat) if caveat.unwrap_or(100) < strict.unwrap_or(100) => NAMES[1],
                (None, None) => "neither",
                _ => NAMES[0],
            },
            "",
            caveat_all.unwrap_or(100) < strict_all.unwrap_or(100),
        )
        .because(format!("strict-append {}", shown(strict_all))),
    ]
}

fn figure(pairs: &[IdlePair]) -> Figure {
    let series = [0, 1].map(|model| {
        let points = pairs.iter().map(|pair| (pair.share as f64, pair.delay_percent(model)));
        Series::nth([0, 4][model], NAMES[model], Style::Marked, points.filter(|point| point.1.is_finite()).collect())
    });
    let (x, y) =
        (Axis::linear("idle time (% of all time)"), Axis::linear("time that cleaning delays (% of the programs')"));
    Figure::new(
        "caveat-idle",
        "How much cleaning delays, by the share of idle time",
        "The paper's closing question, which it does not measure; the ager alone, with small files.",
        [Panel::lines(None, x, y, series)],
    )
}
