//! Number of random 4 KB writes until the first cache region is full. The average region is full after 750,000.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use crate::{Item, Plan, Row, Scale, SeedSpread, Shown, number};
use smrkit_report::format::count;

/// The cache: 1 % of 6·10⁸ sectors (the paper's section IV.C).
pub const CACHE_SECTORS: u64 = 6_000_000;
/// Writes of 8 sectors that fill it, derived: the paper does not count them.
const WRITES: f64 = CACHE_SECTORS as f64 / 8.0;
/// Time for which the paper's throughput stays "very high".
pub const PAPER_S: f64 = 780.0;
/// The rate until then, derived: the paper gives no number.
pub const PAPER_IOPS: f64 = WRITES / PAPER_S;
/// Description of [`PAPER_IOPS`], wherever it is shown.
pub const DERIVED: &str = "derived from 780 s and the cache's size";
/// Distance from 780 s that still agrees, in percent (assumption: as much earlier as the fullest may be).
const MOMENT_PERCENT: f64 = 5.0;
/// Distance from the rate that still agrees, in percent (assumption: the drive's command_ms has four digits).
const RATE_PERCENT: f64 = 1.0;

/// Why the rows in seconds say little.
const FROM_IT: &str = "cassuto-random's cost of a command was derived from 780 s";

/// Regions' sectors, caches, and how much earlier than 750,000 the fullest may be full, in percent.
///
/// Assumption, from the largest of M Poisson numbers of mean K, which is at most about K + sqrt(2 K ln M): with K writes
/// to a region 6,250 and 1,250, that is 3.9 % and 10.1 % earlier, less by a little; the bounds leave room.
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
        ..Shown::default()
    })
}

fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((region, caches, most, least), runs) in CASES.iter().zip(outcomes.chunks_exact(outcomes.len() / CASES.len())) {
        let writes = SeedSpread::from_values(runs.iter().map(|run| number(run.layer_stats.first_cleaning())));
        let off = 100.0 * (writes.mean / WRITES - 1.0);
        let measure = match *least {
            0.0 => format!("{off:+.1} %, at most {most} % earlier"),
            least => format!("{off:+.1} %, from {least} to {most} % earlier"),
        };
        let reason = format!(
            "{measure} (assumption): the fullest of {caches} is full first ({}); by the cache's size",
            writes.range
        );
        let holds = (-most..=-least).contains(&off);
        let item = format!("writes before it, regions of {}", count(*region));
        rows.push(Row::holds(item, WRITES as u64, writes.mean, "writes", holds).because(reason).derived());
        let full = |run: &Outcome| run.verdict.cache_full_at_s.unwrap_or(f64::NAN);
        let moment = SeedSpread::from_values(runs.iter().map(full));
        if *region == 50_000 {
            let why = format!("{FROM_IT}; the fullest is full before the average cache region ({})", moment.range);
            rows.push(
                Row::near("moment of it", PAPER_S, moment.mean, "s", MOMENT_PERCENT).because(why).by_construction(),
            );
            let rate = writes.mean / moment.mean;
            let why = format!("the paper's is {DERIVED}; {FROM_IT}");
            let iops = Row::near("IOPS until then", PAPER_IOPS, rate, "IOPS", RATE_PERCENT).because(why);
            rows.push(iops.by_construction());
        }
    }
    rows
}
