//! A served drive or array as the simulator has it: its drives work at the same time, and commands are under way together.
//!
//! Things happen in the order of the drives' time, and not before that is asked for. Whoever asks for the same, in larger steps or
//! smaller ones, finds the same, so that a log can be replayed.

mod redundancy;

use smrkit::device::{
    Array, Command, Completion, Contents, DriveContents, LayeredDisk, Member, MemberDrive, NCQ_COMMANDS, Queueing,
    Served,
};
use smrkit::drive::Drive;
use smrkit::engine::system::{DriveRun, MemberRun};
use smrkit::error::{DiskResult, Error, Fault};
use smrkit::layer::Gauges;
use smrkit::medium::Buf;
use smrkit::power::Power;
use smrkit::request::{Op, Request};
use smrkit::settings::Queue;
use smrkit::units::{Lba, Nanos};

use super::unsettled::{Begun, Unsettled};
use super::written::Written;

/// The tag of a command that is served alone.
const ALONE: u64 = 1 << 40;

/// A drive or an array, and what is under way.
pub(super) struct Simulated {
    member: Member,
    /// Its time: that of the last event or arrival.
    now: Nanos,
    /// Completed, until the caller takes note.
    done: Vec<Completion>,
    /// Of an array: where copies or parity may differ.
    unsettled: Option<Unsettled>,
    /// True if the power is to be cut with a drive's next write.
    will_lose_power: bool,
}

/// The order of a drive's commands, and how many it sees. [`Queue::Drive`] is shortest positioning time first where the drive has
/// mechanics and its file no order.
fn queueing(queue: Queue, drive: &Drive) -> Queueing {
    let order = match queue {
        Queue::Drive if drive.command_order.is_none() && drive.clock.mechanical().is_some() => Queue::Sptf,
        queue => queue,
    };
    Queueing::new(order, NCQ_COMMANDS, drive.command_order)
}

impl Simulated {
    /// The drive or the array of `system`, with the drives that `build` makes, in order; of an array, commands carry `contents`, and
    /// what is begun in which part is kept in `bits`.
    pub(super) fn new(
        system: &MemberRun,
        contents: Contents,
        mut build: impl FnMut(&DriveRun) -> Result<(LayeredDisk, DriveContents), Error>,
        bits: Option<Written>,
    ) -> Result<Simulated, Error> {
        let mut drive = |member: &MemberRun| {
            let MemberRun::Drive(run) = member else { return Err(Error::Impossible("an array of arrays".into())) };
            let (device, contents) = build(run)?;
            let queueing = queueing(Queue::Fcfs, &run.drive);
            Ok(Member::Drive(Box::new(MemberDrive::new(device, queueing, contents))))
        };
        let member = match system {
            MemberRun::Drive(_) => drive(system)?,
            MemberRun::Array(run) => Member::Array(Box::new(run.build_of(contents, drive)?)),
        };
        let unsettled = member.array().map(|array| Unsettled::new(array.layout(), bits));
        Ok(Simulated { member, now: Nanos::ZERO, done: Vec::new(), unsettled, will_lose_power: false })
    }

    /// Its drives, in order.
    pub(super) fn drives(&self) -> Vec<&LayeredDisk> {
        self.member.layered()
    }

    fn drives_mut(&mut self) -> Vec<&mut LayeredDisk> {
        self.member.drives().into_iter().map(MemberDrive::device_mut).collect()
    }

    /// The array, if it is one.
    pub(super) fn array(&self) -> Option<&Array> {
        self.member.array()
    }

    pub(super) fn gauges(&self) -> Gauges {
        self.member.gauges()
    }

    /// The order in which its drives serve commands that wait, from now on. Nothing is under way.
    pub(super) fn order_commands(&mut self, queue: Queue, system: &MemberRun) {
        let runs = system.drives();
        self.member.order_commands(|number| queueing(queue, &runs[number].drive));
    }

