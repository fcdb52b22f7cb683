//! A plausible day of a PC, from boot to the same hour of the next day.
//!
//! Every number in the tables below is an assumption about one person's day, not a measurement; together they make
//! about 340,000 requests and 22 GB of writes. Nothing is taken from a trace.

use super::dice::{Dice, Shuffle};
use super::stream::Pattern;
use super::zipf::ZipfRanks;
use crate::request::{Op, Request};
use crate::units::{Lba, Nanos};

const HOUR: u64 = 3600;
const DAY_NS: u64 = 24 * HOUR * 1_000_000_000;
const GIB: u64 = 1 << 21;

/// A part of the disk: where it begins (per mille of the span), how many sectors are in use, and at most how much
/// (per mille of the span), so that the day fits small disks too.
struct Area {
    begin: u64,
    sectors: u64,
    at_most: u64,
}

const SYSTEM: Area = Area { begin: 0, sectors: 40 * GIB, at_most: 120 };
const JOURNAL: Area = Area { begin: 130, sectors: GIB / 4, at_most: 20 };
const PROFILE: Area = Area { begin: 150, sectors: 10 * GIB, at_most: 100 };
const MEDIA: Area = Area { begin: 300, sectors: 200 * GIB, at_most: 250 };
const DOWNLOADS: Area = Area { begin: 600, sectors: 100 * GIB, at_most: 100 };
const COPIES: Area = Area { begin: 750, sectors: 400 * GIB, at_most: 200 };

/// Way of an activity through its area.
#[derive(Clone, Copy)]
enum Way {
    /// Short sequential runs of up to `run` requests in files, some of which are used far more often (Zipf's law).
    Files { files: u64, theta: f64, run: u64 },
    /// Each burst is one sequential stretch from a random place.
    Stretch,
    /// On from where the last request ended, around the area.
    Append,
    /// Stretches read here and written to `COPIES`, `chunk` requests at a time.
    Copy { chunk: u64 },
}

struct Activity {
    op: Op,
    area: &'static Area,
    way: Way,
    /// Seconds from boot.
    from_s: u64,
    to_s: u64,
    bursts: u64,
    /// Requests in a burst, and the time between them.
    requests: u64,
    gap_us: u64,
    /// (sectors, weight)
    sizes: &'static [(u32, u64)],
}

const SMALL_READS: &[(u32, u64)] = &[(8, 40), (16, 15), (32, 20), (64, 15), (128, 10)];
const SMALL_WRITES: &[(u32, u64)] = &[(8, 65), (16, 15), (32, 10), (64, 7), (128, 3)];
const JOURNAL_WRITES: &[(u32, u64)] = &[(8, 70), (16, 20), (32, 10)];
const LARGE: &[(u32, u64)] = &[(1024, 1)];
const PROGRAM_FILES: Way = Way::Files { files: 20_000, theta: 0.9, run: 6 };
const PROFILE_FILES: Way = Way::Files { files: 5_000, theta: 0.9, run: 3 };

const fn activity(op: Op, area: &'static Area, way: Way, sizes: &'static [(u32, u64)]) -> Activity {
    Activity { op, area, way, from_s: 0, to_s: 24 * HOUR, bursts: 1, requests: 1, gap_us: 1000, sizes }
}

