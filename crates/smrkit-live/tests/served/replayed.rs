//! A served run again in the simulator: to the nanosecond. `SMRKIT_LIVE_REPLAYED` sets the requests of each layer and order.

use std::path::Path;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use serde_json::Value;
use smrkit::settings::Queue;
use smrkit::units::Nanos;
use smrkit_live::block::control::InjectedFault;
use smrkit_live::block::drive::{Command, CommandKind, ServedDrive};
use smrkit_live::block::log::{LogWriter, ReplayFindings, replay};
use smrkit_live::block::pace::Pace;
use tempfile::TempDir;

use super::client::{Client, FLUSH, FUA, READ, TRIM, WRITE};
use super::{ARRAYS, CACHED, LAYERS, ServeOptions, Served, image, open_image};
use crate::count::count_from;

/// Sends random requests, sixteen at a time; fails are fine.
fn load(client: &mut Client, random: &mut impl rand::Rng, rounds: usize) {
    for _ in 0..rounds {
        let mut sent = Vec::new();
        for _ in 0..16 {
            let bytes = 512 * random.random_range(1..40u32);
            let at = 512 * random.random_range(0..(client.bytes / 512 - 40).min(500_000));
            let (flags, kind) = [(0, WRITE), (0, WRITE), (0, READ), (0, READ), (FUA, WRITE), (0, TRIM), (0, FLUSH)]
                [random.random_range(0..7)];
            let (at, bytes) = if kind == FLUSH { (0, 0) } else { (at, bytes) };
            let data = vec![7; if kind == WRITE { bytes as usize } else { 0 }];
            sent.push((client.send(flags, kind, at, bytes, &data), kind, bytes));
        }
        for _ in 0..16 {
            let (error, cookie) = client.reply();
            let &(_, kind, bytes) = sent.iter().find(|(sent, ..)| *sent == cookie).unwrap();
            if kind == READ && error == 0 {
                std::io::Read::read_exact(&mut client.stream, &mut vec![0; bytes as usize]).unwrap();
            }
        }
    }
}

/// Rounds of sixteen requests each.
fn rounds() -> usize {
    count_from::<usize>("SMRKIT_LIVE_REPLAYED", 16 * 12).div_ceil(16)
}

#[test]
fn every_layer_takes_the_simulators_time_at_any_order_and_pace() {
    let paces = [Pace::None, Pace::Times(400.0)].into_iter().cycle();
    for (layer, pace) in LAYERS.into_iter().chain(ARRAYS).chain(CACHED).zip(paces) {
        for queue in [Queue::Fcfs, Queue::Sptf] {
            let folder = TempDir::new().unwrap();
            let (path, log) = (image(folder.path(), layer), folder.path().join("log"));
            let served = Served::open(&path, ServeOptions { pace, queue }, Some(&log));
            load(&mut Client::new(&served.socket), &mut rand_pcg::Pcg64Mcg::seed_from_u64(9), rounds());
            served.stop();
            let ReplayFindings { requests, differences, first } = replay(&log).unwrap();
            println!("{layer}, {queue:?}, {pace:?}: {requests} requests replayed, {differences} differ");
            assert!(requests >= 16 * rounds() as u64, "{layer}: {requests}");
            assert_eq!((differences, first), (0, None), "{layer}, {queue:?}");
        }
    }
}

#[test]
fn idle_work_between_requests_is_replayed() {
    let drives =
        [("drive-managed", Queue::Fcfs), (STRIPED, Queue::Fcfs), (STRIPED, Queue::Sptf), (CACHED[1], Queue::Drive)];
    for (layer, queue) in drives {
        idle_work(layer, queue);
    }
}

fn idle_work(layer: &str, queue: Queue) {
    let folder = TempDir::new().unwrap();
    let (path, log) = (image(folder.path(), layer), folder.path().join("log"));
    let options = ServeOptions { pace: Pace::Times(400.0), queue };
    let served = Served::open(&path, options, Some(&log));
    let mut client = Client::new(&served.socket);
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(2);
    load(&mut client, &mut random, 12);
    for round in 0..20 {
        // Two seconds of the drive: it begins to clean after 1.1 s, and has more to clean than it can.
        std::thread::sleep(Duration::from_millis(5));
        if round == 10 {
            served.inject(InjectedFault::Slow(Nanos(100_000_000)));
        }
        load(&mut client, &mut random, 1);
    }
    let report = served.stop();
    for told in ["/latency_ns/all/mean", "/lateness_ns/count"] {
        assert!(report.pointer(told).and_then(serde_json::Value::as_u64) > Some(0), "{told}: {report}");
    }
    let replayed = replay(&log).unwrap();
    assert_eq!((replayed.differences, replayed.first), (0, None), "{layer}, {queue:?}");
}

