//! Requests of a host, and their sources.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::units::{Lba, Nanos};

/// The kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Op {
    /// Return the sectors last written.
    Read,
    /// Store sectors.
    Write,
    /// Make everything written so far durable; `lba` and `sectors` are 0.
    Flush,
    /// The host no longer needs these sectors.
    Discard,
}

impl Op {
    /// The name in results.
    pub fn name(self) -> &'static str {
        ["read", "write", "flush", "discard"][self as usize]
    }
}

/// One request of a host. Kept to 24 bytes, because traces hold hundreds of millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When the host sent it, from the start of the trace.
    pub time: Nanos,
    /// The first sector.
    pub lba: Lba,
    /// Number of sectors: at least 1, except for a flush.
    pub sectors: u32,
    /// Index into the source's table of volumes.
    pub volume: u16,
    /// The operation.
    pub op: Op,
    /// Source among several merged ones.
    pub source: u8,
}

impl Request {
    /// A request at time 0 of volume 0 and source 0.
    pub fn new(op: Op, lba: Lba, sectors: u32) -> Request {
        Request { time: Nanos::ZERO, lba, sectors, volume: 0, op, source: 0 }
    }

    /// The sector after the last.
    pub fn end(&self) -> Lba {
        self.lba + u64::from(self.sectors)
    }
}

/// Progress of a source; the unit is the source's own (bytes of a file, requests of a workload).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Done so far.
    pub done: u64,
    /// The total, if it is known.
    pub total: Option<u64>,
}

/// A stream of requests: a trace, a workload, or several merged.
pub trait Source: Send {
    /// Replaces `batch` by the next requests, a few thousand at a time; an empty batch is the end.
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error>;

    /// As [`Source::fill`]; false at the end.
    fn fill_next(&mut self, batch: &mut Vec<Request>) -> Result<bool, Error> {
        self.fill(batch)?;
        Ok(!batch.is_empty())
    }

    /// All requests from here on, in memory.
    fn rest(&mut self) -> Result<Vec<Request>, Error> {
        let (mut rest, mut batch) = (Vec::new(), Vec::new());
        while self.fill_next(&mut batch)? {
            rest.append(&mut batch);
        }
        Ok(rest)
    }

    /// For each request of the last batch, how many its host had outstanding when it arrived; empty if that is not known. In a closed loop
    /// it arrives once no more than that are outstanding.
    fn outstanding(&self) -> &[u16] {
        self.inner().map_or(&[], Source::outstanding)
    }

    /// Where a volume, as `Request::volume` names it, begins on the disk.
    fn volume_start(&self, volume: u16) -> Lba {
        self.inner().map_or(Lba(0), |inner| inner.volume_start(volume))
    }

    /// Name in messages: a file's path, or a word.
    fn name(&self) -> PathBuf {
        self.inner().map_or_else(|| "workload".into(), Source::name)
    }

    /// Its progress.
    fn progress(&self) -> Progress {
        self.inner().map_or_else(Progress::default, Source::progress)
    }

    /// Number of sources that results distinguish by `Request::source`. Parts of one workload count as one.
    fn sources(&self) -> usize {
        self.inner().map_or(1, Source::sources)
    }

    /// The source that this one takes its requests from, if it forwards calls to it.
    fn inner(&self) -> Option<&dyn Source> {
        None
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        (**self).fill(batch)
    }

    fn outstanding(&self) -> &[u16] {
        (**self).outstanding()
    }

    fn volume_start(&self, volume: u16) -> Lba {
        (**self).volume_start(volume)
    }

    fn name(&self) -> PathBuf {
        (**self).name()
    }

    fn progress(&self) -> Progress {
        (**self).progress()
    }

    fn sources(&self) -> usize {
        (**self).sources()
    }
}

/// Requests held in memory.
pub struct InMemory {
    requests: std::sync::Arc<[Request]>,
    at: usize,
}

impl InMemory {
    /// Requests in a batch: few enough to stay in the L1 cache.
    pub const BATCH: usize = 1024;

    /// A source that returns `requests` once.
    pub fn new(requests: impl Into<std::sync::Arc<[Request]>>) -> InMemory {
        InMemory { requests: requests.into(), at: 0 }
    }
}

impl Source for InMemory {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let end = self.requests.len().min(self.at + Self::BATCH);
        batch.clear();
        batch.extend_from_slice(&self.requests[self.at..end]);
        self.at = end;
        Ok(())
    }

    fn progress(&self) -> Progress {
        Progress { done: self.at as u64, total: Some(self.requests.len() as u64) }
    }
}
