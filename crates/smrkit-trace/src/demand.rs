//! Traces as demands of experiments: one volume of a trace, or all end to end, on one disk. Each run reads the trace anew.
//!
//! End to end, volumes follow in ascending order of their numbers, each as large as its highest end rounded up to 1 MiB.
//! That needs a scan of the whole trace. A trace that begins with a single volume is replayed at once instead; should a
//! second volume appear, `Error::SecondVolume` says so, and the caller scans and starts again.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Opened, Opening, TRACE_ALIGNMENT};
use smrkit::message::PUT_IN_ORDER;
use smrkit::quantity::parse_count;
use smrkit::request::{Progress, Request, Source};
use smrkit::stats::outcome::{Replayed, TraceReading};
use smrkit::units::{Lba, Nanos};
use tempfile::TempDir;

use crate::reader::RowTimes;
use crate::row::Volume;
use crate::trace::{OpenOptions, Trace, file_sha256};

/// Volumes of a trace to take (`--volume`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VolumeChoice {
    /// All, laid end to end.
    #[default]
    All,
    /// The one with this number.
    Number(u64),
    /// The one that the trace calls so.
    Name(String),
}

impl std::str::FromStr for VolumeChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<VolumeChoice, Error> {
        match text {
            "all" => Ok(VolumeChoice::All),
            "" => Err(Error::Usage("expected a volume's number or name, or all; trace info lists them".into())),
            _ => Ok(parse_count(text).map_or_else(|_| VolumeChoice::Name(text.into()), VolumeChoice::Number)),
        }
    }
}

impl fmt::Display for VolumeChoice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            VolumeChoice::All => f.write_str("all"),
            VolumeChoice::Number(number) => write!(f, "{number}"),
            VolumeChoice::Name(name) => f.write_str(name),
        }
    }
}

impl VolumeChoice {
    pub(crate) fn takes(&self, volume: &Volume) -> bool {
        match self {
            VolumeChoice::All => true,
            VolumeChoice::Number(number) => volume.number == *number,
            VolumeChoice::Name(name) => volume.name == *name,
        }
    }
}

/// A volume and its use by the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeUse {
    /// Its number and name in the trace.
    pub volume: Volume,
    /// Requests of it.
    pub requests: u64,
    /// The end of the last sector that is used.
    pub end: Lba,
}

/// Result of a scan of a whole trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeTable {
    /// The volumes, in order of first sight: `Request::volume` indexes them.
    pub volumes: Vec<VolumeUse>,
    /// Requests in all.
    pub requests: u64,
    /// The longest time between two requests.
    pub gap: Nanos,
    /// The time from the first request to the last.
    pub span: Nanos,
}

/// Reads a whole trace for its volumes.
pub(crate) fn scan(path: &Path, options: &OpenOptions) -> Result<VolumeTable, Error> {
    let mut trace = Trace::open(path, &OpenOptions { sha256: false, ..options.clone() })?;
    let mut used: Vec<(u64, u64)> = Vec::new();
    let (mut requests, mut batch, mut gap, mut span) = (0, Vec::new(), Nanos::ZERO, Nanos::ZERO);
    while trace.fill_next(&mut batch)? {
        requests += batch.len() as u64;
        // A volume is known from its first row on.
        used.resize(used.len().max(trace.volumes().len()), (0, 0));
        for request in &batch {
            let (count, end) = &mut used[usize::from(request.volume)];
            *count += 1;
            *end = (*end).max(request.end().0);
            gap = gap.max(request.time.since(span));
            span = span.max(request.time);
        }
    }
    used.resize(trace.volumes().len(), (0, 0));
    let volumes = trace.volumes().iter().cloned().zip(used);
    let volumes = volumes.map(|(volume, (requests, end))| VolumeUse { volume, requests, end: Lba(end) }).collect();
    Ok(VolumeTable { volumes, requests, gap, span })
}

