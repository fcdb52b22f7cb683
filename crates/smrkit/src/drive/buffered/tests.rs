use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::drive::{Drive, DriveClock};

/// One overhead for all commands, and none at their end.
fn same_overheads(overhead: Nanos) -> Overheads {
    let each = [overhead; 2];
    Overheads { read_miss: each, read_hit: each, write: each, media_write: each, ..Overheads::default() }
}

/// No cache, no read-ahead, and the same overhead for all commands.
fn plain_buffer(overhead: Nanos) -> Buffer {
    Buffer {
        write_cache_bytes: 0,
        write_cache_order: WriteCacheOrder::Position,
        read_ahead_bytes: 0,
        read_ahead_to: ReadAheadTo::Bytes,
        segment_bytes: 0,
        segments: 1,
        reads_passing: false,
        keeps_requested: false,
        bus_bytes_per_s: [Buffer::BUS_BYTES_PER_S; 2],
        watermark: 0.0,
        write_watermark: 0.0,
        overheads: same_overheads(overhead),
    }
}

fn buffered(write_cache_bytes: u64, read_ahead_bytes: u64) -> (Geometry, Mechanical, Buffered) {
    let drive = Drive::load("tiny").unwrap();
    let media = drive.clock.mechanical().unwrap().clone();
    let buffer = Buffer {
        write_cache_bytes,
        write_cache_order: WriteCacheOrder::Arrival,
        read_ahead_bytes,
        segment_bytes: 2 * read_ahead_bytes,
        bus_bytes_per_s: [512e6; 2],
        ..plain_buffer(media.overhead())
    };
    (drive.geometry, media.clone(), Buffered::new(media, buffer))
}

/// Scattered single-sector extents, the same every time.
fn scattered(g: &Geometry, count: u64) -> Vec<Pba> {
    (0..count).map(|i| Pba(i * 7919 % (g.sectors - 8))).collect()
}

#[test]
fn writes_complete_at_bus_speed_until_the_cache_is_full() {
    let (g, _, mut clock) = buffered(64 * 512, 0);
    let mut now = Nanos::ZERO;
    for (i, pba) in scattered(&g, 40).into_iter().enumerate() {
        let wait = [8, 64, 65].map(|sectors| clock.wait_for_room(now, sectors));
        let end = clock.access(&g, now, true, pba, 8);
        if i == 0 {
            assert_eq!(wait, [Some(Nanos::ZERO), Some(Nanos::ZERO), None], "all of the cache, and more");
        }
        // Eight extents fit next to the one that is being written.
        if i <= 8 {
            assert_eq!(wait[0] == Some(Nanos::ZERO), i < 8, "{i}");
            assert_eq!(Some(end - now), wait[0].map(|wait| wait.max(Nanos(30_000)) + Nanos(8_000)), "{i}");
        }
        assert!(clock.queue.has_room(0));
        now = end;
    }
    assert!(now > Nanos::from_millis(30.0 * 4.0), "a full cache is as slow as the media: {now}");
}

#[test]
fn writes_wait_for_room_and_reads_for_what_is_held() {
    let (g, _, clock) = buffered(64 * 512, 8 * 512);
    let mut clock = DriveClock::Buffered(Box::new(clock));
    let wait = |clock: &DriveClock, now, write, sectors| clock.wait_for_buffer(&g, now, write, Pba(0), sectors);
    assert_eq!([64, 65].map(|n| wait(&clock, Nanos::ZERO, true, n)), [Some(Nanos::ZERO), None]);
    assert_eq!(wait(&clock, Nanos::ZERO, false, 8), None);
    let end = clock.access(&g, Nanos::ZERO, false, Pba(0), 8);
    assert_eq!(wait(&clock, end, false, 8), Some(Nanos::ZERO));
    assert_eq!(wait(&clock, end, true, 65), None);
    let mechanical = DriveClock::Mechanical(clock.mechanical().unwrap().clone());
    assert_eq!(wait(&mechanical, end, true, 8), None);
    assert_eq!((clock.unwaited(), mechanical.unwaited()), (Some(Nanos::ZERO), None));
    assert_eq!(clock.name(), "mechanical");
}

