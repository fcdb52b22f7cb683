//! S-blocks: Cassuto et al., "Indirection Systems for Shingled-Recording Disk Drives", MSST 2010, section V, definition 5
//! and algorithms V.1 to V.6.
//!
//! The disk is divided into sections, each with a cache buffer for single writes and an S-block buffer for native data, both circular and
//! with a guard. Destaging merges the cached sectors of an S-block into it, and writes it to the head of the S-block buffer. The memory of
//! the maps is counted; on the disk, the headers hold them.
//!
//! # Layout
//!
//! Sections follow each other, each with a cache buffer, an S-block buffer, and the drive's guard after both. Space that the paper does not
//! count (headers, reserves for copying, guards inside the circular buffers) comes on top of its percentages.

mod cache;
mod clean;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::interface::{IdleKeys, check_tables};
use super::runs::{Gather, LoggedRun};
use crate::extent_map::ExtentMap;
use crate::geometry::{Divisor, Geometry, Guard, pieces_by_divisor};
use crate::layer::prelude::*;
use crate::medium::interference::Interference;
use crate::schema::Word;
use cache::{CacheBuffer, Largest, NONE, SlotBuffer, SlotPlaces, length_of};
use clean::CleaningFrequency;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<SBlockKeys>(
    "s-block",
    "A cache buffer and a buffer of movable S-blocks in each section, both circular logs; S-blocks are destaged one by one.",
    "Cassuto et al. 2010, section V",
    &Form::ALL,
);

keys! {
    #[derive(Clone)]
    struct SBlockKeys {
        /// Number of sectors in an S-block.
        pub sblock_sectors: u64 = Count(8, 1 << 20), "2000";
        /// Share of the disk for cached data; the space for headers and for copying is added to it.
        pub cache_percent: f64 = percent(0.001, 50.0), "1";
        /// Share of the disk for spare S-blocks.
        pub spare_percent: f64 = percent(0.001, 50.0), "1";
        /// Number of sections, which are ranges of LBAs with buffers of their own.
        pub sections: u64 = Count(1, 100_000), "1";
        /// Which S-block is destaged: the one nearest the tail of the S-block buffer (closest-to-tail), the one with
        /// the most cached sectors (largest), the one with the oldest cached sectors (cache-tail), or the best by these
        /// three criteria with equal weights (weighted).
        policy: DestagePolicy = DestagePolicy::WORDS, "closest-to-tail";
        /// When a write that finds no space destages S-blocks: while too little of the cache buffer is invalid (ahead),
        /// or only when nothing is invalid (literal, as in algorithm V.2).
        rule: bool = Word(&[("ahead", false), ("literal", true)]), "ahead";
        /// With `rule=ahead`, the share of the cache buffer that should be invalid.
        destage_ahead_percent: f64 = percent(0.0, 50.0), "1";
        /// With `rule=ahead`, the number of S-blocks that one write destages.
        destage_at_once: u64 = Count(1, 10_000), "1";
        /// How valid entries are moved from the cache buffer's tail to its head: a run at a time, with one read and one
        /// write (runs), or entry by entry (entries).
        copy: bool = Word(&[("runs", false), ("entries", true)]), "runs";
        /// When valid S-blocks are moved from the tail of the S-block buffer to its head: some with each write that
        /// cleans (spread), or as many as needed once the buffer is full (literal, as in algorithm V.5).
        moves: bool = Word(&[("spread", false), ("literal", true)]), "spread";
        /// Whether writes of whole S-blocks go directly to the S-block buffer.
        bypass: bool = Switch, "on";
        /// Idle time.
        pub idle: IdleKeys;
    }
}

words! {
    /// Policy by which an S-block is destaged.
    pub enum DestagePolicy {
        ClosestToTail = "closest-to-tail",
        Largest = "largest",
        CacheTail = "cache-tail",
        /// By the three, weighted alike.
        Weighted = "weighted",
    }
}

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
    keys: SBlockKeys,
    /// Follows algorithm V.2 literally: destages only when nothing in the cache buffer is invalid.
    is_literal: bool,
    copies_singly: bool,
    /// Follows algorithm V.5 literally: the tail of an S-block buffer advances only when the buffer is full.
    moves_when_full: bool,
    layout: SBlockLayout,
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
        built: keys, is_literal, copies_singly, moves_when_full, layout, size, section_size, idle_delay;
    }
}

