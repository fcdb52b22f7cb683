//! Writes that go straight to their bands (the option `bypass`), and the tracks of a band that have ever been written. Both are assumptions:
//! the paper's drive sends every write to its persistent cache and cleans whole bands.
//!
//! Sectors that such a write would destroy without rewriting them are copied to the log first. If the log has a copy of the sectors that it
//! writes, a header without data notes that this copy is outdated. Contiguous sectors are written in one access.
//!
//! A write torn by a power cut may have destroyed old data that it was to replace. This data is copied to the log too, so that each sector
//! is old or new. It is not copied if the drive has a write cache, from which unflushed data may be lost anyway.

use super::DriveManaged;
use super::cache::CachedDisk;
use crate::layer::prelude::*;

words! {
    /// Rule for the writes that go straight to their bands.
    pub(super) enum BypassMode {
        Off = "off",
        Run = "run",
        Command = "command",
        /// Long runs for which little other data has to be copied.
        Stream = "stream",
    }
}

/// Tells sequential writes from others.
pub(super) struct Bypass {
    pub mode: BypassMode,
    /// Length from which on a run or command bypasses the cache.
    sectors: u64,
    /// The end of the current run of writes, and its length in sectors.
    end: Lba,
    length: u64,
    /// Since counting began.
    pub bypassed_sectors: u64,
}

impl Bypass {
    pub fn new(mode: BypassMode, sectors: u64) -> Bypass {
        Bypass { mode, sectors, end: Lba(0), length: 0, bypassed_sectors: 0 }
    }

    pub fn is_on(&self) -> bool {
        self.mode != BypassMode::Off
    }

    /// True if a write is to go straight to its band. To be called once for each write.
    pub fn takes(&mut self, lba: Lba, n: u64) -> bool {
        match self.mode {
            BypassMode::Off => false,
            BypassMode::Command => n >= self.sectors,
            // A stream has to be cheap as well, which only the layer can tell.
            BypassMode::Run | BypassMode::Stream => {
                self.length = if lba == self.end { self.length + n } else { n };
                self.end = lba + n;
                self.length >= self.sectors
            }
        }
    }
}

state! { Bypass { values: end, length, bypassed_sectors; built: mode, sectors; } }

/// Room in the log for the headers that a bypassing write may need.
const HEADERS: u64 = 8;

/// A write of contiguous sectors of one band.
struct DirectWrite {
    lba: Lba,
    sectors: u64,
    pba: Pba,
    band: u32,
    /// True if it ends on a later track than it begins on.
    crosses: bool,
    /// The part of the band that may hold data.
    from: Pba,
    to: Pba,
    /// True if the data that it replaces must survive a torn write.
    careful: bool,
}

impl DriveManaged {
    /// Writes to the bands, or to the log where the band can't be written now.
    pub(super) fn write_direct(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut done = 0;
        while done < n {
            let write = self.direct_write(lba + done, n - done);
            let count = write.sectors;
            if !self.write_in_place(disk, &write, data, done)? {
                self.put(disk, lba + done, count, data, done)?;
            }
            done += count;
        }
        Ok(())
    }

    /// The write to a band that begins at `lba`, of as many of `n` sectors as are contiguous there.
    fn direct_write(&self, lba: Lba, n: u64) -> DirectWrite {
        let home = &self.home;
        let spot = home.locate(lba);
        let sectors = home.run_from(&spot, n);
        let band = home.band_of(spot.track);
        let all = home.tracks_of(band);
        let from = home.start(all.start);
        let to = from + home.sectors_of(all.start..self.written_end(band, &all));
        let (crosses, careful) = (sectors > spot.left, self.is_careful);
        DirectWrite { lba, sectors, pba: spot.pba, band, crosses, from, to, careful }
    }

