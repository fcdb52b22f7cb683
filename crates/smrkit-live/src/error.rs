//! Errors of an image or a metadata directory. Each message states the remedy.

use std::io;
use std::path::{Path, PathBuf};

use smrfs::superblock::{SuperblockError, Uuid};

/// Why an image or a metadata directory can't be made or opened. Nothing has been changed then, if not said otherwise.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The image is missing, or what the path names is no image.
    #[error("{}: {what}", .path.display())]
    BadImage {
        /// The image.
        path: PathBuf,
        /// The fault and the remedy.
        what: String,
    },
    /// An image or a directory exists where `mkfs` is to make one.
    #[error("{} holds data, perhaps a file system: --force erases it", .0.display())]
    Exists(PathBuf),
    /// Another process uses the image or the directory.
    #[error("{} is in use by another mount, server or check: unmount it first (smrkit umount), or detach it (smrkit detach)", .0.display())]
    InUse(PathBuf),
    /// Something that a disk can't be.
    #[error("{0}")]
    Impossible(String),
    /// The metadata directory is not there.
    #[error("there is no metadata directory at {}: name it with --meta DIR, or mount what holds it", .0.display())]
    NoMetadata(PathBuf),
    /// The path of a metadata directory names something else.
    #[error("{} is no directory: name one with --meta DIR", .0.display())]
    NotADirectory(PathBuf),
    /// A directory that is no metadata directory.
    #[error(
        "{} is no metadata directory of SMRfs, or it was copied without its extended attributes: name the right one with \
         --meta DIR, or copy it again with its attributes (cp -a, rsync -aX, tar --xattrs)", .0.display()
    )]
    NotMetadata(PathBuf),
    /// A metadata directory of another image.
    #[error("{} is the metadata directory of another image ({belongs}, not {image}): name the right one with --meta DIR", .path.display())]
    OtherImage {
        /// The directory.
        path: PathBuf,
        /// Identity of the volume that it belongs to.
        belongs: Uuid,
        /// Identity of the volume that it should belong to.
        image: Uuid,
    },
    /// An image and a directory of different times.
    #[error(
        "{} and {} were not last used together: one of them is an older copy; restore the other to the same time, or let \
         smrkit fsck see what fits", .image.display(), .meta.display()
    )]
    OutOfStep {
        /// The image.
        image: PathBuf,
        /// The directory.
        meta: PathBuf,
    },
    /// Other users could read or change what is behind the permissions of files.
    #[error("{}: {how}: {remedy} {}, or trust it as it is with --trust-open-metadata", .path.display(), .path.display())]
    Exposed {
        /// The image or the metadata directory.
        path: PathBuf,
        /// The users, and what they could do.
        how: String,
        /// The command that mends it, without the path.
        remedy: String,
    },
    /// An image or a directory of another user, who could change what is in it.
    #[error("{} belongs to another user: name one of your own, or take it over (chown)", .0.display())]
    NotYours(PathBuf),
    /// A directory with something in it that is not ours.
    #[error("{} is not empty: name a new or an empty directory with --meta DIR", .0.display())]
    NotEmpty(PathBuf),
    /// A file system that has no attributes for users.
    #[error(
        "the file system of {} takes no extended attributes of users: put the metadata directory on ext4, xfs or btrfs",
        .0.display()
    )]
    NoAttributes(PathBuf),
    /// A file system whose attributes are too short.
    #[error(
        "the file system of {} takes attributes of {bytes} bytes only, and 512 are needed: make it with larger blocks \
         (mkfs.ext4 -b 4096)", .path.display()
    )]
    ShortAttributes {
        /// The directory.
        path: PathBuf,
        /// Bytes that fit.
        bytes: usize,
    },
    /// No space or no nodes are left.
    #[error("the file system of {} is full: free some space, or use another one", .0.display())]
    Full(PathBuf),
    /// No space is left to mark a volume as in use.
    #[error(
        "the file system of {} is full, and what writes to a volume first marks it as in use: free some space there, or \
         change nothing (smrkit mount --read-only, smrkit fsck -n)", .0.display()
    )]
    FullToMark(PathBuf),
    /// A signal asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// Stored data that contradict themselves.
    #[error("{0}")]
    Corrupt(String),
    /// The operating system says no.
    #[error("{}: {error}{}", .path.display(), remedy(.error))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

fn remedy(error: &io::Error) -> &'static str {
    use io::ErrorKind::*;
    match error.kind() {
        NotFound => "; check the path",
        NotADirectory => "; name a folder",
        PermissionDenied => "; check the permissions",
        ReadOnlyFilesystem => "; mount it for writing",
        TooManyLinks => "; its file system allows a file fewer names: choose a place on another one",
        _ => "",
    }
}

impl LiveError {
    /// An image that is not what it should be.
    pub fn image(path: &Path, what: impl Into<String>) -> LiveError {
        LiveError::BadImage { path: path.into(), what: what.into() }
    }

    /// An error of the operating system about `path`.
    pub fn io(path: &Path, error: io::Error) -> LiveError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LiveError::Full(path.into()),
            io::ErrorKind::Interrupted => LiveError::Interrupted,
            _ => LiveError::Io { path: path.into(), error },
        }
    }

    /// As `io`, from an error number.
    pub fn os(path: &Path, errno: rustix::io::Errno) -> LiveError {
        LiveError::io(path, errno.into())
    }

    /// A superblock that makes no sense.
    pub fn superblock(path: &Path, error: SuperblockError) -> LiveError {
        LiveError::image(path, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_say_what_to_do() {
        let remedies = [
            (io::ErrorKind::NotFound, "check the path"),
            (io::ErrorKind::NotADirectory, "name a folder"),
            (io::ErrorKind::PermissionDenied, "check the permissions"),
            (io::ErrorKind::ReadOnlyFilesystem, "mount it for writing"),
            (io::ErrorKind::TooManyLinks, "choose a place on another one"),
        ];
        for (kind, remedy) in remedies {
            let message = LiveError::io(Path::new("a.img"), kind.into()).to_string();
            assert!(message.starts_with("a.img: ") && message.ends_with(remedy), "{message}");
        }
    }
}
