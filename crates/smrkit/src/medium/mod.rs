//! Contents of the platters: nothing or, in check mode, a stamp for each sector. The host's bytes never pass through the simulator.
//!
//! A stamp names an LBA and a version, or says that a layer's metadata is there. A sector that a neighbour's write destroyed keeps the LBA of
//! that write, marked as damage. When sectors were last written is kept only under the law of distances, which needs it.
//!
//! Layers need not know whether there are stamps, because they move [`Buf`]s and never look inside. Every write applies the shingling law.

pub mod interference;

use std::ops::Range;
use std::sync::Arc;

use crate::error::{DiskResult, Fault};
use crate::geometry::Geometry;
use crate::pages::Pages;
use crate::units::{Lba, Pba};
use interference::Interference;

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
    /// Copies `count` sectors of `from`, from its sector `first` on, to this buffer's sector `at` on. If either buffer is too short,
    /// nothing is copied: check mode then finds that data is missing.
    #[inline]
    pub fn put(&mut self, at: u64, from: &Buf, first: u64, count: u64) {
        if let (Buf::Stamps(to), Buf::Stamps(from)) = (self, from)
            && let (Some(to), Some(from)) = (to.get_mut(range(at, count)), from.get(range(first, count)))
        {
            to.copy_from_slice(from);
        }
    }
}

// Stamps are for check mode only: cold, so that they are kept out of line, for the speed of other runs.

/// Reads the stamps of `n` sectors from `pba` on to the sectors of `buf` from `at` on.
#[cold]
fn read_stamps(stamps: &Stamps, pba: Pba, n: u64, buf: &mut Buf, at: u64) -> DiskResult {
    let out = if let Buf::Stamps(out) = buf { out.get_mut(range(at, n)) } else { None };
    stamps.read(pba, out.ok_or_else(|| wrong_buffer(n, at))?);
    Ok(())
}

/// Writes the stamps of `n` sectors of `buf`, from `at` on, to the sectors from `pba` on.
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
    stamps.write(law, g, pba, data.ok_or_else(|| wrong_buffer(n, at))?);
    Ok(())
}

/// The fault of a layer that passed a wrong buffer. Unnoticed without stamps.
fn wrong_buffer(n: u64, at: u64) -> Box<Fault> {
    let message =
        format!("a buffer has no {n} stamps from sector {at} on: take one that Disk::buf makes, and large enough");
    Box::new(Fault::Inconsistent(message))
}

fn range(at: u64, n: u64) -> Range<usize> {
    at as usize..at.saturating_add(n) as usize
}

/// Content of a sector: nothing (0), a version of an LBA, a layer's metadata, or damage by the write of an LBA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(pub u64);

const DAMAGED: u64 = 1 << 63;
const METADATA: u64 = 1 << 62;
const LBA_BITS: u32 = 39;
const VERSION_BITS: u32 = 23;

impl Stamp {
    /// The largest LBA that a stamp can name.
    pub const LBA_MAX: u64 = (1 << LBA_BITS) - 1;

    /// A layer's metadata: a header, a copy of a map, a bitmap. Its contents are not kept.
    pub const METADATA: Stamp = Stamp(METADATA);

    /// The stamp of the `version`-th write of `lba`, from 1; 0 is before every write. It keeps `version + 1`, so that no stamp is 0, and begins
    /// again after 2^23 − 1 writes.
    pub fn new(lba: Lba, version: u64) -> Stamp {
        debug_assert!(lba.0 < 1 << LBA_BITS);
        let version = version % ((1 << VERSION_BITS) - 1) + 1;
        Stamp(version << LBA_BITS | lba.0)
    }

    /// The stamp of an LBA on a disk that began full: before every write.
    pub fn first(lba: Lba) -> Stamp {
        Stamp::new(lba, 0)
    }

    /// True if a layer's metadata lies here, not the host's data.
    pub fn is_metadata(self) -> bool {
        self == Stamp::METADATA
    }

