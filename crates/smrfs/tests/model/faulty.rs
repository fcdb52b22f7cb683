//! A disk that can be told to fail every write or every flush, counts writes, and keeps what it was told to expect.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use smrfs::data::Data;
use smrfs::device::HostManaged;
use smrfs::device::stacked;
use smrfs::error::{DeviceError, DeviceResult};
use smrfs::units::{Granule, Span};
use smrkit::tally::Cause;

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

impl stacked::Stacked for Faulty {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.disk
    }

    fn expect(&self, span: Span) {
        self.expected.lock().unwrap().push(span);
        self.below().expect(span);
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        refused(&self.writes_fail)?;
        self.writes.fetch_add(1, Relaxed);
        self.below().write(at, data, cause)
    }

    fn flush(&self) -> DeviceResult {
        refused(&self.flushes_fail)?;
        self.below().flush()
    }
}
