//! A file as the image of a drive, or its journal, is kept in: one of the system's, or in tests one that remembers its writes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

/// Bytes that are copied at a time: they stay in the processor's cache (assumption).
const COPY_BYTES: usize = 256 << 10;

/// A sparse file. Offsets and lengths are in bytes.
pub trait Storage: Send + Sync {
    /// Its length.
    fn length(&self) -> io::Result<u64>;
    /// Fills `bytes` from `offset` on. Errors: they are not all before its end.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes `bytes` at `offset`.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Writes what is at `from` to another range, which it does not overlap.
    fn copy(&self, from: u64, to: Range<u64>) -> io::Result<()> {
        copy_bytes(self, from, to)
    }
    /// Sets the length: bytes beyond it are dropped, added ones are zeros.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Makes zeros of a range and frees the room that it took.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;
    /// Makes all of it durable.
    fn sync(&self) -> io::Result<()>;
    /// The first range from `offset` on that takes up room; none to the end.
    fn allocated_from(&self, offset: u64) -> io::Result<Option<Range<u64>>>;
}

/// Copies by reading and writing.
fn copy_bytes<S: Storage + ?Sized>(storage: &S, from: u64, to: Range<u64>) -> io::Result<()> {
    let mut buffer = vec![0; (to.end - to.start).min(COPY_BYTES as u64) as usize];
    for at in to.clone().step_by(COPY_BYTES) {
        let bytes = &mut buffer[..(to.end - at).min(COPY_BYTES as u64) as usize];
        storage.read(from + (at - to.start), bytes)?;
        storage.write(at, bytes)?;
    }
    Ok(())
}

impl Storage for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    /// By the kernel, which copies nothing where the file system can share blocks.
    fn copy(&self, mut from: u64, to: Range<u64>) -> io::Result<()> {
        let mut at = to.start;
        while at < to.end {
            let rest = (to.end - at) as usize;
            match rustix::fs::copy_file_range(self, Some(&mut from), self, Some(&mut at), rest) {
                Ok(count) if count > 0 => {}
                Ok(_) | Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                    return copy_bytes(self, from, at..to.end);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(self, how, range.start, range.end - range.start) {
            // The file system has no holes: the bytes are zeros all the same.
            Err(Errno::OPNOTSUPP) => zero(self, range),
            result => Ok(result?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn allocated_from(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let start = match rustix::fs::seek(self, SeekFrom::Data(offset)) {
            Err(Errno::NXIO) => return Ok(None),
            start => start?,
        };
        Ok(Some(start..rustix::fs::seek(self, SeekFrom::Hole(start))?))
    }
}

/// Writes zeros.
fn zero(file: &File, range: Range<u64>) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    for at in range.clone().step_by(ZEROS.len()) {
        file.write_all_at(&ZEROS[..(range.end - at).min(ZEROS.len() as u64) as usize], at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A storage that copies by reading and writing.
    struct Plain(File);

    impl Storage for Plain {
        fn length(&self) -> io::Result<u64> {
            self.0.length()
        }

        fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, bytes)
        }

        fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write(offset, bytes)
        }

        fn set_length(&self, length: u64) -> io::Result<()> {
            self.0.set_length(length)
        }

        fn punch(&self, range: Range<u64>) -> io::Result<()> {
            zero(&self.0, range)
        }

        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }

        fn allocated_from(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
            self.0.allocated_from(offset)
        }
    }

    #[test]
    fn files_are_copied_and_punched_byte_for_byte() {
        const BYTES: usize = 1 << 20;
        let first: Vec<u8> = (0..BYTES).map(|at| 1 + (at / 3 % 251) as u8).collect();
        for storage in [&Plain(tempfile::tempfile().unwrap()) as &dyn Storage, &tempfile::tempfile().unwrap()] {
            let mut expected = first.clone();
            storage.write(0, &first).unwrap();
            assert_eq!(storage.length().unwrap(), BYTES as u64);
            for (from, to) in [(7, 500_000..900_001), (900_000, 3..4), (0, 300_000..300_000), (400_001, 0..300_000)] {
                storage.copy(from as u64, to.start as u64..to.end as u64).unwrap();
                expected.copy_within(from..from + (to.end - to.start), to.start);
            }
            for range in [5..6, 100_000..400_003, 700_000..700_000 + (64 << 10)] {
                storage.punch(range.start as u64..range.end as u64).unwrap();
                expected[range].fill(0);
            }
            let mut found = vec![1; BYTES];
            storage.read(0, &mut found).unwrap();
            assert!(found == expected);
            assert!(storage.read(1, &mut found).is_err(), "beyond its end");
        }
    }

    #[test]
    fn what_takes_up_room_is_found_in_order() {
        let file = tempfile::tempfile().unwrap();
        file.set_length(1 << 20).unwrap();
        assert_eq!(file.allocated_from(0).unwrap(), None);
        file.write(65_536, &[1; 8192]).unwrap();
        file.write(524_288, &[1; 4096]).unwrap();
        let found = [0, 65_536, 69_632, 73_728, 524_288, 528_384].map(|from| file.allocated_from(from).unwrap());
        let (first, second) = (Some(65_536..73_728), Some(524_288..528_384));
        assert_eq!(found, [first.clone(), first, Some(69_632..73_728), second.clone(), second, None]);
    }
}
