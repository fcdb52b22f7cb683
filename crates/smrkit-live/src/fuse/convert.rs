//! Converts between the kernel's numbers and the core's types: nodes, attributes, times, errors, flags.
//!
//! Nothing here calls the file system.

use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Generation, INodeNo, OpenFlags, RenameFlags, ReplyAttr, ReplyEmpty,
    ReplyXattr, TimeOrNow,
};
use rustix::fs::{FallocateFlags, OFlags};
use smrfs::error::FsError;
use smrfs::fs::Allocate;
use smrfs::meta::{Attr, Kind, RenameMode, SetTime, Time};
use smrfs::units::{GRANULE_BYTES, NodeId};

/// Time for which the kernel may cache names and attributes: as good as for ever, because only its own requests change them.
pub(super) const CACHE_TIME: Duration = Duration::from_secs(24 * 3600);

/// The bits of a mode that hold the kind.
const KIND_BITS: u32 = 0o170000;

/// Converts node numbers. The kernel's root is 1, the store's has any number, so the two numbers are swapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    root: u64,
}

impl Numbers {
    pub(super) fn new(root: NodeId) -> Numbers {
        Numbers { root: root.0 }
    }

    pub(super) fn node(self, number: INodeNo) -> NodeId {
        NodeId(self.swap(number.0))
    }

    pub(super) fn inode(self, id: NodeId) -> INodeNo {
        INodeNo(self.swap(id.0))
    }

    fn swap(self, number: u64) -> u64 {
        match number {
            1 => self.root,
            number if number == self.root => 1,
            number => number,
        }
    }

    pub(super) fn attributes(self, attr: &Attr) -> FileAttr {
        FileAttr {
            ino: self.inode(attr.id),
            size: attr.size,
            blocks: attr.blocks,
            atime: system_time(attr.atime),
            mtime: system_time(attr.mtime),
            ctime: system_time(attr.ctime),
            crtime: SystemTime::UNIX_EPOCH,
            kind: file_type(attr.kind),
            perm: (attr.mode & 0o7777) as u16,
            nlink: attr.links,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            blksize: GRANULE_BYTES as u32,
            flags: 0,
        }
    }

    /// Replies with the attributes of a node.
    pub(super) fn reply_attr(self, reply: ReplyAttr, found: Result<Attr, Errno>) {
        answer!(reply, found, attr => reply.attr(&CACHE_TIME, &self.attributes(&attr)));
    }

    /// Attributes that mean "there is no such name", which the kernel then caches.
    pub(super) fn nothing(self) -> FileAttr {
        FileAttr { ino: INodeNo(0), ..self.attributes(&Attr::default()) }
    }
}

/// Replies without data, or with an error.
pub(super) fn reply_empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    answer!(reply, done, () => reply.ok());
}

/// Replies with bytes, or with their number if `room` is 0.
pub(super) fn reply_bytes(reply: ReplyXattr, answer: Result<Vec<u8>, Errno>, room: u32) {
    match answer {
        Ok(value) if room == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() <= room as usize => reply.data(&value),
        Ok(_) => reply.error(Errno::ERANGE),
        Err(error) => reply.error(error),
    }
}

/// The generation, which distinguishes a node from earlier ones with its number, for the kernel's file handles.
pub(super) fn generation(attr: &Attr) -> Generation {
    Generation(attr.generation.into())
}

pub(super) fn errno(error: &FsError) -> Errno {
    Errno::from_i32(error.errno().0)
}

pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Link => FileType::Symlink,
        Kind::Pipe => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// The kind of node that mknod(2) is to make; `None` if it can't make such nodes.
pub(super) fn kind_of_mode(mode: u32) -> Option<Kind> {
    match mode & KIND_BITS {
        0 | 0o100000 => Some(Kind::File),
        0o010000 => Some(Kind::Pipe),
        0o140000 => Some(Kind::Socket),
        0o020000 => Some(Kind::CharDevice),
        0o060000 => Some(Kind::BlockDevice),
        _ => None,
    }
}

fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let at = match time.seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(whole),
        false => SystemTime::UNIX_EPOCH.checked_add(whole),
    };
    let exact = at.and_then(|at| at.checked_add(Duration::from_nanos(time.nanoseconds.into())));
    exact.unwrap_or(SystemTime::UNIX_EPOCH)
}

pub(super) fn time_to_set(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(sent) => SetTime::To(sent_time(sent)),
    }
}

