//! What is replayed: a trace file or a workload, opened anew for each run.

use std::path::PathBuf;

use smrkit::error::Error;
use smrkit::request::Source;
use smrkit::stats::outcome::Outcome;
use smrkit::trace::{Laid, OpenOptions, VolumeChoice, VolumeTable, scan};
use smrkit::workload::Workload;

/// A trace or a workload.
pub enum Input {
    /// A trace file.
    Trace(TraceInput),
    /// A generated workload.
    Workload(Workload),
}

/// A trace file, and how to read it.
pub struct TraceInput {
    pub path: PathBuf,
    pub options: OpenOptions,
    pub volumes: VolumeChoice,
    /// What a scan found, where one was needed.
    pub table: Option<VolumeTable>,
}

impl TraceInput {
    /// Reads the whole trace for its volumes, once.
    pub fn scan(&mut self) -> Result<&VolumeTable, Error> {
        if self.path.as_os_str() == "-" {
            let message = "the trace must be read twice, which standard input can't be: save it to a file";
            return Err(Error::input(&self.path, message));
        }
        if self.table.is_none() {
            let options = OpenOptions { sha256: false, ..self.options.clone() };
            self.table = Some(scan(&self.path, &options)?);
        }
        Ok(self.table.as_ref().expect("scanned above"))
    }

    /// The end of what the trace uses, in sectors: the size of the smallest disk that holds it.
    pub fn footprint_end(&mut self) -> Result<u64, Error> {
        let (path, volumes) = (self.path.clone(), self.volumes);
        let table = self.scan()?;
        match volumes {
            VolumeChoice::All if table.volumes.len() > 1 => Ok(table.end_to_end(&path)?.1.0),
            VolumeChoice::All => Ok(table.volumes.iter().map(|used| used.end.0).max().unwrap_or(0)),
            VolumeChoice::Number(number) => {
                let of_volume = table.volumes.iter().filter(|used| used.volume.number == number);
                of_volume.map(|used| used.end.0).max().ok_or_else(|| {
                    Error::input(&path, format!("no volume {number}: smrkit trace info lists the volumes"))
                })
            }
        }
    }

    fn open(&self) -> Result<Laid, Error> {
        match (&self.table, self.volumes) {
            (Some(table), VolumeChoice::All) if table.volumes.len() > 1 => {
                Laid::with_table(&self.path, &self.options, table)
            }
            _ => Laid::open(&self.path, &self.options, self.volumes),
        }
    }
}

/// An input opened for one run.
pub enum Opened {
    Trace(Box<Laid>),
    Workload(Box<dyn Source>),
}

impl Input {
    /// Opens it for a device of `host_sectors`.
    pub fn open(&self, host_sectors: u64, seed: u64) -> Result<Opened, Error> {
        match self {
            Input::Trace(trace) => Ok(Opened::Trace(Box::new(trace.open()?))),
            Input::Workload(workload) => Ok(Opened::Workload(workload.source(host_sectors, seed)?)),
        }
    }

    /// Refuses a trace that was replayed by its times, but has rows before its first one: they count as simultaneous
    /// with it, which hides the disorder from the engine.
    pub fn refuse_disorder(&self, opened: &Opened) -> Result<(), Error> {
        let (Input::Trace(input), Opened::Trace(laid)) = (self, opened) else { return Ok(()) };
        let Some(line) = laid.trace().first_out_of_order() else { return Ok(()) };
        if input.volumes != VolumeChoice::All {
            // The row may belong to another volume.
            return Ok(());
        }
        let message = format!(
            "row {line} has a time before the first one, so the trace can't be replayed by its times: use --arrival \
             flat-out, or put the rows in order with smrkit trace convert --sort"
        );
        Err(Error::input(&input.path, message))
    }

    /// Notes in an outcome what was replayed.
    pub fn describe(&self, opened: &Opened, outcome: &mut Outcome) {
        match (self, opened) {
            (Input::Trace(input), Opened::Trace(laid)) => {
                let trace = laid.trace();
                outcome.trace = Some(input.path.display().to_string());
                outcome.trace_format = Some(match trace.detail() {
                    Some(detail) => format!("{} ({detail})", trace.format()),
                    None => trace.format().into(),
                });
                outcome.trace_sha256 = trace.sha256();
                outcome.trace_notes = trace.notes();
            }
            (Input::Workload(workload), _) => outcome.workload = Some(workload.to_string()),
            (Input::Trace(_), Opened::Workload(_)) => unreachable!("a trace opens as a trace"),
        }
    }
}

impl Opened {
    /// The stream of requests.
    pub fn source(&mut self) -> &mut dyn Source {
        match self {
            Opened::Trace(laid) => laid.as_mut(),
            Opened::Workload(source) => source.as_mut(),
        }
    }
}
