//! An image is a raw file or block device, byte N of which is byte N of the drive. Beside it, `IMAGE.smr` describes the drive and holds its
//! state.
//!
//! The state contains no data of the host. If it is missing or belongs to another image, the data is served all the same. `IMAGE.smr` is a
//! line of JSON, the state in binary, and the events since then as lines of a log. A checkpoint replaces the file atomically; events are
//! appended between checkpoints.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, FallocateFlags, OFlags, RenameFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use smrfs::data::{checksum, write_zeros};
use smrkit::device::level::Level;
use smrkit::drive::DRIVES;
use smrkit::engine::system::{DriveRun, SystemRun};
use smrkit::error::Error;
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::record;
use smrkit::layer::{BASELINE, HOST_MANAGED_DISK};
use smrkit::medium::interference::Interference;
use smrkit::settings::Settings;
use smrkit::stats::outcome::RunRecord;
use smrkit::units::SECTOR_BYTES;

use super::control::{WakingReceiver, WakingSender, waking_channel};
use super::log::LogEvent;
use super::report::{ImageReport, ReportedPath};
use crate::error::LiveError;
use crate::exclusive;
use crate::mount::control::path_value;

const VERSION: u32 = 1;
/// The first bytes of a state file, which tell it from other files.
const MAGIC: &[u8] = b"{\"smrkit_state\":";
/// Most bytes of the first line, which may contain several drive files (assumption).
const HEAD_BYTES_MAX: u64 = 8 << 20;
/// New images are multiples of this many sectors, for hosts that use sectors of 4 KiB.
const EXPORT_SECTORS: u64 = 8;
/// The fingerprint of an image is a checksum of this many blocks of this size (assumption).
const SAMPLES: u64 = 16;
const SAMPLE_BYTES: u64 = 4096;

/// The extended attribute of an image that holds its random number.
const NUMBER: &str = "user.smrkit.image";

/// The bytes of an image: a file, a block device, or a recorder of writes in tests.
pub trait Storage: Send + Sync {
    /// Fills `bytes` from `offset` on.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes `bytes` at `offset`.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes a range read as zeros, and frees its space if possible.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;
    /// Makes all earlier writes durable.
    fn sync(&self) -> io::Result<()>;
    /// The first range from `offset` on, and before `end`, that holds data.
    fn data_from(&self, offset: u64, end: u64) -> io::Result<Option<Range<u64>>>;
}

