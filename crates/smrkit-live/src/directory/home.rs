//! The directory of a metadata store: its folders, its identity, the abilities of its file system, and the lock against a second user.
//!
//! An attribute of the directory holds its own UUID and the image's, to notice a wrong directory, or one that lost attributes in a copy.

use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatVfs};
use rustix::io::Errno as Os;
use serde::Serialize;
use smrfs::error::FsResult;
use smrfs::meta::StoreRoom;
use smrfs::superblock::{Uuid, VolumeKey};

use super::attributes::OWN;
use super::host::{self, ATTRIBUTE_BYTES_MAX, get, set};
use super::mark::MountStep;
use super::seal::{SEAL_BYTES, Sealer};
use super::{os_error, walk};
use crate::error::LiveError;
use crate::exclusive;
use crate::reserve::Reserve;

/// The attribute of the directory: version, its UUID, the image's, bytes for attributes of a file, and whether attributes share these bytes.
const VOLUME: &[u8] = b"user.smrfs.volume";
/// The attribute of a saved state with the identities of the state's file, of the directory and of the tree when the state was stored.
const PLACE: &[u8] = b"user.smrfs.place";
/// The attribute of the directory that is changed for the sake of a commit.
const COMMIT: &[u8] = b"user.smrfs.commit";
/// The version of the directory's layout.
const VERSION: u32 = 1;
pub(super) const FOLDERS: [&str; 4] = ["tree", "maps", "state", "orphans"];
/// The least room for attributes: enough for a pointer to a spilled map, and as much for users.
const ATTRIBUTE_BYTES_MIN: usize = 512;
/// Bytes of the file system that must be free for the directory itself (assumption).
const FREE_BYTES_MIN: u64 = 1 << 20;

/// The directory of a metadata store, locked against a second user.
#[derive(Debug)]
pub struct Home {
    /// The directory.
    pub path: PathBuf,
    pub(super) fd: OwnedFd,
    volume: VolumeMark,
    /// Seals the volume's maps.
    pub(super) sealer: Sealer,
    /// For each folder of spilled parts, true if its name is known to be durable.
    pub(super) durable_folders: Mutex<[bool; 256]>,
    /// Room that is reserved for maps of accepted data.
    pub(super) reserve: Reserve,
}

impl Home {
    fn new(path: PathBuf, fd: OwnedFd, volume: VolumeMark, key: VolumeKey) -> Home {
        let reserve = Reserve::new(fd.try_clone().ok());
        Home { path, fd, volume, sealer: Sealer::new(key), durable_folders: Mutex::new([false; 256]), reserve }
    }
}

/// Contents of the directory's attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct VolumeMark {
    own: Uuid,
    image: Uuid,
    attribute_bytes: usize,
    is_shared: bool,
}

impl VolumeMark {
    fn text(&self) -> String {
        let VolumeMark { own, image, attribute_bytes, is_shared } = self;
        format!("{VERSION} {own} {image} {attribute_bytes} {}", u8::from(*is_shared))
    }

    fn parse(text: &[u8]) -> Option<VolumeMark> {
        let words: Vec<&str> = std::str::from_utf8(text).ok()?.split(' ').collect();
        let [version, own, image, bytes, shared] = words[..] else { return None };
        if version != VERSION.to_string() {
            return None;
        }
        let (own, image) = (own.parse().ok()?, image.parse().ok()?);
        Some(VolumeMark { own, image, attribute_bytes: bytes.parse().ok()?, is_shared: shared == "1" })
    }
}

pub(super) fn open_directory(path: &Path) -> Result<OwnedFd, Os> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn read_volume(fd: &OwnedFd) -> Option<VolumeMark> {
    VolumeMark::parse(&get(fd, VOLUME).ok()?)
}

fn absolute(path: &Path) -> Result<PathBuf, LiveError> {
    std::fs::canonicalize(path).map_err(|error| LiveError::io(path, error))
}

/// Bytes that a node takes on file systems without a table of nodes (assumption).
const NODE_BYTES: u64 = 4096;

