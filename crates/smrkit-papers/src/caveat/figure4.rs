//! Figure 4 (a): what is on the disk over time, for both models.

use smrfs::age::course::{Course, PAPER_DISK_BYTES, Sample};
use smrfs::workload::driver::End;

use super::super::Shown;
use super::super::row::{Row, Verdict};
use super::{GB, Pair, hours};
use smrkit_report::figure::{Axis, Body, Figure, Panel, Series, Style};

pub fn shown(pairs: &[Pair]) -> Shown {
    let first = &pairs[0];
    let text = vec![
        format!(
            "A disk of {:.0} GB aged to 70 %, DID and DPID 1 MiB, next-fit, bands of 32 MiB, cleaning events of 128 MiB, ager \
             and benchmark interleaved by 8 blocks; no fsync, everything made durable every 5 s. Seed {}; further seeds up to \
             B. The checker watched every write.",
            PAPER_DISK_BYTES as f64 / GB,
            first.seed
        ),
        "Time is the model's clock. Strict-append is shown up to the user data that Caveat-Scriptor had written at its end."
            .into(),
    ];
    let rows = pairs.iter().flat_map(|pair| rows_of_seed(pair)).chain(rows_of_first(first)).collect();
    Shown { text, rows, figure: Some(figure(first)) }
}

/// What must hold on every seed.
fn rows_of_seed(pair: &Pair) -> Vec<Row> {
    let Pair { seed, strict, caveat } = pair;
    let mut rows = Vec::new();
    let Some(a) = &strict.a else { return rows };
    let first = strict.first_cleaning.as_ref();
    rows.push(Row::holds(
        format!("seed {seed}: strict-append's first cleaning"),
        "before A",
        moment(first),
        "",
        first.is_some_and(|first| first.written_bytes < a.written_bytes),
        format!("before A, at {}", moment(Some(a))),
    ));
    let (out, reason) = ran_out(caveat);
    rows.push(Row::holds(
        format!("seed {seed}: Caveat-Scriptor first needs cleaning"),
        "after B",
        out,
        "",
        caveat.b.is_some() && caveat.first_cleaning.is_none(),
        format!("after B, or never; {reason}"),
    ));
    if let (Some(a), Some(b)) = (&caveat.a, &caveat.b) {
        let [at_a, at_b] = [a, b].map(|sample| sample.not_writable_bytes as f64 / GB);
        let reason = format!("{at_a:.2} GB at A: more at B");
        rows.push(Row::holds(format!("seed {seed}: NW at B"), "more than at A", at_b, "GB", at_b > at_a, reason));
    }
    rows
}

/// What the paper says of its one run.
fn rows_of_first(pair: &Pair) -> Vec<Row> {
    let mut rows = Vec::new();
    let (strict, caveat) = (pair.strict, pair.caveat);
    if let (Some(a), Some(b)) = (&caveat.a, &caveat.b) {
        let filled = 100.0 * a.live_bytes as f64 / PAPER_DISK_BYTES as f64;
        rows.push(Row::near("user data at A", 70.0.into(), filled, "%", 6.0, "the target, its swing and a file"));
        let more = kept_by_benchmarks(caveat) / GB;
        let row = Row::near("user data that the benchmarks leave at B", 4.5.into(), more, "GB", 10.0, "2 × 250 files");
        rows.push(row.by_construction());
        let gained = (b.live_bytes as f64 - a.live_bytes as f64) / GB;
        rows.push(Row::not_comparable("user data at B less that at A", gained, "GB", "the ager's swing is in it"));
    }
    let fullest = strict.samples.iter().map(|sample| sample.writable_bytes).min().unwrap_or(0);
    let least = 100.0 * fullest as f64 / PAPER_DISK_BYTES as f64;
    rows.push(Row::holds(
        "strict-append: least writable space",
        "about 5",
        least,
        "%",
        (2.0..=7.0).contains(&least),
        "cleaning begins below 5 % of the bands; between 2 and 7 %",
    ));
    let (out, reason) = ran_out(caveat);
    rows.push(Row {
        verdict: Verdict::NotComparable,
        paper: "5.5 h".into(),
        ..Row::holds("C", "", out, "", false, reason)
    });
    let strict_end = up_to(strict, caveat.last.written_bytes).last().map_or(f64::NAN, hours);
    let reason = format!("Caveat-Scriptor took {:.2} h for the same user data", hours(&caveat.last));
    rows.push(Row::holds(
        "strict-append: time for the same user data",
        "longer",
        strict_end,
        "h",
        strict_end > hours(&caveat.last),
        reason,
    ));
    rows
}

