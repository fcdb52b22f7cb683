//! A bare mirror of a directory over FUSE: what a mount is measured against (`scripts/bench-mount`).
//!
//! It has the options of the real mount (caching, request size, threads) and does nothing but pass requests on by
//! descriptor. Left out is what the measurements don't need: renames, modes, links, devices, extended attributes.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::*;
use rustix::fs::{self as sys, AtFlags, Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use smrkit_live::answer;

const KEPT: Duration = Duration::from_secs(24 * 3600);

/// An inode that the kernel knows: where it is, and how often it was told of it.
struct Node {
    at: Arc<OwnedFd>,
    lookups: u64,
}

struct Mirror {
    root: u64,
    nodes: Mutex<HashMap<u64, Node>>,
    files: Mutex<HashMap<u64, Arc<File>>>,
    next: AtomicU64,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

fn io_errno(error: io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(0))
}

impl Mirror {
    fn open(directory: &OsStr) -> io::Result<Mirror> {
        let at = sys::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let root = sys::fstat(&at)?.st_ino;
        let nodes = HashMap::from([(root, Node { at: Arc::new(at), lookups: 1 })]);
        Ok(Mirror { root, nodes: Mutex::new(nodes), files: Mutex::default(), next: AtomicU64::new(1) })
    }

    fn number(&self, ino: INodeNo) -> u64 {
        if ino == INodeNo::ROOT { self.root } else { ino.0 }
    }

    fn node(&self, ino: INodeNo) -> Result<Arc<OwnedFd>, Errno> {
        lock(&self.nodes).get(&self.number(ino)).map(|node| node.at.clone()).ok_or(Errno::ENOENT)
    }

    fn file(&self, fh: FileHandle) -> Result<Arc<File>, Errno> {
        lock(&self.files).get(&fh.0).cloned().ok_or(Errno::EBADF)
    }

    fn keep(&self, file: OwnedFd) -> FileHandle {
        let fh = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.files).insert(fh, Arc::new(File::from(file)));
        FileHandle(fh)
    }

    fn attributes(&self, at: &OwnedFd) -> Result<FileAttr, Errno> {
        let stat = sys::statat(at, "", AtFlags::EMPTY_PATH).map_err(errno)?;
        let time = |seconds: i64, nanoseconds: u64| {
            SystemTime::UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanoseconds as u32)
        };
        Ok(FileAttr {
            ino: INodeNo(if stat.st_ino == self.root { 1 } else { stat.st_ino }),
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            atime: time(stat.st_atime, stat.st_atime_nsec),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            crtime: SystemTime::UNIX_EPOCH,
            kind: match sys::FileType::from_raw_mode(stat.st_mode) {
                sys::FileType::Directory => FileType::Directory,
                _ => FileType::RegularFile,
            },
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: stat.st_nlink as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let parent = self.node(parent)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let at = sys::openat(&parent, name, flags, Mode::empty()).map_err(errno)?;
        let attr = self.attributes(&at)?;
        let mut nodes = lock(&self.nodes);
        nodes.entry(self.number(attr.ino)).or_insert(Node { at: Arc::new(at), lookups: 0 }).lookups += 1;
        Ok(attr)
    }

    fn reopen(&self, ino: INodeNo, flags: OFlags) -> Result<OwnedFd, Errno> {
        let at = self.node(ino)?;
        sys::open(format!("/proc/self/fd/{}", at.as_raw_fd()), flags | OFlags::CLOEXEC, Mode::empty()).map_err(errno)
    }

    /// Gives the entries from `place` on to `add`, until it says that there is no more room.
    fn list(
        &self,
        fh: FileHandle,
        place: u64,
        mut add: impl FnMut(&OsStr, sys::FileType, u64) -> Result<bool, Errno>,
    ) -> Result<(), Errno> {
        let directory = self.file(fh)?;
        sys::seek(&directory, sys::SeekFrom::Start(place)).map_err(errno)?;
        let mut room = Vec::with_capacity(32 << 10);
        let mut entries = sys::RawDir::new(directory.as_fd(), room.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(errno)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if add(name, entry.file_type(), entry.next_entry_cookie())? {
                break;
            }
        }
        Ok(())
    }

    fn made(&self, parent: INodeNo, name: &OsStr, done: rustix::io::Result<()>) -> Result<FileAttr, Errno> {
        done.map_err(errno)?;
        self.find(parent, name)
    }
}

fn answer_entry(reply: ReplyEntry, attr: Result<FileAttr, Errno>) {
    answer!(reply, attr, attr => reply.entry(&KEPT, &attr, Generation(0)));
}

fn answer_empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    answer!(reply, done, () => reply.ok());
}

