//! The state of the disk before the first counted request.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Engine;
use super::settings::Prefill;
use crate::device::Device;
use crate::error::{DiskResult, Error};
use crate::request::{Op, Progress, Request};
use crate::units::Lba;

/// Sectors of a prefill's writes where nothing asks for small ones: 1 MiB.
pub(super) const LARGE_SECTORS: u64 = 2048;
/// Sectors of the writes that fill a persistent cache at random: 4 KiB, the papers' unit.
const SMALL_SECTORS: u64 = 8;
/// Writes between two looks at the observer.
const LOOK_EVERY: u64 = 4096;

/// What can be filled before counting begins: a drive's loop, or an array's.
pub(super) trait Filled {
    /// What state is asked for, and the seed.
    fn prefill(&self) -> (Prefill, u64);
    /// Sectors offered to the host.
    fn host_sectors(&self) -> u64;
    /// Sectors of a large write.
    fn large_sectors(&self) -> u64;
    /// Sectors of persistent cache.
    fn cache_sectors(&self) -> u64;
    /// The share of it in use.
    fn cache_fill(&self) -> Option<f64>;
    /// Serves a write that is not counted.
    fn write(&mut self, request: &Request) -> DiskResult;
    /// Shows the observer how far it has come; `false` ends it.
    fn look(&mut self, progress: Progress) -> bool;
}

/// Brings the disk into the state asked for. Returns `false` if the observer ended it early.
pub(super) fn fill(filled: &mut impl Filled) -> Result<bool, Error> {
    match filled.prefill() {
        (Prefill::None, _) => Ok(true),
        (Prefill::Sequential, _) => sequentially(filled),
        (Prefill::Random(share), seed) => randomly(filled, share, seed),
    }
}

fn sequentially(filled: &mut impl Filled) -> Result<bool, Error> {
    let (total, large) = (filled.host_sectors(), filled.large_sectors());
    for (writes, first) in (0..total).step_by(large as usize).enumerate() {
        write(filled, first, large.min(total - first))?;
        if !look(filled, writes as u64, first, total) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Random writes of 4 KiB until the share of the persistent cache is in use, or as many sectors as that have been written;
/// where there is none, random large writes, as many as make up the share of the disk.
fn randomly(filled: &mut impl Filled, share: f64, seed: u64) -> Result<bool, Error> {
    let (cache, host) = (filled.cache_sectors(), filled.host_sectors());
    let (size, whole) = if cache > 0 { (SMALL_SECTORS, cache) } else { (filled.large_sectors().min(host), host) };
    let (total, places) = ((whole as f64 * share) as u64 / size.max(1), host / size.max(1));
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for written in 0..total {
        if places == 0 || filled.cache_fill().is_some_and(|fill| fill >= share) {
            break;
        }
        write(filled, random.random_range(0..places) * size, size)?;
        if !look(filled, written, written, total) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn write(filled: &mut impl Filled, first: u64, sectors: u64) -> DiskResult {
    filled.write(&Request::new(Op::Write, Lba(first), sectors as u32))
}

fn look(filled: &mut impl Filled, writes: u64, done: u64, total: u64) -> bool {
    !writes.is_multiple_of(LOOK_EVERY) || filled.look(Progress { done, total: Some(total) })
}

impl<D: Device> Filled for Engine<'_, D> {
    fn prefill(&self) -> (Prefill, u64) {
        (self.settings.prefill, self.settings.seed)
    }
    fn host_sectors(&self) -> u64 {
        self.device.host_sectors()
    }
    fn large_sectors(&self) -> u64 {
        LARGE_SECTORS
    }
    fn cache_sectors(&self) -> u64 {
        self.device.cache_sectors()
    }
    fn cache_fill(&self) -> Option<f64> {
        self.device.gauges().cache_fill
    }
    fn write(&mut self, request: &Request) -> DiskResult {
        self.device.step(crate::layer::Need::Must)?;
        self.serve_checked(request)
    }
    fn look(&mut self, progress: Progress) -> bool {
        self.observer.go_on(progress, 0)
    }
}
