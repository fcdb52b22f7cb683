//! Our compact columnar trace format: Parquet with plain integer columns, readable by pandas, DuckDB and Polars. Tables written by those
//! are read too, if their columns have the right names.
//!
//! `docs/reference/trace-parquet.md` describes it. It holds all fields of a request except `source`, which belongs to a run and not to a
//! trace. The Parquet crate reads pages and decodes columns, a few thousand rows a batch, which become requests.

pub mod requests;
pub mod table;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_schema::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;
use smrkit::error::Error;
use smrkit::request::{Op, Progress, Request, Source};
use smrkit::units::Nanos;

use self::requests::{NoRequest, ROWS, TableColumns, numbers as whole_numbers};
use self::table::{Column, GROUP_ROWS, TableWriter, batch, guarded, numbers};
use crate::input::sha256_of;
use crate::reader::{Feed, RowTimes, Rows};
use crate::row::{Volume, Volumes};

/// The version of the format that is written; readers refuse later ones.
pub const VERSION: u32 = 1;

/// The metadata of a trace file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The format that the trace was converted from, as recognised.
    pub source_format: String,
    /// The SHA-256 of the file that it was converted from, in hexadecimal.
    pub source_sha256: Option<String>,
    /// The volumes; a request's `volume` is an index into them.
    pub volumes: Vec<Volume>,
}

/// The columns that are written.
const COLUMNS: [Column<Request>; 5] = [
    ("time_ns", |rows| numbers::<UInt64Type, _>(rows, |row| row.time.0)),
    ("op", |rows| numbers::<UInt8Type, _>(rows, |row| row.op as u8)),
    ("lba", |rows| numbers::<UInt64Type, _>(rows, |row| row.lba.0)),
    ("sectors", |rows| numbers::<UInt32Type, _>(rows, |row| row.sectors)),
    ("volume", |rows| numbers::<UInt16Type, _>(rows, |row| row.volume)),
];

/// What a replay in a closed loop needs to know of a request.
struct Pause {
    /// The sum of the host's think times before the request: its time if all requests took none.
    think: Nanos,
    /// Requests that the host had outstanding when it sent this one.
    outstanding: u16,
}

const THINK: &str = "think_ns";
const OUTSTANDING: &str = "outstanding";
const PAUSES: [Column<Pause>; 2] = [
    (THINK, |rows| numbers::<UInt64Type, _>(rows, |row| row.think.0)),
    (OUTSTANDING, |rows| numbers::<UInt16Type, _>(rows, |row| row.outstanding)),
];

/// The host's pauses, one for each request.
struct Pauses {
    /// The columns of [`PAUSES`] that the source has.
    columns: &'static [Column<Pause>],
    all: Vec<Pause>,
}

impl Pauses {
    /// Reads the pauses from a trace that was opened with its think times.
    fn read(closed: &mut dyn Source) -> Result<Pauses, Error> {
        let (mut batch, mut all, mut columns) = (Vec::new(), Vec::new(), &PAUSES[..1]);
        while closed.fill_next(&mut batch)? {
            let mut outstanding = closed.outstanding().iter().copied();
            if outstanding.len() > 0 {
                columns = &PAUSES;
            }
            let pause = |request: &Request| Pause { think: request.time, outstanding: outstanding.next().unwrap_or(0) };
            all.extend(batch.iter().map(pause));
        }
        Ok(Pauses { columns, all })
    }

    /// Appends the columns of pauses, from row `first` on, to those of `requests`.
    fn beside(&self, requests: &RecordBatch, first: usize) -> RecordBatch {
        let own = batch(self.columns, &self.all[first..][..requests.num_rows()]);
        let fields = Schema::try_merge([requests.schema(), own.schema()].map(|schema| schema.as_ref().clone()));
        let arrays = requests.columns().iter().chain(own.columns()).cloned().collect();
        RecordBatch::try_new(Arc::new(fields.expect("other names")), arrays).expect("a pause for each request")
    }
}

pub(crate) const KEY_FORMAT: &str = "smrkit.format";
pub(crate) const KEY_VERSION: &str = "smrkit.version";
const KEY_SOURCE_FORMAT: &str = "smrkit.source_format";
const KEY_SOURCE_SHA256: &str = "smrkit.source_sha256";
pub(crate) const KEY_ROWS: &str = "smrkit.rows";
/// The key of a volume is this and its index; the value is its number, a space and its name.
const KEY_VOLUME: &str = "smrkit.volume.";
const FORMAT: &str = "trace";

/// The most volumes: a request's index has 16 bits.
const VOLUMES: usize = 1 << 16;
const MAGIC: &[u8; 4] = b"PAR1";
/// Remedy for a table without a column of times.
pub const NO_TIMES: &str = "call its column of times time_us, time_ns, or after its unit";
const AGAIN: &str = "convert the original trace again with `smrkit trace convert`";