impl VolumeTable {
    /// Lays all volumes end to end. Returns the first sector of each, and the end of the last. Fails if they exceed 2^63 bytes.
    pub fn end_to_end(&self, path: &Path) -> Result<(Vec<Lba>, Lba), Error> {
        let mut order: Vec<usize> = (0..self.volumes.len()).collect();
        order.sort_by_key(|index| (self.volumes[*index].volume.number, *index));
        let (mut first, mut end) = (vec![Lba(0); order.len()], 0_u64);
        for index in order {
            first[index] = Lba(end);
            // Aligned, so that requests are as aligned on the disk as they are on their volume.
            let size = self.volumes[index].end.0.next_multiple_of(TRACE_ALIGNMENT);
            end = end.checked_add(size).filter(|end| *end < 1 << 54).ok_or_else(|| {
                Error::input(path, "the volumes laid end to end exceed 2^63 bytes: choose one with {volume} N")
            })?;
        }
        Ok((first, Lba(end)))
    }
}

/// How the volumes of a trace are put on the disk.
enum LayoutPlan {
    /// All requests so far are on the first volume.
    Single,
    /// All volumes end to end: the first sector of each.
    EndToEnd(Vec<Lba>),
    /// Only the chosen volume, from the time of its first row on.
    Only {
        choice: VolumeChoice,
        first_time: Option<Nanos>,
        /// Number of volumes among which the choice was checked to be unique.
        checked_volumes: usize,
        /// True if a row of it is earlier than its first row.
        is_out_of_order: bool,
    },
}

/// A trace with its volumes laid on one disk.
pub struct LaidOutTrace {
    /// The trace itself: its format, volumes, notes and hash.
    pub trace: Trace,
    path: PathBuf,
    /// The path that the user gave. It differs from `path` if a copy is read.
    name: PathBuf,
    reading: TraceReading,
    plan: LayoutPlan,
    /// Requests that were read to learn the volumes, and not returned yet.
    ahead: Option<Vec<Request>>,
    /// The result of a scan, if opening made one.
    table: Option<VolumeTable>,
}

impl LaidOutTrace {
    /// Opens a trace with all its volumes end to end, or one of them. Scans it first if all are wanted and its beginning has several.
    pub fn open(path: &Path, options: &OpenOptions, choice: VolumeChoice) -> Result<LaidOutTrace, Error> {
        let mut trace = Trace::open(path, options)?;
        let mut batch = Vec::new();
        // A trace that begins with one volume mostly has no other: its scan is saved.
        trace.fill(&mut batch)?;
        if choice == VolumeChoice::All && trace.volumes().len() > 1 {
            if path.as_os_str() == "-" {
                let problem = "several volumes on standard input, which can't be read twice: choose one with {volume} N, or \
                               save the trace to a file";
                return Err(Error::input(path, problem));
            }
            // The scan reads the file from its beginning.
            drop(trace);
            let table = scan(path, options)?;
            let laid = LaidOutTrace::with_table(path, options, &table)?;
            return Ok(LaidOutTrace { table: Some(table), ..laid });
        }
        let plan = match &choice {
            VolumeChoice::All => LayoutPlan::Single,
            _ => LayoutPlan::Only {
                choice: choice.clone(),
                first_time: None,
                checked_volumes: 0,
                is_out_of_order: false,
            },
        };
        Ok(LaidOutTrace { ahead: Some(batch), ..LaidOutTrace::new(path, options, &choice, trace, plan) })
    }

    /// Opens a trace that has been scanned, all volumes end to end.
    pub(crate) fn with_table(path: &Path, options: &OpenOptions, table: &VolumeTable) -> Result<LaidOutTrace, Error> {
        let plan = LayoutPlan::EndToEnd(table.end_to_end(path)?.0);
        Ok(LaidOutTrace::new(path, options, &VolumeChoice::All, Trace::open(path, options)?, plan))
    }

