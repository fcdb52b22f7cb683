//! Figure 9: the rate of a sequential read against the cache's fill, by random writes or by writes in order.

use std::path::PathBuf;

use std::sync::Arc;

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::request::{Request, Source};
use smrkit::workload::Workload;

use super::super::filled_reads::{FilledReads, LONG_SECTORS, percents, reads, span_bytes};
use super::accounting::REGION;
use crate::{Item, Maker, Plan, Requests, Row, Scale, Shown, number};

/// Cache regions of 1 % of this drive.
const CACHES: u64 = 120;
/// Sectors of a random write: 4 KB.
const WRITE_SECTORS: u64 = 8;
/// Slowdown of reads at the lowest fill but 0 that counts for "even for fairly low percentage", in percent (assumption).
const LOW_FILL_PERCENT: f64 = 2.0;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let (percents, span, read) = (percents(scale), span_bytes(scale), reads(scale));
    let mut plans = vec![Plan::workload(drive, "in-place", &read, scale.seed)];
    for &percent in &percents {
        plans.push(filled_at_random(drive, percent, &read, scale.seed));
        plans.push(filled_in_order(drive, percent, &read, scale.seed));
    }
    Item::new("Figure 9: sequential reads", plans, move |outcomes| {
        let curves = FilledReads::from_outcomes(&percents, outcomes);
        let collections: f64 = outcomes[1..].iter().map(|run| number(run.layer_stats.collections())).sum();
        Shown {
            text: vec![format!(
                "Reads of 512 KiB in order over the first {} GB of cassuto-table1, set-assoc with 1 % cache and regions of \
                 50,000 sectors; each cache region filled before to the same share, by random 4 KB writes or by writes of \
                 512 KiB in order.",
                span / 1_000_000_000
            )],
            rows: rows(&curves, collections),
            figure: Some(curves.figure(
                "cassuto-cache-figure-9",
                "Figure 9: sequential read against the cache's fill",
                "Cache",
                "Ours. The paper's text names no values: random fill lowers the rate, fill in order does not.",
            )),
            ..Shown::default()
        }
    })
}

fn filled_at_random(drive: &Drive, percent: u64, read: &str, seed: u64) -> Plan {
    let room_sectors = REGION * percent / 100 / WRITE_SECTORS * WRITE_SECTORS;
    let read = read.to_string();
    let make = move |host_sectors: u64, seed: u64| -> Result<Box<dyn Source>, Error> {
        let writes = Workload::parse("random-write:count=1G")?.source(host_sectors, seed)?;
        let reads = Workload::parse(&read)?.source(host_sectors, seed)?;
        Ok(Box::new(FillThenRead { writes, reads, room: vec![room_sectors; CACHES as usize] }))
    };
    let warmup = CACHES * room_sectors / WRITE_SECTORS;
    Plan::new(drive, "set-assoc", Requests::Demand(Arc::new(Maker(make))), seed)
        .set("region_sectors", REGION)
        .warmup(warmup)
}

fn filled_in_order(drive: &Drive, percent: u64, read: &str, seed: u64) -> Plan {
    let writes = CACHES * REGION * percent / 100 / LONG_SECTORS;
    let workload = match writes {
        0 => read.to_string(),
        writes => format!("sequential-write:size=512Ki,count={writes};{read}"),
    };
    Plan::workload(drive, "set-assoc", workload, seed).set("region_sectors", REGION).warmup(writes)
}

/// Random writes, without those for a cache region that has taken its share, and then the reads.
struct FillThenRead {
    writes: Box<dyn Source>,
    reads: Box<dyn Source>,
    /// Sectors that each cache region has yet to take.
    room: Vec<u64>,
}

impl Source for FillThenRead {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        while batch.is_empty() && self.room.iter().any(|&room| room > 0) {
            self.writes.fill(batch)?;
            // Native region i is cached in region i mod M (the paper's section IV.A).
            batch.retain(|request| {
                let room = &mut self.room[(request.lba.0 / REGION % CACHES) as usize];
                let fits = *room >= u64::from(request.sectors);
                *room -= if fits { u64::from(request.sectors) } else { 0 };
                fits
            });
        }
        if batch.is_empty() { self.reads.fill(batch) } else { Ok(()) }
    }

    fn name(&self) -> PathBuf {
        self.reads.name()
    }
}

fn rows(curves: &FilledReads, collections: f64) -> Vec<Row> {
    let ((low, least), (full, _)) = (curves.loss(1), curves.loss(curves.fills() - 1));
    vec![
        curves.falls("falls", collections == 0.0),
        Row::holds(
            format!("loss at {least} %, the lowest fill run, at random"),
            "suffers even at low fill",
            low,
            "%",
            low > LOW_FILL_PERCENT,
        )
        .because(format!("over {LOW_FILL_PERCENT} % (assumption: the paper names no value)")),
        Row::not_comparable("loss with a full cache, at random", full, "%").because(
            "two more commands for each cached 4 KB; how much that is depends on the request size, which is not given",
        ),
        curves.stays(),
    ]
}
