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

/// Columns that are being filled.
pub trait Filled: Default + Send + 'static {
    /// Columns with room for this many rows.
    fn with_capacity(rows: usize) -> Self;

    /// Number of rows.
    fn rows(&self) -> usize;

    /// The columns by their names.
    fn columns(self) -> Vec<(&'static str, ArrayRef)>;
}

/// Rows of a part of a table: a column that grew further would be copied again and again.
const PART_ROWS: usize = 1 << 17;

/// A table that is being filled, part by part.
#[derive(Default)]
pub struct Parts<T> {
    full: Vec<RecordBatch>,
    last: T,
}

impl<T: Filled> Parts<T> {
    /// The part that has room for more rows.
    pub fn open(&mut self) -> &mut T {
        if self.last.rows() >= PART_ROWS {
            self.close(T::with_capacity(PART_ROWS));
        }
        &mut self.last
    }

    fn close(&mut self, next: T) {
        let part = RecordBatch::try_from_iter(std::mem::replace(&mut self.last, next).columns());
        self.full.push(part.expect("columns of one length"));
    }

    /// The table.
    pub fn table(mut self) -> Rows {
        if self.last.rows() > 0 || self.full.is_empty() {
            self.close(T::default());
        }
        Rows(self.full)
    }
}

/// A table that a run fills.
pub struct Shared<T>(Arc<Mutex<Parts<T>>>);

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
    fn lock(&self) -> MutexGuard<'_, Parts<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows that have been filled in.
    pub fn take(&self) -> Rows {
        std::mem::take(&mut *self.lock()).table()
    }
}

impl Shared<Latencies> {
    /// Fills it with the requests of a run, the last of them when the sink is dropped.
    pub fn sink(&self) -> RequestSink {
        let mut batch = Batch { rows: Vec::with_capacity(BATCH_ROWS), table: self.clone() };
        Box::new(move |row: &RequestRow| batch.push(row))
    }
}

/// Rows that go into columns together: eleven columns take longer one by one.
const BATCH_ROWS: usize = 256;

/// Rows on their way into their table.
struct Batch {
    rows: Vec<RequestRow>,
    table: Shared<Latencies>,
}

impl Batch {
    fn push(&mut self, row: &RequestRow) {
        self.rows.push(*row);
        if self.rows.len() == BATCH_ROWS {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.table.lock().open().append(&self.rows);
        self.rows.clear();
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.hand_over();
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
        self.accesses.lock().open().push(self.member, access);
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
    fn append(&mut self, rows: &[RequestRow]) {
        self.index.extend(rows.iter().map(|row| row.index));
        self.source.extend(rows.iter().map(|row| row.source));
        self.row.extend(rows.iter().map(|row| row.row));
        self.op.extend(rows.iter().map(|row| row.op as i8));
        self.lba.extend(rows.iter().map(|row| row.lba));
        self.sectors.extend(rows.iter().map(|row| row.sectors));
        self.arrival_ns.extend(rows.iter().map(|row| row.arrival_ns));
        self.start_ns.extend(rows.iter().map(|row| row.start_ns));
        self.end_ns.extend(rows.iter().map(|row| row.end_ns));
        self.wait_ns.extend(rows.iter().map(|row| row.wait_ns));
        self.latency_ns.extend(rows.iter().map(|row| row.latency_ns));
    }
}

impl Filled for Latencies {
    fn with_capacity(rows: usize) -> Latencies {
        Latencies {
            index: Vec::with_capacity(rows),
            source: Vec::with_capacity(rows),
            row: Vec::with_capacity(rows),
            op: Vec::with_capacity(rows),
            lba: Vec::with_capacity(rows),
            sectors: Vec::with_capacity(rows),
            arrival_ns: Vec::with_capacity(rows),
            start_ns: Vec::with_capacity(rows),
            end_ns: Vec::with_capacity(rows),
            wait_ns: Vec::with_capacity(rows),
            latency_ns: Vec::with_capacity(rows),
        }
    }

    fn rows(&self) -> usize {
        self.latency_ns.len()
    }

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
    fn with_capacity(rows: usize) -> Accesses {
        Accesses {
            member: Vec::with_capacity(rows),
            time_ns: Vec::with_capacity(rows),
            cause: Vec::with_capacity(rows),
            op: Vec::with_capacity(rows),
            pba: Vec::with_capacity(rows),
            sectors: Vec::with_capacity(rows),
            duration_ns: Vec::with_capacity(rows),
        }
    }

    fn rows(&self) -> usize {
        self.duration_ns.len()
    }

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
    fn with_capacity(rows: usize) -> Traced {
        Traced {
            time_ns: Vec::with_capacity(rows),
            op: Vec::with_capacity(rows),
            lba: Vec::with_capacity(rows),
            sectors: Vec::with_capacity(rows),
            volume: Vec::with_capacity(rows),
        }
    }

    fn rows(&self) -> usize {
        self.volume.len()
    }

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
