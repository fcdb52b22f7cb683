//! The content hash of a run: equal for equal runs, on any machine and wherever their files lie. The version that made an outcome
//! is no part of it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use hmac_sha256::Hash;

use crate::device::spec::MemberSpec;
use crate::drive::chosen_ends;
use crate::request::{Op, Request};
use crate::settings::Settings;
use crate::stats::builder::OutcomeBuilder;
use crate::stats::outcome::{Replayed, RunRecord, TraceReading};

/// The run with its content hash.
pub(super) fn hashed(mut run: OutcomeBuilder) -> OutcomeBuilder {
    run.asked.run.hash = run_hash(&run.asked.run, &run.asked.engine, &run.replayed);
    run
}

/// The SHA-256 of what was run, under which settings (the seed among them), on which requests; `None` where the requests are
/// nothing that can be told apart: from a source that has no hash.
pub(super) fn run_hash(run: &RunRecord, settings: &Settings, demand: &Replayed) -> Option<String> {
    // Every field is named, so that none is forgotten.
    let RunRecord { hash: _, system, used_sectors, drive_files, rebuild, window_ns, from_state } = run;
    let system = named_by_text(MemberSpec::parse(system).ok()?, drive_files).to_string();
    let rebuild = rebuild.map(String::from);
    let run = (system, used_sectors, rebuild, window_ns, settings, requests(demand)?);
    Some(match from_state {
        Some(state) => hash(&(run, state)),
        None => hash(&run),
    })
}

/// The system with the hash of its text in place of each drive file's path.
fn named_by_text(system: MemberSpec, files: &BTreeMap<String, String>) -> MemberSpec {
    match system {
        MemberSpec::Drive(mut drive) => {
            let text_of = |path: &String| Some(hex(&Hash::hash(files.get(path)?.as_bytes())) + chosen_ends(path));
            drive.drive = drive.drive.map(|name| text_of(&name).unwrap_or(name));
            MemberSpec::Drive(drive)
        }
        MemberSpec::Array(mut array) => {
            array.members = array.members.into_iter().map(|member| named_by_text(member, files)).collect();
            MemberSpec::Array(array)
        }
    }
}

/// Way in which a trace was read: its format, named or recognised, and what was taken of it.
fn reading(format: &Option<String>, reading: &Option<TraceReading>) -> Option<impl Debug> {
    let TraceReading { volume, format: asked, skip_bad_rows } = reading.as_ref()?;
    // A name alone asks for what is recognised without it; what follows a colon does not.
    let asked = asked.as_deref().filter(|asked| asked.contains(':'));
    let recognised = format.as_deref().and_then(|format| format.split(" (").next());
    Some((asked.or(recognised).map(str::to_string), volume.clone(), *skip_bad_rows))
}

/// Properties by which requests differ from others: neither where a trace lies nor what was found in it.
fn requests(demand: &Replayed) -> Option<impl Debug> {
    let Replayed { trace, trace_sha256, trace_format, trace_reading, trace_notes: _, .. } = demand;
    let Replayed { requests_sha256, workload, workload_sectors, sources, interleave, .. } = demand;
    let is_known = match sources {
        None => trace_sha256.is_some() || trace.is_none() && (workload.is_some() || requests_sha256.is_some()),
        Some(sources) => {
            sources.iter().all(|one| one.sha256.is_some() || one.trace.is_none() && one.workload.is_some())
        }
    };
    let sources = sources.iter().flatten().map(|one| {
        let reading = reading(&one.trace_format, &one.trace_reading);
        (&one.sha256, reading, &one.workload, one.sectors, one.first_lba)
    });
    let (sources, reading): (Vec<_>, _) = (sources.collect(), reading(trace_format, trace_reading));
    let interleave = interleave.map(|rule| rule.to_string());
    is_known.then_some((trace_sha256, reading, requests_sha256, workload, workload_sectors, sources, interleave))
}

/// The SHA-256 of requests in memory.
pub(super) fn requests_hash(requests: &[Request]) -> String {
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
