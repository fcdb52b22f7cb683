//! The intake of requests: when they arrive, as commands complete (closed loop) or by the trace's clock (open loop). Requests outside the
//! device, or out of order, are refused with a remedy.

use std::collections::VecDeque;

use crate::device::Device;
use crate::error::{Error, NoRoom};
use crate::message::PUT_IN_ORDER;
use crate::request::{Request, Source};
use crate::settings::{Arrival, Settings};
use crate::units::{Lba, Nanos};

/// Computes the arrival of each request.
pub enum Arrivals {
    /// A closed loop: a command arrives when another completes.
    FlatOut {
        /// When each free place in the queue became free.
        free: VecDeque<Nanos>,
        /// The pause after a completion.
        think: Nanos,
    },
    /// A closed loop with the trace's pauses: the differences between the times of consecutive requests.
    Closed {
        /// As above.
        free: VecDeque<Nanos>,
        /// The trace's time of the previous request.
        last: Nanos,
        /// For traces that record how many requests were outstanding.
        sent: SentBefore,
    },
    /// The trace's times from `origin` on, stretched by `scale`.
    Open {
        /// When the trace's time 0 is.
        origin: Nanos,
        /// The factor.
        scale: f64,
    },
}

/// Requests and completions so far. They tell when a request may be sent that waits until at most some number of others are outstanding.
#[derive(Default)]
pub struct SentBefore {
    count: u64,
    /// The arrival of the last request.
    arrival: Nanos,
    /// The latest completions; `forgotten` counts those before them.
    ends: VecDeque<Nanos>,
    forgotten: u64,
}

impl SentBefore {
    /// The first time at which all earlier requests had arrived, and at most `outstanding` of them had not completed; [`Nanos::MAX`] if that
    /// is still to come.
    fn moment(&self, outstanding: u16) -> Nanos {
        let awaited = self.count.saturating_sub(outstanding.into());
        // Without any, or if the last of them is forgotten because it is long past, no completion delays the request.
        let Some(last) = awaited.checked_sub(self.forgotten + 1) else { return self.arrival };
        self.ends.get(last as usize).map_or(Nanos::MAX, |&end| end.max(self.arrival))
    }

    fn send(&mut self, arrival: Nanos) {
        (self.count, self.arrival) = (self.count + 1, arrival);
        // A request names at most `u16::MAX` outstanding ones, so older ends are never asked for.
        while self.count - self.forgotten > u64::from(u16::MAX) + 1 && self.ends.pop_front().is_some() {
            self.forgotten += 1;
        }
    }
}

impl Arrivals {
    /// Arrivals from the moment `now` on.
    pub fn new(settings: &Settings, now: Nanos) -> Arrivals {
        match settings.arrival {
            Arrival::FlatOut => {
                Arrivals::FlatOut { free: vec![now; settings.depth as usize].into(), think: settings.think }
            }
            Arrival::Closed => {
                let sent = SentBefore { arrival: now, ..SentBefore::default() };
                Arrivals::Closed { free: vec![now; settings.depth as usize].into(), last: Nanos::ZERO, sent }
            }
            Arrival::Trace => Arrivals::Open { origin: now, scale: settings.time_scale },
        }
    }

    /// Takes the next request and returns its arrival. Its time in the trace is `time`; the trace may also say how many other requests were
    /// `outstanding` when it was sent.
    #[inline]
    pub fn next(&mut self, time: Nanos, outstanding: Option<u16>) -> Nanos {
        let arrival = self.peek(time, outstanding);
        match self {
            Arrivals::FlatOut { free, .. } => {
                free.pop_front().expect("no more outstanding than the depth");
            }
            Arrivals::Closed { free, last, sent } => {
                *last = time;
                // A recorded number of outstanding requests takes no place: completions since tell when it may be sent.
                if outstanding.is_none() {
                    free.pop_front().expect("no more outstanding than the depth");
                }
                sent.send(arrival);
            }
            Arrivals::Open { .. } => {}
        }
        arrival
    }

