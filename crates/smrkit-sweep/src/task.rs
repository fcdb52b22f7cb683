//! Tasks: each computes one comparison of a sweep by itself.

use serde::{Deserialize, Serialize};
use smrkit::error::Error;
use smrkit::experiment::comparison::RunRecorders;
use smrkit::experiment::pool::Monitor;
use smrkit_options::pairs::{self, Pair};
use smrkit_options::run::RunOptions;

use crate::store::{FileHashes, Store, check_program, key, program};

/// A comparison to compute. As JSON, it can be sent to another machine that has the same files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The key of its results in the store.
    pub key: String,
    /// The program that planned it. Another one must not compute it: its numbers could differ under the same key.
    program: String,
    options: Vec<Pair>,
    /// Number of its runs.
    pub runs: usize,
}

/// Options in words, for messages.
fn words(options: &[Pair]) -> String {
    options.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

fn read(options: &[Pair]) -> Result<RunOptions, Error> {
    pairs::read(options, &|name| name.replace('-', "_"))
}

impl Task {
    /// Plans a comparison. Errors: options that are invalid, alone or together.
    pub fn plan(options: &[Pair], contents: &mut FileHashes) -> Result<Task, Error> {
        let mut plan = || {
            let runs = read(options)?.ask()?.systems.count();
            Ok(Task { key: key(options, contents)?, program: program(options)?, options: options.to_vec(), runs })
        };
        plan().map_err(|error: Error| error.about(words(options)))
    }

    /// Computes its runs, `threads` at once, and stores them. Returns their number; `None` after an interrupt.
    pub fn compute(&self, store: &Store, monitor: &dyn Monitor, threads: usize) -> Result<Option<usize>, Error> {
        if !monitor.goes_on() {
            return Ok(None);
        }
        check_program(&self.program, &self.options)?;
        let compute = || {
            let options = read(&self.options)?;
            let asked = options.ask()?;
            let demand = asked.demand()?;
            let (experiment, systems) = asked.on(demand);
            let within = Within { monitor, threads };
            let compared = experiment.compare_watched(&systems, &within, RunRecorders::default())?;
            if !compared.complete {
                return Ok(None);
            }
            store.write(&self.key, &compared.outcomes.runs)?;
            Ok(Some(compared.outcomes.runs.len()))
        };
        compute().map_err(|error: Error| error.about(words(&self.options)))
    }
}

/// The monitor of the runs of one task, with the task's number of threads.
struct Within<'a> {
    monitor: &'a dyn Monitor,
    threads: usize,
}

impl Monitor for Within<'_> {
    fn goes_on(&self) -> bool {
        self.monitor.goes_on()
    }

    fn commit(&self) -> Option<&str> {
        self.monitor.commit()
    }

    fn threads(&self) -> usize {
        self.threads
    }
}

#[cfg(test)]
mod tests;
