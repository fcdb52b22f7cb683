//! Recording zones that lie on all surfaces: skews in sectors, what their fronts leave empty, spares and slips by rule.

use std::ops::Range;

use super::file::{DriveFile, Lengths, OrderName, Slip, ZoneTable};
use crate::error::Error;
use crate::geometry::{Alternation, Geometry, Skews, Slips, TrackInterleave, Turn, ZoneShape, turn};

/// Stretches with spares that a drive may have at most.
const SPARE_STRETCHES_MAX: u64 = 1 << 22;

/// True if the tracks of a recording zone lie on all surfaces in turn.
pub(super) fn is_interleaved(file: &DriveFile) -> bool {
    file.geometry.order.as_ref().is_some_and(|order| order.value != OrderName::Surfaces)
}

/// The geometry of a drive file whose zones lie on all surfaces.
pub(super) fn interleaved(file: &DriveFile, surfaces: u32, skew: Turn) -> Result<Geometry, Error> {
    let order = file.geometry.order.as_ref().map(|order| order.value);
    let alternation = match order {
        Some(OrderName::Alternating) => Alternation::InZone,
        Some(OrderName::AlternatingThroughout) => Alternation::Throughout,
        _ => Alternation::Never,
    };
    let run_tracks = match (order, &file.geometry.run_tracks) {
        (Some(OrderName::Serpentine), Some(run)) if run.value > 0 => run.value,
        (Some(OrderName::Serpentine), _) => {
            return Err(Error::Impossible("order = \"serpentine\" needs run_tracks: give at least 1".into()));
        }
        _ => 1,
    };
    let zones = &file.geometry.zones.value;
    let mut shapes = Vec::new();
    let (mut slips, mut raw) = (file.geometry.slips.as_ref().map_or(Vec::new(), |list| ranges(&list.value)), 0u64);
    for (i, (zone, outer_cylinder)) in zones.iter().zip(outer_cylinders(zones)).enumerate() {
        let track_sectors = one_length(zone, i)?;
        let toward = zone.toward.unwrap_or(crate::geometry::Edge::Inner);
        shapes.push((
            ZoneShape { surface: 0, outer_cylinder, tracks: zone.tracks, track_sectors, toward },
            skews(zone, i, track_sectors, skew)?,
        ));
        let sectors = zone.tracks.saturating_mul(u64::from(surfaces)).saturating_mul(track_sectors);
        let own = zone_slips(zone, track_sectors, sectors)
            .map_err(|problem| Error::Impossible(format!("recording zone {i}: {problem}")))?;
        slips.extend(own.into_iter().map(|range| raw.saturating_add(range.start)..raw.saturating_add(range.end)));
        raw = raw.saturating_add(sectors);
    }
    Geometry::interleaved(&shapes, TrackInterleave { surfaces, run_tracks, alternation }, Slips::from(slips))
}

fn ranges(sectors: &[u64]) -> Vec<Range<u64>> {
    sectors.iter().map(|&raw| raw..raw.saturating_add(1)).collect()
}

fn one_length(zone: &ZoneTable, i: usize) -> Result<u64, Error> {
    match &zone.track_sectors {
        Lengths::All(sectors) => Ok(*sectors),
        Lengths::Each(_) => Err(Error::Impossible(format!(
            "recording zone {i} lists track lengths of each surface, and its tracks lie on all of them in turn: give one \
             number"
        ))),
    }
}

/// The angles of a zone; without skews of its own, those of the drive.
fn skews(zone: &ZoneTable, i: usize, track_sectors: u64, skew: Turn) -> Result<Skews, Error> {
    let angle = |key: &str, sectors: Option<f64>, default: Turn| match sectors {
        None => Ok(default),
        Some(sectors) if (0.0..1e9).contains(&sectors) => Ok(turn(sectors / track_sectors.max(1) as f64)),
        Some(sectors) => Err(Error::Impossible(format!("recording zone {i}: {key} = {sectors}: give sectors from 0"))),
    };
    Ok(Skews {
        offset: angle("offset", zone.offset, 0)?,
        head: angle("head_skew", zone.head_skew, skew)?,
        cylinder: angle("cylinder_skew", zone.cylinder_skew, skew)?,
    })
}

/// The raw sectors of a zone, counted from its first of `sectors`, that hold nothing.
pub(super) fn zone_slips(zone: &ZoneTable, track_sectors: u64, sectors: u64) -> Result<Vec<Range<u64>>, String> {
    let listed = |slip: &Slip| match *slip {
        Slip::One(first) => first..first.saturating_add(1),
        Slip::Some(first, count) => first..first.saturating_add(count),
    };
    let mut slips: Vec<Range<u64>> = zone.slips.iter().map(listed).filter(|slip| slip.end <= sectors).collect();
    slips.sort_unstable_by_key(|slip| slip.start);
    let mut spares = Vec::new();
    if let Some(each) = zone.spare_sectors {
        let stretch = zone.spare_tracks.unwrap_or(1).saturating_mul(track_sectors).max(1);
        if sectors / stretch > SPARE_STRETCHES_MAX {
            return Err(format!("{} stretches with spares: give a larger spare_tracks", sectors / stretch));
        }
        let mut rest = slips.as_slice();
        for end in (1..=sectors / stretch).map(|n| n * stretch) {
            let (here, after) = rest.split_at(rest.partition_point(|slip| slip.start < end));
            spares.push(spares_before(end, each.min(stretch), here)..end);
            rest = after;
        }
    }
    slips.push(0..zone.front.min(sectors));
    slips.append(&mut spares);
    Ok(slips)
}

/// Place of the spares that `slips` leave of `each`, at the end of a stretch; slips among the spares use up none.
fn spares_before(end: u64, each: u64, slips: &[Range<u64>]) -> u64 {
    let length = |slips: &[Range<u64>]| slips.iter().map(|slip| slip.end - slip.start).sum::<u64>();
    let left = each.saturating_sub(length(slips));
    let mut spares = left;
    loop {
        let among = length(&slips[slips.partition_point(|slip| slip.start < end - spares)..]);
        if left + among == spares {
            return end - spares;
        }
        spares = left + among;
    }
}

/// Cylinder of each recording zone's outermost track.
pub(super) fn outer_cylinders(zones: &[ZoneTable]) -> Vec<u64> {
    let mut next = 0u64;
    let place = |zone: &ZoneTable| {
        let start = zone.first_cylinder.unwrap_or(next);
        next = start.saturating_add(zone.tracks).saturating_add(zone.guard_tracks);
        start
    };
    zones.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_among_the_spares_use_up_none() {
        let spares = |each, slips: &[u64]| 20 - spares_before(20, each, &ranges(slips));
        assert_eq!([spares(0, &[]), spares(3, &[]), spares(20, &[])], [0, 3, 20]);
        assert_eq!([spares(3, &[5]), spares(3, &[5, 6, 7]), spares(3, &[5, 6, 7, 8])], [2, 0, 0]);
        // The last of the slips that are left lies just before the spares, is the first of them, or is their last.
        assert_eq!([spares(3, &[17]), spares(3, &[18]), spares(3, &[19])], [2, 3, 3]);
        assert_eq!(spares(5, &[5, 17, 18]), 4, "among the spares once there are more of them");
        assert_eq!(spares(20, &[0, 19]), 19);
    }
}
