//! Stores sealed maps (in an attribute of the file, or spilled to files of their own) and saved states, and makes them durable.
//!
//! A file's attribute is made durable by fsync: on ext4, fdatasync does not save it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Advice, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno as Os;
use smrfs::error::{Errno, FsError, FsResult, SealedMap};
use smrfs::meta::{Durability, Kind, Maps, StoreRoom};
use smrfs::units::{HostJournal, NodeId};

use super::host::{self, get, open_at, remove, set, with_permissions};
use super::seal::{Owners, Sealer};
use super::walk::each_entry;
use super::{DirectoryStore, Home, check_name, io_error, os_error};
use crate::journal;
use crate::reserve::Use;

/// The attribute that holds a file's map.
const MAP: &[u8] = b"user.smrfs.map";

/// Reads and opens a file's map. Errors: it was not sealed for this volume and the file's owner.
fn map_of(sealer: &Sealer, fd: &OwnedFd) -> FsResult<Option<SealedMap>> {
    let stored = match with_permissions(fd, || get(fd, MAP)) {
        Err(Os::NODATA) => return Ok(None),
        stored => stored.map_err(os_error)?,
    };
    let stat = host::stat_fd(fd)?;
    sealer.open_map(stat.st_ino, stat.st_uid, stored).map(Some)
}

impl DirectoryStore {
    /// Makes a directory that was just copied durable: also the data of its files, which no commit of a journal writes.
    pub fn sync_copy(&self) -> FsResult {
        self.home.sync_all()
    }

    /// The mark for the next map of a file: that of its map, or a new one if it has no valid map.
    fn mark(&self, id: u64, fd: &OwnedFd) -> FsResult<u64> {
        // Usually cached, so that storing a map need not read the one before.
        let cached = self.nodes.lock().get(id).and_then(|node| node.mark);
        if let Some(mark) = cached {
            return Ok(mark);
        }
        match map_of(&self.home.sealer, fd) {
            Ok(Some(map)) => Ok(map.mark),
            Ok(None) | Err(FsError::Seal(_)) => host::random().map(u64::from_le_bytes),
            Err(error) => Err(error),
        }
    }

    fn cache_mark(&self, id: u64, mark: Option<u64>) {
        if let Some(node) = self.nodes.lock().get(id) {
            node.mark = mark;
        }
    }

    /// Changes the owner of a file. Meanwhile its map is sealed for both users, so that after a crash it is valid for whichever owns the file.
    pub(super) fn change_file_owner(&self, fd: &OwnedFd, uid: u32, gid: Option<u32>) -> FsResult {
        let _owners = self.owners.write();
        let old = host::stat_fd(fd)?.st_uid;
        let map = match map_of(&self.home.sealer, fd) {
            // An invalid map must not become valid by a new owner.
            Err(FsError::Seal(_)) => None,
            map => map?.filter(|_| old != uid),
        };
        let reseal = |owners| {
            let Some(map) = &map else { return Ok(()) };
            let sealed = self.home.sealer.seal_map(&map.record, owners, map.mark);
            with_permissions(fd, || set(fd, MAP, &sealed)).map_err(os_error)
        };
        reseal(Owners { now: uid, old })?;
        let changed = host::change_owner(fd, Some(uid), gid);
        reseal(Owners::only(if changed.is_ok() { uid } else { old }))?;
        changed
    }

    /// Makes an open node durable, with its attributes.
    pub(super) fn sync_open(&self, fd: &OwnedFd) -> FsResult {
        match rustix::fs::fsync(fd) {
            // A path descriptor (`O_PATH`) can't be synced, so the whole file system is.
            Err(Os::BADF) => self.sync_all(),
            done => done.map_err(os_error),
        }
    }
}

/// The folder and the name of a spilled part. There are 256 folders, so that none grows large.
fn spill_name(number: u64) -> (String, String) {
    (format!("{:02x}", number & 255), format!("{number:016x}"))
}

impl Home {
    fn spill_folder(&self, number: u64) -> FsResult<OwnedFd> {
        self.folder(&format!("maps/{}", spill_name(number).0))
    }

