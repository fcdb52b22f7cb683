//! Reads our Parquet traces: the footer once, then a row group at a time, a few thousand requests a batch.
//!
//! Every count and length is checked before memory is taken for it; see `pages` and `footer`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescPtr;

use super::Meta;
use super::footer::{Chunk, Footer};
use super::pages::Pages;
use crate::error::{BadInput, Error};
use crate::request::{Op, Progress, Request, Source};
use crate::trace::volume::Volume;
use crate::units::{Lba, Nanos};

/// Requests a batch: the columns of one stay in the nearest caches.
const BATCH: usize = 4096;

const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

/// A trace in our Parquet format; a source of its requests.
pub struct ParquetReader {
    path: PathBuf,
    file: File,
    footer: Footer,
    next_group: usize,
    group: Option<Group>,
    rows_done: u64,
    columns: Columns,
}

/// The decoders of the current row group.
struct Group {
    rows_left: usize,
    time: ColumnReaderImpl<Int64Type>,
    op: ColumnReaderImpl<Int32Type>,
    lba: ColumnReaderImpl<Int64Type>,
    sectors: ColumnReaderImpl<Int32Type>,
    volume: ColumnReaderImpl<Int32Type>,
}

/// The decoded columns of one batch.
#[derive(Default)]
struct Columns {
    time: Vec<i64>,
    op: Vec<i32>,
    lba: Vec<i64>,
    sectors: Vec<i32>,
    volume: Vec<i32>,
}

impl ParquetReader {
    /// Opens a trace and checks its footer.
    pub fn open(path: &Path) -> Result<ParquetReader, Error> {
        let file = File::open(path).map_err(|error| Error::reading(path, error))?;
        ParquetReader::from_file(path, file)
    }

    /// The same for a file that is open; `path` is its name in errors.
    pub(super) fn from_file(path: &Path, mut file: File) -> Result<ParquetReader, Error> {
        let footer = Footer::read(path, &mut file)?;
        let (path, columns) = (path.to_path_buf(), Columns::default());
        Ok(ParquetReader { path, file, footer, next_group: 0, group: None, rows_done: 0, columns })
    }

    /// The trace's volumes; a request's `volume` is an index into them.
    pub fn volumes(&self) -> &[Volume] {
        &self.footer.meta.volumes
    }

    /// What the file says about itself.
    pub fn meta(&self) -> &Meta {
        &self.footer.meta
    }

    /// Requests in the trace.
    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    fn next_group(&mut self) -> Result<bool, Error> {
        let Some(place) = self.footer.groups.get(self.next_group) else { return Ok(false) };
        self.next_group += 1;
        let [time, op, lba, sectors, volume] = &self.footer.columns;
        let [time_at, op_at, lba_at, sectors_at, volume_at] = place.chunks;
        let (rows, path, file) = (place.rows, &self.path, &mut self.file);
        self.group = Some(Group {
            rows_left: rows,
            time: column(path, file, time, time_at, rows, 8)?,
            op: column(path, file, op, op_at, rows, 4)?,
            lba: column(path, file, lba, lba_at, rows, 8)?,
            sectors: column(path, file, sectors, sectors_at, rows, 4)?,
            volume: column(path, file, volume, volume_at, rows, 4)?,
        });
        Ok(true)
    }

    /// Decodes the next rows of the current group; false where it has none left.
    fn decode(&mut self) -> Result<bool, Error> {
        let Some(group) = &mut self.group else { return Ok(false) };
        let rows = group.rows_left.min(BATCH);
        if rows == 0 {
            return Ok(false);
        }
        let columns = &mut self.columns;
        let decoded = guarded(|| {
            read(&mut group.time, rows, &mut columns.time)?;
            read(&mut group.op, rows, &mut columns.op)?;
            read(&mut group.lba, rows, &mut columns.lba)?;
            read(&mut group.sectors, rows, &mut columns.sectors)?;
            read(&mut group.volume, rows, &mut columns.volume)
        });
        group.rows_left -= rows;
        decoded.map_err(|error| damaged(&self.path, self.rows_done, &error))?;
        Ok(true)
    }

