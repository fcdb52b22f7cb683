//! Disks before other disks: whatever such a one does not do in a way of its own, the one below does.

use std::sync::Arc;

use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::{BandReport, HostManaged, Shape};
use crate::data::{Data, ReadBuffer};
use crate::error::DeviceResult;
use crate::units::{Granule, Journal, Span};

/// A disk that stands before another one. What an implementation leaves out is passed on; with it comes [`HostManaged`].
///
/// Best named by its path (`stacked::Stacked`): where both traits are in scope, a call could mean either. An implementation
/// calls `self.below()`.
pub trait Stacked: Send + Sync {
    /// The disk below.
    type Below: HostManaged + ?Sized;

    /// The disk below.
    fn below(&self) -> &Self::Below;

    /// As [`HostManaged::shape`].
    fn shape(&self) -> &Shape {
        self.below().shape()
    }

    /// As [`HostManaged::read`].
    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        self.below().read(at, room, cause)
    }

    /// As [`HostManaged::expect`].
    fn expect(&self, span: Span) {
        self.below().expect(span);
    }

    /// As [`HostManaged::write`].
    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        self.below().write(at, data, cause)
    }

    /// As [`HostManaged::reset`].
    fn reset(&self, band: u64) -> DeviceResult {
        self.below().reset(band)
    }

    /// As [`HostManaged::report`].
    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>> {
        self.below().report(first, count)
    }

    /// As [`HostManaged::discard`].
    fn discard(&self, span: Span) {
        self.below().discard(span);
    }

    /// As [`HostManaged::reserve`].
    fn reserve(&self, bytes: u64) -> DeviceResult {
        self.below().reserve(bytes)
    }

    /// As [`HostManaged::room_bytes`].
    fn room_bytes(&self) -> DeviceResult<Option<u64>> {
        self.below().room_bytes()
    }

    /// As [`HostManaged::flush`].
    fn flush(&self) -> DeviceResult {
        self.below().flush()
    }

    /// As [`HostManaged::flush_with`].
    fn flush_with(&self, journal: Option<Journal>) -> DeviceResult {
        self.below().flush_with(journal)
    }

    /// As [`HostManaged::now`].
    fn now(&self) -> Nanos {
        self.below().now()
    }

    /// As [`HostManaged::wait_until`].
    fn wait_until(&self, time: Nanos) {
        self.below().wait_until(time);
    }
}

impl<D: HostManaged + ?Sized> Stacked for Arc<D> {
    type Below = D;

    fn below(&self) -> &D {
        self
    }
}

impl<S: Stacked> HostManaged for S {
    fn shape(&self) -> &Shape {
        Stacked::shape(self)
    }

    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        Stacked::read(self, at, room, cause)
    }

    fn expect(&self, span: Span) {
        Stacked::expect(self, span);
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        Stacked::write(self, at, data, cause)
    }

    fn reset(&self, band: u64) -> DeviceResult {
        Stacked::reset(self, band)
    }

    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>> {
        Stacked::report(self, first, count)
    }

    fn discard(&self, span: Span) {
        Stacked::discard(self, span);
    }

    fn reserve(&self, bytes: u64) -> DeviceResult {
        Stacked::reserve(self, bytes)
    }

    fn room_bytes(&self) -> DeviceResult<Option<u64>> {
        Stacked::room_bytes(self)
    }

    fn flush(&self) -> DeviceResult {
        Stacked::flush(self)
    }

    fn flush_with(&self, journal: Option<Journal>) -> DeviceResult {
        Stacked::flush_with(self, journal)
    }

    fn now(&self) -> Nanos {
        Stacked::now(self)
    }

    fn wait_until(&self, time: Nanos) {
        Stacked::wait_until(self, time);
    }
}
