//! The runs of all items: what each is, and their making.

use std::sync::Arc;

use smrfs::age::course::AgeingResult;
use smrfs::workload::driver::End;
use smrkit::drive::Drive;
use smrkit::engine::Observer;
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Described, GeneratedDemand, Opened, Opening, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Monitor, RunWatch};
use smrkit::experiment::system::System;
use smrkit::request::{Request, Source};
use smrkit::settings::{Arrival, Prefill, Settings, Warmup};
use smrkit::stats::outcome::{Outcome, Replayed};
use smrkit::units::Nanos;
use smrkit::workload::Workload;
use smrkit_trace::TraceDemand;

use super::validation::Validation;

/// Source of a run's requests.
pub enum Requests {
    /// A workload's short form.
    Workload(String),
    /// Any other; a trace's runs share what a scan of it found.
    Demand(Arc<dyn Demand>),
}

/// A run to be made.
pub struct Plan {
    drive: Drive,
    layer: &'static str,
    set: Vec<(String, String)>,
    requests: Requests,
    settings: Settings,
    window: Option<Nanos>,
}

impl Plan {
    /// `requests` on `layer`, with its defaults, on an empty disk.
    pub fn new(drive: &Drive, layer: &'static str, requests: Requests, seed: u64) -> Plan {
        let settings = Settings { seed, prefill: Prefill::None, ..Settings::default() };
        Plan { drive: drive.clone(), layer, set: Vec::new(), requests, settings, window: None }
    }

    /// A workload in its short form on `layer`.
    pub fn workload(drive: &Drive, layer: &'static str, workload: impl Into<String>, seed: u64) -> Plan {
        Plan::new(drive, layer, Requests::Workload(workload.into()), seed)
    }

    /// A real trace on `layer`.
    pub fn trace(drive: &Drive, layer: &'static str, trace: &Arc<TraceDemand>, seed: u64) -> Plan {
        Plan::new(drive, layer, Requests::Demand(Arc::clone(trace) as Arc<dyn Demand>), seed)
    }

    /// Keeps the requests' own times, stretched by `time_scale`.
    pub fn open_arrivals(mut self, time_scale: f64) -> Plan {
        self.settings.arrival = Arrival::Trace;
        self.settings.time_scale = time_scale;
        self
    }

    /// Sets a parameter of the layer.
    pub fn set(mut self, key: &str, value: impl ToString) -> Plan {
        self.set.push((key.into(), value.to_string()));
        self
    }

    /// Requests held in memory on `layer`.
    pub fn replay(drive: &Drive, layer: &'static str, requests: Arc<[Request]>, seed: u64) -> Plan {
        Plan::new(drive, layer, Requests::Demand(Arc::new(Table(requests))), seed)
    }

    /// The state before.
    pub fn prefill(mut self, prefill: Prefill) -> Plan {
        self.settings.prefill = prefill;
        self
    }

    /// A number of commands outstanding.
    pub fn depth(mut self, depth: u32) -> Plan {
        self.settings.depth = depth;
        self
    }

    /// Requests that are not counted.
    pub fn warmup(mut self, requests: u64) -> Plan {
        self.settings.warmup = Warmup::Requests(requests);
        self
    }

    /// Cuts the power at this physical write, and looks at what is lost.
    pub fn power_cut(mut self, write: u64) -> Plan {
        self.settings.check = true;
        self.settings.power_cut = Some(write);
        self
    }

    /// Ends after so much time, whose course is kept in windows of exactly `window`.
    pub fn until(mut self, until: Nanos, window: Nanos) -> Plan {
        self.settings.until = Some(until);
        self.window = Some(window);
        self
    }
}

impl Planned for Plan {
    fn planned(&self) -> Result<(PlannedRun, Arc<dyn Demand>), Error> {
        let set = self.set.iter().map(|(key, value)| format!("{}.{key}={value}", self.layer)).collect();
        let system = System { set, window: self.window, ..System::of(self.drive.clone()).layer(self.layer) };
        let demand: Arc<dyn Demand> = match &self.requests {
            Requests::Workload(text) => Arc::new(GeneratedDemand::from(Workload::parse(text)?)),
            Requests::Demand(demand) => Arc::clone(demand),
        };
        Ok((system.run(self.settings)?, demand))
    }
}

/// Requests that no workload offers.
pub struct Maker<F>(pub F);

impl<F: Fn(u64, u64) -> Result<Box<dyn Source>, Error> + Send + Sync> Demand for Maker<F> {
    fn open(&self, opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        let source = (self.0)(opening.host_sectors, opening.seed)?;
        Ok(Box::new(Described::new(source, Replayed::default())))
    }
}

/// A run of a layer or an array.
pub trait Planned: Sync {
    /// The run, and what is asked of it.
    fn planned(&self) -> Result<(PlannedRun, Arc<dyn Demand>), Error>;

    /// Outcome of the run.
    fn outcome(&self, observer: &mut dyn Observer) -> Result<Outcome, Error> {
        let (run, demand) = self.planned()?;
        let opening = Opening::new(run.host_sectors()?, run.settings().seed);
        run.execute(demand.as_ref(), &opening, observer)
    }
}

impl<P: Planned> Work for P {
    fn make(&self, watch: &mut RunWatch) -> Result<JobResult, Error> {
        self.outcome(watch).map(|outcome| JobResult::Layer(Box::new(outcome)))
    }

    #[cfg(test)]
    fn described(&self) -> String {
        crate::tests::described_run(self).unwrap()
    }
}

/// Something to be run: requests on a layer or an array, or work on a file system.
pub trait Work: Sync {
    /// Does it.
    fn make(&self, watch: &mut RunWatch) -> Result<JobResult, Error>;

    /// All that decides its result, for tests that compare it with what it was.
    #[cfg(test)]
    fn described(&self) -> String;
}

/// Result of a job.
pub enum JobResult {
    /// Of a layer's, or an array's.
    Layer(Box<Outcome>),
    /// Of a file system's.
    FileSystem(Box<AgeingResult>),
    /// Of a mount's, or why it could not be.
    Mount(Box<Result<AgeingResult, String>>),
    /// Of a measured trace on a described drive.
    Validation(Box<Validation>),
}

impl JobResult {
    /// The outcome of a run.
    pub fn outcome(self) -> Option<Outcome> {
        if let JobResult::Layer(outcome) = self { Some(*outcome) } else { None }
    }

    /// Validation by a measured trace.
    pub fn validation(self) -> Option<Validation> {
        if let JobResult::Validation(validation) = self { Some(*validation) } else { None }
    }

    /// The course of a file system in simulation.
    pub fn course(self) -> Option<AgeingResult> {
        if let JobResult::FileSystem(course) = self { Some(*course) } else { None }
    }

    /// True if it came to its end.
    fn is_whole(&self) -> bool {
        match self {
            JobResult::Layer(outcome) => !outcome.interrupted,
            JobResult::FileSystem(course) => course.end != End::Stopped,
            JobResult::Validation(_) => true,
            JobResult::Mount(course) => course.as_ref().as_ref().map_or(true, |course| course.end != End::Stopped),
        }
    }
}

/// Does the jobs; what an interrupt left undone is `None`.
pub fn make(jobs: &[&dyn Work], monitor: &dyn Monitor, what: &str) -> Result<Vec<Option<JobResult>>, Error> {
    let results = pool::make_all(jobs, monitor, what, |_, job, mut watch| job.make(&mut watch));
    results.into_iter().map(|result| result.map(|made| made.filter(JobResult::is_whole))).collect()
}
