//! Tables for Python, which it takes as Arrow: a row for each request or physical access of a run, or each request of a trace.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{RecordBatch, RecordBatchIterator};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use smrkit::request::Request;
use smrkit_trace::parquet::table::{Column, batch, numbers, operations};
use smrkit_trace::rows::Row;

/// A table in columns, as a list of batches.
#[pyclass(frozen)]
pub struct Rows(Vec<RecordBatch>);

#[pymethods]
impl Rows {
    /// Exports the table without a copy.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows ignoring a requested schema; the consumer then casts.
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

/// Rows of a batch. A single long batch would be copied each time it grows.
const BATCH_ROWS: usize = 1 << 17;

/// A table that is being filled, batch by batch.
pub struct Parts<R: 'static> {
    columns: &'static [Column<R>],
    full: Vec<RecordBatch>,
    last: Vec<R>,
}

impl<R> Parts<R> {
    /// An empty table with these columns.
    pub fn new(columns: &'static [Column<R>]) -> Parts<R> {
        Parts { columns, full: Vec::new(), last: Vec::new() }
    }

    /// Appends a row.
    pub fn push(&mut self, row: R) {
        self.last.push(row);
        if self.last.len() == BATCH_ROWS {
            self.close_batch();
        }
    }

    fn close_batch(&mut self) {
        self.full.push(batch(self.columns, &self.last));
        self.last.clear();
    }

    /// The completed table.
    pub fn table(mut self) -> Rows {
        // A table without rows has an empty batch, which carries its schema.
        if !self.last.is_empty() || self.full.is_empty() {
            self.close_batch();
        }
        Rows(self.full)
    }
}

/// The columns of the requests of a trace.
pub const TRACED: &[Column<Request>] = &[
    ("time_ns", |rows| numbers::<UInt64Type, _>(rows, |row| row.time.0)),
    ("op", |rows| operations(rows, |row| row.op)),
    ("lba", |rows| numbers::<UInt64Type, _>(rows, |row| row.lba.0)),
    ("sectors", |rows| numbers::<UInt32Type, _>(rows, |row| row.sectors)),
    ("volume", |rows| numbers::<UInt16Type, _>(rows, |row| row.volume)),
];

/// A table that a run fills from its threads.
pub fn shared<R: Row>() -> Arc<Mutex<Parts<R>>> {
    Arc::new(Mutex::new(Parts::new(R::COLUMNS)))
}

/// Returns a function that appends a row to a shared table.
pub fn appending<R: Row + Send>(table: &Arc<Mutex<Parts<R>>>) -> impl Fn(R) + Clone + Send + use<R> {
    let table = Arc::clone(table);
    move |row| table.lock().unwrap_or_else(PoisonError::into_inner).push(row)
}

/// Takes the rows of a shared table.
pub fn taken<R: Row>(table: &Mutex<Parts<R>>) -> Rows {
    std::mem::replace(&mut *table.lock().unwrap_or_else(PoisonError::into_inner), Parts::new(R::COLUMNS)).table()
}
