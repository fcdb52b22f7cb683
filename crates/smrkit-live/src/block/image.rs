//! An image: a plain raw file or block device, byte N of which is byte N of the drive, and `IMAGE.smr` beside it, which says what drive
//! it is served as and holds that drive's state.
//!
//! The state is no data: without it, or with another's, what is in the image is served all the same. `IMAGE.smr` is a line of JSON,
//! the state as bytes, and the events since as lines of a log. It is replaced as a whole; events are appended in between.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, FallocateFlags, OFlags, RenameFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
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
use crate::error::LiveError;
use crate::exclusive;
use crate::mount::control::path_value;

const VERSION: u32 = 1;
/// The first bytes of a state file, so that nothing else is taken for one.
const MAGIC: &[u8] = b"{\"smrkit_state\":";
/// Bytes of the first line at most: several drive files (assumption).
const HEAD_BYTES_MAX: u64 = 8 << 20;
/// Images that are made are whole multiples of this many sectors, for hosts that know 4 KiB only.
const EXPORT_SECTORS: u64 = 8;
/// Blocks of an image that its fingerprint looks at, and the bytes of each (assumption).
const SAMPLES: u64 = 16;
const SAMPLE_BYTES: u64 = 4096;

/// The attribute of an image that holds the random number that it was made with.
const NUMBER: &str = "user.smrkit.image";

/// Bytes of an image: a file, a block device, or in tests something that remembers its writes.
pub trait Storage: Send + Sync {
    /// Fills `bytes` from `offset` on.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes `bytes` at `offset`.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes zeros of a range, and frees its room where that can be done.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;
    /// Makes all that was written durable.
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

/// Makes the image durable on a thread of its own, so that the drive's time need not wait for the host's disk.
pub(super) struct Syncer {
    storage: Arc<dyn Storage>,
    /// The thread, and where it takes orders, once it has begun.
    thread: Option<(Sender<u64>, JoinHandle<()>)>,
    answers: WakingSender<(u64, io::Result<()>)>,
    done: WakingReceiver<(u64, io::Result<()>)>,
    /// Syncs that were asked for so far, and how many of them are done.
    begun: u64,
    ended: u64,
    /// The last one that failed.
    failed: u64,
}

impl Syncer {
    pub fn new(storage: Arc<dyn Storage>) -> io::Result<Syncer> {
        let (answers, done) = waking_channel()?;
        Ok(Syncer { storage, thread: None, answers, done, begun: 0, ended: 0, failed: 0 })
    }

    /// Asks for what was written so far to become durable, if the image has changed since this was asked last; the number of the sync.
    pub fn begin(&mut self, is_changed: bool) -> u64 {
        if !is_changed {
            return self.begun;
        }
        self.begun += 1;
        // Not before it is needed: by then the server's thread has its priority, and this one inherits it. At an ordinary one, a busy
        // machine lets it wait for milliseconds, and with it the reply to each flush.
        if self.thread.is_none() {
            match self.start() {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => self.answers.send((self.begun, Err(error))),
            }
        }
        if let Some((orders, _)) = &self.thread {
            let _ = orders.send(self.begun);
        }
        self.begun
    }

    fn start(&self) -> io::Result<(Sender<u64>, JoinHandle<()>)> {
        let (orders, ordered) = mpsc::channel();
        let (storage, answers) = (Arc::clone(&self.storage), self.answers.clone());
        let thread = thread::Builder::new().name("sync".into()).spawn(move || {
            while let Ok(first) = ordered.recv() {
                // One sync is enough for all who asked before it begins.
                let last = ordered.try_iter().last().unwrap_or(first);
                answers.send((last, storage.sync()));
            }
        })?;
        Ok((orders, thread))
    }

    /// True once a sync is done.
    pub fn is_done(&self, number: u64) -> bool {
        number <= self.ended
    }

    /// True if a sync, or one after it, has failed.
    pub fn has_failed(&self, number: u64) -> bool {
        (1..=self.failed).contains(&number)
    }

