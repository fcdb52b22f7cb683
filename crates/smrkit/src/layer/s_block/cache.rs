//! The two buffers, and the sets in which the next S-block to destage is found.
//!
//! # Cache buffer
//!
//! A circular buffer of pages. Entries (a header, then data) are appended at the head and released at the tail.
//!
//! Positions count the sectors ever appended, without page records. A page begins with a record at a fixed place, from which the chain of
//! headers could be followed. A page is overwritten only when the tail has left both this page and the pages downstream that the write may
//! damage.
//!
//! # S-block buffer
//!
//! A circular buffer of slots, each with a header and an S-block, written at the head and released at the tail. Policies find the next
//! S-block to destage without a scan: [`Bits`] finds the slot nearest the tail, [`Largest`] the S-block with the most cached sectors.

use std::collections::VecDeque;

use super::SBlockLayout;
use crate::geometry::Divisor;
use crate::layer::prelude::*;
use crate::layer::runs::LoggedRun;

/// Sectors of the cache buffer that an entry takes, with its header.
pub fn length_of(entry: LoggedRun) -> u64 {
    entry.sectors() + 1
}

pub struct CacheBuffer {
    start: Pba,
    page_sectors: u64,
    /// Sectors of a page without its record.
    pub payload: Divisor,
    pub pages: Divisor,
    guard_pages: u64,
    /// Position at which the next entry is appended.
    pub head: u64,
    /// Position of the oldest entry.
    pub tail: u64,
    /// From tail to head.
    pub entries: VecDeque<LoggedRun>,
    /// Sectors that entries with data take, with headers.
    pub entry_sectors: u64,
    /// Sectors of data in these entries, valid or not.
    pub data: u64,
    /// Sectors of data to which the map points.
    pub valid: u64,
    /// Sectors of the append in progress, which a power cut would tear.
    under_way: u64,
    damages_upstream: bool,
}

state! {
    CacheBuffer {
        parts: entries;
        values: head, tail, entry_sectors, data, valid, under_way;
        built: start, page_sectors, payload, pages, guard_pages, damages_upstream;
    }
}

impl CacheBuffer {
    pub fn new(start: Pba, layout: &SBlockLayout) -> CacheBuffer {
        CacheBuffer {
            start,
            page_sectors: layout.page_sectors,
            payload: Divisor::new(layout.page_sectors - 1),
            pages: Divisor::new(layout.pages),
            guard_pages: layout.guard_pages,
            head: 0,
            tail: 0,
            entries: VecDeque::new(),
            entry_sectors: 0,
            data: 0,
            valid: 0,
            under_way: 0,
            damages_upstream: layout.damages_upstream,
        }
    }

    fn page_start(&self, page: u64) -> Pba {
        self.start + self.pages.remainder(page) * self.page_sectors
    }

    /// Sectors that may be appended. Neither they nor the sectors that they damage may reach the page of the tail.
    #[inline]
    pub fn room(&self) -> u64 {
        let end = (self.payload.quotient(self.tail) + self.pages.value - self.guard_pages) * self.payload.value;
        end.saturating_sub(self.head)
    }

    /// Sectors of data that are no longer mapped.
    pub fn invalid(&self) -> u64 {
        self.data - self.valid
    }

    #[inline]
    pub fn pba(&self, position: u64) -> Pba {
        let (page, offset) = self.payload.divide(position);
        self.page_start(page) + 1 + offset
    }

    /// Place of the data of an entry at a position; `None` if a page record divides it.
    #[inline]
    pub fn undivided(&self, position: u64, entry: LoggedRun) -> Option<Pba> {
        // The entry's header takes its first sector. Offsets in a page do not count the page's record.
        let (page, offset) = self.payload.divide(position + 1);
        (offset + entry.sectors() <= self.payload.value).then(|| self.page_start(page) + 1 + offset)
    }

