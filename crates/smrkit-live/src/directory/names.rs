//! Directory entries: create, look up, list, link, rename, remove.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags, SeekFrom, Stat};
use rustix::io::Errno as Os;
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::meta::{Attr, DEFAULT_ACCESS_LIST, Entry, Kind, Names, NewNode, RenameMode, SetTime};
use smrfs::units::NodeId;

use super::host::{self, open_at, stat_at};
use super::nodes::{NodeName, UnlinkStep};
use super::walk::{LIST_BYTES, is_dots, reopened};
use super::{DirectoryStore, check_name, os_error};

impl DirectoryStore {
    /// Counts a lookup of a node, which the kernel later gives back by a forget, and returns the node's attributes.
    fn add_lookup(&self, found: &Stat, parent: u64, name: &[u8]) -> FsResult<Attr> {
        let id = found.st_ino;
        let (was_orphan, has_generation) = {
            let mut nodes = self.nodes.lock();
            let was_orphan = nodes.add_lookup(id, host::kind(found), parent, name);
            (was_orphan, nodes.get(id).is_none_or(|node| node.generation.is_some()))
        };
        // The root is never looked up, so its generation stays 0, as the kernel wants it.
        if !has_generation {
            let generation = host::generation(&*self.fd(parent)?, name)?;
            if let Some(node) = self.nodes.lock().get(id) {
                node.generation = Some(generation);
            }
        }
        if was_orphan {
            self.drop_orphan(id)?;
            // The number of links has changed.
            return Ok(self.attr_of(&stat_at(&*self.fd(parent)?, name)?));
        }
        Ok(self.attr_of(found))
    }

    /// Looks up a node by its number. The caller holds the lock `names`.
    fn find_named(&self, id: u64) -> FsResult<Attr> {
        let found = host::stat_fd(&*self.fd(id)?)?;
        if id == self.root {
            return Ok(self.attr_of(&found));
        }
        let place = self.nodes.lock().place(id).filter(|place| place.parent != self.orphans);
        let place = place.ok_or(Errno::ENOENT)?;
        self.add_lookup(&found, place.parent, &place.name)
    }

    fn drop_orphan(&self, id: u64) -> FsResult {
        let orphans = self.fd(self.orphans)?;
        rustix::fs::unlinkat(&orphans, id.to_string(), AtFlags::empty()).map_err(os_error)
    }

