//! Crashes of a run, and what is found after each.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::units::Nanos;

use crate::memory::{FileOp, OpLog, SECTOR};
use crate::model::Promise;
use crate::run::{Files, Opened, Run, Setup};

/// Sectors that are read at a time.
const READ_SECTORS: u64 = 128;
/// One crash in this number is followed by a crash at each write of the recovery, or by more requests.
const ONE_IN: u64 = 16;
/// Runs at least.
const RUNS: u64 = 8;
/// Sectors that a volatile cache holds when it is lost. All of its subsets are tried where there is time for that many crashes.
const CACHED: u64 = 12;
const SUBSETS_FROM: u64 = 5000;

/// Counts of what was tried.
#[derive(Default)]
pub struct Tried {
    pub cuts: u64,
    pub in_recovery: u64,
    pub subsets: u64,
    limit: u64,
}

impl Tried {
    pub fn up_to(limit: u64) -> Tried {
        Tried { limit, ..Tried::default() }
    }

    pub fn all(&self) -> u64 {
        self.cuts + self.in_recovery + self.subsets
    }

    pub fn is_enough(&self) -> bool {
        self.all() >= self.limit
    }
}

/// A run's crashes, one after another.
pub struct Crashes<'a> {
    run: &'a Run,
    random: Pcg64Mcg,
    tried: &'a mut Tried,
}

