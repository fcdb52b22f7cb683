//! Tables of rows: columns as Arrow has them, and as Parquet with our encodings, row groups and metadata.
//!
//! The trace format, the tables of requests and accesses, and results share it. Nothing in a table that is written is null.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int8Type};
use arrow_array::{ArrayRef, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use crate::output::TargetFile;
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

/// A column of a table: its name, and the function that builds it from rows.
pub type Column<R> = (&'static str, fn(&[R]) -> ArrayRef);

/// A column of whole numbers.
pub fn numbers<T: ArrowPrimitiveType, R>(rows: &[R], of: impl Fn(&R) -> T::Native) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(rows.iter().map(of)))
}

/// A column of words out of `words`; `of` gives the index of a row's word.
pub fn words<R>(rows: &[R], words: &[&'static str], of: impl Fn(&R) -> i8) -> ArrayRef {
    let kinds: Vec<i8> = rows.iter().map(of).collect();
    Arc::new(DictionaryArray::<Int8Type>::new(kinds.into(), Arc::new(StringArray::from(words.to_vec()))))
}

/// A column of operations, as words.
pub fn operations<R>(rows: &[R], of: impl Fn(&R) -> Op) -> ArrayRef {
    words(rows, &[Op::Read, Op::Write, Op::Flush, Op::Discard].map(Op::name), |row| of(row) as i8)
}

/// The columns of some rows.
pub fn batch<R>(columns: &[Column<R>], rows: &[R]) -> RecordBatch {
    let arrays = columns.iter().map(|(name, of)| (*name, of(rows)));
    RecordBatch::try_from_iter(arrays).expect("columns of one length")
}

/// A table being written.
pub struct TableWriter {
    path: PathBuf,
    file: ArrowWriter<TargetFile>,
}

impl TableWriter {
    /// Opens the table that will become `path`.
    pub fn create(path: &Path, schema: Arc<Schema>) -> Result<TableWriter, Error> {
        let file = TargetFile::open(path)?;
        // Without Arrow's own schema in the metadata: other libraries then see plain columns.
        let options = ArrowWriterOptions::new().with_skip_arrow_metadata(true).with_schema_root("smrkit".into());
        let options = options.with_properties(properties(&schema).map_err(|error| writing(path, error))?);
        let file = ArrowWriter::try_new_with_options(file, schema, options).map_err(|error| writing(path, error))?;
        Ok(TableWriter { path: path.to_path_buf(), file })
    }

    /// Writes one row group.
    pub fn write_group(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        self.file.write(rows).and_then(|()| self.file.flush()).map_err(|error| writing(&self.path, error))
    }

    /// Adds the metadata and makes the file appear under its name.
    pub fn finish(mut self, metadata: Vec<(String, String)>) -> Result<(), Error> {
        for (key, value) in metadata {
            self.file.append_key_value_metadata(KeyValue::new(key, value));
        }
        self.file.finish().map_err(|error| writing(&self.path, error))?;
        self.file.inner_mut().commit()
    }
}

fn properties(schema: &Schema) -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("smrkit ", env!("CARGO_PKG_VERSION")).to_string())
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_data_page_v2_compression_ratio_threshold(WORTHWHILE)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_data_page_size_limit(usize::MAX)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for field in schema.fields() {
        // Words and one-byte numbers have few distinct values and keep the dictionary. Others are stored as differences between neighbours,
        // bit-packed in blocks of 32.
        if matches!(field.data_type(), DataType::UInt16 | DataType::UInt32 | DataType::UInt64) {
            let path = ColumnPath::from(field.name().as_str());
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

/// Opens a table, without regard to Arrow's own schema in its metadata.
pub(super) fn open(file: File) -> Result<ParquetRecordBatchReaderBuilder<File>, String> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    guarded(|| ParquetRecordBatchReaderBuilder::try_new_with_options(file, options))
}

/// Reads a column of texts of the table at `path`.
pub fn read_texts(path: &Path, column: &str) -> Result<Vec<String>, Error> {
    let file = File::open(path).map_err(|error| Error::reading(path, error))?;
    let read = open(file).and_then(|table| {
        let mask = ProjectionMask::columns(table.parquet_schema(), [column]);
        let mut words = Vec::new();
        guarded(|| {
            for batch in table.with_projection(mask).build()? {
                let own =
                    batch?.column(0).as_string_opt::<i32>().map(|all| all.iter().flatten().map(String::from).collect());
                words.extend(own.unwrap_or_else(Vec::new));
            }
            Ok::<_, ParquetError>(words)
        })
    });
    read.map_err(|error| Error::input(path, format!("damaged ({error}): remove it, and have it made again")))
}

/// Calls the Parquet crate and turns its panics into errors: a damaged file can trip its assertions.
pub(super) fn guarded<T, E: ToString>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| error.to_string()),
        Err(_) => Err("its pages contradict themselves".into()),
    }
}

/// The error of writing `path`. An operating system's error is unwrapped from the crate's, so that it keeps its remedy.
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