/// The compression of a column that can't be decompressed here, if there is one.
fn unknown_compression(metadata: &ParquetMetaData) -> Option<String> {
    let mut compressions =
        metadata.row_groups().iter().flat_map(|group| group.columns()).map(|column| column.compression());
    let is_unknown = |compression: &Compression| match compression {
        Compression::UNCOMPRESSED | Compression::SNAPPY => false,
        // The library of zstd is in C.
        Compression::ZSTD(_) => cfg!(target_family = "wasm"),
        _ => true,
    };
    let name = compressions.find(is_unknown)?.to_string().to_lowercase();
    name.split('(').next().map(str::to_string)
}

/// The metadata of a trace file; `None` for a table that another program wrote.
fn meta(metadata: &ParquetMetaData) -> Result<Option<Meta>, String> {
    let pairs = metadata.file_metadata().key_value_metadata().map_or(&[][..], Vec::as_slice);
    let value = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref());
    match value(KEY_FORMAT) {
        None => return Ok(None),
        Some(FORMAT) => {}
        Some(other) => return Err(format!("a table of {other}, not a trace: give the trace that it was made from")),
    }
    match value(KEY_VERSION).and_then(|version| version.parse::<u32>().ok()) {
        Some(version) if (1..=VERSION).contains(&version) => {}
        Some(version) => {
            return Err(format!("version {version} of the format; this smrkit reads up to {VERSION}: update smrkit"));
        }
        None => return Err(format!("the footer is damaged (no {KEY_VERSION}): {AGAIN}")),
    }
    let mut volumes = Vec::new();
    for pair in pairs.iter().filter(|pair| pair.key.starts_with(KEY_VOLUME)) {
        let text = pair.value.as_deref().unwrap_or("");
        let (number, name) = text.split_once(' ').unwrap_or((text, ""));
        // The keys must be in the order of their indexes.
        let in_order = pair.key[KEY_VOLUME.len()..].parse() == Ok(volumes.len());
        match number.parse() {
            Ok(number) if in_order && volumes.len() < VOLUMES => {
                volumes.push(Volume { number, name: name.to_string() })
            }
            _ => return Err(format!("the footer is damaged (the table of volumes, at {}): {AGAIN}", pair.key)),
        }
    }
    Ok(Some(Meta {
        source_format: value(KEY_SOURCE_FORMAT).unwrap_or("").to_string(),
        source_sha256: value(KEY_SOURCE_SHA256).map(str::to_string),
        volumes,
    }))
}

/// The rows of a Parquet file. Of its notes, only unaligned rows and rows out of order can be above 0: malformed rows were mended or left
/// out when the trace was written.
pub(crate) struct ParquetReader {
    batches: ParquetRecordBatchReader,
    columns: TableColumns,
    /// True if times count from 0, and not from the first row.
    is_absolute: bool,
    meta: Meta,
    /// True for a table that another program wrote: its volumes are taken from its rows.
    is_foreign: bool,
    /// Requests in the trace.
    rows: u64,
    has_think_times: bool,
    /// True if the file's SHA-256 is asked for.
    is_hashed: bool,
}

impl ParquetReader {
    /// Opens a trace and checks its footer. Requests get the recorded times or, with `RowTimes::Think`, think times if the trace has them.
    pub fn open(path: &Path, times: RowTimes, is_hashed: bool) -> Result<ParquetReader, Error> {
        let failed = |error| Error::reading(path, error);
        let bad = |message: String| Error::input(path, message);
        let (file, mut head) = (File::open(path).map_err(failed)?, Vec::new());
        (&file).take(4).read_to_end(&mut head).map_err(failed)?;
        if head != MAGIC {
            return Err(bad("not a Parquet file: it does not begin with PAR1; check the path".into()));
        }
        let cut = |error| bad(format!("the Parquet file is cut short, or its footer damaged ({error}): {AGAIN}"));
        let table = table::open(file).map_err(cut)?;
        let metadata = table.metadata();
        let own = meta(metadata).map_err(bad)?;
        let has_think_times = table.schema().column_with_name(THINK).is_some();
        let is_closed = has_think_times && times == RowTimes::Think;
        let mut columns = TableColumns::of(table.schema()).map_err(bad)?;
        // Sums of think times take the place of the times.
        if is_closed {
            columns.time = Some((THINK.into(), 1));
        }
        if let Some(packing) = unknown_compression(metadata) {
            let others = if cfg!(target_family = "wasm") { "snappy" } else { "zstd or snappy" };
            return Err(bad(format!(
                "its columns are packed with {packing}, which can't be unpacked here: write it with {others}"
            )));
        }
        let counts = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).ok());
        let all = u64::try_from(metadata.file_metadata().num_rows()).ok();
        let rows = counts.sum::<Option<u64>>().filter(|&rows| Some(rows) == all);
        let rows = rows.ok_or_else(|| bad(format!("the footer is damaged (its row counts disagree): {AGAIN}")))?;
        if rows == 0 {
            return Err(bad("the file holds no request: check how it was made".into()));
        }
        let places = columns
            .names()
            .chain(is_closed.then_some(OUTSTANDING))
            .filter_map(|name| table.schema().index_of(name).ok());
        let mask = ProjectionMask::roots(table.parquet_schema(), places.collect::<Vec<_>>());
        let batches = guarded(|| table.with_batch_size(ROWS).with_projection(mask).build()).map_err(cut)?;
        Ok(ParquetReader {
            batches,
            columns,
            is_absolute: own.is_some() || is_closed,
            is_foreign: own.is_none(),
            meta: own.unwrap_or_default(),
            rows,
            has_think_times,
            is_hashed,
        })
    }
}

