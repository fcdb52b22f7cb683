//! From a drive file to a drive: geometry, interference, clock, the order of commands, and other sizes. Checks that values fit together.

use std::ops::Range;

use super::file::{
    ByBefore, DriveFile, FileEntry, InterferenceTable, Lengths, MechanicalTable, OrderName, Slip, Sourced, ZoneTable,
};
use super::mechanical::nanos;
use super::{Buffer, Buffered, Constant, DriveClock, Mechanical, Mechanics, Overheads, SeekPoints};
use crate::error::Error;
use crate::geometry::{Edge, Geometry, SECTORS_MAX, Skews, Slips, TrackSequence, Turn, ZONES_MAX, ZoneShape, turn};
use crate::medium::interference::{Interference, Profile};
use crate::units::Nanos;

/// The order of the commands that a drive was sent (NCQ): the one with the shortest positioning time first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommandOrder {
    /// Commands that it takes at once.
    pub commands: u32,
    /// The oldest command goes first once it has been at the drive for this long.
    pub age: Nanos,
}

/// The interference of a drive file. Errors: keys of more than one form, or half a form.
pub(super) fn interference(t: &InterferenceTable) -> Result<Interference, Error> {
    let refuse = |message: &str| Err(Error::Impossible(format!("interference: {message}")));
    let is_by_distances = t.did_sectors.is_some() || t.dpid_sectors.is_some();
    let is_physical = t.inner_tracks.is_some() || t.outer_tracks.is_some();
    let forms = [t.blocks.is_some(), t.tracks.is_some(), is_by_distances, is_physical];
    if forms.iter().filter(|is_given| **is_given).count() > 1 {
        return refuse(
            "more than one form: give blocks, or tracks, or did_sectors and dpid_sectors, or inner_tracks and outer_tracks",
        );
    }
    if t.band_tracks.is_some() && t.tracks.is_none() {
        return refuse("band_tracks goes with tracks: add tracks or leave it out");
    }
    if t.writes.is_some() && !is_by_distances {
        return refuse("writes goes with did_sectors and dpid_sectors: add them or leave it out");
    }
    if (t.cw_degrees.is_some() || t.ccw_degrees.is_some()) && !is_physical {
        return refuse(
            "cw_degrees and ccw_degrees go with inner_tracks and outer_tracks: add them or leave the angles out",
        );
    }
    if is_by_distances {
        let (Some(did), Some(dpid)) = (t.did_sectors.given(), t.dpid_sectors.given()) else {
            return refuse("did_sectors and dpid_sectors go together: give both");
        };
        return Ok(Interference::Distances { did, dpid, writes: t.writes.given().unwrap_or(1) });
    }
    if is_physical {
        let (Some(inner), Some(outer)) = (t.inner_tracks.given(), t.outer_tracks.given()) else {
            return refuse("inner_tracks and outer_tracks go together: give both, 1 for the side that is not affected");
        };
        let angle = |degrees: &Option<Sourced<f64>>| turn(degrees.given().unwrap_or(0.0) / 360.0);
        return Ok(Interference::Physical(Profile::new(inner, outer, angle(&t.cw_degrees), angle(&t.ccw_degrees))?));
    }
    Ok(match (t.blocks.given(), t.tracks.given()) {
        (Some(reach), _) => Interference::Blocks { reach },
        (None, Some(width)) => Interference::Tracks { width, band: t.band_tracks.given() },
        (None, None) => Interference::None,
    })
}

/// The geometry of a drive file: each recording zone on one surface after another, and on each copy of the surfaces. Zones shingle towards
/// `toward`.
pub(super) fn geometry(file: &DriveFile, toward: Edge) -> Result<Geometry, Error> {
    let surfaces = file.geometry.surfaces.given().unwrap_or(1);
    let copies = file.copies;
    if is_interleaved(file) {
        return interleaved(file, surfaces.saturating_mul(copies), skew(file)?);
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
            // The copies of a surface follow each other, so that its tracks (perhaps of another length) stay together.
            let shape = |surface| ZoneShape { surface, outer_cylinder, tracks: zone.tracks, track_sectors, toward };
            shapes.extend((0..copies).map(|copy| shape(surface * copies + copy)));
        }
    }
    Geometry::new(&shapes, skew(file)?, Vec::new())
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
        write_settle_ms: t.write_settle_ms.given().unwrap_or(0.0),
        overhead_ms: t.overhead_ms.value,
    })
}

