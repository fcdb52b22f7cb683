//! Interrupts, readers who leave, and disks that are full.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Scratch, command, finish, smrkit, testdata};
use crate::count::count_from;

/// Enough work for a minute or more.
const LONG: &str = "--workload random-write:count=4G --layer in-place,set-assoc";

fn start(arguments: &str) -> Child {
    let mut command = command();
    command.args(arguments.split_whitespace());
    command.spawn().expect("smrkit starts")
}

fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Waits for an exit code, but not for ever.
#[track_caller]
fn code(child: &mut Child) -> i32 {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status.code().expect("an exit code, not a signal");
        }
        if started.elapsed() > Duration::from_secs(60) {
            let _ = child.kill();
            panic!("still at work after a minute");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupt_prints_and_writes_what_there_is_and_exits_with_130() {
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let out = interrupted(&format!("run {LONG} --json {json}"), "-INT", 1.5);
    assert!(out.contains("The run was interrupted"), "{out}");
    let outcome: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let run = &outcome["runs"][0];
    assert_eq!(run["interrupted"], true);
    assert!(run["requests"].as_u64().unwrap() > 0);
}

/// Standard output of a command that a signal ends with 130 after so many seconds of CPU. Once more where the machine was so busy
/// that the command had no time to come to its results before its patience was over.
fn interrupted(arguments: &str, signal: &str, after_s: f64) -> String {
    for _ in 0..20 {
        let mut child = start(arguments);
        let mut stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut out = String::new();
            stdout.read_to_string(&mut out).map(|_| out)
        });
        let before_s = wait_for_work(&mut child, after_s);
        send(&child, signal);
        let used_s = wait_for_work(&mut child, f64::INFINITY) - before_s;
        assert_eq!(code(&mut child), 130, "{arguments}");
        let out = reader.join().unwrap().unwrap();
        // Twice or thrice what it needs.
        if !out.is_empty() || used_s > 0.15 {
            return out;
        }
    }
    panic!("the machine is too busy: {arguments}");
}

#[test]
fn an_interrupt_leaves_no_drive_in_a_state_that_nobody_asked_for() {
    let scratch = Scratch::new();
    let [image, state] = [scratch.path("drive.img"), scratch.path("drive.img.smr")];
    let mut child = start(&format!("create {image} --layer log --capacity 5TB --state full"));
    while !std::path::Path::new(&state).exists() {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&child, "-INT");
    assert_eq!(code(&mut child), 130);
    assert!([image, state].iter().all(|path| !std::path::Path::new(path).exists()));
}

#[test]
fn an_interrupted_conversion_leaves_no_half_file() {
    let scratch = Scratch::new();
    let fifo = scratch.path("pipe");
    if !Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()) {
        println!("skipped: no mkfifo here");
        return;
    }
    let mut child = start(&format!("trace convert {fifo} {}", scratch.path("out.parquet")));
    let mut writer = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    let row = "128166372003061629,hm,1,Read,8192,4096,58000\n";
    writer.write_all(row.repeat(40_000).as_bytes()).unwrap();
    send(&child, "-INT");
    // More, for as long as it takes any.
    let begin = Instant::now();
    while writer.write_all(row.repeat(100).as_bytes()).is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(60), "still reads after a minute");
    }
    assert_eq!(code(&mut child), 130);
    assert_eq!(scratch.names(), ["pipe"]);
}

#[test]
fn a_reader_who_has_had_enough_is_no_error() {
    for arguments in ["layers", "drives show st5000as0011", "trace head {} -n 1000", "run -q --json - --trace {}"] {
        let mut child = start(&arguments.replace("{}", &testdata("msr.csv")));
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let code = code(&mut child);
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((code, err.as_str()), (0, ""), "{arguments}");
        assert!(!first.is_empty());
    }
}

#[test]
fn standard_output_closed_from_the_start_is_no_error() {
    for arguments in ["layers", "run --layer in-place --workload random-write:count=10"] {
        let mut child = start(arguments);
        drop(child.stdout.take());
        assert_eq!(code(&mut child), 0, "{arguments}");
    }
}

#[test]
fn a_full_disk_is_an_error_and_says_where() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        println!("skipped: no /dev/full here");
        return;
    };
    let run = "run --layer in-place --workload random-write:count=100";
    smrkit(&format!("{run} --json /dev/full")).says(1, &["/dev/full", "No space left"]);
    smrkit(&format!("{run} --report /dev/full")).says(1, &["/dev/full", "No space left"]);
    smrkit(&format!("{run} --requests /dev/full")).says(1, &["/dev/full", "No space left"]);
    smrkit(&format!("{run} --accesses /dev/full")).says(1, &["/dev/full", "No space left"]);
    smrkit(&format!("trace convert {} /dev/full", testdata("msr.csv"))).says(1, &["/dev/full", "No space left"]);
    let mut command = command();
    command.args(run.split_whitespace()).stdout(full);
    finish(command).says(1, &["standard output", "No space left"]);
}

/// Exit code and output of an answer interrupted after so many seconds of CPU.
fn interrupted_answer(arguments: &str, after_s: f64) -> (i32, String, String) {
    let mut child = start(arguments);
    wait_for_work(&mut child, after_s);
    send(&child, "-INT");
    let code = code(&mut child);
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (code, out, err)
}

#[test]
fn an_answer_interrupted_before_the_drive_is_known_is_none() {
    let arguments = "advise --workload random-write:count=4G;random-read:count=1 --depth 1";
    let (code, out, err) = interrupted_answer(arguments, 1.0);
    assert_eq!(code, 130);
    assert!(out.is_empty() && err.contains("no answer"), "{out}{err}");
}

