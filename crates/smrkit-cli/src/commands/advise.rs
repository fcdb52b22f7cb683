//! `smrkit advise`: whether a drive or an array copes with a load, and what would help if not. Every claim is shown by a run.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use smrkit_advise::advice::Advice;
use smrkit_advise::options::{AdviseOptions, AskedAdvice};
use smrkit_advise::page;
use smrkit_advise::screen::{self, Screen};
use smrkit_advise::{Brief, Listener, Silent};

use super::trace::{warn, warn_of};
use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{OutputOptions, command_given, note_stand_ins, pretty, print};
use crate::style;

/// The most columns of a line, for good reading.
const WIDEST: usize = 120;

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit advise --array raidz1:disks=4 --for replace           how long a disk takes to be replaced, unused and used
  smrkit advise --for restic:bytes=60G --within 8h             will the backup be done by the morning?
  smrkit advise --for surveillance:cameras=8,rate=4Mbit,buffer=10s               whose recorder holds 10 s in memory
  smrkit advise --for plex --for restic:bytes=60G --within 8h                   both on one disk
  smrkit advise --array raidz1:disks=4 --for replace:live=40%                   of a pool that is less than half full
  smrkit advise --drive WD40EFAX,ST8000DM004,WD40EFRX --for file-server          which of them?
  smrkit advise --array raidz1:disks=4 --drive WD40EFAX+WD40EFRX --for replace   by a shingled disk among others
  smrkit advise --for postgres:tps=20 --keep 50ms
  smrkit advise --trace trace.csv --arrival trace              what was recorded, at its own times

docs/reference/uses.md says what is assumed of each use, docs/reference/advise.md what is tried and what the words mean.
Exit codes: 0 done, 1 anything else, 2 usage, 3 bad input, 4 impossible configuration, 130 interrupted.")]
pub struct Advise {
    #[command(flatten)]
    asked: AdviseOptions,
    /// Also show results for both ends of the drive's estimated range, what could not be run, and exactly what was run.
    #[arg(long)]
    details: bool,
    /// Write the results as JSON; - is standard output.
    #[arg(long, value_name = "OUT|-")]
    json: Option<PathBuf>,
    /// Write one HTML page that opens offline.
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
}

/// Prints parts of an answer as soon as their runs are finished.
struct Printer {
    screen: Screen,
    /// The answer's text as it was printed last; later runs may change it.
    printed: String,
    interrupt: Interrupt,
}

impl Listener for Printer {
    fn preview(&mut self, advice: &Advice) {
        self.printed.clone_from(&advice.text);
        // An error of a closed pipe is reported when the rest is printed.
        let _ = print(screen::preview(advice, self.screen));
    }

    fn answered(&mut self, advice: &Advice) {
        let _ = print(screen::first(advice, &self.printed, self.screen));
        self.printed.clone_from(&advice.text);
        self.interrupt.answered();
    }

    fn tried(&mut self, advice: &Advice) {
        let _ = print(screen::tried_row(advice, self.screen));
    }
}

impl Advise {
    /// Answers the question for each drive, and writes the results. A single answer is printed part by part as its runs finish; several answers
    /// are printed at the end, as a comparison.
    pub fn execute(self) -> anyhow::Result<Done> {
        // `false`: the demand is no table in memory, which only Python has.
        let questions = self.asked.ask(false)?;
        note_stand_ins(questions.iter().flat_map(AskedAdvice::stand_ins));
        let interrupt = Interrupt::watch();
        let outputs = OutputOptions { json: self.json, report: self.report };
        let inputs: Vec<PathBuf> = questions.iter().flat_map(AskedAdvice::files).collect();
        // Outputs are opened first, so that a bad path is reported before hours of runs.
        let opening = interrupt.opening_outputs(&inputs, &outputs.paths())?;
        let outputs = outputs.open()?;
        drop(opening);
        let terminal = style::terminal();
        let width = terminal.columns.unwrap_or(Screen::default().width).min(WIDEST);
        let screen = Screen { width, is_coloured: terminal.coloured, details: self.details };
        let is_printed = !outputs.is_stdout_json();
        let mut printer = Printer { screen, printed: String::new(), interrupt: interrupt.clone() };
        let wants_changes = self.details || outputs.json.is_some() || outputs.report.is_some();
        let several = questions.len() > 1;
        let mut answers = Vec::new();
        for question in questions {
            let demand = question.demand()?;
            let listener: &mut dyn Listener = match (is_printed, several) {
                (true, false) => &mut printer,
                (true, true) if !wants_changes => &mut Brief,
                _ => &mut Silent,
            };
            let Some(advice) = question.answer(Arc::clone(&demand), &interrupt, listener)? else {
                eprintln!("smrkit: interrupted before the first simulation finished, so there is no answer");
                return Ok(Done::Interrupted);
            };
            warn(advice.demand.replayed.trace_notes);
            warn_of(demand.warnings());
            if is_printed && several {
                print(screen::headline(&advice, screen))?;
            }
            answers.push(advice);
        }
        // From here on only a second signal ends the process, so that no output is left half written.
        interrupt.writing();
        outputs.write(
            || match answers.as_slice() {
                [advice] => screen::rest(advice, &printer.printed, screen),
                all => screen::compared(all, screen),
            },
            || match answers.as_slice() {
                [advice] => pretty(advice),
                all => pretty(all),
            },
            || page::page(&answers, Some(&command_given())),
        )?;
        Ok(if answers.iter().all(|advice| advice.complete) { Done::All } else { Done::Interrupted })
    }
}
