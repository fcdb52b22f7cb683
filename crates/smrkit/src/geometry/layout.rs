//! Laying recording zones end to end, and refusing what no drive could have.

use super::order::{Skews, TrackInterleave, TrackOrder};
use super::{Divisor, Edge, RecordingZone, SECTORS_MAX, TRACK_SECTORS_MAX, Turn, ZONES_MAX, ZoneShape};
use crate::error::Error;
use crate::units::{Pba, Track};

/// The recording zones of shapes on a surface each, in order. Errors: none, sizes out of range, zones that overlap.
pub(super) fn zones_of(shapes: &[ZoneShape], skew: Turn) -> Result<Vec<RecordingZone>, Error> {
    let mut zones = end_to_end(shapes)?;
    for zone in &mut zones {
        zone.set_skews(skew, 0);
        zone.origin = zone.first_track.0.wrapping_mul(skew);
    }
    for i in 1..zones.len() {
        zones[i - 1].continues = continues(&zones[i - 1], &zones[i]);
    }
    no_overlap(&zones)?;
    Ok(zones)
}

/// The recording zones of shapes on all surfaces, in order. Errors: the same, and zones that shingle outward.
pub(super) fn interleaved_zones(
    shapes: &[(ZoneShape, Skews)],
    interleave: TrackInterleave,
) -> Result<Vec<RecordingZone>, Error> {
    if interleave.surfaces == 0 || interleave.run_tracks == 0 {
        return Err(Error::Impossible("0 surfaces or runs of 0 tracks: give at least 1 of each".into()));
    }
    if let Some(i) = shapes.iter().position(|(shape, _)| shape.toward == Edge::Outer) {
        return Err(Error::Impossible(format!(
            "recording zone {i} runs toward the outer edge, and zones on all surfaces run inward: leave out toward"
        )));
    }
    let surfaces = u64::from(interleave.surfaces);
    let on_all =
        |(shape, _): &(ZoneShape, Skews)| ZoneShape { tracks: shape.tracks.saturating_mul(surfaces), ..shape.clone() };
    let mut zones = end_to_end(&shapes.iter().map(on_all).collect::<Vec<_>>())?;
    for (zone, (shape, skews)) in zones.iter_mut().zip(shapes) {
        zone.order = TrackOrder::new(interleave, shape.outer_cylinder, shape.tracks);
        zone.origin = skews.offset;
        zone.set_skews(skews.cylinder, skews.head);
    }
    no_overlap(&zones)?;
    Ok(zones)
}

/// Zones end to end, each on the surface of its shape and without skew.
fn end_to_end(shapes: &[ZoneShape]) -> Result<Vec<RecordingZone>, Error> {
    let impossible = |message: String| Err(Error::Impossible(message));
    if shapes.is_empty() || shapes.len() > ZONES_MAX {
        return impossible(format!("{} recording zones: give 1 to {ZONES_MAX}", shapes.len()));
    }
    let mut zones: Vec<RecordingZone> = Vec::with_capacity(shapes.len());
    let (mut raw, mut track) = (0u64, 0u64);
    for (i, s) in shapes.iter().enumerate() {
        if s.track_sectors == 0 || s.track_sectors > TRACK_SECTORS_MAX {
            return impossible(format!(
                "recording zone {i} has {} sectors a track: give 1 to {TRACK_SECTORS_MAX}",
                s.track_sectors
            ));
        }
        let sectors = s.tracks.checked_mul(s.track_sectors).filter(|&n| n > 0 && n <= SECTORS_MAX);
        let Some(end) = sectors.map(|n| raw + n).filter(|&n| n <= SECTORS_MAX) else {
            let remedy = match s.tracks {
                0 => "give at least 1 track".into(),
                _ => format!("a drive has at most {SECTORS_MAX} sectors in all: give fewer"),
            };
            return impossible(format!(
                "recording zone {i} has {} tracks of {} sectors: {remedy}",
                s.tracks, s.track_sectors
            ));
        };
        if s.outer_cylinder + s.tracks > u64::from(u32::MAX) {
            return impossible(format!("recording zone {i} ends beyond cylinder 2^32: give fewer tracks a surface"));
        }
        zones.push(RecordingZone {
            first_pba: Pba(raw),
            first_track: Track(track),
            tracks: s.tracks,
            track_sectors: s.track_sectors,
            toward: s.toward,
            order: TrackOrder::Surface(s.surface),
            origin: 0,
            skew: 0,
            head_skew: 0,
            mean_skew: 0,
            first_cylinder: s.outer_cylinder + if s.toward == Edge::Outer { s.tracks - 1 } else { 0 },
            continues: false,
            raw_first: raw,
            raw_end: end,
            step: (u128::from(u64::MAX) / u128::from(s.track_sectors)) as u64,
            divisor: Divisor::new(s.track_sectors),
        });
        (raw, track) = (end, track + s.tracks);
    }
    Ok(zones)
}

fn continues(a: &RecordingZone, b: &RecordingZone) -> bool {
    let downstream = match a.toward {
        Edge::Inner => b.first_cylinder > a.first_cylinder,
        Edge::Outer => b.first_cylinder < a.first_cylinder,
    };
    a.surface() == b.surface() && a.toward == b.toward && downstream
}

fn no_overlap(zones: &[RecordingZone]) -> Result<(), Error> {
    // Zones on all surfaces overlap where they would on the first.
    let mut spans: Vec<_> = zones.iter().enumerate().map(|(i, z)| (z.surfaces().start, z.cylinders(), i)).collect();
    spans.sort_unstable();
    for pair in spans.windows(2) {
        let ((s, (_, end), i), (t, (start, _), j)) = (pair[0], pair[1]);
        if s == t && start <= end {
            return Err(Error::Impossible(format!(
                "recording zones {i} and {j} overlap on surface {s} at cylinder {start}: move first_cylinder of one"
            )));
        }
    }
    Ok(())
}
