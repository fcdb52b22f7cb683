//! Drive files from descriptions of drives in other formats, so far that of DiskSim 4.0: `.model` (layout, mechanics), `.seek`,
//! `.diskspecs` (buffer, overheads), `.parv` (buses).
//!
//! Values of a description go into the drive file, each with the file and line that it comes from; nothing is
//! fitted. Left out: remapped defects, negative write settling, sectors read in the order in which they pass.

mod params;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::units::SECTOR_BYTES;

pub use self::params::Read;
use self::params::{Block, Files, ParamKind, SourcedNumber, Toml, bad};

/// A drive file made from a description.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The drive's name: that of its description, without ending.
    pub name: String,
    /// The drive file.
    pub text: String,
    /// The file that it was made from.
    pub from: PathBuf,
}

/// The drives that DiskSim's files in a folder describe: each `.parv` with the files that it names, and each `.diskspecs` and `.model` that
/// no other file names. Errors: no description, a damaged one (with file and line).
pub fn disksim(folder: &Path) -> Result<Vec<Imported>, Error> {
    let listed = std::fs::read_dir(folder).map_err(|error| Error::reading(folder, error))?;
    let mut paths: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let (mut used, mut drives) = (BTreeSet::new(), Vec::new());
    // A file names only those of later kinds.
    for ending in ["parv", "diskspecs", "model"] {
        for path in paths.iter().filter(|path| path.extension().is_some_and(|own| own == ending)) {
            if !used.contains(path) {
                drives.extend(import_noting(path, &|path| std::fs::read(path), &mut used)?);
            }
        }
    }
    if drives.is_empty() {
        return Err(Error::input(
            folder,
            "no .parv, .diskspecs or .model file in this folder: give the folder of a description",
        ));
    }
    Ok(drives)
}

/// The drive of one description, a `.parv`, `.diskspecs` or `.model` file; `read` gives the content of a file.
pub fn disksim_file(path: &Path, read: Read) -> Result<Imported, Error> {
    import_noting(path, read, &mut BTreeSet::new())?
        .ok_or_else(|| Error::input(path, "it sets up no disk of the kind disksim_disk: give the file of one"))
}

