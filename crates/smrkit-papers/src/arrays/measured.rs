//! Counts of each configuration, also as multiples of *pure*.

use smrkit::stats::outcome::{Movement, Outcome};

use super::super::row::Spread;
use super::setup::{ArrayPlan, Configuration, UpdateScheme};

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
}

impl Measure {
    /// As results call it.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Distance => "track distance",
            Measure::Count => "track count",
            Measure::Bands => "bands moved",
            Measure::Stroke => "strokes",
        }
    }

    /// Its value, by all causes, summed over the disks.
    pub fn value_in(self, movement: &Movement) -> f64 {
        match self {
            Measure::Distance => movement.track_distance.total as f64,
            Measure::Count => movement.track_count.total as f64,
            Measure::Bands => movement.bands_moved.total as f64,
            Measure::Stroke => movement.stroke_share.total,
        }
    }
}

/// A run: what it was, and what came of it.
struct Run {
    scheme: UpdateScheme,
    configuration: Configuration,
    seed: u64,
    movement: Movement,
}

/// All runs of a set.
pub struct MeasuredSet {
    runs: Vec<Run>,
}

/// Name of a run, once its plan is gone.
pub type Key = (UpdateScheme, Configuration, u64);

/// Key of each plan.
pub fn keys(plans: &[ArrayPlan]) -> Vec<Key> {
    plans.iter().map(|plan| (plan.scheme, plan.configuration, plan.seed)).collect()
}

impl MeasuredSet {
    /// Of runs in the order of their keys.
    pub fn new(keys: &[Key], outcomes: &[Outcome]) -> MeasuredSet {
        let run = |(&(scheme, configuration, seed), outcome): (&Key, &Outcome)| {
            let movement = outcome.movement.unwrap_or_default();
            Run { scheme, configuration, seed, movement }
        };
        MeasuredSet { runs: keys.iter().zip(outcomes).map(run).collect() }
    }

    fn all(&self, scheme: UpdateScheme, configuration: Configuration) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.scheme == scheme && run.configuration == configuration)
    }

    /// Movement as a multiple of that of `to`, for each seed.
    fn ratios(
        &self,
        scheme: UpdateScheme,
        configuration: Configuration,
        to: Configuration,
        of: impl Fn(&Movement) -> f64,
    ) -> impl Iterator<Item = f64> {
        self.all(scheme, configuration).filter_map(move |run| {
            let base = self.all(scheme, to).find(|base| base.seed == run.seed)?;
            Some(of(&run.movement) / of(&base.movement))
        })
    }

    /// The ratio as a mean and its spread over seeds. Nothing against nothing is not a number.
    pub fn against(
        &self,
        scheme: UpdateScheme,
        measure: Measure,
        configuration: Configuration,
        to: Configuration,
    ) -> Spread {
        Spread::from_values(self.ratios(scheme, configuration, to, |movement| measure.value_in(movement)))
    }

    /// Multiple of *pure*.
    pub fn times_pure(&self, scheme: UpdateScheme, measure: Measure, configuration: Configuration) -> Spread {
        self.against(scheme, measure, configuration, Configuration::Pure)
    }

    /// Share of the host's own accesses in the distance added to that of *pure*.
    pub fn host_share(&self, scheme: UpdateScheme, configuration: Configuration) -> f64 {
        let shares = self.all(scheme, configuration).filter_map(|run| {
            let base = self.all(scheme, Configuration::Pure).find(|base| base.seed == run.seed)?;
            let added = |of: fn(&Movement) -> u64| of(&run.movement) as f64 - of(&base.movement) as f64;
            Some(added(|m| m.track_distance.host) / added(|m| m.track_distance.total))
        });
        Spread::from_values(shares).mean
    }

    /// True if anything of the kind was counted at all.
    pub fn counts(&self, scheme: UpdateScheme, measure: Measure) -> bool {
        self.all(scheme, Configuration::Pure).any(|run| measure.value_in(&run.movement) > 0.0)
    }
}
