//! The rebuilds of the study: a mirror of two disks, one of which is new, of one of several kinds, and is filled in one of
//! several ways. The drives are parts of 5 TB; hours are scaled to the whole.

use std::fmt;
use std::sync::Arc;

use smrkit::device::level::Level;
use smrkit::device::spec::{ArraySpec, DriveSpec, MemberSpec};
use smrkit::drive::{DRIVES, Drive};
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, GeneratedDemand, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::system::System;
use smrkit::layer::BASELINE;
use smrkit::quantity::parse_bytes;
use smrkit::settings::{Arrival, Prefill, Settings};
use smrkit::stats::outcome::Rebuild;
use smrkit::workload::Workload;

use super::super::super::small_drive::LIKE;
use crate::Planned;

/// Bytes that the survivor reads ahead, so that its rotations don't decide (assumption).
const READ_AHEAD_BYTES: u64 = 32 << 20;
/// The write cache of a drive, the drive file's or the layer's own (assumption).
const WRITE_CACHE: &str = "64Mi";
/// Size of the runs in which records come (assumption, after public threads).
const RUN: &str = "3MB";
/// A random write and a random read a second, for as long as the rebuild takes.
const FOREGROUND: &str = "random-write:size=4Ki,rate=1,count=1G + random-read:size=4Ki,rate=1,count=1G";
/// Size that hours are scaled to.
pub const SCALED_TO_BYTES: f64 = 5e12;

/// Kind of the new member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// As results call it.
    pub name: &'static str,
    layer: &'static str,
    set: &'static [(&'static str, &'static str)],
    /// True if the drive file has a write cache.
    buffered: bool,
}

const fn kind(name: &'static str, layer: &'static str, set: &'static [(&'static str, &'static str)]) -> NewMember {
    NewMember { name, layer, set, buffered: false }
}

/// Variant by the papers on such disks; each assumption beyond is set by itself.
const KNOWN: (&str, &str) = ("variant", "vguard-2017");
const CACHED: (&str, &str) = ("write_cache_bytes", WRITE_CACHE);
/// From which length on a write bypasses the persistent cache: a run's, or a command's (assumption).
const BYPASSING: (&str, &str) = ("bypass_bytes", "512Ki");
const SKIP: (&str, &str) = ("skip_unwritten", "on");

pub const CONVENTIONAL: NewMember = kind("conventional", "in-place", &[]);
pub const CONVENTIONAL_CACHED: NewMember =
    NewMember { buffered: true, ..kind("conventional, write cache", "in-place", &[]) };
pub const MANAGED: NewMember = kind("drive-managed", "drive-managed", &[KNOWN]);
pub const MANAGED_CACHED: NewMember = kind("drive-managed, write cache", "drive-managed", &[KNOWN, CACHED]);
pub const BY_RUN: NewMember = kind(
    "drive-managed, write cache, bypass by run",
    "drive-managed",
    &[KNOWN, CACHED, ("bypass", "run"), BYPASSING, SKIP],
);
pub const BY_COMMAND: NewMember = kind(
    "drive-managed, write cache, bypass by command",
    "drive-managed",
    &[KNOWN, CACHED, ("bypass", "command"), BYPASSING, SKIP],
);
pub const VGUARD: NewMember = kind("vguard", "vguard", &[]);
pub const VGUARD_CACHED: NewMember = NewMember { buffered: true, ..kind("vguard, write cache", "vguard", &[]) };
/// A member that cleans in idle time, of which a rebuild leaves none.
pub const IDLE_CLEAN: NewMember =
    kind("drive-managed, write cache, cleans when idle", "drive-managed", &[KNOWN, CACHED, ("idle_clean", "on")]);

impl NewMember {
    /// All that are rebuilt in every way.
    pub const ALL: [NewMember; 8] =
        [CONVENTIONAL, CONVENTIONAL_CACHED, MANAGED, MANAGED_CACHED, BY_RUN, BY_COMMAND, VGUARD, VGUARD_CACHED];

    /// True if writes complete before they are on the platters.
    pub fn caches(self) -> bool {
        self.buffered || self.set.contains(&CACHED)
    }

    /// True if it cleans bands.
    pub fn cleans(self) -> bool {
        self.layer != BASELINE
    }

    fn drive(self, part: u64) -> Result<Drive, Error> {
        let write_cache_bytes = parse_bytes(WRITE_CACHE)?;
        drive(part, self.buffered.then_some(("write_cache_bytes", write_cache_bytes)))
    }
}

/// In which order the new member is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As mdraid does.
    Ascending,
    /// Record by record, anywhere.
    Singly,
    /// Record by record, with neighbours in runs, as ZFS does in a pool that was written in large files.
    Runs,
}