/// Cuts the power of a drive that has cleaned for itself for a while and is about to go on; its log. None where this machine was
/// so slow that it was done.
fn cut_while_idle(layer: &str) -> Option<String> {
    let folder = TempDir::new().unwrap();
    let (path, log) = (image(folder.path(), layer), folder.path().join("log"));
    let options = ServeOptions { pace: Pace::Times(40.0), queue: Queue::Fcfs };
    let served = Served::open(&path, options, Some(&log));
    let [mut client, mut other] = [(); 2].map(|()| Client::new(&served.socket));
    load(&mut client, &mut rand_pcg::Pcg64Mcg::seed_from_u64(3), 12);
    client.flush();
    // Two seconds of the drive: it begins after 1.1 s.
    std::thread::sleep(Duration::from_millis(50));
    served.inject(InjectedFault::PowerCut(1));
    let has_met = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(2));
        let report = served.report();
        assert_eq!(report["failure"], Value::Null, "{layer}");
        report["power_cuts"] == 1
    });
    if !has_met {
        return None;
    }
    let loses = layer == CACHED[1] || layer == "dm-zoned";
    for client in [&mut client, &mut other] {
        let errors = [(); 2].map(|()| client.ask(0, FLUSH, 0, 0, &[]) != 0);
        assert_eq!(errors, [loses, false], "{layer}");
    }
    client.write(0, &[5; 4096]);
    assert_eq!(client.read(0, 4096), [5; 4096]);
    served.stop();
    let replayed = replay(&log).unwrap();
    assert_eq!((replayed.differences, replayed.first), (0, None), "{layer}");
    Some(std::fs::read_to_string(&log).unwrap())
}

/// Drives that have much to clean, and not the same.
const STRIPED: &str = "raid0:disks=2,chunk=16KiB,layer=drive-managed";

/// No request fails: the drive was cleaning for itself. It goes on after its recovery, and replays so.
#[test]
fn a_power_cut_may_meet_the_drives_own_work() {
    for layer in ["drive-managed", CACHED[1], "dm-zoned", STRIPED] {
        let text = (0..10).find_map(|_| cut_while_idle(layer)).expect("a cut before its work is done");
        assert!(text.contains("\ninterrupted ") && !text.contains("\nfailed "), "{layer}: the cut met a request");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, text.replace("\nfault power-cut 1\n", "\n")).unwrap();
        let first = replay(file.path()).unwrap().first.unwrap();
        assert!(first.logged.starts_with("interrupted ") && first.replayed == "no power cut", "{first:?}");
    }
}

#[test]
fn faults_and_recoveries_are_replayed_too() {
    let layers = ["drive-managed", "log", "s-block", "vguard", "smart", "dm-zoned", "zone-log", "host-aware"]
        .into_iter()
        .chain(ARRAYS);
    for (first_seed, layer) in (0..).step_by(2).zip(layers) {
        let folder = TempDir::new().unwrap();
        let (path, log) = (image(folder.path(), layer), folder.path().join("log"));
        for session in 0..2 {
            let served = Served::open(&path, ServeOptions::default(), Some(&log));
            let mut client = Client::new(&served.socket);
            let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(first_seed + session);
            for fault in
                [InjectedFault::PowerCut(4), InjectedFault::Slow(Nanos(8_000_000_000)), InjectedFault::BadSector(3)]
            {
                load(&mut client, &mut random, 3);
                served.inject(fault);
            }
            load(&mut client, &mut random, 3);
            drop(client);
            served.stop();
        }
        let replayed = replay(&log).unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        assert!(text.contains("\nfailed ") && text.contains("\nfault slow 8s"), "{layer}");
        assert_eq!((replayed.differences, replayed.first), (0, None), "{layer}");
    }
}

/// Kills, a session without the log, and a log that begins late: the log carries the state.
#[test]
fn a_log_goes_on_over_kills_and_may_begin_at_any_time() {
    for layer in ["log", "drive-managed", ARRAYS[0]] {
        let folder = TempDir::new().unwrap();
        let path = image(folder.path(), layer);
        let open = |log: Option<&Path>| {
            let image = open_image(&path);
            let log = log.map(|log| LogWriter::open(log, &image.run).unwrap());
            ServedDrive::open(image, log, Queue::Sptf).unwrap().0
        };
        let write = |drive: &mut ServedDrive, from: u64, to: u64| {
            for at in from..to {
                let at = at * 7919 % 1000 * 4096;
                drive.serve(Command::new(CommandKind::Write, at, 4096, vec![1; 4096])).unwrap();
            }
            drive.serve(Command::new(CommandKind::Flush, 0, 0, Vec::new())).unwrap();
        };
        let [log, later] = ["log", "later"].map(|name| folder.path().join(name));
        for session in 0..3 {
            let mut killed = open(Some(&log));
            write(&mut killed, session * 50, session * 50 + 50);
            killed.flush_events();
            drop(killed);
            // A line that was not finished.
            let mut text = std::fs::read(&log).unwrap();
            text.extend_from_slice(b"write 1 ");
            std::fs::write(&log, text).unwrap();
        }
        let mut unlogged = open(None);
        write(&mut unlogged, 150, 200);
        unlogged.close().unwrap();
        for log in [&log, &later] {
            let mut drive = open(Some(log));
            write(&mut drive, 200, 250);
            drive.close().unwrap();
            let ReplayFindings { requests, differences, first } = replay(log).unwrap();
            // What a killed session ended with may have been under way.
            let expected = if *log == later { 52 } else { 3 * 50 + 52 };
            assert_eq!((requests, differences, first), (expected, 0, None), "{layer}");
        }
    }
}

