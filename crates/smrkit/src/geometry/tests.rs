use proptest::prelude::*;

use super::*;

/// Random drives: zones on up to two surfaces, either direction, some defects.
fn geometries() -> impl Strategy<Value = Geometry> {
    let zone = (0u32..2, 1u64..12, 1u64..40, any::<bool>(), 0u64..4);
    (prop::collection::vec(zone, 1..6), any::<u64>(), prop::collection::vec(any::<u64>(), 0..6)).prop_map(
        |(zones, skew, defects)| {
            let mut next = [0u64; 2];
            let shapes: Vec<ZoneShape> = zones
                .into_iter()
                .map(|(surface, tracks, track_sectors, inward, gap)| {
                    let outer_cylinder = next[surface as usize];
                    next[surface as usize] += tracks + gap;
                    let toward = if inward { Edge::Inner } else { Edge::Outer };
                    ZoneShape { surface, outer_cylinder, tracks, track_sectors, toward }
                })
                .collect();
            let raw: u64 = shapes.iter().map(|z| z.tracks * z.track_sectors).sum();
            let defects: Vec<u64> = defects.into_iter().map(|d| d % raw).filter(|_| raw > 8).collect();
            Geometry::new(&shapes, skew, defects).unwrap()
        },
    )
}

/// The region that holds a sector; `None` in a guard.
pub(crate) fn region_at(regions: &Regions, pba: Pba) -> Option<u64> {
    let region = regions.with_guard_at(pba);
    let start = regions.start(region);
    (pba >= start && pba - start < regions.region_sectors()).then_some(region)
}

/// The naive way: every usable sector as (zone, track, sector of the track), in order.
fn walk(g: &Geometry, defects: &[u64]) -> Vec<(u32, Track, u32)> {
    let mut all = Vec::new();
    let mut raw = 0;
    for (i, zone) in g.zones.iter().enumerate() {
        for k in 0..zone.tracks {
            for s in 0..zone.track_sectors {
                if !defects.contains(&raw) {
                    all.push((i as u32, zone.first_track + k, s as u32));
                }
                raw += 1;
            }
        }
    }
    all
}

fn defects_of(g: &Geometry) -> Vec<u64> {
    g.slips.ranges_within(&(0..u64::MAX)).flatten().collect()
}

proptest! {
    #[test]
    fn every_sector_lies_where_counting_finds_it(g in geometries()) {
        let all = walk(&g, &defects_of(&g));
        prop_assert_eq!(g.sectors, all.len() as u64);
        for (pba, &(zone, track, sector)) in all.iter().enumerate() {
            let (pba, place) = (Pba(pba as u64), g.place(Pba(pba as u64)));
            prop_assert_eq!((place.zone, place.track, place.sector), (zone, track, sector));
            prop_assert_eq!(g.track_of(pba), track);
            prop_assert!(g.track_start(track) <= pba && pba < g.track_start(track + 1));
            prop_assert!(g.zone_of(pba).first_pba <= pba);
            for sectors in 1..=(all.len() as u64 - pba.0).min(50) {
                let last = all[(pba.0 + sectors - 1) as usize].1;
                prop_assert_eq!(g.tracks_of(pba, sectors), (track, last));
            }
        }
        for track in 0..g.tracks {
            let usable = all.iter().filter(|&&(_, t, _)| t == Track(track)).count() as u64;
            prop_assert_eq!(g.track_sectors(Track(track)), usable);
        }
        for zone in g.zones.iter() {
            let defects = |k| zone.track_sectors - g.track_sectors(zone.first_track + k);
            prop_assert_eq!(Some(g.most_defects_on_a_track(zone)), (0..zone.tracks).map(defects).max());
        }
    }

    #[test]
    fn regions_never_overlap_and_keep_their_guards(
        g in geometries(), region in 1u64..120, width in 0u64..4, by_track in any::<bool>(),
        from in any::<u64>(), len in 1u64..2000,
    ) {
        let guard = if by_track { Guard::Tracks(width) } else { Guard::Sectors(width * 7) };
        let from = Pba(from % g.sectors);
        let to = (from + len).min(Pba(g.sectors));
        let Ok(regions) = Regions::within(&g, guard, region, from, to) else { return Ok(()) };
        for i in 0..regions.count {
            let start = regions.start(i);
            prop_assert!(start >= from && start + region <= to);
            prop_assert_eq!(region_at(&regions, start), Some(i));
            prop_assert_eq!(region_at(&regions, start + (region - 1)), Some(i));
            let after = start + region;
            let next = if i + 1 < regions.count { regions.start(i + 1) } else { break };
            match guard {
                Guard::Sectors(n) => prop_assert_eq!(next - after, n),
                Guard::Tracks(w) => prop_assert!(g.track_of(next) - g.track_of(after - 1) > w),
            }
            if after < next {
                prop_assert_eq!(region_at(&regions, after), None);
                prop_assert_eq!(region_at(&regions, next - 1), None);
            }
        }
    }
}

