//! Figure 9's test on S-blocks: the rate of a sequential read against the cache's fill.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;
use smrkit::units::SECTOR_BYTES;

use super::super::lab::Plan;
use super::super::row::Row;
use super::super::{Item, Scale, Shown};
use crate::report::figure::{Axis, Body, Figure, Panel, Series, Style};

/// Random 4 KB writes that fill the cache buffer: 6,000,000 sectors.
const WRITES: u64 = 750_000;
/// Bytes read, from the first LBA on: nearly the whole drive, and a tenth of that for `--quick`.
const SPAN_BYTES: (u64, u64) = (300_000_000_000, 30_000_000_000);
/// Sectors of a write in order: 512 KiB, less than an S-block, so that it goes to the cache buffer (assumption).
const LONG_SECTORS: u64 = 1024;
/// How near to the plain drive's rate reads must stay, in percent (assumption).
const AS_PLAIN_PERCENT: f64 = 2.0;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let percents: Vec<u64> = scale.pick((0..=100).step_by(20).collect(), vec![0, 20, 100]);
    let span = scale.pick(SPAN_BYTES.0, SPAN_BYTES.1);
    let read = format!("sequential-read:size=512Ki,bytes={span}");
    let after = |workload: &str, writes: u64| {
        let all = if writes > 0 { format!("{workload},count={writes};{read}") } else { read.clone() };
        Plan::workload(drive, "s-block", all, scale.seed).warmup(writes)
    };
    let mut plans = vec![Plan::workload(drive, "in-place", &read, scale.seed)];
    for &percent in &percents {
        plans.push(after("random-write:size=4Ki", WRITES * percent / 100));
        plans.push(after("sequential-write:size=512Ki", WRITES * 8 / LONG_SECTORS * percent / 100));
    }
    Item::new("Figure 9's test: sequential reads", plans, move |outcomes| {
        let rate = |run: &Outcome| (run.host_read_sectors * SECTOR_BYTES) as f64 / 1e6 / (run.elapsed_ns as f64 / 1e9);
        let plain = rate(&outcomes[0]);
        let every = |first: usize| -> Vec<f64> { outcomes[1..].iter().skip(first).step_by(2).map(rate).collect() };
        let (at_random, in_order) = (every(0), every(1));
        Shown {
            text: vec![format!(
                "Reads of 512 KiB in order over the first {} GB of cassuto-random, s-block with 1 section; its cache buffer \
                 filled before by random 4 KB writes, or by writes of 512 KiB in order.",
                span / 1_000_000_000
            )],
            rows: rows(plain, &percents, &at_random, &in_order),
            figure: Some(figure(plain, &percents, &at_random, &in_order)),
        }
    })
}

fn rows(plain: f64, percents: &[u64], at_random: &[f64], in_order: &[f64]) -> Vec<Row> {
    let listed = |values: &[f64]| values.iter().map(|rate| format!("{rate:.1}")).collect::<Vec<_>>().join(" ");
    let below = |rate: &f64| 100.0 * (1.0 - rate / plain);
    let fills: Vec<String> = percents.iter().map(|percent| percent.to_string()).collect();
    let fills = fills.join(", ");
    let worst = in_order.iter().map(below).fold(f64::MIN, f64::max);
    let empty = below(&at_random[0]);
    vec![
        Row::holds(
            format!("rate at fills of {fills} %, at random"),
            "some degradation, as in figure 9",
            listed(at_random),
            "MB/s",
            at_random.windows(2).all(|pair| pair[1] < pair[0]),
            format!("every step must fall; the plain drive reads {plain:.1}"),
        ),
        Row::holds(
            format!("rate at fills of {fills} %, in order"),
            "as the plain drive",
            listed(in_order),
            "MB/s",
            worst <= AS_PLAIN_PERCENT,
            format!("figure 9's words; within {AS_PLAIN_PERCENT} % (assumption); at worst {worst:.2} % below"),
        ),
        Row::holds(
            "loss with an empty cache buffer",
            "none named",
            empty,
            "%",
            empty <= AS_PLAIN_PERCENT,
            format!("within {AS_PLAIN_PERCENT} % (assumption): S-blocks in order are read through their headers"),
        ),
    ]
}

fn figure(plain: f64, percents: &[u64], at_random: &[f64], in_order: &[f64]) -> Figure {
    let points = |values: &[f64]| percents.iter().map(|&percent| percent as f64).zip(values.iter().copied()).collect();
    let panel = Panel {
        title: None,
        x: Axis::linear("Cache buffer filled before (%)"),
        y: Axis::linear("Sequential read (MB/s)"),
        guides: vec![(plain, "plain drive".into())],
        body: Body::Lines(vec![
            Series::nth(0, "filled at random", Style::Marked, points(at_random)),
            Series::nth(2, "filled in order", Style::Marked, points(in_order)),
        ]),
    };
    Figure {
        name: "cassuto-sblocks-figure-9".into(),
        title: "Figure 9's test on S-blocks: sequential read against the cache's fill".into(),
        note: "Ours. The paper shows this for the set-associative cache, and says that S-blocks degrade reads as well."
            .into(),
        panels: vec![panel],
    }
}
