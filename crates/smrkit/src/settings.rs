//! Settings of a run: when requests arrive, their order, and the state of the disk before.

pub mod rebuild;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::names::known;
use crate::schema::{Count, ValueKind, kept_as_text, share};
use crate::units::Nanos;

/// When requests arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// As soon as one of the commands outstanding completes (closed loop).
    #[default]
    FlatOut,
    /// At the trace's own times (open loop).
    Trace,
    /// After the trace's think time for the request before, from when a command outstanding completes (closed loop).
    Closed,
}

/// The order of waiting commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// First come, first served.
    Fcfs,
    /// In the direction of the head's movement, then back (LOOK).
    Elevator,
    /// Shortest positioning time first.
    Sptf,
    /// As each drive's file says; first come, first served where it says nothing.
    #[default]
    Drive,
}

/// One of a few values that a setting can have.
#[derive(Clone, Copy, Debug)]
pub struct SettingChoice<T> {
    /// The value.
    pub value: T,
    /// Its name in options and results.
    pub name: &'static str,
    /// Its meaning, in a few words.
    pub meaning: &'static str,
}

impl Arrival {
    /// All of them.
    pub const ALL: [SettingChoice<Arrival>; 3] = [
        SettingChoice { value: Arrival::FlatOut, name: "flat-out", meaning: "As soon as one is completed" },
        SettingChoice { value: Arrival::Trace, name: "trace", meaning: "At their own times" },
        SettingChoice {
            value: Arrival::Closed,
            name: "closed",
            meaning: "After the think time that the trace has for each request",
        },
    ];
}

impl Queue {
    /// All of them.
    pub const ALL: [SettingChoice<Queue>; 4] = [
        SettingChoice { value: Queue::Fcfs, name: "fcfs", meaning: "First come, first served" },
        SettingChoice { value: Queue::Elevator, name: "elevator", meaning: "In the direction of the head's movement" },
        SettingChoice { value: Queue::Sptf, name: "sptf", meaning: "Shortest positioning time first" },
        SettingChoice { value: Queue::Drive, name: "drive", meaning: "As each drive's file says, at a depth above 1" },
    ];

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        Queue::ALL[self as usize].name
    }
}

/// For [`ValueKind::read`]: a user gave the text, it is not a default.
const GIVEN: bool = true;

/// The state of the disk before the first request; as text `full`, `none`, `sequential`, `random` or `random:SHARE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Prefill {
    /// Every LBA was written once, in order, at no cost, and the persistent cache is empty: a disk in use.
    #[default]
    Full,
    /// Never written.
    None,
    /// Every LBA written once, in order, by requests that are served and not counted.
    Sequential,
    /// Random 4 KiB writes until this share of the persistent cache is in use; where there is none, random 1 MiB writes,
    /// as many as make up this share of the disk.
    Random(f64),
    /// As an earlier run left it.
    Saved,
}

impl fmt::Display for Prefill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Prefill::Full => f.write_str("full"),
            Prefill::None => f.write_str("none"),
            Prefill::Sequential => f.write_str("sequential"),
            Prefill::Random(share) => write!(f, "random:{share}"),
            Prefill::Saved => f.write_str("saved"),
        }
    }
}

impl FromStr for Prefill {
    type Err = Error;
    fn from_str(text: &str) -> Result<Prefill, Error> {
        match text.split_once(':') {
            None if text == "full" => Ok(Prefill::Full),
            None if text == "none" => Ok(Prefill::None),
            None if text == "sequential" => Ok(Prefill::Sequential),
            None if text == "random" => Ok(Prefill::Random(1.0)),
            None if text == "saved" => Ok(Prefill::Saved),
            Some(("random", text)) => Ok(Prefill::Random(share().read(text, GIVEN)?)),
            _ => {
                // `saved` is not offered: {from_state} sets it, and records hold it.
                let names = ["full", "none", "sequential", "random", "random:SHARE"];
                Err(Error::Usage(format!("'{text}': {}", known(text, names.into_iter()))))
            }
        }
    }
}

