//! What people do with disks (`--for USE`): each a row of one table, which says what is assumed and where that comes from.
//!
//! A use becomes a workload, or the work that an array does by itself. `docs/reference/uses.md` is made of the table.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use smrkit::device::level::Level;
use smrkit::error::Error;
use smrkit::names::known;
use smrkit::quantity::{exact_bytes, parse_bytes, parse_count, parse_duration, parse_share};
use smrkit::units::{Nanos, SECTOR_BYTES};
use smrkit::workload::Workload;
use smrkit_report::format;

use crate::Buffer;
use crate::changes::{ArrayFacts, Software};

/// A use of a disk or an array.
pub struct Use {
    /// The name, as in `--for NAME`.
    pub name: &'static str,
    /// What is done, in a few words: "a backup by restic".
    pub what: &'static str,
    /// The keys: name, default, meaning.
    pub keys: &'static [(&'static str, &'static str, &'static str)],
    /// How its requests come.
    pub pace: Pace,
    /// Its work.
    pub work: Work,
    /// What is assumed, and by which source.
    pub assumed: &'static str,
}

/// How the requests of a use come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as the disk takes them, this many outstanding: an amount that has to be done.
    AtOnce(u32),
    /// At times of their own, day in, day out; perhaps with a buffer that bridges waits, for as long as the key `buffer` says.
    Own(Option<Buffer>),
}

impl Pace {
    /// Requests at times of their own, with a buffer that bridges waits.
    const fn buffered(is_read: bool, name: &'static str, harm: &'static str) -> Pace {
        Pace::Own(Some(Buffer { bridges: Nanos::ZERO, is_read, name, harm, is_assumed: true }))
    }
}

/// The work of a use.
#[derive(Clone, Copy)]
pub enum Work {
    /// A workload, made of the values.
    Workload(fn(&Values) -> String),
    /// One that depends on the disk; and how many times as much as it names has to be done.
    OnDisk(fn(&Values, &Disk) -> (String, f64)),
    /// An array replaces a disk.
    Replace,
    /// An array reads all of its disks.
    Scrub,
}

impl Work {
    /// True of what an array does by itself.
    pub fn is_of_array(self) -> bool {
        matches!(self, Work::Replace | Work::Scrub)
    }
}

/// What a use has to know of the disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk {
    /// Its size.
    pub bytes: u64,
    /// The size of its zones, if it takes writes only in order within each.
    pub zone_bytes: Option<u64>,
}

/// Values of a use's keys.
pub struct Values<'a> {
    asked: &'a AskedUse,
    /// The multiple of the rate asked for at which paced requests come.
    load_factor: f64,
    /// The time of a load without an end that is simulated, if another use decides it.
    lasts: Option<Nanos>,
}

/// A use as it was asked for; `Display` gives its text.
#[derive(Clone)]
pub struct AskedUse {
    /// The use.
    pub info: &'static Use,
    /// The values that were given.
    given: Vec<(&'static str, String)>,
    /// Others of the same disk at the same time.
    beside: Vec<AskedUse>,
    /// The time over which amounts are spread that are moved beside a load at times of its own.
    pub spread_over: Option<Nanos>,
}

impl Values<'_> {
    fn text(&self, key: &str) -> &str {
        let keys = self.asked.info.keys;
        let default = || keys.iter().find(|(name, ..)| *name == key).map_or("", |(_, default, _)| *default);
        self.asked.given(key).unwrap_or_else(default)
    }

    /// A number from 1.
    fn count(&self, key: &str) -> u64 {
        parse_count(self.text(key)).expect("checked by AskedUse")
    }

    fn bytes(&self, key: &str) -> u64 {
        parse_bytes(self.text(key)).expect("checked by AskedUse")
    }

    fn time(&self, key: &str) -> Nanos {
        parse_duration(self.text(key)).expect("checked by AskedUse")
    }

    /// Bytes a second of the load.
    fn rate(&self, key: &str) -> f64 {
        parse_rate(self.text(key)).expect("checked by AskedUse") * self.load_factor
    }

    /// Operations a second, or people at work, of the load.
    fn often(&self, key: &str) -> f64 {
        self.count(key) as f64 * self.load_factor
    }

    /// The simulated duration of a load without an end, as a key. A slower load is simulated for longer, so that as much is done.
    fn lasting(&self, hours: f64) -> String {
        let lasts_s = self.lasts.map_or(hours * 3600.0, Nanos::as_secs);
        format!("duration={}", seconds(lasts_s / self.load_factor.min(1.0)))
    }
}

impl AskedUse {
    /// Uses of one disk at the same time; `None` of none. An amount beside a load at times of its own is spread over `within`.
    pub fn together(all: &[AskedUse], within: Option<Nanos>) -> Result<Option<AskedUse>, Error> {
        let Some((first, beside)) = all.split_first() else { return Ok(None) };
        let mut together = AskedUse { beside: beside.to_vec(), ..first.clone() };
        if let Some(work) = beside.iter().find(|asked| asked.info.work.is_of_array()) {
            let (first, work) = (first.info, work.info);
            return Err(Error::Usage(match first.work.is_of_array() {
                true => format!("{} and {} are both work of the array: ask for one of them", first.name, work.name),
                false => format!("name {} first, then what is done beside it", work.name),
            }));
        }
        let amount = together.amounts().next().filter(|_| together.is_paced());
        if let Some(Use { what, name, .. }) = amount {
            let why = format!("{what} takes all that the disk has left: say how long it may take");
            let refused = || Error::Usage(format!("{why}, as in {{use}} {name} {{within}} 8h"));
            together.spread_over = Some(within.ok_or_else(refused)?);
        }
        Ok(Some(together))
    }

    /// Errors: work that the array has not.
    pub fn check_array(&self, array: &ArrayFacts) -> Result<(), Error> {
        let why = match (array.software, array.level) {
            _ if self.all().all(|asked| asked.info.name != "reshape") => return Ok(()),
            (Software::Zfs, _) => {
                "ZFS can't reshape an array. To expand a RAIDZ (zpool attach, OpenZFS 2.3) is not simulated"
            }
            (Software::Md, Level::Raid1) => "a mirror has nothing to reshape: each of its disks has all of the data",
            (Software::Md, _) => return Ok(()),
        };
        Err(Error::Usage(why.into()))
    }

    fn all(&self) -> impl Iterator<Item = &AskedUse> {
        std::iter::once(self).chain(&self.beside)
    }

