//! `sweep` and `results` as their users meet them.

use std::fs;

use serde_json::Value;

use super::{Scratch, at};

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
fn results_are_selected_and_pivoted() {
    let scratch = swept();
    let pivot = at(&scratch, "results regions.results --pivot layer,workload,slowdown --format markdown").done();
    let lines: Vec<&str> = pivot.lines().collect();
    assert!(lines[0].starts_with("| layer \\\\ workload | random-write") && lines[2].contains(" ± "), "{pivot}");
    assert!(lines.len() == 4 && lines[2..].iter().all(|line| line.contains(" * |")), "{pivot}");
    let csv = at(&scratch, "results regions.results --where layer=rmw --show slowdown --format csv").done();
    assert_eq!(csv.lines().count(), 5, "two workloads and two regions: {csv}");
    assert!(at(&scratch, "results regions.results --format csv").done().contains(",slowdown,"));
    let against =
        at(&scratch, "results regions.results --sweep regions --against regions --show slowdown --format csv");
    assert!(against.done().lines().skip(1).all(|line| line.ends_with(",1")), "a sweep equals itself");
    at(&scratch, "results regions.results --show colour").says(2, &["no outcome has the key colour"]);
    at(&scratch, "results regions.results --sweep other").says(2, &["no sweep is called other", "regions"]);
    at(&scratch, "results regions.toml").says(3, &["no store of results"]);
}
