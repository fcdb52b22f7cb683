//! Arrays of drives: spanning, striped, mirrored, with parity, or a drive for each source; nested, mixed, and degraded.
//!
//! Members work at the same time, each with a queue of its own. A command becomes commands of members, and is completed with
//! the slowest. Le, Holliday & Amer, "The Peril and Promise of Shingled Disk Arrays", is what it was built for. Left out: the
//! time of the bus and of the host's processor.

mod background;
mod work_steps;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Array, Member, Members};
use crate::device::address::ArrayLayout;
use crate::device::command::{Command, Completion, FirstStamps, Served, joined};
use crate::device::health::Health;
use crate::device::level::WritePolicy;
use crate::device::member_drive::MemberDrive;
use crate::device::queue::Queueing;
use crate::device::redundancy;
use crate::device::work::{DonePart, Owner, Slab};
use crate::device::work::{Locks, RangeLock};
use crate::error::DiskResult;
use crate::layer::Gauges;
use crate::medium::Buf;
use crate::request::{Op, Request};
use crate::units::{Lba, Nanos};
use work_steps::PASSED;

/// Sectors of a part that is compared at once.
const PART_SECTORS: u64 = 1024;

impl Array {
    /// An array of members, as `layout` has them; if it `checks`, its commands carry a stamp for each sector.
    pub fn new(layout: ArrayLayout, members: Vec<Member>, write: WritePolicy, checks: bool) -> Array {
        Array {
            health: members.iter().map(|_| Health::Good).collect(),
            replaced: vec![0; members.len()],
            orderly: is_orderly(&layout, &members),
            zeros: members.iter().all(Member::reads_zeros),
            layout,
            members: Members::new(members),
            write,
            checks,
            written: BTreeSet::new(),
            works: Slab::default(),
            locks: Locks::default(),
            passed: 0,
            ready: VecDeque::new(),
            done: VecDeque::new(),
            completions: Vec::new(),
            free: VecDeque::new(),
        }
    }

    /// See [`Member::order_commands`].
    pub(super) fn order_commands(&mut self, queueing: impl Fn(usize) -> Queueing) {
        self.drives().into_iter().enumerate().for_each(|(number, drive)| drive.order_commands(queueing(number)));
        self.orderly = is_orderly(&self.layout, self.members());
    }

    /// Layout of its sectors.
    pub fn layout(&self) -> &ArrayLayout {
        &self.layout
    }

    /// The members, in order.
    pub fn members(&self) -> &[Member] {
        self.members.as_slice()
    }

    /// Its drives, those of nested arrays included, in order.
    pub fn drives(&mut self) -> Vec<&mut MemberDrive> {
        self.members.as_mut_slice().iter_mut().flat_map(Member::drives).collect()
    }

    /// The state of each member.
    pub fn health(&self) -> &[Health] {
        &self.health
    }

    /// Parts of the members that were written to, in check mode; everything else is as it was in the beginning, zeros or
    /// (on full members) copies and parities that agree.
    pub fn written_parts(&self) -> Vec<(Lba, u64)> {
        let sectors = (0..self.layout.disks() as u32).map(|disk| self.layout.member_sectors(disk)).max().unwrap_or(0);
        let part = |part: &u64| (Lba(part * PART_SECTORS), PART_SECTORS.min(sectors - part * PART_SECTORS));
        self.written.iter().map(part).collect()
    }

    fn note_written(&mut self, at: Lba, sectors: u64) {
        self.written.extend(at.0 / PART_SECTORS..(at.0 + sectors).div_ceil(PART_SECTORS));
    }

    /// Own work that is done and that nobody has taken note of.
    pub fn take_done(&mut self) -> Option<DonePart> {
        self.done.pop_front()
    }

    /// True if it keeps copies or parity.
    pub fn is_redundant(&self) -> bool {
        self.layout.parities() > 0 || self.layout.copies() > 1
    }

    /// True if it reads zeros where something was discarded. With parity it does not: it keeps parts of stripes.
    pub(super) fn reads_zeros(&self) -> bool {
        self.zeros && self.layout.parities() == 0
    }

    /// True if commands must lock what they touch: where order would be lost, or others have locked, such as a rebuild.
    /// Commands that came before and did not lock are with the members already, which keep their order.
    #[inline]
    fn locks_ranges(&self) -> bool {
        !self.orderly || !self.locks.is_empty()
    }

    /// The member, and the place there, of a request that concerns one alone.
    #[inline]
    fn only_member(&self, request: &Request) -> Option<(u32, Lba)> {
        if self.layout.copies() > 1 {
            return None;
        }
        let sectors = u64::from(request.sectors);
        let piece = self.layout.pieces(request.lba, sectors).next().filter(|piece| piece.sectors == sectors)?;
        self.health[piece.disk as usize].is_good().then_some((piece.disk, piece.at))
    }

    /// Serves a request at once, if one drive alone has to; see [`Member::serve_at_once`].
    #[inline]
    pub fn serve_at_once(
        &mut self,
        request: &Request,
        arrival: Nanos,
        host: bool,
        data: &mut Buf,
    ) -> DiskResult<Option<Served>> {
        match self.only_member(request) {
            Some((disk, at)) if !self.locks_ranges() && self.outstanding() == 0 => {
                self.members.serve_at_once(disk, &Request { lba: at, ..*request }, arrival, host, data)
            }
            _ => Ok(None),
        }
    }

