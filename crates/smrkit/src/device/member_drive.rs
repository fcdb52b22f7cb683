//! A drive with its queue: a system of its own, or a member of an array.
//!
//! A command is served when its turn comes: what is due or helps fills the gap before it, what is due comes first, then its own
//! service. Its completion is known then, and waits for its moment. In check mode every read is verified against the drive's
//! own stamps.

use std::collections::VecDeque;

use super::LayeredDisk;
use super::command::{Command, Completion, FirstStamps, SectorStamps, Served, Stamped};
use super::queue::Waiting;
use super::shadow::Shadow;
use super::watch::Watch;
use crate::disk::Recorder;
use crate::error::DiskResult;
use crate::layer::{Gauges, Need};
use crate::medium::Buf;
use crate::pages::Pages;
use crate::request::{Op, Request};
use crate::settings::Queue;
use crate::stats::counts::{HostCounts, Times};
use crate::stats::outcome::PowerCut;
use crate::stats::rebuild::MemberRebuild;
use crate::stats::timeline::TimelineBuilder;
use crate::units::{Lba, Nanos};

/// How a drive orders its commands.
#[derive(Clone, Copy, Debug)]
pub struct Queueing {
    /// The order.
    pub queue: Queue,
    /// Commands that the drive sees at most; the others wait in order of arrival. Of no effect first come, first served.
    pub depth: u32,
}

/// What a drive is verified against in check mode.
#[derive(Default)]
pub(super) struct DriveCheck {
    pub shadow: Shadow,
    /// What an array has on it; nothing on a drive of its own, whose shadow knows all.
    contents: Pages,
    /// The power cuts so far.
    pub power_cuts: Vec<PowerCut>,
}

/// What is counted of a member of an array. Of a drive of its own the host's counts tell it.
struct MemberCounts {
    all: HostCounts,
    watch: Watch,
}

/// A drive with its queue.
pub struct MemberDrive {
    pub(super) device: LayeredDisk,
    /// In order of arrival: those that the drive does not see yet, or all of them.
    arrived: VecDeque<Command>,
    /// Those that the drive sees, where it orders them.
    waiting: Option<Waiting>,
    current: Option<Completion>,
    pub(super) check: Option<Box<DriveCheck>>,
    counts: Option<MemberCounts>,
    /// Where the last command ended.
    at: Lba,
    first_wait: Nanos,
    buf: Buf,
}

impl MemberDrive {
    /// A drive of its own; in check mode it must hold stamps.
    pub fn new(device: LayeredDisk, queueing: Queueing, check: bool) -> MemberDrive {
        let Queueing { queue, depth } = queueing;
        MemberDrive {
            device,
            arrived: VecDeque::new(),
            waiting: (queue != Queue::Fcfs).then(|| Waiting::new(queue, depth)),
            current: None,
            check: check.then(Box::default),
            counts: None,
            at: Lba(0),
            first_wait: Nanos::MAX,
            buf: Buf::NoData,
        }
    }

    /// A drive of an array: what is asked of it is counted.
    pub fn in_array(device: LayeredDisk, queueing: Queueing, check: bool) -> MemberDrive {
        let counts = MemberCounts { all: no_counts(), watch: Watch::default() };
        MemberDrive { counts: Some(counts), ..MemberDrive::new(device, queueing, check) }
    }

    /// The disk and its layer.
    pub fn device(&self) -> &LayeredDisk {
        &self.device
    }

    /// The disk and its layer, for the end of a run.
    pub fn device_mut(&mut self) -> &mut LayeredDisk {
        &mut self.device
    }

    /// Once counting begins, `recorder` takes note of the drive's accesses; `None` ends that.
    pub fn record(&mut self, recorder: Option<Box<dyn Recorder>>) {
        if recorder.is_none() {
            self.device.disk.record(None);
        }
        self.device.record(recorder);
    }

    /// What was counted of the commands of a member of an array, and nothing from now on.
    pub fn take_counts(&mut self) -> HostCounts {
        self.counts.as_mut().map_or_else(no_counts, |counts| std::mem::replace(&mut counts.all, no_counts()))
    }

    /// From now on [`MemberDrive::watched`] counts.
    pub fn watch(&mut self) {
        if let Some(counts) = &mut self.counts {
            counts.watch = Watch::new(self.device.disk.tally());
        }
    }

    /// What it has done since [`MemberDrive::watch`].
    pub fn watched(&self) -> MemberRebuild {
        let watch = self.counts.as_ref().map(|counts| &counts.watch);
        watch.unwrap_or(&Watch::default()).report(self.device.disk.tally())
    }

    /// The power cuts so far; each tells how many requests had been served since the drive was built.
    pub fn take_power_cuts(&mut self) -> Vec<PowerCut> {
        self.check.as_mut().map_or_else(Vec::new, |check| std::mem::take(&mut check.power_cuts))
    }

    /// Whether it serves commands in the order of their coming.
    pub fn keeps_order(&self) -> bool {
        self.waiting.is_none()
    }

    /// Lets it empty its caches and clean what helps, without a command; the time at which it found nothing more to do.
    pub fn settle(&mut self) -> DiskResult<Nanos> {
        let LayeredDisk { disk, layer, .. } = &mut self.device;
        layer.flush(disk)?;
        while self.device.step(Need::Must)? || self.device.step(Need::Spare)? {}
        self.device.disk.flush()?;
        Ok(self.device.now())
    }

