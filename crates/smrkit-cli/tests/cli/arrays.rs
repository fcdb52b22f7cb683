//! `run --array`: every level runs, results of an array hang together with those of its members, and what can't be says why.

use serde_json::Value;

use super::{Scratch, TINY, gives_the_same_bytes, outcome, outcomes, smrkit, testdata};

/// Members of the smallest drive, and what fits them.
const SMALL: &str = "--drive tiny --workload mix:count=400";

/// Every level with as many disks as fit it, and what it offers in members' worth.
const LEVELS: [(&str, u64, u64); 9] = [
    ("span:disks=3", 3, 3),
    ("raid0:disks=3,chunk=64KiB", 3, 3),
    ("raid1:disks=2", 2, 1),
    ("raid10:disks=4,chunk=64KiB", 4, 2),
    ("raid4:disks=3,chunk=64KiB", 3, 2),
    ("raid5:disks=4,chunk=64KiB", 4, 3),
    ("raid6:disks=4,chunk=64KiB", 4, 2),
    ("raidz3:disks=5,chunk=64KiB", 5, 2),
    ("dedicated:disks=2", 2, 2),
];

fn int(of: &Value, path: &str) -> u64 {
    of.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} of {of}"))
}

fn members(of: &Value) -> &Vec<Value> {
    of["members"].as_array().expect("an array has members")
}

#[test]
fn every_level_runs_and_offers_what_it_should() {
    for (array, disks, worth) in LEVELS {
        let run = outcome(&format!("{SMALL} --array {array} --layer in-place"));
        assert!(run["array"].as_str().unwrap().starts_with(array.split(',').next().unwrap()), "{}", run["array"]);
        assert_eq!((run["layer"].as_str(), run["drive"].as_str()), (Some("in-place"), Some("tiny")));
        assert_eq!((members(&run).len() as u64, int(&run, "/requests")), (disks, 400), "{array}");
        let a_member = int(&members(&run)[0], "/capacity/host_sectors");
        let offered = int(&run, "/capacity/host_sectors");
        assert!(offered <= worth * a_member && offered > worth * (a_member - 128), "{array}: {offered}");
        assert_eq!(run["slowdown"], 1.0, "{array}");
    }
}

#[test]
fn the_sums_of_an_array_are_those_of_its_members() {
    let tiny = "--drive tiny --set rmw.region_sectors=256 --workload mix:count=1500 --depth 4";
    let run = outcome(&format!("{tiny} --array raid5:disks=3,chunk=32KiB --layer rmw"));
    let members = members(&run);
    let sum = |path: &str| members.iter().map(|member| int(member, path)).sum::<u64>();
    for key in ["physical_read_sectors", "physical_written_sectors", "busy_by_cause_ns"] {
        for cause in ["total", "host", "destage", "clean", "map"] {
            let path = format!("/{key}/{cause}");
            assert_eq!(int(&run, &path), sum(&path), "{path}");
        }
    }
    for path in ["/busy_ns", "/cleaning/count", "/capacity/raw_sectors", "/movement/track_distance/total"] {
        assert_eq!(int(&run, path), sum(path), "{path}");
    }
    assert!(
        sum("/movement/bands_moved/total") > 0 && sum("/host_written_sectors") > int(&run, "/host_written_sectors")
    );
    assert_eq!(int(&run, "/latency_ns/all/count"), 1500);
    for member in members {
        assert_eq!((&member["layer"], &member["version"]), (&run["layer"], &run["version"]));
        assert!(member["array"].is_null() && member.get("members").is_none() && member["slowdown"].is_null());
        assert!(!member["verdict"]["text"].as_str().unwrap().is_empty());
        assert_eq!(int(member, "/latency_ns/all/count"), int(member, "/requests"));
        assert!(int(member, "/latency_ns/all/max") <= int(&run, "/latency_ns/all/max"), "it waits for the slowest");
    }
}

#[test]
fn layers_are_compared_as_members_of_one_array() {
    let runs = outcomes(&format!("{TINY} --workload mix:count=300 --array raid0:disks=2,chunk=64KiB"));
    let layers: Vec<&str> = runs.iter().map(|run| run["layer"].as_str().unwrap()).collect();
    let singles = outcomes(&format!("{TINY} --workload mix:count=10"));
    assert_eq!(layers, singles.iter().map(|run| run["layer"].as_str().unwrap()).collect::<Vec<_>>());
    assert!(runs.iter().all(|run| run["array"] == "raid0:disks=2,chunk=64Ki" && run["slowdown"].is_f64()));
}

