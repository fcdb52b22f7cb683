use proptest::prelude::*;

use super::*;
use crate::drive::{Drive, DriveClock};
use crate::units::{Nanos, Pba};

/// A disk of two surfaces, made up.
const MODEL: &str = include_str!("../../../../../testdata/disksim/drive.model");
const SEEK: &str = include_str!("../../../../../testdata/disksim/drive.seek");
const SPECS: &str = include_str!("../../../../../testdata/disksim/drive.diskspecs");

/// The drive of a model, specs and a seek curve given as text.
fn disksim_texts(model: &str, specs: &str, seek: &str) -> Result<Imported, Error> {
    disksim_file(Path::new("drive.diskspecs"), &|path| {
        Ok(match path.extension().and_then(|ending| ending.to_str()) {
            Some("model") => model.into(),
            Some("seek") => seek.into(),
            _ => specs.into(),
        })
    })
}

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
    assert_eq!(g.sectors, (800 - 7 - 30) + (540 - 24));
    for lbn in 0..g.sectors {
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
            MODEL.replace("Sparing scheme used = 8", "Sparing scheme used = 11"),
            SPECS,
            SEEK,
            "drive.model:6",
            "give 0 to 10",
        ),
        (
            MODEL.replace("Last cylinder number = 9", "Last cylinder number = 9999999999"),
            SPECS,
            SEEK,
            "drive.model:11",
            "whole number",
        ),
        (MODEL.replacen("number = 0", "number = 10", 1), SPECS, SEEK, "drive.model:11", "give 10 or more"),
        (MODEL[..MODEL.len() / 2].to_string(), SPECS, SEEK, "drive.model:", "copy it again"),
        (MODEL.to_string(), SPECS, &SEEK[..34], "drive.seek:", "copy it again"),
        (MODEL.to_string(), SPECS, "Seek distances measured: 2\n5, 1.0\n4, 2.0\n", "drive.seek:3", "in order"),
        (MODEL.to_string(), "disksim_disk X { Model = nothing }", SEEK, "drive.diskspecs:1", "Model = source"),
        (MODEL.to_string(), "", SEEK, "drive.diskspecs:1", "no block"),
        (MODEL.to_string(), "source drive.diskspecs", SEEK, "drive.diskspecs:1", "no block"),
        (MODEL.replace("dm_layout_g1 {", "dm_layout_g4 {"), SPECS, SEEK, "drive.model:4", "give one of dm_layout_g1"),
        (MODEL.replace("scheme = 0,", "scheme = 3,"), SPECS, SEEK, "drive.model:5", "give 0, 1 or 2"),
        (
            MODEL.replace("Seek type = extracted", "Access time type = averageRotation, Seek type = extracted"),
            SPECS,
            SEEK,
            "drive.model:36",
            "trackSwitchPlusRotation",
        ),
        (
            MODEL.replace("Seek type = extracted", "HPL seek equation values = [ 300, 3.8, 0.3 ], Seek type = hpl"),
            SPECS,
            SEEK,
            "drive.model:36",
            "give at least 6 numbers",
        ),
    ];
    for (model, specs, seek, place, remedy) in cases {
        let error = disksim_texts(&model, specs, seek).unwrap_err().to_string();
        assert!(error.starts_with(place) && error.contains(remedy), "{error}");
    }
}

/// The disk of `MODEL` with other texts in place of some that it has.
fn with(changes: &[(&str, &str)]) -> Drive {
    let mut model = MODEL.to_string();
    for (from, to) in changes {
        assert!(model.contains(from), "{from}");
        model = model.replace(from, to);
    }
    let imported = disksim_texts(&model, SPECS, SEEK).unwrap_or_else(|error| panic!("{error}"));
    Drive::parse(Path::new("drive.toml"), &imported.text).unwrap_or_else(|error| panic!("{error}\n{}", imported.text))
}

