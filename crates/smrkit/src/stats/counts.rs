//! Counts of the host's requests while a run goes on.

use super::command_times::{STALL_7S, STALL_30S};
use super::histogram::{LatencyCounts, LatencyLists};
use super::latency::Latencies;
use super::outcome::{SourceCounts, Verdict};
use super::physical::Commands;
use super::timeline::{Timeline, TimelineBuilder};
use crate::layer::Gauges;
use crate::request::{Op, Request};
use crate::tally::adjusted;
use crate::units::{Nanos, SECTOR_BYTES};

/// When a request came, when its service began, and when it completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Moment of arrival.
    pub arrival: Nanos,
    /// Its own service began.
    pub start: Nanos,
    /// When it completed.
    pub end: Nanos,
}

/// Sums over the host's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTotals {
    /// Requests counted.
    pub requests: u64,
    /// Commands, host side only.
    pub commands: Commands,
    /// The host's commands by Cassuto's count.
    pub adjusted: Commands,
    /// Sectors read.
    pub read_sectors: u64,
    /// Sectors written.
    pub written_sectors: u64,
    /// Time spent waiting: of many requests in a long queue more than 64 bits hold.
    pub wait_ns: u128,
    /// Time spent being served.
    pub service_ns: u64,
    /// Requests that took longer than 7 s.
    pub stalls_over_7s: u64,
    /// Requests that took longer than 30 s.
    pub stalls_over_30s: u64,
}

impl HostTotals {
    /// Bytes read and written.
    pub fn host_bytes(&self) -> u64 {
        (self.read_sectors + self.written_sectors) * SECTOR_BYTES
    }
}

/// Counters of the host's requests.
pub struct HostCounts {
    /// Sums over the requests.
    pub totals: HostTotals,
    /// When counting began.
    pub begin: Nanos,
    /// The last completion.
    pub end: Nanos,
    /// The last arrival.
    pub last_arrival: Nanos,
    /// The first moment that a request waited for cleaning, and the host bytes completed until then.
    pub cache_full: Option<(Nanos, u64)>,
    latency: LatencyCounts,
    /// Empty where all requests are of one source.
    by_source: Vec<OfSource>,
    timeline: TimelineBuilder,
}

/// Counts of one of several merged sources.
#[derive(Default)]
struct OfSource {
    requests: u64,
    read_sectors: u64,
    written_sectors: u64,
    latency: LatencyCounts,
}

impl OfSource {
    fn count(&mut self, request: &Request, latency_ns: u64) {
        let sectors = u64::from(request.sectors);
        self.requests += 1;
        self.read_sectors += if request.op == Op::Read { sectors } else { 0 };
        self.written_sectors += if request.op == Op::Write { sectors } else { 0 };
        self.latency.record(request.op, latency_ns);
    }
}

impl HostCounts {
    /// Nothing counted yet; windows of time as `timeline` makes them.
    pub fn new(timeline: TimelineBuilder) -> HostCounts {
        HostCounts {
            totals: HostTotals::default(),
            begin: Nanos::ZERO,
            end: Nanos::ZERO,
            last_arrival: Nanos::ZERO,
            cache_full: None,
            latency: LatencyCounts::default(),
            by_source: Vec::new(),
            timeline,
        }
    }

    /// Counts with `sources` told apart if there are several.
    pub fn of_sources(mut self, sources: usize) -> HostCounts {
        self.by_source.resize_with(if sources > 1 { sources } else { 0 }, OfSource::default);
        self
    }

    /// Counting begins at `now`.
    pub fn begin(&mut self, now: Nanos) {
        (self.begin, self.end, self.last_arrival) = (now, now, now);
    }

