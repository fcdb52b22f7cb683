//! Reading directories: `.` and `..`, then what the core lists, until the kernel's page is full.
//!
//! The core's places are shifted by two, for the two entries that it does not list.

use fuser::{FileType, Generation, ReplyDirectory, ReplyDirectoryPlus};
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::FileSystem;
use smrfs::meta::Entry;
use smrfs::units::NodeId;

use super::convert::{self, KEPT, Numbers};

/// Places of `.` and `..`, as the kernel gets them.
const DOTS: [(&[u8], u64); 2] = [(b".", 1), (b"..", 2)];

/// Names only. `..` shows the directory's own number: the kernel knows the parent and never asks for it.
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
    each(core, id, from, |entry| {
        let kind = convert::file_type(entry.kind);
        Ok(reply.add(numbers.inode(entry.id), kernel_place(entry.next), kind, os(&entry.name)))
    })
}

/// Names with attributes: each entry that the kernel gets is a lookup that it will give back. It does not look at the
/// attributes of `.` and `..`.
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
    each(core, id, from, |entry| {
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

/// Gives the entries from the kernel's place `from` on to `add`, until it says that there is no more room. An error behind
/// an entry is left to the next request: what the kernel did not get it would not give back.
fn each(core: &FileSystem, id: NodeId, from: u64, mut add: impl FnMut(&Entry) -> FsResult<bool>) -> FsResult {
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

/// The end of a directory, as ext4 numbers it, and the largest place that lseek(2) takes: it is not shifted.
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
