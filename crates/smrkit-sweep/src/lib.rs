//! Many runs into a store: lists of options are planned into comparisons, which are computed once, kept, and selected from.
//!
//! `plan` multiplies the lists of a sweep's file, `store` keeps comparisons as Parquet under a hash of what they are of, `task`
//! computes one comparison, and `execute` computes what is missing. `table` makes tables and a page of what is there with the `words`
//! for keys, `pairs` compares two of its layers or settings, and a `frame` has either for programs.

pub mod plan;
pub mod words;
pub mod spread;
pub mod frame;
pub mod table;
pub mod pairs;
pub mod store;
pub mod task;
pub mod execute;
