//! The life of a disk: filled to the last granule that statfs tells of, emptied, refilled, overwritten at random.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::Data;
use smrfs::device::Shape;
use smrfs::error::Errno;
use smrfs::fs::statistics::Statistics;
use smrfs::units::{GRANULE_BYTES, NodeId};

use crate::common::{FILE, MIB, Rig};

/// Files that are kept open at a time, at most; where there are more, each is opened for each write.
const MOST_OPEN: usize = 64;

/// When data becomes durable, besides what cleaning asks for.
#[derive(Clone, Copy, Debug)]
pub enum Commits {
    /// Never.
    Never,
    /// Everything, each time that this many bytes have been written.
    Timer(u64),
    /// One of this many writes is followed by an fsync.
    Each(u64),
}

/// Cost of random overwriting.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Written / written for hosts, in the last two thirds.
    pub amplification: f64,
    /// The most that was moved for one write, in MiB.
    pub most_mib: f64,
}

struct File {
    id: NodeId,
    number: u64,
    bytes: u64,
}

/// A disk and its files.
pub struct Life {
    pub commits: Commits,
    /// True if a file is deleted and made anew instead of being overwritten.
    pub replaces: bool,
    rig: Rig,
    about: String,
    sizes: Range<u64>,
    pieces: Range<u64>,
    files: Vec<File>,
    /// Behind each file, the bytes of all up to it.
    ends: Vec<u64>,
    next: u64,
    uncommitted: u64,
    random: Pcg64Mcg,
}

impl Life {
    /// An empty disk, to be filled with files of `sizes` bytes and overwritten in `pieces` of bytes.
    pub fn new(shape: Shape, about: &str, sizes: Range<u64>, pieces: Range<u64>) -> Life {
        let size = shape.granules * GRANULE_BYTES / MIB;
        Life {
            commits: Commits::Timer(64 * MIB),
            replaces: false,
            about: format!("{:?}, {size} MiB, {about}", shape.model),
            rig: Rig::plain(shape, true),
            sizes,
            pieces,
            files: Vec::new(),
            ends: Vec::new(),
            next: 0,
            uncommitted: 0,
            random: Pcg64Mcg::seed_from_u64(7),
        }
    }

    /// Fills the disk, deletes all, refills it, deletes half, refills it; then overwrites it at each of the `shares`, percent
    /// of what files can fill, `times` its size.
    pub fn overwritten(&mut self, shares: &[u64], times: f64) -> Vec<Cost> {
        self.fill(100);
        self.refuses_more();
        self.empty(0);
        self.fill(100);
        self.empty(50);
        self.fill(100);
        self.refuses_more();
        self.rig.check();
        let costs = shares.iter().map(|&share| self.at(share, times)).collect();
        self.rig.remount(false);
        self.rig.check();
        self.empty(0);
        self.rig.fs.sync_all().unwrap();
        let usage = self.rig.fs.usage().unwrap();
        assert_eq!((usage.live, usage.promised, usage.free), (0, 0, usage.usable));
        self.rig.check();
        costs
    }

    fn at(&mut self, share: u64, times: f64) -> Cost {
        self.empty(share);
        self.fill(share);
        // The counters begin anew.
        self.rig.remount(true);
        let capacity = (self.rig.shape.granules * GRANULE_BYTES) as f64;
        self.hold(true);
        self.overwrite((capacity * times / 3.0) as u64);
        let before = self.rig.fs.statistics();
        self.overwrite((capacity * times * 2.0 / 3.0) as u64);
        let after = self.rig.fs.statistics();
        self.hold(false);
        self.rig.check();
        let cost = cost(&before, &after);
        println!(
            "{}, {:?}: at {share} % of usable ({:.1} % of raw): amplification {:.2}, at most {:.1} MiB moved for a write, {} writes waited",
            self.about,
            self.commits,
            self.rig.usable_bytes() as f64 * 100.0 / capacity,
            cost.amplification,
            cost.most_mib,
            after.stalls,
        );
        cost
    }

    /// Files are made until they fill that share of what is usable, to the granule.
    fn fill(&mut self, percent: u64) {
        let usage = self.rig.fs.usage().unwrap();
        let mut left = (usage.usable * percent / 100).saturating_sub(usage.live + usage.promised) * GRANULE_BYTES;
        while left > 0 {
            let bytes = size(&mut self.random, &self.sizes).min(left);
            self.make(bytes);
            left -= bytes.next_multiple_of(GRANULE_BYTES).min(left);
        }
        if percent == 100 {
            assert_eq!(self.rig.fs.usage().unwrap().free, 0);
        }
        self.count_up();
    }

