//! Demands on the arrays of the study: four sources each.

use std::sync::Arc;

use smrkit::error::Error;
use smrkit::request::{InMemory, Request, Source};
use smrkit::units::Lba;
use smrkit::workload::Workload;
use smrkit_trace::TraceDemand;

use crate::Scale;

/// One block of 4 KiB: the chunk of a striped array, and what sizes are rounded to.
pub const BLOCK_SECTORS: u64 = 8;

/// Blocks of 4 KiB of a generated source.
pub const BLOCKS: u64 = 65_536;
/// Sources of a set.
pub const SOURCES: usize = 4;
/// The real traces, which stand for the paper's four.
pub const TRACES: [&str; SOURCES] = ["cloudphysics_sample", "hp_hplajw_1week_1992", "flashsim_jpeg_copy", "msr_web_3"];

/// Four sources.
pub enum Set {
    /// One workload four times, independently, each in a region of its own.
    Workload(String),
    /// Real traces, each squeezed to its footprint.
    Traces(Vec<Squeezed>),
}

/// A trace whose distinct blocks lie one after another in the order of their addresses: what it never touches is left out.
pub struct Squeezed {
    requests: Arc<[Request]>,
    sectors: u64,
}

impl Squeezed {
    fn new(trace: &TraceDemand) -> Result<Squeezed, Error> {
        Ok(Squeezed::from_requests(trace.with_volumes()?.rest()?))
    }

    fn from_requests(mut requests: Vec<Request>) -> Squeezed {
        let blocks = |request: &Request| (request.lba.0 / BLOCK_SECTORS, request.end().0.div_ceil(BLOCK_SECTORS));
        let mut touched: Vec<(u64, u64)> = requests.iter().map(blocks).collect();
        touched.sort_unstable();
        // Stretches of touched blocks: (first, end, how many lie before).
        let mut stretches: Vec<(u64, u64, u64)> = Vec::new();
        for (first, end) in touched {
            match stretches.last_mut() {
                Some(last) if first <= last.1 => last.1 = last.1.max(end),
                Some(&mut (a, b, before)) => stretches.push((first, end, before + (b - a))),
                None => stretches.push((first, end, 0)),
            }
        }
        for request in &mut requests {
            let at = stretches.partition_point(|stretch| stretch.0 * BLOCK_SECTORS <= request.lba.0);
            if let Some((first, _, before)) = at.checked_sub(1).map(|at| stretches[at]) {
                request.lba = Lba(request.lba.0 - (first - before) * BLOCK_SECTORS);
            }
        }
        let sectors = stretches.last().map_or(0, |(first, end, before)| (before + end - first) * BLOCK_SECTORS);
        Squeezed { requests: requests.into(), sectors }
    }
}

impl Set {
    /// Runs of single blocks, of this many from `shortest` to `longest`, in a hot quarter; half of the runs write.
    pub fn runs(shortest: u64, longest: u64, count: u64) -> Arc<Set> {
        let text = format!("runs:sources=1,blocks={BLOCKS},run_min={shortest},run_max={longest},count={count}");
        Arc::new(Set::Workload(text))
    }

    /// Single blocks at random in a hot quarter; half of them are written.
    pub fn hot(count: u64) -> Arc<Set> {
        Arc::new(Set::Workload(format!("hot-cold:size=4Ki,hot_share=25%,hot_access_share=1,count={count}")))
    }

    /// Writes of single blocks at random, everywhere.
    pub fn random_writes(count: u64) -> Arc<Set> {
        Arc::new(Set::Workload(format!("random-write:size=4Ki,count={count}")))
    }

    /// The real traces, or the names of those that are not at hand.
    pub fn real(scale: &Scale) -> Result<Result<Arc<Set>, Vec<&'static str>>, Error> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in TRACES {
            match scale.traces.get(name)? {
                Some(trace) => found.push(Squeezed::new(&trace)?),
                None => missing.push(name),
            }
        }
        Ok(if missing.is_empty() { Ok(Arc::new(Set::Traces(found))) } else { Err(missing) })
    }

    /// The workload's text.
    pub fn text(&self) -> &str {
        match self {
            Set::Workload(text) => text,
            Set::Traces(_) => "",
        }
    }

    /// Sectors of each source.
    pub fn sizes(&self) -> Vec<u64> {
        match self {
            Set::Workload(_) => vec![BLOCKS * BLOCK_SECTORS; SOURCES],
            Set::Traces(traces) => traces.iter().map(|trace| trace.sectors).collect(),
        }
    }

    /// One of the sources, from its beginning.
    pub fn open(&self, number: usize, seed: u64) -> Result<Box<dyn Source>, Error> {
        match self {
            Set::Workload(text) => Workload::parse(text)?.nth_source(BLOCKS * BLOCK_SECTORS, seed, number as u8),
            Set::Traces(traces) => Ok(Box::new(InMemory::new(Arc::clone(&traces[number].requests)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use smrkit::request::Op;

    use super::*;

    #[test]
    fn untouched_space_is_left_out_and_neighbours_stay_together() {
        let requests = [(800, 8), (80, 3), (84, 9), (803, 20), (8, 8)];
        let requests = requests.map(|(lba, sectors)| Request::new(Op::Read, Lba(lba), sectors));
        let squeezed = Squeezed::from_requests(requests.to_vec());
        let places: Vec<u64> = squeezed.requests.iter().map(|request| request.lba.0).collect();
        // Blocks 1, 10 and 11, 100 to 102.
        assert_eq!((places, squeezed.sectors), (vec![24, 8, 12, 27, 0], 48));
    }
}
