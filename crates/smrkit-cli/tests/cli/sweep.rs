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
fn results_have_intervals_and_paired_comparisons() {
    let scratch = swept();
    let results = |options: &str| at(&scratch, &format!("results regions.results --show slowdown {options}"));
    let csv = results("--where layer=rmw --intervals --format csv").done();
    assert!(
        csv.starts_with("layer,workload,parameters.region_sectors,n,slowdown.mean,slowdown.low,slowdown.high\n"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 1 + 4, "two workloads and two regions: {csv}");
    let told = results("--compare layer=rmw,set-assoc").done();
    assert!(told.contains("set-assoc / rmw") && told.contains(" to "), "{told}");
    let csv = results("--compare layer=rmw,set-assoc --format csv").done();
    assert!(csv.lines().count() == 1 + 4 && csv.contains("slowdown,rmw,set-assoc,2,"), "{csv}");
    results("--intervals --parquet means.parquet").done();
    assert!(fs::read(scratch.0.path().join("means.parquet")).unwrap().starts_with(b"PAR1"));
    results("--compare layer=rmw").says(2, &["give two with a comma between"]);
    results("--compare seed=1,2").says(2, &["compare layers, drives or settings"]);
    results("--intervals --compare layer=rmw,set-assoc").failed(2);
}

#[test]
fn a_sweep_has_a_page_that_its_store_gives_again() {
    let scratch = swept();
    let read = |name: &str| fs::read_to_string(scratch.0.path().join(name)).unwrap();
    at(&scratch, "sweep regions.toml --report swept.html").done();
    let shown = at(&scratch, "report regions.results --sweep regions --report told.html").done();
    assert_eq!(read("swept.html"), read("told.html"));
    assert_eq!(shown, at(&scratch, "results regions.results").done(), "with the table of results");
    assert!(at(&scratch, "report regions.results --show latency_ns.all.p99_9").done().contains("p99.9 latency"));
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
fn volumes_of_a_trace_are_a_list_of_a_sweep() {
    let scratch = Scratch::new();
    cloud(&scratch);
    at(&scratch, "trace convert cloud.csv cloud.parquet").done();
    let sweep = "drive = 'tiny'\nlayer = 'vguard'\ntrace = 'cloud.parquet'\nvolume = [3, 4, 39]";
    fs::write(scratch.0.path().join("cloud.toml"), sweep).unwrap();
    let said = at(&scratch, "sweep cloud.toml").done();
    assert!(said.starts_with("cloud: 3 comparisons; 3 runs computed, 0 found in cloud.results\n"), "{said}");
    let read =
        |name: &str| -> Value { serde_json::from_slice(&fs::read(scratch.0.path().join(name)).unwrap()).unwrap() };
    at(&scratch, "results cloud.results --json swept.json").done();
    at(&scratch, "run --drive tiny --layer vguard --volume 3 --trace cloud.csv --json alone.json").done();
    let (swept, alone) = (read("swept.json"), read("alone.json"));
    assert_eq!(swept["runs"].as_array().map(Vec::len), Some(3));
    for key in ["requests", "latency_ns", "elapsed_ns", "physical_written_sectors", "slowdown"] {
        assert_eq!(swept["runs"][0][key], alone["runs"][0][key], "{key}");
    }
}
