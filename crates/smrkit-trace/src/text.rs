//! The driver of all text formats: cuts the stream into lines and hands them to a format, which is compiled into the
//! loop. A format may offer a fast path for well-formed rows; everything else goes the slow way, which knows columns.

use std::path::Path;

use crate::input::{LINE_MAX, Stream};
use crate::intake::{Intake, bad_row};
use crate::reader::{BATCH, Feed, RowReader};
use crate::row::{Bad, TraceRow};
use crate::times::RowTimes;
use crate::volumes::Volumes;
use smrkit::error::Error;
use smrkit::request::Request;

/// Lines that are looked at to recognise a format.
const SAMPLE_LINES: usize = 64;

/// A format of one row a line.
pub(crate) trait TextFormat: Send {
    /// Nanoseconds of one tick of `TraceRow::ticks`.
    fn tick_ns(&self) -> u64 {
        1
    }

    /// Understands one line, without its newline. `None`: the line is well-formed, but no request.
    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad>;

    /// Understands the row at the start of `text`, and says how many bytes it has, newline included. `None` sends the
    /// line the slow way; a row given here must be the one that `parse` would give.
    #[inline(always)]
    fn fast(&mut self, _text: &[u8]) -> Option<(TraceRow, usize)> {
        None
    }

    /// Gives other times than the clock's; tells whether the format has them.
    fn choose_times(&mut self, times: RowTimes) -> bool {
        times == RowTimes::Clock
    }

    /// Looks at the beginning of the trace, before the first line is parsed.
    fn prepare(&mut self, _head: &[u8]) {}

    /// Verdict on the `number`th line (from 0): it may be, or must be, a heading.
    fn heading(&self, _number: u64, _line: &[u8]) -> Heading {
        Heading::No
    }

    /// The reader's choice, where there is one.
    fn detail(&self) -> Option<&str> {
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

/// True if `line`, the first, begins with `start`, in any case.
pub(crate) fn first_line_is(number: u64, line: &[u8], start: &str) -> Heading {
    let is = number == 0 && line.get(..start.len()).is_some_and(|l| l.eq_ignore_ascii_case(start.as_bytes()));
    if is { Heading::Yes } else { Heading::No }
}

/// Lines of the head that a format understands, of those looked at.
pub(crate) fn agrees<F: TextFormat + Default>(head: &[u8], whole: bool) -> Agreement {
    let mut format = F::default();
    format.prepare(head);
    let (mut volumes, mut found) = (Volumes::default(), Agreement::default());
    let mut rest = strip_mark(head);
    for number in 0..SAMPLE_LINES as u64 {
        let (line, used) = match memchr::memchr(b'\n', rest) {
            Some(end) => (&rest[..end], end + 1),
            None if whole && !rest.is_empty() => (rest, rest.len()),
            None => break,
        };
        rest = &rest[used..];
        let line = strip_return(line);
        if is_blank(line) {
            continue;
        }
        match format.heading(number, line) {
            Heading::Yes => continue,
            Heading::Wanted(_) => return Agreement::default(),
            Heading::No => {}
        }
        found.lines += 1;
        match format.parse(line, &mut volumes) {
            Ok(_) => found.understood += 1,
            Err(bad) if bad.at > 0 && bad.is_of_value() => found.misvalued += 1,
            Err(bad) => found.begun += u64::from(columns_before(line, bad.at) >= COLUMNS_BEGUN),
        }
    }
    found
}

/// Fit of a format to the beginning of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// Lines or records looked at.
    pub lines: u64,
    /// Lines that the format understood.
    pub understood: u64,
    /// Lines in which only a value is impossible, such as a size of 0.
    pub misvalued: u64,
    /// Lines of which the format understood some columns.
    pub begun: u64,
}

/// The number of right columns that shows that a line was meant to be of a format, if another line is.
const COLUMNS_BEGUN: usize = 3;

/// Columns that end before byte `at`.
fn columns_before(line: &[u8], at: usize) -> usize {
    line[..at.min(line.len())].split(|byte| b", \t;".contains(byte)).filter(|column| !column.is_empty()).count()
}

fn strip_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

fn strip_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn is_blank(line: &[u8]) -> bool {
    line.first() == Some(&b'#') || line.trim_ascii().is_empty()
}

/// A trace in a text format.
pub(crate) struct Text<F> {
    feed: Feed,
    format: F,
    /// Lines done.
    line: u64,
}

impl<F: TextFormat> Text<F> {
    /// Reads `stream`, whose buffer holds its head, as `format`.
    pub fn new(mut stream: Stream, mut format: F, skip_bad_rows: bool) -> Text<F> {
        if stream.unread().starts_with(b"\xef\xbb\xbf") {
            stream.start += 3;
        }
        format.prepare(stream.unread());
        Text { feed: Feed::new(stream, format.tick_ns(), skip_bad_rows), format, line: 0 }
    }

