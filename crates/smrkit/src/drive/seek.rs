//! The seek curve: milliseconds over the distance, as a table that is interpolated linearly.
//!
//! Distances are shares of the full stroke in drive files. For speed the curve is sampled once: every distance below 64
//! cylinders, then 32 samples an octave, again interpolated.

use std::sync::Arc;

use crate::error::Error;

/// A seek curve for a number of cylinders.
#[derive(Clone, Debug)]
pub struct SeekCurve {
    points: Arc<[(f64, f64)]>,
    cylinders: u64,
    /// Nanoseconds at each sample, and how many more at the next.
    samples: Arc<[(u32, u32)]>,
}

/// Distances below this have a sample each.
const EXACT: u32 = 64;
/// Samples in an octave above it, as a power of two.
const OCTAVE_BITS: u32 = 5;
/// A seek beyond this is taken for a mistake in the unit.
const SEEK_MS_MAX: f64 = 4000.0;

impl SeekCurve {
    /// A curve through points of (share of the full stroke, milliseconds); the first point is the one-track seek, at
    /// share 0. Errors: fewer than two points, shares that do not rise from 0 to 1, times that fall or make no sense.
    pub fn new(points: &[(f64, f64)], cylinders: u64) -> Result<SeekCurve, Error> {
        let bad = |why: String| Err(Error::Impossible(format!("mechanical.seek: {why}")));
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return bad("no points: give [share of stroke, ms] from share 0 to 1".into());
        };
        if points.len() < 2 || first.0 != 0.0 || last.0 != 1.0 {
            return bad("give at least two points, the first at share 0 and the last at share 1".into());
        }
        if let Some(&(_, ms)) = points.iter().find(|p| !(0.0..=SEEK_MS_MAX).contains(&p.1)) {
            return bad(format!("a seek of {ms} ms: give 0 to {SEEK_MS_MAX}"));
        }
        if points.windows(2).any(|w| w[0].0 >= w[1].0 || w[0].1 > w[1].1 || w[1].0.is_nan()) {
            return bad("shares must rise and times must not fall from point to point".into());
        }
        let mut curve = SeekCurve { points: points.into(), cylinders, samples: Arc::new([]) };
        let count = index(cylinders.min(u64::from(u32::MAX)) as u32) + 2;
        let at = |i| (curve.plain_ms(distance(i)) * 1e6).round() as u32;
        curve.samples = (0..count).map(|i| (at(i), at(i + 1) - at(i))).collect();
        Ok(curve)
    }

    /// The time over a distance in cylinders, in nanoseconds; 0 for none.
    #[inline]
    pub fn ns(&self, cylinders: u32) -> u64 {
        let index = index(cylinders).min(self.samples.len() - 1);
        let (base, more) = self.samples[index];
        if cylinders < EXACT {
            return u64::from(base);
        }
        let shift = 31 - cylinders.leading_zeros() - OCTAVE_BITS;
        let part = u64::from(cylinders & ((1 << shift) - 1));
        u64::from(base) + ((u64::from(more) * part) >> shift)
    }

    /// The points of the drive file: (share of the full stroke, milliseconds).
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The curve itself, without samples.
    fn plain_ms(&self, cylinders: u64) -> f64 {
        if cylinders == 0 {
            return 0.0;
        }
        let stroke = self.cylinders.saturating_sub(1).max(1);
        let share = if cylinders == 1 { 0.0 } else { (cylinders as f64 / stroke as f64).min(1.0) };
        let after = self.points.partition_point(|p| p.0 <= share).clamp(1, self.points.len() - 1);
        let (a, b) = (self.points[after - 1], self.points[after]);
        a.1 + (b.1 - a.1) * (share - a.0) / (b.0 - a.0)
    }
}

/// Which sample a distance belongs to.
#[inline]
fn index(cylinders: u32) -> usize {
    if cylinders < EXACT {
        return cylinders as usize;
    }
    let octave = 31 - cylinders.leading_zeros();
    let within = (cylinders >> (octave - OCTAVE_BITS)) & ((1 << OCTAVE_BITS) - 1);
    (EXACT + ((octave - EXACT.trailing_zeros()) << OCTAVE_BITS) + within) as usize
}

/// The distance at which a sample stands.
fn distance(index: usize) -> u64 {
    let Some(above) = index.checked_sub(EXACT as usize) else { return index as u64 };
    let octave = (above >> OCTAVE_BITS) as u32 + EXACT.trailing_zeros();
    let within = (above & ((1 << OCTAVE_BITS) - 1)) as u64;
    ((1 << OCTAVE_BITS) + within) << (octave - OCTAVE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: [(f64, f64); 4] = [(0.0, 1.2), (0.01, 2.8), (1.0 / 3.0, 12.0), (1.0, 22.0)];

    #[test]
    fn samples_follow_the_points() {
        for cylinders in [2, 50, 64, 1000, 488_904] {
            let curve = SeekCurve::new(&POINTS, cylinders).unwrap();
            let mut last = 0;
            for d in (0..cylinders).step_by((cylinders / 5000).max(1) as usize) {
                let ns = curve.ns(d as u32);
                let plain = curve.plain_ms(d) * 1e6;
                assert!((ns as f64 - plain).abs() <= 2.0 + plain * 0.01, "{d}: {ns} for {plain}");
                assert!(ns >= last);
                last = ns;
            }
            assert_eq!(curve.ns(0), 0);
            assert_eq!(curve.ns(1), 1_200_000);
        }
        assert_eq!(SeekCurve::new(&POINTS, 10).unwrap().ns(u32::MAX), 22_000_000);
    }

    #[test]
    fn senseless_curves_are_refused() {
        let bad: [&[(f64, f64)]; 6] = [
            &[],
            &[(0.0, 1.0)],
            &[(0.1, 1.0), (1.0, 2.0)],
            &[(0.0, 3.0), (1.0, 2.0)],
            &[(0.0, f64::NAN), (1.0, 2.0)],
            &[(0.0, 1.0), (f64::NAN, 1.5), (1.0, 2.0)],
        ];
        for points in bad {
            assert!(SeekCurve::new(points, 100).is_err(), "{points:?}");
        }
    }
}
