//! A served drive as a file, by FUSE, and as a loop device on it: for programs that want a path.
//!
//! The file is a client of the server like any other. A loop device takes root; others have the file alone.

mod client;
mod file;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::process::geteuid;

use client::DriveClient;
use file::{DriveFile, NAME};

use crate::mount::point::{self, Unmount};

/// Threads that take the kernel's requests.
const THREADS: usize = 2;

/// Time in which whoever glances at a loop device closes it.
const LETS_GO: Duration = Duration::from_secs(5);

/// A drive that is there as a file.
pub struct Attached {
    directory: PathBuf,
    device: Option<PathBuf>,
    session: Option<BackgroundSession>,
}

impl Attached {
    /// Shows the drive that is served at `socket` as a file in `directory`, which is made, and to root as a loop device too.
    pub fn new(socket: &Path, directory: &Path) -> io::Result<Attached> {
        clear(directory)?;
        fs::create_dir_all(directory)?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("smrkit".into()), MountOption::Subtype("smrkit".into())];
        config.acl = SessionACL::Owner;
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        let session = Session::new(DriveFile(DriveClient::connect(socket)?), directory, &config)?.spawn()?;
        let mut attached = Attached { directory: directory.into(), device: None, session: Some(session) };
        if geteuid().is_root() {
            attached.device = Some(loop_device(&attached.file())?);
        }
        Ok(attached)
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// The loop device, where there is one.
    pub fn device(&self) -> Option<&Path> {
        self.device.as_deref()
    }

    /// Takes device and file away. Errors: somebody still uses them.
    pub fn detach(&mut self) -> Result<(), String> {
        if let Some(device) = self.device.as_ref().filter(|device| is_taken(device)) {
            let device = device.display();
            return Err(format!("{device} is in use: unmount what is on it, or take it out of its array"));
        }
        if let Some(device) = self.device.take() {
            free(&device, &self.file()).map_err(|error| error.to_string())?;
        }
        drop(self.session.take());
        // Where a request hangs, its file is busy: the mount would stay behind, dead. Mostly it is gone.
        let _ = point::unmount(&self.directory, Unmount::Detach);
        // What is not empty is not ours.
        let _ = fs::remove_dir(&self.directory);
        Ok(())
    }
}

/// Takes away what a killed process has left of the file in `directory` and of a loop device on it; tells whether there was anything.
/// A loop device that is still mounted goes when that ends.
pub fn clear(directory: &Path) -> io::Result<bool> {
    if !point::is_dead(directory) {
        return Ok(false);
    }
    for device in loop_devices(&directory.join(NAME))? {
        free(&device, &directory.join(NAME))?;
    }
    point::unmount(directory, Unmount::Detach).map_err(io::Error::other)?;
    fs::remove_dir(directory)?;
    Ok(true)
}

/// True if anybody has mounted or otherwise taken the loop device.
fn is_taken(device: &Path) -> bool {
    let Some(name) = device.file_name() else { return false };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_mounted = mounts.lines().any(|line| line.split(' ').next().map(Path::new) == Some(device));
    let holders = fs::read_dir(Path::new("/sys/block").join(name).join("holders"));
    is_mounted || holders.is_ok_and(|mut holders| holders.next().is_some())
}

/// Frees a loop device on `file`. The kernel does so when the last one who has it open closes it, and whoever looks through all
/// disks may have: it is gone when this returns, unless somebody has mounted it or keeps it open for long.
fn free(device: &Path, file: &Path) -> io::Result<()> {
    told(Command::new("losetup").arg("-d").arg(device))?;
    let end = Instant::now() + LETS_GO;
    while loop_devices(file)?.iter().any(|found| found == device) && !is_taken(device) && Instant::now() < end {
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The loop devices on `file`, by its name: it may be dead.
fn loop_devices(file: &Path) -> io::Result<Vec<PathBuf>> {
    let mut devices = Vec::new();
    for block in fs::read_dir("/sys/block")? {
        let block = block?;
        let backing = fs::read_to_string(block.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end()) == file {
            devices.push(Path::new("/dev").join(block.file_name()));
        }
    }
    Ok(devices)
}

/// A loop device on `file`, past the page cache of the file.
fn loop_device(file: &Path) -> io::Result<PathBuf> {
    let said = told(Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(file))?;
    Ok(PathBuf::from(said.trim()))
}

/// Output of a command that succeeds.
fn told(command: &mut Command) -> io::Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_string())),
    }
}
