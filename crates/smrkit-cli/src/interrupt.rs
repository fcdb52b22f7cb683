//! Ctrl-C: the first ends the run with the results so far, the second ends the process.
//!
//! The first also ends the process if the command does not begin to write its results within a third of a second, because planning, or a long
//! step of a run, must not keep the user waiting. Unfinished files are removed.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use smrkit::error::Error;
use smrkit::experiment::pool::{Monitor, Stage};
use smrkit_options::COMMIT;
use smrkit_report::progress::ProgressBar;
use smrkit_trace::output::temporary_of;

use crate::exit::Done;
use crate::{paths, style};

/// Time that a command may take to notice an interrupt.
const PATIENCE: Duration = Duration::from_millis(350);
/// Time between the handler's looks at whether the command has noticed.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Columns of a terminal of unknown width.
const WIDTH: u16 = 80;

/// A flag that a signal sets.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Default)]
struct State {
    is_set: AtomicBool,
    is_writing: AtomicBool,
    is_answered: AtomicBool,
    /// Files and folders under construction.
    partial: Mutex<Vec<PathBuf>>,
}

/// The flag that the process's signals set.
static OF_SIGNALS: OnceLock<Interrupt> = OnceLock::new();

impl Interrupt {
    /// Watches for SIGINT, SIGTERM and SIGHUP from the first call on; later calls return the same flag.
    pub fn watch() -> Interrupt {
        OF_SIGNALS
            .get_or_init(|| {
                let interrupt = Interrupt::default();
                let of_handler = interrupt.clone();
                if let Err(error) = handle_signals(move || of_handler.signalled()) {
                    eprintln!("smrkit: an interrupt will lose the results so far: {error:#}");
                }
                interrupt
            })
            .clone()
    }

    /// True if it is time to stop.
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Relaxed)
    }

    /// `Done::All`, or `Done::Interrupted` after an interrupt.
    pub fn done(&self) -> Done {
        if self.is_set() { Done::Interrupted } else { Done::All }
    }

    /// Notes that results are being written: from now on only a second signal ends the process.
    pub fn writing(&self) {
        let _partial = self.opening();
        self.0.is_writing.store(true, Ordering::Relaxed);
    }

    /// Notes that an answer was printed, and that only details of it may be missing.
    pub fn answered(&self) {
        self.0.is_answered.store(true, Ordering::Relaxed);
    }

    /// The list of unfinished files and folders, to be extended before they are opened. Nothing ends the process while the guard is held.
    pub fn opening(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.0.partial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the outputs that are about to be opened to that list. Errors: one of them is an input or another output. Nothing ends the process
    /// while the guard is held.
    pub fn opening_outputs(
        &self,
        inputs: &[PathBuf],
        outputs: &[PathBuf],
    ) -> Result<MutexGuard<'_, Vec<PathBuf>>, Error> {
        paths::check(inputs, outputs)?;
        let mut partial = self.opening();
        // Standard output (-) has no file under construction.
        partial.extend(outputs.iter().filter(|path| *path != Path::new("-")).filter_map(|path| temporary_of(path)));
        Ok(partial)
    }

    /// The last words of the message when an interrupt ends the process at once.
    fn parting(&self) -> &'static str {
        match self.0.is_answered.load(Ordering::Relaxed) {
            true => "after the first answer, which stands: not all changes were tried, and nothing is written",
            false => "before there was a result: no answer, and nothing is written",
        }
    }

    /// Handles a signal, in the thread of signals.
    fn signalled(&self) {
        let is_first = !self.0.is_set.swap(true, Ordering::Relaxed);
        let is_writing = || self.0.is_writing.load(Ordering::Relaxed);
        let begin = Instant::now();
        while is_first && !is_writing() && begin.elapsed() < PATIENCE {
            thread::sleep(LOOK_EVERY);
        }
        // While this thread holds the list, no command can begin to write results.
        let partial = self.opening();
        if is_first {
            if is_writing() {
                return;
            }
            eprintln!("smrkit: interrupted {}", self.parting());
        }
        for path in partial.iter() {
            // Errors are ignored: the path may not exist yet, or no longer.
            let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
        }
        std::process::exit(130);
    }
}

impl Monitor for Interrupt {
    fn goes_on(&self) -> bool {
        !self.is_set()
    }

    fn commit(&self) -> Option<&str> {
        COMMIT
    }

    fn begin(&self, runs: usize, what: &str) -> Box<dyn Stage> {
        let is_seen = !style::is_quiet() && std::io::stderr().is_terminal();
        Box::new(ProgressBar::new(runs, what, is_seen.then_some(columns)))
    }
}

/// Makes an error of a write past the limit of file sizes (`ulimit -f`), which without a handler ends the process.
pub fn survive_file_limit() {
    // A system that refuses a handler keeps its own.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Calls `handler` for each signal from now on, in a thread of its own.
///
/// # Errors
/// If the system refuses a handler or a thread.
pub fn handle_signals(mut handler: impl FnMut() + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signals")?;
    let wait = move || signals.forever().for_each(|_| handler());
    thread::Builder::new().name("signals".into()).spawn(wait).context("signals")?;
    Ok(())
}

fn columns() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(WIDTH, |(width, _)| width.0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_printed_stands() {
        let interrupt = Interrupt::default();
        assert!(interrupt.parting().contains("no answer"));
        interrupt.answered();
        assert!(interrupt.parting().contains("stands"));
    }
}
