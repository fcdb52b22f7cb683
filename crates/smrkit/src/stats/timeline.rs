//! The course of a run in equal windows of time. In a longer run windows are joined in pairs, so that memory stays small.

use std::collections::BTreeMap;

use crate::layer::{Gauge, GaugeUnit, Gauges};
use crate::record;
use crate::request::Op;
use crate::units::{Nanos, SECTOR_BYTES};

/// The most windows; then pairs are joined.
pub const WINDOWS_MAX: usize = 1024;

/// The first length of a window.
pub const WINDOW_FIRST: Nanos = Nanos(100_000_000);

/// The most parts into which a run is divided to find its phases.
const PARTS_MAX: usize = 64;
/// With fewer parts, a run has no phases.
const PARTS_MIN: usize = 8;
/// A part has at least this many requests, and lasts at least `PART_WAITS` times as long as the longest request, so that no phases come
/// from chance.
const PART_REQUESTS: usize = 8;
const PART_WAITS: u64 = 4;
/// A fast phase begins where the rate exceeds the mean, and ends where the rate is below the mean by this factor.
const ENDS: f64 = 1.5;
/// Phases are shown only if fast ones are this many times as fast as slow ones.
const UNSTEADY: f64 = 3.0;

/// A part of a run in which its rate is high, or low.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// How long it lasts.
    pub time: Nanos,
    /// Host bytes per second.
    pub bytes_per_s: f64,
}

record! {
    /// Values over time, in equal windows from the beginning of counting.
    pub struct Timeline {
        /// The length of a window; it doubles as a run grows.
        pub window_ns: u64,
        /// Requests completed in each window.
        pub requests: Vec<u64>,
        /// Bytes that these requests read.
        pub read_bytes: Vec<u64>,
        /// Bytes that these requests wrote.
        pub written_bytes: Vec<u64>,
        /// Bytes written to the platters in each window. Divided by `written_bytes` of the same windows, they are the
        /// write amplification over time. What is written during a request that lasts for several windows is spread over
        /// them, a write that ends with the first request of a window may count in the window before, and what a
        /// rebuild writes after the last request counts in the last window.
        pub physical_written_bytes: Vec<u64>,
        /// Longest latency of these requests.
        pub longest_ns: Vec<u64>,
        /// Share of the persistent cache in use at each window's end, 0 to 1; empty if the layer has none. For an
        /// array, the mean over the drives with a cache. If one request takes several windows, the last of them shows
        /// the share after the request, and the others the share before it.
        pub cache_fill: Vec<f64>,
        /// The layer's gauges at each window's end, by name. For an array, the sum over its drives, or the mean if the
        /// gauge is a share.
        pub gauges: BTreeMap<String, Vec<f64>>,
        /// Unit of each gauge: `share`, `count` or `bytes`.
        pub gauge_units: BTreeMap<String, GaugeUnit>,
    }
}

impl Timeline {
    /// The longest latency of requests completed in windows that overlap this time, in ns from the beginning.
    pub fn longest_between(&self, from: u64, to: u64) -> u64 {
        let window = |ns: u64| (ns / self.window_ns.max(1)) as usize;
        let windows = self.longest_ns.iter().take(window(to) + 1).skip(window(from));
        windows.copied().max().unwrap_or(0)
    }

    /// The phases from a moment on, by turns slow and fast; none if the rate is steady, or there is too little data.
    pub fn phases_from(&self, from: Nanos) -> Vec<Phase> {
        let window_ns = self.window_ns.max(1);
        // The window of the moment itself is left out, because it is partly before.
        let first = (from.0 / window_ns) as usize + 1;
        let bytes: Vec<u64> = self.read_bytes.iter().zip(&self.written_bytes).skip(first).map(|(r, w)| r + w).collect();
        let requests: u64 = self.requests.iter().skip(first).sum();
        let longest_ns = self.longest_ns.iter().skip(first).copied().max().unwrap_or(0);
        let wait_windows = PART_WAITS * longest_ns / window_ns + 1;
        let parts_max = PARTS_MAX.min(requests as usize / PART_REQUESTS).max(1);
        let length = bytes.len().div_ceil(parts_max).max(wait_windows as usize);
        // The rest at the end is too short to be a part.
        let parts: Vec<f64> = bytes.chunks_exact(length).map(|part| part.iter().sum::<u64>() as f64).collect();
        if parts.len() < PARTS_MIN {
            return Vec::new();
        }
        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
        let mut is_fast = parts[0] > mean;
        // Parts of each phase.
        let mut phases: Vec<Vec<f64>> = vec![Vec::new()];
        for bytes in parts {
            let was_fast = is_fast;
            is_fast = bytes > if was_fast { mean / ENDS } else { mean };
            if is_fast != was_fast {
                phases.push(Vec::new());
            }
            phases.last_mut().expect("there is a first phase").push(bytes);
        }
        let phases = phases.iter().map(|parts| {
            let time = Nanos((parts.len() * length) as u64 * window_ns);
            Phase { time, bytes_per_s: parts.iter().sum::<f64>() / time.as_secs() }
        });
        let phases: Vec<Phase> = phases.collect();
        match Phase::of_turns(&phases).map(|(even, odd)| (even.bytes_per_s, odd.bytes_per_s)) {
            Some((even, odd)) if even.max(odd) >= UNSTEADY * even.min(odd) => phases,
            _ => Vec::new(),
        }
    }
}

