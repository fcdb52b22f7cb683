//! The members of an array: drives and arrays, which of them something happens at next, and those that were replaced and
//! still have commands to complete.

mod array;

use std::collections::{BTreeSet, VecDeque};

use super::address::ArrayLayout;
use super::command::{Command, Completion, FirstStamps, Served};
use super::event_queue::EventQueue;
use super::health::Health;
use super::layered::LayeredDisk;
use super::level::WritePolicy;
use super::member_drive::MemberDrive;
use super::queue::Queueing;
use super::work::{DonePart, Locks, Slab};
use crate::error::DiskResult;
use crate::layer::Gauges;
use crate::medium::Buf;
use crate::request::Request;
use crate::state::{self, State, state};
use crate::units::{Lba, Nanos};

/// A drive with its queue, or an array: what the engine sends requests to, and what arrays are made of. The caller keeps
/// the time, and processes events in order.
pub enum Member {
    /// A drive with its queue.
    Drive(Box<MemberDrive>),
    /// An array.
    Array(Box<Array>),
}

/// An array.
pub struct Array {
    layout: ArrayLayout,
    members: Members,
    health: Vec<Health>,
    /// Number of times that each member was replaced.
    replaced: Vec<u32>,
    write: WritePolicy,
    /// True in check mode: commands carry a stamp for each sector.
    checks: bool,
    /// In check mode: parts of the members that anything was written to.
    written: BTreeSet<u64>,
    /// True if commands for the same sectors keep their order without locks: each is one command of a member, or the same
    /// of several, and members keep their order.
    orderly: bool,
    /// True if members read zeros where something was discarded: only then do copies and parity stay true.
    zeros: bool,
    works: Slab,
    locks: Locks,
    /// Commands that were passed on and not completed.
    passed: usize,
    /// Completed, until the caller takes note.
    ready: VecDeque<Completion>,
    /// Own work that is done, until somebody takes note.
    done: VecDeque<DonePart>,
    /// Room for the completions of members.
    completions: Vec<Completion>,
    /// Work that may begin.
    free: VecDeque<u32>,
}

impl State for Member {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Member::Drive(drive) => drive.save(out),
            Member::Array(array) => array.save(out),
        }
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        match self {
            Member::Drive(drive) => drive.load(from),
            Member::Array(array) => array.load(from),
        }
    }
}

state! {
    Array {
        parts: members;
        sized: health, replaced;
        built: layout, write, checks, written, orderly, zeros, works, locks, passed, ready, done, completions, free;
    }
}

state! { Members { parts: all; built: count, events, pending, first_wait; } }

/// Calls a method that drives and arrays have under one name.
macro_rules! either {
    ($member:expr, $of:ident => $call:expr) => {
        match $member {
            Member::Drive($of) => $call,
            Member::Array($of) => $call,
        }
    };
}

impl Member {
    /// Sectors offered.
    pub fn host_sectors(&self) -> u64 {
        match self {
            Member::Drive(drive) => drive.device().host_sectors(),
            Member::Array(array) => array.layout().host_sectors(),
        }
    }

    /// True if each source has a member of its own.
    pub fn is_per_source(&self) -> bool {
        matches!(self, Member::Array(array) if array.layout().is_per_source())
    }

    /// First sector of a source, and number of its sectors: all, unless each source has a member of its own.
    pub fn place_of_source(&self, source: u8) -> (Lba, u64) {
        match self {
            Member::Array(array) if array.layout().is_per_source() => {
                let layout = array.layout();
                (layout.member_start(u32::from(source)), layout.member_sectors(u32::from(source)))
            }
            _ => (Lba(0), self.host_sectors()),
        }
    }

    /// The disks and layers of its drives, in order.
    pub fn layered(&self) -> Vec<&LayeredDisk> {
        match self {
            Member::Drive(drive) => vec![drive.device()],
            Member::Array(array) => array.members().iter().flat_map(Member::layered).collect(),
        }
    }

    /// Its drives, in order.
    pub fn drives(&mut self) -> Vec<&mut MemberDrive> {
        match self {
            Member::Drive(drive) => vec![&mut **drive],
            Member::Array(array) => array.drives(),
        }
    }

    /// The array, if it is one.
    pub fn array(&self) -> Option<&Array> {
        match self {
            Member::Drive(_) => None,
            Member::Array(array) => Some(array),
        }
    }

    /// The array, if it is one, to be changed.
    pub fn array_mut(&mut self) -> Option<&mut Array> {
        match self {
            Member::Drive(_) => None,
            Member::Array(array) => Some(&mut **array),
        }
    }

