//! Contents of the platters: nothing or, in check mode, a stamp for each sector. The host's bytes never pass through the simulator.
//!
//! Layers need not know whether there are stamps, because they move [`Buf`]s and never look inside. Every write applies the shingling law.

pub mod interference;
mod stamps;

use std::ops::Range;
use std::sync::Arc;

use crate::error::{DiskResult, Fault};
use crate::geometry::Geometry;
use crate::units::{Lba, Pba};
use interference::Interference;
pub use stamps::{Damage, Stamp, Stamps};

/// Contents of sectors.
#[expect(clippy::large_enum_variant, reason = "a drive has only one, and each access looks into it")]
pub enum Medium {
    /// Nothing: only time is simulated.
    NoData,
    /// For each sector, the write that it came from.
    Stamps(Stamps),
}

/// Sectors on their way to and from a medium of the same kind.
#[derive(Clone, Debug, Default)]
pub enum Buf {
    /// Nothing.
    #[default]
    NoData,
    /// A stamp for each sector.
    Stamps(Vec<u64>),
}

impl Medium {
    /// Reads `n` sectors from `pba` into `buf` from sector `at` on. Errors: in check mode, a buffer of another disk or without room.
    #[inline(always)]
    pub fn read(&self, pba: Pba, n: u64, buf: &mut Buf, at: u64) -> DiskResult {
        if let Medium::Stamps(stamps) = self { read_stamps(stamps, pba, n, buf, at) } else { Ok(()) }
    }

    /// Writes `n` sectors at `pba` from `buf`, sector `at` on, and destroys what the law says. Errors: as [`Medium::read`].
    #[inline(always)]
    pub fn write(&mut self, law: &Interference, g: &Geometry, pba: Pba, n: u64, buf: &Buf, at: u64) -> DiskResult {
        if let Medium::Stamps(stamps) = self { write_stamps(stamps, law, g, (pba, n), buf, at) } else { Ok(()) }
    }

    /// Fills the medium as if every LBA had been written once, in order, where `placement` says.
    pub fn fill(&mut self, placement: Arc<dyn Placement>, sectors: u64) {
        if let Medium::Stamps(stamps) = self {
            stamps.fill(placement, sectors);
        }
    }

    /// Room for `n` sectors, with `stamp` in each.
    #[inline]
    pub(crate) fn buf(&self, n: u64, stamp: Stamp) -> Buf {
        match self {
            Medium::NoData => Buf::NoData,
            Medium::Stamps(_) => Buf::Stamps(vec![stamp.0; n as usize]),
        }
    }
}

impl Buf {
    /// Copies `count` sectors of `from`, from its sector `first` on, to this buffer's sector `at` on. Sectors beyond either buffer are not
    /// copied: check mode then finds that data is missing.
    #[inline]
    pub fn put(&mut self, at: u64, from: &Buf, first: u64, count: u64) {
        if let (Buf::Stamps(to), Buf::Stamps(from)) = (self, from)
            && let (Some(to), Some(from)) = (to.get_mut(range(at, count)), from.get(range(first, count)))
        {
            to.copy_from_slice(from);
        }
    }
}

// For check mode only: kept out of line, for the speed of other runs.
#[cold]
fn read_stamps(stamps: &Stamps, pba: Pba, n: u64, buf: &mut Buf, at: u64) -> DiskResult {
    let out = if let Buf::Stamps(out) = buf { out.get_mut(range(at, n)) } else { None };
    stamps.read(pba, out.ok_or_else(|| foreign(n, at))?);
    Ok(())
}

#[cold]
fn write_stamps(
    stamps: &mut Stamps,
    law: &Interference,
    g: &Geometry,
    (pba, n): (Pba, u64),
    buf: &Buf,
    at: u64,
) -> DiskResult {
    let data = if let Buf::Stamps(data) = buf { data.get(range(at, n)) } else { None };
    stamps.write(law, g, pba, data.ok_or_else(|| foreign(n, at))?);
    Ok(())
}

/// The fault of a layer that passed a wrong buffer. Unnoticed without stamps.
fn foreign(n: u64, at: u64) -> Box<Fault> {
    let message =
        format!("a buffer has no {n} stamps from sector {at} on: take one that Disk::buf makes, and large enough");
    Box::new(Fault::Inconsistent(message))
}

fn range(at: u64, n: u64) -> Range<usize> {
    at as usize..at.saturating_add(n) as usize
}

/// Places of LBAs on a disk that begins full, as if each had been written once, in order. A medium of stamps calls this instead of storing
/// them.
pub trait Placement: Send + Sync {
    /// Calls `each` for those of `n` sectors from `pba` on that hold an LBA, in order: with the sector's offset from `pba`, and the LBA.
    fn within(&self, pba: Pba, n: u64, each: &mut dyn FnMut(u64, Lba));
}

/// LBAs that are in ascending order on the disk.
pub struct Ascending<F> {
    sectors: u64,
    place: F,
}

impl<F: Fn(Lba) -> Pba> Ascending<F> {
    /// The first `sectors` LBAs, each where `place` says.
    pub fn new(sectors: u64, place: F) -> Ascending<F> {
        Ascending { sectors, place }
    }
}

impl<F: Fn(Lba) -> Pba + Send + Sync> Placement for Ascending<F> {
    fn within(&self, pba: Pba, n: u64, each: &mut dyn FnMut(u64, Lba)) {
        let (mut low, mut high) = (0, self.sectors);
        while low < high {
            let middle = (low + high) / 2;
            if (self.place)(Lba(middle)) < pba { low = middle + 1 } else { high = middle }
        }
        for lba in (low..self.sectors).map(Lba) {
            let at = (self.place)(lba);
            if at >= pba + n {
                break;
            }
            each(at - pba, lba);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_between_those_that_hold_an_lba_hold_none() {
        let placement = Ascending::new(12, |lba| Pba(10 + lba.0 / 4 * 7 + lba.0 % 4));
        let mut found = Vec::new();
        placement.within(Pba(12), 16, &mut |at, lba| found.push((at, lba.0)));
        assert_eq!(found, [(0, 2), (1, 3), (5, 4), (6, 5), (7, 6), (8, 7), (12, 8), (13, 9), (14, 10), (15, 11)]);
    }
}
