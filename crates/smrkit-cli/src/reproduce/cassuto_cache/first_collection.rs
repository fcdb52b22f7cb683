//! When random 4 KB writes first fill a cache region. On average all are full after 750,000 writes; the fullest earlier.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::super::lab::Plan;
use super::super::row::{Row, Spread};
use super::super::{Item, Scale, Shown};
use super::stat;
use crate::report::format::count;

/// Writes of 8 sectors that fill the cache: 6,000,000 sectors.
const WRITES: f64 = 750_000.0;
/// The paper's moment of it.
const PAPER_S: f64 = 780.0;

/// Regions' sectors, caches, and how much earlier than 750,000 the fullest may be full, in percent.
const CASES: [(u64, u64, f64, f64); 2] = [(50_000, 120, 5.0, 0.0), (10_000, 600, 12.0, 5.0)];

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let of_region = |region: u64| {
        scale.seeds(5, 1).map(move |seed| {
            Plan::workload(drive, "set-assoc", "random-write:count=750k", seed).set("region_sectors", region)
        })
    };
    let plans = CASES.into_iter().flat_map(|(region, ..)| of_region(region)).collect();
    Item::new("Random writes: the first collection", plans, |outcomes| Shown {
        text: vec!["random-write of 4 KB on cassuto-random, set-assoc with 1 % cache.".into()],
        rows: rows(outcomes),
        figure: None,
    })
}

fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((region, caches, most, least), runs) in CASES.iter().zip(outcomes.chunks_exact(outcomes.len() / CASES.len())) {
        let writes = Spread::of(runs.iter().map(|run| stat(run, "first_cleaning_request")));
        let off = 100.0 * (writes.mean / WRITES - 1.0);
        let measure = match *least {
            0.0 => format!("{off:+.1} %, at most {most} % earlier"),
            least => format!("{off:+.1} %, from {least} to {most} % earlier"),
        };
        let reason = format!("{measure}: the fullest of {caches} is full first ({})", writes.range);
        let holds = (-most..=-least).contains(&off);
        let item = format!("writes before it, regions of {}", count(*region));
        rows.push(Row::holds(item, WRITES as u64, writes.mean, "writes", holds, reason));
        let full = |run: &Outcome| run.verdict.cache_full_at_s.unwrap_or(f64::NAN);
        let moment = Spread::of(runs.iter().map(full));
        if *region == 50_000 {
            let why = format!("the paper's is the average cache region's ({})", moment.range);
            rows.push(Row::near("moment of it", PAPER_S.into(), moment.mean, "s", 5.0, &why));
            let rate = writes.mean / moment.mean;
            let why = "750,000 writes in 780 s, from which cassuto-random's cost of a command was derived";
            rows.push(Row::near("IOPS until then", (WRITES / PAPER_S).round().into(), rate, "IOPS", 1.0, why));
        }
    }
    rows
}