    /// Uses that come to an amount.
    fn amounts(&self) -> impl Iterator<Item = &'static Use> {
        let is_amount = |info: &&Use| matches!(info.pace, Pace::AtOnce(_)) && !info.work.is_of_array();
        self.all().map(|asked| asked.info).filter(is_amount)
    }

    /// True if any of its requests come at times of their own.
    pub fn is_paced(&self) -> bool {
        self.all().any(|asked| matches!(asked.info.pace, Pace::Own(_)))
    }

    /// The amount that is spread over a time, in words, and that time.
    pub fn spread_amount(&self) -> Option<(String, Nanos)> {
        Some((format::list(self.amounts().map(|info| info.what.to_string()).collect()), self.spread_over?))
    }

    /// True of a use that writes all of the disk.
    pub fn is_of_whole_disk(&self) -> bool {
        ["format", "badblocks"].contains(&self.info.name)
    }

    /// True if any of the uses is of a disk behind a USB adapter.
    pub fn is_on_usb(&self) -> bool {
        self.all().any(|asked| ["copy", "duplicati"].contains(&asked.info.name))
    }

    /// True of several uses at once.
    pub fn is_several(&self) -> bool {
        !self.beside.is_empty()
    }

    /// True of more than work of an array's own.
    pub fn has_load(&self) -> bool {
        self.all().any(|asked| !asked.info.work.is_of_array())
    }

    /// Commands outstanding, of what is done as fast as the disk takes it.
    pub fn depth(&self) -> u32 {
        let depth = |asked: &AskedUse| if let Pace::AtOnce(depth) = asked.info.pace { depth } else { 1 };
        self.all().map(depth).max().unwrap_or(1)
    }

    /// The buffers that bridge waits for reads and for writes: of several the one that bridges least.
    pub fn buffers(&self) -> [Option<Buffer>; 2] {
        let buffer = |asked: &AskedUse| {
            let Pace::Own(Some(buffer)) = asked.info.pace else { return None };
            let bridges = asked.values(1.0).time("buffer");
            Some(Buffer { bridges, is_assumed: asked.given("buffer").is_none(), ..buffer })
        };
        let all = || self.all().filter_map(buffer);
        [true, false].map(|is_read| all().filter(|one| one.is_read == is_read).min_by_key(|one| one.bridges))
    }

    /// The value that was given for a key.
    pub fn given(&self, key: &str) -> Option<&str> {
        self.given.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str())
    }

    /// What is done, in words.
    pub fn what(&self) -> String {
        format::list(self.all().map(|asked| asked.info.what.to_string()).collect())
    }

    fn values(&self, load_factor: f64) -> Values<'_> {
        Values { asked: self, load_factor, lasts: None }
    }

    /// The workload, and how many times as much has to be done; `None` for what an array does by itself.
    pub fn workload(&self, disk: &Disk) -> Result<Option<(String, f64)>, Error> {
        self.workload_at(disk, 1.0)
    }

    /// Like `workload`, with paced requests at `load_factor` times their rate. Whatever does not scale with the load stays as it is: a commit
    /// every 5 s, the areas of the disk. Returns the workload's text, and how many times as much has to be done.
    pub fn workload_at(&self, disk: &Disk, load_factor: f64) -> Result<Option<(String, f64)>, Error> {
        let (mut texts, mut all_times) = (Vec::new(), None);
        for asked in self.all() {
            let values = Values { lasts: self.spread_over, ..asked.values(load_factor) };
            asked.check_room(disk)?;
            let (mut text, times) = match asked.info.work {
                Work::Workload(work) => (work(&values), 1.0),
                Work::OnDisk(work) => work(&values, disk),
                Work::Replace | Work::Scrub => continue,
            };
            if times != 1.0 && !self.beside.is_empty() {
                let name = asked.info.name;
                return Err(Error::Usage(format!("{name} works on all of the disk: ask for it alone")));
            }
            if let (Some(time), Pace::AtOnce(_)) = (self.spread_over, asked.info.pace) {
                text = spread(&text, time, disk, load_factor)?;
            }
            texts.push(text);
            all_times = all_times.or(Some(times));
        }
        Ok(all_times.map(|times| (texts.join("+"), times)))
    }

    /// Errors: more was given than the disk holds.
    fn check_room(&self, disk: &Disk) -> Result<(), Error> {
        let Some((key, value)) = self.given.iter().find(|(key, _)| ["bytes", "plots"].contains(key)) else {
            return Ok(());
        };
        let values = self.values(1.0);
        let room_bytes = disk.bytes as f64;
        let (needed, fit) = match *key {
            "plots" => {
                let all = format!(": {} fit", (room_bytes / PLOT_BYTES) as u64);
                (values.count(key) as f64 * PLOT_BYTES, all)
            }
            key => (values.bytes(key) as f64, String::new()),
        };
        let (name, room) = (self.info.name, format::bytes(room_bytes));
        match disk.bytes > 0 && needed > room_bytes {
            true => Err(Error::Usage(format!("{name}: {key}={value} is more than there is room for on {room}{fit}"))),
            false => Ok(()),
        }
    }
}

/// A workload whose requests come over a time, or in a part of that.
fn spread(text: &str, time: Nanos, disk: &Disk, load_factor: f64) -> Result<String, Error> {
    let mut source = Workload::parse(text)?.source((disk.bytes / SECTOR_BYTES).max(1), 1)?;
    let (mut last, mut batch) = (Nanos::ZERO, Vec::new());
    loop {
        batch.clear();
        source.fill(&mut batch)?;
        let Some(request) = batch.last() else { break };
        last = last.max(request.time);
    }
    let factor = time.as_secs() / load_factor / last.as_secs().max(1e-9);
    let mut pieces = Vec::new();
    for piece in text.split('+') {
        // The clock of a file system knows nothing of what has to be done by when.
        if piece.starts_with(COMMITS) {
            pieces.push(format!("{COMMITS},duration={}", seconds(time.as_secs() / load_factor)));
            continue;
        }
        let mut parts = piece.split("interval=");
        let mut out = parts.next().unwrap_or_default().to_string();
        for part in parts {
            let (interval, rest) = part.split_at(part.find([',', ';']).unwrap_or(part.len()));
            out += &format!("interval={}{rest}", seconds(parse_duration(interval)?.as_secs() * factor));
        }
        pieces.push(out);
    }
    Ok(pieces.join("+"))
}

impl FromStr for AskedUse {
    type Err = Error;

