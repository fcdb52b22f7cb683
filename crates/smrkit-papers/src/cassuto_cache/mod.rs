//! Cassuto et al., "Indirection Systems for Shingled-Recording Disk Drives", MSST 2010, section IV: the set-associative
//! disk cache. Its figures were at hand as text, without the values on their axes, so that shapes are compared there.

mod accounting;
mod common;
mod figure5;
mod figure9;
mod figures6to8;
mod first_collection;
mod rewrite;
mod table1;

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::geometry::Regions;

use crate::{Item, Reproduction, Scale};
use accounting::{CACHED, PLAIN, REGION, REWRITES};
use common::constant;
use smrkit_report::format::count;

pub const REPRODUCTION: Reproduction = Reproduction {
    name: "cassuto-cache",
    paper: "Cassuto et al. 2010, section IV: the set-associative disk cache",
    summary: "Table I's accounting, the read-modify-write claim, and figures 5 to 9.",
    before: "Disks are empty before, those of the read-modify-write claim filled in order.",
    items,
    open,
};

/// Questions that the paper leaves open or contradicts.
fn open() -> Result<Vec<String>, Error> {
    let table1 = Drive::load("cassuto-table1")?;
    let sector_us = constant(&table1)?.sector_us();
    let regions = Regions::new(&table1.geometry, table1.interference.guard(&table1.geometry), REGION)?;
    let guard = regions.start(1).0 - regions.start(0).0 - REGION;
    let unexplained = PLAIN.writes[1] + REWRITES * REGION - CACHED.writes[1];
    Ok(texts![
        format!(
            "No pair of costs (a command, a sector) fits every figure: Table I needs {sector_us:.2} µs a sector, figure 8 at \
             most {}. cassuto-table1 and cassuto-random are the two drives; nothing else differs between them.",
            figures6to8::FAST_US
        ),
        "\"1000 or less consecutive blocks\" (III.B) would round n / 1000 up; Table I forces floor(n / 1000) + 1.",
        format!("The slowdown is printed as 3.48; the table's own times give {:.3}.", CACHED.seconds / PLAIN.seconds),
        format!(
            "Table I's block writes are {} sectors fewer than the host's and {} whole regions; no reason is given.",
            count(unexplained),
            count(REWRITES)
        ),
        format!(
            "Its {} writes fill {:.0} % of the cache, yet it was collected {} times: the trace must prefer some cache \
             regions. The trace is not public, so which is not known.",
            count(PLAIN.writes[0]),
            100.0 * PLAIN.writes[1] as f64 / first_collection::CACHE_SECTORS as f64,
            accounting::COLLECTIONS
        ),
        "Figures 5 to 9 name no values but 780 s, \"under 50 IOPS\" and 0. The write share of figure 5's workload, and \
         span and request size of figure 9's reads, are not given: they are assumptions here.",
        "If 780 s is when the average cache region is full, the first drop comes earlier, for the fullest is full before \
         (by how much: \"the first collection\" above); if it is when the fullest is, the paper's commands cost as much \
         more than cassuto-random's.",
        "\"3-4 orders of magnitude\" for read-modify-write: the rows above tell in what it holds; the paper does not say \
         what was measured.",
        format!(
            "Guards of {guard} sectors between regions leave room for {}, not {}.",
            count(regions.count()),
            count(table1.geometry.sectors() / REGION)
        ),
    ])
}

fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let table1 = Drive::load("cassuto-table1")?;
    let random = Drive::load("cassuto-random")?;
    Ok(vec![
        accounting::item(&table1)?,
        table1::item(scale, &table1),
        rewrite::item(scale, &table1)?,
        figure5::item(scale, &table1),
        first_collection::item(scale, &random),
        figures6to8::item(scale, &table1, &random)?,
        figure9::item(scale, &table1),
    ])
}
