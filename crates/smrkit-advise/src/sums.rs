//! What was measured, where it is no trace: tables that sum up intervals (`iostat -x`, `zpool iostat`, `sar -d`, `/proc/diskstats`,
//! Windows' performance counters) become a workload of that rate, size and mix; a job file of fio becomes its workload.
//!
//! Sums don't tell where requests went, in which order, and how they bunch within an interval. What is taken for that is said.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use smrkit::error::Error;
use smrkit::quantity::exact_bytes;
use smrkit_report::format;
use smrkit_trace::{in_utf8, is_diskstats};

/// A workload made of a report or a job file.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The workload.
    pub workload: String,
    /// Commands outstanding; `None` where requests come at their own times.
    pub depth: Option<u32>,
    /// What can't be known of it.
    pub note: String,
    /// How long requests waited, if the report says so.
    pub reported: Option<ReportedWaits>,
}

/// How long the recorded disk let requests wait, and how busy it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportedWaits {
    /// Whose report it is: `iostat`.
    pub tool: &'static str,
    /// Mean time until a request was answered.
    pub mean_ns: u64,
    /// The share of the time in which requests were outstanding; 0 where it is not told.
    pub busy: f64,
}

/// Bytes of a file that are looked at.
const READ_MAX: u64 = 16 << 20;
/// Requests from this mean size on are taken for streams, smaller ones for random ones (assumption).
const STREAM_BYTES: f64 = 131_072.0;
/// Length of an interval where no time tells it (assumption).
const INTERVAL_S: f64 = 60.0;
const DAY_S: f64 = 86_400.0;
/// Intervals that are told apart; more are joined.
const PHASES: usize = 48;
/// Requests that are made of the sums; of more, each interval is shortened (assumption).
const MOST_REQUESTS: f64 = 500_000.0;

/// Rates of one device in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    /// Its length; 0 where nothing tells it.
    seconds: f64,
    reads_per_s: f64,
    writes_per_s: f64,
    read_bytes_per_s: f64,
    written_bytes_per_s: f64,
    /// Requests outstanding on average, which is their rate times how long each takes; 0 where nothing tells it.
    queue: f64,
    /// The share of the time in which there was any; 0 where nothing tells it.
    busy: f64,
}

impl Sums {
    /// Reads, writes, bytes read and bytes written, each a second.
    fn of_rates(seconds: f64, [reads, writes, read, written]: [f64; 4]) -> Sums {
        let (reads_per_s, writes_per_s, read_bytes_per_s, written_bytes_per_s) = (reads, writes, read, written);
        Sums { seconds, reads_per_s, writes_per_s, read_bytes_per_s, written_bytes_per_s, ..Sums::default() }
    }
}

/// Reads the times of a report's lines in any of their formats.
#[derive(Default)]
struct Clock {
    /// Seconds since midnight, or since another moment.
    now_s: Option<f64>,
    /// From the time before to this one; 0 if either is not known.
    seconds: f64,
}

impl Clock {
    /// Takes the time of a line that has one: of the day, or a number alone on its line.
    fn read(&mut self, line: &str) {
        let time_s = clock_s(line).or_else(|| line.trim().parse().ok());
        let Some(now_s) = time_s.filter(|_| time_s != self.now_s) else { return };
        // After midnight the time of the day is less than before. Other clocks go back only when they are set.
        let since = |before_s| match now_s < before_s && before_s < DAY_S {
            true => now_s - before_s + DAY_S,
            false => now_s - before_s,
        };
        self.seconds = self.now_s.replace(now_s).map_or(0.0, since).max(0.0);
    }
}

/// Each device's intervals.
type Devices = BTreeMap<String, Vec<Sums>>;

/// Reads a file, if it is one of these; `None` if it may be a trace. The sums are those of `device` if it is given, for an array those of
/// a pool or md array, else those of the busiest disk.
pub fn read(path: &Path, is_of_array: bool, device: Option<&str>) -> Result<Option<Recorded>, Error> {
    let mut bytes = Vec::new();
    let Ok(file) = File::open(path) else { return Ok(None) };
    // A pipe can be read once, and is the trace reader's.
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Ok(None);
    }
    file.take(READ_MAX).read_to_end(&mut bytes).map_err(|error| Error::reading(path, error))?;
    match String::from_utf8(in_utf8(bytes)) {
        Ok(text) => {
            from_text(text.trim_start_matches('\u{feff}'), is_of_array, device).map_err(|why| Error::input(path, why))
        }
        Err(_) => Ok(None),
    }
}

/// True unless it is a partition of another device of the report, or a device without a disk of its own (loop, RAM, LVM, md), by its name.
fn is_whole_disk(name: &str, devices: &Devices) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_partition_of = |disk: &String| {
        name.strip_prefix(disk.as_str()).is_some_and(|rest| is_number(rest.strip_prefix('p').unwrap_or(rest)))
    };
    !["loop", "ram", "zram", "dm-", "md", "sr", "fd"].iter().any(|kind| name.starts_with(kind))
        && !devices.keys().any(is_partition_of)
}

