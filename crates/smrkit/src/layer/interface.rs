//! The interface of a layer, and what every layer has in common.
//!
//! Layers that clean in idle time do it in stages ([`Need::Spare`]), after a delay and until a request comes; the caller keeps the time.
//! The default delay of 1.1 s is what owners of sold drives report; no paper gives one.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::drive::Drive;
use crate::error::{DiskResult, Error, Fault};
use crate::layer::stats::LayerStats;
use crate::medium::interference::Form;
use crate::medium::{Buf, Placement};
use crate::quantity::Bytes;
use crate::request::Request;
use crate::schema::Values as Parameters;
use crate::schema::{Key, Keyed, Refused, Switch, Time};
use crate::units::{Lba, Nanos, Pba, SECTOR_BYTES};
use crate::{keys, record};

/// The most memory for the tables of a layer (assumption). A layer that would need more is refused before it is built.
const TABLES_BYTES_MAX: u64 = 4 << 30;

/// Urgency of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Due before the next request.
    Must,
    /// Useful in idle time; see [`Layer::idle_delay`].
    Spare,
}

/// A translation layer. The disk is an argument, never a field, which keeps state and platters apart.
pub trait Layer: Send {
    /// Use of the platters' sectors; `host_sectors` bounds every LBA below.
    fn capacity(&self) -> Capacity;

    /// Reads `n` sectors from `lba` on into the first `n` sectors of `out`.
    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult;

    /// Writes the first `n` sectors of `data` at `lba`; returns when it completes.
    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult;

    /// The most queued writes that one call of [`Layer::write_together`] takes. 1 turns that off.
    fn takes_together(&self) -> usize {
        1
    }

    /// The most sectors that it writes as one. Writes with more sectors in total are written one by one.
    fn joint_sectors(&self) -> u64 {
        u64::MAX
    }

    /// Writes several queued writes, in this order; returns when all of them complete.
    fn write_together(&mut self, disk: &mut Disk, writes: &[QueuedWrite]) -> DiskResult {
        writes.iter().try_for_each(|one| self.write(disk, one.lba, one.sectors, one.data))
    }

    /// Tells the layer whether a flush waits for the next writes.
    fn set_flushing(&mut self, _is_flushing: bool) {}

    /// End of the band of `lba`, up to which a long run is best written; `None` if it makes no difference.
    fn band_end(&self, _lba: Lba) -> Option<Lba> {
        None
    }

    /// Drops `n` sectors from `lba` on: what they hold need not be kept.
    fn discard(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult;

    /// Makes all that was written durable.
    fn flush(&mut self, disk: &mut Disk) -> DiskResult {
        disk.flush()
    }

    /// Does one stage of cleaning that `need` allows; returns `false` if there was none.
    fn step(&mut self, _disk: &mut Disk, _need: Need) -> DiskResult<bool> {
        Ok(false)
    }

    /// Time without a command after which the layer cleans; `None` if it does not clean in idle time.
    fn idle_delay(&self) -> Option<Nanos> {
        None
    }

    /// Tells the layer which of several merged sources the next writes come from.
    fn set_source(&mut self, _source: u8) {}

    /// End of the conventionally recorded sectors at the outer edge, where writes damage no others.
    fn conventional_end(&self) -> Pba {
        Pba(0)
    }

    /// True if its platters are recorded in interlaced tracks, whatever the drive's law of shingling says.
    fn interlaces(&self) -> bool {
        false
    }

    /// Fills a new layer on an empty drive as if every LBA had been written once, in order, with an empty cache; returns where LBAs lie.
    /// Takes no longer on a large drive, because no map stores an entry for each LBA.
    fn fill(&mut self) -> Arc<dyn Placement>;

    /// True if all acknowledged writes survive a power cut, flushed or not.
    fn keeps_acknowledged(&self) -> bool {
        false
    }

    /// True if it rewrites data in place, holding it in memory only: a power cut then loses sectors that were flushed.
    fn rewrites_in_place(&self) -> bool {
        false
    }

    /// Commits so far. Each made all acknowledged writes durable, whether or not the host flushed.
    fn commits(&self) -> u64 {
        0
    }

    /// Flushed data that a power cut would lose, because only the map in volatile memory points to it.
    fn forgets(&self) -> Vec<Range<Lba>> {
        Vec::new()
    }

    /// Forgets what it keeps in volatile memory only, after a power cut that may have torn one of its writes.
    fn power_cut(&mut self) {}

    /// The whole state, as bytes for [`Layer::restore`] of a layer that is built alike. Without data that it holds in memory, as on a disk
    /// that holds none.
    fn state(&self) -> Vec<u8>;

    /// Restores the [`Layer::state`] of a layer that was built alike: from then on both behave the same. After an error this layer is
    /// unusable.
    fn restore(&mut self, saved: &[u8]) -> DiskResult;

    /// Place of `lba` or, if it was never written, where a read of it goes.
    fn locate(&self, lba: Lba) -> Pba;

    /// False if a read of `lba` finds zeros, whatever lies where [`Layer::locate`] says.
    fn is_mapped(&self, _lba: Lba) -> bool {
        true
    }

    /// Checks the layer's internal state in full: one valid place for each LBA, counts that agree, guards kept.
    fn check(&self) -> DiskResult;

    /// Memory of the maps, in bytes.
    fn map_bytes(&self) -> u64 {
        0
    }

    /// Gauges for the timeline.
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }

    /// Sectors that a host can write before the layer must clean; `None` if the layer has no log.
    fn room_before_cleaning(&self) -> Option<u64> {
        None
    }

    /// The layer's own counters, by the names on its page.
    fn stats(&self) -> LayerStats {
        LayerStats::default()
    }

    /// Bands (or the layer's equivalent, see `docs/reference/layers.md`) that were moved or rewritten.
    fn bands_moved(&self) -> u64 {
        0
    }

    /// Counts of cleaning by a file system on zones; `None` in other layers.
    fn garbage_collection(&self) -> Option<GarbageCollection> {
        None
    }

    /// Starts counting anew, after warm-up.
    fn reset_stats(&mut self) {}

    /// The zones, if the host sees them and has to write them in order.
    fn zones(&self) -> Option<&dyn HostZones> {
        None
    }

    /// The same, mutable.
    fn zones_mut(&mut self) -> Option<&mut dyn HostZones> {
        None
    }
}

/// A command that changes the state of a zone and carries no data. A zone is reset by a discard of all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneAction {
    /// Keeps the zone open until it is closed, full or reset.
    Open,
    /// The zone needs to be open no longer.
    Close,
    /// The zone takes no more writes.
    Finish,
}

/// Condition of a zone, by the names of ZBC: not write pointer, empty, implicitly open, explicitly open, closed, full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneCondition {
    /// Written anywhere.
    Conventional,
    /// Nothing was written since it was reset.
    Empty,
    /// Open since it was written.
    OpenedByWrite,
    /// Open by a command.
    OpenedByCommand,
    /// Begun and not open.
    Closed,
    /// Written to its end, or finished.
    Full,
}

/// Description of a zone as its disk reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// Its condition.
    pub condition: ZoneCondition,
    /// Sectors from its first one to the write pointer.
    pub pointer: u64,
}

/// Number and size of a disk's zones, and how many may be in use. 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneLimits {
    /// Sectors of a zone.
    pub zone_sectors: u64,
    /// Number of zones.
    pub zones: u64,
    /// Number of them, from the first on, that are conventional.
    pub conventional: u64,
    /// Zones that may be open.
    pub max_open: u64,
    /// Zones that may be partly written.
    pub max_active: u64,
}

/// Zones as the host of a served drive sees them.
pub trait HostZones {
    /// Their number and limits.
    fn limits(&self) -> ZoneLimits;

    /// State of a zone.
    fn report(&self, zone: u64) -> ZoneReport;

    /// Checks whether the disk would carry out a request now. Errors: the rule that it breaks.
    fn check_request(&self, request: &Request) -> Result<(), String>;

    /// Carries out a command. Errors: the rule that it breaks.
    fn act(&mut self, action: ZoneAction, zone: u64) -> Result<(), String>;
}

/// One of several writes that were queued together.
#[derive(Clone, Copy)]
pub struct QueuedWrite<'a> {
    /// First LBA of the target.
    pub lba: Lba,
    /// Number of sectors.
    pub sectors: u64,
    /// Contents of the write, in the buffer's first sectors.
    pub data: &'a Buf,
}

impl QueuedWrite<'_> {
    /// The data of several writes, one after another, and how many sectors it has.
    pub fn joined(disk: &Disk, writes: &[QueuedWrite]) -> (Buf, u64) {
        let n = writes.iter().map(|one| one.sectors).sum();
        let mut data = disk.buf(n);
        let mut at = 0;
        for one in writes {
            data.put(at, one.data, 0, one.sectors);
            at += one.sectors;
        }
        (data, n)
    }
}

