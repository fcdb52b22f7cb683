//! `smrkit drives import` and `validate`: on a made-up description, and on measured drives where they are at hand.

use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Ran, Scratch, command, finish, root, smrkit};

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

/// Runs `smrkit` with a text on standard input.
fn fed(arguments: &str, text: &str) -> Ran {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).and_then(|()| file.rewind()).unwrap();
    let mut command = command();
    command.args(arguments.split_whitespace()).stdin(file);
    finish(command)
}

#[test]
fn a_model_is_identified_by_its_string_and_in_what_tools_print() {
    let one: Value = serde_json::from_str(&smrkit("drives identify wd30efax-68n32n0 --json").done()).unwrap();
    assert_eq!([&one["model"], &one["recording"], &one["preset"]], ["WD30EFAX", "DM-SMR", "wd40efax"]);
    assert!(one["basis"] == "vendor statement" && one["source"].as_str().unwrap().contains("WD statement 2020-04"));
    let text = smrkit("drives identify st3000dm007").done();
    assert!(text.contains("shingled, drive-managed") && text.contains("st4000dm004 stands for it, at 3 TB"), "{text}");
    let text = smrkit("drives identify ST8000AS0022").done();
    assert!(text.contains("host-aware"), "{text}");

    let lsblk = "NAME MODEL\nsda  WDC WD40EFAX-68JH4N0\nsdb  ST4000VN008-2DR166\nsdc  WD40EFXX-1\n";
    let all: Value = serde_json::from_str(&fed("drives identify - --json", lsblk).done()).unwrap();
    let of = |key: &str| all.as_array().unwrap().iter().map(|disk| disk[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("recording"), ["DM-SMR", "CMR", "unknown"]);
    assert_eq!(of("model"), ["WD40EFAX", "ST4000VN008", "WD40EFXX"]);
    assert!(all[2]["nearest"].is_null());
    let mut blank = command();
    blank.args(["drives", "identify", " "]);
    finish(blank).says(2, &["no model is named"]);
    assert!(smrkit("drives identify WDS500G2B0A").done().contains("solid-state"));
    let mistyped = smrkit("drives identify WD40EFXA").done();
    assert!(mistyped.contains("did you mean WD40EFAX (WD Red)? That is shingled"), "{mistyped}");
    fed("drives identify -", "Filesystem 1K-blocks\n").says(3, &["names no disk"]);
    smrkit(concat!("drives identify ", env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).says(2, &["Cargo.toml`"]);
    for missing in ["nofile.txt", "./disks", "/nowhere/WD.log"] {
        smrkit(&format!("drives identify {missing}")).says(2, &[&format!("there is no file {missing}")]);
    }
    let family: Value = serde_json::from_str(&smrkit("drives identify HC620 --json").done()).unwrap();
    assert_eq!((&family["recording"], &family["preset"]), (&"HM-SMR".into(), &"hc620".into()));
    assert!(smrkit("drives identify STEL8000100").done().contains("the number of a USB product"));
}

#[test]
fn a_drive_is_taken_by_its_model_string() {
    let outcome = |drive: &str| -> Value {
        let mut command = command();
        command.args([
            "run",
            "--drive",
            drive,
            "--layer",
            "drive-managed",
            "--workload",
            "random-write:count=20",
            "--json",
            "-",
        ]);
        serde_json::from_str(&finish(command).done()).unwrap()
    };
    for drive in ["WDC WD40EFAX-68JH4N0", "wd40efax", "Wd40EfAx"] {
        assert_eq!(outcome(drive)["runs"][0]["drive"], "wd40efax");
    }
    let raw = |drive| outcome(drive)["runs"][0]["capacity"]["raw_sectors"].as_f64().unwrap();
    let share = raw("WD30EFAX") / raw("WD40EFAX");
    assert!((0.7499..0.7501).contains(&share), "{share}");
    smrkit("run --drive WD40EFXX")
        .says(2, &["no drive is called `WD40EFXX`", "`WD40EFAX` (WD Red: shingled", "`WD40EFRX` ("]);
    smrkit("run --drive WD40EFXA").says(2, &["did you mean `WD40EFAX` (WD Red: shingled, drive-managed (DM-SMR))? "]);
    smrkit("run --drive WD41EFAX").says(2, &["did you mean `WD40EFAX`?"]);
    let unknown = smrkit("run --drive no-such-drive").failed(2);
    assert!(unknown.contains("smrkit drives lists the names") && unknown.len() < 320, "{unknown}");
    smrkit("run --drive Canvio").says(2, &["did you mean `mq04abf100`?"]);
}

#[test]
fn a_layer_that_no_such_product_has_is_noted() {
    let notes = |drive: &str, layer: &str| {
        let run = format!("run --drive {drive} --layer {layer} --workload random-write:count=20");
        smrkit(&run).err.matches("is sold with no such layer").count()
    };
    assert_eq!((notes("wd40efrx", "drive-managed,rmw"), notes("hc620", "drive-managed")), (2, 1));
    for (drive, layer) in
        [("wd40efrx", "in-place"), ("hc620", "dm-zoned"), ("wd40efax", "drive-managed"), ("tiny", "rmw")]
    {
        assert_eq!(notes(drive, layer), 0, "{layer} on {drive}");
    }
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
        ("hp_c3323a", 0.25),
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

#[test]
fn the_job_that_measures_a_disk_is_one_for_fio_and_is_not_run_by_mistake() {
    let scratch = Scratch::new();
    let job = smrkit("drives measure /dev/sdX").done();
    assert!(
        job.contains("filename=/dev/sdX\n") && job.contains("[fall]\n") && job.contains("exec_prerun=sleep 600\n"),
        "{job}"
    );
    smrkit("drives measure /dev/sdX --run").says(2, &["--destroy /dev/sdX"]);
    smrkit("drives measure /dev/sdX --run --destroy /dev/sdY").says(2, &["--destroy /dev/sdX"]);
    let path = scratch.path("measure.fio");
    std::fs::write(&path, &job).unwrap();
    match std::process::Command::new("fio").args(["--parse-only", &path]).output() {
        Ok(parsed) => assert!(parsed.status.success(), "{parsed:?}"),
        Err(error) => eprintln!("skipped in part: fio: {error}"),
    }
    smrkit(&format!("drives fit {}", scratch.path(""))).says(3, &["no logs", "read-outer_lat.log"]);
    std::fs::write(scratch.path("read-outer_lat.log"), "8, 8130787, 0, 1048576, 0, 0\n").unwrap();
    smrkit(&format!("drives fit {}", scratch.path(""))).says(2, &["read-outer", "whole job"]);
}
