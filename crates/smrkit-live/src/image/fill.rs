//! Zeros in the holes of an image file around small writes that are flushed one by one.
//!
//! A host file system makes the place of each newly used block durable in its own books, at every flush; what has been
//! written before costs a flush its data alone. Large writes and devices, which have no holes, are left alone.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Holes are filled in stretches of so many bytes, a largest block. (Assumption.)
const STRETCH_BYTES: u64 = 1 << 20;

/// Writes of fewer bytes count as small, and so does all that is written between two flushes. (Assumption.)
const SMALL_BYTES: u64 = 64 << 10;

/// What is known of an image file's holes.
pub struct Filler {
    /// The disk's bytes in the file.
    within: Range<u64>,
    /// Held shared by who writes to the file, alone by who fills.
    writing: RwLock<()>,
    /// Written since the last flush.
    unflushed_bytes: AtomicU64,
    /// Whether little had been written when the disk was last flushed.
    is_flushed_often: AtomicBool,
    /// Stretches without holes.
    filled: Mutex<HashSet<u64>>,
    /// Whether the file can't be filled: it is a device, or its file system is full.
    is_off: AtomicBool,
}

impl Filler {
    /// Nothing is known yet of a file that has the disk's bytes `within`.
    pub fn new(within: Range<u64>, is_file: bool) -> Filler {
        Filler {
            within,
            writing: RwLock::default(),
            unflushed_bytes: AtomicU64::new(0),
            is_flushed_often: AtomicBool::new(false),
            filled: Mutex::default(),
            is_off: AtomicBool::new(!is_file),
        }
    }

    /// To be held while `bytes` are written at the byte `at`; before, fills the holes around them where that pays.
    pub fn write(&self, file: &File, at: u64, bytes: u64) -> RwLockReadGuard<'_, ()> {
        self.unflushed_bytes.fetch_add(bytes, Relaxed);
        if bytes < SMALL_BYTES && self.is_flushed_often.load(Relaxed) {
            for stretch in at / STRETCH_BYTES..(at + bytes).div_ceil(STRETCH_BYTES) {
                if self.is_off.load(Relaxed) || !self.is_new(stretch) {
                    continue;
                }
                let _alone = self.writing.write().unwrap_or_else(PoisonError::into_inner);
                // The write that follows tells whoever waits what is wrong with the file.
                if self.fill(file, stretch).is_err() {
                    self.is_off.store(true, Relaxed);
                }
            }
        }
        self.writing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk is about to be flushed.
    pub fn flush(&self) {
        let often = self.unflushed_bytes.swap(0, Relaxed) < SMALL_BYTES;
        self.is_flushed_often.store(often, Relaxed);
    }

    fn is_new(&self, stretch: u64) -> bool {
        self.filled.lock().unwrap_or_else(PoisonError::into_inner).insert(stretch)
    }

    fn fill(&self, file: &File, stretch: u64) -> io::Result<()> {
        let end = ((stretch + 1) * STRETCH_BYTES).min(self.within.end);
        let mut at = (stretch * STRETCH_BYTES).max(self.within.start);
        while let Some(hole) = next_hole(file, at..end)? {
            at = hole.end;
            fill_hole(file, hole)?;
        }
        Ok(())
    }
}

/// The first hole of `range`.
fn next_hole(file: &File, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
    if range.is_empty() {
        return Ok(None);
    }
    let start = rustix::fs::seek(file, SeekFrom::Hole(range.start))?;
    if start >= range.end {
        return Ok(None);
    }
    match rustix::fs::seek(file, SeekFrom::Data(start)) {
        Ok(end) => Ok(Some(start..end.min(range.end))),
        // The hole reaches to the end of the file.
        Err(Errno::NXIO) => Ok(Some(start..range.end)),
        Err(error) => Err(error.into()),
    }
}

