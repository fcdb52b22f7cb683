//! A limit on how many pieces are under way at once, and on how fast they begin.
//!
//! A piece waits until those before it would have passed at the rate; what was not used is not made up for. mdraid also
//! knows a least rate below which the host has to wait; that is left out.

use crate::units::Nanos;

/// When the next piece may begin.
pub(super) struct Pace {
    window: u32,
    outstanding: u32,
    bytes_per_s: Option<u64>,
    /// Since when pieces have been due without a gap, and what has begun since.
    since: Nanos,
    bytes: u64,
    /// When the last piece began or was done.
    now: Nanos,
}

impl Pace {
    /// At most `window` pieces at once and this many bytes a second.
    pub fn new(window: u32, bytes_per_s: Option<u64>) -> Pace {
        Pace { window, outstanding: 0, bytes_per_s, since: Nanos::ZERO, bytes: 0, now: Nanos::ZERO }
    }

    /// When the next piece begins; [`Nanos::MAX`] while the window is full.
    #[inline]
    pub fn next(&self) -> Nanos {
        if self.outstanding < self.window { self.now.max(self.due()) } else { Nanos::MAX }
    }

    /// Before this moment none may begin; never `Nanos::MAX`, which means that nothing is to come.
    fn due(&self) -> Nanos {
        let Some(rate) = self.bytes_per_s else { return Nanos::ZERO };
        let ns = u128::from(self.bytes) * 1_000_000_000 / u128::from(rate);
        let due = u64::try_from(ns).map_or(u64::MAX, |ns| self.since.0.saturating_add(ns));
        Nanos(due.min(u64::MAX - 1))
    }

    /// A piece begins.
    pub fn begin(&mut self, now: Nanos, bytes: u64) {
        if now > self.due() {
            (self.since, self.bytes) = (now, 0);
        }
        self.bytes += bytes;
        self.outstanding += 1;
        self.now = now;
    }

    /// A piece is done; true if no other is under way.
    pub fn end(&mut self, now: Nanos) -> bool {
        self.outstanding -= 1;
        self.now = now;
        self.outstanding == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_their_distance_and_a_pause_is_not_made_up_for() {
        let mut pace = Pace::new(u32::MAX, Some(3));
        let due: Vec<u64> = (0..4)
            .map(|_| {
                pace.begin(pace.due(), 1);
                pace.due().0
            })
            .collect();
        assert_eq!(due, [333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333], "no rounding adds up");
        pace.begin(Nanos(5_000_000_000), 3);
        assert_eq!(pace.due(), Nanos(6_000_000_000));
        let mut pace = Pace::new(u32::MAX, None);
        pace.begin(Nanos(7), 1 << 40);
        assert_eq!(pace.due(), Nanos::ZERO);
    }

    #[test]
    fn what_is_due_after_the_end_of_time_is_still_to_come() {
        for bytes in [1 << 35, 1 << 40, 1 << 62] {
            let mut pace = Pace::new(u32::MAX, Some(1));
            pace.begin(Nanos(7), bytes);
            assert_eq!(pace.due(), Nanos(u64::MAX - 1));
        }
    }
}
