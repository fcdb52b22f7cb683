//! A volatile write cache above the layer: writes of the host that were not flushed, in memory and unordered. A power cut loses them.
//!
//! A write completes at once and takes no time of the drive's; writing it back does. Without this cache a layer keeps all that was
//! acknowledged in order, and software that forgets to flush is never found out.

use std::collections::BTreeMap;
use std::ops::Range;

use smrkit::units::SECTOR_BYTES;

const SECTOR: usize = SECTOR_BYTES as usize;

/// Sectors of a write to the layer at most: 1 MiB (assumption).
const RUN_SECTORS: usize = 2048;

/// The cache; of 0 sectors, none.
#[derive(Default)]
pub(super) struct WriteCache {
    /// Sectors that it holds at most.
    pub(super) room: usize,
    sectors: BTreeMap<u64, Box<[u8; SECTOR]>>,
}

/// Sectors from an LBA on.
pub(super) type CachedRun = (u64, Vec<u8>);

impl WriteCache {
    /// An empty one for this many sectors.
    pub(super) fn new(room: usize) -> WriteCache {
        WriteCache { room, ..WriteCache::default() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.sectors.len() >= self.room
    }

    /// Takes in what was written from `lba` on.
    pub(super) fn insert(&mut self, lba: u64, bytes: &[u8]) {
        for (lba, sector) in (lba..).zip(bytes.chunks_exact(SECTOR)) {
            let mut kept = Box::new([0; SECTOR]);
            kept.copy_from_slice(sector);
            self.sectors.insert(lba, kept);
        }
    }

    /// Lets go of the sectors in `range`.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        for lba in self.held(range).collect::<Vec<_>>() {
            self.sectors.remove(&lba);
        }
    }

    /// Lets go of everything.
    pub(super) fn clear(&mut self) {
        self.sectors.clear();
    }

    /// Puts what it holds of the sectors in `range` over `bytes`, read from there.
    pub(super) fn overlay(&self, range: Range<u64>, bytes: &mut [u8]) {
        let first = range.start;
        for (lba, sector) in self.sectors.range(range) {
            let at = (lba - first) as usize * SECTOR;
            bytes[at..at + SECTOR].copy_from_slice(&sector[..]);
        }
    }

    /// LBAs that it holds in `range`.
    pub(super) fn held(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        self.sectors.range(range).map(|(lba, _)| *lba)
    }

    /// Takes out the sectors that `pick` names, as runs to be written.
    pub(super) fn take(&mut self, mut pick: impl FnMut(u64) -> bool) -> Vec<CachedRun> {
        let mut runs: Vec<CachedRun> = Vec::new();
        for lba in self.held(0..u64::MAX).filter(|&lba| pick(lba)).collect::<Vec<_>>() {
            let Some(sector) = self.sectors.remove(&lba) else { continue };
            match runs.last_mut() {
                Some((first, bytes))
                    if *first + (bytes.len() / SECTOR) as u64 == lba && bytes.len() < RUN_SECTORS * SECTOR =>
                {
                    bytes.extend_from_slice(&sector[..]);
                }
                _ => runs.push((lba, sector.to_vec())),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// A byte that tells sectors and writes apart.
    fn bytes(lba: u64, sectors: u64, stamp: u64) -> Vec<u8> {
        (lba..lba + sectors).flat_map(|lba| [(31 * stamp + 7 * lba) as u8; SECTOR]).collect()
    }

    #[test]
    fn it_holds_what_a_map_of_sectors_would() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let (mut cache, mut model) = (WriteCache::new(30), BTreeMap::new());
        for stamp in 0..2000 {
            let (lba, sectors) = (random.random_range(0..60u64), random.random_range(1..8u64));
            let range = lba..lba + sectors;
            match random.random_range(0..8) {
                0 => {
                    cache.remove(range.clone());
                    model.retain(|lba, _| !range.contains(lba));
                }
                1 => {
                    let taken = cache.take(|lba| range.contains(&lba));
                    let runs: Vec<u64> = taken.iter().map(|run| run.0).collect();
                    let begins =
                        |lba: &u64| range.contains(lba) && (*lba == range.start || !model.contains_key(&(lba - 1)));
                    assert_eq!(runs, model.keys().copied().filter(begins).collect::<Vec<u64>>());
                    let taken: Vec<u8> = taken.into_iter().flat_map(|run| run.1).collect();
                    let held: Vec<u8> = model.range(range.clone()).flat_map(|(_, byte)| [*byte; SECTOR]).collect();
                    assert!(taken == held, "{range:?}");
                    model.retain(|lba, _| !range.contains(lba));
                }
                2 if random.random_bool(0.05) => {
                    cache.clear();
                    model.clear();
                }
                _ => {
                    let written = bytes(lba, sectors, stamp);
                    cache.insert(lba, &written);
                    model.extend(range.clone().zip(written.chunks(SECTOR).map(|sector| sector[0])));
                }
            }
            assert_eq!(cache.is_full(), model.len() >= 30);
            assert!(cache.held(range.clone()).eq(model.range(range.clone()).map(|(lba, _)| *lba)));
            let mut read = vec![1; SECTOR * sectors as usize];
            cache.overlay(range.clone(), &mut read);
            let expected: Vec<u8> = range.flat_map(|lba| [*model.get(&lba).unwrap_or(&1); SECTOR]).collect();
            assert!(read == expected, "after write {stamp}");
        }
    }

    #[test]
    fn a_long_run_is_taken_out_in_pieces() {
        let mut cache = WriteCache::new(10_000);
        cache.insert(5, &bytes(5, 5000, 1));
        let runs: Vec<_> = cache.take(|_| true).iter().map(|(lba, bytes)| (*lba, bytes.len() / SECTOR)).collect();
        assert_eq!(runs, [(5, 2048), (2053, 2048), (4101, 904)]);
    }
}