    /// The lock of a command: with parity on the rows of sectors that it touches, by their place on the members; otherwise on
    /// its own sectors. A flush locks nothing, but waits.
    fn lock(&self, &Request { op, lba, sectors, .. }: &Request) -> Option<RangeLock> {
        if sectors == 0 {
            return (op == Op::Flush).then_some(RangeLock::Flush);
        }
        let (first, last) = (lba.0, lba.0 + u64::from(sectors) - 1);
        let exclusive = op != Op::Read;
        if self.layout.parities() == 0 {
            return Some(RangeLock::Extent { first, last, exclusive });
        }
        let (from, to) = (self.layout.unit(lba), self.layout.unit(Lba(last)));
        let chunk = self.layout.chunk_sectors();
        let (first, last) = match (from.stripe, from.index) == (to.stripe, to.index) {
            true => (from.stripe * chunk + from.offset, to.stripe * chunk + to.offset),
            false => (from.stripe * chunk, (to.stripe + 1) * chunk - 1),
        };
        Some(RangeLock::Extent { first, last, exclusive })
    }

    /// A command arrives, not before anything that has happened here.
    #[inline]
    pub fn submit(&mut self, command: Command) -> DiskResult {
        let locks = self.locks_ranges();
        let is_passed = command.tag & PASSED != 0;
        if !locks
            && !is_passed
            && let Some((disk, at)) = self.only_member(&command.request)
        {
            self.passed += 1;
            let (tag, request) = (command.tag | PASSED, Request { lba: at, ..command.request });
            return self.members.submit(disk, Command { tag, request, ..command });
        }
        let lock = if locks { self.lock(&command.request) } else { None };
        let now = command.arrival;
        let id = self.works.add(Owner::Host, command);
        self.start(id, lock, now)
    }

    /// When something happens next by itself; [`Nanos::MAX`] if nothing is under way.
    #[inline]
    pub fn next(&self) -> Nanos {
        match self.ready.front() {
            Some(completion) => completion.end,
            None => self.members.next(),
        }
    }

    /// True if [`Array::resume`] has anything to begin.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.members.has_pending()
    }

    /// Begins what comes next, once all that comes at this moment is there.
    #[inline]
    pub fn resume(&mut self) -> DiskResult {
        self.members.resume()
    }

    /// Processes the next event; see [`Member::advance`].
    #[inline]
    pub fn advance(&mut self, more: &mut Vec<Completion>) -> DiskResult<Option<Completion>> {
        if self.ready.is_empty() {
            let now = self.members.next();
            let mut own = std::mem::take(&mut self.completions);
            match self.members.advance(&mut own)? {
                Some(completion) if completion.tag & PASSED != 0 && own.is_empty() => {
                    self.completions = own;
                    self.passed -= 1;
                    return Ok(Some(Completion { tag: completion.tag & !PASSED, ..completion }));
                }
                Some(completion) => self.completed(completion)?,
                None => {}
            }
            own.drain(..).try_for_each(|completion| self.completed(completion))?;
            self.completions = own;
            self.begin_free(now)?;
        }
        let first = self.ready.pop_front();
        more.extend(self.ready.drain(..));
        Ok(first)
    }

    #[inline]
    pub(super) fn first_wait(&self) -> Nanos {
        self.members.first_wait()
    }

    /// Commands that have not been completed.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.works.len() + self.passed
    }

    pub(super) fn distance(&self, lba: Lba) -> u64 {
        let (disk, at) = self.layout.place(lba);
        self.members()[disk as usize].distance(at)
    }

    pub(super) fn cache_sectors(&self) -> u64 {
        self.members().iter().map(Member::cache_sectors).sum()
    }

    /// Gauges of the working members: see [`Member::gauges`].
    pub fn gauges(&self) -> Gauges {
        let working = self.members().iter().zip(&self.health).filter(|(_, health)| health.works());
        joined(working.map(|(member, _)| member.gauges()))
    }

    /// Members are full, those parts included that the array does not use.
    pub(super) fn fill(&mut self, stamps: FirstStamps) {
        let layout = Arc::new(self.layout.clone());
        for (disk, member) in (0..).zip(self.members.as_mut_slice()) {
            let (layout, stamps) = (Arc::clone(&layout), Arc::clone(&stamps));
            member.fill(Arc::new(move |at| redundancy::first_stamp(&layout, disk, at, &*stamps)));
        }
    }

    pub(super) fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.members.reset_counts(now)
    }

    /// See [`Member::power_cut`].
    pub(super) fn power_cut(&mut self) {
        self.works = Slab::default();
        self.locks = Locks::default();
        self.passed = 0;
        self.ready.clear();
        self.done.clear();
        self.completions.clear();
        self.free.clear();
        self.members.power_cut();
    }

    pub(super) fn finish(&mut self) -> DiskResult {
        let working = self.members.as_mut_slice().iter_mut().zip(&self.health).filter(|(_, health)| health.works());
        working.into_iter().try_for_each(|(member, _)| member.finish())
    }
}

/// True if commands for the same sectors keep their order without locks.
fn is_orderly(layout: &ArrayLayout, members: &[Member]) -> bool {
    layout.parities() == 0 && members.iter().all(Member::keeps_order)
}
