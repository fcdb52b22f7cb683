//! Readers' view as snapshots; what no reader may see, as properties.

pub(crate) mod example;
mod whole;

use serde_json::Value;
use smrkit::stats::measured::{MEASURED, Measured, Pause};
use smrkit::stats::outcome::{Cleaning, Confidence, Interval, LatencyConfidence, Outcome, Scalar, Unknown};
use smrkit::stats::verdict::Told;

use crate::figure::{Axis, BarPart, Body, Colour, Estimate, Figure, Numbers, Panel, Series, Style};
use crate::grid::Grid;
use crate::page::{Card, Section};
use crate::{format, label, page, series, table};
use example::{comparison, empty, in_place, merged, rebuilt, rmw, set_assoc, single};

/// A series in the nth colour.
fn line(n: usize, name: &str, style: Style, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), colour: Colour::nth(n), style, points }
}

/// Comparisons from none to many runs, and runs in which nothing happened.
fn every_kind() -> Vec<Vec<Outcome>> {
    let sweep = || (1..=12).map(set_assoc);
    vec![
        vec![],
        vec![empty()],
        vec![single()],
        vec![empty(), single(), in_place()],
        vec![set_assoc(1)],
        comparison(),
        vec![rebuilt(), in_place()],
        vec![merged(), in_place()],
        std::iter::once(in_place()).chain(sweep()).collect(),
    ]
}

#[test]
fn the_terminal_shows_verdicts_then_tables_then_what_was_run() {
    insta::assert_snapshot!(table::text(&comparison()));
}

#[test]
fn runs_of_one_layer_are_told_apart_and_missing_values_are_dashes() {
    let quiet = Outcome { parameters: set_assoc(3).parameters, ..single() };
    let quiet = Outcome {
        drive: in_place().drive,
        engine: in_place().engine,
        state: in_place().state,
        replayed: in_place().replayed,
        seed: 1,
        ..quiet
    };
    insta::assert_snapshot!(table::text(&[in_place(), set_assoc(1), set_assoc(2), quiet]));
    insta::assert_snapshot!(table::text(&[empty()]));
    insta::assert_snapshot!(table::text(&[]), @"No run was made.");
}

#[test]
fn several_sources_and_movements_that_were_asked_for_have_tables() {
    let uncounted = Outcome { layer: "log".into(), movement: None, ..merged() };
    let tables = |runs: &[Outcome]| {
        let table = |(heading, grid): (&str, Grid)| format!("{heading}\n{}\n\n", grid.text());
        table::optional(runs).into_iter().map(table).collect::<String>()
    };
    insta::assert_snapshot!(tables(&[merged(), uncounted]));
    let mut unasked = Outcome { by_source: None, ..merged() };
    unasked.engine.movement = false;
    assert_eq!(tables(&[unasked]), "", "arrays count movements in any case");
}

#[test]
fn the_tables_fit_a_terminal_of_120_columns() {
    let long = Outcome { parameters: [("a_long_name_of_a_parameter".into(), Scalar::Int(7))].into(), ..set_assoc(3) };
    let grids = [comparison(), vec![in_place(), set_assoc(1), set_assoc(2), long]];
    for line in grids.iter().flat_map(|runs| [table::speed(runs), table::cost(runs)]).map(|g| g.text()) {
        assert!(line.lines().all(|l| l.chars().count() <= 120), "{line}");
    }
}

#[test]
fn no_share_of_the_hosts_writes_is_shown_where_a_rebuild_writes() {
    let run = Outcome { write_amplification: None, ..rebuilt() };
    assert!(run.host_written_sectors > 0);
    assert_eq!(table::cost(&[run]).rows[0][1..6], ["-"; 5]);
}

#[test]
fn a_narrow_terminal_gets_whole_cells_and_the_best_run_in_colour() {
    let runs = comparison();
    let plain = |text: &str| text.replace("\u{1b}[1;32m", "").replace("\u{1b}[0m", "");
    for columns in [79, 100] {
        let [without, with] = [false, true]
            .map(|coloured| table::text_for(&runs, None, table::Terminal { columns: Some(columns), coloured }));
        assert!(without.lines().all(|line| line.chars().count() <= columns), "{columns}: {without}");
        for cell in [table::speed(&runs), table::cost(&runs)].iter().flat_map(|grid| grid.rows.concat()) {
            assert!(without.contains(&cell), "{columns}: {cell} in {without}");
        }
        assert_eq!(plain(&with), without);
        let painted: Vec<&str> = with.lines().filter(|line| line.contains('\u{1b}')).map(str::trim).collect();
        let best = &table::speed(&runs).rows[table::speed(&runs).best[0]][0];
        assert!(!painted.is_empty() && painted.iter().all(|line| plain(line).starts_with(best)), "{painted:?}");
    }
    assert_eq!(table::text_for(&runs, None, table::Terminal::default()), table::text(&runs));
}

