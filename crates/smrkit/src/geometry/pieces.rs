//! Splitting an extent where a track, a recording zone, or a region of equal size ends.

use super::{Divisor, Geometry};
use crate::units::{Pba, Track};

/// The pieces of an extent, each with what it lies in.
pub struct Pieces<F> {
    at: Pba,
    end: Pba,
    /// Container of a sector, with its end.
    container: F,
}

impl<K, F: FnMut(Pba) -> (K, Pba)> Iterator for Pieces<F> {
    type Item = (K, Pba, u64);

    fn next(&mut self) -> Option<(K, Pba, u64)> {
        if self.at >= self.end {
            return None;
        }
        let (key, stop) = (self.container)(self.at);
        let (start, stop) = (self.at, if stop <= self.at { self.end } else { stop.min(self.end) });
        self.at = stop;
        Some((key, start, stop - start))
    }
}

impl Geometry {
    /// The pieces of an extent by track, ascending; what lies beyond the disk is left out.
    pub fn pieces_by_track(&self, pba: Pba, sectors: u64) -> impl Iterator<Item = (Track, Pba, u64)> + '_ {
        self.pieces(pba, sectors, |at| {
            let track = self.track_of(at);
            (track, self.track_start(track + 1))
        })
    }

    /// The pieces of an extent by recording zone (its index), ascending; what lies beyond the disk is left out.
    pub fn pieces_by_zone(&self, pba: Pba, sectors: u64) -> impl Iterator<Item = (usize, Pba, u64)> + '_ {
        self.pieces(pba, sectors, |at| {
            let index = self.zone_index(self.raw(at));
            (index, self.zones().get(index + 1).map_or(Pba(self.sectors()), |z| z.first_pba))
        })
    }

    /// The pieces of an extent by whatever `container` names: what a sector lies in, and where that ends.
    pub(super) fn pieces<K, F>(&self, pba: Pba, sectors: u64, container: F) -> Pieces<F>
    where
        F: FnMut(Pba) -> (K, Pba),
    {
        let end = Pba(pba.0.saturating_add(sectors).min(self.sectors()));
        Pieces { at: pba, end, container }
    }
}

/// The pieces of `first .. first + count` at multiples of `size`: (index, offset in it, length). A size of 0 is 1.
pub fn pieces_by_multiples(first: u64, count: u64, size: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    pieces_by_divisor(first, count, Divisor::new(size))
}

/// `pieces_by_multiples` of a size known beforehand.
pub fn pieces_by_divisor(first: u64, count: u64, size: Divisor) -> impl Iterator<Item = (u64, u64, u64)> {
    let (mut index, mut offset) = size.divide(first);
    let mut left = count.min(u64::MAX - first);
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let length = (size.value() - offset).min(left);
        let piece = (index, offset, length);
        (index, offset, left) = (index + 1, 0, left - length);
        Some(piece)
    })
}
