//! The state of each band, and sums over all of them that are kept step by step.
//!
//! A band's cursor counts from its start. All changes go through `change`, so that no sum can be forgotten.

use std::collections::BTreeSet;

use super::BandSpace;
use crate::device::Bands;
use crate::space::Space;
use crate::space::live::Live;
use crate::units::{Granule, Span};

/// One band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Band {
    /// Granules written, or given up, from its start on.
    pub cursor: u64,
    /// Granules in maps.
    pub live: u64,
    /// Granules that a durable map may still name.
    pub retired: u64,
    /// Granules placed, of which it is not known yet whether they have been written.
    pub pending: u64,
    /// When its youngest data was written, in granules written by hosts until then; copies keep their age.
    pub youngest: u64,
    /// Given up in the midst, after a failed write or to be cleaned: for the disk it is open until it is reset.
    pub held: bool,
    /// Granules before `cursor` that were never written: the disk's own cursor is before them, since the band was given up
    /// to be cleaned.
    pub unused: u64,
    /// The disk can't write it any more.
    pub lost: bool,
    /// A reset was asked for and has not come.
    pub asked: bool,
    /// Granules in maps that can't be moved away: while there are any, cleaning wins nothing here.
    pub unmovable: u64,
}

impl Band {
    /// Granules that must not be lost.
    pub fn readable(&self) -> u64 {
        self.live + self.retired + self.pending
    }

    /// True if cleaning could empty it.
    pub fn can_be_emptied(&self) -> bool {
        self.unmovable == 0 && !self.asked
    }

    /// Granules that are dead, or will be once all maps are durable.
    pub fn dead(&self) -> u64 {
        self.cursor - self.live - self.pending
    }

    /// Dead granules that cleaning would win, retired ones included.
    pub fn gain(&self) -> u64 {
        if self.unmovable == 0 { self.dead() } else { 0 }
    }

    /// Dead granules that were written, and that cleaning would win.
    fn garbage(&self) -> u64 {
        if self.unmovable == 0 { self.cursor - self.readable() - self.unused } else { 0 }
    }

    /// The share of this band, of `size` granules, in the sums.
    fn share(&self, size: u64) -> Sums {
        let all = Sums { live: self.live, retired: self.retired, pending: self.pending, ..Sums::default() };
        if self.lost {
            return Sums { lost: 1, ..all };
        }
        let rest = size - self.cursor;
        Sums {
            rest,
            open_rest: if self.cursor > 0 { rest } else { 0 },
            garbage: self.garbage(),
            unused: self.unused,
            to_win: if rest == 0 { self.gain() } else { 0 },
            held: u64::from(self.held),
            held_to_win: u64::from(self.held && self.can_be_emptied()),
            ..all
        }
    }
}

/// Sums over bands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Granules in maps.
    pub live: u64,
    /// Granules that a durable map may still name.
    pub retired: u64,
    /// Granules placed and neither written nor failed.
    pub pending: u64,
    /// Granules behind the cursors of bands that can be written.
    pub rest: u64,
    /// Of them in bands begun.
    pub open_rest: u64,
    /// Dead granules that were written, of bands that can be written and emptied.
    pub garbage: u64,
    /// Granules that were left unwritten where bands were given up to be cleaned.
    pub unused: u64,
    /// Granules of full bands that cleaning would win, retired ones included.
    pub to_win: u64,
    /// Bands given up in the midst.
    pub held: u64,
    /// Of them those that cleaning could empty.
    pub held_to_win: u64,
    /// Bands that the disk can't write.
    pub lost: u64,
}

impl Sums {
    fn change(&mut self, share: &Sums, how: impl Fn(&mut u64, u64)) {
        how(&mut self.live, share.live);
        how(&mut self.retired, share.retired);
        how(&mut self.pending, share.pending);
        how(&mut self.rest, share.rest);
        how(&mut self.open_rest, share.open_rest);
        how(&mut self.garbage, share.garbage);
        how(&mut self.unused, share.unused);
        how(&mut self.to_win, share.to_win);
        how(&mut self.held, share.held);
        how(&mut self.held_to_win, share.held_to_win);
        how(&mut self.lost, share.lost);
    }
}

