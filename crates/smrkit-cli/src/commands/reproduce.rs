//! `smrkit reproduce`: a paper's figures and tables, its numbers next to ours, by the studies of the Python package.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::Args;

use crate::exit::Done;
use crate::invocation;
use crate::output::OutputOptions;
use smrkit_options::value::count;

/// Exits with 0 if the studies and their plotting libraries are installed.
const HAS_STUDIES: &str = "import sys; from importlib.util import find_spec; \
                           sys.exit(not all(map(find_spec, ['smrkit.reproduce', 'polars', 'matplotlib'])))";

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit reproduce cassuto-cache --quick
  smrkit reproduce cassuto-cache --report cassuto.html --json cassuto.json
  smrkit reproduce all --traces traces --report papers.html
  smrkit reproduce ./my-vguard --quick

The studies are scripts of the Python package, as python -m smrkit.reproduce runs them; SMRKIT_PYTHON names another Python
than python3. The exit code is 0 also where numbers differ from the paper's: the rows say why.")]
pub struct Reproduce {
    /// What to reproduce: cassuto-cache, cassuto-sblocks, vguard, he-du, caveat, arrays, drives, compare, hosts, file-systems, all
    /// papers with all, or a folder with study.py and numbers.toml.
    #[arg(value_name = "NAME|FOLDER")]
    name: String,
    /// Shorter runs, fewer seeds, rougher verdicts.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    outputs: OutputOptions,
    /// Write the figures into this directory.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// The figures' format.
    #[arg(long, value_parser = ["svg", "png"], default_value = "svg")]
    figure_format: String,
    /// The folder of real traces. They don't come with smrkit; what needs one that is missing says so [default:
    /// $SMRKIT_TRACES, traces, or ../shared/traces].
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Seed of the runs; the first one if a study has several.
    #[arg(long, value_parser = count::<u64>, default_value = "1", value_name = "N")]
    seed: u64,
}

impl Reproduce {
    pub fn execute(self) -> anyhow::Result<Done> {
        let python = std::env::var_os("SMRKIT_PYTHON").unwrap_or_else(|| "python3".into());
        let mut check = Command::new(&python);
        check.args(["-c", HAS_STUDIES]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if !check.status().is_ok_and(|status| status.success()) {
            bail!(
                "the studies take the Python package, polars and matplotlib, not all of which {} has: make wheel, then pip install \
                 polars matplotlib out/wheels/smrkit-*.whl, or name another Python in SMRKIT_PYTHON",
                python.display()
            );
        }
        // Studies that age file systems or import drives call this command themselves.
        let mut study = Command::new(&python);
        study.args(["-m", "smrkit.reproduce"]).args(self.arguments()).env("SMRKIT", invocation::program()?);
        // The process becomes the study, which then gets signals itself, and whose exit code is ours.
        Err(study.exec()).with_context(|| python.display().to_string())
    }

    fn arguments(&self) -> Vec<OsString> {
        let Reproduce { name, quick, outputs, figures, figure_format, traces, seed } = self;
        let mut words: Vec<OsString> = vec![name.into(), "--seed".into(), seed.to_string().into()];
        words.extend(quick.then(|| "--quick".into()));
        let paths = [
            ("--json", &outputs.json),
            ("--report", &outputs.report),
            ("--figures", figures),
            ("--figure-format", &Some(PathBuf::from(figure_format))),
            ("--traces", traces),
        ];
        for (option, value) in paths {
            words.extend(value.iter().flat_map(|value| [option.into(), value.into()]));
        }
        words
    }
}
