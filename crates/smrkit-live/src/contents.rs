//! The bytes of one file: shared with the original where the host's file system can do that, else copied without the holes.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom as From;
use rustix::io::Errno;

/// Bytes that are copied at a time (assumption).
const PIECE_BYTES: usize = 1 << 20;

/// Asked between the steps of a copy; false interrupts it.
pub type MayContinue<'a> = dyn Fn() -> bool + Sync + 'a;

/// Fails with EINTR once a copy is to be interrupted.
pub fn check_interrupt(may_continue: &MayContinue) -> io::Result<()> {
    if may_continue() { Ok(()) } else { Err(Errno::INTR.into()) }
}

/// True if all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    // Whole slices are compared many bytes at a time.
    bytes.first().is_none_or(|&first| first == 0 && bytes[1..] == bytes[..bytes.len() - 1])
}

/// Makes `to`, an empty file, the same as `from`.
pub fn copy(mut from: &File, to: &File, may_continue: &MayContinue) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    // The end is sought, because a block device has no length otherwise.
    let bytes = from.seek(SeekFrom::End(0))?;
    to.set_len(bytes)?;
    let mut at = 0;
    while at < bytes {
        let (data, hole) = match rustix::fs::seek(from, From::Data(at)) {
            Ok(data) => (data, rustix::fs::seek(from, From::Hole(data)).unwrap_or(bytes)),
            // No data up to the end.
            Err(Errno::NXIO) => break,
            // A block device, or a file system that does not know its holes.
            Err(_) => (at, bytes),
        };
        copy_range(from, to, data..hole.min(bytes), may_continue)?;
        at = hole;
    }
    Ok(())
}

/// Copies a range, except pieces of zeros, where `to` keeps its hole.
fn copy_range(from: &File, to: &File, range: Range<u64>, may_continue: &MayContinue) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = range.start;
    while at < range.end {
        check_interrupt(may_continue)?;
        let count = PIECE_BYTES.min((range.end - at) as usize);
        let piece = &mut piece[..count];
        from.read_exact_at(piece, at)?;
        if !is_zero(piece) {
            to.write_all_at(piece, at)?;
        }
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn zeros_are_told_from_anything_else() {
        for length in [0, 1, 7, 4096] {
            assert!(is_zero(&vec![0; length]) && (length == 0 || !is_zero(&vec![1; length])), "{length}");
            for at in 0..length {
                let mut bytes = vec![0; length];
                bytes[at] = 0x80;
                assert!(!is_zero(&bytes), "{length} {at}");
            }
        }
    }

    #[test]
    fn a_copy_has_the_bytes_and_the_holes() {
        let folder = tempfile::tempdir().unwrap();
        let open =
            |name| File::options().read(true).write(true).create_new(true).open(folder.path().join(name)).unwrap();
        let (from, to) = (open("from"), open("to"));
        from.set_len(100 << 20).unwrap();
        for at in [0, 5 << 20, (70 << 20) + 123] {
            from.write_all_at(&[7; 3 << 20], at).unwrap();
        }
        copy(&from, &to, &|| true).unwrap();
        let read = |name| std::fs::read(folder.path().join(name)).unwrap();
        assert!(read("from") == read("to"));
        assert!(to.metadata().unwrap().blocks() * 512 < 20 << 20);
    }
}
