//! Sizes, durations and shares as people write them, read and printed.
//!
//! k, M, G and T are powers of 1000, Ki, Mi, Gi and Ti of 1024; B may follow. Numbers are read as decimal digits, not as floating point, so
//! that exact output is read back exactly. Fractions of a byte or a nanosecond are rounded.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::units::{Nanos, SECTOR_BYTES};

const SIZES: &str = "a size such as 4096, 512KiB, 1.5G or 2TiB (k M G T decimal, Ki Mi Gi Ti binary)";
const DURATIONS: &str = "a duration such as 5ms, 2s, 1.5h (ns us ms s min h d)";
const COUNTS: &str = "a whole number such as 1000, 400k or 1.5M";
const SHARES: &str = "a share from 0 to 1, or a percentage such as 30%";

const SIZE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("p", 1_000_000_000_000_000),
    ("ki", 1 << 10),
    ("mi", 1 << 20),
    ("gi", 1 << 30),
    ("ti", 1 << 40),
    ("pi", 1 << 50),
];

/// Durations are written in the last unit that divides them evenly.
const TIME_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

const COUNT_UNITS: &[(&str, u64)] = &[("", 1), ("k", 1_000), ("m", 1_000_000), ("g", 1_000_000_000)];

/// A size in bytes that is read and printed as people write it: `512 KiB`, `5.0 TB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// From sectors; the largest size if that overflows.
    pub fn of_sectors(sectors: u64) -> Bytes {
        Bytes(sectors.saturating_mul(SECTOR_BYTES))
    }
}

impl FromStr for Bytes {
    type Err = Error;
    fn from_str(text: &str) -> Result<Bytes, Error> {
        parse_bytes(text).map(Bytes)
    }
}

impl fmt::Display for Bytes {
    /// Binary if that is a short whole number (`512 KiB`), else decimal with one place (`5.0 TB`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        for (name, unit) in [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if bytes > 0 && bytes.is_multiple_of(unit) && bytes / unit < 1024 {
                return write!(f, "{} {name}", bytes / unit);
            }
        }
        // A size that would round up to the next unit is shown in that unit.
        for (name, unit) in [("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)] {
            if bytes as f64 >= unit * 0.99995 {
                return write!(f, "{:.1} {name}", bytes as f64 / unit);
            }
        }
        write!(f, "{bytes} B")
    }
}

impl FromStr for Nanos {
    type Err = Error;
    fn from_str(text: &str) -> Result<Nanos, Error> {
        parse_duration(text)
    }
}

/// Reads a size in bytes.
pub fn parse_bytes(text: &str) -> Result<u64, Error> {
    let (digits, unit) = split(text, SIZES)?;
    let lower = unit.to_ascii_lowercase();
    let unit = lower.strip_suffix('b').unwrap_or(&lower);
    scale(text, &digits, unit_factor(text, unit, SIZE_UNITS, SIZES)?, SIZES)
}

/// Reads a size that must be a whole number of sectors; returns sectors.
pub fn parse_sectors(text: &str) -> Result<u64, Error> {
    let bytes = parse_bytes(text)?;
    if !bytes.is_multiple_of(SECTOR_BYTES) {
        let below = bytes - bytes % SECTOR_BYTES;
        let instead = match below.checked_add(SECTOR_BYTES) {
            Some(above) if below == 0 => exact_bytes(above),
            Some(above) => format!("{} or {}", exact_bytes(below), exact_bytes(above)),
            None => exact_bytes(below),
        };
        return Err(Error::Usage(format!(
            "`{text}` is {bytes} bytes, not a whole number of 512-byte sectors: write {instead} \
             (k is 1000 bytes, Ki is 1024)"
        )));
    }
    Ok(bytes / SECTOR_BYTES)
}

/// Reads a duration; the unit may be left out for 0 only.
pub fn parse_duration(text: &str) -> Result<Nanos, Error> {
    let (digits, unit) = split(text, DURATIONS)?;
    let unit = match unit {
        "" if digits.bytes().all(|b| b == b'0' || b == b'.') => "ns",
        "" => return Err(expected(text, "has no unit", DURATIONS)),
        unit => unit,
    };
    scale(text, &digits, unit_factor(text, unit, TIME_UNITS, DURATIONS)?, DURATIONS).map(Nanos)
}

