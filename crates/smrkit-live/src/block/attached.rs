//! A served drive as a file, by FUSE, and as a loop device on it: for programs that want a path.
//!
//! The file is a client of the server like any other. A loop device takes root; others have the file alone.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, SessionACL, WriteFlags,
};
use parking_lot::Mutex;
use rustix::fs::FallocateFlags;
use rustix::process::{getegid, geteuid};

use super::nbd::wire::{self, command, option};
use crate::mount::point::{self, Unmount};

/// Bytes of a loop device's sectors: those of today's disks.
const SECTOR_BYTES: u64 = 4096;
/// The longest command without data: the protocol's numbers of bytes have 32 bits.
const PART_BYTES: u64 = 1 << 30;
/// Threads that take the kernel's requests.
const THREADS: usize = 2;
/// Time in which whoever glances at a loop device closes it.
const LETS_GO: Duration = Duration::from_secs(5);

/// A drive that is there as a file.
pub struct Attached {
    directory: PathBuf,
    device: Option<PathBuf>,
    session: Option<BackgroundSession>,
}

impl Attached {
    /// Shows the drive that is served at `socket` as a file in `directory`, which is made, and to root as a loop device too.
    pub fn new(socket: &Path, directory: &Path) -> io::Result<Attached> {
        clear(directory)?;
        fs::create_dir_all(directory)?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("smrkit".into()), MountOption::Subtype("smrkit".into())];
        config.acl = SessionACL::Owner;
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        let session = Session::new(DriveFile(DriveClient::connect(socket)?), directory, &config)?.spawn()?;
        let mut attached = Attached { directory: directory.into(), device: None, session: Some(session) };
        if geteuid().is_root() {
            attached.device = Some(loop_device(&attached.file())?);
        }
        Ok(attached)
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// The loop device, where there is one.
    pub fn device(&self) -> Option<&Path> {
        self.device.as_deref()
    }

    /// Takes device and file away. Errors: somebody still uses them.
    pub fn detach(&mut self) -> Result<(), String> {
        if let Some(device) = self.device.as_ref().filter(|device| is_taken(device)) {
            let device = device.display();
            return Err(format!("{device} is in use: unmount what is on it, or take it out of its array"));
        }
        if let Some(device) = self.device.take() {
            free(&device, &self.file()).map_err(|error| error.to_string())?;
        }
        drop(self.session.take());
        // Where a request hangs, its file is busy: the mount would stay behind, dead. Mostly it is gone.
        let _ = point::unmount(&self.directory, Unmount::Detach);
        // What is not empty is not ours.
        let _ = fs::remove_dir(&self.directory);
        Ok(())
    }
}

/// Takes away what a killed process has left of the file in `directory` and of a loop device on it; tells whether there was anything.
/// A loop device that is still mounted goes when that ends.
pub fn clear(directory: &Path) -> io::Result<bool> {
    if !point::is_dead(directory) {
        return Ok(false);
    }
    for device in loop_devices(&directory.join(NAME))? {
        free(&device, &directory.join(NAME))?;
    }
    point::unmount(directory, Unmount::Detach).map_err(io::Error::other)?;
    fs::remove_dir(directory)?;
    Ok(true)
}

/// True if anybody has mounted or otherwise taken the loop device.
fn is_taken(device: &Path) -> bool {
    let Some(name) = device.file_name() else { return false };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_mounted = mounts.lines().any(|line| line.split(' ').next().map(Path::new) == Some(device));
    let holders = fs::read_dir(Path::new("/sys/block").join(name).join("holders"));
    is_mounted || holders.is_ok_and(|mut holders| holders.next().is_some())
}

