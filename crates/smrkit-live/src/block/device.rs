//! A served drive or array: platters in an image, the layers on them, and what the host knows of its sectors.

mod under_way;

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use smrfs::map::checksum;
use smrkit::device::{Contents, DriveContents, HostSectors, LayeredDisk, Served};
use smrkit::engine::system::DriveRun;
use smrkit::error::{DiskResult, Fault};
use smrkit::layer::Gauges;
use smrkit::medium::{Buf, Medium};
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};

use super::backing::ImageBacking;
use super::fault::InjectedFault;
use super::image::{DriveImage, DrivePlaces};
use super::log::{FoundState, LogEvent, LogWriter};
use super::notes::Notes;
use super::simulated::{Simulated, is_power_cut};
use super::write_cache::WriteCache;
use super::written::Written;
use crate::error::LiveError;
use crate::log::log;
use crate::reserve::Full;
use under_way::UnderWay;
pub use under_way::{Ended, Unserved};

/// Sectors of which it is told at a time where they lie: each is looked up (assumption).
const LOCATED_SECTORS: u64 = 1 << 16;
/// The least of a drive's time for which it works for itself at once (assumption).
const STEP: Nanos = Nanos(1_000_000);
/// The track of sectors that hold nothing of the host's.
const NO_TRACK: u32 = u32::MAX;

/// The account of a drive's opening.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// State in which it was found.
    pub found: FoundState,
    /// Time that took on the wall clock.
    pub lasted: Duration,
}

/// A drive or an array that is served.
pub struct BlockDevice {
    pub(super) image: DriveImage,
    pub(super) device: Simulated,
    pub(super) written: Written,
    cache: WriteCache,
    pub(super) notes: Notes,
    bad: BTreeSet<u64>,
    pub(super) is_slow: Nanos,
    pub(super) is_silent: bool,
    /// True if a power cut may have lost completed writes, until that is asked for.
    has_lost: bool,
    /// Cuts of the power after which it has recovered.
    power_cuts: u64,
    /// Fault that ended its service, and the remedy; none as long as it serves.
    pub(super) failure: Option<String>,
    /// Requests of the host's that are under way.
    pub(super) under_way: Vec<UnderWay>,
    /// Requests that came to their end, until they are asked for.
    pub(super) ended: VecDeque<Ended>,
}

impl BlockDevice {
    /// The drive or the array of `image`, after its recovery if it was used before.
    pub fn open(image: DriveImage, log: Option<LogWriter>) -> Result<(BlockDevice, Opened), LiveError> {
        let wrong = |error: String| LiveError::image(image.path(), error);
        let places = image.places();
        let begun = Instant::now();
        let bits = |first_byte| Written::new(image.store().clone(), first_byte);
        let is_array = image.system().array().is_some();
        let mut next = places.drives.iter();
        let build = |run: &DriveRun| {
            let DrivePlaces { written, platters } = next.next().expect("a place for each drive");
            let medium = Medium::Bytes(Box::new(ImageBacking::new(image.store().clone(), *platters)));
            // Of a drive alone `BlockDevice` knows it.
            let host = is_array.then(|| Box::new(bits(*written)) as Box<dyn HostSectors>);
            Ok((run.device(medium)?, DriveContents::Bytes(host)))
        };
        let device = Simulated::new(image.system(), Contents::Bytes, build, is_array.then(|| bits(places.unsettled)));
        let mut device = device.map_err(|error| wrong(error.to_string()))?;
        let is_empty = image.store().is_hole(places.media());
        let mut written = bits(places.written);
        let found = find(&image, &mut device, &mut written, is_empty)
            .map_err(|fault| wrong(format!("the layer cannot start: {fault}")))?;
        let mut device = BlockDevice {
            image,
            device,
            written,
            cache: WriteCache::default(),
            notes: Notes::new(log),
            bad: BTreeSet::new(),
            is_slow: Nanos::ZERO,
            is_silent: false,
            has_lost: false,
            power_cuts: 0,
            failure: None,
            under_way: Vec::new(),
            ended: VecDeque::new(),
        };
        device.notes.add(LogEvent::Open(found, device.now()));
        device.image.begin()?;
        Ok((device, Opened { found, lasted: begun.elapsed() }))
    }

    /// The drive with a volatile write cache of this many sectors, in the place of any that it had.
    pub fn with_write_cache(mut self, sectors: usize) -> BlockDevice {
        self.cache = WriteCache::new(sectors);
        self
    }

    /// The image.
    pub fn image(&self) -> &DriveImage {
        &self.image
    }

