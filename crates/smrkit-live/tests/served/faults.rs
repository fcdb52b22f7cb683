//! Faults of chosen commands, time that passes at once, states that drives begin in, and what a server tells of all that.

use std::time::{Duration, Instant};

use smrkit::settings::Queue;
use smrkit::units::Nanos;
use smrkit_live::block::control::{ControlRequest, InjectedFault};
use smrkit_live::block::drive::{Command, CommandKind, PreparedState};
use smrkit_live::block::image::{DriveImage, state_path};
use smrkit_live::block::log::replay;
use smrkit_live::block::pace::Pace;
use smrkit_live::error::LiveError;
use tempfile::TempDir;

use super::client::{Client, FLUSH, READ, TRIM, WRITE};
use super::{ARRAYS, ServeOptions, Served, check_image, image, open_drive};

const SECTOR: usize = 512;

#[test]
fn the_commands_that_are_meant_fail_and_no_others() {
    let served = Served::new("log");
    let mut client = Client::new(&served.socket);
    let mut fails = |fault: &str, commands: &[(u16, u64)]| -> Vec<bool> {
        served.inject("clear".parse().unwrap());
        served.inject(fault.parse().unwrap());
        let mut ask = |kind, lba: u64| {
            let bytes = if kind == FLUSH { 0 } else { SECTOR };
            let data = vec![1; if kind == WRITE { bytes } else { 0 }];
            let error = client.ask(0, kind, lba * 512, bytes as u32, &data);
            if kind == READ && error == 0 {
                std::io::Read::read_exact(&mut client.stream, &mut [0; SECTOR]).unwrap();
            }
            error != 0
        };
        commands.iter().map(|&(kind, lba)| ask(kind, lba)).collect()
    };
    let [read, write, flush, trim] = [READ, WRITE, FLUSH, TRIM].map(|kind| (kind, if kind == FLUSH { 0 } else { 9 }));
    assert_eq!(fails("fail write", &[read, write, flush, trim]), [false, true, false, false]);
    assert_eq!(fails("fail flush count=1", &[read, write, flush, flush]), [false, false, true, false]);
    assert_eq!(fails("fail", &[read, write, flush, trim]), [true; 4]);
    assert_eq!(
        fails("fail write lba=5..10 count=2", &[(WRITE, 4), (WRITE, 5), (WRITE, 10), (WRITE, 9), (WRITE, 5)]),
        [false, true, false, true, false]
    );
    assert_eq!(fails("fail read every=3", &[read; 7]), [false, false, true, false, false, true, false]);
    assert_eq!(fails("fail probability=0", &[read, write]), [false; 2]);
    let half = fails("fail read probability=0.5", &[read; 200]).into_iter().filter(|&fails| fails).count();
    assert!((60..140).contains(&half), "{half} of 200");
    assert_eq!(served.report()["faults"], serde_json::json!(["fail read probability=0.5"]));
    served.inject("fail flush".parse().unwrap());
    // The flush with which the server closes the drive is not meant.
    served.stop();
}

#[test]
fn wrong_data_are_read_and_not_written() {
    let served = Served::new("in-place");
    let mut client = Client::new(&served.socket);
    client.write(0, &[7; 4096]);
    served.inject("corrupt lba=0..8 count=1".parse().unwrap());
    assert_ne!(client.read(0, 4096), [7; 4096]);
    assert_eq!(client.read(0, 4096), [7; 4096]);
}

