//! A plausible day of a PC, from boot to the same hour of the next day, as `workloads/desktop.toml` describes it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::draws::ZipfRanks;
use super::patterns::Pattern;
use crate::dice::{Dice, Shuffle};
use crate::request::{Op, Request};
use crate::units::{Lba, Nanos};

pub(super) const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Places are multiples of 4 KiB.
const ALIGN_SECTORS: u64 = 8;

/// The day as its file describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Day {
    areas: BTreeMap<String, Area>,
    sizes: BTreeMap<String, Vec<(u32, u64)>>,
    ways: BTreeMap<String, AccessOrder>,
    activity: Vec<Activity>,
}

/// A part of the disk. `begin` and `at_most`, which bounds `sectors` on a small disk, are in per mille of the span.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Area {
    begin: u64,
    sectors: u64,
    at_most: u64,
}

/// The order in which an activity accesses its area.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AccessOrder {
    /// Short sequential runs of up to `run` requests in files, some of which are used far more often (Zipf's law).
    Files { files: u64, theta: f64, run: u64 },
    /// Each burst is one sequential stretch from a random place.
    Stretch,
    /// Continues where the last request ended, and wraps at the end of the area.
    Append,
    /// By turns reads `chunk` requests here, in a stretch as above, and writes as many to the area `copies`.
    Copy { chunk: u64 },
}

/// An activity between two times of the day.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Activity {
    op: Op,
    area: String,
    way: String,
    sizes: String,
    /// From and to, in seconds since boot.
    seconds: (u64, u64),
    bursts: u64,
    /// Requests in a burst; `gap_us` is the time between them.
    requests: u64,
    gap_us: u64,
}

impl Activity {
    fn all_requests(&self) -> u64 {
        self.bursts * self.requests
    }
}

/// The day, from the built-in file.
fn day() -> Day {
    toml::from_str(include_str!("../../workloads/desktop.toml")).expect("the file that is built in is well-formed")
}

/// The smallest span that has room for every area.
pub(super) const LEAST_SECTORS: u64 = 1 << 17;

/// Requests and sectors of a day, on average.
pub(super) fn mean_day() -> (f64, f64) {
    let day = day();
    let (mut requests, mut sectors) = (0, 0.0);
    for activity in &day.activity {
        let sizes = &day.sizes[&activity.sizes];
        let weights: u64 = sizes.iter().map(|&(_, weight)| weight).sum();
        let weighted: u64 = sizes.iter().map(|&(size, weight)| u64::from(size) * weight).sum();
        requests += activity.all_requests();
        sectors += activity.all_requests() as f64 * (weighted as f64 / weights as f64);
    }
    (requests as f64, sectors)
}

/// The stream of requests, day after day.
pub(super) struct Desktop {
    activities: Vec<Running>,
    day_start_ns: u64,
}

impl Desktop {
    /// Within `span` ≥ `LEAST_SECTORS` sectors from `first`.
    pub fn new(first: u64, span: u64, mut dice: Dice) -> Desktop {
        let day = day();
        let running = (0..).zip(&day.activity).map(|(number, activity)| {
            let seed = dice.next();
            Running::new(&day, activity, first, span, Dice::new(seed, number))
        });
        Desktop { activities: running.collect(), day_start_ns: 0 }
    }

    fn earliest(&self) -> Option<usize> {
        let times = self.activities.iter().enumerate().filter_map(|(i, running)| Some((running.time_ns?, i)));
        times.min().map(|(_, i)| i)
    }
}

impl Pattern for Desktop {
    fn next(&mut self) -> Option<Request> {
        if self.earliest().is_none() {
            self.day_start_ns = self.day_start_ns.saturating_add(DAY_NS);
            self.activities.iter_mut().for_each(Running::begin_day);
        }
        let earliest = self.earliest()?;
        let running = &mut self.activities[earliest];
        let mut request = running.next();
        request.time = Nanos(request.time.0.saturating_add(self.day_start_ns));
        Some(request)
    }

    fn peek(&self) -> Nanos {
        let in_day = self.earliest().and_then(|i| self.activities[i].time_ns).unwrap_or(DAY_NS);
        Nanos(self.day_start_ns.saturating_add(in_day))
    }
}

/// An area on this disk, in sectors.
#[derive(Clone, Copy)]
struct Room {
    first: u64,
    sectors: u64,
}

impl Room {
    fn new(area: &Area, first: u64, span: u64) -> Room {
        let per_mille = |n: u64| (u128::from(span) * u128::from(n) / 1000) as u64 / ALIGN_SECTORS * ALIGN_SECTORS;
        Room { first: first + per_mille(area.begin), sectors: area.sectors.min(per_mille(area.at_most)) }
    }
}

