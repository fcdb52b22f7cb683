//! Extents that several files, or places in one file, share; and the operation that shares them.
//!
//! An owner is a place in a file. When an owner gives an extent up, the extent is *retired* there until the file's map is durable. It is
//! *dead* when it has no owner, and *free* when no durable map may name it either. An extent that was shared stays listed here with a single
//! owner, until it is free or [`Shared::reclaim`] ends the sharing.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::RwLockWriteGuard;
use smrkit::ranges::{RangeMap, Shift};

use super::FileSystem;
use super::file::{File, FileState};
use super::statistics::CleaningWork;
use super::write::SIZE_MAX;
use crate::error::{Errno, FsResult};
use crate::map::FilePiece;
use crate::space::Live;
use crate::units::{NodeId, Owner, Span};

/// The owners of a shared extent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holders {
    /// The owners by the maps in memory.
    pub owners: Vec<Owner>,
    /// Number of former owners whose durable maps may still name it.
    pub retired: u64,
}

impl Shift for Holders {
    fn shifted(&self, by: u64) -> Holders {
        Holders { owners: self.owners.iter().map(|owner| owner.further(by)).collect(), retired: self.retired }
    }
}

/// A part of an extent with its owners, or with none if it is not shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharedPart {
    pub span: Span,
    pub owners: Vec<Owner>,
}

impl SharedPart {
    pub(super) fn is_shared(&self) -> bool {
        !self.owners.is_empty()
    }
}

/// Extents that an owner gave up.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GivenUp {
    /// They were not shared, and have no owner now.
    pub unshared: Vec<Span>,
    /// They were shared, and have no owner now.
    pub dead: Vec<Span>,
    /// They still have another owner.
    pub still_owned: Vec<(Span, Owner)>,
}

/// The shared extents of a disk, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shared(pub(super) RangeMap<Holders>);