#[test]
fn an_answer_interrupted_later_says_what_was_not_tried() {
    let arguments = "advise --drive tiny --workload random-write:count=100k;random-read:count=1 --depth 1 --json -";
    let mut child = start(arguments);
    let whole_s = wait_for_work(&mut child, f64::INFINITY);
    assert_eq!(code(&mut child), 0);
    let mut whole = String::new();
    child.stdout.take().unwrap().read_to_string(&mut whole).unwrap();
    let whole: Value = serde_json::from_str(&whole).unwrap();
    // Some come before the changes are tried, or after, or just between two runs.
    let mut hits = 0;
    for share in [0.8, 0.6, 0.9, 0.7, 0.5, 0.95, 0.4, 0.3].into_iter().cycle().take(160) {
        let (code, out, err) = interrupted_answer(arguments, whole_s * share);
        if code != 130 || out.is_empty() {
            assert!(code == 0 && !out.is_empty() || code == 130 && err.contains("no answer"), "{code} {out}{err}");
            continue;
        }
        let answer: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(answer["complete"], false);
        assert_eq!(answer["present"], whole["present"], "what was known by then");
        let rows = answer["remedies"].as_array().unwrap();
        assert_eq!(rows.len(), whole["remedies"].as_array().unwrap().len());
        let of_whole = whole["remedies"].as_array().unwrap();
        rows.iter()
            .zip(of_whole)
            .for_each(|(row, of_whole)| assert!(row["not_run"] == "interrupted" || row == of_whole));
        let untried = rows.iter().filter(|row| row["not_run"] == "interrupted").count();
        let sentence = "Interrupted: not all of it was tried.";
        assert!(
            (untried > 0 || answer["budget"]["for_ever_bytes_per_s"].is_null())
                && answer["text"].as_str().unwrap().contains(sentence),
            "{answer}"
        );
        hits += 1;
        if hits == 5 {
            return;
        }
    }
    assert!(hits > 0, "no interrupt came while changes were tried");
}

/// Waits until a process has handlers for SIGHUP, SIGINT and SIGTERM: from then on every moment counts.
#[track_caller]
fn wait_for_handler(child: &Child) {
    const ALL: u64 = 1 | 1 << 1 | 1 << 14;
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim();
        Some(u64::from_str_radix(mask, 16).ok()? & ALL == ALL)
    };
    let begin = Instant::now();
    while caught() == Some(false) {
        assert!(begin.elapsed() < Duration::from_secs(60), "no handler after a minute");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits until a process has used so many seconds of CPU, however busy the machine is, or has ended; those that it has used.
#[track_caller]
fn wait_for_work(child: &mut Child, least_s: f64) -> f64 {
    wait_for_handler(child);
    let begin = Instant::now();
    loop {
        let ended_s = cpu_s(child, true);
        let used_s = cpu_s(child, false).expect("a child");
        if ended_s.is_some() || used_s >= least_s {
            return used_s;
        }
        if begin.elapsed() > Duration::from_secs(120) {
            let _ = child.kill();
            panic!("{used_s} s of CPU in two minutes");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Seconds of CPU that a process has used; `None` while it lives, if `ended` is asked for.
fn cpu_s(child: &Child, ended: bool) -> Option<f64> {
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    let fields: Vec<&str> = stat.rsplit(") ").next()?.split(' ').collect();
    let ticks = |number: usize| fields[number].parse::<f64>().ok();
    (fields[0] == "Z" || !ended).then_some((ticks(11)? + ticks(12)?) / TICKS_PER_S)
}

/// Interrupts `arguments` at moments up to `latest`, drawn from a seed, as many as `$SMRKIT_INTERRUPTS` says: it ends with 130 in
/// time, by the CPU that it uses, and leaves whole files.
fn ends_in_time_at_any_moment(arguments: &str, latest: Duration) {
    let moments = count_from("SMRKIT_INTERRUPTS", 2);
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    for number in 0..moments {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (random >> 40) as f64 / (1u64 << 24) as f64;
        let after = latest.mul_f64(share * share);
        let scratch = Scratch::new();
        let (json, report) = (scratch.path("out.json"), scratch.path("out.html"));
        let mut child = start(&format!("{arguments} --json {json} --report {report}"));
        wait_for_handler(&child);
        std::thread::sleep(after);
        let signal = if number % 2 == 0 { "-INT" } else { "-TERM" };
        let before_s = cpu_s(&child, false).expect("it is at work");
        send(&child, signal);
        let begin = Instant::now();
        let used_s = loop {
            if let Some(all_s) = cpu_s(&child, true) {
                break all_s - before_s;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{arguments} after {after:?}: still at work");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(code(&mut child), 130, "{arguments} after {after:?}");
        assert!(used_s <= 0.5, "{arguments} after {after:?}: {used_s} s of CPU");
        let mut names = scratch.names();
        names.retain(|name| name != "out.json" && name != "out.html");
        assert!(names.is_empty(), "{arguments} {after:?}: {names:?}");
        if let Ok(text) = std::fs::read_to_string(json) {
            serde_json::from_str::<Value>(&text).expect("whole JSON");
        }
        if let Ok(page) = std::fs::read_to_string(report) {
            assert!(page.trim_end().ends_with("</html>"), "{arguments} after {after:?}");
        }
    }
}

#[test]
fn a_run_ends_in_time_at_any_moment() {
    ends_in_time_at_any_moment(&format!("run {LONG}"), Duration::from_secs(2));
}

#[test]
fn advice_ends_in_time_at_any_moment() {
    ends_in_time_at_any_moment("advise --workload random-write:count=4G;random-read:count=1", Duration::from_secs(2));
}
