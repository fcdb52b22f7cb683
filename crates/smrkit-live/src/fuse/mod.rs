//! The FUSE side of a mount: the kernel's requests become calls of the file system's core, and its answers replies.
//!
//! No file system is in here: the core decides, this translates. Left out, so that the kernel answers by itself: locks
//! (local), ioctl, poll, copy_file_range (the kernel copies), access (`default_permissions`).

mod adapter;
mod convert;
mod gate;
mod listing;

pub use adapter::Adapter;
pub use gate::Gate;
