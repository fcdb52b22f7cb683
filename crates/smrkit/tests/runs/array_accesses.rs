//! The accesses that an array's drives report add up to what was counted of each, and their times are the array's.

use crate::common::Witness;
use crate::common::planned::{plan, serve, workload};
use smrkit::device::level::Level;
use smrkit::device::{Array, Command};
use smrkit::drive::Drive;
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::system::{ArrayRun, DriveRun};
use smrkit::layer;
use smrkit::medium::Buf;
use smrkit::request::{Op, Request};
use smrkit::settings::{Prefill, Settings, Warmup};
use smrkit::stats::outcome::Outcome;
use smrkit::tally::Access;
use smrkit::units::{Lba, Nanos};

/// A mirror of three drives, the first a little larger.
fn array() -> ArrayRun {
    let layer = layer::find("drive-managed").unwrap();
    let parameters = layer.resolve(&[]).unwrap();
    let drive = |sectors| {
        let drive = Drive::load("tiny").unwrap().with_capacity(sectors).unwrap();
        DriveRun { drive, layer, parameters: parameters.clone() }
    };
    ArrayRun { chunk_sectors: 64, ..ArrayRun::new(Level::Raid1, vec![drive(9000), drive(8000), drive(8000)]) }
}

fn run(settings: Settings, rebuild: Option<&str>) -> (Outcome, Vec<(usize, Access)>) {
    let mut witness = Witness::default();
    let run = plan(array(), settings).unwrap();
    let run = rebuild.map(|text| run.clone().rebuilding(RebuildSpec::parse(text).unwrap())).unwrap_or(run);
    let outcome = serve(&run, &workload("mix:count=400,write_share=0.7"), &mut witness).unwrap();
    let accesses = std::mem::take(&mut *witness.0.lock().unwrap());
    (outcome, accesses)
}

fn assert_sums(outcome: &Outcome, accesses: &[(usize, Access)]) {
    for (number, member) in outcome.members.iter().enumerate() {
        let own = || accesses.iter().filter(|(drive, _)| *drive == number).map(|(_, access)| access);
        let sectors = |write| own().filter(|access| access.write == write).map(|access| access.sectors).sum::<u64>();
        let counted = (member.physical_read_sectors.total, member.physical_written_sectors.total);
        assert_eq!((sectors(false), sectors(true)), counted, "drive {number}");
        assert_eq!(own().map(|access| access.duration.0).sum::<u64>(), member.busy_ns, "drive {number}");
        assert!(member.busy_ns > 0, "drive {number}");
        let times: Vec<_> = own().map(|access| (access.start, access.start + access.duration)).collect();
        assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].0), "drive {number}: two accesses at once");
    }
}

#[test]
fn accesses_of_each_drive_add_up_to_what_was_counted_of_it() {
    for (warmup, check) in [(0, true), (100, false), (100, true)] {
        let settings = Settings {
            depth: 8,
            prefill: Prefill::Sequential,
            warmup: Warmup::Requests(warmup),
            check,
            ..Settings::default()
        };
        let (outcome, accesses) = run(settings, None);
        assert_eq!(outcome.members.len(), 3);
        assert_sums(&outcome, &accesses);
    }
}

#[test]
fn all_drives_tell_time_from_the_same_moment() {
    let last = |warmup| {
        let (_, accesses) = run(Settings { depth: 8, warmup: Warmup::Requests(warmup), ..Settings::default() }, None);
        [0, 1, 2].map(|number| accesses.iter().rfind(|(drive, _)| *drive == number).unwrap().1)
    };
    let (all, counted) = (last(0), last(100));
    let moments = [0, 1, 2].map(|number| all[number].start - counted[number].start);
    assert!(moments.iter().all(|&moment| moment == moments[0] && moment > Nanos::ZERO), "{moments:?}");
}

#[test]
fn a_new_member_takes_the_number_of_the_failed_one() {
    let (outcome, accesses) = run(Settings::default(), Some("disk=1,failed=before,after=50"));
    assert!(outcome.rebuild.is_some());
    assert_sums(&outcome, &accesses);
}

#[test]
fn all_that_was_written_is_compared_in_the_end_and_nothing_else() {
    let array = ArrayRun { level: Level::Raid5, chunk_sectors: 300, ..array() };
    let layer = layer::find("log").unwrap();
    let of_log = |member: &DriveRun| DriveRun {
        layer,
        parameters: layer.resolve_on(&member.drive, &[]).unwrap(),
        ..member.clone()
    };
    let array = ArrayRun { members: array.members.iter().map(of_log).collect(), ..array };
    let mut built = array.build(&Settings { check: true, ..Settings::default() }).unwrap();
    assert!(built.written_parts().is_empty());
    let first = Lba(330);
    assert_eq!(built.layout.copy(first, 0).1, Lba(30), "the second unit of the first stripe");
    complete(&mut built, Op::Write, &[(first, 10)]);
    assert_eq!(built.written_parts(), [(Lba(0), 1024)]);
    let end = built.layout.member_sectors(0);
    assert!(end > 1024 && !end.is_multiple_of(1024), "{end}: the last part is a short one");
    complete(&mut built, Op::Write, &[(Lba(array.host_sectors().unwrap() - 10), 10)]);
    assert_eq!(built.written_parts(), [(Lba(0), 1024), (Lba(end / 1024 * 1024), end % 1024)]);
}

/// Commands that arrive at once, at the beginning, and complete.
fn complete(array: &mut Array, op: Op, extents: &[(Lba, u32)]) {
    for &(lba, sectors) in extents {
        let (request, data) = (Request::new(op, lba, sectors), Buf::Stamps(vec![1; sectors as usize]));
        array.submit(Command { tag: 0, request, arrival: Nanos::ZERO, host: true, data }).unwrap();
    }
    let (mut more, mut completed) = (Vec::new(), 0);
    while completed < extents.len() {
        array.resume().unwrap();
        completed += usize::from(array.advance(&mut more).unwrap().is_some()) + more.drain(..).count();
    }
}

#[test]
fn accesses_of_a_new_member_are_told_in_the_time_of_the_run() {
    let (outcome, accesses) =
        run(Settings { warmup: Warmup::Requests(100), ..Settings::default() }, Some("disk=1,after=100"));
    let rebuild = outcome.rebuild.unwrap();
    let end = rebuild.begin_ns + rebuild.elapsed_ns;
    assert!(rebuild.begin_ns > 0);
    let written = |drive| {
        let meanwhile = |a: &&(usize, Access)| a.0 == drive && a.1.write && a.1.start.0 >= rebuild.begin_ns;
        accesses.iter().filter(meanwhile).map(|(_, access)| access.sectors).sum::<u64>()
    };
    assert!(written(1) >= outcome.members[1].host_written_sectors);
    assert!(accesses.iter().all(|(_, access)| access.start.0 <= end.max(outcome.elapsed_ns)));
}
