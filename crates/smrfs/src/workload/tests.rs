//! Turns, measures and ends of scripts, on a target that only keeps books.

use std::collections::BTreeMap;

use smrkit::units::Nanos;

use super::driver::*;
use super::*;
use crate::error::{Errno, FsError, FsResult};

/// A target that keeps sizes, refuses what makes no sense, and takes a nanosecond for each byte.
pub struct Books {
    pub files: BTreeMap<FileKey, u64>,
    open: Vec<FileKey>,
    room_bytes: u64,
    now: u64,
    /// Time that cleaning takes after each act.
    pub cleaning_ns: u64,
    /// Time of a step of cleaning in a rest.
    pub idle_step_ns: u64,
    waited: u64,
    pub acts: Vec<Act>,
}

impl Books {
    pub fn new(room_bytes: u64) -> Books {
        Books {
            files: BTreeMap::new(),
            open: Vec::new(),
            room_bytes,
            now: 0,
            cleaning_ns: 0,
            idle_step_ns: 1,
            waited: 0,
            acts: Vec::new(),
        }
    }

    fn is_open(&self, file: FileKey) -> FsResult {
        if self.open.contains(&file) { Ok(()) } else { Err(FsError::Errno(Errno::EBADF)) }
    }
}

impl Target for Books {
    fn perform(&mut self, act: Act) -> FsResult {
        self.acts.push(act);
        self.now += act.written_bytes() + act.read_bytes();
        match act {
            Act::Create(file) => {
                assert!(self.files.insert(file, 0).is_none(), "{file:?} exists");
                self.open.push(file);
            }
            Act::Open { file, .. } => {
                assert!(self.files.contains_key(&file), "{file:?} is missing");
                self.open.push(file);
            }
            Act::Append { file, bytes } => {
                self.is_open(file)?;
                self.room_bytes = self.room_bytes.checked_sub(bytes).ok_or(Errno::ENOSPC)?;
                *self.files.entry(file).or_default() += bytes;
            }
            Act::Read { file, offset, bytes } => {
                self.is_open(file)?;
                assert!(offset + bytes <= self.files[&file], "beyond the end");
            }
            Act::Close { file, .. } => {
                self.is_open(file)?;
                self.open.retain(|other| *other != file);
            }
            Act::Delete(file) => {
                let size = self.files.remove(&file).ok_or(Errno::ENOENT)?;
                self.room_bytes += size;
            }
            Act::Stat(file) => {
                self.files.get(&file).ok_or(Errno::ENOENT)?;
            }
        }
        Ok(())
    }

    fn now(&self) -> Nanos {
        Nanos(self.now)
    }

    fn rest(&mut self, until: Nanos) -> FsResult {
        let steps = until.0.saturating_sub(self.now).div_ceil(self.idle_step_ns);
        self.now += steps * self.idle_step_ns;
        Ok(())
    }

    fn background(&mut self) -> FsResult {
        self.now += self.cleaning_ns;
        self.waited += self.cleaning_ns;
        Ok(())
    }

    fn waited(&self) -> Nanos {
        Nanos(self.waited)
    }

    fn room(&self) -> FsResult<TargetRoom> {
        let live_bytes = self.files.values().sum();
        Ok(TargetRoom { free_bytes: self.room_bytes, live_bytes, ..TargetRoom::default() })
    }
}

struct Until(u64);
impl Watch for Until {
    fn stepped(&mut self, _: &mut dyn Target, written_bytes: u64) -> FsResult<bool> {
        Ok(written_bytes < self.0)
    }
}

/// Files of this many bytes, this many of them.
struct Files(u32, u64, u64);
impl Events for Files {
    fn next(&mut self) -> Option<WorkloadEvent> {
        self.2 = self.2.checked_sub(1)?;
        let file = FileKey { folder: self.0, number: self.2 };
        Some(WorkloadEvent { kind: EventKind::Create, file, bytes: self.1, counted: true })
    }

    fn kept_bytes(&self) -> u64 {
        0
    }
}

fn folders_of_appends(acts: &[Act]) -> Vec<u32> {
    acts.iter().filter_map(|act| if let Act::Append { file, .. } = act { Some(file.folder) } else { None }).collect()
}

