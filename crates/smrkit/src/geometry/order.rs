//! The order of tracks inside a recording zone: one surface, cylinder by cylinder, or in runs over all surfaces.

use super::{Divisor, Turn};

/// Order of tracks that lie on all surfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackInterleave {
    /// Surfaces, at least 1.
    pub surfaces: u32,
    /// Tracks of a run on one surface before the next surface's turn. 1 is cylinder by cylinder; longer runs turn back with
    /// each surface (serpentine).
    pub run_tracks: u64,
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
    /// The order of a zone of `cylinders` cylinders.
    pub fn new(interleave: TrackInterleave, cylinders: u64) -> TrackOrder {
        let surfaces = u64::from(interleave.surfaces);
        if interleave.run_tracks <= 1 {
            return TrackOrder::Cylinders(Divisor::new(surfaces));
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
            TrackOrder::Runs(runs) => Some(runs.spot(k)),
        }
    }

    /// Number of the first `k` steps from track to track that change the surface and keep the cylinder, or its neighbourhood.
    #[inline]
    pub fn head_steps(&self, k: u64) -> u64 {
        match self {
            TrackOrder::Surface(_) => 0,
            TrackOrder::Cylinders(surfaces) => k - surfaces.quotient(k),
            TrackOrder::Runs(runs) => runs.run_of(k).0,
        }
    }

    /// Number of surfaces.
    pub fn surfaces(&self) -> u32 {
        match self {
            TrackOrder::Surface(_) => 1,
            TrackOrder::Cylinders(surfaces) | TrackOrder::Runs(SurfaceRuns { surfaces, .. }) => surfaces.value() as u32,
        }
    }

    /// Tracks that follow each other on one surface; `None` where all do.
    pub fn run_tracks(&self) -> Option<u64> {
        match self {
            TrackOrder::Surface(_) => None,
            TrackOrder::Cylinders(_) => Some(1),
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
            let order = TrackOrder::new(TrackInterleave { surfaces, run_tracks }, cylinders);
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
}