/// All bands.
#[derive(Debug)]
pub(super) struct BandTable {
    pub layout: Bands,
    bands: Vec<Band>,
    /// Bands to be opened.
    pub empty: BTreeSet<u64>,
    /// Bands begun and not full.
    pub open: BTreeSet<u64>,
    /// Full bands with nothing readable, whose reset has not been asked for.
    pub dead: BTreeSet<u64>,
    sums: Sums,
}

impl BandTable {
    pub fn new(layout: Bands) -> BandTable {
        let bands = vec![Band::default(); layout.count as usize];
        let mut table = BandTable {
            layout,
            bands: Vec::new(),
            empty: BTreeSet::new(),
            open: BTreeSet::new(),
            dead: BTreeSet::new(),
            sums: Sums::default(),
        };
        for (number, band) in (0..).zip(bands) {
            table.bands.push(band);
            table.enter(number, &band);
        }
        table
    }

    pub fn get(&self, number: u64) -> &Band {
        &self.bands[number as usize]
    }

    pub fn all(&self) -> impl Iterator<Item = (u64, &Band)> {
        (0..).zip(&self.bands)
    }

    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// Granules that can still be written in a band.
    pub fn rest(&self, number: u64) -> u64 {
        let band = self.get(number);
        if band.lost { 0 } else { self.layout.granules - band.cursor }
    }

    /// The address of a band's cursor.
    pub fn cursor(&self, number: u64) -> Granule {
        self.layout.span(number).at + self.get(number).cursor
    }

    /// Bands that are open for the disk.
    pub fn open_for_disk(&self) -> u64 {
        self.open.len() as u64 + self.sums.held
    }

    /// Changes a band, and every sum with it.
    pub fn change(&mut self, number: u64, how: impl FnOnce(&mut Band)) {
        let mut band = self.bands[number as usize];
        self.leave(number, &band);
        how(&mut band);
        self.bands[number as usize] = band;
        self.enter(number, &band);
    }

    /// The pieces of a span by band, with the band's number; none at all if some of it lies outside the bands.
    pub fn pieces(&self, span: Span) -> Option<Vec<(u64, Span)>> {
        let mut pieces = Vec::with_capacity(1);
        let mut left = span;
        while !left.is_empty() {
            let band = self.layout.band_at(left.at)?;
            let piece = self.layout.span(band).overlap(left)?;
            pieces.push((band, piece));
            left = Span { at: piece.end(), count: left.count - piece.count };
        }
        Some(pieces)
    }

    /// Counts a band, and puts it into its set.
    fn enter(&mut self, number: u64, band: &Band) {
        let size = self.layout.granules;
        let used = band.readable() + band.unused;
        assert!(used <= band.cursor && band.cursor <= size, "band {number} of {size} granules: {band:?}");
        self.sums.change(&band.share(size), |sum, share| *sum += share);
        self.set_of(band).map(|set| set.insert(number));
    }

    fn leave(&mut self, number: u64, band: &Band) {
        self.sums.change(&band.share(self.layout.granules), |sum, share| *sum -= share);
        self.set_of(band).map(|set| set.remove(&number));
    }

    /// The set that such a band is in.
    fn set_of(&mut self, band: &Band) -> Option<&mut BTreeSet<u64>> {
        match band.cursor {
            _ if band.lost => None,
            0 => Some(&mut self.empty),
            cursor if cursor < self.layout.granules => Some(&mut self.open),
            _ => (band.readable() == 0 && !band.asked).then_some(&mut self.dead),
        }
    }

