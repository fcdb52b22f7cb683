//! The seek curve: milliseconds over the distance, as a table that is interpolated linearly.
//!
//! Distances are shares of the full stroke, or cylinders where a curve was measured. For speed the curve is sampled once: at every distance
//! below 64 cylinders (or up to the last measured one), then 32 times an octave, with linear interpolation between.

use std::sync::Arc;

use crate::error::Error;

/// Points of a seek curve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SeekPoints {
    /// (Share of the full stroke, milliseconds), from the one-track seek at share 0 to the full stroke at share 1.
    Shares(Vec<(f64, f64)>),
    /// (Cylinders, milliseconds), as measured; times may fall with the distance. Beyond the last point, the line through the last two
    /// continues.
    Cylinders(Vec<(f64, f64)>),
}

/// A seek curve for a number of cylinders.
#[derive(Clone, Debug)]
pub struct SeekCurve {
    points: Arc<SeekPoints>,
    cylinders: u64,
    /// Distances below this have a sample each.
    exact: u32,
    /// Nanoseconds at each sample, and the step to the next.
    samples: Arc<[(u32, i32)]>,
}

/// Distances below this have a sample each on any curve.
const EXACT: u32 = 64;
/// Distances of a measured curve that have a sample each at most.
const EXACT_MAX: u32 = 1 << 16;
/// Samples in each octave above the exact ones, as a power of two.
const OCTAVE_BITS: u32 = 5;
/// A longer seek must be a mistake in the unit. Also keeps a step between samples within 31 bits.
const SEEK_MS_MAX: f64 = 2000.0;

impl SeekPoints {
    /// Refuses points that make no sense.
    fn check(&self) -> Result<(), Error> {
        let bad = |why: String| Err(Error::Impossible(why));
        if let Some((_, ms)) = self.list().iter().find(|p| !(0.0..=SEEK_MS_MAX).contains(&p.1)) {
            return bad(format!("mechanical.seek: a seek of {ms} ms: give 0 to {SEEK_MS_MAX}"));
        }
        match self {
            SeekPoints::Shares(points) => check_shares(points),
            SeekPoints::Cylinders(points) if points.first().is_none_or(|p| p.0.is_nan() || p.0 < 1.0) => {
                bad("mechanical.seek_cylinders: give [cylinders, ms] from a distance of at least 1 on".into())
            }
            SeekPoints::Cylinders(points) if points.windows(2).any(|w| w[0].0 >= w[1].0 || w[1].0.is_nan()) => {
                bad("mechanical.seek_cylinders: distances must rise from point to point".into())
            }
            SeekPoints::Cylinders(_) => Ok(()),
        }
    }

    /// The points, in either unit of distance.
    fn list(&self) -> &[(f64, f64)] {
        match self {
            SeekPoints::Shares(points) | SeekPoints::Cylinders(points) => points,
        }
    }

    /// The one-track seek.
    pub fn shortest_ms(&self) -> f64 {
        self.list().first().map_or(0.0, |p| p.1)
    }
}

fn check_shares(points: &[(f64, f64)]) -> Result<(), Error> {
    let bad = |why: &str| Err(Error::Impossible(format!("mechanical.seek: {why}")));
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return bad("no points: give [share of stroke, ms] from share 0 to 1");
    };
    if points.len() < 2 || first.0 != 0.0 || last.0 != 1.0 {
        return bad("give at least two points, the first at share 0 and the last at share 1");
    }
    if points.windows(2).any(|w| w[0].0 >= w[1].0 || w[1].0.is_nan()) {
        return bad("shares must rise from point to point");
    }
    Ok(())
}

impl SeekCurve {
    /// A curve through points. Errors: points that do not rise in distance or make no sense.
    pub(crate) fn new(points: SeekPoints, cylinders: u64) -> Result<SeekCurve, Error> {
        points.check()?;
        let reach = cylinders.min(u64::from(u32::MAX)) as u32;
        let exact = match &points {
            SeekPoints::Shares(_) => EXACT,
            SeekPoints::Cylinders(_) => reach.saturating_add(1).clamp(EXACT, EXACT_MAX),
        };
        let mut curve = SeekCurve { points: Arc::new(points), cylinders, exact, samples: Arc::new([]) };
        // One sample more than the last distance has, so that it can be interpolated.
        let count = sample_index(reach, exact) + 2;
        let at = |i| (curve.interpolated_ms(sample_distance(i, exact)).clamp(0.0, SEEK_MS_MAX) * 1e6).round() as i32;
        curve.samples = (0..count).map(|i| (at(i) as u32, at(i + 1) - at(i))).collect();
        Ok(curve)
    }

    /// The time over a distance in cylinders, in nanoseconds; 0 for none.
    #[inline]
    pub fn ns(&self, cylinders: u32) -> u64 {
        let index = sample_index(cylinders, self.exact).min(self.samples.len() - 1);
        let (base, step) = self.samples[index];
        if cylinders < self.exact {
            return u64::from(base);
        }
        // Linear between two samples, which are 2^shift cylinders apart in this octave.
        let shift = 31 - cylinders.leading_zeros() - OCTAVE_BITS;
        let part = i64::from(cylinders & ((1 << shift) - 1));
        (i64::from(base) + ((i64::from(step) * part) >> shift)) as u64
    }