#[test]
fn a_path_can_not_steer_the_terminal() {
    let mut run = in_place();
    run.replayed.trace = Some("a\u{1b}[2Jb\nc".into());
    let text = table::text(&[run]);
    assert!(text.contains("a?[2Jb?c"), "{text}");
}

#[test]
fn figures_hold_the_series_they_should() {
    insta::assert_snapshot!(series::figures(&comparison(), None).iter().map(outline).collect::<String>());
}

/// A value as text, in the form of an axis.
fn text_of(numbers: Numbers, value: f64) -> String {
    match numbers {
        Numbers::Plain => format::short(value),
        Numbers::Time => format::seconds(value),
        Numbers::Bytes => format::bytes(value),
        Numbers::Percent => format!("{} %", format::short(value * 100.0)),
    }
}

/// A figure as text: axes, series, first and last point.
fn outline(figure: &Figure) -> String {
    let mut out = format!("{}: {}\n", figure.name, figure.title);
    for panel in &figure.panels {
        let title = panel.title.as_deref().unwrap_or("-");
        out += &format!("  [{title}] x: {}; y: {}\n", panel.x.label, panel.y.label);
        match &panel.body {
            Body::Lines(series) => series.iter().for_each(|s| {
                let ends = (s.points[0], s.points[s.points.len() - 1]);
                let point =
                    |p: (f64, f64)| format!("({}, {})", text_of(panel.x.numbers, p.0), text_of(panel.y.numbers, p.1));
                let (first, last) = (point(ends.0), point(ends.1));
                out += &format!("    {} {} {} points {first} to {last}\n", s.name, s.colour.hex(), s.points.len());
            }),
            Body::Bars { rows, totals, parts } => (0..rows.len()).for_each(|i| {
                let part = |p: &crate::figure::BarPart| format!("{} {}", p.name, text_of(panel.x.numbers, p.values[i]));
                let parts: Vec<String> = parts.iter().map(part).collect();
                out += &format!("    {}: {} = {}\n", rows[i], parts.join(", "), totals[i]);
            }),
            Body::Estimates(all) => out += &format!("  {} estimates\n", all.len()),
        }
    }
    out
}

#[test]
fn the_latency_curve_falls_from_all_requests_to_the_slowest() {
    let curve = series::slower_than(&[(1_000_000, 6), (2_000_000, 3), (5_000_000_000, 1)]);
    assert_eq!(curve, [(0.001, 1.0), (0.001, 0.4), (0.002, 0.1), (5.0, 0.1)]);
    assert_eq!(series::slower_than(&[(0, 3)]), [(1e-9, 1.0), (1e-9, 1.0)], "no time at all can still be drawn");
    assert!(series::slower_than(&[]).is_empty());
}

#[test]
fn requests_per_second_times_time_gives_the_requests_back() {
    let mut run = set_assoc(1);
    // The last window is cut off in its first three quarters.
    run.elapsed_ns -= run.timeline.window_ns / 4;
    let figures = series::figures(std::slice::from_ref(&run), None);
    let iops = figures.iter().find(|f| f.name == "iops").unwrap();
    let Body::Lines(lines) = &iops.panels[0].body else { panic!("lines") };
    let minutes: f64 = lines[0].points.windows(2).map(|w| (w[1].0 - w[0].0) * w[0].1).sum();
    let requests = run.timeline.requests.iter().sum::<u64>() as f64;
    assert!((minutes * 60.0 / requests - 1.0).abs() < 1e-9, "{minutes} {requests}");
}

