//! Makes figures from outcomes, by a pure function for each. Nothing is drawn here.
//!
//! Times on linear axes are scaled to one unit that fits the longest run; logarithmic axes keep seconds.

use std::collections::BTreeSet;

use smrkit::layer::{BASELINE, GaugeUnit};
use smrkit::settings::Arrival;
use smrkit::stats::measured::{MEASURED, Measured};
use smrkit::stats::outcome::{ByCause, Capacity, Outcome};
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use crate::figure::{Axis, BarPart, Body, Colour, Figure, Numbers, Panel, Series, Style, gapped};
use crate::format;
use crate::label::{beside, line_styles, names};
use crate::rebuild;

/// Colours of the causes, in the order of their numbers.
const CAUSE_COLOURS: [Colour; 4] = [Colour::SKY, Colour::ORANGE, Colour::VERMILION, Colour::PINK];

/// A cache counts as full if at least this share of it is in use (assumption).
pub const FULL: f64 = 0.9;

/// The most runs whose lines over time share a panel.
const TOGETHER_MAX: usize = 4;

/// Every figure of a comparison, in the order of a page.
pub fn figures(runs: &[Outcome], measured: Option<&Measured>) -> Vec<Figure> {
    // Of a measured drive only the host's view is known, so figures of the drive's inner work leave it out.
    let with_measured = beside(runs, measured);
    let (outside, inside) = (All::new(&with_measured), All::new(runs));
    let mut figures = vec![
        outside.latency(),
        outside.iops(),
        outside.longest(),
        outside.throughput(),
        inside.cache_fill(),
        inside.gauges(),
        inside.amplification(),
        inside.busy(),
    ];
    figures.extend(rebuild::figures(runs));
    figures.push(inside.capacity());
    figures
}

/// The figure that a page shows first: the rate over time if all runs are flat out, without think time and without a rebuild; else the longest
/// latency, because the rate is then given by the requests. A mark in it shows when a request of a run first waited for cleaning.
pub fn telling(runs: &[Outcome]) -> Figure {
    let all = All::new(runs);
    let has_given_rate = |run: &Outcome| {
        run.engine.arrival != Arrival::FlatOut || run.engine.think > Nanos::ZERO || run.rebuild.is_some()
    };
    let mut figure = if runs.iter().any(has_given_rate) { all.longest() } else { all.rates() };
    let (unit_s, _) = all.time_unit();
    // A panel of one run has the run's name already.
    let is_shared = figure.panels.len() == 1;
    let shingled = runs.iter().filter(|run| ![BASELINE, MEASURED].contains(&&*run.layer)).count();
    let marks = runs.iter().zip(&all.names).filter_map(|(run, name)| {
        // The time of the first wait for cleaning. Whether the cache was full then, its fill tells.
        let at_s = run.verdict.cache_full_at_s.filter(|&at_s| at_s > 0.0)?;
        let window = (at_s * 1e9) as u64 / run.timeline.window_ns.max(1);
        let is_full = run.timeline.cache_fill.get(window as usize).is_some_and(|&fill| fill >= FULL);
        let event = if is_full { "cache full" } else { "cleaning begins" };
        let prefix = if is_shared && shingled > 1 { format!("{name}: ") } else { String::new() };
        Some((name, (at_s / unit_s, format!("{prefix}{event}, {}", format::seconds(at_s)))))
    });
    for (name, mark) in marks {
        let is_of = |panel: &&mut Panel| match &panel.body {
            Body::Lines(lines) => lines.iter().any(|line| line.name == *name),
            _ => false,
        };
        figure.panels.iter_mut().filter(is_of).for_each(|panel| panel.marks.push(mark.clone()));
    }
    figure
}

/// Points of a line.
type Points = Vec<(f64, f64)>;

/// All runs of a comparison, with their names and looks.
struct All<'a> {
    runs: &'a [Outcome],
    names: Vec<String>,
    line_styles: Vec<(Colour, bool)>,
}

