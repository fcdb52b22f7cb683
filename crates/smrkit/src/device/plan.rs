//! Plan of an array's accesses to its members for a command: reads first where parity or a failed member needs them, then the rest.
//!
//! A write of part of a stripe reads either what it replaces and the parity (read-modify-write) or the rest of the stripe
//! (reconstruct-write), whichever is fewer reads. Parity is written for just those sectors whose data changes.

use std::ops::Range;

use smallvec::SmallVec;

use super::address::{ArrayLayout, Role};
use super::health::Health;
use super::level::SectorSpread;
use crate::error::{DiskResult, Fault};
use crate::geometry::{Divisor, pieces_by_divisor};
use crate::request::Op;
use crate::units::Lba;

/// A command of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sub {
    pub disk: u32,
    pub op: Op,
    pub at: Lba,
    pub sectors: u64,
}

/// The commands to the members, in two parts: those of `second` are sent when all of `first` have completed.
#[derive(Clone, Debug, Default)]
pub(super) struct MemberPlan {
    pub first: Vec<Sub>,
    pub second: Vec<Sub>,
}

impl MemberPlan {
    pub fn clear(&mut self) {
        self.first.clear();
        self.second.clear();
    }

    /// Joins adjacent commands to the same member.
    fn join(&mut self) {
        for subs in [&mut self.first, &mut self.second] {
            if subs.len() > 1 {
                subs.sort_unstable_by_key(|sub| (sub.disk, sub.at));
                // `next` is removed if it continues `sub`, which then takes its sectors.
                subs.dedup_by(|next, sub| {
                    let touch = sub.disk == next.disk && sub.op == next.op && sub.at + sub.sectors == next.at;
                    sub.sectors += if touch { next.sectors } else { 0 };
                    touch
                });
            }
        }
    }
}

/// Makes plans for an array as it is now.
pub(super) struct Planner<'a, F> {
    pub layout: &'a ArrayLayout,
    pub health: &'a [Health],
    /// Picks one of several copies to read.
    pub choose: F,
}

