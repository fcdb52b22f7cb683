//! Physical state of a drive after a run.

use crate::device::MemberDrive;
use crate::disk::Disk;
use crate::stats::builder::Physical;
use crate::stats::outcome::{ByCause, Cleaning, Commands, Movement, Surface};
use crate::tally::{Cause, Counter, Tally};

/// Physical state of a drive after a run: the accesses to its platters, and its layer's books.
pub(super) fn physical(drive: &MemberDrive) -> Physical {
    let device = drive.device();
    let (tally, layer) = (device.disk.tally(), device.layer.as_ref());
    let read = |of: fn(&Counter) -> u64| by_cause(|cause| of(tally.reads(cause))).total;
    let write = |of: fn(&Counter) -> u64| by_cause(|cause| of(tally.writes(cause))).total;
    Physical {
        read_sectors: by_cause(|cause| tally.reads(cause).sectors),
        written_sectors: by_cause(|cause| tally.writes(cause).sectors),
        busy_by_cause_ns: by_cause(|cause| tally.reads(cause).ns + tally.writes(cause).ns),
        commands: Commands {
            physical_read: read(|c| c.commands),
            physical_write: write(|c| c.commands),
            ..Commands::default()
        },
        adjusted: Commands {
            physical_read: read(|c| c.adjusted),
            physical_write: write(|c| c.adjusted),
            ..Commands::default()
        },
        busy_ns: tally.busy().0,
        buffer_write_ns: device.disk.clock().unwaited().map(|time| time.0),
        map_bytes: layer.map_bytes(),
        cleaning: cleaning(tally),
        capacity: layer.capacity(),
        surface: surface(tally),
        movement: movement(&device.disk, layer.bands_moved()),
        layer_stats: layer.stats(),
        command_times: drive.command_times(),
    }
}

fn by_cause(of: impl Fn(Cause) -> u64) -> ByCause {
    let [host, destage, clean, map] = Cause::ALL.map(of);
    ByCause { total: host + destage + clean + map, host, destage, clean, map }
}

fn cleaning(tally: &Tally) -> Cleaning {
    let counters = [Cause::Destage, Cause::Clean].map(|cause| [tally.reads(cause), tally.writes(cause)]);
    let sum = |of: fn(&Counter) -> u64| counters.iter().flatten().map(|counter| of(counter)).sum();
    let (count, longest) = tally.stretches();
    Cleaning { count, sectors: sum(|c| c.sectors), ns: sum(|c| c.ns), max_ns: longest.0 }
}

/// The head's movements, where they were counted.
fn movement(disk: &Disk, bands_moved: u64) -> Option<Movement> {
    let counted = disk.tally().movement()?;
    let (distance, count) = (by_cause(|cause| counted.distance(cause)), by_cause(|cause| counted.count(cause)));
    Some(Movement::new(distance, count, disk.geometry().tracks(), bands_moved))
}

fn surface(tally: &Tally) -> Surface {
    let (parts, part_sectors) = tally.surface();
    let of = |cause: Cause| parts.iter().map(|part| part[cause as usize]).collect();
    Surface {
        part_sectors,
        host: of(Cause::Host),
        destage: of(Cause::Destage),
        clean: of(Cause::Clean),
        map: of(Cause::Map),
    }
}
