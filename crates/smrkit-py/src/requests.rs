//! A table of requests as a demand: the columns of `docs/reference/trace-parquet.md`, from any library of data frames.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, UInt64Array, downcast_integer_array, make_array};
use arrow_schema::{DataType, Schema};
use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Described, Opened, Opening};
use smrkit::request::{InMemory, Op, Request};
use smrkit::stats::outcome::Replayed;
use smrkit::units::{Lba, Nanos};

use crate::error::Raised;

/// Rows that are read at a time, so that their columns stay in the nearest caches.
const ROWS: usize = 4096;
/// Names of the time column, and their units in nanoseconds.
const TIMES: [(&str, u64); 5] =
    [("time_ns", 1), ("time_100ns", 100), ("time_us", 1_000), ("time_ms", 1_000_000), ("time_s", 1_000_000_000)];
const NAME: &str = "requests";

/// The requests of a table.
#[pyclass(frozen)]
pub struct Requests(Arc<[Request]>);

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
        Ok(Requests(requests(&batches, &schema).raised(py)?.into()))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

impl Requests {
    /// The demand.
    pub fn demand(&self) -> Arc<dyn Demand> {
        Arc::new(TableDemand(Arc::clone(&self.0)))
    }
}

/// The requests on a disk that has room for all of them.
struct TableDemand(Arc<[Request]>);

impl Demand for TableDemand {
    fn least_sectors(&self) -> Result<Option<u64>, Error> {
        Ok(Some(self.0.iter().map(|request| request.end().0).max().unwrap_or(0)))
    }

    fn open(&self, _opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        let source = Box::new(InMemory::new(Arc::clone(&self.0)));
        Ok(Box::new(Described::new(source, Replayed::default())))
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

/// The requests of all batches. Errors: what no request can be, with its row.
fn requests(batches: &[RecordBatch], schema: &Schema) -> Result<Vec<Request>, Error> {
    let times: Vec<_> = TIMES.iter().filter(|(name, _)| schema.column_with_name(name).is_some()).collect();
    if times.len() > 1 {
        let message = format!("two columns of times, {} and {}: drop one", times[0].0, times[1].0);
        return Err(Error::input(NAME, message));
    }
    let mut all = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for batch in batches {
        for at in (0..batch.num_rows().max(1)).step_by(ROWS) {
            let rows = batch.slice(at, ROWS.min(batch.num_rows() - at));
            append(&rows, times.first().copied(), &mut all)?;
        }
    }
    Ok(all)
}

/// Appends the requests of some rows.
fn append(rows: &RecordBatch, time: Option<&(&str, u64)>, all: &mut Vec<Request>) -> Result<(), Error> {
    let read = |name: &str, read: fn(&ArrayRef) -> Result<Vec<u64>, String>| {
        let column = rows.column_by_name(name).ok_or_else(|| {
            let message =
                "no column of this name: a table of requests has op, lba, sectors, and a time such as time_ns";
            Error::input(NAME, format!("{name}: {message}"))
        })?;
        read(column).map_err(|problem| Error::input(NAME, format!("column {name} {problem}")))
    };
    if rows.column_by_name("volume").is_some() && read("volume", numbers)?.iter().any(|&volume| volume > 0) {
        return Err(Error::input(NAME, "requests of several volumes: take those of one, or give the trace's file"));
    }
    let (ops, lbas, sectors) = (read("op", operations)?, read("lba", numbers)?, read("sectors", numbers)?);
    let tick = time.map_or(1, |(_, tick)| *tick);
    let times = time.map_or(Ok(vec![0; lbas.len()]), |(name, _)| read(name, numbers))?;
    for (((op, lba), sectors), time) in ops.into_iter().zip(lbas).zip(sectors).zip(times) {
        let op = OPS[op as usize];
        let wrong = |message: &str| Err(Error::input(NAME, format!("row {} (from 0) {message}", all.len())));
        match () {
            () if lba >> 63 != 0 => return wrong("has an LBA past the end of any disk"),
            () if sectors > u64::from(u32::MAX) => return wrong("has 2^32 sectors or more: split it"),
            () if sectors == 0 && op != Op::Flush => {
                return wrong("is a request of 0 sectors: drop it, or call it a flush");
            }
            () if time > u64::MAX / tick => return wrong("has a time past the largest that can be held"),
            () => all.push(Request { time: Nanos(time * tick), ..Request::new(op, Lba(lba), sectors as u32) }),
        }
    }
    Ok(())
}

/// Operations by their numbers in a column.
pub const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];
const EXPECTED: &str = "expected read, write, flush or discard, or 0 to 3 in that order";

/// Whole numbers of any width. Errors say what is wrong with the array, and what helps.
#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_fallible_conversions,
    reason = "one width is that of the result"
)]
fn numbers(array: &ArrayRef) -> Result<Vec<u64>, String> {
    if array.null_count() > 0 {
        return Err("has nulls: fill or drop them".into());
    }
    downcast_integer_array!(
        array => {
            let whole = array.values().iter().map(|&value| u64::try_from(value));
            whole.collect::<Result<_, _>>().map_err(|_| "has numbers below 0".into())
        },
        other => Err(format!("holds {other}: whole numbers are needed, such as uint64")),
    )
}

fn numbered<'a>(words: impl Iterator<Item = Option<&'a str>>) -> Result<Vec<u64>, String> {
    let number = |word: Option<&str>| {
        let word = word.ok_or("has nulls: fill or drop them")?;
        let at = OPS.iter().position(|op| op.name().eq_ignore_ascii_case(word));
        at.map(|at| at as u64).ok_or_else(|| format!("has '{word}': {EXPECTED}"))
    };
    words.map(number).collect()
}

/// Operations, as numbers or as words.
fn operations(array: &ArrayRef) -> Result<Vec<u64>, String> {
    match array.data_type() {
        DataType::Utf8 => numbered(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => numbered(array.as_string::<i64>().iter()),
        DataType::Utf8View => numbered(array.as_string_view().iter()),
        DataType::Dictionary(..) if array.null_count() > 0 => Err("has nulls: fill or drop them".into()),
        DataType::Dictionary(..) => {
            // Each distinct word is read once.
            let dictionary = array.as_any_dictionary();
            let words = operations(dictionary.values())?;
            Ok(dictionary.normalized_keys().into_iter().map(|key| words[key]).collect())
        }
        _ => {
            let numbers = numbers(array)?;
            match numbers.iter().max() {
                Some(most) if *most >= OPS.len() as u64 => Err(format!("has {most}: {EXPECTED}")),
                _ => Ok(numbers),
            }
        }
    }
}
