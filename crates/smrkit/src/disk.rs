//! The only door to the platters: every access is checked, charged and counted here.
//!
//! It also cuts the power, at a chosen physical write: a random number of its sectors, from none to all, still reaches the platters. Every
//! later access fails until the power comes back.

use std::ops::Range;
use std::sync::Arc;

use crate::drive::{Drive, DriveClock};
use crate::error::{DiskResult, Fault};
use crate::geometry::Geometry;
use crate::medium::interference::Interference;
use crate::medium::{Buf, Medium, Placement, Stamp, Stamps};
use crate::random::mix;
use crate::ranges::RangeMap;
use crate::state::state;
use crate::tally::{Access, Cause, Tally};
use crate::units::{Nanos, Pba};

/// Records each physical access. Starts are relative to the beginning of counting.
pub trait Recorder: Send {
    /// Records an access.
    fn access(&mut self, access: &Access);
}

/// A drive's platters, clock and counters.
pub struct Disk {
    geometry: Geometry,
    law: Interference,
    /// Sectors before it are recorded without overlap.
    conventional_end: Pba,
    /// Sectors elsewhere that a host has converted to conventional recording.
    converted: RangeMap<()>,
    medium: Medium,
    clock: DriveClock,
    tally: Tally,
    /// Requests of the host completed since counting began.
    requests: u64,
    recorder: Option<Box<dyn Recorder>>,
    /// True if accesses are recorded or movement is counted. One flag, because on the hot path the answer is mostly no.
    watched: bool,
    /// When the power is to be cut.
    power: Option<Box<Power>>,
    counting_since: Nanos,
    now: Nanos,
    /// True while the drive destages its write cache: no access then has a command's overhead.
    in_batch: bool,
}

state! {
    Disk {
        parts: clock, tally;
        values: converted, requests, counting_since, now;
        built: geometry, law, conventional_end, medium, recorder, watched, power, in_batch;
    }
}

impl Disk {
    /// A drive with platters that hold `medium`.
    pub fn new(drive: &Drive, medium: Medium) -> Disk {
        Disk {
            geometry: drive.geometry.clone(),
            law: drive.interference,
            conventional_end: Pba(0),
            converted: RangeMap::default(),
            medium,
            clock: drive.clock.clone(),
            tally: Tally::new(drive.geometry.sectors),
            requests: 0,
            recorder: None,
            watched: false,
            power: None,
            counting_since: Nanos::ZERO,
            now: Nanos::ZERO,
            in_batch: false,
        }
    }

    /// Records the sectors before `end` conventionally: the shingling law does not hold there.
    pub fn record_conventionally(&mut self, end: Pba) {
        self.conventional_end = end;
    }

    /// Records sectors without overlap from now on, or shingled again. What they held stays on the medium, and is the layer's to forget.
    pub fn convert(&mut self, sectors: Range<Pba>, to_conventional: bool) {
        let sectors = sectors.start.0..sectors.end.0;
        match to_conventional {
            true => self.converted.cover(sectors, ()),
            false => drop(self.converted.uncover(sectors)),
        }
    }

    fn is_conventional(&self, pba: Pba) -> bool {
        pba < self.conventional_end || self.converted.get(pba.0).is_some()
    }

    /// Records all tracks interlaced, not shingled.
    pub fn interlace(&mut self) {
        self.law = Interference::Interlaced;
    }

    /// Fills the disk as if every LBA had been written once, in order, where `placement` says. Takes no time, and comes before all else.
    pub fn fill(&mut self, placement: Arc<dyn Placement>) {
        self.medium.fill(placement, self.geometry.sectors);
    }

    /// Reads `n` sectors from `pba` into `buf`, sector `at` on.
    #[inline]
    pub fn read(&mut self, pba: Pba, n: u64, cause: Cause, buf: &mut Buf, at: u64) -> DiskResult {
        self.access(pba, n, cause, false, None)?;
        self.medium.read(pba, n, buf, at)
    }

