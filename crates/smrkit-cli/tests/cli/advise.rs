//! `smrkit advise`: the answer agrees with the runs of `smrkit run`, holds what its page promises, and refuses nonsense.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Scratch, gives_the_same_bytes, outcome, root, smrkit, testdata};

const SMALL: &str = "--drive tiny --workload random-write:count=3000";
const TWO: &str = "--drive tiny --workload mix:count=1000 --workload zipf:count=1000 --interleave burst:10";

#[track_caller]
fn advice(arguments: &str) -> Value {
    serde_json::from_str(&smrkit(&format!("advise {arguments} --json -")).done()).expect("standard output is JSON only")
}

fn remedies<'a>(advice: &'a Value, kind: &str) -> Vec<&'a Value> {
    advice["remedies"].as_array().unwrap().iter().filter(|remedy| remedy["kind"] == kind).collect()
}

#[test]
fn the_system_as_it_is_is_that_of_smrkit_run_at_each_depth() {
    let advice = advice(&format!("{SMALL} --depth 16,1 --all"));
    let present = advice["present"].as_array().unwrap();
    assert_eq!(present.iter().map(|one| one["depth"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 16]);
    // The same addresses: those of a workload that takes what all layers offer.
    let span = advice["demand"]["workload_sectors"].as_u64().unwrap() * 512;
    for one in present {
        let run = outcome(&format!("{SMALL} --layer drive-managed --span {span} --depth {}", one["depth"]));
        let verdict = &run["verdict"];
        for key in ["cache_full_at_s", "rate_before_bytes_per_s", "rate_after_bytes_per_s", "longest_stall_ns"] {
            assert_eq!(one[key], verdict[key], "{key}");
        }
        assert_eq!(one["mean_ns"], run["latency_ns"]["all"]["mean"]);
        let usual = outcome(&format!("{SMALL} --layer in-place --span {span} --depth {}", one["depth"]));
        assert_eq!(one["conventional"]["longest_stall_ns"], usual["verdict"]["longest_stall_ns"]);
    }
    let hardest = &present[advice["hardest"].as_u64().unwrap() as usize]["depth"];
    let run = outcome(&format!("{SMALL} --layer track-map --span {span} --depth {hardest}"));
    let layer = remedies(&advice, "layer").into_iter().find(|remedy| remedy["change"] == "layer track-map").unwrap();
    assert_eq!(layer["trajectory"]["longest_stall_ns"], run["verdict"]["longest_stall_ns"]);
    assert!(layer["think_ns"].is_null() && layer["time_scale"].is_null(), "{layer}");
}

#[test]
fn a_pause_is_that_of_smrkit_run_with_the_text_for_its_think_time() {
    let advice = advice(&format!("{SMALL} --depth 4"));
    let span = advice["demand"]["workload_sectors"].as_u64().unwrap() * 512;
    let pauses = remedies(&advice, "idle");
    assert_eq!(pauses.len(), 3);
    for pause in pauses {
        let think = pause["change"].as_str().unwrap().strip_prefix("pauses of ").unwrap().replace(' ', "");
        let run = outcome(&format!("{SMALL} --layer drive-managed --span {span} --depth 4 --think {think}"));
        assert_eq!(pause["think_ns"], run["engine"]["think_ns"], "{think}");
        let course = &pause["trajectory"];
        for key in ["rate_before_bytes_per_s", "rate_after_bytes_per_s", "longest_stall_ns"] {
            assert_eq!(course[key], run["verdict"][key], "{think}: {key}");
        }
        assert_eq!(
            (&course["mean_ns"], &course["elapsed_ns"]),
            (&run["latency_ns"]["all"]["mean"], &run["elapsed_ns"])
        );
        assert!(pause["time_scale"].is_null());
        let usual = outcome(&format!("{SMALL} --layer in-place --span {span} --depth 4 --think {think}"));
        let mean = |run: &Value| run["latency_ns"]["all"]["mean"].as_f64().unwrap();
        let times = pause["against"]["whole"]["mean"].as_f64().unwrap();
        assert!((times * mean(&usual) / mean(&run) - 1.0).abs() < 1e-9, "{think}: compared with the same pauses");
    }
}

#[test]
fn a_pause_is_not_worse_because_conventional_disks_gain_by_it() {
    let advice = advice("--workload hot-cold:count=500 --depth 32");
    let pauses = remedies(&advice, "idle");
    let is_slow = |pause: &&Value| pause["against"]["whole"]["mean"].as_f64().unwrap() > 2.0;
    assert!(pauses.iter().any(is_slow), "{pauses:?}");
    assert!(pauses.iter().all(|pause| pause["effect"] != "worsens"), "{pauses:?}");
}

#[test]
fn what_is_known_roughly_of_a_drive_is_run_at_both_ends() {
    let scratch = Scratch::new();
    let tiny = std::fs::read_to_string(root().join("crates/smrkit/drives/tiny.toml")).unwrap();
    let rough = tiny.replace("rpm = { value = 7200,", "rpm = { value = 7200, low = 3600, high = 15000,");
    let drive = scratch.file("rough.toml", rough);
    let asked = "--workload random-write:count=3000 --depth 4";
    let answer = advice(&format!("--drive {drive} {asked}"));
    let span = answer["demand"]["workload_sectors"].as_u64().unwrap() * 512;
    let ends = remedies(&answer, "range");
    assert_eq!(ends.len(), 2);
    for (end, at) in ends.into_iter().zip(["mechanical.rpm=low", "mechanical.rpm=high"]) {
        let run = outcome(&format!("--drive {drive}@{at} --layer drive-managed {asked} --span {span}"));
        assert_eq!(end["change"], at);
        assert_eq!(end["trajectory"]["elapsed_ns"], run["elapsed_ns"], "{at}");
    }
    let text = answer["text"].as_str().unwrap();
    assert!(text.contains("figures of this drive are estimates"), "{text}");
    assert!(remedies(&advice(&format!("--drive tiny {asked}")), "range").is_empty());
}

#[test]
fn every_kind_of_change_is_tried_where_it_makes_sense() {
    let kinds = |arguments: &str| -> BTreeSet<String> {
        let advice = advice(&format!("{arguments} --all"));
        let all = advice["remedies"].as_array().unwrap().iter();
        all.map(|remedy| remedy["kind"].as_str().unwrap().to_string()).collect()
    };
    let of = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
    let single = ["conventional", "idle", "layer", "write-cache", "write-size"];
    assert_eq!(kinds(&format!("{SMALL} --depth 1")), of(&single));
    let dedicated = [single.as_slice(), &["dedicated"]].concat();
    assert_eq!(kinds(&format!("{TWO} --depth 1")), of(&dedicated));
    let array = [dedicated.as_slice(), &["chunk", "level"]].concat();
    assert_eq!(kinds(&format!("{TWO} --depth 4 --array raid0:disks=2,chunk=64KiB")), of(&array));
    let set = "--set drive-managed.bypass=command --set drive-managed.write_cache_bytes=1M";
    let known = ["conventional", "idle", "layer", "write-size"];
    assert_eq!(kinds(&format!("{SMALL} --depth 1 {set}")), of(&known), "what was set is not assumed");
    let conventional = kinds("--drive tiny --layer in-place --workload random-read:count=2000 --depth 1");
    assert_eq!(conventional, of(&["idle", "layer"]), "reads can't be packed, and there is nothing to assume");
}

#[test]
fn larger_writes_write_the_same_bytes_by_fewer_requests() {
    let advice = advice(&format!("{SMALL} --depth 4"));
    let present = &advice["present"][0];
    assert_eq!((&advice["demand"]["requests"], &present["requests"]), (&3000.into(), &3000.into()));
    let requests: Vec<u64> = remedies(&advice, "write-size")
        .iter()
        .map(|remedy| remedy["trajectory"]["requests"].as_u64().unwrap())
        .collect();
    // One of 4 MiB would be larger than the disk.
    assert_eq!(requests, [3000_u64.div_ceil(16), 3000_u64.div_ceil(128)]);
}

#[test]
fn larger_writes_leave_out_as_much_for_a_warm_up() {
    let advice = advice("--workload random-write:span=100G,count=4k --warmup 1k --depth 1");
    let whole = 3_000 * 4096;
    for remedy in remedies(&advice, "write-size") {
        let requests = remedy["trajectory"]["requests"].as_u64().unwrap();
        let size = match remedy["change"].as_str().unwrap() {
            "writes of 64 KiB" => 64 << 10,
            "writes of 512 KiB" => 512 << 10,
            _ => 4 << 20,
        };
        assert!((requests * size).abs_diff(whole) <= 2 * size, "{remedy}");
    }
}

#[test]
fn a_rate_names_its_depth_where_there_are_several() {
    let text = |arguments: &str| advice(arguments)["text"].as_str().unwrap().to_string();
    let both = text("--workload random-write:count=20k,span=1T --depth 1,16");
    assert!(both.contains("at a time, CMR disks"), "{both}");
    let one = text("--workload random-write:count=20k,span=1T --depth 16");
    assert!(!one.contains("at a time"), "{one}");
}

#[test]
fn pauses_do_not_make_larger_writes_worse() {
    let advice = advice("--drive hc620 --layer in-place --workload random-write:count=500 --think 20ms --depth 1");
    assert!(remedies(&advice, "write-size").iter().all(|remedy| remedy["effect"] != "worsens"), "{advice}");
}

#[test]
fn a_cache_is_called_full_only_where_it_is() {
    let text = |arguments: &str| advice(arguments)["text"].as_str().unwrap().to_string();
    let full = text("--workload random-write:count=40k,span=1T --depth 1");
    assert!(full.contains("The drive's cache is full after"), "{full}");
    // Cleaning that has begun in a pause makes the next request wait.
    let paused = text("--workload mix:count=2000 --think 1.2s --depth 1");
    assert!(paused.contains("Requests wait for cleaning after"), "{paused}");
    let part = text("--array mirror:disks=2 --rebuild resilver --workload mix:count=300");
    assert!(part.contains("Simulated on 18.8 GB of each disk"), "{part}");
}

#[test]
fn arrival_times_too_close_for_any_disk_are_told() {
    let scratch = Scratch::new();
    let writes: Vec<_> = (0..400).map(|number| (number, number * 977 % 400 * 1_000_000_000, 4096)).collect();
    let trace = scratch.msr("close.csv", &writes);
    let told = |more: &str| {
        let advice = advice(&format!("--trace {trace} --arrival trace {more}"));
        advice["text"].as_str().unwrap().contains("CMR disks can't keep up")
    };
    assert!(told(""));
    assert!(!told("--time-scale 1000"));
}

#[test]
fn an_array_is_not_told_to_bear_fewer_losses() {
    let levels = |level: &str| {
        let advice = advice(&format!("--drive tiny --array {level}:disks=6 --workload mix:count=5000 --depth 8"));
        let names = remedies(&advice, "level").iter().map(|remedy| remedy["change"].to_string()).collect::<String>();
        ["span", "raid0", "raid10", "raid5"].map(|level| names.contains(&format!("\"{level} of")))
    };
    assert_eq!(levels("raid6"), [false, false, false, false]);
    assert_eq!(levels("raid5"), [false, false, true, false]);
    assert_eq!(levels("raid0"), [true, false, true, true]);
}

#[test]
fn a_dedicated_disk_sees_its_own_source_alone() {
    let advice = advice(&format!("{TWO} --depth 1"));
    let dedicated = remedies(&advice, "dedicated")[0];
    assert_eq!(dedicated["trajectory"]["disks"], 2, "{dedicated}");
    assert_eq!(dedicated["trajectory"]["requests"], 2000);
    let sectors = &advice["demand"]["sources"][1]["sectors"];
    let span = sectors.as_u64().unwrap() * 512;
    let run = outcome(&format!("{TWO} --span {span} --array dedicated:disks=2,layer=drive-managed"));
    assert_eq!(&run["sources"][1]["sectors"], sectors);
    assert_eq!(dedicated["trajectory"]["longest_stall_ns"], run["verdict"]["longest_stall_ns"]);
}

#[test]
fn changes_that_can_not_run_are_listed_with_their_reason() {
    let advice = advice(&format!("{SMALL} --depth 1 --all"));
    let rmw = remedies(&advice, "layer").into_iter().find(|remedy| remedy["change"] == "layer rmw").unwrap();
    assert!(rmw["not_run"].as_str().unwrap().contains("lower region_sectors"), "{rmw}");
    assert!(rmw["effect"].is_null() && rmw["trajectory"].is_null());
    let screen = smrkit(&format!("advise {SMALL} --depth 1 --all --details")).done();
    assert!(screen.contains("layer rmw: not run: no region of 50000"), "{screen}");
    assert_eq!(advice["complete"], true);
}

#[test]
fn the_answer_fits_the_screen_and_is_that_of_the_json() {
    let arguments = format!("{TWO} --array raid5:disks=3,chunk=64KiB --depth 1,8");
    let screen = smrkit(&format!("advise {arguments} --details")).done();
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert_eq!(screen.matches("× CMR").count(), 1, "{screen}");
    let words: Vec<&str> = screen.split_whitespace().collect();
    let advice = advice(&arguments);
    let text: Vec<&str> = advice["text"].as_str().unwrap().split_whitespace().collect();
    assert_eq!(words[..text.len()], text);
    let rows = advice["remedies"].as_array().unwrap();
    rows.iter().for_each(|row| assert!(screen.contains(row["change"].as_str().unwrap()), "{row}"));
}

#[test]
fn a_long_demand_is_served_in_part_where_that_shows_enough() {
    let advice = advice("--drive tiny --workload random-write:count=150k --depth 2");
    let first = advice["first_requests"].as_u64().unwrap();
    assert!(first < 150_000 && advice["present"][0]["requests"] == 150_000, "{first}");
    for row in advice["remedies"].as_array().unwrap() {
        assert!(row["trajectory"]["requests"].as_u64().is_none_or(|requests| requests <= first), "{row}");
        assert!(row["effect"] != "fixes" || row["kind"] == "conventional", "nobody has seen the rest: {row}");
    }
    assert_eq!(remedies(&advice, "conventional")[0]["effect"], "fixes");
}

#[test]
fn by_its_own_times_a_trace_is_stretched_and_has_one_depth() {
    let scratch = Scratch::new();
    let writes: Vec<_> = (0..400).map(|number| (number * 50, number * 977 % 400 * 1_000_000_000, 4096)).collect();
    let arguments = format!("--trace {} --arrival trace --capacity auto", scratch.msr("own.csv", &writes));
    let screen = smrkit(&format!("advise {arguments}")).done();
    assert!(screen.contains("a request takes") && screen.contains("on average") && screen.contains("mean"), "{screen}");
    let advice = advice(&arguments);
    assert_eq!(advice["present"].as_array().unwrap().len(), 1);
    let stretched = remedies(&advice, "idle");
    let names: Vec<&str> = stretched.iter().map(|remedy| remedy["change"].as_str().unwrap()).collect();
    assert_eq!(names, ["times stretched 2×", "times stretched 10×", "times stretched 100×"]);
    let factors: Vec<f64> = stretched.iter().map(|remedy| remedy["time_scale"].as_f64().unwrap()).collect();
    assert_eq!(factors, [2.0, 10.0, 100.0]);
    assert!(stretched.iter().all(|remedy| remedy["think_ns"].is_null() && remedy["effect"].is_string()));
    assert!(advice["demand"]["trace_sha256"].is_string());
}

#[test]
fn why_a_change_is_not_run_is_told_as_it_is() {
    let scratch = Scratch::new();
    let reasons = |arguments: &str, kind: &str| -> Vec<String> {
        let advice = advice(arguments);
        let reason = |remedy: &&Value| remedy["not_run"].as_str().unwrap_or("it was").to_string();
        remedies(&advice, kind).iter().map(reason).collect()
    };
    // An hour, times a million: 114 years.
    let long = scratch.msr("long.csv", &[(0, 0, 4096), (3_600_000, 0, 4096)]);
    let trace = format!("--drive tiny --trace {long} --arrival trace");
    let stretched = reasons(&format!("{trace} --time-scale 1e6"), "idle");
    let late = "would arrive after more than 292 years: give a smaller time_scale";
    assert!(stretched[0] == "it was" && stretched[1..].iter().all(|why| why.contains(late)), "{stretched:?}");
    let short = scratch.msr("short.csv", &[(0, 0, 4096), (10, 0, 4096)]);
    let stretched = reasons(&format!("--drive tiny --trace {short} --arrival trace --time-scale 2e8"), "idle");
    let limit = "time_scale takes a factor above 0 and at most 1e9";
    assert_eq!(stretched, ["it was", limit, limit]);
    // The disks just hold the trace, and with redundancy they do not.
    let far = (0..3000).map(|number| (number, number * 977 % 7680 * 4096, 4096)).chain([(3000, 30 << 20, 4096)]);
    let wide = scratch.msr("wide.csv", &far.collect::<Vec<_>>());
    let auto = format!("--array span:disks=3 --drive tiny --capacity 15MB --trace {wide} --depth 4");
    let no_room = "offers less room than the load needs";
    assert_eq!(reasons(&auto, "level"), ["it was", no_room, no_room]);
}

#[test]
fn a_rebuild_is_told_first_for_the_whole_disk() {
    let rebuild = advice("--array raidz1:disks=3 --capacity 1GB --rebuild resilver");
    let text = rebuild["text"].as_str().unwrap();
    assert!(text.starts_with("The resilver of a ") && text.contains("while nobody uses it, "), "{text}");
    assert_eq!(rebuild["system"]["array"], "raidz1:disks=3", "in the words of the question");
    assert_eq!([0, 1].map(|at| rebuild["present"][at]["load"].as_str().unwrap()), ["unused", "light"]);
    assert!(rebuild["present"][0]["against"]["rebuild"].as_f64().unwrap() > 1.0);
    assert_eq!(rebuild["present"][0]["requests"], 0);
    assert!(rebuild["present"][1]["requests"].as_u64().unwrap() > 0);
    let run = outcome(
        "--array raidz1:disks=3,layer=drive-managed --capacity 1GB --rebuild resilver --workload random-read:count=1",
    );
    let own = rebuild["present"][0]["rebuild"]["elapsed_ns"].as_f64().unwrap();
    assert!((own / run["rebuild"]["elapsed_ns"].as_f64().unwrap() - 1.0).abs() < 0.05, "the same rebuild");
    assert!(rebuild["whole_disk_bytes"].is_null());
    // A part of the disk is run whether its size was given or not.
    let part = advice("--array mirror:disks=2 --rebuild resilver --capacity 2TB");
    assert!(part["whole_disk_bytes"].as_u64().unwrap() > 1_800_000_000_000, "{}", part["whole_disk_bytes"]);
    assert!(part["present"][0]["rebuild"]["disk_bytes"].as_u64().unwrap() < 20_000_000_000);
    assert!(part["text"].as_str().unwrap().contains("Simulated on 18.8 GB of each disk"), "{part}");
    let scrub = advice("--drive tiny --array raid5:disks=4 --rebuild scrub");
    let text = scrub["text"].as_str().unwrap();
    assert!(text.starts_with("The scrub of disks of ") && scrub["present"][0]["requests"] == 0, "{text}");
    smrkit("advise --rebuild resilver").says(2, &["--array"]);
    smrkit("advise --array raidz1:4 --rebuild resilver").says(2, &["disks=4"]);
    smrkit("advise --array radz3:disks=5 --rebuild resilver").says(2, &["did you mean `raidz3`?"]);
}

#[test]
fn an_answer_is_a_page_in_colour_or_quiet() {
    let scratch = Scratch::new();
    let page = scratch.path("a.html");
    smrkit(&format!("advise {SMALL} --depth 4 --report {page}")).done();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("What was tried") && page.contains("hdparm -W1"), "{page}");
    let coloured = |option: &str| smrkit(&format!("advise {SMALL} --depth 4 {option}")).done().contains('\u{1b}');
    assert!(coloured("--color always") && !coloured("--color never") && !coloured("--quiet"));
    assert!(smrkit("completions bash").done().contains("_smrkit"));
    assert!(smrkit("man").done().contains(".TH smrkit"));
}

