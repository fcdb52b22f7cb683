//! Everything that touches the operating system: disk images and block devices, metadata directories, FUSE.

pub mod backup;
pub mod block;
mod contents;
pub mod daemon;
pub mod directory;
pub mod error;
mod exclusive;
pub mod fuse;
pub mod image;
pub mod log;
pub mod mount;
mod privacy;
mod reserve;
pub mod survey;
pub mod volume;
pub mod workplace;
pub mod zoned;
