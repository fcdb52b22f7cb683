use proptest::prelude::*;

use super::*;
use crate::geometry::{Edge, ZoneShape};

fn mechanics(overhead_ms: f64) -> Mechanics {
    Mechanics {
        rpm: 5980.0,
        seek: SeekPoints::Shares(vec![(0.0, 1.2), (0.01, 2.84), (1.0 / 3.0, 12.0), (1.0, 22.0)]),
        switch_ms: 1.0,
        write_settle_ms: 0.0,
        overhead_ms,
    }
}

/// Tracks of 1.8 MB and of `second` sectors, skewed so that switches hide.
fn drive(overhead_ms: f64, second: u64) -> (Geometry, Mechanical) {
    let m = mechanics(overhead_ms);
    let zone = |outer_cylinder, track_sectors| ZoneShape {
        surface: 0,
        outer_cylinder,
        tracks: 1000,
        track_sectors,
        toward: Edge::Inner,
    };
    let skew = m.skew(None).unwrap();
    let g = Geometry::new(&[zone(0, 3516), zone(1000, second)], skew, vec![]).unwrap();
    let clock = Mechanical::new(&g, &m).unwrap();
    (g, clock)
}

#[test]
fn the_rotation_is_10_03344_ms() {
    assert_eq!(mechanics(0.0).rotation_ns().unwrap(), 10_033_445);
}

#[test]
fn contiguous_reads_without_overhead_lose_no_rotation() {
    // Sizes that divide tracks and that do not, sectors of whole nanoseconds and of broken ones.
    for (size, second) in [(8, 3000), (1, 3516), (7, 2861), (64, 2003), (3516, 3516), (13, 10_033)] {
        let (g, mut clock) = drive(0.0, second);
        let mut now = Nanos::ZERO;
        let reads = 100_000.min(g.sectors / size);
        for i in 0..reads {
            now = clock.access(&g, now, false, Pba(i * size), size);
        }
        let last = g.place(Pba(reads * size - 1));
        let mut pure = 0.0;
        for zone in &g.zones[..=last.zone as usize] {
            let sectors = Geometry::raw_of_zone(zone).end.min(reads * size) - Geometry::raw_of_zone(zone).start;
            pure += sectors as f64 / zone.track_sectors as f64 * 10_033_445.0;
        }
        pure += last.track.0 as f64 * 1_200_000.0;
        let over = now.0 as f64 - pure;
        assert!(over.abs() < 1000.0, "{size}: {over} ns over {pure}");
    }
}

#[test]
fn one_long_read_takes_as_long_as_its_pieces() {
    for (second, at) in [(3000, 0), (2861, 17), (3516, 3_515_000)] {
        let (g, mut whole) = drive(0.0, second);
        let mut pieces = whole.clone();
        let sectors = 100_000;
        let end = whole.access(&g, Nanos(12_345), false, Pba(at), sectors);
        let mut now = Nanos(12_345);
        for i in 0..sectors / 100 {
            now = pieces.access(&g, now, false, Pba(at + i * 100), 100);
        }
        assert!(end.0.abs_diff(now.0) < 100, "{end} {now}");
        assert_eq!(whole.cylinder, pieces.cylinder);
    }
}

#[test]
fn a_write_that_follows_its_predecessor_just_misses() {
    let (g, mut clock) = drive(0.03, 3000);
    let mut now = clock.access(&g, Nanos::ZERO, true, Pba(0), 8);
    // 8 KB takes one rotation more than its transfer: 10.08 ms (Vguard 2017, table 2).
    for i in 0..100 {
        let end = clock.access(&g, now, true, Pba(8 + i * 16), 16);
        assert_eq!(format!("{:.2}", (end - now).0 as f64 / 1e6), "10.08");
        now = end;
    }
    // A 4 KB write that starts 4 KB after the last one's end misses as well.
    let end = clock.access(&g, now, true, Pba(8 + 100 * 16 + 8), 8);
    assert_eq!(format!("{:.2}", (end - now).0 as f64 / 1e6), "10.08");
}

#[test]
fn a_skew_too_small_loses_a_rotation_at_each_track() {
    let m = mechanics(0.0);
    let time = |skew_ms: f64| {
        let skew = m.skew(Some(skew_ms)).unwrap();
        let zone = ZoneShape { surface: 0, outer_cylinder: 0, tracks: 100, track_sectors: 1000, toward: Edge::Inner };
        let g = Geometry::new(&[zone], skew, vec![]).unwrap();
        Mechanical::new(&g, &m).unwrap().access(&g, Nanos::ZERO, false, Pba(0), 100_000).0 as f64 / 10_033_445.0
    };
    assert!((time(1.0) - (100.0 + 99.0 * 1.0 / 10.033445)).abs() < 1e-3, "{}", time(1.0));
    assert!((time(0.9) - (199.0 + 99.0 * 0.9 / 10.033445)).abs() < 1e-3, "{}", time(0.9));
}

