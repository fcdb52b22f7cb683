//! Handles the kernel's requests, with a method for each: translates it, calls the core through the gate, and replies.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use std::{io, thread};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, Notifier, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::XattrFlags;
use rustix::param::page_size;
use smrfs::data::{Data, ReadBuffer};
use smrfs::error::{self, FsError, FsResult};
use smrfs::fs::{FileSystem, Seek};
use smrfs::meta::{ACCESS_LIST, Attr, DEFAULT_ACCESS_LIST, Entry, Kind, NewNode, SetAttr};
use smrfs::units::{GRANULE_BYTES, NodeId};

use super::Gate;
use super::convert::{self, CACHE_TIME, Numbers};

thread_local! {
    /// Buffer of reads: one for each thread, as long as its longest read so far.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A mounted file system, as the kernel sees it.
pub struct Adapter {
    gate: Arc<Gate>,
    numbers: Numbers,
    /// True if the kernel needs no request to open a directory (since Linux 5.1).
    kernel_opens_directories: bool,
    /// Notifies the kernel of changes that it did not ask for; set once there is a session.
    notifier: Arc<OnceLock<Notifier>>,
    /// Names that the kernel is to forget, for a thread that starts with the first.
    stale_names: OnceLock<Sender<(INodeNo, OsString)>>,
}

impl Adapter {
    /// The kernel's view of the core behind `gate`, whose root is `root`.
    pub fn new(gate: Arc<Gate>, root: NodeId) -> Adapter {
        let numbers = Numbers::new(root);
        let (notifier, stale_names) = (Arc::default(), OnceLock::new());
        Adapter { gate, numbers, kernel_opens_directories: false, notifier, stale_names }
    }

    /// Receiver of the session's notifier.
    pub fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        self.notifier.clone()
    }

    fn ask<T>(&self, what: &str, work: impl FnOnce(&FileSystem) -> FsResult<T>) -> Result<T, Errno> {
        self.gate.requests.fetch_add(1, Ordering::Relaxed);
        self.gate.ask(what, work).map_err(|error| convert::errno(&error))
    }

    /// Does `work`, which may make a file longer, and replies once the kernel's page at the old end is cleared.
    fn grow_file<T: Send + 'static>(
        &self,
        what: &str,
        ino: INodeNo,
        work: impl FnOnce(&FileSystem) -> FsResult<T>,
        answer: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let id = self.numbers.node(ino);
        let grown = self.ask(what, |core| {
            // A program may have written behind the end of a mapped file. In the page at the old end that would become data, so the bytes up
            // to the new end are cleared there.
            let may_be_mapped = core.is_open_for_writing(id)?;
            let size = || if may_be_mapped { core.attributes(id).map(|attr| attr.size) } else { Ok(0) };
            let before = size()?;
            let done = work(core)?;
            let page_end = before.next_multiple_of(page_size() as u64);
            Ok((done, before..size()?.min(page_end)))
        });
        match grown {
            Ok((done, range)) if !range.is_empty() => {
                let zeros = vec![0; (range.end - range.start) as usize];
                self.notify(move |notifier| {
                    // A kernel that does not know the node has no page of it.
                    let _ = notifier.map(|notifier| notifier.store(ino, range.start, &zeros));
                    answer(Ok(done));
                });
            }
            grown => answer(grown.map(|(done, _)| done)),
        }
    }

    /// Calls `work`, which notifies the kernel and replies, in a thread of its own: before the kernel takes notice it may ask the session's
    /// threads for something, which must not wait. If no thread can be started, the reply is dropped, which is an EIO.
    fn notify(&self, work: impl FnOnce(Option<&Notifier>) + Send + 'static) {
        let Some(notifier) = self.notifier.get().cloned() else { return work(None) };
        drop(thread::Builder::new().name("notices".into()).spawn(move || work(Some(&notifier))));
    }

    /// Does `work`, which changes these names in directories, and replies. After an EIO the change may have been made
    /// ([`Names`](smrfs::meta::Names)). The kernel does not expect that, so it is told to forget what it knows of the names and directories.
    /// After other errors it must not be, because it detaches what is mounted below a name that it forgets.
    fn change_names<T>(
        &self,
        what: &str,
        names: &[(INodeNo, &OsStr)],
        work: impl FnOnce(&FileSystem) -> FsResult<T>,
        answer: impl FnOnce(Result<T, Errno>),
    ) {
        let done = self.ask(what, work);
        let may_have_changed = done.as_ref().is_err_and(|error| error.code() == Errno::EIO.code());
        if may_have_changed && let Some(notifier) = self.notifier.get() {
            // The pages of a directory are the kernel's listing of it. It holds the directory's lock until it has the reply, so nobody uses
            // these pages, and this does not wait.
            for &(parent, _) in names {
                let _ = notifier.inval_inode(parent, 0, 0);
            }
        }
        answer(done);
        if may_have_changed {
            let stale_names = self.stale_names.get_or_init(|| forget_names(self.notifier.clone()));
            for &(parent, name) in names {
                // Without the thread, the kernel knows the name as it was until it forgets it by itself.
                let _ = stale_names.send((parent, name.into()));
            }
        }
    }

    /// Clears set-id bits, as a change of contents by an ordinary user does.
    fn clear_set_id(&self, core: &FileSystem, req: &Request, ino: INodeNo) -> FsResult {
        let id = self.numbers.node(ino);
        let attr = core.attributes(id)?;
        let mode = convert::without_set_id(&attr, || is_in_group(req, attr.gid));
        if mode.is_some() {
            core.set_attributes(id, &SetAttr { mode, ..SetAttr::default() })?;
            // The kernel does not know that the mode has changed.
            self.forget_attributes(ino);
        }
        Ok(())
    }

    /// Makes the kernel forget the attributes of a node. Cached data stays, so this never waits for another request.
    fn forget_attributes(&self, ino: INodeNo) {
        // A kernel that does not know the node has nothing to forget.
        let _ = self.notifier.get().map(|notifier| notifier.inval_inode(ino, -1, 0));
    }

    /// Does `work`, which gives a node that name, and replies with the node.
    fn reply_entry(
        &self,
        what: &str,
        name: (INodeNo, &OsStr),
        reply: ReplyEntry,
        work: impl FnOnce(&FileSystem) -> FsResult<Attr>,
    ) {
        let numbers = self.numbers;
        self.change_names(what, &[name], work, move |done| {
            answer!(reply, done, attr => reply.entry(&CACHE_TIME, &numbers.attributes(&attr), convert::generation(&attr)));
        });
    }

    fn reply_attr(&self, what: &str, reply: ReplyAttr, work: impl FnOnce(&FileSystem) -> FsResult<Attr>) {
        self.numbers.reply_attr(reply, self.ask(what, work));
    }

    fn reply_empty(&self, what: &str, reply: ReplyEmpty, work: impl FnOnce(&FileSystem) -> FsResult) {
        convert::reply_empty(reply, self.ask(what, work));
    }
}

