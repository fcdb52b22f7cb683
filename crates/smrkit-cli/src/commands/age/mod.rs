//! `smrkit age`: fills a file system and lets it grow old, on a mount or in simulation; benchmarks alongside if asked for.

mod options;
mod policies;
mod result;

use std::path::PathBuf;

use clap::Args;
use smrfs::age::AgeingResult;
use smrfs::age::world::World;
use smrfs::workload::Target;
use smrkit::error::Error;
use smrkit::experiment::pool;
use smrkit::quantity::parse_bytes;
use smrkit_live::workplace::Workplace;
use smrkit_options::COMMIT;

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{OutputOptions, Outputs, pretty};
use options::{Ageing, Simulation};
use policies::{Policies, PolicyRun};
use result::Aged;

const EXAMPLES: &str = "\
Examples:
  smrkit age /mnt/smrfs --bytes 10GB                      on a mounted file system, in a folder of its own there
  smrkit age /mnt/ext4 --any-directory 10GB               to compare: 10 GB of another file system
  smrkit age --simulate caveat                            the paper's 100 GB disk, 800 GB written, in seconds
  smrkit age --simulate strict-append --size 10GB --benchmarks --report aged.html
  smrkit age --simulate caveat --did 3MiB --placement adjacent
  smrkit age --simulate caveat --size 4GB --placement next-fit,adjacent --seeds 10     which policy is better

An interrupt keeps what there is.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
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
    #[command(flatten)]
    outputs: OutputOptions,
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
        let course = self.ageing.course(disk_bytes, self.ageing.seed)?;
        let outputs = self.outputs.open()?;
        if worlds.len() > 1 || self.ageing.seeds > 1 {
            return self.compare(&worlds, outputs);
        }
        let world = worlds.first();
        let (mut target, shape): (Box<dyn Target>, _) = match (world, &self.directory) {
            (Some(world), _) => (Box::new(world.mount()?), Some(world.shape())),
            // Without a world there is a directory: see above.
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
        let aged = Aged::new(name, (world, shape.as_ref()), disk_bytes, &course, made, interrupt.is_set());
        outputs.write(|| aged.text(), || pretty(&aged.record(COMMIT)), || aged.page())?;
        Ok(if interrupt.is_set() { Done::Interrupted } else { Done::All })
    }

    /// Ages a disk for each world and seed. Every policy meets the same files, so that they are compared seed by seed.
    fn compare(&self, worlds: &[World], outputs: Outputs) -> anyhow::Result<Done> {
        let seeds = self.ageing.seed..self.ageing.seed.saturating_add(self.ageing.seeds);
        let jobs: Vec<(&World, u64)> = seeds.flat_map(|seed| worlds.iter().map(move |world| (world, seed))).collect();
        let interrupt = Interrupt::watch();
        let made = pool::make_all(&jobs, &interrupt, "ageing", |_, (world, seed), mut watch| {
            let course = self.ageing.course(world.disk_bytes, *seed)?;
            let aged = AgeingResult::run(&course, &mut world.mount()?, &mut |share| watch.is_at(share))?;
            Ok(PolicyRun::new(world, *seed, &aged))
        });
        let runs: Vec<PolicyRun> = made.into_iter().filter_map(Result::transpose).collect::<Result<_, Error>>()?;
        let compared = Policies { runs, interrupted: interrupt.is_set() };
        outputs.write(|| compared.text(), || pretty(&compared.record(COMMIT)), || compared.page())?;
        Ok(if interrupt.is_set() { Done::Interrupted } else { Done::All })
    }
}