    /// Creates a node (a symbolic link to `target`, if there is one), and counts its first lookup.
    fn create(&self, parent: u64, name: &[u8], new: &NewNode, target: Option<&[u8]>) -> FsResult<Attr> {
        let _changing = self.changes.read();
        check_name(name)?;
        let _names = self.names.read();
        let directory = self.fd(parent)?;
        let mode = Mode::from_raw_mode(new.mode & 0o7777);
        let created = match (new.kind, target) {
            (Kind::Link, Some(target)) => rustix::fs::symlinkat(target, &directory, name).map(|()| None),
            (Kind::Link, None) => Err(Os::INVAL),
            // A file is opened as it is created, because its mode may forbid that afterwards.
            (Kind::File, _) => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                rustix::fs::openat(&directory, name, flags, mode).map(Some)
            }
            (Kind::Directory, _) => rustix::fs::mkdirat(&directory, name, mode).map(|()| None),
            (kind, _) => {
                rustix::fs::mknodat(&directory, name, host::type_of(kind), mode, new.rdev.into()).map(|()| None)
            }
        };
        let opened = created.map_err(os_error)?;
        let prepared = opened.map_or_else(|| open_at(&directory, name, new.kind), Ok).and_then(|fd| {
            self.set_owner_and_mode(&directory, &fd, new)?;
            // The kernel sets a coarse time, which may be before the times of earlier changes, so a finer one is set.
            host::change_times(&fd, None, Some(SetTime::Now))?;
            // Setting the mtime has changed the ctime, so the state is read only now: the kernel must get the same when it asks again.
            let made = rustix::fs::fstat(&fd).map_err(os_error)?;
            let generation = host::generation(&fd, b"")?;
            Ok((fd, made, generation))
        });
        let (fd, made, generation) = prepared.map_err(|error| {
            let flags = if new.kind == Kind::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            match rustix::fs::unlinkat(&directory, name, flags) {
                Ok(()) => error,
                Err(_) => error.after_change(),
            }
        })?;
        {
            let mut nodes = self.nodes.lock();
            nodes.add_lookup(made.st_ino, new.kind, parent, name);
            nodes.keep_descriptor(made.st_ino, new.kind, &Arc::new(fd));
            if let Some(node) = nodes.get(made.st_ino) {
                node.generation = Some(generation);
            }
        }
        Ok(self.attr_of(&made))
    }

    /// Sets the owners and all permission bits of a new node.
    fn set_owner_and_mode(&self, directory: &OwnedFd, fd: &OwnedFd, new: &NewNode) -> FsResult {
        let mut made = rustix::fs::fstat(fd).map_err(os_error)?;
        // Links have all bits, whatever is asked for, and they can't be changed.
        let wanted_mode = if new.kind == Kind::Link { made.st_mode } else { new.mode } & 0o7777;
        // In a directory with the set-group-id bit, a new node has inherited the group, and a new directory also the bit.
        let is_inherited = (made.st_gid != new.gid || new.kind == Kind::Directory)
            && rustix::fs::fstat(directory).map_err(os_error)?.st_mode & 0o2000 != 0;
        let uid = (made.st_uid != new.uid).then_some(new.uid);
        let gid = (made.st_gid != new.gid && !is_inherited).then_some(new.gid);
        if uid.is_some() || gid.is_some() {
            host::change_owner(fd, uid, gid)?;
            made = rustix::fs::fstat(fd).map_err(os_error)?;
        }
        let inherited = if is_inherited && new.kind == Kind::Directory { 0o2000 } else { 0 };
        let mut mode = wanted_mode | inherited;
        if made.st_mode & 0o7777 != mode && host::get(directory, DEFAULT_ACCESS_LIST).is_ok() {
            // Permissions that the default access list took away must not come back.
            mode &= 0o7000 | made.st_mode;
        }
        if made.st_mode & 0o7777 != mode {
            host::change_mode(fd, new.kind, mode)?;
        }
        Ok(())
    }

    fn remove_name(&self, parent: u64, name: &[u8], is_directory: bool) -> FsResult {
        let _changing = self.changes.read();
        check_name(name)?;
        let _names = self.names.write();
        let directory = self.fd(parent)?;
        let found = stat_at(&directory, name)?;
        match (is_directory, host::kind(&found) == Kind::Directory) {
            (true, false) => return Err(Errno::ENOTDIR.into()),
            (false, true) => return Err(Errno::EISDIR.into()),
            _ => {}
        }
        let orphan = self.prepare_unlink(&directory, &found, parent, name)?;
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        if let Err(error) = rustix::fs::unlinkat(&directory, name, flags) {
            if orphan.is_some() {
                self.drop_orphan(found.st_ino)?;
            }
            return Err(os_error(error));
        }
        self.nodes.lock().remove_name(found.st_ino, parent, name, orphan);
        Ok(())
    }

    /// Prepares the removal of a name, so that its node can be used afterwards if programs have it open. Returns the name that the node got among
    /// the orphans, if it got one.
    fn prepare_unlink(
        &self,
        directory: &OwnedFd,
        found: &Stat,
        parent: u64,
        name: &[u8],
    ) -> FsResult<Option<NodeName>> {
        let (id, kind) = (found.st_ino, host::kind(found));
        let step = self.nodes.lock().step_before_unlink(id, parent, name);
        match step {
            UnlinkStep::Nothing | UnlinkStep::KeepDescriptor => Ok(None),
            UnlinkStep::OpenDescriptor => {
                let fd = Arc::new(open_at(directory, name, kind)?);
                self.nodes.lock().keep_descriptor(id, kind, &fd);
                Ok(None)
            }
            UnlinkStep::LinkAsOrphan => {
                let orphans = self.fd(self.orphans)?;
                let own = id.to_string();
                rustix::fs::linkat(directory, name, &orphans, &own, AtFlags::empty()).map_err(os_error)?;
                Ok(Some(NodeName::new(self.orphans, own.as_bytes())))
            }
        }
    }
}

