//! When requests arrive: as commands are completed (closed loop), or by the trace's clock (open loop).

use std::collections::VecDeque;

use crate::settings::{Arrival, Settings};
use crate::units::Nanos;

/// Gives each request its moment of arrival.
pub enum Arrivals {
    /// The moments at which commands were completed and not yet followed by another.
    Closed {
        /// One moment for each command that may be outstanding.
        free: VecDeque<Nanos>,
        /// The pause after a completion.
        think: Nanos,
    },
    /// A closed loop with pauses of the trace: the step from the time of the request before.
    Thinking {
        /// As above.
        free: VecDeque<Nanos>,
        /// The time of the request before.
        last: Nanos,
    },
    /// The trace's times from `origin` on, stretched by `scale`.
    Open {
        /// The moment of the trace's time 0.
        origin: Nanos,
        /// The factor.
        scale: f64,
    },
}

impl Arrivals {
    /// Arrivals from the moment `now` on.
    pub fn new(settings: &Settings, now: Nanos) -> Arrivals {
        match settings.arrival {
            Arrival::FlatOut => {
                Arrivals::Closed { free: vec![now; settings.depth as usize].into(), think: settings.think }
            }
            Arrival::Closed => {
                Arrivals::Thinking { free: vec![now; settings.depth as usize].into(), last: Nanos::ZERO }
            }
            Arrival::Trace => Arrivals::Open { origin: now, scale: settings.time_scale },
        }
    }

    /// The arrival of the next request, whose time in the trace is `time`.
    #[inline]
    pub fn next(&mut self, time: Nanos) -> Nanos {
        match self {
            Arrivals::Closed { free, .. } => free.pop_front().expect("no more outstanding than the depth"),
            Arrivals::Thinking { free, last } => {
                let think = time.since(std::mem::replace(last, time));
                free.pop_front().expect("no more outstanding than the depth") + think
            }
            Arrivals::Open { origin, scale } => by_clock(*origin, *scale, time),
        }
    }

    /// The arrival of the next request, which is not taken; [`Nanos::MAX`] where no further command may be outstanding.
    #[inline]
    pub fn peek(&self, time: Nanos) -> Nanos {
        match self {
            Arrivals::Closed { free, .. } => free.front().copied().unwrap_or(Nanos::MAX),
            Arrivals::Thinking { free, last } => free.front().map_or(Nanos::MAX, |free| *free + time.since(*last)),
            Arrivals::Open { origin, scale } => by_clock(*origin, *scale, time),
        }
    }

    /// True if a further command may be outstanding.
    #[inline]
    pub fn may_send(&self) -> bool {
        !matches!(self, Arrivals::Closed { free, .. } | Arrivals::Thinking { free, .. } if free.is_empty())
    }

    /// True if each request waits for the completion of the one before it.
    pub fn is_one_by_one(&self) -> bool {
        matches!(self, Arrivals::Closed { free, .. } | Arrivals::Thinking { free, .. } if free.len() == 1)
    }

    /// A request was completed at `end`; completions come in the order of time.
    #[inline]
    pub fn completed(&mut self, end: Nanos) {
        match self {
            Arrivals::Closed { free, think } => free.push_back(end + *think),
            Arrivals::Thinking { free, .. } => free.push_back(end),
            Arrivals::Open { .. } => {}
        }
    }
}

#[inline]
fn by_clock(origin: Nanos, scale: f64, time: Nanos) -> Nanos {
    if scale == 1.0 { origin + time } else { origin + Nanos((time.0 as f64 * scale).round() as u64) }
}
