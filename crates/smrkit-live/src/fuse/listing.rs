//! Reads directories: `.` and `..`, then the core's entries, until the kernel's page is full.
//!
//! The core's positions are shifted by two, for the two entries that it does not list.

use fuser::{FileType, Generation, ReplyDirectory, ReplyDirectoryPlus};
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::FileSystem;
use smrfs::meta::Entry;
use smrfs::units::NodeId;

use super::convert::{self, KEPT, Numbers};

/// `.` and `..`, and the positions after them.
const DOTS: [(&[u8], u64); 2] = [(b".", 1), (b"..", 2)];

/// Lists names only. `..` has the directory's own number, which does no harm because the kernel knows the parent.
pub(super) fn names(
    core: &FileSystem,
    numbers: Numbers,
    id: NodeId,
    from: u64,
    reply: &mut ReplyDirectory,
) -> FsResult {
    for (name, place) in DOTS {
        if from < place && reply.add(numbers.inode(id), place, FileType::Directory, os(name)) {
            return Ok(());
        }
    }
    for_each_entry(core, id, from, |entry| {
        let kind = convert::file_type(entry.kind);
        Ok(reply.add(numbers.inode(entry.id), kernel_place(entry.next), kind, os(&entry.name)))
    })
}

/// Lists names with attributes. Each entry that the kernel gets counts as a lookup. The kernel ignores the attributes of `.` and `..`.
pub(super) fn names_and_attributes(
    core: &FileSystem,
    numbers: Numbers,
    id: NodeId,
    from: u64,
    reply: &mut ReplyDirectoryPlus,
) -> FsResult {
    if from < 2 {
        let own = numbers.attributes(&core.attributes(id)?);
        for (name, place) in DOTS {
            if from < place && reply.add(numbers.inode(id), place, os(name), &KEPT, &own, Generation(0)) {
                return Ok(());
            }
        }
    }
    for_each_entry(core, id, from, |entry| {
        let attr = match core.lookup(id, &entry.name) {
            Ok(attr) => attr,
            // Gone since it was listed.
            Err(FsError::Errno(Errno::ENOENT)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let (ino, place) = (numbers.inode(attr.id), kernel_place(entry.next));
        let (generation, name) = (convert::generation(&attr), os(&entry.name));
        let full = reply.add(ino, place, name, &KEPT, &numbers.attributes(&attr), generation);
        if full {
            core.forget(attr.id, 1);
        }
        Ok(full)
    })
}

/// Passes the entries from the kernel's position `from` on to `add`, until that returns true because the page is full. An error after an entry is
/// left to the next request, because the lookups of the entries so far would be lost with this one.
fn for_each_entry(core: &FileSystem, id: NodeId, from: u64, mut add: impl FnMut(&Entry) -> FsResult<bool>) -> FsResult {
    let mut place = core_place(from);
    let mut added = false;
    loop {
        let entries = match core.list(id, place) {
            Err(_) if added => return Ok(()),
            entries => entries?,
        };
        let Some(last) = entries.last() else { return Ok(()) };
        place = last.next;
        for entry in &entries {
            match add(entry) {
                Ok(true) => return Ok(()),
                Err(_) if added => return Ok(()),
                Err(error) => return Err(error),
                Ok(false) => added = true,
            }
        }
    }
}

/// The end of a directory on ext4, and the largest position that lseek(2) takes. It is not shifted.
const END: u64 = i64::MAX as u64;

fn kernel_place(place: u64) -> u64 {
    place.saturating_add(DOTS.len() as u64).min(END)
}

fn core_place(place: u64) -> u64 {
    if place >= END { END } else { place.saturating_sub(DOTS.len() as u64) }
}

fn os(name: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_and_fit_a_seek() {
        for place in [0, 1, 2, 3, 1 << 32, END - 3, END] {
            assert_eq!(core_place(kernel_place(place)), place);
            assert!(kernel_place(place) <= END);
        }
    }
}
