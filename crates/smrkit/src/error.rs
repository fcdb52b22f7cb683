//! The errors that a user, a file or a disk can cause. Each message states the remedy.

use std::fmt;
use std::path::PathBuf;

use crate::message::plain;
use crate::units::{Lba, Pba};

/// Errors of the library. The command's exit code follows the variant.
#[non_exhaustive]
#[derive(thiserror::Error)]
pub enum Error {
    /// An option, a parameter or a name that makes no sense (exit code 2).
    #[error("{}", plain(.0))]
    Usage(String),
    /// A file that can't be understood (exit code 3).
    #[error("{0}")]
    Input(Box<BadInput>),
    /// A request that the device has no room for (exit code 3).
    #[error("{0}")]
    NoRoom(Box<NoRoom>),
    /// A configuration that no drive could have (exit code 4).
    #[error("{}", plain(.0))]
    Impossible(String),
    /// Data damaged, stale or lost (exit code 5).
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    /// One of these errors, and what it is about.
    #[error("{}: {error}", plain(.whose))]
    Of {
        /// A layer, an array or a run.
        whose: String,
        /// The error.
        error: Box<Error>,
    },
    /// A trace that was replayed as one volume turns out to have a second one. A signal for the caller to scan the trace and start again
    /// (`smrkit_trace::LaidOutTrace::with_table`), not for the user.
    #[error("{}: the trace has more than one volume; scan it and start again, or choose one of them", .0.display())]
    SecondVolume(PathBuf),
    /// A file that can't be opened, read or written (exit code 3 when it is read, else 1).
    #[error("{}: {error}{}", path.display(), remedy_of(error))]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
        /// True if it was being written.
        writing: bool,
    },
}

/// Parsers box their errors, to keep the good path narrow.
impl From<Box<Error>> for Error {
    fn from(error: Box<Error>) -> Error {
        *error
    }
}

/// The message: a program whose `main` returns the error prints this.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn remedy_of(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::*;
    match error.kind() {
        NotFound => "; check the path",
        NotADirectory | AlreadyExists => "; name a folder",
        IsADirectory => "; name a file",
        PermissionDenied => "; check the permissions",
        StorageFull => "; free some space or write elsewhere",
        _ => "",
    }
}

/// A place in a file that can't be understood.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
#[error("{}", plain(&self.message()))]
pub struct BadInput {
    /// The file, or `-` for standard input.
    pub path: PathBuf,
    /// The line (text) or record (binary), from 1; `None` for the file as a whole.
    pub line: Option<u64>,
    /// The column of the line, in bytes from 1.
    pub column: Option<u64>,
    /// The fault, the expected value and the remedy.
    pub message: String,
}

impl BadInput {
    fn message(&self) -> String {
        let number = |number: Option<u64>| number.map_or(String::new(), |number| format!("{number}:"));
        let (line, column) = (number(self.line), number(self.column));
        format!("{}:{line}{column} {}", self.path.display(), self.message)
    }
}

/// A request that ends outside its device.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
#[error("{}", plain(&self.message()))]
pub struct NoRoom {
    /// The trace's file, or a name for the source.
    pub path: PathBuf,
    /// Number of the request, from 1.
    pub number: u64,
    /// Its sectors.
    pub sectors: u64,
    /// The sector after its last.
    pub end: Lba,
    /// The device's size in sectors.
    pub capacity: u64,
    /// The remedy.
    pub remedy: String,
}

impl NoRoom {
    /// True if it would not fit at any address.
    pub fn is_too_large(&self) -> bool {
        self.sectors > self.capacity
    }

    fn message(&self) -> String {
        let NoRoom { path, number, sectors, end, capacity, remedy } = self;
        let problem = match self.is_too_large() {
            true => format!("has {sectors} sectors, more than the capacity of {capacity}"),
            false => format!("ends at sector {end}, past the capacity of {capacity} sectors"),
        };
        format!("{}: request {number} {problem}: {remedy}", path.display())
    }
}

impl Error {
    /// A file as a whole is not what it should be.
    pub fn input(path: impl Into<PathBuf>, message: impl Into<String>) -> Error {
        Error::Input(Box::new(BadInput { path: path.into(), line: None, column: None, message: message.into() }))
    }

    /// A line (from 1) of a file is not what it should be; `column` is in bytes from 1.
    pub fn at_line(path: impl Into<PathBuf>, line: u64, column: Option<u64>, message: impl Into<String>) -> Error {
        Error::Input(Box::new(BadInput { path: path.into(), line: Some(line), column, message: message.into() }))
    }

    /// The error, about `whose`.
    pub fn about(self, whose: impl Into<String>) -> Error {
        Error::Of { whose: whose.into(), error: Box::new(self) }
    }

    /// The error, about `whose` if it is an impossible configuration and does not say whose yet.
    pub(crate) fn impossible_about(self, whose: impl Into<String>) -> Error {
        if matches!(self, Error::Impossible(_)) { self.about(whose) } else { self }
    }