/// Converts a time that the kernel sent. For times before 1970, `fuser` subtracts the nanoseconds instead of adding them, so the distance to 1970
/// has the two numbers that the kernel sent.
pub(super) fn sent_time(sent: SystemTime) -> Time {
    match sent.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => Time { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            Time { seconds: (before.as_secs() as i64).wrapping_neg(), nanoseconds: before.subsec_nanos() }
        }
    }
}

/// How rename(2) treats a name that exists; `None` for flags that are not supported.
pub(super) fn rename_mode(flags: RenameFlags) -> Option<RenameMode> {
    match flags {
        _ if flags.is_empty() => Some(RenameMode::Replace),
        _ if flags == RenameFlags::RENAME_NOREPLACE => Some(RenameMode::NoReplace),
        _ if flags == RenameFlags::RENAME_EXCHANGE => Some(RenameMode::Exchange),
        _ => None,
    }
}

/// The mode of fallocate(2); `None` for modes that are not supported.
pub(super) fn allocation(mode: i32) -> Option<Allocate> {
    let mode = FallocateFlags::from_bits_retain(mode as u32);
    let keep = mode.contains(FallocateFlags::KEEP_SIZE);
    match mode.difference(FallocateFlags::KEEP_SIZE) {
        rest if rest.is_empty() && keep => Some(Allocate::KeepSize),
        rest if rest.is_empty() => Some(Allocate::Extend),
        FallocateFlags::PUNCH_HOLE if keep => Some(Allocate::Punch),
        FallocateFlags::ZERO_RANGE => Some(Allocate::Zero(!keep)),
        _ => None,
    }
}

/// The mode after a write or a change of owner has cleared set-id bits; `None` if nothing changes. Set-group-id stays if the user is in the file's
/// group and the group can't execute the file.
pub(super) fn without_set_id(attr: &Attr, in_group: impl FnOnce() -> bool) -> Option<u32> {
    if attr.kind != Kind::File || attr.mode & 0o6000 == 0 {
        return None;
    }
    let is_kept = attr.mode & 0o2010 == 0o2000 && in_group();
    let group = if is_kept { 0 } else { 0o2000 };
    let cleared = attr.mode & !(0o4000 | group);
    (cleared != attr.mode).then_some(cleared)
}

/// True if each write must be durable before it is acknowledged.
pub(super) fn is_synchronous(flags: OpenFlags) -> bool {
    OFlags::from_bits_retain(flags.0 as u32).intersects(OFlags::SYNC | OFlags::DSYNC)
}

