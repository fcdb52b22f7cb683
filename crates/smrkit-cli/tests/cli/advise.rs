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

fn text(arguments: &str) -> String {
    advice(arguments)["text"].as_str().unwrap().to_string()
}

fn remedies<'a>(advice: &'a Value, kind: &str) -> Vec<&'a Value> {
    advice["remedies"].as_array().unwrap().iter().filter(|remedy| remedy["kind"] == kind).collect()
}

#[test]
fn the_system_as_it_is_is_that_of_smrkit_run() {
    let advice = advice(&format!("{SMALL} --depth 16"));
    // The same addresses: those of a workload that takes what both layers offer.
    let span = advice["demand"]["workload_sectors"].as_u64().unwrap() * 512;
    let run = outcome(&format!("{SMALL} --layer drive-managed --span {span} --depth 16"));
    let (one, verdict) = (&advice["present"][0], &run["verdict"]);
    for key in ["cache_full_at_s", "rate_before_bytes_per_s", "rate_after_bytes_per_s", "longest_stall_ns"] {
        assert_eq!(one[key], verdict[key], "{key}");
    }
    assert_eq!(one["mean_ns"], run["latency_ns"]["all"]["mean"]);
    let usual = outcome(&format!("{SMALL} --layer in-place --span {span} --depth 16"));
    assert_eq!(one["conventional"]["longest_stall_ns"], usual["verdict"]["longest_stall_ns"]);
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
    let ends = answer["ends"].as_array().unwrap();
    for (end, (worse, at)) in ends.iter().zip([(true, "mechanical.rpm=low"), (false, "mechanical.rpm=high")]) {
        let run = outcome(&format!("--drive {drive}@{at} --layer drive-managed {asked} --span {span}"));
        assert_eq!(end["worse"], worse);
        assert_eq!(end["trajectory"]["elapsed_ns"], run["elapsed_ns"], "{at}");
    }
    let text = answer["text"].as_str().unwrap();
    assert!(ends.len() == 2 && text.contains("least sure of them"), "{text}");
    assert_eq!(advice(&format!("--drive tiny {asked}"))["ends"], Value::Array(vec![]));
}

#[test]
fn arrival_times_too_close_for_any_disk_are_not_blamed_on_shingling() {
    let scratch = Scratch::new();
    let writes: Vec<_> = (0..2000).map(|number| (number, number * 977 % 2000 * 100_000_000, 4096)).collect();
    let trace = scratch.msr("close.csv", &writes);
    let verdict =
        |more: &str| advice(&format!("--drive st5000as0011 --trace {trace} --arrival trace {more}"))["verdict"].clone();
    assert_eq!(verdict(""), "overloaded");
    assert_ne!(verdict("--time-scale 1000"), "overloaded");
}

#[test]
fn the_answer_fits_the_screen_and_is_that_of_the_json() {
    let arguments = format!("{TWO} --array raid5:disks=3,chunk=64KiB --depth 8");
    let screen = smrkit(&format!("advise {arguments} --details")).done();
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let words: Vec<&str> = screen.split_whitespace().collect();
    let advice = advice(&arguments);
    let text: Vec<&str> = advice["text"].as_str().unwrap().split_whitespace().collect();
    let shown = words.windows(text.len()).any(|part| part == text);
    assert!(shown || advice["budget"].is_object(), "{screen}");
    let rows = advice["remedies"].as_array().unwrap();
    rows.iter().for_each(|row| assert!(screen.contains(row["change"].as_str().unwrap()), "{row}"));
}

#[test]
fn of_a_long_load_as_much_is_served_as_shows_what_remains() {
    let answer = advice("--drive tiny --workload random-write:count=2M --depth 2");
    let present = &answer["present"][0];
    let (served, bytes) = (present["requests"].as_u64().unwrap(), present["bytes"].as_f64().unwrap());
    assert!(served < 200_000 && present["cache_full_at_s"].is_number(), "{present}");
    let whole = answer["whole_bytes"].as_f64().unwrap();
    assert!((whole / (bytes / served as f64 * 2e6) - 1.0).abs() < 0.01, "{whole}");
    // Phases that differ can't be told by the first of them.
    let all = advice("--drive tiny --workload random-write:count=15k;random-read:count=5k --depth 2");
    assert_eq!(all["present"][0]["requests"], 20_000);
}

