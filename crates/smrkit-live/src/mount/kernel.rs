//! The mount itself: what the kernel is told, by the mount system call for root and through fusermount3 for others.
//!
//! For root, `fuser` mounts with the type `fuse` alone, and mount(8) then takes the image for a program to run at a remount.
//! So root's mount is made here, with the type `fuse.smrfs`, as fusermount3 does for others.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use fuser::{Config, MountOption, Session, SessionACL};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{getegid, geteuid};

use super::{MountError, MountOptions};
use crate::fuse::Adapter;

/// Threads that take requests: more gained nothing on two cores.
const THREADS: usize = 2;
/// Type in `/proc/mounts`.
const TYPE: &str = "fuse.smrfs";

/// Mounts, and agrees with the kernel on how to talk.
pub(super) fn session(adapter: Adapter, options: &MountOptions) -> Result<Session<Adapter>, MountError> {
    let config = config(options);
    let device = match mount(options) {
        Ok(device) => device,
        // Not root, or a root that may not mount: the helper may.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Session::new(adapter, &options.mount_point, &config).map_err(MountError::Refused);
        }
        Err(error) => return Err(MountError::Refused(error)),
    };
    let acl = config.acl;
    Session::from_fd(adapter, device.into(), acl, config).map_err(|error| {
        let _ = rustix::mount::unmount(&options.mount_point, UnmountFlags::DETACH);
        MountError::Refused(error)
    })
}

fn mount(options: &MountOptions) -> io::Result<File> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let mode = std::fs::metadata(&options.mount_point)?.mode();
    let (fd, uid, gid) = (device.as_raw_fd(), geteuid().as_raw(), getegid().as_raw());
    let data = format!("fd={fd},rootmode={mode:o},user_id={uid},group_id={gid},default_permissions,allow_other");
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID;
    flags.set(MountFlags::RDONLY, options.read_only);
    rustix::mount::mount(name(options), &options.mount_point, TYPE, flags, CString::new(data)?.as_c_str())?;
    Ok(device)
}

/// The source as mount(8) shows it, and as an fstab has it. A comma would end a name in options.
fn name(options: &MountOptions) -> String {
    options.image.display().to_string().replace([',', '\n', '\\'], "_")
}

fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(name(options)),
        MountOption::Subtype("smrfs".to_string()),
        MountOption::DefaultPermissions,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    let everyone = options.allow_other || geteuid().is_root();
    config.acl = if everyone { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}