impl Shared {
    /// The parts of `span` that are shared.
    pub(super) fn within(&self, span: Span) -> impl Iterator<Item = Span> + '_ {
        self.0.within(span.range()).map(|(part, _)| part.into())
    }

    /// The parts of `span` that are not shared.
    pub(super) fn unshared(&self, span: Span) -> Vec<Span> {
        let parts = self.0.parts(span.range());
        parts.filter(|(_, holders)| holders.is_none()).map(|(part, _)| part.into()).collect()
    }

    /// The parts of `span`, shared and not, in ascending order.
    pub(super) fn parts(&self, span: Span) -> Vec<SharedPart> {
        let parts = self.0.parts(span.range());
        parts
            .map(|(part, holders)| SharedPart { span: part.into(), owners: holders.unwrap_or_default().owners })
            .collect()
    }

    /// Each shared extent with each of its owners.
    pub(super) fn all(&self) -> impl Iterator<Item = (Span, Owner)> + '_ {
        self.0
            .iter()
            .flat_map(|(extent, holders)| holders.owners.iter().map(move |&owner| (Span::from(extent.clone()), owner)))
    }

    /// Adds `owner` to the owners of `span`, all of which is in `live`.
    pub(super) fn add(&mut self, span: Span, owner: Owner, live: &Live) {
        // What was not shared before is listed with the owner that the space knows.
        for (found, whose) in self.unshared(span).into_iter().flat_map(|gap| live.within(gap)) {
            self.0.insert(found.range(), Holders { owners: vec![whose], retired: 0 });
        }
        for (part, holders) in self.0.within_mut(span.range()) {
            holders.owners.push(owner.further(part.start - span.at.0));
        }
    }

    /// Adds `owner` to the owners of `span`, a copy of shared data. Returns the parts that had no owner yet, and those that have other owners.
    /// Parts that all owners have given up again are dead, and get no new owner.
    pub(super) fn add_copy(&mut self, span: Span, owner: Owner) -> (Vec<Span>, Vec<Span>) {
        let whose = |at: u64| owner.further(at - span.at.0);
        let mut others = Vec::new();
        for (part, holders) in self.0.within_mut(span.range()).filter(|(_, holders)| !holders.owners.is_empty()) {
            holders.owners.push(whose(part.start));
            others.push(part.into());
        }
        // `retired` is 1, so that the copy is not freed before `end_copy` releases it.
        let first = self.unshared(span);
        for part in &first {
            self.0.insert(part.range(), Holders { owners: vec![whose(part.at.0)], retired: 1 });
        }
        (first, others)
    }

    /// Returns the parts of `span`, and keeps shared ones from being freed until they are released once more.
    pub(super) fn hold(&mut self, span: Span) -> Vec<SharedPart> {
        let parts = self.parts(span);
        for part in parts.iter().filter(|part| part.is_shared()) {
            self.0.within_mut(part.span.range()).for_each(|(_, holders)| holders.retired += 1);
        }
        parts
    }

    /// Removes `owner` from the owners of `span`, because its map in memory no longer names it. The durable map may still do.
    pub(super) fn retire(&mut self, span: Span, owner: Owner) -> GivenUp {
        let mut given_up = GivenUp { unshared: self.unshared(span), ..GivenUp::default() };
        for (part, holders) in self.0.within_mut(span.range()) {
            let (part, gone) = (Span::from(part.clone()), owner.further(part.start - span.at.0));
            let Some(found) = holders.owners.iter().position(|&other| other == gone) else {
                panic!("{part} is retired by {gone:?}, who does not share it");
            };
            holders.owners.remove(found);
            holders.retired += 1;
            match holders.owners.first() {
                Some(&other) => given_up.still_owned.push((part, other)),
                None => given_up.dead.push(part),
            }
        }
        given_up
    }

    /// Notes that `span` is named by one durable map less than before; returns the parts that are free now.
    pub(super) fn release(&mut self, span: Span) -> Vec<Span> {
        let mut free: Vec<Span> = self.unshared(span);
        let mut unnamed: Vec<Span> = Vec::new();
        for (part, holders) in self.0.within_mut(span.range()) {
            assert!(holders.retired > 0, "{span} is released, and nobody retired it");
            holders.retired -= 1;
            if holders.owners.is_empty() && holders.retired == 0 {
                unnamed.push(part.into());
            }
        }
        unnamed.iter().for_each(|part| drop(self.0.uncover(part.range())));
        free.extend(unnamed);
        free
    }

    /// Ends the sharing of the parts of `span` that only `owner` names, in memory and in durable maps; returns them.
    pub(super) fn reclaim(&mut self, span: Span, owner: Owner) -> Vec<Span> {
        let is_alone =
            |at: u64, holders: &Holders| holders.retired == 0 && holders.owners == [owner.further(at - span.at.0)];
        let parts = self.0.within(span.range());
        let unshared: Vec<Span> =
            parts.filter(|(part, holders)| is_alone(part.start, holders)).map(|(part, _)| part.into()).collect();
        unshared.iter().for_each(|part| drop(self.0.uncover(part.range())));
        unshared
    }
}

/// The two files of a copy, locked, or one if they are the same.
struct Locked<'a> {
    from: RwLockWriteGuard<'a, FileState>,
    to: Option<RwLockWriteGuard<'a, FileState>>,
}

impl<'a> Locked<'a> {
    /// Locks both in the order of their numbers. Nothing else locks two files.
    fn both(from: &'a File, to: &'a File) -> Locked<'a> {
        if from.id == to.id {
            return Locked { from: from.lock(), to: None };
        }
        let first = if to.id < from.id { Some(to.lock()) } else { None };
        let from = from.lock();
        Locked { from, to: Some(first.unwrap_or_else(|| to.lock())) }
    }

    fn to(&mut self) -> &mut FileState {
        self.to.as_deref_mut().unwrap_or(&mut self.from)
    }
}