#[test]
fn by_its_own_times_a_trace_has_latencies_and_no_rate_for_ever() {
    let scratch = Scratch::new();
    let writes: Vec<_> = (0..400).map(|number| (number * 500, number * 977 % 400 * 4096, 4096)).collect();
    let arguments = format!("--drive tiny --trace {} --arrival trace", scratch.msr("own.csv", &writes));
    let answer = advice(&arguments);
    let text = answer["text"].as_str().unwrap();
    assert!(text.contains("How fast: a request takes ") && text.contains(" on average"), "{text}");
    assert!(answer["demand"]["trace_sha256"].is_string());
    assert!(answer["budget"]["for_ever_bytes_per_s"].is_null(), "{}", answer["budget"]);
    let again = advice(&format!("{arguments} --every 1d"));
    assert_eq!(again["verdict"], answer["verdict"], "no milder: {}", again["text"]);
    smrkit(&format!("advise {arguments} --within 1h")).says(2, &["--keep"]);
}

#[test]
fn a_rebuild_is_told_for_the_whole_disk_unused_and_used() {
    let rebuild = advice("--array raidz1:disks=3 --capacity 1GB --for replace");
    let text = rebuild["text"].as_str().unwrap();
    assert!(text.contains("while nobody uses it") && text.contains("in light use"), "{text}");
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
    assert_eq!(rebuild["rebuild"], advice("--array raidz1:disks=3 --capacity 1GB --rebuild resilver")["rebuild"]);
    assert!(
        advice("--array raid5:disks=3 --capacity 1GB --for replace")["rebuild"].as_str().unwrap().contains("ascending")
    );
    // A part of the disk is run whether its size was given or not.
    let part = advice("--array mirror:disks=2 --rebuild resilver --capacity 2TB");
    assert!(part["whole_disk_bytes"].as_u64().unwrap() > 1_800_000_000_000, "{}", part["whole_disk_bytes"]);
    assert!(part["present"][0]["rebuild"]["disk_bytes"].as_u64().unwrap() < 20_000_000_000);
    assert!(part["text"].as_str().unwrap().contains("simulated on 18.8 GB of each disk"), "{part}");
    let scrub = advice("--drive tiny --array raid5:disks=4 --for scrub");
    let text = scrub["text"].as_str().unwrap();
    assert!(text.contains("a scrub reads") && scrub["present"][0]["requests"] == 0, "{text}");
    smrkit("advise --rebuild resilver").says(2, &["--array"]);
    smrkit("advise --for replace").says(2, &["--array", "raidz1"]);
    smrkit("advise --array raidz1:4 --rebuild resilver").says(2, &["disks=4"]);
    smrkit("advise --array radz3:disks=5 --rebuild resilver").says(2, &["did you mean `raidz3`?"]);
}

#[test]
fn a_use_is_answered_and_judged_by_what_is_needed() {
    let answer = advice("--for restic:bytes=2G --within 1h");
    assert_eq!((&answer["use"], &answer["answer"]), (&"restic:bytes=2G".into(), &"yes".into()));
    assert_eq!(answer["verdict"], "meets", "{}", answer["text"]);
    let bytes = answer["whole_bytes"].as_f64().unwrap();
    assert!((bytes / 2e9 - 1.0).abs() < 0.02, "{bytes}");
    let missed = text("--for restic:bytes=2G --within 1s");
    assert!(missed.starts_with("No: a backup by restic takes longer than the 1 s that you have."), "{missed}");
    let cameras = advice("--for surveillance:cameras=2");
    assert_eq!(
        (&cameras["engine"]["arrival"], &cameras["need"]["buffer_ns"]),
        (&"trace".into(), &2_000_000_000_u64.into())
    );
    // Far more than what is run.
    let format = advice("--for format");
    assert!(format["whole_bytes"].as_f64().unwrap() > 4e12 && format["present"][0]["bytes"].as_f64().unwrap() < 4e11);
    // Its streams go past the cache, which is full after half a terabyte of them.
    let plots = advice("--drive st8000dm004 --for chia");
    assert!(plots["verdict"] != "too-short" && plots["budget"]["at_once_bytes"].is_u64(), "{}", plots["text"]);
    smrkit("advise --for restik").says(2, &["did you mean `restic`?"]);
    smrkit("advise --for restic --workload mix").says(2, &["--workload"]);
    smrkit("advise --for plex --within 8h").says(2, &["--keep"]);
}

