//! Outcomes made up for tests: a conventional disk, a cache that fills, and read-modify-write.

use smrkit::experiment::Experiment;
use smrkit::experiment::demand::Table;
use smrkit::experiment::system::System;
use smrkit::settings::{Prefill, Settings};
use smrkit::stats::outcome::*;
use smrkit::stats::rebuild::{BusyTimes, MemberRebuild, Series};

/// A run of 1,000 s with the counts that any layer has.
fn run(layer: &str) -> Outcome {
    Outcome {
        layer: layer.into(),
        drive: "cassuto-table1".into(),
        engine: Settings { prefill: Prefill::None, ..Settings::default() },
        state: State { prefill: Prefill::None, ..State::default() },
        seed: 1,
        version: "0.1.0".into(),
        commit: Some("31c86d2".into()),
        replayed: Replayed {
            trace: Some("traces/day.csv.zst".into()),
            trace_sha256: Some("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into()),
            trace_format: Some("msr".into()),
            trace_notes: TraceNotes { unaligned_rows: 12, ..TraceNotes::default() },
            ..Replayed::default()
        },
        requests: 750_000,
        host_read_sectors: 2_000_000,
        host_written_sectors: 6_000_000,
        physical_read_sectors: cause(2_000_000, 0, 0, 0),
        physical_written_sectors: cause(6_000_000, 0, 0, 0),
        busy_by_cause_ns: cause(600_000_000_000, 0, 0, 0),
        write_amplification: Some(1.0),
        slowdown: Some(1.0),
        latency_ns: latencies(1.0),
        busy_ns: 600_000_000_000,
        elapsed_ns: 630_000_000_000,
        map_bytes: 0,
        capacity: Capacity { raw_sectors: 1_000_000_000, host_sectors: 1_000_000_000, ..Capacity::default() },
        timeline: timeline(63, 10_000_000_000, false),
        surface: surface(false),
        latency_histogram: Histograms { read: histogram(8e6, 0), write: histogram(1e6, 0) },
        verdict: Verdict {
            rate_before_bytes_per_s: Some(6.6e6),
            longest_stall_ns: 210_000_000,
            text: "6.6 MB/s throughout; the longest request takes 0.2 s.".into(),
            ..Verdict::default()
        },
        ..empty()
    }
}

/// A conventional disk.
pub fn in_place() -> Outcome {
    run("in-place")
}

/// A set-associative cache of this many percent that fills after 300 s.
pub fn set_assoc(cache_percent: u64) -> Outcome {
    Outcome {
        parameters: [("cache_percent", cache_percent), ("region_sectors", 50_000)]
            .map(|(k, v)| (k.to_string(), Scalar::Int(v)))
            .into(),
        physical_written_sectors: cause(6_000_000, 0, 14_916_000, 0),
        physical_read_sectors: cause(2_000_000, 5_900_000, 9_000_000, 0),
        busy_by_cause_ns: cause(700_000_000_000, 500_000_000_000, 900_000_000_000, 0),
        write_amplification: Some(3.486),
        slowdown: Some(3.4865),
        latency_ns: latencies(4.0),
        elapsed_ns: 2_180_000_000_000,
        busy_ns: 2_100_000_000_000,
        map_bytes: 18_400_000,
        cleaning: Cleaning { count: 4_200, sectors: 29_800_000, ns: 1_400_000_000_000, max_ns: 34_200_000_000 },
        capacity: Capacity {
            raw_sectors: 1_000_000_000,
            host_sectors: 980_000_000,
            cache_sectors: 10_000_000,
            guard_sectors: 6_000_000,
            spare_sectors: 4_000_000,
        },
        timeline: timeline(218, 10_000_000_000, true),
        surface: surface(true),
        latency_histogram: Histograms { read: histogram(8e6, 40), write: histogram(1e6, 300) },
        verdict: Verdict {
            cache_full_at_s: Some(300.0),
            rate_before_bytes_per_s: Some(6.6e6),
            rate_after_bytes_per_s: Some(1.1e6),
            longest_stall_ns: 34_200_000_000,
            stalls_over_7s: 212,
            stalls_over_30s: 3,
            baseline_mean_ns: Some(in_place().latency_ns.all.mean),
            baseline_p99_ns: Some(in_place().latency_ns.all.p99),
            baseline_stalls_over_7s: Some(0),
            baseline_stalls_over_30s: Some(0),
            text:
                "the cache is full after 5.0 min; the rate falls from 6.6 to 1.1 MB/s, and 212 requests wait over 7 s."
                    .into(),
            ..Verdict::default()
        },
        ..run("set-assoc")
    }
}

/// Read-modify-write without a cache.
pub fn rmw() -> Outcome {
    Outcome {
        parameters: [("portion".to_string(), Scalar::Text("smallest".into()))].into(),
        physical_written_sectors: cause(0, 0, 240_000_000, 0),
        busy_by_cause_ns: cause(90_000_000_000, 0, 9_000_000_000_000, 0),
        write_amplification: Some(40.0),
        slowdown: Some(14.8),
        latency_ns: latencies(15.0),
        elapsed_ns: 9_240_000_000_000,
        busy_ns: 9_090_000_000_000,
        timeline: timeline(231, 40_000_000_000, false),
        cleaning: Cleaning { count: 500_000, sectors: 480_000_000, ns: 9_000_000_000_000, max_ns: 700_000_000 },
        verdict: Verdict {
            baseline_mean_ns: Some(in_place().latency_ns.all.mean),
            baseline_p99_ns: Some(in_place().latency_ns.all.p99),
            ..run("rmw").verdict
        },
        ..run("rmw")
    }
}

/// A comparison of the three.
pub fn comparison() -> Vec<Outcome> {
    vec![in_place(), set_assoc(1), rmw()]
}

/// A mirror that fails after 100 s, whose new member takes 300 s.
pub fn rebuilt() -> Outcome {
    let busy =
        BusyTimes { total: 210e9 as u64, host_write: 120e9 as u64, clean_write: 90e9 as u64, ..BusyTimes::default() };
    let new = MemberRebuild { new: true, busy_ns: busy, ..MemberRebuild::default() };
    let rebuild = Rebuild {
        begin_ns: 100e9 as u64,
        elapsed_ns: 300e9 as u64,
        bytes: 4_000_000_000,
        series: Series { window_ns: 120e9 as u64, bytes: vec![1_000_000_000, 2_000_000_000, 1_000_000_000] },
        foreground_ns: latencies(1.0),
        members: vec![MemberRebuild::default(), new],
        ..Rebuild::default()
    };
    Outcome { array: Some("raid1:disks=2".into()), rebuild: Some(rebuild), ..in_place() }
}

/// Read-modify-write under two sources, one of which asked for nothing, with movements counted.
pub fn merged() -> Outcome {
    let latency_ns = latencies(1.0);
    let writes =
        SourceCounts { requests: 750_000, host_written_sectors: 6_000_000, latency_ns, ..SourceCounts::default() };
    let source = |text: &str| MergedSource { workload: Some(text.into()), ..MergedSource::default() };
    let movement = Movement::new(cause(4_000_000, 0, 1_500_000, 0), cause(600_000, 0, 90_000, 0), 100_000, 7_000);
    let mut run = Outcome { by_source: Some(vec![writes, SourceCounts::default()]), movement: Some(movement), ..rmw() };
    run.replayed.sources = Some(vec![source("random-write"), source("random-read\u{1b}[2J")]);
    run.engine.movement = true;
    run
}

/// A run in which nothing happened: no request of a table on the smallest drive.
pub fn empty() -> Outcome {
    let system = System::drive("tiny").layer("in-place");
    let settings = Settings { prefill: Prefill::None, ..Settings::default() };
    let runs = Experiment::new(system, Table([].into())).settings(settings).compare().unwrap();
    let mut one = runs.into_iter().next().unwrap();
    (one.layer, one.drive, one.version) = ("set-assoc".into(), "small".into(), "0.1.0".into());
    one
}

/// A run of one request of no measurable length.
pub fn single() -> Outcome {
    Outcome {
        requests: 1,
        host_written_sectors: 8,
        physical_written_sectors: cause(8, 0, 0, 0),
        write_amplification: Some(1.0),
        elapsed_ns: 5_000_000,
        timeline: Timeline {
            window_ns: 1_000_000_000,
            requests: vec![1],
            read_bytes: vec![0],
            written_bytes: vec![4096],
            longest_ns: vec![5_000_000],
            ..Timeline::default()
        },
        latency_histogram: Histograms { read: vec![], write: vec![(5_000_000, 1)] },
        ..empty()
    }
}

fn cause(host: u64, destage: u64, clean: u64, map: u64) -> ByCause {
    ByCause { total: host + destage + clean + map, host, destage, clean, map }
}

fn latencies(factor: f64) -> Latencies {
    let ns = |milliseconds: f64| (milliseconds * factor * 1e6) as u64;
    let all = Latency {
        count: 750_000,
        mean: ns(0.83),
        p50: ns(0.4),
        p90: ns(2.0),
        p95: ns(4.0),
        p99: ns(9.1),
        p99_5: ns(12.0),
        p99_9: ns(31.0),
        max: (210e6 * factor.powf(3.67)) as u64,
    };
    Latencies { all, read: all, write: all }
}

/// Requests around `middle_ns`, and a tail of `slow` requests of seconds.
fn histogram(middle_ns: f64, slow: u64) -> Vec<(u64, u64)> {
    let bucket = |i: i32| {
        let ns = middle_ns * 1.03f64.powi(i - 80);
        (ns as u64, (3000.0 * (-((i - 80) as f64 / 30.0).powi(2)).exp()) as u64 + 1)
    };
    let mut buckets: Vec<_> = (0..160).map(bucket).collect();
    if slow > 0 {
        buckets.extend((0..60).map(|i| ((1e9 * 1.06f64.powi(i)) as u64, slow / 60 + 1)));
    }
    buckets
}

fn timeline(windows: usize, window_ns: u64, fills: bool) -> Timeline {
    let wave = |i: usize| ((i * 7919) % 97) as f64 / 97.0;
    let full = |i: usize| fills && i >= 30;
    let rate = |i: usize| if full(i) { 340.0 * wave(i) } else { 1200.0 + 90.0 * wave(i) };
    let requests: Vec<u64> = (0..windows).map(|i| (rate(i) * window_ns as f64 / 1e9) as u64).collect();
    let longest = |i: usize| if full(i) { 0.4 * 85f64.powf(wave(i)) } else { 0.05 + 0.16 * wave(i) };
    Timeline {
        window_ns,
        read_bytes: requests.iter().map(|n| n * 1024).collect(),
        written_bytes: requests.iter().map(|n| n * 4096).collect(),
        physical_written_bytes: requests.iter().map(|n| n * 10_240).collect(),
        longest_ns: (0..windows).map(|i| (longest(i) * 1e9) as u64).collect(),
        cache_fill: if fills {
            (0..windows).map(|i| (i as f64 / 30.0).min(1.0 - 0.04 * wave(i))).collect()
        } else {
            vec![]
        },
        gauges: match fills {
            true => {
                [("regions_dirty".to_string(), (0..windows).map(|i| (i as f64 * 60.0).min(1800.0)).collect())].into()
            }
            false => [].into(),
        },
        gauge_units: [].into(),
        requests,
    }
}

fn surface(cached: bool) -> Surface {
    let wave = |i: usize| ((i * 7919) % 97) as u64 * 97;
    let hot = |i: usize| if i % 128 < 40 { 20_000 + wave(i) } else { wave(i) / 20 };
    Surface {
        part_sectors: 1_953_125,
        host: (0..512).map(|i| if cached { if i < 6 { 1_000_000 } else { 0 } } else { hot(i) }).collect(),
        clean: (0..512).map(|i| if cached && i >= 6 { 3 * hot(i) } else { 0 }).collect(),
        destage: vec![0; 512],
        map: vec![],
    }
}
