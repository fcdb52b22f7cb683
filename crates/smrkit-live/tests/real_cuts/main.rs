//! Power cuts on real file systems: the metadata directory lies on ext4, xfs and btrfs, on a loop device whose writes and
//! flushes are recorded together with those of the image. On one more ext4 the image lies beside the directory. Each cut is
//! replayed, mounted and compared with what was promised.
//!
//! Needs root, FUSE and loop devices; skips without. SMRKIT_REAL_CUTS cuts (60) are tried a file system.

#[path = "../../../smrkit/tests/common/count.rs"]
mod count;
mod history;
mod host;
mod recorder;
mod replay;
mod zones;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Model;
use smrfs::fs::{FileSystem, FsOptions};
use smrfs::meta::{Durability, Kind, Maps, MetadataStore, NewNode, RenameMode, SetAttr};
use smrfs::units::NodeId;
use smrkit_live::volume::{Layout, MkfsOptions, Open, Volume, mkfs};

use count::count_from;
use history::{Content, History};
use host::{Host, Mounted};
use recorder::{Event, NAMES, Recorder};
use replay::{Loss, cut, settle};

const IMAGE_BYTES: u64 = 48 << 20;
const SLOTS: usize = 8;
/// Bytes of a file whose checksums alone fill more than an attribute has room for.
const LONG_BYTES: usize = 6 << 20;
const STEPS: usize = 400;
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn on_ext4_what_was_synced_outlives_a_power_cut() {
    on_host(&host::EXT4);
}

#[test]
fn beside_its_metadata_on_ext4_an_image_outlives_a_power_cut() {
    on_host(&host::EXT4_WITH_IMAGE);
}

#[test]
fn on_xfs_what_was_synced_outlives_a_power_cut() {
    on_host(&host::XFS);
}

#[test]
fn on_btrfs_what_was_synced_outlives_a_power_cut() {
    on_host(&host::BTRFS);
}

fn on_host(host: &Host) {
    if let Some(reason) = host::missing(host) {
        println!("skipped: {reason}");
        return;
    }
    // One after another: a loop device given back by one test is not at once as new for the next.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cuts = count_from("SMRKIT_REAL_CUTS", 40);
    for (seed, model) in [Model::Caveat, Model::StrictAppend].into_iter().enumerate() {
        let place = Place::new();
        let recorded = record(host, model, &place, seed as u64);
        let tried = replayed(host, &place, &recorded, cuts / 2, seed as u64);
        println!("{} {model:?}: {tried} cuts of {} events", host.name, recorded.events.len());
        assert!(tried >= cuts / 2);
    }
}

/// Folder of everything.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = ["/dev/shm", "/tmp"].into_iter().find_map(|at| tempfile::tempdir_in(at).ok());
        let place = Place { folder: folder.expect("a place for temporary files") };
        for name in ["store", "recorded", "meta", "base", "scratch"] {
            std::fs::create_dir(place.path(name)).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Copies the two files from one folder to another; holes stay holes.
    fn copy(&self, from: &str, to: &str) {
        for name in NAMES {
            let (from, to) = (self.path(from).join(name), self.path(to).join(name));
            let done = Command::new("cp").arg("--sparse=always").args([&from, &to]).status().unwrap();
            assert!(done.success(), "cp to {}", to.display());
        }
    }

    fn open(&self, folder: &str) -> [File; 2] {
        NAMES.map(|name| OpenOptions::new().write(true).open(self.path(folder).join(name)).unwrap())
    }
}

/// A run, and what it promised.
struct Recorded {
    events: Vec<Event>,
    names: BTreeMap<String, History>,
}

/// The place of the image: beside the metadata directory, or where it's recorded by itself.
fn image_of(host: &Host, recorded: &Path, meta: &Path) -> PathBuf {
    if host.has_image { meta.join("image") } else { recorded.join("image") }
}

