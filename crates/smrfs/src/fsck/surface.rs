//! The disk by its own report, with the extents of the maps.
//!
//! The order of past writes is unknown, as at a mount. So on Caveat-Scriptor, dead granules within DPID downstream of live data count as not
//! writable (NW), and on strict-append, all dead granules before a cursor.

use super::report::Fill;
use crate::device::{BandReport, BandState, HostManaged, Model, Shape};
use crate::error::FsResult;
use crate::space::Counts;
use crate::units::{Granule, Owner, Span};

/// Why granules that a map names can't hold data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    OutOfRange,
    InGap,
    BehindCursor { band: u64, cursor: Granule },
    Offline,
}

/// The disk's shape and its report of the bands.
pub(super) struct Surface {
    pub shape: Shape,
    bands: Vec<BandReport>,
}

impl Surface {
    pub fn from_device(device: &dyn HostManaged) -> FsResult<Surface> {
        let shape = *device.shape();
        Ok(Surface { shape, bands: device.report(0, shape.bands.count)? })
    }

    /// Divides a span of a map into pieces that can hold data, and pieces that can't for one reason each.
    pub fn check_placement(&self, span: Span) -> Vec<(Span, Option<Wrong>)> {
        let mut pieces: Vec<(Span, Option<Wrong>)> = Vec::new();
        let mut left = span;
        while !left.is_empty() {
            let (end, wrong) = self.check_granule(left.at);
            let count = left.count.min(end - left.at);
            match pieces.last_mut().filter(|(_, before)| *before == wrong) {
                Some((piece, _)) => piece.count += count,
                None => pieces.push((Span { at: left.at, count }, wrong)),
            }
            left = Span { at: left.at + count, count: left.count - count };
        }
        pieces
    }

