//! Arrays that are rebuilt: mirrors of parts of a 5 TB drive, small arrays of any layer, and runs of them.
#![allow(dead_code)]

use smrkit::device::level::Level;
use smrkit::drive::{DRIVES, Drive};
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::system::{ArrayRun, DriveRun};
use smrkit::engine::{NoObserver, Observer};
use smrkit::error::Error;
use smrkit::experiment::demand::Table;
use smrkit::layer;
use smrkit::medium::interference::Interference;
use smrkit::settings::Settings;
use smrkit::stats::outcome::Outcome;
use smrkit::stats::rebuild::Rebuild;

use super::planned::{self, Set, plan, serve};

/// A part of the 5 TB drive of the Vguard paper; with a write cache and read-ahead of its own, or without.
pub fn drive(part: u64, buffers: &str) -> Drive {
    let text = DRIVES.iter().find(|(name, _)| *name == "st5000as0011").unwrap().1;
    let text = text.replace("[mechanical]", &format!("[mechanical]\n{buffers}"));
    let drive = Drive::parse("drives/st5000as0011.toml".as_ref(), &text).unwrap();
    let sectors = drive.geometry.sectors / part;
    drive.with_capacity(sectors).unwrap()
}

pub const READ_AHEAD: &str = "read_ahead_bytes = { value = 33554432, source = \"assumption: made for tests\" }\n";
pub const WRITE_CACHE: &str = "write_cache_bytes = { value = 67108864, source = \"assumption: made for tests\" }\n";

/// A drive-managed one is the paper's: what is assumed beyond is set by itself.
pub fn member(drive: Drive, layer: &str, set: Set) -> DriveRun {
    let paper: Set = if layer == "drive-managed" { &[("variant", "vguard-2017")] } else { &[] };
    let layer = layer::find(layer).unwrap();
    let set = [paper, set].concat().into_iter().map(|(key, value)| (key.to_string(), value.to_string()));
    let parameters = layer.resolve_on(&drive, &set.collect::<Vec<_>>()).unwrap();
    DriveRun { drive, layer, parameters }
}

pub fn array(level: Level, members: Vec<DriveRun>) -> ArrayRun {
    ArrayRun::new(level, members)
}

/// A mirror of a conventional drive that reads ahead and one that is to be rebuilt.
pub fn mirror(part: u64, new: DriveRun) -> ArrayRun {
    array(Level::Raid1, vec![member(drive(part, READ_AHEAD), "in-place", &[]), new])
}

pub fn run(array: &ArrayRun, settings: Settings, rebuild: &str, workload: Option<&str>) -> Result<Outcome, Error> {
    run_before(array, settings, rebuild, workload, &mut NoObserver)
}

pub fn run_before(
    array: &ArrayRun,
    settings: Settings,
    rebuild: &str,
    workload: Option<&str>,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    let run = plan(array.clone(), settings)?.rebuilding(RebuildSpec::parse(rebuild)?);
    match workload {
        Some(text) => serve(&run, &planned::workload(text), observer),
        None => serve(&run, &Table([].into()), observer),
    }
}

pub fn rebuilt(array: &ArrayRun, rebuild: &str, workload: Option<&str>) -> Rebuild {
    run(array, Settings::default(), rebuild, workload).unwrap().rebuild.expect("it came to its end")
}

pub const LEVELS: [Level; 6] = [Level::Raid1, Level::Raid10, Level::Raid4, Level::Raid5, Level::Raid6, Level::Raidz3];

/// Members enough for each of the levels.
pub const MEMBERS: usize = 5;

pub fn small(layer: &str) -> DriveRun {
    let sets: &[(&str, &str)] = match layer {
        "drive-managed" => &[("bypass", "run"), ("bypass_bytes", "32Ki"), ("skip_unwritten", "on")],
        "set-assoc" => &[("region_sectors", "200"), ("cache_percent", "10")],
        "s-block" => &[("sblock_sectors", "40"), ("spare_percent", "10"), ("cache_percent", "20")],
        _ => &[],
    };
    let text = include_str!("../../drives/tiny.toml").to_string();
    // A write cache takes part where the layer has most to do.
    let cache =
        if layer == "drive-managed" { "write_cache_bytes = { value = 65536, source = \"test\" }\n" } else { "" };
    let tiny = Drive::parse("tiny.toml".as_ref(), &(text + cache)).unwrap().with_capacity(60_000).unwrap();
    let tiny = if layer == "in-place" { conventional(tiny) } else { tiny };
    member(tiny, layer, sets)
}

pub fn conventional(drive: Drive) -> Drive {
    drive.with_interference(Interference::None).unwrap()
}
