//! An S-block buffer: a circle of slots, each with a header and an S-block, written at the head and given up at the tail. What is to
//! be destaged is found without a scan: by a set of slots that gives its next member, and a tree that knows its largest.

use super::keys::SBlockLayout;
use crate::disk::Disk;
use crate::error::{DiskResult, Fault};
use crate::geometry::Divisor;
use crate::layer::COUNT_MAX;
use crate::medium::Buf;
use crate::state::{self, State, state};
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
    /// The S-block (in its section) whose newest copy is in a slot, or `NONE`.
    pub owner: Vec<u32>,
    /// The slot of each S-block.
    pub slot_of: Vec<u32>,
    /// Slots whose S-blocks have valid sectors in the cache buffer.
    pub cached: Bits,
    /// Slots in use without a valid S-block.
    pub invalid: Bits,
    /// True while an S-block is being written to the head.
    under_way: bool,
    /// True if a second write to a sector wears those before it.
    wears: bool,
}

state! {
    SlotBuffer {
        parts: cached, invalid;
        sized: owner, slot_of;
        values: head, tail, under_way;
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
    pub fn write(&mut self, disk: &mut Disk, cause: Cause, sblock: u32, data: &Buf, at: u64) -> DiskResult {
        if self.head + self.guard_slots >= self.tail + self.slots.value() {
            let message = format!("an S-block buffer has no slot left of {}", self.slots.value());
            return Err(Box::new(Fault::Inconsistent(message)));
        }
        let slot = self.slots.remainder(self.head);
        let mut written = disk.metadata(self.stride);
        written.put(1, data, at, self.stride - 1);
        self.under_way = true;
        disk.write(self.pba(slot), self.stride, cause, &written, 0)?;
        self.under_way = false;
        self.head += 1;
        self.settle(sblock, slot as u32);
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
    pub fn advance(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        let sblock = self.at_tail();
        if sblock != NONE {
            let mut buf = disk.buf(self.stride);
            disk.read(self.pba(self.slot(self.tail)), self.stride, Cause::Clean, &mut buf, 0)?;
            self.write(disk, Cause::Clean, sblock, &buf, 1)?;
        }
        // The slot is given up once its S-block lies elsewhere.
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

    pub fn is_unowned(&self, slot: u64) -> bool {
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

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.owner.len() + self.slot_of.len()) as u64 * 4 + self.cached.bytes() + self.invalid.bytes()
    }
}

/// A set of numbers below a bound; bits in words, and a bit for each word with members, and so on.
pub struct Bits {
    levels: Vec<Vec<u64>>,
}

impl Bits {
    /// An empty set of numbers below `bound`.
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

    /// Puts a number in.
    #[inline]
    pub fn insert(&mut self, mut i: u64) {
        for level in &mut self.levels {
            let word = &mut level[(i / 64) as usize];
            let was = *word;
            *word |= 1 << (i % 64);
            if was != 0 {
                return;
            }
            i /= 64;
        }
    }

    /// Takes a number out.
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

    /// True if a number is in.
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

/// Values by number, and which number has the largest; of equal ones the lowest.
pub struct Largest {
    /// A binary tree in one vector: the root at 1, the values from `leaves` on.
    tree: Vec<u32>,
    leaves: usize,
}

impl Largest {
    /// A number of values of 0.
    pub fn new(count: usize) -> Largest {
        let leaves = count.next_power_of_two();
        Largest { tree: vec![0; 2 * leaves], leaves }
    }

    /// Changes a value.
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

    /// A value.
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

/// Saved are the members; the bits over words with members follow.
impl State for Bits {
    fn save(&self, out: &mut Vec<u8>) {
        state::write(&self.levels[0], out);
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        state::read_sized(&mut self.levels[0], from)?;
        for height in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(height);
            above[0].fill(0);
            for (i, _) in below[height - 1].iter().enumerate().filter(|(_, word)| **word != 0) {
                above[0][i / 64] |= 1 << (i % 64);
            }
        }
        Ok(())
    }
}

/// Saved are the values; which are largest follows.
impl State for Largest {
    fn save(&self, out: &mut Vec<u8>) {
        state::write(&self.tree[self.leaves..], out);
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        let mut values = self.tree.split_off(self.leaves);
        state::read_sized(&mut values, from)?;
        self.tree.append(&mut values);
        for at in (1..self.leaves).rev() {
            self.tree[at] = self.tree[2 * at].max(self.tree[2 * at + 1]);
        }
        Ok(())
    }
}

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
