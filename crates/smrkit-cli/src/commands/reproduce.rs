//! `smrkit reproduce`: a paper's figures and tables, its numbers beside ours.

use std::path::PathBuf;

use clap::Args;
use smrkit::error::Error;

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{JsonTarget, print};
use crate::report::figure::Figure;
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
    /// Shorter runs and fewer seeds: a fraction of the time (all of it takes under a minute on two cores), rougher
    /// verdicts.
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
        let outputs = Outputs::open(&self)?;
        let interrupt = Interrupt::watch();
        let study = Study::make(&chosen, Scale { quick: self.quick, seed: self.seed }, &interrupt)?;
        outputs.write(&study)?;
        Ok(if study.interrupted { Done::Interrupted } else { Done::All })
    }
}

/// Everything that is written, opened before the work starts.
struct Outputs {
    json: Option<JsonTarget>,
    report: Option<Target>,
    figures: Option<(Folder, Format)>,
}

impl Outputs {
    fn open(options: &Reproduce) -> Result<Outputs, Error> {
        Ok(Outputs {
            json: options.json.as_deref().map(JsonTarget::open).transpose()?,
            report: options.report.as_ref().map(Target::open).transpose()?,
            figures: options.figures.as_ref().map(Folder::open).transpose()?.map(|f| (f, options.figure_format)),
        })
    }

    /// Writes all of it, the most precious first; what fails does not keep the rest from being written.
    fn write(self, study: &Study) -> anyhow::Result<()> {
        let printed = match self.json {
            Some(JsonTarget::Stdout) => Ok(()),
            _ => print(study.text()),
        };
        let json = self.json.map_or(Ok(()), |json| json.write(&study.record()));
        let report = self.report.map_or(Ok(()), |report| report.write(study.page().as_bytes()));
        let figures = self.figures.map_or(Ok(()), |(folder, format)| write_figures(study, &folder, format));
        printed.and(json)?;
        report?;
        figures?;
        Ok(())
    }
}

/// Writes every figure, and gives the first error.
fn write_figures(study: &Study, folder: &Folder, format: Format) -> Result<(), Error> {
    let write =
        |figure: &Figure| figures::write(figure, &folder.path().join(format!("{}.{}", figure.name, format.ending())));
    study.figures().map(write).fold(Ok(()), Result::and)
}
