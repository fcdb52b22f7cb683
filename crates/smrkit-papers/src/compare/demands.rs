//! Demands on every scheme: four workloads and six real traces, on the same LBAs, repeated until the disk is in its
//! steady state; flat out, or in bursts with pauses between them.

use std::sync::Arc;

use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Opening};
use smrkit::request::{Op, Request, Source};
use smrkit::units::{Nanos, SECTOR_BYTES};
use smrkit::workload::Workload;

use super::super::requests::folded;
use crate::Scale;

/// A demand: what it is called, and where its requests come from.
enum From {
    Workload(&'static str),
    Trace(&'static str),
}

/// Every demand.
const DEMANDS: [(&str, From); 10] = [
    ("desktop", From::Workload("desktop")),
    ("random", From::Workload("random-write:count=260k")),
    ("hot-cold", From::Workload("hot-cold:count=260k,write_share=0.5,hot_share=5%,hot_access_share=90%")),
    ("backup", From::Workload("backup:count=8k,metadata_area=64Mi")),
    ("hm_0", From::Trace("msr_hm_0_cut7016")),
    ("web_3", From::Trace("msr_web_3")),
    ("financial1", From::Trace("spc_financial1_first10k")),
    ("cloudphysics", From::Trace("cloudphysics_sample")),
    ("tencent", From::Trace("tencent_cbs_sample")),
    ("hplajw", From::Trace("hp_hplajw_1week_1992")),
];

/// Requests that are counted of a demand at most, and for `--quick`.
const COUNTED: (usize, usize) = (20_000, 2000);
/// The warm-up writes this many times what the schemes keep from the host (assumption: caches are full after one).
const TIMES_SPARE: (u64, u64) = (2, 0);
/// Requests of the warm-up at most: a demand that hardly writes fills no cache in any time.
const WARMUP_MAX: usize = 260_000;
/// Requests of a burst, the time between them, and the pause behind it (assumptions): a light load, and pauses in which a disk
/// can clean up what a burst left.
const BURST: (usize, u64, u64) = (200, 200_000_000, 600_000_000_000);

/// A demand that is ready to run.
pub struct AskedDemand {
    /// Its name.
    pub name: &'static str,
    /// Its requests: the warm-up, then those that are counted.
    pub requests: Arc<[Request]>,
    /// Number of them that belong to the warm-up.
    pub warmup: u64,
}

/// The demands that are at hand, on `span` sectors of which the schemes keep `spare`.
pub fn all(scale: &Scale, span: u64, spare: u64) -> Result<Vec<AskedDemand>, Error> {
    let mut all = Vec::new();
    for (name, from) in &DEMANDS {
        let Some(once) = once(scale, from, span)? else { continue };
        let counted = once.len().min(scale.pick(COUNTED.0, COUNTED.1));
        let requests = repeated(&once, counted, spare * scale.pick(TIMES_SPARE.0, TIMES_SPARE.1));
        let warmup = (requests.len() - counted) as u64;
        all.push(AskedDemand { name, requests: timed(requests), warmup });
    }
    Ok(all)
}

/// The names of the traces that are missing.
pub fn missing(scale: &Scale) -> Result<Vec<&'static str>, Error> {
    let mut missing = Vec::new();
    for (name, from) in &DEMANDS {
        if let From::Trace(file) = from
            && scale.traces.get(file)?.is_none()
        {
            missing.push(*name);
        }
    }
    Ok(missing)
}

/// The requests of a demand, once; none where its trace is not at hand.
fn once(scale: &Scale, from: &From, span: u64) -> Result<Option<Vec<Request>>, Error> {
    let requests = match from {
        From::Workload(text) => Workload::parse(text)?.source(span, scale.seed)?.rest()?,
        From::Trace(file) => match scale.traces.get(file)? {
            Some(trace) => trace.open(&Opening::new(span, scale.seed))?.rest()?,
            None => return Ok(None),
        },
    };
    let asked = requests.iter().filter(|request| matches!(request.op, Op::Read | Op::Write));
    Ok(Some(asked.map(|request| Request { volume: 0, ..folded(request, span) }).collect()))
}

/// The demand, repeated until `sectors` have been written before its last `counted` requests, or it is too long; of a long
/// demand the end.
fn repeated(once: &[Request], counted: usize, sectors: u64) -> Vec<Request> {
    let (mut written, mut backwards) = (0, Vec::new());
    for request in once.iter().rev().cycle() {
        let before = backwards.len().saturating_sub(counted);
        let whole = before >= once.len() && written == 0;
        if backwards.len() >= counted && (written >= sectors || before >= WARMUP_MAX || whole) {
            break;
        }
        if backwards.len() >= counted && request.op == Op::Write {
            written += u64::from(request.sectors);
        }
        backwards.push(*request);
    }
    backwards.reverse();
    backwards
}

/// The requests in bursts; flat out, times are not looked at.
fn timed(mut requests: Vec<Request>) -> Arc<[Request]> {
    let (burst, between, pause) = BURST;
    for (i, request) in requests.iter_mut().enumerate() {
        request.time = Nanos(i as u64 * between + (i / burst) as u64 * pause);
    }
    requests.into()
}

/// Text on the bursts.
pub fn about_idle() -> String {
    let (burst, between, pause) = BURST;
    format!(
        "bursts of {burst} requests {} ms apart, whether or not those before are done, and {} s between bursts",
        between / 1_000_000,
        pause / 1_000_000_000
    )
}

/// Bytes of this many sectors, in GB.
pub fn gb(sectors: u64) -> f64 {
    (sectors * SECTOR_BYTES) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_told_in_bytes_of_a_disk_as_sold() {
        assert_eq!([0, 1_000_000, 9_767_541_168].map(gb), [0.0, 0.512, 5000.981078016]);
    }

    #[test]
    fn the_volumes_of_a_trace_lie_on_one_disk() {
        let folder = tempfile::tempdir().unwrap();
        let rows = "128166372003061629,hm,0,Read,0,4096,1\n128166372003061639,hm,1,Write,4096,4096,1\n";
        std::fs::write(folder.path().join("two.csv"), rows).unwrap();
        let traces = crate::traces::Traces::find(Some(folder.path())).unwrap();
        let requests = once(&Scale { quick: true, seed: 1, traces }, &From::Trace("two"), 1000).unwrap().unwrap();
        let shown: Vec<_> = requests.iter().map(|request| (request.volume, request.op, request.sectors)).collect();
        assert_eq!(shown, [(0, Op::Read, 8), (0, Op::Write, 8)]);
    }

    #[test]
    fn a_demand_is_repeated_until_enough_is_written() {
        let op = |at: u64| if at.is_multiple_of(2) { Op::Write } else { Op::Read };
        let once: Vec<Request> = (0..10).map(|at| Request::new(op(at), smrkit::units::Lba(at), 8)).collect();
        // Six are counted; of those before them five write 40 sectors, then 8 more of an earlier pass.
        let lbas = |sectors| repeated(&once, 6, sectors).iter().map(|request| request.lba.0).collect::<Vec<_>>();
        assert_eq!(lbas(0), [4, 5, 6, 7, 8, 9]);
        assert_eq!(lbas(16), (0..10).collect::<Vec<_>>());
        assert_eq!(lbas(24), [8, 9].into_iter().chain(0..10).collect::<Vec<_>>());
        let reads = [Request::new(Op::Read, smrkit::units::Lba(0), 8)];
        assert_eq!(repeated(&reads, 1, 8).len(), 2, "what never writes is repeated once");
    }
}
