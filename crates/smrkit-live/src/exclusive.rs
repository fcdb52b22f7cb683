//! Locks that keep a second user out. A process that was killed may hold them for a moment longer.

use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Tries at a lock that another holds, after growing pauses (assumption).
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(30);

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
