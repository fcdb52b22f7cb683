//! Survey of a volume: counts, bands by fill, and the disk's surface in cells.
//!
//! Without a mount, the order of past writes is unknown. So on Caveat-Scriptor, dead granules up to DPID downstream of live data count as NW
//! (not writable). A mount knows which of them can be written once, and counts these as WO; its surface is drawn as if it did not know.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use smrfs::device::{BandReport, HostManaged, Model, Shape};
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::statistics::Usage;
use smrfs::fs::{FileSystem, adopt_maps};
use smrfs::fsck::report::Fill;
use smrfs::meta::{Durability, StoreRoom};
use smrfs::units::{Granule, Span};

use crate::error::LiveError;
use crate::volume::Volume;

/// Granules of a part of the surface, by what may be done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// R: in maps.
    pub readable: u64,
    /// NW: must not be written.
    pub not_writable: u64,
    /// WO: may be written once.
    pub write_once: u64,
    /// W: may be written.
    pub writable: u64,
}

impl Cell {
    /// All of its granules.
    pub fn granules(&self) -> u64 {
        self.readable + self.not_writable + self.write_once + self.writable
    }
}

/// Counts of a volume, and its surface.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Survey {
    /// The disk for data.
    pub shape: Shape,
    /// Room and what is in it.
    pub usage: Usage,
    /// The bands, on strict-append.
    pub bands: Option<Fill>,
    /// Regular files with data, as far as their maps can be used.
    pub files: u64,
    /// Files whose maps can't be used.
    pub damaged_maps: u64,
    /// Extents of their maps.
    pub extents: u64,
    /// The surface, from its beginning on.
    pub surface: Vec<Cell>,
}

/// Looks at a volume; the surface in about `cells` parts.
pub fn survey(volume: &Volume, cells: usize) -> Result<Survey, LiveError> {
    let mut space = volume.space()?;
    let device = volume.device();
    let store = volume.store();
    let adopted = adopt_maps(&*store, &mut *space, &mut |_, _| ()).map_err(|error| volume_error(volume, error))?;
    let reports = device.report(0, device.shape().bands.count).map_err(|error| volume_error(volume, error.into()))?;
    space.start(&reports);
    let spans: Vec<Span> = space.live().from(Granule(0)).map(|(span, _)| span).collect();
    let StoreRoom { nodes, free_nodes, .. } = store.room().map_err(|error| volume_error(volume, error))?;
    let usage = Usage {
        usable: space.usable(),
        live: adopted.mapped,
        promised: adopted.promised,
        counts: space.counts(),
        nodes,
        free_nodes,
        ..Usage::default()
    };
    let (bands, surface) = draw(device.shape(), &reports, &spans, cells);
    let (shape, damaged_maps, extents) = (*device.shape(), adopted.damaged.len() as u64, spans.len() as u64);
    Ok(Survey { shape, usage, bands, files: adopted.files, damaged_maps, extents, surface })
}

/// Looks at a mounted file system on `device`; the surface in about `cells` parts.
pub fn survey_of_mount(core: &FileSystem, device: &dyn HostManaged, cells: usize) -> FsResult<Survey> {
    let reports = device.report(0, device.shape().bands.count)?;
    let (usage, live) = (core.usage()?, core.live());
    let files: HashSet<u64> = live.iter().chain(&core.further_owners()).map(|(_, owner)| owner.file.0).collect();
    let spans: Vec<Span> = live.iter().map(|(span, _)| *span).collect();
    let (bands, surface) = draw(device.shape(), &reports, &spans, cells);
    let (shape, damaged_maps, extents) = (*device.shape(), core.damaged_maps().len() as u64, spans.len() as u64);
    Ok(Survey { shape, usage, bands, files: files.len() as u64, damaged_maps, extents, surface })
}

/// Returns the bands by fill, on strict-append, and the surface in about `cells` parts. `live` are the spans of live data, in order.
fn draw(shape: &Shape, reports: &[BandReport], live: &[Span], cells: usize) -> (Option<Fill>, Vec<Cell>) {
    let (bands, writable) = match shape.model {
        Model::StrictAppend => {
            let live_granules = shape.bands.granules_by_band(live.iter().copied());
            (Some(Fill::new(&shape.bands, reports, &live_granules)), writable_in_bands(shape, reports))
        }
        Model::Caveat => (None, writable_gaps(shape, live)),
    };
    (bands, surface(shape, live, &writable, cells))
}

