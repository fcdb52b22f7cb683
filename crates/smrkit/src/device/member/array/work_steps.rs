//! The steps of an array's work, the host's or its own: planned, sent to members in one part or two, completed.
//!
//! A command that goes to one member as it came takes no such steps: the array passes it on.

use crate::device::command::{Command, Completion};
use crate::device::member::{Array, Member};
use crate::device::plan::Planner;
use crate::device::redundancy::{self, WrittenSectors};
use crate::device::work::{DonePart, Owner, RangeLock};
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::request::{Op, Request};
use crate::units::{Lba, Nanos};

/// In the tag of a command that goes to one member as it came, and its completion straight back.
pub(super) const PASSED: u64 = 1 << 63;

impl Array {
    fn planner(&self) -> Planner<'_> {
        let discards = self.zeros || !self.is_redundant();
        Planner { layout: &self.layout, health: &self.health, write: self.write, discards }
    }

    /// Plans work and sends its first commands to the members, at `now`.
    #[inline]
    fn begin(&mut self, id: u32, now: Nanos) -> DiskResult {
        let work = self.works.get(id);
        let (owner, Request { op, lba, sectors, .. }) = (work.owner, work.command.request);
        let mut plan = std::mem::take(&mut work.plan);
        let members = self.members.as_slice();
        let choose = |copies: &[(u32, Lba)]| nearest(members, copies);
        let planner = self.planner();
        let planned = match owner {
            Owner::Host => planner.host(op, lba, u64::from(sectors), choose, &mut plan),
            Owner::Rebuild { disk, at, sectors } => planner.rebuild(disk, at, sectors, choose, &mut plan),
            Owner::Scrub { at, sectors } => planner.scrub(at, sectors, &mut plan),
            Owner::Resync { first, sectors } => planner.resync(first, sectors, &mut plan),
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
        if let Owner::Rebuild { disk, .. } = work.owner {
            work.replaced = self.replaced[disk as usize];
        }
        if count == 0 {
            return match work.second {
                true => self.finish_work(id, now),
                false => Ok(()),
            };
        }
        for number in 0..count {
            let work = self.works.get(id);
            let (sub, source, host) = (work.subs()[number], work.command.request.source, work.command.host);
            let data = match self.checks && sub.op == Op::Write {
                true => {
                    let stamps = if let Buf::Stamps(stamps) = &work.command.data { &stamps[..] } else { &[] };
                    let own = WrittenSectors { lba: work.command.request.lba, stamps };
                    Buf::Stamps(redundancy::written(&self.layout, &work.known, &own, &sub))
                }
                false => Buf::NoData,
            };
            if self.checks && sub.op == Op::Write {
                self.note_written(sub.at, sub.sectors);
            }
            let tag = u64::from(id) << 32 | number as u64;
            let request = Request { source, ..Request::new(sub.op, sub.at, sub.sectors as u32) };
            let command = Command { tag, request, arrival: now, host, data };
            self.members.submit(sub.disk, command)?;
        }
        Ok(())
    }

    /// A member has completed a command.
    #[inline]
    pub(super) fn completed(&mut self, completion: Completion) -> DiskResult {
        if completion.tag & PASSED != 0 {
            self.passed -= 1;
            self.ready.push_back(Completion { tag: completion.tag & !PASSED, ..completion });
            return Ok(());
        }
        let id = (completion.tag >> 32) as u32;
        let work = self.works.get(id);
        work.completed(&completion);
        if let Buf::Stamps(stamps) = completion.data {
            let sub = work.subs()[completion.tag as u32 as usize];
            if sub.op == Op::Read {
                work.known.note(&sub, &stamps);
            }
        }
        if work.left > 0 {
            return Ok(());
        }
        if !work.second {
            work.second = true;
            // A member may have failed since this was planned.
            let health = &self.health;
            work.plan.second.retain(|sub| health[sub.disk as usize].works());
            if !work.plan.second.is_empty() {
                return self.send(id, completion.end);
            }
        }
        self.finish_work(id, completion.end)
    }

    fn finish_work(&mut self, id: u32, now: Nanos) -> DiskResult {
        let work = self.works.get(id);
        let (owner, lock) = (work.owner, work.lock);
        let mut result = Ok(());
        match owner {
            Owner::Host => {
                let (tag, request) = (work.command.tag, work.command.request);
                let data = match self.checks && request.op == Op::Read {
                    true => {
                        let sectors = u64::from(request.sectors);
                        Buf::Stamps(redundancy::assemble(&self.layout, &work.known, request.lba, sectors))
                    }
                    false => Buf::NoData,
                };
                // What no member was asked for took no time.
                let start = work.start.min(now);
                self.ready.push_back(Completion { tag, start, end: now, data });
            }
            Owner::Rebuild { disk, at, sectors } => {
                let begin = work.command.arrival;
                // The member that it was written to may be gone meanwhile.
                if work.replaced == self.replaced[disk as usize] {
                    self.health[disk as usize].rebuilt(at, sectors);
                }
                self.done.push_back(DonePart { at, sectors, begin, end: now });
            }
            Owner::Scrub { at, sectors } => {
                let begin = work.command.arrival;
                if self.checks {
                    result = redundancy::compare(&self.layout, &self.works.get(id).known, at, sectors);
                }
                self.done.push_back(DonePart { at, sectors, begin, end: now });
            }
            Owner::Resync { first, sectors } => {
                self.done.push_back(DonePart { at: first, sectors, begin: work.command.arrival, end: now });
            }
        }
        self.works.remove(id);
        if let Some(lock) = lock {
            self.locks.release(id, lock, &mut self.free);
        }
        result
    }

    /// Begins what waited for others that are done.
    #[inline]
    pub(super) fn begin_free(&mut self, now: Nanos) -> DiskResult {
        while let Some(id) = self.free.pop_front() {
            self.begin(id, now)?;
        }
        Ok(())
    }

    /// Begins work, at once or when what it locks is free.
    pub(super) fn start(&mut self, id: u32, lock: Option<RangeLock>, now: Nanos) -> DiskResult {
        self.works.get(id).lock = lock;
        if lock.is_none_or(|lock| self.locks.take(id, lock)) {
            self.begin(id, now)?;
            self.begin_free(now)?;
        }
        Ok(())
    }
}

/// The copy to read: of the members with the fewest commands the one whose head is nearest.
fn nearest(members: &[Member], copies: &[(u32, Lba)]) -> usize {
    let cost = |&(disk, at): &(u32, Lba)| {
        let member = &members[disk as usize];
        (member.outstanding(), member.distance(at), disk)
    };
    (0..copies.len()).min_by_key(|&number| cost(&copies[number])).unwrap_or(0)
}