impl Filesystem for Mirror {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        smrkit_live::fuse::negotiate(config);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name) {
            Err(error) if error.code() == Errno::ENOENT.code() => {
                let nothing = self.node(INodeNo::ROOT).and_then(|root| self.attributes(&root));
                answer_entry(reply, nothing.map(|root| FileAttr { ino: INodeNo(0), ..root }));
            }
            found => answer_entry(reply, found),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        let mut nodes = lock(&self.nodes);
        let number = self.number(ino);
        if let Some(node) = nodes.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(nlookup);
            if node.lookups == 0 && number != self.root {
                nodes.remove(&number);
            }
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.node(ino).and_then(|at| self.attributes(&at)), attr => reply.attr(&KEPT, &attr));
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = || {
            if let Some(size) = size {
                sys::ftruncate(self.reopen(ino, OFlags::WRONLY)?, size).map_err(errno)?;
            }
            self.attributes(&*self.node(ino)?)
        };
        answer!(reply, changed(), attr => reply.attr(&KEPT, &attr));
    }

    fn mkdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let made = self
            .node(parent)
            .and_then(|at| self.made(parent, name, sys::mkdirat(&at, name, Mode::from_raw_mode(mode & 0o7777))));
        answer_entry(reply, made);
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.node(parent).and_then(|at| sys::unlinkat(&at, name, AtFlags::empty()).map_err(errno));
        answer_empty(reply, done);
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.node(parent).and_then(|at| sys::unlinkat(&at, name, AtFlags::REMOVEDIR).map_err(errno));
        answer_empty(reply, done);
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let access = OFlags::from_bits_retain(flags.0 as u32) & OFlags::ACCMODE;
        answer!(reply, self.reopen(ino, access), file => reply.opened(self.keep(file), FopenFlags::FOPEN_KEEP_CACHE));
    }

    fn create(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let made = || {
            let at = self.node(parent)?;
            let access = OFlags::from_bits_retain(flags as u32) & OFlags::ACCMODE;
            let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = sys::openat(&at, name, flags, Mode::from_raw_mode(mode & 0o7777)).map_err(errno)?;
            Ok((self.find(parent, name)?, self.keep(file)))
        };
        answer!(reply, made(), (attr, fh) => reply.created(&KEPT, &attr, Generation(0), fh, FopenFlags::FOPEN_KEEP_CACHE));
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut room = vec![0; size as usize];
        let done = self.file(fh).and_then(|file| file.read_at(&mut room, offset).map_err(io_errno));
        answer!(reply, done, count => reply.data(&room[..count]));
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let done = self.file(fh).and_then(|file| file.write_all_at(data, offset).map_err(io_errno));
        answer!(reply, done, () => reply.written(data.len() as u32));
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        lock(&self.files).remove(&fh.0);
        reply.ok();
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        answer_empty(reply, self.file(fh).and_then(|file| file.sync_all().map_err(io_errno)));
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let done = self.reopen(ino, OFlags::RDONLY | OFlags::DIRECTORY);
        answer!(reply, done, directory => reply.opened(self.keep(directory), FopenFlags::empty()));
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = self.list(fh, offset, |name, entry, place| {
            let kind = match entry {
                sys::FileType::Directory => FileType::Directory,
                _ => FileType::RegularFile,
            };
            Ok(reply.add(ino, place, kind, name))
        });
        answer!(reply, listed, () => reply.ok());
    }

    fn readdirplus(&self, _req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let listed = self.list(fh, offset, |name, _, place| {
            let dot = name == "." || name == "..";
            let attr = if dot { self.attributes(&*self.node(ino)?) } else { self.find(ino, name) }?;
            let full = reply.add(attr.ino, place, name, &KEPT, &attr, Generation(0));
            if full && !dot {
                let mut nodes = lock(&self.nodes);
                nodes.entry(self.number(attr.ino)).and_modify(|node| node.lookups -= 1);
            }
            Ok(full)
        });
        answer!(reply, listed, () => reply.ok());
    }

    fn releasedir(&self, _req: &Request, _ino: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        lock(&self.files).remove(&fh.0);
        reply.ok();
    }
}

/// A descriptor for each inode that the kernel knows: as many as may be.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn main() -> io::Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [directory, mount_point] = arguments.as_slice() else {
        return Err(io::Error::other("usage: mirror DIRECTORY MOUNTPOINT"));
    };
    raise_limit();
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("mirror".into()), MountOption::DefaultPermissions];
    config.acl = SessionACL::All;
    config.n_threads = Some(std::thread::available_parallelism().map_or(1, usize::from) + 16);
    config.clone_fd = true;
    fuser::mount(Mirror::open(directory)?, mount_point, &config)
}
