//! Making room: group destage (V.3), and the tails of both buffers moving on (V.2, V.5).

use smallvec::SmallVec;

use super::SBlock;
use super::cache::{AppendPiece, HeaderEntry};
use super::gather::{Gather, kept, taken};
use super::record::{CacheHeader, HeaderKind};
use crate::disk::Disk;
use crate::error::{DiskResult, Fault};
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::Lba;

/// Copies that the reserve has room for, so that several torn by power cuts fit.
pub const RESERVE_COPIES: u64 = 4;

impl SBlock {
    /// True if this many sectors, headers counted, fit into a cache buffer that is then not full.
    #[inline]
    fn fits(&self, section: usize, length: u64) -> bool {
        let cache = &self.caches[section];
        cache.held + length <= self.layout.limit && cache.room() >= length + self.layout.reserve / 2
    }

    /// Algorithm V.1: makes room in a full cache buffer.
    #[inline]
    pub(super) fn make_room(&mut self, disk: &mut Disk, section: usize, length: u64) -> DiskResult {
        if self.fits(section, length) {
            return Ok(());
        }
        self.defrag_cache(disk, section, length)
    }

    /// Algorithm V.2, with the answers to section V.C's questions 1 and 3 that the parameters give. A write copies no more than
    /// an S-block's length, which costs as much as destaging one; if that doesn't make the room, S-blocks are destaged whose
    /// cached sectors are in the way.
    #[cold]
    fn defrag_cache(&mut self, disk: &mut Disk, section: usize, length: u64) -> DiskResult {
        self.counts.first_cleaning_request.get_or_insert(disk.requests());
        let before = self.counts.destages;
        if self.rules.literal {
            self.destage_due(disk, section)?;
        }
        let ahead = (self.layout.limit as f64 * self.rules.reclaim_ahead) as u64;
        let most = self.copied_most(section);
        let mut copied = 0;
        loop {
            let fits = self.fits(section, length);
            let cache = &self.caches[section];
            // After a lap there is nothing invalid left but parts of entries.
            let enough = cache.invalid() == 0 || copied >= most || copied > cache.head - cache.tail;
            if fits && (enough || cache.held + length + ahead <= self.layout.limit) {
                break;
            }
            if enough {
                self.destage_something(disk, section)?;
                copied = if self.rules.literal { 0 } else { copied };
            }
            copied += self.advance_cache_tail(disk, section, most.saturating_sub(copied))?;
        }
        if !self.rules.literal && self.counts.destages == before {
            self.destage_due(disk, section)?;
        }
        self.keep_spares(disk, section, self.counts.destages - before)
    }

    /// Amount that a write copies before S-blocks are destaged that may lie anywhere: more while few spare ones are left, which those
    /// would take for long.
    fn copied_most(&self, section: usize) -> u64 {
        let few = self.slots[section].spare() < self.layout.spares / 2;
        match self.rules.literal {
            true => u64::MAX,
            false => self.size.value() * if few { 4 } else { 1 },
        }
    }

    fn destage_due(&mut self, disk: &mut Disk, section: usize) -> DiskResult {
        for _ in 0..self.destages_due(section) {
            if let Some(sblock) = self.choose(section) {
                self.destage(disk, section, sblock)?;
            }
        }
        Ok(())
    }

    fn destages_due(&self, section: usize) -> u64 {
        let invalid = self.caches[section].invalid();
        let wanted = self.rules.destage_ahead * (self.layout.capacity.cache_sectors / self.caches.len() as u64) as f64;
        match self.rules.literal {
            true => u64::from(invalid == 0),
            false if (invalid as f64) < wanted => self.rules.destage_at_once,
            false => 0,
        }
    }

