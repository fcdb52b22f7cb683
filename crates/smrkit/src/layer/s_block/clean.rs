//! Making room: group destage (V.3), and the tails of both buffers moving on (V.2, V.5).

use smallvec::SmallVec;

use super::SBlock;
use super::cache::{Entry, Piece};
use super::gather::Gather;
use super::record::{Header, Kind};
use crate::disk::Disk;
use crate::error::{DiskResult, Fault};
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::Lba;

/// What a copy takes of the reserve, so that several torn by power cuts fit.
pub const RESERVE_COPIES: u64 = 4;

impl SBlock {
    /// Whether so many sectors, headers counted, fit into a cache buffer that is then not full.
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

    /// Algorithm V.2, with the answers to section V.C's questions 1 and 3 that the parameters give.
    #[cold]
    fn defrag_cache(&mut self, disk: &mut Disk, section: usize, length: u64) -> DiskResult {
        self.counts.first_cleaning_request.get_or_insert(self.counts.requests);
        for _ in 0..self.destages_due(section) {
            if let Some(sblock) = self.choose(section) {
                self.destage(disk, section, sblock)?;
            }
        }
        let ahead = (self.layout.limit as f64 * self.rules.reclaim_ahead) as u64;
        let mut copied = 0;
        loop {
            let fits = self.fits(section, length);
            let cache = &self.caches[section];
            // After a lap there is nothing invalid left but parts of entries.
            let nothing_left = cache.invalid() == 0 || copied > cache.head - cache.tail;
            if fits && (nothing_left || cache.held + length + ahead <= self.layout.limit) {
                return Ok(());
            }
            if nothing_left {
                self.destage_something(disk, section)?;
                copied = 0;
            }
            copied += self.advance_cache_tail(disk, section)?;
        }
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

    /// Where nothing is invalid, or nothing but parts of entries: the S-blocks of the entry at the tail, if any is valid.
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
        let header = self.header(Kind::Slot, u64::from(sblock), size, (0, 1), &buf, 0);
        self.slots[section].write(disk, Cause::Clean, &header, &buf, 0)?;
        self.done = header.number;
        self.sblock_buf = buf;
        self.drop_cached(section, number);
        self.counts.destages += 1;
        self.defrag_slots(disk, section, 0)
    }

    /// What is cached of an S-block is valid no more.
    pub(super) fn drop_cached(&mut self, section: usize, number: u64) {
        let cached = self.cached[number as usize];
        if cached > 0 {
            self.map.remove(Lba(number * self.size.value()), self.size.value());
            self.count_cached(section, number, -i64::from(cached));
        }
    }

    /// Algorithm V.5: the tail moves on until so many S-blocks fit and the buffer is not full. It comes after the S-block
    /// that was added, not before, so that a copy at the tail which that one replaces need not move.
    pub(super) fn defrag_slots(&mut self, disk: &mut Disk, section: usize, more: u64) -> DiskResult {
        let spare = self.layout.spares;
        let ahead = (spare as f64 * self.rules.reclaim_ahead) as u64;
        let full = |layer: &SBlock, more: u64| layer.slots[section].used() + more > layer.slots[section].limit;
        if !full(self, more) {
            return Ok(());
        }
        self.counts.first_cleaning_request.get_or_insert(self.counts.requests);
        let more = more.max(ahead).min(spare);
        let mut buf = taken(&mut self.sblock_buf, disk, self.size.value() + 1);
        while full(self, more) {
            let moved = self.slots[section].advance(disk, self.epoch, self.done, &mut buf)?;
            self.counts.sblocks_moved += u64::from(moved);
        }
        self.sblock_buf = buf;
        Ok(())
    }

    /// The first LBA of an entry at a position that is still valid there.
    pub(super) fn first_valid(&self, section: usize, position: u64, entry: Entry) -> Option<Lba> {
        self.valid_parts(section, position, entry).next().map(|(lba, _)| lba)
    }

