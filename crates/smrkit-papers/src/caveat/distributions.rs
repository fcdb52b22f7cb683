//! Figures 4 (b) and (c): the distributions of file sizes and ages, and what the ager draws from them.

use smrfs::age::ager::{Ager, AgerOptions};
use smrfs::age::course::PAPER_DISK_BYTES;
use smrfs::age::distribution::Distribution;
use smrfs::workload::{EventKind, Events};

use crate::{Item, Row, Scale, Shown};
use smrkit_report::figure::{Axis, Figure, Numbers, Panel, Series, Style};

/// Files that are drawn.
const FILES: u64 = 20_000;
/// Agreement of a drawn share with the curve, in points of percent (assumption: 3 deviations of 20,000 draws).
const POINTS: f64 = 1.1;

pub fn item(scale: &Scale) -> Item {
    let options = AgerOptions::new(PAPER_DISK_BYTES / 10 * 7, scale.seed);
    let sizes = drawn_mb(options.clone());
    let AgerOptions { sizes_mb, ages_days, size_max_bytes, .. } = options;
    let text = texts![
        "Published as curves only: these are reconstructions, with logarithms of values uniform between two points. \
         `smrkit age` takes other curves.",
        format!("{FILES} sizes drawn by the ager, none above {} MB.", size_max_bytes as f64 / 1e6),
    ];
    let rows = vec![
        worst(&sizes_mb, &sizes, size_max_bytes as f64 / 1e6),
        Row::near("mean size", 167.0, sizes_mb.mean(), "MB", 2.0).because("of the reconstruction").by_construction(),
        Row::near("mean age", 229.0, ages_days.mean(), "days", 2.0).because("of the reconstruction").by_construction(),
    ];
    let figure = Some(figure(&sizes_mb, &ages_days, &sizes));
    Item::told("Figures 4 (b) and (c): sizes and ages", Shown { text, rows, figure, ..Shown::default() })
}

/// Sizes of the files that an ager makes, ascending.
fn drawn_mb(options: AgerOptions) -> Vec<f64> {
    let mut ager = Ager::new(options, 0);
    let events = std::iter::from_fn(move || ager.next());
    let creates = events.filter(|event| event.kind == EventKind::Create);
    let mut sizes: Vec<f64> = creates.take(FILES as usize).map(|event| event.bytes as f64 / 1e6).collect();
    sizes.sort_by(f64::total_cmp);
    sizes
}

/// Greatest distance of the drawn sizes from the curve, below the cap.
fn worst(curve: &Distribution, drawn: &[f64], cap_mb: f64) -> Row {
    let share = |value: f64| drawn.partition_point(|&size| size <= value) as f64 / drawn.len() as f64;
    let points = curve.points().iter().filter(|point| point.0 <= cap_mb);
    let worst = points.map(|&(value, expected)| (share(value) - expected).abs() * 100.0).fold(0.0, f64::max);
    let reason = format!("at the curve's points, at most {POINTS}");
    Row::holds("drawn sizes: farthest from the curve", 0.0, worst, "points of percent", worst <= POINTS)
        .because(reason)
        .by_construction()
}

fn figure(sizes: &Distribution, ages: &Distribution, drawn: &[f64]) -> Figure {
    let share = || Axis { numbers: Numbers::Percent, fixed: Some((0.0, 1.0)), ..Axis::linear("not larger") };
    let curve = |of: &Distribution| Series::nth(0, "reconstruction", Style::Marked, of.points().to_vec());
    let steps = (0..drawn.len()).step_by((drawn.len() / 200).max(1));
    let of_drawn = steps.map(|i| (drawn[i], (i + 1) as f64 / drawn.len() as f64)).collect();
    let panel = |title: &str, x: &str, series| Panel::lines(Some(title), Axis::log(x, Numbers::Plain), share(), series);
    let drawn = Series::nth(1, "drawn", Style::Dashed, of_drawn);
    Figure::new(
        "caveat-figures-4-b-and-c",
        "File sizes and ages (figures 4 b and c, reconstructed)",
        "The paper's curves, reconstructed; and the sizes that the ager drew.",
        [panel("Sizes", "size (MB)", vec![curve(sizes), drawn]), panel("Ages", "age (days)", vec![curve(ages)])],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use smrkit_report::figure::Body;

    #[test]
    fn drawn_sizes_are_shown_as_the_share_that_is_not_larger() {
        let figure = figure(&Distribution::sizes_mb(), &Distribution::ages_days(), &[1.0, 2.0, 5.0, 9.0]);
        let Body::Lines(lines) = &figure.panels[0].body else { panic!("lines") };
        assert!(lines.iter().any(|line| line.points == [(1.0, 0.25), (2.0, 0.5), (5.0, 0.75), (9.0, 1.0)]));
    }
}
