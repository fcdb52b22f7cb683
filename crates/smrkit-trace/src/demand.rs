//! A trace as the demand of an experiment; read anew for each run.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Opened, Opening};
use smrkit::experiment::merged::TRACE_ALIGNMENT;
use smrkit::message::PUT_IN_ORDER;
use smrkit::request::{Request, Source};
use smrkit::stats::outcome::{Replayed, TraceReading};
use tempfile::TempDir;

use crate::columns::file_sha256;
use crate::{Laid, OpenOptions, RowTimes, VolumeChoice, VolumeTable, scan};

/// A trace file, and how to read it.
pub struct TraceDemand {
    /// The path that was given.
    name: PathBuf,
    /// File that is read: a copy, where what was given can be read only once.
    path: PathBuf,
    options: OpenOptions,
    volumes: VolumeChoice,
    /// Result of a scan, where one was needed; one thread scans, the others wait.
    table: OnceLock<VolumeTable>,
    scanning: Mutex<()>,
    /// The file's SHA-256, where it was asked for before the trace was read.
    sha256: OnceLock<String>,
    _copy: Option<TempDir>,
}

impl TraceDemand {
    /// A trace at `name`. Standard input and pipes are copied to a temporary file first: every run reads the trace.
    pub fn new(name: &Path, options: OpenOptions, volumes: VolumeChoice) -> Result<TraceDemand, Error> {
        let is_stdin = name.as_os_str() == "-";
        let is_pipe = is_stdin || std::fs::metadata(name).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
        let (path, copy) = match is_pipe {
            false => (name.to_path_buf(), None),
            true => copied(name, is_stdin)?,
        };
        Ok(TraceDemand {
            name: name.into(),
            path,
            options,
            volumes,
            table: OnceLock::new(),
            scanning: Mutex::new(()),
            sha256: OnceLock::new(),
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

    /// Opens it for one reading, all its volumes known.
    pub fn with_volumes(&self) -> Result<Laid, Error> {
        self.look_for_volumes()?;
        self.laid(false, RowTimes::Clock)
    }

    /// Opens it; `hash` asks for its SHA-256.
    fn laid(&self, hash: bool, times: RowTimes) -> Result<Laid, Error> {
        let options = OpenOptions { sha256: hash, times, ..self.options.clone() };
        let laid = match (self.table.get(), self.volumes) {
            (Some(table), VolumeChoice::All) if table.volumes.len() > 1 => {
                Laid::with_table(&self.path, &options, table)
            }
            _ => Laid::open(&self.path, &options, self.volumes),
        };
        laid.map_err(|error| self.named(error))
    }

    /// The SHA-256 of the file as it lies on the disk, read once.
    fn sha256(&self) -> Result<String, Error> {
        if let Some(known) = self.sha256.get() {
            return Ok(known.clone());
        }
        let hash = file_sha256(&self.path).map_err(|error| Error::reading(&self.name, error))?;
        Ok(self.sha256.get_or_init(|| hash).clone())
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

impl Demand for TraceDemand {
    fn least_sectors(&self) -> Result<Option<u64>, Error> {
        self.footprint_end().map(Some)
    }

    fn merged_sectors(&self) -> Result<Option<u64>, Error> {
        Ok(Some(self.footprint_end()?.next_multiple_of(TRACE_ALIGNMENT)))
    }

    fn count(&self, _opening: &Opening) -> Result<u64, Error> {
        let table = self.table()?;
        Ok(match self.volumes {
            VolumeChoice::All => table.requests,
            VolumeChoice::Number(number) => {
                table.volumes.iter().filter(|used| used.volume.number == number).map(|used| used.requests).sum()
            }
        })
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        let times = if opening.think_times { RowTimes::Think } else { RowTimes::Clock };
        let laid = self.laid(opening.hash, times)?;
        Ok(Box::new(OpenTrace { laid, name: self.name.clone(), reading: self.reading() }))
    }

    fn describe(&self, opening: &Opening) -> Result<Replayed, Error> {
        let described = self.open(&Opening { hash: false, ..*opening })?.describe();
        Ok(Replayed { trace_sha256: Some(self.sha256()?), ..described })
    }

    fn look_for_volumes(&self) -> Result<(), Error> {
        match self.volumes {
            VolumeChoice::All => self.table().map(|_| ()),
            VolumeChoice::Number(_) => Ok(()),
        }
    }

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

    fn has_trace(&self) -> bool {
        true
    }
}

/// A trace opened for one run.
struct OpenTrace {
    laid: Laid,
    name: PathBuf,
    reading: TraceReading,
}

impl Source for OpenTrace {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.laid.fill(batch)
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.laid)
    }
}

impl Opened for OpenTrace {
    fn describe(&self) -> Replayed {
        let trace = self.laid.trace();
        let format = match trace.detail() {
            Some(detail) => format!("{} ({detail})", trace.format()),
            None => trace.format().into(),
        };
        Replayed {
            trace: Some(self.name.display().to_string()),
            trace_format: Some(format),
            trace_sha256: trace.sha256(),
            trace_reading: Some(self.reading.clone()),
            trace_notes: trace.notes(),
            ..Replayed::default()
        }
    }

    fn refuse_disorder(&self) -> Result<(), Error> {
        if !self.laid.is_out_of_order() {
            return Ok(());
        }
        let row = self.laid.trace().first_out_of_order().map_or("a row".into(), |line| format!("row {line}"));
        let problem = format!("{row} has a time before the first one, so the trace can't be replayed by its times");
        Err(Error::input(&self.name, format!("{problem}: {PUT_IN_ORDER}")))
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
