//! Segments by kind of data, and the order of waiting.

use super::segments::{Segment, SegmentState};
use super::*;
use crate::geometry::Geometry;
use crate::layer::runs::LoggedRun;
use crate::medium::interference::Interference;
use crate::medium::{Medium, Stamp, Stamps};
use crate::schema::Keyed;

/// A log of 200 segments of 40 sectors, and its disk.
fn log(set: &[(&str, &str)]) -> (Log, Disk) {
    let drive = drive(2);
    (Log::new(&drive, &keys(set)).unwrap(), Disk::new(&drive, Medium::Stamps(Stamps::new())))
}

fn drive(width: u64) -> Drive {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(600, 20).unwrap();
    drive.with_interference(Interference::Tracks { width, band: None }).unwrap()
}

fn keys(set: &[(&str, &str)]) -> LogKeys {
    let all = [&[("segment_tracks", "2")], set].concat();
    let all: Vec<(String, String)> = all.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    LogKeys::read(&SPEC.resolve(&all).unwrap()).unwrap()
}

#[test]
fn a_drive_too_small_names_a_remedy_that_helps() {
    let tracks = |width| Interference::Tracks { width, band: None };
    for (law, segment_tracks, remedy) in [
        (tracks(2), "300", "data: lower log.segment_tracks, or take a larger drive"),
        (Interference::Blocks { reach: 200 }, "2", "data: raise log.segment_tracks, or take a larger drive"),
        (tracks(290), "2", "data: take a larger drive"),
    ] {
        let drive = drive(2).with_interference(law).unwrap();
        let made = Log::new(&drive, &keys(&[("segment_tracks", segment_tracks)]));
        let error = made.err().unwrap().to_string();
        assert!(error.contains(remedy), "{error}");
    }
}

fn write(log: &mut Log, disk: &mut Disk, lba: u64, n: u64, version: u64) {
    let data = Buf::Stamps((lba..lba + n).map(|lba| Stamp::new(Lba(lba), version).0).collect());
    log.write(disk, Lba(lba), n, &data).unwrap();
}

fn segment_of(log: &Log, lba: u64) -> u32 {
    log.segments.part_at(log.locate(Lba(lba)), 1).0
}

fn segments(log: &mut Log) -> &mut Vec<Segment> {
    &mut log.segments.all
}

/// The segments that streams have open.
fn open(log: &mut Log) -> &mut Vec<Option<u32>> {
    &mut log.segments.open
}

#[test]
fn sources_share_a_segment_only_where_they_are_not_separated() {
    for (separate, shared) in [("none", true), ("source", false)] {
        let (mut log, mut disk) = log(&[("separate", separate)]);
        for i in 0..8 {
            log.set_source(i % 2);
            write(&mut log, &mut disk, u64::from(i) * 4, 4, 1);
        }
        assert_eq!(segment_of(&log, 0) == segment_of(&log, 4), shared, "{separate}");
        assert_eq!(segment_of(&log, 0), segment_of(&log, 8), "{separate}");
    }
}

