//! Arrays of drives: spanning, striped, mirrored, with parity, or a drive for each source; nested, mixed, and degraded.
//!
//! Members work at the same time, each with a queue of its own. A command becomes commands of members, and is answered with
//! the slowest. Le, Holliday & Amer, "The Peril and Promise of Shingled Disk Arrays", is what it was built for. Left out: the
//! time of the bus and of the host's processor, and a write hole (no power is cut here).

pub mod address;
mod check;
mod contents;
pub mod health;
pub mod level;
mod locks;
pub mod parity;
mod plan;
pub mod spec;
mod station;
mod target;
mod work;

use std::collections::VecDeque;

use address::Layout;
use check::Own;
use health::{Health, Rebuilt};
use level::{Level, WritePolicy};
use locks::{Claim, Locks};
use plan::Planner;
pub use station::{Queueing, Station};
pub use target::{Answer, Command, Target, Words};
use work::{Owner, Slab};

use crate::error::DiskResult;
use crate::layer::Gauges;
use crate::request::Op;
use crate::units::{Lba, Nanos};

/// A member: a drive, or an array.
pub enum Member {
    /// A drive with its queue.
    Drive(Box<Station>),
    /// An array.
    Array(Box<Array>),
}

impl Member {
    /// Sectors that it offers.
    pub fn host_sectors(&self) -> u64 {
        self.target().host_sectors()
    }

    #[inline]
    fn target(&self) -> &dyn Target {
        match self {
            Member::Drive(station) => &**station,
            Member::Array(array) => &**array,
        }
    }

    #[inline]
    fn target_mut(&mut self) -> &mut dyn Target {
        match self {
            Member::Drive(station) => &mut **station,
            Member::Array(array) => &mut **array,
        }
    }

    #[inline]
    fn next(&self) -> Nanos {
        match self {
            Member::Drive(station) => station.next(),
            Member::Array(array) => array.next(),
        }
    }

    #[inline]
    fn submit(&mut self, command: Command) -> DiskResult {
        match self {
            Member::Drive(station) => station.submit(command),
            Member::Array(array) => array.submit(command),
        }
    }

    #[inline]
    fn advance(&mut self, answers: &mut Vec<Answer>) -> DiskResult {
        match self {
            Member::Drive(station) => station.advance(answers),
            Member::Array(array) => array.advance(answers),
        }
    }
}

/// A part of an array's own work that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The member's first sector.
    pub at: Lba,
    /// How many.
    pub sectors: u64,
    /// When it was begun.
    pub begin: Nanos,
    /// When it was done.
    pub end: Nanos,
}

/// An array.
pub struct Array {
    layout: Layout,
    members: Vec<Member>,
    health: Vec<Health>,
    /// Replaced members that still have commands to answer.
    leaving: Vec<Member>,
    write: WritePolicy,
    check: bool,
    works: Slab,
    locks: Locks,
    /// Answered without a member's doing, and when.
    ready: VecDeque<Answer>,
    /// Own work that is done, until somebody takes note.
    done: VecDeque<Done>,
    /// Room for the answers of members.
    answers: Vec<Answer>,
    /// Work that may begin.
    free: Vec<u32>,
}

