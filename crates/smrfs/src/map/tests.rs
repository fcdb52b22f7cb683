//! Histories of commits: what is read back is what was committed, at every step of a commit, and small things stay small.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::error::{Errno, FsResult};
use crate::meta::Time;

/// A store of one file: its record and the parts.
#[derive(Clone, Default)]
struct Store {
    record: Option<Vec<u8>>,
    parts: BTreeMap<u64, Vec<u8>>,
}

impl Store {
    fn load(&self, number: u64) -> FsResult<Vec<u8>> {
        self.parts.get(&number).cloned().ok_or(Errno::ENOENT.into())
    }

    fn decode(&self) -> FsResult<Option<Decoded>> {
        self.record.as_deref().map(|record| decode(record, |number| self.load(number))).transpose()
    }
}

/// Carries out a plan step by step; after each step the store holds `old` or, from the record on, `map`.
fn commit(store: &mut Store, stored: &mut Stored, plan: StoragePlan, old: &FileMap, map: &FileMap) {
    let is = |store: &Store, what: &FileMap| {
        let found = store.decode().expect("it decodes").map(|decoded| decoded.map).unwrap_or_default();
        assert_eq!(found, *what);
    };
    for (number, bytes) in &plan.parts {
        assert!(store.parts.insert(*number, bytes.clone()).is_none(), "part {number} is overwritten");
        is(store, old);
    }
    store.record = Some(plan.record.clone());
    is(store, map);
    for number in stored.adopt(plan) {
        assert!(store.parts.remove(&number).is_some());
        is(store, map);
    }
    let decoded = store.decode().expect("it decodes").expect("a record");
    assert_eq!(decoded.stored.numbers().collect::<Vec<_>>(), stored.numbers().collect::<Vec<_>>());
    assert_eq!(store.parts.len(), stored.numbers().count(), "parts that nobody needs");
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u64, u64),
    Remove(u64, u64),
    /// A number of single granules, spread by a stride.
    Scatter(u64, u64),
    Truncate(u64),
    /// Commit with this many bytes; the plan is thrown away or carried out; then forgotten and loaded again or not.
    Commit(usize, bool, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u64..40_000, 1u64..300, 0u64..1 << 40).prop_map(|(a, b, c)| Step::Insert(a, b, c)),
        1 => (0u64..40_000, 1u64..9000).prop_map(|(a, b)| Step::Remove(a, b)),
        2 => (1u64..2000, 1u64..40).prop_map(|(a, b)| Step::Scatter(a, b)),
        1 => (0u64..40_000).prop_map(Step::Truncate),
        4 => (prop_oneof![Just(0usize), 64usize..400, Just(3800)], any::<bool>(), any::<bool>())
            .prop_map(|(bytes, carried_out, reload)| Step::Commit(bytes, carried_out, reload)),
    ];
    prop::collection::vec(step, 1..25)
}

