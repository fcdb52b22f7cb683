//! What the engine serves requests with: a drive, later an array of drives.

use crate::disk::{Disk, Recorder};
use crate::error::{DiskResult, Error};
use crate::layer::{Gauges, Layer, Need};
use crate::medium::{Buf, Damage, Stamp};
use crate::power::Power;
use crate::request::{Op, Request};
use crate::tally::Cause;
use crate::units::{Lba, Nanos};

/// Something that serves one request at a time and keeps its own time.
pub trait Device {
    /// Sectors offered to the host.
    fn host_sectors(&self) -> u64;

    /// The device's time.
    fn now(&self) -> Nanos;

    /// Lets time pass without work.
    fn wait_until(&mut self, time: Nanos);

    /// Until when the platters are at work on what nobody waits for; no step helps before that.
    fn busy_until(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Does one stage of cleaning that is due or helps; returns whether there was any.
    fn step(&mut self, need: Need) -> DiskResult<bool>;

    /// Lets time pass: what is due comes first, then what merely helps.
    fn idle_until(&mut self, time: Nanos) -> DiskResult {
        while self.now() < time {
            if !self.step(Need::Must)? && !self.step(Need::Spare)? {
                let free_at = self.busy_until();
                self.wait_until(if free_at > self.now() { time.min(free_at) } else { time });
            }
        }
        Ok(())
    }

    /// Serves a request: reads into `buf`, or writes from it. Time goes on to its answer.
    fn serve(&mut self, request: &Request, buf: &mut Buf) -> DiskResult;

    /// Where a command for `lba` would take the head now.
    fn position(&self, lba: Lba) -> Position;

    /// The time to get the head there from where it is.
    fn positioning(&self, position: &Position) -> Nanos;

    /// Sectors of the persistent cache; 0 where there is none.
    fn cache_sectors(&self) -> u64;

    /// When the last destaging or cleaning ended.
    fn cleaning_end(&self) -> Nanos;

    /// What the layer shows of its state.
    fn gauges(&self) -> Gauges;

    /// Counting starts anew (after warm-up).
    fn reset_counts(&mut self);

    /// In check mode: what was damaged since the last call, is so still, and lies where its LBA is found.
    fn take_damages(&mut self) -> Vec<Damage>;

    /// Checks the layer's own books in full.
    fn check(&self) -> DiskResult;

    /// Cuts the power as `power` says, counting writes from now on.
    fn cut_power(&mut self, power: Power);

    /// The power comes back after a cut: the layer starts anew and rebuilds its maps from the platters.
    fn recover(&mut self) -> Result<(), Error>;

    /// Whether everything that was acknowledged is still there after a power cut.
    fn keeps_acknowledged(&self) -> bool;

    /// In check mode: what lies where an LBA is found, at no cost.
    fn peek(&mut self, lba: Lba) -> Stamp;

    /// Sectors read from the platters and written to them so far.
    fn physical_sectors(&self) -> (u64, u64);
}

pub use crate::drive::Position;

/// A drive: its platters and its translation layer.
pub struct Single {
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

impl Single {
    /// A drive whose layer, made by `build`, finds everything on `disk`.
    pub fn new(disk: Disk, build: Builder) -> Result<Single, Error> {
        let layer = build()?;
        let host_sectors = layer.capacity().host_sectors;
        Ok(Single { disk, layer, host_sectors, source: 0, recorder: None, build })
    }

    /// Once counting begins, `recorder` takes note of accesses.
    pub fn record(&mut self, recorder: Option<Box<dyn Recorder>>) {
        self.recorder = recorder;
    }
}

impl Device for Single {
    #[inline]
    fn host_sectors(&self) -> u64 {
        self.host_sectors
    }

    #[inline]
    fn now(&self) -> Nanos {
        self.disk.now()
    }

    #[inline]
    fn wait_until(&mut self, time: Nanos) {
        self.disk.wait_until(time);
    }

    #[inline]
    fn busy_until(&self) -> Nanos {
        self.disk.free_at()
    }

    #[inline]
    fn step(&mut self, need: Need) -> DiskResult<bool> {
        self.layer.step(&mut self.disk, need)
    }

    #[inline]
    fn serve(&mut self, request: &Request, buf: &mut Buf) -> DiskResult {
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

    fn position(&self, lba: Lba) -> Position {
        self.disk.clock().position(self.disk.geometry(), self.layer.locate(lba))
    }

    #[inline]
    fn positioning(&self, position: &Position) -> Nanos {
        self.disk.clock().estimate_at(position, self.disk.now())
    }

    fn cache_sectors(&self) -> u64 {
        self.layer.capacity().cache_sectors
    }

    #[inline]
    fn cleaning_end(&self) -> Nanos {
        self.disk.tally().cleaning_end()
    }

    fn gauges(&self) -> Gauges {
        self.layer.gauges()
    }

    fn reset_counts(&mut self) {
        self.disk.reset_tally();
        self.layer.reset_stats();
        if let Some(recorder) = self.recorder.take() {
            self.disk.record(Some(recorder));
        }
    }

    fn take_damages(&mut self) -> Vec<Damage> {
        let Some(stamps) = self.disk.stamps().filter(|stamps| stamps.has_damages()) else { return Vec::new() };
        let mut damages = stamps.take_damages();
        damages.retain(|damage| stamps.get(damage.pba).is_damaged());
        damages.retain(|damage| self.layer.locate(damage.was.lba()) == damage.pba);
        damages
    }

    fn check(&self) -> DiskResult {
        self.layer.check(&self.disk)
    }

    fn cut_power(&mut self, power: Power) {
        self.disk.cut_power(power);
    }

    fn recover(&mut self) -> Result<(), Error> {
        self.disk.power_on();
        self.layer = (self.build)()?;
        self.source = 0;
        self.layer.recover(&mut self.disk)?;
        self.disk.recovered();
        Ok(())
    }

    fn keeps_acknowledged(&self) -> bool {
        self.layer.keeps_acknowledged()
    }

    fn peek(&mut self, lba: Lba) -> Stamp {
        let pba = self.layer.locate(lba);
        self.disk.stamps().map_or(Stamp::default(), |stamps| stamps.get(pba))
    }

    fn physical_sectors(&self) -> (u64, u64) {
        let tally = self.disk.tally();
        let sum = |of: &dyn Fn(Cause) -> u64| Cause::ALL.into_iter().map(of).sum();
        (sum(&|cause| tally.reads(cause).sectors), sum(&|cause| tally.writes(cause).sectors))
    }
}