    fn try_to_spill(&self, number: u64, part: &[u8]) -> FsResult {
        let maps = self.folder("maps")?;
        let (folder_name, name) = spill_name(number);
        // If the host has run out of nodes, folders left by failed attempts would take the nodes that deletions free.
        let remove_empty_folders = |error| {
            let mut durable_folders = self.durable_folders.lock();
            for (folder, is_durable) in (0..).zip(durable_folders.iter_mut()) {
                let is_removed = rustix::fs::unlinkat(&maps, spill_name(folder).0, AtFlags::REMOVEDIR).is_ok();
                // A new folder's name has to be made durable again.
                *is_durable &= !is_removed;
            }
            os_error(error)
        };
        let folder = match self.spill_folder(number) {
            Err(FsError::Errno(Errno::ENOENT)) => {
                match rustix::fs::mkdirat(&maps, folder_name, Mode::RWXU) {
                    Ok(()) | Err(Os::EXIST) => {}
                    Err(error) => return Err(remove_empty_folders(error)),
                }
                self.spill_folder(number)?
            }
            folder => folder?,
        };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, &*name, flags, Mode::RUSR | Mode::WUSR).map_err(remove_empty_folders)?;
        let mut file = File::from(file);
        file.write_all(&self.sealer.seal_part(number, part)).map_err(|error| {
            let _ = rustix::fs::unlinkat(&folder, &*name, AtFlags::empty());
            io_error(error)
        })?;
        // Linux begins to write pages that are to be dropped, so that later syncs of several parts wait for all of them at once.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        Ok(())
    }

    fn try_to_store_state(&self, name: &str, bytes: &[u8]) -> FsResult {
        check_name(name.as_bytes())?;
        let folder = self.folder("state")?;
        let new = format!("{name}.new");
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&folder, &*new, flags, Mode::RUSR | Mode::WUSR).map_err(os_error)?;
        let store = || {
            self.bind(&file)?;
            let mut file = File::from(file);
            file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io_error)?;
            rustix::fs::renameat(&folder, &*new, &folder, name).map_err(os_error)
        };
        store().inspect_err(|_| {
            // An unfinished state must not take up room, which may be short.
            let _ = rustix::fs::unlinkat(&folder, &*new, AtFlags::empty());
        })?;
        rustix::fs::fsync(folder).map_err(os_error)
    }
}

impl Maps for DirectoryStore {
    fn load_map(&self, NodeId(id): NodeId) -> FsResult<Option<Vec<u8>>> {
        let _names = self.names.read();
        let _owners = self.owners.read();
        Ok(map_of(&self.home.sealer, &*self.fd(id)?)?.map(|map| map.record))
    }

    fn store_map(&self, NodeId(id): NodeId, map: &[u8]) -> FsResult {
        let _changing = self.changes.read();
        let _names = self.names.read();
        let _owners = self.owners.read();
        let fd = self.fd(id)?;
        let mark = self.mark(id, &fd)?;
        let map = self.home.sealer.seal_map(map, Owners::only(host::stat_fd(&fd)?.st_uid), mark);
        let store = || with_permissions(&fd, || set(&fd, MAP, &map));
        match self.home.reserve.with(map.len() as u64, Use::Accepted, store) {
            // The map is too long for an attribute, which is a lack of space, whatever the file system calls it.
            Err(Os::TOOBIG | Os::RANGE) => return Err(Errno::ENOSPC.into()),
            done => done.map_err(os_error)?,
        }
        self.cache_mark(id, Some(mark));
        Ok(())
    }

    fn forget_mark(&self, NodeId(id): NodeId) -> FsResult {
        let _changing = self.changes.read();
        let _names = self.names.read();
        let fd = self.fd(id)?;
        self.cache_mark(id, None);
        with_permissions(&fd, || remove(&fd, MAP)).map(drop).map_err(os_error)
    }

    fn map_bytes_max(&self) -> usize {
        self.home.map_bytes()
    }

    fn store_spill(&self, number: u64, part: &[u8]) -> FsResult {
        let _changing = self.changes.read();
        self.home.reserve.with(part.len() as u64, Use::Accepted, || self.home.try_to_spill(number, part))
    }

    fn load_spill(&self, number: u64) -> FsResult<Vec<u8>> {
        let mut file = open_regular(&self.home.spill_folder(number)?, &spill_name(number).1)?;
        let mut stored = Vec::new();
        file.read_to_end(&mut stored).map_err(io_error)?;
        self.home.sealer.open_part(number, &stored)
    }

    fn remove_spill(&self, number: u64) -> FsResult {
        let _changing = self.changes.read();
        let folder = self.home.spill_folder(number)?;
        rustix::fs::unlinkat(folder, spill_name(number).1, AtFlags::empty()).map_err(os_error)
    }

