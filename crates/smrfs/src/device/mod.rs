//! The host-managed disk: one trait, two models.
//!
//! Strict-append has bands with a write cursor and refuses everything but appends and resets. Caveat-Scriptor takes writes
//! anywhere, and destroys what shingling destroys. (Kadekodi et al. 2015, section 3.) Beneath a model lies what holds the
//! data: the simulator's drive, memory, an image file, a block device, or the zones of one.

pub mod caveat;
mod history;
pub mod memory;
pub mod modelled;
pub(crate) mod order;
pub mod part;
pub mod platters;
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
use crate::units::{Granule, Journal, Span};

/// Model of a host-managed disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Bands, each written from its start on.
    StrictAppend,
    /// Write anywhere, at the host's own risk.
    Caveat,
}

/// The bands of a strict-append disk. They lie apart by at least max(DID, DPID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bands {
    /// Number of bands.
    pub count: u64,
    /// The granules of one that can be written.
    pub granules: u64,
    /// The unwritten granules behind each.
    pub gap_granules: u64,
    /// Number of bands that may be open (begun and not full) at a time.
    pub max_open: u64,
}

impl Bands {
    /// The granules of band number `band` that can be written.
    pub fn span(&self, band: u64) -> Span {
        Span::new(band * (self.granules + self.gap_granules), self.granules)
    }

    /// The band in which `at` lies; none in a gap or behind the last band.
    pub fn band_at(&self, at: Granule) -> Option<u64> {
        let pitch = self.granules + self.gap_granules;
        let band = at.0.checked_div(pitch)?;
        (band < self.count && at.0 % pitch < self.granules).then_some(band)
    }
}

/// Shape of a disk, as hosts must know it.
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
    /// The bands (of no interest on Caveat-Scriptor: count 0).
    pub bands: Bands,
}

impl Shape {
    /// Checks that such a disk can be. Errors: what is wrong and how to mend it.
    pub fn check(&self) -> Result<(), Error> {
        let bands = self.bands;
        let pitch = bands.granules.checked_add(bands.gap_granules);
        let end = bands.count.checked_sub(1).and_then(|last| last.checked_mul(pitch?)?.checked_add(bands.granules));
        let impossible = |what: String| Err(Error::Impossible(what));
        if self.granule_bytes == 0 || !self.granule_bytes.is_multiple_of(512) {
            return impossible(format!("a granule of {} bytes: give a multiple of 512", self.granule_bytes));
        }
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

    /// The span of `bytes` from `at` on; an error unless these are whole granules of the disk.
    pub fn span(&self, at: Granule, bytes: u64) -> DeviceResult<Span> {
        if !bytes.is_multiple_of(self.granule_bytes) {
            let message = format!("{bytes} bytes at {at}: give whole granules of {}", self.granule_bytes);
            return Err(DeviceError::Io(io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
        let count = (bytes / self.granule_bytes).min(u64::MAX - at.0);
        let (span, granules) = (Span { at, count }, self.granules);
        if span.is_empty() || at.0 >= granules || span.count > granules - at.0 {
            return Err(Violation::OutOfRange { span, granules }.into());
        }
        Ok(span)
    }
}

/// The state of a band, as SCSI zones have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BandState {
    /// Nothing written since the last reset.
    Empty,
    /// Partly written.
    Open,
    /// Written to its end.
    Full,
    /// The disk can't write it any more.
    ReadOnly,
    /// The disk can't even read it.
    Offline,
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
    /// The report of a band whose first `filled` granules are written; `lost` overrides the state that they give.
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
    /// The disk's shape, as hosts must know it.
    fn shape(&self) -> &Shape;

    /// Reads whole granules from `at` on; as many as `room` takes.
    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult;

    /// This will be read soon, in this order of addresses or any other: a hint.
    fn expect(&self, _span: Span) {}

    /// Writes whole granules from `at` on: at the band's cursor on strict-append, anywhere on Caveat-Scriptor. After an
    /// error any part of it may be on the disk.
    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult;

    /// Empties a band: its cursor goes back to its start.
    fn reset(&self, band: u64) -> DeviceResult;

    /// Start, cursor and state of `count` bands from `first` on; empty without bands.
    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>>;

    /// The host will not read this again before it has been written again. A checker counts on it; disks may ignore it.
    fn discard(&self, span: Span);

    /// Sees to it that `bytes` can be written, wherever on the disk: all that has been accepted and is not written yet. An
    /// image file takes up room on its host as it is written, and the host's disk may be full (ENOSPC).
    fn reserve(&self, _bytes: u64) -> DeviceResult {
        Ok(())
    }

    /// Bytes that data can take up in all, what lies there already and could make way included; none where the disk has all
    /// of its room.
    fn room_bytes(&self) -> DeviceResult<Option<u64>> {
        Ok(None)
    }

    /// Makes durable what has been written.
    fn flush(&self) -> DeviceResult;

    /// Makes durable what has been written, at the latest by the next commit of that journal, for which the caller asks then. A
    /// disk whose data such a commit does not flush, or that knows none, flushes now.
    fn flush_with(&self, _journal: Option<Journal>) -> DeviceResult {
        self.flush()
    }

    /// The disk's time: the model's clock, or the time since it was opened.
    fn now(&self) -> Nanos;

    /// Lets the model's clock run on to `time`; nothing happens on a disk that has none.
    fn wait_until(&self, _time: Nanos) {}
}
