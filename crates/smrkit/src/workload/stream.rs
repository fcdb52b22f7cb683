//! Streams of requests: a pattern with an end, several merged by time, several one after another.

use crate::error::Error;
use crate::interleave::Interleaved;
use crate::request::{InMemory, Progress, Request, Source};
use crate::units::Nanos;

/// Requests in the order of their times.
pub(super) trait Stream: Source {
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

impl<P: Pattern> Source for Limited<P> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if self.over {
            return Ok(());
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
        Ok(())
    }
}

impl<P: Pattern> Stream for Limited<P> {
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

impl Stream for Interleaved<Box<dyn Stream>> {
    fn end(&self) -> Nanos {
        (0..self.len()).map(|number| self.source(number).end()).max().unwrap_or(Nanos::ZERO)
    }

    fn counts(&self) -> (u64, u64) {
        let all = (0..self.len()).map(|number| (self.given(number), self.source(number).counts().1));
        all.fold((0, 0), |(done, total), (given, own)| (done + given, u64::saturating_add(total, own)))
    }
}

/// Streams one after another. The times of each continue from the end of the one before. Progress counts requests.
pub(super) struct Chained {
    streams: Vec<Box<dyn Stream>>,
    current: usize,
    offset: Nanos,
}

impl Chained {
    pub fn new(streams: Vec<Box<dyn Stream>>) -> Chained {
        Chained { streams, current: 0, offset: Nanos::ZERO }
    }
}

impl Source for Chained {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        while let Some(stream) = self.streams.get_mut(self.current) {
            stream.fill(batch)?;
            if !batch.is_empty() {
                if self.offset > Nanos::ZERO {
                    batch.iter_mut().for_each(|request| request.time += self.offset);
                }
                break;
            }
            self.offset += stream.end();
            self.current += 1;
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        let counts = self.streams.iter().map(|stream| stream.counts());
        let (done, total) = counts.fold((0, 0u64), |(done, total), own| (done + own.0, total.saturating_add(own.1)));
        Progress { done, total: Some(total) }
    }
}
