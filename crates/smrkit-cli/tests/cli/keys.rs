//! The result file's keys: those of the contract, and those of the table of columns.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use smrkit::record::{Column, ColumnType};
use smrkit::stats::outcome::Outcome;

use super::generated::below;
use super::{Scratch, TINY, outcome, outcomes, root, smrkit, testdata};

/// Promises of the contract on a run, null where any value will do.
fn contract() -> Value {
    let by_cause = json!({"total": 0, "host": 0, "destage": 0, "clean": 0, "map": 0});
    let commands = json!({"host_read": 0, "host_write": 0, "physical_read": 0, "physical_write": 0});
    let latency =
        json!({"count": 0, "mean": 0, "p50": 0, "p90": 0, "p95": 0, "p99": 0, "p99_5": 0, "p99_9": 0, "max": 0});
    json!({
        "layer": "", "drive": "", "array": null, "parameters": {}, "seed": 0, "version": "", "commit": null,
        "trace": null, "trace_sha256": null, "workload": null,
        "requests": 0, "host_read_sectors": 0, "host_written_sectors": 0,
        "physical_read_sectors": by_cause, "physical_written_sectors": by_cause,
        "commands": commands, "adjusted": commands,
        "write_overloading": null, "write_amplification": null, "slowdown": null,
        "latency_ns": {"all": latency, "read": latency, "write": latency},
        "busy_ns": 0, "elapsed_ns": 0, "map_bytes": 0,
        "cleaning": {"count": 0, "sectors": 0, "ns": 0, "max_ns": 0},
        "capacity": {"raw_sectors": 0, "host_sectors": 0, "cache_sectors": 0, "guard_sectors": 0, "spare_sectors": 0},
        "timeline": {"window_ns": 0, "requests": [], "read_bytes": [], "written_bytes": [], "longest_ns": [],
                     "cache_fill": []},
        "layer_stats": {},
        "verdict": {"cache_full_at_s": null, "rate_before_bytes_per_s": null, "rate_after_bytes_per_s": null,
                    "longest_stall_ns": 0, "stalls_over_7s": 0, "stalls_over_30s": 0, "text": ""}
    })
}

/// Fails where `found` lacks a key of `promised`, or holds another type.
fn compare(path: &str, promised: &Value, found: &Value) {
    match (promised, found) {
        (Value::Null, _) => {}
        (Value::Object(keys), Value::Object(values)) => {
            for (key, promised) in keys {
                let path = format!("{path}.{key}");
                compare(&path, promised, values.get(key).unwrap_or_else(|| panic!("{path} is missing")));
            }
        }
        (Value::Array(_), Value::Array(_)) | (Value::String(_), Value::String(_)) => {}
        (Value::Number(promised), Value::Number(found)) => {
            assert!(promised.is_f64() || found.is_u64(), "{path} is {found}, not a whole number");
        }
        _ => panic!("{path} is {found}, promised was {promised}"),
    }
}

#[test]
fn every_run_holds_what_the_contract_promises() {
    for run in outcomes(&format!("{TINY} --workload mix:count=2000")) {
        compare("", &contract(), &run);
    }
}

#[test]
fn a_disk_that_empties_its_buffer_in_pauses_is_not_idle() {
    let run = outcome("--drive hc620 --layer in-place --workload random-write:count=300 --think 12ms");
    let [busy, behind, elapsed] =
        ["busy_ns", "buffer_write_ns", "elapsed_ns"].map(|key| run[key].as_u64().unwrap_or_else(|| panic!("{key}")));
    assert!(busy < elapsed / 20, "served from the buffer: {busy} of {elapsed}");
    assert!(behind > elapsed / 2 && busy + behind <= elapsed, "{behind} and {busy} of {elapsed}");
    let cached = outcome("--drive wd20spzx --layer in-place --workload random-write:count=300 --think 12ms");
    let [busy, wait, elapsed] = ["/busy_ns", "/latency_ns/all/mean", "/elapsed_ns"]
        .map(|key| cached.pointer(key).and_then(Value::as_u64).unwrap());
    assert!(busy > elapsed / 2 && busy <= elapsed, "batches of its write cache are work: {busy} of {elapsed}");
    assert!(wait < 12_000_000, "which few commands wait for: {wait} ns");
    let plain = outcome("--drive tiny --layer in-place --workload random-write:count=10");
    assert_eq!(plain.get("buffer_write_ns"), None, "a drive without a buffer");
}

