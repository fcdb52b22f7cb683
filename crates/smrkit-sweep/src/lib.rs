//! Many runs into a store: lists of options are planned into comparisons, which are computed once, kept, and selected from.
//!
//! `plan` multiplies the lists of a sweep's file, `store` keeps comparisons as Parquet (`cells`) under a hash of what they are of,
//! `task` computes one comparison or a group of a trace's volumes, and `execute` computes what is missing. `select` makes tables of
//! what is there, which `sheet` writes with the `words` for keys, and `page` a page.

pub mod plan;
mod cells;
pub mod store;
pub mod task;
pub mod execute;
pub mod words;
pub mod sheet;
pub mod select;
pub mod page;
