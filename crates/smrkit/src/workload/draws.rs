//! Draws of a request: its time (even, Poisson or normally distributed intervals, in bursts with pauses if asked), its length (one size, a
//! range, or a list with weights, `4Ki/70:64Ki/30`), and ranks by Zipf's law.

use std::fmt;
use std::str::FromStr;

use crate::dice::Dice;
use crate::error::Error;
use crate::quantity::{exact_bytes, exact_duration, parse_count, parse_duration, parse_sectors};
use crate::units::{Nanos, SECTOR_BYTES};

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

/// Draws the time of each request.
#[derive(Clone, Debug)]
pub(super) struct RequestTimes {
    next_ns: u64,
    interval_ns: u64,
    spread: IntervalSpread,
    /// Length of bursts, and of the pauses between them, in nanoseconds.
    burst: Option<(u64, u64)>,
}

impl RequestTimes {
    /// From time 0 on, `interval` apart on average.
    pub fn new(interval: Nanos, spread: IntervalSpread) -> RequestTimes {
        RequestTimes { next_ns: 0, interval_ns: interval.0, spread, burst: None }
    }

    /// The same arrivals, with a pause of length `off` inserted after every `on`.
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

/// The sizes of a workload's requests, in sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// Always the same.
    One(u32),
    /// Uniform from the first to the second, in steps of 4 KiB if both are multiples of that, else of 512 bytes.
    Range(u32, u32),
    /// Each with its weight.
    Weighted(Vec<(u32, u64)>),
}

impl Sizes {
    /// The smallest, in sectors.
    pub fn smallest(&self) -> u64 {
        u64::from(match self {
            Sizes::One(size) | Sizes::Range(size, _) => *size,
            Sizes::Weighted(list) => list.iter().map(|&(size, _)| size).min().unwrap_or(1),
        })
    }

    /// The largest, in sectors.
    pub fn largest(&self) -> u64 {
        u64::from(match self {
            Sizes::One(size) | Sizes::Range(_, size) => *size,
            Sizes::Weighted(list) => list.iter().map(|&(size, _)| size).max().unwrap_or(1),
        })
    }

    /// The mean, in sectors.
    pub fn mean(&self) -> f64 {
        match self {
            Sizes::One(size) => f64::from(*size),
            Sizes::Range(low, high) => (f64::from(*low) + f64::from(*high)) / 2.0,
            Sizes::Weighted(list) => {
                let whole: u64 = list.iter().map(|&(_, weight)| weight).sum();
                list.iter().map(|&(size, weight)| f64::from(size) * weight as f64).sum::<f64>() / whole as f64
            }
        }
    }

    #[inline]
    pub fn draw(&self, dice: &mut Dice) -> u32 {
        match self {
            Sizes::One(size) => *size,
            Sizes::Range(low, high) => {
                let step = if low.is_multiple_of(8) && high.is_multiple_of(8) { 8 } else { 1 };
                low + step * dice.below(u64::from((high - low) / step) + 1) as u32
            }
            Sizes::Weighted(list) => dice.weighted(list),
        }
    }
}

impl FromStr for Sizes {
    type Err = Error;

    /// Reads `4Ki`, `4Ki-64Ki` or `4Ki/70:64Ki/30`.
    fn from_str(text: &str) -> Result<Sizes, Error> {
        if text.contains('/') || text.contains(':') {
            return text.split(':').map(weighted).collect::<Result<_, _>>().map(Sizes::Weighted);
        }
        // A sign is no range: `one` refuses it.
        match text.split_once('-').filter(|(low, _)| !low.trim().is_empty()) {
            Some((low, high)) => match (one(low)?, one(high)?) {
                (low, high) if low < high => Ok(Sizes::Range(low, high)),
                (low, high) if low == high => Ok(Sizes::One(low)),
                _ => Err(Error::Usage(format!("`{text}` runs backwards: write the smaller size first"))),
            },
            None => one(text).map(Sizes::One),
        }
    }
}

fn one(text: &str) -> Result<u32, Error> {
    match parse_sectors(text)? {
        0 => Err(Error::Usage(format!("`{text}` is no size for a request: give at least 512 bytes"))),
        sectors => u32::try_from(sectors)
            .map_err(|_| Error::Usage(format!("`{text}` is too large for one request: give less than 2Ti"))),
    }
}

/// Reads `4Ki/70` or `4Ki/70%`; the weight is 1 if there is none.
fn weighted(item: &str) -> Result<(u32, u64), Error> {
    let (size, weight) = item.split_once('/').unwrap_or((item, "1"));
    let weight = weight.trim();
    let number = parse_count(weight.strip_suffix('%').unwrap_or(weight)).ok();
    match number.and_then(|number| u32::try_from(number).ok()) {
        Some(weight) if weight > 0 => Ok((one(size)?, weight.into())),
        _ => Err(Error::Usage(format!("`{item}` needs a whole weight from 1: write a list as 4Ki/70:64Ki/30"))),
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |size: u32| exact_bytes(u64::from(size) * SECTOR_BYTES);
        match self {
            Sizes::One(size) => f.write_str(&text(*size)),
            Sizes::Range(low, high) => write!(f, "{}-{}", text(*low), text(*high)),
            Sizes::Weighted(list) => {
                let items: Vec<_> = list.iter().map(|&(size, weight)| format!("{}/{weight}", text(size))).collect();
                f.write_str(&items.join(":"))
            }
        }
    }
}

