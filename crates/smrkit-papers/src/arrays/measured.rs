//! Counts and times of each configuration, also as multiples of *pure*.

use smrkit::stats::outcome::{Movement, Outcome};

use super::setup::{ArrayPlan, Configuration, UpdateScheme};
use crate::SeedSpread;

/// Quantity that is counted. No two of them stand in one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Tracks that heads crossed.
    Distance,
    /// Accesses on another track than the one before.
    Count,
    /// Bands relocated.
    Bands,
    /// Tracks crossed, as a share of each disk's tracks.
    Stroke,
    /// From the first request to the last completion, one request at a time.
    Time,
}

impl Measure {
    /// As results call it.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Distance => "track distance",
            Measure::Count => "track count",
            Measure::Bands => "bands moved",
            Measure::Stroke => "strokes",
            Measure::Time => "time",
        }
    }

    /// Its name in a cell of a table.
    pub fn short_name(self) -> &'static str {
        match self {
            Measure::Distance => "distance",
            Measure::Count => "count",
            Measure::Bands => "bands",
            Measure::Stroke | Measure::Time => self.name(),
        }
    }

    /// Its value in a run: movement by all causes, summed over the disks; time in nanoseconds.
    fn value_in(self, run: &MeasuredRun) -> f64 {
        let movement = &run.movement;
        match self {
            Measure::Time => run.elapsed_ns as f64,
            Measure::Distance => movement.track_distance.total as f64,
            Measure::Count => movement.track_count.total as f64,
            Measure::Bands => movement.bands_moved.total as f64,
            Measure::Stroke => movement.stroke_share.total,
        }
    }
}

/// A run: what it was, and what came of it.
struct MeasuredRun {
    scheme: UpdateScheme,
    configuration: Configuration,
    seed: u64,
    movement: Movement,
    elapsed_ns: u64,
}

/// All runs of a set.
pub struct MeasuredSet {
    runs: Vec<MeasuredRun>,
}

/// Name of a run, once its plan is gone.
pub type Key = (UpdateScheme, Configuration, u64);

/// Key of each plan.
pub fn keys(plans: &[ArrayPlan]) -> Vec<Key> {
    plans.iter().map(|plan| (plan.scheme, plan.configuration, plan.seed)).collect()
}

impl MeasuredSet {
    /// Of runs in the order of their keys; those that were not made are left out.
    pub fn new(keys: &[Key], outcomes: &[Option<Outcome>]) -> MeasuredSet {
        let run = |(&(scheme, configuration, seed), outcome): (&Key, &Option<Outcome>)| {
            let outcome = outcome.as_ref()?;
            let movement = outcome.movement.unwrap_or_default();
            Some(MeasuredRun { scheme, configuration, seed, movement, elapsed_ns: outcome.elapsed_ns })
        };
        MeasuredSet { runs: keys.iter().zip(outcomes).filter_map(run).collect() }
    }

    fn all(&self, scheme: UpdateScheme, configuration: Configuration) -> impl Iterator<Item = &MeasuredRun> {
        self.runs.iter().filter(move |run| run.scheme == scheme && run.configuration == configuration)
    }

    /// Ratio of two measured values over the seeds that both have: a mean and its spread.
    fn ratio(
        &self,
        measure: Measure,
        of: (UpdateScheme, Configuration),
        to: (UpdateScheme, Configuration),
    ) -> SeedSpread {
        let ratios = self.all(of.0, of.1).filter_map(|run| {
            let base = self.all(to.0, to.1).find(|base| base.seed == run.seed)?;
            Some(measure.value_in(run) / measure.value_in(base))
        });
        SeedSpread::from_values(ratios)
    }

    /// Multiple of that of another configuration. Nothing against nothing is not a number.
    pub fn against(
        &self,
        scheme: UpdateScheme,
        measure: Measure,
        configuration: Configuration,
        to: Configuration,
    ) -> SeedSpread {
        self.ratio(measure, (scheme, configuration), (scheme, to))
    }

    /// Multiple of that of another scheme in the same configuration.
    pub fn against_scheme(
        &self,
        scheme: UpdateScheme,
        measure: Measure,
        configuration: Configuration,
        to: UpdateScheme,
    ) -> SeedSpread {
        self.ratio(measure, (scheme, configuration), (to, configuration))
    }

    /// Multiple of *pure*.
    pub fn times_pure(&self, scheme: UpdateScheme, measure: Measure, configuration: Configuration) -> SeedSpread {
        self.against(scheme, measure, configuration, Configuration::Pure)
    }

    /// Share of the host's own accesses in the distance added to that of *pure*.
    pub fn host_share(&self, scheme: UpdateScheme, configuration: Configuration) -> f64 {
        let shares = self.all(scheme, configuration).filter_map(|run| {
            let base = self.all(scheme, Configuration::Pure).find(|base| base.seed == run.seed)?;
            let added = |of: fn(&Movement) -> u64| of(&run.movement) as f64 - of(&base.movement) as f64;
            Some(added(|m| m.track_distance.host) / added(|m| m.track_distance.total))
        });
        SeedSpread::from_values(shares).mean
    }

    /// True if anything of the kind was counted at all.
    pub fn counts(&self, scheme: UpdateScheme, measure: Measure) -> bool {
        self.all(scheme, Configuration::Pure).any(|run| measure.value_in(run) > 0.0)
    }
}
