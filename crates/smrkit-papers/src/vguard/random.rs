//! Figure 6: 100,000 random writes of 4 KB over four footprints, which make both layers clean.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::cdf;
use super::common::{LAYERS, TracePair, both_of, ms, parameter};
use super::paper::{MANAGED_THRESHOLD, VGUARD_THRESHOLD};
use crate::{Item, Plan, Row, Scale, SeedSpread, Shown, Value, number};
use smrkit_report::figure::Figure;

/// The paper's address spaces.
const SPANS: [(&str, &str); 4] = [("500 GB", "500G"), ("1 TB", "1T"), ("2 TB", "2T"), ("4 TB", "4T")];
/// The span at which cleaning is compared with its closed form.
const STEADY: usize = 1;
/// The span over which other spreads of an episode are tried, and what a command may do of it other than a phase.
const SPREAD_OVER: usize = 3;
const SPREADS: [&str; 2] = ["band", "episode"];
/// Writes of a run.
const WRITES: u64 = 100_000;
/// 19 of a band's 20 tracks have one after them that must be copied.
const COPIED: f64 = 19.0 / 20.0;
/// Distance within which the first cleaning agrees, in percent.
const FIRST_PERCENT: f64 = 3.0;
/// Distance from the closed form within which the bands cleaned per write agree, in percent.
const BANDS_PERCENT: f64 = 5.0;
/// Bands cleaned per write at 1 TB: 0.95 / (1 + 9,194 / 28,800 bands), whole bands; with partial cleaning by a small model.
const WHOLE_BANDS: f64 = 0.72;
const PARTIAL_BANDS: f64 = 0.92;
/// "About 30 %" below, in percent (assumption).
const ABOUT_30: (f64, f64) = (20.0, 40.0);
/// "Improves drastically": to at most this share (assumption).
const DRASTICALLY: f64 = 0.5;
/// "Slightly worse": by up to so much, in percent (assumption).
const SLIGHTLY_PERCENT: f64 = 25.0;
/// "The similarity of results for the larger traces": within so much, in percent (assumption).
const SIMILAR_PERCENT: f64 = 15.0;
const MEAN: fn(&Outcome) -> u64 = |outcome| outcome.latency_ns.all.mean;
const MEDIAN: fn(&Outcome) -> u64 = |outcome| outcome.latency_ns.all.p50;
const P90: fn(&Outcome) -> u64 = |outcome| outcome.latency_ns.all.p90;
/// "Each write forces one band to be cleaned", for 2 and 4 TB: at least this many bands a write (assumption).
const ONE_BAND: f64 = 0.8;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let seeds: Vec<u64> = scale.seeds(3, 1).collect();
    let mut plans = Vec::new();
    for &seed in &seeds {
        plans.extend(SPANS.iter().flat_map(|(_, span)| both_of(drive, &workload(span), seed)));
        plans.extend(["off", "on"].map(|partial| steady(drive, partial, seed)));
    }
    plans.extend(SPREADS.map(|spread| {
        Plan::workload(drive, LAYERS[0], workload(SPANS[SPREAD_OVER].1), scale.seed).set("spread", spread)
    }));
    Item::new("Figure 6: random writes", plans, |outcomes| {
        let (seeds, spreads) = outcomes.split_at(outcomes.len() - SPREADS.len());
        let runs: Vec<Seed> = seeds.chunks_exact(2 * SPANS.len() + 2).map(Seed::from_outcomes).collect();
        let partial = outcomes.first().map_or(String::new(), |outcome| parameter(outcome, "partial"));
        Shown {
            text: vec![format!(
                "100,000 random writes of 4 KB over the first 500 GB to 4 TB, on an empty drive; the mean over seeds. The \
                 layers' default is partial={partial}."
            )],
            rows: SPANS
                .iter()
                .enumerate()
                .flat_map(|(i, span)| rows(span.0, i, &runs))
                .chain(steady_rows(&runs))
                .chain(runs.first().into_iter().flat_map(|first| spread_rows(first, spreads)))
                .collect(),
            figure: runs.first().map(figure),
            ..Shown::default()
        }
    })
}

fn workload(span: &str) -> String {
    format!("random-write:span={span},count={WRITES}")
}