/// An hour of the drive, in which its cache is cleaned.
#[test]
fn idle_time_passes_at_once_and_is_replayed() {
    let folder = TempDir::new().unwrap();
    let (path, log) = (image(folder.path(), "drive-managed"), folder.path().join("log"));
    for pace in [Pace::None, Pace::Times(1000.0)] {
        let served = Served::open(&path, ServeOptions { pace, queue: Queue::Fcfs }, Some(&log));
        let mut client = Client::new(&served.socket);
        (0..200).for_each(|at| client.write(at * 37 % 1000 * 4096, &[1; 4096]));
        let before = served.report();
        let begun = Instant::now();
        served.inject(InjectedFault::Idle(Nanos(3_600_000_000_000)));
        assert!(begun.elapsed() < Duration::from_secs(30));
        let after = served.report();
        let number = |report: &serde_json::Value, key: &str| report[key].as_f64().unwrap();
        assert!(number(&after, "drive_time_ns") >= number(&before, "drive_time_ns") + 3.6e12, "{after}");
        assert!(number(&after, "cache_fill") < number(&before, "cache_fill"), "{before} {after}");
        assert!(number(&after, "cleaning_share") > 0.0);
        client.write(0, &[2; 4096]);
        served.stop();
    }
    let replayed = replay(&log).unwrap();
    assert_eq!((replayed.differences, replayed.first), (0, None));
}

#[test]
fn a_server_tells_how_long_commands_took() {
    let served = Served::new("in-place");
    let mut client = Client::new(&served.socket);
    client.write(0, &[1; 4096]);
    client.read(0, 8192);
    served.inject(InjectedFault::Slow(Nanos(8_000_000_000)));
    client.flush();
    let report = served.report();
    let counts = ["read", "write", "all"].map(|op| report["latency_ns"][op]["count"].as_u64().unwrap());
    assert_eq!(counts, [1, 1, 3]);
    let stalls = ["over_1s", "over_7s", "over_30s"].map(|span| report["stalls"][span].as_u64().unwrap());
    assert_eq!(stalls, [1, 1, 0]);
    assert_eq!((&report["host_read_bytes"], &report["host_written_bytes"]), (&8192.into(), &4096.into()));
    assert_eq!(served.stop()["completed"], 3);
}

#[test]
fn a_drive_begins_with_a_cache_in_use() {
    let folder = TempDir::new().unwrap();
    let path = image(folder.path(), "drive-managed");
    for (state, least) in
        [(PreparedState::NearlyFull, 0.95), (PreparedState::Full, 0.98), (PreparedState::Cleaning, 0.5)]
    {
        let mut drive = open_drive(&path);
        drive.prepare(&state).unwrap();
        drive.close().unwrap();
        let drive = open_drive(&path);
        let fill = drive.gauges().cache_fill.unwrap();
        assert!(fill >= least, "{fill}, not {least}");
        drive.close().unwrap();
        // A server tells of what has happened since it began.
        let report = Served::open(&path, ServeOptions::default(), None).stop();
        assert_eq!(report["physical_written_bytes"], 0);
    }
    check_image(&path);
    let folder = TempDir::new().unwrap();
    let mut drive = open_drive(&image(folder.path(), "in-place"));
    let refused = drive.prepare(&PreparedState::Full).unwrap_err();
    assert!(matches!(refused, LiveError::Impossible(_)), "{refused}");
    assert!(refused.to_string().contains("in-place has no persistent cache and no log to fill"), "{refused}");
}

/// A log cleans once its free room is used up: no sooner.
#[test]
fn a_log_begins_before_at_and_behind_the_point_where_it_cleans() {
    let cleaned = |state: &PreparedState, writes: u64| {
        let folder = TempDir::new().unwrap();
        let path = image(folder.path(), "log");
        let mut drive = open_drive(&path);
        drive.prepare(state).unwrap();
        let before = drive.cleaning_time();
        for at in 0..writes {
            drive.serve(Command::new(CommandKind::Write, at * 1_048_576, 65_536, vec![1; 65_536]));
        }
        let cleaning = (before, drive.cleaning_time().since(before));
        drive.close().unwrap();
        check_image(&path);
        cleaning
    };
    assert_eq!(cleaned(&PreparedState::NearlyFull, 1).1, Nanos::ZERO);
    let (before, at_once) = cleaned(&PreparedState::Full, 200);
    assert!(at_once > Nanos::ZERO && cleaned(&PreparedState::Cleaning, 0).0 > before);
}

