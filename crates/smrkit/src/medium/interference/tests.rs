use proptest::prelude::*;

use super::*;
use crate::geometry::{Edge, ZoneShape, turn};

fn lost(law: &Interference, g: &Geometry, pba: u64, n: u64) -> Vec<u64> {
    let mut all = Vec::new();
    law.destroyed(g, Pba(pba), n, |p, n| all.extend(p.0..p.0 + n));
    all
}

/// Random drives that suit a head `width` tracks wide, skewed, with some defects.
fn drives() -> impl Strategy<Value = (Geometry, Profile)> {
    let zone = (0u32..2, 1u64..9, 1u64..30, any::<bool>());
    let profile = (1u64..5, any::<bool>(), 0.0..0.6f64, 0.0..0.6f64);
    let zones = prop::collection::vec(zone, 1..6);
    (zones, profile, any::<u64>(), prop::collection::vec(any::<u64>(), 0..5)).prop_map(
        |(zones, (width, inward, cw, ccw), skew, defects)| {
            let mut next = [0u64; 2];
            let mut shapes: Vec<ZoneShape> = Vec::new();
            for (surface, tracks, track_sectors, same) in zones {
                let toward = if same || width == 1 { Edge::Inner } else { Edge::Outer };
                // Without a gap only where the zone before carries on.
                let joins =
                    shapes.last().is_some_and(|z| (z.surface, z.toward, toward) == (surface, Edge::Inner, Edge::Inner));
                let gap = if joins { u64::from(track_sectors % 3 == 0) } else { width - 1 };
                let outer_cylinder = next[surface as usize] + gap;
                next[surface as usize] = outer_cylinder + tracks;
                shapes.push(ZoneShape { surface, outer_cylinder, tracks, track_sectors, toward });
            }
            let raw: u64 = shapes.iter().map(|z| z.tracks * z.track_sectors).sum();
            let defects = defects.into_iter().map(|d| d % raw).filter(|_| raw > 8).collect();
            let (inner, outer) = if inward { (width, 1) } else { (1, width) };
            let profile = Profile::new(inner, outer, turn(cw), turn(ccw)).unwrap();
            (Geometry::new(&shapes, skew, defects).unwrap(), profile)
        },
    )
}

