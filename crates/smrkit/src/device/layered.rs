//! A disk under its translation layer: it serves one request at a time and keeps its own time.

use smallvec::SmallVec;

use crate::disk::{Disk, Recorder};
use crate::drive::Position;
use crate::error::DiskResult;
use crate::layer::{Layer, Need, QueuedWrite};
use crate::medium::{Buf, Damage, Stamp};
use crate::request::{Op, Request};
use crate::state::{self, State, state};
use crate::tally::Cause;
use crate::units::{Lba, Nanos, Pba};

/// A drive's platters and its translation layer.
pub struct LayeredDisk {
    /// The platters.
    pub disk: Disk,
    /// The layer.
    pub layer: Box<dyn Layer>,
    /// Sectors offered to the host.
    pub host_sectors: u64,
    /// Source that the layer was last told of.
    source: u8,
    /// The end of the last command.
    idle_since: Nanos,
    /// Records accesses once counting begins.
    recorder: Option<Box<dyn Recorder>>,
}

impl State for Box<dyn Layer> {
    fn save(&self, out: &mut Vec<u8>) {
        let state = self.state();
        state::write(&state.len(), out);
        out.extend(state);
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        self.restore(state::read_bytes(from)?)
    }
}

state! {
    LayeredDisk {
        parts: disk, layer;
        values: source, idle_since;
        built: host_sectors, recorder;
    }
}

impl LayeredDisk {
    /// A drive that serves requests through `layer` from `disk`.
    pub fn new(mut disk: Disk, layer: Box<dyn Layer>) -> LayeredDisk {
        disk.record_conventionally(layer.conventional_end());
        if layer.interlaces() {
            disk.interlace();
        }
        let host_sectors = layer.capacity().host_sectors;
        LayeredDisk { disk, layer, host_sectors, source: 0, idle_since: Nanos::ZERO, recorder: None }
    }

    /// Once counting begins, `recorder` takes note of accesses.
    pub fn record(&mut self, recorder: Option<Box<dyn Recorder>>) {
        self.recorder = recorder;
    }

