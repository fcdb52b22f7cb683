//! `smrkit completions`: what a shell needs to complete commands and options.

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::Shell;
use smrkit::{drive, layer, workload};
use smrkit_advise::uses::USES;

use crate::exit::Done;
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  smrkit completions bash > ~/.local/share/bash-completion/completions/smrkit
  smrkit completions zsh > ~/.zfunc/_smrkit
  smrkit completions fish > ~/.config/fish/completions/smrkit.fish";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    pub fn execute(self, whole: Command) -> anyhow::Result<Done> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut with_names(whole), "smrkit", &mut script);
        print(String::from_utf8_lossy(&script))?;
        Ok(Done::All)
    }
}

/// The command with known names as possible values, for shell completions only: as a parser, it would refuse paths, models and
/// `name:key=value`.
fn with_names(whole: Command) -> Command {
    whole.mut_subcommands(|command| {
        command.mut_args(|argument| {
            let names: Vec<&str> = match argument.get_id().as_str() {
                "drive" => drive::DRIVES.iter().map(|(name, _)| *name).collect(),
                "layer" => layer::named().iter().map(|spec| spec.name).collect(),
                "workload" => workload::WORKLOADS.iter().map(|workload| workload.name).collect(),
                "use" => USES.iter().map(|one| one.name).collect(),
                _ => return argument,
            };
            argument.value_parser(PossibleValuesParser::new(names))
        })
    })
}
