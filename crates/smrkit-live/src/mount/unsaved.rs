//! Data that an unmount would lose because a disk of the host is full, in words that help.

use std::fmt;
use std::path::PathBuf;

use smrfs::error::{Errno, FsResult};
use smrfs::fs::FileSystem;
use smrkit::quantity::Bytes;

use super::MountOptions;
use crate::fuse::Gate;
use crate::log::log;

/// Files that are named; of more only the number is told.
const NAMED: usize = 5;

/// Data for which there was no room.
#[derive(Debug)]
pub struct Unsaved {
    /// A path on the mount, if it is known, and the bytes in memory; those with most first.
    files: Vec<(Option<Vec<u8>>, u64)>,
    options: MountOptions,
}

impl Unsaved {
    /// Makes everything durable, and tells what is left where a full disk prevents it. Other errors are not for this.
    pub(super) fn after_sync(gate: &Gate, options: &MountOptions) -> Option<Unsaved> {
        let saved = gate.quietly("sync", |core| Ok((core.sync_all(), core.unsaved())));
        let Ok((Err(error), files)) = saved else { return None };
        (error.errno() == Errno::ENOSPC).then(|| Unsaved { files, options: options.clone() })
    }

    /// Writes into the log what an unmount that can't be put off has lost.
    pub(super) fn log_lost(core: &FileSystem, options: &MountOptions, result: &FsResult) {
        if result.is_err() {
            let unsaved = Unsaved { files: core.unsaved(), options: options.clone() };
            unsaved.lines().for_each(|line| log(&format!("not saved: {line}")));
        }
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        self.files.iter().map(|(path, bytes)| {
            let path = path.as_ref().map_or("a file".into(), |path| String::from_utf8_lossy(path));
            format!("{}{path} ({} in memory)", self.options.mount_point.display(), Bytes(*bytes))
        })
    }
}

impl fmt::Display for Unsaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MountOptions { image, meta, mount_point, .. } = &self.options;
        let named: Vec<String> = self.lines().take(NAMED).collect();
        let more = self.files.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more files") } else { String::new() };
        let what = if named.is_empty() { "changes of names".into() } else { named.join(", ") };
        let place = |path: &PathBuf| path.display().to_string();
        write!(
            f,
            "not saved: {what}{more}: the disk of {} or {} is full, and nothing was unmounted: free some room there, or delete \
             files on the mount, and run smrkit umount again (umount {} gives up what is not saved)",
            place(image),
            place(meta),
            place(mount_point)
        )
    }
}
