//! The drive or the array in timing mode: what happens when, without a byte of data.
//!
//! Events are processed in the order of the drives' time and not before that is asked for. The same requests at the same times give
//! the same events, in whatever steps time goes on, so that a log can be replayed.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::device::{
    Array, Command, Completion, Device, DriveContents, LayeredDisk, MemberDrive, NCQ_COMMANDS, Queueing,
};
use smrkit::drive::Drive;
use smrkit::engine::saved::SavedState;
use smrkit::engine::system::{DriveRun, SystemRun};
use smrkit::error::{DiskResult, Error, Fault};
use smrkit::medium::{Buf, Medium};
use smrkit::request::{Op, Request};
use smrkit::settings::Queue;
use smrkit::units::{Lba, Nanos};

/// Writes in which a cache does not become fuller, after which it is as full as it ever is (assumption).
const STEADY_WRITES: u64 = 20_000;

/// A drive or an array, with its time.
pub(super) struct Model {
    device: Device,
    /// The time of the last event or arrival.
    pub now: Nanos,
    done: Vec<Completion>,
    /// Tags of writes that are under way.
    writes: BTreeSet<u64>,
    /// True if the power is to be cut at the end of the next write, of the host's or of a drive's own.
    pub will_lose_power: bool,
}

/// The order of commands of drives for which none is asked for: each drive's own, where a drive file tells one; else shortest positioning
/// time first where drives have mechanics.
pub fn usual_order(system: &SystemRun) -> Queue {
    let drives = system.drives();
    match () {
        () if drives.iter().any(|run| run.drive.command_order.is_some()) => Queue::Drive,
        () if drives.iter().any(|run| run.drive.clock.mechanical().is_some()) => Queue::Sptf,
        () => Queue::Fcfs,
    }
}

/// The order of a drive's commands, and how many it sees.
fn queueing(queue: Queue, drive: &Drive) -> Queueing {
    Queueing::new(queue, NCQ_COMMANDS, drive.command_order)
}

fn drive(run: &DriveRun) -> Result<MemberDrive, Error> {
    let queueing = queueing(Queue::Fcfs, &run.drive);
    let device = run.device(Medium::NoData)?;
    Ok(MemberDrive::new(device, queueing, DriveContents::None))
}

impl Model {
    /// The drive or the array of `system` as it is when new.
    pub fn new(system: &SystemRun) -> Result<Model, Error> {
        let device = match system {
            SystemRun::Drive(run) => Device::Drive(Box::new(drive(run)?)),
            SystemRun::Array(array) => Device::Array(Box::new(array.build_of(false, drive)?)),
        };
        Ok(Model { device, now: Nanos::ZERO, done: Vec::new(), writes: BTreeSet::new(), will_lose_power: false })
    }

    /// The whole state. Nothing is under way.
    pub fn state(&self) -> Vec<u8> {
        [&self.now.0.to_le_bytes()[..], &self.device.state()].concat()
    }

    /// Takes over the state of a model of the same system. After an error this one is of no use.
    pub fn restore(&mut self, state: &[u8]) -> DiskResult {
        let Some((now, state)) = state.split_first_chunk() else {
            return Err(Box::new(Fault::Inconsistent("the state of the drive is cut short".into())));
        };
        self.now = Nanos(u64::from_le_bytes(*now));
        self.device.restore(state)
    }

    /// The drives, in order.
    pub fn drives(&self) -> Vec<&LayeredDisk> {
        self.device.drives().iter().map(MemberDrive::device).collect()
    }

