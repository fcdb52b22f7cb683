use super::*;
use serde_json::json;

fn row(layer: &str, percent: u64, seed: u64, slowdown: f64) -> FlatRun {
    let mut row = FlatRun::new();
    let record = json!({"layer": layer, "parameters": {"cache_percent": percent}, "seed": seed, "slowdown": slowdown});
    flatten(String::new(), record, &mut row);
    row
}

fn example() -> Vec<FlatRun> {
    vec![row("rmw", 1, 1, 4.0), row("rmw", 1, 2, 6.0), row("log", 1, 1, 2.5), row("log", 2, 1, 2.0)]
}

#[test]
fn whole_numbers_are_shown_whole_and_without_a_point() {
    let mut row = FlatRun::new();
    flatten(String::new(), json!({"a": u64::MAX, "b": 2.0, "c": 2.5, "d": true, "e": null}), &mut row);
    let shown = ["a", "b", "c", "d", "e", "f"].map(|key| cell(&row, key));
    assert_eq!(shown, ["18446744073709551615", "2", "2.5", "true", "-", "-"]);
}

#[test]
fn seeds_share_a_line_that_shows_their_spread() {
    let sheet = table(&example(), &["slowdown".into()]).unwrap();
    let grid = sheet.grid();
    assert_eq!(grid.header, ["layer", "cache (%)", "slowdown (×)"]);
    assert_eq!(grid.rows, [["rmw", "1", "5 ± 1"], ["log", "1", "2.5"], ["log", "2", "2 *"]]);
    assert_eq!(sheet.csv(), "layer,cache (%),slowdown (×),± slowdown (×)\nrmw,1,5,1\nlog,1,2.5,0\nlog,2,2,0\n");
    assert_eq!(sheet.markdown().lines().nth(1), Some("|---|---|---|"));
}

#[test]
fn sizes_and_files_tell_the_runs_of_a_drive_apart() {
    let of = |drive: &str, file: &str, sectors: u64, seed: u64| {
        FlatRun::from([
            ("layer".into(), json!("rmw")),
            ("drive".into(), json!(drive)),
            ("drive_file".into(), json!(file)),
            (RAW_SECTORS.into(), json!(sectors)),
            ("seed".into(), json!(seed)),
        ])
    };
    let keys = |rows: &[FlatRun]| varying(rows).join(" ");
    assert_eq!(keys(&[of("a", "1", 10, 1), of("b", "2", 20, 1)]), "layer drive", "two drives have two sizes");
    assert_eq!(keys(&[of("a", "1", 10, 1), of("a", "1", 20, 2)]), "layer capacity.raw_sectors");
    assert_eq!(keys(&[of("a", "1", 10, 1), of("a", "2", 10, 2)]), "layer drive_file");
}

#[test]
fn parquet_has_the_columns_and_texts_of_the_csv() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    let sheet = table(&example(), &["slowdown".into()]).unwrap();
    sheet.write_parquet(&path).unwrap();
    let layers = smrkit_trace::parquet::table::read_words(&path, "layer").unwrap();
    assert_eq!(layers, ["rmw", "log", "log"]);
    let (bytes, csv) = (std::fs::read(&path).unwrap(), sheet.csv());
    let bytes = String::from_utf8_lossy(&bytes).into_owned();
    assert!(csv.lines().next().unwrap().split(',').all(|head| bytes.contains(head)));
}

#[test]
fn the_best_is_that_of_its_demand_and_never_the_baseline() {
    let mut rows = example();
    for (nth, row) in rows.iter_mut().enumerate() {
        row.insert("workload".into(), json!(["mix", "mix", "mix", "zipf"][nth]));
    }
    rows.push(FlatRun::from([
        ("layer".into(), json!(BASELINE)),
        ("workload".into(), json!("mix")),
        ("slowdown".into(), json!(1)),
    ]));
    let cells: Vec<String> =
        table(&rows, &["slowdown".into()]).unwrap().grid().rows.into_iter().map(|mut row| row.pop().unwrap()).collect();
    assert_eq!(cells, ["5 ± 1", "2.5 *", "2", "1"], "alone under zipf, nothing is better than it");
}

#[test]
fn the_best_of_a_line_is_marked_and_what_is_missing_is_a_dash() {
    let grid = pivot(&example(), "layer", "parameters.cache_percent", "slowdown").unwrap().grid();
    assert_eq!(grid.header, ["slowdown of layer by cache", "1 (×)", "2 (×)"]);
    assert_eq!(grid.rows, [["rmw", "5 ± 1 *", "-"], ["log", "2.5", "2 *"]]);
}

