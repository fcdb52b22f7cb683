//! `smrkit age`: fills a file system and lets it grow old, on a mount or in simulation; benchmarks alongside if asked for.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use smrfs::age::world::World;
use smrfs::age::{AgeingResult, AgerOptions, BenchmarkResult, CourseOptions, Duty, Sample, paper_benchmarks};
use smrfs::device::{Model, Shape};
use smrfs::space::caveat::{CaveatOptions, Placement};
use smrfs::workload::driver::{End, Interleave};
use smrfs::workload::{EventKind, Target};
use smrkit::VERSION;
use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::experiment::pool;
use smrkit::quantity::{Bytes, parse_bytes, parse_count, parse_number, parse_percent};
use smrkit_live::workplace::Workplace;
use smrkit_options::COMMIT;
use smrkit_options::value::{count, one_of};
use smrkit_report::{Column, Grid, format};
use smrkit_sweep::spread::Spread;

use super::mkfs::MODELS;
use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{OutputOptions, Outputs, pretty};

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit age /mnt/smrfs --bytes 10GB                      on a mounted file system, in a folder of its own there
  smrkit age /mnt/ext4 --any-directory 10GB               to compare: 10 GB of another file system
  smrkit age --simulate caveat                            the paper's 100 GB disk, 800 GB written, in seconds
  smrkit age --simulate strict-append --size 10GB --benchmarks --json aged.json
  smrkit age --simulate caveat --did 3MiB --placement adjacent
  smrkit age --simulate caveat --size 4GB --placement next-fit,adjacent --seeds 10     which policy is better

An interrupt keeps what there is.")]
pub struct Age {
    /// A directory of the mounted SMRfs to age.
    #[arg(conflicts_with = "simulate")]
    directory: Option<PathBuf>,
    /// Age a directory of any file system; this many bytes of it count as the file system.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "directory")]
    any_directory: Option<u64>,
    #[command(flatten)]
    simulation: Simulation,
    #[command(flatten)]
    ageing: Ageing,
    /// Write the results as JSON; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    json: Option<PathBuf>,
}

impl Age {
    pub fn execute(self) -> anyhow::Result<Done> {
        let worlds = self.simulation.worlds()?;
        let disk_bytes = match (worlds.first(), &self.directory) {
            (Some(world), _) => world.disk_bytes,
            (None, Some(directory)) => {
                let (usable_bytes, _free) = Workplace::room_of(directory)?;
                self.any_directory.unwrap_or(usable_bytes)
            }
            (None, None) => return Err(Error::Usage("name a directory, or --simulate a model".into()).into()),
        };
        // The options are checked before a file is opened or the folder for the work is made.
        let options = self.ageing.course(disk_bytes, self.ageing.seed)?;
        let outputs = OutputOptions { json: self.json.clone(), report: None }.open()?;
        let interrupt = Interrupt::watch();
        if worlds.len() > 1 || self.ageing.seeds > 1 {
            return self.compare(&worlds, outputs, &interrupt);
        }
        let (mut target, shape): (Box<dyn Target>, Option<Shape>) = match &self.directory {
            Some(directory) => {
                let place = Workplace::new(directory, self.any_directory, self.ageing.seed)?;
                let shape = place.shape();
                (Box::new(place), shape)
            }
            None => (Box::new(worlds[0].mount()?), Some(worlds[0].shape())),
        };
        let result = pool::make_one(&interrupt, "ageing", |watch| {
            AgeingResult::run(&options, &mut *target, &mut |share| watch.is_at(share)).map_err(Error::from)
        })?;
        let aged = Aged {
            directory: self.directory.as_deref(),
            world: worlds.first(),
            shape,
            disk_bytes,
            options,
            result,
            is_interrupted: interrupt.is_set(),
        };
        outputs.write(|| aged.text(), || pretty(&aged.record()), String::new)?;
        Ok(interrupt.done())
    }