impl Phase {
    /// The two kinds of alternating phases, each with its mean rate and time; `None` if there is only one phase.
    pub fn of_turns(phases: &[Phase]) -> Option<(Phase, Phase)> {
        if phases.len() < 2 {
            return None;
        }
        let every_other = |first: usize| {
            let alike = phases[first..].iter().step_by(2);
            let count = alike.len() as u64;
            let time: Nanos = alike.clone().map(|phase| phase.time).sum();
            let bytes: f64 = alike.map(|phase| phase.bytes_per_s * phase.time.as_secs()).sum();
            Phase { time: Nanos(time.0 / count), bytes_per_s: bytes / time.as_secs() }
        };
        Some((every_other(0), every_other(1)))
    }
}

/// What a device shows between two requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Gauges of the layers.
    pub gauges: Gauges,
    /// Sectors written to the platters since counting began.
    pub written_sectors: u64,
}

#[derive(Clone, Default)]
struct TimelineWindow {
    requests: u64,
    read_sectors: u64,
    written_sectors: u64,
    physical_sectors: u64,
    longest_ns: u64,
    cache_fill: Option<f64>,
    gauges: Vec<Gauge>,
}

/// Collects a timeline.
pub struct TimelineBuilder {
    window_ns: u64,
    grows: bool,
    windows: Vec<TimelineWindow>,
    current: TimelineWindow,
    current_end_ns: u64,
    /// Gauges at the last [`TimelineBuilder::turn`].
    shown: Option<Gauges>,
    /// Sectors written to the platters until then.
    physical_sectors: u64,
}

impl Default for TimelineBuilder {
    /// Windows that begin with the first length and double.
    fn default() -> TimelineBuilder {
        TimelineBuilder::growing(WINDOW_FIRST)
    }
}

impl TimelineBuilder {
    /// Windows of `window`, which double when there are too many.
    pub fn growing(window: Nanos) -> TimelineBuilder {
        TimelineBuilder {
            window_ns: window.0,
            grows: true,
            windows: Vec::new(),
            current: TimelineWindow::default(),
            current_end_ns: window.0,
            shown: None,
            physical_sectors: 0,
        }
    }

    /// Windows of exactly `window`, as many as the run takes.
    pub fn fixed(window: Nanos) -> TimelineBuilder {
        TimelineBuilder { grows: false, ..TimelineBuilder::growing(window) }
    }

    /// True if `time` is past the current window, so that [`TimelineBuilder::turn`] is due.
    #[inline]
    pub fn is_over(&self, time: Nanos) -> bool {
        time.0 >= self.current_end_ns
    }

    /// Ends windows until `time` is in the current one. If a request lasted for several, the last of them gets the current gauges, and the
    /// others those of the previous turn, because a layer's gauges are unknown while it serves a request. At the first turn all get the
    /// current ones.
    #[cold]
    pub fn turn(&mut self, time: Nanos, reading: &Reading) {
        let gauges = &reading.gauges;
        let mut written = self.written_since(reading);
        while self.is_over(time) {
            // Windows grow while they end, so that this is no countdown.
            let windows_left = (time.0 - self.current_end_ns) / self.window_ns + 1;
            let is_last = windows_left == 1;
            // A drive that served a request for several windows may have written all the while.
            let share = written / windows_left;
            self.current.physical_sectors += share;
            written -= share;
            let previous = self.shown.take().unwrap_or_else(|| gauges.clone());
            self.end_window(if is_last { gauges } else { &previous });
            self.shown = Some(previous);
            if self.grows && self.windows.len() == WINDOWS_MAX {
                self.double();
            }
        }
        // Windows that have doubled may reach `time` early: the rest belongs to the current one.
        self.current.physical_sectors += written;
        self.shown = Some(gauges.clone());
    }