fn new_node(req: &Request, kind: Kind, mode: u32, rdev: u32) -> NewNode {
    NewNode { kind, mode: mode & 0o7777, uid: req.uid(), gid: req.gid(), rdev }
}

/// Starts a thread that makes the kernel forget the names that it is sent. The kernel locks their directories for that, so it waits for requests
/// there, which may need every thread of the session.
fn forget_names(notifier: Arc<OnceLock<Notifier>>) -> Sender<(INodeNo, OsString)> {
    let (sender, names) = mpsc::channel::<(INodeNo, OsString)>();
    let forget = move || {
        for (parent, name) in names {
            let _ = notifier.get().map(|notifier| notifier.inval_entry(parent, &name));
        }
    };
    drop(thread::Builder::new().name("stale names".into()).spawn(forget));
    sender
}

fn is_for_writing(flags: OpenFlags) -> bool {
    flags.acc_mode() != OpenAccMode::O_RDONLY
}

impl fuser::Filesystem for Adapter {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(config);
        self.kernel_opens_directories = config.capabilities().contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        Ok(())
    }

    /// The kernel looks up `.` and `..` if a file handle leads it to a node that it has forgotten.
    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let parent = self.numbers.node(parent);
        let found = self.ask("lookup", |core| match name.as_bytes() {
            b"." => core.find(parent),
            b".." => core.parent(parent),
            name => core.lookup(parent, name),
        });
        match found {
            Ok(attr) => reply.entry(&CACHE_TIME, &self.numbers.attributes(&attr), convert::generation(&attr)),
            Err(error) if error.code() == Errno::ENOENT.code() => {
                reply.entry(&CACHE_TIME, &self.numbers.nothing(), Generation(0));
            }
            Err(error) => reply.error(error),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        let id = self.numbers.node(ino);
        // Nobody waits for an answer.
        let _ = self.ask("forget", |core| {
            core.forget(id, nlookup);
            Ok(())
        });
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attr("getattr", reply, |core| core.attributes(self.numbers.node(ino)));
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let id = self.numbers.node(ino);
        let (atime, mtime) = (atime.map(convert::time_to_set), mtime.map(convert::time_to_set));
        let ctime = ctime.map(convert::sent_time);
        let set = SetAttr { mode: mode.map(|mode| mode & 0o7777), uid, gid, size, atime, mtime, ctime };
        let change = |core: &FileSystem| core.set_attributes(id, &with_set_id_cleared(core, req, id, set)?);
        if size.is_none() {
            return self.reply_attr("setattr", reply, change);
        }
        let numbers = self.numbers;
        self.grow_file("setattr", ino, change, move |changed| numbers.reply_attr(reply, changed));
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        let done = self.ask("readlink", |core| core.read_link(self.numbers.node(ino)));
        answer!(reply, done, target => reply.data(&target));
    }

    fn mknod(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, rdev: u32, reply: ReplyEntry) {
        let Some(kind) = convert::kind_of_mode(mode) else { return reply.error(Errno::EINVAL) };
        let new = new_node(req, kind, mode, rdev);
        self.reply_entry("mknod", (parent, name), reply, |core| {
            make(core, self.numbers.node(parent), name, &new, umask)
        });
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let new = new_node(req, Kind::Directory, mode, 0);
        self.reply_entry("mkdir", (parent, name), reply, |core| {
            make(core, self.numbers.node(parent), name, &new, umask)
        });
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let work = |core: &FileSystem| core.unlink(self.numbers.node(parent), name.as_bytes());
        self.change_names("unlink", &[(parent, name)], work, |done| convert::reply_empty(reply, done));
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let work = |core: &FileSystem| core.remove_dir(self.numbers.node(parent), name.as_bytes());
        self.change_names("rmdir", &[(parent, name)], work, |done| convert::reply_empty(reply, done));
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (id, target) = (self.numbers.node(parent), target.as_os_str().as_bytes());
        self.reply_entry("symlink", (parent, name), reply, |core| {
            core.make_link(id, name.as_bytes(), target, req.uid(), req.gid())
        });
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let Some(mode) = convert::rename_mode(flags) else { return reply.error(Errno::EINVAL) };
        let from = (self.numbers.node(parent), name.as_bytes());
        let to = (self.numbers.node(newparent), newname.as_bytes());
        let work = |core: &FileSystem| core.rename(from, to, mode);
        self.change_names("rename", &[(parent, name), (newparent, newname)], work, |done| {
            convert::reply_empty(reply, done)
        });
    }

    fn link(&self, _req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let (id, parent) = (self.numbers.node(ino), self.numbers.node(newparent));
        self.reply_entry("link", (newparent, newname), reply, |core| {
            core.link(id, parent, newname.as_bytes()).inspect_err(|_| self.forget_attributes(ino))
        });
    }

    /// Files are always opened with the kernel's cache, because opens with and without it don't see each other's writes.
    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let done = self.ask("open", |core| core.open(self.numbers.node(ino), is_for_writing(flags), false));
        answer!(reply, done, () => reply.opened(convert::handle(flags), FopenFlags::FOPEN_KEEP_CACHE));
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let new = new_node(req, Kind::File, mode, 0);
        let work = |core: &FileSystem| {
            let attr = make(core, self.numbers.node(parent), name, &new, umask)?;
            let opened = core.open(attr.id, is_for_writing(OpenFlags(flags)), false);
            opened.inspect_err(|_| core.forget(attr.id, 1)).map_err(FsError::after_change)?;
            Ok(attr)
        };
        let numbers = self.numbers;
        self.change_names("create", &[(parent, name)], work, move |made| {
            answer!(reply, made, attr => {
                let (generation, handle) = (convert::generation(&attr), convert::handle(OpenFlags(flags)));
                reply.created(&CACHE_TIME, &numbers.attributes(&attr), generation, handle, FopenFlags::FOPEN_KEEP_CACHE);
            });
        });
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        READ_BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let room = &mut buffer[..size];
            let done = self.ask("read", |core| core.read(self.numbers.node(ino), offset, ReadBuffer::Bytes(room)));
            answer!(reply, done, count => reply.data(&buffer[..(count as usize).min(size)]));
        });
    }

    fn write(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let id = self.numbers.node(ino);
        let clear = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let written = self.ask("write", |core| {
            if clear {
                self.clear_set_id(core, req, ino)?;
            }
            core.write(id, offset, Data::Bytes(data))?;
            if convert::is_synchronous(flags) { core.sync(id) } else { Ok(()) }
        });
        answer!(reply, written, () => reply.written(data.len() as u32));
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.reply_empty("release", reply, |core| core.release(self.numbers.node(ino), is_for_writing(flags)));
    }

    fn fsync(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.reply_empty("fsync", reply, |core| core.sync(self.numbers.node(ino)));
    }

    /// An open directory has no state here. After ENOSYS the kernel opens and closes directories without a request, and keeps their entries until
    /// it has changed one.
    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if self.kernel_opens_directories {
            reply.error(Errno::ENOSYS);
        } else {
            reply.opened(FileHandle(0), FopenFlags::empty());
        }
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let done = self.ask("readdir", |core| {
            for_each_entry(core, self.numbers.node(ino), offset, |entry| {
                let (ino, kind) = (self.numbers.inode(entry.id), convert::file_type(entry.kind));
                Ok(reply.add(ino, entry.next, kind, OsStr::from_bytes(&entry.name)))
            })
        });
        answer!(reply, done, () => reply.ok());
    }

    /// Lists names with attributes. Each entry that the kernel gets counts as a lookup, except `.` and `..`, whose attributes it ignores.
    fn readdirplus(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let id = self.numbers.node(ino);
        let done = self.ask("readdir", |core| {
            for_each_entry(core, id, offset, |entry| {
                let is_dots = matches!(&*entry.name, b"." | b"..");
                let found = if is_dots { core.attributes(id) } else { core.lookup(id, &entry.name) };
                let attr = match found {
                    // Gone since it was listed.
                    Err(FsError::Errno(error::Errno::ENOENT)) => return Ok(false),
                    attr => attr?,
                };
                let (file_attr, generation) = (self.numbers.attributes(&attr), convert::generation(&attr));
                let name = OsStr::from_bytes(&entry.name);
                let is_full = reply.add(file_attr.ino, entry.next, name, &CACHE_TIME, &file_attr, generation);
                if is_full && !is_dots {
                    core.forget(attr.id, 1);
                }
                Ok(is_full)
            })
        });
        answer!(reply, done, () => reply.ok());
    }

    fn fsyncdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.reply_empty("fsyncdir", reply, |core| core.sync_dir(self.numbers.node(ino)));
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        answer!(reply, self.ask("statfs", |core| core.usage()), usage => {
            let (granule, free) = (usage.granule_bytes as u32, usage.available());
            reply.statfs(usage.size(), free, free, usage.nodes, usage.free_nodes, granule, usage.name_bytes, granule);
        });
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let (create, replace) = (flags.contains(XattrFlags::CREATE), flags.contains(XattrFlags::REPLACE));
        let (id, name) = (self.numbers.node(ino), name.as_bytes());
        self.reply_empty("setxattr", reply, |core| {
            core.set_attribute(id, name, value, create, replace)?;
            if name == ACCESS_LIST { clear_set_group(core, req, id) } else { Ok(()) }
        });
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let value = self.ask("getxattr", |core| core.attribute(self.numbers.node(ino), name.as_bytes()));
        convert::reply_bytes(reply, value, size);
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.ask("listxattr", |core| core.attribute_names(self.numbers.node(ino)));
        let joined = names.map(|names| names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect());
        convert::reply_bytes(reply, joined, size);
    }

    fn removexattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.reply_empty("removexattr", reply, |core| core.remove_attribute(self.numbers.node(ino), name.as_bytes()));
    }

    fn fallocate(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(how) = convert::allocation(mode) else { return reply.error(Errno::EOPNOTSUPP) };
        let id = self.numbers.node(ino);
        let allocate = |core: &FileSystem| {
            core.allocate(id, how, offset, length)?;
            if req.uid() != 0 { self.clear_set_id(core, req, ino) } else { Ok(()) }
        };
        self.grow_file("fallocate", ino, allocate, |allocated| convert::reply_empty(reply, allocated));
    }

    fn copy_file_range(
        &self,
        req: &Request,
        ino_in: INodeNo,
        _fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = (self.numbers.node(ino_in), self.numbers.node(ino_out));
        let copy = |core: &FileSystem| {
            let done = copy_range(core, (from, offset_in), (to, offset_out), len)?;
            if req.uid() != 0 {
                self.clear_set_id(core, req, ino_out)?;
            }
            // A handle of 1 is that of a file whose writes are durable before they are acknowledged.
            if fh_out.0 == 1 { core.sync(to).map(|()| done) } else { Ok(done) }
        };
        self.grow_file(
            "copy_file_range",
            ino_out,
            copy,
            |copied| answer!(reply, copied, bytes => reply.written(bytes as u32)),
        );
    }

    fn lseek(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let what = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let (gate, node) = (self.gate.clone(), self.numbers.node(ino));
        let is_written = self.gate.ask("lseek", |core| core.is_open_for_writing(node)).unwrap_or(false);
        gate.requests.fetch_add(1, Ordering::Relaxed);
        let answer = move || {
            let found = gate.ask("lseek", |core| {
                let offset = u64::try_from(offset).map_err(|_| FsError::Errno(error::Errno::ENXIO))?;
                core.seek(node, offset, what)
            });
            answer!(reply, found.map_err(|error| convert::errno(&error)), at => reply.offset(at as i64));
        };
        if is_written {
            // Changes in mapped pages are data only after they are written back.
            self.notify(move |notifier| {
                let _ = notifier.map(|notifier| notifier.inval_inode(ino, 0, 0));
                answer();
            });
        } else {
            answer();
        }
    }
}

