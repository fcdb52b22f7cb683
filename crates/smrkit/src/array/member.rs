//! The members of an array: drives and arrays, which of them something happens at next, and those that were replaced and
//! still have commands to answer.

use super::Array;
use super::agenda::Agenda;
use super::station::Station;
use super::target::{Answer, Command, Target};
use crate::error::DiskResult;
use crate::units::Nanos;

/// A member: a drive, or an array.
pub enum Member {
    /// A drive with its queue.
    Drive(Box<Station>),
    /// An array.
    Array(Box<Array>),
}

impl Member {
    /// Counting of its drives starts anew at `now`, until when they wait.
    pub fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.target_mut().reset_counts(now)
    }

    /// Its drives, in order.
    pub fn stations(&mut self) -> Vec<&mut Station> {
        match self {
            Member::Drive(station) => vec![&mut **station],
            Member::Array(array) => array.stations(),
        }
    }

    #[inline]
    pub(super) fn target(&self) -> &dyn Target {
        match self {
            Member::Drive(station) => &**station,
            Member::Array(array) => &**array,
        }
    }

    #[inline]
    pub(super) fn target_mut(&mut self) -> &mut dyn Target {
        match self {
            Member::Drive(station) => &mut **station,
            Member::Array(array) => &mut **array,
        }
    }

    /// Whether commands for the same sectors are served in the order of their coming. An array sees to that itself.
    pub(super) fn keeps_order(&self) -> bool {
        match self {
            Member::Drive(station) => station.keeps_order(),
            Member::Array(_) => true,
        }
    }

    /// Whether it reads zeros where something was discarded; of drives that is assumed.
    pub(super) fn reads_zeros(&self) -> bool {
        match self {
            Member::Drive(_) => true,
            Member::Array(array) => array.reads_zeros(),
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
    fn first_wait(&self) -> Nanos {
        match self {
            Member::Drive(station) => station.first_wait(),
            Member::Array(array) => array.first_wait(),
        }
    }

    #[inline]
    fn rests(&self) -> bool {
        match self {
            Member::Drive(station) => station.rests(),
            Member::Array(array) => array.rests(),
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
    fn serve_at_once(&mut self, command: &Command) -> DiskResult<Option<Answer>> {
        match self {
            Member::Drive(station) => station.serve(command).map(Some),
            Member::Array(array) => array.serve_at_once(command),
        }
    }

    #[inline]
    fn advance(&mut self, more: &mut Vec<Answer>) -> DiskResult<Option<Answer>> {
        match self {
            Member::Drive(station) => station.advance(more),
            Member::Array(array) => array.advance(more),
        }
    }
}

/// The members, and what happens next at them.
pub(super) struct Members {
    /// Members in order, then those that were replaced.
    all: Vec<Member>,
    count: usize,
    agenda: Agenda,
    /// Those that have work to turn to once [`Members::resume`] is called.
    resting: Vec<usize>,
    first_wait: Nanos,
}

impl Members {
    pub fn new(all: Vec<Member>) -> Members {
        Members { count: all.len(), agenda: agenda(&all), all, resting: Vec::new(), first_wait: Nanos::MAX }
    }

    pub fn as_slice(&self) -> &[Member] {
        &self.all[..self.count]
    }

    pub fn as_mut_slice(&mut self) -> &mut [Member] {
        &mut self.all[..self.count]
    }

    #[inline]
    pub fn next(&self) -> Nanos {
        self.agenda.next()
    }

    /// [`Target::first_wait`] of all.
    #[inline]
    pub fn first_wait(&self) -> Nanos {
        self.first_wait
    }

    /// Counting starts anew at `now`.
    pub fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.first_wait = Nanos::MAX;
        self.as_mut_slice().iter_mut().try_for_each(|member| member.target_mut().reset_counts(now))
    }

    #[inline]
    pub fn rests(&self) -> bool {
        !self.resting.is_empty()
    }

    #[inline]
    pub fn submit(&mut self, disk: u32, command: Command) -> DiskResult {
        self.all[disk as usize].submit(command)?;
        self.touch(disk as usize);
        Ok(())
    }

    /// [`Array::serve_at_once`] of a member.
    #[inline]
    pub fn serve_at_once(&mut self, disk: u32, command: &Command) -> DiskResult<Option<Answer>> {
        let member = &mut self.all[disk as usize];
        let answer = member.serve_at_once(command);
        self.first_wait = self.first_wait.min(member.first_wait());
        answer
    }

    /// Lets what happens next happen, if there is anything; answers as [`Target::advance`] does.
    #[inline]
    pub fn advance(&mut self, more: &mut Vec<Answer>) -> DiskResult<Option<Answer>> {
        let Some(number) = self.agenda.take() else { return Ok(None) };
        let answer = self.all[number].advance(more)?;
        self.touch(number);
        if number >= self.count && self.all[number].target().outstanding() == 0 {
            self.let_go(number);
        }
        Ok(answer)
    }

    #[inline]
    pub fn resume(&mut self) -> DiskResult {
        while let Some(number) = self.resting.pop() {
            self.all[number].target_mut().resume()?;
            self.touch(number);
        }
        Ok(())
    }

    /// Another member in this place; the old one still answers what it was asked.
    pub fn replace(&mut self, disk: u32, member: Member) {
        let number = disk as usize;
        let old = std::mem::replace(&mut self.all[number], member);
        if old.target().outstanding() > 0 {
            self.resting.iter_mut().filter(|resting| **resting == number).for_each(|resting| *resting = self.all.len());
            self.all.push(old);
        }
        self.agenda = agenda(&self.all);
    }

    fn let_go(&mut self, number: usize) {
        self.all.remove(number);
        self.resting.iter_mut().filter(|resting| **resting > number).for_each(|resting| *resting -= 1);
        self.agenda = agenda(&self.all);
    }

    /// Something has changed at a member.
    #[inline]
    fn touch(&mut self, number: usize) {
        let member = &self.all[number];
        self.agenda.set(number, member.next());
        self.first_wait = self.first_wait.min(member.first_wait());
        if member.rests() && !self.resting.contains(&number) {
            self.resting.push(number);
        }
    }
}

fn agenda(members: &[Member]) -> Agenda {
    Agenda::new(members.iter().map(Member::next).collect())
}
