//! Many runs into a store: lists of options are planned into comparisons, which are computed once, kept, and selected from.
//!
//! `plan` multiplies the lists of a sweep's file, `store` keeps comparisons as Parquet under a hash of what they are of,
//! `task` computes one comparison or a group of a trace's volumes, `execute` computes what is missing, and `select` makes tables of what is there.

pub mod plan;
pub mod store;
pub mod task;
pub mod execute;
pub mod select;
