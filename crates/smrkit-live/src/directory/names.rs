//! Names: making, finding, moving and taking them away.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags, SeekFrom, Stat};
use smrfs::error::{Errno, FsResult};
use smrfs::meta::{Attr, DEFAULT_ACCESS_LIST, Entry, Kind, Names, NewNode, RenameMode, SetAttr, SetTime};
use smrfs::units::NodeId;

use super::nodes::{Hold, NodeName};
use super::walk::{LIST_BYTES, is_dots, reopened};
use super::{DirectoryStore, attributes, checked, failed, open_at, stat, way};

impl DirectoryStore {
    /// Notes that an answer about a node goes out.
    fn answer(&self, found: &Stat, parent: u64, name: &[u8]) -> FsResult<Attr> {
        let was_orphan = self.nodes.lock().answered(found.st_ino, stat::kind(found), parent, name);
        self.number(found.st_ino, parent, name)?;
        if was_orphan {
            self.drop_orphan(found.st_ino)?;
            return Ok(self.told(&stat::at(&*self.fd(parent)?, name)?));
        }
        Ok(self.told(found))
    }

    /// Sees to it that the generation of a node is known. The root's stays 0, as the kernel wants it.
    fn number(&self, id: u64, parent: u64, name: &[u8]) -> FsResult {
        if self.nodes.lock().get(id).is_none_or(|node| node.generation.is_some()) {
            return Ok(());
        }
        let generation = stat::generation(&*self.fd(parent)?, name)?;
        if let Some(node) = self.nodes.lock().get(id) {
            node.generation = Some(generation);
        }
        Ok(())
    }

    /// The caller holds the lock of names.
    fn find_named(&self, id: u64) -> FsResult<Attr> {
        let found = stat::for_fd(&*self.fd(id)?)?;
        if id == self.root {
            return Ok(self.told(&found));
        }
        let place = self.nodes.lock().place(id).filter(|place| place.parent != self.orphans);
        let place = place.ok_or(Errno::ENOENT)?;
        self.answer(&found, place.parent, &place.name)
    }

    fn drop_orphan(&self, id: u64) -> FsResult {
        let orphans = self.fd(self.orphans)?;
        rustix::fs::unlinkat(&orphans, id.to_string(), AtFlags::empty()).map_err(failed)
    }

    /// A new node is there: notes its descriptor, and answers.
    fn enter(&self, fd: OwnedFd, parent: u64, name: &[u8]) -> FsResult<Attr> {
        let now = DirectoryStore::clock();
        // The kernel's clock is behind: the node would be older than what was written before it.
        let new = SetAttr { mtime: Some(SetTime::To(now)), ..SetAttr::default() };
        stat::change_times(&fd, &new, now)?;
        // Setting the mtime has changed the ctime: as it is told now, it must be found when the kernel asks again.
        let made = rustix::fs::fstat(&fd).map_err(failed)?;
        let (id, kind) = (made.st_ino, stat::kind(&made));
        let generation = stat::generation_of(&fd)?;
        {
            let mut nodes = self.nodes.lock();
            nodes.answered(id, kind, parent, name);
            nodes.keep(id, kind, &Arc::new(fd));
            if let Some(node) = nodes.get(id) {
                node.generation = Some(generation);
            }
        }
        Ok(self.told(&made))
    }

    /// Gives a new node its owners and all of its permission bits.
    fn give_to(&self, directory: &OwnedFd, fd: &OwnedFd, new: &NewNode) -> FsResult {
        let mut made = rustix::fs::fstat(fd).map_err(failed)?;
        // A directory with the set-group-id bit has given its group, and to a directory that bit as well.
        let is_inherited = (made.st_gid != new.gid || new.kind == Kind::Directory)
            && rustix::fs::fstat(directory).map_err(failed)?.st_mode & 0o2000 != 0;
        let uid = (made.st_uid != new.uid).then_some(new.uid);
        let gid = (made.st_gid != new.gid && !is_inherited).then_some(new.gid);
        if uid.is_some() || gid.is_some() {
            stat::change_owner(fd, uid, gid)?;
            made = rustix::fs::fstat(fd).map_err(failed)?;
        }
        let inherited = if is_inherited && new.kind == Kind::Directory { 0o2000 } else { 0 };
        let mut mode = (new.mode & 0o7777) | inherited;
        if made.st_mode & 0o7777 != mode && attributes::get(directory, DEFAULT_ACCESS_LIST).is_ok() {
            // What a default access list takes away stays away.
            mode &= 0o7000 | made.st_mode;
        }
        if made.st_mode & 0o7777 != mode {
            stat::change_mode(fd, new.kind, mode)?;
        }
        Ok(())
    }