    /// Ages a disk for each world and seed. Every policy meets the same files, so that they are compared seed by seed.
    fn compare(&self, worlds: &[World], outputs: Outputs, interrupt: &Interrupt) -> anyhow::Result<Done> {
        let seeds = self.ageing.seed..self.ageing.seed.saturating_add(self.ageing.seeds);
        let jobs: Vec<(&World, u64)> = seeds.flat_map(|seed| worlds.iter().map(move |world| (world, seed))).collect();
        let made = pool::make_all(&jobs, interrupt, "ageing", |_, (world, seed), mut watch| {
            let course = self.ageing.course(world.disk_bytes, *seed)?;
            let aged = AgeingResult::run(&course, &mut world.mount()?, &mut |share| watch.is_at(share))?;
            Ok(PolicyRun::new(world, *seed, &aged))
        });
        let runs: Vec<PolicyRun> = made.into_iter().filter_map(Result::transpose).collect::<Result<_, Error>>()?;
        let record = || pretty(&policies_record(&runs, interrupt.is_set()));
        outputs.write(|| policies_text(&runs), record, String::new)?;
        Ok(interrupt.done())
    }
}

/// Defaults of --bytes, in sizes of the file system, and of --sample, in samples of these bytes.
const DEFAULT_DISKS_WRITTEN: u64 = 8;
const DEFAULT_SAMPLES: u64 = 500;

/// Options of the ageing.
#[derive(Args)]
#[command(next_help_heading = "Ageing")]
struct Ageing {
    /// Fill level to keep, in percent or as a size. Give a size to compare file systems of unequal size.
    #[arg(long, value_parser = parse_fill, default_value = "70", value_name = "PERCENT|SIZE")]
    fill: Fill,
    /// Amount to write [default: 8 times the size of the file system].
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE")]
    bytes: Option<u64>,
    /// Amount to write in all, including the benchmarks and what the ager writes after them [default: the run ends with
    /// the benchmarks].
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE", requires = "benchmarks")]
    until: Option<u64>,
    /// Amount to write before the ager's events are recorded.
    #[arg(long, value_parser = parse_bytes, default_value = "0", value_name = "SIZE")]
    record_from: u64,
    /// Take a sample each time this much was written [default: 1/500 of --bytes].
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE")]
    sample: Option<u64>,
    /// Factor by which file sizes are multiplied. No file is larger than a sixteenth of the fill.
    #[arg(long, value_parser = parse_number, default_value = "1", value_name = "X")]
    size_factor: f64,
    /// Share of time in which the ager pauses, in percent.
    #[arg(long, value_parser = parse_percent, default_value = "0", value_name = "PERCENT")]
    idle: f64,
    /// Run Postmark and the file server twice each, alongside the ager. They begin when all has been written.
    #[arg(long)]
    benchmarks: bool,
    /// How much ager and benchmark write in turn: a number of blocks of 1 MiB, or a whole file.
    #[arg(long, value_parser = parse_interleave, default_value = "8", value_name = "N|file")]
    interleave: Interleave,
    /// The seed of everything random.
    #[arg(long, value_parser = count::<u64>, default_value = "1", value_name = "N")]
    seed: u64,
    /// Age this many simulated disks for each placement policy, with consecutive seeds from --seed on, and compare the
    /// policies.
    #[arg(long, value_parser = count::<u64>, default_value = "1", value_name = "N", requires = "simulate")]
    seeds: u64,
}

impl Ageing {
    /// The settings of the ageing, on a file system of this many bytes.
    fn course(&self, disk_bytes: u64, seed: u64) -> Result<CourseOptions, Error> {
        let target_bytes = match self.fill {
            Fill::Percent(percent) => (disk_bytes as f64 * percent / 100.0) as u64,
            Fill::Bytes(bytes) => bytes,
        };
        if target_bytes == 0 {
            return Err(Error::Usage("a fill of nothing: raise --fill, or name a larger file system".into()));
        }
        if target_bytes > disk_bytes {
            let (fill, disk) = (Bytes(target_bytes), Bytes(disk_bytes));
            return Err(Error::Usage(format!("a fill of {fill} on a file system of {disk}: lower --fill")));
        }
        if self.idle >= 100.0 {
            return Err(Error::Usage("--idle of 100 leaves no time to write: lower it".into()));
        }
        let ager = AgerOptions { size_factor: self.size_factor, ..AgerOptions::new(target_bytes, seed) };
        let bytes = self.bytes.unwrap_or(disk_bytes.saturating_mul(DEFAULT_DISKS_WRITTEN));
        // The benchmarks are scaled to the disk. With a fill in bytes, they are scaled to the disk of which that fill would be 70 %, so that file
        // systems of unequal size get the same benchmarks.
        let benchmarks_disk_bytes = match self.fill {
            Fill::Percent(_) => disk_bytes,
            Fill::Bytes(bytes) => (u128::from(bytes) * 10 / 7) as u64,
        };
        Ok(CourseOptions {
            ager,
            before_bytes: bytes,
            duty: Duty { idle_percent: self.idle, ..Duty::NONE },
            record_from_bytes: self.record_from,
            benchmarks: if self.benchmarks { paper_benchmarks(benchmarks_disk_bytes, seed) } else { Vec::new() },
            interleave: self.interleave,
            // Not reached with benchmarks, unless --until is given: the run ends with them.
            until_bytes: self.until.unwrap_or(if self.benchmarks { u64::MAX } else { bytes }),
            ends_with_benchmarks: self.until.is_none(),
            sample_bytes: self.sample.unwrap_or(bytes / DEFAULT_SAMPLES).max(1),
        })
    }
}

