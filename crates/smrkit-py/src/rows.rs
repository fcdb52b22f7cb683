//! Tables for Python: a row for each request or physical access of a run, or each request of a trace; handed over as Arrow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use smrkit::experiment::pool::{RecorderOf, RequestSink};
use smrkit::request::Request;
use smrkit::stats::counts::RequestRow;
use smrkit_trace::parquet::table::{Taken, Values, column, int, long, operations, word};
use smrkit_trace::rows::{MemberAccess, Row, recorders};

/// A table in columns, in parts.
#[pyclass(frozen)]
pub struct Rows(Vec<RecordBatch>);

#[pymethods]
impl Rows {
    /// Hands the table over without a copy.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Whoever asks for other types casts: the interface allows it.
        let _ = requested_schema;
        let batches = RecordBatchIterator::new(self.0.clone().into_iter().map(Ok), self.0[0].schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.0.iter().map(RecordBatch::num_rows).sum()
    }

    /// Names of the columns.
    fn names(&self) -> Vec<String> {
        self.0[0].schema().fields().iter().map(|field| field.name().clone()).collect()
    }
}

/// Rows in a part of a table; a longer one would be copied each time it grows.
const PART_ROWS: usize = 1 << 17;

/// A table that is being filled, part by part.
pub struct Parts<R: 'static> {
    columns: &'static [Taken<R>],
    full: Vec<RecordBatch>,
    last: Vec<R>,
}

impl<R> Parts<R> {
    /// A table of these columns.
    pub fn new(columns: &'static [Taken<R>]) -> Parts<R> {
        Parts { columns, full: Vec::new(), last: Vec::new() }
    }

    /// Appends a row.
    pub fn push(&mut self, row: R) {
        self.last.push(row);
        if self.last.len() == PART_ROWS {
            self.close();
        }
    }

    fn close(&mut self) {
        let arrays = self.columns.iter().map(|(column, of)| (column.name, array(column.bits, of(&self.last))));
        self.full.push(RecordBatch::try_from_iter(arrays).expect("columns of one length"));
        self.last.clear();
    }

    /// The table.
    pub fn table(mut self) -> Rows {
        if !self.last.is_empty() || self.full.is_empty() {
            self.close();
        }
        Rows(self.full)
    }
}

/// The values of a column, `bits` wide if they are whole numbers.
fn array(bits: i8, values: Values) -> ArrayRef {
    match values {
        Values::Long(all) => Arc::new(UInt64Array::from_iter_values(all.iter().map(|value| value.cast_unsigned()))),
        Values::Int(all) => match bits {
            8 => Arc::new(UInt8Array::from_iter_values(all.iter().map(|&value| value as u8))),
            16 => Arc::new(UInt16Array::from_iter_values(all.iter().map(|&value| value as u16))),
            _ => Arc::new(UInt32Array::from_iter_values(all.iter().map(|value| value.cast_unsigned()))),
        },
        Values::Kinds(kinds, words) => {
            Arc::new(DictionaryArray::<Int8Type>::new(kinds.into(), Arc::new(StringArray::from(words))))
        }
        Values::Words(all) => {
            Arc::new(StringArray::from_iter_values(all.iter().map(|word| String::from_utf8_lossy(word.data()))))
        }
        Values::Real(all) => Arc::new(Float64Array::from_iter_values(all.iter().copied())),
    }
}

/// The columns of the requests of a trace.
pub const TRACED: &[Taken<Request>] = &[
    (column("time_ns", 64), |rows| long(rows, |row| row.time.0)),
    (word("op"), |rows| operations(rows, |row| row.op)),
    (column("lba", 64), |rows| long(rows, |row| row.lba.0)),
    (column("sectors", 32), |rows| int(rows, |row| row.sectors)),
    (column("volume", 16), |rows| int(rows, |row| row.volume.into())),
];

/// A table that a run fills.
pub struct Shared<R: 'static>(Arc<Mutex<Parts<R>>>);

impl<R> Clone for Shared<R> {
    fn clone(&self) -> Shared<R> {
        Shared(Arc::clone(&self.0))
    }
}

impl<R: Row> Default for Shared<R> {
    fn default() -> Shared<R> {
        Shared(Arc::new(Mutex::new(Parts::new(R::COLUMNS))))
    }
}

impl<R: Row> Shared<R> {
    fn lock(&self) -> MutexGuard<'_, Parts<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows that have been filled in.
    pub fn take(&self) -> Rows {
        std::mem::replace(&mut *self.lock(), Parts::new(R::COLUMNS)).table()
    }
}

impl Shared<RequestRow> {
    /// Fills it with the requests of a run.
    pub fn sink(&self) -> RequestSink {
        let own = self.clone();
        Box::new(move |row: &RequestRow| own.lock().push(*row))
    }
}

impl Shared<MemberAccess> {
    /// Fills it with the physical accesses of a run.
    pub fn recorders(&self) -> RecorderOf {
        let own = self.clone();
        recorders(move |access| own.lock().push(access))
    }
}
