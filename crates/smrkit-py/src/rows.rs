//! Tables for Python: a row for each request or physical access of a run, or each request of a trace; handed over as Arrow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int8Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_array::{UInt8Array, UInt16Array, UInt32Array, UInt64Array};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use smrkit::disk::Recorder;
use smrkit::experiment::pool::{RecorderOf, RequestSink};
use smrkit::request::{Op, Request};
use smrkit::stats::rows::RequestRow;
use smrkit::tally::{Access, Cause};

use crate::column::OPS;

/// A table in columns.
#[pyclass(frozen)]
pub struct Rows(RecordBatch);

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
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// Names of the columns.
    fn names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }
}

/// Columns that are being filled.
pub trait Filled: Default + Send + 'static {
    /// The columns by their names.
    fn columns(self) -> Vec<(&'static str, ArrayRef)>;

    /// The table.
    fn table(self) -> Rows {
        let batch = RecordBatch::try_from_iter(self.columns());
        Rows(batch.expect("columns of one length"))
    }
}

/// A table that a run fills.
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(Arc::clone(&self.0))
    }
}

impl<T: Filled> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared(Arc::default())
    }
}

impl<T: Filled> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows that have been filled in.
    pub fn take(&self) -> Rows {
        std::mem::take(&mut *self.lock()).table()
    }
}

impl Shared<Latencies> {
    /// Fills it with the requests of a run.
    pub fn sink(&self) -> RequestSink {
        let own = self.clone();
        Box::new(move |row: &RequestRow| own.lock().push(row))
    }
}

impl Shared<Accesses> {
    /// Fills it with the physical accesses of a run.
    pub fn recorders(&self) -> RecorderOf {
        let own = self.clone();
        Box::new(move |member| Box::new(OfMember { member: member as u32, accesses: own.clone() }))
    }
}

struct OfMember {
    member: u32,
    accesses: Shared<Accesses>,
}

impl Recorder for OfMember {
    fn access(&mut self, access: &Access) {
        self.accesses.lock().push(self.member, access);
    }
}

/// Words by their numbers.
fn words(numbers: Vec<i8>, words: &[&str]) -> ArrayRef {
    let values = Arc::new(StringArray::from(words.to_vec()));
    Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(numbers), values))
}

fn operations(numbers: Vec<i8>) -> ArrayRef {
    words(numbers, &OPS.map(Op::name))
}

fn long(numbers: Vec<u64>) -> ArrayRef {
    Arc::new(UInt64Array::from(numbers))
}

fn int(numbers: Vec<u32>) -> ArrayRef {
    Arc::new(UInt32Array::from(numbers))
}

/// The table of `--requests`.
#[derive(Default)]
pub struct Latencies {
    index: Vec<u64>,
    source: Vec<u8>,
    row: Vec<u64>,
    op: Vec<i8>,
    lba: Vec<u64>,
    sectors: Vec<u32>,
    arrival_ns: Vec<u64>,
    start_ns: Vec<u64>,
    end_ns: Vec<u64>,
    wait_ns: Vec<u64>,
    latency_ns: Vec<u64>,
}

impl Latencies {
    fn push(&mut self, row: &RequestRow) {
        self.index.push(row.index);
        self.source.push(row.source);
        self.row.push(row.row);
        self.op.push(row.op as i8);
        self.lba.push(row.lba);
        self.sectors.push(row.sectors);
        self.arrival_ns.push(row.arrival_ns);
        self.start_ns.push(row.start_ns);
        self.end_ns.push(row.end_ns);
        self.wait_ns.push(row.wait_ns);
        self.latency_ns.push(row.latency_ns);
    }
}

impl Filled for Latencies {
    fn columns(self) -> Vec<(&'static str, ArrayRef)> {
        vec![
            ("index", long(self.index)),
            ("source", Arc::new(UInt8Array::from(self.source))),
            ("row", long(self.row)),
            ("op", operations(self.op)),
            ("lba", long(self.lba)),
            ("sectors", int(self.sectors)),
            ("arrival_ns", long(self.arrival_ns)),
            ("start_ns", long(self.start_ns)),
            ("end_ns", long(self.end_ns)),
            ("wait_ns", long(self.wait_ns)),
            ("latency_ns", long(self.latency_ns)),
        ]
    }
}

/// The table of `--accesses`, with the member.
#[derive(Default)]
pub struct Accesses {
    member: Vec<u32>,
    time_ns: Vec<u64>,
    cause: Vec<i8>,
    op: Vec<i8>,
    pba: Vec<u64>,
    sectors: Vec<u64>,
    duration_ns: Vec<u64>,
}

impl Accesses {
    fn push(&mut self, member: u32, access: &Access) {
        self.member.push(member);
        self.time_ns.push(access.start.0);
        self.cause.push(access.cause as i8);
        self.op.push(if access.write { Op::Write } else { Op::Read } as i8);
        self.pba.push(access.pba.0);
        self.sectors.push(access.sectors);
        self.duration_ns.push(access.duration.0);
    }
}

impl Filled for Accesses {
    fn columns(self) -> Vec<(&'static str, ArrayRef)> {
        vec![
            ("member", int(self.member)),
            ("time_ns", long(self.time_ns)),
            ("cause", words(self.cause, &Cause::ALL.map(Cause::name))),
            ("op", operations(self.op)),
            ("pba", long(self.pba)),
            ("sectors", long(self.sectors)),
            ("duration_ns", long(self.duration_ns)),
        ]
    }
}

/// The requests of a trace.
#[derive(Default)]
pub struct Traced {
    time_ns: Vec<u64>,
    op: Vec<i8>,
    lba: Vec<u64>,
    sectors: Vec<u32>,
    volume: Vec<u16>,
}

impl Traced {
    /// Appends a request.
    pub fn push(&mut self, request: &Request) {
        self.time_ns.push(request.time.0);
        self.op.push(request.op as i8);
        self.lba.push(request.lba.0);
        self.sectors.push(request.sectors);
        self.volume.push(request.volume);
    }
}

impl Filled for Traced {
    fn columns(self) -> Vec<(&'static str, ArrayRef)> {
        vec![
            ("time_ns", long(self.time_ns)),
            ("op", operations(self.op)),
            ("lba", long(self.lba)),
            ("sectors", int(self.sectors)),
            ("volume", Arc::new(UInt16Array::from(self.volume))),
        ]
    }
}
