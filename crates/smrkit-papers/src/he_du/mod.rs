//! He & Du, "Novel Address Mappings for Shingled Write Disks", HotStorage 2014: static track maps. Its figures were at
//! hand as text, without the values on their axes, and none of its traces: others stand in their place.

mod equations;
mod figure2;
mod figure3;
mod table1;
mod traces;

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::layer::Scalar;
use smrkit::layer::track_map::scheme::Scheme;
use smrkit::stats::outcome::Outcome;

use super::small_drive::{LIKE, SHORT_SEEKS, SmallDrive};
use super::{Item, Reproduction, Scale};
use smrkit_report::figure::{Colour, Series, Style};

pub const REPRODUCTION: Reproduction = Reproduction {
    name: "he-du",
    paper: "He & Du 2014: static track maps",
    summary: "Space gain, write amplification, figure 2, Table 1 and figure 3.",
    before: "Disks are filled in order before, up to the share of each item; SYN begins on an empty one.",
    items,
    open,
};

/// The paper's schemes in its order.
const SCHEMES: [&str; 4] = ["1234", "R(4123)", "124R(3)", "14R(23)"];
/// The fills at which the paper looks, in percent.
const FILLS: [u64; 4] = [25, 50, 75, 100];
/// Tracks of a band, and the head's width in tracks.
const N: u64 = 4;
const W: u64 = 2;
/// Sectors of a track: the mean of st5000as0011, so that whole requests of 4 KiB fit (assumption).
const TRACK_SECTORS: u64 = 2640;

fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let traces = traces::all(scale)?;
    Ok(vec![equations::item()?, figure2::item(scale)?, table1::item(&traces), figure3::item(scale, &traces)?])
}

/// Questions that the paper leaves open or contradicts.
fn open() -> Result<Vec<String>, Error> {
    Ok(texts![
        "\"R(1234)\" in the discussion of the experiments is R(4123): no such scheme is defined, and it would be 1234's \
         opposite.",
        "\"All SWDs produce an average WAR of 4 when SWD space usage is close to 100%\" is false for SYN: it overwrites \
         nothing, 1234 stays at 1, and the others reach 1.5 over the whole run (3 in its last quarter).",
        "The disk of the experiments is not named. Ours has one surface and one recording zone with the rotation and the \
         law of st5000as0011, is as large as each trace's span at 100 % needs, and has seeks for that size (0.8 to 4 ms): \
         response times are shapes, not numbers.",
        "The regular disk compared with it is not described either. Ours is the same drive written in place, so that a fill of 25 % \
         lies on its first fifth, where seeks are shorter than between bands all over the disk.",
        "How many sectors an extra request moves is not said. Ours moves what the drive's law destroys, and joins tracks \
         that touch.",
        "The WAR of a request over several tracks is not defined. Ours counts the tracks asked for once, those taken along \
         twice, and divides by the former, so that 1 means no amplification.",
        "Equation (2) gives N for any head of more than one track, and holds for full bands alone.",
        "What the random access zone is for (metadata) is not simulated: it takes its room and is never written.",
        "The order between digits and R(…) in other than the paper's schemes is open: we take them as they stand.",
        "Table 1 and the values on the axes of figures 2 and 3 were not in the text at hand.",
    ])
}

/// A drive with room for this many bands: one surface, one recording zone, tracks of one length, and seeks for its size.
fn drive(bands: u64) -> Result<Drive, Error> {
    SmallDrive {
        name: "he-du",
        summary: format!("Bands of the He & Du paper with the mechanics of {LIKE}"),
        tracks: bands * (N + W - 1),
        track_sectors: TRACK_SECTORS,
        reach: W,
        switch_ms: 1.2,
        skew_ms: None,
        seek: SHORT_SEEKS.to_vec(),
    }
    .build()
}

fn scheme(text: &str) -> Result<Scheme, Error> {
    text.parse()
}

/// Points that the paper's text names, as dots.
fn paper_dots(points: Vec<(f64, f64)>) -> Series {
    Series { name: "paper's text".into(), colour: Colour::GREY, style: Style::Points, points }
}

/// A counter of the layer's own.
fn stat(outcome: &Outcome, key: &str) -> f64 {
    match outcome.layer_stats.get(key) {
        Some(Scalar::Float(value)) => *value,
        _ => f64::NAN,
    }
}

/// Numbers with two decimals, next to each other.
fn listed(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(" ")
}
