//! A volatile write cache above the layer: what the host has written and not flushed, in memory, in no order. A power cut loses it.
//!
//! It answers at once and takes no time of the drive's; writing it back does. Without it a layer's own order keeps what was
//! acknowledged, and software that forgets to flush is never found out.

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
    /// An empty one for so many sectors.
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
