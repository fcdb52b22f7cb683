//! Copies and parity in check mode: computes, sector by sector, the stamps that a command returns or writes on each member, from the stamps
//! that it has read.
//!
//! P is the XOR of the data; Q is Σ 2ⁱ·Dᵢ in GF(2⁸) with the polynomial x⁸ + x⁴ + x³ + x² + 1, byte by byte, as in Anvin, "The mathematics
//! of RAID-6" (2004); R is Σ 4ⁱ·Dᵢ, the factors of ZFS's third parity. Up to three lost units are the solution of as many equations, whose
//! factors form a Vandermonde matrix. Written by hand, because crates for erasure codes use other factors than md and ZFS.

use std::collections::BTreeMap;

use super::address::{ArrayLayout, Role, Unit};
use super::plan::Sub;
use crate::error::{DiskResult, Fault};
use crate::units::Lba;

/// Stamps that a command has read, by member and sector.
#[derive(Debug, Default)]
pub(super) struct KnownSectors(BTreeMap<(u32, Lba), u64>);

impl KnownSectors {
    /// Notes the stamps that a member's command has read, except of sectors that are known already.
    pub fn note(&mut self, sub: &Sub, stamps: &[u64]) {
        for (i, &stamp) in (0..).zip(stamps) {
            self.0.entry((sub.disk, sub.at + i)).or_insert(stamp);
        }
    }

    fn get(&self, disk: u32, at: Lba) -> Option<u64> {
        self.0.get(&(disk, at)).copied()
    }
}

/// Stamps that a command writes, from its first sector on. Empty for the array's own work.
#[derive(Clone, Copy)]
pub(super) struct WrittenSectors<'a> {
    pub lba: Lba,
    pub stamps: &'a [u64],
}

impl WrittenSectors<'_> {
    fn get(&self, lba: Lba) -> Option<u64> {
        let at = lba.0.checked_sub(self.lba.0)?;
        self.stamps.get(at as usize).copied()
    }
}

/// Stamps that the host reads.
pub(super) fn assemble(layout: &ArrayLayout, known: &KnownSectors, lba: Lba, sectors: u64) -> Vec<u64> {
    (0..sectors).map(|i| stamp_of(layout, known, lba + i)).collect()
}

/// Stamp of a sector of the array, read or restored.
fn stamp_of(layout: &ArrayLayout, known: &KnownSectors, lba: Lba) -> u64 {
    let mut copies = (0..layout.copies()).map(|copy| layout.copy(lba, copy));
    let read = copies.find_map(|(disk, at)| known.get(disk, at));
    read.unwrap_or_else(|| {
        let Unit { stripe, index, offset } = layout.unit(lba);
        whole_row(layout, &known_row(layout, known, stripe, offset))[index as usize]
    })
}

/// The stamps known of a row of a stripe, data and then parities.
fn known_row(layout: &ArrayLayout, known: &KnownSectors, stripe: u64, offset: u64) -> Vec<Option<u64>> {
    let (units, at) = ((layout.data_disks() + layout.parities()) as u32, layout.at(stripe, offset));
    (0..units).map(|unit| known.get(layout.member_of(stripe, unit), at)).collect()
}

/// All data of a row, restored from what was read.
fn whole_row(layout: &ArrayLayout, row: &[Option<u64>]) -> Vec<u64> {
    restored(layout.data_disks(), row).expect("a plan reads as much as is needed")
}

/// Stamps that a member's command writes.
pub(super) fn written(layout: &ArrayLayout, known: &KnownSectors, own: &WrittenSectors, sub: &Sub) -> Vec<u64> {
    let stamp = |at| match layout.inverse(sub.disk, at) {
        Role::Data(lba) | Role::Copy(lba, _) => own.get(lba).unwrap_or_else(|| stamp_of(layout, known, lba)),
        Role::Parity { number, stripe, offset } => new_parity(layout, known, own, (stripe, offset), number),
        Role::Unused => 0,
    };
    (0..sub.sectors).map(|i| stamp(sub.at + i)).collect()
}

