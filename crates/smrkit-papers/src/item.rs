//! A paper's items: what is run for each, and what is shown of it.

use smrfs::age::course::AgeingResult;
use smrkit::error::Error;
use smrkit::stats::outcome::Outcome;

use crate::lab::{JobResult, Planned, Work};
use crate::row::Row;
use crate::traces::Traces;
use smrkit_report::Grid;
use smrkit_report::figure::Figure;

/// A paper's figures and tables.
pub struct Reproduction {
    /// The name on the command line.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// Sentence on what is reproduced.
    pub summary: &'static str,
    /// The state of the disks before, in one sentence.
    pub before: &'static str,
    /// The items, in the paper's order.
    pub items: fn(&Scale) -> Result<Vec<Item>, Error>,
    /// Questions that the paper leaves open or contradicts, a line each.
    pub open: fn() -> Result<Vec<String>, Error>,
}

/// Scale of a study.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Shorter runs and fewer seeds.
    pub quick: bool,
    /// The first seed.
    pub seed: u64,
    /// Real traces at hand.
    pub traces: Traces,
}

impl Scale {
    /// `full`, or `quick` where that was asked for.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A number of seeds, from the first one on.
    pub fn seeds(&self, full: u64, quick: u64) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..self.pick(full, quick)).map(move |i| first.wrapping_add(i))
    }
}

/// Turns what came of an item's runs into what is shown, each under a heading; a run that was not made is `None`.
pub type Show = dyn FnOnce(Vec<Option<JobResult>>) -> Vec<(&'static str, Shown)>;

/// A figure or table: what must be run, and what is shown of it.
pub struct Item {
    /// Its heading.
    pub heading: &'static str,
    /// The runs.
    pub jobs: Vec<Box<dyn Work>>,
    /// Presentation of their results, in the order of the runs.
    pub show: Box<Show>,
    /// True if it has something to show where an interrupt left out some of the runs.
    pub partial: bool,
}

impl Item {
    /// An item for which nothing is run.
    pub fn told(heading: &'static str, shown: Shown) -> Item {
        Item::of_jobs(heading, Vec::new(), move |_| vec![(heading, shown)])
    }

    /// An item of these runs.
    pub fn new<P: Planned + 'static>(
        heading: &'static str,
        plans: Vec<P>,
        show: impl FnOnce(&[Outcome]) -> Shown + 'static,
    ) -> Item {
        Item::of_runs(heading, plans, move |outcomes| vec![(heading, show(outcomes))])
    }

    /// An item of these runs, shown under several headings.
    pub fn of_runs<P: Planned + 'static>(
        heading: &'static str,
        plans: Vec<P>,
        show: impl FnOnce(&[Outcome]) -> Vec<(&'static str, Shown)> + 'static,
    ) -> Item {
        Item::from_work(heading, plans, JobResult::outcome, show)
    }

    /// An item of these runs, which shows what it can of those that were made.
    pub fn of_runs_made<P: Planned + 'static>(
        heading: &'static str,
        plans: Vec<P>,
        show: impl FnOnce(&[Option<Outcome>]) -> Vec<(&'static str, Shown)> + 'static,
    ) -> Item {
        let show = move |made: Vec<Option<JobResult>>| {
            let outcomes: Vec<_> = made.into_iter().map(|made| made.and_then(JobResult::outcome)).collect();
            show(&outcomes)
        };
        Item { partial: true, ..Item::of_jobs(heading, plans.into_iter().map(boxed).collect(), show) }
    }

    /// An item of these runs on file systems, shown under several headings.
    pub fn of_courses(
        heading: &'static str,
        plans: Vec<impl Work + 'static>,
        show: impl FnOnce(&[AgeingResult]) -> Vec<(&'static str, Shown)> + 'static,
    ) -> Item {
        Item::from_work(heading, plans, JobResult::course, show)
    }

    fn from_work<W: Work + 'static, T>(
        heading: &'static str,
        work: Vec<W>,
        result: impl Fn(JobResult) -> Option<T> + 'static,
        show: impl FnOnce(&[T]) -> Vec<(&'static str, Shown)> + 'static,
    ) -> Item {
        let show = move |made: Vec<Option<JobResult>>| {
            show(&made.into_iter().flatten().filter_map(result).collect::<Vec<T>>())
        };
        Item::of_jobs(heading, work.into_iter().map(boxed).collect(), show)
    }

    /// An item of these jobs, which shows nothing unless all of them were done.
    pub fn of_jobs(
        heading: &'static str,
        jobs: Vec<Box<dyn Work>>,
        show: impl FnOnce(Vec<Option<JobResult>>) -> Vec<(&'static str, Shown)> + 'static,
    ) -> Item {
        Item { heading, jobs, show: Box::new(show), partial: false }
    }
}

fn boxed<W: Work + 'static>(work: W) -> Box<dyn Work> {
    Box::new(work)
}

/// Presentation of an item.
#[derive(Default)]
pub struct Shown {
    /// Sentences on what was run.
    pub text: Vec<String>,
    /// Results that the paper has no number for.
    pub table: Option<Grid>,
    /// The paper's numbers and ours.
    pub rows: Vec<Row>,
    /// Its figure, where it has one.
    pub figure: Option<Figure>,
}

/// A count; not a number where there is none.
pub(crate) fn number(count: Option<u64>) -> f64 {
    count.map_or(f64::NAN, |count| count as f64)
}
