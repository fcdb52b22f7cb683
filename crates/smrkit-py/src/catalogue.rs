//! Layers, drives and options, as the command lists them in JSON; and traces.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use smrkit::drive::{DRIVES, Drive};
use smrkit::error::Error;
use smrkit::experiment::demand::Opening;
use smrkit::experiment::pool::WatchedSource;
use smrkit::layer;
use smrkit::request::{Request, Source};
use smrkit::units::SECTOR_BYTES;
use smrkit::workload::Workload;
use smrkit_advise::fleet::FleetOptions;
use smrkit_advise::options::AdviseOptions;
use smrkit_options::pairs;
use smrkit_options::run::{self, RunOptions};
use smrkit_report::{catalogue, trace_info as info};
use smrkit_trace::info::TraceInfo;
use smrkit_trace::parquet::{Meta, ParquetWriter, check_ending};
use smrkit_trace::{OpenOptions, Trace};

use crate::error::Raised;
use crate::requests::Requests;
use crate::rows::{Parts, Rows, TRACED};
use crate::run::python_name;
use crate::watch::{Watcher, watched};

/// Lists all layers, including the user's own; or describes the one that is named.
#[pyfunction]
pub fn layers(py: Python, name: Option<&str>) -> PyResult<String> {
    let described = match name {
        Some(name) => catalogue::layer(layer::find(name).raised(py)?),
        None => layer::named().into_iter().map(catalogue::layer).collect(),
    };
    Ok(described.to_string())
}

/// Lists the drives that come with smrkit; or describes a drive in full, by its name or the path of its file.
#[pyfunction]
pub fn drives(py: Python, name: Option<&str>) -> PyResult<String> {
    let in_short = |(name, _): &(&str, _)| Drive::load(name).map(|drive| catalogue::drive_in_short(&drive));
    let described = match name {
        Some(name) => Drive::load(name).map(|drive| catalogue::drive(&drive)),
        None => DRIVES.iter().map(in_short).collect(),
    };
    Ok(described.raised(py)?.to_string())
}

/// Returns the text of the file of a drive that comes with smrkit.
#[pyfunction]
pub fn drive_file(py: Python, name: &str) -> PyResult<&'static str> {
    // Reports an unknown name with the names that are known.
    Drive::load(name).raised(py)?;
    let found = DRIVES.iter().find(|(own, _)| *own == name).map(|(_, text)| *text);
    let message = format!("{name} does not come with smrkit: read its file");
    found.ok_or(Error::Usage(message)).raised(py)
}

/// Describes the options of `run`, `advise` or `fleet`.
#[pyfunction]
pub fn options(command: &str) -> PyResult<Vec<pairs::Described>> {
    match command {
        "run" => Ok(pairs::described::<RunOptions>()),
        "advise" => Ok(pairs::described::<AdviseOptions>()),
        "fleet" => Ok(pairs::described::<FleetOptions>()),
        _ => Err(PyValueError::new_err(format!("the options of {command} are not described"))),
    }
}

/// Computes statistics of a trace, as JSON.
#[pyfunction]
pub fn trace_info(
    py: Python,
    path: PathBuf,
    format: Option<String>,
    skip_bad_rows: bool,
    progress: Option<Bound<PyAny>>,
) -> PyResult<String> {
    let read = move |watcher: &Watcher| {
        let trace = Trace::open(&path, &OpenOptions { format, skip_bad_rows, ..OpenOptions::default() })?;
        let mut trace = WatchedSource::new(trace, watcher, "reading");
        let mut statistics = TraceInfo::from_source(&mut trace)?;
        statistics.name_volumes(trace.source.volumes());
        info::json(&path, &trace.source, &statistics)
    };
    Ok(watched(py, progress.as_ref(), read)?.raised(py)?.to_string())
}

/// Reads the requests of a trace at the LBAs where a run would issue them: all volumes laid end to end, or one volume.
#[pyfunction]
pub fn trace_read(py: Python, options: Vec<pairs::Pair>, progress: Option<Bound<PyAny>>) -> PyResult<Rows> {
    let options: RunOptions = pairs::read(&options, &python_name).raised(py)?;
    let read = move |watcher: &Watcher| -> Result<Rows, Error> {
        let path = options.demand.trace.first().cloned().unwrap_or_default();
        let trace = run::trace(&path, &options.conditions)?;
        trace.look_for_volumes()?;
        // Neither the size of a disk nor the seed matters to a trace that is only read.
        let opening = Opening::new(/* host_sectors */ 0, /* seed */ 1);
        let source = WatchedSource::new(trace.open(&opening)?, watcher, "reading");
        // LBAs are those of one disk now, so volumes mean nothing any more.
        table_of(source, |request| Request { volume: 0, ..request })
    };
    watched(py, progress.as_ref(), read)?.raised(py)
}

/// Writes requests as a Parquet trace.
#[pyfunction]
pub fn trace_write(py: Python, requests: &Requests, path: PathBuf) -> PyResult<()> {
    let write = || -> Result<(), Error> {
        check_ending(&path)?;
        let meta = Meta { source_format: "table".into(), ..Meta::default() };
        let mut writer = ParquetWriter::create(&path, &meta, None)?;
        writer.write(requests.rows())?;
        writer.finish()
    };
    py.detach(write).raised(py)
}

/// Generates the requests of a workload on a disk of `bytes` bytes.
#[pyfunction]
pub fn trace_generate(py: Python, workload: &str, bytes: u64, seed: u64) -> PyResult<Rows> {
    let generate = || table_of(Workload::parse(workload)?.source(bytes / SECTOR_BYTES, seed)?, |request| request);
    py.detach(generate).raised(py)
}

/// A table of all requests of a source, changed by `convert`.
fn table_of(mut source: impl Source, convert: impl Fn(Request) -> Request) -> Result<Rows, Error> {
    let (mut rows, mut batch) = (Parts::new(TRACED), Vec::new());
    while source.fill_next(&mut batch)? {
        batch.iter().for_each(|request| rows.push(convert(*request)));
    }
    Ok(rows.table())
}
