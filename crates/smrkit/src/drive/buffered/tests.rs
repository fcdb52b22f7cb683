use super::*;
use crate::drive::Drive;

fn buffered(write_cache_bytes: u64, read_ahead_bytes: u64) -> (Geometry, Mechanical, Buffered) {
    let drive = Drive::load("tiny").unwrap();
    let media = drive.clock.mechanical().unwrap().clone();
    let buffer = Buffer { write_cache_bytes, read_ahead_bytes, bus_bytes_per_s: 512e6 };
    (drive.geometry, media.clone(), Buffered::new(media, buffer))
}

/// Scattered single-sector extents, the same every time.
fn scattered(g: &Geometry, count: u64) -> Vec<Pba> {
    (0..count).map(|i| Pba(i * 7919 % (g.sectors() - 8))).collect()
}

#[test]
fn writes_are_answered_at_bus_speed_until_the_cache_is_full() {
    let (g, _, mut clock) = buffered(64 * 512, 0);
    let mut now = Nanos::ZERO;
    for (i, pba) in scattered(&g, 40).into_iter().enumerate() {
        let end = clock.access(&g, now, true, pba, 8);
        // Eight extents fit beside the one that is being written.
        if i < 8 {
            assert_eq!(end - now, Nanos(30_000 + 8_000));
        }
        assert!(clock.queued + clock.writing <= 64);
        now = end;
    }
    assert!(now > Nanos::from_millis(30.0 * 4.0), "a full cache is as slow as the media: {now}");
}

#[test]
fn a_cached_run_takes_the_media_as_long_as_the_same_writes_without_cache() {
    let (g, mut plain, mut clock) = buffered(1 << 20, 0);
    let mut now = Nanos::ZERO;
    let extents = scattered(&g, 100);
    for &pba in &extents {
        now = clock.access(&g, now, true, pba, 8);
    }
    let end = clock.flush(&g, now);
    assert_eq!(clock.queued_sectors(), 0);
    let (mut alone, mut spent) = (Nanos(38_000), Nanos::ZERO);
    for &pba in &extents {
        let done = plain.access(&g, alone, true, pba, 8);
        spent += done - alone;
        alone = done;
    }
    assert_eq!(end, alone);
    assert_eq!(clock.media_time(), spent);
    assert_eq!(clock.busy_until(), end);
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
fn a_read_of_cached_sectors_comes_from_the_buffer() {
    let (g, _, mut clock) = buffered(1 << 20, 0);
    let now = clock.access(&g, Nanos::ZERO, true, Pba(4000), 8);
    let now = clock.access(&g, now, true, Pba(100), 8);
    assert_eq!(clock.access(&g, now, false, Pba(102), 4) - now, Nanos(30_000 + 4_000));
    let waits = clock.access(&g, now, false, Pba(2000), 8) - now;
    assert!(waits > Nanos::from_millis(1.0));
}

#[test]
fn read_ahead_makes_sequential_reads_stream_and_costs_scattered_ones_little() {
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