impl FileSystem {
    /// Makes a file share up to `bytes` bytes of another, or of itself elsewhere; `from` and `to` are a file and a byte of it. Returns how
    /// many bytes it shares: whole granules, and a last partial one if both files end with it. None if the places are not aligned or
    /// overlap, or while a write of the original waits for room.
    pub fn share(&self, from: (NodeId, u64), to: (NodeId, u64), bytes: u64) -> FsResult<u64> {
        self.changeable()?;
        let granule = self.data.granule_bytes;
        let ((from_id, from_byte), (to_id, to_byte)) = (from, to);
        let (from_file, to_file) = (self.file(from_id)?, self.file(to_id)?);
        let is_aligned = from_byte.is_multiple_of(granule) && to_byte.is_multiple_of(granule);
        let is_apart = from_id != to_id || from_byte.abs_diff(to_byte) >= bytes;
        if !is_aligned || !is_apart {
            return Ok(0);
        }
        let mut work = CleaningWork::default();
        let shared = loop {
            let seen = self.data.allocator.progress();
            let mut locked = Locked::both(&from_file, &to_file);
            let bytes = self.shareable_bytes(&mut locked, from_byte, to_byte, bytes)?;
            if bytes == 0 {
                break 0;
            }
            if !locked.from.record_shares && !locked.from.is_unlinked {
                // A scan takes two maps that name one extent for damage unless both say that they share. So the durable map of the
                // original has to say so before there is a copy.
                locked.from.shares = true;
                self.data.touch(&from_file, &mut locked.from);
                drop(locked);
                self.save(&from_file)?;
                continue;
            }
            let granules = from_byte / granule..(from_byte + bytes).div_ceil(granule);
            self.data.reserve_on_host(0, locked.from.placed(granules.clone()).len() as u64)?;
            self.data.clear_tail(&to_file, locked.to(), to_byte)?;
            // Buffered data of the original must have a place to be shared. Buffered data of the copy is older than the shared data, so it
            // must not be written out later.
            if self.data.write_out(&from_file, &mut locked.from)? && self.data.write_out(&to_file, locked.to())? {
                self.share_granules(&mut locked, granules, &to_file, to_byte / granule);
                self.data.raise_size(locked.to(), to_byte + bytes);
                self.data.note_data_change(&to_file, locked.to());
                break bytes;
            }
            drop(locked);
            self.make_room(seen, &mut work)?;
        };
        self.data.counters.lock().count(&work);
        Ok(shared)
    }

    /// Computes how many of `bytes` two files can share from byte `from` of the one and byte `to` of the other on.
    fn shareable_bytes(&self, locked: &mut Locked<'_>, from: u64, to: u64, bytes: u64) -> FsResult<u64> {
        if locked.from.is_gone || locked.to().is_gone {
            return Err(Errno::ENOENT.into());
        }
        if locked.from.stalled_writes > 0 {
            return Ok(0);
        }
        let rest = locked.from.size.saturating_sub(from);
        let bytes = bytes.min(rest);
        if to.checked_add(bytes).is_none_or(|end| end > SIZE_MAX) {
            return Err(Errno::EFBIG.into());
        }
        // A partial granule is shared only if it ends both files, because elsewhere the rest of the granule would show in the copy.
        let ends_both = bytes == rest && to + bytes >= locked.to().size;
        Ok(if ends_both { bytes } else { bytes - bytes % self.data.granule_bytes })
    }

    /// Makes `to` share `granules` of the other file from its own granule `first` on. None of them is buffered.
    fn share_granules(&self, locked: &mut Locked<'_>, granules: Range<u64>, to: &Arc<File>, first: u64) {
        let pieces: Vec<(FilePiece, Vec<u32>)> = locked
            .from
            .placed(granules.clone())
            .into_iter()
            .map(|piece| {
                let sums = locked.from.map.sums(piece.first..piece.end());
                (piece, sums)
            })
            .collect();
        let state = locked.to();
        if !pieces.is_empty() {
            state.shares = true;
        }
        let range = first..first + (granules.end - granules.start);
        self.data.replace_ranges(to, state, &[range], &mut 0, |state, range| {
            let old = state.map.remove(range);
            for (piece, sums) in &pieces {
                let Some(span) = piece.span() else { continue };
                let at = first + (piece.first - granules.start);
                self.data.allocator.share(span, Owner { file: to.id, granule: at });
                state.map.insert(at, span);
                state.map.set_sums(at, sums);
            }
            old
        });
        self.data.touch(to, state);
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::units::NodeId;

    const SIZE: u64 = 40;

    /// One granule of the disk.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Cell {
        owners: Vec<Owner>,
        retired: u64,
        is_shared: bool,
    }

