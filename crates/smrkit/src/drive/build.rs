//! From a drive file to a drive: geometry, interference and clock, checked against each other.

use super::file::{
    ByBefore, DriveFile, DriveManagedTable, HostManagedTable, InterferenceTable, Lengths, MechanicalTable, ZoneTable,
};
use super::layout::{self, outer_cylinders};
use super::mechanical::nanos;
use super::setting::Sourced;
use super::{
    Buffer, Buffered, CommandOrder, Constant, DriveClock, DriveManagedCosts, HostManagedZones, Mechanical, Mechanics,
    Overheads, SeekPoints, SoldLayer,
};
use crate::error::Error;
use crate::geometry::{Edge, Geometry, Turn, ZoneShape, turn};
use crate::medium::interference::{Interference, Profile};
use crate::units::{Nanos, SECTOR_BYTES};

/// Surfaces a drive may have at most.
const SURFACES_MAX: u32 = 64;

/// The interference of a drive file. Errors: keys of more than one form, or half a form.
pub(super) fn interference(t: &InterferenceTable) -> Result<Interference, Error> {
    let physical = [t.inner_tracks.is_some(), t.outer_tracks.is_some()];
    let angles = t.cw_degrees.is_some() || t.ccw_degrees.is_some();
    let distances = [t.did_sectors.is_some(), t.dpid_sectors.is_some()];
    let forms = [t.blocks.is_some(), t.tracks.is_some(), distances.contains(&true), physical.contains(&true)];
    let usage = |m: &str| Err(Error::Impossible(format!("interference: {m}")));
    if forms.iter().filter(|f| **f).count() > 1 {
        return usage(
            "more than one form: give blocks, or tracks, or did_sectors and dpid_sectors, or inner_tracks and outer_tracks",
        );
    }
    if t.band_tracks.is_some() && t.tracks.is_none() {
        return usage("band_tracks goes with tracks: add tracks or leave it out");
    }
    if t.writes.is_some() && !forms[2] {
        return usage("writes goes with did_sectors and dpid_sectors: add them or leave it out");
    }
    if angles && !forms[3] {
        return usage(
            "cw_degrees and ccw_degrees go with inner_tracks and outer_tracks: add them or leave the angles out",
        );
    }
    match (t, distances, physical) {
        (InterferenceTable { blocks: Some(b), .. }, ..) => Ok(Interference::Blocks { reach: b.value }),
        (InterferenceTable { tracks: Some(w), .. }, ..) => {
            Ok(Interference::Tracks { width: w.value, band: t.band_tracks.as_ref().map(|b| b.value) })
        }
        (InterferenceTable { did_sectors: Some(did), dpid_sectors: Some(dpid), .. }, ..) => {
            let writes = t.writes.as_ref().map_or(1, |w| w.value);
            Ok(Interference::Distances { did: did.value, dpid: dpid.value, writes })
        }
        (InterferenceTable { inner_tracks: Some(inner), outer_tracks: Some(outer), .. }, ..) => {
            let (cw, ccw) = (degrees("cw_degrees", &t.cw_degrees)?, degrees("ccw_degrees", &t.ccw_degrees)?);
            Ok(Interference::Physical(Profile::new(inner.value, outer.value, cw, ccw)?))
        }
        (_, [false, false], [false, false]) => Ok(Interference::None),
        (_, _, [false, false]) => usage("did_sectors and dpid_sectors go together: give both"),
        _ => usage("inner_tracks and outer_tracks go together: give both, 1 for the side that is not affected"),
    }
}

fn degrees(key: &str, value: &Option<Sourced<f64>>) -> Result<Turn, Error> {
    match value.as_ref().map_or(0.0, |v| v.value) {
        d if (0.0..360.0).contains(&d) => Ok(turn(d / 360.0)),
        d => Err(Error::Impossible(format!("interference.{key} = {d}: give degrees from 0 to below 360"))),
    }
}

