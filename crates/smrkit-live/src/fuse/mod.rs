//! The FUSE side of a mount: the kernel's requests become calls of the file system's core, and its answers replies.
//!
//! This module only translates; the core decides. Requests for locks (which are then local), ioctl, poll and access (`default_permissions`) are
//! not handled, so that the kernel answers them itself.

/// Replies with a result: by a call that takes what it holds, or with its error.
#[macro_export]
macro_rules! answer {
    ($reply:ident, $result:expr, $done:pat => $call:expr) => {
        match $result {
            Ok($done) => $call,
            Err(error) => $reply.error(error),
        }
    };
}

mod adapter;
mod convert;
mod gate;
mod listing;

use fuser::INodeNo;
use smrfs::fs::FileSystem;
use smrfs::units::NodeId;

pub use adapter::{Adapter, negotiate};
pub use convert::KEPT;
pub use gate::Gate;

/// The node with that inode number, as users of a mount see numbers.
pub fn node(core: &FileSystem, inode: u64) -> NodeId {
    convert::Numbers::new(core.root()).node(INodeNo(inode))
}
