//! The bytes of a trace, from a file, standard input or memory: hashed and counted as stored, then decompressed. Memory is bounded.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use lzma_rust2::XzReader;
use sha2::{Digest, Sha256};

use smrkit::error::Error;
use smrkit::request::Progress;

/// Decompressed bytes held at a time: small enough for the second-level cache of current processors (256 KiB to 2 MiB).
const BUFFER: usize = 256 << 10;
/// Compressed bytes read at a time.
const COMPRESSED: usize = 128 << 10;
/// Memory that an xz archive may ask for: twice what its highest preset takes.
const XZ_KIB: u32 = 128 << 10;
/// The longest line or record. The buffer grows up to this.
pub(crate) const LINE_MAX: usize = 1 << 20;

/// Archives that are read. The library of zstd is in C, and is left out where that can't be compiled.
const ARCHIVES: &str = if cfg!(target_family = "wasm") { "gzip or xz" } else { "gzip, zstd or xz" };

/// Reads the source, and counts and hashes its bytes.
struct CountingReader {
    inner: Box<dyn Read + Send>,
    bytes_read: u64,
    hash: Option<Sha256>,
    /// True if reading the source failed, and not the decompression.
    failed: bool,
}

impl CountingReader {
    fn new(inner: Box<dyn Read + Send>, hash: bool) -> CountingReader {
        CountingReader { inner, bytes_read: 0, hash: hash.then(Sha256::new), failed: false }
    }

    /// The SHA-256 of the bytes so far, in hexadecimal, if they are hashed.
    fn sha256(&self) -> Option<String> {
        let hash = self.hash.clone()?.finalize();
        Some(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl Read for CountingReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.inner.read(buf) {
                Ok(n) => {
                    self.bytes_read += n as u64;
                    if let Some(hash) = &mut self.hash {
                        hash.update(&buf[..n]);
                    }
                    return Ok(n);
                }
                // Decoders pass an interruption on, or take it for the end.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed = true;
                    return Err(error);
                }
            }
        }
    }
}

pub(crate) fn sha256_of(inner: Box<dyn Read + Send>) -> io::Result<String> {
    let mut source = CountingReader::new(inner, true);
    io::copy(&mut source, &mut io::sink())?;
    Ok(source.sha256().unwrap_or_default())
}

/// The stored bytes: the first few, which were read to recognise the compression, and the rest.
type Stored = Chain<Cursor<Vec<u8>>, CountingReader>;

enum Decoder {
    Plain(Stored),
    Gzip(Gzip),
    #[cfg(not(target_family = "wasm"))]
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<Stored>>>),
    Xz(Box<XzReader<BufReader<Stored>>>),
}

impl Decoder {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Decoder::Plain(source) => source.read(buf),
            Decoder::Gzip(decoder) => decoder.read(buf),
            #[cfg(not(target_family = "wasm"))]
            Decoder::Zstd(decoder) => decoder.read(buf),
            Decoder::Xz(decoder) => decoder.read(buf),
        }
    }

    fn source(&self) -> &CountingReader {
        let stored = match self {
            Decoder::Plain(stored) => stored,
            Decoder::Gzip(decoder) => decoder.member.get_ref().get_ref(),
            #[cfg(not(target_family = "wasm"))]
            Decoder::Zstd(decoder) => decoder.get_ref().get_ref(),
            Decoder::Xz(decoder) => decoder.inner().get_ref(),
        };
        stored.get_ref().1
    }

    fn archive(&self) -> Option<&'static str> {
        match self {
            Decoder::Plain(_) => None,
            Decoder::Gzip(_) => Some("gzip"),
            #[cfg(not(target_family = "wasm"))]
            Decoder::Zstd(_) => Some("zstd"),
            Decoder::Xz(_) => Some("xz"),
        }
    }
}

/// Members of a gzip archive, one after the other.
struct Gzip {
    member: Box<GzDecoder<BufReader<Stored>>>,
    /// True if other bytes follow the last member.
    has_trailing_bytes: bool,
}

