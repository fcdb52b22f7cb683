//! How requests arrive, how they are ordered, and what state they find.

pub use crate::device::Queue;
use crate::error::Error;
use crate::stats::outcome::EngineSettings;
use crate::units::Nanos;

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// As soon as one of the commands outstanding is answered (closed loop).
    FlatOut,
    /// At the trace's own times (open loop).
    Trace,
}

/// The state of the disk before the first request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prefill {
    /// Every LBA was written once, in order, at no cost, and the persistent cache is empty: a disk in use.
    Full,
    /// Never written.
    None,
    /// Every LBA written once, in order, by requests that are served and not counted.
    Sequential,
    /// Random 4 KiB writes until this share of the persistent cache is in use; where there is none, random 1 MiB writes,
    /// as many as make up this share of the disk.
    Random(f64),
}

impl Prefill {
    /// As the command line has it.
    pub fn name(self) -> String {
        match self {
            Prefill::Full => "full".into(),
            Prefill::None => "none".into(),
            Prefill::Sequential => "sequential".into(),
            Prefill::Random(share) => format!("random:{share}"),
        }
    }
}

/// Settings of a run, with the defaults of the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// When requests arrive.
    pub arrival: Arrival,
    /// Commands outstanding, at least 1.
    pub depth: u32,
    /// Pause between a completion and the next request.
    pub think: Nanos,
    /// Factor on the trace's times.
    pub time_scale: f64,
    /// The order of waiting commands.
    pub queue: Queue,
    /// The state before.
    pub prefill: Prefill,
    /// Requests served before counting begins.
    pub warmup: u64,
    /// The run ends with the first request that arrives this long after counting began; it is not served.
    pub until: Option<Nanos>,
    /// Take addresses modulo the capacity.
    pub fold: bool,
    /// Verify every read.
    pub check: bool,
    /// Count the head's movements.
    pub movement: bool,
    /// Cut the power at this physical write, from 1 and the beginning of counting; needs `check`.
    pub power_cut: Option<u64>,
    /// The seed of everything random.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            arrival: Arrival::FlatOut,
            depth: 1,
            think: Nanos::ZERO,
            time_scale: 1.0,
            queue: Queue::Fcfs,
            prefill: Prefill::Full,
            warmup: 0,
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
    /// Refuses what makes no sense, with the remedy.
    pub fn validate(&self) -> Result<(), Error> {
        let wrong = |message: &str| Err(Error::Usage(message.into()));
        if self.depth == 0 || self.depth > 65_536 {
            return wrong("--depth takes the number of commands outstanding, from 1 to 65536");
        }
        if !(self.time_scale > 0.0 && self.time_scale <= 1e9) {
            return wrong("--time-scale takes a factor above 0 and at most 1e9");
        }
        if self.arrival == Arrival::Trace && self.think > Nanos::ZERO {
            return wrong("--think belongs to a closed loop: leave it out, or use --arrival flat-out");
        }
        if self.queue != Queue::Fcfs && self.depth == 1 {
            return wrong("a queue of depth 1 has nothing to order: add --depth 32, or use --queue fcfs");
        }
        if self.power_cut == Some(0) {
            return wrong("--power-cut takes the number of a physical write, from 1 on");
        }
        if self.power_cut.is_some() && !self.check {
            return wrong("--power-cut needs --check, or what is lost would not be seen");
        }
        if let Prefill::Random(share) = self.prefill
            && !(0.0..=1.0).contains(&share)
        {
            return wrong("--prefill random:SHARE takes a share from 0 to 1");
        }
        Ok(())
    }

    /// As the result file shows them.
    pub fn describe(&self) -> EngineSettings {
        EngineSettings {
            arrival: match self.arrival {
                Arrival::FlatOut => "flat-out".into(),
                Arrival::Trace => "trace".into(),
            },
            depth: self.depth,
            think_ns: self.think.0,
            time_scale: self.time_scale,
            queue: match self.queue {
                Queue::Fcfs => "fcfs".into(),
                Queue::Elevator => "elevator".into(),
                Queue::Sptf => "sptf".into(),
            },
            prefill: self.prefill.name(),
            warmup: self.warmup,
            until_ns: self.until.map(|until| until.0),
            fold: self.fold,
            check: self.check,
            movement: self.movement,
            power_cut: self.power_cut,
        }
    }
}
