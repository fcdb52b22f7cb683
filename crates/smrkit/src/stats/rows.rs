//! The row of `--requests`: a request as it was served. `smrkit-trace` writes such rows as Parquet.

use super::counts::Times;
use crate::request::{Op, Request};
use crate::units::Nanos;

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
    /// The row of the request number `index`, with times from `begin` on; `row` is its own in its source.
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
}