impl Rows for ParquetReader {
    fn begin(&mut self, feed: &mut Feed) -> u64 {
        feed.volumes.list.clone_from(&self.meta.volumes);
        feed.intake.first_ticks = self.is_absolute.then_some(0);
        // Columns have been converted to nanoseconds.
        1
    }

    fn fill(&mut self, feed: &mut Feed, batch: &mut Vec<Request>) -> Result<(), Error> {
        if feed.done {
            return Ok(());
        }
        let Feed { intake, volumes: Volumes { list: volumes, .. }, outstanding, .. } = feed;
        // The error of row `row` of this batch.
        let (path, done) = (&intake.path, intake.requests);
        let bad = |row: usize, why: &str| {
            let message = match self.is_foreign {
                true => format!("{why}: mend the table, and write it again"),
                false => format!("damaged ({why}): {AGAIN}"),
            };
            Error::at_line(path, done + row as u64 + 1, None, message)
        };
        let rows = match guarded(|| self.batches.next().transpose()) {
            Ok(None) => return Ok(()),
            Ok(Some(rows)) => rows,
            Err(error) => return Err(bad(0, &error)),
        };
        let known_volumes = if self.is_foreign { VOLUMES } else { volumes.len().max(1) };
        let found = self.columns.append(&rows, known_volumes, &mut intake.first_ticks, batch);
        intake.notes.unaligned_rows += found.map_err(|NoRequest { row, what }| match row {
            Some(row) => bad(row, &format!("the row {what}")),
            None => bad(0, &what),
        })?;
        if let Some(column) = rows.column_by_name(OUTSTANDING) {
            let counts = whole_numbers(column).map_err(|what| bad(0, &format!("column {OUTSTANDING} {what}")))?;
            *outstanding = counts.into_iter().map(|count| count.min(u64::from(u16::MAX)) as u16).collect();
        }
        if self.is_foreign {
            // Such a table has no list of volumes, so there are those up to the highest number seen.
            let last_volume = batch.iter().map(|request| request.volume).max().unwrap_or(0);
            let new_volumes = volumes.len() as u64..=u64::from(last_volume);
            volumes.extend(new_volumes.map(|number| Volume { number, name: number.to_string() }));
        }
        for request in batch {
            intake.requests += 1;
            intake.note_order(request.time.0, intake.requests);
        }
        Ok(())
    }

    /// True for the times that the columns may be asked for; they were chosen when the file was opened.
    fn choose_times(&mut self, times: RowTimes) -> bool {
        times == RowTimes::Clock || times == RowTimes::Think && self.has_think_times
    }

    fn detail(&self) -> Option<&str> {
        None
    }

    fn without_times(&self) -> Option<String> {
        self.columns.time.is_none().then(|| NO_TIMES.into())
    }

    fn progress(&self, feed: &Feed) -> Progress {
        Progress { done: feed.intake.requests, total: Some(self.rows) }
    }

    /// Columns are read in parts, so the hash needs another pass over the file.
    fn sha256(&self, feed: &Feed) -> Option<String> {
        let file = File::open(&feed.intake.path).ok().filter(|_| self.is_hashed)?;
        sha256_of(Box::new(file)).ok()
    }
}

/// Writes a trace, a row group at a time; the file appears under its name at `finish`.
pub struct ParquetWriter {
    path: PathBuf,
    /// The metadata, up to `finish`: volumes and hash are known only when the source has been read.
    pub meta: Meta,
    table: TableWriter,
    /// The row group being gathered.
    group: Vec<Request>,
    rows: u64,
    volumes_used: usize,
    /// The pauses, if the trace has think times.
    pauses: Option<Pauses>,
}

