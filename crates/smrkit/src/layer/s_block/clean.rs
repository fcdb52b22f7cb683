//! Writes to the two buffers, and making room in them.
//!
//! # Cleaning
//!
//! Group destage (V.3), the choice of the S-block to destage, and advancing the tails of both buffers (V.2, V.5).
//!
//! The paper advances the S-block buffer's tail only when the buffer is full, past all valid S-blocks up to an invalid one; under skewed
//! demands these are nearly all, inside one write. `moves=literal` does so. By default (assumption), the moves are spread over the writes
//! that clean, while spare slots are left:
//!
//! - If the spare slots would be used up before the tail reaches a slot that it can release, every write that cleans moves its share.
//! - Otherwise only writes that destage nothing move S-blocks, until three quarters of the spare slots are free.
//!
//! # Writes
//!
//! Algorithms V.1 and V.4: writes go to the cache buffer, whole S-blocks to the S-block buffer.
//!
//! Room for all parts of a request is made first: then a drive that rebuilds its maps from the headers can tell whether all of a request
//! was written. A request larger than a buffer is divided into several.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::cache::length_of;
use super::{DestagePolicy, SBlock, THROUGH_SECTORS};
use crate::geometry::pieces_by_divisor;
use crate::layer::prelude::*;
use crate::layer::runs::{Gather, LoggedRun};

/// How many copies the reserve has room for, so that several torn by power cuts fit.
pub const RESERVE_COPIES: u64 = 4;

/// How many S-blocks nearest to each tail the weighted policy scores, besides the one with the most cached sectors. (Assumption: an exact
/// answer would have to score all of them, because every distance changes with each destage.)
const NEAREST: usize = 16;

/// Share of the spare slots to keep free, beyond the moves that are due before the tail can release a slot (assumption).
const SPARES_KEPT: f64 = 0.75;

/// How many lengths of an S-block a write copies at most while less than half of the spare slots are left (assumption).
const COPIED_WHEN_SHORT: u64 = 4;

/// How many times faster than necessary the tail advances, in case destages become more frequent than they were (assumption).
const SAFETY_FACTOR: u64 = 2;

/// Number of writes that cleaned since the layer was built, and of the S-blocks that they destaged.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct CleaningFrequency {
    cleanings: u64,
    destages: u64,
}

impl CleaningFrequency {
    /// Notes a write that cleaned and destaged `destages` S-blocks.
    fn note(&mut self, destages: u64) {
        self.cleanings += 1;
        self.destages += destages;
    }

    /// How many S-blocks this write should move, so that the tail passes `distance` of them before `destages` more destages.
    fn moves(&self, distance: u64, destages: u64) -> u64 {
        let writes = destages * (self.cleanings / self.destages.max(1)).max(1);
        (SAFETY_FACTOR * distance / writes.max(1)).clamp(1, distance.max(1))
    }
}

impl SBlock {
    /// True if a cache buffer has room for entries of `length` sectors, with headers.
    #[inline]
    fn fits(&self, section: usize, length: u64) -> bool {
        let cache = &self.caches[section];
        // Half of the reserve stays free for copies from the tail, which take space before they release any.
        cache.entry_sectors + length <= self.layout.limit && cache.room() >= length + self.layout.reserve / 2
    }

    /// Makes room for entries of `length` sectors, with headers, if the cache buffer is full (algorithm V.1).
    #[inline]
    pub(super) fn make_room(&mut self, disk: &mut Disk, section: usize, length: u64) -> DiskResult {
        if self.fits(section, length) {
            return Ok(());
        }
        self.defrag_cache(disk, section, length)
    }

