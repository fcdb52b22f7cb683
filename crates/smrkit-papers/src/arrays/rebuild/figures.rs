//! Hours against the size of pieces, and the longest command against the window, a panel an order.

use super::rows::Rebuilds;
use super::setup::{
    BY_COMMAND, BY_RUN, CONVENTIONAL, CONVENTIONAL_CACHED, MANY, NewMember, Order, VGUARD, VGUARD_CACHED, WINDOWS, Way,
    ways,
};
use smrkit_report::figure::{Axis, Colour, Figure, Numbers, Panel, Series, Style};

const NOTE: &str = "Broken lines: write cache off. Where lines coincide, the last of the legend is seen.";

/// Hours against the size of pieces.
pub fn hours(all: &Rebuilds) -> Figure {
    let panel = |order: Order| {
        let mut sizes: Vec<u64> =
            ways().iter().filter(|way| way.order == order && way.window == MANY).map(|way| way.piece_kib).collect();
        sizes.sort_unstable();
        let series = NewMember::ALL.map(|kind| {
            let point = |&kib: &u64| Some((kib as f64, all.hours_of(kind, Way::new(order, kib, MANY))?));
            series(kind, sizes.iter().filter_map(point).collect())
        });
        let y = Axis::log("Hours for 5 TB", Numbers::Plain);
        let x = Axis { fixed: Some((20.0, 1000.0)), ..Axis::log("Size of a piece (KiB)", Numbers::Plain) };
        Panel::lines(Some(order.name()), x, y, series)
    };
    let note = format!("{MANY} pieces under way, nothing else to do. {NOTE}");
    let title = "How long a member of 5 TB takes to rebuild";
    Figure::new("arrays-rebuild-hours", title, note, Order::ALL.map(panel))
}

/// The longest command against the window.
pub fn longest(all: &Rebuilds) -> Figure {
    let panel = |order: Order| {
        let series = NewMember::ALL.map(|kind| {
            let way = |window| Way::new(order, order.main_kib(), window);
            let point = |window: u32| Some((f64::from(window), all.longest_of(kind, way(window))?));
            series(kind, WINDOWS.into_iter().filter_map(point).collect())
        });
        let title = format!("{}, pieces of {} KiB", order.name(), order.main_kib());
        let x = Axis { fixed: Some((1.0, 50.0)), ..Axis::log("Pieces under way", Numbers::Plain) };
        let y = Axis::log("Longest command", Numbers::Time);
        Panel::lines(Some(&title), x, y, series).guided([(7.0, "7 s"), (30.0, "30 s")])
    };
    let note = format!("The marks are usual timeouts. {NOTE}");
    let title = "The longest command of a member that is rebuilt";
    Figure::new("arrays-rebuild-longest", title, note, Order::ALL.map(panel))
}

/// One colour a layer and bypass; dots where writes are cached, a broken line where they are not.
fn series(kind: NewMember, points: Vec<(f64, f64)>) -> Series {
    let colour = match kind {
        CONVENTIONAL | CONVENTIONAL_CACHED => Colour::GREY,
        BY_RUN => Colour::nth(2),
        BY_COMMAND => Colour::nth(4),
        VGUARD | VGUARD_CACHED => Colour::nth(3),
        _ => Colour::nth(0),
    };
    let style = if kind.caches() { Style::Marked } else { Style::Dashed };
    Series { name: kind.name.into(), colour, style, points }
}
