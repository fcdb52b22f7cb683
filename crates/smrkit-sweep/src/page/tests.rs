use super::*;
use serde_json::json;

fn runs(all: &[(&str, u64, u64, f64)]) -> Runs {
    let row = |&(layer, depth, seed, slowdown): &(&str, u64, u64, f64)| {
        FlatRun::from([
            ("layer".into(), json!(layer)),
            ("engine.depth".into(), json!(depth)),
            ("seed".into(), json!(seed)),
            ("slowdown".into(), json!(slowdown)),
        ])
    };
    Runs::new(all.iter().map(row).collect())
}

#[test]
fn the_answer_counts_the_cases_that_each_system_wins() {
    let runs = runs(&[
        (BASELINE, 1, 1, 1.0),
        ("rmw", 1, 1, 4.0),
        ("rmw", 1, 2, 6.0),
        ("log", 1, 1, 2.0),
        ("log", 1, 2, 2.5),
        ("rmw", 8, 1, 3.0),
        ("rmw", 8, 2, 5.0),
        ("log", 8, 1, 4.5),
        ("log", 8, 2, 5.5),
        ("log", 32, 1, 7.0),
    ]);
    let said = runs.answer(&[]).join(" ");
    assert!(said.contains("in 3 cases. log takes the least time in 1 of them, rmw in 1."), "{said}");
    assert!(said.contains("In 1 the runner-up comes as close as the seeds lie apart."), "{said}");
    assert!(said.ends_with("from 2.25× (log, depth 1) to 7× (log, depth 32)."), "{said}");
}

#[test]
fn figures_go_over_the_numbers_that_vary_with_a_line_a_system() {
    let figures =
        runs(&[("rmw", 1, 1, 4.0), ("rmw", 1, 2, 6.0), ("rmw", 8, 1, 3.0), ("log", 1, 1, 2.0), ("log", 8, 1, 2.0)])
            .figures();
    let [figure] = figures.as_slice() else { panic!("{figures:?}") };
    assert_eq!(figure.title, "Slowdown by depth");
    let Body::Lines(series) = &figure.panels[0].body else { panic!("no lines") };
    let rmw: Vec<_> = series.iter().filter(|series| series.name == "rmw").map(|series| series.points.clone()).collect();
    assert_eq!(rmw, [vec![(1.0, 5.0), (8.0, 3.0)], vec![(1.0, 4.0), (1.0, 6.0), (8.0, 3.0)]]);
}

#[test]
fn systems_without_the_axis_are_marked_beside_the_lines() {
    let row = |layer: &str, depth: u64, cache: Option<u64>, slowdown: f64| {
        let mut row = runs(&[(layer, depth, 1, slowdown)]).rows.remove(0);
        row.extend(cache.map(|percent| ("parameters.cache_percent".into(), json!(percent))));
        row
    };
    let with = |depth, slowdown| [5, 10].map(|cache| row("set-assoc", depth, Some(cache), slowdown));
    let without =
        [row("rmw", 1, None, 4.0), row("rmw", 1, None, 6.0), row("log", 1, None, 2.0), row("rmw", 8, None, 3.0)];
    let runs = Runs::new([with(1, 1.5), with(8, 1.25)].concat().into_iter().chain(without).collect());
    let figure = runs.over("parameters.cache_percent", "slowdown");
    let guides: Vec<_> = figure.panels.into_iter().map(|panel| panel.guides).collect();
    let guide = |value: f64, name: &str| (value, name.to_string());
    assert_eq!(guides, [vec![guide(5.0, "rmw"), guide(2.0, "log")], vec![guide(3.0, "rmw")]]);
}

#[test]
fn an_axis_has_the_unit_of_what_was_asked_for() {
    let rows = [(1000, 2.0), (5000, 3.0)].map(|(think_ns, slowdown)| {
        FlatRun::from([
            ("layer".into(), json!("rmw")),
            ("engine.think_ns".into(), json!(think_ns)),
            ("slowdown".into(), json!(slowdown)),
        ])
    });
    let figures = Runs::new(rows.into()).figures();
    let axis = &figures[0].panels[0].x;
    assert!(axis.label.ends_with("(ns)"), "{}", axis.label);
}