    /// Makes room by copying valid entries from the tail to the head, past invalid ones, and by destaging (algorithm V.2; the parameters
    /// answer questions 1 and 3 of section V.C). A write copies about an S-block's length, which costs as much as a destage. If that does not
    /// make enough room, it destages the S-blocks that the entries at the tail belong to.
    #[cold]
    fn defrag_cache(&mut self, disk: &mut Disk, section: usize, length: u64) -> DiskResult {
        self.counts.first_cleaning_request.get_or_insert(disk.requests());
        let before = self.counts.destages;
        if self.is_literal {
            self.destage_by_rule(disk, section)?;
        }
        // The most sectors that a write copies before it destages S-blocks instead: more while few spare slots are left, because then a
        // destage also has to move S-blocks.
        let is_short_of_spares = self.slots[section].spare() < self.layout.spares / 2;
        let sblocks = if is_short_of_spares { COPIED_WHEN_SHORT } else { 1 };
        let most = if self.is_literal { u64::MAX } else { self.size.value * sblocks };
        let mut copied = 0;
        while !self.fits(section, length) {
            let cache = &self.caches[section];
            // If every entry was copied once, each still has a valid part: copying them again would release none.
            let enough = cache.invalid() == 0 || copied >= most || copied > cache.head - cache.tail;
            if enough {
                self.destage_for_room(disk, section)?;
                // Literally, V.2 allows another lap of copies after each destage.
                copied = if self.is_literal { 0 } else { copied };
            }
            copied += self.advance_cache_tail(disk, section, most.saturating_sub(copied))?;
        }
        if !self.is_literal && self.counts.destages == before {
            self.destage_by_rule(disk, section)?;
        }
        if self.moves_when_full {
            return Ok(());
        }
        self.keep_spares(disk, section, self.counts.destages - before)
    }

    /// Destages as many S-blocks as the parameter `rule` demands of a write that cleans.
    fn destage_by_rule(&mut self, disk: &mut Disk, section: usize) -> DiskResult {
        let invalid = self.caches[section].invalid();
        let cache_sectors = self.layout.capacity.cache_sectors / self.caches.len() as u64;
        let wanted_invalid = self.keys.destage_ahead_percent / 100.0 * cache_sectors as f64;
        let count = if self.is_literal {
            u64::from(invalid == 0)
        } else if (invalid as f64) < wanted_invalid {
            self.keys.destage_at_once
        } else {
            0
        };
        for _ in 0..count {
            if let Some(sblock) = self.choose(section) {
                self.destage(disk, section, sblock)?;
            }
        }
        Ok(())
    }

    /// Destages when copying would gain nothing. If no cached sector is invalid, takes the S-block that the policy chooses; if only parts of
    /// entries are, takes every S-block of the entry at the tail, which can then be released.
    fn destage_for_room(&mut self, disk: &mut Disk, section: usize) -> DiskResult {
        let cache = &self.caches[section];
        if cache.invalid() == 0
            && let Some(sblock) = self.choose(section)
        {
            return self.destage(disk, section, sblock);
        }
        let Some(&entry) = cache.entries.front() else {
            return inconsistent("an empty cache buffer has no room");
        };
        while let Some(lba) = self.first_valid(section, self.caches[section].tail, entry) {
            self.destage(disk, section, self.local(section, lba))?;
        }
        Ok(())
    }

    /// Destages an S-block (algorithm V.3): merges its cached sectors into it, and writes it to the head of the S-block buffer.
    fn destage(&mut self, disk: &mut Disk, section: usize, sblock: u32) -> DiskResult {
        // A power cut may have left the buffer full: its torn slot is in use, too.
        self.defrag_slots(disk, section, 0)?;
        let size = self.size.value;
        let number = section as u64 * self.layout.natives + u64::from(sblock);
        let first = Lba(number * size);
        let mut buf = disk.buf(size);
        disk.read(self.slots[section].place(sblock), size, Cause::Clean, &mut buf, 0)?;
        let mut gather = Gather::new(Cause::Destage, THROUGH_SECTORS);
        for (lba, n, pba) in self.map.mapped(first, size) {
            gather.read(disk, pba, n, &mut buf, lba - first)?;
        }
        gather.finish(disk, &mut buf)?;
        self.slots[section].write(disk, Cause::Clean, sblock, &buf, 0)?;
        // After the write: if it is torn, the cached sectors are still needed.
        self.drop_cached(section, number);
        self.counts.destages += 1;
        // Also after the write, because an old copy of this S-block at the tail need not be moved now.
        self.defrag_slots(disk, section, 0)
    }

