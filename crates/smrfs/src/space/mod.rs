//! Placement of data and cleaning: one allocator and cleaner a model.
//!
//! A granule is free, live (in a map), retired (no longer in a map, but the old map may still be the durable one) and free
//! again once released. Live and retired granules may be read; nothing may damage them. The core holds the lock of the
//! space from `place` to `written` or `failed`, so that the order of writes is the order of placing.

pub mod bands;
pub mod caveat;
#[cfg(test)]
mod decision_tests;

use serde::Serialize;
use smrkit::ranges::{RangeMap, Shift};

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
    /// Nobody writes to that file any more: the room kept for it is free for all again.
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

impl Shift for Owner {
    fn shifted(&self, by: u64) -> Owner {
        self.further(by)
    }
}

/// The readable extents of a disk and their owners. Neighbours that go on in the same file are one.
#[derive(Clone, Debug, Default)]
pub struct Live(RangeMap<Owner>);

impl Live {
    /// Nothing yet.
    pub fn new() -> Live {
        Live::default()
    }

    /// The granules in it.
    pub fn granules(&self) -> u64 {
        self.0.count()
    }

    /// The extents in it.
    pub fn extents(&self) -> usize {
        self.0.len()
    }

    /// Adds an extent; `false` (and nothing done) if some of it is there already.
    pub fn insert(&mut self, span: Span, owner: Owner) -> bool {
        let is_free = self.0.end() <= span.at.0 || self.0.overlapping(span.range()).next().is_none();
        if is_free {
            self.0.insert(span.range(), owner);
        }
        is_free
    }

    /// Takes out what is there of `span`; tells how many granules that were.
    pub fn remove(&mut self, span: Span) -> u64 {
        let before = self.granules();
        self.0.uncover(span.range());
        before - self.granules()
    }

    /// The parts of `span` that are live, each with the owner of its first granule.
    pub fn within(&self, span: Span) -> impl Iterator<Item = (Span, Owner)> + '_ {
        self.0.within(span.range()).map(|(part, owner)| (part.into(), owner))
    }

    /// Gives an extent, all of which is there, to another owner.
    pub fn hand_over(&mut self, span: Span, owner: Owner) {
        let there = self.remove(span);
        assert!(there == span.count && self.insert(span, owner), "{span} is handed over, of which {there} are there");
    }

    /// True if all of `span` is there and goes on from `owner`.
    pub fn holds(&self, span: Span, owner: Owner) -> bool {
        // A place in a damaged map may be larger than any file: what is there is brought back, not `owner` forward.
        let goes_on = |at: u64, whose: Owner| {
            whose.file == owner.file && whose.granule.checked_sub(at - span.at.0) == Some(owner.granule)
        };
        self.0.parts(span.range()).all(|(part, whose)| whose.is_some_and(|whose| goes_on(part.start, whose)))
    }

    /// The last extent that begins before `at`.
    pub fn before(&self, at: Granule) -> Option<(Span, Owner)> {
        self.0.before(at.0).next().map(|(extent, &owner)| (extent.into(), owner))
    }

    /// The extents that begin at `at` or behind it, in ascending order.
    pub fn from(&self, at: Granule) -> impl Iterator<Item = (Span, Owner)> + '_ {
        self.0.from(at.0).map(|(extent, &owner)| (extent.into(), owner))
    }
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
        assert_eq!(live.within(Span::new(11, 16)).count(), 2);
        assert_eq!(live.within(Span::new(12, 14)).count(), 0);
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
}
