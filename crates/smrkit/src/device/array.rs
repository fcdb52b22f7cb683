//! Arrays of drives: spanning, striped, mirrored, with parity, or a drive for each source; mixed, and degraded.
//!
//! Members work at the same time, each with a queue of its own. A command becomes commands to members, and completes with the slowest of
//! them. The model was built to repeat Le, Holliday & Amer, "The Peril and Promise of Shingled Disk Arrays". Left out: the time of the bus
//! and of the host's processor.
//!
//! Only members with commands under way are visited, so that an array of thousands costs no more than its commands.
//!
//! A command that goes to one member as it came is passed on. All others, and the array's own work, take steps: they are planned, sent
//! to members in one part or two, and completed.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::address::ArrayLayout;
use super::health::{Health, RebuiltUnits};
use super::level::SectorSpread;
use super::member_drive::MemberDrive;
use super::plan::Planner;
use super::queue::Queueing;
use super::redundancy::{self, KnownSectors, WrittenSectors};
use super::work::{ArrayCommand, DonePart, Locks, Owner, RangeLock, Slab};
use super::{Command, Completion, FirstStamps};
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::request::{Op, Request};
use crate::state::state;
use crate::stats::counts::Times;
use crate::units::{Lba, Nanos};

/// Sectors of a part that is compared at once.
const PART_SECTORS: u64 = 1024;

/// Marks the tag of a command that is passed on to one member as it came, and whose completion is passed straight back.
const PASSED: u64 = 1 << 63;

/// An array of drives.
pub struct Array {
    /// Layout of its sectors.
    pub layout: ArrayLayout,
    /// Members in order, then those that were replaced and still have commands to complete.
    members: Vec<MemberDrive>,
    events: EventQueue,
    /// Members that have commands to begin once [`Array::resume`] is called.
    pending: Vec<usize>,
    /// [`MemberDrive::first_wait`] of all.
    pub(super) first_wait: Nanos,
    /// The state of each member.
    pub health: Vec<Health>,
    /// Number of times that each member was replaced.
    replaced: Vec<u32>,
    /// True in check mode: commands carry a stamp for each sector.
    checks: bool,
    /// In check mode: the parts (of `PART_SECTORS`) that were written on any member.
    written: BTreeSet<u64>,
    /// True if commands for the same sectors keep their order without locks, because each becomes one command of a member, or the same
    /// command of several, and members serve theirs in order.
    orderly: bool,
    works: Slab<ArrayCommand>,
    locks: Locks,
    /// Commands that were passed on and not completed.
    passed: usize,
    /// Completions that the caller has not collected.
    ready: VecDeque<Completion>,
    /// Parts of the array's own work that are done and not collected.
    done: VecDeque<DonePart>,
    /// Work whose locks have become free, which may begin.
    unlocked: VecDeque<u32>,
}

state! {
    Array {
        parts: members;
        sized: health, replaced;
        built: layout, checks, written, orderly, works, locks, passed, ready, done, unlocked, events, pending, first_wait;
    }
}

impl Array {
    /// An array of the members that `layout` describes. With `checks`, its commands carry a stamp for each sector.
    pub fn new(layout: ArrayLayout, members: Vec<MemberDrive>, checks: bool) -> Array {
        Array {
            health: members.iter().map(|_| Health::Good).collect(),
            replaced: vec![0; members.len()],
            orderly: is_orderly(&layout, &members),
            layout,
            events: EventQueue::new(&members),
            members,
            pending: Vec::new(),
            first_wait: Nanos::MAX,
            checks,
            written: BTreeSet::new(),
            works: Slab::default(),
            locks: Locks::default(),
            passed: 0,
            ready: VecDeque::new(),
            done: VecDeque::new(),
            unlocked: VecDeque::new(),
        }
    }

    /// See [`super::Device::order_commands`].
    pub(super) fn order_commands(&mut self, queueing: impl Fn(usize) -> Queueing) {
        self.drives_mut().iter_mut().enumerate().for_each(|(number, drive)| drive.order_commands(queueing(number)));
        self.orderly = is_orderly(&self.layout, self.drives());
    }

    /// Its drives, in order.
    pub fn drives(&self) -> &[MemberDrive] {
        &self.members[..self.layout.disks()]
    }

    /// Its drives, in order, mutable.
    pub fn drives_mut(&mut self) -> &mut [MemberDrive] {
        &mut self.members[..self.layout.disks()]
    }

