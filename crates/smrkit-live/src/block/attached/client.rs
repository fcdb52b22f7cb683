//! A client of this process's own server: commands of FUSE go there, and replies come as they are ready.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use parking_lot::Mutex;

use crate::block::nbd::wire::{self, command, option};

/// Receiver of a reply.
pub(super) enum Waiting {
    Data(ReplyData, usize),
    Written(ReplyWrite, u32),
    Done(ReplyEmpty),
    /// A part of a request; the last part sends the reply.
    Part,
}

impl Waiting {
    fn refuse(self, error: Errno) {
        match self {
            Waiting::Data(reply, _) => reply.error(error),
            Waiting::Written(reply, _) => reply.error(error),
            Waiting::Done(reply) => reply.error(error),
            Waiting::Part => {}
        }
    }
}

type Waiters = Arc<Mutex<BTreeMap<u64, Waiting>>>;

/// A connection to a served drive.
pub(super) struct DriveClient {
    stream: Mutex<UnixStream>,
    waiting: Waiters,
    next: AtomicU64,
    pub(super) bytes: u64,
}

impl DriveClient {
    /// Connects to the server at `socket`; replies come on a thread of their own.
    pub(super) fn connect(socket: &Path) -> io::Result<DriveClient> {
        let mut stream = UnixStream::connect(socket)?;
        stream.read_exact(&mut [0; 18])?;
        let mut words = u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES).to_be_bytes().to_vec();
        words.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
        words.extend_from_slice(&option::EXPORT_NAME.to_be_bytes());
        words.extend_from_slice(&0u32.to_be_bytes());
        stream.write_all(&words)?;
        let mut export = [0; 10];
        stream.read_exact(&mut export)?;
        let bytes = u64::from_be_bytes(export[..8].try_into().unwrap_or_default());
        let waiting = Waiters::default();
        let (answers, waiters) = (stream.try_clone()?, waiting.clone());
        thread::Builder::new().name("answers".to_string()).spawn(move || {
            let _ = deliver(answers, &waiters);
            // The server has gone.
            std::mem::take(&mut *waiters.lock()).into_values().for_each(|waiter| waiter.refuse(Errno::EIO));
        })?;
        Ok(DriveClient { stream: Mutex::new(stream), waiting, next: AtomicU64::new(1), bytes })
    }

    /// Sends a command; `waiting` gets the answer.
    pub(super) fn ask(&self, kind: u16, offset: u64, bytes: u32, data: &[u8], waiting: Waiting) {
        let cookie = self.next.fetch_add(1, Relaxed);
        self.waiting.lock().insert(cookie, waiting);
        let mut words = [0; 28];
        words[..4].copy_from_slice(&wire::REQUEST_MAGIC.to_be_bytes());
        words[6..8].copy_from_slice(&kind.to_be_bytes());
        words[8..16].copy_from_slice(&cookie.to_be_bytes());
        words[16..24].copy_from_slice(&offset.to_be_bytes());
        words[24..].copy_from_slice(&bytes.to_be_bytes());
        let mut stream = self.stream.lock();
        let sent = stream.write_all(&words).and_then(|()| stream.write_all(data));
        if sent.is_err()
            && let Some(waiting) = self.waiting.lock().remove(&cookie)
        {
            waiting.refuse(Errno::EIO);
        }
    }

    /// Sends a command without data for any number of bytes, in as many parts as it takes.
    pub(super) fn ask_range(&self, kind: u16, offset: u64, bytes: u64, reply: ReplyEmpty) {
        let (parts, (at, left)) = parts(offset, bytes);
        parts.into_iter().for_each(|(at, bytes)| self.ask(kind, at, bytes, &[], Waiting::Part));
        self.ask(kind, at, left, &[], Waiting::Done(reply));
    }

    pub(super) fn flush(&self, reply: ReplyEmpty) {
        self.ask(command::FLUSH, 0, 0, &[], Waiting::Done(reply));
    }
}

/// A range cut into parts that fit a command: offset and bytes of each, and of the last.
fn parts(mut offset: u64, mut bytes: u64) -> (Vec<(u64, u32)>, (u64, u32)) {
    const PART: u64 = 1 << 30;
    let mut parts = Vec::new();
    while bytes > PART {
        parts.push((offset, PART as u32));
        (offset, bytes) = (offset + PART, bytes - PART);
    }
    (parts, (offset, bytes as u32))
}

/// Gives answers to those who wait, until the server hangs up.
fn deliver(mut stream: UnixStream, waiting: &Waiters) -> io::Result<()> {
    let mut data = Vec::new();
    loop {
        let mut reply = [0; 16];
        stream.read_exact(&mut reply)?;
        let error = i32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]]);
        let cookie = u64::from_be_bytes(reply[8..].try_into().unwrap_or_default());
        let Some(waiter) = waiting.lock().remove(&cookie) else { continue };
        match waiter {
            waiter if error != 0 => waiter.refuse(Errno::from_i32(error)),
            Waiting::Data(reply, bytes) => {
                data.resize(bytes, 0);
                stream.read_exact(&mut data)?;
                reply.data(&data);
            }
            Waiting::Written(reply, bytes) => reply.written(bytes),
            Waiting::Done(reply) => reply.ok(),
            Waiting::Part => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_range_is_asked_for_in_parts() {
        const GIB: u64 = 1 << 30;
        assert_eq!(parts(7, 512), (vec![], (7, 512)));
        assert_eq!(parts(7, GIB), (vec![], (7, 1 << 30)));
        assert_eq!(parts(7, GIB + 1), (vec![(7, 1 << 30)], (7 + GIB, 1)));
        assert_eq!(parts(GIB, 3 * GIB), (vec![(GIB, 1 << 30), (2 * GIB, 1 << 30)], (3 * GIB, 1 << 30)));
    }
}
