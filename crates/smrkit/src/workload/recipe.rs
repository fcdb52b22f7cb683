//! Parts that recipes for requests share: their keys in groups, and the drive that the requests are made for.

use std::fmt;
use std::str::FromStr;

use super::arrivals::{IntervalSpread, RequestTimes};
use super::dice::{Coin, Dice};
use super::sizes::Sizes;
use super::stream::{Address, Independent, Limit, Limited, Pattern, Stream};
use crate::error::Error;
use crate::keys;
use crate::quantity::{Bytes, exact_bytes, parse_bytes, parse_percent};
use crate::schema::{Asked, Count, Keyed, Maybe, Noted, Size, Text, Time, Values, number};
use crate::units::{Nanos, SECTOR_BYTES};

/// Streams of requests, or what is wrong with the values.
pub(super) type Streams = Result<Vec<Box<dyn Stream>>, Error>;

/// A workload with its values.
pub(super) trait Recipe: Keyed {
    /// Refuses values that don't go together; most have those of requests.
    fn check(values: &Values) -> Result<(), Error> {
        Requests::read(values)?.check()
    }

    /// The streams of its requests.
    fn streams(&self, site: &Site) -> Streams;
}

/// A stretch of addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reach {
    /// In bytes.
    Bytes(u64),
    /// In percent of the drive.
    Percent(f64),
}

impl Reach {
    /// In sectors, on a drive that offers `capacity` of them.
    pub fn sectors(self, capacity: u64) -> u64 {
        match self {
            Reach::Bytes(bytes) => bytes / SECTOR_BYTES,
            Reach::Percent(percent) => (capacity as f64 * (percent / 100.0)) as u64,
        }
    }
}

