//! `smrkit drives validate`: compares described drives with measurements of the real ones.
//!
//! The requests of a measured trace keep its think times, one outstanding; the layer is `in-place`. Nothing is fitted.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use smrkit::drive::Drive;
use smrkit::drive::import::{self, Imported};
use smrkit::engine::RequestRows;
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Described, Opened, Opening};
use smrkit::experiment::system::System;
use smrkit::layer::BASELINE;
use smrkit::request::{Op, Source};
use smrkit::settings::{Arrival, Prefill, Settings};
use smrkit::stats::outcome::Replayed;
use smrkit_report::{Column, Grid};
use smrkit_trace::{OpenOptions, RowTimes, Trace};

use crate::output::print_as;

/// A measured read that took longer was not served from the drive's buffer.
const SLOW_MS: f64 = 3.0;
/// A simulated response time within this distance of the measured one is close.
const CLOSE_MS: f64 = 0.5;
/// Number of quantiles over which the rms distance is taken.
const QUANTILES: u32 = 10_000;

#[derive(Args)]
pub struct Validate {
    /// A folder with descriptions (DiskSim's files, or drive files) and measured traces: DRIVE.trace, perhaps .zst.
    dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Validate {
    pub fn execute(self) -> anyhow::Result<()> {
        let (subjects, missed) = subjects(&self.dir)?;
        let rows = subjects.iter().map(|subject| subject.validate()).collect::<Result<Vec<_>, _>>()?;
        for name in missed {
            eprintln!("{name} has no trace in this folder and is left out");
        }
        print_as(self.json, || &rows, || table(&rows))
    }
}

fn table(rows: &[Validation]) -> String {
    let columns: [Column<&Validation>; 7] = [
        ("drive", |row| row.drive.clone()),
        ("requests", |row| row.requests.to_string()),
        ("rms", |row| format!("{:.3} ms", row.rms_ms)),
        ("mean measured", |row| format!("{:.3} ms", row.mean_measured_ms)),
        ("mean ours", |row| format!("{:.3} ms", row.mean_ours_ms)),
        ("reads over 3 ms", |row| row.slow_reads.to_string()),
        ("of them within 0.5 ms", |row| {
            format!("{:.1} %", 100.0 * row.slow_reads_within_half_ms as f64 / row.slow_reads.max(1) as f64)
        }),
    ];
    Grid::of_items(rows.iter(), &columns).text() + "\n"
}

/// Distance of a drive from its measurement.
#[derive(Clone, Debug, Serialize)]
struct Validation {
    drive: String,
    requests: u64,
    /// The rms of the horizontal distance between the distributions of response times.
    rms_ms: f64,
    mean_measured_ms: f64,
    mean_ours_ms: f64,
    /// Reads that took longer than 3 ms when measured.
    slow_reads: u64,
    /// Those of them whose simulated time is within 0.5 ms of the measured one.
    slow_reads_within_half_ms: u64,
}

/// A described drive, and the trace that was measured on it.
#[derive(Clone, Debug)]
struct Subject {
    drive: Imported,
    trace: PathBuf,
}

/// Finds the descriptions in a folder (DiskSim's, or drive files) and the traces of the same name. The second list names drives without a
/// trace. Errors: a damaged description, or nothing to validate.
fn subjects(folder: &Path) -> Result<(Vec<Subject>, Vec<String>), Error> {
    let listed = std::fs::read_dir(folder).map_err(|error| Error::reading(folder, error))?;
    let mut files: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let ends_in =
        |path: &Path, endings: &[&str]| endings.iter().any(|ending| path.extension() == Some(ending.as_ref()));
    let mut described: Vec<Imported> = Vec::new();
    for path in files.iter().filter(|path| ends_in(path, &["toml"])) {
        let text = std::fs::read_to_string(path).map_err(|error| Error::reading(path, error))?;
        described.push(Imported { name: stem(path), text, from: path.clone() });
    }
    if files.iter().any(|path| ends_in(path, &["parv", "diskspecs", "model"])) {
        described.extend(import::disksim(folder)?);
    }
    let (mut subjects, mut missed) = (Vec::new(), Vec::new());
    for drive in described {
        match files.iter().find(|path| is_trace_of(path, &drive.name)) {
            Some(trace) => subjects.push(Subject { drive, trace: trace.clone() }),
            None => missed.push(drive.name),
        }
    }
    if subjects.is_empty() {
        let message = "no description with a trace of its name: give a folder with DRIVE.parv (or .diskspecs, .model, .toml) \
                       and DRIVE.trace";
        return Err(Error::input(folder, message));
    }
    Ok((subjects, missed))
}

/// A file's name without the endings of traces and descriptions.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().to_string()
}

