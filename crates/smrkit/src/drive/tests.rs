use std::path::Path;

use proptest::prelude::ProptestConfig;

use super::*;
use crate::geometry::{Guard, Regions};
use crate::units::{Pba, Track};

#[path = "../../tests/common/count.rs"]
mod count;

fn impossible(text: &str) -> String {
    match Drive::parse(Path::new("test.toml"), text) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

const TINY: &str = include_str!("../../drives/tiny.toml");

fn ms(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

#[test]
fn every_built_in_drive_loads_and_names_its_sources() {
    for (name, _) in DRIVES {
        let drive = Drive::load(name).unwrap();
        assert_eq!(drive.name, *name);
        assert!(drive.settings.len() >= 4);
        assert!(drive.settings.iter().all(|s| !s.source.is_empty()));
    }
}

#[test]
fn table_1_replays_to_its_times() {
    let drive = Drive::load("cassuto-table1").unwrap();
    assert_eq!(drive.geometry.sectors, 600_000_000);
    let DriveClock::Constant(clock) = drive.clock else { panic!("not constant") };
    // Commands, sectors and seconds of Cassuto 2010, table I; spread as evenly as whole sectors allow.
    for (commands, sectors, seconds) in [
        (435_285 + 75_615, 8_394_244 + 2_889_969, "623.24"),
        (438_758 + 77_713, 112_343_297u64 + 105_787_800, "2172.81"),
    ] {
        let (each, more) = (sectors / commands, sectors % commands);
        let total = clock.cost(each + 1) * more + clock.cost(each) * (commands - more);
        assert_eq!(format!("{:.2}", total.as_secs()), seconds);
    }
}

#[test]
fn the_5_tb_drive_holds_5_tb_beside_its_cache_and_guards() {
    let drive = Drive::load("st5000as0011").unwrap();
    let g = &drive.geometry;
    assert!((3_900_000..4_100_000).contains(&g.tracks));
    assert_eq!(g.track_sectors(Track(13_860)) * 512, 1_800_192);
    assert_eq!(g.track_sectors(Track(0)), g.track_sectors(Track(13_860)) + 60, "a copied track, and a copy of the map");
    let cache = g.track_start(crate::units::Track(13_791)).0;
    assert!((g.sectors - cache) / 21 * 20 >= 9_767_541_168);
    let (third, mean) = drive.average_seek().unwrap();
    assert!((ms(third) - 12.0).abs() < 0.1, "{third}");
    assert!((10.0..12.5).contains(&ms(mean)), "{mean}");
}

#[test]
fn a_capacity_is_close_to_what_was_asked_for() {
    for (name, _) in DRIVES {
        for sectors in [5_000, 123_457, 19_531_250, 20_000_000_000] {
            let drive = Drive::load(name).unwrap();
            let own = drive.geometry.clone();
            let g = drive.with_capacity(sectors).unwrap().geometry;
            assert!(g.sectors >= sectors, "{name} {sectors}: {}", g.sectors);
            // A zone over all surfaces grows by a cylinder.
            let surfaces = g.zones.iter().map(|zone| zone.surfaces().len() as u64).max().unwrap_or(1);
            let most = sectors + 2 * g.zones.len() as u64 * surfaces * own.longest_track();
            assert!(g.sectors <= most, "{name} {sectors}: {}", g.sectors);
            assert_eq!(g.longest_track(), own.longest_track());
            assert!(g.cylinders <= own.cylinders || drive_is_larger_than_its_zones(name, sectors));
        }
        assert!(Drive::load(name).unwrap().with_capacity(0).is_err());
        assert!(Drive::load(name).unwrap().with_capacity(u64::MAX).is_err());
    }
}

/// A constant clock knows no surfaces, and recording zones can be counted up to a number.
fn drive_is_larger_than_its_zones(name: &str, sectors: u64) -> bool {
    let drive = Drive::load(name).unwrap();
    drive.clock.mechanical().is_none() || sectors > 32_768 / 8 * drive.geometry.sectors
}

#[test]
fn more_platters_are_the_same_platters() {
    let own = Drive::load("st5000as0011").unwrap();
    let larger = own.clone().with_platters(3).unwrap();
    let (a, b) = (&own.geometry, &larger.geometry);
    let surfaces = |g: &Geometry| g.zones.iter().map(|zone| zone.surfaces().end).max().unwrap();
    assert_eq!((b.sectors, b.tracks, surfaces(b)), (3 * a.sectors, 3 * a.tracks, 3 * surfaces(a)));
    let third_of_the_stroke = |drive: &Drive| drive.average_seek().map(|(third, _)| third);
    assert_eq!((b.cylinders, third_of_the_stroke(&larger)), (a.cylinders, third_of_the_stroke(&own)));
    // The longer tracks of the cache's surface stay together at the outer edge, as many times as long.
    assert_eq!(b.track_sectors(Track(3 * 13_860 - 1)), a.track_sectors(Track(0)));
    assert_eq!(b.track_sectors(Track(3 * 13_860)), a.track_sectors(Track(13_860)));
}

/// A run can be repeated from the size that it records.
#[test]
fn more_platters_have_the_same_tracks_where_each_has_spares() {
    let (_, tiny) = DRIVES.iter().find(|(name, _)| *name == "tiny").unwrap();
    let (geometry, rest) = tiny.split_once("[interference]").unwrap();
    let (_, mechanical) = rest.split_once("[mechanical]").unwrap();
    let text = format!("{geometry}[mechanical]{mechanical}")
        .replace("[geometry]", "[geometry]\norder = { value = \"cylinders\", source = \"made for tests\" }")
        .replace("track_sectors = 64,", "track_sectors = 64, spare_sectors = 8, spare_tracks = 2,");
    let own = Drive::parse(Path::new("spares.toml"), &text).unwrap();
    let larger = own.clone().with_platters(3).unwrap();
    assert_eq!((own.geometry.slipped(), larger.geometry.slipped()), (192, 576));
    assert_eq!(larger.geometry.sectors, 3 * own.geometry.sectors);
    assert_eq!(larger.geometry.tracks, 3 * own.geometry.tracks);
    assert_eq!(own.with_capacity(larger.geometry.sectors).unwrap().geometry.sectors, larger.geometry.sectors);
}

#[test]
fn a_capacity_gives_itself_again() {
    let zones = |drive: &Drive| format!("{:?}", drive.geometry);
    for text in DRIVES[..5].iter().map(|drive| drive.1).chain([TINY, BUFFERED]) {
        let drive = Drive::parse(Path::new("t"), text).unwrap();
        proptest::proptest!(ProptestConfig::with_cases(count::count_from::<u32>("SMRKIT_DRIVE_FILES", 200) / 25), |(sectors in 1u64..1 << 36, shift in 0u32..36)| {
            let Ok(sized) = drive.clone().with_capacity((sectors >> shift).max(1)) else { return Ok(()) };
            let (recorded, expected) = (sized.geometry.sectors, zones(&sized));
            proptest::prop_assert!(zones(&drive.clone().with_capacity(recorded).unwrap()) == expected);
            proptest::prop_assert!(zones(&sized.with_capacity(recorded).unwrap()) == expected);
        });
    }
}

#[test]
fn a_capacity_keeps_the_form_of_interference() {
    let law = Interference::Tracks { width: 2, band: None };
    let drive = Drive::load("tiny").unwrap().with_interference(law).unwrap().with_capacity(50_000).unwrap();
    assert_eq!(drive.interference, law);
    assert_eq!(drive.interference.guard(&drive.geometry), Guard::Tracks(1));
    assert!(Regions::new(&drive.geometry, Guard::Tracks(1), 100).is_ok());
}

#[test]
fn zones_are_shingled_toward_the_edge_that_the_head_reaches() {
    let neither = TINY.replacen("inner_tracks = { value = 2", "inner_tracks = { value = 1", 1);
    let outward = neither.replacen("outer_tracks = { value = 1", "outer_tracks = { value = 2", 1);
    for (text, edge) in [(TINY, Edge::Inner), (&outward, Edge::Outer)] {
        let drive = Drive::parse(Path::new("test.toml"), text).unwrap();
        assert!(drive.geometry.zones.iter().all(|zone| zone.toward == edge), "{edge:?}");
    }
}

#[test]
fn mistakes_in_a_drive_file_are_named_with_a_remedy() {
    let cases = [
        ("rpm = { value = 7200", "rmp = { value = 7200", "unknown field `rmp`"),
        ("rpm = { value = 7200", "rpm = { value = \"fast\"", "test.toml:21:17: `fast` does not begin with a number"),
        ("rpm = { value = 7200", "rpm = { value = 0", "give 1 to 1000000"),
        (
            "rpm = { value = 7200, source = \"assumption: made for tests\" }",
            "rpm = 7200",
            "invalid type: integer, expected a table with value, source, low, high",
        ),
        ("rpm = { value = 7200, ", "rpm = { ", "test.toml:21:7: missing field `value`"),
        ("rpm = { value = 7200, ", "# ", "test.toml:20:1: missing field `rpm`"),
        ("[mechanical]", "[mechanics]", "unknown field `mechanics`"),
        (
            "rpm = { value = 7200, source = \"assumption: made for tests\"",
            "rpm = { value = 7200, source = \"\"",
            "no source",
        ),
        ("outer_tracks = { value = 1", "outer_tracks = { value = 2", "set one of them to 1"),
        ("inner_tracks = { value = 2", "inner_tracks = { value = 0", "at least 1"),
        ("cw_degrees = { value = 10.0", "cw_degrees = { value = 400.0", "below 360"),
        ("track_sectors = 54, guard_tracks = 1", "track_sectors = 54", "guard tracks between"),
        ("track_sectors = 54", "track_sectors = [54]", "track lengths for 2 surfaces"),
        ("track_sectors = 54", "track_sectors = 0", "sectors a track"),
        ("track_sectors = 54", "track_sectors = 54, first_cylinder = 3", "overlap"),
        ("surfaces = { value = 2", "surfaces = { value = 0", "give 1 to 64"),
        ("[interference]", "[interference]\nblocks = { value = 6, source = \"x\" }", "more than one form"),
        (
            "[mechanical]",
            "[constant]\ncommand_ms = { value = 1, source = \"x\" }\nsector_us = { value = 1, source = \"x\" }\n[mechanical]",
            "one clock",
        ),
        ("[1.0, 16.0]", "[0.9, 16.0]", "share 1"),
        ("rpm = { value = 7200", "rpm = { value = 7200, low = 7000", "half a range"),
        ("rpm = { value = 7200", "rpm = { value = 7200, low = 7300, high = 7400", "on either side"),
        (
            "seek = { value = [[0.0, 0.8]",
            "seek = { low = [[0.0, 0.9], [1.0, 1]], high = [[0.0, 1], [1.0, 99]], value = [[0.0, 0.8]",
            "on either side",
        ),
        ("rpm = { value = 7200", "queued_commands = { value = 1, source = \"x\" }\nrpm = { value = 7200", "2 to 65536"),
        (
            "rpm = { value = 7200",
            "queue_age_ms = { value = 1, source = \"x\" }\nrpm = { value = 7200",
            "queued_commands",
        ),
        ("name = ", "nam = ", "unknown field `nam`"),
        ("[geometry]", "[geometry", "test.toml:5:10"),
    ];
    for (from, to, message) in cases {
        assert!(TINY.contains(from), "{from}");
        let text = TINY.replacen(from, to, 1);
        let found = impossible(&text);
        assert!(found.contains(message), "{to}: {found}");
        assert!(found.starts_with("test.toml"), "{found}");
    }
}

#[test]
fn values_of_a_drive_file_may_be_texts_with_units() {
    let with = |value: &str, key: &str| {
        let text = TINY.replacen("rpm = { value = 7200", &format!("rpm = {{ value = {value}"), 1);
        let key = format!("[mechanical]\n{key}");
        DriveFile::parse(Path::new("test.toml"), &text.replacen("[mechanical]", &key, 1)).unwrap().settings()
    };
    let plain = with("7200", "write_cache_bytes = { value = 65536, source = \"x\" }");
    let texts = with("\"7.2k\"", "write_cache_bytes = { value = \"64KiB\", source = \"x\" }");
    assert_eq!(texts, plain);
}

#[test]
fn interference_reaches_no_farther_than_any_drive() {
    for far in [1 << 40, 1 << 41, u64::MAX] {
        for law in [
            Interference::Blocks { reach: far },
            Interference::Tracks { width: 2, band: Some(far) },
            Interference::Distances { did: 1, dpid: far, writes: 1 },
        ] {
            let said = Drive::load("tiny-constant").unwrap().with_interference(law);
            match said.map(drop) {
                Err(error) => {
                    assert!(far > 1 << 40 && error.to_string().contains("1099511627776 or less"), "{law:?}: {error}")
                }
                Ok(()) => assert_eq!(far, 1 << 40),
            }
        }
    }
}

#[test]
fn a_drive_at_an_end_of_a_range_loads_by_its_name() {
    let text = TINY.replacen("rpm = { value = 7200", "rpm = { value = 7200, low = 5400, high = 10_000", 1);
    let drive = Drive::parse(Path::new("mine.toml"), &text).unwrap().with_capacity(50_000).unwrap();
    let ranges: Vec<_> = drive.ranges().map(|setting| (setting.key.as_str(), setting.range.clone())).collect();
    assert_eq!(ranges, [("mechanical.rpm", Some(("5400".into(), "10000".into())))]);
    let rotation = |drive: &Drive| ms(drive.clock.mechanical().unwrap().rotation());
    for (end, ms) in [("low", 60e3 / 5400.0), ("high", 6.0), ("15k", 4.0)] {
        let at = drive.at("mechanical.rpm", end).unwrap();
        assert!((rotation(&at) - ms).abs() < 1e-5 && at.ranges().next().is_none());
        assert_eq!(at.geometry.sectors, drive.geometry.sectors);
        assert_eq!(at.name, format!("tiny@mechanical.rpm={end}"));
        let again = Drive::parse(at.file().unwrap(), at.text().unwrap()).unwrap();
        assert_eq!((&again.name, rotation(&again)), (&at.name, rotation(&at)));
    }
    let error = drive.at("mechanical.switch_ms", "low").unwrap_err().to_string();
    assert!(error.contains("keys with a range are mechanical.rpm"), "{error}");
    for (name, message) in [
        ("tiny@mechanical.rpm=low", "no range"),
        ("tiny@mechanical.rpm=fast", "no number mechanical.rpm that could be fast"),
        ("tiny@geometry.surfaces=1.5", "no number geometry.surfaces that could be 1.5"),
        ("tiny@mechanical.segments=2", "no number mechanical.segments"),
        ("tiny@mechanical.rpm=0", "give 1 to 1000000"),
        ("st8000as0002@rpm=7200", "`@rpm=7200` is no key of a drive file"),
    ] {
        let error = Drive::load(name).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn times_and_parameters_of_a_drive_can_have_other_values() {
    let value = |name: &str, key: &str| {
        let drive = Drive::load(name).unwrap();
        drive.settings.into_iter().find(|setting| setting.key == key).unwrap().value
    };
    for overhead in ["0.2", "0.2ms", "200us"] {
        assert_eq!(value(&format!("tiny@mechanical.overhead_ms={overhead}"), "mechanical.overhead_ms"), "0.2");
    }
    assert_eq!(value("st8000as0002@translation.append_time=10ms", "translation.append_time"), "10ms");
}

#[test]
fn a_layer_has_the_parameters_of_the_drive_file_unless_set_otherwise() {
    let table = "[translation]\nlayer = { value = \"drive-managed\", source = \"x\" }
        cache_percent = { low = 1, value = 2, high = 3, source = \"x\" }
        append_time = { low = \"5ms\", value = \"24.78ms\", high = \"30ms\", source = \"x\" }";
    let with = |table: &str| Drive::parse(Path::new("t"), &format!("{TINY}\n{table}"));
    let (drive, layer) = (with(table).unwrap(), crate::layer::find("drive-managed").unwrap());
    let given = |drive: &Drive, set: &[(String, String)]| -> Vec<String> {
        let all = layer.resolve_on(drive, set).unwrap();
        all.given().map(|(key, text)| format!("{key}={text}")).collect()
    };
    assert_eq!(given(&drive, &[]), ["cache_percent=2", "append_time=24780us"]);
    assert_eq!(given(&drive, &[("cache_percent".into(), "4".into())]), ["cache_percent=4", "append_time=24780us"]);
    assert_eq!(given(&drive.at("translation.append_time", "low").unwrap(), &[])[1], "append_time=5ms");
    assert!(crate::layer::find("vguard").unwrap().resolve_on(&drive, &[]).unwrap().given().next().is_none());
    for (from, to, message) in [
        ("value = 2", "value = 4", "low and high on either side"),
        ("[translation]\nlayer", "[translation]\nlayre", "missing field `layer`"),
    ] {
        let error = with(&table.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let wrong = with(&table.replace("cache_percent", "cash_percent")).unwrap();
    assert!(layer.resolve_on(&wrong, &[]).unwrap_err().to_string().contains("did you mean `cache_percent`"));
}

#[test]
fn every_product_has_a_layer_with_parameters_that_there_are() {
    for drive in DRIVES.iter().map(|(name, _)| Drive::load(name).unwrap()).filter(|drive| drive.translation.is_some()) {
        let layer = crate::layer::as_sold(&drive).unwrap();
        let parameters = layer.resolve_on(&drive, &[]).unwrap();
        let host = (layer.capacity)(&drive, &parameters).unwrap().host_sectors * 512;
        let terabytes = catalogue::find(&drive.name).and_then(|own| own.terabytes);
        if let Some(terabytes) = terabytes {
            assert!((0.999..1.02).contains(&(host as f64 / terabytes / 1e12)), "{}: {host} bytes", drive.name);
        }
    }
}

#[test]
fn presets_can_be_had_at_both_ends_of_every_range() {
    for drive in DRIVES.iter().map(|(name, _)| Drive::load(name).unwrap()) {
        for key in drive.ranges().map(|setting| &setting.key) {
            for end in RANGE_ENDS {
                let at = drive.at(key, end).unwrap();
                assert_eq!(Drive::load(&at.name).unwrap().settings, at.settings);
            }
        }
    }
}

#[test]
fn a_range_of_the_shingling_law_changes_the_law() {
    let (_, tiny) = DRIVES.iter().find(|(name, _)| *name == "tiny").unwrap();
    let ranged = tiny.replace("cw_degrees = { value = 10.0", "cw_degrees = { low = 2.0, value = 10.0, high = 12.0");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ranged.toml");
    std::fs::write(&path, ranged).unwrap();
    let drive = Drive::load(path.to_str().unwrap()).unwrap();
    let ends = RANGE_ENDS.map(|end| format!("{:?}", drive.at("interference.cw_degrees", end).unwrap().interference));
    assert_ne!(ends[0], ends[1]);
    assert!(ends.iter().all(|end| *end != format!("{:?}", drive.interference)));
}

#[test]
fn a_missing_drive_is_named() {
    assert!(Drive::load("no-such").unwrap_err().to_string().contains("smrkit drives lists the names"));
    assert!(Drive::load("/no/such.toml").unwrap_err().to_string().contains("check the path"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [0xff, 0xfe, 0x00]).unwrap();
    assert!(Drive::load(file.path().to_str().unwrap()).is_err());
    std::fs::write(file.path(), TINY).unwrap();
    assert_eq!(Drive::load(file.path().to_str().unwrap()).unwrap().name, "tiny");
}

#[test]
fn surfaces_may_differ_in_length() {
    let text = TINY.replacen("track_sectors = 64", "track_sectors = [64, 60]", 1);
    let drive = Drive::parse(Path::new("test.toml"), &text).unwrap();
    let g = &drive.geometry;
    assert_eq!((g.zones[0].track_sectors, g.zones[1].track_sectors), (64, 60));
}

#[test]
fn a_buffer_is_off_unless_asked_for() {
    assert!(matches!(Drive::load("tiny").unwrap().clock, DriveClock::Mechanical(_)));
    let text = TINY.to_owned() + "write_cache_bytes = { value = 65536, source = \"x\" }\n";
    for text in [text.as_str(), BUFFERED] {
        assert!(matches!(Drive::parse(Path::new("t"), text).unwrap().clock, DriveClock::Buffered(_)));
    }
}

/// Numbers that files have held before, on purpose or not.
const ODD: [&str; 14] = [
    "0",
    "1",
    "-1",
    "3",
    "65",
    "4294967295",
    "4294967296",
    "281474976710656",
    "9223372036854775807",
    "nan",
    "inf",
    "-inf",
    "1e300",
    "\"x\"",
];

#[test]
fn a_flush_waits_for_the_write_cache() {
    let Drive { geometry: g, mut clock, .. } = Drive::parse(Path::new("t"), BUFFERED).unwrap();
    let completed = clock.access(&g, Nanos::ZERO, true, Pba(100), 1);
    assert!(completed < Nanos::from_millis(1.0));
    let done = clock.flush(&g, completed);
    assert!(done > completed && matches!(&clock, DriveClock::Buffered(own) if own.busy_until == done));
    assert_eq!(clock.flush(&g, done), done);
}

proptest::proptest! {
    #![proptest_config(ProptestConfig::with_cases(count::count_from("SMRKIT_DRIVE_FILES", 200)))]

    /// No number in any place of a drive file makes anything panic; what loads can be used.
    #[test]
    fn no_drive_file_panics(which in 0usize..4, at: proptest::sample::Index, odd in 0usize..14, capacity: u64) {
        let text = [TINY, DRIVES[0].1, DRIVES[2].1, BUFFERED][which];
        let starts: Vec<usize> = text
            .char_indices()
            .filter(|&(i, c)| c.is_ascii_digit() && !text[..i].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_'))
            .map(|(i, _)| i)
            .collect();
        let start = starts[at.index(starts.len())];
        let length = text[start..].find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(1);
        let text = format!("{}{}{}", &text[..start], ODD[odd], &text[start + length..]);
        let Ok(mut drive) = Drive::parse(Path::new("t"), &text) else { return Ok(()) };
        let end = drive.geometry.sectors;
        let mut now = Nanos::ZERO;
        for pba in [0, end / 2, end - 1] {
            for n in [1, (end - pba).min(100), end - pba] {
                now = drive.clock.access(&drive.geometry, now, n % 2 == 0, Pba(pba), n);
                drive.interference.destroyed(&drive.geometry, Pba(pba), n.min(1000), |_, _| ());
            }
        }
        now += drive.clock.estimate_at(&drive.clock.position(&drive.geometry, Pba(end / 3)), now);
        let _ = drive.clock.flush(&drive.geometry, now);
        let _ = drive.average_seek();
        let _ = drive.with_capacity(capacity >> (capacity % 64));
    }
}

const BUFFERED: &str = r#"
name = "b"
summary = "s"
[geometry]
surfaces = { value = 2, source = "x" }
zones = { value = [{ tracks = 30, track_sectors = [20, 21], first_cylinder = 40 }, { tracks = 9, track_sectors = 8, first_cylinder = 2 }], source = "x" }
[interference]
did_sectors = { value = 7, source = "x" }
dpid_sectors = { value = 8, source = "x" }
writes = { value = 2, source = "x" }
[mechanical]
rpm = { value = 5400, source = "x" }
seek = { value = [[0.0, 1.0], [1.0, 2.0]], source = "x" }
switch_ms = { value = 1, source = "x" }
overhead_ms = { value = 0.5, source = "x" }
write_settle_ms = { value = 0.5, source = "x" }
skew_ms = { value = 3, source = "x" }
write_cache_bytes = { value = 4096, source = "x" }
write_cache_order = { value = "arrival", source = "x" }
read_ahead_bytes = { value = 8192, source = "x" }
bus_bytes_per_s = { value = 1e8, source = "x" }
[translation]
layer = { value = "drive-managed", source = "x" }
append_time = { value = "24.78ms", source = "x" }
map_every_writes = { value = 240, source = "x" }
"#;

/// The drive `tiny` with these keys for its interference.
fn with_interference(keys: &[&str]) -> Result<Interference, String> {
    let (from, to) = (TINY.find("[interference]").unwrap(), TINY.find("[mechanical]").unwrap());
    let keys: String =
        keys.iter().map(|key| format!("{}, source = \"x\" }}\n", key.replace(" = ", " = { value = "))).collect();
    let text = format!("{}[interference]\n{keys}{}", &TINY[..from], &TINY[to..]);
    Drive::parse(Path::new("t"), &text).map(|drive| drive.interference).map_err(|error| error.to_string())
}

#[test]
fn a_law_of_interference_is_given_whole_and_alone() {
    let distances = |writes| Interference::Distances { did: 5, dpid: 3, writes };
    for (keys, law) in [
        (&[][..], Interference::None),
        (&["blocks = 6"], Interference::Blocks { reach: 6 }),
        (&["tracks = 2"], Interference::Tracks { width: 2, band: None }),
        (&["tracks = 2", "band_tracks = 3"], Interference::Tracks { width: 2, band: Some(3) }),
        (&["did_sectors = 5", "dpid_sectors = 3"], distances(1)),
        (&["did_sectors = 5", "dpid_sectors = 3", "writes = 2"], distances(2)),
    ] {
        assert_eq!(with_interference(keys), Ok(law), "{keys:?}");
    }
    for angle in ["cw_degrees = 0.0", "cw_degrees = 359.9", "ccw_degrees = 359.9"] {
        let law = with_interference(&["inner_tracks = 2", "outer_tracks = 1", angle]);
        assert!(matches!(law, Ok(Interference::Physical(profile)) if profile.width() == 2));
    }
    for (keys, remedy) in [
        (&["did_sectors = 5"][..], "did_sectors and dpid_sectors go together"),
        (&["dpid_sectors = 5"], "did_sectors and dpid_sectors go together"),
        (&["inner_tracks = 2"], "inner_tracks and outer_tracks go together"),
        (&["outer_tracks = 2"], "inner_tracks and outer_tracks go together"),
        (&["blocks = 6", "tracks = 2"], "more than one form"),
        (&["tracks = 2", "did_sectors = 5"], "more than one form"),
        (&["blocks = 6", "inner_tracks = 2"], "more than one form"),
        (&["band_tracks = 3"], "band_tracks goes with tracks"),
        (&["blocks = 6", "band_tracks = 3"], "band_tracks goes with tracks"),
        (&["writes = 3"], "writes goes with did_sectors"),
        (&["blocks = 6", "writes = 3"], "writes goes with did_sectors"),
        (&["cw_degrees = 3.0"], "go with inner_tracks and outer_tracks"),
        (&["blocks = 6", "ccw_degrees = 3.0"], "go with inner_tracks and outer_tracks"),
        (&["inner_tracks = 2", "outer_tracks = 1", "cw_degrees = 360.0"], "below 360"),
        (&["inner_tracks = 2", "outer_tracks = 1", "ccw_degrees = -1.0"], "below 360"),
    ] {
        let error = with_interference(keys).unwrap_err();
        assert!(error.contains(remedy), "{keys:?}: {error}");
    }
}
