//! Demand: traces, workloads, and how several are merged.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use smrkit::device::level::Level;
use smrkit::device::spec::ArraySpec;
use smrkit::error::Error;
use smrkit::experiment::demand::MergedDemand;
use smrkit::experiment::demand::{Demand, GeneratedDemand};
use smrkit::experiment::system::check_sources;
use smrkit::interleave::{Interleave, SOURCES_MAX, SourcePlacement};
use smrkit::schema::Size;
use smrkit::settings::Arrival;
use smrkit::units::SECTOR_BYTES;
use smrkit::workload::Workload;
use smrkit_trace::served::ServedDrive;
use smrkit_trace::{OpenOptions, TraceDemand, are_one_blktrace};

use crate::conditions::Conditions;
use crate::value::value;

const DEFAULT_WORKLOAD: &str = "desktop";

/// Traces and workloads, and how several are merged.
#[derive(Args, Clone)]
pub struct DemandOptions {
    /// A trace file; - is standard input. May be repeated, and in any format that trace info recognises.
    #[arg(long, value_name = "FILE")]
    pub trace: Vec<PathBuf>,
    /// A workload: name:key=value,… or a TOML file. May be repeated [default: desktop].
    #[arg(long, value_name = "TEXT")]
    pub workload: Vec<String>,
    /// Size that a workload takes for the disk's [default: the least that a layer offers].
    #[arg(long, value_parser = value(Size(0, u64::MAX)), value_name = "SIZE")]
    pub span: Option<u64>,
    /// Merging of several traces and workloads. In bursts of N requests, each from a source drawn at random (by what
    /// each has left: weighted), by their times, or one after another.
    #[arg(long, value_parser = Interleave::from_str, value_name = "burst:N[,weighted]|time|none")]
    pub interleave: Option<Interleave>,
    /// Placement of their addresses, one behind the other or all from 0 [default: end-to-end].
    #[arg(long, value_parser = SourcePlacement::from_str, value_name = "end-to-end|zero")]
    pub sources: Option<SourcePlacement>,
}

impl DemandOptions {
    /// Files that are read for it.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let workloads = self.workload.iter().filter(|text| text.ends_with(".toml")).map(PathBuf::from);
        self.trace.iter().cloned().chain(workloads)
    }

    /// True if the demand is the log of a served drive.
    pub fn is_log(&self) -> bool {
        self.count() == 1 && self.trace.iter().any(|path| ServedDrive::has_log(path))
    }

    /// Number of traces and workloads that are named.
    pub fn count(&self) -> usize {
        self.trace.len() + self.workload.len()
    }

    /// Refuses options for several sources where there is one, and the reverse.
    pub fn check(&self, arrival: Arrival) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::Usage(message));
        let count = self.count();
        if count < 2 && (self.interleave.is_some() || self.sources.is_some()) {
            let field = if self.interleave.is_some() { "{interleave}" } else { "{sources}" };
            return refuse(format!(
                "{field} is for several sources: leave it out, or name another {{trace}} or {{workload}}"
            ));
        }
        if count > 1 && self.interleave.is_none() {
            return refuse(format!(
                "{count} sources, but it is not said how to merge them: add {{interleave}} burst:N, time or none"
            ));
        }
        if count > SOURCES_MAX {
            return refuse(format!("{count} sources can't be merged: give at most {SOURCES_MAX}"));
        }
        if self.span.is_some() && self.workload.is_empty() && !self.trace.is_empty() {
            return refuse("{span} is what a workload takes for the disk's size: leave it out with a {trace}".into());
        }
        if self.trace.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
            return refuse("standard input can be read once: name - for one {trace} only".into());
        }
        let pairs = self
            .trace
            .iter()
            .enumerate()
            .flat_map(|(n, one)| self.trace[n + 1..].iter().map(move |other| (one, other)));
        if let Some((one, other)) = pairs.into_iter().find(|(one, other)| are_one_blktrace(one, other)) {
            let (one, other) = (one.display(), other.display());
            return refuse(format!("{{trace}} {one} reads the files of all CPUs, {other} too: name one of them"));
        }
        match (arrival, self.interleave) {
            (Arrival::Trace, Some(rule)) if rule != Interleave::Time => refuse(format!(
                "{{interleave}} {rule} takes requests out of the order of their times: use {{interleave}} time, or \
                 {{arrival}} flat-out"
            )),
            _ => Ok(()),
        }
    }

    /// Refuses sources that a dedicated array has no members or no places for; where they lie, unless said.
    pub fn check_array(&self, array: Option<&ArraySpec>) -> Result<SourcePlacement, Error> {
        let Some(spec) = array else { return Ok(SourcePlacement::default()) };
        let is_dedicated = spec.level == Level::Dedicated;
        if is_dedicated && self.sources == Some(SourcePlacement::EndToEnd) {
            return Err(Error::Usage(
                "in a dedicated array each source begins at the first sector of its own member: leave out {sources}, or \
                 use span"
                    .into(),
            ));
        }
        check_sources(spec, self.count())?;
        // Where each source has a member, each begins at its member's first sector.
        Ok(if is_dedicated { SourcePlacement::Zero } else { SourcePlacement::default() })
    }

    /// Traces come first, then workloads.
    pub fn open(&self, how: &Conditions, placement: SourcePlacement) -> Result<Box<dyn Demand>, Error> {
        let traces = self.trace.iter().map(|path| trace(path, how));
        let workloads = self.workload.iter().map(|text| self.generated(text));
        let mut demands = traces.chain(workloads).collect::<Result<Vec<_>, Error>>()?;
        match (self.interleave, demands.pop()) {
            (_, None) => self.generated(DEFAULT_WORKLOAD),
            (Some(rule), Some(last)) => {
                demands.push(last);
                Ok(Box::new(MergedDemand::new(demands, rule, self.sources.unwrap_or(placement))))
            }
            (None, Some(only)) => Ok(only),
        }
    }

    fn generated(&self, text: &str) -> Result<Box<dyn Demand>, Error> {
        Ok(Box::new(GeneratedDemand { workload: workload(text)?, span: self.span.map(|bytes| bytes / SECTOR_BYTES) }))
    }
}

/// A trace at `path`, read as the conditions say.
pub fn trace(path: &Path, how: &Conditions) -> Result<Box<dyn Demand>, Error> {
    let options =
        OpenOptions { format: how.format.clone(), skip_bad_rows: how.skip_bad_rows, ..OpenOptions::default() };
    Ok(Box::new(TraceDemand::new(path, options, how.volume)?))
}

fn workload(text: &str) -> Result<Workload, Error> {
    if !text.ends_with(".toml") {
        return Workload::parse(text);
    }
    let content = std::fs::read_to_string(text).map_err(|error| Error::reading(text, error))?;
    Workload::from_toml(&content)
}