    fn new(path: &Path, options: &OpenOptions, choice: &VolumeChoice, trace: Trace, plan: LayoutPlan) -> LaidOutTrace {
        let (format, skip_bad_rows) = (options.format.clone(), options.skip_bad_rows);
        let reading = TraceReading { volume: choice.to_string(), format, skip_bad_rows };
        LaidOutTrace { trace, path: path.into(), name: path.into(), reading, plan, ahead: None, table: None }
    }

    /// True if a row so far is earlier than a row before it. The times of the requests do not show this, because rows earlier than the first row
    /// get its time.
    pub fn is_out_of_order(&self) -> bool {
        match self.plan {
            LayoutPlan::Only { is_out_of_order, .. } => is_out_of_order,
            LayoutPlan::Single | LayoutPlan::EndToEnd(_) => self.trace.first_out_of_order().is_some(),
        }
    }

    /// Moves the requests of a batch to their places on the disk, as planned, and drops those of other volumes.
    fn map_addresses(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        match &mut self.plan {
            LayoutPlan::Single if self.trace.volumes().len() > 1 => return Err(Error::SecondVolume(self.path.clone())),
            LayoutPlan::Single => {}
            LayoutPlan::EndToEnd(first) => {
                for request in batch.iter_mut().filter(|request| request.sectors > 0) {
                    // A file that grew since the scan may have a volume that the scan did not see.
                    let Some(base) = first.get(usize::from(request.volume)) else {
                        return Err(Error::SecondVolume(self.path.clone()));
                    };
                    request.lba += base.0;
                }
            }
            LayoutPlan::Only { choice, first_time, checked_volumes, is_out_of_order } => {
                let volumes = self.trace.volumes();
                // A new volume may have the chosen number, too: disks of two hosts in an MSR trace may.
                if *checked_volumes != volumes.len() {
                    *checked_volumes = volumes.len();
                    let same: Vec<&str> =
                        volumes.iter().filter(|volume| choice.takes(volume)).map(|v| v.name.as_str()).collect();
                    if same.len() > 1 {
                        let names = same.join(", ");
                        let message =
                            format!("several volumes have the number {choice} ({names}): choose one by its name");
                        return Err(Error::input(&self.path, message));
                    }
                }
                batch.retain(|request| {
                    volumes.get(usize::from(request.volume)).is_some_and(|volume| choice.takes(volume))
                });
                for request in batch {
                    let first_time = *first_time.get_or_insert(request.time);
                    *is_out_of_order |= request.time < first_time;
                    request.time = request.time.since(first_time);
                }
            }
        }
        Ok(())
    }
}

/// Volumes that a message lists.
const SHOWN: usize = 12;

/// For a trace with requests on several volumes: the list of these volumes, and how to choose one. `None` if there is only one.
pub fn note_on_volumes(volumes: &[(&Volume, u64)]) -> Option<[String; 2]> {
    let used: Vec<_> = volumes.iter().filter(|(_, requests)| *requests > 0).collect();
    // Device mapper's numbers are given out as they come, from 252 or 253 on.
    let stacked_names = ["dm-", "md", "9,", "252,", "253,", "254,"];
    let is_stacked = |volume: &Volume| stacked_names.iter().any(|begin| volume.name.starts_with(begin));
    let stacked: Vec<&str> =
        used.iter().filter(|(volume, _)| is_stacked(volume)).map(|(volume, _)| volume.name.as_str()).collect();
    let (one, _) = used.iter().find(|(volume, _)| !is_stacked(volume)).or(used.first()).filter(|_| used.len() > 1)?;
    let listed = used.iter().take(SHOWN).map(|(volume, requests)| format!("{requests} of {}", volume.shown()));
    let listed = listed.collect::<Vec<_>>().join(", ") + if used.len() > SHOWN { ", …" } else { "" };
    let mut remedy = format!("take one alone with {{volume}} {}", one.shown());
    if !stacked.is_empty() && stacked.len() < used.len() {
        remedy +=
            &format!("; if {} stands above others (dm, LVM or md), its requests are counted twice", stacked.join(", "));
    }
    Some([listed, remedy])
}

