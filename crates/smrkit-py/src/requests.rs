//! A table of requests as a demand: the columns of `docs/reference/trace-parquet.md`, from any library of data frames.

use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, UInt64Array, make_array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Schema};
use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Described, Opened, Opening};
use smrkit::request::{Op, Progress, Request, Source};
use smrkit::stats::outcome::Replayed;
use smrkit::units::{Lba, Nanos};

use crate::error::Raised;

/// Requests a batch: the columns of one stay in the nearest caches.
const BATCH: usize = 4096;
/// Names of the time column, and their units in nanoseconds.
const TIMES: [(&str, u64); 5] =
    [("time_ns", 1), ("time_100ns", 100), ("time_us", 1_000), ("time_ms", 1_000_000), ("time_s", 1_000_000_000)];
const NAME: &str = "requests";

/// Columns of one length.
struct BatchPart {
    time: Option<Column>,
    op: Column,
    lba: Column,
    sectors: Column,
}

/// Requests in columns, whose memory belongs to the caller.
#[pyclass(frozen)]
pub struct Requests(Arc<RequestBatches>);

/// The columns, a batch after the other.
pub struct RequestBatches {
    parts: Vec<BatchPart>,
    tick_ns: u64,
    requests: u64,
    /// After the last sector used.
    end: u64,
}

#[pymethods]
impl Requests {
    /// Takes an Arrow stream, or a dict of columns: Arrow arrays, numpy arrays, lists.
    #[new]
    fn new(py: Python, table: &Bound<PyAny>) -> PyResult<Requests> {
        let (batches, schema) = match table.cast::<PyDict>() {
            Ok(columns) => {
                let batch = of_dict(columns)?;
                let schema = batch.schema();
                (vec![batch], schema)
            }
            Err(_) => of_stream(table)?,
        };
        let table = RequestBatches::new(&batches, &schema).raised(py)?;
        Ok(Requests(Arc::new(table)))
    }

    fn __len__(&self) -> usize {
        self.0.requests as usize
    }
}

impl Requests {
    /// The demand.
    pub fn demand(&self) -> Arc<dyn Demand> {
        Arc::new(Columns(Arc::clone(&self.0)))
    }
}

/// The batches behind `__arrow_c_stream__`, which every library of data frames has.
fn of_stream(table: &Bound<PyAny>) -> PyResult<(Vec<RecordBatch>, Arc<Schema>)> {
    let capsule = table.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds such a stream, by the Arrow PyCapsule interface; it is moved out of the capsule.
    #[allow(unsafe_code)]
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    let failed = |error: arrow_schema::ArrowError| wrong(table.py(), &format!("the Arrow stream failed: {error}"));
    let reader = RecordBatchStreamReader::try_new(stream).map_err(failed)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    Ok((batches, schema))
}

fn of_dict(columns: &Bound<PyDict>) -> PyResult<RecordBatch> {
    let mut named = Vec::new();
    for (name, values) in columns {
        let name: String = name.extract()?;
        named.push((name.clone(), of_values(&name, &values)?));
    }
    RecordBatch::try_from_iter(named).map_err(|error| wrong(columns.py(), &error.to_string()))
}

/// One column: what has an Arrow array, a buffer, or is a list.
fn of_values(name: &str, values: &Bound<PyAny>) -> PyResult<ArrayRef> {
    let py = values.py();
    if values.hasattr("__arrow_c_stream__")? || values.hasattr("__arrow_c_array__")? {
        let message =
            "put Arrow columns into a table first, such as pyarrow.table(columns) or polars.DataFrame(columns)";
        return Err(wrong(py, &format!("column {name}: {message}")));
    }
    if let Ok(buffer) = PyUntypedBuffer::get(values) {
        return of_buffer(buffer).map_err(|problem| wrong(py, &format!("column {name} {problem}")));
    }
    if let Ok(words) = values.extract::<Vec<String>>() {
        return Ok(Arc::new(arrow_array::StringArray::from(words)));
    }
    match values.extract::<Vec<u64>>() {
        Ok(numbers) => Ok(Arc::new(UInt64Array::from(numbers))),
        Err(_) => {
            Err(wrong(py, &format!("column {name} is no list of whole numbers from 0, and no numpy array of them")))
        }
    }
}

