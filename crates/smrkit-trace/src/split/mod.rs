//! A trace split by volume: a folder of Parquet traces, buckets of volumes, and a list of what is in them. Each volume is a
//! demand on a disk of its own.
//!
//! Volumes go to buckets in turn, in order of first sight. A bucket is one file, or several in a row where it is long: what the
//! writer of a Parquet file remembers of it would grow with the trace. Each file is a trace of its own.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Described, Opened, Opening};
use smrkit::message::PUT_IN_ORDER;
use smrkit::request::{InMemory, Progress, Request, Source};
use smrkit::stats::outcome::{Replayed, TraceNotes, TraceReading};
use smrkit::units::Nanos;

use crate::output::PartialFolder;
use crate::parquet::table::GROUP_ROWS;
use crate::parquet::{Meta, ParquetReader, ParquetWriter};
use crate::row::Volume;
use crate::trace::{OpenOptions, Trace};

/// The name of the list in its folder.
const LIST: &str = "volumes.json";
/// The version of the list; others are refused.
const VERSION: u32 = 1;

/// List of the trace that was split into a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitTrace {
    /// The version of this list.
    pub version: u32,
    /// The path of the trace, as it was given.
    pub trace: String,
    /// Its format, as recognised.
    pub trace_format: String,
    /// The SHA-256 of its file.
    pub trace_sha256: Option<String>,
    /// Options that it was read with.
    pub trace_reading: TraceReading,
    /// Rows mended, skipped or out of order.
    pub trace_notes: TraceNotes,
    /// Requests in all.
    pub requests: u64,
    /// Their files.
    pub buckets: Vec<Bucket>,
    /// Its volumes, in order of first sight.
    pub volumes: Vec<SplitVolume>,
}

/// The files of some volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Names in the folder, in the order of the trace.
    pub files: Vec<String>,
    /// Requests in them.
    pub requests: u64,
}

/// A volume of a split trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitVolume {
    /// The number that the trace gives it.
    pub number: u64,
    /// The name that the trace gives it; may be empty.
    pub name: String,
    /// The index of its bucket.
    pub bucket: usize,
    /// Its index among the volumes of its bucket's files.
    pub index: u16,
    /// Requests of it.
    pub requests: u64,
    /// After the last sector it uses.
    pub end_sectors: u64,
    /// The time of its first request, from the start of the trace.
    pub first_ns: u64,
    /// True if one of its requests has a time before that.
    pub is_out_of_order: bool,
}

impl SplitTrace {
    /// Reads the list of a folder.
    pub fn open(folder: &Path) -> Result<SplitTrace, Error> {
        let path = folder.join(LIST);
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::input(folder, "no split trace: make one with trace split, and name its folder")
            }
            _ => Error::reading(&path, error),
        })?;
        let again = |why: String| Error::input(&path, format!("{why}: split the trace again with this version"));
        let read: SplitTrace = serde_json::from_str(&text).map_err(|error| again(format!("damaged ({error})")))?;
        let is_whole = read.volumes.iter().all(|volume| volume.bucket < read.buckets.len());
        match read.version {
            VERSION if is_whole => Ok(read),
            VERSION => Err(again("a volume is in no bucket".into())),
            other => Err(again(format!("version {other}, not {VERSION}"))),
        }
    }

    /// The files of a bucket in `folder`.
    fn files(&self, folder: &Path, bucket: usize) -> Vec<PathBuf> {
        self.buckets[bucket].files.iter().map(|name| folder.join(name)).collect()
    }

    /// The end of the volume that reaches furthest, in sectors: the least disk that holds each of them.
    pub fn least_sectors(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.end_sectors).max().unwrap_or(0)
    }
}

/// The most buckets: each is an open file with a row group in memory.
pub const BUCKETS_MAX: usize = 256;
/// Rows in memory, all buckets together; one takes 28 bytes.
const ROWS_HELD: usize = 8 << 20;
/// Rows of a file, after which its bucket goes on in another: the writer keeps about 0.05 bytes a row.
const FILE_ROWS: u64 = 16 << 20;
/// Requests gathered before they are handed to a bucket's writer.
const GATHERED: u64 = 2048;

/// Splits requests by their volume into a folder, which appears at the end.
pub struct Splitter {
    folder: PartialFolder,
    file_rows: u64,
    group_rows: usize,
    buckets: Vec<BucketWriter>,
    volumes: Vec<SplitVolume>,
}

/// The files of a bucket.
#[derive(Default)]
struct BucketWriter {
    bucket: Bucket,
    /// The file being written, and the rows in it.
    file: Option<(ParquetWriter, u64)>,
    gathered: Vec<Request>,
}

impl Splitter {
    /// Begins `folder`, which must be missing or empty, with this many buckets, from 1 to [`BUCKETS_MAX`].
    pub fn create(folder: &Path, buckets: usize) -> Result<Splitter, Error> {
        let buckets = buckets.clamp(1, BUCKETS_MAX);
        Ok(Splitter {
            folder: PartialFolder::create(folder)?,
            file_rows: FILE_ROWS,
            group_rows: GROUP_ROWS.min(ROWS_HELD / buckets),
            buckets: (0..buckets).map(|_| BucketWriter::default()).collect(),
            volumes: Vec::new(),
        })
    }

