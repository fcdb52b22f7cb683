//! The content hash of a run: equal for equal runs, on any machine. The version that made an outcome is no part of it; a store of
//! outcomes keys on both.

use std::fmt::Debug;

use hmac_sha256::Hash;

use super::outcome::RunRecord;
use super::replayed::Replayed;
use crate::request::{Op, Request};
use crate::settings::Settings;

/// The SHA-256 of what was run, under which settings (the seed among them), on which requests; `None` where the requests are
/// nothing that can be told apart: from a source that has no hash.
pub(crate) fn run_hash(run: &RunRecord, settings: &Settings, demand: &Replayed) -> Option<String> {
    // Every field is named, so that none is forgotten.
    let RunRecord { hash: _, system, used_sectors, drive_files, rebuild, window_ns } = run;
    Some(hash(&(system, used_sectors, drive_files, rebuild, window_ns, settings, requests(demand)?)))
}

/// Properties by which requests differ from others: neither where a trace lies nor what was found in it.
fn requests(demand: &Replayed) -> Option<impl Debug> {
    let Replayed { trace, trace_sha256, trace_format: _, trace_reading, trace_notes: _, .. } = demand;
    let Replayed { requests_sha256, workload, workload_sectors, sources, interleave, .. } = demand;
    let is_known = match sources {
        None => trace_sha256.is_some() || trace.is_none() && (workload.is_some() || requests_sha256.is_some()),
        Some(sources) => {
            sources.iter().all(|one| one.sha256.is_some() || one.trace.is_none() && one.workload.is_some())
        }
    };
    let sources = sources.iter().flatten().map(|one| (&one.sha256, &one.workload, one.sectors, one.first_lba));
    let (sources, interleave): (Vec<_>, _) = (sources.collect(), interleave.map(|rule| rule.to_string()));
    is_known.then_some((trace_sha256, trace_reading, requests_sha256, workload, workload_sectors, sources, interleave))
}

/// The SHA-256 of requests in memory.
pub(crate) fn requests_hash(requests: &[Request]) -> String {
    let mut hash = Hash::new();
    for Request { time, lba, sectors, volume, op, source } in requests {
        let op = [Op::Read, Op::Write, Op::Flush, Op::Discard].iter().position(|known| known == op).unwrap_or(0);
        hash.update(time.0.to_le_bytes());
        hash.update(lba.0.to_le_bytes());
        hash.update(sectors.to_le_bytes());
        hash.update(volume.to_le_bytes());
        hash.update([op as u8, *source]);
    }
    hex(&hash.finalize())
}

/// The SHA-256 of a value's text, which has every field.
fn hash(value: &impl Debug) -> String {
    hex(&Hash::hash(format!("{value:?}").as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
