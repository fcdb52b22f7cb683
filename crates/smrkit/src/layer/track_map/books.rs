//! Books of the layer on each track: how far it is in use, and how often it was written over.

use std::ops::Range;

use crate::error::DiskResult;
use crate::layer::inconsistent;
use crate::state::state;

/// Counts a track for each band and track, the bands one after another.
pub struct Books {
    /// Sectors from the track's start to the end of the highest one that the host owns; 0 for an empty track.
    used: Vec<u32>,
    in_use: u64,
    wear: Option<Wear>,
}

/// Kept only where overwriting has a limit.
struct Wear {
    /// Sectors from the track's start to the end of the highest one ever written.
    written: Vec<u32>,
    /// No sector of the track was written more often since any one within reach upstream was.
    writes: Vec<u32>,
}

state! { Books { parts: wear; sized: used; values: in_use; } }

state! { Wear { sized: written, writes; } }

impl Books {
    /// For this many tracks, all empty.
    pub fn new(tracks: u64, limited: bool) -> Books {
        let zeros = || vec![0; tracks as usize];
        let wear = limited.then(|| Wear { written: zeros(), writes: zeros() });
        Books { used: zeros(), in_use: 0, wear }
    }

    /// Used part of a track, in sectors.
    #[inline]
    pub fn used(&self, track: usize) -> u64 {
        u64::from(self.used[track])
    }

    /// Tracks in use.
    pub fn in_use(&self) -> u64 {
        self.in_use
    }

    /// The host wrote a track up to sector `end`.
    #[inline]
    pub fn write(&mut self, track: usize, end: u64) {
        let used = &mut self.used[track];
        self.in_use += u64::from(*used == 0);
        *used = (*used).max(end as u32);
    }

    /// The host wrote some empty tracks up to sector `end` once, in the order of PBAs.
    pub fn fill(&mut self, tracks: Range<usize>, end: u64) {
        self.in_use += tracks.len() as u64;
        self.used[tracks.clone()].fill(end as u32);
        if let Some(wear) = &mut self.wear {
            wear.written[tracks.clone()].fill(end as u32);
            wear.writes[tracks].fill(1);
        }
    }

    /// The host gave up the sectors `first..end` of a track: nothing is in use from `first` on if `end` was the highest.
    pub fn discard(&mut self, track: usize, first: u64, end: u64) {
        let used = &mut self.used[track];
        if u64::from(*used) <= end && first < u64::from(*used) {
            *used = first as u32;
            self.in_use -= u64::from(first == 0);
        }
    }

    /// Nothing is known of a track but that the host may own it up to sector `end`.
    pub fn forget(&mut self, track: usize, end: u64) {
        self.write(track, end);
        if let Some(wear) = &mut self.wear {
            wear.written[track] = wear.written[track].max(end as u32);
            wear.writes[track] = u32::MAX;
        }
    }

    /// True if a write from sector `first` of a track on goes over sectors written so often that what lies upstream would
    /// not survive it.
    #[inline]
    pub fn worn(&self, track: usize, first: u64, limit: u32) -> bool {
        let worn = |wear: &Wear| first < u64::from(wear.written[track]) && wear.writes[track] >= limit;
        self.wear.as_ref().is_some_and(worn)
    }

    /// Sectors `first..end` of a track were written; `fresh` if all within reach upstream was written just before, and
    /// `alone` if nothing there is in use.
    pub fn wear(&mut self, track: usize, first: u64, end: u64, fresh: bool, alone: bool) {
        let Some(Wear { written, writes }) = &mut self.wear else { return };
        writes[track] = match (alone, fresh || first >= u64::from(written[track])) {
            (true, _) => 0,
            (_, true) if fresh => 1,
            (_, true) => writes[track].max(1),
            _ => writes[track].saturating_add(1),
        };
        written[track] = written[track].max(end as u32);
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        let lists = if self.wear.is_some() { 3 } else { 1 };
        (self.used.len() * lists * size_of::<u32>()) as u64
    }

