//! Everything that touches the operating system: disk images and block devices, metadata directories, FUSE.

mod contents;
pub mod error;
mod exclusive;
mod journal;
pub mod log;
pub mod fuse;
mod privacy;
mod reserve;
pub mod directory;
pub mod image;
pub mod zoned;
pub mod volume;
pub mod survey;
pub mod mount;
pub mod daemon;
pub mod backup;
pub mod block;
pub mod workplace;