impl Names for DirectoryStore {
    fn root(&self) -> NodeId {
        NodeId(self.root)
    }

    fn lookup(&self, NodeId(parent): NodeId, name: &[u8]) -> FsResult<Attr> {
        check_name(name)?;
        let _names = self.names.read();
        let directory = self.fd(parent)?;
        let found = stat_at(&directory, name)?;
        if found.st_dev != self.device { Err(Errno::EXDEV.into()) } else { self.add_lookup(&found, parent, name) }
    }

    fn find(&self, NodeId(id): NodeId) -> FsResult<Attr> {
        let _names = self.names.read();
        self.find_named(id)
    }

    fn parent(&self, NodeId(directory): NodeId) -> FsResult<Attr> {
        let _names = self.names.read();
        let place = self.nodes.lock().place(directory).ok_or(Errno::ENOENT)?;
        self.find_named(place.parent)
    }

    fn forget(&self, NodeId(id): NodeId, count: u64) {
        let gone = self.nodes.lock().forget(id, count);
        if gone.is_some_and(|node| node.is_orphan) {
            // If it can't be removed now, the next mount removes it.
            let _ = self.drop_orphan(id);
        }
    }

    fn make(&self, NodeId(parent): NodeId, name: &[u8], new: &NewNode) -> FsResult<Attr> {
        self.create(parent, name, new, None)
    }

    fn make_link(&self, NodeId(parent): NodeId, name: &[u8], target: &[u8], uid: u32, gid: u32) -> FsResult<Attr> {
        self.create(parent, name, &NewNode { kind: Kind::Link, mode: 0, uid, gid, rdev: 0 }, Some(target))
    }

    fn read_link(&self, id: NodeId) -> FsResult<Vec<u8>> {
        let _names = self.names.read();
        let fd = self.fd(id.0)?;
        match rustix::fs::readlinkat(&fd, c"", Vec::new()) {
            Ok(target) => Ok(target.into_bytes()),
            // For a node that is no link the kernel returns ENOENT here, because the path is empty; programs expect EINVAL.
            Err(Os::NOENT) => Err(Errno::EINVAL.into()),
            Err(error) => Err(os_error(error)),
        }
    }

    fn link(&self, NodeId(id): NodeId, NodeId(parent): NodeId, name: &[u8]) -> FsResult<Attr> {
        let _changing = self.changes.read();
        check_name(name)?;
        let _names = self.names.read();
        let to = self.fd(parent)?;
        let place = self.nodes.lock().place(id);
        match place {
            Some(place) => {
                let from = self.fd(place.parent)?;
                rustix::fs::linkat(&from, &*place.name, &to, name, AtFlags::empty()).map_err(os_error)?;
            }
            None => {
                let path = host::path_of(&*self.fd(id)?);
                rustix::fs::linkat(rustix::fs::CWD, path, &to, name, AtFlags::SYMLINK_FOLLOW).map_err(os_error)?;
            }
        }
        let found = stat_at(&to, name).map_err(FsError::after_change)?;
        if found.st_ino != id {
            // The name that was linked from is another node's by now.
            rustix::fs::unlinkat(&to, name, AtFlags::empty()).map_err(|error| os_error(error).after_change())?;
            return Err(Errno::ENOENT.into());
        }
        self.add_lookup(&found, parent, name).map_err(FsError::after_change)
    }

    fn unlink(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.remove_name(parent.0, name, false)
    }

    fn remove_dir(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.remove_name(parent.0, name, true)
    }

