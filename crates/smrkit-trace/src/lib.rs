//! Traces of requests: readers, one file a format; our Parquet format; tables of requests and accesses; statistics.
//!
//! A file, or those of all CPUs (`cpus`), is decompressed and hashed on the way (`input`), its format is recognised from
//! its first rows (`format`), rows become requests (`text`, `record`, `intake`), and volumes are laid end to end on one
//! disk (`layout`). The modules stand in the order of their dependencies.

pub mod partial;
pub mod target;
mod number;
mod iso;
mod foreign;
mod cpus;
mod times;
pub mod volume;
mod row;
mod volumes;
mod input;
mod intake;
mod reader;
mod text;
mod record;
mod alibaba;
mod fiu;
mod blkparse;
mod blktrace;
mod clf;
mod csv;
mod csv_header;
mod disksim;
mod fio;
mod measured;
mod msr;
mod spc;
mod srt;
mod systor17;
mod tencent;
mod vscsi;
pub mod parquet;
mod columns;
pub mod format;
mod open;
pub mod convert;
pub mod layout;
mod demand;
pub mod recorded;
pub mod info;
pub mod rows;
pub mod records;
pub mod split;
#[cfg(test)]
mod tests;

pub use cpus::are_one_blktrace;
pub use demand::TraceDemand;
pub use format::{FORMATS, Format};
pub use layout::{Laid, VolumeChoice, VolumeTable, VolumeUse, scan};
pub use open::{OpenOptions, Trace};
pub use smrkit::stats::outcome::TraceNotes;
pub use times::RowTimes;
pub use volume::Volume;