/// Fill of a file system.
#[derive(Clone, Copy)]
enum Fill {
    Percent(f64),
    Bytes(u64),
}

/// Parses a fill: a plain number is in percent, a number with a suffix is a size. A number below 1 is refused, because some tools take shares,
/// and as a percentage such a number would be nearly nothing.
fn parse_fill(text: &str) -> Result<Fill, Error> {
    if text.ends_with(|last: char| last.is_ascii_alphabetic()) {
        return parse_bytes(text).map(Fill::Bytes);
    }
    let percent = parse_percent(text)?;
    if percent > 0.0 && percent < 1.0 && !text.ends_with('%') {
        let meant = 100.0 * percent;
        return Err(Error::Usage(format!(
            "a fill of {text} is in percent: write {meant}, or {text}% if so little is meant"
        )));
    }
    Ok(Fill::Percent(percent))
}

fn parse_interleave(text: &str) -> Result<Interleave, Error> {
    match text {
        "file" => Ok(Interleave::WholeFile),
        blocks => match parse_count(blocks)? {
            0 => Err(Error::Usage("turns of 0 blocks: give 1 or more, or file".into())),
            blocks => Ok(Interleave::Blocks(blocks)),
        },
    }
}

/// The disk to simulate.
#[derive(Args)]
#[command(next_help_heading = "Simulation")]
struct Simulation {
    /// Simulate a disk of this model.
    #[arg(long, value_parser = one_of(&MODELS), value_name = "MODEL")]
    simulate: Option<Model>,
    /// The drive that determines the times of the simulated disk.
    #[arg(long, default_value = "wdc-2tb", requires = "simulate")]
    drive: String,
    /// Size of the shingled partition.
    #[arg(long, value_parser = parse_bytes, default_value = "100GB", value_name = "SIZE", requires = "simulate")]
    size: u64,
    /// Drive isolation distance: a write destroys data up to this far behind it, at higher addresses.
    #[arg(long, value_parser = parse_bytes, default_value = "1MiB", value_name = "SIZE", requires = "simulate")]
    did: u64,
    /// Drive prefix isolation distance: a second write of the same place destroys data up to this far before it.
    #[arg(long, value_parser = parse_bytes, default_value = "1MiB", value_name = "SIZE", requires = "simulate")]
    dpid: u64,
    /// Size of a band. Caveat-Scriptor has none.
    #[arg(long, value_parser = parse_bytes, default_value = "32MiB", value_name = "SIZE", requires = "simulate")]
    band: u64,
    /// Unit in which space is allocated. Coarser ones are faster to simulate.
    #[arg(long, value_parser = parse_bytes, default_value = "64KiB", value_name = "SIZE", requires = "simulate")]
    granule: u64,
    /// Placement policy on Caveat-Scriptor. Several are compared.
    #[arg(
        long, value_parser = Placement::from_str, value_delimiter = ',', default_value = "next-fit", requires = "simulate"
    )]
    placement: Vec<Placement>,
    /// Run Caveat-Scriptor's defragmenter. The paper's disk has none.
    #[arg(long, requires = "simulate")]
    defragment: bool,
}

