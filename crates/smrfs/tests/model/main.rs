//! The file system against a plain model of what a directory tree is, over whole lives of small disks of both models.

mod cases;
#[path = "../../../smrkit/tests/common/count.rs"]
mod count;
#[allow(dead_code, reason = "the test of scale uses the rest")]
#[path = "../common/counted.rs"]
mod counted;
mod crowd;
mod failures;
mod faulty;
mod full;
#[path = "../../../smrkit/tests/common/kept_text.rs"]
mod kept_text;
mod kept;
mod known;
mod life;
mod names;
mod races;
mod reference;
mod rig;
mod setbacks;
mod threads;
#[path = "../common/watch.rs"]
mod watch;

use count::count_from;
use rig::{GRANULE, Rig};
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Model;
use smrfs::fs::FsOptions;
use smrfs::meta::{Kind, NewNode};

const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };

fn options() -> FsOptions {
    FsOptions {
        block_granules: 8,
        direct_bytes: 4 * GRANULE,
        buffer_bytes: 16 * GRANULE,
        cached_extents: 40,
        ..FsOptions::default()
    }
}

/// Number of operations that a test does; CI asks for more.
fn operations() -> usize {
    count_from("SMRFS_MODEL_OPS", 40_000)
}

fn lives(model: Model) {
    let each = 2000;
    for seed in 0..operations().div_ceil(each) as u64 {
        life::live(Rig::new(model, options()), seed, each);
    }
}

#[test]
fn a_strict_append_disk_holds_what_a_directory_holds() {
    lives(Model::StrictAppend);
}

#[test]
fn a_caveat_disk_holds_what_a_directory_holds() {
    lives(Model::Caveat);
}

#[test]
fn threads_do_not_disturb_each_other() {
    for model in [Model::StrictAppend, Model::Caveat] {
        threads::together(Rig::new(model, options()), operations() as u64 / 100);
    }
}

#[test]
fn a_crowd_leaves_whole_files_and_nothing_else() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let mut rig = Rig::new(model, options());
        let longest = 30 * GRANULE;
        let found = crowd::crowd(&rig.fs, 6, operations() as u64 / 40, (0, 0), longest);
        let live = rig.fs.usage().unwrap().live;
        rig.check();
        rig.remount(false);
        assert!(crowd::contents(&rig.fs, longest) == found);
        assert_eq!(rig.fs.usage().unwrap().live, live);
    }
}

#[test]
fn a_full_disk_takes_overwrites_for_ever() {
    for model in [Model::StrictAppend, Model::Caveat] {
        for (granules, piece) in [(40, 20), (7, 7), (500, 1)] {
            full::fill_and_overwrite(Rig::new(model, options()), granules, piece, 10);
        }
    }
}

#[test]
fn what_was_written_is_there_after_a_mount() {
    let options =
        FsOptions { block_granules: 8, direct_bytes: 4 * GRANULE, buffer_bytes: 16 * GRANULE, ..FsOptions::default() };
    let mut rig = Rig::new(Model::StrictAppend, options);
    let root = rig.fs.root();
    let id = rig.fs.make(root, b"a", &FILE).unwrap().id;
    let bytes: Vec<u8> = (0..20_000u32).map(|i| (i * 7 % 251) as u8).collect();
    rig.fs.write(id, 0, Data::Bytes(&bytes)).unwrap();
    rig.fs.write(id, 700, Data::Bytes(&bytes[..100])).unwrap();
    let check = |rig: &Rig| {
        let attr = rig.fs.lookup(root, b"a").unwrap();
        assert_eq!(attr.size, 20_000);
        let mut back = vec![0; 20_000];
        assert_eq!(rig.fs.read(attr.id, 0, ReadBuffer::Bytes(&mut back)).unwrap(), 20_000);
        assert!(back[..700] == bytes[..700] && back[700..800] == bytes[..100] && back[800..] == bytes[800..]);
    };
    check(&rig);
    rig.fs.sync(id).unwrap();
    check(&rig);
    for clean in [true, false] {
        rig.remount(clean);
        check(&rig);
    }
    rig.fs.unlink(root, b"a").unwrap();
    rig.remount(false);
    assert_eq!(rig.fs.usage().unwrap().live, 0);
}
