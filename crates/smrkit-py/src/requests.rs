//! A table of requests as a demand: the columns of `docs/reference/trace-parquet.md`, from any library of data frames.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader, UInt64Array, make_array};
use arrow_schema::{DataType, Schema};
use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Described, Opened, Opening};
use smrkit::request::{InMemory, Request};
use smrkit::stats::outcome::Replayed;
use smrkit_trace::parquet::NO_TIMES;
use smrkit_trace::parquet::requests::{NoRequest, ROWS, TableColumns, numbers};

use crate::error::Raised;

const NAME: &str = "requests";

/// The requests of a table, a demand on a disk that has room for all of them.
#[pyclass(frozen)]
#[derive(Clone)]
pub struct Requests {
    requests: Arc<[Request]>,
    /// Why the requests can't be replayed by their times, if the table has none.
    timeless: Option<String>,
}

#[pymethods]
impl Requests {
    /// Reads an Arrow stream, or a dict of columns that are numpy arrays or lists.
    #[new]
    fn new(py: Python, table: &Bound<PyAny>) -> PyResult<Requests> {
        let (batches, schema) = match table.cast::<PyDict>() {
            Ok(columns) => {
                let batch = batch_from_dict(columns)?;
                let schema = batch.schema();
                (vec![batch], schema)
            }
            Err(_) => batches_from_stream(table)?,
        };
        requests(&batches, &schema).raised(py)
    }

    fn __len__(&self) -> usize {
        self.requests.len()
    }
}

impl Requests {
    /// The requests.
    pub fn rows(&self) -> &[Request] {
        &self.requests
    }

    /// The demand.
    pub fn demand(&self) -> Arc<dyn Demand> {
        Arc::new(self.clone())
    }
}

impl Demand for Requests {
    fn least_sectors(&self) -> Result<Option<u64>, Error> {
        Ok(Some(self.requests.iter().map(|request| request.end().0).max().unwrap_or(0)))
    }

    fn open(&self, _opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        let source = Box::new(InMemory::new(Arc::clone(&self.requests)));
        let described = Described::new(source, Replayed::default());
        Ok(Box::new(Described { disorder: self.timeless.clone(), ..described }))
    }
}

/// Reads the batches of `__arrow_c_stream__`, which every library of data frames has.
fn batches_from_stream(table: &Bound<PyAny>) -> PyResult<(Vec<RecordBatch>, Arc<Schema>)> {
    let capsule = table.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: by the Arrow PyCapsule interface, a capsule of this name holds a stream, which `from_raw` moves out of the capsule.
    #[allow(unsafe_code)]
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    let failed = |error: arrow_schema::ArrowError| wrong(table.py(), &format!("the Arrow stream failed: {error}"));
    let reader = RecordBatchStreamReader::try_new(stream).map_err(failed)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    Ok((batches, schema))
}

fn batch_from_dict(columns: &Bound<PyDict>) -> PyResult<RecordBatch> {
    let mut named = Vec::new();
    for (name, values) in columns {
        let name: String = name.extract()?;
        named.push((name.clone(), column_from_values(&name, &values)?));
    }
    RecordBatch::try_from_iter(named).map_err(|error| wrong(columns.py(), &error.to_string()))
}

/// Reads a column from a buffer, or from a list of words or whole numbers.
fn column_from_values(name: &str, values: &Bound<PyAny>) -> PyResult<ArrayRef> {
    let py = values.py();
    if values.hasattr("__arrow_c_stream__")? || values.hasattr("__arrow_c_array__")? {
        let message =
            "put Arrow columns into a table first, such as pyarrow.table(columns) or polars.DataFrame(columns)";
        return Err(wrong(py, &format!("column {name}: {message}")));
    }
    if let Ok(buffer) = PyUntypedBuffer::get(values) {
        return column_over_buffer(buffer).map_err(|problem| wrong(py, &format!("column {name} {problem}")));
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

/// Keeps Python's buffer alive until the column over it is dropped.
struct KeepAlive(#[allow(dead_code, reason = "held, not read")] PyUntypedBuffer);

impl std::panic::RefUnwindSafe for KeepAlive {}

/// A column over a buffer, such as a numpy array, without copying its numbers.
fn column_over_buffer(buffer: PyUntypedBuffer) -> Result<ArrayRef, String> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    // Integers have 1, 2, 4 or 8 bytes, so the logarithm is the index.
    let of_width = |types: [DataType; 4], bytes: usize| types[bytes.trailing_zeros() as usize].clone();
    let kind = match ElementType::from_format(buffer.format()) {
        ElementType::UnsignedInteger { bytes } => of_width([UInt8, UInt16, UInt32, UInt64], bytes),
        ElementType::SignedInteger { bytes } => of_width([Int8, Int16, Int32, Int64], bytes),
        _ => return Err("holds no whole numbers: give integers, such as numpy.uint64".into()),
    };
    if buffer.dimensions() != 1 || !buffer.is_c_contiguous() {
        return Err("does not lie in one piece: use numpy.ascontiguousarray".into());
    }
    let (address, bytes, items) = (buffer.buf_ptr() as usize, buffer.len_bytes(), buffer.item_count());
    // The pointer of an empty buffer is arbitrary.
    if bytes > 0 && address % buffer.item_size() != 0 {
        return Err("is not aligned: copy it first".into());
    }
    let data = match NonNull::new(address as *mut u8).filter(|_| bytes > 0) {
        // SAFETY: the buffer has `bytes` bytes, and Python neither moves nor frees it until `KeepAlive` is dropped.
        #[allow(unsafe_code)]
        Some(first) => unsafe {
            arrow_buffer::Buffer::from_custom_allocation(first, bytes, Arc::new(KeepAlive(buffer)))
        },
        None => arrow_buffer::Buffer::from_vec(Vec::<u64>::new()),
    };
    let data = arrow_data::ArrayData::builder(kind).len(items).add_buffer(data).build();
    data.map(make_array).map_err(|error| error.to_string())
}

/// An exception about the table.
fn wrong(py: Python, message: &str) -> PyErr {
    crate::error::exception(py, &Error::input(NAME, message.to_string()))
}

/// Reads the requests of all batches. An invalid value is an error that names its row.
fn requests(batches: &[RecordBatch], schema: &Schema) -> Result<Requests, Error> {
    let columns = TableColumns::of(schema).map_err(|what| Error::input(NAME, what))?;
    let mut origin = None;
    let mut requests = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for batch in batches {
        if let Some(volumes) = batch.column_by_name("volume")
            && numbers(volumes).is_ok_and(|volumes| volumes.iter().any(|&volume| volume > 0))
        {
            return Err(Error::input(NAME, "requests of several volumes: take those of one, or give the trace's file"));
        }
        for at in (0..batch.num_rows()).step_by(ROWS) {
            let rows = batch.slice(at, ROWS.min(batch.num_rows() - at));
            let first = requests.len();
            columns.append(&rows, 1, &mut origin, &mut requests).map_err(|NoRequest { row, what }| match row {
                Some(row) => Error::input(NAME, format!("row {} (from 0) {what}", first + row)),
                None => Error::input(NAME, what),
            })?;
        }
    }
    let names = schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
    let timeless = columns.time.is_none().then(|| format!("no column of times among {names}: {NO_TIMES}"));
    Ok(Requests { requests: requests.into(), timeless })
}