#[test]
fn a_log_that_was_tampered_with_is_told_with_its_line() {
    let folder = TempDir::new().unwrap();
    let (path, log) = (image(folder.path(), "log"), folder.path().join("log"));
    let served = Served::open(&path, ServeOptions::default(), Some(&log));
    load(&mut Client::new(&served.socket), &mut rand_pcg::Pcg64Mcg::seed_from_u64(1), 1);
    served.stop();
    let text = std::fs::read_to_string(&log).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    let line = lines.iter().position(|line| line.starts_with("write ")).unwrap();
    lines[line] += "7";
    std::fs::write(&log, lines.join("\n")).unwrap();
    let replayed = replay(&log).unwrap();
    assert_eq!((replayed.differences, replayed.first.unwrap().line), (1, line as u64 + 1));
    lines[line] = format!("write 0 8 {0} {0} {0}", u64::MAX);
    std::fs::write(&log, lines.join("\n")).unwrap();
    assert!(replay(&log).unwrap_err().to_string().contains("is no event"));
    lines[line] = format!("write {} 8 5 5 5", u64::MAX);
    std::fs::write(&log, lines.join("\n")).unwrap();
    assert!(replay(&log).unwrap_err().to_string().contains("past the drive's end"));
}

#[test]
fn an_arrays_log_that_was_cut_off_is_replayed_as_far_as_it_goes() {
    let folder = TempDir::new().unwrap();
    let (path, log) = (image(folder.path(), ARRAYS[0]), folder.path().join("log"));
    let served = Served::open(&path, ServeOptions::default(), Some(&log));
    load(&mut Client::new(&served.socket), &mut rand_pcg::Pcg64Mcg::seed_from_u64(1), 4);
    served.stop();
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for end in 3..lines.len() {
        std::fs::write(&log, lines[..end].join("\n")).unwrap();
        let replayed = replay(&log).unwrap();
        assert_eq!((replayed.differences, replayed.first), (0, None), "cut after line {end}");
        assert!(replayed.requests <= end as u64);
    }
}

#[test]
fn a_log_is_written_while_nobody_asks_for_anything() {
    let folder = TempDir::new().unwrap();
    let (path, log) = (image(folder.path(), "log"), folder.path().join("log"));
    let served = Served::open(&path, ServeOptions::default(), Some(&log));
    let mut client = Client::new(&served.socket);
    load(&mut client, &mut rand_pcg::Pcg64Mcg::seed_from_u64(4), 1);
    // As a kill would leave it. That it is never written fails; how soon it is, is not asked.
    let written = || std::fs::read_to_string(&log).unwrap().contains("\nwrite ");
    assert!((0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        written()
    }));
}

#[test]
fn a_log_that_is_moved_away_begins_anew() {
    let folder = TempDir::new().unwrap();
    let (path, log, moved) = (image(folder.path(), "s-block"), folder.path().join("log"), folder.path().join("moved"));
    let served = Served::open(&path, ServeOptions { pace: Pace::Times(400.0), queue: Queue::Sptf }, Some(&log));
    let (mut client, mut random) = (Client::new(&served.socket), rand_pcg::Pcg64Mcg::seed_from_u64(4));
    load(&mut client, &mut random, 3);
    std::fs::rename(&log, &moved).unwrap();
    // Servers look once a second.
    std::thread::sleep(Duration::from_millis(1100));
    load(&mut client, &mut random, 1);
    load(&mut client, &mut random, 3);
    drop(client);
    served.stop();
    for log in [&moved, &log] {
        let replayed = replay(log).unwrap();
        assert_eq!((replayed.differences, replayed.first), (0, None), "{}", log.display());
        assert!(replayed.requests >= 48, "{}: {}", log.display(), replayed.requests);
        // A reader that wants the host's pauses needs it.
        assert!(std::fs::read_to_string(log).unwrap().contains("\npace 400\n"), "{}", log.display());
    }
}
