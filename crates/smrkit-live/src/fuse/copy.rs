//! Copies within the volume: whole granules are shared, and what is left goes from file to file without a way through the
//! kernel and the program that asks. (The kernel passes no FICLONE on to FUSE.)

use smrfs::data::{Data, ReadBuffer};
use smrfs::error::FsResult;
use smrfs::fs::FileSystem;
use smrfs::units::{GRANULE_BYTES, NodeId};

/// Bytes that are in memory at a time, and those of a request: the caller asks again for the rest (assumption).
const PIECE_BYTES: u64 = 1 << 20;
const REQUEST_BYTES: u64 = 16 << 20;

/// Bytes that a request shares at most: the answer has 32 bits.
const SHARED_BYTES: u64 = 1 << 30;

/// Copies up to `bytes` bytes from a place in a file to one in another, or apart in the same; tells how many. Fewer are no
/// error: the caller asks again for the rest.
pub fn copy(core: &FileSystem, from: (NodeId, u64), to: (NodeId, u64), bytes: u64) -> FsResult<u64> {
    let shared = core.share(from, to, bytes.min(SHARED_BYTES))?;
    if shared > 0 {
        return Ok(shared);
    }
    // What lies before the first whole granule, so that the rest can be shared.
    let head = match (from.1 % GRANULE_BYTES, to.1 % GRANULE_BYTES) {
        (skipped, same) if skipped == same && skipped > 0 => GRANULE_BYTES - skipped,
        _ => REQUEST_BYTES,
    };
    copy_bytes(core, from, to, bytes.min(head))
}

/// Copies bytes, fewer at the original's end or when only some could be written. The next piece is read while one is written.
fn copy_bytes(core: &FileSystem, from: (NodeId, u64), to: (NodeId, u64), bytes: u64) -> FsResult<u64> {
    let read = |done: u64| {
        let mut piece = vec![0; (bytes - done).min(PIECE_BYTES) as usize];
        let found = core.read(from.0, from.1 + done, ReadBuffer::Bytes(&mut piece))?;
        piece.truncate(found as usize);
        FsResult::Ok(piece)
    };
    let (mut piece, mut done) = (read(0)?, 0);
    while !piece.is_empty() {
        let next_at = done + piece.len() as u64;
        let (written, next) = std::thread::scope(|scope| {
            let next = (next_at < bytes).then(|| scope.spawn(|| read(next_at)));
            let written = core.write(to.0, to.1 + done, Data::Bytes(&piece));
            (written, next.map_or_else(|| Ok(Vec::new()), |next| next.join().unwrap_or_else(|_| Ok(Vec::new()))))
        });
        match written {
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
            Ok(()) => done = next_at,
        }
        // What can't be read is told to the next request, which begins with it.
        piece = next.unwrap_or_default();
    }
    Ok(done)
}
