//! What is made of the definition of the command line: `smrkit completions` and `smrkit man`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man as Page;
use smrkit::error::Error;
use smrkit::{drive, layer, workload};
use smrkit_advise::uses::USES;
use smrkit_trace::FORMATS;

use crate::output::print;

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit completions bash > ~/.local/share/bash-completion/completions/smrkit
  smrkit completions zsh > ~/.zfunc/_smrkit
  smrkit completions fish > ~/.config/fish/completions/smrkit.fish")]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    pub fn execute(self, whole: Command) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut with_names(whole, ""), "smrkit", &mut script);
        print(String::from_utf8_lossy(&script))
    }
}

/// The command with known names as possible values, for shell completions only: as a parser, it would refuse paths, models and
/// `name:key=value`. `group` is the command that it belongs to.
fn with_names(command: Command, group: &str) -> Command {
    let own = command.get_name().to_string();
    let command = command.mut_args(|argument| {
        let names: Vec<&str> = match (group, argument.get_id().as_str()) {
            (_, "drive") | ("drives", "name") => drive::DRIVES.iter().map(|(name, _)| *name).collect(),
            (_, "layer") | ("layers", "name") => layer::named().iter().map(|spec| spec.name).collect(),
            (_, "workload") => workload::WORKLOADS.iter().map(|workload| workload.name).collect(),
            (_, "use") => USES.iter().map(|one| one.name).collect(),
            // That of `results` has values of its own.
            (_, "format") if argument.get_possible_values().is_empty() => {
                FORMATS.iter().map(|format| format.name).collect()
            }
            _ => return argument,
        };
        argument.value_parser(PossibleValuesParser::new(names))
    });
    command.mut_subcommands(|command| with_names(command, &own))
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  smrkit man ~/.local/share/man/man1     pages of all commands, for man smrkit-advise"
)]
pub struct Man {
    /// Write the pages of smrkit and of each command into this folder; without, that of smrkit goes to standard output.
    folder: Option<PathBuf>,
}

impl Man {
    pub fn execute(self, whole: Command) -> anyhow::Result<()> {
        let Some(folder) = self.folder else {
            let mut page = Vec::new();
            Page::new(whole).render(&mut page)?;
            return print(String::from_utf8_lossy(&page));
        };
        std::fs::create_dir_all(&folder).map_err(|error| Error::writing(&folder, error))?;
        clap_mangen::generate_to(whole, folder)?;
        Ok(())
    }
}
