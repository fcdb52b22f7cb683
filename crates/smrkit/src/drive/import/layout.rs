//! The layout of a DiskSim model: recording zones over all surfaces, their skews, spares and slips.

use std::fmt::Write;

use super::files::{Files, Toml};
use super::params::{Fields, ParamKind, ParamValue, bad};
use crate::error::Error;

const CYLINDERS_MAX: u64 = 1 << 31;
const TRACK_MAX: u64 = 1 << 24;
/// Stretches with spares of their own that a zone lists at most.
const LISTED_MAX: u64 = 1 << 20;

/// Writes the geometry of a model.
pub(super) fn geometry(out: &mut Toml, files: &mut Files, model: &Fields) -> Result<(), Error> {
    let (surfaces, surfaces_at) = model.count("Number of data surfaces", 64)?;
    let layout = files.block(model, "Layout Model", "dm_layout_g1")?;
    let layout = layout.fields();
    let (mapping, mapping_at) = layout.count("LBN-to-PBN mapping scheme", 64)?;
    let order = match mapping {
        0 => "cylinders",
        1 => "alternating",
        2 => "alternating-throughout",
        _ => {
            let message = format!("LBN-to-PBN mapping scheme {mapping} is not known: give 0, 1 or 2");
            return Err(bad(layout.path, mapping_at.line, message));
        }
    };
    out.line("\n[geometry]");
    out.value("surfaces", surfaces, &surfaces_at.source);
    out.value("order", format!("{order:?}"), &mapping_at.source);
    let zone_of = ZoneRules::from_layout(&layout, surfaces)?;
    let zones = layout.list("Zones")?;
    let Some(first) = zones.first() else {
        return Err(bad(layout.path, layout.line, "no Zones: add a list of dm_layout_g1_zone blocks"));
    };
    out.line("\n[geometry.zones]");
    out.line(&format!("source = {:?}", layout.source(first.line, "Zones; the line of each next to it")));
    out.line("value = [");
    for zone in zones {
        let zone = files.block_of(&layout, "Zones", zone, "dm_layout_g1_zone")?;
        let zone = zone.fields();
        out.line(&format!("  {{ {} }}, # {}", zone_of.zone(&zone)?, zone.source(zone.line, "zone")));
    }
    out.line("]");
    Ok(())
}

/// True where skews are shares of a revolution; in a zone that says nothing, as its layout says.
fn skews_in_revolutions(fields: &Fields, otherwise: bool) -> Result<bool, Error> {
    match fields.get("Skew units") {
        None => Ok(otherwise),
        Some(value) => match fields.text("Skew units")? {
            "revolutions" => Ok(true),
            "sectors" => Ok(false),
            other => {
                let message = format!("Skew units = {other} are not known: give sectors or revolutions");
                Err(bad(fields.path, value.line, message))
            }
        },
    }
}

/// Rules that hold for all zones of a layout.
struct ZoneRules {
    scheme: u64,
    range_tracks: u64,
    surfaces: u64,
    in_revolutions: bool,
}

/// Spares of a zone: this many sectors in each stretch of this many.
#[derive(Clone, Copy)]
struct Spares {
    each: u64,
    stretch: u64,
    at_front: bool,
    /// True if slips use them up.
    take_slips: bool,
}

impl Spares {
    /// Sectors of a stretch that hold data, at least one.
    fn usable(&self) -> u64 {
        self.stretch - self.each
    }

    /// Spares of the stretch from `start` on that slips, in order, leave.
    fn left_in(&self, start: u64, slips: &[(u64, u64)]) -> u64 {
        let before = |place: u64| slips.partition_point(|slip| slip.0 < place);
        let here = &slips[before(start)..before(start + self.stretch)];
        let used = if self.take_slips { here.iter().map(|slip| slip.1).sum() } else { 0 };
        self.each.saturating_sub(used)
    }

    /// The spares of all stretches of a zone, one by one.
    fn listed(&self, sectors: u64, slips: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let at = |start: u64| {
            let count = self.left_in(start, slips);
            (if self.at_front { start } else { start + self.stretch - count }, count)
        };
        let starts = (0..sectors / self.stretch).map(|n| n * self.stretch);
        starts.map(at).filter(|spares| spares.1 > 0).collect()
    }
}

impl ZoneRules {
    fn from_layout(layout: &Fields, surfaces: u64) -> Result<ZoneRules, Error> {
        let (scheme, at) = layout.count("Sparing scheme used", 64)?;
        if scheme > 10 {
            return Err(bad(layout.path, at.line, format!("sparing scheme {scheme} is not known: give 0 to 10")));
        }
        let range = match layout.get("Rangesize for sparing") {
            Some(_) => layout.count("Rangesize for sparing", CYLINDERS_MAX)?.0,
            None => 1,
        };
        let in_revolutions = skews_in_revolutions(layout, false)?;
        Ok(ZoneRules { scheme, range_tracks: range.max(1) * surfaces, surfaces, in_revolutions })
    }

