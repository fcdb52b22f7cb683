//! From rows to requests: times from the first row on, bytes to sectors, and counts of what had to be mended.

use std::path::Path;

use crate::row::{Bad, Problem, TraceRow};
use smrkit::error::{BadInput, Error};
use smrkit::request::{Op, Request};
use smrkit::stats::outcome::TraceNotes;
use smrkit::units::{Lba, Nanos};

/// State that all formats share about the rows so far.
#[derive(Debug)]
pub(crate) struct Intake {
    tick_ns: u64,
    first_ticks: Option<u64>,
    last_ticks: u64,
    skip_bad_rows: bool,
    /// Requests made.
    pub rows: u64,
    /// Counts of rows mended, skipped or out of order.
    pub notes: TraceNotes,
    /// The line of the first row that lies before the one above it.
    pub first_out_of_order: Option<u64>,
}

/// The row's time lies more than 584 years after the first.
#[derive(Debug)]
pub(crate) struct TimeTooFar;

impl Intake {
    /// Nothing read yet; a tick of the format has `tick_ns` nanoseconds.
    pub fn new(tick_ns: u64, skip_bad_rows: bool) -> Intake {
        Intake {
            tick_ns,
            first_ticks: None,
            last_ticks: 0,
            skip_bad_rows,
            rows: 0,
            notes: TraceNotes::default(),
            first_out_of_order: None,
        }
    }

    /// Times from now on count from the source's own zero, so that rows before the first keep theirs.
    pub fn keep_absolute_times(&mut self) {
        self.first_ticks = Some(0);
    }

    /// The request of a row. A row before the first one is at time 0.
    #[inline(always)]
    pub fn request(&mut self, row: TraceRow, line: u64) -> Result<Request, TimeTooFar> {
        let first = *self.first_ticks.get_or_insert(row.ticks);
        let time = Nanos(row.ticks.saturating_sub(first).checked_mul(self.tick_ns).ok_or(TimeTooFar)?);
        if row.ticks < self.last_ticks {
            self.notes.out_of_order_rows += 1;
            self.first_out_of_order.get_or_insert(line);
        }
        self.last_ticks = row.ticks;
        self.rows += 1;
        if row.op == Op::Flush {
            return Ok(Request { time, lba: Lba(0), sectors: 0, volume: row.volume, op: Op::Flush, source: 0 });
        }
        self.notes.unaligned_rows += u64::from(!(row.offset | row.bytes).is_multiple_of(512));
        let lba = row.offset / 512;
        // Formats keep offset + bytes below 2^64 and bytes below 2 TiB: no overflow here, and 32 bits are enough.
        let sectors = (row.offset % 512 + row.bytes).div_ceil(512) as u32;
        Ok(Request { time, lba: Lba(lba), sectors, volume: row.volume, op: row.op, source: 0 })
    }

    /// True if a bad row is to be left out; it is counted then.
    pub fn skip(&mut self, bad: &Bad) -> bool {
        let skip = self.skip_bad_rows && bad.problem != Problem::TooManyVolumes;
        self.notes.skipped_rows += u64::from(skip);
        skip
    }

    /// A row that can't be understood: counted, where such rows are skipped, or the error to stop with. `last`: the file
    /// ends with this row, and no newline follows.
    #[cold]
    pub fn bad(&mut self, path: &Path, number: u64, text: &[u8], bad: &Bad, last: bool) -> Result<(), Error> {
        if self.skip(bad) {
            return Ok(());
        }
        let cut = last && bad.at + bad.len >= text.len();
        let mut message = bad.message(text);
        if cut {
            message += "; the file ends in the middle of this row: it was cut short, fetch or copy it again";
        }
        if bad.problem != Problem::TooManyVolumes {
            let or = if cut { ", or" } else { "; mend the row, or" };
            message = message + or + " leave such rows out with {skip_bad_rows}";
        }
        Err(bad_row(path, number, Some(bad.at as u64 + 1), message))
    }

    /// As `bad`, for a row whose time is too far from the first.
    #[cold]
    pub fn too_far(&mut self, path: &Path, number: u64) -> Result<(), Error> {
        if self.skip_bad_rows {
            self.notes.skipped_rows += 1;
            return Ok(());
        }
        let message = "the time lies more than 584 years after the first row's: check the unit of the times, mend the \
                       row, or leave such rows out with {skip_bad_rows}";
        Err(bad_row(path, number, None, message))
    }

    /// The error of a trace that held no request at all.
    pub fn check_not_empty(&self, path: &Path) -> Result<(), Error> {
        if self.rows > 0 {
            return Ok(());
        }
        let message = match self.notes.skipped_rows {
            0 => "the file holds no request: check how it was made".to_string(),
            n => format!("the file holds no request: all {n} rows are malformed; check its format"),
        };
        Err(Error::input(path, message))
    }
}