/// Keeps the buffer until the column is dropped.
struct Kept(#[allow(dead_code, reason = "held, not read")] PyUntypedBuffer);

impl std::panic::RefUnwindSafe for Kept {}

fn of_buffer(buffer: PyUntypedBuffer) -> Result<ArrayRef, String> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    let kind = match ElementType::from_format(buffer.format()) {
        ElementType::UnsignedInteger { bytes } => {
            [UInt8, UInt16, UInt32, UInt64][bytes.trailing_zeros() as usize].clone()
        }
        ElementType::SignedInteger { bytes } => [Int8, Int16, Int32, Int64][bytes.trailing_zeros() as usize].clone(),
        _ => return Err("holds no whole numbers: give integers, such as numpy.uint64".into()),
    };
    if buffer.dimensions() != 1 || !buffer.is_c_contiguous() {
        return Err("does not lie in one piece: use numpy.ascontiguousarray".into());
    }
    let (at, bytes, items) = (buffer.buf_ptr() as usize, buffer.len_bytes(), buffer.item_count());
    // That of no items may lie anywhere.
    if bytes > 0 && at % buffer.item_size() != 0 {
        return Err("is not aligned: copy it first".into());
    }
    let data = match NonNull::new(at as *mut u8).filter(|_| bytes > 0) {
        // SAFETY: the buffer is of this size, and Python keeps it where it is until `Kept` is dropped.
        #[allow(unsafe_code)]
        Some(first) => unsafe { arrow_buffer::Buffer::from_custom_allocation(first, bytes, Arc::new(Kept(buffer))) },
        None => arrow_buffer::Buffer::from_vec(Vec::<u64>::new()),
    };
    let data = arrow_data::ArrayData::builder(kind).len(items).add_buffer(data).build();
    data.map(make_array).map_err(|error| error.to_string())
}

/// An exception about the table.
fn wrong(py: Python, message: &str) -> PyErr {
    crate::error::exception(py, &Error::input(NAME, message.to_string()))
}

impl RequestBatches {
    fn new(batches: &[RecordBatch], schema: &Schema) -> Result<RequestBatches, Error> {
        let times: Vec<_> = TIMES.iter().filter(|(name, _)| schema.column_with_name(name).is_some()).collect();
        if times.len() > 1 {
            let message = format!("two columns of times, {} and {}: drop one", times[0].0, times[1].0);
            return Err(Error::input(NAME, message));
        }
        let time = times.first().map(|(name, tick)| (*name, *tick));
        let parts = batches.iter().map(|batch| BatchPart::new(batch, time.map(|(name, _)| name)));
        let parts = parts.collect::<Result<Vec<_>, Error>>()?;
        let mut table = RequestBatches { parts, tick_ns: time.map_or(1, |(_, tick)| tick), requests: 0, end: 0 };
        table.check()?;
        Ok(table)
    }

    /// Refuses what no request can be, and counts.
    fn check(&mut self) -> Result<(), Error> {
        let wrong = |row: u64, message: &str| Err(Error::input(NAME, format!("row {row} (from 0) {message}")));
        let (mut lba, mut sectors, mut op, mut time) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for part in &self.parts {
            for at in (0..part.len()).step_by(BATCH) {
                let n = (part.len() - at).min(BATCH);
                part.read(at, n, [&mut time, &mut op, &mut lba, &mut sectors]);
                for row in 0..n {
                    let number = self.requests + row as u64;
                    match () {
                        () if lba[row] >> 63 != 0 => return wrong(number, "has an LBA past the end of any disk"),
                        () if sectors[row] > u64::from(u32::MAX) => {
                            return wrong(number, "has 2^32 sectors or more: split it");
                        }
                        () if sectors[row] == 0 && OPS[op[row] as usize] != Op::Flush => {
                            return wrong(number, "is a request of 0 sectors: drop it, or call it a flush");
                        }
                        () if time.get(row).is_some_and(|&time| time > u64::MAX / self.tick_ns) => {
                            return wrong(number, "has a time past the largest that can be held");
                        }
                        () => self.end = self.end.max(lba[row] + sectors[row]),
                    }
                }
                self.requests += n as u64;
            }
        }
        Ok(())
    }
}