/// Computes the new parity `number` of a row: from all of its data if known, else from the old parity and the changes, else from restored
/// data.
fn new_parity(
    layout: &ArrayLayout,
    known: &KnownSectors,
    own: &WrittenSectors,
    (stripe, offset): (u64, u64),
    number: usize,
) -> u64 {
    let (data, old) = (layout.data_disks(), known_row(layout, known, stripe, offset));
    let new = |unit: usize| own.get(layout.lba_of(Unit { stripe, index: unit as u32, offset }));
    let units: Option<Vec<u64>> = (0..data).map(|unit| new(unit).or(old[unit])).collect();
    if let Some(units) = units {
        return parity(number, &units);
    }
    // Parity is linear: the change of the parity is the parity of the changes. `None` for a unit that changes, and was not read.
    let change = |unit: usize| match new(unit) {
        None => Some(0),
        Some(new) => Some(old[unit]? ^ new),
    };
    let changes: Option<Vec<u64>> = (0..data).map(change).collect();
    if let (Some(changes), Some(old_parity)) = (changes, old[data + number]) {
        return parity(number, &changes) ^ old_parity;
    }
    let restored = whole_row(layout, &old);
    let units: Vec<u64> = (0..data).map(|unit| new(unit).unwrap_or(restored[unit])).collect();
    parity(number, &units)
}

/// The stamp of a member's sector in an array that began full. `host` returns the stamp of a sector of the array.
pub(super) fn first_stamp(layout: &ArrayLayout, disk: u32, at: Lba, host: impl Fn(Lba) -> u64) -> u64 {
    match layout.inverse(disk, at) {
        Role::Data(lba) | Role::Copy(lba, _) => host(lba),
        Role::Parity { number, stripe, offset } => {
            let stamp = |index: usize| host(layout.lba_of(Unit { stripe, index: index as u32, offset }));
            parity(number, &(0..layout.data_disks()).map(stamp).collect::<Vec<_>>())
        }
        Role::Unused => 0,
    }
}

/// Compares copies with each other, and parity with data, in sectors that were read from all members.
pub(super) fn compare(layout: &ArrayLayout, known: &KnownSectors, at: Lba, sectors: u64) -> DiskResult {
    for disk in 0..layout.disks() as u32 {
        for at in (0..sectors).map(|i| at + i) {
            let Some(found) = known.get(disk, at) else { continue };
            if expected(layout, known, disk, at).is_some_and(|expected| expected != found) {
                let message = format!("sector {at} of member {disk} is not what the other members say");
                return Err(Box::new(Fault::Inconsistent(message)));
            }
        }
    }
    Ok(())
}

/// The stamp that a member's sector should have by the sectors of the others, if those were read.
fn expected(layout: &ArrayLayout, known: &KnownSectors, disk: u32, at: Lba) -> Option<u64> {
    match layout.inverse(disk, at) {
        Role::Parity { number, stripe, offset } => {
            let row = known_row(layout, known, stripe, offset);
            let data: Option<Vec<u64>> = row[..layout.data_disks()].iter().copied().collect();
            data.map(|data| parity(number, &data))
        }
        Role::Copy(lba, _) => {
            let (first, place) = layout.copy(lba, 0);
            known.get(first, place)
        }
        Role::Data(_) | Role::Unused => None,
    }
}

/// The polynomial without its highest term.
const POLYNOMIAL: u64 = 0x1d;
/// The lowest bit of each byte.
const LOW: u64 = 0x0101_0101_0101_0101;

/// Parity `number` of data units: P, Q and R for 0, 1 and 2.
fn parity(number: usize, data: &[u64]) -> u64 {
    // Horner's rule from the last unit on: each step multiplies the sum by 2^number.
    data.iter().rev().fold(0, |sum, unit| (0..number).fold(sum, |sum, _| twice(sum)) ^ unit)
}

/// The data units of a stripe, with missing ones restored. `units` are the data units, then the parities. `None` if more units are missing
/// than there are parities.
fn restored(data: usize, units: &[Option<u64>]) -> Option<Vec<u64>> {
    let (known, parities) = units.split_at(data);
    let lost: Vec<usize> = (0..data).filter(|&unit| known[unit].is_none()).collect();
    let mut whole: Vec<u64> = known.iter().map(|unit| unit.unwrap_or(0)).collect();
    let mut equations: Vec<Equation> = Vec::new();
    for (number, stored) in parities.iter().enumerate() {
        // As many equations as unknowns are enough.
        if let Some(stored) = stored
            && equations.len() < lost.len()
        {
            // The stored parity less that of the known units is what the lost units contribute to it.
            let contribution = stored ^ parity(number, &whole);
            equations.push((lost.iter().map(|&unit| power(number * unit)).collect(), contribution));
        }
    }
    if equations.len() < lost.len() {
        return None;
    }
    for (&unit, value) in lost.iter().zip(solve(equations)) {
        whole[unit] = value;
    }
    Some(whole)
}

/// A sum of unknown units, each times its factor.
type Equation = (Vec<u8>, u64);