#[test]
fn two_sweeps_are_compared_run_by_run_with_their_spread() {
    let others = vec![row("log", 1, 1, 5.0), row("rmw", 1, 1, 2.0), row("rmw", 1, 2, 3.0), row("rmw", 9, 1, 3.0)];
    let grid = against(&example(), &others, "slowdown", ["old", "new"]).unwrap().grid();
    assert_eq!(grid.header[2..], ["slowdown of old (×)", "slowdown of new (×)", "ratio"]);
    assert_eq!(grid.rows[0][2..], ["5 ± 1", "2.5 ± 0.5", "2 ± 0.83"], "between 4/3 and 6/2");
    assert_eq!(grid.rows[1][2..], ["2.5", "5", "0.5"]);
    assert_eq!(
        (&grid.rows[2][2..], &grid.rows[3][1..]),
        (&["2".into(), "-".into(), "-".into()][..], &["9".into(), "-".into(), "3".into(), "-".into()][..])
    );
}

#[test]
fn rows_are_kept_by_their_values_and_unknown_keys_refused() {
    let wanted = |key: &str, value: &str| vec![(key.to_string(), value.to_string())];
    assert_eq!(filter(example(), &wanted("layer", "log")).unwrap().len(), 2);
    assert_eq!(filter(example(), &wanted("parameters.cache_percent", "2")).unwrap().len(), 1);
    assert!(filter(example(), &wanted("colour", "red")).unwrap_err().to_string().contains("no outcome has the key"));
    let apart = [wanted("layer", "rmw"), wanted("parameters.cache_percent", "2")].concat();
    let none = filter(example(), &apart).unwrap_err().to_string();
    assert_eq!(none, "no run has parameters.cache_percent=2 among those chosen so far: there are 1");
    let many = (0..30).map(|seed| row("rmw", 1, seed, 1.0)).collect();
    let listed = filter(many, &wanted("seed", "99")).unwrap_err().to_string();
    assert!(listed.ends_with(", …") && listed.matches(", ").count() == 20, "{listed}");
    let short = filter(example(), &wanted("cache_percent", "2")).unwrap_err().to_string();
    assert!(short.ends_with("did you mean parameters.cache_percent?"), "{short}");
    let mistyped = table(&example(), &["slowdwn".into()]).unwrap_err().to_string();
    assert!(mistyped.ends_with("did you mean slowdown?"), "{mistyped}");
}

#[test]
fn values_are_sought_as_options_take_them() {
    let record = json!({
        "layer": "set-assoc",
        "parameters": {"cache_percent": 2.0, "region_sectors": 256},
        "engine": {"depth": 10, "think_ns": 1_000_000, "time_scale": 2.5},
        "capacity": {"raw_sectors": 2048, "host_bytes": 4096},
    });
    let mut row = FlatRun::new();
    flatten(String::new(), record, &mut row);
    for (key, texts) in [
        ("parameters.cache_percent", ["2", "2%", "2.0"]),
        ("parameters.region_sectors", ["256", "0.256k", "2_56"]),
        ("engine.depth", ["10", "0.01k", "1_0"]),
        ("engine.think_ns", ["1000000", "1ms", "1_000_000"]),
        ("engine.time_scale", ["2.5", "2.50", "25e-1"]),
        ("capacity.raw_sectors", ["2048", "1MiB", "2_048"]),
        ("capacity.host_bytes", ["4096", "4KiB", "4_096"]),
    ] {
        for text in texts {
            let wanted = [(key.to_string(), text.to_string())];
            assert_eq!(filter(vec![row.clone()], &wanted).map(|rows| rows.len()).ok(), Some(1), "{key}={text}");
        }
    }
    let other = filter(vec![row], &[("engine.depth".into(), "1".into())]).unwrap_err().to_string();
    assert_eq!(other, "no run has engine.depth=1: there are 10");
}

#[test]
fn keys_of_disks_are_told_from_those_of_demands() {
    let all = ["layer", "drive", "drive_file", RAW_SECTORS, "array", "parameters.cache_percent"];
    assert!(all.into_iter().all(is_system));
    assert!(!["trace", "workload", "engine.depth", "parameters", "seed"].into_iter().any(is_system));
}

#[test]
fn choices_are_shown_in_the_unit_that_they_were_made_in() {
    let units =
        ["parameters.cache_percent", "engine.think_ns", "bypass_bytes", RAW_SECTORS, "engine.depth"].map(raw_unit);
    assert_eq!(units, ["%", "ns", "B", "sectors", ""]);
}