/// Bytes of a copy that are in memory at a time, and the most that one request copies; the caller asks again for the rest (assumption).
const PIECE_BYTES: u64 = 1 << 20;
const REQUEST_BYTES: u64 = 16 << 20;

/// The most bytes that one request shares, because the reply has 32 bits.
const SHARED_BYTES: u64 = 1 << 30;

/// Copies up to `bytes` bytes between two files, or between two places of one file that don't overlap. Returns the number of bytes, which may be
/// smaller; the caller then asks again for the rest.
fn copy_range(core: &FileSystem, from: (NodeId, u64), to: (NodeId, u64), bytes: u64) -> FsResult<u64> {
    let shared = core.share(from, to, bytes.min(SHARED_BYTES))?;
    if shared > 0 {
        return Ok(shared);
    }
    // Copies only up to the first whole granule if the rest can be shared after that.
    let ((_, from_byte), (_, to_byte)) = (from, to);
    let head = match (from_byte % GRANULE_BYTES, to_byte % GRANULE_BYTES) {
        (from_offset, to_offset) if from_offset == to_offset && from_offset > 0 => GRANULE_BYTES - from_offset,
        _ => REQUEST_BYTES,
    };
    copy_bytes(core, from, to, bytes.min(head))
}

/// Copies bytes between places of files; fewer if the original ends, or if not all can be read and written.
fn copy_bytes(core: &FileSystem, from: (NodeId, u64), to: (NodeId, u64), bytes: u64) -> FsResult<u64> {
    let ((from, from_byte), (to, to_byte)) = (from, to);
    let mut piece = vec![0; bytes.min(PIECE_BYTES) as usize];
    let mut copy_piece = |done: u64| {
        let room = &mut piece[..(bytes - done).min(PIECE_BYTES) as usize];
        let count = core.read(from, from_byte + done, ReadBuffer::Bytes(room))?;
        if count > 0 {
            core.write(to, to_byte + done, Data::Bytes(&piece[..count as usize]))?;
        }
        FsResult::Ok(count)
    };
    let mut done = 0;
    while done < bytes {
        match copy_piece(done) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if done == 0 => return Err(error),
            // Reported to the next request, which begins at this piece.
            Err(_) => break,
        }
    }
    Ok(done)
}