impl Simulation {
    /// The disk to simulate, if one is, with each of the placement policies.
    fn worlds(&self) -> Result<Vec<World>, Error> {
        let Some(model) = self.simulate else { return Ok(Vec::new()) };
        if model == Model::StrictAppend && self.placement.len() > 1 {
            return Err(Error::Usage(
                "strict-append has no placement policies: compare those of --simulate caveat".into(),
            ));
        }
        if self.granule == 0 || self.granule > 1 << 20 || !(1u64 << 20).is_multiple_of(self.granule) {
            return Err(Error::Usage(format!("--granule {}: give a divisor of 1MiB, such as 64KiB", self.granule)));
        }
        let paper = World::paper(model, Drive::load(&self.drive)?);
        let world = World {
            disk_bytes: self.size,
            granule_bytes: self.granule,
            did_bytes: self.did,
            dpid_bytes: self.dpid,
            band_bytes: self.band,
            caveat: CaveatOptions { defragment: self.defragment, ..paper.caveat },
            ..paper
        };
        let placed =
            |&placement| World { caveat: CaveatOptions { placement, ..world.caveat.clone() }, ..world.clone() };
        Ok(self.placement.iter().map(placed).collect())
    }
}

/// An aged file system.
struct Aged<'a> {
    directory: Option<&'a Path>,
    /// The simulated disk, if no directory was aged.
    world: Option<&'a World>,
    /// The disk's shape; `None` for a directory that is not on an SMRfs of this user.
    shape: Option<Shape>,
    disk_bytes: u64,
    options: CourseOptions,
    result: AgeingResult,
    is_interrupted: bool,
}

