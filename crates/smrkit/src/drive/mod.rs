//! When things happen: drives, their clocks, and the files that describe them.
//!
//! A clock turns accesses into time and knows no data; the model and its sources are in `docs/model.md`.

mod constant;

use crate::geometry::{Geometry, Turn};
use crate::units::{Nanos, Pba};

pub use constant::Constant;

/// Where a head must be for a sector; made once a request, so that estimates of waiting requests are cheap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The cylinder, from the rim inward.
    pub cylinder: u32,
    /// The surface.
    pub surface: u32,
    /// The angle at which the sector begins.
    pub angle: Turn,
}

/// What an access costs in time.
#[derive(Clone, Debug)]
pub enum DriveClock {
    /// A constant per command and a constant per sector.
    Constant(Constant),
}

impl DriveClock {
    /// Serves an access that is issued at `now`, moves the head, and returns when it ends.
    #[inline]
    pub fn access(&mut self, g: &Geometry, now: Nanos, write: bool, pba: Pba, sectors: u64) -> Nanos {
        let _ = (g, write, pba);
        match self {
            DriveClock::Constant(clock) => now + clock.cost(sectors),
        }
    }

    /// How long the head would take from `now` to a sector: seek and rotational latency.
    #[inline]
    pub fn estimate(&self, g: &Geometry, now: Nanos, pba: Pba) -> Nanos {
        self.estimate_at(&self.position(g, pba), now)
    }

    /// `estimate` for a position known beforehand.
    #[inline]
    pub fn estimate_at(&self, position: &Position, now: Nanos) -> Nanos {
        let _ = (position, now);
        match self {
            DriveClock::Constant(_) => Nanos::ZERO,
        }
    }

    /// Where the head must be for a sector.
    #[inline]
    pub fn position(&self, g: &Geometry, pba: Pba) -> Position {
        let place = g.place(pba);
        Position { cylinder: place.cylinder, surface: place.surface, angle: place.angle }
    }

    /// Makes everything written so far durable; returns when that is done.
    pub fn flush(&mut self, g: &Geometry, now: Nanos) -> Nanos {
        let _ = g;
        now
    }
}

/// STUB
#[derive(Clone)]
pub struct Drive {
    /// n
    pub name: String,
    /// g
    pub geometry: Geometry,
    /// i
    pub interference: crate::medium::interference::Interference,
    /// c
    pub clock: DriveClock,
}

impl Drive {
    /// STUB
    pub fn for_tests(geometry: Geometry, interference: crate::medium::interference::Interference) -> Drive {
        Drive {
            name: "test".into(),
            geometry,
            interference,
            clock: DriveClock::Constant(Constant::new(1.0, 7.0).unwrap()),
        }
    }
}
