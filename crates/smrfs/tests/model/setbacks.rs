//! Setbacks of cleaning: other writes go on, and whoever reads what is broken hears of it.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::{BandState, HostManaged, Model};
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fsck::report::Verdict;
use smrfs::fsck::{self, FsckOptions};
use smrfs::meta::SetAttr;
use smrfs::units::{Granule, NodeId, Owner, Span};
use smrkit::tally::Cause;

use crate::rig::{GRANULE, Rig};
use crate::{FILE, options};

const BLOCK: u64 = 8;
const BLOCKS: u64 = 2;
/// The file that something happens to.
const BROKEN: usize = 2;
pub const NONE: usize = usize::MAX;

/// A disk of files of two blocks each, and what is in each block.
pub struct Life {
    pub rig: Rig,
    files: Vec<(NodeId, [u8; BLOCKS as usize])>,
    random: Pcg64Mcg,
}

impl Life {
    pub fn new(model: Model, percent: u64) -> Life {
        let rig = Rig::new(model, options());
        let count = rig.fs.usage().unwrap().usable * percent / 100 / (BLOCK * BLOCKS);
        let mut life = Life { rig, files: Vec::new(), random: Pcg64Mcg::seed_from_u64(5) };
        for number in 0..count {
            let fs = &life.rig.fs;
            let id = fs.make(fs.root(), &life.name(number), &FILE).unwrap().id;
            life.files.push((id, [0; BLOCKS as usize]));
            for block in 0..BLOCKS {
                life.write(number as usize, block).unwrap();
            }
        }
        life
    }

    fn name(&self, number: u64) -> Vec<u8> {
        number.to_string().into_bytes()
    }

    fn write(&mut self, number: usize, block: u64) -> FsResult {
        let (id, content) = &mut self.files[number];
        let byte = self.random.random();
        let bytes = [byte; (BLOCK * GRANULE) as usize];
        self.rig.fs.write(*id, block * BLOCK * GRANULE, Data::Bytes(&bytes))?;
        content[block as usize] = byte;
        Ok(())
    }

    /// Overwrites blocks at random, but none of the file `spared`.
    pub fn overwrite(&mut self, spared: usize, times: u64) -> FsResult {
        (0..times).try_for_each(|_| {
            let number = self.random.random_range(0..self.files.len() - usize::from(spared != NONE));
            let block = self.random.random_range(0..BLOCKS);
            self.write(if number < spared { number } else { number + 1 }, block)
        })
    }

    fn read(&self, number: usize, block: u64) -> FsResult<bool> {
        let (id, content) = self.files[number];
        let mut back = [0; (BLOCK * GRANULE) as usize];
        self.rig.fs.read(id, block * BLOCK * GRANULE, ReadBuffer::Bytes(&mut back))?;
        Ok(back == [content[block as usize]; (BLOCK * GRANULE) as usize])
    }

    /// All files but `spared` hold what was written.
    pub fn check(&self, spared: usize) {
        self.rig.check();
        self.rig.fs.check().unwrap();
        for number in (0..self.files.len()).filter(|&number| number != spared) {
            assert!((0..BLOCKS).all(|block| self.read(number, block).unwrap()), "file {number}");
        }
    }

    /// Place of a block of a file.
    fn place(&self, number: usize, block: u64) -> Granule {
        let (id, _) = self.files[number];
        let holds = |(span, owner): (Span, Owner)| {
            let first = block * BLOCK;
            (owner.file == id && owner.granule <= first && first < owner.granule + span.count)
                .then(|| span.at + (first - owner.granule))
        };
        self.rig.fs.live().into_iter().find_map(holds).unwrap()
    }
}

pub const MODELS: [Model; 2] = [Model::StrictAppend, Model::Caveat];

#[test]
fn a_granule_that_the_disk_does_not_read_fails_no_write() {
    for model in MODELS {
        let mut life = Life::new(model, 90);
        life.overwrite(BROKEN, 100).unwrap();
        let broken = life.place(BROKEN, 1) + 3;
        life.rig.device.unreadable.lock().unwrap().insert(broken);
        life.overwrite(BROKEN, 3000).unwrap();
        life.check(BROKEN);
        assert!(life.rig.fs.statistics().unmovable > 0, "{model:?}: the cleaner never came to it");
        assert!(life.rig.fs.statistics().unmovable < 10, "{model:?}: {:?}", life.rig.fs.statistics());
        assert_eq!(life.place(BROKEN, 1) + 3, broken);
        assert_eq!(life.read(BROKEN, 1).unwrap_err().errno(), Errno::EIO);
        assert!(life.read(BROKEN, 0).unwrap());
        // After a mount it is found anew.
        life.rig.remount(true);
        life.overwrite(BROKEN, 1000).unwrap();
        assert_eq!(life.place(BROKEN, 1) + 3, broken);
        // Written anew it lies elsewhere, and what a disk could not read it can write.
        life.write(BROKEN, 1).unwrap();
        life.rig.fs.check().unwrap();
        life.rig.device.unreadable.lock().unwrap().clear();
        life.overwrite(BROKEN, 1000).unwrap();
        life.check(NONE);
    }
}