    fn make(&mut self, bytes: u64) {
        let fs = &self.rig.fs;
        let id = fs.make(fs.root(), self.next.to_string().as_bytes(), &FILE).unwrap().id;
        fs.forget(id, 1);
        fs.open(id, true, false).unwrap();
        for at in (0..bytes).step_by(MIB as usize) {
            self.write(id, at, MIB.min(bytes - at));
        }
        self.rig.fs.release(id, true).unwrap();
        self.files.push(File { id, number: self.next, bytes });
        self.next += 1;
    }

    fn write(&mut self, id: NodeId, at: u64, bytes: u64) {
        let fs = &self.rig.fs;
        if let Err(error) = fs.write(id, at, Data::Blank(bytes)) {
            panic!("{}: {error}: {:?}, {:?}", self.about, fs.usage(), fs.statistics());
        }
        self.uncommitted += bytes;
        match self.commits {
            Commits::Timer(most) if self.uncommitted >= most => {
                fs.sync_all().unwrap();
                self.uncommitted = 0;
            }
            Commits::Each(one_of) if self.random.random_range(0..one_of) == 0 => fs.sync(id).unwrap(),
            _ => {}
        }
    }

    /// Another granule is too much, and changes nothing.
    fn refuses_more(&self) {
        let fs = &self.rig.fs;
        let id = fs.make(fs.root(), b"more", &FILE).unwrap().id;
        fs.forget(id, 1);
        assert_eq!(fs.write(id, 0, Data::Blank(1)).unwrap_err().errno(), Errno::ENOSPC);
        assert_eq!(fs.attributes(id).unwrap().size, 0);
        fs.unlink(fs.root(), b"more").unwrap();
    }

    /// Files are deleted at random until no more than that share is filled.
    fn empty(&mut self, percent: u64) {
        loop {
            let usage = self.rig.fs.usage().unwrap();
            if self.files.is_empty() || usage.live + usage.promised <= usage.usable * percent / 100 {
                break;
            }
            let chosen = self.random.random_range(0..self.files.len());
            let file = self.files.swap_remove(chosen);
            self.rig.fs.unlink(self.rig.fs.root(), file.number.to_string().as_bytes()).unwrap();
        }
        self.count_up();
    }

    fn count_up(&mut self) {
        let mut sum = 0;
        self.ends = self.files.iter().map(|file| (sum + file.bytes, sum += file.bytes).0).collect();
    }

    fn hold(&self, open: bool) {
        for file in self.files.iter().filter(|_| self.files.len() <= MOST_OPEN) {
            if open {
                self.rig.fs.open(file.id, true, false).unwrap();
            } else {
                self.rig.fs.release(file.id, true).unwrap();
            }
        }
    }

    fn overwrite(&mut self, bytes: u64) {
        let mut written = 0;
        while written < bytes {
            written += if self.replaces { self.replace() } else { self.overwrite_piece() };
        }
    }

    /// Overwrites a piece anywhere in all files; tells its bytes.
    fn overwrite_piece(&mut self) -> u64 {
        let place = self.random.random_range(0..*self.ends.last().expect("some file"));
        let chosen = self.ends.partition_point(|&end| end <= place);
        let File { id, bytes, .. } = self.files[chosen];
        let piece = size(&mut self.random, &self.pieces).min(bytes);
        let at = (place + bytes - self.ends[chosen]) / piece * piece;
        let at = at.min((bytes - piece) / GRANULE_BYTES * GRANULE_BYTES);
        let alone = self.files.len() > MOST_OPEN;
        if alone {
            self.rig.fs.open(id, true, false).unwrap();
        }
        self.write(id, at, piece);
        if alone {
            self.rig.fs.release(id, true).unwrap();
        }
        piece
    }

    /// Deletes a file and makes one of about that size; tells its bytes.
    fn replace(&mut self) -> u64 {
        let chosen = self.random.random_range(0..self.files.len());
        let file = self.files.swap_remove(chosen);
        self.rig.fs.unlink(self.rig.fs.root(), file.number.to_string().as_bytes()).unwrap();
        let room = file.bytes.next_multiple_of(GRANULE_BYTES);
        let bytes = self.random.random_range(room - GRANULE_BYTES + 1..=room);
        self.make(bytes);
        bytes
    }
}

/// A size with all orders of magnitude as likely as each other.
fn size(random: &mut Pcg64Mcg, range: &Range<u64>) -> u64 {
    let (from, to) = ((range.start as f64).ln(), (range.end as f64).ln());
    (random.random_range(from..to).exp() as u64).clamp(range.start, range.end - 1)
}

fn cost(before: &Statistics, after: &Statistics) -> Cost {
    let written = (after.written_bytes - before.written_bytes) as f64;
    let moved = (after.moved_bytes - before.moved_bytes) as f64;
    Cost {
        amplification: (written + moved) / written,
        most_mib: after.most_moved_for_one_write_bytes as f64 / MIB as f64,
    }
}