    /// A zone of the drive file, without its braces.
    fn zone(&self, zone: &Fields) -> Result<String, Error> {
        let (first, _) = zone.count("First cylinder number", CYLINDERS_MAX)?;
        let (last, last_at) = zone.count("Last cylinder number", CYLINDERS_MAX)?;
        let (length, length_at) = zone.count("Blocks per track", TRACK_MAX)?;
        if last < first {
            return Err(bad(
                zone.path,
                last_at.line,
                format!("the zone ends at cylinder {last}, before its first: give {first} or more"),
            ));
        }
        if length == 0 {
            return Err(bad(zone.path, length_at.line, "Blocks per track = 0: give 1 or more"));
        }
        let tracks = last - first + 1;
        let all = tracks * self.surfaces;
        let mut text = format!("first_cylinder = {first}, tracks = {tracks}, track_sectors = {length}");
        let _ = write!(text, ", offset = {}", self.angle(zone, "Offset of first block", length)?);
        for (key, name) in [("Skew for track switch", "head_skew"), ("Skew for cylinder switch", "cylinder_skew")] {
            let skew = if zone.get(key).is_some() { self.angle(zone, key, length)? } else { 0.0 };
            let _ = write!(text, ", {name} = {skew}");
        }
        let mut slips = self.slips(zone, length, all)?;
        let (spares, spares_at) = zone.count("Number of spares", all * length)?;
        let spares = self.spares(spares, length, all, slips.len() as u64);
        if spares.is_some_and(|spares| spares.each >= spares.stretch) {
            return Err(bad(zone.path, spares_at.line, "no fewer spares than sectors that they stand for: give fewer"));
        }
        let front = front(zone, all * length, spares, &slips)?;
        if front > 0 {
            let _ = write!(text, ", front = {front}");
        }
        match spares {
            Some(Spares { each, stretch, at_front: false, take_slips: true }) => {
                let _ = write!(text, ", spare_sectors = {each}, spare_tracks = {}", stretch / length);
            }
            Some(spares) if all * length / spares.stretch > LISTED_MAX => {
                return Err(bad(zone.path, spares_at.line, "more than 2^20 cylinders with spares: give fewer"));
            }
            Some(spares) => slips.extend(spares.listed(all * length, &slips)),
            None => {}
        }
        if !slips.is_empty() {
            let slips: Vec<String> = slips.iter().map(slip_text).collect();
            let _ = write!(text, ", slips = [{}]", slips.join(", "));
        }
        Ok(text)
    }

    /// An angle in sectors.
    fn angle(&self, zone: &Fields, key: &str, length: u64) -> Result<f64, Error> {
        let found = zone.positive(key)?;
        let in_revolutions = skews_in_revolutions(zone, self.in_revolutions)?;
        Ok(if in_revolutions { found.value * length as f64 } else { found.value })
    }

    /// The spares of a zone of `all` tracks with this many slips.
    fn spares(&self, spares: u64, length: u64, all: u64, slips: u64) -> Option<Spares> {
        let cylinder = self.surfaces * length;
        let (each, stretch) = match self.scheme {
            1 => (spares.saturating_mul(length), all * length),
            2 | 4 | 5 | 6 => (spares, cylinder),
            3 => (spares, length),
            8 => (spares, self.range_tracks * length),
            9 => (spares, all * length),
            // Slips use none of the spares, and all that they push on lies before the spares.
            10 => (spares + slips, all * length),
            _ => return None,
        };
        let (at_front, take_slips) = (matches!(self.scheme, 5 | 6), !matches!(self.scheme, 4 | 6));
        Some(Spares { each, stretch, at_front, take_slips }).filter(|spares| spares.each > 0)
    }

    /// Raw sectors that are passed over, as first and count: whole tracks where those are the spares.
    fn slips(&self, zone: &Fields, length: u64, tracks: u64) -> Result<Vec<(u64, u64)>, Error> {
        let (most, each) = if self.scheme == 1 { (tracks, length) } else { (tracks * length, 1) };
        let slip = |value: &ParamValue| {
            let number = match &value.kind {
                ParamKind::Text(_) => value.number().filter(|n| n.fract() == 0.0 && *n >= 0.0 && *n < most as f64),
                _ => None,
            };
            let message = || format!("slips: expected a place inside of the zone, below {most}");
            number.map(|n| (n as u64 * each, each)).ok_or_else(|| bad(zone.path, value.line, message()))
        };
        let mut slips = zone.list("slips")?.iter().map(slip).collect::<Result<Vec<_>, _>>()?;
        slips.sort_unstable();
        Ok(slips)
    }
}

fn slip_text((first, count): &(u64, u64)) -> String {
    if *count == 1 { first.to_string() } else { format!("[{first}, {count}]") }
}

/// Raw sectors at a zone's front that hold nothing; the description counts those that could hold data.
fn front(zone: &Fields, sectors: u64, spares: Option<Spares>, slips: &[(u64, u64)]) -> Result<u64, Error> {
    let (empty, at) = zone.count("Empty space at zone front", sectors)?;
    if empty == 0 {
        return Ok(0);
    }
    let (start, within) = match spares {
        Some(spares) => (empty / spares.usable(), empty % spares.usable()),
        None => (0, empty),
    };
    let stretch = spares.map_or(0, |spares| spares.stretch);
    let Some(start) = start.checked_mul(stretch).filter(|start| *start < sectors) else {
        return Err(bad(zone.path, at.line, "more empty space than the zone holds: give less"));
    };
    let before = spares.filter(|spares| spares.at_front).map_or(0, |spares| spares.left_in(start, slips));
    let mut raw = start + before + within;
    for (first, count) in slips.iter().filter(|slip| slip.0 >= start) {
        raw += if *first <= raw { *count } else { 0 };
    }
    Ok(raw)
}