#[test]
fn a_scrub_counts_what_is_live_and_what_of_it_is_not_read() {
    for model in MODELS {
        let mut life = Life::new(model, 10);
        life.rig.fs.sync_all().unwrap();
        let scrubbed = |life: &Life, live: &[(Span, Owner)]| {
            live.iter().fold((0, 0), |(read, damaged), &(span, owner)| {
                let found = life.rig.fs.scrub(span, owner).unwrap();
                (read + found.read_bytes, damaged + found.damaged_bytes)
            })
        };
        let live = life.rig.fs.live();
        let all = life.files.len() as u64 * BLOCKS * BLOCK * GRANULE;
        assert_eq!(scrubbed(&life, &live), (all, 0));
        let broken = life.place(BROKEN, 1) + 3;
        life.rig.device.unreadable.lock().unwrap().insert(broken);
        assert_eq!(scrubbed(&life, &live), (all - GRANULE, GRANULE));
        life.rig.device.unreadable.lock().unwrap().clear();
        // What has moved away meanwhile, or is no file's any more, is not read.
        life.write(BROKEN, 1).unwrap();
        life.rig.fs.sync_all().unwrap();
        assert_eq!(scrubbed(&life, &live), (all - BLOCK * GRANULE, 0));
        let root = life.rig.fs.root();
        let (id, _) = life.files[BROKEN];
        life.rig.fs.unlink(root, &life.name(BROKEN as u64)).unwrap();
        life.rig.fs.forget(id, u64::MAX);
        life.rig.fs.sync_all().unwrap();
        assert_eq!(scrubbed(&life, &live), (all - BLOCKS * BLOCK * GRANULE, 0));
    }
}

/// As in an image of another moment than its metadata, or where the disk has written somewhere else than it was told.
#[test]
fn a_granule_of_another_file_is_neither_shown_nor_moved_and_is_found() {
    for model in MODELS {
        let mut life = Life::new(model, 90);
        life.overwrite(BROKEN, 100).unwrap();
        let (id, _) = life.files[BROKEN];
        let broken = life.place(BROKEN, 1) + 3;
        life.rig.fs.sync_all().unwrap();
        let mut other = vec![0; GRANULE as usize];
        life.rig.device.read(life.place(0, 0), ReadBuffer::Bytes(&mut other), Cause::Host).unwrap();
        life.rig.device.foreign.lock().unwrap().insert(broken, other);
        life.overwrite(BROKEN, 3000).unwrap();
        for clean in [true, false] {
            life.check(BROKEN);
            assert!((1..10).contains(&life.rig.fs.statistics().unmovable), "{model:?}: {:?}", life.rig.fs.statistics());
            assert_eq!(life.place(BROKEN, 1) + 3, broken);
            let read = life.read(BROKEN, 1).unwrap_err();
            assert!(matches!(read, FsError::WrongData(at) if at == broken), "{read}");
            assert_eq!(read.errno(), Errno::EIO);
            assert!(life.read(BROKEN, 0).unwrap());
            // A part of it can't be replaced: the rest would get a checksum that is right.
            let first = (BLOCK + 3) * GRANULE;
            assert_eq!(life.rig.fs.write(id, first + 5, Data::Bytes(b"new")).unwrap_err().errno(), Errno::EIO);
            let live = life.rig.fs.live().into_iter().filter(|(_, owner)| owner.file == id);
            let damaged: u64 = live.map(|(span, owner)| life.rig.fs.scrub(span, owner).unwrap().damaged_bytes).sum();
            assert_eq!(damaged, GRANULE);
            life.rig.fs.sync_all().unwrap();
            let checked = FsckOptions { read_all: true, repair: !clean, ..FsckOptions::default() };
            let report = fsck::check(&*life.rig.device, &*life.rig.store, &checked).unwrap();
            let found: Vec<String> = report.findings.iter().map(|finding| finding.problem.to_string()).collect();
            assert!(found.len() == 1 && found[0].contains("something else than was written"), "{found:?}");
            assert_eq!(report.verdict, Verdict::ErrorsLeft);
            life.rig.remount(clean);
            life.overwrite(BROKEN, 1000).unwrap();
        }
        life.write(BROKEN, 1).unwrap();
        life.rig.device.foreign.lock().unwrap().clear();
        life.overwrite(BROKEN, 1000).unwrap();
        life.check(NONE);
    }
}

#[test]
fn there_is_no_space_where_all_left_to_clean_is_unreadable() {
    for model in MODELS {
        let mut life = Life::new(model, 100);
        let all = (0..life.rig.device.shape().granules).map(Granule);
        life.rig.device.unreadable.lock().unwrap().extend(all);
        let refused = (0..5000).find_map(|_| life.overwrite(NONE, 1).err());
        assert_eq!(refused.map(|error| error.errno()), Some(Errno::ENOSPC), "{model:?}");
        assert_eq!(life.overwrite(NONE, 1).unwrap_err().errno(), Errno::ENOSPC, "{model:?}");
        let usage = life.rig.fs.usage().unwrap();
        assert!(usage.live <= usage.usable && usage.counts.garbage <= usage.counts.not_writable);
        life.rig.device.unreadable.lock().unwrap().clear();
        life.rig.remount(false);
        life.overwrite(NONE, 1000).unwrap();
        life.check(NONE);
    }
}

