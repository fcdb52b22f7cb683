//! Shafaei & Desnoyers, "Virtual Guard: A Track-Based Translation Layer for Shingled Disks", HotStorage 2017. Most of its
//! traces are not public; its figures were at hand as text, without the curves.

mod cache_use;
mod cdf;
mod others;
mod paper;
mod random;
mod table1;
mod table2;
mod tracks;
mod traces;

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::layer::{self, LayerSpec, Parameters};
use smrkit::stats::outcome::Outcome;

use super::lab::Plan;
use super::row::Row;
use super::{Item, Reproduction, Scale, counter};
use traces::AtHand;

pub const REPRODUCTION: Reproduction = Reproduction {
    name: "vguard",
    paper: "Shafaei & Desnoyers 2017: Virtual Guard",
    summary: "Tables 1 to 3 and figures 2 to 6, for the traces at hand and for random writes.",
    before: "Disks are empty before; both layers take every track as in use.",
    items,
    open,
};

/// The paper's drive.
const DRIVE: &str = "st5000as0011";
/// The paper's layer, and the one that it is compared with.
const LAYERS: [&str; 2] = ["vguard", "drive-managed"];
/// Variant that makes the second of them the paper's.
const VARIANT: (&str, &str) = ("variant", "vguard-2017");

/// The layer called `name`, one of [`LAYERS`], and its parameters as the paper has it.
fn as_published(name: &str) -> Result<(&'static LayerSpec, Parameters), Error> {
    let spec = layer::find(name)?;
    let variant = (name == LAYERS[1]).then(|| (VARIANT.0.into(), VARIANT.1.into()));
    Ok((spec, spec.resolve(&Vec::from_iter(variant))?))
}

fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let drive = Drive::load(DRIVE)?;
    let traces = traces::at_hand(scale, &drive)?;
    Ok(vec![
        table1::item(scale, &drive)?,
        table2::item(scale, &drive, &traces),
        others::item(scale, &drive, &traces),
        cdf::msr(scale, &drive, &traces),
        cache_use::item(scale, &drive, &traces),
        tracks::table3(&traces)?,
        cdf::cloud_physics(scale, &drive, &traces),
        tracks::figure5(&traces)?,
        random::item(scale, &drive),
    ])
}

/// Questions that the paper leaves open or contradicts.
fn open() -> Result<Vec<String>, Error> {
    let above_15 = paper::TABLE2.iter().filter(|row| row.ratio(paper::P99_9) >= 15.0);
    let above_15: Vec<&str> = above_15.map(|row| row.trace).collect();
    Ok(texts![
        "\"The number of free tracks in the mapping table drops below α\" (2.3), read literally with α = 9,194 of 13,791 \
         tracks, would clean after some 4,600 copies; α = β, and a map of that many entries, speak for used entries above \
         α, which is taken here.",
        "Where the track after a written track is in the cache and a valid track follows there, figure 1(d) moves the \
         written track to the log's head; the text of 2.1 copies the track that follows. The figure is taken.",
        format!(
            "Equation (1) names no base for its logarithm: {:.0} KB with 2, {:.0} KB with e; the paper says about 30 KB.",
            table1::map_bytes(2.0) / 1e3,
            table1::map_bytes(std::f64::consts::E) / 1e3
        ),
        format!(
            "\"13.8K tracks (24 GB)\": {} tracks of 1.8 MB are {:.1} GB, and 24 GB {:.0} tracks; the tracks rule, of which \
             the thresholds are two thirds.",
            paper::CACHE_TRACKS,
            paper::CACHE_TRACKS as f64 * 1.8e-3,
            24e9 / 1.8e6
        ),
        format!(
            "\"15 × at 99.9 % for real-world traces\" (abstract) holds for {} of Table 2's {} traces: {}.",
            above_15.len(),
            paper::TABLE2.len(),
            above_15.join(", ")
        ),
        "Vguard \"may choose\" to clean a band partly (2.3): whether the figures do is not said; `partial` is a parameter, \
         and both are run.",
        "The drive-managed disk's 24.78 ms, 240 writes and 300 ms are in no text: they are read off Table 2, so that its \
         column of 324.78 is no evidence here. It is reached at 99.9 % exactly where over 24 % of the requests write.",
        "Seek, head switch and command overhead are not given: the drive file's are assumptions or fitted to wdev_1, and \
         the tails above 10.4 ms hang on them.",
        "Neither the names of Table 3's traces nor the curves of figures 2 to 6 were at hand; what the text says of them is \
         compared.",
        "\"1 MB\" tracks (figure 5) are 1 MiB here; the first to 4 TB of figure 6 are the first LBAs (assumption), where \
         tracks are longest.",
    ])
}