#[test]
fn a_cached_run_takes_the_media_as_long_as_writes_without_cache() {
    let (g, mut plain, mut clock) = buffered(1 << 20, 0);
    let mut now = Nanos::ZERO;
    let extents = scattered(&g, 100);
    for &pba in &extents {
        now = clock.access(&g, now, true, pba, 8);
    }
    let end = clock.flush(&g, now);
    let mut alone = Nanos(38_000);
    for &pba in &extents {
        alone = plain.access_without_overhead(&g, alone, true, pba, 8);
    }
    assert_eq!(end, alone);
    assert_eq!(clock.busy_until, end);
}

#[test]
fn what_the_cache_writes_while_no_command_is_served_is_counted_once() {
    let (g, _, mut clock) = buffered(1 << 20, 0);
    let (mut now, mut served) = (Nanos::ZERO, Nanos::ZERO);
    // A read waits for the write that is under way, and the rest of the queue for it.
    for (i, pba) in scattered(&g, 30).into_iter().enumerate() {
        let end = clock.access(&g, now, i % 10 != 9, pba, 8);
        served += end - now;
        now = end + Nanos::from_millis(1.0);
    }
    let end = clock.flush(&g, now);
    // The media has worked since the first write was complete.
    assert_eq!(clock.unwaited, end - Nanos(38_000) - (served - Nanos(38_000)));
    clock.unwaited = Nanos::ZERO;
    let later = end + Nanos::from_millis(100.0);
    clock.access(&g, later, false, Pba(0), 8);
    assert_eq!(clock.unwaited, Nanos::ZERO, "nothing was left to write");
}

#[test]
fn contiguous_cached_writes_are_joined() {
    let (g, mut plain, mut clock) = buffered(1 << 20, 0);
    let mut now = Nanos::ZERO;
    let mut direct = Nanos::ZERO;
    for i in 0..100 {
        now = clock.access(&g, now, true, Pba(i * 8), 8);
        direct = plain.access(&g, direct, true, Pba(i * 8), 8);
    }
    // Each write alone misses its sector; joined they stream.
    assert!(clock.flush(&g, now).0 * 3 < direct.0);
}

#[test]
fn sectors_that_pass_before_those_asked_for_are_kept() {
    let (g, media, _) = buffered(0, 0);
    let buffer = |reads_passing| Buffer {
        read_ahead_to: ReadAheadTo::Track,
        segment_bytes: 1 << 20,
        reads_passing,
        ..plain_buffer(media.overhead())
    };
    let track = g.track_start(g.track_of(Pba(3000)));
    let pba = track + g.place(track).track_sectors as u64 * 3 / 4;
    // At the first of these moments hardly a sector passes before; within a rotation there is one with half a track.
    let rotation = media.rotation().0;
    let mut kept = Vec::new();
    for moment in (0..20).map(|part| Nanos(rotation * 10 + rotation * part / 20)) {
        let mut clock = Buffered::new(media.clone(), buffer(true));
        let mut plain = Buffered::new(media.clone(), buffer(false));
        let done = clock.access(&g, moment, false, pba, 1);
        assert_eq!(done, plain.access(&g, moment, false, pba, 1), "reading what passes takes no time");
        let earlier = (0..pba - track).filter(|n| clock.holds(&g, done, pba - (n + 1), 1)).count() as u64;
        assert!((0..pba - track).all(|n| !plain.holds(&g, done, pba - (n + 1), 1)));
        // What passed in the time waited, less overhead and seek, lies right before.
        let waited = (done - moment).0 / (rotation / g.place(pba).track_sectors as u64);
        assert!(earlier <= waited, "{earlier} in the time of {waited}");
        kept.push(earlier);
    }
    assert!(kept.iter().any(|&n| n < 3) && kept.iter().any(|&n| n > (pba - track) / 2), "{kept:?}");
}

