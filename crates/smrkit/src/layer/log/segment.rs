//! The segments' books: what each holds, how much of it is live, and how old it is.

use smallvec::SmallVec;

use serde::{Deserialize, Serialize};

use super::layout::SegmentPlace;
use crate::state::state;
use crate::units::{Lba, Pba};

/// Use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SegmentState {
    /// To be written from its start.
    Free,
    /// Being filled.
    Open,
    /// Full, until it is cleaned.
    Closed,
    /// Its live sectors are being moved.
    Cleaned,
}

/// The entries of a segment. That of a segment written in order needs no memory on the heap.
pub(super) type Entries = SmallVec<[SegmentEntry; 2]>;

/// One segment.
pub(super) struct Segment {
    pub(super) place: SegmentPlace,
    pub(super) state: SegmentState,
    /// Sectors from the start on that have been written, or passed over.
    pub(super) filled: u32,
    /// Sectors among them that the map points to.
    pub(super) live: u32,
    /// Bucket in which the policy keeps it; see `victims.rs`.
    pub(super) bucket: u16,
    /// Open segment that it was filled as.
    pub(super) stream: u8,
    /// When the youngest of its data was written by the host, in sectors written before.
    pub(super) youngest: u64,
    /// Entries that were written, in order from the start on.
    pub(super) entries: Entries,
}

state! {
    Segment {
        values: state, filled, live, bucket, stream, youngest, entries;
        built: place;
    }
}

impl Segment {
    pub(super) fn new(place: SegmentPlace) -> Segment {
        Segment {
            place,
            state: SegmentState::Free,
            filled: 0,
            live: 0,
            bucket: 0,
            stream: 0,
            youngest: 0,
            entries: Entries::new(),
        }
    }

    /// Place of the next sector to be written.
    #[inline]
    pub(super) fn head(&self) -> Pba {
        self.place.start + u64::from(self.filled)
    }

    /// Sectors that can still be written.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        u64::from(self.place.sectors - self.filled)
    }

    /// Sectors without live data.
    #[inline]
    pub(super) fn dead(&self) -> u64 {
        u64::from(self.place.sectors - self.live)
    }
}

/// Sectors written to a segment: the first LBA (40 bits) and how many (24 bits). Where they lie follows from those before.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct SegmentEntry(u64);

const COUNT_BITS: u32 = 24;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
/// An LBA that no drive has: sectors that hold nothing.
const NOTHING: u64 = (1 << (64 - COUNT_BITS)) - 1;

impl SegmentEntry {
    #[inline]
    pub(super) fn new(lba: Lba, sectors: u64) -> SegmentEntry {
        debug_assert!(lba.0 < NOTHING && sectors <= COUNT_MAX);
        SegmentEntry(lba.0 << COUNT_BITS | sectors)
    }

    /// Sectors that are passed over.
    pub(super) fn gap(sectors: u64) -> SegmentEntry {
        SegmentEntry(NOTHING << COUNT_BITS | sectors)
    }

    /// LBA of the sectors; `None` where they hold nothing.
    pub(super) fn lba(self) -> Option<Lba> {
        let lba = self.0 >> COUNT_BITS;
        (lba != NOTHING).then_some(Lba(lba))
    }

    #[inline]
    pub(super) fn sectors(self) -> u64 {
        self.0 & COUNT_MAX
    }

    /// Takes in sectors that go on where these end, if they do.
    #[inline]
    pub(super) fn joins(&mut self, lba: Lba, sectors: u64) -> bool {
        let joins = (self.0 >> COUNT_BITS) + self.sectors() == lba.0 && self.sectors() + sectors <= COUNT_MAX;
        self.0 += if joins { sectors } else { 0 };
        joins
    }
}
