//! When requests arrive: evenly, as a Poisson process, or normally spread; the whole in bursts with pauses, if asked.

use std::fmt;
use std::str::FromStr;

use super::dice::Dice;
use crate::error::Error;
use crate::quantity::{exact_duration, parse_duration};
use crate::units::Nanos;

/// Spread of the intervals between requests about their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntervalSpread {
    /// All the same.
    Even,
    /// Exponentially: a Poisson process.
    Poisson,
    /// Normally, with this deviation; none is negative.
    Normal(Nanos),
}

impl FromStr for IntervalSpread {
    type Err = Error;

    /// Reads `even`, `poisson` or `normal:10ms`.
    fn from_str(text: &str) -> Result<IntervalSpread, Error> {
        match text.split_once(':') {
            Some(("normal", deviation)) => Ok(IntervalSpread::Normal(parse_duration(deviation)?)),
            None if text == "even" => Ok(IntervalSpread::Even),
            None if text == "poisson" => Ok(IntervalSpread::Poisson),
            _ => Err(Error::Usage("expected even, poisson, or normal with its deviation, such as normal:10ms".into())),
        }
    }
}

impl fmt::Display for IntervalSpread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntervalSpread::Even => f.write_str("even"),
            IntervalSpread::Poisson => f.write_str("poisson"),
            IntervalSpread::Normal(deviation) => write!(f, "normal:{}", exact_duration(*deviation)),
        }
    }
}

/// Gives each request its time.
#[derive(Clone, Debug)]
pub(super) struct RequestTimes {
    next_ns: u64,
    interval_ns: u64,
    spread: IntervalSpread,
    /// Nanoseconds on, nanoseconds off.
    burst: Option<(u64, u64)>,
}

impl RequestTimes {
    /// From time 0 on, `interval` apart on average.
    pub fn new(interval: Nanos, spread: IntervalSpread) -> RequestTimes {
        RequestTimes { next_ns: 0, interval_ns: interval.0, spread, burst: None }
    }

    /// Arrivals only in bursts of length `on` that are `off` apart.
    pub fn in_bursts(self, on: Nanos, off: Nanos) -> RequestTimes {
        RequestTimes { burst: Some((on.0.max(1), off.0)), ..self }
    }

    /// The next request's time.
    #[inline]
    pub fn next(&mut self, dice: &mut Dice) -> Nanos {
        let time = self.peek();
        let interval = match self.spread {
            IntervalSpread::Even => self.interval_ns,
            IntervalSpread::Poisson => (self.interval_ns as f64 * dice.exponential()) as u64,
            // A negative float becomes 0.
            IntervalSpread::Normal(deviation) => (self.interval_ns as f64 + deviation.0 as f64 * dice.normal()) as u64,
        };
        self.next_ns = self.next_ns.saturating_add(interval);
        time
    }

    /// The time that the next request will have.
    #[inline]
    pub fn peek(&self) -> Nanos {
        match self.burst {
            None => Nanos(self.next_ns),
            Some((on, off)) => Nanos((self.next_ns / on).saturating_mul(off).saturating_add(self.next_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_keep_their_mean_and_bursts_their_pauses() {
        let ms = |n: u64| Nanos(n * 1_000_000);
        for spread in [IntervalSpread::Even, IntervalSpread::Poisson, IntervalSpread::Normal(ms(2))] {
            let (mut dice, mut arrivals) = (Dice::new(1, 1), RequestTimes::new(ms(10), spread));
            let last = (0..100_001).map(|_| arrivals.next(&mut dice)).last().unwrap();
            assert!((last.as_secs() - 1000.0).abs() < 10.0, "{spread}: {last}");
            assert_eq!(spread.to_string().parse::<IntervalSpread>().unwrap(), spread);
        }
        let (mut dice, mut bursts) =
            (Dice::new(1, 1), RequestTimes::new(ms(10), IntervalSpread::Even).in_bursts(ms(20), ms(100)));
        let times: Vec<u64> = (0..5).map(|_| bursts.next(&mut dice).0 / 1_000_000).collect();
        assert_eq!(times, [0, 10, 120, 130, 240]);
    }
}
