//! Durations of events, by kind.

use serde::Serialize;
use smrkit::units::Nanos;

use super::EventKind;

/// The events of one kind, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencySummary {
    /// Number of events.
    pub count: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// The median, by nearest rank.
    pub p50_ns: u64,
    /// Of a hundred 99 took no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Every event's latency, by kind.
#[derive(Clone, Debug, Default)]
pub struct EventLatencies {
    by_kind: [Vec<u64>; EventKind::ALL.len()],
}

impl EventLatencies {
    /// One event took so long.
    pub fn record(&mut self, kind: EventKind, latency: Nanos) {
        self.by_kind[kind as usize].push(latency.0);
    }

    /// The events of one kind.
    pub fn for_kind(&self, kind: EventKind) -> LatencySummary {
        summary(self.by_kind[kind as usize].clone())
    }

    /// All events.
    pub fn all(&self) -> LatencySummary {
        summary(self.by_kind.concat())
    }
}

fn summary(mut ns: Vec<u64>) -> LatencySummary {
    ns.sort_unstable();
    let count = ns.len() as u64;
    let Some(&max_ns) = ns.last() else { return LatencySummary::default() };
    let sum: u128 = ns.iter().map(|&n| u128::from(n)).sum();
    let rank = |percent: usize| ns[(ns.len() * percent).div_ceil(100).max(1) - 1];
    LatencySummary { count, mean_ns: (sum / u128::from(count)) as u64, p50_ns: rank(50), p99_ns: rank(99), max_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_nearest() {
        let mut latencies = EventLatencies::default();
        (1..=200).rev().for_each(|n| latencies.record(EventKind::Read, Nanos(n)));
        let all = LatencySummary { count: 200, mean_ns: 100, p50_ns: 100, p99_ns: 198, max_ns: 200 };
        assert_eq!((latencies.for_kind(EventKind::Read), latencies.all()), (all, all));
        assert_eq!(latencies.for_kind(EventKind::Stat), LatencySummary::default());
    }
}
