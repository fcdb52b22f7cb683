//! Surface of a shingled disk: a table and a picture for the terminal, and a figure.

use smrfs::fsck::report::Fill;
use smrkit_live::survey::{Cell, Survey};

use smrkit_report::figure::{Axis, BarPart, Body, Colour, Figure, Numbers, Panel};
use smrkit_report::{Grid, format};

/// Cells in a line of the picture.
const WIDTH: usize = 64;
/// The smallest share of live data that gets a colour in a figure.
const PALEST: f64 = 0.01;

/// Granules free for files.
pub fn free(survey: &Survey) -> u64 {
    survey.usable.saturating_sub(survey.live + survey.promised)
}

/// The table and the picture.
pub fn text(name: &str, survey: &Survey) -> String {
    let mut out = format!("{}\n\n", summary(name, survey));
    out += &table(survey).text();
    if let Some(bands) = &survey.bands {
        out += &format!("\n\n{}", fill(bands).text());
    }
    out + "\n\n" + &picture(&survey.surface)
}

fn summary(name: &str, survey: &Survey) -> String {
    let bytes = |granules: u64| format::bytes((granules * survey.shape.granule_bytes) as f64);
    format!(
        "{name}: {} of {} free; {} files with data in {} extents; room for {} more files{}",
        bytes(free(survey)),
        bytes(survey.usable),
        format::count(survey.files),
        format::count(survey.extents),
        format::count(survey.free_nodes),
        match survey.damaged_maps {
            0 => String::new(),
            count => format!("; {} files with damaged maps (smrkit fsck names them)", format::count(count)),
        }
    )
}

/// The kinds of granules: name, colour, how many.
fn kinds(survey: &Survey) -> [(&'static str, Colour, u64); 4] {
    let counts = &survey.counts;
    [
        ("R: may be read", Colour::nth(0), counts.readable),
        ("NW: must not be written", Colour::VERMILION, counts.not_writable),
        ("WO: may be written once", Colour::ORANGE, counts.write_once),
        ("W: may be written", Colour::nth(2), counts.writable),
    ]
}

fn table(survey: &Survey) -> Grid {
    let mut grid = Grid::new(["disk", "bytes", "share"]);
    let raw = survey.shape.granules;
    let mut row = |name: &str, granules: u64| {
        let bytes = format::bytes((granules * survey.shape.granule_bytes) as f64);
        grid.rows.push(vec![name.into(), bytes, format::percent(granules as f64, raw as f64)]);
    };
    row("all of it, without superblocks", raw);
    kinds(survey).iter().for_each(|(name, _, granules)| row(name, *granules));
    row("garbage (in NW)", survey.counts.garbage);
    row("for files", survey.usable);
    row("promised", survey.promised);
    grid
}

/// The classes of bands and how many are in each.
fn classes(bands: &Fill) -> Vec<(String, u64)> {
    let mut classes = vec![("empty".to_string(), bands.empty), ("dead".to_string(), bands.dead)];
    let tenths = bands.by_tenth_live.iter().enumerate();
    classes.extend(tenths.map(|(i, &count)| (format!("up to {} % live", 10 * (i + 1)), count)));
    if bands.lost > 0 {
        classes.push(("lost".into(), bands.lost));
    }
    classes
}

fn fill(bands: &Fill) -> Grid {
    let mut grid = Grid::new(["bands", "number"]);
    let all = classes(bands).into_iter().filter(|(_, count)| *count > 0);
    grid.rows.extend(all.map(|(name, count)| vec![name, format::count(count)]));
    grid.rows.push(vec!["(of these open)".into(), format::count(bands.open)]);
    grid
}

fn picture(surface: &[Cell]) -> String {
    let mut out = String::new();
    for line in surface.chunks(WIDTH) {
        out.extend(line.iter().map(glyph));
        out.push('\n');
    }
    out + "█ full of live data  ▓ over half  ▒ some  - must not be written  + may be written once  · may be written\n"
}

fn glyph(cell: &Cell) -> char {
    let all = cell.granules();
    match cell.readable {
        live if live == all => '█',
        live if 2 * live > all => '▓',
        live if live > 0 => '▒',
        _ if cell.writable >= cell.not_writable.max(cell.write_once) => '·',
        _ if cell.write_once > cell.not_writable => '+',
        _ => '-',
    }
}

/// The survey as a figure.
pub fn figure(survey: &Survey) -> Figure {
    let bytes = |granules: u64| (granules * survey.shape.granule_bytes) as f64;
    let shares = Panel::new(
        Some("what may be done with the disk"),
        Axis { numbers: Numbers::Bytes, ..Axis::linear("bytes") },
        Axis::linear(""),
        Body::Bars {
            rows: vec!["disk".into()],
            totals: vec![format::bytes(bytes(survey.shape.granules))],
            parts: kinds(survey)
                .into_iter()
                .map(|(name, colour, granules)| BarPart { name: name.into(), colour, values: vec![bytes(granules)] })
                .collect(),
        },
    );
    let mut panels = vec![shares, live_data(survey)];
    panels.extend(survey.bands.as_ref().map(bands_by_fill));
    Figure {
        name: "surface".into(),
        title: "The surface of the disk".into(),
        note: format!(
            "{} of {} are free for files. Each line of the surface is a part of the disk, from its beginning on; the \
             darker, the more live data.",
            format::bytes(bytes(free(survey))),
            format::bytes(bytes(survey.usable))
        ),
        panels,
    }
}

fn live_data(survey: &Survey) -> Panel {
    let line_bytes =
        |cells: &[Cell]| -> u64 { cells.iter().map(Cell::granules).sum::<u64>() * survey.shape.granule_bytes };
    let mut begin = 0;
    let mut rows = Vec::new();
    for line in survey.surface.chunks(WIDTH) {
        let share = |cell: &Cell| cell.readable as f64 / cell.granules().max(1) as f64;
        let mut cells: Vec<f64> = line.iter().map(|cell| share(cell).max(0.0)).collect();
        cells.resize(WIDTH, 0.0);
        rows.push((format!("from {}", format::bytes(begin as f64)), cells));
        begin += line_bytes(line);
    }
    let end = survey.surface.chunks(WIDTH).next().map_or(0, line_bytes) as f64;
    let x = Axis { numbers: Numbers::Bytes, ..Axis::linear("bytes from the beginning of the line") };
    let y = Axis { numbers: Numbers::Percent, ..Axis::linear("live") };
    Panel::new(Some("live data"), x, y, Body::Strips { rows, end, range: (PALEST, 1.0) })
}

fn bands_by_fill(bands: &Fill) -> Panel {
    let classes = classes(bands);
    let body = Body::Bars {
        rows: classes.iter().map(|(name, _)| name.clone()).collect(),
        totals: classes.iter().map(|(_, count)| format::count(*count)).collect(),
        parts: vec![BarPart {
            name: "bands".into(),
            colour: Colour::SKY,
            values: classes.iter().map(|(_, count)| *count as f64).collect(),
        }],
    };
    Panel::new(Some("bands by fill"), Axis::linear("bands"), Axis::linear(""), body)
}

#[cfg(test)]
#[path = "../../../tests/units/surface.rs"]
mod tests;