#[test]
fn numbers_of_a_run_agree_with_each_other() {
    for run in outcomes(&format!("{TINY} --workload mix:count=2000 --depth 4")) {
        let int = |path: &str| run.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}"));
        for kind in ["physical_read_sectors", "physical_written_sectors", "busy_by_cause_ns"] {
            let parts: u64 =
                ["host", "destage", "clean", "map"].map(|cause| int(&format!("/{kind}/{cause}"))).iter().sum();
            assert_eq!(parts, int(&format!("/{kind}/total")), "{kind}");
        }
        assert_eq!(int("/busy_by_cause_ns/total"), int("/busy_ns"));
        assert_eq!(int("/latency_ns/all/count"), int("/requests"));
        assert_eq!(int("/latency_ns/read/count") + int("/latency_ns/write/count"), int("/requests"));
        let mean = (int("/wait_ns") + int("/service_ns")) as f64 / int("/requests") as f64;
        assert!((mean - int("/latency_ns/all/mean") as f64).abs() <= 1.0, "{mean}");
        let sum = |key: &str| run["timeline"][key].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum("requests"), int("/requests"));
        assert_eq!(sum("read_bytes"), int("/host_read_sectors") * 512);
        assert_eq!(sum("written_bytes"), int("/host_written_sectors") * 512);
        let longest = run["timeline"]["longest_ns"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).max();
        assert_eq!(longest, Some(int("/latency_ns/all/max")));
        assert_eq!(int("/verdict/longest_stall_ns"), int("/latency_ns/all/max"));
        let capacity = ["host", "cache", "guard", "spare"].map(|part| int(&format!("/capacity/{part}_sectors")));
        assert_eq!(capacity.iter().sum::<u64>(), int("/capacity/raw_sectors"), "{}", run["layer"]);
        let surface: u64 = ["host", "destage", "clean", "map"]
            .iter()
            .flat_map(|cause| run["surface"][cause].as_array().unwrap())
            .map(|value| value.as_u64().unwrap())
            .sum();
        assert_eq!(surface, int("/physical_written_sectors/total"));
    }
}

/// Every key of a value by its path; the names inside `parameters`, `layer_stats` and `gauges` depend on the layer, those of
/// `drive_files` on the run, and members are the same records again.
fn paths(prefix: &str, value: &Value, into: &mut BTreeSet<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if ![
            "parameters",
            "asked",
            "layer_stats",
            "timeline.gauges",
            "timeline.gauge_units",
            "run.drive_files",
            "members",
        ]
        .contains(&path.as_str())
        {
            paths(&path, value, into);
        }
        into.insert(path);
    }
    for value in value.as_array().into_iter().flatten().filter(|value| value.is_object()) {
        paths(prefix, value, into);
    }
}

const TINY_CACHE: &str = "--drive tiny-constant --layer set-assoc --set set-assoc.region_sectors=500";

#[test]
fn a_power_cut_is_reported_and_its_expected_loss_is_no_violation() {
    let run = outcome(&format!("{TINY_CACHE} --workload random-write:count=100 --power-cut 50"));
    let cut = &run["power_cut"];
    assert_eq!((cut["write"].as_u64(), cut["completed"].as_u64()), (Some(50), Some(49)), "{cut}");
    let lost: u64 = cut["lost"].as_array().unwrap().iter().map(|extent| extent[1].as_u64().unwrap()).sum();
    assert_eq!(Some(lost), cut["lost_sectors"].as_u64());
    assert!(lost > 0 && run["requests"] == 100);
}

