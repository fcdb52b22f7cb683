//! A progress bar with rate and time left, on a terminal only.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use smrkit::experiment::pool::{Monitor, RunStage, Stage};
use smrkit::request::Progress;
use smrkit_options::COMMIT;

use crate::interrupt::Interrupt;
use crate::style;

/// Steps of the bar for one run.
const STEPS: u64 = 10_000;

impl Monitor for Interrupt {
    fn goes_on(&self) -> bool {
        !self.is_set()
    }

    fn commit(&self) -> Option<&str> {
        COMMIT
    }

    fn begin(&self, runs: usize, what: &str) -> Box<dyn Stage> {
        Box::new(Bar::new(runs, what))
    }
}

/// A bar over several runs, on standard error; it shows nothing where that is not a terminal.
struct Bar {
    bar: ProgressBar,
    what: String,
    /// Progress of each run, in steps.
    runs: Mutex<Vec<u64>>,
}

impl Bar {
    fn new(runs: usize, what: &str) -> Bar {
        let bar = if style::is_quiet() { ProgressBar::hidden() } else { ProgressBar::no_length() };
        bar.set_length(runs as u64 * STEPS);
        let style = "{msg} {wide_bar} {percent:>3} %  {elapsed} elapsed, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("a template that is right"));
        bar.set_message(message(what, 0, runs));
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar { bar, what: what.into(), runs: Mutex::new(vec![0; runs]) }
    }

    /// Text on what is done, and on which of several runs is under way.
    fn message(&self) -> String {
        let runs = self.lock();
        message(&self.what, runs.iter().filter(|&&at| at == STEPS).count(), runs.len())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.runs.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn advance(&self, run: usize, to: u64) {
        let mut runs = self.lock();
        if let Some(at) = runs.get_mut(run)
            && to > *at
        {
            self.bar.inc(to - *at);
            *at = to;
        }
    }
}

/// `change 7 of 14`, after six.
fn message(what: &str, ended: usize, of: usize) -> String {
    if of > 1 { format!("{what} {} of {of}", (ended + 1).min(of)) } else { what.to_string() }
}

impl Stage for Bar {
    fn show(&self, run: usize, step: RunStage) {
        match step {
            RunStage::Filling(Progress { done, total: Some(total) }) => {
                let share = done * 100 / total.max(1);
                self.bar.set_message(format!("{}, filling the disk, {share} %", self.message()));
            }
            RunStage::Filling(_) => self.bar.set_message(format!("{}, filling the disk", self.message())),
            RunStage::Serving { progress, rate } => {
                if let Some(total) = progress.total.filter(|&total| total > 0) {
                    let done = u128::from(progress.done.min(total)) * u128::from(STEPS) / u128::from(total);
                    self.advance(run, done as u64);
                }
                if let Some(rate) = rate {
                    self.bar.set_message(format!("{}, {:.1} M requests/s", self.message(), rate / 1e6));
                }
            }
        }
    }

    fn end(&self, run: usize) {
        self.advance(run, STEPS);
        self.bar.set_message(self.message());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
