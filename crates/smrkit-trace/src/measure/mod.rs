//! Measurements of a real drive: fio's job, its logs, and the fit of a drive file to them.
//!
//! The job is a table of phases with one command outstanding, so that every latency is the time of one command. Each phase isolates one
//! mechanism; `fit` says which.

mod fit;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use smrkit::error::Error;

pub use fit::{Fit, Fitted, Kind, Residual};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The span of reads near each other: too long for read-ahead to hold many of them.
const NEAR: u64 = GIB;

/// One section of the job.
#[derive(Clone, Copy, Debug)]
struct Phase {
    /// Name of the section, and prefix of its log's name.
    name: &'static str,
    /// fio's `rw`; `randwrite:N` makes runs of N blocks at random places.
    rw: &'static str,
    block: u64,
    /// True if every write is on the platters before it completes.
    is_durable: bool,
    /// Where the phase's part of the disk begins, in percent of the disk.
    from_percent: u64,
    /// Bytes of this part; without a span, it goes to the end of the disk.
    span: Option<u64>,
    /// The phase ends after this many blocks, if given, or after `seconds`.
    blocks: Option<u64>,
    seconds: u64,
    /// Idle seconds before it.
    rest_s: u64,
}

const READ: Phase = Phase {
    name: "fall",
    rw: "read",
    block: MIB,
    is_durable: false,
    from_percent: 0,
    span: None,
    blocks: None,
    seconds: 20,
    rest_s: 0,
};
const WRITE: Phase = Phase { rw: "write", ..READ };
const SMALL: Phase = Phase { rw: "randwrite", block: 4 * KIB, ..READ };
/// Chunks near each other: they are in few bands, which a drive cleans in the rest that follows.
const CHUNK: Phase =
    Phase { rw: "randwrite", is_durable: true, from_percent: 70, span: Some(GIB), seconds: 60, ..READ };

/// The phases, in the order of the job. A rest lets the drive clean data of the phases before.
const PHASES: [Phase; 20] = [
    Phase { name: "read-outer", ..READ },
    Phase { name: "read-inner", from_percent: 95, ..READ },
    Phase { name: "read-near", rw: "randread", from_percent: 50, span: Some(NEAR), blocks: Some(2000), ..SMALL },
    Phase { name: "read-far", rw: "randread", blocks: Some(2000), seconds: 60, ..SMALL },
    Phase {
        name: "write-near",
        is_durable: true,
        from_percent: 50,
        span: Some(32 * MIB),
        blocks: Some(6000),
        seconds: 180,
        ..SMALL
    },
    Phase { name: "read-back", block: 256 * KIB, from_percent: 50, span: Some(32 * MIB), rest_s: 60, ..READ },
    Phase { name: "write-far", is_durable: true, blocks: Some(250), ..SMALL },
    Phase { name: "chunk-256k", block: 256 * KIB, blocks: Some(200), ..CHUNK },
    Phase { name: "chunk-1m", blocks: Some(800), ..CHUNK },
    Phase { name: "chunk-4m", block: 4 * MIB, blocks: Some(40), ..CHUNK },
    Phase { name: "chunk-16m", block: 16 * MIB, blocks: Some(16), ..CHUNK },
    Phase { name: "chunk-64m", block: 64 * MIB, blocks: Some(6), ..CHUNK },
    Phase { name: "stream", from_percent: 20, ..WRITE },
    Phase { name: "runs-4m", rw: "randwrite:4", blocks: Some(200), ..WRITE },
    Phase { name: "runs-16m", rw: "randwrite:16", blocks: Some(640), ..WRITE },
    Phase { name: "runs-64m", rw: "randwrite:64", blocks: Some(1280), ..WRITE },
    Phase { name: "order-1m", is_durable: true, from_percent: 10, seconds: 420, rest_s: 240, ..WRITE },
    Phase {
        name: "order-16m",
        block: 16 * MIB,
        is_durable: true,
        from_percent: 30,
        seconds: 600,
        rest_s: 300,
        ..WRITE
    },
    Phase { name: "fall", seconds: 1320, rest_s: 600, ..SMALL },
    Phase { name: "again", seconds: 240, rest_s: 300, ..SMALL },
];

/// Ending of the names of fio's logs of latencies.
const LOG: &str = "_lat.log";