/// Reads a count; `k`, `M`, `G` multiply by powers of 1000.
pub fn parse_count(text: &str) -> Result<u64, Error> {
    let (digits, unit) = split(text, COUNTS)?;
    let factor = unit_factor(text, &unit.to_ascii_lowercase(), COUNT_UNITS, COUNTS)?;
    let fraction = digits.split_once('.').map_or("", |(_, fraction)| fraction).trim_end_matches('0');
    // Factors are powers of ten: with at most as many decimal places as the factor has zeros, the count is whole.
    if factor.checked_ilog10().is_none_or(|zeros| fraction.len() > zeros as usize) {
        return Err(expected(text, "is not whole", COUNTS));
    }
    scale(text, &digits, factor, COUNTS)
}

/// Reads a share from 0 to 1, written so or as a percentage.
pub fn parse_share(text: &str) -> Result<f64, Error> {
    let trimmed = text.trim();
    let (number, divisor) = match trimmed.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (trimmed, 1.0),
    };
    let share = parse_number(number).map_err(|_| expected(text, "is not a share", SHARES))? / divisor;
    if share > 1.0 {
        return Err(expected(text, "is more than the whole", SHARES));
    }
    Ok(share)
}

/// Reads a percentage, with or without its sign; returns percent.
pub fn parse_percent(text: &str) -> Result<f64, Error> {
    const PERCENT: &str = "a percentage from 0 to 100, such as 1 or 2.5%";
    let number = text.trim();
    let number = number.strip_suffix('%').unwrap_or(number).trim_end();
    let percent = parse_number(number).map_err(|_| expected(text, "is not a percentage", PERCENT))?;
    if percent > 100.0 {
        return Err(expected(text, "is more than the whole", PERCENT));
    }
    Ok(percent)
}

/// Reads a number that is neither negative nor infinite, in decimal digits, with or without an exponent.
pub fn parse_number(text: &str) -> Result<f64, Error> {
    const NUMBER: &str = "a number such as 2, 0.95 or 1e6";
    let (digits, unit) = split(text, NUMBER)?;
    let power = if unit.is_empty() { Some("0") } else { unit.strip_prefix(['e', 'E']) };
    let Some(power) = power.and_then(|power| power.parse::<i32>().ok()) else {
        return Err(expected(text, "is not a plain number", NUMBER));
    };
    match format!("{digits}e{power}").parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(expected(text, "is too large", NUMBER)),
    }
}

/// A size in the shortest form that reads back exactly: `4Ki`, `3072M`, `1331`.
pub fn exact_bytes(bytes: u64) -> String {
    // `SIZE_UNITS` as people write them.
    let names = ["", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let forms = SIZE_UNITS.iter().zip(names).filter(|((_, unit), _)| bytes > 0 && bytes.is_multiple_of(*unit));
    let shortest = forms.map(|((_, unit), name)| format!("{}{name}", bytes / unit)).min_by_key(String::len);
    shortest.unwrap_or_else(|| bytes.to_string())
}

/// A duration in a form that reads back exactly: `90s`, `1500us`.
pub fn exact_duration(time: Nanos) -> String {
    // In ASCII: `us`, not `µs`.
    let fits = |name: &str, unit: u64| name.is_ascii() && time.0.is_multiple_of(unit);
    match TIME_UNITS.iter().rev().find(|(name, unit)| time.0 > 0 && fits(name, *unit)) {
        Some((name, unit)) => format!("{}{name}", time.0 / unit),
        None => "0s".to_string(),
    }
}

/// Splits a text into the number's digits and the unit after them, both without blanks. `_` may separate digits.
fn split<'a>(text: &'a str, what: &str) -> Result<(Cow<'a, str>, &'a str), Error> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(expected(text, "is empty", what));
    }
    if trimmed.starts_with('-') {
        return Err(expected(text, "is negative", what));
    }
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(end);
    let points = digits.bytes().filter(|&b| b == b'.').count();
    // As many points as characters: no digit at all.
    if points > 1 || points == digits.len() || digits.starts_with('_') || digits.ends_with('_') {
        return Err(expected(text, "does not begin with a number", what));
    }
    let digits = if digits.contains('_') { digits.replace('_', "").into() } else { digits.into() };
    Ok((digits, unit.trim_start()))
}

