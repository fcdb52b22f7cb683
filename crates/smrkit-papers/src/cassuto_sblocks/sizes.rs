//! The size of S-blocks: a small one is said to allow more flexibility and potentially better performance, for more memory.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::course::{RunSeries, listed, longest_ms, random_writes, seconds};
use crate::{Item, Row, Scale, Shown};

/// Sectors of an S-block, about the paper's "order of 1000".
const SECTORS: [u64; 4] = [500, 1000, 2000, 4000];
const END_S: u64 = 1200;
const LAST_S: usize = 200;

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let plan = |&sectors: &u64| {
        random_writes(drive, scale.seed).set("sblock_sectors", sectors).until(seconds(END_S), seconds(1))
    };
    Item::new("The size of S-blocks", SECTORS.iter().map(plan).collect(), |outcomes| Shown {
        text: vec![format!(
            "random-write of 4 KB on cassuto-random for {END_S} s, S-blocks of {} sectors.",
            listed(&SECTORS.map(|sectors| sectors as f64))
        )],
        rows: rows(outcomes),
        ..Shown::default()
    })
}

fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let last: Vec<f64> = outcomes.iter().map(|run| RunSeries::from_outcome(run, END_S).last(LAST_S)).collect();
    let memory: Vec<f64> = outcomes.iter().map(|run| run.map_bytes as f64 / 1e6).collect();
    let longest: Vec<f64> = outcomes.iter().map(longest_ms).collect();
    let falling = |values: &[f64]| values.windows(2).all(|pair| pair[1] < pair[0]);
    let rate = format!("IOPS in the last {LAST_S} s");
    vec![
        Row::holds(rate, "potentially better with small ones", listed(&last), "IOPS", falling(&last)).because(
            "each larger size must be slower; a larger S-block takes more cached sectors home with one read and one write",
        ),
        Row::holds("memory of the maps", "more with small ones", listed(&memory), "MB", falling(&memory))
            .because("each larger size must take less"),
        Row::not_comparable("longest write", listed(&longest), "ms").because("not given"),
    ]
}
