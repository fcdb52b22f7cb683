//! `smrkit reproduce`: a paper's figures and tables, its numbers next to ours.

use std::path::PathBuf;

use clap::Args;
use smrkit_papers::study::Study;
use smrkit_papers::traces::Traces;
use smrkit_papers::{REPRODUCTIONS, Scale, find};

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{OutputOptions, pretty};
use smrkit_options::paths::Paths;
use smrkit_options::value::count;

const EXAMPLES: &str = "\
Examples:
  smrkit reproduce cassuto-cache --quick
  smrkit reproduce cassuto-cache --report cassuto.html --json cassuto.json
  smrkit reproduce all --traces traces --report papers.html

The exit code is 0 also where numbers differ from the paper's: the rows say why.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Reproduce {
    #[arg(help = known())]
    name: String,
    /// Shorter runs, fewer seeds, rougher verdicts. Each paper takes under two minutes on two cores.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    outputs: OutputOptions,
    /// The folder of real traces. They don't come with smrkit; what needs one that is missing says so [default:
    /// $SMRKIT_TRACES, traces, or ../shared/traces].
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// The first seed, if there are several.
    #[arg(long, value_parser = count::<u64>, default_value = "1", value_name = "N")]
    seed: u64,
}

/// The names that there are.
fn known() -> String {
    let names: Vec<&str> = REPRODUCTIONS.iter().map(|reproduction| reproduction.name).collect();
    format!("What to reproduce: {}, or all papers with all", names.join(", "))
}

impl Reproduce {
    pub fn execute(self) -> anyhow::Result<Done> {
        let chosen = find(&self.name)?;
        let scale = Scale { quick: self.quick, seed: self.seed, traces: Traces::find(self.traces.as_deref())? };
        let mut paths = Paths { inputs: scale.traces.files(), ..Paths::default() };
        self.outputs.name(&mut paths);
        paths.check()?;
        let interrupt = Interrupt::watch();
        let opening = interrupt.opening_outputs(&paths);
        let outputs = self.outputs.open()?;
        drop(opening);
        let study = Study::make(&chosen, scale, &interrupt)?;
        interrupt.writing();
        let figures = || study.figures().cloned().collect();
        outputs.write(|| study.text(), || pretty(&study.record()), || study.page(), figures)?;
        Ok(if study.interrupted { Done::Interrupted } else { Done::All })
    }
}
