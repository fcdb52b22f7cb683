//! After a power cut: the maps are made anew from the headers on the platters.
//!
//! Of each S-block the copy with the highest number counts (of equal ones the one written last), and of cached sectors what
//! has a higher number than their S-block. The request written last counts if all its parts are there. What is found
//! incomplete is noted as void before anything else is written, for later headers would make it seem complete.

use super::SBlock;
use super::cache::{AppendPiece, HeaderEntry};
use super::record::{CacheHeader, HeaderKind};
use super::slots::NONE;
use super::walk::{Item, Walk, walk_cache, walk_slots};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::geometry::pieces_by_divisor;
use crate::layer::inconsistent;
use crate::tally::Cause;
use crate::units::Lba;

impl SBlock {
    /// Rebuilds all maps of a layer built on an empty drive.
    pub(super) fn restore(&mut self, disk: &mut Disk) -> DiskResult {
        let (mut caches, mut slots) = (Vec::new(), Vec::new());
        for section in 0..self.caches.len() {
            let own = self.layout.natives * self.size.value();
            let first = section as u64 * own;
            let lbas = first..(first + own).min(self.layout.capacity.host_sectors);
            caches.push(walk_cache(disk, &self.caches[section], &lbas)?);
            slots.push(walk_slots(disk, &self.slots[section], self.size.value())?);
        }
        let walks = || caches.iter().chain(&slots);
        self.epoch = walks().map(|walk| walk.epoch).max().unwrap_or(0) + 1;
        let done = walks().map(|walk| walk.done).max().unwrap_or(0);
        let newest = items(walks()).map(|item| item.header).max_by_key(|header| header.number);
        self.number = newest.map_or(done, |header| header.number.max(done)) + 1;
        let void = VoidRequest(newest.and_then(|header| incomplete(&header, done, items(walks()))));
        for (section, walk) in slots.iter().enumerate() {
            self.restore_slots(disk, section, walk, void)?;
        }
        for (section, walk) in caches.iter().enumerate() {
            self.restore_cache(disk, section, walk, void)?;
        }
        self.done = self.number - 1;
        for (section, (cached, native)) in caches.iter().zip(&slots).enumerate() {
            self.restore_map(section, &cached.items, &native.items, void);
        }
        self.check_books()
    }

    /// Head and tail of an S-block buffer, and where its S-blocks lie.
    fn restore_slots(&mut self, disk: &mut Disk, section: usize, walk: &Walk, void: VoidRequest) -> DiskResult {
        let (epoch, done) = (self.epoch, walk.done);
        let slots = &mut self.slots[section];
        (slots.head, slots.tail) = (walk.head, walk.tail);
        let found = |item: &&Item| item.header.kind == HeaderKind::Slot;
        let last = walk.items.last().map(|item| item.header);
        let again = disk.interference().upstream() == 0;
        let torn = walk.items.last().filter(found).filter(|item| !item.whole).map(|item| item.header.position);
        let dropped = walk.items.iter().filter(found).find(|item| item.whole && void.has(&item.header));
        let dropped = dropped.map(|item| item.header.position);
        // Where sectors may be written twice, what is of no use is overwritten; else the next header tells of it.
        let bad =
            dropped.or(torn).or(last.filter(|header| header.kind == HeaderKind::Void).map(|header| header.position));
        if let (true, Some(position)) = (again, bad) {
            slots.head = position;
        }
        slots.void_from = torn.filter(|_| !again);
        if let Some(position) = dropped {
            slots
                .write_void(disk, &CacheHeader { epoch, done, ..CacheHeader::new(HeaderKind::Void, 0, position, 0) })?;
            slots.head += u64::from(!again);
            slots.void_from = None;
        }
        let mut newest = vec![None; slots.slot_of.len()];
        for item in walk.items.iter().filter(|item| void.spares(item, HeaderKind::Slot)) {
            let (header, best) = (item.header, &mut newest[item.header.what as usize]);
            if best.is_none_or(|best: (u64, u64)| best < (header.number, header.position)) {
                *best = Some((header.number, header.position));
            }
        }
        slots.owner.fill(NONE);
        for (sblock, newest) in newest.iter().enumerate() {
            // What was never written is where it was at first.
            let position = newest.map_or(sblock as u64, |(_, position)| position);
            let slot = slots.slot(position);
            if position < slots.tail || slots.owner[slot as usize] != NONE {
                return inconsistent(format!("S-block {sblock} of section {section} is nowhere to be found"));
            }
            slots.owner[slot as usize] = sblock as u32;
            slots.slot_of[sblock] = slot as u32;
        }
        slots.find_invalid();
        Ok(())
    }

