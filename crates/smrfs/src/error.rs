//! The errors of the file system, and the one place where they become error numbers.

use std::io;

use smrkit::error::{Error, Fault};

use crate::units::{Granule, Span};

/// The error number of a system call, as Linux numbers it. The table is our own, because crates that have one depend on an operating
/// system, which this core does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! errno {
    ($($name:ident = $number:literal, $what:literal;)*) => {
        impl Errno {
            $(#[doc = $what] pub const $name: Errno = Errno($number);)*

            /// Its name, such as `ENOENT`.
            pub fn name(self) -> &'static str {
                match self.0 { $($number => stringify!($name),)* _ => "another error" }
            }

            /// Meaning of the error.
            pub fn meaning(self) -> &'static str {
                match self.0 { $($number => $what,)* _ => "an error of the operating system" }
            }
        }
    };
}

errno! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file or directory";
    EIO = 5, "input/output error";
    ENXIO = 6, "nothing there";
    E2BIG = 7, "argument too long";
    EBADF = 9, "not an open file";
    EACCES = 13, "permission denied";
    EBUSY = 16, "busy";
    EEXIST = 17, "the name exists";
    EXDEV = 18, "on another file system";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "a directory";
    EINVAL = 22, "invalid argument";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left";
    EROFS = 30, "read-only file system";
    EMLINK = 31, "too many links";
    ERANGE = 34, "out of range";
    ENAMETOOLONG = 36, "name too long";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many symbolic links";
    ENODATA = 61, "no such attribute";
    EOVERFLOW = 75, "value too large";
    EOPNOTSUPP = 95, "not supported";
}

/// Refusal of a strict-append disk, or finding of a checker: one variant a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message names the fields")]
pub enum Violation {
    /// Beyond the end of the disk, or of no length.
    #[error("{span} is outside the disk of {granules} granules")]
    OutOfRange { span: Span, granules: u64 },
    /// In the gap between two bands, or in two bands.
    #[error("{span} is not inside one band")]
    NotInOneBand { span: Span },
    /// A band that does not exist.
    #[error("there is no band {band}: the disk has {bands}")]
    NoSuchBand { band: u64, bands: u64 },
    /// A write that does not begin at its band's write cursor.
    #[error("a write at {at} in a band whose cursor is at {cursor}")]
    NotAtCursor { at: Granule, cursor: Granule },
    /// A write that would open one band too many.
    #[error("{limit} bands are open already: fill or close one first")]
    TooManyOpen { limit: u64 },
    /// A read of granules that were not written since the last reset.
    #[error("a read of {span}, of which nothing from {cursor} on has been written")]
    BeyondCursor { span: Span, cursor: Granule },
    /// An operation that the disk's model does not have, such as a reset on a disk without bands.
    #[error("this disk has no bands")]
    NoBands,
    /// A reset of a band that holds readable data (found by the checker).
    #[error("a reset of a band while {at} may still be read")]
    ResetOfLive { at: Granule },
    /// A write over readable data (found by the checker).
    #[error("a write of {at}, which may still be read")]
    OverLive { at: Granule },
    /// A write that destroys readable data downstream (rule 1, found by the checker).
    #[error("a write of {at} damages {live}, which may still be read, within DID below it")]
    Downstream { at: Granule, live: Granule },
    /// A second write below readable data (rule 2, found by the checker).
    #[error("a second write of {at} damages {live}, which may still be read, within DPID above it")]
    Upstream { at: Granule, live: Granule },
}

