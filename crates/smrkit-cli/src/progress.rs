//! A progress bar with rate and time left, on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use smrkit::request::Progress;

/// Steps of the bar for one run.
const STEPS: u64 = 10_000;

/// A bar over several runs.
#[derive(Clone)]
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar over `runs`, on standard error; it shows nothing where that is not a terminal.
    pub fn new(runs: usize, what: &str) -> Bar {
        let bar = ProgressBar::new(runs as u64 * STEPS);
        let style = "{msg} {wide_bar} {percent:>3} %  {elapsed} elapsed, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("a template that is right"));
        bar.set_message(what.to_string());
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar(bar)
    }

    /// The share of one run.
    pub fn part(&self) -> Part {
        Part { bar: self.0.clone(), at: 0 }
    }

    /// Shows a rate or another word before the bar.
    pub fn say(&self, words: String) {
        self.0.set_message(words);
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// One run's share of a bar.
pub struct Part {
    bar: ProgressBar,
    at: u64,
}

impl Part {
    /// The run has come this far.
    pub fn show(&mut self, progress: Progress) {
        let Some(total) = progress.total.filter(|&total| total > 0) else { return };
        let at = (progress.done.min(total) as u128 * u128::from(STEPS) / u128::from(total)) as u64;
        if at > self.at {
            self.bar.inc(at - self.at);
            self.at = at;
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.bar.inc(STEPS - self.at);
    }
}