/// Abilities of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// The longest attribute of a file, in bytes.
    pub attribute_bytes: usize,
    /// True if all attributes of a file share that room.
    pub is_shared: bool,
    /// Files that it has room for, besides the existing ones; a guess if the file system doesn't say.
    pub free_nodes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
}

impl Probe {
    /// Probes the file system of a directory, with a file whose name is removed at once, so that nothing is left.
    fn measure(path: &Path, directory: &OwnedFd) -> Result<Probe, LiveError> {
        let os = |error| LiveError::os(path, error);
        let stat = rustix::fs::fstatvfs(directory).map_err(os)?;
        let (free_nodes, free_bytes) = free_room(&stat).ok_or_else(|| LiveError::Full(path.into()))?;
        let name = ".smrfs-probe";
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR).map_err(os)?;
        rustix::fs::unlinkat(directory, name, AtFlags::empty()).map_err(os)?;
        let own = [OWN, b"map"].concat();
        let fits = |name: &[u8], bytes: usize| match set(&file, name, &vec![b'x'; bytes]) {
            Ok(()) => Ok(true),
            Err(Os::NOSPC | Os::TOOBIG | Os::RANGE | Os::DQUOT) => Ok(false),
            Err(Os::OPNOTSUPP | Os::PERM | Os::ACCESS) => Err(LiveError::NoAttributes(path.into())),
            Err(error) => Err(os(error)),
        };
        if !fits(&own, 16)? {
            return Err(LiveError::Full(path.into()));
        }
        // Bisects for the longest attribute: `fitting` bytes fit, and `excessive` don't.
        let (mut fitting, mut excessive) = (16, ATTRIBUTE_BYTES_MAX + 1);
        while fitting + 1 < excessive {
            let middle = usize::midpoint(fitting, excessive);
            if fits(&own, middle)? { fitting = middle } else { excessive = middle }
        }
        // Set once more, because the last one tried may not have fitted.
        fits(&own, fitting)?;
        // Attributes share their room if a second one, a quarter as long, does not fit beside the longest.
        let is_shared = !fits(b"user.other", fitting / 4)?;
        if fitting < ATTRIBUTE_BYTES_MIN {
            return Err(LiveError::ShortAttributes { path: path.into(), bytes: fitting });
        }
        Ok(Probe { attribute_bytes: fitting, is_shared, free_nodes, free_bytes })
    }
}

/// The free nodes and bytes; `None` if they are too few for a metadata directory.
fn free_room(stat: &StatVfs) -> Option<(u64, u64)> {
    // Some file systems, such as ramfs, report nothing, and are limited by memory only.
    let free_bytes = if stat.f_blocks == 0 { u64::MAX } else { stat.f_bavail.saturating_mul(stat.f_frsize) };
    let has_nodes = stat.f_files == 0 || stat.f_favail > 0;
    let free_nodes = if stat.f_files > 0 { stat.f_favail } else { free_bytes / NODE_BYTES };
    (free_bytes >= FREE_BYTES_MIN && has_nodes).then_some((free_nodes, free_bytes))
}

/// A directory that can become a metadata directory, locked; nothing in it has been changed yet.
#[derive(Debug)]
pub struct NewHome {
    /// The directory, absolute.
    pub path: PathBuf,
    fd: OwnedFd,
    /// Abilities of the file system.
    pub probe: Probe,
    /// True if it was created for this, and must be removed if `mkfs` fails.
    pub is_new: bool,
}

