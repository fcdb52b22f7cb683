//! A command on its way to a member, and its completion.

use std::sync::Arc;

use crate::layer::{Gauge, GaugeUnit, Gauges};
use crate::medium::Buf;
use crate::request::Request;
use crate::units::{Lba, Nanos};

/// Stamps of the sectors of a member that began full, one each.
pub type FirstStamps = Arc<dyn Fn(Lba) -> u64 + Send + Sync>;

/// A command on its way to a member.
#[derive(Clone, Debug)]
pub struct Command {
    /// Comes back with the completion.
    pub tag: u64,
    /// The request. Its `time` is unused: see `arrival`.
    pub request: Request,
    /// When it arrives.
    pub arrival: Nanos,
    /// True if a request of the host waits for it.
    pub host: bool,
    /// Stamps that are written, in check mode.
    pub data: Buf,
}

/// The end of a command.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The tag of the command.
    pub tag: u64,
    /// When its own service began, without the wait.
    pub start: Nanos,
    /// Moment of completion.
    pub end: Nanos,
    /// Stamps that were read, in check mode, or those that the command came with.
    pub data: Buf,
}

/// Gauges of several together: the mean of the caches and of gauges that are shares (a sum of those says nothing), and sums of
/// the rest.
pub(super) fn joined(all: impl Iterator<Item = Gauges>) -> Gauges {
    let (mut fills, mut others): (Vec<f64>, Vec<(Gauge, u32)>) = (Vec::new(), Vec::new());
    for gauges in all {
        fills.extend(gauges.cache_fill);
        for gauge in gauges.others {
            match others.iter_mut().find(|(known, _)| known.name == gauge.name) {
                Some((sum, count)) => (sum.value, *count) = (sum.value + gauge.value, *count + 1),
                None => others.push((gauge, 1)),
            }
        }
    }
    let value = |(sum, count): (Gauge, u32)| match sum.unit {
        GaugeUnit::Share => Gauge { value: sum.value / f64::from(count), ..sum },
        GaugeUnit::Count | GaugeUnit::Bytes => sum,
    };
    Gauges {
        cache_fill: (!fills.is_empty()).then(|| fills.iter().sum::<f64>() / fills.len() as f64),
        others: others.into_iter().map(value).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_averaged_over_their_owners_and_the_rest_summed() {
        let (invalid, bytes) = (|value| Gauge::share("invalid", value), |value| Gauge::count("map_bytes", value));
        let of = |cache_fill, others: &[Gauge]| Gauges { cache_fill, others: others.to_vec() };
        let all =
            [of(Some(0.5), &[invalid(0.25), bytes(10.0)]), of(None, &[]), of(Some(1.0), &[bytes(5.0), invalid(0.75)])];
        let joined = joined(all.into_iter());
        assert_eq!(joined.cache_fill, Some(0.75));
        assert_eq!(joined.others, [invalid(0.5), bytes(15.0)]);
    }
}