    /// The drives that have not failed.
    pub(super) fn working(&self) -> impl Iterator<Item = &MemberDrive> {
        let drives = self.drives().iter().zip(&self.health);
        drives.filter_map(|(drive, health)| health.works().then_some(drive))
    }

    /// In check mode: the parts that were written on any member, which have to be compared. In all others copies and parities agree from
    /// the beginning: they are zeros, or were computed when the members were filled.
    pub fn written_parts(&self) -> Vec<(Lba, u64)> {
        let member_sectors = (0..self.layout.disks() as u32).map(|disk| self.layout.member_sectors(disk));
        let longest = member_sectors.max().unwrap_or(0);
        let extent = |number: &u64| {
            let at = number * PART_SECTORS;
            (Lba(at), PART_SECTORS.min(longest - at))
        };
        self.written.iter().map(extent).collect()
    }

    /// Takes the next part of the array's own work that is done.
    pub fn take_done(&mut self) -> Option<DonePart> {
        self.done.pop_front()
    }

    /// True if commands must lock their sectors: if members may reorder them, or others (such as a rebuild) hold locks. Earlier commands
    /// without locks have been sent to the members already, which keep their order.
    #[inline]
    fn locks_ranges(&self) -> bool {
        !self.orderly || !self.locks.is_empty()
    }

    /// The member that can serve a request alone, and the place there.
    #[inline]
    fn only_member(&self, request: &Request) -> Option<(u32, Lba)> {
        // A write goes to every copy, and which one to read depends on the heads.
        if self.layout.copies() > 1 {
            return None;
        }
        let sectors = u64::from(request.sectors);
        let piece = self.layout.pieces(request.lba, sectors).next().filter(|piece| piece.sectors == sectors)?;
        self.health[piece.disk as usize].is_good().then_some((piece.disk, piece.at))
    }