impl Aged<'_> {
    /// The result for scripts.
    fn record(&self) -> Value {
        let (result, alone, ager) = (&self.result, &self.result.alone, &self.options.ager);
        let shape = self.shape.as_ref();
        let bytes = |granules: fn(&Shape) -> u64| shape.map(|shape| granules(shape) * shape.granule_bytes);
        let caveat = self.world.filter(|world| world.model == Model::Caveat).map(|world| &world.caveat);
        json!({
            "schema": 1,
            "version": VERSION,
            "commit": COMMIT,
            "interrupted": self.is_interrupted,
            "setting": {
                "directory": self.directory.map(|directory| directory.display().to_string()),
                "model": shape.map(|shape| shape.model),
                "drive": self.world.map(|world| &world.drive.name),
                "did_bytes": bytes(|shape| shape.did),
                "dpid_bytes": bytes(|shape| shape.dpid),
                "granule_bytes": bytes(|_| 1),
                "placement": caveat.map(|caveat| caveat.placement.name()),
                "disk_bytes": self.disk_bytes,
                "target_bytes": ager.target_bytes,
                "run_probability": ager.run_probability,
                "hours_per_s": ager.hours_per_s,
                "bytes_per_s": ager.bytes_per_s,
                "swing_percent": ager.swing_percent,
                "idle_percent": self.options.duty.idle_percent,
                "spell_ns": self.options.duty.spell.0,
                "size_factor": ager.size_factor,
                "size_max_bytes": ager.size_max_bytes,
                "interleave": self.options.interleave,
                "seed": ager.seed,
            },
            "end": result.end,
            "first_cleaning": result.first_cleaning,
            "benchmarks_begin": result.a,
            "benchmarks_end": result.b,
            "last": result.last,
            "ager": result.aged,
            // The ager's events while it ran alone. Their times include delays by cleaning.
            "alone": {
                "busy_ns": alone.busy.0,
                "cleaning_delay_ns": alone.delay.0,
                "cleaning_delay_ns_max": alone.longest_delay.0,
                "events_delayed": alone.delayed,
                "latency_ns": alone.latencies.all(),
            },
            "benchmarks": result.benchmarks.iter().map(benchmark_record).collect::<Vec<_>>(),
            "samples": result.samples,
        })
    }

    fn text(&self) -> String {
        let benchmarks = self.benchmarks().map_or(String::new(), |grid| format!("\n{}\n", grid.text()));
        self.summary().join("\n") + "\n" + &benchmarks
    }

    fn summary(&self) -> Vec<String> {
        let AgeingResult { last, aged, alone, .. } = &self.result;
        let bytes = |bytes: u64| format::bytes(bytes as f64);
        let place = match (self.directory, self.shape.map(|shape| shape.model)) {
            (Some(directory), _) => directory.display().to_string(),
            (None, Some(Model::Caveat)) => "Caveat-Scriptor, simulated".into(),
            (None, _) => "Strict-append, simulated".into(),
        };
        let begin_ns = self.result.samples.first().map_or(0, |first| first.time_ns);
        let mut lines = vec![
            format!(
                "{place}: {} written to {} as {} files, {} of them deleted, in {}.",
                bytes(last.written_bytes),
                bytes(self.disk_bytes),
                format::count(aged.created),
                format::count(aged.deleted),
                format::nanos(last.time_ns.saturating_sub(begin_ns))
            ),
            format!(
                "{} of files now, {} aimed at by the ager.",
                bytes(last.live_bytes),
                bytes(self.options.ager.target_bytes)
            ),
        ];
        if last.readable_bytes > 0 {
            lines.push(format!(
                "R {}, NW {}, WO {}, W {}; {} moved by the cleaner, {} bands reset.",
                bytes(last.readable_bytes),
                bytes(last.not_writable_bytes),
                bytes(last.write_once_bytes),
                bytes(last.writable_bytes),
                bytes(last.cleaned.moved_bytes),
                format::count(last.cleaned.resets)
            ));
        }
        lines.push(match self.result.first_cleaning {
            Some(Sample { time_ns, written_bytes, .. }) => {
                format!("Cleaned first after {} and {} written.", format::nanos(time_ns), bytes(written_bytes))
            }
            None if self.shape.is_some() => "Nothing was cleaned.".into(),
            None => "No SMRfs of this user: what it cleans is not known.".into(),
        });
        if alone.delayed > 0 {
            lines.push(format!(
                "Cleaning delayed {} of {} events while the ager was alone: {:.1} % of the time that they took, one by {}.",
                format::count(alone.delayed),
                format::count(alone.latencies.all().count),
                100.0 * alone.delay.as_secs() / alone.busy.as_secs(),
                format::nanos(alone.longest_delay.0)
            ));
        }
        match self.result.end {
            End::Full => lines.push("It ended with no room for a block.".into()),
            End::Stopped => lines.push("Interrupted: this is what there was.".into()),
            End::Done => {}
        }
        lines
    }

    /// The table of the benchmarks; `None` if none was run.
    fn benchmarks(&self) -> Option<Grid> {
        let columns: [Column<&BenchmarkResult>; 9] = [
            ("benchmark", |measured| measured.benchmark.name().into()),
            ("read MB/s", |measured| format::short(measured.bytes_per_s().0 / 1e6)),
            ("written MB/s", |measured| format::short(measured.bytes_per_s().1 / 1e6)),
            ("events", |measured| format::count(measured.record.latencies.all().count)),
            ("mean", |measured| format::nanos(measured.record.latencies.all().mean_ns)),
            ("p99", |measured| format::nanos(measured.record.latencies.all().p99_ns)),
            ("longest", |measured| format::nanos(measured.record.latencies.all().max_ns)),
            ("longest of", |measured| {
                let longest_ns = |kind: &EventKind| measured.record.latencies.for_kind(*kind).max_ns;
                EventKind::ALL.into_iter().max_by_key(longest_ns).map_or(format::NONE.into(), |kind| kind.name().into())
            }),
            ("moved", |measured| format::bytes(measured.moved_bytes as f64)),
        ];
        Grid::of_items(self.result.benchmarks.iter(), &columns).unless_empty()
    }
}

fn benchmark_record(measured: &BenchmarkResult) -> Value {
    let record = &measured.record;
    let mut latency_ns = json!({"all": record.latencies.all()});
    for kind in EventKind::ALL {
        latency_ns[kind.name()] = json!(record.latencies.for_kind(kind));
    }
    json!({
        "name": measured.benchmark.name(),
        "elapsed_ns": record.end.since(record.begin).0,
        "read_bytes": record.read_bytes,
        "written_bytes": record.written_bytes,
        "moved_bytes": measured.moved_bytes,
        "kept_bytes": measured.kept_bytes,
        "reading_ns": record.reading.0,
        "writing_ns": record.writing.0,
        "latency_ns": latency_ns,
    })
}

