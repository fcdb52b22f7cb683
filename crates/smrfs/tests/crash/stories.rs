//! Single promises, each at every cut behind it and under every loss.

use smrfs::data::Data;
use smrfs::fs::FileSystem;
use smrfs::meta::memory::StoreLoss;
use smrfs::meta::{Kind, NewNode, RenameMode, SetAttr, SetTime, Time};
use smrfs::testing::memory::Power;
use smrfs::testing::memory::WriteLoss as DiskLoss;
use smrfs::units::NodeId;

use crate::rig::{Disk, Mounted, Rig};
use crate::run::read;

const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };
const DIRECTORY: NewNode = NewNode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };

/// Does `before` on a new file system, then `after`; whatever is cut from the end of `before` on, `holds` holds.
fn always<T>(before: impl Fn(&FileSystem) -> T, after: impl Fn(&FileSystem, &T), holds: impl Fn(&Mounted, &T)) {
    for (disk, in_order) in Disk::ALL.into_iter().flat_map(|disk| [(disk, false), (disk, true)]) {
        let rig = Rig::new(disk, in_order);
        let mounted = rig.mount().expect("an empty file system");
        let made = before(&mounted.fs);
        let first = rig.power.operations() + 1;
        after(&mounted.fs, &made);
        for cut in first..=rig.power.operations() + 1 {
            for (disk, store) in
                DiskLoss::ALL.into_iter().flat_map(|disk| [(disk, StoreLoss::Latest), (disk, StoreLoss::Any)])
            {
                for seed in 0..20 {
                    holds(&rig.survivor(cut, (disk, store), seed, Power::new()).mount().expect("it mounts"), &made);
                }
            }
        }
    }
}

fn find(fs: &FileSystem, path: &[&str]) -> Option<NodeId> {
    path.iter().try_fold(fs.root(), |at, name| fs.lookup(at, name.as_bytes()).ok().map(|attr| attr.id))
}

fn write(fs: &FileSystem, id: NodeId, byte: u8, bytes: usize) {
    fs.write(id, 0, Data::Bytes(&vec![byte; bytes])).expect("room");
}

#[test]
fn a_synced_file_in_new_directories_is_found_with_its_attributes() {
    always(
        |fs| {
            let a = fs.make(fs.root(), b"a", &DIRECTORY).unwrap().id;
            let b = fs.make(a, b"b", &DIRECTORY).unwrap().id;
            let c = fs.make(b, b"c", &FILE).unwrap().id;
            write(fs, c, 7, 3000);
            let mtime = Some(SetTime::To(Time { seconds: 77, nanoseconds: 5 }));
            fs.set_attributes(c, &SetAttr { mode: Some(0o600), mtime, ..SetAttr::default() }).unwrap();
            fs.sync(c).unwrap();
            fs.attributes(c).unwrap()
        },
        |fs, attr| {
            fs.make(fs.root(), b"other", &FILE).unwrap();
            write(fs, attr.id, 7, 3000);
        },
        |mounted, attr| {
            let id = find(&mounted.fs, &["a", "b", "c"]).expect("its name");
            let is = mounted.fs.attributes(id).unwrap();
            assert_eq!((is.id, is.mode, is.size), (attr.id, attr.mode, attr.size));
            assert_eq!(is.mtime, attr.mtime);
            assert_eq!(read(&mounted.fs, id).unwrap(), [7; 3000]);
        },
    );
}

#[test]
fn a_file_replaced_by_a_rename_is_old_or_new() {
    always(
        |fs| {
            let old = fs.make(fs.root(), b"f", &FILE).unwrap().id;
            write(fs, old, 1, 2000);
            fs.sync(old).unwrap();
        },
        |fs, ()| {
            let new = fs.make(fs.root(), b"f.new", &FILE).unwrap().id;
            write(fs, new, 2, 2500);
            fs.rename((fs.root(), b"f.new"), (fs.root(), b"f"), RenameMode::Replace).unwrap();
            write(fs, fs.make(fs.root(), b"g", &FILE).unwrap().id, 3, 4000);
            fs.sync_all().unwrap();
        },
        |mounted, ()| {
            let id = find(&mounted.fs, &["f"]).expect("one of them");
            let bytes = read(&mounted.fs, id).unwrap();
            assert!(bytes == [1; 2000] || bytes == [2; 2500], "{} bytes of {:?}", bytes.len(), bytes.first());
        },
    );
}

#[test]
fn a_file_overwritten_in_one_buffered_write_is_old_or_new() {
    always(
        |fs| {
            let id = fs.make(fs.root(), b"f", &FILE).unwrap().id;
            write(fs, id, 1, 2048);
            fs.sync(id).unwrap();
            id
        },
        |fs, &id| {
            write(fs, id, 2, 2048);
            fs.sync_all().unwrap();
            write(fs, id, 3, 2048);
            fs.sync(id).unwrap();
        },
        |mounted, &id| {
            let bytes = read(&mounted.fs, id).unwrap();
            assert!((1..=3).any(|byte| bytes == [byte; 2048]), "a mixture");
        },
    );
}

#[test]
fn a_file_unlinked_and_synced_stays_away_and_its_room_is_free() {
    always(
        |fs| {
            let id = fs.make(fs.root(), b"f", &FILE).unwrap().id;
            write(fs, id, 1, 3000);
            fs.sync(id).unwrap();
            fs.unlink(fs.root(), b"f").unwrap();
            fs.sync_dir(fs.root()).unwrap();
        },
        |fs, ()| fs.sync_all().unwrap(),
        |mounted, ()| {
            assert_eq!(find(&mounted.fs, &["f"]), None);
            assert_eq!(mounted.mapped, 0);
        },
    );
}
