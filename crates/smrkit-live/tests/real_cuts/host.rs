//! Loop devices and the file systems on them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A conventional file system for the metadata, and perhaps for the image.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Its type, as mount(8) calls it.
    pub name: &'static str,
    /// Command that makes one.
    pub mkfs: &'static [&'static str],
    /// Bytes of a small one.
    pub bytes: u64,
    /// True if the image lies on it as well.
    pub has_image: bool,
}

const MKFS_EXT4: &[&str] =
    &["mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"];

/// The small ones below have blocks of 4 KiB on ext4, since smaller ones leave little room for attributes.
pub const EXT4: Host = Host { name: "ext4", mkfs: MKFS_EXT4, bytes: 64 << 20, has_image: false };
pub const EXT4_WITH_IMAGE: Host = Host { bytes: 128 << 20, has_image: true, ..EXT4 };
/// Smaller disks are refused by xfs and btrfs.
pub const XFS: Host = Host { name: "xfs", mkfs: &["mkfs.xfs", "-q", "-f", "-K"], bytes: 320 << 20, has_image: false };
pub const BTRFS: Host =
    Host { name: "btrfs", mkfs: &["mkfs.btrfs", "-q", "-f", "-K"], bytes: 128 << 20, has_image: false };

/// A loop device with its file system mounted; both end with it.
pub struct Mounted {
    device: String,
    at: PathBuf,
}

impl Mounted {
    /// Attaches `file`, makes a file system on it if told how, and mounts it at `at`.
    pub fn new(host: &Host, file: &Path, at: &Path, make: bool) -> io::Result<Mounted> {
        let device = run("losetup", &["--find", "--show", text(file)])?;
        let mounted = Mounted { device, at: at.to_owned() };
        if make {
            let mut arguments = host.mkfs[1..].to_vec();
            arguments.push(&mounted.device);
            run(host.mkfs[0], &arguments)?;
        }
        run("mount", &["-t", host.name, &mounted.device, text(at)])?;
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What is not mounted or attached any more needs nothing.
        let _ = run("umount", &[text(&self.at)]);
        let _ = run("losetup", &["--detach", &self.device]);
        // The kernel lets go of the file a moment later.
        let attached = || run("losetup", &[&self.device]).is_ok();
        for _ in 0..100 {
            if !attached() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Text on missing loop devices, or tools of that file system.
pub fn missing(host: &Host) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root can mount".into());
    }
    if !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        return Some("can't mount here: /dev/fuse or /dev/loop-control is missing".into());
    }
    let tool = Command::new(host.mkfs[0]).arg("-V").output();
    tool.err().map(|_| format!("{} is not installed", host.mkfs[0]))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is text")
}

/// Runs a program; what it printed, or what it complained about.
fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).output()?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(io::Error::other(format!("{program} {}: {complaint}", arguments.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
