//! Room kept on a file system of the host for data that has been accepted and not yet written there.
//!
//! A file without a name holds the room. A write that finds the file system full shortens that file, and tries again. On file
//! systems without such files nothing can be kept, and another program may take the room first.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use smrfs::error::FsError;

/// The file grows in steps of this size, so that not every write has to extend it (assumption).
const STEP_BYTES: u64 = 1 << 20;
/// The least that is given back at a time, because the host's metadata for a write needs room too (assumption).
const GIVE_BYTES_MIN: u64 = 64 << 10;

/// Room set aside in a directory of the host.
#[derive(Debug)]
pub struct Reserve {
    directory: Option<OwnedFd>,
    state: Mutex<ReserveState>,
}

#[derive(Debug, Default)]
struct ReserveState {
    /// `None` if it was not tried yet, or is impossible here.
    file: Option<File>,
    is_tried: bool,
    /// Bytes that the file takes up.
    bytes: u64,
    /// Bytes that were last asked for, which are for accepted data only.
    wanted: u64,
}

/// Purpose of a write, which decides how much of the reserve it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Accepted data, for which the room is kept.
    Accepted,
    /// Anything else, which may use only what is kept beyond the bytes wanted.
    Other,
}

/// An error that may mean that there is no room.
pub trait Full {
    /// True if it means that.
    fn is_full(&self) -> bool;
}

