//! The disk as the file system uses it: reads that verify checksums, and flushes that fail for good.
//!
//! Data that does not match the checksums of the file's map is an error, and is neither returned nor moved. Once a flush has failed, all
//! later ones fail. In simulation data has no bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;
use smrkit::tally::Cause;

use crate::data::ReadBuffer;
use crate::device::HostManaged;
use crate::error::{DeviceError, Errno, FsError, FsResult};
use crate::map::checksum;
use crate::units::{Granule, HostJournal, Span};

/// The result of reading a piece of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that can't be read, don't match their checksum, or belong to a file whose map is damaged.
    pub damaged_bytes: u64,
}

/// The disk, with a count of bytes read, and whether a flush has failed.
pub(super) struct Disk {
    pub device: Arc<dyn HostManaged>,
    granule_bytes: u64,
    /// Flushes that have begun.
    flushes_begun: AtomicU64,
    /// The last flush that succeeded. Held while the disk is flushed, because Linux reports a failure to one caller only, and it counts for all.
    flushed: Mutex<Flush>,
    flush_failed: AtomicBool,
    /// True if data has no bytes (in simulation).
    pub is_blank: AtomicBool,
    /// Bytes that were read, for whatever reason.
    pub read_bytes: AtomicU64,
}

/// A flush of the disk: its number, and the journal whose commit ends it.
#[derive(Clone, Copy, Default)]
struct Flush {
    number: u64,
    journal: Option<HostJournal>,
}

impl Disk {
    pub(super) fn new(device: Arc<dyn HostManaged>) -> Disk {
        Disk {
            granule_bytes: device.shape().granule_bytes,
            device,
            flushes_begun: AtomicU64::default(),
            flushed: Mutex::default(),
            flush_failed: AtomicBool::new(false),
            is_blank: AtomicBool::new(false),
            read_bytes: AtomicU64::default(),
        }
    }

    pub(super) fn flush(&self) -> FsResult {
        self.flush_with(None)
    }

    /// Makes writes to the disk durable, at the latest by the next commit of that journal.
    pub(super) fn flush_with(&self, journal: Option<HostJournal>) -> FsResult {
        let begun = self.flushes_begun.load(SeqCst);
        let mut last = self.flushed.lock();
        // Of several threads that wait for a flush under way, one flushes for all: a flush that began later than they asked covers their writes.
        if last.number > begun && (last.journal.is_none() || last.journal == journal) {
            return self.make_durable(|| Ok(()));
        }
        let number = self.flushes_begun.fetch_add(1, SeqCst) + 1;
        self.make_durable(|| Ok(self.device.flush_with(journal)?))?;
        *last = Flush { number, journal };
        Ok(())
    }