#[test]
fn parameters_multiply_into_runs_and_the_arrays_own_hold() {
    let set = "--set rmw.region_sectors=128,256 --set rmw.hold=0,1";
    let run = |array: &str| outcomes(&format!("{SMALL} {set} --array {array}"));
    assert_eq!(run("raid1:disks=2,layer=rmw").len(), 4);
    let fixed = run("raid1:member=(layer=rmw,set=(hold=2)),member=(layer=in-place)");
    assert_eq!(fixed.len(), 4, "the member that is set takes part in the product, and does not heed it");
    for run in &fixed {
        assert_eq!((run["layer"].as_str(), int(&members(run)[0], "/parameters/hold")), (Some("mixed"), 2));
        assert_eq!(members(run)[1]["layer"], "in-place");
    }
}

#[test]
fn the_baseline_is_the_same_array_of_conventional_disks() {
    let array = "--array raid1:disks=2 --set rmw.region_sectors=256";
    let both = outcomes(&format!("{SMALL} --span 1MiB {array} --layer in-place,rmw"));
    let alone = outcome(&format!("{SMALL} --span 1MiB {array} --layer rmw"));
    assert_eq!(both[1]["slowdown"], alone["slowdown"]);
    let ratio = both[1]["elapsed_ns"].as_f64().unwrap() / both[0]["elapsed_ns"].as_f64().unwrap();
    assert_eq!(alone["slowdown"].as_f64(), Some(ratio));
    let text = |run: &Value| run["verdict"]["text"].as_str().unwrap().to_string();
    assert!(text(&both[0]).starts_with("Nothing had to be rewritten: "), "{}", text(&both[0]));
    assert!(text(&alone).contains("as long as the same array of conventional disks."), "{}", text(&alone));
}

#[test]
fn a_text_describes_members_that_differ() {
    let array = "raid0:chunk=64KiB,member=(layer=log,set=(segment_tracks=4)),member=(layer=in-place,capacity=8MB),member=(),member=()";
    let run = outcome(&format!("{SMALL} --array {array} --layer in-place --capacity 9MB"));
    let layers: Vec<&str> = members(&run).iter().map(|member| member["layer"].as_str().unwrap()).collect();
    assert_eq!((run["layer"].as_str(), layers), (Some("mixed"), vec!["log", "in-place", "in-place", "in-place"]));
    let raw = |at: usize| int(&members(&run)[at], "/capacity/raw_sectors");
    assert!(raw(1) < raw(0) && raw(2) == raw(0), "sizes of its own, and the run's");
    // The description alone gives the same run again.
    let again = run["array"].as_str().unwrap();
    assert_eq!(outcome(&format!("{SMALL} --array {again} --layer in-place --capacity 9MB")), run);
}

#[test]
fn a_drive_file_is_noted_with_the_members_that_take_it() {
    let scratch = Scratch::new();
    let mine = scratch.file("mine.toml", std::fs::read(super::root().join("crates/smrkit/drives/tiny.toml")).unwrap());
    let array = format!("span:member=(layer=in-place),member=(layer=in-place,drive={mine})");
    let run = outcome(&format!("{SMALL} --array {array}"));
    assert!(run["drive_file"].is_null() && members(&run)[0]["drive_file"].is_null());
    assert_eq!(members(&run)[1]["drive_file"], mine.as_str());
    let run = outcome(&format!("--drive {mine} --workload mix:count=10 --layer in-place --array raid1:disks=2"));
    assert_eq!(run["drive_file"], mine.as_str());
}

#[test]
fn capacity_is_that_of_each_member_or_fits_the_array_to_the_trace() {
    let scratch = Scratch::new();
    let trace = scratch.msr("far.csv", &[(0, 0, 4096), (1, 40 << 20, 4096)]);
    let host = |run: &Value| int(run, "/capacity/host_sectors");
    let needed = (40 << 11) + 8;
    for array in ["raid5:disks=5,chunk=64KiB", "span:disks=4"] {
        for run in outcomes(&format!("{TINY} --array {array} --trace {trace} --capacity auto")) {
            assert!(host(&run) >= needed, "{array} {}", run["layer"]);
        }
        let run = outcome(&format!("--drive tiny --layer in-place --array {array} --trace {trace} --capacity auto"));
        let disks = members(&run).len() as u64;
        assert!(host(&run) < needed + disks * 9264, "{array}: {}", host(&run));
        let text = run["verdict"]["text"].as_str().unwrap();
        assert!(text.contains("each drive (tiny) has") && text.contains("× its platters, in all"), "{text}");
    }
    let run = outcome(&format!("--drive tiny --layer in-place --array raid0:disks=2 --trace {trace} --capacity 30MiB"));
    let raw = int(&members(&run)[0], "/capacity/raw_sectors");
    assert!((30 << 11..31 << 11).contains(&raw), "{raw}");
}

