//! Results of a run: the result file, and the counters and distributions behind it.

mod buckets;
mod latency;
mod wide;
mod latency_buckets;
mod physical;
mod replayed;
pub mod timeline;
pub mod command_times;
pub mod rebuild;
pub mod verdict_counts;
pub mod outcome;
pub mod histogram;
pub mod counts;
mod sums;
pub mod verdict;
pub(crate) mod builder;
mod merge;
mod summary;
pub mod rows;