/// The state of an activity during the day.
struct Running {
    activity: Activity,
    way: AccessOrder,
    sizes: Vec<(u32, u64)>,
    dice: Dice,
    room: Room,
    copies: Room,
    file_sectors: u64,
    ranks: Option<(ZipfRanks, Shuffle)>,
    /// Requests done today; `time_ns` is when the next one comes.
    done: u64,
    time_ns: Option<u64>,
    at: u64,
    copy_at: u64,
    run_left: u64,
}

impl Running {
    fn new(day: &Day, activity: &Activity, first: u64, span: u64, mut dice: Dice) -> Running {
        let room = Room::new(&day.areas[&activity.area], first, span);
        let (way, sizes) = (day.ways[&activity.way], day.sizes[&activity.sizes].clone());
        let mut file_sectors = room.sectors;
        let mut ranks = None;
        if let AccessOrder::Files { files, theta, .. } = way {
            // Files of at least 64 KiB, which on small disks are fewer.
            let files = files.min(room.sectors / 128).max(1);
            file_sectors = room.sectors / files;
            ranks = Some((ZipfRanks::new(files, theta), Shuffle::new(files, &mut dice)));
        }
        let mut running = Running {
            activity: activity.clone(),
            way,
            dice,
            room,
            copies: Room::new(&day.areas["copies"], first, span),
            sizes,
            file_sectors,
            ranks,
            done: 0,
            time_ns: None,
            at: 0,
            copy_at: 0,
            run_left: 0,
        };
        running.begin_day();
        running
    }

    fn begin_day(&mut self) {
        self.done = 0;
        self.begin_burst();
    }

    /// Bursts have equal slots in the activity's hours; each begins at a random time in its slot, so that it fits.
    fn begin_burst(&mut self) {
        let Activity { seconds: (from_s, to_s), bursts, requests, gap_us, .. } = self.activity;
        let slot_ns = (to_s - from_s) * 1_000_000_000 / bursts;
        let room_ns = slot_ns.saturating_sub(requests * gap_us * 1000);
        let burst = self.done / requests;
        self.time_ns = Some(from_s * 1_000_000_000 + burst * slot_ns + self.dice.below(room_ns + 1));
        self.run_left = 0;
        if matches!(self.way, AccessOrder::Stretch | AccessOrder::Copy { .. }) {
            self.at = self.dice.below(self.room.sectors / ALIGN_SECTORS) * ALIGN_SECTORS;
        }
    }

    fn next(&mut self) -> Request {
        let time = Nanos(self.time_ns.expect("a request is left today"));
        let sectors = self.dice.weighted(&self.sizes);
        let (op, lba) = self.place(u64::from(sectors));
        self.done += 1;
        if self.done == self.activity.all_requests() {
            self.time_ns = None;
        } else if self.done.is_multiple_of(self.activity.requests) {
            self.begin_burst();
        } else {
            self.time_ns = Some(time.0 + self.activity.gap_us * 1000);
        }
        Request { time, ..Request::new(op, Lba(lba), sectors) }
    }

    /// The operation and the address of the next request.
    fn place(&mut self, sectors: u64) -> (Op, u64) {
        match self.way {
            AccessOrder::Files { run, .. } if self.run_left == 0 => {
                self.run_left = self.dice.between(1, run);
                if let Some((zipf, order)) = &self.ranks {
                    let file = order.at(zipf.sample(&mut self.dice));
                    let file_start = file * self.file_sectors / ALIGN_SECTORS * ALIGN_SECTORS;
                    let places = self.file_sectors.saturating_sub(sectors) / ALIGN_SECTORS + 1;
                    self.at = file_start + self.dice.below(places) * ALIGN_SECTORS;
                }
            }
            // Reads `chunk` requests, then writes as many.
            AccessOrder::Copy { chunk } if self.done % (2 * chunk) >= chunk => {
                return (Op::Write, onward(&mut self.copy_at, self.copies, sectors));
            }
            _ => {}
        }
        self.run_left = self.run_left.saturating_sub(1);
        (self.activity.op, onward(&mut self.at, self.room, sectors))
    }
}

/// The next place in a room, wrapping at its end.
fn onward(at: &mut u64, room: Room, sectors: u64) -> u64 {
    if *at + sectors > room.sectors {
        *at = 0;
    }
    let place = *at;
    *at += sectors;
    room.first + place
}
