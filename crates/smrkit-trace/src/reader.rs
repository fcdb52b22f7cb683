//! Reads requests from the bytes of a trace. A format parses one line of text or one binary record; the loops here cut the stream, convert
//! rows to requests, and skip or report malformed rows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::input::{LINE_MAX, Stream};
use crate::row::{Bad, Problem, TraceRow, Volumes};
use smrkit::error::Error;
use smrkit::request::{Op, Progress, Request};
use smrkit::stats::outcome::TraceNotes;
use smrkit::units::{Lba, Nanos};

/// Requests in a batch: few enough to leave room in the processor's first-level cache.
const BATCH: usize = 2048;
/// Rows that are held back to be sorted.
const SORT_WINDOW: usize = 4096;
/// Lines or records that are parsed to recognise a format.
const SAMPLE: u64 = 64;
/// A line with this many correct columns was meant to be of a format, unless another format understands more.
const COLUMNS_BEGUN: usize = 3;
/// Lines that tools write between rows, by how they begin and end.
const REMARKS: [(&str, &str); 12] = [
    ("^C", ""),
    ("Attaching ", "probes..."),
    ("CPU ", " is empty"),
    ("CPU:", "]"),
    ("cpus=", ""),
    ("Detaching...", ""),
    ("Ending tracing...", ""),
    ("Input file ", ""),
    ("Lost ", ""),
    ("Possibly lost ", ""),
    ("Tracing block ", ""),
    ("version = ", ""),
];

/// Meaning of `Request::time`: a moment by the trace's clock, or a sum of think or response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowTimes {
    /// When the request arrived, from the first one on.
    #[default]
    Clock,
    /// The sum of the think times after all earlier requests, which a closed loop needs.
    Think,
    /// The sum of the response times, its own included.
    Response,
    /// When the recorded drive got the request. In block traces these are other rows than the clock's, because requests may have been merged.
    Issue,
    /// When the recorded drive completed the request. Rows may be in another order.
    Completion,
}

impl RowTimes {
    /// True if these are moments of the trace's clock, and not sums of durations.
    pub(crate) fn are_moments(self) -> bool {
        !matches!(self, RowTimes::Think | RowTimes::Response)
    }
}

/// A format of one row a line.
pub(crate) trait TextFormat: Send {
    /// Nanoseconds of one tick of `TraceRow::ticks`.
    fn tick_ns(&self) -> u64 {
        1
    }

    /// Parses one line, without its newline. `None`: the line is well-formed, but no request.
    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad>;

    /// Parses the row at the start of `text`, and returns it with its number of bytes, newline included. With `None`, the line goes to
    /// `parse`, which would have to give the same row.
    #[inline(always)]
    fn fast(&mut self, _text: &[u8]) -> Option<(TraceRow, usize)> {
        None
    }

    /// Chooses other times than the clock's. Returns `false` if the format does not have them.
    fn choose_times(&mut self, times: RowTimes) -> bool {
        times == RowTimes::Clock
    }

    /// True if rows are in the order of completion, but have the times of arrival. They are sorted within a window of `SORT_WINDOW` rows.
    const IN_COMPLETION_ORDER: bool = false;

    /// True if the last line is skipped if it is incomplete.
    const MAY_END_IN_PARTIAL_ROW: bool = false;

    /// For each row since the last call, the number of requests outstanding when it arrived; empty if not known.
    fn take_outstanding(&mut self) -> Vec<u16> {
        Vec::new()
    }

    /// Looks at the beginning of the trace, before the first line is parsed.
    fn prepare(&mut self, _head: &[u8]) {}

    /// Decides whether line `number` (from 0) is a heading, or should be one.
    fn heading(&self, _number: u64, _line: &[u8]) -> Heading {
        Heading::No
    }

    /// The reader's choice, if the format leaves one.
    fn detail(&self) -> Option<&str> {
        None
    }

    /// The remedy, if the rows have no times.
    fn without_times(&self) -> Option<String> {
        None
    }
}

/// Verdict on a line as a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    /// No heading, but a row.
    No,
    /// A heading.
    Yes,
    /// A line that should be a heading, and isn't.
    Wanted(&'static str),
}

/// Takes the first line as a heading if it consists of `names`, in small or large letters.
pub(crate) fn first_line_is(number: u64, line: &[u8], names: &str) -> Heading {
    let is_heading = number == 0 && line.trim_ascii().eq_ignore_ascii_case(names.as_bytes());
    if is_heading { Heading::Yes } else { Heading::No }
}

