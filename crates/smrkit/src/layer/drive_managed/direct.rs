//! Writes that go straight to their bands (the option `bypass`).
//!
//! Sectors that such a write would destroy, and does not rewrite, are copied to the log first. Where the log held a copy of what was
//! written, a header without data notes that it is out of date. What lies in a row is one access. Torn by a power cut, a write
//! is there in part: where that destroys old data that it was to replace, they are copied too, so that each sector is old or
//! new. A run of the write cache promises nothing: what it replaces is not copied.

use super::DriveManaged;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::layer::Layer;
use crate::medium::Buf;
use crate::medium::interference::Form;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

/// Room for the headers that a bypassing write may need.
const HEADERS: u64 = 8;

/// A write of sectors of one band.
struct Direct {
    lba: Lba,
    sectors: u64,
    pba: Pba,
    band: u32,
    /// The band's first sector, and the end of what may hold data in it.
    from: Pba,
    to: Pba,
    /// True if what it replaces must outlast a torn write.
    careful: bool,
}

impl DriveManaged {
    /// Writes to the bands; what can't go there now goes to the log.
    pub(super) fn put_direct(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut done = 0;
        while done < n {
            let count = self.home_run(lba + done, n - done).1;
            if !self.put_home(disk, lba + done, count, data, done)? {
                self.put(disk, lba + done, count, data, done)?;
            }
            done += count;
        }
        Ok(())
    }

    fn direct(&self, lba: Lba, sectors: u64) -> Direct {
        let spot = self.bands.home.spot(lba);
        let band = self.bands.home.band_of(spot.track);
        let all = self.bands.home.tracks_of(band);
        let from = self.bands.home.start(all.start);
        let to = from + self.bands.home.sectors_of(all.start..self.bands.written.end(band, &all));
        Direct { lba, sectors, pba: spot.pba, band, from, to, careful: self.keeps_acknowledged() }
    }

    /// Sectors of a band that a write inside it would destroy.
    pub(super) fn endangered_sectors(&self, disk: &Disk, lba: Lba, n: u64) -> u64 {
        self.direct(lba, n).endangered(disk).iter().map(|(_, n)| n).sum()
    }

    /// Writes `n` sectors of one band in place; `false` where they can't go there.
    fn put_home(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf, at: u64) -> DiskResult<bool> {
        let bound = self.endangered_sectors(disk, lba, n) + HEADERS;
        if bound > self.cache.request_max() {
            return Ok(false);
        }
        self.make_room(disk, bound)?;
        let write = self.direct(lba, n);
        if self.cleaning.band_at_work(&self.bands.home) == Some(write.band) {
            return Ok(false);
        }
        if self.cleaning.noted_band() == Some(write.band) {
            // The scratch pad must not be replayed over what is written now.
            self.persist(disk)?;
        }
        let appends = self.cache.appends();
        self.save_endangered(disk, &write)?;
        disk.write(write.pba, n, Cause::Host, data, at)?;
        self.cache.outdate(disk, lba, n)?;
        let last = self.bands.home.spot(lba + (n - 1)).track;
        self.bands.written.raise(write.band, last + 1 - self.bands.home.tracks_of(write.band).start);
        self.counts.bypassed_sectors += n;
        if self.cache.appends() > appends {
            self.follow_up(disk)?;
        }
        Ok(true)
    }

    /// Copies to the log what a write would destroy. Nothing is cleaned by it: the cause is the host, as with guard copies.
    fn save_endangered(&mut self, disk: &mut Disk, write: &Direct) -> DiskResult {
        for (lba, n) in write.endangered(disk) {
            if self.cache.map().pieces(lba, n).any(|piece| piece.pba.is_none()) {
                let mut buf = disk.buf(n);
                self.read_platters(disk, Cause::Host, lba, n, &mut buf, 0)?;
                self.cache.append(disk, Cause::Host, lba, n, &buf, 0)?;
            }
        }
        Ok(())
    }
}

impl Direct {
    /// Sectors that the write may destroy, inside its band: (first LBA, sectors), if any.
    fn endangered(&self, disk: &Disk) -> Vec<(Lba, u64)> {
        let (law, g) = (disk.interference(), disk.geometry());
        let before = Pba(self.pba.0.saturating_sub(law.upstream())).max(self.from);
        // Torn after its first track, a write destroys what it was to replace on the next ones.
        let by_tracks = matches!(law.form(), Some(Form::Tracks | Form::Physical));
        let after = law.downstream_start(g, self.pba, if self.careful && by_tracks { 1 } else { self.sectors });
        let end = law.downstream_end(g, self.pba, self.sectors).min(self.to);
        // LBAs run with PBAs inside a band.
        let lba = |pba: Pba| Lba(self.lba.0 + pba.0 - self.pba.0);
        let by_sectors = matches!(law.form(), Some(Form::Blocks | Form::Distances));
        let ranges = match self.careful && by_sectors && self.pba < self.to {
            true => [(before, end), (end, end)],
            false => [(before, self.pba), (after, end)],
        };
        ranges.into_iter().filter(|(a, b)| a < b).map(|(a, b)| (lba(a), b - a)).collect()
    }
}