/// The geometry of a drive file: each recording zone on each surface, and each copy of it, in turn. A zone without `toward` shingles in the
/// direction of `head`.
pub(super) fn geometry(file: &DriveFile, head: Edge) -> Result<Geometry, Error> {
    let surfaces = file.geometry.surfaces.as_ref().map_or(1, |s| s.value);
    if surfaces == 0 || surfaces > SURFACES_MAX {
        return Err(Error::Impossible(format!("geometry.surfaces = {surfaces}: give 1 to {SURFACES_MAX}")));
    }
    let copies = file.copies();
    if layout::is_interleaved(file) {
        return layout::interleaved(file, surfaces.saturating_mul(copies), skew(file)?);
    }
    let zones = &file.geometry.zones.value;
    if let Some(i) = zones.iter().position(ZoneTable::is_over_all_surfaces) {
        return Err(Error::Impossible(format!(
            "recording zone {i} has skews, spares or slips of its own, as zones over all surfaces have: add order = \
             \"cylinders\" to [geometry], or leave them out"
        )));
    }
    let mut shapes = Vec::new();
    for (zone, (i, outer_cylinder)) in zones.iter().zip(outer_cylinders(zones).into_iter().enumerate()) {
        if outer_cylinder.saturating_add(zone.tracks) > u64::from(u32::MAX) {
            return Err(Error::Impossible(format!("recording zone {i} ends beyond cylinder 2^32: give fewer tracks")));
        }
        for surface in 0..surfaces {
            let track_sectors = match &zone.track_sectors {
                Lengths::All(n) => *n,
                Lengths::Each(all) if all.len() == surfaces as usize => all[surface as usize],
                Lengths::Each(all) => {
                    return Err(Error::Impossible(format!(
                        "recording zone {i} lists {} track lengths for {surfaces} surfaces: give one number, or one \
                         for each surface",
                        all.len()
                    )));
                }
            };
            let toward = zone.toward.unwrap_or(head);
            let shape = |surface| ZoneShape { surface, outer_cylinder, tracks: zone.tracks, track_sectors, toward };
            shapes.extend((0..copies).map(|copy| shape(surface * copies + copy)));
        }
    }
    let defects = file.geometry.slips.as_ref().map_or(Vec::new(), |s| s.value.clone());
    Geometry::new(&shapes, skew(file)?, defects)
}

fn mechanics(t: &MechanicalTable) -> Result<Mechanics, Error> {
    let seek = match (&t.seek, &t.seek_cylinders) {
        (Some(seek), None) => SeekPoints::Shares(seek.value.clone()),
        (None, Some(seek)) => SeekPoints::Cylinders(seek.value.clone()),
        _ => {
            return Err(Error::Impossible(
                "mechanical needs one seek curve: give seek (shares of the stroke) or seek_cylinders".into(),
            ));
        }
    };
    Ok(Mechanics {
        rpm: t.rpm.value,
        seek,
        switch_ms: t.switch_ms.value,
        write_settle_ms: t.write_settle_ms.as_ref().map_or(0.0, |s| s.value),
        overhead_ms: t.overhead_ms.value,
    })
}

/// The skew given, or the smallest that hides the switch to the next track.
fn skew(file: &DriveFile) -> Result<Turn, Error> {
    let Some(t) = &file.mechanical else { return Ok(0) };
    mechanics(t)?.skew(t.skew_ms.as_ref().map(|s| s.value))
}

/// The clock of a drive file. Errors: none or both of `constant` and `mechanical`, or values that make no sense.
pub(super) fn clock(file: &DriveFile, g: &Geometry) -> Result<DriveClock, Error> {
    match (&file.constant, &file.mechanical) {
        (Some(c), None) => Ok(DriveClock::Constant(Constant::new(c.command_ms.value, c.sector_us.value)?)),
        (None, Some(t)) => {
            let clock = Mechanical::new(g, &mechanics(t)?)?;
            let buffer = buffer(t, clock.overhead())?;
            buffer.check()?;
            Ok(if buffer.is_off() && !t.has_electronics() {
                DriveClock::Mechanical(clock)
            } else {
                DriveClock::Buffered(Box::new(Buffered::new(clock, buffer)))
            })
        }
        _ => {
            Err(Error::Impossible("a drive needs one clock: give either a table constant or a table mechanical".into()))
        }
    }
}

/// The buffer of a drive file; `overhead` is that of commands without one of their own kind.
fn buffer(t: &MechanicalTable, overhead: Nanos) -> Result<Buffer, Error> {
    let bytes = |key: &Option<Sourced<u64>>| key.as_ref().map(|s| s.value);
    let read_ahead_bytes = bytes(&t.read_ahead_bytes).unwrap_or(0);
    let bus = t.bus_bytes_per_s.as_ref().map_or(Buffer::BUS_BYTES_PER_S, |s| s.value);
    Ok(Buffer {
        write_cache_bytes: bytes(&t.write_cache_bytes).unwrap_or(0),
        read_ahead_bytes,
        read_ahead_to: t.read_ahead_to.as_ref().map_or_else(Default::default, |to| to.value),
        segment_bytes: bytes(&t.segment_bytes).unwrap_or(read_ahead_bytes.saturating_mul(2)),
        segments: t.segments.as_ref().map_or(1, |s| s.value),
        reads_passing: t.reads_passing.as_ref().is_some_and(|reads| reads.value),
        any_order: t.any_order.as_ref().is_some_and(|any| any.value),
        keeps_requested: t.keeps_requested.as_ref().is_some_and(|keeps| keeps.value),
        bus_bytes_per_s: [bus, t.write_bus_bytes_per_s.as_ref().map_or(bus, |s| s.value)],
        watermark: t.watermark.as_ref().map_or(0.0, |s| s.value),
        overheads: overheads(t, overhead)?,
    })
}

