//! Splits a trace in one pass, in memory that does not grow with it.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use smrkit::error::Error;
use smrkit::request::{Progress, Request, Source};
use smrkit::stats::outcome::TraceReading;

use super::{Bucket, LIST, SplitTrace, SplitVolume, VERSION};
use crate::open::{OpenOptions, Trace};
use crate::parquet::table::GROUP_ROWS;
use crate::parquet::{Meta, ParquetWriter};
use crate::partial::PartialFolder;
use crate::volume::Volume;

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
    pub(super) fn with_file_rows(self, rows: u64) -> Splitter {
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
                let meta = Meta { source_format: trace.format().into(), ..Meta::default() };
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
            source_format: trace.format().into(),
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
            trace_format: trace.format().into(),
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