    /// Checks one granule; also returns the end of the run of granules with the same result.
    fn check_granule(&self, at: Granule) -> (Granule, Option<Wrong>) {
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

    /// Counts the granules of the disk by state, and on strict-append the bands by their contents. `extents` are those of the maps, in the
    /// order of the disk and without overlaps.
    pub fn count(&self, extents: &[(Span, Owner)]) -> (Counts, Option<Fill>) {
        if self.shape.model == Model::Caveat {
            return (self.count_gaps(extents), None);
        }
        let layout = &self.shape.bands;
        let live_by_band = layout.granules_by_band(extents.iter().map(|(span, _)| *span));
        let mut counts = Counts::default();
        for (band, live) in self.bands.iter().zip(&live_by_band) {
            counts.readable += live;
            if !band.state.is_lost() {
                let written = (band.cursor - band.start).min(layout.granules);
                counts.garbage += written.saturating_sub(*live);
                counts.writable += layout.granules - written;
            }
        }
        counts.not_writable = self.shape.granules - counts.readable - counts.writable;
        (counts, Some(Fill::new(layout, &self.bands, &live_by_band)))
    }

    /// Counts the granules of a Caveat-Scriptor disk by state, gap by gap between live extents.
    fn count_gaps(&self, extents: &[(Span, Owner)]) -> Counts {
        let (did, dpid) = (self.shape.did, self.shape.dpid);
        let mut counts = Counts::default();
        // Granules before `counted` are counted. Of a gap, the first `upstream` granules are within DPID of the data before it, and the last
        // `downstream` within DID of the data behind it. No data lies before the first gap, and none behind the last.
        let (mut counted, mut upstream) = (0, 0);
        let end = (Span::new(self.shape.granules, 0), 0);
        for (span, downstream) in extents.iter().map(|&(span, _)| (span, did)).chain([end]) {
            let gap = span.at.0 - counted;
            let before = gap.min(downstream);
            let garbage = (gap - before).min(upstream);
            counts.garbage += garbage;
            counts.not_writable += before + garbage;
            counts.writable += gap - before - garbage;
            counts.readable += span.count;
            (counted, upstream) = (span.end().0, dpid);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::device::Bands;
    use crate::units::NodeId;

    fn surface(shape: Shape, bands: Vec<BandReport>) -> Surface {
        Surface { shape, bands }
    }

    fn shape(model: Model, granules: u64, bands: Bands) -> Shape {
        Shape { model, granule_bytes: 4096, granules, did: 4, dpid: 3, bands }
    }

    /// The spans of granules that are alike.
    fn runs<T: PartialEq + Copy>(span: Span, check_placement: impl Fn(u64) -> T) -> Vec<(Span, T)> {
        let mut runs: Vec<(Span, T)> = Vec::new();
        for at in span.at.0..span.end().0 {
            match runs.last_mut() {
                Some((run, same)) if *same == check_placement(at) => run.count += 1,
                _ => runs.push((Span::new(at, 1), check_placement(at))),
            }
        }
        runs
    }

    fn extents(spans: &[Span]) -> Vec<(Span, Owner)> {
        spans.iter().map(|&span| (span, Owner { file: NodeId(1), granule: span.at.0 })).collect()
    }

    #[test]
    fn bands_are_judged_and_counted_granule_by_granule() {
        let dice = &mut Pcg64Mcg::seed_from_u64(3);
        for round in 0..100 {
            let bands =
                Bands { count: 6, granules: [7, 20][round % 2], gap_granules: [0, 5][round / 2 % 2], max_open: 9 };
            let shape = shape(Model::StrictAppend, bands.span(5).end().0 + 4, bands);
            let mut reports = Vec::new();
            // The last band is not told of.
            for number in 0..5 {
                let filled = [0, bands.granules, dice.random_range(0..=bands.granules)][dice.random_range(0..3)];
                let lost = [None, None, Some(BandState::ReadOnly), Some(BandState::Offline)][dice.random_range(0..4)];
                reports.push(BandReport::new(bands.span(number), filled, lost));
            }
            let check_placement = |at: u64| {
                let number = (0..6).find(|&number| bands.span(number).contains(Span::new(at, 1)));
                match number {
                    _ if at >= shape.granules => Some(Wrong::OutOfRange),
                    None => Some(Wrong::InGap),
                    Some(5) => Some(Wrong::Offline),
                    Some(number) => match reports[number as usize] {
                        report if report.state == BandState::Offline => Some(Wrong::Offline),
                        report if at < report.cursor.0 => None,
                        report => Some(Wrong::BehindCursor { band: number, cursor: report.cursor }),
                    },
                }
            };
            let found = surface(shape, reports.clone());
            for span in [Span::new(0, shape.granules + 9), Span::new(dice.random_range(0..50), 40), Span::new(3, 0)] {
                assert_eq!(found.check_placement(span), runs(span, check_placement), "{reports:?}");
            }
            // Some of what may be there is.
            let good = |at: u64| check_placement(at).is_none();
            let skipped = dice.random_range(0..30)..dice.random_range(30..60);
            let live = |at: u64| good(at) && !skipped.contains(&at);
            let all = Span::new(0, shape.granules);
            let spans: Vec<Span> =
                runs(all, live).into_iter().filter(|(_, live)| *live).map(|(span, _)| span).collect();
            let (mut counts, mut fill) = (Counts::default(), Fill::default());
            for (number, report) in (0..).zip(&reports) {
                let span = bands.span(number);
                let own = (span.at.0..span.end().0).filter(|&at| live(at)).count() as u64;
                counts.readable += own;
                let written = report.cursor - report.start;
                if report.state.is_lost() {
                    fill.lost += 1;
                    continue;
                }
                counts.garbage += written - own;
                counts.writable += span.count - written;
                fill.open += u64::from(0 < written && written < span.count);
                match (written, own) {
                    (0, _) => fill.empty += 1,
                    (_, 0) => fill.dead += 1,
                    _ => fill.by_tenth_live[(1..=10).position(|n| own * 10 <= n * span.count).unwrap()] += 1,
                }
            }
            counts.not_writable = shape.granules - counts.readable - counts.writable;
            assert_eq!(found.count(&extents(&spans)), (counts, Some(fill)), "{reports:?}");
        }
    }

    #[test]
    fn gaps_are_counted_granule_by_granule() {
        let dice = &mut Pcg64Mcg::seed_from_u64(4);
        let shape = shape(Model::Caveat, 90, Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 });
        for round in 0..100 {
            let (mut at, mut spans) = (dice.random_range(0..10), Vec::new());
            while at < 80 && round > 0 {
                spans.push(Span::new(at, dice.random_range(1..9)));
                at = spans[spans.len() - 1].end().0 + [0, 1, 4, 6, 7, 8, 20][dice.random_range(0..7)];
            }
            let near = |at: u64, upstream: u64, downstream: u64| {
                spans.iter().any(|span| span.at.0 <= at + upstream && at < span.end().0 + downstream)
            };
            let mut counts = Counts::default();
            for at in 0..90 {
                match (near(at, 0, 0), near(at, shape.did, 0), near(at, 0, shape.dpid)) {
                    (true, ..) => counts.readable += 1,
                    (_, true, _) => counts.not_writable += 1,
                    (_, false, true) => {
                        (counts.not_writable, counts.garbage) = (counts.not_writable + 1, counts.garbage + 1)
                    }
                    _ => counts.writable += 1,
                }
            }
            let found = surface(shape, Vec::new());
            assert_eq!(found.count(&extents(&spans)), (counts, None), "{spans:?}");
            let beyond = [(Span::new(80, 10), None), (Span::new(90, 5), Some(Wrong::OutOfRange))];
            assert_eq!(found.check_placement(Span::new(80, 15)), beyond);
        }
    }
}