record! {
    /// Use of the platters' sectors.
    #[derive(Copy, Eq)]
    pub struct Capacity: Add {
        /// All sectors on the platters.
        pub raw_sectors: u64,
        /// Sectors offered to the host.
        pub host_sectors: u64,
        /// Sectors of the persistent cache.
        pub cache_sectors: u64,
        /// Sectors lost to guards, and to rounding at the ends of regions and recording zones.
        pub guard_sectors: u64,
        /// Sectors of spare and scratch space.
        pub spare_sectors: u64,
    }
}

impl Capacity {
    /// The use of a drive's sectors. Those for none of these uses are lost to guards and rounding.
    pub(super) fn new(drive: &Drive, host_sectors: u64, cache_sectors: u64, spare_sectors: u64) -> Capacity {
        let raw_sectors = drive.geometry.sectors;
        let guard_sectors = raw_sectors - host_sectors - cache_sectors - spare_sectors;
        Capacity { raw_sectors, host_sectors, cache_sectors, guard_sectors, spare_sectors }
    }
}

record! {
    /// Cleaning as a file system on zones counts it.
    #[derive(Copy, Eq)]
    pub struct GarbageCollection: Add {
        /// Live sectors that were moved.
        pub moved_sectors: u64,
        /// Writes (parts of up to 512 KiB) that found no zone and waited for cleaning.
        pub writers_slept: u64,
        /// Writes that got the error ENOSPC (no space left) although there was garbage, because it was in zones that
        /// the host does not clean. They were written after the zone with the most garbage had been cleaned.
        pub enospc: u64,
        /// Garbage at the time of each of these writes, added up, in sectors.
        pub enospc_garbage_sectors: u64,
    }
}

/// Gauges of a layer's state over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Share of the persistent cache in use, 0 to 1; `None` without one.
    pub cache_fill: Option<f64>,
    /// Others.
    pub others: Vec<Gauge>,
}

/// One value that a layer shows of its state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// Its name in the timeline.
    pub name: &'static str,
    /// Unit: several drives together show the mean of shares, and the sum of all else.
    pub unit: GaugeUnit,
    /// Its value.
    pub value: f64,
}

/// Unit of a gauge's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GaugeUnit {
    /// A share, from 0 to 1.
    Share,
    /// A number of things.
    Count,
    /// A size.
    Bytes,
}

impl Gauge {
    /// A share, from 0 to 1.
    pub fn share(name: &'static str, value: f64) -> Gauge {
        Gauge { name, unit: GaugeUnit::Share, value }
    }

    /// A number of things.
    pub fn count(name: &'static str, value: f64) -> Gauge {
        Gauge { name, unit: GaugeUnit::Count, value }
    }

    /// A size in bytes.
    pub fn bytes(name: &'static str, bytes: u64) -> Gauge {
        Gauge { name, unit: GaugeUnit::Bytes, value: bytes as f64 }
    }
}

/// The parameters of a layer as fields, and the layer that they make of a drive.
pub trait LayerKeys: Keyed + 'static {
    /// Use of the drive's sectors, as [`Layer::capacity`] of the built layer returns it. Layers whose tables take long to build compute it
    /// without them.
    fn capacity(&self, drive: &Drive) -> Result<Capacity, Error> {
        Ok(self.build(drive)?.capacity())
    }

    /// The parameters with each `auto` replaced by its value, if it has one.
    fn settled(self, _drive: &Drive) -> Self {
        self
    }

    /// Builds the layer on an empty drive.
    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error>;
}

/// A property of a drive under a layer with these parameters.
type OnDrive<T> = dyn Fn(&Drive, &Parameters) -> Result<T, Error> + Send + Sync;

/// A scheme: its name, its parameters, and how it is built.
pub struct LayerSpec {
    /// The name on the command line and in results.
    pub name: &'static str,
    /// Sentence on the layer.
    pub summary: &'static str,
    /// Paper that published it.
    pub paper: &'static str,
    /// Its parameters.
    pub keys: &'static (dyn Fn() -> Vec<Key> + Send + Sync),
    /// The forms of interference that it copes with.
    pub copes_with: &'static [Form],
    /// True if it defers rewriting without a persistent cache: a log, or zones that buffer writes.
    pub puts_rewriting_off: bool,
    /// Use of a drive's sectors under it; must equal [`Layer::capacity`].
    pub capacity: &'static OnDrive<Capacity>,
    /// Its parameters on a drive, each `auto` replaced by the value that it stands for there.
    pub settled: &'static OnDrive<Parameters>,
    /// Builds it on an empty drive.
    pub build: &'static OnDrive<Box<dyn Layer>>,
    /// Identifies the version of a registered layer's code, by which results are kept. Layers of this crate go by the crate's version.
    pub code: Option<&'static str>,
}