    /// Reads `n` sectors for the host on a drive that can begin anywhere in a track: a whole track takes one rotation, wherever the head
    /// arrives.
    pub fn read_in_any_order(&mut self, pba: Pba, n: u64, buf: &mut Buf) -> DiskResult {
        // Outside the disk, where `access` refuses, the clock knows no place.
        let inside = n > 0 && pba.0 + n <= self.geometry.sectors;
        let duration = if inside { self.clock.in_any_order(&self.geometry, self.now, pba, n) } else { None };
        self.access(pba, n, Cause::Host, false, duration)?;
        self.medium.read(pba, n, buf, 0)
    }

    /// Writes `n` sectors at `pba` from `buf`, sector `at` on; destroys neighbours as the shingling law says.
    #[inline]
    pub fn write(&mut self, pba: Pba, n: u64, cause: Cause, buf: &Buf, at: u64) -> DiskResult {
        self.write_in(None, pba, n, cause, buf, at)
    }

    /// Writes `n` sectors at `pba` from the beginning of `buf` in a time known from measurement, without the clock.
    #[inline]
    pub fn write_lasting(&mut self, duration: Nanos, pba: Pba, n: u64, cause: Cause, buf: &Buf) -> DiskResult {
        self.write_in(Some(duration), pba, n, cause, buf, 0)
    }

    /// Writes `n` sectors of a layer's metadata at `pba`.
    #[inline]
    pub fn write_metadata(&mut self, pba: Pba, n: u64) -> DiskResult {
        let buf = self.metadata(n);
        self.write(pba, n, Cause::Map, &buf, 0)
    }

    /// Writes `n` sectors from `buf`, sector `at` on, in the time `lasting`, if that is known; else the clock times it.
    #[inline(always)]
    fn write_in(&mut self, lasting: Option<Nanos>, pba: Pba, n: u64, cause: Cause, buf: &Buf, at: u64) -> DiskResult {
        let (done, is_cut) = match &mut self.power {
            None => (n, false),
            Some(power) => power.begin_write(n)?,
        };
        if done > 0 || !is_cut {
            self.access(pba, done, cause, true, lasting)?;
            // Sectors written before a cut destroy their neighbours as any write does.
            let law = if self.is_conventional(pba) { &Interference::None } else { &self.law };
            self.medium.write(law, &self.geometry, pba, done, buf, at)?;
        }
        match &mut self.power {
            Some(power) if is_cut => {
                power.off = true;
                Err(power.fault())
            }
            _ => Ok(()),
        }
    }

    /// True if the medium holds data. If not, layers need not assemble what they write.
    #[inline]
    pub fn holds_data(&self) -> bool {
        !matches!(self.medium, Medium::NoData)
    }

    /// Times and counts an access. `lasting` is its duration if the clock is not to time it.
    #[inline]
    fn access(&mut self, pba: Pba, sectors: u64, cause: Cause, write: bool, lasting: Option<Nanos>) -> DiskResult {
        let capacity = self.geometry.sectors;
        if sectors == 0 || pba.0 + sectors > capacity {
            return Err(Box::new(Fault::OutOfRange { pba, sectors, capacity }));
        }
        if let Some(power) = &self.power
            && power.off
        {
            return Err(power.fault());
        }
        let start = self.now;
        if self.in_batch && cause == Cause::Host {
            // Sent long ago, so that the overhead of a command is over.
            self.clock.sent_at(Nanos::ZERO);
        }
        self.now = match lasting {
            None => self.clock.access(&self.geometry, start, write, pba, sectors),
            Some(duration) => {
                // The clock has not timed this access, so it is told where the head is now.
                self.clock.leave_at(&self.geometry, pba + (sectors - 1));
                start + duration
            }
        };
        let access = Access { start, duration: self.now - start, cause, write, pba, sectors };
        self.tally.count(&access);
        if self.watched {
            self.watch(&access);
        }
        Ok(())
    }

    #[inline(never)]
    fn watch(&mut self, access: &Access) {
        if self.tally.movement().is_some() {
            let (first, last) = self.geometry.tracks_of(access.pba, access.sectors);
            self.tally.moved(access.cause, first, last);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.access(&Access { start: access.start.since(self.counting_since), ..*access });
        }
    }

    /// Counts the head's movements from now on.
    pub(crate) fn count_movement(&mut self) {
        self.tally.count_movement();
        self.watched = true;
    }