#[test]
fn several_drives_stand_side_by_side() {
    let asked = "--drive tiny,st5000as0011 --workload random-write:count=3000,span=2M";
    let screen = smrkit(&format!("advise {asked}")).done();
    let row = |name: &str| screen.lines().any(|line| line.starts_with(&format!("{name} ")));
    assert!(row("tiny") && row("st5000as0011") && screen.contains("answer"), "{screen}");
    let answers = advice(asked);
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["present"], advice("--drive tiny --workload random-write:count=3000,span=2M")["present"]);
    let scratch = Scratch::new();
    let page = scratch.path("a.html");
    smrkit(&format!("advise {asked} --report {page}")).done();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Side by side") && page.contains("st5000as0011"), "{page}");
}

#[test]
fn sums_over_intervals_are_answered_like_the_trace_that_they_sum_up() {
    let scratch = Scratch::new();
    // 20 writes of 8 KiB a second for ten minutes, anywhere on 4 TB.
    let place = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 480_000_000 * 8192;
    let writes: Vec<_> = (0..12_000).map(|number| (number * 50, place(number), 8192)).collect();
    let trace = scratch.msr("load.csv", &writes);
    let header = "Device r/s rkB/s w/s wkB/s %util\n";
    let report = format!("{header}sda 0.00 0.00 20.00 160.00 50.00\n\n");
    let iostat = scratch.file("iostat.txt", format!("{header}sda 1.00 1.00 1.00 1.00 1.00\n\n{}", report.repeat(10)));
    let sar_row = |minute: u64| format!("12:{minute:02}:01 sda 20.00 0.00 160.00 8.00 0.10 5.00 50.00\n");
    let rows: String = (1..11).map(sar_row).collect();
    let sar = scratch.file("sar.txt", format!("12:00:01 DEV tps rkB/s wkB/s areq-sz aqu-sz await %util\n{rows}"));
    let told = |asked: &str| {
        let answer = advice(asked);
        (answer["answer"].clone(), answer["present"][0]["mean_ns"].as_f64().unwrap())
    };
    let (answer, mean) = told(&format!("--trace {trace} --arrival trace"));
    for sums in [iostat, sar] {
        let (same, own) = told(&format!("--trace {sums}"));
        assert_eq!(same, answer, "{sums}");
        assert!((own / mean - 1.0).abs() < 0.25, "{sums}: {own} for {mean}");
        let note = text(&format!("--trace {sums}"));
        assert!(note.contains("can't be known"), "{note}");
    }
}

#[test]
fn a_job_of_fio_is_the_workload_that_it_makes() {
    let scratch = Scratch::new();
    let job = scratch.file("a.fio", "[global]\niodepth=4\nbs=4k\nsize=2m\nio_size=6m\n\n[one]\nrw=randwrite\n");
    let job = advice(&format!("--drive tiny --trace {job}"));
    let same = advice("--drive tiny --workload random-write:size=4Ki,span=2Mi,bytes=6Mi --depth 4");
    assert_eq!(job["present"], same["present"]);
}

#[test]
fn an_answer_is_a_page_in_colour_or_quiet() {
    let scratch = Scratch::new();
    let page = scratch.path("a.html");
    smrkit(&format!("advise {SMALL} --depth 4 --report {page}")).done();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("What was tried") && page.contains("CMR disks"), "{page}");
    let coloured = |option: &str| smrkit(&format!("advise {SMALL} --depth 4 {option}")).done().contains('\u{1b}');
    assert!(coloured("--color always") && !coloured("--color never") && !coloured("--quiet"));
    let script = smrkit("completions bash").done();
    for known in ["_smrkit", "wd40efax", "set-assoc", "random-write", "restic"] {
        assert!(script.contains(known), "{known}");
    }
    // Commands of commands, too.
    for (command, known) in
        [("drives__subcmd__show", "wd40efax"), ("layers__subcmd__show", "rmw"), ("trace__subcmd__info", "biosnoop")]
    {
        let (_, of_command) = script.split_once(&format!("\n        smrkit__subcmd__{command})")).unwrap();
        assert!(of_command.split(";;\n        smrkit__").next().unwrap().contains(known), "{command}");
    }
    assert!(smrkit("man").done().contains(".TH smrkit"));
}

#[test]
fn a_disk_is_judged_by_conventional_ones_and_not_by_its_own_past() {
    // Slow after reads that were slower still; and as fast as a conventional disk, after writes that were faster.
    let slow = "sequential-write:bytes=1G;random-read:count=3k,span=1G;random-write:size=1Mi,count=500,span=1G";
    let fine = "sequential-write:bytes=1G;random-write:count=3,span=1G;random-read:count=20k,span=1G";
    for (workload, is_slow) in [(slow, true), (fine, false)] {
        let advice =
            advice(&format!("--drive st5000as0011 --layer rmw --depth 1 --prefill none --workload {workload}"));
        assert_eq!(advice["problems"]["slow"], is_slow, "{}", advice["text"]);
        assert_eq!(advice["verdict"] == "fine", !is_slow, "{}", advice["text"]);
    }
}