    /// The splitter with files of at most about `rows` rows.
    #[cfg(test)]
    fn with_file_rows(self, rows: u64) -> Splitter {
        Splitter { file_rows: rows, ..self }
    }

    /// Splits all of `trace`, while `go_on`, which is told how far it is, says so; whether it came to the end.
    pub fn split(&mut self, trace: &mut Trace, mut go_on: impl FnMut(Progress) -> bool) -> Result<bool, Error> {
        let mut batch = Vec::new();
        while go_on(trace.progress()) {
            if !trace.fill_next(&mut batch)? {
                return Ok(true);
            }
            self.write(&batch, trace)?;
        }
        Ok(false)
    }

    /// Appends requests that were read from `trace`.
    fn write(&mut self, requests: &[Request], trace: &Trace) -> Result<(), Error> {
        for request in requests {
            let volume = usize::from(request.volume);
            while volume >= self.volumes.len() {
                self.volumes.push(self.nth(self.volumes.len()));
            }
            let used = &mut self.volumes[volume];
            if used.requests == 0 {
                used.first_ns = request.time.0;
            }
            used.requests += 1;
            used.end_sectors = used.end_sectors.max(request.end().0);
            used.is_out_of_order |= request.time.0 < used.first_ns;
            let of = self.buckets.len();
            let gathered = &mut self.buckets[volume % of].gathered;
            gathered.push(Request { volume: (volume / of) as u16, ..*request });
            if gathered.len() as u64 == self.file_rows.min(GATHERED) {
                self.hand_over(volume % of, trace)?;
            }
        }
        Ok(())
    }

    /// The `nth` volume, without a request yet.
    fn nth(&self, nth: usize) -> SplitVolume {
        let of = self.buckets.len();
        SplitVolume { bucket: nth % of, index: (nth / of) as u16, ..SplitVolume::default() }
    }

    /// Hands what a bucket has gathered to its file.
    fn hand_over(&mut self, at: usize, trace: &Trace) -> Result<(), Error> {
        let bucket = &mut self.buckets[at];
        let (writer, rows) = match &mut bucket.file {
            Some(file) => file,
            None => {
                let name = match bucket.bucket.files.len() {
                    0 => format!("bucket-{at:03}.parquet"),
                    nth => format!("bucket-{at:03}-{nth}.parquet"),
                };
                let meta = Meta { source_format: trace.format.into(), ..Meta::default() };
                let writer = ParquetWriter::create(&self.folder.file(&name), &meta)?.with_group_rows(self.group_rows);
                bucket.bucket.files.push(name);
                bucket.file.insert((writer, 0))
            }
        };
        writer.write(&bucket.gathered)?;
        *rows += bucket.gathered.len() as u64;
        bucket.bucket.requests += bucket.gathered.len() as u64;
        bucket.gathered.clear();
        if *rows >= self.file_rows {
            self.finish_file(at, trace, None)?;
        }
        Ok(())
    }

    fn finish_file(&mut self, at: usize, trace: &Trace, sha256: Option<String>) -> Result<(), Error> {
        let Some((mut writer, _)) = self.buckets[at].file.take() else { return Ok(()) };
        writer.set_meta(&Meta {
            source_format: trace.format.into(),
            source_sha256: sha256,
            volumes: trace.volumes().iter().skip(at).step_by(self.buckets.len()).cloned().collect(),
        });
        writer.finish()
    }

    /// Completes all files once `trace`, opened with these options from `path`, was read to its end, and makes the folder appear.
    pub fn finish(mut self, path: &Path, options: &OpenOptions, trace: &Trace) -> Result<SplitTrace, Error> {
        let sha256 = trace.sha256();
        for at in 0..self.buckets.len() {
            if !self.buckets[at].gathered.is_empty() {
                self.hand_over(at, trace)?;
            }
            self.finish_file(at, trace, sha256.clone())?;
        }
        for at in self.volumes.len()..trace.volumes().len() {
            self.volumes.push(self.nth(at));
        }
        let mut volumes = self.volumes;
        for (own, Volume { number, name }) in volumes.iter_mut().zip(trace.volumes()) {
            (own.number, own.name) = (*number, name.clone());
        }
        let buckets = self.buckets.into_iter().take(volumes.len()).map(|one| one.bucket);
        let list = SplitTrace {
            version: VERSION,
            trace: path.display().to_string(),
            trace_format: trace.format.into(),
            trace_sha256: sha256,
            trace_reading: TraceReading {
                volume: "all".into(),
                format: options.format.clone(),
                skip_bad_rows: options.skip_bad_rows,
            },
            trace_notes: trace.notes(),
            requests: volumes.iter().map(|volume| volume.requests).sum(),
            buckets: buckets.collect(),
            volumes,
        };
        write_list(&self.folder, &list)?;
        self.folder.commit()?;
        Ok(list)
    }
}