/// The handle of an open file: 1 if each write must be durable, for requests that don't have the flags.
pub(super) fn handle(flags: OpenFlags) -> FileHandle {
    FileHandle(is_synchronous(flags).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `fuser` builds it from what the kernel sent.
    fn sent(seconds: i64, nanoseconds: u32) -> TimeOrNow {
        let whole = Duration::new(seconds.unsigned_abs(), nanoseconds);
        TimeOrNow::SpecificTime(match seconds < 0 {
            true => SystemTime::UNIX_EPOCH - whole,
            false => SystemTime::UNIX_EPOCH + whole,
        })
    }

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        for (seconds, nanoseconds) in [(0, 0), (1, 999_999_999), (-1, 0), (-1, 1), (-2, 800_000_000)] {
            let time = Time { seconds, nanoseconds };
            assert_eq!(time_to_set(sent(seconds, nanoseconds)), SetTime::To(time));
            let back = system_time(time);
            let whole = SystemTime::UNIX_EPOCH - Duration::from_secs(10);
            let since = back.duration_since(whole).expect("later than 1969");
            assert_eq!((since.as_secs() as i64 - 10, since.subsec_nanos()), (seconds, nanoseconds));
        }
    }

    #[test]
    fn the_root_is_1_and_no_two_nodes_share_a_number() {
        for root in [1, 2, 77] {
            let numbers = Numbers::new(NodeId(root));
            assert_eq!(numbers.inode(NodeId(root)), INodeNo::ROOT);
            let mut seen: Vec<u64> = (1..100).map(|id| numbers.inode(NodeId(id)).0).collect();
            assert!((1..100).all(|id| numbers.node(numbers.inode(NodeId(id))) == NodeId(id)));
            seen.sort_unstable();
            assert!(seen.into_iter().eq(1..100));
        }
    }

    #[test]
    fn fallocate_refuses_what_it_does_not_know() {
        assert_eq!(allocation(0), Some(Allocate::Extend));
        assert_eq!(allocation(1), Some(Allocate::KeepSize));
        assert_eq!(allocation(3), Some(Allocate::Punch));
        assert_eq!(allocation(0x10), Some(Allocate::Zero(true)));
        assert_eq!(allocation(0x11), Some(Allocate::Zero(false)));
        for mode in [2, 4, 8, 0x12, 0x20, 0x40, 0x13] {
            assert_eq!(allocation(mode), None, "mode {mode:#x}");
        }
    }

    #[test]
    fn set_group_id_stays_on_what_the_group_cannot_run_for_its_users() {
        let left = |mode, in_group| without_set_id(&Attr { mode, ..Attr::default() }, || in_group);
        for in_group in [true, false] {
            assert_eq!(left(0o4755, in_group), Some(0o755));
            assert_eq!(left(0o2755, in_group), Some(0o755));
            assert_eq!(left(0o755, in_group), None);
        }
        assert_eq!((left(0o2745, true), left(0o6745, true)), (None, Some(0o2745)));
        assert_eq!((left(0o2745, false), left(0o6745, false)), (Some(0o745), Some(0o745)));
    }

    #[test]
    fn attributes_are_passed_on_field_by_field() {
        let numbers = Numbers::new(NodeId(77));
        let time = |seconds| Time { seconds, nanoseconds: 5 };
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::new(seconds, 5);
        let attr = Attr {
            id: NodeId(77),
            generation: 9,
            kind: Kind::BlockDevice,
            mode: 0o107_654,
            links: 2,
            uid: 3,
            gid: 4,
            rdev: 5,
            size: 6,
            blocks: 7,
            atime: time(10),
            mtime: time(20),
            ctime: time(30),
        };
        let found = numbers.attributes(&attr);
        assert_eq!((found.ino, found.size, found.blocks, found.kind), (INodeNo(1), 6, 7, FileType::BlockDevice));
        assert_eq!((found.atime, found.mtime, found.ctime), (at(10), at(20), at(30)));
        assert_eq!((found.perm, found.nlink, found.uid, found.gid, found.rdev), (0o7654, 2, 3, 4, 5));
        assert_eq!((found.blksize, found.flags, generation(&attr)), (4096, 0, Generation(9)));
        let nothing = numbers.nothing();
        assert_eq!((nothing.ino, nothing.size, nothing.nlink, nothing.perm), (INodeNo(0), 0, 0, 0));
    }

    #[test]
    fn kinds_and_flags_are_the_kernels() {
        let kinds = [
            (Kind::File, FileType::RegularFile, Some(0o100_000)),
            (Kind::Directory, FileType::Directory, None),
            (Kind::Link, FileType::Symlink, None),
            (Kind::Pipe, FileType::NamedPipe, Some(0o010_000)),
            (Kind::Socket, FileType::Socket, Some(0o140_000)),
            (Kind::CharDevice, FileType::CharDevice, Some(0o020_000)),
            (Kind::BlockDevice, FileType::BlockDevice, Some(0o060_000)),
        ];
        for (kind, told, bits) in kinds {
            assert_eq!(file_type(kind), told);
            bits.into_iter().for_each(|bits| assert_eq!(kind_of_mode(bits | 0o7777), Some(kind)));
            let not_made = without_set_id(&Attr { kind, mode: 0o6777, ..Attr::default() }, || false);
            assert_eq!(not_made, (kind == Kind::File).then_some(0o777));
        }
        assert_eq!([0o644, 0o040_644, 0o120_644].map(kind_of_mode), [Some(Kind::File), None, None]);
        let modes = [0, 1, 2, 3, 4, 5].map(|flags| rename_mode(RenameFlags::from_bits_retain(flags)));
        let (keep, exchange) = (Some(RenameMode::NoReplace), Some(RenameMode::Exchange));
        assert_eq!(modes, [Some(RenameMode::Replace), keep, exchange, None, None, None]);
        for (flags, is_so) in [(0, false), (0o1, false), (0o10_000, true), (0o4_010_000, true), (0o2000, false)] {
            assert_eq!((is_synchronous(OpenFlags(flags)), handle(OpenFlags(flags))), (is_so, FileHandle(is_so.into())));
        }
        assert_eq!(errno(&FsError::Errno(smrfs::error::Errno::ENOSPC)), Errno::ENOSPC);
        assert_eq!(time_to_set(TimeOrNow::Now), SetTime::Now);
    }
}
