//! From a part's values to the streams that make its requests, on a drive of a given capacity.

use super::address::{Grid, HotCold, Passes, Sequential, Turns, Uniform, Zipfian};
use super::arrivals::Arrivals;
use super::cassuto_pc::{CassutoPc, Plan, READS, WRITES};
use super::desktop::{self, Desktop};
use super::dice::{Coin, Dice};
use super::part::Part;
use super::stream::{Address, Independent, Limit, Limited, Pattern, Stream};
use super::structured::{Backup, Runs};
use crate::error::Error;
use crate::quantity::Bytes;
use crate::units::Nanos;

/// A part on a drive: everything that its streams share.
pub(super) struct Site<'a> {
    pub part: &'a Part,
    pub capacity: u64,
    pub seed: u64,
    /// Which part of the workload it is; streams of different parts are independent.
    pub number: u64,
}

type Streams = Result<Vec<Box<dyn Stream>>, Error>;

impl Site<'_> {
    /// The part's streams: one, save for `runs`.
    pub fn streams(&self) -> Streams {
        match self.part.info.name {
            "sequential-read" => self.sequential(0.0),
            "sequential-write" => self.sequential(1.0),
            "random-read" => self.uniform(0.0),
            "random-write" => self.uniform(1.0),
            "mix" | "burst" => self.uniform(self.part.number("write_share")),
            "zipf" => self.zipf(),
            "hot-cold" => self.hot_cold(self.part.number("hot_share"), self.part.number("hot_access_share")),
            "local-in-space" => self.hot_cold(self.part.number("range_share"), 1.0),
            "local-in-time" => self.turns(),
            "backup" => self.backup(),
            "overwrite" => self.overwrite(),
            "runs" => self.runs(),
            "desktop" => self.desktop(),
            "cassuto-pc" => self.cassuto_pc(),
            name => panic!("workload {name} is in the table, but nothing builds it"),
        }
    }

    fn dice(&self, stream: u64) -> Dice {
        Dice::new(self.seed, self.number << 8 | stream)
    }

    /// First sector and sectors of the span; `least` is what one request needs.
    fn area(&self, least: u64) -> Result<(u64, u64), Error> {
        let (part, capacity) = (self.part, self.capacity);
        let first = part.reach("start", capacity);
        let room = capacity.saturating_sub(first);
        let asked = part.reach("span", capacity);
        // A default gives way to the drive; what was asked for does not.
        let span = if part.given("span").is_some() { asked } else { asked.min(room) };
        if span > room {
            return Err(self.too_large(first, span));
        }
        if span < least {
            return Err(Error::Impossible(format!(
                "workload {part} needs {} at least, but its span is {}: raise span, lower size or start, or choose a larger drive",
                Bytes::of_sectors(least),
                Bytes::of_sectors(span)
            )));
        }
        Ok((first, span))
    }

    fn too_large(&self, first: u64, span: u64) -> Error {
        Error::Impossible(format!(
            "workload {} reaches {} from {}, but the drive offers {}: lower span or start, or choose a larger drive",
            self.part,
            Bytes::of_sectors(span),
            Bytes::of_sectors(first),
            Bytes::of_sectors(self.capacity)
        ))
    }

    fn arrivals(&self) -> Arrivals {
        let arrivals = Arrivals::new(self.part.interval(), self.part.spread());
        match self.part.has("on") {
            true => arrivals.in_bursts(self.part.time("on"), self.part.time("off")),
            false => arrivals,
        }
    }

    /// The pattern with the end that was asked for; `mean` is that of its lengths.
    fn limited(&self, pattern: impl Pattern + 'static, mean: f64) -> Box<dyn Stream> {
        let part = self.part;
        if part.given("duration").is_some() {
            let end = part.time("duration");
            let on = if part.has("on") { part.time("on").as_secs() } else { 1.0 };
            let off = if part.has("on") { part.time("off").as_secs() } else { 0.0 };
            let expected = end.0 as f64 / part.interval().0.max(1) as f64 * on / (on + off);
            return Box::new(Limited::new(pattern, Limit::Until(end), expected));
        }
        if part.has("bytes") && part.given("bytes").is_some() {
            let sectors = part.amount("bytes");
            return Box::new(Limited::new(pattern, Limit::Sectors(sectors), sectors as f64 / mean));
        }
        let count = part.count("count");
        Box::new(Limited::new(pattern, Limit::Count(count), count as f64))
    }

    fn independent(&self, dice: Dice, write_share: f64, first: u64, address: impl Address + 'static) -> Streams {
        let sizes = self.part.sizes("size");
        let pattern = Independent {
            dice,
            arrivals: self.arrivals(),
            sizes: sizes.picker(),
            writes: Coin::new(write_share),
            first,
            address,
        };
        Ok(vec![self.limited(pattern, sizes.mean())])
    }

    fn sequential(&self, write_share: f64) -> Streams {
        let (first, span) = self.area(self.part.sizes("size").largest())?;
        self.independent(self.dice(0), write_share, first, Sequential { span, at: 0 })
    }

    /// First sector, the places in the span, and the longest request.
    fn grid(&self) -> Result<(u64, Grid, u64), Error> {
        let sizes = self.part.sizes("size");
        let (first, span) = self.area(sizes.largest())?;
        let align = match self.part.given("align") {
            Some(_) => self.part.amount("align"),
            None => sizes.smallest(),
        };
        Ok((first, Grid { span, align }, sizes.largest()))
    }

    fn uniform(&self, write_share: f64) -> Streams {
        let (first, grid, _) = self.grid()?;
        self.independent(self.dice(0), write_share, first, Uniform::new(grid))
    }

    fn zipf(&self) -> Streams {
        let ((first, grid, largest), part) = (self.grid()?, self.part);
        let mut dice = self.dice(0);
        let address = Zipfian::new(grid, largest, part.number("theta"), part.is("scatter", "yes"), &mut dice);
        self.independent(dice, part.number("write_share"), first, address)
    }

    fn hot_cold(&self, hot_share: f64, hot_access_share: f64) -> Streams {
        let (first, grid, largest) = self.grid()?;
        let mut dice = self.dice(0);
        let address = HotCold::new(grid, largest, hot_share, hot_access_share, &mut dice);
        self.independent(dice, self.part.number("write_share"), first, address)
    }

    fn turns(&self) -> Streams {
        let ((first, grid, _), part) = (self.grid()?, self.part);
        let address = Turns::new(grid, part.count("random"), part.count("sequential"));
        self.independent(self.dice(0), part.number("write_share"), first, address)
    }

    fn overwrite(&self) -> Streams {
        let largest = self.part.sizes("size").largest();
        let (first, span) = self.area(largest)?;
        self.independent(self.dice(0), 1.0, first, Passes::new(span, largest, self.part.is("order", "random")))
    }

    fn backup(&self) -> Streams {
        let part = self.part;
        let (data, metadata) = (part.sizes("size"), part.sizes("metadata_size"));
        let every = part.count("metadata_every");
        let least = if every == 0 { data.largest() } else { (10 * metadata.largest()).max(2 * data.largest()) };
        let (first, span) = self.area(least)?;
        // Data begin at a multiple of 4 KiB behind the metadata.
        let kept = if every == 0 { 0 } else { part.amount("metadata_area").min(span / 10).max(metadata.largest()) };
        let kept = kept.next_multiple_of(8).min(span - data.largest());
        let pattern = Backup {
            dice: self.dice(0),
            arrivals: self.arrivals(),
            data: data.picker(),
            metadata: metadata.picker(),
            metadata_every: every,
            metadata_area: (first, kept, metadata.smallest()),
            data_area: (first + kept, span - kept),
            at: 0,
            since: 0,
        };
        Ok(vec![self.limited(pattern, data.mean())])
    }

    fn runs(&self) -> Streams {
        let part = self.part;
        let super::sizes::Sizes::One(block) = part.sizes("size") else {
            return Err(Error::Usage(format!("workload {part}: runs are of blocks of one size: give a single size")));
        };
        let (sources, blocks) = (part.count("sources"), part.count("blocks"));
        let hot = ((blocks as f64 * part.number("hot_share")).round() as u64).clamp(1, blocks);
        if part.count("run_max") > hot {
            return Err(Error::Usage(format!(
                "workload {part}: a run of {} blocks does not fit into the hot {hot} of {blocks}: lower run_max or raise hot_share or blocks",
                part.count("run_max")
            )));
        }
        let (first, region) = (part.reach("start", self.capacity), blocks.saturating_mul(u64::from(block)));
        let whole = region.saturating_mul(sources);
        if whole > self.capacity.saturating_sub(first) {
            return Err(self.too_large(first, whole));
        }
        let writes = Coin::new(part.number("write_share"));
        let lengths = (part.count("run_min"), part.count("run_max"));
        let source = |i: u64| {
            let place = (first + i * region, blocks, hot);
            let pattern = Runs::new(self.dice(i), self.arrivals(), writes, place, block, lengths);
            self.limited(pattern, f64::from(block))
        };
        Ok((0..sources).map(source).collect())
    }

    fn desktop(&self) -> Streams {
        let (first, span) = self.area(desktop::LEAST_SECTORS)?;
        let pattern = Desktop::new(first, span, self.dice(0));
        let part = self.part;
        let a_day = desktop::requests_a_day() as f64;
        let (limit, expected) = if part.given("count").is_some() {
            (Limit::Count(part.count("count")), part.count("count") as f64)
        } else if part.given("bytes").is_some() {
            let sectors = part.amount("bytes");
            (Limit::Sectors(sectors), sectors as f64 / desktop::sectors_a_day() * a_day)
        } else {
            let end = part.time("duration");
            (Limit::Until(end), end.as_secs() / 86_400.0 * a_day)
        };
        Ok(vec![Box::new(Limited::new(pattern, limit, expected))])
    }

    fn cassuto_pc(&self) -> Streams {
        let part = self.part;
        let count = part.count("count");
        let writes = match part.given("write_share") {
            Some(_) => (count as f64 * part.number("write_share")).round() as u64,
            None => (u128::from(count) * u128::from(WRITES) / u128::from(READS + WRITES)) as u64,
        };
        let duration: Nanos = part.time("duration");
        let spots = part.count("spots");
        let area = self.area(8 * spots)?;
        let period_sectors = part.amount("period").max(1);
        if period_sectors.min(area.1) < 2048 || period_sectors.min(area.1) / spots < 8 {
            return Err(Error::Impossible(format!(
                "workload {part}: a period of {} is too small for {spots} spots of 4 KiB at least, 1 MiB in all: raise period or span, or lower spots",
                Bytes::of_sectors(period_sectors.min(area.1))
            )));
        }
        let plan = Plan {
            reads: count - writes.min(count),
            writes: writes.min(count),
            area,
            period_sectors,
            spots,
            theta: part.number("theta"),
            duration,
        };
        let pattern = CassutoPc::new(plan, self.dice(0));
        Ok(vec![Box::new(Limited::new(pattern, Limit::Count(count), count as f64))])
    }
}
