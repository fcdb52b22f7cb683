//! Skewed demands: what the policies make of writes of which most fall into a small share of the disk.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::course::{RunSeries, listed, longest_ms, random_writes, seconds};
use crate::{Item, Plan, Row, Scale, Shown};

/// Of ten writes nine fall into a tenth of the disk, or into a fiftieth.
const HOT_PERCENT: [u64; 2] = [10, 2];
const POLICIES: [&str; 3] = ["closest-to-tail", "largest", "weighted"];
const END_S: u64 = 1600;
const LAST_S: usize = 200;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let mut plans = vec![random_writes(drive, scale.seed).until(seconds(END_S), seconds(1))];
    for hot in HOT_PERCENT {
        let workload = format!("hot-cold:write_share=1,hot_share={hot}%,hot_access_share=90%,count=100M");
        plans.extend(POLICIES.map(|policy| {
            let plan = Plan::workload(drive, "s-block", workload.as_str(), scale.seed).set("policy", policy);
            plan.until(seconds(END_S), seconds(1))
        }));
    }
    Item::new("Skewed writes", plans, |outcomes| Shown {
        text: vec![format!(
            "Writes of 4 KB on cassuto-random for {END_S} s, nine in ten to {} % of the disk. The paper has uniform ones alone.",
            HOT_PERCENT.map(|hot| hot.to_string()).join(" or ")
        )],
        rows: rows(outcomes),
        ..Shown::default()
    })
}

fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let last = |run: &Outcome| RunSeries::from_outcome(run, END_S).last(LAST_S);
    let (uniform, skewed) = outcomes.split_at(1);
    let by_hot = HOT_PERCENT.iter().zip(skewed.chunks_exact(POLICIES.len()));
    by_hot
        .map(|(hot, runs)| {
            let [rates, longest] = [last, longest_ms].map(|of| listed(&runs.iter().map(of).collect::<Vec<f64>>()));
            let reason = format!(
                "closest-to-tail on uniform writes: {:.0}; the longest writes take {longest} ms",
                last(&uniform[0])
            );
            Row::not_comparable(
                format!("{hot} % hot, {}: IOPS in the last {LAST_S} s", POLICIES.join(", ")),
                rates,
                "IOPS",
            )
            .because(reason)
        })
        .collect()
}