/// Raw sectors of a zone of 8 tracks of 10 sectors on two surfaces that hold data under a sparing scheme, by the words of
/// DiskSim's manual: 3 spares each, the slips given, 4 empty in front.
fn usable(scheme: u64, slips: &[u64]) -> Vec<u64> {
    let is_slipped = |raw: &u64| slips.contains(&if scheme == 1 { raw / 10 } else { *raw });
    // Sectors that share spares, how many of those they have, and whether slips use them.
    let (stretch, spares, shared) = match scheme {
        0 | 7 => (80, 0, true),
        1 => (80, 30, true),
        2 | 5 => (20, 3, true),
        4 | 6 => (20, 3, false),
        3 => (10, 3, true),
        8 => (40, 3, true),
        9 => (80, 3, true),
        _ => (80, 3 + slips.len(), true),
    };
    let mut all = Vec::new();
    for start in (0..80).step_by(stretch) {
        let raw: Vec<u64> = (start..start + stretch as u64).filter(|raw| !shared || !is_slipped(raw)).collect();
        let count = stretch - spares;
        let kept = if matches!(scheme, 5 | 6) { &raw[raw.len() - count..] } else { &raw[..count.min(raw.len())] };
        all.extend(kept.iter().filter(|raw| !is_slipped(raw)));
    }
    all.split_off(4)
}

/// The description of a disk of one such zone.
fn one_zone(scheme: u64, empty: u64, spares: u64, slips: &[u64]) -> String {
    let zone = format!(
        "Zones = [ dm_layout_g1_zone {{ First cylinder number = 3, Last cylinder number = 6, Blocks per track = 10, \
         Offset of first block = 0, Empty space at zone front = {empty}, Number of spares = {spares}, slips = {slips:?} }} ] }},"
    );
    let (from, to) = (MODEL.find("Zones = [").unwrap(), MODEL.find("Mechanical Model").unwrap());
    format!("{}{zone}\n{}", &MODEL[..from], &MODEL[to..]).replace("scheme used = 8", &format!("scheme used = {scheme}"))
}

#[test]
fn spares_and_empty_space_leave_room_in_their_zone() {
    for scheme in 0..=10 {
        for (empty, spares) in [(0, 80), (79, 0), (80, 3), (75, 9), (81, 0), (0, 79), (u64::MAX, u64::MAX)] {
            match disksim_texts(&one_zone(scheme, empty, spares, &[]), SPECS, SEEK) {
                Ok(imported) => drop(Drive::parse(Path::new("drive.toml"), &imported.text)),
                Err(error) => assert!(error.to_string().starts_with("drive.model:"), "{error}"),
            }
        }
        if (1..=6).contains(&scheme) {
            let error = disksim_texts(&one_zone(scheme, 0, 20, &[]), SPECS, SEEK).unwrap_err().to_string();
            assert!(error.ends_with("give fewer"), "scheme {scheme}: {error}");
        }
    }
}

#[test]
fn every_sparing_scheme_lays_out_as_the_manual_says() {
    for scheme in 0..=10 {
        let slips: &[u64] = if scheme == 0 {
            &[]
        } else if scheme == 1 {
            &[2]
        } else {
            &[5, 33, 34]
        };
        let model = one_zone(scheme, 4, 3, slips);
        for mapping in 0..3 {
            let model = model.replace("mapping scheme = 0", &format!("mapping scheme = {mapping}"));
            let imported = disksim_texts(&model, SPECS, SEEK).unwrap_or_else(|error| panic!("{error}"));
            let g = Drive::parse(Path::new("drive.toml"), &imported.text).unwrap().geometry;
            let expected = usable(scheme, slips);
            assert_eq!(g.sectors, expected.len() as u64, "scheme {scheme}\n{}", imported.text);
            for (lbn, raw) in (0..).zip(expected) {
                let (place, cylinder) = (g.place(Pba(lbn)), 3 + raw / 20);
                let backward = [false, raw / 20 % 2 == 1, cylinder % 2 == 1][mapping];
                let head = if backward { 1 - raw / 10 % 2 } else { raw / 10 % 2 };
                let found = (u64::from(place.cylinder), u64::from(place.surface), u64::from(place.sector));
                assert_eq!(found, (cylinder, head, raw % 10), "scheme {scheme}, mapping {mapping}, LBN {lbn}");
            }
        }
    }
}

/// The seek time of a drive over a distance, in ms.
fn seek_ms(drive: &Drive, cylinders: u32) -> f64 {
    drive.clock.mechanical().unwrap().curve().ns(cylinders) as f64 / 1e6
}

