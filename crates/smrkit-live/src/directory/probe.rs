//! Probes a file system for a metadata directory: the size of attributes, and free nodes and bytes.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, StatVfs, XattrFlags};
use rustix::io::Errno as Os;
use serde::Serialize;

use super::attributes::{OWN, set};
use crate::error::LiveError;

/// The least room for attributes: enough for a pointer to a spilled map, and as much for users.
pub const LEAST_BYTES: usize = 512;
/// The longest value that Linux passes on (XATTR_SIZE_MAX).
const MOST_BYTES: usize = 65536;
/// Bytes of the file system that must be free for the directory itself (assumption).
const LEAST_FREE_BYTES: u64 = 1 << 20;

/// Abilities of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// The longest attribute of a file, in bytes.
    pub attribute_bytes: usize,
    /// True if all attributes of a file share that room.
    pub is_shared: bool,
    /// Files that it has room for, besides the existing ones; a guess if the file system doesn't say.
    pub free_nodes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
}

/// Probes the file system of a directory, with a file whose name is removed at once, so that nothing is left.
pub fn probe(path: &Path, directory: &OwnedFd) -> Result<Probe, LiveError> {
    let stat = rustix::fs::fstatvfs(directory).map_err(|error| LiveError::os(path, error))?;
    let (free_nodes, free_bytes) = free(&stat).ok_or_else(|| LiveError::Full(path.into()))?;
    let (attribute_bytes, is_shared) = attributes(path, directory)?;
    if attribute_bytes < LEAST_BYTES {
        return Err(LiveError::ShortAttributes { path: path.into(), bytes: attribute_bytes });
    }
    Ok(Probe { attribute_bytes, is_shared, free_nodes, free_bytes })
}

/// The free nodes and bytes; `None` if they are too few for a metadata directory.
fn free(stat: &StatVfs) -> Option<(u64, u64)> {
    // Some file systems, such as ramfs, report nothing, and are limited by memory only.
    let free_bytes = if stat.f_blocks == 0 { u64::MAX >> 1 } else { stat.f_bavail.saturating_mul(stat.f_frsize) };
    let has_nodes = stat.f_files == 0 || stat.f_favail > 0;
    let free_nodes = if stat.f_files > 0 { stat.f_favail } else { free_bytes / 4096 };
    (free_bytes >= LEAST_FREE_BYTES && has_nodes).then_some((free_nodes, free_bytes))
}

/// Finds the longest attribute of a file by bisection, and whether attributes share their room.
fn attributes(path: &Path, directory: &OwnedFd) -> Result<(usize, bool), LiveError> {
    let name = ".smrfs-probe";
    let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600))
        .map_err(|error| LiveError::os(path, error))?;
    rustix::fs::unlinkat(directory, name, AtFlags::empty()).map_err(|error| LiveError::os(path, error))?;
    let own = [OWN, b"map"].concat();
    let fits = |name: &[u8], bytes: usize| match set(&file, name, &vec![b'x'; bytes], XattrFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Os::NOSPC | Os::TOOBIG | Os::RANGE | Os::DQUOT) => Ok(false),
        Err(Os::OPNOTSUPP | Os::PERM | Os::ACCESS) => Err(LiveError::NoAttributes(path.into())),
        Err(error) => Err(LiveError::os(path, error)),
    };
    if !fits(&own, 16)? {
        return Err(LiveError::Full(path.into()));
    }
    // `low` fits, and `high` does not.
    let (mut low, mut high) = (16, MOST_BYTES + 1);
    while low + 1 < high {
        let middle = (low + high) / 2;
        if fits(&own, middle)? { low = middle } else { high = middle }
    }
    // Set once more, because the last one tried may not have fitted.
    fits(&own, low)?;
    // Attributes share their room if a second one, a quarter as long, does not fit beside the longest.
    let is_shared = !fits(b"user.other", low / 4)?;
    Ok((low, is_shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_needs_a_mebibyte_and_a_node_of_its_file_system() {
        let stat = |blocks, available, files, free_files| {
            let mut stat = rustix::fs::statvfs("/").unwrap();
            (stat.f_frsize, stat.f_blocks, stat.f_bavail) = (1024, blocks, available);
            (stat.f_files, stat.f_favail) = (files, free_files);
            free(&stat)
        };
        assert_eq!(stat(9000, 1024, 10, 1), Some((1, 1 << 20)));
        assert_eq!([stat(9000, 1023, 10, 1), stat(9000, 1024, 10, 0)], [None, None]);
        assert_eq!(stat(9000, 8192, 0, 0), Some((2048, 8 << 20)), "nodes end with the bytes");
        assert_eq!(stat(0, 0, 0, 0), Some((u64::MAX >> 13, u64::MAX >> 1)), "it tells nothing");
    }
}
