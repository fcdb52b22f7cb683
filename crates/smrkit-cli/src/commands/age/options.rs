//! Options of `smrkit age`: the ageing, and the disk to simulate.

use std::str::FromStr;

use clap::Args;
use smrfs::age::world::World;
use smrfs::age::{AgerOptions, CourseOptions, Duty, paper_benchmarks};
use smrfs::device::Model;
use smrfs::space::caveat::{CaveatOptions, Placement};
use smrfs::workload::driver::Interleave;
use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::quantity::{Bytes, parse_bytes, parse_count, parse_duration, parse_number, parse_percent};
use smrkit::units::Nanos;

use smrkit_options::value::count;

use crate::commands::mkfs::ModelName;

/// Options of the ageing.
#[derive(Args)]
#[command(next_help_heading = "Ageing")]
pub struct Ageing {
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
    /// End after this time. In simulation it is that of the model's clock.
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    duration: Option<Nanos>,
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
    pub seed: u64,
    /// Age this many simulated disks for each placement policy, with consecutive seeds from --seed on, and compare the
    /// policies.
    #[arg(long, value_parser = count::<u64>, default_value = "1", value_name = "N", requires = "simulate")]
    pub seeds: u64,
}

impl Ageing {
    /// The settings of the ageing, on a file system of this many bytes.
    pub fn course(&self, disk_bytes: u64, seed: u64) -> Result<CourseOptions, Error> {
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
        let bytes = self.bytes.unwrap_or(disk_bytes.saturating_mul(8));
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
            until_bytes: self.until.unwrap_or(if self.benchmarks { u64::MAX } else { bytes }),
            until_time: self.duration,
            stop_at_b: self.until.is_none(),
            sample_bytes: self.sample.unwrap_or(bytes / 500).max(1),
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
pub struct Simulation {
    /// Simulate a disk of this model.
    #[arg(long, value_enum, value_name = "MODEL")]
    simulate: Option<ModelName>,
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
    pub fn worlds(&self) -> Result<Vec<World>, Error> {
        let Some(model) = self.simulate else { return Ok(Vec::new()) };
        if Model::from(model) == Model::StrictAppend && self.placement.len() > 1 {
            return Err(Error::Usage(
                "strict-append has no placement policies: compare those of --simulate caveat".into(),
            ));
        }
        if self.granule == 0 || self.granule > 1 << 20 || !(1u64 << 20).is_multiple_of(self.granule) {
            return Err(Error::Usage(format!("--granule {}: give a divisor of 1MiB, such as 64KiB", self.granule)));
        }
        let paper = World::paper(model.into(), Drive::load(&self.drive)?);
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

#[cfg(test)]
#[path = "../../../tests/units/age_options.rs"]
mod tests;