proptest! {
    #[test]
    fn multiples_split_like_division(first in 0u64..1000, count in 0u64..500, size in 0u64..70) {
        let mut want = Vec::new();
        for at in first..first + count {
            want.push((at / size.max(1), at % size.max(1)));
        }
        let found: Vec<_> = pieces_by_divisor(first, count, Divisor::new(size))
            .flat_map(|(i, offset, n)| (offset..offset + n).map(move |o| (i, o)))
            .collect();
        prop_assert_eq!(found, want);
    }
}

#[test]
fn sector_guards_cost_what_the_formula_says() {
    let g = Geometry::uniform(600_000, 1000).unwrap();
    let regions = Regions::new(&g, Guard::Sectors(5), 50_000).unwrap();
    assert_eq!(regions.count, 600_000_005 / 50_005);
    assert_eq!(Regions::new(&g, Guard::Sectors(0), 50_000).unwrap().count, 12_000);
}

#[test]
fn a_zone_toward_the_outer_edge_counts_from_the_inside_out() {
    let zone = |outer_cylinder, toward| ZoneShape { surface: 0, outer_cylinder, tracks: 10, track_sectors: 8, toward };
    let g = Geometry::new(&[zone(0, Edge::Inner), zone(20, Edge::Outer)], 0, vec![]).unwrap();
    assert_eq!((g.place(Pba(0)).cylinder, g.place(Pba(79)).cylinder), (0, 9));
    assert_eq!((g.place(Pba(80)).cylinder, g.place(Pba(159)).cylinder), (29, 20));
    assert_eq!(g.cylinders, 30);
}

#[test]
fn overlapping_or_empty_layouts_are_refused() {
    let zone = |outer_cylinder, tracks| ZoneShape {
        surface: 0,
        outer_cylinder,
        tracks,
        track_sectors: 8,
        toward: Edge::Inner,
    };
    assert!(Geometry::new(&[], 0, vec![]).is_err());
    assert!(Geometry::new(&[zone(0, 10), zone(9, 10)], 0, vec![]).is_err());
    assert!(Geometry::uniform(0, 8).is_err());
    assert!(Geometry::uniform(1, 0).is_err());
    assert!(Geometry::uniform(u64::MAX, 8).is_err());
    assert!(Geometry::uniform(1, 4).is_ok_and(|g| Regions::new(&g, Guard::Sectors(0), 5).is_err()));
    assert!(Geometry::new(&[zone(0, 1)], 0, vec![8]).is_err());
    assert!(Geometry::new(&[zone(0, 1)], 0, (0..8).collect()).is_err());
}

#[test]
fn the_whole_track_is_one_turn_and_skew_adds_up() {
    let g = Geometry::new(
        &[ZoneShape { surface: 0, outer_cylinder: 0, tracks: 100, track_sectors: 7, toward: Edge::Inner }],
        turn(0.25),
        vec![],
    )
    .unwrap();
    let zone = &g.zones[0];
    assert!(zone.angle(0, 7).wrapping_neg() < 1 << 24);
    assert_eq!(g.place(Pba(7)).angle, 1 << 62);
    assert_eq!(g.place(Pba(7 * 4)).angle, 0);
}

#[test]
fn the_mean_skew_is_that_of_all_steps_of_a_zone() {
    let shape = |tracks| ZoneShape { surface: 0, outer_cylinder: 0, tracks, track_sectors: 8, toward: Edge::Inner };
    let plain = Geometry::new(&[shape(5), ZoneShape { outer_cylinder: 5, ..shape(1) }], 70, vec![]).unwrap();
    assert_eq!([0, 1].map(|zone| plain.zones[zone].mean_skew), [70, 70]);
    let mean = |cylinders, surfaces, run_tracks| {
        let sequence = TrackSequence::Runs(run_tracks);
        let skews = Skews { offset: 0, head: 30, cylinder: 90 };
        Geometry::interleaved(&[(shape(cylinders), skews)], surfaces, sequence, Default::default()).unwrap().zones[0]
            .mean_skew
    };
    // Head, cylinder, head; then in runs of two tracks: cylinder, head, cylinder, head, cylinder, head, cylinder.
    assert_eq!((mean(2, 2, 1), mean(4, 2, 2)), (50, (4 * 90 + 3 * 30) / 7));
    assert_eq!((mean(1, 3, 1), mean(3, 1, 1)), (30, 90));
}
