//! The state of the disk before the first counted request.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Engine;
use crate::device::Member;
use crate::error::Error;
use crate::medium::Stamp;
use crate::request::{Op, Progress, Request};
use crate::settings::Prefill;
use crate::units::Lba;

/// Sectors of a prefill's writes where nothing asks for small ones: 1 MiB.
const LARGE_SECTORS: u64 = 2048;
/// Sectors of the writes that fill a persistent cache at random: 4 KiB, the papers' unit.
const SMALL_SECTORS: u64 = 8;
/// Writes between two looks at the observer.
const LOOK_EVERY: u64 = 4096;

impl Engine<'_> {
    /// Brings the disk into the state asked for. Returns `false` if the observer ended it early.
    pub(super) fn prefill(&mut self) -> Result<bool, Error> {
        match self.settings.prefill {
            Prefill::None | Prefill::Saved => Ok(true),
            Prefill::Full => {
                self.member.fill(Arc::new(|lba| Stamp::first(lba).0));
                self.check.fill();
                Ok(true)
            }
            Prefill::Sequential => self.fill_sequentially(),
            Prefill::Random(share) => self.fill_randomly(share),
        }
    }

    /// Sectors of a large write: 1 MiB for each drive that holds data of its own.
    fn large_sectors(&self) -> u64 {
        match &self.member {
            Member::Drive(_) => LARGE_SECTORS,
            Member::Array(array) => {
                LARGE_SECTORS * array.layout().data_disks() as u64 / u64::from(array.layout().copies())
            }
        }
    }

    fn fill_sequentially(&mut self) -> Result<bool, Error> {
        let (total, large) = (self.member.host_sectors(), self.large_sectors());
        for (writes, first) in (0..total).step_by(large as usize).enumerate() {
            self.fill(first, large.min(total - first))?;
            if !self.may_go_on(writes as u64, first, total) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Random writes of 4 KiB until the share of the persistent cache is in use, or as many sectors as that have been
    /// written; where there is none, random large writes, as many as make up the share of the disk.
    fn fill_randomly(&mut self, share: f64) -> Result<bool, Error> {
        let (cache, host) = (self.member.cache_sectors(), self.member.host_sectors());
        let (size, whole) = if cache > 0 { (SMALL_SECTORS, cache) } else { (self.large_sectors().min(host), host) };
        let (total, places) = ((whole as f64 * share) as u64 / size.max(1), host / size.max(1));
        let mut random = Pcg64Mcg::seed_from_u64(self.settings.seed);
        for written in 0..total {
            if places == 0 || self.member.gauges().cache_fill.is_some_and(|fill| fill >= share) {
                break;
            }
            self.fill(random.random_range(0..places) * size, size)?;
            if !self.may_go_on(written, written, total) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fill(&mut self, first: u64, sectors: u64) -> Result<(), Error> {
        self.prefilled += 1;
        self.serve_uncounted(&Request::new(Op::Write, Lba(first), sectors as u32))
    }

    fn may_go_on(&mut self, writes: u64, done: u64, total: u64) -> bool {
        !writes.is_multiple_of(LOOK_EVERY) || self.watcher.go_on(Progress { done, total: Some(total) }, 0)
    }
}