    /// Cuts the power as `power` says, counting writes from now on. A supply that never cuts is dropped, to keep writes on the fast path.
    pub fn cut_power(&mut self, power: Power) {
        self.power = (!power.cuts.is_empty()).then(|| Box::new(power));
    }

    /// Restores the power after a cut: the contents of the drive's own write cache are lost.
    pub(crate) fn power_cut(&mut self) {
        self.clock.power_cut();
        self.power.iter_mut().for_each(|power| power.off = false);
        // What was cleaned before the cut delays no later request.
        self.tally.stretches.last_end = Nanos::ZERO;
    }

    /// Makes what was written durable: empties the drive's own write cache.
    pub fn flush(&mut self) -> DiskResult {
        self.now = self.clock.flush(&self.geometry, self.now);
        Ok(())
    }

    /// Room for `n` sectors of what this disk holds.
    #[inline]
    pub fn buf(&self, n: u64) -> Buf {
        self.medium.buf(n, Stamp::default())
    }

    /// `n` sectors of a layer's metadata, parts of which can be overwritten with data. The contents of headers and maps are not simulated.
    #[inline]
    pub fn metadata(&self, n: u64) -> Buf {
        self.medium.buf(n, Stamp::METADATA)
    }

    /// The drive's time.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Notes that the next command was sent at `moment`, perhaps while others were served.
    #[inline]
    pub(crate) fn sent_at(&mut self, moment: Nanos) {
        self.clock.sent_at(moment);
    }

    /// When a command that needs only the bus completes, which carries its data from `start` on; see [`DriveClock::transfer`].
    #[inline]
    pub(crate) fn transfer(&mut self, start: Nanos, sent: Nanos, write: bool, sectors: u64) -> Nanos {
        self.clock.transfer(start, sent, write, sectors)
    }

    /// Calls `write` to destage the drive's write cache, without the overhead of commands.
    pub(crate) fn in_batch<T>(&mut self, write: impl FnOnce(&mut Disk) -> T) -> T {
        self.in_batch = true;
        let result = write(self);
        self.in_batch = false;
        result
    }

    /// Lets time pass without work.
    #[inline]
    pub fn wait_until(&mut self, time: Nanos) {
        self.now = self.now.max(time);
    }

    /// Zones, tracks and sectors.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The shingling law of the platters.
    pub fn interference(&self) -> &Interference {
        &self.law
    }

    /// The clock, for queues that order commands by position.
    pub fn clock(&self) -> &DriveClock {
        &self.clock
    }

    /// Counts of the disk.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Starts counting anew (after prefill and warm-up), and with it a recorder's time.
    pub(crate) fn reset_tally(&mut self) {
        self.tally.reset();
        self.requests = 0;
        self.clock.reset_unwaited();
        self.counting_since = self.now;
    }

    /// Makes a recorder's time start at `time` instead of the beginning of this drive's own counting.
    pub(crate) fn record_since(&mut self, time: Nanos) {
        self.counting_since = time;
    }

    /// Requests of the host completed since counting began: also the number, from 0, of the one being served.
    #[inline]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Counts completed requests. Cleaning after them is another stretch.
    #[inline]
    pub(crate) fn end_requests(&mut self, count: u64) {
        self.requests += count;
        self.tally.stretches.end();
    }

    /// The stamps, in check mode.
    pub fn stamps(&mut self) -> Option<&mut Stamps> {
        match &mut self.medium {
            Medium::Stamps(stamps) => Some(stamps),
            _ => None,
        }
    }

    /// Reports each access to `recorder` from now on; returns the previous recorder.
    pub fn record(&mut self, recorder: Option<Box<dyn Recorder>>) -> Option<Box<dyn Recorder>> {
        self.watched = recorder.is_some() || self.tally.movement().is_some();
        std::mem::replace(&mut self.recorder, recorder)
    }
}

/// A disk's power supply, with the cuts to come.
#[derive(Clone, Debug, Default)]
pub struct Power {
    /// The writes to be cut, counted from 1, in descending order.
    cuts: Vec<u64>,
    seed: u64,
    writes: u64,
    off: bool,
}

