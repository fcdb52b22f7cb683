//! The layer's own counters by name, and those that verdicts use.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::schema::Scalar;

const VIOLATIONS: &str = "violations";
const WRITES_TO_FULL_ZONES: &str = "writes_to_full_zones";
const FIRST_VIOLATIONS: &str = "first_violations";
const FIRST_CLEANING: &str = "first_cleaning_request";

/// A layer's own counters, by the names on its page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerStats(BTreeMap<String, Scalar>);

/// Requests that broke a rule of zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneViolations {
    /// All of them.
    pub all: u64,
    /// Writes to zones that were full.
    pub to_full_zones: u64,
    /// Descriptions of the first ones.
    pub first: Vec<String>,
}

impl LayerStats {
    /// Counts by name, and the first request that waited for cleaning, if one did.
    pub fn new<const N: usize>(counts: [(&str, u64); N], first_cleaning: Option<u64>) -> LayerStats {
        let first = first_cleaning.map(|request| (FIRST_CLEANING, request));
        let all = counts.into_iter().chain(first);
        LayerStats(all.map(|(name, count)| (name.into(), Scalar::Int(count))).collect())
    }

    /// Adds a counter.
    pub fn with(mut self, name: &str, value: Scalar) -> LayerStats {
        self.0.insert(name.into(), value);
        self
    }

    /// Adds the counters of a layer with rules of zones.
    pub fn with_violations(self, violations: &ZoneViolations) -> LayerStats {
        let counts = [(VIOLATIONS, violations.all), (WRITES_TO_FULL_ZONES, violations.to_full_zones)];
        let all = counts.into_iter().fold(self, |all, (name, count)| all.with(name, Scalar::Int(count)));
        match violations.first.is_empty() {
            true => all,
            false => all.with(FIRST_VIOLATIONS, Scalar::Texts(violations.first.clone())),
        }
    }

    /// Requests that broke a rule of zones.
    pub fn violations(&self) -> ZoneViolations {
        let count = |name: &str| if let Some(&Scalar::Int(count)) = self.get(name) { count } else { 0 };
        let first = match self.get(FIRST_VIOLATIONS) {
            Some(Scalar::Texts(first)) => first.clone(),
            _ => Vec::new(),
        };
        ZoneViolations { all: count(VIOLATIONS), to_full_zones: count(WRITES_TO_FULL_ZONES), first }
    }
}

/// Declares a layer's counters, which are named by their fields.
macro_rules! counts {
    ($name:ident { $($(#[$about:meta])* $count:ident),+ }) => {
        #[derive(Default, serde::Serialize, serde::Deserialize)]
        struct $name {
            $($(#[$about])* $count: u64,)+
            first_cleaning_request: Option<u64>,
        }

        impl $name {
            fn stats(&self) -> $crate::layer::LayerStats {
                let counts = [$((stringify!($count), self.$count)),+];
                $crate::layer::LayerStats::new(counts, self.first_cleaning_request)
            }
        }
    };
}

/// The methods of a layer that return and reset its `counts`.
macro_rules! layer_counts {
    () => {
        fn stats(&self) -> $crate::layer::LayerStats {
            self.counts.stats()
        }

        fn reset_stats(&mut self) {
            self.counts = Default::default();
        }
    };
}

pub(super) use {counts, layer_counts};

impl Deref for LayerStats {
    type Target = BTreeMap<String, Scalar>;

    fn deref(&self) -> &BTreeMap<String, Scalar> {
        &self.0
    }
}

impl From<BTreeMap<String, Scalar>> for LayerStats {
    fn from(by_name: BTreeMap<String, Scalar>) -> LayerStats {
        LayerStats(by_name)
    }
}
