//! Attributes of nodes: owners, mode, times, and extended attributes. Users' extended attributes are stored with the node, next to its map; long
//! ones are in the file's stub (`values.rs`).

use rustix::fs::Stat;
use rustix::io::Errno as Os;
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::meta::{ACCESS_LIST, Attr, Attributes, DEFAULT_ACCESS_LIST, Kind, SetAttr, Time};
use smrfs::units::NodeId;

use super::values::{self, LIST, ValueList};
use super::{DirectoryStore, host, os_error};

/// Prefix of our own attributes; users neither see nor set them.
pub const OWN: &[u8] = b"user.smrfs.";
/// Namespaces of the attributes that users can set, besides access lists.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// True for an access list, which the kernel itself evaluates.
fn is_access_list(name: &[u8]) -> bool {
    name == ACCESS_LIST || name == DEFAULT_ACCESS_LIST
}

/// True for the names of attributes that users do not see.
pub fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(OWN) || !(is_access_list(name) || SPACES.iter().any(|space| name.starts_with(space)))
}

/// Refuses names of attributes that users can't have; `error_for_own` is the error for names of our own.
fn check_attribute_name(name: &[u8], error_for_own: Errno) -> FsResult {
    match name {
        _ if name.starts_with(OWN) => Err(error_for_own.into()),
        _ if is_hidden(name) => Err(Errno::EOPNOTSUPP.into()),
        _ => Ok(()),
    }
}

impl DirectoryStore {
    /// Attributes of a node as users see them: with its generation, and with a count of links that leaves out the name that an orphan has in our
    /// folder of orphans. Its times are the host's, which stay the same when the node is forgotten and found again.
    pub(super) fn attr_of(&self, stat: &Stat) -> Attr {
        let mut attr = host::attr(stat);
        if let Some(node) = self.nodes.lock().get(stat.st_ino) {
            attr.generation = node.generation.unwrap_or(0);
            attr.links -= u32::from(node.is_orphan && attr.links > 0);
        }
        attr
    }
}

impl Attributes for DirectoryStore {
    fn attributes(&self, NodeId(id): NodeId) -> FsResult<Attr> {
        let _names = self.names.read();
        let (fd, place) = {
            let mut nodes = self.nodes.lock();
            (nodes.fd(id), nodes.place(id))
        };
        // If no descriptor is cached, the name is enough, which saves opening the node.
        let stat = match (fd, place) {
            (Some(fd), _) => host::stat_fd(&fd)?,
            (None, Some(place)) => match host::stat_at(&*self.fd(place.parent)?, &place.name)? {
                stat if stat.st_ino == id => stat,
                _ => return Err(Errno::ENOENT.into()),
            },
            (None, None) => host::stat_fd(&*self.fd(id)?)?,
        };
        Ok(self.attr_of(&stat))
    }

    fn set_attributes(&self, NodeId(id): NodeId, set: &SetAttr) -> FsResult<Attr> {
        let _changing = self.changes.read();
        let _names = self.names.read();
        let fd = self.fd(id)?;
        let kind = host::kind(&host::stat_fd(&fd)?);
        match set.uid {
            Some(uid) if kind == Kind::File => self.change_file_owner(&fd, uid, set.gid)?,
            uid if uid.is_some() || set.gid.is_some() => host::change_owner(&fd, uid, set.gid)?,
            _ => {}
        }
        // After the owners, whose change clears set-id bits.
        if let Some(mode) = set.mode {
            host::change_mode(&fd, kind, mode)?;
        }
        if set.atime.is_some() || set.mtime.is_some() {
            host::change_times(&fd, set.atime, set.mtime)?;
        }
        Ok(self.attr_of(&host::stat_fd(&fd)?))
    }

    fn attribute(&self, NodeId(id): NodeId, name: &[u8]) -> FsResult<Vec<u8>> {
        check_attribute_name(name, Errno::ENODATA)?;
        let _names = self.names.read();
        let fd = self.fd(id)?;
        let _values = self.values_moved.read();
        match host::get(&fd, name) {
            Err(Os::NODATA) => ValueList::load(&fd)?.value(&fd, name),
            got => got.map_err(os_error),
        }
    }

    fn attribute_names(&self, NodeId(id): NodeId) -> FsResult<Vec<Vec<u8>>> {
        let _names = self.names.read();
        let fd = self.fd(id)?;
        let _values = self.values_moved.read();
        let mut names = host::list(&fd).map_err(os_error)?;
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
        check_attribute_name(name, Errno::EPERM)?;
        let _names = self.names.read();
        let fd = self.fd(id)?;
        let _values = self.values_change.lock();
        let long = ValueList::load(&fd)?;
        let exists = || long.has(name) || host::get(&fd, name).is_ok();
        if create && exists() {
            return Err(Errno::EEXIST.into());
        }
        if replace && !exists() {
            return Err(Errno::ENODATA.into());
        }
        let short = self.leave_room(&fd, &[name], name.len() + value.len()).and_then(|()| {
            host::set(&fd, name, value).map_err(|error| match error {
                // The value is too long to be stored here, which is a lack of space, whatever the file system calls it.
                Os::TOOBIG | Os::RANGE => Errno::ENOSPC.into(),
                error => os_error(error),
            })
        });
        match short {
            Ok(()) if long.has(name) => self.remove_long(&fd, &long, name),
            // Access lists can't be in the stub, because the kernel itself evaluates them.
            Err(FsError::Errno(Errno::ENOSPC)) if !is_access_list(name) => self.set_long(&fd, &long, name, value),
            done => done,
        }
    }

    fn remove_attribute(&self, NodeId(id): NodeId, name: &[u8]) -> FsResult {
        let _changing = self.changes.read();
        check_attribute_name(name, Errno::ENODATA)?;
        let _names = self.names.read();
        let fd = self.fd(id)?;
        let _values = self.values_change.lock();
        let long = ValueList::load(&fd)?;
        let is_long = long.has(name);
        if is_long {
            // If an attribute is in both places, the one next to the file counts, so it is removed last.
            self.remove_long(&fd, &long, name)?;
        }
        let is_removed = host::remove(&fd, name).map_err(os_error)?;
        if is_long || is_removed { Ok(()) } else { Err(Errno::ENODATA.into()) }
    }

    fn check_attributes(&self, repair: bool, tell: &mut dyn FnMut(NodeId, String)) -> FsResult {
        self.walk(&mut |directory, found| {
            let file = host::open_at(directory, &found.name, Kind::File)?;
            if let Some(reason) = values::check(&file, repair)? {
                tell(NodeId(found.id), reason);
            }
            Ok(())
        })
    }

    fn now(&self) -> Time {
        host::now()
    }
}