/// Writes what is read there: zeros, or whatever lies where the host was wrong about a hole.
fn fill_hole(file: &File, hole: Range<u64>) -> io::Result<()> {
    let mut bytes = vec![0; (hole.end - hole.start) as usize];
    file.read_exact_at(&mut bytes, hole.start)?;
    file.write_all_at(&bytes, hole.start)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    const END: u64 = 4 * STRETCH_BYTES + 8192;

    fn sparse() -> (File, Filler) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(END).unwrap();
        (file, Filler::new(65536..END, true))
    }

    fn write(file: &File, filler: &Filler, at: u64, bytes: &[u8]) {
        let _held = filler.write(file, at, bytes.len() as u64);
        file.write_all_at(bytes, at).unwrap();
    }

    fn holes(file: &File) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(hole) = next_hole(file, at..END).unwrap() {
            at = hole.end;
            found.push(hole);
        }
        found
    }

    #[test]
    fn small_writes_that_are_flushed_one_by_one_leave_no_hole_beside_them() {
        let (file, filler) = sparse();
        filler.flush();
        for at in [70_000 / 4096 * 4096, STRETCH_BYTES - 4096, 4 * STRETCH_BYTES] {
            write(&file, &filler, at, &[1; 4096]);
            filler.flush();
        }
        assert_eq!(holes(&file), [0..65536, STRETCH_BYTES..4 * STRETCH_BYTES]);
    }

    #[test]
    fn large_writes_and_writes_that_wait_for_a_flush_leave_the_rest_sparse() {
        let (file, filler) = sparse();
        filler.flush();
        write(&file, &filler, STRETCH_BYTES, &[1; SMALL_BYTES as usize]);
        filler.flush();
        write(&file, &filler, 3 * STRETCH_BYTES, &[1; 4096]);
        let large = STRETCH_BYTES..STRETCH_BYTES + SMALL_BYTES;
        let waiting = 3 * STRETCH_BYTES..3 * STRETCH_BYTES + 4096;
        assert_eq!(holes(&file), [0..large.start, large.end..waiting.start, waiting.end..END]);
    }

    #[test]
    fn what_is_no_hole_stays_although_the_host_calls_it_one() {
        let (file, _) = sparse();
        file.write_all_at(&[5; 512], STRETCH_BYTES + 1000).unwrap();
        fill_hole(&file, STRETCH_BYTES..2 * STRETCH_BYTES).unwrap();
        let mut bytes = [0; 512];
        file.read_exact_at(&mut bytes, STRETCH_BYTES + 1000).unwrap();
        assert_eq!(bytes, [5; 512]);
    }

    #[test]
    fn a_device_is_never_filled() {
        let (file, _) = sparse();
        let filler = Filler::new(65536..END, false);
        filler.flush();
        write(&file, &filler, STRETCH_BYTES, &[1; 4096]);
        assert_eq!(holes(&file).len(), 2);
    }

    #[test]
    fn filling_changes_no_byte_while_others_write_beside_it() {
        let (stretches, threads, writes) = (24_u64, 4_u64, 32_u64);
        let end = stretches * STRETCH_BYTES;
        let file = tempfile::tempfile().unwrap();
        file.set_len(end).unwrap();
        let filler = Filler::new(0..end, true);
        filler.flush();
        // All begin with a stretch at once: the first fills it.
        let begin = Barrier::new(threads as usize);
        let place =
            |stretch: u64, thread: u64, number: u64| stretch * STRETCH_BYTES + (number * threads + thread) * 1024;
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (file, filler, begin) = (&file, &filler, &begin);
                scope.spawn(move || {
                    for stretch in 0..stretches {
                        begin.wait();
                        for number in 0..writes {
                            write(file, filler, place(stretch, thread, number), &[thread as u8 + 1; 1024]);
                            filler.flush();
                        }
                    }
                });
            }
        });
        let mut expected = vec![0; end as usize];
        for stretch in 0..stretches {
            for (thread, number) in (0..threads).flat_map(|thread| (0..writes).map(move |number| (thread, number))) {
                let at = place(stretch, thread, number) as usize;
                expected[at..at + 1024].fill(thread as u8 + 1);
            }
        }
        let mut bytes = vec![0; end as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == expected);
        assert_eq!(next_hole(&file, 0..end).unwrap(), None);
    }
}
