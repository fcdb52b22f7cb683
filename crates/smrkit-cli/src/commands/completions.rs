//! `smrkit completions`: what a shell needs to complete commands and options.

use clap::{Args, Command};
use clap_complete::Shell;

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
    pub fn execute(self, mut whole: Command) -> anyhow::Result<Done> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut whole, "smrkit", &mut script);
        print(String::from_utf8_lossy(&script))?;
        Ok(Done::All)
    }
}