    /// Divides `length` sectors from a position on into contiguous runs, between which page records lie: (position, PBA, sectors).
    #[inline]
    pub fn runs(&self, position: u64, length: u64) -> impl Iterator<Item = (u64, Pba, u64)> + use<> {
        let (mut at, end) = (position, position + length);
        let (page_sectors, payload, pages, start) = (self.page_sectors, self.payload, self.pages, self.start);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (page, offset) = payload.divide(at);
            let count = (payload.value - offset).min(end - at);
            let run = (at, start + pages.remainder(page) * page_sectors + 1 + offset, count);
            at += count;
            Some(run)
        })
    }

    /// The access (PBA, sectors) that covers `length` sectors from a position on, and a second one if they continue at the buffer's beginning,
    /// else of 0 sectors. Page records between the sectors are included; one before the first sector is not.
    #[inline]
    fn accesses(&self, position: u64, length: u64) -> [(Pba, u64); 2] {
        let (first, last) = (self.pba(position), self.pba(position + length - 1));
        if first <= last {
            return [(first, last - first + 1), (self.start, 0)];
        }
        let end = self.start + self.pages.value * self.page_sectors;
        [(first, end - first), (self.start, last - self.start + 1)]
    }

    /// Reads `length` sectors from a position on. The result includes the page records between them: [`CacheBuffer::offset_in_read`] finds a
    /// position in it.
    pub fn read(&self, disk: &mut Disk, position: u64, length: u64) -> DiskResult<Buf> {
        let accesses = self.accesses(position, length);
        let mut out = disk.buf(accesses.iter().map(|access| access.1).sum());
        let mut at = 0;
        for (pba, sectors) in accesses.into_iter().filter(|access| access.1 > 0) {
            disk.read(pba, sectors, Cause::Clean, &mut out, at)?;
            at += sectors;
        }
        Ok(out)
    }

    /// The sector at which `position` is in a buffer that was read from position `first` on.
    pub fn offset_in_read(&self, first: u64, position: u64) -> u64 {
        position - first + self.payload.quotient(position) - self.payload.quotient(first)
    }

    /// Appends entries of `length` sectors in total, with headers, in one access, or two where the buffer wraps around. `data` lists the
    /// entries' data: position, sectors, and the first sector in `buf`.
    #[inline]
    pub fn append(
        &mut self,
        disk: &mut Disk,
        cause: Cause,
        length: u64,
        buf: &Buf,
        data: impl Iterator<Item = (u64, u64, u64)>,
    ) -> DiskResult {
        if length > self.room() {
            return inconsistent(format!("a cache buffer has room for {} sectors, not for {length}", self.room()));
        }
        // A page's record is written together with the first entry in the page.
        let record = u64::from(self.payload.remainder(self.head) == 0);
        let [(first, sectors), (start, wrapped)] = self.accesses(self.head, length);
        let sectors = record + sectors;
        let entries = match disk.holds_data() {
            true => self.laid_out(disk.metadata(sectors + wrapped), record, buf, data),
            false => Buf::NoData,
        };
        // Until both writes are done, a power cut makes these sectors void.
        self.under_way = length;
        disk.write(first - record, sectors, cause, &entries, 0)?;
        if wrapped > 0 {
            disk.write(start, wrapped, cause, &entries, sectors)?;
        }
        self.under_way = 0;
        self.head += length;
        Ok(())
    }

    /// Puts data between the headers of `entries`, which begin with `record` sectors of a page's record.
    #[cold]
    fn laid_out(&self, mut entries: Buf, record: u64, buf: &Buf, data: impl Iterator<Item = (u64, u64, u64)>) -> Buf {
        for (position, sectors, at) in data {
            for (run, _, count) in self.runs(position, sectors) {
                entries.put(record + self.offset_in_read(self.head, run), buf, at + (run - position), count);
            }
        }
        entries
    }

    /// After a power cut, adds an entry without data for a torn append, so that its sectors are not written again before the tail has passed them.
    /// Unless rewriting them may damage sectors upstream, the next append simply overwrites them.
    pub fn power_cut(&mut self) {
        let torn = std::mem::take(&mut self.under_way);
        if self.damages_upstream && torn > 0 {
            // The rest of the entry is its header.
            self.push(LoggedRun::skipped(torn - 1));
            self.head += torn;
        }
    }

    /// Adds an entry that has been appended.
    #[inline]
    pub fn push(&mut self, entry: LoggedRun) {
        self.entries.push_back(entry);
        if entry.lba().is_some() {
            self.entry_sectors += length_of(entry);
            self.data += entry.sectors();
        }
    }

    /// Releases the entry at the tail.
    pub fn pop(&mut self) -> Option<LoggedRun> {
        let entry = self.entries.pop_front()?;
        self.tail += length_of(entry);
        if entry.lba().is_some() {
            self.entry_sectors -= length_of(entry);
            self.data -= entry.sectors();
        }
        Some(entry)
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.entries.capacity() * size_of::<LoggedRun>()) as u64
    }
}

