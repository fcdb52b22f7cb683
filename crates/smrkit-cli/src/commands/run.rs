//! `smrkit run`: replays a trace or a workload on each layer, compares them, and explains the results.

use std::path::{Path, PathBuf};

use clap::Args;
use smrkit::error::Error;
use smrkit::experiment::comparison::{Compared, RunRecorders};
use smrkit::settings::Warmup;
use smrkit::stats::outcome::TraceNotes;
use smrkit_options::run::RunOptions;
use smrkit_report::{report, text_for};
use smrkit_trace::latencies::with_measured;
use smrkit_trace::recorded::Recorded;
use smrkit_trace::rows::{self, RowFiles};

use super::trace::{warn, warn_of};
use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{OutputOptions, Outputs, command_given, note_stand_ins, pretty};
use crate::style;

/// Options that `--repeat` excludes, because the result file records their values: groups by the names of their structs, and fields of
/// `RunOptions`.
const RECORDED_OPTIONS: [&str; 10] = [
    "SystemOptions",
    "DemandOptions",
    "Conditions",
    "rebuild",
    "set",
    "depth",
    "check",
    "power_cut",
    "movement",
    "from_state",
];

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit run                                          the built-in desktop day on every layer
  smrkit run --trace trace.csv.gz                     a trace, on a drive that holds it
  smrkit run --layer set-assoc --set set-assoc.cache_percent=1,2,5 --workload random-write
  smrkit run --trace trace.csv --arrival trace --depth 32 --queue sptf --report report.html
  smrkit run --array raid5:disks=4,chunk=512KiB --layer in-place,drive-managed --workload random-write
  smrkit run --array 'raid1:member=(layer=in-place),member=(layer=vguard)'     members that differ
  smrkit run --array raid5:disks=4 --capacity 100GB --rebuild disk=1,write=64KiB

Sizes: k, M, G, T are decimal, Ki, Mi, Gi, Ti binary. Durations: 5ms, 2s, 1h. Exit codes: 0 done, 1 anything else, \
2 usage, 3 bad input, 4 impossible configuration, 5 integrity violation found, 130 interrupted (results so far written).")]
pub struct RunCommand {
    /// Repeat the runs of a result file. Other options then name outputs only.
    #[arg(long, value_name = "OUT.json", conflicts_with_all = RECORDED_OPTIONS)]
    repeat: Option<PathBuf>,
    #[command(flatten)]
    asked: RunOptions,
    /// Results with or without time series, surfaces and distributions. Without: a few kilobytes a run.
    #[arg(long, value_parser = ["full", "summary"], default_value = "full")]
    json_detail: String,
    /// Write a row for each request, as Parquet. Of one run.
    #[arg(long, value_name = "OUT.parquet")]
    requests: Option<PathBuf>,
    /// Write a row for each physical access, as Parquet. Of one run; of an array it tells the member.
    #[arg(long, value_name = "OUT.parquet")]
    accesses: Option<PathBuf>,
    /// Write the state of drive and layer at the end, for --from-state. Of one run.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "power_cut", "rebuild"])]
    save_state: Option<PathBuf>,
    #[command(flatten)]
    outputs: OutputOptions,
}

impl RunCommand {
    pub fn execute(self) -> anyhow::Result<Done> {
        match &self.repeat {
            Some(path) => self.repeat(path),
            None => self.ask(),
        }
    }

    /// Repeats the runs of a result file.
    fn repeat(&self, path: &Path) -> anyhow::Result<Done> {
        let recorded = Recorded::read(path)?;
        let runs = recorded.runs()?;
        self.check_records(runs.len())?;
        let interrupt = Interrupt::watch();
        let mut inputs = vec![path.to_path_buf()];
        inputs.extend(recorded.traces());
        let is_array = recorded.file.runs.iter().any(|outcome| !outcome.members.is_empty());
        let (outputs, records, files) = self.open(inputs, is_array, &interrupt)?;
        let compared = recorded.repeat(&runs, &interrupt, records)?;
        self.write(compared, outputs, files, &interrupt)
    }

    /// Makes the runs that the options ask for.
    fn ask(&self) -> anyhow::Result<Done> {
        let asked = self.asked.ask()?;
        note_stand_ins(asked.systems.stand_ins());
        self.check_records(asked.systems.count())?;
        let interrupt = Interrupt::watch();
        let (outputs, records, files) = self.open(asked.files().collect(), asked.systems.is_array(), &interrupt)?;
        let demand = asked.demand()?;
        let (experiment, systems) = asked.on(demand);
        let compared = experiment.compare_watched(&systems, &interrupt, records)?;
        warn_of(experiment.demand.warnings());
        self.write(compared, outputs, files, &interrupt)
    }

    /// Opens the outputs. Errors: one of them is an input.
    fn open(
        &self,
        inputs: Vec<PathBuf>,
        is_array: bool,
        interrupt: &Interrupt,
    ) -> anyhow::Result<(Outputs, RunRecorders, RowFiles)> {
        let tables = [&self.requests, &self.accesses, &self.save_state].into_iter().flatten().cloned();
        let outputs: Vec<PathBuf> = tables.chain(self.outputs.paths()).collect();
        let _opening = interrupt.opening_outputs(&inputs, &outputs)?;
        let outputs = self.outputs.open()?;
        let (mut records, mut files) = rows::open(self.requests.as_deref(), self.accesses.as_deref(), is_array)?;
        if let Some(path) = &self.save_state {
            files.save_state(path, &mut records)?;
        }
        Ok((outputs, records, files))
    }

    fn write(
        &self,
        compared: Compared,
        outputs: Outputs,
        files: RowFiles,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Done> {
        let complete = compared.complete;
        let outcomes = with_measured(compared);
        warn(outcomes.runs.first().map_or_else(TraceNotes::default, |outcome| outcome.replayed.trace_notes));
        if complete && outcomes.runs.iter().all(|outcome| outcome.requests == 0) {
            warn_of_warmup(self.asked.conditions.warmup);
        }
        interrupt.writing();
        // The results are written before the tables of requests and accesses, in case the disk gets full.
        let (runs, measured) = (&outcomes.runs, outcomes.measured.as_ref());
        let record = || match self.json_detail.as_str() {
            "summary" => serde_json::to_string(&outcomes.summary()),
            _ => pretty(&outcomes),
        };
        let written = outputs.write(
            || text_for(runs, measured, style::terminal()),
            record,
            || report(runs, measured, Some(command_given())),
        );
        files.finish()?;
        written?;
        Ok(if complete { Done::All } else { Done::Interrupted })
    }

    /// Errors: a file of rows or of state is asked for, but there are several runs.
    fn check_records(&self, runs: usize) -> Result<(), Error> {
        if (self.requests.is_some() || self.accesses.is_some() || self.save_state.is_some()) && runs > 1 {
            let message = format!(
                "--requests, --accesses and --save-state are of one run, but there are {runs}: name one --layer"
            );
            return Err(Error::Usage(message));
        }
        Ok(())
    }
}

/// Warns that no request was counted, because the warm-up took all of them or there was none.
fn warn_of_warmup(warmup: Warmup) {
    let remedy = match warmup {
        Warmup::Requests(0) => return,
        Warmup::Requests(_) => "give a smaller one",
        Warmup::UntilSteady => "cleaning had not settled when they ended; give more requests, or a number",
    };
    eprintln!("smrkit: warning: --warmup {warmup} takes all requests, and no request was counted: {remedy}");
}