/// Frees a loop device on `file`. The kernel does so when the last one who has it open closes it, and whoever looks through all
/// disks may have: it is gone when this returns, unless somebody has mounted it or keeps it open for long.
fn free(device: &Path, file: &Path) -> io::Result<()> {
    told(Command::new("losetup").arg("-d").arg(device))?;
    let end = Instant::now() + LETS_GO;
    while loop_devices(file)?.iter().any(|found| found == device) && !is_taken(device) && Instant::now() < end {
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The loop devices on `file`, by its name: it may be dead.
fn loop_devices(file: &Path) -> io::Result<Vec<PathBuf>> {
    let mut devices = Vec::new();
    for block in fs::read_dir("/sys/block")? {
        let block = block?;
        let backing = fs::read_to_string(block.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end()) == file {
            devices.push(Path::new("/dev").join(block.file_name()));
        }
    }
    Ok(devices)
}

/// A loop device on `file`, past the page cache of the file: a disk that rotates, with the sectors that such disks have.
fn loop_device(file: &Path) -> io::Result<PathBuf> {
    let mut setup = Command::new("losetup");
    setup.args(["--find", "--show", "--direct-io=on"]);
    // A loop device has one size for logical and physical sectors. It would leave out the end of an odd file.
    if fs::metadata(file)?.len().is_multiple_of(SECTOR_BYTES) {
        setup.args(["--sector-size", &SECTOR_BYTES.to_string()]);
    }
    let device = PathBuf::from(told(setup.arg(file))?.trim());
    if let Some(name) = device.file_name() {
        // File systems tune themselves by it. Where it can't be set, the device works all the same.
        let _ = fs::write(Path::new("/sys/block").join(name).join("queue/rotational"), "1");
    }
    Ok(device)
}

/// Output of a command that succeeds.
fn told(command: &mut Command) -> io::Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_string())),
    }
}

/// The file's name.
const NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);
/// Nothing about it ever changes.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// The longest request of the kernel.
const BYTES_MAX: u32 = 1 << 20;

/// The drive as a file.
struct DriveFile(DriveClient);