    fn owner(file: u64, granule: u64) -> Owner {
        Owner { file: NodeId(file), granule }
    }

    fn cells(spans: &[Span]) -> Vec<u64> {
        let mut all: Vec<u64> = spans.iter().flat_map(|span| span.at.0..span.end().0).collect();
        all.sort_unstable();
        all
    }

    /// Granules of the disk with their owners one by one, and the extents beside them.
    struct Model {
        cells: Vec<Cell>,
        live: Live,
        shared: Shared,
        /// Spans that files gave up, not released yet.
        pending: Vec<Span>,
    }

    impl Model {
        /// Files of four granules, one behind the other.
        fn new() -> Model {
            let (mut live, mut cells) = (Live::default(), Vec::new());
            for at in 0..SIZE {
                live.insert(Span::new(at, 1), owner(at / 4, at % 4));
                cells.push(Cell { owners: vec![owner(at / 4, at % 4)], ..Cell::default() });
            }
            Model { cells, live, shared: Shared::default(), pending: Vec::new() }
        }

        fn within(&self, span: Span, is_wanted: impl Fn(&Cell) -> bool) -> Vec<u64> {
            (span.at.0..span.end().0).filter(|&at| is_wanted(&self.cells[at as usize])).collect()
        }

        fn add(&mut self, span: Span, new: Owner) {
            self.shared.add(span, new, &self.live);
            for at in span.at.0..span.end().0 {
                let cell = &mut self.cells[at as usize];
                cell.owners.push(new.further(at - span.at.0));
                cell.is_shared = true;
            }
        }

        fn retire(&mut self, span: Span, gone: Owner) {
            let given_up = self.shared.retire(span, gone);
            assert_eq!(cells(&given_up.unshared), self.within(span, |cell| !cell.is_shared));
            for at in span.at.0..span.end().0 {
                let cell = &mut self.cells[at as usize];
                let place = cell.owners.iter().position(|other| *other == gone.further(at - span.at.0));
                cell.owners.remove(place.unwrap());
                cell.retired += 1;
            }
            assert_eq!(cells(&given_up.dead), self.within(span, |cell| cell.is_shared && cell.owners.is_empty()));
            let left: Vec<Span> = given_up.still_owned.iter().map(|(part, _)| *part).collect();
            assert_eq!(cells(&left), self.within(span, |cell| !cell.owners.is_empty()));
            for (part, other) in given_up.still_owned {
                self.live.hand_over(part, other);
            }
            given_up.unshared.into_iter().chain(given_up.dead).for_each(|part| {
                self.live.remove(part);
            });
            self.pending.push(span);
        }

        fn release(&mut self, span: Span) {
            let free = self.shared.release(span);
            for at in span.at.0..span.end().0 {
                self.cells[at as usize].retired -= 1;
            }
            assert_eq!(cells(&free), self.within(span, |cell| cell.owners.is_empty() && cell.retired == 0));
            for at in cells(&free) {
                self.cells[at as usize].is_shared = false;
            }
        }

        fn reclaim(&mut self, span: Span, whose: Owner) {
            let unshared = self.shared.reclaim(span, whose);
            let is_alone = |at: &u64| {
                let cell = &self.cells[*at as usize];
                cell.is_shared && cell.retired == 0 && cell.owners == [whose.further(at - span.at.0)]
            };
            let expected: Vec<u64> = (span.at.0..span.end().0).filter(is_alone).collect();
            assert_eq!(cells(&unshared), expected);
            expected.iter().for_each(|&at| self.cells[at as usize].is_shared = false);
        }

