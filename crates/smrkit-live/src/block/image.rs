//! An image of a drive or an array: a head that says which drives and which layers, the bits of what the host has written, and the
//! platters.
//!
//! The file is sparse, and as long as all of it would be: 17/16 of each drive, for each sector's label. The head names the drive by the
//! text of its file, so that the image stays what it is when drive files change.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smrfs::map::checksum;
use smrkit::device::level::Level;
use smrkit::device::spec::MemberSpec;
use smrkit::drive::DRIVES;
use smrkit::engine::system::{DriveRun, MemberRun};
use smrkit::error::Error;
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::record;
use smrkit::experiment::system::DEFAULT_DRIVE;
use smrkit::layer::BASELINE;
use smrkit::medium::interference::Interference;
use smrkit::settings::Settings;
use smrkit::stats::outcome::RunRecord;
use smrkit::units::SECTOR_BYTES;

use super::journal;
use super::storage::Storage;
use super::store::Store;
use super::unsettled;
use super::written;
use crate::error::LiveError;
use crate::exclusive;

const MAGIC: &[u8; 8] = b"SMRdrive";
/// 4: its journal copies ranges; labels say that a band's tracks in the scratch pad, or an S-block, are whole.
const VERSION: u32 = 4;
/// Magic, version, length and checksum of the text, checksum of these.
const FIXED_BYTES: usize = 24;
/// The head's room; the bits of what was written follow.
const HEAD_BYTES: u64 = 1 << 20;
/// A byte that tells whether the image was closed in good order, in a sector of its own.
const STATE_BYTE: u64 = HEAD_BYTES - SECTOR_BYTES;
/// The number of its journal's first record follows, by which the journal is known to be its own.
const FIRST_RECORD_BYTE: u64 = STATE_BYTE + 8;
/// Parts of an image begin at multiples of this.
const ALIGN_BYTES: u64 = 1 << 20;
/// Zeros in a layer's books, of which a copy may have made holes, are no more than this (assumption).
const BOOKS_OF_ZEROS_BYTES: u64 = 64 << 20;
/// Exports are whole multiples of this many sectors, for hosts that know 4 KiB only.
const EXPORT_SECTORS: u64 = 8;

/// The head of an image: which drive or array it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageHead {
    /// The drive or the array: layers, sizes and parameters.
    pub run: RunRecord,
    /// The smrkit that made the image.
    pub made_by: String,
}

/// A served drive's image, locked against a second user.
pub struct DriveImage {
    drive: Arc<ImagedDrive>,
    file: Arc<dyn Storage>,
    store: Arc<Store>,
    was_clean: bool,
    /// The number of the first record of its journal.
    first_record: u64,
    /// Device and inode of the journal, to know it from another file at its path.
    journal: Option<(u64, u64)>,
}

/// The drive or the array that an image is of.
struct ImagedDrive {
    path: PathBuf,
    system: MemberRun,
    head: ImageHead,
    sizes: Sizes,
    places: Places,
}

/// Sectors of a drive or of an array.
struct Sizes {
    host: u64,
    /// Of all drives.
    raw: u64,
    cache: u64,
}

/// The drive or the array of `record`. Errors: an array of arrays, or a layer that breaks a drive's law of shingling.
pub fn system_of(record: &RunRecord) -> Result<MemberRun, Error> {
    refuse_paths(&MemberSpec::parse(&record.system)?, record)?;
    let system = record::planned(record, Settings::default())?.system().clone();
    if let MemberRun::Array(array) = &system {
        if array.members.iter().any(|member| member.array().is_some()) {
            let remedy = "an image holds an array of drives, not of arrays: make one for each, and let the host's md or lvm join them";
            return Err(Error::Impossible(remedy.into()));
        }
        if array.level == Level::Dedicated {
            let remedy =
                "a host has no sources for the drives of a dedicated array: make it a span, or an image for each drive";
            return Err(Error::Impossible(remedy.into()));
        }
    }
    system.with_drives(&held_by_its_layer)
}

