//! Counts of the host's requests during a run, and a row for each request, for `--requests`.

use super::confidence::{Blocks, Confidence, Mark};
use super::latency::{Latencies, LatencyCounts, LatencyLists};
use super::records::{Commands, STALL_7S, STALL_30S, SourceCounts};
use super::timeline::{Reading, Timeline, TimelineBuilder};
use super::verdict::Verdict;
use crate::request::{Op, Request};
use crate::tally::adjusted;
use crate::units::{Nanos, SECTOR_BYTES};

/// When a request arrived, when its service began, and when it completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Moment of arrival.
    pub arrival: Nanos,
    /// When its own service began.
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
    /// Time spent waiting: 128 bits, for many requests in a long queue.
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
#[derive(Default)]
pub struct HostCounts {
    /// Sums over the requests.
    pub totals: HostTotals,
    /// When counting began.
    pub begin: Nanos,
    /// The last completion.
    pub end: Nanos,
    /// The last arrival.
    pub last_arrival: Nanos,
    /// When a request first waited for cleaning, and the host bytes completed until then.
    pub cache_full: Option<(Nanos, u64)>,
    latency: LatencyCounts,
    /// Counts and latencies by source; empty if all requests are of one.
    by_source: Vec<(SourceCounts, LatencyCounts)>,
    timeline: TimelineBuilder,
    /// Blocks of requests, for confidence intervals; `None` where none are wanted, as of members of arrays.
    blocks: Option<Blocks>,
}

impl HostCounts {
    /// Counts of nothing yet, with the windows of `timeline`.
    pub fn new(timeline: TimelineBuilder) -> HostCounts {
        HostCounts { timeline, ..HostCounts::default() }
    }

    /// The same, with counts by source if there are several.
    pub fn of_sources(mut self, sources: usize) -> HostCounts {
        self.by_source.resize_with(if sources > 1 { sources } else { 0 }, Default::default);
        self
    }

    /// The same, with confidence intervals.
    pub fn in_blocks(self) -> HostCounts {
        HostCounts { blocks: Some(Blocks::default()), ..self }
    }

    /// Begins counting at `now`.
    pub fn begin(&mut self, now: Nanos) {
        (self.begin, self.end, self.last_arrival) = (now, now, now);
    }

    /// Counts a request. `reading` is called at the end of a window or a block.
    #[inline(always)]
    pub fn count(&mut self, request: &Request, times: &Times, reading: impl Fn() -> Reading) {
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
        // Requests may complete in another order than they arrived in.
        self.last_arrival = self.last_arrival.max(times.arrival);
        self.latency.record(request.op, latency_ns);
        if let Some((counts, latency)) = self.by_source.get_mut(usize::from(request.source)) {
            counts.requests += 1;
            counts.host_read_sectors += if request.op == Op::Read { sectors } else { 0 };
            counts.host_written_sectors += if request.op == Op::Write { sectors } else { 0 };
            latency.record(request.op, latency_ns);
        }
        let since = times.end.since(self.begin);
        if self.timeline.is_over(since) {
            self.timeline.turn(since, &reading());
        }
        self.timeline.count(request.op, sectors, latency_ns);
        if let Some(blocks) = &mut self.blocks
            && blocks.end == self.totals.requests
        {
            let physical_sectors = reading().written_sectors;
            blocks.mark(Mark::new(&self.totals, &mut self.latency, since, physical_sectors));
        }
    }

    /// Notes that a request waits for cleaning from `moment` on, which may be before counting began. All earlier completions have been
    /// counted.
    #[inline]
    pub fn waits_for_cleaning(&mut self, moment: Nanos) {
        if self.cache_full.is_none() {
            self.cache_full = Some((moment.max(self.begin), self.totals.host_bytes()));
        }
    }

    /// The time from the beginning of counting to the last completion.
    pub fn elapsed(&self) -> Nanos {
        self.end.since(self.begin)
    }

    /// Summaries of the latencies.
    pub fn latencies(&self) -> Latencies {
        self.latency.list().summary()
    }

    /// Counts of each source; `None` for a single source, for which no list is kept.
    pub(super) fn by_source(&self) -> Option<Vec<SourceCounts>> {
        let summary = |(counts, latency): &(SourceCounts, LatencyCounts)| {
            let latency = latency.list();
            SourceCounts { latency_ns: latency.summary(), latency_buckets: latency.buckets(), ..counts.clone() }
        };
        (!self.by_source.is_empty()).then(|| self.by_source.iter().map(summary).collect())
    }

