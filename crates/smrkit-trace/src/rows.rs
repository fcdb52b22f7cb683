//! The tables behind `--requests` and `--accesses`: a row for each request or physical access of one run, as Parquet.
//!
//! Operations and causes are words, all else unsigned whole numbers; `docs/reference/trace-parquet.md` describes them. Each file appears at `finish`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use smrkit::disk::Recorder;
use smrkit::engine::saved::SavedState;
use smrkit::error::Error;
use smrkit::experiment::comparison::RunRecorders;
use smrkit::experiment::pool::RecorderOf;
use smrkit::request::Op;
use smrkit::stats::counts::RequestRow;
use smrkit::tally::{Access, Cause};

use crate::output::TargetFile;
use crate::parquet::table::{Column, GROUP_ROWS, TableWriter, batch, numbers, operations, words};
use crate::parquet::{KEY_FORMAT, KEY_ROWS, KEY_VERSION, VERSION};

/// A physical access of one drive of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberAccess {
    /// The drive's number among the array's `members`.
    pub member: u32,
    /// The access.
    pub access: Access,
}

/// A table being written, a row group at a time.
pub struct Rows<R: Row> {
    rows: Vec<R>,
    columns: &'static [Column<R>],
    table: TableWriter,
    written: u64,
}

impl<R: Row> Rows<R> {
    /// Opens a table of `columns` that will become `path`.
    pub fn create(path: &Path, columns: &'static [Column<R>]) -> Result<Rows<R>, Error> {
        let table = TableWriter::create(path, batch(columns, &[]).schema())?;
        Ok(Rows { rows: Vec::with_capacity(GROUP_ROWS), columns, table, written: 0 })
    }

    /// Appends a row.
    #[inline]
    pub fn push(&mut self, row: &R) -> Result<(), Error> {
        self.rows.push(*row);
        if self.rows.len() < GROUP_ROWS { Ok(()) } else { self.flush() }
    }

    /// Writes the last rows, and makes the file appear under its name.
    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
        self.table.finish(vec![
            pair(KEY_FORMAT, R::KIND),
            pair(KEY_VERSION, &VERSION.to_string()),
            pair(KEY_ROWS, &self.written.to_string()),
        ])
    }

    fn flush(&mut self) -> Result<(), Error> {
        if !self.rows.is_empty() {
            self.table.write_group(&batch(self.columns, &self.rows))?;
            self.written += self.rows.len() as u64;
            self.rows.clear();
        }
        Ok(())
    }
}

/// A row of one of the tables.
pub trait Row: Copy + 'static {
    /// The columns of its table.
    const COLUMNS: &'static [Column<Self>];
    /// The table's kind, which its file names.
    const KIND: &'static str;
}

impl Row for RequestRow {
    const COLUMNS: &'static [Column<RequestRow>] = &[
        ("index", |rows| numbers::<UInt64Type, _>(rows, |row| row.index)),
        ("source", |rows| numbers::<UInt8Type, _>(rows, |row| row.source)),
        ("row", |rows| numbers::<UInt64Type, _>(rows, |row| row.row)),
        ("op", |rows| operations(rows, |row| row.op)),
        ("lba", |rows| numbers::<UInt64Type, _>(rows, |row| row.lba)),
        ("sectors", |rows| numbers::<UInt32Type, _>(rows, |row| row.sectors)),
        ("arrival_ns", |rows| numbers::<UInt64Type, _>(rows, |row| row.arrival_ns)),
        ("start_ns", |rows| numbers::<UInt64Type, _>(rows, |row| row.start_ns)),
        ("end_ns", |rows| numbers::<UInt64Type, _>(rows, |row| row.end_ns)),
        ("wait_ns", |rows| numbers::<UInt64Type, _>(rows, |row| row.wait_ns)),
        ("latency_ns", |rows| numbers::<UInt64Type, _>(rows, |row| row.latency_ns)),
    ];
    const KIND: &'static str = "requests";
}

