//! Cases that must come out exactly, or nearly so: sources as large as disks, and a log's amplification under random writes.

use std::sync::Arc;

use smrkit::interleave::SourcePlacement;
use smrkit::stats::outcome::Outcome;

use super::super::row::Row;
use super::super::{Item, Scale, Shown};
use super::sets::Set;
use super::setup::{ArrayPlan, Configuration, UpdateScheme};

/// Operations of each source, and for `--quick`.
const COUNT: (u64, u64) = (200_000, 20_000);
/// Random writes of each source, and for `--quick`: four times what a disk holds, or as little as shows cleaning.
const WRITES: (u64, u64) = (262_144, 65_536);
/// Random writes end up that near to each other, in percent.
const AMPLIFICATION_PERCENT: f64 = 3.0;

const EXACT: &str = "Sources as large as disks, laid end to end";
const RANDOM: &str = "Uniform random writes on a log";

/// Configurations that must equal *pure* in every counter of every disk.
const SAME: [Configuration; 5] = [
    Configuration::Spanned(1),
    Configuration::Spanned(50),
    Configuration::Dedicated,
    Configuration::DedicatedInBursts(1),
    Configuration::DedicatedInBursts(1000),
];

pub fn disks(scale: &Scale) -> Item {
    let set = Set::runs(16, 111, scale.pick(COUNT.0, COUNT.1));
    let mut plans = Vec::new();
    for scheme in UpdateScheme::ALL {
        let plan = |configuration| {
            let (set, placement) = (Arc::clone(&set), SourcePlacement::EndToEnd);
            ArrayPlan { scheme, configuration, set, placement, seed: scale.seed }
        };
        plans.push(plan(Configuration::Pure));
        plans.extend(SAME.map(plan));
    }
    Item::of_runs(EXACT, plans, |outcomes| {
        let by_scheme = outcomes.chunks_exact(SAME.len() + 1);
        let rows =
            UpdateScheme::ALL.into_iter().zip(by_scheme).flat_map(|(scheme, runs)| of_scheme(scheme, runs)).collect();
        let text = vec![
            "The set `runs`, shorter. Each disk then serves one source, in its own order, whatever is merged: nothing can differ."
                .into(),
        ];
        vec![(EXACT, Shown { text, rows, ..Shown::default() })]
    })
}

fn of_scheme(scheme: UpdateScheme, runs: &[Outcome]) -> Vec<Row> {
    let Some((pure, others)) = runs.split_first() else { return Vec::new() };
    let row = |(configuration, run): (Configuration, &Outcome)| {
        let same = pure.members.iter().zip(&run.members).all(|(a, b)| counted_alike(a, b));
        let paper = match configuration {
            Configuration::Dedicated => "25 % below pure",
            _ => "not run",
        };
        let ours = if same { "the same as pure" } else { "not the same" };
        let why = "movement, sectors and commands by cause, cleaning and the layer's counters, of each disk";
        let item = format!("{}: {configuration}", scheme.name());
        match configuration {
            Configuration::Dedicated => Row::holds(item, paper, ours, "", false, why),
            _ => Row::not_comparable(&item, ours, "", why),
        }
    };
    SAME.into_iter().zip(others).map(row).collect()
}

/// True if two disks did the same, save when.
fn counted_alike(a: &Outcome, b: &Outcome) -> bool {
    a.movement == b.movement
        && a.physical_read_sectors == b.physical_read_sectors
        && a.physical_written_sectors == b.physical_written_sectors
        && a.commands == b.commands
        && a.cleaning.sectors == b.cleaning.sectors
        && a.layer_stats == b.layer_stats
}

/// Striping and interleaving leave a log's amplification alone where writes fall anywhere.
pub fn random_writes(scale: &Scale) -> Item {
    let set = Set::random_writes(scale.pick(WRITES.0, WRITES.1));
    let striped = [1, 10, 50, 250].map(Configuration::Striped);
    let configurations: Vec<Configuration> = [Configuration::Pure].into_iter().chain(striped).collect();
    let plan = |&configuration: &Configuration| ArrayPlan {
        scheme: UpdateScheme::Log,
        configuration,
        set: Arc::clone(&set),
        placement: SourcePlacement::EndToEnd,
        seed: scale.seed,
    };
    let plans = configurations.iter().map(plan).collect();
    Item::of_runs(RANDOM, plans, move |outcomes| {
        let amplification =
            |run: &Outcome| run.physical_written_sectors.total as f64 / run.host_written_sectors.max(1) as f64;
        let pure = outcomes.first().map_or(f64::NAN, amplification);
        let row = |(configuration, run): (&Configuration, &Outcome)| {
            let ours = amplification(run);
            let off = 100.0 * (ours / pure - 1.0);
            let why = match off.abs() <= AMPLIFICATION_PERCENT {
                _ if *configuration == Configuration::Pure => "what the others are compared with".to_string(),
                true => format!("{off:+.1} % against pure: interleaving writes of the same kind moves no more data"),
                false => format!("{off:+.1} % against pure, more than {AMPLIFICATION_PERCENT} %"),
            };
            Row::not_comparable(&format!("write amplification: {configuration}"), ours, "", &why)
        };
        let rows = configurations.iter().zip(outcomes).map(row).collect();
        let text = vec![format!("Four sources, each {}. The paper has no such workload.", set.text())];
        vec![(RANDOM, Shown { text, rows, ..Shown::default() })]
    })
}
