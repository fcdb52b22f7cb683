//! Contents of platters: pages of a granule, in shared chunks, so that a copy costs little.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::units::{Granule, Span};

const CHUNK: u64 = 32;

/// Content of a granule.
#[derive(Clone, Debug, Default)]
pub(super) enum GranuleContent {
    /// Never written; reads as zeros.
    #[default]
    Empty,
    /// Data of no interest.
    Zeros,
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// Nothing any more.
    Damaged {
        /// The granule whose write destroyed it.
        by: Granule,
    },
}

/// The platters, and the bands' cursors.
#[derive(Clone)]
pub(super) struct DiskImage {
    chunks: BTreeMap<u64, Arc<[GranuleContent; CHUNK as usize]>>,
    filled: Arc<Vec<u64>>,
}

impl DiskImage {
    pub(super) fn new(bands: u64) -> DiskImage {
        DiskImage { chunks: BTreeMap::new(), filled: Arc::new(vec![0; bands as usize]) }
    }

    pub(super) fn get(&self, at: u64) -> &GranuleContent {
        self.chunks.get(&(at / CHUNK)).map_or(&GranuleContent::Empty, |chunk| &chunk[(at % CHUNK) as usize])
    }

    pub(super) fn put(&mut self, at: u64, pages: &[GranuleContent]) {
        for (at, page) in (at..).zip(pages) {
            *self.slot(at) = page.clone();
        }
    }

    /// Damages what there is in `span`.
    pub(super) fn destroy(&mut self, span: Span, by: Granule) {
        for at in span.at.0..span.end().0 {
            if !matches!(self.get(at), GranuleContent::Empty) {
                *self.slot(at) = GranuleContent::Damaged { by };
            }
        }
    }

    /// Granules written, by band.
    pub(super) fn filled(&self) -> impl Iterator<Item = u64> + '_ {
        self.filled.iter().copied()
    }

    pub(super) fn fill(&mut self, band: u64, filled: u64) {
        Arc::make_mut(&mut self.filled)[band as usize] = filled;
    }

    fn slot(&mut self, at: u64) -> &mut GranuleContent {
        let chunk = self.chunks.entry(at / CHUNK).or_default();
        &mut Arc::make_mut(chunk)[(at % CHUNK) as usize]
    }
}
