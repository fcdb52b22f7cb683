use super::*;
use crate::frame::flat;

fn run(layer: &str, tracks: Option<u64>, workload: &str, seed: u64, slowdown: f64) -> FlatRun {
    let parameters = tracks.map_or(json!({}), |tracks| json!({"cache_tracks": tracks}));
    flat(json!({
        "layer": layer, "parameters": parameters, "workload": workload, "trace": null, "seed": seed, "slowdown": slowdown,
    }))
}

fn keys() -> Vec<String> {
    vec!["slowdown".into()]
}

fn rows_of(pairs: &Pairs) -> Vec<String> {
    pairs.text().lines().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn runs_of_one_seed_are_compared_with_each_other() {
    // Seeds are far apart, and the second layer takes twice the time under each but for a little.
    let mut rows = Vec::new();
    for (seed, (base, ratio)) in [(1.0, 2.0), (10.0, 2.1), (100.0, 1.9)].into_iter().enumerate() {
        rows.push(run("rmw", None, "mix", seed as u64, base));
        rows.push(run("log", None, "mix", seed as u64, base * ratio));
        // Those of another load are pairs of their own.
        rows.push(run("log", None, "zipf", seed as u64, base * 3.0));
        rows.push(run("rmw", None, "zipf", seed as u64, base));
    }
    let pairs = Pairs::new(&rows, "layer", "rmw,log", &keys()).unwrap();
    assert_eq!(rows_of(&pairs), ["mix slowdown (×) 3 37 71 2.00 (1.76 to 2.26)", "zipf slowdown (×) 3 37 111 3"]);
    let text = pairs.text();
    assert!(text.contains("log / rmw") && !text.contains("log - rmw"), "{text}");
    let backwards = Pairs::new(&rows, "layer", "log,rmw", &keys()).unwrap();
    assert!(rows_of(&backwards)[0].ends_with("71 37 0.500 (0.442 to 0.567)"), "{}", backwards.text());
    let csv = pairs.frame().csv();
    let head = "workload,value,first,second,n,mean_first,mean_second,ratio,ratio.low,ratio.high,difference,difference.low,difference.high";
    assert!(csv.starts_with(&format!("{head}\nmix,slowdown,rmw,log,3,37,")), "{csv}");
    assert!(csv.lines().all(|line| line.split(',').count() == 13), "{csv}");
    let numbers: Vec<f64> = csv.lines().nth(1).unwrap().split(',').filter_map(|cell| cell.parse().ok()).collect();
    assert!(numbers[3] > numbers[4] && numbers[3] < numbers[5], "the ratio is within its interval: {csv}");
    assert!((numbers[6] - (1.0 + 11.0 + 90.0) / 3.0).abs() < 1e-9 && numbers[7] < numbers[6], "{csv}");
}

#[test]
fn parameters_of_one_side_make_lines_and_shared_ones_match() {
    let of = |layer: &str, tracks, slowdown| run(layer, tracks, "mix", 1, slowdown);
    let rows = [of("rmw", Some(1), 1.0), of("rmw", Some(2), 2.0), of("log", None, 4.0)];
    let lines = rows_of(&Pairs::new(&rows, "layer", "rmw,log", &keys()).unwrap());
    assert_eq!(lines[..2], ["1 slowdown (×) 1 1 4 4", "2 slowdown (×) 1 2 4 2"]);
    assert_eq!(lines[3], "One seed makes no interval: sweep with repeat = 5.");
    let rows = [of("rmw", Some(1), 1.0), of("rmw", Some(2), 2.0), of("log", Some(1), 4.0), of("log", Some(2), 6.0)];
    let lines = rows_of(&Pairs::new(&rows, "layer", "rmw,log", &keys()).unwrap());
    assert_eq!(lines[..2], ["1 slowdown (×) 1 1 4 4", "2 slowdown (×) 1 2 6 3"]);
    let lines = rows_of(&Pairs::new(&rows, "parameters.cache_tracks", "1,2", &keys()).unwrap());
    assert_eq!(lines[..2], ["rmw slowdown (×) 1 1 2 2", "log slowdown (×) 1 4 6 1.5"]);
}

#[test]
fn values_that_may_be_0_have_a_difference() {
    let of = |layer: &str, seed, value: f64| run(layer, None, "mix", seed, value);
    let rows = [of("rmw", 1, 0.0), of("rmw", 2, 2.0), of("log", 1, 1.0), of("log", 2, 3.5)];
    let pairs = Pairs::new(&rows, "layer", "rmw,log", &keys()).unwrap();
    assert_eq!(rows_of(&pairs)[0], "slowdown (×) 2 1 2.25 1.2 (-1.9 to 4.4)");
    assert!(pairs.text().contains("log - rmw") && !pairs.text().contains("log / rmw"));
    assert!(pairs.frame().csv().contains(",1,2.25,,,,1.25,"), "no ratio: {}", pairs.frame().csv());
}

#[test]
fn seeds_play_no_part_in_a_replay() {
    let of =
        |layer: &str, slowdown: f64| flat(json!({"layer": layer, "trace": "a.csv", "seed": 1, "slowdown": slowdown}));
    let pairs = Pairs::new(&[of("rmw", 2.0), of("log", 3.0)], "layer", "rmw,log", &keys()).unwrap();
    assert_eq!(
        rows_of(&pairs),
        ["slowdown (×) 1 2 3 1.5", "", "Seeds play no part in a replay: its one pair is exact, and has no interval."]
    );
    assert!(pairs.frame().csv().ends_with("1.5,,,1,,\n"), "{}", pairs.frame().csv());
}

#[test]
fn an_array_is_found_by_its_text_and_nonsense_refused() {
    let of =
        |array: &str, slowdown: f64| flat(json!({"array": array, "workload": "mix", "seed": 1, "slowdown": slowdown}));
    let rows = [of("raid1(tiny,tiny)", 2.0), of("raid0(tiny,tiny)", 1.0)];
    let compare =
        |key: &str, sides: &str| Pairs::new(&rows, key, sides, &keys()).map(|pairs| rows_of(&pairs)[0].clone());
    assert_eq!(compare("array", "raid1(tiny,tiny),raid0(tiny,tiny)").unwrap(), "slowdown (×) 1 2 1 0.5");
    let error = |key: &str, sides: &str| compare(key, sides).unwrap_err().to_string();
    assert!(error("array", "raid1").contains("give two with a comma"));
    assert!(error("array", "raid1,raid0").ends_with("there are raid0(tiny,tiny), raid1(tiny,tiny)"));
    assert!(error("colour", "a,b").contains("no outcome has the key colour"));
    assert!(error("workload", "mix,zipf").contains("have other requests"));
    let lone = [run("rmw", None, "mix", 1, 1.0), run("log", None, "zipf", 1, 1.0)];
    let error = Pairs::new(&lone, "layer", "rmw,log", &keys()).err().unwrap().to_string();
    assert!(error.contains("no two runs differ in layer alone"), "{error}");
}

/// Numbers that are normal enough: sums of twelve of Knuth's linear congruential generator (MMIX), whose upper bits are good enough here.
fn normal(state: &mut u64) -> f64 {
    let mut uniform = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..12).map(|_| uniform()).sum::<f64>() - 6.0
}

