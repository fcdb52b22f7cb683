//! Check mode: what a command reads and writes on each member, worked out from what it has read.

use std::collections::BTreeMap;

use super::address::{ArrayLayout, Role, Unit};
use super::command::SectorStamps;
use super::parity;
use super::plan::Sub;
use crate::error::{DiskResult, Fault};
use crate::units::Lba;

/// Stamps that a command has read, by member and sector.
pub(super) type KnownStamps = BTreeMap<(u32, u64), u64>;

/// A command's own stamps: what it writes, from its first sector on. Empty for what writes nothing of its own.
#[derive(Clone, Copy)]
pub(super) struct WrittenStamps<'a> {
    pub lba: Lba,
    pub stamps: &'a [u64],
}

impl WrittenStamps<'_> {
    fn word(&self, lba: Lba) -> Option<u64> {
        self.stamps.get(lba.0.checked_sub(self.lba.0)? as usize).copied()
    }
}

/// Takes note of what a member's command has read.
pub(super) fn note(known: &mut KnownStamps, sub: &Sub, stamps: &[u64]) {
    known.extend((sub.at.0..).zip(stamps).map(|(at, &word)| ((sub.disk, at), word)));
}

/// Stamps that the host reads.
pub(super) fn assemble(layout: &ArrayLayout, known: &KnownStamps, lba: Lba, sectors: u64) -> SectorStamps {
    (0..sectors).map(|i| word_of(layout, known, lba + i)).collect()
}

fn word_of(layout: &ArrayLayout, known: &KnownStamps, lba: Lba) -> u64 {
    let copies = (0..layout.copies()).map(|copy| layout.copy(lba, copy));
    if let Some(word) = copies.into_iter().find_map(|(disk, at)| known.get(&(disk, at.0))) {
        return *word;
    }
    let Unit { stripe, index, offset } = layout.unit(lba);
    row(layout, known, stripe, offset)[index as usize]
}

/// All stamps of a row, data and parity, recovered from those that were read.
fn row(layout: &ArrayLayout, known: &KnownStamps, stripe: u64, offset: u64) -> Vec<u64> {
    let data = layout.data_disks();
    let at = layout.at(stripe, offset);
    let of = |unit: usize| known.get(&(layout.member_of(stripe, unit as u32), at.0)).map(|&word| vec![word]);
    let mut units: Vec<Option<SectorStamps>> = (0..data + layout.parities()).map(of).collect();
    parity::recover(data, &mut units).expect("a plan reads as much as is needed");
    units.into_iter().map(|unit| unit.map_or(0, |stamps| stamps[0])).collect()
}

/// Stamps that a member's command writes.
pub(super) fn written(layout: &ArrayLayout, known: &KnownStamps, own: &WrittenStamps, sub: &Sub) -> SectorStamps {
    (0..sub.sectors).map(|i| written_word(layout, known, own, sub.disk, sub.at + i)).collect()
}

fn written_word(layout: &ArrayLayout, known: &KnownStamps, own: &WrittenStamps, disk: u32, at: Lba) -> u64 {
    match layout.inverse(disk, at) {
        Role::Data(lba) | Role::Copy(lba, _) => own.word(lba).unwrap_or_else(|| word_of(layout, known, lba)),
        Role::Parity { number, stripe, offset } => parity_word(layout, known, own, (stripe, offset), number),
        Role::Unused => 0,
    }
}

/// The new parity `number` of a row.
fn parity_word(
    layout: &ArrayLayout,
    known: &KnownStamps,
    own: &WrittenStamps,
    (stripe, offset): (u64, u64),
    number: usize,
) -> u64 {
    let data = layout.data_disks();
    let at = layout.at(stripe, offset);
    let old = |unit: usize| known.get(&(layout.member_of(stripe, unit as u32), at.0)).copied();
    let new = |unit: usize| own.word(layout.lba_of(Unit { stripe, index: unit as u32, offset }));
    let whole: Option<Vec<u64>> = (0..data).map(|unit| new(unit).or_else(|| old(unit))).collect();
    if let Some(stamps) = whole {
        return parity_of(&stamps, number);
    }
    let changes: Option<Vec<u64>> =
        (0..data).map(|unit| new(unit).map_or(Some(0), |word| Some(word ^ old(unit)?))).collect();
    match (changes, old(data + number)) {
        (Some(changes), Some(parity)) => parity ^ parity_of(&changes, number),
        _ => {
            let old = row(layout, known, stripe, offset);
            let stamps: Vec<u64> = (0..data).map(|unit| new(unit).unwrap_or(old[unit])).collect();
            parity_of(&stamps, number)
        }
    }
}

fn parity_of(stamps: &[u64], number: usize) -> u64 {
    parity::parity(number, 1, stamps.iter().map(std::slice::from_ref))[0]
}

/// The word of a member's sector in an array that began full: `host` tells those of the array's sectors.
pub(super) fn first_word(layout: &ArrayLayout, disk: u32, at: Lba, host: impl Fn(Lba) -> u64) -> u64 {
    match layout.inverse(disk, at) {
        Role::Data(lba) | Role::Copy(lba, _) => host(lba),
        Role::Parity { number, stripe, offset } => {
            let word = |index: usize| host(layout.lba_of(Unit { stripe, index: index as u32, offset }));
            parity_of(&(0..layout.data_disks()).map(word).collect::<Vec<_>>(), number)
        }
        Role::Unused => 0,
    }
}

/// Compares copies with each other, and parity with data, in some sectors of all members that were read.
pub(super) fn compare(layout: &ArrayLayout, known: &KnownStamps, at: Lba, sectors: u64) -> DiskResult {
    let read = |disk: u32, at: Lba| known.get(&(disk, at.0)).copied();
    for at in (0..sectors).map(|i| at + i) {
        for disk in 0..layout.disks() as u32 {
            let Some(found) = read(disk, at) else { continue };
            let none = WrittenStamps { lba: Lba(0), stamps: &[] };
            let should = match layout.inverse(disk, at) {
                Role::Parity { .. } if is_whole(layout, known, at) => written_word(layout, known, &none, disk, at),
                Role::Copy(lba, _) => {
                    let (first, place) = layout.copy(lba, 0);
                    read(first, place).unwrap_or(found)
                }
                _ => found,
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
fn is_whole(layout: &ArrayLayout, known: &KnownStamps, at: Lba) -> bool {
    let (stripe, data) = (at.0 / layout.chunk_sectors(), layout.data_disks() as u32);
    (0..data).all(|unit| known.contains_key(&(layout.member_of(stripe, unit), at.0)))
}
