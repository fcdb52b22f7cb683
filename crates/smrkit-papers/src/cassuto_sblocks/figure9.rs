//! Figure 9's test on S-blocks: the rate of a sequential read against the cache's fill.

use smrkit::drive::Drive;

use super::super::filled_reads::{AS_PLAIN_PERCENT, FilledReads, LONG_SECTORS, percents, reads, span_bytes};
use crate::{Item, Plan, Row, Scale, Shown};

/// Random 4 KB writes that fill the cache buffer: 6,000,000 sectors.
const WRITES: u64 = 750_000;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let (percents, span, read) = (percents(scale), span_bytes(scale), reads(scale));
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
        let curves = FilledReads::from_outcomes(&percents, outcomes);
        Shown {
            text: vec![format!(
                "Reads of 512 KiB in order over the first {} GB of cassuto-random, s-block with 1 section; its cache buffer \
                 filled before by random 4 KB writes, or by writes of 512 KiB in order.",
                span / 1_000_000_000
            )],
            rows: rows(&curves),
            figure: Some(curves.figure(
                "cassuto-sblocks-figure-9",
                "Figure 9's test on S-blocks: sequential read against the cache's fill",
                "Cache buffer",
                "Ours. The paper shows this for the set-associative cache, and says that S-blocks degrade reads as well.",
            )), ..Shown::default() }
    })
}

fn rows(curves: &FilledReads) -> Vec<Row> {
    let (empty, _) = curves.loss(0);
    vec![
        curves.falls("some degradation, as in figure 9", true),
        curves.stays(),
        Row::holds("loss with an empty cache buffer", "none named", empty, "%", empty <= AS_PLAIN_PERCENT).because(
            format!("within {AS_PLAIN_PERCENT} % (assumption): S-blocks in order are read through their headers"),
        ),
    ]
}
