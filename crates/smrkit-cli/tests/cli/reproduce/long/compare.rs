//! All schemes without real traces: every scheme under every workload, with the same share lost.

use serde_json::Value;

use super::study;

/// The table of this heading: its lines, cell by cell.
fn table(result: &Value, heading: &str) -> Vec<Vec<String>> {
    let tables = result["tables"].as_array().unwrap();
    let found = tables.iter().find(|table| table["heading"] == heading).unwrap();
    serde_json::from_value(found["rows"].clone()).unwrap()
}

#[test]
fn every_scheme_is_compared_under_every_demand_at_the_same_loss() {
    let study = study("compare");
    assert!(study.rows().is_empty(), "no paper compares them");
    let schemes = table(&study.result, "All schemes under all demands");
    let names: Vec<&str> = schemes.iter().map(|line| line[0].as_str()).collect();
    let shingled =
        ["rmw", "set-assoc", "s-block", "drive-managed", "vguard", "track-map", "log", "dm-zoned", "zone-log"];
    assert_eq!(names, [&["in-place"], &shingled[..]].concat());
    let cell = |scheme: &str, column: usize| {
        schemes.iter().find(|line| line[0] == scheme).map(|line| line[column].clone()).unwrap()
    };
    assert_eq!([1, 2, 3, 4].map(|column| cell("in-place", column)), ["1 ×"; 4]);
    let lost = |scheme: &str| cell(scheme, 9).trim_end_matches(" %").parse::<f64>().unwrap();
    assert!(shingled.iter().all(|scheme| (lost(scheme) - 10.0).abs() <= 0.3), "{schemes:?}");
    for keeps in ["in-place", "s-block", "drive-managed", "vguard", "log", "zone-log"] {
        assert_eq!(cell(keeps, 11), "nothing", "{keeps}");
    }
    assert_ne!(cell("set-assoc", 11), "nothing");
    let runs = table(&study.result, "By demand");
    for demand in ["desktop", "random", "hot-cold", "backup"] {
        assert_eq!(runs.iter().filter(|line| line[0] == demand).count(), names.len(), "{demand}");
    }
    assert_eq!(runs.len(), 4 * names.len(), "traces are not at hand");
    assert!(study.file("compare.html").contains("Not at hand, and left out: hm_0"));
    study.has_lines_in(&["compare"]);
}
