//! A drive with its queue, as a member of an array.
//!
//! A command is served as the engine serves one drive: what is due or helps fills the gap before it, what is due comes first,
//! then its own service. In check mode every read is verified against the drive's own stamps.

use std::collections::VecDeque;

use super::target::{Answer, Command, Target};
use super::watch::Watch;
use crate::device::{Device, Single};
use crate::disk::Recorder;
use crate::error::DiskResult;
use crate::layer::{Gauges, Need};
use crate::medium::Buf;
use crate::pages::Pages;
use crate::queue::{Queue, Waiting};
use crate::request::{Op, Request};
use crate::shadow::Shadow;
use crate::stats::counts::{HostCounts, Times};
use crate::stats::rebuild::MemberRebuild;
use crate::stats::timeline::{TimelineBuilder, WINDOW_FIRST};
use crate::units::{Lba, Nanos};

/// How a member orders its commands.
#[derive(Clone, Copy, Debug)]
pub struct Queueing {
    /// The order.
    pub queue: Queue,
    /// Commands that the drive sees at most; the others wait in order of arrival. Of no effect first come, first served.
    pub depth: u32,
}

/// What a drive is verified against in check mode.
#[derive(Default)]
struct Checked {
    shadow: Shadow,
    contents: Pages,
}

/// A drive with its queue.
pub struct Station {
    device: Single,
    /// In order of arrival: those that the drive does not see yet, or all of them.
    arrived: VecDeque<Command>,
    /// Those that the drive sees, where it orders them.
    waiting: Option<Waiting<Command>>,
    current: Option<Answer>,
    checked: Option<Box<Checked>>,
    counts: HostCounts,
    watch: Watch,
    /// Where the last command ended.
    at: Lba,
    first_wait: Nanos,
    buf: Buf,
}

impl Station {
    /// A drive; in check mode it must hold stamps.
    pub fn new(device: Single, queueing: Queueing, check: bool) -> Station {
        let Queueing { queue, depth } = queueing;
        Station {
            device,
            arrived: VecDeque::new(),
            waiting: (queue != Queue::Fcfs).then(|| Waiting::new(queue, depth)),
            current: None,
            checked: check.then(Box::default),
            counts: counts(),
            watch: Watch::default(),
            at: Lba(0),
            first_wait: Nanos::MAX,
            buf: Buf::NoData,
        }
    }

    /// The drive.
    pub fn device(&self) -> &Single {
        &self.device
    }

    /// The drive, for the end of a run.
    pub fn device_mut(&mut self) -> &mut Single {
        &mut self.device
    }

    /// Once counting begins, `recorder` takes note of the drive's accesses; `None` ends that.
    pub fn record(&mut self, recorder: Option<Box<dyn Recorder>>) {
        if recorder.is_none() {
            self.device.disk.record(None);
        }
        self.device.record(recorder);
    }

    /// What was counted of its commands, and nothing from now on.
    pub fn take_counts(&mut self) -> HostCounts {
        std::mem::replace(&mut self.counts, counts())
    }

    /// From now on [`Station::watched`] counts.
    pub fn watch(&mut self) {
        self.watch = Watch::new(self.device.disk.tally());
    }

    /// What it has done since [`Station::watch`].
    pub fn watched(&self) -> MemberRebuild {
        self.watch.report(self.device.disk.tally())
    }

    /// Whether it serves commands in the order of their coming.
    pub(super) fn keeps_order(&self) -> bool {
        self.waiting.is_none()
    }

    /// Lets it empty its caches and clean what helps, without a command; the time at which it found nothing more to do.
    pub fn settle(&mut self) -> DiskResult<Nanos> {
        let Single { disk, layer, .. } = &mut self.device;
        layer.flush(disk)?;
        while self.device.step(Need::Must)? || self.device.step(Need::Spare)? {}
        self.device.disk.flush()?;
        Ok(self.device.now())
    }

    #[inline]
    fn begin_next(&mut self) -> DiskResult {
        let next = match &mut self.waiting {
            None => self.arrived.pop_front(),
            Some(waiting) => {
                // A flush is neither overtaken nor does it overtake.
                while !waiting.is_full()
                    && self.arrived.front().is_some_and(|command| command.op != Op::Flush)
                    && let Some(command) = self.arrived.pop_front()
                {
                    let (lba, arrival) = (command.lba, command.arrival);
                    waiting.push(command, lba, arrival, &self.device);
                }
                match waiting.pick(&self.device) {
                    Some((command, _)) => Some(command),
                    None => self.arrived.pop_front(),
                }
            }
        };
        match next {
            Some(command) => self.begin(&command),
            None => Ok(()),
        }
    }

