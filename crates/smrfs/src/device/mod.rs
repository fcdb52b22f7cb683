//! The host-managed disk: one trait, two models.
//!
//! Strict-append has bands with a write cursor and refuses everything but appends and resets. Caveat-Scriptor takes writes anywhere, and a
//! write destroys what shingling destroys. (Kadekodi et al. 2015, section 3.) Below a model are platters that hold the data: the
//! simulator's drive, memory, an image file, a block device, or the zones of one. Platters take reads and writes anywhere; the model above
//! them enforces the rules.

pub mod caveat;
pub mod modelled;
pub mod stacked;
pub mod strict;
pub mod zoned;

use std::io;

use serde::{Deserialize, Serialize};
use smrkit::error::Error;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use crate::data::{Data, ReadBuffer};
use crate::error::{DeviceError, DeviceResult, Violation};
use crate::units::{Granule, HostJournal, Span};

/// Model of a host-managed disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Bands, each written from its start on.
    StrictAppend,
    /// Write anywhere, at the host's own risk.
    Caveat,
}

/// The bands of a strict-append disk, with gaps of at least max(DID, DPID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bands {
    /// Number of bands.
    pub count: u64,
    /// The writable granules of a band.
    pub granules: u64,
    /// The unwritten granules after each band.
    pub gap_granules: u64,
    /// Number of bands that may be open (partly written) at a time.
    pub max_open: u64,
}

impl Bands {
    /// The writable granules of band number `band`.
    pub fn span(&self, band: u64) -> Span {
        Span::new(band * (self.granules + self.gap_granules), self.granules)
    }

    /// The band of a granule; `None` in a gap or behind the last band.
    pub fn band_at(&self, at: Granule) -> Option<u64> {
        let pitch = self.granules + self.gap_granules;
        // Without bands the pitch is 0.
        let band = at.0.checked_div(pitch)?;
        (band < self.count && at.0 % pitch < self.granules).then_some(band)
    }

    /// The band that holds all of `span`.
    pub(crate) fn band_of(&self, span: Span) -> Result<u64, Violation> {
        let band = self.band_at(span.at).filter(|&band| self.span(band).contains(span));
        band.ok_or(Violation::NotInOneBand { span })
    }

    /// How many granules of these spans are in each band. A span may lie in several.
    pub fn granules_by_band(&self, spans: impl Iterator<Item = Span>) -> Vec<u64> {
        let mut granules = vec![0; self.count as usize];
        for mut left in spans {
            while let Some(number) = self.band_at(left.at).filter(|_| !left.is_empty()) {
                let count = left.count.min(self.span(number).end() - left.at);
                granules[number as usize] += count;
                left = Span { at: left.at + count, count: left.count - count };
            }
        }
        granules
    }
}

/// The shape of a disk, which its host must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The model.
    pub model: Model,
    /// Bytes of a granule.
    pub granule_bytes: u64,
    /// Its size in granules.
    pub granules: u64,
    /// Drive isolation distance in granules: how far downstream a write destroys.
    pub did: u64,
    /// Drive prefix isolation distance in granules: how far upstream a second write destroys.
    pub dpid: u64,
    /// The bands; on Caveat-Scriptor their count is 0.
    pub bands: Bands,
}

