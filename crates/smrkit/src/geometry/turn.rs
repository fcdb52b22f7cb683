//! Angles.

/// An angle or a share of a rotation: 2⁶⁴ is a whole turn, so that wrapping arithmetic is arithmetic modulo the turn.
pub type Turn = u64;

/// Turns a share of a rotation (0 to 1, exclusive) into a `Turn`; what lies outside is folded into it.
pub fn turn(share: f64) -> Turn {
    (share.rem_euclid(1.0) * 18_446_744_073_709_551_616.0) as u64
}
