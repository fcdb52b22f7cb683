//! The result file: alone on standard output, the same bytes for the same seed, and no half of it on an error.

use serde_json::Value;

use super::{Scratch, TINY, gives_the_same_bytes, outcome, root, smrkit, testdata};

const COMPARISON: &str = "--workload zipf:count=2000,span=1M;random-write:count=1000 --seed 7";

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
    assert!(ran.out.starts_with("conventional (CMR): "), "the verdict leads: {}", ran.out);
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
fn a_result_file_alone_repeats_its_runs() {
    let scratch = Scratch::new();
    let drive =
        scratch.file("own.toml", std::fs::read_to_string(root().join("crates/smrkit/drives/tiny.toml")).unwrap());
    let far = scratch.msr("far.csv", &[(0, 0, 4096), (1_000_000, 200 << 20, 65536), (2_000_000, 1 << 20, 8192)]);
    for options in [
        // Compared with a layer that offers less, so that the requests are not those of rmw alone.
        "--drive tiny --layer rmw,set-assoc --set rmw.region_sectors=128,256 --set set-assoc.region_sectors=300 --workload mix:count=400 --depth 4 --seed 9".into(),
        format!("--drive {drive} --layer vguard,drive-managed --workload random-write:count=300 --warmup 20 --check"),
        // A drive with more platters than its own.
        format!("--drive tiny --layer set-assoc --set set-assoc.region_sectors=300 --trace {far} --arrival trace --time-scale 2"),
        format!(
            "--array raid5:disks=3,chunk=16KiB --drive {drive} --layer rmw --set rmw.region_sectors=300 --rebuild disk=1,write=64KiB --workload mix:count=50"
        ),
        format!("--drive tiny --layer log --workload zipf:count=100 --span 2MB --trace {far} --interleave burst:3 --fold --movement"),
        "--array dedicated:disks=2 --drive tiny --layer rmw --set rmw.region_sectors=300 --workload mix:count=90 \
         --workload burst:count=60 --interleave none"
            .into(),
    ] {
        let [first, summary, again] = ["first.json", "summary.json", "again.json"].map(|name| scratch.path(name));
        smrkit(&format!("run {options} --json {first}")).done();
        let told = smrkit(&format!("run --repeat {first} --json {summary} --json-detail summary")).done();
        assert_eq!(smrkit(&format!("report {summary}")).done(), told, "{options}");
        smrkit(&format!("run --repeat {summary} --json {again}")).done();
        assert_eq!(std::fs::read_to_string(&first).unwrap(), std::fs::read_to_string(&again).unwrap(), "{options}");
    }
}

#[test]
fn a_report_of_a_result_file_is_that_of_the_run() {
    let scratch = Scratch::new();
    let [json, page, again] = ["out.json", "run.html", "report.html"].map(|name| scratch.path(name));
    let ran = smrkit(&format!("run {TINY} {COMPARISON} --json {json} --report {page}")).done();
    let told = smrkit(&format!("report {json} --report {again}")).done();
    assert_eq!(ran, told);
    // Only the command that was given tells the pages apart.
    let [of_run, of_file] = [&page, &again].map(|page| std::fs::read_to_string(page).unwrap());
    let (before, _) = of_run.split_once(">Run it again<").expect("a run's page has it");
    let (before, rest) = of_run.split_at(before.rfind("<section>").unwrap());
    let (again, after) = rest.split_once("</section>\n").unwrap();
    assert!(
        again.contains("smrkit run --drive tiny --set") && again.contains(" &#39;zipf:count=2000,span=1M;"),
        "{again}"
    );
    assert!(!again.contains(&page) && !again.contains(&json), "files that were written are left out: {again}");
    assert_eq!(format!("{before}{after}"), of_file);
    // One of several files has the runs of each.
    let of = |layer: &str| {
        let path = scratch.path(&format!("{layer}.json"));
        smrkit(&format!("run --drive tiny --span 2MB --workload mix:count=90 --layer {layer} --json {path}")).done();
        path
    };
    let [plain, guarded] = ["in-place", "vguard"].map(of);
    let both = smrkit(&format!("report {plain} {guarded} --json -")).done();
    let both: Value = serde_json::from_str(&both).unwrap();
    assert_eq!([&both["runs"][0]["layer"], &both["runs"][1]["layer"]], ["in-place", "vguard"]);
    smrkit(&format!("report {plain} {json}")).says(3, &["has run mix", "--span"]);
    smrkit(&format!("report {plain} --json {plain}")).says(2, &["is read by this command"]);
    smrkit(&format!("report {page}")).says(3, &["no result file"]);
    smrkit("report").says(2, &["OUT.json"]);
}

#[test]
fn what_can_not_be_repeated_is_refused() {
    let scratch = Scratch::new();
    let trace = scratch.msr("t.csv", &[(0, 0, 4096)]);
    let record = scratch.path("record.json");
    smrkit(&format!("run --drive tiny --layer rmw --set rmw.region_sectors=300 --trace {trace} --json {record}"))
        .done();
    smrkit(&format!("run --repeat {record} --json {record}")).says(2, &["is read by this command"]);
    for option in ["--depth 4", "--power-cut 9", "--movement", "--layer rmw", "--trace x.csv", "--fold"] {
        let name = option.split(' ').next().unwrap();
        smrkit(&format!("run --repeat {record} {option}")).says(2, &["--repeat", name]);
    }
    smrkit(&format!("run --repeat {trace}")).says(3, &["no result file"]);
    let binary = scratch.file("binary.json", [0xff, 0xfe, 0]);
    smrkit(&format!("run --repeat {binary}")).says(3, &["no result file"]);
    let mut unhashed: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    assert!(
        unhashed["runs"][0]["trace_sha256"].take().is_string(),
        "null, as after an interrupt of the run that hashed"
    );
    let unhashed = scratch.file("unhashed.json", unhashed.to_string());
    smrkit(&format!("run --repeat {unhashed}")).done();
    scratch.msr("t.csv", &[(0, 8192, 4096)]);
    smrkit(&format!("run --repeat {record}")).says(3, &["a trace is not what it was"]);
}

#[test]
fn slowdown_is_against_the_conventional_disk_even_if_unlisted() {
    let alone = outcome(&format!("--drive tiny --layer rmw --set rmw.region_sectors=256 {COMPARISON}"));
    let slowdown = alone["slowdown"].as_f64().unwrap();
    let base = outcome(&format!("--drive tiny --layer in-place {COMPARISON}"));
    let ratio = alone["elapsed_ns"].as_f64().unwrap() / base["elapsed_ns"].as_f64().unwrap();
    // The drives differ in capacity by their guards, but the requests span 1 MB at least in part; the baseline that
    // was run quietly is over the same drive, so that the ratio is near.
    assert!((slowdown / ratio - 1.0).abs() < 0.2, "{slowdown} {ratio}");
    assert_eq!(base["slowdown"], 1.0);
}
