//! A disk that can be told to fail writes, flushes, reads of some granules or resets of some bands, or to read something else than
//! was written; that counts writes and what of them is not flushed, and keeps what it was told to expect.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use smrfs::data::{Data, ReadBuffer};
use smrfs::device::HostManaged;
use smrfs::device::stacked;
use smrfs::error::{DeviceError, DeviceResult};
use smrfs::units::{Granule, HostJournal, Span};
use smrkit::tally::Cause;

/// A disk and what is broken about it.
pub struct Faulty {
    pub disk: Arc<dyn HostManaged>,
    pub writes_fail: AtomicBool,
    pub flushes_fail: AtomicBool,
    pub unreadable: Mutex<BTreeSet<Granule>>,
    /// Granules that read as something else.
    pub foreign: Mutex<BTreeMap<Granule, Vec<u8>>>,
    pub not_reset: Mutex<BTreeSet<u64>>,
    pub writes: AtomicU64,
    pub unflushed_bytes: AtomicU64,
    /// True if the last flush was left to a journal.
    pub deferred: AtomicBool,
    pub expected: Mutex<Vec<Span>>,
}

impl Faulty {
    pub fn new(disk: Arc<dyn HostManaged>) -> Faulty {
        Faulty {
            disk,
            writes_fail: AtomicBool::new(false),
            flushes_fail: AtomicBool::new(false),
            unreadable: Mutex::default(),
            foreign: Mutex::default(),
            not_reset: Mutex::default(),
            writes: AtomicU64::new(0),
            unflushed_bytes: AtomicU64::new(0),
            deferred: AtomicBool::new(false),
            expected: Mutex::default(),
        }
    }
}

fn refused(broken: &AtomicBool) -> DeviceResult {
    refused_if(broken.load(Relaxed))
}

fn refused_if(broken: bool) -> DeviceResult {
    if broken { Err(DeviceError::Io(io::Error::other("broken"))) } else { Ok(()) }
}

impl stacked::Stacked for Faulty {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.disk
    }

    fn read(&self, at: Granule, mut room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        let (bytes, granule) = (room.bytes(), self.below().shape().granule_bytes);
        let end = at + bytes / granule;
        refused_if(self.unreadable.lock().unwrap().range(at..end).next().is_some())?;
        self.below().read(at, room.part(0, bytes), cause)?;
        let foreign = self.foreign.lock().unwrap();
        for (&here, other) in foreign.range(at..end) {
            if let ReadBuffer::Bytes(bytes) = room.part((here - at) * granule, granule) {
                bytes.copy_from_slice(other);
            }
        }
        Ok(())
    }

    fn expect(&self, span: Span) {
        self.expected.lock().unwrap().push(span);
        self.below().expect(span);
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        refused(&self.writes_fail)?;
        self.writes.fetch_add(1, Relaxed);
        self.unflushed_bytes.fetch_add(data.bytes(), Relaxed);
        self.below().write(at, data, cause)
    }

    fn reset(&self, band: u64) -> DeviceResult {
        refused_if(self.not_reset.lock().unwrap().contains(&band))?;
        self.below().reset(band)
    }

    fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult {
        refused(&self.flushes_fail)?;
        self.unflushed_bytes.store(0, Relaxed);
        self.deferred.store(journal.is_some(), Relaxed);
        self.below().flush_with(journal)
    }
}