fn from_text(text: &str, is_of_array: bool, device: Option<&str>) -> Result<Option<Recorded>, String> {
    let (what, devices) = match () {
        () if is_fio_job(text) => return fio(text).map(Some),
        () if holds_line(text, &["Device", "r/s", "w/s"]) => ("iostat", named_columns(text, true)),
        () if holds_line(text, &["DEV", "tps"]) => ("sar", named_columns(text, false)),
        () if holds_line(text, &["capacity", "operations", "bandwidth"]) => ("zpool iostat", zpool(text, is_of_array)),
        () if text.starts_with("\"(PDH-CSV") => ("perfmon", perfmon(text)?),
        () if text.lines().any(|line| is_diskstats(line.as_bytes())) => ("diskstats", diskstats(text)?),
        () => return Ok(None),
    };
    if let Some(device) = device.filter(|device| !devices.contains_key(*device)) {
        let names: Vec<&str> = devices.keys().map(String::as_str).collect();
        return Err(format!("{what} has no device {device}: it has {}", names.join(", ")));
    }
    let Some((device, sums)) = chosen(&devices, device, is_of_array) else {
        return Err(format!("{what}'s report of a disk that did nothing: record it while the disk is used"));
    };
    let known_s = sums.iter().map(|one| one.seconds).filter(|&seconds| seconds > 0.0).min_by(f64::total_cmp);
    let mut sums = sums.clone();
    for one in sums.iter_mut().filter(|one| one.seconds <= 0.0) {
        one.seconds = known_s.unwrap_or(INTERVAL_S);
    }
    let (workload, shortened) = workload(&sums);
    let total = |of: fn(&Sums) -> f64| sums.iter().map(|one| of(one) * one.seconds).sum::<f64>();
    let mean_s = total(|one| one.queue) / total(|one| one.reads_per_s + one.writes_per_s);
    let busy = total(|one| one.busy) / total(|_| 1.0);
    let reported = (mean_s > 0.0).then_some(ReportedWaits { tool: what, mean_ns: (mean_s * 1e9).round() as u64, busy });
    let mut over = format::counted(sums.len() as u64, "interval");
    over += &match known_s {
        Some(_) => format!(" of {}", format::seconds(total(|_| 1.0) / sums.len() as f64)),
        None => format!(
            ", each taken for {} since it tells no times (record them, with iostat -t or zpool iostat -T u)",
            format::seconds(INTERVAL_S)
        ),
    };
    if shortened < 1.0 {
        over += &format!(", with each interval shortened to {} of itself", format::percent(shortened, 1.0));
    }
    if what == "zpool iostat" && !is_of_array && !holds_parts(text) {
        over += ", which are those of the whole pool, here on one disk (name its --array, or record each disk with zpool iostat -v)";
    }
    let note = format!(
        "made of {what}'s sums of {device} over {over}: where requests went, their order and their bunching can't be known, so \
         small ones were taken for random ones and large ones for streams"
    );
    Ok(Some(Recorded { workload, depth: None, note, reported }))
}

/// The named device; else the busiest md array or the busiest whole disk, or of all devices if there is none. `None` if it did nothing.
fn chosen<'a>(devices: &'a Devices, named: Option<&str>, is_of_array: bool) -> Option<(&'a String, &'a Vec<Sums>)> {
    let is_wanted = |name: &str| match named {
        Some(named) => name == named,
        None if is_of_array => name.starts_with("md"),
        None => is_whole_disk(name, devices),
    };
    let bytes = |sums: &[Sums]| sums.iter().map(|one| one.read_bytes_per_s + one.written_bytes_per_s).sum::<f64>();
    let any_is_wanted = devices.keys().any(|name| is_wanted(name));
    let looked_at = devices.iter().filter(|(name, _)| !any_is_wanted || is_wanted(name));
    let busiest = looked_at.max_by(|one, other| bytes(one.1).total_cmp(&bytes(other.1)));
    busiest.filter(|(_, sums)| bytes(sums) > 0.0)
}

fn holds_line(text: &str, words: &[&str]) -> bool {
    text.lines().take(200).any(|line| {
        let found: Vec<&str> = line.split_whitespace().map(|word| word.trim_end_matches(':')).collect();
        words.iter().all(|word| found.contains(word))
    })
}

