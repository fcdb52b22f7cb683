//! The process behind a mount is killed while programs write: everything synchronized is there, and the check is content.
//!
//! The image lies in the page cache of a system that runs on: a power cut loses more (`crates/smrfs/tests`).

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Bench, MODELS, signal};
use crate::count::count_from;

/// Kills a model, unless SMRKIT_KILLS says otherwise.
const KILLS: u64 = 12;
const FILES: u64 = 6;
const PIECE: usize = 4096;
const PIECES: u64 = 300;

/// Contents that each piece of a file may have: those at the last fsync, and all that was written since.
#[derive(Default)]
struct Books {
    files: BTreeMap<u64, BTreeMap<u64, Vec<u64>>>,
}

impl Books {
    fn written(&mut self, file: u64, piece: u64, stamp: u64) {
        self.files.entry(file).or_default().entry(piece).or_insert_with(|| vec![0]).push(stamp);
    }

    /// The last stamp that a piece got.
    fn newest(&self, file: u64, piece: u64) -> u64 {
        let stamps = self.files.get(&file).and_then(|pieces| pieces.get(&piece));
        stamps.and_then(|stamps| stamps.last().copied()).unwrap_or(0)
    }

    fn synced(&mut self, file: u64) {
        for stamps in self.files.entry(file).or_default().values_mut() {
            stamps.drain(..stamps.len() - 1);
        }
    }
}

/// A piece that says who wrote it, all over; 0 is a hole.
fn piece(stamp: u64) -> [u8; PIECE] {
    let mut piece = [0; PIECE];
    piece.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&stamp.to_le_bytes()));
    piece
}

/// Writes and synchronizes until the mount fails.
fn write_until_killed(bench: &Bench, books: &mut Books, random: &mut Pcg64Mcg, stamp: &mut u64) -> io::Error {
    loop {
        if let Err(error) = write_once(bench, books, random, stamp) {
            return error;
        }
    }
}

fn write_once(bench: &Bench, books: &mut Books, random: &mut Pcg64Mcg, stamp: &mut u64) -> io::Result<()> {
    let number = random.random_range(0..FILES);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(bench.file(&number.to_string()))?;
    for _ in 0..random.random_range(1..8) {
        let first = random.random_range(0..PIECES);
        let count = random.random_range(1..=(PIECES - first).min(20));
        *stamp += 1;
        let content: Vec<u8> = piece(*stamp).repeat(count as usize);
        for at in first..first + count {
            books.written(number, at, *stamp);
        }
        file.write_all_at(&content, first * PIECE as u64)?;
    }
    if random.random_ratio(1, 4) {
        share(bench, books, random, number, &file)?;
    }
    if random.random_ratio(2, 3) {
        file.sync_all()?;
        books.synced(number);
    }
    Ok(())
}

/// Copies pieces of another file, which the two then share.
fn share(bench: &Bench, books: &mut Books, random: &mut Pcg64Mcg, number: u64, to: &File) -> io::Result<()> {
    let other = (number + random.random_range(1..FILES)) % FILES;
    let Ok(mut from) = File::open(bench.file(&other.to_string())) else { return Ok(()) };
    let pieces = from.metadata()?.len() / PIECE as u64;
    if pieces == 0 {
        return Ok(());
    }
    let first = random.random_range(0..pieces);
    let count = random.random_range(1..=pieces - first);
    let place = random.random_range(0..=PIECES - count);
    for piece in 0..count {
        books.written(number, place + piece, books.newest(other, first + piece));
    }
    from.seek(SeekFrom::Start(first * PIECE as u64))?;
    (&*to).seek(SeekFrom::Start(place * PIECE as u64))?;
    let copied = io::copy(&mut from.take(count * PIECE as u64), &mut &*to)?;
    assert_eq!(copied, count * PIECE as u64, "of file {other}");
    Ok(())
}

/// Everything that is there may be there; it becomes what must be there.
fn verify(bench: &Bench, books: &mut Books, round: u64) {
    for (number, pieces) in &mut books.files {
        let file = File::open(bench.file(&number.to_string()));
        for (at, stamps) in pieces {
            let mut found = [0; PIECE];
            let count = file.as_ref().map_or(0, |file| file.read_at(&mut found, at * PIECE as u64).expect("a read"));
            let stamp = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
            assert!(count == 0 || count == PIECE, "round {round}, file {number}, piece {at}: {count} bytes");
            assert!(found == piece(stamp), "round {round}, file {number}, piece {at}: torn");
            assert!(stamps.contains(&stamp), "round {round}, file {number}, piece {at}: {stamp}, not of {stamps:?}");
            *stamps = vec![stamp];
        }
    }
}

#[test]
fn what_was_synchronized_survives_a_kill() {
    let kills = count_from("SMRKIT_KILLS", KILLS);
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        let (mut books, mut random, mut stamp) = (Books::default(), Pcg64Mcg::seed_from_u64(7), 0);
        for round in 0..kills {
            bench.mount().done();
            verify(&bench, &mut books, round);
            let process = bench.process();
            let delay = Duration::from_millis(random.random_range(1..150));
            let is_killed = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(delay);
                    is_killed.store(true, Ordering::SeqCst);
                    signal(process, "KILL");
                });
                let error = write_until_killed(&bench, &mut books, &mut random, &mut stamp);
                assert!(is_killed.load(Ordering::SeqCst), "round {round}: {error} before the kill");
            });
            bench.umount().done();
            // A crash leaves nothing to repair: what was not finished is ignored.
            bench.is_in_order();
        }
        bench.mount().done();
        verify(&bench, &mut books, kills);
        bench.umount().done();
    }
}

#[test]
fn the_books_notice_a_loss() {
    let mut books = Books::default();
    books.written(1, 5, 10);
    assert_eq!(books.files[&1][&5], [0, 10]);
    books.synced(1);
    assert_eq!(books.files[&1][&5], [10]);
    books.written(1, 5, 11);
    assert_eq!(books.files[&1][&5], [10, 11]);
}
