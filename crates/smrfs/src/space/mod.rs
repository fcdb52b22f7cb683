//! Placement of data and cleaning: an allocator and a cleaner for each model of disk.
//!
//! A granule is free, then live (in a map), then retired (no longer in a map, but the durable map may still name it), and free again once
//! released. Live and retired granules may be read; nothing may damage them. The core holds the lock of the space from `place` to `written`
//! or `failed`, so that the order of writes is the order of placing.

pub mod bands;
pub mod caveat;
#[cfg(test)]
mod tests;

use serde::Serialize;
use smrkit::ranges::{RangeMap, Shift};

use crate::device::BandReport;
pub use crate::safety::Counts;
use crate::units::{Granule, NodeId, Owner, Span};

/// A request for room.
#[derive(Clone, Copy, Debug)]
pub struct AllocationRequest {
    /// Owner of the data, with its place in the file.
    pub owner: Owner,
    /// Where on the disk the data just before it in the file ends, if there is any.
    pub after: Option<Granule>,
    /// Granules of this write: at most this many are placed. At least 1.
    pub count: u64,
    /// Granules of the same file that are known to be written right after these.
    pub more: u64,
    /// True for a move by the cleaner, which may use the reserve.
    pub moving: bool,
}

/// Why cleaning is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The file system is idle.
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

/// Returns the span that `pieces` cover. They must lie side by side in ascending order.
fn whole(pieces: &[(Span, Owner)]) -> Span {
    let neighbours = pieces.iter().zip(&pieces[1..]).all(|((span, _), (next, _))| span.end() == next.at);
    assert!(neighbours, "pieces of one write do not lie side by side: {pieces:?}");
    Span { at: pieces[0].0.at, count: pieces.iter().map(|(span, _)| span.count).sum() }
}

/// The allocator and cleaner of one model.
pub trait Space: Send {
    /// Adds live data that a map names, at mount. Returns `false` if part of it is live already or out of range.
    fn adopt(&mut self, span: Span, owner: Owner) -> bool;
    /// Ends the mount, after the last `adopt`, with the disk's report of its bands. The order of writes before the mount is not known.
    fn start(&mut self, report: &[BandReport]);

    /// Finds room for at most `want.count` granules; fewer if only a smaller gap is left, or is better. `None` if cleaning must come first.
    fn place(&mut self, want: &AllocationRequest) -> Option<Span>;
    /// Notes that the placed `span` has been written.
    fn written(&mut self, span: Span, owner: Owner) {
        self.written_in_pieces(&[(span, owner)]);
    }
    /// Notes that a placed span was written with data of one or more owners. `pieces` lie side by side in ascending order and cover it.
    fn written_in_pieces(&mut self, pieces: &[(Span, Owner)]);
    /// Notes that the write of the placed `span` failed. Any part may have reached the disk, and no retry goes to the same place.
    fn failed(&mut self, span: Span);
    /// Gives live data to another owner.
    fn hand_over(&mut self, span: Span, owner: Owner);
    /// Retires a span: no map in memory names it any more, but a durable one may.
    fn retire(&mut self, span: Span);
    /// Frees a retired span that no durable map names any more.
    fn release(&mut self, span: Span);
    /// Gives up the room reserved for a file that nobody writes to any more.
    fn closed(&mut self, file: NodeId);

    /// Why cleaning is due, if it is. `idle`: the file system has nothing else to do.
    fn wants_cleaning(&self, idle: bool) -> Option<Trigger>;
    /// The next step of cleaning. `None` if enough has been done or, for [`Trigger::Stuck`], if nothing would help.
    fn clean(&mut self, why: Trigger) -> Option<CleaningStep>;
    /// Notes that the core has reset a band.
    fn was_reset(&mut self, band: u64);
    /// Notes that the disk failed to reset a band, which is offered again later.
    fn reset_failed(&mut self, band: u64);
    /// Notes live data that can't be moved, because the disk can't read it or its file's map makes no sense. Until it is retired, cleaning
    /// does not touch it.
    fn mark_unmovable(&mut self, span: Span);

    /// Granules that all files together can fill, for statfs. Constant while mounted.
    fn usable(&self) -> u64;
    /// The granules of the disk by state.
    fn counts(&self) -> Counts;
    /// Live data with their owners.
    fn live(&self) -> &Live;
    /// Compares all incremental counts with a recount. Errors: the difference found.
    #[cfg(any(test, feature = "testing"))]
    fn check(&self) -> Result<(), String>;
}

impl Shift for Owner {
    fn shifted(&self, by: u64) -> Owner {
        self.further(by)
    }
}

/// The readable extents of a disk and their owners. Neighbours are joined if they are contiguous in the same file.
#[derive(Clone, Debug, Default)]
pub struct Live(RangeMap<Owner>);

impl Live {
    /// The granules in it.
    pub fn granules(&self) -> u64 {
        self.0.count()
    }

    /// The extents in it.
    pub fn extents(&self) -> usize {
        self.0.len()
    }

    /// Adds an extent. Returns `false`, and changes nothing, if part of it is live already.
    pub fn insert(&mut self, span: Span, owner: Owner) -> bool {
        let is_free = self.0.end() <= span.at.0 || self.0.overlapping(span.range()).next().is_none();
        if is_free {
            self.0.insert(span.range(), owner);
        }
        is_free
    }

    /// Removes the live parts of `span`; returns how many granules they had.
    pub fn remove(&mut self, span: Span) -> u64 {
        let before = self.granules();
        self.0.uncover(span.range());
        before - self.granules()
    }

    /// The parts of `span` that are live, each with the owner of its first granule.
    pub fn within(&self, span: Span) -> impl Iterator<Item = (Span, Owner)> + '_ {
        self.0.within(span.range()).map(|(part, owner)| (part.into(), owner))
    }

    /// Gives a wholly live extent to another owner.
    pub fn hand_over(&mut self, span: Span, owner: Owner) {
        let live = self.remove(span);
        assert!(live == span.count && self.insert(span, owner), "{span} is handed over, of which {live} are live");
    }

    /// True if all of `span` is live and contiguous in one file from `owner` on.
    pub fn holds(&self, span: Span, owner: Owner) -> bool {
        // A damaged map may give `owner` a place beyond any file's end, where an addition would overflow. So this subtracts instead.
        let continues = |at: u64, found: Owner| {
            found.file == owner.file && found.granule.checked_sub(at - span.at.0) == Some(owner.granule)
        };
        self.0.parts(span.range()).all(|(part, found)| found.is_some_and(|found| continues(part.start, found)))
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