/// The workload of these intervals, and by which factor each was shortened.
fn workload(sums: &[Sums]) -> (String, f64) {
    let requests: f64 = sums.iter().map(|one| (one.reads_per_s + one.writes_per_s) * one.seconds).sum();
    let factor = (MOST_REQUESTS / requests.max(1.0)).min(1.0);
    let phases = sums.chunks(sums.len().div_ceil(PHASES)).map(|all| {
        let seconds: f64 = all.iter().map(|one| one.seconds).sum();
        let mean = |of: fn(&Sums) -> f64| all.iter().map(|one| of(one) * one.seconds).sum::<f64>() / seconds.max(1e-9);
        let duration = format!("{}ms", (seconds * factor * 1000.0).round().max(1.0));
        let part = |op: &str, rate: f64, bytes_per_s: f64| {
            if rate * seconds * factor < 0.5 {
                return None;
            }
            let size = ((bytes_per_s / rate / 4096.0).round().max(1.0) * 4096.0).min(64e6);
            let order = if size >= STREAM_BYTES { "sequential" } else { "random" };
            let interval = (1e9 / rate).round().max(1.0) as u64;
            let size = exact_bytes(size as u64);
            Some(format!("{order}-{op}:size={size},interval={interval}ns,arrivals=poisson,duration={duration}"))
        };
        let parts = [
            part("read", mean(|one| one.reads_per_s), mean(|one| one.read_bytes_per_s)),
            part("write", mean(|one| one.writes_per_s), mean(|one| one.written_bytes_per_s)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match parts.is_empty() {
            // An idle interval still takes its time.
            true => format!("random-read:interval={duration},duration={duration}"),
            false => parts.join("+"),
        }
    });
    (phases.collect::<Vec<_>>().join(";"), factor)
}

/// Intervals of each device, and means since the system was started, which are no interval's: they stand in the first report of iostat and
/// zpool iostat.
#[derive(Default)]
struct Reports {
    intervals: Devices,
    since_start: Devices,
}

impl Reports {
    fn add(&mut self, device: &str, is_since_start: bool, sums: Sums) {
        let devices = if is_since_start { &mut self.since_start } else { &mut self.intervals };
        devices.entry(device.into()).or_default().push(sums);
    }

    /// What there is of intervals; where there is none, the means.
    fn into_devices(self) -> Devices {
        if self.intervals.is_empty() { self.since_start } else { self.intervals }
    }
}

fn number(text: &str) -> f64 {
    text.replace(',', ".").parse().unwrap_or(0.0)
}

/// Tables whose rows stand below a header of names: iostat's, which begin with means since the start, and sar's. A file may hold several recordings,
/// each of which begins with the name of the system.
fn named_columns(text: &str, begins_with_means: bool) -> Devices {
    let mut header: Vec<&str> = Vec::new();
    let (mut reports, mut clock) = (Reports::default(), Clock::default());
    // Tables of this recording.
    let mut tables = 0;
    for line in text.lines().filter(|line| !line.starts_with("Average")) {
        if ["Linux ", "FreeBSD "].iter().any(|name| line.starts_with(name)) {
            (tables, clock) = (0, Clock::default());
            continue;
        }
        clock.read(line);
        let words: Vec<&str> = line.split_whitespace().collect();
        let place = |name: &str| header.iter().position(|known| known.trim_end_matches(':') == name);
        if words.is_empty() || words.iter().any(|word| ["Device", "DEV"].contains(&word.trim_end_matches(':'))) {
            tables += u32::from(!words.is_empty());
            header = words;
        } else if words.len() == header.len()
            && let Some(device) = place("Device").or_else(|| place("DEV"))
        {
            let of = |names: &[(&str, f64)]| {
                let found = names.iter().find_map(|(name, unit)| Some((place(name)?, unit)));
                found.map_or(0.0, |(at, unit)| number(words[at]) * unit)
            };
            let read = of(&[("rkB/s", 1024.0), ("rMB/s", 1_048_576.0), ("rsec/s", 512.0), ("rd_sec/s", 512.0)]);
            let written = of(&[("wkB/s", 1024.0), ("wMB/s", 1_048_576.0), ("wsec/s", 512.0), ("wr_sec/s", 512.0)]);
            // sar does not tell requests apart: as many of each as its bytes.
            let (all, tps) = ((read + written).max(1.0), of(&[("tps", 1.0)]));
            let (reads, writes) = (of(&[("r/s", 1.0)]), of(&[("w/s", 1.0)]));
            let waits = reads * of(&[("r_await", 0.001), ("await", 0.001)])
                + writes * of(&[("w_await", 0.001), ("await", 0.001)])
                + tps * of(&[("await", 0.001)]);
            let (reads, writes) = (reads + tps * read / all, writes + tps * written / all);
            let sums = Sums {
                queue: if waits > 0.0 { waits } else { of(&[("aqu-sz", 1.0), ("avgqu-sz", 1.0)]) },
                busy: of(&[("%util", 0.01)]),
                ..Sums::of_rates(clock.seconds, [reads, writes, read, written])
            };
            reports.add(words[device], begins_with_means && tables == 1, sums);
        }
    }
    reports.into_devices()
}

/// A number with K, M, G or T for powers of 1024.
fn scaled(text: &str) -> Option<f64> {
    let units = [("K", 10), ("M", 20), ("G", 30), ("T", 40), ("P", 50)];
    let (digits, power) = units
        .iter()
        .find_map(|(unit, power)| Some((text.strip_suffix(unit)?, *power)))
        .unwrap_or((text.trim_end_matches('B'), 0));
    digits.parse::<f64>().ok().map(|value| value * f64::from(2_u32).powi(power))
}

/// True of zpool iostat's reports with -v, in which the parts of a pool follow it, shifted to the right.
fn holds_parts(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(' ') && !line.contains("bandwidth"))
}

/// Parts of a pool that are no disks.
const GROUPS: [&str; 10] =
    ["mirror", "raidz", "draid", "spare", "replacing", "special", "dedup", "indirect", "logs", "cache"];

/// The sums of each pool, or of each disk where they are told and no array is asked about.
fn zpool(text: &str, is_of_array: bool) -> Devices {
    let is_header = |line: &str| line.contains("bandwidth");
    let has_parts = holds_parts(text);
    let (mut reports, mut clock) = (Reports::default(), Clock::default());
    // The first report of a recording ends where a name comes again. In a file the header begins a recording, unless it comes with each report,
    // as with -v. On a terminal it comes with each page, too, of which one report is lost.
    let (mut first, mut is_first) = (Vec::new(), true);
    for line in text.lines() {
        clock.read(line);
        if is_header(line) && !is_first && !has_parts {
            (first, is_first) = (Vec::new(), true);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, _, _, rates @ ..] = words.as_slice() else { continue };
        // The line of a pool has the sums of its parts.
        let is_disk = line.starts_with(' ') && !GROUPS.iter().any(|group| name.starts_with(group));
        let is_meant = if is_of_array || !has_parts { !line.starts_with(' ') } else { is_disk };
        if !is_meant {
            continue;
        }
        let rates: Option<Vec<f64>> = rates.iter().map(|word| scaled(word)).collect();
        if let Some([reads, writes, read, written, ..]) = rates.as_deref() {
            is_first &= !first.contains(name);
            if is_first {
                first.push(*name);
            }
            let sums = Sums::of_rates(clock.seconds, [*reads, *writes, *read, *written]);
            reports.add(name, is_first, sums);
        }
    }
    reports.into_devices()
}

/// Looks at /proc/diskstats one after another; a line of digits before one is its time in seconds.
fn diskstats(text: &str) -> Result<Devices, String> {
    let mut last: BTreeMap<String, [f64; 6]> = BTreeMap::new();
    let (mut devices, mut clock) = (Devices::new(), Clock::default());
    for line in text.lines() {
        clock.read(line);
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, name, ..] = words.as_slice() else { continue };
        if !is_diskstats(line.as_bytes()) {
            continue;
        }
        let is = [3, 7, 5, 9, 13, 12].map(|at| number(words[at]));
        if let Some(was) = last.insert((*name).into(), is) {
            let seconds = clock.seconds;
            let rate = |at: usize| (is[at] - was[at]).max(0.0) / if seconds > 0.0 { seconds } else { INTERVAL_S };
            devices.entry((*name).into()).or_default().push(Sums {
                // Both in milliseconds.
                queue: rate(4) / 1000.0,
                busy: rate(5) / 1000.0,
                ..Sums::of_rates(seconds, [rate(0), rate(1), rate(2) * 512.0, rate(3) * 512.0])
            });
        }
    }
    let how =
        "append another, with the time in seconds before each (while date +%s; do cat /proc/diskstats; sleep 60; done)";
    (!devices.is_empty()).then_some(devices).ok_or(format!("one look at /proc/diskstats, which has no rate: {how}"))
}

