//! Placement of data and cleaning: one allocator and cleaner a model.
//!
//! A granule is free, live (in a map), retired (no longer in a map, but the old map may still be the durable one) and free
//! again once released. Live and retired granules may be read; nothing may damage them. The core holds the lock of the
//! space from `place` to `written` or `failed`, so that the order of writes is the order of placing.

pub mod bands;
pub mod caveat;
#[cfg(test)]
mod decision_tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Range;

use serde::Serialize;

use crate::device::BandReport;
pub use crate::safety::Counts;
use crate::units::{Granule, NodeId, Owner, Span};

/// Wish for room.
#[derive(Clone, Copy, Debug)]
pub struct AllocationRequest {
    /// Owner of the data, with its place in the file.
    pub owner: Owner,
    /// End on the disk of the file's data before it, if there is any.
    pub after: Option<Granule>,
    /// Granules of this write: at most this many are placed. At least 1.
    pub count: u64,
    /// Granules that are known to follow in the same file at once, behind these.
    pub more: u64,
    /// True if the cleaner moves it; it may use the reserve.
    pub moving: bool,
}

/// Why cleaning is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// Nothing else is to do.
    Idle,
    /// Space is short: a bounded amount of work in addition to the host's.
    Low,
    /// A block cannot be placed: the host waits.
    Stuck,
}

/// One step of cleaning, for the core to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningStep {
    /// Move this live piece elsewhere (read, `place` with `moving`, write, `written`, map, `retire`). At most a block.
    Move(Span, Owner),
    /// Make maps durable and release what is retired.
    Settle,
    /// Reset this band, then call [`Space::was_reset`].
    Reset(u64),
}

/// All of what lies side by side in ascending order.
fn whole(pieces: &[(Span, Owner)]) -> Span {
    let neighbours = pieces.iter().zip(&pieces[1..]).all(|((span, _), (next, _))| span.end() == next.at);
    assert!(neighbours, "pieces of one write do not lie side by side: {pieces:?}");
    Span { at: pieces[0].0.at, count: pieces.iter().map(|(span, _)| span.count).sum() }
}

/// The allocator and cleaner of one model.
pub trait Space: Send {
    /// At mount: this is live. `false` if some of it is live already or it is out of range.
    fn adopt(&mut self, span: Span, owner: Owner) -> bool;
    /// At mount, after the last `adopt`: what the disk reports of its bands. Of the order of past writes nothing is known.
    fn start(&mut self, report: &[BandReport]);

    /// Room for at most `want.count` granules (fewer if a smaller gap is all there is, or is better); `None`: clean first.
    fn place(&mut self, want: &AllocationRequest) -> Option<Span>;
    /// Takes note that what was placed has been written, once.
    fn written(&mut self, span: Span, owner: Owner) {
        self.written_in_pieces(&[(span, owner)]);
    }
    /// A shared place was written: the pieces lie side by side in ascending order, and are all of it. At least one.
    fn written_in_pieces(&mut self, pieces: &[(Span, Owner)]);
    /// The write of what was placed failed: any part of it may have reached the disk. It is not retried in place.
    fn failed(&mut self, span: Span);
    /// Live data is another owner's from now on.
    fn hand_over(&mut self, span: Span, owner: Owner);
    /// No map in memory names it any more, but a durable one may.
    fn retire(&mut self, span: Span);
    /// No durable map names what was retired.
    fn release(&mut self, span: Span);
    /// Nobody writes to that file any more: what was kept next to it for more is for all again.
    fn closed(&mut self, file: NodeId);

    /// True if cleaning is due: `idle` if nothing else is to do.
    fn wants_cleaning(&self, idle: bool) -> Option<Trigger>;
    /// The next step of cleaning; `None` if nothing would help (for [`Trigger::Stuck`]) or enough has been done.
    fn clean(&mut self, why: Trigger) -> Option<CleaningStep>;
    /// The core has reset that band.
    fn was_reset(&mut self, band: u64);
    /// The disk did not reset that band: it is offered again, but not at once.
    fn reset_failed(&mut self, band: u64);
    /// Takes note of live data that can't be moved (the disk does not read it, or its file's map makes no sense): until it is
    /// retired it stays where it is, and no cleaning counts on its going.
    fn unmovable(&mut self, span: Span);

    /// The granules that files can fill, all in all: what statfs tells. It does not change while mounted.
    fn usable(&self) -> u64;
    /// The granules of the disk by what may be done with them.
    fn counts(&self) -> Counts;
    /// Live data with their owners.
    fn live(&self) -> &Live;
    /// Compares everything kept step by step with a recount; says what is wrong.
    #[cfg(any(test, feature = "testing"))]
    fn check(&self) -> Result<(), String>;
}

/// The readable extents of a disk and their owners. Neighbours that go on in the same file are one.
#[derive(Clone, Debug, Default)]
pub struct Live {
    extents: BTreeMap<u64, (u64, Owner)>,
    granules: u64,
}