impl Array {
    /// An array of members, as `layout` has them; in check mode they hold words.
    pub fn new(layout: Layout, members: Vec<Member>, write: WritePolicy, check: bool) -> Array {
        let health = members.iter().map(|_| Health::Good).collect();
        Array {
            layout,
            members,
            health,
            leaving: Vec::new(),
            write,
            check,
            works: Slab::default(),
            locks: Locks::default(),
            ready: VecDeque::new(),
            done: VecDeque::new(),
            answers: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Where sectors lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The members.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The members, for the end of a run.
    pub fn members_mut(&mut self) -> &mut [Member] {
        &mut self.members
    }

    /// The state of each member.
    pub fn health(&self) -> &[Health] {
        &self.health
    }

    /// Where a source's sectors begin: on its own member, if each has one.
    pub fn source_start(&self, source: u8) -> Lba {
        match self.layout.level() {
            Level::Dedicated => self.layout.member_start(u32::from(source)),
            _ => Lba(0),
        }
    }

    /// How many sectors a source has.
    pub fn source_sectors(&self, source: u8) -> u64 {
        match self.layout.level() {
            Level::Dedicated => self.layout.member_sectors(u32::from(source)),
            _ => self.layout.host_sectors(),
        }
    }

    /// Own work that is done and that nobody has taken note of.
    pub fn take_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    fn planner(&self) -> Planner<'_> {
        Planner { layout: &self.layout, health: &self.health, write: self.write }
    }

    /// What a command claims: with parity the rows of sectors that it touches, by their place on the members; otherwise its
    /// own sectors.
    #[inline]
    fn claim(&self, op: Op, lba: Lba, sectors: u64) -> Option<Claim> {
        if sectors == 0 {
            return None;
        }
        let (first, last) = (lba.0, lba.0 + sectors - 1);
        let alone = op != Op::Read;
        if self.layout.parities() == 0 {
            return Some(Claim { first, last, alone });
        }
        let (from, to) = (self.layout.unit(lba), self.layout.unit(Lba(last)));
        let chunk = self.layout.chunk_sectors();
        let (first, last) = match (from.stripe, from.index) == (to.stripe, to.index) {
            true => (from.stripe * chunk + from.offset, to.stripe * chunk + to.offset),
            false => (from.stripe * chunk, (to.stripe + 1) * chunk - 1),
        };
        Some(Claim { first, last, alone })
    }

    /// Plans work and sends its first commands to the members, at `now`.
    #[inline]
    fn begin(&mut self, id: u32, now: Nanos) -> DiskResult {
        let work = self.works.get(id);
        let (owner, op, lba, sectors) =
            (work.owner, work.command.op, work.command.lba, u64::from(work.command.sectors));
        let mut plan = std::mem::take(&mut work.plan);
        let members = &self.members;
        let choose = |copies: &[(u32, Lba)]| nearest(members, copies);
        let planner = self.planner();
        let planned = match owner {
            Owner::Host => planner.host(op, lba, sectors, choose, &mut plan),
            Owner::Rebuild { disk, at, sectors } => planner.rebuild(disk, at, sectors, choose, &mut plan),
            Owner::Scrub { at, sectors } => planner.scrub(at, sectors, &mut plan),
        };
        self.works.get(id).plan = plan;
        planned?;
        self.send(id, now)
    }

    /// Sends the commands of the part that is next; finishes work that has none left.
    fn send(&mut self, id: u32, now: Nanos) -> DiskResult {
        let work = self.works.get(id);
        if !work.second && work.plan.first.is_empty() {
            work.second = true;
        }
        let count = work.subs().len();
        work.left = count as u32;
        if count == 0 {
            return match work.second {
                true => self.finish_work(id, now),
                false => Ok(()),
            };
        }
        for number in 0..count {
            let work = self.works.get(id);
            let (sub, source) = (work.subs()[number], work.command.source);
            let words = match self.check && sub.op == Op::Write {
                true => {
                    let own = Own { lba: work.command.lba, words: &work.command.words };
                    check::written(&self.layout, &work.known, &own, &sub)
                }
                false => Vec::new(),
            };
            let tag = u64::from(id) << 32 | number as u64;
            let (lba, sectors) = (sub.at, sub.sectors as u32);
            let command = Command { tag, op: sub.op, lba, sectors, source, arrival: now, words };
            self.members[sub.disk as usize].submit(command)?;
        }
        Ok(())
    }

    /// A member has answered a command.
    #[inline]
    fn answered(&mut self, answer: Answer) -> DiskResult {
        let id = (answer.tag >> 32) as u32;
        let work = self.works.get(id);
        work.answered(&answer);
        if self.check && !answer.words.is_empty() {
            let sub = work.subs()[answer.tag as u32 as usize];
            check::note(&mut work.known, &sub, &answer.words);
        }
        if work.left > 0 {
            return Ok(());
        }
        if !work.second {
            work.second = true;
            if !work.plan.second.is_empty() {
                return self.send(id, answer.end);
            }
        }
        self.finish_work(id, answer.end)
    }

    fn finish_work(&mut self, id: u32, now: Nanos) -> DiskResult {
        let work = self.works.get(id);
        let (owner, claim) = (work.owner, work.claim);
        match owner {
            Owner::Host => {
                let command = &work.command;
                let words = match self.check && command.op == Op::Read {
                    true => check::assemble(&self.layout, &work.known, command.lba, u64::from(command.sectors)),
                    false => Vec::new(),
                };
                // What no member was asked for took no time.
                let (turn, start) = (work.turn.min(now), work.start.min(now));
                self.ready.push_back(Answer {
                    tag: command.tag,
                    turn,
                    start,
                    end: now,
                    cleaning_end: work.cleaning_end,
                    words,
                });
            }
            Owner::Rebuild { disk, at, sectors } => {
                let begin = work.command.arrival;
                self.rebuilt(disk, at, sectors);
                self.done.push_back(Done { at, sectors, begin, end: now });
            }
            Owner::Scrub { at, sectors } => {
                let begin = work.command.arrival;
                if self.check {
                    check::compare(&self.layout, &self.works.get(id).known, at, sectors)?;
                }
                self.done.push_back(Done { at, sectors, begin, end: now });
            }
        }
        self.works.remove(id);
        let Some(first) = claim else { return Ok(()) };
        let mut free = std::mem::take(&mut self.free);
        self.locks.release(id, first, &mut free);
        let result = free.drain(..).try_for_each(|id| self.begin(id, now));
        self.free = free;
        result
    }

    fn rebuilt(&mut self, disk: u32, at: Lba, sectors: u64) {
        let health = &mut self.health[disk as usize];
        if let Health::New(rebuilt) = health {
            rebuilt.note(at, sectors);
            if rebuilt.is_whole() {
                *health = Health::Good;
            }
        }
    }

    /// A member fails: what it held is gone. Commands under way are answered.
    pub fn fail(&mut self, disk: u32) {
        self.health[disk as usize] = Health::Failed;
    }

    /// A new member takes the place of a failed one, to be rebuilt in units of `unit_sectors`. The old one still answers what
    /// it was asked.
    pub fn replace(&mut self, disk: u32, member: Member, unit_sectors: u64) {
        let sectors = self.layout.member_sectors(disk);
        self.health[disk as usize] = Health::New(Rebuilt::nothing(sectors, unit_sectors));
        let old = std::mem::replace(&mut self.members[disk as usize], member);
        if old.target().outstanding() > 0 {
            self.leaving.push(old);
        }
    }

    /// Begins to rebuild some sectors of a new member.
    pub fn rebuild(&mut self, disk: u32, at: Lba, sectors: u64, now: Nanos) -> DiskResult {
        self.own(Owner::Rebuild { disk, at, sectors }, (disk, at, sectors), now)
    }

    /// Begins to read some sectors of all members; in check mode copies and parity are compared.
    pub fn scrub(&mut self, at: Lba, sectors: u64, now: Nanos) -> DiskResult {
        self.own(Owner::Scrub { at, sectors }, (0, at, sectors), now)
    }

    /// Begins work of the array's own.
    fn own(&mut self, owner: Owner, (disk, at, sectors): (u32, Lba, u64), now: Nanos) -> DiskResult {
        let claim = self.claim_on(disk, at, sectors);
        let command =
            Command { tag: 0, op: Op::Write, lba: at, sectors: 0, source: 0, arrival: now, words: Words::new() };
        let id = self.works.add(owner, command);
        self.works.get(id).claim = Some(claim.first);
        if self.locks.claim(id, claim) { self.begin(id, now) } else { Ok(()) }
    }

    /// What work on a member's sectors claims.
    fn claim_on(&self, disk: u32, at: Lba, sectors: u64) -> Claim {
        let (chunk, last) = (self.layout.chunk_sectors(), at.0 + sectors - 1);
        match self.layout.level() {
            // Rows of chunks: the array's sectors from the first of the first to the last of the last.
            Level::Raid10 { copies } => {
                let row = self.layout.disks() as u64;
                let copies = u64::from(copies);
                let (first, last) = (at.0 / chunk * row / copies, ((last / chunk + 1) * row).div_ceil(copies));
                Claim { first: first * chunk, last: last * chunk - 1, alone: true }
            }
            Level::Span | Level::Raid0 | Level::Dedicated => {
                let start = self.layout.member_start(disk).0;
                Claim { first: start + at.0, last: start + last, alone: true }
            }
            _ => Claim { first: at.0, last, alone: true },
        }
    }

    /// The member at which something happens next; the first of several.
    #[inline]
    fn soonest(&self) -> (usize, Nanos) {
        let mut best = (0, Nanos::MAX);
        for (number, member) in self.members.iter().chain(&self.leaving).enumerate() {
            let next = member.next();
            if next < best.1 {
                best = (number, next);
            }
        }
        best
    }
}

/// The copy to read: of the members with the fewest commands the one whose head is nearest.
fn nearest(members: &[Member], copies: &[(u32, Lba)]) -> usize {
    let cost = |&(disk, at): &(u32, Lba)| {
        let target = members[disk as usize].target();
        (target.outstanding(), target.distance(at), disk)
    };
    (0..copies.len()).min_by_key(|&number| cost(&copies[number])).unwrap_or(0)
}

impl Target for Array {
    fn host_sectors(&self) -> u64 {
        self.layout.host_sectors()
    }