/// Refuses drives whose text is not in the record: the path of a file may name anything, and whoever wrote it may be anybody.
fn refuse_paths(spec: &MemberSpec, record: &RunRecord) -> Result<(), Error> {
    let name = match spec {
        MemberSpec::Array(array) => return array.members.iter().try_for_each(|member| refuse_paths(member, record)),
        MemberSpec::Drive(drive) => drive.drive.as_deref().unwrap_or(DEFAULT_DRIVE),
    };
    // Behind the name of a drive that comes with smrkit may stand an end of a range, as @KEY=low.
    let is_built_in = DRIVES.iter().any(|(own, _)| name.split('@').next() == Some(own)) && !name.contains('/');
    match is_built_in || record.drive_files.contains_key(name) {
        true => Ok(()),
        false => {
            Err(Error::Usage(format!("the drive `{name}` does not come with smrkit, and its text is missing here")))
        }
    }
}

/// A drive as it stands in an image. Errors: its layer breaks its law of shingling.
fn held_by_its_layer(run: &DriveRun) -> Result<DriveRun, Error> {
    let mut run = run.clone();
    if run.layer.name == BASELINE {
        // A conventional disk: the platters of the drive without their shingling.
        run.drive = run.drive.with_interference(Interference::None)?;
    } else if run.drive.interference.form().is_some_and(|form| !run.layer.copes_with.contains(&form)) {
        let (layer, drive) = (run.layer.name, &run.drive.name);
        let problem = format!("layer {layer} would destroy data on {drive}, whose law of shingling it does not know");
        return Err(Error::Impossible(problem + ": choose another layer or drive (smrkit layers)"));
    }
    Ok(run)
}

/// The record of a run with the text of every drive file, those that come with smrkit included.
pub fn complete_record(run: &PlannedRun) -> RunRecord {
    let mut record = run.record();
    for drive in run.system().drives() {
        if let Some((name, text)) = DRIVES.iter().find(|(name, _)| *name == drive.drive.name) {
            record.drive_files.entry(name.to_string()).or_insert_with(|| text.to_string());
        }
    }
    record
}

/// Makes an image of the drive or the array in `record`; with `force` over one that is there.
pub fn create(path: &Path, record: RunRecord, force: bool) -> Result<DriveImage, LiveError> {
    let system = system_of(&record).map_err(|error| LiveError::impossible(error.message()))?;
    let mut options = File::options();
    options.read(true).write(true).mode(0o600).create(true).create_new(!force);
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(LiveError::Exists(path.into())),
        file => file.map_err(|error| LiveError::io(path, error))?,
    };
    lock(path, &file)?;
    let journal = journal_path(path);
    if fs::symlink_metadata(&journal).is_ok_and(|found| found.len() > 0) {
        let _ = if force { Ok(()) } else { fs::remove_file(path) };
        return Err(LiveError::image(
            &journal,
            "a file is where the image's journal is to be: move it away, or remove it",
        ));
    }
    let head = ImageHead { run: record, made_by: smrkit::VERSION.into() };
    let write = || {
        file.set_len(0)?;
        file.set_len(Places::of(&system)?.end)?;
        file.write_all_at(&encode(&head)?, 0)?;
        file.write_all_at(&[1], STATE_BYTE)?;
        file.sync_all()
    };
    write().map_err(|error| {
        if !force {
            // It was not there before.
            let _ = fs::remove_file(path);
        }
        match error.kind() {
            io::ErrorKind::FileTooLarge => {
                let remedy = "this file system holds no file as long as these drives: give smaller drives, or another file system (xfs, tmpfs)";
                LiveError::image(path, remedy)
            }
            _ => LiveError::io(path, error),
        }
    })?;
    drop(file);
    let image = DriveImage::open(path, false)?;
    image.close(None)?;
    Ok(image)
}

fn missing_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn lock(path: &Path, file: &File) -> Result<(), LiveError> {
    exclusive::lock(file).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => LiveError::InUse(path.into()),
        error => LiveError::os(path, error),
    })
}

/// The journal of the image at `path`.
pub fn journal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".journal");
    name.into()
}

