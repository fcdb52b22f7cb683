//! Long attributes: users' attributes that do not fit next to a file's map are stored in the file's stub, which holds nothing else.
//!
//! An attribute of ours, the list, has the place of each in the stub. A value is written to a free place, and is durable before the list
//! names it; one setxattr replaces the whole list. Places that only the old list names may be overwritten once the new list is durable. If an
//! attribute is both next to the file and in the list, the one next to the file counts. Only regular files have a stub. A file with
//! capabilities, or set-id bits that a write would clear, can't have long attributes: a crash after the write would leave it without them.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno as Os;
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::map::{checksum, sealed, unsealed};
use smrfs::meta::{Kind, SetTime};

use super::attributes::is_hidden;
use super::host::{self, ATTRIBUTE_BYTES_MAX, get, list, remove, set, with_permissions};
use super::{DirectoryStore, io_error, os_error};

/// The attribute that holds the list.
pub(super) const LIST: &[u8] = b"user.smrfs.values";
const VERSION: u8 = 1;
/// The highest place in a valid list.
const AT_MAX: u64 = 1 << 40;
/// Capabilities of a program, which a write to its file takes away.
const CAPABILITY: &[u8] = b"security.capability";

/// Room of an attribute besides its name and value: the head of an entry and padding on ext4, which has the least room.
const HEAD_BYTES: usize = 24;

/// A value in the stub.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LongValue {
    name: Vec<u8>,
    /// Place in the stub, and length, in bytes.
    at: u64,
    bytes: u32,
    /// CRC-32C of the value.
    sum: u32,
}

impl LongValue {
    fn end(&self) -> u64 {
        self.at + u64::from(self.bytes)
    }

    /// Reads the value; `None` if it is not what was written.
    fn read(&self, stub: &File) -> FsResult<Option<Vec<u8>>> {
        let mut value = vec![0; self.bytes as usize];
        match stub.read_exact_at(&mut value, self.at) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
            read => read.map(|()| (checksum(&value) == self.sum).then_some(value)).map_err(io_error),
        }
    }
}

/// The long attributes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueList(Vec<LongValue>);

impl ValueList {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for LongValue { name, at, bytes, sum } in &self.0 {
            out.push(name.len() as u8);
            out.extend_from_slice(name);
            out.extend(at.to_le_bytes());
            out.extend(bytes.to_le_bytes());
            out.extend(sum.to_le_bytes());
        }
        sealed(out)
    }

    fn parse(stored: &[u8]) -> Option<ValueList> {
        let mut rest = unsealed(stored)?.strip_prefix(&[VERSION])?;
        let mut values = Vec::new();
        while let Some((&length, after)) = rest.split_first() {
            let (name, after) = after.split_at_checked(length.into())?;
            let (at, after) = after.split_first_chunk()?;
            let (bytes, after) = after.split_first_chunk()?;
            let (sum, after) = after.split_first_chunk()?;
            let (at, bytes, sum) = (u64::from_le_bytes(*at), u32::from_le_bytes(*bytes), u32::from_le_bytes(*sum));
            if bytes as usize > ATTRIBUTE_BYTES_MAX || at > AT_MAX {
                return None;
            }
            values.push(LongValue { name: name.into(), at, bytes, sum });
            rest = after;
        }
        Some(ValueList(values))
    }

    /// Loads the list of an open file; empty if there is none.
    pub fn load(fd: &OwnedFd) -> FsResult<ValueList> {
        match with_permissions(fd, || get(fd, LIST)) {
            Ok(stored) => ValueList::parse(&stored).ok_or_else(|| damaged("the list of its long attributes")),
            Err(Os::NODATA | Os::OPNOTSUPP) => Ok(ValueList::default()),
            Err(error) => Err(os_error(error)),
        }
    }

    /// Replaces the list of an open file.
    fn store(&self, fd: &OwnedFd) -> FsResult {
        let stored = with_permissions(fd, || match self.0.is_empty() {
            true => remove(fd, LIST).map(drop),
            false => set(fd, LIST, &self.encode()),
        });
        stored.map_err(|error| match error {
            // The list is too long for an attribute, which is a lack of space, whatever the file system calls it.
            Os::TOOBIG | Os::RANGE => Errno::ENOSPC.into(),
            error => os_error(error),
        })
    }

    /// True if that attribute is in it.
    pub fn has(&self, name: &[u8]) -> bool {
        self.names().any(|known| known == name)
    }

    /// The names in it.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|value| &*value.name)
    }

    /// Reads an attribute from the stub of `fd`.
    pub fn value(&self, fd: &OwnedFd, name: &[u8]) -> FsResult<Vec<u8>> {
        let value = self.0.iter().find(|value| value.name == name).ok_or(Errno::ENODATA)?;
        let read = value.read(&stub(fd, OFlags::RDONLY)?)?;
        read.ok_or_else(|| damaged(&format!("attribute {}", String::from_utf8_lossy(name))))
    }

    fn without(&self, name: &[u8]) -> ValueList {
        ValueList(self.0.iter().filter(|value| value.name != name).cloned().collect())
    }

    /// The first place in the stub where `bytes` bytes are free.
    fn free_place(&self, bytes: u64) -> u64 {
        let mut values: Vec<&LongValue> = self.0.iter().collect();
        values.sort_unstable_by_key(|value| value.at);
        let mut at = 0;
        for value in values {
            if value.at >= at + bytes {
                break;
            }
            at = at.max(value.end());
        }
        at
    }
}

fn damaged(what: &str) -> FsError {
    FsError::Corrupt(format!("{what} is damaged; run smrkit fsck"))
}

