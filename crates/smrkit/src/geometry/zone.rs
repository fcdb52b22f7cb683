//! Recording zones: the order of their tracks (on one surface, cylinder by cylinder, or in runs over all surfaces), and the angles of their
//! sectors. Zones are laid end to end from their shapes; impossible shapes are refused.

use crate::error::Error;
use crate::geometry::Turn;
use crate::geometry::divisor::Divisor;
use crate::units::{Pba, Track};

/// Sectors a track may have at most.
pub const TRACK_SECTORS_MAX: u64 = 1 << 24;
/// Recording zones a drive may have at most, counted on each surface.
pub const ZONES_MAX: usize = 32_768;
/// Sectors a drive may have at most: 562 TB, as far as the extent map counts.
pub(crate) const SECTORS_MAX: u64 = 1 << 40;

/// An edge of the platter: the direction of shingling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edge {
    /// Toward the spindle.
    Inner,
    /// Toward the rim.
    Outer,
}

/// The definition of a recording zone: tracks of one length next to each other on one surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneShape {
    /// Surface (head), from 0.
    pub surface: u32,
    /// The outermost of its cylinders; cylinders count from the rim inward.
    pub outer_cylinder: u64,
    /// Number of tracks.
    pub tracks: u64,
    /// Sectors on each track, defective ones included.
    pub track_sectors: u64,
    /// The direction of shingling.
    pub toward: Edge,
}

/// A recording zone of a geometry.
#[derive(Clone, Debug)]
pub struct RecordingZone {
    /// Its first usable sector.
    pub first_pba: Pba,
    /// Its first track in the order of PBAs.
    pub first_track: Track,
    /// Number of tracks.
    pub tracks: u64,
    /// Sectors on each track, defective ones included.
    pub track_sectors: u64,
    /// The direction of shingling, which is the direction of PBAs.
    pub toward: Edge,
    /// The cylinder of its first track: the outermost one if it shingles inward, else the innermost.
    pub first_cylinder: u64,
    /// True if the next recording zone continues in the same direction on the same surface, perhaps after guard tracks.
    pub continues: bool,
    pub(super) order: TrackOrder,
    pub(super) raw_first: u64,
    pub(super) raw_end: u64,
    /// Angle at which its first sector begins.
    pub(super) origin: Turn,
    /// The angle from a track's first sector to that of the next track on the same surface, and of one on another surface.
    pub(super) skew: Turn,
    pub(super) head_skew: Turn,
    /// The mean of these angles over the zone's tracks.
    pub mean_skew: Turn,
    /// The angle of one sector.
    pub(super) step: Turn,
    pub(super) divisor: Divisor,
}

impl RecordingZone {
    /// The cylinder of the zone's track `k`.
    #[inline]
    pub fn cylinder(&self, k: u64) -> u64 {
        self.spot(k).0
    }

    /// The cylinder and the surface (head) of the zone's track `k`.
    #[inline(always)]
    pub fn spot(&self, k: u64) -> (u64, u32) {
        match (&self.order, self.toward) {
            (TrackOrder::Surface(surface), Edge::Outer) => (self.first_cylinder - k, *surface),
            _ => {
                let (inward, surface) = self.order.spot(k);
                (self.first_cylinder + inward, surface)
            }
        }
    }

    /// The surface that it lies on; `None` if it lies on all of them.
    pub fn surface(&self) -> Option<u32> {
        match self.order {
            TrackOrder::Surface(surface) => Some(surface),
            _ => None,
        }
    }

    /// Consecutive tracks on one surface; `None` if the whole zone is on one.
    pub fn run_tracks(&self) -> Option<u64> {
        match self.order {
            TrackOrder::Surface(_) => None,
            TrackOrder::Cylinders(_) | TrackOrder::Alternating(..) => Some(1),
            TrackOrder::Runs(runs) => Some(runs.run.value),
        }
    }

    /// Sets the skews, to the next track and to one on another surface.
    pub(super) fn set_skews(&mut self, skew: Turn, head_skew: Turn) {
        let heads = u128::from(self.order.head_steps(self.tracks - 1));
        let steps = u128::from(self.tracks - 1).max(1);
        let mean = (u128::from(skew) * (steps - heads) + u128::from(head_skew) * heads) / steps;
        (self.skew, self.head_skew, self.mean_skew) = (skew, head_skew, mean as Turn);
    }