    /// The error's text, with options in braces, which each front end words its own way ([`crate::message::worded`]).
    pub fn message(&self) -> String {
        match self {
            Error::Usage(message) | Error::Impossible(message) => message.clone(),
            Error::Input(bad) => bad.message(),
            Error::NoRoom(request) => request.message(),
            Error::Of { whose, error } => format!("{whose}: {}", error.message()),
            other => other.to_string(),
        }
    }

    /// The error itself, without what it is about.
    pub fn cause(&self) -> &Error {
        match self {
            Error::Of { error, .. } => error.cause(),
            own => own,
        }
    }

    /// A file could not be read.
    pub fn reading(path: impl Into<PathBuf>, error: std::io::Error) -> Error {
        Error::Io { path: path.into(), error, writing: false }
    }

    /// A file could not be written.
    pub fn writing(path: impl Into<PathBuf>, error: std::io::Error) -> Error {
        Error::Io { path: path.into(), error, writing: true }
    }
}

/// Fault of data on a disk.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Data that the host still owns was destroyed by a write to a neighbour.
    #[error("LBA {lba} at PBA {pba} was damaged by a write of LBA {by}: the layer broke the shingling law")]
    Damaged {
        /// LBA of the data.
        lba: Lba,
        /// PBA at which it lay.
        pba: Pba,
        /// LBA that was being written next to it.
        by: Lba,
    },
    /// A read returned something else than the last write.
    #[error("a read of LBA {lba} returned write {found}, but the last write to it was {expected}")]
    Stale {
        /// The address read.
        lba: Lba,
        /// The version found.
        found: u64,
        /// The version expected.
        expected: u64,
    },
    /// A layer's internal state contradicts itself or the disk.
    #[error("the layer's state contradicts itself: {0}")]
    Inconsistent(String),
    /// A saved state that is not of this drive, or was damaged.
    #[error("the saved state {0}")]
    SavedState(String),
    /// A host-managed disk refused a request.
    #[error("{0}: a host-managed disk refuses it; write zones in order and reset them (or set zoned.violations=count)")]
    ZoneRule(String),
    /// An access outside the disk.
    #[error("an access of {sectors} sectors at PBA {pba} leaves the disk of {capacity} sectors")]
    OutOfRange {
        /// The first sector.
        pba: Pba,
        /// Number of sectors.
        sectors: u64,
        /// The disk's size in sectors.
        capacity: u64,
    },
    /// The power was cut.
    #[error("the power was cut at physical write {write}")]
    PowerCut {
        /// Number of the write, from 1.
        write: u64,
    },
    /// A layer that keeps what was acknowledged lost some of it in a power cut.
    #[error("the power cut at physical write {write} lost {sectors} acknowledged sectors, the first at LBA {lba}")]
    Lost {
        /// The write that was cut.
        write: u64,
        /// The first lost address.
        lba: Lba,
        /// Number of sectors that are lost.
        sectors: u64,
    },
    /// An array has lost more members than it has copies or parity for.
    #[error("LBA {lba} lies on members that have failed, and no copy or parity is left to rebuild it from")]
    ArrayLost {
        /// The first address lost.
        lba: Lba,
    },
    /// A file system broke a rule of its disk, or found nonsense on it.
    #[error("the file system: {0}")]
    FileSystem(String),
    /// A live disk failed.
    #[error("the disk failed: {0}")]
    Io(#[from] std::io::Error),
}

/// The result of an access to a disk. The fault is boxed to keep the good path narrow.
pub type DiskResult<T = ()> = Result<T, Box<Fault>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_main_returns_is_shown_as_its_message() {
        let error = Error::Usage("give {depth} 2".into());
        assert_eq!(format!("{error:?}"), error.to_string());
    }

    #[test]
    fn errors_of_files_say_the_remedy() {
        use std::io::ErrorKind::*;
        for (kind, remedy) in [
            (NotFound, "; check the path"),
            (NotADirectory, "; name a folder"),
            (AlreadyExists, "; name a folder"),
            (IsADirectory, "; name a file"),
            (PermissionDenied, "; check the permissions"),
            (StorageFull, "; free some space or write elsewhere"),
            (InvalidData, ""),
        ] {
            assert_eq!(remedy_of(&kind.into()), remedy, "{kind:?}");
        }
    }

    #[test]
    fn a_request_as_large_as_the_device_fits_at_some_address() {
        let text = |sectors| {
            let (path, remedy) = ("a.csv".into(), "fold".into());
            NoRoom { path, number: 3, sectors, end: Lba(12), capacity: 10, remedy }.to_string()
        };
        assert_eq!(text(10), "a.csv: request 3 ends at sector 12, past the capacity of 10 sectors: fold");
        assert_eq!(text(11), "a.csv: request 3 has 11 sectors, more than the capacity of 10: fold");
    }
}