impl FromStr for Reach {
    type Err = Error;
    fn from_str(text: &str) -> Result<Reach, Error> {
        match text.trim_end().ends_with('%') {
            true => parse_percent(text).map(Reach::Percent),
            false => parse_bytes(text).map(Reach::Bytes),
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reach::Bytes(bytes) => f.write_str(&exact_bytes(*bytes)),
            Reach::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Text form of the lengths of requests.
pub(super) const SIZES: Text<Sizes> = Text::new("a size from 512 bytes, a range 4Ki-64Ki, or a list 4Ki/70:64Ki/30");
/// Text form of stretches of addresses.
pub(super) const REACH: Text<Reach> = Text::new("a size, or a percentage of the capacity");
const SPREAD: Text<IntervalSpread> = Text::new("even, poisson or normal:DEVIATION");
/// An amount of data that has at least a sector.
pub(super) const AMOUNT: Size = Size(SECTOR_BYTES, u64::MAX);

keys! {
    /// Addresses of requests.
    pub(super) struct SpanKeys {
        /// Stretch of addresses it stays in; never more than the drive by default.
        pub span: Asked<Reach> = Noted(REACH), "100%";
        /// First address, rounded down to a sector.
        pub start: Reach = REACH, "0";
    }
}

keys! {
    /// End of a workload: by one of them.
    pub(super) struct End {
        /// End after this many requests.
        pub count: Asked<Option<u64>> = Noted(Maybe(Count(1, u64::MAX))), "100k";
        /// End at this time (instead of count).
        pub duration: Asked<Option<Nanos>> = Noted(Maybe(Time(1))), "";
        /// End once this much was asked for (instead of count).
        pub bytes: Option<u64> = Maybe(AMOUNT), "";
    }
}

keys! {
    /// When requests come.
    pub(super) struct ArrivalKeys {
        /// Mean time between requests.
        pub interval: Asked<Nanos> = Noted(Time(0)), "20ms";
        /// Requests a second (instead of interval).
        pub rate: Option<f64> = Maybe(number(1e-6, 1e9)), "";
        /// Spread of intervals about their mean.
        pub arrivals: IntervalSpread = SPREAD, "even";
    }
}

keys! {
    /// Requests: how long, where, how many, and when.
    pub(super) struct Requests {
        /// Length of a request: one size, a range, or a list with weights.
        pub size: Sizes = SIZES, "4Ki";
        /// Addresses.
        pub span: SpanKeys;
        /// End of the workload.
        pub end: End;
        /// When they come.
        pub pace: ArrivalKeys;
    }
}

/// Refuses more than one of what says the same in different ways.
fn exclusive(given: &[(&str, bool)]) -> Result<(), Error> {
    let names: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    match names.len() {
        0 | 1 => Ok(()),
        _ => Err(Error::Usage(format!("{} exclude each other: give one of them", names.join(" and ")))),
    }
}

impl End {
    /// Refuses two ends, and one that never comes.
    pub fn check(&self, pace: Option<&ArrivalKeys>) -> Result<(), Error> {
        exclusive(&[("count", self.count.given), ("duration", self.duration.given), ("bytes", self.bytes.is_some())])?;
        match pace {
            Some(pace) if self.duration.given && pace.mean().0 == 0 => {
                Err(Error::Usage("with an interval of 0 time stands still: end it by count or bytes".into()))
            }
            _ => Ok(()),
        }
    }

    /// The end: what was given, or else the default.
    pub fn limit(&self) -> Limit {
        match (self.count.value, self.duration.value, self.bytes) {
            (_, _, Some(bytes)) => Limit::Sectors(bytes / SECTOR_BYTES),
            (Some(count), Some(_), _) if self.count.given => Limit::Count(count),
            (_, Some(end), _) => Limit::Until(end),
            (count, None, None) => Limit::Count(count.unwrap_or(u64::MAX)),
        }
    }
}

impl ArrivalKeys {
    /// Refuses two paces.
    pub fn check(&self) -> Result<(), Error> {
        exclusive(&[("interval", self.interval.given), ("rate", self.rate.is_some())])
    }

    /// The mean time between requests.
    pub fn mean(&self) -> Nanos {
        self.rate.map_or(self.interval.value, |rate| Nanos((1e9 / rate).round() as u64))
    }

    /// The arrivals.
    pub fn arrivals(&self) -> RequestTimes {
        RequestTimes::new(self.mean(), self.arrivals)
    }
}

impl Requests {
    /// Refuses values that don't go together.
    pub fn check(&self) -> Result<(), Error> {
        self.end.check(Some(&self.pace))?;
        self.pace.check()?;
        match self.span.span {
            Asked { value: Reach::Bytes(bytes), given: true } if self.size.largest() > bytes / SECTOR_BYTES => {
                let (size, span) = (&self.size, exact_bytes(bytes));
                let problem =
                    format!("a request of size={size} does not fit into span={span}: raise span or lower size");
                Err(Error::Usage(problem))
            }
            _ => Ok(()),
        }
    }

    /// First sector and sectors of their span.
    pub fn area(&self, site: &Site) -> Result<(u64, u64), Error> {
        site.area(&self.span, self.size.largest())
    }

    /// Streams in which time, length, operation and address of each request are drawn independently.
    pub fn streams(&self, dice: Dice, write_share: f64, first: u64, address: impl Address + 'static) -> Streams {
        let (sizes, arrivals) = (self.size.picker(), self.pace.arrivals());
        let pattern = Independent { dice, arrivals, sizes, writes: Coin::new(write_share), first, address };
        Ok(vec![self.limited(pattern, 1.0)])
    }

    /// A pattern with their end; `on_share` is the share of the time in which requests come.
    pub fn limited(&self, pattern: impl Pattern + 'static, on_share: f64) -> Box<dyn Stream> {
        let limit = self.end.limit();
        let expected = match limit {
            Limit::Count(count) => count as f64,
            Limit::Sectors(sectors) => sectors as f64 / self.size.mean(),
            Limit::Until(end) => end.0 as f64 / self.pace.mean().0.max(1) as f64 * on_share,
        };
        Box::new(Limited::new(pattern, limit, expected))
    }
}

/// A part of a workload on a drive: what its streams share.
pub(super) struct Site {
    /// The part as it was written, for errors.
    pub part: String,
    /// Sectors that the drive offers.
    pub capacity: u64,
    pub seed: u64,
    /// Part of the workload; streams of different parts are independent.
    pub number: u64,
}

impl Site {
    /// The random numbers of a stream of this part.
    pub fn dice(&self, stream: u64) -> Dice {
        Dice::new(self.seed, self.number << 8 | stream)
    }

    /// First sector and sectors of `span`; `least` is what one request needs.
    pub fn area(&self, span: &SpanKeys, least: u64) -> Result<(u64, u64), Error> {
        let first = span.start.sectors(self.capacity);
        let room = self.capacity.saturating_sub(first);
        let asked = span.span.value.sectors(self.capacity);
        // A default gives way to the drive; what was asked for does not.
        let sectors = if span.span.given { asked } else { asked.min(room) };
        if sectors > room {
            return Err(self.too_large(first, sectors));
        }
        if sectors < least {
            return Err(Error::Impossible(format!(
                "workload {} needs {} at least, but its span is {}: raise span, lower size or start, or choose a larger drive",
                self.part,
                Bytes::of_sectors(least),
                Bytes::of_sectors(sectors)
            )));
        }
        Ok((first, sectors))
    }

    /// The error of a span that the drive has no room for.
    pub fn too_large(&self, first: u64, sectors: u64) -> Error {
        Error::Impossible(format!(
            "workload {} reaches {} from {}, but the drive offers {}: lower span or start, or choose a larger drive",
            self.part,
            Bytes::of_sectors(sectors),
            Bytes::of_sectors(first),
            Bytes::of_sectors(self.capacity)
        ))
    }

    /// Values that don't go together; the message says what to do.
    pub fn usage(&self, message: &str) -> Error {
        Error::Usage(format!("workload {}: {message}", self.part))
    }
}