/// The second half of the writes at 1 TB.
fn steady(drive: &Drive, partial: &str, seed: u64) -> Plan {
    Plan::workload(drive, LAYERS[0], workload(SPANS[STEADY].1), seed).set("partial", partial).warmup(WRITES / 2)
}

/// The runs of one seed.
struct Seed<'a> {
    spans: Vec<TracePair<'a>>,
    whole: &'a Outcome,
    partial: &'a Outcome,
}

impl<'a> Seed<'a> {
    fn from_outcomes(outcomes: &'a [Outcome]) -> Seed<'a> {
        let (spans, steady) = outcomes.split_at(2 * SPANS.len());
        Seed { spans: TracePair::all(spans).collect(), whole: &steady[0], partial: &steady[1] }
    }
}

fn mean(runs: &[Seed], of: impl Fn(&Seed) -> f64) -> SeedSpread {
    SeedSpread::from_values(runs.iter().map(of))
}

fn first_cleaning(outcome: &Outcome) -> f64 {
    number(outcome.layer_stats.first_cleaning())
}

/// Bands cleaned a write, from the first cleaning on.
fn bands_per_write(outcome: &Outcome) -> f64 {
    number(outcome.layer_stats.bands_cleaned()) / (outcome.requests as f64 - first_cleaning(outcome))
}

fn rows(span: &str, i: usize, runs: &[Seed]) -> Vec<Row> {
    let item = |what: &str| format!("{span}: {what}");
    let mut rows = firsts(&item, i, runs);
    let latency = |what: &str, of: &dyn Fn(&Outcome) -> u64| {
        let vguard = mean(runs, |run| ms(of(run.spans[i].vguard))).mean;
        let managed = mean(runs, |run| ms(of(run.spans[i].managed))).mean;
        (what.to_string(), vguard, managed)
    };
    for (what, of) in [("mean", MEAN), ("median", MEDIAN)] {
        rows.push(typical(&item, i, &latency(what, &of)));
    }
    let p90 = latency("90 %", &P90);
    rows.push(ninetieth(&item, i, &p90));
    for (what, vguard, managed) in
        [latency("99 %", &|o| o.latency_ns.all.p99), latency("maximum", &|o| o.latency_ns.all.max)]
    {
        let lower = 100.0 * (1.0 - vguard / managed);
        let both = format!("{vguard:.0} against {managed:.0} ms");
        rows.push(
            Row::holds(
                item(&format!("{what}, vguard below drive-managed")),
                "below",
                both.clone(),
                "",
                vguard < managed,
            )
            .because("must be below"),
        );
        let (least, most) = ABOUT_30;
        rows.push(
            Row::holds(
                item(&format!("{what}, how far below")),
                "about 30",
                lower,
                "%",
                (least..=most).contains(&lower),
            )
            .because(format!("{both}; {least} to {most} % (assumption)")),
        );
    }
    if i > STEADY {
        let [vguard, managed] = [
            mean(runs, |run| bands_per_write(run.spans[i].vguard)),
            mean(runs, |run| bands_per_write(run.spans[i].managed)),
        ];
        rows.push(
            Row::holds(
                item("bands cleaned per write after the first cleaning, vguard and drive-managed"),
                "each write forces one",
                format!("{:.2} and {:.2}", vguard.mean, managed.mean),
                "",
                vguard.mean >= ONE_BAND && managed.mean >= ONE_BAND,
            )
            .because(format!("at least {ONE_BAND} (assumption)")),
        );
    }
    rows
}

fn firsts(item: &dyn Fn(&str) -> String, i: usize, runs: &[Seed]) -> Vec<Row> {
    let vguard = mean(runs, |run| first_cleaning(run.spans[i].vguard));
    let managed = mean(runs, |run| first_cleaning(run.spans[i].managed));
    let copies = (VGUARD_THRESHOLD as f64 / COPIED).round();
    vec![
        Row::near(item("first cleaning, vguard"), Value::Number(copies), vguard.mean, "writes", FIRST_PERCENT)
            .because(format!("9,194 copies, for 19 of 20 writes; writes to one track need one copy ({})", vguard.range))
            .derived(),
        Row::near(item("first cleaning, drive-managed"), MANAGED_THRESHOLD, managed.mean, "writes", FIRST_PERCENT)
            .because(format!("an entry a write, more than 22,986 ({})", managed.range))
            .derived(),
    ]
}

/// Row on the mean and median of writes: similar where bands are cleaned at nearly every write; of less the text says nothing.
fn typical(item: &dyn Fn(&str) -> String, i: usize, (what, vguard, managed): &(String, f64, f64)) -> Row {
    let both = format!("{vguard:.0} against {managed:.0}");
    let off = 100.0 * (vguard / managed - 1.0);
    let name = item(&format!("{what}, vguard against drive-managed"));
    if i < STEADY {
        return Row::beside(name, Value::None, both, "ms")
            .because(format!("{off:+.0} %; the text names its larger address spaces only"));
    }
    let reason = format!("{off:+.0} %, must be within {SIMILAR_PERCENT} % (assumption)");
    Row::holds(name, "similar", both, "ms", off.abs() <= SIMILAR_PERCENT).because(reason)
}

fn ninetieth(item: &dyn Fn(&str) -> String, i: usize, (what, vguard, managed): &(String, f64, f64)) -> Row {
    let both = format!("{vguard:.0} against {managed:.0}");
    let off = 100.0 * (vguard / managed - 1.0);
    let name = item(&format!("{what}, vguard against drive-managed"));
    if i == 0 {
        let reason = format!("{off:+.0} %, must be at most {:.0} % of it (assumption)", 100.0 * DRASTICALLY);
        return Row::holds(name, "drastically better", both, "ms", *vguard <= DRASTICALLY * managed).because(reason);
    }
    let slightly = off > 0.0 && off <= SLIGHTLY_PERCENT;
    let reason = format!("{off:+.1} %, must be up to +{SLIGHTLY_PERCENT} % (assumption)");
    Row::holds(name, "slightly worse", both, "ms", slightly).because(reason)
}

fn steady_rows(runs: &[Seed]) -> Vec<Row> {
    let per_write = |outcome: &Outcome| number(outcome.layer_stats.bands_cleaned()) / outcome.requests as f64;
    let [whole, partial] = [mean(runs, |run| per_write(run.whole)), mean(runs, |run| per_write(run.partial))];
    vec![
        Row::near(
            "1 TB: bands cleaned per write, second half, partial=off",
            WHOLE_BANDS,
            whole.mean,
            "bands",
            BANDS_PERCENT,
        )
        .because(format!("0.95 / (1 + 9,194 / bands) ({})", whole.range))
        .derived(),
        Row::near(
            "1 TB: bands cleaned per write, second half, partial=on",
            PARTIAL_BANDS,
            partial.mean,
            "bands",
            BANDS_PERCENT,
        )
        .because(format!("by a small model ({})", partial.range))
        .derived(),
    ]
}

/// Rows on "similar" and "slightly worse" where a command does more of an episode before it is served.
fn spread_rows(first: &Seed, spreads: &[Outcome]) -> Vec<Row> {
    let pair = &first.spans[SPREAD_OVER];
    let (span, phase) = (SPANS[SPREAD_OVER].0, [("phase", pair.vguard)]);
    let of: Vec<(&str, &Outcome)> = phase.into_iter().chain(SPREADS.into_iter().zip(spreads)).collect();
    [("mean", MEAN), ("median", MEDIAN), ("90 %", P90)]
        .map(|(what, value)| {
            let ours = of.iter().map(|(spread, run)| format!("{spread} {:.0}", ms(value(run)))).collect::<Vec<_>>();
            let managed = ms(value(pair.managed));
            let nearest = of.iter().min_by(|a, b| {
                let off = |run: &Outcome| (ms(value(run)) - managed).abs();
                off(a.1).total_cmp(&off(b.1))
            });
            let nearest = nearest.map_or("", |(spread, _)| spread);
            Row::beside(
                format!("{span}: {what} by the spread of an episode over commands"),
                Value::None,
                ours.join(", "),
                "ms",
            )
            .because(format!(
                "drive-managed {managed:.0}, to which {nearest} comes nearest; the paper leaves the spread open"
            ))
        })
        .into()
}

fn figure(run: &Seed) -> Figure {
    let panels = SPANS.iter().zip(&run.spans).map(|((span, _), pair)| cdf::panel(span, cdf::curves(pair)));
    let mut figure = Figure::new(
        "vguard-figure-6",
        "Figure 6: latency of random 4 KB writes",
        "Ours, in steps of at most 3 %; 100,000 writes over each address space. The paper's curves are not in its text.",
        panels,
    );
    figure.share_x();
    figure
}