    /// Reads `NAME` or `NAME:key=value,…`.
    fn from_str(text: &str) -> Result<AskedUse, Error> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(info) = USES.iter().find(|one| one.name == name) else {
            let names = known(name, USES.iter().map(|one| one.name));
            return Err(Error::Usage(format!("no use is called `{name}`: {names}")));
        };
        let mut given = Vec::new();
        for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some((key, default, _)) = info.keys.iter().find(|(known, ..)| *known == key) else {
                let keys = match info.keys {
                    [] => "it takes none".into(),
                    keys => known(key, keys.iter().map(|(key, ..)| *key)),
                };
                return Err(Error::Usage(format!("{name} has no key `{key}`: {keys}")));
            };
            // The default tells what kind of value it is: a count such as "4", "full" or "empty", a share ("50%"), a time ("90s"), a rate ("25Mbit",
            // "20G/s") or bytes ("4k").
            let read = match *default {
                text if text.bytes().all(|byte| byte.is_ascii_digit()) => parse_count(value).map(|count| count > 0),
                "full" if ["full", "empty"].contains(&value) => Ok(true),
                "full" => Err(Error::Usage("write full or empty".into())),
                text if text.ends_with('%') => parse_share(value).map(|share| share > 0.0),
                text if text.ends_with('s') && !text.ends_with("/s") => {
                    parse_duration(value).map(|time| time > Nanos::ZERO)
                }
                // Whoever writes 4 or 60 means megabits or gigabytes.
                text if value.parse::<u64>().is_ok_and(|bytes| (1..MI).contains(&bytes)) => {
                    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
                    Err(Error::Usage(format!("bytes? Write the unit, such as {value}{unit}")))
                }
                text if text.contains("bit") || text.ends_with("/s") => parse_rate(value).map(|rate| rate > 0.0),
                _ => parse_bytes(value).map(|bytes| bytes > 0),
            };
            match read {
                Ok(true) => given.push((*key, value.to_string())),
                Ok(false) => return Err(Error::Usage(format!("{name}: {key} must be more than 0"))),
                Err(error) => return Err(Error::Usage(format!("{name}: {key}={value}: {error}"))),
            }
        }
        Ok(AskedUse { info, given, beside: Vec::new(), spread_over: None })
    }
}

/// What the program could do instead, or the person: another use, or an option.
pub struct Instead {
    /// The use for which it is of help.
    of: &'static str,
    /// The name of the change.
    pub name: &'static str,
    /// The use that it makes, with values besides those that were given.
    makes: &'static str,
    /// What to do.
    pub what: &'static str,
    /// What it costs.
    pub cost: &'static str,
    /// The command that does it.
    pub command: Option<&'static str>,
}

static INSTEAD: [Instead; 3] = [
    Instead {
        of: "restic",
        name: "packs of 128 MiB",
        makes: "restic:pack=128Mi",
        what: "Have restic write packs of 128 MiB (0.14 or later)",
        cost: "a prune writes more again; packs that are there stay as they are",
        command: Some("restic backup --pack-size 128 FOLDER"),
    },
    Instead {
        of: "duplicati",
        name: "volumes of 1 GB",
        makes: "duplicati:volume=1G",
        what: "Have Duplicati write volumes of 1 GB: the option dblock-size=1GB",
        cost: "to restore a file a whole volume is read",
        command: None,
    },
    Instead {
        of: "zfs-pool",
        name: "writes every 300 s",
        makes: "zfs-pool:every=300s",
        what: "Have ZFS write every 300 s, or when its memory for dirty data is filling. Synchronous writes must not go to the pool: give it an SSD as log device, and leave logbias at latency",
        cost: "this holds for all pools of the computer, until it restarts: a crash loses up to five minutes of what no program has synced",
        command: Some("echo 300 > /sys/module/zfs/parameters/zfs_txg_timeout"),
    },
];

/// The change of this name.
pub fn instead(name: &str) -> Option<&'static Instead> {
    INSTEAD.iter().find(|one| one.name == name)
}

impl AskedUse {
    /// What could be done instead; nothing that was asked for already.
    pub fn instead(&self) -> Option<(&'static Instead, AskedUse)> {
        let one = INSTEAD.iter().find(|one| one.of == self.info.name && self.beside.is_empty())?;
        let mut other: AskedUse = one.makes.parse().expect("a use");
        let is_enough = |key: &str| {
            let [own, made] = [self, &other].map(|asked| asked.values(1.0).text(key).to_string());
            let time = |text: &str| parse_duration(text).expect("checked by AskedUse");
            // `10m` is ten minutes or ten megabytes: whichever the other value is.
            match parse_bytes(&made) {
                Ok(made) => parse_bytes(&own).expect("checked by AskedUse") >= made,
                Err(_) => time(&own) >= time(&made),
            }
        };
        if other.given.iter().all(|(key, _)| is_enough(key)) {
            return None;
        }
        let kept: Vec<_> = self.given.iter().filter(|(key, _)| other.given(key).is_none()).cloned().collect();
        other.given.extend(kept);
        Some((one, other))
    }

    /// What was assumed of a load, and how to say otherwise. Of work of an array's own the answer says it.
    pub fn assumed(&self) -> Option<String> {
        let describe = |asked: &AskedUse| {
            let (Use { name, keys, assumed, .. }, values) = (asked.info, asked.values(1.0));
            let mut text = if self.beside.is_empty() { (*assumed).into() } else { format!("{name}: {assumed}") };
            if !keys.is_empty() {
                let keys: Vec<String> = keys.iter().map(|(key, ..)| format!("{key}={}", values.text(key))).collect();
                text += &format!(" To change these values: --for {name}:{}.", keys.join(","));
            }
            text
        };
        let loads = self.all().filter(|asked| !asked.info.work.is_of_array());
        let mut all: Vec<String> = loads.map(describe).collect();
        let time = self.spread_over.map(|time| format::seconds(time.as_secs()));
        all.extend(
            time.map(|time| format!("What has to be done is spread evenly over {time}, and taken to go on like that.")),
        );
        (!all.is_empty()).then(|| all.join(" "))
    }
}

impl fmt::Display for AskedUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info.name)?;
        for (at, (key, value)) in self.given.iter().enumerate() {
            write!(f, "{}{key}={value}", if at == 0 { ':' } else { ',' })?;
        }
        self.beside.iter().try_for_each(|other| write!(f, " + {other}"))
    }
}

impl Serialize for AskedUse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Bytes a second in bits (`4Mbit`, `1Gbit/s`) or bytes (`20MB/s`, `20M`).
pub fn parse_rate(text: &str) -> Result<f64, Error> {
    let amount = text.trim().trim_end_matches("/s").trim_end_matches("ps");
    if let Some(bits) = amount.strip_suffix("bit") {
        return parse_bytes(bits.trim_end()).map(|bits| bits as f64 / 8.0);
    }
    // Cameras and players name megabits so, and other programs megabytes.
    match amount.strip_suffix('b') {
        Some(number) => Err(Error::Usage(format!("bits or bytes? Write {number}bit or {number}B"))),
        None => parse_bytes(amount).map(|bytes| bytes as f64),
    }
}

