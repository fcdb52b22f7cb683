//! Devices that requests are sent to: a drive with its queue, or an array of drives.

pub mod address;
mod array;
mod check;
pub mod health;
mod layered;
pub mod level;
mod member_drive;
mod plan;
mod queue;
mod redundancy;
pub mod spec;
mod work;
mod write_cache;

pub use array::Array;
pub use check::Shadow;
pub use layered::LayeredDisk;
pub use member_drive::MemberDrive;
pub use queue::{NCQ_COMMANDS, Queueing};
pub use work::DonePart;
pub(crate) use work::Slab;

use std::sync::Arc;

use crate::error::DiskResult;
use crate::layer::{Gauge, GaugeUnit, Gauges};
use crate::medium::Buf;
use crate::request::Request;
use crate::state::{self, State};
use crate::stats::counts::Times;
use crate::stats::timeline::Reading;
use crate::units::{Lba, Nanos};

/// Stamps of the sectors of a member that began full, one each.
pub type FirstStamps = Arc<dyn Fn(Lba) -> u64 + Send + Sync>;

/// A command on its way to a member.
#[derive(Clone, Debug)]
pub struct Command {
    /// Comes back with the completion.
    pub tag: u64,
    /// The request. Its `time` is unused: see `arrival`.
    pub request: Request,
    /// When it arrives.
    pub arrival: Nanos,
    /// True if a request of the host waits for it.
    pub host: bool,
    /// Stamps that are written, in check mode.
    pub data: Buf,
}

/// The end of a command.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The tag of the command.
    pub tag: u64,
    /// When its own service began, without the wait.
    pub start: Nanos,
    /// Moment of completion.
    pub end: Nanos,
    /// Stamps that were read, in check mode, or those that the command came with.
    pub data: Buf,
}

/// A drive with its queue, or an array: what the engine sends requests to. The caller keeps the time, and processes events in order.
pub enum Device {
    /// A drive with its queue.
    Drive(Box<MemberDrive>),
    /// An array.
    Array(Box<Array>),
}

/// Calls a method that drives and arrays both have.
macro_rules! either {
    ($device:expr, $of:ident => $call:expr) => {
        match $device {
            Device::Drive($of) => $call,
            Device::Array($of) => $call,
        }
    };
}

impl State for Device {
    fn save(&self, out: &mut Vec<u8>) {
        either!(self, device => device.save(out))
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        either!(self, device => device.load(from))
    }
}

impl Device {
    /// Sectors offered.
    pub fn host_sectors(&self) -> u64 {
        match self {
            Device::Drive(drive) => drive.device().host_sectors,
            Device::Array(array) => array.layout.host_sectors,
        }
    }

    /// True if each source has a member of its own.
    pub fn is_per_source(&self) -> bool {
        self.array().is_some_and(|array| array.layout.is_per_source())
    }

    /// First sector of a source, and number of its sectors: all, unless each source has a member of its own.
    pub fn place_of_source(&self, source: u8) -> (Lba, u64) {
        match self.array().map(|array| &array.layout) {
            Some(layout) if layout.is_per_source() => {
                (layout.member_start(source.into()), layout.member_sectors(source.into()))
            }
            _ => (Lba(0), self.host_sectors()),
        }
    }

    /// Its drives, in order.
    pub fn drives(&self) -> &[MemberDrive] {
        match self {
            Device::Drive(drive) => std::slice::from_ref(drive),
            Device::Array(array) => array.drives(),
        }
    }

    /// Its drives, in order, mutable.
    pub fn drives_mut(&mut self) -> &mut [MemberDrive] {
        match self {
            Device::Drive(drive) => std::slice::from_mut(drive),
            Device::Array(array) => array.drives_mut(),
        }
    }

    /// The array, if it is one.
    pub fn array(&self) -> Option<&Array> {
        if let Device::Array(array) = self { Some(array) } else { None }
    }

    /// The array, if it is one, mutable.
    pub fn array_mut(&mut self) -> Option<&mut Array> {
        if let Device::Array(array) = self { Some(array) } else { None }
    }

    /// Sets the order in which each drive, by its number, serves queued commands. Nothing is under way.
    pub fn order_commands(&mut self, queueing: impl Fn(usize) -> Queueing) {
        match self {
            Device::Drive(drive) => drive.order_commands(queueing(0)),
            Device::Array(array) => array.order_commands(queueing),
        }
    }

    /// True if requests complete in the order of arrival, whatever arrives meanwhile.
    pub fn completes_in_order(&self) -> bool {
        matches!(self, Device::Drive(drive) if drive.completes_in_order())
    }

    /// Takes a command that arrives now or later, never before an event that has been processed.
    #[inline]
    pub fn submit(&mut self, command: Command) -> DiskResult {
        either!(self, device => device.submit(command))
    }

    /// The time of the next event; [`Nanos::MAX`] if nothing is under way.
    #[inline]
    pub fn next(&self) -> Nanos {
        either!(self, device => device.next())
    }

    /// Processes the next event. Returns a command that it completed, and adds any others to `more`. The next command
    /// of a queue is begun by [`Device::resume`].
    #[inline]
    pub fn advance(&mut self, more: &mut Vec<Completion>) -> DiskResult<Option<Completion>> {
        match self {
            Device::Drive(drive) => Ok(drive.advance()),
            Device::Array(array) => array.advance(more),
        }
    }

    /// True if [`Device::resume`] has anything to begin.
    #[inline]
    pub fn has_pending(&self) -> bool {
        either!(self, device => device.has_pending())
    }

    /// Begins the next commands, once all that arrive at this moment have arrived, so that a drive that orders its commands sees all of
    /// them.
    pub fn resume(&mut self) -> DiskResult {
        either!(self, device => device.resume())
    }

