//! DiskSim 4.0's descriptions: `.model` (layout, mechanics), `.seek`, `.diskspecs` (buffer, overheads), `.parv` (buses).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use super::params::{Fields, ParamKind, ParamValue, Params, SourcedNumber, bad, parse};
use crate::error::Error;
use crate::units::SECTOR_BYTES;

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

/// Reads a file of a description.
type Read<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// A larger file is no description.
const BYTES_MAX: usize = 64 << 20;

/// The drives that the files of a folder describe.
pub(super) fn import(folder: &Path, read: Read) -> Result<Vec<Imported>, Error> {
    let listed = std::fs::read_dir(folder).map_err(|error| Error::reading(folder, error))?;
    let mut paths: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let with_ending = |ending: &str| -> Vec<&PathBuf> {
        paths.iter().filter(|path| path.extension().is_some_and(|own| own == ending)).collect()
    };
    let mut used = BTreeSet::new();
    let mut drives = Vec::new();
    for ending in ["parv", "diskspecs", "model"] {
        for path in with_ending(ending) {
            if !used.contains(path.as_path()) {
                drives.push(import_noting(path, read, &mut used)?);
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

/// The drive of one description.
pub(super) fn import_file(path: &Path, read: Read) -> Result<Imported, Error> {
    import_noting(path, read, &mut BTreeSet::new())
}

fn import_noting(path: &Path, read: Read, used: &mut BTreeSet<PathBuf>) -> Result<Imported, Error> {
    let mut files = Files { read, used };
    let mut first = files.params(path)?;
    let buses = Buses::from_params(&first)?;
    let mut seen = BTreeSet::from([path.to_path_buf()]);
    while first.blocks.iter().all(|block| block.of != "disksim_disk" && block.of != "dm_disk") {
        let Some(name) = first.sources.first() else {
            let message = "no block disksim_disk or dm_disk, and no source line that names a file with one: add it";
            return Err(bad(path, 1, message));
        };
        let next = path.with_file_name(name);
        if !seen.insert(next.clone()) {
            let message =
                "its source lines name each other, and no disk: name a file with a block disksim_disk or dm_disk";
            return Err(bad(path, 1, message));
        }
        first = files.params(&next)?;
    }
    let specs = first.blocks.iter().find(|block| block.of == "disksim_disk").cloned();
    let (model_params, model_name) = match &specs {
        None => (first, path.to_path_buf()),
        Some(block) => {
            let fields = block.fields();
            let name = fields.text("Model")?;
            let name = name.strip_prefix("source ").ok_or_else(|| {
                bad(&block.path, block.line, "Model: expected the name of a file, as in Model = source drive.model")
            })?;
            let path = block.path.with_file_name(name);
            (files.params(&path)?, path)
        }
    };
    let model = model_params.blocks.iter().find(|block| block.of == "dm_disk");
    let model = model.ok_or_else(|| bad(&model_name, 1, "no block dm_disk: give the model of a disk"))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().to_string();
    let mut out = Toml::default();
    out.line(&format!(
        "# {name}: made by smrkit drives import disksim from {}.",
        path.display().to_string().escape_debug()
    ));
    out.line(&format!("name = {:?}", name));
    out.line(&format!("summary = {:?}", format!("{name}, as its DiskSim description says")));
    geometry(&mut out, &model.fields())?;
    mechanics(&mut out, &mut files, &model.fields(), specs.as_ref().map(|block| block.fields()))?;
    if let Some(block) = &specs {
        electronics(&mut out, &block.fields(), &buses)?;
    }
    Ok(Imported { name, text: out.0, from: path.into() })
}

struct Files<'a> {
    read: Read<'a>,
    used: &'a mut BTreeSet<PathBuf>,
}

impl Files<'_> {
    fn text(&mut self, path: &Path) -> Result<String, Error> {
        self.used.insert(path.into());
        let bytes = (self.read)(path).map_err(|error| Error::reading(path, error))?;
        if bytes.len() > BYTES_MAX {
            return Err(bad(path, 1, "more than 64 MiB: this is no description of a drive"));
        }
        String::from_utf8(bytes).map_err(|_| bad(path, 1, "not a text file: copy it again"))
    }

    fn params(&mut self, path: &Path) -> Result<Params, Error> {
        let text = self.text(path)?;
        parse(path, &text)
    }
}

/// The time that the slowest bus takes for a sector.
struct Buses(Option<SourcedNumber>);

impl Buses {
    fn from_params(params: &Params) -> Result<Buses, Error> {
        let mut slowest: Option<SourcedNumber> = None;
        for block in params.blocks.iter().filter(|block| block.of == "disksim_bus") {
            for key in ["Read block transfer time", "Write block transfer time"] {
                let found = block.fields().optional(key)?;
                if let Some(found) = found
                    && slowest.as_ref().is_none_or(|other| other.value < found.value)
                {
                    slowest = Some(found);
                }
            }
        }
        Ok(Buses(slowest))
    }
}

/// The lines of a drive file.
#[derive(Default)]
struct Toml(String);

impl Toml {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.0, "{line}");
    }

    fn value(&mut self, key: &str, value: impl std::fmt::Display, source: &str) {
        self.line(&format!("{key} = {{ value = {value}, source = {source:?} }}"));
    }
}