impl Order {
    /// All of them.
    pub const ALL: [Order; 3] = [Order::Ascending, Order::Singly, Order::Runs];

    /// As results call it.
    pub fn name(self) -> &'static str {
        match self {
            Order::Ascending => "in order",
            Order::Singly => "scattered singly",
            Order::Runs => "in runs of 3 MB",
        }
    }

    /// The piece whose windows are compared, in KiB.
    pub fn main_kib(self) -> u64 {
        match self {
            Order::Ascending => 512,
            Order::Singly => 128,
            Order::Runs => 44,
        }
    }
}

/// Way to fill the new member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    pub order: Order,
    /// The size of a piece.
    pub piece_kib: u64,
    /// Pieces under way at once.
    pub window: u32,
}

impl Way {
    /// Of this order.
    pub const fn new(order: Order, piece_kib: u64, window: u32) -> Way {
        Way { order, piece_kib, window }
    }

    fn spec(self) -> String {
        let Way { order, piece_kib, window } = self;
        match order {
            Order::Ascending => format!("disk=1,write={piece_kib}KiB,window={window}"),
            Order::Singly => format!("disk=1,order=scattered,record={piece_kib}KiB,window={window}"),
            Order::Runs => format!("disk=1,order=scattered,record={piece_kib}KiB,run={RUN},window={window}"),
        }
    }
}

/// Windows whose longest commands are compared.
pub const WINDOWS: [u32; 3] = [1, 10, 32];
/// The window at which sizes are compared.
pub const MANY: u32 = 32;

/// All ways: every window with the main sizes; the other sizes with many pieces under way.
pub fn ways() -> Vec<Way> {
    let windows = |order: Order, kib| WINDOWS.map(|window| Way::new(order, kib, window));
    let sizes = |order, kib: &'static [u64]| kib.iter().map(move |&kib| Way::new(order, kib, MANY));
    let main = Order::ALL.into_iter().flat_map(|order| windows(order, order.main_kib()));
    main.chain(sizes(Order::Ascending, &[32, 128]))
        .chain(sizes(Order::Singly, &[512]))
        .chain(sizes(Order::Runs, &[128, 512]))
        .collect()
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} KiB, window {}", self.order.name(), self.piece_kib, self.window)
    }
}

/// A rebuild to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildPlan {
    /// Kind of the new member.
    pub kind: NewMember,
    /// Way it is filled.
    pub way: Way,
    /// True if a light foreground goes on meanwhile.
    pub beside: bool,
    /// The drives have a part of this number of 5 TB.
    pub part: u64,
    /// The seed of everything random.
    pub seed: u64,
}

impl Planned for RebuildPlan {
    fn planned(&self) -> Result<(PlannedRun, Arc<dyn Demand>), Error> {
        let set = self.kind.set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let members = [DriveSpec::of("survivor", BASELINE, Vec::new()), DriveSpec::of("new", self.kind.layer, set)]
            .map(MemberSpec::Drive);
        let rebuild = Some(RebuildSpec::parse(&self.way.spec())?);
        let system = System { rebuild, ..System::array(ArraySpec::new(Level::Raid1, members.into())) }
            .given("survivor", drive(self.part, Some(("read_ahead_bytes", READ_AHEAD_BYTES)))?)
            .given("new", self.kind.drive(self.part)?);
        let settings =
            Settings { arrival: Arrival::Trace, seed: self.seed, prefill: Prefill::None, ..Settings::default() };
        let demand: Arc<dyn Demand> = match self.beside {
            true => Arc::new(GeneratedDemand::from(Workload::parse(FOREGROUND)?)),
            false => Arc::new(Table([].into())),
        };
        Ok((system.run(settings)?, demand))
    }
}

/// Hours for 5 TB of what took so long for the bytes of `rebuild`.
pub fn hours(ns: u64, rebuild: &Rebuild) -> f64 {
    ns as f64 / 3.6e12 * SCALED_TO_BYTES / rebuild.bytes.max(1) as f64
}

/// A part of the 5 TB drive, with a buffer of its own where one is named, of this many bytes.
fn drive(part: u64, buffer: Option<(&str, u64)>) -> Result<Drive, Error> {
    let text = DRIVES.iter().find(|(name, _)| *name == LIKE).map_or("", |(_, text)| text);
    let line = |(key, bytes)| format!("{key} = {{ value = {bytes}, source = \"assumption\" }}\n");
    let text = text.replace("[mechanical]", &format!("[mechanical]\n{}", buffer.map(line).unwrap_or_default()));
    let drive = Drive::parse(format!("{LIKE}.toml").as_ref(), &text)?;
    let sectors = drive.geometry.sectors() / part;
    drive.with_capacity(sectors)
}
