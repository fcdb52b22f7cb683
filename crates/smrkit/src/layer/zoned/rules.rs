//! The rules of a host-managed disk, and what is kept of the requests that broke one.

use std::collections::BTreeMap;

use crate::error::Fault;
use crate::layer::Scalar;
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

impl Rule {
    const ALL: [Rule; 5] = [Rule::AtPointer, Rule::Full, Rule::AcrossZones, Rule::Active, Rule::ReadPast];

    /// The counter of those who broke it.
    fn counter(self) -> &'static str {
        match self {
            Rule::AtPointer => "writes_off_pointer",
            Rule::Full => "writes_to_full_zones",
            Rule::AcrossZones => "writes_across_zones",
            Rule::Active => "zones_beyond_max_active",
            Rule::ReadPast => "reads_past_pointer",
        }
    }
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
#[derive(Default)]
pub(super) struct Violations {
    counts: [u64; Rule::ALL.len()],
    described: Vec<String>,
}

impl Violations {
    pub fn count(&mut self, request: u64, op: Op, lba: Lba, n: u64, broken: BrokenRule) {
        self.counts[broken.rule as usize] += 1;
        if self.described.len() < DESCRIBED {
            self.described.push(broken.describe(request, op, lba, n));
        }
    }

    pub fn stats(&self) -> BTreeMap<String, Scalar> {
        let by_rule = Rule::ALL.into_iter().zip(self.counts).map(|(rule, count)| (rule.counter(), count));
        let all = by_rule.chain([("violations", self.counts.iter().sum())]);
        let mut stats: BTreeMap<String, Scalar> = all.map(|(name, count)| (name.into(), Scalar::Int(count))).collect();
        if !self.described.is_empty() {
            stats.insert("first_violations".into(), Scalar::Text(self.described.join("; ")));
        }
        stats
    }
}