impl Storage for File {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(bytes, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "the image has become shorter than the drive: somebody has cut it off")
            }
            _ => error,
        })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(self, how, range.start, range.end - range.start) {
            Err(Errno::OPNOTSUPP) => write_zeros(range, |at, zeros| self.write_all_at(zeros, at)),
            result => Ok(result?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn data_from(&self, offset: u64, end: u64) -> io::Result<Option<Range<u64>>> {
        let start = match rustix::fs::seek(self, SeekFrom::Data(offset)) {
            Err(Errno::NXIO) => return Ok(None),
            // A block device has no holes.
            Err(Errno::INVAL) => return Ok((offset < end).then_some(offset..end)),
            start => start?,
        };
        let range = start..rustix::fs::seek(self, SeekFrom::Hole(start))?.min(end);
        Ok((range.start < range.end).then_some(range))
    }
}

/// Runs fsyncs of the image on its own thread, so that the server need not wait for the host's disk.
pub(super) struct Syncer {
    storage: Arc<dyn Storage>,
    /// The thread and its queue of requests, once it is started.
    thread: Option<(Sender<u64>, JoinHandle<()>)>,
    results: WakingSender<(u64, io::Result<()>)>,
    pub done: WakingReceiver<(u64, io::Result<()>)>,
    /// How many fsyncs were requested, and how many of them are done.
    begun: u64,
    ended: u64,
    /// The last one that failed.
    failed: u64,
}

impl Syncer {
    pub fn new(storage: Arc<dyn Storage>) -> io::Result<Syncer> {
        let (results, done) = waking_channel()?;
        Ok(Syncer { storage, thread: None, results, done, begun: 0, ended: 0, failed: 0 })
    }

    /// Requests an fsync if the image has changed since the last request. Returns the number of the fsync to wait for.
    pub fn begin(&mut self, is_changed: bool) -> u64 {
        if !is_changed {
            return self.begun;
        }
        self.begun += 1;
        // Started only when it is needed, because the server's thread has its real-time priority by then, and this one inherits it. At
        // ordinary priority it would wait for milliseconds on a busy machine, and so would the reply to each flush.
        if self.thread.is_none() {
            match self.start() {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => self.results.send((self.begun, Err(error))),
            }
        }
        if let Some((requests, _)) = &self.thread {
            let _ = requests.send(self.begun);
        }
        self.begun
    }

    fn start(&self) -> io::Result<(Sender<u64>, JoinHandle<()>)> {
        let (requests, requested) = mpsc::channel();
        let (storage, results) = (Arc::clone(&self.storage), self.results.clone());
        let thread = thread::Builder::new().name("sync".into()).spawn(move || {
            while let Ok(first) = requested.recv() {
                // One fsync serves all requests that came before it begins.
                let last = requested.try_iter().last().unwrap_or(first);
                results.send((last, storage.sync()));
            }
        })?;
        Ok((requests, thread))
    }

    /// True if an fsync is done.
    pub fn is_done(&self, number: u64) -> bool {
        number <= self.ended
    }

    /// True if this fsync or a later one has failed.
    pub fn has_failed(&self, number: u64) -> bool {
        (1..=self.failed).contains(&number)
    }

    /// Notes which fsyncs are done. With `waits`, waits for one if none is. Errors: one has failed.
    pub fn receive(&mut self, waits: bool) -> io::Result<()> {
        let mut done: Vec<_> = self.done.receive().collect();
        if waits && done.is_empty() {
            done.extend(self.done.receiver.recv());
        }
        let mut all = Ok(());
        for (number, result) in done {
            self.ended = number;
            if result.is_err() {
                self.failed = number;
                all = result;
            }
        }
        all
    }
}

impl Drop for Syncer {
    /// Waits for the thread, because it holds the image open, and with it the lock on the image.
    fn drop(&mut self) {
        if let Some((requests, thread)) = self.thread.take() {
            drop(requests);
            let _ = thread.join();
        }
    }
}

/// The first line of a state file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StateHead {
    smrkit_state: u32,
    made_by: String,
    /// The drive or array: layers, sizes and parameters.
    run: RunRecord,
    image: Identity,
    /// Bad sectors, as runs: the first one and their number.
    unreadable: Vec<(u64, u64)>,
    /// Bytes of the state that follows; 0 for a new drive.
    state_bytes: u64,
    checksum: u32,
}

/// What ties a state file to its image: the random number in an extended attribute if the image still has it, else device and inode, or a
/// fingerprint of its data, which a copy has too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Identity {
    /// New images are all zeros, so that only this distinguishes them.
    number: Option<String>,
    bytes: u64,
    device: u64,
    inode: u64,
    fingerprint: u32,
}

impl Identity {
    fn of(file: &File, bytes: u64) -> io::Result<Identity> {
        let found = file.metadata()?;
        let mut sample = Vec::new();
        for number in 0..SAMPLES {
            let at = bytes / SAMPLES * number;
            let mut block = vec![0; SAMPLE_BYTES.min(bytes - at) as usize];
            Storage::read(file, at, &mut block)?;
            sample.extend_from_slice(&block);
        }
        let is_device = found.file_type().is_block_device();
        let (device, inode) = if is_device { (found.rdev(), 0) } else { (found.dev(), found.ino()) };
        let mut number = [0; 16];
        // Block devices and some file systems have no attributes, and cp does not copy them.
        let number = rustix::fs::fgetxattr(file, NUMBER, &mut number).ok().map(|bytes| number[..bytes].to_vec());
        let number = number.and_then(|number| String::from_utf8(number).ok());
        Ok(Identity { number, bytes, device, inode, fingerprint: checksum(&sample) })
    }

