//! Small random arrays, members that fail and are rebuilt, and runs of them in check mode and without.

use rand::{Rng, RngExt};
use smrkit::device::level::Level;
use smrkit::device::{Array, Device, DonePart};
use smrkit::engine::system::{ArrayRun, DriveRun};
use smrkit::engine::task::BackgroundTask;
use smrkit::engine::{Engine, NoObserver};
use smrkit::error::{DiskResult, Error};
use smrkit::layer::{BASELINE, LAYERS, LayerSpec};
use smrkit::medium::interference::{Form, Interference};
use smrkit::request::{InMemory, Progress, Request};
use smrkit::settings::Settings;
use smrkit::stats::counts::{HostCounts, Times};
use smrkit::stats::timeline::TimelineBuilder;
use smrkit::units::{Lba, Nanos};

use super::Disks;

/// A level with few disks, fewer than any level needs being no array.
pub fn level(disks: &mut Disks, level: Level) -> (Level, usize) {
    (level, level.spec().disks_min + disks.random.random_range(0..4))
}

/// A small drive under this layer: a conventional one for the baseline.
pub fn drive_run(disks: &mut Disks, spec: &'static LayerSpec) -> DriveRun {
    loop {
        let forms = if spec.copes_with.is_empty() { &Form::ALL[..1] } else { spec.copes_with };
        let form = forms[disks.random.random_range(0..forms.len())];
        let mut drive = disks.drive(form);
        if spec.name == BASELINE {
            drive.interference = Interference::None;
        }
        let run = DriveRun { drive, layer: spec, parameters: disks.parameters(spec) };
        // Parameters may be too large for the disk: another try.
        if run.host_sectors().is_ok_and(|sectors| sectors >= 64) {
            return run;
        }
    }
}

/// A random array of members under this layer, all alike or not, some of them of another layer.
pub fn array_run(disks: &mut Disks, (level, count): (Level, usize), spec: &'static LayerSpec) -> ArrayRun {
    let alike = disks.random.random_bool(0.5).then(|| drive_run(disks, spec));
    let mixed = disks.random.random_bool(0.3);
    let one = |disks: &mut Disks| match &alike {
        Some(member) => member.clone(),
        None if mixed => {
            let spec = &LAYERS[disks.random.random_range(0..LAYERS.len())];
            drive_run(disks, spec)
        }
        None => drive_run(disks, spec),
    };
    let members: Vec<DriveRun> = (0..count).map(|_| one(disks)).collect();
    let smallest = members.iter().map(|member| member.host_sectors().unwrap()).min().unwrap();
    let chunk_sectors = [1, 2, 3, 8, 16, 24, 40, 64][disks.random.random_range(0..8)].min(smallest);
    // Keeps the random numbers that follow where known runs have them.
    let _ = disks.random.random_range(0..3);
    ArrayRun { chunk_sectors, ..ArrayRun::new(level, members) }
}

/// Number of members that may be gone at once.
pub fn redundancy(run: &ArrayRun) -> usize {
    match run.level {
        Level::Raid1 => run.members.len() - 1,
        Level::Raid10 => 1,
        level => level.parities(),
    }
}

/// Members that fail one after another at moments given, are replaced, and rebuilt in pieces in any order.
pub struct Failures {
    runs: Vec<DriveRun>,
    settings: Settings,
    /// Failures to come: how many requests are complete by then, and which member.
    pub due: Vec<(u64, u32)>,
    /// Answers after a failure until the new member is there.
    replaced_after: u64,
    unit_sectors: u64,
    units_at_once: u64,
    window: usize,
    scattered: bool,
    /// Members that are gone, and at how many answers they are replaced.
    gone: Vec<(u64, u32)>,
    /// Pieces to be rebuilt: member, first sector, sectors.
    pieces: Vec<(u32, Lba, u64)>,
    outstanding: usize,
    completed: u64,
    requests: u64,
    now: Nanos,
    /// Members that have been rebuilt.
    pub rebuilt: Vec<u32>,
}

