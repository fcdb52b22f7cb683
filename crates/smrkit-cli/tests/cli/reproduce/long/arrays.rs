//! Arrays: what interleaving costs under each scheme, and what it must leave alone.

use serde_json::Value;

use super::{find, json, real_traces, study, text};
use crate::Scratch;
use crate::signals::interrupted;

const BURSTS: [u64; 6] = [1, 10, 50, 250, 500, 1000];

fn result() -> &'static Value {
    &study("arrays").result
}

fn rows() -> &'static [Value] {
    study("arrays").rows()
}

/// A cell of the table under a heading: of the line that begins with `line`, and the column called `column`.
fn cell<'a>(of: &'a Value, heading: &str, line: &str, column: &str) -> &'a str {
    let tables = of["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["heading"] == heading).unwrap_or_else(|| panic!("{heading}"));
    let at = table["header"].as_array().unwrap().iter().position(|name| name == column);
    let found = table["rows"].as_array().unwrap().iter().find(|row| row[0] == line);
    found.unwrap_or_else(|| panic!("{heading}: {line}"))[at.unwrap_or_else(|| panic!("{heading}: {column}"))]
        .as_str()
        .unwrap()
}

/// The number that a cell begins with.
fn number(cell: &str) -> f64 {
    let first = cell.split([' ', ',']).next().unwrap_or_default();
    // A thousand has its comma between digits.
    let whole = if cell.split(' ').next() == Some(cell) { cell.replace(',', "") } else { first.to_string() };
    whole.parse().unwrap_or_else(|_| panic!("{cell}"))
}

/// A number of ours.
fn ours(item: &str) -> f64 {
    study("arrays").ours(item)
}

const RUNS: &str = "Figure 2 on `runs`, end to end: log";

/// A measure on the set `runs` under a scheme, relative to pure.
fn on_runs(scheme: &str, measure: &str, configuration: &str) -> f64 {
    number(cell(result(), RUNS, &format!("{scheme}, {measure}"), configuration))
}

fn bursts_of(burst: u64) -> String {
    format!("bursts of {burst}")
}

#[test]
fn at_most_sixty_rows_and_the_table_of_claims_comes_first() {
    assert!(rows().len() <= 60, "{}", rows().len());
    for name in ["runs-distance", "runs-count", "run-length", "hot-distance", "rebuild-hours", "rebuild-longest"] {
        assert!(study("arrays").file(&format!("figures/arrays-{name}.svg")).contains("<svg"), "{name}");
    }
    let first = &result()["tables"][0];
    assert_eq!(first["heading"], "What holds under which scheme");
    let holds = |claim: &str, scheme: &str| cell(result(), "What holds under which scheme", claim, scheme);
    assert_eq!(holds("approaches pure: striped, bursts of 1000", "band's tail copied"), "distance");
    assert_eq!(holds("25 % below pure: dedicated", "log"), "no");
    assert!(holds("up to 40: striped, bursts of 1", "band held open").contains("bands"));
}

#[test]
fn movement_rises_far_more_than_time() {
    for (scheme, most) in [("log", 1.5), ("conventional", 2.0)] {
        let at = |measure: &str| on_runs(scheme, measure, &bursts_of(1));
        assert!(at("track distance") > 20.0 && (1.0..most).contains(&at("time")), "{scheme}: {}", at("time"));
    }
    assert!(on_runs("band held open", "time", &bursts_of(1)) > 5.0, "each piece relocates a band");
}

#[test]
fn bands_of_their_own_do_not_bring_sources_together_again() {
    let item = format!("{RUNS} / track distance, log, bands by source to one log: striped, bursts of 1");
    let to_one_log = ours(&item);
    assert!((0.8..1.5).contains(&to_one_log), "{to_one_log}");
    let separated = on_runs("log, bands by source", "track distance", &bursts_of(1));
    assert!(separated > 15.0 && separated != on_runs("log", "track distance", &bursts_of(1)));
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
        let ends_at = at(measure, &bursts_of(1000)) / at(measure, "not interleaved");
        assert!((ends_at - 1.0).abs() <= within, "{measure} at 1000: {ends_at} × striped without interleaving");
    }
    assert!(ours(&format!("{RUNS} / host's share of the distance added: striped, bursts of 1")) >= 95.0);
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
        let column = if measure == "track distance" { "track distance (× pure)" } else { measure };
        let by_length = ["4", "8", "16", "32", "64", "128"]
            .map(|length| number(cell(result(), "What interleaving costs, by the length of runs", length, column)));
        assert!(by_length.is_sorted_by(|a, b| a < b), "{measure}: {by_length:?}");
        let hot = "Figure 2 on random accesses in hot regions: log";
        let burst_1 = number(cell(result(), hot, &format!("log, {measure}"), &bursts_of(1)));
        assert!(burst_1 <= most_on_hot, "{measure}: {burst_1}");
    }
}