impl LayerSpec {
    /// A layer whose parameters are `K`.
    pub const fn new<K: LayerKeys>(
        name: &'static str,
        summary: &'static str,
        paper: &'static str,
        copes_with: &'static [Form],
    ) -> LayerSpec {
        LayerSpec {
            name,
            summary,
            paper,
            keys: &K::keys,
            copes_with,
            puts_rewriting_off: false,
            capacity: &|drive, parameters| K::read(parameters)?.capacity(drive),
            settled: &|drive, parameters| {
                let mut settled = parameters.clone();
                K::read(parameters)?.settled(drive).write(&mut settled);
                Ok(settled)
            },
            build: &|drive, parameters| K::read(parameters)?.build(drive),
            code: None,
        }
    }

    /// The same layer, marked as deferring rewriting without a persistent cache.
    pub const fn putting_rewriting_off(self) -> LayerSpec {
        LayerSpec { puts_rewriting_off: true, ..self }
    }

    /// A layer without parameters, from closures: one returns the use of a drive's sectors, one builds the layer on an empty drive. Names and
    /// closures are leaked, because a layer lives as long as the process.
    pub fn from_closures(
        name: &str,
        summary: &str,
        capacity: impl Fn(&Drive) -> Result<Capacity, Error> + Send + Sync + 'static,
        build: impl Fn(&Drive) -> Result<Box<dyn Layer>, Error> + Send + Sync + 'static,
    ) -> LayerSpec {
        LayerSpec {
            name: String::from(name).leak(),
            summary: String::from(summary).leak(),
            paper: "none",
            keys: &Vec::new,
            copes_with: &[],
            puts_rewriting_off: false,
            capacity: Box::leak(Box::new(move |drive: &Drive, _: &Parameters| capacity(drive))),
            settled: &|_, parameters| Ok(parameters.clone()),
            build: Box::leak(Box::new(move |drive: &Drive, _: &Parameters| build(drive))),
            code: None,
        }
    }

    /// Its parameters on a drive, overridden by `set`. If the drive is sold with this layer, they are those of the drive file. A layer that
    /// works on the zones of a host-managed drive takes the parameters that both have, such as the length of a zone.
    pub fn resolve_on(&self, drive: &Drive, set: &[(String, String)]) -> Result<Parameters, Error> {
        let keys = (self.keys)();
        let has_key = |key: &str| keys.iter().any(|known| known.name == key);
        let mut parameters: Vec<(String, String)> = Vec::new();
        if let Some(sold) = &drive.translation {
            if sold.layer == self.name {
                parameters.extend(sold.parameters.iter().cloned());
            } else if self.is_on_zones() && has_zones(&sold.layer) {
                parameters.extend(sold.parameters.iter().filter(|(key, _)| has_key(key)).cloned());
            }
        }
        parameters.extend_from_slice(set);
        self.resolve(&parameters)
    }

    /// True if it needs the zones that a host-managed or host-aware drive shows its host.
    pub fn is_on_zones(&self) -> bool {
        [HOST_MANAGED_DISK, "dm-zoned", "zone-log"].contains(&self.name)
    }

    /// Refuses a layer that the drive can't have, because it is sold as another kind of disk.
    pub fn check_on(&self, drive: &Drive) -> Result<(), Error> {
        match &drive.translation {
            Some(sold) if self.is_on_zones() && !has_zones(&sold.layer) => {
                let kind = if sold.layer == BASELINE { "a conventional disk" } else { "drive-managed" };
                Err(Error::Impossible(format!(
                    "{} is {kind} and shows its host no zones, which {} needs: take a host-managed drive, such as hc620, or \
                     another layer",
                    drive.name, self.name
                )))
            }
            _ => Ok(()),
        }
    }

    /// A sentence for drives that are not sold with such a layer, but whose platters can be simulated under it.
    pub fn note_if_not_sold(&self, drive: &Drive) -> Option<String> {
        let sold = &drive.translation.as_ref()?.layer;
        let kind = match sold.as_str() {
            BASELINE => "a conventional disk",
            HOST_MANAGED_DISK if !self.is_on_zones() => "host-managed",
            _ => return None,
        };
        (self.name != BASELINE).then(|| {
            let (drive, own) = (&drive.name, self.name);
            format!("{drive} is {kind}, and is sold with no such layer as {own}: its platters are simulated as if they were shingled for it")
        })
    }