    /// LBA of the data.
    pub fn lba(self) -> Lba {
        Lba(self.0 & ((1 << LBA_BITS) - 1))
    }

    /// Number of the write of that LBA, from 1; 0 before every write.
    pub fn version(self) -> u64 {
        ((self.0 & !DAMAGED) >> LBA_BITS).saturating_sub(1)
    }

    /// True if the sector was destroyed; then [`Stamp::lba`] is the LBA that was being written next to it.
    pub fn is_damaged(self) -> bool {
        self.0 & DAMAGED != 0
    }
}

/// A sector destroyed by the write of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Place of the sector.
    pub pba: Pba,
    /// Stamp that was there.
    pub was: Stamp,
    /// LBA that was being written.
    pub by: Lba,
}

/// Stamps of the sectors ever written.
#[derive(Default)]
pub struct Stamps {
    pages: Pages,
    damages: Vec<Damage>,
    history: History,
    written_sectors: u64,
}

impl Stamps {
    /// An empty disk.
    pub fn new() -> Stamps {
        Stamps::default()
    }

    /// Fills an empty disk of this many sectors as if every LBA had been written once, in the order of PBAs.
    fn fill(&mut self, placement: Arc<dyn Placement>, sectors: u64) {
        let beginning = |word: fn(Pba, Lba) -> u64| {
            let placement = Arc::clone(&placement);
            Pages::beginning_with(Box::new(move |first, out| {
                let n = out.len() as u64;
                placement.within(Pba(first), n, &mut |at, lba| out[at as usize] = word(Pba(first + at), lba));
            }))
        };
        self.pages = beginning(|_, lba| Stamp::first(lba).0);
        // The history too is as after one write of every sector, in the order of PBAs.
        self.history = History { order: sectors, times: vec![beginning(|pba, _| pba.0 + 1)] };
    }

    /// Content of `pba`.
    pub fn get(&self, pba: Pba) -> Stamp {
        Stamp(self.pages.get(pba.0))
    }

    /// Reads contents one by one. Fast if each sector is near the one before.
    pub fn nearby(&self) -> impl FnMut(Pba) -> Stamp {
        let mut word = self.pages.nearby();
        move |pba| Stamp(word(pba.0))
    }

    fn read(&self, pba: Pba, out: &mut [u64]) {
        self.pages.read(pba.0, out);
    }

    /// Writes `data`. What this destroys is blamed on the first LBA in it, since metadata has none.
    fn write(&mut self, law: &Interference, geometry: &Geometry, pba: Pba, data: &[u64]) {
        let n = data.len() as u64;
        let by = data.iter().map(|&stamp| Stamp(stamp)).find(|stamp| !stamp.is_metadata()).map_or(Lba(0), Stamp::lba);
        let mut hits = Vec::new();
        law.destroyed(geometry, pba, n, |at, sectors| hits.push((at, sectors)));
        if let Interference::Distances { dpid, writes, .. } = *law {
            self.history.worn_upstream(pba, n, dpid, writes, &mut hits);
        }
        self.pages.put(pba.0, data);
        self.written_sectors += n;
        for (at, sectors) in hits {
            self.destroy(at, sectors, by);
        }
    }

    /// Marks the sectors that hold anything as damaged by a write of `by`, and notes which of them held the host's data.
    fn destroy(&mut self, first: Pba, sectors: u64, by: Lba) {
        let damaged = Stamp(DAMAGED | by.0);
        for (at, stamps) in self.pages.within(first.0..first.0 + sectors) {
            for (pba, stamp) in (at..).map(Pba).zip(stamps) {
                let was = Stamp(*stamp);
                // An empty sector has nothing to lose, and damage is noted once.
                if was.0 != 0 && !was.is_damaged() {
                    if !was.is_metadata() {
                        self.damages.push(Damage { pba, was, by });
                    }
                    *stamp = damaged.0;
                }
            }
        }
    }

