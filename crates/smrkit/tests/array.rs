//! Arrays in check mode: no byte is wrong, whole or degraded, and a rebuilt member holds what the others say.

use smrkit::array::address::Layout;
use smrkit::array::health::Health;
use smrkit::array::level::{Level, WritePolicy};
use smrkit::array::{Array, Done, Member, Queueing, Station};
use smrkit::device::Single;
use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::engine::fleet::{Chore, Fleet};
use smrkit::engine::settings::{Queue, Settings};
use smrkit::error::DiskResult;
use smrkit::layer::{self, Parameters};
use smrkit::medium::{Medium, Stamps};
use smrkit::request::{Progress, Request};
use smrkit::stats::counts::{HostCounts, Times};
use smrkit::stats::timeline::{TimelineBuilder, WINDOW_FIRST};
use smrkit::units::{Lba, Nanos};
use smrkit::workload::Workload;

const SECTORS: u64 = 400_000;

fn member(layer: &str, sectors: u64) -> Member {
    let drive = Drive::load("tiny").unwrap().with_capacity(sectors).unwrap();
    let spec = layer::find(layer).unwrap();
    let parameters = Parameters::resolve(layer, spec.parameters, &[]).unwrap();
    let disk = Disk::new(&drive, Medium::Stamps(Stamps::new()));
    let single = Single::new(disk, Box::new(move || (spec.build)(&drive, &parameters))).unwrap();
    Member::Drive(Box::new(Station::new(single, Queueing { queue: Queue::Fcfs, depth: 1 }, true)))
}

fn array(level: Level, disks: usize, chunk: u64, layer: &str) -> Array {
    let members: Vec<Member> = (0..disks).map(|_| member(layer, SECTORS)).collect();
    let sizes: Vec<u64> = members.iter().map(Member::host_sectors).collect();
    Array::new(Layout::new(level, chunk, &sizes).unwrap(), members, WritePolicy::Auto, true)
}

/// Fails a member after some requests, and rebuilds a new one in its place, in order.
struct FailAndRebuild {
    disk: u32,
    after: u64,
    new: Option<Member>,
    at: u64,
    sectors: u64,
    outstanding: u32,
    answered: u64,
    now: Nanos,
}

const UNIT: u64 = 96;

impl Chore for FailAndRebuild {
    fn next(&self) -> Nanos {
        let begins = self.new.is_some() && self.answered >= self.after;
        let goes_on = self.new.is_none() && self.outstanding < 3 && self.at < self.sectors;
        if begins || goes_on { self.now } else { Nanos::MAX }
    }
    fn act(&mut self, array: &mut Array, now: Nanos) -> DiskResult {
        if let Some(new) = self.new.take() {
            array.fail(self.disk);
            array.replace(self.disk, new, UNIT);
            self.sectors = array.layout().member_sectors(self.disk);
        }
        let sectors = UNIT.min(self.sectors - self.at);
        self.outstanding += 1;
        self.at += sectors;
        array.rebuild(self.disk, Lba(self.at - sectors), sectors, now)
    }
    fn done(&mut self, done: &Done, _: &mut Array) -> DiskResult {
        self.outstanding -= 1;
        self.now = done.end;
        Ok(())
    }
    fn answered(&mut self, _: &Request, times: &Times) {
        self.answered += 1;
        self.now = times.end;
    }
    fn is_over(&self) -> bool {
        self.new.is_none() && self.at >= self.sectors && self.outstanding == 0
    }
    fn progress(&self) -> Progress {
        Progress::default()
    }
}

#[test]
fn a_member_that_fails_is_rebuilt() {
    for level in Level::ALL {
        for (disk, layer) in [(0, "set-assoc"), (3, "log")] {
            let array = array(level, 4, 24, layer);
            if array.layout().parities() == 0 && array.layout().copies() == 1 {
                continue;
            }
            let span = array.layout().host_sectors();
            let settings = Settings { check: true, depth: 8, ..Settings::default() };
            let mut chore = FailAndRebuild {
                disk,
                after: 500,
                new: Some(member(layer, SECTORS)),
                at: 0,
                sectors: 1,
                outstanding: 0,
                answered: 0,
                now: Nanos::ZERO,
            };
            let mut observer = NoObserver;
            let counts = HostCounts::new(TimelineBuilder::growing(WINDOW_FIRST));
            let mut fleet = Fleet::new(array, settings, counts, &mut chore, &mut observer);
            let text = "random-write:size=4Ki,count=1k,align=512;mix:size=48Ki,count=10k,align=512";
            let mut source = Workload::parse(text).unwrap().source(span / 16, 1).unwrap();
            fleet.run(source.as_mut()).unwrap();
            fleet.finish().unwrap();
            assert!(fleet.array.health().iter().all(|health| matches!(health, Health::Good)));
            println!("{level} {layer} {} {:?}", fleet.counts.requests, fleet.counts.elapsed());
        }
    }
}
