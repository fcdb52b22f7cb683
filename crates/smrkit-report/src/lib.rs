//! Results for people: tables for a terminal, figures as SVG and PNG, and pages that open offline.
//!
//! Everything is a pure function of outcomes (or of a trace's statistics, or of a mount's report) and returns text or
//! bytes; files are their caller's. [`text`], [`figures`] and [`report`] show runs next to each other; what else wants a
//! table, a figure or a page makes it of [`Grid`], [`figure`] and [`Section`]. Only [`progress`] writes, to standard error.
//! The modules stand in the order of their
//! dependencies.

pub mod format;
mod grid;
pub mod figure;
mod png;
mod canvas;
mod draw;
mod chart;
mod label;
mod members;
mod rebuild;
mod optional;
mod table;
mod gauges;
mod series;
mod command;
mod page;
pub mod catalogue;
pub mod trace_info;
pub mod activity;
pub mod progress;
#[cfg(test)]
mod example;
#[cfg(test)]
mod tests;

pub use draw::{png, svg};
pub use grid::Grid;
pub use page::{Section, facts, page, report};
pub use rebuild::{BusyWork, WORK};
pub use series::{figures, slower_than};
pub use table::{Terminal, text, text_for};
