//! Static track mappings without real traces: what follows from the schemes alone is exact.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{json, real_traces, study, text};

#[test]
fn what_follows_from_the_schemes_agrees_exactly() {
    let of =
        |part: &str| study("he-du").rows().iter().filter(|row| text(row, "item").contains(part)).collect::<Vec<_>>();
    let agree = |part: &str, count: usize| {
        let found = of(part);
        assert_eq!(found.len(), count, "{part}");
        found.iter().for_each(|row| assert_eq!(text(row, "verdict"), "agree", "{row}"));
    };
    agree("Equations 1 and 2", 8);
    agree("Figure 2: updates against the fill / WAR of", 16);
    agree("requests for first writes", 4);
    for part in ["75 % full", "whole run", "last quarter"] {
        agree(&format!("SYN: WAR by scheme, {part}"), 1);
    }
    assert_eq!(text(of("SYN: WAR by scheme, 100 % full")[0], "verdict"), "differs", "the paper's own contradiction");
    assert_eq!(text(of("SYN: WAR by scheme, whole run")[0], "ours"), "1.00 1.50 1.50 1.50");
    assert_eq!(text(of("SYN: WAR by scheme, last quarter")[0], "ours"), "1.00 3.00 3.00 3.00");
    agree("1234, 75 % full", 2);
    agree("1234, 100 % full", 2);
}

#[test]
fn every_row_has_its_reason_and_every_figure_is_drawn() {
    let study = study("he-du");
    for row in study.rows() {
        assert!(!text(row, "reason").is_empty() && row["unit"].is_string() && !row["ours"].is_null(), "{row}");
        assert_eq!(row["paper"].is_null(), text(row, "verdict") == "not-comparable", "{row}");
        assert_ne!(row["basis"], "fitted", "{row}");
    }
    let items: BTreeSet<&str> = study.rows().iter().map(|row| text(row, "item")).collect();
    assert_eq!(items.len(), study.rows().len(), "an item is the only one of its name");
    study.has_lines_in(&["he-du-equations", "he-du-figure-2", "he-du-figure-3"]);
    let page = study.file("he-du.html");
    for said in ["web_0 (not at hand): generated", "R(1234)", "is not named", "90 runs"] {
        assert!(page.contains(said), "the page lacks {said}");
    }
}

/// With the paper's own stretch factor and seeks of the disk's size, the order of schemes is the paper's.
#[test]
fn new_schemes_are_as_fast_as_the_plain_disk_on_reads() {
    let Some(traces) = real_traces("msr_hm_0_cut7016.csv.zst") else { return };
    let result = json(&format!("reproduce he-du --traces {}", traces.display()));
    let of = |part: &str| {
        let named = |row: &&Value| text(row, "item").contains("msr_hm_0") && text(row, "item").contains(part);
        let found: Vec<&Value> = result["rows"].as_array().unwrap().iter().filter(named).collect();
        assert!(!found.is_empty(), "{part}");
        found
    };
    for row in of("response of") {
        assert_eq!(text(row, "verdict"), "agree", "{row}");
    }
    for scheme in ["R(4123) against the plain disk", "14R(23) against the plain disk"] {
        let slower = text(of(&format!(": {scheme}"))[0], "ours");
        let worst = slower.split(' ').map(|percent| percent.parse::<f64>().unwrap()).fold(f64::MIN, f64::max);
        assert!(worst <= 10.0, "{scheme}: {slower} % slower at 25, 50, 75 %");
    }
}

#[test]
fn the_same_seed_gives_the_same_rows() {
    let rows_of = |seed: u64| json(&format!("reproduce he-du --quick --seed {seed}"))["rows"].take();
    assert_eq!(rows_of(3), rows_of(3));
    assert_ne!(rows_of(3), rows_of(4));
}