impl Failures {
    /// As many failures as the array survives at the same time, at random moments among `requests` requests; or none.
    pub fn random(random: &mut impl Rng, run: &ArrayRun, settings: &Settings, requests: u64) -> Failures {
        let most = redundancy(run);
        let count = if most == 0 { 0 } else { random.random_range(1..=most) };
        let mut due: Vec<(u64, u32)> = Vec::new();
        while due.len() < count {
            let disk = random.random_range(0..run.members.len()) as u32;
            if due.iter().all(|&(_, other)| other != disk) {
                due.push((random.random_range(0..requests * 3 / 4), disk));
            }
        }
        // A new member may fail in its turn, with what is being rebuilt on it.
        if count > 0 && random.random_bool(0.3) {
            let (at, disk) = due[0];
            due.push((at + random.random_range(1..requests / 4), disk));
        }
        due.sort_unstable();
        Failures {
            runs: run.members.clone(),
            settings: *settings,
            due,
            replaced_after: random.random_range(0..requests / 8),
            unit_sectors: [1, 7, 8, 32, 96][random.random_range(0..5)],
            units_at_once: random.random_range(1..5),
            window: random.random_range(1..9),
            scattered: random.random_bool(0.3),
            gone: Vec::new(),
            pieces: Vec::new(),
            outstanding: 0,
            completed: 0,
            requests,
            now: Nanos::ZERO,
            rebuilt: Vec::new(),
        }
    }

    fn fail(&mut self, disk: u32, array: &mut Array) {
        array.fail(disk);
        self.pieces.retain(|piece| piece.0 != disk);
        self.gone.retain(|gone| gone.1 != disk);
        self.rebuilt.retain(|&other| other != disk);
        self.gone.push((self.completed + self.replaced_after, disk));
    }

    fn replace(&mut self, disk: u32, array: &mut Array) {
        let new = self.runs[disk as usize].build(&self.settings, true).unwrap();
        array.replace(disk, new, self.unit_sectors);
        let (sectors, step) = (array.layout.member_sectors(disk), self.unit_sectors * self.units_at_once);
        let mut pieces: Vec<_> =
            (0..sectors).step_by(step as usize).map(|at| (disk, Lba(at), step.min(sectors - at))).collect();
        match self.scattered {
            true => pieces.sort_by_key(|&(_, at, _)| at.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            false => pieces.reverse(),
        }
        self.pieces.append(&mut pieces);
        self.rebuilt.push(disk);
    }
}

impl BackgroundTask for Failures {
    fn next(&self) -> Nanos {
        let fails = self.due.first().is_some_and(|due| due.0 <= self.completed);
        let replaces = self.gone.iter().any(|gone| gone.0 <= self.completed);
        let rebuilds = !self.pieces.is_empty() && self.outstanding < self.window;
        if fails || replaces || rebuilds { self.now } else { Nanos::MAX }
    }

    fn act(&mut self, array: &mut Array, now: Nanos) -> DiskResult {
        self.now = now;
        if let Some(at) = self.gone.iter().position(|gone| gone.0 <= self.completed) {
            let (_, disk) = self.gone.remove(at);
            self.replace(disk, array);
        } else if self.due.first().is_some_and(|due| due.0 <= self.completed) {
            let (_, disk) = self.due.remove(0);
            self.fail(disk, array);
        } else if let Some((disk, at, sectors)) = self.pieces.pop() {
            self.outstanding += 1;
            array.rebuild(disk, at, sectors, now)?;
        }
        Ok(())
    }

    fn done(&mut self, done: &DonePart, _: &mut Array) -> DiskResult {
        self.outstanding -= 1;
        self.now = self.now.max(done.end);
        Ok(())
    }

    fn completed(&mut self, _: &Request, times: &Times) {
        self.completed += 1;
        self.now = self.now.max(times.end);
        if self.completed == self.requests {
            // Nothing else comes: what is due is due now.
            self.due.iter_mut().chain(&mut self.gone).for_each(|due| due.0 = 0);
            self.replaced_after = 0;
        }
    }

    fn is_over(&self) -> bool {
        let nothing = self.due.is_empty() && self.gone.is_empty() && self.pieces.is_empty();
        nothing && self.outstanding == 0 && self.completed >= self.requests
    }

    fn progress(&self) -> Progress {
        Progress::default()
    }
}

/// Runs requests alongside the failures, and calls `after` with the loop.
pub fn run_with<T>(
    run: &ArrayRun,
    settings: Settings,
    requests: &[Request],
    failures: &mut Failures,
    after: impl FnOnce(&mut Engine) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut observer = NoObserver;
    let counts = HostCounts::new(TimelineBuilder::growing(Nanos(1_000_000)));
    let array = Device::Array(Box::new(run.build(&settings)?));
    let mut engine = Engine::new(array, settings, counts, failures, &mut observer);
    engine.run(&mut InMemory::new(requests))?;
    after(&mut engine)
}