/// The item at the front of the bytes.
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

    /// Parses the record at the front of `bytes`. The error has the bytes to skip, 0 if that is unknown.
    fn next(&mut self, bytes: &[u8], volumes: &mut Volumes) -> Result<Step, (Bad, usize)>;

    /// Looks at the beginning of the trace, before the first record is read.
    fn prepare(&mut self, _head: &[u8]) {}

    /// Chooses other times than the clock's. Returns `false` if the format does not have them.
    fn choose_times(&mut self, times: RowTimes) -> bool {
        times == RowTimes::Clock
    }

    /// The reader's choice, if the format leaves one.
    fn detail(&self) -> Option<&str> {
        None
    }

    /// A further check of the beginning of a file, besides records that can be parsed: `false` if it can't be of this format.
    fn plausible(_head: &[u8]) -> bool {
        true
    }
}

/// Fit of a format to the beginning of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// Lines or records parsed.
    pub lines: u64,
    /// Lines that the format understood.
    pub understood: u64,
    /// Lines in which only a value is impossible, such as a size of 0.
    pub misvalued: u64,
    /// Lines of which the format understood some columns.
    pub partly_understood: u64,
    /// A heading of the format is among the lines.
    pub has_heading: bool,
}

/// Parses the first lines of the head, and counts those that the format understands.
pub(crate) fn text_agreement(mut format: impl TextFormat, head: &[u8], whole: bool) -> Agreement {
    format.prepare(head);
    let (mut volumes, mut found) = (Volumes::default(), Agreement::default());
    let mut rest = head;
    for number in 0..SAMPLE {
        let (line, used) = match memchr::memchr(b'\n', rest) {
            Some(end) => (&rest[..end], end + 1),
            // The last line may be cut off, unless this is all of the file.
            None if whole && !rest.is_empty() => (rest, rest.len()),
            None => break,
        };
        rest = &rest[used..];
        let line = strip_return(line);
        if is_no_row(line) {
            continue;
        }
        match format.heading(number, line) {
            Heading::Yes => {
                found.has_heading = true;
                continue;
            }
            Heading::Wanted(_) => return Agreement::default(),
            Heading::No => {}
        }
        found.lines += 1;
        match format.parse(line, &mut volumes) {
            Ok(_) => found.understood += 1,
            Err(bad) if bad.at > 0 && bad.is_of_value() => found.misvalued += 1,
            Err(bad) => found.partly_understood += u64::from(columns_before(line, bad.at) >= COLUMNS_BEGUN),
        }
    }
    found
}

