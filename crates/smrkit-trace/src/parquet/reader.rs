//! Reads our Parquet traces: the footer once, then a row group at a time, a few thousand requests a batch.
//!
//! The Parquet crate reads pages and decodes columns; here its values become requests, each checked for what no request can be.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;

use super::footer::{Footer, guarded};
use super::{Meta, RequestColumns};
use crate::volume::Volume;
use smrkit::error::{BadInput, Error};
use smrkit::request::{Op, Progress, Request, Source};
use smrkit::units::{Lba, Nanos};

/// Requests a batch: the columns of one stay in the nearest caches.
const BATCH: usize = 4096;

const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

/// A trace in our Parquet format; a source of its requests.
pub struct ParquetReader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    footer: Footer,
    next_group: usize,
    group: Option<GroupDecoders>,
    rows_done: u64,
    /// The decoded columns of one batch.
    columns: RequestColumns,
}

/// The decoders of the current row group.
struct GroupDecoders {
    rows_left: usize,
    time: ColumnReaderImpl<Int64Type>,
    op: ColumnReaderImpl<Int32Type>,
    lba: ColumnReaderImpl<Int64Type>,
    sectors: ColumnReaderImpl<Int32Type>,
    volume: ColumnReaderImpl<Int32Type>,
}

impl ParquetReader {
    /// Opens a trace and checks its footer.
    pub fn open(path: &Path) -> Result<ParquetReader, Error> {
        let file = File::open(path).map_err(|error| Error::reading(path, error))?;
        ParquetReader::from_file(path, file)
    }

    /// Reads a file that is open; `path` is its name in errors.
    pub(super) fn from_file(path: &Path, file: File) -> Result<ParquetReader, Error> {
        let (file, footer) = Footer::read(path, file)?;
        let (path, columns) = (path.to_path_buf(), RequestColumns::default());
        Ok(ParquetReader { path, file, footer, next_group: 0, group: None, rows_done: 0, columns })
    }

    /// The trace's volumes; a request's `volume` is an index into them.
    pub fn volumes(&self) -> &[Volume] {
        &self.footer.meta.volumes
    }

    /// The file's own account of itself.
    pub fn meta(&self) -> &Meta {
        &self.footer.meta
    }

    /// Requests in the trace.
    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    fn next_group(&mut self) -> Result<bool, Error> {
        if self.next_group == self.file.num_row_groups() {
            return Ok(false);
        }
        let opened = guarded(|| GroupDecoders::open(&*self.file.get_row_group(self.next_group)?, self.footer.columns));
        self.group = Some(opened.map_err(|error| damaged(&self.path, self.rows_done, &error))?);
        self.next_group += 1;
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
        let RequestColumns { time, op, lba, sectors, volume } = &self.columns;
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
        let RequestColumns { time, op, lba, sectors, volume } = &self.columns;
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

impl GroupDecoders {
    /// The decoders of `group`, whose columns stand at `columns`.
    fn open(group: &dyn RowGroupReader, columns: [usize; 5]) -> Result<GroupDecoders, ParquetError> {
        let [time, op, lba, sectors, volume] = columns;
        Ok(GroupDecoders {
            rows_left: usize::try_from(group.metadata().num_rows())?,
            time: long(group, time)?,
            op: int(group, op)?,
            lba: long(group, lba)?,
            sectors: int(group, sectors)?,
            volume: int(group, volume)?,
        })
    }
}

fn long(group: &dyn RowGroupReader, column: usize) -> Result<ColumnReaderImpl<Int64Type>, ParquetError> {
    match group.get_column_reader(column)? {
        ColumnReader::Int64ColumnReader(reader) => Ok(reader),
        _ => Err(other_type()),
    }
}

fn int(group: &dyn RowGroupReader, column: usize) -> Result<ColumnReaderImpl<Int32Type>, ParquetError> {
    match group.get_column_reader(column)? {
        ColumnReader::Int32ColumnReader(reader) => Ok(reader),
        _ => Err(other_type()),
    }
}

fn other_type() -> ParquetError {
    ParquetError::General("a column is of another type than the footer says".to_string())
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
    Error::Input(Box::new(BadInput {
        path: path.to_path_buf(),
        line: Some(rows_before + 1),
        column: None,
        message: message.into(),
    }))
}
