//! `smrkit age`: fills a file system and lets it grow old, on a mount or in simulation; benchmarks alongside if asked for.

mod options;
mod result;

use std::path::PathBuf;

use clap::Args;
use smrfs::age::AgeingResult;
use smrfs::workload::Target;
use smrkit::error::Error;
use smrkit::experiment::pool;
use smrkit::quantity::parse_bytes;
use smrkit_live::workplace::Workplace;
use smrkit_options::COMMIT;

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{OutputOptions, pretty};
use options::{Ageing, Simulation};
use result::Aged;

const EXAMPLES: &str = "\
Examples:
  smrkit age /mnt/smrfs --bytes 10GB                      on a mounted file system, in a folder of its own there
  smrkit age /mnt/ext4 --any-directory 10GB               to compare: 10 GB of another file system
  smrkit age --simulate caveat                            the paper's 100 GB disk, 800 GB written, in seconds
  smrkit age --simulate strict-append --size 10GB --benchmarks --report aged.html
  smrkit age --simulate caveat --sizes sizes.csv --did 3MiB --placement adjacent

Sizes and ages are read from lines of value,cumulative_percent; values in MB and days. An interrupt keeps what there is.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Age {
    /// A directory of the mounted SMRfs to age.
    #[arg(conflicts_with = "simulate")]
    directory: Option<PathBuf>,
    /// Take a directory of any file system, and this many bytes of it as the file system to age.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "directory")]
    any_directory: Option<u64>,
    #[command(flatten)]
    simulation: Simulation,
    #[command(flatten)]
    ageing: Ageing,
    #[command(flatten)]
    outputs: OutputOptions,
}

impl Age {
    pub fn execute(self) -> anyhow::Result<Done> {
        let world = self.simulation.world()?;
        let disk_bytes = match (&world, &self.directory) {
            (Some(world), _) => world.disk_bytes,
            (None, Some(directory)) => self.any_directory.unwrap_or(Workplace::room_of(directory)?.0),
            (None, None) => return Err(Error::Usage("name a directory, or --simulate a model".into()).into()),
        };
        let course = self.ageing.course(disk_bytes)?;
        let outputs = self.outputs.open()?;
        let (mut target, shape): (Box<dyn Target>, _) = match (&world, &self.directory) {
            (Some(world), _) => (Box::new(world.mount()?), Some(world.shape())),
            (None, directory) => {
                let place =
                    Workplace::new(directory.as_deref().unwrap_or(".".as_ref()), self.any_directory, course.ager.seed)?;
                let shape = place.shape();
                (Box::new(place), shape)
            }
        };
        let interrupt = Interrupt::watch();
        let made = pool::make_one(&interrupt, "ageing", |watch| {
            AgeingResult::run(&course, &mut *target, &mut |share| watch.is_at(share)).map_err(Error::from)
        })?;
        let name = self.directory.as_ref().map(|directory| directory.display().to_string());
        let aged = Aged::new(name, (world.as_ref(), shape.as_ref()), disk_bytes, &course, made, interrupt.is_set());
        outputs.write(|| aged.text(), || pretty(&aged.record(COMMIT)), || aged.page())?;
        Ok(if interrupt.is_set() { Done::Interrupted } else { Done::All })
    }
}
