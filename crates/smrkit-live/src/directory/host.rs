//! System calls on nodes of the host, in the core's types: permissions, attributes, times, and extended attributes.
//!
//! Permissions are overridden for a moment where a file's mode keeps its owner, who runs this process, from reading or writing it. The kernel
//! has checked what its user may do; work for the file system itself (storing a map, moving data, walking the tree) must not depend on bits
//! that a user has taken from a file or a directory. Root never needs this.

use std::os::fd::{AsRawFd, OwnedFd};

use parking_lot::RwLock;
use rustix::buffer::spare_capacity;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, StatxFlags, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno as Os;
use rustix::rand::GetRandomFlags;
use rustix::time::{ClockId, clock_gettime};
use smrfs::error::{Errno, FsResult};
use smrfs::meta::{Attr, Kind, SetTime, Time};
use smrfs::units::NodeId;

use super::os_error;

/// The longest value, and the longest list of names, that Linux passes on (XATTR_SIZE_MAX, XATTR_LIST_MAX).
pub const ATTRIBUTE_BYTES_MAX: usize = 65536;

/// Path of an open descriptor, for calls that refuse a descriptor opened with `O_PATH`.
pub fn path_of(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Held exclusively while some permissions are overridden, shared while permissions are read or set.
static PERMISSIONS: RwLock<()> = RwLock::new(());

/// Calls `work`. If that fails for lack of permissions on `fd`, calls it again while its owner has them.
pub fn with_permissions<T>(fd: &OwnedFd, work: impl Fn() -> Result<T, Os>) -> Result<T, Os> {
    let done = work();
    if !matches!(done, Err(Os::ACCESS)) {
        return done;
    }
    let _permissions = PERMISSIONS.write();
    let mode = rustix::fs::fstat(fd)?.st_mode;
    let needed = match FileType::from_raw_mode(mode) {
        FileType::Directory => Mode::RWXU,
        _ => Mode::RUSR | Mode::WUSR,
    };
    let (mode, path) = (Mode::from_raw_mode(mode & 0o7777), path_of(fd));
    if mode.contains(needed) || rustix::fs::chmod(&path, mode | needed).is_err() {
        return done;
    }
    let done = work();
    rustix::fs::chmod(&path, mode)?;
    done
}

/// Opens a node below `parent`. A node that can't be read is opened as a path (`O_PATH`).
pub fn open_at(parent: &OwnedFd, name: &[u8], kind: Kind) -> FsResult<OwnedFd> {
    let flags = match kind {
        Kind::File => OFlags::RDONLY | OFlags::NONBLOCK,
        Kind::Directory => OFlags::RDONLY | OFlags::DIRECTORY,
        // Opening a device or a pipe may block or have an effect.
        _ => OFlags::PATH,
    };
    let open = |flags| rustix::fs::openat(parent, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let opened = match open(flags) {
        Err(Os::ACCESS) => with_permissions(parent, || open(OFlags::PATH)),
        opened => opened,
    };
    opened.map_err(os_error)
}

/// Opens a directory for reading, whatever its permissions and those of `parent` are.
pub fn open_directory(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Os> {
    let common = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |flags| with_permissions(parent, || rustix::fs::openat(parent, name, common | flags, Mode::empty()));
    match open(OFlags::RDONLY) {
        // The directory's own permissions are missing, so it is opened as a path, by which they can be overridden.
        Err(Os::ACCESS) => {
            let path = open(OFlags::PATH)?;
            with_permissions(&path, || rustix::fs::openat(&path, c".", common | OFlags::RDONLY, Mode::empty()))
        }
        opened => opened,
    }
}

const KINDS: [(Kind, FileType); 7] = [
    (Kind::File, FileType::RegularFile),
    (Kind::Directory, FileType::Directory),
    (Kind::Link, FileType::Symlink),
    (Kind::Pipe, FileType::Fifo),
    (Kind::Socket, FileType::Socket),
    (Kind::CharDevice, FileType::CharacterDevice),
    (Kind::BlockDevice, FileType::BlockDevice),
];

/// The kind of a node of that type.
pub fn kind_of(file_type: FileType) -> Kind {
    KINDS.iter().find(|(_, of_kind)| *of_kind == file_type).map_or(Kind::File, |(kind, _)| *kind)
}

/// The type of a node of that kind.
pub fn type_of(kind: Kind) -> FileType {
    KINDS.iter().find(|(of_type, _)| *of_type == kind).map_or(FileType::RegularFile, |(_, file_type)| *file_type)
}

/// The kind of a node.
pub fn kind(stat: &Stat) -> Kind {
    kind_of(FileType::from_raw_mode(stat.st_mode))
}

/// The kernel's attributes of a name; links are not followed.
pub fn stat_at(parent: &OwnedFd, name: &[u8]) -> FsResult<Stat> {
    let stat = || rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    let found = {
        let _real_permissions = PERMISSIONS.read();
        stat()
    };
    match found {
        Err(Os::ACCESS) => with_permissions(parent, stat),
        found => found,
    }
    .map_err(os_error)
}

/// The kernel's attributes of an open node.
pub fn stat_fd(fd: &OwnedFd) -> FsResult<Stat> {
    let _real_permissions = PERMISSIONS.read();
    rustix::fs::fstat(fd).map_err(os_error)
}

/// The number and the time of creation of the node with this name in a directory, or of the open node itself if the name is empty. `None` if
/// the file system does not record that time.
fn birth_at(at: &OwnedFd, name: &[u8]) -> Result<Option<(u64, i64, u32)>, Os> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let flags = if name.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::SYMLINK_NOFOLLOW };
    let found = with_permissions(at, || rustix::fs::statx(at, name, flags, wanted))?;
    let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(wanted);
    Ok(has_birth.then_some((found.stx_ino, found.stx_btime.tv_sec, found.stx_btime.tv_nsec)))
}

/// The identity of a node, which no other node ever has: its number and the time of its creation, because numbers are reused, and copies are
/// created later. `None` if the file system does not record that time.
pub fn birth(fd: &OwnedFd) -> FsResult<Option<String>> {
    let birth = birth_at(fd, b"").map_err(os_error)?;
    Ok(birth.map(|(number, seconds, nanoseconds)| format!("{number}:{seconds}.{nanoseconds:09}")))
}

/// The generation of a node, which distinguishes it from earlier nodes with its number: its time of creation in 32 bits, or 0 if the file system
/// does not record that. Nodes that were created within one tick of the host's clock may have the same. An empty name is the open node itself.
pub fn generation(at: &OwnedFd, name: &[u8]) -> FsResult<u32> {
    let birth = birth_at(at, name).map_err(os_error)?;
    // Seconds are spread over all bits by the golden ratio, so that they do not cancel out with the nanoseconds.
    Ok(birth.map_or(0, |(_, seconds, nanoseconds)| (seconds as u32).wrapping_mul(0x9E37_79B1) ^ nanoseconds))
}

/// Converts `stat` to attributes. Of a file, size and blocks are the core's business.
#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
pub fn attr(stat: &Stat) -> Attr {
    let kind = kind(stat);
    let is_file = kind == Kind::File;
    let time = |seconds: i64, nanoseconds: u64| Time { seconds, nanoseconds: nanoseconds as u32 };
    Attr {
        id: NodeId(stat.st_ino),
        generation: 0,
        kind,
        mode: stat.st_mode & 0o7777,
        links: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        size: if is_file { 0 } else { stat.st_size as u64 },
        blocks: if is_file { 0 } else { stat.st_blocks as u64 },
        atime: time(stat.st_atime as i64, stat.st_atime_nsec as u64),
        mtime: time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        ctime: time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
    }
}

/// Sets the permission bits. The caller does not do so for symbolic links, which have none.
pub fn change_mode(fd: &OwnedFd, kind: Kind, mode: u32) -> FsResult {
    if kind == Kind::Link {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let _real_permissions = PERMISSIONS.read();
    let mode = Mode::from_raw_mode(mode & 0o7777);
    match rustix::fs::fchmod(fd, mode) {
        Err(Os::BADF) => rustix::fs::chmod(path_of(fd), mode),
        done => done,
    }
    .map_err(os_error)
}

/// Sets the owners.
pub fn change_owner(fd: &OwnedFd, uid: Option<u32>, gid: Option<u32>) -> FsResult {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(os_error)
}

/// Sets the times that are given.
pub fn change_times(fd: &OwnedFd, atime: Option<SetTime>, mtime: Option<SetTime>) -> FsResult {
    let spec = |time: Option<SetTime>| {
        let Some(time) = time else { return Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT } };
        let Time { seconds, nanoseconds } = if let SetTime::To(time) = time { time } else { now() };
        Timespec { tv_sec: seconds, tv_nsec: i64::from(nanoseconds) }
    };
    let times = Timestamps { last_access: spec(atime), last_modification: spec(mtime) };
    match rustix::fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH) {
        // Kernels before 5.8 don't take an empty path here.
        Err(Os::INVAL) => rustix::fs::utimensat(rustix::fs::CWD, path_of(fd), &times, AtFlags::empty()),
        done => done,
    }
    .map_err(os_error)
}

