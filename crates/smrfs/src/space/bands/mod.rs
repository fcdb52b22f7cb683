//! Strict-append: a log in bands, cleaned by cost-benefit (Kadekodi et al. 2015, section 4.1).
//!
//! Data goes to the cursors of a few open bands. Replaced or deleted data stays as garbage until cleaning has moved the rest of its band
//! elsewhere, and the band has been reset. Left out: wear, and the disk's own spare bands.

mod clean;
mod table;
#[cfg(any(test, feature = "testing"))]
#[path = "../../../tests/testing/bands.rs"]
mod testing;

use serde::{Deserialize, Serialize};
use smrkit::error::Error;

use super::{AllocationRequest, CleaningStep, Counts, Live, Space, Trigger, whole};
use crate::device::{BandReport, BandState, Bands, Model, Shape};
use crate::map::Ranges;
use crate::units::{NodeId, Owner, Span};
use clean::{BandCleaner, CleaningEvent};
use table::{BandTable, Streams};

/// The allocator and cleaner of strict-append.
#[derive(Debug)]
pub struct BandSpace {
    shape: Shape,
    options: BandsOptions,
    table: BandTable,
    streams: Streams,
    cleaner: BandCleaner,
    live: Live,
    retired: Ranges,
    /// Part of `live` that can't be moved.
    unmovable: Ranges,
    /// Granules placed for hosts: the clock of ages.
    clock: u64,
}

impl BandSpace {
    /// Makes the space of an empty disk.
    pub fn new(shape: &Shape, options: BandsOptions) -> Result<BandSpace, Error> {
        BandsOptions::fit(shape)?;
        Ok(BandSpace {
            shape: *shape,
            options,
            table: BandTable::new(shape.bands),
            streams: Streams::new(options.writers_of(shape), options.blocks, shape.bands.max_open),
            cleaner: BandCleaner::default(),
            live: Live::default(),
            retired: Ranges::default(),
            unmovable: Ranges::default(),
            clock: 0,
        })
    }

    /// Changes every band in which `span` lies. `change` gets the band, and how many granules of the span are in it.
    fn change_bands(&mut self, span: Span, change: impl Fn(&mut table::Band, u64)) {
        let pieces = self.table.pieces(span);
        for (band, piece) in pieces.unwrap_or_else(|| panic!("{span} is not in the bands {:?}", self.shape.bands)) {
            self.table.change(band, |band| change(band, piece.count));
            if self.table.writable(band) == 0 {
                self.streams.forget(band);
            }
        }
        self.cleaner.found_nothing = false;
    }

    /// The end of a band's last live extent, in granules from the band's start.
    fn live_end(&self, band: u64) -> u64 {
        let span = self.shape.bands.span(band);
        let last = self.live.before(span.end()).and_then(|(extent, _)| extent.overlap(span));
        last.map_or(0, |extent| extent.end() - span.at)
    }
}

impl Space for BandSpace {
    fn adopt(&mut self, span: Span, owner: Owner) -> bool {
        let inside = span.at.0.checked_add(span.count).is_some_and(|end| end <= self.shape.granules);
        let Some(pieces) = inside.then(|| self.table.pieces(span)).flatten() else { return false };
        if !self.live.insert(span, owner) {
            return false;
        }
        for (band, piece) in pieces {
            // Until `start` learns the cursor from the disk, it lies behind the data.
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
            // A band that the disk does not report, or reports differently, can't be used.
            let reported = report.get(number as usize).filter(|band| band.start == start && band.cursor >= start);
            let (state, cursor) =
                reported.map_or((BandState::Offline, 0), |band| (band.state, (band.cursor - start).min(size)));
            let live_end = self.live_end(number);
            self.table.change(number, |band| {
                band.lost = state.is_lost();
                // A map that names granules behind the cursor is damaged. The band is closed, so that they are not overwritten.
                let is_damaged = live_end > cursor;
                band.closed_early = is_damaged && cursor > 0;
                let is_full = band.lost || is_damaged || state == BandState::Full;
                band.cursor = if is_full { size } else { cursor };
            });
        }
    }

    fn place(&mut self, want: &AllocationRequest) -> Option<Span> {
        let span = self.streams.place(&self.table, want)?;
        // Moved data is as old as the band that it comes from.
        let source = self.cleaner.event.as_ref().filter(|_| want.moving).and_then(CleaningEvent::source);
        let written = match source {
            Some(source) => self.table.get(source).youngest,
            None => self.clock,
        };
        self.change_bands(span, |band, count| {
            band.cursor += count;
            band.pending += count;
            band.youngest = band.youngest.max(written);
        });
        if !want.moving {
            self.clock += span.count;
            self.raise_budget(span.count);
        }
        Some(span)
    }