impl Shape {
    /// Checks that such a disk is possible. Errors: the problem, with the remedy.
    pub fn check(&self) -> Result<(), Error> {
        let bands = self.bands;
        let impossible = |what: String| Err(Error::Impossible(what));
        if self.granule_bytes == 0 || !self.granule_bytes.is_multiple_of(512) {
            return impossible(format!("a granule of {} bytes: give a multiple of 512", self.granule_bytes));
        }
        // Byte offsets in an image file are signed.
        if self.granules == 0 || self.granules.checked_mul(self.granule_bytes).is_none_or(|b| b > i64::MAX as u64) {
            return impossible(format!("a disk of {} granules: give at least 1, and less than 8 EiB", self.granules));
        }
        if self.did.max(self.dpid) > u64::from(u32::MAX >> 1) {
            return impossible(format!("DID {} or DPID {} is over 2^31 granules: give less", self.did, self.dpid));
        }
        if self.model == Model::Caveat {
            return Ok(());
        }
        if bands.count == 0 || bands.granules == 0 || bands.max_open == 0 {
            return impossible("a strict-append disk without bands to write: give 1 band of 1 granule, 1 open".into());
        }
        let pitch = bands.granules.checked_add(bands.gap_granules);
        let end = pitch.and_then(|pitch| (bands.count - 1).checked_mul(pitch)?.checked_add(bands.granules));
        if end.is_none_or(|end| end > self.granules) {
            return impossible(format!("{} bands do not fit in {} granules: give fewer", bands.count, self.granules));
        }
        if bands.gap_granules > self.granules {
            let gap = bands.gap_granules;
            return impossible(format!("bands {gap} granules apart on a disk of {}: narrow the gap", self.granules));
        }
        if bands.gap_granules < self.did.max(self.dpid) {
            return impossible(format!(
                "bands {} granules apart, less than DID {} or DPID {}: widen the gap",
                bands.gap_granules, self.did, self.dpid
            ));
        }
        Ok(())
    }

    /// Its sizes and distances, in the order in which they are stored.
    pub fn words(&self) -> [u64; 8] {
        let Bands { count, granules, gap_granules, max_open } = self.bands;
        [self.granule_bytes, self.granules, self.did, self.dpid, count, granules, gap_granules, max_open]
    }

    /// The shape with these sizes and distances, unchecked.
    pub fn from_words(model: Model, words: [u64; 8]) -> Shape {
        let [granule_bytes, granules, did, dpid, count, band_granules, gap_granules, max_open] = words;
        let bands = Bands { count, granules: band_granules, gap_granules, max_open };
        Shape { model, granule_bytes, granules, did, dpid, bands }
    }

    /// The span of `bytes` from `at` on; an error unless these are whole granules of the disk.
    pub fn span(&self, at: Granule, bytes: u64) -> DeviceResult<Span> {
        if !bytes.is_multiple_of(self.granule_bytes) {
            let message = format!("{bytes} bytes at {at}: give whole granules of {}", self.granule_bytes);
            return Err(DeviceError::Io(io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
        // Cut off where its end, which the error message shows, would overflow.
        let count = (bytes / self.granule_bytes).min(u64::MAX - at.0);
        let (span, granules) = (Span { at, count }, self.granules);
        if span.is_empty() || at.0 >= granules || span.count > granules - at.0 {
            return Err(Violation::OutOfRange { span, granules }.into());
        }
        Ok(span)
    }
}

/// The state of a band, as of SCSI zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BandState {
    /// Nothing written since the last reset.
    Empty,
    /// Partly written.
    Open,
    /// Written to its end.
    Full,
    /// The disk can no longer write it.
    ReadOnly,
    /// The disk can no longer write or read it.
    Offline,
}

impl BandState {
    /// True if the disk can no longer write the band.
    pub fn is_lost(self) -> bool {
        matches!(self, BandState::ReadOnly | BandState::Offline)
    }
}

/// Report of a disk on one band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandReport {
    /// Its first granule.
    pub start: Granule,
    /// Granule at which the next write must begin; the band's end if it is full.
    pub cursor: Granule,
    /// Its state.
    pub state: BandState,
}

impl BandReport {
    /// The report of a band whose first `filled` granules are written; `lost` overrides the state that follows from that.
    pub(crate) fn new(band: Span, filled: u64, lost: Option<BandState>) -> BandReport {
        let by_cursor = match filled {
            0 => BandState::Empty,
            _ if filled == band.count => BandState::Full,
            _ => BandState::Open,
        };
        BandReport { start: band.at, cursor: band.at + filled, state: lost.unwrap_or(by_cursor) }
    }
}

/// A host-managed shingled disk. Calls may come from several threads.
pub trait HostManaged: Send + Sync {
    /// The disk's shape.
    fn shape(&self) -> &Shape;