/// A slot without a valid S-block.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
pub struct SlotPlaces {
    start: Pba,
    /// Sectors of a slot: header and S-block.
    stride: u64,
}

impl SlotPlaces {
    fn header(&self, slot: u64) -> Pba {
        self.start + slot * self.stride
    }

    /// Place of the first sector of the S-block in a slot.
    pub fn data_start(&self, slot: u64) -> Pba {
        self.header(slot) + 1
    }
}

/// The circular buffer of S-blocks. `head` and `tail` are positions, which count the slots ever written.
pub struct SlotBuffer {
    pub places: SlotPlaces,
    slots: Divisor,
    guard_slots: u64,
    /// Number of slots that may be in use between two destages: one for each S-block, and the spare ones.
    pub limit: u64,
    /// Position of the next S-block to be written.
    pub head: u64,
    /// Position of the oldest slot in use.
    pub tail: u64,
    /// The S-block (in its section) whose newest copy is in a slot, or `NONE`.
    pub owner: Vec<u32>,
    pub slot_of: Vec<u32>,
    /// Slots whose S-blocks have valid sectors in the cache buffer.
    pub cached: Bits,
    /// Slots in use without a valid S-block.
    pub invalid: Bits,
    /// True while an S-block is being written to the head.
    under_way: bool,
    damages_upstream: bool,
}

state! {
    SlotBuffer {
        parts: cached, invalid;
        sized: owner, slot_of;
        values: head, tail, under_way;
        built: places, slots, guard_slots, limit, damages_upstream;
    }
}

impl SlotBuffer {
    /// A buffer with all S-blocks in order.
    pub fn new(start: Pba, layout: &SBlockLayout) -> SlotBuffer {
        let natives = layout.natives as u32;
        let mut owner: Vec<u32> = (0..natives).collect();
        owner.resize(layout.slots as usize, NONE);
        SlotBuffer {
            places: SlotPlaces { start, stride: layout.sblock_sectors + 1 },
            slots: Divisor::new(layout.slots),
            guard_slots: layout.guard_slots,
            limit: layout.natives + layout.spares,
            head: layout.natives,
            tail: 0,
            owner,
            slot_of: (0..natives).collect(),
            cached: Bits::new(layout.slots),
            invalid: Bits::new(layout.slots),
            under_way: false,
            damages_upstream: layout.damages_upstream,
        }
    }

    pub fn slots(&self) -> u64 {
        self.slots.value
    }

    pub fn slot(&self, position: u64) -> u64 {
        self.slots.remainder(position)
    }

    /// Place of the first sector of an S-block.
    pub fn place(&self, sblock: u32) -> Pba {
        self.places.data_start(u64::from(self.slot_of[sblock as usize]))
    }

    /// Slots in use, valid or not.
    pub fn used(&self) -> u64 {
        self.head - self.tail
    }

    /// S-blocks that may be added before the buffer is full.
    pub fn spare(&self) -> u64 {
        self.limit.saturating_sub(self.used())
    }

    /// The owner of the slot at the tail.
    pub fn at_tail(&self) -> u32 {
        self.owner[self.slot(self.tail) as usize]
    }

