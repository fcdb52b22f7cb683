//! The gate that every request passes: it counts requests, turns a panic into EIO, and refuses requests once the file system is shut.
//!
//! Nothing else in this crate catches panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::FileSystem;

use crate::log::log;

/// Guards the core.
pub struct Gate {
    core: RwLock<Option<FileSystem>>,
    requests: AtomicU64,
}

impl Gate {
    /// Guards `core`.
    pub fn new(core: FileSystem) -> Gate {
        Gate { core: RwLock::new(Some(core)), requests: AtomicU64::new(0) }
    }

    /// Calls the core for a request of the kernel, and counts it.
    pub fn ask<T>(&self, what: &str, work: impl FnOnce(&FileSystem) -> FsResult<T>) -> FsResult<T> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.quietly(what, work)
    }

    /// Calls the core for work of our own, which does not count as a request.
    pub fn quietly<T>(&self, what: &str, work: impl FnOnce(&FileSystem) -> FsResult<T>) -> FsResult<T> {
        let core = self.core.read();
        let core = core.as_ref().ok_or(FsError::Errno(Errno::ENODEV))?;
        let answer = catch_unwind(AssertUnwindSafe(|| work(core))).unwrap_or_else(|_| {
            log(&format!("{what}: a bug; the panic above is answered as EIO"));
            Err(FsError::Errno(Errno::EIO))
        });
        if let Err(error @ (FsError::Device(_) | FsError::Corrupt(_) | FsError::WrongData(_))) = &answer {
            log(&format!("{what}: {error}"));
        }
        answer
    }

    /// Makes everything durable and keeps it ([`FileSystem::keep`]) while no request is let in, and passes the result to `copied`. Requests then
    /// continue, but no change reaches the store before `copied` returns.
    pub fn keep(&self, copied: impl FnOnce(FsResult)) {
        let core = self.core.write();
        let kept = match &*core {
            Some(core) => catch_unwind(AssertUnwindSafe(|| core.keep())).unwrap_or(Err(FsError::Errno(Errno::EIO))),
            None => Err(FsError::Errno(Errno::ENODEV)),
        };
        match kept {
            Ok(store) => {
                let (mut core, mut copied) = (Some(core), Some(copied));
                store.frozen(&mut || {
                    drop(core.take());
                    if let Some(copied) = copied.take() {
                        copied(Ok(()));
                    }
                });
            }
            Err(error) => copied(Err(error)),
        }
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Waits for requests in flight, makes everything durable, and lets no more requests in. `ended` gets the result.
    pub fn shut<E>(&self, ended: impl FnOnce(&FileSystem, FsResult) -> Result<(), E>) -> Result<(), E> {
        let core = {
            let mut core = self.core.write();
            core.take()
        };
        let Some(core) = core else { return Ok(()) };
        let result = catch_unwind(AssertUnwindSafe(|| core.unmount())).unwrap_or_else(|_| {
            log("unmount: a bug; what was not yet durable may be lost");
            Err(FsError::Errno(Errno::EIO))
        });
        ended(&core, result)
    }
}