    pub(super) fn remove_name(&self, parent: u64, name: &[u8], is_directory: bool) -> FsResult {
        let _changing = self.changes.read();
        checked(name)?;
        let _names = self.names.write();
        let directory = self.fd(parent)?;
        let found = stat::at(&directory, name)?;
        match (is_directory, stat::kind(&found) == Kind::Directory) {
            (true, false) => return Err(Errno::ENOTDIR.into()),
            (false, true) => return Err(Errno::EISDIR.into()),
            _ => {}
        }
        let orphan = self.hold(&directory, &found, parent, name)?;
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        if let Err(error) = rustix::fs::unlinkat(&directory, name, flags) {
            if orphan.is_some() {
                self.drop_orphan(found.st_ino)?;
            }
            return Err(failed(error));
        }
        self.nodes.lock().lost(found.st_ino, parent, name, orphan);
        Ok(())
    }

    /// Sees to it that a node can still be used when that name of it is gone. Tells the name that it got for that.
    fn hold(&self, directory: &OwnedFd, found: &Stat, parent: u64, name: &[u8]) -> FsResult<Option<NodeName>> {
        let (id, kind) = (found.st_ino, stat::kind(found));
        let hold = self.nodes.lock().hold(id, parent, name);
        match hold {
            Hold::No | Hold::Open => Ok(None),
            Hold::Need => {
                let fd = Arc::new(open_at(directory, name, kind)?);
                self.nodes.lock().keep(id, kind, &fd);
                Ok(None)
            }
            Hold::Rename => {
                let orphans = self.fd(self.orphans)?;
                let own = id.to_string();
                rustix::fs::linkat(directory, name, &orphans, &own, AtFlags::empty()).map_err(failed)?;
                Ok(Some(NodeName::new(self.orphans, own.as_bytes())))
            }
        }
    }

    fn note_move(
        &self,
        (moving, from): (&Stat, (u64, &[u8])),
        (there, to): (Option<&Stat>, (u64, &[u8])),
        mode: RenameMode,
        orphan: Option<NodeName>,
    ) {
        if there.is_some_and(|there| there.st_ino == moving.st_ino) {
            return;
        }
        let mut nodes = self.nodes.lock();
        match (mode, there) {
            (RenameMode::Replace, Some(there)) => nodes.lost(there.st_ino, to.0, to.1, orphan),
            (RenameMode::Exchange, Some(there)) => nodes.moved(there.st_ino, to, from),
            _ => {}
        }
        nodes.moved(moving.st_ino, from, to);
    }
}

impl Names for DirectoryStore {
    fn root(&self) -> NodeId {
        NodeId(self.root)
    }