    /// Reads whole granules from `at` on, as many as `room` takes.
    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult;

    /// Hints that `_span` will be read soon, in any order.
    fn expect(&self, _span: Span) {}

    /// Hints that a flush will follow soon: the disk may begin now. Errors are reported by that flush.
    fn start_flush(&self) {}

    /// Writes whole granules from `at` on: at the band's cursor on strict-append, anywhere on Caveat-Scriptor. After an
    /// error any part of it may be on the disk.
    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult;

    /// Empties a band: its cursor goes back to its start.
    fn reset(&self, band: u64) -> DeviceResult;

    /// Start, cursor and state of `count` bands from `first` on; empty without bands.
    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>>;

    /// Tells the disk that the host will not read these granules before it has written them again. Only a checker relies on it.
    fn discard(&self, span: Span);

    /// Reserves room for `bytes` to be written anywhere on the disk: all that has been accepted and not been written yet. An image file
    /// grows as it is written, and the disk of its host may be full (ENOSPC).
    fn reserve(&self, _bytes: u64) -> DeviceResult {
        Ok(())
    }

    /// Bytes that data can take up in total, with existing data that may be replaced. `None` if the disk has all of its space.
    fn room_bytes(&self) -> DeviceResult<Option<u64>> {
        Ok(None)
    }

    /// Makes durable what has been written.
    fn flush(&self) -> DeviceResult {
        self.flush_with(None)
    }

    /// Makes all writes durable, at the latest by the next commit of that journal, which the caller will ask for. A disk whose data that
    /// commit does not flush, or without a journal, flushes now.
    fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult;

    /// The time: the model's clock, or the time since the disk was opened.
    fn now(&self) -> Nanos;

    /// Advances the model's clock to `time`; does nothing on a disk without one.
    fn wait_until(&self, _time: Nanos) {}
}

/// Storage for a host-managed disk. Calls may come from several threads; addresses have been checked, and lengths are whole granules.
pub trait Platters: Send + Sync {
    /// Reads from `at` on. Granules that were never written read as zeros. `DeviceError::Damaged` if the platters know of damage.
    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult;

    /// Hints that `_span` will be read soon, in any order.
    fn expect(&self, _span: Span) {}

    /// As [`HostManaged::start_flush`](HostManaged::start_flush).
    fn start_flush(&self) {}

    /// Writes from `at` on. After an error any part of it may have been written.
    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult;

    /// Notes a band's new cursor (strict-append), after the write that moved it, or a reset. Platters that outlive the process store the
    /// cursors with the data; they are durable with the next flush.
    fn keep_cursor(&self, _band: u64, _cursor: Granule) -> DeviceResult {
        Ok(())
    }

    /// Reports a band whose write or reset has failed, if the platters have cursors of their own, which then count.
    fn band(&self, _band: u64) -> DeviceResult<Option<BandReport>> {
        Ok(None)
    }

    /// Notes that the host will not read these granules before it has written them again: their space may be released.
    fn discard(&self, _span: Span) {}

    /// As [`HostManaged::reserve`](HostManaged::reserve).
    fn reserve(&self, _bytes: u64) -> DeviceResult {
        Ok(())
    }

    /// As [`HostManaged::room_bytes`](HostManaged::room_bytes).
    fn room_bytes(&self) -> DeviceResult<Option<u64>> {
        Ok(None)
    }

    /// Makes all writes and the cursors durable, as [`HostManaged::flush_with`](HostManaged::flush_with).
    fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult;

    /// The drive's clock, or the time since the platters were opened.
    fn now(&self) -> Nanos;

    /// Advances a model's clock to `time`; does nothing on platters without one.
    fn wait_until(&self, _time: Nanos) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const BANDS: Bands = Bands { count: 3, granules: 10, gap_granules: 4, max_open: 2 };
    const DISK: Shape =
        Shape { model: Model::StrictAppend, granule_bytes: 512, granules: 38, did: 4, dpid: 2, bands: BANDS };

