//! The books of a strict-append disk: cursors and live data, apart from what the disk itself keeps.
//!
//! Bands lie so far apart that DID and DPID never matter; within a band only what lies at the cursor is written. R is what
//! may be read, W what lies behind the cursors; all else is NW: dead data, gaps, and the rest of a band in which a write has
//! failed, whose cursor nobody knows.

use super::Counts;
use crate::device::{BandReport, Bands};
use crate::error::Violation;
use crate::map::Ranges;
use crate::units::{Granule, Span};

/// Live data, and each band's cursor.
pub(super) struct BandLedger {
    bands: Bands,
    granules: u64,
    live: Ranges,
    filled: Vec<u64>,
    written: u64,
}

impl BandLedger {
    /// An empty disk.
    pub(super) fn new(granules: u64, bands: Bands) -> BandLedger {
        BandLedger { bands, granules, live: Ranges::default(), filled: vec![0; bands.count as usize], written: 0 }
    }

    /// R, NW and W; there is no WO.
    pub(super) fn counts(&self) -> Counts {
        let readable = self.live.count();
        let writable = self.bands.count * self.bands.granules - self.written;
        let not_writable = self.granules - readable - writable;
        Counts { readable, not_writable, writable, ..Counts::default() }
    }

    fn band_of(&self, span: Span) -> Result<u64, Violation> {
        let band = self.bands.band_at(span.at).ok_or(Violation::NotInOneBand { span })?;
        if self.bands.span(band).contains(span) { Ok(band) } else { Err(Violation::NotInOneBand { span }) }
    }

    fn cursor(&self, band: u64) -> Granule {
        self.bands.span(band).at + self.filled[band as usize]
    }

    fn fill(&mut self, band: u64, filled: u64) {
        self.written = self.written + filled - self.filled[band as usize];
        self.filled[band as usize] = filled;
    }

    /// Checks that `span` may be written by one command.
    pub(super) fn may_write(&self, span: Span) -> Result<(), Violation> {
        let cursor = self.cursor(self.band_of(span)?);
        match self.live.first_from(span.at.0) {
            Some(at) if at < span.end().0 => Err(Violation::OverLive { at: Granule(at) }),
            _ if span.at != cursor => Err(Violation::NotAtCursor { at: span.at, cursor }),
            _ => Ok(()),
        }
    }

    /// `span`, which may be written, is being written, and live from now on.
    pub(super) fn write(&mut self, span: Span) {
        if let Ok(band) = self.band_of(span) {
            self.live.insert(span.range());
            self.fill(band, span.end() - self.bands.span(band).at);
        }
    }

    /// Takes a failed write back.
    pub(super) fn failed(&mut self, span: Span) {
        self.live.remove(span.range());
        if let Ok(band) = self.band_of(span) {
            self.fill(band, self.bands.granules);
        }
    }

    /// `span` will not be read again.
    pub(super) fn discard(&mut self, span: Span) {
        self.live.remove(span.range());
    }

    /// Checks that `band` may be reset.
    pub(super) fn may_reset(&self, band: u64) -> Result<(), Violation> {
        let bands = self.bands.count;
        if band >= bands {
            return Err(Violation::NoSuchBand { band, bands });
        }
        let span = self.bands.span(band);
        match self.live.first_from(span.at.0) {
            Some(at) if at < span.end().0 => Err(Violation::ResetOfLive { at: Granule(at) }),
            _ => Ok(()),
        }
    }

    /// `band` has been reset.
    pub(super) fn reset(&mut self, band: u64) {
        self.fill(band, 0);
    }

    /// A mount: `live` may be read, and the cursors are where the disk says.
    pub(super) fn restart(&mut self, live: &[Span], report: &[BandReport]) {
        self.live = Ranges::default();
        for &span in live {
            self.live.insert(span.range());
        }
        for (band, report) in (0..self.bands.count).zip(report) {
            self.fill(band, report.cursor - report.start);
        }
    }
}
