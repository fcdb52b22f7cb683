//! S-blocks: Cassuto et al., "Indirection Systems for Shingled-Recording Disk Drives", MSST 2010, section V, definition 5
//! and algorithms V.1 to V.6.
//!
//! Sections, each with a cache buffer for single writes and an S-block buffer for native data, both circles with a guard.
//! An S-block is destaged by merging what the cache buffer holds of it and writing it to the other buffer's head.
//! The memory of the maps is counted; keeping them on the disk is left to the headers, which are read after a power cut.

mod cache;
mod check;
mod choose;
mod clean;
mod gather;
mod index;
mod keys;
mod layout;
mod record;
mod recover;
mod slots;
mod spare;
#[cfg(test)]
mod tests;
mod walk;
mod write;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{COUNT_MAX, Capacity, Gauge, Gauges, Layer, LayerKeys, LayerSpec, LayerStats, Need};
use crate::disk::Disk;
use crate::drive::Drive;
use crate::error::{DiskResult, Error};
use crate::extent_map::ExtentMap;
use crate::geometry::{Divisor, pieces_by_divisor};
use crate::medium::interference::Form;
use crate::medium::{Ascending, Buf, Placement};
use crate::state::{self, state};
use crate::tally::Cause;
use crate::units::{Lba, Nanos, Pba};
use cache::{CacheBuffer, HeaderEntry};
use gather::Gather;
use index::Largest;
use keys::{Rules, SBlockKeys};
use layout::SBlockLayout;
use record::{CacheHeader, HeaderKind};
use slots::{SlotBuffer, SlotPlaces};
use spare::CleaningFrequency;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<SBlockKeys>(
    "s-block",
    "A cache buffer and a buffer of movable S-blocks in each section, both circular logs; S-blocks are destaged one by one.",
    "Cassuto et al. 2010, section V",
    &Form::ALL,
);

impl LayerKeys for SBlockKeys {
    fn capacity(&self, drive: &Drive) -> Result<Capacity, Error> {
        Ok(SBlockLayout::new(drive, self)?.capacity)
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(SBlock::new(drive, self)?))
    }
}

/// The layer. S-blocks are numbered through over all sections, or within their section as `u32`.
struct SBlock {
    layout: SBlockLayout,
    rules: Rules,
    /// Sectors of an S-block.
    size: Divisor,
    /// Host sectors of a section.
    section_size: Divisor,
    caches: Vec<CacheBuffer>,
    slots: Vec<SlotBuffer>,
    /// Places of cached sectors.
    map: ExtentMap,
    /// Cached sectors of each S-block that are valid.
    cached: Vec<u32>,
    /// Cached sectors of S-blocks by section, where the policy asks for the largest.
    largest: Vec<Largest>,
    /// The number of the next write, and of the last one of the requests completed.
    number: u64,
    done: u64,
    idle_delay: Option<Nanos>,
    pace: CleaningFrequency,
    /// Recoveries so far.
    epoch: u64,
    sblock_buf: Buf,
    run_buf: Buf,
    counts: SBlockCounts,
}

#[derive(Default, Serialize, Deserialize)]
struct SBlockCounts {
    destages: u64,
    /// S-blocks that stood at the tail and were copied to the head.
    sblocks_moved: u64,
    runs_copied: u64,
    run_sectors: u64,
    bypassed: u64,
    first_cleaning_request: Option<u64>,
}

state! {
    SBlock {
        parts: caches, slots, largest;
        sized: cached;
        values: map, number, done, pace, epoch, counts;
        built: layout, rules, size, section_size, idle_delay, sblock_buf, run_buf;
    }
}

impl SBlock {
    fn new(drive: &Drive, keys: &SBlockKeys) -> Result<SBlock, Error> {
        let layout = SBlockLayout::new(drive, keys)?;
        let rules = Rules::new(keys);
        let (natives, sections) = (layout.natives as usize, layout.starts.len());
        let trees = if rules.needs_largest() { sections } else { 0 };
        Ok(SBlock {
            rules,
            size: Divisor::new(layout.sblock_sectors),
            section_size: Divisor::new(layout.natives * layout.sblock_sectors),
            caches: layout.starts.iter().map(|start| CacheBuffer::new(start.0, &layout)).collect(),
            slots: layout.starts.iter().map(|start| SlotBuffer::new(start.1, &layout)).collect(),
            map: ExtentMap::new(),
            cached: vec![0; natives * sections],
            largest: (0..trees).map(|_| Largest::new(natives)).collect(),
            number: 1,
            done: 0,
            idle_delay: keys.idle.delay(),
            pace: CleaningFrequency::default(),
            epoch: 0,
            sblock_buf: Buf::NoData,
            run_buf: Buf::NoData,
            counts: SBlockCounts::default(),
            layout,
        })
    }

