//! `smrkit trace info` for people: tables and JSON of one trace's statistics.

use std::path::Path;

use serde_json::{Value, json};
use smrkit::error::Error;
use smrkit::request::Request;
use smrkit_trace::info::{Sizes, TraceInfo, VolumeInfo};
use smrkit_trace::{Trace, TraceNotes, Volume, is_one_gap, note_on_volumes};

use crate::format::{bytes, count, counted, nanos, percent, sectors, short};
use crate::grid::{Column, Grid};

/// The most volumes listed; of more, only the busiest are.
const VOLUMES_SHOWN: usize = 12;

/// All of it as text.
pub fn text(path: &Path, trace: &Trace, info: &TraceInfo) -> String {
    let mut text = format!("{}: format {}", path.display(), trace.format);
    if let Some(detail) = trace.detail() {
        text += &format!(" ({detail})");
    }
    text += &format!(", sha256 {}\n\n", trace.sha256().unwrap_or_else(|| "unknown".into()));
    text += &format!("{}\n\n{}\n", mix(info).text(), facts(trace, info).text());
    if info.volumes.len() > 1 {
        text += &format!("\n{}\n", volumes(info).text());
        text += &remedy(info)
            .map_or_else(String::new, |remedy| format!("\nA run lays them end to end on one disk: {remedy}\n"));
    }
    text
}

/// The statistics, and the facts that the reader knows.
pub fn json(path: &Path, trace: &Trace, info: &TraceInfo) -> Result<Value, Error> {
    let mut value = serde_json::to_value(info).map_err(|error| Error::writing(path, error.into()))?;
    value["trace"] = json!(path.display().to_string());
    value["format"] = json!(trace.format);
    value["sha256"] = json!(trace.sha256());
    value["notes"] = json!(trace.notes());
    Ok(value)
}

/// The first requests of a trace as text; `volume` gives a request's volume its number.
pub fn head(format: &str, rows: &[Request], volume: impl Fn(&Request) -> u64) -> String {
    let mut text =
        format!("format {format}\n{:>16}  {:>6}  {:<8}  {:>14}  {:>9}\n", "time s", "volume", "op", "LBA", "sectors");
    for request in rows {
        let (time, op) = (format!("{:.6}", request.time.as_secs()), request.op.name());
        let (volume, lba, sectors) = (volume(request), request.lba, request.sectors);
        text += &format!("{time:>16}  {volume:>6}  {op:<8}  {lba:>14}  {sectors:>9}\n");
    }
    text
}

/// Sentences on rows that were mended, skipped or out of order.
pub fn warnings(notes: TraceNotes) -> Vec<String> {
    let kinds = [
        (notes.skipped_rows, "malformed row was left out", "malformed rows were left out"),
        (
            notes.unaligned_rows,
            "row was not aligned to 512 bytes; its offset was rounded down, its end up",
            "rows were not aligned to 512 bytes; their offsets were rounded down, their ends up",
        ),
        (
            notes.out_of_order_rows,
            "row has a time before the row above it",
            "rows have a time before the row above them",
        ),
    ];
    let found = kinds.into_iter().filter(|(count, ..)| *count > 0);
    found.map(|(count, one, several)| format!("{count} {}", if count == 1 { one } else { several })).collect()
}

/// Counts and sizes of reads and writes.
fn mix(info: &TraceInfo) -> Grid {
    let row = |name: &str, requests: u64, total: u64, distinct_sectors: u64, sizes: &Sizes| {
        let mean = sizes.mean_bytes.map_or("-".into(), bytes);
        let [median, p99, largest] = [sizes.p50_bytes, sizes.p99_bytes, sizes.max_bytes].map(|size| bytes(size as f64));
        let share = percent(requests as f64, info.requests as f64);
        let distinct = sectors(distinct_sectors);
        vec![name.into(), count(requests), share, bytes(total as f64), distinct, mean, median, p99, largest]
    };
    let header = ["", "requests", "share", "bytes", "distinct", "mean size", "median", "99 %", "largest"];
    let rows = vec![
        row("reads", info.reads, info.read_bytes, info.footprint.read_sectors, &info.read_sizes),
        row("writes", info.writes, info.written_bytes, info.footprint.written_sectors, &info.write_sizes),
    ];
    Grid { rows, ..Grid::new(header) }
}