/// Random bytes.
pub fn random() -> FsResult<[u8; 8]> {
    let mut bytes = [0; 8];
    // Up to 256 bytes are always filled whole (getrandom(2)).
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty()).map_err(os_error)?;
    Ok(bytes)
}

/// The time, finer than in the timestamps that the kernel sets.
pub fn now() -> Time {
    let now = clock_gettime(ClockId::Realtime);
    Time { seconds: now.tv_sec, nanoseconds: now.tv_nsec as u32 }
}

/// The value of an extended attribute. Here and below, `BADF` means that the descriptor is only a path (`O_PATH`).
pub fn get(fd: &OwnedFd, name: &[u8]) -> Result<Vec<u8>, Os> {
    // Nearly all values fit here, and need no second call.
    let mut short = [0; 4096];
    match rustix::fs::fgetxattr(fd, name, &mut short) {
        Ok(bytes) => return Ok(short[..bytes].to_vec()),
        Err(Os::RANGE | Os::BADF) => {}
        Err(error) => return Err(error),
    }
    let mut value = Vec::with_capacity(ATTRIBUTE_BYTES_MAX);
    match rustix::fs::fgetxattr(fd, name, spare_capacity(&mut value)) {
        Err(Os::BADF) => rustix::fs::getxattr(path_of(fd), name, spare_capacity(&mut value))?,
        got => got?,
    };
    Ok(value)
}

/// Sets an extended attribute.
pub fn set(fd: &OwnedFd, name: &[u8], value: &[u8]) -> Result<(), Os> {
    match rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()) {
        Err(Os::BADF) => rustix::fs::setxattr(path_of(fd), name, value, XattrFlags::empty()),
        done => done,
    }
}

/// Removes an extended attribute; false if there is none of that name.
pub fn remove(fd: &OwnedFd, name: &[u8]) -> Result<bool, Os> {
    let removed = match rustix::fs::fremovexattr(fd, name) {
        Err(Os::BADF) => rustix::fs::removexattr(path_of(fd), name),
        done => done,
    };
    if removed == Err(Os::NODATA) { Ok(false) } else { removed.map(|()| true) }
}

/// The names of all extended attributes.
pub fn list(fd: &OwnedFd) -> Result<Vec<Vec<u8>>, Os> {
    let mut names = Vec::with_capacity(ATTRIBUTE_BYTES_MAX);
    match rustix::fs::flistxattr(fd, spare_capacity(&mut names)) {
        Err(Os::BADF) => rustix::fs::listxattr(path_of(fd), spare_capacity(&mut names))?,
        got => got?,
    };
    Ok(names.split(|&byte| byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}
