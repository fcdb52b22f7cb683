//! The fit of a drive to the logs of the job: its kind, the values of its mechanisms, each from the shape of one curve in closed form, and the
//! drive file of them.
//!
//! **Kind.** A log takes a small durable write at the same cost wherever its LBA lies; a conventional disk has to seek. Data that was
//! written at random, and is read in order after a rest, is as fast as before if the drive has moved it to its static place (static
//! mapping), and slow if it stays in the order of writing (dynamic mapping). A full cache shows as a fall in the rate of random writes.
//!
//! **Values.** A durable chunk costs a fixed time for each entry plus its transfer; pauses among chunks are copies of the map. The falls of
//! sequential durable writes of two sizes give the room of the log and the loss between two writes; the fall of small random writes gives
//! the number of entries. After the fall each write waits for the cleaning of a band, whose length follows from the time.

use serde::Serialize;
use smrkit::error::Error;
use smrkit::units::SECTOR_BYTES;

use super::{KIB, Logs, MIB, NEAR, Row, rest_s};

/// A value, and the range that the measurement allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// The lower end.
    pub low: f64,
    /// The value.
    pub value: f64,
    /// The upper end.
    pub high: f64,
}

impl Fitted {
    /// A value with an error of `share` of itself.
    fn within(value: f64, share: f64) -> Fitted {
        Fitted { low: value * (1.0 - share), value, high: value * (1.0 + share) }
    }

    /// The value and its range rounded to counts of at least one.
    fn whole(self) -> Fitted {
        let count = |value: f64| value.round().max(1.0);
        Fitted { low: count(self.low), value: count(self.value), high: count(self.high) }
    }

    fn scaled(self, by: f64) -> Fitted {
        Fitted { low: self.low * by, value: self.value * by, high: self.high * by }
    }
}

/// Kinds of drives, by where they put writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Writes go to their places.
    Conventional,
    /// A persistent cache over bands at fixed places, cleaned when idle: Seagate's kind.
    PersistentCache,
    /// Writes are appended wherever there is room, and stay there: Western Digital's kind.
    DynamicMapping,
    /// Logs are missing, or contradict each other.
    Unknown,
}

impl Kind {
    /// The kind in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Kind::Conventional => "conventional (CMR)",
            Kind::PersistentCache => "shingled, with a persistent cache that is cleaned when idle (Seagate's kind)",
            Kind::DynamicMapping => "shingled, with a dynamic mapping (Western Digital's kind)",
            Kind::Unknown => "can't tell",
        }
    }
}

/// A measured number, and the same number as the fitted values predict it.
#[derive(Clone, Debug, Serialize)]
pub struct Residual {
    /// What was measured, with its unit.
    pub what: &'static str,
    /// As measured.
    pub measured: f64,
    /// As the fitted values predict it.
    pub fitted: f64,
}

