use proptest::prelude::*;

use super::*;
use crate::drive::{Drive, DriveClock};
use crate::units::{Nanos, Pba};

/// A disk of two surfaces, made up.
const MODEL: &str = include_str!("../../../../../testdata/disksim/drive.model");
const SEEK: &str = include_str!("../../../../../testdata/disksim/drive.seek");
const SPECS: &str = include_str!("../../../../../testdata/disksim/drive.diskspecs");

fn made() -> Drive {
    let imported = disksim_texts(MODEL, SPECS, SEEK).unwrap();
    Drive::parse(Path::new("drive.toml"), &imported.text).unwrap_or_else(|error| panic!("{error}\n{}", imported.text))
}

/// Place of an LBN by the description's own words: zone, cylinder, head and sector of the track.
fn by_the_rules(lbn: u64) -> (u64, u64, u64, u64) {
    // First cylinder, cylinders, sectors of a track, empty front, slips.
    let zones: [(u64, u64, u64, u64, &[u64]); 2] = [(0, 10, 40, 7, &[11, 12, 300]), (11, 9, 30, 0, &[])];
    let mut first = 0;
    for (number, (cylinder, cylinders, length, empty, slips)) in (0..).zip(zones) {
        let blocks = cylinders * 2 * length - empty - 6 * (cylinders / 2);
        if lbn < first + blocks {
            let (r, p) = (lbn - first + empty, 2 * 2 * length);
            let q = r / (p - 6);
            let mut r = q * p + r % (p - 6);
            for slip in slips.iter().filter(|slip| **slip >= q * p) {
                r += u64::from(*slip <= r);
            }
            let track = r / length;
            return (number, cylinder + track / 2, track % 2, r % length);
        }
        first += blocks;
    }
    panic!("{lbn} lies beyond the disk");
}

#[test]
fn sectors_lie_where_the_description_puts_them() {
    let g = made().geometry;
    assert_eq!(g.sectors(), (800 - 7 - 30) + (540 - 24));
    for lbn in 0..g.sectors() {
        let place = g.place(Pba(lbn));
        let (zone, cylinder, head, sector) = by_the_rules(lbn);
        let found =
            (u64::from(place.zone), u64::from(place.cylinder), u64::from(place.surface), u64::from(place.sector));
        assert_eq!(found, (zone, cylinder, head, sector), "{lbn}");
        let (first, length, offset, skews) = [(0, 40.0, 0.0, (4.0, 8.0)), (11, 30.0, 5.0, (3.0, 6.0))][zone as usize];
        let c = (cylinder - first) as f64;
        let angle = (offset + sector as f64 + (head as f64 + c) * skews.0 + c * skews.1) / length;
        let apart = (place.angle as f64 / 2f64.powi(64) - angle).rem_euclid(1.0);
        assert!(apart.min(1.0 - apart) < 1e-9, "{lbn}: {angle} and {}", place.angle);
    }
}

#[test]
fn every_value_names_its_file_and_line() {
    let drive = made();
    assert!(drive.settings.iter().all(|s| s.source.contains("drive.")), "{:?}", drive.settings);
    let of = |key: &str| drive.settings.iter().find(|s| s.key == key).map(|s| (s.value.clone(), s.source.clone()));
    assert_eq!(of("mechanical.rpm"), Some(("6000".into(), "drive.model:40, Rotation speed (in rpms)".into())));
    assert_eq!(of("mechanical.write_settle_ms"), None, "a negative settle is left out");
    assert_eq!(of("mechanical.segment_bytes").map(|s| s.0), Some("16384".into()));
}

#[test]
fn overheads_depend_on_the_kind_and_on_the_request_before() {
    let Drive { geometry: g, mut clock, .. } = made();
    let sector = Nanos(50_000);
    let first = clock.access(&g, Nanos::ZERO, false, Pba(0), 4);
    // Long after, from the buffer: after a read, and after a write.
    let later = first + Nanos::from_secs(1.0);
    let hit = clock.access(&g, later, false, Pba(1), 3) - later;
    assert_eq!(hit, Nanos(100_000 + 50_000) + sector * 3);
    let written = clock.access(&g, later + Nanos::from_secs(1.0), true, Pba(600), 2) - (later + Nanos::from_secs(1.0));
    assert_eq!(written, Nanos(300_000) + sector * 2);
    let again = later + Nanos::from_secs(2.0);
    assert_eq!(clock.access(&g, again, true, Pba(700), 2) - again, Nanos(400_000) + sector * 2);
    assert!(matches!(clock, DriveClock::Buffered(_)));
}

#[test]
fn damage_is_named_with_file_line_and_remedy() {
    let cases = [
        (
            MODEL.replace(
                "dm_layout_g1_zone {\n            First cylinder number = 0",
                "dm_layout_g1_zone {\n            First cylinder number = x",
            ),
            SPECS,
            SEEK,
            "drive.model:10",
            "expected a number",
        ),
        (MODEL.replace("Head switch time = 0.9,", ""), SPECS, SEEK, "drive.model:35", "add Head switch time = …"),
        (
            MODEL.replace("Sparing scheme used = 8", "Sparing scheme used = 9"),
            SPECS,
            SEEK,
            "drive.model:6",
            "give 0, 1, 2, 3, 7 or 8",
        ),
        (
            MODEL.replace("Last cylinder number = 9", "Last cylinder number = 9999999999"),
            SPECS,
            SEEK,
            "drive.model:11",
            "whole number",
        ),
        (MODEL[..MODEL.len() / 2].to_string(), SPECS, SEEK, "drive.model:", "copy it again"),
        (MODEL.to_string(), SPECS, &SEEK[..34], "drive.seek:", "copy it again"),
        (MODEL.to_string(), SPECS, "Seek distances measured: 2\n5, 1.0\n4, 2.0\n", "drive.seek:3", "in order"),
        (MODEL.to_string(), "disksim_disk X { Model = nothing }", SEEK, "drive.diskspecs:1", "Model = source"),
        (MODEL.to_string(), "", SEEK, "drive.diskspecs:1", "no block"),
        (MODEL.to_string(), "source drive.diskspecs", SEEK, "drive.diskspecs:1", "name each other"),
    ];
    for (model, specs, seek, place, remedy) in cases {
        let error = disksim_texts(&model, specs, seek).unwrap_err().to_string();
        assert!(error.starts_with(place) && error.contains(remedy), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A damaged description is refused or makes a drive; nothing panics.
    #[test]
    fn no_description_panics(which in 0usize..3, at: prop::sample::Index, with in "[0-9{}\\[\\],=. x-]{0,12}", cut in 0usize..20) {
        let mut texts = [MODEL.to_string(), SPECS.to_string(), SEEK.to_string()];
        let text = &mut texts[which];
        let start = at.index(text.len());
        text.replace_range(start..(start + cut).min(text.len()), &with);
        let Ok(imported) = disksim_texts(&texts[0], &texts[1], &texts[2]) else { return Ok(()) };
        let Ok(mut drive) = Drive::parse(Path::new("x.toml"), &imported.text) else { return Ok(()) };
        let end = drive.geometry.sectors();
        let mut now = Nanos::ZERO;
        for (pba, n) in [(0, end.min(500)), (end / 2, 1), (end - 1, 1)] {
            now = drive.clock.access(&drive.geometry, now, n == 1, Pba(pba), n);
        }
    }
}
