//! Names and attributes. The store keeps them, except for size, blocks and times of files. Also drops the data of files that lose their
//! last name; their blocks are freed when the removal of the name is durable, and the file is no longer open.
//!
//! A file without a record has the store's own times. Once it has a record, the record's times count, because storing a record changes the
//! times of the store's own node. So every change of a file's times changes its record.

use std::sync::Arc;

use super::FileSystem;
use super::commit::UnlinkedFile;
use super::file::{ALL, File, FileOrHead, FileState, Times};
use crate::error::{Errno, FsError, FsResult};
use crate::meta::{Attr, Entry, Kind, NewNode, RenameMode, SetAttr};
use crate::units::NodeId;

impl FileSystem {
    /// The root directory.
    pub fn root(&self) -> NodeId {
        self.store.root()
    }

    /// The node of that name. The caller owes a `forget`, as after all calls that create a node.
    pub fn lookup(&self, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        self.looked_up(self.store.lookup(parent, name)?)
    }

    /// The node of that number, which may never have been looked up. The caller owes a `forget`.
    pub fn find(&self, id: NodeId) -> FsResult<Attr> {
        self.looked_up(self.store.find(id)?)
    }

    /// The parent of a directory. The caller owes a `forget`.
    pub fn parent(&self, directory: NodeId) -> FsResult<Attr> {
        self.looked_up(self.store.parent(directory)?)
    }

    /// The attributes of a node that the store has just looked up. After an error the lookup is given back, because the caller will not.
    fn looked_up(&self, attr: Attr) -> FsResult<Attr> {
        let id = attr.id;
        self.with_recorded_attributes(attr).inspect_err(|_| self.store.forget(id, 1))
    }

    /// Gives `count` lookups back.
    pub fn forget(&self, id: NodeId, count: u64) {
        self.store.forget(id, count);
    }

    /// Creates a node that is not a symbolic link.
    pub fn make(&self, parent: NodeId, name: &[u8], new: &NewNode) -> FsResult<Attr> {
        self.changeable()?;
        let _names = self.names.read();
        let attr = self.store.make(parent, name, new)?;
        self.commits.named(attr.id, parent);
        if attr.kind == Kind::File {
            self.files.put_new(attr.id);
            self.files.shrink();
            return Ok(Attr { size: 0, blocks: 0, ..attr });
        }
        Ok(attr)
    }

    /// Creates a symbolic link.
    pub fn make_link(&self, parent: NodeId, name: &[u8], target: &[u8], uid: u32, gid: u32) -> FsResult<Attr> {
        self.changeable()?;
        let _names = self.names.read();
        let attr = self.store.make_link(parent, name, target, uid, gid)?;
        self.commits.named(attr.id, parent);
        Ok(attr)
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, id: NodeId) -> FsResult<Vec<u8>> {
        self.store.read_link(id)
    }

    /// Gives a node another name; a file with data not yet durable is committed first.
    pub fn link(&self, id: NodeId, parent: NodeId, name: &[u8]) -> FsResult<Attr> {
        self.changeable()?;
        self.save_unsaved(id)?;
        let _names = self.names.write();
        if self.files.get(id).is_some_and(|file| file.look().is_unlinked) {
            return Err(Errno::ENOENT.into());
        }
        let attr = self.store.link(id, parent, name)?;
        self.commits.named(id, parent);
        self.status_changed(id, attr.kind);
        self.looked_up(attr).map_err(FsError::after_change)
    }

    /// Removes a name.
    pub fn unlink(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.changeable()?;
        let _names = self.names.write();
        // Its map is read before the name is removed, because afterwards it could not be read, and the file's room would stay taken.
        let victim = self.victim(parent, name)?;
        let result = self.store.unlink(parent, name);
        if result.is_ok() {
            self.after_name_removed(&victim, parent);
        }
        self.store.forget(victim.attr.id, 1);
        result
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.changeable()?;
        self.store.remove_dir(parent, name)?;
        self.commits.store_changed();
        Ok(())
    }

