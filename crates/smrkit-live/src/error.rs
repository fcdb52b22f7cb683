//! Errors of an image or a metadata directory. Each message states the remedy.

use std::io;
use std::path::{Path, PathBuf};

use smrfs::error::{DeviceError, Errno, FsError};
use smrfs::superblock::Uuid;
use smrkit::message::plain;

/// Why an image or a metadata directory can't be made or opened. Nothing has been changed then, if not said otherwise.
#[derive(Debug, thiserror::Error)]
#[error("{}", plain(&self.message()))]
pub enum LiveError {
    /// The image is missing, or what the path names is no image.
    BadImage(PathBuf, String),
    /// An image or a directory exists where `mkfs` is to make one.
    Exists(PathBuf),
    /// Another process uses the image or the directory.
    InUse(PathBuf),
    /// Something that a disk can't be.
    Impossible(String),
    /// The metadata directory is not there.
    NoMetadata(PathBuf),
    /// The path of a metadata directory names something else.
    NotADirectory(PathBuf),
    /// A directory that is no metadata directory.
    NotMetadata(PathBuf),
    /// The tree of a metadata directory is missing.
    NoTree(PathBuf),
    /// A metadata directory of another image.
    OtherImage {
        /// The directory.
        path: PathBuf,
        /// Identity of the volume that it belongs to.
        belongs: Uuid,
        /// Identity of the volume that it should belong to.
        image: Uuid,
    },
    /// An image and a directory of different times.
    OutOfStep {
        /// The image.
        image: PathBuf,
        /// The directory.
        meta: PathBuf,
        /// True if the image is the older one.
        is_older: bool,
    },
    /// An image or a directory that was copied while the volume was in use, or after a crash.
    TornCopy(PathBuf),
    /// Other users could read or change what is behind the permissions of files.
    Exposed {
        /// The image or the metadata directory.
        path: PathBuf,
        /// The users, and what they could do.
        how: String,
        /// The command that mends it, without the path.
        remedy: String,
    },
    /// An image or a directory of another user, who could change what is in it.
    NotYours(PathBuf),
    /// A directory with something in it that is not ours.
    NotEmpty(PathBuf),
    /// A file system that has no attributes for users.
    NoAttributes(PathBuf),
    /// A file system whose attributes are too short.
    ShortAttributes {
        /// The directory.
        path: PathBuf,
        /// Bytes that fit.
        bytes: usize,
    },
    /// No space or no nodes are left.
    Full(PathBuf),
    /// No space is left to mark a volume as in use.
    FullToMark(PathBuf),
    /// A signal asked for the end.
    Interrupted,
    /// Stored data that contradict themselves.
    Corrupt(String),
    /// The operating system says no.
    Io(PathBuf, io::Error),
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

/// True if a file can't grow: its file system is full, or a quota or a limit of file sizes is reached.
pub(crate) fn lacks_room(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl LiveError {
    /// True if something has no room on the host.
    pub(crate) fn lacks_room(&self) -> bool {
        match self {
            LiveError::Full(_) => true,
            LiveError::Io(_, error) => lacks_room(error),
            _ => false,
        }
    }

    /// The error's text, with its fields for a front to word.
    pub fn message(&self) -> String {
        use LiveError::*;
        let at = |path: &Path, text: &str| format!("{}{text}", path.display());
        let of = |path: &Path, text: &str| format!("the file system of {} {text}", path.display());
        match self {
            BadImage(path, fault) => at(path, &format!(": {fault}")),
            Exists(path) => at(path, " holds data, perhaps a file system: {force} erases it"),
            InUse(path) => at(
                path,
                " is in use by another mount, server or check: end that first (smrkit umount or smrkit detach)",
            ),
            Impossible(message) => message.clone(),
            NoMetadata(path) => {
                let path = path.display();
                format!("there is no metadata directory at {path}: name it with {{meta}}, or mount what holds it")
            }
            NotADirectory(path) => at(path, " is no directory: name one with {meta}"),
            NotMetadata(path) => at(
                path,
                " is no metadata directory of SMRfs, or it was copied without its extended attributes: name the right one \
                 with {meta}, or copy it again with its attributes (cp -a, rsync -aX, tar --xattrs)",
            ),
            NoTree(path) => at(
                path,
                " is missing, and with it all names: put it back from a copy, with its attributes; if the volume held no files, \
                 make it anew (mkdir -m 755)",
            ),
            OtherImage { path, belongs, image } => {
                let problem = " is the metadata directory of another image";
                at(path, &format!("{problem} ({belongs}, not {image}): name the right one with {{meta}}"))
            }
            OutOfStep { image, meta, is_older } => {
                let older = if *is_older { image } else { meta };
                format!(
                    "{} and {} are not of the same moment, and files would hold the data of others: {} is an older copy, or was \
                     copied while the volume was mounted; put its newest version back, or restore both from one backup \
                     (smrkit backup copies a volume in use); smrkit fsck keeps what fits",
                    image.display(),
                    meta.display(),
                    older.display(),
                )
            }
            TornCopy(path) => at(
                path,
                " is a copy made while the volume was mounted, or after a crash, so that image and directory may be of \
                 different moments and files hold the data of others: copy the volume with smrkit backup, or after smrkit \
                 umount; smrkit fsck keeps what fits of this one",
            ),
            Exposed { path, how, remedy } => {
                let remedy = format!("{remedy} {}, or trust it as it is with {{trust_open_metadata}}", path.display());
                at(path, &format!(": {how}: {remedy}"))
            }
            NotYours(path) => at(path, " belongs to another user: name one of your own, or take it over (chown)"),
            NotEmpty(path) => at(path, " is not empty: name a new or an empty directory with {meta}"),
            NoAttributes(path) => {
                of(path, "takes no extended attributes of users: put the metadata directory on ext4, xfs or btrfs")
            }
            ShortAttributes { path, bytes } => {
                let problem = format!("takes attributes of {bytes} bytes only, and 512 are needed");
                of(path, &format!("{problem}: make it with larger blocks (mkfs.ext4 -b 4096)"))
            }
            Full(path) => of(path, "is full: free some space, or use another one"),
            FullToMark(path) => of(
                path,
                "is full, and what writes to a volume first marks it as in use: free some space there, or change nothing \
                 (mount it read-only, or smrkit fsck -n)",
            ),
            Interrupted => "interrupted".into(),
            Corrupt(problem) => problem.clone(),
            Io(path, error) => at(path, &format!(": {error}{}", remedy(error))),
        }
    }

    /// Something that a disk can't be.
    pub fn impossible(message: impl Into<String>) -> LiveError {
        LiveError::Impossible(message.into())
    }

    /// An image that is not what it should be.
    pub fn image(path: &Path, fault: impl Into<String>) -> LiveError {
        LiveError::BadImage(path.into(), fault.into())
    }

    /// An error of the operating system about `path`.
    pub fn io(path: &Path, error: io::Error) -> LiveError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LiveError::Full(path.into()),
            io::ErrorKind::Interrupted => LiveError::Interrupted,
            _ => LiveError::Io(path.into(), error),
        }
    }

    /// As `io`, from an error number.
    pub fn os(path: &Path, errno: rustix::io::Errno) -> LiveError {
        LiveError::io(path, errno.into())
    }

    /// An error of the metadata store in `path`.
    pub fn file_system(path: &Path, error: FsError) -> LiveError {
        match error {
            FsError::Errno(Errno::ENOSPC) => LiveError::Full(path.into()),
            FsError::Errno(errno) => LiveError::io(path, io::Error::from_raw_os_error(errno.0)),
            FsError::Device(DeviceError::Io(error)) => LiveError::io(path, error),
            error => LiveError::Corrupt(error.to_string()),
        }
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
