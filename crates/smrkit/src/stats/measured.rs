//! The drive that a trace was recorded on, as far as the trace shows it, beside the simulated drives.

use serde::{Deserialize, Serialize};

use super::counts::{HostCounts, Times};
use super::outcome::Outcome;
use super::timeline::Reading;
use crate::layer::BASELINE;
use crate::request::Request;
use crate::units::Nanos;

/// The name used in place of a layer for the measured drive.
pub const MEASURED: &str = "measured";

/// A request that took this long shows a pause of the drive: several times as long as a slow disk with a full queue takes (assumption).
const PAUSE: Nanos = Nanos(1_000_000_000);

/// How many pauses are kept, the longest ones.
pub const PAUSES_MAX: usize = 1000;

/// The drive that was recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Its requests as the columns of a run on the host's side. Those of the drive's inside are empty: nothing tells them.
    pub run: Outcome,
    /// When it kept requests waiting for a second or more, in the order of time.
    pub pauses: Vec<Pause>,
}

/// A time in which requests waited, from the issue of the first to the completion of the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// From the first issue of the trace to that of the first request.
    pub begin_ns: u64,
    /// To the last completion.
    pub end_ns: u64,
    /// The longest latency.
    pub longest_ns: u64,
    /// The longest latency in that time in each simulated run, in their order.
    pub simulated_ns: Vec<u64>,
    /// The same on a conventional disk; null where none was simulated.
    pub conventional_ns: Option<u64>,
}

/// What explains a pause, by a simulated drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explanation {
    /// A conventional disk would have paused for at least half as long.
    Load,
    /// The simulated drive does, and a conventional disk does not.
    Shingling,
    /// Neither does.
    Neither,
}

impl Pause {
    /// What explains the pause, judged by the run with this number.
    pub fn explanation(&self, run: usize) -> Explanation {
        let is_as_long = |ns: u64| ns >= self.longest_ns / 2;
        match (self.conventional_ns, self.simulated_ns.get(run)) {
            (Some(ns), _) if is_as_long(ns) => Explanation::Load,
            (_, Some(&ns)) if is_as_long(ns) => Explanation::Shingling,
            _ => Explanation::Neither,
        }
    }
}

/// Collects the measurements of a trace's drive.
pub struct MeasuredBuilder {
    host: HostCounts,
    pauses: Vec<Pause>,
}

impl Default for MeasuredBuilder {
    fn default() -> MeasuredBuilder {
        MeasuredBuilder { host: HostCounts::default().in_blocks(), pauses: Vec::new() }
    }
}

impl MeasuredBuilder {
    /// Counts a request. Requests come in the order of completion.
    pub fn count(&mut self, request: &Request, times: &Times) {
        self.host.count(request, times, Reading::default);
        let longest_ns = (times.end - times.arrival).0;
        if longest_ns < PAUSE.0 {
            return;
        }
        let mut pause = Pause {
            begin_ns: times.arrival.0,
            end_ns: times.end.0,
            longest_ns,
            simulated_ns: Vec::new(),
            conventional_ns: None,
        };
        // Pauses that overlap are one.
        while let Some(before) = self.pauses.pop_if(|before| before.end_ns >= pause.begin_ns) {
            pause.begin_ns = pause.begin_ns.min(before.begin_ns);
            pause.longest_ns = pause.longest_ns.max(before.longest_ns);
        }
        self.pauses.push(pause);
    }

    /// The measured drive, compared with the runs of its trace on simulated drives and on a conventional one. `None` if nothing was
    /// measured: some traces have a column of latencies that is all zeros.
    pub fn finish(mut self, runs: &[Outcome], conventional: Option<&Outcome>) -> Option<Measured> {
        let first = runs.first().filter(|_| self.host.latencies().all.max > 0)?;
        // The longest are kept, and put back in the order of time.
        if self.pauses.len() > PAUSES_MAX {
            self.pauses.sort_unstable_by_key(|pause| (std::cmp::Reverse(pause.longest_ns), pause.begin_ns));
            self.pauses.truncate(PAUSES_MAX);
            self.pauses.sort_unstable_by_key(|pause| pause.begin_ns);
        }
        let conventional = conventional.or(runs.iter().find(|run| run.layer == BASELINE));
        for pause in &mut self.pauses {
            let (from, to) = (pause.begin_ns, pause.end_ns);
            pause.simulated_ns = runs.iter().map(|run| run.timeline.longest_between(from, to)).collect();
            pause.conventional_ns = conventional.map(|run| run.timeline.longest_between(from, to));
        }
        let mut run = Outcome {
            layer: MEASURED.into(),
            drive: first.drive.clone(),
            engine: first.engine,
            seed: first.seed,
            replayed: first.replayed.clone(),
            version: first.version.clone(),
            commit: first.commit.clone(),
            ..Outcome::default()
        };
        run.measure_host(self.host.finish(&Reading::default()));
        Some(Measured { run, pauses: self.pauses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;
    use crate::units::Lba;

    /// A run whose windows of 100 ms have these longest latencies, in ms.
    fn run(layer: &str, longest_ms: &[u64]) -> Outcome {
        let mut outcome = Outcome { layer: layer.into(), ..Outcome::default() };
        outcome.timeline.window_ns = 100_000_000;
        outcome.timeline.longest_ns = longest_ms.iter().map(|ms| ms * 1_000_000).collect();
        outcome
    }

    #[test]
    fn a_pause_is_explained_by_the_drive_that_pauses_at_the_same_time() {
        let mut builder = MeasuredBuilder::default();
        // Issue and completion in ms: two that wait together, one of 20 ms, a long one, and one that nothing explains.
        for (arrival, end) in [(0, 1_500), (400, 1_600), (3_000, 3_020), (4_000, 6_000), (9_000, 10_500)] {
            let (arrival, end) = (Nanos(arrival * 1_000_000), Nanos(end * 1_000_000));
            let request = Request { time: arrival, lba: Lba(8), sectors: 8, volume: 0, op: Op::Write, source: 0 };
            builder.count(&request, &Times { arrival, start: arrival, end });
        }
        let mut windows = vec![10; 120];
        windows[15] = 900;
        let conventional = run(BASELINE, &windows);
        (windows[15], windows[59]) = (2_000, 1_000);
        let measured = builder.finish(&[run("log", &windows)], Some(&conventional)).unwrap();
        let of: Vec<_> = measured.pauses.iter().map(|p| (p.begin_ns / 1_000_000, p.end_ns / 1_000_000)).collect();
        assert_eq!(of, [(0, 1_600), (4_000, 6_000), (9_000, 10_500)]);
        let why: Vec<_> = measured.pauses.iter().map(|pause| pause.explanation(0)).collect();
        assert_eq!(why, [Explanation::Load, Explanation::Shingling, Explanation::Neither]);
        assert_eq!((measured.run.requests, measured.run.latency_ns.all.max), (5, 2_000_000_000));
    }

    #[test]
    fn without_times_nothing_was_measured() {
        let mut builder = MeasuredBuilder::default();
        assert!(MeasuredBuilder::default().finish(&[run("log", &[1])], None).is_none());
        let request = Request { time: Nanos(5), lba: Lba(8), sectors: 8, volume: 0, op: Op::Read, source: 0 };
        builder.count(&request, &Times { arrival: Nanos(5), start: Nanos(5), end: Nanos(5) });
        assert!(builder.finish(&[run("log", &[1])], None).is_none());
    }
}
