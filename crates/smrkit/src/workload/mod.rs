//! Seeded generators of requests.
//!
//! A workload is parts joined by `+` (merged by time) and `;` (one after another), each a name of the table
//! `WORKLOADS` with values for its keys. The same text and seed give the same requests on every platform.
//! `docs/reference/workloads.md` has each of them with its assumptions.

mod cassuto_pc;
mod catalog;
mod desktop;
mod draws;
mod patterns;
mod recipes;
mod stream;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use catalog::{WORKLOADS, WorkloadInfo, find};

use crate::error::Error;
use crate::interleave::{Interleave, Interleaved, MergePart, SourcePlacement};
use crate::request::Source;
use catalog::WorkloadPart;
use stream::{Chained, Stream};

/// A workload has fewer than 2 to this power parts.
const NTH_SHIFT: u32 = 40;

/// A workload as it was written; `Display` gives its canonical text, which parses to the same workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Phases, one after another. The parts of each are merged.
    phases: Vec<Vec<WorkloadPart>>,
}

impl Workload {
    /// Reads a text such as `zipf:size=4Ki,count=10k;backup+desktop`.
    pub fn parse(text: &str) -> Result<Workload, Error> {
        Ok(Workload { phases: catalog::from_text(text)? })
    }

    /// The requests for a host that sees `span_sectors` sectors. Merged parts are told apart by `Request::source`.
    pub fn source(&self, span_sectors: u64, seed: u64) -> Result<Box<dyn Source>, Error> {
        self.nth_source(span_sectors, seed, 0)
    }

    /// Requests of the n-th of several sources, from 0. Sources with the same text and seed are independent of each other.
    pub fn nth_source(&self, span_sectors: u64, seed: u64, nth: u8) -> Result<Box<dyn Source>, Error> {
        let mut number = u64::from(nth) << NTH_SHIFT;
        let mut phases: Vec<Box<dyn Stream>> = Vec::new();
        for parts in &self.phases {
            let mut streams = Vec::new();
            for part in parts {
                streams.extend(part.streams(span_sectors, seed, number)?);
                number += 1;
            }
            if streams.len() > 256 {
                let message = format!("{} sources are merged, at most 256 can be: lower `sources`", streams.len());
                return Err(Error::Usage(message));
            }
            phases.push(if streams.len() == 1 { streams.remove(0) } else { merged(streams, seed)? });
        }
        Ok(Box::new(Chained::new(phases)))
    }
}

/// Streams over one another, merged by their times.
fn merged(streams: Vec<Box<dyn Stream>>, seed: u64) -> Result<Box<dyn Stream>, Error> {
    let parts = streams.into_iter().map(|source| MergePart { source, sectors: 0 }).collect();
    Ok(Box::new(Interleaved::new(parts, Interleave::Time, SourcePlacement::Zero, seed)?))
}

impl FromStr for Workload {
    type Err = Error;
    fn from_str(text: &str) -> Result<Workload, Error> {
        Workload::parse(text)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, phase) in self.phases.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ";" })?;
            for (j, part) in phase.iter().enumerate() {
                write!(f, "{}{part}", if j == 0 { "" } else { "+" })?;
            }
        }
        Ok(())
    }
}