    /// The points as (share of the full stroke, milliseconds).
    pub fn points(&self) -> Vec<(f64, f64)> {
        match &*self.points {
            SeekPoints::Shares(points) => points.clone(),
            SeekPoints::Cylinders(points) => points.iter().map(|p| (p.0 / self.stroke(), p.1)).collect(),
        }
    }

    fn stroke(&self) -> f64 {
        self.cylinders.saturating_sub(1).max(1) as f64
    }

    /// The curve itself, without samples.
    fn interpolated_ms(&self, cylinders: u64) -> f64 {
        match &*self.points {
            _ if cylinders == 0 => 0.0,
            SeekPoints::Shares(points) => {
                // The point at share 0 is the one-track seek, however short the stroke is.
                let share = if cylinders == 1 { 0.0 } else { (cylinders as f64 / self.stroke()).min(1.0) };
                interpolate(points, share)
            }
            SeekPoints::Cylinders(points) => interpolate(points, cylinders as f64),
        }
    }
}

/// Interpolates linearly between the points around `x`. Before the first point its value holds; beyond the last, the line through the last
/// two continues.
fn interpolate(points: &[(f64, f64)], x: f64) -> f64 {
    if points.len() < 2 || x <= points[0].0 {
        return points[0].1;
    }
    let after = points.partition_point(|p| p.0 <= x).clamp(1, points.len() - 1);
    let (a, b) = (points[after - 1], points[after]);
    a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0)
}

/// Index of the sample at or before a distance. Distances below `exact` have a sample each; beyond, an octave has 2^[`OCTAVE_BITS`].
#[inline]
fn sample_index(cylinders: u32, exact: u32) -> usize {
    if cylinders < exact {
        return cylinders as usize;
    }
    let octave = 31 - cylinders.leading_zeros();
    let within = (cylinders >> (octave - OCTAVE_BITS)) & ((1 << OCTAVE_BITS) - 1);
    // `exact` need not be a power of two: the samples of its octave are counted from the octave's beginning.
    (exact + ((octave - exact.ilog2()) << OCTAVE_BITS) + within) as usize
}

/// The distance of a sample.
fn sample_distance(index: usize, exact: u32) -> u64 {
    let Some(above) = index.checked_sub(exact as usize) else { return index as u64 };
    let octave = (above >> OCTAVE_BITS) as u32 + exact.ilog2();
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
            let curve = SeekCurve::new(SeekPoints::Shares(POINTS.into()), cylinders).unwrap();
            let mut last = 0;
            for d in (0..cylinders).step_by((cylinders / 5000).max(1) as usize) {
                let ns = curve.ns(d as u32);
                let plain = curve.interpolated_ms(d) * 1e6;
                assert!((ns as f64 - plain).abs() <= 2.0 + plain * 0.01, "{d}: {ns} for {plain}");
                assert!(ns >= last);
                last = ns;
            }
            assert_eq!(curve.ns(0), 0);
            assert_eq!(curve.ns(1), 1_200_000);
        }
        assert_eq!(SeekCurve::new(SeekPoints::Shares(POINTS.into()), 10).unwrap().ns(u32::MAX), 22_000_000);
    }

    #[test]
    fn senseless_curves_are_refused() {
        let bad: [&[(f64, f64)]; 5] = [
            &[],
            &[(0.0, 1.0)],
            &[(0.1, 1.0), (1.0, 2.0)],
            &[(0.0, f64::NAN), (1.0, 2.0)],
            &[(0.0, 1.0), (f64::NAN, 1.5), (1.0, 2.0)],
        ];
        for points in bad {
            assert!(SeekCurve::new(SeekPoints::Shares(points.into()), 100).is_err(), "{points:?}");
        }
    }

    #[test]
    fn a_measured_curve_may_fall_and_is_exact_at_every_distance() {
        let points = vec![(1.0, 0.636), (3.0, 1.2), (100.0, 1.026), (1000.0, 4.0), (4000.0, 7.0)];
        for cylinders in [50, 1001, 6581, 90_000] {
            let curve = SeekCurve::new(SeekPoints::Cylinders(points.clone()), cylinders).unwrap();
            for (distance, ms) in points.iter().filter(|p| (p.0 as u64) < cylinders) {
                assert_eq!(curve.ns(*distance as u32), (ms * 1e6) as u64, "{distance} of {cylinders}");
            }
            assert_eq!((curve.ns(0), curve.ns(2)), (0, 918_000));
        }
        let beyond = SeekCurve::new(SeekPoints::Cylinders(points.clone()), 6581).unwrap();
        assert_eq!(beyond.ns(5000), 8_000_000);
        for senseless in [vec![], vec![(0.0, 1.0), (1.0, 2.0)], vec![(2.0, 1.0), (2.0, 2.0)], vec![(1.0, f64::NAN)]] {
            assert!(SeekCurve::new(SeekPoints::Cylinders(senseless), 100).is_err());
        }
    }
}
