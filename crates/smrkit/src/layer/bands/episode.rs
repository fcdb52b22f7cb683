//! Debt of cleaning, paid by host commands: one episode at a time, so that no command waits for more than one.
//!
//! An episode cleans two bands (Vguard 2017). Each command first does one phase of it. While the episode will free as many
//! entries as are overdue, that is all; when more are, the command waits for its end.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// The episode in progress, if any.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::layer) struct Episode {
    /// Bands not begun.
    bands: VecDeque<u32>,
    /// Entries that it was expected to free when it began.
    frees: u64,
    running: bool,
    /// Nothing was due when it began: it goes on while nothing waits, or once something is due.
    idle: bool,
}

impl Episode {
    /// Number of bands that an episode cleans.
    pub const BANDS: usize = 2;

    /// True if a restored state names bands below `bands` alone.
    pub fn is_possible(&self, bands: u32) -> bool {
        self.bands.iter().all(|&band| band < bands)
    }

    /// Begins an episode over `bands` that is expected to free this many entries.
    pub fn begin(&mut self, bands: &[u32], frees: u64) {
        *self = Episode { bands: bands.iter().copied().collect(), frees, running: !bands.is_empty(), idle: false };
    }

    /// Begins an episode in idle time, which no command has to go on with.
    pub fn begin_idly(&mut self, bands: &[u32], frees: u64) {
        self.begin(bands, frees);
        self.idle = true;
    }

    /// True if the last episode was begun in idle time.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    /// True if an episode has begun and is not over.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// The next band to clean; the episode is over when there is none.
    pub fn next_band(&mut self) -> Option<u32> {
        let band = self.bands.pop_front();
        self.running = band.is_some();
        band
    }

    /// True if no band waits, so that the episode ends with the band in work.
    pub fn is_last_band(&self) -> bool {
        self.bands.is_empty()
    }

    /// True if more entries are overdue than the episode frees, so that the next command has to wait for its end.
    #[inline]
    pub fn falls_short_of(&self, overdue: u64) -> bool {
        self.running && overdue > self.frees
    }
}