/// The drive of one description; `None` if it is of another kind of device. Notes the files that it names in `used`.
fn import_noting(path: &Path, read: Read, used: &mut BTreeSet<PathBuf>) -> Result<Option<Imported>, Error> {
    let mut files = Files { read, used };
    let blocks = files.with_sources(path)?;
    // The first disk counts: a file may set up several devices.
    let specs = blocks.iter().find(|block| block.type_name == "disksim_disk");
    let model = match (specs, blocks.iter().find(|block| block.type_name == "dm_disk")) {
        (Some(specs), _) => files.read_block(specs, "Model", specs.required("Model")?, "dm_disk")?,
        (None, Some(model)) => model.clone(),
        (None, None) if blocks.iter().any(|block| OTHER_DEVICES.contains(&block.type_name.as_str())) => {
            return Ok(None);
        }
        (None, None) => {
            let message = "no block disksim_disk or dm_disk, and no source line that names a file with one: add it";
            return Err(bad(path, 1, message));
        }
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy().to_string();
    let mut out = Toml::default();
    out.line(&format!(
        "# {name}: made by smrkit drives import disksim from {}.",
        path.display().to_string().escape_debug()
    ));
    out.line(&format!("name = {:?}", name));
    out.line(&format!("summary = {:?}", format!("{name}, as its DiskSim description says")));
    geometry(&mut out, &mut files, &model)?;
    mechanics(&mut out, &mut files, &model, specs)?;
    if let Some(specs) = specs {
        electronics(&mut out, specs, &blocks)?;
    }
    Ok(Some(Imported { name, text: out.0, from: path.into() }))
}

/// Devices without a disk's mechanics, which are not imported.
const OTHER_DEVICES: [&str; 3] = ["disksim_simpledisk", "memsmodel_mems", "ssdmodel_ssd"];

/// Writes rotation, seeks and switches.
fn mechanics(out: &mut Toml, files: &mut Files, model: &Block, specs: Option<&Block>) -> Result<(), Error> {
    const MODEL: &str = "Mechanical Model";
    let mechanics = files.read_block(model, MODEL, model.required(MODEL)?, "dm_mech_g1")?;
    if let Some(value) = mechanics.get("Access time type")
        && mechanics.text("Access time type")? != "trackSwitchPlusRotation"
    {
        let message = "Access time type: only trackSwitchPlusRotation, seeks and rotation, can be simulated: give it";
        return Err(mechanics.bad(value.line, message));
    }
    out.line("\n[mechanical]");
    out.number("rpm", &mechanics.number("Rotation speed (in rpms)")?);
    seek(out, files, &mechanics, model)?;
    out.number("switch_ms", &mechanics.number("Head switch time")?);
    match mechanics.optional("Add. write settling delay")? {
        Some(settle) if settle.value > 0.0 => out.number("write_settle_ms", &settle),
        Some(settle) if settle.value < 0.0 => {
            out.line(&format!("# left out: a negative write settle of {} ms ({})", settle.value, settle.source));
        }
        _ => {}
    }
    let overhead = specs.map(|specs| specs.optional("Read miss over. after read")).transpose()?.flatten();
    match overhead {
        Some(found) => out.number("overhead_ms", &found),
        None => out.value("overhead_ms", 0, "assumption: the description has no overheads"),
    }
    Ok(())
}

const SURFACES_MAX: u64 = 64;
/// Above all schemes that DiskSim numbers, so that a number of none is refused with the list of those that are known.
const SCHEME_MAX: u64 = 64;
const CYLINDERS_MAX: u64 = 1 << 31;
const TRACK_MAX: u64 = 1 << 24;
/// The most stretches with spares of their own that a zone lists.
const LISTED_MAX: u64 = 1 << 20;

/// Writes the geometry of a model.
fn geometry(out: &mut Toml, files: &mut Files, model: &Block) -> Result<(), Error> {
    let (surfaces, surfaces_at) = model.count("Number of data surfaces", SURFACES_MAX)?;
    let layout = files.read_block(model, "Layout Model", model.required("Layout Model")?, "dm_layout_g1")?;
    let (mapping, mapping_at) = layout.count("LBN-to-PBN mapping scheme", SCHEME_MAX)?;
    let order = match mapping {
        0 => "cylinders",
        1 => "alternating",
        2 => "alternating-throughout",
        _ => {
            let message = format!("LBN-to-PBN mapping scheme {mapping} is not known: give 0, 1 or 2");
            return Err(layout.bad(mapping_at.line, message));
        }
    };
    out.line("\n[geometry]");
    out.value("surfaces", surfaces, &surfaces_at.source);
    out.value("order", format!("{order:?}"), &mapping_at.source);
    // The sparing scheme and the units of skews hold for all zones.
    let rules = ZoneRules::from_layout(&layout, surfaces)?;
    let zones = layout.list("Zones")?;
    let Some(first) = zones.first() else {
        return Err(layout.bad(layout.line, "no Zones: add a list of dm_layout_g1_zone blocks"));
    };
    out.line("\n[geometry.zones]");
    out.line(&format!("source = {:?}", layout.source(first.line, "Zones; the line of each next to it")));
    out.line("value = [");
    for zone in zones {
        let zone = files.read_block(&layout, "Zones", zone, "dm_layout_g1_zone")?;
        out.line(&format!("  {{ {} }}, # {}", rules.zone(&zone)?, zone.source(zone.line, "zone")));
    }
    out.line("]");
    Ok(())
}

/// True if skews are shares of a revolution; a zone without the key takes `otherwise`, its layout's.
fn skews_in_revolutions(fields: &Block, otherwise: bool) -> Result<bool, Error> {
    match fields.get("Skew units") {
        None => Ok(otherwise),
        Some(value) => match fields.text("Skew units")? {
            "revolutions" => Ok(true),
            "sectors" => Ok(false),
            other => {
                let message = format!("Skew units = {other} are not known: give sectors or revolutions");
                Err(fields.bad(value.line, message))
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

/// The spares of a zone: `each` sectors in each stretch of `stretch` sectors, at its front or at its end.
#[derive(Clone, Copy)]
struct Spares {
    each: u64,
    stretch: u64,
    at_front: bool,
    /// True if slips use them up.
    take_slips: bool,
}

impl Spares {
    /// How many spares `slips` (first sector and count, in order) leave in the stretch from `start` on.
    fn left_in(&self, start: u64, slips: &[(u64, u64)]) -> u64 {
        if !self.take_slips {
            return self.each;
        }
        let before = |place: u64| slips.partition_point(|slip| slip.0 < place);
        let slips = &slips[before(start)..before(start + self.stretch)];
        let slipped: u64 = slips.iter().map(|&(_, count)| count).sum();
        self.each.saturating_sub(slipped)
    }

    /// The spares of all stretches of a zone: first sector and count of each.
    fn listed(&self, sectors: u64, slips: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut spares = Vec::new();
        for stretch in 0..sectors / self.stretch {
            let start = stretch * self.stretch;
            let count = self.left_in(start, slips);
            let first = if self.at_front { start } else { start + self.stretch - count };
            if count > 0 {
                spares.push((first, count));
            }
        }
        spares
    }
}

impl ZoneRules {
    fn from_layout(layout: &Block, surfaces: u64) -> Result<ZoneRules, Error> {
        let (scheme, at) = layout.count("Sparing scheme used", SCHEME_MAX)?;
        if scheme > 10 {
            return Err(layout.bad(at.line, format!("sparing scheme {scheme} is not known: give 0 to 10")));
        }
        let range = match layout.get("Rangesize for sparing") {
            Some(_) => layout.count("Rangesize for sparing", CYLINDERS_MAX)?.0,
            None => 1,
        };
        let in_revolutions = skews_in_revolutions(layout, false)?;
        Ok(ZoneRules { scheme, range_tracks: range.max(1) * surfaces, surfaces, in_revolutions })
    }

    /// A zone of the drive file, without its braces.
    fn zone(&self, zone: &Block) -> Result<String, Error> {
        let (first, _) = zone.count("First cylinder number", CYLINDERS_MAX)?;
        let (last, last_at) = zone.count("Last cylinder number", CYLINDERS_MAX)?;
        let (length, length_at) = zone.count("Blocks per track", TRACK_MAX)?;
        if last < first {
            return Err(zone.bad(
                last_at.line,
                format!("the zone ends at cylinder {last}, before its first: give {first} or more"),
            ));
        }
        if length == 0 {
            return Err(zone.bad(length_at.line, "Blocks per track = 0: give 1 or more"));
        }
        let tracks = last - first + 1;
        let all_tracks = tracks * self.surfaces;
        let sectors = all_tracks * length;
        let mut text = format!("first_cylinder = {first}, tracks = {tracks}, track_sectors = {length}");
        let _ = write!(text, ", offset = {}", self.angle(zone, "Offset of first block", length)?);
        for (key, name) in [("Skew for track switch", "head_skew"), ("Skew for cylinder switch", "cylinder_skew")] {
            let skew = if zone.get(key).is_some() { self.angle(zone, key, length)? } else { 0.0 };
            let _ = write!(text, ", {name} = {skew}");
        }
        let mut slips = self.slips(zone, length, all_tracks)?;
        let (spares, spares_at) = zone.count("Number of spares", sectors)?;
        let spares = self.spares(spares, length, all_tracks, slips.len() as u64);
        if spares.is_some_and(|spares| spares.each >= spares.stretch) {
            return Err(zone.bad(spares_at.line, "no fewer spares than sectors that they stand for: give fewer"));
        }
        let front = front(zone, sectors, spares, &slips)?;
        if front > 0 {
            let _ = write!(text, ", front = {front}");
        }
        // A drive file has keys for spares at the end of each stretch that slips use up; others are listed as slips themselves.
        match spares {
            Some(Spares { each, stretch, at_front: false, take_slips: true }) => {
                let _ = write!(text, ", spare_sectors = {each}, spare_tracks = {}", stretch / length);
            }
            Some(spares) if sectors / spares.stretch > LISTED_MAX => {
                return Err(zone.bad(spares_at.line, "more than 2^20 cylinders with spares: give fewer"));
            }
            Some(spares) => slips.extend(spares.listed(sectors, &slips)),
            None => {}
        }
        if !slips.is_empty() {
            let slip = |&(first, count): &(u64, u64)| match count {
                1 => first.to_string(),
                _ => format!("[{first}, {count}]"),
            };
            let slips: Vec<String> = slips.iter().map(slip).collect();
            let _ = write!(text, ", slips = [{}]", slips.join(", "));
        }
        Ok(text)
    }

    /// An angle in sectors.
    fn angle(&self, zone: &Block, key: &str, length: u64) -> Result<f64, Error> {
        let found = zone.positive(key)?;
        let in_revolutions = skews_in_revolutions(zone, self.in_revolutions)?;
        Ok(if in_revolutions { found.value * length as f64 } else { found.value })
    }

    /// The spares of a zone of `all` tracks of `length` sectors with `slips` slips, under the sparing scheme of this number in DiskSim's
    /// manual.
    fn spares(&self, spares: u64, length: u64, all: u64, slips: u64) -> Option<Spares> {
        let cylinder = self.surfaces * length;
        let (each, stretch) = match self.scheme {
            // Spare tracks of the zone; then spare sectors of each cylinder, track, range of tracks, or of the zone.
            1 => (spares.saturating_mul(length), all * length),
            2 | 4 | 5 | 6 => (spares, cylinder),
            3 => (spares, length),
            8 => (spares, self.range_tracks * length),
            9 => (spares, all * length),
            // Slips use up no spares here: the sectors that they displace lie before the spares.
            10 => (spares + slips, all * length),
            _ => return None,
        };
        if each == 0 {
            return None;
        }
        Some(Spares {
            each,
            stretch,
            at_front: matches!(self.scheme, 5 | 6),
            take_slips: !matches!(self.scheme, 4 | 6),
        })
    }

    /// Raw sectors that are passed over, as first and count; whole tracks if tracks are the spares.
    fn slips(&self, zone: &Block, length: u64, tracks: u64) -> Result<Vec<(u64, u64)>, Error> {
        let (places, each) = if self.scheme == 1 { (tracks, length) } else { (tracks * length, 1) };
        let mut slips = Vec::new();
        for value in zone.list("slips")? {
            let number = if matches!(value.kind, ParamKind::Text(_)) { value.number() } else { None };
            match number {
                Some(place) if place.fract() == 0.0 && place >= 0.0 && place < places as f64 => {
                    slips.push((place as u64 * each, each));
                }
                _ => {
                    let message = format!("slips: expected a place inside of the zone, below {places}");
                    return Err(zone.bad(value.line, message));
                }
            }
        }
        slips.sort_unstable();
        Ok(slips)
    }
}

/// How many raw sectors at a zone's front hold nothing. The description's number leaves out the spares and slips among them.
fn front(zone: &Block, sectors: u64, spares: Option<Spares>, slips: &[(u64, u64)]) -> Result<u64, Error> {
    let (empty, at) = zone.count("Empty space at zone front", sectors)?;
    if empty == 0 {
        return Ok(0);
    }
    // The whole stretches that are empty, and the rest of the empty sectors in the next.
    let (stretches, within, stretch) = match spares {
        Some(Spares { each, stretch, .. }) => (empty / (stretch - each), empty % (stretch - each), stretch),
        None => (0, empty, 0),
    };
    let Some(start) = stretches.checked_mul(stretch).filter(|start| *start < sectors) else {
        return Err(zone.bad(at.line, "more empty space than the zone holds: give less"));
    };
    let mut raw = start + within;
    if let Some(spares) = spares.filter(|spares| spares.at_front) {
        raw += spares.left_in(start, slips);
    }
    // Each slip that is passed moves the place further, perhaps past the next slip.
    for &(first, count) in slips {
        if (start..=raw).contains(&first) {
            raw += count;
        }
    }
    Ok(raw)
}

/// Up to this distance an equation is sampled at each cylinder; beyond, points are a fiftieth apart.
const DENSE: u64 = 64;
const SEEK_MS_MAX: f64 = 2000.0;

/// Writes the seek curve of a mechanical model. Equations are sampled over the cylinders of the disk.
fn seek(out: &mut Toml, files: &mut Files, mechanics: &Block, model: &Block) -> Result<(), Error> {
    let cylinders = || Ok::<u64, Error>(model.count("Number of cylinders", CYLINDERS_MAX)?.0);
    let kind = mechanics.text("Seek type")?;
    let kind_at = mechanics.source(mechanics.required("Seek type")?.line, "Seek type");
    let (points, source) = match kind {
        "extracted" => {
            let name = mechanics.text("Full seek curve")?;
            let path = mechanics.path.with_file_name(name.strip_prefix("source ").unwrap_or(name).trim());
            let points = measured(&path, &files.text(&path)?)?;
            (points, format!("{}, all lines", path.file_name().unwrap_or_default().to_string_lossy()))
        }
        "constant" => {
            let key =
                if mechanics.get("Constant seek time").is_some() { "Constant seek time" } else { "Average seek time" };
            let time = mechanics.positive(key)?;
            // The line through the two is level, also beyond them.
            (vec![(1, time.value), (2, time.value)], time.source)
        }
        "linear" | "curve" => {
            let (points, source) = three_times(mechanics, cylinders()?, kind == "curve")?;
            (points, format!("{kind_at} = {kind}; {source}"))
        }
        "hpl" | "hplplus10" => {
            let (points, source) = hpl(mechanics, kind == "hplplus10", cylinders)?;
            (points, format!("{kind_at} = {kind}; {source}"))
        }
        other => {
            let message = format!(
                "Seek type = {other} is not known: give extracted (with Full seek curve), linear, curve, constant, hpl or hplplus10"
            );
            return Err(mechanics.bad(mechanics.required("Seek type")?.line, message));
        }
    };
    let list: Vec<String> = points.iter().map(|(distance, ms)| format!("[{distance}, {ms}]")).collect();
    out.value("seek_cylinders", format!("[{}]", list.join(", ")), &source);
    Ok(())
}

/// Points of an equation: ascending, inside of the disk, at least two. `edge` is a distance at which the equation changes, or 0.
fn sampled(cylinders: u64, edge: u64, ms: impl Fn(u64) -> f64) -> Vec<(u64, f64)> {
    let beyond = std::iter::successors(Some(DENSE), |distance| Some(distance + distance / 50));
    let mut distances: Vec<u64> = (1..DENSE).chain(beyond.take_while(|distance| *distance < cylinders)).collect();
    distances.extend([cylinders.saturating_sub(1), edge.saturating_sub(1), edge]);
    // Distances 1 and 2 always stay, so that there are two points.
    distances.retain(|distance| (1..cylinders.max(3)).contains(distance));
    distances.sort_unstable();
    distances.dedup();
    let rounded = |ms: f64| (ms.clamp(0.0, SEEK_MS_MAX) * 1e6).round() / 1e6;
    distances.into_iter().map(|distance| (distance, rounded(ms(distance)))).collect()
}

/// Lines from one cylinder over a third of the stroke, the average seek, to all of it.
fn lines_through(one: f64, average: Option<f64>, full: f64, cylinders: u64) -> Vec<(u64, f64)> {
    let third = cylinders / 3;
    let mut points = vec![(1, one)];
    if let Some(average) = average
        && third > 1
    {
        points.push((third, average));
    }
    // Beyond the first point, even on a disk without room for it.
    points.push((cylinders.saturating_sub(1).max(2), full));
    points
}

/// The seek curve through the times of a single cylinder, on average and of the full stroke, and its source: lines, or Lee's equation.
fn three_times(mechanics: &Block, cylinders: u64, by_equation: bool) -> Result<(Vec<(u64, f64)>, String), Error> {
    let given_one = mechanics.positive("Single cylinder seek time")?;
    let given_full = mechanics.positive("Full strobe seek time")?;
    let given_average = match mechanics.get("Average seek time") {
        Some(_) => Some(mechanics.positive("Average seek time")?),
        None => None,
    };
    let source = match &given_average {
        Some(average) => format!("{}; {}; {}", given_one.source, average.source, given_full.source),
        None => format!("{}; {}", given_one.source, given_full.source),
    };
    let (one, average, full) = (given_one.value, given_average.map(|time| time.value), given_full.value);
    let lines = lines_through(one, average, full, cylinders);
    // Lee's equation is fitted to all three.
    let Some(average) = average.filter(|_| by_equation) else { return Ok((lines, source)) };
    // The time over a distance of d + 1 cylinders is a √d + b d + one. Over the full stroke, d is about n. Over random distances, the mean of
    // √d is 8/15 √n and that of d is n/3. So a √n + b n = full − one, and 8/15 a √n + b n/3 = average − one.
    let n = cylinders.max(1) as f64;
    let root_factor = (-10.0 * one + 15.0 * average - 5.0 * full) / (3.0 * n.sqrt());
    let factor = (7.0 * one - 15.0 * average + 8.0 * full) / (3.0 * n);
    if root_factor < 0.0 || factor < 0.0 {
        // The equation would fall with the distance.
        return Ok((lines, source));
    }
    let ms = |distance: u64| {
        let further = (distance - 1) as f64;
        root_factor * further.sqrt() + factor * further + one
    };
    Ok((sampled(cylinders, 0, ms), source))
}

/// The equation of Ruemmler and Wilkes, and its source: a root below a distance, a line from there on. `has_first_ten`: the times of the
/// first ten distances are listed.
fn hpl(
    mechanics: &Block,
    has_first_ten: bool,
    cylinders: impl Fn() -> Result<u64, Error>,
) -> Result<(Vec<(u64, f64)>, String), Error> {
    const KEY: &str = "HPL seek equation values";
    const FIRST_TEN: &str = "First ten seek times";
    let values = times(mechanics, KEY, 6)?;
    let line = mechanics.required(KEY)?.line;
    // -1 stands for no time of its own for one cylinder.
    if values[..5].iter().any(|value| *value < 0.0) || !(values[5] >= 0.0 || values[5] == -1.0) {
        return Err(mechanics.bad(line, format!("{KEY}: give numbers from 0 on; only the last may be -1")));
    }
    let first_ten = if has_first_ten { times(mechanics, FIRST_TEN, 10)? } else { Vec::new() };
    if first_ten.iter().any(|ms| *ms < 0.0) {
        let message = format!("{FIRST_TEN}: give milliseconds from 0 on");
        return Err(mechanics.bad(mechanics.required(FIRST_TEN)?.line, message));
    }
    let [division, root_ms, root_factor, line_ms, line_factor, one_cylinder] = [0, 1, 2, 3, 4, 5].map(|at| values[at]);
    let division = division as u64;
    let ms = |distance: u64| match distance {
        1..=10 if has_first_ten => first_ten[distance as usize - 1],
        1 if one_cylinder >= 0.0 => one_cylinder,
        _ if distance < division => root_ms + root_factor * (distance as f64).sqrt(),
        _ => line_ms + line_factor * distance as f64,
    };
    Ok((sampled(cylinders()?, division, ms), mechanics.source(line, KEY)))
}

/// The numbers of a list, at least `least`.
fn times(mechanics: &Block, key: &str, least: usize) -> Result<Vec<f64>, Error> {
    let line = mechanics.required(key)?.line;
    let list = mechanics.list(key)?;
    let numbers: Vec<f64> = list.iter().filter_map(|value| value.number()).collect();
    if numbers.len() < list.len() || numbers.len() < least {
        return Err(mechanics.bad(line, format!("{key}: give at least {least} numbers in brackets")));
    }
    Ok(numbers)
}

/// The points of a measured seek curve: distance, milliseconds and perhaps their deviation.
fn measured(path: &Path, text: &str) -> Result<Vec<(u64, f64)>, Error> {
    let mut lines = (1u64..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (number, heading) = lines.next().ok_or_else(|| bad(path, 1, "an empty seek curve: copy the file again"))?;
    let count = heading.trim().strip_prefix("Seek distances measured:").and_then(|n| n.trim().parse::<usize>().ok());
    let count = count.ok_or_else(|| bad(path, number, "expected \"Seek distances measured: N\""))?;
    let mut points: Vec<(u64, f64)> = Vec::new();
    for (number, line) in lines {
        let columns: Vec<&str> = line.split(',').map(str::trim).collect();
        let point = match columns[..] {
            [_, _, deviation] if deviation.parse::<f64>().is_err() => None,
            [distance, ms] | [distance, ms, _] => distance.parse::<u64>().ok().zip(ms.parse::<f64>().ok()),
            _ => None,
        };
        let (distance, ms) =
            point.ok_or_else(|| bad(path, number, "expected a distance in cylinders, a comma, and milliseconds"))?;
        if distance == 0 || points.last().is_some_and(|last| last.0 >= distance) {
            return Err(bad(path, number, "distances must rise from 1 on: put the lines in order"));
        }
        if !(0.0..=SEEK_MS_MAX).contains(&ms) {
            return Err(bad(path, number, format!("a seek of {ms} ms: give milliseconds from 0 to {SEEK_MS_MAX}")));
        }
        points.push((distance, ms));
    }
    // The heading's number shows whether the file was cut short.
    if points.len() != count || count == 0 {
        let message = format!(
            "{count} distances are announced and {} follow: the file was cut short, copy it again",
            points.len()
        );
        return Err(bad(path, number, message));
    }
    Ok(points)
}

/// The slowest transfer of a sector among all buses (by their `key`) and the drive itself. `None` if no transfer takes time.
fn bus_time(key: &str, specs: &Block, blocks: &[Block]) -> Result<Option<SourcedNumber>, Error> {
    let mut times = Vec::new();
    for bus in blocks.iter().filter(|block| block.type_name == "disksim_bus") {
        times.extend(bus.optional(key)?);
    }
    times.extend(specs.optional("Bulk sector transfer time")?);
    times.retain(|time| time.value > 0.0);
    Ok(times.into_iter().max_by(|a, b| a.value.total_cmp(&b.value)))
}

/// Buffer, bus and overheads.
fn electronics(out: &mut Toml, specs: &Block, blocks: &[Block]) -> Result<(), Error> {
    let read = bus_time("Read block transfer time", specs, blocks)?;
    let write = bus_time("Write block transfer time", specs, blocks)?;
    // One rate for both directions needs one key only.
    let differs = write.as_ref().map(|time| time.value) != read.as_ref().map(|time| time.value);
    for (key, time) in [("bus_bytes_per_s", read), ("write_bus_bytes_per_s", write.filter(|_| differs))] {
        if let Some(time) = time {
            let source = format!("{}: {} ms a sector", time.source, time.value);
            out.value(key, SECTOR_BYTES as f64 / time.value * 1000.0, &source);
        }
    }
    overheads(out, specs)?;
    let (segment, segment_at) = specs.count("Segment size (in blks)", 1 << 32)?;
    let (level, level_at) = specs.count("Fast write level", 2)?;
    if level > 0 {
        let (segments, at) = specs.count("Maximum number of write segments", 1 << 16)?;
        let source = format!("{} times {}; {}", at.source, segment_at.source, level_at.source);
        out.value("write_cache_bytes", segments * segment * SECTOR_BYTES, &source);
        out.value(
            "write_cache_order",
            "\"arrival\"",
            &format!("{}, which DiskSim does in this order", level_at.source),
        );
    }
    watermark(out, specs, "High (read) water mark", "watermark")?;
    // Only without fast writes do the media wait for a write's data.
    if level == 0 {
        watermark(out, specs, "Low (write) water mark", "write_watermark")?;
    }
    read_ahead(out, specs, segment, &segment_at)
}

fn watermark(out: &mut Toml, specs: &Block, key: &str, name: &str) -> Result<(), Error> {
    let Some(mark) = specs.optional(key)?.filter(|mark| mark.value > 0.0) else { return Ok(()) };
    match specs.optional("Set watermark by reqsize")? {
        // The mark is a share of a segment, which is more than most requests ask for: the buffer waits for the whole request.
        Some(of_request) if of_request.value == 0.0 => {
            out.value(name, 1, &format!("{}; {}: assumption", mark.source, of_request.source));
        }
        _ => out.value(name, mark.value.min(1.0), &mark.source),
    }
    Ok(())
}

fn read_ahead(out: &mut Toml, specs: &Block, segment: u64, segment_at: &SourcedNumber) -> Result<(), Error> {
    let (to, to_at) = specs.count("Buffer continuous read", 4)?;
    let caches = specs.optional("Enable caching in buffer")?.is_none_or(|found| found.value > 0.0);
    match to {
        _ if to == 0 || !caches => {}
        1 => out.value("read_ahead_to", "\"track\"", &to_at.source),
        4 => out.value("read_ahead_to", "\"next-track\"", &to_at.source),
        // To the end of the segment, which stands for the end of the cylinder, too, because it comes first.
        _ => {
            let most = specs.optional("Maximum read-ahead (blks)")?;
            let sectors = most.as_ref().map_or(segment, |most| (most.value.max(0.0) as u64).min(segment));
            let source = most.map_or(segment_at.source.clone(), |most| most.source);
            out.value("read_ahead_bytes", sectors * SECTOR_BYTES, &format!("{source}; {}", to_at.source));
        }
    }
    out.value("segment_bytes", segment * SECTOR_BYTES, &segment_at.source);
    if let Some(count) = specs.optional("Number of buffer segments")?.filter(|count| count.value > 1.0) {
        out.value("segments", count.value.min(4096.0) as u32, &count.source);
    }
    if let Some(passing) = specs.optional("Read any free blocks")?.filter(|found| found.value > 0.0) {
        out.value("reads_passing", true, &passing.source);
    }
    if let Some(immediate) = specs.optional("Immediate buffer read")?.filter(|found| found.value > 0.0) {
        out.line(&format!("# left out: sectors read as they pass ({})", immediate.source));
    }
    if let Some(over) = specs.optional("Read-ahead over requested")? {
        out.value("keeps_requested", over.value == 0.0, &over.source);
    }
    Ok(())
}

/// True if a switch is there, and on.
fn is_set(specs: &Block, key: &str) -> Result<bool, Error> {
    Ok(specs.optional(key)?.is_some_and(|found| found.value > 0.0))
}

/// Overheads by kind and by the kind of the request before, and those at the end of a request.
fn overheads(out: &mut Toml, specs: &Block) -> Result<(), Error> {
    let scale = specs.optional("Time scale for overheads")?.map_or(1.0, |found| found.value);
    let each = specs.optional("Per-request overhead time")?.map_or(0.0, |found| found.value);
    let ms = |found: &SourcedNumber| found.value * scale + each;
    let extra_disconnect = match is_set(specs, "Extra write disconnect")? {
        true => Some(specs.number("Extradisc command overhead")?),
        false => None,
    };
    for (kind, key) in [
        ("Read miss", "read_miss_ms"),
        ("Read hit", "read_hit_ms"),
        ("Write hit", "write_ms"),
        ("Write miss", "media_write_ms"),
    ] {
        let after_read = specs.number(&format!("{kind} over. after read"))?;
        let after_write = specs.number(&format!("{kind} over. after write"))?;
        match extra_disconnect.as_ref().filter(|_| kind.starts_with("Write")) {
            // For a write that disconnects once more, DiskSim takes this overhead instead of those.
            Some(instead) => out.value(key, ms(instead), &instead.source),
            None => {
                let source = format!("{} and line {}", after_read.source, after_write.line);
                out.value(key, format!("[{}, {}]", ms(&after_read), ms(&after_write)), &source);
            }
        }
    }
    bus_overheads(out, specs, scale, extra_disconnect.is_some())
}

/// Overheads that the bus adds to a request, each the sum of several of DiskSim's. `disconnects_more`: a write disconnects once more.
fn bus_overheads(out: &mut Toml, specs: &Block, scale: f64, disconnects_more: bool) -> Result<(), Error> {
    let (level, level_at) = specs.count("Fast write level", 2)?;
    let waits_for_media = level == 0;
    let reselects = !is_set(specs, "Never disconnect")?;
    // A command that waits for the media disconnects from the bus, and reselects it later.
    let reselect = if disconnects_more { "Other reselect overhead" } else { "First reselect overhead" };
    let delays: &[&str] = match (waits_for_media, disconnects_more) {
        (false, _) => &[],
        (true, false) => &["Minimum seek delay"],
        (true, true) => &[
            "Extradisc disconnect overhead",
            "Extradisc inter-disconnect delay",
            "Extradisc 2nd disconnect overhead",
            "Minimum seek delay",
        ],
    };
    let sums: [(&str, &[&str]); 4] = [
        ("write_data_ms", delays),
        ("read_reselect_ms", if reselects { &["First reselect overhead"] } else { &[] }),
        ("read_completion_ms", &["Read completion overhead", "Data preparation overhead"]),
        (
            "write_completion_ms",
            if reselects && waits_for_media {
                &["Write completion overhead", reselect]
            } else {
                &["Write completion overhead"]
            },
        ),
    ];
    for (key, parts) in sums {
        let (mut sum, mut sources) = (0.0, Vec::new());
        for part in parts {
            if let Some(time) = specs.optional(part)?.filter(|time| time.value != 0.0) {
                sum += time.value * scale;
                sources.push(time.source);
            }
        }
        // Media wait for the data of unbuffered writes, even if that comes without delay.
        let waits = waits_for_media && key == "write_data_ms";
        if waits {
            sources.push(level_at.source.clone());
        }
        if sum != 0.0 || waits {
            out.value(key, sum, &sources.join("; "));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
