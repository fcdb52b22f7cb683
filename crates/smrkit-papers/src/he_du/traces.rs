//! The traces of Table 1: none of them is at hand. Others stand in their place, and where those are absent as well,
//! workloads of the same size, span and share of writes.

use std::sync::Arc;

use smrkit::engine::NoObserver;
use smrkit::error::Error;
use smrkit::request::{Request, Source};
use smrkit::units::Lba;
use smrkit::workload::Workload;

use super::super::Scale;
use super::super::lab::{Plan, Planned};
use super::{FILLS, N, TRACK_SECTORS, drive};

/// What stands for a trace of the paper.
pub struct Substitute {
    /// The paper's name for it.
    pub paper: &'static str,
    /// What the paper takes it for.
    pub role: &'static str,
    /// By what the paper stretched its inter-arrival times.
    pub stretched: f64,
    /// The file that stands for it, without its ending.
    file: &'static str,
    /// What stands for that where it is absent: requests, span, share of writes, mean size and interval as the file has
    /// them; skew and places are assumptions.
    workload: &'static str,
}

pub const SUBSTITUTES: [Substitute; 3] = [
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
        paper: "hp_c2247",
        role: "moderate",
        stretched: 5.0,
        file: "hp_hplajw_1week_1992",
        workload: "zipf:span=330M,size=2Ki/30:8Ki/70,count=44519,write_share=0.707,interval=13.5s,arrivals=poisson",
    },
];

/// How busy the plain drive may be, in percent.
pub const BUSY_PERCENT: f64 = 5.0;
/// Requests that `--quick` takes.
const QUICK_REQUESTS: usize = 4000;
/// Sectors that no workload here reaches.
const FAR: u64 = 1 << 40;

/// A trace as it is replayed.
pub struct Replayed {
    /// What it stands for.
    pub of: &'static Substitute,
    /// Its file's name, or that it is a stand-in.
    pub name: String,
    /// Whether it was generated.
    pub generated: bool,
    /// Its requests as they are.
    pub requests: Arc<[Request]>,
    /// Bands of the drive that just holds its span.
    pub bands: u64,
    /// By what its times are stretched: the least power of ten that keeps the plain drive under `BUSY_PERCENT`.
    pub stretch: f64,
    /// How busy the plain drive is then, at the fill where it is busiest, in percent.
    pub busy_percent: f64,
}

impl Replayed {
    /// Its requests, addresses taken modulo the share of the space in use.
    pub fn folded(&self, fill: u64) -> Arc<[Request]> {
        let span = self.bands * N * TRACK_SECTORS * fill / 100;
        let fold = |request: &Request| {
            let sectors = request.sectors.min(u32::try_from(span).unwrap_or(u32::MAX));
            Request { lba: Lba((request.lba.0 % span).min(span - u64::from(sectors))), sectors, ..*request }
        };
        self.requests.iter().map(fold).collect()
    }
}

/// All three, read or generated, with their drives and stretches.
pub fn all(scale: &Scale) -> Result<Vec<Replayed>, Error> {
    SUBSTITUTES.iter().map(|of| replayed(of, scale)).collect()
}

fn replayed(of: &'static Substitute, scale: &Scale) -> Result<Replayed, Error> {
    let trace = scale.traces.get(of.file)?;
    let mut requests = match &trace {
        Some(trace) => taken(&mut trace.with_volumes()?)?,
        None => taken(Workload::parse(of.workload)?.source(FAR, scale.seed)?.as_mut())?,
    };
    requests.sort_by_key(|request| request.time);
    if scale.quick {
        requests.truncate(QUICK_REQUESTS);
    }
    let end = requests.iter().map(|request| request.end().0).max().unwrap_or(1);
    // A quarter of the space ends with a band of each scheme's groups.
    let bands = end.div_ceil(N * TRACK_SECTORS).next_multiple_of(12);
    let mut replayed = Replayed {
        of,
        name: if trace.is_some() { of.file.into() } else { "a stand-in".into() },
        generated: trace.is_none(),
        requests: requests.into(),
        bands,
        stretch: 1.0,
        busy_percent: 0.0,
    };
    loop {
        replayed.busy_percent = plain_busy_percent(&replayed, scale.seed)?;
        if replayed.busy_percent < BUSY_PERCENT || replayed.stretch > 1e8 {
            return Ok(replayed);
        }
        replayed.stretch *= 10.0;
    }
}

/// The busiest of the fills.
fn plain_busy_percent(trace: &Replayed, seed: u64) -> Result<f64, Error> {
    let drive = drive(trace.bands)?;
    let mut most = 0f64;
    for fill in FILLS {
        let plan = Plan::replay(&drive, "in-place", trace.folded(fill), seed).open_arrivals(trace.stretch);
        let outcome = plan.outcome(&mut NoObserver)?;
        most = most.max(100.0 * outcome.busy_ns as f64 / outcome.elapsed_ns.max(1) as f64);
    }
    Ok(most)
}

fn taken(source: &mut dyn Source) -> Result<Vec<Request>, Error> {
    let (mut requests, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(requests);
        }
        requests.extend_from_slice(&batch);
    }
}
