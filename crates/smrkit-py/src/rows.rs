//! Tables for Python: a row for each request or physical access of a run, or each request of a trace; handed over as Arrow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{ArrowPrimitiveType, Int8Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, DictionaryArray, PrimitiveArray, RecordBatch, RecordBatchIterator, StringArray};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use smrkit::disk::Recorder;
use smrkit::experiment::pool::{RecorderOf, RequestSink};
use smrkit::request::{Op, Request};
use smrkit::stats::counts::RequestRow;
use smrkit::tally::{Access, Cause};

use crate::requests::OPS;

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

/// Rows in a part of a table; a longer column would be copied each time it grows.
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

impl Shared<RequestColumns> {
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
    table: Shared<RequestColumns>,
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

impl Shared<AccessColumns> {
    /// Fills it with the physical accesses of a run.
    pub fn recorders(&self) -> RecorderOf {
        let own = self.clone();
        Box::new(move |member| Box::new(OfMember { member: member as u32, accesses: own.clone() }))
    }
}

struct OfMember {
    member: u32,
    accesses: Shared<AccessColumns>,
}

impl Recorder for OfMember {
    fn access(&mut self, access: &Access) {
        self.accesses.lock().open().append(&[(self.member, *access)]);
    }
}

fn numbers<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), None))
}

/// Words by their numbers.
fn words(numbers: Vec<i8>, words: &[&str]) -> ArrayRef {
    let values = Arc::new(StringArray::from(words.to_vec()));
    Arc::new(DictionaryArray::<Int8Type>::new(numbers.into(), values))
}

fn operations(numbers: Vec<i8>) -> ArrayRef {
    words(numbers, &OPS.map(Op::name))
}

fn causes(numbers: Vec<i8>) -> ArrayRef {
    words(numbers, &Cause::ALL.map(Cause::name))
}

/// A table that is filled from rows: each column's name, its values, what a row has there, and what makes an array of them.
macro_rules! filled {
    ($(#[$doc:meta])* $name:ident: $of:ty, $row:ident => { $($column:ident: $value:ty = $take:expr => $array:expr,)* }) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name {
            $($column: Vec<$value>,)*
        }

        impl $name {
            /// Appends rows, column by column.
            pub fn append(&mut self, rows: &[$of]) {
                $(self.$column.extend(rows.iter().map(|$row| $take));)*
            }
        }

        impl Filled for $name {
            fn with_capacity(rows: usize) -> $name {
                $name { $($column: Vec::with_capacity(rows),)* }
            }

            fn rows(&self) -> usize {
                [$(self.$column.len()),*][0]
            }

            fn columns(self) -> Vec<(&'static str, ArrayRef)> {
                vec![$((stringify!($column), $array(self.$column)),)*]
            }
        }
    };
}

filled! {
    /// The table of `--requests`.
    RequestColumns: RequestRow, row => {
        index: u64 = row.index => numbers::<UInt64Type>,
        source: u8 = row.source => numbers::<UInt8Type>,
        row: u64 = row.row => numbers::<UInt64Type>,
        op: i8 = row.op as i8 => operations,
        lba: u64 = row.lba => numbers::<UInt64Type>,
        sectors: u32 = row.sectors => numbers::<UInt32Type>,
        arrival_ns: u64 = row.arrival_ns => numbers::<UInt64Type>,
        start_ns: u64 = row.start_ns => numbers::<UInt64Type>,
        end_ns: u64 = row.end_ns => numbers::<UInt64Type>,
        wait_ns: u64 = row.wait_ns => numbers::<UInt64Type>,
        latency_ns: u64 = row.latency_ns => numbers::<UInt64Type>,
    }
}

filled! {
    /// The table of `--accesses`, with the member.
    AccessColumns: (u32, Access), row => {
        member: u32 = row.0 => numbers::<UInt32Type>,
        time_ns: u64 = row.1.start.0 => numbers::<UInt64Type>,
        cause: i8 = row.1.cause as i8 => causes,
        op: i8 = if row.1.write { Op::Write } else { Op::Read } as i8 => operations,
        pba: u64 = row.1.pba.0 => numbers::<UInt64Type>,
        sectors: u64 = row.1.sectors => numbers::<UInt64Type>,
        duration_ns: u64 = row.1.duration.0 => numbers::<UInt64Type>,
    }
}

filled! {
    /// The requests of a trace.
    Traced: Request, request => {
        time_ns: u64 = request.time.0 => numbers::<UInt64Type>,
        op: i8 = request.op as i8 => operations,
        lba: u64 = request.lba.0 => numbers::<UInt64Type>,
        sectors: u32 = request.sectors => numbers::<UInt32Type>,
        volume: u16 = request.volume => numbers::<UInt16Type>,
    }
}
