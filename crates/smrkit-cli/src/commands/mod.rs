//! The subcommands.

mod age;
mod drives;
mod layers;
mod reproduce;
mod run;
mod trace;

use clap::Subcommand;

use crate::exit::Done;

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "made once a process")]
pub enum Command {
    /// Replay a trace or a workload on one or more layers, compare, explain.
    Run(run::Run),
    /// Reproduce a paper's figures and tables, its numbers beside ours.
    Reproduce(reproduce::Reproduce),
    /// Look at traces, or convert them.
    Trace(trace::Trace),
    /// List the translation layers, or show one.
    Layers(layers::Layers),
    /// List the drives, or show one.
    Drives(drives::Drives),
    /// Age a file system, on a mount or in simulation.
    Age(age::Age),
}

impl Command {
    pub fn execute(self) -> anyhow::Result<Done> {
        match self {
            Command::Run(command) => command.execute(),
            Command::Reproduce(command) => command.execute(),
            Command::Trace(command) => command.execute(),
            Command::Layers(command) => command.execute(),
            Command::Drives(command) => command.execute(),
            Command::Age(command) => command.execute(),
        }
    }
}