/// True if nine tenths of a trace's time are a single gap of more than a day, probably because one time was recorded wrongly.
pub fn is_one_gap(requests: u64, gap_ns: u64, span_ns: u64) -> bool {
    requests > 2 && gap_ns > DAY_NS && gap_ns >= span_ns / 10 * 9
}

const DAY_NS: u64 = 86_400_000_000_000;

impl Source for LaidOutTrace {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        loop {
            match self.ahead.take() {
                Some(ahead) => *batch = ahead,
                None => self.trace.fill(batch)?,
            }
            if batch.is_empty() {
                let LayoutPlan::Only { choice, first_time: None, .. } = &self.plan else { return Ok(()) };
                let volumes = self.trace.volumes();
                let shown: Vec<String> = volumes.iter().take(SHOWN).map(Volume::shown).collect();
                let more = if volumes.len() > shown.len() { ", …" } else { "" };
                let message = format!("no volume {choice}: the trace has {}{more}", shown.join(", "));
                return Err(Error::input(&self.path, message));
            }
            // May leave nothing of the batch, which is not the end of the trace.
            self.map_addresses(batch)?;
            if !batch.is_empty() {
                return Ok(());
            }
        }
    }

    fn outstanding(&self) -> &[u16] {
        // If one of several volumes is chosen, rows are left out, so the counts would not fit.
        if self.trace.volumes().len() > 1 { &[] } else { self.trace.outstanding() }
    }

    fn volume_start(&self, volume: u16) -> Lba {
        match &self.plan {
            LayoutPlan::EndToEnd(first) => first.get(usize::from(volume)).copied().unwrap_or(Lba(0)),
            LayoutPlan::Single | LayoutPlan::Only { .. } => Lba(0),
        }
    }

    fn name(&self) -> PathBuf {
        self.path.clone()
    }

    fn progress(&self) -> Progress {
        self.trace.progress()
    }
}

impl Opened for LaidOutTrace {
    fn describe(&self) -> Replayed {
        let format = match self.trace.detail() {
            Some(detail) => format!("{} ({detail})", self.trace.format),
            None => self.trace.format.into(),
        };
        Replayed {
            trace: Some(self.name.display().to_string()),
            trace_format: Some(format),
            trace_sha256: self.trace.sha256(),
            trace_reading: Some(self.reading.clone()),
            trace_notes: self.trace.notes(),
            ..Replayed::default()
        }
    }

    fn refuse_disorder(&self) -> Result<(), Error> {
        self.trace.refuse_no_times()?;
        if !self.is_out_of_order() {
            return Ok(());
        }
        let row = self.trace.first_out_of_order().map_or("a row".into(), |line| format!("row {line}"));
        let problem = format!("{row} has a time before the first one, so the trace can't be replayed by its times");
        Err(Error::input(&self.name, format!("{problem}: {PUT_IN_ORDER}")))
    }
}

/// A trace file, and how to read it.
pub struct TraceDemand {
    /// The path that was given.
    name: PathBuf,
    /// File that is read: a copy, if the given one can be read only once.
    path: PathBuf,
    options: OpenOptions,
    volumes: VolumeChoice,
    /// Result of a scan, if one was needed. One thread scans, and the others wait.
    table: OnceLock<VolumeTable>,
    scanning: Mutex<()>,
    /// The file's SHA-256, if it was asked for before the trace was read.
    sha256: OnceLock<String>,
    _copy: Option<TempDir>,
}

impl TraceDemand {
    /// A trace at `name`. Standard input and pipes are copied to a temporary file first, because every run reads the trace.
    pub fn new(name: &Path, options: OpenOptions, volumes: VolumeChoice) -> Result<TraceDemand, Error> {
        let is_stdin = name.as_os_str() == "-";
        let is_pipe = is_stdin || std::fs::metadata(name).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
        let copy = if is_pipe { Some(copy_to_temporary(name, is_stdin)?) } else { None };
        let path = copy.as_ref().map_or(name.to_path_buf(), |folder| folder.path().join(COPY_NAME));
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
        // Not `get_or_init` alone: a scan may fail, and `get_or_try_init` is not stable.
        let _alone = self.scanning.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = scan(&self.path, &self.options).map_err(|error| self.named(error))?;
        Ok(self.table.get_or_init(|| table))
    }