impl Power {
    /// A supply that is cut at each of `cuts`, numbers of physical writes from 1. `seed` decides how much of them is written.
    pub fn new(mut cuts: Vec<u64>, seed: u64) -> Power {
        cuts.sort_unstable_by(|a, b| b.cmp(a));
        cuts.dedup();
        Power { cuts, seed, writes: 0, off: false }
    }

    /// How many of `n` sectors the next write reaches, and whether the power is cut then.
    #[cold]
    fn begin_write(&mut self, n: u64) -> DiskResult<(u64, bool)> {
        if self.off {
            return Err(self.fault());
        }
        self.writes += 1;
        let is_cut = self.cuts.pop_if(|cut| *cut == self.writes).is_some();
        // Follows from the seed and the number of the write alone.
        let done = if is_cut { mix(self.seed ^ self.writes.rotate_left(32)) % (n + 1) } else { n };
        Ok((done, is_cut))
    }

    /// Fault of every access from the cut on.
    fn fault(&self) -> Box<Fault> {
        Box::new(Fault::PowerCut { write: self.writes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Lba;

    /// A disk of 100 sectors on which a write destroys the two behind it, save before sector 40.
    fn disk() -> Disk {
        let mut drive = Drive::load("tiny-constant").unwrap();
        drive.geometry = Geometry::uniform(10, 10).unwrap();
        let drive = drive.with_interference(Interference::Blocks { reach: 3 }).unwrap();
        let mut disk = Disk::new(&drive, Medium::Stamps(Stamps::new()));
        disk.record_conventionally(Pba(40));
        disk
    }

    fn write(disk: &mut Disk, pba: u64, lasting: bool) {
        let buf = Buf::Stamps(vec![Stamp::new(Lba(pba), 1).0]);
        match lasting {
            true => disk.write_lasting(Nanos(1), Pba(pba), 1, Cause::Host, &buf).unwrap(),
            false => disk.write(Pba(pba), 1, Cause::Host, &buf, 0).unwrap(),
        }
    }

    #[test]
    fn what_is_recorded_conventionally_harms_no_neighbour() {
        for lasting in [false, true] {
            for (pba, left) in
                [(38, [true; 3]), (39, [true; 3]), (40, [false, false, true]), (41, [false, false, true])]
            {
                let mut disk = disk();
                (1..4).for_each(|next| write(&mut disk, pba + next, lasting));
                write(&mut disk, pba, lasting);
                let stamps = [1, 2, 3].map(|next| (disk.stamps().unwrap().get(Pba(pba + next)), Lba(pba + next)));
                assert_eq!(stamps.map(|(stamp, lba)| stamp == Stamp::new(lba, 1)), left, "{pba}");
            }
        }
    }

    #[test]
    fn a_buffer_of_another_disk_is_refused() {
        let mut disk = disk();
        for mut buf in [Buf::NoData, Buf::Stamps(vec![0; 7])] {
            assert!(disk.read(Pba(0), 8, Cause::Host, &mut buf, 0).unwrap_err().to_string().contains("Disk::buf"));
            assert!(disk.write(Pba(0), 8, Cause::Host, &buf, 0).unwrap_err().to_string().contains("Disk::buf"));
            let mut own = disk.buf(8);
            own.put(0, &buf, 0, 8);
            assert!(matches!(own, Buf::Stamps(own) if own == [0; 8]));
        }
    }

    #[test]
    fn accesses_end_with_the_disk() {
        let mut disk = disk();
        let mut buf = disk.buf(100);
        assert!(disk.read(Pba(0), 100, Cause::Host, &mut buf, 0).is_ok());
        assert!(disk.read_in_any_order(Pba(90), 10, &mut buf).is_ok());
        for (pba, n) in [(0, 101), (100, 1), (99, 2), (50, 0)] {
            let read = disk.read(Pba(pba), n, Cause::Host, &mut buf, 0);
            let fault = *read.unwrap_err();
            assert!(
                matches!(fault, Fault::OutOfRange { pba: Pba(at), sectors, capacity: 100 } if (at, sectors) == (pba, n))
            );
            assert!(disk.read_in_any_order(Pba(pba), n, &mut buf).is_err());
        }
        assert_eq!(disk.tally().reads(Cause::Host).sectors, 110);
    }
}
