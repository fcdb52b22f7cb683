//! Reads and writes of chunks.

use super::DmZoned;
use super::blocks::BLOCK;
use super::maps::{ChunkZones, NONE, UNMAPPED};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::Lba;

impl DmZoned {
    /// Writes whole blocks.
    pub(super) fn write_blocks(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut at = 0;
        for (chunk, first, n) in self.layout.zones.pieces(lba, n) {
            self.write_chunk(disk, chunk as u32, ((first / BLOCK) as u32, (n / BLOCK) as u32), data, at)?;
            at += n;
        }
        Ok(())
    }

    pub(super) fn write_chunk(
        &mut self,
        disk: &mut Disk,
        chunk: u32,
        part: (u32, u32),
        data: &Buf,
        at: u64,
    ) -> DiskResult {
        let (first, n) = part;
        self.drop_job_of(chunk);
        if self.maps.zones_of(chunk).data == NONE {
            let zone = self.take_random(disk)?;
            self.maps.map(chunk, ChunkZones { data: zone, buffer: NONE });
        }
        let ChunkZones { data: home, buffer } = self.maps.zones_of(chunk);
        let (to, other) = if self.layout.is_random(home) {
            (home, NONE)
        } else if self.pointers[home as usize] == first {
            // A write that the power cuts moves the pointer all the same (assumption).
            self.pointers[home as usize] = first + n;
            (home, buffer)
        } else if buffer != NONE {
            (buffer, home)
        } else {
            let zone = self.take_random(disk)?;
            self.maps.map(chunk, ChunkZones { data: home, buffer: zone });
            (zone, home)
        };
        disk.write(self.layout.place(to, first), u64::from(n) * BLOCK, Cause::Host, data, at)?;
        self.maps.need(disk, to, first, n)?;
        self.maps.set_valid(to, first, n, true);
        self.touch(to);
        if other != NONE {
            self.maps.need(disk, other, first, n)?;
            self.maps.set_valid(other, first, n, false);
            self.drop_empty(chunk);
        }
        Ok(())
    }

    /// Unmaps the zones of a chunk that hold nothing.
    pub(super) fn drop_empty(&mut self, chunk: u32) {
        let ChunkZones { data, buffer } = self.maps.zones_of(chunk);
        if buffer != NONE && self.maps.valid(buffer).count() == 0 {
            self.maps.map(chunk, ChunkZones { data, buffer: NONE });
            self.release(buffer);
        }
        if data != NONE && self.maps.valid(data).count() == 0 && self.maps.zones_of(chunk).buffer == NONE {
            self.maps.map(chunk, UNMAPPED);
            self.release(data);
        }
    }

    /// Reads sectors of a chunk; what is not valid is zeros, and takes no time.
    pub(super) fn read_chunk(
        &mut self,
        disk: &mut Disk,
        chunk: u32,
        part: (u64, u64),
        out: &mut Buf,
        at: u64,
    ) -> DiskResult {
        let (first, n) = part;
        let (mut sector, end) = (first, first + n);
        let end_block = end.div_ceil(BLOCK) as u32;
        for zone in self.maps.zones_of(chunk).each() {
            let block = (first / BLOCK) as u32;
            self.maps.need(disk, zone, block, end_block - block)?;
            self.touch(zone);
        }
        while sector < end {
            let block = (sector / BLOCK) as u32;
            let (zone, blocks) = self.maps.source(chunk, block, end_block);
            let stop = end.min(u64::from(block + blocks) * BLOCK);
            let (to, n) = (at + (sector - first), stop - sector);
            if zone == NONE {
                out.put(to, &disk.buf(n), 0, n)?;
            } else {
                disk.read(self.layout.place(zone, 0) + sector, n, Cause::Host, out, to)?;
            }
            sector = stop;
        }
        Ok(())
    }

    pub(super) fn read_sectors(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf, mut at: u64) -> DiskResult {
        for (chunk, first, n) in self.layout.zones.pieces(lba, n) {
            self.read_chunk(disk, chunk as u32, (first, n), out, at)?;
            at += n;
        }
        Ok(())
    }

    /// Writes sectors that are not whole blocks: the rest of the first and the last block is read before.
    pub(super) fn complete(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let (start, stop) = (lba.0 / BLOCK * BLOCK, (lba.0 + n).next_multiple_of(BLOCK));
        let mut whole = disk.buf(stop - start);
        if lba.0 > start {
            self.read_sectors(disk, Lba(start), BLOCK, &mut whole, 0)?;
        }
        if lba.0 + n < stop && (lba.0 == start || stop - start > BLOCK) {
            self.read_sectors(disk, Lba(stop - BLOCK), BLOCK, &mut whole, stop - BLOCK - start)?;
        }
        whole.put(lba.0 - start, data, 0, n)?;
        self.counts.completed_by_reading += 1;
        self.write_blocks(disk, Lba(start), stop - start, &whole)
    }
}
