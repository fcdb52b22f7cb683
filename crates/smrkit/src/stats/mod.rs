//! What a run says: the result file, and the counters and distributions behind it.

pub mod outcome;
pub mod rows;
