//! Binary files of `blktrace` (`sdb.blktrace.0`, one a CPU), and what `blkparse -d` makes of them: little-endian records of 48
//! bytes, each with a payload behind it (linux/blktrace_api.h, version 7). The files of all CPUs of one run are read together, their records in the order of
//! time.
//!
//! As with blkparse's text, one kind of event is read: Q (queued: the host's requests), D (issued) or C (completed).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::blkparse::{Event, EventChoice};
use crate::number::{u16_at, u32_at, u64_at};
use crate::reader::{RecordFormat, RowTimes, Step};
use crate::row::{Bad, Field, Problem, TraceRow, Volumes};
use smrkit::request::Op;

/// The reader, with the kind of event that it reads.
#[derive(Debug, Default)]
pub(crate) struct Blktrace(EventChoice);

/// The properties of an action: bits of the word's upper half.
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const PACKET: u32 = 1 << 25;
const NOTICE: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
/// Sectors stay below this: 2^46 of them are 32 PiB.
const SECTOR_MAX: u64 = 1 << 46;

/// The event of an action, if it may stand for a request.
fn event(action: u32) -> Option<Event> {
    // The lower half is the event's number; bit 8 says that a control group is in the payload.
    match action & 0xff {
        _ if action & (NOTICE | PACKET) != 0 => None,
        1 => Some(Event::Queued),
        7 => Some(Event::Issued),
        8 => Some(Event::Completed),
        _ => None,
    }
}

/// The operation of an event; `None` for one without sectors that is no flush.
fn op(action: u32, bytes: u64) -> Option<Op> {
    match bytes {
        _ if action & DISCARD != 0 => Some(Op::Discard).filter(|_| bytes > 0),
        0 => (action & FLUSH != 0).then_some(Op::Flush),
        _ if action & WRITE != 0 => Some(Op::Write),
        _ => Some(Op::Read),
    }
}

impl RecordFormat for Blktrace {
    fn plausible(head: &[u8]) -> bool {
        record_bytes(head).is_some()
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.0.choose_times(times)
    }

    fn prepare(&mut self, head: &[u8]) {
        let mut rest = head;
        let records = std::iter::from_fn(|| {
            let (record, length) = (rest, record_bytes(rest)?);
            rest = rest.get(length..).unwrap_or_default();
            Some(record)
        });
        self.0.choose_among(records.filter_map(|record| event(u32_at(record, 28))));
    }

    fn next(&mut self, bytes: &[u8], volumes: &mut Volumes) -> Result<Step, (Bad, usize)> {
        let bad = |name, problem, used| Err((Bad { at: 0, len: 0, name, problem }, used));
        if bytes.len() >= 4 && u32_at(bytes, 0) != MAGIC {
            let expected = Problem::Expected("0x65617407, as blktrace writes on little-endian machines");
            return bad("the number at its front", expected, 0);
        }
        let Some(length) = record_bytes(bytes).filter(|length| bytes.len() >= *length) else { return Ok(Step::More) };
        let (ticks, sector, size) = (u64_at(bytes, 8), u64_at(bytes, 16), u64::from(u32_at(bytes, 24)));
        let (action, device) = (u32_at(bytes, 28), u32_at(bytes, 36));
        // Of a request's events, one kind is read.
        if !event(action).is_some_and(|event| self.0.stands_for_requests(event)) {
            return Ok(Step::Skip(length));
        }
        let Some(op) = op(action, size) else { return Ok(Step::Skip(length)) };
        if sector >= SECTOR_MAX && op != Op::Flush {
            return bad("the sector", Problem::Overflow, length);
        }
        let field = Field::named("the device");
        let name = || format!("{},{}", device >> 20, device & 0xf_ffff);
        // 0, because too many devices are no fault of this record, and leaving it out would be no remedy.
        let volume = volumes.numbered(u64::from(device), field, name).map_err(|bad| (bad, 0))?;
        let (offset, bytes) = if op == Op::Flush { (0, 0) } else { (sector * 512, size) };
        Ok(Step::Row(TraceRow { ticks, offset, bytes, volume, op }, length))
    }

    fn detail(&self) -> Option<&str> {
        self.0.detail()
    }
}

