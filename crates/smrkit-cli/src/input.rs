//! What is replayed: a trace file, a workload, or several merged; opened anew for each run.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use smrkit::error::Error;
use smrkit::interleave::{Interleaved, Placement};
use smrkit::request::{Progress, Request, Source};
use smrkit::stats::outcome::{Replayed, TraceReading};
use smrkit::workload::Workload;
use smrkit_trace::{Laid, OpenOptions, VolumeChoice, VolumeTable, scan};
use tempfile::TempDir;

use crate::merged::Merged;

/// A trace, a workload, or several of them.
pub enum Input {
    /// A trace file.
    Trace(Box<TraceInput>),
    /// A generated workload, and the sectors that it takes for the disk's size: the least that a layer of the comparison
    /// offers, unless set.
    Workload(Workload, Option<u64>),
    /// Several, merged into one stream.
    Merged(Box<Merged>),
}

/// A trace file, and how to read it.
pub struct TraceInput {
    /// The path that was given.
    name: PathBuf,
    /// Where it is read: a copy, where what was given can be read only once.
    path: PathBuf,
    options: OpenOptions,
    volumes: VolumeChoice,
    /// What a scan found, where one was needed; one thread scans, the others wait.
    table: OnceLock<VolumeTable>,
    scanning: Mutex<()>,
    _copy: Option<TempDir>,
}

impl TraceInput {
    /// A trace at `name`. Standard input and pipes are copied to a temporary file first: every run reads the trace.
    pub fn new(name: &Path, options: OpenOptions, volumes: VolumeChoice) -> Result<TraceInput, Error> {
        let is_stdin = name.as_os_str() == "-";
        let is_pipe = is_stdin || std::fs::metadata(name).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
        let (path, copy) = match is_pipe {
            false => (name.to_path_buf(), None),
            true => copied(name, is_stdin)?,
        };
        Ok(TraceInput {
            name: name.into(),
            path,
            options,
            volumes,
            table: OnceLock::new(),
            scanning: Mutex::new(()),
            _copy: copy,
        })
    }

    /// Reads the whole trace for its volumes, once.
    fn table(&self) -> Result<&VolumeTable, Error> {
        let _alone = self.scanning.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let options = OpenOptions { sha256: false, ..self.options.clone() };
        let table = scan(&self.path, &options).map_err(|error| self.named(error))?;
        Ok(self.table.get_or_init(|| table))
    }

    /// The end of what the trace uses, in sectors: the size of the smallest disk that holds it.
    pub fn footprint_end(&self) -> Result<u64, Error> {
        let table = self.table()?;
        match self.volumes {
            VolumeChoice::All if table.volumes.len() > 1 => Ok(table.end_to_end(&self.name)?.1.0),
            VolumeChoice::All => Ok(table.volumes.iter().map(|used| used.end.0).max().unwrap_or(0)),
            VolumeChoice::Number(number) => {
                let of_volume = table.volumes.iter().filter(|used| used.volume.number == number);
                of_volume.map(|used| used.end.0).max().ok_or_else(|| {
                    Error::input(&self.name, format!("no volume {number}: smrkit trace info lists the volumes"))
                })
            }
        }
    }

    /// How many requests the trace has.
    pub fn requests(&self) -> Result<u64, Error> {
        let table = self.table()?;
        Ok(match self.volumes {
            VolumeChoice::All => table.requests,
            VolumeChoice::Number(number) => {
                table.volumes.iter().filter(|used| used.volume.number == number).map(|used| used.requests).sum()
            }
        })
    }

    /// Opens it for one run; `hash` asks for its SHA-256.
    pub fn open(&self, hash: bool) -> Result<Laid, Error> {
        let options = OpenOptions { sha256: hash, ..self.options.clone() };
        let laid = match (self.table.get(), self.volumes) {
            (Some(table), VolumeChoice::All) if table.volumes.len() > 1 => {
                Laid::with_table(&self.path, &options, table)
            }
            _ => Laid::open(&self.path, &options, self.volumes),
        };
        laid.map_err(|error| self.named(error))
    }

