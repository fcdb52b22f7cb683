//! The workloads: the keys of each, in groups that they share, and how they become streams of requests on a drive.

use std::fmt;
use std::str::FromStr;

use super::cassuto_pc::{self, CassutoPc, READS, WRITES};
use super::desktop::{self, Desktop};
use super::draws::{IntervalSpread, RequestTimes, Sizes};
use super::patterns::{self, Grid, Independent, Limit, Limited, Pattern, Stream};
use crate::dice::{Coin, Dice};
use crate::error::Error;
use crate::keys;
use crate::quantity::{Bytes, exact_bytes, parse_bytes, parse_percent};
use crate::request::Op;
use crate::schema::{Asked, Count, Keyed, Maybe, Noted, Size, Text, Time, Values, Word, number, share};
use crate::units::{Nanos, SECTOR_BYTES};

/// Streams of requests, or what is wrong with the values.
pub(super) type Streams = Result<Vec<Box<dyn Stream>>, Error>;

/// A workload with its values.
pub(super) trait Recipe: Keyed {
    /// Refuses values that don't go together.
    fn check(values: &Values) -> Result<(), Error> {
        Requests::read(values)?.check()
    }

    /// The streams of its requests.
    fn streams(&self, site: &Site) -> Streams;
}

/// The length of an address range, or an address.
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
        if text.trim_end().ends_with('%') {
            parse_percent(text).map(Reach::Percent)
        } else {
            parse_bytes(text).map(Reach::Bytes)
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
        /// Length of the address range that requests go to; by default at most the size of the drive.
        pub span: Asked<Reach> = Noted(REACH), "100%";
        /// First address of the range, rounded down to a sector.
        pub start: Reach = REACH, "0";
    }
}

keys! {
    /// End of a workload: by one of them.
    pub(super) struct End {
        /// End after this many requests.
        pub count: Asked<Option<u64>> = Noted(Maybe(Count(1, u64::MAX))), "100k";
        /// End at this time (instead of `count`).
        pub duration: Asked<Option<Nanos>> = Noted(Maybe(Time(1))), "";
        /// End after requests for this many bytes (instead of `count`).
        pub bytes: Option<u64> = Maybe(AMOUNT), "";
    }
}

keys! {
    /// When requests come.
    pub(super) struct ArrivalKeys {
        /// Mean time between requests.
        pub interval: Asked<Nanos> = Noted(Time(0)), "20ms";
        /// Requests a second (instead of `interval`).
        pub rate: Option<f64> = Maybe(number(1e-6, 1e9)), "";
        /// Distribution of the intervals around their mean.
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

/// Refuses more than one of several keys that set the same thing.
fn exclusive(given: &[(&str, bool)]) -> Result<(), Error> {
    let names: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    match names.len() {
        0 | 1 => Ok(()),
        _ => Err(Error::Usage(format!("{} exclude each other: give one of them", names.join(" and ")))),
    }
}

impl End {
    /// Refuses two ends, and an end that never comes.
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
            // By default some workloads end after a time, which a count takes the place of.
            (Some(count), Some(_), _) if self.count.given => Limit::Count(count),
            (_, Some(end), _) => Limit::Until(end),
            (count, None, None) => Limit::Count(count.unwrap_or(u64::MAX)),
        }
    }
}

impl ArrivalKeys {
    /// Refuses an interval together with a rate.
    pub fn check(&self) -> Result<(), Error> {
        exclusive(&[("interval", self.interval.given), ("rate", self.rate.is_some())])
    }

    /// The mean time between requests.
    pub fn mean(&self) -> Nanos {
        self.rate.map_or(self.interval.value, |rate| Nanos((1e9 / rate).round() as u64))
    }

    pub fn arrivals(&self) -> RequestTimes {
        RequestTimes::new(self.mean(), self.arrivals)
    }
}

