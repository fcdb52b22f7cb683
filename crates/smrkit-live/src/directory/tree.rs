//! The tree of a store: its directories listed, and walks over all of it, for the index of names, for maps and attributes.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, RawDir, SeekFrom};
use smrfs::error::{FsResult, SealedMap};
use smrfs::meta::{Entry, Kind};
use smrfs::units::NodeId;

use super::entries::{LIST_BYTES, is_dots, reopened};
use super::index::Index;
use super::walk::{WalkEntry, each_directory, entries_of};
use super::{DirectoryStore, failed, maps, stat, values};

impl DirectoryStore {
    pub(super) fn entries(&self, id: u64, from: u64) -> FsResult<Vec<Entry>> {
        let directory = {
            let _names = self.names_stay();
            reopened(&*self.fd(id)?)?
        };
        if from > 0 {
            rustix::fs::seek(&directory, SeekFrom::Start(from)).map_err(failed)?;
        }
        let mut buffer = [MaybeUninit::uninit(); LIST_BYTES];
        let mut raw = RawDir::new(&directory, &mut buffer);
        let mut entries = Vec::new();
        // One buffer's worth, but more than `.` and `..` where there is more.
        while !raw.is_buffer_empty() || entries.is_empty() {
            let entry = match raw.next() {
                // The end; or a directory that has been removed while it is in use.
                None | Some(Err(rustix::io::Errno::NOENT)) => break,
                Some(entry) => entry.map_err(failed)?,
            };
            if is_dots(&entry) {
                continue;
            }
            let name = entry.file_name().to_bytes().to_vec();
            let kind = match entry.file_type() {
                FileType::Unknown => stat::kind(&stat::at(&directory, &name)?),
                known => stat::kind_of(known),
            };
            entries.push(Entry { id: NodeId(entry.ino()), kind, name, next: entry.next_entry_cookie() });
        }
        Ok(entries)
    }

    /// Makes the index of names by a walk over the tree.
    pub(super) fn make_index(&self) -> FsResult {
        let index = self.walk(&mut |_, _| Ok(()))?;
        self.nodes().index = Some(index);
        Ok(())
    }

    pub(super) fn visit_files(
        &self,
        visit: &mut dyn FnMut(NodeId, FsResult<Option<SealedMap>>) -> FsResult,
    ) -> FsResult {
        let index = self.walk(&mut |directory, found| {
            let file = super::open_at(directory, &found.name, Kind::File)?;
            visit(NodeId(found.id), maps::map_of(&self.home.sealer, &file))
        })?;
        self.nodes().index = Some(index);
        Ok(())
    }

    /// Looks at the long attributes of every file; see [`super::values`].
    pub(super) fn check_values(&self, repair: bool, tell: &mut dyn FnMut(NodeId, String)) -> FsResult {
        self.walk(&mut |directory, found| {
            let file = super::open_at(directory, &found.name, Kind::File)?;
            if let Some(reason) = values::check(&file, repair)? {
                tell(NodeId(found.id), reason);
            }
            Ok(())
        })
        .map(drop)
    }

    /// Walks over the tree; shows each regular file once.
    fn walk(&self, show: &mut dyn FnMut(&OwnedFd, &WalkEntry) -> FsResult) -> FsResult<Index> {
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
