//! What a run says: the result file, and the counters and distributions behind it.

mod buckets;
mod replayed;
pub mod outcome;
pub mod rebuild;
pub mod histogram;
pub mod timeline;
pub mod counts;
pub mod verdict;
pub mod remedy;
pub mod rows;
