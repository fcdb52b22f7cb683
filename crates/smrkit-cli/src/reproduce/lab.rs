//! The runs of all items: what each is, and their making.

use std::sync::Arc;

use smrfs::age::course::Course;
use smrfs::workload::driver::End;
use smrkit::drive::Drive;
use smrkit::engine::Observer;
use smrkit::engine::run::Run;
use smrkit::engine::settings::{Arrival, Prefill, Settings};
use smrkit::engine::system::DriveRun;
use smrkit::error::Error;
use smrkit::layer;
use smrkit::request::{InMemory, Request, Source};
use smrkit::stats::outcome::Outcome;
use smrkit::stats::timeline::TimelineBuilder;
use smrkit::units::Nanos;
use smrkit::workload::Workload;

use super::arrays::rebuild::setup::RebuildPlan;
use super::arrays::setup::ArrayPlan;
use super::caveat::plan::{CoursePlan, MountPlan};
use crate::input::TraceInput;
use crate::interrupt::Interrupt;
use crate::pool;

/// Makes requests for a host of so many sectors, by a seed.
pub type Maker = dyn Fn(u64, u64) -> Result<Box<dyn Source>, Error> + Send + Sync;

/// Where a run's requests come from.
pub enum Requests {
    /// A workload's short form.
    Workload(String),
    /// A real trace, its volumes end to end; several runs share what a scan of it found.
    Trace(Arc<TraceInput>),
    /// What no workload offers.
    Made(Box<Maker>),
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
    pub fn trace(drive: &Drive, layer: &'static str, trace: &Arc<TraceInput>, seed: u64) -> Plan {
        Plan::new(drive, layer, Requests::Trace(Arc::clone(trace)), seed)
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
        let make = move |_, _| -> Result<Box<dyn Source>, Error> { Ok(Box::new(InMemory::new(requests.clone()))) };
        Plan::new(drive, layer, Requests::Made(Box::new(make)), seed)
    }

    /// The state before.
    pub fn prefill(mut self, prefill: Prefill) -> Plan {
        self.settings.prefill = prefill;
        self
    }

    /// Requests that are not counted.
    pub fn warmup(mut self, requests: u64) -> Plan {
        self.settings.warmup = requests;
        self
    }

    /// Ends after so much time, whose course is kept in windows of exactly `window`.
    pub fn until(mut self, until: Nanos, window: Nanos) -> Plan {
        self.settings.until = Some(until);
        self.window = Some(window);
        self
    }

    /// Makes the run alone.
    pub fn execute(&self, observer: &mut dyn Observer) -> Result<Outcome, Error> {
        let spec = layer::find(self.layer)?;
        let parameters = spec.resolve(&self.set)?;
        let run = Run::new(DriveRun { drive: self.drive.clone(), layer: spec, parameters }, self.settings);
        let (host_sectors, seed) = (run.host_sectors()?, self.settings.seed);
        let mut source: Box<dyn Source> = match &self.requests {
            Requests::Workload(text) => Workload::parse(text)?.source(host_sectors, seed)?,
            Requests::Trace(trace) => {
                trace.look_for_volumes()?;
                Box::new(trace.open(false)?)
            }
            Requests::Made(make) => make(host_sectors, seed)?,
        };
        let timeline = match self.window {
            Some(window) => TimelineBuilder::fixed(window),
            None => TimelineBuilder::default(),
        };
        run.execute(source.as_mut(), observer, timeline)
    }
}

/// Something to be run: requests on a layer or an array, or work on a file system.
pub enum Job {
    /// On a layer.
    Layer(Box<Plan>),
    /// On an array.
    Array(Box<ArrayPlan>),
    /// A member of an array that is rebuilt.
    Rebuild(Box<RebuildPlan>),
    /// On a file system.
    FileSystem(Box<CoursePlan>),
    /// On a mounted file system.
    Mount(Box<MountPlan>),
}

/// What came of a job.
pub enum Made {
    /// Of a layer's, or an array's.
    Layer(Box<Outcome>),
    /// Of a file system's.
    FileSystem(Box<Course>),
    /// Of a mount's, or why it could not be.
    Mount(Box<Result<Course, String>>),
}

impl Job {
    fn execute(&self, watch: &mut pool::Watch) -> Result<Made, Error> {
        match self {
            Job::Layer(plan) => plan.execute(watch).map(|outcome| Made::Layer(Box::new(outcome))),
            Job::Array(plan) => plan.execute(watch).map(|outcome| Made::Layer(Box::new(outcome))),
            Job::Rebuild(plan) => plan.execute(watch).map(|outcome| Made::Layer(Box::new(outcome))),
            Job::FileSystem(plan) => plan.execute(watch).map(|course| Made::FileSystem(Box::new(course))),
            Job::Mount(plan) => Ok(Made::Mount(Box::new(plan.execute(watch).map_err(|error| format!("{error:#}"))))),
        }
    }
}

impl Made {
    /// Whether it came to its end.
    fn is_whole(&self) -> bool {
        match self {
            Made::Layer(outcome) => !outcome.interrupted,
            Made::FileSystem(course) => course.end != End::Stopped,
            Made::Mount(course) => course.as_ref().as_ref().map_or(true, |course| course.end != End::Stopped),
        }
    }
}

/// Does the jobs; what an interrupt left undone is `None`.
pub fn make(jobs: &[&Job], interrupt: &Interrupt, what: &str) -> Result<Vec<Option<Made>>, Error> {
    let results = pool::make_all(jobs, interrupt, what, |_, job, mut watch| job.execute(&mut watch));
    results.into_iter().map(|result| result.map(|made| made.filter(Made::is_whole))).collect()
}
