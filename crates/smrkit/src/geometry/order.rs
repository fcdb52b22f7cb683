//! The order of tracks inside a recording zone: one surface, cylinder by cylinder, or in runs over all surfaces.

use super::{Divisor, Turn};

/// Order of tracks that lie on all surfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackInterleave {
    /// Surfaces, at least 1.
    pub surfaces: u32,
    /// Tracks of a run on one surface before the next surface's turn. 1 is cylinder by cylinder; longer runs turn back with
    /// each surface (serpentine).
    pub run_tracks: u64,
    /// Cylinders on which the surfaces go backward, where runs are of 1 track.
    pub alternation: Alternation,
}

/// Cylinders on which the surfaces go backward, so that the step to the next cylinder keeps the surface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alternation {
    /// None.
    #[default]
    Never,
    /// Each second one of a recording zone.
    InZone,
    /// The odd ones of the disk.
    Throughout,
}

/// Angles of an interleaved recording zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skews {
    /// Place at which its first sector begins.
    pub offset: Turn,
    /// From a track's first sector to that of the next on another surface.
    pub head: Turn,
    /// From a track's first sector to that of the next on another cylinder.
    pub cylinder: Turn,
}

/// The tracks of a recording zone in the order of PBAs.
#[derive(Clone, Copy, Debug)]
pub(super) enum TrackOrder {
    /// On this surface.
    Surface(u32),
    /// The surfaces of a cylinder, then the next cylinder.
    Cylinders(Divisor),
    /// The surfaces of a cylinder, then the next cylinder, backward on each second one; on the first where the number is 1.
    Alternating(Divisor, u64),
    /// Runs of tracks over the surfaces.
    Runs(SurfaceRuns),
}

/// Rounds of one run on each surface; the last round's runs are as short as the zone's end makes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct SurfaceRuns {
    surfaces: Divisor,
    run: Divisor,
    last_run: Divisor,
    /// Tracks and runs before the last round, where that is short.
    whole: (u64, u64),
}

impl TrackOrder {
    /// The order of a zone of `cylinders` cylinders from `first` on.
    pub fn new(interleave: TrackInterleave, first: u64, cylinders: u64) -> TrackOrder {
        let surfaces = u64::from(interleave.surfaces);
        if interleave.run_tracks <= 1 {
            let surfaces = Divisor::new(surfaces);
            return match interleave.alternation {
                Alternation::Never => TrackOrder::Cylinders(surfaces),
                Alternation::InZone => TrackOrder::Alternating(surfaces, 0),
                Alternation::Throughout => TrackOrder::Alternating(surfaces, first % 2),
            };
        }
        let run = interleave.run_tracks.min(cylinders);
        let rounds = cylinders / run;
        TrackOrder::Runs(SurfaceRuns {
            surfaces: Divisor::new(surfaces),
            run: Divisor::new(run),
            last_run: Divisor::new(cylinders % run),
            whole: (rounds * run * surfaces, rounds * surfaces),
        })
    }

    /// Cylinders inward of the zone's rim of track `k`, and its surface; `None` on a surface of its own.
    #[inline]
    pub fn spot(&self, k: u64) -> Option<(u64, u32)> {
        match self {
            TrackOrder::Surface(_) => None,
            TrackOrder::Cylinders(surfaces) => {
                let (cylinder, head) = surfaces.divide(k);
                Some((cylinder, head as u32))
            }
            TrackOrder::Alternating(surfaces, first) => {
                let (cylinder, head) = surfaces.divide(k);
                let is_backward = (cylinder + first) % 2 == 1;
                Some((cylinder, if is_backward { surfaces.value() - 1 - head } else { head } as u32))
            }
            TrackOrder::Runs(runs) => Some(runs.spot(k)),
        }
    }

    /// Number of the first `k` steps from track to track that change the surface and keep the cylinder, or its neighbourhood.
    #[inline]
    pub fn head_steps(&self, k: u64) -> u64 {
        match self {
            TrackOrder::Surface(_) => 0,
            TrackOrder::Cylinders(surfaces) | TrackOrder::Alternating(surfaces, _) => k - surfaces.quotient(k),
            TrackOrder::Runs(runs) => runs.run_of(k).0,
        }
    }

    /// Number of surfaces.
    pub fn surfaces(&self) -> u32 {
        match self {
            TrackOrder::Surface(_) => 1,
            TrackOrder::Cylinders(surfaces)
            | TrackOrder::Alternating(surfaces, _)
            | TrackOrder::Runs(SurfaceRuns { surfaces, .. }) => surfaces.value() as u32,
        }
    }

    /// Tracks that follow each other on one surface; `None` where all do.
    pub fn run_tracks(&self) -> Option<u64> {
        match self {
            TrackOrder::Surface(_) => None,
            TrackOrder::Cylinders(_) | TrackOrder::Alternating(..) => Some(1),
            TrackOrder::Runs(runs) => Some(runs.run.value()),
        }
    }
}

impl SurfaceRuns {
    /// The run of a track, its place in the run, and how long the run is.
    fn run_of(&self, k: u64) -> (u64, u64, u64) {
        if k < self.whole.0 {
            let (run, at) = self.run.divide(k);
            return (run, at, self.run.value());
        }
        let (run, at) = self.last_run.divide(k - self.whole.0);
        (self.whole.1 + run, at, self.last_run.value())
    }

    fn spot(&self, k: u64) -> (u64, u32) {
        let (run, at, length) = self.run_of(k);
        let (round, surface) = self.surfaces.divide(run);
        let inward = if surface % 2 == 0 { at } else { length - 1 - at };
        (round * self.run.value() + inward, surface as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_track_of_every_surface_has_one_place(surfaces in 1u32..6, run_tracks in 1u64..9, cylinders in 1u64..40) {
            let order = TrackOrder::new(TrackInterleave { surfaces, run_tracks, ..Default::default() }, 0, cylinders);
            let tracks = cylinders * u64::from(surfaces);
            let mut spots: Vec<_> = (0..tracks).map(|k| order.spot(k).unwrap()).collect();
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
            let order = TrackOrder::new(TrackInterleave { surfaces, run_tracks, ..Default::default() }, 0, cylinders);
            assert_eq!((order.surfaces(), order.run_tracks()), (surfaces, Some(run_tracks.min(cylinders))));
            (0..cylinders * u64::from(surfaces)).map(|k| order.spot(k).unwrap()).collect()
        };
        // The last round has shorter runs.
        let five = [(0, 0), (1, 0), (1, 1), (0, 1), (2, 0), (3, 0), (3, 1), (2, 1), (4, 0), (4, 1)];
        assert_eq!(spots(2, 2, 5), five);
        assert_eq!(spots(3, 7, 2), [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]);
    }

    #[test]
    fn surfaces_alternate_from_cylinder_to_cylinder() {
        let heads = |alternation, first| -> Vec<(u64, u32)> {
            let order = TrackOrder::new(TrackInterleave { surfaces: 3, run_tracks: 1, alternation }, first, 3);
            (0..9).map(|k| order.spot(k).unwrap()).collect()
        };
        let forward = [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0), (2, 0), (2, 1), (2, 2)];
        let backward = [(0, 2), (0, 1), (0, 0), (1, 0), (1, 1), (1, 2), (2, 2), (2, 1), (2, 0)];
        assert_eq!(heads(Alternation::InZone, 7), forward);
        assert_eq!(heads(Alternation::Throughout, 8), forward);
        assert_eq!(heads(Alternation::Throughout, 7), backward);
    }
}