/// Tells whether the file at `path` begins as an image of a served drive does.
pub fn is_drive_image(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    File::open(path).and_then(|file| file.read_exact_at(&mut magic, 0)).is_ok() && magic == *MAGIC
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
    /// Opens the image at `path` for this process alone. With `keeps_journal`, a crash of the host loses nothing that was flushed.
    pub fn open(path: &Path, keeps_journal: bool) -> Result<DriveImage, LiveError> {
        let failed = |error| LiveError::io(path, error);
        let file = File::options().read(true).write(true).open(path).map_err(|error| not_opened(path, error))?;
        lock(path, &file)?;
        let head = decode(path, &file)?;
        let system = system_of(&head.run).map_err(|error| LiveError::image(path, error.to_string()))?;
        let places = Places::of(&system).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() < places.end {
            let what = "the image is shorter than its drive: copy it again (cp --sparse=always)";
            return Err(LiveError::image(path, what));
        }
        let sizes = Sizes::of(&system).map_err(|error| LiveError::image(path, error.to_string()))?;
        let journal_bytes = keeps_journal.then_some(journal::FULL_BYTES);
        let (was_clean, first_record) = state(&file).map_err(failed)?;
        let (journal, identity) = open_journal(&journal_path(path), was_clean, first_record)?;
        let drive = Arc::new(ImagedDrive { path: path.into(), system, head, sizes, places });
        let image = DriveImage::in_files(drive, Arc::new(file), Arc::new(journal), journal_bytes)?;
        Ok(DriveImage { journal: Some(identity), ..image })
    }

    /// The drive in other storage, for tests that cut the power. `journal_bytes`: size at which the journal moves to the image.
    pub fn in_storage(
        &self,
        file: Arc<dyn Storage>,
        journal: Arc<dyn Storage>,
        journal_bytes: Option<u64>,
    ) -> Result<DriveImage, LiveError> {
        DriveImage::in_files(self.drive.clone(), file, journal, journal_bytes)
    }

    fn in_files(
        drive: Arc<ImagedDrive>,
        file: Arc<dyn Storage>,
        journal: Arc<dyn Storage>,
        journal_bytes: Option<u64>,
    ) -> Result<DriveImage, LiveError> {
        let open = || {
            let (was_clean, found) = state(&*file)?;
            // An image in use has a journal that goes on.
            let first = if was_clean { RandomState::new().hash_one(0) >> 3 } else { found };
            let own = drive.places.written..drive.places.end;
            Ok((
                Arc::new(Store::open(file.clone(), own, journal, journal_bytes, first.max(1))?),
                was_clean,
                first.max(1),
            ))
        };
        let (store, was_clean, first_record) = open().map_err(|error| LiveError::io(&drive.path, error))?;
        Ok(DriveImage { drive, file, store, was_clean, first_record, journal: None })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.drive.path
    }

    /// The drive under its layer, or the array of such drives.
    pub fn system(&self) -> &MemberRun {
        &self.drive.system
    }

    /// The image's head.
    pub fn head(&self) -> &ImageHead {
        &self.drive.head
    }

    /// Sectors that a host is offered.
    pub fn export_sectors(&self) -> u64 {
        self.drive.sizes.host / EXPORT_SECTORS * EXPORT_SECTORS
    }

    /// The drive or the array that it is an image of, its layers and their sizes.
    pub fn describe(&self) -> Value {
        let (drives, sizes) = (self.system().drives(), &self.drive.sizes);
        let all = |name: &dyn Fn(&DriveRun) -> String| {
            let mut names: Vec<String> = drives.iter().map(|drive| name(drive)).collect();
            names.dedup();
            names.join(", ")
        };
        let mut described = json!({
            "image": self.path(),
            "layer": all(&|drive| drive.layer.name.into()),
            "drive": all(&|drive| drive.drive.name.clone()),
            "export_bytes": self.export_sectors() * SECTOR_BYTES,
            "raw_bytes": sizes.raw * SECTOR_BYTES,
            "cache_bytes": sizes.cache * SECTOR_BYTES,
        });
        if let Some(array) = self.system().array() {
            described["array"] = format!("{} of {} drives", array.level, array.members.len()).into();
        }
        described
    }

    /// True if it was closed in good order.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Places of its parts.
    pub(super) fn places(&self) -> &Places {
        &self.drive.places
    }

    /// From now on the image is in use: whoever opens it next finds that out, unless it is closed first.
    pub(super) fn begin(&self) -> Result<(), LiveError> {
        let write = self.file.write(FIRST_RECORD_BYTE, &self.first_record.to_le_bytes());
        write.map_err(|error| LiveError::io(&self.drive.path, error))?;
        self.mark(0)?;
        self.file.set_length(self.places().end).map_err(|error| LiveError::io(&self.drive.path, error))
    }

    /// All of it is in the image, durably, and behind the platters the layer's books, if it has any; the journal is gone.
    pub(super) fn close(&self, books: Option<&[u64]>) -> Result<(), LiveError> {
        let write = || {
            if let Some(books) = books {
                let words: Vec<u8> = books.iter().flat_map(|word| word.to_le_bytes()).collect();
                let whole = [&u64::from(checksum(&words)).to_le_bytes()[..], &words].concat();
                self.file.write(self.places().end, &whole)?;
            }
            self.store.close()
        };
        write().map_err(|error| LiveError::io(&self.drive.path, error))?;
        self.mark(1)?;
        let path = journal_path(&self.drive.path);
        match self.journal.is_some_and(|own| identity(&path).is_ok_and(|found| found == own)) {
            true => fs::remove_file(&path).or_else(missing_is_fine).map_err(|error| LiveError::io(&path, error)),
            false => Ok(()),
        }
    }

    /// Books of the layers as they were when the image was closed in good order.
    pub(super) fn books(&self) -> io::Result<Option<Vec<u64>>> {
        let (end, length) = (self.places().end, self.file.length()?);
        if !self.was_clean || length < end + 8 || self.is_too_long(end, length)? {
            return Ok(None);
        }
        let mut bytes = vec![0; (length - end) as usize];
        self.file.read(end, &mut bytes)?;
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let mut words: Vec<u64> = words.collect();
        let sum = words.remove(0);
        Ok((sum == u64::from(checksum(&bytes[8..]))).then_some(words))
    }

    /// True if books would take more memory than they take room: a forged length costs no room.
    fn is_too_long(&self, mut at: u64, end: u64) -> io::Result<bool> {
        let mut room = BOOKS_OF_ZEROS_BYTES;
        while let Some(range) = self.file.allocated_from(at)? {
            room += 2 * (range.end - range.start);
            at = range.end;
        }
        Ok(end - self.places().end > room)
    }

    fn mark(&self, state: u8) -> Result<(), LiveError> {
        let write = self.file.write(STATE_BYTE, &[state]).and_then(|()| self.file.sync());
        write.map_err(|error| LiveError::io(&self.drive.path, error))
    }
}

