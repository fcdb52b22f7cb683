//! The result file: alone on standard output, the same bytes for the same seed, and no half of it on an error.

use serde_json::Value;

use super::{Scratch, TINY, gives_the_same_bytes, outcome, outcomes, smrkit, testdata};

const COMPARISON: &str = "--workload zipf:count=2000,span=2M;random-write:count=1000 --seed 7";

#[test]
fn json_on_standard_output_is_alone_there() {
    let out = smrkit(&format!("run {TINY} {COMPARISON} --json -")).done();
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["schema"], 1);
    assert!(json["runs"].as_array().unwrap().len() >= 3);
}

#[test]
fn json_in_a_file_leaves_the_table_on_standard_output() {
    let scratch = Scratch::new();
    let path = scratch.path("out.json");
    let ran = smrkit(&format!("run {TINY} {COMPARISON} --json {path}"));
    assert!(ran.out.starts_with("in-place: "), "the verdict leads: {}", ran.out);
    assert_eq!(ran.err, "", "quiet in a pipe");
    let file = std::fs::read_to_string(path).unwrap();
    assert_eq!(file, smrkit(&format!("run {TINY} {COMPARISON} --json -")).done());
}

#[test]
fn an_old_result_is_replaced_whole_and_kept_on_an_error() {
    let scratch = Scratch::new();
    let path = scratch.file("out.json", "x".repeat(1_000_000));
    smrkit(&format!("run --trace missing.csv --json {path}")).failed(3);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1_000_000, "nothing was replaced");
    smrkit(&format!("run {TINY} {COMPARISON} --json {path}")).done();
    serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    gives_the_same_bytes(&format!("run {TINY} {COMPARISON} --json -"));
}

#[test]
fn a_converted_trace_gives_the_same_outcome() {
    let scratch = Scratch::new();
    for name in ["msr.csv", "blkparse.txt", "systor17.csv"] {
        let converted = scratch.path(&format!("{name}.parquet"));
        smrkit(&format!("trace convert {} {converted}", testdata(name))).done();
        let run = |trace: &str| {
            let mut outcome =
                outcome(&format!("--layer set-assoc --capacity auto --drive cassuto-table1 --trace {trace}"));
            for key in ["trace", "trace_format", "trace_sha256", "trace_notes"] {
                assert!(outcome[key].take() != Value::Null, "{key}");
            }
            outcome
        };
        assert_eq!(run(&testdata(name)), run(&converted), "{name}");
    }
}

#[test]
fn an_outcome_alone_reproduces_its_run() {
    // Beside a layer that offers less, so that the requests are not those of rmw alone.
    let first = outcomes(
        "--drive tiny --layer rmw,set-assoc --set rmw.region_sectors=128 --set set-assoc.region_sectors=300 \
         --workload mix:count=400 --depth 4 --seed 9",
    )
    .remove(0);
    let set: String = first["parameters"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| format!("--set rmw.{key}={} ", value.to_string().trim_matches('"')))
        .collect();
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let again = outcome(&format!(
        "--drive {} --layer {} {set} --workload {} --span {} --seed {} --depth {} --queue {}",
        word(&first["drive"]),
        word(&first["layer"]),
        word(&first["workload"]),
        first["workload_sectors"].as_u64().unwrap() * 512,
        first["seed"],
        first["engine"]["depth"],
        word(&first["engine"]["queue"]),
    ));
    assert_eq!(first, again);
}

#[test]
fn slowdown_is_against_the_conventional_disk_even_where_it_is_not_listed() {
    let alone = outcome(&format!("--drive tiny --layer rmw --set rmw.region_sectors=256 {COMPARISON}"));
    let slowdown = alone["slowdown"].as_f64().unwrap();
    let base = outcome(&format!("--drive tiny --layer in-place {COMPARISON}"));
    let ratio = alone["elapsed_ns"].as_f64().unwrap() / base["elapsed_ns"].as_f64().unwrap();
    // The drives differ in capacity by their guards, but the requests span 2 MB at least in part; the baseline that
    // was run quietly is over the same drive, so that the ratio is near.
    assert!((slowdown / ratio - 1.0).abs() < 0.2, "{slowdown} {ratio}");
    assert_eq!(base["slowdown"], 1.0);
}
