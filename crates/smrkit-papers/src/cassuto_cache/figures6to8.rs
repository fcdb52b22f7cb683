//! Figures 6 to 8: random 4 KB writes over 20,000 s in windows of 10 s, with large and with small regions.

use smrkit::drive::{Constant, Drive, DriveClock};
use smrkit::error::Error;
use smrkit::stats::outcome::Outcome;
use smrkit::units::Nanos;

use super::common::constant;
use super::first_collection::{DERIVED, PAPER_IOPS, PAPER_S};
use crate::{Item, Plan, Row, Scale, Shown};
use smrkit_report::figure::{Axis, Figure, Panel, Series, Style};
use smrkit_report::format::count;

const WINDOW_S: u64 = 10;
const REGIONS: [u64; 2] = [50_000, 10_000];
/// Up to this cost of a sector, a collection of small regions takes less than a window. Derived: 99 (2 s + 2 R b) + s + R b
/// is 10 s at R = 10,000 sectors, s = 1.016 ms and b = 4.92 µs.
pub const FAST_US: f64 = 4.9;
/// From this share on, windows of 0 IOPS are many (assumption: the paper gives no number).
const MANY_PERCENT: f64 = 60.0;
/// Share of windows that must be under 50 IOPS, in percent (assumption: more than half).
const DROPPED_PERCENT: f64 = 50.0;
/// The paper's limit of the drop.
const DROPPED_IOPS: f64 = 50.0;
/// Share of the first window's rate that counts as regained (assumption).
const REGAINED: f64 = 0.9;
/// Gain of the mean that still counts as no better, in percent (assumption: the run's end cuts a fill).
const BETTER_PERCENT: f64 = 5.0;
/// Loss of the mean that still counts as none, in percent (assumption, for the same reason).
const WORSE_PERCENT: f64 = 12.0;
/// The cost of a sector whose figure is drawn: it fits figures 6, 7 and 8 alike.
const SHOWN_US: f64 = 4.0;
/// Windows above this are left out of figures 7 and 8, the paper's "low IOPS range" (assumption).
const LOW_IOPS: f64 = 300.0;

/// A drive's name in rows, its cost of a sector in µs, and the drive.
type Timed = (String, f64, Drive);

pub fn item(scale: &Scale, table1: &Drive, random: &Drive) -> Result<Item, Error> {
    let drives = drives(scale, table1, random)?;
    let end = scale.pick(20_000, 12_000);
    let mut plans = Vec::new();
    for (_, _, drive) in &drives {
        plans.extend(REGIONS.map(|region| {
            let plan = Plan::workload(drive, "set-assoc", "random-write:count=100M", scale.seed);
            plan.set("region_sectors", region).until(seconds(end), seconds(WINDOW_S))
        }));
    }
    let (of_table1, of_random) = (shown(constant(table1)?.sector_us()), shown(constant(random)?.sector_us()));
    let names: Vec<(String, f64)> = drives.into_iter().map(|(name, sector_us, _)| (name, sector_us)).collect();
    Ok(Item::new("Figures 6 to 8: random writes over time", plans, move |outcomes| {
        let runs: Vec<Windows> = outcomes.iter().map(|outcome| Windows::from_outcome(outcome, end)).collect();
        Shown {
            text: vec![
                format!(
                    "random-write of 4 KB, set-assoc with 1 % cache, over {} s in windows of 10 s; regions of 50,000 sectors \
                     (figures 6 and 7) and 10,000 (figure 8).",
                    count(end)
                ),
                format!(
                    "No cost of a sector fits both Table I and figure 8, so several are run: {of_table1} is cassuto-table1, \
                     {of_random} cassuto-random; the others are cassuto-random with another cost of a sector."
                ),
            ],
            rows: names
                .iter()
                .zip(runs.chunks_exact(2))
                .flat_map(|(name, pair)| rows(&name.0, &pair[0], &pair[1]))
                .collect(),
            figure: Some(figure(&names, &runs, end)),
            ..Shown::default()
        }
    }))
}

fn drives(scale: &Scale, table1: &Drive, random: &Drive) -> Result<Vec<Timed>, Error> {
    let of_table1 = constant(table1)?.sector_us();
    let clock = constant(random)?;
    let mut drives = vec![(shown(of_table1), of_table1, table1.clone())];
    for sector_us in scale.pick(vec![FAST_US, SHOWN_US, clock.sector_us()], vec![SHOWN_US]) {
        let mut drive = random.clone();
        drive.clock = DriveClock::Constant(Constant::new(clock.command_ms(), sector_us)?);
        drives.push((shown(sector_us), sector_us, drive));
    }
    Ok(drives)
}

/// A cost of a sector as rows name it.
fn shown(sector_us: f64) -> String {
    let text = format!("{sector_us:.2}");
    format!("{} µs", text.trim_end_matches('0').trim_end_matches('.'))
}

fn seconds(s: u64) -> Nanos {
    Nanos(s * 1_000_000_000)
}

/// Requests in each window of a run.
struct Windows {
    iops: Vec<f64>,
    /// When a request first waited for a collection.
    first_s: f64,
    longest_s: f64,
}

impl Windows {
    fn from_outcome(outcome: &Outcome, end_s: u64) -> Windows {
        let count = (end_s / WINDOW_S) as usize;
        let windows = outcome.timeline.requests.iter().take(count);
        let mut iops: Vec<f64> = windows.map(|&requests| requests as f64 / WINDOW_S as f64).collect();
        iops.resize(count, 0.0);
        let first_s = outcome.verdict.cache_full_at_s.unwrap_or(end_s as f64);
        Windows { iops, first_s, longest_s: outcome.latency_ns.all.max as f64 / 1e9 }
    }

