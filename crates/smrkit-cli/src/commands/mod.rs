//! The subcommands.

mod advise;
mod age;
mod backup;
mod defragment;
mod df;
mod drives;
mod fsck;
mod layers;
mod mkfs;
mod mount;
mod mounts;
mod reproduce;
mod run;
mod sync;
mod top;
mod trace;
mod umount;
mod volume;

use clap::Subcommand;

pub use mount::helper;

use crate::exit::Done;

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "made once a process")]
pub enum Command {
    /// Replay a trace or a workload on one or more layers, compare, explain.
    Run(run::Run),
    /// Say when the cache fills, what remains, how long the worst wait is, and what would fix it.
    Advise(advise::Advise),
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
    /// Make a file system: an image of a shingled disk, and its metadata directory.
    Mkfs(mkfs::Mkfs),
    /// Check a file system that is not mounted, and repair it.
    Fsck(fsck::Fsck),
    /// What is on a shingled disk: space, bands, a picture of its surface.
    Df(df::Df),
    /// Mount an SMRfs image.
    Mount(mount::Mount),
    /// List what this user has mounted.
    Mounts(mounts::Mounts),
    /// Unmount it, and wait until all is durable.
    Umount(umount::Umount),
    /// Make durable all that has been written on a mount.
    Sync(sync::Sync),
    /// Copy a volume as it is at one moment, mounted or not.
    Backup(backup::Backup),
    /// Make a volume of a backup.
    Restore(backup::Restore),
    /// Watch a mount: host, cleaner, stalls, amplification.
    Top(top::Top),
    /// Move the data of files on a mount into as few extents as possible.
    Defragment(defragment::Defragment),
}

impl Command {
    pub fn execute(self) -> anyhow::Result<Done> {
        match self {
            Command::Run(command) => command.execute(),
            Command::Advise(command) => command.execute(),
            Command::Reproduce(command) => command.execute(),
            Command::Trace(command) => command.execute(),
            Command::Layers(command) => command.execute(),
            Command::Drives(command) => command.execute(),
            Command::Age(command) => command.execute(),
            Command::Mkfs(command) => command.execute(),
            Command::Fsck(command) => command.execute(),
            Command::Df(command) => command.execute(),
            Command::Mount(command) => command.execute(),
            Command::Mounts(command) => command.execute(),
            Command::Umount(command) => command.execute(),
            Command::Sync(command) => command.execute(),
            Command::Backup(command) => command.execute(),
            Command::Restore(command) => command.execute(),
            Command::Top(command) => command.execute(),
            Command::Defragment(command) => command.execute(),
        }
    }
}
