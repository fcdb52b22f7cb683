//! Sums and ratios of several drives or several runs, and what they have in common.

use std::collections::BTreeMap;

use super::physical::{ByCause, Commands};
use crate::layer::LayerStats;
use crate::schema::Scalar;

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

/// Value that all have, if they agree.
pub(crate) fn common<'a, A, T: PartialEq>(all: &[&'a A], of: impl Fn(&'a A) -> &'a T) -> Option<&'a T> {
    let (first, others) = all.split_first()?;
    others.iter().all(|other| of(other) == of(first)).then(|| of(first))
}

/// Sums of the counters that are whole numbers; the others are each drive's or run's own.
pub(crate) fn add_stats<'a>(all: impl Iterator<Item = &'a LayerStats>) -> LayerStats {
    let mut sums: BTreeMap<String, Scalar> = BTreeMap::new();
    for (key, value) in all.flat_map(|one| one.iter()) {
        if let Scalar::Int(value) = value {
            match sums.get_mut(key) {
                Some(Scalar::Int(sum)) => *sum += value,
                _ => {
                    sums.insert(key.clone(), Scalar::Int(*value));
                }
            }
        }
    }
    sums.into()
}