    fn matches(&self, image: &Identity) -> bool {
        if let (Some(own), Some(number)) = (&self.number, &image.number) {
            return own == number && self.bytes == image.bytes;
        }
        let is_same_file = (self.device, self.inode) == (image.device, image.inode);
        self.bytes == image.bytes && (is_same_file || self.fingerprint == image.fingerprint)
    }
}

/// The contents of a state file: the state at the last checkpoint, and the events since.
#[derive(Default)]
pub struct Checkpoint {
    /// The model's state; empty for a new drive.
    pub model: Vec<u8>,
    /// Bad sectors at the checkpoint, as runs: the first one and their number.
    pub unreadable: Vec<(u64, u64)>,
    /// Events since the checkpoint; empty if the drive was closed cleanly.
    pub events: Vec<LogEvent>,
}

/// An image, locked against a second user.
pub struct DriveImage {
    /// The path that it was opened by.
    pub path: PathBuf,
    file: Option<File>,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) bytes: u64,
    /// The drive with its layer, or the array of such drives.
    pub system: SystemRun,
    /// The record of the drive or the array.
    pub run: RunRecord,
    pub(super) checkpoint: Checkpoint,
    /// True if it was closed cleanly.
    pub was_clean: bool,
    /// Why the drive starts with a fresh state, unless it is new.
    pub note: Option<String>,
    /// True if it must not be written to.
    pub is_read_only: bool,
    /// The state file; `None` if a file that is not ours is at its path.
    pub(super) state_file: Option<StateFile>,
}

pub(super) struct StateFile {
    path: PathBuf,
    /// Our file at the path, if there is one. From the first checkpoint on, events can be appended to it.
    own: Option<File>,
}

/// Path of the file that holds the state of the drive in `image`.
pub fn state_path(image: &Path) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(".smr");
    name.into()
}

/// The drive or array of `record`. Refuses what can't be served: dedicated arrays, zoned members, and layers that would destroy data.
pub fn system_of(record: &RunRecord) -> Result<SystemRun, Error> {
    let system = record::planned(record, Settings::default())?.system().clone();
    if system.array().is_some_and(|array| array.level == Level::Dedicated) {
        let remedy =
            "a host has no sources for the drives of a dedicated array: make it a span, or an image for each drive";
        return Err(Error::Impossible(remedy.into()));
    }
    if system.array().is_some() && is_host_managed(&system) {
        let remedy = "an array shows its host no zones, so that nobody keeps to its drives' rules: choose dm-zoned or zone-log for them";
        return Err(Error::Impossible(remedy.into()));
    }
    system.with_drives(&with_safe_layer)
}

/// True if the drive leaves its zones to the host.
pub fn is_host_managed(system: &SystemRun) -> bool {
    system.drives().iter().any(|run| run.layer.name == HOST_MANAGED_DISK)
}

/// The drive as it is served. Errors: its layer would destroy shingled data.
fn with_safe_layer(run: &DriveRun) -> Result<DriveRun, Error> {
    let mut run = run.clone();
    if run.layer.name == BASELINE {
        // The baseline is a conventional disk: the same platters, but not shingled.
        run.drive = run.drive.with_interference(Interference::None)?;
    } else if run.layer.name == HOST_MANAGED_DISK {
        // Its write pointers keep the host from overwriting shingled tracks.
    } else if run.drive.interference.form().is_some_and(|form| !run.layer.copes_with.contains(&form)) {
        let (layer, drive) = (run.layer.name, &run.drive.name);
        let problem = format!("layer {layer} would destroy data on {drive}, whose law of shingling it does not know");
        return Err(Error::Impossible(problem + ": choose another layer or drive (smrkit layers)"));
    }
    Ok(run)
}

