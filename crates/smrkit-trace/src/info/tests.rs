mod model;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use smrkit::request::{InMemory, Op, Request};
use smrkit::units::{Lba, Nanos};

fn info_of(requests: Vec<Request>) -> TraceInfo {
    TraceInfo::from_source(&mut InMemory::new(requests)).unwrap()
}

fn at(second: u64, request: Request) -> Request {
    Request { time: Nanos(second * 1_000_000_000), ..request }
}

fn read(lba: u64, sectors: u32) -> Request {
    Request::new(Op::Read, Lba(lba), sectors)
}

fn write(lba: u64, sectors: u32) -> Request {
    Request::new(Op::Write, Lba(lba), sectors)
}

#[test]
fn a_trace_of_nothing_has_no_ratios() {
    let info = info_of(Vec::new());
    assert_eq!((info.requests, info.write_share, info.rewrite_share), (0, None, None));
    let json = serde_json::to_string(&info).unwrap();
    assert!(json.contains("\"write_share\":null") && !json.contains("NaN"));
}

#[test]
fn each_statistic_of_a_small_trace_is_right() {
    let flush = Request::new(Op::Flush, Lba(0), 0);
    let discard = Request::new(Op::Discard, Lba(0), 100);
    let info = info_of(vec![
        at(10, write(4, 8)),
        at(11, write(12, 8)),
        at(11, flush),
        at(13, write(4, 8)),
        at(12, read(8, 16)),
        at(20, Request { volume: 2, ..write(5000, 1) }),
        at(20, discard),
    ]);
    assert_eq!((info.requests, info.reads, info.writes, info.flushes, info.discards), (7, 1, 4, 1, 1));
    assert_eq!((info.read_bytes, info.written_bytes, info.discarded_bytes), (8192, 25 * 512, 51_200));
    let footprint = info.footprint;
    assert_eq!((footprint.read_sectors, footprint.written_sectors, footprint.touched_sectors), (16, 17, 21));
    assert_eq!(footprint.written_4kib_blocks, 4);
    assert_eq!(info.rewrite_share, Some(8.0 / 25.0));
    assert_eq!(info.written_tracks, 2);
    assert_eq!(info.highest_end_sectors, 5001);
    // write 12 follows write 4; the flush between leaves the order alone.
    assert_eq!((info.sequential.share, info.sequential.longest_run_requests), (Some(1.0 / 5.0), 2));
    assert_eq!((info.arrivals.first_ns, info.arrivals.span_ns), (10_000_000_000, 10_000_000_000));
    assert_eq!(info.arrivals.out_of_order_rows, 1);
    assert_eq!((info.arrivals.gap_ns.max, info.arrivals.mean_requests_per_s), (8_000_000_000, Some(0.7)));
    assert_eq!(info.rate.requests.iter().sum::<u64>(), 7);
    assert_eq!(info.arrivals.peak_requests_per_s, Some(2e9 / info.rate.window_ns as f64));
    assert_eq!(info.rate.first_written_bytes.iter().sum::<u64>(), 17 * 512);
    assert!(info.rate.requests.len() <= 512);
    assert_eq!((info.write_sizes.p50_bytes, info.write_sizes.min_bytes, info.write_sizes.max_bytes), (4096, 512, 4096));
    let volumes: Vec<_> = info.volumes.iter().map(|volume| (volume.index, volume.requests)).collect();
    assert_eq!(volumes, [(0, 6), (2, 1)]);
}

#[test]
fn gaps_are_told_apart_from_microseconds_to_hours() {
    let info = info_of((0..10).map(|n| at(n * 3600, write(0, 1))).collect());
    let hour = 3_600_000_000_000.0;
    assert!((info.arrivals.gap_ns.p50 as f64 / hour - 1.0).abs() < 0.001, "{:?}", info.arrivals.gap_ns.p50);
}

#[test]
fn volumes_take_the_names_of_the_table() {
    let mut info = info_of(vec![Request { volume: 1, ..write(0, 1) }]);
    let named = Volume { number: 77, name: "usr".to_string() };
    info.name_volumes(&[Volume::default(), named]);
    assert_eq!((info.volumes[0].index, info.volumes[0].number, info.volumes[0].name.as_str()), (1, 77, "usr"));
}

