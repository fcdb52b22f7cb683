use super::*;
use crate::frame::flat;
use serde_json::json;

fn row(layer: &str, percent: u64, seed: u64, slowdown: f64) -> FlatRun {
    flat(json!({"layer": layer, "parameters": {"cache_percent": percent}, "seed": seed, "slowdown": slowdown}))
}

fn example() -> Vec<FlatRun> {
    vec![row("rmw", 1, 1, 4.0), row("rmw", 1, 2, 6.0), row("log", 1, 1, 2.5), row("log", 2, 1, 2.0)]
}

#[test]
fn whole_numbers_are_shown_whole_and_without_a_point() {
    let row = flat(json!({"a": u64::MAX, "b": 2.0, "c": 2.5, "d": true, "e": null}));
    let shown = ["a", "b", "c", "d", "e", "f"].map(|key| cell(&row, key));
    assert_eq!(shown, ["18446744073709551615", "2", "2.5", "true", "-", "-"]);
}

#[test]
fn seeds_share_a_line_that_shows_their_spread() {
    let grid = table(&example(), &["slowdown".into()], false).unwrap();
    assert_eq!(grid.header, ["layer", "cache (%)", "n", "slowdown (×)"]);
    assert_eq!(grid.rows, [["rmw", "1", "2", "5 ± 13"], ["log", "1", "1", "2.5"], ["log", "2", "1", "2 *"]]);
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
        table(&rows, &["slowdown".into()], false).unwrap().rows.into_iter().map(|mut row| row.pop().unwrap()).collect();
    assert_eq!(cells, ["5 ± 13", "2.5 *", "2", "1"], "alone under zipf, nothing is better than it");
}

#[test]
fn requests_at_their_own_times_are_judged_by_their_mean_latency() {
    let of = |arrival: &str| {
        let run = |layer: &str, slowdown: f64, mean: u64| {
            let mut row = FlatRun::from(VALUES.map(|value| (value.to_string(), json!(slowdown))));
            row.extend([
                ("layer".into(), json!(layer)),
                ("engine.arrival".into(), json!(arrival)),
                ("latency_ns.all.mean".into(), json!(mean)),
            ]);
            row
        };
        let rows = [run("rmw", 1.0, 9), run("log", 1.1, 5)];
        table(&rows, &shown_keys(&[], &rows), false).unwrap().best
    };
    assert_eq!((of("trace"), of("flat-out")), (vec![1], vec![0]));
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
    let row = flat(json!({"a": {"b": {"c": 1}, "d": [1, 2]}, "e": "x"}));
    assert_eq!(row, FlatRun::from([("a.b.c".into(), json!(1)), ("e".into(), json!("x"))]));
}

#[test]
fn only_the_first_value_is_marked_and_texts_stay_texts() {
    let mut rows = example();
    for (nth, row) in rows.iter_mut().enumerate() {
        row.insert("verdict.text".into(), json!(["a", "b", "c", "d"][nth]));
        row.insert("requests".into(), json!(100 - nth));
    }
    let grid = table(&rows, &["slowdown", "verdict.text", "requests"].map(String::from), false).unwrap();
    let rows: Vec<Vec<String>> = grid.rows.into_iter().map(|row| row[3..].to_vec()).collect();
    assert_eq!(rows, [["5 ± 13", "a", "99.5 ± 6.4"], ["2.5", "c", "98"], ["2 *", "d", "97"]]);
    assert_eq!(grid.best, [2]);
    assert!(table(&example(), &["colour".into()], false).is_err());
}

#[test]
fn csv_has_a_line_a_run_with_numbers_in_full() {
    let mut rows = example();
    rows[3].insert("slowdown".into(), Value::Null);
    rows[0].insert("slowdown".into(), json!(4.123456789));
    rows[1].insert("verdict.text".into(), json!("say \"x\", twice"));
    let text = runs(&rows, &["slowdown", "verdict.text"].map(String::from)).unwrap().csv();
    assert_eq!(
        text,
        "layer,parameters.cache_percent,seed,slowdown,verdict.text\nrmw,1,1,4.123456789,\nrmw,1,2,6,\"say \"\"x\"\", twice\"\n\
         log,1,1,2.5,\nlog,2,1,,\n"
    );
    assert!(runs(&rows, &["colour".into()]).is_err());
}

