//! Tables of unsigned integers, words and real numbers as Parquet: schema, encodings, row groups, metadata.
//!
//! The trace format, the tables of requests and accesses, and results share it. Nulls are left out.

use std::borrow::Cow;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RowAccessor;
use parquet::schema::types::{ColumnPath, Type};

use crate::output::Partial;
use smrkit::error::Error;
use smrkit::request::Op;

/// Rows in a row group: columns of one fit in a few MB, and the footer costs 0.01 bytes a row.
pub const GROUP_ROWS: usize = 65_536;
/// Rows in a page: the decoded values of a column fit in the second-level cache.
const PAGE_ROWS: usize = 16_384;
/// A page stays uncompressed unless zstd makes it at least this much smaller: it costs time to read.
const WORTHWHILE: f64 = 0.95;
/// Higher levels gain 1 to 3 % and cost 2 to 10 times the time.
const ZSTD_LEVEL: i32 = 1;

/// Layout of the values of a column before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Few distinct values.
    Dictionary,
    /// Differences between neighbours, in blocks of 32 packed into as few bits as they need.
    Delta,
    /// Words of a few kinds, as text.
    Words,
    /// Real numbers, as they are.
    Real,
}

/// A column: its name, the width of its unsigned values (of no meaning for others), and its layout.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// Its name.
    pub name: &'a str,
    /// The width of its values.
    pub bits: i8,
    /// Its layout.
    pub packing: Packing,
}

/// The values of a column in one row group, as bits.
pub enum Values<'a> {
    /// A column of 64 bits.
    Long(Cow<'a, [i64]>),
    /// A column of 32 bits or fewer.
    Int(Cow<'a, [i32]>),
    /// A column of words.
    Words(Cow<'a, [ByteArray]>),
    /// A column of words of a few kinds: the number of each, and the words.
    Kinds(Vec<i8>, Vec<&'static str>),
    /// A column of real numbers.
    Real(Cow<'a, [f64]>),
}

/// A column, and how its values are taken from rows.
pub type Taken<R> = (Column<'static>, fn(&[R]) -> Values<'static>);

/// A column of words.
pub const fn word(name: &'static str) -> Column<'static> {
    Column { name, bits: 0, packing: Packing::Words }
}

/// The operations of rows, as words.
pub fn operations<R>(rows: &[R], of: impl Fn(&R) -> Op) -> Values<'static> {
    let words = [Op::Read, Op::Write, Op::Flush, Op::Discard].map(Op::name);
    Values::Kinds(rows.iter().map(|row| of(row) as i8).collect(), words.into())
}

/// A column of numbers this many bits wide.
pub const fn column(name: &'static str, bits: i8) -> Column<'static> {
    Column { name, bits, packing: Packing::Delta }
}

/// Numbers of 64 bits.
pub fn long<R>(rows: &[R], of: impl Fn(&R) -> u64) -> Values<'static> {
    Values::Long(rows.iter().map(|row| of(row) as i64).collect())
}

/// Numbers of 32 bits or fewer.
pub fn int<R>(rows: &[R], of: impl Fn(&R) -> u32) -> Values<'static> {
    Values::Int(rows.iter().map(|row| of(row) as i32).collect())
}

/// A table being written.
pub struct TableWriter {
    path: PathBuf,
    file: SerializedFileWriter<File>,
    partial: Partial,
}

impl TableWriter {
    /// Opens the table that will become `path`.
    pub fn create(path: &Path, columns: &[Column]) -> Result<TableWriter, Error> {
        let (partial, file) = Partial::create(path)?;
        let failed = |error| writing(path, error);
        let schema = schema(columns).map_err(failed)?;
        let properties = properties(columns).map_err(failed)?;
        let file = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(failed)?;
        Ok(TableWriter { path: path.to_path_buf(), file, partial })
    }

    /// Writes one row group: the columns in order, all of one length.
    pub fn write_group(&mut self, columns: &[Values]) -> Result<(), Error> {
        write_group(&mut self.file, columns).map_err(|error| writing(&self.path, error))
    }

    /// Adds the metadata and makes the file appear under its name.
    pub fn finish(mut self, metadata: Vec<(String, String)>) -> Result<(), Error> {
        for (key, value) in metadata {
            self.file.append_key_value_metadata(KeyValue::new(key, value));
        }
        self.file.finish().map_err(|error| writing(&self.path, error))?;
        self.partial.commit(self.file.inner())
    }
}

fn write_group(file: &mut SerializedFileWriter<File>, columns: &[Values]) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    for values in columns {
        let Some(mut column) = group.next_column()? else { break };
        match (values, column.untyped()) {
            (Values::Long(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(values, None, None)?;
            }
            (Values::Int(values), ColumnWriter::Int32ColumnWriter(writer)) => {
                writer.write_batch(values, None, None)?;
            }
            (Values::Words(values), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                writer.write_batch(values, None, None)?;
            }
            (Values::Kinds(kinds, words), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let words: Vec<ByteArray> =
                    words.iter().map(|word| Bytes::from_static(word.as_bytes()).into()).collect();
                let values: Vec<ByteArray> = kinds.iter().map(|&kind| words[kind as usize].clone()).collect();
                writer.write_batch(&values, None, None)?;
            }
            (Values::Real(values), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(values, None, None)?;
            }
            _ => return Err(ParquetError::General("a column was given values of another kind".into())),
        }
        column.close()?;
    }
    group.close()?;
    Ok(())
}

fn schema(columns: &[Column]) -> Result<Arc<Type>, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.packing {
            Packing::Words => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Packing::Real => (Physical::DOUBLE, None),
            _ if column.bits == 64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
            _ => (Physical::INT32, Some(LogicalType::integer(column.bits, false))),
        };
        Type::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(Type::group_type_builder("smrkit").with_fields(fields).build()?))
}

fn properties(columns: &[Column]) -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("smrkit ", env!("CARGO_PKG_VERSION")).to_string())
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_data_page_v2_compression_ratio_threshold(WORTHWHILE)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_data_page_size_limit(usize::MAX)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for column in columns {
        let path = ColumnPath::from(column.name);
        properties = match column.packing {
            Packing::Dictionary | Packing::Words | Packing::Real => {
                properties.set_column_dictionary_enabled(path, true)
            }
            Packing::Delta => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
        };
    }
    Ok(properties.build())
}

/// Words as the values of a column.
pub fn words(words: impl Iterator<Item = String>) -> Vec<ByteArray> {
    words.map(|word| ByteArray::from(word.into_bytes())).collect()
}

/// Reads a column of words of the table at `path`.
pub fn read_words(path: &Path, column: &str) -> Result<Vec<String>, Error> {
    let file = File::open(path).map_err(|error| Error::reading(path, error))?;
    let read = guarded(|| {
        let file = SerializedFileReader::new(file)?;
        let fields = file.metadata().file_metadata().schema().get_fields().iter();
        let only = fields.filter(|field| field.name() == column).cloned().collect();
        let projection = Type::group_type_builder("smrkit").with_fields(only).build()?;
        let rows = file.get_row_iter(Some(projection))?;
        rows.map(|row| row?.get_string(0).cloned()).collect::<Result<Vec<String>, ParquetError>>()
    });
    read.map_err(|error| Error::input(path, format!("damaged ({error}): remove it, and have it made again")))
}

/// Runs the Parquet crate, whose assertions a damaged file can trip.
pub(super) fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(ParquetError::General("its pages contradict themselves".to_string())))
}

/// The crate wraps the operating system's errors; unwrapped, they keep their remedy.
fn writing(path: &Path, error: ParquetError) -> Error {
    let error = match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    Error::writing(path, error)
}
