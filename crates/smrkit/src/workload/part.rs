//! One part of a workload: a name of the table, and the values that its keys were given.

use std::fmt;

use super::catalog::{WORKLOADS, WorkloadInfo, find};
use super::recipe::{Site, Streams};
use crate::error::Error;
use crate::names::known;
use crate::schema::{Refused, Values};

/// A workload of the table with its values; those not given have the table's defaults.
#[derive(Clone, Debug)]
pub(super) struct WorkloadPart {
    pub info: &'static WorkloadInfo,
    values: Values,
}

impl PartialEq for WorkloadPart {
    fn eq(&self, other: &WorkloadPart) -> bool {
        self.info.name == other.info.name && self.values == other.values
    }
}

impl WorkloadPart {
    /// The workload of this name, nothing set yet.
    pub fn named(name: &str) -> Result<WorkloadPart, Error> {
        let Some(info) = find(name) else {
            return Err(Error::Usage(format!(
                "no workload is called `{name}`; {}",
                known(name, WORKLOADS.iter().map(|w| w.name))
            )));
        };
        Ok(WorkloadPart { info, values: Values::new(info.keys()) })
    }

    /// Gives a key its value, once.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Refused> {
        self.values.set_once(key, value).map_err(|refused| match refused {
            Refused::Key(names) => Refused::Key(format!("{} has no key of this name; {names}", self.info.name)),
            other => other,
        })
    }

    /// Refuses values that don't go together.
    pub fn check(&self) -> Result<(), Error> {
        self.info.check(&self.values).map_err(|error| Error::Usage(format!("{}: {error}", self.info.name)))
    }

    /// The streams of its requests, for a host that sees `capacity` sectors; it is part number `number` of its workload.
    pub fn streams(&self, capacity: u64, seed: u64, number: u64) -> Streams {
        self.info.streams(&self.values, &Site { part: self.to_string(), capacity, seed, number })
    }
}

impl fmt::Display for WorkloadPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info.name)?;
        for (i, (key, value)) in self.values.given().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}
