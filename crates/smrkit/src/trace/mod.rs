//! Traces: readers, one file a format; a writer; statistics.

pub mod parquet;
pub mod info;
pub mod volume;