#[test]
fn shares_of_members_are_of_all_the_time_until_the_array_was_whole() {
    let member = |busy_s: u64| {
        let cleaning = Cleaning { ns: busy_s * 500_000_000, ..Cleaning::default() };
        Outcome { busy_ns: busy_s * 1_000_000_000, cleaning, ..in_place() }
    };
    // The host's last completion comes after 50 s; the array is whole after 400 s.
    let run = |busy_s: &[u64]| {
        let members = busy_s.iter().copied().map(member).collect();
        Outcome { elapsed_ns: 50_000_000_000, members, ..rebuilt() }
    };
    let table = |busy_s: &[u64]| {
        let (heading, grid) = table::optional(&[run(busy_s)]).swap_remove(0);
        assert_eq!(heading, "Members");
        grid.rows.into_iter().map(|row| row[2..].join(", ")).collect::<Vec<_>>()
    };
    let begins = |row: &str, with: &str| assert!(row.starts_with(with), "{row}");
    begins(&table(&[40, 200])[0], "10 %, 5 %, ");
    begins(&table(&[40, 200])[1], "50 %, 25 %, ");
    begins(&table(&[200; 17])[0], "50 %, 50 %, 50 %, ");
    begins(&table(&[40, 500])[0], "8 %, 4 %, ");
    begins(&table(&[40, 500])[1], "100 %, 50 %, ");
}

#[test]
fn arrays_whose_members_differ_are_told_apart_by_them() {
    let array = |members: [Outcome; 2]| {
        let alike = members[0].parameters == members[1].parameters;
        Outcome {
            array: Some("raid0:disks=2".into()),
            layer: if members[0].layer == members[1].layer { members[0].layer.clone() } else { "mixed".into() },
            parameters: if alike { members[0].parameters.clone() } else { Default::default() },
            members: members.into(),
            ..rmw()
        }
    };
    let with = |n: u64| {
        let parameters = [("hold".into(), Scalar::Int(n)), ("other".into(), Scalar::Int(1))];
        Outcome { parameters: parameters.into(), ..rmw() }
    };
    let named = |runs: &[[Outcome; 2]]| label::names(&runs.iter().cloned().map(array).collect::<Vec<_>>());
    assert_eq!(named(&[[with(5), with(3)], [with(5), with(4)]]), ["raid0 rmw hold=3", "raid0 rmw hold=4"]);
    assert_eq!(named(&[[with(5), with(5)], [with(5), with(4)]]), ["raid0 rmw hold=5", "raid0 rmw hold=4"]);
    assert_eq!(named(&[[with(5), with(6)], [with(6), with(5)]]), ["raid0 rmw hold=5,6", "raid0 rmw hold=6,5"]);
    assert_eq!(named(&[[with(5), with(6)]]), ["raid0 rmw"]);
    let layers = named(&[[with(5), in_place()], [with(5), set_assoc(1)]]);
    assert_eq!(layers, ["raid0 mixed conventional (CMR)", "raid0 mixed set-assoc"]);
}

#[test]
fn runs_of_one_name_are_numbered() {
    assert_eq!(label::names(&[rmw(), in_place(), rmw(), rmw()]), ["rmw", "conventional (CMR)", "rmw (2)", "rmw (3)"]);
}

#[test]
fn in_place_is_grey_and_does_not_use_up_a_colour() {
    let styles = label::line_styles(&[set_assoc(1), in_place(), rmw()]);
    assert_eq!(styles[1].0, crate::figure::Colour::GREY);
    assert_eq!(styles[0], label::line_styles(&[in_place(), set_assoc(1)])[1]);
    let many: Vec<Outcome> = (1..=12).map(set_assoc).collect();
    let styles = label::line_styles(&many);
    assert!((0..12).all(|i| (0..i).all(|j| styles[i] != styles[j])), "twelve runs look different");
}

#[test]
fn text_from_outside_is_escaped_in_every_output() {
    const EVIL: &str = "</script><b>\"it's\" & <img src=x onerror=alert(1)>\u{1}";
    let mut run = Outcome { layer: EVIL.into(), drive: EVIL.into(), ..set_assoc(1) };
    run.replayed.trace = Some(EVIL.into());
    run.verdict.text = EVIL.into();
    run.parameters = [(EVIL.to_string(), Scalar::Text(EVIL.into()))].into();
    run.timeline.gauges = [(EVIL.to_string(), vec![1.0, 2.0])].into();
    let runs = [run, in_place()];
    let page = page::report(&runs, None, None);
    let (body, _) = page.split_once("<script>").unwrap();
    assert!(!page.contains("<img") && !body.contains("\"it's") && body.contains("&lt;img src=x"));
    // In the data of the script a name is a string of JSON, whose quotes are escaped.
    assert!(script_data(&page)["charts"].to_string().contains("\\\"it's"));
    assert_eq!(page.matches("</script>").count(), 1, "the page's own, and none of a name's");
}