    /// The arrival of the next request, without taking it; [`Nanos::MAX`] if no further command may be outstanding.
    #[inline]
    pub fn peek(&self, time: Nanos, outstanding: Option<u16>) -> Nanos {
        match self {
            Arrivals::FlatOut { free, .. } => free.front().copied().unwrap_or(Nanos::MAX),
            Arrivals::Closed { free, last, sent } => {
                let from = match outstanding {
                    Some(outstanding) => sent.moment(outstanding),
                    None => free.front().copied().unwrap_or(Nanos::MAX),
                };
                // A sum of times saturates, so it is `Nanos::MAX` if `from` is.
                from + time.since(*last)
            }
            // Not scaled if the factor is 1, because long times would lose digits as floating-point numbers.
            Arrivals::Open { origin, scale: 1.0 } => *origin + time,
            Arrivals::Open { origin, scale } => *origin + Nanos((time.0 as f64 * scale).round() as u64),
        }
    }

    /// True if a further command may be outstanding.
    #[inline]
    pub fn may_send(&self, outstanding: Option<u16>) -> bool {
        self.peek(Nanos::ZERO, outstanding) < Nanos::MAX
    }

    /// True if each request waits for the completion of the one before it.
    pub fn is_one_by_one(&self) -> bool {
        matches!(self, Arrivals::FlatOut { free, .. } | Arrivals::Closed { free, .. } if free.len() == 1)
    }

    /// Notes a completion at `end`. Completions come in the order of time.
    #[inline]
    pub fn completed(&mut self, end: Nanos) {
        match self {
            Arrivals::FlatOut { free, think } => free.push_back(end + *think),
            Arrivals::Closed { free, sent, .. } => {
                free.push_back(end);
                sent.ends.push_back(end);
            }
            Arrivals::Open { .. } => {}
        }
    }
}

/// Later arrivals are refused, well before time ends at `Nanos::MAX`.
const LATEST: Nanos = Nanos(u64::MAX / 2);

/// The requests to come, a batch at a time.
#[derive(Default)]
pub(super) struct Input {
    batch: Vec<Request>,
    /// How many were outstanding when each request arrived; empty if that is not known.
    outstanding: Vec<u16>,
    at: usize,
    /// True if no more requests come.
    pub is_over: bool,
}

impl Input {
    /// True if the batch is used up and the next is to be taken.
    #[inline]
    pub fn wants_more(&self) -> bool {
        self.at == self.batch.len() && !self.is_over
    }

    /// True if no batch has been taken yet.
    pub fn is_new(&self) -> bool {
        self.batch.is_empty()
    }

    pub fn fill(&mut self, source: &mut dyn Source) -> Result<(), Error> {
        source.fill(&mut self.batch)?;
        self.outstanding = source.outstanding().to_vec();
        (self.at, self.is_over) = (0, self.batch.is_empty());
        Ok(())
    }

    /// Ends the input: no more requests are taken.
    pub fn end(&mut self) {
        self.batch.clear();
        (self.at, self.is_over) = (0, true);
    }

    /// The next request, without taking it.
    #[inline]
    pub fn peek(&self) -> Option<&Request> {
        self.batch.get(self.at)
    }

    /// How many requests were outstanding when the next one arrived, if that is known.
    #[inline]
    pub fn outstanding(&self) -> Option<u16> {
        self.outstanding.get(self.at).copied()
    }

    /// Takes the next request, with the number that was outstanding when it arrived, if that is known.
    #[inline]
    pub fn next(&mut self) -> Option<(Request, Option<u16>)> {
        let next = (*self.batch.get(self.at)?, self.outstanding());
        self.at += 1;
        Some(next)
    }
}

/// Checks requests, and counts those taken so far.
#[derive(Default)]
pub(super) struct Intake {
    arrival: Arrival,
    fold: bool,
    /// Requests taken from the source.
    taken: u64,
    /// Requests taken from each of the merged sources, if rows are wanted.
    taken_of_source: Vec<u64>,
    last_time: Nanos,
    /// The row, in its source, of the request noted last; 0 if rows are not wanted.
    pub row: u64,
    /// Sectors offered to all sources; `None` if each source has a member of its own.
    host_sectors: Option<u64>,
}