    /// The windows after the first collection began.
    fn after(&self) -> &[f64] {
        let first = (self.first_s / WINDOW_S as f64).ceil() as usize;
        &self.iops[first.min(self.iops.len())..]
    }

    fn share(&self, of: impl Fn(f64) -> bool) -> f64 {
        let after = self.after();
        100.0 * after.iter().filter(|&&iops| of(iops)).count() as f64 / after.len() as f64
    }

    fn mean(&self) -> f64 {
        self.iops.iter().sum::<f64>() / self.iops.len() as f64
    }

    fn points(&self) -> Vec<(f64, f64)> {
        let at = |i: usize| (i as f64 + 0.5) * WINDOW_S as f64;
        self.iops.iter().enumerate().map(|(i, &iops)| (at(i), iops)).collect()
    }
}

fn rows(name: &str, large: &Windows, small: &Windows) -> Vec<Row> {
    let silent = |windows: &Windows| windows.share(|iops| iops == 0.0);
    let peak = large.after().iter().copied().fold(0.0, f64::max);
    let item = |what: &str| format!("{name}: {what}");
    let dropped = large.share(|iops| iops < DROPPED_IOPS);
    let better = 100.0 * (small.mean() / large.mean() - 1.0);
    let alike = (-WORSE_PERCENT..=BETTER_PERCENT).contains(&better);
    let [large_silent, small_silent] =
        ["50,000", "10,000"].map(|region| item(&format!("windows of 0 IOPS, regions of {region}")));
    let under_50 = item("windows under 50 IOPS, regions of 50,000");
    let fastest = item("fastest window after the drop");
    let means = format!("{:.0} against {:.0}", small.mean(), large.mean());
    vec![
        Row::holds(large_silent, "many", silent(large), "%", silent(large) > MANY_PERCENT)
            .because(why_large(silent(large), large.longest_s)),
        Row::holds(under_50, "the performance drops to them", dropped, "%", dropped > DROPPED_PERCENT)
            .because(format!("over {DROPPED_PERCENT} % (assumption) of those after the first collection")),
        Row::holds(fastest, "as before it", peak, "IOPS", peak > REGAINED * large.iops[0]).because(format!(
                "over {} % (assumption) of the first window's {:.0}, regions of 50,000",
                100.0 * REGAINED,
                large.iops[0]
            )),
        Row::holds(small_silent, "none", silent(small), "%", silent(small) == 0.0).because(why_small(small.longest_s)),
        Row::holds(item("mean IOPS, 10,000 against 50,000"), "no better", means, "IOPS", alike).because(format!(
                "{better:+.1} %, must lie between -{WORSE_PERCENT} and +{BETTER_PERCENT} % (assumptions); over the whole run, \
                 whose end cuts a fill of the cache"
            )),
    ]
}

fn why_large(silent_percent: f64, longest_s: f64) -> String {
    let whole = (longest_s / WINDOW_S as f64) as u64;
    let not = if silent_percent > MANY_PERCENT { "" } else { "not " };
    format!(
        "{not}over {MANY_PERCENT} % (assumption) of those after the first collection; the longest, {longest_s:.1} s, covers \
         {} to {whole} whole windows",
        whole.saturating_sub(1)
    )
}

fn why_small(longest_s: f64) -> String {
    match longest_s < WINDOW_S as f64 {
        true => format!("must be none; the longest collection takes {longest_s:.2} s, less than a window"),
        false => format!(
            "must be none; the longest collection takes {longest_s:.1} s, and only up to {FAST_US} µs a sector is it less \
             than a window of {WINDOW_S} s"
        ),
    }
}

/// The windows of the drive that fits all three figures.
fn figure(names: &[(String, f64)], runs: &[Windows], end_s: u64) -> Figure {
    let shown = names.iter().position(|name| name.1 == SHOWN_US).unwrap_or(0);
    let (name, large, small) = (&names[shown].0, &runs[2 * shown], &runs[2 * shown + 1]);
    let panel = |title: &str, fixed, series| {
        let x = Axis { fixed: Some((0.0, end_s as f64)), ..Axis::linear("Time (s)") };
        Panel::lines(Some(title), x, Axis { fixed, ..Axis::linear("IOPS") }, series)
    };
    let ours = |windows: &Windows| {
        let points = windows.points().into_iter().filter(|p| p.1 <= LOW_IOPS).collect();
        Series::nth(0, "", Style::Points, points)
    };
    let whole = vec![
        Series::nth(0, format!("ours, {name} a sector"), Style::Step, large.points()),
        Series::nth(1, format!("paper, {DERIVED}"), Style::Marked, vec![(0.0, PAPER_IOPS), (PAPER_S, PAPER_IOPS)]),
    ];
    let low = |title: &str, windows| panel(title, Some((-2.0, LOW_IOPS)), vec![ours(windows)]);
    Figure::new(
        "cassuto-cache-figures-6-to-8",
        "Figures 6 to 8: random 4 KB writes, IOPS in windows of 10 s",
        "Lines and dots are ours, a dot a window. The paper's text names 780 s, \"under 50\" and many or no windows of 0.",
        [
            panel("Figure 6: regions of 50,000 sectors", None, whole),
            low("Figure 7: the same, low IOPS", large).guided([(DROPPED_IOPS, "paper: under 50")]),
            low("Figure 8: regions of 10,000 sectors, low IOPS", small),
        ],
    )
}