    /// The disks and the layers of all drives, in order.
    pub fn drives(&self) -> Vec<&LayeredDisk> {
        self.device.drives()
    }

    /// Gauges of the layers.
    pub fn gauges(&self) -> Gauges {
        self.device.gauges()
    }

    /// The drive's time.
    pub fn now(&self) -> Nanos {
        self.device.now()
    }

    /// Does a little of what is due or helps while nothing waits, if any begins before `time`; tells whether that did. A command may
    /// come then.
    pub fn step_before(&mut self, time: Nanos) -> bool {
        let (from, mut span) = (self.device.free_from(), STEP);
        while from < time && self.failure.is_none() {
            if self.idle_until(time.min(from + span), false) {
                return true;
            }
            if from + span >= time {
                break;
            }
            span = span + span;
        }
        false
    }

    /// Serves a request that came at `arrival`: reads into the bytes of `buf`, or writes from them; those may be gone then.
    pub fn serve(&mut self, request: &Request, arrival: Nanos, buf: &mut Buf) -> Result<Served, Unserved> {
        if self.cache.room == 0 {
            return self.serve_below(request, arrival, buf);
        }
        let range = request.lba.0..request.end().0;
        match (request.op, &*buf) {
            (Op::Write, Buf::Bytes(bytes)) if self.failure.is_none() => {
                self.cache.insert(range.start, &bytes[..request.sectors as usize * SECTOR_BYTES as usize]);
                if self.cache.is_full() {
                    self.write_back(arrival, |_| true)?;
                }
                let at = self.now().max(arrival);
                return self.after_service(Op::Write, range, Served { start: at, end: at });
            }
            (Op::Flush, _) => self.write_back(arrival, |_| true)?,
            (Op::Discard, _) => self.cache.remove(range.clone()),
            _ => {}
        }
        let served = self.serve_below(request, arrival, buf)?;
        if let (Op::Read, Buf::Bytes(bytes)) = (request.op, buf) {
            self.cache.overlay(range, bytes);
        }
        Ok(served)
    }

    /// Writes those sectors of the write cache to the layer that `pick` names, as a drive may at any time. Injected faults are for
    /// the host's requests, not for these.
    pub fn write_back(&mut self, arrival: Nanos, pick: impl FnMut(u64) -> bool) -> Result<(), Unserved> {
        for (lba, bytes) in self.cache.take(pick) {
            let request = Request::new(Op::Write, Lba(lba), (bytes.len() as u64 / SECTOR_BYTES) as u32);
            self.serve_by_layer(&request, arrival, &mut Buf::Bytes(bytes))?;
        }
        Ok(())
    }

    /// Serves a request of the host past the write cache.
    fn serve_below(&mut self, request: &Request, arrival: Nanos, buf: &mut Buf) -> Result<Served, Unserved> {
        let served = self.serve_by_layer(request, arrival, buf)?;
        self.after_service(request.op, request.lba.0..request.end().0, served)
    }

    fn serve_by_layer(&mut self, request: &Request, arrival: Nanos, buf: &mut Buf) -> Result<Served, Unserved> {
        if self.failure.is_some() {
            return Err(Unserved::Failed);
        }
        let arrival = self.arrival_from(arrival);
        if request.op == Op::Discard {
            self.forget(request)?;
        }
        let slow = std::mem::take(&mut self.is_slow);
        let data = std::mem::replace(buf, Buf::NoData);
        let (served, data) = match self.device.serve_at(request, (arrival, slow), data) {
            Err(fault) if is_power_cut(&fault) => {
                self.lose_power(Some(LogEvent::Failed { request: *request, arrival }));
                return Err(Unserved::Failed);
            }
            served => self.checked(served).ok_or(Unserved::Failed)?,
        };
        *buf = if let Buf::Bytes(_) = data { data } else { Buf::Bytes(Vec::new()) };
        self.notes.add(LogEvent::Served { request: *request, arrival, served });
        // A replay tells by the time that the next one came later.
        self.device.wait_until(arrival + Nanos(1));
        if request.op != Op::Discard {
            let kept = self.written.note(request, buf);
            self.checked(kept).ok_or(Unserved::Failed)?;
        }
        Ok(served)
    }

    /// Takes from the host what is to be discarded, wherever a crash leaves off.
    pub(super) fn forget(&mut self, request: &Request) -> Result<(), Unserved> {
        let forgotten = self.written.note(request, &mut Buf::NoData);
        self.checked(forgotten).ok_or(Unserved::Failed)
    }

    /// Arrival of a request that came at `arrival`: not before what has happened.
    pub(super) fn arrival_from(&self, arrival: Nanos) -> Nanos {
        self.now().max(arrival)
    }