    /// Parses whole lines of the buffer until it or the batch is through.
    fn parse_buffer(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let Text { feed: Feed { stream, volumes, intake, .. }, format, line: line_number, .. } = self;
        let Stream { buf, start, end, path, .. } = stream;
        let limit = match memchr::memrchr(b'\n', &buf[*start..*end]) {
            Some(last) => *start + last + 1,
            None => return Ok(()),
        };
        let mut rest = &buf[*start..limit];
        while !rest.is_empty() && batch.len() < BATCH {
            *line_number += 1;
            if let Some((row, used)) = format.fast(rest)
                && let Some(after) = rest.get(used..)
                && let Ok(request) = intake.request(row, *line_number)
            {
                batch.push(request);
                rest = after;
                continue;
            }
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len() - 1);
            let line = strip_return(&rest[..length]);
            rest = &rest[length + 1..];
            slow_row(line, false, format, volumes, intake, *line_number, path, batch)?;
        }
        *start = limit - rest.len();
        Ok(())
    }

    /// The last line, which no newline ends.
    fn parse_tail(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let Text { feed: Feed { stream, volumes, intake, .. }, format, line, .. } = self;
        let rest = &stream.buf[stream.start..stream.end];
        if !rest.is_empty() {
            *line += 1;
            slow_row(strip_return(rest), true, format, volumes, intake, *line, &stream.path, batch)?;
        }
        stream.start = stream.end;
        Ok(())
    }
}

/// One line, the slow way.
#[expect(clippy::too_many_arguments, reason = "the parts of a reader, borrowed apart")]
#[inline(never)]
fn slow_row<F: TextFormat>(
    line: &[u8],
    last: bool,
    format: &mut F,
    volumes: &mut Volumes,
    intake: &mut Intake,
    number: u64,
    path: &Path,
    batch: &mut Vec<Request>,
) -> Result<(), Error> {
    if is_blank(line) {
        return Ok(());
    }
    match format.heading(number - 1, line) {
        Heading::Yes => return Ok(()),
        Heading::Wanted(what) => return Err(bad_row(path, number, None, format!("the file should begin with {what}"))),
        Heading::No => {}
    }
    match format.parse(line, volumes) {
        Ok(Some(row)) => match intake.request(row, number) {
            Ok(request) => batch.push(request),
            Err(_) => intake.too_far(path, number)?,
        },
        Ok(None) => {}
        Err(bad) => intake.bad(path, number, line, &bad, last)?,
    }
    Ok(())
}

impl<F: TextFormat> RowReader for Text<F> {
    fn fill_some(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        while batch.len() < BATCH && !self.feed.done {
            self.parse_buffer(batch)?;
            if batch.len() == BATCH {
                break;
            }
            if self.feed.stream.eof {
                self.parse_tail(batch)?;
                self.feed.done = true;
                self.feed.intake.check_not_empty(&self.feed.stream.path)?;
            } else if self.feed.stream.unread().len() >= LINE_MAX {
                let message = "a line of more than 1 MiB: this is no text trace, or its line ends are missing";
                return Err(bad_row(&self.feed.stream.path, self.line + 1, None, message));
            } else {
                self.feed.stream.refill()?;
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

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.format.choose_times(times)
    }
}