    /// True if a restored state names S-blocks, slots and LBAs that there are.
    fn is_possible(&self) -> bool {
        let section = |number: usize| {
            let first = number as u64 * self.section_size.value();
            first..(first + self.section_size.value()).min(self.layout.capacity.host_sectors)
        };
        let caches = self.caches.iter().enumerate().all(|(number, cache)| cache.is_possible(&section(number)));
        let cached = self.cached.iter().all(|&cached| u64::from(cached) <= self.size.value());
        let counts = [self.number, self.done, self.epoch].iter().all(|&count| count < COUNT_MAX);
        caches && cached && counts && self.slots.iter().all(SlotBuffer::is_possible)
    }

    /// The section of an LBA.
    #[inline]
    fn section(&self, lba: Lba) -> usize {
        self.section_size.quotient(lba.0) as usize
    }

    /// Section, number in it, and first LBA of an S-block.
    fn of_sblock(&self, sblock: u64) -> (usize, u32, Lba) {
        let first = Lba(sblock * self.size.value());
        let section = self.section(first);
        (section, (sblock - section as u64 * self.layout.natives) as u32, first)
    }

    /// Place of a sector in the S-block buffers.
    fn native(&self, lba: Lba) -> Pba {
        let (sblock, offset) = self.size.divide(lba.0);
        let (section, local, _) = self.of_sblock(sblock);
        self.slots[section].place(local) + offset
    }

    /// More sectors of an S-block are valid in the cache buffer (fewer, where negative).
    #[inline]
    fn count_cached(&mut self, section: usize, sblock: u64, change: i64) {
        let local = (sblock - section as u64 * self.layout.natives) as u32;
        let cached = &mut self.cached[sblock as usize];
        let was = std::mem::replace(cached, (i64::from(*cached) + change) as u32);
        let cache = &mut self.caches[section];
        cache.valid = (cache.valid as i64 + change) as u64;
        if (was == 0) != (*cached == 0) {
            self.slots[section].mark_cached(local, *cached > 0);
        }
        if let Some(largest) = self.largest.get_mut(section) {
            largest.set(local as usize, *cached);
        }
    }

    /// Forgets what is cached of some sectors.
    fn forget(&mut self, lba: Lba, n: u64) {
        let mapped: Vec<(Lba, u64)> = self.map.mapped(lba, n).map(|(lba, n, _)| (lba, n)).collect();
        for (lba, n) in mapped {
            for (sblock, _, count) in pieces_by_divisor(lba.0, n, self.size) {
                let section = self.of_sblock(sblock).0;
                self.count_cached(section, sblock, -(count as i64));
            }
        }
        self.map.remove(lba, n);
    }

    /// The first LBA of an entry at a position that is still valid there.
    fn first_valid(&self, section: usize, position: u64, entry: HeaderEntry) -> Option<Lba> {
        self.valid_parts(section, position, entry).next().map(|(lba, _)| lba)
    }

    /// The parts of an entry at a position that are still valid there.
    fn valid_parts(&self, section: usize, position: u64, entry: HeaderEntry) -> impl Iterator<Item = (Lba, u64)> + '_ {
        let (cache, lba) = (&self.caches[section], entry.lba());
        let sectors = if entry.is_void() { 0 } else { entry.sectors() };
        let here = move |&(l, _, pba): &(Lba, u64, _)| pba == cache.pba(position + 1 + (l - lba));
        self.map.mapped(lba, sectors).filter(here).map(|(l, n, _)| (l, n))
    }

    /// A header with the next number, for `sectors` sectors of `data` from `at` on.
    fn header(
        &mut self,
        kind: HeaderKind,
        what: u64,
        sectors: u64,
        part: (u64, u64),
        data: &Buf,
        at: u64,
    ) -> DiskResult<CacheHeader> {
        let header = CacheHeader::new(kind, self.number, what, sectors);
        self.number += 1;
        let digest = if kind == HeaderKind::Entry { data.digest(at, sectors)? } else { 0 };
        Ok(CacheHeader { epoch: self.epoch, done: self.done, part, digest, ..header })
    }
}

impl Layer for SBlock {
    fn capacity(&self) -> Capacity {
        self.layout.capacity
    }