#[test]
fn sources_as_large_as_disks_make_spanning_and_dedicated_the_same() {
    let exact = find(rows(), "Sources as large as disks, laid end to end / track distance: dedicated");
    assert_eq!((exact["ours"].as_f64(), text(exact, "verdict")), (Some(1.0), "differs"));
    for scheme in ["log", "log, bands by source", "band's tail copied", "band held open", "conventional"] {
        for configuration in ["spanning, bursts of 50", "dedicated", "dedicated, bursts of 1"] {
            let heading = "Sources as large as disks, laid end to end";
            assert_eq!(cell(result(), heading, scheme, configuration), "the same", "{scheme}, {configuration}");
        }
    }
    let random = |configuration: &str| {
        number(cell(result(), "Uniform random writes on a log", configuration, "write amplification"))
    };
    let pure = random("pure");
    assert!(pure > 1.2, "the log has to clean: {pure}");
    for burst in [1, 10, 50, 250] {
        let striped = random(&format!("striped, bursts of {burst}"));
        assert!((striped / pure - 1.0).abs() <= 0.03, "{striped} against {pure}");
    }
}

/// A number of the rebuild study.
fn of_rebuild(heading: &str, way: &str, kind: &str) -> f64 {
    number(cell(result(), &format!("Rebuilding a member{heading}"), way, kind))
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
    for window in [1, 10, 32] {
        for kind in ["conventional", "drive-managed", "vguard"] {
            let way = format!("scattered singly, 128 KiB, window {window}");
            let told = cell(result(), &format!("Rebuilding a member{longest}"), &way, kind);
            let dropped = match number(told) {
                seconds if seconds > 30.0 => ", dropped at 30 s",
                seconds if seconds > 7.0 => ", dropped at 7 s",
                _ => "",
            };
            assert_eq!(told.split_once(" s").unwrap().1, dropped, "{told}");
        }
    }
}

#[test]
fn a_light_foreground_costs_a_shingled_member_more() {
    let way = "in runs of 3 MB, 44 KiB, window 32";
    let longer = |kind: &str| {
        let line = format!("{way}: {kind}");
        let at = |column: &str| number(cell(result(), "Rebuilding a member during a light foreground", &line, column));
        assert_eq!(at("alone"), hours(way, kind));
        at("hours") / at("alone")
    };
    assert!(longer("drive-managed, write cache") > longer("conventional, write cache"));
}

#[test]
fn public_figures_are_explained_by_assumptions_and_not_compared() {
    let rebuilds: Vec<_> = rows().iter().filter(|row| text(row, "item").starts_with("Rebuilding")).collect();
    assert!(rebuilds.iter().all(|row| row["verdict"] == "not-comparable"));
    assert!(rebuilds.len() == 10 && rebuilds.iter().all(|row| !row["paper"].is_null()), "{}", rebuilds.len());
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
    let Some(traces) = real_traces("cloudphysics_sample.csv.zst") else { return };
    let result = json(&format!("reproduce arrays --quick --traces {}", traces.display()));
    assert!(result["rows"].as_array().unwrap().len() <= 60);
    for placement in ["end to end", "all from LBA 0"] {
        let heading = format!("Figure 2 on real traces, {placement}: log");
        for scheme in ["log", "log, bands by source", "band's tail copied", "band held open", "conventional"] {
            let line = format!("{scheme}, track distance");
            let at = |burst: u64| number(cell(&result, &heading, &line, &bursts_of(burst)));
            assert!(at(1) > at(1000), "{placement}, {scheme}");
        }
    }
}

/// The movement comes first, so that an interrupt some way on finds runs of it: how far, the machine decides.
#[cfg(unix)]
#[test]
fn an_interrupt_shows_what_was_made() {
    let shows_runs = (1..=6).any(|doubled| is_shown_of_runs(f64::from(1 << doubled)));
    assert!(shows_runs, "no run of the first set after 64 s of CPU");
}

/// Interrupts the study after so many seconds of CPU, of which the whole takes hundreds; true if it shows runs of the set by then.
#[cfg(unix)]
fn is_shown_of_runs(after_s: f64) -> bool {
    let scratch = Scratch::new();
    let json = scratch.path("arrays.json");
    let arguments = format!("reproduce arrays --traces {} --json {json}", scratch.0.path().display());
    let out = interrupted(&arguments, "-INT", after_s);
    let result: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let rows = result["rows"].as_array().unwrap();
    let of_runs: Vec<&Value> = rows.iter().filter(|row| text(row, "item").starts_with(RUNS)).collect();
    if of_runs.is_empty() {
        return false;
    }
    assert!(of_runs.iter().all(|row| row["ours"].is_number()), "{rows:?}");
    assert!(out.contains("what needs the others is left out"), "{out}");
    true
}