fn open(image: &Path, meta: &Path) -> (Volume, FileSystem) {
    // Copies of the image are for everyone.
    let how = Open { meta: Some(meta.join("smrfs")), trust_open_metadata: true, ..Open::default() };
    let volume = Volume::open(image, &how).unwrap();
    let store: Arc<dyn MetadataStore> = volume.store();
    let fs = FileSystem::mount(volume.device(), store, volume.space().unwrap(), FsOptions::default()).unwrap();
    (volume, fs)
}

fn record(host: &Host, model: Model, place: &Place, seed: u64) -> Recorded {
    let (at, meta) = (place.path("recorded"), place.path("meta"));
    let recorder = Recorder::mount(&place.path("store"), &at, [host.bytes, IMAGE_BYTES]).unwrap();
    let image = image_of(host, &at, &meta);
    let made = Mounted::new(host, &at.join("disk"), &meta, true).unwrap();
    let layout = Layout { model, size_bytes: IMAGE_BYTES, did_bytes: None, dpid_bytes: None, band_bytes: None };
    mkfs(&MkfsOptions { image: image.clone(), meta: meta.join("smrfs"), layout, force: true }).unwrap();
    drop(made);
    place.copy("store", "base");

    recorder.start();
    let mounted = Mounted::new(host, &at.join("disk"), &meta, false).unwrap();
    let (volume, fs) = open(&image, &meta);
    assert_eq!(volume.store().journal().is_some(), host.name == "ext4");
    if host.has_image {
        fsyncs_flush_once(&fs, &meta, &recorder);
    }
    let mut writer =
        Writer { fs, recorder: &recorder, names: BTreeMap::new(), rng: Pcg64::seed_from_u64(seed), whole: 0 };
    writer.make_long("f0");
    assert!(!volume.store().spills().unwrap().is_empty(), "its map fits a record");
    for _ in 0..STEPS {
        writer.step();
    }
    let names = std::mem::take(&mut writer.names);
    drop((writer, volume));
    let events = recorder.stop();
    drop(mounted);
    recorder.finish().unwrap();
    Recorded { events, names }
}

/// Fails unless the disk is flushed as often for a file here as for an attribute of a file of the host, which is a commit: whether the
/// file is short, has a map too long for a record, or is new.
fn fsyncs_flush_once(fs: &FileSystem, meta: &Path, recorder: &Recorder) {
    let make = |name: &str| {
        let new = NewNode { kind: Kind::File, mode: 0o600, uid: 0, gid: 0, rdev: 0 };
        fs.make(fs.root(), name.as_bytes(), &new).unwrap().id
    };
    let plain = File::create(meta.join("plain")).unwrap();
    let counted = |sync: &dyn Fn(u8)| {
        let once = |value| {
            let before = recorder.flushes();
            sync(value);
            recorder.flushes() - before
        };
        // The first makes names durable as well; and the host may commit in between.
        once(0);
        (1..6).map(once).min()
    };
    let host = counted(&|value| {
        rustix::fs::fsetxattr(&plain, "user.value", &[value; 100], rustix::fs::XattrFlags::empty()).unwrap();
        plain.sync_all().unwrap();
    });
    let write = |id: NodeId, value: u8| {
        fs.write(id, 0, Data::Bytes(&[value; 4096])).unwrap();
        fs.sync(id).unwrap();
    };
    let [short, long] = ["short", "long"].map(make);
    fs.write(long, 0, Data::Bytes(&vec![7u8; LONG_BYTES])).unwrap();
    let ours = [
        counted(&|value| write(short, value)),
        counted(&|value| write(long, value)),
        counted(&|value| write(make(&format!("new{value}")), value)),
    ];
    assert_eq!(ours, [host; 3]);
    for name in ["short", "long", "new0", "new1", "new2", "new3", "new4", "new5"] {
        let id = fs.lookup(fs.root(), name.as_bytes()).unwrap().id;
        fs.unlink(fs.root(), name.as_bytes()).unwrap();
        fs.forget(id, 2);
    }
}

/// Changes files, and keeps account of what may be found after a cut.
struct Writer<'a> {
    fs: FileSystem,
    recorder: &'a Recorder,
    names: BTreeMap<String, History>,
    rng: Pcg64,
    /// Counts the files that were written to replace another.
    whole: usize,
}

