//! Permissions that are in the way of whoever runs this: they give way for a moment.
//!
//! The kernel has checked what its user may do. What is done for the file system itself (storing a map, moving data, looking
//! through the tree) must not depend on the bits that a user has taken from a file or a directory. Root never needs this.

use std::os::fd::OwnedFd;

use parking_lot::RwLock;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno as Os;
use smrfs::error::FsResult;
use smrfs::meta::Kind;

use super::failed;

/// Path of an open descriptor.
pub fn path_of(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(fd))
}

/// Held alone while permissions are not as they should be, shared while somebody reads or sets them.
static PERMISSIONS: RwLock<()> = RwLock::new(());

/// Reads or sets permissions while all are as they should be.
pub fn steady<T>(what: impl FnOnce() -> T) -> T {
    let _shared = PERMISSIONS.read();
    what()
}

/// Does something that may need more permissions on `fd` than its owner, who runs this, has.
pub fn with_permissions<T>(fd: &OwnedFd, what: impl Fn() -> Result<T, Os>) -> Result<T, Os> {
    let done = what();
    if !matches!(done, Err(Os::ACCESS)) {
        return done;
    }
    let _alone = PERMISSIONS.write();
    let mode = rustix::fs::fstat(fd)?.st_mode;
    let needed = match FileType::from_raw_mode(mode) {
        FileType::Directory => Mode::RWXU,
        _ => Mode::RUSR | Mode::WUSR,
    };
    let (mode, path) = (Mode::from_raw_mode(mode & 0o7777), path_of(fd));
    if mode.contains(needed) || rustix::fs::chmod(&path, mode | needed).is_err() {
        return done;
    }
    let done = what();
    rustix::fs::chmod(&path, mode)?;
    done
}

/// The flags to open a known node with: no device or pipe is ever opened itself.
fn flags(kind: Kind) -> OFlags {
    let common = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match kind {
        Kind::File => common | OFlags::RDONLY | OFlags::NONBLOCK,
        Kind::Directory => common | OFlags::RDONLY | OFlags::DIRECTORY,
        _ => common | OFlags::PATH,
    }
}

/// Opens a node below `parent`. What may not be read is opened as a mere place.
pub(super) fn open_at(parent: &OwnedFd, name: &[u8], kind: Kind) -> FsResult<OwnedFd> {
    match rustix::fs::openat(parent, name, flags(kind), Mode::empty()) {
        Err(rustix::io::Errno::ACCESS) => {
            let place = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH;
            with_permissions(parent, || rustix::fs::openat(parent, name, place, Mode::empty())).map_err(failed)
        }
        opened => opened.map_err(failed),
    }
}

/// Opens a directory for reading, whatever its permissions and those of `parent` are.
pub fn open_directory(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Os> {
    let common = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |flags| with_permissions(parent, || rustix::fs::openat(parent, name, common | flags, Mode::empty()));
    match open(OFlags::RDONLY) {
        Err(Os::ACCESS) => {
            let place = open(OFlags::PATH)?;
            with_permissions(&place, || rustix::fs::openat(&place, c".", common | OFlags::RDONLY, Mode::empty()))
        }
        opened => opened,
    }
}
