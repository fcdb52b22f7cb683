//! What a run says: the result file, and the counters and distributions behind it.

mod buckets;
mod latency_buckets;
mod replayed;
pub mod outcome;
pub mod rebuild;
pub mod histogram;
pub mod timeline;
pub mod counts;
pub(crate) mod sums;
pub mod verdict;
mod merge;
mod summary;
pub mod remedy;
pub mod rows;