/// The record of a run, including the text of built-in drive files, so that the drive stays the same when a later version of smrkit has
/// other drive files.
pub fn complete_record(run: &PlannedRun) -> RunRecord {
    let mut record = run.record();
    for drive in run.system().drives() {
        if let Some((name, text)) = DRIVES.iter().find(|(name, _)| *name == drive.drive.name) {
            record.drive_files.entry(name.to_string()).or_insert_with(|| text.to_string());
        }
    }
    record
}

/// Creates an image of the drive or array in `run` as a sparse file. With `force`, an existing file is replaced.
pub fn create(path: &Path, run: RunRecord, force: bool) -> Result<DriveImage, LiveError> {
    let system = system_of(&run).map_err(|error| LiveError::impossible(error.message()))?;
    let sectors = system.host_sectors().map_err(|error| LiveError::impossible(error.message()))?;
    let bytes = sectors / EXPORT_SECTORS * EXPORT_SECTORS * SECTOR_BYTES;
    if bytes == 0 {
        return Err(LiveError::impossible("the layer leaves a host less than 4096 bytes: give a larger drive"));
    }
    let is_new = fs::symlink_metadata(path).is_err();
    if !is_new && !force {
        return Err(LiveError::Exists(path.into()));
    }
    let state = state_path(path);
    // Before anything is changed: a file of the user's may have that name.
    let own = match read_state_file(&state) {
        Ok(None) => None,
        Ok(Some(read)) if force => Some(read.file),
        Ok(Some(_)) => return Err(LiveError::Exists(state)),
        Err(why) => return Err(LiveError::image(&state, why + ": move it away, or remove it")),
    };
    // The file of an image that is replaced is emptied only once it is locked.
    let mut options = File::options();
    options.read(true).write(true).mode(0o600).create(true).create_new(is_new).custom_flags(flags(OFlags::NONBLOCK));
    let file = options.open(path).map_err(|error| LiveError::io(path, error))?;
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err(LiveError::image(path, "no regular file: serve it as it is (smrkit serve), or give another path"));
    }
    exclusive::lock_path(path, &file)?;
    let made = file.set_len(0).and_then(|()| file.set_len(bytes)).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            let remedy = "this file system holds no file as long as this drive: give a smaller one, or another file system (xfs, tmpfs)";
            LiveError::image(path, remedy)
        }
        _ => LiveError::io(path, error),
    });
    let number = format!("{:016x}", RandomState::new().hash_one(0));
    // Where the file system has no attributes, the image is known by what is in it.
    let _ = rustix::fs::fsetxattr(&file, NUMBER, number.as_bytes(), XattrFlags::empty());
    let image = made.and_then(|()| {
        let mut image = DriveImage::new(path, file, bytes, system, run)?;
        image.state_file = Some(StateFile { path: state, own });
        image.save(&[], &[])?;
        Ok(image)
    });
    image.inspect_err(|_| {
        if is_new {
            let _ = fs::remove_file(path);
        }
    })
}

/// Removes an image that could not be completed, and its state.
pub fn remove(path: &Path) {
    [path.into(), state_path(path)].iter().for_each(|file| drop(fs::remove_file(file)));
}

fn flags(flags: OFlags) -> i32 {
    flags.bits() as i32
}

/// A state file and its contents.
struct StateRead {
    head: StateHead,
    checkpoint: Checkpoint,
    file: File,
}

