//! The FUSE side of a mount: the kernel's requests become calls of the file system's core, and its answers replies.
//!
//! This module only translates; the core decides. Requests for locks (which are then local), ioctl, poll and access (`default_permissions`) are
//! not handled, so that the kernel answers them itself. Nor is flush, because closing a file has no error to report: room is promised when a
//! write is acknowledged.

/// Replies with a result: by a call that takes what it holds, or with its error.
#[macro_export]
macro_rules! answer {
    ($reply:ident, $result:expr, $done:pat => $call:expr) => {
        match $result {
            Ok($done) => $call,
            Err(error) => $reply.error(error),
        }
    };
}

mod adapter;
mod convert;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::FileSystem;

pub use adapter::{Adapter, negotiate};

use crate::log::log;

/// The gate to the core, which every request passes: it turns a panic into EIO, and refuses requests once the file system is shut. Nothing else in
/// this crate catches panics.
pub struct Gate {
    core: RwLock<Option<FileSystem>>,
    /// Requests of the kernel so far.
    requests: AtomicU64,
}

impl Gate {
    /// Guards `core`.
    pub fn new(core: FileSystem) -> Gate {
        Gate { core: RwLock::new(Some(core)), requests: AtomicU64::new(0) }
    }

    /// Calls the core for `work`, which `what` names in the log.
    pub fn ask<T>(&self, what: &str, work: impl FnOnce(&FileSystem) -> FsResult<T>) -> FsResult<T> {
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

    /// Lets no request in, makes everything durable and keeps the disk unchanged for a backup ([`FileSystem::keep`]). `on_frozen` is called with
    /// the result, and then requests continue, but no change reaches the store before it returns.
    pub fn keep(&self, on_frozen: impl FnOnce(FsResult)) {
        let core = self.core.write();
        let kept = match &*core {
            Some(core) => catch_unwind(AssertUnwindSafe(|| core.keep())).unwrap_or(Err(FsError::Errno(Errno::EIO))),
            None => Err(FsError::Errno(Errno::ENODEV)),
        };
        match kept {
            Ok(store) => {
                // Requests may continue as soon as the store is frozen, so the lock is released within. Both are options because `frozen` calls
                // this only once, but can't promise that to the compiler.
                let (mut core, mut on_frozen) = (Some(core), Some(on_frozen));
                store.frozen(&mut || {
                    drop(core.take());
                    if let Some(on_frozen) = on_frozen.take() {
                        on_frozen(Ok(()));
                    }
                });
            }
            Err(error) => on_frozen(Err(error)),
        }
    }

    /// Requests of the kernel so far. Our own work does not count.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Waits for requests in flight, makes everything durable, and lets no more requests in. `ended` gets the result.
    pub fn shut<E>(&self, ended: impl FnOnce(&FileSystem, FsResult) -> Result<(), E>) -> Result<(), E> {
        // The lock is not held during the unmount, so that requests that come meanwhile are refused at once.
        let taken = self.core.write().take();
        let Some(core) = taken else { return Ok(()) };
        let result = catch_unwind(AssertUnwindSafe(|| core.unmount())).unwrap_or_else(|_| {
            log("unmount: a bug; what was not yet durable may be lost");
            Err(FsError::Errno(Errno::EIO))
        });
        ended(&core, result)
    }
}