    /// Compares the sums and sets with a recount.
    pub fn check(&self) -> Result<(), String> {
        let mut fresh = BandTable::new(Bands { count: 0, ..self.layout });
        for (number, band) in self.all() {
            fresh.bands.push(*band);
            fresh.enter(number, band);
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

impl BandSpace {
    /// Leaves the live data of `span` where they are. A band that was given up to be cleaned is gone on with.
    pub(super) fn leave(&mut self, span: Span) {
        for (number, piece) in self.table.pieces(span).unwrap_or_default() {
            let live: Vec<Span> =
                self.live.overlapping(piece).filter_map(|(extent, _)| extent.overlap(piece)).collect();
            for span in live {
                let range = span.at.0..span.end().0;
                let more = span.count - self.unmovable.count_within(range.clone());
                self.unmovable.insert(range);
                self.table.change(number, |band| band.unmovable += more);
                self.go_on_with(number);
            }
        }
        self.cleaner.left_behind();
    }

    fn go_on_with(&mut self, number: u64) {
        if self.table.get(number).unused == 0 {
            return;
        }
        self.table.change(number, |band| {
            band.cursor -= band.unused;
            band.unused = 0;
            band.held = false;
        });
    }

    /// Drops retired data from those to be moved.
    pub(super) fn need_not_move(&mut self, span: Span) {
        if self.unmovable.is_empty() {
            return;
        }
        for (number, piece) in self.table.pieces(span).unwrap_or_default() {
            let range = piece.at.0..piece.end().0;
            let less = self.unmovable.count_within(range.clone());
            self.unmovable.remove(range);
            self.table.change(number, |band| band.unmovable -= less);
        }
    }

    /// The disk did not reset the band.
    pub(super) fn refuse(&mut self, band: u64) {
        self.cleaner.refused.push((band, self.clock));
    }

    /// Bands whose reset failed may be reset again; `false` if there are none.
    pub(super) fn offer_refused(&mut self) -> bool {
        self.offer_refused_since(self.clock)
    }

    /// Offers again those whose reset failed long ago (assumption: a band's worth of writes).
    pub(super) fn offer_refused_later(&mut self) {
        if let Some(then) = self.clock.checked_sub(self.shape.bands.granules) {
            self.offer_refused_since(then);
        }
    }

    fn offer_refused_since(&mut self, then: u64) -> bool {
        let (again, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.cleaner.refused).into_iter().partition(|&(_, since)| since <= then);
        self.cleaner.refused = later;
        for &(band, _) in &again {
            self.table.change(band, |band| band.asked = false);
            self.cleaner.changed();
        }
        !again.is_empty()
    }
}

impl BandSpace {
    pub(super) fn recount(&self) -> Result<(), String> {
        self.table.check()?;
        self.streams.check(&self.table)?;
        for (number, band) in self.table.all() {
            let span = self.shape.bands.span(number);
            let (live, retired) = (within(&self.live, span), within(&self.retired, span));
            let unmovable = self.unmovable.count_within(span.at.0..span.end().0);
            if (band.live, band.retired, band.unmovable) != (live, retired, unmovable) {
                return Err(format!(
                    "band {number} has {live} live, {retired} retired and {unmovable} unmovable granules, kept is {band:?}"
                ));
            }
            let behind = Span { at: span.at + band.cursor, count: span.count - band.cursor };
            if within(&self.live, behind) + within(&self.retired, behind) > 0 {
                return Err(format!("band {number} has data behind its cursor: {band:?}"));
            }
        }
        let both = self.retired.from(Granule(0)).find(|&(span, _)| within(&self.live, span) > 0);
        if let Some((span, _)) = both {
            return Err(format!("{span} is retired, and some of it live"));
        }
        self.sum_up()
    }

    fn sum_up(&self) -> Result<(), String> {
        let sums = self.table.sums();
        if (sums.live, sums.retired) != (self.live.granules(), self.retired.granules()) {
            return Err(format!(
                "the sums are {sums:?}, live are {}, retired {}",
                self.live.granules(),
                self.retired.granules()
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
    live.overlapping(span).filter_map(|(extent, _)| extent.overlap(span)).map(|common| common.count).sum()
}
