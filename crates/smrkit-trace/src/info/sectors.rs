//! An exact set of sectors, small enough for traces of 10^8 requests on disks of terabytes.
//!
//! The address space is cut into chunks of 16 MiB. Chunks that are wholly present are kept as extents. Any other chunk is a sorted list of
//! runs (4 to 8 bytes each) until a bitmap takes less room: one of 4 KiB blocks if all its runs are aligned to them (512 bytes a chunk, 156 MB
//! for all of 5 TB), or else one of sectors (4 KiB a chunk, 1.25 GB for 5 TB).

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Bits of an address within a chunk.
const CHUNK_BITS: u32 = 15;
/// Sectors in a chunk.
const CHUNK: u32 = 1 << CHUNK_BITS;
/// Addresses from here on are cut off: 4 ZiB.
const END: u64 = 1 << 63;
/// Sectors in a block of the coarse bitmap.
const BLOCK: u32 = 8;
/// Aligned runs that take as much room as the coarse bitmap.
const COARSE_RUNS: usize = 128;
/// Runs that take as much room as the fine bitmap.
const FINE_RUNS: usize = 1024;

/// Sectors of any number of volumes.
#[derive(Default)]
pub(super) struct SectorSet {
    /// Chunks that are partly present, by volume and number. A hash table: with requests all over a large disk, a search tree would take most of
    /// the time of reading a trace.
    partial: HashMap<u64, ChunkSectors>,
    /// Wholly present stretches: their first chunk, and the one after their last.
    full: BTreeMap<u64, u64>,
    sectors: u64,
}

impl SectorSet {
    /// Number of sectors present.
    pub(super) fn len(&self) -> u64 {
        self.sectors
    }

    /// Adds sectors of a volume; returns how many were not present before.
    pub(super) fn insert(&mut self, volume: u16, lba: u64, sectors: u32) -> u64 {
        let end = lba.saturating_add(u64::from(sectors)).min(END);
        if lba >= end {
            return 0;
        }
        let key = |sector: u64| u64::from(volume) << (63 - CHUNK_BITS) | sector >> CHUNK_BITS;
        let within = |sector: u64| (sector % u64::from(CHUNK)) as u32;
        let (first, last) = (key(lba), key(end - 1));
        let (from, to) = (within(lba), within(end - 1) + 1);
        let before = self.sectors;
        if first == last {
            self.insert_part(first, from..to);
        } else {
            self.insert_part(first, from..CHUNK);
            // All chunks between the first and the last are covered whole.
            if last - first > 1 {
                self.insert_full(first + 1, last);
            }
            self.insert_part(last, 0..to);
        }
        self.sectors - before
    }

    fn insert_part(&mut self, chunk: u64, sectors: Range<u32>) {
        // Stretches do not overlap, so only the last that begins at or before the chunk can contain it.
        let is_full = self.full.range(..=chunk).next_back().is_some_and(|(_, &end)| end > chunk);
        if is_full {
            return;
        }
        let part = self.partial.entry(chunk).or_default();
        let before = part.sectors;
        part.insert(sectors);
        self.sectors += u64::from(part.sectors - before);
        if part.sectors == CHUNK {
            self.insert_full(chunk, chunk + 1);
        }
    }

    /// Makes the chunks from `first` to before `end` wholly present.
    fn insert_full(&mut self, first: u64, end: u64) {
        // `from..to` grows by the extents that it touches; `present` counts sectors of `first..end` that were there before.
        let (mut from, mut to, mut present) = (first, end, 0);
        while let Some((&start, &stop)) = self.full.range(..=to).next_back().filter(|&(_, &stop)| stop >= from) {
            self.full.remove(&start);
            present += (stop.min(end).saturating_sub(start.max(first))) * u64::from(CHUNK);
            (from, to) = (from.min(start), to.max(stop));
        }
        // A long request covers more chunks than the table has, and a chunk that has just become full is one among many in it.
        if end - first > self.partial.len() as u64 {
            let covered = self.partial.extract_if(|chunk, _| (first..end).contains(chunk));
            present += covered.map(|(_, part)| u64::from(part.sectors)).sum::<u64>();
        } else {
            let covered = (first..end).filter_map(|chunk| self.partial.remove(&chunk));
            present += covered.map(|part| u64::from(part.sectors)).sum::<u64>();
        }
        self.full.insert(from, to);
        self.sectors += (end - first) * u64::from(CHUNK) - present;
    }

