//! The course of an array's work, the host's or its own: planned, sent to members in one part or two, answered, finished.
//!
//! A command that goes to one member as it came takes no such course: the array passes it on.

use super::check::{self, Own};
use super::locks::Claim;
use super::member::Member;
use super::plan::Planner;
use super::target::{Answer, Command};
use super::work::Owner;
use super::{Array, Done, PASSED};
use crate::error::DiskResult;
use crate::request::Op;
use crate::units::{Lba, Nanos};

impl Array {
    fn planner(&self) -> Planner<'_> {
        let discards = self.zeros || !self.is_redundant();
        Planner { layout: &self.layout, health: &self.health, write: self.write, discards }
    }

    /// Plans work and sends its first commands to the members, at `now`.
    #[inline]
    fn begin(&mut self, id: u32, now: Nanos) -> DiskResult {
        let work = self.works.get(id);
        let (owner, op, lba, sectors) =
            (work.owner, work.command.op, work.command.lba, u64::from(work.command.sectors));
        let mut plan = std::mem::take(&mut work.plan);
        let members = self.members.as_slice();
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
            let (sub, source, host) = (work.subs()[number], work.command.source, work.command.host);
            let words = match self.check && sub.op == Op::Write {
                true => {
                    let own = Own { lba: work.command.lba, words: &work.command.words };
                    check::written(&self.layout, &work.known, &own, &sub)
                }
                false => Vec::new(),
            };
            if self.check && sub.op == Op::Write {
                self.note_written(sub.at, sub.sectors);
            }
            let tag = u64::from(id) << 32 | number as u64;
            let (lba, sectors) = (sub.at, sub.sectors as u32);
            let command = Command { tag, op: sub.op, lba, sectors, source, arrival: now, host, words };
            self.members.submit(sub.disk, command)?;
        }
        Ok(())
    }

    /// A member has answered a command.
    #[inline]
    pub(super) fn answered(&mut self, answer: Answer) -> DiskResult {
        if answer.tag & PASSED != 0 {
            self.passed -= 1;
            self.ready.push_back(Answer { tag: answer.tag & !PASSED, ..answer });
            return Ok(());
        }
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
            // A member may have failed since this was planned.
            let health = &self.health;
            work.plan.second.retain(|sub| health[sub.disk as usize].works());
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
                let start = work.start.min(now);
                self.ready.push_back(Answer { tag: command.tag, start, end: now, words });
            }
            Owner::Rebuild { disk, at, sectors } => {
                let begin = work.command.arrival;
                // The member that it was written to may be gone meanwhile.
                if work.replaced == self.replaced[disk as usize] {
                    self.health[disk as usize].rebuilt(at, sectors);
                }
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
        if let Some(claim) = claim {
            self.locks.release(id, claim, &mut self.free);
        }
        Ok(())
    }

    /// Begins what waited for others that are done.
    #[inline]
    pub(super) fn begin_free(&mut self, now: Nanos) -> DiskResult {
        while let Some(id) = self.free.pop_front() {
            self.begin(id, now)?;
        }
        Ok(())
    }

    /// Begins work, at once or when what it claims is free.
    pub(super) fn start(&mut self, id: u32, claim: Option<Claim>, now: Nanos) -> DiskResult {
        self.works.get(id).claim = claim;
        if claim.is_none_or(|claim| self.locks.claim(id, claim)) {
            self.begin(id, now)?;
            self.begin_free(now)?;
        }
        Ok(())
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