    /// Moves a name, or exchanges two; a file with data not yet durable is committed first.
    pub fn rename(&self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), mode: RenameMode) -> FsResult {
        self.changeable()?;
        self.save_named(from)?;
        if mode == RenameMode::Exchange {
            self.save_named(to)?;
        }
        let _names = self.names.write();
        // Another thread may have given the name to another file.
        let moved = self.store.lookup(from.0, from.1)?;
        let result = self.rename_node(&moved, from, to, mode);
        // The store counts each `lookup`, and keeps the node until they are given back.
        self.store.forget(moved.id, 1);
        result
    }

    /// Makes the data behind a name durable, before another name leads to it.
    fn save_named(&self, (parent, name): (NodeId, &[u8])) -> FsResult {
        let id = self.store.lookup(parent, name)?.id;
        let saved = self.save_unsaved(id);
        self.store.forget(id, 1);
        saved
    }

    /// Commits a file with data that is not durable.
    fn save_unsaved(&self, id: NodeId) -> FsResult {
        let unsaved = self.files.get(id).filter(|file| file.look().is_unsaved());
        unsaved.map_or(Ok(()), |file| self.save(&file).map(drop))
    }

    /// Renames `moved`. The caller holds the lock of names.
    fn rename_node(&self, moved: &Attr, from: (NodeId, &[u8]), to: (NodeId, &[u8]), mode: RenameMode) -> FsResult {
        let ((from_parent, _), (to_parent, to_name)) = (from, to);
        let victim = match self.victim(to_parent, to_name) {
            Ok(victim) => Some(victim),
            Err(error) if error.errno() == Errno::ENOENT => None,
            Err(error) => return Err(error),
        };
        let result = self.store.rename(from, to, mode);
        if result.is_ok() {
            self.commits.named(moved.id, from_parent);
            self.commits.named(moved.id, to_parent);
            self.status_changed(moved.id, moved.kind);
        }
        let Some(victim) = victim else { return result };
        if result.is_ok() && mode == RenameMode::Exchange {
            self.commits.named(victim.attr.id, from_parent);
            self.commits.named(victim.attr.id, to_parent);
            self.status_changed(victim.attr.id, victim.attr.kind);
        }
        if result.is_ok() && mode == RenameMode::Replace && victim.attr.id != moved.id {
            self.after_name_removed(&victim, to_parent);
        }
        self.store.forget(victim.attr.id, 1);
        result
    }

    /// A path to the node from the root, for messages, if the store knows one.
    pub fn path_to(&self, id: NodeId) -> Option<Vec<u8>> {
        self.store.path_to(id)
    }

    /// Some entries of a directory from the place `from` on, without `.` and `..`; empty at its end.
    pub fn list(&self, id: NodeId, from: u64) -> FsResult<Vec<Entry>> {
        self.store.list(id, from)
    }

    /// A user's attribute.
    pub fn attribute(&self, id: NodeId, name: &[u8]) -> FsResult<Vec<u8>> {
        self.store.attribute(id, name)
    }

    /// The names of the user's attributes.
    pub fn attribute_names(&self, id: NodeId) -> FsResult<Vec<Vec<u8>>> {
        self.store.attribute_names(id)
    }

    /// Sets a user's attribute.
    pub fn set_attribute(&self, id: NodeId, name: &[u8], value: &[u8], create: bool, replace: bool) -> FsResult {
        self.changeable()?;
        self.store.set_attribute(id, name, value, create, replace)?;
        self.attribute_changed(id)
    }

    /// Removes a user's attribute.
    pub fn remove_attribute(&self, id: NodeId, name: &[u8]) -> FsResult {
        self.changeable()?;
        self.store.remove_attribute(id, name)?;
        self.attribute_changed(id)
    }

    fn attribute_changed(&self, id: NodeId) -> FsResult {
        self.commits.store_changed();
        self.status_changed(id, self.store.attributes(id)?.kind);
        Ok(())
    }

    /// Opens a file; `truncate` empties it. While it is open its data stays, whatever happens to its names.
    pub fn open(&self, id: NodeId, writing: bool, truncate: bool) -> FsResult {
        if writing || truncate {
            self.changeable()?;
        }
        let file = self.file(id)?;
        let mut state = file.lock_alive()?;
        state.opens += 1;
        state.writers += u32::from(writing);
        drop(state);
        if truncate && let Err(error) = self.truncate(id, 0) {
            self.release(id, writing)?;
            return Err(error);
        }
        Ok(())
    }

    /// True if the file is open for writing.
    pub fn is_open_for_writing(&self, id: NodeId) -> FsResult<bool> {
        Ok(self.file(id)?.look().writers > 0)
    }

    /// Ends one `open`; EBADF if there is none.
    pub fn release(&self, id: NodeId, writing: bool) -> FsResult {
        let file = self.files.get(id).ok_or(Errno::EBADF)?;
        let mut state = file.lock();
        if state.opens == 0 || (writing && state.writers == 0) {
            return Err(Errno::EBADF.into());
        }
        state.opens -= 1;
        state.writers -= u32::from(writing);
        if writing && state.writers == 0 && state.buffer.is_empty() {
            self.data.allocator.closed(id);
        }
        if state.opens == 0 && state.is_unlinked {
            self.drop_data(&file, &mut state);
        }
        Ok(())
    }

    /// Looks up the node that is about to lose a name, and reads its map, which could not be read later. The caller then ends the lookup (`forget`).
    fn victim(&self, parent: NodeId, name: &[u8]) -> FsResult<Victim> {
        let attr = self.store.lookup(parent, name)?;
        let file = match attr.kind {
            Kind::File => self.file(attr.id).map(Some),
            _ => Ok(None),
        };
        match file {
            Ok(file) => Ok(Victim { attr, file }),
            // A file with a damaged map can be removed; the next scan frees its space.
            Err(error) if is_map_damage(&error) => Ok(Victim { attr, file: None }),
            Err(error) => {
                self.store.forget(attr.id, 1);
                Err(error)
            }
        }
    }

    /// Updates a node that has lost a name, perhaps its last.
    fn after_name_removed(&self, victim: &Victim, parent: NodeId) {
        self.commits.store_changed();
        let Some(file) = &victim.file else { return };
        let id = victim.attr.id;
        if victim.attr.links > 1 && self.store.attributes(id).is_ok_and(|attr| attr.links > 0) {
            self.commits.named(id, parent);
            self.status_changed(id, Kind::File);
            return;
        }
        let mut state = file.lock();
        state.is_unlinked = true;
        if state.opens == 0 {
            self.drop_data(file, &mut state);
        } else if let Some(times) = &mut state.times {
            times.ctime = self.store.now();
        }
    }

    /// Drops the data of a file that is neither named nor open. The next commit frees it.
    fn drop_data(&self, file: &Arc<File>, state: &mut FileState) {
        state.is_gone = true;
        self.data.replace_ranges(file, state, &[ALL], &mut 0, |state, range| state.map.remove(range));
        let gone = UnlinkedFile { spans: std::mem::take(&mut state.retired), parts: state.stored.numbers().collect() };
        self.commits.free_at_next_commit(gone);
        self.data.dirty.lock().remove(&file.id);
        self.data.allocator.closed(file.id);
        self.files.remove(file);
    }
}

