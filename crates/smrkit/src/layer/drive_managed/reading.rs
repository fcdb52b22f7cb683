//! Reading what is partly in the log and partly in its band: each piece is an access of its own, a seek apart.
//!
//! Pieces that lie together are read together, in the log with the headers between them. A band that is being cleaned may
//! have tracks damaged at home; they are read from the scratch pad.

use super::DriveManaged;
use super::log::HEADER;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::extent_map::MappedPiece;
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

/// Pieces read as one: the LBAs, and where they lie in the log (first sector, sectors with headers), or at home.
struct ReadRun {
    lba: Lba,
    sectors: u64,
    place: Option<(Pba, u64)>,
}

impl ReadRun {
    fn from_piece(piece: MappedPiece) -> ReadRun {
        ReadRun { lba: piece.lba, sectors: piece.sectors, place: piece.pba.map(|pba| (pba, piece.sectors)) }
    }

    /// Takes the next piece in; `false` if it lies elsewhere.
    #[inline]
    fn take(&mut self, piece: &MappedPiece) -> bool {
        match (&mut self.place, piece.pba) {
            (None, None) => {}
            (Some((pba, span)), Some(next)) if *pba + *span == next || *pba + *span + HEADER == next => {
                *span = next + piece.sectors - *pba;
            }
            _ => return false,
        }
        self.sectors += piece.sectors;
        true
    }
}

impl DriveManaged {
    /// Reads `n` sectors as they are now, the write cache left out.
    #[inline]
    pub(super) fn read_platters(
        &self,
        disk: &mut Disk,
        cause: Cause,
        lba: Lba,
        n: u64,
        out: &mut Buf,
        at: u64,
    ) -> DiskResult {
        let mut pieces = self.cache.map.pieces(lba, n);
        let Some(first) = pieces.next() else { return Ok(()) };
        let mut run = ReadRun::from_piece(first);
        for piece in pieces {
            if !run.take(&piece) {
                self.read_run(disk, cause, &run, out, at + (run.lba - lba))?;
                run = ReadRun::from_piece(piece);
            }
        }
        self.read_run(disk, cause, &run, out, at + (run.lba - lba))
    }

    #[inline]
    fn read_run(&self, disk: &mut Disk, cause: Cause, run: &ReadRun, out: &mut Buf, at: u64) -> DiskResult {
        let Some((pba, span)) = run.place else { return self.read_home(disk, cause, run.lba, run.sectors, out, at) };
        if span == run.sectors {
            return disk.read(pba, span, cause, out, at);
        }
        let mut read = disk.buf(span);
        disk.read(pba, span, cause, &mut read, 0)?;
        for (lba, sectors, place) in self.cache.map.mapped(run.lba, run.sectors) {
            out.put(at + (lba - run.lba), &read, place - pba, sectors);
        }
        Ok(())
    }

    /// Reads `n` sectors from their bands, as many at once as lie together.
    #[inline]
    fn read_home(&self, disk: &mut Disk, cause: Cause, lba: Lba, n: u64, out: &mut Buf, at: u64) -> DiskResult {
        let mut done = 0;
        while done < n {
            let (pba, count) = match self.cleaning.cleaner.is_working() {
                false => self.home_run(lba + done, n - done),
                true => self.home_run_amid_cleaning(lba + done, n - done),
            };
            disk.read(pba, count, cause, out, at + done)?;
            done += count;
        }
        Ok(())
    }

    /// Place of `lba` at home, and the number of `n` sectors that lie there together.
    #[inline]
    pub(super) fn home_run(&self, lba: Lba, n: u64) -> (Pba, u64) {
        let spot = self.bands.home.spot(lba);
        (spot.pba, self.bands.home.run_from(&spot, n))
    }

    /// A run of home sectors while tracks may be found in the scratch pad: those that lie there end a run.
    fn home_run_amid_cleaning(&self, lba: Lba, n: u64) -> (Pba, u64) {
        let spot = self.bands.home.spot(lba);
        if let Some(pba) = self.cleaning.cleaner.scratch_copy(&self.bands.home, spot.track) {
            return (pba + spot.offset, n.min(spot.left));
        }
        let held = self.cleaning.cleaner.held();
        let band_end = spot.track + spot.following + 1;
        let end = if spot.track < held.start { band_end.min(held.start) } else { band_end };
        (spot.pba, n.min(self.bands.home.sectors_of(spot.track..end) - spot.offset))
    }

    /// Place of an LBA.
    pub(super) fn place(&self, lba: Lba) -> Pba {
        self.cache.map.get(lba).unwrap_or_else(|| self.home_run_amid_cleaning(lba, 1).0)
    }
}
