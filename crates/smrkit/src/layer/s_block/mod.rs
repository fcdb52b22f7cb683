//! S-blocks: Cassuto et al., "Indirection Systems for Shingled-Recording Disk Drives", MSST 2010, section V, definition 5
//! and algorithms V.1 to V.6.
//!
//! The disk is divided into sections, each with a cache buffer for single writes and an S-block buffer for native data, both circular and
//! with a guard. Destaging merges the cached sectors of an S-block into it, and writes it to the head of the S-block buffer. The memory of
//! the maps is counted; on the disk, the headers hold them.

mod cache;
mod clean;
mod keys;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use smallvec::SmallVec;

use crate::extent_map::ExtentMap;
use crate::geometry::{Divisor, pieces_by_divisor};
use crate::layer::prelude::*;
use cache::{CacheBuffer, HeaderEntry, Largest, NONE, SlotBuffer, SlotPlaces};
use clean::CleaningFrequency;
use keys::{Rules, SBlockKeys, SBlockLayout};

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

/// The layer. A `u64` numbers S-blocks across all sections, a `u32` within their section.
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
    /// Cached sectors of S-blocks by section, if the policy needs the largest.
    largest: Vec<Largest>,
    idle_delay: Option<Nanos>,
    pace: CleaningFrequency,
    counts: SBlockCounts,
}

counts! {
    SBlockCounts {
        destages,
        /// S-blocks that stood at the tail and were copied to the head.
        sblocks_moved,
        runs_copied,
        run_sectors,
        bypassed
    }
}

state! {
    SBlock {
        parts: caches, slots, largest;
        sized: cached;
        values: map, pace, counts;
        built: layout, rules, size, section_size, idle_delay;
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
            caches: layout.starts.iter().map(|&(cache, _)| CacheBuffer::new(cache, &layout)).collect(),
            slots: layout.starts.iter().map(|&(_, slots)| SlotBuffer::new(slots, &layout)).collect(),
            map: ExtentMap::new(),
            cached: vec![0; natives * sections],
            largest: (0..trees).map(|_| Largest::new(natives)).collect(),
            idle_delay: keys.idle.delay(),
            pace: CleaningFrequency::default(),
            counts: SBlockCounts::default(),
            layout,
        })
    }

    #[inline]
    fn section(&self, lba: Lba) -> usize {
        self.section_size.quotient(lba.0) as usize
    }

    /// Returns an S-block's section, its number there, and its first LBA.
    fn of_sblock(&self, sblock: u64) -> (usize, u32, Lba) {
        let first = Lba(sblock * self.size.value);
        let section = self.section(first);
        (section, (sblock - section as u64 * self.layout.natives) as u32, first)
    }

    /// Returns the PBA of a sector in its S-block buffer, whether or not a newer version is cached.
    fn native(&self, lba: Lba) -> Pba {
        let (sblock, offset) = self.size.divide(lba.0);
        let (section, local, _) = self.of_sblock(sblock);
        self.slots[section].place(local) + offset
    }

    /// Adds `change` to the number of an S-block's sectors that are valid in the cache buffer.
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

    /// Invalidates cached sectors.
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

    /// The first LBA of the entry at `position` that the map still finds there.
    fn first_valid(&self, section: usize, position: u64, entry: HeaderEntry) -> Option<Lba> {
        self.valid_parts(section, position, entry).next().map(|(lba, _)| lba)
    }

    /// The parts of the entry at `position` that are valid, because the map still finds them there.
    fn valid_parts(&self, section: usize, position: u64, entry: HeaderEntry) -> impl Iterator<Item = (Lba, u64)> + '_ {
        let (cache, lba) = (&self.caches[section], entry.lba());
        let sectors = if entry.is_void() { 0 } else { entry.sectors() };
        let here = move |&(l, _, pba): &(Lba, u64, _)| pba == cache.pba(position + 1 + (l - lba));
        self.map.mapped(lba, sectors).filter(here).map(|(l, n, _)| (l, n))
    }

    /// Checks a cache buffer against the map; returns its valid sectors.
    fn check_cache(&self, section: usize) -> DiskResult<u64> {
        let cache = &self.caches[section];
        let wrong = |what: &str| inconsistent(format!("cache buffer {section}: {what}")).map(|()| 0);
        let (mut position, mut valid, mut held, mut data) = (cache.tail, 0, 0, 0);
        for &entry in &cache.entries {
            valid += self.valid_parts(section, position, entry).map(|(_, n)| n).sum::<u64>();
            position += entry.length();
            held += if entry.is_void() { 0 } else { entry.length() };
            data += if entry.is_void() { 0 } else { entry.sectors() };
        }
        if position != cache.head {
            return wrong(&format!("its entries end at {position}, its head is {}", cache.head));
        }
        if (valid, held, data) != (cache.valid, cache.held, cache.data) {
            return wrong("the sums of its entries are wrong");
        }
        // The page of the newest sector and the guard pages after it must end before the tail's page, which comes round again a lap later.
        let payload = cache.payload.value;
        let last = cache.head.max(1) - 1;
        if last / payload + self.layout.guard_pages >= cache.tail / payload + cache.pages.value {
            return wrong(&format!("its head {} has come too near to its tail {}", cache.head, cache.tail));
        }
        Ok(valid)
    }

    fn check_slots(&self, section: usize) -> DiskResult {
        let slots = &self.slots[section];
        let wrong = |what: String| inconsistent(format!("S-block buffer {section}: {what}"));
        let used = slots.used() + self.layout.guard_slots;
        if used > slots.slots() {
            return wrong(format!("{} slots are in use of {}, without a guard", slots.used(), slots.slots()));
        }
        if !slots.knows_invalid() {
            return wrong("it is not known which slots hold nothing valid".into());
        }
        let owners = slots.owner.iter().filter(|&&owner| owner != NONE).count();
        if owners != slots.slot_of.len() {
            return wrong(format!("{owners} slots have owners, of {} S-blocks", slots.slot_of.len()));
        }
        for (sblock, &slot) in slots.slot_of.iter().enumerate() {
            let number = section as u64 * self.layout.natives + sblock as u64;
            let size = self.size.value;
            let cached: u64 = self.map.mapped(Lba(number * size), size).map(|(_, n, _)| n).sum();
            if slots.owner[slot as usize] != sblock as u32 {
                return wrong(format!("S-block {sblock} is not the owner of its slot {slot}"));
            }
            if slots.distance(u64::from(slot)) >= slots.used() {
                return wrong(format!("S-block {sblock} lies in slot {slot}, which is not in use"));
            }
            if cached != u64::from(self.cached[number as usize])
                || slots.cached.contains(u64::from(slot)) != (cached > 0)
            {
                return wrong(format!("S-block {sblock} has {cached} sectors cached, not as many as counted"));
            }
            if self.largest.get(section).is_some_and(|largest| u64::from(largest.value(sblock)) != cached) {
                return wrong(format!("S-block {sblock} stands at a wrong place among the largest"));
            }
        }
        let mut bits = 0;
        while let Some(slot) = slots.cached.next(bits) {
            if slots.owner.get(slot as usize).is_none_or(|&owner| owner == NONE) {
                return wrong(format!("slot {slot} is marked as cached and has no S-block"));
            }
            bits = slot + 1;
        }
        Ok(())
    }
}