/// True if the image was closed in good order, and the number of its journal's first record.
fn state<S: Storage + ?Sized>(file: &S) -> io::Result<(bool, u64)> {
    let (mut state, mut first) = ([0], [0; 8]);
    file.read(STATE_BYTE, &mut state)?;
    file.read(FIRST_RECORD_BYTE, &mut first)?;
    Ok((state[0] == 1, u64::from_le_bytes(first)))
}

/// Device and inode of what is at a path; of a link itself.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Opens the journal of an image whose records are numbered from `first` on, or makes one. Errors: what is there is none of this image,
/// or its own is missing.
fn open_journal(path: &Path, was_clean: bool, first: u64) -> Result<(File, (u64, u64)), LiveError> {
    let failed = |error| LiveError::io(path, error);
    let mut options = File::options();
    options.read(true).write(true).create(was_clean).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let what =
                "the image was not closed in good order, and its journal is missing: copy both, image and journal";
            LiveError::image(path, what)
        }
        _ => failed(error),
    })?;
    let found = file.metadata().map_err(failed)?;
    let is_own = match was_clean {
        // A clean image has no journal: this is that of an earlier state, or of something else.
        true => found.len() == 0,
        false => journal::belongs(&file, first).map_err(failed)?,
    };
    if !found.is_file() || !is_own {
        let what = "a file that is not the journal of this image as it is now: restore both of the same time, or move the file away";
        return Err(LiveError::image(path, what));
    }
    Ok((file, (found.dev(), found.ino())))
}

impl Sizes {
    fn of(system: &MemberRun) -> Result<Sizes, Error> {
        let mut sizes = Sizes { host: system.host_sectors()?, raw: 0, cache: 0 };
        for run in system.drives() {
            let capacity = (run.layer.capacity)(&run.drive, &run.parameters)?;
            sizes.raw += capacity.raw_sectors;
            sizes.cache += capacity.cache_sectors;
        }
        Ok(sizes)
    }
}

