//! Arrays of drives: spanning, striped, mirrored, with parity, or a drive for each source; nested, mixed, and degraded.
//!
//! Members work at the same time, each with a queue of its own. A command becomes commands of members, and is answered with
//! the slowest. Le, Holliday & Amer, "The Peril and Promise of Shingled Disk Arrays", is what it was built for. Left out: the
//! time of the bus and of the host's processor, and a write hole (no power is cut here).

pub mod address;
mod agenda;
mod check;
mod course;
pub mod health;
pub mod level;
mod locks;
mod member;
mod own;
mod parity;
mod plan;
pub mod spec;
mod station;
mod target;
mod watch;
mod work;

use std::collections::{BTreeSet, VecDeque};

use address::Layout;
use health::Health;
use level::{Level, WritePolicy};
use locks::{Claim, Locks};
pub use member::Member;
use member::Members;
pub use station::{Queueing, Station};
pub use target::{Answer, Command, Target, Words};
use work::{Owner, Slab};

use crate::error::DiskResult;
use crate::layer::Gauges;
use crate::request::Op;
use crate::units::{Lba, Nanos};

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

/// In the tag of a command that goes to one member as it came, and its answer straight back.
const PASSED: u64 = 1 << 63;

/// An array.
pub struct Array {
    layout: Layout,
    members: Members,
    health: Vec<Health>,
    /// How often each member was replaced.
    replaced: Vec<u32>,
    write: WritePolicy,
    check: bool,
    /// In check mode: parts of the members that anything was written to.
    written: BTreeSet<u64>,
    /// Whether commands for the same sectors keep their order without claims: each is one command of a member, or the same
    /// of several, and members keep their order.
    orderly: bool,
    /// Whether members read zeros where something was discarded: only then do copies and parity stay true.
    zeros: bool,
    works: Slab,
    locks: Locks,
    /// Commands that were passed on and not answered.
    passed: usize,
    /// Answered without a member's doing, and when.
    ready: VecDeque<Answer>,
    /// Own work that is done, until somebody takes note.
    done: VecDeque<Done>,
    /// Room for the answers of members.
    answers: Vec<Answer>,
    /// Work that may begin.
    free: VecDeque<u32>,
}

impl Array {
    /// An array of members, as `layout` has them; in check mode they hold words.
    pub fn new(layout: Layout, members: Vec<Member>, write: WritePolicy, check: bool) -> Array {
        Array {
            health: members.iter().map(|_| Health::Good).collect(),
            replaced: vec![0; members.len()],
            orderly: layout.parities() == 0 && members.iter().all(Member::keeps_order),
            zeros: members.iter().all(Member::reads_zeros),
            layout,
            members: Members::new(members),
            write,
            check,
            written: BTreeSet::new(),
            works: Slab::default(),
            locks: Locks::default(),
            passed: 0,
            ready: VecDeque::new(),
            done: VecDeque::new(),
            answers: Vec::new(),
            free: VecDeque::new(),
        }
    }