/// A disk that has aged under one placement policy.
#[derive(Clone, Debug, Serialize)]
struct PolicyRun {
    placement: &'static str,
    seed: u64,
    /// Bytes written and moved for each byte written.
    write_amplification: f64,
    /// The longest time for which cleaning delayed an event.
    longest_stall_s: f64,
    /// Room that can be written without cleaning, in percent of the disk.
    writable_percent: f64,
    /// True if it ended with no room for a block.
    is_full: bool,
}

impl PolicyRun {
    fn new(world: &World, seed: u64, aged: &AgeingResult) -> PolicyRun {
        let last = &aged.last;
        let written_bytes = last.written_bytes.max(1) as f64;
        PolicyRun {
            placement: world.caveat.placement.name(),
            seed,
            write_amplification: (written_bytes + last.cleaned.moved_bytes as f64) / written_bytes,
            longest_stall_s: aged.alone.longest_delay.as_secs(),
            writable_percent: 100.0 * (last.writable_bytes + last.write_once_bytes) as f64 / world.disk_bytes as f64,
            is_full: aged.end == End::Full,
        }
    }
}

type Measure = fn(&PolicyRun) -> f64;

/// The numbers by which policies are compared, with their names.
const COMPARED: [(&str, Measure); 3] = [
    ("moved (% of written)", |run| 100.0 * (run.write_amplification - 1.0)),
    ("longest stall (s)", |run| run.longest_stall_s),
    ("writable at once (%)", |run| run.writable_percent),
];

/// The runs of each policy, in the order of the policies.
fn by_placement(runs: &[PolicyRun]) -> Vec<(&'static str, Vec<&PolicyRun>)> {
    let mut policies: Vec<(&str, Vec<&PolicyRun>)> = Vec::new();
    for run in runs {
        match policies.iter_mut().find(|(placement, _)| *placement == run.placement) {
            Some((_, runs)) => runs.push(run),
            None => policies.push((run.placement, vec![run])),
        }
    }
    policies
}

fn policies_table(runs: &[PolicyRun]) -> Grid {
    let [moved, stall, writable] = COMPARED.map(|(name, _)| name);
    let mut grid = Grid::new(["placement", "disks", "full", moved, stall, writable]);
    for (placement, runs) in by_placement(runs) {
        let full = runs.iter().filter(|run| run.is_full).count();
        let mut cells = vec![placement.to_string(), runs.len().to_string(), full.to_string()];
        for (_, number) in COMPARED {
            let spread = Spread::new(runs.iter().map(|run| number(run)));
            cells.extend(spread.map(|spread| spread.text(1.0)));
        }
        grid.rows.push(cells);
    }
    grid
}

/// Sentences on how each policy differs from the first. Runs are compared seed by seed, because both policies then place the same files.
fn differences(runs: &[PolicyRun]) -> Vec<String> {
    let policies = by_placement(runs);
    let Some(((first, first_runs), others)) = policies.split_first() else { return Vec::new() };
    let mut sentences = Vec::new();
    for (other, runs) in others {
        let mut differences = Vec::new();
        for (name, number) in COMPARED {
            let beside_partner = |run: &&PolicyRun| {
                let partner = first_runs.iter().find(|partner| partner.seed == run.seed)?;
                Some(number(run) - number(partner))
            };
            let Some(spread) = Spread::new(runs.iter().filter_map(beside_partner)) else { continue };
            let more = if spread.mean > 0.0 { "higher" } else { "lower" };
            let size = Spread { mean: spread.mean.abs(), ..spread };
            // Told apart if the interval excludes zero.
            differences.push(match size.mean > size.half && size.n > 1 {
                true => format!("{name} {more} by {}", size.text(1.0)),
                false => format!("{name} not told apart"),
            });
        }
        sentences.push(format!("{other} beside {first}, seed by seed: {}.", differences.join("; ")));
    }
    sentences
}

fn policies_text(runs: &[PolicyRun]) -> String {
    let mut lines = vec![policies_table(runs).text()];
    lines.extend(differences(runs));
    lines.push("Means and their 95 % confidence intervals over seeds.\n".into());
    lines.join("\n")
}

fn policies_record(runs: &[PolicyRun], is_interrupted: bool) -> Value {
    json!({
        "schema": 1,
        "version": VERSION,
        "commit": COMMIT,
        "interrupted": is_interrupted,
        "runs": runs,
        "differences": differences(runs),
    })
}

#[cfg(test)]
#[path = "../../tests/units/age_options.rs"]
mod tests;