impl Gzip {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.member.read(buf)?;
            if n > 0 || !self.next_member()? {
                return Ok(n);
            }
        }
    }

    /// Begins the next member, if there is one. Zeros after the last are padding to a tape's block, which gzip ignores too.
    fn next_member(&mut self) -> io::Result<bool> {
        let inner = self.member.get_mut();
        while inner.fill_buf()?.first() == Some(&0) {
            inner.consume(1);
        }
        match inner.fill_buf()?.first() {
            None => Ok(false),
            Some(0x1f) => {
                let none = Cursor::new(Vec::new()).chain(CountingReader::new(Box::new(io::empty()), false));
                let inner = std::mem::replace(inner, BufReader::with_capacity(0, none));
                self.member.reset(inner);
                Ok(true)
            }
            Some(_) => {
                self.has_trailing_bytes = true;
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }
}

/// Combines two bytes to a code unit of UTF-16, in one byte order.
type CodeUnit = fn([u8; 2]) -> u16;

/// The byte order of text in UTF-16, such as Windows' PowerShell writes: a byte-order mark, then at least two characters of ASCII.
fn utf16(head: &[u8]) -> Option<CodeUnit> {
    match head {
        [0xff, 0xfe, 1..=127, 0, 1..=127, 0, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, 0, 1..=127, 0, 1..=127, ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

fn utf8(bytes: &[u8], unit: CodeUnit) -> String {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units).map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// A file's bytes, from UTF-16 in UTF-8.
pub fn in_utf8(bytes: Vec<u8>) -> Vec<u8> {
    match utf16(&bytes) {
        Some(unit) => utf8(&bytes, unit).into_bytes(),
        None => bytes,
    }
}

/// The decompressed bytes of a trace, a buffer at a time; text in UTF-8, without a byte-order mark.
pub(crate) struct Stream {
    /// The file, or `-`, or a name for bytes in memory.
    pub path: PathBuf,
    /// The buffer; `start..end` is unread.
    pub buf: Vec<u8>,
    /// The first unread byte.
    pub start: usize,
    /// After the last byte read so far.
    pub end: usize,
    /// Nothing follows `end`.
    pub eof: bool,
    decoder: Decoder,
    utf16: Option<CodeUnit>,
    total: Option<u64>,
    decompressed: u64,
}

impl Stream {
    /// Reads from `inner`; `path` is its name in messages.
    pub fn new(path: &Path, inner: Box<dyn Read + Send>, total: Option<u64>, hash: bool) -> Result<Stream, Error> {
        let (mut source, mut head) = (CountingReader::new(inner, hash), Vec::new());
        source.by_ref().take(8).read_to_end(&mut head).map_err(|error| Error::reading(path, error))?;
        if head.is_empty() {
            return Err(Error::input(path, "the file is empty: it holds no request; check how it was made"));
        }
        if let Some((name, tool)) = other_archive(&head) {
            let message = format!("a {name} archive: decompress it first ({tool}), or pack it as {ARCHIVES}");
            return Err(Error::input(path, message));
        }
        let stored = |head: Vec<u8>| Cursor::new(head).chain(source);
        let compressed = |stored| BufReader::with_capacity(COMPRESSED, stored);
        let decoder = match *head {
            [0x1f, 0x8b, ..] => Decoder::Gzip(Gzip {
                member: Box::new(GzDecoder::new(compressed(stored(head)))),
                has_trailing_bytes: false,
            }),
            // A frame, or a skippable frame in front of one.
            #[cfg(not(target_family = "wasm"))]
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                let decoder = zstd::stream::read::Decoder::with_buffer(compressed(stored(head)));
                Decoder::Zstd(Box::new(decoder.map_err(|error| Error::reading(path, error))?))
            }
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
                Decoder::Xz(Box::new(XzReader::new_mem_limit(compressed(stored(head)), true, XZ_KIB)))
            }
            _ => Decoder::Plain(stored(head)),
        };
        let (path, buf) = (path.to_path_buf(), vec![0; BUFFER]);
        Ok(Stream { path, buf, start: 0, end: 0, eof: false, decoder, utf16: None, total, decompressed: 0 })
    }

    /// The unread bytes in the buffer.
    pub fn unread(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    /// Moves the unread bytes to the front, and fills the rest of the buffer, which grows if it was full.
    pub fn refill(&mut self) -> Result<(), Error> {
        self.buf.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        // Bytes are read by twos, which cuts no unit of UTF-16; a buffer with room for one byte counts as full.
        if self.end + 1 >= self.buf.len() {
            self.buf.resize(self.buf.len() * 2, 0);
        }
        let (is_first, from, size) = (self.decompressed == 0, self.end, self.buf.len());
        let most = from + (size - from) / 2 * 2;
        while !self.eof && self.end < most {
            match self.decoder.read(&mut self.buf[self.end..most]) {
                Ok(0) => self.eof = true,
                Ok(n) => {
                    self.end += n;
                    self.decompressed += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        if is_first {
            self.utf16 = utf16(self.unread());
        }
        if let Some(unit) = self.utf16 {
            let text = utf8(&self.buf[from..self.end], unit);
            self.end = from + text.len();
            // UTF-8 may be longer than UTF-16.
            self.buf.resize(size.max(self.end), 0);
            self.buf[from..self.end].copy_from_slice(text.as_bytes());
        }
        if is_first && self.unread().starts_with("\u{feff}".as_bytes()) {
            self.start += '\u{feff}'.len_utf8();
        }
        Ok(())
    }

    /// The error of reading the stream: of the file itself, or of the archive, with its remedy.
    fn failed(&self, error: io::Error) -> Error {
        let Some(archive) = self.decoder.archive().filter(|_| !self.decoder.source().failed) else {
            return Error::reading(&self.path, error);
        };
        let at = self.decompressed;
        let text = error.to_string();
        let message = if matches!(&self.decoder, Decoder::Gzip(gzip) if gzip.has_trailing_bytes) {
            format!(
                "the {archive} archive ends after {at} decompressed bytes, but the file goes on with something else; fetch it again, or pack what it holds anew"
            )
        } else if error.kind() == io::ErrorKind::UnexpectedEof {
            format!("the {archive} archive is truncated after {at} decompressed bytes; fetch or copy it again")
        } else if error.kind() == io::ErrorKind::OutOfMemory || text.contains("too much memory") {
            format!(
                "the {archive} archive needs a window above 128 MiB; pack it again without --long, or with a smaller --lzma2=dict"
            )
        } else {
            format!("the {archive} archive is corrupt after {at} decompressed bytes ({text}); fetch or copy it again")
        };
        Error::input(&self.path, message)
    }

    /// Bytes of the file read so far, and its size where known.
    pub fn progress(&self) -> Progress {
        Progress { done: self.decoder.source().bytes_read, total: self.total }
    }

    /// The SHA-256 of the stored file, once all of it was read.
    pub fn sha256(&self) -> Option<String> {
        if self.eof { self.decoder.source().sha256() } else { None }
    }
}

/// Name of an archive that is not read here, and the tool that unpacks it.
fn other_archive(head: &[u8]) -> Option<(&'static str, &'static str)> {
    match head {
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => Some(("bzip2", "bunzip2")),
        [b'P', b'K', 3, 4, ..] => Some(("zip", "unzip")),
        [0x04, 0x22, 0x4d, 0x18, ..] => Some(("lz4", "lz4 -d")),
        #[cfg(target_family = "wasm")]
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(("zstd", "zstd -d")),
        [b'7', b'z', 0xbc, 0xaf, ..] => Some(("7z", "7z x")),
        [0x5d, 0, 0, _, _, 0xff, 0xff, 0xff] => Some(("lzma", "unlzma")),
        [0x1f, 0x9d, ..] => Some(("compress (.Z)", "uncompress")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_archives_are_known_by_their_first_bytes() {
        let name = |head: &[u8]| other_archive(head).map(|(name, _)| name);
        for (head, expected) in [
            (&b"BZh91A"[..], "bzip2"),
            (b"BZh11A", "bzip2"),
            (b"PK\x03\x04", "zip"),
            (b"\x04\x22\x4d\x18", "lz4"),
            (b"7z\xbc\xaf", "7z"),
            (b"\x1f\x9d", "compress (.Z)"),
        ] {
            assert_eq!(name(head), Some(expected));
            assert_eq!(name(&[head, b"more"].concat()), Some(expected));
            assert_eq!(name(&head[..head.len() - 1]), None, "{expected}");
        }
        assert_eq!([name(b"BZh01A"), name(b"1,2,3"), name(b"")], [None; 3]);
    }
}
