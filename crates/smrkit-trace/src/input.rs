//! The bytes of a trace, from a file, standard input or memory: hashed and counted as stored, then decompressed. Memory is bounded.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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

/// What was seen of the stored bytes, shared by their reader, which is inside a decoder, and the stream.
#[derive(Default)]
struct Stored {
    bytes_read: u64,
    hash: Option<Sha256>,
    /// True if reading the source failed, and not the decompression.
    has_failed: bool,
    /// True if other bytes follow the last member of a gzip archive.
    has_trailing_bytes: bool,
}

impl Stored {
    /// The SHA-256 of the bytes so far, in hexadecimal, if they are hashed.
    fn sha256(&self) -> Option<String> {
        let hash = self.hash.clone()?.finalize();
        Some(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Reads the source, and counts and hashes its bytes.
struct CountingReader {
    inner: Box<dyn Read + Send>,
    stored: Arc<Mutex<Stored>>,
}

impl Read for CountingReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.inner.read(buf);
            let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
            match read {
                Ok(n) => {
                    stored.bytes_read += n as u64;
                    if let Some(hash) = &mut stored.hash {
                        hash.update(&buf[..n]);
                    }
                    return Ok(n);
                }
                // Decoders pass an interruption on, or take it for the end.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    stored.has_failed = true;
                    return Err(error);
                }
            }
        }
    }
}

pub(crate) fn sha256_of(inner: Box<dyn Read + Send>) -> io::Result<String> {
    let stored = Arc::new(Mutex::new(Stored { hash: Some(Sha256::new()), ..Stored::default() }));
    io::copy(&mut CountingReader { inner, stored: Arc::clone(&stored) }, &mut io::sink())?;
    let stored = stored.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(stored.sha256().unwrap_or_default())
}

/// Members of a gzip archive, one after the other.
struct Gzip {
    member: GzDecoder<Box<dyn BufRead + Send>>,
    stored: Arc<Mutex<Stored>>,
}