/// Commits of a file system, which make durable what was written (ext4's documentation: commit=5).
const COMMITS: &str = "flush:interval=5s";
const MI: u64 = 1 << 20;
const GI: u64 = 1 << 30;

fn seconds(value: f64) -> String {
    format!("{}ns", (value * 1e9).round().max(1.0) as u64)
}

/// Files of `file` bytes one after another, each somewhere else, and `updates` small writes of metadata for each.
fn files(bytes: u64, file: u64, updates: u64, area: &str) -> String {
    let pieces = (file / MI).max(1);
    let count = (bytes / (pieces * MI)).max(1) * updates;
    let data = match pieces {
        1 => format!("random-write:size=1Mi,interval=8ms,bytes={}", exact_bytes(bytes)),
        _ => format!(
            "local-in-time:size=1Mi,write_share=1,random=1,sequential={},interval=8ms,bytes={}",
            pieces - 1,
            exact_bytes(bytes)
        ),
    };
    let every = seconds(0.008 * pieces as f64 / updates.max(1) as f64);
    match updates {
        0 => data,
        _ => format!("{data}+random-write:size=4Ki,span={area},interval={every},count={count}"),
    }
}

/// Work on all of the disk, in order: the part of it that is run, and how many times as much the whole is. Spread over the disk, since it
/// is faster at the beginning than at the end. Of zones that have to be written in order each part begins where one does, and all passes
/// are run, since the second finds the zones full.
fn whole_disk(disk: &Disk, passes: u64, work: impl Fn(&str) -> String) -> (String, f64) {
    let begin = disk.zone_bytes.unwrap_or(MI).max(MI);
    let places = (disk.bytes / begin).clamp(1, PLACES);
    let piece = disk.bytes / places / begin * begin;
    let run_passes = if disk.zone_bytes.is_some() { passes.min(MOST_PASSES) } else { 1 };
    let bytes = (LONG_PART / run_passes / MI * MI).min(piece).max(MI);
    let part = |nth: u64| {
        let start = (nth * piece + (piece - bytes.min(piece)) / 2) / begin * begin;
        vec![work(&format!("start={start},bytes={bytes}")); run_passes as usize].join(";")
    };
    let parts: Vec<String> = (0..places).map(part).collect();
    (parts.join(";"), passes as f64 * disk.bytes as f64 / (run_passes * places * bytes) as f64)
}

/// Streams of 512 KiB at a time, each of `rate` bytes a second in a part of its own of the disk, the first from `first` percent on.
fn streams(work: &str, count: u64, rate: f64, first: f64, lasts: &str) -> String {
    let (share, interval) = (90.0 / count as f64, seconds((MI / 2) as f64 / rate));
    let one = |nth: u64| {
        let start = first + share * nth as f64;
        format!("{work}:size=512Ki,span={share:.4}%,start={start:.4}%,interval={interval},{lasts}")
    };
    (0..count).map(one).collect::<Vec<_>>().join("+")
}

/// Places of the disk at which whole-disk work is run, and the bytes there: so many that how a drive takes up a stream counts for little
/// (assumption).
const PLACES: u64 = 16;
const LONG_PART: u64 = 4 * GI;
/// A plot of Chia (k=32).
const PLOT_BYTES: f64 = 101.4 * GI as f64;
/// Bytes in memory at which ZFS writes before it is time: a fifth of a tenth of 8 GB.
const MOST_DIRTY: f64 = 160e6;
/// Passes that are run at most.
const MOST_PASSES: u64 = 8;

/// Files each of which is durable before the next one begins: the disk has to put what it holds in memory on its platters.
fn durable_files(bytes: u64, file: u64, updates: u64, area: &str) -> String {
    let pieces = (file / MI).max(1);
    // As many as there are files of whole pieces: the last comes with the last of these.
    let (interval, count) = (seconds(0.008 * pieces as f64), (bytes / (pieces * MI)).max(1));
    format!("{}+flush:interval={interval},count={count}", files(bytes, file, updates, area))
}

/// Files on a file system that commits now and then.
fn committed_files(bytes: u64, file: u64, updates: u64, area: &str) -> String {
    let commits = (bytes / MI).max(1) * 8 / 5000 + 1;
    format!("{}+{COMMITS},count={commits}", files(bytes, file, updates, area))
}