impl NewHome {
    /// Checks that a directory can become a metadata directory, and locks it. A directory that is one already is accepted only with `force`;
    /// one that does not exist is created.
    pub fn choose(path: &Path, force: bool) -> Result<NewHome, LiveError> {
        let is_new = match open_directory(path) {
            Err(Os::NOENT) => true,
            Err(Os::NOTDIR) => return Err(LiveError::NotADirectory(path.into())),
            Err(error) => return Err(LiveError::os(path, error)),
            Ok(fd) if read_volume(&fd).is_some() => {
                if !force {
                    return Err(LiveError::Exists(path.into()));
                }
                false
            }
            Ok(fd) => {
                let mut is_empty = true;
                // The root of an empty file system has the folder `lost+found`.
                walk::each_entry(&fd, |entry| is_empty &= entry.file_name() == c"lost+found")
                    .map_err(|error| LiveError::file_system(path, error))?;
                if !is_empty {
                    return Err(LiveError::NotEmpty(path.into()));
                }
                false
            }
        };
        if is_new {
            let created = std::fs::DirBuilder::new().mode(0o700).create(path);
            created.map_err(|error| LiveError::io(path, error))?;
        }
        NewHome::lock(path, is_new).inspect_err(|_| {
            if is_new {
                let _ = std::fs::remove_dir(path);
            }
        })
    }

    fn lock(path: &Path, is_new: bool) -> Result<NewHome, LiveError> {
        let fd = open_directory(path).map_err(|error| LiveError::os(path, error))?;
        exclusive::lock_path(path, &fd)?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| LiveError::os(path, error))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(LiveError::NotYours(path.into()));
        }
        let probe = Probe::measure(path, &fd)?;
        Ok(NewHome { path: absolute(path)?, fd, probe, is_new })
    }

    /// Makes it the metadata directory of `image`, with the UUID `own`; `key` seals its maps. Erases what an older metadata directory held, and
    /// denies other users access.
    pub fn format(self, own: Uuid, image: Uuid, key: VolumeKey) -> Result<Home, LiveError> {
        let NewHome { path, fd, probe, .. } = self;
        rustix::fs::fchmod(&fd, Mode::RWXU).map_err(|error| LiveError::os(&path, error))?;
        FOLDERS.iter().try_for_each(|folder| erase(&path, &fd, folder))?;
        let volume = VolumeMark { own, image, attribute_bytes: probe.attribute_bytes, is_shared: probe.is_shared };
        let home = Home::new(path, fd, volume, key);
        home.create_content().map_err(|error| LiveError::file_system(&home.path, error))?;
        Ok(home)
    }
}

/// Removes a folder and its contents, even if its owner, who runs this process, has no permissions in it.
fn erase(home: &Path, fd: &OwnedFd, folder: &str) -> Result<(), LiveError> {
    let path = home.join(folder);
    let failed_at = |error| LiveError::io(&path, error);
    match std::fs::remove_dir_all(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let top = host::open_directory(fd, folder.as_bytes()).map_err(|error| LiveError::os(&path, error))?;
            let granted = walk::each_directory(top, &mut |_, directory: &OwnedFd| {
                rustix::fs::fchmod(directory, Mode::RWXU).map_err(os_error)?;
                let mut below = walk::entries_of(directory)?;
                below.retain(|entry| entry.file_type == FileType::Directory);
                Ok(below)
            });
            granted.map_err(|error| LiveError::file_system(&path, error))?;
            std::fs::remove_dir_all(&path).map_err(failed_at)
        }
        done => done.map_err(failed_at),
    }
}

impl Home {
    /// Creates the directory's attributes and folders.
    fn create_content(&self) -> FsResult {
        // The attribute comes first: a directory that was left half made is then known as ours, and is accepted with `force`.
        set(&self.fd, VOLUME, self.volume.text().as_bytes()).map_err(os_error)?;
        self.make_missing_folders()?;
        // The root that users see has the usual mode of a new file system's root.
        rustix::fs::fchmod(self.folder("tree")?, Mode::from_raw_mode(0o755)).map_err(os_error)?;
        self.set_mark(0, MountStep::Closed, Path::new(""))?;
        self.sync_all()
    }