const CYLINDERS_MAX: u64 = 1 << 31;
const TRACK_MAX: u64 = 1 << 24;

fn geometry(out: &mut Toml, model: &Fields) -> Result<(), Error> {
    let (surfaces, surfaces_at) = model.count("Number of data surfaces", 64)?;
    let layout = model.block("Layout Model")?;
    let (mapping, mapping_at) = layout.count("LBN-to-PBN mapping scheme", 64)?;
    if mapping != 0 {
        let message = format!("LBN-to-PBN mapping scheme {mapping} is not known: give 0, cylinder by cylinder");
        return Err(bad(layout.path, mapping_at.line, message));
    }
    out.line("\n[geometry]");
    out.value("surfaces", surfaces, &surfaces_at.source);
    out.value("order", "\"cylinders\"", &mapping_at.source);
    let sparing = Sparing::from_layout(&layout, surfaces)?;
    let zones = layout.list("Zones")?;
    let Some(first) = zones.first() else {
        return Err(bad(layout.path, layout.line, "no Zones: add a list of dm_layout_g1_zone blocks"));
    };
    out.line("\n[geometry.zones]");
    out.line(&format!("source = {:?}", layout.source(first.line, "Zones; the line of each next to it")));
    out.line("value = [");
    for zone in zones {
        let ParamKind::Block(entries) = &zone.kind else {
            return Err(bad(layout.path, zone.line, "Zones: expected dm_layout_g1_zone { … }"));
        };
        let fields = Fields { path: layout.path, line: zone.line, entries };
        out.line(&format!("  {{ {} }}, # {}", sparing.zone(&fields, surfaces)?, layout.source(zone.line, "zone")));
    }
    out.line("]");
    Ok(())
}

/// Places of spares.
struct Sparing {
    scheme: u64,
    range: u64,
}

impl Sparing {
    fn from_layout(layout: &Fields, surfaces: u64) -> Result<Sparing, Error> {
        let (scheme, at) = layout.count("Sparing scheme used", 64)?;
        if !matches!(scheme, 0 | 1 | 2 | 3 | 7 | 8) {
            let message = format!("sparing scheme {scheme} is not known: give 0, 1, 2, 3, 7 or 8");
            return Err(bad(layout.path, at.line, message));
        }
        let range = match layout.optional("Rangesize for sparing")? {
            Some(_) => layout.count("Rangesize for sparing", CYLINDERS_MAX)?.0,
            None => 1,
        };
        Ok(Sparing { scheme, range: range.max(1) * surfaces })
    }

    /// A zone of the drive file, without its braces.
    fn zone(&self, zone: &Fields, surfaces: u64) -> Result<String, Error> {
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
        let all = tracks * surfaces;
        let mut text = format!("first_cylinder = {first}, tracks = {tracks}, track_sectors = {length}");
        for (key, name) in [
            ("Offset of first block", "offset"),
            ("Skew for track switch", "head_skew"),
            ("Skew for cylinder switch", "cylinder_skew"),
        ] {
            let found = zone.number(key)?;
            if found.value < 0.0 {
                return Err(bad(zone.path, found.line, format!("{key} = {}: give sectors from 0", found.value)));
            }
            let _ = write!(text, ", {name} = {}", found.value);
        }
        let (spares, _) = zone.count("Number of spares", all * length)?;
        let front = self.front(zone, length, spares)?;
        if front > 0 {
            let _ = write!(text, ", front = {front}");
        }
        let rule = match self.scheme {
            1 => Some((spares * length, all)),
            2 => Some((spares, surfaces)),
            3 => Some((spares, 1)),
            8 => Some((spares, self.range)),
            _ => None,
        };
        if let Some((sectors, tracks)) = rule.filter(|rule| rule.0 > 0) {
            let _ = write!(text, ", spare_sectors = {sectors}, spare_tracks = {tracks}");
        }
        let slips = self.slips(zone, length, all)?;
        if !slips.is_empty() {
            let _ = write!(text, ", slips = [{}]", slips.join(", "));
        }
        Ok(text)
    }

