//! The saved state of a clean unmount: what is live and whose it is, so that the next mount need not read every map.
//!
//! Integers of seven bits a byte, the lowest first, each extent by its distance from the one before; then, if files share any,
//! the shared extents with each further owner; then a checksum.

use crate::device::Shape;
use crate::map::{RecordReader, put, sealed};
use crate::space::live::Live;
use crate::units::{Granule, NodeId, Owner, Span};

/// The version of a state without shared extents, and of one with them.
const ALONE: u64 = 1;
const SHARED: u64 = 2;

/// State that a clean unmount saves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedState {
    /// The number of the next part of a map.
    pub next_part: u64,
    /// Granules in maps.
    pub mapped: u64,
    /// Granules promised.
    pub promised: u64,
    /// Live extents, in ascending order.
    pub extents: Vec<(Span, Owner)>,
    /// Live extents with further owners.
    pub shared: Vec<(Span, Owner)>,
}

impl SavedState {
    /// The state of what is `live`, and `shared` extents with all their owners, without the files that are `unlinked`.
    pub(super) fn new(
        next_part: u64,
        promised: u64,
        live: &[(Span, Owner)],
        shared: &[(Span, Owner)],
        unlinked: impl Fn(Owner) -> bool,
    ) -> SavedState {
        let stays = |(_, owner): &&(Span, Owner)| !unlinked(*owner);
        let mut first = Live::new();
        for &(span, owner) in live.iter().filter(stays) {
            first.insert(span, owner);
        }
        let mut further = |&(span, owner): &(Span, Owner)| !first.holds(span, owner) && !first.insert(span, owner);
        let shared = shared.iter().filter(stays).copied().filter(|one| further(one)).collect();
        let (extents, mapped) = (first.from(Granule(0)).collect(), first.granules());
        SavedState { next_part, mapped, promised, extents, shared }
    }
}

pub(super) fn encode(saved: &SavedState, shape: &Shape) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + saved.extents.len() * 8);
    let version = if saved.shared.is_empty() { ALONE } else { SHARED };
    let head = [version, shape.granules, shape.granule_bytes, saved.next_part, saved.mapped, saved.promised];
    head.into_iter().for_each(|value| put(&mut out, value));
    put_extents(&mut out, &saved.extents, Span::end);
    if version == SHARED {
        put_extents(&mut out, &saved.shared, |span| span.at);
    }
    sealed(out)
}

/// Each extent by its distance from `from` of the one before.
fn put_extents(out: &mut Vec<u8>, extents: &[(Span, Owner)], from: impl Fn(Span) -> Granule) {
    put(out, extents.len() as u64);
    let mut before = Granule(0);
    for &(span, owner) in extents {
        for value in [span.at - before, span.count, owner.file.0, owner.granule] {
            put(out, value);
        }
        before = from(span);
    }
}

fn take_extents(
    next: &mut impl FnMut() -> Option<u64>,
    shape: &Shape,
    from: impl Fn(Span) -> Granule,
) -> Option<Vec<(Span, Owner)>> {
    let count = next()?;
    let mut extents = Vec::with_capacity(count.min(1 << 20) as usize);
    let mut before = Granule(0);
    for _ in 0..count {
        let span = Span::new(before.0.checked_add(next()?)?, next()?);
        span.at.0.checked_add(span.count).filter(|&end| end <= shape.granules)?;
        let owner = Owner { file: NodeId(next()?), granule: next()? };
        owner.granule.checked_add(span.count)?;
        extents.push((span, owner));
        before = from(span);
    }
    Some(extents)
}