    /// Sectors written to the platters since the last reading.
    fn written_since(&mut self, reading: &Reading) -> u64 {
        let before = std::mem::replace(&mut self.physical_sectors, reading.written_sectors);
        // An array counts less than before when a drive has failed.
        reading.written_sectors.saturating_sub(before)
    }

    fn end_window(&mut self, gauges: &Gauges) {
        let mut window = std::mem::take(&mut self.current);
        window.cache_fill = gauges.cache_fill;
        window.gauges.clone_from(&gauges.others);
        self.windows.push(window);
        self.current_end_ns += self.window_ns;
    }

    /// Joins windows in pairs; their number, `WINDOWS_MAX`, is even.
    fn double(&mut self) {
        self.windows = self.windows.chunks(2).map(|pair| pair[0].followed_by(&pair[1])).collect();
        self.window_ns *= 2;
        self.current_end_ns = (self.windows.len() as u64 + 1) * self.window_ns;
    }

    /// Counts a request completed in the current window.
    #[inline]
    pub fn count(&mut self, op: Op, sectors: u64, latency_ns: u64) {
        let window = &mut self.current;
        window.requests += 1;
        match op {
            Op::Read => window.read_sectors += sectors,
            Op::Write => window.written_sectors += sectors,
            Op::Flush | Op::Discard => {}
        }
        window.longest_ns = window.longest_ns.max(latency_ns);
    }

    /// The finished timeline; the last window may be shorter than the others.
    pub fn finish(mut self, reading: &Reading) -> Timeline {
        let rest = self.written_since(reading);
        if self.current.requests > 0 {
            self.end_window(&reading.gauges);
        }
        // Without a request since the last turn, they are writes of that time.
        if let Some(last) = self.windows.last_mut() {
            last.physical_sectors += rest;
        }
        let windows = &self.windows;
        let mut by_name: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut units = BTreeMap::new();
        for gauge in windows.iter().flat_map(|w| &w.gauges) {
            by_name.entry(gauge.name.to_string()).or_default().push(gauge.value);
            units.entry(gauge.name).or_insert(gauge.unit);
        }
        Timeline {
            window_ns: self.window_ns,
            requests: windows.iter().map(|w| w.requests).collect(),
            read_bytes: windows.iter().map(|w| w.read_sectors * SECTOR_BYTES).collect(),
            written_bytes: windows.iter().map(|w| w.written_sectors * SECTOR_BYTES).collect(),
            physical_written_bytes: windows.iter().map(|w| w.physical_sectors * SECTOR_BYTES).collect(),
            longest_ns: windows.iter().map(|w| w.longest_ns).collect(),
            cache_fill: windows.iter().filter_map(|w| w.cache_fill).collect(),
            gauges: by_name,
            gauge_units: units.into_iter().map(|(name, unit)| (name.to_string(), unit)).collect(),
        }
    }
}