impl Writer<'_> {
    fn step(&mut self) {
        let name = format!("f{}", self.rng.random_range(0..SLOTS));
        let exists = self.names.get(&name).is_some_and(|history| history.now().is_some());
        match self.rng.random_range(0..20) {
            _ if !exists => self.make(&name),
            0..8 => self.write(&name),
            8 | 9 => self.truncate(&name),
            10..15 => self.sync(&name),
            15..17 => self.replace(&name),
            17 => self.remove(&name),
            18 => self.sync_names(),
            _ => self.commit(),
        }
    }

    fn begin(&mut self, name: &str, content: Content) {
        let position = self.recorder.position();
        self.names.entry(name.into()).or_default().change(position, content);
    }

    fn id(&self, name: &str) -> NodeId {
        self.fs.lookup(self.fs.root(), name.as_bytes()).unwrap().id
    }

    fn make(&mut self, name: &str) {
        self.begin(name, Some(Vec::new()));
        let new = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
        self.fs.make(self.fs.root(), name.as_bytes(), &new).unwrap();
        self.write(name);
    }

    /// A file whose map does not fit a record.
    fn make_long(&mut self, name: &str) {
        let mut bytes = vec![0; LONG_BYTES];
        self.rng.fill_bytes(&mut bytes);
        self.begin(name, Some(Vec::new()));
        let new = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
        let id = self.fs.make(self.fs.root(), name.as_bytes(), &new).unwrap().id;
        self.begin(name, Some(bytes.clone()));
        self.fs.write(id, 0, Data::Bytes(&bytes)).unwrap();
        self.sync(name);
    }

    fn bytes(&mut self) -> Vec<u8> {
        let count = match self.rng.random_range(0..3) {
            0 => self.rng.random_range(1..5000),
            1 => 4096 * self.rng.random_range(1..8),
            _ => self.rng.random_range(60_000..300_000),
        };
        let mut bytes = vec![0; count];
        self.rng.fill_bytes(&mut bytes);
        bytes
    }

    fn write(&mut self, name: &str) {
        let mut content = self.names[name].now().unwrap_or_default();
        let at = self.rng.random_range(0..=content.len());
        let bytes = self.bytes();
        content.resize(content.len().max(at + bytes.len()), 0);
        content[at..at + bytes.len()].copy_from_slice(&bytes);
        self.begin(name, Some(content));
        self.fs.write(self.id(name), at as u64, Data::Bytes(&bytes)).unwrap();
    }

    fn truncate(&mut self, name: &str) {
        let mut content = self.names[name].now().unwrap_or_default();
        content.resize(self.rng.random_range(0..=content.len() * 5 / 4), 0);
        let set = SetAttr { size: Some(content.len() as u64), ..SetAttr::default() };
        self.begin(name, Some(content));
        self.fs.set_attributes(self.id(name), &set).unwrap();
    }

    fn sync(&mut self, name: &str) {
        self.fs.sync(self.id(name)).unwrap();
        self.promise(name);
    }

    fn promise(&mut self, name: &str) {
        let position = self.recorder.position();
        self.names.entry(name.into()).or_default().promise(position);
    }

    /// As editors save: a new file, synced, takes the name over.
    fn replace(&mut self, name: &str) {
        let (bytes, other) = (self.bytes(), format!("new{}", self.whole));
        self.whole += 1;
        let (root, new) = (self.fs.root(), NewNode { kind: Kind::File, mode: 0o600, uid: 0, gid: 0, rdev: 0 });
        let id = self.fs.make(root, other.as_bytes(), &new).unwrap().id;
        self.fs.write(id, 0, Data::Bytes(&bytes)).unwrap();
        self.fs.sync(id).unwrap();
        self.begin(name, Some(bytes));
        self.fs.rename((root, other.as_bytes()), (root, name.as_bytes()), RenameMode::Replace).unwrap();
    }

    fn remove(&mut self, name: &str) {
        self.begin(name, None);
        self.fs.unlink(self.fs.root(), name.as_bytes()).unwrap();
    }

    /// Names last, whatever becomes of the data: what is unsaved in a file may go.
    fn sync_names(&mut self) {
        self.fs.sync_dir(self.fs.root()).unwrap();
        let gone: Vec<String> =
            self.names.iter().filter(|(_, history)| history.now().is_none()).map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| self.promise(name));
    }

    fn commit(&mut self) {
        self.fs.sync_all().unwrap();
        let names: Vec<String> = self.names.keys().cloned().collect();
        names.iter().for_each(|name| self.promise(name));
    }
}