#[test]
fn extreme_times_and_places_are_counted_too() {
    let far = Request { time: Nanos(u64::MAX), volume: u16::MAX, ..write(u64::MAX - 1, u32::MAX) };
    let info = info_of(vec![far, read(0, 1), far, at(5, write(1 << 62, 8))]);
    assert_eq!(info.requests, 4);
    assert_eq!(info.arrivals.span_ns, u64::MAX);
    assert_eq!(info.rate.requests.iter().sum::<u64>(), 4);
}

/// A row of the table in the traces' README: the columns this compares.
struct Expected {
    requests: u64,
    write_percent: f64,
    written_mib: f64,
    unique_written_mib: f64,
    read_mib: f64,
    max_offset_gib: f64,
    duration_s: f64,
    sequential: f64,
    back: u64,
}

fn table(readme: &str) -> BTreeMap<String, Expected> {
    let rows = readme.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| file"));
    rows.filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let number = |at: usize| cells.get(at).and_then(|cell| cell.parse::<f64>().ok());
        let expected = Expected {
            requests: number(4)? as u64,
            write_percent: number(5)?,
            written_mib: number(6)?,
            unique_written_mib: number(7)?,
            read_mib: number(8)?,
            max_offset_gib: number(9)?,
            duration_s: number(10)?,
            sequential: number(11)?,
            back: number(12)? as u64,
        };
        Some((cells[1].to_string(), expected))
    })
    .collect()
}

/// The requests of a file of MSR rows; unaligned ends are rounded outward.
fn msr(path: &Path) -> Vec<Request> {
    let text = String::from_utf8(zstd::decode_all(&std::fs::read(path).unwrap()[..]).unwrap()).unwrap();
    let mut volumes = BTreeMap::new();
    let first = text.lines().filter_map(|line| line.split(',').next()?.parse::<u64>().ok()).min().unwrap_or(0);
    let rows = text.lines().map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        let next = volumes.len() as u16;
        let (start, end) = (number(4) / 512, (number(4) + number(5)).div_ceil(512));
        Request {
            time: Nanos((number(0) - first) * 100),
            volume: *volumes.entry((fields[1].to_string(), number(2))).or_insert(next),
            ..Request::new(if fields[3] == "Write" { Op::Write } else { Op::Read }, Lba(start), (end - start) as u32)
        }
    });
    rows.collect()
}

#[test]
fn real_traces_agree_with_the_table_they_came_with() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("SMRKIT_TRACES").map_or(beside, PathBuf::from);
    let Ok(readme) = std::fs::read_to_string(folder.join("README.md")) else {
        println!("skipped: no traces in $SMRKIT_TRACES or ../shared/traces");
        return;
    };
    let table = table(&readme);
    assert!(table.len() > 15, "the table was understood");
    for (name, expected) in table {
        let info = info_of(msr(&folder.join(format!("{name}.csv.zst"))));
        let near = |what: &str, ours: f64, theirs: f64, by: f64| {
            assert!((ours - theirs).abs() <= by, "{name}, {what}: {ours} here, {theirs} in the table");
        };
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        assert_eq!(info.requests, expected.requests, "{name}");
        near("write %", info.write_share.unwrap() * 100.0, expected.write_percent, 0.051);
        near("written MiB", mib(info.written_bytes), expected.written_mib, 0.051);
        near("unique MiB", mib(info.footprint.written_4kib_blocks * 4096), expected.unique_written_mib, 0.051);
        near("read MiB", mib(info.read_bytes), expected.read_mib, 0.051);
        near("max offset GiB", mib(info.highest_end_sectors * 512) / 1024.0, expected.max_offset_gib, 0.0051);
        near("duration s", info.arrivals.span_ns as f64 / 1e9, expected.duration_s, 0.051);
        near("seq", info.sequential.share.unwrap(), expected.sequential, 0.00051);
        assert_eq!(info.arrivals.out_of_order_rows, expected.back, "{name}");
    }
}