    /// The end of the trace's addresses, in sectors: the size of the smallest disk that holds it.
    pub fn footprint_end(&self) -> Result<u64, Error> {
        let table = self.table()?;
        match &self.volumes {
            VolumeChoice::All if table.volumes.len() > 1 => Ok(table.end_to_end(&self.name)?.1.0),
            VolumeChoice::All => Ok(table.volumes.iter().map(|used| used.end.0).max().unwrap_or(0)),
            choice => {
                let of_volume = table.volumes.iter().filter(|used| choice.takes(&used.volume));
                of_volume.map(|used| used.end.0).max().ok_or_else(|| {
                    Error::input(&self.name, format!("no volume {choice}: smrkit trace info lists the volumes"))
                })
            }
        }
    }

    /// Opens the trace; `hash`: also compute its SHA-256.
    fn open_laid_out(&self, hash: bool, times: RowTimes) -> Result<LaidOutTrace, Error> {
        let options = OpenOptions { sha256: hash, times, ..self.options.clone() };
        let laid = match (self.table.get(), &self.volumes) {
            (Some(table), VolumeChoice::All) if table.volumes.len() > 1 => {
                LaidOutTrace::with_table(&self.path, &options, table)
            }
            _ => LaidOutTrace::open(&self.path, &options, self.volumes.clone()),
        };
        let mut laid = laid.map_err(|error| self.named(error))?;
        if let Some(table) = laid.table.take() {
            self.table.get_or_init(|| table);
        }
        Ok(LaidOutTrace { name: self.name.clone(), ..laid })
    }
}

impl Demand for TraceDemand {
    fn least_sectors(&self) -> Result<Option<u64>, Error> {
        self.footprint_end().map(Some)
    }

    fn merged_sectors(&self) -> Result<Option<u64>, Error> {
        Ok(Some(self.footprint_end()?.next_multiple_of(TRACE_ALIGNMENT)))
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        let times = if opening.think_times { RowTimes::Think } else { RowTimes::Clock };
        Ok(Box::new(self.open_laid_out(opening.hash, times)?))
    }

    fn describe(&self, opening: &Opening) -> Result<Replayed, Error> {
        let described = self.open(&Opening { hash: false, ..*opening })?.describe();
        // The file is hashed once, for however many runs.
        let sha256 = match self.sha256.get() {
            Some(known) => known.clone(),
            None => {
                let hash = file_sha256(&self.path).map_err(|error| Error::reading(&self.name, error))?;
                self.sha256.get_or_init(|| hash).clone()
            }
        };
        Ok(Replayed { trace_sha256: Some(sha256), ..described })
    }

    fn look_for_volumes(&self) -> Result<(), Error> {
        match self.volumes {
            VolumeChoice::All => self.table().map(|_| ()),
            _ => Ok(()),
        }
    }

    fn warnings(&self) -> Vec<String> {
        let Some(table) = self.table.get() else { return Vec::new() };
        let used: Vec<_> = table.volumes.iter().map(|used| (&used.volume, used.requests)).collect();
        let volumes = note_on_volumes(&used).filter(|_| self.volumes == VolumeChoice::All).map(|[listed, remedy]| {
            format!("requests of several volumes are laid end to end on one disk, {listed}: {remedy}")
        });
        let gap = is_one_gap(table.requests, table.gap.0, table.span.0).then(|| {
            "nearly all of the trace's time is one gap between two requests: look for a wrong time".to_string()
        });
        volumes.into_iter().chain(gap).collect()
    }