    /// Writes an S-block (the sectors of `data` from `at` on) at the head, which makes its old slot invalid.
    pub fn write(&mut self, disk: &mut Disk, cause: Cause, sblock: u32, data: &Buf, at: u64) -> DiskResult {
        if self.head + self.guard_slots >= self.tail + self.slots.value {
            return inconsistent(format!("an S-block buffer has no slot left of {}", self.slots.value));
        }
        let (slot, SlotPlaces { stride, .. }) = (self.slot(self.head), self.places);
        // The first sector is the slot's header.
        let mut written = disk.metadata(stride);
        written.put(1, data, at, stride - 1);
        self.under_way = true;
        disk.write(self.places.header(slot), stride, cause, &written, 0)?;
        self.under_way = false;
        self.head += 1;
        let old = u64::from(std::mem::replace(&mut self.slot_of[sblock as usize], slot as u32));
        self.owner[old as usize] = NONE;
        self.invalid.insert(old);
        self.owner[slot as usize] = sblock;
        if self.cached.contains(old) {
            self.cached.remove(old);
            self.cached.insert(slot);
        }
        Ok(())
    }

    /// After a power cut, skips a slot that was being written, unless it can be rewritten without damage upstream.
    pub fn power_cut(&mut self) {
        if std::mem::take(&mut self.under_way) && self.damages_upstream {
            self.invalid.insert(self.slot(self.head));
            self.head += 1;
        }
    }

    /// Notes whether an S-block has valid sectors in the cache buffer.
    pub fn mark_cached(&mut self, sblock: u32, cached: bool) {
        let slot = u64::from(self.slot_of[sblock as usize]);
        if cached { self.cached.insert(slot) } else { self.cached.remove(slot) }
    }

    /// The slots with cached S-blocks, the one closest to the tail first.
    pub fn cached_from_tail(&self) -> impl Iterator<Item = u64> + '_ {
        let tail = self.slot(self.tail);
        let cached_in = |first: u64, end: u64| {
            let mut at = first;
            std::iter::from_fn(move || {
                let found = self.cached.next(at).filter(|&slot| slot < end)?;
                at = found + 1;
                Some(found)
            })
        };
        cached_in(tail, self.slots.value).chain(cached_in(0, tail))
    }

    /// Number of slots from the tail to a slot.
    pub fn distance(&self, slot: u64) -> u64 {
        (slot + self.slots.value - self.slot(self.tail)) % self.slots.value
    }

    /// Advances the tail by one slot (a step of algorithm V.5), after copying its S-block to the head if the slot is valid. Returns whether
    /// it was.
    pub fn advance(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        let sblock = self.at_tail();
        if sblock != NONE {
            let SlotPlaces { stride, .. } = self.places;
            let mut buf = disk.buf(stride);
            disk.read(self.places.header(self.slot(self.tail)), stride, Cause::Clean, &mut buf, 0)?;
            let after_header = 1;
            self.write(disk, Cause::Clean, sblock, &buf, after_header)?;
        }
        // Only now: until the copy is written, the slot has the only copy of its S-block.
        self.leave_tail();
        Ok(sblock != NONE)
    }

    /// Releases the slot at the tail, in which nothing is valid any more.
    fn leave_tail(&mut self) {
        self.invalid.remove(self.slot(self.tail));
        self.tail += 1;
    }

    /// Releases the slots at the tail in which nothing is valid.
    pub fn skip_invalid(&mut self) {
        while self.tail < self.head && self.at_tail() == NONE {
            self.leave_tail();
        }
    }

    pub fn is_unowned(&self, slot: u64) -> bool {
        self.owner[slot as usize] == NONE
    }

    /// Number of valid slots from the tail to the next invalid one, if there is one.
    pub fn valid_at_tail(&self) -> Option<u64> {
        let tail = self.slot(self.tail);
        let next = self.invalid.next(tail).or_else(|| self.invalid.next(0))?;
        Some(self.distance(next))
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.owner.len() + self.slot_of.len()) as u64 * 4 + self.cached.bytes() + self.invalid.bytes()
    }
}

/// A set of numbers below a bound, as a tree of bits: the lowest level has a bit for each number, and each higher level a bit for each word
/// of the level below, set if that word has members.
pub struct Bits {
    levels: Vec<Vec<u64>>,
}

