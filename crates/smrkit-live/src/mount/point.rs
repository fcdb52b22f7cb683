//! The mount point: checks before a mount, and unmounting.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, process, thread};

use fuser::{Config, MountOption, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{getegid, geteuid};

use super::control::{self, ControlClient, ControlCommand};
use super::{MountError, MountOptions};
use crate::fuse::Adapter;

/// The helper that mounts for those who are not root.
const HELPER: &str = "fusermount3";

/// Retries of the unmounting of a mount that is in use, and the pause before each (assumption).
const RETRIES: u32 = 8;
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Time for which a mount waits for the end of the process that served the mount point before (assumption).
const END_LIMIT: Duration = Duration::from_secs(60);

/// Modes of unmounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Only if it is not in use.
    Clean,
    /// Removes it from the tree at once; it ends when the last file is closed.
    Detach,
}

/// The mount point's absolute path, even if the mount on it is dead, so that its own path can't be resolved.
pub fn canonical(path: &Path) -> Result<PathBuf, MountError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => MountError::PointMissing(path.to_path_buf()),
        _ => MountError::Point(path.to_path_buf(), error),
    };
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if Errno::from_io_error(&error) == Some(Errno::NOTCONN) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok(parent.canonicalize().map_err(failed)?.join(name))
        }
        (found, ..) => found.map_err(failed),
    }
}

/// Checks that the system can mount, and something can be mounted at `path` ([`canonical`]).
pub fn check(path: &Path) -> Result<(), MountError> {
    check_system()?;
    wait_for_end(path)?;
    let metadata = fs::symlink_metadata(path).map_err(|error| point_error(path, error))?;
    if !metadata.is_dir() {
        return Err(MountError::PointNotDirectory(path.to_path_buf()));
    }
    let mut entries = fs::read_dir(path).map_err(|error| point_error(path, error))?;
    if entries.next().is_some() { Err(MountError::PointNotEmpty(path.to_path_buf())) } else { Ok(()) }
}

/// Waits until no process serves `path` any more. A process may still commit after the unmount.
fn wait_for_end(path: &Path) -> Result<(), MountError> {
    let began = Instant::now();
    while control::is_alive(path) {
        if is_mounted(path) {
            return Err(MountError::PointTaken(path.to_path_buf()));
        }
        if began.elapsed() > END_LIMIT {
            let report = ControlClient::connect(path).and_then(|mut client| client.ask(ControlCommand::Report));
            let path = path.to_path_buf();
            // A process that still replies is not in its last commit; it serves programs that have files open.
            return Err(match report.ok().and_then(|report| report["process"].as_u64()) {
                Some(process) => MountError::PointPinned(path, process),
                None => MountError::PointEnding(path),
            });
        }
        thread::sleep(RETRY_PAUSE);
    }
    Ok(())
}

/// True if another file system begins at `path`, or if that can't be found out.
fn is_mounted(path: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
    match (device(path), path.parent().map(device)) {
        (Ok(own), Some(Ok(above))) => own != above,
        _ => true,
    }
}

/// Errors: the mount point is in the metadata directory, which the mount would hide from itself.
pub fn keep_apart(point: &Path, meta: &Path) -> Result<(), MountError> {
    if point.starts_with(meta) {
        return Err(MountError::PointInMetadata { path: point.to_path_buf(), meta: meta.to_path_buf() });
    }
    Ok(())
}

/// Checks that this system lets this user mount.
pub fn check_system() -> Result<(), MountError> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
        return Err(match error.kind() {
            io::ErrorKind::NotFound => MountError::NoDevice,
            _ => MountError::Device(error),
        });
    }
    let has_helper = process::Command::new(HELPER).arg("--version").output().is_ok();
    if has_helper || geteuid().is_root() { Ok(()) } else { Err(MountError::NoHelper) }
}

fn point_error(path: &Path, error: io::Error) -> MountError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOTCONN) => MountError::PointDead(path.to_path_buf()),
        Some(Errno::NOENT) => MountError::PointMissing(path.to_path_buf()),
        _ => MountError::Point(path.to_path_buf(), error),
    }
}

/// Ends the mount at `path` ([`canonical`]) cleanly, and waits until its image is free. Removes the dead mount of a killed process. If some data
/// can't be saved, the mount does not end, unless `give_up` is set.
pub fn end(path: &Path, give_up: bool) -> Result<(), MountError> {
    let command = ControlCommand::Unmount { give_up };
    let asked = ControlClient::connect(path).and_then(|mut client| client.ask(command).map(drop));
    match asked {
        // The process is gone, or is ending.
        Err(MountError::NotMounted(_) | MountError::Control { .. }) if is_dead(path) => unmount(path, Unmount::Detach),
        // The process ended after the connection, and has not read the command.
        Err(MountError::Control { error, .. })
            if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
                && !control::is_alive(path) =>
        {
            Err(MountError::NotMounted(path.to_path_buf()))
        }
        asked => asked,
    }
}

