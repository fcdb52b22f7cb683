//! The members of an array, those that were replaced and still have commands to complete, and the order of their events.
//!
//! Only members with commands under way are visited, so that an array of thousands costs no more than its commands.

use super::member_drive::MemberDrive;
use super::{Command, Completion};
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::request::Request;
use crate::state::state;
use crate::stats::counts::Times;
use crate::units::Nanos;

pub(super) struct Members {
    /// Members in order, then those that were replaced.
    all: Vec<MemberDrive>,
    count: usize,
    events: EventQueue,
    /// Members that have commands to begin once [`Members::resume`] is called.
    pending: Vec<usize>,
    /// [`MemberDrive::first_wait`] of all.
    pub first_wait: Nanos,
}

state! { Members { parts: all; built: count, events, pending, first_wait; } }

impl Members {
    pub fn new(all: Vec<MemberDrive>) -> Members {
        Members { count: all.len(), events: events(&all), all, pending: Vec::new(), first_wait: Nanos::MAX }
    }

    pub fn as_slice(&self) -> &[MemberDrive] {
        &self.all[..self.count]
    }

    pub fn as_mut_slice(&mut self) -> &mut [MemberDrive] {
        &mut self.all[..self.count]
    }

    #[inline]
    pub fn next(&self) -> Nanos {
        self.events.next()
    }

    /// Starts counting anew at `now`.
    pub fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.first_wait = Nanos::MAX;
        self.as_mut_slice().iter_mut().try_for_each(|member| member.reset_counts(now))
    }

    #[inline]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub fn power_cut(&mut self) {
        self.all.truncate(self.count);
        self.pending.clear();
        self.all.iter_mut().for_each(MemberDrive::power_cut);
        self.events = events(&self.all);
    }

    #[inline]
    pub fn submit(&mut self, disk: u32, command: Command) -> DiskResult {
        self.all[disk as usize].submit(command)?;
        self.touch(disk as usize);
        Ok(())
    }

    /// [`MemberDrive::serve`] of one of them.
    #[inline]
    pub fn serve(
        &mut self,
        disk: u32,
        request: &Request,
        arrival: Nanos,
        host: bool,
        data: &mut Buf,
    ) -> DiskResult<Times> {
        let member = &mut self.all[disk as usize];
        let served = member.serve(request, arrival, host, data);
        self.first_wait = self.first_wait.min(member.first_wait());
        served
    }

    /// Processes the next event, if there is one, as [`MemberDrive::advance`] does.
    #[inline]
    pub fn advance(&mut self) -> Option<Completion> {
        let number = self.events.take()?;
        let completion = self.all[number].advance();
        self.touch(number);
        // Those beyond the count have been replaced.
        if number >= self.count && self.all[number].outstanding() == 0 {
            self.let_go(number);
        }
        completion
    }

    #[inline]
    pub fn resume(&mut self) -> DiskResult {
        while let Some(number) = self.pending.pop() {
            self.all[number].resume()?;
            self.touch(number);
        }
        Ok(())
    }

    /// Replaces a member; the old one still completes the commands sent to it.
    pub fn replace(&mut self, disk: u32, member: MemberDrive) {
        let number = disk as usize;
        let old = std::mem::replace(&mut self.all[number], member);
        if old.outstanding() > 0 {
            // The old member, pushed at this index below, keeps its turn.
            self.pending.iter_mut().filter(|pending| **pending == number).for_each(|pending| *pending = self.all.len());
            self.all.push(old);
        }
        self.events = events(&self.all);
    }

    /// Forgets a replaced member that has completed its commands. Those after it move down by one.
    fn let_go(&mut self, number: usize) {
        self.all.remove(number);
        self.pending.iter_mut().filter(|pending| **pending > number).for_each(|pending| *pending -= 1);
        self.events = events(&self.all);
    }

    /// Updates the next event of a member that has changed.
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

fn events(members: &[MemberDrive]) -> EventQueue {
    EventQueue::new(members.iter().map(MemberDrive::next).collect())
}

/// The time of the next event of each member.
struct EventQueue {
    /// By member; [`Nanos::MAX`] where nothing is under way.
    times: Vec<Nanos>,
    /// Events with their members, the soonest last. At equal times the first member's event is the soonest.
    coming: Vec<(Nanos, u32)>,
}

impl EventQueue {
    pub fn new(times: Vec<Nanos>) -> EventQueue {
        let all = times.iter().zip(0..).map(|(&time, member)| (time, member));
        let mut coming: Vec<(Nanos, u32)> = all.filter(|&(time, _)| time < Nanos::MAX).collect();
        coming.sort_unstable_by(|a, b| b.cmp(a));
        EventQueue { times, coming }
    }

    /// The time of the soonest event; [`Nanos::MAX`] if nothing is under way.
    #[inline]
    pub fn next(&self) -> Nanos {
        self.coming.last().map_or(Nanos::MAX, |&(time, _)| time)
    }

    /// Takes out the soonest event; returns its member.
    #[inline]
    pub fn take(&mut self) -> Option<usize> {
        let (_, member) = self.coming.pop()?;
        self.times[member as usize] = Nanos::MAX;
        Some(member as usize)
    }

    #[inline]
    pub fn set(&mut self, member: usize, time: Nanos) {
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
            let mut events = EventQueue::new(times.clone());
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
