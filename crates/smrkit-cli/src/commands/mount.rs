//! `smrkit mount`: mounts an image as a file system, and serves it in the background until it is unmounted.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, FromArgMatches};
use smrfs::fs::{self, FileSystem};
use smrkit::error::Error;
use smrkit::message::worded;
use smrkit_live::daemon::{self, Started};
use smrkit_live::log::log;
use smrkit_live::mount::control::{ControlClient, ControlCommand};
use smrkit_live::mount::helper::{self, Helper, HelperRequest, HelperUmount};
use smrkit_live::mount::{self, Handle, MountError, MountOptions, Session, Unmount, run_directory};
use smrkit_live::volume::{Open, Volume};

use super::volume::VolumeOptions;
use crate::exit;
use crate::interrupt::handle_signals;
use crate::invocation;
use crate::output::print;

/// Exit codes of mount(8): a wrong call, and a mount that failed.
const HELPER_USAGE: u8 = 1;
const HELPER_FAILED: u8 = 32;

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit mount disk.img /mnt/smr
  smrkit mount --foreground --commit-interval 1s disk.img /mnt/smr")]
pub struct Mount {
    /// The image or the block device.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// An empty directory, where it is to appear.
    #[arg(value_name = "MOUNTPOINT")]
    mount_point: PathBuf,
    /// Stay in the foreground. The log goes to standard error.
    #[arg(long)]
    foreground: bool,
    #[command(flatten)]
    volume: VolumeOptions,
    /// Allow no changes.
    #[arg(long)]
    read_only: bool,
    /// Let other users access the mount. Always so for root; others need user_allow_other in /etc/fuse.conf.
    #[arg(long)]
    allow_other: bool,
    /// File for the log [default: next to the control socket].
    #[arg(long, value_name = "FILE", conflicts_with = "foreground")]
    log: Option<PathBuf>,
    /// Longest time that written data may stay volatile unless it is synced [default: 500ms].
    #[arg(long, value_name = "DURATION")]
    commit_interval: Option<String>,
    /// Serve, as the process in the background.
    #[arg(long, hide = true, conflicts_with = "foreground")]
    daemon: bool,
}

/// Acts as the helper of mount(8) or umount(8), with their exit codes.
pub fn help(helper: Helper, arguments: impl Iterator<Item = OsString>) -> u8 {
    let failed = |code, error: &dyn Display| {
        eprintln!("{}: {error}", helper.name());
        code
    };
    if helper == Helper::Umount {
        let request = match HelperUmount::parse(arguments) {
            Err(error) => return failed(HELPER_USAGE, &error),
            Ok(request) => request,
        };
        return unmount(&request).map_or_else(|error| failed(HELPER_FAILED, &error), |()| 0);
    }
    let done = match HelperRequest::parse(arguments) {
        Err(error) => return failed(HELPER_USAGE, &error),
        Ok(HelperRequest::Nothing) => Ok(()),
        Ok(HelperRequest::Remount { point, read_only }) => {
            mount::canonical(&point).and_then(|point| mount::remount(&point, read_only)).map_err(anyhow::Error::from)
        }
        Ok(HelperRequest::Mount(arguments)) => mount_with(helper, &arguments),
    };
    let message = |error| worded(&exit::chain(&error), &helper::option);
    done.map_or_else(|error| failed(HELPER_FAILED, &message(error)), |()| 0)
}

/// Mounts by the command `mount` with these arguments.
fn mount_with(helper: Helper, arguments: &[OsString]) -> anyhow::Result<()> {
    let command = Mount::augment_args(clap::Command::new(helper.name()).no_binary_name(true));
    let mount = Mount::from_arg_matches(&command.try_get_matches_from(arguments)?)?;
    mount.start_daemon(arguments)?;
    Ok(())
}

fn unmount(request: &HelperUmount) -> Result<(), MountError> {
    let point = mount::canonical(&request.point)?;
    if request.lazy {
        return mount::unmount(&point, Unmount::Detach);
    }
    match mount::end(&point, request.give_up) {
        // It may be the mount of another user, whose control socket is in another directory. The kernel can unmount it, but nothing reports here
        // when all is durable.
        Err(MountError::NotMounted(_)) => mount::unmount(&point, Unmount::Clean),
        ended => ended,
    }
}

