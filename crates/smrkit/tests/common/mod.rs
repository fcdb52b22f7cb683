//! Small random disks, parameters and requests for the tests of layers.
#![allow(dead_code)]

pub mod arrays;
pub mod count;
pub mod planned;
pub mod rebuilds;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use planned::{Set, serve, with};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::disk::Recorder;
use smrkit::drive::Drive;
use smrkit::engine::{NoObserver, Observer};
use smrkit::experiment::demand::Demand;
use smrkit::experiment::system::System;
use smrkit::geometry::{Edge, Geometry, ZoneShape, turn};
use smrkit::layer::{self, LayerSpec, Parameters, Scalar};
use smrkit::medium::interference::{Form, Interference, Profile};
use smrkit::request::{Op, Request};
use smrkit::schema::Domain;
use smrkit::settings::{Arrival, Prefill, Queue, Settings, Warmup};
use smrkit::stats::outcome::Outcome;
use smrkit::tally::Access;
use smrkit::units::{Lba, Nanos};
use smrkit_trace::{OpenOptions, TraceDemand, VolumeChoice};

/// Accesses of every drive, by its number.
#[derive(Clone, Default)]
pub struct Witness(pub Arc<Mutex<Vec<(usize, Access)>>>);

struct OfDrive(usize, Witness);

impl Recorder for OfDrive {
    fn access(&mut self, access: &Access) {
        self.1.0.lock().unwrap().push((self.0, *access));
    }
}

impl Observer for Witness {
    fn recorder(&mut self, drive: usize) -> Option<Box<dyn Recorder>> {
        Some(Box::new(OfDrive(drive, self.clone())))
    }
}

/// Makes small drives and parameters from a seed.
pub struct Disks {
    pub random: Pcg64Mcg,
    /// For parameters that came later: drawn from the other, they would change all that a trial draws after them, and with that the kept runs.
    later: Pcg64Mcg,
}

impl Disks {
    pub fn new(seed: u64) -> Disks {
        Disks { random: Pcg64Mcg::seed_from_u64(seed), later: Pcg64Mcg::seed_from_u64(!seed) }
    }

    /// A drive of a few thousand sectors with random recording zones under a random law of this form.
    pub fn drive(&mut self, form: Form) -> Drive {
        let mut drive = Drive::load("tiny-constant").unwrap();
        loop {
            drive.geometry = self.geometry();
            // Zones may shingle toward each other without a guard: another try.
            if let Ok(drive) = drive.clone().with_interference(self.law(form)) {
                return drive;
            }
        }
    }

    fn law(&mut self, form: Form) -> Interference {
        let random = &mut self.random;
        let width = random.random_range(2..4);
        match form {
            Form::Blocks => Interference::Blocks { reach: random.random_range(2..40) },
            Form::Tracks => {
                let band = random.random_bool(0.3).then(|| random.random_range(2..30));
                Interference::Tracks { width, band }
            }
            Form::Distances => Interference::Distances {
                did: random.random_range(0..40),
                dpid: random.random_range(0..30),
                writes: random.random_range(1..4),
            },
            Form::Physical => {
                let bounds = [0; 2].map(|_: u64| turn(random.random_range(0.0..0.4)));
                let (inner, outer) = if random.random_bool(0.5) { (width, 1) } else { (1, width) };
                Interference::Physical(Profile::new(inner, outer, bounds[0], bounds[1]).unwrap())
            }
        }
    }

    /// A small drive with this clock: of random geometry where costs are constant, else the drive `tiny`.
    pub fn drive_with(&mut self, clock: TinyClock, form: Form) -> Drive {
        let buffer = match clock {
            TinyClock::Constant => return self.drive(form),
            TinyClock::Mechanical => "",
            TinyClock::Buffered => {
                "write_cache_bytes = { value = 65536, source = \"test\" }\n\
                 write_cache_order = { value = \"arrival\", source = \"test\" }\n\
                 read_ahead_bytes = { value = 32768, source = \"test\" }\n"
            }
            TinyClock::Cached => {
                "write_cache_bytes = { value = 65536, source = \"test\" }\n\
                 read_ahead_bytes = { value = 32768, source = \"test\" }\n"
            }
        };
        let text = [include_str!("../../drives/tiny.toml"), buffer].concat();
        let drive = Drive::parse("tiny.toml".as_ref(), &text).unwrap();
        let (width, longest) = (2, drive.geometry.longest_track());
        let law = match form {
            Form::Blocks => Interference::Blocks { reach: width * longest },
            Form::Tracks => Interference::Tracks { width, band: None },
            Form::Distances => Interference::Distances { did: width * longest - 1, dpid: longest, writes: 1 },
            Form::Physical => drive.interference,
        };
        drive.with_interference(law).unwrap()
    }

