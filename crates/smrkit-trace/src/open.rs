//! Opens a trace: recognises its format, or takes the one that was named.

use std::io::Cursor;
use std::path::Path;

use crate::columns;
use crate::csv::Csv;
use crate::csv_header;
use crate::foreign;
use crate::format::{self, Choice, Format};
use crate::input::Stream;
use crate::reader::Reader;
use crate::text;
use crate::times::RowTimes;
use crate::volume::Volume;
use smrkit::error::Error;
use smrkit::request::{Progress, Request, Source};
use smrkit::stats::outcome::TraceNotes;

/// Options of opening a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// The format: a name of `FORMATS`, `csv:MAP` (where columns go by number or name), `blkparse:Q` or `blkparse:D`;
    /// recognised from the content if none.
    pub format: Option<String>,
    /// Leave malformed rows out and count them, instead of stopping.
    pub skip_bad_rows: bool,
    /// Compute the SHA-256 of the file.
    pub sha256: bool,
    /// Times that requests get.
    pub times: RowTimes,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { format: None, skip_bad_rows: false, sha256: true, times: RowTimes::Clock }
    }
}

/// An open trace: a stream of requests in the order of the file.
///
/// Times count from the first row; rows that lie before it are at time 0. `Request::volume` indexes `volumes()`.
pub struct Trace {
    format: &'static str,
    reader: Box<dyn Reader>,
}

impl Trace {
    /// Opens a file, or standard input where `path` is `-`. Fails where it can't be read, is empty, or is of no known
    /// format.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Trace, Error> {
        let choice = format::choice(options.format.as_deref())?;
        let stream = Stream::open(path, options.sha256)?;
        Trace::from_stream(stream, choice, options, path.as_os_str() != "-")
    }

    /// Reads bytes in memory; `name` stands for the path in messages.
    pub fn from_bytes(
        name: &str,
        bytes: impl AsRef<[u8]> + Send + 'static,
        options: &OpenOptions,
    ) -> Result<Trace, Error> {
        let choice = format::choice(options.format.as_deref())?;
        let total = Some(bytes.as_ref().len() as u64);
        let stream = Stream::new(Path::new(name), Box::new(Cursor::new(bytes)), total, options.sha256)?;
        Trace::from_stream(stream, choice, options, false)
    }

    fn from_stream(mut stream: Stream, choice: Choice, options: &OpenOptions, is_file: bool) -> Result<Trace, Error> {
        stream.refill()?;
        if stream.unread().is_empty() {
            let message = "the archive is empty: it holds no request; check how it was made";
            return Err(Error::input(&stream.path, message));
        }
        let is_parquet = stream.unread().starts_with(b"PAR1");
        let (path, skip) = (stream.path.clone(), options.skip_bad_rows);
        let name_of = path.clone();
        let (name, mut reader): (_, Box<dyn Reader>) = match choice {
            Choice::Recognise if !is_parquet => recognised_reader(stream, skip)?,
            Choice::Recognise | Choice::Parquet if is_file => {
                ("parquet", Box::new(columns::ParquetTrace::open(&path, options.sha256)?))
            }
            Choice::Recognise | Choice::Parquet => {
                let message = "Parquet is read from a file only: save it, and give its path";
                return Err(Error::input(path, message));
            }
            Choice::Named(format) => {
                refuse_foreign(&stream)?;
                check_forced(&stream, format)?;
                (format.name, format.open(stream, skip).ok_or_else(|| unknown(&path))?)
            }
            Choice::Csv(map) => {
                check_text(&stream, "csv")?;
                let csv = table(&map, &stream)?;
                ("csv", Box::new(text::Text::new(stream, csv, skip)))
            }
            Choice::Blkparse(blkparse) => {
                check_text(&stream, "blkparse")?;
                ("blkparse", Box::new(text::Text::new(stream, blkparse, skip)))
            }
        };
        choose_times(reader.as_mut(), options.times, name, &name_of)?;
        Ok(Trace { format: name, reader })
    }

    /// The trace with times from its source's own zero, so that rows before the first keep theirs (to be sorted).
    pub fn with_absolute_times(mut self) -> Trace {
        self.reader.keep_absolute_times();
        self
    }

    /// True if the trace says how long its host paused after each request. To be asked before the first row is read.
    pub fn has_think_times(&mut self) -> bool {
        let has = self.reader.choose_times(RowTimes::Think);
        self.reader.choose_times(RowTimes::Clock);
        has
    }

    /// The format's name, as recognised or forced.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// The reader's choice, where the format leaves one: which events of blkparse, which columns of a table.
    pub fn detail(&self) -> Option<&str> {
        self.reader.detail()
    }

    /// The volumes seen so far, in order of first sight.
    pub fn volumes(&self) -> &[Volume] {
        self.reader.volumes()
    }

    /// Rows mended, skipped or out of order so far.
    pub fn notes(&self) -> TraceNotes {
        self.reader.notes()
    }

    /// The line (or record) of the first row that lies before the one above it.
    pub fn first_out_of_order(&self) -> Option<u64> {
        self.reader.first_out_of_order()
    }

    /// The SHA-256 of the file as it lies on the disk, once all of it was read; of several CPUs' files, that of their merged records.
    pub fn sha256(&self) -> Option<String> {
        self.reader.sha256()
    }
}

