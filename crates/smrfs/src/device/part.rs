//! A disk without its beginning, as a disk of its own: what the superblocks leave for data.
//!
//! Addresses in errors are the whole disk's.

use std::sync::Arc;

use smrkit::tally::Cause;

use super::stacked;
use super::{BandReport, HostManaged, Shape};
use crate::data::{Data, ReadBuffer};
use crate::error::{DeviceResult, Violation};
use crate::units::{Granule, Span};

/// All of a disk but its first granules.
pub struct Part {
    whole: Arc<dyn HostManaged>,
    shape: Shape,
    first: u64,
    first_band: u64,
}

impl Part {
    /// `whole` without its first `granules`, which hold its first `bands`. One band may be open in those at any time.
    pub fn new(whole: Arc<dyn HostManaged>, granules: u64, bands: u64) -> Part {
        let shape = Part::shape_of(whole.shape(), granules, bands);
        Part { whole, shape, first: granules, first_band: bands }
    }

    /// The shape of such a part.
    pub fn shape_of(whole: &Shape, granules: u64, bands: u64) -> Shape {
        let mut shape = *whole;
        shape.granules = shape.granules.saturating_sub(granules);
        shape.bands.count = shape.bands.count.saturating_sub(bands);
        if bands > 0 {
            shape.bands.max_open = shape.bands.max_open.saturating_sub(1);
        }
        shape
    }

    fn checked(&self, at: Granule, bytes: u64) -> DeviceResult<Granule> {
        let span = Span { at, count: bytes / self.shape.granule_bytes };
        match span.at.0.checked_add(span.count).is_some_and(|end| end <= self.shape.granules) {
            true => Ok(at + self.first),
            false => Err(Violation::OutOfRange { span, granules: self.shape.granules }.into()),
        }
    }
}

impl stacked::Stacked for Part {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.whole
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        self.below().read(self.checked(at, room.bytes())?, room, cause)
    }

    fn expect(&self, span: Span) {
        if let Ok(at) = self.checked(span.at, span.count * self.shape.granule_bytes) {
            self.below().expect(Span { at, ..span });
        }
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        self.below().write(self.checked(at, data.bytes())?, data, cause)
    }

    fn reset(&self, band: u64) -> DeviceResult {
        let bands = self.shape.bands.count;
        if band >= bands && self.first_band > 0 {
            return Err(Violation::NoSuchBand { band, bands }.into());
        }
        self.below().reset(band + self.first_band)
    }

    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>> {
        let bands = self.shape.bands.count;
        let (first, count) = (first.min(bands), count.min(bands - first.min(bands)));
        let mut reports = self.below().report(first + self.first_band, count)?;
        for report in &mut reports {
            report.start = Granule(report.start.0 - self.first);
            report.cursor = Granule(report.cursor.0 - self.first);
        }
        Ok(reports)
    }

    fn discard(&self, span: Span) {
        self.below().discard(Span { at: span.at + self.first, count: span.count });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Bands, Model};

    #[test]
    fn what_is_taken_from_the_front_opens_a_band_only_if_it_has_one() {
        let bands = Bands { count: 8, granules: 10, gap_granules: 2, max_open: 4 };
        let whole = Shape { model: Model::StrictAppend, granule_bytes: 4096, granules: 96, did: 2, dpid: 1, bands };
        let of = |granules, bands| {
            let shape = Part::shape_of(&whole, granules, bands);
            (shape.granules, shape.bands.count, shape.bands.max_open)
        };
        assert_eq!([of(0, 0), of(5, 0), of(12, 1), of(24, 2)], [(96, 8, 4), (91, 8, 4), (84, 7, 3), (72, 6, 3)]);
    }
}
