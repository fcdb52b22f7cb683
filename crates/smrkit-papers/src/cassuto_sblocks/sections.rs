//! Sections isolate: when one is full, the others are not. And whole S-blocks that bypass the cache buffer.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;
use smrkit::units::SECTOR_BYTES;

use crate::{Item, Plan, Row, Scale, Shown};

/// Writes inside the first of 100 sections; 7,500 fill its cache buffer.
const INSIDE: &str = "random-write:span=2900M,count=12k";
const INSIDE_COUNT: u64 = 12_000;
/// Writes that are counted, in the first section or in others.
const THERE: &str = "random-write:span=2900M,count=3k";
const ELSEWHERE: &str = "random-write:start=10G,span=280G,count=3k";
/// Distance from the full rate that the others may have, in percent (assumption).
const FULL_PERCENT: f64 = 1.0;
/// S-blocks written in order, and their size.
const SBLOCKS: &str = "sequential-write:size=1024000,count=2k";
/// Distance from the plain drive's rate that S-blocks in order may have, in percent (assumption: their headers cost 0.05 %).
const BYPASS_PERCENT: f64 = 1.0;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let run = |sections: u64, workload: String, warmup: u64| {
        Plan::workload(drive, "s-block", workload, scale.seed).set("sections", sections).warmup(warmup)
    };
    let plans = vec![
        run(100, ELSEWHERE.into(), 0),
        run(100, format!("{INSIDE};{ELSEWHERE}"), INSIDE_COUNT),
        run(100, format!("{INSIDE};{THERE}"), INSIDE_COUNT),
        Plan::workload(drive, "in-place", SBLOCKS, scale.seed),
        Plan::workload(drive, "s-block", SBLOCKS, scale.seed),
        Plan::workload(drive, "s-block", SBLOCKS, scale.seed).set("bypass", "off"),
    ];
    Item::new("Sections, and writes of whole S-blocks", plans, |outcomes| Shown {
        text: vec![
            format!(
                "100 sections on cassuto-random: {INSIDE} stay in the first one and fill it; then 3,000 writes to others, or to it."
            ),
            format!("1 section: {SBLOCKS}, each a whole S-block of 2,000 sectors."),
        ],
        rows: rows(outcomes),
        ..Shown::default()
    })
}

fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let iops = |run: &Outcome| run.requests as f64 / (run.elapsed_ns as f64 / 1e9);
    let rate = |run: &Outcome| (run.host_written_sectors * SECTOR_BYTES) as f64 / 1e6 / (run.elapsed_ns as f64 / 1e9);
    let [fresh, others, inside] = [0, 1, 2].map(|i| iops(&outcomes[i]));
    let [plain, bypass, cached] = [3, 4, 5].map(|i| rate(&outcomes[i]));
    let off = 100.0 * (others / fresh - 1.0);
    let below = 100.0 * (1.0 - bypass / plain);
    let elsewhere = "other sections while one is full";
    vec![
        Row::holds(elsewhere, "the drop is bounded to the section", others, "IOPS", off.abs() <= FULL_PERCENT)
            .because(format!("{off:+.2} % of {fresh:.0} on an empty drive, within {FULL_PERCENT} % (assumption)")),
        Row::holds("the full section itself", "slow", inside, "IOPS", inside < 0.5 * fresh)
            .because("under half of the full rate (assumption)"),
        Row::holds("whole S-blocks in order", "bypass the cache buffer", bypass, "MB/s", below <= BYPASS_PERCENT)
            .because(format!(
                "{below:.2} % below the plain drive's {plain:.1}, at most {BYPASS_PERCENT} % (assumption); into an \
                 empty cache buffer {cached:.1}"
            )),
    ]
}