/// A comma-separated log of Windows' performance counters.
fn perfmon(text: &str) -> Result<Devices, String> {
    let cells =
        |line: &str| -> Vec<String> { line.trim().trim_matches('"').split("\",\"").map(str::to_string).collect() };
    let mut lines = text.lines();
    let header = lines.next().map(cells).unwrap_or_default();
    // \\HOST\PhysicalDisk(0 C:)\Disk Reads/sec
    let counter = |name: &String| -> Option<(String, String)> {
        let (before, counter) = name.rsplit_once('\\')?;
        let (_, disk) = before.rsplit_once("PhysicalDisk(")?;
        Some((disk.trim_end_matches(')').into(), counter.into()))
    };
    let columns: Vec<Option<(String, String)>> = header.iter().map(counter).collect();
    let (mut devices, mut clock) = (Devices::new(), Clock::default());
    for row in lines.map(cells).filter(|row| row.len() == header.len()) {
        clock.read(&row[0]);
        let seconds = clock.seconds;
        let mut sums: BTreeMap<String, Sums> = BTreeMap::new();
        for (value, column) in row.iter().zip(&columns) {
            let Some((disk, counter)) = column.as_ref().filter(|(disk, _)| disk != "_Total") else { continue };
            let one = sums.entry(disk.clone()).or_insert(Sums { seconds, ..Sums::default() });
            match counter.as_str() {
                "Disk Reads/sec" => one.reads_per_s = number(value),
                "Disk Writes/sec" => one.writes_per_s = number(value),
                "Disk Read Bytes/sec" => one.read_bytes_per_s = number(value),
                "Disk Write Bytes/sec" => one.written_bytes_per_s = number(value),
                "Avg. Disk Queue Length" => one.queue = number(value),
                "% Idle Time" => one.busy = 1.0 - number(value) / 100.0,
                _ => {}
            }
        }
        sums.into_iter().for_each(|(disk, one)| devices.entry(disk).or_default().push(one));
    }
    let log = "log Disk Reads/sec, Disk Writes/sec, Disk Read Bytes/sec and Disk Write Bytes/sec";
    (!devices.is_empty()).then_some(devices).ok_or(format!("no counter of PhysicalDisk is in it: {log}"))
}

