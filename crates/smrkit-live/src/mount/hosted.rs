//! A file system made anew and mounted by this process, for as long as it is kept: for measurements and tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use smrfs::fs::FileSystem;
use smrfs::space::Space;

use super::{Handle, MountError, MountOptions, Session};
use crate::volume::{Layout, MkfsOptions, Open, Volume, mkfs};

/// As often as file systems in simulation commit, which these are compared with.
const COMMIT_INTERVAL: Duration = Duration::from_secs(5);

/// A mount of this process.
pub struct Hosted {
    point: PathBuf,
    handle: Handle,
    serving: Option<JoinHandle<Result<(), MountError>>>,
}

impl Hosted {
    /// Makes an image, its metadata and a mount point in `folder`, and mounts with that allocator.
    pub fn start(
        folder: &Path,
        layout: Layout,
        space: Box<dyn Space>,
        options: smrfs::fs::FsOptions,
    ) -> Result<Hosted, MountError> {
        let (image, meta, point) = (folder.join("disk.img"), folder.join("meta"), folder.join("mnt"));
        fs::create_dir(&point).map_err(|error| MountError::Point { path: point.clone(), error })?;
        let point = super::canonical(&point)?;
        super::check(&point)?;
        mkfs(&MkfsOptions { image: image.clone(), meta: meta.clone(), layout, force: false })?;
        let mut volume = Volume::open(&image, &Open::default())?;
        let core = FileSystem::mount(volume.device(), volume.store(), space, options)?;
        let options = MountOptions {
            image,
            meta,
            mount_point: point.clone(),
            read_only: false,
            allow_other: false,
            commit_interval: COMMIT_INTERVAL,
        };
        let session = Session::start(core, &volume.device(), options)?;
        let handle = session.handle();
        let serve = move || session.wait(move || Ok(volume.close()?));
        let serving = thread::Builder::new().name("hosted".into()).spawn(serve).map_err(MountError::Refused)?;
        Ok(Hosted { point, handle, serving: Some(serving) })
    }

    /// The mount point.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Unmounts; all is durable then.
    pub fn end(mut self) -> Result<(), MountError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), MountError> {
        let Some(serving) = self.serving.take() else { return Ok(()) };
        if super::point::unmount_patiently(&self.point).is_err() {
            self.handle.signal();
        }
        let died = |_| MountError::Daemon("the thread that served the mount ended with a bug".into());
        serving.join().map_err(died)?
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        // Whoever wants to know calls `end`.
        let _ = self.finish();
    }
}