#[test]
fn what_is_between_backticks_is_set_as_code() {
    let text = vec!["give `pack=<5M>`, and one ` alone stays".into()];
    let page = page::page("", &[page::Section { text, ..page::Section::default() }]);
    assert!(page.contains("<p>give <code>pack=&lt;5M&gt;</code>, and one ` alone stays</p>"));
}

#[test]
fn the_page_has_every_section_one_script_and_no_address_to_load() {
    let runs = comparison();
    let page = page::report(&runs, None, None);
    let headings = ["How fast over time", "What happens", "How fast", "What it costs", "What was run"];
    let titles: Vec<String> = series::figures(&runs, None).iter().map(|f| format::escape(&f.title)).collect();
    for heading in headings.into_iter().chain(titles.iter().map(String::as_str)) {
        assert_eq!(page.matches(&format!("\">{heading}</h2>")).count(), 1, "{heading}");
    }
    for told in runs.iter().map(Told::of) {
        assert!(page.contains(&format::escape(&told.course)) && page.contains(&format::escape(&told.longest)));
    }
    assert_eq!(page.matches("function drawPanel(").count(), 1, "the script is embedded once");
    assert!(page.contains(runs[0].replayed.trace_sha256.as_deref().unwrap()) && page.contains("31c86d2"));
    let own = page.replace("'http://www.w3.org/2000/svg'", "");
    assert!(!own.contains("http:") && !own.contains("https:") && !own.contains(" src="));
    assert!(page.len() < 300_000, "{} bytes are no page to send by mail", page.len());
    assert_eq!(
        own.matches(" href=").count(),
        own.matches(" href=\"#section").count(),
        "links go to the page's own sections"
    );
    assert!(own.contains("default-src 'none'"), "and the page forbids to load anything");
}

/// Data that a page hands to its script.
fn script_data(page: &str) -> Value {
    let (_, rest) = page.split_once("const page = ").expect("a page of figures has a script");
    let (json, _) = rest.split_once(";\n").unwrap();
    assert!(!json.contains('<'), "nothing in a chart can be read as the end of the script");
    serde_json::from_str(json).unwrap()
}

#[test]
fn the_charts_are_json_without_holes() {
    let is_drawn = |runs: &Vec<Outcome>| series::figures(runs, None).iter().any(|figure| !figure.panels.is_empty());
    let drawn: Vec<_> = every_kind().into_iter().filter(is_drawn).collect();
    assert!(drawn.len() > 5);
    for runs in drawn {
        let page = page::report(&runs, None, None);
        let data = script_data(&page);
        let charts = data["charts"].as_array().unwrap();
        assert_eq!(charts.len(), page.matches("class=\"chart\"").count());
        let count = |numbers: &Value| numbers.as_array().unwrap().len();
        for line in charts.iter().filter_map(|chart| chart.get("series")?.as_array()).flatten() {
            let times = &data["times"][line["x"].as_u64().unwrap() as usize];
            assert_eq!(count(times), count(&line["y"]), "{}", line["name"]);
        }
        for range in charts.iter().flat_map(|c| [&c["x"], &c["y"]]).map(|a| &a["range"]) {
            assert!(range.as_array().unwrap().iter().all(|v| v.is_number()), "{range}");
        }
    }
}

#[test]
fn a_page_shows_one_legend_whose_keys_name_what_is_drawn() {
    let page = page::report(&comparison(), None, None);
    let charts = script_data(&page)["charts"].as_array().unwrap().clone();
    for section in page.split("<section>").filter(|section| section.contains("class=\"legend\"")) {
        let figures = [series::figures(&comparison(), None), vec![series::telling(&comparison())]].concat();
        let figure =
            figures.iter().find(|f| section.contains(&format!("\">{}</h2>", format::escape(&f.title)))).unwrap();
        let legend = figure.legend();
        assert_eq!(section.matches("class=\"key\"").count(), legend.len());
        for key in &legend {
            let name = format::escape(&key.name);
            assert!(section.contains(&format!("</i>{name}<")), "{name}");
        }
        for place in section.split("id=\"chart").skip(1) {
            let chart = &charts[place.split('"').next().unwrap().parse::<usize>().unwrap()];
            for line in chart.get("series").and_then(Value::as_array).into_iter().flatten() {
                assert_eq!(legend[line["key"].as_u64().unwrap() as usize].name, line["name"].as_str().unwrap());
            }
        }
    }
    assert!(
        page.contains("<button class=\"key\"") && page.contains("<span class=\"key\""),
        "lines can be hidden, parts can't"
    );
}

