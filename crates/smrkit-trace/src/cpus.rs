//! The files of one `blktrace` run, `sdb.blktrace.0`, `sdb.blktrace.1`, …, one a CPU: read together, their records in the order of
//! time.
//!
//! A CPU writes its events nearly in order: a few that an interrupt put behind later ones are moved back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::number::{u16_at, u32_at, u64_at};

/// Bytes of a record without its payload.
pub(crate) const RECORD: usize = 48;
/// The number at the front of each record; its last byte is the version.
pub(crate) const MAGIC: u32 = 0x6561_7407;
/// Records of each CPU that are held to be put in order.
const HELD: usize = 64;

/// Bytes of the record at the front of `bytes`, payload included; `None` where they don't hold its head, or another thing is there.
pub(crate) fn record_bytes(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..RECORD)?;
    (u32_at(head, 0) == MAGIC).then(|| RECORD + usize::from(u16_at(head, 46)))
}

/// The files of all CPUs, by number, if `path` is one of them.
fn of_all_cpus(path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
    let Some((stem, _)) = cpu_of(path) else { return Ok(None) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        if let Some((_, cpu)) = cpu_of(Path::new(&name)).filter(|(own, _)| *own == stem) {
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

/// True if two paths name files of two CPUs of one run, each of which stands for both.
pub fn are_one_blktrace(one: &Path, other: &Path) -> bool {
    let of = |path| Some((cpu_of(path)?, Path::parent(path)));
    match (of(one), of(other)) {
        (Some(((stem, cpu), folder)), Some(((stem2, cpu2), folder2))) => {
            (stem, folder) == (stem2, folder2) && cpu != cpu2
        }
        _ => false,
    }
}

/// Opens a trace's bytes as they lie on the disk: one file, or the merged files of all CPUs. With them, how many there are, where
/// that is known.
pub(crate) fn open(path: &Path) -> io::Result<(Box<dyn Read + Send>, Option<u64>)> {
    let file = File::open(path)?;
    let Some(paths) = of_all_cpus(path)?.filter(|paths| paths.len() > 1) else {
        let about = file.metadata()?;
        return Ok((Box::new(file), about.is_file().then_some(about.len())));
    };
    let (mut files, mut total) = (Vec::new(), 0);
    for path in paths {
        let file = File::open(path)?;
        total += file.metadata()?.len();
        files.push(BufReader::new(file));
    }
    Ok((Box::new(Merged::new(files)?), Some(total)))
}

/// A record read ahead; the earliest comes first, of equal ones the one read first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct HeldRecord {
    time: u64,
    number: u64,
    file: usize,
    bytes: Vec<u8>,
}

/// The records of several files in the order of time.
struct Merged<R> {
    files: Vec<R>,
    held: BinaryHeap<Reverse<HeldRecord>>,
    records: u64,
    /// Bytes of the record that is handed out, from `at` on.
    record: Vec<u8>,
    at: usize,
}

impl<R: Read> Merged<R> {
    fn new(files: Vec<R>) -> io::Result<Merged<R>> {
        let mut merged = Merged { files, held: BinaryHeap::new(), records: 0, record: Vec::new(), at: 0 };
        for file in 0..merged.files.len() {
            for _ in 0..HELD {
                merged.hold(file)?;
            }
        }
        Ok(merged)
    }

    /// Reads the next record of a file. What is no record, such as the rest of a file that was cut short, comes as it is, and last.
    fn hold(&mut self, file: usize) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(RECORD);
        let source = &mut self.files[file];
        source.by_ref().take(RECORD as u64).read_to_end(&mut bytes)?;
        let length = record_bytes(&bytes);
        source.by_ref().take(length.map_or(0, |length| (length - RECORD) as u64)).read_to_end(&mut bytes)?;
        if !bytes.is_empty() {
            let is_whole = length == Some(bytes.len());
            let time = if is_whole { u64_at(&bytes, 8) } else { u64::MAX };
            self.records += 1;
            self.held.push(Reverse(HeldRecord { time, number: self.records, file, bytes }));
        }
        Ok(())
    }
}

impl<R: Read> Read for Merged<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.record.len() {
            let Some(Reverse(HeldRecord { file, bytes, .. })) = self.held.pop() else { return Ok(0) };
            (self.record, self.at) = (bytes, 0);
            self.hold(file)?;
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
    use crate::tests::blktrace_record;
    use proptest::prelude::*;

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
            let record = |time: &u64| blktrace_record(*time, 0, 512, 1, &payload);
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
            let front = |n: &u64| blktrace_record(*n, 0, 512, 1, b"xy").repeat(*n as usize);
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