        fn check(&self) {
            self.shared.check(&self.live).unwrap();
            let all = Span::new(0, SIZE);
            assert_eq!(cells(&self.shared.within(all).collect::<Vec<_>>()), self.within(all, |cell| cell.is_shared));
            assert_eq!(cells(&self.shared.unshared(all)), self.within(all, |cell| !cell.is_shared));
            let mut said: Vec<Vec<Owner>> = vec![Vec::new(); SIZE as usize];
            for (span, owner) in self.shared.all() {
                (0..span.count).for_each(|i| said[(span.at.0 + i) as usize].push(owner.further(i)));
            }
            for part in self.shared.parts(Span::new(3, SIZE - 5)) {
                for (i, at) in (part.span.at.0..part.span.end().0).enumerate() {
                    let owners: Vec<Owner> = part.owners.iter().map(|owner| owner.further(i as u64)).collect();
                    let cell = &self.cells[at as usize];
                    assert_eq!(owners, if cell.is_shared { cell.owners.clone() } else { Vec::new() });
                    assert_eq!(owners, said[at as usize]);
                }
            }
        }
    }

    /// A run of granules that go on in one of their owners, and that owner.
    fn run(model: &Model, random: &mut Pcg64Mcg) -> Option<(Span, Owner)> {
        let at = random.random_range(0..SIZE);
        let owners = &model.cells[at as usize].owners;
        let whose = *owners.get(random.random_range(0..owners.len().max(1)))?;
        let most = random.random_range(1..7);
        let goes_on =
            |i: &u64| model.cells.get((at + i) as usize).is_some_and(|cell| cell.owners.contains(&whose.further(*i)));
        Some((Span::new(at, (0..most).take_while(goes_on).count() as u64), whose))
    }

    #[test]
    fn extents_are_shared_retired_and_released_granule_by_granule() {
        let (mut dead, mut reclaimed) = (0, 0);
        for seed in 0..60 {
            let random = &mut Pcg64Mcg::seed_from_u64(seed);
            let mut model = Model::new();
            for file in 100..260 {
                let Some((span, whose)) = run(&model, random) else { continue };
                match random.random_range(0..10) {
                    0..3 => model.add(span, owner(file, random.random_range(0..9))),
                    3..6 => model.retire(span, whose),
                    6..8 if !model.pending.is_empty() => {
                        let next = random.random_range(0..model.pending.len());
                        let span = model.pending.swap_remove(next);
                        model.release(span);
                    }
                    8 => {
                        let before = model.shared.clone();
                        model.reclaim(span, whose);
                        reclaimed += u64::from(before != model.shared);
                    }
                    9 => {
                        let held: Vec<Span> = model
                            .shared
                            .hold(span)
                            .into_iter()
                            .filter(|part| !part.owners.is_empty())
                            .map(|part| part.span)
                            .collect();
                        assert_eq!(cells(&held), model.within(span, |cell| cell.is_shared));
                        cells(&held).into_iter().for_each(|at| model.cells[at as usize].retired += 1);
                        model.pending.extend(held);
                    }
                    _ => {}
                }
                dead += model.cells.iter().filter(|cell| cell.is_shared && cell.owners.is_empty()).count();
                model.check();
            }
        }
        assert!(dead > 100 && reclaimed > 10, "{dead} dead granules, {reclaimed} reclaimed");
    }

    #[test]
    fn a_copy_is_taken_by_all_but_where_it_is_dead_again() {
        let mut shared = Shared::default();
        let copy = Span::new(10, 4);
        assert_eq!(shared.add_copy(Span::new(11, 2), owner(1, 1)), (vec![Span::new(11, 2)], Vec::new()));
        assert_eq!(shared.retire(Span::new(12, 1), owner(1, 2)).dead, [Span::new(12, 1)]);
        let (first, others) = shared.add_copy(copy, owner(2, 0));
        assert_eq!((first, others), (vec![Span::new(10, 1), Span::new(13, 1)], vec![Span::new(11, 1)]));
        assert_eq!(shared.release(copy), [], "the map of file 1 may still name what is dead");
        assert_eq!(shared.release(Span::new(12, 1)), [Span::new(12, 1)]);
    }
}