#[test]
fn a_file_whose_map_is_damaged_fails_no_write_to_others() {
    for model in MODELS {
        let mut life = Life::new(model, 90);
        life.overwrite(BROKEN, 100).unwrap();
        life.rig.fs.unmount().unwrap();
        let broken = life.files[BROKEN].0;
        life.rig.store.store_map(broken, b"no map").unwrap();
        life.rig.mount();
        life.overwrite(BROKEN, 3000).unwrap();
        assert!(life.rig.fs.statistics().unmovable > 0, "{model:?}: the cleaner never came to it");
        assert!(life.rig.fs.statistics().unmovable < 10, "{model:?}: {:?}", life.rig.fs.statistics());
        life.check(BROKEN);
        assert_eq!(life.read(BROKEN, 0).unwrap_err().errno(), Errno::EIO);
    }
}

#[test]
fn a_band_whose_reset_failed_is_tried_again_later() {
    let mut life = Life::new(Model::StrictAppend, 90);
    let bands = life.rig.device.shape().bands;
    let state = |life: &Life, band| life.rig.device.report(band, 1).unwrap()[0].state;
    for broken in [0, 7] {
        life.rig.device.not_reset.lock().unwrap().insert(broken);
    }
    let (before, writes) = (life.rig.fs.statistics(), 3000);
    life.overwrite(NONE, writes).unwrap();
    let failed = life.rig.fs.statistics().failed_resets - before.failed_resets;
    assert!((2..=2 + 2 * writes * BLOCK / bands.granules).contains(&failed), "{failed}");
    assert_eq!([0, 7].map(|band| state(&life, band)), [BandState::Full; 2]);
    life.check(NONE);
    life.rig.device.not_reset.lock().unwrap().clear();
    let resets = life.rig.fs.statistics().resets;
    let again = (0..1000).any(|_| {
        life.overwrite(NONE, 1).unwrap();
        [0, 7].map(|band| state(&life, band)).iter().all(|&state| state != BandState::Full)
    });
    assert!(again && life.rig.fs.statistics().resets > resets);
    life.check(NONE);
}

#[test]
fn a_disk_that_resets_no_band_has_no_space_until_it_does_again() {
    let mut life = Life::new(Model::StrictAppend, 95);
    life.rig.device.not_reset.lock().unwrap().extend(0..100);
    let refused = (0..5000).find_map(|_| life.overwrite(NONE, 1).err());
    assert_eq!(refused.map(|error| error.errno()), Some(Errno::ENOSPC));
    assert_eq!(life.overwrite(NONE, 1).unwrap_err().errno(), Errno::ENOSPC);
    life.rig.device.not_reset.lock().unwrap().clear();
    life.overwrite(NONE, 1000).unwrap();
    life.check(NONE);
}

/// A crash brings back what had been cut off and not yet forgotten durably, besides what took its room.
#[test]
fn free_space_holds_after_a_crash_with_too_much_live_data() {
    for model in MODELS {
        let mut life = Life::new(model, 100);
        let cut: usize = 0;
        life.rig.fs.sync_all().unwrap();
        life.rig
            .fs
            .set_attributes(
                life.files[cut].0,
                &SetAttr { size: Some((BLOCKS * BLOCK - 1) * GRANULE), ..SetAttr::default() },
            )
            .unwrap();
        let fs = &life.rig.fs;
        let size = fs.usage().unwrap().free * GRANULE;
        let new = fs.make(fs.root(), b"new", &FILE).unwrap().id;
        fs.write(new, 0, Data::Bytes(&vec![1; size as usize])).unwrap();
        fs.sync(new).unwrap();
        life.rig.mount();
        let usage = life.rig.fs.usage().unwrap();
        // Caveat-Scriptor has no room for more before what was cut off is forgotten.
        assert!(usage.live >= usage.usable + u64::from(model == Model::StrictAppend), "{model:?}: {usage:?}");
        assert_eq!((usage.free, usage.size()), (0, usage.live + usage.promised));
        let fs = &life.rig.fs;
        let refused = fs.write(new, size, Data::Bytes(&[1; GRANULE as usize]));
        assert_eq!(refused.unwrap_err().errno(), Errno::ENOSPC);
        life.overwrite(cut, 1000).unwrap();
        life.check(cut);
        life.rig.fs.unlink(life.rig.fs.root(), b"new").unwrap();
        life.overwrite(cut, 1000).unwrap();
        let usage = life.rig.fs.usage().unwrap();
        assert_eq!(usage.size(), usage.usable);
        life.check(cut);
    }
}
