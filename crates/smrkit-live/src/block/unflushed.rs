//! What is not durable yet: writes in a volatile cache, what flushed data they replaced, and the host's sync that makes an image durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use smrkit::units::SECTOR_BYTES;

use super::control::{WakingReceiver, waking_channel};
use super::image::{DriveImage, Storage};

const SECTOR: usize = SECTOR_BYTES as usize;
/// Sectors of a write from the write cache at most: 1 MiB (assumption).
const RUN_SECTORS: usize = 2048;
/// Bytes of what writes replaced that are kept for a power cut; what is older counts as durable, as in a drive's cache (assumption).
const UNDO_BYTES: usize = 64 << 20;

/// What writes since the last flush have replaced in the image.
#[derive(Default)]
pub(super) struct UndoLog {
    writes: VecDeque<UndoneWrite>,
    bytes: usize,
}

struct UndoneWrite {
    sectors: Range<u64>,
    /// The bytes before it; none of a write that is too long to be undone.
    before: Option<Vec<u8>>,
}

impl UndoLog {
    pub fn remember(&mut self, image: &DriveImage, sectors: Range<u64>) -> io::Result<()> {
        let bytes = ((sectors.end - sectors.start) * SECTOR_BYTES) as usize;
        let before = match bytes <= UNDO_BYTES / 4 {
            true => {
                let mut before = vec![0; bytes];
                image.storage().read(sectors.start * SECTOR_BYTES, &mut before)?;
                self.bytes += bytes;
                Some(before)
            }
            false => None,
        };
        self.writes.push_back(UndoneWrite { sectors, before });
        while self.bytes > UNDO_BYTES
            && let Some(oldest) = self.writes.pop_front()
        {
            self.bytes -= oldest.before.map_or(0, |before| before.len());
        }
        Ok(())
    }

    pub fn clear(&mut self) {
        self.writes.clear();
        self.bytes = 0;
    }

    /// Sectors with their contents when a random part of the writes had not been made. A later write that was made stays, whatever becomes
    /// of earlier ones to the same sectors.
    pub fn undo(&mut self, random: &mut Pcg64Mcg) -> BTreeMap<u64, Vec<u8>> {
        let (mut undone, mut kept) = (BTreeMap::new(), BTreeSet::new());
        for UndoneWrite { sectors, before } in std::mem::take(&mut self.writes).into_iter().rev() {
            let n = sectors.end - sectors.start;
            let made = match (&before, random.random_range(0..3)) {
                (None, _) | (_, 0) => n,
                (_, 1) => 0,
                _ => random.random_range(0..=n),
            };
            let before = before.unwrap_or_default();
            for (lba, sector) in sectors.clone().zip(before.chunks_exact(SECTOR)).skip(made as usize) {
                if !kept.contains(&lba) {
                    undone.insert(lba, sector.to_vec());
                }
            }
            for lba in sectors.start..sectors.start + made {
                // Where a later one was undone, this one is what was there before it, and is what stays.
                kept.insert(lba);
            }
        }
        self.bytes = 0;
        undone
    }
}

/// A volatile write cache above the layer: writes that were not flushed, in memory and unordered. A power cut and a kill lose them.
///
/// A write completes at once and takes no time of the drive's; writing it back does.
#[derive(Default)]
pub(super) struct WriteCache {
    /// Sectors that it holds at most; 0 is none.
    pub room: usize,
    pub sectors: BTreeMap<u64, Box<[u8; SECTOR]>>,
}

impl WriteCache {
    pub fn is_full(&self) -> bool {
        self.sectors.len() >= self.room
    }

    pub fn insert(&mut self, lba: u64, bytes: &[u8]) {
        for (lba, sector) in (lba..).zip(bytes.as_chunks().0) {
            self.sectors.insert(lba, Box::new(*sector));
        }
    }

    pub fn remove(&mut self, range: Range<u64>) {
        for lba in self.sectors.range(range).map(|(lba, _)| *lba).collect::<Vec<_>>() {
            self.sectors.remove(&lba);
        }
    }

    /// Puts what it holds of the sectors in `range` over `bytes`, read from there.
    pub fn overlay(&self, range: Range<u64>, bytes: &mut [u8]) {
        let first = range.start;
        for (lba, sector) in self.sectors.range(range) {
            let at = (lba - first) as usize * SECTOR;
            bytes[at..at + SECTOR].copy_from_slice(&sector[..]);
        }
    }

    /// Takes out the sectors that `pick` names, as runs to be written: the first LBA of each, and its bytes.
    pub fn take(&mut self, mut pick: impl FnMut(u64) -> bool) -> Vec<(u64, Vec<u8>)> {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for lba in self.sectors.keys().copied().filter(|&lba| pick(lba)).collect::<Vec<_>>() {
            let Some(sector) = self.sectors.remove(&lba) else { continue };
            match runs.last_mut() {
                Some((first, bytes))
                    if *first + (bytes.len() / SECTOR) as u64 == lba && bytes.len() < RUN_SECTORS * SECTOR =>
                {
                    bytes.extend_from_slice(&sector[..]);
                }
                _ => runs.push((lba, sector.to_vec())),
            }
        }
        runs
    }
}

