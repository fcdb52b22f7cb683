//! Runs of sectors: as entries of a log, and as accesses that are joined because they lie close together.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::extent_map::{ExtentMap, joined};
use crate::geometry::Regions;
use crate::layer::prelude::*;

/// An entry of a log: the first LBA (40 bits) and how many sectors from it on (24 bits), or sectors that were skipped.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct LoggedRun(u64);

const SECTORS_BITS: u32 = 24;
/// The most sectors that an entry counts.
pub(super) const RUN_SECTORS_MAX: u64 = (1 << SECTORS_BITS) - 1;
/// An LBA that no drive has: marks skipped sectors.
const SKIPPED: u64 = (1 << (u64::BITS - SECTORS_BITS)) - 1;

impl LoggedRun {
    #[inline]
    pub fn new(lba: Lba, sectors: u64) -> LoggedRun {
        debug_assert!(lba.0 < SKIPPED && sectors <= RUN_SECTORS_MAX);
        LoggedRun(lba.0 << SECTORS_BITS | sectors)
    }

    /// Sectors that hold no data, because a power cut tore their write.
    pub fn skipped(sectors: u64) -> LoggedRun {
        LoggedRun(SKIPPED << SECTORS_BITS | sectors)
    }

    /// The first LBA; `None` if the sectors were skipped.
    #[inline]
    pub fn lba(self) -> Option<Lba> {
        let lba = self.0 >> SECTORS_BITS;
        (lba != SKIPPED).then_some(Lba(lba))
    }

    pub fn sectors(self) -> u64 {
        self.0 & RUN_SECTORS_MAX
    }

    /// Adds sectors that continue this run; returns `false` if they don't.
    pub fn extend(&mut self, lba: Lba, sectors: u64) -> bool {
        let joins = (self.0 >> SECTORS_BITS) + self.sectors() == lba.0 && self.sectors() + sectors <= RUN_SECTORS_MAX;
        if joins {
            // The number of sectors is in the low bits.
            self.0 += sectors;
        }
        joins
    }
}

/// Reads pieces that lie close together in one access, with the sectors between them. Pieces are held back until one follows that is farther
/// away, or until `finish`.
pub(super) struct Gather {
    cause: Cause,
    /// The most sectors between two pieces that are read along.
    gap_sectors: u64,
    /// The pieces held back lie in `from..to`.
    from: Pba,
    to: Pba,
    /// First PBA, sectors, and the sector of `out` that the first one goes to.
    pieces: SmallVec<[(Pba, u64, u64); 4]>,
}

impl Gather {
    pub fn new(cause: Cause, gap_sectors: u64) -> Gather {
        Gather { cause, gap_sectors, from: Pba(0), to: Pba(0), pieces: SmallVec::new() }
    }

    /// Adds a read of `n` sectors from `pba` into `out` from sector `at` on.
    #[inline]
    pub fn read(&mut self, disk: &mut Disk, pba: Pba, n: u64, out: &mut Buf, at: u64) -> DiskResult {
        let is_close = !self.pieces.is_empty() && pba >= self.to && pba - self.to <= self.gap_sectors;
        if !is_close {
            self.finish(disk, out)?;
            self.from = pba;
        }
        self.to = pba + n;
        self.pieces.push((pba, n, at));
        Ok(())
    }

    /// Reads the pieces held back.
    #[inline]
    pub fn finish(&mut self, disk: &mut Disk, out: &mut Buf) -> DiskResult {
        match self.pieces.as_slice() {
            [] => {}
            &[(pba, n, at)] => disk.read(pba, n, self.cause, out, at)?,
            pieces => {
                let mut all = disk.buf(self.to - self.from);
                disk.read(self.from, self.to - self.from, self.cause, &mut all, 0)?;
                for &(pba, n, at) in pieces {
                    out.put(at, &all, pba - self.from, n);
                }
            }
        }
        self.pieces.clear();
        Ok(())
    }
}

/// Joins accesses that touch, both on the platters and in the buffer. The last access (PBA, sector of the buffer, sectors) is held back until
/// one follows that does not touch it, or until `end`.
#[derive(Default)]
pub(super) struct Joined(Option<(Pba, u64, u64)>);

impl Joined {
    /// Adds an access to `n` sectors at `pba` with those of the buffer from sector `at` on. If it does not touch the access held back, that
    /// one is made now.
    #[inline]
    pub fn add(
        &mut self,
        (pba, at, n): (Pba, u64, u64),
        access: impl FnOnce(Pba, u64, u64) -> DiskResult,
    ) -> DiskResult {
        match &mut self.0 {
            Some((first, from, sectors)) if *first + *sectors == pba && *from + *sectors == at => *sectors += n,
            _ => {
                self.end(access)?;
                self.0 = Some((pba, at, n));
            }
        }
        Ok(())
    }

    /// Makes the access held back.
    pub fn end(&mut self, access: impl FnOnce(Pba, u64, u64) -> DiskResult) -> DiskResult {
        self.0.take().map_or(Ok(()), |(pba, at, n)| access(pba, at, n))
    }

    /// Adds a write of the host.
    pub fn write(&mut self, disk: &mut Disk, run: (Pba, u64, u64), data: &Buf) -> DiskResult {
        self.add(run, |pba, at, n| disk.write(pba, n, Cause::Host, data, at))
    }

    /// Makes the host's write that is held back.
    pub fn end_write(&mut self, disk: &mut Disk, data: &Buf) -> DiskResult {
        self.end(|pba, at, n| disk.write(pba, n, Cause::Host, data, at))
    }
}

/// Reads sectors that were never written: zeros, in the time that a conventional disk takes, on which the PBA of a sector is its LBA.
pub(super) fn read_unwritten(disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf, at: u64) -> DiskResult {
    let mut scratch = disk.buf(n);
    disk.read(Pba(lba.0), n, Cause::Host, &mut scratch, 0)?;
    out.put(at, &disk.buf(n), 0, n);
    Ok(())
}

/// Reads what the map has from its place in a cache, and the rest from home: LBAs fill the regions from region `first` on.
pub(super) fn read_cached(
    disk: &mut Disk,
    map: &ExtentMap,
    (regions, first): (&Regions, u64),
    lba: Lba,
    n: u64,
    out: &mut Buf,
) -> DiskResult {
    joined(map.pieces(lba, n), |piece| {
        if let Some(pba) = piece.pba {
            return disk.read(pba, piece.sectors, Cause::Host, out, piece.lba - lba);
        }
        let to = piece.lba - lba;
        regions.pieces(piece.lba, piece.sectors).try_for_each(|(region, offset, count, at)| {
            disk.read(regions.start(first + region) + offset, count, Cause::Host, out, to + at)
        })
    })
}