/// Parses the first records of the head, and counts those that the format understands. If one does not fit, none is counted, because nearly
/// any bytes are a record of some format.
pub(crate) fn record_agreement<F: RecordFormat + Default>(head: &[u8], whole: bool) -> Agreement {
    let (mut format, mut volumes) = (F::default(), Volumes::default());
    let (mut rest, mut records) = (head, 0);
    if !F::plausible(head) {
        return Agreement::default();
    }
    format.prepare(head);
    while records < SAMPLE && !rest.is_empty() {
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

/// Columns that end before byte `at`.
fn columns_before(line: &[u8], at: usize) -> usize {
    line[..at.min(line.len())].split(|byte| b", \t;".contains(byte)).filter(|column| !column.is_empty()).count()
}

fn strip_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// True for comments, blank lines, and what tools write between rows.
fn is_no_row(line: &[u8]) -> bool {
    let is_remark = |(begin, end): &(&str, &str)| line.starts_with(begin.as_bytes()) && line.ends_with(end.as_bytes());
    line.first() == Some(&b'#') || line.trim_ascii().is_empty() || REMARKS.iter().any(is_remark)
}

/// The rows of a stream in one format, or those of a Parquet file.
pub(crate) trait Rows: Send {
    /// Looks at the beginning of the trace; returns the nanoseconds of a tick.
    fn begin(&mut self, feed: &mut Feed) -> u64;

    /// Adds requests to the batch, until it is full or the trace is through.
    fn fill(&mut self, feed: &mut Feed, batch: &mut Vec<Request>) -> Result<(), Error>;

    /// Chooses other times than the clock's, before the first `fill`. Returns `false` if the format does not have them.
    fn choose_times(&mut self, times: RowTimes) -> bool;

    /// The reader's choice, if the format leaves one.
    fn detail(&self) -> Option<&str>;

    /// The remedy, if the rows have no times.
    fn without_times(&self) -> Option<String> {
        None
    }

    fn progress(&self, feed: &Feed) -> Progress {
        feed.stream.progress()
    }

    /// The SHA-256 of the stored file, once all of it was read.
    fn sha256(&self, feed: &Feed) -> Option<String> {
        feed.stream.sha256()
    }
}

/// A stream, its volumes, and its rows so far.
pub(crate) struct Feed {
    pub stream: Stream,
    pub volumes: Volumes,
    pub intake: Intake,
    /// For each request of the last batch, the number outstanding when it came; empty if not known.
    pub outstanding: Vec<u16>,
    pub done: bool,
}

impl Feed {
    /// The rows of `stream`, whose buffer holds its head.
    pub fn new(stream: Stream, rows: &mut dyn Rows, skip_bad_rows: bool) -> Feed {
        let intake = Intake { path: stream.path.clone(), skip_bad_rows, ..Intake::default() };
        let mut feed = Feed { stream, volumes: Volumes::default(), intake, outstanding: Vec::new(), done: false };
        feed.intake.tick_ns = rows.begin(&mut feed);
        feed
    }

    /// The next batch; empty at the end, and after an error.
    pub fn fill(&mut self, rows: &mut dyn Rows, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        batch.reserve(BATCH);
        let outcome = rows.fill(self, batch);
        self.done |= outcome.is_err();
        outcome
    }
}

/// Converts rows to requests: times count from the first row, bytes become sectors, and mended rows are counted.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    pub path: PathBuf,
    tick_ns: u64,
    /// The time that others count from; unknown before the first row.
    pub first_ticks: Option<u64>,
    last_ticks: u64,
    skip_bad_rows: bool,
    /// Rows that wait for earlier ones, by time and number.
    unsorted: BTreeMap<(u64, u64), TraceRow>,
    /// Number of the current line or record, from 1.
    number: u64,
    /// The last heading: a file of several recordings repeats it before each of them.
    heading: Vec<u8>,
    pub requests: u64,
    /// Counts of rows mended, skipped or out of order.
    pub notes: TraceNotes,
    /// The line of the first row that is earlier than the row before it.
    pub first_out_of_order: Option<u64>,
}

impl Intake {
    /// Converts a row to a request. A row earlier than the first row gets time 0. `None` if its time is more than 584 years after the first.
    #[inline(always)]
    pub fn request(&mut self, row: TraceRow) -> Option<Request> {
        let first = *self.first_ticks.get_or_insert(row.ticks);
        let time = Nanos(row.ticks.saturating_sub(first).checked_mul(self.tick_ns)?);
        self.note_order(row.ticks, self.number);
        self.requests += 1;
        if row.op == Op::Flush {
            return Some(Request { time, lba: Lba(0), sectors: 0, volume: row.volume, op: Op::Flush, source: 0 });
        }
        self.notes.unaligned_rows += u64::from(!(row.offset | row.bytes).is_multiple_of(512));
        let lba = row.offset / 512;
        // Formats keep offset + bytes below 2^64 and bytes below 2 TiB: no overflow here, and 32 bits are enough.
        let sectors = (row.offset % 512 + row.bytes).div_ceil(512) as u32;
        Some(Request { time, lba: Lba(lba), sectors, volume: row.volume, op: row.op, source: 0 })
    }

    /// Notes a row that is earlier than the row before it.
    #[inline(always)]
    pub fn note_order(&mut self, ticks: u64, number: u64) {
        if ticks < self.last_ticks {
            self.notes.out_of_order_rows += 1;
            self.first_out_of_order.get_or_insert(number);
        }
        self.last_ticks = ticks;
    }

    /// Moves held rows to the batch, the earliest first, until at most `most` are left.
    fn release(&mut self, most: usize, batch: &mut Vec<Request>) -> Result<(), Error> {
        while self.unsorted.len() > most
            && let Some((_, row)) = self.unsorted.pop_first()
        {
            self.push(row, batch)?;
        }
        Ok(())
    }

    /// Adds the request of a row to the batch. Errors: its time does not fit.
    fn push(&mut self, row: TraceRow, batch: &mut Vec<Request>) -> Result<(), Error> {
        match self.request(row) {
            Some(request) => batch.push(request),
            None if self.skip_bad_rows => self.notes.skipped_rows += 1,
            None => {
                // Here and below, the front end puts the name of its option in place of `{skip_bad_rows}` (`smrkit::message`).
                let message = "the time lies more than 584 years after the first row's: check the unit of the times, mend \
                               the row, or leave such rows out with {skip_bad_rows}";
                return Err(self.error(None, message.into()));
            }
        }
        Ok(())
    }

    /// True if a bad row is skipped, which counts it.
    fn skip(&mut self, bad: &Bad) -> bool {
        let skip = self.skip_bad_rows && !bad.problem.is_fatal();
        self.notes.skipped_rows += u64::from(skip);
        skip
    }

    /// Handles a malformed line: counts it if bad rows are skipped, else returns the error to stop with. `is_unended`: the file ends with this
    /// line, without a newline.
    #[cold]
    fn bad_line(&mut self, text: &[u8], bad: &Bad, is_unended: bool) -> Result<(), Error> {
        if self.skip(bad) {
            return Ok(());
        }
        // A column that ends with the file may have had more characters.
        let is_cut_off = is_unended && bad.at + bad.len >= text.len();
        let mut message = bad.message(text);
        if is_cut_off {
            message += "; the file ends in the middle of this row: it was cut short, fetch or copy it again";
        }
        // A fatal problem is not one of this row alone, so that leaving the row out is no remedy.
        if !bad.problem.is_fatal() {
            message += if is_cut_off { ", or" } else { "; mend the row, or" };
            message += " leave such rows out with {skip_bad_rows}";
        }
        Err(self.error(Some(bad.at as u64 + 1), message))
    }

    /// As `bad_line`, for a binary record of `used` bytes. With 0, its length is unknown, and it can't be skipped.
    #[cold]
    fn bad_record(&mut self, bad: &Bad, used: usize) -> Result<(), Error> {
        if used > 0 && self.skip(bad) {
            return Ok(());
        }
        let problem = match bad.problem {
            Problem::Zero => format!("{} is 0: expected a size above 0", bad.name),
            Problem::Expected(what) => format!("{}: expected {what}", bad.name),
            _ => format!("{} is too large", bad.name),
        };
        let remedy = match used {
            0 => "the file is corrupt or of another format",
            _ => "mend the record, or leave such records out with {skip_bad_rows}",
        };
        Err(self.error(None, format!("{problem}; {remedy}")))
    }

    /// Errors: the trace had no request at all.
    fn check_not_empty(&self) -> Result<(), Error> {
        if self.requests > 0 {
            return Ok(());
        }
        let message = match self.notes.skipped_rows {
            0 => "the file holds no request: check how it was made".to_string(),
            n => format!("the file holds no request: all {n} rows are malformed; check its format"),
        };
        Err(Error::input(&self.path, message))
    }

    /// The error of the current row.
    fn error(&self, column: Option<u64>, message: String) -> Error {
        Error::at_line(&self.path, self.number, column, message)
    }
}

/// Rows that are lines. The format is compiled into the loop: a fast path for well-formed rows; others are parsed again, by columns.
pub(crate) struct Text<F>(pub F);

impl<F: TextFormat> Text<F> {
    /// Parses complete lines until the buffer is used up or the batch is full.
    fn whole_lines(&mut self, feed: &mut Feed, batch: &mut Vec<Request>) -> Result<(), Error> {
        let Feed { stream: Stream { buf, start, end, .. }, volumes, intake, .. } = feed;
        let limit = match memchr::memrchr(b'\n', &buf[*start..*end]) {
            Some(last) => *start + last + 1,
            None => return Ok(()),
        };
        let mut rest = &buf[*start..limit];
        while !rest.is_empty() && batch.len() < BATCH {
            intake.number += 1;
            // A row whose time is too far goes the slow way, too, which reports it.
            if let Some((row, used)) = self.0.fast(rest)
                && let Some(after) = rest.get(used..)
                && let Some(request) = intake.request(row)
            {
                batch.push(request);
                rest = after;
                continue;
            }
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len() - 1);
            let line = strip_return(&rest[..length]);
            rest = &rest[length + 1..];
            self.slow_line(line, false, volumes, intake, batch)?;
        }
        *start = limit - rest.len();
        Ok(())
    }

    /// Parses one line by columns. `is_unended`: it has no newline.
    #[inline(never)]
    fn slow_line(
        &mut self,
        line: &[u8],
        is_unended: bool,
        volumes: &mut Volumes,
        intake: &mut Intake,
        batch: &mut Vec<Request>,
    ) -> Result<(), Error> {
        if is_no_row(line) {
            return Ok(());
        }
        match self.0.heading(intake.number - 1, line) {
            Heading::Yes => {
                intake.heading = line.to_vec();
                return Ok(());
            }
            Heading::Wanted(what) => return Err(intake.error(None, format!("the file should begin with {what}"))),
            Heading::No => {}
        }
        match self.0.parse(line, volumes) {
            Ok(Some(row)) if F::IN_COMPLETION_ORDER => {
                intake.unsorted.insert((row.ticks, intake.number), row);
                intake.release(SORT_WINDOW, batch)
            }
            Ok(Some(row)) => intake.push(row, batch),
            Ok(None) => Ok(()),
            // The heading of a further recording in the same file.
            Err(bad) if line == intake.heading && !bad.problem.is_fatal() => Ok(()),
            Err(bad) => intake.bad_line(line, &bad, is_unended),
        }
    }
}

