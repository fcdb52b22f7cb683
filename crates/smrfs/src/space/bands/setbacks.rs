//! Setbacks of cleaning: data that the disk does not read, and bands that it does not reset.
//!
//! A band with data that can't be moved is never empty, so cleaning it wins nothing before that data is deleted or replaced.
//! A reset that failed is tried again when hosts have written as much as a band holds, and when nothing else makes room.

use super::BandSpace;
use crate::units::Span;

impl BandSpace {
    /// Leaves the live data of `span` where they are. A band that was given up to be cleaned is gone on with.
    pub(super) fn leave(&mut self, span: Span) {
        for (number, piece) in self.table.pieces(span).unwrap_or_default() {
            let live: Vec<Span> =
                self.live.overlapping(piece).filter_map(|(extent, _)| extent.overlap(piece)).collect();
            for span in live {
                let range = span.at.0..span.end().0;
                let more = span.count - self.unmovable.count_within(range.clone());
                self.unmovable.insert(range);
                self.table.change(number, |band| band.unmovable += more);
                self.go_on_with(number);
            }
        }
        self.cleaner.left_behind();
    }

    fn go_on_with(&mut self, number: u64) {
        if self.table.get(number).unused == 0 {
            return;
        }
        self.table.change(number, |band| {
            band.cursor -= band.unused;
            band.unused = 0;
            band.held = false;
        });
    }

    /// Drops retired data from those to be moved.
    pub(super) fn need_not_move(&mut self, span: Span) {
        if self.unmovable.is_empty() {
            return;
        }
        for (number, piece) in self.table.pieces(span).unwrap_or_default() {
            let range = piece.at.0..piece.end().0;
            let less = self.unmovable.count_within(range.clone());
            self.unmovable.remove(range);
            self.table.change(number, |band| band.unmovable -= less);
        }
    }

    /// The disk did not reset the band.
    pub(super) fn refuse(&mut self, band: u64) {
        self.cleaner.refused.push((band, self.clock));
    }

    /// Bands whose reset failed may be reset again; `false` if there are none.
    pub(super) fn offer_refused(&mut self) -> bool {
        self.offer_refused_since(self.clock)
    }

    /// Offers again those whose reset failed long ago (assumption: a band's worth of writes).
    pub(super) fn offer_refused_later(&mut self) {
        if let Some(then) = self.clock.checked_sub(self.shape.bands.granules) {
            self.offer_refused_since(then);
        }
    }

    fn offer_refused_since(&mut self, then: u64) -> bool {
        let (again, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.cleaner.refused).into_iter().partition(|&(_, since)| since <= then);
        self.cleaner.refused = later;
        for &(band, _) in &again {
            self.table.change(band, |band| band.asked = false);
            self.cleaner.changed();
        }
        !again.is_empty()
    }
}