    /// Destages where nothing is invalid, or nothing but parts of entries: the S-blocks of the entry at the tail, if any is valid.
    fn destage_something(&mut self, disk: &mut Disk, section: usize) -> DiskResult {
        let cache = &self.caches[section];
        if cache.invalid() == 0
            && let Some(sblock) = self.choose(section)
        {
            return self.destage(disk, section, sblock);
        }
        let Some(&entry) = cache.entries.front() else {
            return Err(Box::new(Fault::Inconsistent("an empty cache buffer has no room".into())));
        };
        while let Some(lba) = self.first_valid(section, self.caches[section].tail, entry) {
            self.destage(disk, section, self.local(section, lba))?;
        }
        Ok(())
    }

    /// Algorithm V.3: merges what is cached of an S-block into it, and writes it to the head of the S-block buffer.
    fn destage(&mut self, disk: &mut Disk, section: usize, sblock: u32) -> DiskResult {
        // A power cut may have left it to be done.
        self.defrag_slots(disk, section, 0)?;
        let size = self.size.value();
        let number = section as u64 * self.layout.natives + u64::from(sblock);
        let first = Lba(number * size);
        let mut buf = taken(&mut self.sblock_buf, disk, size + 1);
        disk.read(self.slots[section].place(sblock), size, Cause::Clean, &mut buf, 0)?;
        let mut gather = Gather::new(Cause::Destage);
        for (lba, n, pba) in self.map.mapped(first, size) {
            gather.read(disk, pba, n, &mut buf, lba - first)?;
        }
        gather.finish(disk, &mut buf)?;
        let header = self.header(HeaderKind::Slot, u64::from(sblock), size, (0, 1), &buf, 0)?;
        self.slots[section].write(disk, Cause::Clean, &header, &buf, 0)?;
        self.done = header.number;
        self.sblock_buf = kept(buf);
        self.drop_cached(section, number);
        self.counts.destages += 1;
        self.defrag_slots(disk, section, 0)
    }

    /// Drops the cached sectors of an S-block.
    pub(super) fn drop_cached(&mut self, section: usize, number: u64) {
        let cached = self.cached[number as usize];
        if cached > 0 {
            self.map.remove(Lba(number * self.size.value()), self.size.value());
            self.count_cached(section, number, -i64::from(cached));
        }
    }

    /// One stage in idle time: an S-block is destaged, or the tail of the S-block buffer moves on so that spare ones come back.
    /// Returns whether there was anything to do.
    #[cold]
    pub(super) fn clean_idly(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        for section in 0..self.caches.len() {
            let slots = &self.slots[section];
            let nearest = slots.cached_from_tail().next().filter(|_| slots.spare() > 0);
            if let Some(sblock) = nearest.map(|slot| slots.owner[slot as usize]) {
                self.destage(disk, section, sblock)?;
            } else if slots.used() > self.layout.natives {
                self.advance_slots_tail(disk, section)?;
            } else {
                continue;
            }
            self.drop_invalid(section);
            return Ok(true);
        }
        Ok(false)
    }

    /// Gives up the entries at the cache buffer's tail as far as nothing in them is valid.
    fn drop_invalid(&mut self, section: usize) {
        while let Some(&entry) = self.caches[section].entries.front() {
            if self.first_valid(section, self.caches[section].tail, entry).is_some() {
                return;
            }
            self.caches[section].pop();
        }
    }

    /// Gives up the entry at the tail if it is invalid; else copies it and the valid ones that follow to the head, of `most`
    /// sectors or less as far as they are several. Returns the sectors copied.
    fn advance_cache_tail(&mut self, disk: &mut Disk, section: usize, most: u64) -> DiskResult<u64> {
        let (entries, length) = self.remap_run(section, most);
        if entries == 0 {
            self.caches[section].pop();
            return Ok(0);
        }
        let mut buf = taken(&mut self.run_buf, disk, 0);
        if let Err(fault) = self.copy_run(disk, section, entries, length, &mut buf) {
            self.map_back(section, entries);
            return Err(fault);
        }
        self.run_buf = kept(buf);
        self.caches[section].carry_over(entries, length);
        self.counts.runs_copied += 1;
        self.counts.run_sectors += length;
        Ok(length)
    }