impl Row for MemberAccess {
    /// `member` is left out for a single drive.
    const COLUMNS: &'static [Column<MemberAccess>] = &[
        ("member", |rows| numbers::<UInt32Type, _>(rows, |row| row.member)),
        ("time_ns", |rows| numbers::<UInt64Type, _>(rows, |row| row.access.start.0)),
        ("cause", |rows| words(rows, &Cause::ALL.map(Cause::name), |row| row.access.cause as i8)),
        ("op", |rows| operations(rows, |row| if row.access.write { Op::Write } else { Op::Read })),
        ("pba", |rows| numbers::<UInt64Type, _>(rows, |row| row.access.pba.0)),
        ("sectors", |rows| numbers::<UInt64Type, _>(rows, |row| row.access.sectors)),
        ("duration_ns", |rows| numbers::<UInt64Type, _>(rows, |row| row.access.duration.0)),
    ];
    const KIND: &'static str = "accesses";
}

/// Passes the accesses of a drive on with its number.
struct OfMember<F>(u32, F);

impl<F: FnMut(MemberAccess) + Send> Recorder for OfMember<F> {
    fn access(&mut self, access: &Access) {
        (self.1)(MemberAccess { member: self.0, access: *access });
    }
}

/// Recorders that pass the physical accesses of each drive to `push`.
pub fn recorders(push: impl FnMut(MemberAccess) + Clone + Send + 'static) -> RecorderOf {
    Box::new(move |member| Box::new(OfMember(member as u32, push.clone())))
}

/// The files being filled.
#[derive(Default)]
pub struct RowFiles(Vec<Box<dyn FnOnce() -> Result<(), Error>>>);

impl RowFiles {
    /// Opens a table, and returns the function that adds rows to it during the run. The first error is kept until `finish`, and later rows are
    /// dropped.
    fn create<R: Row + Send>(
        &mut self,
        path: &Path,
        columns: &'static [Column<R>],
    ) -> Result<impl Fn(&R) + Clone + Send + use<R>, Error> {
        let filled = Arc::new(Mutex::new(Some(Ok(Rows::create(path, columns)?))));
        let finished = Arc::clone(&filled);
        self.0.push(Box::new(move || {
            let table: Option<Result<Rows<R>, Error>> = finished.lock().unwrap_or_else(PoisonError::into_inner).take();
            table.map_or(Ok(()), |rows| rows?.finish())
        }));
        Ok(move |row: &R| {
            let mut table = filled.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(Ok(rows)) = table.as_mut()
                && let Err(error) = rows.push(row)
            {
                *table = Some(Err(error));
            }
        })
    }

    /// Opens the file for the state at the end of the run of `records`. A run that is interrupted leaves none.
    pub fn save_state(&mut self, path: &Path, records: &mut RunRecorders) -> Result<(), Error> {
        let (target, saved) = (TargetFile::open(path)?, Arc::new(Mutex::new(None)));
        let own = Arc::clone(&saved);
        records.state = Some(Box::new(move |state| *own.lock().unwrap_or_else(PoisonError::into_inner) = Some(state)));
        self.0.push(Box::new(move || {
            let state: Option<SavedState> = saved.lock().unwrap_or_else(PoisonError::into_inner).take();
            state.map_or(Ok(()), |state| target.write(&state.bytes))
        }));
        Ok(())
    }

    /// Writes the last rows, and makes the files appear under their names.
    pub fn finish(self) -> Result<(), Error> {
        self.0.into_iter().try_for_each(|finish| finish())
    }
}

