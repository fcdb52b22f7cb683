//! Strict-append: a log in bands, cleaned by cost and benefit (Kadekodi et al. 2015, section 4.1).
//!
//! Data goes to the cursors of a few open bands; what is replaced or deleted stays behind as garbage until cleaning has
//! moved the rest of its band elsewhere and the band has been reset. Left out: wear, and the disk's own spare bands.

mod clean;
mod event;
pub mod options;
mod streams;
mod table;

use crate::device::{BandReport, BandState, Shape};
use crate::map::Ranges;
use crate::space::live::Live;
use crate::space::{AllocationRequest, CleaningStep, Counts, Space, Trigger, whole};
use crate::units::{NodeId, Owner, Span};
use clean::BandCleaner;
use options::{BandsError, BandsOptions};
use streams::Streams;
use table::BandTable;

/// The allocator and cleaner of strict-append.
#[derive(Debug)]
pub struct BandSpace {
    shape: Shape,
    options: BandsOptions,
    table: BandTable,
    streams: Streams,
    cleaner: BandCleaner,
    live: Live,
    retired: Live,
    /// Part of `live` that can't be moved.
    unmovable: Ranges,
    /// Granules placed for hosts: the clock of ages.
    clock: u64,
}

impl BandSpace {
    /// For a disk of that shape, with nothing on it.
    pub fn new(shape: &Shape, options: BandsOptions) -> Result<BandSpace, BandsError> {
        options.fit(shape)?;
        Ok(BandSpace {
            shape: *shape,
            options,
            table: BandTable::new(shape.bands),
            streams: Streams::new(
                options.writers_of(shape),
                options.blocks,
                shape.bands.max_open,
                options.reserve_bands,
            ),
            cleaner: BandCleaner::default(),
            live: Live::new(),
            retired: Live::new(),
            unmovable: Ranges::default(),
            clock: 0,
        })
    }

    /// Does something to every band in which `span` lies, piece by piece.
    fn each(&mut self, span: Span, how: impl Fn(&mut table::Band, u64)) {
        let pieces = self.table.pieces(span);
        for (band, piece) in pieces.unwrap_or_else(|| panic!("{span} is not in the bands {:?}", self.shape.bands)) {
            self.table.change(band, |band| how(band, piece.count));
            if self.table.rest(band) == 0 {
                self.streams.forget(band);
            }
        }
        self.cleaner.changed();
    }

    /// End of the part of a band that maps name, in granules from its start.
    fn live_end(&self, band: u64) -> u64 {
        let span = self.shape.bands.span(band);
        let last = self.live.before(span.end()).and_then(|(extent, _)| extent.overlap(span));
        last.map_or(0, |extent| extent.end() - span.at)
    }
}

/// Retired granules have no owner; neighbours are to be one extent.
fn nobody(span: Span) -> Owner {
    Owner { file: NodeId(0), granule: span.at.0 }
}

impl Space for BandSpace {
    fn adopt(&mut self, span: Span, owner: Owner) -> bool {
        let inside = span.at.0.checked_add(span.count).is_some_and(|end| end <= self.shape.granules);
        let Some(pieces) = inside.then(|| self.table.pieces(span)).flatten() else { return false };
        if !self.live.insert(span, owner) {
            return false;
        }
        for (band, piece) in pieces {
            let end = piece.end() - self.shape.bands.span(band).at;
            self.table.change(band, |band| {
                band.cursor = band.cursor.max(end);
                band.live += piece.count;
            });
        }
        true
    }

