//! Figure 5: Filebench's longest event and Postmark's throughput, for each of the two runs and both models.

use smrfs::age::course::{AgeingResult, BenchmarkResult};
use smrfs::workload::EventKind;

use super::super::bars::{self, Bar};
use super::common::SeedPair;
use crate::{Row, Shown};
use smrkit_report::figure::{Colour, Figure, Panel};
use smrkit_report::format;

/// Caveat-Scriptor's longest event is at most this share of strict-append's (assumption: "more evident", in numbers).
const AT_MOST: f64 = 0.5;
const MODELS: [(&str, Colour); 2] = [("Strict-append", Colour::nth(0)), ("Caveat-Scriptor", Colour::nth(4))];

pub fn shown(pairs: &[SeedPair]) -> Shown {
    let text = texts![
        "The same runs between A and B. An event's latency is the time from its first request to its last completion: with the \
         ager's turns meanwhile, and cleaning for either. Reads go to the disk.",
        "The paper's bars have no numbers in its text, so that their order is compared. Postmark's reads are bytes read by the \
         time spent in reads, its writes bytes written by the time spent in creates and appends: by the time of the whole \
         run, as Postmark prints them, both models' ratios would be one number.",
    ];
    let rows = pairs.iter().flat_map(|pair| latency_rows(pair).into_iter().chain(throughput_rows(pair))).collect();
    Shown { text, rows, figure: pairs.first().map(figure), ..Shown::default() }
}

/// The runs of a benchmark, on both models.
fn runs<'a>(pair: &SeedPair<'a>, name: &str) -> Vec<[&'a BenchmarkResult; 2]> {
    let of = |course: &'a AgeingResult| {
        course.benchmarks.iter().filter(|run| run.benchmark.name() == name).collect::<Vec<_>>()
    };
    of(pair.strict).into_iter().zip(of(pair.caveat)).map(|(strict, caveat)| [strict, caveat]).collect()
}

fn longest_s(run: &BenchmarkResult) -> f64 {
    run.record.latencies.all().max_ns as f64 / 1e9
}

fn latency_rows(pair: &SeedPair) -> Vec<Row> {
    let of_run = |(i, [strict, caveat]): (usize, [&BenchmarkResult; 2])| {
        let [before, after] = [strict, caveat].map(longest_s);
        let ratio = after / before;
        let reason = format!(
            "{} against {}, at most {AT_MOST}; the cleaner moved {} meanwhile, and {}",
            format::seconds(after),
            format::seconds(before),
            format::bytes(strict.moved_bytes as f64),
            format::bytes(caveat.moved_bytes as f64)
        );
        let item =
            format!("seed {}: Filebench run {}: longest event, Caveat-Scriptor to strict-append", pair.seed, i + 1);
        Row::holds(item, "far below 1", ratio, "", ratio <= AT_MOST).because(reason)
    };
    runs(pair, "filebench").into_iter().enumerate().map(of_run).collect()
}

fn throughput_rows(pair: &SeedPair) -> Vec<Row> {
    let of_run = |(i, both): (usize, [&BenchmarkResult; 2])| {
        let [strict, caveat] = both.map(BenchmarkResult::event_bytes_per_s);
        let kinds = [("read", strict.0, caveat.0), ("write", strict.1, caveat.1)];
        kinds.map(|(kind, before, after)| {
            let item = format!("seed {}: Postmark run {}: {kind}, Caveat-Scriptor to strict-append", pair.seed, i + 1);
            let reason = format!("{}/s against {}/s", format::bytes(after), format::bytes(before));
            Row::holds(item, "a small advantage", after / before, "", after > before).because(reason)
        })
    };
    runs(pair, "postmark").into_iter().enumerate().flat_map(of_run).collect()
}

fn figure(pair: &SeedPair) -> Figure {
    let filebench = runs(pair, "filebench");
    let postmark = runs(pair, "postmark");
    let mb = |bytes: f64| bytes / 1e6;
    let of_kinds = |kind: EventKind| {
        let longest = |run: &BenchmarkResult| run.record.latencies.for_kind(kind).max_ns as f64 / 1e9;
        let longest_of_both = |model: usize| filebench.iter().map(|run| longest(run[model])).fold(0.0, f64::max);
        (format!("{}, either run", kind.name()), [0, 1].map(longest_of_both))
    };
    let latency =
        filebench.iter().enumerate().map(|(i, run)| (format!("any event, run {}", i + 1), run.map(longest_s)));
    let latency = latency.chain(EventKind::ALL.map(of_kinds));
    let rate = |(i, run): (usize, &[&BenchmarkResult; 2])| {
        let rates = run.map(BenchmarkResult::event_bytes_per_s);
        [
            (format!("read, run {}", i + 1), rates.map(|rate| mb(rate.0))),
            (format!("write, run {}", i + 1), rates.map(|rate| mb(rate.1))),
        ]
    };
    let rates = postmark.iter().enumerate().flat_map(rate);
    Figure::new(
        "caveat-figure-5",
        "Filebench's longest events, and Postmark's throughput, while the ager runs (figure 5)",
        "Filebench is an interactive benchmark: its longest event is what a user waits for.",
        [
            panel("Filebench: longest event", "latency (s)", "s", latency.collect()),
            panel("Postmark: throughput", "throughput (MB/s)", "MB/s", rates.collect()),
        ],
    )
}

/// Two bars a value: one of each model.
fn panel(title: &str, x: &str, unit: &str, values: Vec<(String, [f64; 2])>) -> Panel {
    let both = |(name, values): (String, [f64; 2])| {
        let names = [name, String::new()];
        let bar = |model: usize| {
            Bar::new(model, &names[model], values[model], format!("{} {unit}", format::short(values[model])))
        };
        [bar(0), bar(1)]
    };
    bars::panel(Some(title), x, MODELS, values.into_iter().flat_map(both).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use smrkit_report::figure::Body;

    #[test]
    fn each_model_has_a_bar_of_its_own_in_a_row() {
        let values = vec![("read".to_string(), [1.5, 2.0]), ("write".to_string(), [3.0, 40.0])];
        let Body::Bars { rows, totals, parts } = panel("", "", "s", values).body else { panic!("bars") };
        assert_eq!(rows, ["read", "", "write", ""]);
        assert_eq!(totals, ["1.5 s", "2 s", "3 s", "40 s"]);
        assert_eq!(parts[0].values, [1.5, 0.0, 3.0, 0.0]);
        assert_eq!(parts[1].values, [0.0, 2.0, 0.0, 40.0]);
    }
}
