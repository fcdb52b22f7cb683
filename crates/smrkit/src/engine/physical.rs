//! What drives show after a run, alone and summed over those of an array, and what the host saw.

use std::collections::BTreeMap;
use std::ops::Add;

use crate::device::LayeredDisk;
use crate::disk::Disk;
use crate::layer::{Capacity, Gauges};
use crate::stats::counts::HostCounts;
use crate::stats::outcome::{ByCause, Cleaning, Commands, Movement, Outcome, Surface, Verdict};
use crate::stats::sums::{HostRates, add_cleaning, add_movement, add_stats, write_amplification, write_overloading};
use crate::tally::{Cause, Counter, Tally};

/// What stands where a sum has no one name.
const MIXED: &str = "mixed";

/// What a drive shows after a run: the accesses to its platters, and its layer's books.
pub(super) fn physical(device: &LayeredDisk) -> Outcome {
    let (tally, layer) = (device.disk.tally(), device.layer.as_ref());
    let read = |of: fn(&Counter) -> u64| by_cause(|cause| of(tally.reads(cause))).total;
    let write = |of: fn(&Counter) -> u64| by_cause(|cause| of(tally.writes(cause))).total;
    Outcome {
        physical_read_sectors: by_cause(|cause| tally.reads(cause).sectors),
        physical_written_sectors: by_cause(|cause| tally.writes(cause).sectors),
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
        map_bytes: layer.map_bytes(),
        cleaning: cleaning(tally),
        capacity: layer.capacity(),
        surface: surface(tally),
        movement: movement(&device.disk, layer.bands_moved()),
        layer_stats: layer.stats(),
        ..Outcome::default()
    }
}

/// Completes what drives show by what the host saw; `gauges` are those of the end.
pub(super) fn with_host(physical: Outcome, counts: HostCounts, gauges: &Gauges) -> Outcome {
    let latency_ns = counts.latencies();
    let host = |host: Commands, drives: Commands| Commands {
        physical_read: drives.physical_read,
        physical_write: drives.physical_write,
        ..host
    };
    let adjusted = host(counts.adjusted, physical.adjusted);
    let outcome = Outcome {
        requests: counts.requests,
        host_read_sectors: counts.read_sectors,
        host_written_sectors: counts.written_sectors,
        commands: host(counts.commands, physical.commands),
        adjusted,
        write_overloading: write_overloading(&adjusted),
        write_amplification: write_amplification(&physical.physical_written_sectors, counts.written_sectors),
        latency_ns,
        wait_ns: counts.wait_ns,
        service_ns: counts.service_ns,
        by_source: counts.by_source(),
        elapsed_ns: counts.elapsed().0,
        arrivals_ns: counts.last_arrival.since(counts.begin).0,
        verdict: verdict(&counts, latency_ns.all.max),
        ..physical
    };
    let (latency, timeline) = counts.finish(gauges);
    Outcome { latency_histogram: latency.histograms(), latency_buckets: latency.buckets(), timeline, ..outcome }
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

/// The part of the plain answer that the run alone tells.
fn verdict(counts: &HostCounts, longest_stall_ns: u64) -> Verdict {
    let (full, before_bytes) = counts.cache_full.unwrap_or((counts.end, counts.host_bytes()));
    let before = full.since(counts.begin);
    let rates = HostRates {
        full_at_s: counts.cache_full.map(|_| before.as_secs()),
        before_bytes,
        before,
        sectors: counts.read_sectors + counts.written_sectors,
        elapsed: counts.elapsed(),
    };
    Verdict {
        longest_stall_ns,
        stalls_over_7s: counts.stalls_over_7s,
        stalls_over_30s: counts.stalls_over_30s,
        ..rates.verdict()
    }
}

/// What all drives of an array show together. Times are sums over the drives.
pub(super) fn sum(members: &[Outcome]) -> Outcome {
    let common = |of: fn(&Outcome) -> &String| match members.first() {
        Some(first) if members.iter().all(|member| of(member) == of(first)) => of(first).clone(),
        _ => MIXED.into(),
    };
    let alike = members.windows(2).all(|pair| pair[0].parameters == pair[1].parameters);
    let same_file = members.windows(2).all(|pair| pair[0].drive_file == pair[1].drive_file);
    let causes = |of: fn(&Outcome) -> ByCause| members.iter().map(of).fold(ByCause::default(), Add::add);
    let commands = |of: fn(&Outcome) -> Commands| Commands {
        physical_read: members.iter().map(|member| of(member).physical_read).sum(),
        physical_write: members.iter().map(|member| of(member).physical_write).sum(),
        ..Commands::default()
    };
    Outcome {
        layer: common(|member| &member.layer),
        drive: common(|member| &member.drive),
        drive_file: members.first().filter(|_| same_file).and_then(|first| first.drive_file.clone()),
        parameters: members.first().filter(|_| alike).map_or(BTreeMap::new(), |first| first.parameters.clone()),
        asked: members.first().filter(|_| alike).map_or(BTreeMap::new(), |first| first.asked.clone()),
        physical_read_sectors: causes(|member| member.physical_read_sectors),
        physical_written_sectors: causes(|member| member.physical_written_sectors),
        busy_by_cause_ns: causes(|member| member.busy_by_cause_ns),
        commands: commands(|member| member.commands),
        adjusted: commands(|member| member.adjusted),
        busy_ns: members.iter().map(|member| member.busy_ns).sum(),
        map_bytes: members.iter().map(|member| member.map_bytes).sum(),
        cleaning: members.iter().map(|member| member.cleaning).fold(Cleaning::default(), add_cleaning),
        capacity: members.iter().map(|member| member.capacity).fold(Capacity::default(), add_capacity),
        layer_stats: add_stats(members.iter().map(|member| &member.layer_stats)),
        movement: members.iter().filter_map(|member| member.movement).reduce(add_movement),
        ..Outcome::default()
    }
}

fn add_capacity(a: Capacity, b: Capacity) -> Capacity {
    Capacity {
        raw_sectors: a.raw_sectors + b.raw_sectors,
        host_sectors: a.host_sectors + b.host_sectors,
        cache_sectors: a.cache_sectors + b.cache_sectors,
        guard_sectors: a.guard_sectors + b.guard_sectors,
        spare_sectors: a.spare_sectors + b.spare_sectors,
    }
}