impl Bits {
    pub fn new(bound: u64) -> Bits {
        let mut levels = Vec::new();
        let mut words = bound.div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words as usize]);
            if words == 1 {
                return Bits { levels };
            }
            words = words.div_ceil(64);
        }
    }

    #[inline]
    pub fn insert(&mut self, mut i: u64) {
        for level in &mut self.levels {
            let word = &mut level[(i / 64) as usize];
            let was = *word;
            *word |= 1 << (i % 64);
            // The levels above know a word that had members.
            if was != 0 {
                return;
            }
            i /= 64;
        }
    }

    pub fn remove(&mut self, mut i: u64) {
        for level in &mut self.levels {
            let word = &mut level[(i / 64) as usize];
            *word &= !(1 << (i % 64));
            if *word != 0 {
                return;
            }
            i /= 64;
        }
    }

    pub fn contains(&self, i: u64) -> bool {
        self.levels[0][(i / 64) as usize] >> (i % 64) & 1 == 1
    }

    /// The least member that is at least `from`.
    pub fn next(&self, from: u64) -> Option<u64> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let masked = level.get((at / 64) as usize)? & (u64::MAX << (at % 64));
            if masked != 0 {
                let found = at / 64 * 64 + u64::from(masked.trailing_zeros());
                return Some(self.descend(height, found));
            }
            at = at / 64 + 1;
        }
        None
    }

    /// The least member under bit `i` of the level at `height`.
    fn descend(&self, height: usize, mut i: u64) -> u64 {
        for level in self.levels[..height].iter().rev() {
            i = i * 64 + u64::from(level[i as usize].trailing_zeros());
        }
        i
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.len() as u64 * 8).sum()
    }
}

/// Values by number, of which the largest is found at once; of equal values, the one with the lowest number.
pub struct Largest {
    /// A binary tree in one vector: the root at 1, the values from `leaves` on.
    tree: Vec<u32>,
    leaves: usize,
}

impl Largest {
    pub fn new(count: usize) -> Largest {
        let leaves = count.next_power_of_two();
        Largest { tree: vec![0; 2 * leaves], leaves }
    }

    pub fn set(&mut self, i: usize, value: u32) {
        let mut at = self.leaves + i;
        self.tree[at] = value;
        while at > 1 {
            at /= 2;
            let larger = self.tree[2 * at].max(self.tree[2 * at + 1]);
            if std::mem::replace(&mut self.tree[at], larger) == larger {
                return;
            }
        }
    }

    pub fn value(&self, i: usize) -> u32 {
        self.tree[self.leaves + i]
    }

    /// The number with the largest value, and the value.
    pub fn top(&self) -> (usize, u32) {
        let mut at = 1;
        while at < self.leaves {
            at *= 2;
            at += usize::from(self.tree[at + 1] > self.tree[at]);
        }
        (at - self.leaves, self.tree[at])
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        self.tree.len() as u64 * 4
    }
}

state! { Bits { values: levels; } }

state! { Largest { values: tree; built: leaves; } }

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_agree_with_a_set(ops in prop::collection::vec((0u64..20_000, any::<bool>()), 1..300), asks in prop::collection::vec(0u64..20_100, 20)) {
            let (mut bits, mut model) = (Bits::new(20_000), BTreeSet::new());
            for (i, insert) in ops {
                if insert { bits.insert(i); model.insert(i); } else { bits.remove(i); model.remove(&i); }
            }
            for from in asks {
                prop_assert_eq!(bits.next(from), model.range(from..).next().copied());
            }
        }

        #[test]
        fn the_largest_is_found(count in 1usize..70, ops in prop::collection::vec((0usize..70, 0u32..9), 1..100)) {
            let (mut tree, mut model) = (Largest::new(count), vec![0; count]);
            for (i, value) in ops {
                let i = i % count;
                tree.set(i, value);
                model[i] = value;
                let most = *model.iter().max().unwrap();
                prop_assert_eq!(tree.top(), (model.iter().position(|&v| v == most).unwrap(), most));
            }
        }
    }
}