#[test]
fn each_seek_equation_gives_its_times() {
    const CURVE: &str = "Seek type = extracted,\n      Full seek curve = drive.seek,";
    let three = "Single cylinder seek time = 1, Average seek time = 8, Full strobe seek time = 15, ";
    let hpl = "HPL seek equation values = [ 300, 3.81, 0.33, 7.75, 0.0059, -1.0 ], # a comment\n";
    let ten = "First ten seek times = [ 2.89, 3.68, 3.81, 3.98, 4.27, 4.65, 4.52, 4.65, 4.82, 4.99 ], ";
    let all = ("Number of cylinders = 20", "Number of cylinders = 2051");
    let times = |to: &str, distances: [u32; 4]| {
        // The last zone ends where the disk does.
        let drive = with(&[(CURVE, to), all, ("Last cylinder number = 19", "Last cylinder number = 2050")]);
        distances.map(|cylinders| (seek_ms(&drive, cylinders) * 1e4).round() / 1e4)
    };
    let by_root = |distance: f64| 3.81 + 0.33 * distance.sqrt();
    let round = |ms: f64| (ms * 1e4).round() / 1e4;
    assert_eq!(
        times(&format!("Seek type = hplplus10, {hpl}{ten}"), [1, 7, 11, 300]),
        [2.89, 4.52, round(by_root(11.0)), 7.75 + 0.0059 * 300.0]
    );
    let one = hpl.replace("-1.0", "2.5");
    assert_eq!(
        times(&format!("Seek type = hpl, {one}"), [1, 2, 299, 2000]),
        [2.5, round(by_root(2.0)), round(by_root(299.0)), 19.55]
    );
    assert_eq!(times(&format!("{three}Seek type = linear,"), [1, 342, 683, 2050]), [1.0, 4.5, 8.0, 15.0]);
    // a = (-10 + 15·8 - 5·15) / (3·√2051), b = (7 - 15·8 + 8·15) / (3·2051)
    let lee = |x: f64| 1.0 + 35.0 / (3.0 * 2051f64.sqrt()) * (x - 1.0).sqrt() + 7.0 / (3.0 * 2051.0) * (x - 1.0);
    assert_eq!(
        times(&format!("{three}Seek type = curve,"), [1, 30, 63, 2050]),
        [1.0, round(lee(30.0)), round(lee(63.0)), round(lee(2050.0))]
    );
    assert_eq!(times("Seek type = constant, Constant seek time = 4.5,", [1, 2, 600, 2050]), [4.5; 4]);
}

#[test]
fn skews_may_be_shares_of_a_revolution_and_may_be_left_out() {
    let units = "Rangesize for sparing = 2, Skew units = revolutions";
    let drive = with(&[
        ("Rangesize for sparing = 2", units),
        ("Skew for track switch = 4.000000", "Skew for track switch = 0.25"),
        ("            Skew for cylinder switch = 8.000000,\n", ""),
        ("Offset of first block = 5", "Skew units = sectors, Offset of first block = 5"),
    ]);
    // The first zone's first track begins at LBN -7, and has slipped 2.
    let next = drive.geometry.place(Pba(31));
    assert_eq!((next.cylinder, next.surface, next.sector), (0, 1, 0));
    assert!(next.angle.abs_diff(1 << 62) < 1 << 30, "a quarter: {}", next.angle);
    let last = with(&[]).geometry.place(Pba(900));
    assert_eq!(drive.geometry.place(Pba(900)), last);
}

#[test]
fn parts_may_lie_in_other_files_or_in_place() {
    let layout = MODEL.find("dm_layout_g1 {").unwrap()..MODEL.find("   Mechanical Model").unwrap();
    let model = MODEL.replace(&MODEL[layout.clone()], "source drive.layout,\n");
    let text = MODEL[layout].trim_end().trim_end_matches(',').to_string();
    let read = |path: &Path| {
        Ok(match path.extension().and_then(|ending| ending.to_str()) {
            Some("model") => model.clone(),
            Some("layout") => text.clone(),
            Some("seek") => SEEK.into(),
            Some("parv") => "source drive.bus\nsource drive.diskspecs\ninstantiate [ a, b .. c ] as X".into(),
            Some("bus") => "disksim_bus B { Read block transfer time = 0.07 }".into(),
            _ => SPECS.into(),
        }
        .into_bytes())
    };
    let imported = disksim_file(Path::new("drive.parv"), &read).unwrap();
    assert!(imported.text.contains("drive.bus:1") && imported.text.contains("drive.layout:"), "{}", imported.text);
    let body = |text: &str| text[text.find("value = [").unwrap()..].split("  {").nth(1).unwrap().to_string();
    let plain = disksim_texts(MODEL, SPECS, SEEK).unwrap().text;
    assert_eq!(body(&imported.text).split('#').next(), body(&plain).split('#').next());
    let inline = SPECS.replace("source drive.model", MODEL.split(" # end").next().unwrap());
    assert_eq!(disksim_texts("", &inline, SEEK).unwrap().text.lines().count(), plain.lines().count());
}

