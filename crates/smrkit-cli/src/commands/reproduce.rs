//! `smrkit reproduce`: a paper's figures and tables, its numbers beside ours.

use std::path::PathBuf;

use clap::Args;

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{JsonTarget, print};
use crate::report::figures::{self, Format};
use crate::report::target::{Folder, Target};
use crate::reproduce::study::Study;
use crate::reproduce::{REPRODUCTIONS, Scale, find};

const EXAMPLES: &str = "\
Examples:
  smrkit reproduce cassuto-cache --quick
  smrkit reproduce cassuto-cache --report cassuto.html --json cassuto.json

The exit code is 0 also where numbers differ from the paper's: the rows say why.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Reproduce {
    #[arg(help = known())]
    name: String,
    /// Shorter runs and fewer seeds: seconds instead of minutes, rougher verdicts.
    #[arg(long)]
    quick: bool,
    /// Write the rows as JSON; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    json: Option<PathBuf>,
    /// Write one HTML page that opens offline.
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
    /// Write the figures into this directory.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// The figures' format.
    #[arg(long, value_enum, default_value_t)]
    figure_format: Format,
    /// The first seed; where several are run, those after it follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The names that there are.
fn known() -> String {
    let names: Vec<&str> = REPRODUCTIONS.iter().map(|reproduction| reproduction.name).collect();
    format!("What to reproduce: {}, or all", names.join(", "))
}

impl Reproduce {
    pub fn execute(self) -> anyhow::Result<Done> {
        let chosen = find(&self.name)?;
        let json = self.json.as_deref().map(JsonTarget::open).transpose()?;
        let report = self.report.as_ref().map(Target::open).transpose()?;
        let folder = self.figures.as_ref().map(Folder::open).transpose()?;
        let interrupt = Interrupt::watch();
        let study = Study::make(&chosen, Scale { quick: self.quick, seed: self.seed }, &interrupt)?;
        if let Some(report) = report {
            report.write(study.page().as_bytes())?;
        }
        if let Some(folder) = folder {
            for figure in study.figures() {
                let name = format!("{}.{}", figure.name, self.figure_format.ending());
                figures::write(figure, &folder.path().join(name))?;
            }
        }
        let quiet = matches!(json, Some(JsonTarget::Stdout));
        if let Some(json) = json {
            json.write(&study.record())?;
        }
        if !quiet {
            print(study.text())?;
        }
        Ok(if study.interrupted { Done::Interrupted } else { Done::All })
    }
}