fn volume_error(volume: &Volume, error: FsError) -> LiveError {
    match error {
        FsError::Errno(Errno::ENOSPC) => LiveError::Full(volume.meta().into()),
        error => LiveError::image(&volume.image, error.to_string()),
    }
}

/// The gaps between live data on Caveat-Scriptor, without what is too near to it.
fn writable_gaps(shape: &Shape, live: &[Span]) -> Vec<Span> {
    let mut writable = Vec::new();
    let mut from = 0;
    // A write damages what lies up to DID downstream of it. Up to DPID upstream of it, a second write would, and without a mount it is not known
    // whether there was a first.
    let ends = live.iter().map(|span| (span.at.0.saturating_sub(shape.did), span.end().0 + shape.dpid));
    for (to, next) in ends.chain([(shape.granules, 0)]) {
        if from < to {
            writable.push(Span::new(from, to - from));
        }
        from = next;
    }
    writable
}

/// The rest of each band, from its cursor on.
fn writable_in_bands(shape: &Shape, reports: &[BandReport]) -> Vec<Span> {
    let usable = (0..).zip(reports).filter(|(_, report)| !report.state.is_lost());
    let rests = usable.map(|(number, report)| {
        let end = shape.bands.span(number).end();
        Span { at: report.cursor, count: end.0.saturating_sub(report.cursor.0) }
    });
    rests.filter(|rest| !rest.is_empty()).collect()
}