/// Makes a mount of ours read-only, or writable again. When it is read-only, everything that was written before is durable.
pub fn remount(path: &Path, read_only: bool) -> Result<(), MountError> {
    let mut client = ControlClient::connect(path)?;
    // The report is of our side: mounted read-only, or stopped by a failed flush. A remount changes only the kernel's flag.
    if !read_only && client.ask(ControlCommand::Report)?["read_only"] == true {
        return Err(MountError::OnlyReadOnly(path.to_path_buf()));
    }
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID;
    flags.set(MountFlags::RDONLY, read_only);
    rustix::mount::mount_remount(path, flags, c"").map_err(|error| match error {
        Errno::BUSY => MountError::Busy(path.to_path_buf()),
        error => MountError::Refused(error.into()),
    })?;
    // The kernel accepts no more writes and has sent all earlier ones, so a sync makes everything durable.
    if read_only { client.ask(ControlCommand::Sync).map(drop) } else { Ok(()) }
}

/// Makes durable all that has been written on the mount at `path` ([`canonical`]) before.
pub fn sync(path: &Path) -> Result<(), MountError> {
    let mut client = ControlClient::connect(path).map_err(|error| match error {
        MountError::NotMounted(_) if is_dead(path) => MountError::PointDead(path.to_path_buf()),
        error => error,
    })?;
    write_back(path)?;
    client.ask(ControlCommand::Sync).map(drop)
}

/// Has the kernel write back dirty mapped pages.
pub(super) fn write_back(path: &Path) -> Result<(), MountError> {
    let root = File::open(path).map_err(|error| point_error(path, error))?;
    rustix::fs::syncfs(root).map_err(|error| point_error(path, error.into()))
}

/// True if the mount at `path` has lost its process. Asks for its free room, because the kernel never caches that, unlike attributes.
pub(crate) fn is_dead(path: &Path) -> bool {
    // While the process ends, the kernel answers that the connection was aborted.
    rustix::fs::statvfs(path).is_err_and(|error| matches!(error, Errno::NOTCONN | Errno::CONNABORTED))
}

/// Unmounts, with retries for some 0.4 s while the mount is busy, because a program that ends may hold its files for a moment longer.
pub(super) fn unmount_patiently(path: &Path) -> Result<(), MountError> {
    let mut retries = 0..RETRIES;
    loop {
        match unmount(path, Unmount::Clean) {
            Err(MountError::Busy(_)) if retries.next().is_some() => thread::sleep(RETRY_PAUSE),
            done => return done,
        }
    }
}

/// Unmounts, by the helper if the user is not root.
pub fn unmount(path: &Path, how: Unmount) -> Result<(), MountError> {
    let detach = if how == Unmount::Detach { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(path, detach | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(MountError::Busy(path.to_path_buf())),
        Err(Errno::PERM) => unmount_with_helper(path, how),
        Err(error) => Err(MountError::Unmount(path.to_path_buf(), error.into())),
    }
}

fn unmount_with_helper(path: &Path, how: Unmount) -> Result<(), MountError> {
    let mut command = process::Command::new(HELPER);
    command.arg("-u").args((how == Unmount::Detach).then_some("-z")).arg("--").arg(path);
    let failed = |error| MountError::Unmount(path.to_path_buf(), error);
    let output = command.env("LC_ALL", "C").output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::NoHelper,
        _ => failed(error),
    })?;
    let message = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false if message.contains("busy") => Err(MountError::Busy(path.to_path_buf())),
        false => Err(failed(io::Error::other(message.trim().to_string()))),
    }
}

/// Threads for requests in addition to one for each core, because an fsync occupies its thread until the disk has done it. With eight programs
/// that write and fsync on two cores, `stat` took 11 ms at the median with two threads, and 0.05 ms with these 18.
const WAITING_THREADS: usize = 16;
/// Mounts, and begins a session with the kernel.
pub(super) fn session(adapter: Adapter, options: &MountOptions) -> Result<Session<Adapter>, MountError> {
    // The source, as mount(8) shows it and an fstab has it. A comma, which would end it among options, is replaced.
    let source = options.image.display().to_string().replace([',', '\n', '\\'], "_");
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source.clone()),
        MountOption::Subtype("smrfs".to_string()),
        MountOption::DefaultPermissions,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    let is_for_all = options.allow_other || geteuid().is_root();
    config.acl = if is_for_all { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(thread::available_parallelism().map_or(1, usize::from) + WAITING_THREADS);
    config.clone_fd = true;
    let device = match mount(&source, options) {
        Ok(device) => device,
        // Not every user may mount, and in some containers not even root; the helper may.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Session::new(adapter, &options.mount_point, &config).map_err(MountError::Refused);
        }
        Err(error) => return Err(MountError::Refused(error)),
    };
    Session::from_fd(adapter, device.into(), config.acl, config).map_err(|error| {
        let _ = rustix::mount::unmount(&options.mount_point, UnmountFlags::DETACH);
        MountError::Refused(error)
    })
}

fn mount(source: &str, options: &MountOptions) -> io::Result<File> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let mode = fs::metadata(&options.mount_point)?.mode();
    let (fd, uid, gid) = (device.as_raw_fd(), geteuid().as_raw(), getegid().as_raw());
    let data = format!("fd={fd},rootmode={mode:o},user_id={uid},group_id={gid},default_permissions,allow_other");
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID;
    flags.set(MountFlags::RDONLY, options.read_only);
    rustix::mount::mount(source, &options.mount_point, "fuse.smrfs", flags, CString::new(data)?.as_c_str())?;
    Ok(device)
}
