//! Before counting begins: the state that the disk is brought into, and the warm-up.
//!
//! A warm-up may last until cleaning has settled. No paper defines this state; here (assumption) the second half of the warm-up must be
//! steady. Requests are divided into 8 to 16 windows of equal size, which doubles as a run grows. The rate of cleaning in a window is the
//! number of sectors that the drives read and wrote for causes other than the host, per sector that the host wrote. Cleaning has settled when
//! the rates of the second half are within a tenth of their mean, and the persistent cache is as full at its end as at its beginning. Without
//! such a cache, the host must have written as much as there are spare sectors instead.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Engine;
use crate::device::Device;
use crate::error::Error;
use crate::medium::Stamp;
use crate::request::{Op, Progress, Request};
use crate::settings::{Prefill, Warmup};
use crate::stats::outcome::Steady;
use crate::tally::Cause;
use crate::units::{Lba, Nanos};

/// Sectors of a prefill's large writes: 1 MiB.
const LARGE_SECTORS: u64 = 2048;
/// Sectors of the writes that fill a persistent cache at random: 4 KiB, the papers' unit.
const SMALL_SECTORS: u64 = 8;
/// Writes between two calls of the observer.
const LOOK_EVERY: u64 = 4096;

impl Engine<'_> {
    /// Brings the disk into the state that the settings ask for. Returns `false` if the observer ended the run early.
    pub(super) fn prefill(&mut self) -> Result<bool, Error> {
        match self.settings.prefill {
            Prefill::None | Prefill::Saved => Ok(true),
            Prefill::Full => {
                self.device.fill(Arc::new(|lba| Stamp::first(lba).0));
                self.check.fill();
                Ok(true)
            }
            Prefill::Sequential => self.fill_sequentially(),
            Prefill::Random(share) => self.fill_randomly(share),
        }
    }

    /// Sectors of a large write: 1 MiB for each drive that holds data of its own.
    fn large_sectors(&self) -> u64 {
        match &self.device {
            Device::Drive(_) => LARGE_SECTORS,
            Device::Array(array) => LARGE_SECTORS * array.layout.data_disks() as u64 / u64::from(array.layout.copies()),
        }
    }

    fn fill_sequentially(&mut self) -> Result<bool, Error> {
        let (total, large) = (self.device.host_sectors(), self.large_sectors());
        for first in (0..total).step_by(large as usize) {
            if !self.serve_prefill(first, large.min(total - first), (first, total))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes 4 KiB at random until this share of the persistent cache is in use, but no more than that share of its size. Without such a
    /// cache, writes large requests at random that add up to this share of the disk.
    fn fill_randomly(&mut self, share: f64) -> Result<bool, Error> {
        let (cache, host) = (self.device.cache_sectors(), self.device.host_sectors());
        let (size, whole) = if cache > 0 { (SMALL_SECTORS, cache) } else { (self.large_sectors().min(host), host) };
        let (total, places) = ((whole as f64 * share) as u64 / size.max(1), host / size.max(1));
        let mut random = Pcg64Mcg::seed_from_u64(self.settings.seed);
        for written in 0..total {
            // A disk may be smaller than a request.
            if places == 0 || self.device.gauges().cache_fill.is_some_and(|fill| fill >= share) {
                break;
            }
            if !self.serve_prefill(random.random_range(0..places) * size, size, (written, total))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Serves a write of the prefill, of which `done` of `total` was served before. Returns `false` if the observer ends the run.
    fn serve_prefill(&mut self, first: u64, sectors: u64, (done, total): (u64, u64)) -> Result<bool, Error> {
        let shows_progress = self.prefilled.is_multiple_of(LOOK_EVERY);
        self.prefilled += 1;
        self.serve_uncounted(&Request::new(Op::Write, Lba(first), sectors as u32))?;
        // None of the run's own requests has been served yet.
        let requests = 0;
        Ok(!shows_progress || self.observer.go_on(Progress { done, total: Some(total) }, requests))
    }
}

/// The most windows; then pairs of them are joined.
const WINDOWS_MAX: usize = 16;
/// Requests of a window at first.
const WINDOW_REQUESTS: u64 = 256;
/// How far a window's rate may differ from the mean, as a share of the mean.
const RATE_TOLERANCE: f64 = 0.1;
/// A difference of rates that is too small to matter.
const RATE_LEAST: f64 = 0.01;
/// How much the fill of the cache may change over the second half, as a share of the fill.
const FILL_TOLERANCE: f64 = 0.05;

#[derive(Clone, Copy, Debug, Default)]
struct SteadyWindow {
    /// Sectors that the host wrote.
    written: u64,
    /// Sectors that the drives read and wrote for other causes.
    moved: u64,
    /// The share of the persistent cache in use at its end.
    fill: Option<f64>,
}

/// The requests before counting begins.
pub(super) struct WarmUp {
    rule: Warmup,
    /// True if counting has begun.
    pub is_over: bool,
    /// When cleaning had settled, if the warm-up lasted until then. Only such a warm-up uses the fields below.
    pub steady: Option<Steady>,
    begin: Nanos,
    requests: u64,
    window_requests: u64,
    /// Requests of the current window; `written` counts the sectors that they wrote.
    in_window: u64,
    written: u64,
    /// Sectors that the drives had moved when the window began.
    moved: u64,
    windows: Vec<SteadyWindow>,
}

impl WarmUp {
    pub fn new(rule: Warmup) -> WarmUp {
        WarmUp {
            rule,
            is_over: false,
            steady: None,
            begin: Nanos::ZERO,
            requests: 0,
            window_requests: WINDOW_REQUESTS,
            in_window: 0,
            written: 0,
            moved: 0,
            windows: Vec::new(),
        }
    }

    /// Called when requests begin; returns whether counting begins with them.
    pub fn begin(&mut self, device: &Device, now: Nanos) -> bool {
        (self.begin, self.moved) = (now, moved(device));
        self.rule == Warmup::Requests(0)
    }

    /// Notes a completed request with its number, from 1; returns whether counting begins now.
    pub fn completed(&mut self, request: &Request, number: u64, device: &Device, now: Nanos) -> bool {
        if self.rule != Warmup::UntilSteady {
            return self.rule == Warmup::Requests(number);
        }
        self.requests += 1;
        self.in_window += 1;
        self.written += if request.op == Op::Write { u64::from(request.sectors) } else { 0 };
        if self.in_window < self.window_requests {
            return false;
        }
        let moved = moved(device);
        self.windows.push(SteadyWindow {
            written: self.written,
            moved: moved.saturating_sub(self.moved),
            fill: device.gauges().cache_fill,
        });
        (self.in_window, self.written, self.moved) = (0, 0, moved);
        // Tested before windows are joined, while there are the most to compare.
        let spare = device.drives().iter().map(|drive| drive.device().layer.capacity().spare_sectors).sum();
        if self.windows.len() >= WINDOWS_MAX / 2 && has_settled(&self.windows, spare) {
            self.steady = Some(Steady { after_requests: self.requests, after_ns: now.since(self.begin).0 });
        }
        if self.windows.len() == WINDOWS_MAX {
            let joined = |pair: &[SteadyWindow]| SteadyWindow {
                written: pair[0].written + pair[1].written,
                moved: pair[0].moved + pair[1].moved,
                fill: pair[1].fill,
            };
            self.windows = self.windows.chunks_exact(2).map(joined).collect();
            self.window_requests *= 2;
        }
        self.steady.is_some()
    }
}

/// True if the second half of `windows` is steady. `spare` is the number of sectors that the host must have written if there is no cache.
fn has_settled(windows: &[SteadyWindow], spare: u64) -> bool {
    let (first_half, second_half) = windows.split_at(windows.len() / 2);
    let rate = |window: &SteadyWindow| window.moved as f64 / window.written.max(1) as f64;
    let mean = second_half.iter().map(rate).sum::<f64>() / second_half.len() as f64;
    let tolerance = RATE_LEAST.max(mean * RATE_TOLERANCE);
    if second_half.iter().any(|window| (rate(window) - mean).abs() > tolerance) {
        return false;
    }
    let fill_at_end = |half: &[SteadyWindow]| half.last().and_then(|window| window.fill);
    match (fill_at_end(first_half), fill_at_end(second_half)) {
        (Some(before), Some(after)) => (after - before).abs() <= FILL_TOLERANCE * after,
        // Until the spare sectors are used up, cleaning has hardly begun, and its rate may be steady at 0.
        _ => windows.iter().map(|window| window.written).sum::<u64>() >= spare,
    }
}

/// Sectors that the drives have read and written for other causes than the host's.
fn moved(device: &Device) -> u64 {
    let tallies = device.drives().iter().map(|drive| drive.device().disk.tally());
    let causes = || Cause::ALL.into_iter().filter(|cause| *cause != Cause::Host);
    tallies.flat_map(|tally| causes().map(|cause| tally.reads(cause).sectors + tally.writes(cause).sectors)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight windows that move as much as they write; the cache is as full as `fill` says at the end of each.
    fn windows(moved: u64, fill: impl Fn(u64) -> Option<f64>) -> Vec<SteadyWindow> {
        (0..8).map(|index| SteadyWindow { written: 1000, moved, fill: fill(index) }).collect()
    }

    #[test]
    fn a_cache_that_still_fills_has_not_settled() {
        assert!(has_settled(&windows(1000, |_| Some(0.9)), 0));
        assert!(!has_settled(&windows(0, |index| Some(0.1 * (index + 1) as f64)), 0));
    }

    #[test]
    fn spare_sectors_must_have_been_written_where_no_cache_tells() {
        assert!(has_settled(&windows(0, |_| None), 8000));
        assert!(!has_settled(&windows(0, |_| None), 8001));
        assert!(has_settled(&windows(0, |_| Some(0.9)), 8001));
    }

    #[test]
    fn rates_of_the_second_half_lie_within_a_tenth_of_their_mean() {
        let mut uneven = windows(1000, |_| None);
        uneven[0].moved = 9000;
        assert!(has_settled(&uneven, 0));
        uneven[7].moved = 1200;
        assert!(!has_settled(&uneven, 0));
    }
}
