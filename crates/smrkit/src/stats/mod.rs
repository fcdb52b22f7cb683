//! Results of a run: the table of an outcome, and the counters and distributions behind it.

pub mod confidence;
pub mod latency;
pub mod timeline;
mod records;
pub mod rebuild;
pub mod verdict;
pub mod counts;
mod join;
mod rows;
pub mod outcome;
pub mod measured;