    /// Serves a command; its answer waits for its moment.
    #[inline]
    fn begin(&mut self, command: &Command) -> DiskResult {
        self.current = Some(self.serve(command)?);
        Ok(())
    }

    /// Serves a command while nothing else waits; its answer is given before its moment.
    #[inline]
    pub(super) fn serve(&mut self, command: &Command) -> DiskResult<Answer> {
        let turn = self.device.now().max(command.arrival);
        self.device.idle_until(command.arrival)?;
        self.device.step(Need::Must)?;
        let start = self.device.now();
        let request = Request {
            source: command.source,
            time: command.arrival,
            ..Request::new(command.op, command.lba, command.sectors)
        };
        let words = match &mut self.checked {
            None => {
                self.device.serve(&request, &mut self.buf)?;
                Vec::new()
            }
            Some(checked) => checked.serve(&mut self.device, &request, command)?,
        };
        let end = self.device.now();
        self.at = command.end();
        self.watch.count(end - command.arrival);
        let times = Times { arrival: command.arrival, start, end };
        let device = &self.device;
        if device.cleaning_end() > command.arrival {
            self.counts.waits_for_cleaning(turn);
            self.first_wait = self.first_wait.min(if command.host { turn } else { Nanos::MAX });
        }
        self.counts.count(&request, &times, || device.gauges());
        Ok(Answer { tag: command.tag, start, end, words })
    }
}

fn counts() -> HostCounts {
    HostCounts::new(TimelineBuilder::growing(WINDOW_FIRST))
}

impl Checked {
    fn serve(&mut self, device: &mut Single, request: &Request, command: &Command) -> DiskResult<Vec<u64>> {
        self.shadow.serve(request, |buf| device.serve(request, buf))?;
        self.shadow.after(device)?;
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => return Ok(self.contents.words(request.lba.0, sectors)),
            Op::Write => self.contents.put(request.lba.0, &command.words),
            Op::Discard => self.contents.clear(request.lba.0..request.lba.0 + sectors),
            Op::Flush => {}
        }
        Ok(Vec::new())
    }
}

impl Target for Station {
    fn host_sectors(&self) -> u64 {
        self.device.host_sectors()
    }

    #[inline]
    fn submit(&mut self, command: Command) -> DiskResult {
        if self.current.is_none() && self.waiting.is_none() && self.arrived.is_empty() {
            return self.begin(&command);
        }
        self.arrived.push_back(command);
        Ok(())
    }

    #[inline]
    fn next(&self) -> Nanos {
        self.current.as_ref().map_or(Nanos::MAX, |answer| answer.end)
    }

    #[inline]
    fn advance(&mut self, _: &mut Vec<Answer>) -> DiskResult<Option<Answer>> {
        Ok(self.current.take())
    }

    #[inline]
    fn rests(&self) -> bool {
        self.current.is_none() && self.outstanding() > 0
    }

    #[inline]
    fn resume(&mut self) -> DiskResult {
        if self.current.is_none() { self.begin_next() } else { Ok(()) }
    }

    #[inline]
    fn first_wait(&self) -> Nanos {
        self.first_wait
    }

    #[inline]
    fn outstanding(&self) -> usize {
        self.arrived.len() + usize::from(self.current.is_some()) + self.waiting.as_ref().map_or(0, Waiting::len)
    }

    fn distance(&self, lba: Lba) -> u64 {
        self.at.0.abs_diff(lba.0)
    }

    fn cache_sectors(&self) -> u64 {
        self.device.cache_sectors()
    }

    fn gauges(&self) -> Gauges {
        self.device.gauges()
    }

    fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        self.device.idle_until(now)?;
        self.device.reset_counts();
        // It may have gone on longer, while the array's counting begins now.
        self.device.disk.record_since(now);
        self.watch();
        self.first_wait = Nanos::MAX;
        self.counts = counts();
        self.counts.begin(now);
        Ok(())
    }

    fn finish(&mut self) -> DiskResult {
        match &mut self.checked {
            Some(checked) => checked.shadow.finish(&mut self.device),
            None => self.device.check(),
        }
    }
}
