//! The volumes of a split trace as demands, each on a disk of its own.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Described, Opened, Opening};
use smrkit::message::PUT_IN_ORDER;
use smrkit::request::{InMemory, Progress, Request, Source};
use smrkit::stats::outcome::{Replayed, TraceReading};
use smrkit::units::Nanos;

use super::{SplitTrace, SplitVolume};
use crate::parquet::ParquetReader;

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

    fn count(&self, _opening: &Opening) -> Result<u64, Error> {
        Ok(self.volume.requests)
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
