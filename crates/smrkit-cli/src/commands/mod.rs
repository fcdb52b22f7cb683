//! The subcommands.

mod df;
mod drives;
mod fsck;
mod layers;
mod mkfs;
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
    /// Make a file system: an image of a shingled disk, and its metadata directory.
    Mkfs(mkfs::Mkfs),
    /// Check a file system that is not mounted, and repair it.
    Fsck(fsck::Fsck),
    /// What is on a shingled disk: space, bands, a picture of its surface.
    Df(df::Df),
}

impl Command {
    pub fn execute(self) -> anyhow::Result<Done> {
        match self {
            Command::Run(command) => command.execute(),
            Command::Reproduce(command) => command.execute(),
            Command::Trace(command) => command.execute(),
            Command::Layers(command) => command.execute(),
            Command::Drives(command) => command.execute(),
            Command::Mkfs(command) => command.execute(),
            Command::Fsck(command) => command.execute(),
            Command::Df(command) => command.execute(),
        }
    }
}