impl All<'_> {
    fn new(runs: &[Outcome]) -> All<'_> {
        All { runs, names: names(runs), line_styles: line_styles(runs) }
    }

    fn has_arrays(&self) -> bool {
        self.runs.iter().any(|run| !run.members.is_empty())
    }

    fn latency(&self) -> Figure {
        let panel = |title: &str, histogram: fn(&Outcome) -> &Vec<(u64, u64)>| {
            let lines = self.series(Style::STEPS, |run| slower_than(histogram(run)));
            let x = Axis::log("Latency (logarithmic)", Numbers::Time);
            Panel::lines(Some(title), x, Axis::log(format!("{title} that took longer"), Numbers::Percent), lines)
        };
        let panels = [panel("Reads", |r| &r.latency_histogram.read), panel("Writes", |r| &r.latency_histogram.write)];
        let note = "The share of requests that took longer than the latency below: further left, and lower, is better.";
        let mut figure = Figure::of_data("latency", "How long requests take", note, panels, "No request was counted.");
        figure.share_x();
        figure
    }

    fn iops(&self) -> Figure {
        let iops = |run: &Outcome| self.per_second(run, &run.timeline.requests);
        let panels = self.over_time(None, Axis::linear("Requests per second"), &[], Style::STEPS, iops);
        let note = "Requests completed in each window of time.";
        Figure::of_data("iops", "Requests per second", note, panels, NO_WINDOW)
    }

    fn longest(&self) -> Figure {
        let longest_s = |run: &Outcome| {
            let windows = run.timeline.longest_ns.iter().zip(&run.timeline.requests);
            let seconds = windows.map(|(&ns, &requests)| if requests > 0 { ns as f64 / 1e9 } else { f64::NAN });
            gapped(&self.steps(run, &seconds.collect::<Vec<f64>>()))
        };
        let y = Axis::log("Longest latency (logarithmic)", Numbers::Time);
        let guides = [(7.0, "7 s".into()), (30.0, "30 s".into())];
        let panels = self.over_time(None, y, &guides, Style::STEPS, longest_s);
        let note = "The slowest request completed in each window. The marks are usual timeouts: RAID gives up on a disk \
                    after about 7 s, Linux after 30 s.";
        Figure::of_data("longest", "Longest request", note, panels, NO_WINDOW)
    }

    fn rates(&self) -> Figure {
        let bytes_per_s = |run: &Outcome| {
            let bytes: Vec<u64> =
                run.timeline.read_bytes.iter().zip(&run.timeline.written_bytes).map(|(r, w)| r + w).collect();
            // A window without completions has no place on a logarithmic axis.
            let rates = self.per_second(run, &bytes).into_iter();
            gapped(&rates.map(|(at, rate)| (at, if rate > 0.0 { rate } else { f64::NAN })).collect::<Points>())
        };
        let y = Axis::log("Bytes a second (logarithmic)", Numbers::Bytes);
        let panels = self.over_time(None, y, &[], Style::STEPS, bytes_per_s);
        let note = "Bytes read and written a second in each window of time, on a logarithmic axis. Gaps are windows in which no request \
                    was completed.";
        Figure::of_data("rates", "How fast over time", note, panels, NO_WINDOW)
    }

    fn throughput(&self) -> Figure {
        let panels = |title: &str, bytes: fn(&Outcome) -> &[u64]| {
            // If no run read (or wrote), there is nothing to show.
            let is_any = self.runs.iter().any(|run| bytes(run).iter().any(|&bytes| bytes > 0));
            let mb_per_s = |run: &Outcome| match is_any {
                true => self.per_second(run, bytes(run)).into_iter().map(|(x, y)| (x, y / 1e6)).collect(),
                false => Vec::new(),
            };
            let y = Axis::linear(format!("{title} (MB/s)"));
            self.over_time(Some(title), y, &[], Style::STEPS, mb_per_s)
        };
        let panels = [
            panels("Read", |r| &r.timeline.read_bytes),
            panels("Written", |r| &r.timeline.written_bytes),
            // The last window would show all that the rebuild wrote after the last request.
            panels("Written to the platters", |r| match r.rebuild {
                Some(_) => &[],
                None => &r.timeline.physical_written_bytes,
            }),
        ];
        let note = "Bytes per second in each window of time. What the drive wrote to its platters, divided by what the host wrote, is \
                    the write amplification; it is not shown beside a rebuild.";
        Figure::of_data("throughput", "Throughput", note, panels.into_iter().flatten(), NO_WINDOW)
    }

    fn cache_fill(&self) -> Figure {
        let percent = |run: &Outcome| self.gauge(run, &run.timeline.cache_fill, 100.0);
        let panels = self.over_time(None, Axis::linear("Persistent cache in use (%)"), &[], Style::LINE, percent);
        let note = "How full the persistent cache is at the end of each window.";
        Figure::of_data("cache-fill", "Cache fill", note, panels, "No layer here has a persistent cache.")
    }

    fn gauges(&self) -> Figure {
        let keys: BTreeSet<&String> = self.runs.iter().flat_map(|r| r.timeline.gauges.keys()).collect();
        let panel = |key: &String| {
            let values = |run: &Outcome| match run.timeline.gauges.get(key) {
                Some(values) => self.gauge(run, values, 1.0),
                None => Vec::new(),
            };
            let unit = self.runs.iter().find_map(|run| run.timeline.gauge_units.get(key));
            let words = gauge_words(key);
            let y = Axis { numbers: gauge_numbers(unit.copied()), ..Axis::linear(words.as_str()) };
            Panel::lines(Some(&words), self.time_axis(), y, self.series(Style::LINE, values))
        };
        let note = "Values that the layers report at the end of each window.";
        let panels = keys.into_iter().map(panel);
        let mut figure = Figure::of_data("gauges", "Gauges of the layers", note, panels, "No layer here has gauges.");
        figure.share_x();
        figure
    }

    fn amplification(&self) -> Figure {
        let panel = self.bars_by_cause(
            Axis::linear("Sectors written / sectors the host wrote"),
            |run| match run.write_amplification {
                Some(_) => by_cause(&run.physical_written_sectors).map(|n| n / run.host_written_sectors as f64),
                None => [0.0; 4],
            },
            |run| format::times(run.write_amplification),
        );
        let note = "Sectors written to the platters for each sector that the host wrote, by cause.";
        Figure::of_data("amplification", "Write amplification by cause", note, [panel], "The host wrote nothing.")
    }

    fn busy(&self) -> Figure {
        let longest = self.runs.iter().map(|r| by_cause(&r.busy_by_cause_ns).iter().sum::<f64>()).fold(0.0, f64::max);
        let (unit_s, unit) = format::time_unit(longest / 1e9);
        let (who, note) = match self.has_arrays() {
            true => {
                ("drives were", "The causes that kept the drives busy; of an array, the sum of the time of all drives.")
            }
            false => ("drive was", "The causes that kept the drive busy."),
        };
        let panel = self.bars_by_cause(
            Axis::linear(format!("Time the {who} busy ({unit})")),
            |run| by_cause(&run.busy_by_cause_ns).map(|ns| ns / 1e9 / unit_s),
            |run| format::nanos(run.busy_by_cause_ns.total),
        );
        Figure::of_data("busy", "Busy time by cause", note, [panel], &format!("The {who} never busy."))
    }

    fn capacity(&self) -> Figure {
        let share = |run: &Outcome, n: u64| 100.0 * n as f64 / run.capacity.raw_sectors as f64;
        let part = |name: &str, colour, sectors: fn(&Outcome) -> u64| BarPart {
            name: name.into(),
            colour,
            values: self.runs.iter().map(|r| finite(share(r, sectors(r)))).collect(),
        };
        let mut parts = vec![
            part("host", Colour::SKY, |r| r.capacity.host_sectors),
            part("cache", Colour::ORANGE, |r| r.capacity.cache_sectors),
            part("guard", Colour::VERMILION, |r| r.capacity.guard_sectors),
            part("spare", Colour::PINK, |r| r.capacity.spare_sectors),
        ];
        if self.has_arrays() {
            parts.push(part("parity, copies and unused", Colour::GREY, |r| redundant_sectors(&r.capacity)));
        }
        let totals = self.runs.iter().map(|r| format::sectors(r.capacity.raw_sectors)).collect();
        let x = Axis::linear("Share of the platters' sectors (%)");
        let panel = Panel::bars(None, x, self.names.clone(), totals, parts);
        let note = match self.has_arrays() {
            true => "Where the platters' sectors go. After each bar: the raw size of all disks of the array.",
            false => "Where the platters' sectors go. After each bar: the raw size of the disk.",
        };
        Figure::of_data("capacity", "Capacity", note, [panel], "No capacity is known.")
    }

    /// The lines of all runs over time, in one panel or, if there are many runs, in a panel for each, all with the same axes.
    fn over_time(
        &self,
        title: Option<&str>,
        y: Axis,
        guides: &[(f64, String)],
        style: Style,
        points: impl Fn(&Outcome) -> Points,
    ) -> Vec<Panel> {
        let series = self.series(style, points);
        let panel = |title: Option<&str>, series: Vec<Series>| {
            let guides = guides.to_vec();
            Panel { guides, ..Panel::lines(title, self.time_axis(), y.clone(), series) }
        };
        let panel_of_one = |one: Series| {
            let name = title.map_or_else(|| one.name.clone(), |title| format!("{title}: {}", one.name));
            panel(Some(&name), vec![one])
        };
        let panels = match self.runs.len() {
            0..=TOGETHER_MAX => vec![panel(title, series)],
            _ => series.into_iter().map(panel_of_one).collect(),
        };
        let mut figure = Figure { panels, ..Figure::default() };
        figure.share_y();
        let end = self.runs.iter().map(|run| run.elapsed_ns as f64 / 1e9 / self.time_unit().0);
        let range = self.time_axis().range(end);
        figure.panels.iter_mut().for_each(|panel| panel.x.fixed = Some(range));
        figure.panels
    }

    /// A series for each run, in its colour; runs without points are left out.
    fn series(&self, style: Style, points: impl Fn(&Outcome) -> Points) -> Vec<Series> {
        let runs = self.runs.iter().zip(&self.names).zip(&self.line_styles);
        let series = runs.map(|((run, name), &(colour, dashed))| {
            let style = Style { dashed, ..style };
            Series { name: name.clone(), colour, style, points: points(run) }
        });
        series.filter(|s| !s.points.is_empty()).collect()
    }

    /// A bar for each run, of a quantity by cause, with a text after it.
    fn bars_by_cause(
        &self,
        x: Axis,
        values: impl Fn(&Outcome) -> [f64; 4],
        total: impl Fn(&Outcome) -> String,
    ) -> Panel {
        let values: Vec<[f64; 4]> = self.runs.iter().map(|r| values(r).map(finite)).collect();
        Panel::bars(None, x, self.names.clone(), self.runs.iter().map(total).collect(), cause_parts(&values))
    }

    /// The unit of all time axes: seconds in it, and its name.
    fn time_unit(&self) -> (f64, &'static str) {
        let longest = self.runs.iter().map(|r| r.elapsed_ns).max().unwrap_or(0);
        format::time_unit(longest as f64 / 1e9)
    }

    fn time_axis(&self) -> Axis {
        Axis::linear(format!("Time ({})", self.time_unit().1))
    }

    /// Converts counts per window to rates per second. The last window ends with the run, so its rate is over its actual length. It is left out
    /// if that is less than half a window, because few requests make it jump.
    fn per_second(&self, run: &Outcome, counts: &[u64]) -> Points {
        let window_s = run.timeline.window_ns as f64 / 1e9;
        let last_s = (run.elapsed_ns as f64 / 1e9 - window_s * counts.len().saturating_sub(1) as f64).min(window_s);
        let mut rates: Vec<f64> = counts.iter().map(|&n| n as f64 / window_s).collect();
        if let Some(rate) = rates.last_mut()
            && last_s > 0.0
        {
            *rate *= window_s / last_s;
        }
        if rates.len() > 1 && last_s < 0.5 * window_s {
            rates.pop();
        }
        self.steps(run, &rates.into_iter().map(finite).collect::<Vec<f64>>())
    }

    /// Returns a function for the place on the time axis where window `i` of a run begins, and window `i - 1` ends.
    fn begin_of_window(&self, run: &Outcome) -> impl Fn(usize) -> f64 {
        let (unit_s, window_s) = (self.time_unit().0, run.timeline.window_ns as f64 / 1e9);
        let elapsed_s = run.elapsed_ns as f64 / 1e9;
        move |i| (window_s * i as f64).min(elapsed_s) / unit_s
    }

    /// Points of a stepped line with a value for each window (NaN: none), and a last point at the end of the last window.
    fn steps(&self, run: &Outcome, values: &[f64]) -> Points {
        let at = self.begin_of_window(run);
        let mut points: Vec<_> = values.iter().enumerate().map(|(i, &v)| (at(i), v)).collect();
        if let Some(&(_, value)) = points.last() {
            points.push((at(values.len()), value));
        }
        points
    }

    /// A value at each window's end.
    fn gauge(&self, run: &Outcome, values: &[f64], factor: f64) -> Points {
        let at = self.begin_of_window(run);
        values.iter().enumerate().filter(|(_, v)| v.is_finite()).map(|(i, &v)| (at(i + 1), v * factor)).collect()
    }
}