#[test]
fn layers_that_no_shop_sells_are_tried_where_all_is_asked_for() {
    let advice = advice(&format!("{SMALL} --depth 1"));
    assert!(remedies(&advice, "layer").is_empty() && !remedies(&advice, "conventional").is_empty());
}

#[test]
fn a_disk_is_judged_by_conventional_ones_and_not_by_its_own_past() {
    // Slow after reads that were slower still; and as fast as a conventional disk, after writes that were faster.
    let slow = "sequential-write:bytes=1G;random-read:count=3k,span=1G;random-write:size=1Mi,count=500,span=1G";
    let fine = "sequential-write:bytes=1G;random-write:count=3,span=1G;random-read:count=20k,span=1G";
    for (workload, is_slow) in [(slow, true), (fine, false)] {
        let advice = advice(&format!("--layer rmw --depth 1 --prefill none --workload {workload}"));
        assert_eq!(advice["problems"]["slow"], is_slow, "{}", advice["text"]);
        assert_eq!(advice["verdict"] == "fine", !is_slow, "{}", advice["text"]);
        let conventional = &remedies(&advice, "conventional")[0]["effect"];
        assert_eq!(conventional != "none", is_slow, "{conventional}");
    }
}

#[test]
fn depths_without_an_order_are_left_out_of_the_default_list() {
    let advice = advice("--drive tiny --workload mix:count=50 --queue elevator");
    let depths: Vec<u64> =
        advice["present"].as_array().unwrap().iter().map(|one| one["depth"].as_u64().unwrap()).collect();
    assert_eq!(depths, [10, 32]);
    smrkit("advise --drive tiny --workload mix:count=50 --queue elevator --depth 1,10").says(2, &["add --depth 32"]);
}

