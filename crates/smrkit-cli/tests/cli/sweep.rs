//! `sweep` and `results` as their users meet them.

use std::fs;

use serde_json::Value;

use super::{Scratch, at, root};

const SWEEP: &str = "\
drive = \"tiny\"
layer = [\"rmw\", \"set-assoc\"]
workload = [\"random-write:count=400\", \"mix:count=400\"]
repeat = 2
[set]
\"rmw.region_sectors\" = [300, 600]
\"set-assoc.region_sectors\" = 300
";

fn swept() -> Scratch {
    let scratch = Scratch::new();
    fs::write(scratch.0.path().join("regions.toml"), SWEEP).unwrap();
    let said = at(&scratch, "sweep regions.toml").done();
    assert_eq!(said, "regions: 4 comparisons; 12 runs computed, 0 found in regions.results\n");
    scratch
}

#[test]
fn a_sweep_is_computed_once() {
    let scratch = swept();
    let again = at(&scratch, "sweep regions.toml").done();
    assert_eq!(again, "regions: 4 comparisons; 0 runs computed, 12 found in regions.results\n");
    let part = at(&scratch, "sweep regions.toml --part 2/3").done();
    assert_eq!(part, "regions: part 2/3 of 4 comparisons; 0 runs computed, 3 found in regions.results\n");
    at(&scratch, "sweep missing.toml").says(3, &["missing.toml", "check the path"]);
    fs::write(scratch.0.path().join("wrong.toml"), "drive = \"tiny\"\nlayers = \"rmw\"").unwrap();
    at(&scratch, "sweep wrong.toml").says(2, &["there is no option layers"]);
}

#[test]
fn a_sweep_has_the_numbers_of_the_runs_alone() {
    let scratch = swept();
    at(&scratch, "results regions.results --json all.json").done();
    let of = |name: &str| -> Value { serde_json::from_slice(&fs::read(scratch.0.path().join(name)).unwrap()).unwrap() };
    let alone = "run --drive tiny --layer rmw,set-assoc --workload mix:count=400 --seed 2 --set rmw.region_sectors=300,600 \
                 --set set-assoc.region_sectors=300 --json alone.json";
    at(&scratch, alone).done();
    let (all, alone) = (of("all.json"), of("alone.json"));
    assert_eq!(all["runs"].as_array().unwrap()[9..], alone["runs"].as_array().unwrap()[..]);
}

#[test]
fn runs_of_several_drives_and_demands_are_repeated() {
    let scratch = Scratch::new();
    let tiny = fs::read_to_string(root().join("crates/smrkit/drives/tiny.toml")).unwrap();
    scratch.file("larger.toml", tiny.replace("tracks = 24", "tracks = 36"));
    scratch.msr("one.csv", &[(0, 0, 4096), (1_000_000, 8192, 65536)]);
    scratch.msr("two.csv", &[(0, 1 << 20, 4096)]);
    for (name, demands) in
        [("traces", "trace = ['one.csv', 'two.csv']"), ("made", "workload = ['mix:count=90', 'burst:count=60']")]
    {
        let systems = "drive = ['tiny', 'larger.toml']\nlayer = ['rmw', 'vguard']";
        let set = "[set]\n\"rmw.region_sectors\" = 300";
        scratch.file(&format!("{name}.toml"), format!("{systems}\n{demands}\n{set}\n"));
        at(&scratch, &format!("sweep {name}.toml --store all.results")).done();
    }
    at(&scratch, "results all.results --json all.json").done();
    at(&scratch, "run --repeat all.json --json again.json").done();
    let read = |name: &str| fs::read_to_string(scratch.0.path().join(name)).unwrap();
    assert_eq!(read("all.json"), read("again.json"));
    scratch.msr("two.csv", &[(0, 2 << 20, 4096)]);
    at(&scratch, "run --repeat all.json").says(3, &["a trace is not what it was"]);
}

#[test]
fn results_are_selected_and_shown() {
    let scratch = swept();
    let table = at(&scratch, "results regions.results").done();
    assert!(table.contains("slowdown (×)") && table.contains(" ± ") && table.contains(" * "), "{table}");
    let csv = at(&scratch, "results regions.results --where layer=rmw --show slowdown --format csv").done();
    assert!(csv.starts_with("layer,workload,parameters.region_sectors,seed,slowdown\n"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 8, "two workloads, two regions and two seeds: {csv}");
    at(&scratch, "results regions.results --where layer=rmw --where seed=2 --json chosen.json").done();
    let chosen: Value = serde_json::from_slice(&fs::read(scratch.0.path().join("chosen.json")).unwrap()).unwrap();
    assert_eq!(chosen["runs"].as_array().unwrap().len(), 4);
    at(&scratch, "results regions.results --show colour").says(2, &["no outcome has the key colour"]);
    at(&scratch, "results regions.results --where layer=log").says(2, &["no run has layer=log", "rmw, set-assoc"]);
    at(&scratch, "results regions.results --sweep other").says(2, &["no sweep is called other", "regions"]);
    at(&scratch, "results regions.toml").says(3, &["no store of results"]);
}

#[test]
fn a_sweep_has_a_page_that_its_store_gives_again() {
    let scratch = swept();
    let read = |name: &str| fs::read_to_string(scratch.0.path().join(name)).unwrap();
    at(&scratch, "sweep regions.toml --report swept.html").done();
    let shown = at(&scratch, "report regions.results --sweep regions --report told.html").done();
    assert_eq!(read("swept.html"), read("told.html"));
    assert_eq!(shown, at(&scratch, "results regions.results").done(), "with the table of results");
    let page = read("told.html");
    for part in ["12 runs; the best", "slowdown (×)", "class=\"best\""] {
        assert!(page.contains(part), "{part}");
    }
    at(&scratch, "sweep regions.toml --report regions.toml").says(2, &["is read by this command"]);
    at(&scratch, "report regions.results --sweep other").says(2, &["no sweep is called other"]);
    fs::create_dir(scratch.0.path().join("empty")).unwrap();
    at(&scratch, "report empty").says(3, &["start smrkit sweep"]);
}

/// Requests of 40 volumes, as Alibaba's traces have them.
fn cloud(scratch: &Scratch) {
    let row = |at: u64| format!("{},W,{},4096,{}\n", at % 40, at * 37 % 8000 * 512, at * 10);
    fs::write(scratch.0.path().join("cloud.csv"), (0..4000).map(row).collect::<String>()).unwrap();
}

#[test]
fn volumes_of_a_split_trace_are_swept_as_disks_and_merged() {
    let scratch = Scratch::new();
    cloud(&scratch);
    let split = at(&scratch, "trace split cloud.csv cloud.volumes --buckets 4");
    assert_eq!(
        (split.code, split.err.as_str()),
        (0, "4000 requests (alibaba) of 40 volumes into cloud.volumes: 4 files\n")
    );
    at(&scratch, "trace split cloud.csv cloud.volumes").says(2, &["there is something in this folder", "empty one"]);
    at(&scratch, "trace split cloud.csv other --buckets 257").says(2, &["from 1 to 256"]);
    at(&scratch, "trace split missing.csv other").says(3, &["missing.csv"]);
    fs::write(scratch.0.path().join("bad.csv"), "1,W,0,4096,5\n1,W,x,4096,5\n").unwrap();
    at(&scratch, "trace split bad.csv other").failed(3);
    assert!(!scratch.names().iter().any(|name| name.starts_with("other")), "{:?}", scratch.names());

    let sweep = "drive = 'tiny'\nlayer = ['drive-managed', 'vguard']\nvolumes = 'cloud.volumes'";
    fs::write(scratch.0.path().join("cloud.toml"), sweep).unwrap();
    let said = at(&scratch, "sweep cloud.toml").done();
    assert!(said.starts_with("cloud: 1 comparison; 80 runs computed, 0 found in cloud.results\n"), "{said}");
    assert!(at(&scratch, "sweep cloud.toml").done().contains("0 runs computed, 80 found"));
    at(&scratch, "results cloud.results --json merged.json").done();
    let merged: Value = serde_json::from_slice(&fs::read(scratch.0.path().join("merged.json")).unwrap()).unwrap();
    assert_eq!(merged["runs"].as_array().unwrap().len(), 2);
    let run = &merged["runs"][0];
    assert_eq!((&run["merged_verdicts"]["runs"], &run["requests"]), (&40.into(), &4000.into()));
    assert!(run["verdict"]["text"].as_str().unwrap().contains("Of 40 runs with requests"), "{}", run["verdict"]);

    // A volume by itself: of the trace, and of its bucket.
    let alone = |words: &str| -> Value {
        let words = format!("run --drive tiny --layer vguard --volume 3 {words} --json alone.json");
        at(&scratch, &words).done();
        let alone: Value = serde_json::from_slice(&fs::read(scratch.0.path().join("alone.json")).unwrap()).unwrap();
        alone["runs"][0].clone()
    };
    let (of_trace, of_bucket) = (alone("--trace cloud.csv"), alone("--trace cloud.volumes/bucket-003.parquet"));
    for key in ["requests", "latency_ns", "elapsed_ns", "physical_written_sectors", "slowdown"] {
        assert_eq!(of_trace[key], of_bucket[key], "{key}");
    }
    let json: Value =
        serde_json::from_slice(&fs::read(scratch.0.path().join("cloud.volumes/volumes.json")).unwrap()).unwrap();
    assert_eq!((&json["volumes"][3]["number"], &json["volumes"][3]["requests"]), (&3.into(), &100.into()));
}
