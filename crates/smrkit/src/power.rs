//! When the power is cut: at which physical write, and how much of it still reaches the platters.
//!
//! A write is cut after a whole number of its sectors, from none to all, drawn from the seed. Nothing else happens until
//! the power comes back.

use crate::error::{DiskResult, Fault};
use crate::random::mix;

/// The power supply of a disk.
#[derive(Clone, Debug, Default)]
pub struct Power {
    /// The writes to be cut, counted from 1, in descending order.
    cuts: Vec<u64>,
    seed: u64,
    writes: u64,
    off: bool,
}

impl Power {
    /// Cuts the power at each of `cuts`, numbers of physical writes from 1; `seed` decides how much of them is written.
    pub fn new(mut cuts: Vec<u64>, seed: u64) -> Power {
        cuts.sort_unstable_by(|a, b| b.cmp(a));
        cuts.dedup();
        Power { cuts, seed, writes: 0, off: false }
    }

    /// True while it has a cut to come.
    pub(crate) fn will_cut(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// A write of `n` sectors begins: whether it is wholly carried out, and how many of its sectors are.
    pub(crate) fn sectors_written(&mut self, n: u64) -> DiskResult<(bool, u64)> {
        if self.off {
            return Err(self.fault());
        }
        self.writes += 1;
        if self.cuts.last() != Some(&self.writes) {
            return Ok((true, n));
        }
        self.cuts.pop();
        Ok((false, mix(self.seed ^ self.writes.rotate_left(32)) % (n + 1)))
    }

    /// Fault of every access from the cut on.
    pub(crate) fn fault(&self) -> Box<Fault> {
        Box::new(Fault::PowerCut { write: self.writes })
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off
    }

    pub(crate) fn off(&mut self) -> Box<Fault> {
        self.off = true;
        self.fault()
    }

    pub(crate) fn on(&mut self) {
        self.off = false;
    }
}
