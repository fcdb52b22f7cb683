//! Several traces and workloads merged into one run.

use serde_json::Value;

use super::{Scratch, outcome, smrkit, testdata};

const TINY: &str = "--drive tiny --layer in-place";

fn sum(of: &Value, key: &str) -> u64 {
    of.as_array().unwrap().iter().map(|source| source[key].as_u64().unwrap()).sum()
}

#[test]
fn results_tell_merged_sources_apart() {
    let scratch = Scratch::new();
    let traces = [
        scratch.msr("a.csv", &[(0, 0, 4096), (10, 2 << 20, 4096), (20, 8192, 8192)]),
        scratch.msr("b.csv", &[(5, 4096, 512), (15, 0, 512)]),
    ];
    let both = format!("--layer in-place --trace {} --trace {}", traces[0], traces[1]);
    for (options, first_lba) in [("burst:1", 6144), ("time", 6144), ("none --sources zero", 0)] {
        let run = outcome(&format!("{both} --capacity auto --interleave {options}"));
        let (sources, counts) = (&run["sources"], &run["by_source"]);
        assert_eq!(run["interleave"], options.split(' ').next().unwrap());
        assert_eq!(sources[0]["trace"], traces[0]);
        assert_eq!((&sources[0]["first_lba"], &sources[1]["first_lba"]), (&0.into(), &first_lba.into()), "{options}");
        assert_eq!((&sources[0]["sectors"], &sources[1]["sectors"]), (&6144.into(), &2048.into()), "to the next MiB");
        assert_eq!((&counts[0]["requests"], &counts[1]["requests"]), (&3.into(), &2.into()));
        assert_eq!((&counts[0]["host_written_sectors"], &counts[1]["host_written_sectors"]), (&32.into(), &2.into()));
        assert_eq!(sum(sources, "requests"), run["requests"].as_u64().unwrap());
        assert_eq!(counts[1]["latency_ns"]["write"]["count"], 2);
        assert!(sources[0]["sha256"].as_str() != sources[1]["sha256"].as_str() && run["trace"].is_null());
        let room = run["capacity"]["host_sectors"].as_u64().unwrap();
        assert!(room >= first_lba + 2048 && room >= 6144, "{options}: {room}");
    }
}

#[test]
fn the_terminal_shows_sources_and_movements_where_there_are_any() {
    let text = |options: &str| {
        smrkit(&format!("run --drive tiny --layer in-place,rmw --set rmw.region_sectors=256 {options}")).done()
    };
    let alone = text("--workload mix:count=50");
    assert!(!alone.contains("source ") && !alone.contains("tracks crossed"), "{alone}");
    let two =
        text("--workload random-write:count=200 --workload random-read:count=100 --interleave burst:3 --movement");
    assert_eq!(two.lines().filter(|line| line.contains("#0 random-write:")).count(), 2, "a row a run: {two}");
    assert!(two.contains("#1 random-read:") && two.contains("strokes"), "{two}");
    assert!(two.lines().any(|line| line.starts_with("rmw") && line.contains(" all ")), "{two}");
    assert!(
        !two.lines().any(|line| line.starts_with("conventional (CMR)") && line.contains(" all ")),
        "the host alone: {two}"
    );
}

#[test]
fn one_source_alone_has_no_keys_of_several() {
    let run = outcome(&format!("{TINY} --workload mix:count=50"));
    for key in ["sources", "interleave", "by_source", "movement"] {
        assert!(run.get(key).is_none(), "{key}");
    }
}

#[test]
fn workloads_share_the_disk_and_are_independent() {
    let two = format!("{TINY} --workload mix:count=5000 --workload mix:count=5000");
    let run = outcome(&format!("{two} --interleave burst:7"));
    let (sources, counts) = (&run["sources"], &run["by_source"]);
    assert_eq!(sources[0]["sectors"], sources[1]["first_lba"]);
    assert!(sum(sources, "sectors") <= run["capacity"]["host_sectors"].as_u64().unwrap());
    assert_ne!(counts[0]["host_read_sectors"], counts[1]["host_read_sectors"], "one text and seed, two streams");
    let zero = outcome(&format!("{two} --interleave burst:7 --sources zero --span 1Mi"));
    assert_eq!((&zero["sources"][1]["sectors"], &zero["sources"][1]["first_lba"]), (&2048.into(), &0.into()));
    let again = outcome(&format!("{two} --interleave burst:7 --sources zero --span 1Mi"));
    assert_eq!(zero, again);
}

#[test]
fn mixed_sources_are_numbered_traces_first() {
    let run =
        outcome(&format!("--layer in-place --workload mix:count=9 --trace {} --interleave none", testdata("msr.csv")));
    let sources = &run["sources"];
    assert!(sources[0]["workload"].is_null() && sources[0]["trace"].is_string(), "{sources}");
    assert!(sources[1]["workload"].is_string() && sources[1]["requests"] == 9, "{sources}");
}

#[test]
fn movement_is_counted_where_it_is_asked_for() {
    let run = outcome(&format!("{TINY} --workload random-write:count=200 --movement"));
    let movement = &run["movement"];
    assert_eq!(movement["track_distance"]["total"], movement["track_distance"]["host"]);
    assert!(movement["track_count"]["host"].as_u64() > Some(100), "{movement}");
    assert!(movement["stroke_share"]["total"].as_f64() > Some(10.0), "{movement}");
    assert_eq!(movement["bands_moved"]["total"], 0);
}

#[test]
fn what_makes_no_sense_of_several_sources_says_so() {
    let says = |options: &str, word: &str| smrkit(&format!("run {TINY} {options}")).says(2, &[word]);
    says("--workload mix --interleave burst:5", "--interleave is for several sources");
    says("--workload mix --sources zero", "--sources is for several sources");
    says("--workload mix --workload mix", "--interleave burst:N");
    says("--trace a --workload mix", "--interleave burst:N");
    says("--workload mix --workload mix --interleave burst:0", "burst:N takes a whole number from 1");
    says("--workload mix --workload mix --interleave none --sources end", "known: end-to-end, zero");
    says("--workload mix --workload mix --interleave burst:5 --arrival trace", "--interleave time");
    says("--trace a --span 1G", "--span is what a workload");
    says("--trace - --trace - --interleave none", "standard input");
    let by_time = format!("{TINY} --workload mix:count=50 --workload mix:count=50 --interleave time --arrival trace");
    assert_eq!(outcome(&by_time)["requests"], 100);
}