impl<'a> Crashes<'a> {
    pub fn new(run: &'a Run, tried: &'a mut Tried) -> Crashes<'a> {
        Crashes { run, random: Pcg64Mcg::seed_from_u64(!run.seed), tried }
    }

    /// Kills the process at its writes, each of which is cut after 0, 1, n/2, n - 1 and two random numbers of its sectors.
    pub fn kill_everywhere(&mut self) {
        let mut files = self.run.drive.new_files();
        for (at, (file, op)) in self.run.ops.iter().enumerate() {
            let n = op.sectors();
            let some = [self.random.random_range(0..n), self.random.random_range(0..n)];
            let cuts = BTreeSet::from([0, 1.min(n - 1), n / 2, n - 1, some[0], some[1]]);
            let cuts = if self.is_chosen() { cuts } else { BTreeSet::new() };
            for sectors in cuts {
                let mut left = files.clone();
                left[*file].apply_first(op, (sectors * SECTOR) as usize);
                self.after_crash(
                    &left,
                    self.run.request_at(at),
                    &format!("killed at op {at}, sector {sectors} of {n}"),
                );
            }
            files[*file].apply(op);
            let is_between = self.run.begins.binary_search(&(at + 1)).is_ok();
            let are_few = 4 * self.tried.subsets <= self.tried.all();
            let has_no_cache = self.run.setup.promise() == Promise::Acknowledged;
            if is_between && are_few && has_no_cache && self.is_one_in() {
                self.lose_caches(&files, self.run.request_at(at) + 1);
            }
            if self.tried.is_enough() {
                break;
            }
        }
    }

    /// Crashes the host after each op: of what was not synced anything is left.
    pub fn crash_everywhere(&mut self) {
        let mut host = Host::new(self.run.drive.new_files());
        for (at, (file, op)) in self.run.ops.iter().enumerate() {
            host.add(*file, op);
            if !self.is_chosen() {
                continue;
            }
            for kind in Loss::ALL {
                let left = host.left(kind, &mut self.random);
                self.after_crash(&left, self.run.request_at(at), &format!("host crashed after op {at}, {kind:?}"));
            }
            if self.tried.is_enough() {
                break;
            }
        }
    }

    /// True if there is a crash at an op: at each where many crashes are wanted, and else at some, so that there are several runs.
    fn is_chosen(&mut self) -> bool {
        let ops_at_a_run = 1 + self.tried.limit / RUNS / Loss::ALL.len() as u64;
        self.random.random_range(0..self.run.ops.len() as u64) < ops_at_a_run
    }

    fn is_one_in(&mut self) -> bool {
        self.random.random_range(0..ONE_IN) == 0
    }

    /// Opens what a crash has left and checks it; now and then crashes the recovery too, or goes on.
    fn after_crash(&mut self, left: &Files, request: usize, what: &str) {
        self.tried.cuts += 1;
        let opened = self.check(left, request, what);
        if self.is_one_in() {
            self.go_on(opened, request, what);
        }
        if self.is_one_in() {
            self.crash_recovery(left, request, what);
        }
    }

    fn found_wrong(&self, what: &str, error: &str) -> ! {
        let Run { setup, seed, .. } = self.run;
        panic!("{setup:?}, seed {seed}, {what}: {error}");
    }

    /// Opens the drive: every sector holds what it may.
    fn check(&self, left: &Files, request: usize, what: &str) -> Opened {
        let opened = self.run.drive.open(left, self.run.setup, None);
        let mut opened = opened.unwrap_or_else(|error| self.found_wrong(what, &error));
        if let Err(fault) = opened.device.check() {
            self.found_wrong(what, &fault.to_string());
        }
        for lba in (0..self.run.span).step_by(READ_SECTORS as usize) {
            let bytes = opened.read(lba, READ_SECTORS.min(self.run.span - lba));
            let judged = self.run.model.judge(lba, &bytes, request, self.run.setup.promise());
            judged.unwrap_or_else(|error| self.found_wrong(what, &error));
        }
        opened
    }

    /// The drive that recovered takes more requests, and keeps them.
    fn go_on(&mut self, mut opened: Opened, request: usize, what: &str) {
        let mut written = Vec::new();
        for i in 0..6 {
            let lba = self.random.random_range(0..self.run.span - 8);
            written.retain(|&(old, _): &(u64, u64)| old.abs_diff(lba) >= 8);
            opened.write(lba, 8, 1000 + i, Nanos::ZERO);
            written.push((lba, 1000 + i));
        }
        opened.flush();
        let left = opened.files().contents();
        drop(opened);
        let mut again = self.run.drive.open(&left, self.run.setup, None).unwrap_or_else(|e| self.found_wrong(what, &e));
        for (lba, number) in written {
            let mut expected = [0; 512];
            crate::model::fill(lba, number, &mut expected);
            if again.read(lba, 1) != expected {
                self.found_wrong(what, &format!("request {request}: LBA {lba}, written after recovery, is lost"));
            }
        }
    }

    /// Crashes at each op of the recovery from a crash, or at some where there are many.
    fn crash_recovery(&mut self, left: &Files, request: usize, what: &str) {
        let log = OpLog::default();
        drop(self.run.drive.open(left, self.run.setup, Some(log.clone())));
        let ops = std::mem::take(&mut *log.lock().unwrap());
        let (mut files, mut host) = (left.clone(), Host::new(left.clone()));
        let most = self.tried.limit / 4;
        for (at, (file, op)) in ops.iter().enumerate() {
            let is_tried = self.random.random_range(0..ops.len() as u64) < most;
            let what = format!("{what}, again at op {at} of recovery");
            let sectors = self.random.random_range(0..op.sectors());
            if is_tried {
                let mut torn = files.clone();
                torn[*file].apply_first(op, (sectors * SECTOR) as usize);
                self.check(&torn, request, &what);
                self.tried.in_recovery += 1;
            }
            files[*file].apply(op);
            host.add(*file, op);
            if is_tried && self.run.setup.journal_bytes.is_some() {
                let lost = host.left(Loss::ALL[at % Loss::ALL.len()], &mut self.random);
                self.check(&lost, request, &what);
                self.tried.in_recovery += 1;
            }
        }
    }

    /// Fills a volatile cache and loses it: of its sectors every subset has been written back.
    fn lose_caches(&mut self, files: &Files, request: usize) {
        let lbas: Vec<u64> = (0..CACHED).map(|_| self.random.random_range(0..self.run.span)).collect();
        let distinct: BTreeSet<u64> = lbas.iter().copied().collect();
        let room = if self.tried.limit >= SUBSETS_FROM { 1 << CACHED } else { 8 };
        let all = 1u64 << distinct.len();
        for i in 0..all.min(room) {
            let subset = if all <= room { i } else { self.random.random_range(0..all) };
            let is_kept = |lba| distinct.iter().position(|&held| held == lba).is_some_and(|at| subset >> at & 1 == 1);
            self.lose_cache(files, (&lbas, request), is_kept);
        }
    }

    /// Loses all of the cache but what `is_kept` names; half the times in the middle of writing that back.
    fn lose_cache(&mut self, files: &Files, (lbas, request): (&[u64], usize), is_kept: impl Fn(u64) -> bool) {
        let (is_cut, place) = (self.random.random(), self.random.random::<u32>());
        let what = format!("cache lost before request {request}");
        let setup = Setup { cache_sectors: 64, ..self.run.setup };
        let open = |files: &Files, log| {
            let opened = self.run.drive.open(files, setup, log);
            opened.unwrap_or_else(|error| self.found_wrong(&what, &error))
        };
        let log = OpLog::default();
        let mut opened = open(files, Some(log.clone()));
        lbas.iter().for_each(|&lba| opened.write(lba, 1, 2000 + lba, Nanos::ZERO));
        let (mut left, begun, now) = (opened.files().contents(), log.lock().unwrap().len(), opened.device.now());
        opened.device.write_back(now, &is_kept).unwrap();
        let ops = std::mem::take(&mut *log.lock().unwrap());
        // Its last op is done only where nothing was cut.
        let cut = if is_cut { begun + place as usize % (ops.len() + 1 - begun) } else { ops.len() };
        ops[begun..cut].iter().for_each(|(file, op)| left[*file].apply(op));
        let written = if cut == ops.len() { request - 1 } else { request };
        let mut model = self.run.model.before(request);
        lbas.iter().filter(|&&lba| is_kept(lba)).for_each(|&lba| model.write(written, lba, 1, 2000 + lba));
        let mut again = open(&left, None);
        for &lba in lbas {
            let judged = model.judge(lba, &again.read(lba, 1), request, Promise::Acknowledged);
            judged.unwrap_or_else(|error| self.found_wrong(&what, &error));
        }
        self.tried.subsets += 1;
    }
}

