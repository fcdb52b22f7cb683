//! Figures 2 and 4: the distribution of latency for real traces.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Histograms;

use super::common::{LAYERS, TracePair, ms, never_cleans, write_percent};
use super::traces::{AtHand, TraceKind};
use crate::{Item, Row, Scale, Shown};
use smrkit_report::figure::{Axis, Figure, Numbers, Panel, Series, Style};

/// "Roughly a single rotation": at most this many of them (assumption: Table 2 has up to 1.04).
const ABOUT_ONE: f64 = 1.05;

/// The share of requests that took no longer, by latency in seconds.
pub fn cdf(histograms: &Histograms) -> Vec<(f64, f64)> {
    let mut counts: Vec<(u64, u64)> = histograms.read.iter().chain(&histograms.write).copied().collect();
    counts.sort_unstable();
    let all: u64 = counts.iter().map(|(_, requests)| requests).sum();
    let mut below = 0;
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(counts.len() + 1);
    for (latency_ns, requests) in counts {
        let latency_s = latency_ns as f64 / 1e9;
        if points.is_empty() {
            points.push((latency_s, 0.0));
        }
        below += requests;
        points.push((latency_s, below as f64 / all as f64));
    }
    points
}

/// A panel of curves with the axes that all of them share.
pub fn panel(title: &str, series: Vec<Series>) -> Panel {
    let x = Axis::log("Latency (logarithmic)", Numbers::Time);
    let y = Axis { fixed: Some((0.0, 1.0)), numbers: Numbers::Percent, ..Axis::linear("Requests no slower") };
    Panel::lines(Some(title), x, y, series)
}

/// The curves of both layers.
pub fn curves(pair: &TracePair) -> Vec<Series> {
    let runs = [pair.vguard, pair.managed];
    let curve = |(i, name)| Series::nth(i, name, Style::Step, cdf(&runs[i].latency_histogram));
    LAYERS.into_iter().enumerate().map(curve).collect()
}

pub fn msr(scale: &Scale, drive: &Drive, traces: &[AtHand]) -> Item {
    let chosen: Vec<&AtHand> = traces
        .iter()
        .filter(|trace| {
            matches!(trace.kind, TraceKind::OfTable2(_) | TraceKind::Msr | TraceKind::MsrPart) && trace.fits()
        })
        .collect();
    let plans = chosen.iter().flat_map(|trace| trace.on_both(drive, scale.seed)).collect();
    let named: Vec<(String, TraceKind)> = chosen.iter().map(|trace| (trace.name.clone(), trace.kind)).collect();
    let rotation_ms = drive.clock.mechanical().map_or(f64::NAN, |clock| ms(clock.rotation().0));
    Item::new("Figure 2: latency of MSR traces", plans, move |outcomes| {
        let pairs: Vec<(&str, TracePair)> =
            named.iter().map(|(name, _)| name.as_str()).zip(TracePair::all(outcomes)).collect();
        let kinds: Vec<TraceKind> = named.iter().map(|(_, kind)| *kind).collect();
        Shown {
            text: vec![told(&pairs, "MSR")],
            rows: msr_rows(&pairs, &kinds, rotation_ms),
            figure: figure("vguard-figure-2", "Figure 2: latency of MSR traces", &pairs),
            ..Shown::default()
        }
    })
}

pub fn cloud_physics(scale: &Scale, drive: &Drive, traces: &[AtHand]) -> Item {
    let chosen: Vec<&AtHand> =
        traces.iter().filter(|trace| trace.kind == TraceKind::CloudPhysics && trace.fits()).collect();
    let plans = chosen.iter().flat_map(|trace| trace.on_both(drive, scale.seed)).collect();
    let names: Vec<String> = chosen.iter().map(|trace| trace.name.clone()).collect();
    Item::new("Figure 4: latency of CloudPhysics traces", plans, move |outcomes| {
        let pairs: Vec<(&str, TracePair)> = names.iter().map(String::as_str).zip(TracePair::all(outcomes)).collect();
        let never = |(name, pair): &(&str, TracePair)| {
            let reason = "must be none; the paper's four traces are not at hand, this is a sample of another";
            never_cleans(&format!("{name}: bands that vguard cleans"), pair.vguard, reason)
        };
        Shown {
            text: vec![told(&pairs, "CloudPhysics")],
            rows: pairs.iter().map(never).collect(),
            figure: figure("vguard-figure-4", "Figure 4: latency of CloudPhysics traces", &pairs),
            ..Shown::default()
        }
    })
}

fn told(pairs: &[(&str, TracePair)], set: &str) -> String {
    match pairs.is_empty() {
        true => format!("No {set} trace is at hand: name a folder of traces."),
        false => format!("The {set} traces at hand, whole or in part, flat out on both layers."),
    }
}

fn msr_rows(pairs: &[(&str, TracePair)], kinds: &[TraceKind], rotation_ms: f64) -> Vec<Row> {
    let p95 = |((name, pair), kind): (&(&str, TracePair), &TraceKind)| {
        let ours = ms(pair.vguard.latency_ns.all.p95);
        let turns = ours / rotation_ms;
        let item = format!("{name}: vguard, 95 %");
        let paper = "roughly a single rotation";
        if *kind == TraceKind::MsrPart {
            return Row::beside(item, paper, ours, "ms")
                .because("a part of a trace: first writes to tracks, which copy, weigh more");
        }
        let reads = 100.0 - write_percent(pair.vguard);
        let reason =
            format!("{turns:.3} rotations, at most {ABOUT_ONE} (assumption); {reads:.0} % of the requests read");
        Row::holds(item, paper, ours, "ms", turns <= ABOUT_ONE).because(reason)
    };
    let below = |pair: &TracePair| ms(pair.vguard.latency_ns.all.p99) < 1e3 * tenth(&pair.managed.latency_histogram);
    let cases: Vec<&str> = pairs.iter().filter(|(_, pair)| below(pair)).map(|(name, _)| *name).collect();
    let ours = if cases.is_empty() { "none".into() } else { cases.join(", ") };
    let reason = format!("at least one of the {} at hand", pairs.len());
    let some = Row::holds(
        "vguard at 99 % below drive-managed at 10 %",
        "in some cases, e.g. src2_0 and mds_0",
        ours,
        "",
        !cases.is_empty(),
    )
    .because(reason);
    let rows = pairs.iter().zip(kinds).map(p95);
    if pairs.is_empty() { Vec::new() } else { rows.chain([some]).collect() }
}

/// The latency in seconds that a tenth of the requests don't exceed, within 3 %.
fn tenth(histograms: &Histograms) -> f64 {
    cdf(histograms).into_iter().find(|&(_, share)| share >= 0.1).map_or(f64::NAN, |(latency_s, _)| latency_s)
}

fn figure(name: &str, title: &str, pairs: &[(&str, TracePair)]) -> Option<Figure> {
    let panels = pairs.iter().map(|(name, pair)| panel(name, curves(pair)));
    let note = "Ours, in steps of at most 3 %; further left is better. The paper's curves are not in its text.";
    let mut figure = Figure::new(name, title, note, panels);
    figure.share_x();
    (!pairs.is_empty()).then_some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_counted_together() {
        let histograms = Histograms { read: vec![(5_000_000, 1), (20_000_000, 1)], write: vec![(10_000_000, 6)] };
        assert_eq!(cdf(&histograms), [(0.005, 0.0), (0.005, 0.125), (0.01, 0.875), (0.02, 1.0)]);
        assert_eq!(tenth(&histograms), 0.005);
    }
}
