//! A run repeated gives the same bytes of outcome: twice, on other threads at the same time, and however its requests
//! are cut into batches.

use crate::common::planned::plan;
use crate::common::{Disks, TinyClock, random_requests, random_settings, with_times};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::engine::system::DriveRun;
use smrkit::engine::task::Idle;
use smrkit::error::Error;
use smrkit::experiment::planned::PlannedRun;
use smrkit::layer::{LAYERS, Parameters};
use smrkit::medium::interference::Form;
use smrkit::request::{InMemory, Request, Source};
use smrkit::settings::{Prefill, Settings};
use smrkit::workload::Workload;

const REQUESTS: u64 = 3000;

/// Requests cut into batches at random.
struct Shredded {
    requests: Vec<Request>,
    at: usize,
    random: Pcg64Mcg,
}

impl Source for Shredded {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let end = self.requests.len().min(self.at + self.random.random_range(1..400));
        batch.clear();
        batch.extend_from_slice(&self.requests[self.at..end]);
        self.at = end;
        Ok(())
    }
}

pub struct Trial {
    drive: Drive,
    layer: usize,
    parameters: Parameters,
    pub settings: Settings,
    pub requests: Vec<Request>,
}

impl Trial {
    /// One random trial of each layer and clock, where the parameters fit.
    fn all(seed: u64) -> Vec<Trial> {
        let each = (0..LAYERS.len()).flat_map(|layer| TinyClock::ALL.map(|clock| (layer, clock)));
        each.filter_map(|(layer, clock)| Trial::new(seed, layer, clock)).collect()
    }

    pub fn new(seed: u64, layer: usize, clock: TinyClock) -> Option<Trial> {
        let mut disks = Disks::new(seed);
        let forms = LAYERS[layer].copes_with;
        let form = forms.get(seed as usize % forms.len().max(1)).copied().unwrap_or(Form::Tracks);
        let drive = disks.drive_with(clock, form);
        let parameters = disks.parameters(&LAYERS[layer]);
        let mut settings = random_settings(&mut disks.random);
        settings.prefill = [Prefill::None, Prefill::Random(0.5)][disks.random.random_range(0..2)];
        let mut trial = Trial { drive, layer, parameters, settings, requests: Vec::new() };
        let run = trial.run().ok()?;
        let requests = random_requests(&mut disks.random, run.host_sectors().unwrap(), REQUESTS);
        trial.requests = with_times(&mut disks.random, requests);
        Some(trial)
    }

    pub fn run(&self) -> Result<PlannedRun, Error> {
        let parameters = self.parameters.clone();
        plan(DriveRun { drive: self.drive.clone(), layer: &LAYERS[self.layer], parameters }, self.settings)
    }

    fn bytes_of(&self, source: &mut dyn Source) -> String {
        let outcome = self.run().unwrap().execute_with(&mut Idle, source, &mut NoObserver).unwrap();
        serde_json::to_string(&outcome).unwrap()
    }

    fn bytes(&self) -> String {
        self.bytes_of(&mut InMemory::new(self.requests.as_slice()))
    }
}

#[test]
fn twice_gives_the_same_bytes() {
    for trial in (0..5).flat_map(Trial::all) {
        assert_eq!(trial.bytes(), trial.bytes());
    }
}

#[test]
fn runs_side_by_side_give_the_same_bytes_as_one_after_another() {
    let trials: Vec<Trial> = (5..8).flat_map(Trial::all).collect();
    let alone: Vec<String> = trials.iter().map(Trial::bytes).collect();
    let (left, right) = trials.split_at(trials.len() / 2);
    let bytes = |trials: &[Trial]| trials.iter().map(Trial::bytes).collect::<Vec<_>>();
    let (left, right) = std::thread::scope(|scope| {
        let (left, right) = (scope.spawn(|| bytes(left)), scope.spawn(|| bytes(right)));
        (left.join().unwrap(), right.join().unwrap())
    });
    assert_eq!([left, right].concat(), alone);
}

#[test]
fn batches_do_not_show_in_the_outcome() {
    for (seed, trial) in (8..13).flat_map(|seed| Trial::all(seed).into_iter().map(move |trial| (seed, trial))) {
        let random = Pcg64Mcg::seed_from_u64(seed);
        let mut shredded = Shredded { requests: trial.requests.clone(), at: 0, random };
        assert_eq!(trial.bytes_of(&mut shredded), trial.bytes());
    }
}

#[test]
fn another_seed_gives_another_run() {
    let outcome = |seed| {
        let mut source = Workload::parse("mix:count=500").unwrap().source(9000, seed).unwrap();
        let trial = (0..).find_map(|seed| Trial::new(seed, 0, TinyClock::Mechanical)).unwrap();
        trial.bytes_of(source.as_mut())
    };
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}