/// The skew given, or the smallest that hides the switch to the next track.
fn skew(file: &DriveFile) -> Result<Turn, Error> {
    let Some(t) = &file.mechanical else { return Ok(0) };
    mechanics(t)?.skew(t.skew_ms.given())
}

/// The clock of a drive file. Errors: none or both of `constant` and `mechanical`, or values that make no sense.
pub(super) fn clock(file: &DriveFile, g: &Geometry) -> Result<DriveClock, Error> {
    match (&file.constant, &file.mechanical) {
        (Some(c), None) => Ok(DriveClock::Constant(Constant::new(c.command_ms.value, c.sector_us.value)?)),
        (None, Some(t)) => {
            let clock = Mechanical::new(g, &mechanics(t)?)?;
            let buffer = buffer(t, clock.overhead())?;
            // Overheads by kind, and watermarks of the bus, are known to the buffered clock alone, even without a buffer.
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

/// The buffer of a drive file. `overhead` is for the kinds of commands that the file names none for.
fn buffer(t: &MechanicalTable, overhead: Nanos) -> Result<Buffer, Error> {
    let read_ahead_bytes = t.read_ahead_bytes.given().unwrap_or(0);
    let bus = t.bus_bytes_per_s.given().unwrap_or(Buffer::BUS_BYTES_PER_S);
    Ok(Buffer {
        write_cache_bytes: t.write_cache_bytes.given().unwrap_or(0),
        write_cache_order: t.write_cache_order.given().unwrap_or_default(),
        read_ahead_bytes,
        read_ahead_to: t.read_ahead_to.given().unwrap_or_default(),
        segment_bytes: t.segment_bytes.given().unwrap_or(read_ahead_bytes.saturating_mul(2)),
        segments: t.segments.given().unwrap_or(1),
        reads_passing: t.reads_passing.given().unwrap_or(false),
        keeps_requested: t.keeps_requested.given().unwrap_or(false),
        bus_bytes_per_s: [bus, t.write_bus_bytes_per_s.given().unwrap_or(bus)],
        watermark: t.watermark.given().unwrap_or(0.0),
        write_watermark: t.write_watermark.given().unwrap_or(0.0),
        overheads: overheads(t, overhead)?,
    })
}

fn overheads(t: &MechanicalTable, overhead: Nanos) -> Result<Overheads, Error> {
    let of_kind = |key: &str, value: &Option<Sourced<ByBefore>>| {
        let ns = |ms| nanos(&format!("mechanical.{key}"), ms).map(Nanos);
        match value.given() {
            None => Ok::<_, Error>([overhead; 2]),
            Some(ByBefore::Any(ms)) => Ok([ns(ms)?; 2]),
            Some(ByBefore::Each(after_read, after_write)) => Ok([ns(after_read)?, ns(after_write)?]),
        }
    };
    // Times that don't depend on the command before; none where the file has no such key.
    let once = |key: &str, value: &Option<Sourced<f64>>| {
        nanos(&format!("mechanical.{key}"), value.given().unwrap_or(0.0)).map(Nanos)
    };
    Ok(Overheads {
        read_miss: of_kind("read_miss_ms", &t.read_miss_ms)?,
        read_hit: of_kind("read_hit_ms", &t.read_hit_ms)?,
        write: of_kind("write_ms", &t.write_ms)?,
        media_write: of_kind("media_write_ms", &t.media_write_ms)?,
        write_data: t.write_data_ms.is_some().then(|| once("write_data_ms", &t.write_data_ms)).transpose()?,
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
    let age = t.queue_age_ms.given().map(|ms| nanos("mechanical.queue_age_ms", ms)).transpose()?;
    match (t.queued_commands.given(), age) {
        (Some(commands), age) => Ok(Some(CommandOrder { commands, age: age.map_or(Nanos::MAX, Nanos) })),
        (None, Some(_)) => Err(Error::Impossible(
            "mechanical.queue_age_ms goes with queued_commands: add it, or leave both out".into(),
        )),
        (None, None) => Ok(None),
    }
}

/// The most stretches with spares of a drive.
const SPARE_STRETCHES_MAX: u64 = 1 << 22;

/// True if the tracks of a recording zone lie on all surfaces in turn.
fn is_interleaved(file: &DriveFile) -> bool {
    file.geometry.order.given().unwrap_or_default() != OrderName::Surfaces
}

/// The geometry of a drive file whose zones lie on all surfaces.
fn interleaved(file: &DriveFile, surfaces: u32, skew: Turn) -> Result<Geometry, Error> {
    let order = file.geometry.order.given();
    let sequence = match (order, file.geometry.run_tracks.given()) {
        (Some(OrderName::Alternating), _) => TrackSequence::Alternating,
        (Some(OrderName::AlternatingThroughout), _) => TrackSequence::AlternatingThroughout,
        (Some(OrderName::Serpentine), Some(run)) if run > 0 => TrackSequence::Runs(run),
        (Some(OrderName::Serpentine), _) => {
            return Err(Error::Impossible("order = \"serpentine\" needs run_tracks: give at least 1".into()));
        }
        _ => TrackSequence::Cylinders,
    };
    let zones = &file.geometry.zones.value;
    let mut shapes = Vec::new();
    let mut slips: Vec<Range<u64>> = Vec::new();
    let mut zone_start = 0u64;
    for (i, (zone, outer_cylinder)) in zones.iter().zip(outer_cylinders(zones)).enumerate() {
        let Lengths::All(track_sectors) = zone.track_sectors else {
            return Err(Error::Impossible(format!(
                "recording zone {i} lists track lengths of each surface, and its tracks lie on all of them in turn: give one \
                 number"
            )));
        };
        shapes.push((
            ZoneShape { surface: 0, outer_cylinder, tracks: zone.tracks, track_sectors, toward: Edge::Inner },
            skews(zone, i, track_sectors, skew)?,
        ));
        let sectors = zone.tracks.saturating_mul(u64::from(surfaces)).saturating_mul(track_sectors);
        // A zone lists its slips from its own first sector on.
        let own = zone_slips(zone, track_sectors, sectors)
            .map_err(|problem| Error::Impossible(format!("recording zone {i}: {problem}")))?;
        let from_zone_start = |sector: u64| zone_start.saturating_add(sector);
        slips.extend(own.into_iter().map(|range| from_zone_start(range.start)..from_zone_start(range.end)));
        zone_start = zone_start.saturating_add(sectors);
    }
    Geometry::interleaved(&shapes, surfaces, sequence, Slips::from(slips))
}

/// The angles of a zone; without skews of its own, those of the drive.
fn skews(zone: &ZoneTable, i: usize, track_sectors: u64, skew: Turn) -> Result<Skews, Error> {
    // Far more than a track has.
    const SECTORS_END: f64 = 1e9;
    let angle = |key: &str, sectors: Option<f64>, default: Turn| match sectors {
        None => Ok(default),
        Some(sectors) if (0.0..SECTORS_END).contains(&sectors) => Ok(turn(sectors / track_sectors.max(1) as f64)),
        Some(sectors) => Err(Error::Impossible(format!("recording zone {i}: {key} = {sectors}: give sectors from 0"))),
    };
    Ok(Skews {
        offset: angle("offset", zone.offset, 0)?,
        head: angle("head_skew", zone.head_skew, skew)?,
        cylinder: angle("cylinder_skew", zone.cylinder_skew, skew)?,
    })
}

/// The raw sectors of a zone of `sectors` that hold nothing, counted from its first.
fn zone_slips(zone: &ZoneTable, track_sectors: u64, sectors: u64) -> Result<Vec<Range<u64>>, String> {
    let listed = |slip: &Slip| match *slip {
        Slip::One(first) => first..first.saturating_add(1),
        Slip::Run(first, count) => first..first.saturating_add(count),
    };
    // Slips beyond the end of a zone that was made smaller go with its tracks.
    let mut slips: Vec<Range<u64>> = zone.slips.iter().map(listed).filter(|slip| slip.end <= sectors).collect();
    slips.sort_unstable_by_key(|slip| slip.start);
    let mut spares = Vec::new();
    if let Some(each) = zone.spare_sectors {
        let stretch = zone.spare_tracks.unwrap_or(1).saturating_mul(track_sectors).max(1);
        if sectors / stretch > SPARE_STRETCHES_MAX {
            return Err(format!("{} stretches with spares: give a larger spare_tracks", sectors / stretch));
        }
        // Each stretch takes its slips from the front of the rest, because both ascend.
        let mut rest = slips.as_slice();
        for end in (1..=sectors / stretch).map(|n| n * stretch) {
            let (here, after) = rest.split_at(rest.partition_point(|slip| slip.start < end));
            spares.push(spares_before(end, each.min(stretch), here)..end);
            rest = after;
        }
    }
    slips.push(0..zone.front.min(sectors));
    slips.append(&mut spares);
    Ok(slips)
}

/// Where the spares of a stretch begin, which reach to its `end`. Slips before them use up some of the `each` spares; slips among them only
/// make them begin earlier.
fn spares_before(end: u64, each: u64, slips: &[Range<u64>]) -> u64 {
    let length = |slips: &[Range<u64>]| slips.iter().map(|slip| slip.end - slip.start).sum::<u64>();
    let left = each.saturating_sub(length(slips));
    let mut spares = left;
    // Where they begin earlier, there may be further slips.
    loop {
        let among = length(&slips[slips.partition_point(|slip| slip.start < end - spares)..]);
        if left + among == spares {
            return end - spares;
        }
        spares = left + among;
    }
}

/// Cylinder of each recording zone's outermost track.
fn outer_cylinders(zones: &[ZoneTable]) -> Vec<u64> {
    let mut next = 0u64;
    let place = |zone: &ZoneTable| {
        let start = zone.first_cylinder.unwrap_or(next);
        next = start.saturating_add(zone.tracks).saturating_add(zone.guard_tracks);
        start
    };
    zones.iter().map(place).collect()
}

// The sizes that a drive can be made in: how many times it has its surfaces, and what share of its tracks each recording zone keeps. Every
// zone grows with the share, so sizes are ordered: the smallest drive that holds some number of sectors is also the smallest that holds its
// own size.

/// A share of 1: all tracks of a zone. A step is far less than a track.
const WHOLE: u128 = 1 << 40;

/// Makes a drive the smallest that holds `want` sectors: repeats its platters (`copies`), then scales the tracks of each zone. Errors: no scale
/// is enough.
pub(super) fn resize(file: &mut DriveFile, want: u64) -> Result<(), Error> {
    let (old_copies, most) = (file.copies, most_copies(file));
    // As many copies of its platters as are needed if no sector were lost to spares and defects, then more until they are enough or `most`.
    let least = u128::from(want).div_ceil(raw_sectors(file, WHOLE).max(1));
    let mut times = u32::try_from(least).unwrap_or(u32::MAX).clamp(1, most);
    file.copies = old_copies.saturating_mul(times);
    while times < most && usable_sectors(file, WHOLE) < u128::from(want) {
        times += 1;
        file.copies = old_copies.saturating_mul(times);
    }
    let share = least_share(file, want)?;
    if share != WHOLE {
        scale(file, share);
    }
    Ok(())
}

/// The sectors of a drive with `times` its platters.
pub(super) fn sectors_of_platters(mut file: DriveFile, times: u64) -> u64 {
    let sectors = match u32::try_from(times) {
        Ok(times) if times <= most_copies(&file) => {
            file.copies = file.copies.saturating_mul(times);
            usable_sectors(&file, WHOLE)
        }
        // It gets more tracks instead.
        _ => {
            let (raw, usable) = (raw_sectors(&file, WHOLE), usable_sectors(&file, WHOLE));
            raw.saturating_mul(times.into()) - (raw - usable)
        }
    };
    u64::try_from(sectors).unwrap_or(u64::MAX)
}

/// How many times a mechanical drive can have its surfaces without more than `ZONES_MAX` recording zones. A constant clock has no surfaces,
/// and gets more tracks instead.
fn most_copies(file: &DriveFile) -> u32 {
    if file.mechanical.is_none() {
        return 1;
    }
    let surfaces = file.geometry.surfaces.given().unwrap_or(1).max(1);
    let zones = file.geometry.zones.value.len() as u64 * u64::from(surfaces) * u64::from(file.copies);
    (ZONES_MAX as u64 / zones.max(1)).clamp(1, u64::from(u32::MAX)) as u32
}

/// The smallest share at which the drive holds `want` sectors.
fn least_share(file: &DriveFile, want: u64) -> Result<u128, Error> {
    let (mut too_small, mut enough) = (0, WHOLE);
    while usable_sectors(file, enough) < u128::from(want) {
        // From this share on all zones have as many tracks as a zone can have (2^32), and the drive grows no more.
        let has_all_tracks = enough > WHOLE << 40;
        if raw_sectors(file, enough) > u128::from(SECTORS_MAX) || has_all_tracks {
            let name = &file.name;
            let message = format!("{name}: no size of it holds {want} sectors: give a smaller {{capacity}}");
            return Err(Error::Impossible(message));
        }
        (too_small, enough) = (enough, enough * 2);
    }
    // `enough` holds them and `too_small` does not, until they are neighbours.
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
fn scaled_tracks(zone: &ZoneTable, at: usize, zones: usize, share: u128) -> u64 {
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
    let of_zone = |(at, zone)| u128::from(scaled_tracks(zone, at, zones.len(), share)) * a_cylinder(zone);
    zones.iter().enumerate().map(of_zone).sum::<u128>() * u128::from(file.copies)
}

/// Raw sectors without the defective ones.
fn usable_sectors(file: &DriveFile, share: u128) -> u128 {
    let raw = raw_sectors(file, share);
    raw - slipped_by_zone(file, share).min(raw)
}

/// Sectors that slips take from the recording zones of a drive scaled to `share`. A zone whose slips can't be laid out loses none here:
/// building the drive reports the mistake.
fn slipped_by_zone(file: &DriveFile, share: u128) -> u128 {
    let zones = &file.geometry.zones.value;
    let surfaces = file.geometry.surfaces.given().unwrap_or(1);
    let all_surfaces = u64::from(surfaces).saturating_mul(u64::from(file.copies));
    let of_zone = |(at, zone): (usize, &ZoneTable)| {
        let Lengths::All(track_sectors) = zone.track_sectors else { return 0 };
        let sectors =
            scaled_tracks(zone, at, zones.len(), share).saturating_mul(all_surfaces).saturating_mul(track_sectors);
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
    // Zones may be listed in another order than they lie on the surface.
    let mut by_place: Vec<usize> = (0..count).collect();
    by_place.sort_by_key(|&i| old[i]);
    let (mut old_end, mut new_end) = (0, 0u64);
    for i in by_place {
        let tracks = scaled_tracks(&zones[i], i, count, share);
        let start = new_end.saturating_add(old[i].saturating_sub(old_end));
        (old_end, new_end) = (old[i].saturating_add(zones[i].tracks), start.saturating_add(tracks));
        (zones[i].first_cylinder, zones[i].tracks) = (Some(start), tracks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_among_the_spares_use_up_none() {
        let spares = |each, slips: &[u64]| {
            let slips: Vec<Range<u64>> = slips.iter().map(|&raw| raw..raw + 1).collect();
            20 - spares_before(20, each, &slips)
        };
        assert_eq!([spares(0, &[]), spares(3, &[]), spares(20, &[])], [0, 3, 20]);
        assert_eq!([spares(3, &[5]), spares(3, &[5, 6, 7]), spares(3, &[5, 6, 7, 8])], [2, 0, 0]);
        // The last of the slips that are left lies just before the spares, is the first of them, or is their last.
        assert_eq!([spares(3, &[17]), spares(3, &[18]), spares(3, &[19])], [2, 3, 3]);
        assert_eq!(spares(5, &[5, 17, 18]), 4, "among the spares once there are more of them");
        assert_eq!(spares(20, &[0, 19]), 19);
    }
}