#[test]
fn a_page_has_a_dark_theme_in_which_every_colour_can_be_seen() {
    let data = script_data(&page::report(&comparison(), None, None));
    let text = |theme: &str| data["themes"][theme]["ink"].as_str().unwrap().to_string();
    assert_eq!((text("light"), text("dark")), ("#222222".into(), "#E2E2E2".into()));
    // Relative luminance and contrast as WCAG 2.1 defines them; 3 is what it asks of figures.
    let luminance = |Colour(r, g, b): Colour| {
        let linear = |c: u8| ((f64::from(c) / 255.0 + 0.055) / 1.055).powf(2.4);
        0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    };
    let dark_page = luminance(Colour(0x18, 0x18, 0x18));
    for colour in Colour::PALETTE.into_iter().chain([Colour::GREY]) {
        let shown = if colour == Colour::ON_DARK.0 { Colour::ON_DARK.1 } else { colour };
        let contrast = (luminance(shown) + 0.05) / (dark_page + 0.05);
        assert!(contrast > 3.0, "{} has a contrast of {contrast:.1}", shown.hex());
    }
}

#[test]
fn every_figure_is_there_whatever_was_run() {
    let names =
        |runs: &[Outcome]| series::figures(runs, None).into_iter().map(|f| f.name).collect::<Vec<_>>().join(" ");
    insta::assert_snapshot!(names(&[empty()]), @"latency iops longest throughput cache-fill gauges amplification busy capacity");
    assert_eq!(names(&comparison()), names(&[empty()]));
}

#[test]
fn more_than_four_runs_have_a_panel_each_on_the_same_axes() {
    let panels = |count: u64, name: &str| {
        let runs: Vec<Outcome> = (1..=count).map(set_assoc).collect();
        series::figures(&runs, None).into_iter().find(|figure| figure.name == name).unwrap().panels
    };
    assert_eq!((panels(4, "iops").len(), panels(4, "throughput").len()), (1, 3));
    for (name, groups) in [("iops", 1), ("longest", 1), ("cache-fill", 1), ("throughput", 3)] {
        let panels = panels(5, name);
        assert_eq!(panels.len(), 5 * groups, "{name}");
        for group in panels.chunks(5) {
            assert!(group.iter().all(|panel| panel.ranges() == group[0].ranges()), "{name}");
            assert!(group.iter().all(|panel| matches!(&panel.body, Body::Lines(lines) if lines.len() == 1)), "{name}");
        }
    }
}

#[test]
fn a_legend_keeps_the_order_of_the_bars_over_all_panels() {
    let panel = |values: [f64; 3]| {
        let part = |(name, value): (&str, f64)| BarPart { name: name.into(), colour: Colour::SKY, values: vec![value] };
        let parts = ["of-host", "of-destage", "of-clean"].into_iter().zip(values).map(part).collect();
        let body = Body::Bars { rows: vec!["row".into()], totals: vec![String::new()], parts };
        Panel::new(None, Axis::linear("x"), Axis::default(), body)
    };
    let panels = [panel([1.0, 0.0, 2.0]), panel([1.0, 1.0, 1.0])];
    let mut figure = Figure::new("bars", "Bars", "", panels);
    let keys = |figure: &Figure| figure.legend().into_iter().map(|key| key.name).collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&figure), "of-host of-destage of-clean");
    figure.panels = vec![panel([1.0, 0.0, 2.0])];
    assert_eq!(keys(&figure), "of-host of-clean", "not what nobody draws");
}

#[test]
fn other_commands_draw_lines_and_pages_of_tables() {
    let ours = line(0, "ours", Style::STEPS, vec![(1.0, 3.8), (2.0, 3.4), (3.0, 3.1)]);
    let paper = line(1, "the paper", Style::LINE, vec![(1.0, 3.9), (3.0, 3.0)]);
    let (x, y) = (Axis::linear("Cache (%)"), Axis::log("Latency", Numbers::Time));
    let figure = Figure::new("figure5", "Figure 5", "", [Panel::lines(None, x, y, [ours, paper])]);
    let mut items = Grid::new(["item", "paper", "ours", "unit", "verdict", "reason"]);
    items.rows.push(["overloading", "3.809", "3.809", "", "agree", ""].map(str::to_string).into());
    items.rows.push(["reads", "10", "12", "s", "differs", "the trace is not public"].map(str::to_string).into());
    let page = page::page("cassuto-cache", &[Section::of_table("Items", items), Section::of_figure(figure)]);
    assert!(page.contains("<td class=\"agree\">agree</td>") && page.contains("<td class=\"differs\">differs</td>"));
    assert_eq!(page.matches("function drawPanel(").count(), 1);
    let plain = page::page("no figure", &[Section { heading: "A".into(), ..Section::default() }]);
    assert!(!plain.contains("function drawPanel("), "a page without figures does not carry what draws them");
}

