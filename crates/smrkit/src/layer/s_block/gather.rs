//! Reads of pieces that lie close together become one access: what lies between (headers, page records) is read too.

use smallvec::SmallVec;

use crate::disk::Disk;
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::Pba;

/// Sectors between two pieces that are read through: an entry's header and a page's record.
const THROUGH_SECTORS: u64 = 2;

/// Pieces held back until it is known that none follows close by.
pub struct Gather {
    cause: Cause,
    /// Source and target of a move.
    from: Pba,
    to: Pba,
    /// First PBA, sectors, and where they go.
    pieces: SmallVec<[(Pba, u64, u64); 4]>,
}

impl Gather {
    pub fn new(cause: Cause) -> Gather {
        Gather { cause, from: Pba(0), to: Pba(0), pieces: SmallVec::new() }
    }

    /// Reads `n` sectors from `pba` into `out` from sector `at` on, at the latest when finished.
    #[inline]
    pub fn read(&mut self, disk: &mut Disk, pba: Pba, n: u64, out: &mut Buf, at: u64) -> DiskResult {
        let close = !self.pieces.is_empty() && pba >= self.to && pba - self.to <= THROUGH_SECTORS;
        if !close {
            self.finish(disk, out)?;
            self.from = pba;
        }
        self.to = pba + n;
        self.pieces.push((pba, n, at));
        Ok(())
    }

    /// Reads what was held back.
    #[inline]
    pub fn finish(&mut self, disk: &mut Disk, out: &mut Buf) -> DiskResult {
        match self.pieces.as_slice() {
            [] => {}
            &[(pba, n, at)] => disk.read(pba, n, self.cause, out, at)?,
            _ if !disk.holds_data() => disk.read(self.from, self.to - self.from, self.cause, out, 0)?,
            pieces => {
                let mut all = disk.buf(self.to - self.from);
                disk.read(self.from, self.to - self.from, self.cause, &mut all, 0)?;
                for &(pba, n, at) in pieces {
                    out.put(at, &all, pba - self.from, n)?;
                }
            }
        }
        self.pieces.clear();
        Ok(())
    }
}

/// The buffer kept for this, with room for `n` sectors.
pub fn taken(kept: &mut Buf, disk: &Disk, n: u64) -> Buf {
    let mut buf = std::mem::replace(kept, Buf::NoData);
    if matches!(buf, Buf::NoData) {
        buf = disk.buf(n);
    }
    buf.room(n);
    buf
}

/// A buffer as it is kept: not one of sectors that are held elsewhere, which need not be held any longer.
pub fn kept(buf: Buf) -> Buf {
    if matches!(buf, Buf::Held(_)) { Buf::NoData } else { buf }
}