    /// Head, tail and entries of a cache buffer.
    fn restore_cache(&mut self, disk: &mut Disk, section: usize, walk: &Walk, void: VoidRequest) -> DiskResult {
        let again = disk.interference().upstream() == 0;
        let good = |item: &Item| void.spares(item, HeaderKind::Entry);
        let mut items = walk.items.as_slice();
        let mut head = walk.head;
        // Where sectors may be written again, what is torn or void at the end makes room.
        let dropped = items.iter().find(|item| item.whole && void.has(&item.header)).map(|item| item.header.position);
        while let (true, [rest @ .., last]) = (again, items)
            && !good(last)
            && last.header.kind == HeaderKind::Entry
        {
            (items, head) = (rest, last.header.position);
        }
        let (epoch, done) = (self.epoch, walk.done);
        let cache = &mut self.caches[section];
        if walk.tail > head || head - walk.tail > cache.pages() * cache.payload() {
            return inconsistent(format!("cache buffer {section} begins at {} and ends at {head}", walk.tail));
        }
        (cache.head, cache.tail) = (head, walk.tail);
        cache.begun = walk.begun.filter(|&begun| !again && begun == head);
        let mut at = cache.tail;
        for (i, item) in items.iter().enumerate() {
            let end = items.get(i + 1).map_or(head, |next| next.header.position);
            if at < item.header.position {
                cache.push(HeaderEntry::void(item.header.position - at));
            }
            let header = item.header;
            cache.push(if good(item) {
                HeaderEntry::new(Lba(header.what), header.extent)
            } else {
                HeaderEntry::void(end - header.position)
            });
            at = if good(item) { header.position + 1 + header.extent } else { end };
        }
        if at < head {
            cache.push(HeaderEntry::void(head - at));
        }
        if let Some(position) = dropped {
            let note = CacheHeader::new(HeaderKind::Void, 0, position.min(cache.head), 0);
            cache.append(disk, Cause::Map, epoch, done, &[AppendPiece::Header(note)])?;
            cache.push(HeaderEntry::void(1));
        }
        Ok(())
    }

    /// Maps what is cached and newer than its S-block.
    fn restore_map(&mut self, section: usize, cached: &[Item], slots: &[Item], void: VoidRequest) {
        let natives = self.layout.natives;
        let mut written = vec![0; natives as usize];
        for item in slots.iter().filter(|item| void.spares(item, HeaderKind::Slot)) {
            let newest = &mut written[item.header.what as usize];
            *newest = item.header.number.max(*newest);
        }
        let good = cached.iter().filter(|item| void.spares(item, HeaderKind::Entry));
        let mut entries: Vec<CacheHeader> = good.map(|item| item.header).collect();
        entries.sort_unstable_by_key(|header| (header.number, header.position));
        let first = section as u64 * natives;
        for header in entries {
            let mut at = header.what;
            for (sblock, _, count) in pieces_by_divisor(header.what, header.extent, self.size) {
                if header.number > written[(sblock - first) as usize] {
                    let from = header.position + 1 + (at - header.what);
                    for (position, pba, n) in self.caches[section].runs(from, count) {
                        self.map.insert(Lba(at + (position - from)), n, pba);
                    }
                }
                at += count;
            }
        }
        let size = self.size.value();
        for sblock in first..first + natives {
            let cached: u64 = self.map.mapped(Lba(sblock * size), size).map(|(_, n, _)| n).sum();
            if cached > 0 {
                self.count_cached(section, sblock, cached as i64);
            }
        }
    }
}

/// The numbers of the request that was written in part, if one was.
#[derive(Clone, Copy)]
struct VoidRequest(Option<(u64, u64)>);

impl VoidRequest {
    /// True if a header is the request's.
    fn has(self, header: &CacheHeader) -> bool {
        self.0.is_some_and(|(from, to)| (from..=to).contains(&header.number))
    }

    /// True if an item is of that kind, whole, and not the request's.
    fn spares(self, item: &Item, kind: HeaderKind) -> bool {
        item.header.kind == kind && item.whole && !self.has(&item.header)
    }
}

fn items<'a>(walks: impl Iterator<Item = &'a Walk>) -> impl Iterator<Item = &'a Item> {
    walks.flat_map(|walk| &walk.items).filter(|item| item.header.kind != HeaderKind::Void)
}

/// The numbers of the request of `newest`, if not all of it was written.
fn incomplete<'a>(newest: &CacheHeader, done: u64, mut items: impl Iterator<Item = &'a Item>) -> Option<(u64, u64)> {
    let (first, last) = newest.request();
    let complete = done >= last || items.any(|item| item.whole && item.header.number == last);
    (!complete).then_some((first, last))
}
