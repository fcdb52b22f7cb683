//! `smrkit drives import` and `validate`: on a made-up description, and on measured drives where they are at hand.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Scratch, root, smrkit};

/// A disk of two surfaces, made up; a rotation takes 10 ms.
const MODEL: &str = include_str!("../../../../testdata/disksim/drive.model");

fn describe(folder: &Path) {
    std::fs::write(folder.join("drive.model"), MODEL).unwrap();
    std::fs::write(folder.join("drive.seek"), include_str!("../../../../testdata/disksim/drive.seek")).unwrap();
}

#[test]
fn a_description_becomes_a_drive_file_that_is_not_written_over() {
    let scratch = Scratch::new();
    describe(Path::new(&scratch.path("")));
    let import = format!("drives import disksim {0} --to {0}", scratch.path(""));
    assert!(smrkit(&import).done().contains("drive.toml: "));
    let shown = smrkit(&format!("drives show {}", scratch.path("drive.toml"))).done();
    assert!(shown.contains("mechanical.seek_cylinders") && shown.contains("drive.seek"), "{shown}");
    smrkit(&import).says(2, &["drive.toml", "--to"]);
    std::fs::write(scratch.path("drive.model"), MODEL.replace("= 6000", "= fast")).unwrap();
    let import = format!("drives import disksim {}", scratch.path(""));
    smrkit(&import).says(3, &["drive.model:40", "expected a number"]);
}

#[test]
fn a_drive_replays_what_was_measured_on_it() {
    let scratch = Scratch::new();
    describe(Path::new(&scratch.path("")));
    // Two reads of one sector, the second a rotation of 10 ms after the first, less the pause.
    std::fs::write(scratch.path("drive.trace"), "R Hit 381 1 6000.0 1000.0\nR Hit 381 1 9000.5 0.0\n").unwrap();
    let out = smrkit(&format!("drives validate {} --json", scratch.path(""))).done();
    let rows: Value = serde_json::from_str(&out).unwrap();
    let row = &rows[0];
    assert_eq!((row["drive"].as_str(), row["requests"].as_u64()), (Some("drive"), Some(2)));
    assert_eq!((row["slow_reads"].as_u64(), row["mean_measured_ms"].as_f64()), (Some(2), Some(7.50025)));
    // 5 cylinders in 0.9 ms, then on to an angle of half a turn, and the sector.
    assert_eq!(row["slow_reads_within_half_ms"].as_u64(), Some(1), "{out}");
    assert!((row["mean_ours_ms"].as_f64().unwrap() - (5.25 + 9.0) / 2.0).abs() < 0.01, "{out}");
    smrkit(&format!("drives validate {}", root().join("crates/smrkit/drives").display())).says(3, &["DRIVE.trace"]);
}

/// The folder of measured drives, where it is at hand.
fn measured() -> Option<PathBuf> {
    let measured = std::env::var_os("SMRKIT_MEASURED").map_or(root().join("../shared/measured"), PathBuf::from);
    let folder = measured.join("disksim");
    if !folder.is_dir() {
        eprintln!("skipped: no measured drives (SMRKIT_MEASURED)");
        return None;
    }
    Some(folder)
}

#[test]
fn measured_drives_come_as_close_as_the_best_simulation_of_them() {
    let Some(folder) = measured() else { return };
    let out = smrkit(&format!("drives validate {} --json", folder.display())).done();
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    let bars = [
        ("cheetah4LP", 0.32),
        ("barracuda", 0.35),
        ("atlas_III", 0.38),
        ("ibm18es", 0.19),
        ("hp_c3323a", 0.36),
        ("hp_c2490a", 0.31),
        ("dec_rz26", 0.395),
    ];
    for (drive, bar) in bars {
        let row = rows.iter().find(|row| row["drive"] == drive).unwrap_or_else(|| panic!("no {drive}"));
        assert!(row["rms_ms"].as_f64().unwrap() <= bar, "{row}");
        if drive == "hp_c2490a" {
            let share = row["slow_reads_within_half_ms"].as_f64().unwrap() / row["slow_reads"].as_f64().unwrap();
            assert!(share >= 0.75, "{row}");
        }
    }
}
