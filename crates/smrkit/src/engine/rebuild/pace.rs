//! A limit on how fast pieces begin.
//!
//! A piece waits until those before it would have passed at the rate; what was not used is not made up for. mdraid also
//! knows a least rate below which the host has to wait; that is left out.

use crate::units::Nanos;

/// When the next piece may begin.
pub(super) struct Pace {
    bytes_per_s: Option<u64>,
    /// Since when pieces have been due without a gap, and what has begun since.
    since: Nanos,
    bytes: u64,
}

impl Pace {
    /// At most so many bytes a second.
    pub fn new(bytes_per_s: Option<u64>) -> Pace {
        Pace { bytes_per_s, since: Nanos::ZERO, bytes: 0 }
    }

    /// Before this moment none may begin.
    pub fn due(&self) -> Nanos {
        let Some(rate) = self.bytes_per_s else { return Nanos::ZERO };
        let ns = u128::from(self.bytes) * 1_000_000_000 / u128::from(rate);
        Nanos(self.since.0.saturating_add(ns as u64))
    }

    /// A piece begins.
    pub fn begin(&mut self, now: Nanos, bytes: u64) {
        if now > self.due() {
            (self.since, self.bytes) = (now, 0);
        }
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_their_distance_and_a_pause_is_not_made_up_for() {
        let mut pace = Pace::new(Some(3));
        let due: Vec<u64> = (0..4)
            .map(|_| {
                pace.begin(pace.due(), 1);
                pace.due().0
            })
            .collect();
        assert_eq!(due, [333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333], "no rounding adds up");
        pace.begin(Nanos(5_000_000_000), 3);
        assert_eq!(pace.due(), Nanos(6_000_000_000));
        let mut pace = Pace::new(None);
        pace.begin(Nanos(7), 1 << 40);
        assert_eq!(pace.due(), Nanos::ZERO);
    }
}
