//! One part of a workload: a name and the values its keys were given.

use std::fmt;

use super::arrivals::Spread;
use super::catalog::{Key, WORKLOADS, WorkloadInfo, find};
use super::names::known;
use super::sizes::Sizes;
use super::value::Value;
use crate::error::Error;
use crate::units::Nanos;

/// A workload of the table with its values; those not given have the table's defaults.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub info: &'static WorkloadInfo,
    /// In the order of `info.keys`.
    values: Vec<Option<Value>>,
}

impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        self.info.name == other.info.name && self.values == other.values
    }
}

/// Of each group, at most one may be given: they say the same in different ways.
const EXCLUSIVE: &[&[&str]] = &[&["count", "duration", "bytes"], &["interval", "rate"]];

impl Part {
    /// The workload of this name, nothing set yet.
    pub fn named(name: &str) -> Result<Part, Error> {
        let Some(info) = find(name) else {
            return Err(Error::Usage(format!("unknown workload; {}", known(name, WORKLOADS.iter().map(|w| w.name)))));
        };
        Ok(Part { info, values: vec![None; info.keys.len()] })
    }

    /// Gives a key its value, once.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let Some(at) = self.info.keys.iter().position(|k| k.name == key) else {
            let names = known(key, self.info.keys.iter().map(|k| k.name));
            return Err(Error::Usage(format!("{} has no key of this name; {names}", self.info.name)));
        };
        if self.values[at].is_some() {
            return Err(Error::Usage(format!("`{key}` is given twice: keep one")));
        }
        self.values[at] = Some(self.info.keys[at].form.parse(value)?);
        Ok(())
    }

    /// Whether the values go together.
    pub fn check(&self) -> Result<(), Error> {
        let name = self.info.name;
        // cassuto-pc spreads its count over its duration, so that both have a meaning.
        let groups = EXCLUSIVE.iter().filter(|_| name != "cassuto-pc");
        for group in groups {
            let given: Vec<_> = group.iter().filter(|key| self.given(key).is_some()).copied().collect();
            if given.len() > 1 {
                return Err(Error::Usage(format!(
                    "{name}: {} exclude each other: give one of them",
                    given.join(" and ")
                )));
            }
        }
        if self.given("duration").is_some() && self.has("interval") && self.interval().0 == 0 {
            return Err(Error::Usage(format!(
                "{name}: with an interval of 0 time stands still: end it by count or bytes"
            )));
        }
        if let (Some(Value::Bytes(span)), true) = (self.given("span"), self.has("size"))
            && self.sizes("size").largest() > span / crate::units::SECTOR_BYTES
        {
            return Err(Error::Usage(format!(
                "{name}: a request of size={} does not fit into span={}: raise span or lower size",
                self.get("size"),
                self.get("span")
            )));
        }
        if self.has("run_min") && self.count("run_min") > self.count("run_max") {
            return Err(Error::Usage(format!("{name}: run_min is above run_max: swap them")));
        }
        Ok(())
    }

    /// Whether the workload knows this key.
    pub fn has(&self, key: &str) -> bool {
        self.info.key(key).is_some()
    }

    /// The value given, if one was.
    pub fn given(&self, key: &str) -> Option<&Value> {
        let at = self.info.keys.iter().position(|k| k.name == key)?;
        self.values[at].as_ref()
    }

    /// The value given, or the default. Asking for a key that has neither is a mistake in the table of workloads.
    pub fn get(&self, key: &str) -> Value {
        let default = || default(self.info.key(key));
        match self.given(key).cloned().or_else(default) {
            Some(value) => value,
            None => panic!("{}: key {key} has no value", self.info.name),
        }
    }

    /// A key of sizes.
    pub fn sizes(&self, key: &str) -> Sizes {
        match self.get(key) {
            Value::Sizes(sizes) => sizes,
            other => panic!("{key} is {other:?}"),
        }
    }

    /// A key that counts.
    pub fn count(&self, key: &str) -> u64 {
        match self.get(key) {
            Value::Count(count) => count,
            other => panic!("{key} is {other:?}"),
        }
    }

    /// A share or number.
    pub fn number(&self, key: &str) -> f64 {
        match self.get(key) {
            Value::Number(number) => number,
            other => panic!("{key} is {other:?}"),
        }
    }

    /// A duration.
    pub fn time(&self, key: &str) -> Nanos {
        match self.get(key) {
            Value::Duration(time) => time,
            other => panic!("{key} is {other:?}"),
        }
    }

    /// An amount of data, in sectors (rounded down).
    pub fn amount(&self, key: &str) -> u64 {
        match self.get(key) {
            Value::Bytes(bytes) => bytes / crate::units::SECTOR_BYTES,
            other => panic!("{key} is {other:?}"),
        }
    }

    /// Whether a key has this word.
    pub fn is(&self, key: &str, word: &str) -> bool {
        matches!(self.get(key), Value::Word(given) if given == word)
    }

    /// A stretch of addresses in sectors, percentages taken of `capacity`.
    pub fn reach(&self, key: &str, capacity: u64) -> u64 {
        match self.get(key) {
            Value::Bytes(bytes) => bytes / crate::units::SECTOR_BYTES,
            Value::Percent(percent) => (capacity as f64 * (percent / 100.0)) as u64,
            other => panic!("{key} is {other:?}"),
        }
    }

    /// The mean time between requests.
    pub fn interval(&self) -> Nanos {
        match self.given("rate") {
            Some(Value::Number(rate)) => Nanos((1e9 / rate).round() as u64),
            _ => self.time("interval"),
        }
    }

    /// How intervals are spread.
    pub fn spread(&self) -> Spread {
        match self.get("arrivals") {
            Value::Spread(spread) => spread,
            other => panic!("arrivals is {other:?}"),
        }
    }
}

fn default(key: Option<&Key>) -> Option<Value> {
    key.filter(|key| !key.default.is_empty()).and_then(|key| key.form.parse(key.default).ok())
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info.name)?;
        let given = self.info.keys.iter().zip(&self.values).filter_map(|(key, value)| Some((key, value.as_ref()?)));
        for (i, (key, value)) in given.enumerate() {
            write!(f, "{}{}={value}", if i == 0 { ':' } else { ',' }, key.name)?;
        }
        Ok(())
    }
}
