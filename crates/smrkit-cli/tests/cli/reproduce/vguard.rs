//! Vguard without traces, with traces that only look like the paper's, and with real ones.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::Scratch;
use super::{find, json, real_traces, study, text};

/// The rows of a run that finds its traces in `traces`.
fn rows(traces: &str) -> Vec<Value> {
    let mut result = json(&format!("reproduce vguard --quick --traces {traces}"));
    serde_json::from_value(result["rows"].take()).unwrap()
}

#[test]
fn without_traces_the_tables_and_random_writes_remain() {
    let study = study("vguard");
    let rows = study.rows();
    let items: BTreeSet<&str> = rows.iter().map(|row| text(row, "item")).collect();
    assert_eq!(items.len(), rows.len(), "an item is the only one of its name");
    for row in rows {
        assert!(!text(row, "reason").is_empty() && row["unit"].is_string(), "{row}");
        // A missing trace is the only reason for having no number of our own.
        let missing = text(row, "reason").contains("not at hand");
        assert_eq!(row["ours"].is_null(), missing, "{row}");
        assert!(!missing || text(row, "verdict") == "not-comparable", "{row}");
    }
    let of_table_2 = rows.iter().filter(|row| text(row, "item").starts_with("Table 2"));
    assert_eq!(of_table_2.filter(|row| row["ours"].is_null()).count(), 16);
    for span in ["500 GB", "1 TB", "2 TB", "4 TB"] {
        for layer in ["vguard", "drive-managed"] {
            let first = find(rows, &format!("{span}: first cleaning, {layer}"));
            assert_eq!(text(first, "verdict"), "agree", "{first}");
        }
    }
    let drawn = |name: &str| study.files.contains_key(&format!("figures/vguard-{name}.svg"));
    assert_eq!(["table-2", "figure-6", "figure-2", "figure-4"].map(drawn), [true, true, false, false]);
    let page = study.file("vguard.html");
    assert!(page.contains("leaves open") && page.contains("hm_0, proj_0, src1_2"), "15 times holds for three traces");
}

#[test]
fn the_papers_trace_is_compared_and_a_misfit_is_named() {
    let scratch = Scratch::new();
    let line = |i: u64, offset: u64| format!("{},host,0,Write,{offset},4096,0\n", 128_166_372_000_000_000 + i);
    let small: String = (0..300).map(|i| line(i, (i * 7919 % 5000) << 20)).collect();
    scratch.file("wdev_1.csv", small);
    scratch.file("msr_web_3.csv", line(0, 6_000_000_000_000));
    let rows = rows(&scratch.path(""));
    // 300 writes persist the map once: the largest is the one that does, and all others cost the same.
    for (column, paper, ours) in [("95 %", 24.78, 24.78), ("99.5 %", 24.78, 24.78), ("maximum", 324.78, 324.78)] {
        let row = find(&rows, &format!("wdev_1: drive-managed, {column}"));
        assert_eq!((row["paper"].as_f64(), text(row, "verdict")), (Some(paper), "agree"), "{row}");
        assert!((row["ours"].as_f64().unwrap() - ours).abs() < 0.01 && row["by_construction"] == true, "{row}");
    }
    assert_eq!(find(&rows, "wdev_1: bands that vguard cleans")["ours"], 0);
    let too_large = find(&rows, "msr_web_3: latency");
    assert!(text(too_large, "reason").contains("does not fit"), "{too_large}");
}

#[test]
fn the_paper_s_claims_hold_for_real_traces() {
    let Some(traces) = real_traces("msr_wdev_1.csv.zst") else { return };
    let rows = rows(&traces.to_string_lossy());
    let of = |what: &str| rows.iter().filter(|row| text(row, "item").contains(what)).collect::<Vec<_>>();
    let exact = of("wdev_1: drive-managed,");
    assert_eq!(exact.len(), 5);
    assert!(exact.iter().all(|row| text(row, "verdict") == "agree"), "{exact:?}");
    let of_wdev_1 = of("Table 2: latency percentiles of MSR traces / wdev_1: ");
    assert!(of_wdev_1.len() == 13 && of_wdev_1.iter().all(|row| text(row, "verdict") != "differs"), "{of_wdev_1:?}");
    let cleaned: Vec<_> =
        of("bands cleaned").into_iter().filter(|row| text(row, "item").starts_with("Figure 3")).collect();
    assert!(cleaned.len() > 1 && cleaned.iter().all(|row| row["ours"] == 0), "{cleaned:?}");
    let ratios = of("drive-managed / vguard, 99.9 %");
    let above: Vec<_> = ratios.iter().filter(|row| row["paper"] == "above 1").collect();
    assert!(!above.is_empty() && above.iter().all(|row| text(row, "verdict") == "agree"), "{above:?}");
}