/// The share of the time in which requests come, for a pattern without bursts.
const WITHOUT_PAUSES: f64 = 1.0;
/// Share of writes where all requests have the operation of the workload.
const NO_WRITES: f64 = 0.0;

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

    /// First sector, and number of sectors, of their span.
    pub fn area(&self, site: &Site) -> Result<(u64, u64), Error> {
        site.area(&self.span, self.size.largest())
    }

    /// A pattern in which time, length, operation and address of each request are drawn independently.
    fn independent<A>(&self, site: &Site, dice: Dice, write_share: f64, first: u64, address: A) -> Independent<A> {
        let (sizes, arrivals) = (self.size.clone(), self.pace.arrivals());
        Independent { dice, arrivals, sizes, writes: Coin::new(write_share), other: site.op, first, address }
    }

    /// Streams of such a pattern alone.
    fn independent_streams(
        &self,
        site: &Site,
        dice: Dice,
        write_share: f64,
        first: u64,
        address: impl FnMut(&mut Dice, u64) -> u64 + Send + 'static,
    ) -> Streams {
        self.limited(self.independent(site, dice, write_share, first, address), WITHOUT_PAUSES)
    }

    /// Limits a pattern to the end of the requests. `on_share` is the share of the time in which requests come.
    fn limited(&self, pattern: impl Pattern + 'static, on_share: f64) -> Streams {
        let (limit, mean_ns) = (self.end.limit(), self.pace.mean().0.max(1) as f64 / on_share);
        Ok(vec![Box::new(Limited::new(pattern, limit, limit.expected(self.size.mean(), mean_ns)))])
    }
}

/// A part of a workload on a drive, as its streams need it.
pub(super) struct Site {
    /// The part as it was written, for errors.
    pub part: String,
    /// Sectors that the drive offers.
    pub capacity: u64,
    pub seed: u64,
    /// Part of the workload; streams of different parts are independent.
    pub number: u64,
    /// Operation of the requests that no key makes writes.
    pub op: Op,
}

impl Site {
    /// The random numbers of a stream of this part.
    pub fn dice(&self, stream: u64) -> Dice {
        Dice::new(self.seed, self.number << 8 | stream)
    }

