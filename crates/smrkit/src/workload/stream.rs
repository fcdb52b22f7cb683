//! Streams of requests: a pattern with an end, several merged by time, several one after another.

use crate::error::Error;
use crate::request::{InMemory, Progress, Request, Source};
use crate::units::Nanos;

/// Requests in the order of their times; it cannot fail.
pub(super) trait Stream: Send {
    /// Replaces `batch` by the next requests; an empty batch is the end.
    fn fill(&mut self, batch: &mut Vec<Request>);
    /// The end: the time that one more request would have had.
    fn end(&self) -> Nanos;
    /// Requests so far, and in all; an estimate if only a time or an amount is set.
    fn counts(&self) -> (u64, u64);
}

/// An infinite or finite sequence of requests.
pub(super) trait Pattern: Send {
    /// The next request; `None` at a natural end.
    fn next(&mut self) -> Option<Request>;
    /// The time of the next one, as far as it is known.
    fn peek(&self) -> Nanos;
}

/// End of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// A number of requests.
    Count(u64),
    /// A moment.
    Until(Nanos),
    /// A number of sectors asked for.
    Sectors(u64),
}

/// A pattern with an end.
pub(super) struct Limited<P> {
    pattern: P,
    limit: Limit,
    expected: u64,
    done: u64,
    sectors: u64,
    over: bool,
}

impl<P: Pattern> Limited<P> {
    /// `expected`: about how many requests that makes.
    pub fn new(pattern: P, limit: Limit, expected: f64) -> Limited<P> {
        Limited { pattern, limit, expected: expected as u64, done: 0, sectors: 0, over: false }
    }

    fn next(&mut self) -> Option<Request> {
        if let Limit::Sectors(sectors) = self.limit
            && self.sectors >= sectors
        {
            return None;
        }
        let request = self.pattern.next()?;
        if let Limit::Until(end) = self.limit
            && request.time >= end
        {
            return None;
        }
        self.sectors = self.sectors.saturating_add(u64::from(request.sectors));
        Some(request)
    }
}

impl<P: Pattern> Stream for Limited<P> {
    fn fill(&mut self, batch: &mut Vec<Request>) {
        batch.clear();
        if self.over {
            return;
        }
        let full = InMemory::BATCH;
        if let Limit::Count(count) = self.limit {
            let wanted = full.min(usize::try_from(count - self.done).unwrap_or(full));
            batch.extend((0..wanted).map_while(|_| self.pattern.next()));
            self.over = batch.len() < wanted || self.done + wanted as u64 == count;
        } else {
            batch.extend((0..full).map_while(|_| self.next()));
            self.over = batch.len() < full;
        }
        self.done += batch.len() as u64;
    }

    fn end(&self) -> Nanos {
        match self.limit {
            Limit::Until(end) => end,
            _ => self.pattern.peek(),
        }
    }

    fn counts(&self) -> (u64, u64) {
        (self.done, if self.over { self.done } else { self.expected.max(self.done) })
    }
}

/// Streams merged by time; at equal times the lower number goes first. The number is the requests' source.
pub(super) struct MergedStreams {
    streams: Vec<BufferedStream>,
}

struct BufferedStream {
    stream: Box<dyn Stream>,
    batch: Vec<Request>,
    at: usize,
}

impl BufferedStream {
    fn peek(&mut self) -> Option<Nanos> {
        if self.at == self.batch.len() {
            self.at = 0;
            self.stream.fill(&mut self.batch);
        }
        self.batch.get(self.at).map(|request| request.time)
    }
}

impl MergedStreams {
    /// At most 256 streams.
    pub fn new(streams: Vec<Box<dyn Stream>>) -> MergedStreams {
        assert!(streams.len() <= 256, "{} sources", streams.len());
        MergedStreams {
            streams: streams.into_iter().map(|stream| BufferedStream { stream, batch: Vec::new(), at: 0 }).collect(),
        }
    }
}

impl Stream for MergedStreams {
    fn fill(&mut self, batch: &mut Vec<Request>) {
        batch.clear();
        while batch.len() < InMemory::BATCH {
            let times = self.streams.iter_mut().enumerate().filter_map(|(i, ahead)| Some((ahead.peek()?, i)));
            let Some((_, source)) = times.min() else { return };
            let ahead = &mut self.streams[source];
            batch.push(Request { source: source as u8, ..ahead.batch[ahead.at] });
            ahead.at += 1;
        }
    }

    fn end(&self) -> Nanos {
        self.streams.iter().map(|ahead| ahead.stream.end()).max().unwrap_or(Nanos::ZERO)
    }

    fn counts(&self) -> (u64, u64) {
        self.streams.iter().fold((0, 0), |(done, total), ahead| {
            let (more_done, more_total) = ahead.stream.counts();
            let waiting = (ahead.batch.len() - ahead.at) as u64;
            (done + more_done - waiting, u64::saturating_add(total, more_total))
        })
    }
}

/// Streams one after another. The times of each continue from the end of the one before.
pub(super) struct Chained {
    streams: Vec<Box<dyn Stream>>,
    current: usize,
    offset: Nanos,
}

impl Chained {
    /// In this order.
    pub fn new(streams: Vec<Box<dyn Stream>>) -> Chained {
        Chained { streams, current: 0, offset: Nanos::ZERO }
    }
}

impl Stream for Chained {
    fn fill(&mut self, batch: &mut Vec<Request>) {
        batch.clear();
        while let Some(stream) = self.streams.get_mut(self.current) {
            stream.fill(batch);
            if !batch.is_empty() {
                batch.iter_mut().for_each(|r| r.time = Nanos(r.time.0.saturating_add(self.offset.0)));
                return;
            }
            self.offset = Nanos(self.offset.0.saturating_add(stream.end().0));
            self.current += 1;
        }
    }

    fn end(&self) -> Nanos {
        self.offset
    }

    fn counts(&self) -> (u64, u64) {
        self.streams.iter().map(|s| s.counts()).fold((0, 0), |a, b| (a.0 + b.0, a.1.saturating_add(b.1)))
    }
}

/// A stream as the engine takes it; its progress counts requests.
pub(super) struct StreamSource(pub Box<dyn Stream>);

impl Source for StreamSource {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.0.fill(batch);
        Ok(())
    }

    fn progress(&self) -> Progress {
        let (done, total) = self.0.counts();
        Progress { done, total: Some(total) }
    }
}
