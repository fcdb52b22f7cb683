//! Presents results: tables for a terminal, and pages that open offline, with charts that a browser draws and saves.
//!
//! Everything is a pure function of outcomes (or of a trace's statistics, or of a mount's report) and returns text; files
//! are their caller's. [`text`] and [`report`] show runs next to each other; what else wants a table or a page makes it of
//! [`Grid`], [`figure`] and [`Section`]. Only [`progress`] writes, to standard error. Modules are in the order of their dependencies.

pub mod format;
mod grid;
pub mod figure;
mod label;
mod members;
mod rebuild;
mod table;
mod series;
mod page;
pub mod catalogue;
pub mod trace_info;
pub mod activity;
pub mod metrics;
pub mod progress;
#[cfg(test)]
mod tests;

pub use grid::{Column, Grid};
pub use page::{Card, Section, facts, page, report};
pub use rebuild::{BusyWork, WORK};
pub use series::{FULL, slower_than, telling};
pub use table::{Terminal, text, text_for};