impl Source for Trace {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.reader.fill(batch)
    }

    fn progress(&self) -> Progress {
        self.reader.progress()
    }
}

/// Asks a reader for times that only some formats have.
fn choose_times(reader: &mut dyn Reader, times: RowTimes, format: &str, path: &Path) -> Result<(), Error> {
    if times == RowTimes::Clock || reader.choose_times(times) {
        return Ok(());
    }
    let problem = format!(
        "a trace of format {format} has no think times: give a disksim-measured trace, name a column in a map (csv:…,think=5:us), or replay it with {{arrival}} flat-out"
    );
    Err(Error::input(path, problem))
}

/// The reader of what the content is: of a format that understands every line, else of a table whose first line names its columns,
/// else of the format that understands most.
fn recognised_reader(stream: Stream, skip_bad_rows: bool) -> Result<(&'static str, Box<dyn Reader>), Error> {
    refuse_foreign(&stream)?;
    let format = recognised(&stream);
    let fits = format.as_ref().is_ok_and(|format| {
        let found = format.agreement(stream.unread(), stream.eof);
        found.understood == found.lines
    });
    if !fits
        && !is_binary(stream.unread())
        && let Ok(csv) = table("", &stream)
    {
        return Ok(("csv", Box::new(text::Text::new(stream, csv, skip_bad_rows))));
    }
    let (format, path) = (format?, stream.path.clone());
    Ok((format.name, format.open(stream, skip_bad_rows).ok_or_else(|| unknown(&path))?))
}

/// A table by a map, which its first lines complete.
fn table(map: &str, stream: &Stream) -> Result<Csv, Error> {
    Csv::new(&csv_header::completed(map, stream.unread())?)
}

/// Refuses what people have at hand and is no trace, with what makes one.
fn refuse_foreign(stream: &Stream) -> Result<(), Error> {
    foreign::remedy(stream.unread()).map_or(Ok(()), |what| Err(Error::input(&stream.path, what)))
}

fn recognised(stream: &Stream) -> Result<&'static Format, Error> {
    format::recognise(stream.unread(), stream.eof).ok_or_else(|| match is_binary(stream.unread()) {
        true => Error::input(
            &stream.path,
            "a binary file of no known format: check that it is a trace, or name its format with {format}",
        ),
        false => unknown_text(stream),
    })
}

fn unknown(path: &Path) -> Error {
    Error::input(path, format!("of no known format: name it with {{format}} ({})", format::names()))
}

fn unknown_text(stream: &Stream) -> Error {
    let head = stream.unread();
    let line = head.split(|b| *b == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let shown = line[..line.len().min(60)].escape_ascii();
    let problem = format!(
        "of no known format (it begins with \"{shown}\"): name it with {{format}} ({}), or describe its columns, as in \
         {{format}} csv:time=0:us,op=1,offset=2:bytes,size=3:bytes",
        format::names()
    );
    Error::input(&stream.path, problem)
}

/// A format was named: a file that is plainly of another one is refused with a clearer message than its first row gives.
fn check_forced(stream: &Stream, format: &Format) -> Result<(), Error> {
    let found = format.agreement(stream.unread(), stream.eof);
    if found.understood + found.misvalued > 0 {
        return Ok(());
    }
    if let Some(other) = format::recognise(stream.unread(), stream.eof) {
        let Format { name, about, .. } = other;
        let problem =
            format!("looks like {name} ({about}), not like {}: leave {{format}} out, or name {name}", format.name);
        return Err(Error::input(&stream.path, problem));
    }
    if format.sample.is_empty() { Ok(()) } else { check_text(stream, format.name) }
}

fn check_text(stream: &Stream, name: &str) -> Result<(), Error> {
    if is_binary(stream.unread()) {
        let problem = format!("binary data (or text in UTF-16), but {name} is text: check the file, or its {{format}}");
        return Err(Error::input(&stream.path, problem));
    }
    Ok(())
}

/// Text holds no zero byte, and hardly a control character.
fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(8192)];
    let control = head.iter().filter(|b| **b < 0x20 && !b.is_ascii_whitespace()).count();
    head.contains(&0) || control * 10 > head.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_data_have_zeros_or_a_tenth_of_control_characters() {
        let text = |controls: usize, all: usize| [vec![1; controls], vec![b'x'; all - controls]].concat();
        assert!(!is_binary(&text(1, 10)) && is_binary(&text(2, 19)) && !is_binary(&text(2, 20)));
        assert!(!is_binary(b"\t\r\n \n\n\n") && !is_binary(b"") && !is_binary("é\u{7f}".as_bytes()));
        assert!(is_binary(b"much text and one\0"));
        let late = [vec![b'x'; 8192], vec![0]].concat();
        assert!(!is_binary(&late) && is_binary(&late[1..]), "8 KiB are looked at");
    }
}
