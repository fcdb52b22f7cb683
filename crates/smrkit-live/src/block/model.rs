//! The drive or the array in timing mode: what happens when, without a byte of data.
//!
//! Events are processed in the order of the drives' time and not before that is asked for. The same requests at the same times give
//! the same events, in whatever steps time goes on, so that a log can be replayed.

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

/// Writes in which a cache does not become fuller, after which it is as full as it ever is (assumption).
const STEADY_WRITES: u64 = 20_000;
/// Lengths of the writes that fill a log once, 1 MiB, and of those that then use up its free room, 64 KiB (assumptions).
const PREFILL_SECTORS: u64 = 2048;
const LOG_WRITE_SECTORS: u64 = 128;

/// Sectors of a new member of an array that are rebuilt at a time: 1 MiB (assumption).
const REBUILD_SECTORS: u64 = 2048;

/// Version of stamps of what a drive wrote before its power was cut.
const TORN: u64 = 1;

/// A drive or an array, with its time.
pub(super) struct Model {
    pub device: Device,
    /// The time of the last event or arrival.
    pub now: Nanos,
    done: Vec<Completion>,
    /// Tags of writes that are under way.
    writes: BTreeSet<u64>,
    /// The order in which the drives serve commands.
    pub order: Queue,
    rebuild: Option<Rebuild>,
    /// Where the drives have written since a power cut was planned; nothing where none is.
    written: Vec<PhysicalWrites>,
}

/// A new member of an array that is being rebuilt, one piece after another.
struct Rebuild {
    disk: u32,
    /// What comes before it has been rebuilt, or is.
    at: Lba,
    is_under_way: bool,
}

