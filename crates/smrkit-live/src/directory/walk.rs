//! Lists directories, and walks over the tree with one directory open at a time: for the index of names, maps, attributes and copies.

use std::collections::HashMap;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, RawDir, RawDirEntry};
use rustix::io::Errno as Os;
use smrfs::error::FsResult;

use super::nodes::NodeName;
use super::{DirectoryStore, host, os_error};

pub(super) struct WalkEntry {
    pub(super) id: u64,
    pub(super) file_type: FileType,
    pub(super) name: Vec<u8>,
}

/// The entries of a directory, in the order of their node numbers, which is roughly that of their places on the disk.
pub(super) fn entries_of(directory: &OwnedFd) -> FsResult<Vec<WalkEntry>> {
    let mut entries = Vec::new();
    each_entry(directory, |entry| {
        let name = entry.file_name().to_bytes().into();
        entries.push(WalkEntry { id: entry.ino(), file_type: entry.file_type(), name });
    })?;
    for entry in entries.iter_mut().filter(|entry| entry.file_type == FileType::Unknown) {
        entry.file_type = FileType::from_raw_mode(host::stat_at(directory, &entry.name)?.st_mode);
    }
    entries.sort_unstable_by_key(|entry| entry.id);
    Ok(entries)
}

/// The current directory of a walk; in a copy, together with its copy.
pub(super) trait WalkPlace: Sized {
    /// The directory that is walked through.
    fn directory(&self) -> &OwnedFd;
    /// Enters the directory with this name.
    fn enter(&self, name: &[u8]) -> Result<Self, Os>;
    /// Goes back to the directory above. The walk has finished this one.
    fn leave(self) -> FsResult<Self>;
}

impl WalkPlace for OwnedFd {
    fn directory(&self) -> &OwnedFd {
        self
    }

    fn enter(&self, name: &[u8]) -> Result<OwnedFd, Os> {
        host::open_directory(self, name)
    }

    fn leave(self) -> FsResult<OwnedFd> {
        self.enter(b"..").map_err(os_error)
    }
}

/// Enters every directory from `root` down, on its file system, with one open at a time however deep the tree is. `enter` gets the number of
/// each directory, and returns the directories in it that are to be entered. Returns `root`.
pub(super) fn each_directory<P: WalkPlace>(
    root: P,
    enter: &mut dyn FnMut(u64, &P) -> FsResult<Vec<WalkEntry>>,
) -> FsResult<P> {
    let top = rustix::fs::fstat(root.directory()).map_err(os_error)?;
    let mut current = root;
    // The directories that are still to be entered: in each directory above the current one, and in the current one.
    let mut above: Vec<Vec<WalkEntry>> = Vec::new();
    let mut ahead = enter(top.st_ino, &current)?;
    loop {
        if let Some(next) = ahead.pop() {
            let below = match current.enter(&next.name) {
                // It was removed in the meantime.
                Err(Os::NOENT) => continue,
                below => below.map_err(os_error)?,
            };
            // Other file systems that are mounted below are no part of the tree.
            if rustix::fs::fstat(below.directory()).map_err(os_error)?.st_dev != top.st_dev {
                continue;
            }
            above.push(ahead);
            current = below;
            ahead = enter(next.id, &current)?;
        } else if let Some(rest) = above.pop() {
            current = current.leave()?;
            ahead = rest;
        } else {
            return Ok(current);
        }
    }
}

/// Bytes of entries that are asked for at a time.
pub const LIST_BYTES: usize = 32 << 10;

/// Opens a directory again, with a read position of its own.
pub fn reopened(directory: &OwnedFd) -> FsResult<OwnedFd> {
    host::open_directory(directory, b".").map_err(os_error)
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
        let entry = entry.map_err(os_error)?;
        if !is_dots(&entry) {
            show(&entry);
        }
    }
    Ok(())
}

/// Removes the files in a directory, except those that are `kept`.
pub fn remove_files(directory: &OwnedFd, kept: impl Fn(&CStr) -> bool) -> FsResult {
    let mut names = Vec::new();
    each_entry(directory, |entry| names.extend((!kept(entry.file_name())).then(|| entry.file_name().to_owned())))?;
    names.iter().try_for_each(|name| rustix::fs::unlinkat(directory, name, AtFlags::empty())).map_err(os_error)
}

impl DirectoryStore {
    /// Walks over the tree, calls `show` once with each regular file and the directory that it is in, and makes the index of names anew.
    pub(super) fn walk(&self, show: &mut dyn FnMut(&OwnedFd, &WalkEntry) -> FsResult) -> FsResult {
        let mut index = HashMap::new();
        each_directory(self.home.folder("tree")?, &mut |id, directory| {
            let mut below = Vec::new();
            for entry in entries_of(directory)? {
                // A further name of a file that has been shown.
                if index.contains_key(&entry.id) {
                    continue;
                }
                index.insert(entry.id, NodeName::new(id, &entry.name));
                match entry.file_type {
                    FileType::Directory => below.push(entry),
                    FileType::RegularFile => show(directory, &entry)?,
                    _ => {}
                }
            }
            Ok(below)
        })?;
        self.nodes.lock().index = Some(index);
        Ok(())
    }
}