    /// Takes note of the syncs that are done; where none is and `waits` is true, waits for one. Errors: one failed.
    pub fn receive(&mut self, waits: bool) -> io::Result<()> {
        let mut done: Vec<_> = self.done.receive().collect();
        if waits && done.is_empty() {
            done.extend(self.done.wait());
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

/// Ready to be read once a sync is done.
impl AsFd for Syncer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}

impl Drop for Syncer {
    /// The thread holds the image open, and with it the lock on it.
    fn drop(&mut self) {
        if let Some((orders, thread)) = self.thread.take() {
            drop(orders);
            let _ = thread.join();
        }
    }
}

/// The first line of a state file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StateHead {
    smrkit_state: u32,
    made_by: String,
    /// The drive or the array: layers, sizes and parameters.
    run: RunRecord,
    image: Identity,
    /// Runs of sectors that can't be read until they are written: first and number.
    unreadable: Vec<(u64, u64)>,
    /// Bytes of the state that follows; 0 of a drive that is new.
    state_bytes: u64,
    checksum: u32,
}

/// How an image is known again: by the number that it was made with, where it still has that; else where it lies, or else by some of what
/// is in it, which a copy has too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Identity {
    /// Two new images are all zeros, and only this tells them apart.
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
            file.read_exact_at(&mut block, at)?;
            sample.extend_from_slice(&block);
        }
        let is_device = found.file_type().is_block_device();
        let (device, inode) = if is_device { (found.rdev(), 0) } else { (found.dev(), found.ino()) };
        let mut number = [0; 16];
        // A block device has no attributes, nor do some file systems; nor has a copy, as cp makes it.
        let number = rustix::fs::fgetxattr(file, NUMBER, &mut number).ok().map(|bytes| number[..bytes].to_vec());
        let number = number.and_then(|number| String::from_utf8(number).ok());
        Ok(Identity { number, bytes, device, inode, fingerprint: checksum(&sample) })
    }

    fn is_of(&self, image: &Identity) -> bool {
        if let (Some(own), Some(number)) = (&self.number, &image.number) {
            return own == number && self.bytes == image.bytes;
        }
        let is_there = (self.device, self.inode) == (image.device, image.inode);
        self.bytes == image.bytes && (is_there || self.fingerprint == image.fingerprint)
    }
}

/// State of a drive as its state file has it: at the last checkpoint, and the events since.
#[derive(Default)]
pub struct SavedState {
    /// The model's; empty of a drive that is new.
    pub model: Vec<u8>,
    /// Runs of sectors that can't be read: first and number.
    pub unreadable: Vec<(u64, u64)>,
    /// Events since. None if it was closed cleanly.
    pub events: Vec<LogEvent>,
}

/// An image, locked against a second user.
pub struct DriveImage {
    /// The path that it was opened by.
    pub path: PathBuf,
    file: Option<File>,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) bytes: u64,
    /// The drive under its layer, or the array of such drives.
    pub system: SystemRun,
    /// The record of the drive or the array.
    pub run: RunRecord,
    pub(super) saved: SavedState,
    /// True if it was closed cleanly.
    pub was_clean: bool,
    /// Why the drive starts with a fresh state, where it did not have to.
    pub note: Option<String>,
    /// True if it can't be written.
    pub is_read_only: bool,
    /// Where the state is kept; nowhere if a file that is not ours is in its place.
    pub(super) state_file: Option<StateFile>,
}

pub(super) struct StateFile {
    path: PathBuf,
    /// Device and inode of the file that is there, if there is one, and the end of its events, where it is open for more.
    own: Option<(u64, u64)>,
    out: Option<File>,
}

/// Path of the file that holds the state of the drive in `image`.
pub fn state_path(image: &Path) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(".smr");
    name.into()
}

/// The drive or the array of `record`. Refuses a layer that breaks the drive's law of shingling or needs a host that knows zones.
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
    system.with_drives(&held_by_its_layer)
}

/// True if the drive leaves its zones to the host.
pub fn is_host_managed(system: &SystemRun) -> bool {
    system.drives().iter().any(|run| run.layer.name == HOST_MANAGED_DISK)
}

/// A drive as it is served. Errors: its layer breaks its law of shingling.
fn held_by_its_layer(run: &DriveRun) -> Result<DriveRun, Error> {
    let mut run = run.clone();
    if run.layer.name == BASELINE {
        // A conventional disk: the platters of the drive without their shingling.
        run.drive = run.drive.with_interference(Interference::None)?;
    } else if run.layer.name == HOST_MANAGED_DISK {
        // Its rules keep the host to the law.
    } else if run.drive.interference.form().is_some_and(|form| !run.layer.copes_with.contains(&form)) {
        let (layer, drive) = (run.layer.name, &run.drive.name);
        let problem = format!("layer {layer} would destroy data on {drive}, whose law of shingling it does not know");
        return Err(Error::Impossible(problem + ": choose another layer or drive (smrkit layers)"));
    }
    Ok(run)
}

/// The record of a run with the text of every drive file, those that come with smrkit included: so the drive stays what it is when
/// drive files change.
pub fn complete_record(run: &PlannedRun) -> RunRecord {
    let mut record = run.record();
    for drive in run.system().drives() {
        if let Some((name, text)) = DRIVES.iter().find(|(name, _)| *name == drive.drive.name) {
            record.drive_files.entry(name.to_string()).or_insert_with(|| text.to_string());
        }
    }
    record
}

