//! The program that the web page runs. It answers one question, given as options of the command `smrkit`, by messages of one line of JSON
//! each.
//!
//! It is built for WASI (wasm32-wasip1), so that files, clocks and standard output are the standard library's own, and the simulator is
//! compiled unchanged. `page/worker.js` is its operating system; its files are those that were dropped onto the page. Its answers are the
//! pages that `smrkit advise --report` and `smrkit run --report` write, byte for byte.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::Parser;
use serde::Serialize;
use serde_json::{Value, json};
use smrkit::drive::catalogue::{self, Identified, Model, recording_in_words};
use smrkit::drive::{DRIVES, Drive};
use smrkit::error::Error;
use smrkit::experiment::comparison::RunRecorders;
use smrkit::experiment::pool::{Monitor, RunStage, Stage};
use smrkit::experiment::system::DEFAULT_DRIVE;
use smrkit::layer::LAYERS;
use smrkit::message::worded;
use smrkit::stats::outcome::Replayed;
use smrkit_advise::advice::Advice;
use smrkit_advise::options::{AdviseOptions, AskedAdvice};
use smrkit_advise::screen::{self, Screen};
use smrkit_advise::uses::{Pace, USES, Use};
use smrkit_advise::{Listener, Silent, page};
use smrkit_options::COMMIT;
use smrkit_options::run::RunOptions;
use smrkit_report::report;
use smrkit_sweep::frame::{self, Frame};

#[derive(Parser)]
#[command(name = "smrkit", disable_help_flag = true, disable_help_subcommand = true)]
enum Asked {
    /// Will this drive or array cope with a load, and what to change if not.
    Advise(AdviseOptions),
    /// Replay a trace or a workload on one or more layers, compare, explain.
    Run(RunOptions),
    /// What can be chosen on the page.
    Catalogue,
    /// How a disk records, by its model string.
    Identify { model: String },
    /// The file of a drive, to be edited.
    DriveFile { drive: Option<String> },
}