/// The error of one row.
pub(crate) fn bad_row(path: &Path, line: u64, column: Option<u64>, message: impl Into<String>) -> Error {
    Error::Input(Box::new(BadInput { path: path.into(), line: Some(line), column, message: message.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ticks: u64, offset: u64, bytes: u64, op: Op) -> TraceRow {
        TraceRow { ticks, offset, bytes, volume: 3, op }
    }

    fn places(rows: &[(u64, u64)]) -> (Vec<(u64, u32)>, u64) {
        let mut intake = Intake::new(1, false);
        let place = |(at, &(offset, bytes)): (usize, &(u64, u64))| {
            let request = intake.request(row(5, offset, bytes, Op::Write), at as u64).unwrap();
            assert_eq!((request.volume, request.op, request.source), (3, Op::Write, 0));
            (request.lba.0, request.sectors)
        };
        (rows.iter().enumerate().map(place).collect(), intake.notes.unaligned_rows)
    }

    #[test]
    fn ends_that_are_not_aligned_are_rounded_outward() {
        let (found, unaligned) = places(&[(0, 512), (512, 1024), (511, 1), (511, 2), (513, 511), (1, 1024), (1024, 1)]);
        assert_eq!(found, [(0, 1), (1, 2), (0, 1), (0, 2), (1, 1), (0, 3), (2, 1)]);
        assert_eq!(unaligned, 5);
    }

    #[test]
    fn times_count_from_the_first_row_and_rows_that_go_back_are_counted() {
        let mut intake = Intake::new(1000, false);
        let mut time = |ticks, line| intake.request(row(ticks, 0, 512, Op::Read), line).ok().map(|one| one.time.0);
        assert_eq!([time(10, 1), time(12, 2), time(12, 3)], [Some(0), Some(2000), Some(2000)]);
        assert_eq!([time(11, 4), time(5, 5), time(6, 6)], [Some(1000), Some(0), Some(0)]);
        assert_eq!(time(10 + u64::MAX / 1000, 7), Some(u64::MAX / 1000 * 1000));
        assert_eq!(time(11 + u64::MAX / 1000, 8), None);
        assert_eq!((intake.notes.out_of_order_rows, intake.first_out_of_order), (2, Some(4)));
        let mut absolute = Intake::new(1000, false);
        absolute.keep_absolute_times();
        assert_eq!(absolute.request(row(10, 0, 512, Op::Read), 1).unwrap().time, Nanos(10_000));
    }

    #[test]
    fn a_flush_has_no_place_and_counts_as_a_row() {
        let mut intake = Intake::new(1, false);
        let flush = intake.request(row(1, 513, 7, Op::Flush), 1).unwrap();
        assert_eq!((flush.lba, flush.sectors, flush.op, flush.volume), (Lba(0), 0, Op::Flush, 3));
        assert_eq!((intake.rows, intake.notes.unaligned_rows), (1, 0));
    }

    #[test]
    fn a_row_cut_short_is_told_from_one_that_is_wrong() {
        let said = |at, len, last| {
            let bad = Bad { at, len, name: "the size", problem: Problem::Expected("a number") };
            Intake::new(1, false).bad("t.csv".as_ref(), 7, b"1,2,34", &bad, last).unwrap_err().to_string()
        };
        let cut =
            "the file ends in the middle of this row: it was cut short, fetch or copy it again, or leave such rows out";
        assert!(said(4, 2, true).contains(cut), "{}", said(4, 2, true));
        assert!(said(3, 3, true).contains(cut) && said(6, 0, true).contains(cut));
        for other in [said(4, 1, true), said(2, 1, true), said(4, 2, false)] {
            assert!(
                !other.contains("cut short") && other.contains("; mend the row, or leave such rows out"),
                "{other}"
            );
        }
        assert!(said(4, 2, true).contains("t.csv") && said(4, 2, true).contains('7'));
    }

    #[test]
    fn bad_rows_are_counted_where_they_are_left_out() {
        let bad = |problem| Bad { at: 0, len: 1, name: "the size", problem };
        let mut intake = Intake::new(1, true);
        let path = Path::new("t.csv");
        assert!(intake.bad(path, 1, b"x", &bad(Problem::Zero), false).is_ok());
        assert!(intake.too_far(path, 2).is_ok());
        assert_eq!(intake.notes.skipped_rows, 2);
        let many = intake.bad(path, 3, b"x", &bad(Problem::TooManyVolumes), false).unwrap_err().to_string();
        assert!(many.contains("65,535 volumes") && !many.contains("leave such rows out"), "{many}");
        assert_eq!(intake.notes.skipped_rows, 2);
        let none = intake.check_not_empty(path).unwrap_err().to_string();
        assert!(none.contains("all 2 rows are malformed"), "{none}");
        let mut strict = Intake::new(1, false);
        assert!(strict.too_far(path, 2).unwrap_err().to_string().contains("584 years"));
        assert!(strict.check_not_empty(path).unwrap_err().to_string().contains("check how it was made"));
        strict.request(row(0, 0, 512, Op::Read), 1).unwrap();
        assert!(strict.check_not_empty(path).is_ok());
    }
}