/// Makes an image of the drive or the array in `run`: a sparse file; with `force` over one that is there.
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
    let own = match read_state_file(&state)? {
        StateFound::Missing => None,
        StateFound::Read(read) if force => Some(read.inode),
        StateFound::Read(_) => return Err(LiveError::Exists(state)),
        StateFound::Other(why) => return Err(LiveError::image(&state, why + ": move it away, or remove it")),
    };
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
        image.state_file = Some(StateFile { path: state, own, out: None });
        image.save(&[], &[])?;
        Ok(image)
    });
    image.inspect_err(|_| {
        if is_new {
            let _ = fs::remove_file(path);
        }
    })
}

/// Removes an image that was made for nothing, and its state.
pub fn remove(path: &Path) {
    [path.into(), state_path(path)].iter().for_each(|file| drop(fs::remove_file(file)));
}

fn flags(flags: OFlags) -> i32 {
    flags.bits() as i32
}

/// What is at the path of a state file.
enum StateFound {
    Missing,
    Read(Box<StateRead>),
    /// Something else, which is left alone, and why.
    Other(String),
}

struct StateRead {
    head: StateHead,
    state: Vec<u8>,
    events: Vec<LogEvent>,
    inode: (u64, u64),
}

fn read_state_file(path: &Path) -> Result<StateFound, LiveError> {
    let other = |why: &str| Ok(StateFound::Other(why.into()));
    // A FIFO would wait for a writer, and a link lead elsewhere.
    let opened = File::options().read(true).custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK)).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(StateFound::Missing),
        Err(error) => return other(&format!("it can't be opened ({error})")),
    };
    let failed = |error| LiveError::io(path, error);
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return other("it is no regular file");
    }
    let mut start = vec![0; HEAD_BYTES_MAX.min(found.len()) as usize];
    file.read_exact(&mut start).map_err(failed)?;
    let end = start.iter().position(|&byte| byte == b'\n').filter(|_| start.starts_with(MAGIC));
    let Some(head) = end.and_then(|end| serde_json::from_slice::<StateHead>(&start[..end]).ok()) else {
        return other("it is no state of a drive");
    };
    if head.smrkit_state != VERSION {
        return other("it was made by another smrkit");
    }
    let end = end.unwrap_or_default() as u64 + 1;
    if found.len() - end < head.state_bytes {
        return other("it is cut short");
    }
    let mut rest = start.split_off(end as usize);
    file.read_to_end(&mut rest).map_err(failed)?;
    let lines = rest.split_off(head.state_bytes as usize);
    if checksum(&rest) != head.checksum {
        return other("it is damaged");
    }
    // A crash may have torn the last line, and of the host's leave anything behind what was synced.
    let lines = lines.split_inclusive(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\n"));
    let events = lines.map_while(|line| LogEvent::parse(std::str::from_utf8(line?).ok()?)).collect();
    Ok(StateFound::Read(Box::new(StateRead { head, state: rest, events, inode: (found.dev(), found.ino()) })))
}

