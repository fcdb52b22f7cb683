//! The sizes that a drive can be made in: how many times it has its surfaces, and what share of its tracks each recording zone keeps.
//!
//! Every zone grows with the share, so sizes are ordered: the smallest drive that holds some number of sectors is also the smallest that
//! holds its own size.

use super::build::{is_interleaved, outer_cylinders, zone_slips};
use super::file::{DriveFile, FileEntry, Lengths, ZoneTable};
use crate::error::Error;
use crate::geometry::{SECTORS_MAX, Slips, ZONES_MAX};

/// A share of 1: all tracks of a zone. A step is far less than a track.
const WHOLE: u128 = 1 << 40;

/// Makes a drive the smallest that holds `want` sectors.
pub(super) fn resize(file: &mut DriveFile, want: u64) -> Result<(), Error> {
    // Its defects are on the first of its platters only.
    let defects = raw_sectors(file, WHOLE) - usable_sectors(file, WHOLE);
    let needed = (u128::from(want) + defects).div_ceil(raw_sectors(file, WHOLE).max(1));
    let copies = copies(file, u64::try_from(needed).unwrap_or(u64::MAX));
    file.copies = file.copies().saturating_mul(copies);
    let share = least_share(file, want)?;
    if share != WHOLE {
        scale(file, share);
    }
    let raw = raw_sectors(file, WHOLE);
    if let Some(slips) = &mut file.geometry.slips {
        slips.value.retain(|&slip| u128::from(slip) < raw);
    }
    Ok(())
}

/// How many times a mechanical drive has its surfaces: as many as are needed, as long as zones can be counted. A constant clock has no
/// surfaces, and gets more tracks instead.
fn copies(file: &DriveFile, needed: u64) -> u32 {
    if file.mechanical.is_none() {
        return 1;
    }
    let surfaces = file.geometry.surfaces.given().unwrap_or(1).max(1);
    let zones = file.geometry.zones.value.len() as u64 * u64::from(surfaces) * u64::from(file.copies());
    needed.min(ZONES_MAX as u64 / zones.max(1)).clamp(1, u64::from(u32::MAX)) as u32
}

/// The smallest share at which the drive holds `want` sectors.
fn least_share(file: &DriveFile, want: u64) -> Result<u128, Error> {
    let (mut too_small, mut enough) = (0, WHOLE);
    while usable_sectors(file, enough) < u128::from(want) {
        if raw_sectors(file, enough) > u128::from(SECTORS_MAX) || enough > WHOLE << 40 {
            let name = &file.name;
            let message = format!("{name}: no size of it holds {want} sectors: give a smaller {{capacity}}");
            return Err(Error::Impossible(message));
        }
        (too_small, enough) = (enough, enough * 2);
    }
    while enough - too_small > 1 {
        let middle = (too_small + enough) / 2;
        if usable_sectors(file, middle) < u128::from(want) {
            too_small = middle;
        } else {
            enough = middle;
        }
    }
    // A whole drive stays as its file describes it.
    Ok(if raw_sectors(file, enough) == raw_sectors(file, WHOLE) { WHOLE } else { enough })
}

/// Tracks of zone `at` of `zones` in a drive scaled to `share`, at least one. Zones round up at different shares, so that drives of many
/// sizes can be made.
fn tracks(zone: &ZoneTable, at: usize, zones: usize, share: u128) -> u64 {
    let rounding = WHOLE * at as u128 / zones as u128;
    ((u128::from(zone.tracks) * share + rounding) / WHOLE).clamp(1, u128::from(u32::MAX)) as u64
}

/// Sectors on the platters of a drive scaled to `share`, defective ones included.
fn raw_sectors(file: &DriveFile, share: u128) -> u128 {
    let zones = &file.geometry.zones.value;
    let surfaces = file.geometry.surfaces.given().unwrap_or(1);
    let a_cylinder = |zone: &ZoneTable| match &zone.track_sectors {
        Lengths::All(sectors) => u128::from(*sectors) * u128::from(surfaces),
        Lengths::Each(all) => all.iter().map(|&sectors| u128::from(sectors)).sum(),
    };
    let of_zone = |(at, zone)| u128::from(tracks(zone, at, zones.len(), share)) * a_cylinder(zone);
    zones.iter().enumerate().map(of_zone).sum::<u128>() * u128::from(file.copies())
}

/// Raw sectors without the defective ones.
fn usable_sectors(file: &DriveFile, share: u128) -> u128 {
    let raw = raw_sectors(file, share);
    if is_interleaved(file) {
        return raw - slipped_by_zone(file, share).min(raw);
    }
    let slips = file.geometry.slips.as_ref().map_or(&[][..], |slips| slips.value.as_slice());
    raw - slips.iter().filter(|&&slip| u128::from(slip) < raw).count() as u128
}

/// Sectors that slips take from the recording zones of a drive scaled to `share`. A zone whose slips can't be laid out loses none here:
/// building the drive reports the mistake.
fn slipped_by_zone(file: &DriveFile, share: u128) -> u128 {
    let zones = &file.geometry.zones.value;
    let surfaces = file.geometry.surfaces.given().unwrap_or(1);
    let all_surfaces = u64::from(surfaces).saturating_mul(u64::from(file.copies()));
    let of_zone = |(at, zone): (usize, &ZoneTable)| {
        let Lengths::All(track_sectors) = zone.track_sectors else { return 0 };
        let sectors = tracks(zone, at, zones.len(), share).saturating_mul(all_surfaces).saturating_mul(track_sectors);
        let slips = zone_slips(zone, track_sectors, sectors).unwrap_or_default();
        u128::from(Slips::from(slips).count())
    };
    zones.iter().enumerate().map(of_zone).sum()
}

/// Scales each recording zone to `share`. Gaps between zones stay as they are.
fn scale(file: &mut DriveFile, share: u128) {
    let zones = &mut file.geometry.zones.value;
    let old = outer_cylinders(zones);
    let count = zones.len();
    let mut by_place: Vec<usize> = (0..count).collect();
    by_place.sort_by_key(|&i| old[i]);
    let (mut old_end, mut new_end) = (0, 0u64);
    for i in by_place {
        let tracks = tracks(&zones[i], i, count, share);
        let start = new_end.saturating_add(old[i].saturating_sub(old_end));
        (old_end, new_end) = (old[i].saturating_add(zones[i].tracks), start.saturating_add(tracks));
        (zones[i].first_cylinder, zones[i].tracks) = (Some(start), tracks);
    }
}