/// A message to the page.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Message<'a> {
    /// The work under way, and the share of it that is done, from 0 to 1.
    Progress { what: &'a str, share: f64 },
    /// A sentence about the question.
    Note(&'a str),
    /// A row of the command's table of changes that were tried.
    Tried(&'a str),
    /// The answer as a page, whole or so far.
    Page { html: String, is_whole: bool },
    /// The results, as the command's `--json` writes them.
    Json(String),
    /// The runs, one row each, as `smrkit results --format csv` writes them.
    Csv(String),
    /// What can be chosen.
    Catalogue(Value),
    /// How a disk records, in a sentence.
    Identified(String),
    /// The file of a drive.
    DriveFile(&'a str),
    /// The error that prevented an answer.
    Error(String),
}

fn send(message: &Message) {
    println!("{}", json!(message));
}

fn main() -> ExitCode {
    let done = match Asked::try_parse() {
        Ok(Asked::Advise(options)) => advise(&options),
        Ok(Asked::Run(options)) => run(&options),
        Ok(Asked::Catalogue) => choices().map(|all| send(&Message::Catalogue(all))),
        Ok(Asked::Identify { model }) => {
            send(&Message::Identified(identified(&model)));
            Ok(())
        }
        Ok(Asked::DriveFile { drive }) => {
            drive_file(drive.as_deref().unwrap_or(DEFAULT_DRIVE)).map(|text| send(&Message::DriveFile(text)))
        }
        Err(refused) => {
            send(&Message::Error(first_paragraph(&refused.to_string())));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let option = |field: &str| format!("--{}", field.replace('_', "-")).into();
            send(&Message::Error(worded(&error.message(), &option)));
            ExitCode::FAILURE
        }
    }
}

/// The first paragraph of clap's error, without the usage.
fn first_paragraph(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// The question as a command line.
fn command() -> String {
    smrkit_report::format::command(std::env::args().skip(1))
}

fn advise(options: &AdviseOptions) -> Result<(), Error> {
    let asked = options.ask(false)?;
    asked.iter().flat_map(AskedAdvice::stand_ins).for_each(|note| send(&Message::Note(&note)));
    let several = asked.len() > 1;
    let mut answers: Vec<Advice> = Vec::new();
    for one in asked {
        let demand = one.demand()?;
        // With several drives, an answer is shown when it is whole, beside those before; only the first is shown as it comes.
        let listener: &mut dyn Listener = if answers.is_empty() { &mut Teller } else { &mut Silent };
        let Some(advice) = one.answer(demand, &Watch, listener)? else { continue };
        note(&advice.demand.replayed);
        answers.push(advice);
        if several {
            send(&Message::Page { html: page::page(&answers, Some(&command())), is_whole: false });
        }
    }
    send(&Message::Json(match answers.as_slice() {
        [advice] => pretty(advice),
        all => pretty(all),
    }));
    send(&Message::Page { html: page::page(&answers, Some(&command())), is_whole: true });
    Ok(())
}

fn run(options: &RunOptions) -> Result<(), Error> {
    let asked = options.ask()?;
    asked.systems.stand_ins().for_each(|note| send(&Message::Note(&note)));
    let demand = asked.demand()?;
    let (experiment, systems) = asked.on(demand);
    let compared = experiment.compare_watched(&systems, &Watch, RunRecorders::default())?;
    let outcomes = smrkit_trace::latencies::with_measured(compared);
    if let Some(outcome) = outcomes.runs.first() {
        note(&outcome.replayed);
    }
    send(&Message::Json(pretty(&outcomes)));
    send(&Message::Csv(Frame::of(&frame::rows(&outcomes.runs)).csv()));
    send(&Message::Page { html: report(&outcomes.runs, outcomes.measured.as_ref(), Some(command())), is_whole: true });
    Ok(())
}

/// Notes rows of a trace that were mended, skipped or out of order.
fn note(replayed: &Replayed) {
    let warnings = smrkit_report::trace_info::warnings(replayed.trace_notes);
    warnings.iter().for_each(|warning| send(&Message::Note(warning)));
}

fn pretty(results: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string_pretty(results).unwrap_or_default() + "\n"
}

/// Shows an answer as it comes.
struct Teller;

impl Listener for Teller {
    fn preview(&mut self, advice: &Advice) {
        self.answered(advice);
    }

    fn answered(&mut self, advice: &Advice) {
        let html = page::page(std::slice::from_ref(advice), Some(&command()));
        send(&Message::Page { html, is_whole: false });
    }

    fn tried(&mut self, advice: &Advice) {
        send(&Message::Tried(screen::tried_row(advice, Screen::default()).trim()));
    }
}

/// Reports the progress of runs to the page. It needs no cancelling: that ends the whole program.
struct Watch;

impl Monitor for Watch {
    fn commit(&self) -> Option<&str> {
        COMMIT
    }

    /// WebAssembly has one thread here, which serves all runs.
    fn threads(&self) -> usize {
        0
    }

    fn begin(&self, runs: usize, what: &str) -> Box<dyn Stage> {
        send(&Message::Progress { what, share: 0.0 });
        Box::new(Runs { what: what.into(), shares: Mutex::new(vec![0.0; runs]) })
    }
}

/// Runs of a stage, and the share of each that is done.
struct Runs {
    what: String,
    shares: Mutex<Vec<f64>>,
}

impl Runs {
    fn set(&self, run: usize, share: f64) {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares[run] = share;
        let share = shares.iter().sum::<f64>() / shares.len() as f64;
        send(&Message::Progress { what: &self.what, share });
    }
}

impl Stage for Runs {
    fn show(&self, run: usize, step: RunStage) {
        let (RunStage::Filling(progress) | RunStage::Serving { progress, .. }) = step;
        if let Some(total) = progress.total {
            self.set(run, progress.done as f64 / total.max(1) as f64);
        }
    }

    fn end(&self, run: usize) {
        self.set(run, 1.0);
    }
}

/// What can be chosen: models and drives, uses, layers.
fn choices() -> Result<Value, Error> {
    let model = |Model { name, recording, preset, .. }: Model| {
        let about = recording_in_words(recording);
        preset.map(|_| json!({"name": name, "about": about}))
    };
    let mut drives: Vec<Value> = catalogue::models().filter_map(model).collect();
    for (name, _) in DRIVES {
        let summary = Drive::load(name)?.summary;
        drives.push(json!({"name": name, "about": summary}));
    }
    let one = |one: &Use| {
        let keys = one.keys.iter().map(|(key, default, what)| json!({"key": key, "default": default, "what": what}));
        json!({
            "name": one.name, "what": one.what, "keys": keys.collect::<Vec<_>>(), "assumed": one.assumed,
            "is_paced": matches!(one.pace, Pace::Own(_)), "is_of_array": one.work.is_of_array(),
        })
    };
    let layers: Vec<&str> = LAYERS.iter().map(|layer| layer.name).collect();
    Ok(json!({"drives": drives, "uses": USES.iter().map(one).collect::<Vec<_>>(), "layers": layers}))
}

/// The file of the drive with this name, or that is simulated for a model.
fn drive_file(drive: &str) -> Result<&'static str, Error> {
    let built_in = Drive::load(drive)?.name;
    let file = DRIVES.iter().find(|(name, _)| *name == built_in);
    file.map(|(_, text)| *text)
        .ok_or_else(|| Error::Usage(format!("{drive} has no file of its own: name a drive of the list")))
}

/// How the disk of a model string records, and which drive is simulated in its place.
fn identified(model: &str) -> String {
    match catalogue::identify(model).into_iter().next() {
        Some(known @ Identified::Known(..)) => smrkit_report::catalogue::identified(&known),
        _ if DRIVES.iter().any(|(name, _)| *name == model) => {
            Drive::load(model).map_or_else(|error| error.to_string(), |drive| drive.summary)
        }
        _ => smrkit_report::catalogue::identified(&catalogue::unlisted(model)),
    }
}