    /// Serves a request at once, if one drive alone has to; see [`super::Device::serve_at_once`].
    #[inline]
    pub fn serve_at_once(
        &mut self,
        request: &Request,
        arrival: Nanos,
        host: bool,
        data: &mut Buf,
    ) -> DiskResult<Option<Times>> {
        match self.only_member(request) {
            // The completion is computed ahead of its time, so nothing else may be under way that comes before it.
            Some((disk, at)) if !self.locks_ranges() && self.outstanding() == 0 => {
                let member = &mut self.members[disk as usize];
                let served = member.serve(&Request { lba: at, ..*request }, arrival, host, data);
                self.first_wait = self.first_wait.min(member.first_wait());
                served.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The lock of a command: on levels with parity, the rows of sectors that it touches, by their place on the members; else its own
    /// sectors. A flush locks nothing, but waits for earlier commands.
    fn lock(&self, &Request { op, lba, sectors, .. }: &Request) -> Option<RangeLock> {
        if sectors == 0 {
            // Any other request without sectors touches nothing.
            return (op == Op::Flush).then_some(RangeLock::Flush);
        }
        let (first, last) = (lba.0, lba.0 + u64::from(sectors) - 1);
        let exclusive = op != Op::Read;
        if self.layout.parities() == 0 {
            return Some(RangeLock::Extent { first, last, exclusive });
        }
        let (from, to) = (self.layout.unit(lba), self.layout.unit(Lba(last)));
        let chunk = self.layout.chunk_sectors();
        // Within one unit a command changes parity in its own rows only; over several units it may in any row of their stripes.
        let (first, last) = match (from.stripe, from.index) == (to.stripe, to.index) {
            true => (from.stripe * chunk + from.offset, to.stripe * chunk + to.offset),
            false => (from.stripe * chunk, (to.stripe + 1) * chunk - 1),
        };
        Some(RangeLock::Extent { first, last, exclusive })
    }

    /// Takes a command that arrives now or later, never before an event that has been processed.
    #[inline]
    pub fn submit(&mut self, command: Command) -> DiskResult {
        let locks = self.locks_ranges();
        if !locks && let Some((disk, at)) = self.only_member(&command.request) {
            self.passed += 1;
            let (tag, request) = (command.tag | PASSED, Request { lba: at, ..command.request });
            return self.send_to_member(disk, Command { tag, request, ..command });
        }
        let lock = if locks { self.lock(&command.request) } else { None };
        let now = command.arrival;
        let id = self.works.add(|recycled| ArrayCommand::new(Owner::Host, command, recycled));
        self.lock_and_begin(id, lock, now)
    }

    /// The time of the next event; [`Nanos::MAX`] if nothing is under way.
    #[inline]
    pub fn next(&self) -> Nanos {
        match self.ready.front() {
            Some(completion) => completion.end,
            None => self.events.next(),
        }
    }

    /// True if [`Array::resume`] has anything to begin.
    #[inline]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Begins the next commands, once all that arrive at this moment have arrived.
    #[inline]
    pub fn resume(&mut self) -> DiskResult {
        while let Some(number) = self.pending.pop() {
            self.members[number].resume()?;
            self.note_change(number);
        }
        Ok(())
    }

    /// Processes the next event; see [`super::Device::advance`].
    #[inline]
    pub fn advance(&mut self, more: &mut Vec<Completion>) -> DiskResult<Option<Completion>> {
        if self.ready.is_empty() {
            // Read before the event is taken out, because work that it frees begins at its time.
            let now = self.events.next();
            match self.advance_member() {
                // A command passed on to one member as it was: it is complete, and no work depends on it.
                Some(completion) if completion.tag & PASSED != 0 => {
                    self.passed -= 1;
                    return Ok(Some(Completion { tag: completion.tag & !PASSED, ..completion }));
                }
                Some(completion) => self.receive(completion)?,
                None => {}
            }
            self.begin_unlocked(now)?;
        }
        let first = self.ready.pop_front();
        more.extend(self.ready.drain(..));
        Ok(first)
    }

    /// Processes the next event of a member, if there is one, as [`MemberDrive::advance`] does.
    #[inline]
    fn advance_member(&mut self) -> Option<Completion> {
        let number = self.events.take()?;
        let completion = self.members[number].advance();
        self.note_change(number);
        // A replaced member that has completed its commands is forgotten. Those after it move down by one.
        if number >= self.layout.disks() && self.members[number].outstanding() == 0 {
            self.members.remove(number);
            self.pending.iter_mut().filter(|pending| **pending > number).for_each(|pending| *pending -= 1);
            self.events = EventQueue::new(&self.members);
        }
        completion
    }

    #[inline]
    fn send_to_member(&mut self, disk: u32, command: Command) -> DiskResult {
        self.members[disk as usize].submit(command)?;
        self.note_change(disk as usize);
        Ok(())
    }

    /// Updates the next event of a member that has changed.
    #[inline]
    fn note_change(&mut self, number: usize) {
        let member = &self.members[number];
        self.events.set(number, member.next());
        self.first_wait = self.first_wait.min(member.first_wait());
        if member.has_pending() && !self.pending.contains(&number) {
            self.pending.push(number);
        }
    }

    /// Starts counting anew at `now`.
    pub(super) fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.first_wait = Nanos::MAX;
        self.drives_mut().iter_mut().try_for_each(|member| member.reset_counts(now))
    }

    /// Commands that have not been completed.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.works.len() + self.passed
    }

    /// Fills the members, also the parts that the array does not use.
    pub(super) fn fill(&mut self, stamps: FirstStamps) {
        let layout = Arc::new(self.layout.clone());
        for (disk, member) in (0..).zip(self.drives_mut()) {
            let (layout, stamps) = (Arc::clone(&layout), Arc::clone(&stamps));
            member.fill(Arc::new(move |at| redundancy::first_stamp(&layout, disk, at, &*stamps)));
        }
    }

    /// See [`super::Device::power_cut`].
    pub(super) fn power_cut(&mut self) {
        // Commands under way are gone, and so are the pieces of a rebuild or scrub.
        self.works = Slab::default();
        self.locks = Locks::default();
        self.passed = 0;
        self.ready.clear();
        self.done.clear();
        self.unlocked.clear();
        self.members.truncate(self.layout.disks());
        self.pending.clear();
        self.members.iter_mut().for_each(MemberDrive::power_cut);
        self.events = EventQueue::new(&self.members);
    }

    pub(super) fn finish(&mut self) -> DiskResult {
        let mut all = self.members[..self.layout.disks()].iter_mut().zip(&self.health);
        all.try_for_each(|(member, health)| if health.works() { member.finish() } else { Ok(()) })
    }
}

/// Work of an array's own: members fail and are replaced, and parts are rebuilt or scrubbed alongside the host's commands.
impl Array {
    /// Fails a member: its contents are gone. Commands sent to it complete; later writes to it are left out.
    pub fn fail(&mut self, disk: u32) {
        self.health[disk as usize] = Health::Failed;
    }

