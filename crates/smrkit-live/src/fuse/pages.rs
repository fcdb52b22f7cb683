//! Pages of files in the kernel's cache, which programs may have mapped and changed without a request.
//!
//! Bytes stored behind a file's end must not come into the file when it grows; the kernel's FUSE leaves that to nobody. Left out: a
//! write beyond the end, during which the kernel may hold the page until it is answered.

use std::ops::Range;
use std::thread;

use fuser::{INodeNo, Notifier};
use rustix::param::page_size;
use smrfs::error::FsResult;
use smrfs::fs::FileSystem;
use smrfs::units::NodeId;

/// Does what may make a file longer; tells the bytes between the old and the new end that may lie in a mapped page.
pub(super) fn growing<T>(
    core: &FileSystem,
    id: NodeId,
    work: impl FnOnce() -> FsResult<T>,
) -> FsResult<(T, Range<u64>)> {
    let may_be_mapped = core.is_open_for_writing(id)?;
    let end = || if may_be_mapped { core.attributes(id).map(|attr| attr.size) } else { Ok(0) };
    let before = end()?;
    let done = work()?;
    let page_end = before.next_multiple_of(page_size() as u64);
    Ok((done, before..end()?.min(page_end)))
}

/// Puts zeros into the kernel's page of a file, where there are bytes of it in `range`, and answers then.
pub(super) fn clear(
    notifier: Option<&Notifier>,
    ino: INodeNo,
    range: Range<u64>,
    answer: impl FnOnce() + Send + 'static,
) {
    let Some(notifier) = notifier.filter(|_| !range.is_empty()) else { return answer() };
    let zeros = vec![0; (range.end - range.start) as usize];
    // A kernel that does not know the node has no page of it.
    change(notifier, move |notifier| drop(notifier.store(ino, range.start, &zeros)), answer);
}

/// Has the kernel write what programs have changed in mapped pages of a file, and answers then.
pub(super) fn write(notifier: Option<&Notifier>, ino: INodeNo, answer: impl FnOnce() + Send + 'static) {
    let Some(notifier) = notifier else { return answer() };
    change(notifier, move |notifier| drop(notifier.inval_inode(ino, 0, 0)), answer);
}

/// The kernel may have pages read or written first, by requests that the session's threads answer: this must be none of them. A
/// reply that is dropped is an EIO.
fn change(
    notifier: &Notifier,
    change: impl FnOnce(&Notifier) + Send + 'static,
    answer: impl FnOnce() + Send + 'static,
) {
    let notifier = notifier.clone();
    drop(thread::Builder::new().name("pages".into()).spawn(move || {
        change(&notifier);
        answer();
    }));
}
