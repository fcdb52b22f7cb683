//! Reads and writes of chunks.

use super::{BLOCK, ChunkZones, DmZoned, NONE, UNMAPPED};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::Lba;

impl DmZoned {
    /// Writes whole blocks.
    pub(super) fn write_blocks(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut at = 0;
        for (chunk, first, n) in self.layout.pieces(lba, n) {
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
        if self.chunks[chunk as usize].data == NONE {
            let zone = self.take_random(disk)?;
            self.map(chunk, ChunkZones { data: zone, buffer: NONE });
        }
        let ChunkZones { data: home, buffer } = self.chunks[chunk as usize];
        let (to, other) = if self.is_random(home) {
            (home, NONE)
        } else if self.pointers[home as usize] == first {
            // A write that the power cuts moves the pointer all the same (assumption).
            self.pointers[home as usize] = first + n;
            (home, buffer)
        } else if buffer != NONE {
            (buffer, home)
        } else {
            let zone = self.take_random(disk)?;
            self.map(chunk, ChunkZones { data: home, buffer: zone });
            (zone, home)
        };
        disk.write(self.place(to, first), u64::from(n) * BLOCK, Cause::Host, data, at)?;
        self.metadata.need(disk, to, first, n)?;
        self.set_valid(to, first, n, true);
        self.touch(to);
        if other != NONE {
            self.metadata.need(disk, other, first, n)?;
            self.set_valid(other, first, n, false);
            self.drop_empty(chunk);
        }
        Ok(())
    }

    /// Unmaps the zones of a chunk that hold nothing.
    pub(super) fn drop_empty(&mut self, chunk: u32) {
        let ChunkZones { data, buffer } = self.chunks[chunk as usize];
        if buffer != NONE && self.valid[buffer as usize].count() == 0 {
            self.map(chunk, ChunkZones { data, buffer: NONE });
            self.release(buffer);
        }
        if data != NONE && self.valid[data as usize].count() == 0 && self.chunks[chunk as usize].buffer == NONE {
            self.map(chunk, UNMAPPED);
            self.release(data);
        }
    }

    /// The zone where a chunk's block is valid, and how many blocks from it on, up to `end`, lie there too.
    #[inline]
    pub(super) fn source(&self, chunk: u32, block: u32, end: u32) -> (u32, u32) {
        let ChunkZones { data, buffer } = self.chunks[chunk as usize];
        let (mut n, mut from) = (end - block, NONE);
        for zone in [data, buffer] {
            if zone != NONE {
                let (valid, run) = self.valid[zone as usize].run(block, block + n);
                n = run;
                from = zone;
                if valid {
                    return (from, n);
                }
                from = NONE;
            }
        }
        (from, n)
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
        let ChunkZones { data, buffer } = self.chunks[chunk as usize];
        for zone in [data, buffer] {
            if zone != NONE {
                let block = (first / BLOCK) as u32;
                self.metadata.need(disk, zone, block, end_block - block)?;
                self.touch(zone);
            }
        }
        while sector < end {
            let block = (sector / BLOCK) as u32;
            let (zone, blocks) = self.source(chunk, block, end_block);
            let stop = end.min(u64::from(block + blocks) * BLOCK);
            let (to, n) = (at + (sector - first), stop - sector);
            if zone == NONE {
                out.put(to, &disk.buf(n), 0, n)?;
            } else {
                disk.read(self.place(zone, 0) + sector, n, Cause::Host, out, to)?;
            }
            sector = stop;
        }
        Ok(())
    }

    pub(super) fn read_sectors(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf, mut at: u64) -> DiskResult {
        for (chunk, first, n) in self.layout.pieces(lba, n) {
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