#[test]
fn runs_at_their_own_times_are_marked_by_what_the_answer_goes_by() {
    let rows = [("rmw", 1.0, 9), ("log", 1.1, 5)].map(|(layer, slowdown, mean)| {
        let mut row = FlatRun::from(VALUES.map(|value| (value.to_string(), json!(slowdown))));
        row.extend([
            ("layer".into(), json!(layer)),
            ("engine.arrival".into(), json!("trace")),
            ("latency_ns.all.mean".into(), json!(mean)),
        ]);
        row
    });
    let runs = Runs::new(rows.into());
    assert!(runs.answer(&[]).join(" ").contains("log has the least mean latency."), "{:?}", runs.answer(&[]));
    assert_eq!(runs.table().unwrap().best, [1]);
}

#[test]
fn what_has_no_axis_is_drawn_as_bars_with_the_spread() {
    let figures = runs(&[("rmw", 1, 1, 4.0), ("rmw", 1, 2, 6.0), ("log", 1, 1, 2.0)]).figures();
    let Body::Bars { rows, totals, .. } = &figures[0].panels[0].body else { panic!("no bars") };
    assert_eq!((rows.join(" "), totals.join(" ")), ("rmw log".into(), "5 ± 12.7 2".into()));
}

#[test]
fn the_answer_tells_one_case_from_several_and_one_winner_from_many() {
    let said = |all: &[(&str, u64, u64, f64)]| runs(all).answer(&[]).join(" ");
    let times = "Multiples of a conventional disk's time";
    assert_eq!(said(&[(BASELINE, 1, 1, 1.0)]), "0 runs.");
    assert_eq!(said(&[("log", 1, 1, 2.0)]), format!("0 runs in 1 case. {times}: 2× (log)."));
    assert_eq!(
        said(&[("log", 1, 1, 2.0), ("rmw", 1, 1, 3.0)]),
        format!("0 runs in 1 case. log takes the least time. {times}: from 2× (log) to 3× (rmw).")
    );
    assert_eq!(
        said(&[("log", 1, 1, 2.0), ("rmw", 1, 1, 3.0), ("log", 8, 1, 1.5), ("rmw", 8, 1, 4.0)]),
        format!(
            "0 runs in 2 cases. log takes the least time in all of them. {times}: from 1.5× (log, depth 8) to 4× (rmw, depth 8)."
        )
    );
    assert_eq!(
        said(&[
            ("log", 1, 1, 2.0),
            ("rmw", 1, 1, 3.0),
            ("log", 8, 1, 5.0),
            ("rmw", 8, 1, 4.0),
            ("log", 9, 1, 5.0),
            ("rmw", 9, 1, 4.0)
        ]),
        format!(
            "0 runs in 3 cases. rmw takes the least time in 2 of them, log in 1. {times}: from 2× (log, depth 1) to 5× (log, depth 9)."
        )
    );
}

#[test]
fn a_runner_up_is_close_from_where_the_seeds_meet_on() {
    let said = |rmw: f64| {
        let all = [("log", 1, 1, 2.0), ("log", 1, 2, 3.0), ("rmw", 1, 1, rmw), ("rmw", 1, 2, 9.0)];
        runs(&all).answer(&[]).join(" ").contains("In 1 the runner-up comes as close")
    };
    assert_eq!([2.9, 3.0, 3.1].map(said), [true, true, false]);
}

#[test]
fn mean_latencies_are_told_in_the_unit_of_the_greatest() {
    let rows = [("rmw", 2_500_000), ("log", 400_000)].map(|(layer, mean)| {
        FlatRun::from([
            ("layer".into(), json!(layer)),
            ("engine.arrival".into(), json!("trace")),
            ("latency_ns.all.mean".into(), json!(mean)),
        ])
    });
    let said = Runs::new(rows.into()).answer(&[]).join(" ");
    assert!(said.ends_with("Mean latencies: from 0.4 ms (log) to 2.5 ms (rmw)."), "{said}");
}