#[test]
fn what_varied_comes_in_the_order_of_disks_demands_and_settings() {
    let of = |pairs: &[(&str, u64)]| {
        let mut row = FlatRun::from([("layer".into(), json!("rmw"))]);
        row.extend(pairs.iter().map(|(key, value)| (key.to_string(), json!(value))));
        row
    };
    let keys = ["workload", "drive", "engine.depth", "parameters.a", "run.rebuild", "array", "requests", "interleave"];
    let rows = [0, 1].map(|nth| of(&keys.map(|key| (key, nth))));
    let known = ["layer", "drive", "array", "workload", "interleave", "run.rebuild", "engine.depth", "parameters.a"];
    assert_eq!(varying(&rows), known);
    assert_eq!(varying(&[of(&[("drive", 1)]), of(&[("drive", 1)])]), ["layer"], "a layer is named in any case");
    assert!(varying(&[FlatRun::from([("seed".into(), json!(1))])]).is_empty());
}

#[test]
fn parameters_vary_within_a_layer_by_what_was_asked_for() {
    let of = |layer: &str, became: u64, asked: Option<&str>| {
        let mut row = FlatRun::from([("layer".into(), json!(layer)), ("parameters.tracks".into(), json!(became))]);
        row.extend(asked.map(|text| ("asked.tracks".to_string(), json!(text))));
        row
    };
    let keys = |rows: &[FlatRun]| varying(rows).join(" ");
    assert_eq!(keys(&[of("a", 1, None), of("b", 2, None)]), "layer", "two layers have two defaults");
    assert_eq!(keys(&[of("a", 1, None), of("a", 2, None)]), "layer parameters.tracks");
    assert_eq!(keys(&[of("a", 1, Some("auto")), of("a", 2, Some("auto"))]), "layer");
    assert_eq!(keys(&[of("a", 1, Some("auto")), of("a", 1, None)]), "layer parameters.tracks");
}

#[test]
fn lists_have_no_columns_and_records_have_dotted_ones() {
    let mut row = FlatRun::new();
    flatten(String::new(), json!({"a": {"b": {"c": 1}, "d": [1, 2]}, "e": "x"}), &mut row);
    assert_eq!(row, FlatRun::from([("a.b.c".into(), json!(1)), ("e".into(), json!("x"))]));
}

#[test]
fn a_filter_wants_all_of_its_values() {
    let kept = |pairs: &[(&str, &str)]| -> Vec<String> {
        let wanted: Vec<_> = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        filter(example(), &wanted).unwrap().iter().map(|row| cell(row, "slowdown")).collect()
    };
    assert_eq!(kept(&[]), ["4", "6", "2.5", "2"]);
    assert_eq!(kept(&[("layer", "rmw"), ("seed", "2")]), ["6"]);
    assert_eq!(filter(Vec::new(), &[("colour".into(), "red".into())]).unwrap(), Vec::<FlatRun>::new());
    let unknown = filter(example(), &[("colour".into(), "red".into())]).unwrap_err().to_string();
    assert!(unknown.contains("keys are those of outcome.json"), "{unknown}");
}

#[test]
fn only_the_first_value_is_marked_and_texts_stay_texts() {
    let mut rows = example();
    for (nth, row) in rows.iter_mut().enumerate() {
        row.insert("verdict.text".into(), json!(["a", "b", "c", "d"][nth]));
        row.insert("requests".into(), json!(100 - nth));
    }
    let sheet = table(&rows, &["slowdown", "verdict.text", "requests"].map(String::from)).unwrap();
    let rows: Vec<Vec<String>> = sheet.grid().rows.into_iter().map(|row| row[2..].to_vec()).collect();
    assert_eq!(rows, [["5 ± 1", "a", "99.5 ± 0.5"], ["2.5", "c", "98"], ["2 *", "d", "97"]]);
    assert_eq!(sheet.best(), [2]);
    assert!(table(&example(), &["colour".into()]).is_err());
}

#[test]
fn a_line_marks_its_least_and_never_the_conventional_disk() {
    let rows = [row(BASELINE, 1, 1, 1.0), row("rmw", 1, 1, 3.0), row("log", 1, 1, 3.0), row("log", 2, 1, 4.0)];
    let grid = pivot(&rows, "parameters.cache_percent", "layer", "slowdown").unwrap().grid();
    assert_eq!(grid.header, ["slowdown of cache by layer", "in-place (×)", "rmw (×)", "log (×)"]);
    assert_eq!(grid.rows, [["1", "1", "3 *", "3 *"], ["2", "-", "-", "4 *"]]);
    assert!(pivot(&rows, "colour", "layer", "slowdown").is_err());
    assert!(pivot(&rows, "layer", "colour", "slowdown").is_err());
    assert!(pivot(&rows, "layer", "seed", "colour").is_err());
}
