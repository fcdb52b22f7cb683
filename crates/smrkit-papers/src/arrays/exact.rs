//! Cases that must come out exactly, or nearly so: sources as large as disks, and a log's amplification under random writes.

use std::sync::Arc;

use smrkit::interleave::SourcePlacement;
use smrkit::stats::outcome::Outcome;

use super::claims;
use super::measured::{self, MeasuredSet};
use super::sets::Set;
use super::setup::{ArrayPlan, Configuration, UpdateScheme};
use crate::{Item, Scale, Shown};
use smrkit_report::Grid;

/// Operations of each source: whatever their number, nothing can differ.
const COUNT: u64 = 20_000;
/// Random writes of each source, and for `--quick`: four times what a disk holds, or as little as shows cleaning.
const WRITES: (u64, u64) = (262_144, 65_536);

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
    let set = Set::runs(16, 111, COUNT);
    let mut plans = Vec::new();
    for scheme in UpdateScheme::ALL {
        let plan = |configuration| {
            let (set, placement) = (Arc::clone(&set), SourcePlacement::EndToEnd);
            ArrayPlan { scheme, configuration, set, placement, seed: scale.seed }
        };
        plans.push(plan(Configuration::Pure));
        plans.extend(SAME.map(plan));
    }
    let keys = measured::keys(&plans);
    Item::new(EXACT, plans, move |outcomes| {
        let by_scheme: Vec<&[Outcome]> = outcomes.chunks_exact(SAME.len() + 1).collect();
        let mut table = Grid::new(["scheme"]);
        table.header.extend(SAME.iter().map(Configuration::to_string));
        for (scheme, runs) in UpdateScheme::ALL.into_iter().zip(&by_scheme) {
            table.rows.push([scheme.name()].into_iter().chain(against_pure(runs)).map(String::from).collect());
        }
        let text = texts![
            "The set `runs`, shorter. Each disk then serves one source, in its own order, whatever is merged: movement, sectors and \
             commands by cause, cleaning and the layer's counters of each disk are compared with those of pure.",
        ];
        let measured = MeasuredSet::new(&keys, &outcomes.iter().cloned().map(Some).collect::<Vec<_>>());
        let rows = vec![claims::dedicated(&measured, UpdateScheme::Log)];
        Shown { text, table: Some(table), rows, ..Shown::default() }
    })
}

/// Runs of [`SAME`] that did the same as the first, or did not, in words.
fn against_pure(runs: &[Outcome]) -> impl Iterator<Item = &'static str> {
    let (pure, others) = runs.split_at(1);
    others.iter().map(|run| {
        let same = pure[0].members.iter().zip(&run.members).all(|(a, b)| counted_alike(a, b));
        if same { "the same" } else { "not the same" }
    })
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
    Item::new(RANDOM, plans, move |outcomes| {
        let amplification =
            |run: &Outcome| run.physical_written_sectors.total as f64 / run.host_written_sectors.max(1) as f64;
        let mut table = Grid::new(["configuration", "write amplification"]);
        let pure = outcomes.first().map_or(f64::NAN, amplification);
        let mut off: f64 = 0.0;
        for (configuration, run) in configurations.iter().zip(outcomes) {
            off = off.max((amplification(run) / pure - 1.0).abs());
            table.rows.push(vec![configuration.to_string(), format!("{:.3}", amplification(run))]);
        }
        let text = vec![format!(
            "Four sources, each {}. Interleaving them changes the amplification by at most {:.1} %. The paper has no such workload.",
            set.text(),
            100.0 * off
        )];
        Shown { text, table: Some(table), ..Shown::default() }
    })
}

#[cfg(test)]
mod tests {
    use smrkit::engine::NoObserver;
    use smrkit::experiment::demand::GeneratedDemand;
    use smrkit::experiment::system::System;
    use smrkit::settings::Settings;
    use smrkit::workload::Workload;

    use super::*;

    #[test]
    fn disks_did_the_same_if_they_differ_in_times_alone() {
        let system = System::drive("tiny").layer("drive-managed");
        let run = system.run(Settings { movement: true, ..Settings::default() }).unwrap();
        let demand = GeneratedDemand::from(Workload::parse("random-write:count=50").unwrap());
        let one = run.execute(&demand, &run.opening().unwrap(), &mut NoObserver).unwrap();
        let times = |outcome: &mut Outcome| (outcome.busy_ns, outcome.cleaning.ns, outcome.elapsed_ns) = (1, 2, 3);
        let differences: [fn(&mut Outcome); 6] = [
            |outcome| outcome.movement = None,
            |outcome| outcome.physical_read_sectors.total += 1,
            |outcome| outcome.physical_written_sectors.total += 1,
            |outcome| outcome.commands.physical_write += 1,
            |outcome| outcome.cleaning.sectors += 1,
            |outcome| outcome.layer_stats = Default::default(),
        ];
        let is_alike = |change: &dyn Fn(&mut Outcome)| {
            let mut other = one.clone();
            change(&mut other);
            counted_alike(&one, &other)
        };
        assert!(is_alike(&times));
        assert_eq!(differences.map(|change| is_alike(&change)), [false; 6]);
    }
}
