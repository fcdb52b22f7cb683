//! Properties of a drive's buffer and its electronics: sizes, how far it reads ahead, the bus, overheads by kind.

use serde::Deserialize;

use crate::error::Error;
use crate::units::{Nanos, SECTOR_BYTES};

/// End of the media's reading on after a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAheadTo {
    /// As many bytes as `read_ahead_bytes` says.
    #[default]
    Bytes,
    /// The end of the track of the last sector asked for.
    Track,
    /// The end of the track, or of the next one where reading came from the track before.
    NextTrack,
}

impl std::fmt::Display for ReadAheadTo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(["bytes", "track", "next-track"][*self as usize])
    }
}

/// A command's overhead by its kind and by the kind of the one before: after a read, after a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// Before the media reads.
    pub read_miss: [Nanos; 2],
    /// Before the bus carries what is in the buffer.
    pub read_hit: [Nanos; 2],
    /// Before the bus carries a write into the buffer.
    pub write: [Nanos; 2],
    /// Before the media writes what the buffer has no room for.
    pub media_write: [Nanos; 2],
    /// After a read from the media has enough in the buffer, before the bus carries it.
    pub read_reselect: Nanos,
    /// At the end of a read, and of a write.
    pub completion: [Nanos; 2],
}

impl Overheads {
    /// One overhead for all commands, and none at their end.
    pub fn all(overhead: Nanos) -> Overheads {
        let each = [overhead; 2];
        Overheads { read_miss: each, read_hit: each, write: each, media_write: each, ..Overheads::default() }
    }
}

/// A buffer and the bus to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffer {
    /// Room for writes that the media has not done; 0 is off.
    pub write_cache_bytes: u64,
    /// Bytes that the media reads on after a read; 0 is off, save where it reads to a track's end.
    pub read_ahead_bytes: u64,
    /// Place where reading on ends.
    pub read_ahead_to: ReadAheadTo,
    /// Bytes behind the head's place that are kept; read-ahead overwrites the rest.
    pub segment_bytes: u64,
    /// Stretches that are kept, the one at hand among them; the oldest goes first.
    pub segments: u32,
    /// Sectors of one track are read in whatever order they pass under the head.
    pub any_order: bool,
    /// Sectors of the track that pass before the first one asked for are read too.
    pub reads_passing: bool,
    /// Reading on stops before it would overwrite what the last request asked for.
    pub keeps_requested: bool,
    /// The rate of the bus for reads, and for writes.
    pub bus_bytes_per_s: [f64; 2],
    /// The share of a read that must be in the buffer before the bus begins.
    pub watermark: f64,
    /// Overheads of commands.
    pub overheads: Overheads,
}

impl Buffer {
    /// SATA at 6 Gb/s with its 8b/10b code (assumption where a drive file names none).
    pub const BUS_BYTES_PER_S: f64 = 600e6;

    /// No cache, no read-ahead, and the same overhead for all commands.
    pub fn plain(overhead: Nanos) -> Buffer {
        Buffer {
            write_cache_bytes: 0,
            read_ahead_bytes: 0,
            read_ahead_to: ReadAheadTo::Bytes,
            segment_bytes: 0,
            segments: 1,
            any_order: false,
            reads_passing: false,
            keeps_requested: false,
            bus_bytes_per_s: [Buffer::BUS_BYTES_PER_S; 2],
            watermark: 0.0,
            overheads: Overheads::all(overhead),
        }
    }

    /// True if the media does anything that no command waits for.
    pub fn is_off(&self) -> bool {
        self.write_cache_bytes < SECTOR_BYTES && !self.reads_ahead()
    }

    /// True if the media reads on.
    pub fn reads_ahead(&self) -> bool {
        self.read_ahead_bytes >= SECTOR_BYTES || self.read_ahead_to != ReadAheadTo::Bytes
    }

    /// Errors: a bus without a sensible rate, no segment, or a watermark that is no share.
    pub fn check(&self) -> Result<(), Error> {
        if !(1..=4096).contains(&self.segments) {
            return Err(Error::Impossible(format!("mechanical.segments = {}: give 1 to 4096", self.segments)));
        }
        for (key, rate) in ["bus_bytes_per_s", "write_bus_bytes_per_s"].into_iter().zip(self.bus_bytes_per_s) {
            if !(1e3..=1e13).contains(&rate) {
                return Err(Error::Impossible(format!("mechanical.{key} = {rate}: give 1e3 to 1e13")));
            }
        }
        match (0.0..=1.0).contains(&self.watermark) {
            true => Ok(()),
            false => {
                Err(Error::Impossible(format!("mechanical.watermark = {}: give a share from 0 to 1", self.watermark)))
            }
        }
    }
}