impl SBlock {
    fn new(drive: &Drive, keys: &SBlockKeys) -> Result<SBlock, Error> {
        let layout = SBlockLayout::new(drive, keys)?;
        let (natives, sections) = (layout.natives as usize, layout.starts.len());
        // Only these policies have to know the S-block with the most cached sectors at any time.
        let needs_largest = matches!(keys.policy, DestagePolicy::Largest | DestagePolicy::Weighted);
        let trees = if needs_largest { sections } else { 0 };
        Ok(SBlock {
            keys: keys.clone(),
            is_literal: keys.rule,
            copies_singly: keys.copy,
            moves_when_full: keys.moves,
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

    fn section(&self, lba: Lba) -> usize {
        self.section_size.quotient(lba.0) as usize
    }

    /// Returns the PBA of a sector in its S-block buffer, whether or not a newer version is cached.
    fn native(&self, lba: Lba) -> Pba {
        let (sblock, offset) = self.size.divide(lba.0);
        let section = self.section(lba);
        self.slots[section].place((sblock - section as u64 * self.layout.natives) as u32) + offset
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
                let section = self.section(Lba(sblock * self.size.value));
                self.count_cached(section, sblock, -(count as i64));
            }
        }
        self.map.remove(lba, n);
    }

    /// The first LBA of the entry at `position` that the map still finds there.
    fn first_valid(&self, section: usize, position: u64, entry: LoggedRun) -> Option<Lba> {
        self.valid_parts(section, position, entry).next().map(|(lba, _)| lba)
    }

    /// The parts of the entry at `position` that are valid, because the map still finds them there.
    fn valid_parts(&self, section: usize, position: u64, entry: LoggedRun) -> impl Iterator<Item = (Lba, u64)> + '_ {
        let cache = &self.caches[section];
        // Skipped sectors have no LBA, and none of them is valid.
        let (first, sectors) = entry.lba().map_or((Lba(0), 0), |lba| (lba, entry.sectors()));
        // The entry's header takes its first sector.
        let is_here = move |&(lba, _, pba): &(Lba, u64, Pba)| pba == cache.pba(position + 1 + (lba - first));
        self.map.mapped(first, sectors).filter(is_here).map(|(lba, n, _)| (lba, n))
    }

    /// Checks a cache buffer against the map; returns its valid sectors.
    fn check_cache(&self, section: usize) -> DiskResult<u64> {
        let cache = &self.caches[section];
        let (mut position, mut valid, mut entry_sectors, mut data) = (cache.tail, 0, 0, 0);
        for &entry in &cache.entries {
            valid += self.valid_parts(section, position, entry).map(|(_, n)| n).sum::<u64>();
            position += length_of(entry);
            if entry.lba().is_some() {
                entry_sectors += length_of(entry);
                data += entry.sectors();
            }
        }
        let CacheBuffer { head, tail, .. } = *cache;
        ensure!(position == head, "cache buffer {section}: its entries end at {position}, its head is {head}");
        let agrees = (valid, entry_sectors, data) == (cache.valid, cache.entry_sectors, cache.data);
        ensure!(agrees, "cache buffer {section}: the sums of its entries are wrong");
        // The page of the newest sector and the guard pages after it must end before the tail's page, which comes round again a lap later.
        let payload = cache.payload.value;
        let keeps_guard = (head.max(1) - 1) / payload + self.layout.guard_pages < tail / payload + cache.pages.value;
        ensure!(keeps_guard, "cache buffer {section}: its head {head} has come too near to its tail {tail}");
        Ok(valid)
    }

