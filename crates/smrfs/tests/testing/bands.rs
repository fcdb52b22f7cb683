//! What is kept step by step, compared with a recount.

use super::BandSpace;
use super::table::{BandTable, Streams};
use crate::device::Bands;
use crate::space::{Live, Space};
use crate::units::Span;

impl BandTable {
    /// Compares the sums and sets with a recount.
    fn check(&self) -> Result<(), String> {
        let mut fresh = BandTable::new(Bands { count: 0, ..self.layout });
        for (number, band) in self.all() {
            fresh.bands.push(*band);
            fresh.count(number, band);
        }
        for (name, kept, counted) in
            [("empty", &self.empty, &fresh.empty), ("open", &self.open, &fresh.open), ("dead", &self.dead, &fresh.dead)]
        {
            if kept != counted {
                return Err(format!("the {name} bands are {counted:?}, kept are {kept:?}"));
            }
        }
        if self.sums != fresh.sums {
            return Err(format!("the sums are {:?}, kept are {:?}", fresh.sums, self.sums));
        }
        Ok(())
    }
}

impl Streams {
    /// Compares the streams with the table.
    fn check(&self, table: &BandTable) -> Result<(), String> {
        let bands = self.writers.iter().filter_map(|stream| stream.band).chain(self.cleaner_band);
        let mut bands: Vec<u64> = bands.collect();
        if let Some(band) = bands.iter().find(|&&band| !table.open.contains(&band)) {
            return Err(format!("band {band} is written and not open: {:?}", table.get(*band)));
        }
        bands.sort_unstable();
        match bands.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(format!("band {} is written by two streams", two[0])),
            None => Ok(()),
        }
    }
}

impl BandSpace {
    pub(super) fn recount(&self) -> Result<(), String> {
        self.table.check()?;
        self.streams.check(&self.table)?;
        for (number, band) in self.table.all() {
            let span = self.shape.bands.span(number);
            let (live, retired) = (within(&self.live, span), self.retired.count_within(span.range()));
            let unmovable = self.unmovable.count_within(span.range());
            if (band.live, band.retired, band.unmovable) != (live, retired, unmovable) {
                return Err(format!(
                    "band {number} has {live} live, {retired} retired and {unmovable} unmovable granules, kept is {band:?}"
                ));
            }
            let behind = Span { at: span.at + band.cursor, count: span.count - band.cursor };
            if within(&self.live, behind) + self.retired.count_within(behind.range()) > 0 {
                return Err(format!("band {number} has data behind its cursor: {band:?}"));
            }
        }
        let mut retired = self.retired.iter().map(|(range, ())| Span::from(range));
        if let Some(span) = retired.find(|&span| within(&self.live, span) > 0) {
            return Err(format!("{span} is retired, and some of it live"));
        }
        self.sum_up()
    }

    fn sum_up(&self) -> Result<(), String> {
        let sums = self.table.sums;
        if (sums.live, sums.retired) != (self.live.granules(), self.retired.count()) {
            return Err(format!(
                "the sums are {sums:?}, live are {}, retired {}",
                self.live.granules(),
                self.retired.count()
            ));
        }
        let counts = self.counts();
        let all = counts.readable + counts.not_writable + counts.write_once + counts.writable;
        if all != self.shape.granules || counts.garbage > counts.not_writable || counts.retired > counts.readable {
            return Err(format!("{counts:?} do not make {} granules", self.shape.granules));
        }
        Ok(())
    }
}

/// Granules of `span` that are in `live`.
fn within(live: &Live, span: Span) -> u64 {
    live.within(span).map(|(part, _)| part.count).sum()
}
