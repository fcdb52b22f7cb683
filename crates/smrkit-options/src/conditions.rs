//! Conditions of a run: arrivals, order, state before, size, how a trace is read.

use std::str::FromStr;

use clap::Args;
use smrkit::experiment::size::AskedCapacity;
use smrkit::schema::{Time, number};
use smrkit::settings::{Arrival, Prefill, Queue, Settings, Warmup};
use smrkit::units::Nanos;
use smrkit_trace::VolumeChoice;

use crate::value::{count, one_of, value};

/// Conditions of a run: how requests come, what they find, and how a trace is read.
#[derive(Args, Clone)]
pub struct Conditions {
    /// Pause between a completion and the next request.
    #[arg(long, value_parser = value(Time(0)), default_value = "0s", value_name = "TIME")]
    pub think: Nanos,
    /// Ignore the trace's times, or keep them [default: flat-out; of the log of a served drive closed].
    #[arg(long, value_parser = one_of(&Arrival::ALL))]
    pub arrival: Option<Arrival>,
    /// Factor on the trace's times.
    #[arg(long, value_parser = value(number(0.0, f64::MAX)), default_value = "1", value_name = "X", allow_negative_numbers = true)]
    pub time_scale: f64,
    /// Order of waiting commands [default: drive; with --like as served].
    #[arg(long, value_parser = one_of(&Queue::ALL))]
    pub queue: Option<Queue>,
    /// State of the disk before. Full: every LBA was written once, the cache is empty; random: SHARE of the persistent cache
    /// (of the disk, where there is none) is in use.
    #[arg(long, value_parser = Prefill::from_str, default_value = "full", value_name = "full|none|sequential|random[:SHARE]")]
    pub prefill: Prefill,
    /// Requests served before counting begins: N, or until cleaning has settled.
    #[arg(long, value_parser = Warmup::from_str, default_value = "0", value_name = "N|until-steady")]
    pub warmup: Warmup,
    /// Volume of the trace, or all laid end to end.
    #[arg(long, value_parser = VolumeChoice::from_str, default_value = "all", value_name = "N|all")]
    pub volume: VolumeChoice,
    /// Size of the drive, or of each member. Auto: its own, or more of the same platters where the trace needs them [default:
    /// auto].
    #[arg(long, value_name = "auto|SIZE")]
    pub capacity: Option<AskedCapacity>,
    /// Take addresses modulo the capacity.
    #[arg(long)]
    pub fold: bool,
    /// The trace's format, if not recognised.
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    /// Count and report malformed rows instead of stopping.
    #[arg(long)]
    pub skip_bad_rows: bool,
    /// The seed of everything random.
    #[arg(long, value_parser = count::<u64>, default_value = "1", value_name = "N")]
    pub seed: u64,
}

impl Conditions {
    /// The arrival of requests, of a served drive's log or others.
    pub fn arrival(&self, is_log: bool) -> Arrival {
        self.arrival.unwrap_or(if is_log { Arrival::Closed } else { Arrival::FlatOut })
    }

    /// The settings of a run of a served drive's log, or others, with this many commands outstanding, unchecked; they have still to be
    /// validated.
    pub fn settings(&self, depth: u32, is_log: bool) -> Settings {
        Settings {
            arrival: self.arrival(is_log),
            depth,
            think: self.think,
            time_scale: self.time_scale,
            queue: self.queue.unwrap_or_default(),
            prefill: self.prefill,
            warmup: self.warmup,
            fold: self.fold,
            seed: self.seed,
            ..Settings::default()
        }
    }
}
