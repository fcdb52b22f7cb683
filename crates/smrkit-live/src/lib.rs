//! What touches the operating system: disk images and block devices, metadata directories, FUSE.

pub mod workplace;