#[test]
fn intervals_have_a_line_for_runs_that_differ_in_their_seed_alone() {
    let mut rows = example();
    rows.iter_mut().for_each(|row| drop(row.insert("verdict.text".into(), json!("x"))));
    let text = intervals(&rows, &["slowdown", "verdict.text"].map(String::from)).unwrap().csv();
    // 5 ± 12.706, since the standard error of 4 and 6 is 1.
    let ends = [
        "layer,parameters.cache_percent,n,slowdown.mean,slowdown.low,slowdown.high,verdict.text",
        "rmw,1,2,5,",
        "log,1,1,2.5,,,x",
    ];
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().zip(ends).all(|(line, end)| line.starts_with(end)) && lines.len() == 4, "{text}");
    let numbers: Vec<f64> = lines[1].split(',').filter_map(|cell| cell.parse().ok()).collect();
    assert!((numbers[3] + 7.706).abs() < 1e-9 && (numbers[4] - 17.706).abs() < 1e-9, "{text}");
    assert!(intervals(&rows, &["colour".into()]).is_err());
}

#[test]
fn durations_are_shown_as_people_write_them_and_found_by_any_spelling() {
    let of = |delay: &str, slowdown: u64| {
        flat(
            json!({"layer": "log", "parameters": {"idle_delay": delay}, "engine": {"depth": slowdown}, "slowdown": slowdown}),
        )
    };
    let grid = table(&[of("1100ms", 1), of("24780us", 2), of("0s", 0)], &["slowdown".into()], false).unwrap();
    let cells: Vec<&str> = grid.rows.iter().flat_map(|row| [row[1].as_str(), row[2].as_str()]).collect();
    assert_eq!(cells, ["1", "1.1 s", "2", "24.78 ms", "0", "0s"]);
    assert!(is_value("1100ms", "1.1s") && is_value("log", "log"));
    assert!(!is_value("1100ms", "1.2s") && !is_value("1", "1s") && !is_value("log", "rmw"));
}

#[test]
fn of_rates_the_highest_is_the_best() {
    let of = |layer: &str, rate: u64| {
        let rates =
            ["verdict.rate_after_bytes_per_s", "verdict.cache_full_at_s"].map(|key| (key.to_string(), json!(rate)));
        FlatRun::from_iter(rates.into_iter().chain([("layer".into(), json!(layer)), ("slowdown".into(), json!(rate))]))
    };
    let rows = [of("rmw", 1), of("log", 3), of("vguard", 2)];
    let best = |key: &str| table(&rows, &[key.into()], false).unwrap().best;
    assert_eq!(best("verdict.rate_after_bytes_per_s"), [1]);
    assert_eq!(best("verdict.cache_full_at_s"), [1]);
    assert_eq!(best("slowdown"), [0]);
}

