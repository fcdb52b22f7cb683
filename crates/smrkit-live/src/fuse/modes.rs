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
    let masked = new.mode & !umask;
    // The list is asked for only where the mask would take something away.
    let takes_mask = masked != new.mode && core.attribute(parent, DEFAULT_ACCESS_LIST).is_err();
    let mode = if takes_mask { masked } else { new.mode };
    core.make(parent, name.as_bytes(), &NewNode { mode, ..*new })
}

/// True if the user who asks is of that group, or is root. The kernel sends one group: the others stand in /proc, as libfuse
/// reads them.
fn is_in_group(req: &Request, gid: u32) -> bool {
    req.uid() == 0 || req.gid() == gid || further_groups(req.pid()).contains(&gid)
}

/// The further groups of a process; none if it is gone, or of another namespace.
fn further_groups(process: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().filter_map(|group| group.parse().ok()).collect()
}

/// Clears the set-group-id bit, where a user who is not of the group sets an access list.
pub(super) fn clear_set_group(core: &FileSystem, req: &Request, id: NodeId) -> FsResult {
    let Attr { mode, gid, .. } = core.attributes(id)?;
    if mode & 0o2000 == 0 || is_in_group(req, gid) {
        return Ok(());
    }
    core.set_attributes(id, &SetAttr { mode: Some(mode & !0o2000), ..SetAttr::default() }).map(drop)
}

/// The mode that a change by this user leaves; none if it stays.
fn cleared(req: &Request, attr: &Attr) -> Option<u32> {
    convert::without_set_id(attr, || is_in_group(req, attr.gid))
}

/// Clears set-id bits, as a change of contents by an ordinary user does; true if there were any.
pub(super) fn clear_set_id(core: &FileSystem, req: &Request, id: NodeId) -> FsResult<bool> {
    let mode = cleared(req, &core.attributes(id)?);
    if mode.is_some() {
        core.set_attributes(id, &SetAttr { mode, ..SetAttr::default() })?;
    }
    Ok(mode.is_some())
}

/// Change `set` with all that it entails: a new owner always costs a file its set-id bits, a new size only if an ordinary user
/// sets it.
pub(super) fn with_set_id_cleared(core: &FileSystem, req: &Request, id: NodeId, set: SetAttr) -> FsResult<SetAttr> {
    // From chown(2) with -1 for both, by anyone, or from a write, which clears the bits itself.
    let is_empty = set == SetAttr::default();
    let owner = set.uid.is_some() || set.gid.is_some() || is_empty;
    if set.mode.is_some() || !owner && (set.size.is_none() || req.uid() == 0) {
        return Ok(set);
    }
    let attr = core.attributes(id)?;
    if is_empty && ![0, attr.uid].contains(&req.uid()) {
        return Ok(set);
    }
    Ok(SetAttr { mode: cleared(req, &attr), ..set })
}
