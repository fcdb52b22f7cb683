//! Contents of sectors: what a command reads and writes on each member, worked out from what it has read.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use super::address::{ArrayLayout, Role, Unit};
use super::command::SectorWords;
use super::parity;
use super::plan::Sub;
use crate::error::{DiskResult, Fault};
use crate::units::{Lba, SECTOR_BYTES};

/// Contents of sectors that an array's commands carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// None: time is all that is asked for.
    None,
    /// A stamp for each sector, as in check mode.
    Stamps,
    /// The bytes of each sector.
    Bytes,
}

impl Contents {
    /// Words of a sector.
    pub fn words(self) -> usize {
        match self {
            Contents::None => 0,
            Contents::Stamps => 1,
            Contents::Bytes => SECTOR_BYTES as usize / size_of::<u64>(),
        }
    }
}

/// Words of a sector: its stamp, or all of its bytes.
type Words = SmallVec<[u64; 1]>;

/// Words that a command has read, by member and sector.
pub(super) type KnownSectors = BTreeMap<(u32, u64), Words>;

/// Words that a command writes, from its first sector on: `width` to a sector. Empty for what writes nothing of its own.
#[derive(Clone, Copy)]
pub(super) struct WrittenSectors<'a> {
    pub lba: Lba,
    pub words: &'a [u64],
    pub width: usize,
}

impl WrittenSectors<'_> {
    fn words(&self, lba: Lba) -> Option<&[u64]> {
        let first = lba.0.checked_sub(self.lba.0)? as usize * self.width;
        self.words.get(first..first + self.width)
    }
}

/// Takes note of what a member's command has read.
pub(super) fn note(known: &mut KnownSectors, sub: &Sub, words: &[u64]) {
    let sectors = words.chunks_exact(words.len() / sub.sectors as usize);
    known.extend((sub.at.0..).zip(sectors).map(|(at, words)| ((sub.disk, at), Words::from_slice(words))));
}

/// Words that the host reads.
pub(super) fn assemble(layout: &ArrayLayout, known: &KnownSectors, lba: Lba, sectors: u64) -> SectorWords {
    (0..sectors).flat_map(|i| words_of(layout, known, lba + i)).collect()
}

fn words_of(layout: &ArrayLayout, known: &KnownSectors, lba: Lba) -> Words {
    let copies = (0..layout.copies()).map(|copy| layout.copy(lba, copy));
    if let Some(words) = copies.into_iter().find_map(|(disk, at)| known.get(&(disk, at.0))) {
        return words.clone();
    }
    let Unit { stripe, index, offset } = layout.unit(lba);
    row(layout, known, stripe, offset).swap_remove(index as usize).into()
}

/// All sectors of a row, data and parity, recovered from those that were read.
fn row(layout: &ArrayLayout, known: &KnownSectors, stripe: u64, offset: u64) -> Vec<SectorWords> {
    let data = layout.data_disks();
    let at = layout.at(stripe, offset);
    let of = |unit: usize| known.get(&(layout.member_of(stripe, unit as u32), at.0)).map(|words| words.to_vec());
    let mut units: Vec<Option<SectorWords>> = (0..data + layout.parities()).map(of).collect();
    parity::recover(data, &mut units).expect("a plan reads as much as is needed");
    units.into_iter().map(Option::unwrap_or_default).collect()
}

/// Words that a member's command writes.
pub(super) fn written(layout: &ArrayLayout, known: &KnownSectors, own: &WrittenSectors, sub: &Sub) -> SectorWords {
    (0..sub.sectors).flat_map(|i| written_sector(layout, known, own, sub.disk, sub.at + i)).collect()
}

fn written_sector(layout: &ArrayLayout, known: &KnownSectors, own: &WrittenSectors, disk: u32, at: Lba) -> Words {
    match layout.inverse(disk, at) {
        Role::Data(lba) | Role::Copy(lba, _) => {
            own.words(lba).map_or_else(|| words_of(layout, known, lba), Words::from)
        }
        Role::Parity { number, stripe, offset } => parity_sector(layout, known, own, (stripe, offset), number).into(),
        Role::Unused => smallvec![0; own.width],
    }
}