#[test]
fn outcomes_are_kept_by_all_of_their_values_and_unknown_ones_refused() {
    let outcome = |layer: &str, seed, depth| {
        let mut outcome = Outcome { layer: layer.into(), seed, ..Outcome::default() };
        outcome.engine.depth = depth;
        outcome
    };
    let all = vec![outcome("rmw", 1, 1), outcome("rmw", 2, 10), outcome("log", 1, 10)];
    let kept = |wanted: &[(&str, &str)]| {
        let wanted: Vec<_> = wanted.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let kept = filter(all.clone(), &wanted).map_err(|error| error.to_string())?;
        Ok::<_, String>(kept.iter().map(|one| format!("{} {}", one.layer, one.seed)).collect::<Vec<_>>().join(", "))
    };
    assert_eq!(kept(&[]).unwrap(), "rmw 1, rmw 2, log 1");
    assert_eq!(kept(&[("engine.depth", "10")]).unwrap(), "rmw 2, log 1");
    assert_eq!(kept(&[("layer", "rmw"), ("engine.depth", "10")]).unwrap(), "rmw 2");
    let error = |wanted: &[(&str, &str)]| kept(wanted).unwrap_err();
    assert_eq!(
        error(&[("engine.depth", "1"), ("seed", "2")]),
        "no run has seed=2 among those chosen so far: there are 1"
    );
    assert!(error(&[("colour", "red")]).contains("keys are those of outcome.json"));
    assert!(error(&[("depth", "1")]).ends_with("did you mean engine.depth?"));
    let many = (0..30).map(|seed| outcome("rmw", seed, 1)).collect();
    let listed = filter(many, &[("seed".into(), "99".into())]).unwrap_err().to_string();
    assert!(listed.ends_with(", …") && listed.matches(", ").count() == 20, "{listed}");
    let row = flat(json!({"latency_ns": {"all": {"p99": 1, "p99_9": 2}}}));
    for key in ["latency_ns.all.p999", "p999", "p99_9"] {
        let said = check_key(std::slice::from_ref(&row), key).unwrap_err().to_string();
        assert!(said.ends_with("did you mean latency_ns.all.p99_9?"), "{said}");
    }
    let mistyped = table(&example(), &["slowdwn".into()], false).unwrap_err().to_string();
    assert!(mistyped.ends_with("did you mean slowdown?"), "{mistyped}");
}

#[test]
fn a_column_has_the_unit_of_its_middle() {
    let of = |layer: &str, mean: Option<f64>| {
        FlatRun::from([("layer".into(), json!(layer)), ("latency_ns.all.mean".into(), json!(mean))])
    };
    let head = |rows: &[FlatRun]| {
        let grid = table(rows, &["latency_ns.all.mean".into()], false).unwrap();
        (grid.header[1].clone(), grid.rows.iter().map(|row| row[1].clone()).collect::<Vec<_>>().join(" "))
    };
    // The middle of 4 µs and 4 s is 4 ms.
    let rows = [of("a", Some(4e3)), of("b", Some(4e9)), of("c", None)];
    assert_eq!(head(&rows), ("mean latency (ms)".into(), "0.004 * 4,000 -".into()));
    assert_eq!(head(&rows[2..]), ("mean latency".into(), "-".into()));
    assert!(table(&[], &["slowdown".into()], false).unwrap().rows.is_empty());
}

#[test]
fn a_single_run_has_the_interval_of_its_own_requests() {
    let run = |seed: u64, p99: serde_json::Value| {
        let latency = json!({"all": {"p99": 30_000_000}});
        flat(json!({"layer": "log", "seed": seed, "latency_ns": latency, "confidence": {"all": {"p99": p99}}}))
    };
    let keys = ["latency_ns.all.p99".to_string()];
    let own = json!({"low": 2e7, "high": 5e7});
    let shown = |rows: &[FlatRun], within| table(rows, &keys, within).unwrap().rows[0].last().cloned().unwrap();
    let one = [run(1, own.clone())];
    assert_eq!((shown(&one, true), shown(&one, false)), ("30 (20 to 50)".into(), "30".into()));
    let frame = intervals(&one, &keys).unwrap();
    assert_eq!(frame.rows, [[json!("log"), json!(1), json!(3e7), json!(2e7), json!(5e7)]]);
    let seeds = [run(1, own.clone()), run(2, own)];
    assert_eq!(shown(&seeds, true), "30", "those of seeds count");
    let few = run(2, json!({"low": null, "high": null, "unknown": "too-few-requests"}));
    assert_eq!(shown(std::slice::from_ref(&few), true), "30");
    let shared = [one[0].clone(), few.clone(), few];
    let told = ["p99 latency: too few requests to tell it in 1 of 2 runs."];
    assert_eq!(
        (doubts(&shared[..2], &keys), doubts(&shared, &keys)),
        (told.map(String::from).into(), told.map(String::from).into())
    );
    assert!(doubts(&one, &keys).is_empty());
}