    /// The first decoded row that no request can be, and why.
    fn implausible(&self) -> Option<(usize, &'static str)> {
        let Columns { time, op, lba, sectors, volume } = &self.columns;
        let (tick, volumes) = (self.footer.tick_ns, self.footer.meta.volumes.len().max(1));
        // A pass over each column that the compiler can vectorise; the row is only looked for when something is wrong.
        let latest = time.iter().fold(0, |most, &time| most.max(time as u64));
        let op_bits = op.iter().fold(0, |bits, &op| bits | op as u32);
        let highest = lba.iter().fold(0, |bits, &lba| bits | lba as u64);
        let last_volume = volume.iter().fold(0, |most, &volume| most.max(volume as u32));
        let is_empty = |(&sectors, &op): (&i32, &i32)| sectors == 0 && op != Op::Flush as i32;
        let empty = sectors.iter().zip(op).fold(false, |any, row| any | is_empty(row));
        let fine = latest <= u64::MAX / tick && op_bits < 4 && highest >> 63 == 0 && (last_volume as usize) < volumes;
        if fine && !empty {
            return None;
        }
        (0..time.len()).find_map(|row| {
            let why = match () {
                () if time[row] as u64 > u64::MAX / tick => "a time past the largest that can be held",
                () if !(0..4).contains(&op[row]) => "an op other than 0 to 3 (read, write, flush, discard)",
                () if lba[row] < 0 => "an LBA past the end of any disk",
                () if volume[row] as u32 as usize >= volumes => "a volume that the file's table lacks",
                () if is_empty((&sectors[row], &op[row])) => "a request of 0 sectors",
                () => return None,
            };
            Some((row, why))
        })
    }
}

impl Source for ParquetReader {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        while !self.decode()? {
            if !self.next_group()? {
                return Ok(());
            }
        }
        if let Some((row, why)) = self.implausible() {
            return Err(damaged(&self.path, self.rows_done + row as u64, &why));
        }
        let Columns { time, op, lba, sectors, volume } = &self.columns;
        let tick = self.footer.tick_ns;
        let rows = time.iter().zip(op).zip(lba).zip(sectors).zip(volume);
        batch.extend(rows.map(|((((&time, &op), &lba), &sectors), &volume)| Request {
            time: Nanos(time as u64 * tick),
            lba: Lba(lba as u64),
            sectors: sectors as u32,
            volume: volume as u16,
            op: OPS[op as usize & 3],
            source: 0,
        }));
        self.rows_done += batch.len() as u64;
        Ok(())
    }

    fn progress(&self) -> Progress {
        Progress { done: self.rows_done, total: Some(self.footer.rows) }
    }
}

fn column<T: DataType>(
    path: &Path,
    file: &mut File,
    descriptor: &ColumnDescPtr,
    place: Chunk,
    rows: usize,
    value_bytes: usize,
) -> Result<ColumnReaderImpl<T>, Error> {
    let mut bytes = vec![0; place.bytes];
    let read = file.seek(SeekFrom::Start(place.offset)).and_then(|_| file.read_exact(&mut bytes));
    read.map_err(|error| Error::reading(path, error))?;
    let pages = Pages::new(Bytes::from(bytes), rows, value_bytes, place.zstd);
    let pages = pages.map_err(|error| damaged(path, 0, &error))?;
    Ok(ColumnReaderImpl::new(descriptor.clone(), Box::new(pages)))
}

fn read<T: DataType>(column: &mut ColumnReaderImpl<T>, rows: usize, into: &mut Vec<T::T>) -> Result<(), ParquetError> {
    into.clear();
    match column.read_records(rows, None, None, into)? {
        (read, _, _) if read == rows => Ok(()),
        _ => Err(ParquetError::General("a column ends early".to_string())),
    }
}

fn damaged(path: &Path, rows_before: u64, why: &dyn std::fmt::Display) -> Error {
    let message = format!("damaged ({why}): convert the original trace again with `smrkit trace convert`");
    Error::Input(Box::new(BadInput { path: path.to_path_buf(), line: Some(rows_before + 1), column: None, message }))
}

/// Runs the Parquet crate's decoders, whose assertions a damaged file can trip in spite of the checks before them.
pub(super) fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(ParquetError::General("its pages contradict themselves".to_string())))
}
