//! An S-block buffer: a circle of slots, each with a header and an S-block, written at the head and given up at the tail.

use super::index::Bits;
use super::layout::SBlockLayout;
use super::record::{CacheHeader, HeaderKind};
use crate::disk::Disk;
use crate::error::{DiskResult, Fault};
use crate::geometry::Divisor;
use crate::layer::COUNT_MAX;
use crate::medium::{Buf, WritePart};
use crate::state::state;
use crate::tally::Cause;
use crate::units::Pba;

/// A slot without a valid S-block.
pub const NONE: u32 = u32::MAX;

/// Places of slots.
#[derive(Clone, Copy)]
pub struct SlotPlaces {
    start: Pba,
    /// Sectors of a slot: header and S-block.
    stride: u64,
}

impl SlotPlaces {
    /// Place of the first sector of the S-block in a slot.
    pub fn data_start(&self, slot: u64) -> Pba {
        self.start + slot * self.stride + 1
    }
}

/// The circle, and what lies in it. Positions count the slots ever written.
pub struct SlotBuffer {
    start: Pba,
    /// Sectors of a slot: header and S-block.
    stride: u64,
    slots: Divisor,
    guard_slots: u64,
    /// Number of slots that may be in use between two destages: all S-blocks, and the spare ones.
    pub limit: u64,
    /// Slot of the next S-block.
    pub head: u64,
    /// The oldest slot not given up.
    pub tail: u64,
    /// From where on to the head a power cut has left nothing of use; the next header says so.
    pub void_from: Option<u64>,
    /// The S-block (in its section) whose newest copy is in a slot, or `NONE`.
    pub owner: Vec<u32>,
    /// The slot of each S-block.
    pub slot_of: Vec<u32>,
    /// Slots whose S-blocks have valid sectors in the cache buffer.
    pub cached: Bits,
    /// Slots in use without a valid S-block.
    invalid: Bits,
    /// True while an S-block is being written to the head.
    under_way: bool,
    /// True if a second write to a sector wears those before it.
    wears: bool,
}

state! {
    SlotBuffer {
        parts: cached, invalid;
        sized: owner, slot_of;
        values: head, tail, void_from, under_way;
        built: start, stride, slots, guard_slots, limit, wears;
    }
}

impl SlotBuffer {
    /// All S-blocks in order.
    pub fn new(start: Pba, layout: &SBlockLayout) -> SlotBuffer {
        let natives = layout.natives as u32;
        let mut owner: Vec<u32> = (0..natives).collect();
        owner.resize(layout.slots as usize, NONE);
        SlotBuffer {
            start,
            stride: layout.sblock_sectors + 1,
            slots: Divisor::new(layout.slots),
            guard_slots: layout.guard_slots,
            limit: layout.natives + layout.spares,
            head: layout.natives,
            tail: 0,
            void_from: None,
            owner,
            slot_of: (0..natives).collect(),
            cached: Bits::new(layout.slots),
            invalid: Bits::new(layout.slots),
            under_way: false,
            wears: layout.wears,
        }
    }

    /// True if a restored state names S-blocks and slots that there are.
    pub fn is_possible(&self) -> bool {
        let (slots, natives) = (self.slots.value(), self.slot_of.len() as u64);
        let owned = self.owner.iter().all(|&owner| owner == NONE || u64::from(owner) < natives);
        let placed = self.slot_of.iter().all(|&slot| u64::from(slot) < slots);
        let marked = self.cached.next(slots).is_none() && self.invalid.next(slots).is_none();
        owned && placed && marked && self.tail <= self.head && self.head < COUNT_MAX
    }

    /// Number of slots.
    pub fn slots(&self) -> u64 {
        self.slots.value()
    }

    /// The slot of a position.
    pub fn slot(&self, position: u64) -> u64 {
        self.slots.remainder(position)
    }

    /// Places of the slots.
    pub fn places(&self) -> SlotPlaces {
        SlotPlaces { start: self.start, stride: self.stride }
    }

    /// Beginning of a slot: its header.
    #[inline]
    pub fn pba(&self, slot: u64) -> Pba {
        self.start + slot * self.stride
    }