impl Intake {
    pub fn new(settings: &Settings, device: &Device) -> Intake {
        Intake {
            arrival: settings.arrival,
            fold: settings.fold,
            host_sectors: Some(device.host_sectors()).filter(|_| !device.is_per_source()),
            ..Intake::default()
        }
    }

    /// Moves a request to its source's part of the device. Refuses one that ends beyond that part (if requests are not folded), or is
    /// earlier than the one before it (if they come at the trace's times).
    #[inline]
    pub fn admit(&mut self, request: &mut Request, device: &Device, source: &dyn Source) -> Result<(), Error> {
        let (start, capacity) = match self.host_sectors {
            Some(all) => (Lba(0), all),
            None => device.place_of_source(request.source),
        };
        self.taken += 1;
        if request.end().0 > capacity {
            self.fold(request, capacity, source)?;
        }
        if self.arrival == Arrival::Trace {
            if request.time < self.last_time {
                return Err(self.disorder(source));
            }
            self.last_time = request.time;
        }
        request.lba += start.0;
        Ok(())
    }

    /// Notes the row of an admitted request. To be called once for each.
    pub fn note_row(&mut self, source: u8) {
        let source = usize::from(source);
        if self.taken_of_source.len() <= source {
            self.taken_of_source.resize(source + 1, 0);
        }
        self.row = self.taken_of_source[source];
        self.taken_of_source[source] += 1;
    }

    /// Refuses an arrival at the end of time.
    #[inline]
    pub fn check_arrival(&self, arrival: Nanos) -> Result<(), Error> {
        if arrival > LATEST { Err(self.too_late()) } else { Ok(()) }
    }

    /// Refuses work of an array's own at the end of time.
    #[inline]
    pub fn check_task(&self, moment: Nanos) -> Result<(), Error> {
        if moment <= LATEST {
            return Ok(());
        }
        let message = "the array's own work would go on for more than 292 years: raise its rate, or begin earlier (at)";
        Err(Error::Usage(message.into()))
    }

    /// Takes the address of a request that ends beyond `capacity` modulo the capacity. Errors: requests are not folded, or this one is too
    /// long.
    #[cold]
    fn fold(&self, request: &mut Request, capacity: u64, source: &dyn Source) -> Result<(), Error> {
        let sectors = u64::from(request.sectors);
        if self.fold && sectors <= capacity {
            // A request that would cross the end is moved back.
            request.lba = Lba((request.lba.0 % capacity).min(capacity - sectors));
            return Ok(());
        }
        let (path, number) = (source.name(), self.taken);
        if capacity == 0 {
            let message = format!(
                "request {number} is of source {}, counted from 0, and the dedicated array has no member for it: raise disks",
                request.source
            );
            return Err(Error::input(path, message));
        }
        let remedy = match sectors > capacity {
            true => "take a larger drive, or give a larger {capacity}",
            // For a trace; in other replays `with_remedy` puts theirs in its place.
            false => {
                "add {fold} to take addresses modulo the capacity, {capacity} auto for a drive as large as the trace, or choose \
                 one {volume}"
            }
        };
        let remedy = remedy.to_string();
        Err(Error::NoRoom(Box::new(NoRoom { path, number, sectors, end: request.end(), capacity, remedy })))
    }

    #[cold]
    fn disorder(&self, source: &dyn Source) -> Error {
        let problem = format!(
            "request {} has a time before the one above it, so it can't be replayed by its times: {PUT_IN_ORDER}",
            self.taken
        );
        Error::input(source.name(), problem)
    }

    #[cold]
    fn too_late(&self) -> Error {
        let remedy = match self.arrival {
            Arrival::FlatOut => "shorter {think}",
            Arrival::Closed => "trace with shorter think times",
            Arrival::Trace => "smaller {time_scale}, or look for a wrong time in the trace",
        };
        Error::Usage(format!("request {} would arrive after more than 292 years: give a {remedy}", self.taken))
    }
}
