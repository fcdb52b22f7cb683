//! A disk under its translation layer: it serves one request at a time and keeps its own time.

use crate::disk::{Disk, Recorder};
use crate::drive::Position;
use crate::error::{DiskResult, Error, Fault};
use crate::layer::{Layer, Need};
use crate::medium::{Buf, Damage, Stamp};
use crate::request::{Op, Request};
use crate::tally::Cause;
use crate::units::{Lba, Nanos};

/// A drive's platters and its translation layer.
pub struct LayeredDisk {
    /// The platters.
    pub disk: Disk,
    /// The layer.
    pub layer: Box<dyn Layer>,
    host_sectors: u64,
    /// Which source the layer was last told of.
    source: u8,
    /// Takes note of accesses once counting begins.
    recorder: Option<Box<dyn Recorder>>,
    build: Builder,
}

/// Builds a layer as it is on an empty drive.
pub type Builder = Box<dyn Fn() -> Result<Box<dyn Layer>, Error>>;

impl LayeredDisk {
    /// A drive whose layer, made by `build`, finds everything on `disk`.
    pub fn new(disk: Disk, build: Builder) -> Result<LayeredDisk, Error> {
        let layer = build()?;
        let host_sectors = layer.capacity().host_sectors;
        Ok(LayeredDisk { disk, layer, host_sectors, source: 0, recorder: None, build })
    }

    /// Once counting begins, `recorder` takes note of accesses.
    pub fn record(&mut self, recorder: Option<Box<dyn Recorder>>) {
        self.recorder = recorder;
    }

    /// Sectors offered to the host.
    #[inline]
    pub fn host_sectors(&self) -> u64 {
        self.host_sectors
    }

    /// The drive's time.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.disk.now()
    }

    /// Does one stage of cleaning that is due or helps; returns whether there was any.
    #[inline]
    pub fn step(&mut self, need: Need) -> DiskResult<bool> {
        self.layer.step(&mut self.disk, need)
    }

    /// Lets time pass: what is due comes first, then what merely helps. No step helps while the platters are at work on what
    /// nobody waits for.
    #[inline]
    pub fn idle_until(&mut self, time: Nanos) -> DiskResult {
        while self.now() < time {
            if !self.step(Need::Must)? && !self.step(Need::Spare)? {
                let free_at = self.disk.free_at();
                self.disk.wait_until(if free_at > self.now() { time.min(free_at) } else { time });
            }
        }
        Ok(())
    }

    /// Serves a request: reads into `buf`, or writes from it. Time goes on to its completion.
    #[inline]
    pub fn serve(&mut self, request: &Request, buf: &mut Buf) -> DiskResult {
        let (lba, n) = (request.lba, u64::from(request.sectors));
        if request.source != self.source {
            self.source = request.source;
            self.layer.set_source(request.source);
        }
        let result = match request.op {
            Op::Read => self.layer.read(&mut self.disk, lba, n, buf),
            Op::Write => self.layer.write(&mut self.disk, lba, n, buf),
            Op::Flush => self.layer.flush(&mut self.disk),
            Op::Discard => self.layer.discard(&mut self.disk, lba, n),
        };
        self.disk.end_stretch();
        result
    }

    /// Where a command for `lba` would take the head now.
    pub fn position(&self, lba: Lba) -> Position {
        self.disk.clock().position(self.disk.geometry(), self.layer.locate(lba))
    }

    /// The time to get the head there from where it is.
    #[inline]
    pub fn positioning(&self, position: &Position) -> Nanos {
        self.disk.clock().estimate_at(position, self.disk.now())
    }

    /// When the last destaging or cleaning ended.
    #[inline]
    pub fn cleaning_end(&self) -> Nanos {
        self.disk.tally().cleaning_end()
    }

    /// Counting starts anew (after warm-up).
    pub fn reset_counts(&mut self) {
        self.disk.reset_tally();
        self.layer.reset_stats();
        if let Some(recorder) = self.recorder.take() {
            self.disk.record(Some(recorder));
        }
    }

    /// In check mode: what was damaged since the last call, is so still, and lies where its LBA is found.
    pub fn take_damages(&mut self) -> Vec<Damage> {
        let Some(stamps) = self.disk.stamps().filter(|stamps| stamps.has_damages()) else { return Vec::new() };
        let mut damages = stamps.take_damages();
        damages.retain(|damage| stamps.get(damage.pba).is_damaged());
        damages.retain(|damage| self.layer.locate(damage.was.lba()) == damage.pba);
        damages
    }

    /// Checks the layer's own books in full.
    pub fn check(&self) -> DiskResult {
        self.layer.check(&self.disk)
    }

    /// Takes every LBA as written once, in order, and nothing as cached: in no time, on a drive that has done nothing yet.
    pub fn fill(&mut self) {
        let placement = self.layer.fill();
        self.disk.fill(placement);
    }

    /// The power comes back after a cut: the layer starts anew and rebuilds its maps from the platters.
    pub fn recover(&mut self) -> DiskResult {
        self.disk.power_on();
        self.layer = (self.build)().map_err(|error| Fault::Inconsistent(format!("the layer can't start: {error}")))?;
        self.source = 0;
        self.layer.recover(&mut self.disk)?;
        self.disk.recovered();
        Ok(())
    }

    /// In check mode: what lies where an LBA is found, at no cost.
    pub fn peek(&mut self, lba: Lba) -> Stamp {
        let pba = self.layer.locate(lba);
        self.disk.stamps().map_or(Stamp::default(), |stamps| stamps.get(pba))
    }

    /// Sectors read from the platters and written to them so far.
    pub fn physical_sectors(&self) -> (u64, u64) {
        let tally = self.disk.tally();
        let sum = |of: &dyn Fn(Cause) -> u64| Cause::ALL.into_iter().map(of).sum();
        (sum(&|cause| tally.reads(cause).sectors), sum(&|cause| tally.writes(cause).sectors))
    }
}