    /// Opens the metadata directory of `image`, whose maps `key` seals.
    pub fn open(path: &Path, own: Uuid, image: Uuid, key: VolumeKey) -> Result<Home, LiveError> {
        let fd = match open_directory(path) {
            Err(Os::NOENT) => return Err(LiveError::NoMetadata(path.into())),
            Err(Os::NOTDIR) => return Err(LiveError::NotADirectory(path.into())),
            fd => fd.map_err(|error| LiveError::os(path, error))?,
        };
        let volume = read_volume(&fd).ok_or_else(|| LiveError::NotMetadata(path.into()))?;
        if volume.image != image || volume.own != own {
            return Err(LiveError::OtherImage { path: path.into(), belongs: volume.image, image });
        }
        exclusive::lock_path(path, &fd)?;
        let home = Home::new(absolute(path)?, fd, volume, key);
        home.folder("tree").map_err(|_| LiveError::NoTree(path.join("tree")))?;
        Ok(home)
    }

    /// Removes all saved states, because they can't be trusted after a crash. Keeps damaged maps that a check has put aside.
    pub fn forget_states(&self) -> FsResult {
        let folder = self.folder("state")?;
        walk::remove_files(&folder, |name| name.to_bytes().starts_with(b"damaged-map."))?;
        rustix::fs::fsync(folder).map_err(os_error)
    }

    /// Binds a saved state to this directory, because it names nodes by their numbers, which are others in a copy.
    pub(super) fn bind(&self, state: &OwnedFd) -> FsResult {
        match self.place_of(state)? {
            Some(place) => set(state, PLACE, place.as_bytes()).map_err(os_error),
            None => Ok(()),
        }
    }

    /// True if a saved state is where it was stored: neither it nor the directory is a copy.
    pub(super) fn is_bound(&self, state: &OwnedFd) -> FsResult<bool> {
        let Some(place) = self.place_of(state)? else { return Ok(false) };
        Ok(get(state, PLACE).is_ok_and(|noted| noted == place.as_bytes()))
    }

    /// The identity of a state, the directory and the tree; `None` if the file system does not report when nodes were created.
    fn place_of(&self, state: &OwnedFd) -> FsResult<Option<String>> {
        let births = [host::birth(state)?, host::birth(&self.fd)?, host::birth(&self.folder("tree")?)?];
        let words: Option<Vec<String>> = births.into_iter().collect();
        Ok(words.map(|words| words.join(" ")))
    }

    /// Creates the folders that are missing.
    pub(super) fn make_missing_folders(&self) -> FsResult {
        for folder in FOLDERS {
            match rustix::fs::mkdirat(&self.fd, folder, Mode::RWXU) {
                Ok(()) | Err(Os::EXIST) => {}
                Err(error) => return Err(os_error(error)),
            }
        }
        Ok(())
    }

    /// The most bytes that users' attributes of one file may take, if they share the room with the map.
    pub(super) fn users_bytes(&self) -> Option<usize> {
        let VolumeMark { attribute_bytes, is_shared, .. } = self.volume;
        is_shared.then(|| attribute_bytes.saturating_sub(reserved(attribute_bytes, true)))
    }

    /// The longest map that always fits next to users' attributes, without its seal.
    pub(super) fn map_bytes(&self) -> usize {
        reserved(self.volume.attribute_bytes, self.volume.is_shared).saturating_sub(SEAL_BYTES)
    }

    /// One of the folders in it.
    pub(super) fn folder(&self, name: &str) -> FsResult<OwnedFd> {
        host::open_directory(&self.fd, name.as_bytes()).map_err(os_error)
    }

    pub(super) fn sync_all(&self) -> FsResult {
        rustix::fs::syncfs(&self.fd).map_err(os_error)
    }

    /// Makes all names, attributes and maps durable, by a commit of the host's journal. syncfs(2) would also write out what other programs have
    /// written, and what has been written to the image since it was flushed.
    pub(super) fn commit_journal(&self) -> FsResult {
        // An fsync commits the last transaction with a change of its file, so the directory is changed last of all. To set an attribute to the
        // value that it has would be no change.
        if set(&self.fd, COMMIT, &host::random()?).is_err() {
            // There may be no room for it. On a journal that was aborted syncfs(2) succeeds, and only fsync(2) fails.
            self.sync_all()?;
        }
        rustix::fs::fsync(&self.fd).map_err(os_error)
    }