/// The fit of a drive.
#[derive(Clone, Debug, Serialize)]
pub struct Fit {
    /// Its kind.
    pub kind: Kind,
    /// The evidence for that, a sentence each.
    pub evidence: Vec<String>,
    /// Values by name and unit.
    pub values: Vec<(&'static str, Fitted)>,
    /// Checks against measurements that were not used for the fit.
    pub residuals: Vec<Residual>,
}

/// Names of the values that a drive file needs.
const CAPACITY: &str = "capacity, GB";
const OUTER: &str = "outermost tracks, MB/s";
const INNER: &str = "innermost tracks, MB/s";
const RPM: &str = "rotations a minute";
const MEAN_SEEK: &str = "mean seek, ms";
const ENTRY: &str = "an entry of the log, ms";
const SHARED: &str = "writes that share an entry";
const MOST_IN_ENTRY: &str = "the most in an entry, MiB";
const UNTIL_FALL: &str = "small random writes until the fall";
const BETWEEN_COPIES: &str = "writes between copies of the map";
const COPY: &str = "a copy of the map, s";
const CACHE: &str = "persistent cache, GB";
const GAP: &str = "lost between two writes, MiB";
const BAND: &str = "a band, MB";
const BYPASS: &str = "runs that bypass the cache from, MiB";

/// The last entry of a chunk is half full on average.
const LAST_ENTRY: f64 = 0.5;

/// One entry certainly holds a chunk of this size.
const SHORT: f64 = MIB as f64;

/// Relative errors of fitted values (assumptions): of a stream's rate, of the rotation, of a count of commands, of a time, of an entry's
/// size, and of a band, which depends on several values.
const RATE_ERROR: f64 = 0.03;
const ROTATION_ERROR: f64 = 0.02;
const COUNT_ERROR: f64 = 0.05;
const TIME_ERROR: f64 = 0.1;
const ENTRY_ERROR: f64 = 0.15;
const BAND_ERROR: f64 = 0.2;

/// The layer's default of `free_bytes`.
const FREE_BYTES: f64 = (128 * MIB) as f64;

/// A fall before this share of the room is used is well before its end: the room's own error is 5 %.
const WELL_BEFORE: f64 = 0.93;

/// After the fall a small random write takes at least this many times as long (assumption).
const RANDOM_FALL: f64 = 2.0;

/// After the fall a durable chunk takes at least this many times as long (assumption). Transfer is a larger part of its time.
const CHUNK_FALL: f64 = 1.25;

/// Runs with at least this share of the stream's rate are streams themselves (assumption).
const STREAMING: f64 = 0.6;

/// Costs of a log's entries.
#[derive(Clone, Debug)]
pub(super) struct LogCosts {
    /// Fixed seconds of an entry.
    pub entry_s: Fitted,
    /// The rate of transfer.
    pub bytes_per_s: f64,
    /// The most bytes of an entry, if that is less than the longest chunk.
    pub entry: Option<f64>,
}

impl LogCosts {
    /// Computes the costs from `chunks` (bytes, and seconds that they take). `spread` is the relative error of an entry's time. Without
    /// `bytes_per_s`, the rate of transfer is taken from the short chunks.
    pub fn fit(chunks: &[(f64, f64)], bytes_per_s: Option<f64>, spread: f64) -> LogCosts {
        let short: Vec<(f64, f64)> = chunks.iter().copied().filter(|(bytes, _)| *bytes <= SHORT).collect();
        let bytes_per_s = bytes_per_s.unwrap_or_else(|| 1.0 / slope(&short).max(1e-12));
        let entry_s = mean(short.iter().map(|(bytes, seconds)| seconds - bytes / bytes_per_s)).max(1e-6);
        let long = chunks.iter().filter(|(bytes, _)| *bytes > SHORT);
        let (bytes, entries) = long.fold((0.0, 0.0), |(sum, entries), (bytes, seconds)| {
            (sum + bytes, entries + (seconds - bytes / bytes_per_s) / entry_s - LAST_ENTRY)
        });
        // A limit of half of the longest chunk or more has not been seen: this chunk would have taken at most two entries.
        let longest = chunks.iter().map(|chunk| chunk.0).fold(0.0, f64::max);
        let entry = Some(bytes / entries).filter(|entry| *entry > 0.0 && *entry < longest / 2.0);
        LogCosts { entry_s: Fitted::within(entry_s, spread), bytes_per_s, entry }
    }

    /// Seconds of a chunk.
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.entry_s.value * self.entry.map_or(1.0, |most| (bytes / most + LAST_ENTRY).max(1.0))
            + bytes / self.bytes_per_s
    }
}

/// Room of a log, and the gap that is lost between two writes, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub bytes: f64,
    pub gap: f64,
}

impl Room {
    /// Computes the room from writes in chunks of two sizes, each given as (bytes of a chunk, bytes written until the fall). Both fill the
    /// same room with data and gaps: `until + gap * until / chunk` is equal for both.
    pub fn from_falls([(small, until_small), (large, until_large)]: [(f64, f64); 2]) -> Room {
        let gap = ((until_large - until_small) / (until_small / small - until_large / large).max(1e-9)).max(0.0);
        Room { bytes: until_large * (1.0 + gap / large), gap }
    }

    /// Bytes written until the fall, in chunks of `chunk` bytes.
    pub fn until_fall(&self, chunk: f64) -> f64 {
        self.bytes / (1.0 + self.gap / chunk)
    }
}

/// A fall of the rate: the number of commands before it, and the seconds of a command before and after.
#[derive(Clone, Copy, Debug)]
struct Fall {
    commands: usize,
    before_s: f64,
    after_s: f64,
}

/// Windows in which a fall is looked for.
const WINDOWS: usize = 200;

impl Fall {
    /// Finds the fall of the rate. It is where splitting the commands leaves the least variance of the logarithms of their times within both
    /// parts. `None` if commands after it do not take at least `factor` times as long.
    fn find(rows: &[Row], factor: f64) -> Option<Fall> {
        let window_rows = rows.len().div_ceil(WINDOWS).max(1);
        let windows: Vec<f64> = rows.chunks_exact(window_rows).map(|rows| mean(seconds(rows)).ln()).collect();
        let (count, sum) = (windows.len(), windows.iter().sum::<f64>());
        let mut before = 0.0;
        // The variance within the parts is least where the variance between them is greatest. A part has at least three windows.
        let parts = windows.iter().enumerate().take(count.saturating_sub(3)).map(|(at, window)| {
            before += window;
            let (first, rest) = ((at + 1) as f64, (count - at - 1) as f64);
            (at + 1, first * rest * ((sum - before) / rest - before / first).powi(2))
        });
        let (at, _) = parts.skip(2).max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let (first, rest) = rows.split_at(at * window_rows);
        // Only the second half after the fall, because at first a drive may clean data of an earlier phase, which takes another time.
        let (before_s, after_s) = (mean(seconds(first)), mean(seconds(&rest[rest.len() / 2..])));
        (after_s >= factor * before_s).then_some(Fall { commands: at * window_rows, before_s, after_s })
    }
}

