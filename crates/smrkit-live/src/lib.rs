//! What touches the operating system: disk images and block devices, metadata directories, FUSE.

pub mod daemon;
pub mod fuse;
pub mod log;
pub mod mount;
