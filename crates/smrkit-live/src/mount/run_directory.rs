//! The directory that holds control sockets and logs, and the names in it.
//!
//! It belongs to one user, and is not used if another user created it first. A name is a hash of the mount point, so that a long path fits into a socket's address.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::MountError;

/// The variable that names the directory.
pub const RUN_DIRECTORY: &str = "SMRKIT_RUN_DIR";

/// The directory of this user, made if need be: `$SMRKIT_RUN_DIR`, or `/run/smrkit` for root and
/// `$XDG_RUNTIME_DIR/smrkit` for others, or one in the directory for temporary files.
pub fn run_directory() -> Result<PathBuf, MountError> {
    if let Some(path) = env::var_os(RUN_DIRECTORY) {
        return private_directory(PathBuf::from(path));
    }
    let system = match geteuid().is_root() {
        true => Some(PathBuf::from("/run")),
        false => env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
    };
    let fallback = env::temp_dir().join(format!("smrkit-{}", geteuid().as_raw()));
    system
        .and_then(|system| private_directory(system.join("smrkit")).ok())
        .map_or_else(|| private_directory(fallback), Ok)
}

/// The control socket of the mount at `mount_point`.
pub fn socket(mount_point: &Path) -> Result<PathBuf, MountError> {
    Ok(run_directory()?.join(format!("{:016x}.sock", hash(mount_point))))
}

/// The control sockets of all mounts, and those that killed processes left.
pub fn sockets() -> Result<Vec<PathBuf>, MountError> {
    let path = run_directory()?;
    let entries = fs::read_dir(&path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let paths: Vec<PathBuf> = entries.map_err(|error| MountError::Control { path, error })?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "sock")).collect())
}

/// File for its log unless the user says otherwise.
pub fn log(mount_point: &Path) -> Result<PathBuf, MountError> {
    Ok(run_directory()?.join(format!("{:016x}.log", hash(mount_point))))
}

/// Creates a directory that only this user can enter. Errors: it exists, and is not of this kind.
fn private_directory(path: PathBuf) -> Result<PathBuf, MountError> {
    let wrong = |reason: String| MountError::RunDirectory(path.clone(), reason);
    if path.is_relative() {
        // Each process would look for it in another place.
        return Err(wrong("it is relative: give an absolute path".to_string()));
    }
    if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(&path) {
        return Err(wrong(error.to_string()));
    }
    let metadata = fs::symlink_metadata(&path).map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() {
        return Err(wrong("it is not a directory of this user".to_string()));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(wrong("it is open to other users: chmod 700".to_string()));
    }
    Ok(path)
}

/// FNV-1a, 64 bits: the same in every version.
fn hash(path: &Path) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    path.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step)
}