/// Opens a file's stub.
pub(super) fn stub(fd: &OwnedFd, flags: OFlags) -> FsResult<File> {
    let open = || rustix::fs::open(host::path_of(fd), flags | OFlags::CLOEXEC, Mode::empty());
    with_permissions(fd, open).map(File::from).map_err(os_error)
}

/// True if values may be written to the stub: the file is a regular one, and a write takes no capabilities or set-id bits away.
fn takes_values(fd: &OwnedFd, found: &Stat) -> bool {
    let sets_id = found.st_mode & 0o6000 != 0 && !rustix::process::geteuid().is_root();
    host::kind(found) == Kind::File && !sets_id && get(fd, CAPABILITY).is_err()
}

impl DirectoryStore {
    /// Changes the stub's contents. The file keeps its mtime, because users see no change of its data.
    fn change_stub(&self, fd: &OwnedFd, found: &Stat, change: impl FnOnce(&File) -> std::io::Result<()>) -> FsResult {
        // The list on the disk may be an older one that still names what is about to be overwritten or cut off.
        self.sync_open(fd)?;
        let changed = change(&stub(fd, OFlags::WRONLY)?);
        host::change_times(fd, None, Some(SetTime::To(host::attr(found).mtime)))?;
        changed.map_err(io_error)
    }

    /// Stores an attribute in the stub. The value is durable before the list (`list` until now) names it. The caller holds `values_change`.
    pub(super) fn set_long(&self, fd: &OwnedFd, list: &ValueList, name: &[u8], value: &[u8]) -> FsResult {
        let found = host::stat_fd(fd)?;
        if !takes_values(fd, &found) {
            return Err(Errno::ENOSPC.into());
        }
        let place = LongValue {
            name: name.into(),
            at: list.free_place(value.len() as u64),
            bytes: value.len() as u32,
            sum: checksum(value),
        };
        let mut new = list.without(name);
        new.0.push(place.clone());
        self.leave_room(fd, &[LIST, name], LIST.len() + new.encode().len())?;
        self.change_stub(fd, &found, |stub| stub.write_all_at(value, place.at).and_then(|()| stub.sync_data()))?;
        let _moved = self.values_moved.write();
        new.store(fd)?;
        // Removed last, because an attribute next to the file takes precedence over the list.
        remove(fd, name).map(drop).map_err(os_error)
    }

    /// Removes a long attribute from the list, and empties the stub after the last one. The caller holds `values_change`.
    pub(super) fn remove_long(&self, fd: &OwnedFd, list: &ValueList, name: &[u8]) -> FsResult {
        let new = list.without(name);
        {
            let _moved = self.values_moved.write();
            new.store(fd)?;
        }
        let found = host::stat_fd(fd)?;
        if new.0.is_empty() && takes_values(fd, &found) {
            self.change_stub(fd, &found, |stub| stub.set_len(0))?;
        }
        Ok(())
    }

    /// Refuses an attribute of `bytes` bytes, its name included, if users' attributes would then take room that is reserved for the map.
    /// Attributes with names in `replaced` do not count, because the new one replaces them.
    pub(super) fn leave_room(&self, fd: &OwnedFd, replaced: &[&[u8]], bytes: usize) -> FsResult {
        let Some(bytes_max) = self.home.users_bytes() else { return Ok(()) };
        let mut used = bytes + HEAD_BYTES;
        // The list counts although users don't see it, because it takes their room.
        let counts = |other: &&Vec<u8>| !replaced.contains(&&***other) && (!is_hidden(other) || *other == LIST);
        for other in list(fd).map_err(os_error)?.iter().filter(counts) {
            used += other.len() + get(fd, other).map_or(0, |value| value.len()) + HEAD_BYTES;
        }
        if used > bytes_max { Err(Errno::ENOSPC.into()) } else { Ok(()) }
    }
}

/// Finds damaged long attributes of an open file, and removes them if `repair` is set.
pub(super) fn check(fd: &OwnedFd, repair: bool) -> FsResult<Option<String>> {
    let list = match ValueList::load(fd) {
        Err(FsError::Corrupt(reason)) => {
            if repair {
                ValueList::default().store(fd)?;
            }
            return Ok(Some(reason));
        }
        list => list?,
    };
    if list.0.is_empty() {
        return Ok(None);
    }
    let file = stub(fd, OFlags::RDONLY)?;
    let (mut good, mut wrong_names) = (Vec::new(), Vec::new());
    for value in list.0 {
        match value.read(&file)? {
            Some(_) => good.push(value),
            None => wrong_names.push(String::from_utf8_lossy(&value.name).into_owned()),
        }
    }
    if wrong_names.is_empty() {
        return Ok(None);
    }
    if repair {
        ValueList(good).store(fd)?;
    }
    Ok(Some(format!("not what was written: {}", wrong_names.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, at: u64, bytes: u32) -> LongValue {
        LongValue { name: name.into(), at, bytes, sum: 7 }
    }

    #[test]
    fn a_list_survives_its_packing_and_damage_is_seen() {
        let list = ValueList(vec![value("user.a", 0, 65536), value("trusted.b", 1 << 40, 5)]);
        let mut stored = list.encode();
        assert_eq!(ValueList::parse(&stored), Some(list));
        stored[9] ^= 1;
        assert_eq!(ValueList::parse(&stored), None);
        assert_eq!(ValueList::parse(b""), None);
    }

    #[test]
    fn a_value_is_written_where_no_other_lies() {
        let list = ValueList(vec![value("c", 300, 100), value("a", 0, 100), value("b", 150, 50)]);
        assert_eq!([50, 51, 100, 101].map(|bytes| list.free_place(bytes)), [100, 200, 200, 400]);
        assert_eq!(ValueList::default().free_place(9), 0);
    }
}
