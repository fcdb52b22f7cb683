//! Failures of a disk: the data that they take, and the rest.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Model;
use smrfs::error::Errno;
use smrfs::fs::FileSystem;
use smrfs::units::{HostJournal, NodeId};

use crate::counted::{Counted, Counts};
use crate::rig::{GRANULE, Rig};
use crate::{FILE, options};

fn rigs() -> impl Iterator<Item = Rig> {
    [Model::StrictAppend, Model::Caveat].into_iter().map(|model| Rig::new(model, options()))
}

fn make(fs: &FileSystem, name: &[u8]) -> NodeId {
    fs.make(fs.root(), name, &FILE).unwrap().id
}

fn content(fs: &FileSystem, id: NodeId) -> [u8; 1000] {
    let mut back = [0; 1000];
    fs.read(id, 0, ReadBuffer::Bytes(&mut back)).unwrap();
    back
}

#[test]
fn an_fsync_whose_write_fails_keeps_the_data_and_can_be_repeated() {
    for mut rig in rigs() {
        let fs = rig.fs.clone();
        let id = make(&fs, b"a");
        fs.write(id, 0, Data::Bytes(&[5; 1000])).unwrap();
        rig.device.writes_fail.store(true, Relaxed);
        assert_eq!(fs.sync(id).unwrap_err().errno(), Errno::EIO);
        assert_eq!(fs.sync_all().unwrap_err().errno(), Errno::EIO);
        assert_eq!(content(&fs, id), [5; 1000]);
        rig.device.writes_fail.store(false, Relaxed);
        fs.sync(id).unwrap();
        drop(fs);
        rig.remount(false);
        assert_eq!(content(&rig.fs, id), [5; 1000]);
    }
}

/// A disk's cache that could not be written is forgotten, and the next flush says that all is well.
#[test]
fn a_failed_flush_makes_the_mount_read_only() {
    for mut rig in rigs() {
        let fs = rig.fs.clone();
        let id = make(&fs, b"a");
        fs.write(id, 0, Data::Bytes(&[5; 1000])).unwrap();
        fs.sync(id).unwrap();
        fs.write(id, 0, Data::Bytes(&[6; 1000])).unwrap();
        rig.device.flushes_fail.store(true, Relaxed);
        assert_eq!(fs.sync(id).unwrap_err().errno(), Errno::EIO);
        rig.device.flushes_fail.store(false, Relaxed);
        assert_eq!(fs.sync(id).unwrap_err().errno(), Errno::EIO);
        assert_eq!(fs.sync_all().unwrap_err().errno(), Errno::EIO);
        assert_eq!(content(&fs, id), [6; 1000]);
        assert_eq!(fs.write(id, 0, Data::Bytes(&[7])).unwrap_err().errno(), Errno::EROFS);
        assert_eq!(fs.unlink(fs.root(), b"a").unwrap_err().errno(), Errno::EROFS);
        assert_eq!(fs.unmount().unwrap_err().errno(), Errno::EIO);
        drop(fs);
        rig.mount();
        assert_eq!(content(&rig.fs, id), [5; 1000]);
        rig.fs.write(id, 0, Data::Bytes(&[7; 1000])).unwrap();
        rig.remount(true);
        assert_eq!(content(&rig.fs, id), [7; 1000]);
    }
}

/// A commit that was to flush the disk leaves nobody to say what is on it; one that was not leaves the disk as it was.
#[test]
fn a_failed_commit_that_was_to_flush_counts_as_a_failed_flush() {
    for model in [Model::StrictAppend, Model::Caveat] {
        for (journal, everything) in [None, Some(HostJournal(7))].into_iter().flat_map(|j| [(j, false), (j, true)]) {
            let counts = Arc::new(Counts { journal: Mutex::new(journal), ..Counts::default() });
            let kept = counts.clone();
            let rig = Rig::with_store(model, options(), |store, _| Arc::new(Counted { store, counts: kept }));
            let id = make(&rig.fs, b"a");
            rig.fs.write(id, 0, Data::Bytes(&[5; 1000])).unwrap();
            let sync = || if everything { rig.fs.sync_all() } else { rig.fs.sync(id) };
            counts.syncs_fail.store(true, Relaxed);
            assert_eq!(sync().unwrap_err().errno(), Errno::EIO);
            counts.syncs_fail.store(false, Relaxed);
            assert_eq!(rig.device.deferred.load(Relaxed), journal.is_some());
            let (synced, written) = (sync(), rig.fs.write(id, 0, Data::Bytes(&[7])));
            match journal {
                None => assert!(synced.is_ok() && written.is_ok()),
                Some(_) => assert_eq!(
                    (synced.unwrap_err().errno(), written.unwrap_err().errno()),
                    (Errno::EIO, Errno::EROFS),
                    "{model:?} {everything}"
                ),
            }
        }
    }
}

#[test]
fn a_write_that_failed_in_part_leaves_a_file_of_today() {
    for rig in rigs() {
        let id = make(&rig.fs, b"a");
        rig.device.writes_fail.store(true, Relaxed);
        let written = rig.fs.write(id, 100, Data::Bytes(&[1; 9 * GRANULE as usize]));
        assert_eq!(written.unwrap_err().errno(), Errno::EIO);
        rig.device.writes_fail.store(false, Relaxed);
        rig.fs.sync(id).unwrap();
        let attr = rig.fs.attributes(id).unwrap();
        assert!(attr.mtime.seconds > 0 && attr.ctime.seconds > 0);
    }
}
