//! Placement of data and cleaning: one allocator and cleaner a model.
//!
//! A granule is free, live (in a map), retired (no longer in a map, but the old map may still be the durable one) and free
//! again once released. Live and retired granules may be read; nothing may damage them. The core holds the lock of the
//! space from `place` to `written` or `failed`, so that the order of writes is the order of placing.

pub mod bands;
pub mod caveat;
#[cfg(test)]
mod decision_tests;
pub mod live;

use serde::Serialize;

use crate::device::BandReport;
pub use crate::safety::Counts;
use crate::units::{Granule, NodeId, Owner, Span};
use live::Live;

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
    fn check(&self) -> Result<(), String>;
}
