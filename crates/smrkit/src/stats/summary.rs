//! Outcomes without what grows with the run: a few kilobytes each drive.

use super::latency_buckets::LatencyBuckets;
use super::outcome::{Histograms, Outcome, Outcomes, RunRecord, SourceCounts, Surface, Timeline};
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
    /// Leaves out series, surfaces and distributions, and of members what their array's record tells: their keys stay, and hold
    /// nothing.
    pub fn summary(&self) -> Outcome {
        let window_ns = self.timeline.window_ns;
        let source = |of: &SourceCounts| SourceCounts { latency_buckets: LatencyBuckets::default(), ..of.clone() };
        Outcome {
            timeline: Timeline { window_ns, ..Timeline::default() },
            surface: Surface { part_sectors: self.surface.part_sectors, ..Surface::default() },
            latency_histogram: Histograms::default(),
            latency_buckets: LatencyBuckets::default(),
            by_source: self.by_source.as_ref().map(|sources| sources.iter().map(source).collect()),
            members: self.members.iter().map(|member| member.summary_in(self)).collect(),
            rebuild: self.rebuild.as_ref().map(|rebuild| Rebuild {
                series: Series { window_ns: rebuild.series.window_ns, ..Series::default() },
                ..rebuild.clone()
            }),
            ..self.clone()
        }
    }

    /// The summary of a member of `array`: `run.system` of the outermost record has each member's own, and the verdict is told of
    /// the whole.
    fn summary_in(&self, array: &Outcome) -> Outcome {
        let mut summary = self.summary();
        summary.run = RunRecord::default();
        summary.verdict.text.clear();
        if self.parameters == array.parameters && self.asked == array.asked {
            summary.parameters.clear();
            summary.asked.clear();
        }
        summary
    }
}