impl Full for io::Error {
    fn is_full(&self) -> bool {
        matches!(self.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

impl Full for rustix::io::Errno {
    fn is_full(&self) -> bool {
        io::Error::from(*self).is_full()
    }
}

impl Full for FsError {
    fn is_full(&self) -> bool {
        io::Error::from_raw_os_error(self.errno().0).is_full()
    }
}

impl Reserve {
    /// An empty reserve in `directory`; without one, nothing is ever kept or refused.
    pub fn new(directory: Option<OwnedFd>) -> Reserve {
        Reserve { directory, state: Mutex::default() }
    }

    /// Keeps room for `bytes` in all. Errors: there is not so much.
    pub fn keep(&self, bytes: u64) -> io::Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let mut state = self.state.lock();
        state.wanted = bytes;
        if state.bytes >= bytes {
            return Ok(());
        }
        if !state.is_tried {
            state.is_tried = true;
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            state.file = rustix::fs::openat(directory, ".", flags, Mode::from_raw_mode(0o600)).map(File::from).ok();
        }
        // Without this check, a fallocate that is bound to fail would for a moment take all that other programs have left.
        if free_bytes(directory)? < bytes - state.bytes {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        let mut grown = state.grow(bytes.next_multiple_of(STEP_BYTES));
        if grown.as_ref().is_err_and(Full::is_full) {
            grown = state.grow(bytes);
        }
        match grown {
            Err(error) if error.is_full() => Err(error),
            // Kept; or this file system has no files without a name, or none that take up room: then nothing can be kept.
            _ => Ok(()),
        }
    }

    /// Bytes that this process can write, including those kept; `None` without a directory.
    pub fn room_bytes(&self) -> io::Result<Option<u64>> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let kept = self.state.lock().bytes;
        Ok(Some(free_bytes(directory)? + kept))
    }

    /// Runs `work`, which needs about `bytes`; if the disk is full, frees some of the reserve and tries again.
    pub fn with<T, E: Full>(&self, bytes: u64, purpose: Use, mut work: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        loop {
            match work() {
                Err(error) if error.is_full() && self.give(bytes.max(GIVE_BYTES_MIN), purpose) => {}
                done => return done,
            }
        }
    }

    /// Gives room back; `false` if there is nothing that may be given.
    fn give(&self, bytes: u64, purpose: Use) -> bool {
        let mut state = self.state.lock();
        let available_bytes = match purpose {
            Use::Accepted => state.bytes,
            Use::Other => state.bytes.saturating_sub(state.wanted),
        };
        let left = state.bytes - bytes.min(available_bytes);
        if available_bytes == 0 || state.file.as_ref().is_none_or(|file| file.set_len(left).is_err()) {
            return false;
        }
        state.bytes = left;
        true
    }
}

impl ReserveState {
    fn grow(&mut self, bytes: u64) -> io::Result<()> {
        let Some(file) = &self.file else { return Err(io::ErrorKind::Unsupported.into()) };
        let from = self.bytes;
        fallocate(file, FallocateFlags::empty(), from, bytes - from).inspect_err(|_| {
            // Gives back what was taken before it failed.
            let _ = file.set_len(from);
        })?;
        self.bytes = bytes;
        Ok(())
    }
}

/// Bytes that this process can still write there.
pub fn free_bytes(directory: &OwnedFd) -> io::Result<u64> {
    let stat = rustix::fs::fstatvfs(directory)?;
    let blocks = if rustix::process::geteuid().is_root() { stat.f_bfree } else { stat.f_bavail };
    Ok(blocks.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn directory(path: &std::path::Path) -> Option<OwnedFd> {
        Some(File::open(path).unwrap().into())
    }

    #[test]
    fn two_errors_say_that_there_is_no_room() {
        use rustix::io::Errno;
        assert!([Errno::NOSPC, Errno::DQUOT].iter().all(Full::is_full));
        assert!(![Errno::IO, Errno::NOENT, Errno::NODEV].iter().any(Full::is_full));
        assert!(io::Error::from(Errno::NOSPC).is_full() && io::Error::from(Errno::DQUOT).is_full());
        assert!(!io::Error::from(Errno::IO).is_full());
        let of_core = |errno| FsError::Errno(smrfs::error::Errno(errno));
        assert!([Errno::NOSPC, Errno::DQUOT].iter().all(|errno| of_core(errno.raw_os_error()).is_full()));
        assert!(![Errno::IO, Errno::PERM].iter().any(|errno| of_core(errno.raw_os_error()).is_full()));
    }

    #[test]
    fn what_is_kept_goes_to_those_it_is_kept_for() {
        let folder = tempfile::TempDir::new().unwrap();
        let reserve = Reserve::new(directory(folder.path()));
        reserve.keep(3 * GIVE_BYTES_MIN).unwrap();
        let kept = reserve.state.lock().bytes;
        assert_eq!(kept, STEP_BYTES);
        let tries = Cell::new(0);
        let full = || -> io::Result<()> {
            tries.set(tries.get() + 1);
            Err(io::ErrorKind::StorageFull.into())
        };
        assert!(reserve.with(GIVE_BYTES_MIN, Use::Other, full).is_err());
        assert_eq!(reserve.state.lock().bytes, 3 * GIVE_BYTES_MIN);
        assert_eq!(tries.replace(0), (kept / GIVE_BYTES_MIN) as u32 - 3 + 1);
        assert!(reserve.with(GIVE_BYTES_MIN, Use::Accepted, full).is_err());
        assert_eq!((reserve.state.lock().bytes, tries.get()), (0, 4));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn more_than_there_is_is_refused_and_takes_nothing() {
        let folder = tempfile::TempDir::new().unwrap();
        let reserve = Reserve::new(directory(folder.path()));
        let room = reserve.room_bytes().unwrap().unwrap();
        assert!(reserve.keep(room.saturating_mul(2)).unwrap_err().is_full());
        assert_eq!(reserve.state.lock().bytes, 0);
        assert!(Reserve::new(None).keep(u64::MAX).is_ok());
    }

    #[test]
    fn what_is_kept_grows_in_steps_and_room_counts_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let reserve = Reserve::new(directory(folder.path()));
        let kept = |bytes| {
            reserve.keep(bytes).unwrap();
            reserve.state.lock().bytes
        };
        assert_eq!([0, 1, STEP_BYTES, 5].map(kept), [0, STEP_BYTES, STEP_BYTES, STEP_BYTES]);
        assert_eq!(kept(STEP_BYTES + 1), 2 * STEP_BYTES);
        let file = reserve.state.lock().file.as_ref().unwrap().metadata().unwrap();
        assert_eq!(file.len(), 2 * STEP_BYTES);
        assert_eq!(Reserve::new(None).room_bytes().unwrap(), None);
        // What was last asked for is not for others.
        let full = || Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull));
        assert!(reserve.with(4 * STEP_BYTES, Use::Other, full).is_err());
        assert_eq!(reserve.state.lock().bytes, STEP_BYTES + 1);
        assert!(reserve.with(GIVE_BYTES_MIN + 3, Use::Accepted, full).is_err());
        assert_eq!(reserve.state.lock().bytes, 0);
        assert_eq!(reserve.with(1, Use::Other, || Ok::<_, io::Error>(7)).unwrap(), 7);
        let other = || Err::<(), _>(io::Error::from(io::ErrorKind::NotFound));
        kept(1);
        assert!(reserve.with(1, Use::Accepted, other).is_err());
        assert_eq!(reserve.state.lock().bytes, STEP_BYTES, "another error takes nothing");
    }
}
