//! Directories listed, and walks over all of the tree, with one directory open at a time: for the index of names, for maps and
//! attributes, and for copies.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, RawDir, RawDirEntry};
use smrfs::error::FsResult;

use super::nodes::Index;
use super::{DirectoryStore, failed, stat, way};

/// An entry found on a walk.
pub(super) struct WalkEntry {
    pub(super) id: u64,
    pub(super) file_type: FileType,
    pub(super) name: Vec<u8>,
}

/// The entries of a directory, in the order of their nodes, which is about where they lie on the disk.
pub(super) fn entries_of(directory: &OwnedFd) -> FsResult<Vec<WalkEntry>> {
    let mut found = Vec::new();
    each_entry(directory, |entry| {
        found.push(WalkEntry {
            id: entry.ino(),
            file_type: entry.file_type(),
            name: entry.file_name().to_bytes().into(),
        });
    })?;
    for entry in found.iter_mut().filter(|entry| entry.file_type == FileType::Unknown) {
        entry.file_type = FileType::from_raw_mode(stat::at(directory, &entry.name)?.st_mode);
    }
    found.sort_unstable_by_key(|entry| entry.id);
    Ok(found)
}

/// Place of a walk: a directory, perhaps with its counterpart elsewhere.
pub(super) trait WalkPlace: Sized {
    /// The directory that is walked through.
    fn directory(&self) -> &OwnedFd;
    /// The place below of that name.
    fn enter(&self, name: &[u8]) -> Result<Self, rustix::io::Errno>;
    /// The place above; nothing follows in this one.
    fn leave(self) -> FsResult<Self>;
}

impl WalkPlace for OwnedFd {
    fn directory(&self) -> &OwnedFd {
        self
    }

    fn enter(&self, name: &[u8]) -> Result<OwnedFd, rustix::io::Errno> {
        way::open_directory(self, name)
    }

    fn leave(self) -> FsResult<OwnedFd> {
        self.enter(b"..").map_err(failed)
    }
}

/// Enters every directory from `root` down, on its file system, with one open at a time however deep they lie. `enter` is
/// given each with its number, and tells which directories in it are to follow. Gives `root` back.
pub(super) fn each_directory<P: WalkPlace>(
    root: P,
    enter: &mut dyn FnMut(u64, &P) -> FsResult<Vec<WalkEntry>>,
) -> FsResult<P> {
    let top = rustix::fs::fstat(root.directory()).map_err(failed)?;
    let mut at = root;
    let mut above: Vec<Vec<WalkEntry>> = Vec::new();
    let mut ahead = enter(top.st_ino, &at)?;
    loop {
        if let Some(next) = ahead.pop() {
            let below = match at.enter(&next.name) {
                // Removed in the meantime.
                Err(rustix::io::Errno::NOENT) => continue,
                below => below.map_err(failed)?,
            };
            if rustix::fs::fstat(below.directory()).map_err(failed)?.st_dev != top.st_dev {
                continue;
            }
            above.push(ahead);
            at = below;
            ahead = enter(next.id, &at)?;
        } else if let Some(rest) = above.pop() {
            at = at.leave()?;
            ahead = rest;
        } else {
            return Ok(at);
        }
    }
}

/// Gives the owner access to a directory and all below it, so that it can be removed.
pub fn open_up(directory: OwnedFd) -> FsResult {
    each_directory(directory, &mut |_, directory| {
        rustix::fs::fchmod(directory, Mode::RWXU).map_err(failed)?;
        let mut found = entries_of(directory)?;
        found.retain(|entry| entry.file_type == FileType::Directory);
        Ok(found)
    })
    .map(drop)
}

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

impl DirectoryStore {
    /// Makes the index of names by a walk over the tree.
    pub(super) fn make_index(&self) -> FsResult {
        let index = self.walk(&mut |_, _| Ok(()))?;
        self.nodes.lock().index = Some(index);
        Ok(())
    }

    /// Walks over the tree; shows each regular file once.
    pub(super) fn walk(&self, show: &mut dyn FnMut(&OwnedFd, &WalkEntry) -> FsResult) -> FsResult<Index> {
        let mut index = Index::new();
        let root = reopened(&self.home.folder("tree")?)?;
        each_directory(root, &mut |id, directory| self.enter_directory(id, directory, &mut index, show))?;
        Ok(index)
    }

    /// Notes what lies in a directory, shows its files, and gives the directories in it.
    fn enter_directory(
        &self,
        id: u64,
        directory: &OwnedFd,
        index: &mut Index,
        show: &mut dyn FnMut(&OwnedFd, &WalkEntry) -> FsResult,
    ) -> FsResult<Vec<WalkEntry>> {
        let mut below = Vec::new();
        for found in entries_of(directory)? {
            if index.contains(found.id) {
                continue;
            }
            index.insert(found.id, id, &found.name);
            match found.file_type {
                FileType::Directory => below.push(found),
                FileType::RegularFile => show(directory, &found)?,
                _ => {}
            }
        }
        Ok(below)
    }
}