#[test]
fn reads_are_not_said_to_fill_a_cache() {
    // Each read merges what lies in the full cache, which is slow.
    let advice = advice("--drive tiny --workload sequential-read:count=500 --prefill random:1 --depth 8");
    let text = advice["text"].as_str().unwrap();
    assert!(text.contains("the drive's cache is 100 % full by then") && !text.contains("may fill it"), "{text}");
}

#[test]
fn the_same_command_gives_the_same_answer() {
    gives_the_same_bytes(&format!("advise {TWO} --depth 1,4 --json -"));
}

#[test]
fn nonsense_is_refused_with_the_remedy() {
    smrkit("advise --layer rmw,log").says(2, &["name one", "in a run"]);
    smrkit("advise --set drive-managed.partial=on,off").says(2, &["--set", "one value each"]);
    smrkit("advise --depth 0").says(2, &["from 1 to 65536"]);
    smrkit("advise --depth 1 --queue sptf").says(2, &["--depth 32"]);
    smrkit("advise --check").says(2, &["--check"]);
    smrkit("advise --interleave time").says(2, &["several sources"]);
    smrkit("advise --arrival trace --think 5ms").says(2, &["--think", "--arrival flat-out"]);
    smrkit("advise --drive tiny --workload mix:count=10 --warmup 10").says(2, &["no request was counted", "--warmup"]);
    smrkit("advise --trace missing.csv").says(3, &["missing.csv", "check the path"]);
    smrkit("advise --drive tiny --capacity 100kB").says(4, &["drive-managed", "larger drive"]);
    smrkit("advise --array raid5:disks=2").says(4, &["raise disks"]);
    smrkit("advise --json /nonexistent/a.json").says(1, &["/nonexistent/a.json"]);
    let scratch = Scratch::new();
    let far = scratch.msr("far.csv", &[(0, 1 << 40, 4096)]);
    smrkit(&format!("advise --drive tiny --capacity 4MB --trace {far}")).says(3, &["--fold", "--capacity auto"]);
    let empty = scratch.file("empty.csv", "");
    smrkit(&format!("advise --trace {empty}")).says(3, &["the file is empty"]);
}

