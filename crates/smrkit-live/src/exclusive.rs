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
    let mut tries = 0..TRIES;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if tries.next().is_some() => thread::sleep(BETWEEN_TRIES),
            Err(Errno::WOULDBLOCK) => return Err(LiveError::InUse(path.into())),
            locked => return locked.map_err(|error| LiveError::os(path, error)),
        }
    }
}
