//! Copies within the volume: data goes from file to file without a way through the kernel and the program that asks.
//!
//! Nothing is shared by the copies. The kernel passes no FICLONE on to FUSE.

use smrfs::data::{Data, ReadBuffer};
use smrfs::error::FsResult;
use smrfs::fs::FileSystem;
use smrfs::units::NodeId;

/// Bytes that are in memory at a time, and those of a request: the caller asks again for the rest (assumption).
const PIECE_BYTES: u64 = 1 << 20;
const REQUEST_BYTES: u64 = 16 << 20;

/// Copies up to `bytes` bytes from a place in a file to one in another, or apart in the same; tells how many, fewer at the
/// original's end or when only some could be written. The next piece is read while one is written.
pub fn copy(core: &FileSystem, from: (NodeId, u64), to: (NodeId, u64), bytes: u64) -> FsResult<u64> {
    let bytes = bytes.min(REQUEST_BYTES);
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