    /// Where sectors lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn members(&self) -> &[Member] {
        self.members.as_slice()
    }

    /// The members, for the end of a run.
    pub fn members_mut(&mut self) -> &mut [Member] {
        self.members.as_mut_slice()
    }

    /// Its drives, those of nested arrays included, in order.
    pub fn stations(&mut self) -> Vec<&mut Station> {
        self.members.as_mut_slice().iter_mut().flat_map(Member::stations).collect()
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
    pub fn sectors_of_source(&self, source: u8) -> u64 {
        match self.layout.level() {
            Level::Dedicated => self.layout.member_sectors(u32::from(source)),
            _ => self.layout.host_sectors(),
        }
    }

    /// Own work that is done and that nobody has taken note of.
    pub fn take_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    fn is_redundant(&self) -> bool {
        self.layout.parities() > 0 || self.layout.copies() > 1
    }

    /// Whether it reads zeros where something was discarded. With parity it does not: it keeps parts of stripes.
    fn reads_zeros(&self) -> bool {
        self.zeros && self.layout.parities() == 0
    }

    /// Whether commands must claim what they touch: where order would be lost, or others have claimed, such as a rebuild.
    /// Commands that came before and did not claim are with the members already, which keep their order.
    #[inline]
    fn claims(&self) -> bool {
        !self.orderly || !self.locks.is_empty()
    }

    /// The member, and the place there, of a command that concerns one alone.
    #[inline]
    fn alone(&self, command: &Command) -> Option<(u32, Lba)> {
        if self.layout.copies() > 1 || command.tag & PASSED != 0 {
            return None;
        }
        let sectors = u64::from(command.sectors);
        let piece = self.layout.pieces(command.lba, sectors).next().filter(|piece| piece.sectors == sectors)?;
        self.health[piece.disk as usize].is_good().then_some((piece.disk, piece.at))
    }

    /// Serves a command where nothing is under way and one drive alone has to, and gives the answer before its moment: most
    /// commands of a closed loop of one. The caller lets nothing else happen until then.
    #[inline]
    pub fn serve_at_once(&mut self, command: &Command) -> DiskResult<Option<Answer>> {
        match self.alone(command) {
            Some((disk, at)) if !self.claims() && self.outstanding() == 0 => {
                self.members.serve_at_once(disk, &Command { lba: at, words: command.words.clone(), ..*command })
            }
            _ => Ok(None),
        }
    }

    /// What a command claims: with parity the rows of sectors that it touches, by their place on the members; otherwise its
    /// own sectors. A flush claims nothing, but waits.
    fn claim(&self, op: Op, lba: Lba, sectors: u64) -> Option<Claim> {
        if sectors == 0 {
            return (op == Op::Flush).then_some(Claim::Flush);
        }
        let (first, last) = (lba.0, lba.0 + sectors - 1);
        let alone = op != Op::Read;
        if self.layout.parities() == 0 {
            return Some(Claim::Extent { first, last, alone });
        }
        let (from, to) = (self.layout.unit(lba), self.layout.unit(Lba(last)));
        let chunk = self.layout.chunk_sectors();
        let (first, last) = match (from.stripe, from.index) == (to.stripe, to.index) {
            true => (from.stripe * chunk + from.offset, to.stripe * chunk + to.offset),
            false => (from.stripe * chunk, (to.stripe + 1) * chunk - 1),
        };
        Some(Claim::Extent { first, last, alone })
    }
}

impl Target for Array {
    fn host_sectors(&self) -> u64 {
        self.layout.host_sectors()
    }

    #[inline]
    fn submit(&mut self, command: Command) -> DiskResult {
        let (op, lba, sectors, now) = (command.op, command.lba, u64::from(command.sectors), command.arrival);
        let claims = self.claims();
        if !claims && let Some((disk, at)) = self.alone(&command) {
            self.passed += 1;
            return self.members.submit(disk, Command { tag: command.tag | PASSED, lba: at, ..command });
        }
        let claim = if claims { self.claim(op, lba, sectors) } else { None };
        let id = self.works.add(Owner::Host, command);
        self.start(id, claim, now)
    }

    #[inline]
    fn next(&self) -> Nanos {
        match self.ready.front() {
            Some(answer) => answer.end,
            None => self.members.next(),
        }
    }

    #[inline]
    fn rests(&self) -> bool {
        self.members.rests()
    }

    #[inline]
    fn resume(&mut self) -> DiskResult {
        self.members.resume()
    }

    #[inline]
    fn advance(&mut self, more: &mut Vec<Answer>) -> DiskResult<Option<Answer>> {
        if self.ready.is_empty() {
            let now = self.members.next();
            let mut own = std::mem::take(&mut self.answers);
            match self.members.advance(&mut own)? {
                Some(answer) if answer.tag & PASSED != 0 && own.is_empty() => {
                    self.answers = own;
                    self.passed -= 1;
                    return Ok(Some(Answer { tag: answer.tag & !PASSED, ..answer }));
                }
                Some(answer) => self.answered(answer)?,
                None => {}
            }
            own.drain(..).try_for_each(|answer| self.answered(answer))?;
            self.answers = own;
            self.begin_free(now)?;
        }
        let first = self.ready.pop_front();
        more.extend(self.ready.drain(..));
        Ok(first)
    }

    #[inline]
    fn first_wait(&self) -> Nanos {
        self.members.first_wait()
    }

    fn outstanding(&self) -> usize {
        self.works.len() + self.passed
    }

    fn distance(&self, lba: Lba) -> u64 {
        let (disk, at) = self.layout.place(lba);
        self.members()[disk as usize].target().distance(at)
    }

    fn cache_sectors(&self) -> u64 {
        self.members().iter().map(|member| member.target().cache_sectors()).sum()
    }

    fn gauges(&self) -> Gauges {
        let working = self.members().iter().zip(&self.health).filter(|(_, health)| health.works());
        target::joined(working.map(|(member, _)| member.target().gauges()))
    }

    fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.members.reset_counts(now)
    }

    fn finish(&mut self) -> DiskResult {
        let working = self.members.as_mut_slice().iter_mut().zip(&self.health).filter(|(_, health)| health.works());
        working.into_iter().try_for_each(|(member, _)| member.target_mut().finish())
    }
}
