//! Arbitrary bytes as a superblock, also with a right checksum; what is one is written as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smrfs::map::checksum;
use smrfs::superblock::Superblock;

fuzz_target!(|bytes: &[u8]| {
    let _ = Superblock::decode(bytes);
    let mut sealed = bytes.to_vec();
    sealed.extend_from_slice(&checksum(bytes).to_le_bytes());
    if let Ok(superblock) = Superblock::decode(&sealed) {
        let written = superblock.encode().expect("what was read can be written");
        assert_eq!(Superblock::decode(&written), Ok(superblock));
    }
});
