//! Layout of an array's sectors on its members: pure arithmetic, both ways.
//!
//! The layouts are those of Linux's md: RAID 5 and 6 left-symmetric, RAID 10 "near". Time, contents and failed disks are not its business.
//! `docs/reference/arrays.md` has a table of each level.

#[cfg(test)]
mod tests;

use super::level::{Level, LevelSpec, SectorSpread};
use crate::error::Error;
use crate::geometry::{Divisor, pieces_by_divisor};
use crate::units::Lba;

/// The most sectors of an array: four times as many as 4,096 of the largest drives have.
const SECTORS_MAX: u64 = 1 << 54;

/// Layout of an array's sectors.
#[derive(Clone, Debug)]
pub struct ArrayLayout {
    /// The level.
    pub level: Level,
    spec: &'static LevelSpec,
    chunk: Divisor,
    /// Data sectors of a stripe.
    stripe: Divisor,
    disks: Divisor,
    /// Data units of a stripe; without parity, the number of disks.
    units: Divisor,
    copies: Divisor,
    /// If members lie end to end, the LBA at which each starts, and the end of the last.
    starts: Vec<u64>,
    /// Sectors in use on each member, from its first on.
    used: Vec<u64>,
    /// Sectors that the array offers.
    pub host_sectors: u64,
}

/// A run of sectors of the array that lie together on a member, and on each of its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPiece {
    /// The first sector, in the array.
    pub lba: Lba,
    /// Number of sectors.
    pub sectors: u64,
    /// The member that has the first copy.
    pub disk: u32,
    /// The first sector, on that member.
    pub at: Lba,
}

/// A sector's place in its stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The stripe.
    pub stripe: u64,
    /// Data unit of the stripe, from 0.
    pub index: u32,
    /// Sector of the unit.
    pub offset: u64,
}

/// Role of a member's sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The first copy of a sector of the array.
    Data(Lba),
    /// A further copy of a sector of the array, from 1.
    Copy(Lba, u32),
    /// A parity of a stripe at this offset.
    Parity {
        /// P, Q or R, from 0.
        number: usize,
        /// The stripe.
        stripe: u64,
        /// Sector of the unit.
        offset: u64,
    },
    /// Nothing: the rest of a member that holds no whole chunk, or for which other members have no room.
    Unused,
}

impl ArrayLayout {
    /// The layout of an array of members with this many sectors each. A level without chunks ignores `chunk_sectors`.
    pub fn new(level: Level, chunk_sectors: u64, member_sectors: &[u64]) -> Result<ArrayLayout, Error> {
        level.check_disks(level.name(), member_sectors.len())?;
        if chunk_sectors == 0 {
            return Err(Error::Usage("a chunk of 0 sectors: give a chunk of 512 bytes or more".into()));
        }
        let disks = member_sectors.len() as u64;
        let data = disks - level.parities() as u64;
        let copies = u64::from(level.copies(member_sectors.len()));
        let used = used_sectors(level, chunk_sectors, member_sectors)?;
        let sum = used.iter().try_fold(0u64, |sum, &n| sum.checked_add(n)).filter(|&sum| sum <= SECTORS_MAX);
        let Some(sum) = sum else {
            return Err(Error::Impossible(
                "the members have more than 2^54 sectors: give fewer or smaller ones".into(),
            ));
        };
        let host_sectors = match level.spec().spread {
            SectorSpread::EndToEnd => sum,
            SectorSpread::Whole => used[0],
            SectorSpread::Chunks => sum / chunk_sectors / copies * chunk_sectors,
            SectorSpread::Stripes => used[0] * data,
        };
        let smallest = used.iter().copied().min().unwrap_or(1);
        // Bounded, so that products don't overflow even on a level without chunks, which does not use it.
        let chunk = Divisor::new(chunk_sectors.min(smallest));
        let mut starts = vec![0];
        starts.extend(used.iter().scan(0, |end, n| {
            *end += n;
            Some(*end)
        }));
        Ok(ArrayLayout {
            level,
            spec: level.spec(),
            chunk,
            stripe: Divisor::new(chunk.value * data),
            disks: Divisor::new(disks),
            units: Divisor::new(data),
            copies: Divisor::new(copies),
            starts,
            used,
            host_sectors,
        })
    }

    /// Way in which sectors are spread over the members.
    #[inline]
    pub fn spread(&self) -> SectorSpread {
        self.spec.spread
    }

