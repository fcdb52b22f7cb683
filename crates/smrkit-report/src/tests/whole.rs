//! A small page as it is, to the last number; and sums over the figures of runs.

use smrkit::engine::NoObserver;
use smrkit::experiment::demand::GeneratedDemand;
use smrkit::experiment::system::System;
use smrkit::settings::Settings;
use smrkit::workload::Workload;

use super::*;

/// Lines of every style with a guide and a gap, and bars; the note and the legend take several lines.
fn small() -> Figure {
    let styles = ["Line", "Dashed", "Step", "DashedStep", "Line again"];
    let series = styles.into_iter().enumerate().map(|(number, words)| {
        let style = Style { steps: words.contains("Step"), dashed: words.contains("Dashed") };
        let low = number as f64;
        let points = vec![(0.0, low), (2.0, low + 3.0), (3.0, f64::NAN), (4.0, 1.0), (8.0, low)];
        line(number, &format!("a series with a long name and the style {words}"), style, points)
    });
    let mut lines = Panel::new(
        Some("Lines"),
        Axis::linear("Time (h)"),
        Axis::linear("Requests per second"),
        Body::Lines(series.collect()),
    );
    lines.guides = vec![(5.0, "half of it".into()), (-1.0, "out of sight".into())];
    lines.marks = vec![(3.0, "the cache is full".into())];
    let part = |name: &str, colour, values: [f64; 2]| BarPart { name: name.into(), colour, values: values.into() };
    let bars = Body::Bars {
        rows: vec![
            "in-place".into(),
            "read-modify-write with a name that is far too long for the room left of it".into(),
        ],
        totals: vec!["3 s".into(), "7.5 s".into()],
        parts: vec![part("host", Colour::SKY, [3.0, 2.5]), part("clean", Colour::ON_DARK.0, [0.0, 5.0])],
    };
    let estimate = |measured| Estimate {
        name: "as it is".into(),
        value: 3.0,
        range: Some((2.0, 4.5)),
        measured,
        text: "3 days".into(),
        colour: Colour::SKY,
    };
    let panels = vec![
        lines,
        Panel::new(
            None,
            Axis::linear("Time (days)"),
            Axis::default(),
            Body::Estimates(vec![estimate(None), estimate(Some(5.0))]),
        ),
        Panel::new(None, Axis::linear("Busy (s)"), Axis::default(), bars),
    ];
    let note = "Each kind of panel that there is, each style of line, and a note of so many words that one line of the \
                figure is not wide enough for all of them, so that the rest stands below.";
    Figure { name: "small".into(), title: "Small & whole".into(), note: note.into(), panels }
}

#[test]
fn a_page_is_written_as_it_was() {
    let mut grid = Grid::new(["item", "paper", "ours", "unit", "verdict", "reason"]);
    grid.rows.push(["overloading", "3.809", "3.809", "", "agree", ""].map(str::to_string).into());
    grid.rows.push(["reads", "10", "12", "s", "differs", "a < b"].map(str::to_string).into());
    let command =
        Section { heading: "Command".into(), copied: vec![("Again", "smrkit run".into())], ..Section::default() };
    let card = Card { heading: "Sure?", text: vec!["Yes.".into(), "$ true".into()] };
    let folded = Section { heading: "A part".into(), cards: vec![card], ..Section::default() }.under("A topic");
    let mut others = small();
    others.panels.truncate(1);
    let sections =
        [command, folded, Section::of_table("Items", grid), Section::of_figure(small()), Section::of_figure(others)];
    let page = page::page("Small", &sections);
    let (body, _) = page[page.find("<main>").unwrap()..].split_once("<script>").unwrap();
    let data = script_data(&page);
    let charts: String = data["charts"].as_array().unwrap().iter().map(|chart| format!("{chart}\n")).collect();
    insta::assert_snapshot!(format!("{body}{charts}{}\n{}", data["times"], data["swapped"]));
}