/// None if anything about it is doubtful.
pub(crate) fn decode(bytes: &[u8], shape: &Shape) -> Option<SavedState> {
    let mut reader = RecordReader::checked(bytes).ok()?;
    let mut next = || reader.integer().ok();
    let version = next().filter(|version| [ALONE, SHARED].contains(version))?;
    if [next()?, next()?] != [shape.granules, shape.granule_bytes] {
        return None;
    }
    let (next_part, mapped, promised) = (next()?, next()?, next()?);
    let extents = take_extents(&mut next, shape, Span::end)?;
    let shared = if version == SHARED { take_extents(&mut next, shape, |span| span.at)? } else { Vec::new() };
    let granules: u64 = extents.iter().map(|(span, _)| span.count).sum();
    (reader.end().is_ok() && granules == mapped).then_some(SavedState { next_part, mapped, promised, extents, shared })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::data::{Data, ReadBuffer};
    use crate::device::caveat::{CaveatScriptor, WriteHistory};
    use crate::device::memory::Memory;
    use crate::device::{Bands, Model};
    use crate::error::FsError;
    use crate::fs::mount::STATE;
    use crate::fs::{FileSystem, FsOptions};
    use crate::meta::memory::{Limits, MemoryStore};
    use crate::meta::{Kind, MetadataStore, NewNode, Time};
    use crate::power::Power;
    use crate::space::caveat::{Caveat, CaveatOptions};

    #[test]
    fn what_was_saved_comes_back_and_a_flipped_bit_does_not() {
        let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        let shape = Shape { model: Model::Caveat, granule_bytes: 4096, granules: 1000, did: 1, dpid: 1, bands };
        let owner = |file, granule| Owner { file: NodeId(file), granule };
        let extents = vec![(Span::new(0, 5), owner(7, 0)), (Span::new(300, 200), owner(1 << 40, 9))];
        let shared =
            vec![(Span::new(2, 3), owner(9, 4)), (Span::new(2, 3), owner(5, 0)), (Span::new(310, 1), owner(7, 8))];
        for shared in [Vec::new(), shared] {
            let saved = SavedState { next_part: 3, mapped: 205, promised: 2, extents: extents.clone(), shared };
            comes_back(&saved, &shape);
        }
    }

    fn comes_back(saved: &SavedState, shape: &Shape) {
        let bytes = encode(saved, shape);
        assert_eq!(decode(&bytes, shape).as_ref(), Some(saved));
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes, shape), None, "bit {bit}");
        }
        assert_eq!(decode(&bytes, &Shape { granules: 999, ..*shape }), None);
    }

    /// Whoever changes the saved state can't make one file's data another's.
    #[test]
    fn swapped_owners_give_nobody_the_data_of_another() {
        let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        let shape = Shape { model: Model::Caveat, granule_bytes: 512, granules: 400, did: 2, dpid: 2, bands };
        let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
        let store = Arc::new(MemoryStore::new(Limits::EXT4, Arc::new(Time::default)));
        let mounted = || {
            let device = Arc::new(CaveatScriptor::new(memory.clone(), shape, WriteHistory::Untracked).unwrap());
            let space =
                Box::new(Caveat::new(&shape, CaveatOptions { block_granules: 8, ..CaveatOptions::default() }).unwrap());
            FileSystem::mount(device, store.clone(), space, FsOptions::default()).unwrap()
        };
        let fs = mounted();
        let new = NewNode { kind: Kind::File, mode: 0o600, uid: 0, gid: 0, rdev: 0 };
        let [one, two] = [b"a", b"b"].map(|name| fs.make(fs.root(), name, &new).unwrap().id);
        for (id, byte) in [(one, 1), (two, 2)] {
            fs.write(id, 0, Data::Bytes(&[byte; 4096])).unwrap();
        }
        fs.unmount().unwrap();
        let mut saved = decode(&store.load_state(STATE).unwrap().unwrap(), &shape).unwrap();
        for (_, owner) in &mut saved.extents {
            owner.file = if owner.file == one { two } else { one };
        }
        store.store_state(STATE, &encode(&saved, &shape)).unwrap();
        let fs = mounted();
        for id in [one, two] {
            let read = fs.read(id, 0, ReadBuffer::Bytes(&mut [0; 4096]));
            assert!(matches!(read, Err(FsError::Corrupt(_))), "{read:?}");
            assert!(fs.write(id, 0, Data::Bytes(&[3; 512])).is_err());
        }
        // A disk that is filled is cleaned as well: nothing of the two is moved or overwritten.
        let other = fs.make(fs.root(), b"c", &new).unwrap().id;
        let room = fs.usage().unwrap().free * 512;
        for round in 0..20 {
            fs.write(other, round % 3 * 512, Data::Bytes(&vec![4; (room - 1024) as usize])).unwrap();
        }
        fs.sync_all().unwrap();
        drop(fs);
        store.remove_state(STATE).unwrap();
        let fs = mounted();
        for (id, byte) in [(one, 1), (two, 2)] {
            let mut back = [0; 4096];
            fs.read(id, 0, ReadBuffer::Bytes(&mut back)).unwrap();
            assert_eq!(back, [byte; 4096]);
        }
    }
}