impl TimelineWindow {
    /// The two windows joined, with the gauges of the later one.
    fn followed_by(&self, later: &TimelineWindow) -> TimelineWindow {
        TimelineWindow {
            requests: self.requests + later.requests,
            read_sectors: self.read_sectors + later.read_sectors,
            written_sectors: self.written_sectors + later.written_sectors,
            physical_sectors: self.physical_sectors + later.physical_sectors,
            longest_ns: self.longest_ns.max(later.longest_ns),
            cache_fill: later.cache_fill,
            gauges: later.gauges.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_pass_at_once_show_what_was_shown_before() {
        let fill = |fill: f64| Reading {
            gauges: Gauges { cache_fill: Some(fill), others: vec![Gauge::count("tracks", 10.0 * fill)] },
            written_sectors: (10.0 * fill).round() as u64,
        };
        let mut builder = TimelineBuilder::fixed(Nanos(10));
        assert!(!builder.is_over(Nanos(9)) && builder.is_over(Nanos(10)));
        builder.count(Op::Read, 2, 7);
        builder.count(Op::Discard, 9, 3);
        builder.turn(Nanos(10), &fill(0.1));
        builder.count(Op::Write, 3, 5);
        // Three windows end: the last takes what is shown now.
        builder.turn(Nanos(40), &fill(0.5));
        builder.count(Op::Flush, 0, 1);
        builder.turn(Nanos(59), &fill(0.7));
        builder.count(Op::Read, 1, 2);
        let timeline = builder.finish(&fill(0.9));
        let expected = [0.1, 0.1, 0.1, 0.5, 0.7, 0.9];
        assert_eq!(
            timeline,
            Timeline {
                window_ns: 10,
                requests: vec![2, 1, 0, 0, 1, 1],
                read_bytes: vec![1024, 0, 0, 0, 0, 512],
                written_bytes: vec![0, 1536, 0, 0, 0, 0],
                physical_written_bytes: vec![512, 512, 512, 1024, 1024, 1024],
                longest_ns: vec![7, 5, 0, 0, 1, 2],
                cache_fill: expected.to_vec(),
                gauges: BTreeMap::from([("tracks".to_string(), expected.map(|fill| 10.0 * fill).to_vec())]),
                gauge_units: BTreeMap::from([("tracks".to_string(), GaugeUnit::Count)]),
            }
        );
        let mut first = TimelineBuilder::fixed(Nanos(10));
        first.turn(Nanos(20), &fill(0.3));
        assert_eq!(first.finish(&fill(0.4)).cache_fill, [0.3, 0.3], "at the first turn what is shown now");
    }

    /// The phases of windows of a second, each with this many requests of 1,000 bytes.
    fn phases(requests: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
        let requests: Vec<u64> = requests.collect();
        let written_bytes: Vec<u64> = requests.iter().map(|count| 1000 * count).collect();
        let read_bytes = vec![0; requests.len()];
        let timeline =
            Timeline { window_ns: 1_000_000_000, read_bytes, written_bytes, requests, ..Timeline::default() };
        let phases = timeline.phases_from(Nanos::from_secs(9.5));
        phases.iter().map(|phase| (phase.time.0 / 1_000_000_000, phase.bytes_per_s.round() as u64)).collect()
    }

    #[test]
    fn a_rate_that_changes_for_long_makes_phases() {
        let steady = (0..650).map(|at| 100 + at % 7 * 10);
        assert_eq!(phases(steady), []);
        // The ten seconds before the moment are fast, and count for nothing.
        let two = (0..650).map(|at| if (10..490).contains(&at) { 10 } else { 1000 });
        assert_eq!(phases(two), [(480, 10_000), (160, 1_000_000)]);
        // Each turn takes 100 s.
        let turns = (0..650).map(|at| if at < 10 || (at - 10) % 100 < 80 { 10 } else { 1000 });
        let found = phases(turns);
        assert_eq!((found.len(), found[0], found[1]), (13, (80, 10_000), (20, 1_000_000)));
        // Of turns much shorter than what is told apart the mean is told, and of a few requests nothing.
        assert_eq!(phases((0..650).map(|at| if at % 4 < 3 { 1 } else { 1000 })), []);
        assert_eq!(phases((0..650).map(|at| u64::from(at % 30 == 0))), []);
        assert_eq!(phases((0..12).map(|at| at * 100)), []);
    }

    #[test]
    fn a_pair_of_windows_is_their_sum_and_shows_the_later() {
        let window = |n: u64| TimelineWindow {
            requests: n,
            read_sectors: 10 * n,
            written_sectors: 100 * n,
            physical_sectors: 1000 * n,
            longest_ns: 7 - n,
            cache_fill: Some(n as f64),
            gauges: vec![Gauge::count("n", n as f64)],
        };
        let joined = window(1).followed_by(&window(2));
        assert_eq!((joined.requests, joined.read_sectors, joined.written_sectors, joined.longest_ns), (3, 30, 300, 6));
        assert_eq!(joined.physical_sectors, 3000);
        assert_eq!((joined.cache_fill, joined.gauges), (Some(2.0), vec![Gauge::count("n", 2.0)]));
    }

    #[test]
    fn windows_double_and_lose_nothing() {
        let mut builder = TimelineBuilder::growing(Nanos(10));
        let none = Reading::default();
        for i in 0..100_000u64 {
            let time = Nanos(i);
            if builder.is_over(time) {
                builder.turn(time, &none);
            }
            builder.count(Op::Write, 1, i);
        }
        let timeline = builder.finish(&none);
        assert_eq!(timeline.requests.iter().sum::<u64>(), 100_000);
        assert!(timeline.requests.len() <= WINDOWS_MAX);
        assert_eq!(timeline.window_ns, 160);
        assert_eq!(timeline.requests[0], 160);
        assert_eq!(timeline.longest_ns[0], 159);
    }
}