#[test]
fn what_runs_have_arrays_have_too() {
    let array = "--array raid5:disks=3,chunk=64KiB --layer in-place --drive tiny";
    let run = |options: &str| outcome(&format!("{array} {options}"));
    let random = "--workload random-write:count=300";
    let one = run(random);
    let deep = run(&format!("{random} --depth 16"));
    assert!(int(&deep, "/elapsed_ns") < int(&one, "/elapsed_ns"), "members work at the same time");
    let ordered = run(&format!("{random} --depth 16 --queue sptf"));
    assert!(int(&ordered, "/elapsed_ns") < int(&deep, "/elapsed_ns"), "members order their own queues");
    let warm = run(&format!("{random} --warmup 200"));
    assert_eq!((int(&warm, "/requests"), int(&warm, "/engine/warmup")), (100, 200));
    let filled = run(&format!("{random} --prefill sequential --think 5ms"));
    assert!(int(&filled, "/elapsed_ns") >= 299 * 5_000_000);
    assert_ne!(int(&run(&format!("{random} --seed 2")), "/busy_ns"), int(&one, "/busy_ns"));
    let trace = format!("--trace {} --capacity auto", testdata("msr.csv"));
    let open = run(&format!("{trace} --arrival trace --time-scale 2"));
    assert!(int(&open, "/arrivals_ns") > 0);
    let volume = run(&format!("{trace} --volume 1"));
    assert!(int(&volume, "/requests") < int(&open, "/requests"));
    let scratch = Scratch::new();
    let far = scratch.msr("far.csv", &[(0, 0, 4096), (1, 4 << 40, 4096)]);
    assert_eq!(int(&run(&format!("--trace {far} --fold")), "/requests"), 2);
}

#[test]
fn check_mode_finds_conventional_members_of_shingled_disks() {
    let work = "--workload zipf:count=1500,span=4M --check --set rmw.region_sectors=256 --drive tiny";
    let run = outcome(&format!("{work} --array raid6:disks=5,chunk=32KiB,layer=rmw"));
    assert_eq!(run["engine"]["check"], true);
    let caught = "random-write:count=3000";
    smrkit(&format!("run --drive tiny --check --workload {caught} --array raid0:disks=2,layer=in-place"))
        .says(5, &["copes with no shingling", "was damaged by"]);
}

