//! Two files, behind FUSE, that remember every write and every flush in order: what a loop device and an image stand on.
//!
//! A recording is what the platters of two drives saw. Whoever replays a part of it sees what a power cut leaves.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::SeekFrom;

/// The recorded files' names, in the order of their numbers.
pub const NAMES: [&str; 2] = ["disk", "image"];
const FIRST: u64 = 2;
/// Number that lseek(2) has for it on Linux.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;
const FOREVER: Duration = Duration::from_secs(3600);

/// Event on one of the two files.
#[derive(Clone)]
pub enum Event {
    /// Bytes that were written.
    Write { file: usize, offset: u64, bytes: Arc<[u8]> },
    /// All before it in that file is durable.
    Flush { file: usize },
}

/// Recording; nothing before it is switched on.
#[derive(Default)]
pub struct Recording {
    on: bool,
    events: Vec<Event>,
}

/// The two files, mounted.
pub struct Recorder {
    recording: Arc<Mutex<Recording>>,
    session: BackgroundSession,
}

impl Recorder {
    /// Mounts the two files in `at`; their contents lie in `store`, under the same names.
    pub fn mount(store: &Path, at: &Path, bytes: [u64; 2]) -> io::Result<Recorder> {
        let recording = Arc::new(Mutex::new(Recording::default()));
        let open = |number: usize| -> io::Result<File> {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(store.join(NAMES[number]))?;
            file.set_len(bytes[number])?;
            Ok(file)
        };
        let files = Files { files: [open(0)?, open(1)?], recording: Arc::clone(&recording) };
        let session = fuser::spawn_mount(files, at, &Config::default())?;
        Ok(Recorder { recording, session })
    }

    /// Begins to record.
    pub fn start(&self) {
        self.recording.lock().unwrap().on = true;
    }

    /// Number of events by now.
    pub fn position(&self) -> usize {
        self.recording.lock().unwrap().events.len()
    }

    /// Number of flushes by now.
    pub fn flushes(&self) -> usize {
        let recording = self.recording.lock().unwrap();
        recording.events.iter().filter(|event| matches!(event, Event::Flush { .. })).count()
    }

    /// Ends the recording, and the mount.
    pub fn finish(self) -> io::Result<Vec<Event>> {
        self.session.umount_and_join()?;
        Ok(std::mem::take(&mut self.recording.lock().unwrap().events))
    }

    /// Ends the recording, but not the mount.
    pub fn stop(&self) -> Vec<Event> {
        let mut recording = self.recording.lock().unwrap();
        recording.on = false;
        std::mem::take(&mut recording.events)
    }
}

struct Files {
    files: [File; 2],
    recording: Arc<Mutex<Recording>>,
}

impl Files {
    fn attributes(&self, ino: INodeNo) -> Option<FileAttr> {
        let number = u64::from(ino);
        let (kind, size) = match number {
            1 => (FileType::Directory, 0),
            _ => (FileType::RegularFile, self.file(ino)?.1.metadata().ok()?.len()),
        };
        Some(FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn file(&self, ino: INodeNo) -> Option<(usize, &File)> {
        let number = u64::from(ino).checked_sub(FIRST)? as usize;
        Some((number, self.files.get(number)?))
    }

    /// Notes an event while its effect is made, so that their orders agree.
    fn note(&self, event: impl FnOnce() -> Event, effect: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut recording = self.recording.lock().unwrap();
        effect()?;
        if recording.on {
            recording.events.push(event());
        }
        Ok(())
    }
}

impl Filesystem for Files {
    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = NAMES.iter().position(|known| OsStr::new(known) == name);
        match number.and_then(|number| self.attributes(INodeNo(FIRST + number as u64))) {
            Some(attr) => reply.entry(&FOREVER, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Some(attr) => reply.attr(&Duration::ZERO, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn setattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<std::time::SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<std::time::SystemTime>,
        _chgtime: Option<std::time::SystemTime>,
        _bkuptime: Option<std::time::SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if let (Some(size), Some((_, file))) = (size, self.file(ino))
            && file.set_len(size).is_err()
        {
            return reply.error(Errno::EIO);
        }
        match self.attributes(ino) {
            Some(attr) => reply.attr(&Duration::ZERO, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some((_, file)) = self.file(ino) else { return reply.error(Errno::ENOENT) };
        let mut bytes = vec![0; size as usize];
        match file.read_at(&mut bytes, offset) {
            Ok(count) => reply.data(&bytes[..count]),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some((number, file)) = self.file(ino) else { return reply.error(Errno::ENOENT) };
        let event = || Event::Write { file: number, offset, bytes: data.into() };
        match self.note(event, || file.write_all_at(data, offset)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn flush(&self, _request: &Request, _ino: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    /// Holes are where nothing was written: an image asks for them.
    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let Some((_, file)) = self.file(ino) else { return reply.error(Errno::ENOENT) };
        let to = match whence {
            SEEK_DATA => SeekFrom::Data(offset as u64),
            SEEK_HOLE => SeekFrom::Hole(offset as u64),
            _ => return reply.error(Errno::EINVAL),
        };
        match rustix::fs::seek(file, to) {
            Ok(at) => reply.offset(at as i64),
            Err(error) => reply.error(Errno::from_i32(error.raw_os_error())),
        }
    }

    fn fsync(&self, _request: &Request, ino: INodeNo, _handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        let Some((number, _)) = self.file(ino) else { return reply.error(Errno::ENOENT) };
        match self.note(|| Event::Flush { file: number }, || Ok(())) {
            Ok(()) => reply.ok(),
            Err(_) => reply.error(Errno::EIO),
        }
    }
}