    pub(super) fn drop_cached(&mut self, section: usize, number: u64) {
        let cached = self.cached[number as usize];
        if cached > 0 {
            self.map.remove(Lba(number * self.size.value), self.size.value);
            self.count_cached(section, number, -i64::from(cached));
        }
    }

    /// Does one stage in idle time: destages an S-block, or advances the tail of the S-block buffer to regain spare slots. Returns `false` if
    /// there was nothing to do.
    #[cold]
    pub(super) fn clean_idly(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        for section in 0..self.caches.len() {
            let slots = &self.slots[section];
            // A destage takes a spare slot.
            let nearest = slots.cached_from_tail().next().filter(|_| slots.spare() > 0);
            if let Some(sblock) = nearest.map(|slot| slots.owner[slot as usize]) {
                self.destage(disk, section, sblock)?;
            } else if slots.used() > self.layout.natives {
                self.advance_slots_tail(disk, section)?;
            } else {
                continue;
            }
            while let Some(&entry) = self.caches[section].entries.front()
                && self.first_valid(section, self.caches[section].tail, entry).is_none()
            {
                self.caches[section].pop();
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Releases the entry at the tail if nothing in it is valid. Otherwise copies it to the head, with the entries that follow while they have
    /// valid parts, up to `most` sectors. Returns the sectors copied.
    fn advance_cache_tail(&mut self, disk: &mut Disk, section: usize, most: u64) -> DiskResult<u64> {
        // Mapping comes before the copy, because it finds out which entries are still valid. If the copy fails, the mapping is undone.
        let (entries, length) = self.remap_run(section, most);
        if entries == 0 {
            self.caches[section].pop();
            return Ok(0);
        }
        if let Err(fault) = self.copy_run(disk, section, entries, length) {
            self.map_back(section, entries);
            return Err(fault);
        }
        let cache = &mut self.caches[section];
        cache.entries.rotate_left(entries);
        cache.tail += length;
        self.counts.runs_copied += 1;
        self.counts.run_sectors += length;
        Ok(length)
    }

    /// Copies the first `entries` entries, `length` sectors in total, from the tail to the head.
    fn copy_run(&mut self, disk: &mut Disk, section: usize, entries: usize, length: u64) -> DiskResult {
        let cache = &self.caches[section];
        let (tail, head) = (cache.tail, cache.head);
        let buf = cache.read(disk, tail, length)?;
        let mut data: Vec<(u64, u64, u64)> = Vec::new();
        if disk.holds_data() {
            let mut position = tail;
            for &entry in cache.entries.iter().take(entries) {
                // After the entry's header.
                let runs = cache.runs(position + 1, entry.sectors());
                data.extend(runs.map(|(at, _, n)| (at - tail + head, n, cache.offset_in_read(tail, at))));
                position += length_of(entry);
            }
        }
        self.caches[section].append(disk, Cause::Clean, length, &buf, data.into_iter())
    }

    /// Maps entries back to the tail, after their copy to the head failed.
    fn map_back(&mut self, section: usize, entries: usize) {
        let (mut from, mut to) = (self.caches[section].head, self.caches[section].tail);
        for number in 0..entries {
            let entry = self.caches[section].entries[number];
            self.remap(section, from, to, entry);
            (from, to) = (from + length_of(entry), to + length_of(entry));
        }
    }

    /// Maps entries with valid parts from the tail to the head, as many as may be copied at once: up to `most` sectors, or a single longer
    /// entry. Returns their number and their length.
    fn remap_run(&mut self, section: usize, most: u64) -> (usize, u64) {
        let cache = &self.caches[section];
        let (tail, head) = (cache.tail, cache.head);
        // Half of the room at most, because a torn copy may leave as many unusable sectors, and is then repeated.
        let most = (self.layout.reserve / RESERVE_COPIES).min(cache.room() / 2).min(most);
        let (mut count, mut length) = (0, 0);
        while let Some(&entry) = self.caches[section].entries.get(count) {
            // The first entry is copied however long it is, or the tail would never get past it.
            if count > 0 && (length + length_of(entry) > most || self.copies_singly) {
                break;
            }
            // An entry without valid parts is not copied: it is dropped once it is at the tail.
            let has_valid_parts = self.remap(section, tail + length, head + length, entry);
            if !has_valid_parts {
                break;
            }
            count += 1;
            length += length_of(entry);
        }
        (count, length)
    }

    /// Maps the valid parts of an entry from position `old` to `new`; returns `false` if there are none.
    #[inline]
    fn remap(&mut self, section: usize, old: u64, new: u64, entry: LoggedRun) -> bool {
        let cache = &self.caches[section];
        // The usual case, made fast: the entry is one extent of the map, at its old and its new place.
        if let Some(lba) = entry.lba()
            && let (Some(from), Some(to)) = (cache.undivided(old, entry), cache.undivided(new, entry))
            && self.map.relocate(lba, entry.sectors(), from, to)
        {
            return true;
        }
        self.remap_parts(section, old, new, entry)
    }

    /// Maps the valid parts of an entry one by one, for [`SBlock::remap`].
    fn remap_parts(&mut self, section: usize, old: u64, new: u64, entry: LoggedRun) -> bool {
        let Some(first) = entry.lba() else { return false };
        let valid: SmallVec<[(Lba, u64); 8]> = self.valid_parts(section, old, entry).collect();
        for &(lba, n) in &valid {
            // The entry's header takes its first sector.
            let from = new + 1 + (lba - first);
            for (position, pba, count) in self.caches[section].runs(from, n) {
                self.map.insert(lba + (position - from), count, pba);
            }
        }
        !valid.is_empty()
    }

    /// Advances the tail of the S-block buffer until no more slots than the limit are in use, with room for `more` S-blocks below it.
    pub(super) fn defrag_slots(&mut self, disk: &mut Disk, section: usize, more: u64) -> DiskResult {
        if self.slots[section].used() + more > self.slots[section].limit {
            self.counts.first_cleaning_request.get_or_insert(disk.requests());
        }
        while self.slots[section].used() + more > self.slots[section].limit {
            self.advance_slots_tail(disk, section)?;
        }
        Ok(())
    }

    /// Slots that the tail has to pass before one that it can release without a copy: an invalid one or, if the policy destages the S-block
    /// nearest the tail, the slot of that S-block. `None` if there is no such slot.
    fn distance_to_free_slot(&self, section: usize) -> Option<u64> {
        let slots = &self.slots[section];
        let to_invalid = slots.valid_at_tail()?;
        let goes_by_tail = self.keys.policy == DestagePolicy::ClosestToTail;
        let next_destaged = goes_by_tail.then(|| slots.cached_from_tail().next()).flatten();
        Some(next_destaged.map_or(to_invalid, |slot| slots.distance(slot).min(to_invalid)))
    }

    /// Moves some S-blocks from the tail to the head, so that spare slots do not run out. Called after each write that cleaned, with the
    /// number of its destages. A write that already paid for a destage moves S-blocks only if the spare slots would run out otherwise.
    fn keep_spares(&mut self, disk: &mut Disk, section: usize, destages: u64) -> DiskResult {
        self.pace.note(destages);
        self.slots[section].skip_invalid();
        let spare = self.slots[section].spare();
        let Some(distance @ 1..) = self.distance_to_free_slot(section) else { return Ok(()) };
        let wanted_spare = match destages {
            0 => distance + (self.layout.spares as f64 * SPARES_KEPT) as u64,
            _ => distance,
        };
        if spare >= wanted_spare {
            return Ok(());
        }
        // Each destage takes a spare slot, so the buffer is full at destage number spare + 1.
        for _ in 0..self.pace.moves(distance, spare + 1) {
            self.advance_slots_tail(disk, section)?;
        }
        self.slots[section].skip_invalid();
        Ok(())
    }

    /// Advances the tail by a slot, copying its S-block to the head if that is valid.
    fn advance_slots_tail(&mut self, disk: &mut Disk, section: usize) -> DiskResult {
        let moved = self.slots[section].advance(disk)?;
        self.counts.sblocks_moved += u64::from(moved);
        Ok(())
    }

    /// The S-block (in its section) to destage next, by the options of section V.C, question 2; `None` if nothing valid is cached.
    fn choose(&self, section: usize) -> Option<u32> {
        match self.keys.policy {
            DestagePolicy::ClosestToTail => self.nearest_tail(section).next(),
            DestagePolicy::Largest => self.most_cached(section),
            DestagePolicy::CacheTail => self.nearest_cache_tail(section).next().map(|(sblock, _)| sblock),
            DestagePolicy::Weighted => {
                let equal_weights = [1.0; 3];
                self.best(section, equal_weights)
            }
        }
    }

    fn nearest_tail(&self, section: usize) -> impl Iterator<Item = u32> + '_ {
        let slots = &self.slots[section];
        slots.cached_from_tail().map(|slot| slots.owner[slot as usize])
    }

    /// The S-block with most cached sectors; of equal ones, the lowest.
    fn most_cached(&self, section: usize) -> Option<u32> {
        let (sblock, sectors) = self.largest[section].top();
        (sectors > 0).then_some(sblock as u32)
    }

    /// The S-blocks of valid entries from the cache buffer's tail on, with their distance from it.
    fn nearest_cache_tail(&self, section: usize) -> impl Iterator<Item = (u32, u64)> + '_ {
        let cache = &self.caches[section];
        let mut position = cache.tail;
        cache.entries.iter().filter_map(move |&entry| {
            let at = position;
            position += length_of(entry);
            let lba = self.first_valid(section, at, entry)?;
            Some((self.local(section, lba), at - cache.tail))
        })
    }

    /// The S-block of an LBA in its section.
    fn local(&self, section: usize, lba: Lba) -> u32 {
        (self.size.quotient(lba.0) - section as u64 * self.layout.natives) as u32
    }

    /// The S-block with the highest score, which is the sum, by `weights`, of three criteria from 0 to 1: nearness to the tail of the S-block
    /// buffer, cached sectors, and nearness to the tail of the cache buffer. Only candidates that are good by one criterion are scored.
    fn best(&self, section: usize, weights: [f64; 3]) -> Option<u32> {
        let [near_weight, cached_weight, age_weight] = weights;
        let (slots, cache) = (&self.slots[section], &self.caches[section]);
        let most = f64::from(self.largest[section].top().1.max(1));
        let span = (cache.head - cache.tail).max(1) as f64;
        let oldest: Vec<(u32, u64)> = self.nearest_cache_tail(section).take(NEAREST).collect();
        let score = |sblock: u32| {
            let slot = u64::from(slots.slot_of[sblock as usize]);
            let near = 1.0 - slots.distance(slot) as f64 / slots.slots() as f64;
            let cached = f64::from(self.cached[section * self.layout.natives as usize + sblock as usize]);
            let age = match oldest.iter().find(|(old, _)| *old == sblock) {
                Some(&(_, from_tail)) => 1.0 - from_tail as f64 / span,
                None => 0.0,
            };
            near_weight * near + cached_weight * cached / most + age_weight * age
        };
        let nearest = self.nearest_tail(section).take(NEAREST);
        let mut best: Option<(f64, u32)> = None;
        for sblock in nearest.chain(self.most_cached(section)).chain(oldest.iter().map(|&(sblock, _)| sblock)) {
            let score = score(sblock);
            // Of equal scores the first counts.
            if best.is_none_or(|(highest, _)| score > highest) {
                best = Some((score, sblock));
            }
        }
        best.map(|(_, sblock)| sblock)
    }
}

/// A part of a request: sectors of one section for its cache buffer, in as many entries as needed, or a whole S-block.
#[derive(Clone, Copy)]
struct RequestPart {
    section: usize,
    lba: Lba,
    sectors: u64,
    is_sblock: bool,
}

type Parts = SmallVec<[RequestPart; 8]>;

impl SBlock {
    pub(super) fn entry_sectors_max(&self) -> u64 {
        self.layout.reserve / RESERVE_COPIES - 1
    }