/// Replays cuts spread over the recording; tells how many.
fn replayed(host: &Host, place: &Place, recorded: &Recorded, cuts: usize, seed: u64) -> usize {
    let events = &recorded.events;
    let mut rng = Pcg64::seed_from_u64(seed + 1000);
    let mut at: Vec<usize> = (0..cuts).map(|_| rng.random_range(0..=events.len())).collect();
    at.sort_unstable();
    let base = place.open("base");
    let (mut pending, mut settled) = (Vec::new(), 0);
    for (number, &to) in at.iter().enumerate() {
        for index in settled..to {
            settle(events, &mut pending, index, &base).unwrap();
        }
        settled = to;
        place.copy("base", "scratch");
        let loss = [Loss::Some, Loss::Lost, Loss::Some, Loss::Kept][number % 4];
        cut(events, &pending, to, loss, &mut rng, &place.open("scratch")).unwrap();
        if let Err(what) = verify(host, place, recorded, to) {
            panic!("{} after a cut at {to} of {}, unflushed writes {loss:?}: {what}", host.name, events.len());
        }
    }
    at.len()
}

/// Mounts what a cut left and compares it with what was promised; then works on with it.
fn verify(host: &Host, place: &Place, recorded: &Recorded, cut: usize) -> Result<(), String> {
    let (scratch, meta) = (place.path("scratch"), place.path("meta"));
    let text = |error: io::Error| error.to_string();
    let _mounted = Mounted::new(host, &scratch.join("disk"), &meta, false).map_err(text)?;
    let (mut volume, fs) = open(&image_of(host, &scratch, &meta), &meta);
    let mut live = 0;
    for (name, history) in &recorded.names {
        let content = read(&fs, name)?;
        history.allows(cut, &content).map_err(|what| format!("{name}: {what}"))?;
    }
    let mut from = 0;
    loop {
        let entries = fs.list(fs.root(), from).map_err(|error| error.to_string())?;
        let Some(last) = entries.last() else { break };
        from = last.next;
        for entry in &entries {
            live += fs.attributes(entry.id).map_err(|error| error.to_string())?.blocks / 8;
        }
    }
    let usage = fs.usage().map_err(|error| error.to_string())?;
    if usage.live != live {
        return Err(format!("{} granules are taken, and the files have {live}", usage.live));
    }
    let id = fs.make(fs.root(), b"after", &NewNode { kind: Kind::File, mode: 0o600, uid: 0, gid: 0, rdev: 0 });
    let id = id.map_err(|error| error.to_string())?.id;
    fs.write(id, 0, Data::Bytes(&[7; 100_000])).map_err(|error| error.to_string())?;
    fs.unmount().map_err(|error| error.to_string())?;
    volume.close().map_err(|error| error.to_string())
}

fn read(fs: &FileSystem, name: &str) -> Result<Content, String> {
    let Ok(attr) = fs.lookup(fs.root(), name.as_bytes()) else { return Ok(None) };
    let mut bytes = vec![0; attr.size as usize];
    let count = fs.read(attr.id, 0, ReadBuffer::Bytes(&mut bytes)).map_err(|error| format!("{name}: {error}"))?;
    fs.forget(attr.id, 1);
    match count == attr.size {
        true => Ok(Some(bytes)),
        false => Err(format!("{name}: {count} of {} bytes can be read", attr.size)),
    }
}