    /// One to three recording zones of a direction each, on one or two surfaces, with or without guard tracks and
    /// defects.
    fn geometry(&mut self) -> Geometry {
        let random = &mut self.random;
        let mut shapes = Vec::new();
        for surface in 0..random.random_range(1..3) {
            let (mut outer_cylinder, mut track_sectors) = (0, random.random_range(20..60));
            let toward = [Edge::Inner, Edge::Outer][random.random_range(0..2)];
            let mut zones = Vec::new();
            for _ in 0..random.random_range(1..4) {
                let tracks = random.random_range(20..80);
                zones.push(ZoneShape { surface, outer_cylinder, tracks, track_sectors, toward });
                outer_cylinder += tracks + [0, 0, 3][random.random_range(0..3)];
                track_sectors -= random.random_range(0..5);
            }
            if toward == Edge::Outer {
                zones.reverse();
            }
            shapes.append(&mut zones);
        }
        let raw: u64 = shapes.iter().map(|zone| zone.tracks * zone.track_sectors).sum();
        let defects = (0..[0, 0, 12][random.random_range(0..3)]).map(|_| random.random_range(0..raw)).collect();
        Geometry::new(&shapes, turn(random.random_range(0.0..0.3)), defects).unwrap()
    }

    /// A random order of one to eight tracks, some of them in R(…).
    fn scheme(&mut self) -> String {
        let tracks = self.random.random_range(1..9usize);
        let mut order: Vec<usize> = (1..=tracks).collect();
        for i in 1..tracks {
            order.swap(i, self.random.random_range(0..=i));
        }
        let one = |track: &usize| if self.random.random_bool(0.3) { format!("R({track})") } else { track.to_string() };
        order.iter().map(one).collect()
    }