    /// Appends `n` sectors of one section (`data` from sector `at` on), divided into entries if they are too long for one.
    #[inline]
    pub(super) fn append(
        &mut self,
        disk: &mut Disk,
        section: usize,
        lba: Lba,
        n: u64,
        data: &Buf,
        at: u64,
    ) -> DiskResult {
        let most = self.entry_sectors_max();
        let mut position = self.caches[section].head;
        // Each entry begins with its header.
        let data_of_entry = |i: u64| (position + i * (most + 1) + 1, most.min(n - i * most), at + i * most);
        let entries = n.div_ceil(most);
        self.caches[section].append(disk, Cause::Host, n + entries, data, (0..entries).map(data_of_entry))?;
        for at in (0..n).step_by(most as usize) {
            let sectors = most.min(n - at);
            self.map_entry(section, position, lba + at, sectors);
            position += sectors + 1;
        }
        Ok(())
    }

    /// Maps an entry that was appended at a position.
    fn map_entry(&mut self, section: usize, position: u64, lba: Lba, n: u64) {
        self.caches[section].push(LoggedRun::new(lba, n));
        let mut at = lba;
        for (sblock, _, count) in pieces_by_divisor(lba.0, n, self.size) {
            let cached_before: u64 = self.map.mapped(at, count).map(|(_, n, _)| n).sum();
            if cached_before < count {
                self.count_cached(section, sblock, (count - cached_before) as i64);
            }
            at += count;
        }
        for (run, pba, count) in self.caches[section].runs(position + 1, n) {
            self.map.insert(lba + (run - position - 1), count, pba);
        }
    }