impl<F: TextFormat> Rows for Text<F> {
    fn begin(&mut self, feed: &mut Feed) -> u64 {
        self.0.prepare(feed.stream.unread());
        self.0.tick_ns()
    }

    fn fill(&mut self, feed: &mut Feed, batch: &mut Vec<Request>) -> Result<(), Error> {
        while batch.len() < BATCH && !feed.done {
            // Stops at the last newline of the buffer, or in the middle of it with a full batch.
            self.whole_lines(feed, batch)?;
            if batch.len() == BATCH {
                break;
            }
            let Feed { stream, volumes, intake, done, .. } = feed;
            if stream.eof {
                // A last line without its newline.
                let rest = &stream.buf[stream.start..stream.end];
                if !rest.is_empty() && !F::MAY_END_IN_PARTIAL_ROW {
                    intake.number += 1;
                    self.slow_line(strip_return(rest), true, volumes, intake, batch)?;
                }
                stream.start = stream.end;
                *done = true;
                intake.release(0, batch)?;
                intake.check_not_empty()?;
            } else if stream.unread().len() >= LINE_MAX {
                intake.number += 1;
                let message = "a line of more than 1 MiB: this is no text trace, or its line ends are missing";
                return Err(intake.error(None, message.into()));
            } else {
                stream.refill()?;
            }
        }
        feed.outstanding = self.0.take_outstanding();
        Ok(())
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.0.choose_times(times)
    }