    /// Place of the first sector of an S-block.
    #[inline]
    pub fn place(&self, sblock: u32) -> Pba {
        self.places().data_start(u64::from(self.slot_of[sblock as usize]))
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

    /// Writes an S-block (sectors of `data` from `at` on) at the head; its old slot is invalid from then on.
    pub fn write(&mut self, disk: &mut Disk, cause: Cause, header: &CacheHeader, data: &Buf, at: u64) -> DiskResult {
        if self.head + self.guard_slots >= self.tail + self.slots.value() {
            let message = format!("an S-block buffer has no slot left of {}", self.slots.value());
            return Err(Box::new(Fault::Inconsistent(message)));
        }
        let slot = self.slots.remainder(self.head);
        let pba = self.pba(slot);
        self.under_way = true;
        if disk.holds_data() {
            let (position, extent) = (self.head, self.void_from.unwrap_or(self.head));
            let header = CacheHeader { position, tail: self.tail, extent, ..*header };
            let (words, labels, before_last) = (header.words(), [header.label()], self.stride - 2);
            let parts = [
                WritePart::Record { words: &words, sectors: 1 },
                WritePart::Data { buf: data, at, sectors: before_last },
                WritePart::Labelled { buf: data, at: at + before_last, sectors: 1, labels: &labels },
            ];
            disk.write_parts(pba, cause, &parts)?;
        } else {
            disk.write(pba, self.stride, cause, data, at)?;
        }
        self.under_way = false;
        self.head += 1;
        self.void_from = None;
        self.settle(header.what as u32, slot as u32);
        Ok(())
    }

    /// The power was cut: what was being written is void. Where nothing wears, it is written over.
    pub fn power_cut(&mut self) {
        if std::mem::take(&mut self.under_way) && self.wears {
            self.invalid.insert(self.slot(self.head));
            self.head += 1;
        }
    }

    /// An S-block lies in a new slot.
    fn settle(&mut self, sblock: u32, slot: u32) {
        let old = std::mem::replace(&mut self.slot_of[sblock as usize], slot);
        self.owner[old as usize] = NONE;
        self.invalid.insert(u64::from(old));
        self.owner[slot as usize] = sblock;
        if self.cached.contains(u64::from(old)) {
            self.cached.remove(u64::from(old));
            self.cached.insert(u64::from(slot));
        }
    }

    /// True if an S-block has valid sectors in the cache buffer.
    #[inline]
    pub fn mark_cached(&mut self, sblock: u32, cached: bool) {
        let slot = u64::from(self.slot_of[sblock as usize]);
        if cached { self.cached.insert(slot) } else { self.cached.remove(slot) }
    }

    /// The slots with cached S-blocks, the one closest to the tail first.
    pub fn cached_from_tail(&self) -> impl Iterator<Item = u64> + '_ {
        let tail = self.slot(self.tail);
        let from = |first: u64, end: u64| {
            let mut at = first;
            std::iter::from_fn(move || {
                let found = self.cached.next(at).filter(|&slot| slot < end)?;
                at = found + 1;
                Some(found)
            })
        };
        from(tail, self.slots.value()).chain(from(0, tail))
    }

    /// Distance of a slot behind the tail.
    pub fn distance(&self, slot: u64) -> u64 {
        (slot + self.slots.value() - self.slot(self.tail)) % self.slots.value()
    }

    /// Algorithm V.5, one slot: the tail moves on, past a copy at the head if its S-block is valid. Returns whether it was.
    pub fn advance(&mut self, disk: &mut Disk, epoch: u64, done: u64, buf: &mut Buf) -> DiskResult<bool> {
        let sblock = self.at_tail();
        if sblock != NONE {
            disk.read(self.pba(self.slot(self.tail)), self.stride, Cause::Clean, buf, 0)?;
            // What was never written has no header yet.
            let words = if disk.holds_data() { disk.record_in(buf, 0, 1)? } else { None };
            let header =
                words.and_then(|words| CacheHeader::parse(&words)).filter(|header| header.kind == HeaderKind::Slot);
            let header = header.unwrap_or(CacheHeader::new(HeaderKind::Slot, 0, u64::from(sblock), 0));
            self.write(disk, Cause::Clean, &CacheHeader { epoch, done, ..header }, buf, 1)?;
        }
        self.leave_tail();
        Ok(sblock != NONE)
    }

    /// Gives up the slot at the tail, in which nothing is valid any more.
    fn leave_tail(&mut self) {
        self.invalid.remove(self.slot(self.tail));
        self.tail += 1;
    }

    /// Gives up the slots at the tail in which nothing is valid.
    pub fn skip_invalid(&mut self) {
        while self.tail < self.head && self.at_tail() == NONE {
            self.leave_tail();
        }
    }

    /// After a power cut: which slots hold nothing valid.
    pub fn find_invalid(&mut self) {
        self.invalid = Bits::new(self.slots.value());
        for position in self.tail..self.head {
            let slot = self.slot(position);
            if self.is_unowned(slot) {
                self.invalid.insert(slot);
            }
        }
    }

    fn is_unowned(&self, slot: u64) -> bool {
        self.owner[slot as usize] == NONE
    }

    /// True if it is known of each slot whether something valid is in it, for checks.
    pub fn knows_invalid(&self) -> bool {
        let in_use = |slot: u64| self.distance(slot) < self.used();
        (0..self.slots.value()).all(|slot| self.invalid.contains(slot) == (in_use(slot) && self.is_unowned(slot)))
    }

    /// Number of S-blocks between the tail and the next slot in which nothing is valid, if there is one.
    pub fn valid_at_tail(&self) -> Option<u64> {
        let tail = self.slot(self.tail);
        let next = self.invalid.next(tail).or_else(|| self.invalid.next(0))?;
        Some(self.distance(next))
    }

    /// Notes at the head that the requests of `header` are void.
    pub fn write_void(&mut self, disk: &mut Disk, header: &CacheHeader) -> DiskResult {
        let words = CacheHeader { position: self.head, tail: self.tail, ..*header }.words();
        disk.write_parts(self.pba(self.slot(self.head)), Cause::Map, &[WritePart::Record { words: &words, sectors: 1 }])
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.owner.len() + self.slot_of.len()) as u64 * 4 + self.cached.bytes() + self.invalid.bytes()
    }
}