/// All uses, in the order of the page.
pub static USES: &[Use] = &[
    Use {
        name: "restic",
        what: "a backup by restic",
        keys: &[("bytes", "200G", "amount that a backup writes"), ("pack", "16Mi", "size of a pack")],
        pace: Pace::AtOnce(4),
        work: Work::Workload(|of| durable_files(of.bytes("bytes"), of.bytes("pack"), 2, "10%")),
        assumed: "A pack is a file of 16 MiB (restic's documentation: --pack-size) in one of 256 directories, which \
                  ext4 spreads over the disk. For each pack there are two writes of 4 KiB of metadata and a flush, \
                  because restic syncs each file (its changelog, 0.9.6). Four commands are outstanding, because the \
                  page cache is written back while restic continues. Older versions made packs of 4 to 8 MB: \
                  `pack=5M`.",
    },
    Use {
        name: "borg",
        what: "a backup by Borg",
        keys: &[("bytes", "200G", "amount that a backup writes")],
        pace: Pace::AtOnce(4),
        work: Work::Workload(|of| durable_files(of.bytes("bytes"), 500 * MI, 4, "1Gi")),
        assumed: "Segments of 500 MiB (Borg's documentation: max_segment_size) are written in order. For each there \
                  are four writes of 4 KiB of metadata, and a flush.",
    },
    Use {
        name: "duplicati",
        what: "a backup by Duplicati",
        keys: &[("bytes", "200G", "amount that a backup writes"), ("volume", "50M", "size of a remote volume")],
        pace: Pace::AtOnce(4),
        work: Work::Workload(|of| durable_files(of.bytes("bytes"), of.bytes("volume"), 8, "1Gi")),
        assumed: "The backup goes to a USB disk under Windows; Duplicati's database is on another disk. Each volume is \
                  a file of 50 MB (Duplicati's documentation: dblock-size). For each there are eight writes of 4 KiB, \
                  because NTFS writes the master file table, bitmap and journal, and a flush, because Windows does not \
                  cache writes to such disks (Microsoft: quick removal, the default since Windows 10 1809).",
    },
    Use {
        name: "copy",
        what: "a copy of files",
        keys: &[("bytes", "200G", "size of all files"), ("file", "128Mi", "size of a file")],
        pace: Pace::AtOnce(4),
        work: Work::Workload(|of| durable_files(of.bytes("bytes"), of.bytes("file"), 8, "1Gi")),
        assumed: "Files such as photos, films and disk images are copied to a USB disk under Windows. Each file is \
                  written in order. Then come eight writes of 4 KiB to NTFS's master file table, bitmap and journal, \
                  and a flush, because Windows does not cache writes to such disks (Microsoft: quick removal, the \
                  default since Windows 10 1809). Linux's ext4 commits every 5 s instead: `file=640Mi`.",
    },
    Use {
        name: "timemachine",
        what: "a backup by Time Machine",
        keys: &[
            ("bytes", "20G", "amount that a backup writes"),
            ("band", "8Mi", "size of a band of the sparse bundle"),
        ],
        pace: Pace::AtOnce(4),
        work: Work::Workload(|of| {
            let bands = committed_files(of.bytes("bytes") / 2, of.bytes("band"), 4, "10%");
            let small = of.bytes("bytes") / 2;
            format!("{bands}+random-write:size=16Ki-512Ki,interval=4ms,bytes={}", exact_bytes(small))
        }),
        assumed: "The backup comes over the network, into a sparse bundle with bands of 8 MiB (hdiutil's manual page). \
                  Half of the bytes go to new bands. The other half goes to old bands in pieces of 16 to 512 KiB, \
                  because the file system inside the bundle reuses its space (assumption). The file server commits \
                  every 5 s.",
    },
    Use {
        name: "proxmox-backup",
        what: "a backup to Proxmox Backup Server",
        keys: &[("bytes", "200G", "amount that a backup writes"), ("chunk", "2Mi", "size of a chunk as it is stored")],
        pace: Pace::AtOnce(16),
        work: Work::Workload(|of| committed_files(of.bytes("bytes"), of.bytes("chunk"), 2, "10%")),
        assumed: "Chunks of 4 MiB (Proxmox Backup Server's documentation) are compressed to half their size. Each is a \
                  file in one of 65,536 directories, with two writes of 4 KiB of metadata. ext4 commits every 5 s.",
    },
    Use {
        name: "zfs-receive",
        what: "a zfs receive",
        keys: &[("bytes", "200G", "amount of data that is received")],
        pace: Pace::AtOnce(10),
        work: Work::Workload(|of| committed_files(of.bytes("bytes"), 64 * MI, 1, "10%")),
        assumed: "Records are combined to writes of up to 1 MiB (zfs_vdev_aggregation_limit), which go to contiguous \
                  free space; ten are outstanding (zfs_vdev_async_write_max_active). For every 64 MiB a block of 4 KiB \
                  of metadata is written (assumption). There is a flush every 5 s (zfs_txg_timeout).",
    },
    Use {
        name: "zfs-pool",
        what: "a ZFS pool in light use",
        keys: &[
            ("rate", "100kB/s", "bytes that are changed on a disk"),
            (
                "every",
                "5s",
                "time between writes to the disks: zfs_txg_timeout, or 1s with synchronous writes all the time",
            ),
            ("buffer", "5s", "longest write that ZFS's memory bridges"),
        ],
        pace: Pace::buffered(false, "ZFS's memory", "whoever writes to the pool has to wait"),
        work: Work::Workload(|of| {
            let lasts = of.lasting(24.0);
            let rate = of.rate("rate");
            let every_s = of.time("every").as_secs().min(MOST_DIRTY / rate);
            let at_once = format!("interval={},{lasts}", seconds(every_s));
            // Allocators write to a region of the disk each.
            let piece = ((rate * every_s / 4.0 / 4096.0).ceil() as u64).max(1) * 4096;
            let region = |nth: u64| {
                let start = 3 + 24 * nth;
                format!(
                    "sequential-write:size={piece},start={start}%,span=22%,{at_once}+random-write:size=16Ki,start={start}%,span=3%,{at_once}"
                )
            };
            let labels =
                ["start=0", "start=99.9%"].map(|at| format!("random-write:size=4Ki,{at},span=256Ki,{at_once}"));
            let regions: Vec<String> = (0..4).map(region).collect();
            format!("{}+{}+flush:{at_once}", regions.join("+"), labels.join("+"))
        }),
        assumed: "What has changed is gathered in memory and written to contiguous free space in four regions of the disk \
                  (spa_allocators), with a block of 16 KiB of metadata nearby in each (assumption), two labels, and a flush; \
                  sooner if 160 MB wait (zfs_dirty_data_sync_percent, with 8 GB of memory). \
                  Synchronous writes go to the pool at once, unless it has a log device and logbias is latency: with some \
                  all the time, use `every=1s`. One day is simulated.",
    },
    Use {
        name: "surveillance",
        what: "a recorder of cameras",
        keys: &[
            ("cameras", "8", "number of cameras"),
            ("rate", "4Mbit", "rate of each camera"),
            ("buffer", "2s", "longest wait that the recorder's buffer bridges"),
        ],
        pace: Pace::buffered(false, "the recorder's buffer", "pictures are lost"),
        work: Work::Workload(|of| {
            let lasts = of.lasting(24.0);
            let cameras = of.count("cameras").min(200);
            let streams = streams("sequential-write", cameras, of.rate("rate"), 2.0, &lasts);
            let updates = seconds(8.0 / cameras as f64);
            format!("{streams}+random-write:size=4Ki,span=1Gi,interval={updates},{lasts}+{COMMITS},{lasts}")
        }),
        assumed: "Each camera has a file of its own, which is written in order, 512 KiB at a time. Its index is \
                  updated by 4 KiB every 8 s. ext4 commits every 5 s. Nobody watches the recordings. One day is \
                  simulated. Take the rate from the camera's settings.",
    },
    Use {
        name: "torrent",
        what: "a download by BitTorrent",
        keys: &[
            ("rate", "80Mbit", "rate of the download"),
            ("bytes", "50G", "size of the files"),
            ("buffer", "5s", "longest wait that the client's cache bridges"),
        ],
        pace: Pace::buffered(false, "the client's cache", "the download stops meanwhile"),
        work: Work::Workload(|of| {
            let lasts = of.lasting(2.0);
            let (rate, span) = (of.rate("rate"), exact_bytes(of.bytes("bytes")));
            let (write, read) = (seconds(266_240.0 / rate), seconds(2.0 * 266_240.0 / rate));
            format!(
                "random-write:size=16Ki-504Ki,span={span},align=16Ki,interval={write},{lasts}+random-read:size=16Ki-504Ki,\
                 span={span},align=16Ki,interval={read},{lasts}+{COMMITS},{lasts}"
            )
        }),
        assumed: "Blocks of 16 KiB (BEP 3) arrive in any order, and the client's cache joins them to writes of 16 to \
                  504 KiB. Half as much is read to be sent to others. ext4 commits every 5 s. Two hours are simulated.",
    },
    Use {
        name: "plex",
        what: "a media server",
        keys: &[
            ("streams", "4", "films that are played at once"),
            ("rate", "20Mbit", "rate of each film"),
            ("buffer", "1s", "longest wait that a player's buffer bridges"),
        ],
        pace: Pace::buffered(true, "a player's buffer", "the picture stops meanwhile"),
        work: Work::Workload(|of| {
            let lasts = of.lasting(2.0);
            let films = streams("sequential-read", of.count("streams").min(200), of.rate("rate"), 5.0, &lasts);
            format!("{films}+random-write:size=4Ki,span=5Gi,interval=2s,{lasts}+{COMMITS},{lasts}")
        }),
        assumed: "Each film is read in order, 512 KiB at a time, at the rate of a good 1080p file. The database gets a \
                  write of 4 KiB every 2 s. ext4 commits every 5 s. Two hours are simulated.",
    },
    Use {
        name: "photos",
        what: "an import of photos",
        keys: &[("bytes", "100G", "size of the photos"), ("photo", "5M", "size of a photo")],
        pace: Pace::AtOnce(4),
        work: Work::Workload(|of| {
            let (bytes, photo) = (of.bytes("bytes"), of.bytes("photo"));
            let (count, every) = ((bytes / photo).max(1) * 2, seconds(0.004 * (photo / MI).max(1) as f64));
            let thumbnails = format!("random-write:size=16Ki-64Ki,span=10%,start=80%,interval={every},count={count}");
            format!("{}+{thumbnails}", committed_files(bytes, photo, 2, "1Gi"))
        }),
        assumed: "Each photo is a file of 5 MB. For each there are two previews of 16 to 64 KiB, and two writes of 4 \
                  KiB to metadata and database, as gallery servers such as Immich make them (assumption). ext4 commits \
                  every 5 s.",
    },
    Use {
        name: "postgres",
        what: "a PostgreSQL database",
        keys: &[("tps", "20", "write transactions a second"), ("bytes", "100G", "size of the database")],
        pace: Pace::Own(None),
        work: Work::Workload(|of| {
            let lasts = of.lasting(1.0);
            let (tps, span) = (of.often("tps"), exact_bytes(of.bytes("bytes")));
            let (log, pages) = (seconds(1.0 / tps), seconds(0.5 / tps));
            format!(
                "sequential-write:size=8Ki,span=1Gi,interval={log},{lasts}+zipf:size=8Ki,span={span},start=2Gi,write_share=0.4,\
                 interval={pages},{lasts}+flush:interval={log},{lasts}"
            )
        }),
        assumed: "Pages have 8 KiB. Each transaction appends a page to the write-ahead log and has it flushed \
                  (fsync=on). It also accesses two pages of the tables, chosen by Zipf's law; two fifths of these \
                  accesses are writes. One hour is simulated.",
    },
    Use {
        name: "bitcoin",
        what: "the first synchronisation of Bitcoin Core",
        keys: &[("bytes", "700G", "size of the chain")],
        pace: Pace::AtOnce(4),
        work: Work::Workload(|of| {
            let bytes = of.bytes("bytes");
            let (blocks, tables) = (committed_files(bytes, 128 * MI, 4, "1Gi"), (bytes / MI / 8).max(1));
            let lookups = (bytes / MI) * 2;
            format!(
                "{blocks}+random-write:size=2Mi,span=16Gi,start=50%,interval=64ms,count={tables}+random-read:size=4Ki,span=16Gi,\
                 start=50%,interval=4ms,count={lookups}"
            )
        }),
        assumed: "Block files of 128 MiB (`blk*.dat`) are written in order. In addition, LevelDB (`chainstate`) writes \
                  tables of 2 MiB, a quarter as much as the blocks, and makes two look-ups of 4 KiB for each MiB. The \
                  look-ups are an assumption, for a dbcache that holds most of the set.",
    },
    Use {
        name: "chia",
        what: "a copy of Chia plots",
        keys: &[("plots", "70", "number of plots, of 101.4 GiB each")],
        pace: Pace::AtOnce(4),
        work: Work::OnDisk(|of, disk| {
            let all = (of.count("plots") as f64 * PLOT_BYTES) as u64;
            (committed_files(all.min(disk.bytes), GI, 1, "1Gi"), 1.0)
        }),
        assumed: "Plots of 101.4 GiB (k=32), at most as many as fit, are made elsewhere and copied in order, with a \
                  write of 4 KiB of metadata for every GiB. ext4 commits every 5 s.",
    },
    Use {
        name: "storj",
        what: "a Storj node",
        keys: &[("uploads", "3", "pieces that are uploaded a second")],
        pace: Pace::Own(None),
        work: Work::Workload(|of| {
            let lasts = of.lasting(2.0);
            let uploads = of.often("uploads");
            let of_rate = |by: f64| seconds(1.0 / (by * uploads));
            let (pieces, metadata, reads) = (of_rate(1.0), of_rate(3.0), of_rate(2.0));
            format!(
                "random-write:size=4Ki/40:64Ki/30:256Ki/15:2304Ki/15,align=4Ki,span=80%,interval={pieces},arrivals=poisson,\
                 {lasts}+random-write:size=4Ki,span=10%,start=80%,interval={metadata},arrivals=poisson,\
                 {lasts}+random-read:size=4Ki/50:64Ki/50,span=90%,interval={reads},arrivals=poisson,{lasts}+{COMMITS},\
                 {lasts}"
            )
        }),
        assumed: "A piece has 4 KiB to 2.3 MiB (a segment of 64 MiB in 29 pieces), and is a file. For each there are \
                  three writes of 4 KiB to the file system and the databases, and two reads, for downloads, audits and \
                  the file walker (assumption). ext4 commits every 5 s. Two hours are simulated.",
    },
    Use {
        name: "ceph-osd",
        what: "a Ceph OSD",
        keys: &[("ops", "20", "client operations a second that reach this disk")],
        pace: Pace::Own(None),
        work: Work::Workload(|of| {
            let lasts = of.lasting(1.0);
            let ops = of.often("ops");
            let (data, log) = (seconds(1.0 / ops), seconds(1.0 / ops));
            format!(
                "mix:size=4Ki/50:64Ki/50,align=4Ki,start=4Gi,span=90%,write_share=0.7,interval={data},arrivals=poisson,\
                 {lasts}+sequential-write:size=4Ki,span=1Gi,interval={log},{lasts}+flush:interval={log},{lasts}"
            )
        }),
        assumed: "BlueStore has its log and database on the same disk. Half of the operations are of 4 KiB and half of 64 \
                  KiB; 70 % of them are writes. RocksDB's log is written in order, and flushed. One hour is simulated. \
                  What Ceph does if an OSD answers late is not modelled.",
    },
    Use {
        name: "file-server",
        what: "a file server",
        keys: &[("users", "20", "number of people who work at once")],
        pace: Pace::Own(None),
        work: Work::Workload(|of| {
            let lasts = of.lasting(4.0);
            let interval = seconds(2.0 / of.often("users"));
            format!(
                "hot-cold:size=4Ki/50:64Ki/35:1Mi/15,align=4Ki,write_share=0.3,hot_share=0.1,interval={interval},arrivals=poisson,\
                 {lasts}+{COMMITS},{lasts}"
            )
        }),
        assumed: "Each user makes a request every 2 s: half of the requests are of 4 KiB, a third 64 KiB, the rest 1 \
                  MiB. 30 % are writes, and 80 % go to a tenth of the disk (assumption). ext4 commits every 5 s. Four \
                  hours are simulated.",
    },
    Use {
        name: "format",
        what: "a full format",
        keys: &[],
        pace: Pace::AtOnce(4),
        work: Work::OnDisk(|_, disk| whole_disk(disk, 1, |part| format!("sequential-write:size=1Mi,{part}"))),
        assumed: "All of the disk is written in order, 1 MiB at a time, as by Windows' full format, VeraCrypt and dd. \
                  Only parts at sixteen places of the disk are simulated.",
    },
    Use {
        name: "badblocks",
        what: "badblocks -w",
        keys: &[("passes", "4", "number of patterns, each of which is written and read")],
        pace: Pace::AtOnce(1),
        work: Work::OnDisk(|of, disk| {
            whole_disk(disk, of.count("passes"), |part| {
                format!("sequential-write:size=256Ki,{part};sequential-read:size=256Ki,{part}")
            })
        }),
        assumed: "Four patterns are used: each is written to all of the disk and read again (badblocks' manual page), \
                  64 blocks of 4 KiB at a time (-b 4096). Only parts at sixteen places of the disk are simulated. A \
                  host-managed disk refuses the second pattern, because its zones are full then: use `passes=1`, and \
                  reset the zones between patterns.",
    },
    Use {
        name: "replace",
        what: "the replacement of a disk",
        keys: &[
            ("live", "100%", "share of the pool that is in use (ZFS: CAP of zpool list)"),
            ("new", "full", "the new disk was written before (full), or never written or trimmed (empty)"),
        ],
        pace: Pace::AtOnce(1),
        work: Work::Replace,
        assumed: "The disk is a member of an array. If the array has a name of ZFS's (mirror, raidz1, …) it is \
                  resilvered, by records of 128 KiB in runs of 3 MB, on a disk that is full. Otherwise it is rebuilt \
                  as by md, in the order of the disk.",
    },
    Use {
        name: "scrub",
        what: "a scrub",
        keys: &[],
        pace: Pace::AtOnce(1),
        work: Work::Scrub,
        assumed: "All disks of an array are read in order, 512 KiB at a time (md: check).",
    },
    Use {
        name: "reshape",
        what: "a reshape of an array",
        keys: &[],
        pace: Pace::AtOnce(4),
        work: Work::OnDisk(|_, disk| {
            let half = disk.bytes / 2;
            (
                format!(
                    "sequential-read:size=512Ki,start=50%,span=50%,bytes={half}+sequential-write:size=512Ki,span=50%,bytes={half}"
                ),
                2.0,
            )
        }),
        assumed: "md reads each stripe and writes it again at another place, in order, 512 KiB at a time. The backup \
                  file is on another disk.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use smrkit::workload::Workload;

    #[test]
    fn every_use_is_a_workload_on_disks_of_any_size() {
        for one in USES {
            let asked: AskedUse = one.name.parse().unwrap();
            for (bytes, zone_bytes) in [(1_000_000_000_000, None), (20_000_000_000_000, Some(256 * MI))] {
                let Some((text, times)) = asked.workload(&Disk { bytes, zone_bytes }).unwrap() else { continue };
                let workload = Workload::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", one.name));
                workload.source(bytes / 512, 1).unwrap_or_else(|error| panic!("{}: {error}", one.name));
                assert!(times >= 1.0, "{}", one.name);
            }
            assert!(one.assumed.ends_with('.') && !one.what.ends_with('.'), "{}", one.name);
        }
    }

    #[test]
    fn values_are_read_by_their_kind_and_told_again() {
        let asked: AskedUse = "surveillance:cameras=2,rate=8Mbit".parse().unwrap();
        assert_eq!(asked.to_string(), "surveillance:cameras=2,rate=8Mbit");
        let (text, _) = asked.workload(&Disk { bytes: 1_000_000_000_000, zone_bytes: None }).unwrap().unwrap();
        assert_eq!(text.matches("sequential-write").count(), 2);
        assert!(text.contains("interval=524288000ns"), "512 KiB at 1 MB/s: {text}");
        for (bad, why) in [
            ("surveilance", "did you mean `surveillance`?"),
            ("restic:pck=1Mi", "did you mean `pack`?"),
            ("surveillance:cameras=0", "more than 0"),
            ("surveillance:rate=fast", "rate=fast"),
            ("surveillance:rate=4", "such as 4Mbit"),
            ("restic:bytes=60", "such as 60G"),
        ] {
            let error = bad.parse::<AskedUse>().err().expect(bad).to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn work_on_a_whole_disk_begins_where_its_zones_do_and_does_all_passes_there() {
        let zoned = Disk { bytes: 15_000_000_000_000, zone_bytes: Some(256 * MI) };
        let made = |text: &str, disk: &Disk| text.parse::<AskedUse>().unwrap().workload(disk).unwrap().unwrap();
        for (text, passes) in [("format", 1), ("badblocks", 4), ("badblocks:passes=2", 2)] {
            let (workload, times) = made(text, &zoned);
            let starts = workload.split("start=").skip(1).map(|part| part.split(',').next().unwrap());
            assert!(starts.map(|start| start.parse::<u64>().unwrap() % (256 * MI)).all(|into| into == 0), "{workload}");
            assert_eq!(workload.matches("sequential-write").count() as u64, PLACES * passes, "{text}");
            // All of it is as much as without zones.
            let bytes = |workload: &str| {
                let parts = workload.split("bytes=").skip(1).map(|part| part.split([',', ';']).next().unwrap());
                parts.map(|bytes| bytes.parse::<f64>().unwrap()).sum::<f64>()
            };
            for gib in [1, 15, 60, 3000] {
                let (workload, _) = made(text, &Disk { bytes: gib * GI, ..zoned });
                let parts = workload.split("start=").skip(1).map(|part| {
                    let (start, rest) = part.split_once(",bytes=").unwrap();
                    let bytes = rest.split([',', ';']).next().unwrap();
                    (start.parse::<u64>().unwrap(), bytes.parse::<u64>().unwrap())
                });
                let mut parts: Vec<(u64, u64)> = parts.collect();
                parts.dedup();
                parts.push((gib * GI, 0));
                assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{gib} GiB: {workload}");
            }
            let (plain, of_plain) = made(text, &Disk { zone_bytes: None, ..zoned });
            let [own, other] = [bytes(&workload) * times, bytes(&plain) * of_plain];
            assert!((own / other - 1.0).abs() < 1e-9, "{text}: {own} {other}");
        }
    }

    #[test]
    fn what_is_done_instead_does_as_much() {
        let made = |text: &str| Some(text.parse::<AskedUse>().unwrap().instead()?.1.to_string());
        for (text, instead) in [
            ("restic:bytes=60G", Some("restic:pack=128Mi,bytes=60G")),
            // Nothing is advised that is done already.
            ("restic:pack=128Mi", None),
            ("restic:bytes=60G,pack=128Mi", None),
            ("restic:pack=256M", None),
            ("zfs-pool:every=1s,rate=1MB/s", Some("zfs-pool:every=300s,rate=1MB/s")),
            ("zfs-pool:every=10min", None),
            ("zfs-pool:every=10m", None),
            ("zfs-pool:every=5m", None),
        ] {
            assert_eq!(made(text).as_deref(), instead, "{text}");
        }
    }

    #[test]
    fn more_of_a_load_leaves_commits_where_they_are() {
        let disk = Disk { bytes: 8_000_000_000_000, zone_bytes: None };
        let workload_at = |text: &str, load_factor| {
            text.parse::<AskedUse>().unwrap().workload_at(&disk, load_factor).unwrap().unwrap().0
        };
        for (slow, fast) in [
            ("torrent:rate=8Mbit", "torrent:rate=160Mbit"),
            ("surveillance:rate=1Mbit", "surveillance:rate=20Mbit"),
            ("postgres:tps=2", "postgres:tps=40"),
            ("storj:uploads=1", "storj:uploads=20"),
        ] {
            assert_eq!(workload_at(slow, 20.0), workload_at(fast, 1.0));
            assert_eq!(workload_at(slow, 3.0).contains(COMMITS), workload_at(slow, 1.0).contains(COMMITS), "{slow}");
        }
    }

    #[test]
    fn uses_share_a_disk() {
        let disk = Disk { bytes: 8_000_000_000_000, zone_bytes: None };
        let together = |names: &[&str], hours: Option<u64>| {
            let all: Vec<AskedUse> = names.iter().map(|name| name.parse().unwrap()).collect();
            AskedUse::together(&all, hours.map(|hours| Nanos(hours * 3_600_000_000_000)))
        };
        let refused = |names: &[&str]| together(names, None).err().expect("refused").to_string();
        assert!(refused(&["plex", "restic"]).contains("say how long it may take"));
        assert!(refused(&["plex", "scrub"]).contains("name scrub first"));
        let two = together(&["plex:streams=1", "restic:bytes=6G"], Some(8)).unwrap().unwrap();
        assert_eq!(two.to_string(), "plex:streams=1 + restic:bytes=6G");
        assert_eq!(two.what(), "a media server and a backup by restic");
        assert!(two.is_paced() && two.spread_over.is_some() && two.assumed().unwrap().contains("restic: A pack is"));
        let (text, _) = two.workload(&disk).unwrap().unwrap();
        let mut source = Workload::parse(&text).unwrap().source(disk.bytes / SECTOR_BYTES, 1).unwrap();
        let (mut batch, mut ends, mut restic) = (Vec::new(), Nanos::ZERO, 0);
        while source.fill(&mut batch).is_ok() && !batch.is_empty() {
            ends = batch.iter().map(|request| request.time).fold(ends, Nanos::max);
            restic += batch.iter().filter(|request| request.sectors == 2048).count();
            batch.clear();
        }
        assert!((ends.as_secs() / 28_800.0 - 1.0).abs() < 0.01 && restic > 5000, "{ends} {restic}");
        let both = together(&["restic:bytes=6G", "borg:bytes=6G"], None).unwrap().unwrap();
        assert!(!both.is_paced() && both.workload(&disk).unwrap().unwrap().0.contains("+local-in-time"));
        let rebuilt = together(&["replace:live=40%", "plex"], None).unwrap().unwrap();
        assert!(rebuilt.has_load() && rebuilt.given("live") == Some("40%") && rebuilt.info.work.is_of_array());
        assert!(together(&["format", "restic"], None).unwrap().unwrap().workload(&disk).is_err());
    }

    #[test]
    fn a_buffer_bridges_what_its_owner_says() {
        let bridges = |texts: &[&str]| {
            let all: Vec<AskedUse> = texts.iter().map(|text| text.parse().unwrap()).collect();
            let buffers = AskedUse::together(&all, Some(Nanos(1))).unwrap().unwrap().buffers();
            buffers.map(|buffer| buffer.map(|buffer| buffer.bridges.as_secs()))
        };
        assert_eq!(bridges(&["surveillance"]), [None, Some(2.0)]);
        assert_eq!(bridges(&["surveillance:buffer=10s"]), [None, Some(10.0)]);
        assert_eq!(bridges(&["restic"]), [None, None]);
        assert_eq!(bridges(&["torrent", "plex", "surveillance", "restic"]), [Some(1.0), Some(2.0)]);
        assert!("surveillance:buffer=0s".parse::<AskedUse>().is_err() && "replace:live=0".parse::<AskedUse>().is_err());
    }

    #[test]
    fn what_is_more_than_the_disk_holds_is_refused() {
        let disk = Disk { bytes: 4_000_000_000_000, zone_bytes: None };
        let made = |text: &str| text.parse::<AskedUse>().unwrap().workload(&disk).err().map(|error| error.to_string());
        let why = made("restic:bytes=10T").expect("refused");
        assert_eq!(why, "restic: bytes=10T is more than there is room for on 4 TB");
        assert!(made("chia:plots=70").expect("refused").ends_with("on 4 TB: 36 fit"));
        for fits in ["restic:bytes=4T", "chia:plots=36", "chia"] {
            assert_eq!(made(fits), None);
        }
    }

    #[test]
    fn rates_are_in_bits_or_bytes() {
        let rates = ["4Mbit", "4Mbit/s", "8 Mbit/s", "20MB/s", "20M", "1GiB/s"].map(|text| parse_rate(text).unwrap());
        assert_eq!(rates, [5e5, 5e5, 1e6, 2e7, 2e7, 1_073_741_824.0]);
        assert!(parse_rate("fast").is_err());
        assert!(parse_rate("4Mb/s").unwrap_err().to_string().contains("Write 4Mbit or 4MB"));
    }
}