    /// Writes sectors of one band in place; returns `false` if they can't go there.
    fn write_in_place(&mut self, disk: &mut Disk, write: &DirectWrite, data: &Buf, at: u64) -> DiskResult<bool> {
        let &DirectWrite { lba, sectors: n, .. } = write;
        let copies_max = write.endangered_sectors(disk) + HEADERS;
        // Not even an empty log has room for more.
        if copies_max > self.cache.log.request_max() {
            return Ok(false);
        }
        self.make_room(disk, copies_max)?;
        // Computed again, because cleaning may have written more of the band.
        let write = self.direct_write(lba, n);
        if self.band_at_work() == Some(write.band) {
            return Ok(false);
        }
        if self.noted_band == Some(write.band) {
            // Saving the map makes the scratch pad outdated. Else the drive would restore it over this write after a power cut.
            self.copy_map(disk)?;
        }
        let appends = self.cache.appends;
        // Sectors that the write would destroy are copied to the log. They count as host writes, as guard copies do, because nothing is cleaned.
        for (lba, n) in write.endangered(disk) {
            if self.cache.map.pieces(lba, n).any(|piece| piece.pba.is_none()) {
                let mut buf = disk.buf(n);
                self.read_platters(disk, lba, n, &mut buf)?;
                self.cache.append(disk, Cause::Host, lba, n, &buf, 0)?;
            }
        }
        disk.write(write.pba, n, Cause::Host, data, at)?;
        self.cache.outdate(disk, lba, n)?;
        self.note_written(self.home.locate(lba + (n - 1)).track);
        self.bypass.bypassed_sectors += n;
        if self.cache.appends > appends {
            self.copy_if_due(disk)?;
        }
        Ok(true)
    }

    /// Writes to the bands if `direct`, else to the log.
    pub(super) fn put_or_bypass(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf, direct: bool) -> DiskResult {
        if direct { self.write_direct(disk, lba, n, data) } else { self.put(disk, lba, n, data, 0) }
    }

    /// True if a write to the bands would destroy, and so have to copy, at most half as many sectors as it writes.
    #[cold]
    pub(super) fn is_cheap(&self, disk: &Disk, lba: Lba, n: u64) -> bool {
        let (mut done, mut destroyed) = (0, 0);
        while done < n {
            let write = self.direct_write(lba + done, n - done);
            destroyed += write.endangered_sectors(disk);
            done += write.sectors;
        }
        destroyed <= n / 2
    }
}

impl DirectWrite {
    /// Number of sectors that the write may destroy, inside its band.
    fn endangered_sectors(&self, disk: &Disk) -> u64 {
        self.endangered(disk).iter().map(|(_, n)| n).sum()
    }

    /// The runs upstream and downstream of the write that it may destroy, inside its band: (first LBA, sectors), where sectors may be 0.
    #[inline]
    fn endangered(&self, disk: &Disk) -> [(Lba, u64); 2] {
        let (law, g) = (disk.interference(), disk.geometry());
        let before = Pba(self.pba.0.saturating_sub(law.upstream())).max(self.from);
        let (mut after, end) = law.downstream(g, self.pba, self.sectors);
        let end = end.min(self.to);
        // If the write is torn after its first track, it has destroyed the next track, which it was to replace. So that is endangered, too.
        if self.careful && self.crosses && matches!(law.form(), Some(Form::Tracks | Form::Physical)) {
            after = law.downstream_start(g, self.pba, 1);
        }
        // Inside a band, LBAs are consecutive as PBAs are.
        let run = |from: Pba, to: Pba| (Lba(self.lba.0 + from.0 - self.pba.0), to.0.saturating_sub(from.0));
        // If each sector destroys those that follow it, a torn write endangers all sectors that it was to replace: one run, from `before` on.
        // Past `to` there is no data to replace.
        let by_sectors = matches!(law.form(), Some(Form::Blocks | Form::Distances));
        match self.careful && by_sectors && self.pba < self.to {
            true => [run(before, end), run(end, end)],
            false => [run(before, self.pba), run(after, end)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_counts_from_its_first_write_and_ends_with_a_gap() {
        let mut bypass = Bypass::new(BypassMode::Run, 64);
        assert_eq!([0, 32, 64, 200, 232].map(|lba| bypass.takes(Lba(lba), 32)), [false, true, true, false, true]);
        let mut bypass = Bypass::new(BypassMode::Command, 64);
        assert_eq!([(0, 32), (32, 64)].map(|(lba, n)| bypass.takes(Lba(lba), n)), [false, true]);
    }
}
