//! Addresses, lengths and times as types that can't be mixed up.
//!
//! A sector is 512 bytes. Addresses count sectors, times count nanoseconds; both are integers, so that a run is the
//! same on every machine.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// Bytes in a sector.
pub const SECTOR_BYTES: u64 = 512;

/// A logical block address, in sectors: the host's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lba(pub u64);

/// A physical block address, in sectors: the place on the platters, in the order of shingling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pba(pub u64);

/// A track, numbered in the order of PBAs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Track(pub u64);

macro_rules! address {
    ($name:ident) => {
        impl Add<u64> for $name {
            type Output = $name;
            fn add(self, sectors: u64) -> $name {
                $name(self.0 + sectors)
            }
        }
        impl AddAssign<u64> for $name {
            fn add_assign(&mut self, sectors: u64) {
                self.0 += sectors;
            }
        }
        impl Sub<u64> for $name {
            type Output = $name;
            fn sub(self, sectors: u64) -> $name {
                $name(self.0 - sectors)
            }
        }
        impl Sub for $name {
            type Output = u64;
            fn sub(self, other: $name) -> u64 {
                self.0 - other.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}
address!(Lba);
address!(Pba);
address!(Track);

/// A moment or a duration, in nanoseconds. Sums saturate at the largest, 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than any moment of a run.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// From seconds, rounded to the nearest nanosecond; negative and NaN give 0.
    pub fn from_secs(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9).round() as u64)
    }

    /// From milliseconds, rounded to the nearest nanosecond; negative and NaN give 0.
    pub fn from_millis(milliseconds: f64) -> Nanos {
        Nanos((milliseconds * 1e6).round() as u64)
    }

    /// In seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time from `earlier` to here; 0 if `earlier` is later.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}
impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}
impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Nanos) {
        self.0 -= other.0;
    }
}
impl Mul<u64> for Nanos {
    type Output = Nanos;
    fn mul(self, count: u64) -> Nanos {
        Nanos(self.0.saturating_mul(count))
    }
}
impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(times: I) -> Nanos {
        Nanos(times.map(|t| t.0).sum())
    }
}

impl fmt::Display for Nanos {
    /// With the unit that keeps it readable: `12.3 ms`, `4.5 s`, `1.2 h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.as_secs();
        match s {
            _ if self.0 == 0 => write!(f, "0 s"),
            _ if s < 1e-6 => write!(f, "{} ns", self.0),
            _ if s < 1e-3 => write!(f, "{:.1} µs", s * 1e6),
            _ if s < 1.0 => write!(f, "{:.1} ms", s * 1e3),
            _ if s < 600.0 => write!(f, "{s:.1} s"),
            _ if s < 7200.0 => write!(f, "{:.1} min", s / 60.0),
            _ if s < 172_800.0 => write!(f, "{:.1} h", s / 3600.0),
            _ => write!(f, "{:.1} days", s / 86_400.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_with_a_readable_unit() {
        for (ns, text) in [
            (1, "1 ns"),
            (999, "999 ns"),
            (1_000, "1.0 µs"),
            (999_900, "999.9 µs"),
            (1_000_000, "1.0 ms"),
            (999_900_000, "999.9 ms"),
            (1_000_000_000, "1.0 s"),
            (599_900_000_000, "599.9 s"),
            (600_000_000_000, "10.0 min"),
            (7_194_000_000_000, "119.9 min"),
            (7_200_000_000_000, "2.0 h"),
            (172_440_000_000_000, "47.9 h"),
            (172_800_000_000_000, "2.0 days"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
        assert_eq!(Nanos::from_millis(24.78).to_string(), "24.8 ms");
        assert_eq!(Nanos::from_secs(780.0).to_string(), "13.0 min");
        assert_eq!(Nanos(0).to_string(), "0 s");
    }
}
