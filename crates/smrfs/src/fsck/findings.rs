//! The problems that a check finds.

use super::report::{Finding, Problem, Verdict};

/// The problems so far.
pub(super) struct Findings {
    pub(super) list: Vec<Finding>,
    pub(super) listed: usize,
    pub(super) found: u64,
    pub(super) repaired: u64,
    pub(super) repair: bool,
}

impl Findings {
    /// Notes a problem that a repair mends.
    pub(super) fn add(&mut self, problem: Problem) {
        self.note(problem, self.repair);
    }

    /// Notes a problem that nothing here can mend.
    pub(super) fn add_left(&mut self, problem: Problem) {
        self.note(problem, false);
    }

    fn note(&mut self, problem: Problem, repaired: bool) {
        self.found += 1;
        self.repaired += u64::from(repaired);
        if self.list.len() < self.listed {
            self.list.push(Finding { problem, repaired });
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self.found - self.repaired {
            0 if self.found == 0 => Verdict::Clean,
            0 => Verdict::Repaired,
            _ => Verdict::ErrorsLeft,
        }
    }
}