impl Live {
    /// Nothing yet.
    pub fn new() -> Live {
        Live::default()
    }

    /// The granules in it.
    pub fn granules(&self) -> u64 {
        self.granules
    }

    /// The extents in it.
    pub fn extents(&self) -> usize {
        self.extents.len()
    }

    /// Adds an extent; `false` (and nothing done) if some of it is there already.
    pub fn insert(&mut self, span: Span, owner: Owner) -> bool {
        if span.is_empty() {
            return true;
        }
        if self.insert_last(span, owner) {
            return true;
        }
        if self.overlapping(span).next().is_some() {
            return false;
        }
        self.granules += span.count;
        let (mut at, mut count, mut owner) = (span.at.0, span.count, owner);
        if let Some((&before, &(length, whose))) = self.extents.range(..at).next_back()
            && before + length == at
            && whose.further(length) == owner
        {
            (at, count, owner) = (before, length + count, whose);
        }
        if let Some(&(length, whose)) = self.extents.get(&(at + count))
            && owner.further(count) == whose
        {
            self.extents.remove(&(at + count));
            count += length;
        }
        self.extents.insert(at, (count, owner));
        true
    }

    /// Adds an extent behind all others, as a mount does a million times; `false` if some lie behind it.
    fn insert_last(&mut self, span: Span, owner: Owner) -> bool {
        if let Some(mut last) = self.extents.last_entry() {
            let (at, (count, whose)) = (*last.key(), *last.get());
            if at + count > span.at.0 {
                return false;
            }
            if at + count == span.at.0 && whose.further(count) == owner {
                last.get_mut().0 += span.count;
                self.granules += span.count;
                return true;
            }
        }
        self.extents.insert(span.at.0, (span.count, owner));
        self.granules += span.count;
        true
    }

    /// Takes out what is there of `span`; tells how many granules that were.
    pub fn remove(&mut self, span: Span) -> u64 {
        let found: Vec<(Span, Owner)> = self.overlapping(span).collect();
        let mut removed = 0;
        for (whole, owner) in found {
            self.extents.remove(&whole.at.0);
            let Some(gone) = whole.overlap(span) else { continue };
            if whole.at < gone.at {
                self.extents.insert(whole.at.0, (gone.at - whole.at, owner));
            }
            if gone.end() < whole.end() {
                let rest = owner.further(gone.end() - whole.at);
                self.extents.insert(gone.end().0, (whole.end() - gone.end(), rest));
            }
            removed += gone.count;
        }
        self.granules -= removed;
        removed
    }

    /// The extents that have something in common with `span`, whole, in ascending order.
    pub fn overlapping(&self, span: Span) -> impl Iterator<Item = (Span, Owner)> + '_ {
        let first = match self.extents.range(..=span.at.0).next_back() {
            Some((&at, &(count, _))) if at + count > span.at.0 => at,
            _ => span.at.0,
        };
        let end = if span.is_empty() { first } else { span.end().0 };
        in_order(self.extents.range(first..end))
    }

    /// The parts of `span` that are live, each with the owner of its first granule.
    pub fn cut_to(&self, span: Span) -> impl Iterator<Item = (Span, Owner)> + '_ {
        self.overlapping(span).filter_map(move |(whole, owner)| {
            let part = whole.overlap(span)?;
            Some((part, owner.further(part.at - whole.at)))
        })
    }

    /// Gives an extent, all of which is there, to another owner.
    pub fn hand_over(&mut self, span: Span, owner: Owner) {
        let there = self.remove(span);
        assert!(there == span.count && self.insert(span, owner), "{span} is handed over, of which {there} are there");
    }

    /// True if all of `span` is there and goes on from `owner`.
    pub fn holds(&self, span: Span, owner: Owner) -> bool {
        let mut at = span.at;
        for (found, whose) in self.overlapping(span) {
            // Neighbours of one file are one extent: places in it are compared, not beginnings.
            let expected = whose.file == owner.file
                && whose.granule.checked_add(at.0.saturating_sub(found.at.0))
                    == owner.granule.checked_add(at - span.at);
            if found.at > at || !expected {
                return false;
            }
            at = found.end();
        }
        span.is_empty() || at >= span.end()
    }

    /// The last extent that begins before `at`.
    pub fn before(&self, at: Granule) -> Option<(Span, Owner)> {
        in_order(self.extents.range(..at.0)).next_back()
    }

    /// The extents that begin at `at` or behind it, in ascending order.
    pub fn from(&self, at: Granule) -> impl Iterator<Item = (Span, Owner)> + '_ {
        in_order(self.extents.range(at.0..))
    }
}