/// Reads a state file; `None` if there is none. Errors: why something else is there, which is left alone.
fn read_state_file(path: &Path) -> Result<Option<StateRead>, String> {
    let mut file = match open_state_file(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err("it is a symbolic link".into());
        }
        Err(error) => return Err(format!("it can't be opened ({error})")),
    };
    let unreadable = |error: io::Error| format!("it can't be read ({error})");
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err("it is no regular file".into());
    }
    // Only so much at first: a file of the user's may have any length.
    let mut start = vec![0; HEAD_BYTES_MAX.min(found.len()) as usize];
    file.read_exact(&mut start).map_err(unreadable)?;
    let end = start.iter().position(|&byte| byte == b'\n').filter(|_| start.starts_with(MAGIC));
    let head = end.and_then(|end| serde_json::from_slice::<StateHead>(&start[..end]).ok());
    let (Some(end), Some(head)) = (end, head) else { return Err("it is no state of a drive".into()) };
    if head.smrkit_state != VERSION {
        return Err("it was made by another smrkit".into());
    }
    if found.len() - (end as u64 + 1) < head.state_bytes {
        return Err("it is cut short".into());
    }
    let mut model = start.split_off(end + 1);
    file.read_to_end(&mut model).map_err(unreadable)?;
    let lines = model.split_off(head.state_bytes as usize);
    if checksum(&model) != head.checksum {
        return Err("it is damaged".into());
    }
    // A crash may have torn the last line, and a crash of the host may leave anything behind the synced part.
    let lines = lines.split_inclusive(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\n"));
    let events = lines.map_while(|line| LogEvent::parse(std::str::from_utf8(line?).ok()?)).collect();
    let checkpoint = Checkpoint { model, unreadable: head.unreadable.clone(), events };
    Ok(Some(StateRead { head, checkpoint, file }))
}

/// Opening a FIFO would wait for a writer, and a link might lead to any file.
fn open_state_file(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK)).open(path)
}

/// True if the file at `path` is an image of a drive, because it has a state file, even a damaged one.
pub fn is_drive_image(path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    let mut start = [0; MAGIC.len()];
    let found = open_state_file(&state_path(&path)).and_then(|mut file| file.read_exact(&mut start));
    path.exists() && found.is_ok() && start == MAGIC
}

/// The absolute path of an image.
pub fn canonical(path: &Path) -> Result<PathBuf, LiveError> {
    path.canonicalize().map_err(|error| not_opened(path, error))
}

fn not_opened(path: &Path, error: io::Error) -> LiveError {
    match error.kind() {
        io::ErrorKind::NotFound => {
            LiveError::image(path, "there is no such image: check the path, or make one with smrkit create")
        }
        _ => LiveError::io(path, error),
    }
}

impl DriveImage {
    /// A new drive in a file, without a state file.
    fn new(path: &Path, file: File, bytes: u64, system: SystemRun, run: RunRecord) -> Result<DriveImage, LiveError> {
        Ok(DriveImage {
            path: path.into(),
            storage: Arc::new(file.try_clone().map_err(|error| LiveError::io(path, error))?),
            file: Some(file),
            bytes,
            system,
            run,
            checkpoint: Checkpoint::default(),
            was_clean: true,
            note: None,
            is_read_only: false,
            state_file: None,
        })
    }

    /// Opens the image at `path` like [`DriveImage::open`], but read-only. The state file stays as it is.
    pub fn open_to_read(
        path: &Path,
        system: impl FnOnce(u64) -> Result<Option<RunRecord>, Error>,
    ) -> Result<DriveImage, LiveError> {
        let image = DriveImage::open_for(path, true, system)?;
        Ok(DriveImage { state_file: None, ..image })
    }

    /// Opens and locks the image at `path`. If there is no state file, `system` chooses the drive for the image's number of sectors; `None` is
    /// an error.
    pub fn open(
        path: &Path,
        system: impl FnOnce(u64) -> Result<Option<RunRecord>, Error>,
    ) -> Result<DriveImage, LiveError> {
        DriveImage::open_for(path, false, system)
    }