    /// Begins commands that have arrived ([`Device::resume`]), or processes the next event if it is due by `limit`; returns `false` if
    /// there was neither. Advances `now`, the time of the last event or arrival, and adds completions to `done`.
    pub fn step(&mut self, now: &mut Nanos, limit: Nanos, done: &mut Vec<Completion>) -> DiskResult<bool> {
        let next = self.next();
        // As in `Engine::process_next`, commands begin only when `now` is over: a drive that orders its commands has to see all that arrive
        // at this time, before or after an event.
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

    /// Serves a request that one drive can serve alone while nothing is under way, and returns its completion ahead of its time; `None` if
    /// it can't. The caller processes nothing else before that time.
    #[inline(always)]
    pub fn serve_at_once(
        &mut self,
        request: &Request,
        arrival: Nanos,
        host: bool,
        data: &mut Buf,
    ) -> DiskResult<Option<Times>> {
        match self {
            Device::Drive(drive) => drive.serve(request, arrival, host, data).map(Some),
            Device::Array(array) => array.serve_at_once(request, arrival, host, data),
        }
    }

    /// The whole state: drives with their clocks and layers, and the health of arrays, without the host's data. Nothing is under way.
    pub fn state(&self) -> Vec<u8> {
        assert_eq!(self.outstanding(), 0, "commands under way are no state that can be saved");
        state::saved(self)
    }

    /// Restores the [`Device::state`] of a device that was built alike. Errors: a state of another device, or a damaged one; then this
    /// device is unusable.
    pub fn restore(&mut self, saved: &[u8]) -> DiskResult {
        state::load(self, saved)
    }

    /// Errors: the state of a layer contradicts itself.
    pub fn check(&self) -> DiskResult {
        self.drives().iter().try_for_each(|drive| drive.device().check())
    }

    /// Cuts the power of all drives and restores it: commands in flight are gone, and so is volatile memory. Copies and parity may differ
    /// where a write was in flight.
    pub fn power_cut(&mut self) {
        either!(self, device => device.power_cut())
    }

    /// The first moment since counting began at which a request of the host waited for cleaning; [`Nanos::MAX`] if none did.
    #[inline]
    pub fn first_wait(&self) -> Nanos {
        match self {
            Device::Drive(drive) => drive.first_wait(),
            Device::Array(array) => array.first_wait,
        }
    }

    /// Commands that have not been completed.
    #[inline]
    pub fn outstanding(&self) -> usize {
        either!(self, device => device.outstanding())
    }

    /// Sectors of persistent cache, of all drives.
    pub fn cache_sectors(&self) -> u64 {
        self.drives().iter().map(|drive| drive.device().layer.capacity().cache_sectors).sum()
    }

    /// Gauges of the layers of working drives: the mean of caches and of gauges that are shares, and the sum of all others.
    pub fn gauges(&self) -> Gauges {
        match self {
            Device::Drive(drive) => drive.gauges(),
            Device::Array(array) => joined_gauges(array.working().map(MemberDrive::gauges)),
        }
    }

    /// What the device shows: gauges, and what was written to the platters.
    pub fn reading(&self) -> Reading {
        let written = |drive: &MemberDrive| drive.device().disk.tally().written_sectors();
        Reading { gauges: self.gauges(), written_sectors: self.drives().iter().map(written).sum() }
    }

    /// Fills a new device as if every sector had been written once, in order, with these stamps, and with empty caches.
    pub fn fill(&mut self, stamps: FirstStamps) {
        either!(self, device => device.fill(stamps))
    }

    /// Starts counting anew at `now`, until when the drives idle.
    pub fn reset_counts(&mut self, now: Nanos) -> DiskResult {
        either!(self, device => device.reset_counts(now))
    }

    /// Checks the internal state of every drive and, in check mode, reads back all that was written to each.
    pub fn finish(&mut self) -> DiskResult {
        either!(self, device => device.finish())
    }
}

/// Gauges of several drives together: the mean of the caches and of gauges that are shares (a sum of those says nothing), and sums of
/// the rest.
fn joined_gauges(all: impl Iterator<Item = Gauges>) -> Gauges {
    let (mut fills, mut others): (Vec<f64>, Vec<(Gauge, u32)>) = (Vec::new(), Vec::new());
    for gauges in all {
        fills.extend(gauges.cache_fill);
        for gauge in gauges.others {
            match others.iter_mut().find(|(known, _)| known.name == gauge.name) {
                Some((sum, count)) => {
                    sum.value += gauge.value;
                    *count += 1;
                }
                None => others.push((gauge, 1)),
            }
        }
    }
    let joined = |(sum, drives): (Gauge, u32)| match sum.unit {
        GaugeUnit::Share => Gauge { value: sum.value / f64::from(drives), ..sum },
        GaugeUnit::Count | GaugeUnit::Bytes => sum,
    };
    Gauges {
        cache_fill: (!fills.is_empty()).then(|| fills.iter().sum::<f64>() / fills.len() as f64),
        others: others.into_iter().map(joined).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_averaged_over_their_owners_and_the_rest_summed() {
        let (invalid, bytes) = (|value| Gauge::share("invalid", value), |value| Gauge::count("map_bytes", value));
        let of = |cache_fill, others: &[Gauge]| Gauges { cache_fill, others: others.to_vec() };
        let all =
            [of(Some(0.5), &[invalid(0.25), bytes(10.0)]), of(None, &[]), of(Some(1.0), &[bytes(5.0), invalid(0.75)])];
        let joined = joined_gauges(all.into_iter());
        assert_eq!(joined.cache_fill, Some(0.75));
        assert_eq!(joined.others, [invalid(0.5), bytes(15.0)]);
    }
}
