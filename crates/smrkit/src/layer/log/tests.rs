//! Segments by kind of data, and the order of waiting.

use super::label::{LabelKind, LogLabel};
use super::segment::{SegmentEntry, SegmentState};
use super::*;
use crate::geometry::Geometry;
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
    log.segments.parts().0
}

/// The segments that streams have open.
fn open(log: &mut Log) -> &mut Vec<Option<u32>> {
    log.segments.parts().1
}

fn free_sectors(log: &Log) -> u64 {
    log.segments.free().sectors()
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
        assert!(log.counts.moved_sectors > 0, "{separate}: nothing was cleaned");
        for segment in segments(&mut log).iter().filter(|segment| segment.state != SegmentState::Free) {
            let halves = segment.entries.iter().filter_map(|entry| entry.lba()).map(|lba| lba.0 >= host / 2);
            let mixed = halves.clone().any(|upper| upper) && halves.clone().any(|upper| !upper);
            assert!(separate == "hot" || !mixed, "a segment holds both sources");
        }
        log.check(&disk).unwrap();
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
    log.check(&disk).unwrap();
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
fn recovery_finds_what_was_written_in_the_log_alone() {
    let (mut before, mut disk) = log(&[("policy", "fifo")]);
    for version in 1..400 {
        write(&mut before, &mut disk, version * 13 % 300, 6, version);
        before.step(&mut disk, Need::Must).unwrap();
    }
    let (mut after, _) = log(&[("policy", "fifo")]);
    after.recover(&mut disk).unwrap();
    after.check(&disk).unwrap();
    let places = |log: &Log| (0..306).map(|lba| log.locate(Lba(lba))).collect::<Vec<_>>();
    assert_eq!(places(&before), places(&after));
    assert_eq!(after.serial, before.serial);
    assert!(free_sectors(&after) + after.segments.longest() >= free_sectors(&before));
}

#[test]
fn segments_that_were_free_are_free_after_a_recovery() {
    for policy in ["fifo", "greedy"] {
        let (mut before, mut disk) = log(&[("policy", policy)]);
        let host = before.capacity().host_sectors;
        // All is written twice, so that there are old versions, and trimmed then but for a stretch that goes on being written.
        for version in 1..3 {
            (0..host - 4).step_by(4).for_each(|lba| write(&mut before, &mut disk, lba, 4, version));
        }
        before.discard(&mut disk, Lba(40), host - 40).unwrap();
        (3..200).for_each(|version| write(&mut before, &mut disk, version * 4 % 40, 4, version));
        // Until nothing can be gained any more: what is trimmed is dead.
        while before.clean_stage(&mut disk, Need::Must).unwrap() && before.segments.closed_dead() > 0 {}
        for _ in 0..2 {
            let (mut after, _) = log(&[("policy", policy)]);
            after.recover(&mut disk).unwrap();
            after.check(&disk).unwrap();
            let [free, still] = [&before, &after].map(|log| log.segments.free().order());
            let missing = free.iter().filter(|at| !still.contains(at)).count();
            assert!(missing <= 1, "{policy}: {missing} of {} free segments are not free", free.len());
            let data = |lba| (before.locate(Lba(lba)), after.locate(Lba(lba)));
            assert!((0..40).map(data).all(|(before, after)| before == after));
        }
    }
}

#[test]
fn labels_of_the_last_write_outlive_its_segment() {
    let (mut before, mut disk) = log(&[]);
    let host = before.capacity().host_sectors;
    (0..host - 4).step_by(4).for_each(|lba| write(&mut before, &mut disk, lba, 4, 1));
    // The last request lies in two segments; nothing of the second is live when that is freed.
    let long = before.segments.room(0) + before.segments.longest();
    write(&mut before, &mut disk, 0, long, 2);
    let last = segment_of(&before, long - 1);
    before.discard(&mut disk, Lba(0), host).unwrap();
    while before.segments.get(last).state != SegmentState::Free {
        assert!(before.clean_stage(&mut disk, Need::Must).unwrap());
    }
    let (mut after, _) = log(&[]);
    after.recover(&mut disk).unwrap();
    assert_eq!((after.serial, after.segments.free().last_written()), (before.serial, Some(last)));
    // What another write replaces has no labels any more once the log has recovered, even if it was killed before they went.
    before.segments.parts().2.forget_labels();
    let place = before.segments.get(last).place;
    let labels = |disk: &mut Disk| disk.read_labels(place.start, place.sectors.into(), Cause::Map).unwrap().len();
    write(&mut before, &mut disk, 0, long, 3);
    assert!(labels(&mut disk) > 0);
    log(&[]).0.recover(&mut disk).unwrap();
    assert_eq!(labels(&mut disk), 0);
}

#[test]
fn a_zone_is_written_on_behind_all_that_was_written_to_it() {
    for resets in [false, true] {
        let (mut before, mut disk) = log(&[]);
        // The end of what the open segment holds is dead, and lies elsewhere.
        let n = before.segments.longest() - 10;
        write(&mut before, &mut disk, 0, n, 1);
        let pointer = before.segments.get(segment_of(&before, 0)).head();
        open(&mut before)[0] = None;
        write(&mut before, &mut disk, n - 10, 10, 2);
        write(&mut before, &mut disk, 200, n - 5, 2);
        let (mut after, _) = log(&[]);
        after.rules.resets = resets;
        after.recover(&mut disk).unwrap();
        let head = after.segments.get(segment_of(&after, 0)).head();
        assert_eq!(head >= pointer, resets, "{head} of a segment written to {pointer}");
        after.check(&disk).unwrap();
    }
}

#[test]
fn a_torn_request_is_put_back_into_the_segment_begun_last() {
    let (mut log, mut disk) = log(&[]);
    write(&mut log, &mut disk, 0, 8, 1);
    let room = log.segments.room(0);
    assert!(room > 1);
    *log.segments.parts().2.sectors_mut() = 0;
    log.put_back_piece(&mut disk, Lba(0), room, 5).unwrap();
    assert!(log.put_back_piece(&mut disk, Lba(0), 1, 6).unwrap_err().to_string().contains("no room"));
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
    log.check(&disk).unwrap();
    (log, disk)
}

#[test]
fn a_check_finds_each_count_that_is_off_by_one() {
    let (mut log, disk) = busy();
    for number in 0..log.segments.counts().len() {
        for change in [1u64, u64::MAX] {
            let [(name, count), ..] = &mut log.segments.counts()[number..] else { unreachable!() };
            let name = *name;
            **count = count.wrapping_add(change);
            let error = log.check(&disk).unwrap_err().to_string();
            assert!(error.contains(&format!(" {name} are counted")), "{name}: {error}");
            let count = &mut log.segments.counts()[number].1;
            **count = count.wrapping_sub(change);
        }
    }
    log.check(&disk).unwrap();
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
            segments(log)[free].entries.push(SegmentEntry::gap(3));
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
            segments(log)[closed].entries.push(SegmentEntry::gap(1));
        }),
    ];
    for (problem, damage) in damages {
        let (mut log, disk) = busy();
        damage(&mut log);
        let error = log.check(&disk).unwrap_err().to_string();
        assert!(error.contains(problem), "{problem}: {error}");
    }
}

#[test]
fn copies_carry_no_rest_of_their_request() {
    let (mut log, mut disk) = busy();
    while log.job.is_some() {
        assert!(log.step(&mut disk, Need::Must).unwrap());
    }
    let mut left = [0; 2];
    for segment in segments(&mut log).iter().filter(|segment| segment.place.sectors > 0) {
        let labels = disk.read_labels(segment.place.start, segment.place.sectors.into(), Cause::Map).unwrap();
        for label in labels.into_iter().filter_map(|(_, words)| LogLabel::parse(words)) {
            assert!(label.kind == LabelKind::Host || label.left == 0, "{label:?}");
            left[usize::from(label.kind == LabelKind::Copy)] += label.left + 1;
        }
    }
    assert!(left[0] > 0 && left[1] > 0, "{left:?}");
}