    /// The angle at which sector `sector` (defective ones counted) of the zone's track `k` begins. All angles come from here.
    ///
    /// It is the sum of the skews of the tracks before and of `sector / track_sectors`, modulo the turn. A sector ends where the next begins, and
    /// the error is below 2⁻⁴⁰ of a turn, so that differences never drift.
    #[inline]
    pub fn angle(&self, k: u64, sector: u64) -> Turn {
        let mut angle =
            self.origin.wrapping_add(k.wrapping_mul(self.skew)).wrapping_add(sector.wrapping_mul(self.step));
        // On a single surface there are no head steps.
        if !matches!(self.order, TrackOrder::Surface(_)) {
            let heads = self.order.head_steps(k);
            angle = angle.wrapping_add(heads.wrapping_mul(self.head_skew.wrapping_sub(self.skew)));
        }
        angle
    }

    /// True if a track is in the zone. It must not be before the zone's first.
    #[inline]
    pub(crate) fn holds(&self, track: Track) -> bool {
        track - self.first_track < self.tracks
    }

    /// The raw sector at which one of its tracks begins.
    #[inline]
    pub(crate) fn raw_start(&self, track: Track) -> u64 {
        self.raw_first + (track - self.first_track) * self.track_sectors
    }

    /// The angle that one sector takes.
    #[inline]
    pub fn sector_turn(&self) -> Turn {
        self.step
    }

    /// The surfaces that it lies on.
    pub fn surfaces(&self) -> std::ops::Range<u32> {
        match self.order {
            TrackOrder::Surface(surface) => surface..surface + 1,
            TrackOrder::Cylinders(surfaces)
            | TrackOrder::Alternating(surfaces, _)
            | TrackOrder::Runs(SurfaceRuns { surfaces, .. }) => 0..surfaces.value as u32,
        }
    }

    /// The outermost and the innermost of its cylinders.
    pub fn cylinders(&self) -> (u64, u64) {
        if let TrackOrder::Surface(_) = self.order {
            let (a, b) = (self.first_cylinder, self.cylinder(self.tracks - 1));
            return (a.min(b), a.max(b));
        }
        (self.first_cylinder, self.first_cylinder + self.tracks / u64::from(self.surfaces().end) - 1)
    }
}

/// Order of tracks that lie on all surfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackSequence {
    /// The surfaces of a cylinder, then those of the next.
    Cylinders,
    /// As `Cylinders`, but backward on each second cylinder of a recording zone, so that the step to the next cylinder keeps the surface.
    Alternating,
    /// As `Cylinders`, but backward on the odd cylinders of the disk.
    AlternatingThroughout,
    /// Serpentine: a run of this many tracks on a surface, then one on the next, back. Runs of 1 are cylinders.
    Runs(u64),
}

/// Angles of an interleaved recording zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skews {
    /// Angle at which the zone's first sector begins.
    pub offset: Turn,
    /// From a track's first sector to that of the next track, if this is on another surface.
    pub head: Turn,
    /// From a track's first sector to that of the next track, if this is on another cylinder.
    pub cylinder: Turn,
}

/// The tracks of a recording zone in the order of PBAs.
#[derive(Clone, Copy, Debug)]
pub(super) enum TrackOrder {
    /// On this surface.
    Surface(u32),
    /// The surfaces of a cylinder, then the next cylinder.
    Cylinders(Divisor),
    /// The surfaces of a cylinder, then the next cylinder, backward on every second one: from the first on if the number is 1, else from the
    /// second on.
    Alternating(Divisor, u64),
    /// Runs of tracks over the surfaces.
    Runs(SurfaceRuns),
}

/// Rounds of one run on each surface. The runs of the last round may be shorter, at the zone's end.
#[derive(Clone, Copy, Debug)]
pub(super) struct SurfaceRuns {
    surfaces: Divisor,
    run: Divisor,
    last_run: Divisor,
    /// Tracks, and runs, before the short last round.
    whole_tracks: u64,
    whole_runs: u64,
}

impl TrackOrder {
    /// The order of a zone of `cylinders` cylinders from `first` on.
    pub fn new(sequence: TrackSequence, surfaces: u32, first: u64, cylinders: u64) -> TrackOrder {
        let surfaces = Divisor::new(surfaces.into());
        let run = match sequence {
            TrackSequence::Cylinders | TrackSequence::Runs(..=1) => return TrackOrder::Cylinders(surfaces),
            TrackSequence::Alternating => return TrackOrder::Alternating(surfaces, 0),
            TrackSequence::AlternatingThroughout => return TrackOrder::Alternating(surfaces, first % 2),
            TrackSequence::Runs(run) => run.min(cylinders),
        };
        let rounds = cylinders / run;
        TrackOrder::Runs(SurfaceRuns {
            surfaces,
            run: Divisor::new(run),
            // 0 if all rounds are whole, and then not used.
            last_run: Divisor::new(cylinders % run),
            whole_tracks: rounds * run * surfaces.value,
            whole_runs: rounds * surfaces.value,
        })
    }