    fn start(&mut self, report: &[BandReport]) {
        let size = self.shape.bands.granules;
        for number in 0..self.shape.bands.count {
            let start = self.shape.bands.span(number).at;
            let told = report.get(number as usize).filter(|told| told.start == start && told.cursor >= start);
            let (state, cursor) =
                told.map_or((BandState::Offline, 0), |told| (told.state, (told.cursor - start).min(size)));
            let live_end = self.live_end(number);
            self.table.change(number, |band| {
                band.lost = state.is_lost();
                // A map that reads behind the cursor is damaged; what it names must not be written over all the same.
                let given_up = live_end > cursor;
                band.held = given_up && cursor > 0;
                let whole = band.lost || given_up || state == BandState::Full;
                band.cursor = if whole { size } else { cursor };
            });
        }
    }

    fn place(&mut self, want: &AllocationRequest) -> Option<Span> {
        let span = self.streams.place(&self.table, want)?;
        let written = match self.cleaner.source().filter(|_| want.moving) {
            Some(source) => self.table.get(source).youngest,
            None => self.clock,
        };
        self.each(span, |band, count| {
            band.cursor += count;
            band.pending += count;
            band.youngest = band.youngest.max(written);
        });
        if !want.moving {
            self.clock += span.count;
            self.allow(span.count);
        }
        Some(span)
    }

    fn written_in_pieces(&mut self, pieces: &[(Span, Owner)]) {
        for &(span, owner) in pieces {
            assert!(self.live.insert(span, owner), "{span} was written and is live already");
        }
        self.each(whole(pieces), |band, count| {
            band.pending -= count;
            band.live += count;
        });
    }

    fn failed(&mut self, span: Span) {
        let size = self.shape.bands.granules;
        self.each(span, |band, count| {
            band.pending -= count;
            // Nobody knows where the cursor is now.
            band.cursor = size;
            band.held = true;
        });
    }

    fn hand_over(&mut self, span: Span, owner: Owner) {
        self.live.hand_over(span, owner);
    }

    fn retire(&mut self, span: Span) {
        let removed = self.live.remove(span);
        assert_eq!(removed, span.count, "{span} is retired and not all of it is live");
        assert!(self.retired.insert(span, nobody(span)), "{span} is live and retired");
        self.need_not_move(span);
        self.each(span, |band, count| {
            band.live -= count;
            band.retired += count;
        });
    }

    fn release(&mut self, span: Span) {
        let removed = self.retired.remove(span);
        assert_eq!(removed, span.count, "{span} is released and not all of it is retired");
        self.each(span, |band, count| band.retired -= count);
    }

    fn closed(&mut self, file: NodeId) {
        self.streams.closed(file);
    }

    fn wants_cleaning(&self, idle: bool) -> Option<Trigger> {
        self.due(idle)
    }

    fn clean(&mut self, why: Trigger) -> Option<CleaningStep> {
        self.step(why)
    }

    fn was_reset(&mut self, band: u64) {
        let state = self.table.get(band);
        assert_eq!(state.readable(), 0, "band {band} was reset: {state:?}");
        self.table.change(band, |band| *band = table::Band { lost: band.lost, ..table::Band::default() });
        self.streams.forget(band);
        self.cleaner.changed();
    }

    fn reset_failed(&mut self, band: u64) {
        self.refuse(band);
    }

    fn unmovable(&mut self, span: Span) {
        self.leave(span);
    }

    fn usable(&self) -> u64 {
        let bands = &self.shape.bands;
        let raw = (bands.count - self.table.sums().lost) * bands.granules;
        let spare = (raw * self.options.spare_percent).div_ceil(100);
        raw.saturating_sub(spare.max(self.options.least_spare_bands() * bands.granules))
    }

    fn counts(&self) -> Counts {
        let sums = self.table.sums();
        let readable = sums.live + sums.retired + sums.pending;
        // What was given up is left alone by choice; the disk would take it.
        let writable = sums.rest + sums.unused;
        Counts {
            readable,
            not_writable: self.shape.granules - readable - writable,
            write_once: 0,
            writable,
            retired: sums.retired,
            garbage: sums.garbage,
        }
    }

    fn live(&self) -> &Live {
        &self.live
    }

    fn check(&self) -> Result<(), String> {
        self.recount()
    }
}
