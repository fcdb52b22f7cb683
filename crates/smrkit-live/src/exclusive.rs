//! Locks that keep a second user out. A process that was killed may hold them for a moment longer.

use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::LiveError;

/// Tries at a lock that another holds, after growing pauses (assumption).
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(30);

/// Locks a file or a directory against other processes.
pub fn lock_path(path: &Path, file: impl AsFd) -> Result<(), LiveError> {
    lock(file).map_err(|error| match error {
        Errno::WOULDBLOCK => LiveError::InUse(path.into()),
        error => LiveError::os(path, error),
    })
}

/// Locks a file against other processes; WOULDBLOCK if one holds the lock.
pub fn lock(file: impl AsFd) -> Result<(), Errno> {
    for _ in 0..TRIES {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => thread::sleep(BETWEEN_TRIES),
            done => return done,
        }
    }
    flock(&file, FlockOperation::NonBlockingLockExclusive)
}