fn unit_factor(text: &str, unit: &str, units: &[(&str, u64)], what: &str) -> Result<u64, Error> {
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => Ok(*factor),
        None => Err(expected(text, &format!("has the unknown unit `{}`", excerpt(unit)), what)),
    }
}

/// `digits` × `factor`, rounded to the nearest whole number.
fn scale(text: &str, digits: &str, factor: u64, what: &str) -> Result<u64, Error> {
    let too_large = || expected(text, "is too large", what);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_large())? };
    // Eighteen places are finer than any unit here.
    let fraction = &fraction[..fraction.len().min(18)];
    let numerator: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| too_large())? };
    let denominator = 10u128.pow(fraction.len() as u32);
    let part = (numerator * u128::from(factor) + denominator / 2) / denominator;
    u64::try_from(u128::from(whole) * u128::from(factor) + part).map_err(|_| too_large())
}

fn expected(text: &str, problem: &str, what: &str) -> Error {
    Error::Usage(format!("`{}` {problem}: expected {what}", excerpt(text)))
}

/// The first 40 characters, since a mistake may be as long as a file.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4k", 4000),
            ("4KB", 4000),
            ("4KiB", 4096),
            ("4 ki", 4096),
            ("1.5G", 1_500_000_000),
            (".5Mi", 524_288),
            ("5.0 TB", 5_000_000_000_000),
            (" 2Ti ", 2 << 40),
            ("1_000k", 1_000_000),
            ("512B", 512),
            ("1.3Ki", 1331),
        ] {
            assert_eq!(parse_bytes(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, ns) in [
            ("0", 0),
            ("5ns", 5),
            ("7us", 7_000),
            ("7µs", 7_000),
            ("7 μs", 7_000),
            ("1.5ms", 1_500_000),
            ("2s", 2_000_000_000),
            ("2m", 120_000_000_000),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1d", 86_400_000_000_000),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Nanos(ns), "{text}");
        }
    }

    #[test]
    fn shares_and_counts_read_as_people_write_them() {
        assert_eq!(parse_share("0.3").unwrap(), 0.3);
        assert_eq!(parse_share("30 %").unwrap(), 0.3);
        assert_eq!(parse_percent("2.5%").unwrap(), 2.5);
        assert_eq!([parse_number("2.5").unwrap(), parse_number("1_0e-1").unwrap()], [2.5, 1.0]);
        assert!(["1e", "1e9999", "2x", "-1", "e6"].iter().all(|text| parse_number(text).is_err()));
        assert_eq!(parse_count("400k").unwrap(), 400_000);
        assert_eq!(parse_count("1.50M").unwrap(), 1_500_000);
        assert!(parse_count("1.5").is_err() && parse_count("1.0005k").is_err());
    }

    #[test]
    fn mistakes_say_what_was_expected() {
        for bad in [
            "",
            " ",
            "-1",
            "-1G",
            "NaN",
            "inf",
            "1e9",
            "1..2",
            ".",
            "_1",
            "1_",
            "4Q",
            "4KiBB",
            "99999999999999999999",
            "20000P",
        ] {
            let message = parse_bytes(bad).unwrap_err().to_string();
            assert!(message.contains("expected a size such as"), "{bad}: {message}");
        }
        for bad in ["", "5", "-5ms", "NaN", "5 parsecs", "1e9d", "300000d"] {
            let message = parse_duration(bad).unwrap_err().to_string();
            assert!(message.contains("expected a duration such as"), "{bad}: {message}");
        }
        for bad in ["", "2", "-0.1", "101%", "NaN", "30%%"] {
            assert!(parse_share(bad).unwrap_err().to_string().contains("expected a share"), "{bad}");
        }
        assert!(parse_percent("101").is_err() && parse_percent("%").is_err());
        let message = parse_sectors("18446744073709551615").unwrap_err().to_string();
        assert!(message.contains("write 18446744073709551104 (k is"), "{message}");
        let message = parse_sectors("4k").unwrap_err().to_string();
        assert!(message.contains("write 3584 or 4Ki"), "{message}");
    }

    #[test]
    fn a_size_that_is_no_whole_number_of_sectors_names_its_neighbours() {
        for (text, instead) in [
            ("1", "512"),
            ("511", "512"),
            ("513", "512 or 1Ki"),
            ("1023", "512 or 1Ki"),
            ("4k", "3584 or 4Ki"),
            ("1M", "999936 or 977Ki"),
            ("18446744073709551103", "18014398509481983Ki or 18446744073709551104"),
            ("18446744073709551105", "18446744073709551104"),
        ] {
            let message = parse_sectors(text).unwrap_err().to_string();
            assert!(message.contains(&format!(": write {instead} (k is")), "{text}: {message}");
        }
        for (text, sectors) in [("0", 0), ("512", 1), ("1Ki", 2), ("18446744073709551104", (1 << 55) - 1)] {
            assert_eq!(parse_sectors(text).unwrap(), sectors);
        }
        let sizes = [(0, 0), (3, 1536), (1 << 55, u64::MAX), (u64::MAX, u64::MAX)];
        assert!(sizes.iter().all(|&(sectors, bytes)| Bytes::of_sectors(sectors) == Bytes(bytes)));
    }

    #[test]
    fn a_mistake_as_long_as_a_file_is_cut() {
        let text = "x".repeat(40);
        assert!(parse_bytes(&text).unwrap_err().to_string().starts_with(&format!("`{text}` does")));
        assert!(parse_bytes(&format!("{text}y")).unwrap_err().to_string().starts_with(&format!("`{text}…` does")));
    }

    #[test]
    fn durations_print_in_the_longest_unit_that_divides_them() {
        for (ns, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500_000, "1500us"),
            (2_000_000, "2ms"),
            (90_000_000_000, "90s"),
            (120_000_000_000, "2min"),
            (7_200_000_000_000, "2h"),
            (86_400_000_000_000, "1d"),
        ] {
            assert_eq!(exact_duration(Nanos(ns)), text);
        }
        for (bytes, text) in [(0, "0"), (1331, "1331"), (4096, "4Ki"), (3_072_000_000, "3072M"), (5 << 50, "5Pi")] {
            assert_eq!(exact_bytes(bytes), text);
        }
    }

    #[test]
    fn sizes_print_with_a_readable_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (100, "100 B"),
            (512 << 10, "512 KiB"),
            (1023 << 10, "1023 KiB"),
            (1 << 20, "1 MiB"),
            (1 << 30, "1 GiB"),
            (1 << 40, "1 TiB"),
            (1023 << 40, "1023 TiB"),
            (1 << 50, "1.1 PB"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (5_000_000_000_000, "5.0 TB"),
            (999_999_999, "1.0 GB"),
            (3_072_000_000, "3.1 GB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn what_prints_exactly_reads_back(n in any::<u64>(), shift in 0..64) {
            let n = n >> shift;
            prop_assert_eq!(parse_bytes(&exact_bytes(n)).unwrap(), n);
            prop_assert_eq!(parse_duration(&exact_duration(Nanos(n))).unwrap(), Nanos(n));
            prop_assert!(parse_bytes(&Bytes(n).to_string()).is_ok());
        }

        #[test]
        fn no_text_panics(text in "\\PC*|[0-9.]{0,30}[ kKMGTPiBnuµsmhd%-]{0,5}") {
            let _ = (parse_bytes(&text), parse_duration(&text), parse_share(&text));
            let _ = (parse_percent(&text), parse_count(&text), parse_sectors(&text), parse_number(&text));
        }
    }
}