#[test]
fn a_read_of_cached_sectors_comes_from_the_buffer() {
    let (g, _, mut clock) = buffered(1 << 20, 0);
    let now = clock.access(&g, Nanos::ZERO, true, Pba(4000), 8);
    let now = clock.access(&g, now, true, Pba(100), 8);
    assert_eq!(clock.access(&g, now, false, Pba(102), 4) - now, Nanos(30_000 + 4_000));
    let waits = clock.access(&g, now, false, Pba(2000), 8) - now;
    assert!(waits > Nanos::from_millis(1.0));
}

#[test]
fn read_ahead_streams_sequential_reads_and_costs_others_little() {
    let (g, mut plain, mut clock) = buffered(0, 64 << 10);
    let (mut now, mut direct) = (Nanos::ZERO, Nanos::ZERO);
    for i in 0..200 {
        let before = now;
        now = clock.access(&g, now, false, Pba(i * 8), 8);
        assert!(now >= before + Nanos(8_000));
        direct = plain.access(&g, direct, false, Pba(i * 8), 8);
    }
    let (_, mut fresh, _) = buffered(0, 0);
    let streaming = fresh.access(&g, Nanos::ZERO, false, Pba(0), 1600);
    assert!(now.0 * 4 < direct.0, "{now} against {direct}");
    assert!(now.0 >= streaming.0, "{now}: no faster than the media, {streaming}");
    assert!(now.0 < streaming.0 + 1_000_000, "{now}: as fast as the media, {streaming}");
    // A later read of what was read ahead is immediate.
    let later = now + Nanos::from_secs(1.0);
    assert!(clock.access(&g, later, false, Pba(1608), 8) - later < Nanos::from_millis(10.0));
    let (g, mut plain, mut clock) = buffered(0, 64 << 10);
    let (mut now, mut direct) = (Nanos::ZERO, Nanos::ZERO);
    for pba in scattered(&g, 200) {
        now = clock.access(&g, now, false, pba, 8);
        direct = plain.access(&g, direct, false, pba, 8);
    }
    assert!((now.0 as f64 / direct.0 as f64 - 1.0).abs() < 0.2, "{now} against {direct}");
}

#[test]
fn a_write_larger_than_the_cache_goes_to_the_media() {
    let (g, mut plain, mut clock) = buffered(4096, 0);
    assert_eq!(clock.access(&g, Nanos::ZERO, true, Pba(0), 100), plain.access(&g, Nanos::ZERO, true, Pba(0), 100));
}

#[test]
fn a_read_overlaps_its_bus_transfer_from_the_watermark_on() {
    let (g, mut plain, clock) = buffered(0, 64 << 10);
    let media = plain.access(&g, Nanos::ZERO, false, Pba(4000), 40);
    let Buffered { media: own, .. } = clock;
    let with = |watermark, bus_bytes_per_s| {
        let buffer = Buffer { watermark, bus_bytes_per_s, ..plain_buffer(own.overhead()) };
        Buffered::new(own.clone(), buffer).access(&g, Nanos::ZERO, false, Pba(4000), 40)
    };
    let sector = own.streaming(&g, Pba(4000), 1);
    // A fast bus ends a sector after the media, a slow one begins with the first sector, or after the last.
    assert_eq!(with(0.0, [512e6; 2]), media + Nanos(1_000));
    let slow = Nanos(40 * 1_000_000);
    let begun = with(0.0, [512e3; 2]) - slow;
    assert!((begun.0 as i64 - (media.0 as i64 - 39 * sector.0 as i64)).abs() < 5 * sector.0 as i64, "{begun}");
    assert_eq!(with(1.0, [512e3; 2]), media + slow);
}

