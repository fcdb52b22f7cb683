//! Reads and changes the kernel's attributes of a node, in the core's types.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Gid, Mode, Stat, Statx, StatxFlags, Timespec, Timestamps, UTIME_OMIT, Uid};
use smrfs::error::{Errno, FsResult};
use smrfs::meta::{Attr, Kind, SetAttr, SetTime, Time};
use smrfs::units::NodeId;

use super::{DirectoryStore, failed, permissions};

/// Kind of the node.
pub fn kind(stat: &Stat) -> Kind {
    kind_of(FileType::from_raw_mode(stat.st_mode))
}

/// The kind of a node of that type.
pub fn kind_of(file_type: FileType) -> Kind {
    match file_type {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        FileType::Fifo => Kind::Pipe,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => Kind::File,
    }
}

/// The type of a node of that kind.
pub fn type_of(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Link => FileType::Symlink,
        Kind::Pipe => FileType::Fifo,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharacterDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// The kernel's attributes of a name; links are not followed.
pub fn at(parent: &OwnedFd, name: &[u8]) -> FsResult<Stat> {
    let look = || rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    match permissions::with_real_permissions(look) {
        Err(rustix::io::Errno::ACCESS) => permissions::with_permissions(parent, look).map_err(failed),
        stat => stat.map_err(failed),
    }
}

/// The kernel's attributes of an open node.
pub fn for_fd(fd: &OwnedFd) -> FsResult<Stat> {
    permissions::with_real_permissions(|| rustix::fs::fstat(fd)).map_err(failed)
}

/// The identity of a node, which no other node ever has: its number and the time of its creation, because numbers are reused, and copies are
/// created later. `None` if the file system does not record that time.
pub fn birth(fd: &OwnedFd) -> FsResult<Option<String>> {
    let found = born(fd)?;
    let born = found.stx_btime;
    Ok(tells_birth(&found).then(|| format!("{}:{}.{:09}", found.stx_ino, born.tv_sec, born.tv_nsec)))
}

/// The generation of the node with this name, which distinguishes it from earlier nodes with its number: its time of creation in 32 bits, or 0 if
/// the file system does not record that. Nodes that were created within one tick of the host's clock may have the same.
pub fn generation(parent: &OwnedFd, name: &[u8]) -> FsResult<u32> {
    let look = || rustix::fs::statx(parent, name, AtFlags::SYMLINK_NOFOLLOW, BIRTH);
    permissions::with_permissions(parent, look).map(|found| in_32_bits(&found)).map_err(failed)
}

/// Generation of an open node.
pub fn generation_of(fd: &OwnedFd) -> FsResult<u32> {
    born(fd).map(|found| in_32_bits(&found))
}

fn born(fd: &OwnedFd) -> FsResult<Statx> {
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, BIRTH).map_err(failed)
}

fn in_32_bits(found: &Statx) -> u32 {
    let born = found.stx_btime;
    let bits = (born.tv_sec as u32).wrapping_mul(0x9E37_79B1) ^ born.tv_nsec;
    if tells_birth(found) { bits } else { 0 }
}

const BIRTH: StatxFlags = StatxFlags::INO.union(StatxFlags::BTIME);

fn tells_birth(found: &Statx) -> bool {
    StatxFlags::from_bits_retain(found.stx_mask).contains(BIRTH)
}

/// A moment as the kernel writes it.
#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
fn time(seconds: i64, nanoseconds: u64) -> Time {
    Time { seconds, nanoseconds: nanoseconds as u32 }
}

/// Converts `stat` to attributes.
#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
pub fn attr(stat: &Stat) -> Attr {
    let kind = kind(stat);
    let is_file = kind == Kind::File;
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

/// Sets the permission bits.
pub fn change_mode(fd: &OwnedFd, kind: Kind, mode: u32) -> FsResult {
    let mode = Mode::from_raw_mode(mode & 0o7777);
    match kind {
        Kind::Link => Err(Errno::EOPNOTSUPP.into()),
        Kind::File | Kind::Directory => match rustix::fs::fchmod(fd, mode) {
            Err(rustix::io::Errno::BADF) => rustix::fs::chmod(permissions::path_of(fd), mode).map_err(failed),
            done => done.map_err(failed),
        },
        _ => rustix::fs::chmod(permissions::path_of(fd), mode).map_err(failed),
    }
}

/// Sets the owners.
pub fn change_owner(fd: &OwnedFd, uid: Option<u32>, gid: Option<u32>) -> FsResult {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(failed)
}

/// Sets times.
pub fn change_times(fd: &OwnedFd, set: &SetAttr, now: Time) -> FsResult {
    let spec = |time: Option<SetTime>| match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(SetTime::Now) => Timespec { tv_sec: now.seconds, tv_nsec: i64::from(now.nanoseconds) },
        Some(SetTime::To(time)) => Timespec { tv_sec: time.seconds, tv_nsec: i64::from(time.nanoseconds) },
    };
    let times = Timestamps { last_access: spec(set.atime), last_modification: spec(set.mtime) };
    match rustix::fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH) {
        // Kernels before 5.8 don't take an empty path here.
        Err(rustix::io::Errno::INVAL) => {
            rustix::fs::utimensat(rustix::fs::CWD, permissions::path_of(fd), &times, AtFlags::empty()).map_err(failed)
        }
        done => done.map_err(failed),
    }
}

impl DirectoryStore {
    /// Attributes of a node as users see them: with its generation, and without its name among the orphans in the count of links. Its times are
    /// the host's, which stay the same when the node is forgotten and found again.
    pub(super) fn attr_of(&self, stat: &Stat) -> Attr {
        let mut attr = attr(stat);
        let mut nodes = self.nodes.lock();
        if let Some(node) = nodes.get(stat.st_ino) {
            attr.generation = node.generation.unwrap_or(0);
            attr.links -= u32::from(node.is_orphan && attr.links > 0);
        }
        attr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_type_of_its_own() {
        use Kind::{BlockDevice, CharDevice, Directory, File, Link, Pipe, Socket};
        for kind in [File, Directory, Link, Pipe, Socket, CharDevice, BlockDevice] {
            assert_eq!(kind_of(type_of(kind)), kind);
        }
    }
}
