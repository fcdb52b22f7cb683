//! Features of the kernel's FUSE that a session asks for.

use fuser::{InitFlags, KernelConfig};

/// The largest write of one request, and the largest block.
const WRITE_BYTES_MAX: u32 = 1 << 20;

/// Asks the kernel for its features when a session begins.
///
/// Never FUSE_ATOMIC_O_TRUNC: a running program would be truncated before ETXTBSY is found. No write-back cache: it
/// gained nothing. KILLPRIV_V2: the kernel says when a write must clear set-id bits, and need not ask for capabilities
/// before each write. POSIX_ACL: the kernel obeys access lists. DONT_MASK: it leaves the mask of new nodes to
/// us, since a default access list takes its place. EXPORT_SUPPORT: it looks up `.` of a node that it has forgotten.
pub fn negotiate(config: &mut KernelConfig) {
    let wanted = [
        InitFlags::FUSE_DO_READDIRPLUS,
        InitFlags::FUSE_READDIRPLUS_AUTO,
        InitFlags::FUSE_PARALLEL_DIROPS,
        InitFlags::FUSE_ASYNC_DIO,
        InitFlags::FUSE_CACHE_SYMLINKS,
        InitFlags::FUSE_EXPLICIT_INVAL_DATA,
        InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        InitFlags::FUSE_POSIX_ACL,
        InitFlags::FUSE_DONT_MASK,
        InitFlags::FUSE_EXPORT_SUPPORT,
    ];
    for flag in wanted {
        // An older kernel goes without.
        let _ = config.add_capabilities(flag);
    }
    let _ = config.set_max_write(WRITE_BYTES_MAX);
}
