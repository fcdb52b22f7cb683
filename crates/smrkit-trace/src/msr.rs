//! MSR Cambridge CSV (SNIA IOTTA 388): a Windows file time, host, disk, Read or Write, offset and size in bytes, response.
//!
//! The published sample rows and the traces' readme are the source. The time is that of a request's issue.

use crate::number::{digits, leading_digits, word};
use crate::reader::{Heading, RowTimes, TextFormat, first_line_is};
use crate::row::{BYTES_MAX, Bad, Field, LineColumns, TraceRow, Volumes, extent};
use smrkit::request::Op;

/// The longest `,host,disk,` that the fast path knows.
const KEY: usize = 16;

/// Text of the host and disk columns, as the fast path compares it.
#[derive(Clone, Copy, Debug, Default)]
struct Key {
    /// `,host,disk,`, the first byte lowest.
    text: u128,
    mask: u128,
    len: usize,
    volume: u16,
}

/// The reader's state: the host and disk of the previous row, and of other recent rows.
#[derive(Debug)]
pub(crate) struct Msr {
    last: Key,
    /// Keys by their hash; a newer key replaces an older one with the same hash.
    recent: Vec<Key>,
    times: RowTimes,
}

/// Keys remembered, a power of two.
const KEYS: usize = 1024;

impl Default for Msr {
    fn default() -> Msr {
        Msr { last: Key::default(), recent: vec![Key::default(); KEYS], times: RowTimes::Clock }
    }
}

/// Slot in which a key is remembered. The multiplier is the golden ratio's, as in Fibonacci hashing (Knuth, volume 3, 6.4).
fn place(text: u128) -> usize {
    let folded = (text as u64) ^ (text >> 64) as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % KEYS
}

const READ: u64 = u64::from_le_bytes(*b"Read,\0\0\0");
const WRITE: u64 = u64::from_le_bytes(*b"Write,\0\0");

impl Msr {
    /// Keeps the volume of a row for the fast path; `start..end` is `,host,disk,` in `line`.
    fn remember(&mut self, line: &[u8], start: usize, end: usize, volume: u16) {
        if let Some(text) = line.get(start..end).filter(|text| text.len() <= KEY) {
            let (mut key, mut mask) = ([0; KEY], [0; KEY]);
            key[..text.len()].copy_from_slice(text);
            mask[..text.len()].fill(0xff);
            let (text, mask) = (u128::from_le_bytes(key), u128::from_le_bytes(mask));
            self.last = Key { text, mask, len: end - start, volume };
            self.recent[place(text)] = self.last;
        }
    }

    /// Makes a remembered key the current one, if `found` begins with it; `None` if no such key is remembered. A key is `,host,disk,`, so it
    /// ends with the third comma, which is found without a loop over the bytes.
    fn recall(&mut self, found: u128) -> Option<()> {
        const ONES: u128 = u128::from_le_bytes([1; KEY]);
        // Bytes that were commas are 0. The subtraction sets the top bit of these; it may also set that of a byte behind one, which does no
        // harm, because the whole key is compared below.
        let commas = found ^ (ONES * b',' as u128);
        let mut marks = commas.wrapping_sub(ONES) & !commas & (ONES << 7);
        // The lowest two marks are removed.
        marks &= marks.wrapping_sub(1);
        marks &= marks.wrapping_sub(1);
        let len = marks.trailing_zeros() as usize / 8 + 1;
        if marks == 0 {
            return None;
        }
        let mask = u128::MAX >> (128 - 8 * len);
        let known = self.recent[place(found & mask)];
        (known.len == len && found & known.mask == known.text).then(|| self.last = known)
    }
}

fn op(field: Field) -> Result<Op, Bad> {
    match field.text {
        text if text.eq_ignore_ascii_case(b"Read") => Ok(Op::Read),
        text if text.eq_ignore_ascii_case(b"Write") => Ok(Op::Write),
        _ => Err(field.expected("Read or Write")),
    }
}

impl TextFormat for Msr {
    fn tick_ns(&self) -> u64 {
        100
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.times = times;
        times.are_moments()
    }

    fn heading(&self, number: u64, line: &[u8]) -> Heading {
        first_line_is(number, line, "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime")
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut columns = LineColumns::commas(line);
        let time = columns.next("column 1 (Timestamp)")?;
        let issued = time.integer()?;
        let host = columns.next("column 2 (Hostname)")?;
        let disk = columns.next("column 3 (DiskNumber)")?;
        let number = disk.integer()?;
        let op_field = columns.next("column 4 (Type)")?;
        let op = op(op_field)?;
        let offset = columns.next("column 5 (Offset)")?;
        let size = columns.next("column 6 (Size)")?;
        let (offset, bytes) = extent(offset, 1, size, 1)?;
        let response = columns.next("column 7 (ResponseTime)")?.integer()?;
        columns.end()?;
        let ticks = if self.times == RowTimes::Completion { issued.saturating_add(response) } else { issued };
        // `host.disk`; a few bytes more than a name for the odd row, no allocation for one that is known.
        let mut name = [0; 64];
        let length = host.text.len() + 1 + disk.text.len();
        let volume = if let Some(name) = name.get_mut(..length) {
            name[..host.text.len()].copy_from_slice(host.text);
            name[host.text.len()] = b'.';
            name[host.text.len() + 1..].copy_from_slice(disk.text);
            volumes.named(name, Some(number), disk)?
        } else {
            return Err(host.expected("a host name of at most 40 bytes"));
        };
        self.remember(line, time.at + time.text.len(), op_field.at, volume);
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }

    #[inline(always)]
    fn fast(&mut self, text: &[u8]) -> Option<(TraceRow, usize)> {
        // The fast path does not read the response time.
        if self.times == RowTimes::Completion {
            return None;
        }
        let (ticks, at) = digits(text, 0)?;
        let found = u128::from_le_bytes(*text.get(at..)?.first_chunk::<KEY>()?);
        // Most rows are of the same host and disk as the row before.
        if found & self.last.mask != self.last.text || self.last.len == 0 {
            self.recall(found)?;
        }
        let at = at + self.last.len;
        let kind = word(text, at)?;
        let (op, at) = if kind & 0xffff_ffff_ffff == WRITE {
            (Op::Write, at + 6)
        } else if kind & 0xff_ffff_ffff == READ {
            (Op::Read, at + 5)
        } else {
            return None;
        };
        let (offset, at) = digits(text, at)?;
        let comma = *text.get(at)?;
        let (bytes, at) = digits(text, at + 1)?;
        // A size of 0 wraps around to the largest, and so goes the slow way, too.
        if comma != b',' || *text.get(at)? != b',' || bytes.wrapping_sub(1) >= BYTES_MAX || offset >= 1 << 63 {
            return None;
        }
        // The response time is passed over, eight digits at a time.
        let mut at = at + 1;
        let mut n = leading_digits(word(text, at)?);
        if n == 0 {
            return None;
        }
        while n == 8 {
            at += 8;
            n = leading_digits(word(text, at)?);
        }
        at += n;
        if text.get(at) == Some(&b'\r') {
            at += 1;
        }
        if *text.get(at)? != b'\n' {
            return None;
        }
        Some((TraceRow { ticks, offset, bytes, volume: self.last.volume, op }, at + 1))
    }
}
