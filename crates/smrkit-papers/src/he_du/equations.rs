//! Equations (1) and (2), and the disk of figure 1.

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::geometry::Geometry;
use smrkit::layer::track_map::cost::{space_gain, update_war};
use smrkit::layer::track_map::scheme::Scheme;
use smrkit::layer::{self, Layer};
use smrkit::medium::interference::Interference;
use smrkit::units::Lba;

use super::common::{N, W, paper_dots};
use crate::{Item, Row, Shown};
use smrkit_report::figure::{Axis, Figure, Panel, Series, Style};

/// Bands up to this many tracks are drawn.
const TRACKS: u64 = 32;
const WIDTHS: [u64; 4] = [2, 3, 4, 5];

/// Figure 1: tracks of the random access zone, bands, sectors of a track.
const RANDOM_TRACKS: u64 = 100;
const BANDS: u64 = 2000;
const SECTORS: u64 = 100;

pub fn item() -> Result<Item, Error> {
    let rows = [equations()?, example()?].concat();
    let figure = figure()?;
    Ok(Item::told(
        "Equations 1 and 2, figure 1: space gain and WAR",
        Shown {
            text: texts![
                "Space gain W N / (N + W - 1), and the mean WAR of updates in full bands of N tracks, counted by following what \
             each write takes along; figure 1's disk as the layer lays it out.",
            ],
            rows,
            figure: Some(figure),
            ..Shown::default()
        },
    ))
}

/// Tracks in order: in full bands any order costs the same.
fn in_order(tracks: u64) -> Result<Scheme, Error> {
    let text: Vec<String> = (1..=tracks).map(|track| track.to_string()).collect();
    text.join("-").parse()
}

fn equations() -> Result<Vec<Row>, Error> {
    let mut all_n = true;
    for width in WIDTHS {
        for tracks in 1..=TRACKS {
            all_n &= update_war(&in_order(tracks)?, width as usize, 1.0) == Some(tracks as f64);
        }
    }
    Ok(vec![
        Row::near("space gain, N = 4, W = 2", 1.6, space_gain(N, W), "", 0.001),
        Row::near("space gain, N = 5, W = 3", 15.0 / 7.0, space_gain(5, 3), "", 0.001).because("equation (1)"),
        Row::holds(
            format!("WAR of full bands, N to {TRACKS}, W 2 to 5"),
            "N",
            if all_n { "N" } else { "not always N" },
            "",
            all_n,
        )
        .because("equation (2), at every N and W: followed track by track"),
    ])
}

/// The layer on the disk of figure 1.
fn example() -> Result<Vec<Row>, Error> {
    let mut drive = Drive::load("tiny-constant")?;
    drive.geometry = Geometry::uniform(RANDOM_TRACKS + BANDS * (N + W - 1), SECTORS)?;
    let drive = drive.with_interference(Interference::Tracks { width: W, band: None })?;
    let spec = layer::find("track-map")?;
    let set = [("scheme", "1234".to_string()), ("random_tracks", RANDOM_TRACKS.to_string())];
    let set: Vec<(String, String)> = set.into_iter().map(|(key, value)| (key.into(), value)).collect();
    let layer: Box<dyn Layer> = (spec.build)(&drive, &spec.resolve(&set)?)?;
    let capacity = layer.capacity();
    // LBAs count from 1 in the paper, tracks from 1 behind the random access zone.
    let track = |lba: u64| layer.locate(Lba(lba - 1)).0 / SECTORS - RANDOM_TRACKS + 1;
    let shingled = capacity.raw_sectors - RANDOM_TRACKS * SECTORS;
    let efficiency = capacity.host_sectors as f64 / shingled as f64;
    let exact =
        |item: &str, paper: u64, ours: u64, unit| Row::exact(item, paper, ours, unit).because("figure 1 and its text");
    Ok(vec![
        exact("bands", BANDS, capacity.host_sectors / (N * SECTORS), ""),
        exact("tracks of the random access zone in use", RANDOM_TRACKS / 2, capacity.spare_sectors / SECTORS, ""),
        exact("physical track of LBA 401, by 1234", 6, track(401), ""),
        exact("physical track of LBA 500, by 1234", 6, track(500), ""),
        Row::near("space efficiency", 0.8, efficiency, "", 0.001).because("of the shingled zone"),
    ])
}

fn figure() -> Result<Figure, Error> {
    let tracks: Vec<u64> = (1..=TRACKS).collect();
    let gains = |(i, &width): (usize, &u64)| {
        let points = tracks.iter().map(|&n| (n as f64, space_gain(n, width))).collect();
        Series::nth(i, format!("W = {width}"), Style::Line, points)
    };
    let mut wars = Vec::new();
    for &n in &tracks {
        let war = update_war(&in_order(n)?, W as usize, 1.0);
        wars.extend(war.map(|war| (n as f64, war)));
    }
    let mut gains: Vec<Series> = WIDTHS.iter().enumerate().map(gains).collect();
    gains.push(paper_dots(vec![(N as f64, 1.6)]));
    let wars = vec![Series::nth(WIDTHS.len(), "any W above 1", Style::Line, wars), paper_dots(vec![(4.0, 4.0)])];
    let panel = |title: &str, y: &str, series: Vec<Series>| {
        Panel::lines(Some(title), Axis::linear("Tracks of a band, N"), Axis::linear(y), series)
    };
    Ok(Figure::new(
        "he-du-equations",
        "Space gain and write amplification against the band's size",
        "Equation (1), and equation (2) by counting. A larger band gains little space beyond a few heads' widths, and \
         every update of a full band costs N requests on average, whatever the head.",
        [panel("Space gain", "Space gain", gains), panel("WAR of full bands", "WAR", wars)],
    ))
}
