//! Members of arrays in result files: whole records, or the short rows of a summary.
//!
//! A row holds what tables of members show, under the keys of a whole record. Names, parameters and sizes are in it where they
//! are not those of the member before.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Outcome, Scalar};

/// Members that tables list one by one; more are summed up, and their rows leave out what only a list shows.
pub const LISTED_MAX: usize = 16;

/// Numbers that are not 0, by their keys.
type Numbers = BTreeMap<String, u64>;

/// Row of a member.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MemberRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drive: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<BTreeMap<String, Scalar>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    capacity: Numbers,
    requests: u64,
    busy_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    buffer_write_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_amplification: Option<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    latency_ns: BTreeMap<String, Numbers>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    cleaning: Numbers,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    verdict: Numbers,
}

/// The members of an array with nothing but what their rows hold, and no parameters where they are the array's.
pub(in crate::stats) fn shortened(array: &Outcome) -> Vec<Outcome> {
    let short = |member: &Outcome| {
        let mut short = MemberRow::new(member, &nothing(), array.members.len()).member(&nothing());
        if short.parameters == array.parameters {
            short.parameters.clear();
        }
        short
    };
    array.members.iter().map(short).collect()
}

/// A member of which nothing is told.
fn nothing() -> Outcome {
    let mut nothing = Outcome::blank();
    nothing.verdict.text.clear();
    nothing
}

/// A member as it is written.
#[derive(Serialize)]
#[serde(untagged)]
enum WrittenMember<'a> {
    Whole(&'a Outcome),
    Row(Box<MemberRow>),
}

/// A member as it is read.
#[derive(Deserialize)]
#[serde(untagged)]
enum ReadMember {
    Whole(Box<Outcome>),
    Row(Box<MemberRow>),
}

/// Writes members, those that don't tell their system as rows; for `#[serde(with = …)]`.
pub(super) fn serialize<S: Serializer>(members: &[Outcome], to: S) -> Result<S::Ok, S::Error> {
    let nothing = nothing();
    to.collect_seq(members.iter().enumerate().map(|(at, member)| {
        let before = at.checked_sub(1).map_or(&nothing, |before| &members[before]);
        match member.run.system.is_empty() {
            true => WrittenMember::Row(Box::new(MemberRow::new(member, before, members.len()))),
            false => WrittenMember::Whole(member),
        }
    }))
}

/// Reads members; for `#[serde(with = …)]`.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Outcome>, D::Error> {
    let nothing = nothing();
    let mut members: Vec<Outcome> = Vec::new();
    for read in Vec::<ReadMember>::deserialize(from)? {
        let member = match read {
            ReadMember::Whole(member) => *member,
            ReadMember::Row(row) => row.member(members.last().unwrap_or(&nothing)),
        };
        members.push(member);
    }
    Ok(members)
}

fn numbers(all: &[(&str, u64)]) -> Numbers {
    all.iter().filter(|(_, number)| *number > 0).map(|&(key, number)| (key.to_string(), number)).collect()
}

impl MemberRow {
    /// The row of one of `count` members, after another.
    fn new(member: &Outcome, before: &Outcome, count: usize) -> MemberRow {
        fn new<T: Clone + PartialEq>(own: &T, before: &T) -> Option<T> {
            (own != before).then(|| own.clone())
        }
        let (latency, commands) = (&member.latency_ns.all, &member.verdict.commands);
        let raw_sectors = member.capacity.raw_sectors;
        let listed = |number: u64| if count > LISTED_MAX { 0 } else { number };
        let latency = numbers(&[("mean", listed(latency.mean)), ("max", latency.max)]);
        MemberRow {
            layer: new(&member.layer, &before.layer),
            drive: new(&member.drive, &before.drive),
            parameters: new(&member.parameters, &before.parameters),
            capacity: numbers(&[("raw_sectors", new(&raw_sectors, &before.capacity.raw_sectors).unwrap_or(0))]),
            requests: member.requests,
            busy_ns: member.busy_ns,
            buffer_write_ns: member.buffer_write_ns,
            write_amplification: member.write_amplification,
            latency_ns: BTreeMap::from([("all".to_string(), latency)]),
            cleaning: numbers(&[("ns", listed(member.cleaning.ns))]),
            verdict: numbers(&[("commands_over_7s", commands.commands_over_7s)]),
        }
    }

    /// The member, as far as the row tells of it.
    fn member(self, before: &Outcome) -> Outcome {
        let number = |of: Option<&Numbers>, key: &str| of.and_then(|of| of.get(key)).copied().unwrap_or(0);
        let mut member = nothing();
        member.layer = self.layer.unwrap_or_else(|| before.layer.clone());
        member.drive = self.drive.unwrap_or_else(|| before.drive.clone());
        member.parameters = self.parameters.unwrap_or_else(|| before.parameters.clone());
        let raw_sectors = self.capacity.get("raw_sectors");
        member.capacity.raw_sectors = raw_sectors.copied().unwrap_or(before.capacity.raw_sectors);
        (member.requests, member.latency_ns.all.count) = (self.requests, self.requests);
        (member.busy_ns, member.buffer_write_ns) = (self.busy_ns, self.buffer_write_ns);
        member.write_amplification = self.write_amplification;
        let latency = self.latency_ns.get("all");
        member.latency_ns.all.mean = number(latency, "mean");
        member.latency_ns.all.max = number(latency, "max");
        member.cleaning.ns = number(Some(&self.cleaning), "ns");
        member.verdict.commands.commands_over_7s = number(Some(&self.verdict), "commands_over_7s");
        member
    }
}