#[rustfmt::skip]
static DAY: &[Activity] = &[
    // Boot and log on: 10,000 reads in the first minutes.
    Activity { to_s: 180, bursts: 1, requests: 10_000, gap_us: 8_000, ..activity(Op::Read, &SYSTEM, PROGRAM_FILES, SMALL_READS) },
    // 40 programs are started through 16 waking hours.
    Activity { from_s: 200, to_s: 16 * HOUR, bursts: 40, requests: 1_200, gap_us: 8_000, ..activity(Op::Read, &SYSTEM, PROGRAM_FILES, SMALL_READS) },
    // Profiles, caches, mail, databases: small reads and writes in bursts, half a minute apart.
    Activity { from_s: 100, to_s: 16 * HOUR, bursts: 2_000, requests: 30, gap_us: 10_000, ..activity(Op::Read, &PROFILE, PROFILE_FILES, SMALL_READS) },
    Activity { from_s: 100, to_s: 16 * HOUR, bursts: 2_000, requests: 45, gap_us: 10_000, ..activity(Op::Write, &PROFILE, PROFILE_FILES, SMALL_WRITES) },
    // The file system's journal and logs, busy by day, now and then by night.
    Activity { from_s: 10, to_s: 16 * HOUR, bursts: 14_000, requests: 3, gap_us: 2_000, ..activity(Op::Write, &JOURNAL, Way::Append, JOURNAL_WRITES) },
    Activity { from_s: 16 * HOUR, bursts: 900, requests: 3, gap_us: 2_000, ..activity(Op::Write, &JOURNAL, Way::Append, JOURNAL_WRITES) },
    // Five downloads of 840 MB at 10 MB/s.
    Activity { from_s: HOUR, to_s: 12 * HOUR, bursts: 5, requests: 1_600, gap_us: 50_000, ..activity(Op::Write, &DOWNLOADS, Way::Stretch, LARGE) },
    // Ten times a film or pictures are looked at.
    Activity { from_s: 2 * HOUR, to_s: 15 * HOUR, bursts: 10, requests: 1_000, gap_us: 60_000, ..activity(Op::Read, &MEDIA, Way::Stretch, LARGE) },
    // An evening copy of 15.7 GB, 8 MiB read and written in turns, at 33 MB/s.
    Activity { from_s: 13 * HOUR, to_s: 14 * HOUR, bursts: 1, requests: 60_000, gap_us: 16_000, ..activity(Op::Read, &MEDIA, Way::Copy { chunk: 16 }, LARGE) },
    // An update at night.
    Activity { from_s: 18 * HOUR, to_s: 19 * HOUR, bursts: 10, requests: 800, gap_us: 10_000, ..activity(Op::Write, &SYSTEM, PROGRAM_FILES, &[(128, 1)]) },
];

/// The least span that has room for every area.
pub(super) const LEAST_SECTORS: u64 = 1 << 17;

/// Requests in a day.
pub(super) fn requests_a_day() -> u64 {
    DAY.iter().map(|activity| activity.bursts * activity.requests).sum()
}

/// Sectors asked for in a day, on average.
pub(super) fn sectors_a_day() -> f64 {
    let mean = |sizes: &[(u32, u64)]| {
        let whole: u64 = sizes.iter().map(|size| size.1).sum();
        sizes.iter().map(|size| u64::from(size.0) * size.1).sum::<u64>() as f64 / whole as f64
    };
    DAY.iter().map(|activity| (activity.bursts * activity.requests) as f64 * mean(activity.sizes)).sum()
}

/// Day after day.
pub(super) struct Desktop {
    activities: Vec<Running>,
    day_start_ns: u64,
}

impl Desktop {
    /// Within `span` ≥ `LEAST_SECTORS` sectors from `first`.
    pub fn new(first: u64, span: u64, mut dice: Dice) -> Desktop {
        let running = DAY.iter().enumerate().map(|(i, activity)| {
            let seed = dice.next();
            Running::new(activity, first, span, Dice::new(seed, i as u64))
        });
        Desktop { activities: running.collect(), day_start_ns: 0 }
    }

    fn begin_day(&mut self) {
        self.day_start_ns = self.day_start_ns.saturating_add(DAY_NS);
        self.activities.iter_mut().for_each(Running::begin_day);
    }

    fn earliest(&self) -> Option<usize> {
        let times = self.activities.iter().enumerate().filter_map(|(i, running)| Some((running.time_ns?, i)));
        times.min().map(|(_, i)| i)
    }
}

