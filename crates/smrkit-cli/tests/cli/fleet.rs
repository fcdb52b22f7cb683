//! `smrkit fleet`: its numbers are those of a closed form where there is one, and it refuses nonsense.

use serde_json::Value;

use super::{gives_the_same_bytes, smrkit};

const RAID5: &str =
    "fleet --disks 5 --code 4+1 --groups 1 --repair-rate 100M --exponential --delay 0s --latent 0 --afr 2% --json -";

#[test]
fn raid_5_loses_what_its_closed_form_says() {
    let answer: Value = serde_json::from_str(&smrkit(RAID5).done()).expect("standard output is JSON only");
    let fleet = &answer["fleets"][0];
    let repair_years = fleet["chunk_bytes"].as_f64().unwrap() / 1e8 / 3600.0 / 8766.0;
    // Two failures of five drives, the second while the first is repaired.
    let expected = 5.0 * 0.02 * 4.0 * 0.02 * repair_years;
    let found = fleet["losses"]["in_a_year"]["value"].as_f64().unwrap();
    assert!((found / expected - 1.0).abs() < 0.03, "{found}, expected {expected}");
    gives_the_same_bytes(RAID5);
}

#[test]
fn nonsense_is_refused_with_what_to_do() {
    for (arguments, words) in [
        ("--code 0+3", &["no data", "1+3"][..]),
        ("--code 8+0", &["nothing twice", "8+3"]),
        ("--code 8/3", &["8/3", "17+3"]),
        ("--code 300+3", &["256"]),
        ("--disks 10", &["8+3 needs 11 drives", "--disks", "narrower"]),
        ("--disks 12 --groups 1", &["--groups 1", "no multiple"]),
        ("--afr 0", &["--afr", "give more"]),
        ("--racks 4", &["--rack-loss"]),
        ("--throttle 0", &["--throttle 0", "leave it out"]),
        ("--repair-rate 1M --throttle 1M", &["--throttle"]),
        ("--drive st8000dm04", &["did you mean `ST8000DM004`"]),
        ("--load 3 --workload nonsense", &["nonsense"]),
        ("--workload nonsense", &["nonsense"]),
        ("--racks 2000 --rack-loss 1%", &["--racks 2000", "--disks 1000", "at most one"]),
        ("--drive hc680 --set zone-log.host=xfs,f2fs", &["--set", "2 fleets", "one value each"]),
    ] {
        smrkit(&format!("fleet {arguments}")).says(2, words);
    }
}

#[test]
fn drives_that_fail_faster_than_they_are_repaired_have_no_chance() {
    let out = smrkit("fleet --disks 100 --repair-rate 10k --afr 50%").done();
    assert!(out.starts_with("Loss: certain before long."), "{out}");
}
