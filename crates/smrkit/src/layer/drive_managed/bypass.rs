//! Writes that go straight to their bands, and the tracks of a band that have ever been written.
//!
//! Assumptions both: the paper's drive sends every write to its persistent cache and cleans whole bands.

use std::ops::Range;

use crate::error::DiskResult;
use crate::layer::COUNT_MAX;
use crate::layer::bands::Home;
use crate::state::{self, State, state};
use crate::units::Lba;

/// Rule for the writes that go straight to their bands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BypassMode {
    Off,
    Run,
    Command,
    /// Runs, where little else has to be copied.
    Stream,
}

/// Tells sequential writes from others.
pub(super) struct Bypass {
    mode: BypassMode,
    /// From this length on.
    sectors: u64,
    /// The run of the last write: its end and its length.
    end: Lba,
    length: u64,
}

impl Bypass {
    pub fn new(mode: BypassMode, sectors: u64) -> Bypass {
        Bypass { mode, sectors, end: Lba(0), length: 0 }
    }

    /// True if a restored state has counted no more than any drive does.
    pub fn is_possible(&self) -> bool {
        self.end.0 < COUNT_MAX && self.length < COUNT_MAX
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.mode != BypassMode::Off
    }

    /// True if a write is to go straight to its band; called once for each.
    #[inline]
    pub fn takes(&mut self, lba: Lba, n: u64) -> bool {
        match self.mode {
            BypassMode::Off => false,
            BypassMode::Command => n >= self.sectors,
            BypassMode::Run | BypassMode::Stream => {
                self.length = if lba == self.end { self.length + n } else { n };
                self.end = lba + n;
                self.length >= self.sectors
            }
        }
    }

    /// True if it is for writes only that destroy little.
    pub fn is_thrifty(&self) -> bool {
        self.mode == BypassMode::Stream
    }
}

/// Number of tracks of each band, from its first, that may hold data at home. Kept in memory only: after a power cut all may.
pub(super) struct WrittenTracks {
    /// Empty where every track counts as written.
    tracks: Vec<u32>,
}

impl WrittenTracks {
    /// No track of `bands` bands, or (if not `kept`) every track.
    pub fn new(kept: bool, bands: u32) -> WrittenTracks {
        WrittenTracks { tracks: if kept { vec![0; bands as usize] } else { Vec::new() } }
    }

    /// The end of those home tracks of a band that may hold data; `all` are the band's.
    #[inline]
    pub fn end(&self, band: u32, all: &Range<u32>) -> u32 {
        self.tracks.get(band as usize).map_or(all.end, |tracks| all.start + tracks)
    }

    /// True if a restored state has written no more tracks of a band than it has.
    pub fn is_possible(&self, home: &Home) -> bool {
        (0..).zip(&self.tracks).all(|(band, &tracks)| tracks <= home.tracks_of(band).len() as u32)
    }

    /// The first `tracks` tracks of a band may hold data from now on.
    pub fn raise(&mut self, band: u32, tracks: u32) {
        if let Some(known) = self.tracks.get_mut(band as usize) {
            *known = (*known).max(tracks);
        }
    }

    /// Nothing is known any more.
    pub fn forget(&mut self) {
        self.tracks = Vec::new();
    }

    /// Memory that the drive would take for it: a byte a band.
    pub fn bytes(&self) -> u64 {
        self.tracks.len() as u64
    }
}

state! { Bypass { values: end, length; built: mode, sectors; } }

/// None are kept from when every track counts as written.
impl State for WrittenTracks {
    fn save(&self, out: &mut Vec<u8>) {
        state::write(&self.tracks, out);
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        let saved: Vec<u32> = state::read(from)?;
        if !saved.is_empty() && saved.len() != self.tracks.len() {
            return state::refused("is of other bands");
        }
        self.tracks = saved;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_counts_from_its_first_write_and_ends_with_a_gap() {
        let mut bypass = Bypass::new(BypassMode::Run, 64);
        assert_eq!([0, 32, 64, 200, 232].map(|lba| bypass.takes(Lba(lba), 32)), [false, true, true, false, true]);
        let mut bypass = Bypass::new(BypassMode::Command, 64);
        assert_eq!([(0, 32), (32, 64)].map(|(lba, n)| bypass.takes(Lba(lba), n)), [false, true]);
    }
}
