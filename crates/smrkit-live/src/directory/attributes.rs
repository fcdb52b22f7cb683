//! Attributes of nodes: owners, mode, times, and extended attributes. Users' extended attributes are stored with the node, next to its map; long
//! ones are in the file's stub (`values.rs`).

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::fs::XattrFlags;
use rustix::io::Errno as Os;
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::meta::{ACCESS_LIST, Attr, Attributes, DEFAULT_ACCESS_LIST, Kind, SetAttr, Time};
use smrfs::units::NodeId;

use super::stat::{at, for_fd};
use super::values::{self, LIST, ValueList};
use super::{DirectoryStore, failed, open_at, permissions, stat};

/// Prefix of our own attributes; users neither see nor set them.
pub const OWN: &[u8] = b"user.smrfs.";
/// Namespaces of the attributes that users can set, besides access lists.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// The longest value, and the longest list of names, that Linux passes on (XATTR_SIZE_MAX, XATTR_LIST_MAX).
const MOST_BYTES: usize = 65536;

/// True for an access list, which the kernel itself looks at.
pub fn is_access_list(name: &[u8]) -> bool {
    name == ACCESS_LIST || name == DEFAULT_ACCESS_LIST
}

/// True for the names of attributes that users do not see.
pub fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(OWN) || !(is_access_list(name) || SPACES.iter().any(|space| name.starts_with(space)))
}

/// The value of an attribute. Here and below, `BADF` means that the descriptor is only a path (`O_PATH`).
pub fn get(fd: &OwnedFd, name: &[u8]) -> Result<Vec<u8>, Os> {
    let mut short = [0; 4096];
    match rustix::fs::fgetxattr(fd, name, &mut short) {
        Ok(bytes) => return Ok(short[..bytes].to_vec()),
        Err(Os::RANGE | Os::BADF) => {}
        Err(error) => return Err(error),
    }
    let mut value = Vec::with_capacity(MOST_BYTES);
    match rustix::fs::fgetxattr(fd, name, spare_capacity(&mut value)) {
        Err(Os::BADF) => rustix::fs::getxattr(permissions::path_of(fd), name, spare_capacity(&mut value))?,
        got => got?,
    };
    Ok(value)
}

/// Sets an attribute.
pub fn set(fd: &OwnedFd, name: &[u8], value: &[u8], flags: XattrFlags) -> Result<(), Os> {
    match rustix::fs::fsetxattr(fd, name, value, flags) {
        Err(Os::BADF) => rustix::fs::setxattr(permissions::path_of(fd), name, value, flags),
        done => done,
    }
}

/// Removes an attribute.
pub fn remove(fd: &OwnedFd, name: &[u8]) -> Result<(), Os> {
    match rustix::fs::fremovexattr(fd, name) {
        Err(Os::BADF) => rustix::fs::removexattr(permissions::path_of(fd), name),
        done => done,
    }
}