    fn detail(&self) -> Option<&str> {
        self.0.detail()
    }

    fn without_times(&self) -> Option<String> {
        self.0.without_times()
    }
}

/// Rows that are binary records, of any length.
pub(crate) struct Records<F>(pub F);

impl<F: RecordFormat> Rows for Records<F> {
    fn begin(&mut self, feed: &mut Feed) -> u64 {
        self.0.prepare(feed.stream.unread());
        self.0.tick_ns()
    }

    fn fill(&mut self, feed: &mut Feed, batch: &mut Vec<Request>) -> Result<(), Error> {
        let Feed { stream, volumes, intake, done, .. } = feed;
        while batch.len() < BATCH && !*done {
            let bytes = &stream.buf[stream.start..stream.end];
            if bytes.is_empty() && stream.eof {
                *done = true;
                return intake.check_not_empty();
            }
            let step = if bytes.is_empty() { Ok(Step::More) } else { self.0.next(bytes, volumes) };
            // Records are counted from 1, as lines are, and the heading is none.
            intake.number += u64::from(!matches!(step, Ok(Step::Heading(_) | Step::More)));
            let used = match step {
                Ok(Step::Row(row, used)) => {
                    intake.push(row, batch)?;
                    used
                }
                Ok(Step::Heading(used) | Step::Skip(used)) => used,
                Ok(Step::More) if !stream.eof && bytes.len() < LINE_MAX => {
                    stream.refill()?;
                    continue;
                }
                Ok(Step::More) => {
                    intake.number += 1;
                    let message = match stream.eof {
                        true => format!(
                            "the file ends in the middle of this record, {} bytes into it: it was cut short, fetch or copy it again",
                            bytes.len()
                        ),
                        false => "a record of more than 1 MiB: the file is corrupt or of another format".to_string(),
                    };
                    return Err(intake.error(None, message));
                }
                Err((bad, used)) => {
                    intake.bad_record(&bad, used)?;
                    used
                }
            };
            stream.start = (stream.start + used).min(stream.end);
        }
        Ok(())
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.0.choose_times(times)
    }