#[test]
fn a_write_settles_longer_after_a_seek_only() {
    let m = Mechanics { write_settle_ms: 0.5, ..mechanics(0.0) };
    let g = Geometry::uniform(1000, 1000).unwrap();
    let fresh = Mechanical::new(&g, &m).unwrap();
    let end = |write, pba| fresh.clone().access(&g, Nanos::ZERO, write, Pba(pba), 1);
    assert_eq!(end(true, 500), end(false, 500));
    let angle = |pba| (end(true, pba) - end(false, pba)).0;
    // Angles are the same on every track here: either the sector is missed by the longer settling, or it is not.
    let costs: std::collections::BTreeSet<u64> = (500_000..501_000).map(angle).collect();
    assert!(costs.iter().all(|&ns| ns == 0 || ns.abs_diff(10_033_445) <= 1), "{costs:?}");
    assert_eq!((500_000..501_000).filter(|&pba| angle(pba) > 0).count(), 50);
}

#[test]
fn a_defect_costs_its_own_passing_only() {
    let m = mechanics(0.0);
    let zone = ZoneShape { surface: 0, outer_cylinder: 0, tracks: 10, track_sectors: 1000, toward: Edge::Inner };
    let time = |defects: Vec<u64>| {
        let g = Geometry::new(std::slice::from_ref(&zone), 0, defects).unwrap();
        Mechanical::new(&g, &m).unwrap().access(&g, Nanos::ZERO, false, Pba(0), 100).0
    };
    assert!((time(vec![50]) - time(vec![])).abs_diff(10_033) <= 1);
}

#[test]
fn senseless_mechanics_are_refused() {
    let g = Geometry::uniform(10, 10).unwrap();
    type Spoil = fn(&mut Mechanics);
    let spoils: [Spoil; 5] = [
        |m| m.rpm = 0.0,
        |m| m.rpm = f64::NAN,
        |m| m.switch_ms = -1.0,
        |m| m.overhead_ms = f64::INFINITY,
        |m| m.seek = SeekPoints::Shares(vec![]),
    ];
    for spoil in spoils {
        let mut m = mechanics(0.0);
        spoil(&mut m);
        assert!(Mechanical::new(&g, &m).is_err());
    }
}

proptest! {
    #[test]
    fn an_access_ends_when_estimate_and_transfer_say(
        from in 0u64..6_516_000, to in 0u64..6_516_000, n in 1u64..3000, now in 0u64..1 << 50,
    ) {
        let (g, mut clock) = drive(0.03, 3000);
        let now = clock.access(&g, Nanos(now), false, Pba(from), 1);
        let place = g.place(Pba(to));
        let n = n.min(u64::from(place.track_sectors - place.sector));
        let estimate = {
            let at = Position { cylinder: place.cylinder, surface: place.surface, angle: place.angle };
            clock.estimate_at(&at, now)
        };
        let end = clock.access(&g, now, false, Pba(to), n);
        let transfer = n as f64 / f64::from(place.track_sectors) * 10_033_445.0;
        prop_assert!(((end - now - estimate).0 as f64 - transfer).abs() < 2.0);
        prop_assert!(estimate.0 < 30_000 + 22_000_000 + 10_033_445 + 3);
    }

    /// The angle kept by reciprocals against plain 128-bit arithmetic.
    #[test]
    fn waiting_agrees_with_plain_division(moment in 0u64..1 << 60, target: u64) {
        let (_, clock) = drive(0.0, 3000);
        let r = 10_033_445u128;
        let angle = (u128::from(moment) % r) << 64;
        let plain = ((u128::from(target) * r + (r << 64) - angle) % (r << 64)) >> 64;
        let wait = u128::from(clock.wait(moment, target));
        let in_time = plain + 2 > r && wait == 0;
        prop_assert!(in_time || wait.abs_diff(plain) <= 1, "{wait} for {plain}");
        // Late by no more than rounding is in time.
        for late in 0..=1 {
            let now = moment - moment % 10_033_445 + late;
            prop_assert_eq!(clock.wait(now, 0), 0);
        }
    }
}

#[test]
fn a_whole_track_takes_a_rotation_wherever_the_head_arrives() {
    let (g, mut clock) = drive(0.0, 3516);
    for start in [0, 1_234_567, 7_000_000] {
        clock.access(&g, Nanos(start), false, Pba(5 * 3516), 1);
        let time = clock.in_any_order(&g, Nanos(start), Pba(5 * 3516), 3516).unwrap();
        assert_eq!(time, clock.rotation());
        // What is read in order at once takes no longer than that.
        assert!(clock.in_any_order(&g, Nanos(start), Pba(5 * 3516), 8).unwrap() <= time);
    }
    assert_eq!(clock.in_any_order(&g, Nanos(0), Pba(3516), 3517), None);
}
