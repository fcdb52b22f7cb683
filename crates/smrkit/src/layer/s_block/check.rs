//! The layer's books, in full: each cached sector lies in an entry that is held, each S-block in a slot of its own, counts
//! agree, and between head and tail of each circle lies its guard.

use super::SBlock;
use super::slots::NONE;
use crate::error::DiskResult;
use crate::layer::inconsistent;
use crate::units::Lba;

impl SBlock {
    /// Compares all books with each other.
    pub(super) fn check_books(&self) -> DiskResult {
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

    /// Returns the sectors that are valid in the cache buffer.
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
        let payload = cache.payload();
        let last = cache.head.max(1) - 1;
        if last / payload + self.layout.guard_pages >= cache.tail / payload + cache.pages() {
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
            let size = self.size.value();
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