    /// Syncs the disk or the store with `sync`. Once a sync has failed, nothing is acknowledged or changed before the next mount. Linux
    /// reports a lost write to one caller only (on some file systems not even to the one whose data it was), and success to the next.
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
        // Linux may have reported the loss of this thread's data to another thread.
        if self.flush_failed() { Err(Errno::EIO.into()) } else { Ok(()) }
    }

    pub(super) fn flush_failed(&self) -> bool {
        self.flush_failed.load(Relaxed)
    }

    pub(super) fn holds_no_bytes(&self) -> bool {
        self.is_blank.load(Relaxed)
    }

    /// Hints that a flush will follow soon.
    pub(super) fn start_flush(&self) {
        if !self.flush_failed() {
            self.device.start_flush();
        }
    }

    /// Reads for a host, from byte `skip` of granule `at` on. Partial granules are read whole, to verify them. `sums` are the checksums of
    /// all granules that the read touches.
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
            self.read_bytes.fetch_add(whole, Relaxed);
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

    /// Reads a part of one granule for a host.
    fn read_part(&self, at: Granule, skip: u64, room: ReadBuffer<'_>, sum: u32) -> FsResult {
        let one = Span { at, count: 1 };
        match room {
            ReadBuffer::Blank(_) => self.read_blank(one, Cause::Host),
            ReadBuffer::Bytes(bytes) => {
                let page = self.read_verified(one, &[sum], Cause::Host)?;
                bytes.copy_from_slice(&page[skip as usize..skip as usize + bytes.len()]);
                Ok(())
            }
        }
    }

    /// Reads a span, to move or to change it. `None` in simulation, where data has no bytes.
    pub(super) fn read_span(&self, span: Span, sums: &[u32], cause: Cause) -> FsResult<Option<Vec<u8>>> {
        if self.holds_no_bytes() {
            self.read_blank(span, cause)?;
            return Ok(None);
        }
        self.read_verified(span, sums, cause).map(Some)
    }

    fn read_verified(&self, span: Span, sums: &[u32], cause: Cause) -> FsResult<Vec<u8>> {
        let mut content = vec![0; (span.count * self.granule_bytes) as usize];
        self.read_bytes.fetch_add(content.len() as u64, Relaxed);
        self.device.read(span.at, ReadBuffer::Bytes(&mut content), cause)?;
        self.verify(span.at, &content, sums)?;
        Ok(content)
    }

    fn read_blank(&self, span: Span, cause: Cause) -> FsResult {
        let bytes = span.count * self.granule_bytes;
        self.read_bytes.fetch_add(bytes, Relaxed);
        Ok(self.device.read(span.at, ReadBuffer::Blank(bytes), cause)?)
    }

    /// Compares whole granules from `at` on with their checksums. A checksum of 0 is unknown.
    fn verify(&self, at: Granule, bytes: &[u8], sums: &[u32]) -> FsResult {
        let granules = bytes.chunks_exact(self.granule_bytes as usize).zip(sums);
        match granules.enumerate().find(|(_, (granule, sum))| **sum != 0 && checksum(granule) != **sum) {
            None => Ok(()),
            Some((wrong, _)) => Err(FsError::WrongData(at + wrong as u64)),
        }
    }

    /// The first granule of `span` that is damaged when read on its own; all of `span` if none is.
    pub(super) fn unreadable(&self, span: Span, sums: &[u32]) -> FsResult<Span> {
        for (i, sum) in (0..span.count).zip(sums) {
            let one = Span { at: span.at + i, count: 1 };
            match self.read_span(one, &[*sum], Cause::Clean) {
                Err(error) if is_damage(&error) => return Ok(one),
                result => result?,
            };
        }
        Ok(span)
    }

    /// Reads a span at once or, if it is damaged, granule by granule, and counts what it finds.
    pub(super) fn scrub(&self, place: Span, sums: &[u32], scrubbed: &mut Scrubbed) -> FsResult {
        let bytes = place.count * self.granule_bytes;
        match self.read_span(place, sums, Cause::Clean) {
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

/// True if a sync that fails with `error` may have lost earlier writes. One that found no room or no such node has not.
fn is_lost_write(error: &FsError) -> bool {
    match error {
        FsError::Errno(errno) => [Errno::EIO, Errno::EROFS].contains(errno),
        _ => true,
    }
}

/// True if the error is of the data itself and would come again: not a lack of memory or room, nor a power cut.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::device::{Bands, Model, Shape, stacked};
    use crate::error::DeviceResult;
    use crate::testing::memory::{Memory, Power};
    use crate::testing::shingled::{Shingled, WriteHistory};

    /// A disk whose first flush ends when it is told to, and whose flush of number `failing` fails.
    struct Slow {
        below: Shingled<Memory>,
        flushes: AtomicU64,
        may_end: AtomicBool,
        failing: u64,
    }

    impl stacked::Stacked for Slow {
        type Below = Shingled<Memory>;

        fn below(&self) -> &Shingled<Memory> {
            &self.below
        }

        fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult {
            let number = self.flushes.fetch_add(1, SeqCst) + 1;
            while !self.may_end.load(SeqCst) {
                std::thread::yield_now();
            }
            if number == self.failing {
                return Err(DeviceError::Io(std::io::Error::other("a flush that was to fail")));
            }
            HostManaged::flush_with(&self.below, journal)
        }
    }

    const WAITING: u64 = 8;
    const JOURNAL: Option<HostJournal> = Some(HostJournal(1));

    /// Flushes a disk in one thread, and meanwhile begins to flush it in others; the results of all, and the number of flushes.
    fn flush_in_threads(failing: u64) -> (Disk, Arc<Slow>, Vec<FsResult>) {
        let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        let shape = Shape { model: Model::Caveat, granule_bytes: 512, granules: 1000, did: 1, dpid: 1, bands };
        let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
        let below = Shingled::new(memory, shape, WriteHistory::Blank).unwrap();
        let slow = Arc::new(Slow { below, flushes: AtomicU64::new(0), may_end: AtomicBool::new(false), failing });
        let disk = Disk::new(slow.clone());
        let results = std::thread::scope(|scope| {
            let first = scope.spawn(|| disk.flush_with(JOURNAL));
            while slow.flushes.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            let others: Vec<_> = (0..WAITING).map(|_| scope.spawn(|| disk.flush_with(JOURNAL))).collect();
            std::thread::sleep(Duration::from_millis(100));
            slow.may_end.store(true, SeqCst);
            [first].into_iter().chain(others).map(|thread| thread.join().unwrap()).collect()
        });
        (disk, slow, results)
    }

    #[test]
    fn threads_that_wait_for_a_flush_share_the_next_one() {
        let (disk, slow, results) = flush_in_threads(u64::MAX);
        results.into_iter().for_each(|flushed| flushed.unwrap());
        // What was written during the first flush is covered by the second one only. A thread that came late needs a third.
        let flushes = slow.flushes.load(SeqCst);
        assert!((2..WAITING).contains(&flushes), "{flushes}");
        // The commit of a journal covers nothing for a caller who does not wait for one.
        *disk.flushed.lock() = Flush { number: u64::MAX, journal: JOURNAL };
        disk.flush_with(JOURNAL).unwrap();
        assert_eq!(slow.flushes.load(SeqCst), flushes);
        disk.flush().unwrap();
        assert_eq!(slow.flushes.load(SeqCst), flushes + 1);
    }

    #[test]
    fn a_shared_flush_that_fails_fails_for_all_who_wait_for_it() {
        for failing in [1, 2] {
            let (disk, slow, results) = flush_in_threads(failing);
            assert!(results[1..].iter().all(|flushed| flushed.is_err()), "{results:?}");
            assert_eq!(results[0].is_ok(), failing == 2);
            assert_eq!(
                slow.flushes.load(SeqCst),
                failing,
                "nobody asks the disk again, which would say that all is well"
            );
            assert!(disk.flush_failed() && disk.flush_with(JOURNAL).is_err() && disk.flush().is_err());
        }
    }
}