    fn spills(&self) -> FsResult<Vec<u64>> {
        let mut numbers = Vec::new();
        for folder in 0..256 {
            let folder = match self.home.spill_folder(folder) {
                Err(FsError::Errno(Errno::ENOENT)) => continue,
                folder => folder?,
            };
            each_entry(&folder, |entry| {
                let name = std::str::from_utf8(entry.file_name().to_bytes()).unwrap_or_default();
                numbers.extend(u64::from_str_radix(name, 16).ok().filter(|&number| spill_name(number).1 == name));
            })?;
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn load_state(&self, name: &str) -> FsResult<Option<Vec<u8>>> {
        check_name(name.as_bytes())?;
        let mut file = match self.home.folder("state").and_then(|folder| open_regular(&folder, name)) {
            Err(FsError::Errno(Errno::ENOENT)) => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io_error)?;
        Ok(self.home.is_bound(&file.into())?.then_some(bytes))
    }

    fn store_state(&self, name: &str, bytes: &[u8]) -> FsResult {
        let _changing = self.changes.read();
        self.home.reserve.with(bytes.len() as u64, Use::Accepted, || self.home.try_to_store_state(name, bytes))
    }

    fn remove_state(&self, name: &str) -> FsResult {
        let _changing = self.changes.read();
        check_name(name.as_bytes())?;
        let folder = self.home.folder("state")?;
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) => rustix::fs::fsync(folder).map_err(os_error),
            Err(Os::NOENT) => Ok(()),
            Err(error) => Err(os_error(error)),
        }
    }

    fn scan(&self, visit: &mut dyn FnMut(NodeId, Option<Vec<u8>>) -> FsResult) -> FsResult {
        self.inspect(&mut |id, map| visit(id, map?.map(|map| map.record)))
    }

    fn inspect(&self, visit: &mut dyn FnMut(NodeId, FsResult<Option<SealedMap>>) -> FsResult) -> FsResult {
        self.walk(&mut |directory, found| {
            let file = open_at(directory, &found.name, Kind::File)?;
            visit(NodeId(found.id), map_of(&self.home.sealer, &file))
        })
    }
}

impl Durability for DirectoryStore {
    fn journal(&self) -> Option<HostJournal> {
        self.journal
    }

    fn sync(&self, NodeId(id): NodeId) -> FsResult {
        // The lock is not held during the sync, which takes long, because then no name could be removed.
        let fd = {
            let _names = self.names.read();
            self.fd(id)?
        };
        self.sync_open(&fd)
    }

    fn sync_dir(&self, id: NodeId) -> FsResult {
        self.sync(id)
    }

    fn sync_spill(&self, number: u64) -> FsResult {
        let folder = self.home.spill_folder(number)?;
        let part = open_regular(&folder, &spill_name(number).1)?;
        let device = rustix::fs::fstat(&part).map_err(os_error)?.st_dev;
        // `maps` may be a mount of another file system, which the journal's commits don't cover.
        if self.journal == Some(HostJournal(device)) {
            // Commits are in order, so the one that makes the record durable has the name and the blocks of the part in it or before it, and
            // flushes what was written back. Syncs of part and folder would each be a commit of their own.
            return journal::write_back(&part).map_err(io_error);
        }
        part.sync_all().map_err(io_error)?;
        rustix::fs::fsync(folder).map_err(os_error)?;
        // The folder's own name is made durable once for each mount: the thread that created it, or a process that crashed, may not have done so.
        let mut durable_folders = self.home.durable_folders.lock();
        let is_durable = &mut durable_folders[(number & 255) as usize];
        if !*is_durable {
            rustix::fs::fsync(self.home.folder("maps")?).map_err(os_error)?;
            *is_durable = true;
        }
        Ok(())
    }

    fn sync_all(&self) -> FsResult {
        match self.journal {
            Some(_) => self.home.commit_journal(),
            None => self.home.sync_all(),
        }
    }

    fn frozen(&self, during: &mut dyn FnMut()) {
        let _changes = self.changes.write();
        during();
    }

    fn wait_for_thaw(&self) {
        drop(self.changes.read());
    }

    fn room(&self) -> FsResult<StoreRoom> {
        self.home.room()
    }

    fn reserve(&self, bytes: u64) -> FsResult {
        self.home.reserve.keep(bytes).map_err(io_error)
    }
}

/// Opens a regular file for reading. Anything else with its name is damage, so a pipe is not waited for, and a link is not followed.
fn open_regular(folder: &OwnedFd, name: &str) -> FsResult<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let is_regular = |file: &OwnedFd| {
        rustix::fs::fstat(file).map(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    };
    match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) if is_regular(&file).map_err(os_error)? => Ok(File::from(file)),
        // Another kind of node: LOOP for a link, NXIO for a socket or a device without a driver.
        Ok(_) | Err(Os::LOOP | Os::NXIO) => {
            Err(FsError::Corrupt(format!("{name} in the metadata directory is no regular file: remove it")))
        }
        Err(error) => Err(os_error(error)),
    }
}
