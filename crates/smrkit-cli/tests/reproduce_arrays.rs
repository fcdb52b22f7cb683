//! `smrkit reproduce arrays --quick`: what interleaving costs under each scheme, and what it must leave alone.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

const BURSTS: [u64; 6] = [1, 10, 50, 250, 500, 1000];

/// The rows of a run that finds its traces in `traces`.
fn made(traces: &Path, more: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smrkit"));
    command.args(["reproduce", "arrays", "--quick", "--json", "-", "--traces"]).arg(traces).args(more);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut result: Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(result["rows"].take()).unwrap()
}

/// The rows of one run without traces, made once for all tests.
fn rows() -> &'static [Value] {
    static ROWS: OnceLock<Vec<Value>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let figures = folder.path().join("figures");
        let rows = made(folder.path(), &["--figures", figures.to_str().unwrap()]);
        for name in ["runs-distance", "runs-count", "run-length", "hot-distance", "rebuild-hours", "rebuild-longest"] {
            assert!(figures.join(format!("arrays-{name}.svg")).exists(), "{name}");
        }
        rows
    })
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} of {row}"))
}

/// The one row of this name.
fn find<'a>(rows: &'a [Value], item: &str) -> &'a Value {
    let found: Vec<&Value> = rows.iter().filter(|row| text(row, "item") == item).collect();
    assert_eq!(found.len(), 1, "{item}: {found:?}");
    found[0]
}

/// A number of ours.
fn ours(item: &str) -> f64 {
    find(rows(), item)["ours"].as_f64().unwrap_or_else(|| panic!("{item}"))
}

/// A measure on the set `runs` under a scheme, relative to pure.
fn on_runs(scheme: &str, measure: &str, configuration: &str) -> f64 {
    ours(&format!("Figure 2 on `runs`, end to end: {scheme} / {measure}: {configuration}"))
}

fn bursts_of(burst: u64) -> String {
    format!("striped, bursts of {burst}")
}

#[test]
fn a_log_pays_for_lost_sequentiality_with_host_accesses() {
    let at = |measure: &str, configuration: &str| on_runs("log", measure, configuration);
    assert!(at("track distance", &bursts_of(1)) >= 15.0 && at("track count", &bursts_of(1)) >= 7.0);
    for measure in ["track distance", "track count"] {
        let by_burst = BURSTS.map(|burst| at(measure, &bursts_of(burst)));
        assert!(by_burst.is_sorted_by(|longer, shorter| longer >= shorter), "{measure}: {by_burst:?}");
    }
    for (measure, within) in [("track distance", 0.4), ("track count", 0.15)] {
        let ends_at = at(measure, &bursts_of(1000)) / at(measure, "striped, not interleaved");
        assert!((ends_at - 1.0).abs() <= within, "{measure} at 1000: {ends_at} × striped without interleaving");
    }
    assert!(at("host's share of the distance added", &bursts_of(1)) >= 95.0);
}

#[test]
fn copying_tails_gives_the_paper_s_curve_without_more_relocations() {
    let at = |measure: &str, configuration: &str| on_runs("band's tail copied", measure, configuration);
    let distance = [1, 50, 250, 1000].map(|burst| at("track distance", &bursts_of(burst)));
    assert!(distance[0] >= 20.0 && distance[1] <= 6.0 && distance[2] <= 2.0 && distance[3] <= 1.3, "{distance:?}");
    for burst in BURSTS {
        let moved = at("bands moved", &bursts_of(burst));
        assert!((moved - 1.0).abs() <= 0.01, "{moved} × the relocations of pure at {burst}");
    }
}

#[test]
fn a_band_held_open_is_moved_far_more_often() {
    assert!(on_runs("band held open", "bands moved", &bursts_of(1)) >= 30.0);
}

#[test]
fn longer_runs_lose_more_and_random_accesses_hardly_anything() {
    for (measure, most_on_hot) in [("track distance", 2.0), ("track count", 1.05)] {
        let by_length = [4, 8, 16, 32, 64, 128].map(|length| {
            ours(&format!(
                "What interleaving costs, by the length of runs / {measure}: runs of {length} blocks, bursts of 1"
            ))
        });
        assert!(by_length.is_sorted_by(|a, b| a < b), "{measure}: {by_length:?}");
        let hot = "Figure 2 on random accesses in hot regions: log";
        let burst_1 = ours(&format!("{hot} / {measure}: {}", bursts_of(1)));
        assert!(burst_1 <= most_on_hot, "{measure}: {burst_1}");
    }
}

#[test]
fn sources_as_large_as_disks_make_spanning_and_dedicated_the_same() {
    let exact: Vec<_> =
        rows().iter().filter(|row| text(row, "item").starts_with("Sources as large as disks")).collect();
    assert_eq!(exact.len(), 4 * 5);
    assert!(exact.iter().all(|row| row["ours"] == "the same as pure"), "{exact:?}");
    let random =
        |configuration: &str| ours(&format!("Uniform random writes on a log / write amplification: {configuration}"));
    let pure = random("pure");
    assert!(pure > 1.2, "the log has to clean: {pure}");
    for burst in [1, 10, 50, 250] {
        let striped = random(&bursts_of(burst));
        assert!((striped / pure - 1.0).abs() <= 0.03, "{striped} against {pure}");
    }
}