#[test]
fn two_streams_take_turns_of_the_blocks_that_were_asked_for() {
    for (interleave, expected) in [
        (Interleave::Blocks(1), vec![1, 2, 1, 2, 1, 2, 1, 2]),
        (Interleave::Blocks(2), vec![1, 2, 1, 2]),
        (Interleave::WholeFile, vec![1, 2]),
    ] {
        let (mut books, mut until) = (Books::new(u64::MAX), Until(u64::MAX));
        let mut driver = Driver::new(&mut books, &mut until, interleave);
        let (mut main, mut other) =
            (Script::new(Files(1, 4 * BLOCK_BYTES, 1)), Script::new(Files(2, 4 * BLOCK_BYTES, 9)));
        let (record, end) = driver.beside(&mut main, &mut other, 1.0).unwrap();
        assert_eq!((end, record.written_bytes, driver.written_bytes), (End::Done, 4 * BLOCK_BYTES, 8 * BLOCK_BYTES));
        let beside = if interleave == Interleave::WholeFile { 0 } else { record.written_bytes - BLOCK_BYTES };
        assert!(record.latencies.all().max_ns >= record.written_bytes + beside, "what runs meanwhile counts");
        assert_eq!(folders_of_appends(&books.acts), expected, "{interleave:?}");
    }
}

#[test]
fn a_share_of_a_half_gives_the_other_stream_half_of_the_bytes() {
    let (mut books, mut until) = (Books::new(u64::MAX), Until(u64::MAX));
    let mut driver = Driver::new(&mut books, &mut until, Interleave::Blocks(1));
    let (mut main, mut other) =
        (Script::new(Files(1, 5 * BLOCK_BYTES, 20)), Script::new(Files(2, 3 * BLOCK_BYTES, 99)));
    driver.beside(&mut main, &mut other, 0.5).unwrap();
    assert_eq!(driver.written_bytes, 150 * BLOCK_BYTES);
}

#[test]
fn a_full_target_and_a_watcher_end_a_run_and_say_so() {
    let run = |room, until| {
        let (mut books, mut until) = (Books::new(room), Until(until));
        let mut driver = Driver::new(&mut books, &mut until, Interleave::Blocks(8));
        let end = driver
            .alone(&mut Script::new(Files(1, 3 * BLOCK_BYTES, 10)), 20 * BLOCK_BYTES, &mut Record::default())
            .unwrap();
        (end, driver.written_bytes / BLOCK_BYTES)
    };
    assert_eq!(run(u64::MAX, u64::MAX), (End::Done, 20));
    assert_eq!(run(10 * BLOCK_BYTES, u64::MAX), (End::Full, 9));
    assert_eq!(run(u64::MAX, 5 * BLOCK_BYTES), (End::Stopped, 6));
}

#[test]
fn the_ager_and_the_benchmarks_do_only_what_makes_sense() {
    use crate::age::{Ager, AgerOptions};
    use crate::bench::{Fileserver, FileserverOptions};
    use crate::bench::{Postmark, PostmarkOptions};
    let (mut books, mut until) = (Books::new(u64::MAX), Until(u64::MAX));
    let mut ager = Script::new(Ager::new(AgerOptions::new(7_000_000_000, 1), 0));
    let mut driver = Driver::new(&mut books, &mut until, Interleave::Blocks(8));
    driver.alone(&mut ager, 20_000_000_000, &mut Record::default()).unwrap();
    let mut postmark = Script::new(Postmark::new(PostmarkOptions::new(1), 1));
    let (record, _) = driver.beside(&mut postmark, &mut ager, 1.0).unwrap();
    assert_eq!(record.latencies.all().count, 10_000);
    let mut server = Script::new(Fileserver::new(FileserverOptions::new(1), 2));
    let (record, _) = driver.beside(&mut server, &mut ager, 1.0).unwrap();
    assert_eq!(EventKind::ALL.map(|kind| record.latencies.for_kind(kind).count), [3000; 5]);
    let of = |folder| books.files.iter().filter(move |file| file.0.folder == folder);
    assert_eq!((of(1).count(), of(2).count()), (0, 250));
    assert_eq!(of(2).map(|file| file.1).sum::<u64>(), server.events.kept_bytes());
}

