//! A client of NBD that says what it likes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;
pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;

pub struct Client<S = UnixStream> {
    pub stream: S,
    pub bytes: u64,
    next: u64,
}

/// A socket to the server that fails a test rather than hang it.
pub fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Takes the server's greeting, and answers it.
pub fn greet(stream: &mut UnixStream) {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..8], b"NBDMAGIC");
    stream.write_all(&3u32.to_be_bytes()).unwrap();
}

impl Client {
    /// Connects and asks for the export.
    pub fn new(socket: &Path) -> Client {
        let mut stream = connect(socket);
        greet(&mut stream);
        Client::of_export(stream)
    }
}

impl<S: Read + Write> Client<S> {
    /// Asks for the export, the old and short way.
    pub fn of_export(mut stream: S) -> Client<S> {
        stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        Client { stream, bytes: u64::from_be_bytes(export[..8].try_into().unwrap()), next: 0 }
    }

    /// Sends a command; its cookie.
    pub fn send(&mut self, flags: u16, kind: u16, offset: u64, bytes: u32, data: &[u8]) -> u64 {
        let words = self.command(flags, kind, offset, bytes, data);
        self.stream.write_all(&words).unwrap();
        self.next
    }

    /// The bytes of a command with a new cookie.
    pub fn command(&mut self, flags: u16, kind: u16, offset: u64, bytes: u32, data: &[u8]) -> Vec<u8> {
        self.next += 1;
        let mut words = 0x2560_9513u32.to_be_bytes().to_vec();
        words.extend_from_slice(&flags.to_be_bytes());
        words.extend_from_slice(&kind.to_be_bytes());
        words.extend_from_slice(&self.next.to_be_bytes());
        words.extend_from_slice(&offset.to_be_bytes());
        words.extend_from_slice(&bytes.to_be_bytes());
        words.extend_from_slice(data);
        words
    }

    /// The next reply: error and cookie.
    pub fn reply(&mut self) -> (u32, u64) {
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..4], 0x6744_6698u32.to_be_bytes());
        (u32::from_be_bytes(reply[4..8].try_into().unwrap()), u64::from_be_bytes(reply[8..].try_into().unwrap()))
    }

    /// Sends a command and waits for its reply: the error, 0 for none.
    pub fn ask(&mut self, flags: u16, kind: u16, offset: u64, bytes: u32, data: &[u8]) -> u32 {
        let cookie = self.send(flags, kind, offset, bytes, data);
        let (error, answered) = self.reply();
        assert_eq!(cookie, answered);
        error
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        assert_eq!(self.ask(0, WRITE, offset, data.len() as u32, data), 0);
    }

    pub fn read(&mut self, offset: u64, bytes: usize) -> Vec<u8> {
        assert_eq!(self.ask(0, READ, offset, bytes as u32, &[]), 0);
        let mut data = vec![0; bytes];
        self.stream.read_exact(&mut data).unwrap();
        data
    }

    pub fn flush(&mut self) {
        assert_eq!(self.ask(0, FLUSH, 0, 0, &[]), 0);
    }
}