    fn detail(&self) -> Option<&str> {
        self.0.detail()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intake(tick_ns: u64, skip_bad_rows: bool) -> Intake {
        Intake { path: "t.csv".into(), tick_ns, skip_bad_rows, ..Intake::default() }
    }

    fn row(ticks: u64, offset: u64, bytes: u64, op: Op) -> TraceRow {
        TraceRow { ticks, offset, bytes, volume: 3, op }
    }

    #[test]
    fn ends_that_are_not_aligned_are_rounded_outward() {
        let mut intake = intake(1, false);
        let rows = [(0, 512), (512, 1024), (511, 1), (511, 2), (513, 511), (1, 1024), (1024, 1)];
        let found = rows.map(|(offset, bytes)| {
            let request = intake.request(row(5, offset, bytes, Op::Write)).unwrap();
            assert_eq!((request.volume, request.op, request.source), (3, Op::Write, 0));
            (request.lba.0, request.sectors)
        });
        assert_eq!(found, [(0, 1), (1, 2), (0, 1), (0, 2), (1, 1), (0, 3), (2, 1)]);
        assert_eq!(intake.notes.unaligned_rows, 5);
    }

    #[test]
    fn times_count_from_the_first_row_and_rows_that_go_back_are_counted() {
        let mut intake = intake(1000, false);
        let mut time = |ticks| {
            intake.number += 1;
            intake.request(row(ticks, 0, 512, Op::Read)).map(|one| one.time.0)
        };
        assert_eq!([time(10), time(12), time(12)], [Some(0), Some(2000), Some(2000)]);
        assert_eq!([time(11), time(5), time(6)], [Some(1000), Some(0), Some(0)]);
        assert_eq!(time(10 + u64::MAX / 1000), Some(u64::MAX / 1000 * 1000));
        assert_eq!(time(11 + u64::MAX / 1000), None);
        assert_eq!((intake.notes.out_of_order_rows, intake.first_out_of_order), (2, Some(4)));
        let mut absolute = self::intake(1000, false);
        absolute.first_ticks = Some(0);
        assert_eq!(absolute.request(row(10, 0, 512, Op::Read)).unwrap().time, Nanos(10_000));
    }

    #[test]
    fn a_flush_has_no_place_and_counts_as_a_row() {
        let mut intake = intake(1, false);
        let flush = intake.request(row(1, 513, 7, Op::Flush)).unwrap();
        assert_eq!((flush.lba, flush.sectors, flush.op, flush.volume), (Lba(0), 0, Op::Flush, 3));
        assert_eq!((intake.requests, intake.notes.unaligned_rows), (1, 0));
    }

    #[test]
    fn a_row_cut_short_is_told_from_one_that_is_wrong() {
        let said = |at, len, last| {
            let bad = Bad { at, len, name: "the size", problem: Problem::Expected("a number") };
            let mut intake = Intake { number: 7, ..intake(1, false) };
            intake.bad_line(b"1,2,34", &bad, last).unwrap_err().to_string()
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
        assert!(said(4, 2, true).starts_with("t.csv:7:5: "), "{}", said(4, 2, true));
    }

    #[test]
    fn bad_rows_are_counted_where_they_are_left_out() {
        let bad = |problem| Bad { at: 0, len: 1, name: "the size", problem };
        let mut lenient = intake(1000, true);
        let (first, late) = (row(0, 0, 512, Op::Read), row(u64::MAX, 0, 512, Op::Read));
        let mut batch = Vec::new();
        lenient.first_ticks = Some(0);
        assert!(lenient.bad_line(b"x", &bad(Problem::Zero), false).is_ok());
        assert!(
            lenient.bad_record(&bad(Problem::Zero), 8).is_ok() && lenient.bad_record(&bad(Problem::Zero), 0).is_err()
        );
        assert!(lenient.push(late, &mut batch).is_ok() && batch.is_empty());
        assert_eq!(lenient.notes.skipped_rows, 3);
        let many = lenient.bad_line(b"x", &bad(Problem::TooManyVolumes), false).unwrap_err().to_string();
        assert!(many.contains("65,535 volumes") && !many.contains("leave such rows out"), "{many}");
        assert_eq!(lenient.notes.skipped_rows, 3);
        let none = lenient.check_not_empty().unwrap_err().to_string();
        assert!(none.contains("all 3 rows are malformed"), "{none}");
        let mut strict = intake(1000, false);
        assert!(strict.check_not_empty().unwrap_err().to_string().contains("check how it was made"));
        strict.push(first, &mut batch).unwrap();
        assert!(strict.push(late, &mut batch).unwrap_err().to_string().contains("584 years"));
        assert!(strict.check_not_empty().is_ok() && batch.len() == 1);
    }
}