    fn check_slots(&self, section: usize) -> DiskResult {
        let slots = &self.slots[section];
        let buffer = format!("S-block buffer {section}");
        // The buffer as a ring.
        ensure!(
            slots.used() + self.layout.guard_slots <= slots.slots(),
            "{buffer}: {} slots are in use of {}, without a guard",
            slots.used(),
            slots.slots()
        );
        let is_invalid = |slot: u64| slots.distance(slot) < slots.used() && slots.is_unowned(slot);
        let knows_invalid = (0..slots.slots()).all(|slot| slots.invalid.contains(slot) == is_invalid(slot));
        ensure!(knows_invalid, "{buffer}: it is not known which slots hold nothing valid");
        let owners = slots.owner.iter().filter(|&&owner| owner != NONE).count();
        let sblocks = slots.slot_of.len();
        ensure!(owners == sblocks, "{buffer}: {owners} slots have owners, of {sblocks} S-blocks");
        // Each S-block: its slot, and what is counted of it.
        for (sblock, &slot) in slots.slot_of.iter().enumerate() {
            let number = section as u64 * self.layout.natives + sblock as u64;
            let size = self.size.value;
            let cached: u64 = self.map.mapped(Lba(number * size), size).map(|(_, n, _)| n).sum();
            let is_owner = slots.owner[slot as usize] == sblock as u32;
            ensure!(is_owner, "{buffer}: S-block {sblock} is not the owner of its slot {slot}");
            let is_in_use = slots.distance(u64::from(slot)) < slots.used();
            ensure!(is_in_use, "{buffer}: S-block {sblock} lies in slot {slot}, which is not in use");
            let is_counted = cached == u64::from(self.cached[number as usize])
                && slots.cached.contains(u64::from(slot)) == (cached > 0);
            ensure!(is_counted, "{buffer}: S-block {sblock} has {cached} sectors cached, not as many as counted");
            let is_ranked = self.largest.get(section).is_none_or(|all| u64::from(all.value(sblock)) == cached);
            ensure!(is_ranked, "{buffer}: S-block {sblock} stands at a wrong place among the largest");
        }
        // The index of slots with cached data.
        let mut from = 0;
        while let Some(slot) = slots.cached.next(from) {
            let is_owned = slots.owner.get(slot as usize).is_some_and(|&owner| owner != NONE);
            ensure!(is_owned, "{buffer}: slot {slot} is marked as cached and has no S-block");
            from = slot + 1;
        }
        Ok(())
    }
}

/// The most sectors between two pieces that are read in one access: an entry's header and a page's record.
const THROUGH_SECTORS: u64 = 2;

/// Sectors of the smallest cache buffer, so that usual requests (256 KiB) fit whole (assumption).
const CACHE_LEAST_SECTORS: u64 = 512;
/// The header space allows for one header per this many cached sectors (4 KB, as in the paper); smaller writes fill the buffer sooner
/// (assumption).
const ENTRY_SECTORS: u64 = 8;
/// The largest page of a cache buffer, the unit in which it is released (assumption).
const PAGE_SECTORS_MAX: u64 = 1024;
/// The largest reserve for copying runs, of which one copy takes a quarter: 8 MB (assumption: a drive's memory).
const RESERVE_SECTORS_MAX: u64 = 65_536;
const RESERVE_SECTORS_MIN: u64 = 256;
/// Bytes of memory for an S-block: its slot, the slot's owner, its cached sectors, and its place in the tree of the largest.
const SBLOCK_TABLE_BYTES: u64 = 24;
/// Slots beyond the spare ones: one for a new S-block, one for a copy, one torn by a power cut.
const SLOTS_KEPT: u64 = 3;
/// Bounds of the slots kept besides for torn writes, else a quarter of all. They are needed where rewriting a sector may damage sectors
/// upstream (DPID), because each power cut then costs a slot until the tail passes it.
const SLOTS_KEPT_UPSTREAM_MIN: u64 = 8;
const SLOTS_KEPT_UPSTREAM_MAX: u64 = 64;

