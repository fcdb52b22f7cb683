//! A progress bar with rate and time left, on a terminal only.

use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use smrkit::experiment::pool::{Monitor, Stage, Step};
use smrkit::request::Progress;

use crate::exit::COMMIT;
use crate::interrupt::Interrupt;

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
    /// Where each run is, in steps.
    runs: Mutex<Vec<u64>>,
}

impl Bar {
    fn new(runs: usize, what: &str) -> Bar {
        let bar = ProgressBar::new(runs as u64 * STEPS);
        let style = "{msg} {wide_bar} {percent:>3} %  {elapsed} elapsed, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("a template that is right"));
        bar.set_message(what.to_string());
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar { bar, runs: Mutex::new(vec![0; runs]) }
    }

    fn advance(&self, run: usize, to: u64) {
        let mut runs = self.runs.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(at) = runs.get_mut(run)
            && to > *at
        {
            self.bar.inc(to - *at);
            *at = to;
        }
    }
}

impl Stage for Bar {
    fn show(&self, run: usize, step: Step) {
        match step {
            Step::Filling(Progress { done, total: Some(total) }) => {
                self.bar.set_message(format!("filling the disk, {} %", done * 100 / total.max(1)));
            }
            Step::Filling(_) => self.bar.set_message("filling the disk"),
            Step::Serving { progress, rate } => {
                if let Some(total) = progress.total.filter(|&total| total > 0) {
                    let done = u128::from(progress.done.min(total)) * u128::from(STEPS) / u128::from(total);
                    self.advance(run, done as u64);
                }
                if let Some(rate) = rate {
                    self.bar.set_message(format!("{:.1} M requests/s", rate / 1e6));
                }
            }
        }
    }

    fn end(&self, run: usize) {
        self.advance(run, STEPS);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
