//! `smrkit reproduce caveat --quick` and `smrkit age`: what must hold on every seed does; files, errors, exit codes.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn smrkit(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_smrkit")).args(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_picture(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.contains("<svg") && !text.contains("NaN"))
}

#[test]
fn the_papers_figures_and_what_must_hold_on_every_seed() {
    let folder = tempfile::tempdir().unwrap();
    let figures = folder.path().join("figures");
    let arguments = ["reproduce", "caveat", "--quick", "--json", "-", "--figures", figures.to_str().unwrap()];
    let result = json(&smrkit(&arguments));
    let rows = result["rows"].as_array().unwrap();
    let verdicts = |part: &str| {
        let of = rows.iter().filter(|row| row["item"].as_str().unwrap().contains(part));
        of.map(|row| row["verdict"].as_str().unwrap()).collect::<Vec<_>>()
    };
    for (part, count) in [
        ("figure 2, row", 6),
        ("figure 3", 3),
        ("strict-append's first cleaning", 1),
        ("Caveat-Scriptor needs cleaning up to B", 1),
        ("NW at B", 1),
        ("longest event", 2),
        ("user data that the benchmarks leave", 1),
    ] {
        assert_eq!(verdicts(part), vec!["agree"; count], "{part}");
    }
    assert_eq!(verdicts("writes that wait for cleaning"), ["differs"], "the cleaner keeps ahead of the host here");
    assert_eq!(verdicts("space over time / C"), ["not-comparable"], "the run ends at B, before which C may not be");
    let derived = |part: &str| {
        let of = rows.iter().filter(|row| row["item"].as_str().unwrap().contains(part));
        of.map(|row| row["basis"] == "derived").collect::<Vec<_>>()
    };
    assert_eq!(derived("figure 2, row"), [true; 6], "the figures have no numbers");
    assert_eq!(derived("longest event"), [false; 2]);
    for name in ["caveat-figure-4", "caveat-figures-4-b-and-c", "caveat-figure-5"] {
        assert!(is_picture(&figures.join(format!("{name}.svg"))), "{name}");
    }
}

#[test]
fn ageing_in_a_directory_and_in_simulation_is_one_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().to_str().unwrap();
    // As much as the directory's file system would take is not known here: a fill that both can keep.
    let common = ["--bytes", "30MB", "--size-factor", "0.001", "--seed", "4", "--json", "-"];
    let simulated = json(&smrkit(&[&["age", "--simulate", "caveat", "--size", "2GB"], &common[..]].concat()));
    let real = json(&smrkit(&[&["age", directory], &common[..]].concat()));
    for key in ["created", "deleted"] {
        assert_eq!(simulated["ager"][key], real["ager"][key], "{key}");
    }
    let fill = [&["--fill", "1GB"], &common[..]].concat();
    let of = |size| json(&smrkit(&[&["age", "--simulate", "strict-append", "--size", size], &fill[..]].concat()));
    let (small, large) = (of("2GB"), of("3GB"));
    assert_eq!(small["setting"]["target_bytes"], 1_000_000_000);
    assert_eq!(small["ager"], large["ager"], "a fill by size is one sequence on any disk");
    assert_eq!(simulated["setting"]["sizes"], "reconstruction");
    let last = &simulated["last"];
    let sum =
        ["readable_bytes", "not_writable_bytes", "write_once_bytes", "writable_bytes"].map(|key| last[key].as_u64());
    assert!(sum.into_iter().flatten().sum::<u64>().abs_diff(2_000_000_000) < 65_536, "{last}");
    let again = smrkit(&["age", directory, "--bytes", "1MB"]);
    assert_eq!(again.status.code(), Some(2), "{}", String::from_utf8_lossy(&again.stderr));
}

#[test]
fn what_cannot_be_is_refused_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("sizes.csv");
    std::fs::write(&bad, "1,50\n1,100\n").unwrap();
    let bad = bad.to_str().unwrap();
    for (arguments, code, words) in [
        (vec!["age"], 2, "--simulate"),
        (vec!["age", "/nowhere", "--bytes", "1MB"], 3, "check the path"),
        (vec!["age", "--simulate", "caveat", "--sizes", bad], 3, "must ascend"),
        (vec!["age", "--simulate", "caveat", "--granule", "3000"], 2, "divisor"),
        (vec!["age", "--simulate", "caveat", "--size", "9TB"], 4, "larger drive"),
        (vec!["age", "--simulate", "strict-append", "--size", "40MB"], 4, "bands"),
        (vec!["age", "--simulate", "caveat", "--fill", "0"], 2, "--fill"),
        (vec!["age", "--simulate", "caveat", "--fill", "200GB"], 2, "lower --fill"),
        (vec!["age", "--simulate", "caveat", "--rate", "0"], 2, "--rate"),
        (vec!["age", "--simulate", "caveat", "--interleave", "0"], 2, "blocks"),
        (vec!["age", "--simulate", "caveat", "--placement", "worst-fit"], 2, "next-fit"),
    ] {
        let output = smrkit(&arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
    }
}
