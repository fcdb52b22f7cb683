//! Requests under way.

use crate::device::SectorWords;
use crate::request::Request;
use crate::units::Nanos;

/// A request that has not been completed.
pub(super) struct Sent {
    pub request: Request,
    /// Its row in its source, where rows are asked for.
    pub row: u64,
    pub arrival: Nanos,
    /// Stamps that a read must find, in check mode.
    pub expected: SectorWords,
}

/// Requests by tag, and tags to use again. By hand: a completion reads its entry in place, and none is moved out.
#[derive(Default)]
pub(super) struct SentRequests {
    by_tag: Vec<Sent>,
    unused: Vec<u32>,
}

impl SentRequests {
    /// Adds a request; returns its tag.
    #[inline]
    pub fn add(&mut self, sent: Sent) -> u64 {
        let tag = match self.unused.pop() {
            Some(tag) => {
                self.by_tag[tag as usize] = sent;
                tag
            }
            None => {
                self.by_tag.push(sent);
                (self.by_tag.len() - 1) as u32
            }
        };
        u64::from(tag)
    }

    /// The request with a tag, which is completed: the tag is used again.
    #[inline]
    pub fn take(&mut self, tag: u64) -> &Sent {
        self.unused.push(tag as u32);
        &self.by_tag[tag as usize]
    }
}