    /// First sector, and number of sectors, of `span`. Errors: fewer than `least` sectors, or more than the drive has there.
    pub fn area(&self, span: &SpanKeys, least: u64) -> Result<(u64, u64), Error> {
        let first = span.start.sectors(self.capacity);
        let room = self.capacity.saturating_sub(first);
        let asked = span.span.value.sectors(self.capacity);
        // A default span is limited to the drive; one that was asked for is refused if it is too large.
        let sectors = if span.span.given { asked } else { asked.min(room) };
        if sectors > room {
            return Err(self.too_large(first, sectors));
        }
        if sectors < least {
            // A larger span would help only if the drive had room for it.
            let (limit, remedy) = match sectors == room {
                true => ("the drive offers", "choose a larger drive or another {workload}, or lower its size or start"),
                false => ("its span is", "raise span, lower size or start, or choose a larger drive"),
            };
            let (part, least, sectors) = (&self.part, Bytes::of_sectors(least), Bytes::of_sectors(sectors));
            return Err(Error::Impossible(format!(
                "workload {part} needs {least} at least, but {limit} {sectors}: {remedy}"
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

    /// The error for values that don't go together. The message says what to do.
    pub fn usage(&self, message: &str) -> Error {
        Error::Usage(format!("workload {}: {message}", self.part))
    }
}

keys! {
    /// Requests at places of a grid.
    pub(super) struct AtRandom {
        /// The requests.
        requests: Requests;
        /// Addresses are multiples of this size, counted from start; by default it is the smallest request size.
        align: Option<u64> = Maybe(AMOUNT), "";
    }
}

impl AtRandom {
    /// First sector, the places in the span, and the longest request.
    fn grid(&self, site: &Site) -> Result<(u64, Grid, u64), Error> {
        let (sizes, (first, span)) = (&self.requests.size, self.requests.area(site)?);
        let align = self.align.map_or(sizes.smallest(), |bytes| bytes / SECTOR_BYTES);
        Ok((first, Grid { span, align }, sizes.largest()))
    }

    fn uniform(&self, site: &Site, write_share: f64) -> Streams {
        let (first, grid, _) = self.grid(site)?;
        self.requests.independent_streams(site, site.dice(0), write_share, first, patterns::uniform(grid))
    }
}

keys! {
    /// Reads and writes at places of a grid.
    pub(super) struct Mix {
        /// Addresses and times.
        at: AtRandom;
        /// Share of requests that write.
        write_share: f64 = share(), "0.5";
    }
}

impl Mix {
    fn hot_cold(&self, site: &Site, hot_share: f64, hot_access_share: f64) -> Streams {
        let (first, grid, largest) = self.at.grid(site)?;
        let mut dice = site.dice(0);
        let address = patterns::hot_cold(grid, largest, hot_share, hot_access_share, &mut dice);
        self.at.requests.independent_streams(site, dice, self.write_share, first, address)
    }
}

impl Recipe for Mix {
    fn streams(&self, site: &Site) -> Streams {
        self.at.uniform(site, self.write_share)
    }
}

/// In order.
impl Recipe for Requests {
    fn streams(&self, site: &Site) -> Streams {
        let (first, span) = self.area(site)?;
        self.independent_streams(site, site.dice(0), NO_WRITES, first, patterns::sequential(span))
    }
}

/// Anywhere.
impl Recipe for AtRandom {
    fn streams(&self, site: &Site) -> Streams {
        self.uniform(site, NO_WRITES)
    }
}

keys! {
    pub(super) struct Flush {
        /// End of them.
        end: End;
        /// When they come.
        pace: ArrivalKeys;
    }
}

impl Recipe for Flush {
    fn check(values: &Values) -> Result<(), Error> {
        let Flush { end, pace } = Flush::read(values)?;
        if end.bytes.is_some() {
            return Err(Error::Usage("a flush asks for no bytes: end it by count or duration".into()));
        }
        end.check(Some(&pace)).and_then(|()| pace.check())
    }

    fn streams(&self, site: &Site) -> Streams {
        let pattern = Independent {
            dice: site.dice(0),
            arrivals: self.pace.arrivals(),
            sizes: Sizes::One(0),
            writes: Coin::Never,
            other: Op::Flush,
            first: 0,
            address: |_: &mut Dice, _| 0,
        };
        let (limit, no_sectors, mean_ns) = (self.end.limit(), 1.0, self.pace.mean().0.max(1) as f64);
        Ok(vec![Box::new(Limited::new(pattern, limit, limit.expected(no_sectors, mean_ns)))])
    }
}

keys! {
    /// Some addresses far more often than others.
    pub(super) struct Zipf {
        /// The requests.
        mix: Mix;
        /// Skew: the k-th most frequent address has weight k^-theta.
        theta: f64 = number(0.0, 10.0), "0.99";
    }
}

impl Recipe for Zipf {
    fn streams(&self, site: &Site) -> Streams {
        let (first, grid, largest) = self.mix.at.grid(site)?;
        let mut dice = site.dice(0);
        let address = patterns::zipfian(grid, largest, self.theta, &mut dice);
        self.mix.at.requests.independent_streams(site, dice, self.mix.write_share, first, address)
    }
}

keys! {
    /// Most requests to one small stretch.
    pub(super) struct HotCold {
        /// The requests.
        mix: Mix;
        /// Share of the span that is hot.
        hot_share: f64 = share(), "0.2";
        /// Share of requests that go to the hot part.
        hot_access_share: f64 = share(), "0.8";
    }
}

impl Recipe for HotCold {
    fn streams(&self, site: &Site) -> Streams {
        self.mix.hot_cold(site, self.hot_share, self.hot_access_share)
    }
}

keys! {
    /// Requests within one sub-range.
    pub(super) struct LocalInSpace {
        /// The requests.
        mix: Mix;
        /// Size of the sub-range, as a share of the span.
        range_share: f64 = share(), "0.01";
    }
}

impl Recipe for LocalInSpace {
    fn streams(&self, site: &Site) -> Streams {
        self.mix.hot_cold(site, self.range_share, 1.0)
    }
}

keys! {
    /// Random and sequential requests in turns.
    pub(super) struct LocalInTime {
        /// The requests.
        mix: Mix;
        /// Number of random requests in a turn.
        random: u64 = Count(1, 1_000_000_000), "1000";
        /// Number of sequential requests in a turn.
        sequential: u64 = Count(0, 1_000_000_000), "1000";
    }
}

impl Recipe for LocalInTime {
    fn streams(&self, site: &Site) -> Streams {
        let (first, grid, _) = self.mix.at.grid(site)?;
        let address = patterns::turns(grid, self.random, self.sequential);
        self.mix.at.requests.independent_streams(site, site.dice(0), self.mix.write_share, first, address)
    }
}

keys! {
    /// Random requests in bursts.
    pub(super) struct Burst {
        /// The requests.
        mix: Mix;
        /// Length of a burst.
        on: Nanos = Time(1), "10s";
        /// Pause after each burst.
        off: Nanos = Time(0), "50s";
    }
}

impl Recipe for Burst {
    fn streams(&self, site: &Site) -> Streams {
        let (first, grid, _) = self.mix.at.grid(site)?;
        let requests = &self.mix.at.requests;
        let address = patterns::uniform(grid);
        let mut pattern = requests.independent(site, site.dice(0), self.mix.write_share, first, address);
        pattern.arrivals = pattern.arrivals.in_bursts(self.on, self.off);
        let (on, off) = (self.on.as_secs(), self.off.as_secs());
        requests.limited(pattern, on / (on + off))
    }
}

keys! {
    /// A long write with updates of metadata.
    pub(super) struct Backup {
        /// The requests.
        requests: Requests;
        /// Size of the area for metadata, which gets a random write of 4 KiB after every 64 requests; at most a tenth
        /// of the span.
        metadata_area: u64 = AMOUNT, "1Gi";
    }
}

impl Recipe for Backup {
    fn streams(&self, site: &Site) -> Streams {
        let (data, update) = (&self.requests.size, patterns::METADATA_SECTORS);
        // So that a tenth of the span has room for an update, and half of it for a data request.
        let least = (10 * update).max(2 * data.largest());
        let (first, span) = site.area(&self.requests.span, least)?;
        // At most a tenth of the span, and whole updates, so that data is aligned to 4 KiB.
        let aligned = (self.metadata_area / SECTOR_BYTES).min(span / 10).max(update).next_multiple_of(update);
        // In a tiny span the room for a data request goes before alignment.
        let metadata_sectors = aligned.min(span - data.largest());
        let pattern = patterns::BackupStream {
            dice: site.dice(0),
            arrivals: self.requests.pace.arrivals(),
            data: data.clone(),
            metadata_first: first,
            metadata_places: metadata_sectors / update,
            data_first: first + metadata_sectors,
            data_sectors: span - metadata_sectors,
            at: 0,
            since_update: 0,
        };
        self.requests.limited(pattern, WITHOUT_PAUSES)
    }
}

keys! {
    /// Every place once a pass.
    pub(super) struct Overwrite {
        /// The requests.
        requests: Requests;
        /// Order in which a pass writes the places.
        order: bool = Word(&[("random", true), ("sequential", false)]), "random";
    }
}

impl Recipe for Overwrite {
    fn streams(&self, site: &Site) -> Streams {
        let (first, span) = self.requests.area(site)?;
        let is_shuffled = self.order;
        let address = patterns::passes(span, self.requests.size.largest(), is_shuffled);
        self.requests.independent_streams(site, site.dice(0), 1.0, first, address)
    }
}

const BLOCK: Text<Sizes> = Text::new("one size from 512 bytes");

keys! {
    /// Several sources with a region each.
    pub(super) struct Runs {
        /// Length of a request, which is one block.
        size: Sizes = BLOCK, "4Ki";
        /// First address of the range, rounded down to a sector.
        start: Reach = REACH, "0";
        /// Number of sources, which are merged; their regions follow each other from start.
        sources: u64 = Count(1, 256), "4";
        /// Number of blocks of `size` in a region.
        blocks: u64 = Count(1, 1_000_000_000_000), "65536";
        /// Shortest run, in blocks; lengths are uniformly distributed.
        run_min: u64 = Count(1, 1_000_000_000), "16";
        /// Longest run, in blocks.
        run_max: u64 = Count(1, 1_000_000_000), "111";
        /// Share of a region that is hot; the seed decides where it is.
        hot_share: f64 = share(), "0.25";
        /// Share of runs that write.
        write_share: f64 = share(), "0.5";
        /// Number of requests of each source.
        count: u64 = Count(1, u64::MAX), "400k";
        /// When they come.
        pace: ArrivalKeys;
    }
}

impl Recipe for Runs {
    fn check(values: &Values) -> Result<(), Error> {
        let Runs { pace, run_min, run_max, .. } = Runs::read(values)?;
        pace.check()?;
        if run_min > run_max { Err(Error::Usage("run_min is above run_max: swap them".into())) } else { Ok(()) }
    }

    fn streams(&self, site: &Site) -> Streams {
        let Sizes::One(block) = self.size else {
            return Err(site.usage("runs are of blocks of one size: give a single size"));
        };
        let hot = ((self.blocks as f64 * self.hot_share).round() as u64).clamp(1, self.blocks);
        if self.run_max > hot {
            return Err(site.usage(&format!(
                "a run of {} blocks does not fit into the hot {hot} of {}: lower run_max or raise hot_share or blocks",
                self.run_max, self.blocks
            )));
        }
        let (first, region) = (self.start.sectors(site.capacity), self.blocks.saturating_mul(u64::from(block)));
        let all_regions = region.saturating_mul(self.sources);
        if all_regions > site.capacity.saturating_sub(first) {
            return Err(site.too_large(first, all_regions));
        }
        let source = |i: u64| -> Box<dyn Stream> {
            let mut dice = site.dice(i);
            // The first draw places the hot part in the region.
            let hot_first = first + i * region + dice.below(self.blocks - hot + 1) * u64::from(block);
            let pattern = patterns::RunsStream {
                dice,
                arrivals: self.pace.arrivals(),
                writes: Coin::new(self.write_share),
                hot_first,
                hot_blocks: hot,
                block_sectors: block,
                run_min: self.run_min,
                run_max: self.run_max,
                op: Op::Read,
                at: 0,
                left: 0,
            };
            Box::new(Limited::new(pattern, Limit::Count(self.count), self.count))
        };
        Ok((0..self.sources).map(source).collect())
    }
}

keys! {
    /// A day of a PC.
    pub(super) struct DesktopDay {
        /// Addresses of requests.
        span: SpanKeys;
        /// End of the workload.
        end: End;
    }
}

impl Recipe for DesktopDay {
    fn check(values: &Values) -> Result<(), Error> {
        DesktopDay::read(values)?.end.check(None)
    }

    fn streams(&self, site: &Site) -> Streams {
        let (first, span) = site.area(&self.span, desktop::LEAST_SECTORS)?;
        let ((requests_a_day, sectors_a_day), limit) = (desktop::mean_day(), self.end.limit());
        let expected = limit.expected(sectors_a_day / requests_a_day, desktop::DAY_NS as f64 / requests_a_day);
        Ok(vec![Box::new(Limited::new(Desktop::new(first, span, site.dice(0)), limit, expected))])
    }
}

/// A second, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

keys! {
    /// The day of Table I.
    pub(super) struct CassutoDay {
        /// Addresses of requests.
        span: SpanKeys;
        /// Share of requests that write; 75,615 of 510,900 by default.
        write_share: Option<f64> = Maybe(share()), "";
        /// Number of requests.
        count: u64 = Count(1, 1_000_000_000), "510900";
        /// Time over which the requests are spread.
        duration: Nanos = Time(SECOND), "24h";
        /// Skew: the k-th most frequent place has weight k^-theta.
        theta: f64 = number(0.0, 10.0), "0.825";
    }
}

impl Recipe for CassutoDay {
    fn check(_: &Values) -> Result<(), Error> {
        Ok(())
    }

    fn streams(&self, site: &Site) -> Streams {
        let writes = match self.write_share {
            Some(share) => (self.count as f64 * share).round() as u64,
            None => (u128::from(self.count) * u128::from(WRITES) / u128::from(READS + WRITES)) as u64,
        };
        let area = site.area(&self.span, cassuto_pc::LEAST_SECTORS)?;
        let pattern = CassutoPc::new([self.count - writes, writes], area, self.theta, self.duration, site.dice(0));
        Ok(vec![Box::new(Limited::new(pattern, Limit::Count(self.count), self.count))])
    }
}
