//! Our compact columnar trace format: Parquet with plain integer columns that pandas, DuckDB and Polars read.
//!
//! `docs/reference/trace-parquet.md` describes it. Everything of a request survives save `source`, which is a run's, not a trace's.

mod footer;
mod reader;
pub mod table;
mod writer;

#[cfg(test)]
mod tests;

pub use reader::ParquetReader;
pub use writer::ParquetWriter;

use self::table::{Column, Packing};
use crate::volume::Volume;

/// The version of the format that is written; readers refuse later ones.
pub const VERSION: u32 = 1;

/// A trace file's own account of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The format that the trace was converted from, as recognised.
    pub source_format: String,
    /// The SHA-256 of the file that it was converted from, in hexadecimal.
    pub source_sha256: Option<String>,
    /// The volumes; a request's `volume` is an index into them.
    pub volumes: Vec<Volume>,
}

/// A unit of time that the time column can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tick {
    ns: u64,
    column: &'static str,
}

/// The units, coarsest first. Traces hold microseconds, Windows ticks of 100 ns, or whole seconds; times that share a
/// factor take a third less room in its unit.
const TICKS: [Tick; 5] = [
    Tick { ns: 1_000_000_000, column: "time_s" },
    Tick { ns: 1_000_000, column: "time_ms" },
    Tick { ns: 1_000, column: "time_us" },
    Tick { ns: 100, column: "time_100ns" },
    Tick { ns: 1, column: "time_ns" },
];

/// The values of some requests, by column.
#[derive(Default)]
struct RequestColumns {
    time: Vec<i64>,
    op: Vec<i32>,
    lba: Vec<i64>,
    sectors: Vec<i32>,
    volume: Vec<i32>,
}

/// The columns after the time: name, width in bits, layout.
const COLUMNS: [Column; 4] = [
    Column { name: "op", bits: 8, packing: Packing::Dictionary },
    Column { name: "lba", bits: 64, packing: Packing::Delta },
    Column { name: "sectors", bits: 32, packing: Packing::Delta },
    Column { name: "volume", bits: 16, packing: Packing::Delta },
];

pub(crate) const KEY_FORMAT: &str = "smrkit.format";
pub(crate) const KEY_VERSION: &str = "smrkit.version";
const KEY_SOURCE_FORMAT: &str = "smrkit.source_format";
const KEY_SOURCE_SHA256: &str = "smrkit.source_sha256";
const KEY_TICK: &str = "smrkit.time_tick_ns";
pub(crate) const KEY_ROWS: &str = "smrkit.rows";
/// Followed by the index; the value is the number, a space, and the name.
const KEY_VOLUME: &str = "smrkit.volume.";
const FORMAT: &str = "trace";