    /// Random parameters, small enough for these drives.
    pub fn parameters(&mut self, spec: &LayerSpec) -> Parameters {
        let mut settings = Vec::new();
        for parameter in (spec.keys)() {
            let value = match (parameter.name, parameter.domain()) {
                ("violations", _) => "count".into(),
                ("region_sectors", _) => self.random.random_range(8..300).to_string(),
                ("cache_percent", _) if spec.name == "s-block" => self.random.random_range(10..50).to_string(),
                ("sections", _) => self.random.random_range(1..4).to_string(),
                ("sblock_sectors", _) => self.random.random_range(8..80).to_string(),
                ("spare_percent", _) if spec.name == "s-block" => self.random.random_range(3..20).to_string(),
                ("destage_ahead_percent", _) => self.random.random_range(0..8).to_string(),
                ("destage_at_once", _) => self.random.random_range(1..4).to_string(),
                ("cache_percent", _) if spec.name == "drive-managed" => "paper".into(),
                ("cache_percent", _) => self.random.random_range(1..50).to_string(),
                ("hot_writes", _) => self.random.random_range(0..4).to_string(),
                ("window_blocks", _) => ["auto", "1", "20"][self.random.random_range(0..3)].into(),
                // As the drive's clock says, so that what a trial does hangs on its drive.
                // Drawn, it would change all that a trial draws after it, and with that the kept runs.
                ("moves" | "conventional_type" | "realm_zones" | "activate_time", _) => parameter.default.into(),
                ("host" | "hints", Domain::Words(words)) => words[self.later.random_range(0..words.len())].into(),
                ("free_zones" | "reclaim_percent", _) | ("policy", Domain::Or(..)) => parameter.default.into(),
                ("low_space_percent", _) => ["0", "30", "100"][self.later.random_range(0..3)].into(),
                ("file_bytes", _) => ["auto", "4Ki", "20Ki"][self.later.random_range(0..3)].into(),
                ("append_time" | "append_bytes" | "map_every_writes" | "map_time", _) => parameter.default.into(),
                ("entry_bytes", _) => ["any", "4Ki", "9Ki"][self.random.random_range(0..3)].into(),
                ("gap_bytes", _) => ["0", "1Ki", "3Ki"][self.random.random_range(0..3)].into(),
                ("free_bytes", _) => ["0", "2Ki", "128Mi"][self.random.random_range(0..3)].into(),
                ("shared_writes", _) if ["log", "host-aware"].contains(&spec.name) => {
                    ["1", "3", "8"][self.random.random_range(0..3)].into()
                }
                ("segment_tracks", _) => self.random.random_range(2..7).to_string(),
                ("spare_percent", _) => self.random.random_range(1..60).to_string(),
                ("hold", _) => self.random.random_range(0..4).to_string(),
                ("band_tracks", _) => self.random.random_range(1..9).to_string(),
                // A request has to fit into the log, or it takes more than one turn.
                ("cache_tracks", _) if spec.name == "drive-managed" => self.random.random_range(24..40).to_string(),
                ("cache_tracks", _) => self.random.random_range(9..40).to_string(),
                ("shared_writes", _) => ["auto", "1", "3"][self.random.random_range(0..3)].into(),
                ("idle_delay", _) => ["0ns", "2ms"][self.random.random_range(0..2)].into(),
                ("alpha" | "beta", _) => {
                    let few = self.random.random_range(1..20);
                    ["auto".to_string(), few.to_string()][self.random.random_range(0..2)].clone()
                }
                ("buffer_bytes", _) => (self.random.random_range(1..300) * 512).to_string(),
                ("bypass_bytes", _) => (512 * self.random.random_range(1..40)).to_string(),
                ("scheme", _) => self.scheme(),
                ("fill_percent", _) => self.random.random_range(10..101).to_string(),
                ("random_tracks", _) => ["auto", "3"][self.random.random_range(0..2)].into(),
                (_, Domain::Or(word, rest)) if matches!(*rest, Domain::Words(_)) => match *rest {
                    Domain::Words(mut words) => {
                        words.push(word);
                        words[self.random.random_range(0..words.len())].to_string()
                    }
                    _ => unreachable!("words, as said above"),
                },
                (_, Domain::Words(words)) => words[self.random.random_range(0..words.len())].to_string(),
                ("conventional_percent", _) if spec.name == "zone-log" => self.random.random_range(0..10).to_string(),
                ("zone_bytes", _) if spec.name == "zone-log" => (self.random.random_range(8..200) * 512).to_string(),
                ("zone_bytes", _) => (self.random.random_range(8..40) * 4096).to_string(),
                ("conventional_percent", _) => self.random.random_range(20..60).to_string(),
                ("conventional_density_percent", _) if spec.name == "host-aware" => {
                    self.random.random_range(60..101).to_string()
                }
                ("conventional_density_percent", _) => parameter.default.into(),
                ("open_zones" | "clean_below_zones", _) => self.random.random_range(1..4).to_string(),
                ("reserved_zones", _) => self.random.random_range(1..5).to_string(),
                ("commit_period", _) => ["0ns", "50ms", "10s"][self.random.random_range(0..3)].into(),
                ("max_open" | "max_active" | "max_non_seq", _) => self.random.random_range(0..5).to_string(),
                (key, _) => panic!("say here how to choose {key} at random"),
            };
            settings.push((parameter.name.to_string(), value));
        }
        spec.resolve(&settings).unwrap()
    }
}

/// The clocks of small drives.
#[derive(Clone, Copy, Debug)]
pub enum TinyClock {
    Constant,
    Mechanical,
    /// With read-ahead and a cache that writes in the order of arrival.
    Buffered,
    /// With read-ahead and the drive's own write cache.
    Cached,
}

impl TinyClock {
    pub const ALL: [TinyClock; 4] =
        [TinyClock::Constant, TinyClock::Mechanical, TinyClock::Buffered, TinyClock::Cached];
}

