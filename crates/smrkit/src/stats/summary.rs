//! Outcomes without what grows with the run: below 8 kB, of arrays too.

use super::latency_buckets::LatencyBuckets;
use std::ops::Add;

use super::outcome::{Histograms, Outcome, Outcomes, SourceCounts, Surface, Timeline, shortened};
use super::rebuild::{MemberRebuild, Rebuild, Series};

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
    /// Leaves out series, surfaces and distributions: their keys stay, and hold nothing. Of members it keeps what tables show, and
    /// of a rebuild's the new ones, or of a scrub's their sum.
    pub fn summary(&self) -> Outcome {
        let window_ns = self.timeline.window_ns;
        let source = |of: &SourceCounts| SourceCounts { latency_buckets: LatencyBuckets::default(), ..of.clone() };
        Outcome {
            timeline: Timeline { window_ns, ..Timeline::default() },
            surface: Surface { part_sectors: self.surface.part_sectors, ..Surface::default() },
            latency_histogram: Histograms::default(),
            latency_buckets: LatencyBuckets::default(),
            by_source: self.by_source.as_ref().map(|sources| sources.iter().map(source).collect()),
            members: shortened(self),
            rebuild: self.rebuild.as_ref().map(|rebuild| Rebuild {
                series: Series { window_ns: rebuild.series.window_ns, ..Series::default() },
                members: new_or_all(&rebuild.members),
                ..rebuild.clone()
            }),
            ..self.clone()
        }
    }
}

/// The new members; all together where none is new.
fn new_or_all(members: &[MemberRebuild]) -> Vec<MemberRebuild> {
    match members.iter().any(|member| member.new) {
        true => members.iter().copied().filter(|member| member.new).collect(),
        false => members.iter().copied().reduce(Add::add).into_iter().collect(),
    }
}
