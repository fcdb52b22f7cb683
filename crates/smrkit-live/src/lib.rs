//! What touches the operating system: disk images and block devices, metadata directories, FUSE.

pub mod directory;
pub mod error;
pub mod image;
pub mod volume;
pub mod workplace;
