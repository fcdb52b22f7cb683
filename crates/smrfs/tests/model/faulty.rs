//! A disk that can be told to fail every write or every flush, counts writes, and keeps what it was told to expect.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use smrfs::data::{Data, Room};
use smrfs::device::{BandReport, HostManaged, Shape};
use smrfs::error::{DeviceError, DeviceResult};
use smrfs::units::{Granule, Span};
use smrkit::tally::Cause;
use smrkit::units::Nanos;

/// A disk and what is broken about it.
pub struct Faulty {
    pub disk: Arc<dyn HostManaged>,
    pub writes_fail: AtomicBool,
    pub flushes_fail: AtomicBool,
    pub writes: AtomicU64,
    pub expected: Mutex<Vec<Span>>,
}

impl Faulty {
    pub fn new(disk: Arc<dyn HostManaged>) -> Faulty {
        Faulty {
            disk,
            writes_fail: AtomicBool::new(false),
            flushes_fail: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            expected: Mutex::default(),
        }
    }
}

fn refused(broken: &AtomicBool) -> DeviceResult {
    match broken.load(Relaxed) {
        true => Err(DeviceError::Io(io::Error::other("broken"))),
        false => Ok(()),
    }
}

impl HostManaged for Faulty {
    fn shape(&self) -> &Shape {
        self.disk.shape()
    }

    fn read(&self, at: Granule, room: Room<'_>, cause: Cause) -> DeviceResult {
        self.disk.read(at, room, cause)
    }

    fn expect(&self, span: Span) {
        self.expected.lock().unwrap().push(span);
        self.disk.expect(span);
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        refused(&self.writes_fail)?;
        self.writes.fetch_add(1, Relaxed);
        self.disk.write(at, data, cause)
    }

    fn reset(&self, band: u64) -> DeviceResult {
        self.disk.reset(band)
    }

    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>> {
        self.disk.report(first, count)
    }

    fn discard(&self, span: Span) {
        self.disk.discard(span);
    }

    fn flush(&self) -> DeviceResult {
        refused(&self.flushes_fail)?;
        self.disk.flush()
    }

    fn now(&self) -> Nanos {
        self.disk.now()
    }

    fn wait_until(&self, time: Nanos) {
        self.disk.wait_until(time);
    }
}