/// The largest write of one request, and the largest block.
const WRITE_BYTES_MAX: u32 = 1 << 20;

/// Asks the kernel for features when a session begins.
///
/// - FUSE_HANDLE_KILLPRIV_V2: the kernel says when a write must clear set-id bits, and need not ask for capabilities before each write.
/// - FUSE_POSIX_ACL: the kernel enforces access lists.
/// - FUSE_DONT_MASK: the kernel leaves the umask to us, because a default access list takes its place.
/// - FUSE_EXPORT_SUPPORT: the kernel looks up `.` of a node that it has forgotten.
///
/// Not FUSE_ATOMIC_O_TRUNC, because a running program would be truncated before ETXTBSY is found; no write-back cache, as it gained nothing.
pub fn negotiate(config: &mut KernelConfig) {
    let wanted = [
        InitFlags::FUSE_DO_READDIRPLUS,
        InitFlags::FUSE_READDIRPLUS_AUTO,
        InitFlags::FUSE_PARALLEL_DIROPS,
        InitFlags::FUSE_ASYNC_DIO,
        InitFlags::FUSE_CACHE_SYMLINKS,
        InitFlags::FUSE_EXPLICIT_INVAL_DATA,
        InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        InitFlags::FUSE_POSIX_ACL,
        InitFlags::FUSE_DONT_MASK,
        InitFlags::FUSE_EXPORT_SUPPORT,
    ];
    for flag in wanted {
        // An older kernel lacks some.
        let _ = config.add_capabilities(flag);
    }
    let _ = config.set_max_write(WRITE_BYTES_MAX);
}