#[test]
fn nobody_writes_to_a_drive_that_is_read_only() {
    let folder = TempDir::new().unwrap();
    let path = image(folder.path(), "log");
    let served = Served::open(&path, ServeOptions::default(), None);
    Client::new(&served.socket).write(0, &[1; 4096]);
    served.stop();
    let before = [&path, &state_path(&path)].map(|path| std::fs::read(path).unwrap());
    let read_only = DriveImage::open_to_read(&path, |_| Ok(None)).unwrap();
    let drive = smrkit_live::block::drive::ServedDrive::open(read_only, None, Queue::Fcfs).unwrap().0;
    let served = Served::start(drive, &folder.path().join("s"), Pace::None);
    let mut client = Client::new(&served.socket);
    assert_eq!(client.read(0, 4096), [1; 4096]);
    assert_eq!(
        [WRITE, TRIM].map(|kind| client.ask(0, kind, 0, 512, &vec![2; if kind == WRITE { 512 } else { 0 }])),
        [1; 2]
    );
    client.flush();
    served.stop();
    assert!([&path, &state_path(&path)].map(|path| std::fs::read(path).unwrap()) == before);
}

/// The host sees nothing of it but time: what was on the failed member comes from the others, and goes to the new one next to its requests.
#[test]
fn a_member_fails_and_is_replaced_and_all_of_it_is_replayed() {
    for (array, sends) in [(ARRAYS[0], 6), (ARRAYS[1], 3), (ARRAYS[3], 8)] {
        let folder = TempDir::new().unwrap();
        let (path, log) = (image(folder.path(), array), folder.path().join("log"));
        let (mut served, mut seed) = (Served::open(&path, ServeOptions::default(), Some(&log)), 0);
        let inject = |served: &Served, fault: &str| {
            served.ask(|sender| ControlRequest::Inject(fault.parse().unwrap(), sender)).err()
        };
        let missing = |served: &Served| served.report()["missing_members"].clone();
        let mut load = |served: &Served, count: u8| {
            let mut client = Client::new(&served.socket);
            for at in 0..count {
                seed += 1;
                client.write(seed * 7919 % 100_000 * 4096, &[at + 1; 4096]);
                assert_eq!(client.read(seed * 7919 % 100_000 * 4096, 4096), [at + 1; 4096]);
            }
        };
        load(&served, 40);
        assert!(inject(&served, "replace-member 1").unwrap().contains("let it fail first"));
        assert!(inject(&served, "fail-member 9").unwrap().contains("no member 9"));
        assert_eq!(inject(&served, "fail-member 1"), None);
        assert!(inject(&served, "fail-member 1").unwrap().contains("failed already"));
        if !array.starts_with("raid6") {
            assert!(inject(&served, "fail-member 0").unwrap().contains("would lose data"));
        }
        let before = served.report()["physical_read_bytes"].clone();
        load(&served, 40);
        assert_ne!(served.report()["physical_read_bytes"], before);
        assert_eq!(missing(&served), serde_json::json!([[1, null]]), "{array}");
        assert_eq!(inject(&served, "replace-member 1"), None);
        load(&served, 3);
        let share = missing(&served)[0][1].as_f64().unwrap();
        assert!(share > 0.0 && share < 1.0, "{array}: {share}");
        // It goes on after a cut, and after a restart.
        inject(&served, "power-cut 1");
        let mut client = Client::new(&served.socket);
        assert!((0..sends).any(|at| client.ask(0, WRITE, at << 20, 4096, &[1; 4096]) != 0), "{array}");
        load(&served, 3);
        served.stop();
        served = Served::open(&path, ServeOptions::default(), Some(&log));
        let later = missing(&served)[0][1].as_f64().unwrap();
        assert!(later >= share, "{array}: {later}, not {share}");
        load(&served, 3);
        inject(&served, "idle 1h");
        assert_eq!(missing(&served), serde_json::json!([]), "{array}");
        load(&served, 40);
        served.stop();
        let replayed = replay(&log).unwrap();
        assert_eq!((replayed.differences, replayed.first), (0, None), "{array}");
        check_image(&path);
    }
    let served = Served::new(ARRAYS[4]);
    let refused = served.ask(|sender| ControlRequest::Inject(InjectedFault::FailMember(0), sender)).unwrap_err();
    assert!(refused.contains("keeps nothing twice"), "{refused}");
}
