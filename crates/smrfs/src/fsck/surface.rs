//! The disk as it reports itself, and what the maps have on it.
//!
//! Of past writes nothing is known, as at a mount: on Caveat-Scriptor whatever is dead within DPID below live data counts
//! as NW, and on strict-append whatever is not behind a cursor.

use super::extent::Extent;
use super::report::Fill;
use crate::device::{BandReport, BandState, HostManaged, Model, Shape};
use crate::error::FsResult;
use crate::space::Counts;
use crate::units::{Granule, Span};

/// Why granules of a map can't be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    OutOfRange,
    InGap,
    BehindCursor { band: u64, cursor: Granule },
    Offline,
}

/// The disk, and how much of each band is in maps.
pub(super) struct Surface {
    shape: Shape,
    bands: Vec<BandReport>,
    live: Vec<u64>,
    counts: Counts,
}

impl Surface {
    pub fn from_device(device: &dyn HostManaged) -> FsResult<Surface> {
        let shape = *device.shape();
        let bands = match shape.model {
            Model::StrictAppend => device.report(0, shape.bands.count)?,
            Model::Caveat => Vec::new(),
        };
        let live = vec![0; bands.len()];
        Ok(Surface { shape, bands, live, counts: Counts::default() })
    }

    /// Cuts a span of a map into pieces that are right or wrong in one way.
    pub fn judge(&self, span: Span) -> Vec<(Span, Option<Wrong>)> {
        let mut pieces: Vec<(Span, Option<Wrong>)> = Vec::new();
        let mut left = span;
        while !left.is_empty() {
            let (end, wrong) = self.judge_first(left.at);
            let count = left.count.min(end - left.at);
            match pieces.last_mut().filter(|(_, before)| *before == wrong) {
                Some((piece, _)) => piece.count += count,
                None => pieces.push((Span { at: left.at, count }, wrong)),
            }
            left = Span { at: left.at + count, count: left.count - count };
        }
        pieces
    }

    /// Judges a granule; also returns the end of the run for which the same holds.
    fn judge_first(&self, at: Granule) -> (Granule, Option<Wrong>) {
        if at.0 >= self.shape.granules {
            return (Granule(u64::MAX), Some(Wrong::OutOfRange));
        }
        let disk_end = Granule(self.shape.granules);
        if self.shape.model == Model::Caveat {
            return (disk_end, None);
        }
        let layout = &self.shape.bands;
        let Some(number) = layout.band_at(at) else {
            let next = at.0 / (layout.granules + layout.gap_granules) + 1;
            let end = if next < layout.count { layout.span(next).at } else { disk_end };
            return (end.min(disk_end), Some(Wrong::InGap));
        };
        let band_end = layout.span(number).end();
        match self.bands.get(number as usize) {
            None => (band_end, Some(Wrong::Offline)),
            Some(band) if band.state == BandState::Offline => (band_end, Some(Wrong::Offline)),
            Some(band) if at < band.cursor => (band.cursor.min(band_end), None),
            Some(band) => (band_end, Some(Wrong::BehindCursor { band: number, cursor: band.cursor })),
        }
    }

    /// Takes in what the maps have, in the order of the disk and without overlaps.
    pub fn fill(&mut self, extents: &[Extent]) {
        self.counts = match self.shape.model {
            Model::StrictAppend => self.fill_bands(extents),
            Model::Caveat => self.fill_neighbours(extents),
        };
    }

    fn fill_bands(&mut self, extents: &[Extent]) -> Counts {
        for extent in extents {
            let mut left = extent.span;
            while let Some(number) = self.shape.bands.band_at(left.at).filter(|_| !left.is_empty()) {
                let count = left.count.min(self.shape.bands.span(number).end() - left.at);
                self.live[number as usize] += count;
                left = Span { at: left.at + count, count: left.count - count };
            }
        }
        let mut counts = Counts::default();
        for (band, live) in self.bands.iter().zip(&self.live) {
            counts.readable += live;
            if !lost(band) {
                let written = (band.cursor - band.start).min(self.shape.bands.granules);
                counts.garbage += written.saturating_sub(*live);
                counts.writable += self.shape.bands.granules - written;
            }
        }
        counts.not_writable = self.shape.granules - counts.readable - counts.writable;
        counts
    }

    fn fill_neighbours(&self, extents: &[Extent]) -> Counts {
        let (did, dpid) = (self.shape.did, self.shape.dpid);
        let mut counts = Counts::default();
        // Up to here everything is accounted for; before the first extent nothing lies upstream.
        let (mut done, mut upstream) = (0, 0);
        let end = (Span::new(self.shape.granules, 0), 0);
        for (span, downstream) in extents.iter().map(|extent| (extent.span, did)).chain([end]) {
            let gap = span.at.0 - done;
            let before = gap.min(downstream);
            let garbage = (gap - before).min(upstream);
            counts.garbage += garbage;
            counts.not_writable += before + garbage;
            counts.writable += gap - before - garbage;
            counts.readable += span.count;
            (done, upstream) = (span.end().0, dpid);
        }
        counts
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn bands_by_fill(&self) -> Option<Fill> {
        if self.shape.model == Model::Caveat {
            return None;
        }
        let mut fill = Fill::default();
        for (band, &live) in self.bands.iter().zip(&self.live) {
            if lost(band) {
                fill.lost += 1;
                continue;
            }
            let written = band.cursor - band.start;
            fill.open += u64::from(written > 0 && written < self.shape.bands.granules);
            match (written, live) {
                (0, 0) => fill.empty += 1,
                (_, 0) => fill.dead += 1,
                _ => fill.by_tenth_live[((live - 1) * 10 / self.shape.bands.granules).min(9) as usize] += 1,
            }
        }
        Some(fill)
    }
}

fn lost(band: &BandReport) -> bool {
    matches!(band.state, BandState::ReadOnly | BandState::Offline)
}
