//! Work that an array has under way: commands of the host, and its own.

use super::command::{Command, Completion};
use super::locks::RangeLock;
use super::plan::{MemberPlan, Sub};
use super::redundancy::KnownSectors;
use crate::medium::Buf;
use crate::units::{Lba, Nanos};

/// Owner of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A command that came from outside.
    Host,
    /// The rebuilding of a part of a new member.
    Rebuild { disk: u32, at: Lba, sectors: u64 },
    /// The verification of a part of all members.
    Scrub { at: Lba, sectors: u64 },
    /// New parity in some rows, by their place on the members, or new copies of some sectors of the array.
    Resync { first: Lba, sectors: u64 },
}

/// A part of an array's own work that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DonePart {
    /// The member's first sector.
    pub at: Lba,
    /// Number of sectors.
    pub sectors: u64,
    /// When it was begun.
    pub begin: Nanos,
    /// When it was done.
    pub end: Nanos,
}

/// A command under way.
pub(super) struct ArrayCommand {
    pub owner: Owner,
    pub command: Command,
    pub plan: MemberPlan,
    /// Commands of members that have not been completed.
    pub left: u32,
    /// True if the second part of the plan is under way.
    pub second: bool,
    pub start: Nanos,
    /// Range that it locks, if any.
    pub lock: Option<RangeLock>,
    /// Rebuilding: how often the member had been replaced when it was written to.
    pub replaced: u32,
    /// Contents that have been read, where commands carry any.
    pub known: KnownSectors,
}

impl ArrayCommand {
    pub fn new(owner: Owner, command: Command) -> ArrayCommand {
        ArrayCommand {
            owner,
            start: Nanos::MAX,
            command,
            plan: MemberPlan::default(),
            left: 0,
            second: false,
            lock: None,
            replaced: 0,
            known: KnownSectors::default(),
        }
    }

    /// Begins anew for another command; keeps the room of its plan.
    #[inline]
    fn renew(&mut self, owner: Owner, command: Command) {
        (self.owner, self.command) = (owner, command);
        self.start = Nanos::MAX;
        (self.left, self.second, self.lock) = (0, false, None);
        self.plan.clear();
    }

    /// The commands of members that are under way.
    pub fn subs(&self) -> &[Sub] {
        if self.second { &self.plan.second } else { &self.plan.first }
    }

    /// A member has completed a command.
    #[inline]
    pub fn completed(&mut self, completion: &Completion) {
        self.left -= 1;
        self.start = self.start.min(completion.start);
    }
}

/// All work, by number; numbers are used again. By hand: what is removed keeps the room of its plan for the next.
#[derive(Default)]
pub(super) struct Slab {
    works: Vec<ArrayCommand>,
    free: Vec<u32>,
}

impl Slab {
    #[inline]
    pub fn add(&mut self, owner: Owner, command: Command) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.works[id as usize].renew(owner, command);
                id
            }
            None => {
                self.works.push(ArrayCommand::new(owner, command));
                (self.works.len() - 1) as u32
            }
        }
    }

    #[inline]
    pub fn get(&mut self, id: u32) -> &mut ArrayCommand {
        &mut self.works[id as usize]
    }

    #[inline]
    pub fn remove(&mut self, id: u32) {
        let work = &mut self.works[id as usize];
        work.known.clear();
        work.command.data = Buf::NoData;
        self.free.push(id);
    }

    pub fn len(&self) -> usize {
        self.works.len() - self.free.len()
    }
}