/// Solves as many equations as there are unknown units, by elimination. They have exactly one solution, because each data unit
/// has a power of 2 of its own as factor (`DATA_DISKS_MAX`).
fn solve(mut equations: Vec<Equation>) -> Vec<u64> {
    for unknown in 0..equations.len() {
        let row = (unknown..equations.len()).find(|&row| equations[row].0[unknown] != 0);
        equations.swap(unknown, row.expect("the equations are independent"));
        // Gauss-Jordan elimination over GF(2^8), where addition and subtraction are XOR. The pivot is scaled so that its own unknown has the
        // factor 1. Multiplied by another equation's factor of the unknown, it eliminates the unknown from that equation.
        let pivot = times_equation(&equations[unknown], inverse(equations[unknown].0[unknown]));
        for (_, other) in equations.iter_mut().enumerate().filter(|(row, _)| *row != unknown) {
            let (factors, sum) = times_equation(&pivot, other.0[unknown]);
            other.0.iter_mut().zip(factors).for_each(|(factor, subtracted)| *factor ^= subtracted);
            other.1 ^= sum;
        }
        equations[unknown] = pivot;
    }
    equations.into_iter().map(|(_, unit)| unit).collect()
}

fn times_equation((factors, sum): &Equation, factor: u8) -> Equation {
    (factors.iter().map(|&own| times(u64::from(own), factor) as u8).collect(), times(*sum, factor))
}

/// Each byte of a word times 2.
fn twice(word: u64) -> u64 {
    ((word & !(LOW << 7)) << 1) ^ (((word >> 7) & LOW) * POLYNOMIAL)
}

/// Each byte of a word times `factor`.
fn times(word: u64, factor: u8) -> u64 {
    let (mut sum, mut shifted) = (0, word);
    for bit in 0..8 {
        if factor >> bit & 1 == 1 {
            sum ^= shifted;
        }
        shifted = twice(shifted);
    }
    sum
}

/// 2 to the power `exponent`; the powers repeat after 255.
fn power(exponent: usize) -> u8 {
    (0..exponent % 255).fold(1, |product, _| twice(product)) as u8
}

/// 1 / `a`, which is a²⁵⁴; of 0, 0.
fn inverse(a: u8) -> u8 {
    (0..253).fold(a, |product, _| times(u64::from(product), a) as u8)
}

#[cfg(test)]
mod tests {
    use std::iter;

    use proptest::prelude::*;

    use super::*;
    use crate::device::level::Level;
    use crate::request::Op;

    fn known(stamps: &BTreeMap<(u32, u64), u64>) -> KnownSectors {
        let mut known = KnownSectors::default();
        for (&(disk, at), &stamp) in stamps {
            known.note(&Sub { disk, op: Op::Read, at: Lba(at), sectors: 1 }, &[stamp]);
        }
        known
    }

    #[test]
    fn copies_and_parity_that_differ_are_told() {
        for level in [Level::Raid1, Level::Raid10, Level::Raid5, Level::Raid6] {
            let layout = ArrayLayout::new(level, 4, &[16; 4]).unwrap();
            let at = |disk: u32, at: u64| first_stamp(&layout, disk, Lba(at), |lba| 1 + lba.0 * 7);
            let all: BTreeMap<(u32, u64), u64> =
                (0..4).flat_map(|disk| (0..16).map(move |place| ((disk, place), at(disk, place)))).collect();
            compare(&layout, &known(&all), Lba(0), 16).unwrap();
            for (disk, place) in [(0, 0), (1, 5), (3, 15)] {
                let said = format!("{level:?}: {place} of member {disk}");
                let mut damaged = all.clone();
                damaged.insert((disk, place), at(disk, place) ^ 1);
                let error = compare(&layout, &known(&damaged), Lba(0), 16).expect_err(&said);
                assert!(error.to_string().contains(&format!("sector {place} of member")), "{said}: {error}");
                assert!(compare(&layout, &known(&damaged), Lba(place + 1), 15 - place).is_ok(), "{said}");
                // What was not read is not compared.
                damaged.retain(|&(of, at), _| of == disk || at != place);
                assert!(compare(&layout, &known(&damaged), Lba(0), 16).is_ok(), "{said}");
            }
        }
    }

