//! The readers' tests: what each format gives, what is wrong with a file, real traces, and arbitrary bytes.

mod bad_input;
mod files;
mod formats;
#[path = "../../../smrkit/tests/common/kept_text.rs"]
mod kept_text;
mod layout;
mod random;
mod real;
mod spoilt;

use std::path::{Path, PathBuf};

use super::*;
use smrkit::error::Error;
use smrkit::request::{Op, Request, Source};

/// The project's own small traces.
fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces").join(name)
}

/// The folder of real traces that SMRKIT_TRACES names, or one above this crate; none prints why.
fn shared() -> Option<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let given = std::env::var_os("SMRKIT_TRACES").map(PathBuf::from);
    let found = given.into_iter().chain(here.ancestors().map(|dir| dir.join("shared/traces"))).find(|d| d.is_dir());
    if found.is_none() {
        println!("skipped: no shared/traces above this crate, and SMRKIT_TRACES is not set");
    }
    found
}

pub(crate) fn forced(format: &str) -> OpenOptions {
    OpenOptions { format: Some(format.into()), ..OpenOptions::default() }
}

fn skipping() -> OpenOptions {
    OpenOptions { skip_bad_rows: true, ..OpenOptions::default() }
}

/// All requests of a source.
pub(crate) fn drain(source: &mut impl Source) -> Result<Vec<Request>, Error> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&batch);
    }
}

/// Opens and reads bytes in memory.
pub(crate) fn read(bytes: &[u8], options: &OpenOptions) -> Result<(Trace, Vec<Request>), Error> {
    let mut trace = Trace::from_bytes("t", bytes.to_vec(), options)?;
    let all = drain(&mut trace)?;
    Ok((trace, all))
}

/// The message on bytes that are refused.
pub(crate) fn refused(bytes: &[u8], options: &OpenOptions) -> String {
    read(bytes, options).map(|(_, all)| all).unwrap_err().to_string()
}

/// A request as `ns op lba+sectors@volume`.
pub(crate) fn shown(requests: &[Request]) -> Vec<String> {
    let one = |r: &Request| {
        let op = match r.op {
            Op::Read => 'R',
            Op::Write => 'W',
            Op::Flush => 'F',
            Op::Discard => 'D',
        };
        format!("{} {op} {}+{}@{}", r.time.0, r.lba, r.sectors, r.volume)
    };
    requests.iter().map(one).collect()
}

pub(crate) fn names(trace: &Trace) -> Vec<String> {
    trace.volumes().iter().map(|v| format!("{}={}", v.number, v.name)).collect()
}

/// A record of a vscsi trace, version 1 or 2.
fn vscsi(version: u8, command: u16, length: u32, lba: u64, us: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let ver = u16::from(version) << 8;
    let (sn, segments) = (7_u32.to_le_bytes(), 1_u32.to_le_bytes());
    if version == 2 {
        out.extend([command.to_le_bytes(), ver.to_le_bytes()].concat());
        out.extend([sn, length.to_le_bytes(), segments].concat());
    } else {
        out.extend([sn, length.to_le_bytes(), segments].concat());
        out.extend([command.to_le_bytes(), ver.to_le_bytes()].concat());
    }
    out.extend([lba.to_le_bytes(), us.to_le_bytes()].concat());
    if version == 2 {
        out.extend(250_u64.to_le_bytes());
    }
    out
}

/// A record of a binary blktrace of the disk 8,16.
pub(crate) fn blktrace_record(ns: u64, sector: u64, bytes: u32, action: u32, payload: &[u8]) -> Vec<u8> {
    let (magic, sequence, [pid, cpu]) = (0x6561_7407_u32, 0_u32, [4162_u32, 0]);
    let mut out = [magic.to_le_bytes(), sequence.to_le_bytes()].concat();
    out.extend([ns.to_le_bytes(), sector.to_le_bytes()].concat());
    out.extend([bytes, action, pid, 8 << 20 | 16, cpu].map(u32::to_le_bytes).concat());
    out.extend([0, payload.len() as u16].map(u16::to_le_bytes).concat());
    out.extend(payload);
    out
}

/// A record of an SRT trace.
fn srt(version: u32, kind: u32, us: u32, bytes: u32, block: u32, disk: u32, flags: u32) -> Vec<u8> {
    let mut words = vec![0, version << 16 | kind, 5, us, 0, 0, bytes, block, disk << 8, 1, 1, flags, 0];
    if version == 4 {
        words.push(3);
    }
    if kind == 4 {
        words.push(9);
    }
    words[0] = 4 * words.len() as u32;
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}
