//! The effect against the length of runs: what interleaving loses is sequentiality.

use smrkit::interleave::SourcePlacement;

use super::figures;
use super::measured::{Key, Measure, MeasuredSet, keys};
use super::sets::Set;
use super::setup::{ArrayPlan, Configuration, UpdateScheme};
use crate::{Item, Scale, Shown};
use smrkit_report::Grid;
use smrkit_report::format::short;

/// Mean lengths of runs, in blocks; each is uniform between a quarter and seven quarters of it.
const LENGTHS: [u64; 6] = [4, 8, 16, 32, 64, 128];
/// Operations of each source, and for `--quick`.
const COUNT: (u64, u64) = (200_000, 20_000);

const HEADING: &str = "What interleaving costs, by the length of runs";

pub fn item(scale: &Scale) -> Item {
    let mut plans = Vec::new();
    for length in LENGTHS {
        let set = Set::runs(length / 4, length / 4 * 7, scale.pick(COUNT.0, COUNT.1));
        for configuration in [Configuration::Pure, Configuration::Striped(1)] {
            let (set, placement) = (set.clone(), SourcePlacement::EndToEnd);
            plans.push(ArrayPlan { scheme: UpdateScheme::Log, configuration, set, placement, seed: scale.seed });
        }
    }
    let keys = keys(&plans);
    Item::of_runs_made(HEADING, plans, move |outcomes| {
        let pairs: Vec<MeasuredSet> =
            keys.chunks(2).zip(outcomes.chunks(2)).map(|(k, o): (&[Key], _)| MeasuredSet::new(k, o)).collect();
        vec![(HEADING, shown(&pairs))]
    })
}

fn shown(pairs: &[MeasuredSet]) -> Shown {
    let times = |measure| {
        let of = |pair: &MeasuredSet| pair.times_pure(UpdateScheme::Log, measure, Configuration::Striped(1)).mean;
        LENGTHS.iter().map(|&length| length as f64).zip(pairs.iter().map(of)).collect::<Vec<_>>()
    };
    let [distance, count, time] = [Measure::Distance, Measure::Count, Measure::Time].map(times);
    let mut table = Grid::new(["mean length of runs (blocks)", "track distance (× pure)", "track count", "time"]);
    for (i, length) in LENGTHS.iter().enumerate() {
        let cells = [distance[i].1, count[i].1, time[i].1].map(short);
        table.rows.push([length.to_string()].into_iter().chain(cells).collect());
    }
    let text = texts![
        "The set `runs` on a log at bursts of 1, with runs of other lengths. What is lost when operations are finely merged is \
         sequentiality, so that the paper's \"up to forty times\" is as much a number of its traces as of shingling.",
    ];
    Shown { text, table: Some(table), rows: Vec::new(), figure: Some(figures::lengths(distance, count)) }
}
