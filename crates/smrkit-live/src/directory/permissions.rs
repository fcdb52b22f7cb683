//! Overrides permissions for a moment, where a file's mode keeps its owner, who runs this process, from reading or writing it.
//!
//! The kernel has checked what its user may do. Work for the file system itself (storing a map, moving data, walking the tree) must not
//! depend on the permission bits that a user has taken from a file or a directory. Root never needs this.

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

/// Held exclusively while some permissions are overridden, shared while permissions are read or set.
static PERMISSIONS: RwLock<()> = RwLock::new(());

/// Reads or sets permissions while none are overridden.
pub fn with_real_permissions<T>(what: impl FnOnce() -> T) -> T {
    let _shared = PERMISSIONS.read();
    what()
}

/// Calls `what`. If that fails for lack of permissions on `fd`, calls it again while its owner has them.
pub fn with_permissions<T>(fd: &OwnedFd, what: impl Fn() -> Result<T, Os>) -> Result<T, Os> {
    let done = what();
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
    let done = what();
    rustix::fs::chmod(&path, mode)?;
    done
}

/// The flags to open a node with. Devices and pipes are opened as paths only, because opening one may block or have an effect.
fn flags(kind: Kind) -> OFlags {
    let common = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match kind {
        Kind::File => common | OFlags::RDONLY | OFlags::NONBLOCK,
        Kind::Directory => common | OFlags::RDONLY | OFlags::DIRECTORY,
        _ => common | OFlags::PATH,
    }
}

/// Opens a node below `parent`. A node that can't be read is opened as a path (`O_PATH`).
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