const NO_WINDOW: &str = "No request was completed.";

/// The share of requests slower than each latency, as steps; the last step ends at the slowest.
pub fn slower_than(histogram: &[(u64, u64)]) -> Vec<(f64, f64)> {
    let total: u64 = histogram.iter().map(|&(_, n)| n).sum();
    let Some(&(first, _)) = histogram.first() else { return Vec::new() };
    let seconds = |ns: u64| ns.max(1) as f64 / 1e9;
    let mut points = vec![(seconds(first), 1.0)];
    let mut slower = total;
    for &(ns, n) in histogram {
        let before = slower as f64 / total.max(1) as f64;
        slower -= n;
        let share = slower as f64 / total.max(1) as f64;
        // A logarithmic axis has no 0: the last step keeps its height.
        points.push((seconds(ns), if slower > 0 { share } else { before }));
    }
    points
}

/// Sectors that an array's members offer in all, less those that the array offers.
fn redundant_sectors(capacity: &Capacity) -> u64 {
    let Capacity { raw_sectors, host_sectors, cache_sectors, guard_sectors, spare_sectors } = *capacity;
    raw_sectors.saturating_sub(host_sectors + cache_sectors + guard_sectors + spare_sectors)
}

/// Stacked bars of quantities by cause, with a row for each of `rows`.
fn cause_parts(rows: &[[f64; 4]]) -> Vec<BarPart> {
    let part = |cause: Cause| BarPart {
        name: cause.name().into(),
        colour: CAUSE_COLOURS[cause as usize],
        values: rows.iter().map(|row| row[cause as usize]).collect(),
    };
    Cause::ALL.map(part).into()
}