/// Runs of one trace on both layers.
fn both(drive: &Drive, trace: &AtHand, seed: u64) -> [Plan; 2] {
    let [vguard, managed] = LAYERS.map(|layer| Plan::trace(drive, layer, &trace.input, seed));
    [vguard, managed.set(VARIANT.0, VARIANT.1)]
}

/// Runs of one workload on both layers.
fn both_of(drive: &Drive, workload: &str, seed: u64) -> [Plan; 2] {
    let [vguard, managed] = LAYERS.map(|layer| Plan::workload(drive, layer, workload, seed));
    [vguard, managed.set(VARIANT.0, VARIANT.1)]
}

/// Both outcomes of a trace.
struct TracePair<'a> {
    vguard: &'a Outcome,
    managed: &'a Outcome,
}

impl TracePair<'_> {
    /// From runs that `both` made.
    fn all(outcomes: &[Outcome]) -> impl Iterator<Item = TracePair<'_>> {
        outcomes.chunks_exact(2).map(|pair| TracePair { vguard: &pair[0], managed: &pair[1] })
    }

    /// The drive-managed disk's 99.9 % latency as a multiple of Vguard's.
    fn ratio_at_99_9(&self) -> f64 {
        let [vguard, managed] = [self.vguard, self.managed].map(|outcome| percentiles(outcome)[paper::P99_9]);
        managed / vguard
    }
}

/// Table 2's columns of a run, in milliseconds.
fn percentiles(outcome: &Outcome) -> [f64; 5] {
    let all = &outcome.latency_ns.all;
    [all.p95, all.p99, all.p99_5, all.p99_9, all.max].map(ms)
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Five latencies as they stand in a row.
fn listed(latencies: &[f64; 5]) -> String {
    latencies.map(|latency| format!("{latency:.2}")).join("  ")
}

/// The share of requests that write, in percent.
fn write_percent(outcome: &Outcome) -> f64 {
    100.0 * outcome.commands.host_write as f64 / outcome.requests as f64
}

/// The highest value of a gauge at any window's end.
fn highest(outcome: &Outcome, gauge: &str) -> f64 {
    let values = outcome.timeline.gauges.get(gauge);
    values.map_or(f64::NAN, |values| values.iter().copied().fold(0.0, f64::max))
}

/// The claim that `vguard` cleans no band. A trace of fewer writes than its thresholds can't make it, which is no evidence.
fn never_cleans(item: &str, vguard: &Outcome, why: &str) -> Row {
    let cleaned = counter(vguard, "bands_cleaned").unwrap_or(0);
    let writes = vguard.commands.host_write;
    match writes < paper::VGUARD_THRESHOLD {
        true => {
            Row::exact(item, 0, cleaned, "bands", &format!("{why}; {writes} writes are fewer than α")).by_construction()
        }
        false => Row::exact(item, 0, cleaned, "bands", why),
    }
}

/// A parameter of the run, as text.
fn parameter(outcome: &Outcome, key: &str) -> String {
    outcome.parameters.get(key).map_or_else(String::new, ToString::to_string)
}

/// Agrees within `tolerance` of the paper's number, in its own unit.
fn within(item: String, paper: f64, ours: f64, unit: &'static str, tolerance: f64, why: &str) -> Row {
    let off = ours - paper;
    let agrees = off.abs() <= tolerance;
    let measure = if agrees { "within" } else { "more than" };
    let rest = if why.is_empty() { String::new() } else { format!("; {why}") };
    Row::holds(item, paper, ours, unit, agrees, format!("{off:+.3} {unit}, {measure} {tolerance} {unit}{rest}"))
}
