//! Disks age on the model's clock as the paper says: when a model first cleans, and what is left of a full disk.

use smrfs::age::AgerOptions;
use smrfs::age::world::World;
use smrfs::age::{AgeingResult, CourseOptions};
use smrfs::device::Model;
use smrfs::workload::driver::End;
use smrkit::drive::Drive;

const DISK: u64 = 4_000_000_000;

fn world(model: Model) -> World {
    let drive = Drive::load("wdc-2tb").unwrap();
    World { disk_bytes: DISK, granule_bytes: 64 << 10, ..World::paper(model, drive) }
}

fn small(seed: u64) -> CourseOptions {
    CourseOptions { ends_with_benchmarks: true, ..CourseOptions::paper(DISK, seed) }
}

fn run(model: Model, options: &CourseOptions) -> AgeingResult {
    let mut target = world(model).mount().unwrap();
    let course = AgeingResult::run(options, &mut target, &mut |_| true).unwrap();
    target.fs.sync_all().unwrap();
    course
}

#[test]
fn strict_append_cleans_early_and_caveat_scriptor_late() {
    for seed in 1..=3 {
        let [strict, caveat] = [Model::StrictAppend, Model::Caveat].map(|model| run(model, &small(seed)));
        assert_eq!([strict.end, caveat.end], [End::Done; 2], "seed {seed}");
        assert_eq!(strict.aged, caveat.aged, "one sequence on both");
        let (a, first) = (strict.a.unwrap(), strict.first_cleaning.unwrap());
        assert!(first.written_bytes < a.written_bytes, "seed {seed}: {first:?} and {a:?}");
        assert_eq!(caveat.first_cleaning, None, "seed {seed}");
        let (a, b) = (caveat.a.unwrap(), caveat.b.unwrap());
        assert!(b.not_writable_bytes > a.not_writable_bytes, "seed {seed}: {a:?} and {b:?}");
        let sum =
            |s: &smrfs::age::Sample| s.readable_bytes + s.not_writable_bytes + s.write_once_bytes + s.writable_bytes;
        assert!(caveat.samples.iter().chain(&strict.samples).all(|sample| sum(sample).abs_diff(DISK) < 64 << 10));
    }
}

#[test]
fn small_files_fill_a_caveat_disk_until_it_is_defragmented() {
    let paper = small(1);
    let ager = AgerOptions { size_factor: 0.01, ..paper.ager.clone() };
    let options = CourseOptions { ager, benchmarks: Vec::new(), ..paper };
    let far = World { did_bytes: 3 << 20, ..world(Model::Caveat) };
    let mut target = far.mount().unwrap();
    let full = AgeingResult::run(&options, &mut target, &mut |_| true).unwrap();
    assert_eq!((full.end, full.first_cleaning), (End::Full, None));
    let caveat = smrfs::space::caveat::CaveatOptions::default();
    let mut target = World { caveat, ..far }.mount().unwrap();
    let options = CourseOptions { until_bytes: full.last.written_bytes + DISK / 2, ..options };
    let whole = AgeingResult::run(&options, &mut target, &mut |_| true).unwrap();
    assert_eq!((whole.end, whole.last.written_bytes), (End::Done, options.until_bytes));
}