    fn open_for(
        path: &Path,
        is_read_only: bool,
        system: impl FnOnce(u64) -> Result<Option<RunRecord>, Error>,
    ) -> Result<DriveImage, LiveError> {
        let failed = |error| LiveError::io(path, error);
        let options = File::options().read(true).write(!is_read_only).custom_flags(flags(OFlags::NONBLOCK)).clone();
        let file = options.open(path).map_err(|error| not_opened(path, error))?;
        let kind = file.metadata().map_err(failed)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(LiveError::image(path, "no regular file and no block device: give one of these"));
        }
        exclusive::lock_path(path, &file)?;
        let bytes = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|error| failed(error.into()))?;
        if bytes == 0 || bytes % SECTOR_BYTES > 0 {
            let remedy = "its length is no multiple of 512 bytes: lengthen it (truncate -s %512), or make one with smrkit create";
            return Err(LiveError::image(path, remedy));
        }
        let identity = Identity::of(&file, bytes).map_err(failed)?;
        let state_path = state_path(&canonical(path)?);
        let beside = state_path.display();
        // Nothing may be written over a file that is not the state of this image.
        let (read, is_kept, why_none) = match read_state_file(&state_path) {
            Ok(Some(read)) if read.head.image.matches(&identity) => (Some(read), true, String::new()),
            Ok(Some(_)) => (None, false, format!("{beside} belongs to another image, and is left alone")),
            Ok(None) => (None, true, format!("there is no {beside}")),
            Err(why) => (None, false, format!("{beside} is left alone: {why}")),
        };
        let impossible = |error: Error| LiveError::image(path, error.to_string());
        let (run, checkpoint, own, note) = match read {
            Some(StateRead { head, mut checkpoint, file }) => {
                // If somebody else has written to the image since it was closed, its bad sectors may hold new data.
                if checkpoint.events.is_empty() && head.image.fingerprint != identity.fingerprint {
                    checkpoint.unreadable.clear();
                }
                let mut note = None;
                // A layer can read only states of the same version. Without the state only times are lost. The events are kept, because they
                // tell which sectors are bad.
                if head.made_by != smrkit::VERSION {
                    let by = &head.made_by;
                    note = Some(format!("{beside} was saved by smrkit {by}: the drive starts with a fresh state"));
                    checkpoint.model.clear();
                }
                (head.run, checkpoint, Some(file), note)
            }
            None => {
                let missing = || {
                    LiveError::image(
                        path,
                        format!(
                            "no image of a drive ({why_none}): make one with smrkit create, or serve it as it is (smrkit serve)"
                        ),
                    )
                };
                let run = system(bytes / SECTOR_BYTES)
                    .map_err(|error| LiveError::impossible(error.message()))?
                    .ok_or_else(missing)?;
                let lost = if is_kept { "" } else { ", and its state will not be kept" };
                let note = format!("{why_none}: the drive starts with a fresh state{lost}");
                (run, Checkpoint::default(), None, Some(note))
            }
        };
        let state_file = is_kept.then(|| StateFile { path: state_path.clone(), own });
        let was_clean = checkpoint.events.is_empty();
        let system = system_of(&run).map_err(impossible)?;
        if system.host_sectors().map_err(impossible)? < bytes / SECTOR_BYTES {
            return Err(LiveError::image(
                path,
                "the image is longer than the drive that it is served as: give a larger one",
            ));
        }
        let image = DriveImage::new(path, file, bytes, system, run)?;
        Ok(DriveImage { checkpoint, was_clean, note, is_read_only, state_file, ..image })
    }

    /// The image on other storage and without a state file, for tests that cut the power.
    pub fn over(self, storage: Arc<dyn Storage>) -> DriveImage {
        DriveImage { file: None, storage, state_file: None, ..self }
    }

    /// Sectors that the host sees.
    pub fn sectors(&self) -> u64 {
        self.bytes / SECTOR_BYTES
    }

    /// The part of a report on the drive or array, its layers and their sizes.
    pub fn describe(&self) -> ImageReport {
        let drives = self.system.drives();
        let all = |name: &dyn Fn(&DriveRun) -> String| {
            let mut names: Vec<String> = drives.iter().map(name).collect();
            names.dedup();
            names.join(", ")
        };
        let capacities = drives.iter().filter_map(|run| (run.layer.capacity)(&run.drive, &run.parameters).ok());
        let (raw, cache) = capacities.fold((0, 0), |sum, one| (sum.0 + one.raw_sectors, sum.1 + one.cache_sectors));
        let array = self.system.array();
        ImageReport {
            image: ReportedPath(path_value(&self.path)),
            layer: all(&|drive| drive.layer.name.into()),
            drive: all(&|drive| drive.drive.name.clone()),
            export_bytes: self.bytes,
            raw_bytes: raw * SECTOR_BYTES,
            cache_bytes: cache * SECTOR_BYTES,
            array: array.map(|array| format!("{} of {} drives", array.level, array.members.len())),
        }
    }

    /// Replaces the state file by one with this state and no events.
    pub(super) fn save(&mut self, state: &[u8], unreadable: &[(u64, u64)]) -> Result<(), LiveError> {
        let (Some(target), Some(file)) = (&mut self.state_file, &self.file) else { return Ok(()) };
        let failed = |error| LiveError::io(&target.path, error);
        let head = StateHead {
            smrkit_state: VERSION,
            made_by: smrkit::VERSION.into(),
            run: self.run.clone(),
            image: Identity::of(file, self.bytes).map_err(|error| LiveError::io(&self.path, error))?,
            unreadable: unreadable.to_vec(),
            state_bytes: state.len() as u64,
            checksum: checksum(state),
        };
        let mut bytes = serde_json::to_vec(&head).map_err(|error| failed(error.into()))?;
        bytes.push(b'\n');
        bytes.extend_from_slice(state);
        let mut name = target.path.as_os_str().to_owned();
        name.push(format!(".{:016x}", RandomState::new().hash_one(0)));
        let new = PathBuf::from(name);
        let mut out = File::options().append(true).create_new(true).mode(0o600).open(&new).map_err(failed)?;
        // Synced before it takes the old file's place, so that a crash leaves one of the two whole.
        let replaced = out.write_all(&bytes).and_then(|()| out.sync_data()).and_then(|()| target.replace_by(&new));
        if let Err(error) = replaced {
            let _ = fs::remove_file(&new);
            return Err(LiveError::io(&target.path, error));
        }
        target.own = Some(out);
        Ok(())
    }

    /// Appends lines of events to the state file.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        match self.state_file.as_mut().and_then(|file| file.own.as_mut()) {
            Some(out) => out.write_all(lines),
            None => Ok(()),
        }
    }

    /// Makes the appended events durable.
    pub(super) fn sync_events(&self) -> io::Result<()> {
        self.state_file.as_ref().and_then(|file| file.own.as_ref()).map_or(Ok(()), File::sync_data)
    }
}