/// True if the map of a file is damaged.
fn is_map_damage(error: &FsError) -> bool {
    matches!(error, FsError::Corrupt(_) | FsError::Seal(_) | FsError::ForgedPart(_))
}

/// A node that is about to lose a name. The caller gives its `lookup` back with `forget`.
struct Victim {
    attr: Attr,
    file: Option<Arc<File>>,
}

impl FileSystem {
    /// Attributes as `stat` shows them.
    pub fn attributes(&self, id: NodeId) -> FsResult<Attr> {
        self.with_recorded_attributes(self.store.attributes(id)?)
    }

    /// The store's attributes of a node, with size, blocks and times of a file replaced by those of its record.
    pub(super) fn with_recorded_attributes(&self, attr: Attr) -> FsResult<Attr> {
        if attr.kind != Kind::File {
            return Ok(attr);
        }
        let known = match self.files.file_or_head(attr.id, &self.data) {
            // A file with a damaged map can be listed, moved and removed, but not opened. Its size is not 0, because tar and others don't
            // open empty files, and would archive it as empty without an error.
            Err(error) if is_map_damage(&error) => {
                return Ok(Attr { size: self.data.granule_bytes, blocks: 0, ..attr });
            }
            known => known?,
        };
        let (size, granules, times) = match known {
            FileOrHead::File(file) => {
                let state = file.look();
                (state.size, state.map.granules() + state.promises.unplaced, state.times)
            }
            FileOrHead::Head(summary) => {
                let head = summary.head;
                let times = Times { mtime: head.mtime, ctime: head.ctime };
                (head.size, summary.granules + head.promised, Some(times))
            }
            FileOrHead::NoRecord => (0, 0, None),
        };
        let times = times.unwrap_or(Times { mtime: attr.mtime, ctime: attr.ctime });
        let blocks = granules.saturating_mul(self.data.granule_bytes / 512);
        Ok(Attr { size, blocks, mtime: times.mtime, ctime: times.ctime, ..attr })
    }

    /// Changes attributes, the size among them.
    pub fn set_attributes(&self, id: NodeId, set: &SetAttr) -> FsResult<Attr> {
        self.changeable()?;
        if let Some(size) = set.size {
            self.truncate(id, size)?;
        }
        let rest = SetAttr { size: None, ctime: None, ..*set };
        if rest == SetAttr::default() {
            return self.attributes(id);
        }
        self.commits.store_changed();
        let attr = self.store.set_attributes(id, &rest)?;
        if attr.kind == Kind::File {
            self.change_recorded_times(id, |times| {
                // The kernel shows its own ctime until it forgets the file and asks again, so the two have to be the same.
                times.ctime = set.ctime.unwrap_or_else(|| self.store.now());
                if rest.mtime.is_some() {
                    times.mtime = attr.mtime;
                }
            })?;
        }
        self.with_recorded_attributes(attr)
    }

    /// Changes the times in a file's record, if it has one.
    fn change_recorded_times(&self, id: NodeId, change: impl FnOnce(&mut Times)) -> FsResult {
        if matches!(self.files.file_or_head(id, &self.data)?, FileOrHead::NoRecord) {
            return Ok(());
        }
        let file = self.file(id)?;
        let mut state = file.lock();
        if let Some(times) = &mut state.times {
            change(times);
            self.data.touch(&file, &mut state);
        }
        Ok(())
    }

    /// Sets the ctime after a change of anything but the data. The change has been made, so a record that can't be read is no error.
    pub(super) fn status_changed(&self, id: NodeId, kind: Kind) {
        if kind == Kind::File {
            let now = self.store.now();
            let _ = self.change_recorded_times(id, |times| times.ctime = now);
        }
    }
}