impl DriveFile {
    fn attributes(&self, node: INodeNo) -> FileAttr {
        let is_file = node == FILE;
        FileAttr {
            ino: node,
            size: if is_file { self.0.bytes } else { 0 },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file { FileType::RegularFile } else { FileType::Directory },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl fuser::Filesystem for DriveFile {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An older kernel goes without.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match parent == INodeNo::ROOT && name == NAME {
            true => reply.entry(&KEPT, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&KEPT, &self.attributes(ino));
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = self.0.bytes.saturating_sub(offset).min(u64::from(size)) as u32;
        match bytes {
            0 => reply.data(&[]),
            _ => self.0.ask(command::READ, offset, bytes, &[], Waiting::Data(reply, bytes as usize)),
        }
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let bytes = data.len() as u32;
        self.0.ask(command::WRITE, offset, bytes, data, Waiting::Written(reply, bytes));
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _lock_owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.0.flush(reply);
    }

    fn fallocate(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let kind = match () {
            () if mode.contains(FallocateFlags::PUNCH_HOLE) => command::TRIM,
            () if mode.contains(FallocateFlags::ZERO_RANGE) => command::WRITE_ZEROES,
            () => return reply.error(Errno::EOPNOTSUPP),
        };
        self.0.ask_range(kind, offset, length, reply);
    }

    fn readdir(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, NAME),
        ];
        for (at, (node, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(node, at, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}

/// Receiver of a reply.
enum Waiting {
    Data(ReplyData, usize),
    Written(ReplyWrite, u32),
    Done(Arc<SharedReply>),
}

impl Waiting {
    fn refuse(self, error: Errno) {
        match self {
            Waiting::Data(reply, _) => reply.error(error),
            Waiting::Written(reply, _) => reply.error(error),
            Waiting::Done(reply) => *reply.error.lock() = Some(error),
        }
    }
}

/// The reply to a request that may take several commands, which end in any order. It is sent when the last of them lets go of it.
struct SharedReply {
    reply: Option<ReplyEmpty>,
    /// Error of a command that failed.
    error: Mutex<Option<Errno>>,
}

impl SharedReply {
    fn new(reply: ReplyEmpty) -> Arc<SharedReply> {
        Arc::new(SharedReply { reply: Some(reply), error: Mutex::new(None) })
    }
}

impl Drop for SharedReply {
    fn drop(&mut self) {
        match (self.reply.take(), self.error.get_mut().take()) {
            (Some(reply), Some(error)) => reply.error(error),
            (Some(reply), None) => reply.ok(),
            (None, _) => {}
        }
    }
}

type Waiters = Arc<Mutex<BTreeMap<u64, Waiting>>>;

/// A connection to a served drive.
struct DriveClient {
    stream: Mutex<UnixStream>,
    waiting: Waiters,
    next: AtomicU64,
    bytes: u64,
}

impl DriveClient {
    /// Connects to the server at `socket`; replies come on a thread of their own.
    fn connect(socket: &Path) -> io::Result<DriveClient> {
        let mut stream = UnixStream::connect(socket)?;
        stream.read_exact(&mut [0; 18])?;
        let mut words = u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES).to_be_bytes().to_vec();
        words.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
        words.extend_from_slice(&option::EXPORT_NAME.to_be_bytes());
        words.extend_from_slice(&0u32.to_be_bytes());
        stream.write_all(&words)?;
        let mut export = [0; 10];
        stream.read_exact(&mut export)?;
        let bytes = u64::from_be_bytes(export[..8].try_into().unwrap_or_default());
        let waiting = Waiters::default();
        let (answers, waiters) = (stream.try_clone()?, waiting.clone());
        thread::Builder::new().name("answers".to_string()).spawn(move || {
            let _ = deliver(answers, &waiters);
            // The server has gone.
            std::mem::take(&mut *waiters.lock()).into_values().for_each(|waiter| waiter.refuse(Errno::EIO));
        })?;
        Ok(DriveClient { stream: Mutex::new(stream), waiting, next: AtomicU64::new(1), bytes })
    }

    /// Sends a command; `waiting` gets the answer.
    fn ask(&self, kind: u16, offset: u64, bytes: u32, data: &[u8], waiting: Waiting) {
        let cookie = self.next.fetch_add(1, Relaxed);
        self.waiting.lock().insert(cookie, waiting);
        let mut words = [0; 28];
        words[..4].copy_from_slice(&wire::REQUEST_MAGIC.to_be_bytes());
        words[6..8].copy_from_slice(&kind.to_be_bytes());
        words[8..16].copy_from_slice(&cookie.to_be_bytes());
        words[16..24].copy_from_slice(&offset.to_be_bytes());
        words[24..].copy_from_slice(&bytes.to_be_bytes());
        let mut stream = self.stream.lock();
        let sent = stream.write_all(&words).and_then(|()| stream.write_all(data));
        if sent.is_err()
            && let Some(waiting) = self.waiting.lock().remove(&cookie)
        {
            waiting.refuse(Errno::EIO);
        }
    }

    /// Sends a command without data for any number of bytes, in as many parts as it takes.
    fn ask_range(&self, kind: u16, offset: u64, bytes: u64, reply: ReplyEmpty) {
        let (reply, end) = (SharedReply::new(reply), offset + bytes);
        for at in (offset..end).step_by(PART_BYTES as usize) {
            self.ask(kind, at, PART_BYTES.min(end - at) as u32, &[], Waiting::Done(reply.clone()));
        }
    }

    fn flush(&self, reply: ReplyEmpty) {
        self.ask(command::FLUSH, 0, 0, &[], Waiting::Done(SharedReply::new(reply)));
    }
}

/// Gives answers to those who wait, until the server hangs up.
fn deliver(mut stream: UnixStream, waiting: &Waiters) -> io::Result<()> {
    let mut data = Vec::new();
    loop {
        let mut reply = [0; 16];
        stream.read_exact(&mut reply)?;
        let error = i32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]]);
        let cookie = u64::from_be_bytes(reply[8..].try_into().unwrap_or_default());
        let Some(waiter) = waiting.lock().remove(&cookie) else { continue };
        match waiter {
            waiter if error != 0 => waiter.refuse(Errno::from_i32(error)),
            Waiting::Data(reply, bytes) => {
                data.resize(bytes, 0);
                stream.read_exact(&mut data)?;
                reply.data(&data);
            }
            Waiting::Written(reply, bytes) => reply.written(bytes),
            Waiting::Done(reply) => drop(reply),
        }
    }
}
