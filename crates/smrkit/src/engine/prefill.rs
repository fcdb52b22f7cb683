//! The state of the disk before the first counted request.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Engine;
use super::settings::Prefill;
use crate::device::Device;
use crate::error::Error;
use crate::request::{Op, Progress, Request};
use crate::units::Lba;

/// Sectors of a sequential prefill's writes: 1 MiB.
const SEQUENTIAL_SECTORS: u64 = 2048;
/// Sectors of a random prefill's writes: 4 KiB, the papers' unit.
const RANDOM_SECTORS: u64 = 8;
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
        for (writes, first) in (0..total).step_by(SEQUENTIAL_SECTORS as usize).enumerate() {
            self.write_uncounted(first, SEQUENTIAL_SECTORS.min(total - first))?;
            if (writes as u64).is_multiple_of(LOOK_EVERY) && !self.look(first, total) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Random writes until the share of the persistent cache is in use, or as many sectors as that have been written.
    fn prefill_randomly(&mut self, share: f64) -> Result<bool, Error> {
        let places = self.device.host_sectors() / RANDOM_SECTORS;
        let whole = self.device.prefill_sectors();
        let total = (whole as f64 * share) as u64 / RANDOM_SECTORS;
        let mut random = Pcg64Mcg::seed_from_u64(self.settings.seed);
        for written in 0..total {
            let full = self.device.gauges().cache_fill.is_some_and(|fill| fill >= share);
            if full || places == 0 {
                break;
            }
            self.write_uncounted(random.random_range(0..places) * RANDOM_SECTORS, RANDOM_SECTORS)?;
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