impl<F: Fn(&[(u32, Lba)]) -> usize> Planner<'_, F> {
    /// True if a member holds these sectors.
    fn has(&self, disk: u32, at: Lba, sectors: u64) -> bool {
        self.health[disk as usize].has(at, sectors)
    }

    /// The members that take writes.
    fn working(&self) -> impl Iterator<Item = u32> {
        (0..self.layout.disks() as u32).filter(|&disk| self.works(disk))
    }

    /// True if a member takes writes. A new member takes all of them, because the rebuild overwrites those to parts not yet rebuilt.
    fn works(&self, disk: u32) -> bool {
        self.health[disk as usize].works()
    }

    /// The plan for a host's command.
    pub fn host(&self, op: Op, lba: Lba, sectors: u64, plan: &mut MemberPlan) -> DiskResult {
        plan.clear();
        match op {
            Op::Flush => {
                plan.second.extend(self.working().map(|disk| Sub { disk, op, at: Lba(0), sectors: 0 }));
                return Ok(());
            }
            _ if self.layout.parities() == 0 => self.copies(op, lba, sectors, plan)?,
            Op::Discard => self.discard(lba, sectors, plan),
            Op::Read | Op::Write => {
                for (stripe, from, count) in self.layout.by_stripe(lba, sectors) {
                    for (units, offsets) in self.split(from, from + count) {
                        match op {
                            Op::Read => self.read(stripe, &units, &offsets, plan)?,
                            _ => self.write(stripe, &units, &offsets, plan)?,
                        }
                    }
                }
            }
        }
        plan.join();
        Ok(())
    }

    /// Plans the accesses to an array of copies, or of single disks: a read from one copy, a write to all that work.
    #[inline]
    fn copies(&self, op: Op, lba: Lba, sectors: u64, plan: &mut MemberPlan) -> DiskResult {
        for piece in self.layout.pieces(lba, sectors) {
            if op == Op::Read && self.layout.copies() > 1 {
                plan.second.push(self.read_copy(piece.lba, piece.sectors, None)?);
                continue;
            }
            // A member that is being rebuilt is written everywhere.
            let before = plan.second.len();
            let live = self.copies_of(piece.lba).filter(|&(disk, _)| self.works(disk));
            plan.second.extend(live.map(|(disk, at)| Sub { disk, op, at, sectors: piece.sectors }));
            if plan.second.len() == before {
                return Err(lost(piece.lba));
            }
        }
        Ok(())
    }

    fn copies_of(&self, lba: Lba) -> impl Iterator<Item = (u32, Lba)> {
        (0..self.layout.copies()).map(move |number| self.layout.copy(lba, number))
    }

    /// The read of a copy where it is up to date, from any other member than `except`.
    fn read_copy(&self, lba: Lba, sectors: u64, except: Option<u32>) -> DiskResult<Sub> {
        let is_good = |&(disk, at): &(u32, Lba)| Some(disk) != except && self.has(disk, at, sectors);
        let live: SmallVec<[(u32, Lba); 4]> = self.copies_of(lba).filter(is_good).collect();
        if live.is_empty() {
            return Err(lost(lba));
        }
        let (disk, at) = live[(self.choose)(&live)];
        Ok(Sub { disk, op: Op::Read, at, sectors })
    }

    /// Splits the data sectors `from..to` of a stripe into at most three pieces: some units, and the same offsets in each.
    fn split(&self, from: u64, to: u64) -> SmallVec<[(Range<u32>, Range<u64>); 3]> {
        let chunk = self.layout.chunk_sectors();
        let (first, last) = (from / chunk, (to - 1) / chunk);
        let (head, tail) = (from % chunk, (to - 1) % chunk + 1);
        let (first, last) = (first as u32, last as u32);
        let mut pieces = SmallVec::new();
        let mut add = |units: Range<u32>, offsets: Range<u64>| {
            if !units.is_empty() && !offsets.is_empty() {
                pieces.push((units, offsets));
            }
        };
        if first == last {
            add(first..last + 1, head..tail);
        } else {
            // The first unit has the sectors from `head` on, the last one those before `tail`, and units in between have all. So which units
            // have a sector changes at `head` and at `tail`; between these two offsets it is all units or only those in between.
            let (low, high) = (head.min(tail), head.max(tail));
            add(first + 1..last + 1, 0..low);
            if head < tail {
                add(first..last + 1, low..high)
            } else {
                add(first + 1..last, low..high)
            }
            add(first..last, high..chunk);
        }
        pieces
    }

    fn sub(&self, op: Op, stripe: u64, unit: u32, offsets: &Range<u64>) -> Sub {
        Sub {
            disk: self.layout.member_of(stripe, unit),
            op,
            at: self.layout.at(stripe, offsets.start),
            sectors: offsets.end - offsets.start,
        }
    }

    fn has_unit(&self, stripe: u64, unit: u32, offsets: &Range<u64>) -> bool {
        let sub = self.sub(Op::Read, stripe, unit, offsets);
        self.has(sub.disk, sub.at, sub.sectors)
    }

    /// Data units, then parities.
    fn units(&self) -> Range<u32> {
        0..(self.layout.data_disks() + self.layout.parities()) as u32
    }

    /// Discards whole stripes on every working member. Parts of stripes stay, because their parity would no longer fit.
    fn discard(&self, lba: Lba, sectors: u64, plan: &mut MemberPlan) {
        let (stripe, chunk) = (self.layout.stripe_sectors(), self.layout.chunk_sectors());
        let (first, end) = (lba.0.div_ceil(stripe), (lba.0 + sectors) / stripe);
        if first < end {
            let (at, sectors) = (Lba(first * chunk), (end - first) * chunk);
            plan.second.extend(self.working().map(|disk| Sub { disk, op: Op::Discard, at, sectors }));
        }
    }

    /// Reads the units of a piece or, if one is missing, as many others as rebuild it.
    fn read(&self, stripe: u64, units: &Range<u32>, offsets: &Range<u64>, plan: &mut MemberPlan) -> DiskResult {
        if units.clone().all(|unit| self.has_unit(stripe, unit, offsets)) {
            plan.second.extend(units.clone().map(|unit| self.sub(Op::Read, stripe, unit, offsets)));
            return Ok(());
        }
        self.read_enough(stripe, offsets, &mut plan.second)
    }

    /// Reads as many units of a stripe as it has data units, data before parity. All other units can be computed from these.
    pub fn read_enough(&self, stripe: u64, offsets: &Range<u64>, subs: &mut Vec<Sub>) -> DiskResult {
        let data = self.layout.data_disks();
        let before = subs.len();
        let live = self.units().filter(|&unit| self.has_unit(stripe, unit, offsets)).take(data);
        subs.extend(live.map(|unit| self.sub(Op::Read, stripe, unit, offsets)));
        if subs.len() - before == data { Ok(()) } else { Err(lost(Lba(stripe * self.layout.stripe_sectors()))) }
    }

    /// Writes the units of a piece with their parities, and first reads what these are computed from.
    fn write(&self, stripe: u64, units: &Range<u32>, offsets: &Range<u64>, plan: &mut MemberPlan) -> DiskResult {
        let data = self.layout.data_disks() as u32;
        let has = |unit: u32| self.has_unit(stripe, unit, offsets);
        let works = |unit: &u32| self.works(self.layout.member_of(stripe, *unit));
        let sub = |op, unit| self.sub(op, stripe, unit, offsets);
        let parities = self.units().skip(data as usize).filter(works);
        let written = units.clone().filter(works);
        // A unit on a failed member survives in the parities alone, and each such unit needs a parity of its own.
        if units.len() - written.clone().count() > parities.clone().count() {
            return Err(lost(Lba(stripe * self.layout.stripe_sectors())));
        }
        let changed = units.clone().chain(parities.clone());
        let others = (0..data).filter(|unit| !units.contains(unit));
        // The parity of a whole row follows from the new data alone.
        if parities.clone().next().is_some() && units.len() < data as usize {
            // Whichever reads fewer units.
            let prefers_modify = changed.clone().count() < others.clone().count();
            let (can_modify, can_reconstruct) = (changed.clone().all(has), others.clone().all(has));
            if can_modify && (prefers_modify || !can_reconstruct) {
                plan.first.extend(changed.map(|unit| sub(Op::Read, unit)));
            } else if can_reconstruct {
                plan.first.extend(others.map(|unit| sub(Op::Read, unit)));
            } else {
                // Some unit of either set is lost: it is computed from the rest of the row.
                self.read_enough(stripe, offsets, &mut plan.first)?;
            }
        }
        plan.second.extend(written.chain(parities).map(|unit| sub(Op::Write, unit)));
        Ok(())
    }

    /// The plan that rebuilds `sectors` of member `disk` from `at` on from the others.
    pub fn rebuild(&self, disk: u32, at: Lba, sectors: u64, plan: &mut MemberPlan) -> DiskResult {
        plan.clear();
        // Without chunks the sectors are one piece.
        let chunk = if self.layout.level.is_striped() { self.layout.chunk_sectors() } else { u64::MAX };
        for (row, from, count) in pieces_by_divisor(at.0, sectors, Divisor::new(chunk)) {
            if self.layout.parities() > 0 {
                self.read_enough(row, &(from..from + count), &mut plan.first)?;
            } else if let Role::Data(lba) | Role::Copy(lba, _) = self.layout.inverse(disk, Lba(row * chunk + from)) {
                plan.first.push(self.read_copy(lba, count, Some(disk))?);
            }
        }
        plan.second.push(Sub { disk, op: Op::Write, at, sectors });
        plan.join();
        Ok(())
    }

    /// The plan that reads some sectors of every member that has them, to be compared.
    pub fn scrub(&self, at: Lba, sectors: u64, plan: &mut MemberPlan) {
        plan.clear();
        for disk in 0..self.layout.disks() as u32 {
            let sectors = sectors.min(self.layout.member_sectors(disk).saturating_sub(at.0));
            if sectors == 0 || !self.has(disk, at, sectors) {
                continue;
            }
            plan.second.push(Sub { disk, op: Op::Read, at, sectors });
            if self.layout.spread() == SectorSpread::Chunks && self.layout.copies() > 1 {
                self.first_copies(disk, at, sectors, plan);
            }
        }
        plan.join();
    }

    /// Adds reads of the first copies to which a member's further copies are compared, where they are in the row before `at`. The scrub
    /// itself reads those from `at` on.
    fn first_copies(&self, disk: u32, at: Lba, sectors: u64, plan: &mut MemberPlan) {
        for (chunk, from, sectors) in self.layout.by_chunk(at, sectors) {
            let own = Lba(chunk * self.layout.chunk_sectors() + from);
            if let Role::Copy(lba, _) = self.layout.inverse(disk, own) {
                let (first, place) = self.layout.copy(lba, 0);
                if place < at && self.has(first, place, sectors) {
                    plan.second.push(Sub { disk: first, op: Op::Read, at: place, sectors });
                }
            }
        }
    }
}

fn lost(lba: Lba) -> Box<Fault> {
    Box::new(Fault::ArrayLost { lba })
}