/// The most sectors between two pieces that are read in one access: an entry's header and a page's record.
const THROUGH_SECTORS: u64 = 2;

/// Reads pieces that lie close together in one access, which includes the headers and page records between them. Pieces are held back until
/// one follows that is farther away, or until `finish`.
struct Gather {
    cause: Cause,
    /// The pieces held back lie in `from..to`.
    from: Pba,
    to: Pba,
    /// First PBA, sectors, and the sector of `out` that the first one goes to.
    pieces: SmallVec<[(Pba, u64, u64); 4]>,
}

impl Gather {
    fn new(cause: Cause) -> Gather {
        Gather { cause, from: Pba(0), to: Pba(0), pieces: SmallVec::new() }
    }

    /// Adds a read of `n` sectors from `pba` into `out` from sector `at` on.
    #[inline]
    fn read(&mut self, disk: &mut Disk, pba: Pba, n: u64, out: &mut Buf, at: u64) -> DiskResult {
        let close = !self.pieces.is_empty() && pba >= self.to && pba - self.to <= THROUGH_SECTORS;
        if !close {
            self.finish(disk, out)?;
            self.from = pba;
        }
        self.to = pba + n;
        self.pieces.push((pba, n, at));
        Ok(())
    }

    /// Reads the pieces held back.
    #[inline]
    fn finish(&mut self, disk: &mut Disk, out: &mut Buf) -> DiskResult {
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

impl Layer for SBlock {
    fn capacity(&self) -> Capacity {
        self.layout.capacity
    }

    /// Reads what is mapped from the cache buffer, and the rest from the S-block buffer (algorithm V.6, by runs instead of sectors).
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
                debug_assert!(offset + count <= self.size.value);
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

    /// Invalidates cached sectors. Their space is released when the tail gets there.
    fn discard(&mut self, _disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        self.forget(lba, n);
        Ok(())
    }

    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        if need == Need::Spare { self.clean_idly(disk) } else { Ok(false) }
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.idle_delay
    }

    /// Places S-block n of a section in its slot n, as on an empty disk. Slot headers hold no LBA, so nothing is placed there.
    fn fill(&mut self) -> Arc<dyn Placement> {
        let (size, section_size) = (self.size, self.section_size);
        let sections: Vec<SlotPlaces> = self.slots.iter().map(|slots| slots.places).collect();
        Arc::new(Ascending::new(self.layout.capacity.host_sectors, move |lba| {
            let (section, in_section) = section_size.divide(lba.0);
            let (sblock, offset) = size.divide(in_section);
            sections[section as usize].data_start(sblock) + offset
        }))
    }

    fn keeps_acknowledged(&self) -> bool {
        true
    }

    /// The maps survive (assumption: headers hold all of them). If rewriting a sector may damage sectors upstream (DPID), the sectors of the
    /// torn write are not written again.
    fn power_cut(&mut self) {
        self.caches.iter_mut().for_each(CacheBuffer::power_cut);
        self.slots.iter_mut().for_each(SlotBuffer::power_cut);
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        self.map.get(lba).unwrap_or_else(|| self.native(lba))
    }

    /// Checks the map against entries, slots and counters.
    fn check(&self) -> DiskResult {
        let mut valid = 0;
        for section in 0..self.caches.len() {
            valid += self.check_cache(section)?;
            self.check_slots(section)?;
        }
        let mapped: u64 = self.map.mapped(Lba(0), self.layout.capacity.host_sectors).map(|(_, n, _)| n).sum();
        match mapped == valid {
            true => Ok(()),
            false => inconsistent(format!("{mapped} sectors are mapped, and {valid} lie in entries")),
        }
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
        // Can exceed 1: the capacity allows for more headers than long entries have.
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

    layer_counts!();

    fn bands_moved(&self) -> u64 {
        self.counts.sblocks_moved
    }
}
