//! A trace split by volume: a folder of Parquet traces, buckets of volumes, and a list of what is in them.
//!
//! Volumes go to buckets in turn, in order of first sight. A bucket is one file, or several in a row where it is long: what the
//! writer of a Parquet file remembers of it would grow with the trace. Each file is a trace of its own.

mod demand;
mod writer;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use smrkit::error::Error;
use smrkit::stats::outcome::{TraceNotes, TraceReading};

pub use demand::VolumeDemand;
pub use writer::{BUCKETS_MAX, Splitter};

/// The name of the list in its folder.
const LIST: &str = "volumes.json";
/// The version of the list; others are refused.
const VERSION: u32 = 1;

/// List of the trace that was split into a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitTrace {
    /// The version of this list.
    pub version: u32,
    /// The path of the trace, as it was given.
    pub trace: String,
    /// Its format, as recognised.
    pub trace_format: String,
    /// The SHA-256 of its file.
    pub trace_sha256: Option<String>,
    /// Options that it was read with.
    pub trace_reading: TraceReading,
    /// Rows mended, skipped or out of order.
    pub trace_notes: TraceNotes,
    /// Requests in all.
    pub requests: u64,
    /// Their files.
    pub buckets: Vec<Bucket>,
    /// Its volumes, in order of first sight.
    pub volumes: Vec<SplitVolume>,
}

/// The files of some volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Names in the folder, in the order of the trace.
    pub files: Vec<String>,
    /// Requests in them.
    pub requests: u64,
}

/// A volume of a split trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitVolume {
    /// The number that the trace gives it.
    pub number: u64,
    /// The name that the trace gives it; may be empty.
    pub name: String,
    /// The index of its bucket.
    pub bucket: usize,
    /// Its index among the volumes of its bucket's files.
    pub index: u16,
    /// Requests of it.
    pub requests: u64,
    /// After the last sector it uses.
    pub end_sectors: u64,
    /// The time of its first request, from the start of the trace.
    pub first_ns: u64,
    /// True if one of its requests has a time before that.
    pub is_out_of_order: bool,
}

impl SplitTrace {
    /// Reads the list of a folder.
    pub fn open(folder: &Path) -> Result<SplitTrace, Error> {
        let path = folder.join(LIST);
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::input(folder, "no split trace: make one with trace split, and name its folder")
            }
            _ => Error::reading(&path, error),
        })?;
        let again = |why: String| Error::input(&path, format!("{why}: split the trace again with this version"));
        let read: SplitTrace = serde_json::from_str(&text).map_err(|error| again(format!("damaged ({error})")))?;
        let is_whole = read.volumes.iter().all(|volume| volume.bucket < read.buckets.len());
        match read.version {
            VERSION if is_whole => Ok(read),
            VERSION => Err(again("a volume is in no bucket".into())),
            other => Err(again(format!("version {other}, not {VERSION}"))),
        }
    }

    /// The files of a bucket in `folder`.
    fn files(&self, folder: &Path, bucket: usize) -> Vec<PathBuf> {
        self.buckets[bucket].files.iter().map(|name| folder.join(name)).collect()
    }

    /// The end of the volume that reaches furthest, in sectors: the least disk that holds each of them.
    pub fn least_sectors(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.end_sectors).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
