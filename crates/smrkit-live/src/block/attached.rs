//! A served drive as a file (by FUSE) and a loop device on it, for programs that want a path.
//!
//! Threads of FUSE pass the kernel's requests on to the server, which replies. A loop device needs root. Other users get only the file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, SessionACL, WriteFlags,
};
use rustix::fs::FallocateFlags;
use rustix::process::{getegid, geteuid};

use super::control::{WakingReceiver, WakingSender, waking_channel};
use super::drive::{Command, CommandError, CommandKind, ServedDrive};
use crate::mount::point::{self, Unmount};

/// Sector size of a loop device: the physical one of today's disks.
const SECTOR_BYTES: u64 = 4096;
/// Threads that take the kernel's requests.
const THREADS: usize = 2;
/// How long to wait for others to close a loop device, such as udev, which opens each disk for a moment.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A served drive that is attached as a file, and perhaps as a loop device.
pub struct Attached {
    directory: PathBuf,
    device: Option<PathBuf>,
    session: Option<BackgroundSession>,
    /// True once detaching must no longer wait for the loop device to be closed.
    pub is_forced: Arc<AtomicBool>,
}

impl Attached {
    /// Attaches a served drive as a file in `directory`, which is created, and for root also as a loop device.
    pub fn new(file: DriveFile, directory: &Path) -> io::Result<Attached> {
        clear(directory)?;
        fs::create_dir_all(directory)?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("smrkit".into()), MountOption::Subtype("smrkit".into())];
        config.acl = SessionACL::Owner;
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        let session = Session::new(file, directory, &config)?.spawn()?;
        let mut attached =
            Attached { directory: directory.into(), device: None, session: Some(session), is_forced: Arc::default() };
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

    /// Removes device and file. Errors: they are in use.
    pub fn detach(&mut self) -> Result<(), String> {
        if self.is_taken() {
            let device = self.device().unwrap_or(&self.directory).display();
            return Err(format!("{device} is in use: unmount what is on it, or take it out of its array"));
        }
        if let Some(device) = self.device.take() {
            free(&device, &self.file(), &self.is_forced).map_err(|error| error.to_string())?;
        }
        self.end();
        Ok(())
    }

    /// True if the loop device is mounted or has a holder, such as an array or LVM.
    pub fn is_taken(&self) -> bool {
        self.device.as_ref().is_some_and(|device| is_taken(device))
    }

