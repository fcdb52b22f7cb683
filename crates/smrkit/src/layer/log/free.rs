//! The free segments, in the order in which they are used again, and those of them that still carry labels.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::segment::Segment;
use crate::disk::Disk;
use crate::error::DiskResult;

#[derive(Default, Serialize, Deserialize)]
pub(super) struct FreeList {
    /// The one that is used next first.
    order: VecDeque<u32>,
    sectors: u64,
    /// Free segments that still carry labels.
    labelled: Vec<u32>,
    /// Segment of the log's last write, free or not.
    last_written: Option<u32>,
}

impl FreeList {
    /// Segments that it names.
    pub(super) fn named(&self) -> impl Iterator<Item = &u32> {
        self.order.iter().chain(&self.labelled).chain(&self.last_written)
    }

    /// Number of free segments.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Sectors of the free segments.
    #[inline]
    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// True if some carry labels.
    #[inline]
    pub(super) fn has_labels(&self) -> bool {
        !self.labelled.is_empty()
    }

    /// The log has written to a segment.
    #[inline]
    pub(super) fn wrote(&mut self, at: u32) {
        self.last_written = Some(at);
    }

    /// The segment `at` is free.
    pub(super) fn add(&mut self, at: u32, segment: &Segment, is_labelled: bool) {
        self.order.push_back(at);
        self.sectors += u64::from(segment.place.sectors);
        self.labelled.extend(is_labelled.then_some(at));
    }

    /// Takes the segment that is used next.
    pub(super) fn take(&mut self, segments: &[Segment]) -> Option<u32> {
        let at = self.order.pop_front()?;
        self.sectors -= u64::from(segments[at as usize].place.sectors);
        self.labelled.retain(|&labelled| labelled != at);
        Some(at)
    }

    /// After a power cut: the last write, in the segment `at`, is overwritten last.
    pub(super) fn put_last(&mut self, at: Option<u32>) {
        self.last_written = at;
        if let Some(place) = self.order.iter().position(|&free| at == Some(free)) {
            let last = self.order.remove(place);
            self.order.extend(last);
        }
    }

    /// Takes the labels off free segments: those of sectors that were trimmed since would come back as live after a power cut,
    /// and segments that were free would be no more. The last write's stay until there is another, or until its segment is the next
    /// one to be written: without them the request before it might pass for torn.
    #[cold]
    pub(super) fn erase(&mut self, disk: &mut Disk, segments: &[Segment]) -> DiskResult {
        for at in std::mem::take(&mut self.labelled) {
            if self.last_written == Some(at) {
                self.labelled.push(at);
                continue;
            }
            let place = segments[at as usize].place;
            disk.erase(place.start, u64::from(place.sectors))?;
        }
        Ok(())
    }
}

#[cfg(test)]
impl FreeList {
    pub(super) fn sectors_mut(&mut self) -> &mut u64 {
        &mut self.sectors
    }

    pub(super) fn order(&self) -> &VecDeque<u32> {
        &self.order
    }

    pub(super) fn last_written(&self) -> Option<u32> {
        self.last_written
    }

    /// A kill before labels went.
    pub(super) fn forget_labels(&mut self) {
        self.labelled.clear();
    }
}
