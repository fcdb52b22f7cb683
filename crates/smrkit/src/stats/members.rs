//! Members of arrays in result files: whole records, or in a summary short ones, which leave out what is as in a record of nothing.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::latency::Latency;
use super::outcome::{Capacity, Cleaning, CommandTimes, Latencies, Outcome, Verdict};

/// Members that tables list one by one; more are summed up, and their short records leave out what only a list shows.
pub const LISTED_MAX: usize = 16;

/// The members of an array with nothing but what tables show, and no parameters where they are the array's.
pub(super) fn shortened(array: &Outcome) -> Vec<Outcome> {
    let is_listed = array.members.len() <= LISTED_MAX;
    let listed = |ns| if is_listed { ns } else { 0 };
    let short = |member: &Outcome| {
        let all = &member.latency_ns.all;
        let all = Latency { count: all.count, mean: listed(all.mean), max: all.max, ..Latency::default() };
        let commands_over_7s = member.verdict.commands.commands_over_7s;
        Outcome {
            layer: member.layer.clone(),
            drive: member.drive.clone(),
            parameters: if member.parameters == array.parameters {
                Default::default()
            } else {
                member.parameters.clone()
            },
            requests: member.requests,
            write_amplification: member.write_amplification,
            latency_ns: Latencies { all, ..Latencies::default() },
            busy_ns: member.busy_ns,
            buffer_write_ns: member.buffer_write_ns,
            cleaning: Cleaning { ns: listed(member.cleaning.ns), ..Cleaning::default() },
            capacity: Capacity { raw_sectors: member.capacity.raw_sectors, ..Capacity::default() },
            verdict: Verdict {
                commands: CommandTimes { commands_over_7s, ..CommandTimes::default() },
                ..Verdict::default()
            },
            ..Outcome::default()
        }
    };
    array.members.iter().map(short).collect()
}

fn nothing() -> serde_json::Result<Value> {
    serde_json::to_value(Outcome::default())
}

/// Writes members, those that don't tell their system without what is as in `nothing`; for `#[serde(with = …)]`.
pub(super) fn serialize<S: Serializer>(members: &[Outcome], to: S) -> Result<S::Ok, S::Error> {
    if members.iter().all(|member| !member.run.system.is_empty()) {
        return members.serialize(to);
    }
    let nothing = nothing().map_err(S::Error::custom)?;
    let record = |member: &Outcome| {
        let mut record = serde_json::to_value(member)?;
        if member.run.system.is_empty() {
            strip(&mut record, &nothing);
        }
        Ok(record)
    };
    members.iter().map(record).collect::<serde_json::Result<Vec<_>>>().map_err(S::Error::custom)?.serialize(to)
}

fn strip(record: &mut Value, nothing: &Value) {
    if let (Value::Object(record), Value::Object(nothing)) = (record, nothing) {
        record.retain(|key, part| nothing.get(key) != Some(part));
        record.iter_mut().for_each(|(key, part)| strip(part, nothing.get(key).unwrap_or(&Value::Null)));
    }
}

/// Reads members; for `#[serde(with = …)]`.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Outcome>, D::Error> {
    let nothing = nothing().map_err(D::Error::custom)?;
    let record = |read: Value| {
        let mut record = nothing.clone();
        fill(&mut record, read);
        serde_json::from_value(record)
    };
    Vec::<Value>::deserialize(from)?.into_iter().map(record).collect::<Result<_, _>>().map_err(D::Error::custom)
}

fn fill(record: &mut Value, parts: Value) {
    match (record, parts) {
        (Value::Object(record), Value::Object(parts)) => {
            parts.into_iter().for_each(|(key, part)| fill(record.entry(key).or_insert(Value::Null), part));
        }
        (record, parts) => *record = parts,
    }
}