#[test]
fn an_axis_is_logarithmic_from_a_twentyfold_on() {
    let label = |values: &[f64]| {
        let axis = scale("depth".into(), values, Numbers::Bytes);
        assert_eq!(axis.numbers, Numbers::Bytes);
        (axis.label, axis.log)
    };
    let linear = ("depth".to_string(), false);
    assert_eq!(label(&[1.0, 19.9]), linear);
    assert_eq!(label(&[40.0, 2.0, 7.0]), ("depth (logarithmic)".to_string(), true));
    assert_eq!(label(&[0.0, 100.0]), linear);
}

/// Runs of two layers and a conventional disk over a cache's share, in this number of cases.
fn cached(cases: u64) -> Runs {
    let mut rows = Vec::new();
    for case in 0..cases {
        for (layer, percents) in [(BASELINE, None), ("rmw", Some([1, 2])), ("log", Some([1, 2]))] {
            for (nth, percent) in percents.map_or(vec![None], |both| both.map(Some).to_vec()).into_iter().enumerate() {
                let mut row = runs(&[(layer, case, 1, (1 + nth) as f64)]).rows.remove(0);
                row.insert("engine.depth".into(), json!(format!("case {case}")));
                row.insert("latency_ns.all.p99".into(), json!(3_000_000 * (nth + 1)));
                row.extend(percent.map(|percent| ("parameters.cache_percent".into(), json!(percent))));
                rows.push(row);
            }
        }
    }
    Runs::new(rows)
}

#[test]
fn a_figure_has_a_panel_a_case_and_a_colour_a_system() {
    let runs = cached(1);
    let figures = runs.figures();
    let names: Vec<_> = figures.iter().map(|figure| (figure.name.as_str(), figure.title.as_str())).collect();
    let by = "by-parameters-cache_percent";
    assert_eq!(
        names,
        [
            (format!("slowdown-{by}").as_str(), "Slowdown by cache"),
            (format!("latency_ns-all-p99-{by}").as_str(), "P99 latency by cache")
        ]
    );
    assert_eq!(figures[0].note, "Lines join the means, dots are single runs.");
    let [times, latency] = [0, 1].map(|nth| figures[nth].panels[0].clone());
    assert_eq!((times.title, latency.title), (None, None));
    assert_eq!((times.x.label.as_str(), times.y.label.as_str()), ("cache (%)", "slowdown (×)"));
    assert_eq!((latency.y.label.as_str(), latency.y.numbers), ("p99 latency", Numbers::Time));
    assert!(times.y.from_zero && !times.x.from_zero);
    assert_eq!(times.x.fixed, Some(times.x.range([1.0, 2.0].into_iter())));
    assert_eq!(times.y.fixed, Some(Axis::linear("").range([1.0, 2.0].into_iter())));
    assert_eq!(times.guides, [(1.0, BASELINE.to_string())]);
    assert_eq!(latency.guides, [(0.003, BASELINE.to_string())]);
    let drawn = |body: Body| match body {
        Body::Lines(series) => {
            series.into_iter().map(|one| (one.name, one.colour, one.style, one.points)).collect::<Vec<_>>()
        }
        _ => panic!("no lines"),
    };
    let of =
        |name: &str, nth, points: [(f64, f64); 2]| (name.to_string(), Colour::nth(nth), Style::Marked, points.to_vec());
    let points = [(1.0, 1.0), (2.0, 2.0)];
    assert_eq!(drawn(times.body), [of("rmw", 0, points), of("log", 1, points)]);
    let points = [(1.0, 0.003), (2.0, 0.006)];
    assert_eq!(drawn(latency.body), [of("rmw", 0, points), of("log", 1, points)]);
}

#[test]
fn a_conventional_disk_with_the_axis_is_grey() {
    let all = [(BASELINE, 1, 1, 1.0), (BASELINE, 8, 1, 1.0), ("rmw", 1, 1, 4.0), ("rmw", 8, 1, 3.0)];
    let Body::Lines(series) = runs(&all).figures().remove(0).panels.remove(0).body else { panic!("no lines") };
    let colours: Vec<_> = series.iter().map(|one| (one.name.as_str(), one.colour)).collect();
    assert_eq!(colours, [(BASELINE, Colour::GREY), ("rmw", Colour::nth(1))]);
}