/// Sizes of the sections, and where each begins.
struct SBlockLayout {
    pub sblock_sectors: u64,
    /// S-blocks of each section.
    pub natives: u64,
    /// Spare S-blocks of each section.
    pub spares: u64,
    /// Slots of each section's S-block buffer.
    pub slots: u64,
    /// Slots that a write may damage downstream.
    pub guard_slots: u64,
    /// Sectors of a page of the cache buffer, including its record.
    pub page_sectors: u64,
    /// Pages of each cache buffer.
    pub pages: u64,
    /// Pages that a write may damage downstream.
    pub guard_pages: u64,
    /// The most sectors that entries of a cache buffer take, with headers.
    pub limit: u64,
    /// Sectors of a cache buffer beyond the limit, for copying.
    pub reserve: u64,
    /// True if rewriting a sector may damage sectors upstream of it (DPID).
    pub damages_upstream: bool,
    /// Where each section's cache buffer and S-block buffer begin.
    pub starts: Vec<(Pba, Pba)>,
    pub capacity: Capacity,
}

impl SBlockLayout {
    /// A layout with the most S-blocks that fit. Errors name what is too small, and the parameter to change.
    pub fn new(drive: &Drive, keys: &SBlockKeys) -> Result<SBlockLayout, Error> {
        let geometry = &drive.geometry;
        let (raw, sections) = (geometry.sectors, keys.sections);
        let sblock_sectors = keys.sblock_sectors;
        let share = |percent: f64| raw as f64 * percent / 100.0 / sections as f64;
        let cache = share(keys.cache_percent).round() as u64;
        let spares = (share(keys.spare_percent) / sblock_sectors as f64).round() as u64;
        if cache < CACHE_LEAST_SECTORS {
            return Err(Error::Impossible(format!(
                "each section's cache buffer would have {cache} sectors, less than {CACHE_LEAST_SECTORS}: raise \
                 s-block.cache_percent or lower s-block.sections"
            )));
        }
        if spares == 0 {
            return Err(Error::Impossible(format!(
                "each section would have no spare S-block of {sblock_sectors} sectors: raise \
                 s-block.spare_percent, or lower s-block.sections or s-block.sblock_sectors"
            )));
        }
        let reach = reach_sectors(geometry, &drive.interference);
        let damages_upstream = drive.interference.upstream() > 0;
        // The cache buffer.
        let limit = cache + cache.div_ceil(ENTRY_SECTORS);
        let reserve = (limit / 8).clamp(RESERVE_SECTORS_MIN, RESERVE_SECTORS_MAX);
        let page_sectors = (limit / 32).clamp(16, PAGE_SECTORS_MAX);
        let guard_pages = reach.div_ceil(page_sectors);
        // A page's record takes one of its sectors. The pages of the head and of the tail may be used in part.
        let pages = (limit + reserve).div_ceil(page_sectors - 1) + guard_pages + 2;
        // The S-block buffer, whose slots have a header each.
        let stride = sblock_sectors + 1;
        let guard_slots = reach.div_ceil(stride);
        let mut kept = SLOTS_KEPT;
        if damages_upstream {
            kept += (raw / sections / stride / 4).clamp(SLOTS_KEPT_UPSTREAM_MIN, SLOTS_KEPT_UPSTREAM_MAX);
        }
        let mut layout = SBlockLayout {
            sblock_sectors,
            natives: 0,
            spares,
            slots: spares + kept + guard_slots,
            guard_slots,
            page_sectors,
            pages,
            guard_pages,
            limit,
            reserve,
            damages_upstream,
            starts: Vec::new(),
            capacity: Capacity::default(),
        };
        let natives = layout.most_natives(drive, sections);
        if natives == 0 || natives + layout.slots >= u64::from(u32::MAX) {
            return Err(Error::Impossible(format!(
                "{sections} sections of this drive hold {natives} S-blocks each next to their cache, spare and guard: \
                 change s-block.sblock_sectors or s-block.sections, or take another drive"
            )));
        }
        let tables = sections * (natives + layout.slots) * SBLOCK_TABLE_BYTES;
        let sblocks = format!("{} S-blocks", sections * natives);
        check_tables(&sblocks, tables, "raise s-block.sblock_sectors, or ")?;
        layout.natives = natives;
        layout.slots += natives;
        let (starts, end, gaps) = layout.place(drive, sections, layout.slots);
        let inside = guard_pages * page_sectors + guard_slots * stride;
        let host_sectors = sections * natives * sblock_sectors;
        let guard_sectors = gaps + (raw - end) + sections * inside;
        let cache_sectors = sections * cache;
        let spare_sectors = raw - host_sectors - guard_sectors - cache_sectors;
        layout.starts = starts;
        layout.capacity = Capacity { raw_sectors: raw, host_sectors, cache_sectors, guard_sectors, spare_sectors };
        Ok(layout)
    }