/// True for a trace with the name of `drive`, or with that name without its ending `_validate`.
fn is_trace_of(path: &Path, drive: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = ["zst", "gz"].iter().find_map(|ending| name.strip_suffix(&format!(".{ending}"))).unwrap_or(&name);
    plain.strip_suffix(".trace").is_some_and(|own| own == drive || drive.strip_suffix("_validate") == Some(own))
}

impl Subject {
    /// Replays the trace.
    fn validate(&self) -> Result<Validation, Error> {
        let drive = Drive::parse(&self.drive.from.with_extension("toml"), &self.drive.text)?;
        let measured = response_times(&self.trace)?;
        let settings = Settings { arrival: Arrival::Closed, prefill: Prefill::None, ..Settings::default() };
        let run = System::of(drive).layer(BASELINE).run(settings)?;
        let mut served = RequestRows::default();
        run.execute(self, &run.opening()?, &mut served)?;
        let replayed: Vec<(Op, f64)> = served.0.iter().map(|row| (row.op, row.latency_ns as f64 / 1e6)).collect();
        Ok(Validation::new(&self.drive.name, &measured, &replayed))
    }
}

impl Demand for Subject {
    fn open(&self, _opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        let source = Box::new(open(&self.trace, RowTimes::Think)?);
        Ok(Box::new(Described::new(source, Replayed::default())))
    }

    fn has_trace(&self) -> bool {
        true
    }
}

fn open(path: &Path, times: RowTimes) -> Result<Trace, Error> {
    let options = OpenOptions { sha256: false, times, ..OpenOptions::default() };
    Ok(Trace::open(path, &options)?.with_absolute_times())
}

/// The response times of a measured trace, in ms.
fn response_times(path: &Path) -> Result<Vec<f64>, Error> {
    let requests = open(path, RowTimes::Response)?.rest()?;
    // A row's time is the sum of the response times up to its own.
    let times = requests.iter().map(|request| request.time.0);
    let before = [0].into_iter().chain(times.clone());
    Ok(before.zip(times).map(|(before, time)| (time - before) as f64 / 1e6).collect())
}