    /// Algorithm V.6, for runs of sectors.
    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        let mut gather = Gather::new(Cause::Host);
        for piece in self.map.pieces(lba, n) {
            let at = piece.lba - lba;
            if let Some(pba) = piece.pba {
                gather.read(disk, pba, piece.sectors, out, at)?;
                continue;
            }
            let mut done = 0;
            for (_, offset, count) in pieces_by_divisor(piece.lba.0, piece.sectors, self.size) {
                debug_assert!(offset + count <= self.size.value());
                gather.read(disk, self.native(piece.lba + done), count, out, at + done)?;
                done += count;
            }
        }
        gather.finish(disk, out)
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        if self.is_one_entry(lba, n) {
            self.write_entry(disk, lba, n, data)
        } else {
            self.write_parts(disk, lba, n, data)
        }
    }

    /// Drops what is cached; its room comes back when the tail gets there.
    fn discard(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        self.forget(lba, n);
        let mut at = lba;
        for (_, _, count) in pieces_by_divisor(lba.0, n, self.size) {
            disk.discard(self.native(at), count)?;
            at += count;
        }
        Ok(())
    }

    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        if need == Need::Spare { self.clean_idly(disk) } else { Ok(false) }
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.idle_delay
    }

    /// S-blocks lie in order, as on an empty disk, and in slots without headers: what was never written again.
    fn fill(&mut self) -> Arc<dyn Placement> {
        let (size, section_size) = (self.size, self.section_size);
        let sections: Vec<SlotPlaces> = self.slots.iter().map(SlotBuffer::places).collect();
        Arc::new(Ascending::new(self.layout.capacity.host_sectors, move |lba| {
            let (section, in_section) = section_size.divide(lba.0);
            let (sblock, offset) = size.divide(in_section);
            sections[section as usize].data_start(sblock) + offset
        }))
    }

    fn keeps_acknowledged(&self) -> bool {
        true
    }

    fn recover(&mut self, disk: &mut Disk) -> DiskResult {
        self.restore(disk)
    }

    /// The maps survive (assumption: headers tell of everything). What the torn write left must not be written again next to live
    /// sectors where that wears them.
    fn power_cut(&mut self) -> bool {
        self.caches.iter_mut().for_each(CacheBuffer::power_cut);
        self.slots.iter_mut().for_each(SlotBuffer::power_cut);
        true
    }

    fn state(&self) -> Vec<u8> {
        state::saved(self)
    }

    fn restore(&mut self, saved: &[u8]) -> DiskResult {
        state::load(self, saved)?;
        state::possible(self.is_possible())
    }

    fn locate(&self, lba: Lba) -> Pba {
        self.map.get(lba).unwrap_or_else(|| self.native(lba))
    }

    fn check(&self, _disk: &Disk) -> DiskResult {
        self.check_books()
    }

    fn map_bytes(&self) -> u64 {
        let caches: u64 = self.caches.iter().map(CacheBuffer::bytes).sum();
        let slots: u64 = self.slots.iter().map(SlotBuffer::bytes).sum();
        let largest: u64 = self.largest.iter().map(Largest::bytes).sum();
        self.map.bytes() + caches + slots + largest + self.cached.len() as u64 * 4
    }

    fn gauges(&self) -> Gauges {
        let sum = |of: fn(&CacheBuffer) -> u64| self.caches.iter().map(of).sum::<u64>() as f64;
        let room = (self.layout.limit * self.caches.len() as u64) as f64;
        let spare: u64 = self.slots.iter().map(SlotBuffer::spare).sum();
        // Long entries have fewer headers than the room that is kept for them.
        let invalid = sum(CacheBuffer::invalid) / self.layout.capacity.cache_sectors as f64;
        Gauges {
            cache_fill: Some((sum(|cache| cache.held) / room).min(1.0)),
            others: vec![
                Gauge::share("invalid_share", invalid.min(1.0)),
                Gauge::count("spare_sblocks", spare as f64),
                Gauge::bytes("map_bytes", self.map_bytes()),
            ],
        }
    }

    fn stats(&self) -> LayerStats {
        let counts = &self.counts;
        let named = [
            ("destages", counts.destages),
            ("sblocks_moved", counts.sblocks_moved),
            ("runs_copied", counts.runs_copied),
            ("run_sectors", counts.run_sectors),
            ("bypassed", counts.bypassed),
        ];
        LayerStats::new(named, counts.first_cleaning_request)
    }

    fn bands_moved(&self) -> u64 {
        self.counts.sblocks_moved
    }

    fn reset_stats(&mut self) {
        self.counts = SBlockCounts::default();
    }
}