#[test]
fn set_ups_of_other_devices_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("sleds.parv", "instantiate [ a ] as B\nmemsmodel_mems sleds { Number of sleds = 1 }\n");
    let error = disksim_file(&folder.path().join("sleds.parv"), &|path| std::fs::read(path)).unwrap_err().to_string();
    assert!(error.contains("sets up no disk"), "{error}");
    for (name, text) in [("drive.diskspecs", SPECS), ("drive.model", MODEL), ("drive.seek", SEEK)] {
        write(name, text);
    }
    let names: Vec<String> = disksim(folder.path()).unwrap().into_iter().map(|drive| drive.name).collect();
    assert_eq!(names, ["drive"]);
}

#[test]
fn reconnecting_to_the_bus_takes_what_the_specs_say() {
    let specs = SPECS.replace("Fast write level = 1", "Fast write level = 0, Write completion overhead = 0.02") + "\n";
    let specs = specs.replace(
        "Read completion overhead = 0.05",
        "Read completion overhead = 0.05, First reselect overhead = 0.16, Other reselect overhead = 0.13",
    );
    let text = |specs: &str| disksim_texts(MODEL, specs, SEEK).unwrap().text;
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).map(str::to_string);
        line.map(|line| line.split("value = ").nth(1).unwrap().split(", source").next().unwrap().to_string())
    };
    let plain = text(&specs);
    assert_eq!(value(&plain, "read_reselect_ms").as_deref(), Some("0.16"));
    assert_eq!(value(&plain, "write_completion_ms").as_deref(), Some("0.18"));
    assert_eq!(value(&plain, "media_write_ms").as_deref(), Some("[0.7, 0.8]"));
    let twice = specs.replace(
        "disksim_disk MADE_UP {",
        "disksim_disk MADE_UP { Extra write disconnect = 1, Extradisc command overhead = 0.64,",
    );
    assert_eq!(value(&text(&twice), "write_completion_ms").as_deref(), Some("0.15"));
    assert_eq!(value(&text(&twice), "media_write_ms").as_deref(), Some("0.64"));
    let never = specs.replace("disksim_disk MADE_UP {", "disksim_disk MADE_UP { Never disconnect = 1,");
    assert_eq!(value(&text(&never), "read_reselect_ms"), None);
    assert_eq!(value(&text(&never), "write_completion_ms").as_deref(), Some("0.02"));
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
        let end = drive.geometry.sectors;
        let mut now = Nanos::ZERO;
        for (pba, n) in [(0, end.min(500)), (end / 2, 1), (end - 1, 1)] {
            now = drive.clock.access(&drive.geometry, now, n == 1, Pba(pba), n);
        }
    }
}

#[test]
fn a_zone_is_written_with_its_spares_front_and_slips() {
    let zone = |scheme, empty, slips: &[u64]| {
        let text = disksim_texts(&one_zone(scheme, empty, 3, slips), SPECS, SEEK).unwrap().text;
        let line = text.lines().find(|line| line.starts_with("  { first_cylinder")).unwrap().to_string();
        let rest = line.split_once("cylinder_skew = 0").unwrap();
        assert_eq!(rest.0, "  { first_cylinder = 3, tracks = 4, track_sectors = 10, offset = 0, head_skew = 0, ");
        rest.1.split_once(" }").unwrap().0.to_string()
    };
    for (scheme, empty, slips, text) in [
        (0, 0, &[][..], ""),
        (7, 4, &[][..], ", front = 4"),
        (0, 4, &[2, 9], ", front = 5, slips = [2, 9]"),
        (1, 0, &[1], ", spare_sectors = 30, spare_tracks = 8, slips = [[10, 10]]"),
        (2, 0, &[], ", spare_sectors = 3, spare_tracks = 2"),
        (3, 8, &[], ", front = 11, spare_sectors = 3, spare_tracks = 1"),
        (8, 4, &[2], ", front = 5, spare_sectors = 3, spare_tracks = 4, slips = [2]"),
        (8, 40, &[2], ", front = 43, spare_sectors = 3, spare_tracks = 4, slips = [2]"),
        (8, 40, &[42, 43], ", front = 45, spare_sectors = 3, spare_tracks = 4, slips = [42, 43]"),
        (9, 0, &[], ", spare_sectors = 3, spare_tracks = 8"),
        (10, 0, &[2, 9], ", spare_sectors = 5, spare_tracks = 8, slips = [2, 9]"),
        (4, 0, &[2], ", slips = [2, [17, 3], [37, 3], [57, 3], [77, 3]]"),
        (5, 4, &[2], ", front = 7, slips = [2, [0, 2], [20, 3], [40, 3], [60, 3]]"),
        (6, 0, &[2], ", slips = [2, [0, 3], [20, 3], [40, 3], [60, 3]]"),
    ] {
        assert_eq!(zone(scheme, empty, slips), text, "scheme {scheme}, {empty} empty, {slips:?}");
    }
}