fn seconds(rows: &[Row]) -> impl Iterator<Item = f64> + Clone {
    rows.iter().map(|row| row.seconds)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// The slope of the least-squares line.
fn slope(points: &[(f64, f64)]) -> f64 {
    let (x, y) = (mean(points.iter().map(|point| point.0)), mean(points.iter().map(|point| point.1)));
    let covariance: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let variance: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    covariance / variance
}

/// The quantile `share` of the commands' latencies.
fn quantile(rows: &[Row], share: f64) -> f64 {
    let mut sorted: Vec<f64> = seconds(rows).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(((sorted.len() as f64 - 1.0) * share).round() as usize).copied().unwrap_or(f64::NAN)
}

fn median(rows: &[Row]) -> f64 {
    quantile(rows, 0.5)
}

/// Mean bytes per second of the commands.
fn rate(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.bytes).sum::<f64>() / seconds(rows).sum::<f64>()
}

/// The seek curve, which is scaled to fit a drive: shares of the stroke, and ms.
const SEEK: [(f64, f64); 5] = [(0.0, 0.5), (0.005, 2.0), (0.05, 4.5), (0.333, 12.0), (1.0, 22.0)];

/// Seconds of a seek over `share` of the stroke, by that curve.
fn seek_s(share: f64) -> f64 {
    let pair = SEEK.windows(2).find(|pair| share <= pair[1].0).unwrap_or(&SEEK[3..]);
    let [(x, low), (end, high)] = [pair[0], pair[1]];
    (low + (high - low) * (share - x) / (end - x)) / 1e3
}

/// Mean seconds of a seek between random places, by that curve; short distances are more frequent.
fn mean_seek_s() -> f64 {
    mean((0..1000).map(|n| (f64::from(n) + 0.5) / 1000.0).map(|share| 2.0 * (1.0 - share) * seek_s(share)))
}

/// Capacity of a platter's side (assumption).
const SURFACE_BYTES: f64 = 0.67e12;

/// Number of surfaces of a disk of `capacity` bytes.
fn surfaces(capacity: f64) -> f64 {
    2.0 * (capacity / 2.0 / SURFACE_BYTES).ceil().max(1.0)
}

/// Tracks of a band, where a guard follows (assumption).
const BAND_TRACKS: f64 = 20.0;

/// Selects reads that wait for little but the rotation. The span may cross to another surface, which is a long seek away, so only reads that
/// follow a read in the same half of the span count, and of the two halves the one with the smaller spread. Reads of less than 1 ms were
/// read ahead.
fn nearest(rows: &[Row]) -> Vec<Row> {
    let first = rows.iter().map(|row| row.offset).fold(f64::INFINITY, f64::min);
    let half = |row: &Row| row.offset < first + NEAR as f64 / 2.0;
    let within = |wanted: bool| -> Vec<Row> {
        let pairs = rows.windows(2).filter(|pair| pair.iter().all(|row| half(row) == wanted));
        pairs.map(|pair| pair[1]).filter(|row| row.seconds > 1e-3).collect()
    };
    let spread = |rows: &Vec<Row>| quantile(rows, 0.9) - quantile(rows, 0.1);
    let [one, other] = [true, false].map(within);
    if spread(&one) < spread(&other) { one } else { other }
}

/// Usual rotations of disks, per minute: the nearest counts if the measured one is closer to it than [`USUAL_WITHIN`] (assumption).
const ROTATIONS: [f64; 6] = [5400.0, 5900.0, 5980.0, 7200.0, 10_000.0, 15_000.0];
const USUAL_WITHIN: f64 = 0.06;

impl Fit {
    /// Fits a drive to the logs. Errors: logs that every fit needs are missing.
    pub fn of(logs: &Logs) -> Result<Fit, Error> {
        let needed =
            ["read-outer", "read-inner", "read-near", "read-far", "write-near", "write-far", "read-back", "fall"];
        if let Some(name) = needed.into_iter().find(|name| logs.rows(name).len() < 20) {
            return Err(Error::Usage(format!("the log of phase {name} is missing or cut short: run the whole job")));
        }
        let fall = Fall::find(logs.rows("fall"), RANDOM_FALL);
        let (kind, evidence) = kind(logs, fall);
        let mut fit = Fit { kind, evidence, values: Vec::new(), residuals: Vec::new() };
        fit.mechanics(logs);
        if matches!(kind, Kind::PersistentCache | Kind::DynamicMapping) {
            fit.log(logs, fall);
        }
        Ok(fit)
    }

