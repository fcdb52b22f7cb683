//! Lengths of requests: one size, a range, or a list with weights (`4Ki/70:64Ki/30`).

use std::fmt;
use std::str::FromStr;

use super::dice::Dice;
use crate::error::Error;
use crate::quantity::{exact_bytes, parse_count, parse_sectors};
use crate::units::SECTOR_BYTES;

/// The sizes of a workload's requests, in sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// Always the same.
    One(u32),
    /// From the first to the last, uniform in steps of 4 KiB where both are multiples of it, else of 512 bytes.
    Range(u32, u32),
    /// Each with its weight.
    Weighted(Vec<(u32, u32)>),
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
                let whole: f64 = list.iter().map(|&(_, weight)| f64::from(weight)).sum();
                list.iter().map(|&(size, weight)| f64::from(size) * f64::from(weight)).sum::<f64>() / whole
            }
        }
    }

    /// Source that draws them.
    pub fn picker(&self) -> Picker {
        match self {
            Sizes::One(size) => Picker::One(*size),
            Sizes::Range(low, high) => {
                let step = if low.is_multiple_of(8) && high.is_multiple_of(8) { 8 } else { 1 };
                Picker::Range { low: *low, step, steps: u64::from((high - low) / step) + 1 }
            }
            Sizes::Weighted(list) => {
                let mut whole = 0;
                let ends = list.iter().map(|&(size, weight)| {
                    whole += u64::from(weight);
                    (whole, size)
                });
                let ends = ends.collect();
                Picker::Weighted { ends, whole }
            }
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
        match text.trim_start_matches('-').split_once('-') {
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

fn weighted(item: &str) -> Result<(u32, u32), Error> {
    let (size, weight) = item.split_once('/').unwrap_or((item, "1"));
    let weight = weight.trim();
    let number = parse_count(weight.strip_suffix('%').unwrap_or(weight)).ok();
    match number.and_then(|number| u32::try_from(number).ok()) {
        Some(weight) if weight > 0 => Ok((one(size)?, weight)),
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

/// Draws sizes, in sectors.
#[derive(Clone, Debug)]
pub(super) enum Picker {
    One(u32),
    Range { low: u32, step: u32, steps: u64 },
    Weighted { ends: Vec<(u64, u32)>, whole: u64 },
}

impl Picker {
    /// One size.
    #[inline]
    pub fn pick(&self, dice: &mut Dice) -> u32 {
        match self {
            Picker::One(size) => *size,
            Picker::Range { low, step, steps } => low + step * dice.below(*steps) as u32,
            Picker::Weighted { ends, whole } => {
                let drawn = dice.below(*whole);
                ends.iter().find(|&&(end, _)| drawn < end).map_or(1, |&(_, size)| size)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_drawn_as_written() {
        let mut dice = Dice::new(1, 1);
        for (text, mean) in [("4Ki", 8.0), ("4Ki-64Ki", 68.0), ("512-1536", 2.0), ("4Ki/70:64Ki/30", 44.0)] {
            let sizes = text.parse::<Sizes>().unwrap();
            assert_eq!(sizes.to_string(), text);
            assert_eq!(sizes.mean(), mean);
            let picker = sizes.picker();
            let drawn: Vec<u64> = (0..50_000).map(|_| u64::from(picker.pick(&mut dice))).collect();
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
}
