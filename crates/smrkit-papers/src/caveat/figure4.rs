//! Figure 4 (a): what is on the disk over time, for both models.

use smrfs::age::course::{AgeingResult, PAPER_DISK_BYTES, Sample};
use smrfs::workload::driver::End;

use super::common::{GB, SeedPair, hours};
use crate::{Row, Shown};
use smrkit_report::figure::{Axis, Figure, Panel, Series, Style};

/// When the paper's Caveat-Scriptor ran out of room ("beyond 5.5 hours in this test"), in hours.
const C_HOURS: f64 = 5.5;
/// Distance from it within which a run must end, in percent (assumption).
const C_PERCENT: f64 = 20.0;

pub fn shown(pairs: &[SeedPair]) -> Shown {
    let first = &pairs[0];
    let text = texts![
        format!(
            "A disk of {:.0} GB aged to 70 %, DID and DPID 1 MiB, next-fit, bands of 32 MiB, cleaning events of 128 MiB, ager \
             and benchmark interleaved by 8 blocks; no fsync, everything made durable every 5 s. Seed {}; further seeds up to \
             B. The checker watched every write.",
            PAPER_DISK_BYTES as f64 / GB,
            first.seed
        ),
        "Time is the model's clock. Strict-append is shown up to the user data that Caveat-Scriptor had written at its end.",
    ];
    let rows = pairs.iter().flat_map(|pair| rows_of_seed(pair)).chain(rows_of_first(first)).collect();
    Shown { text, rows, figure: Some(figure(first)), ..Shown::default() }
}

/// Rows that must hold on every seed.
fn rows_of_seed(pair: &SeedPair) -> Vec<Row> {
    let SeedPair { seed, strict, caveat } = pair;
    let mut rows = Vec::new();
    let Some(a) = &strict.a else { return rows };
    let first = strict.first_cleaning.as_ref();
    rows.push(
        Row::holds(
            format!("seed {seed}: strict-append's first cleaning"),
            "before A",
            moment(first),
            "",
            first.is_some_and(|first| first.written_bytes < a.written_bytes),
        )
        .because(format!("before A, at {}", moment(Some(a)))),
    );
    rows.extend(strict.b.as_ref().map(|b| foreground_row(*seed, [a, b, &strict.last])));
    let (_, reason) = ran_out(caveat);
    rows.push(
        Row::holds(
            format!("seed {seed}: Caveat-Scriptor needs cleaning up to B"),
            "no",
            if caveat.b.is_some() { "no" } else { "yes" },
            "",
            caveat.b.is_some(),
        )
        .because(format!("must reach B with room for every block; {reason}")),
    );
    if let (Some(a), Some(b)) = (&caveat.a, &caveat.b) {
        let [at_a, at_b] = [a, b].map(|sample| sample.not_writable_bytes as f64 / GB);
        let reason = format!("{at_a:.2} GB at A: more at B");
        rows.push(
            Row::holds(format!("seed {seed}: NW at B"), "more than at A", at_b, "GB", at_b > at_a).because(reason),
        );
    }
    rows
}

/// Rows on the paper's one run.
fn rows_of_first(pair: &SeedPair) -> Vec<Row> {
    let mut rows = Vec::new();
    let (strict, caveat) = (pair.strict, pair.caveat);
    if let (Some(a), Some(b)) = (&caveat.a, &caveat.b) {
        let filled = 100.0 * a.live_bytes as f64 / PAPER_DISK_BYTES as f64;
        let target = Row::near("user data at A", 70.0, filled, "%", 6.0).because("the target, its swing and a file");
        rows.push(target.by_construction());
        let more = kept_by_benchmarks(caveat) / GB;
        let row = Row::near("user data that the benchmarks leave at B", 4.5, more, "GB", 10.0).because("2 × 250 files");
        rows.push(row.by_construction());
        let gained = (b.live_bytes as f64 - a.live_bytes as f64) / GB;
        rows.push(
            Row::not_comparable("user data at B less that at A", gained, "GB").because("the ager's swing is in it"),
        );
    }
    let fullest = strict.samples.iter().map(|sample| sample.writable_bytes).min().unwrap_or(0);
    let least = 100.0 * fullest as f64 / PAPER_DISK_BYTES as f64;
    rows.push(
        Row::holds("strict-append: least writable space", "about 5", least, "%", (2.0..=7.0).contains(&least))
            .because("cleaning begins below 5 % of the bands; between 2 and 7 %"),
    );
    rows.push(row_of_c(caveat));
    let strict_end = up_to(strict, caveat.last.written_bytes).last().map_or(f64::NAN, hours);
    let reason = format!("Caveat-Scriptor took {:.2} h for the same user data", hours(&caveat.last));
    rows.push(
        Row::holds(
            "strict-append: time for the same user data",
            "longer",
            strict_end,
            "h",
            strict_end > hours(&caveat.last),
        )
        .because(reason),
    );
    rows
}

