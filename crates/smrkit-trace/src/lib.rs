//! Traces of requests: readers, one file a format; our Parquet format; tables of requests and accesses; statistics.
//!
//! A file is decompressed and hashed on the way (`input`), its format is recognised from its first rows (`format`), rows
//! become requests (`text`, `record`, `intake`), and volumes are laid end to end on one disk (`layout`). The modules stand in
//! the order of their dependencies.

pub mod partial;
mod number;
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
mod clf;
mod csv;
mod disksim;
mod fio;
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
pub mod layout;
mod demand;
pub mod info;
pub mod rows;
#[cfg(test)]
mod tests;

pub use demand::TraceDemand;
pub use format::{FORMATS, Format};
pub use layout::{Laid, VolumeChoice, VolumeTable, VolumeUse, scan};
pub use open::{OpenOptions, Trace};
pub use smrkit::stats::outcome::TraceNotes;
pub use volume::Volume;