/// Bytes of a record without its payload.
const RECORD: usize = 48;
/// The number at the front of each record; its last byte is the version.
const MAGIC: u32 = 0x6561_7407;
/// Records of each CPU that are read ahead, to be sorted: nearly in order, but an interrupt may put a few behind later ones.
const READ_AHEAD: usize = 64;

/// Bytes of the record at the front of `bytes`, with its payload; `None` if its head is cut off, or it is no record.
fn record_bytes(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..RECORD)?;
    (u32_at(head, 0) == MAGIC).then(|| RECORD + usize::from(u16_at(head, 46)))
}

/// Lists the files of all CPUs, by number, if `path` is one of them or their common name: `sdb` of `sdb.blktrace.0`.
fn of_all_cpus(path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
    let common_name = || Some(format!("{}.blktrace", path.file_name()?.to_str()?)).filter(|_| !path.exists());
    let Some(stem) = cpu_of(path).map(|(stem, _)| stem.to_string()).or_else(common_name) else { return Ok(None) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        if let Some((_, cpu)) = cpu_of(Path::new(&name)).filter(|(own, _)| **own == stem) {
            all.push((cpu, path.with_file_name(&name)));
        }
    }
    all.sort();
    Ok(Some(all.into_iter().map(|(_, path)| path).collect()))
}

/// The common part of the names of one run's files, and the CPU of this one.
fn cpu_of(path: &Path) -> Option<(&str, u32)> {
    let (stem, cpu) = path.file_name()?.to_str()?.rsplit_once('.')?;
    let is_number = cpu.bytes().all(|byte| byte.is_ascii_digit());
    Some((stem, cpu.parse().ok().filter(|_| is_number && stem.ends_with(".blktrace"))?))
}

/// True if two paths name files of two CPUs of one run: opening either reads both.
pub fn are_one_blktrace(one: &Path, other: &Path) -> bool {
    let is_other_cpu = |((stem, cpu), (other_stem, other_cpu))| stem == other_stem && cpu != other_cpu;
    one.parent() == other.parent() && cpu_of(one).zip(cpu_of(other)).is_some_and(is_other_cpu)
}

/// Opens a trace's stored bytes: one file, or the merged files of all CPUs. Returns them and, if known, their number.
pub(crate) fn open(path: &Path) -> io::Result<(Box<dyn Read + Send>, Option<u64>)> {
    let found = of_all_cpus(path)?.unwrap_or_default();
    if found.len() < 2 {
        let file = File::open(found.first().map_or(path, PathBuf::as_path))?;
        let about = file.metadata()?;
        return Ok((Box::new(file), about.is_file().then_some(about.len())));
    }
    let (mut files, mut total) = (Vec::new(), 0);
    for path in found {
        let file = File::open(path)?;
        total += file.metadata()?.len();
        files.push(BufReader::new(file));
    }
    Ok((Box::new(Merged::new(files)?), Some(total)))
}

/// A record read ahead: its time, its number in the order of reading, its file, and its bytes.
type PendingRecord = (u64, u64, usize, Vec<u8>);

/// The records of several files in the order of time.
struct Merged<R> {
    files: Vec<R>,
    pending: BinaryHeap<Reverse<PendingRecord>>,
    records: u64,
    /// The record that is being returned; its bytes before `at` have been.
    record: Vec<u8>,
    at: usize,
}

impl<R: Read> Merged<R> {
    fn new(files: Vec<R>) -> io::Result<Merged<R>> {
        let mut merged = Merged { files, pending: BinaryHeap::new(), records: 0, record: Vec::new(), at: 0 };
        for file in 0..merged.files.len() {
            for _ in 0..READ_AHEAD {
                merged.read_ahead(file)?;
            }
        }
        Ok(merged)
    }

    /// Reads the next record of a file ahead. Bytes that are no record, such as the rest of a truncated file, come after all records, so that
    /// the parser reports them.
    fn read_ahead(&mut self, file: usize) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(RECORD);
        let source = &mut self.files[file];
        source.by_ref().take(RECORD as u64).read_to_end(&mut bytes)?;
        let length = record_bytes(&bytes);
        source.by_ref().take(length.map_or(0, |length| (length - RECORD) as u64)).read_to_end(&mut bytes)?;
        if !bytes.is_empty() {
            // A cut-off record is put behind all others, where the parser finds the stream's end in the middle of it.
            let is_whole = length == Some(bytes.len());
            let time = if is_whole { u64_at(&bytes, 8) } else { u64::MAX };
            self.records += 1;
            self.pending.push(Reverse((time, self.records, file, bytes)));
        }
        Ok(())
    }
}