/// Seconds since midnight of a line that tells the time: `11/28/2026 12:00:00.000`, `12:00:01 PM`, `2026-11-28T12:00:00+0000`.
fn clock_s(line: &str) -> Option<f64> {
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let clock = word.rsplit('T').next()?.split(['+', '-', 'Z']).next()?;
        let parts: Option<Vec<f64>> = clock.split(':').map(|part| part.parse().ok()).collect();
        if let Some([hours, minutes, seconds]) = parts.as_deref() {
            let hours = match words.peek() {
                Some(&"AM") => hours % 12.0,
                Some(&"PM") => hours % 12.0 + 12.0,
                _ => *hours,
            };
            return Some(hours * 3600.0 + minutes * 60.0 + seconds);
        }
    }
    None
}

fn is_fio_job(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    lines.next().is_some_and(|line| line.starts_with('[') && line.ends_with(']'))
        && lines.any(|line| line.starts_with("rw=") || line.starts_with("readwrite="))
}

/// Keys of a job of fio, with those of its global section.
type Job = BTreeMap<String, String>;

/// The jobs of a job file of fio.
fn fio_jobs(text: &str) -> Vec<Job> {
    let (mut global, mut jobs, mut in_global) = (Job::new(), Vec::<Job>::new(), true);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            in_global = name == "global";
            if !in_global {
                jobs.push(global.clone());
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "1"));
        let into = if in_global { Some(&mut global) } else { jobs.last_mut() };
        into.map(|into| into.insert(key.trim().into(), value.trim().into()));
    }
    jobs
}

/// A job file of fio: its jobs together, or one after another where a stonewall stands between them.
fn fio(text: &str) -> Result<Recorded, String> {
    let jobs = fio_jobs(text);
    let mut phases: Vec<Vec<&Job>> = Vec::new();
    for job in &jobs {
        let begins = job.contains_key("stonewall") || job.contains_key("wait_for_previous");
        match phases.last_mut().filter(|_| !begins) {
            Some(phase) => phase.push(job),
            None => phases.push(vec![job]),
        }
    }
    let mut note = "made of fio's job file: file system and page cache are left out".to_string();
    // All of the disk written in order is the state in which it is looked at anyway.
    let fills = |job: &&Job| {
        let is_whole = job.get("size").is_none_or(|size| size == "100%");
        is_whole && ["rw", "readwrite"].iter().any(|key| job.get(*key).is_some_and(|rw| rw == "write"))
    };
    if phases.len() > 1 && phases[0].iter().all(fills) {
        phases.remove(0);
        note += ", and the job that fills the disk is taken for its state";
    }
    // Requests of a job that is limited by time, since how many it does in that time is the question. A single phase gets enough to show the
    // rate that lasts.
    let endless = if phases.len() > 1 { 100_000 } else { 10_000_000 };
    let made = |phase: &Vec<&Job>| -> Result<String, String> {
        Ok(phase.iter().map(|job| fio_job(job, endless)).collect::<Result<Vec<_>, _>>()?.join("+"))
    };
    let workload = phases.iter().map(made).collect::<Result<Vec<_>, _>>()?.join(";");
    if workload.is_empty() {
        return Err("a job file of fio without a job: add a section with rw=".into());
    }
    let number = |job: &Job, key: &str| job.get(key).and_then(|text| text.parse().ok()).unwrap_or(1_u32).max(1);
    let depth = phases.iter().flatten().map(|job| number(job, "iodepth") * number(job, "numjobs")).max();
    Ok(Recorded { workload, depth, note, reported: None })
}

fn fio_job(job: &Job, endless: u64) -> Result<String, String> {
    let get = |names: &[&str]| names.iter().find_map(|name| job.get(*name)).map(String::as_str);
    let size = |names: &[&str]| get(names).and_then(|text| text.split(',').next()).and_then(fio_bytes);
    let percent = |name: &str| get(&[name]).and_then(|text| text.parse::<f64>().ok());
    let name = match get(&["rw", "readwrite"]).unwrap_or("read").split(':').next().unwrap_or_default() {
        "read" => "sequential-read",
        "write" => "sequential-write",
        "randread" => "random-read",
        "randwrite" => "random-write",
        "randrw" | "rw" | "readwrite" => "mix",
        other => {
            return Err(format!("fio's rw={other} has no workload: use read, write, randread, randwrite or randrw"));
        }
    };
    let block_bytes = size(&["bs", "blocksize"]).unwrap_or(4096);
    let mut keys = vec![format!("size={}", exact_bytes(block_bytes))];
    if name == "mix" {
        let writes = percent("rwmixwrite").or_else(|| percent("rwmixread").map(|reads| 100.0 - reads));
        keys.push(format!("write_share={}", writes.unwrap_or(50.0) / 100.0));
    }
    let jobs = get(&["numjobs"]).and_then(|text| text.parse::<u64>().ok()).unwrap_or(1).max(1);
    let span = size(&["size", "filesize"]);
    let share = get(&["size"]).filter(|size| size.ends_with('%')).map(str::to_string);
    keys.extend(span.map(exact_bytes).or(share).map(|span| format!("span={span}")));
    let bytes = size(&["io_size"]).or(span).filter(|_| !job.contains_key("time_based"));
    let bytes = bytes.map(|bytes| bytes.saturating_mul(jobs));
    keys.push(bytes.map_or(format!("count={endless}"), |bytes| format!("bytes={}", exact_bytes(bytes))));
    // Synchronous writes are durable before they complete: a flush comes with each of them, or with every so many.
    let is_sync = get(&["sync"]).is_some_and(|sync| !["0", "none"].contains(&sync));
    let every = get(&["fsync", "fdatasync"]).and_then(|text| text.parse().ok()).or(is_sync.then_some(1));
    let Some(every) = every.filter(|&every: &u64| every > 0 && !name.ends_with("read")) else {
        return Ok(format!("{name}:{}", keys.join(",")));
    };
    let flushes = bytes.map_or(endless, |bytes| bytes / block_bytes.max(1)) / every;
    // Workloads send a request every 5 or 20 ms.
    let interval_ms = every.saturating_mul(if name.starts_with("sequential") { 5 } else { 20 });
    Ok(format!("{name}:{}+flush:interval={interval_ms}ms,count={}", keys.join(","), flushes.max(1)))
}