/// A sampler of ranks from 0 (the most frequent) to n − 1: rank k of n with weight k^−theta.
///
/// Rejection-inversion (Hörmann and Derflinger 1996): constant memory and about one draw for each rank, for any n and theta ≥ 0. The
/// formulas are theirs; the arithmetic is `libm`'s, so that ranks are the same on every platform.
#[derive(Clone, Debug)]
pub(super) struct ZipfRanks {
    n: f64,
    theta: f64,
    integral_first: f64,
    integral_last: f64,
    cut: f64,
}

impl ZipfRanks {
    /// Over `n` ≥ 1 ranks.
    pub fn new(n: u64, theta: f64) -> ZipfRanks {
        let n = n.max(1) as f64;
        let mut zipf = ZipfRanks { n, theta, integral_first: 0.0, integral_last: 0.0, cut: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(n + 0.5);
        zipf.cut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    pub fn sample(&self, dice: &mut Dice) -> u64 {
        loop {
            let u = self.integral_last + dice.unit() * (self.integral_first - self.integral_last);
            let x = self.inverse(u);
            let rank = libm::floor(x + 0.5).clamp(1.0, self.n);
            if rank - x <= self.cut || u >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// The integral of x^−theta from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        expm1_over((1.0 - self.theta) * log) * log
    }

    /// The x whose integral is `u`.
    fn inverse(&self, u: f64) -> f64 {
        let t = (u * (1.0 - self.theta)).max(-1.0);
        libm::exp(log1p_over(t) * u)
    }
}

/// (eˣ − 1) / x, numerically stable near 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::expm1(x) / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, numerically stable near 0.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::log1p(x) / x } else { 1.0 - x / 2.0 }
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

    #[test]
    fn sizes_are_drawn_as_written() {
        let mut dice = Dice::new(1, 1);
        for (text, mean) in [("4Ki", 8.0), ("4Ki-64Ki", 68.0), ("512-1536", 2.0), ("4Ki/70:64Ki/30", 44.0)] {
            let sizes = text.parse::<Sizes>().unwrap();
            assert_eq!(sizes.to_string(), text);
            assert_eq!(sizes.mean(), mean);
            let drawn: Vec<u64> = (0..50_000).map(|_| u64::from(sizes.draw(&mut dice))).collect();
            assert_eq!(drawn.iter().copied().min(), Some(sizes.smallest()));
            assert_eq!(drawn.iter().copied().max(), Some(sizes.largest()));
            let got = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
            assert!((got - mean).abs() < mean * 0.02, "{text}: {got}");
        }
    }

    #[test]
    fn weights_are_read_as_other_numbers() {
        let read = |text: &str| text.parse::<Sizes>().unwrap().to_string();
        assert_eq!(read("4KiB/1k:64KiB/1_000"), "4Ki/1000:64Ki/1000");
        assert_eq!(read("4KiB/70%:64KiB/30 %"), "4Ki/70:64Ki/30");
    }

    #[test]
    fn mistakes_are_explained() {
        for (bad, words) in [
            ("4k", "write 3584 or 4Ki"),
            ("0", "at least 512"),
            ("64Ki-4Ki", "backwards"),
            ("-4Ki", "negative"),
            ("4Ki/0", "weight"),
            ("4Ki/", "weight"),
            ("3Ti", "too large"),
            ("", "empty"),
        ] {
            let message = bad.parse::<Sizes>().unwrap_err().to_string();
            assert!(message.contains(words), "{bad}: {message}");
        }
    }

    #[test]
    fn ranks_follow_the_law() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.5, 3.0] {
            let (n, draws) = (50u64, 400_000u32);
            let zipf = ZipfRanks::new(n, theta);
            let mut dice = Dice::new(3, 3);
            let mut counts = vec![0u32; n as usize];
            (0..draws).for_each(|_| counts[zipf.sample(&mut dice) as usize] += 1);
            let weight = |k: u64| ((k + 1) as f64).powf(-theta);
            let whole: f64 = (0..n).map(weight).sum();
            for k in 0..n {
                let want = weight(k) / whole * f64::from(draws);
                let got = f64::from(counts[k as usize]);
                assert!((got - want).abs() < 5.0 * want.sqrt() + 5.0, "theta {theta}, rank {k}: {got} for {want}");
            }
        }
    }

    #[test]
    fn quotients_near_0_are_steady() {
        for x in [1e-9, -1e-9, 1e-8, 1.1e-8, -2e-8] {
            assert!((expm1_over(x) - (1.0 + x / 2.0)).abs() < 1e-15, "{x}");
            assert!((log1p_over(x) - (1.0 - x / 2.0)).abs() < 1e-15, "{x}");
        }
        assert_eq!((expm1_over(0.0), log1p_over(0.0)), (1.0, 1.0));
        assert!((expm1_over(1.0) - 1.718_281_828_459_045).abs() < 1e-15);
        assert!((log1p_over(1.0) - std::f64::consts::LN_2).abs() < 1e-15);
    }

    #[test]
    fn huge_and_tiny_ranges_stay_inside() {
        let mut dice = Dice::new(1, 1);
        for n in [1, 2, 10_000_000_000] {
            for theta in [0.0, 0.99, 1.0, 10.0] {
                let zipf = ZipfRanks::new(n, theta);
                assert!((0..2000).all(|_| zipf.sample(&mut dice) < n), "{n} {theta}");
            }
        }
    }
}