/// The drive file of the description with other specs, as lines without their sources.
fn lines(changes: &[(&str, &str)]) -> Vec<String> {
    let mut specs = SPECS.to_string();
    for (from, to) in changes {
        assert!(specs.contains(from), "{from}");
        specs = specs.replace(from, to);
    }
    let text = disksim_texts(MODEL, &specs, SEEK).unwrap().text;
    text.lines().map(|line| line.split_once(", source").map_or(line, |line| line.0).replace("{ value = ", "")).collect()
}

#[test]
fn each_word_of_the_specs_decides_its_own_line() {
    let bulk = "Bulk sector transfer time = 0.05";
    let ahead = "Buffer continuous read = 3";
    for (from, to, key, value) in [
        (bulk, bulk, "bus_bytes_per_s", Some("10240000")),
        (bulk, "Bulk sector transfer time = 0", "bus_bytes_per_s", None),
        (ahead, ahead, "read_ahead_bytes", Some("8192")),
        (ahead, ahead, "segment_bytes", Some("16384")),
        (ahead, "Buffer continuous read = 0", "read_ahead_bytes", None),
        (ahead, "Buffer continuous read = 1", "read_ahead_to", Some("\"track\"")),
        (ahead, "Buffer continuous read = 4", "read_ahead_to", Some("\"next-track\"")),
        ("Maximum read-ahead (blks) = 16", "Maximum read-ahead (blks) = 99", "read_ahead_bytes", Some("16384")),
        ("Maximum read-ahead (blks) = 16,", "", "read_ahead_bytes", Some("16384")),
        ("Enable caching in buffer = 1", "Enable caching in buffer = 0", "read_ahead_bytes", None),
        ("Enable caching in buffer = 1,", "", "read_ahead_bytes", Some("8192")),
        ("Number of buffer segments = 2", "Number of buffer segments = 2", "segments", Some("2")),
        ("Number of buffer segments = 2", "Number of buffer segments = 1", "segments", None),
        ("Number of buffer segments = 2", "Number of buffer segments = 5000", "segments", Some("4096")),
        ("Read-ahead over requested = 0", "Read-ahead over requested = 0", "keeps_requested", Some("true")),
        ("Read-ahead over requested = 0", "Read-ahead over requested = 1", "keeps_requested", Some("false")),
        ("Read-ahead over requested = 0,", "", "keeps_requested", None),
        ("Fast write level = 1", "Fast write level = 1", "write_cache_bytes", Some("16384")),
        ("Fast write level = 1", "Fast write level = 0", "write_cache_bytes", None),
        ("write segments = 1", "write segments = 3", "write_cache_bytes", Some("49152")),
        ("water mark = 0.0", "water mark = 0.0", "watermark", None),
        ("water mark = 0.0", "water mark = 0.5", "watermark", Some("0.5")),
        ("water mark = 0.0", "water mark = 1.5", "watermark", Some("1")),
        ("water mark = 0.0", "water mark = 0.5, Set watermark by reqsize = 0", "watermark", Some("1")),
        ("water mark = 0.0", "water mark = 0.5, Set watermark by reqsize = 1", "watermark", Some("0.5")),
        (bulk, "Read any free blocks = 1", "reads_passing", Some("true")),
        (bulk, "Read any free blocks = 0", "reads_passing", None),
        (bulk, bulk, "read_hit_ms", Some("[0.1, 0.2]")),
        (bulk, bulk, "read_miss_ms", Some("[0.5, 0.6]")),
        (bulk, bulk, "write_ms", Some("[0.3, 0.4]")),
        (bulk, bulk, "media_write_ms", Some("[0.7, 0.8]")),
        (bulk, "Time scale for overheads = 2, Per-request overhead time = 1", "read_hit_ms", Some("[1.2, 1.4]")),
        (bulk, bulk, "read_completion_ms", Some("0.05")),
        (bulk, "Data preparation overhead = 0.5, Time scale for overheads = 2", "read_completion_ms", Some("1.1")),
        (bulk, "Read any free blocks = 1", "write_completion_ms", None),
        (bulk, "Write completion overhead = 0.25, First reselect overhead = 1", "write_completion_ms", Some("0.25")),
        (bulk, "First reselect overhead = 1", "read_reselect_ms", Some("1")),
        (bulk, "First reselect overhead = 1, Never disconnect = 1", "read_reselect_ms", None),
        (bulk, "First reselect overhead = 1, Never disconnect = 0", "read_reselect_ms", Some("1")),
        (
            "Fast write level = 1",
            "Fast write level = 0, Write completion overhead = 0.25, First reselect overhead = 1",
            "write_completion_ms",
            Some("1.25"),
        ),
        (
            "Fast write level = 1",
            "Fast write level = 0, Extra write disconnect = 1, Extradisc command overhead = 3, Other reselect overhead = 2",
            "write_completion_ms",
            Some("2"),
        ),
        ("Fast write level = 1", "Fast write level = 1, Minimum seek delay = 0.5", "write_data_ms", None),
        ("Fast write level = 1", "Fast write level = 0", "write_data_ms", Some("0")),
        ("Fast write level = 1", "Fast write level = 0, Minimum seek delay = 0.5", "write_data_ms", Some("0.5")),
        (
            "Fast write level = 1",
            "Fast write level = 0, Extra write disconnect = 1, Extradisc command overhead = 3, Extradisc disconnect overhead = 0.25, \
             Extradisc inter-disconnect delay = 0.5, Extradisc 2nd disconnect overhead = 1, Minimum seek delay = 2",
            "write_data_ms",
            Some("3.75"),
        ),
        ("Fast write level = 1", "Fast write level = 0, Low (write) water mark = 1", "write_watermark", Some("1")),
        ("Fast write level = 1", "Fast write level = 1, Low (write) water mark = 1", "write_watermark", None),
        (bulk, "Extra write disconnect = 1, Extradisc command overhead = 3", "write_ms", Some("3")),
        (bulk, "Extra write disconnect = 1, Extradisc command overhead = 3", "read_hit_ms", Some("[0.1, 0.2]")),
        (bulk, "Extra write disconnect = 0", "write_ms", Some("[0.3, 0.4]")),
    ] {
        let lines = lines(&[(from, to)]);
        let found = lines.iter().find_map(|line| line.strip_prefix(&format!("{key} = ")));
        assert_eq!(found, value, "{key}, with {to}");
    }
    let passing = |value: u32| {
        lines(&[(bulk, &format!("Immediate buffer read = {value}"))]).join("\n").contains("read as they pass")
    };
    assert!(passing(1) && !passing(0));
}

