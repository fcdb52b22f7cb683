//! Figure 9: the rate of a sequential read against the cache's fill, by random writes or by writes in order.

use std::path::PathBuf;

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::request::{Request, Source};
use smrkit::stats::outcome::Outcome;
use smrkit::units::SECTOR_BYTES;
use smrkit::workload::Workload;

use super::super::lab::{Plan, Requests};
use super::super::row::Row;
use super::super::{Item, Scale, Shown};
use super::accounting::REGION;
use crate::report::figure::{Axis, Body, Figure, Panel, Series, Style};

/// Cache regions of 1 % of this drive.
const CACHES: u64 = 120;
/// Sectors of a random write: 4 KB.
const WRITE_SECTORS: u64 = 8;
/// Sectors of a sequential read or write: 512 KiB (assumption: the paper gives none).
const LONG_SECTORS: u64 = 1024;
/// Bytes read, from the first LBA on: nearly the whole drive, and a tenth of that for `--quick`.
const SPAN_BYTES: (u64, u64) = (300_000_000_000, 30_000_000_000);
/// How near to the plain drive's rate the reads after writes in order must stay, in percent (assumption).
const IN_ORDER_PERCENT: f64 = 2.0;
/// How much slower the lowest fill but 0 must make reads, for "even for fairly low percentage", in percent (assumption).
const LOW_FILL_PERCENT: f64 = 2.0;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let percents: Vec<u64> = scale.pick((0..=100).step_by(20).collect(), vec![0, 20, 100]);
    let span = scale.pick(SPAN_BYTES.0, SPAN_BYTES.1);
    let read = format!("sequential-read:size=512Ki,bytes={span}");
    let mut plans = vec![Plan::workload(drive, "in-place", &read, scale.seed)];
    for &percent in &percents {
        plans.push(filled_at_random(drive, percent, &read, scale.seed));
        plans.push(filled_in_order(drive, percent, &read, scale.seed));
    }
    Item::new("Figure 9: sequential reads", plans, move |outcomes| {
        let curves = Curves::of(&percents, outcomes);
        Shown {
            text: vec![format!(
                "Reads of 512 KiB in order over the first {} GB of cassuto-table1, set-assoc with 1 % cache and regions of \
                 50,000 sectors; each cache region filled before to the same share, by random 4 KB writes or by writes of \
                 512 KiB in order.",
                span / 1_000_000_000
            )],
            rows: rows(&curves),
            figure: Some(figure(&curves)),
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
    Plan::new(drive, "set-assoc", Requests::Made(Box::new(make)), seed).set("region_sectors", REGION).warmup(warmup)
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

/// Rates in MB/s.
struct Curves {
    plain: f64,
    percents: Vec<f64>,
    at_random: Vec<f64>,
    in_order: Vec<f64>,
    collections: f64,
}

impl Curves {
    fn of(percents: &[u64], outcomes: &[Outcome]) -> Curves {
        let rate = |run: &Outcome| (run.host_read_sectors * SECTOR_BYTES) as f64 * 1e3 / run.elapsed_ns as f64;
        Curves {
            plain: rate(&outcomes[0]),
            percents: percents.iter().map(|&percent| percent as f64).collect(),
            at_random: outcomes[1..].iter().step_by(2).map(rate).collect(),
            in_order: outcomes[1..].iter().skip(1).step_by(2).map(rate).collect(),
            collections: outcomes[1..].iter().map(|run| super::stat(run, "collections")).sum(),
        }
    }
}

fn rows(curves: &Curves) -> Vec<Row> {
    let listed = |values: &[f64]| values.iter().map(|rate| format!("{rate:.1}")).collect::<Vec<_>>().join(" ");
    let below = |rate: f64| 100.0 * (1.0 - rate / curves.plain);
    let falls = curves.at_random.windows(2).all(|pair| pair[1] < pair[0]);
    let low = below(curves.at_random[1]);
    let full = below(curves.at_random[curves.at_random.len() - 1]);
    let worst = curves.in_order.iter().map(|&rate| below(rate)).fold(f64::MIN, f64::max);
    let fills: Vec<String> = curves.percents.iter().map(|percent| percent.to_string()).collect();
    vec![
        Row::holds(
            format!("rate at fills of {} %, at random", fills.join(", ")),
            "falls",
            listed(&curves.at_random),
            "MB/s",
            falls && curves.collections == 0.0,
            format!("every step must fall; the plain drive reads {:.1}", curves.plain),
        ),
        Row::holds(
            format!("loss at {} %, the lowest fill run, at random", fills[1]),
            "suffers even at low fill",
            low,
            "%",
            low > LOW_FILL_PERCENT,
            format!("over {LOW_FILL_PERCENT} % (assumption: the paper names no value)"),
        ),
        Row::not_comparable(
            "loss with a full cache, at random",
            full,
            "%",
            "two more commands for each cached 4 KB; how much that is depends on the request size, which is not given",
        ),
        Row::holds(
            format!("rate at fills of {} %, in order", fills.join(", ")),
            "as the plain drive",
            listed(&curves.in_order),
            "MB/s",
            worst <= IN_ORDER_PERCENT,
            format!(
                "within {IN_ORDER_PERCENT} % (assumption) of the plain drive at every fill; at worst {worst:.2} % below"
            ),
        ),
    ]
}

fn figure(curves: &Curves) -> Figure {
    let points = |values: &[f64]| curves.percents.iter().copied().zip(values.iter().copied()).collect();
    let panel = Panel {
        title: None,
        x: Axis::linear("Cache filled before (%)"),
        y: Axis::linear("Sequential read (MB/s)"),
        guides: vec![(curves.plain, "plain drive".into())],
        body: Body::Lines(vec![
            Series::nth(0, "filled at random", Style::Marked, points(&curves.at_random)),
            Series::nth(2, "filled in order", Style::Marked, points(&curves.in_order)),
        ]),
    };
    Figure {
        name: "cassuto-cache-figure-9".into(),
        title: "Figure 9: sequential read against the cache's fill".into(),
        note: "Ours. The paper's text names no values: random fill lowers the rate, fill in order does not.".into(),
        panels: vec![panel],
    }
}
