//! Stretches of the disk that a buffer holds: the one being read ahead, and those that were read before it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::drive::{Buffer, Mechanical};
use crate::geometry::Geometry;
use crate::state::state;
use crate::units::{Nanos, Pba, SECTOR_BYTES};

/// A stretch that was read or is being read ahead, from `began` on: `end` passed under the head at `passed`; on to `limit`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ReadAhead {
    pub began: Pba,
    pub end: Pba,
    pub passed: Nanos,
    pub limit: Pba,
}

impl ReadAhead {
    /// Place that reading has reached.
    fn reached(&self, g: &Geometry, media: &Mechanical, now: Nanos) -> Pba {
        let left = self.limit - self.end;
        let whole = media.streaming(g, self.end, left).0.max(1);
        let share = now.since(self.passed).0.min(whole);
        self.end + (u128::from(left) * u128::from(share) / u128::from(whole)) as u64
    }
}

/// The segments of a buffer, each with a stretch.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    ahead: Option<ReadAhead>,
    /// Stretches that were read before it, from and to, the latest first.
    kept: VecDeque<(Pba, Pba)>,
    count: usize,
    /// The length of each, in sectors.
    pub length: u64,
}

state! { Segments { values: ahead, kept; built: count, length; } }

impl Segments {
    pub fn new(buffer: &Buffer) -> Segments {
        let (count, length) = (buffer.segments as usize, buffer.segment_bytes / SECTOR_BYTES);
        Segments { ahead: None, kept: VecDeque::new(), count, length }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.ahead = None;
        self.kept.clear();
    }

    /// The media reads ahead of this.
    pub fn read_on(&mut self, ahead: ReadAhead) {
        self.ahead = Some(ahead);
    }

    /// Reads ahead no more; returns the place that reading got to. What was read is kept where there are more segments.
    pub fn stop(&mut self, g: &Geometry, media: &Mechanical, now: Nanos) -> Option<Pba> {
        let ahead = self.ahead.take()?;
        let reached = ahead.reached(g, media, now);
        if self.count > 1 {
            self.kept.truncate(self.count - 2);
            self.kept.push_front((self.kept_from(&ahead, reached), reached));
        }
        Some(reached)
    }

    /// From where on a stretch is still in the buffer: what lies further behind the head is overwritten.
    fn kept_from(&self, ahead: &ReadAhead, reached: Pba) -> Pba {
        ahead.began.max(Pba(reached.0.saturating_sub(self.length)))
    }

    /// True if a stretch that was read holds sectors.
    pub fn keep(&self, pba: Pba, end: Pba) -> bool {
        self.kept.iter().any(|&(from, to)| from <= pba && end <= to)
    }

    /// The stretch being read ahead, if it holds sectors or will.
    pub fn ahead_of(&self, g: &Geometry, media: &Mechanical, now: Nanos, pba: Pba, end: Pba) -> Option<ReadAhead> {
        let covers = |ahead: &ReadAhead| ahead.began <= pba && end <= ahead.limit;
        self.ahead.filter(|ahead| covers(ahead) && self.kept_from(ahead, ahead.reached(g, media, now)) <= pba)
    }

    /// True if any of these sectors are read ahead.
    pub fn meet(&self, pba: Pba, end: Pba) -> bool {
        self.ahead.is_some_and(|ahead| pba < ahead.limit && end > ahead.began)
    }

    /// Forgets the stretches that were read of what is written now.
    pub fn overwrite(&mut self, pba: Pba, end: Pba) {
        self.kept.retain(|&(from, to)| to <= pba || end <= from);
    }
}
