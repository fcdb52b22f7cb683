//! Sweeps: lists of options are planned as comparisons, which are computed once, kept in a store, and selected from.
//!
//! `plan` multiplies the lists of a sweep's file, `store` keeps comparisons as Parquet under a hash of their inputs, and `execute` computes the
//! missing ones. `table` makes tables and a page of a store's outcomes with the `words` for keys,
//! `pairs` compares two of their layers or settings, and a `frame` has either for programs.

pub mod plan;
pub mod words;
pub mod spread;
pub mod frame;
pub mod table;
pub mod pairs;
pub mod store;
pub mod execute;
