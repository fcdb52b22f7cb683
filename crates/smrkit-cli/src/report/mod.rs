//! Results for people: the table on the terminal, an HTML page, and figures as files.
//!
//! `series.rs` turns outcomes into figures and knows no drawing; `interactive.rs` and `figures.rs` draw figures.

pub mod activity;
mod canvas;
pub mod figure;
pub mod figures;
pub mod format;
pub mod grid;
pub mod html;
mod interactive;
mod label;
mod members;
mod optional;
pub mod rebuild;
pub mod series;
pub mod surface;
pub mod table;
pub mod target;
pub mod trace_info;
#[cfg(test)]
mod example;
#[cfg(test)]
mod tests;