/// Definition 1 sector by sector, in floating point: which sectors of other tracks overlap the damaged arc.
fn by_definition(g: &Geometry, profile: &Profile, pba: u64, n: u64) -> Vec<u64> {
    let share = |t: u64| t as f64 / 2f64.powi(64);
    let radial = |p: u64| (g.place(Pba(p)).surface, i64::from(g.place(Pba(p)).cylinder));
    let mut all = Vec::new();
    for x in pba + n..g.sectors {
        let (target, to) = (g.place(Pba(x)), radial(x));
        let hit = (pba..pba + n).any(|w| {
            let (place, from) = (g.place(Pba(w)), radial(w));
            let inward = g.zones[place.zone as usize].toward == Edge::Inner;
            let apart = if inward { to.1 - from.1 } else { from.1 - to.1 };
            if from.0 != to.0 || apart < 1 || apart >= profile.width() as i64 {
                return false;
            }
            let arc = 1.0 / f64::from(place.track_sectors) + share(profile.cw) + share(profile.ccw);
            let low = share(target.angle.wrapping_sub(place.angle.wrapping_sub(profile.ccw)));
            // The target begins inside the arc, or the arc begins inside the target; the margin leaves out touching.
            low < arc - 1e-9 || 1.0 - low < 1.0 / f64::from(target.track_sectors) - 1e-9
        });
        if hit {
            all.push(x);
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn the_physical_form_destroys_all_that_its_definition_names((g, profile) in drives(), at in any::<u64>(), n in 1u64..80) {
        let law = Interference::Physical(profile);
        prop_assert!(law.check(&g).is_ok());
        let at = at % g.sectors;
        let n = n.min(g.sectors - at);
        let found = lost(&law, &g, at, n);
        prop_assert!(found.windows(2).all(|w| w[0] < w[1]));
        let named = by_definition(&g, &profile, at, n);
        prop_assert!(named.iter().all(|x| found.contains(x)), "{:?} of {:?}", found, named);
        // No more than a touching sector at each end of each arc beyond the definition.
        let arcs = 2 * profile.width() * profile.width();
        prop_assert!(found.len() as u64 <= named.len() as u64 + arcs, "{:?} of {:?}", found, named);
    }

    /// Layers plan a write track by track, and make it as one command.
    #[test]
    fn a_write_over_several_tracks_destroys_what_its_parts_do((g, profile) in drives(), at in any::<u64>(), n in 1u64..80) {
        let law = Interference::Physical(profile);
        let at = at % g.sectors;
        let end = at + n.min(g.sectors - at);
        let mut by_parts = Vec::new();
        let mut part = at;
        while part < end {
            let track = g.track_of(Pba(part));
            let stop = end.min(g.track_start(track).0 + g.track_sectors(track));
            by_parts.extend(lost(&law, &g, part, stop - part).into_iter().filter(|&x| x >= end));
            part = stop;
        }
        by_parts.sort_unstable();
        by_parts.dedup();
        prop_assert_eq!(lost(&law, &g, at, end - at), by_parts);
    }

    #[test]
    fn bounds_hold_all_damage_and_guards_outlast_it((g, profile) in drives(), at in any::<u64>(), n in 1u64..80, region in 1u64..60) {
        let physical = Interference::Physical(profile);
        let band = Interference::Tracks { width: profile.width(), band: Some(3) };
        let (did, dpid) = (profile.width() * g.longest_track() - 1, g.longest_track());
        let tracks = Interference::Tracks { width: profile.width(), band: None };
        let distances = Interference::Distances { did, dpid, writes: 1 };
        for law in [physical, tracks, band, Interference::Blocks { reach: did + 1 }, distances, Interference::None] {
            let at = at % g.sectors;
            let n = n.min(g.sectors - at);
            let all = lost(&law, &g, at, n);
            let (start, end) = (law.downstream_start(&g, Pba(at), n), law.downstream_end(&g, Pba(at), n));
            prop_assert!(start.0 >= at + n && end.0 >= at + n && end.0 <= g.sectors);
            prop_assert!(all.iter().all(|&x| x >= start.0 && x < end.0), "{law:?} {all:?} {start} {end}");
            let Ok(regions) = crate::geometry::Regions::new(&g, law.guard(&g), region) else { continue };
            for i in 0..regions.count {
                for x in lost(&law, &g, regions.start(i).0, region) {
                    prop_assert_eq!(crate::geometry::tests::region_at(&regions, Pba(x)), None, "{:?} region {}", law, i);
                }
            }
        }
    }
}

#[test]
fn a_write_inside_a_track_spares_the_rest_of_it() {
    let g = Geometry::uniform(10, 100).unwrap();
    let law = Interference::Tracks { width: 2, band: None };
    assert_eq!(lost(&law, &g, 110, 10), (200..300).collect::<Vec<_>>());
    assert_eq!(lost(&law, &g, 110, 100), (210..400).collect::<Vec<_>>());
    assert_eq!(lost(&law, &g, 900, 10), Vec::<u64>::new());
}

#[test]
fn damage_in_tracks_stops_at_the_band() {
    let g = Geometry::uniform(9, 10).unwrap();
    let law = Interference::Tracks { width: 3, band: Some(4) };
    assert_eq!(lost(&law, &g, 10, 1), (20..40).collect::<Vec<_>>());
    assert_eq!(lost(&law, &g, 30, 10), Vec::<u64>::new());
    assert_eq!(lost(&law, &g, 35, 10), (50..70).collect::<Vec<_>>());
}

#[test]
fn a_block_profile_of_6_destroys_5_and_a_did_of_5_too() {
    let g = Geometry::uniform(10, 100).unwrap();
    assert_eq!(lost(&Interference::Blocks { reach: 6 }, &g, 10, 2), (12..17).collect::<Vec<_>>());
    assert_eq!(lost(&Interference::Distances { did: 5, dpid: 3, writes: 1 }, &g, 10, 2), (12..17).collect::<Vec<_>>());
    assert_eq!(lost(&Interference::Blocks { reach: 6 }, &g, 998, 1), vec![999]);
}

#[test]
fn zones_that_shingle_toward_each_other_need_guard_tracks() {
    let zone = |outer_cylinder, toward| ZoneShape { surface: 0, outer_cylinder, tracks: 10, track_sectors: 8, toward };
    let law = Interference::Tracks { width: 3, band: None };
    for (gap, fits) in [(0, false), (1, false), (2, true)] {
        let g = Geometry::new(&[zone(0, Edge::Inner), zone(10 + gap, Edge::Outer)], 0, vec![]).unwrap();
        assert_eq!(law.check(&g).is_ok(), fits, "{gap} guard tracks");
    }
    let apart = Geometry::new(&[zone(10, Edge::Inner), zone(0, Edge::Outer)], 0, vec![]).unwrap();
    assert!(law.check(&apart).is_ok());
    let against_the_order = Geometry::new(&[zone(0, Edge::Outer), zone(10, Edge::Outer)], 0, vec![]).unwrap();
    assert!(law.check(&against_the_order).is_err());
}

#[test]
fn a_head_that_damages_both_sides_is_refused() {
    assert!(Profile::new(2, 2, 0, 0).is_err());
    assert!(Profile::new(0, 2, 0, 0).is_err());
    assert!(Profile::new(1, 1 << 40, 0, 0).is_err());
}

proptest! {
    #[test]
    fn damage_stays_in_bands_on_one_surface_where_tracks_lie_on_all(
        surfaces in 1u32..4,
        run_tracks in 1u64..9,
        rounds in 1u64..4,
        track_sectors in 1u64..9,
        width in 1u64..4,
        band in 1u64..9,
        (at, n) in (any::<u64>(), 1u64..40),
    ) {
        let shape = ZoneShape { surface: 0, outer_cylinder: 0, tracks: run_tracks * rounds, track_sectors, toward: Edge::Inner };
        let sequence = crate::geometry::TrackSequence::Runs(run_tracks);
        let g = Geometry::interleaved(&[(shape, Default::default())], surfaces, sequence, Default::default()).unwrap();
        let law = Interference::Tracks { width, band: Some(band) };
        prop_assert_eq!(law.check(&g).is_ok(), width == 1 || run_tracks % band == 0);
        prop_assert_eq!(Interference::Tracks { width, band: None }.check(&g).is_ok(), width == 1);
        if run_tracks % band != 0 {
            return Ok(());
        }
        let at = at % g.sectors;
        let n = n.min(g.sectors - at);
        let last = g.place(Pba(at + n - 1));
        for lost in lost(&law, &g, at, n) {
            let place = g.place(Pba(lost));
            // Next to the last track written, on its surface, or on that track itself.
            let near = u64::from(place.cylinder.abs_diff(last.cylinder)) < width;
            prop_assert!(place.surface == last.surface && near && place.track.0 / band == last.track.0 / band);
        }
    }
}

#[test]
fn only_distances_bound_how_often_a_sector_may_be_written() {
    let distances = Interference::Distances { did: 8, dpid: 5, writes: 3 };
    assert_eq!((distances.upstream(), distances.writes_survived()), (5, 3));
    for law in [Interference::None, Interference::Blocks { reach: 4 }, Interference::Tracks { width: 2, band: None }] {
        assert_eq!((law.upstream(), law.writes_survived()), (0, u32::MAX), "{law:?}");
    }
}

#[test]
fn what_no_head_can_do_is_refused() {
    let g = Geometry::uniform(9, 10).unwrap();
    let blocks = |reach| Interference::Blocks { reach };
    let tracks = |width, band| Interference::Tracks { width, band };
    let distances = |did, dpid, writes| Interference::Distances { did, dpid, writes };
    for law in [
        Interference::None,
        blocks(1),
        blocks(REACH_MAX),
        tracks(1, None),
        tracks(2, Some(1)),
        tracks(REACH_MAX, Some(3)),
        tracks(2, Some(REACH_MAX)),
        distances(0, 0, 1),
        distances(REACH_MAX, REACH_MAX, u32::MAX),
    ] {
        assert!(law.check(&g).is_ok(), "{law:?}");
    }
    for (law, remedy) in [
        (blocks(0), "blocks = 0"),
        (blocks(REACH_MAX + 1), "or less"),
        (tracks(0, None), "tracks = 0"),
        (tracks(2, Some(0)), "a band of 0 tracks"),
        (tracks(REACH_MAX + 1, None), "or less"),
        (tracks(2, Some(REACH_MAX + 1)), "or less"),
        (distances(1, 1, 0), "writes = 0"),
        (distances(REACH_MAX + 1, 0, 1), "or less"),
        (distances(0, REACH_MAX + 1, 1), "or less"),
    ] {
        let error = law.check(&g).unwrap_err().to_string();
        assert!(error.contains(remedy), "{law:?}: {error}");
    }
}

#[test]
fn zones_next_to_each_other_are_reached_in_the_order_of_pbas() {
    let zone =
        |surface, outer_cylinder, toward| ZoneShape { surface, outer_cylinder, tracks: 10, track_sectors: 8, toward };
    let profile = |inner, outer| Interference::Physical(Profile::new(inner, outer, 0, 0).unwrap());
    for (shapes, inward, outward) in [
        (vec![zone(0, 0, Edge::Inner), zone(0, 10, Edge::Inner)], true, false),
        (vec![zone(0, 10, Edge::Outer), zone(0, 0, Edge::Outer)], false, true),
        // The other surface comes between them.
        (vec![zone(0, 0, Edge::Inner), zone(1, 0, Edge::Inner), zone(0, 10, Edge::Inner)], false, false),
        (vec![zone(0, 0, Edge::Inner), zone(1, 0, Edge::Inner), zone(0, 12, Edge::Inner)], true, true),
        (vec![zone(0, 0, Edge::Inner), zone(0, 10, Edge::Inner), zone(1, 0, Edge::Inner)], true, false),
        (vec![zone(0, 10, Edge::Outer), zone(1, 0, Edge::Outer), zone(0, 0, Edge::Outer)], false, false),
    ] {
        let g = Geometry::new(&shapes, 0, vec![]).unwrap();
        let toward = shapes[0].toward;
        let own = if toward == Edge::Inner { profile(3, 1) } else { profile(1, 3) };
        let fits = if toward == Edge::Inner { inward } else { outward };
        assert_eq!(own.check(&g).is_ok(), fits, "{shapes:?}");
        assert_eq!(Interference::Tracks { width: 3, band: None }.check(&g).is_ok(), fits, "{shapes:?}");
        assert!(profile(1, 1).check(&g).is_ok());
    }
}

#[test]
fn laws_are_written_with_their_units() {
    let tracks = |band| Interference::Tracks { width: 2, band };
    for (law, text) in [
        (Interference::None, "none"),
        (Interference::Blocks { reach: 6 }, "I_b 6 sectors"),
        (tracks(None), "W 2 tracks"),
        (tracks(Some(20)), "W 2 tracks, bands of 20 tracks"),
        (Interference::Distances { did: 5, dpid: 3, writes: 2 }, "DID 5 sectors, DPID 3 sectors, U 2"),
        (
            Interference::Physical(Profile::new(3, 1, turn(0.25), turn(0.5)).unwrap()),
            "s_id 3 tracks, s_od 1 tracks, cw 90°, ccw 180°",
        ),
    ] {
        assert_eq!(law.to_string(), text);
    }
}