impl ParquetWriter {
    /// Starts the trace that will become `path`. `thinking` are the same requests by their think times, to be stored beside the times.
    pub fn create(path: &Path, meta: &Meta, thinking: Option<&mut dyn Source>) -> Result<ParquetWriter, Error> {
        let pauses = thinking.map(Pauses::read).transpose()?;
        let none = batch(&COLUMNS, &[]);
        let schema = pauses.as_ref().map_or(none.schema(), |pauses| pauses.beside(&none, 0).schema());
        // Opened at once, so that a path that can't be written is reported before the work.
        Ok(ParquetWriter {
            path: path.to_path_buf(),
            meta: meta.clone(),
            table: TableWriter::create(path, schema)?,
            group: Vec::new(),
            rows: 0,
            volumes_used: 0,
            pauses,
        })
    }

    /// Appends all requests of a source as they come; returns how many.
    pub fn copy(&mut self, source: &mut dyn Source) -> Result<u64, Error> {
        let (mut batch, mut rows) = (Vec::new(), 0);
        while source.fill_next(&mut batch)? {
            rows += batch.len() as u64;
            self.write(&batch)?;
        }
        Ok(rows)
    }

    /// Appends all requests of a source in the order of their times, from zero on; returns how many.
    pub fn sort(&mut self, source: &mut dyn Source) -> Result<u64, Error> {
        let mut all = source.rest()?;
        all.sort_by_key(|request| request.time);
        let first = all.first().map_or(Nanos::ZERO, |request| request.time);
        all.iter_mut().for_each(|request| request.time -= first);
        self.write(&all)?;
        Ok(all.len() as u64)
    }

    /// Appends requests, in any order of time.
    pub fn write(&mut self, requests: &[Request]) -> Result<(), Error> {
        let mut rest = requests;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(GROUP_ROWS - self.group.len()));
            self.group.extend_from_slice(now);
            rest = later;
            if self.group.len() == GROUP_ROWS {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes the rest and the metadata, and makes the file appear under its name.
    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        let mut pairs = vec![
            (KEY_FORMAT.to_string(), FORMAT.to_string()),
            (KEY_VERSION.to_string(), VERSION.to_string()),
            (KEY_ROWS.to_string(), self.rows.to_string()),
            (KEY_SOURCE_FORMAT.to_string(), self.meta.source_format),
        ];
        pairs.extend(self.meta.source_sha256.map(|hash| (KEY_SOURCE_SHA256.to_string(), hash)));
        // Requests may have volumes that `meta` lacks; the file's table has them all.
        for index in 0..self.meta.volumes.len().max(self.volumes_used).max(1) {
            let unnamed = Volume { number: index as u64, name: String::new() };
            let volume = self.meta.volumes.get(index).unwrap_or(&unnamed);
            pairs.push((format!("{KEY_VOLUME}{index}"), format!("{} {}", volume.number, volume.name)));
        }
        self.table.finish(pairs)
    }

    fn flush(&mut self) -> Result<(), Error> {
        let Some(used) = self.group.iter().map(|request| usize::from(request.volume) + 1).max() else { return Ok(()) };
        self.volumes_used = self.volumes_used.max(used);
        // The reader would refuse these.
        if self.group.iter().any(|one| one.sectors == 0 && one.op != Op::Flush) {
            return Err(Error::input(&self.path, "can't be written: a request has 0 sectors; leave it out"));
        }
        if self.group.iter().any(|one| one.lba.0 >> 63 != 0) {
            let problem = "can't be written: an LBA lies past the end of any disk (2^63 sectors)";
            return Err(Error::input(&self.path, problem));
        }
        // The pauses were read in an earlier pass over the trace.
        let paused_requests = self.pauses.as_ref().map_or(usize::MAX, |pauses| pauses.all.len());
        if paused_requests < self.rows as usize + self.group.len() {
            let problem = "the trace grew while it was read: convert it once its drive is no longer served";
            return Err(Error::input(&self.path, problem));
        }
        let group = batch(&COLUMNS, &self.group);
        let group = self.pauses.as_ref().map_or(group.clone(), |pauses| pauses.beside(&group, self.rows as usize));
        self.table.write_group(&group)?;
        self.rows += self.group.len() as u64;
        self.group.clear();
        Ok(())
    }
}

/// File name endings of other formats.
const OTHER_ENDINGS: [&str; 9] = ["csv", "tsv", "txt", "log", "json", "gz", "zst", "bz2", "xz"];

/// Refuses an output whose name has the ending of another format.
pub fn check_ending(output: &Path) -> Result<(), Error> {
    let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or("").to_lowercase();
    if !OTHER_ENDINGS.contains(&ending.as_str()) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{}: a trace is converted to Parquet, not to .{ending}: name a file that ends in .parquet",
        output.display()
    )))
}

#[cfg(test)]
mod tests;
