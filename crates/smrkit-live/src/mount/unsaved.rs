//! Data that an unmount would lose, or has lost, because it can't be made durable: what it is, and how to go on.

use std::fmt;

use smrfs::error::{Errno, FsError};
use smrfs::fs::{self, FileSystem};
use smrkit::quantity::Bytes;

use super::MountOptions;
use crate::fuse::Gate;

/// Files that are named; of more only the number is told.
const NAMED: usize = 5;

/// Data that is not durable, and why.
#[derive(Debug)]
pub struct Unsaved {
    files: Vec<fs::Unsaved>,
    error: FsError,
    flush_failed: bool,
    /// True if the mount has ended, and the data with it.
    is_lost: bool,
    options: MountOptions,
}

impl Unsaved {
    fn new(core: &FileSystem, error: FsError, is_lost: bool, options: &MountOptions) -> Unsaved {
        let (files, flush_failed) = (core.unsaved(), core.flush_failed());
        Unsaved { files, error, flush_failed, is_lost, options: options.clone() }
    }

    /// Makes everything durable, and tells what is left where that fails.
    pub(super) fn after_sync(gate: &Gate, options: &MountOptions) -> Result<(), Unsaved> {
        let synced =
            gate.quietly("sync", |core| Ok(core.sync_all().map_err(|error| Unsaved::new(core, error, false, options))));
        // A gate that lets nobody in is that of a mount that has ended.
        synced.unwrap_or(Ok(()))
    }

    /// What the end of a mount has lost.
    pub(super) fn lost(core: &FileSystem, error: FsError, options: &MountOptions) -> Unsaved {
        Unsaved::new(core, error, true, options)
    }

    /// A line for each file.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.files.iter().map(|fs::Unsaved { path, data_bytes }| {
            let path = path.as_ref().map_or("a file".into(), |path| String::from_utf8_lossy(path));
            let what = match data_bytes {
                None => "its name".to_string(),
                Some(0) => "what was written since its last sync".to_string(),
                Some(bytes) => format!("what was written since its last sync, {} in memory", Bytes(*bytes)),
            };
            format!("{}{path} ({what})", self.options.mount_point.display())
        })
    }
}

impl fmt::Display for Unsaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (image, meta) = (self.options.image.display(), self.options.meta.display());
        let point = self.options.mount_point.display();
        let named: Vec<String> = self.lines().take(NAMED).collect();
        let more = self.files.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more files") } else { String::new() };
        let what = if named.is_empty() { "changes of names".into() } else { named.join(", ") };
        write!(f, "not saved: {what}{more}: ")?;
        let is_full = self.error.errno() == Errno::ENOSPC;
        match (self.flush_failed, is_full) {
            (true, _) => write!(
                f,
                "a disk of {image} or {meta} failed to make data durable, so nothing can be saved any more; all that was \
                 synced before is safe, and {}",
                if self.is_lost { "there at the next mount" } else { "the mount is read-only" }
            )?,
            (false, true) => write!(f, "the disk of {image} or {meta} is full")?,
            (false, false) => write!(f, "{}", self.error)?,
        }
        if self.is_lost {
            return write!(f, "; the mount has ended: check the disk (its log, dmesg), and mount again");
        }
        write!(f, "; nothing was unmounted: ")?;
        match (self.flush_failed, is_full) {
            (true, _) => write!(f, "copy these files elsewhere, they can still be read, and end it with ")?,
            (false, true) => write!(
                f,
                "free some room there, or delete files on the mount, and run smrkit umount again, or give up what is not \
                 saved: "
            )?,
            (false, false) => write!(f, "try again, or give up what is not saved: ")?,
        }
        write!(f, "smrkit umount --give-up {point}")
    }
}