    /// Writes a request that spans sections, has whole S-blocks, or is long.
    #[cold]
    pub(super) fn write_parts(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut done = 0;
        while done < n {
            let (sectors, parts) = self.plan(lba + done, n - done);
            // Room for all parts first: nothing is cleaned between their writes then, so a request that is not completely written has
            // replaced nothing.
            for own in parts.chunk_by(|a, b| a.section == b.section) {
                let (section, length) = (own[0].section, self.cache_length(own));
                if length > 0 {
                    self.make_room(disk, section, length)?;
                }
                self.defrag_slots(disk, section, own.iter().filter(|part| part.is_sblock).count() as u64)?;
            }
            for &RequestPart { section, lba: first, sectors, is_sblock } in &parts {
                if !is_sblock {
                    self.append(disk, section, first, sectors, data, first - lba)?;
                    continue;
                }
                let sblock = self.size.quotient(first.0);
                let local = self.local(section, first);
                self.slots[section].write(disk, Cause::Host, local, data, first - lba)?;
                self.drop_cached(section, sblock);
                self.counts.bypassed += 1;
            }
            done += sectors;
        }
        Ok(())
    }

    /// Returns how many of a request's sectors to write at once, so that a power cut leaves all of them or none, and their parts. Prefers the
    /// whole request with bypass, then the whole request through the cache, then as many sectors as the spare slots hold, and at last as many
    /// as surely fit into a cache buffer.
    fn plan(&self, lba: Lba, n: u64) -> (u64, Parts) {
        let spares = self.layout.spares * self.size.value;
        for (sectors, bypass) in [(n, self.keys.bypass), (n, false), (spares, self.keys.bypass)] {
            if sectors <= n
                && let Some(parts) = self.parts(lba, sectors, bypass)
            {
                return (sectors, parts);
            }
        }
        let sectors = n.min(self.layout.limit / 2);
        (sectors, self.parts(lba, sectors, false).expect("half a buffer fits into one"))
    }