    fn lookup(&self, NodeId(parent): NodeId, name: &[u8]) -> FsResult<Attr> {
        checked(name)?;
        let _names = self.names.read();
        let directory = self.fd(parent)?;
        let found = stat::at(&directory, name)?;
        if found.st_dev != self.device {
            return Err(Errno::EXDEV.into());
        }
        self.answer(&found, parent, name)
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
            // It goes at the next mount if it can't go now.
            let _ = self.drop_orphan(id);
        }
    }

    fn make(&self, NodeId(parent): NodeId, name: &[u8], new: &NewNode) -> FsResult<Attr> {
        let _changing = self.changes.read();
        checked(name)?;
        let _names = self.names.read();
        let directory = self.fd(parent)?;
        let mode = Mode::from_raw_mode(new.mode & 0o7777);
        let fd = match new.kind {
            Kind::File => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                rustix::fs::openat(&directory, name, flags, mode).map_err(failed)?
            }
            Kind::Directory => {
                rustix::fs::mkdirat(&directory, name, mode).map_err(failed)?;
                open_at(&directory, name, Kind::Directory)?
            }
            Kind::Link => return Err(Errno::EINVAL.into()),
            kind => {
                let device = u64::from(new.rdev);
                rustix::fs::mknodat(&directory, name, stat::type_of(kind), mode, device).map_err(failed)?;
                open_at(&directory, name, kind)?
            }
        };
        if let Err(error) = self.give_to(&directory, &fd, new) {
            let flags = if new.kind == Kind::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            let _ = rustix::fs::unlinkat(&directory, name, flags);
            return Err(error);
        }
        self.enter(fd, parent, name)
    }

    fn make_link(&self, NodeId(parent): NodeId, name: &[u8], target: &[u8], uid: u32, gid: u32) -> FsResult<Attr> {
        let _changing = self.changes.read();
        checked(name)?;
        let _names = self.names.read();
        let directory = self.fd(parent)?;
        rustix::fs::symlinkat(target, &directory, name).map_err(failed)?;
        let owned = || -> FsResult<OwnedFd> {
            let fd = open_at(&directory, name, Kind::Link)?;
            let made = rustix::fs::fstat(&fd).map_err(failed)?;
            let new = NewNode { kind: Kind::Link, mode: made.st_mode & 0o7777, uid, gid, rdev: 0 };
            self.give_to(&directory, &fd, &new)?;
            Ok(fd)
        };
        match owned() {
            Ok(fd) => self.enter(fd, parent, name),
            Err(error) => {
                let _ = rustix::fs::unlinkat(&directory, name, AtFlags::empty());
                Err(error)
            }
        }
    }

    fn read_link(&self, id: NodeId) -> FsResult<Vec<u8>> {
        let _names = self.names.read();
        let fd = self.fd(id.0)?;
        match rustix::fs::readlinkat(&fd, c"", Vec::new()) {
            Ok(target) => Ok(target.into_bytes()),
            // What is no link has no target; the kernel says so in another way for an empty path.
            Err(rustix::io::Errno::NOENT) => Err(Errno::EINVAL.into()),
            Err(error) => Err(failed(error)),
        }
    }

    fn link(&self, NodeId(id): NodeId, NodeId(parent): NodeId, name: &[u8]) -> FsResult<Attr> {
        let _changing = self.changes.read();
        checked(name)?;
        let _names = self.names.read();
        let to = self.fd(parent)?;
        let place = self.nodes.lock().place(id);
        match place {
            Some(place) => {
                let from = self.fd(place.parent)?;
                rustix::fs::linkat(&from, &*place.name, &to, name, AtFlags::empty()).map_err(failed)?;
            }
            None => {
                let path = way::path_of(&*self.fd(id)?);
                rustix::fs::linkat(rustix::fs::CWD, path, &to, name, AtFlags::SYMLINK_FOLLOW).map_err(failed)?;
            }
        }
        let found = stat::at(&to, name)?;
        if found.st_ino != id {
            let _ = rustix::fs::unlinkat(&to, name, AtFlags::empty());
            return Err(Errno::ENOENT.into());
        }
        self.answer(&found, parent, name)
    }

    fn unlink(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.remove_name(parent.0, name, false)
    }

    fn remove_dir(&self, parent: NodeId, name: &[u8]) -> FsResult {
        self.remove_name(parent.0, name, true)
    }

    fn rename(&self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), mode: RenameMode) -> FsResult {
        let _changing = self.changes.read();
        let (from, to) = ((from.0.0, from.1), (to.0.0, to.1));
        checked(from.1)?;
        checked(to.1)?;
        let _names = self.names.write();
        let (source, target) = (self.fd(from.0)?, self.fd(to.0)?);
        let moving = stat::at(&source, from.1)?;
        let there = match stat::at(&target, to.1) {
            Ok(there) => Some(there),
            Err(error) if error.errno() == Errno::ENOENT => None,
            Err(error) => return Err(error),
        };
        let (flags, replaced) = match mode {
            RenameMode::Replace => (RenameFlags::empty(), there),
            RenameMode::NoReplace => (RenameFlags::NOREPLACE, None),
            RenameMode::Exchange => (RenameFlags::EXCHANGE, None),
        };
        // Two names of one file: the kernel leaves both.
        let replaced = replaced.filter(|there| there.st_ino != moving.st_ino);
        let orphan = replaced.map_or(Ok(None), |there| self.hold(&target, &there, to.0, to.1))?;
        if let Err(error) = rustix::fs::renameat_with(&source, from.1, &target, to.1, flags) {
            if let (Some(_), Some(there)) = (&orphan, replaced) {
                self.drop_orphan(there.st_ino)?;
            }
            // xfs says so of a directory that is not empty.
            let is_full = mode == RenameMode::Replace && error == rustix::io::Errno::EXIST;
            return Err(if is_full { Errno::ENOTEMPTY.into() } else { failed(error) });
        }
        self.note_move((&moving, from), (there.as_ref(), to), mode, orphan);
        Ok(())
    }

    fn list(&self, NodeId(id): NodeId, from: u64) -> FsResult<Vec<Entry>> {
        let directory = {
            let _names = self.names.read();
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
