//! The set-associative disk cache, and files and exit codes of `reproduce`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::signals::interrupted;
use super::super::{Scratch, at, smrkit};
use super::{study, text};

/// Items that differ from the paper, whatever the seed; each row says why.
const DIFFERS: [&str; 4] = [
    "Figures 6 to 8: random writes over time / 7.46 µs: windows of 0 IOPS, regions of 10,000",
    "Pure read-modify-write / 4 KB writes, in time",
    "Pure read-modify-write / cassuto-pc, in time",
    "Pure read-modify-write / cassuto-pc, write overloading",
];

#[test]
fn only_what_the_paper_itself_contradicts_differs() {
    let study = study("cassuto-cache");
    let rows = study.rows();
    let mut by_verdict: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        assert!(!text(row, "reason").is_empty() && row["unit"].is_string(), "{row}");
        assert!(!row["ours"].is_null(), "{row}");
        assert_eq!(row["paper"].is_null(), text(row, "verdict") == "not-comparable", "{row}");
        by_verdict.entry(text(row, "verdict")).or_default().push(text(row, "item"));
    }
    let mut differs = by_verdict["differs"].clone();
    differs.sort_unstable();
    assert_eq!(differs, DIFFERS);
    assert_eq!(by_verdict["not-comparable"].len(), 3, "{by_verdict:?}");
    assert!(by_verdict["agree"].len() >= 50, "{by_verdict:?}");
    let items: BTreeSet<&str> = rows.iter().filter_map(|row| row["item"].as_str()).collect();
    assert_eq!(items.len(), rows.len(), "an item is the only one of its name");
    assert_eq!(study.ours("4 KB writes, in sectors moved"), 12_500.0);
    let built_in = |heading: &str| {
        let of_item = rows.iter().filter(|row| row["item"].as_str().unwrap().starts_with(heading));
        of_item.filter(|row| row["by_construction"] == true).count()
    };
    assert_eq!(["Table I: its own", "Table I: simulated", "Random writes", ""].map(built_in), [8, 18, 2, 28]);
    assert!(study.ours("4 µs: windows of 0 IOPS, regions of 50,000") > 60.0);
    assert_eq!(study.ours("4 µs: windows of 0 IOPS, regions of 10,000"), 0.0);
    study.has_lines_in(&["figure-5", "figures-6-to-8", "figure-9"].map(|name| format!("cassuto-cache-{name}")));
    let page = study.file("cassuto.html");
    assert!(page.contains("623.24") && page.contains("not-comparable") && page.contains("leaves open"));
}

#[test]
fn the_head_line_counts_regions_and_what_agrees_by_construction() {
    let text = &study("cassuto-cache").ran.out;
    assert!(text.lines().next().unwrap().contains("agree (28 of them by construction)"), "{text}");
    // (600,000,000 + 5) / 50,005, rounded down: the last region needs no guard.
    assert!(text.contains("leave room for 11,998, not 12,000"), "{text}");
}

#[test]
fn a_report_that_cannot_be_written_takes_nothing_else_with_it() {
    if !std::path::Path::new("/dev/full").exists() {
        println!("skipped: no /dev/full here");
        return;
    }
    let scratch = Scratch::new();
    let ran = at(&scratch, "reproduce he-du --quick --report /dev/full --json r.json --figures figures");
    assert!(ran.code == 1 && ran.err.contains("/dev/full"), "{} {}", ran.code, ran.err);
    assert!(ran.out.contains("comparisons"), "{}", ran.out);
    let json = std::fs::read(scratch.path("r.json")).unwrap();
    assert!(serde_json::from_slice::<Value>(&json).unwrap()["rows"].is_array());
    assert!(std::fs::exists(scratch.path("figures/he-du-figure-2.svg")).unwrap());
}

#[test]
fn an_unknown_name_is_a_usage_error_that_lists_what_there_is() {
    smrkit("reproduce vguard-2").says(2, &["cassuto-cache", "all"]);
}

/// The first numbers are there after milliseconds, and the whole takes minutes.
#[cfg(unix)]
#[test]
fn an_interrupt_prints_what_there_is() {
    for signal in ["-INT", "-TERM"] {
        let scratch = Scratch::new();
        let report = scratch.path("report.html");
        let text = interrupted(&format!("reproduce all --report {report}"), signal, 1.0);
        assert!(text.contains("3.809") && text.contains("Interrupted"), "{text}");
        assert!(std::fs::read_to_string(&report).unwrap().contains("Interrupted"));
    }
}
