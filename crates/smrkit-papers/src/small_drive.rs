//! Drives that are as small as a study needs: one surface, one recording zone, tracks of one length, and a drive's mechanics.

use smrkit::drive::Drive;
use smrkit::error::Error;

/// The drive whose rotation, overhead and law small drives have.
pub const LIKE: &str = "st5000as0011";

/// Seeks of a drive of a few gigabytes, as shares of its own stroke in ms: of a large drive's, the shortest (assumption).
pub const SHORT_SEEKS: [(f64, f64); 5] = [(0.0, 0.8), (0.1, 1.2), (0.333, 2.0), (0.5, 2.5), (1.0, 4.0)];

/// A small drive.
pub struct SmallDrive<'a> {
    /// Its name.
    pub name: &'a str,
    /// Sentence on the drive.
    pub summary: String,
    /// Tracks.
    pub tracks: u64,
    /// Sectors of a track.
    pub track_sectors: u64,
    /// Tracks that a write reaches, its own included.
    pub reach: u64,
    /// Going on to the next track, in ms.
    pub switch_ms: f64,
    /// The skew between tracks, in ms; none: what the switch asks for.
    pub skew_ms: Option<f64>,
    /// Seeks as (share of the stroke, ms).
    pub seek: Vec<(f64, f64)>,
}

impl SmallDrive<'_> {
    /// The seeks of the drive that it is like, stretched over its own stroke.
    pub fn stretched_seeks() -> Result<Vec<(f64, f64)>, Error> {
        Ok(Drive::load(LIKE)?.seek_curve())
    }

    /// The drive.
    pub fn build(&self) -> Result<Drive, Error> {
        let SmallDrive { name, summary, tracks, track_sectors, reach, switch_ms, .. } = self;
        let seek: Vec<[f64; 2]> = self.seek.iter().map(|&(share, ms)| [share, ms]).collect();
        let skew =
            self.skew_ms.map_or(String::new(), |ms| format!("skew_ms = {{ value = {ms:?}, source = \"{LIKE}\" }}"));
        let text = format!(
            r#"
name = "{name}"
summary = "{summary}"
[geometry]
zones = {{ value = [{{ tracks = {tracks}, track_sectors = {track_sectors} }}], source = "assumption" }}
[interference]
inner_tracks = {{ value = {reach}, source = "{LIKE}" }}
outer_tracks = {{ value = 1, source = "{LIKE}" }}
cw_degrees = {{ value = 1.0, source = "{LIKE}" }}
ccw_degrees = {{ value = 1.0, source = "{LIKE}" }}
[mechanical]
rpm = {{ value = 5980, source = "{LIKE}" }}
seek = {{ value = {seek:?}, source = "{LIKE}, or short ones: assumption" }}
switch_ms = {{ value = {switch_ms:?}, source = "assumption" }}
{skew}
overhead_ms = {{ value = 0.03, source = "{LIKE}" }}
"#
        );
        Drive::parse(format!("{name}.toml").as_ref(), &text)
    }
}
