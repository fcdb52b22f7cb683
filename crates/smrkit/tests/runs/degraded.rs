//! An array without one of its members: nothing is asked of it, and nothing is worked out for it, until its successor comes.

use crate::common::Witness;
use crate::common::rebuilds::{LEVELS, MEMBERS, array, run_before, small};
use smrkit::device::Command;
use smrkit::device::Device;
use smrkit::device::level::Level;
use smrkit::engine::system::ArrayRun;
use smrkit::engine::task::Idle;
use smrkit::engine::{Engine, NoObserver};
use smrkit::medium::Buf;
use smrkit::request::{InMemory, Op, Request};
use smrkit::settings::{Prefill, Settings};
use smrkit::stats::counts::HostCounts;
use smrkit::stats::timeline::TimelineBuilder;
use smrkit::units::{Lba, Nanos};

#[test]
fn a_member_that_failed_before_is_missing_until_the_work_begins() {
    for level in LEVELS {
        for disk in (0..MEMBERS).step_by(2) {
            let array = array(level, (0..MEMBERS).map(|_| small("in-place")).collect());
            let settings = Settings { check: true, depth: 4, ..Settings::default() };
            let mut witness = Witness::default();
            let spec = format!("disk={disk},failed=before,after=300");
            let workload = Some("mix:size=8Ki,count=600,write_share=0.7,span=8M");
            let rebuild = run_before(&array, settings, &spec, workload, &mut witness).unwrap().rebuild.unwrap();
            let begun = rebuild.elapsed_ns - rebuild.work_ns;
            assert!(begun > 0 && rebuild.begin_ns == 0);
            let accesses = witness.0.lock().unwrap();
            let degraded = |number| accesses.iter().filter(|a| a.0 == number && a.1.start.0 < begun).count();
            for number in 0..MEMBERS {
                assert_eq!(degraded(number) == 0, number == disk, "{level}: drive {number} without {disk}");
            }
        }
    }
}

#[test]
fn a_full_array_is_read_without_a_member_and_scrubs_clean() {
    for (number, level) in LEVELS.into_iter().enumerate() {
        for layer in ["in-place", ["s-block", "log"][number % 2]] {
            let array = array(level, (0..MEMBERS).map(|_| small(layer)).collect());
            let settings = Settings { check: true, depth: 4, prefill: Prefill::Full, ..Settings::default() };
            let reads = Some("random-read:size=8Ki,count=300,span=8M");
            // Every member where none translates; else one of data and the last.
            for disk in (0..MEMBERS).step_by(if layer == "in-place" { 1 } else { MEMBERS - 1 }) {
                let spec = format!("disk={disk},failed=before,after=200");
                let outcome = run_before(&array, settings, &spec, reads, &mut Witness::default()).unwrap();
                assert!(outcome.rebuild.unwrap().bytes > 0, "{level} {layer}");
            }
            let scrubbed = run_before(&array, settings, "scrub", reads, &mut Witness::default()).unwrap();
            assert!(scrubbed.rebuild.unwrap().bytes > 0, "{level} {layer}");
        }
    }
}

#[test]
fn for_a_missing_parity_nothing_is_read() {
    let array = array(Level::Raid4, (0..4).map(|_| small("in-place")).collect());
    let mut witness = Witness::default();
    let (spec, workload) = ("disk=3,failed=before,after=200", Some("random-write:size=4Ki,count=300,span=8M"));
    let rebuild = run_before(&array, Settings::default(), spec, workload, &mut witness).unwrap().rebuild.unwrap();
    let begun = rebuild.elapsed_ns - rebuild.work_ns;
    let accesses = witness.0.lock().unwrap();
    assert!(accesses.iter().all(|(_, access)| access.write || access.start.0 >= begun));
}

/// A write that has read what it needs leaves out a member that failed meanwhile.
#[test]
fn a_write_under_way_leaves_out_what_failed() {
    for failed in 0..2 {
        let array = array(Level::Raid4, (0..3).map(|_| small("in-place")).collect());
        let mut array = array.build(&Settings { check: true, ..Settings::default() }).unwrap();
        let (request, data) = (Request::new(Op::Write, Lba(0), 8), Buf::Stamps(vec![7; 8]));
        let command = Command { tag: 3, request, arrival: Nanos::ZERO, host: true, data };
        array.submit(command).unwrap();
        // Of the first unit and the parity, which the second unit is read for.
        let failed = [0, 2][failed];
        array.fail(failed);
        let mut more = Vec::new();
        let completion = (0..10).find_map(|_| {
            array.resume().unwrap();
            array.advance(&mut more).unwrap()
        });
        assert_eq!(completion.map(|completion| completion.tag), Some(3));
        let commands: Vec<u64> = array.drives().iter().map(|drive| drive.watched().commands).collect();
        assert_eq!(commands[failed as usize], 0, "{commands:?}");
        assert_eq!(commands.iter().sum::<u64>(), 2, "a read and a write: {commands:?}");
    }
}

#[test]
fn a_request_that_one_member_serves_alone_keeps_its_tag() {
    let mut array =
        array(Level::Raid1, vec![small("in-place"), small("in-place")]).build(&Settings::default()).unwrap();
    let request = Request::new(Op::Read, Lba(0), 8);
    array.submit(Command { tag: 3, request, arrival: Nanos::ZERO, host: true, data: Buf::NoData }).unwrap();
    let completion = (0..10).find_map(|_| {
        array.resume().unwrap();
        array.advance(&mut Vec::new()).unwrap()
    });
    assert_eq!(completion.map(|completion| completion.tag), Some(3));
}

/// Everything is read back, which asks no parity, and then copies and parity are compared, where there are any.
#[test]
fn check_mode_reads_copies_and_parity_in_the_end() {
    for (level, reads) in
        [(Level::Raid0, [2, 2, 2]), (Level::Raid4, [4, 4, 2]), (Level::Raid5, [17, 16, 16]), (Level::Raid1, [3, 3, 2])]
    {
        let array = array(level, (0..3).map(|_| small("in-place")).collect());
        let array = ArrayRun { chunk_sectors: 8, ..array };
        let settings = Settings { check: true, prefill: Prefill::None, ..Settings::default() };
        let counts = HostCounts::new(TimelineBuilder::growing(Nanos(1_000_000)));
        let member = Device::Array(Box::new(array.build(&settings).unwrap()));
        let (mut idle, mut observer) = (Idle, NoObserver);
        let mut engine = Engine::new(member, settings, counts, &mut idle, &mut observer);
        let end = array.host_sectors().unwrap();
        let writes = [0, 16, 32, end - 16].map(|lba| Request::new(Op::Write, Lba(lba), 16));
        engine.run(&mut InMemory::new(writes)).unwrap();
        let commands = |engine: &mut Engine| {
            engine.device.drives().iter().map(|drive| drive.watched().commands).collect::<Vec<_>>()
        };
        let before = commands(&mut engine);
        engine.finish().unwrap();
        let more: Vec<u64> = commands(&mut engine).iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(more, reads, "{level}");
    }
}