/// A row of the rebuild study.
fn of_rebuild(heading: &str, way: &str, kind: &str) -> f64 {
    ours(&format!("Rebuilding a member{heading} / {way}: {kind}"))
}

fn hours(way: &str, kind: &str) -> f64 {
    of_rebuild(" of 5 TB: hours", way, kind)
}

#[test]
fn in_order_appends_and_a_bypass_make_a_rebuild_conventional() {
    let at = |kib: u64, kind: &str| hours(&format!("in order, {kib} KiB, window 32"), kind);
    // 24.78 ms for each append of 32 KiB.
    assert!(at(32, "drive-managed") > 5e12 / 32768.0 * 0.02478 / 3600.0);
    assert!(at(32, "drive-managed") > 7.0 * at(512, "drive-managed"));
    assert!(at(32, "drive-managed, write cache") < 2.0 * at(512, "drive-managed, write cache"));
    assert!(at(512, "drive-managed, write cache, bypass by run") < 1.2 * at(512, "conventional, write cache"));
    // Bypassing by the length of commands tells 32 KiB from 512 KiB; by that of runs it hardly does.
    let small_by_large = |kind: &str| at(32, kind) / at(512, kind);
    assert!(small_by_large("drive-managed, write cache, bypass by command") > 4.0);
    assert!(small_by_large("drive-managed, write cache, bypass by run") < 2.0);
}

#[test]
fn scattered_records_clean_a_band_nearly_each_and_runs_far_fewer() {
    let cleaned = |way: &str, kind: &str| of_rebuild(": bands cleaned for each write", way, kind);
    let (singly, runs) = ("scattered singly, 128 KiB, window 32", "in runs of 3 MB, 44 KiB, window 32");
    for kind in ["drive-managed", "vguard"] {
        assert!(cleaned(singly, kind) > 0.7 && cleaned(runs, kind) < 0.05, "{kind}");
        assert!(hours(singly, kind) > 10.0 * hours(singly, "conventional"), "{kind}");
    }
}

#[test]
fn a_timeout_s_verdict_is_a_function_of_the_window() {
    let longest = ": the longest command, and timeouts";
    let at = |window: u32| of_rebuild(longest, &format!("scattered singly, 128 KiB, window {window}"), "drive-managed");
    assert!(at(1) < 7.0 && at(1) < at(10) && at(10) < at(32) && at(32) > 7.0);
    for row in rows().iter().filter(|row| text(row, "item").contains(longest)) {
        let seconds = row["ours"].as_f64().unwrap();
        let [of_7s, of_30s] = [7.0, 30.0].map(|timeout| if seconds > timeout { "yes" } else { "no" });
        assert_eq!(text(row, "reason"), format!("dropped at 7 s: {of_7s}; at 30 s: {of_30s}"));
    }
}

#[test]
fn a_light_foreground_costs_a_shingled_member_more() {
    let way = "in runs of 3 MB, 44 KiB, window 32";
    let longer =
        |kind: &str| of_rebuild(" beside a light foreground", way, &format!("{kind}: hours")) / hours(way, kind);
    assert!(longer("drive-managed, write cache") > longer("conventional, write cache"));
}

#[test]
fn public_figures_are_explained_by_assumptions_and_not_compared() {
    let rebuilds: Vec<_> = rows().iter().filter(|row| text(row, "item").starts_with("Rebuilding")).collect();
    assert!(rebuilds.iter().all(|row| row["verdict"] == "not-comparable"));
    let public = |row: &&&Value| text(row, "item").contains("public tests");
    assert!(rebuilds.iter().filter(public).all(|row| !row["paper"].is_null()));
    assert!(rebuilds.iter().filter(|row| !public(row)).all(|row| row["paper"].is_null()));
    let days = find(
        rows(),
        "Rebuilding a member: public tests of another maker's drive / a resilver on the drive-managed disk",
    );
    assert!(text(days, "reason").contains("assumed: records of 44 KiB in runs of 3 MB"));
}

#[test]
fn distance_count_and_bands_never_stand_in_one_row() {
    let absent = find(rows(), "Figure 2 on real traces, end to end: log / movement of the real set");
    assert!(text(absent, "reason").contains("msr_web_3"), "a missing trace is named");
    for row in rows() {
        let measures = ["track distance", "track count", "bands moved"];
        let named = measures.iter().filter(|measure| text(row, "item").contains(*measure)).count();
        assert!(named <= 1 && !text(row, "reason").is_empty(), "{row}");
    }
}

#[test]
fn real_traces_are_compared_as_well() {
    let Some(traces) = std::env::var_os("SMRKIT_TRACES").map(PathBuf::from) else {
        println!("skipped: SMRKIT_TRACES names no folder of real traces");
        return;
    };
    if !traces.join("cloudphysics_sample.csv.zst").is_file() {
        println!("skipped: no cloudphysics_sample.csv.zst in SMRKIT_TRACES");
        return;
    }
    let rows = made(&traces, &[]);
    for placement in ["end to end", "all from LBA 0"] {
        for scheme in ["log", "band's tail copied", "band held open", "conventional"] {
            let at = |burst: u64| {
                let item =
                    format!("Figure 2 on real traces, {placement}: {scheme} / track distance: {}", bursts_of(burst));
                find(&rows, &item)["ours"].as_f64().unwrap()
            };
            assert!(at(1) > at(1000), "{placement}, {scheme}");
        }
    }
}