#[test]
fn sources_have_members_of_their_own_in_a_dedicated_array() {
    let two = "--workload random-write:count=200 --workload random-read:count=100 --interleave burst:10";
    let run = outcome(&format!("--drive tiny --layer in-place {two} --array dedicated:disks=2"));
    let of = |at: usize, key: &str| int(&members(&run)[at], &format!("/commands/{key}"));
    assert_eq!((of(0, "host_write"), of(0, "host_read"), of(1, "host_write"), of(1, "host_read")), (200, 0, 0, 100));
    assert_eq!(run["by_source"].as_array().unwrap().len(), 2);
    let moved = |burst: &str| {
        let run = outcome(&format!("--drive tiny --layer in-place {two}{burst} --array dedicated:disks=2"));
        members(&run).iter().map(|member| member["movement"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(moved(""), moved("00"), "however the sources are interleaved");
    let say = |options: &str| smrkit(&format!("run --drive tiny --layer in-place {two} {options}"));
    say("--workload mix --array dedicated:disks=2").says(4, &["3 sources for 2 members", "raise disks to 3"]);
    say("--array dedicated:disks=2 --sources end-to-end").says(2, &["its own member", "span"]);
    let parts = "--workload random-write:count=10+random-write:count=10 --array dedicated:disks=1";
    smrkit(&format!("run --drive tiny --layer in-place {parts}")).says(3, &["of source 1", "raise disks"]);
}

#[test]
fn records_have_a_row_a_request_with_the_arrays_addresses() {
    let scratch = Scratch::new();
    let path = scratch.path("requests.parquet");
    let array = "--array span:disks=2,layer=in-place";
    smrkit(&format!("run {SMALL} {array} --requests {path}")).done();
    assert!(std::fs::read(path).unwrap().starts_with(b"PAR1"));
}

#[test]
fn records_have_a_row_a_physical_access_with_the_members_number() {
    let scratch = Scratch::new();
    let columns = |run: &str| {
        let path = scratch.path("accesses.parquet");
        smrkit(&format!("run {SMALL} --layer in-place {run} --accesses {path}")).done();
        let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        ["accesses", "member", "pba", "duration_ns"].map(|name| text.contains(name))
    };
    assert_eq!(columns("--array span:disks=2"), [true, true, true, true]);
    assert_eq!(columns(""), [true, false, true, true]);
}

#[test]
fn checking_a_large_array_takes_no_longer_than_what_was_written() {
    // Comparing all of its 5 TB would take hours.
    let large = "--drive st5000as0011 --layer log --array raid5:disks=3 --workload mix:count=10 --check";
    smrkit(&format!("run {large}")).done();
}

#[test]
fn the_terminal_shows_array_layer_and_members() {
    let few = smrkit(&format!("run {SMALL} --array raid1:disks=2,layer=in-place")).done();
    assert!(few.starts_with("raid1 conventional (CMR): Nothing had to be rewritten: "), "{few}");
    for words in ["array", "raid1:disks=2,chunk=512Ki,layer=in-place", "member", "busy", "longest"] {
        assert!(few.contains(words), "{words}: {few}");
    }
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("raid1 ") && !line.contains(": ")).count();
    assert_eq!(rows(&few), 2 + 2, "how fast, what it costs, and two members: {few}");
    let asked = smrkit(&format!("run {SMALL} --array raid1:disks=2,layer=in-place --movement")).done();
    assert_eq!(rows(&asked), 2 + 2 + 1, "and movement: {asked}");
    let many = smrkit(&format!("run {SMALL} --array raid1:disks=20,layer=in-place")).done();
    assert!(many.contains("busiest") && many.contains("least busy"), "{many}");
    assert_eq!(rows(&many), 2 + 1, "how fast, what it costs, and a summary: {many}");
}

#[test]
fn a_report_shows_the_members() {
    let scratch = Scratch::new();
    let report = scratch.path("report.html");
    let page = |options: &str| {
        smrkit(&format!("run {SMALL} {options} --report {report}")).done();
        std::fs::read_to_string(&report).unwrap()
    };
    let members = page("--array raid5:disks=3,chunk=64KiB --set rmw.region_sectors=256 --layer in-place,rmw");
    for shown in [">Members</h2>", "raid5 rmw"] {
        assert!(members.contains(shown), "{shown}");
    }
    assert!(!page("--layer in-place").contains(">Members</h2>"));
}

#[test]
fn a_member_is_rebuilt_beside_the_requests() {
    let array = "--array raid5:disks=3,chunk=64KiB --drive tiny --workload mix:count=300 --layer in-place,vguard";
    let runs = outcomes(&format!("{array} --rebuild disk=1,write=64KiB,after=50 --depth 2"));
    for run in &runs {
        let rebuild = &run["rebuild"];
        assert!(rebuild["spec"].as_str().unwrap().contains("disk=1"), "{rebuild}");
        assert!(int(rebuild, "/elapsed_ns") > 0 && int(rebuild, "/bytes") > 1_000_000, "{rebuild}");
        assert_eq!(rebuild["members"][1]["new"], true);
        let series: u64 =
            rebuild["series"]["bytes"].as_array().unwrap().iter().map(|bytes| bytes.as_u64().unwrap()).sum();
        assert_eq!(series, int(rebuild, "/bytes"));
        assert!(run["slowdown"].is_null(), "not the same requests");
    }
    assert!(int(&runs[1], "/rebuild/elapsed_ns") > int(&runs[0], "/rebuild/elapsed_ns"), "shingled takes longer");
    let text = smrkit(&format!("run {array} --rebuild scrub")).done();
    assert!(text.contains("redundant") && text.contains("rebuild "), "{text}");
    let scratch = Scratch::new();
    let report = scratch.path("report.html");
    smrkit(&format!("run {array} --rebuild disk=1 --report {report}")).done();
    let page = std::fs::read_to_string(report).unwrap();
    // Vguard writes bands.
    let shown = [
        "Share of what is to be rebuilt (%)",
        "The host meanwhile",
        "writing bands",
        ">The course of the rebuild</h2>",
    ];
    assert!(shown.iter().all(|text| page.contains(text)), "{page}");
    let wrong = |options: &str| smrkit(&format!("run --drive tiny --layer in-place --workload mix:count=9 {options}"));
    wrong("--rebuild disk=1").says(2, &["--array"]);
    wrong("--array raid1:disks=2 --rebuild disk=2").says(2, &["disks go from 0 to 1"]);
    wrong("--array raid0:disks=2 --rebuild disk=1").says(4, &["raid5"]);
    wrong("--array raid0:member=(raid1:disks=2),member=(raid1:disks=2) --rebuild disk=1").says(2, &["write raid10"]);
    wrong("--array raid1:disks=2 --rebuild dsik=1").says(2, &["dsik"]);
}

#[test]
fn no_member_is_busy_for_more_than_all_of_the_time() {
    let array = "--array raid5:disks=4,chunk=64KiB --layer in-place,vguard --drive tiny --workload mix:count=30";
    let text = smrkit(&format!("run {array} --rebuild rate=100kB,after=20,failed=before")).done();
    let words: Vec<&str> =
        text.lines().filter(|line| line.starts_with("raid5 ")).flat_map(str::split_whitespace).collect();
    let shares = words.windows(2).filter(|pair| pair[1] == "%").map(|pair| pair[0].replace(',', ""));
    let shares: Vec<f64> = shares.map(|share| share.parse().unwrap()).collect();
    assert!(shares.len() >= 2 * 8, "two of each member: {text}");
    assert!(shares.iter().all(|&share| share <= 100.0), "{text}");
}

#[test]
fn runs_are_told_apart_by_the_parameters_of_their_members() {
    let array = "--array raid0:member=(set=(region_sectors=50)),member=() --layer rmw --set rmw.region_sectors=30,40";
    let text = smrkit(&format!("run --drive tiny {array} --workload mix:count=50")).done();
    assert!(text.starts_with("raid0 rmw region_sectors=30: "), "{text}");
    assert!(text.contains("\nraid0 rmw region_sectors=40: "), "{text}");
}

#[test]
fn what_no_array_could_be_says_the_remedy() {
    let run = |options: &str| smrkit(&format!("run {SMALL} --layer in-place {options}"));
    run("--array raid7:disks=3").says(2, &["raid7", "raid5", "dedicated"]);
    run("--array raid5").says(2, &["disks=N"]);
    run("--array raid5:disks=2").says(4, &["raise disks to 3", "raid1"]);
    run("--array raid0:disks=2,chunk=1G").says(4, &["chunk"]);
    run("--array raid0:disks=2,layer=nope").says(2, &["every member", "leave out --layer"]);
    smrkit("run --array raid0:disks=2,layer=nope").says(2, &["`nope`", "in-place"]);
    smrkit("run --array raid0:disks=2,drive=tiny --drive tiny").says(2, &["--drive"]);
    smrkit("run --array raid0:disks=2,capacity=1G --capacity 1G").says(2, &["--capacity"]);
    run("--array raid0:disks=2 --set rmw.hold=1").says(2, &["add it to --layer"]);
    run("--array raid0:disks=2 --power-cut 5").says(2, &["--power-cut", "single drives"]);
    smrkit("run --drive tiny --layer rmw --array raid0:disks=2").says(4, &["rmw", "lower region_sectors"]);
}

#[test]
fn a_trace_larger_than_the_array_is_refused_with_the_remedies() {
    let scratch = Scratch::new();
    let trace = scratch.msr("far.csv", &[(0, 4 << 40, 4096)]);
    smrkit(&format!("run --drive tiny --capacity 4MB --layer in-place --array raid5:disks=3 --trace {trace}"))
        .says(3, &["past the capacity of", "--fold", "--capacity auto"]);
}

#[test]
fn an_array_gives_the_same_bytes_on_any_number_of_threads() {
    let work = "--workload mix:count=600 --workload zipf:count=300 --interleave burst:5 --depth 8 --queue elevator";
    gives_the_same_bytes(&format!("run {TINY} {work} --array raid10:disks=3,chunk=64KiB --json -"));
}
