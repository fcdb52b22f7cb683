//! The state of the disk before the first counted request.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Engine;
use super::settings::Prefill;
use crate::device::Device;
use crate::error::Error;
use crate::request::{Op, Progress, Request};
use crate::units::Lba;

/// Sectors of a prefill's writes where nothing asks for small ones: 1 MiB.
const LARGE_SECTORS: u64 = 2048;
/// Sectors of the writes that fill a persistent cache at random: 4 KiB, the papers' unit.
const SMALL_SECTORS: u64 = 8;
/// Writes between two looks at the observer.
const LOOK_EVERY: u64 = 4096;

impl<D: Device> Engine<'_, D> {
    /// Brings the disk into the state asked for. Returns `false` if the observer ended it early.
    pub(super) fn prefill(&mut self) -> Result<bool, Error> {
        match self.settings.prefill {
            Prefill::None => Ok(true),
            Prefill::Sequential => self.prefill_sequentially(),
            Prefill::Random(share) => self.prefill_randomly(share),
        }
    }

    fn prefill_sequentially(&mut self) -> Result<bool, Error> {
        let total = self.device.host_sectors();
        for (writes, first) in (0..total).step_by(LARGE_SECTORS as usize).enumerate() {
            self.write_uncounted(first, LARGE_SECTORS.min(total - first))?;
            if (writes as u64).is_multiple_of(LOOK_EVERY) && !self.look(first, total) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Random writes of 4 KiB until the share of the persistent cache is in use, or as many sectors as that have been
    /// written; where there is none, random writes of 1 MiB, as many as make up the share of the disk.
    fn prefill_randomly(&mut self, share: f64) -> Result<bool, Error> {
        let cache = self.device.cache_sectors();
        let host = self.device.host_sectors();
        let (size, whole) = if cache > 0 { (SMALL_SECTORS, cache) } else { (LARGE_SECTORS.min(host), host) };
        let (total, places) = ((whole as f64 * share) as u64 / size.max(1), host / size.max(1));
        let mut random = Pcg64Mcg::seed_from_u64(self.settings.seed);
        for written in 0..total {
            let full = self.device.gauges().cache_fill.is_some_and(|fill| fill >= share);
            if full || places == 0 {
                break;
            }
            self.write_uncounted(random.random_range(0..places) * size, size)?;
            if written.is_multiple_of(LOOK_EVERY) && !self.look(written, total) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write_uncounted(&mut self, first: u64, sectors: u64) -> Result<(), Error> {
        self.device.step(crate::layer::Need::Must)?;
        self.serve_checked(&Request::new(Op::Write, Lba(first), sectors as u32))?;
        Ok(())
    }

    fn look(&mut self, done: u64, total: u64) -> bool {
        self.observer.go_on(Progress { done, total: Some(total) }, 0)
    }
}