    /// The most S-blocks that each section has room for, next to its other slots.
    fn most_natives(&self, drive: &Drive, sections: u64) -> u64 {
        let raw = drive.geometry.sectors;
        let (mut low, mut high) = (0, raw / (self.sblock_sectors + 1) / sections + 1);
        while low + 1 < high {
            let middle = (low + high) / 2;
            let (_, end, _) = self.place(drive, sections, self.slots + middle);
            if end <= raw { low = middle } else { high = middle }
        }
        low
    }

    /// Lays out sections of `slots` slots. Returns where their buffers begin, the end of the last one (past the disk's end if they don't
    /// fit), and the guard sectors between buffers.
    fn place(&self, drive: &Drive, sections: u64, slots: u64) -> (Vec<(Pba, Pba)>, u64, u64) {
        let raw = drive.geometry.sectors;
        let guard = drive.interference.guard(&drive.geometry);
        let sizes = [self.pages * self.page_sectors, slots * (self.sblock_sectors + 1)];
        let (mut starts, mut next, mut end, mut gaps) = (Vec::new(), 0u64, 0u64, 0u64);
        for _ in 0..sections {
            let mut buffers = [Pba(0); 2];
            for (buffer, size) in buffers.iter_mut().zip(sizes) {
                *buffer = Pba(next);
                gaps += next - end;
                end = next.saturating_add(size);
                if end > raw {
                    return (starts, u64::MAX, gaps);
                }
                next = after_guard(&drive.geometry, guard, end);
            }
            starts.push((buffers[0], buffers[1]));
        }
        (starts, end, gaps)
    }
}

/// The first sector that a buffer may use after one that ends before `end`.
fn after_guard(geometry: &Geometry, guard: Guard, end: u64) -> u64 {
    match guard {
        Guard::Sectors(sectors) => end + sectors,
        Guard::Tracks(tracks) => geometry.track_start(geometry.track_of(Pba(end - 1)) + 1 + tracks).0,
    }
}

/// The most sectors that a write may damage downstream, wherever on the disk it is.
fn reach_sectors(geometry: &Geometry, law: &Interference) -> u64 {
    match *law {
        Interference::None => 0,
        Interference::Blocks { reach } => reach.saturating_sub(1),
        Interference::Distances { did, .. } => did,
        Interference::Tracks { width, .. } if width <= 1 => 0,
        Interference::Tracks { width, .. } => width.saturating_mul(geometry.longest_track()),
        Interference::Physical(profile) if profile.width() <= 1 => 0,
        Interference::Physical(profile) => profile.width() * geometry.longest_track(),
        Interference::Interlaced => 2 * geometry.longest_track(),
    }
}

impl Layer for SBlock {
    fn capacity(&self) -> Capacity {
        self.layout.capacity
    }

    /// Reads what is mapped from the cache buffer, and the rest from the S-block buffer (algorithm V.6, by runs instead of sectors).
    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        let mut gather = Gather::new(Cause::Host, THROUGH_SECTORS);
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
        let section = self.section(lba);
        let may_have_sblock = self.keys.bypass && n >= self.size.value;
        if may_have_sblock || n > self.entry_sectors_max() || section != self.section(lba + (n - 1)) {
            return self.write_parts(disk, lba, n, data);
        }
        // The usual request is one entry of one section.
        self.make_room(disk, section, n + 1)?;
        self.append(disk, section, lba, n, data, 0)
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
        ensure!(mapped == valid, "{mapped} sectors are mapped, and {valid} lie in entries");
        Ok(())
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
            cache_fill: Some((sum(|cache| cache.entry_sectors) / room).min(1.0)),
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
