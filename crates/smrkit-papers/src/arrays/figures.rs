//! Movement against burst size, a panel a scheme; and the effect against the length of runs.

use super::measured::{Measure, MeasuredSet};
use super::setup::{BURSTS, Configuration, UpdateScheme};
use smrkit_report::figure::{Axis, Colour, Figure, Numbers, Panel, Series, Style};
use smrkit_report::format::capital;

/// One measure against burst size, a panel a scheme.
pub fn bursts(name: &str, title: &str, measured: &MeasuredSet, measure: Measure) -> Figure {
    let panels = UpdateScheme::ALL.iter().filter(|&&scheme| measured.counts(scheme, measure));
    Figure::new(
        format!("arrays-{name}"),
        title,
        "Relative to pure, means over seeds. Broken lines: configurations without bursts; where lines coincide, the last is \
         seen. The paper's text: up to 40 times at burst 1.",
        panels.map(|&scheme| panel(measured, scheme, measure)),
    )
}

fn panel(measured: &MeasuredSet, scheme: UpdateScheme, measure: Measure) -> Panel {
    let times = |configuration| measured.times_pure(scheme, measure, configuration).mean;
    let points = BURSTS.map(|burst| (burst as f64, times(Configuration::Striped(burst))));
    let points = points.into_iter().filter(|(_, times)| times.is_finite()).collect();
    let flat = |nth, name: &str, configuration| {
        let value = times(configuration);
        let points = [1.0, 1000.0].map(|burst| (burst, value)).to_vec();
        Series { style: Style::Dashed, ..Series::nth(nth, name, Style::Line, points) }
    };
    let series = [
        Series::nth(0, "striped", Style::Marked, points),
        flat(1, "striped, not interleaved", Configuration::Uninterleaved),
        flat(2, "dedicated", Configuration::Dedicated),
        Series {
            name: "pure".into(),
            colour: Colour::GREY,
            style: Style::Dashed,
            points: vec![(1.0, 1.0), (1000.0, 1.0)],
        },
    ];
    let x = Axis::log("Operations of a burst", Numbers::Plain);
    let y = Axis::log(format!("{} (× pure)", capital(measure.name())), Numbers::Plain);
    Panel::lines(Some(scheme.name()), x, y, series)
}

/// Movement at burst 1 as a multiple of pure, against the mean length of runs.
pub fn lengths(distance: Vec<(f64, f64)>, count: Vec<(f64, f64)>) -> Figure {
    let panel = |title: &str, points| {
        let x = Axis::log("Mean length of a run (blocks)", Numbers::Plain);
        let y = Axis::log(format!("{title}, burst 1 (× pure)"), Numbers::Plain);
        Panel::lines(Some(title), x, y, [Series::nth(0, "log", Style::Marked, points)])
    };
    Figure::new(
        "arrays-run-length",
        "What interleaving costs, by the length of runs",
        "A log; bursts of one operation against pure. Distance and count are two measures.",
        [panel("Track distance", distance), panel("Track count", count)],
    )
}