/// Every key of a value by its path; parameters have names of their own.
fn paths(prefix: &str, value: &Value, into: &mut BTreeSet<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if path != "system.parameters" {
            paths(&path, value, into);
        }
        into.insert(path);
    }
    for value in value.as_array().into_iter().flatten() {
        paths(prefix, value, into);
    }
}

#[test]
fn the_page_names_every_key_and_no_other() {
    let mut found = BTreeSet::new();
    paths("", &advice(&format!("{TWO} --depth 1")), &mut found);
    paths("", &advice(&format!("--trace {} --depth 1", testdata("msr.csv"))), &mut found);
    let rough = "--drive wd40efax --capacity 1GB --array mirror:disks=2 --rebuild resilver";
    paths("", &advice(rough), &mut found);
    let page = std::fs::read_to_string(root().join("docs/reference/advise.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("- `")?.split_once('`'));
    let named: BTreeSet<String> = rows.flat_map(|(path, _)| super::keys::expand(path)).collect();
    let missing: Vec<&String> = found.difference(&named).collect();
    assert!(missing.is_empty(), "docs/reference/advise.md lacks {missing:?}");
    let extra: Vec<&String> = named.difference(&found).collect();
    assert!(extra.is_empty(), "docs/reference/advise.md names keys that no answer has: {extra:?}");
}

#[test]
fn a_layer_that_cleans_is_not_said_to_rewrite() {
    let advised = |layer: &str| {
        smrkit(&format!("advise --drive tiny --workload random-write:count=3000 --depth 1 {layer}")).done()
    };
    let log = advised("--layer log --set log.segment_tracks=4");
    assert!(log.contains("Requests wait for cleaning") && !log.contains("wait for rewriting"), "{log}");
    for layer in ["dm-zoned", "zone-log"] {
        let advice = advised(&format!("--layer {layer}"));
        assert!(advice.contains("Requests wait for cleaning") && !advice.contains("wait for rewriting"), "{advice}");
    }
}

#[test]
fn what_a_host_managed_disk_refuses_comes_first() {
    let asked = "--drive hc620 --workload random-write:count=2000 --depth 1";
    let answer = advice(asked);
    assert_eq!(answer["system"]["layer"], "zoned", "it is not sold as drive-managed");
    let text = answer["text"].as_str().unwrap();
    assert!(text.starts_with("A host-managed disk would refuse "), "{text}");
    assert!(answer["verdict"] == "refused" && answer["problems"]["refused"] == true && !text.contains("No problem"));
    let actions = answer["actions"].to_string();
    assert!(actions.contains("dm-zoned") && answer["actions"][0]["command"].is_null(), "{actions}");
    let run = outcome(&format!("{asked} --layer zoned"));
    assert!(run["verdict"]["text"].as_str().unwrap().starts_with("A host-managed disk would refuse "));
}

#[test]
fn a_load_that_is_over_at_once_has_no_verdict() {
    let answer = advice("--drive tiny --workload random-write:count=100 --depth 32");
    assert_eq!(answer["verdict"], "too-short");
    assert!(answer["text"].as_str().unwrap().starts_with("Too short to say"), "{}", answer["text"]);
    assert_eq!((&answer["remedies"], &answer["actions"]), (&Value::Array(vec![]), &Value::Array(vec![])));
}