    /// The columns of a verdict that come from the host's side.
    pub(super) fn verdict(&self) -> Verdict {
        // A run that is interrupted may end before the request that waits.
        let cache_full = self.cache_full.filter(|(moment, _)| *moment <= self.end);
        // If no request waited for cleaning, the whole run is before that.
        let (full, before_bytes) = cache_full.unwrap_or((self.end, self.totals.host_bytes()));
        let before = full.since(self.begin);
        Verdict {
            cache_full_at_s: cache_full.map(|_| before.as_secs()),
            // Bytes that completed in no time have no rate.
            before_bytes: if before > Nanos::ZERO { before_bytes } else { 0 },
            before_ns: before.0,
            stalls_over_7s: self.totals.stalls_over_7s,
            stalls_over_30s: self.totals.stalls_over_30s,
            ..Verdict::default()
        }
    }

    /// Ends counting. `reading` is that of the end.
    pub(crate) fn finish(mut self, reading: &Reading) -> HostSide {
        let timeline = std::mem::take(&mut self.timeline).finish(reading);
        let latency = self.latency.list();
        let distributions = latency.distributions();
        let confidence = self.blocks.take().map(|blocks| {
            let elapsed = self.elapsed();
            let whole = Mark::new(&self.totals, &mut self.latency, elapsed, reading.written_sectors);
            blocks.confidence(&whole, &distributions)
        });
        let [all, read, write] = distributions.map(|own| own.summary());
        HostSide { latency, latency_ns: Latencies { all, read, write }, confidence, timeline, counts: self }
    }
}

/// The host's side of a run at its end.
pub(crate) struct HostSide {
    /// Counters.
    pub counts: HostCounts,
    /// Latencies, listed.
    pub latency: LatencyLists,
    /// Their summaries.
    pub latency_ns: Latencies,
    /// Confidence intervals, if they were wanted.
    pub confidence: Option<Confidence>,
    /// The course of time.
    pub timeline: Timeline,
}

/// One request, as it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// Its number in the run, from 0.
    pub index: u64,
    /// Source among several merged ones.
    pub source: u8,
    /// Row in its source, from 0: of the trace, or of the volume that was chosen.
    pub row: u64,
    /// The operation.
    pub op: Op,
    /// The first sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// When it arrived; 0 where that was before counting began.
    pub arrival_ns: u64,
    /// When its service began.
    pub start_ns: u64,
    /// When it completed.
    pub end_ns: u64,
    /// From its arrival, whenever that was, to the beginning of its service.
    pub wait_ns: u64,
    /// From its arrival, whenever that was, to its completion.
    pub latency_ns: u64,
}

impl RequestRow {
    /// The row of request number `index`, with times relative to `begin`. `row` is its row in its source.
    pub fn new(request: &Request, row: u64, times: &Times, begin: Nanos, index: u64) -> RequestRow {
        let since = |time: Nanos| time.since(begin).0;
        RequestRow {
            index,
            source: request.source,
            row,
            op: request.op,
            lba: request.lba.0,
            sectors: request.sectors,
            arrival_ns: since(times.arrival),
            start_ns: since(times.start),
            end_ns: since(times.end),
            wait_ns: times.start.since(times.arrival).0,
            latency_ns: times.end.since(times.arrival).0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Lba;

    #[test]
    fn a_wait_that_began_before_counting_counts_in_full() {
        let request = Request { time: Nanos(40), lba: Lba(0), sectors: 8, op: Op::Read, volume: 0, source: 0 };
        let times = Times { arrival: Nanos(40), start: Nanos(110), end: Nanos(150) };
        let row = RequestRow::new(&request, 7, &times, Nanos(100), 0);
        assert_eq!((row.row, row.arrival_ns, row.start_ns, row.end_ns), (7, 0, 10, 50));
        assert_eq!((row.wait_ns, row.latency_ns), (70, 110));
    }

    #[test]
    fn what_completed_in_no_time_has_no_rate() {
        let mut counts = HostCounts::new(TimelineBuilder::default());
        counts.begin(Nanos(100));
        counts.totals.written_sectors = 1000;
        counts.end = Nanos(900);
        assert_eq!(
            (counts.verdict().before_bytes, counts.verdict().before_ns),
            (512_000, 800),
            "no wait: the whole run"
        );
        counts.waits_for_cleaning(Nanos(901));
        assert_eq!((counts.verdict().cache_full_at_s, counts.verdict().before_ns), (None, 800), "it never completed");
        counts.cache_full = None;
        counts.waits_for_cleaning(Nanos(50));
        let verdict = counts.verdict();
        assert_eq!((verdict.cache_full_at_s, verdict.before_bytes, verdict.before_ns), (Some(0.0), 0, 0));
    }
}
