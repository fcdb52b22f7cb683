//! Interface of every reader of a format, and the part that those of text and records share.

use crate::input::Stream;
use crate::intake::Intake;
use crate::times::RowTimes;
use crate::volume::Volume;
use crate::volumes::Volumes;
use smrkit::error::Error;
use smrkit::request::{Progress, Request};
use smrkit::stats::outcome::TraceNotes;

/// Requests a batch: as many as leave the processor's nearer caches to others.
pub(crate) const BATCH: usize = 2048;

/// A reader of one format.
pub(crate) trait Reader: Send {
    /// As `Source::fill`.
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error>;
    /// Bytes of the file read so far, and its size.
    fn progress(&self) -> Progress;
    /// The volumes seen so far.
    fn volumes(&self) -> &[Volume];
    /// Counts of rows mended or skipped so far.
    fn notes(&self) -> TraceNotes;
    /// The line of the first row that lies before the one above it.
    fn first_out_of_order(&self) -> Option<u64>;
    /// The SHA-256 of the file, at its end.
    fn sha256(&self) -> Option<String>;
    /// Gives times from the source's own zero; called before the first `fill`.
    fn keep_absolute_times(&mut self) {}
    /// Gives other times than the clock's, called before the first `fill`; tells whether the format has them.
    fn choose_times(&mut self, times: RowTimes) -> bool {
        times == RowTimes::Clock
    }
    /// Choice of the reader, where the format leaves one.
    fn detail(&self) -> Option<&str> {
        None
    }
}

/// A reader that takes rows from a stream of bytes: text, or records.
pub(crate) trait RowReader: Send {
    /// Adds requests to the batch, until it is full or the stream is through.
    fn fill_some(&mut self, batch: &mut Vec<Request>) -> Result<(), Error>;
    /// Source of its bytes, with the notes on them.
    fn feed(&self) -> &Feed;
    /// The feed, to be changed.
    fn feed_mut(&mut self) -> &mut Feed;
    /// See `Reader::detail`.
    fn detail(&self) -> Option<&str>;
    /// See `Reader::choose_times`.
    fn choose_times(&mut self, times: RowTimes) -> bool {
        times == RowTimes::Clock
    }
}

/// Source of such a reader's bytes, with the notes on them.
pub(crate) struct Feed {
    pub(crate) stream: Stream,
    pub(crate) volumes: Volumes,
    pub(crate) intake: Intake,
    pub(crate) done: bool,
}

impl Feed {
    pub(crate) fn new(stream: Stream, tick_ns: u64, skip_bad_rows: bool) -> Feed {
        Feed { stream, volumes: Volumes::default(), intake: Intake::new(tick_ns, skip_bad_rows), done: false }
    }
}

impl<R: RowReader> Reader for R {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        batch.reserve(BATCH);
        let outcome = self.fill_some(batch);
        self.feed_mut().done |= outcome.is_err();
        outcome
    }

    fn progress(&self) -> Progress {
        self.feed().stream.progress()
    }

    fn volumes(&self) -> &[Volume] {
        self.feed().volumes.list()
    }

    fn notes(&self) -> TraceNotes {
        self.feed().intake.notes
    }

    fn keep_absolute_times(&mut self) {
        self.feed_mut().intake.keep_absolute_times();
    }

    fn first_out_of_order(&self) -> Option<u64> {
        self.feed().intake.first_out_of_order
    }

    fn sha256(&self) -> Option<String> {
        self.feed().stream.sha256()
    }

    fn detail(&self) -> Option<&str> {
        RowReader::detail(self)
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        RowReader::choose_times(self, times)
    }
}