    /// True if a power cut may take writes that completed and were not flushed.
    pub fn may_lose(&mut self) -> bool {
        self.device.drives().iter().any(|drive| drive.has_write_cache() || !drive.device().layer.keeps_acknowledged())
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    pub fn array(&self) -> Option<&Array> {
        self.device.array()
    }

    /// The order in which the drives serve commands from now on. Nothing is under way.
    pub fn order_commands(&mut self, queue: Queue, system: &SystemRun) {
        let runs = system.drives();
        self.device.order_commands(|number| queueing(queue, &runs[number].drive));
    }

    /// The time of the next event, as far as it is known.
    pub fn next(&self) -> Option<Nanos> {
        let next = if self.device.has_pending() { self.now } else { self.device.next() };
        (next < Nanos::MAX).then_some(next)
    }

    /// Processes the next event if it is due by `limit`; returns whether one was. Errors: it would have been the end of a write, and the
    /// power is cut.
    pub fn step(&mut self, limit: Nanos) -> DiskResult<bool> {
        let before = self.done.len();
        let any = self.device.step(&mut self.now, limit, &mut self.done)?;
        for at in (before..self.done.len()).rev() {
            // The cut comes between two events, where every layer's maps make sense: only the data of the write is torn.
            if self.writes.remove(&self.done[at].tag) && self.will_lose_power {
                self.done.remove(at);
                return Err(power_cut());
            }
        }
        Ok(any)
    }

    /// Processes all events to come.
    pub fn drain(&mut self) -> DiskResult {
        while self.step(Nanos::MAX)? {}
        self.done.clear();
        Ok(())
    }

    /// Processes every event that is due by `time`.
    pub fn advance_to(&mut self, time: Nanos) -> DiskResult {
        while self.step(time)? {}
        self.now = self.now.max(time);
        Ok(())
    }

    /// The first command that was completed, if any is left.
    pub fn take_done(&mut self) -> Option<Completion> {
        (!self.done.is_empty()).then(|| self.done.remove(0))
    }

    /// Submits a request at `arrival`. The drives that serve it are kept busy for `slow_by` first.
    pub fn submit(&mut self, tag: u64, request: &Request, arrival: Nanos, slow_by: Nanos) -> DiskResult {
        self.advance_to(arrival)?;
        if slow_by > Nanos::ZERO {
            self.keep_busy(request.lba, slow_by)?;
        }
        if matches!(request.op, Op::Write | Op::Discard) {
            self.writes.insert(tag);
        }
        self.device.submit(Command { tag, request: *request, arrival, host: true, data: Buf::NoData })
    }

    fn keep_busy(&mut self, lba: Lba, span: Nanos) -> DiskResult {
        let disks = self.array().map_or(vec![0], |array| {
            let layout = array.layout();
            (0..layout.copies()).map(|copy| layout.copy(lba, copy).0 as usize).collect()
        });
        let (now, drives) = (self.now, self.device.drives_mut());
        disks.into_iter().try_for_each(|disk| drives[disk].keep_busy(now, span))
    }

    /// The earliest moment at which a drive may work for itself. Nothing is under way.
    pub fn free_from(&self) -> Nanos {
        self.drives().iter().map(|drive| drive.now()).min().unwrap_or_default()
    }

    /// Lets drives without commands do their own work that begins before `time`; returns whether any did. Errors: the power is cut then.
    pub fn idle_until(&mut self, time: Nanos) -> DiskResult<bool> {
        self.advance_to(time)?;
        let mut any = false;
        for drive in self.device.drives_mut().iter_mut().filter(|drive| drive.outstanding() == 0) {
            while drive.step_before(time)? {
                any = true;
            }
        }
        if any && self.will_lose_power { Err(power_cut()) } else { Ok(any) }
    }

    /// Writes 4 KiB at random places until the persistent cache is filled to this share, or to as much as it ever is; then `more` writes.
    /// Errors: there is no such cache.
    pub fn fill_cache(&mut self, sectors: u64, share: f64, more: u64) -> DiskResult {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut write = |model: &mut Model| {
            let request = Request::new(Op::Write, Lba(random.random_range(0..sectors / 8) * 8), 8);
            model.submit(0, &request, model.now, Nanos::ZERO)?;
            model.drain()
        };
        let fill = |model: &Model| model.device().gauges().cache_fill;
        let (mut most, mut since) = (0.0, 0);
        loop {
            let Some(now) = fill(self) else {
                return Err(Box::new(Fault::Inconsistent("the layer has no persistent cache to fill".into())));
            };
            if now >= share || since == STEADY_WRITES {
                break;
            }
            since = if now > most { 0 } else { since + 1 };
            most = f64::max(most, now);
            write(self)?;
        }
        (0..more).try_for_each(|_| write(self))
    }

    /// Takes over a state that a run has saved.
    pub fn restore_saved(&mut self, saved: &SavedState, system: &SystemRun) -> Result<(), Error> {
        self.now = saved.restore(system, &mut self.device)?;
        Ok(())
    }

    /// The power of all drives was cut and is back: commands under way are gone, and so is what layers keep in volatile memory.
    pub fn power_cut(&mut self) {
        self.done.clear();
        self.writes.clear();
        self.will_lose_power = false;
        self.device.power_cut();
        // By the drives' time alone: a replay knows of no other between two events. One drive may have been further than another.
        let now = self.drives().iter().map(|drive| drive.now()).max().unwrap_or_default();
        self.now = now;
        self.device.drives_mut().iter_mut().for_each(|drive| drive.device_mut().disk.wait_until(now));
    }
}

fn power_cut() -> Box<Fault> {
    Box::new(Fault::PowerCut { write: 0 })
}

/// True if a planned power cut ended what was done.
pub(super) fn is_power_cut(fault: &Fault) -> bool {
    matches!(fault, Fault::PowerCut { .. })
}

#[cfg(test)]
mod tests {
    use smrkit::experiment::system::{System, Systems};
    use smrkit::settings::Settings;

    use super::*;

    #[test]
    fn the_usual_order_is_the_drives_own_or_what_its_mechanics_allow() {
        let order = |name: &str| {
            let system = System::drive(name).layer("in-place");
            let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
            usual_order(planned.system())
        };
        let orders = ["st8000as0002", "st5000as0011", "tiny-constant"].map(order);
        assert_eq!(orders, [Queue::Drive, Queue::Sptf, Queue::Fcfs]);
    }
}