    /// A value by its name, if the drive has it.
    pub(super) fn get(&self, name: &str) -> Option<Fitted> {
        self.values.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    /// A value that every drive of the kind has.
    fn value(&self, name: &str) -> f64 {
        self.get(name).map_or(f64::NAN, |fitted| fitted.value)
    }

    /// The drive's seek times as a multiple of [`SEEK`].
    fn seek(&self) -> Fitted {
        self.get(MEAN_SEEK).unwrap_or(Fitted::within(f64::NAN, 0.0)).scaled(1.0 / (mean_seek_s() * 1e3))
    }

    /// Number of small writes that fit into the log by its room alone, without the limit of its entries.
    fn small_writes_by_room(&self) -> Option<f64> {
        let small = 4.0 * KIB as f64;
        let room = Room { bytes: self.get(CACHE)?.value * 1e9, gap: self.get(GAP)?.value * MIB as f64 };
        Some(room.until_fall(self.value(SHARED) * small) / small)
    }

    /// Adds a value, unless it is not finite. Then the logs do not show it, as the rotation of a disk that does not turn.
    fn note(&mut self, name: &'static str, value: Fitted) {
        if value.value.is_finite() {
            self.values.push((name, value));
        }
    }

    /// Adds a residual: a measured number, and its prediction.
    fn check(&mut self, what: &'static str, measured: f64, fitted: f64) {
        self.residuals.push(Residual { what, measured, fitted });
    }

    /// Fits the mechanics, which every disk has.
    fn mechanics(&mut self, logs: &Logs) {
        let (near, far) = (nearest(logs.rows("read-near")), logs.rows("read-far"));
        // A sequential stream passes over the guards between bands, so it is slower than the tracks.
        let guards = if self.kind == Kind::Conventional { 1.0 } else { 1.0 + 1.0 / BAND_TRACKS };
        let last = far.iter().map(|row| row.offset + row.bytes).fold(0.0, f64::max);
        // The largest of n random offsets is 1/(n+1) of the disk before its end, on average. Its standard deviation is about as large, and
        // the error is two of these.
        let capacity = Fitted::within(last * (1.0 + 1.0 / far.len() as f64), 2.0 / far.len() as f64);
        let [outer, inner] =
            ["read-outer", "read-inner"].map(|name| Fitted::within(rate(logs.rows(name)) * guards, RATE_ERROR));
        // Near reads wait for a uniform part of a rotation, so the quantiles 0.1 and 0.9 are 0.8 of it apart.
        let rotation_s = (quantile(&near, 0.9) - quantile(&near, 0.1)) / 0.8;
        let usual_s = ROTATIONS
            .map(|rpm| 60.0 / rpm)
            .into_iter()
            .min_by(|a, b| (a - rotation_s).abs().total_cmp(&(b - rotation_s).abs()));
        let is_usual = |usual_s: &f64| (usual_s / rotation_s - 1.0).abs() < USUAL_WITHIN;
        let rotation_s = usual_s.filter(is_usual).unwrap_or(rotation_s);
        // Far and near reads differ by their seeks only. `nearest` keeps reads of one half of the span, NEAR / 2. Two random places in it are
        // a third of it apart on average. Divided by a surface's bytes (`last / surfaces`), this distance is a share of the stroke.
        let longer_s = mean(seconds(far)) - mean(seconds(&near));
        let near_share = NEAR as f64 / 2.0 / 3.0 / last * surfaces(last);
        let seek = Fitted::within(longer_s / (mean_seek_s() - seek_s(near_share)), TIME_ERROR);
        self.note(CAPACITY, capacity.scaled(1e-9));
        self.note(OUTER, outer.scaled(1e-6));
        self.note(INNER, inner.scaled(1e-6));
        self.note(RPM, Fitted::within(60.0 / rotation_s, ROTATION_ERROR));
        self.note(MEAN_SEEK, seek.scaled(mean_seek_s() * 1e3));
    }

    /// Fits the log, which both shingled kinds have.
    fn log(&mut self, logs: &Logs, fall: Option<Fall>) {
        let small = logs.rows("write-far");
        let chunks = ["write-far", "chunk-256k", "chunk-1m", "chunk-4m", "chunk-16m", "chunk-64m"];
        let chunks = chunks.map(|name| logs.rows(name));
        let points: Vec<(f64, f64)> =
            chunks.iter().filter_map(|rows| Some((rows.first()?.bytes, median(rows)))).collect();
        // Three standard errors of the median, roughly, from the distance of the quartiles.
        let spread =
            (quantile(small, 0.75) - quantile(small, 0.25)) / median(small) * 3.0 / (small.len() as f64).sqrt();
        // Only the persistent cache has a largest entry; without it, the two shortest chunks give the costs.
        let used = if self.kind == Kind::PersistentCache { points.len() } else { 2.min(points.len()) };
        let costs = LogCosts::fit(&points[..used], None, spread.clamp(0.02, 0.3));
        self.note(ENTRY, costs.entry_s.scaled(1e3));
        for (bytes, seconds) in &points[..used] {
            let what = match *bytes as u64 / KIB {
                0..16 => "durable 4 KiB, ms",
                16..512 => "durable 256 KiB, ms",
                512..2048 => "durable 1 MiB, ms",
                2048..8192 => "durable 4 MiB, ms",
                8192..32_768 => "durable 16 MiB, ms",
                _ => "durable 64 MiB, ms",
            };
            self.check(what, seconds * 1e3, costs.seconds(*bytes) * 1e3);
        }
        if self.kind == Kind::PersistentCache {
            self.copies(logs.rows("chunk-1m"));
        }
        let copy_s = self.get(COPY).map_or(0.0, |copy| copy.value / self.value(BETWEEN_COPIES));
        // Small writes that wait together share an entry and its part of a copy of the map. Only the first quarter before the fall counts, because a
        // dynamic mapping slows down long before its room ends.
        let small_writes = logs.rows("fall");
        let until_fall = fall.map_or(small_writes.len(), |fall| fall.commands);
        let write_s = mean(seconds(&small_writes[..until_fall.div_ceil(4)]));
        let transfer_s = 4.0 * KIB as f64 / costs.bytes_per_s;
        let shared = ((costs.entry_s.value + copy_s) / (write_s - transfer_s)).round().clamp(1.0, 64.0);
        self.note(SHARED, Fitted::within(shared, TIME_ERROR));
        if let Some(entry) = costs.entry.filter(|_| self.kind == Kind::PersistentCache) {
            self.note(MOST_IN_ENTRY, Fitted::within(entry / MIB as f64, ENTRY_ERROR));
        }
        if let Some(fall) = fall {
            self.note(UNTIL_FALL, Fitted::within(fall.commands as f64, COUNT_ERROR));
        }
        if self.kind == Kind::PersistentCache {
            self.log_room(logs);
            if let Some(fall) = fall {
                self.cleaning(logs, fall);
            }
            self.bypass(logs);
        }
    }

    /// Fits the copies of the map, which show as pauses among durable chunks: the writes from one to the next, and the time of one.
    fn copies(&mut self, rows: &[Row]) {
        let usual = median(rows);
        // A chunk that takes four times as long as usual has waited for a copy (assumption).
        let pauses: Vec<usize> = (0..rows.len()).filter(|&at| rows[at].seconds > 4.0 * usual).collect();
        let mut intervals: Vec<usize> = pauses.windows(2).map(|pair| pair[1] - pair[0]).collect();
        intervals.sort_unstable();
        let Some(&interval) = intervals.get(intervals.len() / 2) else { return };
        let paused: Vec<Row> = pauses.iter().map(|&at| rows[at]).collect();
        self.note(BETWEEN_COPIES, Fitted::within(interval as f64, COUNT_ERROR));
        self.note(COPY, Fitted::within(median(&paused) - usual, TIME_ERROR));
    }

    /// Fits the room of the log and the loss between two writes. Durable chunks of two sizes fill the same room, which gives two equations.
    fn log_room(&mut self, logs: &Logs) {
        let bytes_until_fall = |name| {
            let rows = logs.rows(name);
            let chunk = rows.first()?.bytes;
            Some((chunk, Fall::find(rows, CHUNK_FALL)?.commands as f64 * chunk))
        };
        if let (Some(small), Some(large)) = (bytes_until_fall("order-1m"), bytes_until_fall("order-16m")) {
            let room = Room::from_falls([small, large]);
            let gap = room.gap / MIB as f64;
            self.note(CACHE, Fitted::within(room.bytes / 1e9, COUNT_ERROR));
            // A gap of 0 may still be one of 0.05 MiB (assumption).
            self.note(GAP, Fitted { low: gap * 0.8, value: gap, high: gap * 1.2 + 0.05 });
        }
    }

    /// Fits the cleaning of the persistent cache: after the fall, each small write waits for the cleaning of a band.
    fn cleaning(&mut self, logs: &Logs, fall: Fall) {
        let shared = self.value(SHARED);
        // A small write after the fall takes its share of an entry, and the cleaning.
        let clean_s = fall.after_s - self.value(ENTRY) / 1e3 / shared;
        self.note("cleaning a band, s", Fitted::within(clean_s, TIME_ERROR));
        self.note("entries of the log", Fitted::within(fall.commands as f64 / shared, COUNT_ERROR));
        if let Some(by_room) = self.small_writes_by_room() {
            self.check("small writes until the fall, by the log's room", fall.commands as f64, by_room);
        }
        let writes_a_byte = fall.commands as f64 / (self.value(CAPACITY) * 1e9);
        self.note(BAND, Fitted::within(self.band_bytes(clean_s, writes_a_byte) / 1e6, BAND_ERROR));
        // The phase `again` repeats the small writes after a rest. Each of its writes before the cache is full again took the place of one
        // that was cleaned, with its band, in this rest.
        if let Some(again) = Fall::find(logs.rows("again"), RANDOM_FALL) {
            self.check("cleaning a band in idle time, s", rest_s("again") / again.commands as f64, clean_s);
        }
    }

    /// Fits the length from which runs bypass the cache. It is between the longest run that went to the cache and the shortest that was as
    /// fast as a stream, so the estimate is their geometric mean. Beyond the measured runs, the bounds are assumptions.
    fn bypass(&mut self, logs: &Logs) {
        let stream = rate(logs.rows("stream"));
        let runs = ["runs-4m", "runs-16m", "runs-64m"];
        // Their lengths, between the two bounds.
        let lengths_mib = [0.5, 4.0, 16.0, 64.0, 256.0];
        let shortest = runs.iter().position(|name| rate(logs.rows(name)) > STREAMING * stream).unwrap_or(runs.len());
        let (low, high) = (lengths_mib[shortest], lengths_mib[shortest + 1]);
        self.note(BYPASS, Fitted { low, value: (low * high).sqrt(), high });
    }

    /// Computes the length of a band that takes `clean_s` to clean, if the cache holds `writes_a_byte` writes per byte of the disk.
    ///
    /// The band is read, saved and written back from its first cached write on. Of k writes at random places, the first has k/(k+1) of the
    /// band behind it. A band with one cached write has others by Poisson's law; `rewritten` is the mean of k/(k+1) over these.
    fn band_bytes(&self, clean_s: f64, writes_a_byte: f64) -> f64 {
        let (seek, half_rotation_s) = (self.seek().value, 30.0 / self.value(RPM));
        // Three seeks over half of the stroke, and four waits for a sector (assumption).
        let positioning_s = 3.0 * seek * seek_s(0.5) + 4.0 * half_rotation_s;
        let rate = (self.value(OUTER) + self.value(INNER)) / 2.0 * 1e6;
        // The band's length determines the number of other writes, and thereby the time, so it is found by iteration. It begins with half of
        // the band rewritten; the 3 is for reading, saving and writing back.
        let mut bytes = (clean_s - positioning_s).max(0.01) / (3.0 * 0.5) * rate;
        for _ in 0..20 {
            let others = (writes_a_byte * bytes).max(1e-3);
            let rewritten = 1.0 - 1.0 / others + (1.0 - (-others).exp()) / others.powi(2);
            // Each other cached write is read from the log, at a short distance.
            let cached_s = others * (seek * seek_s(0.005) + half_rotation_s);
            bytes = (clean_s - positioning_s - cached_s).max(0.01) / (3.0 * rewritten) * rate;
        }
        bytes
    }
}

/// Decides on the kind, and gives the evidence for it.
fn kind(logs: &Logs, fall: Option<Fall>) -> (Kind, Vec<String>) {
    let [near, far] = ["write-near", "write-far"].map(|name| median(logs.rows(name)));
    let (back, stream) = (rate(logs.rows("read-back")), rate(logs.rows("read-inner")));
    let slower_by = fall.map_or(1.0, |fall| fall.after_s / fall.before_s);
    let evidence = vec![
        format!(
            "A small durable write takes {:.1} ms anywhere on the disk, {:.1} ms near the one before.",
            far * 1e3,
            near * 1e3
        ),
        format!(
            "What was written at random reads in order, after a rest, at {:.1} MB/s; the slowest stream at {:.1}.",
            back / 1e6,
            stream / 1e6
        ),
        match fall {
            Some(fall) => {
                format!("Small random writes fall after {} to 1/{slower_by:.1} of their rate.", fall.commands)
            }
            None => format!("Small random writes don't fall in {} of them.", logs.rows("fall").len()),
        },
    ];
    // Seeks and a part of a rotation make far writes take at least 1.5 times as long; a log's writes take the same time everywhere.
    let (appends, seeks) = (far / near < 1.2, far / near > 1.35);
    let (scattered, at_home) = (back < 0.3 * stream, back > 0.5 * stream);
    let kind = match fall {
        // A rotating disk has to wait for the sectors of a durable write, so this one does not rotate.
        _ if near < 1e-3 => Kind::Unknown,
        None if seeks && at_home => Kind::Conventional,
        Some(_) if appends && at_home => Kind::PersistentCache,
        _ if appends && scattered => Kind::DynamicMapping,
        _ => Kind::Unknown,
    };
    (kind, evidence)
}

/// Recording zones of the drive file (assumption).
const ZONES: usize = 16;
/// Time to switch to the next track (assumption).
const SWITCH_S: f64 = 0.5e-3;

/// Interference of a shingled disk, which is assumed.
const INTERFERENCE: &str = "\
[interference]
inner_tracks = { value = 2, source = \"assumption: as the disk of Vguard 2017\" }
outer_tracks = { value = 1, source = \"assumption: as the disk of Vguard 2017\" }

";

/// Values that the job does not measure.
const ELECTRONICS: &str = "\
switch_ms = { value = 0.5, source = \"assumption\" }
overhead_ms = { value = 0.1, source = \"assumption\" }
write_cache_bytes = { low = 8000000, value = 64000000, high = 256000000, source = \"assumption\" }
read_ahead_bytes = { value = 4_194_304, source = \"assumption\" }
queued_commands = { value = 32, source = \"SATA NCQ: assumption\" }
queue_age_ms = { value = 1500, source = \"assumption: as hc620\" }
bus_bytes_per_s = { value = 600000000, source = \"SATA at 6 Gb/s: assumption\" }
";

/// Rounds a number to three digits.
fn short(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Lines of a table of TOML: a key, its value with a range, and the source.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, key: &str, Fitted { low, value, high }: Fitted, unit: &str, source: &str) {
        let [low, value, high] = [low, value, high].map(|number| match unit {
            "" => short(number).to_string(),
            unit => format!("\"{}{unit}\"", short(number)),
        });
        self.0 += &match low == high {
            true => format!("{key} = {{ value = {value}, source = \"{source}\" }}\n"),
            false => format!("{key} = {{ low = {low}, value = {value}, high = {high}, source = \"{source}\" }}\n"),
        }
    }

    fn exact(&mut self, key: &str, value: f64, unit: &str, source: &str) {
        self.add(key, Fitted::within(value, 0.0), unit, source);
    }
}

/// The seek curve with all times multiplied by `factor`, as a list of TOML.
fn curve(factor: f64) -> String {
    let points = SEEK.map(|(share, ms)| format!("[{share:?}, {:?}]", short(ms * factor)));
    format!("[{}]", points.join(", "))
}

/// The drive file: measured values with their ranges, and assumptions for values that no load of a host can show.
impl Fit {
    /// Returns the text of a drive file called `name`; `None` if the kind is unknown.
    pub fn drive_file(&self, name: &str) -> Option<String> {
        let (layer, is_shingled) = match self.kind {
            Kind::PersistentCache => ("drive-managed", true),
            Kind::DynamicMapping => ("log", true),
            Kind::Conventional => ("in-place", false),
            Kind::Unknown => return None,
        };
        let (what, capacity, rpm) = (self.kind.in_words(), self.value(CAPACITY) * 1e9, self.value(RPM));
        let surfaces = surfaces(capacity);
        let [outer, inner] = [OUTER, INNER].map(|name| self.value(name) * 1e6);
        // Sectors of a track: the rate falls evenly to the inner one, which was measured from 95 % of the disk on. A stream reads a track in a
        // revolution and a head switch.
        let track = |zone: usize| {
            let rate = outer + (inner - outer) / 0.95 * zone as f64 / (ZONES - 1) as f64;
            (rate * (60.0 / rpm + SWITCH_S) / SECTOR_BYTES as f64).round().max(1.0)
        };
        let all: f64 = (0..ZONES).map(track).sum();
        // A shingled disk has 6 % more than its capacity, for caches and for guards of bands of 20 tracks (assumption).
        let raw = capacity * if is_shingled { 1.06 } else { 1.0 };
        let tracks = (raw / SECTOR_BYTES as f64 / surfaces / all).ceil();
        let zone = |zone| format!("  {{ tracks = {tracks}, track_sectors = {}, guard_tracks = 1 }},\n", track(zone));
        let zones: String = (0..ZONES).map(zone).collect();
        let seek = self.seek();
        let [low, middle, high] = [seek.low, seek.value, seek.high].map(curve);
        let mut lines = Lines::default();
        match self.kind {
            Kind::PersistentCache => {
                self.persistent_cache(&mut lines, track(0) * SECTOR_BYTES as f64, tracks * ZONES as f64 * surfaces)
            }
            Kind::DynamicMapping => self.dynamic_mapping(&mut lines, capacity),
            Kind::Conventional | Kind::Unknown => {}
        }
        Some(format!(
            "\
# Written by smrkit drives fit.
name = \"{name}\"
summary = \"A measured disk of {capacity_tb:.2} TB: {what}\"

[geometry]
surfaces = {{ value = {surfaces}, source = \"assumption: 0.67 TB each\" }}

[geometry.zones]
source = \"measured at both edges; equal steps: assumption; as many tracks as the size takes: derived\"
value = [
{zones}]

{interference}[mechanical]
rpm = {{ value = {rpm:.0}, source = \"measured: the spread of reads near each other\" }}
seek = {{ low = {low}, value = {middle}, high = {high}, source = \"measured: what random reads take longer than near ones; its shape: assumption\" }}
{ELECTRONICS}
[translation]
layer = {{ value = \"{layer}\", source = \"measured: {what}\" }}
{layer_lines}",
            capacity_tb = capacity / 1e12,
            interference = if is_shingled { INTERFERENCE } else { "" },
            layer_lines = lines.0
        ))
    }

    /// Adds the lines of a persistent cache. `outer_track`: bytes of an outermost track; `tracks`: all tracks of the disk.
    fn persistent_cache(&self, lines: &mut Lines, outer_track: f64, tracks: f64) {
        self.entries(lines);
        lines.exact("append_bytes", 512.0, "", "assumption: the transfer counts from the first sector on");
        if let Some(most) = self.get(MOST_IN_ENTRY) {
            lines.add("entry_bytes", most.scaled(MIB as f64 / KIB as f64), "Ki", "measured: longer durable chunks");
        }
        if let Some(copy) = self.get(COPY) {
            let every = self.value(BETWEEN_COPIES);
            lines.exact("map_every_writes", every, "", "measured: pauses among durable chunks");
            lines.add("map_time", copy.scaled(1e3), "ms", "measured: how long they are");
        }
        let (shared, until_fall) = (self.value(SHARED), self.get(UNTIL_FALL));
        // Percent of the disk's tracks that a byte of cache takes, if the cache is on outermost tracks.
        let cache_percent = 100.0 / outer_track / tracks;
        if let Some(cache) = self.get(CACHE) {
            let gap = (self.value(GAP) * MIB as f64 / KIB as f64).round();
            lines.exact("gap_bytes", gap, "Ki", "measured: falls of durable chunks of 1 and 16 MiB");
            // The measured room plus the part that cleaning keeps free (`free_bytes`).
            let bytes = cache.value * 1e9 + FREE_BYTES;
            let percent = Fitted::within(bytes * cache_percent, 0.05);
            lines.add("cache_percent", percent, "", "measured: falls of durable chunks");
            let by_room = self.small_writes_by_room().unwrap_or(f64::INFINITY);
            // Only a fall well before the room ends shows a limit of entries.
            if let Some(until) = until_fall.filter(|until| until.value < WELL_BEFORE * by_room) {
                // Beta limits entries of the log, which writes share; alpha those of the map, of which each write has its own.
                let source = "measured: small random writes fall before the cache is full";
                lines.add("beta", until.scaled(1.0 / shared).whole(), "", source);
                lines.add("alpha", until.whole(), "", source);
            }
        } else if let Some(until) = until_fall {
            let percent = until.value / shared * MIB as f64 * cache_percent;
            // For entries of 64 KiB to 2 MiB.
            let range = Fitted { low: percent / 16.0, value: percent, high: percent * 2.0 };
            lines.add("cache_percent", range, "", "assumption: 1 MiB an entry; their number is measured");
        }
        if let Some(band) = self.get(BAND) {
            // The mean track is three quarters of the outermost (assumption).
            let tracks = band.scaled(1e6 / (outer_track * 0.75)).whole();
            let source = "measured: the time of cleaning a band, of which half is rewritten on average";
            lines.add("band_tracks", tracks, "", source);
        }
        if let Some(stream) = self.get(BYPASS) {
            lines.add("bypass_bytes", stream, "Mi", "measured: runs that are as fast as a stream");
        }
    }

    fn dynamic_mapping(&self, lines: &mut Lines, capacity: f64) {
        self.entries(lines);
        match self.get(UNTIL_FALL) {
            Some(until) => {
                let percent = until.scaled(100.0 * 4.0 * KIB as f64 / capacity);
                lines.add("spare_percent", percent, "", "measured: random writes until the fall");
            }
            None => {
                let range = Fitted { low: 0.2, value: 0.5, high: 2.0 };
                lines.add("spare_percent", range, "", "assumption: no fall was seen");
            }
        }
        lines.0 += "spare_outer = { value = \"on\", source = \"assumption: as wd40efax\" }\n\
                    idle_clean = { value = \"on\", source = \"FAST 2017, Evolving Ext4 for Shingled Disks\" }\n";
    }

    /// Adds the lines that both kinds of log have.
    fn entries(&self, lines: &mut Lines) {
        if let Some(entry) = self.get(ENTRY) {
            lines.add("append_time", entry, "ms", "measured: durable writes, less their transfer");
        }
        let source = "measured: small writes that wait together, compared with durable ones";
        lines.exact("shared_writes", self.value(SHARED), "", source);
    }
}
