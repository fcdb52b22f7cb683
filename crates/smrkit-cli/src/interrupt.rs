//! Ctrl-C: the first ends the run with what there is, the second ends the process.
//!
//! A command that has not come to writing its results shortly after the first is ended too: planning, or a long step of a
//! run, must not keep the user waiting. What it had begun to write is removed.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::exit::Done;
use crate::paths::Paths;
use smrkit::experiment::pool::{Monitor, Stage};
use smrkit_options::COMMIT;
use smrkit_report::progress::ProgressBar;

use crate::signals;
use crate::style;

/// Time that a command may take to notice an interrupt.
const PATIENCE: Duration = Duration::from_millis(350);
/// Time between the handler's looks whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Columns of a terminal that does not say.
const WIDTH: u16 = 80;

/// A flag that a signal sets.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Default)]
struct State {
    is_set: AtomicBool,
    is_writing: AtomicBool,
    /// Files and folders under construction.
    partial: Mutex<Vec<PathBuf>>,
}

/// The one that signals set.
static OF_SIGNALS: OnceLock<Interrupt> = OnceLock::new();

impl Interrupt {
    /// Watches for SIGINT, SIGTERM and SIGHUP from the first call on; later calls give the same.
    pub fn watch() -> Interrupt {
        OF_SIGNALS
            .get_or_init(|| {
                let interrupt = Interrupt::default();
                let own = interrupt.clone();
                if let Err(error) = signals::handle(move || own.signalled()) {
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

    /// All was done, if no interrupt came.
    pub fn done(&self) -> Done {
        if self.is_set() { Done::Interrupted } else { Done::All }
    }

    /// Results are being written: from now on only a second signal ends the process.
    pub fn writing(&self) {
        let _partial = self.opening();
        self.0.is_writing.store(true, Ordering::Relaxed);
    }

    /// Lets files and folders under construction be named before they are opened; nothing ends the process while the guard is held.
    pub fn opening(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.0.partial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names the outputs that are about to be opened; nothing ends the process while the guard is held.
    pub fn opening_outputs(&self, paths: &Paths) -> MutexGuard<'_, Vec<PathBuf>> {
        let mut partial = self.opening();
        partial.extend(paths.temporaries());
        partial
    }

    fn signalled(&self) {
        let is_first = !self.0.is_set.swap(true, Ordering::Relaxed);
        let is_writing = || self.0.is_writing.load(Ordering::Relaxed);
        let begin = Instant::now();
        while is_first && !is_writing() && begin.elapsed() < PATIENCE {
            std::thread::sleep(LOOK_EVERY);
        }
        // Results that are not being written by now wait for this, and so are not begun.
        let partial = self.opening();
        if is_first {
            if is_writing() {
                return;
            }
            eprintln!("smrkit: interrupted before there was a result: no answer, and nothing is written");
        }
        for path in partial.iter() {
            // One that was not made yet, or is no longer there, is as it should be.
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

/// The width of the terminal.
fn columns() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(WIDTH, |(width, _)| width.0).into()
}