    /// The parts of a request; `None` if they don't fit into their buffers at once.
    fn parts(&self, lba: Lba, n: u64, bypass: bool) -> Option<Parts> {
        let mut parts = Parts::new();
        let mut at = lba;
        for (section, _, count) in pieces_by_divisor(lba.0, n, self.section_size) {
            let (section, end, size) = (section as usize, at + count, self.size.value);
            // The whole S-blocks among these sectors lie in `whole..whole_end`.
            let (mut whole, mut whole_end) = (Lba(at.0.div_ceil(size) * size), Lba(end.0 / size * size));
            if !bypass || whole >= whole_end {
                // None of them: all of `at..end` is added as sectors before the first whole S-block.
                (whole, whole_end) = (end, end);
            }
            let before = parts.len();
            let mut add = |from: Lba, to: Lba, is_sblock: bool| {
                if from < to {
                    parts.push(RequestPart { section, lba: from, sectors: to - from, is_sblock });
                }
            };
            add(at, whole, false);
            for sblock in (whole.0..whole_end.0).step_by(size as usize).map(Lba) {
                add(sblock, sblock + size, true);
            }
            add(whole_end, end, false);
            let sblocks = (whole_end - whole) / size;
            if sblocks > self.layout.spares || self.cache_length(&parts[before..]) > self.layout.limit {
                return None;
            }
            at = end;
        }
        Some(parts)
    }