/// How to choose one of several volumes; `None` if there is only one.
fn remedy(info: &TraceInfo) -> Option<String> {
    let named = info.volumes.iter().map(|one| (Volume { number: one.number, name: one.name.clone() }, one.requests));
    let named: Vec<(Volume, u64)> = named.collect();
    let [_, remedy] = note_on_volumes(&named.iter().map(|(volume, requests)| (volume, *requests)).collect::<Vec<_>>())?;
    Some(remedy)
}

fn facts(trace: &Trace, info: &TraceInfo) -> Grid {
    let share = |value: Option<f64>| value.map_or("-".into(), |share| percent(share, 1.0));
    let rate = |value: Option<f64>| value.map_or("-".into(), |rate| format!("{} requests/s", short(rate)));
    let (arrivals, notes) = (&info.arrivals, trace.notes());
    let mut grid = Grid::new(["what", "value"]);
    let mut row = |what: &str, value: String| grid.rows.push(vec![what.into(), value]);
    row("requests", count(info.requests));
    if info.flushes + info.discards > 0 {
        row("flushes, discards", format!("{}, {}", count(info.flushes), count(info.discards)));
    }
    row("highest address", sectors(info.highest_end_sectors));
    row("distinct data touched", sectors(info.footprint.touched_sectors));
    row("4 KiB blocks written", count(info.footprint.written_4kib_blocks));
    row(&format!("tracks of {} written", bytes(info.track_bytes as f64)), count(info.written_tracks));
    row("written before (rewrites)", share(info.rewrite_share));
    row("sequential requests", share(info.sequential.share));
    row("longest run", counted(info.sequential.longest_run_requests, "request"));
    let is_mostly_gap = is_one_gap(info.requests, arrivals.gap_ns.max, arrivals.span_ns);
    let doubt = match () {
        () if trace.refuse_no_times().is_err() => ": no column tells times",
        () if arrivals.span_ns == 0 && notes.out_of_order_rows > 0 => {
            ", with all before the first row: look at its time"
        }
        () if is_mostly_gap => ", nearly all of it one gap: look for a wrong time",
        () => "",
    };
    row("time span", nanos(arrivals.span_ns) + doubt);
    row("mean rate", rate(arrivals.mean_requests_per_s));
    row("busiest window", rate(arrivals.peak_requests_per_s));
    row("gaps: median, 99 %", format!("{}, {}", nanos(arrivals.gap_ns.p50), nanos(arrivals.gap_ns.p99)));
    row("rows skipped, unaligned", format!("{}, {}", count(notes.skipped_rows), count(notes.unaligned_rows)));
    row("rows out of time order", count(notes.out_of_order_rows));
    grid
}

fn volumes(info: &TraceInfo) -> Grid {
    let columns: [Column<&VolumeInfo>; 6] = [
        ("volume", |volume| match volume.name.as_str() {
            "" => volume.number.to_string(),
            name => name.to_string(),
        }),
        ("requests", |volume| count(volume.requests)),
        ("writes", |volume| percent(volume.writes as f64, volume.requests as f64)),
        ("read", |volume| bytes(volume.read_bytes as f64)),
        ("written", |volume| bytes(volume.written_bytes as f64)),
        ("highest address", |volume| sectors(volume.highest_end_sectors)),
    ];
    let mut busiest: Vec<&VolumeInfo> = info.volumes.iter().collect();
    busiest.sort_by_key(|volume| std::cmp::Reverse(volume.requests));
    let mut grid = Grid::of_items(busiest.iter().take(VOLUMES_SHOWN).copied(), &columns);
    if busiest.len() > VOLUMES_SHOWN {
        let rest = format!("and {} more", busiest.len() - VOLUMES_SHOWN);
        grid.rows.push([rest].into_iter().chain((1..columns.len()).map(|_| "-".to_string())).collect());
    }
    grid
}
