//! A progress bar with rate and time left, on a terminal only. Written by hand: it adds up runs of several threads, and indicatif would
//! bring crates that nothing else needs.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use smrkit::experiment::pool::{RunStage, Stage};
use smrkit::request::Progress;

use crate::format;

/// Time between two updates of the bar.
const REDRAW_EVERY: Duration = Duration::from_millis(200);
/// Returns to the start of the line, and clears it.
const CLEAR: &str = "\r\x1b[2K";

/// A bar over several runs, on standard error.
pub struct ProgressBar {
    state: Arc<Mutex<RunsProgress>>,
    /// The thread that draws; dropping the sender ends it.
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

struct RunsProgress {
    what: String,
    /// Share of each run that is done.
    runs: Vec<f64>,
    /// Stage of the run that reported last.
    note: String,
    begin: Instant,
}

impl ProgressBar {
    /// A bar over `runs` runs, labelled `what`, with the width that `columns` returns. Without `columns`, it shows nothing.
    pub fn new(runs: usize, what: &str, columns: Option<fn() -> usize>) -> ProgressBar {
        let state =
            RunsProgress { what: what.into(), runs: vec![0.0; runs], note: String::new(), begin: Instant::now() };
        let state = Arc::new(Mutex::new(state));
        let drawing = columns.map(|columns| {
            let (end, ended) = mpsc::channel();
            let shown = state.clone();
            let draw = move || {
                while ended.recv_timeout(REDRAW_EVERY) == Err(RecvTimeoutError::Timeout) {
                    let progress = lock(&shown);
                    draw(&progress.line(columns(), progress.begin.elapsed().as_secs_f64()));
                }
                draw("");
            };
            (end, std::thread::spawn(draw))
        });
        ProgressBar { state, drawing }
    }
}

fn lock(state: &Mutex<RunsProgress>) -> MutexGuard<'_, RunsProgress> {
    state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Overwrites the current line. Errors are ignored: the terminal may have been closed.
fn draw(line: &str) {
    let mut to = std::io::stderr().lock();
    let _ = write!(to, "{CLEAR}{line}").and_then(|()| to.flush());
}

impl RunsProgress {
    /// `change 7 of 14`, after six.
    fn message(&self) -> String {
        let (ended, of) = (self.runs.iter().filter(|&&share| share == 1.0).count(), self.runs.len());
        let which = if of > 1 { format!("{} {} of {of}", self.what, (ended + 1).min(of)) } else { self.what.clone() };
        which + &self.note
    }

    /// The whole bar after `elapsed` seconds, as one line of `width` columns.
    fn line(&self, width: usize, elapsed: f64) -> String {
        let share = self.runs.iter().sum::<f64>() / self.runs.len().max(1) as f64;
        let left = if share > 0.0 { whole_seconds(elapsed * (1.0 - share) / share) } else { format::NONE.into() };
        let times = format!("{:>3.0} %  {} elapsed, {left} left", (share * 100.0).floor(), whole_seconds(elapsed));
        let message = self.message();
        let room = width.saturating_sub(message.chars().count() + times.chars().count() + 3);
        let full = (share * room as f64) as usize;
        let line = format!("{message} {}{} {times}", "█".repeat(full), "░".repeat(room - full));
        line.chars().take(width.saturating_sub(1)).collect()
    }
}

fn whole_seconds(seconds: f64) -> String {
    format::seconds(if seconds < 600.0 { seconds.round() } else { seconds })
}

impl Stage for ProgressBar {
    fn show(&self, run: usize, step: RunStage) {
        let mut state = lock(&self.state);
        match step {
            RunStage::Filling(Progress { done, total: Some(total) }) => {
                state.note = format!(", filling the disk, {} %", done * 100 / total.max(1));
            }
            RunStage::Filling(_) => state.note = ", filling the disk".into(),
            RunStage::Serving { progress, rate } => {
                if let Some(total) = progress.total.filter(|&total| total > 0)
                    && let Some(share) = state.runs.get_mut(run)
                {
                    *share = share.max(progress.done.min(total) as f64 / total as f64);
                }
                if let Some(rate) = rate {
                    state.note = format!(", {:.1} M requests/s", rate / 1e6);
                }
            }
        }
    }

    fn end(&self, run: usize) {
        let mut state = lock(&self.state);
        if let Some(share) = state.runs.get_mut(run) {
            *share = 1.0;
        }
        state.note.clear();
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if let Some((end, drawn)) = self.drawing.take() {
            drop(end);
            // A panic of the thread has been printed already.
            let _ = drawn.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(runs: Vec<f64>) -> RunsProgress {
        RunsProgress { what: "run".into(), runs, note: ", 2.0 M requests/s".into(), begin: Instant::now() }
    }

    #[test]
    fn the_bar_tells_which_run_is_on_how_far_all_are_and_what_is_left() {
        let line = progress(vec![1.0, 0.5, 0.0, 0.0, 0.0, 0.0]).line(100, 30.0);
        assert!(line.starts_with("run 2 of 6, 2.0 M requests/s █"), "{line}");
        assert!(line.ends_with("░  25 %  30 s elapsed, 90 s left"), "{line}");
        assert_eq!(line.chars().count(), 99);
        assert_eq!(line.matches('█').count(), line.matches(['█', '░']).count() / 4);
    }

    #[test]
    fn a_narrow_terminal_gets_one_line_all_the_same() {
        for width in 0..60 {
            assert!(progress(vec![0.0]).line(width, 0.0).chars().count() <= width);
        }
        assert!(progress(vec![0.0]).line(70, 0.0).ends_with("  0 %  0 s elapsed, - left"));
    }
}