    /// The runs in ascending order: volume, and sectors. Runs may touch where chunks meet.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u16, Range<u64>)> {
        let mut partial: Vec<(u64, &ChunkSectors)> = self.partial.iter().map(|(chunk, part)| (*chunk, part)).collect();
        partial.sort_unstable_by_key(|(chunk, _)| *chunk);
        let mut partial = partial.into_iter().peekable();
        let mut full = self.full.iter().peekable();
        let chunks = std::iter::from_fn(move || match (partial.peek(), full.peek()) {
            (Some((chunk, _)), Some((first, _))) if chunk > *first => full.next().map(whole),
            (Some(_), _) => partial.next().map(|(chunk, part)| (chunk, part.runs())),
            (None, _) => full.next().map(whole),
        });
        chunks.flat_map(|(chunk, runs)| {
            let volume = (chunk >> (63 - CHUNK_BITS)) as u16;
            let base = (chunk << CHUNK_BITS) & (END - 1);
            runs.into_iter().map(move |run| (volume, base + run.start..base + run.end))
        })
    }

    /// Number of aligned pieces of `sectors` that have at least one sector present.
    pub(super) fn pieces(&self, sectors: u64) -> u64 {
        let (mut count, mut last_counted) = (0, None);
        for (volume, run) in self.runs() {
            let (mut first, last) = (run.start / sectors, (run.end - 1) / sectors);
            // A run may begin in the piece in which the run before ends.
            if last_counted == Some((volume, first)) {
                first += 1;
            }
            count += (last + 1).saturating_sub(first);
            last_counted = Some((volume, last));
        }
        count
    }

    /// Number of sectors present in both sets.
    pub(super) fn overlap(&self, other: &SectorSet) -> u64 {
        let (mut ours, mut theirs) = (self.runs().peekable(), other.runs().peekable());
        let mut common = 0;
        while let (Some((volume, a)), Some((other_volume, b))) = (ours.peek(), theirs.peek()) {
            if volume == other_volume {
                common += a.end.min(b.end).saturating_sub(a.start.max(b.start));
            }
            // The run that ends first overlaps no later run of the other set.
            let ours_ends_first = (*volume, a.end) <= (*other_volume, b.end);
            if ours_ends_first {
                ours.next()
            } else {
                theirs.next()
            };
        }
        common
    }
}

fn whole((&first, &end): (&u64, &u64)) -> (u64, Vec<Range<u64>>) {
    let run = 0..(end - first) << CHUNK_BITS;
    (first, vec![run])
}

/// A chunk that is partly present.
#[derive(Default)]
struct ChunkSectors {
    sectors: u32,
    /// True if an insertion began or ended within a block of `BLOCK` sectors.
    is_unaligned: bool,
    form: Form,
}

enum Form {
    /// Runs in ascending order.
    Runs(Vec<Run>),
    /// A bit a block.
    Coarse(Box<[u64; (CHUNK / BLOCK / 64) as usize]>),
    /// A bit a sector.
    Fine(Box<[u64; (CHUNK / 64) as usize]>),
}

impl Default for Form {
    fn default() -> Form {
        Form::Runs(Vec::new())
    }
}

/// A run within a chunk: its first and its last sector, which fit in 16 bits.
#[derive(Clone, Copy)]
struct Run {
    first: u16,
    last: u16,
}

impl Run {
    fn sectors(&self) -> u32 {
        u32::from(self.last) - u32::from(self.first) + 1
    }
}

impl ChunkSectors {
    /// Adds sectors. Runs become a bitmap as soon as that takes less memory.
    fn insert(&mut self, sectors: Range<u32>) {
        self.is_unaligned |= !(sectors.start | sectors.end).is_multiple_of(BLOCK);
        // Before the sectors are added: a bit of the coarse form stands for a whole block.
        if matches!(self.form, Form::Coarse(_)) && self.is_unaligned {
            self.become_fine();
        }
        self.sectors += match &mut self.form {
            Form::Runs(runs) => insert_run(runs, sectors),
            Form::Coarse(bits) => set_bits(&mut bits[..], sectors.start / BLOCK..sectors.end / BLOCK) * BLOCK,
            Form::Fine(bits) => set_bits(&mut bits[..], sectors),
        };
        let Form::Runs(runs) = &self.form else { return };
        if !self.is_unaligned && runs.len() > COARSE_RUNS {
            let mut bits = Box::new([0; (CHUNK / BLOCK / 64) as usize]);
            for run in self.runs() {
                set_bits(&mut bits[..], run.start as u32 / BLOCK..run.end as u32 / BLOCK);
            }
            self.form = Form::Coarse(bits);
        } else if runs.len() > FINE_RUNS {
            self.become_fine();
        }
    }

    fn become_fine(&mut self) {
        let mut bits = Box::new([0; (CHUNK / 64) as usize]);
        for run in self.runs() {
            set_bits(&mut bits[..], run.start as u32..run.end as u32);
        }
        self.form = Form::Fine(bits);
    }

    fn runs(&self) -> Vec<Range<u64>> {
        match &self.form {
            Form::Runs(runs) => runs.iter().map(|run| u64::from(run.first)..u64::from(run.last) + 1).collect(),
            Form::Coarse(bits) => bit_runs(&bits[..], u64::from(BLOCK)),
            Form::Fine(bits) => bit_runs(&bits[..], 1),
        }
    }
}

