//! Table 1: the simulated drives, from the drive file and the defaults of the layers.

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::layer::{Capacity, Parameters, Scalar};
use smrkit::stats::outcome::Outcome;
use smrkit::units::{Nanos, SECTOR_BYTES};

use super::common::{LAYERS, VARIANT, as_published, highest};
use super::paper;
use crate::{Item, Plan, Row, Scale, Shown};

/// Distance within which a value that the paper rounds agrees, in percent (assumption).
const ROUNDED_PERCENT: f64 = 1.0;
/// Distance that "~30 KB" and "~1.3 MB" allow, in percent (assumption).
const ABOUT_PERCENT: f64 = 10.0;
/// Tracks of the drive, for equation (1).
const TRACKS: f64 = 4e6;
/// Nanoseconds of a minute.
const MINUTE_NS: f64 = 60e9;
/// As many random writes as fill both layers' maps.
const FILL: &str = "random-write:count=23000";

/// Equation (1) in bytes, with logarithms to `base`.
pub fn map_bytes(base: f64) -> f64 {
    let bits = TRACKS.log(base) + (paper::CACHE_TRACKS as f64).log(base);
    paper::VGUARD_THRESHOLD as f64 * bits / 8.0
}

/// Properties of a layer before it runs.
struct Built {
    name: &'static str,
    parameters: Parameters,
    capacity: Capacity,
}

impl Built {
    fn new(drive: &Drive, name: &'static str) -> Result<Built, Error> {
        let (spec, parameters) = as_published(name)?;
        let capacity = (spec.build)(drive, &parameters)?.capacity();
        Ok(Built { name, parameters, capacity })
    }
}

pub fn item(scale: &Scale, drive: &Drive) -> Result<Item, Error> {
    let [vguard, managed] = LAYERS;
    let built = [Built::new(drive, vguard)?, Built::new(drive, managed)?];
    let mut rows = of_drive(drive);
    built.iter().for_each(|layer| rows.extend(of_layer(drive, layer)));
    rows.push(formula());
    let fill = |name| Plan::workload(drive, name, FILL, scale.seed);
    let told = fill(LAYERS[0]).set("alpha", paper::VGUARD_THRESHOLD).set("beta", paper::VGUARD_THRESHOLD);
    let plans = vec![fill(LAYERS[0]), told, fill(LAYERS[1]).set(VARIANT.0, VARIANT.1)];
    Ok(Item::new("Table 1: the simulated drives", plans, move |outcomes| {
        rows.extend(filled(outcomes));
        Shown {
            text: vec![
                format!(
                    "The drive file {} and the defaults of both layers, which were taken from this table: that they agree is \
                     no evidence. Thresholds and maps are measured by 23,000 random writes.",
                    super::common::DRIVE
                ),
                "Queue depth 1, no think time, neither write cache nor read-ahead, as in the paper.".into(),
            ],
            rows,
            ..Shown::default()
        }
    }))
}

fn of_drive(drive: &Drive) -> Vec<Row> {
    let zones = drive.geometry.zones();
    let mega = |sectors: u64| (sectors * SECTOR_BYTES) as f64 / 1e6;
    let tracks = zones.iter().map(|zone| mega(zone.track_sectors));
    let (shortest, longest) = tracks.fold((f64::INFINITY, 0.0), |(low, high), bytes| (bytes.min(low), bytes.max(high)));
    let rotation = drive.clock.mechanical().map_or(Nanos::ZERO, |clock| clock.rotation());
    let file = "as the drive file says";
    let outermost =
        "to the digits printed; the cache lies there, and a track of it holds a track of the host and a map";
    vec![
        Row::near("rotation", 5980.0, MINUTE_NS / rotation.0 as f64, "rpm", 0.001).because(file).by_construction(),
        Row::printed("longest track", 1.8, 1, longest, "MB").because(outermost).by_construction(),
        Row::near("shortest track", 0.9, shortest, "MB", ROUNDED_PERCENT).because(file).by_construction(),
        Row::near("tracks", 4_000_000.0, drive.geometry.tracks() as f64, "tracks", 3.0)
            .because("about 4·10⁶ (section 2.2); fewer are enough for 5 TB")
            .by_construction(),
    ]
}