    /// An error about the copy of a pipe names what was given.
    fn named(&self, mut error: Error) -> Error {
        let path = match &mut error {
            Error::Input(bad) => &mut bad.path,
            Error::NoRoom(request) => &mut request.path,
            _ => return error,
        };
        if *path == self.path {
            path.clone_from(&self.name);
        }
        error
    }

    /// Looks for volumes that its beginning did not show: the answer to `Error::SecondVolume`.
    pub fn look_for_volumes(&self) -> Result<(), Error> {
        match self.volumes {
            VolumeChoice::All => self.table().map(|_| ()),
            VolumeChoice::Number(_) => Ok(()),
        }
    }

    fn reading(&self) -> TraceReading {
        TraceReading {
            volume: match self.volumes {
                VolumeChoice::All => "all".into(),
                VolumeChoice::Number(number) => number.to_string(),
            },
            format: self.options.format.clone(),
            skip_bad_rows: self.options.skip_bad_rows,
        }
    }
}

fn copied(name: &Path, is_stdin: bool) -> Result<(PathBuf, Option<TempDir>), Error> {
    let folder = tempfile::tempdir().map_err(|error| Error::writing(std::env::temp_dir(), error))?;
    let path = folder.path().join("standard-input");
    let mut file = File::create(&path).map_err(|error| Error::writing(&path, error))?;
    let reading = |error| Error::reading(name, error);
    let mut pipe: Box<dyn Read> = match is_stdin {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(name).map_err(reading)?),
    };
    let mut part = vec![0; 1 << 18];
    loop {
        match pipe.read(&mut part).map_err(reading)? {
            0 => return Ok((path, Some(folder))),
            n => file.write_all(&part[..n]).map_err(|error| Error::writing(&path, error))?,
        }
    }
}

/// An input opened for one run.
pub enum Opened {
    Trace(Box<Laid>),
    Workload(Box<dyn Source>, u64),
    Merged(Interleaved<Opened>),
}

impl Input {
    /// The smallest disk that holds it; `None` where a workload takes what there is.
    pub fn least_sectors(&self) -> Result<Option<u64>, Error> {
        match self {
            Input::Trace(trace) => trace.footprint_end().map(Some),
            // No trace, no need: workloads are told what there is.
            _ if self.traces().next().is_none() => Ok(None),
            Input::Workload(..) => Ok(None),
            Input::Merged(merged) => merged.least_sectors(),
        }
    }

    /// Opens it for devices of at least `host_sectors`; `hash` asks for the trace's SHA-256.
    pub fn open(&self, host_sectors: u64, seed: u64, hash: bool) -> Result<Opened, Error> {
        self.open_nth(host_sectors, seed, 0, hash)
    }

    /// The same; several sources lie as `placement` says, where it says anything.
    pub fn open_placed(
        &self,
        host_sectors: u64,
        seed: u64,
        hash: bool,
        placement: Option<Placement>,
    ) -> Result<Opened, Error> {
        match self {
            Input::Merged(merged) => merged.open(host_sectors, seed, hash, placement).map(Opened::Merged),
            one => one.open(host_sectors, seed, hash),
        }
    }

    /// The same for the n-th of several.
    pub fn open_nth(&self, host_sectors: u64, seed: u64, nth: u8, hash: bool) -> Result<Opened, Error> {
        match self {
            Input::Merged(merged) => merged.open(host_sectors, seed, hash, None).map(Opened::Merged),
            Input::Trace(trace) => Ok(Opened::Trace(Box::new(trace.open(hash)?))),
            Input::Workload(workload, span) => {
                let sectors = span.unwrap_or(host_sectors);
                Ok(Opened::Workload(workload.nth_source(sectors, seed, nth)?, sectors))
            }
        }
    }