    /// Raw sectors at the front that hold nothing; the description counts usable ones where each track has spares.
    fn front(&self, zone: &Fields, length: u64, spares: u64) -> Result<u64, Error> {
        let (empty, _) = zone.count("Empty space at zone front", 1 << 40)?;
        let usable = length.saturating_sub(spares).max(1);
        Ok(if self.scheme == 3 { empty / usable * length + empty % usable } else { empty })
    }

    /// Places that are passed over: tracks where whole tracks are spares, else sectors.
    fn slips(&self, zone: &Fields, length: u64, tracks: u64) -> Result<Vec<String>, Error> {
        let number = |value: &ParamValue| {
            let number = match &value.kind {
                ParamKind::Text(text) => text.parse::<u64>().ok(),
                _ => None,
            };
            let most = if self.scheme == 1 { tracks } else { tracks * length };
            number.filter(|&n| n < most).ok_or_else(|| {
                bad(zone.path, value.line, format!("slips: expected a place inside of the zone, below {most}"))
            })
        };
        let slip = |value| {
            let at = number(value)?;
            Ok(if self.scheme == 1 { format!("[{}, {length}]", at * length) } else { at.to_string() })
        };
        zone.list("slips")?.iter().map(slip).collect()
    }
}

fn mechanics(out: &mut Toml, files: &mut Files, model: &Fields, specs: Option<Fields>) -> Result<(), Error> {
    let mechanics = model.block("Mechanical Model")?;
    out.line("\n[mechanical]");
    let rpm = mechanics.number("Rotation speed (in rpms)")?;
    out.value("rpm", rpm.value, &rpm.source);
    seek(out, files, &mechanics)?;
    let switch = mechanics.number("Head switch time")?;
    out.value("switch_ms", switch.value, &switch.source);
    match mechanics.optional("Add. write settling delay")? {
        Some(settle) if settle.value > 0.0 => out.value("write_settle_ms", settle.value, &settle.source),
        Some(settle) if settle.value < 0.0 => {
            out.line(&format!("# left out: a negative write settle of {} ms ({})", settle.value, settle.source));
        }
        _ => {}
    }
    let overhead = specs.map(|specs| specs.optional("Read miss over. after read")).transpose()?.flatten();
    match overhead {
        Some(found) => out.value("overhead_ms", found.value, &found.source),
        None => out.value("overhead_ms", 0, "assumption: the description has no overheads"),
    }
    Ok(())
}

fn seek(out: &mut Toml, files: &mut Files, mechanics: &Fields) -> Result<(), Error> {
    let line = mechanics.get("Seek type").map_or(mechanics.line, |value| value.line);
    match mechanics.text("Seek type")? {
        "extracted" => {
            let name = mechanics.text("Full seek curve")?;
            let path = mechanics.path.with_file_name(name.strip_prefix("source ").unwrap_or(name).trim());
            let points = seek_points(&path, &files.text(&path)?)?;
            let list: Vec<String> = points.iter().map(|(distance, ms)| format!("[{distance}, {ms}]")).collect();
            let source = format!("{}, all lines", path.file_name().unwrap_or_default().to_string_lossy());
            out.value("seek_cylinders", format!("[{}]", list.join(", ")), &source);
        }
        "constant" => {
            let time =
                mechanics.number("Average seek time").or_else(|_| mechanics.number("Single cylinder seek time"))?;
            out.value("seek_cylinders", format!("[[1, {0}], [2, {0}]]", time.value), &time.source);
        }
        "linear" => {
            let (one, all) =
                (mechanics.number("Single cylinder seek time")?, mechanics.number("Full strobe seek time")?);
            out.value(
                "seek",
                format!("[[0.0, {}], [1.0, {}]]", one.value, all.value),
                &format!("{} and {}", one.source, all.source),
            );
        }
        other => {
            let message =
                format!("Seek type = {other} is not known: give extracted (with Full seek curve), linear or constant");
            return Err(bad(mechanics.path, line, message));
        }
    }
    Ok(())
}

