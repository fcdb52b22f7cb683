//! HP Labs' SRT traces (Ruemmler and Wilkes 1993), binary, as DiskSim's `hpl` and `hpl2` formats read them.
//!
//! A text heading with `tracedate` ends with a form feed (`hpl2` has none). Records are big-endian words of 32 bits: size
//! of the record, version and kind, seconds, microseconds, start, stop, length in bytes, block, device, driver, cylinder,
//! flags, info; version 4 adds the queue length, a suspect record its flags. Bit 0 of the flags is set for a read; bits 8
//! to 15 of the device number the disk. The block's unit is the heading's `sectorsize`, 512 bytes where it has none.
//! Suspect records are left out, as DiskSim does. Versions above 4 have other fields and are refused.

use crate::reader::{RecordFormat, Step};
use crate::row::{Bad, Field, Problem, TraceRow, Volumes};
use smrkit::request::Op;

/// Words of a record of versions 1 to 3.
const WORDS: usize = 13;
/// The longest heading.
const HEADING_MAX: usize = 64 << 10;
/// Kinds of record.
const SHORT_IO: u32 = 1;
const SUSPECT_IO: u32 = 4;

/// The reader's state: the unit of blocks, known after the heading.
#[derive(Debug, Default)]
pub(crate) struct Srt {
    block_bytes: Option<u64>,
}

fn malformed(name: &'static str, what: &'static str) -> Result<Step, (Bad, usize)> {
    Err((Bad { at: 0, len: 0, name, problem: Problem::Expected(what) }, 0))
}

impl Srt {
    fn heading(&mut self, bytes: &[u8]) -> Result<Step, (Bad, usize)> {
        if bytes.first() == Some(&0) {
            // No heading: the bytes are a record's size, whose upper bytes are 0, as no text begins.
            self.block_bytes = Some(512);
            return Ok(Step::Heading(0));
        }
        let Some(end) = memchr::memchr(0x0c, &bytes[..bytes.len().min(HEADING_MAX)]) else {
            return if bytes.len() < HEADING_MAX {
                Ok(Step::More)
            } else {
                malformed("the heading", "a form feed within 64 KiB that ends it")
            };
        };
        let heading = &bytes[..end];
        if memchr::memmem::find(heading, b"tracedate").is_none() {
            return malformed("the heading", "text with a line tracedate");
        }
        match sector_bytes(heading) {
            Ok(bytes) => self.block_bytes = Some(bytes),
            Err(what) => return malformed("the heading's sectorsize", what),
        }
        Ok(Step::Heading(end + 1))
    }
}

/// The unit of block numbers: what follows each `sectorsize` in the heading.
fn sector_bytes(heading: &[u8]) -> Result<u64, &'static str> {
    let lower = heading.to_ascii_lowercase();
    let mut found = None;
    for at in memchr::memmem::find_iter(&lower, b"sectorsize") {
        let rest = &lower[at + 10..];
        let digits = rest.iter().skip_while(|b| !b.is_ascii_digit() && **b != b'\n');
        let value = digits.take_while(|b| b.is_ascii_digit()).take(6).fold(0, |v, b| v * 10 + u64::from(b - b'0'));
        match found {
            _ if !(value.is_power_of_two() && (64..=65_536).contains(&value)) => {
                return Err("a power of two from 64 to 65536");
            }
            Some(other) if other != value => return Err("the same value for all disks; split the trace by disk"),
            _ => found = Some(value),
        }
    }
    Ok(found.unwrap_or(512))
}

impl RecordFormat for Srt {
    fn tick_ns(&self) -> u64 {
        1000
    }

    fn plausible(head: &[u8]) -> bool {
        match head.first() {
            Some(0) => true,
            _ => memchr::memmem::find(&head[..head.len().min(HEADING_MAX)], b"tracedate").is_some(),
        }
    }

