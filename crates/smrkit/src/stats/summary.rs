//! Outcomes without what grows with the run: a few kilobytes each.

use super::latency_buckets::LatencyBuckets;
use super::outcome::{Histograms, Outcome, Outcomes, SourceCounts, Surface, Timeline};
use super::rebuild::{Rebuild, Series};

impl Outcomes {
    /// A result file of these runs.
    pub fn new(runs: Vec<Outcome>) -> Outcomes {
        Outcomes { schema: 1, runs }
    }

    /// Each run's [`Outcome::summary`].
    pub fn summary(&self) -> Outcomes {
        Outcomes { schema: self.schema, runs: self.runs.iter().map(Outcome::summary).collect() }
    }
}

impl Outcome {
    /// Leaves out series, surfaces and distributions: their keys stay, and hold nothing.
    pub fn summary(&self) -> Outcome {
        let window_ns = self.timeline.window_ns;
        let source = |of: &SourceCounts| SourceCounts { latency_buckets: LatencyBuckets::default(), ..of.clone() };
        Outcome {
            timeline: Timeline { window_ns, ..Timeline::default() },
            surface: Surface { part_sectors: self.surface.part_sectors, ..Surface::default() },
            latency_histogram: Histograms::default(),
            latency_buckets: LatencyBuckets::default(),
            by_source: self.by_source.as_ref().map(|sources| sources.iter().map(source).collect()),
            members: self.members.iter().map(Outcome::summary).collect(),
            rebuild: self.rebuild.as_ref().map(|rebuild| Rebuild {
                course: Series { window_ns: rebuild.course.window_ns, ..Series::default() },
                ..rebuild.clone()
            }),
            ..self.clone()
        }
    }
}