/// The points of a measured seek curve.
fn seek_points(path: &Path, text: &str) -> Result<Vec<(u64, f64)>, Error> {
    let mut lines = (1u64..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (number, heading) = lines.next().ok_or_else(|| bad(path, 1, "an empty seek curve: copy the file again"))?;
    let count = heading.trim().strip_prefix("Seek distances measured:").and_then(|n| n.trim().parse::<usize>().ok());
    let count = count.ok_or_else(|| bad(path, number, "expected \"Seek distances measured: N\""))?;
    let mut points: Vec<(u64, f64)> = Vec::new();
    for (number, line) in lines {
        let pair = line
            .split_once(',')
            .and_then(|(distance, ms)| Some((distance.trim().parse::<u64>().ok()?, ms.trim().parse::<f64>().ok()?)));
        let (distance, ms) =
            pair.ok_or_else(|| bad(path, number, "expected a distance in cylinders, a comma, and milliseconds"))?;
        if distance == 0 || points.last().is_some_and(|last| last.0 >= distance) {
            return Err(bad(path, number, "distances must rise from 1 on: put the lines in order"));
        }
        if !(0.0..=2000.0).contains(&ms) {
            return Err(bad(path, number, format!("a seek of {ms} ms: give milliseconds from 0 to 2000")));
        }
        points.push((distance, ms));
    }
    if points.len() != count || count == 0 {
        let message = format!(
            "{count} distances are announced and {} follow: the file was cut short, copy it again",
            points.len()
        );
        return Err(bad(path, number, message));
    }
    Ok(points)
}

/// Buffer, bus and overheads.
fn electronics(out: &mut Toml, specs: &Fields, buses: &Buses) -> Result<(), Error> {
    let own = specs.optional("Bulk sector transfer time")?;
    let slowest = own.into_iter().chain(buses.0.clone()).max_by(|a, b| a.value.total_cmp(&b.value));
    if let Some(bus) = slowest.filter(|bus| bus.value > 0.0) {
        let source = format!("{}: {} ms a sector", bus.source, bus.value);
        out.value("bus_bytes_per_s", SECTOR_BYTES as f64 / bus.value * 1000.0, &source);
    }
    overheads(out, specs)?;
    let (segment, segment_at) = specs.count("Segment size (in blks)", 1 << 32)?;
    let (level, level_at) = specs.count("Fast write level", 2)?;
    if level > 0 {
        let (segments, at) = specs.count("Maximum number of write segments", 1 << 16)?;
        let source = format!("{} times {}; {}", at.source, segment_at.source, level_at.source);
        out.value("write_cache_bytes", segments * segment * SECTOR_BYTES, &source);
    }
    let high = specs.optional("High (read) water mark")?;
    if let Some(high) = high.filter(|high| high.value > 0.0) {
        out.value("watermark", high.value.min(1.0), &high.source);
    }
    read_ahead(out, specs, segment, &segment_at)
}

fn read_ahead(out: &mut Toml, specs: &Fields, segment: u64, segment_at: &SourcedNumber) -> Result<(), Error> {
    let (to, to_at) = specs.count("Buffer continuous read", 4)?;
    let caches = specs.optional("Enable caching in buffer")?.is_none_or(|found| found.value > 0.0);
    match to {
        _ if !caches => {}
        0 => {}
        1 => out.value("read_ahead_to", "\"track\"", &to_at.source),
        4 => out.value("read_ahead_to", "\"next-track\"", &to_at.source),
        // To the end of the cylinder is taken for the end of the segment, which is nearer.
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
    if let Some(immediate) = specs.optional("Immediate buffer read")?.filter(|found| found.value > 0.0) {
        out.line(&format!("# left out: sectors read as they pass, any_order ({})", immediate.source));
    }
    if let Some(over) = specs.optional("Read-ahead over requested")? {
        out.value("keeps_requested", over.value == 0.0, &over.source);
    }
    Ok(())
}

/// Overheads by kind and by the kind of the request before, and those at the end of a request.
fn overheads(out: &mut Toml, specs: &Fields) -> Result<(), Error> {
    let scale = specs.optional("Time scale for overheads")?.map_or(1.0, |found| found.value);
    let each = specs.optional("Per-request overhead time")?.map_or(0.0, |found| found.value);
    for (kind, key) in [
        ("Read miss", "read_miss_ms"),
        ("Read hit", "read_hit_ms"),
        ("Write hit", "write_ms"),
        ("Write miss", "media_write_ms"),
    ] {
        let (read, write) =
            (specs.number(&format!("{kind} over. after read"))?, specs.number(&format!("{kind} over. after write"))?);
        let ms = |found: &SourcedNumber| found.value * scale + each;
        out.value(key, format!("[{}, {}]", ms(&read), ms(&write)), &format!("{} and line {}", read.source, write.line));
    }
    for (keys, key) in [
        (
            ["Read completion overhead", "Data preparation overhead", "First reselect overhead"].as_slice(),
            "read_completion_ms",
        ),
        (["Write completion overhead"].as_slice(), "write_completion_ms"),
    ] {
        let found: Vec<SourcedNumber> =
            keys.iter().filter_map(|key| specs.optional(key).transpose()).collect::<Result<_, _>>()?;
        let sum: f64 = found.iter().map(|found| found.value * scale).sum();
        if let Some(first) = found.first().filter(|_| sum != 0.0) {
            out.value(key, sum, &first.source);
        }
    }
    Ok(())
}