    fn written_in_pieces(&mut self, pieces: &[(Span, Owner)]) {
        for &(span, owner) in pieces {
            assert!(self.live.insert(span, owner), "{span} was written and is live already");
        }
        self.change_bands(whole(pieces), |band, count| {
            band.pending -= count;
            band.live += count;
        });
    }

    fn failed(&mut self, span: Span) {
        let size = self.shape.bands.granules;
        self.change_bands(span, |band, count| {
            band.pending -= count;
            // The disk's cursor is unknown now, so the band must be reset before it is written again.
            band.cursor = size;
            band.closed_early = true;
        });
    }

    fn hand_over(&mut self, span: Span, owner: Owner) {
        self.live.hand_over(span, owner);
    }

    fn retire(&mut self, span: Span) {
        let removed = self.live.remove(span);
        assert_eq!(removed, span.count, "{span} is retired and not all of it is live");
        self.retired.insert(span.range(), ());
        // The cleaner need not move it any more.
        if !self.unmovable.is_empty() {
            for (number, piece) in self.table.pieces(span).unwrap_or_default() {
                let unmovable_granules = self.unmovable.count_within(piece.range());
                self.unmovable.uncover(piece.range());
                self.table.change(number, |band| band.unmovable -= unmovable_granules);
            }
        }
        self.change_bands(span, |band, count| {
            band.live -= count;
            band.retired += count;
        });
    }

    fn release(&mut self, span: Span) {
        let retired: u64 = self.retired.uncover(span.range()).iter().map(|(part, ())| part.end - part.start).sum();
        assert_eq!(retired, span.count, "{span} is released and not all of it is retired");
        self.change_bands(span, |band, count| band.retired -= count);
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
        self.cleaner.found_nothing = false;
    }

    fn reset_failed(&mut self, band: u64) {
        self.cleaner.refused.push((band, self.clock));
    }

    fn mark_unmovable(&mut self, span: Span) {
        for (number, piece) in self.table.pieces(span).unwrap_or_default() {
            let live: Vec<Span> = self.live.within(piece).map(|(span, _)| span).collect();
            for span in &live {
                // Counted before the cover, after which all of it would be known as unmovable.
                let newly_unmovable = span.count - self.unmovable.count_within(span.range());
                self.unmovable.cover(span.range(), ());
                self.table.change(number, |band| band.unmovable += newly_unmovable);
            }
            // A band that was closed to be cleaned can't be emptied now, so it is opened again, and its rest can be written.
            if !live.is_empty() && self.table.get(number).unused > 0 {
                self.table.change(number, |band| {
                    band.cursor -= band.unused;
                    band.unused = 0;
                    band.closed_early = false;
                });
            }
        }
        // An event that met such data has not failed to gain, because the next one will not try that data again.
        self.cleaner.stuck_room = None;
    }

    fn usable(&self) -> u64 {
        let bands = &self.shape.bands;
        let raw = (bands.count - self.table.sums.lost) * bands.granules;
        let spare = (raw * SPARE_PERCENT).div_ceil(100);
        raw.saturating_sub(spare.max(LEAST_SPARE_BANDS * bands.granules))
    }

    fn counts(&self) -> Counts {
        let sums = self.table.sums;
        let readable = sums.live + sums.retired + sums.pending;
        // Unused granules count as writable, because the disk would still take writes there.
        let writable = sums.writable + sums.unused;
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

    #[cfg(any(test, feature = "testing"))]
    fn check(&self) -> Result<(), String> {
        self.recount()
    }
}

/// When a band without readable data is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reset {
    /// Only by a cleaning event, where it counts as one of the bands that the event examines (as in the paper's figure).
    Lazy,
    /// As soon as its last data is released.
    Eager,
}

/// How much is cleaned at a time while space is short and the host goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CleaningQuota {
    /// A whole event at once, as in the paper.
    Event,
    /// A little with each write of the host, as much as keeps the number of free bands.
    Steady,
}

/// How a block that is larger than the rest of its band is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocks {
    /// Blocks are split, so nothing is wasted.
    Split,
    /// A block goes whole to another band as long as one more may be opened; a smaller one may fill the rest.
    Whole,
}