    fn rename(&self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), mode: RenameMode) -> FsResult {
        let (NodeId(from_parent), from_name) = from;
        let (NodeId(to_parent), to_name) = to;
        let _changing = self.changes.read();
        check_name(from_name)?;
        check_name(to_name)?;
        let _names = self.names.write();
        let (source, target) = (self.fd(from_parent)?, self.fd(to_parent)?);
        let moving = stat_at(&source, from_name)?;
        let existing = match stat_at(&target, to_name) {
            Ok(existing) => Some(existing),
            Err(error) if error.errno() == Errno::ENOENT => None,
            Err(error) => return Err(error),
        };
        // Renaming a name to another one of the same file does nothing (POSIX), so that one is not replaced.
        let other = existing.filter(|existing| existing.st_ino != moving.st_ino);
        let (flags, replaced) = match mode {
            RenameMode::Replace => (RenameFlags::empty(), other),
            RenameMode::NoReplace => (RenameFlags::NOREPLACE, None),
            RenameMode::Exchange => (RenameFlags::EXCHANGE, None),
        };
        let orphan =
            replaced.map_or(Ok(None), |replaced| self.prepare_unlink(&target, &replaced, to_parent, to_name))?;
        if let Err(error) = rustix::fs::renameat_with(&source, from_name, &target, to_name, flags) {
            if let (Some(_), Some(replaced)) = (&orphan, replaced) {
                self.drop_orphan(replaced.st_ino)?;
            }
            // For a directory that is not empty, xfs returns EEXIST where others return ENOTEMPTY.
            let is_not_empty = mode == RenameMode::Replace && error == Os::EXIST;
            return Err(if is_not_empty { Errno::ENOTEMPTY.into() } else { os_error(error) });
        }
        if existing.is_some() && other.is_none() {
            return Ok(());
        }
        let mut nodes = self.nodes.lock();
        let (from, to) = ((from_parent, from_name), (to_parent, to_name));
        match (mode, other) {
            (RenameMode::Replace, Some(replaced)) => nodes.remove_name(replaced.st_ino, to_parent, to_name, orphan),
            (RenameMode::Exchange, Some(exchanged)) => nodes.move_name(exchanged.st_ino, to, from),
            _ => {}
        }
        nodes.move_name(moving.st_ino, from, to);
        Ok(())
    }

    fn list(&self, NodeId(id): NodeId, from: u64) -> FsResult<Vec<Entry>> {
        let directory = {
            let _names = self.names.read();
            reopened(&*self.fd(id)?)?
        };
        if from > 0 {
            rustix::fs::seek(&directory, SeekFrom::Start(from)).map_err(os_error)?;
        }
        let mut buffer = [MaybeUninit::uninit(); LIST_BYTES];
        let mut raw = RawDir::new(&directory, &mut buffer);
        let mut entries = Vec::new();
        // Returns the entries of one buffer, or of further ones as long as there were only `.` and `..`, because an empty list means the end.
        while !raw.is_buffer_empty() || entries.is_empty() {
            let entry = match raw.next() {
                // ENOENT: the directory was removed while it is in use.
                None | Some(Err(Os::NOENT)) => break,
                Some(entry) => entry.map_err(os_error)?,
            };
            if is_dots(&entry) {
                continue;
            }
            let name = entry.file_name().to_bytes().to_vec();
            let kind = match entry.file_type() {
                FileType::Unknown => host::kind(&stat_at(&directory, &name)?),
                known => host::kind_of(known),
            };
            entries.push(Entry { id: NodeId(entry.ino()), kind, name, next: entry.next_entry_cookie() });
        }
        Ok(entries)
    }

    fn path_to(&self, id: NodeId) -> Option<Vec<u8>> {
        let nodes = self.nodes.lock();
        let (mut path, mut at) = (Vec::new(), id.0);
        while at != self.root {
            let place = nodes.place(at)?;
            path.splice(0..0, [b"/", &*place.name].concat());
            at = place.parent;
        }
        Some(path)
    }
}
