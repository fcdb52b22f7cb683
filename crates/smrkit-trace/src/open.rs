//! Opens a trace: recognises its format, or takes the one that was named.

use std::io::{Cursor, Read};
use std::path::Path;

use crate::columns;
use crate::format::{self, Choice, Format};
use crate::input::Stream;
use crate::reader::Reader;
use crate::text;
use crate::volume::Volume;
use smrkit::error::Error;
use smrkit::message::{Field, Message};
use smrkit::request::{Progress, Request, Source};
use smrkit::stats::outcome::TraceNotes;

/// How to open a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// The format: a name of `FORMATS`, `csv:MAP`, `blkparse:Q` or `blkparse:D`; recognised from the content if none.
    pub format: Option<String>,
    /// Leave malformed rows out and count them, instead of stopping.
    pub skip_bad_rows: bool,
    /// Compute the SHA-256 of the file.
    pub sha256: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { format: None, skip_bad_rows: false, sha256: true }
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
        Trace::of(stream, choice, options, path.as_os_str() != "-")
    }

    /// Reads bytes from anywhere; `name` stands for the path in messages.
    pub fn from_reader(name: &str, reader: impl Read + Send + 'static, options: &OpenOptions) -> Result<Trace, Error> {
        let choice = format::choice(options.format.as_deref())?;
        let stream = Stream::new(Path::new(name), Box::new(reader), None, options.sha256)?;
        Trace::of(stream, choice, options, false)
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
        Trace::of(stream, choice, options, false)
    }

    fn of(mut stream: Stream, choice: Choice, options: &OpenOptions, is_file: bool) -> Result<Trace, Error> {
        stream.refill()?;
        if stream.unread().is_empty() {
            let message = "the archive is empty: it holds no request; check how it was made";
            return Err(Error::input(&stream.path, message));
        }
        let is_parquet = stream.unread().starts_with(b"PAR1");
        let (path, skip) = (stream.path.clone(), options.skip_bad_rows);
        let (name, reader): (_, Box<dyn Reader>) = match choice {
            Choice::Recognise if !is_parquet => {
                let format = recognised(&stream)?;
                (format.name, format.open(stream, skip).ok_or_else(|| unknown(&path))?)
            }
            Choice::Recognise | Choice::Parquet if is_file => {
                ("parquet", Box::new(columns::Columns::open(&path, options.sha256)?))
            }
            Choice::Recognise | Choice::Parquet => {
                let message = "Parquet is read from a file only: save it, and give its path";
                return Err(Error::input(path, message));
            }
            Choice::Named(format) => {
                check_forced(&stream, format)?;
                (format.name, format.open(stream, skip).ok_or_else(|| unknown(&path))?)
            }
            Choice::Csv(csv) => {
                check_text(&stream, "csv")?;
                ("csv", Box::new(text::Text::new(stream, csv, skip)))
            }
            Choice::Blkparse(blkparse) => {
                check_text(&stream, "blkparse")?;
                ("blkparse", Box::new(text::Text::new(stream, blkparse, skip)))
            }
        };
        Ok(Trace { format: name, reader })
    }

    /// The same trace with times from its source's own zero, so that rows before the first keep theirs (to be sorted).
    pub fn with_absolute_times(mut self) -> Trace {
        self.reader.keep_absolute_times();
        self
    }

    /// The format's name, as recognised or forced.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// What the reader chose, where the format leaves a choice: which events of blkparse.
    pub fn detail(&self) -> Option<&'static str> {
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

    /// The SHA-256 of the file as it lies on the disk, once all of it was read.
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

fn recognised(stream: &Stream) -> Result<&'static Format, Error> {
    format::recognise(stream.unread(), stream.eof).ok_or_else(|| match is_binary(stream.unread()) {
        true => Error::input(
            &stream.path,
            Message::from("a binary file of no known format: check that it is a trace, or name its format with ")
                + Field::Format,
        ),
        false => unknown_text(stream),
    })
}

fn unknown(path: &Path) -> Error {
    let names = format!(" ({})", format::names());
    Error::input(path, Message::from("of no known format: name it with ") + Field::Format + names)
}

fn unknown_text(stream: &Stream) -> Error {
    let head = stream.unread();
    let line = head.split(|b| *b == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let shown = line[..line.len().min(60)].escape_ascii();
    let problem = format!("of no known format (it begins with \"{shown}\"): name it with ");
    let names = format!(" ({}), or describe its columns, as in ", format::names());
    let example = " csv:time=0:us,op=1,offset=2:bytes,size=3:bytes";
    Error::input(&stream.path, Message::from(problem) + Field::Format + names + Field::Format + example)
}

/// A format was named: a file that is plainly of another one is refused with a clearer message than its first row gives.
fn check_forced(stream: &Stream, format: &Format) -> Result<(), Error> {
    let found = format.agreement(stream.unread(), stream.eof);
    if found.understood + found.misvalued > 0 {
        return Ok(());
    }
    if let Some(other) = format::recognise(stream.unread(), stream.eof) {
        let problem = format!("looks like {} ({}), not like {}: leave ", other.name, other.about, format.name);
        let remedy = format!(" out, or name {}", other.name);
        return Err(Error::input(&stream.path, Message::from(problem) + Field::Format + remedy));
    }
    if format.sample.is_empty() { Ok(()) } else { check_text(stream, format.name) }
}

fn check_text(stream: &Stream, name: &str) -> Result<(), Error> {
    if is_binary(stream.unread()) {
        let problem = format!("binary data (or text in UTF-16), but {name} is text: check the file, or its ");
        return Err(Error::input(&stream.path, Message::from(problem) + Field::Format));
    }
    Ok(())
}

/// Text holds no zero byte, and hardly a control character.
fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(8192)];
    let control = head.iter().filter(|b| **b < 0x20 && !b.is_ascii_whitespace()).count();
    head.contains(&0) || control * 10 > head.len()
}