    /// Refuses a trace that was replayed by its times, but has rows before its first one: they count as simultaneous
    /// with it, which hides the disorder from the engine.
    pub fn refuse_disorder(&self, opened: &Opened) -> Result<(), Error> {
        if let (Input::Merged(merged), Opened::Merged(sources)) = (self, opened) {
            let each = merged.inputs().iter().enumerate();
            return each.into_iter().try_for_each(|(number, input)| input.refuse_disorder(sources.source(number)));
        }
        let (Input::Trace(input), Opened::Trace(laid)) = (self, opened) else { return Ok(()) };
        if !laid.is_out_of_order() {
            return Ok(());
        }
        let row = laid.trace().first_out_of_order().map_or("a row".into(), |line| format!("row {line}"));
        let message = format!(
            "{row} has a time before the first one, so the trace can't be replayed by its times: use --arrival flat-out, or \
             put the rows in order with smrkit trace convert --sort"
        );
        Err(Error::input(&input.name, message))
    }

    /// An error about the copy of a pipe names what was given, one about room what gives this input more.
    pub fn named(&self, mut error: Error) -> Error {
        if let Error::NoRoom(request) = &mut error
            && !request.is_too_large()
        {
            request.remedy = self.larger().unwrap_or(request.remedy);
        }
        self.traces().fold(error, |error, trace| trace.named(error))
    }

    /// The traces in it.
    fn traces(&self) -> impl Iterator<Item = &TraceInput> {
        let inputs = match self {
            Input::Merged(merged) => merged.inputs(),
            one => std::slice::from_ref(one),
        };
        inputs.iter().filter_map(|input| match input {
            Input::Trace(trace) => Some(&**trace),
            Input::Workload(..) | Input::Merged(_) => None,
        })
    }

    /// What to do where addresses lie past the device, if it is not what helps a trace.
    fn larger(&self) -> Option<&'static str> {
        match self {
            Input::Trace(_) => None,
            _ if self.traces().next().is_none() => Some(
                "add --fold to take addresses modulo the capacity, or give a smaller --span or a larger --capacity",
            ),
            // A workload takes what there is, so that --capacity auto knows no size.
            _ if matches!(self.least_sectors(), Ok(None)) => Some(
                "add --fold to take addresses modulo the capacity, give a larger --capacity, or choose one --volume",
            ),
            _ => None,
        }
    }

    /// Looks for volumes beforehand, or in answer to `Error::SecondVolume`.
    pub fn look_for_volumes(&self) -> Result<(), Error> {
        match self {
            Input::Trace(trace) => trace.look_for_volumes(),
            Input::Workload(..) => Ok(()),
            Input::Merged(merged) => merged.inputs().iter().try_for_each(Input::look_for_volumes),
        }
    }

    /// What was replayed.
    pub fn describe(&self, opened: &Opened) -> Replayed {
        match (self, opened) {
            (Input::Trace(input), Opened::Trace(laid)) => {
                let trace = laid.trace();
                let format = match trace.detail() {
                    Some(detail) => format!("{} ({detail})", trace.format()),
                    None => trace.format().into(),
                };
                Replayed {
                    trace: Some(input.name.display().to_string()),
                    trace_format: Some(format),
                    trace_sha256: trace.sha256(),
                    trace_reading: Some(input.reading()),
                    trace_notes: trace.notes(),
                    ..Replayed::default()
                }
            }
            (Input::Workload(workload, _), Opened::Workload(_, sectors)) => Replayed {
                workload: Some(workload.to_string()),
                workload_sectors: Some(*sectors),
                ..Replayed::default()
            },
            (Input::Merged(merged), Opened::Merged(sources)) => merged.describe(sources),
            _ => unreachable!("an input opens as what it is"),
        }
    }
}

impl Opened {
    fn inner(&self) -> &dyn Source {
        match self {
            Opened::Trace(laid) => laid.as_ref(),
            Opened::Workload(source, _) => source.as_ref(),
            Opened::Merged(sources) => sources,
        }
    }

    /// The stream of requests.
    pub fn source(&mut self) -> &mut dyn Source {
        match self {
            Opened::Trace(laid) => laid.as_mut(),
            Opened::Workload(source, _) => source.as_mut(),
            Opened::Merged(sources) => sources,
        }
    }
}

impl Source for Opened {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.source().fill(batch)
    }

    fn name(&self) -> PathBuf {
        self.inner().name()
    }

    fn progress(&self) -> Progress {
        self.inner().progress()
    }

    fn sources(&self) -> usize {
        self.inner().sources()
    }
}
