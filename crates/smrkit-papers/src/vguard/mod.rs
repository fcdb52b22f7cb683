//! Shafaei & Desnoyers, "Virtual Guard: A Track-Based Translation Layer for Shingled Disks", HotStorage 2017. Most of its
//! traces are not public; its figures were at hand as text, without the curves.

mod cache_use;
mod cdf;
mod common;
mod others;
mod paper;
mod random;
mod table1;
mod table2;
mod tracks;
mod traces;

use smrkit::drive::Drive;
use smrkit::error::Error;

use crate::{Item, Reproduction, Scale};
use common::DRIVE;

pub const REPRODUCTION: Reproduction = Reproduction {
    name: "vguard",
    paper: "Shafaei & Desnoyers 2017: Virtual Guard",
    summary: "Tables 1 to 3 and figures 2 to 6, for the traces at hand and for random writes.",
    before: "Disks are empty before; both layers take every track as in use.",
    items,
    open,
};

fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let drive = Drive::load(DRIVE)?;
    let traces = traces::at_hand(scale, &drive)?;
    Ok(vec![
        table1::item(scale, &drive)?,
        table2::item(scale, &drive, &traces),
        others::item(scale, &drive, &traces),
        cdf::msr(scale, &drive, &traces),
        cache_use::item(scale, &drive, &traces),
        tracks::table3(&traces)?,
        cdf::cloud_physics(scale, &drive, &traces),
        tracks::figure5(&traces)?,
        random::item(scale, &drive),
    ])
}

/// Questions that the paper leaves open or contradicts.
fn open() -> Result<Vec<String>, Error> {
    let above_15 = paper::TABLE2.iter().filter(|row| row.ratio(paper::P99_9) >= 15.0);
    let above_15: Vec<&str> = above_15.map(|row| row.trace).collect();
    Ok(texts![
        "\"The number of free tracks in the mapping table drops below α\" (2.3), read literally with α = 9,194 of 13,791 \
         tracks, would clean after some 4,600 copies; α = β, and a map of that many entries, speak for used entries above \
         α, which is taken here.",
        "Where the track after a written track is in the cache and a valid track follows there, figure 1(d) moves the \
         written track to the log's head; the text of 2.1 copies the track that follows. The figure is taken.",
        format!(
            "Equation (1) names no base for its logarithm: {:.0} KB with 2, {:.0} KB with e; the paper says about 30 KB.",
            table1::map_bytes(2.0) / 1e3,
            table1::map_bytes(std::f64::consts::E) / 1e3
        ),
        format!(
            "\"13.8K tracks (24 GB)\": {} tracks of 1.8 MB are {:.1} GB, and 24 GB {:.0} tracks; the tracks rule, of which \
             the thresholds are two thirds.",
            paper::CACHE_TRACKS,
            paper::CACHE_TRACKS as f64 * 1.8e-3,
            24e9 / 1.8e6
        ),
        format!(
            "\"15 × at 99.9 % for real-world traces\" (abstract) holds for {} of Table 2's {} traces: {}.",
            above_15.len(),
            paper::TABLE2.len(),
            above_15.join(", ")
        ),
        "Vguard \"may choose\" to clean a band partly (2.3): whether the figures do is not said; `partial` is a parameter, \
         and both are run.",
        "The drive-managed disk's 24.78 ms, 240 writes and 300 ms are in no text: they are read off Table 2, so that its \
         column of 324.78 is no evidence here. It is reached at 99.9 % exactly where over 24 % of the requests write.",
        "Seek, head switch and command overhead are not given: the drive file's are assumptions or fitted to wdev_1, and \
         the tails above 10.4 ms hang on them.",
        "Neither the names of Table 3's traces nor the curves of figures 2 to 6 were at hand; what the text says of them is \
         compared.",
        "\"1 MB\" tracks (figure 5) are 1 MiB here; the first to 4 TB of figure 6 are the first LBAs (assumption), where \
         tracks are longest.",
    ])
}
