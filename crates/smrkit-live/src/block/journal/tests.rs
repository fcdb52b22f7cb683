//! Journals: what they hold, wherever a crash cuts them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rand::RngExt;
use rand::SeedableRng;

use super::*;

const IMAGE: usize = 4096;

/// An image that was `base`, with what a journal holds.
fn image(journal: &Journal, base: &[u8]) -> Vec<u8> {
    let mut image = base.to_vec();
    for (range, source) in journal.parts().iter() {
        let bytes = range.start as usize..range.end as usize;
        match *source {
            Source::Image(at) => image[bytes.clone()].copy_from_slice(&base[at as usize..][..bytes.len()]),
            Source::Journal(at) => journal.read(at, &mut image[bytes]).unwrap(),
            Source::Hole => image[bytes].fill(0),
            Source::Destroyed => image[bytes].fill(0xDB),
            Source::Memory(..) => unreachable!("memory is no place in a journal"),
        }
    }
    image
}

fn open(file: &File) -> Journal {
    Journal::open(Arc::new(file.try_clone().unwrap()), FULL_BYTES, 0..IMAGE as u64, 1).unwrap()
}

fn opened(file: &File) -> (Journal, Vec<u8>) {
    let journal = open(file);
    let image = image(&journal, &[0; IMAGE]);
    (journal, image)
}

#[test]
fn what_was_written_last_is_read_wherever_changes_overlap() {
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    let file = tempfile::tempfile().unwrap();
    let mut journal = open(&file);
    let base: Vec<u8> = (0..IMAGE).map(|at| (at * 31 / 8) as u8).collect();
    let mut expected = base.clone();
    for fill in 0..2000u32 {
        let start = random.random_range(0..IMAGE - 1);
        let end = random.random_range(start + 1..=IMAGE.min(start + 500));
        let range = start as u64..end as u64;
        let from = random.random_range(0..=IMAGE - (end - start));
        match fill % 5 {
            0 => {
                journal.add_from(range, Source::Hole).unwrap();
                expected[start..end].fill(0);
            }
            1 => {
                journal.add_from(range, Source::Destroyed).unwrap();
                expected[start..end].fill(0xDB);
            }
            2 => {
                journal.add_from(range, Source::Image(from as u64)).unwrap();
                expected[start..end].copy_from_slice(&base[from..from + end - start]);
            }
            3 => {
                let copied = journal.parts().iter().find_map(|(own, source)| match source {
                    Source::Journal(at) => Some((own, *at)),
                    _ => None,
                });
                let Some((own, at)) = copied else { continue };
                let n = (end - start).min((own.end - own.start) as usize);
                let bytes = expected[own.start as usize..][..n].to_vec();
                journal.add_from(start as u64..(start + n) as u64, Source::Journal(at)).unwrap();
                expected[start..start + n].copy_from_slice(&bytes);
            }
            _ => {
                // No byte is like the ones next to it, so that a part read at a wrong place shows.
                let bytes: Vec<u8> = (start..end).map(|at| (fill as usize * 7 + at) as u8).collect();
                journal.add(start as u64, &bytes).unwrap();
                expected[start..end].copy_from_slice(&bytes);
            }
        }
        assert!(image(&journal, &base) == expected, "after change {fill}");
    }
    journal.sync().unwrap();
    assert!(image(&open(&file), &base) == expected);
}

#[test]
fn a_crash_leaves_a_beginning_of_what_was_written() {
    let file = tempfile::tempfile().unwrap();
    let (mut journal, _) = opened(&file);
    for fill in 1..=9u8 {
        journal.add(u64::from(fill), &[fill; 100]).unwrap();
    }
    journal.sync().unwrap();
    let whole = file.metadata().unwrap().len();
    let record = whole / 9;
    for cut in [whole, whole - 1, whole - record, whole - record - 1, record - 1, 0] {
        file.set_len(cut).unwrap();
        let (_, image) = opened(&file);
        let last = image.iter().max().copied().unwrap_or_default();
        assert_eq!(u64::from(last), cut / record, "cut at byte {cut}");
        assert_eq!(file.metadata().unwrap().len(), cut / record * record, "what is not whole is gone");
    }
}

#[test]
fn a_damaged_record_ends_what_is_believed() {
    let file = tempfile::tempfile().unwrap();
    let (mut journal, _) = opened(&file);
    (1..=5u8).for_each(|fill| journal.add(u64::from(fill), &[fill; 100]).unwrap());
    journal.sync().unwrap();
    let record = file.metadata().unwrap().len() / 5;
    file.write_all_at(&[77], 3 * record + HEAD_BYTES as u64 + 50).unwrap();
    assert_eq!(opened(&file).1.iter().max(), Some(&3));
}