/// Adds a run to sorted `runs`, and joins those that it touches. Returns how many sectors are new.
fn insert_run(runs: &mut Vec<Run>, sectors: Range<u32>) -> u32 {
    let from = runs.partition_point(|run| u32::from(run.last) + 1 < sectors.start);
    let to = from + runs[from..].partition_point(|run| u32::from(run.first) <= sectors.end);
    let present: u32 = runs[from..to].iter().map(Run::sectors).sum();
    let mut joined = Run { first: sectors.start as u16, last: (sectors.end - 1) as u16 };
    if from == to {
        runs.insert(from, joined);
        return joined.sectors();
    }
    joined = Run { first: joined.first.min(runs[from].first), last: joined.last.max(runs[to - 1].last) };
    runs[from] = joined;
    runs.drain(from + 1..to);
    joined.sectors() - present
}

/// Sets the bits of a range; returns how many were not set before.
fn set_bits(words: &mut [u64], bits: Range<u32>) -> u32 {
    let (first, last) = (bits.start / 64, (bits.end - 1) / 64);
    let mut new = 0;
    for word in first..=last {
        let low = if word == first { u64::MAX << (bits.start % 64) } else { u64::MAX };
        let high = if word == last { u64::MAX >> (63 - (bits.end - 1) % 64) } else { u64::MAX };
        let (mask, stored) = (low & high, &mut words[word as usize]);
        new += (mask & !*stored).count_ones();
        *stored |= mask;
    }
    new
}

/// The runs of set bits, each bit standing for `scale` sectors.
fn bit_runs(words: &[u64], scale: u64) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for (at, &word) in words.iter().enumerate() {
        let (mut rest, mut bit) = (word, at as u64 * 64);
        while rest != 0 {
            let gap = rest.trailing_zeros();
            rest >>= gap;
            let length = rest.trailing_ones();
            let start = bit + u64::from(gap);
            let run = start * scale..(start + u64::from(length)) * scale;
            match runs.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => runs.push(run),
            }
            // A run of 64 ones is all of the word.
            rest = rest.checked_shr(length).unwrap_or(0);
            bit = start + u64::from(length);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Insertions that crowd two chunks of two volumes, aligned or not, now and then across several chunks.
    fn insertions() -> impl Strategy<Value = Vec<(u16, u64, u32)>> {
        let chunk = u64::from(CHUNK);
        let small = (0..2 * chunk, 1_u32..40, any::<bool>()).prop_map(|(lba, sectors, aligned)| {
            if aligned { (lba / 8 * 8, sectors.div_ceil(8) * 8) } else { (lba, sectors) }
        });
        let large = (0..4 * chunk, 1..4 * CHUNK);
        let either = prop_oneof![500 => small, 1 => large];
        (0..2_u16, any::<bool>(), prop::collection::vec(either, 1..1500)).prop_map(|(volumes, all_aligned, list)| {
            let align = |(lba, sectors): (u64, u32)| {
                if all_aligned { (lba / 8 * 8, sectors.div_ceil(8) * 8) } else { (lba, sectors) }
            };
            let list = list.into_iter().map(align).enumerate();
            list.map(|(at, (lba, sectors))| (at as u16 % (volumes + 1), lba, sectors)).collect()
        })
    }

    fn reference(list: &[(u16, u64, u32)]) -> BTreeSet<(u16, u64)> {
        list.iter()
            .flat_map(|&(volume, lba, n)| (lba..lba + u64::from(n)).map(move |sector| (volume, sector)))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn it_holds_exactly_what_was_put_in(list in insertions(), others in insertions()) {
            let (mut set, mut other) = (SectorSet::default(), SectorSet::default());
            let new: u64 = list.iter().map(|&(volume, lba, n)| set.insert(volume, lba, n)).sum();
            for &(volume, lba, n) in &others {
                other.insert(volume, lba, n);
            }
            let (truth, other_truth) = (reference(&list), reference(&others));
            prop_assert_eq!(new, truth.len() as u64);
            prop_assert_eq!(set.len(), truth.len() as u64);
            let whole: Vec<_> = set.runs().collect();
            let apart = |pair: &[(u16, Range<u64>)]| {
                let (end, start) = (pair[0].1.end, pair[1].1.start);
                pair[0].0 != pair[1].0 || end < start || end % u64::from(CHUNK) == 0
            };
            prop_assert!(whole.windows(2).all(apart), "runs touch where chunks meet only");
            let runs: Vec<_> = whole.into_iter().flat_map(|(volume, run)| run.map(move |sector| (volume, sector))).collect();
            prop_assert!(runs.iter().eq(truth.iter()), "the runs, in order, are the sectors");
            let blocks: BTreeSet<_> = truth.iter().map(|&(volume, sector)| (volume, sector / 7)).collect();
            prop_assert_eq!(set.pieces(7), blocks.len() as u64);
            prop_assert_eq!(set.overlap(&other), truth.intersection(&other_truth).count() as u64);
        }
    }

    #[test]
    fn the_largest_requests_at_the_far_end_cost_nothing() {
        let mut set = SectorSet::default();
        for step in 0..1000 {
            assert_eq!(set.insert(u16::MAX, step << 40, u32::MAX), u64::from(u32::MAX));
        }
        assert_eq!(set.insert(0, u64::MAX, 8), 0);
        assert_eq!(set.insert(0, END - 4, 8), 4);
        assert!(set.partial.iter().count() + set.full.len() < 4000);
    }
}