    #[inline]
    fn submit(&mut self, command: Command) -> DiskResult {
        let (op, lba, sectors, now) = (command.op, command.lba, u64::from(command.sectors), command.arrival);
        let claim = self.claim(op, lba, sectors);
        let id = self.works.add(Owner::Host, command);
        match claim {
            None => self.begin(id, now),
            Some(claim) => {
                self.works.get(id).claim = Some(claim.first);
                if self.locks.claim(id, claim) { self.begin(id, now) } else { Ok(()) }
            }
        }
    }

    #[inline]
    fn next(&self) -> Nanos {
        match self.ready.front() {
            Some(answer) => answer.end,
            None => self.soonest().1,
        }
    }

    #[inline]
    fn advance(&mut self, answers: &mut Vec<Answer>) -> DiskResult {
        if self.ready.is_empty() {
            let (number, next) = self.soonest();
            if next == Nanos::MAX {
                return Ok(());
            }
            let mut own = std::mem::take(&mut self.answers);
            match number.checked_sub(self.members.len()) {
                None => self.members[number].advance(&mut own)?,
                Some(left) => {
                    self.leaving[left].advance(&mut own)?;
                    self.leaving.retain(|member| member.target().outstanding() > 0);
                }
            }
            let result = own.drain(..).try_for_each(|answer| self.answered(answer));
            self.answers = own;
            result?;
        }
        answers.extend(self.ready.drain(..));
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.works.len()
    }

    fn distance(&self, lba: Lba) -> u64 {
        let (disk, at) = self.layout.place(lba);
        self.members[disk as usize].target().distance(at)
    }

    fn cache_sectors(&self) -> u64 {
        self.members.iter().map(|member| member.target().cache_sectors()).sum()
    }

    fn gauges(&self) -> Gauges {
        target::joined(self.members.iter().map(|member| member.target().gauges()))
    }

    fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.members.iter_mut().try_for_each(|member| member.target_mut().reset_counts(now))
    }

    fn finish(&mut self) -> DiskResult {
        let working = self.members.iter_mut().zip(&self.health).filter(|(_, health)| health.works());
        working.into_iter().try_for_each(|(member, _)| member.target_mut().finish())
    }
}