/// Creates a node. The umask applies only if the directory has no default access list.
fn make(core: &FileSystem, parent: NodeId, name: &OsStr, new: &NewNode, umask: u32) -> FsResult<Attr> {
    let masked = new.mode & !umask;
    // The list is read only if the mask would take something away.
    let takes_mask = masked != new.mode && core.attribute(parent, DEFAULT_ACCESS_LIST).is_err();
    let mode = if takes_mask { masked } else { new.mode };
    core.make(parent, name.as_bytes(), &NewNode { mode, ..*new })
}

/// True if the user of a request is in the group, or is root.
fn is_in_group(req: &Request, gid: u32) -> bool {
    if req.uid() == 0 || req.gid() == gid {
        return true;
    }
    // The kernel sends only one group of the user; the others are in /proc, where libfuse reads them too. The process may be gone, or in another
    // namespace: then it is taken to have none.
    let status = std::fs::read_to_string(format!("/proc/{}/status", req.pid())).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().any(|group| group.parse() == Ok(gid))
}

/// Clears the set-group-id bit when a user who is not in the group sets an access list.
fn clear_set_group(core: &FileSystem, req: &Request, id: NodeId) -> FsResult {
    let Attr { mode, gid, .. } = core.attributes(id)?;
    if mode & 0o2000 == 0 || is_in_group(req, gid) {
        return Ok(());
    }
    core.set_attributes(id, &SetAttr { mode: Some(mode & !0o2000), ..SetAttr::default() }).map(drop)
}