    /// Replaces a failed member by a new one, to be rebuilt in units of `unit_sectors`. The old one still completes the commands sent to
    /// it.
    pub fn replace(&mut self, disk: u32, member: MemberDrive, unit_sectors: u64) {
        let number = disk as usize;
        self.health[number] = Health::New(RebuiltUnits::nothing(self.layout.member_sectors(disk), unit_sectors));
        self.replaced[number] += 1;
        self.orderly &= member.keeps_order();
        let old = std::mem::replace(&mut self.members[number], member);
        if old.outstanding() > 0 {
            // The old member, pushed at this index below, keeps its turn.
            let moved = self.members.len();
            self.pending.iter_mut().filter(|pending| **pending == number).for_each(|pending| *pending = moved);
            self.members.push(old);
        }
        self.events = EventQueue::new(&self.members);
    }

    /// Begins to rebuild some sectors of a new member: whole units, or to its end.
    pub fn rebuild(&mut self, disk: u32, at: Lba, sectors: u64, now: Nanos) -> DiskResult {
        self.begin_background(Owner::Rebuild { disk }, (at, sectors), self.lock_on(disk, at, sectors, true), now)
    }

    /// Begins to read some sectors of all members; in check mode copies and parity are compared.
    pub fn scrub(&mut self, at: Lba, sectors: u64, now: Nanos) -> DiskResult {
        self.begin_background(Owner::Scrub, (at, sectors), self.lock_on(0, at, sectors, false), now)
    }

    fn begin_background(&mut self, owner: Owner, (at, sectors): (Lba, u64), lock: RangeLock, now: Nanos) -> DiskResult {
        // Only the sectors matter: what is done with them is planned by `owner`.
        let request = Request::new(Op::Write, at, sectors as u32);
        let command = Command { tag: 0, request, arrival: now, host: false, data: Buf::NoData };
        let id = self.works.add(|recycled| ArrayCommand::new(owner, command, recycled));
        self.lock_and_begin(id, Some(lock), now)
    }

    /// The lock for work on a member's sectors: the array's sectors that they hold or, on levels with parity, their rows on the members.
    fn lock_on(&self, disk: u32, at: Lba, sectors: u64, exclusive: bool) -> RangeLock {
        let (chunk, last) = (self.layout.chunk_sectors(), at.0 + sectors - 1);
        let (first, last) = match (self.layout.spread(), self.layout.copies()) {
            (SectorSpread::EndToEnd, _) | (SectorSpread::Chunks, 1) => {
                let start = self.layout.member_start(disk).0;
                (start + at.0, start + last)
            }
            // All of the array's sectors in the rows of chunks that hold the member's sectors. A row has room for a chunk on each disk, and
            // the array's chunks take `copies` of these places each, so that a chunk may begin in the row before.
            (SectorSpread::Chunks, copies) => {
                let (disks, copies) = (self.layout.disks() as u64, u64::from(copies));
                let (first_row, end_row) = (at.0 / chunk, last / chunk + 1);
                let (first_chunk, end_chunk) = (first_row * disks / copies, (end_row * disks).div_ceil(copies));
                (first_chunk * chunk, end_chunk * chunk - 1)
            }
            (SectorSpread::Whole | SectorSpread::Stripes, _) => (at.0, last),
        };
        RangeLock::Extent { first, last, exclusive }
    }
}

/// The steps of work, the host's or the array's own.
impl Array {
    /// Plans work and sends its first commands to the members, at `now`.
    #[inline]
    fn plan_and_send(&mut self, id: u32, now: Nanos) -> DiskResult {
        let work = self.works.get(id);
        let (owner, Request { op, lba, sectors, .. }) = (work.owner, work.command.request);
        // Taken out while the planner borrows the array, and put back even after an error.
        let mut plan = std::mem::take(&mut work.plan);
        let members = self.drives();
        let choose = |copies: &[(u32, Lba)]| nearest(members, copies);
        let (planner, sectors) = (Planner { layout: &self.layout, health: &self.health, choose }, u64::from(sectors));
        let planned = match owner {
            Owner::Host => planner.host(op, lba, sectors, &mut plan),
            Owner::Rebuild { disk } => planner.rebuild(disk, lba, sectors, &mut plan),
            Owner::Scrub => {
                planner.scrub(lba, sectors, &mut plan);
                Ok(())
            }
        };
        self.works.get(id).plan = plan;
        planned?;
        self.send(id, now)
    }

