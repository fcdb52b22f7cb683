//! Work of an array's own: members fail and are replaced, and parts are rebuilt or scrubbed alongside the host's
//! commands.

use crate::device::command::Command;
use crate::device::health::{Health, RebuiltUnits};
use crate::device::level::SectorSpread;
use crate::device::member::{Array, Member};
use crate::device::work::Owner;
use crate::device::work::RangeLock;
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::request::{Op, Request};
use crate::units::{Lba, Nanos};

impl Array {
    /// A member fails: what it held is gone. What it was asked completes; what was to be written to it after that is left
    /// out.
    pub fn fail(&mut self, disk: u32) {
        self.health[disk as usize] = Health::Failed;
    }

    /// A new member takes the place of a failed one, to be rebuilt in units of `unit_sectors`. The old one still completes
    /// what it was asked.
    pub fn replace(&mut self, disk: u32, member: Member, unit_sectors: u64) {
        let sectors = self.layout.member_sectors(disk);
        self.health[disk as usize] = Health::New(RebuiltUnits::nothing(sectors, unit_sectors));
        self.replaced[disk as usize] += 1;
        self.orderly &= member.keeps_order();
        self.zeros &= member.reads_zeros();
        self.members.replace(disk, member);
    }

    /// A new member counts as rebuilt; what was left out of it is needed by nobody.
    pub fn make_whole(&mut self, disk: u32) {
        self.health[disk as usize] = Health::Good;
    }

    /// Begins to rebuild some sectors of a new member: whole units, or to its end.
    pub fn rebuild(&mut self, disk: u32, at: Lba, sectors: u64, now: Nanos) -> DiskResult {
        self.begin_own(Owner::Rebuild { disk, at, sectors }, self.lock_on(disk, at, sectors, true), now)
    }

    /// Begins to read some sectors of all members; in check mode copies and parity are compared.
    pub fn scrub(&mut self, at: Lba, sectors: u64, now: Nanos) -> DiskResult {
        self.begin_own(Owner::Scrub { at, sectors }, self.lock_on(0, at, sectors, false), now)
    }

    /// Begins to bring parity or copies in step with what is there, as after a crash that caught writes half done: parity, of
    /// some rows by their place on the members, is written from the data; other copies, of some sectors of the array, from the
    /// first.
    pub fn resync(&mut self, first: Lba, sectors: u64, now: Nanos) -> DiskResult {
        let lock = RangeLock::Extent { first: first.0, last: first.0 + sectors - 1, exclusive: true };
        self.begin_own(Owner::Resync { first, sectors }, lock, now)
    }

    fn begin_own(&mut self, owner: Owner, lock: RangeLock, now: Nanos) -> DiskResult {
        let (Owner::Rebuild { at, .. } | Owner::Scrub { at, .. } | Owner::Resync { first: at, .. }) = owner else {
            return Ok(());
        };
        let request = Request::new(Op::Write, at, 0);
        let command = Command { tag: 0, request, arrival: now, host: false, data: Buf::NoData };
        let id = self.works.add(owner, command);
        self.start(id, Some(lock), now)
    }

    /// The lock for work on a member's sectors.
    fn lock_on(&self, disk: u32, at: Lba, sectors: u64, exclusive: bool) -> RangeLock {
        let (chunk, last) = (self.layout.chunk_sectors(), at.0 + sectors - 1);
        let (first, last) = match (self.layout.spread(), self.layout.copies()) {
            (SectorSpread::EndToEnd, _) | (SectorSpread::Chunks, 1) => {
                let start = self.layout.member_start(disk).0;
                (start + at.0, start + last)
            }
            // Rows of chunks: the array's sectors from the first of the first to the last of the last.
            (SectorSpread::Chunks, copies) => {
                let (row, copies) = (self.layout.disks() as u64, u64::from(copies));
                let (first, end) = (at.0 / chunk * row / copies, ((last / chunk + 1) * row).div_ceil(copies));
                (first * chunk, end * chunk - 1)
            }
            (SectorSpread::Whole | SectorSpread::Stripes, _) => (at.0, last),
        };
        RangeLock::Extent { first, last, exclusive }
    }
}