    /// Sectors of a cache buffer that parts of one section take, with headers.
    fn cache_length(&self, parts: &[RequestPart]) -> u64 {
        let cached = parts.iter().filter(|part| !part.is_sblock);
        cached.map(|part| part.sectors + part.sectors.div_ceil(self.entry_sectors_max())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SBlockKeys, SPEC};
    use super::*;
    use crate::disk::Disk;
    use crate::drive::Drive;
    use crate::layer::Layer;
    use crate::medium::{Buf, Medium};
    use crate::schema::Keyed;

    /// Of the second of two sections, S-blocks 10, 20, 25 and 30 (from the S-block buffer's tail on): 30 has the oldest
    /// sectors, 20 the most, and 25 the newest, one.
    fn some_cached() -> (SBlock, u64) {
        let drive = Drive::load("tiny-constant").unwrap();
        let sizes = [("sblock_sectors", "80"), ("sections", "2"), ("cache_percent", "20"), ("spare_percent", "5")];
        let set = [&sizes[..], &[("policy", "weighted")]].concat();
        let set: Vec<_> = set.iter().map(|(key, text)| (key.to_string(), text.to_string())).collect();
        let keys = SBlockKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
        let (mut layer, mut disk) = (SBlock::new(&drive, &keys).unwrap(), Disk::new(&drive, Medium::NoData));
        for (sblock, sectors) in [(30, 7), (20, 70), (10, 14), (25, 1)] {
            let lba = Lba((layer.layout.natives + sblock) * 80);
            layer.write(&mut disk, lba, sectors, &Buf::NoData).unwrap();
        }
        let slots = layer.slots[1].slots();
        assert!(slots > 33, "{slots}");
        (layer, slots)
    }

    #[test]
    fn weights_decide_between_nearest_fullest_and_oldest() {
        let (mut layer, slots) = some_cached();
        let best = |weights| layer.best(1, weights).unwrap();
        assert_eq!([best([1.0, 0.0, 0.0]), best([0.0, 1.0, 0.0]), best([0.0, 0.0, 1.0])], [10, 20, 30]);
        assert_eq!(best([0.0; 3]), 10, "of equals the nearest");
        // Shares of the most cached sectors are 0.2, 1 and 0.1; 10 slots lie between each two.
        let ten = 10.0 / slots as f64;
        assert_eq!([best([0.7, ten, 0.0]), best([0.9, ten, 0.0])], [20, 10]);
        // Ages are shares of the 96 sectors that the entries take.
        let age = |begin: f64| 1.0 - begin / 96.0;
        let [younger, older] = [age(79.0), age(8.0)];
        assert_eq!([best([0.0, 1.0, 9.0]), best([0.0, 1.0, 12.0])], [20, 30]);
        assert_eq!([best([(older - younger) * 0.9, 0.0, ten]), best([(older - younger) * 1.1, 0.0, ten])], [20, 10]);
        // The oldest is given up: 10 lies at 71 of 88 sectors.
        let cache = &mut layer.caches[1];
        cache.tail += length_of(cache.entries.pop_front().unwrap());
        let best = |weights| layer.best(1, weights).unwrap();
        assert_eq!([best([0.78, 0.0, ten]), best([0.83, 0.0, ten])], [20, 10]);
    }

    #[test]
    fn nothing_is_destaged_where_nothing_is_cached() {
        assert_eq!(some_cached().0.best(0, [1.0; 3]), None);
    }
}