#[test]
fn reads_and_writes_take_the_time_spent_in_each() {
    use crate::bench::{Fileserver, FileserverOptions};
    let (mut books, mut until) = (Books::new(u64::MAX), Until(u64::MAX));
    let mut driver = Driver::new(&mut books, &mut until, Interleave::Blocks(8));
    let mut server = Script::new(Fileserver::new(FileserverOptions::new(1), 1));
    let (record, _) = driver.beside(&mut server, &mut Script::new(Files(2, 1, 0)), 0.0).unwrap();
    // Books take a nanosecond for each byte.
    assert_eq!([record.writing.0, record.reading.0], [record.written_bytes, record.read_bytes]);
    assert!(record.read_bytes > 0 && record.read_bytes != record.written_bytes);
}

#[test]
fn cleaning_delays_the_act_that_comes_next() {
    let (mut books, mut until) = (Books::new(u64::MAX), Until(u64::MAX));
    books.cleaning_ns = 7;
    let mut driver = Driver::new(&mut books, &mut until, Interleave::Blocks(1));
    let mut record = Record::default();
    driver.alone(&mut Script::new(Files(1, BLOCK_BYTES, 3)), u64::MAX, &mut record).unwrap();
    // Three acts a file: what follows the first two delays the same file, what follows the last the next one.
    assert_eq!((record.delay, record.delayed, record.longest_delay), (Nanos(14 + 21 + 21), 3, Nanos(21)));
    assert_eq!(record.busy, Nanos(3 * BLOCK_BYTES) + record.delay);
    assert_eq!(record.latencies.all().max_ns, BLOCK_BYTES + 21);
}

#[test]
fn rests_follow_the_bytes_written_and_belong_to_no_event() {
    let (mut books, mut until) = (Books::new(u64::MAX), Until(u64::MAX));
    let rests = Rests { every_bytes: 2 * BLOCK_BYTES, pause: Nanos(3_000_000_000) };
    let mut driver = Driver::new(&mut books, &mut until, Interleave::Blocks(1)).rest(Some(rests));
    let mut record = Record::default();
    driver.alone(&mut Script::new(Files(1, BLOCK_BYTES, 9)), u64::MAX, &mut record).unwrap();
    assert_eq!(record.busy, Nanos(9 * BLOCK_BYTES));
    assert_eq!(books.now(), record.busy + Nanos(4 * 3_000_000_000));
}

#[test]
fn a_step_past_the_end_of_a_rest_delays_the_next_event_once() {
    let (mut books, mut until) = (Books::new(u64::MAX), Until(u64::MAX));
    // Two steps take a rest of a second to 1.2 s; the watcher looks every quarter of a second.
    books.idle_step_ns = 600_000_000;
    let rests = Rests { every_bytes: BLOCK_BYTES, pause: Nanos(1_000_000_000) };
    let mut driver = Driver::new(&mut books, &mut until, Interleave::Blocks(1)).rest(Some(rests));
    let mut record = Record::default();
    driver.alone(&mut Script::new(Files(1, BLOCK_BYTES, 3)), u64::MAX, &mut record).unwrap();
    assert_eq!((record.delay, record.delayed), (Nanos(400_000_000), 2));
}

struct Few(Vec<WorkloadEvent>);
impl Events for Few {
    fn next(&mut self) -> Option<WorkloadEvent> {
        self.0.pop()
    }

    fn kept_bytes(&self) -> u64 {
        0
    }
}

#[test]
fn an_event_is_cut_into_acts_that_add_up() {
    let file = FileKey { folder: 1, number: 7 };
    let event = |kind, bytes| WorkloadEvent { kind, file, bytes, counted: true };
    let mut script = Script::new(Few(vec![event(EventKind::Delete, 0), event(EventKind::Create, 25)]));
    let mut acts = Vec::new();
    while let Some(step) = script.next(10) {
        acts.push((step.act, step.ends));
    }
    let append = |bytes| (Act::Append { file, bytes }, false);
    let close = (Act::Close { file, writing: true }, true);
    let expected = [(Act::Create(file), false), append(10), append(10), append(5), close, (Act::Delete(file), true)];
    assert_eq!(acts, expected);
}

#[test]
fn ranks_are_the_nearest() {
    let mut latencies = EventLatencies::default();
    (1..=200).rev().for_each(|n| latencies.record(EventKind::Read, Nanos(n)));
    let all = LatencySummary { count: 200, mean_ns: 100, p50_ns: 100, p99_ns: 198, max_ns: 200 };
    assert_eq!((latencies.for_kind(EventKind::Read), latencies.all()), (all, all));
    assert_eq!(latencies.for_kind(EventKind::Stat), LatencySummary::default());
}
