//! `--capacity`: a size, or as many of a drive's platters as a trace needs on every layer of a comparison.

use std::str::FromStr;

use crate::drive::Drive;
use crate::error::Error;
use crate::quantity::{Bytes, parse_capacity};
use crate::stats::outcome::Scaled;
use crate::units::SECTOR_BYTES;

/// The size of drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedCapacity {
    /// A drive's own, or more of its platters where a trace needs them.
    Auto,
    /// A number of sectors.
    Sectors(u64),
}

impl FromStr for AskedCapacity {
    type Err = Error;
    fn from_str(text: &str) -> Result<AskedCapacity, Error> {
        match text {
            "auto" => Ok(AskedCapacity::Auto),
            _ => Ok(AskedCapacity::Sectors(parse_capacity(text)?)),
        }
    }
}

/// Size that `--capacity` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveSize {
    /// A multiple of its platters.
    Platters(u64),
    /// A number of sectors.
    Sectors(u64),
}

impl DriveSize {
    /// The size that is not `auto`'s to choose; the drive's own for `auto`.
    pub fn for_capacity(capacity: Option<AskedCapacity>) -> DriveSize {
        match capacity {
            Some(AskedCapacity::Sectors(sectors)) => DriveSize::Sectors(sectors),
            Some(AskedCapacity::Auto) | None => DriveSize::Platters(1),
        }
    }

    /// The drive in this size.
    pub fn applied(self, drive: Drive) -> Result<Drive, Error> {
        match self {
            DriveSize::Platters(1) => Ok(drive),
            DriveSize::Platters(times) => drive.with_platters(times),
            DriveSize::Sectors(sectors) => drive.with_capacity(sectors),
        }
    }
}

/// Times more platters than which none are tried: from the smallest drive to the largest there can be.
const PLATTERS_MAX: u64 = 1 << 40;

/// Drive by `made` with the fewest platters (times the drive's own, from `least` on) that are enough; `None` where no number
/// is. More platters never hold less.
pub fn fewest<T>(least: u64, made: impl Fn(u64) -> Result<Option<T>, Error>) -> Result<Option<(u64, T)>, Error> {
    let (mut too_few, mut enough, mut step) = (least.max(1) - 1, least.max(1), 1);
    let mut fitting = made(enough)?;
    while fitting.is_none() {
        if enough > PLATTERS_MAX {
            return Ok(None);
        }
        (too_few, enough, step) = (enough, enough + step, step * 2);
        fitting = made(enough)?;
    }
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        match made(middle)? {
            None => too_few = middle,
            better => (enough, fitting) = (middle, better),
        }
    }
    Ok(fitting.map(|made| (enough, made)))
}

/// The refusal of a trace that no number of platters holds.
pub fn too_large(what: &str, needed: u64) -> Error {
    let needed = Bytes(needed.saturating_mul(SECTOR_BYTES));
    Error::Impossible(format!(
        "the trace needs {needed}, and no number of platters lets {what} offer that under every layer: choose one \
         {{volume}}, a larger {{drive}}, or {{fold}}"
    ))
}

/// Note on drives with more platters than their own.
pub fn scaled(times: u64, needed: u64, own_sectors: u64) -> Option<Scaled> {
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
    (times > 1).then(|| Scaled { platters: times, needed_bytes: bytes(needed), own_bytes: bytes(own_sectors) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_that_are_enough_are_found_from_any_start() {
        for enough in [1, 2, 3, 17, 18, 1000] {
            for least in [0, 1, 2, enough] {
                let found = fewest(least, |times| Ok((times >= enough).then_some(times))).unwrap();
                let expected = enough.max(least);
                assert_eq!(found, Some((expected, expected)), "{enough} from {least}");
            }
        }
        assert_eq!(fewest(1, |_| Ok(None::<()>)).unwrap(), None);
        let most = 2 * PLATTERS_MAX;
        for (enough, found) in [(PLATTERS_MAX + 1, true), (most, true), (most + 1, false)] {
            let fewest = fewest(1, |times| Ok((times >= enough).then_some(()))).unwrap();
            assert_eq!(fewest, found.then_some((enough, ())), "{enough}");
        }
    }

    #[test]
    fn few_sizes_are_tried_however_many_platters_it_takes() {
        let tries = std::cell::Cell::new(0);
        let made = |times| {
            tries.set(tries.get() + 1);
            Ok((times >= 1_000_000_000).then_some(()))
        };
        assert_eq!(fewest(1, made).unwrap(), Some((1_000_000_000, ())));
        assert!(tries.get() <= 64, "twice the bits of the number: {}", tries.get());
    }
}