/// Why a device did not carry out a request.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message names the fields")]
pub enum DeviceError {
    /// The safety rule forbids it.
    #[error("the disk refuses: {0}")]
    Violation(#[from] Violation),
    /// A read of data that shingling had damaged.
    #[error("{at} was damaged by a write of {by}")]
    Damaged { at: Granule, by: Granule },
    /// The power is off (in tests).
    #[error("the power is off")]
    PowerCut,
    /// An error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Result of a device.
pub type DeviceResult<T = ()> = Result<T, DeviceError>;

/// A map that a store vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedMap {
    /// The record, as `store_map` was given it.
    pub record: Vec<u8>,
    /// A number that the file got with its first map. A second file with the same number has a copy of the map.
    pub mark: u64,
}

/// A map in a store whose seal says that it belongs elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealError {
    /// The file.
    pub file: u64,
    /// The problem, in words.
    pub fault: SealFault,
    /// The bytes as the store has them.
    pub stored: Vec<u8>,
}

/// A fault of a seal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message names the fields")]
pub enum SealFault {
    /// The bytes are damaged: their checksum does not match.
    #[error("its map is damaged: its checksum does not match")]
    Damaged,
    /// A version that this program does not know.
    #[error("its map is sealed in version {0}, which this smrkit does not know: use a newer one")]
    Version(u8),
    /// The bytes are intact, but were not sealed with this volume's key.
    #[error("its map was not made by this volume")]
    Forged,
    /// The map was made for a file of another user.
    #[error("its map was made for a file of user {sealed_for}, and the file belongs to user {owner}")]
    Owner { sealed_for: u32, owner: u32, map: SealedMap },
}

/// Why the file system did not carry out a call.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// An error number of a system call.
    #[error("{} ({})", .0.meaning(), .0.name())]
    Errno(Errno),
    /// The shingled disk failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Corrupt contents of the disk, with their place and the remedy.
    #[error("{0}")]
    Corrupt(String),
    /// Data at that granule of the disk, whose checksum differs from that in the file's map.
    #[error(
        "what lies at {0} is not what was written there: restore the file from a copy; smrkit scrub names all such files"
    )]
    WrongData(Granule),
    /// The seal of a map is not what it should be.
    #[error("file {}: {}; run smrkit fsck", .0.file, .0.fault)]
    Seal(Box<SealError>),
    /// A part of a map was not sealed with this volume's key.
    #[error("part {0} of a map was not made by this volume; run smrkit fsck")]
    ForgedPart(u64),
    /// The power is off (in tests).
    #[error("the power is off")]
    PowerCut,
}

impl From<Errno> for FsError {
    fn from(errno: Errno) -> FsError {
        FsError::Errno(errno)
    }
}

impl FsError {
    /// The error of a call that has changed something before it failed: EIO, whatever it failed with, because other numbers mean that nothing
    /// has changed.
    pub fn after_change(self) -> FsError {
        if self.errno() == Errno::EIO { self } else { Errno::EIO.into() }
    }

    /// The error number that a system call returns for it.
    pub fn errno(&self) -> Errno {
        match self {
            FsError::Errno(errno) => *errno,
            FsError::Device(DeviceError::Io(error)) => error.raw_os_error().map_or(Errno::EIO, Errno),
            FsError::Device(_)
            | FsError::Corrupt(_)
            | FsError::WrongData(_)
            | FsError::Seal(_)
            | FsError::ForgedPart(_)
            | FsError::PowerCut => Errno::EIO,
        }
    }
}

impl From<FsError> for Error {
    /// For commands: errors of the operating system stay so; broken rules of a disk are faults.
    fn from(error: FsError) -> Error {
        Error::Fault(Box::new(match error {
            FsError::Device(DeviceError::Io(error)) => Fault::Io(error),
            error => Fault::FileSystem(error.to_string()),
        }))
    }
}

/// Result of the file system.
pub type FsResult<T = ()> = Result<T, FsError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_change_every_error_is_an_io_error() {
        let corrupt = FsError::Corrupt("what is wrong".into());
        for error in [Errno::ENOENT.into(), Errno::EROFS.into(), Errno::EIO.into(), FsError::PowerCut] {
            assert_eq!(FsError::after_change(error).errno(), Errno::EIO);
        }
        assert_eq!(corrupt.after_change().to_string(), "what is wrong", "the log names the reason");
    }
}