    pub(super) fn room(&self) -> FsResult<StoreRoom> {
        let stat = rustix::fs::fstatvfs(&self.fd).map_err(os_error)?;
        Ok(room_of(&stat, rustix::process::geteuid().is_root()))
    }
}

/// The free room of a file system.
fn room_of(stat: &StatVfs, is_root: bool) -> StoreRoom {
    let (free_nodes, free_blocks) = if is_root { (stat.f_ffree, stat.f_bfree) } else { (stat.f_favail, stat.f_bavail) };
    // File systems without a table of nodes, such as btrfs, report no number of nodes. Each is then taken to need `NODE_BYTES`.
    let by_bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize) / NODE_BYTES;
    let (nodes, free_nodes) = match stat.f_files {
        0 => (by_bytes(stat.f_blocks), by_bytes(free_blocks)),
        files => (files, free_nodes),
    };
    let name_bytes = stat.f_namemax.min(255) as u32;
    StoreRoom { nodes, free_nodes, free_bytes: free_blocks.saturating_mul(stat.f_frsize), name_bytes }
}

/// Bytes that are reserved for a map in a node's attributes: half of the room if users' attributes share it.
fn reserved(attribute_bytes: usize, is_shared: bool) -> usize {
    if is_shared { attribute_bytes / 2 } else { attribute_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_what_the_file_system_tells_for_its_user() {
        let mut stat = rustix::fs::statvfs("/").unwrap();
        (stat.f_frsize, stat.f_namemax) = (1024, 300);
        (stat.f_blocks, stat.f_bfree, stat.f_bavail) = (8000, 4000, 2000);
        (stat.f_files, stat.f_ffree, stat.f_favail) = (100, 50, 40);
        let room = |nodes, free_nodes, free_bytes| StoreRoom { nodes, free_nodes, free_bytes, name_bytes: 255 };
        assert_eq!(room_of(&stat, true), room(100, 50, 4_096_000));
        assert_eq!(room_of(&stat, false), room(100, 40, 2_048_000));
        (stat.f_files, stat.f_namemax) = (0, 143);
        assert_eq!(room_of(&stat, true), StoreRoom { name_bytes: 143, ..room(2000, 1000, 4_096_000) });
        assert_eq!(room_of(&stat, false), StoreRoom { name_bytes: 143, ..room(2000, 500, 2_048_000) });
    }

    #[test]
    fn the_mark_of_a_directory_is_parsed_as_it_was_written() {
        for is_shared in [false, true] {
            let (own, image) = (Uuid([1; 16]), Uuid([2; 16]));
            let mark = VolumeMark { own, image, attribute_bytes: 4000, is_shared };
            let text = mark.text();
            assert_eq!(VolumeMark::parse(text.as_bytes()), Some(mark));
            let other = text.replacen('1', "2", 1);
            for wrong in [&other[..], &text[1..], "", &text[..text.len() - 2], &format!("{text} 1")] {
                assert_eq!(VolumeMark::parse(wrong.as_bytes()), None, "{wrong}");
            }
        }
        assert_eq!([reserved(4001, true), reserved(4001, false)], [2000, 4001]);
    }

    #[test]
    fn a_directory_needs_a_mebibyte_and_a_node_of_its_file_system() {
        let stat = |blocks, available, files, free_files| {
            let mut stat = rustix::fs::statvfs("/").unwrap();
            (stat.f_frsize, stat.f_blocks, stat.f_bavail) = (1024, blocks, available);
            (stat.f_files, stat.f_favail) = (files, free_files);
            free_room(&stat)
        };
        assert_eq!(stat(9000, 1024, 10, 1), Some((1, 1 << 20)));
        assert_eq!([stat(9000, 1023, 10, 1), stat(9000, 1024, 10, 0)], [None, None]);
        assert_eq!(stat(9000, 8192, 0, 0), Some((2048, 8 << 20)), "nodes end with the bytes");
        assert_eq!(stat(0, 0, 0, 0), Some((u64::MAX >> 12, u64::MAX)), "it tells nothing");
    }
}