fn overheads(t: &MechanicalTable, overhead: Nanos) -> Result<Overheads, Error> {
    let of_kind = |key: &str, value: &Option<Sourced<ByBefore>>| {
        let ns = |ms| nanos(&format!("mechanical.{key}"), ms).map(Nanos);
        match value.as_ref().map(|s| s.value) {
            None => Ok::<_, Error>([overhead; 2]),
            Some(ByBefore::Any(ms)) => Ok([ns(ms)?; 2]),
            Some(ByBefore::Each(after_read, after_write)) => Ok([ns(after_read)?, ns(after_write)?]),
        }
    };
    let once = |key: &str, value: &Option<Sourced<f64>>| {
        nanos(&format!("mechanical.{key}"), value.as_ref().map_or(0.0, |s| s.value)).map(Nanos)
    };
    Ok(Overheads {
        read_miss: of_kind("read_miss_ms", &t.read_miss_ms)?,
        read_hit: of_kind("read_hit_ms", &t.read_hit_ms)?,
        write: of_kind("write_ms", &t.write_ms)?,
        media_write: of_kind("media_write_ms", &t.media_write_ms)?,
        read_reselect: once("read_reselect_ms", &t.read_reselect_ms)?,
        completion: [
            once("read_completion_ms", &t.read_completion_ms)?,
            once("write_completion_ms", &t.write_completion_ms)?,
        ],
    })
}

/// The drive's order of commands. Errors: values that make no sense.
pub(super) fn command_order(file: &DriveFile) -> Result<Option<CommandOrder>, Error> {
    let Some(t) = &file.mechanical else { return Ok(None) };
    let age = t.queue_age_ms.as_ref().map(|s| nanos("mechanical.queue_age_ms", s.value)).transpose()?;
    match (t.queued_commands.as_ref().map(|s| s.value), age) {
        (Some(commands @ 2..=65_536), age) => Ok(Some(CommandOrder { commands, age: age.map_or(Nanos::MAX, Nanos) })),
        (Some(commands), _) => Err(Error::Impossible(format!(
            "mechanical.queued_commands = {commands}: give 2 to 65536, or leave it out for a drive that orders none"
        ))),
        (None, Some(_)) => Err(Error::Impossible(
            "mechanical.queue_age_ms goes with queued_commands: add it, or leave both out".into(),
        )),
        (None, None) => Ok(None),
    }
}

/// The drive-managed layer, as far as the file tells it. Errors: values that make no sense, or some of its costs only.
pub(super) fn drive_managed(t: &DriveManagedTable) -> Result<SoldLayer, Error> {
    let cache_percent = t.cache_percent.as_ref().map(|s| s.value);
    if let Some(percent) = cache_percent.filter(|percent| !(0.0..=50.0).contains(percent)) {
        return Err(Error::Impossible(format!("drive_managed.cache_percent = {percent}: give 0 to 50")));
    }
    let costs = match (&t.append_ms, &t.append_bytes, &t.map_every_writes, &t.map_ms) {
        (None, None, None, None) => None,
        (Some(append), Some(bytes), Some(every), Some(map)) => {
            if every.value == 0 {
                return Err(Error::Impossible("drive_managed.map_every_writes = 0: give 1 or more".into()));
            }
            Some(DriveManagedCosts {
                append: Nanos(nanos("drive_managed.append_ms", append.value)?),
                append_bytes: bytes.value,
                map_every_writes: every.value,
                map: Nanos(nanos("drive_managed.map_ms", map.value)?),
            })
        }
        _ => {
            return Err(Error::Impossible(
                "drive_managed: append_ms, append_bytes, map_every_writes and map_ms go together: give all, or none"
                    .into(),
            ));
        }
    };
    let write_cache_bytes = t.write_cache_bytes.as_ref().map_or(0, |s| s.value);
    if write_cache_bytes > SoldLayer::WRITE_CACHE_MAX {
        let most = SoldLayer::WRITE_CACHE_MAX;
        return Err(Error::Impossible(format!(
            "drive_managed.write_cache_bytes = {write_cache_bytes}: give at most {most}"
        )));
    }
    Ok(SoldLayer { costs, cache_percent, write_cache_bytes })
}

/// The zones of a host-managed disk, as far as the file tells them. Errors: values that make no sense.
pub(super) fn host_managed(t: &HostManagedTable) -> Result<HostManagedZones, Error> {
    let zone_bytes = t.zone_bytes.as_ref().map(|s| s.value);
    if let Some(bytes) = zone_bytes.filter(|bytes| *bytes == 0 || bytes % 4096 != 0) {
        return Err(Error::Impossible(format!("host_managed.zone_bytes = {bytes}: give a multiple of 4096")));
    }
    let conventional_percent = t.conventional_percent.as_ref().map(|s| s.value);
    if let Some(percent) = conventional_percent.filter(|percent| !(0.0..=90.0).contains(percent)) {
        return Err(Error::Impossible(format!("host_managed.conventional_percent = {percent}: give 0 to 90")));
    }
    let zone_sectors = zone_bytes.map(|bytes| bytes / SECTOR_BYTES);
    Ok(HostManagedZones { zone_sectors, conventional_percent, open_zones: t.open_zones.as_ref().map(|s| s.value) })
}
