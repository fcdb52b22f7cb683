//! When requests arrive: as commands are answered (closed loop), or by the trace's clock (open loop).

use std::collections::VecDeque;

use super::settings::{Arrival, Settings};
use crate::units::Nanos;

/// Gives each request its moment of arrival.
pub enum Arrivals {
    /// The moments at which commands were answered and not yet followed by another.
    Closed {
        /// One moment for each command that may be outstanding.
        free: VecDeque<Nanos>,
        /// The pause after an answer.
        think: Nanos,
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
            Arrival::Trace => Arrivals::Open { origin: now, scale: settings.time_scale },
        }
    }

    /// The arrival of the next request, whose time in the trace is `time`.
    #[inline]
    pub fn next(&mut self, time: Nanos) -> Nanos {
        match self {
            Arrivals::Closed { free, .. } => free.pop_front().expect("no more outstanding than the depth"),
            Arrivals::Open { origin, scale } => by_clock(*origin, *scale, time),
        }
    }

    /// The same without taking it; [`Nanos::MAX`] where no further command may be outstanding.
    #[inline]
    pub fn peek(&self, time: Nanos) -> Nanos {
        match self {
            Arrivals::Closed { free, .. } => free.front().copied().unwrap_or(Nanos::MAX),
            Arrivals::Open { origin, scale } => by_clock(*origin, *scale, time),
        }
    }

    /// Whether no request arrives before one is answered.
    #[inline]
    pub fn wait_for_answers(&self) -> bool {
        matches!(self, Arrivals::Closed { free, .. } if free.is_empty())
    }

    /// A request was answered at `end`; answers come in the order of time.
    #[inline]
    pub fn answered(&mut self, end: Nanos) {
        if let Arrivals::Closed { free, think } = self {
            free.push_back(end + *think);
        }
    }
}

#[inline]
fn by_clock(origin: Nanos, scale: f64, time: Nanos) -> Nanos {
    if scale == 1.0 { origin + time } else { origin + Nanos((time.0 as f64 * scale).round() as u64) }
}
