//! Mounted, with everything in memory: what programs see through the kernel.
//!
//! Images, metadata directories and the daemon are tested with the command (`crates/smrkit-cli/tests/mounted`).

mod ageing;
mod flush_fails;
mod listed;
mod memory;
mod operations;
mod semantics;
mod slow_flush;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use smrfs::device::{HostManaged, Model};
use smrfs::fs::FileSystem;
use smrkit_live::mount::{self, MountError, MountOptions, Session};
use tempfile::TempDir;

/// Both models.
const MODELS: [Model; 2] = [Model::StrictAppend, Model::Caveat];

/// A mount, until it is dropped.
struct Mounted {
    folder: TempDir,
    serving: Option<JoinHandle<Result<(), MountError>>>,
}

impl Mounted {
    /// Mounts a fresh disk in memory; none, with a word for the skip list, where there is no FUSE.
    fn new(model: Model) -> Option<Mounted> {
        let (core, device) = memory::file_system(model);
        Mounted::on(core, device, Duration::from_millis(300))
    }

    /// Mounts a file system on `device`, in memory.
    fn on(core: FileSystem, device: Arc<dyn HostManaged>, commit_interval: Duration) -> Option<Mounted> {
        Mounted::of(core, device, ["memory"; 2].map(PathBuf::from), commit_interval)
    }

    /// Mounts a file system on `device`, which lies in an image and a directory.
    fn of(
        core: FileSystem,
        device: Arc<dyn HostManaged>,
        [image, meta]: [PathBuf; 2],
        commit_interval: Duration,
    ) -> Option<Mounted> {
        if let Err(error) = mount::check_system() {
            println!("skipped: can't mount here: {error}");
            return None;
        }
        let folder = TempDir::new().expect("a folder");
        let options = MountOptions {
            image,
            meta,
            mount_point: folder.path().canonicalize().expect("the folder's path"),
            read_only: false,
            allow_other: false,
            commit_interval,
        };
        let session = Session::start(core, &device, options).expect("a mount");
        let serving = Some(std::thread::spawn(move || session.wait(|| Ok(()))));
        Some(Mounted { folder, serving })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let path = self.folder.path().canonicalize().expect("the folder's path");
        let ended = mount::end(&path, false);
        if ended.is_err() {
            // Whatever went wrong, nothing stays mounted.
            let _ = mount::unmount(&path, mount::Unmount::Detach);
        }
        if std::thread::panicking() {
            return;
        }
        ended.expect("a clean unmount");
        let served = self.serving.take().expect("a thread").join().expect("no panic");
        served.expect("a clean end");
    }
}
