//! From a drive file to a drive: geometry, interference and clock, checked against each other.

use super::file::{DriveFile, DriveManagedTable, InterferenceTable, Lengths, MechanicalTable, Sourced, ZoneTable};
use super::mechanical::nanos;
use super::{Buffer, Buffered, Constant, DriveClock, DriveManaged, Mechanical, Mechanics};
use crate::error::Error;
use crate::geometry::{Edge, Geometry, Turn, ZoneShape, turn};
use crate::medium::interference::{Interference, Profile};
use crate::units::Nanos;

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
    let zones = &file.geometry.zones.value;
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

fn mechanics(t: &MechanicalTable) -> Mechanics {
    Mechanics {
        rpm: t.rpm.value,
        seek: t.seek.value.clone(),
        switch_ms: t.switch_ms.value,
        write_settle_ms: t.write_settle_ms.as_ref().map_or(0.0, |s| s.value),
        overhead_ms: t.overhead_ms.value,
    }
}

/// The skew given, or the smallest that hides the switch to the next track.
fn skew(file: &DriveFile) -> Result<Turn, Error> {
    let Some(t) = &file.mechanical else { return Ok(0) };
    mechanics(t).skew(t.skew_ms.as_ref().map(|s| s.value))
}

/// The clock of a drive file. Errors: none or both of `constant` and `mechanical`, or values that make no sense.
pub(super) fn clock(file: &DriveFile, g: &Geometry) -> Result<DriveClock, Error> {
    match (&file.constant, &file.mechanical) {
        (Some(c), None) => Ok(DriveClock::Constant(Constant::new(c.command_ms.value, c.sector_us.value)?)),
        (None, Some(t)) => {
            let clock = Mechanical::new(g, &mechanics(t))?;
            let bytes = |key: &Option<Sourced<u64>>| key.as_ref().map_or(0, |s| s.value);
            let buffer = Buffer {
                write_cache_bytes: bytes(&t.write_cache_bytes),
                read_ahead_bytes: bytes(&t.read_ahead_bytes),
                bus_bytes_per_s: t.bus_bytes_per_s.as_ref().map_or(Buffer::BUS_BYTES_PER_S, |s| s.value),
            };
            buffer.check()?;
            Ok(if buffer.is_off() {
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

/// The costs of a drive-managed layer. Errors: values that make no sense.
pub(super) fn drive_managed(t: &DriveManagedTable) -> Result<DriveManaged, Error> {
    if t.map_every_writes.value == 0 {
        return Err(Error::Impossible("drive_managed.map_every_writes = 0: give 1 or more".into()));
    }
    Ok(DriveManaged {
        append: Nanos(nanos("drive_managed.append_ms", t.append_ms.value)?),
        append_bytes: t.append_bytes.value,
        map_every_writes: t.map_every_writes.value,
        map: Nanos(nanos("drive_managed.map_ms", t.map_ms.value)?),
    })
}

/// Where each recording zone's outermost track lies.
pub(super) fn outer_cylinders(zones: &[ZoneTable]) -> Vec<u64> {
    let mut next = 0u64;
    let place = |zone: &ZoneTable| {
        let start = zone.first_cylinder.unwrap_or(next);
        next = start.saturating_add(zone.tracks).saturating_add(zone.guard_tracks);
        start
    };
    zones.iter().map(place).collect()
}
