//! The disk as the file system uses it. Once a flush has failed nothing more is flushed, and in simulation data has no bytes.
//!
//! Whoever reads says what checksums the granules have by the file's map: data that is not what was written is an error, and is
//! neither shown nor moved.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::file::{PageBytes, zeros};
use crate::data::{Data, ReadBuffer};
use crate::device::{HostManaged, Shape};
use crate::error::{DeviceError, DeviceResult, Errno, FsError, FsResult};
use crate::map::checksum;
use crate::units::{Granule, HostJournal, Span};

/// The result of reading a piece of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that can't be read, that are not what was written, or that belong to a file whose map is damaged.
    pub damaged_bytes: u64,
}

/// The disk, what has been read from it, and whether it can be trusted.
pub(super) struct Disk {
    device: Arc<dyn HostManaged>,
    granule_bytes: u64,
    /// Held while the disk is flushed: a failure is told to one caller only, and counts for all.
    flushing: Mutex<()>,
    flush_failed: AtomicBool,
    blank: AtomicBool,
    read: AtomicU64,
}

impl Disk {
    pub(super) fn new(device: Arc<dyn HostManaged>) -> Disk {
        Disk {
            granule_bytes: device.shape().granule_bytes,
            device,
            flushing: Mutex::default(),
            flush_failed: AtomicBool::new(false),
            blank: AtomicBool::new(false),
            read: AtomicU64::default(),
        }
    }

    pass_on! { self => self.device;
        pub(super) fn shape(&self) -> &Shape;
        pub(super) fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult;
        /// Says what will be read soon.
        pub(super) fn expect(&self, span: Span);
        /// Says that nobody will read it again.
        pub(super) fn discard(&self, span: Span);
        pub(super) fn reset(&self, band: u64) -> DeviceResult;
        pub(super) fn now(&self) -> Nanos;
        /// Keeps room on its host for this many bytes.
        pub(super) fn reserve(&self, bytes: u64) -> DeviceResult;
        /// The room that its host has left; none if that is no question.
        pub(super) fn room_bytes(&self) -> DeviceResult<Option<u64>>;
    }

    /// Bytes that were read, for whatever reason.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// Makes durable what is on the disk.
    pub(super) fn flush(&self) -> FsResult {
        self.flush_with(None)
    }

    /// Makes durable what is on the disk, at the latest by the next commit of that journal.
    pub(super) fn flush_with(&self, journal: Option<HostJournal>) -> FsResult {
        let _one = self.flushing.lock();
        self.make_durable(|| Ok(self.device.flush_with(journal)?))
    }

    /// Does what makes something durable, here or in the store. Once that has failed nothing is acknowledged any more, and
    /// nothing changed, before the next mount: Linux tells one caller of a lost write, on some file systems not even the one
    /// whose data it was, and says to the next that all is well.
    pub(super) fn make_durable(&self, sync: impl FnOnce() -> FsResult) -> FsResult {
        if self.flush_failed() {
            return Err(Errno::EIO.into());
        }
        if let Err(error) = sync() {
            if is_lost_write(&error) {
                self.flush_failed.store(true, Relaxed);
            }
            return Err(error);
        }
        // Another thread may have been told meanwhile of a failure that was this one's.
        if self.flush_failed() { Err(Errno::EIO.into()) } else { Ok(()) }
    }

    pub(super) fn flush_failed(&self) -> bool {
        self.flush_failed.load(Relaxed)
    }

    /// Notes that the data is of no interest (in simulation).
    pub(super) fn hold_no_bytes(&self) {
        self.blank.store(true, Relaxed);
    }

    pub(super) fn holds_no_bytes(&self) -> bool {
        self.blank.load(Relaxed)
    }

    /// Says that a flush will follow soon.
    pub(super) fn start_flush(&self) {
        if !self.flush_failed() {
            self.device.start_flush();
        }
    }

    /// Reads for a host from `skip` bytes behind `at` on, whatever the granules: what is not whole goes through memory. `sums` are
    /// those of all granules that are touched.
    pub(super) fn read(&self, at: Granule, skip: u64, mut room: ReadBuffer<'_>, sums: &[u32]) -> FsResult {
        let granule = self.granule_bytes;
        let bytes = room.bytes();
        let head = if skip > 0 { bytes.min(granule - skip) } else { 0 };
        let whole = (bytes - head) / granule * granule;
        let tail = bytes - head - whole;
        if head > 0 {
            self.read_part(at, skip, room.part(0, head), sums[0])?;
        }
        let (at, sums) = if skip > 0 { (at + 1, &sums[1..]) } else { (at, sums) };
        if whole > 0 {
            self.read.fetch_add(whole, Relaxed);
            self.device.read(at, room.part(head, whole), Cause::Host)?;
            if let ReadBuffer::Bytes(bytes) = room.part(head, whole) {
                self.verify(at, bytes, sums)?;
            }
        }
        if tail > 0 {
            let last = (whole / granule) as usize;
            self.read_part(at + last as u64, 0, room.part(head + whole, tail), sums[last])?;
        }
        Ok(())
    }

