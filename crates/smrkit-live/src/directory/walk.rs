//! Lists directories, and walks over the tree with one directory open at a time: for the index of names, maps, attributes and copies.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, RawDir, RawDirEntry};
use smrfs::error::FsResult;

use super::nodes::Index;
use super::{DirectoryStore, failed, permissions, stat};

pub(super) struct WalkEntry {
    pub(super) id: u64,
    pub(super) file_type: FileType,
    pub(super) name: Vec<u8>,
}

/// The entries of a directory, in the order of their node numbers, which is roughly that of their places on the disk.
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

/// The current directory of a walk; in a copy, together with its copy.
pub(super) trait WalkPlace: Sized {
    /// The directory that is walked through.
    fn directory(&self) -> &OwnedFd;
    /// Enters the directory with this name.
    fn enter(&self, name: &[u8]) -> Result<Self, rustix::io::Errno>;
    /// Goes back to the directory above. The walk has finished this one.
    fn leave(self) -> FsResult<Self>;
}

impl WalkPlace for OwnedFd {
    fn directory(&self) -> &OwnedFd {
        self
    }

    fn enter(&self, name: &[u8]) -> Result<OwnedFd, rustix::io::Errno> {
        permissions::open_directory(self, name)
    }

    fn leave(self) -> FsResult<OwnedFd> {
        self.enter(b"..").map_err(failed)
    }
}

/// Enters every directory from `root` down, on its file system, with one open at a time however deep the tree is. `enter` gets the number of
/// each directory, and returns the directories in it that are to be entered. Returns `root`.
pub(super) fn each_directory<P: WalkPlace>(
    root: P,
    enter: &mut dyn FnMut(u64, &P) -> FsResult<Vec<WalkEntry>>,
) -> FsResult<P> {
    let top = rustix::fs::fstat(root.directory()).map_err(failed)?;
    let mut at = root;
    // The directories that are still to be entered: in each directory above the current one, and in the current one.
    let mut above: Vec<Vec<WalkEntry>> = Vec::new();
    let mut ahead = enter(top.st_ino, &at)?;
    loop {
        if let Some(next) = ahead.pop() {
            let below = match at.enter(&next.name) {
                // It was removed in the meantime.
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
pub fn grant_owner_access(directory: OwnedFd) -> FsResult {
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

/// Opens a directory again, with a read position of its own.
pub fn reopened(directory: &OwnedFd) -> FsResult<OwnedFd> {
    permissions::open_directory(directory, b".").map_err(failed)
}

/// True if an entry is `.` or `..`.
pub fn is_dots(entry: &RawDirEntry<'_>) -> bool {
    matches!(entry.file_name().to_bytes(), b"." | b"..")
}

/// Calls `show` with every entry of a directory, except `.` and `..`.
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
    /// Builds the index of names by a walk over the tree.
    pub(super) fn make_index(&self) -> FsResult {
        let index = self.walk(&mut |_, _| Ok(()))?;
        self.nodes.lock().index = Some(index);
        Ok(())
    }

    /// Walks over the tree, and calls `show` once with each regular file. Returns the index of names.
    pub(super) fn walk(&self, show: &mut dyn FnMut(&OwnedFd, &WalkEntry) -> FsResult) -> FsResult<Index> {
        let mut index = Index::new();
        let root = reopened(&self.home.folder("tree")?)?;
        each_directory(root, &mut |id, directory| self.enter_directory(id, directory, &mut index, show))?;
        Ok(index)
    }

    /// Adds the entries of a directory to the index, calls `show` with its files, and returns the directories in it.
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