/// Makes the image durable on a thread of its own, so that the drive's time need not wait for the host's disk.
pub(super) struct Syncer {
    /// None once it ends.
    asked: Option<Sender<u64>>,
    done: WakingReceiver<(u64, io::Result<()>)>,
    thread: Option<JoinHandle<()>>,
    /// Syncs that were asked for so far, and how many of them are done.
    begun: u64,
    ended: u64,
}

impl Syncer {
    pub fn new(storage: Arc<dyn Storage>) -> io::Result<Syncer> {
        let (asked, asks) = mpsc::channel();
        let (answers, done) = waking_channel()?;
        let thread = thread::Builder::new().name("sync".into()).spawn(move || {
            while let Ok(first) = asks.recv() {
                // One sync is enough for all who asked before it begins.
                let last = asks.try_iter().last().unwrap_or(first);
                answers.send((last, storage.sync()));
            }
        })?;
        Ok(Syncer { asked: Some(asked), done, thread: Some(thread), begun: 0, ended: 0 })
    }

    /// Asks for what was written so far to become durable; the number of this sync.
    pub fn begin(&mut self) -> u64 {
        self.begun += 1;
        if let Some(asked) = &self.asked {
            let _ = asked.send(self.begun);
        }
        self.begun
    }

    /// True once a sync is done.
    pub fn is_done(&self, number: u64) -> bool {
        number <= self.ended
    }

    /// Takes note of the syncs that are done; where none is and `waits` is true, waits for one. Errors: one failed.
    pub fn receive(&mut self, waits: bool) -> io::Result<()> {
        let mut done: Vec<_> = self.done.receive().collect();
        if waits && done.is_empty() {
            done.extend(self.done.wait());
        }
        for (number, result) in done {
            self.ended = number;
            result?;
        }
        Ok(())
    }
}

/// Ready to be read once a sync is done.
impl AsFd for Syncer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}

impl Drop for Syncer {
    /// The thread holds the image open, and with it the lock on it.
    fn drop(&mut self) {
        drop(self.asked.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// A byte that tells sectors and writes apart.
    fn bytes(lba: u64, sectors: u64, stamp: u64) -> Vec<u8> {
        (lba..lba + sectors).flat_map(|lba| [(31 * stamp + 7 * lba) as u8; SECTOR]).collect()
    }

    #[test]
    fn it_holds_what_a_map_of_sectors_would() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let (mut cache, mut model) = (WriteCache { room: 30, ..WriteCache::default() }, BTreeMap::new());
        for stamp in 0..2000 {
            let (lba, sectors) = (random.random_range(0..60u64), random.random_range(1..8u64));
            let range = lba..lba + sectors;
            match random.random_range(0..8) {
                0 => {
                    cache.remove(range.clone());
                    model.retain(|lba, _| !range.contains(lba));
                }
                1 => {
                    let taken = cache.take(|lba| range.contains(&lba));
                    let runs: Vec<u64> = taken.iter().map(|run| run.0).collect();
                    let begins =
                        |lba: &u64| range.contains(lba) && (*lba == range.start || !model.contains_key(&(lba - 1)));
                    assert_eq!(runs, model.keys().copied().filter(begins).collect::<Vec<u64>>());
                    let taken: Vec<u8> = taken.into_iter().flat_map(|run| run.1).collect();
                    let held: Vec<u8> = model.range(range.clone()).flat_map(|(_, byte)| [*byte; SECTOR]).collect();
                    assert!(taken == held, "{range:?}");
                    model.retain(|lba, _| !range.contains(lba));
                }
                2 if random.random_bool(0.05) => {
                    cache.sectors.clear();
                    model.clear();
                }
                _ => {
                    let written = bytes(lba, sectors, stamp);
                    cache.insert(lba, &written);
                    model.extend(range.clone().zip(written.chunks(SECTOR).map(|sector| sector[0])));
                }
            }
            assert_eq!(cache.is_full(), model.len() >= 30);
            assert!(cache.sectors.keys().eq(model.keys()));
            let mut read = vec![1; SECTOR * sectors as usize];
            cache.overlay(range.clone(), &mut read);
            let expected: Vec<u8> = range.flat_map(|lba| [*model.get(&lba).unwrap_or(&1); SECTOR]).collect();
            assert!(read == expected, "after write {stamp}");
        }
    }

    #[test]
    fn a_long_run_is_taken_out_in_pieces() {
        let mut cache = WriteCache { room: 10_000, ..WriteCache::default() };
        cache.insert(5, &bytes(5, 5000, 1));
        let runs: Vec<_> = cache.take(|_| true).iter().map(|(lba, bytes)| (*lba, bytes.len() / SECTOR)).collect();
        assert_eq!(runs, [(5, 2048), (2053, 2048), (4101, 904)]);
    }
}
