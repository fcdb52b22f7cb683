//! What is counted of the host's requests while a run goes on.

use super::histogram::LatencyCounts;
use super::outcome::{Commands, Latencies, SourceCounts, Timeline};
use super::timeline::TimelineBuilder;
use crate::layer::Gauges;
use crate::request::{Op, Request};
use crate::tally::adjusted;
use crate::units::{Nanos, SECTOR_BYTES};

/// Stalls are latencies longer than this.
pub const STALL_7S: Nanos = Nanos(7_000_000_000);
/// The longest stall that common timeouts forgive.
pub const STALL_30S: Nanos = Nanos(30_000_000_000);

/// When a request came, when its service began, and when it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// It came.
    pub arrival: Nanos,
    /// Its own service began.
    pub start: Nanos,
    /// It was answered.
    pub end: Nanos,
}

/// Counters of the host's requests.
pub struct HostCounts {
    /// Requests counted.
    pub requests: u64,
    /// Commands, host side only.
    pub commands: Commands,
    /// The same by Cassuto's count.
    pub adjusted: Commands,
    /// Sectors read.
    pub read_sectors: u64,
    /// Sectors written.
    pub written_sectors: u64,
    /// Time spent waiting.
    pub wait_ns: u64,
    /// Time spent being served.
    pub service_ns: u64,
    /// Requests that took longer than 7 s.
    pub stalls_over_7s: u64,
    /// Requests that took longer than 30 s.
    pub stalls_over_30s: u64,
    /// When counting began.
    pub begin: Nanos,
    /// The last answer.
    pub end: Nanos,
    /// The last arrival.
    pub last_arrival: Nanos,
    /// The first moment that a request waited for cleaning, and the host bytes answered until then.
    pub cache_full: Option<(Nanos, u64)>,
    latency: LatencyCounts,
    /// Empty where all requests are of one source.
    by_source: Vec<OfSource>,
    timeline: TimelineBuilder,
}

/// What is counted of one of several merged sources.
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
            requests: 0,
            commands: Commands::default(),
            adjusted: Commands::default(),
            read_sectors: 0,
            written_sectors: 0,
            wait_ns: 0,
            service_ns: 0,
            stalls_over_7s: 0,
            stalls_over_30s: 0,
            begin: Nanos::ZERO,
            end: Nanos::ZERO,
            last_arrival: Nanos::ZERO,
            cache_full: None,
            latency: LatencyCounts::default(),
            by_source: Vec::new(),
            timeline,
        }
    }

    /// The same, with `sources` told apart if there are several.
    pub fn of_sources(mut self, sources: usize) -> HostCounts {
        self.by_source.resize_with(if sources > 1 { sources } else { 0 }, OfSource::default);
        self
    }

    /// Counting begins at `now`.
    pub fn begin(&mut self, now: Nanos) {
        (self.begin, self.end, self.last_arrival) = (now, now, now);
    }

    /// Counts a request; `gauges` is asked at the end of a window.
    #[inline]
    pub fn count(&mut self, request: &Request, times: &Times, gauges: impl FnOnce() -> Gauges) {
        let latency_ns = (times.end - times.arrival).0;
        self.requests += 1;
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => {
                self.commands.host_read += 1;
                self.adjusted.host_read += adjusted(sectors);
                self.read_sectors += sectors;
            }
            Op::Write => {
                self.commands.host_write += 1;
                self.adjusted.host_write += adjusted(sectors);
                self.written_sectors += sectors;
            }
            Op::Flush | Op::Discard => {}
        }
        self.wait_ns += (times.start - times.arrival).0;
        self.service_ns += (times.end - times.start).0;
        if latency_ns > STALL_7S.0 {
            self.stalls_over_7s += 1;
            self.stalls_over_30s += u64::from(latency_ns > STALL_30S.0);
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

    /// A request waits for cleaning, from `moment` on or since before counting began. All that was answered until then has
    /// been counted.
    #[inline]
    pub fn waits_for_cleaning(&mut self, moment: Nanos) {
        if self.cache_full.is_none() {
            self.cache_full = Some((moment.max(self.begin), self.host_bytes()));
        }
    }

    /// Host bytes read and written.
    pub fn host_bytes(&self) -> u64 {
        (self.read_sectors + self.written_sectors) * SECTOR_BYTES
    }

    /// From the beginning to the last answer.
    pub fn elapsed(&self) -> Nanos {
        self.end.since(self.begin)
    }

    /// Summaries of the latencies.
    pub fn latencies(&self) -> Latencies {
        self.latency.summary()
    }

    /// What was counted of each source; `None` where all requests are of one.
    pub fn by_source(&self) -> Option<Vec<SourceCounts>> {
        let summary = |of: &OfSource| SourceCounts {
            requests: of.requests,
            host_read_sectors: of.read_sectors,
            host_written_sectors: of.written_sectors,
            latency_ns: of.latency.summary(),
            latency_buckets: of.latency.buckets(),
        };
        (!self.by_source.is_empty()).then(|| self.by_source.iter().map(summary).collect())
    }

    /// The latencies, and the timeline, which ends here.
    pub fn finish(self, gauges: &Gauges) -> (LatencyCounts, Timeline) {
        (self.latency, self.timeline.finish(gauges))
    }
}
