//! Kadekodi, Pimpale & Gibson, "Caveat-Scriptor: Write Anywhere Shingled Disks", CMU-PDL-15-101, 2015. Its distributions and
//! its figure 5 were at hand without numbers, so that shapes are compared.

mod common;
mod distributions;
mod figure4;
mod figure5;
mod idle;
mod mounted;
pub mod plan;
mod replay;
mod table;

use smrfs::age::course::{CourseOptions, PAPER_DISK_BYTES};
use smrkit::drive::Drive;
use smrkit::error::Error;

use crate::{Item, Reproduction, Scale};
use common::{MODELS, SeedPair, world};
use plan::CoursePlan;

pub const REPRODUCTION: Reproduction = Reproduction {
    name: "caveat",
    paper: "Kadekodi, Pimpale & Gibson 2015: Caveat-Scriptor",
    summary: "Figures 2 to 5, when Caveat-Scriptor runs out of space, and how much of the cleaning idle time hides.",
    before: "File systems are aged from new.",
    items,
    open,
};

/// The paper's disk.
const DRIVE: &str = "wdc-2tb";

fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let drive = Drive::load(DRIVE)?;
    Ok(vec![
        replay::item()?,
        distributions::item(scale),
        courses(scale, &drive),
        mounted::item(scale, &drive)?,
        table::item(scale, &drive),
        idle::item(scale, &drive),
    ])
}

/// Figures 4 and 5: both models, the first seed to the end, and further ones up to B (with --quick one, up to B).
fn courses(scale: &Scale, drive: &Drive) -> Item {
    let seeds: Vec<u64> = scale.seeds(3, 1).collect();
    let of_seed = |(i, &seed): (usize, &u64)| {
        let course = CourseOptions { stop_at_b: scale.quick || i > 0, ..CourseOptions::paper(PAPER_DISK_BYTES, seed) };
        MODELS.map(|model| CoursePlan { world: world(drive, model), course: course.clone() })
    };
    let plans = seeds.iter().enumerate().flat_map(of_seed).collect();
    Item::of_courses("Figures 4 and 5", plans, move |courses| {
        let pairs = SeedPair::all(courses, &seeds);
        vec![
            ("Figure 4: space over time", figure4::shown(&pairs)),
            ("Figure 5: latency and throughput", figure5::shown(&pairs)),
        ]
    })
}

/// Questions that the paper leaves open or contradicts.
fn open() -> Result<Vec<String>, Error> {
    Ok(texts![
        "The two distributions are curves without numbers: sizes and ages are reconstructions, of means 168 MB and 229 days. \
         Results hang on the sizes (the table shows how much), and hardly on the ages.",
        "\"1 sec = 6.08 hrs\" and 24 minutes a year fix the ages; by what clock, the paper does not say. Here it counts bytes \
         written, 71 MB/s, so that both models follow one sequence.",
        "What the benchmarks write is not given: Postmark has 500 files and 5,000 transactions, Filebench 250 files and 3,000 \
         rounds, so that the two sets that stay are the 4.5 GB.",
        "\"Half its normal speed\": the ager moves a byte for each byte of the benchmark. How finely the two interleave is \
         not given and decides when Caveat-Scriptor runs out.",
        "When a band without data is reset is not said. With lazy resets, by cleaning events alone, the log fills to 95 % as \
         in figure 4; with eager ones it stays near 80 %. Lazy is taken; an event of 128 MB examines four bands.",
        "Whether the disk's write cache was on is not said. It is off here: an acknowledged block is on the platters, in the \
         order that the safety rule counts on; the rate is then the paper's.",
        "\"Most recent write before the oldest write\" of a run makes a region WO or NW as a whole; sector by sector some of \
         an NW region is WO. The figures use the rule by LBA; both are offered.",
    ])
}