    /// In messages, the path that the user gave takes the place of the copy's.
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

/// The name of the copy of standard input or of a pipe.
const COPY_NAME: &str = "standard-input";

/// Copies standard input or a pipe to a file [`COPY_NAME`] in a temporary folder.
fn copy_to_temporary(name: &Path, is_stdin: bool) -> Result<TempDir, Error> {
    let folder = tempfile::tempdir().map_err(|error| Error::writing(std::env::temp_dir(), error))?;
    let path = folder.path().join(COPY_NAME);
    let mut file = File::create(&path).map_err(|error| Error::writing(&path, error))?;
    let reading = |error| Error::reading(name, error);
    let mut pipe: Box<dyn Read> =
        if is_stdin { Box::new(io::stdin().lock()) } else { Box::new(File::open(name).map_err(reading)?) };
    // Not `io::copy`, which does not say whether reading or writing failed.
    let mut buffer = vec![0; 1 << 18];
    loop {
        match pipe.read(&mut buffer).map_err(reading)? {
            0 => return Ok(folder),
            n => file.write_all(&buffer[..n]).map_err(|error| Error::writing(&path, error))?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_chosen_by_its_number_or_name_or_all_are() {
        let of = |text: &str| text.parse::<VolumeChoice>().map_err(|error| error.to_string());
        assert_eq!((of("all"), of("7")), (Ok(VolumeChoice::All), Ok(VolumeChoice::Number(7))));
        let names = ["8,0", "sda", "web.1"];
        assert_eq!(names.map(of), names.map(|name| Ok(VolumeChoice::Name(name.into()))));
        assert!(of("").unwrap_err().contains("number or name"));
    }

    #[test]
    fn several_volumes_are_listed_with_the_way_to_take_one() {
        let of = |names: &[&str]| {
            let volumes: Vec<Volume> =
                (0..).zip(names).map(|(number, name)| Volume { number, name: name.to_string() }).collect();
            note_on_volumes(&volumes.iter().map(|volume| (volume, volume.number + 4)).collect::<Vec<_>>())
        };
        assert_eq!([of(&[]), of(&["sda"])], [None, None]);
        let [listed, remedy] = of(&["253,0", "8,0"]).unwrap();
        assert_eq!(listed, "4 of 253,0, 5 of 8,0");
        assert!(remedy.contains("{volume} 8,0; if 253,0 stands above others"), "{remedy}");
        let plain = |names| !of(names).unwrap()[1].contains("twice");
        assert!(plain(&["sda", "sdb"]) && plain(&["253,0", "253,16"]));
        let day_ns = 86_400_000_000_000;
        assert!(is_one_gap(3, day_ns + 1, day_ns + 2) && !is_one_gap(2, day_ns + 1, day_ns + 2));
        assert!(!is_one_gap(3, day_ns, day_ns) && !is_one_gap(3, day_ns + 1, 2 * day_ns));
    }

    #[test]
    fn volumes_lie_end_to_end_in_the_order_of_their_numbers() {
        let volume = |&(number, end): &(u64, u64)| {
            let volume = Volume { number, name: String::new() };
            VolumeUse { volume, requests: 1, end: Lba(end) }
        };
        let table = |ends: &[(u64, u64)]| {
            let volumes = ends.iter().map(volume).collect();
            VolumeTable { volumes, requests: 0, gap: Nanos::ZERO, span: Nanos::ZERO }
        };
        let of = |ends: &[(u64, u64)]| table(ends).end_to_end("t".as_ref()).map_err(|error| error.to_string());
        let places = |places: &[u64], end| Ok((places.iter().map(|place| Lba(*place)).collect(), Lba(end)));
        let unit = TRACE_ALIGNMENT;
        assert_eq!(of(&[]), places(&[], 0));
        assert_eq!(of(&[(7, 1), (2, unit), (5, unit + 1)]), places(&[3 * unit, 0, unit], 4 * unit));
        assert_eq!(of(&[(1, (1 << 54) - unit)]), places(&[0], (1 << 54) - unit));
        for too_far in [&[(1, 1 << 54)][..], &[(1, (1 << 54) - unit), (2, 1)], &[(1, 1 << 62)]] {
            assert!(of(too_far).unwrap_err().contains("exceed 2^63 bytes"));
        }
    }
}
