//! A disk that is full to the last granule that statfs tells of, and overwritten there for a long time.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::error::Errno;
use smrfs::meta::{Kind, NewNode};

use crate::rig::{GRANULE, Rig};

const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };

/// Fills the disk with files of `granules`, then overwrites pieces of up to `piece` granules, `times` its capacity.
pub fn fill_and_overwrite(mut rig: Rig, granules: u64, piece: u64, times: u64) {
    let root = rig.fs.root();
    let usable = rig.fs.usage().unwrap().usable;
    let mut files = Vec::new();
    let mut left = usable;
    while left > 0 {
        let size = left.min(granules);
        let id = rig.fs.make(root, format!("f{}", files.len()).as_bytes(), &FILE).unwrap().id;
        let data = vec![7; (size * GRANULE) as usize];
        rig.fs.write(id, 0, Data::Bytes(&data)).unwrap();
        files.push((id, data));
        left -= size;
    }
    assert_eq!(rig.fs.usage().unwrap().free, 0);
    let extra = rig.fs.make(root, b"extra", &FILE).unwrap().id;
    let error = rig.fs.write(extra, 0, Data::Bytes(b"x")).unwrap_err();
    assert_eq!(error.errno(), Errno::ENOSPC);
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut written = 0;
    while written < times * usable {
        let number = random.random_range(0..files.len());
        let (id, content) = &mut files[number];
        let size = content.len() as u64 / GRANULE;
        let count = random.random_range(1..=piece.min(size));
        let first = random.random_range(0..=size - count);
        let range = (first * GRANULE) as usize..((first + count) * GRANULE) as usize;
        content[range.clone()].fill(random.random());
        rig.fs.write(*id, first * GRANULE, Data::Bytes(&content[range])).unwrap();
        written += count;
        if random.random_range(0..200) == 0 {
            rig.fs.sync(*id).unwrap();
        }
        if random.random_range(0..500) == 0 {
            rig.remount(random.random());
        }
    }
    let statistics = rig.fs.statistics();
    println!("{} granules usable; since the last mount: {statistics:?}", usable);
    for (id, content) in &files {
        let mut back = vec![0; content.len()];
        rig.fs.read(*id, 0, ReadBuffer::Bytes(&mut back)).unwrap();
        assert!(back == *content, "file {id}");
    }
    rig.remount(true);
    rig.fs.check().unwrap();
    // Deleted and filled again.
    for number in 0..files.len() {
        rig.fs.unlink(root, format!("f{number}").as_bytes()).unwrap();
    }
    let data = vec![9; (usable * GRANULE) as usize];
    rig.fs.write(extra, 0, Data::Bytes(&data)).unwrap();
    rig.remount(false);
    assert_eq!(rig.fs.usage().unwrap().free, 0);
}
