//! The statistics counted anew, the slow way: every sector, gap and window in a list of its own.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos};

use super::super::*;
use super::info_of;

const TRACK: u64 = 2048;

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn is_data(request: &&Request) -> bool {
    matches!(request.op, Op::Read | Op::Write)
}

fn sectors_of(requests: &[Request], op: Op) -> BTreeSet<(u16, u64)> {
    let of = |request: &Request| {
        let (volume, lba) = (request.volume, request.lba.0);
        (lba..lba + u64::from(request.sectors)).map(move |sector| (volume, sector))
    };
    requests.iter().filter(|request| request.op == op).flat_map(of).collect()
}

fn pieces(sectors: &BTreeSet<(u16, u64)>, size: u64) -> u64 {
    sectors.iter().map(|(volume, sector)| (*volume, sector / size)).collect::<BTreeSet<_>>().len() as u64
}

fn sizes(requests: &[Request], op: Op) -> Sizes {
    let own = requests.iter().filter(|request| request.op == op);
    let mut all: Vec<u64> = own.map(|request| u64::from(request.sectors) * 512).collect();
    all.sort_unstable();
    let rank = |percent: usize| all.get((all.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0);
    let mut histogram = BTreeMap::new();
    for size in &all {
        *histogram.entry(size.next_power_of_two()).or_insert(0) += 1;
    }
    Sizes {
        mean_bytes: (!all.is_empty()).then(|| all.iter().sum::<u64>() as f64 / all.len() as f64),
        min_bytes: all.first().copied().unwrap_or(0),
        p50_bytes: rank(50),
        p90_bytes: rank(90),
        p99_bytes: rank(99),
        max_bytes: all.last().copied().unwrap_or(0),
        histogram: histogram.into_iter().collect(),
    }
}

/// The requests of each stretch of requests that begin where the one before on their volume ended.
fn runs(requests: &[Request]) -> Vec<u64> {
    let mut runs = Vec::new();
    for volume in requests.iter().map(|request| request.volume).collect::<BTreeSet<_>>() {
        let mut end = None;
        for request in requests.iter().filter(is_data).filter(|request| request.volume == volume) {
            if end != Some(request.lba.0) {
                runs.push(0);
            }
            *runs.last_mut().unwrap() += 1;
            end = Some(request.lba.0 + u64::from(request.sectors));
        }
    }
    runs
}

fn rate(requests: &[Request]) -> RateSeries {
    let start = requests[0].time.0;
    let since = |request: &Request| request.time.0.saturating_sub(start);
    let latest = requests.iter().map(since).max().unwrap();
    let mut window_ns = 1_000_000;
    while latest / window_ns >= 512 {
        window_ns *= 2;
    }
    let windows = (latest / window_ns) as usize + 1;
    let mut series = RateSeries {
        window_ns,
        requests: vec![0; windows],
        read_bytes: vec![0; windows],
        written_bytes: vec![0; windows],
        first_written_bytes: vec![0; windows],
    };
    let mut written = BTreeSet::new();
    for request in requests {
        let (at, bytes) = ((since(request) / window_ns) as usize, u64::from(request.sectors) * 512);
        series.requests[at] += 1;
        match request.op {
            Op::Read => series.read_bytes[at] += bytes,
            Op::Write => {
                series.written_bytes[at] += bytes;
                let first = sectors_of(&[*request], Op::Write).into_iter().filter(|sector| written.insert(*sector));
                series.first_written_bytes[at] += first.count() as u64 * 512;
            }
            Op::Flush | Op::Discard => {}
        }
    }
    series
}

fn arrivals(requests: &[Request], series: &RateSeries, ours: &Arrivals) {
    let times: Vec<u64> = requests.iter().map(|request| request.time.0).collect();
    let (first, last) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
    assert_eq!((ours.first_ns, ours.span_ns), (first, last - first));
    let near = |what: &str, ours: Option<f64>, theirs: Option<f64>| match (ours, theirs) {
        (Some(a), Some(b)) => assert!((a - b).abs() <= 1e-6 * b.abs().max(1e-3), "{what}: {a}, not {b}"),
        both => assert_eq!(both, (None, None), "{what}"),
    };
    let rows = times.len() as f64;
    let per_s = |count: f64, ns: u64| (ns > 0).then(|| count * 1e9 / ns as f64);
    near("mean", ours.mean_requests_per_s, per_s(rows, last - first));
    let busiest = *series.requests.iter().max().unwrap() as f64;
    near("peak", ours.peak_requests_per_s, per_s(busiest, series.window_ns));
    let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    gaps.sort_unstable();
    let back = times.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
    assert_eq!((ours.out_of_order_rows, ours.gap_ns.max), (back, gaps.last().copied().unwrap_or(0)));
    let mean = gaps.iter().sum::<u64>() as f64 / gaps.len().max(1) as f64;
    assert!((ours.gap_ns.mean as f64 - mean).abs() <= 1.0, "{} {mean}", ours.gap_ns.mean);
    let quantiles =
        [(0.5, ours.gap_ns.p50), (0.9, ours.gap_ns.p90), (0.99, ours.gap_ns.p99), (0.999, ours.gap_ns.p99_9)];
    for (quantile, ours) in quantiles {
        let rank = ((gaps.len() as f64 * quantile).ceil() as usize).max(1) - 1;
        let exact = gaps.get(rank).copied().unwrap_or(0);
        assert!(ours.abs_diff(exact) as f64 <= 1.0 + exact as f64 * 1e-4, "{quantile}: {ours}, not {exact}");
    }
}

fn volumes(requests: &[Request]) -> Vec<VolumeInfo> {
    let all = requests.iter().map(|request| request.volume).collect::<BTreeSet<_>>();
    let of = |index: u16| {
        let own: Vec<Request> = requests.iter().filter(|request| request.volume == index).copied().collect();
        let count = |op| own.iter().filter(|request| request.op == op).count() as u64;
        let bytes = |op| own.iter().filter(|request| request.op == op).map(|one| u64::from(one.sectors) * 512).sum();
        VolumeInfo {
            index,
            number: u64::from(index),
            name: String::new(),
            requests: own.len() as u64,
            reads: count(Op::Read),
            writes: count(Op::Write),
            read_bytes: bytes(Op::Read),
            written_bytes: bytes(Op::Write),
            highest_end_sectors: own
                .iter()
                .filter(is_data)
                .map(|request| request.lba.0 + u64::from(request.sectors))
                .max()
                .unwrap_or(0),
        }
    };
    all.into_iter().map(of).collect()
}

fn same_as_the_slow_way(requests: &[Request]) {
    let info = info_of(requests.to_vec());
    let (read, written) = (sectors_of(requests, Op::Read), sectors_of(requests, Op::Write));
    let count = |op| requests.iter().filter(|request| request.op == op).count() as u64;
    let bytes = |op| requests.iter().filter(|one| one.op == op).map(|one| u64::from(one.sectors) * 512).sum::<u64>();
    let (runs, series) = (runs(requests), rate(requests));
    arrivals(requests, &series, &info.arrivals);
    let (data, written_bytes) = (count(Op::Read) + count(Op::Write), bytes(Op::Write));
    let ends = volumes(requests).iter().map(|volume| volume.highest_end_sectors).max().unwrap();
    let expected = TraceInfo {
        requests: requests.len() as u64,
        reads: count(Op::Read),
        writes: count(Op::Write),
        flushes: count(Op::Flush),
        discards: count(Op::Discard),
        write_share: share(count(Op::Write), requests.len() as u64),
        read_bytes: bytes(Op::Read),
        written_bytes,
        discarded_bytes: bytes(Op::Discard),
        highest_end_sectors: ends,
        footprint: Footprint {
            read_sectors: read.len() as u64,
            written_sectors: written.len() as u64,
            touched_sectors: read.union(&written).count() as u64,
            written_4kib_blocks: pieces(&written, 8),
        },
        rewrite_share: share(written_bytes / 512 - written.len() as u64, written_bytes / 512),
        track_bytes: TRACK * 512,
        written_tracks: pieces(&written, TRACK),
        read_sizes: sizes(requests, Op::Read),
        write_sizes: sizes(requests, Op::Write),
        sequential: Sequential {
            share: share(data - runs.len() as u64, data),
            longest_run_requests: runs.iter().copied().max().unwrap_or(0),
        },
        arrivals: info.arrivals.clone(),
        rate: series,
        volumes: volumes(requests),
    };
    assert_eq!(info, expected);
}

/// Requests that follow each other now and then, on three volumes, with pauses from microseconds to minutes.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let op = prop_oneof![4 => Just(Op::Read), 4 => Just(Op::Write), 1 => Just(Op::Flush), 1 => Just(Op::Discard)];
    let place = prop_oneof![3 => 0..40_000_u64, 1 => 0..3_000_000_u64];
    let gap = prop_oneof![5 => 0..400_u64, 2 => 0..4_000_000_u64, 1 => 0..200_000_000_u64];
    let one = (op, place, 1..70_u32, 0..3_u16, gap, 0..10_u8);
    prop::collection::vec(one, 1..120).prop_map(|all| {
        let (mut us, mut ends) = (1_000_000_u64, [0; 3]);
        let request = |(op, place, sectors, volume, gap, chance): (Op, u64, u32, u16, u64, u8)| {
            us = if chance == 0 { us.saturating_sub(gap) } else { us + gap };
            let lba = if chance > 6 { ends[usize::from(volume)] } else { place };
            let sectors = if op == Op::Flush { 0 } else { sectors * if chance == 1 { 100 } else { 1 } };
            ends[usize::from(volume)] = lba + u64::from(sectors);
            Request { time: Nanos(us * 1000), volume, ..Request::new(op, Lba(lba), sectors) }
        };
        all.into_iter().map(request).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn all_statistics_are_those_that_are_counted_the_slow_way(requests in requests()) {
        same_as_the_slow_way(&requests);
    }
}

#[test]
fn windows_double_where_the_five_hundred_and_twelfth_is_full() {
    let of = |ends_ms: &[u64]| {
        let at = |ms: &u64| Request { time: Nanos(ms * 1_000_000), ..Request::new(Op::Write, Lba(ms * 8), 8) };
        let requests: Vec<Request> = ends_ms.iter().map(at).collect();
        same_as_the_slow_way(&requests);
        let rate = info_of(requests).rate;
        (rate.window_ns / 1_000_000, rate.requests.len())
    };
    assert_eq!(of(&[0, 511]), (1, 512));
    assert_eq!(of(&[0, 511, 512]), (2, 257));
    assert_eq!(of(&[0, 3, 1023, 1024, 5000]), (16, 313));
}