    /// The cylinder of track `k`, counted from the zone's first, and its surface.
    #[inline(always)]
    pub fn spot(&self, k: u64) -> (u64, u32) {
        match self {
            TrackOrder::Surface(surface) => (k, *surface),
            TrackOrder::Cylinders(surfaces) => {
                let (cylinder, head) = surfaces.divide(k);
                (cylinder, head as u32)
            }
            TrackOrder::Alternating(surfaces, first) => {
                let (cylinder, head) = surfaces.divide(k);
                let is_backward = (cylinder + first) % 2 == 1;
                (cylinder, if is_backward { surfaces.value - 1 - head } else { head } as u32)
            }
            TrackOrder::Runs(runs) => {
                let (run, at, length) = runs.run_of(k);
                let (round, surface) = runs.surfaces.divide(run);
                // Serpentine: runs on odd surfaces go outward.
                let inward = if surface % 2 == 0 { at } else { length - 1 - at };
                (round * runs.run.value + inward, surface as u32)
            }
        }
    }

    /// How many of the first `k` steps from track to track go to another surface of the same cylinder or, with runs, to the next run.
    #[inline]
    pub fn head_steps(&self, k: u64) -> u64 {
        match self {
            TrackOrder::Surface(_) => 0,
            TrackOrder::Cylinders(surfaces) | TrackOrder::Alternating(surfaces, _) => k - surfaces.quotient(k),
            TrackOrder::Runs(runs) => runs.run_of(k).0,
        }
    }
}

impl SurfaceRuns {
    /// Returns the run of a track, the track's index in the run, and the length of the run.
    fn run_of(&self, k: u64) -> (u64, u64, u64) {
        if k < self.whole_tracks {
            let (run, at) = self.run.divide(k);
            return (run, at, self.run.value);
        }
        let (run, at) = self.last_run.divide(k - self.whole_tracks);
        (self.whole_runs + run, at, self.last_run.value)
    }
}

/// Recording zones that lie on one surface each, in order. Errors: no shapes, sizes out of range, zones that overlap.
pub(super) fn zones_of(shapes: &[ZoneShape], skew: Turn) -> Result<Vec<RecordingZone>, Error> {
    let mut zones = end_to_end(shapes)?;
    for zone in &mut zones {
        zone.set_skews(skew, 0);
        // The skews of all tracks before it, so that a transfer into the next zone waits no longer than within one.
        zone.origin = zone.first_track.0.wrapping_mul(skew);
    }
    for i in 1..zones.len() {
        let (a, b) = (&zones[i - 1], &zones[i]);
        let is_downstream = match a.toward {
            Edge::Inner => b.first_cylinder > a.first_cylinder,
            Edge::Outer => b.first_cylinder < a.first_cylinder,
        };
        zones[i - 1].continues = a.surface() == b.surface() && a.toward == b.toward && is_downstream;
    }
    no_overlap(&zones)?;
    Ok(zones)
}

/// Recording zones that lie on all surfaces, in order, and run inward. Errors: as for [`zones_of`].
pub(super) fn interleaved_zones(
    shapes: &[(ZoneShape, Skews)],
    surfaces: u32,
    sequence: TrackSequence,
) -> Result<Vec<RecordingZone>, Error> {
    if surfaces == 0 || sequence == TrackSequence::Runs(0) {
        return Err(Error::Impossible("0 surfaces or runs of 0 tracks: give at least 1 of each".into()));
    }
    // A shape counts the tracks of one surface.
    let on_all = |(shape, _): &(ZoneShape, Skews)| ZoneShape {
        tracks: shape.tracks.saturating_mul(surfaces.into()),
        ..shape.clone()
    };
    let mut zones = end_to_end(&shapes.iter().map(on_all).collect::<Vec<_>>())?;
    for (zone, (shape, skews)) in zones.iter_mut().zip(shapes) {
        zone.order = TrackOrder::new(sequence, surfaces, shape.outer_cylinder, shape.tracks);
        zone.origin = skews.offset;
        zone.set_skews(skews.cylinder, skews.head);
    }
    no_overlap(&zones)?;
    Ok(zones)
}