    /// The counts, against `room`: how many sectors of each track the host can own.
    pub fn check(&self, room: impl Fn(usize) -> u64) -> DiskResult {
        if let Some(track) = (0..self.used.len()).find(|&track| self.used(track) > room(track)) {
            return inconsistent(format!("track {track} is in use to sector {}, past its end", self.used(track)));
        }
        if let Some(wear) = &self.wear
            && let Some(track) = (0..self.used.len()).find(|&track| self.used[track] > wear.written[track])
        {
            return inconsistent(format!("track {track} is in use to sector {}, unwritten", self.used(track)));
        }
        match self.used.iter().filter(|&&used| used > 0).count() as u64 == self.in_use {
            true => Ok(()),
            false => inconsistent(format!("{} tracks are counted as in use, which is wrong", self.in_use)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_finds_tracks_used_past_their_end_or_unwritten() {
        for limited in [false, true] {
            let books = || {
                let mut books = Books::new(4, limited);
                books.write(1, 7);
                books.wear(1, 0, 7, true, false);
                books
            };
            let checked = |books: &Books| books.check(|track| [3, 7, 9, 9][track]).map_err(|fault| fault.to_string());
            assert_eq!(checked(&books()), Ok(()));
            let mut long = books();
            long.write(0, 4);
            assert!(checked(&long).unwrap_err().contains("track 0 is in use to sector 4, past its end"));
            let mut unwritten = books();
            unwritten.write(2, 1);
            assert_eq!(checked(&unwritten).is_err_and(|error| error.contains("to sector 1, unwritten")), limited);
            let uncounted = Books { in_use: 2, ..books() };
            assert!(checked(&uncounted).unwrap_err().contains("2 tracks are counted as in use"));
        }
    }

    #[test]
    fn tracks_are_in_use_to_the_highest_sector_that_is_owned() {
        let mut books = Books::new(3, false);
        books.write(0, 5);
        books.write(0, 3);
        books.write(2, 1);
        assert_eq!(([0, 1, 2].map(|track| books.used(track)), books.in_use()), ([5, 0, 1], 2));
        // What lies above stays, and what is not in use is given up at no cost.
        for (first, end, used, in_use) in
            [(1, 4, 5, 2), (5, 9, 5, 2), (4, 5, 4, 2), (2, 9, 2, 2), (0, 2, 0, 1), (0, 9, 0, 1)]
        {
            books.discard(0, first, end);
            assert_eq!((books.used(0), books.in_use()), (used, in_use), "{first}..{end}");
        }
        books.fill(0..2, 8);
        assert_eq!(([0, 1, 2].map(|track| books.used(track)), books.in_use()), ([8, 8, 1], 3));
    }

    #[test]
    fn a_track_wears_with_each_write_over_what_was_written() {
        let mut books = Books::new(2, true);
        let worn = |books: &Books, limit| [0, 4, 5].map(|first| books.worn(0, first, limit));
        books.wear(0, 0, 3, false, false);
        books.wear(0, 3, 5, false, false);
        assert_eq!((worn(&books, 1), worn(&books, 2)), ([true, true, false], [false; 3]));
        books.wear(0, 4, 5, false, false);
        assert_eq!((worn(&books, 2), worn(&books, 3)), ([true, true, false], [false; 3]));
        // Behind all that was written nothing wears; after a fresh write of what lies upstream counting begins anew.
        books.wear(0, 5, 6, false, false);
        assert_eq!((books.worn(0, 5, 2), books.worn(0, 5, 3)), (true, false));
        books.wear(0, 0, 6, true, false);
        assert_eq!((books.worn(0, 0, 1), books.worn(0, 0, 2)), (true, false));
        books.wear(0, 0, 6, false, true);
        assert!(!books.worn(0, 0, 1));
        books.forget(0, 6);
        assert!(books.worn(0, 5, u32::MAX) && !books.worn(0, 6, 0) && !books.worn(1, 0, 0));
        assert!(!Books::new(1, false).worn(0, 0, 0));
    }
}