/// In which part of strict-append's course writes waited for cleaning: up to A, to B, and to the end.
fn foreground_row(seed: u64, moments: [&Sample; 3]) -> Row {
    let [to_a, to_b, to_end] = moments.map(|sample| sample.cleaned.stalls);
    let parts = [to_a, to_b - to_a, to_end - to_b];
    let item = format!("seed {seed}: strict-append's writes that wait for cleaning, up to A, to B, after B");
    let ours = parts.map(|stalls| stalls.to_string()).join(" ");
    let holds = parts[1] > 0 && parts[0] == 0 && parts[2] == 0;
    Row::holds(item, "only in the benchmark runs", ours, "writes", holds).because(
        "some between A and B, and none else; here cleaning below 5 % keeps ahead, in addition to the acts that it delays",
    )
}

/// When Caveat-Scriptor ran out of room for a block.
fn row_of_c(caveat: &AgeingResult) -> Row {
    let (out, reason) = ran_out(caveat);
    if caveat.end == End::Done && caveat.b == Some(caveat.last) {
        return Row::beside("C", "5.5 h", out, "").because("the run ends at B, before which C may not be");
    }
    let off = 100.0 * (hours(&caveat.last) / C_HOURS - 1.0);
    let holds = caveat.end == End::Full && caveat.b.is_some() && off.abs() <= C_PERCENT;
    let measure = match caveat.end {
        End::Full => format!("{off:+.0} %"),
        _ => "it does not run out".into(),
    };
    Row::holds("C", "5.5 h", out, "", holds)
        .because(format!("{measure}; within {C_PERCENT} % (assumption), after B; {reason}"))
}

/// Bytes that the benchmarks' files keep.
fn kept_by_benchmarks(course: &AgeingResult) -> f64 {
    course.benchmarks.iter().map(|measured| measured.kept_bytes as f64).sum()
}

/// When a disk without a defragmenter ran out, in words, and what that says.
pub fn ran_out(course: &AgeingResult) -> (String, String) {
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

/// The samples up to this many bytes written.
fn up_to(course: &AgeingResult, written_bytes: u64) -> impl Iterator<Item = &Sample> {
    course.samples.iter().take_while(move |sample| sample.written_bytes <= written_bytes)
}

fn figure(pair: &SeedPair) -> Figure {
    let SeedPair { strict, caveat, .. } = pair;
    let top = PAPER_DISK_BYTES as f64 / GB;
    let ours: Vec<&Sample> = caveat.samples.iter().chain([&caveat.last]).collect();
    let strict: Vec<&Sample> = up_to(strict, caveat.last.written_bytes).collect();
    let used = |sample: &Sample| PAPER_DISK_BYTES.saturating_sub(sample.writable_bytes);
    let mut lines = vec![
        line(0, "strict-append: all but W", Style::Line, &strict, used),
        line(4, "Caveat-Scriptor: R + NW + WO", Style::Line, &ours, used),
        line(6, "Caveat-Scriptor: R + NW", Style::Line, &ours, |s| s.readable_bytes + s.not_writable_bytes),
        line(1, "user data, on both", Style::Line, &ours, |s| s.live_bytes),
    ];
    let upright = |(nth, name, at): (usize, &str, &Sample)| {
        let at = tb(at);
        Series::nth(nth, name, Style::Dashed, vec![(at, 0.0), (at, top)])
    };
    lines.extend(marks(caveat).into_iter().map(upright));
    let x = Axis::linear("user data written (TB)");
    let y = Axis { fixed: Some((0.0, top)), ..Axis::linear("space (GB)") };
    Figure::new(
        "caveat-figure-4",
        "Space through ageing and four benchmark runs, both models (figure 4 a)",
        "By user data written, so that A and B are the same moments of both models. A to B: twice Postmark and twice \
         Filebench with the ager at half speed. C: Caveat-Scriptor has no room for a block; where ours does not run \
         out, C is where the paper's 5.5 h are by Caveat-Scriptor's clock.",
        [Panel::lines(None, x, y, lines).guided([(0.7 * top, "70 %")])],
    )
}

fn tb(sample: &Sample) -> f64 {
    sample.written_bytes as f64 / 1e12
}

fn line(n: usize, name: &str, style: Style, samples: &[&Sample], of: impl Fn(&Sample) -> u64) -> Series {
    let points = samples.iter().map(|sample| (tb(sample), of(sample) as f64 / GB)).collect();
    Series::nth(n, name, style, points)
}

/// A, B and C, as far as the course came: a colour, a name and the moment.
fn marks(caveat: &AgeingResult) -> Vec<(usize, &'static str, &Sample)> {
    let c = match caveat.end {
        End::Full => Some((5, "C", &caveat.last)),
        _ => caveat.samples.iter().find(|sample| hours(sample) >= C_HOURS).map(|sample| (5, "the paper's C", sample)),
    };
    let of = |nth, name, at| Some((nth, name, at?));
    [of(3, "A", caveat.a.as_ref()), of(2, "B", caveat.b.as_ref()), c].into_iter().flatten().collect()
}