    /// Copies entries at the tail to the head.
    fn copy_run(&mut self, disk: &mut Disk, section: usize, entries: usize, length: u64, buf: &mut Buf) -> DiskResult {
        let tail = self.caches[section].tail;
        self.caches[section].read(disk, tail, length, buf)?;
        if !disk.holds_data() {
            return self.caches[section].append_time(disk, Cause::Clean, length);
        }
        let pieces = self.pieces_of_run(disk, section, entries, buf)?;
        self.caches[section].append(disk, Cause::Clean, self.epoch, self.done, &pieces)
    }

    /// Entries that were mapped to the head were not copied there: they are valid at the tail still.
    fn map_back(&mut self, section: usize, entries: usize) {
        let (mut from, mut to) = (self.caches[section].head, self.caches[section].tail);
        for number in 0..entries {
            let entry = self.caches[section].entries[number];
            self.remap(section, from, to, entry);
            (from, to) = (from + entry.length(), to + entry.length());
        }
    }

    /// Maps the valid entries from the tail on to the head, as many as may be copied at once; how many they are, and how long.
    fn remap_run(&mut self, section: usize, most: u64) -> (usize, u64) {
        let cache = &self.caches[section];
        let (tail, head) = (cache.tail, cache.head);
        let most = (self.layout.reserve / RESERVE_COPIES).min(cache.room() / 2).min(most);
        let (mut count, mut length) = (0, 0);
        while let Some(&entry) = self.caches[section].entries.get(count) {
            let enough = length + entry.length() > most || self.rules.single_copies;
            if count > 0 && enough || !self.remap(section, tail + length, head + length, entry) {
                break;
            }
            count += 1;
            length += entry.length();
        }
        (count, length)
    }

    /// The entries of a run that was read into `buf`, with their headers as they were but for place and epoch.
    fn pieces_of_run<'a>(
        &self,
        disk: &Disk,
        section: usize,
        entries: usize,
        buf: &'a Buf,
    ) -> DiskResult<Vec<AppendPiece<'a>>> {
        let cache = &self.caches[section];
        let (mut pieces, mut position) = (Vec::new(), cache.tail);
        for entry in cache.entries.iter().take(entries) {
            let offset = |at: u64| cache.offset_in_read(cache.tail, at);
            let words = disk.record_in(buf, offset(position), 1)?;
            let header = words.and_then(|words| CacheHeader::parse(&words)).filter(|h| h.kind == HeaderKind::Entry);
            let Some(header) = header.filter(|h| h.what == entry.lba().0) else {
                return Err(Box::new(Fault::Inconsistent(format!("LBA {} is cached without a header", entry.lba()))));
            };
            pieces.push(AppendPiece::Header(header));
            for (at, _, sectors) in cache.runs(position + 1, entry.sectors()) {
                pieces.push(AppendPiece::Data { buf, at: offset(at), sectors });
            }
            position += entry.length();
        }
        Ok(pieces)
    }

    /// Maps an entry at position `old` to `new`, as far as it is valid; whether any of it is.
    #[inline]
    fn remap(&mut self, section: usize, old: u64, new: u64, entry: HeaderEntry) -> bool {
        let cache = &self.caches[section];
        if !entry.is_void()
            && let (Some(from), Some(to)) = (cache.undivided(old, entry), cache.undivided(new, entry))
            && self.map.relocate(entry.lba(), entry.sectors(), from, to)
        {
            return true;
        }
        self.remap_parts(section, old, new, entry)
    }

    fn remap_parts(&mut self, section: usize, old: u64, new: u64, entry: HeaderEntry) -> bool {
        let valid: SmallVec<[(Lba, u64); 8]> = self.valid_parts(section, old, entry).collect();
        let any = !valid.is_empty();
        for (lba, n) in valid {
            let from = new + 1 + (lba - entry.lba());
            for (position, pba, count) in self.caches[section].runs(from, n) {
                self.map.insert(lba + (position - from), count, pba);
            }
        }
        any
    }
}
