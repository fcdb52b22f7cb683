//! Arbitrary bytes as a map record and as the parts that it names, with and without a right checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smrfs::map::{Head, Stored, checksum, decode, part_numbers, summary};

fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    sealed.extend(checksum(bytes).to_le_bytes());
    sealed
}

// The first two bytes say how long the record is, the rest of the bytes is every part.
fuzz_target!(|bytes: &[u8]| {
    let Some((length, bytes)) = bytes.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(bytes.len());
    let (record, part) = bytes.split_at(length);
    for (record, part) in [(record.to_vec(), part.to_vec()), (sealed(record), sealed(part))] {
        let load = |_| Ok(part.clone());
        let told = summary(&record);
        let numbers = part_numbers(&record, load);
        let Ok(mut decoded) = decode(&record, load) else { continue };
        assert_eq!(told.ok(), Some(decoded.summary));
        assert!(numbers.is_ok_and(|numbers| numbers.into_iter().eq(decoded.stored.numbers())));
        // What was understood can be written and read again.
        let mut parts = Vec::new();
        let plan = Stored::new().plan(&mut decoded.map, &Head::default(), 4096, &mut || {
            parts.push(());
            parts.len() as u64
        });
        let load = |number| Ok(plan.parts.iter().find(|part| part.0 == number).expect("a part of ours").1.clone());
        assert!(decode(&plan.record, load).is_ok_and(|again| again.map == decoded.map));
    }
});