/// Closed and open loops, with and without a queue.
pub fn random_settings(random: &mut impl Rng) -> Settings {
    let depth = [1, 1, 4, 16][random.random_range(0..4)];
    let queues = [Queue::Fcfs, Queue::Elevator, Queue::Sptf];
    let queue = if depth == 1 { Queue::Fcfs } else { queues[random.random_range(0..3)] };
    let open = random.random_bool(0.5);
    Settings {
        arrival: if open { Arrival::Trace } else { Arrival::FlatOut },
        think: if open { Nanos::ZERO } else { Nanos([0, 3_000_000][random.random_range(0..2)]) },
        time_scale: [1.0, 0.7][random.random_range(0..2)],
        depth,
        queue,
        prefill: [Prefill::Full, Prefill::None][random.random_range(0..2)],
        seed: random.random_range(0..100),
        ..Settings::default()
    }
}

/// The requests at random times, in order: some together, some apart by a while.
pub fn with_times(random: &mut impl Rng, mut requests: Vec<Request>) -> Vec<Request> {
    let mut time = 0;
    for request in &mut requests {
        let gap_ns = [0, 100_000, 10_000_000, 300_000_000][random.random_range(0..4)];
        time += random.random_range(0..=gap_ns);
        request.time = Nanos(time);
    }
    requests
}

/// Requests of all kinds, mostly small, mostly in a hot part, now and then long.
pub fn random_requests(random: &mut impl Rng, host_sectors: u64, count: u64) -> Vec<Request> {
    let request = |random: &mut _| {
        let sectors = random_length(random).min(host_sectors);
        let span = if random_share(random, 0.5) { (host_sectors / 4).max(sectors) } else { host_sectors };
        let lba = Lba(Rng::next_u64(random) % (span - sectors + 1));
        match Rng::next_u64(random) % 100 {
            0..60 => Request::new(Op::Write, lba, sectors as u32),
            60..90 => Request::new(Op::Read, lba, sectors as u32),
            90..98 => Request::new(Op::Discard, lba, sectors as u32),
            _ => Request::new(Op::Flush, Lba(0), 0),
        }
    };
    (0..count).map(|_| request(random)).collect()
}

fn random_share(random: &mut impl Rng, share: f64) -> bool {
    random.random_bool(share)
}

fn random_length(random: &mut impl Rng) -> u64 {
    match random.random_range(0..20) {
        0 => random.random_range(1..400),
        1..6 => 8,
        _ => random.random_range(1..24),
    }
}

/// Writes of (LBA, sectors).
pub fn writes(extents: &[(u64, u32)]) -> Vec<Request> {
    extents.iter().map(|&(lba, sectors)| Request::new(Op::Write, Lba(lba), sectors)).collect()
}

/// Runs a layer on the drive of the Vguard paper, empty.
pub fn on_st5000as0011(layer: &str, set: Set, warmup: u64, demand: &dyn Demand) -> Outcome {
    let settings = Settings { warmup: Warmup::Requests(warmup), prefill: Prefill::None, ..Settings::default() };
    let run = with(System::drive("st5000as0011"), layer, set).run(settings).unwrap();
    serve(&run, demand, &mut NoObserver).unwrap()
}

/// A layer's parameters, these set.
pub fn parameters(layer: &str, set: &[(&str, &str)]) -> Parameters {
    let spec = layer::find(layer).unwrap();
    let set: Vec<(String, String)> = set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    spec.resolve(&set).unwrap()
}

/// A counter of a layer.
pub fn count(outcome: &Outcome, key: &str) -> u64 {
    match outcome.layer_stats.get(key) {
        Some(Scalar::Int(value)) => *value,
        other => panic!("{key} is {other:?}"),
    }
}

/// A real trace that doesn't come with smrkit, from $SMRKIT_TRACES or shared/traces next to the project; without it the
/// reason is printed.
pub fn real_trace(file: &str) -> Option<TraceDemand> {
    let given = std::env::var_os("SMRKIT_TRACES").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/traces"));
    let Some(path) = given.into_iter().chain(above).map(|folder| folder.join(file)).find(|path| path.is_file()) else {
        println!("skipped: no {file} in $SMRKIT_TRACES or shared/traces above the project");
        return None;
    };
    Some(TraceDemand::new(&path, OpenOptions::default(), VolumeChoice::All).unwrap())
}