kept_as_text!(Prefill);

/// Requests served before counting begins; as text a number of requests, or `until-steady`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// Requests until cleaning has settled: see the engine's page.
    UntilSteady,
    /// A number of requests.
    #[serde(untagged)]
    Requests(u64),
}

const UNTIL_STEADY: &str = "until-steady";

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::Requests(requests) => requests.fmt(f),
            Warmup::UntilSteady => f.write_str(UNTIL_STEADY),
        }
    }
}

impl FromStr for Warmup {
    type Err = Error;
    fn from_str(text: &str) -> Result<Warmup, Error> {
        match text.trim() {
            UNTIL_STEADY => Ok(Warmup::UntilSteady),
            text => Ok(Warmup::Requests(Count(0, u64::MAX).read(text, GIVEN)?)),
        }
    }
}

/// Settings of a run, with the defaults of the command line; `engine` in outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// When requests arrive.
    pub arrival: Arrival,
    /// Commands outstanding, at least 1.
    pub depth: u32,
    /// Pause between a completion and the next request.
    #[serde(rename = "think_ns")]
    pub think: Nanos,
    /// Factor on the trace's times.
    pub time_scale: f64,
    /// The order of waiting commands.
    pub queue: Queue,
    /// The state before.
    pub prefill: Prefill,
    /// Requests served before counting begins.
    pub warmup: Warmup,
    /// The run ends with the first request that arrives this long after counting began; it is not served.
    #[serde(rename = "until_ns")]
    pub until: Option<Nanos>,
    /// Take addresses modulo the capacity.
    pub fold: bool,
    /// Verify every read.
    pub check: bool,
    /// Count the head's movements.
    pub movement: bool,
    /// Cut the power at this physical write, from 1 and the beginning of counting; needs `check`.
    pub power_cut: Option<u64>,
    /// The seed of everything random; a key of its own in outcomes.
    #[serde(skip)]
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            arrival: Arrival::FlatOut,
            depth: 1,
            think: Nanos::ZERO,
            time_scale: 1.0,
            queue: Queue::Drive,
            prefill: Prefill::Full,
            warmup: Warmup::Requests(0),
            until: None,
            fold: false,
            check: false,
            movement: false,
            power_cut: None,
            seed: 1,
        }
    }
}