impl Read for Gzip {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.member.read(buf)?;
            if n > 0 {
                return Ok(n);
            }
            // Zeros after the last member are padding to a tape's block, which gzip ignores too.
            let inner = self.member.get_mut();
            while inner.fill_buf()?.first() == Some(&0) {
                inner.consume(1);
            }
            match inner.fill_buf()?.first() {
                None => return Ok(0),
                Some(0x1f) => {
                    let rest = std::mem::replace(inner, Box::new(io::empty()));
                    self.member.reset(rest);
                }
                Some(_) => {
                    self.stored.lock().unwrap_or_else(PoisonError::into_inner).has_trailing_bytes = true;
                    return Err(io::ErrorKind::InvalidData.into());
                }
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

fn utf8(bytes: &[u8], code_unit: CodeUnit) -> String {
    let units = bytes.chunks_exact(2).map(|pair| code_unit([pair[0], pair[1]]));
    char::decode_utf16(units).map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// A file's bytes, from UTF-16 in UTF-8.
pub fn in_utf8(bytes: Vec<u8>) -> Vec<u8> {
    match utf16(&bytes) {
        Some(code_unit) => utf8(&bytes, code_unit).into_bytes(),
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
    /// The decompressed bytes.
    decoder: Box<dyn Read + Send>,
    /// The kind of archive, if it is one.
    archive: Option<&'static str>,
    stored: Arc<Mutex<Stored>>,
    utf16: Option<CodeUnit>,
    total: Option<u64>,
    decompressed: u64,
}

impl Stream {
    /// Reads from `inner`; `path` is its name in messages.
    pub fn new(path: &Path, inner: Box<dyn Read + Send>, total: Option<u64>, hash: bool) -> Result<Stream, Error> {
        let stored = Arc::new(Mutex::new(Stored { hash: hash.then(Sha256::new), ..Stored::default() }));
        let (mut source, mut head) = (CountingReader { inner, stored: Arc::clone(&stored) }, Vec::new());
        source.by_ref().take(8).read_to_end(&mut head).map_err(|error| Error::reading(path, error))?;
        if head.is_empty() {
            return Err(Error::input(path, "the file is empty: it holds no request; check how it was made"));
        }
        if let Some((name, tool)) = other_archive(&head) {
            let message = format!("a {name} archive: decompress it first ({tool}), or pack it as {ARCHIVES}");
            return Err(Error::input(path, message));
        }
        let archive = match *head {
            [0x1f, 0x8b, ..] => Some("gzip"),
            // A frame, or a skippable frame in front of one.
            #[cfg(not(target_family = "wasm"))]
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some("zstd"),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
            _ => None,
        };
        // The head has been read, and is put in front of the rest.
        let whole = Cursor::new(head).chain(source);
        let compressed = |whole| -> Box<dyn BufRead + Send> { Box::new(BufReader::with_capacity(COMPRESSED, whole)) };
        let decoder: Box<dyn Read + Send> = match archive {
            Some("gzip") => Box::new(Gzip { member: GzDecoder::new(compressed(whole)), stored: Arc::clone(&stored) }),
            Some("xz") => Box::new(XzReader::new_mem_limit(compressed(whole), true, XZ_KIB)),
            #[cfg(not(target_family = "wasm"))]
            Some(_) => {
                let decoder = zstd::stream::read::Decoder::with_buffer(compressed(whole));
                Box::new(decoder.map_err(|error| Error::reading(path, error))?)
            }
            _ => Box::new(whole),
        };
        let (path, buf) = (path.to_path_buf(), vec![0; BUFFER]);
        let (start, end, decompressed) = (0, 0, 0);
        Ok(Stream { path, buf, start, end, eof: false, decoder, archive, stored, utf16: None, total, decompressed })
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
        let (is_first, from) = (self.decompressed == 0, self.end);
        self.read_up_to(from + (self.buf.len() - from) / 2 * 2)?;
        if is_first {
            self.utf16 = utf16(self.unread());
        }
        if let Some(code_unit) = self.utf16 {
            // The second half of a surrogate pair is decoded with the first.
            if !self.eof && (0xd800..0xdc00).contains(&code_unit([self.buf[self.end - 2], self.buf[self.end - 1]])) {
                self.buf.resize(self.end + 2, 0);
                self.read_up_to(self.end + 2)?;
            }
            let text = utf8(&self.buf[from..self.end], code_unit);
            self.end = from + text.len();
            // UTF-8 may be longer than UTF-16.
            self.buf.resize(self.buf.len().max(self.end), 0);
            self.buf[from..self.end].copy_from_slice(text.as_bytes());
        }
        if is_first && self.unread().starts_with("\u{feff}".as_bytes()) {
            self.start += '\u{feff}'.len_utf8();
        }
        Ok(())
    }

    /// Reads until the buffer is filled up to `most`, or to the end of the file.
    fn read_up_to(&mut self, most: usize) -> Result<(), Error> {
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
        Ok(())
    }

    /// The error of reading the stream: of the file itself, or of the archive, with its remedy.
    fn failed(&self, error: io::Error) -> Error {
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(archive) = self.archive.filter(|_| !stored.has_failed) else {
            return Error::reading(&self.path, error);
        };
        let at = self.decompressed;
        let text = error.to_string();
        let message = if stored.has_trailing_bytes {
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
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        Progress { done: stored.bytes_read, total: self.total }
    }

    /// The SHA-256 of the stored file, once all of it was read.
    pub fn sha256(&self) -> Option<String> {
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if self.eof { stored.sha256() } else { None }
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
    fn surrogate_pairs_across_the_edge_of_the_buffer_stay_whole() {
        // With one of these, a pair begins two bytes before the edge.
        for begin in ["\u{feff}ab", "\u{feff}abc"] {
            let text = begin.to_string() + &"𝄞".repeat(BUFFER);
            let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let mut stream = Stream::new(Path::new("-"), Box::new(Cursor::new(bytes)), None, false).unwrap();
            let mut found = Vec::new();
            while !stream.eof {
                stream.refill().unwrap();
                found.extend_from_slice(stream.unread());
                stream.start = stream.end;
            }
            assert!(found == text.as_bytes()['\u{feff}'.len_utf8()..], "{begin}");
        }
    }

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