/// Sizes as fio has them: `4k` is 4096.
fn fio_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_uppercase();
    scaled(text.trim_end_matches('B').trim_end_matches('I'))
        .filter(|bytes| (0.0..2f64.powi(63)).contains(bytes))
        .map(|bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smrkit::workload::Workload;

    fn made(text: &str) -> Recorded {
        let made = from_text(text, false, None).unwrap().expect("recognised");
        Workload::parse(&made.workload).unwrap_or_else(|error| panic!("{}: {error}", made.workload));
        made
    }

    /// A look at /proc/diskstats.
    fn look(time: u64, reads: u64, writes: u64) -> String {
        format!("{time}\n   8  0 sda {reads} 0 {} 0 {writes} 0 {} 0 0 0 0\n", reads * 16, writes * 1024)
    }

    const PHASE: &str = "random-read:size=8Ki,interval=50000000ns,arrivals=poisson,duration=60000ms\
                         +sequential-write:size=512Ki,interval=100000000ns,arrivals=poisson,duration=60000ms";

    #[test]
    fn reports_of_one_load_become_one_workload() {
        let header = "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz  %util";
        let busy = "sda             20.00    160.00     0.00   0.00    5.00     8.00   10.00   5120.00     0.00   0.00    5.00   512.00   9.00";
        let idle = "sdb              0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     0.00   0.00";
        let since_boot = busy.replace("20.00", "99.00");
        let iostat = format!("Linux 6.1\n\n{header}\n{since_boot}\n{idle}\n\n{header}\n{busy}\n{idle}\n");
        assert_eq!(made(&iostat).workload, PHASE);
        assert!(made(&iostat).note.contains("sda") && made(&iostat).note.contains("1 interval"));
        let zpool = "              capacity     operations     bandwidth\npool        alloc   free   read  write   read  write\n\
                     ----------  -----  -----  -----  -----  -----  -----\ntank        1.2T   2.4T     99     99    99K    99M\n\
                     tank        1.2T   2.4T     20     10   160K     5M\n";
        assert_eq!(made(zpool).workload, PHASE);
        let pdh = "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\PC\\PhysicalDisk(0 C:)\\Disk Reads/sec\",\"\\\\PC\\PhysicalDisk(0 C:)\\Disk Writes/sec\",\
                   \"\\\\PC\\PhysicalDisk(0 C:)\\Disk Read Bytes/sec\",\"\\\\PC\\PhysicalDisk(0 C:)\\Disk Write Bytes/sec\"\n\
                   \"11/28/2026 12:00:00.000\",\"20\",\"10\",\"163840\",\"5242880\"\n";
        assert_eq!(made(pdh).workload, PHASE);
        assert_eq!(made(&(look(1000, 5, 7) + &look(1060, 1205, 607))).workload, PHASE);
        assert!(from_text(&look(1000, 5, 7), false, None).unwrap_err().contains("append another"));
        let sar = "12:00:01        DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await     %util\n\
                   12:01:01        sda     10.00      0.00   5120.00    512.00      0.10      5.00      9.00\n\
                   Average:        sda     10.00      0.00   5120.00    512.00      0.10      5.00      9.00\n";
        assert_eq!(
            made(sar).workload,
            "sequential-write:size=512Ki,interval=100000000ns,arrivals=poisson,duration=60000ms"
        );
        assert!(from_text(&format!("{header}\n{idle}\n"), false, None).unwrap_err().contains("did nothing"));
    }

    #[test]
    fn an_interval_is_as_long_as_its_times_say() {
        let header = "Device  r/s  w/s  rkB/s  wkB/s";
        let report = |time: &str| format!("{time}\n{header}\nsda 20.00 10.00 160.00 5120.00\n\n");
        for times in [
            ["11/29/26 12:59:50", "11/29/26 13:00:00", "11/29/26 13:00:10"],
            ["11/29/2026 12:59:50 PM", "11/29/2026 01:00:00 PM", "11/29/2026 01:00:10 PM"],
            ["2026-11-29T23:59:50-0500", "2026-11-30T00:00:00-0500", "2026-11-30T00:00:10-0500"],
            ["1764435590", "1764435600", "1764435610"],
        ] {
            let made = made(&times.map(report).concat());
            assert!(made.note.contains("2 intervals of 10 s"), "{}", made.note);
        }
        let untold = made(&[report(""), report("")].concat());
        assert!(untold.note.contains("taken for 60 s"), "{}", untold.note);
        let day = look(1_000_000, 5, 7) + &look(1_086_400, 1205, 607);
        assert!(made(&day).note.contains("1 interval of 24 h"), "{}", made(&day).note);
        let sar = "12:00:01 AM  DEV  tps  rkB/s  wkB/s\n12:10:01 AM  sda  10.00  0.00  5120.00\n\n";
        assert!(made(sar).note.contains("1 interval of 10 min"), "{}", made(sar).note);
    }

    #[test]
    fn means_since_the_start_are_left_out_wherever_they_stand() {
        let header = "Device  r/s  w/s  rkB/s  wkB/s";
        let row = |device: &str, writes: u32| format!("{device} 0.00 {writes}.00 0.00 {}.00\n", writes * 512);
        let table = |rows: &[String]| format!("{header}\n{}\n", rows.concat());
        let one = format!("Linux 6.1 (nas)\n\n{}{}", table(&[row("sda", 90)]), table(&[row("sda", 1)]));
        // A disk that is plugged in later has no means.
        let later = one.clone() + &table(&[row("sda", 1), row("sdb", 10)]);
        assert!(made(&later).workload.contains("interval=100000000ns"), "{}", made(&later).workload);
        let twice = made(&(one.clone() + &one));
        assert!(twice.note.contains("2 intervals") && !twice.workload.contains("interval=11111111ns"), "{twice:?}");
        // Means are better than nothing.
        let means = format!("Linux 6.1 (nas)\n\n{}", table(&[row("sda", 90)]));
        assert!(made(&means).workload.contains("interval=11111111ns"));
        let zpool = "              capacity     operations     bandwidth\npool        alloc   free   read  write   read  write\n\
                     tank        1.2T   2.4T      0     99      0    99M\ntank        1.2T   2.4T      0      1      0   512K\n\
                     usb         1.2T   2.4T      0     10      0     5M\n";
        assert!(made(zpool).note.contains("usb over 1 interval"), "{}", made(zpool).note);
        // Two recordings in a file, of a pool and of a pool with its disks.
        let header = "              capacity     operations     bandwidth\npool        alloc   free   read  write   read  write\n";
        let row = |writes: u32| format!("tank        1.2T   2.4T      0  {writes}      0   {}K\n", writes * 512);
        let recording = [header, &row(90), &row(10), &row(10)].concat();
        let twice = made(&recording.repeat(2));
        assert!(twice.note.contains("4 intervals") && !twice.workload.contains("interval=11111111ns"), "{twice:?}");
        let report = |writes: u32| {
            format!("{header}{}  sda           -      -      0  {writes}      0   {}K\n", row(writes), writes * 512)
        };
        let with_parts = made(&[report(90), report(10), report(10)].concat());
        assert!(with_parts.note.contains("sda over 2 intervals"), "{}", with_parts.note);
    }

    #[test]
    fn an_idle_interval_takes_its_time_and_a_long_record_is_shortened() {
        let one = |writes_per_s: f64| Sums {
            seconds: 60.0,
            writes_per_s,
            written_bytes_per_s: 4096.0 * writes_per_s,
            ..Sums::default()
        };
        let (text, factor) = workload(&[one(10.0), one(0.0)]);
        assert_eq!((text.matches(';').count(), factor), (1, 1.0));
        assert!(text.ends_with("random-read:interval=60000ms,duration=60000ms"), "{text}");
        let (text, factor) = workload(&[one(100_000.0)]);
        assert!((factor - MOST_REQUESTS / 6e6).abs() < 1e-9 && text.contains("duration=5000ms"), "{text}");
        assert!(workload(&[one(1.0); 500]).0.matches(';').count() < PHASES);
    }

    #[test]
    fn how_long_requests_waited_is_read_where_it_is_told() {
        let reported = |text: &str| {
            made(text).reported.map(|reported| (reported.mean_ns / 1_000_000, (reported.busy * 1000.0).round()))
        };
        let iostat = "Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\nsda 10.00 40.00 20.00 30.00 120.00 380.00 9.99 99.80\n";
        assert_eq!(reported(iostat), Some((290, 998.0)));
        assert_eq!(
            reported("Device r/s rkB/s w/s wkB/s aqu-sz\nsda 10.00 40.00 30.00 120.00 4.00\n"),
            Some((100, 0.0))
        );
        let sar = "12:00:01 DEV tps rkB/s wkB/s await %util\n12:01:01 sda 20.00 0.00 160.00 5.00 50.00\n";
        assert_eq!(reported(sar), Some((5, 500.0)));
        // 60 requests in a minute, 10 ms each.
        let look = |reads: u64, weighted_ms: u64| {
            format!("{reads}\n   8  0 sda {reads} 0 {} 0 0 0 0 0 0 {weighted_ms} {weighted_ms}\n", reads * 8)
        };
        assert_eq!(reported(&(look(0, 0) + &look(60, 600))), Some((10, 10.0)));
        assert_eq!(reported("Device r/s w/s rkB/s wkB/s\nsda 1 1 4 4\n"), None);
    }

    #[test]
    fn the_busiest_whole_disk_is_taken_or_the_busiest_array_for_an_array() {
        let names = ["loop0", "sda", "sda1", "nvme0n1", "nvme0n1p2", "md2", "dm-0"];
        let devices: Devices = names.iter().map(|name| (name.to_string(), Vec::new())).collect();
        let disks: Vec<&str> = names.into_iter().filter(|name| is_whole_disk(name, &devices)).collect();
        assert_eq!(disks, ["sda", "nvme0n1"]);
        let row = |name: &str, writes: u32| format!("{name} 0.00 {writes}.00 0.00 {}.00\n", writes * 512);
        let report = format!(
            "Device r/s w/s rkB/s wkB/s\n{}Device r/s w/s rkB/s wkB/s\n{}{}{}",
            row("sda", 1),
            row("loop0", 90),
            row("md2", 50),
            row("sda", 10)
        );
        let taken = |is_of_array| from_text(&report, is_of_array, None).unwrap().unwrap().note;
        assert!(taken(false).contains("of sda ") && taken(true).contains("of md2 "), "{}", taken(false));
        let named = |device| from_text(&report, false, Some(device));
        assert!(named("loop0").unwrap().unwrap().note.contains("of loop0 "));
        assert_eq!(named("vda").unwrap_err(), "iostat has no device vda: it has loop0, md2, sda");
    }

    #[test]
    fn of_a_pool_the_busiest_disk_is_taken_or_all_of_it_for_an_array() {
        let row = |name: &str, writes: u32| format!("{name}  -  -  0  {writes}  0  {writes}M\n");
        let report = row("tank", 30) + &row("  raidz1-0", 30) + &row("    sda", 10) + &row("    sdb", 12);
        let parts = format!("        capacity   operations   bandwidth\n{report}{report}");
        let (disk, pool) = (made(&parts), from_text(&parts, true, None).unwrap().unwrap());
        assert!(disk.note.contains("sums of sdb over") && disk.workload.contains("interval=83333333ns"), "{disk:?}");
        assert!(pool.note.contains("sums of tank over"), "{}", pool.note);
        let whole = format!("        capacity   operations   bandwidth\n{}{}", row("tank", 30), row("tank", 30));
        assert!(made(&whole).note.contains("those of the whole pool") && made(&whole).note.contains("--array"));
        assert!(!from_text(&whole, true, None).unwrap().unwrap().note.contains("whole pool"));
    }

    #[test]
    fn a_job_of_fio_becomes_its_workload() {
        let job = "# a job\n[global]\nioengine=libaio\niodepth=8\nbs=4k\nsize=1g\n\n[fill]\nrw=write\nbs=1m\n\n[random]\nstonewall\n\
                   rw=randrw\nrwmixread=70\nnumjobs=4\ntime_based\nruntime=60\n";
        let two = made(job);
        let wanted = "sequential-write:size=1Mi,span=1Gi,bytes=1Gi;mix:size=4Ki,write_share=0.3,span=1Gi,count=100000";
        assert_eq!((two.workload.as_str(), two.depth), (wanted, Some(32)));
        let filled = made("[fill]\nrw=write\nbs=1m\n[random]\nstonewall\nrw=randwrite\nbs=4k\ntime_based\n");
        assert_eq!((filled.workload.as_str(), filled.depth), ("random-write:size=4Ki,count=10000000", Some(1)));
        assert!(filled.note.contains("fills the disk"), "{}", filled.note);
        let filled = made("[fill]\nreadwrite=write\nsize=100%\n[random]\nstonewall\nrw=randwrite\nsize=20%\nbs=4k\n");
        assert_eq!(filled.workload, "random-write:size=4Ki,span=20%,count=10000000");
        // Of a mix only writes are flushed, but a flush after a read has nothing to do.
        for (keys, flush) in
            [("sync=1", "20ms,count=1024"), ("fsync=32", "640ms,count=32"), ("sync=dsync", "20ms,count=1024")]
        {
            let durable = made(&format!("[a]\nrw=randwrite\nbs=1m\nio_size=1g\n{keys}\n")).workload;
            assert_eq!(durable, format!("random-write:size=1Mi,bytes=1Gi+flush:interval={flush}"));
        }
        assert_eq!(
            made("[a]\nrw=read\nbs=1m\nsize=1g\nsync=1\n").workload,
            "sequential-read:size=1Mi,span=1Gi,bytes=1Gi"
        );
        assert!(from_text("[a]\nrw=trim\n", false, None).unwrap_err().contains("rw=trim"));
        assert_eq!(
            ["4k", "1M", "2GiB", "512", "x"].map(fio_bytes),
            [Some(4096), Some(1 << 20), Some(2 << 30), Some(512), None]
        );
    }

    #[test]
    fn a_trace_is_left_to_the_readers_of_traces() {
        for text in [
            "time,op,offset,size\n0,R,0,4096\n",
            "1,2,3\n",
            "",
            "128166372003061629,usr,0,Read,7014609920,24576,41286\n",
            " r  b   swpd   free   buff  cache   si   so    bi    bo\n 1  0  0 9 1 1  0    0     1     2    3    4  5  6 89  0  0\n",
        ] {
            assert_eq!(from_text(text, false, None).unwrap(), None, "{text}");
        }
    }
}