/// Cleaning is due at once when less than this share of the bands is empty (section 4.1).
const LOW_PERCENT: u64 = 5;
/// Cleaning is done in idle time when less than this share of the bands is empty (section 4.1).
const IDLE_PERCENT: u64 = 35;
/// Only the cleaner may use the room of this many bands. Each of two power cuts during cleaning may cost one, until cleaning regains it.
pub const RESERVE_BANDS: u64 = 3;
/// Share of the bands that files can't fill, or more if the reserve needs it (assumption: a compromise of room and amplification).
const SPARE_PERCENT: u64 = 8;
/// At least this many bands are kept from files: the reserve, the cleaner's open band, one that cleaning gains, and one of garbage, without
/// which cleaning a full disk costs a hundred times its gain.
const LEAST_SPARE_BANDS: u64 = RESERVE_BANDS + 3;

/// Options of the allocator and the cleaner of strict-append; none of them is stored on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandsOptions {
    /// When dead bands are reset.
    pub reset: Reset,
    /// Amount that is cleaned at a time while space is short.
    pub pace: CleaningQuota,
    /// Blocks at the end of a band.
    pub blocks: Blocks,
    /// The most files that have an open band of their own while they are written. On a small disk fewer, one for 32 bands.
    pub writers: u64,
    /// The largest piece that the cleaner moves at once, in granules.
    pub block_granules: u64,
    /// Granules of bands that one cleaning event examines; at least one band.
    pub event_granules: u64,
    /// Idle time is spent only on bands of which at least this share is dead.
    pub idle_dead_percent: u64,
}

impl Default for BandsOptions {
    fn default() -> BandsOptions {
        BandsOptions {
            reset: Reset::Eager,
            pace: CleaningQuota::Steady,
            blocks: Blocks::Split,
            writers: 4,               // assumption
            block_granules: 256,      // 1 MiB, the paper's section 4
            event_granules: 4 * 8192, // 128 MiB, section 4.1
            idle_dead_percent: 25,    // assumption: at most three granules moved for one gained
        }
    }
}

impl BandsOptions {
    /// As in the paper's section 4.1 and its figure 4: whole events, bands reset by events only, one log.
    pub fn paper() -> BandsOptions {
        BandsOptions {
            reset: Reset::Lazy,
            pace: CleaningQuota::Event,
            blocks: Blocks::Whole,
            writers: 1,
            idle_dead_percent: 0,
            ..BandsOptions::default()
        }
    }

    /// Bands that an event examines on a disk of `shape`. On a small disk at most a 32nd of all (assumption).
    pub fn event_bands(&self, shape: &Shape) -> usize {
        let bands_max = (shape.bands.count / 32).max(1);
        (self.event_granules / shape.bands.granules.max(1)).clamp(1, bands_max) as usize
    }

    /// How many files have an open band of their own on a disk of `shape`. Few, because partly written bands are not cleaned.
    fn writers_of(&self, shape: &Shape) -> u64 {
        self.writers.min(shape.bands.count / 32).max(1)
    }

    /// Fails if the disk is too small.
    fn fit(shape: &Shape) -> Result<(), Error> {
        let Shape { model, bands: Bands { count, granules, max_open, .. }, .. } = *shape;
        let end = count.checked_sub(1).map_or(0, |last| shape.bands.span(last).end().0);
        assert!(model == Model::StrictAppend && end <= shape.granules, "bands up to {end} on {shape:?}");
        let least = LEAST_SPARE_BANDS + 1;
        if max_open == 0 || granules == 0 {
            let remedy = "give bands of at least one granule, and let one be open besides that of the superblock";
            Err(Error::Impossible(format!("the disk has no bands that can be written: {remedy}")))
        } else if count < least {
            let remedy = "make the disk larger or its bands smaller";
            let why = format!("{count} bands are too few: cleaning and one band of data need {least}; {remedy}");
            Err(Error::Impossible(why))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(count: u64, granules: u64) -> Shape {
        let bands = Bands { count, granules, gap_granules: 2, max_open: 4 };
        Shape {
            model: Model::StrictAppend,
            granule_bytes: 4096,
            granules: count * (granules + 2),
            did: 2,
            dpid: 0,
            bands,
        }
    }

    #[test]
    fn events_and_writers_are_fewer_on_small_disks() {
        let options = BandsOptions { event_granules: 100, writers: 4, ..BandsOptions::default() };
        let of = |count, granules| {
            (options.event_bands(&shape(count, granules)), options.writers_of(&shape(count, granules)))
        };
        assert_eq!([of(10, 10), of(63, 10), of(64, 10), of(319, 10)], [(1, 1), (1, 1), (2, 2), (9, 4)]);
        assert_eq!([of(3200, 10), of(3200, 11), of(3200, 101), of(3200, 0)], [(10, 4), (9, 4), (1, 4), (100, 4)]);
    }
}