impl Mount {
    pub fn execute(mut self) -> anyhow::Result<()> {
        let interval = mount::commit_interval(self.commit_interval.as_deref())?;
        if self.foreground {
            // Its log, which lists damaged maps, goes to standard error.
            let (mounted, message) = self.start(interval)?;
            print(message)?;
            return serve(mounted);
        }
        if !self.daemon {
            return print(self.start_daemon(invocation::arguments("mount"))?);
        }
        // The daemon leaves the current directory, so relative paths are resolved before.
        self.image = absolute(&self.image)?;
        self.mount_point = mount::canonical(&self.mount_point)?;
        self.volume.meta = self.volume.meta.as_deref().map(absolute).transpose()?;
        match daemon::detach().map_err(anyhow::Error::from).and_then(|()| self.start(interval)) {
            Ok((mounted, _)) => {
                daemon::tell(&Started::Ready)?;
                serve(mounted)
            }
            Err(error) => {
                daemon::tell(&exit::failed(&error))?;
                Err(error)
            }
        }
    }

    /// Opens the image and mounts it. Returns the mount, and a message for the user.
    fn start(&self, commit_interval: Duration) -> anyhow::Result<(Mounted, String)> {
        let signals = Signals::watch()?;
        let mount_point = mount::canonical(&self.mount_point)?;
        mount::check(&mount_point)?;
        let image = absolute(&self.image)?;
        let volume = Volume::open(&image, &Open { read_only: self.read_only, ..self.volume.open() })?;
        volume.exposed.iter().for_each(|exposure| log(&format!("trusted as asked: {exposure}")));
        mount::keep_apart(&mount_point, volume.meta())?;
        let core = self.core(&volume)?;
        let message = format!("{} is mounted on {}\n", image.display(), mount_point.display());
        let options = MountOptions {
            image,
            meta: volume.meta().to_path_buf(),
            mount_point,
            read_only: self.read_only,
            allow_other: self.allow_other,
            commit_interval,
        };
        let session = signals.hold(|| Session::start(core, &volume.device(), options))?;
        Ok((Mounted { session, volume }, message))
    }

    fn core(&self, volume: &Volume) -> anyhow::Result<FileSystem> {
        let space = volume.space()?;
        let options = fs::FsOptions { read_only: self.read_only, ..fs::FsOptions::default() };
        let image = volume.image.display();
        FileSystem::mount(volume.device(), volume.store(), space, options)
            .with_context(|| format!("{image}: smrkit fsck {image} may help"))
    }

    /// Starts this program again in the background, with the same arguments. Returns the message on the mount.
    fn start_daemon(&self, arguments: &[OsString]) -> anyhow::Result<String> {
        let mount_point = mount::canonical(&self.mount_point)?;
        mount::check(&mount_point)?;
        let log = match &self.log {
            Some(log) => absolute(log)?,
            None => run_directory::log(&mount_point)?,
        };
        invocation::start_daemon("mount", arguments, &log)?;
        warn_of_damage(&mount_point);
        let (image, point) = (absolute(&self.image)?, mount_point.display());
        Ok(format!("{} is mounted on {point}; the log is {}\n", image.display(), log.display()))
    }
}

/// Prints the files that can't be read. Errors are ignored: the mount may have ended at once.
fn warn_of_damage(mount_point: &Path) {
    let report = ControlClient::connect(mount_point).and_then(|mut client| client.ask(ControlCommand::Report));
    let Ok(report) = report else { return };
    for file in report["damaged_maps"].as_array().into_iter().flatten().filter_map(|file| file.as_str()) {
        eprintln!("smrkit: warning: a damaged map, so that the file can't be read (see smrkit fsck): {file}");
    }
}

/// A mount, and its volume, which stays locked while it is mounted.
struct Mounted {
    session: Session,
    volume: Volume,
}

/// Serves a mount until it is unmounted, or a signal comes.
fn serve(mounted: Mounted) -> anyhow::Result<()> {
    let Mounted { session, mut volume } = mounted;
    session.wait(move || Ok(volume.close()?))?;
    log("unmounted");
    Ok(())
}

/// Passes signals to the mount, once it exists. Before that, signals end the process.
#[derive(Clone, Default)]
struct Signals(Arc<Mutex<Option<Handle>>>);

impl Signals {
    fn watch() -> anyhow::Result<Signals> {
        let signals = Signals::default();
        let seen = signals.clone();
        let handler = move || match &*seen.handle() {
            Some(handle) => handle.signal(),
            None => std::process::exit(130),
        };
        handle_signals(handler)?;
        Ok(signals)
    }

    /// Starts a mount, and holds signals back meanwhile, because a process that ends in between would leave a dead mount.
    fn hold(&self, start: impl FnOnce() -> Result<Session, MountError>) -> Result<Session, MountError> {
        let mut handle = self.handle();
        let session = start()?;
        *handle = Some(session.handle());
        Ok(session)
    }

    fn handle(&self) -> MutexGuard<'_, Option<Handle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|error| Error::reading(path, error))
}