    /// The order in which each drive, by its number, serves commands that wait, from now on. Nothing is under way.
    pub fn order_commands(&mut self, queueing: impl Fn(usize) -> Queueing) {
        match self {
            Member::Drive(drive) => drive.order_commands(queueing(0)),
            Member::Array(array) => array.order_commands(queueing),
        }
    }

    /// True if commands for the same sectors are served in the order of their coming. An array sees to that itself.
    pub(super) fn keeps_order(&self) -> bool {
        match self {
            Member::Drive(drive) => drive.keeps_order(),
            Member::Array(_) => true,
        }
    }

    /// True if requests are completed in the order of their coming, whatever comes meanwhile.
    pub fn completes_in_order(&self) -> bool {
        matches!(self, Member::Drive(drive) if drive.completes_in_order())
    }

    /// True if it reads zeros where something was discarded; of drives that is assumed.
    pub(super) fn reads_zeros(&self) -> bool {
        match self {
            Member::Drive(_) => true,
            Member::Array(array) => array.reads_zeros(),
        }
    }

    /// A command arrives, not before anything that has happened here.
    #[inline]
    pub fn submit(&mut self, command: Command) -> DiskResult {
        either!(self, member => member.submit(command))
    }

    /// When something happens next by itself; [`Nanos::MAX`] if nothing is under way.
    #[inline]
    pub fn next(&self) -> Nanos {
        either!(self, member => member.next())
    }

    /// Processes the next event. Returns a command that it completed, and adds any others to `more`. The next command
    /// of a queue is begun by [`Member::resume`].
    #[inline]
    pub fn advance(&mut self, more: &mut Vec<Completion>) -> DiskResult<Option<Completion>> {
        match self {
            Member::Drive(drive) => Ok(drive.advance()),
            Member::Array(array) => array.advance(more),
        }
    }

    /// True if [`Member::resume`] has anything to begin.
    #[inline]
    pub fn has_pending(&self) -> bool {
        either!(self, member => member.has_pending())
    }

    /// Begins what comes next, once all that comes at this moment is there: a drive that orders its commands sees all of them.
    pub fn resume(&mut self) -> DiskResult {
        either!(self, member => member.resume())
    }

    /// Lets one thing happen, as the engine's loop does, if there is anything not after `limit`: what comes next, or the beginning
    /// of what waits once all that comes at its moment is there. `now`, when something last happened or came, goes on; `done` gets
    /// what is completed.
    pub fn step(&mut self, now: &mut Nanos, limit: Nanos, done: &mut Vec<Completion>) -> DiskResult<bool> {
        let next = self.next();
        if self.has_pending() && *now < next.min(limit) {
            return self.resume().map(|()| true);
        }
        if next == Nanos::MAX || next > limit {
            return Ok(false);
        }
        *now = next;
        let first = self.advance(done)?;
        done.extend(first);
        Ok(true)
    }

    /// Serves a request where nothing is under way and one drive has to serve it alone, and tells the completion before its
    /// moment; `None` where that can't be. The caller lets nothing else happen until then.
    #[inline(always)]
    pub fn serve_at_once(
        &mut self,
        request: &Request,
        arrival: Nanos,
        host: bool,
        data: &mut Buf,
    ) -> DiskResult<Option<Served>> {
        match self {
            Member::Drive(drive) => drive.serve(request, arrival, host, data).map(Some),
            Member::Array(array) => array.serve_at_once(request, arrival, host, data),
        }
    }

    /// The whole state: drives with their clocks and layers, and the health of arrays. Nothing is under way. It holds none of the host's data.
    pub fn state(&self) -> Vec<u8> {
        assert_eq!(self.outstanding(), 0, "commands under way are no state that can be saved");
        state::saved(self)
    }

    /// Takes over the [`Member::state`] of one that was built alike. Errors: it is another's, or damaged; then this one is of no use.
    pub fn restore(&mut self, saved: &[u8]) -> DiskResult {
        state::load(self, saved)
    }

    /// The power of all drives was cut and is back: commands under way are gone, and what was in volatile memory only. Copies and parity
    /// may differ where a write was under way.
    pub fn power_cut(&mut self) {
        either!(self, member => member.power_cut())
    }

    /// The first moment since counting began at which a request of the host waited for cleaning; [`Nanos::MAX`] if none did.
    #[inline]
    pub fn first_wait(&self) -> Nanos {
        either!(self, member => member.first_wait())
    }

    /// Commands that have not been completed.
    #[inline]
    pub fn outstanding(&self) -> usize {
        either!(self, member => member.outstanding())
    }

    /// Distance of the head from `lba`, in any unit that compares members of one size.
    pub(super) fn distance(&self, lba: Lba) -> u64 {
        either!(self, member => member.distance(lba))
    }