/// Where a drive writes.
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
    /// Sectors of the host that can't be read any more: a rewrite was torn that had them in memory, or the layer has forgotten them.
    pub lost: RangeMap<()>,
    /// The platters of a single drive that the cut may have hurt, with stamps in what was written of late.
    platters: Option<LayeredDisk>,
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
        let (now, done, writes, written) = (Nanos::ZERO, Vec::new(), BTreeSet::new(), Vec::new());
        Ok(Model { device, now, done, writes, order, rebuild: None, written })
    }

    /// The whole state. Nothing is under way.
    pub fn state(&self) -> Vec<u8> {
        sealed([&self.now.0.to_le_bytes()[..], &self.device.state()].concat())
    }

    /// Takes over the state of a model of the same system. After an error this one is of no use.
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

    /// True if a power cut may take writes that completed and were not flushed.
    pub fn may_lose(&self) -> bool {
        self.device.drives().iter().any(|drive| drive.has_write_cache() || !drive.device().layer.keeps_acknowledged())
    }

    /// Commits of each drive's layer; none of a drive that may hold in its write cache what was acknowledged before.
    pub fn commits(&self) -> impl Iterator<Item = Option<u64>> + '_ {
        self.device.drives().iter().map(|drive| (!drive.has_write_cache()).then(|| drive.device().layer.commits()))
    }

    pub fn array(&self) -> Option<&Array> {
        self.device.array()
    }

    /// The order in which the drives serve commands from now on. Nothing is under way.
    pub fn order_commands(&mut self, queue: Queue, system: &SystemRun) {
        self.order = queue;
        let runs = system.drives();
        self.device.order_commands(|number| queueing(queue, &runs[number].drive));
    }

    /// The time of the next event, as far as it is known.
    pub fn next(&self) -> Option<Nanos> {
        let begins = self.device.has_pending() || self.rebuild.as_ref().is_some_and(|rebuild| !rebuild.is_under_way);
        let next = if begins { self.now } else { self.device.next() };
        (next < Nanos::MAX).then_some(next)
    }

    /// Cuts the power at the end of the next write, of the host's or of a drive's own, or forgets that it was to be cut.
    pub fn plan_power_cut(&mut self, is_planned: bool) {
        let drives = self.device.drives_mut();
        self.written = drives.iter().filter(|_| is_planned).map(|_| PhysicalWrites::default()).collect();
        for (number, drive) in drives.iter_mut().enumerate() {
            let recorder = self.written.get(number).map(|written| Box::new(written.clone()) as Box<dyn Recorder>);
            drop(drive.device_mut().disk.record(recorder));
        }
    }

    /// True if the power is to be cut.
    pub fn will_lose_power(&self) -> bool {
        !self.written.is_empty()
    }

    /// Processes the next event if it is due by `limit`; returns whether one was. Errors: it would have been the end of a write, and the
    /// power is cut.
    pub fn step(&mut self, limit: Nanos) -> DiskResult<bool> {
        let before = self.done.len();
        self.begin_piece()?;
        let any = self.device.step(&mut self.now, limit, &mut self.done)?;
        if self.device.array_mut().is_some_and(|array| array.take_done().is_some()) {
            // At this moment, whenever time goes on again: a replay has the same moments and not the same steps.
            self.rebuild.iter_mut().for_each(|rebuild| rebuild.is_under_way = false);
            self.begin_piece()?;
        }
        for at in (before..self.done.len()).rev() {
            // The cut comes between two events, where every layer's maps make sense: only the data of the write is torn.
            let is_write = self.writes.remove(&self.done[at].tag);
            // A flush writes too where the drive has a cache, or the layer holds something back.
            if self.will_lose_power() && (is_write || self.written.iter().any(|written| !written.0.lock().is_empty())) {
                self.done.remove(at);
                return Err(power_cut());
            }
        }
        Ok(any)
    }

    /// Processes all events to come. A rebuild pauses.
    pub fn drain(&mut self) -> DiskResult {
        self.rebuild = None;
        while self.step(Nanos::MAX)? {}
        self.done.clear();
        self.rebuild = self.next_rebuild();
        Ok(())
    }

    /// A member of the array fails: from now on the others do its work. Errors: they could not.
    pub fn fail_member(&mut self, disk: u32) -> Result<(), String> {
        let array = self.array_with(disk)?;
        let layout = &array.layout;
        let spare = if layout.parities() > 0 { layout.parities() } else { layout.copies() as usize - 1 };
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

    /// A new drive takes the place of a member that has failed, and is rebuilt next to what the host asks for.
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

    /// Changes the state of a zone of a single drive that is host-managed. Errors: which rule that breaks.
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

    /// The members of an array that do not hold everything: their number, and the share of a new one that has been rebuilt.
    pub fn missing_members(&self) -> Vec<(usize, Option<f64>)> {
        let Some(array) = self.array() else { return Vec::new() };
        let share = |disk: usize, health: &Health| {
            let sectors = array.layout.member_sectors(disk as u32);
            let pieces = (0..sectors).step_by(REBUILD_SECTORS as usize);
            let rebuilt = pieces.filter(|&at| health.has(Lba(at), REBUILD_SECTORS.min(sectors - at))).count() as u64;
            health.works().then_some(rebuilt as f64 / sectors.div_ceil(REBUILD_SECTORS) as f64)
        };
        let missing = array.health.iter().enumerate().filter(|(_, health)| !health.is_good());
        missing.map(|(disk, health)| (disk, share(disk, health))).collect()
    }

    /// The first of the new members, from the beginning on.
    fn next_rebuild(&self) -> Option<Rebuild> {
        let disk = self.array()?.health.iter().position(|health| matches!(health, Health::New(_)))?;
        Some(Rebuild { disk: disk as u32, at: Lba(0), is_under_way: false })
    }

    /// Begins to rebuild the next piece of a new member, unless one is under way.
    fn begin_piece(&mut self) -> DiskResult {
        while let Some(Rebuild { disk, at, is_under_way: false }) = self.rebuild
            && let Some(array) = self.device.array_mut()
        {
            let sectors = array.layout.member_sectors(disk).saturating_sub(at.0).min(REBUILD_SECTORS);
            if sectors == 0 {
                self.rebuild = self.next_rebuild();
                continue;
            }
            let is_under_way = !array.health[disk as usize].has(at, sectors);
            self.rebuild = Some(Rebuild { disk, at: at + sectors, is_under_way });
            if is_under_way {
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
            let layout = &array.layout;
            (0..layout.copies()).map(|copy| layout.copy(lba, copy).0 as usize).collect()
        });
        let (now, drives) = (self.now, self.device.drives_mut());
        disks.into_iter().try_for_each(|disk| drives[disk].keep_busy(now, span))
    }

    /// The earliest moment at which a drive may work for itself. Nothing is under way.
    pub fn free_from(&self) -> Nanos {
        self.working().map(|(_, drive)| drive.device().now()).min().unwrap_or_default()
    }

    fn working(&self) -> impl Iterator<Item = (usize, &MemberDrive)> {
        let works = |disk: usize| self.array().is_none_or(|array| array.health[disk].works());
        self.device.drives().iter().enumerate().filter(move |(disk, _)| works(*disk))
    }

    /// Lets drives without commands do their own work that begins before `time`; returns whether any did. Errors: the power is cut then.
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

    /// Writes at random places until the persistent cache is filled to this share, or to as much as it ever is; then `more` writes. A log
    /// has all of its sectors written first, and uses up this share of the room that it then has before it must clean. False if the
    /// layer has neither.
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
        // The map of a log that is filled by small writes would be as large as that of a worn drive.
        let length = if is_log { LOG_WRITE_SECTORS.min(sectors) } else { 8 };
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut write_any = |model: &mut Model| write(model, random.random_range(0..sectors / length) * length, length);
        let (mut most, mut since) = (0.0, 0);
        loop {
            let Some(now) = fill(self) else { return Ok(false) };
            if now >= share || since == STEADY_WRITES {
                break;
            }
            since = if now > most { 0 } else { since + 1 };
            most = f64::max(most, now);
            write_any(self)?;
        }
        (0..more).try_for_each(|_| write_any(self))?;
        Ok(true)
    }

    /// Sectors that can be written before the layers must clean; `None` where one of them keeps no log.
    fn room_before_cleaning(&self) -> Option<u64> {
        self.drives().iter().map(|drive| drive.layer.room_before_cleaning()).sum()
    }

    /// Takes over a state that a run has saved.
    pub fn restore_saved(&mut self, saved: &SavedState, system: &SystemRun) -> Result<(), Error> {
        self.now = saved.restore(system, &mut self.device)?;
        self.rebuild = self.next_rebuild();
        Ok(())
    }

    /// The power of all drives was cut and is back: commands under way are gone, and so is what layers keep in volatile memory.
    pub fn power_cut(&mut self) {
        self.done.clear();
        self.writes.clear();
        self.plan_power_cut(false);
        self.device.power_cut();
        // By the drives' time alone: a replay knows of no other between two events. One drive may have been further than another.
        let now = self.drives().iter().map(|drive| drive.now()).max().unwrap_or_default();
        self.now = now;
        self.device.drives_mut().iter_mut().for_each(|drive| drive.device_mut().disk.wait_until(now));
        self.rebuild = self.next_rebuild();
    }

    /// The power of all drives is cut as in [`Model::power_cut`], and what they were writing is torn.
    pub fn lose_power(&mut self, system: &SystemRun, random: &mut Pcg64Mcg) -> Result<CutLosses, Error> {
        let forgotten: Vec<_> = self.drives().iter().map(|drive| drive.layer.forgets()).collect();
        let written = std::mem::take(&mut self.written);
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
                let damages = torn.disk.stamps().map(Stamps::take_damages).unwrap_or_default();
                for damage in damages.iter().filter(|damage| drive.layer.locate(damage.was.lba()) == damage.pba) {
                    own.cover(damage.was.lba().0..damage.was.lba().0 + 1, ());
                }
            }
            lost.push(own);
        }
        Ok(match self.array() {
            Some(array) => CutLosses { lost: lost_by_array(array, &lost), platters: None },
            None => CutLosses { lost: lost.pop().unwrap_or_default(), platters },
        })
    }

    /// True if what was being written to `lba` reached the platters; none where the platters do not tell.
    pub fn reached_platters(&self, losses: &mut CutLosses, lba: Lba) -> Option<bool> {
        let stamps = losses.platters.as_mut()?.disk.stamps()?;
        let place = self.drives().first()?.layer.locate(lba);
        Some(stamps.get(place) == Stamp::new(lba, TORN))
    }
}

/// The platters of a drive after the first of these writes, up to a random sector. Every LBA was at home before them.
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

/// Sectors of an array that neither copies nor parity have, where each of its drives has lost some.
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