#[test]
fn survivors_stay_apart_from_new_data_where_hot_is_separated() {
    for separate in ["hot", "source"] {
        let (mut log, mut disk) = log(&[("separate", separate)]);
        let host = log.capacity().host_sectors;
        for version in 1..4000 {
            log.set_source((version % 2) as u8);
            // Each source writes its own half.
            let half = host / 2;
            let lba = version % 2 * half + (version.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % (half - 4);
            write(&mut log, &mut disk, lba, 4, version);
            while log.step(&mut disk, Need::Must).unwrap() {}
        }
        assert!(log.counts.garbage.moved_sectors > 0, "{separate}: nothing was cleaned");
        for segment in segments(&mut log).iter().filter(|segment| segment.state != SegmentState::Free) {
            let halves = segment.entries.iter().filter_map(|entry| entry.lba()).map(|lba| lba.0 >= host / 2);
            let mixed = halves.clone().any(|upper| upper) && halves.clone().any(|upper| !upper);
            assert!(separate == "hot" || !mixed, "a segment holds both sources");
        }
        log.check().unwrap();
    }
}

#[test]
fn a_request_between_two_stages_keeps_replaced_data_from_moving() {
    let (mut log, mut disk) = log(&[("policy", "fifo")]);
    let host = log.capacity().host_sectors;
    for lba in (0..host).step_by(4) {
        write(&mut log, &mut disk, lba, 4.min(host - lba), 1);
    }
    // Every other write again, until cleaning is due.
    let mut again = (0..host - 4).step_by(8).cycle();
    while !log.cleaning_is_due() {
        let lba = again.next().unwrap();
        write(&mut log, &mut disk, lba, 4, 2);
    }
    let job = log.choose(&disk, Need::Must).unwrap();
    let victim = job.victim;
    log.job = Some(job);
    let survivor = (0..host).map(Lba).find(|&lba| segment_of(&log, lba.0) == victim).unwrap();
    write(&mut log, &mut disk, survivor.0, 1, 3);
    let place = log.locate(survivor);
    while log.job.is_some() {
        assert!(log.step(&mut disk, Need::Must).unwrap());
    }
    assert_eq!((log.segments.get(victim).state, log.locate(survivor)), (SegmentState::Free, place));
    log.check().unwrap();
}

#[test]
fn idle_time_brings_no_cleaning_forward() {
    let (mut log, mut disk) = log(&[]);
    for version in 1..60 {
        write(&mut log, &mut disk, 0, 20, version);
        assert!(!log.step(&mut disk, Need::Spare).unwrap());
    }
}

#[test]
fn unwritten_sectors_read_as_zeros_in_a_conventional_disks_time() {
    let (mut log, mut disk) = log(&[]);
    write(&mut log, &mut disk, 5, 1, 1);
    let before = disk.tally().reads(Cause::Host).sectors;
    let mut out = Buf::Stamps(vec![7; 10]);
    log.read(&mut disk, Lba(0), 10, &mut out).unwrap();
    let mut expected = vec![0; 10];
    expected[5] = Stamp::new(Lba(5), 1).0;
    assert!(matches!(&out, Buf::Stamps(found) if *found == expected), "{out:?}");
    assert_eq!(disk.tally().reads(Cause::Host).sectors - before, 10);
}

#[test]
fn writes_that_wait_together_are_one_append_as_far_as_a_segment_reaches() {
    let (mut log, mut disk) = log(&[("shared_writes", "8"), ("append_time", "11ms")]);
    let stamps = |lba: u64, n: u64| Buf::Stamps((lba..lba + n).map(|lba| Stamp::new(Lba(lba), 1).0).collect());
    let places = [300, 20, 700, 150, 41];
    let data: Vec<Buf> = places.iter().map(|&lba| stamps(lba, 9)).collect();
    let writes = places.iter().zip(&data).map(|(&lba, data)| QueuedWrite { lba: Lba(lba), sectors: 9, data });
    let writes: Vec<QueuedWrite> = writes.collect();
    assert_eq!(log.takes_together(), 8);
    // A segment has 40 sectors, and these are 45.
    log.write_together(&mut disk, &writes).unwrap();
    assert_eq!(disk.tally().writes(Cause::Host).commands, 2);
    assert!(segment_of(&log, 41 + 8) != segment_of(&log, 300));
    for &lba in &places {
        let mut out = Buf::Stamps(vec![0; 9]);
        log.read(&mut disk, Lba(lba), 9, &mut out).unwrap();
        assert!(matches!((&out, stamps(lba, 9)), (Buf::Stamps(found), Buf::Stamps(put)) if *found == put), "{out:?}");
    }
    log.check().unwrap();
}

#[test]
fn a_full_disk_has_its_spare_segments_where_it_was_asked_to() {
    let free = |outer: &str| {
        let (mut log, mut disk) = log(&[("spare_outer", outer)]);
        disk.fill(log.fill());
        log.check().unwrap();
        let is_free = |at: &u32| log.segments.get(*at).state == SegmentState::Free;
        (0..log.segments.all.len() as u32).filter(is_free).collect::<Vec<_>>()
    };
    let (inner, outer) = (free("off"), free("on"));
    assert!(inner.len() > 2 && outer.len() == inner.len());
    assert!(inner[0] > 100 && outer.iter().copied().eq(0..outer.len() as u32), "{outer:?} {inner:?}");
}

/// A log with segments that are free, open, closed and being cleaned.
fn busy() -> (Log, Disk) {
    let (mut log, mut disk) = log(&[]);
    let host = log.capacity().host_sectors;
    let mut version = 0u64;
    while !log.cleaning_is_due() || open(&mut log)[0].is_none() {
        version += 1;
        let lba = (version.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % (host - 16);
        write(&mut log, &mut disk, lba, 16, version);
    }
    log.job = log.choose(&disk, Need::Must);
    log.check().unwrap();
    (log, disk)
}

#[test]
fn a_check_finds_each_count_that_is_off_by_one() {
    type Count = fn(&mut SegmentTable) -> &mut u64;
    let counts: [(&str, Count); 5] = [
        ("live sectors", |table| &mut table.live_sectors),
        ("log sectors", |table| &mut table.log_sectors),
        ("free sectors", |table| &mut table.free_sectors),
        ("dead sectors of closed segments", |table| &mut table.closed.dead),
        ("entries", |table| &mut table.entries),
    ];
    let (mut log, _) = busy();
    for (name, count) in counts {
        let right = *count(&mut log.segments);
        for wrong in [right.wrapping_add(1), right.wrapping_sub(1)] {
            *count(&mut log.segments) = wrong;
            let error = log.check().unwrap_err().to_string();
            assert!(error.contains(&format!(" {name} are counted")), "{name}: {error}");
        }
        *count(&mut log.segments) = right;
    }
    log.check().unwrap();
}

fn in_state(log: &mut Log, state: SegmentState) -> u32 {
    segments(log).iter().position(|segment| segment.state == state).unwrap() as u32
}

#[test]
fn a_check_finds_places_and_states_that_can_not_be() {
    type Damage = fn(&mut Log);
    let damages: [(&str, Damage); 10] = [
        ("belongs to two LBAs", |log| {
            let long = log.map.mapped(Lba(100), 5000).find(|extent| extent.1 > 1).unwrap();
            log.map.insert(Lba(0), 1, long.2 + 1);
        }),
        ("was not written", |log| {
            let free = in_state(log, SegmentState::Free);
            log.map.insert(Lba(0), 1, log.segments.get(free).head());
        }),
        ("live sectors, but", |log| {
            let closed = in_state(log, SegmentState::Closed);
            segments(log)[closed as usize].live += 1;
        }),
        ("is Free with 0 of", |log| {
            let free = in_state(log, SegmentState::Free);
            open(log).push(Some(free));
        }),
        ("is Free with 3 of", |log| {
            let free = in_state(log, SegmentState::Free) as usize;
            segments(log)[free].filled = 3;
            segments(log)[free].entries.push(LoggedRun::skipped(3));
        }),
        ("is Open with", |log| open(log)[0] = None),
        ("is Closed with", |log| {
            let at = open(log)[0].take().unwrap();
            segments(log)[at as usize].state = SegmentState::Closed;
        }),
        ("is Closed with", |log| {
            let closed = in_state(log, SegmentState::Closed);
            open(log).push(Some(closed));
        }),
        ("is Cleaned with", |log| log.job = None),
        ("in its list", |log| {
            let closed = in_state(log, SegmentState::Closed) as usize;
            segments(log)[closed].entries.push(LoggedRun::skipped(1));
        }),
    ];
    for (problem, damage) in damages {
        let (mut log, _) = busy();
        damage(&mut log);
        let error = log.check().unwrap_err().to_string();
        assert!(error.contains(problem), "{problem}: {error}");
    }
}

#[test]
fn a_file_keeps_its_segment_until_others_push_it_out() {
    let mut files = OpenFiles::new(2, 100);
    let streams: Vec<u8> = [0, 100, 99, 250, 101, 5].map(|lba| files.stream(0, Lba(lba), None, &[None; 3])).into();
    assert_eq!(streams, [0, 1, 0, 1, 0, 1]);
    let mut stream = |source, lba| files.stream(source, Lba(lba), None, &[None; 3]);
    assert_eq!((stream(1, 5), stream(0, 5), stream(0, 101)), (0, 1, 0));
}

/// Files of 100 LBAs with lifetimes of their data, each a new one, written to three segments of which as many are open as were used.
#[test]
fn data_of_one_short_life_shares_a_segment_and_others_get_one_of_their_own() {
    use super::lifetime::{EXTREME, LONG, MEDIUM, NOT_SET, SHORT};
    let streams = |lives: &[u8]| {
        let (mut files, mut open) = (OpenFiles::new(3, 100), [None; 4]);
        let mut stream = |(file, &life): (u64, &u8)| {
            let at = files.stream(0, Lba(file * 100), Some(life), &open);
            open[usize::from(at)] = Some(u32::from(at));
            at
        };
        (0..).zip(lives).map(&mut stream).collect::<Vec<u8>>()
    };
    assert_eq!(streams(&[SHORT, SHORT, MEDIUM, SHORT, MEDIUM]), [0, 0, 1, 0, 1]);
    // Others open a segment each while they can, and then take one of their like.
    assert_eq!(streams(&[LONG, EXTREME, SHORT, LONG, LONG]), [0, 1, 2, 0, 1]);
    assert_eq!(streams(&[SHORT, MEDIUM, EXTREME, NOT_SET]), [0, 1, 2, 0]);
}

/// Cleaning opens segments in which the host then finds room; it must not use up what the victim's rest needs.
#[test]
fn the_host_leaves_room_to_clean_with() {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(300, 2000).unwrap();
    let drive = drive.with_interference(Interference::Tracks { width: 2, band: None }).unwrap();
    let keys = keys(&[("segment_tracks", "10"), ("spare_percent", "0.5")]);
    let (mut log, mut disk) = (Log::new(&drive, &keys).unwrap(), Disk::new(&drive, Medium::NoData));
    disk.fill(log.fill());
    let places = log.capacity().host_sectors / WHOLE_SECTORS;
    let mut at = 1u64;
    for _ in 0..4000 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        log.step(&mut disk, Need::Must).unwrap();
        log.write(&mut disk, Lba((at >> 33) % places * WHOLE_SECTORS), WHOLE_SECTORS, &Buf::NoData).unwrap();
    }
    log.check().unwrap();
}