#[test]
fn a_figure_has_twelve_panels_at_most_and_says_so() {
    let of = |cases: u64| cached(cases).over("parameters.cache_percent", "slowdown");
    let (twelve, more) = (of(12), of(13));
    assert_eq!((twelve.panels.len(), more.panels.len()), (12, 12));
    assert_eq!(twelve.panels[11].title.as_deref(), Some("depth case 11"));
    assert_eq!(twelve.note, "Lines join the means, dots are single runs.");
    assert_eq!(more.note, "Lines join the means, dots are single runs; the first 12 of 13 cases, the table has all.");
}

#[test]
fn bars_of_all_cases_have_the_range_of_the_largest() {
    let mut all = runs(&[("rmw", 1, 1, 4.0), ("log", 1, 1, 2.0), ("rmw", 2, 1, 8.0)]).rows;
    for (nth, row) in all.iter_mut().enumerate() {
        row.insert("engine.depth".into(), json!(["a", "a", "b"][nth]));
        row.insert("latency_ns.all.p99".into(), json!([4_000_000, 20_000_000, 8_000_000][nth]));
    }
    let figures = Runs::new(all).figures();
    let names: Vec<_> = figures.iter().map(|figure| (figure.name.as_str(), figure.title.as_str())).collect();
    assert_eq!(names, [("slowdown", "Slowdown"), ("latency_ns-all-p99", "P99 latency")]);
    assert_eq!(figures[0].note, "After each bar: the mean over seeds, and its 95 % confidence interval.");
    let range = |most: f64| Some(Axis::linear("").range([most].into_iter()));
    let drawn = |figure: &Figure| {
        let of = |panel: &Panel| {
            let Body::Bars { rows, totals, parts } = &panel.body else { panic!("no bars") };
            let values: Vec<f64> = parts[0].values.iter().map(|value| (value * 1e6).round() / 1e6).collect();
            (panel.title.clone().unwrap(), panel.x.label.clone(), rows.join(" "), totals.join(" "), values)
        };
        figure.panels.iter().map(of).collect::<Vec<_>>()
    };
    let row = |title: &str, label: &str, rows: &str, totals: &str, values: &[f64]| {
        (title.to_string(), label.to_string(), rows.to_string(), totals.to_string(), values.to_vec())
    };
    let label = "slowdown (×)";
    assert_eq!(
        drawn(&figures[0]),
        [row("depth a", label, "rmw log", "4 2", &[4.0, 2.0]), row("depth b", label, "rmw", "8", &[8.0])]
    );
    let label = "p99 latency (ms)";
    assert_eq!(
        drawn(&figures[1]),
        [row("depth a", label, "rmw log", "4 20", &[4.0, 20.0]), row("depth b", label, "rmw", "8", &[8.0])]
    );
    assert!(figures[0].panels.iter().all(|panel| panel.x.fixed == range(8.0)), "{:?}", figures[0].panels);
    let (least, most) = figures[1].panels[1].x.fixed.unwrap();
    assert!(least == 0.0 && (20.0..22.0).contains(&most), "{most}");
}

#[test]
fn dots_are_drawn_where_a_value_was_run_more_than_once() {
    let all = runs(&[("rmw", 8, 1, 3.0), ("rmw", 1, 1, 4.0), ("rmw", 1, 2, 7.0)]).rows;
    let drawn = |rows: &[FlatRun]| {
        let rows: Vec<&FlatRun> = rows.iter().collect();
        line(&rows, "engine.depth", "slowdown", 2.0).collect::<Vec<_>>()
    };
    let dots = vec![(1.0, 8.0), (1.0, 14.0), (8.0, 6.0)];
    assert_eq!(drawn(&all), [(Style::Line, vec![(1.0, 11.0), (8.0, 6.0)]), (Style::Points, dots)]);
    assert_eq!(drawn(&all[..2]), [(Style::Marked, vec![(1.0, 8.0), (8.0, 6.0)])]);
    assert_eq!(drawn(&[FlatRun::new()]), []);
}

#[test]
fn names_leave_out_what_a_system_does_not_have() {
    let keys = ["layer", "parameters.cache_percent", "engine.depth"].map(String::from);
    let of = |own: [&str; 3]| named(&keys, &own.map(String::from));
    assert_eq!(of(["vguard", "2", "8"]), "vguard, cache 2 %, depth 8");
    assert_eq!(of(["vguard", NONE, "8"]), "vguard, depth 8");
}