#[test]
fn of_a_thousand_experiments_ninety_five_in_a_hundred_intervals_hold_the_truth() {
    let mut state = 7;
    for seeds in [2, 3, 5, 10, 40] {
        let [mut means, mut ratios] = [0, 0];
        for _ in 0..1000 {
            let mut rows = Vec::new();
            for seed in 0..seeds {
                // What both layers have in common by chance is ten times what they have not.
                let common = normal(&mut state);
                let value = |layer: f64, own: f64| layer * (1.0 + 0.05 * common).max(0.5) * (0.005 * own).exp();
                rows.push(run("rmw", None, "mix", seed, value(10.0, normal(&mut state))));
                rows.push(run("log", None, "mix", seed, value(12.0, normal(&mut state))));
            }
            let holds = |row: &[Value], low: usize, truth: f64| {
                (row[low].as_f64().unwrap()..=row[low + 1].as_f64().unwrap()).contains(&truth)
            };
            let of_means = crate::table::intervals(&rows, &keys()).unwrap();
            means += usize::from(holds(&of_means.rows[0], 3, 10.0));
            let of_pairs = Pairs::new(&rows, "layer", "rmw,log", &keys()).unwrap().frame();
            ratios += usize::from(holds(&of_pairs.rows[0], 7, 1.2));
        }
        assert!((930..=970).contains(&means) && (930..=970).contains(&ratios), "{seeds} seeds: {means} {ratios}");
    }
}