    /// The parts of an entry at a position that are still valid there.
    pub(super) fn valid_parts(
        &self,
        section: usize,
        position: u64,
        entry: Entry,
    ) -> impl Iterator<Item = (Lba, u64)> + '_ {
        let (cache, lba) = (&self.caches[section], entry.lba());
        let sectors = if entry.is_void() { 0 } else { entry.sectors() };
        let here = move |&(l, _, pba): &(Lba, u64, _)| pba == cache.pba(position + 1 + (l - lba));
        self.map.mapped(lba, sectors).filter(here).map(|(l, n, _)| (l, n))
    }

    /// Gives up the entry at the tail if it is invalid; else copies it and the valid ones that follow to the head.
    /// Returns the sectors copied.
    fn advance_cache_tail(&mut self, disk: &mut Disk, section: usize) -> DiskResult<u64> {
        let (entries, length) = self.valid_run(section);
        if entries == 0 {
            self.caches[section].pop();
            return Ok(0);
        }
        let mut buf = taken(&mut self.run_buf, disk, 0);
        let (tail, head) = (self.caches[section].tail, self.caches[section].head);
        self.caches[section].read(disk, tail, length, &mut buf)?;
        if disk.holds_data() {
            let pieces = self.pieces_of_run(disk, section, entries, &buf)?;
            self.caches[section].append(disk, Cause::Clean, self.epoch, self.done, &pieces)?;
        } else {
            self.caches[section].append_time(disk, Cause::Clean, length)?;
        }
        self.run_buf = buf;
        let (mut old, mut new) = (tail, head);
        for _ in 0..entries {
            let cache = &mut self.caches[section];
            let Some(&entry) = cache.entries.front() else { break };
            cache.push(entry);
            self.remap(section, old, new, entry);
            self.caches[section].pop();
            old += entry.length();
            new += entry.length();
        }
        self.counts.runs_copied += 1;
        self.counts.run_sectors += length;
        Ok(length)
    }

    /// How many entries from the tail on are valid and may be copied at once, and their length.
    fn valid_run(&self, section: usize) -> (usize, u64) {
        let cache = &self.caches[section];
        let most = (self.layout.reserve / RESERVE_COPIES).min(cache.room() / 2);
        let (mut count, mut length) = (0, 0);
        for &entry in &cache.entries {
            let enough = length + entry.length() > most || self.rules.single_copies;
            if count > 0 && enough || self.first_valid(section, cache.tail + length, entry).is_none() {
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
    ) -> DiskResult<Vec<Piece<'a>>> {
        let cache = &self.caches[section];
        let (mut pieces, mut position) = (Vec::new(), cache.tail);
        for entry in cache.entries.iter().take(entries) {
            let offset = |at: u64| cache.offset_in_read(cache.tail, at);
            let words = disk.record_in(buf, offset(position), 1);
            let header = words.and_then(|words| Header::parse(&words)).filter(|h| h.kind == Kind::Entry);
            let Some(header) = header.filter(|h| h.what == entry.lba().0) else {
                return Err(Box::new(Fault::Inconsistent(format!("LBA {} is cached without a header", entry.lba()))));
            };
            pieces.push(Piece::Header(header));
            for (at, _, sectors) in cache.runs(position + 1, entry.sectors()) {
                pieces.push(Piece::Data { buf, at: offset(at), sectors });
            }
            position += entry.length();
        }
        Ok(pieces)
    }

    /// An entry at position `old` has been copied to `new`.
    fn remap(&mut self, section: usize, old: u64, new: u64, entry: Entry) {
        let valid: SmallVec<[(Lba, u64); 8]> = self.valid_parts(section, old, entry).collect();
        for (lba, n) in valid {
            let from = new + 1 + (lba - entry.lba());
            for (position, pba, count) in self.caches[section].runs(from, n) {
                self.map.insert(lba + (position - from), count, pba);
            }
        }
    }
}

/// The buffer kept for this, with room for `n` sectors.
pub fn taken(kept: &mut Buf, disk: &Disk, n: u64) -> Buf {
    let mut buf = std::mem::replace(kept, Buf::NoData);
    if matches!(buf, Buf::NoData) {
        buf = disk.buf(n);
    }
    buf.room(n);
    buf
}