/// Adds to `set` the loss of set-id bits that it entails: a new owner always clears them, a new size only if an ordinary user sets it.
fn with_set_id_cleared(core: &FileSystem, req: &Request, id: NodeId, set: SetAttr) -> FsResult<SetAttr> {
    // chown(2) with -1 for both owners sends an empty change, and clears the bits, too.
    let is_empty = SetAttr { ctime: None, ..set } == SetAttr::default();
    let is_chown = set.uid.is_some() || set.gid.is_some() || is_empty;
    let is_truncate_by_user = set.size.is_some() && req.uid() != 0;
    if set.mode.is_some() || !(is_chown || is_truncate_by_user) {
        return Ok(set);
    }
    let attr = core.attributes(id)?;
    // A write also sends an empty change, but clears the bits itself. Only chown(2) comes from root or the owner.
    if is_empty && ![0, attr.uid].contains(&req.uid()) {
        return Ok(set);
    }
    Ok(SetAttr { mode: convert::without_set_id(&attr, || is_in_group(req, attr.gid)), ..set })
}

/// `.` and `..`, which the core does not list, and the kernel's positions after them. Those of other entries are the core's, shifted by two.
const DOTS: [(&[u8], u64); 2] = [(b".", 1), (b"..", 2)];

/// Passes the entries of a directory from the kernel's position `from` on, with the kernel's positions, to `add`, until that returns true because
/// the kernel's page is full. `..` has the directory's own number, which does no harm because the kernel knows the parent.
fn for_each_entry(core: &FileSystem, id: NodeId, from: u64, mut add: impl FnMut(&Entry) -> FsResult<bool>) -> FsResult {
    for (name, next) in DOTS {
        if from < next && add(&Entry { id, kind: Kind::Directory, name: name.to_vec(), next })? {
            return Ok(());
        }
    }
    let mut place = core_place(from);
    let mut has_added = false;
    loop {
        // An error after an entry is left to the next request, because the lookups of the entries so far would be lost with this one.
        let entries = match core.list(id, place) {
            Err(_) if has_added => return Ok(()),
            entries => entries?,
        };
        let Some(last) = entries.last() else { return Ok(()) };
        place = last.next;
        for entry in entries {
            match add(&Entry { next: kernel_place(entry.next), ..entry }) {
                Ok(true) => return Ok(()),
                Err(_) if has_added => return Ok(()),
                Err(error) => return Err(error),
                Ok(false) => has_added = true,
            }
        }
    }
}

/// The end of a directory on ext4, and the largest position that lseek(2) takes. It is not shifted.
const END: u64 = i64::MAX as u64;

fn kernel_place(place: u64) -> u64 {
    place.saturating_add(DOTS.len() as u64).min(END)
}

fn core_place(place: u64) -> u64 {
    if place >= END { END } else { place.saturating_sub(DOTS.len() as u64) }
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