/// The number of points or rows of each panel and the sums of what is drawn in it.
fn sums(figure: &Figure) -> String {
    let text =
        |numbers: &Numbers, values: Vec<f64>| text_of(*numbers, values.into_iter().filter(|v| !v.is_nan()).sum());
    let panel = |panel: &Panel| match &panel.body {
        Body::Lines(series) => series
            .iter()
            .map(|s| {
                let (x, y) = s.points.iter().copied().filter(|point| !point.1.is_nan()).unzip();
                let (x, y) = (text(&panel.x.numbers, x), text(&panel.y.numbers, y));
                let dashed = if s.style.dashed { "Dashed" } else { "" };
                let style = match (s.style.steps, s.style.dashed) {
                    (true, _) => format!("{dashed}Step"),
                    (false, true) => dashed.into(),
                    (false, false) => "Line".into(),
                };
                format!("  {}, {style}: {} points, x {x}, y {y}\n", s.name, s.points.len())
            })
            .collect::<String>(),
        Body::Bars { rows, totals, parts } => parts
            .iter()
            .map(|part| {
                let sum = text(&panel.x.numbers, part.values.clone());
                format!("  {}: {} of {}\n", part.name, sum, rows.len())
            })
            .chain([format!("  {}\n", totals.join(", "))])
            .collect(),
        Body::Estimates(all) => format!("  {} estimates\n", all.len()),
    };
    let titles = figure
        .panels
        .iter()
        .map(|p| format!(" [{}] {} | {}\n{}", p.title.as_deref().unwrap_or("-"), p.x.label, p.y.label, panel(p)));
    format!("{}: {}\n{}", figure.title, figure.note, titles.collect::<String>())
}

#[test]
fn figures_of_arrays_and_rebuilds_show_what_they_did() {
    let member = |busy_s: u64| Outcome {
        busy_ns: busy_s * 1_000_000_000,
        busy_by_cause_ns: set_assoc(1).busy_by_cause_ns,
        ..in_place()
    };
    let array = Outcome { members: vec![member(40), member(200)], ..rebuilt() };
    let figures =
        [series::figures(&[array, in_place()], None), series::figures(&[merged(), set_assoc(1)], None)].concat();
    insta::assert_snapshot!(figures.iter().map(sums).collect::<String>());
}

/// A line over two axes, with few points or many, none, or one.
fn plain(x: Axis, y: Axis, points: Vec<(f64, f64)>) -> Panel {
    Panel::new(None, x, y, Body::Lines(vec![line(1, "it", Style::LINE, points)]))
}

#[test]
fn axes_of_every_kind_have_the_ranges_that_they_had() {
    let wide: Vec<(f64, f64)> = (0..9).map(|n| (10f64.powi(n - 4), 3f64.powi(n) - 1.0)).collect();
    let near = vec![(1.0, 2000.0), (1.5, 2000.5), (2.5, -3.0)];
    let fixed = Axis { fixed: Some((-2.0, 5.0)), ..Axis::linear("fixed") };
    let axes = [
        (Axis::log("log", Numbers::Time), Axis::log("log", Numbers::Bytes)),
        (Axis::linear("linear"), Axis { numbers: Numbers::Percent, ..Axis::linear("percent") }),
        (fixed.clone(), Axis::log("log", Numbers::Plain)),
        (Axis::linear("linear"), fixed),
    ];
    let mut panels = Vec::new();
    for (x, y) in axes {
        for points in [wide.clone(), near.clone(), vec![(3.0, 7.0)], vec![(0.0, 0.0)], Vec::new()] {
            panels.push(plain(x.clone(), y.clone(), points));
        }
    }
    let panel =
        |name: &str| Figure { name: name.into(), title: name.into(), note: String::new(), panels: panels.clone() };
    let (mut by_x, mut by_y) = (panel("one x"), panel("one y"));
    by_x.share_x();
    by_y.share_y();
    let ranges = |figure: &Figure| {
        let range = |panel: &Panel| {
            let chart = page::chart(panel, &[]);
            format!("{} {}\n", chart["x"]["range"], chart["y"]["range"])
        };
        format!("{}\n{}", figure.title, figure.panels.iter().map(range).collect::<String>())
    };
    insta::assert_snapshot!([panel("each"), by_x, by_y].iter().map(ranges).collect::<String>());
}

#[test]
fn every_kind_of_comparison_is_shown_as_it_was() {
    let mut made = String::new();
    let member = |n: u64| Outcome { busy_ns: (n * 17 % 40 + 1) * 1_000_000_000, ..in_place() };
    let array = Outcome { members: (0..40).map(member).collect(), ..rebuilt() };
    for runs in every_kind().into_iter().chain([vec![array, in_place()]]) {
        let figures: String = series::figures(&runs, None).iter().map(sums).collect();
        made += &format!("{} runs\n{}\n{figures}\n", runs.len(), table::text(&runs));
    }
    insta::assert_snapshot!(made);
}

