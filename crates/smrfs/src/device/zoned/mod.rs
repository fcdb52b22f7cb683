//! Zoned block devices: each zone is a band, and its write pointer, which the device keeps, is the band's cursor.
//!
//! Host-managed disks by ZBC, ZAC or ZNS behind one trait; [`StrictAppend`](super::strict::StrictAppend) stands on
//! [`Zones`] and keeps the rules. Conventional zones at the device's beginning hold what must be overwritten: the cursors
//! of the other ones among them, which are bands as well.

mod cursors;
mod layout;
mod platters;

use smrkit::units::Nanos;

pub use cursors::is_table;
pub use layout::ZonedError;
pub use layout::ZonedLayout;
pub use platters::Zones;

use super::BandState;
use crate::error::DeviceResult;

/// Properties of a zoned block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedGeometry {
    /// Number of whole zones; a shorter one at the end is left out.
    pub zones: u64,
    /// Bytes from the beginning of a zone to that of the next.
    pub zone_bytes: u64,
    /// The unit of writes in bytes.
    pub block_bytes: u64,
    /// Number of zones that may be open at a time; 0: any.
    pub max_open: u64,
    /// Number of zones that may be begun and not full at a time; 0: any.
    pub max_active: u64,
}

/// Rule by which a zone is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneKind {
    /// Written anywhere.
    Conventional,
    /// Written at its write pointer only (host-managed).
    SequentialRequired,
    /// Best written at its write pointer (host-aware).
    SequentialPreferred,
}

/// Report of a device on one zone. Addresses are bytes from the device's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The rule for writes.
    pub kind: ZoneKind,
    /// Its state: `Open` whenever it is begun and not full.
    pub state: BandState,
    /// Its first byte.
    pub start: u64,
    /// Bytes that can be written in it.
    pub capacity: u64,
    /// The byte that is written next. It means nothing where the state is not `Empty` or `Open`, or the zone conventional.
    pub pointer: u64,
}

/// A zoned block device. Addresses are bytes; reads and writes are whole blocks within one zone. Calls may come from several
/// threads, but writes and resets of one zone never at the same time.
pub trait ZonedDevice: Send + Sync {
    /// The device's properties.
    fn geometry(&self) -> ZonedGeometry;

    /// Reports `count` zones from `first` on.
    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<Zone>>;

    /// Reads from `at` on.
    fn read(&self, at: u64, bytes: &mut [u8]) -> DeviceResult;

    /// Notes that `bytes` from `at` on will be read soon: a hint.
    fn expect(&self, _at: u64, _bytes: u64) {}

    /// Writes from `at` on: at the write pointer, or anywhere in a conventional zone. After an error the pointer may have
    /// moved: the report tells.
    fn write(&self, at: u64, bytes: &[u8]) -> DeviceResult;

    /// Takes the write pointer of a zone back to its beginning.
    fn reset(&self, zone: u64) -> DeviceResult;

    /// Makes durable what has been written.
    fn flush(&self) -> DeviceResult;

    /// The time since the device was opened.
    fn now(&self) -> Nanos;
}