    /// Its time: that of what last happened or came.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// Moment at which something happens next, as far as that is known.
    pub(super) fn next(&self) -> Option<Nanos> {
        let next = if self.member.has_pending() { self.now } else { self.member.next() };
        (next < Nanos::MAX).then_some(next)
    }

    /// Lets one thing happen that comes not after `limit`; tells whether there was any.
    pub(super) fn step(&mut self, limit: Nanos) -> DiskResult<bool> {
        self.member.step(&mut self.now, limit, &mut self.done)
    }

    /// Lets all happen that comes until `time`.
    pub(super) fn go_on_until(&mut self, time: Nanos) -> DiskResult {
        while self.step(time)? {}
        self.wait_until(time);
        Ok(())
    }

    /// Sets its time on to `time`, until when nothing happens.
    pub(super) fn wait_until(&mut self, time: Nanos) {
        self.now = self.now.max(time);
    }

    /// The first of the commands that have been completed and not been asked for.
    pub(super) fn take_done(&mut self) -> Option<Completion> {
        (!self.done.is_empty()).then(|| self.done.remove(0))
    }

    /// A command that carries `data` comes at `arrival`. Its drives are busy for `slow` first.
    pub(super) fn send(
        &mut self,
        tag: u64,
        request: &Request,
        (arrival, slow): (Nanos, Nanos),
        data: Buf,
    ) -> DiskResult {
        self.go_on_until(arrival)?;
        let is_redundant = self.array().is_some_and(Array::is_redundant);
        if let Some(unsettled) = self.unsettled.as_mut().filter(|_| is_redundant)
            && matches!(request.op, Op::Write | Op::Discard)
        {
            let begun = if request.op == Op::Write { Begun::Writes } else { Begun::Discard };
            unsettled.note(request.lba.0..request.end().0, begun).map_err(Fault::Io)?;
        }
        if slow > Nanos::ZERO {
            self.keep_busy(request.lba, slow)?;
        }
        self.member.submit(Command { tag, request: *request, arrival, host: true, data })
    }

    /// Keeps the drives busy for `span` that have a sector.
    fn keep_busy(&mut self, lba: Lba, span: Nanos) -> DiskResult {
        let disks = self.array().map_or(vec![0], |array| {
            let layout = array.layout();
            (0..layout.copies()).map(|copy| layout.copy(lba, copy).0 as usize).collect()
        });
        let (now, mut drives) = (self.now, self.member.drives());
        for disk in disks {
            let drive = &mut drives[disk];
            if drive.outstanding() == 0 {
                drive.device_mut().idle_until(now)?;
            }
            let busy_until = drive.device().now().max(now) + span;
            drive.device_mut().disk.wait_until(busy_until);
        }
        Ok(())
    }

    /// Serves a command that carries `data` before all that is sent later; with what was read.
    pub(super) fn serve_at(
        &mut self,
        request: &Request,
        arrival: (Nanos, Nanos),
        data: Buf,
    ) -> DiskResult<(Served, Buf)> {
        self.send(ALONE, request, arrival, data)?;
        let own = loop {
            if let Some(own) = self.done.iter().position(|done| done.tag == ALONE) {
                break own;
            }
            if !self.step(Nanos::MAX)? {
                return Err(Box::new(Fault::Inconsistent(format!("the drive has not completed {request:?}"))));
            }
        };
        let Completion { start, end, data, .. } = self.done.remove(own);
        if let Some(unsettled) = self.unsettled.as_mut().filter(|_| request.op == Op::Flush) {
            unsettled.settle().map_err(Fault::Io)?;
        }
        self.wait_until(end);
        Ok((Served { start, end }, data))
    }

    /// The earliest moment at which a drive may do something for itself. Nothing is under way.
    pub(super) fn free_from(&self) -> Nanos {
        self.drives().iter().map(|drive| drive.now()).min().unwrap_or_default()
    }