fn head(number: u64) -> Head {
    let time = |seconds| Time { seconds, nanoseconds: (number % 1_000_000_000) as u32 };
    Head {
        size: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        mtime: time(-5),
        ctime: time(1 << 40),
        promised: number,
        shares: number % 3 == 1,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_history_of_commits_is_read_back_at_every_step(steps in steps()) {
        let (mut map, mut durable, mut stored) = (FileMap::default(), FileMap::default(), Stored::new());
        let (mut store, mut next) = (Store::default(), 0);
        for (at, step) in steps.into_iter().chain([Step::Commit(3800, true, true)]).enumerate() {
            match step {
                Step::Insert(first, count, at) => {
                    map.insert(first, Span::new(at, count));
                    // Of some no checksum is known, as of data without bytes.
                    let sum = |i: u64| if at % 5 == 0 { 0 } else { (at + i) as u32 };
                    map.set_sums(first, &(0..count).map(sum).collect::<Vec<_>>());
                }
                Step::Remove(first, count) => drop(map.remove(first..first + count)),
                Step::Truncate(first) => drop(map.remove(first..u64::MAX)),
                Step::Scatter(count, stride) => {
                    (0..count).for_each(|i| drop(map.insert(i * stride, Span::new((i * 7919) % 99_991, 1))));
                }
                Step::Commit(bytes_max, carried_out, reload) => {
                    let head = head(at as u64);
                    let plan = stored.plan(&mut map, &head, bytes_max, &mut || { next += 1; next });
                    prop_assert!(plan.record.len() <= bytes_max.max(POINTER_BYTES));
                    if !carried_out {
                        continue;
                    }
                    let told = summary(&plan.record).unwrap();
                    prop_assert_eq!((told.head, told.granules), (head, map.granules()));
                    commit(&mut store, &mut stored, plan, &durable, &map);
                    durable = map.clone();
                    if reload {
                        let decoded = store.decode().unwrap().unwrap();
                        prop_assert_eq!(&decoded.stored, &stored);
                        (map, stored) = (decoded.map, decoded.stored);
                    }
                }
            }
        }
    }

    #[test]
    fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), part in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = decode(&bytes, |_| Ok(part.clone()));
        // With a right checksum the bytes come further.
        let seal = |bytes: &mut Vec<u8>| { let sum = checksum(bytes); bytes.extend(sum.to_le_bytes()) };
        if let Some(first) = bytes.first_mut() { *first = 1 + *first % 4 }
        seal(&mut bytes);
        for (version, kind) in [(1, b'E'), (1, b'I'), (3, b'I'), (1, b'S')] {
            let _ = decode(&bytes, |number| {
                let mut whole = vec![version, kind, number as u8];
                whole.extend(&part);
                seal(&mut whole);
                Ok(whole)
            });
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed(bit in 0usize..10_000, count in 1u64..400) {
        let mut map = FileMap::default();
        (0..count).for_each(|i| drop(map.insert(i * 3, Span::new(i * i % 1009 * 2, 1))));
        let mut record = Stored::new().plan(&mut map, &head(1), 3800, &mut || 1).record;
        let bit = bit % (record.len() * 8);
        record[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(decode(&record, |_| Err(Errno::ENOENT.into())).is_err());
    }
}

#[test]
fn a_small_write_to_a_fragmented_file_rewrites_little() {
    for (with_sums, most) in [(false, 3000), (true, 4500)] {
        let each = bytes_of_a_small_write(with_sums);
        assert!(each < most, "{each} bytes a commit, {with_sums}");
    }
}

fn bytes_of_a_small_write(with_sums: bool) -> usize {
    let (mut map, mut stored, mut next) = (FileMap::default(), Stored::new(), 0);
    let insert = |map: &mut FileMap, granule: u64, at: u64| {
        map.insert(granule, Span::new(at, 1));
        map.set_sums(granule, &[if with_sums { at as u32 + 1 } else { 0 }]);
    };
    for i in 0..16_000u64 {
        insert(&mut map, i, i * 48_271 % 1_000_003 * 2);
    }
    let mut plan = |map: &mut FileMap, stored: &mut Stored| {
        let plan = stored.plan(map, &head(0), 3800, &mut || {
            next += 1;
            next
        });
        let bytes = plan.record.len() + plan.parts.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        stored.adopt(plan);
        bytes
    };
    let whole = plan(&mut map, &mut stored);
    let mut written = 0;
    for i in 0..4000u64 {
        insert(&mut map, i * 16_807 % 16_000, 3_000_000 + i * 75_041 % 999_983 * 2);
        written += plan(&mut map, &mut stored);
    }
    assert!(whole > 60_000, "{whole} bytes for the whole map");
    written / 4000
}

/// A change of a map: at a place in the file, this many granules, to a place on the disk or to a hole.
fn changes() -> impl Strategy<Value = Vec<(u64, u64, Option<u64>)>> {
    prop::collection::vec((0u64..60, 1u64..20, prop::option::of(0u64..1000)), 0..40)
}

proptest! {
    #[test]
    fn a_map_is_an_array_of_granules(changes in changes(), from in 0u64..90, count in 0u64..30) {
        let mut map = FileMap::default();
        let mut array = vec![None; 130];
        for (first, count, at) in changes {
            let here = first as usize..(first + count) as usize;
            let before: Vec<u64> = array[here.clone()].iter().copied().flatten().collect();
            let gone = match at {
                Some(at) => map.insert(first, Span::new(at, count)),
                None => map.remove(first..first + count),
            };
            let spans = gone.iter().filter_map(FilePiece::span);
            let gone: Vec<u64> = spans.flat_map(|span| span.at.0..span.end().0).collect();
            prop_assert_eq!(gone, before);
            for i in here {
                array[i] = at.map(|at| at + i as u64 - first);
                prop_assert!(map.changes().contains(i as u64) || at.is_none());
            }
        }
        for (granule, at) in array.iter().enumerate() {
            prop_assert_eq!(map.at(granule as u64).map(|at| at.0), *at);
        }
        prop_assert_eq!(map.granules(), array.iter().flatten().count() as u64);
        let mut at = from;
        for piece in map.lookup(from..from + count) {
            prop_assert_eq!(piece.first, at);
            prop_assert!(piece.count > 0);
            for i in 0..piece.count {
                prop_assert_eq!(piece.at.map(|at| at.0 + i), array[(at + i) as usize]);
            }
            at += piece.count;
        }
        prop_assert_eq!(at, from + count);
        let (from, rest) = (from as usize, &array[from as usize..]);
        let data = rest.iter().position(Option::is_some).map(|i| (from + i) as u64);
        prop_assert_eq!(map.next_data(from as u64), data);
        let hole = rest.iter().position(Option::is_none).map_or(130, |i| from + i);
        prop_assert_eq!(map.next_hole(from as u64), hole as u64);
        for (a, b) in map.extents_from(0).zip(map.extents_from(0).skip(1)) {
            prop_assert!(a.end() < b.first || a.span().map(Span::end) != b.at, "not joined");
        }
    }
}

#[test]
fn a_map_that_has_become_small_gives_its_parts_back() {
    let (mut map, mut stored, mut next) = (FileMap::default(), Stored::new(), 0);
    let mut number = || {
        next += 1;
        next
    };
    (0..20_000).for_each(|i| drop(map.insert(i * 2, Span::new(i * 5, 1))));
    let plan = stored.plan(&mut map, &head(0), 3800, &mut number);
    stored.adopt(plan);
    assert_eq!(stored.numbers().count(), 5);
    map.remove(2..u64::MAX);
    let plan = stored.plan(&mut map, &head(0), 3800, &mut number);
    assert_eq!(stored.adopt(plan).len(), 5);
}
