//! The host-managed disk: one trait, two models.
//!
//! Strict-append has bands with a write cursor and refuses everything but appends and resets. Caveat-Scriptor takes writes
//! anywhere, and destroys what shingling destroys. (Kadekodi et al. 2015, section 3.) Beneath a model lies what holds the
//! data: the simulator's drive, memory, an image file or a block device.

use serde::{Deserialize, Serialize};
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use crate::data::{Data, Room};
use crate::error::DeviceResult;
use crate::units::{Granule, Span};

/// Which model of a host-managed disk.
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
    /// How many there are.
    pub count: u64,
    /// The granules of one that can be written.
    pub granules: u64,
    /// The unwritten granules behind each.
    pub gap_granules: u64,
    /// How many may be open (begun and not full) at a time.
    pub max_open: u64,
}

impl Bands {
    /// The granules of band number `band` that can be written.
    pub fn span(&self, band: u64) -> Span {
        Span::new(band * (self.granules + self.gap_granules), self.granules)
    }

    /// The band in which `at` lies; none in a gap or behind the last band.
    pub fn of(&self, at: Granule) -> Option<u64> {
        let pitch = self.granules + self.gap_granules;
        let band = at.0 / pitch;
        (band < self.count && at.0 % pitch < self.granules).then_some(band)
    }
}

/// What a host must know of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Which model it is.
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

/// What a disk reports of one band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandReport {
    /// Its first granule.
    pub start: Granule,
    /// Where the next write must begin; the band's end if it is full.
    pub cursor: Granule,
    /// Its state.
    pub state: BandState,
}

/// A host-managed shingled disk. Calls may come from several threads.
pub trait HostManaged: Send + Sync {
    /// What a host must know of it.
    fn shape(&self) -> &Shape;

    /// Reads whole granules from `at` on; as many as `room` takes.
    fn read(&self, at: Granule, room: Room<'_>, cause: Cause) -> DeviceResult;

    /// Writes whole granules from `at` on: at the band's cursor on strict-append, anywhere on Caveat-Scriptor. After an
    /// error any part of it may be on the disk.
    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult;

    /// Empties a band: its cursor goes back to its start.
    fn reset(&self, band: u64) -> DeviceResult;

    /// Start, cursor and state of `count` bands from `first` on; empty without bands.
    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>>;

    /// The host will not read this again before it has been written again. A checker counts on it; disks may ignore it.
    fn discard(&self, span: Span);

    /// Makes durable what has been written.
    fn flush(&self) -> DeviceResult;

    /// The disk's time: the model's clock, or the time since it was opened.
    fn now(&self) -> Nanos;

    /// Lets the model's clock run on to `time`; nothing happens on a disk that has none.
    fn wait_until(&self, _time: Nanos) {}
}