fn of_layer(drive: &Drive, layer: &Built) -> Vec<Row> {
    let Built { name, parameters, capacity } = layer;
    let item = |what: &str| format!("{name}: {what}");
    let band_tracks = if let Some(Scalar::Int(tracks)) = parameters.scalars().get("band_tracks") { *tracks } else { 0 };
    let offered = (capacity.host_sectors * SECTOR_BYTES) as f64 / 1e12;
    let cache_sectors = capacity.cache_sectors;
    let outer = drive.geometry.zones().first().map_or(1, |zone| zone.track_sectors);
    let exact = |what: &str, paper, ours| {
        Row::exact(item(what), paper, ours, "tracks").because("the default").by_construction()
    };
    vec![
        Row::near(item("size"), 5.0, offered, "TB", ROUNDED_PERCENT).because("what the host gets").by_construction(),
        exact("band", 20, band_tracks),
        exact("cache", paper::CACHE_TRACKS, cache_sectors / outer),
        Row::beside(item("cache, in bytes"), 24.0, (cache_sectors * SECTOR_BYTES) as f64 / 1e9, "GB").because(format!(
            "the paper's own 13,791 tracks of 1.8 MB are 24.8 GB, ours have {:.2} MB: compare the tracks",
            (outer * SECTOR_BYTES) as f64 / 1e6
        )),
    ]
}

fn formula() -> Row {
    let (base_2, base_e) = (map_bytes(2.0) / 1e3, map_bytes(std::f64::consts::E) / 1e3);
    Row::near("vguard: map by equation (1), natural logarithm", 30.0, base_e, "KB", ABOUT_PERCENT)
        .because(format!("9,194 entries; with base 2 {base_2:.1} KB: the base is not given"))
}

fn filled(outcomes: &[Outcome]) -> Vec<Row> {
    let [vguard, told, managed] = outcomes else { return Vec::new() };
    let most = |outcome: &Outcome| highest(outcome, "map_bytes") / 1e3;
    let before = managed.layer_stats.first_cleaning().map_or(0, |request| request - 1);
    let alike = vguard.elapsed_ns == told.elapsed_ns && vguard.layer_stats == told.layer_stats;
    vec![
        Row::holds(
            "vguard: α and β",
            paper::VGUARD_THRESHOLD,
            if alike { "the same" } else { "others" },
            "tracks",
            alike,
        )
        .because("the default, 2/3 of the cache, cleans as often and as long as alpha=9194, beta=9194")
        .by_construction(),
        Row::exact("drive-managed: α and β", paper::MANAGED_THRESHOLD, before, "entries")
            .because("seen as the entries before the first cleaning; 5/3 of the cache's tracks")
            .by_construction(),
        Row::beside("vguard: memory of its map", 30.0, most(vguard), "KB")
            .because("what this implementation holds, not what equation (1) counts"),
        Row::near("drive-managed: memory of its map", 1300.0, most(managed), "KB", ABOUT_PERCENT)
            .because("no formula is given; the layer's sizes of entries were chosen to give it")
            .by_construction(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Agreement;

    #[test]
    fn equation_1_gives_41_kb_or_28_kb_by_its_logarithm() {
        let shown = [2.0, std::f64::consts::E].map(|base| format!("{:.1}", map_bytes(base) / 1e3));
        assert_eq!(shown, ["41.0", "28.4"]);
    }

    #[test]
    fn the_drive_is_as_long_as_the_paper_prints() {
        for row in of_drive(&Drive::load(super::super::DRIVE).unwrap()) {
            assert_eq!(row.verdict, Agreement::Agree, "{row:?}");
        }
    }
}
