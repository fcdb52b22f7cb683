//! The rules of a host-managed disk, and what is kept of the requests that broke one.

use serde::{Deserialize, Serialize};

use crate::error::Fault;
use crate::layer::{LayerStats, ZoneViolations};
use crate::request::Op;
use crate::units::Lba;

/// Broken rules that a result describes; all are counted.
const DESCRIBED: usize = 8;

/// A rule that a request can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A sequential zone is written at its write pointer.
    AtPointer,
    /// A full zone is reset before it is written again.
    Full,
    /// No write crosses from or into a sequential zone.
    AcrossZones,
    /// No more zones are active than the limit allows.
    Active,
    /// Nothing is read past a write pointer.
    ReadPast,
}

/// A rule that was broken, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BrokenRule {
    pub rule: Rule,
    pub zone: u64,
    /// The write pointer as an LBA, the other zone, or the number of active zones.
    pub limit: u64,
}

impl BrokenRule {
    fn describe(&self, request: u64, op: Op, lba: Lba, n: u64) -> String {
        let BrokenRule { rule, zone, limit } = self;
        let problem = match rule {
            Rule::AtPointer => format!("zone {zone} has its write pointer at LBA {limit}"),
            Rule::Full => format!("zone {zone} is full and was not reset"),
            Rule::AcrossZones => format!("it crosses from zone {zone} into zone {limit}"),
            Rule::Active => format!("zone {zone} would be active with {limit} others, the limit"),
            Rule::ReadPast => format!("zone {zone} is written up to LBA {limit} only"),
        };
        format!("request {request}, a {} of {n} sectors at LBA {lba}: {problem}", op.name())
    }

    /// Error of a disk that refuses the request.
    pub fn fault(&self, request: u64, op: Op, lba: Lba, n: u64) -> Box<Fault> {
        Box::new(Fault::ZoneRule(self.describe(request, op, lba, n)))
    }
}

/// The requests that broke a rule since counting began.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Violations {
    /// Of each rule, in their order.
    counts: [u64; 5],
    described: Vec<String>,
}

impl Violations {
    pub fn count(&mut self, request: u64, op: Op, lba: Lba, n: u64, broken: BrokenRule) {
        self.counts[broken.rule as usize] += 1;
        if self.described.len() < DESCRIBED {
            self.described.push(broken.describe(request, op, lba, n));
        }
    }

    pub fn stats(&self) -> LayerStats {
        let [off_pointer, to_full_zones, across_zones, beyond, reads] = self.counts;
        let others = [
            ("writes_off_pointer", off_pointer),
            ("writes_across_zones", across_zones),
            ("zones_beyond_max_active", beyond),
            ("reads_past_pointer", reads),
        ];
        let violations = ZoneViolations { all: self.counts.iter().sum(), to_full_zones, first: self.described.clone() };
        LayerStats::new(others, None).with_violations(&violations)
    }
}
