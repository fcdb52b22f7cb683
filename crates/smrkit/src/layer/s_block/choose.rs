//! Choice of the S-block that is destaged: the options of section V.C, question 2.

use super::SBlock;
use super::keys::DestagePolicy;
use crate::units::Lba;

/// The number of the nearest to each tail that the weighted policy looks at, besides the largest (assumption: an exact answer would
/// have to look at all of them, since every distance changes with each destage).
const NEAREST: usize = 16;

impl SBlock {
    /// The S-block (in its section) to destage next; `None` where nothing valid is cached.
    pub(super) fn choose(&self, section: usize) -> Option<u32> {
        match self.rules.policy {
            DestagePolicy::ClosestToTail => self.nearest_tail(section).next(),
            DestagePolicy::Largest => self.most_cached(section),
            DestagePolicy::CacheTail => self.nearest_cache_tail(section).next().map(|(sblock, _)| sblock),
            DestagePolicy::Weighted(weights) => self.best(section, weights),
        }
    }

    fn nearest_tail(&self, section: usize) -> impl Iterator<Item = u32> + '_ {
        let slots = &self.slots[section];
        slots.cached_from_tail().map(|slot| slots.owner[slot as usize])
    }

    /// Of S-blocks with equally many the lowest.
    fn most_cached(&self, section: usize) -> Option<u32> {
        let (sblock, sectors) = self.largest[section].top();
        (sectors > 0).then_some(sblock as u32)
    }

    /// The S-blocks of valid entries from the cache buffer's tail on, and how far from it they lie.
    fn nearest_cache_tail(&self, section: usize) -> impl Iterator<Item = (u32, u64)> + '_ {
        let cache = &self.caches[section];
        let mut position = cache.tail;
        cache.entries.iter().filter_map(move |&entry| {
            let at = position;
            position += entry.length();
            let lba = self.first_valid(section, at, entry)?;
            Some((self.local(section, lba), at - cache.tail))
        })
    }

    /// The S-block of an LBA in its section.
    pub(super) fn local(&self, section: usize, lba: Lba) -> u32 {
        (self.size.quotient(lba.0) - section as u64 * self.layout.natives) as u32
    }

    fn best(&self, section: usize, [tail, largest, cache_tail]: [f64; 3]) -> Option<u32> {
        let (slots, cache) = (&self.slots[section], &self.caches[section]);
        let most = f64::from(self.largest[section].top().1.max(1));
        let span = (cache.head - cache.tail).max(1) as f64;
        let oldest: Vec<(u32, u64)> = self.nearest_cache_tail(section).take(NEAREST).collect();
        let age = |sblock: u32| oldest.iter().find(|old| old.0 == sblock).map_or(0.0, |old| 1.0 - old.1 as f64 / span);
        let score = |sblock: u32| {
            let slot = u64::from(slots.slot_of[sblock as usize]);
            let near = 1.0 - slots.distance(slot) as f64 / slots.slots() as f64;
            let cached = f64::from(self.cached[section * self.layout.natives as usize + sblock as usize]);
            tail * near + largest * cached / most + cache_tail * age(sblock)
        };
        let near = self.nearest_tail(section).take(NEAREST);
        let candidates = near.chain(self.most_cached(section)).chain(oldest.iter().map(|old| old.0));
        let scored = candidates.map(|sblock| (score(sblock), sblock));
        scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, sblock)| sblock)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SPEC;
    use super::super::keys::SBlockKeys;
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
        cache.tail += cache.entries.pop_front().unwrap().length();
        let best = |weights| layer.best(1, weights).unwrap();
        assert_eq!([best([0.78, 0.0, ten]), best([0.83, 0.0, ten])], [20, 10]);
    }

    #[test]
    fn nothing_is_destaged_where_nothing_is_cached() {
        assert_eq!(some_cached().0.best(0, [1.0; 3]), None);
    }
}