    /// The sectors destroyed since the last call, and not written since.
    pub fn take_damages(&mut self) -> Vec<Damage> {
        let mut damages = std::mem::take(&mut self.damages);
        let mut stamp = self.nearby();
        // What was written since is whole again.
        damages.retain(|damage| stamp(damage.pba).is_damaged());
        damages
    }

    /// True if any sector was destroyed since the last [`Stamps::take_damages`].
    pub fn has_damages(&self) -> bool {
        !self.damages.is_empty()
    }

    /// Sectors written so far, counted here for comparison with the tally.
    pub fn written_sectors(&self) -> u64 {
        self.written_sectors
    }
}

/// When sectors were last written, as many times back as the law of distances needs.
#[derive(Default)]
struct History {
    /// Sectors written so far. Those of a disk that began full count in the order of PBAs.
    order: u64,
    /// `times[0]` has the `order` of each sector's last write, `times[1]` that of the write before, and so on; 0 for none.
    times: Vec<Pages>,
}

impl History {
    /// Notes an ascending write of `n` sectors at `pba`, and adds to `hits` the sectors upstream that it destroys: each sector x that is within
    /// `dpid` before a written sector k, if k had already been written `writes` times since x was.
    fn worn_upstream(&mut self, pba: Pba, n: u64, dpid: u64, writes: u32, hits: &mut Vec<(Pba, u64)>) {
        let words = |level: usize, first: u64, n: u64| match self.times.get(level) {
            Some(times) => times.words(first, n),
            None => vec![0; n as usize],
        };
        // latest[i]: the latest time among the first i + 1 written sectors at which one of them had its `writes`-th last write. It decides for an
        // x that is within `dpid` before just these. The sectors of the command itself are newer, so only sectors before `pba` can be destroyed.
        let mut latest = words(writes as usize - 1, pba.0, n.min(dpid));
        for i in 1..latest.len() {
            latest[i] = latest[i].max(latest[i - 1]);
        }
        let upstream = dpid.min(pba.0);
        for (back, written) in (1..).zip(words(0, pba.0 - upstream, upstream).into_iter().rev()) {
            let reach = (dpid - back + 1).min(latest.len() as u64);
            if reach > 0 && written > 0 && latest[reach as usize - 1] > written {
                hits.push((Pba(pba.0 - back), 1));
            }
        }
        self.put(pba, n, writes as usize);
    }

    /// Enters the newest times, and moves older ones one write back.
    fn put(&mut self, pba: Pba, n: u64, writes: usize) {
        let mut moved: Vec<u64> = (self.order + 1..=self.order + n).collect();
        self.order += n;
        for level in 0..writes {
            if level == self.times.len() {
                self.times.push(Pages::default());
            }
            let was = self.times[level].words(pba.0, n);
            self.times[level].put(pba.0, &moved);
            // Sectors that were never written have no older times to move.
            if was.iter().all(|&time| time == 0) {
                break;
            }
            moved = was;
        }
    }
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

    #[test]
    fn a_sector_is_worn_out_by_as_many_writes_as_the_law_says() {
        for writes in [1, 2, 3, 4, 300] {
            let law = Interference::Distances { did: 0, dpid: 4, writes };
            let geometry = Geometry::uniform(4, 100).unwrap();
            let mut stamps = Stamps::new();
            let mut write = |pba: u64| {
                stamps.write(&law, &geometry, Pba(pba), &[Stamp::new(Lba(pba), 0).0]);
                stamps.take_damages().iter().map(|damage| damage.pba.0).collect::<Vec<_>>()
            };
            for _ in 0..9 {
                assert!(write(14).is_empty());
            }
            // What was written before the sector itself does not count, nor what lies further away.
            assert!([10, 11].into_iter().all(|at| write(at).is_empty()));
            for _ in 0..writes {
                assert!([15, 14].into_iter().all(|at| write(at).is_empty()), "{writes}");
            }
            assert_eq!(write(15), [11], "{writes}");
            assert_eq!(write(14), [10], "{writes}");
        }
    }
}
