//! Cassuto et al., "Indirection Systems for Shingled-Recording Disk Drives", MSST 2010, section IV: the set-associative
//! disk cache. Its figures were at hand as text, without the values on their axes, so that shapes are compared there.

mod accounting;
mod figure5;
mod figure9;
mod figures6to8;
mod first_collection;
mod rewrite;
mod table1;

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::layer::Scalar;
use smrkit::stats::outcome::Outcome;

use super::{Item, Reproduction, Scale};

pub const REPRODUCTION: Reproduction = Reproduction {
    name: "cassuto-cache",
    paper: "Cassuto et al. 2010, section IV: the set-associative disk cache",
    summary: "Table I's accounting, the read-modify-write claim, and figures 5 to 9.",
    items,
    open: &[
        "No pair of costs (a command, a sector) fits every figure: Table I needs 7.46 µs a sector, figure 8 at most 4.9. \
         cassuto-table1 and cassuto-random are the two drives; nothing else differs between them.",
        "\"1000 or less consecutive blocks\" (III.B) would round n / 1000 up; Table I forces floor(n / 1000) + 1.",
        "The slowdown is printed as 3.48; the table's own times give 3.486.",
        "Table I's block writes are 2,169 sectors fewer than the host's and 2,058 whole regions; no reason is given.",
        "Its 75,615 writes fill the cache only half, yet it was collected 21 times: the trace must prefer some cache \
         regions. The trace is not public, so which is not known.",
        "Figures 5 to 9 name no values but 780 s, \"under 50 IOPS\" and 0. The write share of figure 5's workload, and \
         span and request size of figure 9's reads, are not given: they are assumptions here.",
        "Filling the average cache region takes 780 s, the fullest of 120 is full 3 % earlier: either the paper's first \
         drop comes before 780 s, or its commands cost 3 % more than cassuto-random's.",
        "\"3-4 orders of magnitude\" for read-modify-write holds in sectors, not in time, nor by the paper's own \
         definition 4.",
        "A guard of 5 sectors after each region leaves room for 11,999 regions, not 12,000.",
    ],
};

fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let table1 = Drive::load("cassuto-table1")?;
    let random = Drive::load("cassuto-random")?;
    Ok(vec![
        accounting::item(&table1)?,
        table1::item(scale, &table1),
        rewrite::item(scale, &table1),
        figure5::item(scale, &table1),
        first_collection::item(scale, &random),
        figures6to8::item(scale, &table1, &random)?,
        figure9::item(scale, &table1),
    ])
}

/// A counter of the layer's own.
fn stat(outcome: &Outcome, key: &str) -> f64 {
    match outcome.layer_stats.get(key) {
        Some(Scalar::Int(value)) => *value as f64,
        _ => f64::NAN,
    }
}

fn seconds(outcome: &Outcome) -> f64 {
    outcome.elapsed_ns as f64 / 1e9
}