    /// True if each source has a member of its own.
    #[inline]
    pub fn is_per_source(&self) -> bool {
        self.spec.is_per_source
    }

    /// Number of members.
    pub fn disks(&self) -> usize {
        self.used.len()
    }

    /// Data units of a stripe: the disks without the parities.
    pub fn data_disks(&self) -> usize {
        self.units.value as usize
    }

    /// Parity units of a stripe.
    pub fn parities(&self) -> usize {
        self.spec.parities
    }

    /// Number of copies of each sector, parity not counted.
    pub fn copies(&self) -> u32 {
        self.copies.value as u32
    }

    /// Sectors of a chunk.
    pub fn chunk_sectors(&self) -> u64 {
        self.chunk.value
    }

    /// Data sectors of a stripe.
    pub fn stripe_sectors(&self) -> u64 {
        self.stripe.value
    }

    /// The parts of a member's sectors in its chunks: the chunk, the first sector of it, and how many.
    #[inline]
    pub(super) fn by_chunk(&self, at: Lba, sectors: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        pieces_by_divisor(at.0, sectors, self.chunk)
    }

    /// The parts of the array's sectors in its stripes: the stripe, the first data sector of it, and how many.
    #[inline]
    pub(super) fn by_stripe(&self, lba: Lba, sectors: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        pieces_by_divisor(lba.0, sectors, self.stripe)
    }

    /// True if it keeps copies or parity.
    pub fn is_redundant(&self) -> bool {
        self.parities() > 0 || self.copies() > 1
    }

    /// Sectors in use on a member, from its first on; 0 for a member that does not exist.
    pub fn member_sectors(&self, disk: u32) -> u64 {
        self.used.get(disk as usize).copied().unwrap_or(0)
    }

    /// Sectors that every source can address: those of the smallest member where each source has its own, else all.
    pub fn sectors_for_all(&self) -> u64 {
        if self.is_per_source() { self.used.iter().copied().min().unwrap_or(0) } else { self.host_sectors }
    }

    /// The array's LBA of a member's first sector where members lie end to end (span, dedicated).
    pub fn member_start(&self, disk: u32) -> Lba {
        Lba(self.starts.get(disk as usize).copied().unwrap_or(self.host_sectors))
    }

    /// The member and its sector that hold a copy of `lba`, from 0.
    #[inline]
    pub fn copy(&self, lba: Lba, copy: u32) -> (u32, Lba) {
        match self.spread() {
            SectorSpread::Whole => (copy, lba),
            SectorSpread::Chunks => {
                let (chunk, offset) = self.chunk.divide(lba.0);
                let (row, disk) = self.disks.divide(chunk * self.copies.value + u64::from(copy));
                (disk as u32, self.at(row, offset))
            }
            SectorSpread::EndToEnd | SectorSpread::Stripes => {
                let piece = self.piece(lba, 1);
                (piece.disk, piece.at)
            }
        }
    }

