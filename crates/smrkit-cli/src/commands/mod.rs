//! The subcommands.

mod advise;
mod age;
mod attach;
mod create;
mod df;
mod drive_image;
mod drives;
mod fleet;
mod fsck;
mod layers;
mod mkfs;
mod manual;
mod mount;
mod mounted;
mod report;
mod reproduce;
mod results;
mod run;
mod serve;
mod sweep;
mod trace;
mod volume;
mod web;

use clap::Subcommand;

pub use mount::help;

use crate::exit::Done;

/// Defines the enum of all commands, and executes them. A command with `{ whole }` gets the definition of the whole command line, of which it
/// makes completions or manual pages.
macro_rules! commands {
    ($($(#[$about:meta])* $name:ident($command:ty) $({ $whole:ident })?,)+) => {
        #[derive(Subcommand)]
        #[allow(clippy::large_enum_variant, reason = "made once a process")]
        pub enum Command {
            $($(#[$about])* $name($command),)+
        }

        impl Command {
            pub fn execute(self, _whole: fn() -> clap::Command) -> anyhow::Result<Done> {
                match self {
                    $(Command::$name(command) => command.execute($({ let $whole = _whole(); $whole })?).map(Done::from),)+
                }
            }
        }
    };
}

commands! {
    /// Replay a trace or a workload on one or more layers, compare, explain.
    Run(run::RunCommand),
    /// Many runs into a store: lists of options, each comparison computed once.
    Sweep(sweep::Sweep),
    /// Tables of what sweeps computed.
    Results(results::Results),
    /// Tables and a page of runs that were recorded.
    Report(report::Report),
    /// Will this drive or array cope with your load, and what to change if not.
    Advise(advise::Advise),
    /// Open the page that answers in a browser.
    Web(web::Web),
    /// How long many drives take to be repaired, and how likely they lose data.
    Fleet(fleet::Fleet),
    /// Reproduce a paper's figures and tables, its numbers next to ours.
    Reproduce(reproduce::Reproduce),
    /// Look at traces, or convert them.
    Trace(trace::Trace),
    /// List the translation layers, or show one.
    Layers(layers::Layers),
    /// List the drives, or show one.
    Drives(drives::Drives),
    /// Age a file system, on a mount or in simulation.
    Age(age::Age),
    /// Make the image of a drive, to be served as a block device.
    Create(create::Create),
    /// Copy the image of a drive, with the drive's state.
    Snapshot(drive_image::Snapshot),
    /// Serve a drive as a block device, over NBD.
    Serve(serve::Serve),
    /// Present a drive as a file, or for root as a loop device.
    Attach(attach::Attach),
    /// Take an attached drive away, and wait until all is durable.
    Detach(attach::Detach),
    /// Inject a fault into a served drive, or let its time pass.
    Inject(drive_image::Inject),
    /// Serve the log of a served drive once more in the simulator, and compare the times.
    Replay(drive_image::Replay),
    /// Make a file system: an image of a shingled disk, and its metadata directory.
    Mkfs(mkfs::Mkfs),
    /// Check a file system that is not mounted, and repair it.
    Fsck(fsck::Fsck),
    /// Use of a shingled disk: space and bands.
    Df(df::Df),
    /// Mount an SMRfs image.
    Mount(mount::Mount),
    /// List what this user has mounted.
    Mounts(mounted::Mounts),
    /// Unmount it, and wait until all is durable.
    Umount(mounted::Umount),
    /// Make durable all that has been written on a mount.
    Sync(mounted::Sync),
    /// Copy a volume as it is at one moment, mounted or not.
    Backup(volume::Backup),
    /// Make a volume of a backup.
    Restore(volume::Restore),
    /// Watch a mount: host, cleaner, stalls, amplification.
    Top(mounted::Top),
    /// Read all data on a mount, and name the files of which some can't be read.
    Scrub(mounted::Scrub),
    /// Print completions for a shell.
    Completions(manual::Completions) { whole },
    /// Print the manual page of smrkit, or write those of all commands.
    Man(manual::Man) { whole },
}