/// Bytes that the benchmarks' files keep.
fn kept_by_benchmarks(course: &Course) -> f64 {
    course.benchmarks.iter().map(|measured| measured.kept_bytes as f64).sum()
}

/// When a disk without a defragmenter ran out, in words, and what that says.
pub fn ran_out(course: &Course) -> (String, String) {
    let written = format!("{:.2} TB written", course.last.written_bytes as f64 / 1e12);
    match course.end {
        End::Full => {
            let when = if course.b.is_some() {
                "after B"
            } else if course.a.is_some() {
                "between A and B"
            } else {
                "before A"
            };
            (moment(Some(&course.last)), format!("no room for a block, {when}, {written}"))
        }
        End::Done | End::Stopped => ("never".into(), format!("up to the end, {written}")),
    }
}

fn moment(sample: Option<&Sample>) -> String {
    sample.map_or("never".into(), |sample| format!("{:.2} h", hours(sample)))
}

/// The samples up to so many bytes written.
fn up_to(course: &Course, written_bytes: u64) -> impl Iterator<Item = &Sample> {
    course.samples.iter().take_while(move |sample| sample.written_bytes <= written_bytes)
}

fn figure(pair: &Pair) -> Figure {
    let disk_gb = PAPER_DISK_BYTES as f64 / GB;
    let y = || Axis { fixed: Some((0.0, disk_gb)), ..Axis::linear("space (GB)") };
    let panel = |title: &str, series| Panel {
        title: Some(title.into()),
        x: Axis::linear("time (h)"),
        y: y(),
        guides: vec![(0.7 * disk_gb, "70 %".into())],
        body: Body::Lines(series),
    };
    let caveat = course_lines(pair.caveat, disk_gb);
    let strict = strict_lines(pair, disk_gb);
    let mut figure = Figure {
        name: "caveat-figure-4".into(),
        title: "Space over time through ageing and four benchmark runs (figure 4 a)".into(),
        note: "A to B: twice Postmark and twice Filebench beside the ager at half speed. C: Caveat-Scriptor has no room for \
               a block."
            .into(),
        panels: vec![panel("Strict-append", strict), panel("Caveat-Scriptor", caveat)],
    };
    figure.share_x();
    figure
}

fn line(n: usize, name: &str, style: Style, samples: &[&Sample], of: impl Fn(&Sample) -> u64) -> Series {
    let points = samples.iter().map(|sample| (hours(sample), of(sample) as f64 / GB)).collect();
    Series::nth(n, name, style, points)
}

fn course_lines(course: &Course, top: f64) -> Vec<Series> {
    let samples: Vec<&Sample> = course.samples.iter().chain([&course.last]).collect();
    let mut lines = vec![
        line(1, "R: readable", Style::Line, &samples, |s| s.readable_bytes),
        line(4, "R + NW", Style::Line, &samples, |s| s.readable_bytes + s.not_writable_bytes),
        line(6, "R + NW + WO", Style::Line, &samples, |s| s.readable_bytes + s.not_writable_bytes + s.write_once_bytes),
    ];
    lines.extend(marks(course, top));
    if course.end == End::Full {
        lines.push(mark(2, hours(&course.last), top));
    }
    lines
}

fn strict_lines(pair: &Pair, top: f64) -> Vec<Series> {
    let samples: Vec<&Sample> = up_to(pair.strict, pair.caveat.last.written_bytes).collect();
    let disk = (top * GB) as u64;
    let mut lines = vec![
        line(1, "R: readable", Style::Line, &samples, |s| s.readable_bytes),
        line(0, "written since the last reset, and band gaps", Style::Line, &samples, |s| {
            disk.saturating_sub(s.writable_bytes)
        }),
    ];
    lines.extend(marks(pair.strict, top));
    lines
}

fn marks(course: &Course, top: f64) -> Vec<Series> {
    let marks = [&course.a, &course.b].into_iter().enumerate();
    marks.filter_map(|(n, at)| Some(mark(n, hours(at.as_ref()?), top))).collect()
}

/// The upright line of A, B or C.
fn mark(n: usize, at: f64, top: f64) -> Series {
    let (name, colour) = [("A", 3), ("B", 2), ("C", 5)][n];
    Series::nth(colour, name, Style::Dashed, vec![(at, 0.0), (at, top)])
}
