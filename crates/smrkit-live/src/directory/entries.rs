//! The entries of one directory, as the kernel lists them.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{RawDir, RawDirEntry};
use smrfs::error::FsResult;

use super::{failed, way};

/// Bytes of entries that are asked for at a time.
pub const LIST_BYTES: usize = 32 << 10;

/// Opens a directory anew, with a reading place of its own.
pub fn reopened(directory: &OwnedFd) -> FsResult<OwnedFd> {
    way::open_directory(directory, b".").map_err(failed)
}

/// True if an entry is `.` or `..`.
pub fn is_dots(entry: &RawDirEntry<'_>) -> bool {
    matches!(entry.file_name().to_bytes(), b"." | b"..")
}

/// Shows every entry of a directory, without `.` and `..`.
pub fn each_entry(directory: &OwnedFd, mut show: impl FnMut(&RawDirEntry<'_>)) -> FsResult {
    let directory = reopened(directory)?;
    let mut buffer = [MaybeUninit::uninit(); LIST_BYTES];
    let mut entries = RawDir::new(&directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(failed)?;
        if !is_dots(&entry) {
            show(&entry);
        }
    }
    Ok(())
}