#[test]
fn records_of_an_earlier_round_are_not_taken_for_later_ones() {
    let file = tempfile::tempfile().unwrap();
    let (mut journal, _) = opened(&file);
    (1..=5u8).for_each(|fill| journal.add(u64::from(fill), &[fill; 100]).unwrap());
    journal.sync().unwrap();
    let mut old = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut old, 0).unwrap();
    journal.restart().unwrap();
    journal.add(0, &[9; 100]).unwrap();
    journal.sync().unwrap();
    // The host lost the new length of the file, and with it the end of the earlier round came back.
    let record = old.len() / 5;
    file.write_all_at(&old[record..], record as u64).unwrap();
    let (_, image) = opened(&file);
    assert_eq!((image[0], image.iter().filter(|byte| **byte != 9).max()), (9, Some(&0)));
}

#[test]
fn a_change_is_believed_that_an_image_can_have() {
    let own = 4096..8192;
    let change = |mark, offset, bytes, words, number| {
        let record = Record { number, offset, mark, bytes, words };
        record.change(1000, &own).map(|(range, source)| match source {
            Source::Image(at) => (range, "image", at),
            Source::Journal(at) => (range, "journal", at),
            Source::Hole => (range, "hole", 0),
            Source::Destroyed => (range, "destroyed", 0),
            Source::Memory(..) => unreachable!("memory is no place in a journal"),
        })
    };
    let data = |offset, bytes| change(0, offset, bytes, [9; 3], 1);
    assert_eq!(data(4096, 4096), Some((4096..8192, "journal", 1024)));
    assert_eq!([data(4095, 10), data(8000, 193), data(u64::MAX, 2)], [None, None, None]);
    let last = [NUMBER_MAX - 1, NUMBER_MAX].map(|number| change(0, 5000, 1, [0; 3], number).is_some());
    assert_eq!(last, [true, false]);
    let moved = |words| change(MOVES, 5000, MOVE_BYTES, words, 1);
    assert_eq!(moved([10, HOLE, 0]), Some((5000..5010, "hole", 0)));
    assert_eq!(moved([10, DESTROYED, 0]), Some((5000..5010, "destroyed", 0)));
    assert_eq!(moved([10, FROM_IMAGE, 4096]), Some((5000..5010, "image", 4096)));
    assert_eq!(moved([10, FROM_IMAGE, 8182]), Some((5000..5010, "image", 8182)));
    assert_eq!(moved([10, FROM_JOURNAL, 990]), Some((5000..5010, "journal", 990)));
    for wrong in [
        [10, HOLE, 1],
        [10, DESTROYED, 1],
        [10, FROM_IMAGE, 4095],
        [10, FROM_IMAGE, 8183],
        [10, FROM_JOURNAL, 991],
        [10, FROM_JOURNAL, u64::MAX],
        [10, 4, 0],
        [4000, HOLE, 0],
    ] {
        assert_eq!(moved(wrong), None, "{wrong:?}");
    }
    assert_eq!(change(MOVES, 5000, MOVE_BYTES + 8, [10, HOLE, 0], 1), None);
}

#[test]
fn a_journal_is_full_of_bytes_or_of_parts() {
    let file = tempfile::tempfile().unwrap();
    let head = HEAD_BYTES as u64;
    let mut journal = Journal::open(Arc::new(file.try_clone().unwrap()), 2 * (head + 100), 0..IMAGE as u64, 1).unwrap();
    assert!(!journal.is_full() && journal.is_synced);
    journal.add(0, &[1; 100]).unwrap();
    assert!(!journal.is_full() && !journal.is_synced);
    journal.add(200, &[1; 100]).unwrap();
    assert!(journal.is_full());
    assert_eq!((journal.end(), journal.written, file.metadata().unwrap().len()), (2 * (head + 100), 0, 0));
    journal.sync().unwrap();
    assert_eq!((journal.written, journal.is_synced), (2 * (head + 100), true));
    // What is as the image has it already is not noted.
    journal.add_from(1000..1100, Source::Image(1000)).unwrap();
    assert_eq!(journal.end(), 2 * (head + 100));
    journal.add_from(50..60, Source::Image(50)).unwrap();
    assert_eq!((journal.end(), journal.parts().len()), (3 * head + 224, 3));
    journal.restart().unwrap();
    assert!(!journal.is_full() && journal.is_synced && file.metadata().unwrap().len() == 0);
    // Long writes go to the file at once, with what gathered before them.
    journal.add(0, &[2; 10]).unwrap();
    journal.add(0, &vec![3; BUFFER_BYTES / 2]).unwrap();
    assert_eq!((journal.buffer.len(), journal.written), (2 * HEAD_BYTES + 10 + BUFFER_BYTES / 2, 0));
    journal.add(0, &vec![4; BUFFER_BYTES / 2 + 1]).unwrap();
    assert_eq!(journal.buffer.len(), 0);
    assert_eq!(journal.written, 3 * head + 11 + BUFFER_BYTES as u64);
}