    /// Lets drives with nothing to do do all of what is due or helps that begins before `time`, one drive after another; tells whether
    /// any did something.
    pub(super) fn idle_until(&mut self, time: Nanos) -> DiskResult<bool> {
        self.go_on_until(time)?;
        let mut any = false;
        for drive in self.member.drives().into_iter().filter(|drive| drive.outstanding() == 0) {
            while drive.device_mut().step_before(time)? {
                any = true;
            }
        }
        Ok(any)
    }

    /// True if the power is to be cut.
    pub(super) fn will_lose_power(&self) -> bool {
        self.will_lose_power
    }

    /// Cuts the power of all drives with the next write of any.
    pub(super) fn cut_power(&mut self, seed: u64) {
        self.will_lose_power = true;
        for drive in self.drives_mut() {
            drive.disk.cut_power(Power::new(vec![1], seed));
        }
    }

    /// Takes back a cut that no write has met.
    fn keep_power(&mut self) {
        self.will_lose_power = false;
        self.drives_mut().into_iter().for_each(|drive| drive.disk.cut_power(Power::default()));
    }

    /// The power comes back: what was under way is gone, the layers rebuild their maps, and an array brings copies and parity in step.
    pub(super) fn recover(&mut self) -> DiskResult {
        self.done.clear();
        self.keep_power();
        self.member.recover()?;
        let latest = self.drives().iter().map(|drive| drive.now()).max().unwrap_or_default();
        if self.unsettled.is_none() {
            self.now = latest;
            return Ok(());
        }
        self.wait_until(latest);
        let now = self.now;
        self.drives_mut().into_iter().for_each(|drive| drive.disk.wait_until(now));
        self.bring_in_step()
    }

    /// The image was used before, and not closed in good order; `host` knows what it holds.
    pub(super) fn recover_found(&mut self, host: &mut Written) -> DiskResult {
        self.unsettled.as_mut().map_or(Ok(()), |unsettled| unsettled.find(host)).map_err(Fault::Io)?;
        self.recover()
    }

    /// Switches it off in good order and on again.
    pub(super) fn restart(&mut self, system: &MemberRun) {
        for (drive, run) in self.member.drives().into_iter().zip(system.drives()) {
            drive.restart(&run.drive);
        }
        self.keep_power();
        self.now = Nanos::ZERO;
    }

    /// Books of all layers, if all keep some; those of an array's each after how many words they are.
    pub(super) fn books(&self) -> Option<Vec<u64>> {
        let mut all = Vec::new();
        for drive in self.drives() {
            let books = drive.layer.books()?;
            all.extend(self.array().map(|_| books.len() as u64));
            all.extend(books);
        }
        Some(all)
    }

    /// Gives the layers what they had in their books.
    pub(super) fn take_books(&mut self, mut all: &[u64]) -> DiskResult {
        let cut_short = || Box::new(Fault::Inconsistent("the books of an array's layers are cut short".into()));
        let is_array = self.array().is_some();
        for drive in self.drives_mut() {
            let words = match is_array {
                true => *all.split_off_first().ok_or_else(cut_short)?,
                false => all.len() as u64,
            };
            let (own, rest) = all.split_at_checked(words as usize).ok_or_else(cut_short)?;
            drive.layer.take_books(own)?;
            all = rest;
        }
        Ok(())
    }
}

/// True if a planned cut of the power ended what was done.
pub(super) fn is_power_cut(fault: &Fault) -> bool {
    matches!(fault, Fault::PowerCut { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drives_own_order_is_its_files_or_what_its_mechanics_allow() {
        let orders = |name: &str, queue| queueing(queue, &Drive::load(name).unwrap()).orders();
        let own = ["st8000as0002", "st5000as0011", "tiny-constant"].map(|name| orders(name, Queue::Drive));
        assert_eq!(own, [true, true, false]);
        assert_eq!([Queue::Fcfs, Queue::Sptf].map(|queue| orders("st5000as0011", queue)), [false, true]);
    }
}