impl Pattern for Desktop {
    fn next(&mut self) -> Option<Request> {
        if self.earliest().is_none() {
            self.begin_day();
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
        let per_mille = |n: u64| (u128::from(span) * u128::from(n) / 1000) as u64 / 8 * 8;
        Room { first: first + per_mille(area.begin), sectors: area.sectors.min(per_mille(area.at_most)) }
    }
}

/// An activity on its way through the day.
struct Running {
    activity: &'static Activity,
    dice: Dice,
    room: Room,
    copies: Room,
    weight: u64,
    file_sectors: u64,
    ranks: Option<(ZipfRanks, Shuffle)>,
    /// Requests done today, and when the next one comes.
    done: u64,
    time_ns: Option<u64>,
    at: u64,
    copy_at: u64,
    run_left: u64,
}

impl Running {
    fn new(activity: &'static Activity, first: u64, span: u64, mut dice: Dice) -> Running {
        let room = Room::new(activity.area, first, span);
        let mut file_sectors = room.sectors;
        let mut ranks = None;
        if let Way::Files { files, theta, .. } = activity.way {
            // Files of at least 64 KiB, which on small disks are fewer.
            let files = files.min(room.sectors / 128).max(1);
            file_sectors = room.sectors / files;
            ranks = Some((ZipfRanks::new(files, theta), Shuffle::new(files, &mut dice)));
        }
        let mut running = Running {
            activity,
            dice,
            room,
            copies: Room::new(&COPIES, first, span),
            weight: activity.sizes.iter().map(|size| size.1).sum(),
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

    /// Bursts lie evenly through the activity's hours, each anywhere in the room that its slot leaves.
    fn begin_burst(&mut self) {
        let a = self.activity;
        let slot_ns = (a.to_s - a.from_s) * 1_000_000_000 / a.bursts;
        let room_ns = slot_ns.saturating_sub(a.requests * a.gap_us * 1000);
        let burst = self.done / a.requests;
        self.time_ns = Some(a.from_s * 1_000_000_000 + burst * slot_ns + self.dice.below(room_ns + 1));
        self.run_left = 0;
        if matches!(a.way, Way::Stretch | Way::Copy { .. }) {
            self.at = self.dice.below(self.room.sectors / 8) * 8;
        }
    }

    fn next(&mut self) -> Request {
        let time = Nanos(self.time_ns.unwrap_or(DAY_NS));
        let sectors = self.size();
        let (op, lba) = self.place(u64::from(sectors));
        self.done += 1;
        if self.done == self.activity.bursts * self.activity.requests {
            self.time_ns = None;
        } else if self.done.is_multiple_of(self.activity.requests) {
            self.begin_burst();
        } else {
            self.time_ns = Some(time.0 + self.activity.gap_us * 1000);
        }
        Request { time, ..Request::new(op, Lba(lba), sectors) }
    }

    fn size(&mut self) -> u32 {
        let mut drawn = self.dice.below(self.weight);
        for &(sectors, weight) in self.activity.sizes {
            if drawn < weight {
                return sectors;
            }
            drawn -= weight;
        }
        8
    }

    fn place(&mut self, sectors: u64) -> (Op, u64) {
        match self.activity.way {
            Way::Files { run, .. } if self.run_left == 0 => {
                self.run_left = self.dice.between(1, run);
                self.at = self.in_a_file(sectors);
            }
            Way::Copy { chunk } if self.done % (2 * chunk) >= chunk => {
                return (Op::Write, onward(&mut self.copy_at, self.copies, sectors));
            }
            _ => {}
        }
        self.run_left = self.run_left.saturating_sub(1);
        (self.activity.op, onward(&mut self.at, self.room, sectors))
    }

    fn in_a_file(&mut self, sectors: u64) -> u64 {
        let Some((zipf, order)) = &self.ranks else { return 0 };
        let file = order.at(zipf.sample(&mut self.dice));
        let places = self.file_sectors.saturating_sub(sectors) / 8 + 1;
        file * self.file_sectors / 8 * 8 + self.dice.below(places) * 8
    }
}

/// The next place in a room, around its end.
fn onward(at: &mut u64, room: Room, sectors: u64) -> u64 {
    if *at + sectors > room.sectors {
        *at = 0;
    }
    let place = *at;
    *at += sectors;
    room.first + place
}