impl BatchPart {
    fn new(batch: &RecordBatch, time: Option<&str>) -> Result<BatchPart, Error> {
        let found = |name: &str| {
            batch.column_by_name(name).ok_or_else(|| {
                let message =
                    "no column of this name: a table of requests has op, lba, sectors, and a time such as time_ns";
                Error::input(NAME, format!("{name}: {message}"))
            })
        };
        let told = |name: &str, column: Result<Column, String>| {
            column.map_err(|problem| Error::input(NAME, format!("column {name} {problem}")))
        };
        let numbers = |name: &str| told(name, Column::of_array(found(name)?));
        if batch.column_by_name("volume").is_some() && numbers("volume")?.max() > Some(0) {
            let message = "requests of several volumes: take those of one, or give the trace's file";
            return Err(Error::input(NAME, message));
        }
        Ok(BatchPart {
            time: time.map(numbers).transpose()?,
            op: told("op", Column::of_operations(found("op")?))?,
            lba: numbers("lba")?,
            sectors: numbers("sectors")?,
        })
    }

    fn len(&self) -> usize {
        self.lba.len()
    }

    /// The columns' numbers from `at` on; those of the time stay none where there is no such column.
    fn read(&self, at: usize, n: usize, [time, op, lba, sectors]: [&mut Vec<u64>; 4]) {
        time.clear();
        if let Some(column) = &self.time {
            column.read(at, n, time);
        }
        self.op.read(at, n, op);
        self.lba.read(at, n, lba);
        self.sectors.read(at, n, sectors);
    }
}

/// The demand of a table.
struct Columns(Arc<RequestBatches>);

impl Demand for Columns {
    fn least_sectors(&self) -> Result<Option<u64>, Error> {
        Ok(Some(self.0.end))
    }

    fn count(&self, _opening: &Opening) -> Result<u64, Error> {
        Ok(self.0.requests)
    }

    fn open(&self, _opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        let source = Reader { table: Arc::clone(&self.0), part: 0, at: 0, done: 0, columns: Default::default() };
        Ok(Box::new(Described::new(Box::new(source), Replayed::default())))
    }
}

/// Reads a table once.
struct Reader {
    table: Arc<RequestBatches>,
    part: usize,
    at: usize,
    done: u64,
    columns: [Vec<u64>; 4],
}

impl Source for Reader {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        let (part, n) = loop {
            let Some(part) = self.table.parts.get(self.part) else { return Ok(()) };
            match (part.len() - self.at).min(BATCH) {
                0 => (self.part, self.at) = (self.part + 1, 0),
                n => break (part, n),
            }
        };
        let [time, op, lba, sectors] = &mut self.columns;
        part.read(self.at, n, [time, op, lba, sectors]);
        time.resize(n, 0);
        let tick = self.table.tick_ns;
        let rows = time.iter().zip(&*op).zip(&*lba).zip(&*sectors);
        batch.extend(rows.map(|(((&time, &op), &lba), &sectors)| Request {
            time: Nanos(time * tick),
            ..Request::new(OPS[op as usize & 3], Lba(lba), sectors as u32)
        }));
        (self.at, self.done) = (self.at + n, self.done + n as u64);
        Ok(())
    }

    fn name(&self) -> PathBuf {
        NAME.into()
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: Some(self.table.requests) }
    }
}

/// Operations by their numbers in a column.
pub const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

/// Whole numbers of any width, none below 0.
#[derive(Clone)]
enum Column {
    /// 8 bits.
    U8(ScalarBuffer<u8>),
    /// 16 bits.
    U16(ScalarBuffer<u16>),
    /// 32 bits.
    U32(ScalarBuffer<u32>),
    /// 64 bits.
    U64(ScalarBuffer<u64>),
}

/// Calls `$body` with the values of a column as `$values`, whatever their width.
macro_rules! each_width {
    ($column:expr, $values:ident => $body:expr) => {
        match $column {
            Column::U8($values) => $body,
            Column::U16($values) => $body,
            Column::U32($values) => $body,
            Column::U64($values) => $body,
        }
    };
}

