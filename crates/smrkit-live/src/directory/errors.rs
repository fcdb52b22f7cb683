//! Errors of the operating system, as the core says them, and names that are none.

use smrfs::error::{DeviceError, Errno, FsError, FsResult};

/// Error of the operating system, as the core says it.
pub(super) fn failed(errno: rustix::io::Errno) -> FsError {
    FsError::Errno(Errno(errno.raw_os_error()))
}

/// Error of a file, as the core says it.
pub(super) fn failed_io(error: std::io::Error) -> FsError {
    error.raw_os_error().map_or(FsError::Device(DeviceError::Io(error)), |errno| Errno(errno).into())
}

/// Refuses what is no name: nothing, `.`, `..`, or with a slash or a zero byte in it.
pub(super) fn checked(name: &[u8]) -> FsResult {
    match name {
        b"" | b"." | b".." => Err(Errno::EINVAL.into()),
        _ if name.iter().any(|&byte| byte == b'/' || byte == 0) => Err(Errno::EINVAL.into()),
        _ => Ok(()),
    }
}