/// Opens the requested files, and makes the recorders that fill them. `array`: the run is of an array.
pub fn open(requests: Option<&Path>, accesses: Option<&Path>, array: bool) -> Result<(RunRecorders, RowFiles), Error> {
    let (mut records, mut files) = (RunRecorders::default(), RowFiles::default());
    if let Some(path) = requests {
        records.requests = Some(Box::new(files.create(path, RequestRow::COLUMNS)?));
    }
    if let Some(path) = accesses {
        let columns = if array { MemberAccess::COLUMNS } else { &MemberAccess::COLUMNS[1..] };
        let push = files.create(path, columns)?;
        records.accesses = Some(recorders(move |access| push(&access)));
    }
    Ok((records, files))
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;
    use smrkit::units::{Nanos, Pba};

    /// Words stand for their places here.
    const WORDS: [&str; 8] = ["read", "write", "flush", "discard", "host", "destage", "clean", "map"];

    /// The names of the columns, and the rows as numbers.
    fn table(path: &Path) -> (Vec<String>, Vec<Vec<u64>>) {
        let file = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        let columns = file.metadata().file_metadata().schema_descr().columns();
        let names = columns.iter().map(|column| column.name().to_string()).collect();
        let number = |field: &Field| match field {
            Field::ULong(value) => *value,
            Field::UInt(value) => u64::from(*value),
            Field::UByte(value) => u64::from(*value),
            Field::Str(word) => WORDS.iter().position(|known| known == word).unwrap() as u64,
            other => panic!("{other:?} is no unsigned number"),
        };
        let rows = file.get_row_iter(None).unwrap();
        (names, rows.map(|row| row.unwrap().get_column_iter().map(|(_, field)| number(field)).collect()).collect())
    }

    #[test]
    fn request_rows_are_read_by_any_parquet_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.parquet");
        let mut rows = Rows::create(&path, RequestRow::COLUMNS).unwrap();
        let count = GROUP_ROWS as u64 + 3;
        let row = |index: u64| RequestRow {
            index,
            source: (index % 3) as u8,
            row: index / 3,
            op: if index.is_multiple_of(2) { Op::Write } else { Op::Discard },
            lba: u64::MAX - index,
            sectors: u32::MAX,
            arrival_ns: index * 10,
            start_ns: index * 10 + 4,
            end_ns: index * 10 + 24_780_000,
            wait_ns: 4,
            latency_ns: 24_780_000,
        };
        (0..count).for_each(|index| rows.push(&row(index)).unwrap());
        assert!(!path.exists(), "the file appears at the end");
        rows.finish().unwrap();
        let (names, read) = table(&path);
        let wanted = "index source row op lba sectors arrival_ns start_ns end_ns wait_ns latency_ns";
        assert_eq!(names, wanted.split(' ').collect::<Vec<_>>());
        assert_eq!(read.len() as u64, count);
        let last = count - 1;
        let (arrival, lba) = (last * 10, u64::MAX - last);
        let expected = [
            last,
            last % 3,
            last / 3,
            1,
            lba,
            u32::MAX.into(),
            arrival,
            arrival + 4,
            arrival + 24_780_000,
            4,
            24_780_000,
        ];
        assert_eq!(read[last as usize], expected);
        assert_eq!(read[1][3], 3, "discard");
    }

    #[test]
    fn access_rows_are_read_by_any_parquet_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("accesses.parquet");
        let mut rows = Rows::create(&path, &MemberAccess::COLUMNS[1..]).unwrap();
        for cause in Cause::ALL {
            let pba = Pba(cause as u64 * 1000);
            let (start, duration) = (Nanos(5), Nanos(10_033_444));
            let access = Access { start, duration, cause, write: false, pba, sectors: 7 };
            rows.push(&MemberAccess { member: 0, access }).unwrap();
        }
        rows.finish().unwrap();
        let (names, read) = table(&path);
        assert_eq!(names, ["time_ns", "cause", "op", "pba", "sectors", "duration_ns"]);
        let expected = |cause: u64| vec![5, 4 + cause, 0, cause * 1000, 7, 10_033_444];
        assert_eq!(read, (0..4).map(expected).collect::<Vec<_>>());
    }

    #[test]
    fn accesses_of_an_array_tell_the_member_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("accesses.parquet");
        let mut rows = Rows::create(&path, MemberAccess::COLUMNS).unwrap();
        let access =
            Access { start: Nanos(5), duration: Nanos(6), cause: Cause::Map, write: true, pba: Pba(7), sectors: 8 };
        (0..2).for_each(|member| rows.push(&MemberAccess { member: 40 + member, access }).unwrap());
        rows.finish().unwrap();
        let (names, read) = table(&path);
        assert_eq!(names, ["member", "time_ns", "cause", "op", "pba", "sectors", "duration_ns"]);
        assert_eq!(read, [40, 41].map(|member| vec![member, 5, 7, 1, 7, 8, 6]));
    }

    #[test]
    fn an_empty_table_is_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.parquet");
        Rows::create(&path, MemberAccess::COLUMNS).unwrap().finish().unwrap();
        assert_eq!(table(&path).1.len(), 0);
    }
}