impl Column {
    /// The numbers of an Arrow array. Errors say what is wrong with it, and what helps.
    fn of_array(array: &ArrayRef) -> Result<Column, String> {
        if array.null_count() > 0 {
            return Err("has nulls: fill or drop them".into());
        }
        let array = array.as_ref();
        macro_rules! signed {
            ($kind:ty, $native:ty, $width:ident) => {{
                let values = array.as_primitive::<$kind>().values();
                if values.iter().any(|&value| value < 0) {
                    return Err("has numbers below 0".into());
                }
                Column::$width(ScalarBuffer::<$native>::from(values.inner().clone()))
            }};
        }
        Ok(match array.data_type() {
            DataType::UInt8 => Column::U8(array.as_primitive::<UInt8Type>().values().clone()),
            DataType::UInt16 => Column::U16(array.as_primitive::<UInt16Type>().values().clone()),
            DataType::UInt32 => Column::U32(array.as_primitive::<UInt32Type>().values().clone()),
            DataType::UInt64 => Column::U64(array.as_primitive::<UInt64Type>().values().clone()),
            DataType::Int8 => signed!(Int8Type, u8, U8),
            DataType::Int16 => signed!(Int16Type, u16, U16),
            DataType::Int32 => signed!(Int32Type, u32, U32),
            DataType::Int64 => signed!(Int64Type, u64, U64),
            other => return Err(format!("holds {other}: whole numbers are needed, such as uint64")),
        })
    }

    /// Operations, as numbers or as words.
    fn of_operations(array: &ArrayRef) -> Result<Column, String> {
        let any = array.as_ref();
        let column = match any.data_type() {
            DataType::Utf8 => numbered(any.as_string::<i32>().iter())?,
            DataType::LargeUtf8 => numbered(any.as_string::<i64>().iter())?,
            DataType::Utf8View => numbered(any.as_string_view().iter())?,
            DataType::Dictionary(..) => of_dictionary(any)?,
            _ => Column::of_array(array)?,
        };
        match column.max() {
            Some(most) if most >= OPS.len() as u64 => Err(format!("has {most}: {EXPECTED}")),
            _ => Ok(column),
        }
    }

    /// The largest number.
    #[allow(clippy::useless_conversion, reason = "one of the widths is that of the result")]
    fn max(&self) -> Option<u64> {
        each_width!(self, values => values.iter().copied().max().map(u64::from))
    }

    /// Number of rows.
    fn len(&self) -> usize {
        each_width!(self, values => values.len())
    }

    /// The numbers from `at` on, `n` of them, into `out`.
    #[allow(clippy::useless_conversion, reason = "one of the widths is that of the result")]
    fn read(&self, at: usize, n: usize, out: &mut Vec<u64>) {
        out.clear();
        each_width!(self, values => out.extend(values[at..at + n].iter().map(|&value| u64::from(value))));
    }
}

const EXPECTED: &str = "expected read, write, flush or discard, or 0 to 3 in that order";

fn number(word: Option<&str>) -> Result<u8, String> {
    let word = word.ok_or("has nulls: fill or drop them")?;
    let at = OPS.iter().position(|op| op.name().eq_ignore_ascii_case(word));
    at.map(|at| at as u8).ok_or_else(|| format!("has '{word}': {EXPECTED}"))
}

fn numbered<'a>(words: impl Iterator<Item = Option<&'a str>>) -> Result<Column, String> {
    Ok(Column::U8(words.map(number).collect::<Result<Vec<u8>, String>>()?.into()))
}

/// Each distinct word is read once.
fn of_dictionary(array: &dyn Array) -> Result<Column, String> {
    let dictionary = array.as_any_dictionary();
    if dictionary.null_count() > 0 {
        return Err("has nulls: fill or drop them".into());
    }
    let words = Column::of_operations(dictionary.values())?;
    let Column::U8(words) = words else { return Err(format!("holds {}: {EXPECTED}", array.data_type())) };
    Ok(Column::U8(dictionary.normalized_keys().into_iter().map(|key| words[key]).collect::<Vec<u8>>().into()))
}
