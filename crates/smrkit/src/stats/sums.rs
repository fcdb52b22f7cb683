//! Sums and ratios of several drives or several runs.

use std::collections::BTreeMap;

use super::outcome::{ByCause, Cleaning, Commands, Movement, Verdict};
use crate::schema::Scalar;
use crate::units::{Nanos, SECTOR_BYTES};

/// A ratio; `None` without a denominator.
fn ratio(over: f64, under: u64) -> Option<f64> {
    (under > 0).then(|| over / under as f64)
}

/// Cassuto's definition 4, of adjusted commands.
pub(crate) fn write_overloading(adjusted: &Commands) -> Option<f64> {
    let excess = (adjusted.physical_write + adjusted.physical_read) as f64 - adjusted.host_read as f64;
    ratio(excess, adjusted.host_write)
}

/// Physical sectors written / host sectors written.
pub(crate) fn write_amplification(physical: &ByCause, host_sectors: u64) -> Option<f64> {
    ratio(physical.total as f64, host_sectors)
}

/// Host bytes in all and before the cache was full, and their times.
#[derive(Clone, Copy)]
pub(crate) struct HostRates {
    /// When the cache was full, in seconds, if it ever was.
    pub full_at_s: Option<f64>,
    /// Host bytes until then.
    pub before_bytes: u64,
    /// The time until then.
    pub before: Nanos,
    /// Host sectors in all.
    pub sectors: u64,
    /// The time in all.
    pub elapsed: Nanos,
}

impl HostRates {
    /// The rates before and after, in the verdict; stalls and the sentence are left to the caller.
    pub fn verdict(self) -> Verdict {
        let rate = |bytes: u64, time: Nanos| if time > Nanos::ZERO { bytes as f64 / time.as_secs() } else { 0.0 };
        // What was answered in no time at all has no rate.
        let before_bytes = if self.before > Nanos::ZERO { self.before_bytes } else { 0 };
        let after = rate(self.sectors * SECTOR_BYTES - before_bytes, self.elapsed - self.before);
        Verdict {
            cache_full_at_s: self.full_at_s,
            before_bytes,
            before_ns: self.before.0,
            rate_before_bytes_per_s: rate(before_bytes, self.before),
            rate_after_bytes_per_s: self.full_at_s.map(|_| after),
            ..Verdict::default()
        }
    }
}

pub(crate) fn add_commands(a: Commands, b: Commands) -> Commands {
    Commands {
        host_read: a.host_read + b.host_read,
        host_write: a.host_write + b.host_write,
        physical_read: a.physical_read + b.physical_read,
        physical_write: a.physical_write + b.physical_write,
    }
}

/// Sums, shares of each drive's own stroke included.
pub(crate) fn add_movement(a: Movement, b: Movement) -> Movement {
    Movement {
        track_distance: a.track_distance + b.track_distance,
        track_count: a.track_count + b.track_count,
        stroke_share: a.stroke_share + b.stroke_share,
        bands_moved: a.bands_moved + b.bands_moved,
    }
}

pub(crate) fn add_cleaning(a: Cleaning, b: Cleaning) -> Cleaning {
    Cleaning {
        count: a.count + b.count,
        sectors: a.sectors + b.sectors,
        ns: a.ns + b.ns,
        max_ns: a.max_ns.max(b.max_ns),
    }
}

/// Sums of the counters that are whole numbers; the others are each drive's or run's own.
pub(crate) fn add_stats<'a>(all: impl Iterator<Item = &'a BTreeMap<String, Scalar>>) -> BTreeMap<String, Scalar> {
    let mut sums: BTreeMap<String, Scalar> = BTreeMap::new();
    for (key, value) in all.flatten() {
        if let Scalar::Int(value) = value {
            match sums.get_mut(key) {
                Some(Scalar::Int(sum)) => *sum += value,
                _ => {
                    sums.insert(key.clone(), Scalar::Int(*value));
                }
            }
        }
    }
    sums
}