    /// Checks the layers' maps, and of an array that copies and parity agree wherever the host has anything. Nothing is under way.
    pub fn check(&mut self) -> DiskResult {
        self.drives().into_iter().try_for_each(LayeredDisk::check)?;
        self.device.compare(&mut self.written)
    }

    /// Effects of injected faults on a request that was served.
    fn after_service(&mut self, op: Op, range: Range<u64>, served: Served) -> Result<Served, Unserved> {
        if std::mem::take(&mut self.is_silent) {
            return Err(Unserved::Silence);
        }
        self.check_sectors(op, range).map(|()| served)
    }

    /// Refuses a read of bad sectors; a write mends them.
    pub(super) fn check_sectors(&mut self, op: Op, range: Range<u64>) -> Result<(), Unserved> {
        match op {
            Op::Read if self.bad.range(range.clone()).next().is_some() => Err(Unserved::Failed),
            Op::Write if !self.bad.is_empty() => {
                self.bad.retain(|lba| !range.contains(lba));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The power was cut during `event`, or what an array has under way, and comes back: the layers rebuild their maps.
    pub(super) fn lose_power(&mut self, event: Option<LogEvent>) {
        self.fail_all_under_way();
        event.into_iter().for_each(|event| self.notes.add(event));
        self.cache.clear();
        self.has_lost |= self.cache.room > 0 || !self.drives().iter().all(|drive| drive.layer.keeps_acknowledged());
        let recovered = self.device.recover();
        if self.checked(recovered).is_some() {
            self.power_cuts += 1;
            self.notes.add(LogEvent::Recovered(self.now()));
        }
    }

    /// The result of what the layer did; after a fault that nothing planned, the drive serves nothing any more.
    pub(super) fn checked<T>(&mut self, result: DiskResult<T>) -> Option<T> {
        result
            .inspect_err(|fault| {
                let is_full = matches!(&**fault, Fault::Io(error) if error.is_full());
                let remedy = if is_full { "free some room there, and serve it anew" } else { "serve it anew" };
                let failure = format!("{fault}; the drive fails every command from now on: {remedy}");
                log(&format!("{}: {failure}", self.image.path().display()));
                self.failure = Some(failure);
            })
            .ok()
    }

    /// True if a power cut may have lost completed writes that were not flushed, since this was last asked.
    pub fn take_loss(&mut self) -> bool {
        std::mem::take(&mut self.has_lost)
    }

    /// Cuts of the power after which it has recovered.
    pub fn power_cuts(&self) -> u64 {
        self.power_cuts
    }

    /// Fault that ended its service, and the remedy.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The parts of some sectors, in order: how many, and whether they read as zeros since the host never wrote them.
    pub fn extents(&mut self, range: Range<u64>) -> Result<Vec<(u64, bool)>, Unserved> {
        let holes = self.layered_holes(&range)?;
        Ok(parted(holes.into_iter().flat_map(|hole| self.without_cached(hole)), range))
    }

    /// The parts of some sectors, of the first ones where many were written, in order: how many, and the track that the layer has
    /// put them on; [`NO_TRACK`] for those that it does not have: the host never wrote them, or the write cache alone has them.
    pub fn tracks(&mut self, range: Range<u64>) -> Result<Vec<(u64, u32)>, Unserved> {
        let (mut at, mut looked_up) = (range.start, 0);
        let holes = self.layered_holes(&range)?;
        let mut parts: Vec<(u64, u32)> = Vec::new();
        let (runs, drives) = (self.image.system().drives(), self.device.drives());
        let geometries: Vec<_> = runs.iter().map(|run| &run.drive.geometry).collect();
        let before = geometries.iter().scan(0, |sum, geometry| Some(std::mem::replace(sum, *sum + geometry.tracks())));
        let first: Vec<u64> = before.collect();
        let place = |lba: Lba| self.device.array().map_or((0, lba), |array| array.layout().place(lba));
        for (sectors, is_hole) in parted(holes.into_iter(), range) {
            if is_hole {
                parts.push((sectors, NO_TRACK));
                at += sectors;
                continue;
            }
            for _ in 0..sectors {
                if looked_up == LOCATED_SECTORS {
                    return Ok(parts);
                }
                let (disk, own) = place(Lba(at));
                let disk = disk as usize;
                let track = (first[disk] + geometries[disk].track_of(drives[disk].layer.locate(own)).0) as u32;
                match parts.last_mut() {
                    Some((count, last)) if *last == track => *count += 1,
                    _ => parts.push((1, track)),
                }
                (at, looked_up) = (at + 1, looked_up + 1);
            }
        }
        Ok(parts)
    }

    /// Sectors that the layer was never given.
    fn layered_holes(&mut self, range: &Range<u64>) -> Result<Vec<Range<u64>>, Unserved> {
        let holes = self.written.holes(range.clone()).map_err(|error| Box::new(Fault::Io(error)));
        self.checked(holes).ok_or(Unserved::Failed)
    }

    /// The parts of a hole that the write cache does not hold.
    fn without_cached(&self, hole: Range<u64>) -> Vec<Range<u64>> {
        let (mut parts, mut at) = (Vec::new(), hole.start);
        for lba in self.cache.held(hole.clone()).chain([hole.end]) {
            if at < lba {
                parts.push(at..lba);
            }
            at = lba + 1;
        }
        parts
    }

    /// Lets drives do for themselves all that begins before `time`; tells whether any did something. The log is told of that, since it
    /// decides which command is next; with `tells` in any case.
    fn idle_until(&mut self, time: Nanos, tells: bool) -> bool {
        match self.device.idle_until(time) {
            Err(fault) if is_power_cut(&fault) => {
                self.lose_power(Some(LogEvent::Interrupted(time)));
                true
            }
            Ok(false) if !tells => false,
            idled => {
                self.notes.add(LogEvent::Idle(time));
                self.checked(idled).unwrap_or(false)
            }
        }
    }

    /// Injects a fault at the drive's time `at`.
    pub fn inject(&mut self, fault: InjectedFault, at: Nanos) -> Result<(), String> {
        match fault {
            InjectedFault::PowerCut(seed) => {
                let at = self.arrival_from(at);
                if self.cache.room > 0 {
                    // Reads see the cache as it was.
                    while !self.is_idle() {
                        self.go_on(None);
                    }
                }
                // Of the write cache anything may have been written back by then.
                let _ = self.write_back(at, |lba| checksum(&(seed ^ lba.rotate_left(32)).to_le_bytes()) >> 7 & 1 == 1);
                // The cut is to meet what comes after `at`, in a replay too.
                self.idle_until(at, true);
                self.device.cut_power(seed);
            }
            InjectedFault::BadSector(lba) if lba >= self.image.export_sectors() => {
                let sectors = self.image.export_sectors();
                return Err(format!("sector {lba} is past the drive's end: it has {sectors}"));
            }
            InjectedFault::BadSector(lba) => drop(self.bad.insert(lba)),
            InjectedFault::Slow(span) => self.is_slow = span,
            InjectedFault::Timeout => self.is_silent = true,
        }
        self.notes.add(LogEvent::Fault(fault));
        Ok(())
    }

    /// Ends in good order at the drive's time `at`: all that was written is in the image, durably.
    pub fn close(mut self, at: Nanos) -> Result<(), LiveError> {
        let flush = Request::new(Op::Flush, Lba(0), 0);
        let flushed = self.serve(&flush, at, &mut Buf::Bytes(Vec::new()));
        self.notes.add(LogEvent::Closed);
        self.notes.flush();
        if flushed.is_err() || self.failure.is_some() {
            let why = self.failure.map(|failure| format!("{failure}; ")).unwrap_or_default();
            let what = why + "not closed in good order: its next use begins with recovery";
            return Err(LiveError::image(self.image.path(), what));
        }
        self.image.close(self.device.books().as_deref())
    }

    /// Writes out what has gathered of the log.
    pub fn flush_log(&mut self) {
        self.notes.flush();
    }
}

/// The parts of a range, in order: how many sectors, and whether they are one of the holes, which lie in order inside it.
fn parted(holes: impl Iterator<Item = Range<u64>>, range: Range<u64>) -> Vec<(u64, bool)> {
    let (mut parts, mut at) = (Vec::new(), range.start);
    for hole in holes {
        if at < hole.start {
            parts.push((hole.start - at, false));
        }
        parts.push((hole.end - hole.start, true));
        at = hole.end;
    }
    if at < range.end {
        parts.push((range.end - at, false));
    }
    parts
}

/// Gives a layer its maps: they are in its books, or on the platters.
fn find(image: &DriveImage, device: &mut Simulated, host: &mut Written, is_empty: bool) -> DiskResult<FoundState> {
    match image.books().map_err(Fault::Io)? {
        Some(books) => device.take_books(&books).map(|()| FoundState::Clean),
        None if is_empty => Ok(FoundState::New),
        None => device.recover_found(host).map(|()| FoundState::Recovered),
    }
}