    /// Sends the commands of the next part of the plan, or finishes the work if none are left.
    fn send(&mut self, id: u32, now: Nanos) -> DiskResult {
        let work = self.works.get(id);
        // Most commands need no reads first.
        if work.plan.first.is_empty() {
            work.in_second_part = true;
        }
        let count = work.subs().len();
        work.left = count as u32;
        if let Owner::Rebuild { disk } = work.owner {
            // Set again for the second part, because only a replacement after the write was sent makes the write worthless
            // (see `finish_work`).
            work.replaced = self.replaced[disk as usize];
        }
        if count == 0 {
            // A discard of less than a stripe, for example, sends nothing.
            return self.finish_work(id, now);
        }
        for number in 0..count {
            let work = self.works.get(id);
            let (sub, source, host) = (work.subs()[number], work.command.request.source, work.command.host);
            let mut data = Buf::NoData;
            if self.checks && sub.op == Op::Write {
                let stamps = if let Buf::Stamps(stamps) = &work.command.data { &stamps[..] } else { &[] };
                let own = WrittenSectors { lba: work.command.request.lba, stamps };
                data = Buf::Stamps(redundancy::written(&self.layout, &work.known, &own, &sub));
                self.written.extend(sub.at.0 / PART_SECTORS..(sub.at.0 + sub.sectors).div_ceil(PART_SECTORS));
            }
            // Stays below `PASSED` (bit 63), because there are never 2^31 pieces of work.
            let tag = u64::from(id) << 32 | number as u64;
            let request = Request { source, ..Request::new(sub.op, sub.at, sub.sectors as u32) };
            let command = Command { tag, request, arrival: now, host, data };
            self.send_to_member(sub.disk, command)?;
        }
        Ok(())
    }

    /// Handles the completion of a member's command.
    #[inline]
    fn receive(&mut self, completion: Completion) -> DiskResult {
        let id = (completion.tag >> 32) as u32;
        let work = self.works.get(id);
        work.left -= 1;
        work.start = work.start.min(completion.start);
        if let Buf::Stamps(stamps) = completion.data {
            let sub = work.subs()[completion.tag as u32 as usize];
            if sub.op == Op::Read {
                work.known.note(&sub, &stamps);
            }
        }
        if work.left > 0 {
            return Ok(());
        }
        if !work.in_second_part {
            work.in_second_part = true;
            // A member may have failed while the first part was under way. Reads of the first part are complete: what was sent to a member
            // completes even if it fails.
            let health = &self.health;
            work.plan.second.retain(|sub| health[sub.disk as usize].works());
            if !work.plan.second.is_empty() {
                return self.send(id, completion.end);
            }
        }
        self.finish_work(id, completion.end)
    }

    /// Completes work whose member commands have all ended, and releases its lock.
    fn finish_work(&mut self, id: u32, now: Nanos) -> DiskResult {
        let work = self.works.get(id);
        let (owner, lock, Command { tag, request, arrival, .. }) = (work.owner, work.lock, &work.command);
        let (tag, op, at, sectors) = (*tag, request.op, request.lba, u64::from(request.sectors));
        let part = DonePart { at, sectors, begin: *arrival, end: now };
        let mut result = Ok(());
        match owner {
            Owner::Host => {
                let data = match self.checks && op == Op::Read {
                    true => Buf::Stamps(redundancy::assemble(&self.layout, &work.known, at, sectors)),
                    false => Buf::NoData,
                };
                // Without commands to members, `start` is still `Nanos::MAX`: then the work took no time.
                let start = work.start.min(now);
                self.ready.push_back(Completion { tag, start, end: now, data });
            }
            Owner::Rebuild { disk } => {
                // The member that the part was written to may have been replaced meanwhile.
                if work.replaced == self.replaced[disk as usize] {
                    self.health[disk as usize].rebuilt(at, sectors);
                }
                self.done.push_back(part);
            }
            Owner::Scrub => {
                if self.checks {
                    result = redundancy::compare(&self.layout, &work.known, at, sectors);
                }
                self.done.push_back(part);
            }
        }
        // Contents are let go now; the memory of the plan is for the next work with this number.
        work.known = KnownSectors::default();
        work.command.data = Buf::NoData;
        self.works.remove(id);
        if let Some(lock) = lock {
            self.locks.release(id, lock, &mut self.unlocked);
        }
        result
    }

