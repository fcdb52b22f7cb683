//! Failures of a disk: the data that they take, and the rest.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Model;
use smrfs::error::{Errno, FsResult};
use smrfs::fs::FileSystem;
use smrfs::meta::{Kind, NewNode};
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

/// The store's disk may have forgotten what a sync was to save, and says to the next caller that all is well.
#[test]
fn a_failed_sync_of_the_store_counts_as_a_failed_flush() {
    for model in [Model::StrictAppend, Model::Caveat] {
        for (journal, way) in [None, Some(HostJournal(7))].into_iter().flat_map(|j| (0..4).map(move |way| (j, way))) {
            let counts = Arc::new(Counts { journal: Mutex::new(journal), ..Counts::default() });
            let kept = counts.clone();
            let rig = Rig::with_store(model, options(), |store| Arc::new(Counted { store, counts: kept }));
            let (fs, root) = (&rig.fs, rig.fs.root());
            let id = make(fs, b"a");
            let pipe = fs.make(root, b"pipe", &NewNode { kind: Kind::Pipe, ..FILE }).unwrap().id;
            fs.write(id, 0, Data::Bytes(&[5; 1000])).unwrap();
            let syncs: [&dyn Fn() -> FsResult; 4] =
                [&|| fs.sync(id), &|| fs.sync_dir(root), &|| fs.sync(pipe), &|| fs.sync_all()];
            counts.syncs_fail.store(true, Relaxed);
            assert_eq!(syncs[way]().unwrap_err().errno(), Errno::EIO);
            counts.syncs_fail.store(false, Relaxed);
            for sync in syncs {
                assert_eq!(sync().unwrap_err().errno(), Errno::EIO, "{model:?} {way}");
            }
            assert_eq!(make_error(fs), Errno::EROFS);
            assert_eq!(fs.unmount().unwrap_err().errno(), Errno::EIO);
        }
    }
}

fn make_error(fs: &FileSystem) -> Errno {
    fs.make(fs.root(), b"new", &FILE).unwrap_err().errno()
}

/// Names were made since the last flush that went well: an fsync of their directory must not vouch for them.
#[test]
fn nothing_is_acknowledged_after_a_failed_flush() {
    for rig in rigs() {
        let (fs, root) = (&rig.fs, rig.fs.root());
        let id = make(fs, b"a");
        fs.write(id, 0, Data::Bytes(&[5; 1000])).unwrap();
        fs.sync(id).unwrap();
        let folder = fs.make(root, b"folder", &NewNode { kind: Kind::Directory, ..FILE }).unwrap().id;
        fs.write(id, 0, Data::Bytes(&[6; 1000])).unwrap();
        rig.device.flushes_fail.store(true, Relaxed);
        assert_eq!(fs.sync(id).unwrap_err().errno(), Errno::EIO);
        rig.device.flushes_fail.store(false, Relaxed);
        for (what, synced) in
            [("root", fs.sync_dir(root)), ("folder", fs.sync_dir(folder)), ("folder as a file", fs.sync(folder))]
        {
            assert_eq!(synced.map_err(|error| error.errno()), Err(Errno::EIO), "{what}");
        }
        assert_eq!(fs.sync_all().unwrap_err().errno(), Errno::EIO);
        assert!(fs.flush_failed());
        assert_eq!(fs.unsaved().len(), 1);
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

/// After a crash its place is not known: it is lost, and nothing else.
#[test]
fn a_map_that_makes_no_sense_costs_its_file_alone() {
    for mut rig in rigs() {
        let (one, two) = (make(&rig.fs, b"a"), make(&rig.fs, b"b"));
        for (id, byte) in [(one, 5), (two, 6)] {
            rig.fs.write(id, 0, Data::Bytes(&[byte; 1000])).unwrap();
        }
        rig.fs.sync_all().unwrap();
        rig.store.store_map(one, b"no map").unwrap();
        rig.mount();
        let fs = rig.fs.clone();
        assert_eq!(fs.damaged_maps().iter().map(|damaged| damaged.file).collect::<Vec<_>>(), [one]);
        assert!(fs.attributes(one).unwrap().size > 0, "an empty file would be copied as one");
        assert_eq!(fs.read(one, 0, ReadBuffer::Bytes(&mut [0; 10])).unwrap_err().errno(), Errno::EIO);
        assert_eq!(content(&fs, two), [6; 1000]);
        fs.write(two, 0, Data::Bytes(&[7; 1000])).unwrap();
        fs.sync(two).unwrap();
        fs.unlink(fs.root(), b"a").unwrap();
        drop(fs);
        rig.remount(true);
        assert_eq!(content(&rig.fs, two), [7; 1000]);
        assert!(rig.fs.damaged_maps().is_empty());
    }
}