fn in_order(range: Range<'_, u64, (u64, Owner)>) -> impl DoubleEndedIterator<Item = (Span, Owner)> + '_ {
    range.map(|(&at, &(count, owner))| (Span::new(at, count), owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::NodeId;

    fn owner(file: u64, granule: u64) -> Owner {
        Owner { file: NodeId(file), granule }
    }

    #[test]
    fn neighbours_of_one_file_are_joined_and_split_again() {
        let mut live = Live::new();
        assert!(live.insert(Span::new(10, 5), owner(1, 0)));
        assert!(live.insert(Span::new(20, 5), owner(1, 10)));
        assert!(live.insert(Span::new(15, 5), owner(1, 5)));
        assert_eq!(live.extents(), 1);
        assert!(!live.insert(Span::new(24, 3), owner(2, 0)), "24 is taken");
        assert!(live.insert(Span::new(25, 3), owner(2, 15)), "another file goes on");
        assert_eq!(live.extents(), 2);
        assert_eq!(live.remove(Span::new(12, 14)), 14);
        let left: Vec<_> = live.from(Granule(0)).collect();
        assert_eq!(left, [(Span::new(10, 2), owner(1, 0)), (Span::new(26, 2), owner(2, 16))]);
        assert_eq!(live.granules(), 4);
        assert_eq!(live.before(Granule(26)), Some((Span::new(10, 2), owner(1, 0))));
        assert_eq!(live.overlapping(Span::new(11, 16)).count(), 2);
        assert_eq!(live.overlapping(Span::new(12, 14)).count(), 0);
    }

    #[test]
    fn a_span_is_held_by_one_place_of_one_file() {
        let mut live = Live::new();
        assert!(live.insert(Span::new(10, 5), owner(1, 7)));
        assert!(live.insert(Span::new(15, 5), owner(2, 0)));
        assert!(live.holds(Span::new(10, 5), owner(1, 7)) && live.holds(Span::new(12, 2), owner(1, 9)));
        assert!(live.holds(Span::new(30, 0), owner(3, 0)), "nothing is held by anyone");
        for (span, whose) in [
            (Span::new(12, 2), owner(1, 7)),
            (Span::new(12, 2), owner(2, 9)),
            (Span::new(9, 2), owner(1, 6)),
            (Span::new(13, 4), owner(1, 10)),
            (Span::new(18, 4), owner(2, 3)),
            (Span::new(40, 1), owner(1, 0)),
            (Span::new(10, 5), owner(1, u64::MAX)),
        ] {
            assert!(!live.holds(span, whose), "{span} {whose:?}");
        }
    }

    #[test]
    fn it_holds_what_an_owner_for_each_granule_would() {
        use rand::{RngExt, SeedableRng};
        const SIZE: u64 = 60;
        let dice = &mut rand_pcg::Pcg64Mcg::seed_from_u64(2);
        let (mut live, mut model) = (Live::new(), vec![None; SIZE as usize]);
        for step in 0..1500 {
            let at = dice.random_range(0..SIZE);
            let span = Span::new(at, dice.random_range(0..9).min(SIZE - at));
            let own = at as usize..span.end().0 as usize;
            if dice.random_range(0..3) > 0 {
                // Granules that go on in a file often lie side by side.
                let whose = owner(dice.random_range(0..2), at + dice.random_range(0..2));
                let is_free = model[own.clone()].iter().all(Option::is_none);
                assert_eq!(live.insert(span, whose), is_free, "step {step}");
                if is_free {
                    own.clone().for_each(|place| model[place] = Some(whose.further(place as u64 - at)));
                }
            } else {
                let there = model[own.clone()].iter().flatten().count() as u64;
                assert_eq!(live.remove(span), there, "step {step}");
                model[own.clone()].fill(None);
            }
            // Extents are as long as a file goes on.
            let mut extents: Vec<(Span, Owner)> = Vec::new();
            for (at, whose) in (0..).zip(&model).filter_map(|(at, whose)| Some((at, (*whose)?))) {
                match extents.last_mut() {
                    Some((last, first)) if last.end().0 == at && first.further(last.count) == whose => last.count += 1,
                    _ => extents.push((Span::new(at, 1), whose)),
                }
            }
            assert!(live.from(Granule(0)).eq(extents.iter().copied()), "step {step}");
            assert_eq!(live.extents(), extents.len());
            assert_eq!(live.granules(), model.iter().flatten().count() as u64);
            let behind = live.from(Granule(at));
            assert!(behind.eq(extents.iter().copied().filter(|(extent, _)| extent.at.0 >= at)));
            assert_eq!(live.before(Granule(at)), extents.iter().copied().rfind(|(extent, _)| extent.at.0 < at));
            let overlaps = extents.iter().copied().filter(|(extent, _)| extent.overlap(span).is_some());
            assert!(live.overlapping(span).eq(overlaps), "step {step}: {span}");
            let whose = model[at as usize].unwrap_or(owner(0, at));
            let goes_on = own.clone().all(|place| model[place] == Some(whose.further(place as u64 - at)));
            assert_eq!(live.holds(span, whose), goes_on, "step {step}: {span}");
        }
    }
}
