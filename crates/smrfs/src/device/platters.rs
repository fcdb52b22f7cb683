//! Platters that hold the data beneath a model: the simulator's drive, memory, an image file, a block device.
//!
//! Platters take reads and writes anywhere and know no rule; the model above them does.

use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::BandReport;
use crate::data::{Data, ReadBuffer};
use crate::error::DeviceResult;
use crate::units::{Granule, HostJournal, Span};

/// Byte that fills a destroyed granule on platters that hold bytes.
pub const DESTROYED_BYTE: u8 = 0xDB;

/// Holds the data of a host-managed disk. Calls may come from several threads; addresses have been checked, and lengths
/// are whole granules.
pub trait Platters: Send + Sync {
    /// Reads from `at` on; never written granules read as zeros. `DeviceError::Damaged` where the platters know it.
    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult;

    /// Hints that `_span` will be read soon, in this order of addresses or any other.
    fn expect(&self, _span: Span) {}

    /// As [`HostManaged::start_flush`](super::HostManaged::start_flush).
    fn start_flush(&self) {}

    /// Writes from `at` on. After an error any part of it may be there.
    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult;

    /// The write of `by`, just made, has destroyed what lies in `span`: what is there is lost. Only models that keep a
    /// write history call it; it takes no time by the drive's clock.
    fn destroy(&self, span: Span, by: Granule) -> DeviceResult;

    /// A band's cursor is at `cursor` now (strict-append): after the write that moved it, or by a reset. Platters that
    /// outlive the process keep the cursors along with the data, durable with the next flush.
    fn keep_cursor(&self, band: u64, cursor: Granule) -> DeviceResult;

    /// Report on a band whose write or reset has failed, by platters that keep a cursor of their own: that one counts.
    fn band(&self, _band: u64) -> DeviceResult<Option<BandReport>> {
        Ok(None)
    }

    /// The host will not read this again before it has been written again: the room may go back to where it came from.
    fn discard(&self, _span: Span) {}

    /// As [`HostManaged::reserve`](super::HostManaged::reserve).
    fn reserve(&self, _bytes: u64) -> DeviceResult {
        Ok(())
    }

    /// As [`HostManaged::room_bytes`](super::HostManaged::room_bytes).
    fn room_bytes(&self) -> DeviceResult<Option<u64>> {
        Ok(None)
    }

    /// Makes durable what has been written, and the cursors, as [`HostManaged::flush_with`](super::HostManaged::flush_with).
    fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult;

    /// The drive's clock, or the time since the platters were opened.
    fn now(&self) -> Nanos;

    /// Lets a model's clock run on to `time`; nothing happens on platters that have none.
    fn wait_until(&self, _time: Nanos) {}
}
