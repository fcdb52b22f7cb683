//! The volumes of a trace on one disk: one of them, or all end to end.
//!
//! End to end, volumes follow in ascending order of their numbers, each as large as its highest end rounded up to 1 MiB.
//! That needs a scan of the whole trace. A trace that begins with a single volume is replayed at once instead; should a
//! second volume appear, `Error::SecondVolume` says so, and the caller scans and starts again.

use std::path::{Path, PathBuf};

use crate::open::{OpenOptions, Trace};
use crate::volume::Volume;
use smrkit::error::Error;
use smrkit::quantity::parse_count;
use smrkit::request::{Progress, Request, Source};
use smrkit::stats::outcome::TraceNotes;
use smrkit::units::{Lba, Nanos};

/// Volumes begin at multiples of 1 MiB, in sectors.
const ALIGNMENT: u64 = 2048;

/// Volumes of a trace to take (`--volume`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumeChoice {
    /// All, laid end to end.
    #[default]
    All,
    /// The one with this number.
    Number(u64),
}

impl std::str::FromStr for VolumeChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<VolumeChoice, Error> {
        match text {
            "all" => Ok(VolumeChoice::All),
            _ => parse_count(text).map(VolumeChoice::Number).map_err(|_| {
                Error::Usage(format!(
                    "`{text}` is no volume: expected a volume's number, or all; trace info lists them"
                ))
            }),
        }
    }
}

/// A volume and what the trace does with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUse {
    /// Its number and name.
    pub volume: Volume,
    /// Requests of it.
    pub requests: u64,
    /// After the last sector it uses.
    pub end: Lba,
}

/// Result of a scan of a whole trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeTable {
    /// The volumes, in order of first sight: `Request::volume` indexes them.
    pub volumes: Vec<VolumeUse>,
    /// Requests in all.
    pub requests: u64,
    /// The latest time.
    pub span: Nanos,
    /// Rows mended, skipped or out of order.
    pub notes: TraceNotes,
    /// The line of the first row that lies before the one above it.
    pub first_out_of_order: Option<u64>,
    /// The format.
    pub format: &'static str,
    /// The SHA-256 of the file.
    pub sha256: Option<String>,
}

/// Reads a whole trace for its volumes.
pub fn scan(path: &Path, options: &OpenOptions) -> Result<VolumeTable, Error> {
    scan_trace(Trace::open(path, options)?)
}

/// As `scan`, for an open trace.
pub fn scan_trace(mut trace: Trace) -> Result<VolumeTable, Error> {
    let mut used: Vec<(u64, u64)> = Vec::new();
    let (mut requests, mut span, mut batch) = (0, Nanos::ZERO, Vec::new());
    while trace.fill_next(&mut batch)? {
        requests += batch.len() as u64;
        used.resize(used.len().max(trace.volumes().len()), (0, 0));
        for request in &batch {
            span = span.max(request.time);
            let (count, end) = &mut used[usize::from(request.volume)];
            *count += 1;
            *end = (*end).max(request.end().0);
        }
    }
    used.resize(trace.volumes().len(), (0, 0));
    let volumes = trace.volumes().iter().zip(used);
    let volumes = volumes.map(|(v, (requests, end))| VolumeUse { volume: v.clone(), requests, end: Lba(end) });
    Ok(VolumeTable {
        volumes: volumes.collect(),
        requests,
        span,
        notes: trace.notes(),
        first_out_of_order: trace.first_out_of_order(),
        format: trace.format(),
        sha256: trace.sha256(),
    })
}

impl VolumeTable {
    /// Beginning of each volume when all lie end to end, and the end of the last. Fails where they exceed 2^63 bytes.
    pub fn end_to_end(&self, path: &Path) -> Result<(Vec<Lba>, Lba), Error> {
        let mut order: Vec<usize> = (0..self.volumes.len()).collect();
        order.sort_by_key(|index| (self.volumes[*index].volume.number, *index));
        let (mut first, mut end) = (vec![Lba(0); order.len()], 0_u64);
        for index in order {
            first[index] = Lba(end);
            let size = self.volumes[index].end.0.div_ceil(ALIGNMENT) * ALIGNMENT;
            end = end.checked_add(size).filter(|end| *end < 1 << 54).ok_or_else(|| {
                Error::input(path, "the volumes laid end to end exceed 2^63 bytes: choose one with {volume} N")
            })?;
        }
        Ok((first, Lba(end)))
    }
}

enum LayoutPlan {
    /// All that has come is of the first volume.
    Single,
    /// Each volume begins at its place.
    EndToEnd(Vec<Lba>),
    /// One number only; the time of its first row, how many volumes were looked at, and whether a row came before that
    /// time.
    Only { number: u64, first: Option<Nanos>, known: usize, early: bool },
}

/// A trace with its volumes laid on one disk.
pub struct Laid {
    trace: Trace,
    path: PathBuf,
    plan: LayoutPlan,
    /// Requests read to learn the volumes, not given yet.
    ahead: Option<Vec<Request>>,
}

impl Laid {
    /// Opens a trace with all its volumes end to end, or one of them. Scans it first where its beginning shows several
    /// volumes and all are wanted.
    pub fn open(path: &Path, options: &OpenOptions, choice: VolumeChoice) -> Result<Laid, Error> {
        let mut trace = Trace::open(path, options)?;
        let mut batch = Vec::new();
        trace.fill(&mut batch)?;
        let plan = match choice {
            VolumeChoice::Number(number) => LayoutPlan::Only { number, first: None, known: 0, early: false },
            VolumeChoice::All if trace.volumes().len() > 1 => {
                drop(trace);
                return Laid::scanned(path, options);
            }
            VolumeChoice::All => LayoutPlan::Single,
        };
        Ok(Laid { trace, path: path.to_path_buf(), plan, ahead: Some(batch) })
    }