#[test]
fn reads_are_not_said_to_fill_a_cache() {
    // Each read merges what lies in the full cache, which is slow.
    let text = text("--drive tiny --workload sequential-read:count=500 --prefill random:1 --depth 8");
    assert!(!text.contains("cache is full"), "{text}");
}

#[test]
fn the_same_command_gives_the_same_answer() {
    gives_the_same_bytes(&format!("advise {TWO} --depth 4 --json -"));
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
    let idle = scratch.file("idle.txt", "Device r/s rkB/s w/s wkB/s\nsda 0.00 0.00 0.00 0.00\n");
    smrkit(&format!("advise --trace {idle}")).says(3, &["did nothing", "while the disk is used"]);
}

#[test]
fn what_a_host_managed_disk_refuses_comes_first() {
    let asked = "--drive hc620 --workload random-write:count=2000 --depth 1";
    let answer = advice(asked);
    assert_eq!(answer["system"]["layer"], "zoned", "it is not sold as drive-managed");
    let text = answer["text"].as_str().unwrap();
    assert!(text.starts_with("No: hc620 is host-managed ") && text.contains("It would refuse 99 %"), "{text}");
    assert!(answer["verdict"] == "refused" && answer["problems"]["refused"] == true && answer["answer"] == "no");
    let actions = answer["actions"].to_string();
    assert!(actions.contains("SMRfs") && answer["actions"][0]["command"].is_null(), "{actions}");
    assert!(!actions.contains("dm-zoned"), "it is as slow with that: {actions}");
    // The first zones of this drive take everything; what is refused comes after 140 GB.
    let later = advice("--drive hc620 --workload sequential-write:size=4Mi,bytes=200G --prefill full");
    assert!(later["verdict"] == "refused" && later["actions"].to_string().contains("dm-zoned"), "{later}");
    let run = outcome(&format!("{asked} --layer zoned"));
    assert!(run["verdict"]["text"].as_str().unwrap().starts_with("A host-managed disk would refuse "));
}

#[test]
fn who_writes_zones_in_order_resets_them_before() {
    for order in ["--for format", "--for badblocks:passes=1", "--workload sequential-write:size=4Mi,bytes=200G"] {
        let answer = advice(&format!("--drive hc620 {order}"));
        let text = answer["text"].as_str().unwrap();
        assert!(answer["answer"] == "yes" && text.contains("blkzone reset"), "{order}: {text}");
    }
    // The second of four patterns finds the zones full: three of eight passes are refused.
    let patterns = text("--drive hc620 --for badblocks");
    assert!(patterns.starts_with("No: hc620 is host-managed"), "{patterns}");
    assert!(text("--drive hc620 --for format --prefill full").contains("its zones were full"));
}

#[test]
fn a_trace_may_reach_the_end_of_a_disk_that_is_known_only_roughly() {
    let scratch = Scratch::new();
    for drive in ["st8000dm004", "wd40efax"] {
        let sectors =
            advice(&format!("--drive {drive} --workload random-write:count=20"))["system"]["host_sectors"].as_u64();
        let end = sectors.unwrap() * 512 / 4096;
        let place = |number: u64| if number.is_multiple_of(2) { end - 1 - number } else { number * 7919 };
        let writes: Vec<_> = (0..8000).map(|number| (number * 10, place(number) * 4096, 4096)).collect();
        let trace = scratch.msr(&format!("{drive}.csv"), &writes);
        assert_ne!(advice(&format!("--drive {drive} --trace {trace}"))["answer"], "unknown", "{drive}");
    }
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
fn pauses_do_not_make_larger_writes_worse() {
    let advice = advice("--drive hc620 --layer in-place --workload random-write:count=500 --think 20ms --depth 1");
    assert!(remedies(&advice, "write-size").iter().all(|remedy| remedy["effect"] != "worsens"), "{advice}");
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
fn a_load_that_is_over_at_once_has_no_verdict() {
    let answer = advice("--drive tiny --workload random-write:count=100 --depth 32");
    assert_eq!(answer["verdict"], "too-short");
    assert_eq!(answer["answer"], "unknown");
    assert!(answer["text"].as_str().unwrap().starts_with("Too short to say"), "{}", answer["text"]);
    assert_eq!((&answer["remedies"], &answer["actions"]), (&Value::Array(vec![]), &Value::Array(vec![])));
}
