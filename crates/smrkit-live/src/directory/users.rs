//! Users' attributes: next to a node's map, or long ones in the stub of a file.

use rustix::fs::XattrFlags;
use rustix::io::Errno as Os;
use smrfs::error::{Errno, FsError, FsResult};

use super::attributes::{OWN, get, is_access_list, is_hidden, list, remove, set};
use super::values::{LIST, ValueList};
use super::{DirectoryStore, failed};

/// Refuses names that users have no attributes under; `of_ours` is the answer for our own.
fn checked(name: &[u8], of_ours: Errno) -> FsResult {
    match name {
        _ if name.starts_with(OWN) => Err(of_ours.into()),
        _ if is_hidden(name) => Err(Errno::EOPNOTSUPP.into()),
        _ => Ok(()),
    }
}

impl DirectoryStore {
    pub(super) fn user_attribute(&self, id: u64, name: &[u8]) -> FsResult<Vec<u8>> {
        checked(name, Errno::ENODATA)?;
        let _names = self.names_stay();
        let fd = self.fd(id)?;
        let _values = self.values_moved.read();
        match get(&fd, name) {
            Err(Os::NODATA) => self.long_attribute(&fd, name),
            got => got.map_err(failed),
        }
    }

    pub(super) fn user_attributes(&self, id: u64) -> FsResult<Vec<Vec<u8>>> {
        let _names = self.names_stay();
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

    pub(super) fn set_user_attribute(
        &self,
        id: u64,
        name: &[u8],
        value: &[u8],
        (create, replace): (bool, bool),
    ) -> FsResult {
        checked(name, Errno::EPERM)?;
        let _names = self.names_stay();
        let fd = self.fd(id)?;
        let _alone = self.values_change.lock();
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
                // Too long for its place: a matter of room, whatever the file system calls it.
                Os::TOOBIG | Os::RANGE => Errno::ENOSPC.into(),
                error => failed(error),
            })
        });
        match short {
            Ok(()) if long.has(name) => self.drop_long(&fd, &long, name)?,
            // The kernel itself looks at access lists.
            Err(FsError::Errno(Errno::ENOSPC)) if !is_access_list(name) => self.set_long(&fd, &long, name, value)?,
            done => done?,
        }
        self.has_changed(id);
        Ok(())
    }

    pub(super) fn remove_user_attribute(&self, id: u64, name: &[u8]) -> FsResult {
        checked(name, Errno::ENODATA)?;
        let _names = self.names_stay();
        let fd = self.fd(id)?;
        let _alone = self.values_change.lock();
        let long = ValueList::load(&fd)?;
        let is_long = long.has(name);
        if is_long {
            // What lies next to the file counts: it goes last.
            self.drop_long(&fd, &long, name)?;
        }
        match remove(&fd, name) {
            Err(Os::NODATA) if is_long => {}
            done => done.map_err(failed)?,
        }
        self.has_changed(id);
        Ok(())
    }
}