    /// Opens a trace that has been scanned, all volumes end to end.
    pub fn with_table(path: &Path, options: &OpenOptions, table: &VolumeTable) -> Result<Laid, Error> {
        let plan = LayoutPlan::EndToEnd(table.end_to_end(path)?.0);
        let trace = Trace::open(path, options)?;
        Ok(Laid { trace, path: path.to_path_buf(), plan, ahead: None })
    }

    fn scanned(path: &Path, options: &OpenOptions) -> Result<Laid, Error> {
        if path.as_os_str() == "-" {
            let problem = "several volumes on standard input, which can't be read twice: choose one with {volume} N, or \
                           save the trace to a file";
            return Err(Error::input(path, problem));
        }
        let table = scan(path, &OpenOptions { sha256: false, ..options.clone() })?;
        Laid::with_table(path, options, &table)
    }

    /// True if a row lies before one above it so far. Rows before the first are given its time, which hides them.
    pub fn is_out_of_order(&self) -> bool {
        match self.plan {
            LayoutPlan::Only { early, .. } => early,
            LayoutPlan::Single | LayoutPlan::EndToEnd(_) => self.trace.first_out_of_order().is_some(),
        }
    }

    /// The trace itself: its format, volumes, notes and hash.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    fn map_addresses(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        match &mut self.plan {
            LayoutPlan::Single if self.trace.volumes().len() > 1 => return Err(Error::SecondVolume(self.path.clone())),
            LayoutPlan::Single => {}
            LayoutPlan::EndToEnd(first) => {
                for request in batch.iter_mut().filter(|request| request.sectors > 0) {
                    // A file that grew since the scan may show a volume that the scan did not.
                    let Some(base) = first.get(usize::from(request.volume)) else {
                        return Err(Error::SecondVolume(self.path.clone()));
                    };
                    request.lba += base.0;
                }
            }
            LayoutPlan::Only { number, first, known, early } => {
                let volumes = self.trace.volumes();
                if *known != volumes.len() {
                    *known = volumes.len();
                    check_unique(&self.path, volumes, *number)?;
                }
                batch.retain(|request| volumes[usize::from(request.volume)].number == *number);
                for request in batch {
                    let first = *first.get_or_insert(request.time);
                    *early |= request.time < first;
                    request.time = request.time.since(first);
                }
            }
        }
        Ok(())
    }

    fn check_found(&self) -> Result<(), Error> {
        let LayoutPlan::Only { number, first: None, .. } = self.plan else {
            return Ok(());
        };
        let volumes = self.trace.volumes();
        let shown: Vec<String> = volumes.iter().take(12).map(|v| v.number.to_string()).collect();
        let more = if volumes.len() > shown.len() { ", …" } else { "" };
        let message = format!("no volume {number}: the trace has {}{more}", shown.join(", "));
        Err(Error::input(&self.path, message))
    }
}

/// Two hosts of an MSR trace may have a disk of the same number.
fn check_unique(path: &Path, volumes: &[Volume], number: u64) -> Result<(), Error> {
    let same: Vec<&str> = volumes.iter().filter(|v| v.number == number).map(|v| v.name.as_str()).collect();
    if same.len() < 2 {
        return Ok(());
    }
    let message = format!("several volumes have the number {number} ({}): split the trace by host", same.join(", "));
    Err(Error::input(path, message))
}

impl Source for Laid {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        loop {
            match self.ahead.take() {
                Some(ahead) => *batch = ahead,
                None => self.trace.fill(batch)?,
            }
            if batch.is_empty() {
                return self.check_found();
            }
            self.map_addresses(batch)?;
            if !batch.is_empty() {
                return Ok(());
            }
        }
    }

    fn name(&self) -> PathBuf {
        self.path.clone()
    }

    fn progress(&self) -> Progress {
        self.trace.progress()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_chosen_by_its_number_or_all_are() {
        let of = |text: &str| text.parse::<VolumeChoice>().map_err(|error| error.to_string());
        assert_eq!((of("all"), of("7")), (Ok(VolumeChoice::All), Ok(VolumeChoice::Number(7))));
        assert!(of("x").unwrap_err().contains("`x` is no volume"));
    }

    #[test]
    fn volumes_lie_end_to_end_in_the_order_of_their_numbers() {
        let table = |ends: &[(u64, u64)]| VolumeTable {
            volumes: ends
                .iter()
                .map(|&(number, end)| VolumeUse {
                    volume: Volume { number, name: String::new() },
                    requests: 1,
                    end: Lba(end),
                })
                .collect(),
            requests: 0,
            span: Nanos::ZERO,
            notes: TraceNotes::default(),
            first_out_of_order: None,
            format: "msr",
            sha256: None,
        };
        let of = |ends: &[(u64, u64)]| table(ends).end_to_end("t".as_ref()).map_err(|error| error.to_string());
        let places = |places: &[u64], end| Ok((places.iter().map(|place| Lba(*place)).collect(), Lba(end)));
        let unit = ALIGNMENT;
        assert_eq!(of(&[]), places(&[], 0));
        assert_eq!(of(&[(7, 1), (2, unit), (5, unit + 1)]), places(&[3 * unit, 0, unit], 4 * unit));
        assert_eq!(of(&[(1, (1 << 54) - unit)]), places(&[0], (1 << 54) - unit));
        for too_far in [&[(1, 1 << 54)][..], &[(1, (1 << 54) - unit), (2, 1)], &[(1, 1 << 62)]] {
            assert!(of(too_far).unwrap_err().contains("exceed 2^63 bytes"));
        }
    }
}