    /// Counts a request; `gauges` is asked at the end of a window.
    #[inline(always)]
    pub fn count(&mut self, request: &Request, times: &Times, gauges: impl FnOnce() -> Gauges) {
        let latency_ns = (times.end - times.arrival).0;
        let totals = &mut self.totals;
        totals.requests += 1;
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => {
                totals.commands.host_read += 1;
                totals.adjusted.host_read += adjusted(sectors);
                totals.read_sectors += sectors;
            }
            Op::Write => {
                totals.commands.host_write += 1;
                totals.adjusted.host_write += adjusted(sectors);
                totals.written_sectors += sectors;
            }
            Op::Flush | Op::Discard => {}
        }
        totals.wait_ns += u128::from((times.start - times.arrival).0);
        totals.service_ns += (times.end - times.start).0;
        if latency_ns > STALL_7S.0 {
            totals.stalls_over_7s += 1;
            totals.stalls_over_30s += u64::from(latency_ns > STALL_30S.0);
        }
        self.end = times.end;
        self.last_arrival = self.last_arrival.max(times.arrival);
        self.latency.record(request.op, latency_ns);
        if let Some(source) = self.by_source.get_mut(usize::from(request.source)) {
            source.count(request, latency_ns);
        }
        let since = times.end.since(self.begin);
        if self.timeline.is_over(since) {
            self.timeline.turn(since, &gauges());
        }
        self.timeline.count(request.op, sectors, latency_ns);
    }

    /// A request waits for cleaning, from `moment` on or since before counting began. All that was completed until then has
    /// been counted.
    #[inline]
    pub fn waits_for_cleaning(&mut self, moment: Nanos) {
        if self.cache_full.is_none() {
            self.cache_full = Some((moment.max(self.begin), self.host_bytes()));
        }
    }

    /// Host bytes read and written.
    pub fn host_bytes(&self) -> u64 {
        self.totals.host_bytes()
    }

    /// From the beginning to the last completion.
    pub fn elapsed(&self) -> Nanos {
        self.end.since(self.begin)
    }

    /// Summaries of the latencies.
    pub fn latencies(&self) -> Latencies {
        self.latency.list().summary()
    }

    /// Counts of each source; `None` where all requests are of one.
    fn by_source(&self) -> Option<Vec<SourceCounts>> {
        let summary = |of: &OfSource| {
            let latency = of.latency.list();
            SourceCounts {
                requests: of.requests,
                host_read_sectors: of.read_sectors,
                host_written_sectors: of.written_sectors,
                latency_ns: latency.summary(),
                latency_buckets: latency.buckets(),
            }
        };
        (!self.by_source.is_empty()).then(|| self.by_source.iter().map(summary).collect())
    }

    /// Finished counts; `gauges` are those of the end.
    pub(crate) fn finish(self, gauges: &Gauges) -> HostSide {
        let (full, before_bytes) = self.cache_full.unwrap_or((self.end, self.host_bytes()));
        let before = full.since(self.begin);
        HostSide {
            totals: self.totals,
            elapsed_ns: self.elapsed().0,
            arrivals_ns: self.last_arrival.since(self.begin).0,
            full_at_s: self.cache_full.map(|_| before.as_secs()),
            before_bytes,
            before,
            by_source: self.by_source(),
            latency: self.latency.list(),
            timeline: self.timeline.finish(gauges),
        }
    }
}

/// Host's side of a run.
#[derive(Default)]
pub(crate) struct HostSide {
    /// Sums over the requests.
    pub totals: HostTotals,
    /// From the beginning of counting to the last completion.
    pub elapsed_ns: u64,
    /// From the beginning of counting to the last arrival.
    pub arrivals_ns: u64,
    /// When the cache was full, in seconds, if it ever was.
    pub full_at_s: Option<f64>,
    /// Host bytes until then, or in all.
    pub before_bytes: u64,
    /// The time until then, or in all.
    pub before: Nanos,
    /// Counts of each source; `None` where all requests are of one.
    pub by_source: Option<Vec<SourceCounts>>,
    /// Latencies.
    pub latency: LatencyLists,
    /// The course of time.
    pub timeline: Timeline,
}

impl HostSide {
    /// The numbers of the plain verdict.
    pub fn verdict(&self, longest_stall_ns: u64) -> Verdict {
        let rate = |bytes: u64, time: Nanos| if time > Nanos::ZERO { bytes as f64 / time.as_secs() } else { 0.0 };
        // What completed in no time at all has no rate.
        let before_bytes = if self.before > Nanos::ZERO { self.before_bytes } else { 0 };
        let bytes = self.totals.host_bytes();
        let after = rate(bytes - before_bytes, Nanos(self.elapsed_ns) - self.before);
        Verdict {
            cache_full_at_s: self.full_at_s,
            before_bytes,
            before_ns: self.before.0,
            rate_before_bytes_per_s: rate(before_bytes, self.before),
            rate_after_bytes_per_s: self.full_at_s.map(|_| after),
            longest_stall_ns,
            stalls_over_7s: self.totals.stalls_over_7s,
            stalls_over_30s: self.totals.stalls_over_30s,
            ..Verdict::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_before_and_after_the_cache_is_full() {
        let totals = HostTotals {
            read_sectors: 1000,
            written_sectors: 3000,
            stalls_over_7s: 4,
            stalls_over_30s: 3,
            ..HostTotals::default()
        };
        let side = |full_at_s, before_bytes, before: u64, elapsed_ns| HostSide {
            totals,
            full_at_s,
            before_bytes,
            before: Nanos(before),
            elapsed_ns,
            ..HostSide::default()
        };
        const S: u64 = 1_000_000_000;
        let verdict = side(Some(2.0), 512_000, 2 * S, 10 * S).verdict(77);
        assert_eq!(
            verdict,
            Verdict {
                cache_full_at_s: Some(2.0),
                before_bytes: 512_000,
                before_ns: 2 * S,
                rate_before_bytes_per_s: 256_000.0,
                rate_after_bytes_per_s: Some(192_000.0),
                longest_stall_ns: 77,
                stalls_over_7s: 4,
                stalls_over_30s: 3,
                ..Verdict::default()
            }
        );
        // From the first moment on: nothing was before.
        let at_once = side(Some(0.0), 512_000, 0, 10 * S).verdict(0);
        assert_eq!((at_once.before_bytes, at_once.rate_before_bytes_per_s), (0, 0.0));
        assert_eq!(at_once.rate_after_bytes_per_s, Some(204_800.0));
        let at_the_end = side(Some(10.0), 512_000, 10 * S, 10 * S).verdict(0);
        assert_eq!(at_the_end.rate_after_bytes_per_s, Some(0.0));
        let never = side(None, 2_048_000, 10 * S, 10 * S).verdict(0);
        assert_eq!((never.rate_before_bytes_per_s, never.rate_after_bytes_per_s), (204_800.0, None));
    }
}