/// A write that continues the one before at once: without waiting for its data it would end a rotation early.
#[test]
fn a_write_begins_once_its_data_are_far_enough_ahead_of_the_media() {
    let (g, own, _) = buffered(0, 0);
    let with = |write_data, write_watermark, bus| {
        let overheads = Overheads { write_data, ..same_overheads(own.overhead()) };
        let buffer = Buffer { write_watermark, bus_bytes_per_s: [bus; 2], overheads, ..plain_buffer(own.overhead()) };
        let mut clock = Buffered::new(own.clone(), buffer);
        let first = clock.access(&g, Nanos::ZERO, true, Pba(4000), 8);
        // The next sector passes half a millisecond after the head is ready for it.
        let sent = first + own.rotation() - own.overhead() - Nanos(500_000);
        clock.access(&g, sent, true, Pba(4008), 8) - sent
    };
    let (fast, slow) = (Buffer::BUS_BYTES_PER_S, 1e6);
    let early = with(None, 0.0, fast);
    assert_eq!(with(Some(Nanos::ZERO), 0.0, fast), early, "the bus is faster than the media");
    assert_eq!(with(Some(Nanos::ZERO), 1.0, fast), early);
    let late = early + own.rotation();
    assert_eq!(with(Some(Nanos::ZERO), 0.0, slow), late, "the bus would fall behind");
    assert_eq!(with(Some(Nanos::ZERO), 1.0, slow), late);
    assert_eq!(with(Some(Nanos(600_000)), 0.0, fast), late, "the data come too late");
}

#[test]
fn a_write_waits_only_for_what_lies_on_its_first_track() {
    let (g, own, _) = buffered(0, 0);
    // As fast as the media where those are fastest, so that the bus has to be a sector ahead of them.
    let bus = 512.0 * g.longest_track() as f64 / own.rotation().as_secs();
    let with = |at: Pba, write_watermark| {
        let overheads = Overheads { write_data: Some(Nanos::ZERO), ..same_overheads(own.overhead()) };
        let buffer = Buffer { write_watermark, bus_bytes_per_s: [bus; 2], overheads, ..plain_buffer(own.overhead()) };
        let mut clock = Buffered::new(own.clone(), buffer);
        let first = clock.access(&g, Nanos::ZERO, true, at, 8);
        let sent = first + own.rotation() - own.overhead() - Nanos(500_000);
        clock.access(&g, sent, true, at + 8, 16) - sent
    };
    let track = g.track_of(Pba(4000));
    let (within, across) = (g.track_start(track), Pba(g.track_start(track + 1).0 - 9));
    assert_eq!(with(within, 1.0), with(within, 0.0) + own.rotation());
    assert_eq!(with(across, 1.0), with(across, 0.0));
}

#[test]
fn what_the_head_has_passed_by_a_segment_is_read_anew() {
    let (g, media, _) = buffered(0, 0);
    let buffer = Buffer { read_ahead_bytes: 200 * 512, segment_bytes: 64 * 512, ..plain_buffer(media.overhead()) };
    let hit = |after: Nanos, pba| {
        let mut clock = Buffered::new(media.clone(), buffer);
        let end = clock.access(&g, Nanos::ZERO, false, Pba(100), 8);
        clock.access(&g, end + after, false, Pba(pba), 8) - (end + after) < Nanos::from_millis(0.1)
    };
    assert!(hit(Nanos::ZERO, 100));
    assert!(!hit(Nanos::from_secs(1.0), 100), "read-ahead has overwritten it");
    assert!(hit(Nanos::from_secs(1.0), 108 + 200 - 8));
}

#[test]
fn read_ahead_ends_with_the_track_or_the_next() {
    let (g, media, _) = buffered(0, 0);
    let limit = |read_ahead_to, reads: &[u64]| {
        let buffer = Buffer { read_ahead_to, segment_bytes: 1 << 20, ..plain_buffer(media.overhead()) };
        let mut clock = Buffered::new(media.clone(), buffer);
        let mut now = Nanos::ZERO;
        for &pba in reads {
            now = clock.access(&g, now, false, Pba(pba), 8);
        }
        (0..256).rev().find(|&pba| clock.holds(&g, now, Pba(pba), 1)).map(|last| Pba(last + 1))
    };
    // Tracks of 64 sectors.
    assert_eq!(limit(ReadAheadTo::Track, &[10]), Some(Pba(64)));
    assert_eq!(limit(ReadAheadTo::NextTrack, &[10]), Some(Pba(64)));
    assert_eq!(limit(ReadAheadTo::Track, &[50, 58]), Some(Pba(128)));
    assert_eq!(limit(ReadAheadTo::NextTrack, &[50, 58]), Some(Pba(192)), "reading came from the track before");
}

