//! From rows to requests: times from the first row on, bytes to sectors, and counts of what had to be mended.

use std::path::Path;

use crate::row::{Bad, Problem, TraceRow};
use smrkit::error::{BadInput, Error};
use smrkit::message::{Field, Message};
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
        let mut message = Message::from(bad.message(text));
        if cut {
            message = message + "; the file ends in the middle of this row: it was cut short, fetch or copy it again";
        }
        if bad.problem != Problem::TooManyVolumes {
            let or = if cut { ", or" } else { "; mend the row, or" };
            message = message + or + " leave such rows out with " + Field::SkipBadRows;
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
                       row, or leave such rows out with ";
        Err(bad_row(path, number, None, Message::from(message) + Field::SkipBadRows))
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
pub(crate) fn bad_row(path: &Path, line: u64, column: Option<u64>, message: impl Into<Message>) -> Error {
    Error::Input(Box::new(BadInput { path: path.into(), line: Some(line), column, message: message.into() }))
}