/// Counts granules cell by cell.
fn surface(shape: &Shape, readable: &[Span], writable: &[Span], cells: usize) -> Vec<Cell> {
    let granules = shape.granules.div_ceil(cells.max(1) as u64).max(1);
    let mut surface: Vec<Cell> = (0..shape.granules.div_ceil(granules))
        .map(|i| Cell { not_writable: granules.min(shape.granules - i * granules), ..Cell::default() })
        .collect();
    let mut count_spans = |spans: &[Span], add: fn(&mut Cell, u64)| {
        for &span in spans {
            let mut left = span;
            while !left.is_empty() {
                let number = left.at.0 / granules;
                let count = left.count.min((number + 1) * granules - left.at.0);
                if let Some(cell) = surface.get_mut(number as usize) {
                    cell.not_writable -= count;
                    add(cell, count);
                }
                left = Span { at: left.at + count, count: left.count - count };
            }
        }
    };
    count_spans(readable, |cell, count| cell.readable += count);
    count_spans(writable, |cell, count| cell.writable += count);
    surface
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;
    use smrfs::device::{BandState, Bands};

    use super::*;

    /// Bands of that many granules, and a few more behind the last gap.
    fn disk(model: Model, count: u64, granules: u64, gap_granules: u64) -> Shape {
        let bands = Bands { count, granules, gap_granules, max_open: 4 };
        let granules = count * (granules + gap_granules) + 5;
        Shape { model, granule_bytes: 4096, granules, did: 6, dpid: 3, bands }
    }

    /// The picture of what each granule is, one after the other: `R`, `W`, or `-` for what must not be written.
    fn pictured(labels: &[u8], cells: usize) -> Vec<Cell> {
        let kinds = |part: &[u8], kind| part.iter().filter(|&&label| label == kind).count() as u64;
        let cell = |part: &[u8]| Cell {
            readable: kinds(part, b'R'),
            not_writable: kinds(part, b'-'),
            write_once: 0,
            writable: kinds(part, b'W'),
        };
        labels.chunks(labels.len().div_ceil(cells)).map(cell).collect()
    }

    /// Pieces of live data in order, some of them side by side.
    fn pieces(dice: &mut Pcg64Mcg, end: u64) -> Vec<Span> {
        let (mut at, mut spans) = (dice.random_range(0..9), Vec::new());
        while at < end {
            let count = dice.random_range(1..9).min(end - at);
            spans.push(Span::new(at, count));
            at += count + [0, 1, 3, 8, 9, 10, 11, 30][dice.random_range(0..8)];
        }
        spans
    }

    #[test]
    fn a_cell_has_the_granules_of_all_kinds() {
        assert_eq!(Cell { readable: 1, not_writable: 20, write_once: 300, writable: 4000 }.granules(), 4321);
    }

    #[test]
    fn gaps_may_be_written_where_they_reach_no_live_data() {
        let shape = disk(Model::Caveat, 4, 20, 5);
        let dice = &mut Pcg64Mcg::seed_from_u64(1);
        for round in 0..100 {
            let end = dice.random_range(1..=shape.granules);
            let spans = if round == 0 { Vec::new() } else { pieces(dice, end) };
            let reaches = |at: u64, upstream: u64, downstream: u64| {
                spans.iter().any(|span| span.at.0 <= at + upstream && at < span.end().0 + downstream)
            };
            let label = |at| match (reaches(at, 0, 0), reaches(at, shape.did, shape.dpid)) {
                (true, _) => b'R',
                (false, true) => b'-',
                (false, false) => b'W',
            };
            let labels: Vec<u8> = (0..shape.granules).map(label).collect();
            for cells in [1, 2, 7, 100, 105, 1000] {
                let (bands, surface) = draw(&shape, &[], &spans, cells);
                assert_eq!((bands, surface), (None, pictured(&labels, cells)), "{spans:?} in {cells} cells");
            }
            assert_eq!(draw(&shape, &[], &spans, 0).1.len(), 1);
            let writable = writable_gaps(&shape, &spans);
            assert!(writable.iter().all(|span| !span.is_empty()), "{writable:?}");
        }
    }

    #[test]
    fn bands_are_told_by_what_is_in_them() {
        let dice = &mut Pcg64Mcg::seed_from_u64(2);
        for round in 0..200 {
            let shape = disk(Model::StrictAppend, 7, [20, 7][round % 2], [0, 6][round / 2 % 2]);
            let of = |number| shape.bands.span(number);
            let mut labels = vec![b'-'; shape.granules as usize];
            let (mut reports, mut spans, mut expected) = (Vec::new(), Vec::new(), Fill::default());
            for number in 0..shape.bands.count {
                let filled = [0, of(number).count, dice.random_range(0..=of(number).count)][dice.random_range(0..3)];
                let lost = [None, None, None, Some(BandState::ReadOnly), Some(BandState::Offline)];
                let report = BandReport {
                    start: of(number).at,
                    cursor: of(number).at + filled,
                    state: lost[dice.random_range(0..5)].unwrap_or(match filled {
                        0 => BandState::Empty,
                        _ if filled == of(number).count => BandState::Full,
                        _ => BandState::Open,
                    }),
                };
                let first = [0, filled, dice.random_range(0..=filled)][dice.random_range(0..3)];
                let live = Span { at: of(number).at + first, count: filled - first };
                reports.push(report);
                spans.extend(Some(live).filter(|live| !live.is_empty()));
                match report.state {
                    BandState::ReadOnly | BandState::Offline => expected.lost += 1,
                    _ if filled == 0 => expected.empty += 1,
                    _ if live.is_empty() => expected.dead += 1,
                    _ => {
                        let tenth = (1..=10).position(|tenth| live.count * 10 <= tenth * of(number).count);
                        expected.by_tenth_live[tenth.unwrap()] += 1;
                    }
                }
                expected.open += u64::from(report.state == BandState::Open);
                let mut label = |span: Span, label| labels[span.at.0 as usize..span.end().0 as usize].fill(label);
                label(live, b'R');
                if !report.state.is_lost() {
                    label(Span { at: report.cursor, count: of(number).end() - report.cursor }, b'W');
                }
            }
            // One piece may lie in several bands where there is no gap.
            if shape.bands.gap_granules == 0 {
                spans.dedup_by(|next, span| {
                    let is_next = span.end() == next.at;
                    span.count += if is_next { next.count } else { 0 };
                    is_next
                });
            }
            for cells in [1, 3, 1000] {
                let (bands, surface) = draw(&shape, &reports, &spans, cells);
                assert_eq!((bands, surface), (Some(expected), pictured(&labels, cells)), "{reports:?} {spans:?}");
            }
            let writable = writable_in_bands(&shape, &reports);
            assert!(writable.iter().all(|span| !span.is_empty()), "{writable:?}");
        }
    }
}