#[test]
fn no_latency_is_drawn_where_no_request_was() {
    let steps = [(0.0, 70.0), (1.0, f64::NAN), (2.0, f64::NAN), (3.0, 5.0), (4.0, 5.0)];
    let drawn = crate::figure::gapped(&steps);
    let text = format!("{drawn:?}");
    assert_eq!(text, "[(0.0, 70.0), (1.0, 70.0), (1.0, NaN), (3.0, 5.0), (4.0, 5.0)]");
    let mut figure = crate::series::figures(&[single()], None).remove(2);
    let crate::figure::Body::Lines(series) = &mut figure.panels[0].body else { panic!("lines") };
    series.truncate(1);
    series[0].points = drawn;
    let chart = page::chart(&figure.panels[0], &figure.legend());
    assert_eq!(chart["series"][0]["y"].to_string(), "[70.0,70.0,null,5.0,5.0]");
}

#[test]
fn pauses_of_the_recorded_drive_are_told_with_what_explains_them() {
    let runs = [in_place(), set_assoc(1)];
    let pause = |begin_s: u64, longest_s: u64, conventional_s: u64, simulated_s: u64| Pause {
        begin_ns: begin_s * 1_000_000_000,
        end_ns: (begin_s + longest_s) * 1_000_000_000,
        longest_ns: longest_s * 1_000_000_000,
        simulated_ns: vec![conventional_s * 1_000_000_000, simulated_s * 1_000_000_000],
        conventional_ns: Some(conventional_s * 1_000_000_000),
    };
    let pauses = vec![pause(5, 8, 0, 4), pause(70, 3, 0, 2), pause(90, 2, 1, 9), pause(120, 6, 0, 2)];
    let run = Outcome { layer: MEASURED.into(), requests: 7, ..set_assoc(1) };
    let mut measured = Measured { run, pauses };
    let text = table::text_for(&runs, Some(&measured), table::Terminal::default());
    for line in [
        "kept requests waiting for a second or more 4 times; the longest wait was 8 s, from 5 s on.",
        "of 4 pauses 2 are due to shingling (this drive pauses then, a conventional one does not), 1 to the load",
        ", 1 to something else",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.lines().any(|line| line.starts_with("measured ")), "it has a row among the speeds: {text}");
    let page = page::report(&runs, Some(&measured), None);
    for text in ["When the measured drive paused", "<td>shingling</td>", "<td>the load</td>", "</i>measured<"] {
        assert!(page.contains(text), "{text}");
    }
    measured.pauses.clear();
    assert_eq!(
        table::pauses_told(&runs, Some(&measured)),
        ["measured: no request of the trace took a second or more."]
    );
}

#[test]
fn intervals_show_their_ends_or_why_there_are_none() {
    let known = |low, high| Interval { low: Some(low), high: Some(high), unknown: None };
    let unknown = |why| Interval { unknown: Some(why), ..Interval::default() };
    let all = LatencyConfidence {
        mean: known(11.2e6, 13e6),
        p99: unknown(Unknown::TooCorrelated),
        p99_9: unknown(Unknown::TooFewRequests),
        ..LatencyConfidence::default()
    };
    let confidence = Some(Confidence { all, host_bytes_per_s: known(3e6, 4e6), ..Confidence::default() });
    let without = Outcome { confidence: None, ..in_place() };
    let grid = table::certainty(&[without.clone(), Outcome { confidence, ..rmw() }]).unwrap();
    let cells = ["11.2 ms to 13 ms", "-", "-", "too correlated", "too few requests", "3 MB/s to 4 MB/s", "-"];
    assert_eq!(grid.rows.len(), 1, "the other has none");
    assert_eq!(grid.rows[0][1..], cells);
    assert!(table::certainty(&[without]).is_none());
}