fn write_list(folder: &PartialFolder, list: &SplitTrace) -> Result<(), Error> {
    let path = folder.file(LIST);
    let failed = |error| Error::writing(&path, error);
    let text = serde_json::to_string_pretty(list).map_err(|error| failed(error.into()))? + "\n";
    let mut file = File::create(&path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}

/// One volume of a split trace; its times begin with its first request, as those of `--volume`.
pub struct VolumeDemand {
    replayed: Replayed,
    volume: SplitVolume,
    /// The disk that holds every volume of the trace.
    least_sectors: u64,
    place: Place,
}

/// Place of its requests.
enum Place {
    /// In memory.
    Held(Arc<[Request]>),
    /// In files, among those of other volumes.
    Filed(Vec<PathBuf>),
}

impl SplitTrace {
    /// Volumes, by their indices, as demands. Those of fewer requests than `held_max` are read into memory, in one pass over
    /// their buckets; others are read anew by each run.
    pub fn demands(&self, folder: &Path, volumes: &[usize], held_max: u64) -> Result<Vec<VolumeDemand>, Error> {
        let mut held = self.held(folder, volumes, held_max)?;
        let demand = |&at: &usize| {
            let volume = self.volumes[at].clone();
            let place = match held.remove(&at) {
                Some(requests) => Place::Held(requests.into()),
                None => Place::Filed(self.files(folder, volume.bucket)),
            };
            let reading = TraceReading { volume: volume.number.to_string(), ..self.trace_reading.clone() };
            let replayed = Replayed {
                trace: Some(folder.display().to_string()),
                trace_sha256: self.trace_sha256.clone(),
                trace_format: Some(self.trace_format.clone()),
                trace_reading: Some(reading),
                ..Replayed::default()
            };
            VolumeDemand { replayed, volume, least_sectors: self.least_sectors(), place }
        };
        Ok(volumes.iter().map(demand).collect())
    }

    /// The requests of small volumes, by index.
    fn held(&self, folder: &Path, volumes: &[usize], held_max: u64) -> Result<HashMap<usize, Vec<Request>>, Error> {
        let mut held = HashMap::new();
        let mut by_place = HashMap::new();
        for &at in volumes.iter().filter(|&&at| self.volumes[at].requests < held_max) {
            let volume = &self.volumes[at];
            by_place.insert((volume.bucket, volume.index), at);
            held.insert(at, Vec::with_capacity(volume.requests as usize));
        }
        let buckets: BTreeSet<usize> = by_place.keys().map(|(bucket, _)| *bucket).collect();
        for bucket in buckets {
            for file in self.files(folder, bucket) {
                let (mut reader, mut batch) = (ParquetReader::open(&file)?, Vec::new());
                while reader.fill_next(&mut batch)? {
                    for request in &batch {
                        let at = by_place.get(&(bucket, request.volume));
                        if let Some((at, requests)) = at.and_then(|at| Some((at, held.get_mut(at)?))) {
                            requests.push(self.volumes[*at].alone(request));
                        }
                    }
                }
            }
        }
        Ok(held)
    }
}

impl SplitVolume {
    /// A request as if its volume were the whole trace: its time from that of the first on.
    fn alone(&self, request: &Request) -> Request {
        Request { time: request.time.since(Nanos(self.first_ns)), volume: 0, ..*request }
    }
}

impl Demand for VolumeDemand {
    fn least_sectors(&self) -> Result<Option<u64>, Error> {
        Ok(Some(self.least_sectors))
    }

    fn open(&self, _opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        let source: Box<dyn Source> = match &self.place {
            Place::Held(requests) => Box::new(InMemory::new(Arc::clone(requests))),
            Place::Filed(files) => Box::new(VolumeRows {
                volume: self.volume.clone(),
                files: files.clone().into_iter(),
                reader: None,
                done: 0,
            }),
        };
        let problem = format!(
            "a row of volume {} has a time before its first one, so the trace can't be replayed by its times: before it is \
             split, {PUT_IN_ORDER}",
            self.volume.number
        );
        let disorder = self.volume.is_out_of_order.then_some(problem);
        Ok(Box::new(Described { disorder, ..Described::new(source, self.replayed.clone()) }))
    }
}

/// The requests of a volume, from its bucket's files.
struct VolumeRows {
    volume: SplitVolume,
    files: std::vec::IntoIter<PathBuf>,
    reader: Option<ParquetReader>,
    done: u64,
}

impl Source for VolumeRows {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        loop {
            batch.clear();
            match (&mut self.reader, self.files.as_slice()) {
                (Some(reader), _) => reader.fill(batch)?,
                (None, []) => return Ok(()),
                (None, _) => {}
            }
            if batch.is_empty() {
                self.reader = self.files.next().map(|file| ParquetReader::open(&file)).transpose()?;
                continue;
            }
            batch.retain(|request| request.volume == self.volume.index);
            batch.iter_mut().for_each(|request| *request = self.volume.alone(request));
            if !batch.is_empty() {
                self.done += batch.len() as u64;
                return Ok(());
            }
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: Some(self.volume.requests) }
    }
}

#[cfg(test)]
mod tests;