/// Tells whether the file at `path` is served as a drive: it has a state beside it.
pub fn is_drive_image(path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    path.exists() && matches!(read_state_file(&state_path(&path)), Ok(StateFound::Read(_)))
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
    /// A new drive in a file, without a place for its state.
    fn new(path: &Path, file: File, bytes: u64, system: SystemRun, run: RunRecord) -> Result<DriveImage, LiveError> {
        let storage = Arc::new(file.try_clone().map_err(|error| LiveError::io(path, error))?);
        let (path, file, saved) = (path.into(), Some(file), SavedState::default());
        let (was_clean, note, is_read_only, state_file) = (true, None, false, None);
        Ok(DriveImage { path, file, storage, bytes, system, run, saved, was_clean, note, is_read_only, state_file })
    }

    /// Opens the image at `path` as [`DriveImage::open`] does, to be read alone; its state stays as it is.
    pub fn open_to_read(
        path: &Path,
        system: impl FnOnce(u64) -> Result<Option<RunRecord>, Error>,
    ) -> Result<DriveImage, LiveError> {
        DriveImage::open_for(path, true, system).map(DriveImage::read_only)
    }

    /// Opens the image at `path` for this process alone. `system` says which drive a number of sectors is to be served as where no
    /// state beside the image does; that is an error where it says none.
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
        let mut state_file = Some(StateFile { path: state_path.clone(), own: None, out: None });
        let (read, why) = match read_state_file(&state_path)? {
            StateFound::Missing => (None, format!("there is no {beside}")),
            StateFound::Read(read) if read.head.image.is_of(&identity) => (Some(read), String::new()),
            StateFound::Read(_) => {
                state_file = None;
                (None, format!("{beside} belongs to another image, and is left alone"))
            }
            StateFound::Other(why) => {
                state_file = None;
                (None, format!("{beside} is left alone: {why}"))
            }
        };
        let impossible = |error: Error| LiveError::image(path, error.to_string());
        let (run, saved, was_clean, note) = match read {
            Some(read) => {
                let StateRead { head, state, events, inode } = *read;
                state_file.iter_mut().for_each(|file| file.own = Some(inode));
                // Layers read their own states alone. Only times are lost with another's, but of a host-managed drive: the events still tell what can't
                // be read.
                let (state, note) = match head.made_by == smrkit::VERSION {
                    true => (state, None),
                    false => {
                        let by = &head.made_by;
                        let note = format!("{beside} was saved by smrkit {by}: the drive starts with a fresh state");
                        (Vec::new(), Some(note))
                    }
                };
                let was_clean = events.is_empty();
                // Somebody wrote to the image in the meantime: what could not be read then may be something else by now.
                let is_unchanged = !was_clean || head.image.fingerprint == identity.fingerprint;
                let unreadable = if is_unchanged { head.unreadable } else { Vec::new() };
                (head.run, SavedState { model: state, unreadable, events }, was_clean, note)
            }
            None => {
                let missing =
                    || LiveError::image(path, format!("no image of a drive ({why}): make one with smrkit create"));
                let run = system(bytes / SECTOR_BYTES)
                    .map_err(|error| LiveError::impossible(error.message()))?
                    .ok_or_else(missing)?;
                let kept = if state_file.is_some() { "" } else { ", and its state will not be kept" };
                (run, SavedState::default(), true, Some(format!("{why}: the drive starts with a fresh state{kept}")))
            }
        };
        let system = system_of(&run).map_err(impossible)?;
        if system.host_sectors().map_err(impossible)? < bytes / SECTOR_BYTES {
            return Err(LiveError::image(
                path,
                "the image is longer than the drive that it is served as: give a larger one",
            ));
        }
        let image = DriveImage::new(path, file, bytes, system, run)?;
        Ok(DriveImage { saved, was_clean, note, is_read_only, state_file, ..image })
    }

    /// A new drive over other storage, and without a file for its state: for tests that cut the power.
    pub fn over(self, storage: Arc<dyn Storage>) -> DriveImage {
        DriveImage { file: None, storage, state_file: None, ..self }
    }

    /// The image without a place for its state: what is beside it stays as it is.
    pub fn read_only(self) -> DriveImage {
        DriveImage { state_file: None, ..self }
    }

    /// Sectors that a host is offered.
    pub fn sectors(&self) -> u64 {
        self.bytes / SECTOR_BYTES
    }

    /// The drive or the array that it is served as, its layers and their sizes.
    pub fn describe(&self) -> Value {
        let drives = self.system.drives();
        let all = |name: &dyn Fn(&DriveRun) -> String| {
            let mut names: Vec<String> = drives.iter().map(name).collect();
            names.dedup();
            names.join(", ")
        };
        let capacities = drives.iter().filter_map(|run| (run.layer.capacity)(&run.drive, &run.parameters).ok());
        let (raw, cache) = capacities.fold((0, 0), |sum, one| (sum.0 + one.raw_sectors, sum.1 + one.cache_sectors));
        let mut described = json!({
            "image": path_value(&self.path),
            "layer": all(&|drive| drive.layer.name.into()),
            "drive": all(&|drive| drive.drive.name.clone()),
            "export_bytes": self.bytes,
            "raw_bytes": raw * SECTOR_BYTES,
            "cache_bytes": cache * SECTOR_BYTES,
        });
        if let Some(array) = self.system.array() {
            described["array"] = format!("{} of {} drives", array.level, array.members.len()).into();
        }
        described
    }

    /// Replaces the state file: by this state, and no events since.
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
        let replaced = out.write_all(&bytes).and_then(|()| out.sync_data()).and_then(|()| target.replace_by(&new));
        if let Err(error) = replaced {
            let _ = fs::remove_file(&new);
            return Err(LiveError::io(&target.path, error));
        }
        let found = out.metadata().map_err(|error| LiveError::io(&target.path, error))?;
        (target.own, target.out) = (Some((found.dev(), found.ino())), Some(out));
        Ok(())
    }

    /// Appends events to the state file, as lines.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        match self.state_file.as_mut().and_then(|file| file.out.as_mut()) {
            Some(out) => out.write_all(lines),
            None => Ok(()),
        }
    }

    /// Makes the events durable that were appended.
    pub(super) fn sync_events(&self) -> io::Result<()> {
        self.state_file.as_ref().and_then(|file| file.out.as_ref()).map_or(Ok(()), File::sync_data)
    }
}

impl StateFile {
    /// Puts the file at `new` in the place of the one that was read or written last; if another is there, it stays.
    fn replace_by(&self, new: &Path) -> io::Result<()> {
        match self.own {
            None => Ok(rustix::fs::renameat_with(CWD, new, CWD, &self.path, RenameFlags::NOREPLACE)?),
            Some(own) => {
                let found = fs::symlink_metadata(&self.path)?;
                if (found.dev(), found.ino()) != own {
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
