//! Turns, measures and ends, on a target that only keeps books.

use super::*;
use crate::workload::books::Books;
use crate::workload::{Act, EventKind, FileKey, WorkloadEvent};

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
    for (interleave, name, expected) in [
        (Interleave::Blocks(1), "1 block", vec![1, 2, 1, 2, 1, 2, 1, 2]),
        (Interleave::Blocks(2), "2 blocks", vec![1, 2, 1, 2]),
        (Interleave::WholeFile, "whole file", vec![1, 2]),
    ] {
        assert_eq!(interleave.name(), name);
        let (mut books, mut until) = (Books::new(u64::MAX), Until(u64::MAX));
        let mut driver = Driver::new(&mut books, &mut until, interleave);
        let (mut main, mut other) =
            (Script::new(Files(1, 4 * BLOCK_BYTES, 1)), Script::new(Files(2, 4 * BLOCK_BYTES, 9)));
        let (record, end) = driver.beside(&mut main, &mut other, 1.0).unwrap();
        assert_eq!((end, record.written_bytes, driver.written_bytes()), (End::Done, 4 * BLOCK_BYTES, 8 * BLOCK_BYTES));
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
    assert_eq!(driver.written_bytes(), 150 * BLOCK_BYTES);
}

#[test]
fn a_full_target_and_a_watcher_end_a_run_and_say_so() {
    let run = |room, until| {
        let (mut books, mut until) = (Books::new(room), Until(until));
        let mut driver = Driver::new(&mut books, &mut until, Interleave::Blocks(8));
        let end = driver
            .alone(&mut Script::new(Files(1, 3 * BLOCK_BYTES, 10)), 20 * BLOCK_BYTES, &mut Record::default())
            .unwrap();
        (end, driver.written_bytes() / BLOCK_BYTES)
    };
    assert_eq!(run(u64::MAX, u64::MAX), (End::Done, 20));
    assert_eq!(run(10 * BLOCK_BYTES, u64::MAX), (End::Full, 9));
    assert_eq!(run(u64::MAX, 5 * BLOCK_BYTES), (End::Stopped, 6));
}

#[test]
fn the_ager_and_the_benchmarks_do_only_what_makes_sense() {
    use crate::age::ager::{Ager, AgerOptions};
    use crate::bench::fileserver::{Fileserver, FileserverOptions};
    use crate::bench::postmark::{Postmark, PostmarkOptions};
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
    assert_eq!(of(2).map(|file| file.1).sum::<u64>(), server.events().kept_bytes());
}

#[test]
fn reads_and_writes_take_the_time_spent_in_each() {
    use crate::bench::fileserver::{Fileserver, FileserverOptions};
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