    #[test]
    fn an_address_is_in_a_band_or_in_a_gap() {
        assert_eq!([0, 1, 2].map(|band| BANDS.span(band)), [Span::new(0, 10), Span::new(14, 10), Span::new(28, 10)]);
        let found = [0, 9, 10, 13, 14, 27, 28, 37, 38, 42].map(|at| BANDS.band_at(Granule(at)));
        assert_eq!(found, [Some(0), Some(0), None, None, Some(1), None, Some(2), Some(2), None, None]);
        let none = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        assert_eq!(none.band_at(Granule(0)), None);
    }

    #[test]
    fn a_shape_is_possible_up_to_its_bounds() {
        let is_possible = |shape: Shape| shape.check().is_ok();
        let with = |bands: Bands| is_possible(Shape { bands, ..DISK });
        let caveat = Shape {
            model: Model::Caveat,
            bands: Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 },
            ..DISK
        };
        assert!(is_possible(DISK) && is_possible(caveat));
        for disk in [DISK, caveat] {
            let bytes = [0, 100, 512, 1024, 1536].map(|granule_bytes| is_possible(Shape { granule_bytes, ..disk }));
            assert_eq!(bytes, [false, false, true, true, true]);
            let most = (1 << 54) - 1;
            let sizes = [most, most + 1, u64::MAX].map(|granules| is_possible(Shape { granules, ..disk }));
            assert_eq!(sizes, [true, false, false]);
            assert!(!is_possible(Shape { granules: 0, ..disk }));
        }
        let far = u64::from(u32::MAX >> 1);
        for distance in [far, far + 1] {
            assert_eq!(is_possible(Shape { did: distance, ..caveat }), distance == far);
            assert_eq!(is_possible(Shape { dpid: distance, ..caveat }), distance == far);
        }
        assert!(!with(Bands { count: 0, ..BANDS }) && !with(Bands { granules: 0, ..BANDS }));
        assert!(!with(Bands { max_open: 0, ..BANDS }) && with(Bands { max_open: 1, ..BANDS }));
        assert!(!is_possible(Shape { granules: 37, ..DISK }) && !with(Bands { count: 4, ..BANDS }));
        assert!(!with(Bands { count: u64::MAX, ..BANDS }) && !with(Bands { granules: u64::MAX, ..BANDS }));
        let apart = |gap_granules, did, dpid| {
            is_possible(Shape { granules: 1000, did, dpid, bands: Bands { gap_granules, ..BANDS }, ..DISK })
        };
        assert_eq!([apart(4, 4, 4), apart(3, 4, 0), apart(3, 0, 4), apart(3, 3, 3)], [true, false, false, true]);
        let one = Bands { count: 1, gap_granules: 20, ..BANDS };
        assert!(is_possible(Shape { granules: 20, bands: one, ..DISK }));
        assert!(!is_possible(Shape { granules: 19, bands: one, ..DISK }));
    }

    #[test]
    fn a_span_is_whole_granules_of_the_disk() {
        let span = |at, bytes| DISK.span(Granule(at), bytes).ok();
        assert_eq!(
            [span(0, 512), span(36, 1024), span(0, 38 * 512)],
            [Some(Span::new(0, 1)), Some(Span::new(36, 2)), Some(Span::new(0, 38))]
        );
        for (at, bytes) in [(0, 0), (0, 511), (38, 512), (37, 1024), (0, 39 * 512), (u64::MAX, 512)] {
            assert_eq!(span(at, bytes), None, "{at}, {bytes}");
        }
    }

    #[test]
    fn a_band_is_empty_open_or_full_unless_it_is_lost() {
        let report = |filled, lost| BandReport::new(Span::new(14, 10), filled, lost);
        let told = [0, 1, 9, 10].map(|filled| (report(filled, None).cursor.0, report(filled, None).state));
        use BandState::{Empty, Full, Offline, Open};
        assert_eq!(told, [(14, Empty), (15, Open), (23, Open), (24, Full)]);
        assert_eq!(report(3, Some(Offline)), BandReport { start: Granule(14), cursor: Granule(17), state: Offline });
    }
}