    /// The drive's time.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.disk.now()
    }

    /// Runs one stage of cleaning that `need` allows; returns `false` if there was none.
    #[inline]
    pub fn step(&mut self, need: Need) -> DiskResult<bool> {
        self.layer.step(&mut self.disk, need)
    }

    /// Runs one step of due cleaning or, after the layer's idle delay, of useful cleaning, if it can begin before `time` (waiting for the
    /// end of the delay). Returns `false` if there was none.
    #[inline]
    pub fn step_before(&mut self, time: Nanos) -> DiskResult<bool> {
        if self.now() >= time {
            return Ok(false);
        }
        if self.step(Need::Must)? {
            return Ok(true);
        }
        // Cleaning that merely helps begins once the drive has been idle for the delay.
        let helps_from = self.layer.idle_delay().map_or(Nanos::MAX, |delay| self.idle_since + delay);
        if helps_from <= self.now() {
            return self.step(Need::Spare);
        }
        if helps_from <= time {
            self.disk.wait_until(helps_from);
        }
        // True although nothing has been cleaned yet: the next call begins it.
        Ok(helps_from <= time)
    }

    /// Lets time pass until `time`: due cleaning runs first, then useful cleaning. A step that has begun is completed, even beyond `time`.
    #[inline]
    pub fn idle_until(&mut self, time: Nanos) -> DiskResult {
        while self.step_before(time)? {}
        self.disk.wait_until(time);
        Ok(())
    }

    /// Runs due cleaning before a command that was sent at `moment`; returns when the command's own service begins.
    #[inline]
    pub fn begin_service(&mut self, moment: Nanos) -> DiskResult<Nanos> {
        self.step(Need::Must)?;
        self.disk.sent_at(moment);
        Ok(self.now())
    }

    /// Serves a request: reads into `buf`, or writes from it. Advances the time to its completion.
    #[inline]
    pub fn serve(&mut self, request: &Request, buf: &mut Buf) -> DiskResult {
        let (lba, n) = (request.lba, u64::from(request.sectors));
        self.set_source(request.source);
        let result = match request.op {
            Op::Read => self.layer.read(&mut self.disk, lba, n, buf),
            Op::Write => self.layer.write(&mut self.disk, lba, n, buf),
            Op::Flush => self.layer.flush(&mut self.disk),
            Op::Discard => self.layer.discard(&mut self.disk, lba, n),
        };
        // A request that a power cut has interrupted is served again, and is counted then.
        self.end_requests(u64::from(result.is_ok()));
        result
    }

    /// Serves queued writes together, each with its sectors. Advances the time to their completion.
    pub fn serve_together(&mut self, writes: &[(&Request, &Buf)]) -> DiskResult {
        let mut all: SmallVec<[QueuedWrite; 8]> = SmallVec::new();
        for &(request, data) in writes {
            all.push(QueuedWrite { lba: request.lba, sectors: u64::from(request.sectors), data });
        }
        let result = self.layer.write_together(&mut self.disk, &all);
        self.end_requests(if result.is_ok() { writes.len() as u64 } else { 0 });
        result
    }

    /// Writes runs of the drive's write cache. They don't count as requests, because those were counted when they were acknowledged.
    pub(super) fn write_back(&mut self, writes: &[QueuedWrite], source: u8) -> DiskResult {
        self.set_source(source);
        let result = self.disk.in_batch(|disk| match writes {
            &[QueuedWrite { lba, sectors, data }] => self.layer.write(disk, lba, sectors, data),
            _ => self.layer.write_together(disk, writes),
        });
        self.end_requests(0);
        result
    }

    /// Counts a request that completed at `end` without the platters.
    #[inline]
    pub(super) fn note_request(&mut self, end: Nanos) {
        self.disk.end_requests(1);
        self.idle_since = self.idle_since.max(end);
    }

    #[inline]
    fn set_source(&mut self, source: u8) {
        if source != self.source {
            self.source = source;
            self.layer.set_source(source);
        }
    }

    #[inline]
    fn end_requests(&mut self, count: u64) {
        self.disk.end_requests(count);
        self.idle_since = self.idle_since.max(self.disk.now());
    }

    /// Where the head has to be for a sector.
    pub fn position(&self, pba: Pba) -> Position {
        self.disk.clock().position(self.disk.geometry(), pba)
    }

    /// The time until the media would begin to serve a request at `pba` or, if the drive serves it from its buffer, until the buffer can:
    /// at once, or when it has room.
    pub fn wait_for_media(&self, request: &Request, pba: Pba, position: &Position) -> Nanos {
        let (clock, now) = (self.disk.clock(), self.disk.now());
        let (write, sectors) = (request.op == Op::Write, u64::from(request.sectors));
        let buffered = clock.wait_for_buffer(self.disk.geometry(), now, write, pba, sectors);
        buffered.unwrap_or_else(|| clock.estimate_at(position, now))
    }

    /// The time to move the head there from where it is.
    #[inline]
    pub fn positioning(&self, position: &Position) -> Nanos {
        self.disk.clock().estimate_at(position, self.disk.now())
    }

    /// When the last destaging or cleaning ended.
    #[inline]
    pub fn cleaning_end(&self) -> Nanos {
        self.disk.tally().stretches.last_end
    }

    /// Starts counting anew, after warm-up.
    pub fn reset_counts(&mut self) {
        self.disk.reset_tally();
        self.layer.reset_stats();
        // Accesses before counting began are not recorded.
        if let Some(recorder) = self.recorder.take() {
            self.disk.record(Some(recorder));
        }
    }

    /// In check mode: live sectors that were damaged since the last call and still are.
    pub fn take_damages(&mut self) -> Vec<Damage> {
        let Some(stamps) = self.disk.stamps().filter(|stamps| stamps.has_damages()) else { return Vec::new() };
        let mut damages = stamps.take_damages();
        // Damage matters only where the layer would still read the LBA.
        damages.retain(|damage| self.layer.locate(damage.was.lba()) == damage.pba);
        damages
    }

    /// Checks the layer's internal state in full.
    pub fn check(&self) -> DiskResult {
        self.layer.check()
    }

    /// Fills a new drive as if every LBA had been written once, in order, with an empty cache. Takes no time.
    pub fn fill(&mut self) {
        let placement = self.layer.fill();
        self.disk.fill(placement);
    }

    /// Cuts the power and restores it: drive and layer lose what they keep in volatile memory only.
    pub fn power_cut(&mut self) {
        self.disk.power_cut();
        self.source = 0;
        self.layer.power_cut();
    }

    /// In check mode: reads the stamp of an LBA without charging time.
    pub fn look(&mut self) -> impl FnMut(Lba) -> Stamp {
        let (layer, mut stamp) = (&self.layer, self.disk.stamps().map(|stamps| stamps.nearby()));
        move |lba| match &mut stamp {
            Some(stamp) if layer.is_mapped(lba) => stamp(layer.locate(lba)),
            _ => Stamp::default(),
        }
    }

    /// Sectors read from the platters and written to them so far.
    pub fn physical_sectors(&self) -> (u64, u64) {
        let tally = self.disk.tally();
        let read = Cause::ALL.into_iter().map(|cause| tally.reads(cause).sectors).sum();
        (read, tally.written_sectors())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Power;
    use crate::drive::Drive;
    use crate::layer::{BASELINE, find};
    use crate::medium::{Medium, Stamps};

    #[test]
    fn requests_of_every_kind_are_counted_until_counting_begins_anew() {
        let drive = Drive::load("tiny").unwrap();
        let disk = Disk::new(&drive, Medium::NoData);
        let layer = find(BASELINE).and_then(|spec| (spec.build)(&drive, &spec.resolve(&[])?));
        let mut device = LayeredDisk::new(disk, layer.unwrap());
        for op in [Op::Read, Op::Write, Op::Discard, Op::Flush] {
            device.serve(&Request::new(op, Lba(0), 8), &mut Buf::NoData).unwrap();
        }
        assert_eq!(device.disk.requests(), 4);
        let write = Request::new(Op::Write, Lba(8), 8);
        device.serve_together(&[(&write, &Buf::NoData), (&write, &Buf::NoData)]).unwrap();
        assert_eq!(device.disk.requests(), 6);
        device.disk.cut_power(Power::new(vec![1], 1));
        device.serve(&write, &mut Buf::NoData).unwrap_err();
        assert_eq!(device.disk.requests(), 6);
        device.reset_counts();
        assert_eq!(device.disk.requests(), 0);
    }

    /// A log's first write goes to PBA 0, where a read of an unwritten LBA 0 would go.
    #[test]
    fn a_torn_write_is_absent_though_it_lies_where_an_unwritten_lba_is_read() {
        let drive = Drive::load("tiny").unwrap();
        let write = Request::new(Op::Write, Lba(0), 8);
        let stamps = || Buf::Stamps((0..8).map(|lba| Stamp::new(Lba(lba), 1).0).collect());
        let mut torn = 0;
        for seed in 0..8 {
            let disk = Disk::new(&drive, Medium::Stamps(Stamps::new()));
            let layer = find("log").and_then(|spec| (spec.build)(&drive, &spec.resolve(&[])?));
            let mut device = LayeredDisk::new(disk, layer.unwrap());
            device.disk.cut_power(Power::new(vec![1], seed));
            device.serve(&write, &mut stamps()).unwrap_err();
            torn += device.physical_sectors().1;
            device.power_cut();
            let mut look = device.look();
            assert_eq!([0, 3, 7].map(|lba| look(Lba(lba))), [Stamp::default(); 3]);
        }
        assert!(torn > 0);
    }
}
