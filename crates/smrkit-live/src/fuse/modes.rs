//! Permission bits that depend on more than one request: masks, default access lists, and set-id bits that a change takes
//! away.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::Request;
use smrfs::error::FsResult;
use smrfs::fs::FileSystem;
use smrfs::meta::{Attr, DEFAULT_ACCESS_LIST, NewNode, SetAttr};
use smrfs::units::NodeId;

use super::convert;

/// Makes a node. The mask counts only where the directory has no default access list, which takes its place.
pub(super) fn make(core: &FileSystem, parent: NodeId, name: &OsStr, new: &NewNode, umask: u32) -> FsResult<Attr> {
    let has_list = umask == 0 || core.attribute(parent, DEFAULT_ACCESS_LIST).is_ok();
    let mode = if has_list { new.mode } else { new.mode & !umask };
    core.make(parent, name.as_bytes(), &NewNode { mode, ..*new })
}

/// Clears the set-group-id bit, where a user who is not of the group sets an access list. Of further groups that the user is
/// in nothing is known.
pub(super) fn clear_set_group(core: &FileSystem, req: &Request, id: NodeId) -> FsResult {
    let Attr { mode, gid, .. } = core.attributes(id)?;
    if mode & 0o2000 == 0 || req.uid() == 0 || req.gid() == gid {
        return Ok(());
    }
    core.set_attributes(id, &SetAttr { mode: Some(mode & !0o2000), ..SetAttr::default() }).map(drop)
}

/// Clears set-id bits, as a change of contents by an ordinary user does.
pub(super) fn clear_set_id(core: &FileSystem, id: NodeId) -> FsResult {
    match convert::without_set_id(&core.attributes(id)?) {
        Some(mode) => core.set_attributes(id, &SetAttr { mode: Some(mode), ..SetAttr::default() }).map(drop),
        None => Ok(()),
    }
}

/// Change `set` with all that it entails: a new owner always costs a file its set-id bits, a new size only if an ordinary user sets it.
pub(super) fn with_set_id_cleared(
    core: &FileSystem,
    id: NodeId,
    mut set: SetAttr,
    privileged: bool,
) -> FsResult<SetAttr> {
    let owner = set.uid.is_some() || set.gid.is_some();
    if set.mode.is_none() && (owner || set.size.is_some() && !privileged) {
        set.mode = convert::without_set_id(&core.attributes(id)?);
    }
    Ok(set)
}
