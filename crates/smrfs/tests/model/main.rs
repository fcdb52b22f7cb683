//! The file system against a plain model of what a directory tree is, over whole lives of small disks of both models.

mod rig;

use rig::{GRANULE, Rig};
use smrfs::data::{Data, Room};
use smrfs::device::Model;
use smrfs::fs::Options;
use smrfs::meta::{Kind, NewNode};

const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };

#[test]
fn what_was_written_is_there_after_a_mount() {
    let options =
        Options { block_granules: 8, direct_bytes: 4 * GRANULE, buffer_bytes: 16 * GRANULE, ..Options::default() };
    let mut rig = Rig::new(Model::StrictAppend, options);
    let root = rig.fs.root();
    let id = rig.fs.make(root, b"a", &FILE).unwrap().id;
    let bytes: Vec<u8> = (0..20_000u32).map(|i| (i * 7 % 251) as u8).collect();
    rig.fs.write(id, 0, Data::Bytes(&bytes), false).unwrap();
    rig.fs.write(id, 700, Data::Bytes(&bytes[..100]), false).unwrap();
    let check = |rig: &Rig| {
        let attr = rig.fs.lookup(root, b"a").unwrap();
        assert_eq!(attr.size, 20_000);
        let mut back = vec![0; 20_000];
        assert_eq!(rig.fs.read(attr.id, 0, Room::Bytes(&mut back)).unwrap(), 20_000);
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