    /// Removes device and file even if they are in use, because the server has ended and requests fail. A mounted loop device goes away
    /// when it is unmounted.
    pub fn end(&mut self) {
        if let Some(device) = self.device.take() {
            // If it can't be freed now, the next detach frees it.
            let _ = free(&device, &self.file(), &self.is_forced);
        }
        drop(self.session.take());
        // If a request hangs, the file is busy and a dead mount would stay behind. Usually the mount is gone already.
        let _ = point::unmount(&self.directory, Unmount::Detach);
        // Fails if the directory has other files in it, which are not ours.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Removes the dead mount at `directory` and the loop devices on it that a killed server has left; returns whether there was one. A loop
/// device that is still mounted goes away when it is unmounted.
pub fn clear(directory: &Path) -> io::Result<bool> {
    if !point::is_dead(directory) {
        return Ok(false);
    }
    for device in loop_devices(&directory.join(NAME))? {
        free(&device, &directory.join(NAME), &AtomicBool::new(false))?;
    }
    point::unmount(directory, Unmount::Detach).map_err(io::Error::other)?;
    fs::remove_dir(directory)?;
    Ok(true)
}

/// True if the device is mounted or has a holder, such as an array or LVM.
fn is_taken(device: &Path) -> bool {
    let Some(name) = device.file_name() else { return false };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_mounted = mounts.lines().any(|line| line.split(' ').next().map(Path::new) == Some(device));
    let holders = fs::read_dir(Path::new("/sys/block").join(name).join("holders"));
    is_mounted || holders.is_ok_and(|mut holders| holders.next().is_some())
}

/// Frees a loop device on `file`. The kernel does that when the last process closes it, so this waits for that, unless it
/// `is_forced`. After that the device is gone, unless it is mounted or held, or a process has kept it open for `CLOSE_TIMEOUT`.
fn free(device: &Path, file: &Path, is_forced: &AtomicBool) -> io::Result<()> {
    output_of(Program::new("losetup").arg("-d").arg(device))?;
    let deadline = Instant::now() + CLOSE_TIMEOUT;
    let gives_up = || is_forced.load(Ordering::Relaxed) || is_taken(device) || Instant::now() >= deadline;
    while loop_devices(file)?.iter().any(|found| found == device) && !gives_up() {
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The loop devices on `file`, found by its name, because a dead mount can't be opened.
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

/// Sets up a loop device on `file` with direct I/O: a rotational disk with sectors of 4,096 bytes.
fn loop_device(file: &Path) -> io::Result<PathBuf> {
    let mut setup = Program::new("losetup");
    setup.args(["--find", "--show", "--direct-io=on"]);
    // A loop device has one size for logical and physical sectors, and would leave out the end of a file that is no multiple of it.
    if fs::metadata(file)?.len().is_multiple_of(SECTOR_BYTES) {
        setup.args(["--sector-size", &SECTOR_BYTES.to_string()]);
    }
    let device = PathBuf::from(output_of(setup.arg(file))?.trim());
    if let Some(name) = device.file_name() {
        // File systems tune themselves by it. The device also works without.
        let _ = fs::write(Path::new("/sys/block").join(name).join("queue/rotational"), "1");
    }
    Ok(device)
}

/// Runs a command and returns its output. Errors: it failed.
fn output_of(command: &mut Program) -> io::Result<String> {
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
/// How long the kernel may cache attributes, which never change.
const ATTRIBUTES_TTL: Duration = Duration::from_secs(24 * 3600);
/// The kernel's longest request.
const BYTES_MAX: u32 = 1 << 20;

/// The drive as a file for FUSE, and the server's end of its requests.
pub fn file_of(drive: &ServedDrive) -> io::Result<(DriveFile, FileRequests)> {
    let (requests, incoming) = waking_channel()?;
    let (bytes, is_read_only) = (drive.image.bytes, drive.image.is_read_only);
    let file = DriveFile { requests, bytes, is_read_only };
    Ok((file, FileRequests { incoming, replies: BTreeMap::new(), count: 0 }))
}

/// The file system of FUSE with the drive as its only file.
pub struct DriveFile {
    requests: WakingSender<(Command, FileReply)>,
    bytes: u64,
    is_read_only: bool,
}

impl DriveFile {
    /// Passes a command on to the server, which sends the reply.
    fn send(&self, kind: CommandKind, offset: u64, bytes: u64, data: Vec<u8>, reply: FileReply) {
        let command = Command::new(kind, offset, bytes, data);
        match command.check(self.bytes, self.is_read_only) {
            Ok(()) => self.requests.send((command, reply)),
            Err(error) => reply.send(&command, Err(error)),
        }
    }

    fn attributes(&self, node: INodeNo) -> FileAttr {
        let is_file = node == FILE;
        FileAttr {
            ino: node,
            size: if is_file { self.bytes } else { 0 },
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
        // Older kernels lack it.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match parent == INodeNo::ROOT && name == NAME {
            true => reply.entry(&ATTRIBUTES_TTL, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&ATTRIBUTES_TTL, &self.attributes(ino));
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
        match self.bytes.saturating_sub(offset).min(u64::from(size)) {
            0 => reply.data(&[]),
            bytes => self.send(CommandKind::Read, offset, bytes, Vec::new(), FileReply::Data(reply)),
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
        self.send(CommandKind::Write, offset, data.len() as u64, data.to_vec(), FileReply::Written(reply));
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _lock_owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.send(CommandKind::Flush, 0, 0, Vec::new(), FileReply::Done(reply));
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
            () if mode.contains(FallocateFlags::PUNCH_HOLE) => CommandKind::Trim,
            () if mode.contains(FallocateFlags::ZERO_RANGE) => CommandKind::WriteZeroes,
            () => return reply.error(Errno::EOPNOTSUPP),
        };
        self.send(kind, offset, length, Vec::new(), FileReply::Done(reply));
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

/// The reply to a request of the kernel. If it is dropped, FUSE replies with an error.
pub enum FileReply {
    /// To a read.
    Data(ReplyData),
    /// To a write.
    Written(ReplyWrite),
    /// To others.
    Done(ReplyEmpty),
}

impl FileReply {
    fn send(self, command: &Command, result: Result<(), CommandError>) {
        match (self, result.map_err(|error| Errno::from_i32(error as i32))) {
            (FileReply::Data(reply), Ok(())) => reply.data(&command.data),
            (FileReply::Data(reply), Err(error)) => reply.error(error),
            (FileReply::Written(reply), Ok(())) => reply.written(command.bytes as u32),
            (FileReply::Written(reply), Err(error)) => reply.error(error),
            (FileReply::Done(reply), Ok(())) => reply.ok(),
            (FileReply::Done(reply), Err(error)) => reply.error(error),
        }
    }
}

/// The requests for the file, as they come to the server.
pub struct FileRequests {
    pub(super) incoming: WakingReceiver<(Command, FileReply)>,
    /// The replies that the kernel waits for, by the cookies of their commands.
    replies: BTreeMap<u64, FileReply>,
    count: u64,
}

impl FileRequests {
    /// The next command. The kernel limits the number of those that wait.
    pub(super) fn next(&mut self) -> Option<Command> {
        let (command, reply) = self.incoming.receiver.try_recv().ok()?;
        self.count += 1;
        self.replies.insert(self.count, reply);
        Some(Command { cookie: self.count, ..command })
    }

    /// Sends the reply to a command.
    pub(super) fn reply(&mut self, command: &Command, result: Result<(), CommandError>) {
        if let Some(reply) = self.replies.remove(&command.cookie) {
            reply.send(command, result);
        }
    }
}