impl<R: Read> Read for Merged<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.record.len() {
            let Some(Reverse((_, _, file, bytes))) = self.pending.pop() else { return Ok(0) };
            (self.record, self.at) = (bytes, 0);
            // As many records of each file stay read ahead as were at the beginning.
            self.read_ahead(file)?;
        }
        let left = &self.record[self.at..];
        let length = left.len().min(buf.len());
        buf[..length].copy_from_slice(&left[..length]);
        self.at += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::tests::{blktrace_record as record, drain, forced, names, read, refused, shown};
    use crate::{OpenOptions, Trace};

    const READ: u32 = 1 << 16;

    #[test]
    fn queued_events_are_requests_and_all_else_is_passed_by() {
        let records = [
            record(1, 0, 0, NOTICE, b"a process"),
            record(5, 9, 4096, 7 | READ, b""),
            record(10, 100, 4096, 1 | READ, b""),
            record(20, 200, 512, 1 | 1 << 8 | WRITE, b"payload"),
            record(30, 0, 0, 1 | WRITE | FLUSH, b""),
            record(40, 300, 8192, 1 | DISCARD | WRITE, b""),
            record(50, 0, 96, 1 | PACKET, b""),
        ]
        .concat();
        let (trace, all) = read(&records, &OpenOptions::default()).unwrap();
        assert_eq!((trace.format, names(&trace)), ("blktrace", vec!["8388624=8,16".to_string()]));
        assert!(trace.detail().unwrap().starts_with("Q events"));
        assert_eq!(shown(&all), ["0 R 100+8@0", "10 W 200+1@0", "20 F 0+0@0", "30 D 300+16@0"]);
        let (trace, all) = read(&records[..48 + 9 + 48], &OpenOptions::default()).unwrap();
        assert_eq!(shown(&all), ["0 R 9+8@0"]);
        assert!(trace.detail().unwrap().starts_with("D events"));
        let cut = refused(&records[..200], &OpenOptions::default());
        assert!(cut.contains("cut short"), "{cut}");
        let spoiled = [&records[..], b"something else"].concat();
        let spoiled = refused(&spoiled, &forced("blktrace"));
        assert!(spoiled.contains("0x65617407"), "{spoiled}");
    }

    #[test]
    fn the_file_of_any_cpu_opens_those_of_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = |cpu: u32| folder.path().join(format!("sdb.blktrace.{cpu}"));
        let file = |times: &[u64]| -> Vec<u8> {
            times.iter().flat_map(|&time| record(time, time, 512, 1 | READ, b"xy")).collect()
        };
        // The second event of CPU 2 came behind a later one.
        for (cpu, times) in [(0, &[10, 40, 50][..]), (2, &[30, 20, 60]), (11, &[5])] {
            std::fs::write(path(cpu), file(times)).unwrap();
        }
        let all = |cpu| drain(&mut Trace::open(&path(cpu), &OpenOptions::default()).unwrap()).unwrap();
        for cpu in [0, 2, 11] {
            assert_eq!(all(cpu).iter().map(|r| r.lba.0).collect::<Vec<_>>(), [5, 10, 20, 30, 40, 50, 60]);
        }
        let named = drain(&mut Trace::open(&folder.path().join("sdb"), &OpenOptions::default()).unwrap()).unwrap();
        assert_eq!(named, all(0));
        assert!(Trace::open(&folder.path().join("sdc"), &OpenOptions::default()).is_err());
        std::fs::remove_file(path(2)).unwrap();
        std::fs::remove_file(path(11)).unwrap();
        assert_eq!(all(0).len(), 3);
    }

    #[test]
    fn actions_tell_the_event_and_the_operation() {
        let events = [0, 1, 2, 7, 8, 1 | 1 << 8, 7 | WRITE, 1 | NOTICE, 1 | PACKET, 7 | NOTICE | PACKET].map(event);
        let [queued, issued, completed] = [Event::Queued, Event::Issued, Event::Completed].map(Some);
        assert_eq!(events, [None, queued, None, issued, completed, queued, issued, None, None, None]);
        let operations = [
            (READ, 512, Some(Op::Read)),
            (READ, 0, None),
            (WRITE, 512, Some(Op::Write)),
            (WRITE, 0, None),
            (WRITE | FLUSH, 0, Some(Op::Flush)),
            (FLUSH, 0, Some(Op::Flush)),
            (WRITE | FLUSH, 512, Some(Op::Write)),
            (DISCARD | WRITE, 512, Some(Op::Discard)),
            (DISCARD, 0, None),
            (DISCARD | FLUSH, 0, None),
        ];
        for (action, bytes, expected) in operations {
            assert_eq!(op(action, bytes), expected, "{action:x} {bytes}");
        }
    }

    #[test]
    fn sectors_end_where_no_disk_is_as_large() {
        let next = |sector, action, size| {
            let bytes = record(10, sector, size, action, b"");
            Blktrace::default().next(&bytes, &mut Volumes::default()).map_err(|(bad, used)| (bad.name, used))
        };
        assert!(
            matches!(next(SECTOR_MAX - 1, 1 | READ, 512), Ok(Step::Row(row, 48)) if row.offset == (SECTOR_MAX - 1) * 512)
        );
        assert_eq!(next(SECTOR_MAX, 1 | READ, 512).err(), Some(("the sector", 48)));
        assert!(matches!(next(SECTOR_MAX, 1 | FLUSH, 0), Ok(Step::Row(row, 48)) if row.offset == 0 && row.bytes == 0));
        assert!(matches!(next(0, 1 | READ, 0), Ok(Step::Skip(48))));
        let bytes = record(10, 0, 512, 1 | READ, b"abc");
        let of = |bytes: &[u8]| Blktrace::default().next(bytes, &mut Volumes::default());
        assert!(matches!(of(&bytes), Ok(Step::Row(_, 51))) && matches!(of(&bytes[..50]), Ok(Step::More)));
        assert!(matches!(of(&bytes[..3]), Ok(Step::More)) && of(b"abcd").is_err());
        assert!(Blktrace::plausible(&bytes) && !Blktrace::plausible(&bytes[..47]) && !Blktrace::plausible(&[7; 48]));
    }

    fn merged(files: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Merged::new(files.iter().map(Vec::as_slice).collect()).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    proptest! {
        #[test]
        fn records_of_all_cpus_come_in_the_order_of_time(
            times in proptest::collection::vec(proptest::collection::vec(0_u64..1000, 0..60), 1..5),
            payload in proptest::collection::vec(any::<u8>(), 0..5),
        ) {
            let record = |time: &u64| record(*time, 0, 512, 1, &payload);
            let files: Vec<Vec<u8>> = times.iter().map(|own| own.iter().flat_map(record).collect()).collect();
            let mut sorted = times.concat();
            sorted.sort_unstable();
            prop_assert_eq!(merged(&files), sorted.iter().flat_map(record).collect::<Vec<u8>>());
        }

        #[test]
        fn no_byte_of_any_file_is_lost(
            files in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 1..4),
            whole in proptest::collection::vec(0_u64..9, 4),
        ) {
            let front = |n: &u64| record(*n, 0, 512, 1, b"xy").repeat(*n as usize);
            let files: Vec<Vec<u8>> = files.iter().zip(&whole).map(|(rest, n)| [front(n), rest.clone()].concat()).collect();
            let (mut all, mut given) = (merged(&files), files.concat());
            all.sort_unstable();
            given.sort_unstable();
            prop_assert_eq!(all, given);
        }
    }

    #[test]
    fn files_of_two_cpus_are_one_trace() {
        let one = |a: &str, b: &str| are_one_blktrace(Path::new(a), Path::new(b));
        assert!(one("d/sdb.blktrace.0", "d/sdb.blktrace.11"));
        assert!(!one("d/sdb.blktrace.0", "d/sdb.blktrace.0"));
        assert!(!one("d/sdb.blktrace.0", "e/sdb.blktrace.1"));
        assert!(!one("d/sdb.blktrace.0", "d/sdc.blktrace.1"));
        assert!(!one("d/sdb.blktrace.+1", "d/sdb.blktrace.0"));
    }
}