    #[test]
    fn what_a_member_lost_is_read_and_written_from_the_others() {
        for level in [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5, Level::Raid6] {
            let layout = ArrayLayout::new(level, 4, &[16; 4]).unwrap();
            let all = |disk: u32, at: u64| first_stamp(&layout, disk, Lba(at), |lba| 1 + lba.0 * 7);
            let lost = if level.parities() > 0 || level.copies(4) > 1 { 2 } else { 4 };
            let stamps: BTreeMap<(u32, u64), u64> = (0..4)
                .filter(|&disk| disk != lost)
                .flat_map(|disk| (0..16).map(move |at| ((disk, at), all(disk, at))))
                .collect();
            let host: Vec<u64> = (0..layout.host_sectors).map(|lba| 1 + lba * 7).collect();
            let known = known(&stamps);
            assert_eq!(assemble(&layout, &known, Lba(0), layout.host_sectors), host, "{level:?}");
            // A write of what lies there changes nothing, parity included.
            for (first, count) in [(0, 0), (1, 1), (2, 7), (0, host.len())] {
                let own = WrittenSectors { lba: Lba(first as u64), stamps: &host[first..first + count] };
                for disk in 0..4 {
                    let sub = Sub { disk, op: Op::Write, at: Lba(0), sectors: 16 };
                    let expected: Vec<u64> = (0..16).map(|at| all(disk, at)).collect();
                    assert_eq!(written(&layout, &known, &own, &sub), expected, "{level:?}, {first}, {disk}");
                }
            }
        }
    }

    #[test]
    fn what_was_read_twice_is_known_once() {
        let mut known = KnownSectors::default();
        let read = |disk, at, sectors| Sub { disk, op: Op::Read, at: Lba(at), sectors };
        known.note(&read(1, 10, 2), &[1, 2]);
        known.note(&read(1, 9, 4), &[5, 6, 7, 8]);
        assert_eq!(
            [8, 9, 10, 11, 12, 13].map(|at| known.get(1, Lba(at))),
            [None, Some(5), Some(1), Some(2), Some(8), None]
        );
        assert_eq!(known.get(0, Lba(10)), None);
    }

    /// A product of bytes the long way: a polynomial product, then the remainder.
    fn product(a: u8, b: u8) -> u8 {
        let mut long = (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u32, |sum, bit| sum ^ u32::from(a) << bit);
        for bit in (8..16).rev() {
            if long >> bit & 1 == 1 {
                long ^= 0x11d << (bit - 8);
            }
        }
        long as u8
    }

    #[test]
    fn every_product_and_inverse_is_the_field_s() {
        for a in 0..=255u8 {
            for b in 0..=255 {
                assert_eq!(times(u64::from(a) << 24, b), u64::from(product(a, b)) << 24, "{a} times {b}");
            }
            assert_eq!(product(a, inverse(a)), u8::from(a != 0));
        }
        let mut powers: Vec<u8> = (0..255).map(power).collect();
        powers.sort_unstable();
        assert_eq!(powers, (1..=255).collect::<Vec<u8>>(), "2 generates the field");
    }

    fn with_parities(data: &[u64], parities: usize) -> Vec<Option<u64>> {
        let parities = (0..parities).map(|number| parity(number, data));
        data.iter().copied().chain(parities).map(Some).collect()
    }

    proptest! {
        #[test]
        fn any_loss_within_the_parities_is_restored(
            data in prop::collection::vec(any::<u64>(), 1..24), parities in 1usize..=3, third in any::<prop::sample::Index>(),
        ) {
            let whole = with_parities(&data, parities);
            let z = third.index(whole.len());
            for x in 0..whole.len() {
                for y in 0..whole.len() {
                    let mut units = whole.clone();
                    (units[x], units[y], units[z]) = (None, None, None);
                    let missing = units.iter().filter(|unit| unit.is_none()).count();
                    let expected = (missing <= parities).then(|| data.clone());
                    prop_assert_eq!(restored(data.len(), &units), expected, "without {}, {} and {}", x, y, z);
                }
            }
        }

        #[test]
        fn changes_added_to_the_parities_give_those_of_the_new_data(
            mut data in prop::collection::vec(any::<u64>(), 1..24), index in any::<prop::sample::Index>(), new in any::<u64>(),
        ) {
            let old: Vec<u64> = (0..3).map(|number| parity(number, &data)).collect();
            let index = index.index(data.len());
            let mut changes = vec![0; data.len()];
            changes[index] = data[index] ^ new;
            data[index] = new;
            for (number, old) in old.into_iter().enumerate() {
                prop_assert_eq!(old ^ parity(number, &changes), parity(number, &data));
            }
        }
    }

    #[test]
    fn the_widest_stripe_is_restored_from_every_three_sums() {
        let data: Vec<u64> =
            iter::successors(Some(1u64), |n| Some(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).take(255).collect();
        let whole = with_parities(&data, 3);
        for lost in [[0, 1, 254], [127, 128, 129], [0, 254, 255], [3, 253, 256], [9, 99, 257], [7, 255, 257]] {
            let mut units = whole.clone();
            lost.iter().for_each(|&unit| units[unit] = None);
            assert_eq!(restored(255, &units).as_ref(), Some(&data), "without {lost:?}");
        }
    }
}
