//! Mounts a volume and serves it until it is unmounted: checks, the kernel's session, background work, the control socket, a clean end.
//!
//! The caller has opened the volume; the command line runs this as a daemon.

pub mod control;
pub mod helper;
pub(crate) mod point;
pub mod run_directory;
mod session;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use smrfs::error::FsError;
use smrkit::error::Error;
use smrkit::quantity;

use crate::error::LiveError;

pub use point::{Unmount, canonical, check, check_system, end, keep_apart, remount, sync, unmount};
pub(crate) use session::scrub_pieces;
pub use session::{Damaged, Handle, ScrubReport as Scrubbed, Session};

/// The default of the longest time for which data that is not synced stays volatile.
pub const COMMIT_INTERVAL: Duration = Duration::from_millis(500);

/// Reads a commit interval: a duration above zero; without one it is [`COMMIT_INTERVAL`].
pub fn commit_interval(text: Option<&str>) -> Result<Duration, Error> {
    let Some(text) = text else { return Ok(COMMIT_INTERVAL) };
    let interval = Duration::from_nanos(quantity::parse_duration(text)?.0);
    if interval.is_zero() {
        return Err(Error::Usage("a {commit_interval} of 0 would never rest: 10ms is short enough".into()));
    }
    Ok(interval)
}

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The image that is mounted: shown by `mount` and `smrkit top`.
    pub image: PathBuf,
    /// The metadata directory.
    pub meta: PathBuf,
    /// The mount point; [`canonical`].
    pub mount_point: PathBuf,
    /// True if nothing may be changed.
    pub read_only: bool,
    /// True if other users than the caller may look in; always so for root.
    pub allow_other: bool,
    /// The longest time for which data that is not synced may stay volatile.
    pub commit_interval: Duration,
}

/// An error of mounting, unmounting, or a mount's control socket.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel has no FUSE, or a container hides it.
    #[error("/dev/fuse is missing: load it with modprobe fuse, or give the container --device /dev/fuse")]
    NoDevice,
    /// The device may not be opened.
    #[error("/dev/fuse can't be opened ({0}): check its permissions, or mount as root")]
    Device(io::Error),
    /// Unprivileged, and the helper is not installed.
    #[error("only root mounts without fusermount3: install it (on Debian: apt-get install fuse3), or mount as root")]
    NoHelper,
    /// There is nothing at the mount point.
    #[error("{0} does not exist: check the path, or make the directory first")]
    PointMissing(PathBuf),
    /// The mount point is a file.
    #[error("{0} is not a directory: choose an empty directory as the mount point")]
    PointNotDirectory(PathBuf),
    /// The metadata would lie below itself.
    #[error("{path} lies in the metadata directory {meta}: choose another mount point")]
    PointInMetadata {
        /// The path.
        path: PathBuf,
        /// The metadata directory that it lies in.
        meta: PathBuf,
    },
    /// A mount would hide files.
    #[error("{0} is not empty, and a mount would hide what is in it: choose an empty directory")]
    PointNotEmpty(PathBuf),
    /// A daemon died and left its mount behind.
    #[error("{0} is a dead mount, left by a process that was killed: run smrkit umount {0}")]
    PointDead(PathBuf),
    /// A file system of ours is there.
    #[error("{0} has an SMRfs mounted already: choose another mount point, or run smrkit umount {0}")]
    PointTaken(PathBuf),
    /// The volume was unmounted long ago, and its process has not ended.
    #[error(
        "{0} was unmounted, and its process still makes data durable: wait until it ends (its log tells), and try again"
    )]
    PointEnding(PathBuf),
    /// The volume was unmounted out of sight, and programs still have files open.
    #[error(
        "{0} was unmounted, and programs still have files open on it: end them (process {1} serves them), and try again"
    )]
    PointPinned(PathBuf, u64),
    /// Another error at the mount point.
    #[error("{0}: {1}")]
    Point(PathBuf, io::Error),
    /// Nothing of ours is mounted there.
    #[error("{0} has no SMRfs mounted (by this user)")]
    NotMounted(PathBuf),
    /// Somebody works in it.
    #[error(
        "{0} is in use: end the programs that have files or their working directory there (fuser -vm {0} names them)"
    )]
    Busy(PathBuf),
    /// The kernel or fusermount3 refuses.
    #[error("the mount is refused: {0}")]
    Refused(io::Error),
    /// Its process may not write.
    #[error("{0} was mounted read-only and can't become writable: unmount it, and mount it again without ro")]
    OnlyReadOnly(PathBuf),
    /// Data that have been written would be lost.
    #[error("{0}")]
    Unsaved(String),
    /// The unmounting failed.
    #[error("{0} can't be unmounted: {1}")]
    Unmount(PathBuf, io::Error),
    /// The directory for control sockets is not ours alone.
    #[error("{0} can't hold the control socket ({1}): remove it, or set SMRKIT_RUN_DIR to a directory of yours")]
    RunDirectory(PathBuf, String),
    /// The control socket failed.
    #[error("the control socket {path}: {error}")]
    Control {
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The volume has been unmounted, and its process is about to end.
    #[error("the mount is ending already")]
    Ending,
    /// The daemon says so.
    #[error("{0}")]
    Daemon(String),
    /// The file system fails.
    #[error(transparent)]
    FileSystem(#[from] FsError),
    /// The volume can't be closed.
    #[error(transparent)]
    Volume(#[from] LiveError),
}

impl MountError {
    /// The error's text, with fields in braces for the front end to replace by its options.
    pub fn message(&self) -> String {
        match self {
            MountError::Volume(error) => error.message(),
            other => other.to_string(),
        }
    }
}
