//! The timing model of a drive or an array, without any data.
//!
//! Events are processed in the order of the drives' time, and only when the caller advances the time. The same requests at the same times
//! give the same events, however large the caller's steps are. That makes it possible to replay a log.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::device::address::Role;
use smrkit::device::health::Health;
use smrkit::device::{Array, Command, Completion, Device, LayeredDisk, MemberDrive, NCQ_COMMANDS, Queueing};
use smrkit::disk::Recorder;
use smrkit::drive::Drive;
use smrkit::engine::saved::{SavedState, sealed, unsealed};
use smrkit::engine::system::{DriveRun, SystemRun};
use smrkit::error::{DiskResult, Error, Fault};
use smrkit::layer::ZoneAction;
use smrkit::medium::interference::Interference;
use smrkit::medium::{Buf, Medium, Stamp, Stamps};
use smrkit::ranges::RangeMap;
use smrkit::request::{Op, Request};
use smrkit::settings::Queue;
use smrkit::tally::Access;
use smrkit::units::{Lba, Nanos};

/// `fill_cache` stops after this many writes that have not raised the cache's fill level (assumption).
const STEADY_WRITES: u64 = 20_000;
/// Lengths of the writes that fill a log-structured layer once, 1 MiB, and that then use up its free space, 64 KiB (assumptions).
const PREFILL_SECTORS: u64 = 2048;
const LOG_WRITE_SECTORS: u64 = 128;

/// A new member of an array is rebuilt in pieces of this many sectors: 1 MiB (assumption).
const REBUILD_SECTORS: u64 = 2048;

/// Stamp version of sectors written between the planning of a power cut and the cut.
const TORN: u64 = 1;

/// A drive or an array, and its clock.
pub(super) struct Model {
    pub device: Device,
    /// The time of the last event or arrival.
    pub now: Nanos,
    /// Completions that the caller has not taken yet, in order.
    completions: Vec<Completion>,
    /// Tags of writes in flight.
    write_tags: BTreeSet<u64>,
    /// The order in which the drives serve commands.
    pub order: Queue,
    rebuild: Option<Rebuild>,
    /// For each drive, where it has written since a power cut was planned; empty if none is planned.
    physical_writes: Vec<PhysicalWrites>,
}

/// A new member of an array that is being rebuilt, one piece after another.
struct Rebuild {
    disk: u32,
    /// Where the next piece begins.
    at: Lba,
    /// True if the piece before it is still being rebuilt.
    is_in_flight: bool,
}

/// Records where a drive writes.
#[derive(Clone, Default)]
struct PhysicalWrites(Arc<Mutex<Vec<Access>>>);

impl Recorder for PhysicalWrites {
    fn access(&mut self, access: &Access) {
        if access.write {
            self.0.lock().push(*access);
        }
    }
}

/// What a power cut destroyed.
pub(super) struct CutLosses {
    /// Sectors of the host that can't be read any more, because a rewrite that had them in memory was torn, or the layer lost its map of them.
    pub lost: RangeMap<()>,
    /// The platters of a single drive after the cut, with `TORN` stamps where they were written last; `None` if the cut can't have damaged
    /// neighbours.
    platters: Option<LayeredDisk>,
}

fn queueing(queue: Queue, drive: &Drive) -> Queueing {
    Queueing::new(queue, NCQ_COMMANDS, drive.command_order)
}

fn drive(run: &DriveRun, order: Queue) -> Result<MemberDrive, Error> {
    let device = run.device(Medium::NoData)?;
    Ok(MemberDrive::new(device, queueing(order, &run.drive)))
}

impl Model {
    /// The drive or the array of `system` as it is when new.
    pub fn new(system: &SystemRun) -> Result<Model, Error> {
        let order = Queue::Fcfs;
        let device = match system {
            SystemRun::Drive(run) => Device::Drive(Box::new(drive(run, order)?)),
            SystemRun::Array(array) => Device::Array(Box::new(array.build_of(false, |run| drive(run, order))?)),
        };
        let (now, completions, write_tags, physical_writes) = (Nanos::ZERO, Vec::new(), BTreeSet::new(), Vec::new());
        Ok(Model { device, now, completions, write_tags, order, rebuild: None, physical_writes })
    }