impl Settings {
    /// Refuses settings that make no sense, with the remedy.
    pub fn validate(&self) -> Result<(), Error> {
        let wrong = |message: &str| Err(Error::Usage(message.into()));
        if self.depth == 0 || self.depth > 65_536 {
            return wrong("{depth} takes the number of commands outstanding, from 1 to 65536");
        }
        if !(self.time_scale > 0.0 && self.time_scale <= 1e9) {
            return wrong("{time_scale} takes a factor above 0 and at most 1e9");
        }
        if self.arrival != Arrival::FlatOut && self.think > Nanos::ZERO {
            return wrong("{think} is the same for all requests: leave it out, or use {arrival} flat-out");
        }
        if matches!(self.queue, Queue::Elevator | Queue::Sptf) && self.depth == 1 {
            return wrong("a queue of depth 1 has nothing to order: add {depth} 32, or use {queue} fcfs");
        }
        if self.power_cut == Some(0) {
            return wrong("{power_cut} takes the number of a physical write, from 1 on");
        }
        if self.power_cut.is_some() && !self.check {
            return wrong("{power_cut} needs {check}, or what is lost would not be seen");
        }
        if let Prefill::Random(share) = self.prefill
            && !(0.0..=1.0).contains(&share)
        {
            return wrong("{prefill} random:SHARE takes a share from 0 to 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_up_to_their_bounds_make_sense_and_no_others() {
        type Change = fn(&mut Settings);
        let with = |change: Change| {
            let mut settings = Settings { depth: 2, check: true, ..Settings::default() };
            change(&mut settings);
            settings.validate().map_err(|error| error.to_string())
        };
        let sound: [Change; 14] = [
            |one| one.depth = 1,
            |one| one.depth = 65_536,
            |one| one.time_scale = 1e9,
            |one| one.time_scale = f64::MIN_POSITIVE,
            |one| one.think = Nanos(1),
            |one| one.arrival = Arrival::Trace,
            |one| one.arrival = Arrival::Closed,
            |one| one.queue = Queue::Elevator,
            |one| one.queue = Queue::Sptf,
            |one| (one.queue, one.depth) = (Queue::Fcfs, 1),
            |one| (one.queue, one.depth) = (Queue::Drive, 1),
            |one| one.power_cut = Some(1),
            |one| one.prefill = Prefill::Random(0.0),
            |one| (one.prefill, one.check) = (Prefill::Random(1.0), false),
        ];
        assert!(sound.into_iter().all(|change| with(change).is_ok()));
        let senseless: [(&str, Change); 14] = [
            ("from 1 to 65536", |one| one.depth = 0),
            ("from 1 to 65536", |one| one.depth = 65_537),
            ("above 0 and at most 1e9", |one| one.time_scale = 0.0),
            ("above 0 and at most 1e9", |one| one.time_scale = f64::NAN),
            ("above 0 and at most 1e9", |one| one.time_scale = 1.000001e9),
            ("the same for all requests", |one| (one.arrival, one.think) = (Arrival::Trace, Nanos(1))),
            ("the same for all requests", |one| (one.arrival, one.think) = (Arrival::Closed, Nanos(1))),
            ("has nothing to order", |one| (one.queue, one.depth) = (Queue::Elevator, 1)),
            ("has nothing to order", |one| (one.queue, one.depth) = (Queue::Sptf, 1)),
            ("from 1 on", |one| one.power_cut = Some(0)),
            ("what is lost would not be seen", |one| (one.power_cut, one.check) = (Some(1), false)),
            ("a share from 0 to 1", |one| one.prefill = Prefill::Random(1.01)),
            ("a share from 0 to 1", |one| one.prefill = Prefill::Random(-0.01)),
            ("a share from 0 to 1", |one| one.prefill = Prefill::Random(f64::NAN)),
        ];
        for (problem, change) in senseless {
            let error = with(change).unwrap_err();
            assert!(error.contains(problem), "{problem}: {error}");
        }
    }

    #[test]
    fn states_warm_ups_and_queues_are_read_back_as_they_are_written() {
        for text in ["full", "none", "sequential", "random:0.25", "random:1"] {
            assert_eq!(text.parse::<Prefill>().unwrap().to_string(), text);
        }
        assert_eq!("random".parse::<Prefill>().unwrap(), Prefill::Random(1.0));
        assert!(["", "random:2", "full:1", "sequential:0.5"].iter().all(|text| text.parse::<Prefill>().is_err()));
        assert!("fll".parse::<Prefill>().unwrap_err().to_string().contains("did you mean `full`?"));
        for text in ["0", "1", "until-steady"] {
            let warmup: Warmup = text.parse().unwrap();
            assert_eq!(warmup.to_string(), text);
            let record = serde_json::to_string(&warmup).unwrap();
            assert_eq!(serde_json::from_str::<Warmup>(&record).unwrap(), warmup);
        }
        assert!("steady".parse::<Warmup>().is_err());
        assert!(Queue::ALL.iter().all(|choice| choice.value.name() == choice.name));
        let recorded = |choice: &SettingChoice<Queue>| serde_json::to_value(choice.value).unwrap() == choice.name;
        assert!(Queue::ALL.iter().all(recorded));
        let recorded = |choice: &SettingChoice<Arrival>| serde_json::to_value(choice.value).unwrap() == choice.name;
        assert!(Arrival::ALL.iter().all(recorded));
    }
}