    fn next(&mut self, bytes: &[u8], volumes: &mut Volumes) -> Result<Step, (Bad, usize)> {
        let Some(block_bytes) = self.block_bytes else {
            return self.heading(bytes);
        };
        let word = |n: usize| bytes.get(4 * n..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_be_bytes(*b));
        if bytes.len() < 4 * WORDS {
            return Ok(Step::More);
        }
        let (version, kind) = (word(1) >> 16, word(1) & 0xffff);
        if !(1..=4).contains(&version) {
            return malformed("the version", "1 to 4; convert later versions to text first");
        }
        if kind != SHORT_IO && kind != SUSPECT_IO {
            return malformed("the kind of record", "an I/O (1 or 4)");
        }
        let words = WORDS + usize::from(version == 4) + usize::from(kind == SUSPECT_IO);
        let used = 4 * words;
        // A record of another size has other fields than are read here.
        if word(0) as usize != used {
            return malformed("the size of the record", "that of its version and kind");
        }
        if bytes.len() < used {
            return Ok(Step::More);
        }
        if kind == SUSPECT_IO {
            return Ok(Step::Skip(used));
        }
        let ticks = u64::from(word(2)) * 1_000_000 + u64::from(word(3));
        let bytes = u64::from(word(6));
        if bytes == 0 {
            return Err((Bad { at: 0, len: 0, name: "the length", problem: Problem::Zero }, used));
        }
        let offset = u64::from(word(7)) * block_bytes;
        let disk = u64::from(word(8) >> 8 & 0xff);
        let field = Field::named("the device");
        let volume = volumes.numbered(disk, field, || disk.to_string()).map_err(|bad| (bad, used))?;
        let op = if word(11) & 1 == 1 { Op::Read } else { Op::Write };
        Ok(Step::Row(TraceRow { ticks, offset, bytes, volume, op }, used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of a version and kind, of this size in words.
    fn record(version: u32, kind: u32, words: u32) -> Vec<u32> {
        let mut record = vec![words * 4, version << 16 | kind, 7, 9, 0, 0, 4096, 10, 0x0302, 0, 0, 1, 0];
        record.resize(words as usize, 0);
        record
    }

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn next(bytes: &[u8]) -> Result<Step, (&'static str, usize)> {
        let mut srt = Srt { block_bytes: Some(1024) };
        srt.next(bytes, &mut Volumes::default()).map_err(|(bad, used)| (bad.name, used))
    }

    #[test]
    fn a_record_has_the_words_of_its_version_and_kind() {
        for (version, kind, words) in [(1, SHORT_IO, 13), (3, SHORT_IO, 13), (4, SHORT_IO, 14)] {
            let Ok(Step::Row(row, used)) = next(&bytes(&record(version, kind, words))) else { panic!("no row") };
            assert_eq!((row.ticks, row.offset, row.bytes, row.op), (7_000_009, 10_240, 4096, Op::Read));
            assert_eq!(used, 4 * words as usize);
        }
        for (version, words) in [(3, 14), (4, 15)] {
            let step = next(&bytes(&record(version, SUSPECT_IO, words)));
            assert!(matches!(step, Ok(Step::Skip(used)) if used == 4 * words as usize), "{step:?}");
        }
        for (version, kind, words, name) in [
            (0, SHORT_IO, 13, "the version"),
            (5, SHORT_IO, 13, "the version"),
            (1, 2, 13, "the kind of record"),
            (1, SHORT_IO, 14, "the size of the record"),
            (4, SHORT_IO, 13, "the size of the record"),
        ] {
            assert_eq!(next(&bytes(&record(version, kind, words))).err(), Some((name, 0)), "{version} {kind}");
        }
    }

    #[test]
    fn a_record_is_waited_for_until_it_is_whole() {
        let short = bytes(&record(3, SHORT_IO, 13));
        assert!(matches!(next(&short[..51]), Ok(Step::More)) && matches!(next(&short), Ok(Step::Row(..))));
        let long = bytes(&record(4, SHORT_IO, 14));
        assert!(matches!(next(&long[..52]), Ok(Step::More)) && matches!(next(&long[..55]), Ok(Step::More)));
        assert!(matches!(next(&[long.clone(), short].concat()), Ok(Step::Row(_, 56))));
    }

    #[test]
    fn flags_tell_writes_and_the_device_its_disk() {
        let mut words = record(3, SHORT_IO, 13);
        words[11] = 0b110;
        let (mut srt, mut volumes) = (Srt { block_bytes: Some(512) }, Volumes::default());
        let Ok(Step::Row(row, _)) = srt.next(&bytes(&words), &mut volumes) else { panic!("no row") };
        assert_eq!((row.op, row.offset, volumes.list[0].number), (Op::Write, 5120, 3));
        words[8] = 0x0001_ff01;
        let Ok(Step::Row(row, _)) = srt.next(&bytes(&words), &mut volumes) else { panic!("no row") };
        assert_eq!((row.volume, volumes.list[1].number, volumes.list[1].name.as_str()), (1, 255, "255"));
        words[6] = 0;
        assert_eq!(next(&bytes(&words)).err(), Some(("the length", 52)));
    }

    #[test]
    fn a_heading_ends_with_a_form_feed_and_names_the_unit() {
        let heading = |text: &[u8]| {
            let mut srt = Srt::default();
            let step = srt.next(text, &mut Volumes::default()).map_err(|(bad, used)| (bad.name, used));
            (step, srt.block_bytes)
        };
        assert!(matches!(heading(b"tracedate x\nsectorsize 1024\n\x0crest"), (Ok(Step::Heading(29)), Some(1024))));
        assert!(matches!(heading(b"tracedate x\n\x0c"), (Ok(Step::Heading(13)), Some(512))));
        assert!(matches!(heading(b"\0\0\0\x34"), (Ok(Step::Heading(0)), Some(512))));
        assert!(matches!(heading(b"tracedate"), (Ok(Step::More), None)));
        assert!(matches!(heading(b"text\x0c"), (Err(("the heading", 0)), None)));
        assert!(matches!(heading(b"tracedate sectorsize 3\x0c"), (Err(("the heading's sectorsize", 0)), None)));
        let long = vec![b'x'; HEADING_MAX];
        assert!(matches!(heading(&long), (Err(("the heading", 0)), None)));
        assert!(matches!(heading(&long[1..]), (Ok(Step::More), None)));
        assert!(
            Srt::plausible(b"\0x") && Srt::plausible(b"a tracedate") && !Srt::plausible(b"x") && !Srt::plausible(b"")
        );
    }

    #[test]
    fn units_of_blocks_are_powers_of_two_and_the_same_for_all_disks() {
        assert_eq!(sector_bytes(b""), Ok(512));
        assert_eq!(sector_bytes(b"SectorSize: 64"), Ok(64));
        assert_eq!(sector_bytes(b"sectorsize = 65536\nsectorsize 65536"), Ok(65_536));
        for wrong in ["sectorsize 32", "sectorsize 131072", "sectorsize 513", "sectorsize\n512"] {
            assert_eq!(sector_bytes(wrong.as_bytes()), Err("a power of two from 64 to 65536"), "{wrong}");
        }
        assert!(sector_bytes(b"sectorsize 512 sectorsize 1024").unwrap_err().starts_with("the same value"));
    }
}