    /// The complete state, for `restore`. Nothing may be in flight.
    pub fn state(&self) -> Vec<u8> {
        sealed([&self.now.0.to_le_bytes()[..], &self.device.state()].concat())
    }

    /// Restores a state of the same system. After an error the model must not be used.
    pub fn restore(&mut self, state: &[u8]) -> DiskResult {
        let Some((now, state)) = unsealed(state).and_then(<[u8]>::split_first_chunk) else {
            return Err(Box::new(Fault::Inconsistent("the state of the drive is damaged or cut short".into())));
        };
        self.now = Nanos(u64::from_le_bytes(*now));
        self.device.restore(state)?;
        self.device.check()?;
        self.rebuild = self.next_rebuild();
        Ok(())
    }

    /// The drives, in order.
    pub fn drives(&self) -> Vec<&LayeredDisk> {
        self.device.drives().iter().map(MemberDrive::device).collect()
    }

    /// True if a power cut may lose acknowledged writes that were not flushed.
    pub fn may_lose(&self) -> bool {
        self.device.drives().iter().any(|drive| drive.has_write_cache() || !drive.device().layer.keeps_acknowledged())
    }

    /// The number of commits of each drive's layer; `None` for a drive with a write cache, because a commit of its layer does not cover what
    /// is still in that cache.
    pub fn commits(&self) -> impl Iterator<Item = Option<u64>> + '_ {
        self.device.drives().iter().map(|drive| (!drive.has_write_cache()).then(|| drive.device().layer.commits()))
    }

    /// Sets the order in which the drives serve commands. Nothing may be in flight.
    pub fn order_commands(&mut self, queue: Queue, system: &SystemRun) {
        self.order = queue;
        let runs = system.drives();
        self.device.order_commands(|number| queueing(queue, &runs[number].drive));
    }

    /// The time of the next event, if one is known.
    pub fn next(&self) -> Option<Nanos> {
        let begins = self.device.has_pending() || self.rebuild.as_ref().is_some_and(|rebuild| !rebuild.is_in_flight);
        let next = if begins { self.now } else { self.device.next() };
        (next < Nanos::MAX).then_some(next)
    }

    /// Plans a power cut at the end of the next write, be it the host's or background work, or cancels the plan.
    pub fn plan_power_cut(&mut self, is_planned: bool) {
        let drives = self.device.drives_mut();
        self.physical_writes = drives.iter().filter(|_| is_planned).map(|_| PhysicalWrites::default()).collect();
        for (number, drive) in drives.iter_mut().enumerate() {
            let recorder =
                self.physical_writes.get(number).map(|written| Box::new(written.clone()) as Box<dyn Recorder>);
            drop(drive.device_mut().disk.record(recorder));
        }
    }

    /// True if a power cut is planned.
    pub fn will_lose_power(&self) -> bool {
        !self.physical_writes.is_empty()
    }

    /// Processes the next event if it is due by `limit`; returns whether one was. Errors: the event was the end of a write at which the
    /// power is cut.
    pub fn step(&mut self, limit: Nanos) -> DiskResult<bool> {
        let before = self.completions.len();
        self.begin_rebuild_piece()?;
        let any = self.device.step(&mut self.now, limit, &mut self.completions)?;
        if self.device.array_mut().is_some_and(|array| array.take_done().is_some()) {
            // Begins the next piece at the time of this event, not at the next call: a replay has the same events, but other calls.
            self.rebuild.iter_mut().for_each(|rebuild| rebuild.is_in_flight = false);
            self.begin_rebuild_piece()?;
        }
        // In reverse, so that a removal leaves the places of those that are still to be looked at.
        for at in (before..self.completions.len()).rev() {
            // The cut comes between two events, when the layers' maps are consistent. Only the data of the write is torn.
            let is_write = self.write_tags.remove(&self.completions[at].tag);
            // A flush also writes, if the drive has a write cache or the layer buffers data.
            if self.will_lose_power()
                && (is_write || self.physical_writes.iter().any(|written| !written.0.lock().is_empty()))
            {
                self.completions.remove(at);
                return Err(power_cut());
            }
        }
        Ok(any)
    }

    /// Processes all events that are pending, except those of a rebuild.
    pub fn drain(&mut self) -> DiskResult {
        self.rebuild = None;
        while self.step(Nanos::MAX)? {}
        self.completions.clear();
        self.rebuild = self.next_rebuild();
        Ok(())
    }

    /// Lets a member of the array fail. Errors: why that is impossible, such as that data would be lost.
    pub fn fail_member(&mut self, disk: u32) -> Result<(), String> {
        let array = self.array_with(disk)?;
        let layout = &array.layout;
        let spare = if layout.parities() > 0 { layout.parities() } else { layout.copies() as usize - 1 };
        // A new member that is still being rebuilt works, but counts as missing.
        let missing = array.health.iter().filter(|health| !health.is_good()).count();
        match array.health[disk as usize].works() {
            false => return Err(format!("member {disk} has failed already")),
            true if spare == 0 => return Err(format!("{} keeps nothing twice: all would be lost", layout.level)),
            true if missing >= spare => {
                return Err("the array would lose data: first replace what has failed, and let it be rebuilt".into());
            }
            true => array.fail(disk),
        }
        Ok(())
    }

    /// Replaces a failed member by a new drive, which is rebuilt while the host is served.
    pub fn replace_member(&mut self, disk: u32, system: &SystemRun) -> Result<(), String> {
        let (now, order) = (self.now, self.order);
        let array = self.array_with(disk)?;
        if array.health[disk as usize].works() {
            return Err(format!("member {disk} works: let it fail first (fail-member {disk})"));
        }
        let mut new = drive(&system.drives()[disk as usize], order).map_err(|error| error.to_string())?;
        new.device_mut().disk.wait_until(now);
        array.replace(disk, new, REBUILD_SECTORS);
        if self.rebuild.is_none() {
            self.rebuild = self.next_rebuild();
        }
        Ok(())
    }

    /// Changes the state of a zone of a single host-managed drive. Errors: which rule that breaks.
    pub fn act_on_zone(&mut self, action: ZoneAction, zone: u64) -> Result<(), String> {
        let zones = match &mut self.device {
            Device::Drive(drive) => drive.device_mut().layer.zones_mut(),
            Device::Array(_) => None,
        };
        match zones {
            Some(zones) if zone < zones.limits().zones => zones.act(action, zone),
            _ => Err(format!("the drive has no zone {zone}")),
        }
    }

    fn array_with(&mut self, disk: u32) -> Result<&mut Array, String> {
        let array = self.device.array_mut().ok_or("a drive alone has no members: serve an array")?;
        match array.drives().len() {
            drives if (disk as usize) < drives => Ok(array),
            drives => Err(format!("the array has no member {disk}: they go from 0 to {}", drives - 1)),
        }
    }

    /// True if a new member is being rebuilt.
    pub fn is_rebuilding(&self) -> bool {
        self.rebuild.is_some()
    }

    /// The members of an array that lack data: their numbers, and for a new one the share that is rebuilt.
    pub fn missing_members(&self) -> Vec<(usize, Option<f64>)> {
        let Some(array) = self.device.array() else { return Vec::new() };
        let share = |disk: usize, health: &Health| {
            let sectors = array.layout.member_sectors(disk as u32);
            let pieces = (0..sectors).step_by(REBUILD_SECTORS as usize);
            let rebuilt = pieces.filter(|&at| health.has(Lba(at), REBUILD_SECTORS.min(sectors - at))).count() as u64;
            health.works().then_some(rebuilt as f64 / sectors.div_ceil(REBUILD_SECTORS) as f64)
        };
        let missing = array.health.iter().enumerate().filter(|(_, health)| !health.is_good());
        missing.map(|(disk, health)| (disk, share(disk, health))).collect()
    }

    /// A rebuild of the first new member, from its beginning.
    fn next_rebuild(&self) -> Option<Rebuild> {
        let disk = self.device.array()?.health.iter().position(|health| matches!(health, Health::New(_)))?;
        Some(Rebuild { disk: disk as u32, at: Lba(0), is_in_flight: false })
    }

    /// Begins to rebuild the next piece of a new member, unless a piece is in flight.
    fn begin_rebuild_piece(&mut self) -> DiskResult {
        while let Some(Rebuild { disk, at, is_in_flight: false }) = self.rebuild
            && let Some(array) = self.device.array_mut()
        {
            let sectors = array.layout.member_sectors(disk).saturating_sub(at.0).min(REBUILD_SECTORS);
            if sectors == 0 {
                self.rebuild = self.next_rebuild();
                continue;
            }
            let is_in_flight = !array.health[disk as usize].has(at, sectors);
            self.rebuild = Some(Rebuild { disk, at: at + sectors, is_in_flight });
            if is_in_flight {
                return array.rebuild(disk, at, sectors, self.now);
            }
        }
        Ok(())
    }

    /// Processes every event that is due by `time`.
    pub fn advance_to(&mut self, time: Nanos) -> DiskResult {
        while self.step(time)? {}
        self.now = self.now.max(time);
        Ok(())
    }

    /// Takes the oldest completion.
    pub fn take_completion(&mut self) -> Option<Completion> {
        (!self.completions.is_empty()).then(|| self.completions.remove(0))
    }

    /// Submits a request at `arrival`. The drives that serve it are busy for `slow_by` before that.
    pub fn submit(&mut self, tag: u64, request: &Request, arrival: Nanos, slow_by: Nanos) -> DiskResult {
        self.advance_to(arrival)?;
        if slow_by > Nanos::ZERO {
            self.keep_busy(request.lba, slow_by)?;
        }
        if matches!(request.op, Op::Write | Op::Discard) {
            self.write_tags.insert(tag);
        }
        self.device.submit(Command { tag, request: *request, arrival, host: true, data: Buf::NoData })
    }

    fn keep_busy(&mut self, lba: Lba, span: Nanos) -> DiskResult {
        let disks = self.device.array().map_or(vec![0], |array| {
            let layout = &array.layout;
            (0..layout.copies()).map(|copy| layout.copy(lba, copy).0 as usize).collect()
        });
        let (now, drives) = (self.now, self.device.drives_mut());
        disks.into_iter().try_for_each(|disk| drives[disk].keep_busy(now, span))
    }

    /// The earliest time at which a drive could do background work. Nothing may be in flight.
    pub fn free_from(&self) -> Nanos {
        self.working().map(|(_, drive)| drive.device().now()).min().unwrap_or_default()
    }

    /// The drives that have not failed, with their numbers.
    fn working(&self) -> impl Iterator<Item = (usize, &MemberDrive)> {
        let works = |disk: usize| self.device.array().is_none_or(|array| array.health[disk].works());
        self.device.drives().iter().enumerate().filter(move |(disk, _)| works(*disk))
    }

    /// Lets drives without commands do the background work that begins before `time`; returns whether there was any. Errors: the power is
    /// cut during that work.
    pub fn idle_until(&mut self, time: Nanos) -> DiskResult<bool> {
        self.advance_to(time)?;
        let mut any = false;
        let idle = self.working().filter(|(_, drive)| drive.outstanding() == 0).map(|(number, _)| number);
        for number in idle.collect::<Vec<_>>() {
            while self.device.drives_mut()[number].step_before(time)? {
                any = true;
            }
        }
        if any && self.will_lose_power() { Err(power_cut()) } else { Ok(any) }
    }

    /// Fills the persistent cache to `share` by writes at random places, or as far as it ever fills, and then makes `more` such writes. A
    /// log-structured layer is first written completely, then `share` of its remaining free space is used up. Returns false if the layer
    /// is neither.
    pub fn fill_cache(&mut self, sectors: u64, share: f64, more: u64) -> DiskResult<bool> {
        let write = |model: &mut Model, lba: u64, sectors: u64| {
            let request = Request::new(Op::Write, Lba(lba), sectors as u32);
            model.submit(0, &request, model.now, Nanos::ZERO)?;
            model.drain()
        };
        let is_log = self.room_before_cleaning().is_some();
        if is_log {
            let mut pieces = (0..sectors).step_by(PREFILL_SECTORS as usize);
            pieces.try_for_each(|lba| write(self, lba, PREFILL_SECTORS.min(sectors - lba)))?;
        }
        let room = self.room_before_cleaning();
        let fill = |model: &Model| match (model.room_before_cleaning(), room) {
            (Some(left), Some(room)) => Some(1.0 - left as f64 / room.max(1) as f64),
            _ => model.device.gauges().cache_fill,
        };
        // Small writes would fragment the map of a log-structured layer, as on a drive in use for years.
        let length = if is_log { LOG_WRITE_SECTORS.min(sectors) } else { 8 };
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut write_any = |model: &mut Model| write(model, random.random_range(0..sectors / length) * length, length);
        let (mut fullest, mut writes_since) = (0.0, 0);
        loop {
            let Some(filled) = fill(self) else { return Ok(false) };
            if filled >= share || writes_since == STEADY_WRITES {
                break;
            }
            writes_since = if filled > fullest { 0 } else { writes_since + 1 };
            fullest = f64::max(fullest, filled);
            write_any(self)?;
        }
        (0..more).try_for_each(|_| write_any(self))?;
        Ok(true)
    }

    /// Sectors that can be written before the layers must clean; `None` if one of them is not log-structured.
    fn room_before_cleaning(&self) -> Option<u64> {
        self.drives().iter().map(|drive| drive.layer.room_before_cleaning()).sum()
    }

    /// Restores a state that was saved by `smrkit run`.
    pub fn restore_saved(&mut self, saved: &SavedState, system: &SystemRun) -> Result<(), Error> {
        self.now = saved.restore(system, &mut self.device)?;
        self.rebuild = self.next_rebuild();
        Ok(())
    }

    /// Handles a power cut of all drives: commands in flight and the layers' volatile state are gone.
    pub fn power_cut(&mut self) {
        self.completions.clear();
        self.write_tags.clear();
        self.plan_power_cut(false);
        self.device.power_cut();
        // The time of the cut must follow from the drives' clocks, not from the host's, because a replay has only those. The clocks differ:
        // the latest one wins, and the other drives idle up to it.
        let now = self.drives().iter().map(|drive| drive.now()).max().unwrap_or_default();
        self.now = now;
        self.device.drives_mut().iter_mut().for_each(|drive| drive.device_mut().disk.wait_until(now));
        self.rebuild = self.next_rebuild();
    }

    /// Handles a power cut like [`Model::power_cut`], and determines what it destroyed.
    pub fn lose_power(&mut self, system: &SystemRun, random: &mut Pcg64Mcg) -> Result<CutLosses, Error> {
        // Before the cut, after which the layers no longer know it.
        let forgotten: Vec<_> = self.drives().iter().map(|drive| drive.layer.forgets()).collect();
        let written = std::mem::take(&mut self.physical_writes);
        self.power_cut();
        let mut platters = None;
        let mut lost: Vec<RangeMap<()>> = Vec::new();
        for ((drive, run), (forgotten, written)) in
            self.drives().into_iter().zip(system.drives()).zip(forgotten.into_iter().zip(written))
        {
            let mut own = RangeMap::default();
            forgotten.into_iter().for_each(|range| own.cover(range.start.0..range.end.0, ()));
            let is_shingled = drive.layer.interlaces() || run.drive.interference != Interference::None;
            if drive.layer.rewrites_in_place() && is_shingled {
                let torn = platters.insert(torn_platters(run, &written.0.lock(), random)?);
                // Damage where the layer no longer has its data costs nothing.
                let damages = torn.disk.stamps().map(Stamps::take_damages).unwrap_or_default();
                for damage in damages.iter().filter(|damage| drive.layer.locate(damage.was.lba()) == damage.pba) {
                    own.cover(damage.was.lba().0..damage.was.lba().0 + 1, ());
                }
            }
            lost.push(own);
        }
        Ok(match self.device.array() {
            Some(array) => CutLosses { lost: lost_by_array(array, &lost), platters: None },
            None => CutLosses { lost: lost.pop().unwrap_or_default(), platters },
        })
    }

    /// True if the write to `lba` in flight reached the platters; `None` if the platters are not modelled.
    pub fn reached_platters(&self, losses: &mut CutLosses, lba: Lba) -> Option<bool> {
        let stamps = losses.platters.as_mut()?.disk.stamps()?;
        let place = self.drives().first()?.layer.locate(lba);
        Some(stamps.get(place) == Stamp::new(lba, TORN))
    }
}