fn by_cause(counts: &ByCause) -> [f64; 4] {
    Cause::ALL.map(|cause| *counts.of(cause) as f64)
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// The form of a gauge's numbers. An old record has no unit.
fn gauge_numbers(unit: Option<GaugeUnit>) -> Numbers {
    match unit {
        Some(GaugeUnit::Share) => Numbers::Percent,
        Some(GaugeUnit::Bytes) => Numbers::Bytes,
        Some(GaugeUnit::Count) | None => Numbers::Plain,
    }
}

/// A gauge's name in words; its key if the layer is not built in.
fn gauge_words(key: &str) -> String {
    let words = match key {
        "active_zones" => "Active zones",
        "cache_tracks_active" => "Tracks of the cache that are in use",
        "cached_tracks" => "Tracks with a copy in the cache",
        "free_conventional_share" => "Share of the conventional zones that are free",
        "free_segments" => "Free segments",
        "free_zones" => "Free zones",
        "invalid_share" => "Share of the log that is not valid",
        "log_length" => "Entries of the log",
        "log_sectors" => "Sectors of the log",
        "map_bytes" => "Memory of the maps",
        "map_entries" => "Entries of the map",
        "open_zones" => "Open zones",
        "share_in_use" => "Share of the tracks in use",
        "spare_sblocks" => "Spare S-blocks",
        "write_cache_sectors" => "Sectors in the write cache",
        _ => return key.replace('_', " "),
    };
    words.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_form_of_their_unit() {
        let units = [Some(GaugeUnit::Share), Some(GaugeUnit::Bytes), Some(GaugeUnit::Count), None];
        assert_eq!(units.map(gauge_numbers), [Numbers::Percent, Numbers::Bytes, Numbers::Plain, Numbers::Plain]);
    }

    #[test]
    fn gauges_have_words() {
        let known = [
            ("free_zones", "Free zones"),
            ("log_length", "Entries of the log"),
            ("share_in_use", "Share of the tracks in use"),
            ("own_gauge", "own gauge"),
        ];
        for (key, expected) in known {
            assert_eq!(gauge_words(key), expected);
        }
    }
}
