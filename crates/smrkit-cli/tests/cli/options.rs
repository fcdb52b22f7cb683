//! Each option of `run` does what it says.

use serde_json::Value;

use super::{Scratch, TINY, outcome, outcomes, smrkit, testdata};

const RANDOM: &str = "--drive tiny --layer in-place --workload random-write:count=300";

fn ns(outcome: &Value, key: &str) -> u64 {
    outcome[key].as_u64().unwrap()
}

#[test]
fn without_arguments_the_desktop_day_runs_on_every_layer() {
    let runs = outcomes("");
    let layers: Vec<&str> = runs.iter().map(|run| run["layer"].as_str().unwrap()).collect();
    assert_eq!(layers, smrkit::layer::all().iter().map(|layer| layer.name).collect::<Vec<_>>());
    assert!(runs.iter().all(|run| run["workload"] == "desktop" && run["drive"] == "st8000dm004"));
}

#[test]
fn a_drive_is_run_as_it_is_sold_beside_its_conventional_twin() {
    let layers = |arguments: &str| -> Vec<String> {
        let runs = outcomes(&format!("{arguments} --workload mix:count=20"));
        runs.iter().map(|run| run["layer"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(layers("--drive st8000dm004"), ["in-place", "drive-managed"]);
    assert_eq!(layers("--drive wd40efax"), ["in-place", "log"]);
    assert_eq!(layers("--drive hc680"), ["in-place", "zoned"]);
    assert_eq!(layers("--drive ST8000AS0022"), ["in-place", "host-aware"]);
    assert_eq!(layers("--drive st8000as0022 --layer zone-log,dm-zoned"), ["zone-log", "dm-zoned"]);
    assert_eq!(layers("--drive wd40efrx"), ["in-place"]);
    assert_eq!(layers("--drive wd40efrx --layer in-place,as-sold,rmw"), ["in-place", "rmw"]);
    assert_eq!(layers("--drive wd40efax --layer as-sold --check --capacity 1GB"), ["log"]);
    assert_eq!(layers(TINY).len(), smrkit::layer::all().len(), "no product");
    let array = "--array span:member=(drive=wd40efax),member=(drive=hc650)";
    let [_, sold] = &outcomes(&format!("{array} --workload mix:count=20"))[..] else { panic!("two runs") };
    let members: Vec<&str> =
        sold["members"].as_array().unwrap().iter().map(|one| one["layer"].as_str().unwrap()).collect();
    assert_eq!(members, ["log", "zoned"]);
    // Parameters are the file's unless set otherwise, and a run is repeated from its record.
    let spare = |set: &str| {
        let run = outcome(&format!("--drive wd40efax --layer as-sold --workload mix:count=20 {set}"));
        run["parameters"]["spare_percent"].as_f64().unwrap()
    };
    assert_eq!((spare(""), spare("--set log.spare_percent=3")), (0.5, 3.0));
    for (drive, layer) in [("st8000dm004", "dm-zoned"), ("wd40efrx", "zone-log"), ("WD40EFAX", "zoned")] {
        let run = format!("run --drive {drive} --layer {layer} --workload mix:count=1");
        smrkit(&run).says(4, &["shows its host no zones", layer, "hc620"]);
        let member = format!("run --array raid1:disks=2,layer={layer} --drive {drive} --workload mix:count=1");
        smrkit(&member).says(4, &["shows its host no zones"]);
    }
    smrkit("run --drive tiny --layer as-sold").says(2, &["no drive that is sold", "--layer"]);
}

#[test]
fn numbers_of_options_are_read_as_those_of_keys() {
    let spelt = "--depth 1_0 --warmup 0.1k --seed 1k --think 0.005s --time-scale 1_0 --span 64KiB";
    let (spelt, plain) = (
        outcome(&format!("{RANDOM} {spelt}")),
        outcome(&format!("{RANDOM} --depth 10 --warmup 100 --seed 1000 --think 5ms --time-scale 10 --span 65536")),
    );
    assert_eq!((&spelt["engine"], &spelt["seed"]), (&plain["engine"], &plain["seed"]));
    assert_eq!(
        (&spelt["engine"]["depth"], &spelt["engine"]["warmup"], &spelt["seed"]),
        (&10.into(), &100.into(), &1000.into())
    );
    smrkit("run --warmup 1.5").says(2, &["--warmup", "is not whole"]);
    smrkit("run --depth 5G").says(2, &["--depth", "too large"]);
}

#[test]
fn depth_and_think_time_are_those_of_a_closed_loop() {
    let one = outcome(RANDOM);
    let eight = outcome(&format!("{RANDOM} --depth 8"));
    assert_eq!(eight["engine"]["depth"], 8);
    assert_eq!(ns(&one, "elapsed_ns"), ns(&eight, "elapsed_ns"), "first come, first served: the same order");
    assert!(ns(&eight, "wait_ns") > 6 * ns(&one, "elapsed_ns"), "seven others are served first");
    let think = outcome(&format!("{RANDOM} --think 50ms"));
    assert_eq!(think["engine"]["think_ns"], 50_000_000);
    assert!(ns(&think, "elapsed_ns") >= 299 * 50_000_000);
    assert_eq!(ns(&think, "wait_ns"), 0);
}

#[test]
fn queue_policies_shorten_the_seeks() {
    let elapsed = |queue: &str| {
        let outcome = outcome(&format!("{RANDOM} --depth 32 --queue {queue}"));
        assert_eq!(outcome["engine"]["queue"], queue);
        ns(&outcome, "elapsed_ns")
    };
    let (fcfs, elevator, sptf) = (elapsed("fcfs"), elapsed("elevator"), elapsed("sptf"));
    assert!(sptf < elevator && elevator < fcfs, "{sptf} {elevator} {fcfs}");
}

#[test]
fn arrivals_by_the_trace_are_stretched_by_the_time_scale() {
    let scratch = Scratch::new();
    let trace = scratch.msr("trace.csv", &[(0, 0, 4096), (1000, 4096, 4096), (2000, 8192, 4096)]);
    let run = |options: &str| outcome(&format!("--layer in-place --trace {trace} {options}"));
    assert_eq!(ns(&run("--arrival trace"), "arrivals_ns"), 2_000_000_000);
    assert_eq!(ns(&run("--arrival trace --time-scale 2.5"), "arrivals_ns"), 5_000_000_000);
    let flat = run("");
    assert_eq!(flat["engine"]["arrival"], "flat-out");
    assert!(ns(&flat, "elapsed_ns") < 1_000_000_000);
}

#[test]
fn prefill_is_not_counted_but_changes_the_state() {
    let set_assoc = "--drive tiny --layer set-assoc --set set-assoc.region_sectors=256,set-assoc.cache_percent=10 \
                     --workload random-write:count=20";
    let set_assoc = set_assoc.replace(",set-assoc.cache", " --set set-assoc.cache");
    let run = |prefill: &str| {
        let outcome = outcome(&format!("{set_assoc} --prefill {prefill}"));
        assert_eq!(outcome["requests"], 20);
        assert_eq!(outcome["engine"]["prefill"], prefill);
        outcome["timeline"]["cache_fill"][0].as_f64().unwrap()
    };
    let none = run("none");
    let half = run("random:0.5");
    assert!(none < 0.3 && half > none + 0.3, "{none} {half}");
    run("sequential");
    let whole = outcome(&format!("{set_assoc} --prefill random"));
    assert_eq!(whole["engine"]["prefill"], "random:1");
}

#[test]
fn warm_up_is_served_but_not_counted() {
    let warm = outcome(&format!("{RANDOM} --warmup 200"));
    assert_eq!((&warm["requests"], &warm["engine"]["warmup"]), (&100.into(), &200.into()));
    let all = outcome(RANDOM);
    assert!(ns(&warm, "elapsed_ns") < ns(&all, "elapsed_ns"));
}

#[test]
fn volumes_are_laid_end_to_end_or_taken_alone() {
    let requests = |volume: &str| {
        outcome(&format!("--layer in-place --trace {} {volume}", testdata("msr.csv")))["requests"].as_u64().unwrap()
    };
    assert_eq!(requests("--volume 1") + requests("--volume 2"), requests("--volume all"));
    assert_eq!(requests(""), requests("--volume all"));
}

#[test]
fn capacity_is_a_size_or_more_of_the_same_platters() {
    let scratch = Scratch::new();
    let trace = scratch.msr("far.csv", &[(0, 0, 4096), (1, 40 << 20, 4096)]);
    let run = |options: &str| outcome(&format!("--drive tiny --layer in-place --trace {trace} {options}"));
    let host = |outcome: &Value| outcome["capacity"]["host_sectors"].as_u64().unwrap();
    let (own, needed) = (9264, (40 << 11) + 8);
    let auto = run("");
    assert_eq!(host(&auto), own * 9, "as many times its platters as are needed");
    assert_eq!(run("--capacity auto"), auto, "auto is the default");
    assert_eq!(auto["scaled"]["platters"], 9);
    assert_eq!(auto["scaled"]["own_bytes"], own * 512);
    let text = auto["verdict"]["text"].as_str().unwrap();
    assert!(text.contains("The trace needs 41.9 MB: this is tiny with 9 × its platters, 42.7 MB"), "{text}");
    // The record's size gives the same drive.
    let recorded = auto["capacity"]["raw_sectors"].as_u64().unwrap() * 512;
    let again = run(&format!("--capacity {recorded}"));
    assert_eq!((&again["busy_ns"], &again["capacity"]), (&auto["busy_ns"], &auto["capacity"]));
    assert!(again["scaled"].is_null());
    assert!((200_000..=200_100_000).contains(&host(&run("--capacity 100MiB"))));
    // Every layer of a comparison holds the trace, and so does a run that is recorded.
    for run in outcomes(&format!("{TINY} --trace {trace}")) {
        assert!(host(&run) >= needed, "{}", run["layer"]);
    }
    let rows = scratch.path("rows.parquet");
    assert_eq!(host(&run(&format!("--requests {rows}"))), own * 9);
}

#[test]
fn a_trace_that_fits_runs_on_the_drive_as_it_is() {
    let trace = testdata("msr.csv");
    let drive = "--drive st5000as0011 --layer in-place,drive-managed";
    let own = outcomes(&format!("{drive} --workload mix:count=10"));
    let runs = outcomes(&format!("{drive} --trace {trace}"));
    for (run, own) in runs.iter().zip(&own) {
        assert_eq!((&run["capacity"], &run["scaled"]), (&own["capacity"], &Value::Null));
    }
    assert_eq!(runs[1]["asked"]["cache_tracks"], "auto");
    assert_eq!(runs[1]["parameters"]["cache_tracks"], 13_791);
}

#[test]
fn a_capacity_that_cannot_be_is_refused_by_name() {
    let run = "run --layer in-place --workload mix:count=1";
    smrkit(&format!("{run} --capacity 1")).says(2, &["--capacity", "give --capacity a unit"]);
    smrkit(&format!("{run} --capacity 1P")).says(4, &["a capacity of 1.0 PB", "at most 512 TiB", "--capacity"]);
    let short = smrkit("run --drive tiny --capacity 512 --layer log --workload mix:count=1").failed(4);
    assert!(short.contains("take a larger drive") && !short.contains("raise log.segment_tracks"), "{short}");
}

#[test]
fn a_warmup_longer_than_the_demand_is_said() {
    let ran = smrkit("run --drive tiny --layer in-place --workload mix:count=10 --warmup 10");
    assert!(
        ran.code == 0 && ran.err.contains("--warmup 10") && ran.err.contains("no request was counted"),
        "{}",
        ran.err
    );
}

#[test]
fn folding_takes_addresses_modulo_the_capacity() {
    let scratch = Scratch::new();
    let trace = scratch.msr("far.csv", &[(0, 0, 4096), (1, 40 << 20, 4096)]);
    let folded = outcome(&format!("--drive tiny --layer in-place --trace {trace} --fold"));
    assert_eq!((&folded["requests"], &folded["engine"]["fold"]), (&2.into(), &true.into()));
}

#[test]
fn lists_of_values_multiply_into_runs() {
    let runs = outcomes(
        "--drive tiny --layer in-place,set-assoc --set set-assoc.region_sectors=128,256 \
         --set set-assoc.cache_percent=5,10,20 --workload random-write:count=50",
    );
    assert_eq!(runs.len(), 1 + 2 * 3);
    let mut seen: Vec<String> = runs.iter().map(|run| run["parameters"].to_string()).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), runs.len(), "every combination once");
}

#[test]
fn the_seed_changes_the_requests() {
    let busy = |seed: &str| ns(&outcome(&format!("{RANDOM} {seed}")), "busy_ns");
    assert_eq!(busy(""), busy("--seed 1"));
    assert_ne!(busy("--seed 1"), busy("--seed 2"));
}

#[test]
fn a_format_can_be_forced_and_columns_described() {
    let scratch = Scratch::new();
    let table = scratch.file("table.csv", "0,W,4096,512\n1,R,8192,1024\n");
    let format = "csv:time=0:us,op=1,offset=2:bytes,size=3:bytes";
    let outcome = outcome(&format!("--layer in-place --trace {table} --format {format}"));
    assert_eq!((&outcome["host_written_sectors"], &outcome["host_read_sectors"]), (&1.into(), &2.into()));
    smrkit(&format!("run --layer in-place --trace {table} --format nope")).says(2, &["nope", "msr"]);
}

#[test]
fn check_mode_is_noted_and_changes_no_number() {
    let run = |check: &str| {
        let arguments = "--drive tiny --layer rmw --set rmw.region_sectors=256 --workload mix:count=500";
        let mut outcome = outcome(&format!("{arguments} {check}"));
        outcome["engine"]["check"].take();
        outcome
    };
    assert_eq!(run("--check"), run(""));
}

#[test]
fn records_are_parquet_files_with_a_row_a_request() {
    let scratch = Scratch::new();
    let (requests, accesses) = (scratch.path("requests.parquet"), scratch.path("accesses.parquet"));
    smrkit(&format!("run {RANDOM} --requests {requests} --accesses {accesses}")).done();
    for path in [requests, accesses] {
        let content = std::fs::read(&path).unwrap();
        assert!(content.starts_with(b"PAR1") && content.ends_with(b"PAR1"), "{path}");
        assert!(content.len() > 300, "{path}: {} bytes", content.len());
    }
}

#[test]
fn a_report_is_one_page_that_needs_no_network() {
    let scratch = Scratch::new();
    let report = scratch.path("report.html");
    smrkit(&format!("run {TINY} --workload random-write:count=300 --report {report}")).done();
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.starts_with("<!"), "{}", &page[..60]);
    for layer in ["conventional (CMR)", "rmw", "set-assoc"] {
        assert!(page.contains(layer));
    }
    for fetches in ["<script src", "<link rel=\"stylesheet\"", "<img src=\"http", "@import"] {
        assert!(!page.contains(fetches), "{fetches}");
    }
}