    /// The layer with a mark that identifies its code, so that its results can be kept.
    pub fn with_code(self, code: &str) -> LayerSpec {
        LayerSpec { code: Some(String::from(code).leak()), ..self }
    }

    /// The defaults of its parameters, overridden by `set` (key, value as text).
    ///
    /// An unknown key or an impossible value is a usage error that names the layer and what is expected.
    pub fn resolve(&self, set: &[(String, String)]) -> Result<Parameters, Error> {
        let mut parameters = Parameters::new((self.keys)());
        set.iter().try_for_each(|(key, text)| self.set(&mut parameters, key, text))?;
        Ok(parameters)
    }

    /// A copy of `parameters` with another value of `key`.
    pub fn with(&self, parameters: &Parameters, key: &str, text: &str) -> Result<Parameters, Error> {
        let mut new = parameters.clone();
        self.set(&mut new, key, text)?;
        Ok(new)
    }

    fn set(&self, parameters: &mut Parameters, key: &str, text: &str) -> Result<(), Error> {
        parameters.set(key, text).map_err(|refused| {
            Error::Usage(match refused {
                Refused::Key(names) => format!("layer {} has no parameter `{key}`: {names}", self.name),
                other => format!("{}.{key}={text}: {other}", self.name),
            })
        })
    }
}

/// True if a drive sold with this layer shows its host zones.
fn has_zones(layer: &str) -> bool {
    [HOST_MANAGED_DISK, HOST_AWARE].contains(&layer)
}

/// The conventional disk, baseline of every comparison.
pub const BASELINE: &str = "in-place";

/// The drive-managed disk with a persistent cache.
pub const DRIVE_MANAGED: &str = "drive-managed";

/// The host-managed disk, which translates nothing.
pub const HOST_MANAGED_DISK: &str = "zoned";

/// The disk with zones that takes any write.
pub const HOST_AWARE: &str = "host-aware";

/// The name that means the layer of the drive file.
pub const AS_SOLD: &str = "as-sold";

/// Sectors of a record of `words` words of 64 bits on the platters, after a header of three: kind, length and checksum (assumption).
pub(super) const fn record_sectors(words: u64) -> u64 {
    (words + 3).div_ceil(SECTOR_BYTES / 8)
}

/// The fault of a layer whose state is inconsistent, which only a bug can cause.
pub(super) fn inconsistent<T>(message: impl Into<String>) -> DiskResult<T> {
    Err(Box::new(Fault::Inconsistent(message.into())))
}

/// Returns the fault of an inconsistent state with this message, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return $crate::layer::interface::inconsistent(format!($($message)+));
        }
    };
}

pub(super) use ensure;

/// Refuses tables of more than [`TABLES_BYTES_MAX`] bytes for `things`. `remedy` names a parameter to change.
pub(super) fn check_tables(things: &str, bytes: u64, remedy: &str) -> Result<(), Error> {
    if bytes <= TABLES_BYTES_MAX {
        return Ok(());
    }
    let [taken, most] = [bytes, TABLES_BYTES_MAX].map(Bytes);
    Err(Error::Impossible(format!(
        "{things} take {taken} of memory, and tables may take {most}: {remedy}take a smaller drive"
    )))
}

keys! {
    /// When idle time is used.
    #[derive(Clone)]
    pub(in crate::layer) struct DelayKeys {
        /// Time without a command before `idle_clean` begins.
        idle_delay: Nanos = Time(0), "1.1s";
    }
}

keys! {
    /// Use of idle time, in layers whose papers leave it open.
    #[derive(Clone)]
    pub(in crate::layer) struct IdleKeys {
        /// Whether the layer also cleans in idle time.
        idle_clean: bool = Switch, "off";
        /// When.
        delay: DelayKeys;
    }
}

impl DelayKeys {
    /// The delay; `None` if the layer does not clean in idle time.
    pub fn when(&self, used: bool) -> Option<Nanos> {
        used.then_some(self.idle_delay)
    }
}

impl IdleKeys {
    /// The delay; `None` if the layer does not clean in idle time.
    pub fn delay(&self) -> Option<Nanos> {
        self.delay.when(self.idle_clean)
    }
}
