//! A run that begins with a saved state goes on as if nothing had come between, and no other state is taken for its own.

use std::path::Path;
use std::sync::Arc;

use crate::common::planned::plan;
use crate::common::{Disks, TinyClock, random_requests, with_times};
use rand::RngExt;
use sha2::{Digest, Sha256};
use smrkit::device::level::Level;
use smrkit::engine::saved::SavedState;
use smrkit::engine::system::{ArrayRun, DriveRun, SystemRun};
use smrkit::engine::task::Idle;
use smrkit::engine::{NoObserver, Observer};
use smrkit::error::Error;
use smrkit::layer::{HOST_MANAGED, LAYERS, LayerSpec};
use smrkit::medium::interference::Form;
use smrkit::request::{InMemory, Request};
use smrkit::settings::{Arrival, Prefill, Queue, Settings, Warmup};
use smrkit::stats::outcome::{Outcome, RunRecord};
use smrkit::units::Nanos;

const REQUESTS: u64 = 1000;

#[derive(Default)]
struct Keeper(Option<SavedState>);

impl Observer for Keeper {
    fn wants_state(&self) -> bool {
        true
    }

    fn state(&mut self, state: SavedState) {
        self.0 = Some(state);
    }
}

struct Trial {
    system: SystemRun,
    settings: Settings,
    requests: Vec<Request>,
}

impl Trial {
    /// A drive of these layers, or an array where there are several; `None` where the parameters do not fit.
    fn new(seed: u64, layers: &[&'static LayerSpec], clock: TinyClock) -> Option<Trial> {
        let mut disks = Disks::new(seed);
        let drive = |layer: &&'static LayerSpec| -> DriveRun {
            let form = layer.copes_with.get(seed as usize % layer.copes_with.len().max(1)).copied();
            let drive = disks.drive_with(clock, form.unwrap_or(Form::Tracks));
            DriveRun { drive, layer, parameters: disks.parameters(layer) }
        };
        let mut drives: Vec<DriveRun> = layers.iter().map(drive).collect();
        let system: SystemRun = match drives.len() {
            1 => drives.remove(0).into(),
            _ => ArrayRun::new(Level::Raid5, drives).into(),
        };
        let queue = [Queue::Fcfs, Queue::Drive][disks.random.random_range(0..2)];
        let prefill = [Prefill::None, Prefill::Full][disks.random.random_range(0..2)];
        let settings = Settings { arrival: Arrival::Closed, queue, prefill, movement: true, ..Settings::default() };
        let host = plan(system.clone(), settings).ok()?.host_sectors().unwrap();
        let requests = random_requests(&mut disks.random, host, REQUESTS);
        let requests = with_times(&mut disks.random, requests);
        Some(Trial { system, settings, requests })
    }

    fn run(
        &self,
        settings: Settings,
        requests: &[Request],
        from: Option<SavedState>,
        observer: &mut dyn Observer,
    ) -> Outcome {
        let run = plan(self.system.clone(), settings).unwrap();
        let run = from.map_or(run.clone(), |saved| run.beginning_with(Arc::new(saved)));
        let done = run.execute_with(&mut Idle, &mut InMemory::new(requests), observer);
        done.unwrap_or_else(|error| panic!("{}: {error}", self.system.spec()))
    }

    /// The state after the first requests; the others count from there.
    fn halves(&self) -> (SavedState, Vec<Request>) {
        let (first, second) = self.requests.split_at(self.requests.len() / 2);
        let mut keeper = Keeper::default();
        self.run(self.settings, first, None, &mut keeper);
        let last = first.last().unwrap().time;
        let second =
            second.iter().map(|request| Request { time: Nanos(request.time.0 - last.0), ..*request }).collect();
        (keeper.0.unwrap(), second)
    }
}

/// What a run is has to differ: how it began.
fn measured(outcome: Outcome) -> String {
    let mut outcome = Outcome { run: RunRecord::default(), engine: Settings::default(), ..outcome };
    outcome.state.prefill = Prefill::None;
    outcome.verdict.text.clear();
    outcome.members.iter_mut().for_each(|member| {
        (member.run, member.engine, member.state.prefill) = (RunRecord::default(), Settings::default(), Prefill::None);
        member.verdict.text.clear();
    });
    serde_json::to_string_pretty(&outcome).unwrap()
}

fn assert_goes_on(trial: &Trial, name: &str) {
    let warm = Settings { warmup: Warmup::Requests(REQUESTS / 2), ..trial.settings };
    let whole = trial.run(warm, &trial.requests, None, &mut NoObserver);
    let (saved, second) = trial.halves();
    let saved = SavedState::parse(Path::new("state"), &saved.bytes).unwrap();
    let after = trial.run(trial.settings, &second, Some(saved), &mut NoObserver);
    similar_asserts(&measured(whole), &measured(after), name);
}