#[test]
fn overheads_of_queued_commands_overlap_the_media() {
    let (g, mut plain, mut clock) = buffered(0, 64 << 10);
    let first = clock.access(&g, Nanos::ZERO, false, Pba(100), 8);
    clock.sent_at(Nanos::ZERO);
    assert_eq!(clock.access(&g, first, false, Pba(100), 8), first + Nanos(8_000), "its overhead is over");
    assert_eq!(clock.access(&g, first, false, Pba(100), 8), first + Nanos(38_000), "only that of the next command");
    let alone = plain.access(&g, Nanos::ZERO, false, Pba(100), 8);
    assert!(first <= alone + Nanos(8_000));
}

/// The tiny drive reading ahead 64 sectors, with this number of segments.
fn segmented(segments: u32) -> (Geometry, Buffered) {
    let drive = Drive::load("tiny").unwrap();
    let media = drive.clock.mechanical().unwrap().clone();
    let plain = plain_buffer(media.overhead());
    let buffer = Buffer { read_ahead_bytes: 64 * 512, segment_bytes: 1 << 20, segments, ..plain };
    (drive.geometry, Buffered::new(media, buffer))
}

/// True if sectors read ahead at first still come from the buffer after these accesses.
fn is_remembered(segments: u32, between: &[(bool, u64)]) -> bool {
    let (g, mut clock) = segmented(segments);
    let pause = Nanos::from_millis(50.0);
    let mut now = clock.access(&g, Nanos::ZERO, false, Pba(100), 8) + pause;
    for &(write, pba) in between {
        now = clock.access(&g, now, write, Pba(pba), 8) + pause;
    }
    let held = clock.holds(&g, now, Pba(110), 8);
    let took = clock.access(&g, now, false, Pba(110), 8) - now;
    assert_eq!(held, took < Nanos::from_millis(0.2), "{took}");
    held
}

#[test]
fn a_stretch_read_before_is_kept_as_long_as_there_are_segments() {
    assert!(is_remembered(1, &[]));
    assert!(!is_remembered(1, &[(false, 3000)]));
    assert!(is_remembered(2, &[(false, 3000)]));
    assert!(!is_remembered(2, &[(false, 3000), (false, 4000)]));
    assert!(is_remembered(3, &[(false, 3000), (false, 4000)]));
}

#[test]
fn what_is_written_is_no_longer_kept() {
    assert!(is_remembered(3, &[(false, 3000), (true, 4000)]));
    assert!(!is_remembered(3, &[(false, 3000), (true, 112)]));
}

proptest! {
    /// Runs in a row make one write; starts and ends lie on both sides of granules, and granules share counts.
    #[test]
    fn queued_writes_are_found_as_by_looking_at_each(
        operations in vec((0_u64..3, 0_u64..6, 0_u64..4, 1_u64..400), 1..60),
        probes in vec((0_u64..3, 0_u64..6, 0_u64..4, 1_u64..400), 1..40),
    ) {
        const COUNTS: u64 = 64;
        let place = |around: u64, granule: u64, by: u64| {
            Pba((around * COUNTS + granule) * GRANULE_SECTORS + [0, 1, 60, 127][by as usize])
        };
        let (mut cache, mut next) = (WriteQueue::new(COUNTS * 16), Pba(0));
        for (around, granule, by, sectors) in operations {
            match sectors % 5 {
                0 => drop(cache.start_write()),
                1 => cache.push(next, sectors, Nanos::ZERO),
                _ => cache.push(place(around, granule, by), sectors, Nanos::ZERO),
            }
            next = cache.writes.back().map_or(next, |last| last.pba + last.sectors);
            prop_assert_eq!(cache.queued, cache.writes.iter().map(|write| write.sectors).sum::<u64>());
            for &(around, granule, by, sectors) in &probes {
                let (from, end) = (place(around, granule, by), place(around, granule, by) + sectors);
                let one_by_one = cache.writes.iter().any(|w| w.pba <= from && end <= w.pba + w.sectors);
                prop_assert_eq!(cache.holds(from, end), one_by_one);
            }
        }
        while cache.start_write().is_some() {}
        prop_assert!(cache.granules.iter().all(|count| *count == 0));
    }
}
