//! `smrkit man`: manual pages, made of the same text as `--help`.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man as Page;
use smrkit::error::Error;

use crate::exit::Done;
use crate::output::print;

#[derive(Args)]
#[command(
    after_help = "Example:\n  smrkit man ~/.local/share/man/man1     pages of all commands, for man smrkit-advise"
)]
pub struct Man {
    /// Write the pages of smrkit and of each command into this folder; without, that of smrkit goes to standard output.
    folder: Option<PathBuf>,
}

impl Man {
    pub fn execute(self, whole: Command) -> anyhow::Result<Done> {
        let Some(folder) = self.folder else {
            let mut page = Vec::new();
            Page::new(whole).render(&mut page)?;
            print(String::from_utf8_lossy(&page))?;
            return Ok(Done::All);
        };
        std::fs::create_dir_all(&folder).map_err(|error| Error::writing(&folder, error))?;
        clap_mangen::generate_to(whole, folder)?;
        Ok(Done::All)
    }
}
