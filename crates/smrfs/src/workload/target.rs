//! Targets of a workload: a file system on the model's clock, or a directory of a mounted one.

use serde::Serialize;
use smrkit::units::Nanos;

use super::FileKey;
use crate::error::FsResult;
use crate::space::Counts;

/// Act of a target in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Makes a file and opens it for writing.
    Create(FileKey),
    /// Opens a file.
    Open {
        /// The file.
        file: FileKey,
        /// For writing, or for reading.
        writing: bool,
    },
    /// Writes this many bytes at the end of an open file.
    Append {
        /// The file.
        file: FileKey,
        /// Number of bytes.
        bytes: u64,
    },
    /// Reads bytes of an open file.
    Read {
        /// The file.
        file: FileKey,
        /// From where.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Closes a file.
    Close {
        /// The file.
        file: FileKey,
        /// True if it was open for writing.
        writing: bool,
    },
    /// Removes a file.
    Delete(FileKey),
    /// Looks a file up and reads its attributes.
    Stat(FileKey),
}

impl Act {
    /// Bytes that it writes.
    pub fn written_bytes(self) -> u64 {
        if let Act::Append { bytes, .. } = self { bytes } else { 0 }
    }

    /// Bytes that it reads.
    pub fn read_bytes(self) -> u64 {
        if let Act::Read { bytes, .. } = self { bytes } else { 0 }
    }
}

/// Room on a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetRoom {
    /// Bytes that files can fill in all.
    pub usable_bytes: u64,
    /// Bytes of files.
    pub live_bytes: u64,
    /// Bytes still free for files.
    pub free_bytes: u64,
    /// The disk by what may be done with it, where the target knows: counts in granules, and bytes of a granule.
    pub counts: Option<(Counts, u64)>,
}

/// Work of a target's cleaner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// Bytes that it has moved.
    pub moved_bytes: u64,
    /// Bands that it has reset.
    pub resets: u64,
    /// Writes that had to wait for it.
    pub stalls: u64,
}

/// A place where files are made, written, read and removed.
pub trait Target {
    /// Does one thing. Room that is used up is ENOSPC.
    fn perform(&mut self, act: Act) -> FsResult;

    /// The target's time.
    fn now(&self) -> Nanos;

    /// Lets the target do what is due in the background, before the next act.
    fn background(&mut self) -> FsResult {
        Ok(())
    }

    /// Lets the time pass in which nobody asks for anything, up to `until`: the target may clean meanwhile, and a step that
    /// it has begun may end later.
    fn rest(&mut self, until: Nanos) -> FsResult;

    /// For how long its cleaner has delayed acts so far, where the target knows.
    fn waited(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Room of the target.
    fn room(&self) -> FsResult<TargetRoom>;

    /// Work of the cleaner, where the target knows it.
    fn cleaned(&self) -> Cleaned {
        Cleaned::default()
    }
}
