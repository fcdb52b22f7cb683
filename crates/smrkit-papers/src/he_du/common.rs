//! The paper's disk and schemes, and the forms of its items.

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::layer::Scalar;
use smrkit::layer::track_map::scheme::Scheme;
use smrkit::stats::outcome::Outcome;

use super::super::small_drive::{LIKE, SHORT_SEEKS, SmallDrive};
use smrkit_report::figure::{Colour, Series, Style};

/// The paper's schemes in its order.
pub(super) const SCHEMES: [&str; 4] = ["1234", "R(4123)", "124R(3)", "14R(23)"];
/// The fills at which the paper looks, in percent.
pub(super) const FILLS: [u64; 4] = [25, 50, 75, 100];
/// Tracks of a band, and the head's width in tracks.
pub(super) const N: u64 = 4;
pub(super) const W: u64 = 2;
/// Sectors of a track: the mean of st5000as0011, so that whole requests of 4 KiB fit (assumption).
pub(super) const TRACK_SECTORS: u64 = 2640;

/// A drive with room for this many bands: one surface, one recording zone, tracks of one length, and seeks for its size.
pub(super) fn drive(bands: u64) -> Result<Drive, Error> {
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

pub(super) fn scheme(text: &str) -> Result<Scheme, Error> {
    text.parse()
}

/// Points that the paper's text names, as dots.
pub(super) fn paper_dots(points: Vec<(f64, f64)>) -> Series {
    Series { name: "paper's text".into(), colour: Colour::GREY, style: Style::Points, points }
}

/// The mean WAR of a run.
pub(super) fn war_mean(outcome: &Outcome) -> f64 {
    if let Some(&Scalar::Float(war)) = outcome.layer_stats.get("war_mean") { war } else { f64::NAN }
}

/// Numbers with two decimals, next to each other.
pub(super) fn listed(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(" ")
}