impl Validation {
    fn new(drive: &str, measured: &[f64], ours: &[(Op, f64)]) -> Validation {
        let slow = || measured.iter().zip(ours).filter(|(ms, (op, _))| *op == Op::Read && **ms > SLOW_MS);
        let close = slow().filter(|(ms, (_, ours_ms))| (*ms - ours_ms).abs() <= CLOSE_MS);
        let (mut measured_ms, mut ours_ms) = (measured.to_vec(), ours.iter().map(|(_, ms)| *ms).collect::<Vec<f64>>());
        [&mut measured_ms, &mut ours_ms].into_iter().for_each(|times| times.sort_unstable_by(f64::total_cmp));
        Validation {
            drive: drive.into(),
            requests: measured.len() as u64,
            rms_ms: rms(&measured_ms, &ours_ms),
            mean_measured_ms: mean(&measured_ms),
            mean_ours_ms: mean(&ours_ms),
            slow_reads: slow().count() as u64,
            slow_reads_within_half_ms: close.count() as u64,
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The rms of the horizontal distance between two distributions, from sorted values: DiskSim's measure, from raw times.
fn rms(a: &[f64], b: &[f64]) -> f64 {
    let square = |n: u32| (quantile(a, n) - quantile(b, n)).powi(2);
    ((1..=QUANTILES).map(square).sum::<f64>() / f64::from(QUANTILES)).sqrt()
}

/// The quantile `n`/10,000 of sorted values, linear between them.
fn quantile(sorted: &[f64], n: u32) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    // The value at index `i` is the quantile (`i` + 0.5) / number of values.
    let place = (f64::from(n) / f64::from(QUANTILES) * sorted.len() as f64 - 0.5).clamp(0.0, last as f64);
    let below = sorted[place as usize];
    below + (sorted[(place as usize + 1).min(last)] - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_shifted_by_a_millisecond_has_an_rms_of_one() {
        let a: Vec<f64> = (0..500).map(|n| f64::from(n) * 0.07).collect();
        let b: Vec<f64> = a.iter().map(|ms| ms + 1.0).collect();
        assert!((rms(&a, &b) - 1.0).abs() < 1e-9);
        assert!(rms(&a, &a) < 1e-12);
        assert!((quantile(&[1.0, 3.0], 5000) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn quantiles_lie_in_the_middle_of_their_values() {
        let values = [1.0, 2.0, 4.0, 8.0];
        let at = |percent: u32| quantile(&values, percent * 100);
        assert_eq!([0, 12, 25, 50, 75, 100].map(at), [1.0, 1.0, 1.5, 3.0, 6.0, 8.0]);
        assert!((quantile(&values, 3000) - 1.7).abs() < 1e-12);
        assert_eq!((quantile(&[], 5000), quantile(&[3.0], 9999)), (0.0, 3.0));
        assert_eq!((mean(&[]), mean(&[1.0, 2.0, 6.0])), (0.0, 3.0));
    }

    #[test]
    fn only_slow_reads_are_compared_one_by_one() {
        let measured = [5.0, 3.0, 3.1, 9.0, 9.0, 7.0];
        let ours =
            [(Op::Read, 5.5), (Op::Read, 3.0), (Op::Write, 3.1), (Op::Read, 9.6), (Op::Read, 8.5), (Op::Read, 1.0)];
        let found = Validation::new("drive", &measured, &ours);
        assert_eq!((found.slow_reads, found.slow_reads_within_half_ms, found.requests), (4, 2, 6));
        assert!((found.mean_measured_ms - 36.1 / 6.0).abs() < 1e-12);
        assert!((found.mean_ours_ms - 30.7 / 6.0).abs() < 1e-12);
        assert_eq!(found.drive, "drive");
    }

    #[test]
    fn a_trace_belongs_to_the_description_of_its_name() {
        let is_of = |file: &str| is_trace_of(file.as_ref(), "atlas");
        let names =
            ["atlas.trace", "atlas.trace.gz", "/a/atlas.trace.zst", "atlas", "atlas.txt", "atlas.gz", "x.trace"];
        assert_eq!(names.map(is_of), [true, true, true, false, false, false, false]);
        assert!(is_trace_of("atlas.trace".as_ref(), "atlas_validate"));
        assert!(!is_trace_of("atlas_validate.trace".as_ref(), "atlas"));
        assert_eq!(stem("/a/atlas.model.toml".as_ref()), "atlas.model");
    }

    #[test]
    fn a_folder_gives_its_drives_with_traces_and_names_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let none = subjects(folder.path()).unwrap_err().to_string();
        assert!(none.contains("no description with a trace"), "{none}");
        for name in ["b.toml", "a.toml", "c.toml", "a.trace", "c.trace.gz", "notes.txt"] {
            std::fs::write(path(name), name).unwrap();
        }
        let (found, missed) = subjects(folder.path()).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|Subject { drive, trace }| (&drive.name[..], &drive.text[..], &drive.from, trace))
            .collect();
        let (a, c) = (path("a.toml"), path("c.toml"));
        assert_eq!(shown, [("a", "a.toml", &a, &path("a.trace")), ("c", "c.toml", &c, &path("c.trace.gz"))]);
        assert_eq!(missed, ["b"]);
    }
}
