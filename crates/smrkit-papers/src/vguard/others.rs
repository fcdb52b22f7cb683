//! Traces that are not in Table 2: our numbers, and those of the paper's claims that can be tested on any trace.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::super::bars::{self, Bar};
use super::common::{TracePair, listed, percentiles, write_percent};
use super::traces::{AtHand, TraceKind};
use crate::{Item, Row, Scale, Shown, Value};
use smrkit_report::figure::{Colour, Figure};
use smrkit_report::format::count;

/// A trace with a larger share of writes waits for the map at 99.9 % on the drive-managed disk: 0.1 % × 240.
const WRITE_PERCENT: f64 = 24.0;

pub fn item(scale: &Scale, drive: &Drive, traces: &[AtHand]) -> Item {
    let is_further = |trace: &&AtHand| !matches!(trace.kind, TraceKind::OfTable2(_));
    let (run, left_out): (Vec<&AtHand>, Vec<&AtHand>) =
        traces.iter().filter(is_further).partition(|trace| trace.fits());
    let plans = run.iter().flat_map(|trace| trace.on_both(drive, scale.seed)).collect();
    let names: Vec<String> = run.iter().map(|trace| trace.name.clone()).collect();
    let too_large: Vec<Row> =
        left_out.iter().filter_map(|trace| Some(refused(trace, trace.too_large.as_ref()?))).collect();
    Item::new("Further traces: latency percentiles", plans, move |outcomes| {
        let pairs: Vec<(&str, TracePair)> = names.iter().map(String::as_str).zip(TracePair::all(outcomes)).collect();
        let rows = pairs.iter().flat_map(|(name, pair)| rows(name, pair)).chain(too_large).collect();
        Shown {
            text: vec![match pairs.is_empty() {
                true => "No trace is at hand: name a folder of traces.".into(),
                false => format!(
                    "Traces at hand that Table 2 does not have, parts of its traces among them, run as Table 2's. Over {WRITE_PERCENT} % \
                     writes, one request in a thousand waits for the drive-managed disk's map, so that it should be \
                     slower there."
                ),
            }],
            rows,
            figure: (!pairs.is_empty()).then(|| figure(&pairs)),
            ..Shown::default()
        }
    })
}

fn refused(trace: &AtHand, why: &str) -> Row {
    Row::beside(format!("{}: latency", trace.name), Value::None, Value::None, "ms")
        .because(format!("does not fit: {why}"))
}

fn rows(name: &str, pair: &TracePair) -> Vec<Row> {
    let layer = |layer: &str, outcome: &Outcome| {
        Row::beside(format!("{name}: {layer}"), Value::None, listed(&percentiles(outcome)), "ms")
            .because(format!("95, 99, 99.5, 99.9 %, maximum of {} requests", count(outcome.requests)))
    };
    vec![layer("vguard", pair.vguard), layer("drive-managed", pair.managed), ratio(name, pair)]
}

fn ratio(name: &str, pair: &TracePair) -> Row {
    let item = format!("{name}: drive-managed / vguard, 99.9 %");
    let (ratio, writes) = (pair.ratio_at_99_9(), write_percent(pair.vguard));
    let reason = format!("{writes:.1} % of the requests write");
    if writes > WRITE_PERCENT {
        let reason = format!("{reason}{}", why_not(pair, ratio));
        return Row::holds(item, "above 1", ratio, "×", ratio > 1.0).because(reason).derived();
    }
    Row::beside(item, Value::None, ratio, "×").because(format!("{reason}: no claim for {WRITE_PERCENT} % or less"))
}

/// Why a trace is an exception.
fn why_not(pair: &TracePair, ratio: f64) -> String {
    if ratio > 1.0 {
        return String::new();
    }
    let writes = pair.vguard.latency_ns.write.p99_9 as f64 / pair.managed.latency_ns.write.p99_9 as f64;
    format!("; vguard's writes alone take {writes:.2} × as long at 99.9 %")
}

fn figure(pairs: &[(&str, TracePair)]) -> Figure {
    let bar = |(name, pair): &(&str, TracePair)| {
        let [vguard, managed] = [pair.vguard, pair.managed].map(|outcome| percentiles(outcome)[super::paper::P99_9]);
        let ratio = pair.ratio_at_99_9();
        let many = write_percent(pair.vguard) > WRITE_PERCENT;
        Bar::new((!many).into(), *name, ratio, format!("{ratio:.1} = {managed:.1} / {vguard:.1} ms"))
    };
    let kinds = [(&*format!("over {WRITE_PERCENT} % writes"), Colour::nth(0)), ("fewer writes", Colour::GREY)];
    Figure::new(
        "vguard-further-traces",
        "Further traces: how much slower the drive-managed disk is",
        "Ours; the paper ran none of these. The latency that 99.9 % of the requests don't exceed, drive-managed over \
         vguard.",
        [bars::panel(None, "drive-managed / vguard at 99.9 %", kinds, pairs.iter().map(bar).collect())],
    )
}
