//! The course of a run in equal windows of time. A longer run has longer windows, each made of two, not more of them:
//! memory stays small, and the result is the same however the run was cut.

use std::collections::BTreeMap;

use crate::layer::{Gauge, GaugeUnit, Gauges};
use crate::record;
use crate::request::Op;
use crate::units::{Nanos, SECTOR_BYTES};

/// Windows at most; then pairs are joined.
pub const WINDOWS_MAX: usize = 1024;

/// The first length of a window.
pub const WINDOW_FIRST: Nanos = Nanos(100_000_000);

record! {
    /// The course of time, in equal windows from the beginning of counting.
    pub struct Timeline {
        /// The length of a window; it doubles as a run grows.
        pub window_ns: u64,
        /// Requests completed in each window.
        pub requests: Vec<u64>,
        /// Host bytes that they read.
        pub read_bytes: Vec<u64>,
        /// Host bytes that they wrote.
        pub written_bytes: Vec<u64>,
        /// Their longest latency.
        pub longest_ns: Vec<u64>,
        /// Share of the persistent cache in use at each window's end, 0 to 1; empty where the layer has none. Of an array, the
        /// mean over the drives with a cache. Windows that pass while one request is served show what the turn before them
        /// showed, the last of them what is shown after it.
        pub cache_fill: Vec<f64>,
        /// The layer's gauges at each window's end, by name. Of an array, sums, or means where they are shares.
        pub gauges: BTreeMap<String, Vec<f64>>,
        /// Their units: `share`, `count` or `bytes`.
        pub gauge_units: BTreeMap<String, GaugeUnit>,
    }
}

impl Timeline {
    /// The longest latency of the requests that were completed in windows that overlap this time, in ns from the beginning.
    pub fn longest_between(&self, from: u64, to: u64) -> u64 {
        let window = |ns: u64| (ns / self.window_ns.max(1)) as usize;
        let windows = self.longest_ns.iter().take(window(to) + 1).skip(window(from));
        windows.copied().max().unwrap_or(0)
    }
}

#[derive(Clone, Default)]
struct TimelineWindow {
    requests: u64,
    read_sectors: u64,
    written_sectors: u64,
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
    /// Gauges at the last turn.
    shown: Option<Gauges>,
}

impl Default for TimelineBuilder {
    /// Growing windows of the first length.
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
        }
    }

    /// Windows of exactly `window`, as many as the run takes.
    pub fn fixed(window: Nanos) -> TimelineBuilder {
        TimelineBuilder { grows: false, ..TimelineBuilder::growing(window) }
    }

    /// True if `time` lies behind the current window, so that [`TimelineBuilder::turn`] is due.
    #[inline]
    pub fn is_over(&self, time: Nanos) -> bool {
        time.0 >= self.current_end_ns
    }

    /// Ends windows until `time` lies in the current one. `gauges` is what the layer shows now: the last of the windows that
    /// end here takes it, those before it what was shown at the turn before (now, at the first turn), since a layer shows
    /// nothing while it works.
    #[cold]
    pub fn turn(&mut self, time: Nanos, gauges: &Gauges) {
        while self.is_over(time) {
            let last = time.0 < self.current_end_ns.saturating_add(self.window_ns);
            let before = self.shown.take().unwrap_or_else(|| gauges.clone());
            self.end_window(if last { gauges } else { &before });
            self.shown = Some(before);
            if self.grows && self.windows.len() == WINDOWS_MAX {
                self.double();
            }
        }
        self.shown = Some(gauges.clone());
    }

    fn end_window(&mut self, gauges: &Gauges) {
        let mut window = std::mem::take(&mut self.current);
        window.cache_fill = gauges.cache_fill;
        window.gauges.clone_from(&gauges.others);
        self.windows.push(window);
        self.current_end_ns += self.window_ns;
    }

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
    pub fn finish(mut self, gauges: &Gauges) -> Timeline {
        if self.current.requests > 0 {
            self.end_window(gauges);
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
            longest_ns: windows.iter().map(|w| w.longest_ns).collect(),
            cache_fill: windows.iter().filter_map(|w| w.cache_fill).collect(),
            gauges: by_name,
            gauge_units: units.into_iter().map(|(name, unit)| (name.to_string(), unit)).collect(),
        }
    }
}

impl TimelineWindow {
    /// The window of both; it shows what the later one does.
    fn followed_by(&self, later: &TimelineWindow) -> TimelineWindow {
        TimelineWindow {
            requests: self.requests + later.requests,
            read_sectors: self.read_sectors + later.read_sectors,
            written_sectors: self.written_sectors + later.written_sectors,
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
        let fill = |fill: f64| Gauges { cache_fill: Some(fill), others: vec![Gauge::count("tracks", 10.0 * fill)] };
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

    #[test]
    fn a_pair_of_windows_is_their_sum_and_shows_the_later() {
        let window = |n: u64| TimelineWindow {
            requests: n,
            read_sectors: 10 * n,
            written_sectors: 100 * n,
            longest_ns: 7 - n,
            cache_fill: Some(n as f64),
            gauges: vec![Gauge::count("n", n as f64)],
        };
        let joined = window(1).followed_by(&window(2));
        assert_eq!((joined.requests, joined.read_sectors, joined.written_sectors, joined.longest_ns), (3, 30, 300, 6));
        assert_eq!((joined.cache_fill, joined.gauges), (Some(2.0), vec![Gauge::count("n", 2.0)]));
    }

    #[test]
    fn windows_double_and_lose_nothing() {
        let mut builder = TimelineBuilder::growing(Nanos(10));
        let none = Gauges::default();
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
