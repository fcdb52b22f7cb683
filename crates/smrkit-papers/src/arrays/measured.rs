//! What was counted of each configuration, and how many times that of *pure* it is.

use smrkit::stats::outcome::{Movement, Outcome};

use super::super::row::Spread;
use super::setup::{ArrayPlan, Configuration, Scheme};

/// What is counted. No two of them stand in one claim.
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
    pub fn of(self, movement: &Movement) -> f64 {
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
    scheme: Scheme,
    configuration: Configuration,
    seed: u64,
    movement: Movement,
}

/// All runs of a set.
pub struct Measured {
    runs: Vec<Run>,
}

/// What a run was, once its plan is gone.
pub type Key = (Scheme, Configuration, u64);

/// What each plan is.
pub fn keys(plans: &[ArrayPlan]) -> Vec<Key> {
    plans.iter().map(|plan| (plan.scheme, plan.configuration, plan.seed)).collect()
}

impl Measured {
    /// Of runs in the order of their keys.
    pub fn new(keys: &[Key], outcomes: &[Outcome]) -> Measured {
        let run = |(&(scheme, configuration, seed), outcome): (&Key, &Outcome)| {
            let movement = outcome.movement.unwrap_or_default();
            Run { scheme, configuration, seed, movement }
        };
        Measured { runs: keys.iter().zip(outcomes).map(run).collect() }
    }

    fn all(&self, scheme: Scheme, configuration: Configuration) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.scheme == scheme && run.configuration == configuration)
    }

    /// How many times a movement that of `to` is, for each seed.
    fn ratios(
        &self,
        scheme: Scheme,
        configuration: Configuration,
        to: Configuration,
        of: impl Fn(&Movement) -> f64,
    ) -> impl Iterator<Item = f64> {
        self.all(scheme, configuration).filter_map(move |run| {
            let base = self.all(scheme, to).find(|base| base.seed == run.seed)?;
            Some(of(&run.movement) / of(&base.movement))
        })
    }

    /// The same as a mean and its spread over seeds. Nothing against nothing is not a number.
    pub fn against(&self, scheme: Scheme, measure: Measure, configuration: Configuration, to: Configuration) -> Spread {
        Spread::of(self.ratios(scheme, configuration, to, |movement| measure.of(movement)))
    }

    /// How many times that of *pure*.
    pub fn times_pure(&self, scheme: Scheme, measure: Measure, configuration: Configuration) -> Spread {
        self.against(scheme, measure, configuration, Configuration::Pure)
    }

    /// Which share of the distance added to that of *pure* is the host's own accesses'.
    pub fn host_share(&self, scheme: Scheme, configuration: Configuration) -> f64 {
        let shares = self.all(scheme, configuration).filter_map(|run| {
            let base = self.all(scheme, Configuration::Pure).find(|base| base.seed == run.seed)?;
            let added = |of: fn(&Movement) -> u64| of(&run.movement) as f64 - of(&base.movement) as f64;
            Some(added(|m| m.track_distance.host) / added(|m| m.track_distance.total))
        });
        Spread::of(shares).mean
    }

    /// Whether anything of the kind was counted at all.
    pub fn counts(&self, scheme: Scheme, measure: Measure) -> bool {
        self.all(scheme, Configuration::Pure).any(|run| measure.of(&run.movement) > 0.0)
    }
}