/// The first line that differs, with those before it.
fn similar_asserts(whole: &str, after: &str, name: &str) {
    if let Some(at) = whole.lines().zip(after.lines()).position(|(a, b)| a != b) {
        let part = |text: &str| text.lines().skip(at.saturating_sub(6)).take(8).collect::<Vec<_>>().join("\n");
        panic!("{name}: in one run\n{}\n\nafter a saved state\n{}", part(whole), part(after));
    }
    assert_eq!(whole.len(), after.len(), "{name}");
}

#[test]
fn a_run_from_a_saved_state_goes_on_to_the_byte_of_its_outcome() {
    for layer in LAYERS.iter().chain(HOST_MANAGED) {
        let mut tried = 0;
        for (seed, clock) in (0..4).flat_map(|seed| TinyClock::ALL.map(|clock| (seed, clock))) {
            if let Some(trial) = Trial::new(seed, &[layer], clock) {
                assert_goes_on(&trial, &format!("{}, seed {seed}, {clock:?}", layer.name));
                tried += 1;
            }
        }
        assert!(tried >= 3, "{} was tried {tried} times", layer.name);
    }
}

#[test]
fn an_array_from_a_saved_state_goes_on_to_the_byte_of_its_outcome() {
    let mut tried = 0;
    for (seed, layers) in (0..12).zip(LAYERS.windows(3).cycle()) {
        let layers: Vec<&LayerSpec> = layers.iter().collect();
        if let Some(trial) = Trial::new(seed, &layers, TinyClock::Mechanical) {
            assert_goes_on(&trial, &format!("seed {seed}"));
            tried += 1;
        }
    }
    assert!(tried >= 4, "{tried}");
}

fn parsed(bytes: &[u8]) -> Result<SavedState, Error> {
    SavedState::parse(Path::new("state"), bytes)
}

/// Contents of a file with the checksum that they should have.
fn sealed(contents: &[u8]) -> Vec<u8> {
    [contents, &Sha256::digest(contents)[..]].concat()
}

#[test]
fn damaged_files_are_refused() {
    let (saved, _) = Trial::new(1, &[&LAYERS[0]], TinyClock::Mechanical).unwrap().halves();
    let bytes = saved.bytes;
    let refused = |bytes: &[u8]| parsed(bytes).err().expect("a state that can't be").to_string();
    assert!(parsed(&bytes).is_ok());
    assert!((0..bytes.len()).all(|length| parsed(&bytes[..length]).is_err()));
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x10;
        assert!(parsed(&damaged).is_err(), "byte {at}");
    }
    assert!(refused(b"PK").contains("no saved state: give a file that"));
    assert!(refused(&bytes[..bytes.len() - 1]).contains("damaged or cut short"));
    // The version is a text after the first line, and its length before it.
    let contents = &bytes[..bytes.len() - 32];
    let at = contents.iter().position(|&byte| byte == b'\n').unwrap() + 2;
    let mut other = contents.to_vec();
    other[at] = b'9';
    assert!(refused(&sealed(&other)).contains("the state was saved by smrkit 9."));
}

#[test]
fn a_state_of_another_system_is_refused_with_the_difference() {
    let message = |from: &str, to: &str| {
        let run = |text: &str| {
            let (layer, drive, set) = match text.split(' ').collect::<Vec<_>>()[..] {
                [layer, drive] => (layer, drive, None),
                [layer, drive, set] => (layer, drive, set.split_once('=')),
                _ => unreachable!(),
            };
            let system = smrkit::experiment::system::System::drive(drive).layer(layer);
            let system = set.map_or(system.clone(), |(key, value)| system.set(key, value));
            system.run(Settings::default()).unwrap()
        };
        let mut keeper = Keeper::default();
        run(from).execute_with(&mut Idle, &mut InMemory::new(Vec::new()), &mut keeper).unwrap();
        let run = run(to).beginning_with(Arc::new(keeper.0.unwrap()));
        match run.execute_with(&mut Idle, &mut InMemory::new(Vec::new()), &mut NoObserver) {
            Ok(_) => "taken".to_string(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(message("vguard tiny", "vguard tiny"), "taken");
    // What auto stands for is as good as auto.
    assert_eq!(message("vguard tiny", "vguard tiny vguard.beta=16"), "taken");
    for (from, to, difference) in [
        ("vguard tiny", "log tiny", "is of the layer vguard, and the run is of log"),
        ("vguard tiny", "vguard tiny vguard.beta=5", "is of vguard.beta=16, and the run has beta=5"),
        ("vguard tiny", "vguard tiny-constant", "is of the drive tiny, and the run is of tiny-constant"),
    ] {
        let found = message(from, to);
        assert!(found.contains(difference), "{from} to {to}: {found}");
    }
}