    /// The pieces of an extent, ascending, without sectors beyond the array. Each piece lies within one chunk, if the level has chunks, and
    /// each of its copies is contiguous on its member.
    #[inline]
    pub fn pieces(&self, lba: Lba, sectors: u64) -> impl Iterator<Item = MemberPiece> + '_ {
        let mut at = lba;
        let mut left = sectors.min(self.host_sectors.saturating_sub(lba.0));
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let piece = self.piece(at, left);
            (at, left) = (at + piece.sectors, left - piece.sectors);
            Some(piece)
        })
    }

    /// The first piece of an extent inside the array.
    #[inline]
    fn piece(&self, lba: Lba, left: u64) -> MemberPiece {
        let (chunk, offset) = self.chunk.divide(lba.0);
        let (row, disk) = match self.spread() {
            SectorSpread::Whole => return MemberPiece { lba, sectors: left, disk: 0, at: lba },
            SectorSpread::EndToEnd => {
                let disk = self.starts.partition_point(|&start| start <= lba.0).clamp(1, self.used.len()) - 1;
                let at = lba - self.starts[disk];
                // Never 0, or `pieces` would not end.
                let sectors = left.min(self.used[disk].saturating_sub(at.0).max(1));
                return MemberPiece { lba, sectors, disk: disk as u32, at };
            }
            SectorSpread::Chunks => self.disks.divide(chunk * self.copies.value),
            SectorSpread::Stripes => {
                let (stripe, index) = self.units.divide(chunk);
                (stripe, u64::from(self.member_of(stripe, index as u32)))
            }
        };
        let sectors = left.min(self.chunk.value - offset);
        MemberPiece { lba, sectors, disk: disk as u32, at: self.at(row, offset) }
    }

    /// The place of a sector in its stripe (levels with parity).
    #[inline]
    pub fn unit(&self, lba: Lba) -> Unit {
        let (chunk, offset) = self.chunk.divide(lba.0);
        let (stripe, index) = self.units.divide(chunk);
        Unit { stripe, index: index as u32, offset }
    }

    /// The sector of the array at a place in a stripe: undoes `unit`.
    #[inline]
    pub fn lba_of(&self, unit: Unit) -> Lba {
        Lba((unit.stripe * self.units.value + u64::from(unit.index)) * self.chunk.value + unit.offset)
    }

    /// The member that has a unit of a stripe: the data units from 0, then P, Q and R, as many as the level has.
    #[inline]
    pub fn member_of(&self, stripe: u64, unit: u32) -> u32 {
        let (data, disks) = (self.units.value, self.disks.value);
        // From the disk of P on, the parities come first, and then the data.
        let steps = match u64::from(unit) {
            unit if unit < data => unit + self.spec.parities as u64,
            parity => parity - data,
        };
        let member = self.parity_disk(stripe) + steps;
        (if member >= disks { member - disks } else { member }) as u32
    }

    /// The member that has P. The other parities and then the data are on the members after it, continuing at member 0.
    #[inline]
    fn parity_disk(&self, stripe: u64) -> u64 {
        let last = self.disks.value - 1;
        if self.spec.rotates { last - self.disks.remainder(stripe) } else { last }
    }

    /// Place of an offset of a stripe on every member.
    #[inline]
    pub fn at(&self, stripe: u64, offset: u64) -> Lba {
        Lba(stripe * self.chunk.value + offset)
    }

    /// Role of a member's sector.
    pub fn inverse(&self, disk: u32, at: Lba) -> Role {
        if at.0 >= self.member_sectors(disk) {
            return Role::Unused;
        }
        let (row, offset) = self.chunk.divide(at.0);
        let position = row * self.disks.value + u64::from(disk);
        match self.spread() {
            SectorSpread::EndToEnd => Role::Data(at + self.starts[disk as usize]),
            SectorSpread::Whole => copy(at, u64::from(disk)),
            SectorSpread::Chunks => {
                let (chunk, number) = self.copies.divide(position);
                let lba = self.at(chunk, offset);
                if lba.0 < self.host_sectors { copy(lba, number) } else { Role::Unused }
            }
            SectorSpread::Stripes => self.role(row, u64::from(disk), offset),
        }
    }

    /// Role of a member in a stripe.
    fn role(&self, stripe: u64, disk: u64, offset: u64) -> Role {
        let steps = self.disks.remainder(disk + self.disks.value - self.parity_disk(stripe));
        match steps.checked_sub(self.spec.parities as u64) {
            None => Role::Parity { number: steps as usize, stripe, offset },
            Some(index) => Role::Data(self.lba_of(Unit { stripe, index: index as u32, offset })),
        }
    }
}

fn copy(lba: Lba, number: u64) -> Role {
    if number == 0 { Role::Data(lba) } else { Role::Copy(lba, number as u32) }
}

/// Sectors in use on each member: all where members lie end to end, else as many as the smallest has, in whole chunks
/// where there are chunks.
fn used_sectors(level: Level, chunk_sectors: u64, member_sectors: &[u64]) -> Result<Vec<u64>, Error> {
    let smallest = member_sectors.iter().copied().min().unwrap_or(0);
    if smallest == 0 {
        return Err(Error::Impossible("a member has no sectors: give it a larger drive or capacity".into()));
    }
    let common = if level.is_striped() { smallest - smallest % chunk_sectors } else { smallest };
    if common == 0 {
        return Err(Error::Impossible(format!(
            "the smallest member has {smallest} sectors, less than a chunk of {chunk_sectors}: lower chunk, or give it a \
             larger drive"
        )));
    }
    match level.spec().spread {
        SectorSpread::EndToEnd => Ok(member_sectors.to_vec()),
        _ => Ok(vec![common; member_sectors.len()]),
    }
}