/// The platters of a drive that was full, with every LBA at its home, and then did these writes up to a random sector.
fn torn_platters(run: &DriveRun, writes: &[Access], random: &mut Pcg64Mcg) -> Result<LayeredDisk, Error> {
    let mut device = run.device(Medium::Stamps(Stamps::new()))?;
    let homes = device.layer.fill();
    device.disk.fill(Arc::clone(&homes));
    let mut left = random.random_range(0..=writes.iter().map(|write| write.sectors).sum());
    for write in writes {
        let n = write.sectors.min(left);
        if n == 0 {
            break;
        }
        left -= n;
        let mut data = vec![Stamp::METADATA.0; n as usize];
        homes.within(write.pba, n, &mut |at, lba| data[at as usize] = Stamp::new(lba, TORN).0);
        device.disk.write(write.pba, n, write.cause, &Buf::Stamps(data), 0)?;
    }
    Ok(device)
}

/// Sectors of an array that neither copies nor parity can restore after its drives have `lost` these sectors.
fn lost_by_array(array: &Array, lost: &[RangeMap<()>]) -> RangeMap<()> {
    let (layout, mut all) = (&array.layout, RangeMap::default());
    let is_lost = |disk: u32, at: Lba| {
        !array.health[disk as usize].has(at, 1) || lost[disk as usize].within(at.0..at.0 + 1).next().is_some()
    };
    for (disk, own) in (0..).zip(lost) {
        for at in own.iter().flat_map(|(range, _)| range).map(Lba) {
            let Role::Data(lba) = layout.inverse(disk, at) else { continue };
            let is_gone = match layout.parities() {
                0 => (0..layout.copies()).map(|copy| layout.copy(lba, copy)).all(|(disk, at)| is_lost(disk, at)),
                parities => (0..lost.len() as u32).filter(|&disk| is_lost(disk, at)).count() > parities,
            };
            if is_gone {
                all.cover(lba.0..lba.0 + 1, ());
            }
        }
    }
    all
}

fn power_cut() -> Box<Fault> {
    Box::new(Fault::PowerCut { write: 0 })
}

/// True if the fault is a planned power cut.
pub(super) fn is_power_cut(fault: &Fault) -> bool {
    matches!(fault, Fault::PowerCut { .. })
}

#[cfg(test)]
mod tests {
    use smrkit::experiment::system::{System, Systems};
    use smrkit::settings::Settings;

    use super::*;

    #[test]
    fn a_damaged_state_is_refused() {
        let system = System::drive("tiny").layer("drive-managed");
        let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
        let mut model = Model::new(planned.system()).unwrap();
        let state = model.state();
        model.restore(&state).unwrap();
        for at in (0..state.len()).step_by(state.len().div_ceil(100)) {
            let mut damaged = state.clone();
            damaged[at] ^= 1;
            assert!(model.restore(&damaged).is_err() && model.restore(&state[..at]).is_err(), "byte {at}");
        }
    }
}
