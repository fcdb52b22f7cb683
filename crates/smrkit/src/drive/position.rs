//! Place of the head.

use crate::geometry::Turn;

/// Place of the head for a sector; made once a request, so that estimates of waiting requests are cheap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The cylinder, from the rim inward.
    pub cylinder: u32,
    /// The surface.
    pub surface: u32,
    /// The angle at which the sector begins.
    pub angle: Turn,
}