impl StateFile {
    /// Renames the file at `new` over the state file, unless somebody else has replaced that one.
    fn replace_by(&self, new: &Path) -> io::Result<()> {
        match &self.own {
            None => Ok(rustix::fs::renameat_with(CWD, new, CWD, &self.path, RenameFlags::NOREPLACE)?),
            Some(own) => {
                let (found, own) = (fs::symlink_metadata(&self.path)?, own.metadata()?);
                if (found.dev(), found.ino()) != (own.dev(), own.ino()) {
                    return Err(io::Error::new(
                        io::ErrorKind::AlreadyExists,
                        "another file is there by now; the state is not kept",
                    ));
                }
                fs::rename(new, &self.path)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_punched_and_found() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        assert_eq!(file.data_from(0, 1 << 20).unwrap(), None);
        file.write(65_536, &[1; 8192]).unwrap();
        file.write(524_288, &[1; 4096]).unwrap();
        let found = [0, 65_536, 69_632, 73_728, 524_288, 528_384].map(|from| file.data_from(from, 526_336).unwrap());
        let (first, second) = (Some(65_536..73_728), Some(524_288..526_336));
        assert_eq!(found, [first.clone(), first, Some(69_632..73_728), second.clone(), second, None]);
        file.punch(65_536..69_632 + 7).unwrap();
        let mut bytes = [1; 8192];
        file.read(65_536, &mut bytes).unwrap();
        assert!(bytes[..4103] == [0; 4103] && bytes[4103..] == [1; 4089]);
        assert_eq!(file.data_from(0, 1 << 20).unwrap().unwrap().start, 69_632);
        assert!(file.read((1 << 20) - 1, &mut bytes).unwrap_err().to_string().contains("has cut it off"));
    }
}