/// Zones laid end to end, each on the surface of its shape, without skew.
fn end_to_end(shapes: &[ZoneShape]) -> Result<Vec<RecordingZone>, Error> {
    let impossible = |message: String| Err(Error::Impossible(message));
    if shapes.is_empty() || shapes.len() > ZONES_MAX {
        return impossible(format!("{} recording zones: give 1 to {ZONES_MAX}", shapes.len()));
    }
    let mut zones: Vec<RecordingZone> = Vec::with_capacity(shapes.len());
    // PBAs follow the order of the list, wherever the zones lie.
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
            // Rounded down: `angle` says how exact that is.
            step: (u128::from(u64::MAX) / u128::from(s.track_sectors)) as u64,
            divisor: Divisor::new(s.track_sectors),
        });
        (raw, track) = (end, track + s.tracks);
    }
    Ok(zones)
}

fn no_overlap(zones: &[RecordingZone]) -> Result<(), Error> {
    // Zones on all surfaces are compared on the first.
    let mut spans: Vec<_> = zones.iter().enumerate().map(|(i, z)| (z.surfaces().start, z.cylinders(), i)).collect();
    // Sorted by their outer cylinders, zones overlap only if two neighbours do.
    spans.sort_unstable();
    for pair in spans.windows(2) {
        let ((surface, (_, end), i), (next_surface, (start, _), j)) = (pair[0], pair[1]);
        if surface == next_surface && start <= end {
            return Err(Error::Impossible(format!(
                "recording zones {i} and {j} overlap on surface {surface} at cylinder {start}: move first_cylinder of one"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_track_of_every_surface_has_one_place(surfaces in 1u32..6, run_tracks in 1u64..9, cylinders in 1u64..40) {
            let order = TrackOrder::new(TrackSequence::Runs(run_tracks), surfaces, 0, cylinders);
            let tracks = cylinders * u64::from(surfaces);
            let mut spots: Vec<_> = (0..tracks).map(|k| order.spot(k)).collect();
            for (k, step) in spots.windows(2).enumerate() {
                let (a, b) = (step[0], step[1]);
                let is_head_step = order.head_steps(k as u64 + 1) > order.head_steps(k as u64);
                // Tracks of a run lie next to each other; a new run is on another surface.
                let is_next_run = surfaces == 1 && (k as u64 + 1).is_multiple_of(run_tracks.min(cylinders));
                prop_assert_eq!(is_head_step, if run_tracks == 1 { a.0 == b.0 } else { a.1 != b.1 || is_next_run });
                prop_assert!(is_head_step || a.0.abs_diff(b.0) == 1);
            }
            spots.sort_unstable();
            let all: Vec<_> = (0..cylinders).flat_map(|c| (0..surfaces).map(move |s| (c, s))).collect();
            prop_assert_eq!(spots, all);
        }
    }

    #[test]
    fn runs_go_inward_and_outward_in_turn() {
        let spots = |surfaces, run_tracks, cylinders| -> Vec<(u64, u32)> {
            let order = TrackOrder::new(TrackSequence::Runs(run_tracks), surfaces, 0, cylinders);
            let TrackOrder::Runs(runs) = order else { panic!("{order:?}") };
            assert_eq!((runs.surfaces.value, runs.run.value), (u64::from(surfaces), run_tracks.min(cylinders)));
            (0..cylinders * u64::from(surfaces)).map(|k| order.spot(k)).collect()
        };
        // The last round has shorter runs.
        let five = [(0, 0), (1, 0), (1, 1), (0, 1), (2, 0), (3, 0), (3, 1), (2, 1), (4, 0), (4, 1)];
        assert_eq!(spots(2, 2, 5), five);
        assert_eq!(spots(3, 7, 2), [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]);
    }

    #[test]
    fn surfaces_alternate_from_cylinder_to_cylinder() {
        let heads = |sequence, first| -> Vec<(u64, u32)> {
            let order = TrackOrder::new(sequence, 3, first, 3);
            (0..9).map(|k| order.spot(k)).collect()
        };
        let forward = [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0), (2, 0), (2, 1), (2, 2)];
        let backward = [(0, 2), (0, 1), (0, 0), (1, 0), (1, 1), (1, 2), (2, 2), (2, 1), (2, 0)];
        assert_eq!(heads(TrackSequence::Alternating, 7), forward);
        assert_eq!(heads(TrackSequence::AlternatingThroughout, 8), forward);
        assert_eq!(heads(TrackSequence::AlternatingThroughout, 7), backward);
    }
}