    /// Compares whole granules from `at` on with their checksums.
    fn verify(&self, at: Granule, bytes: &[u8], sums: &[u32]) -> FsResult {
        let granules = bytes.chunks_exact(self.granule_bytes as usize).zip(sums);
        match granules.enumerate().find(|(_, (granule, sum))| **sum != 0 && checksum(granule) != **sum) {
            None => Ok(()),
            Some((wrong, _)) => Err(FsError::WrongData(at + wrong as u64)),
        }
    }

    /// Reads a part of one granule.
    fn read_part(&self, at: Granule, skip: u64, room: ReadBuffer<'_>, sum: u32) -> FsResult {
        self.read.fetch_add(self.granule_bytes, Relaxed);
        let ReadBuffer::Bytes(bytes) = room else {
            return Ok(self.device.read(at, ReadBuffer::Blank(self.granule_bytes), Cause::Host)?);
        };
        let mut page = zeros(self.granule_bytes);
        self.device.read(at, ReadBuffer::Bytes(&mut page), Cause::Host)?;
        self.verify(at, &page, &[sum])?;
        bytes.copy_from_slice(&page[skip as usize..skip as usize + bytes.len()]);
        Ok(())
    }

    /// A granule for the buffer.
    pub(super) fn read_page(&self, at: Granule, sum: u32) -> FsResult<PageBytes> {
        self.read.fetch_add(self.granule_bytes, Relaxed);
        if self.holds_no_bytes() {
            self.device.read(at, ReadBuffer::Blank(self.granule_bytes), Cause::Host)?;
            return Ok(None);
        }
        let mut page = zeros(self.granule_bytes);
        self.device.read(at, ReadBuffer::Bytes(&mut page), Cause::Host)?;
        // Before a part of it is changed: what is written back gets a checksum that is right.
        self.verify(at, &page, &[sum])?;
        Ok(Some(page))
    }

    /// Data of a span, for moving it; none in simulation.
    pub(super) fn read_span(&self, span: Span, sums: &[u32]) -> FsResult<Option<Vec<u8>>> {
        let bytes = span.count * self.granule_bytes;
        self.read.fetch_add(bytes, Relaxed);
        if self.holds_no_bytes() {
            self.device.read(span.at, ReadBuffer::Blank(bytes), Cause::Clean)?;
            return Ok(None);
        }
        let mut content = vec![0; bytes as usize];
        self.device.read(span.at, ReadBuffer::Bytes(&mut content), Cause::Clean)?;
        self.verify(span.at, &content, sums)?;
        Ok(Some(content))
    }

    /// The first granule of `span` that the disk does not read by itself, or reads wrongly; all of it if there is none.
    pub(super) fn unreadable(&self, span: Span, sums: &[u32]) -> FsResult<Span> {
        for (i, sum) in (0..span.count).zip(sums) {
            let one = Span { at: span.at + i, count: 1 };
            match self.read_span(one, &[*sum]) {
                Err(error) if is_damage(&error) => return Ok(one),
                result => result?,
            };
        }
        Ok(span)
    }

    /// Reads it at once, or where that fails granule by granule.
    pub(super) fn scrub(&self, place: Span, sums: &[u32], scrubbed: &mut Scrubbed) -> FsResult {
        let bytes = place.count * self.granule_bytes;
        match self.read_span(place, sums) {
            Ok(_) => scrubbed.read_bytes += bytes,
            Err(error) if !is_damage(&error) => return Err(error),
            Err(_) if place.count == 1 => scrubbed.damaged_bytes += bytes,
            Err(_) => {
                for (i, sum) in (0..place.count).zip(sums) {
                    self.scrub(Span { at: place.at + i, count: 1 }, &[*sum], scrubbed)?;
                }
            }
        }
        Ok(())
    }
}

/// True if a sync that ends so may have lost what was written before it. One that finds no room or no such node has not.
fn is_lost_write(error: &FsError) -> bool {
    match error {
        FsError::Errno(errno) => [Errno::EIO, Errno::EROFS].contains(errno),
        _ => true,
    }
}

/// True if that is about what lies there, and would be so again: neither a lack of memory or room, nor of power.
pub(super) fn is_damage(error: &FsError) -> bool {
    match error {
        FsError::Corrupt(_)
        | FsError::WrongData(_)
        | FsError::Seal(_)
        | FsError::ForgedPart(_)
        | FsError::Errno(Errno::EIO) => true,
        FsError::Device(error) => !matches!(error, DeviceError::PowerCut),
        FsError::Errno(_) | FsError::PowerCut => false,
    }
}