/// Places where the parts of an image begin, and its end.
pub(super) struct Places {
    /// The bits of what the host has written.
    pub written: u64,
    /// The bits of those parts of an array that a crash may catch half written.
    pub unsettled: u64,
    /// Places of each drive.
    pub drives: Vec<DrivePlaces>,
    /// The end of the image.
    pub end: u64,
}

/// Places where the parts of a drive begin.
pub(super) struct DrivePlaces {
    /// The bits of what an array has written to it.
    pub written: u64,
    /// The platters, with the labels behind them.
    pub platters: u64,
}

impl Places {
    fn of(system: &MemberRun) -> io::Result<Places> {
        let bits = |sectors: Result<u64, Error>| sectors.map(written::bytes_for).map_err(io::Error::other);
        let unsettled = HEAD_BYTES + bits(system.host_sectors())?;
        let mut places = Places { written: HEAD_BYTES, unsettled, drives: Vec::new(), end: unsettled };
        if let Some(array) = system.array() {
            places.end += bits(unsettled::parts(array))?;
        }
        for run in system.drives() {
            let written = places.end;
            let own = if system.array().is_some() { bits(run.host_sectors())? } else { 0 };
            let platters = (written + own).next_multiple_of(ALIGN_BYTES);
            let sectors = run.drive.geometry.sectors();
            places.end = platters + (sectors + sectors.div_ceil(16)) * SECTOR_BYTES;
            places.drives.push(DrivePlaces { written, platters });
        }
        Ok(places)
    }

    /// The parts of the drives.
    pub(super) fn media(&self) -> std::ops::Range<u64> {
        self.drives[0].written..self.end
    }
}

fn encode(head: &ImageHead) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(head)?;
    if (FIXED_BYTES + text.len()) as u64 > STATE_BYTE {
        return Err(io::Error::other("the drive file is longer than the head of an image: shorten its comments"));
    }
    Ok([encode_fixed(VERSION, &text), text].concat())
}

fn encode_fixed(version: u32, text: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for word in [version, text.len() as u32, checksum(text)] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes
}

fn decode(path: &Path, file: &File) -> Result<ImageHead, LiveError> {
    let wrong = |what: &str| LiveError::image(path, what);
    let mut fixed = [0; FIXED_BYTES];
    let read = file.read_exact_at(&mut fixed, 0);
    if read.is_err() || !fixed.starts_with(MAGIC) {
        return Err(wrong(
            "no image of a served drive: make one with smrkit create (SMRfs images are for smrkit mount)",
        ));
    }
    let word = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let damaged = || wrong("the head of the image is damaged: restore it from a copy");
    if word(20) != checksum(&fixed[..20]) {
        return Err(damaged());
    }
    if word(8) != VERSION {
        return Err(wrong(&format!("an image of format {}, made by another smrkit: use that one", word(8))));
    }
    let mut text = vec![0; (word(12) as usize).min(STATE_BYTE as usize)];
    let read = file.read_exact_at(&mut text, FIXED_BYTES as u64);
    if read.is_err() || checksum(&text) != word(16) {
        return Err(damaged());
    }
    serde_json::from_slice(&text).map_err(|_| damaged())
}

#[cfg(test)]
mod tests {
    use smrkit::experiment::size::AskedCapacity;
    use smrkit::experiment::system::{System, Systems};

    use super::*;

    /// The format that the image's file names.
    fn version(path: &Path) -> u32 {
        let mut word = [0; 4];
        File::open(path).unwrap().read_exact_at(&mut word, 8).unwrap();
        u32::from_le_bytes(word)
    }

    #[test]
    fn an_image_of_another_format_is_refused_and_left_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("drive.img");
        let system = System::drive("st5000as0011").layer("log").capacity(AskedCapacity::Sectors(2_000_000));
        let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
        let head = create(&path, complete_record(&planned), false).unwrap().head().clone();
        let text = &encode(&head).unwrap()[FIXED_BYTES..];
        for (format, opens) in [(VERSION - 1, false), (VERSION, true), (VERSION + 1, false)] {
            File::options().write(true).open(&path).unwrap().write_all_at(&encode_fixed(format, text), 0).unwrap();
            let opened = DriveImage::open(&path, true);
            assert_eq!((opened.is_ok(), version(&path)), (opens, format));
            assert!(opened.is_err() || opened.is_ok_and(|image| image.was_clean() && *image.head() == head));
        }
    }
}
