//! The paper's drive and layers, runs on both, and what rows say of them.

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::layer::{self, LayerSpec, Parameters};
use smrkit::stats::outcome::Outcome;

use super::paper;
use crate::{Plan, Row};

/// The paper's drive.
pub(super) const DRIVE: &str = "st5000as0011";
/// The paper's layer, and the one that it is compared with.
pub(super) const LAYERS: [&str; 2] = ["vguard", "drive-managed"];
/// Variant that makes the second of them the paper's.
pub(super) const VARIANT: (&str, &str) = ("variant", "vguard-2017");

/// The layer called `name`, one of [`LAYERS`], and its parameters as the paper has it.
pub(super) fn as_published(name: &str) -> Result<(&'static LayerSpec, Parameters), Error> {
    let spec = layer::find(name)?;
    let variant = (name == LAYERS[1]).then(|| (VARIANT.0.into(), VARIANT.1.into()));
    Ok((spec, spec.resolve(&Vec::from_iter(variant))?))
}

/// Runs of one workload on both layers.
pub(super) fn both_of(drive: &Drive, workload: &str, seed: u64) -> [Plan; 2] {
    let [vguard, managed] = LAYERS.map(|layer| Plan::workload(drive, layer, workload, seed));
    [vguard, managed.set(VARIANT.0, VARIANT.1)]
}

/// Both outcomes of a trace.
pub(super) struct TracePair<'a> {
    pub(super) vguard: &'a Outcome,
    pub(super) managed: &'a Outcome,
}

impl TracePair<'_> {
    /// From runs that `both` made.
    pub(super) fn all(outcomes: &[Outcome]) -> impl Iterator<Item = TracePair<'_>> {
        outcomes.chunks_exact(2).map(|pair| TracePair { vguard: &pair[0], managed: &pair[1] })
    }

    /// The drive-managed disk's 99.9 % latency as a multiple of Vguard's.
    pub(super) fn ratio_at_99_9(&self) -> f64 {
        let [vguard, managed] = [self.vguard, self.managed].map(|outcome| percentiles(outcome)[paper::P99_9]);
        managed / vguard
    }
}

/// Table 2's columns of a run, in milliseconds.
pub(super) fn percentiles(outcome: &Outcome) -> [f64; 5] {
    let all = &outcome.latency_ns.all;
    [all.p95, all.p99, all.p99_5, all.p99_9, all.max].map(ms)
}

pub(super) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Five latencies as they stand in a row.
pub(super) fn listed(latencies: &[f64; 5]) -> String {
    latencies.map(|latency| format!("{latency:.2}")).join("  ")
}

/// The share of requests that write, in percent.
pub(super) fn write_percent(outcome: &Outcome) -> f64 {
    100.0 * outcome.commands.host_write as f64 / outcome.requests as f64
}

/// The highest value of a gauge at any window's end.
pub(super) fn highest(outcome: &Outcome, gauge: &str) -> f64 {
    let values = outcome.timeline.gauges.get(gauge);
    values.map_or(f64::NAN, |values| values.iter().copied().fold(0.0, f64::max))
}

/// The claim that `vguard` cleans no band. A trace of fewer writes than its thresholds can't make it, which is no evidence.
pub(super) fn never_cleans(item: &str, vguard: &Outcome, why: &str) -> Row {
    let cleaned = vguard.layer_stats.bands_cleaned().unwrap_or(0);
    let writes = vguard.commands.host_write;
    match writes < paper::VGUARD_THRESHOLD {
        true => Row::exact(item, 0, cleaned, "bands")
            .because(format!("{why}; {writes} writes are fewer than α"))
            .by_construction(),
        false => Row::exact(item, 0, cleaned, "bands").because(why),
    }
}

/// A parameter of the run, as text.
pub(super) fn parameter(outcome: &Outcome, key: &str) -> String {
    outcome.parameters.get(key).map_or_else(String::new, ToString::to_string)
}

/// Agrees within `tolerance` of the paper's number, in its own unit.
pub(super) fn within(item: String, paper: f64, ours: f64, unit: &'static str, tolerance: f64, why: &str) -> Row {
    let off = ours - paper;
    let agrees = off.abs() <= tolerance;
    let measure = if agrees { "within" } else { "more than" };
    let rest = if why.is_empty() { String::new() } else { format!("; {why}") };
    Row::holds(item, paper, ours, unit, agrees).because(format!("{off:+.3} {unit}, {measure} {tolerance} {unit}{rest}"))
}
