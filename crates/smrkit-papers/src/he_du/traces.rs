//! The traces of Table 1: none of them is at hand. Others stand in their place, and where those are absent as well,
//! workloads of the same size, span and share of writes.

use std::sync::Arc;

use smrkit::error::Error;
use smrkit::request::{Request, Source};
use smrkit::workload::Workload;

use super::super::requests::folded;
use super::common::{N, TRACK_SECTORS};
use crate::Scale;

/// Substitute for a trace of the paper.
pub struct Substitute {
    /// The paper's name for it.
    pub paper: &'static str,
    /// Role in the paper of the trace.
    pub role: &'static str,
    /// Factor by which the paper multiplied its inter-arrival times, and so do we.
    pub stretched: f64,
    /// The file that stands for it, without its ending.
    file: &'static str,
    /// Workload in its place where it is absent: requests, span, share of writes, mean size and interval as the file has
    /// them; skew and places are assumptions.
    workload: &'static str,
}

pub const SUBSTITUTES: [Substitute; 4] = [
    Substitute {
        paper: "web_0",
        role: "update intensive",
        stretched: 200.0,
        file: "msr_web_3",
        workload: "zipf:span=170G,size=4Ki/70:64Ki/30,count=31380,write_share=0.68,interval=19s,arrivals=poisson",
    },
    Substitute {
        paper: "Financial2, volume 0",
        role: "read intensive",
        stretched: 5000.0,
        file: "msr_hm_0_cut7016",
        workload: "zipf:span=14G,size=4Ki/70:32Ki/30,count=7016,write_share=0.17,interval=21ms,arrivals=poisson",
    },
    Substitute {
        paper: "Financial2, by its maker",
        role: "read intensive, where this one writes",
        stretched: 5000.0,
        file: "spc_financial1_first10k",
        workload: "zipf:span=18G,size=4Ki,count=10000,write_share=0.77,interval=8ms,arrivals=poisson",
    },
    Substitute {
        paper: "hp_c2247",
        role: "moderate",
        stretched: 5.0,
        file: "hp_hplajw_1week_1992",
        workload: "zipf:span=330M,size=2Ki/30:8Ki/70,count=44519,write_share=0.707,interval=13.5s,arrivals=poisson",
    },
];

/// Requests that `--quick` takes.
const QUICK_REQUESTS: usize = 4000;
/// Sectors that no workload here reaches.
const FAR: u64 = 1 << 40;

/// A trace as it is replayed.
pub struct ReplayedTrace {
    /// Trace that it stands for.
    pub of: &'static Substitute,
    /// Its file's name, or that it is a stand-in.
    pub name: String,
    /// True if it was generated.
    pub generated: bool,
    /// Its requests as they are.
    pub requests: Arc<[Request]>,
    /// Bands of the drive that just holds its span.
    pub bands: u64,
}

impl ReplayedTrace {
    /// Its requests, addresses taken modulo the share of the space in use.
    pub fn folded(&self, fill: u64) -> Arc<[Request]> {
        let span = self.bands * N * TRACK_SECTORS * fill / 100;
        self.requests.iter().map(|request| folded(request, span)).collect()
    }
}

/// All of them, read or generated.
pub fn all(scale: &Scale) -> Result<Vec<ReplayedTrace>, Error> {
    SUBSTITUTES.iter().map(|of| replayed(of, scale)).collect()
}

fn replayed(of: &'static Substitute, scale: &Scale) -> Result<ReplayedTrace, Error> {
    let trace = scale.traces.get(of.file)?;
    let mut requests = match &trace {
        Some(trace) => trace.with_volumes()?.rest()?,
        None => Workload::parse(of.workload)?.source(FAR, scale.seed)?.rest()?,
    };
    requests.sort_by_key(|request| request.time);
    if scale.quick {
        requests.truncate(QUICK_REQUESTS);
    }
    let end = requests.iter().map(|request| request.end().0).max().unwrap_or(1);
    // A quarter of the space ends with a band of each scheme's groups.
    let bands = end.div_ceil(N * TRACK_SECTORS).next_multiple_of(12);
    Ok(ReplayedTrace {
        of,
        name: if trace.is_some() { of.file.into() } else { "a stand-in".into() },
        generated: trace.is_none(),
        requests: requests.into(),
        bands,
    })
}