#[test]
fn every_declared_key_is_found_in_some_outcome_and_no_other() {
    let mut found = BTreeSet::new();
    paths("", &outcome("--drive tiny --layer in-place --workload mix:count=100"), &mut found);
    paths("", &outcome(&format!("--drive wd20spzx --layer in-place --trace {}", testdata("msr.csv"))), &mut found);
    paths("", &outcome(&format!("{TINY_CACHE} --workload random-write:count=100 --power-cut 50")), &mut found);
    let two = format!("--trace {} --workload zipf:count=50 --interleave burst:4 --movement", testdata("msr.csv"));
    paths("", &outcome(&format!("--drive wd20spzx --layer in-place {two}")), &mut found);
    let rebuilt = "--array raid1:disks=2,layer=in-place --rebuild disk=1";
    paths("", &outcome(&format!("--drive tiny {rebuilt} --workload mix:count=100")), &mut found);
    let scratch = Scratch::new();
    let far = scratch.msr("far.csv", &[(0, 40 << 20, 4096)]);
    paths("", &outcome(&format!("--drive tiny --layer in-place --trace {far}")), &mut found);
    let mut declared = Keys::default();
    declared.add("", &Outcome::table().unwrap().columns, true);
    // The settings have a list of their own on the page.
    let page = std::fs::read_to_string(root().join("docs/reference/outcome.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("- `engine.")?.split_once('`'));
    declared.all.extend(rows.flat_map(|(path, _)| expand(&format!("engine.{path}"))));
    let missing: Vec<&String> = found.difference(&declared.all).collect();
    assert!(missing.is_empty(), "docs/reference/outcome.md lacks {missing:?}");
    let extra: Vec<&String> = declared.always.difference(&found).collect();
    assert!(extra.is_empty(), "no outcome has {extra:?}");
}

/// The paths of columns, and those of them that every outcome has.
#[derive(Default)]
struct Keys {
    all: BTreeSet<String>,
    always: BTreeSet<String>,
}

impl Keys {
    /// Adds columns with all below them; `always` says whether every outcome has them.
    fn add(&mut self, path: &str, columns: &[Column], always: bool) {
        // Members of an array are outcomes again.
        for column in columns.iter().filter(|column| column.name != "members" || !path.is_empty()) {
            let path = below(path, column.name);
            let is_there = always && !column.may_be_absent;
            let below = (column.table)().map_or(Vec::new(), |record| record.columns);
            self.add(&path, &below, is_there && !column.python.ends_with("None"));
            self.always.extend(is_there.then(|| path.clone()));
            self.all.insert(path);
        }
        self.all.insert("members".into());
    }
}

/// The bytes of each record as `--json-detail summary` prints it.
fn summaries(options: &str) -> Vec<usize> {
    let json = smrkit(&format!("run {options} --json-detail summary --json -")).done();
    let records = serde_json::from_str::<Value>(&json).unwrap()["runs"].as_array().unwrap().clone();
    let bytes: Vec<usize> = records.iter().map(|record| record.to_string().len()).collect();
    let between = bytes.len() - 1 + r#"{"schema":1,"runs":[]}"#.len() + 1;
    assert_eq!(json.len(), bytes.iter().sum::<usize>() + between, "a summary has no room between its values");
    bytes
}

#[test]
fn a_summary_is_below_8_kb_of_arrays_too() {
    let merged = "--workload mix:count=4000 --workload zipf:count=4000 --workload burst:count=4000 --interleave burst:4 --movement";
    let mut all = vec![
        "--workload desktop:count=20000 --movement".to_string(),
        format!("--layer s-block,log {merged}"),
        "--drive tiny --array raid6:disks=8,layer=log --rebuild disk=1 --workload mix:count=200".into(),
        "--drive tiny --array raid5:disks=8,layer=log --rebuild scrub --workload mix:count=200".into(),
        "--array raid10:disks=4,member=(layer=drive-managed),member=(layer=drive-managed),member=(layer=set-assoc),member=(layer=set-assoc)".into(),
    ];
    let levels = ["span", "raid0", "raid1", "raid10", "raid4", "raid5", "raid6", "raidz3", "dedicated"];
    let arrays = levels
        .iter()
        .flat_map(|level| [if *level == "raidz3" { 5 } else { 4 }, 24].map(|disks| format!("{level}:disks={disks}")));
    all.extend(
        arrays
            .map(|array| format!("--drive st5000as0011 --array {array},layer=drive-managed --workload mix:count=600")),
    );
    for options in all {
        let bytes = summaries(&options);
        assert!(bytes.iter().all(|&bytes| bytes < 8000), "{bytes:?}: {options}");
    }
}

#[test]
fn a_summary_keeps_all_keys() {
    let of = |detail: &str| {
        let run = outcome(&format!("{TINY_CACHE} --workload mix:count=3000 --json-detail {detail}"));
        let mut keys = BTreeSet::new();
        paths("", &run, &mut keys);
        (run, keys)
    };
    let ((full, mut keys), (mut summary, kept)) = (of("full"), of("summary"));
    keys.retain(|key| !key.starts_with("confidence"));
    assert_eq!(keys, kept);
    assert_eq!(summary["timeline"]["requests"], json!([]));
    for key in ["timeline", "surface", "latency_histogram", "latency_buckets", "confidence"] {
        assert_ne!(summary[key], full[key], "{key}");
        summary[key] = full[key].clone();
    }
    assert_eq!(summary, full);
}

/// `a.{b,c}.d` stands for `a.b.d` and `a.c.d`.
pub fn expand(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_string()] };
    let (names, after) = rest.split_once('}').unwrap_or_else(|| panic!("{path}: no closing brace"));
    names.split(',').flat_map(|name| expand(&format!("{before}{}{after}", name.trim()))).collect()
}