#[test]
fn tables_of_any_width_are_broken_as_they_were() {
    let mut grid = Grid::new(["run", "time", "a column of words", "reads, 99 %"]);
    for (run, time, words) in
        [("read-modify-write of a region", "5", "one two three"), ("log", "12", "four"), ("x", "-", "")]
    {
        grid.rows.push([run, time, words, "7 ms"].map(str::to_string).into());
    }
    grid.best = vec![1];
    let wide = "run".len().max("read-modify-write of a region".len()) + 4 + 17 + 11 + 8;
    let mut made = String::new();
    for width in [20, 30, 45, wide - 1, wide, 119, 120, 200] {
        made += &format!("{width}\n{}\n\n", grid.text_within(width));
        made += &format!("{}\n\n", grid.painted(width).replace('\x1b', "^"));
        let parts = grid.stacked(width);
        made += &parts.iter().map(|part| part.header.join("; ") + "\n").collect::<String>();
    }
    insta::assert_snapshot!(made);
}

#[test]
fn a_column_of_numbers_has_nothing_else() {
    let mut grid = Grid::new(["a", "b", "c", "d"]);
    grid.rows.push(["1", "1 s", "-", "x"].map(str::to_string).into());
    grid.rows.push(["2", "-", "5", "1"].map(str::to_string).into());
    assert_eq!([0, 1, 2, 3].map(|column| grid.is_numeric(column)), [false, true, true, false]);
}

#[test]
fn the_best_run_is_the_shingled_one_with_the_least_time() {
    let run = |layer: &str, requests: u64, elapsed_ns: u64, mean: u64, arrival| {
        let mut run = Outcome { layer: layer.into(), requests, elapsed_ns, ..in_place() };
        run.latency_ns.all.mean = mean;
        run.engine.arrival = arrival;
        run
    };
    use smrkit::settings::Arrival::{FlatOut, Trace};
    let best = |runs: &[Outcome]| table::speed(runs).best;
    let (plain, slow, fast) =
        (run("in-place", 9, 1, 1, FlatOut), run("rmw", 9, 50, 3, FlatOut), run("log", 9, 40, 5, FlatOut));
    assert_eq!(best(&[plain.clone(), slow.clone(), fast.clone()]), [2]);
    assert_eq!(best(&[fast.clone(), plain.clone(), slow.clone()]), [0]);
    assert!(best(&[plain.clone(), slow.clone()]).is_empty(), "there is but one");
    assert!(best(&[slow.clone(), run("log", 9, 50, 1, FlatOut)]).is_empty(), "two are alike");
    assert!(best(&[slow.clone(), run("log", 0, 40, 5, FlatOut)]).is_empty(), "it served nothing");
    let timed = [run("rmw", 9, 50, 3, Trace), run("log", 9, 40, 5, Trace)];
    assert_eq!(best(&timed), [0], "at their own times the mean counts");
}

#[test]
fn tables_of_a_summary_are_those_of_its_run() {
    let run = |array: &str| {
        let system = System { array: Some(array.parse().unwrap()), ..System::drive("tiny") };
        let run = system.run(Settings { depth: 4, ..Settings::default() }).unwrap();
        let demand = GeneratedDemand::from(Workload::parse("mix:count=400").unwrap());
        run.execute(&demand, &run.opening().unwrap(), &mut NoObserver).unwrap()
    };
    let mixed =
        "raid0:member=(layer=in-place),member=(layer=log),member=(layer=log,set=(spare_percent=9)),member=(layer=log)";
    for array in ["raid5:disks=3,layer=log", "raid1:disks=20,layer=log", mixed] {
        let run = run(array);
        let text = serde_json::to_string(&run.summary()).unwrap();
        let read: Outcome = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        let shown = |run: &Outcome| (table::text(std::slice::from_ref(run)), label::names(std::slice::from_ref(run)));
        assert_eq!(shown(&read), shown(&run), "{array}");
        assert!(Outcome::merge(&[read]).unwrap_err().to_string().contains("latency_buckets"), "{array}");
    }
}
