//! Extended attributes of an open node, as the host's file system has them.

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::fs::XattrFlags;
use rustix::io::Errno as Os;
use smrfs::meta::{ACCESS_LIST, DEFAULT_ACCESS_LIST};

use super::way;

/// Prefix of our own attributes; users neither see nor set them.
pub const OWN: &[u8] = b"user.smrfs.";
/// The namespaces whose attributes are kept for users, besides access lists.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// The longest value, and the longest list of names, that Linux passes on (XATTR_SIZE_MAX, XATTR_LIST_MAX).
const MOST_BYTES: usize = 65536;

/// True for an access list, which the kernel itself looks at.
pub fn is_access_list(name: &[u8]) -> bool {
    name == ACCESS_LIST || name == DEFAULT_ACCESS_LIST
}

/// True for the names of attributes that users do not see.
pub fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(OWN) || !(is_access_list(name) || SPACES.iter().any(|space| name.starts_with(space)))
}

/// The value of an attribute.
pub fn get(fd: &OwnedFd, name: &[u8]) -> Result<Vec<u8>, Os> {
    let mut short = [0; 4096];
    match rustix::fs::fgetxattr(fd, name, &mut short) {
        Ok(bytes) => return Ok(short[..bytes].to_vec()),
        Err(Os::RANGE | Os::BADF) => {}
        Err(error) => return Err(error),
    }
    let mut value = Vec::with_capacity(MOST_BYTES);
    match rustix::fs::fgetxattr(fd, name, spare_capacity(&mut value)) {
        // A descriptor that is a mere place.
        Err(Os::BADF) => rustix::fs::getxattr(way::path_of(fd), name, spare_capacity(&mut value))?,
        got => got?,
    };
    Ok(value)
}

/// Sets an attribute.
pub fn set(fd: &OwnedFd, name: &[u8], value: &[u8], flags: XattrFlags) -> Result<(), Os> {
    match rustix::fs::fsetxattr(fd, name, value, flags) {
        Err(Os::BADF) => rustix::fs::setxattr(way::path_of(fd), name, value, flags),
        done => done,
    }
}

/// Removes an attribute.
pub fn remove(fd: &OwnedFd, name: &[u8]) -> Result<(), Os> {
    match rustix::fs::fremovexattr(fd, name) {
        Err(Os::BADF) => rustix::fs::removexattr(way::path_of(fd), name),
        done => done,
    }
}

/// The names of all attributes.
pub fn list(fd: &OwnedFd) -> Result<Vec<Vec<u8>>, Os> {
    let mut names = Vec::with_capacity(MOST_BYTES);
    match rustix::fs::flistxattr(fd, spare_capacity(&mut names)) {
        Err(Os::BADF) => rustix::fs::listxattr(way::path_of(fd), spare_capacity(&mut names))?,
        got => got?,
    };
    Ok(names.split(|&byte| byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}