    /// Serves a request while nothing else waits; its completion is told before its moment. In check mode `stamps` are those of
    /// the array that the drive belongs to.
    #[inline(always)]
    pub fn serve(&mut self, request: &Request, arrival: Nanos, host: bool, stamps: &mut Stamped) -> DiskResult<Served> {
        let turn = self.device.now().max(arrival);
        if arrival > self.device.now() {
            self.through_outages(|drive| drive.device.idle_until(arrival))?;
        }
        let start = self.through_outages(|drive| {
            drive.device.step(Need::Must)?;
            let start = drive.device.now();
            drive.serve_checked(request, stamps)?;
            Ok(start)
        })?;
        let end = self.device.now();
        self.at = request.end();
        if self.device.cleaning_end() > arrival {
            self.note_waiting(turn, host);
        }
        if let Some(counts) = &mut self.counts {
            let device = &self.device;
            counts.watch.count(end - arrival);
            counts.all.count(request, &Times { arrival, start, end }, || device.layer.gauges());
        }
        Ok(Served { start, end })
    }

    /// A command has waited for cleaning since its turn came.
    fn note_waiting(&mut self, turn: Nanos, host: bool) {
        if let Some(counts) = &mut self.counts {
            counts.all.waits_for_cleaning(turn);
        }
        self.first_wait = self.first_wait.min(if host { turn } else { Nanos::MAX });
    }

    #[inline]
    fn serve_checked(&mut self, request: &Request, stamps: &mut Stamped) -> DiskResult {
        match &mut self.check {
            None => self.device.serve(request, &mut self.buf),
            Some(check) => check.serve(&mut self.device, request, stamps),
        }
    }

    #[inline]
    fn begin_next(&mut self) -> DiskResult {
        let next = match &mut self.waiting {
            None => self.arrived.pop_front(),
            Some(waiting) => {
                // A flush is neither overtaken nor does it overtake.
                while !waiting.is_full()
                    && self.arrived.front().is_some_and(|command| command.request.op != Op::Flush)
                    && let Some(command) = self.arrived.pop_front()
                {
                    waiting.push(command, &self.device);
                }
                waiting.pick(&self.device).or_else(|| self.arrived.pop_front())
            }
        };
        next.map_or(Ok(()), |command| self.begin(command))
    }

    /// Serves a command; its completion waits for its moment.
    #[inline]
    fn begin(&mut self, command: Command) -> DiskResult {
        let Command { tag, request, arrival, host, stamps } = command;
        let mut stamps = Stamped { expected: stamps, found: SectorStamps::new() };
        let Served { start, end } = self.serve(&request, arrival, host, &mut stamps)?;
        self.current = Some(Completion { tag, start, end, stamps: stamps.found });
        Ok(())
    }

    #[inline]
    pub(super) fn submit(&mut self, command: Command) -> DiskResult {
        if self.current.is_none() && self.waiting.is_none() && self.arrived.is_empty() {
            return self.begin(command);
        }
        self.arrived.push_back(command);
        Ok(())
    }

    #[inline]
    pub(super) fn next(&self) -> Nanos {
        self.current.as_ref().map_or(Nanos::MAX, |completion| completion.end)
    }

    #[inline]
    pub(super) fn advance(&mut self) -> Option<Completion> {
        self.current.take()
    }

    #[inline]
    pub(super) fn has_pending(&self) -> bool {
        self.current.is_none() && self.outstanding() > 0
    }

    #[inline]
    pub(super) fn resume(&mut self) -> DiskResult {
        if self.current.is_none() { self.begin_next() } else { Ok(()) }
    }

    #[inline]
    pub(super) fn first_wait(&self) -> Nanos {
        self.first_wait
    }

    #[inline]
    pub(super) fn outstanding(&self) -> usize {
        self.arrived.len() + usize::from(self.current.is_some()) + self.waiting.as_ref().map_or(0, Waiting::len)
    }

    pub(super) fn distance(&self, lba: Lba) -> u64 {
        self.at.0.abs_diff(lba.0)
    }

    pub(super) fn gauges(&self) -> Gauges {
        self.device.layer.gauges()
    }

    pub(super) fn fill(&mut self, stamps: FirstStamps) {
        self.device.fill();
        if let Some(check) = &mut self.check {
            check.shadow.fill();
            check.contents = Pages::beginning_with(Box::new(move |first, out| {
                (first..).zip(out).for_each(|(lba, stamp)| *stamp = stamps(Lba(lba)));
            }));
        }
    }

    pub(super) fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.device.idle_until(now)?;
        self.device.reset_counts();
        // It may have gone on longer, while the array's counting begins now.
        self.device.disk.record_since(now);
        self.first_wait = Nanos::MAX;
        self.watch();
        if let Some(counts) = &mut self.counts {
            counts.all = no_counts();
            counts.all.begin(now);
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> DiskResult {
        match &mut self.check {
            Some(check) => check.shadow.finish(&mut self.device),
            None => self.device.check(),
        }
    }
}

fn no_counts() -> HostCounts {
    HostCounts::new(TimelineBuilder::default())
}

impl DriveCheck {
    /// Serves a request, and looks after it.
    fn serve(&mut self, device: &mut LayeredDisk, request: &Request, stamps: &mut Stamped) -> DiskResult {
        self.shadow.serve(request, |buf| device.serve(request, buf))?;
        self.shadow.after(device)?;
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => stamps.found = self.contents.words(request.lba.0, sectors),
            Op::Write => self.contents.put(request.lba.0, &stamps.expected),
            Op::Discard => self.contents.clear(request.lba.0..request.lba.0 + sectors),
            Op::Flush => {}
        }
        Ok(())
    }
}