/// The new parity `number` of a row.
fn parity_sector(
    layout: &ArrayLayout,
    known: &KnownSectors,
    own: &WrittenSectors,
    (stripe, offset): (u64, u64),
    number: usize,
) -> SectorWords {
    let data = layout.data_disks();
    let at = layout.at(stripe, offset);
    let old = |unit: usize| known.get(&(layout.member_of(stripe, unit as u32), at.0)).map(|words| &words[..]);
    let new = |unit: usize| own.words(layout.lba_of(Unit { stripe, index: unit as u32, offset }));
    let of = |units: Vec<&[u64]>| parity::parity(number, own.width, units);
    let whole: Option<Vec<&[u64]>> = (0..data).map(|unit| new(unit).or_else(|| old(unit))).collect();
    if let Some(units) = whole {
        return of(units);
    }
    let change = |unit: usize| -> Option<SectorWords> {
        let Some(new) = new(unit) else { return Some(vec![0; own.width]) };
        let mut change = old(unit)?.to_vec();
        parity::add(&mut change, new);
        Some(change)
    };
    let changes: Option<Vec<SectorWords>> = (0..data).map(change).collect();
    match (changes, old(data + number)) {
        (Some(changes), Some(old)) => {
            let mut parity = of(changes.iter().map(Vec::as_slice).collect());
            parity::add(&mut parity, old);
            parity
        }
        _ => {
            let old = row(layout, known, stripe, offset);
            of((0..data).map(|unit| new(unit).unwrap_or(&old[unit])).collect())
        }
    }
}

/// The word of a member's sector in an array that began full: `host` tells those of the array's sectors.
pub(super) fn first_word(layout: &ArrayLayout, disk: u32, at: Lba, host: impl Fn(Lba) -> u64) -> u64 {
    match layout.inverse(disk, at) {
        Role::Data(lba) | Role::Copy(lba, _) => host(lba),
        Role::Parity { number, stripe, offset } => {
            let word = |index: usize| host(layout.lba_of(Unit { stripe, index: index as u32, offset }));
            let words: Vec<u64> = (0..layout.data_disks()).map(word).collect();
            parity::parity(number, 1, words.iter().map(std::slice::from_ref))[0]
        }
        Role::Unused => 0,
    }
}

/// Compares copies with each other, and parity with data, in some sectors of all members that were read.
pub(super) fn compare(layout: &ArrayLayout, known: &KnownSectors, at: Lba, sectors: u64) -> DiskResult {
    let read = |disk: u32, at: Lba| known.get(&(disk, at.0)).cloned();
    for at in (0..sectors).map(|i| at + i) {
        for disk in 0..layout.disks() as u32 {
            let Some(found) = read(disk, at) else { continue };
            let none = WrittenSectors { lba: Lba(0), words: &[], width: found.len() };
            let should = match layout.inverse(disk, at) {
                Role::Parity { .. } if is_whole(layout, known, at) => written_sector(layout, known, &none, disk, at),
                Role::Copy(lba, _) => {
                    let (first, place) = layout.copy(lba, 0);
                    read(first, place).unwrap_or_else(|| found.clone())
                }
                _ => found.clone(),
            };
            if found != should {
                let message = format!("sector {at} of member {disk} is not what the other members say");
                return Err(Box::new(Fault::Inconsistent(message)));
            }
        }
    }
    Ok(())
}

/// True if all data of a row was read.
fn is_whole(layout: &ArrayLayout, known: &KnownSectors, at: Lba) -> bool {
    let (stripe, data) = (at.0 / layout.chunk_sectors(), layout.data_disks() as u32);
    (0..data).all(|unit| known.contains_key(&(layout.member_of(stripe, unit), at.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::level::Level;

    #[test]
    fn a_sector_has_a_word_or_512_bytes_of_them() {
        assert_eq!([Contents::None, Contents::Stamps, Contents::Bytes].map(Contents::words), [0, 1, 64]);
    }

    #[test]
    fn copies_and_parity_that_differ_are_told() {
        for level in [Level::Raid1, Level::Raid10 { copies: 2 }, Level::Raid5, Level::Raid6] {
            let layout = ArrayLayout::new(level, 4, &[16; 4]).unwrap();
            let word = |lba: Lba| 1 + lba.0 * 7;
            let at = |disk: u32, at: u64| first_word(&layout, disk, Lba(at), word);
            let all: KnownSectors = (0..4)
                .flat_map(|disk| (0..16).map(move |at| (disk, at)))
                .map(|(d, a)| ((d, a), smallvec![at(d, a)]))
                .collect();
            compare(&layout, &all, Lba(0), 16).unwrap();
            for (disk, place) in [(0, 0), (1, 5), (3, 15)] {
                let mut damaged = all.clone();
                damaged.insert((disk, place), smallvec![at(disk, place) ^ 1]);
                assert!(compare(&layout, &damaged, Lba(0), 16).is_err(), "{level:?}: {place} of member {disk}");
                assert!(compare(&layout, &damaged, Lba(place + 1), 15 - place).is_ok(), "{level:?}");
                // What was not read is not compared.
                damaged.retain(|&(of, at), _| of == disk || at != place);
                assert!(compare(&layout, &damaged, Lba(0), 16).is_ok(), "{level:?}: {place} of member {disk}");
            }
        }
    }
}
