//! The driver of all binary formats: hands a format the bytes at hand, and takes records of any length from it.

use crate::input::{LINE_MAX, Stream};
use crate::intake::bad_row;
use crate::reader::{BATCH, Feed, RowReader};
use crate::row::{Bad, Problem, TraceRow};
use crate::text::Agreement;
use crate::volumes::Volumes;
use smrkit::error::Error;
use smrkit::request::Request;

/// Records that are looked at to recognise a format.
const SAMPLE_RECORDS: usize = 64;

/// Step at the front of the bytes.
#[derive(Debug)]
pub(crate) enum Step {
    /// A request, and the bytes of its record.
    Row(TraceRow, usize),
    /// A heading, and its bytes.
    Heading(usize),
    /// A record that is no request, and its bytes.
    Skip(usize),
    /// A record that goes on beyond the bytes at hand.
    More,
}

/// A format of binary records.
pub(crate) trait RecordFormat: Send {
    /// Nanoseconds of one tick of `TraceRow::ticks`.
    fn tick_ns(&self) -> u64 {
        1
    }

    /// Understands the record at the front of `bytes`. The error carries the bytes to skip, 0 where that is unknown.
    fn next(&mut self, bytes: &[u8], volumes: &mut Volumes) -> Result<Step, (Bad, usize)>;

    /// Looks at the beginning of the trace, before the first record is read.
    fn prepare(&mut self, _head: &[u8]) {}

    /// The reader's choice, where there is one.
    fn detail(&self) -> Option<&'static str> {
        None
    }

    /// True if the beginning of a file can be of this format at all, beyond records that can be understood.
    fn plausible(_head: &[u8]) -> bool {
        true
    }
}

/// Records of the head that a format understands, of those looked at. All must fit, or none does: nearly any bytes make
/// some record.
pub(crate) fn agrees<F: RecordFormat + Default>(head: &[u8], whole: bool) -> Agreement {
    let (mut format, mut volumes) = (F::default(), Volumes::default());
    let (mut rest, mut records) = (head, 0);
    if !F::plausible(head) {
        return Agreement::default();
    }
    format.prepare(head);
    while records < SAMPLE_RECORDS as u64 && !rest.is_empty() {
        match format.next(rest, &mut volumes) {
            Ok(Step::Heading(used)) => {
                rest = rest.get(used..).unwrap_or_default();
                continue;
            }
            Ok(Step::Row(_, used) | Step::Skip(used)) => rest = rest.get(used..).unwrap_or_default(),
            Ok(Step::More) if whole && records == 0 => return Agreement::default(),
            Ok(Step::More) => break,
            Err(_) => return Agreement::default(),
        }
        records += 1;
    }
    Agreement { lines: records, understood: records, ..Agreement::default() }
}

/// A trace in a binary format.
pub(crate) struct Records<F> {
    feed: Feed,
    format: F,
    /// Records done.
    record: u64,
}

impl<F: RecordFormat> Records<F> {
    /// Reads `stream` as `format`.
    pub fn new(stream: Stream, mut format: F, skip_bad_rows: bool) -> Records<F> {
        format.prepare(stream.unread());
        Records { feed: Feed::new(stream, format.tick_ns(), skip_bad_rows), format, record: 0 }
    }

    fn advance(&mut self, used: usize) {
        self.feed.stream.start = (self.feed.stream.start + used).min(self.feed.stream.end);
    }

    fn more(&mut self) -> Result<(), Error> {
        let left = self.feed.stream.unread().len();
        if self.feed.stream.eof || left >= LINE_MAX {
            self.record += 1;
            let message = if self.feed.stream.eof {
                format!(
                    "the file ends in the middle of this record, {left} bytes into it: it was cut short, fetch or copy \
                         it again"
                )
            } else {
                "a record of more than 1 MiB: the file is corrupt or of another format".to_string()
            };
            self.feed.done = true;
            return Err(bad_row(&self.feed.stream.path, self.record, None, message));
        }
        self.feed.stream.refill()
    }

    fn malformed(&mut self, bad: &Bad, used: usize) -> Result<(), Error> {
        let message = match bad.problem {
            Problem::Zero => format!("{} is 0: expected a size above 0", bad.name),
            Problem::Expected(what) => format!("{}: expected {what}", bad.name),
            _ => format!("{} is too large", bad.name),
        };
        if used > 0 && self.feed.intake.skip(bad) {
            self.advance(used);
            return Ok(());
        }
        let message = match used {
            0 => message + "; the file is corrupt or of another format",
            _ => message + "; mend the record, or leave such records out with {skip_bad_rows}",
        };
        Err(bad_row(&self.feed.stream.path, self.record, None, message))
    }
}

impl<F: RecordFormat> RowReader for Records<F> {
    fn fill_some(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        while batch.len() < BATCH && !self.feed.done {
            let bytes = &self.feed.stream.buf[self.feed.stream.start..self.feed.stream.end];
            if bytes.is_empty() && self.feed.stream.eof {
                self.feed.done = true;
                return self.feed.intake.check_not_empty(&self.feed.stream.path);
            }
            let step = if bytes.is_empty() { Ok(Step::More) } else { self.format.next(bytes, &mut self.feed.volumes) };
            match step {
                Ok(Step::Row(row, used)) => {
                    self.record += 1;
                    match self.feed.intake.request(row, self.record) {
                        Ok(request) => batch.push(request),
                        Err(_) => self.feed.intake.too_far(&self.feed.stream.path, self.record)?,
                    }
                    self.advance(used);
                }
                Ok(Step::Heading(used)) => self.advance(used),
                Ok(Step::Skip(used)) => {
                    self.record += 1;
                    self.advance(used);
                }
                Ok(Step::More) => self.more()?,
                Err((bad, used)) => {
                    self.record += 1;
                    self.malformed(&bad, used)?;
                }
            }
        }
        Ok(())
    }

    fn feed(&self) -> &Feed {
        &self.feed
    }

    fn feed_mut(&mut self) -> &mut Feed {
        &mut self.feed
    }

    fn detail(&self) -> Option<&str> {
        self.format.detail()
    }
}
