//! The ageing course on a mount made for it: what its control socket tells of the disk agrees with the simulation.

use std::time::Duration;

use smrfs::age::world::World;
use smrfs::age::{AgeingResult, Benchmark, CourseOptions, Sample};
use smrfs::bench::FileserverOptions;
use smrfs::bench::PostmarkOptions;
use smrfs::device::Model;
use smrfs::fs::FileSystem;
use smrfs::superblock::data_shape;
use smrfs::workload::driver::End;
use smrkit::drive::Drive;
use smrkit_live::volume::{Layout, MkfsOptions, Open, Volume, mkfs};
use smrkit_live::workplace::Workplace;
use tempfile::TempDir;

use super::{MODELS, Mounted};

const IMAGE_BYTES: u64 = 128 << 20;

#[test]
fn a_mount_ages_as_in_simulation() {
    for model in MODELS {
        let (layout, world) = disk(model);
        let options = CourseOptions { ends_with_benchmarks: true, ..CourseOptions::paper(IMAGE_BYTES, 1) };
        let options = CourseOptions { benchmarks: small_benchmarks(), before_bytes: 2 * IMAGE_BYTES, ..options };
        let simulated = AgeingResult::run(&options, &mut world.mount().unwrap(), &mut |_| true).unwrap();
        let Some(mounted) = on_a_mount(layout, &world, &options) else { return };
        assert_eq!((mounted.end, simulated.end), (End::Done, End::Done), "{model:?}");
        assert_eq!(mounted.aged, simulated.aged, "{model:?}");
        assert_eq!(mounted.first_cleaning.is_some(), simulated.first_cleaning.is_some(), "{model:?}");
        for (real, model_of_it) in [(&mounted.a, &simulated.a), (&mounted.b, &simulated.b)] {
            let (real, model_of_it) = (real.unwrap(), model_of_it.unwrap());
            assert_eq!((real.written_bytes, sum(&real)), (model_of_it.written_bytes, sum(&model_of_it)), "{model:?}");
            // In simulation a file's last granule counts as whole, and what is in the buffer not yet.
            let apart = real.live_bytes.abs_diff(model_of_it.live_bytes);
            assert!(apart < 1 << 20, "{model:?}: {real:?}, in simulation {model_of_it:?}");
            // What waits for a commit may be read, and waits for real seconds on a mount.
            let apart = real.readable_bytes.abs_diff(model_of_it.readable_bytes);
            assert!(apart < IMAGE_BYTES / 4, "{model:?}: {real:?}, in simulation {model_of_it:?}");
        }
    }
}

/// The published ones have files too large for such a disk.
fn small_benchmarks() -> Vec<Benchmark> {
    let postmark = PostmarkOptions { files: 5, transactions: 20, size_bytes: (300_000, 700_000), seed: 1 };
    let server = FileserverOptions { files: 5, rounds: 10, mean_bytes: 9e5, append_bytes: 16 << 10, seed: 1 };
    vec![Benchmark::Postmark(postmark), Benchmark::Fileserver(server)]
}

fn disk(model: Model) -> (Layout, World) {
    let (distance, band) = (64 << 10, 2 << 20);
    let (did_bytes, band_bytes) = (Some(distance), Some(band));
    let layout = Layout { model, size_bytes: IMAGE_BYTES, did_bytes, dpid_bytes: did_bytes, band_bytes };
    let shape = data_shape(&layout.shape().expect("a shape"));
    let world = World {
        disk_bytes: shape.granules * shape.granule_bytes,
        did_bytes: distance,
        dpid_bytes: distance,
        band_bytes: band,
        ..World::paper(model, Drive::load("wdc-2tb").expect("a drive"))
    };
    (layout, world)
}

fn on_a_mount(layout: Layout, world: &World, options: &CourseOptions) -> Option<AgeingResult> {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let shape = data_shape(&layout.shape().expect("a shape"));
    let space = world.space(&shape).expect("a space");
    let [image, meta] = ["disk.img", "meta"].map(|name| folder.path().join(name));
    mkfs(&MkfsOptions { image: image.clone(), meta: meta.clone(), layout, force: false }).expect("a volume");
    let volume = Volume::open(&image, &Open::default()).expect("a volume");
    let core = FileSystem::mount(volume.device(), volume.store(), space, world.options()).expect("a file system");
    // As often as file systems in simulation commit.
    let mount = Mounted::of(core, volume.device(), [image, meta], Duration::from_secs(5))?;
    let mut place = Workplace::new(mount.path(), None, 1).expect("a workplace");
    assert_eq!(place.shape(), Some(shape), "the mount is found below the directory");
    Some(AgeingResult::run(options, &mut place, &mut |_| true).expect("a course"))
}

fn sum(sample: &Sample) -> u64 {
    sample.readable_bytes + sample.not_writable_bytes + sample.write_once_bytes + sample.writable_bytes
}