/// Part that a crash of the host leaves of what was not synced.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// All of it: it was a kill.
    All,
    /// Nothing.
    Nothing,
    /// The journal as it is, and any sectors of the image.
    Image,
    /// The image as it was, and the journal's ops up to some byte of one.
    JournalEnd,
    /// Any sectors of both.
    Any,
    /// Any whole ops of both.
    Ops,
}

impl Loss {
    const ALL: [Loss; 6] = [Loss::All, Loss::Nothing, Loss::Image, Loss::JournalEnd, Loss::Any, Loss::Ops];
}

/// A host's files: what is durable, and what has been done since.
struct Host {
    durable: Files,
    pending: [Vec<FileOp>; 2],
}

impl Host {
    fn new(durable: Files) -> Host {
        Host { durable, pending: Default::default() }
    }

    fn add(&mut self, file: usize, op: &FileOp) {
        match op {
            FileOp::Sync => self.pending[file].drain(..).for_each(|op| self.durable[file].apply(&op)),
            op => self.pending[file].push(op.clone()),
        }
    }

    /// The files as they may be left now.
    fn left(&self, loss: Loss, random: &mut Pcg64Mcg) -> Files {
        let mut left = self.durable.clone();
        for (file, pending) in self.pending.iter().enumerate() {
            match (loss, file) {
                (Loss::Nothing, _) | (Loss::JournalEnd, 0) => {}
                (Loss::All, _) | (Loss::Image, 1) => pending.iter().for_each(|op| left[file].apply(op)),
                (Loss::Image, _) | (Loss::Any, _) => pending.iter().for_each(|op| left[file].apply_some(op, random)),
                (Loss::Ops, _) => {
                    pending.iter().filter(|_| random.random()).for_each(|op| left[file].apply(op));
                }
                (Loss::JournalEnd, _) => {
                    let Some(last) = pending.len().checked_sub(1) else { continue };
                    let cut = random.random_range(0..=last);
                    pending[..cut].iter().for_each(|op| left[file].apply(op));
                    let bytes = match &pending[cut] {
                        FileOp::Write(_, bytes) => random.random_range(0..=bytes.len()),
                        _ => random.random_range(0..2),
                    };
                    left[file].apply_first(&pending[cut], bytes);
                }
            }
        }
        left
    }
}