/// The longest time of the job, in seconds.
pub fn longest_s() -> u64 {
    PHASES.iter().map(|phase| phase.rest_s + phase.seconds).sum()
}

/// fio's job file for the disk or file at `target`. It writes its logs to the working directory.
pub fn job(target: &str) -> String {
    // One command at a time (psync); logs with the place of each command (log_offset), and no number in their names (per_job_logs).
    let mut text = format!(
        "; Measures a disk. Everything on it is destroyed. Run by fio, the job leaves logs that `smrkit drives fit` reads.\n\
         [global]\nfilename={target}\nioengine=psync\ndirect=1\nrandrepeat=0\nnorandommap\nstonewall\n\
         write_lat_log\nper_job_logs=0\nlog_offset=1\ndisable_slat=1\ndisable_clat=1\n"
    );
    for phase in &PHASES {
        let Phase { name, rw, block, from_percent, seconds, .. } = phase;
        text += &format!("\n[{name}]\nrw={rw}\nbs={}k\noffset={from_percent}%\nruntime={seconds}\n", block / KIB);
        let mut add = |key: &str, value: Option<u64>| text += &value.map_or(String::new(), |n| format!("{key}={n}\n"));
        add("size", phase.span);
        add("number_ios", phase.blocks);
        add("sync", phase.is_durable.then_some(1));
        if phase.rest_s > 0 {
            text += &format!("exec_prerun=sleep {}\n", phase.rest_s);
        }
    }
    text
}

/// A command of a log: its latency, length and place.
#[derive(Clone, Copy, Debug)]
struct Row {
    seconds: f64,
    bytes: f64,
    offset: f64,
}

/// The logs of the job, by phase.
#[derive(Debug, Default)]
pub struct Logs(BTreeMap<&'static str, Vec<Row>>);

impl Logs {
    /// Reads the logs in `paths`, which are files and folders. A file with another name is an error.
    pub fn read(paths: &[PathBuf]) -> Result<Logs, Error> {
        let mut logs = Logs::default();
        for path in paths {
            if path.is_dir() {
                for phase in &PHASES {
                    let log = path.join(format!("{}{LOG}", phase.name));
                    if log.exists() {
                        logs.add_file(phase, &log)?;
                    }
                }
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let phase = PHASES.iter().find(|phase| name.strip_suffix(LOG) == Some(phase.name));
            let remedy = "not a log of the job that measures drives: give the folder in which fio ran it";
            logs.add_file(phase.ok_or_else(|| Error::input(path, remedy))?, path)?;
        }
        match logs.0.is_empty() {
            false => Ok(logs),
            true => {
                let remedy = format!("no logs: give the folder in which fio ran the job, with {}{LOG}", PHASES[0].name);
                Err(Error::input(paths.first().map_or(Path::new("."), PathBuf::as_path), remedy))
            }
        }
    }

    fn add_file(&mut self, phase: &Phase, path: &Path) -> Result<(), Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::reading(path, error))?;
        self.add(phase, &text).map_err(|line| {
            let remedy = "expected time, latency, direction, bytes, offset: run the job as it was printed";
            Error::at_line(path, line, None, remedy)
        })
    }

    /// Adds a log: a command a line, as "time in ms, latency in ns, direction, bytes, offset, priority". Errors: the number of a bad line.
    fn add(&mut self, phase: &Phase, text: &str) -> Result<(), u64> {
        let rows = (1u64..).zip(text.lines()).map(|(number, line)| {
            let mut columns = line.split(',').map(|column| column.trim().parse::<f64>().ok());
            let mut next = || columns.next().flatten().filter(|value| *value >= 0.0).ok_or(number);
            let [_, latency_ns, _, bytes, offset] = [next()?, next()?, next()?, next()?, next()?];
            Ok(Row { seconds: latency_ns / 1e9, bytes, offset })
        });
        self.0.insert(phase.name, rows.collect::<Result<_, u64>>()?);
        Ok(())
    }

    /// The commands of a phase; none if its log is missing.
    fn rows(&self, name: &'static str) -> &[Row] {
        debug_assert!(PHASES.iter().any(|phase| phase.name == name), "{name}");
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Seconds of rest before a phase.
fn rest_s(name: &str) -> f64 {
    PHASES.iter().find(|phase| phase.name == name).map_or(0.0, |phase| phase.rest_s as f64)
}
