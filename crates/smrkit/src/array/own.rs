//! What an array does of its own: members fail and are replaced, and parts are rebuilt or scrubbed beside the host's
//! commands.

use super::Array;
use super::health::{Health, Rebuilt};
use super::level::Level;
use super::locks::Claim;
use super::member::Member;
use super::target::{Command, Words};
use super::work::Owner;
use crate::error::DiskResult;
use crate::request::Op;
use crate::units::{Lba, Nanos};

/// Sectors of a part that is compared at once.
const PART_SECTORS: u64 = 1024;

impl Array {
    /// A member fails: what it held is gone. What it was asked is answered; what was to be written to it after that is left
    /// out.
    pub fn fail(&mut self, disk: u32) {
        self.health[disk as usize] = Health::Failed;
    }

    /// A new member takes the place of a failed one, to be rebuilt in units of `unit_sectors`. The old one still answers what
    /// it was asked.
    pub fn replace(&mut self, disk: u32, member: Member, unit_sectors: u64) {
        let sectors = self.layout.member_sectors(disk);
        self.health[disk as usize] = Health::New(Rebuilt::nothing(sectors, unit_sectors));
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
        self.own(Owner::Rebuild { disk, at, sectors }, self.claim_on(disk, at, sectors, true), now)
    }

    /// Parts of the members that were written to, in check mode; everything else is zeros on all of them.
    pub fn written_parts(&self) -> Vec<(Lba, u64)> {
        let sectors = (0..self.layout.disks() as u32).map(|disk| self.layout.member_sectors(disk)).max().unwrap_or(0);
        let part = |part: &u64| (Lba(part * PART_SECTORS), PART_SECTORS.min(sectors - part * PART_SECTORS));
        self.written.iter().map(part).collect()
    }

    pub(super) fn note_written(&mut self, at: Lba, sectors: u64) {
        self.written.extend(at.0 / PART_SECTORS..(at.0 + sectors).div_ceil(PART_SECTORS));
    }

    /// Begins to read some sectors of all members; in check mode copies and parity are compared.
    pub fn scrub(&mut self, at: Lba, sectors: u64, now: Nanos) -> DiskResult {
        self.own(Owner::Scrub { at, sectors }, self.claim_on(0, at, sectors, false), now)
    }

    fn own(&mut self, owner: Owner, claim: Claim, now: Nanos) -> DiskResult {
        let (Owner::Rebuild { at, .. } | Owner::Scrub { at, .. }) = owner else { return Ok(()) };
        let (op, words) = (Op::Write, Words::new());
        let command = Command { tag: 0, op, lba: at, sectors: 0, source: 0, arrival: now, host: false, words };
        let id = self.works.add(owner, command);
        self.start(id, Some(claim), now)
    }

    /// What work on a member's sectors claims.
    fn claim_on(&self, disk: u32, at: Lba, sectors: u64, alone: bool) -> Claim {
        let (chunk, last) = (self.layout.chunk_sectors(), at.0 + sectors - 1);
        let (first, last) = match self.layout.level() {
            // Rows of chunks: the array's sectors from the first of the first to the last of the last.
            Level::Raid10 { copies } => {
                let (row, copies) = (self.layout.disks() as u64, u64::from(copies));
                let (first, end) = (at.0 / chunk * row / copies, ((last / chunk + 1) * row).div_ceil(copies));
                (first * chunk, end * chunk - 1)
            }
            Level::Span | Level::Raid0 | Level::Dedicated => {
                let start = self.layout.member_start(disk).0;
                (start + at.0, start + last)
            }
            _ => (at.0, last),
        };
        Claim::Extent { first, last, alone }
    }
}