    /// Begins work whose locks have become free.
    #[inline]
    fn begin_unlocked(&mut self, now: Nanos) -> DiskResult {
        while let Some(id) = self.unlocked.pop_front() {
            self.plan_and_send(id, now)?;
        }
        Ok(())
    }

    /// Begins work, at once or when what it locks is free.
    fn lock_and_begin(&mut self, id: u32, lock: Option<RangeLock>, now: Nanos) -> DiskResult {
        self.works.get(id).lock = lock;
        if lock.is_none_or(|lock| self.locks.take(id, lock)) {
            self.plan_and_send(id, now)?;
            self.begin_unlocked(now)?;
        }
        Ok(())
    }
}

/// The copy to read: of the members with the fewest commands the one whose head is nearest.
fn nearest(members: &[MemberDrive], copies: &[(u32, Lba)]) -> usize {
    let cost = |&(disk, at): &(u32, Lba)| {
        let member = &members[disk as usize];
        (member.outstanding(), member.distance(at), disk)
    };
    (0..copies.len()).min_by_key(|&number| cost(&copies[number])).expect("a plan chooses of one copy or more")
}

/// True if commands for the same sectors keep their order without locks.
fn is_orderly(layout: &ArrayLayout, members: &[MemberDrive]) -> bool {
    layout.parities() == 0 && members.iter().all(MemberDrive::keeps_order)
}

/// The time of the next event of each member.
struct EventQueue {
    /// By member; [`Nanos::MAX`] where nothing is under way.
    times: Vec<Nanos>,
    /// Events with their members, the soonest last. At equal times the first member's event is the soonest.
    coming: Vec<(Nanos, u32)>,
}

impl EventQueue {
    fn new(members: &[MemberDrive]) -> EventQueue {
        EventQueue::with_times(members.iter().map(MemberDrive::next).collect())
    }

    fn with_times(times: Vec<Nanos>) -> EventQueue {
        let all = times.iter().copied().zip(0..);
        let mut coming: Vec<(Nanos, u32)> = all.filter(|&(time, _)| time < Nanos::MAX).collect();
        coming.sort_unstable_by(|a, b| b.cmp(a));
        EventQueue { times, coming }
    }

    /// The time of the soonest event; [`Nanos::MAX`] if nothing is under way.
    #[inline]
    fn next(&self) -> Nanos {
        self.coming.last().map_or(Nanos::MAX, |&(time, _)| time)
    }

    /// Takes out the soonest event; returns its member.
    #[inline]
    fn take(&mut self) -> Option<usize> {
        let (_, member) = self.coming.pop()?;
        self.times[member as usize] = Nanos::MAX;
        Some(member as usize)
    }

    /// Sets the time of a member's next event; [`Nanos::MAX`] takes it out.
    #[inline]
    fn set(&mut self, member: usize, time: Nanos) {
        let before = std::mem::replace(&mut self.times[member], time);
        if time == before {
            return;
        }
        let member = member as u32;
        if before < Nanos::MAX {
            self.coming.retain(|&(_, other)| other != member);
        }
        if time < Nanos::MAX {
            let later = self.coming.iter().rposition(|&other| other > (time, member));
            self.coming.insert(later.map_or(0, |at| at + 1), (time, member));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_soonest_is_taken_and_of_several_the_first(
            start in prop::collection::vec(0u64..6, 1..8), changes in prop::collection::vec((0usize..8, 0u64..6), 0..60),
        ) {
            let moment = |n: u64| if n == 5 { Nanos::MAX } else { Nanos(n) };
            let mut times: Vec<Nanos> = start.into_iter().map(moment).collect();
            let mut events = EventQueue::with_times(times.clone());
            for (member, n) in changes {
                let soonest = times.iter().enumerate().map(|(member, &time)| (time, member)).min().unwrap();
                prop_assert_eq!(events.next(), soonest.0);
                if member < times.len() {
                    times[member] = moment(n);
                    events.set(member, times[member]);
                } else {
                    prop_assert_eq!(events.take(), (soonest.0 < Nanos::MAX).then_some(soonest.1));
                    times[soonest.1] = Nanos::MAX;
                }
            }
        }
    }
}