/// The names of all attributes.
pub fn list(fd: &OwnedFd) -> Result<Vec<Vec<u8>>, Os> {
    let mut names = Vec::with_capacity(MOST_BYTES);
    match rustix::fs::flistxattr(fd, spare_capacity(&mut names)) {
        Err(Os::BADF) => rustix::fs::listxattr(permissions::path_of(fd), spare_capacity(&mut names))?,
        got => got?,
    };
    Ok(names.split(|&byte| byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}

/// Refuses names of attributes that users can't have; `of_ours` is the error for names of our own.
fn checked_attribute(name: &[u8], of_ours: Errno) -> FsResult {
    match name {
        _ if name.starts_with(OWN) => Err(of_ours.into()),
        _ if is_hidden(name) => Err(Errno::EOPNOTSUPP.into()),
        _ => Ok(()),
    }
}

impl Attributes for DirectoryStore {
    fn attributes(&self, NodeId(id): NodeId) -> FsResult<Attr> {
        let _names = self.names.read();
        let (fd, place) = {
            let mut nodes = self.nodes.lock();
            (nodes.fd(id), nodes.place(id))
        };
        // If no descriptor is cached, the name is enough.
        let stat = match (fd, place) {
            (Some(fd), _) => for_fd(&fd)?,
            (None, Some(place)) => match at(&*self.fd(place.parent)?, &place.name)? {
                stat if stat.st_ino == id => stat,
                _ => return Err(Errno::ENOENT.into()),
            },
            (None, None) => for_fd(&*self.fd(id)?)?,
        };
        Ok(self.attr_of(&stat))
    }

    fn set_attributes(&self, NodeId(id): NodeId, set: &SetAttr) -> FsResult<Attr> {
        let _changing = self.changes.read();
        let _names = self.names.read();
        let fd = self.fd(id)?;
        let kind = stat::kind(&stat::for_fd(&fd)?);
        match set.uid {
            Some(uid) if kind == Kind::File => self.change_file_owner(&fd, uid, set.gid)?,
            uid if uid.is_some() || set.gid.is_some() => stat::change_owner(&fd, uid, set.gid)?,
            _ => {}
        }
        if let Some(mode) = set.mode {
            permissions::with_real_permissions(|| stat::change_mode(&fd, kind, mode))?;
        }
        if set.atime.is_some() || set.mtime.is_some() {
            stat::change_times(&fd, set, DirectoryStore::clock())?;
        }
        Ok(self.attr_of(&stat::for_fd(&fd)?))
    }

    fn attribute(&self, NodeId(id): NodeId, name: &[u8]) -> FsResult<Vec<u8>> {
        checked_attribute(name, Errno::ENODATA)?;
        let _names = self.names.read();
        let fd = self.fd(id)?;
        let _values = self.values_moved.read();
        match get(&fd, name) {
            Err(Os::NODATA) => self.long_attribute(&fd, name),
            got => got.map_err(failed),
        }
    }

    fn attribute_names(&self, NodeId(id): NodeId) -> FsResult<Vec<Vec<u8>>> {
        let _names = self.names.read();
        let fd = self.fd(id)?;
        let _values = self.values_moved.read();
        let mut names = list(&fd).map_err(failed)?;
        let has_long = names.iter().any(|name| name == LIST);
        names.retain(|name| !is_hidden(name));
        if has_long {
            let long = ValueList::load(&fd)?;
            names.extend(long.names().filter(|name| !is_hidden(name)).map(<[u8]>::to_vec));
            names.sort_unstable();
            names.dedup();
        }
        Ok(names)
    }

    fn set_attribute(&self, NodeId(id): NodeId, name: &[u8], value: &[u8], create: bool, replace: bool) -> FsResult {
        let _changing = self.changes.read();
        checked_attribute(name, Errno::EPERM)?;
        let _names = self.names.read();
        let fd = self.fd(id)?;
        let _values = self.values_change.lock();
        let long = ValueList::load(&fd)?;
        let exists = || long.has(name) || get(&fd, name).is_ok();
        if create && exists() {
            return Err(Errno::EEXIST.into());
        }
        if replace && !exists() {
            return Err(Errno::ENODATA.into());
        }
        let short = self.leave_room(&fd, &[name], name.len() + value.len()).and_then(|()| {
            set(&fd, name, value, XattrFlags::empty()).map_err(|error| match error {
                // The value is too long to be stored here, which is a lack of space, whatever the file system calls it.
                Os::TOOBIG | Os::RANGE => Errno::ENOSPC.into(),
                error => failed(error),
            })
        });
        match short {
            Ok(()) if long.has(name) => self.drop_long(&fd, &long, name)?,
            // Access lists can't be in the stub, because the kernel itself evaluates them.
            Err(FsError::Errno(Errno::ENOSPC)) if !is_access_list(name) => self.set_long(&fd, &long, name, value)?,
            done => done?,
        }
        Ok(())
    }

    fn remove_attribute(&self, NodeId(id): NodeId, name: &[u8]) -> FsResult {
        let _changing = self.changes.read();
        checked_attribute(name, Errno::ENODATA)?;
        let _names = self.names.read();
        let fd = self.fd(id)?;
        let _values = self.values_change.lock();
        let long = ValueList::load(&fd)?;
        let is_long = long.has(name);
        if is_long {
            // If an attribute is in both places, the one next to the file counts, so it is removed last.
            self.drop_long(&fd, &long, name)?;
        }
        match remove(&fd, name) {
            Err(Os::NODATA) if is_long => {}
            done => done.map_err(failed)?,
        }
        Ok(())
    }

    fn check_attributes(&self, repair: bool, tell: &mut dyn FnMut(NodeId, String)) -> FsResult {
        self.walk(&mut |directory, found| {
            let file = open_at(directory, &found.name, Kind::File)?;
            if let Some(reason) = values::check(&file, repair)? {
                tell(NodeId(found.id), reason);
            }
            Ok(())
        })
        .map(drop)
    }

    fn now(&self) -> Time {
        DirectoryStore::clock()
    }
}