#[test]
fn the_write_settle_is_taken_if_it_is_a_time() {
    for (settle, line) in [
        ("0.5", Some("write_settle_ms = { value = 0.5,")),
        ("0", None),
        ("-0.2", Some("# left out: a negative write settle of -0.2 ms")),
    ] {
        let model = MODEL.replace("settling delay = -0.2", &format!("settling delay = {settle}"));
        let text = disksim_texts(&model, SPECS, SEEK).unwrap().text;
        let found = text.lines().find(|line| line.contains("write_settle") || line.contains("write settle"));
        assert_eq!(found.is_some(), line.is_some(), "{settle}: {found:?}");
        assert!(line.is_none_or(|line| found.unwrap().starts_with(line)), "{found:?}");
    }
}

#[test]
fn lines_bend_at_a_third_of_the_stroke_if_that_is_a_seek() {
    let line = |average, cylinders| lines_through(1.0, average, 15.0, cylinders);
    assert_eq!(line(Some(8.0), 2051), [(1, 1.0), (683, 8.0), (2050, 15.0)]);
    assert_eq!(line(None, 2051), [(1, 1.0), (2050, 15.0)]);
    assert_eq!(line(Some(8.0), 6), [(1, 1.0), (2, 8.0), (5, 15.0)]);
    assert_eq!(line(Some(8.0), 5), [(1, 1.0), (4, 15.0)]);
    assert_eq!(line(Some(8.0), 1), [(1, 1.0), (2, 15.0)]);
}