    /// Sectors of persistent cache, of all drives.
    pub fn cache_sectors(&self) -> u64 {
        match self {
            Member::Drive(drive) => drive.device().layer.capacity().cache_sectors,
            Member::Array(array) => array.cache_sectors(),
        }
    }

    /// Gauges of the layers: means of the caches and of gauges that are shares, and sums of the rest.
    pub fn gauges(&self) -> Gauges {
        either!(self, member => member.gauges())
    }

    /// Takes every sector as written once, in order, with these stamps, and nothing as cached: before the first command.
    pub fn fill(&mut self, stamps: FirstStamps) {
        either!(self, member => member.fill(stamps))
    }

    /// Counting starts anew at `now`, until when the drives wait.
    pub fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        either!(self, member => member.reset_counts(now))
    }

    /// Checks every drive's books, and in check mode reads back all that was written to each.
    pub fn finish(&mut self) -> DiskResult {
        either!(self, member => member.finish())
    }
}

/// The members, and what happens next at them.
struct Members {
    /// Members in order, then those that were replaced.
    all: Vec<Member>,
    count: usize,
    events: EventQueue,
    /// Members that have commands to begin once [`Members::resume`] is called.
    pending: Vec<usize>,
    first_wait: Nanos,
}

impl Members {
    pub fn new(all: Vec<Member>) -> Members {
        Members { count: all.len(), events: events(&all), all, pending: Vec::new(), first_wait: Nanos::MAX }
    }

    pub fn as_slice(&self) -> &[Member] {
        &self.all[..self.count]
    }

    pub fn as_mut_slice(&mut self) -> &mut [Member] {
        &mut self.all[..self.count]
    }

    #[inline]
    pub fn next(&self) -> Nanos {
        self.events.next()
    }

    /// [`Member::first_wait`] of all.
    #[inline]
    pub fn first_wait(&self) -> Nanos {
        self.first_wait
    }

    /// Counting starts anew at `now`.
    pub fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.first_wait = Nanos::MAX;
        self.as_mut_slice().iter_mut().try_for_each(|member| member.reset_counts(now))
    }

    #[inline]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The power was cut.
    pub fn power_cut(&mut self) {
        self.all.truncate(self.count);
        self.pending.clear();
        self.all.iter_mut().for_each(Member::power_cut);
        self.events = events(&self.all);
    }

    #[inline]
    pub fn submit(&mut self, disk: u32, command: Command) -> DiskResult {
        self.all[disk as usize].submit(command)?;
        self.touch(disk as usize);
        Ok(())
    }

    /// [`Member::serve_at_once`] of one of them.
    #[inline]
    pub fn serve_at_once(
        &mut self,
        disk: u32,
        request: &Request,
        arrival: Nanos,
        host: bool,
        data: &mut Buf,
    ) -> DiskResult<Option<Served>> {
        let member = &mut self.all[disk as usize];
        let served = member.serve_at_once(request, arrival, host, data);
        self.first_wait = self.first_wait.min(member.first_wait());
        served
    }

    /// Processes the next event, if there is one, as [`Member::advance`] does.
    #[inline]
    pub fn advance(&mut self, more: &mut Vec<Completion>) -> DiskResult<Option<Completion>> {
        let Some(number) = self.events.take() else { return Ok(None) };
        let completion = self.all[number].advance(more)?;
        self.touch(number);
        if number >= self.count && self.all[number].outstanding() == 0 {
            self.let_go(number);
        }
        Ok(completion)
    }

    #[inline]
    pub fn resume(&mut self) -> DiskResult {
        while let Some(number) = self.pending.pop() {
            self.all[number].resume()?;
            self.touch(number);
        }
        Ok(())
    }

    /// Another member in this place; the old one still completes what it was asked.
    pub fn replace(&mut self, disk: u32, member: Member) {
        let number = disk as usize;
        let old = std::mem::replace(&mut self.all[number], member);
        if old.outstanding() > 0 {
            self.pending.iter_mut().filter(|pending| **pending == number).for_each(|pending| *pending = self.all.len());
            self.all.push(old);
        }
        self.events = events(&self.all);
    }

    fn let_go(&mut self, number: usize) {
        self.all.remove(number);
        self.pending.iter_mut().filter(|pending| **pending > number).for_each(|pending| *pending -= 1);
        self.events = events(&self.all);
    }

    /// Something has changed at a member.
    #[inline]
    fn touch(&mut self, number: usize) {
        let member = &self.all[number];
        self.events.set(number, member.next());
        self.first_wait = self.first_wait.min(member.first_wait());
        if member.has_pending() && !self.pending.contains(&number) {
            self.pending.push(number);
        }
    }
}

fn events(members: &[Member]) -> EventQueue {
    EventQueue::new(members.iter().map(Member::next).collect())
}
