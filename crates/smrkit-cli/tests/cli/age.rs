//! `smrkit age`: a disk simulated and a directory age alike; errors and exit codes.

use serde_json::Value;

use super::{Scratch, kept::json, smrkit};

#[test]
fn ageing_in_a_directory_and_in_simulation_is_one_sequence() {
    let scratch = Scratch::new();
    let directory = scratch.path("");
    let common = "--bytes 30MB --size-factor 0.001 --seed 4";
    let simulated = json(&format!("age --simulate caveat --size 2GB {common}"));
    let real = json(&format!("age {directory} --any-directory 2GB {common}"));
    for key in ["created", "deleted"] {
        assert_eq!(simulated["ager"][key], real["ager"][key], "{key}");
    }
    let of = |size| json(&format!("age --simulate strict-append --size {size} --fill 1GB {common}"));
    let (small, large) = (of("2GB"), of("3GB"));
    assert_eq!(small["setting"]["target_bytes"], 1_000_000_000);
    assert_eq!(small["ager"], large["ager"], "a fill by size is one sequence on any disk");
    let last = &simulated["last"];
    let sum =
        ["readable_bytes", "not_writable_bytes", "write_once_bytes", "writable_bytes"].map(|key| last[key].as_u64());
    assert!(sum.into_iter().flatten().sum::<u64>().abs_diff(2_000_000_000) < 65_536, "{last}");
    smrkit(&format!("age {directory} --any-directory 2GB --bytes 1MB")).says(2, &["remove it"]);
}

#[test]
fn the_table_of_benchmarks_shows_their_rates() {
    let arguments = "age --simulate caveat --size 2GB --bytes 30MB --benchmarks";
    let (text, result) = (smrkit(arguments).done(), json(arguments));
    assert_eq!(result["alone"]["events_delayed"], 0);
    assert!(!text.contains("Cleaning delayed"), "{text}");
    let number = |value: &Value| value.as_f64().unwrap();
    for benchmark in result["benchmarks"].as_array().unwrap() {
        let mb_per_s = |bytes: &str| number(&benchmark[bytes]) * 1e3 / number(&benchmark["elapsed_ns"]);
        let rates = [mb_per_s("read_bytes"), mb_per_s("written_bytes")];
        let is_row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let shown = |at: usize| words.get(at + 1).and_then(|word| word.parse::<f64>().ok());
            words.first() == benchmark["name"].as_str().as_ref()
                && (0..2).all(|at| shown(at).is_some_and(|shown| (shown - rates[at]).abs() <= 0.01 * rates[at]))
        };
        assert!(text.lines().any(is_row), "{rates:?} in {text}");
    }
}

#[test]
fn placement_policies_meet_the_same_files_seed_by_seed() {
    let of = |more: &str| format!("age --simulate caveat --defragment --size 4GB --fill 85 --bytes 32GB {more}");
    let arguments = of("--placement next-fit,adjacent --seeds 3");
    let (text, result) = (smrkit(&arguments).done(), json(&arguments));
    let runs = result["runs"].as_array().unwrap();
    let who: Vec<_> =
        runs.iter().map(|run| (run["seed"].as_u64().unwrap(), run["placement"].as_str().unwrap())).collect();
    assert_eq!(who, [1, 2, 3].map(|seed| [(seed, "next-fit"), (seed, "adjacent")]).concat());
    for run in &runs[..2] {
        let alone = json(&of(&format!("--placement {} --seed 1", run["placement"].as_str().unwrap())));
        let number = |value: &Value| value.as_f64().unwrap();
        let moved = number(&alone["last"]["cleaned"]["moved_bytes"]) / number(&alone["last"]["written_bytes"]);
        assert!(moved > 0.0 && (number(&run["write_amplification"]) - 1.0 - moved).abs() < 1e-9, "{run} {moved}");
        assert_eq!(run["longest_stall_s"], json_s(&alone["alone"]["cleaning_delay_ns_max"]));
        let writable = number(&alone["last"]["writable_bytes"]) + number(&alone["last"]["write_once_bytes"]);
        assert!((number(&run["writable_percent"]) - writable / 4e7).abs() < 1e-9, "{run} {writable}");
    }
    for row in ["next-fit", "adjacent"] {
        assert!(text.lines().any(|line| line.starts_with(row) && line.contains(" ± ")), "{text}");
    }
    assert!(text.contains("adjacent beside next-fit, seed by seed: moved (% of written) "), "{text}");
}

/// Nanoseconds as seconds.
fn json_s(ns: &Value) -> Value {
    (ns.as_u64().unwrap() as f64 / 1e9).into()
}

#[test]
fn what_cannot_be_is_refused_with_its_remedy() {
    for (arguments, code, words) in [
        ("age", 2, "--simulate"),
        ("age /nowhere --bytes 1MB", 3, "check the path"),
        ("age / --bytes 1MB", 2, "not on a mounted SMRfs"),
        ("age / --any-directory 9000TB --bytes 1MB", 2, "to spare"),
        ("age --simulate strict-append --placement next-fit,adjacent", 2, "no placement policies"),
        ("age --simulate caveat --granule 3000", 2, "divisor"),
        ("age --simulate caveat --size 9TB", 4, "larger drive"),
        ("age --simulate strict-append --size 40MB", 4, "bands"),
        ("age --simulate caveat --fill 0", 2, "a fill of nothing: raise --fill"),
        ("age --simulate caveat --fill 0.7", 2, "write 70, or 0.7%"),
        ("age --simulate caveat --fill 200GB", 2, "lower --fill"),
        ("age --simulate caveat --interleave 0", 2, "blocks"),
        ("age --simulate caveat --placement worst-fit", 2, "next-fit"),
    ] {
        smrkit(arguments).says(code, &[words]);
    }
}
