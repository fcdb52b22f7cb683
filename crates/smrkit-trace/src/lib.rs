//! Traces of requests: readers of their formats, our Parquet format, tables of requests and accesses, statistics.
//!
//! A stream of bytes (`input`) is of a format (`formats`), which makes it a trace (`trace`); its volumes on one disk are the demand of
//! an experiment (`demand`). The modules stand in the order of their dependencies.

pub mod output;
mod number;
mod iso;
mod row;
mod input;
mod reader;
mod blkparse;
mod blktrace;
mod cachesim;
mod csv;
mod fio;
mod msr;
mod snoop;
mod srt;
pub mod served;
mod vscsi;
mod formats;
pub mod parquet;
mod trace;
mod demand;
pub mod latencies;
pub mod recorded;
pub mod info;
pub mod rows;
pub mod measure;
#[cfg(test)]
mod tests;

pub use blktrace::are_one_blktrace;
pub use demand::{LaidOutTrace, TraceDemand, VolumeChoice, is_one_gap, note_on_volumes};
pub use formats::{FORMATS, Format};
pub use input::in_utf8;
pub use reader::RowTimes;
pub use row::Volume;
pub use smrkit::stats::outcome::TraceNotes;
pub use trace::{OpenOptions, Trace, is_diskstats};
